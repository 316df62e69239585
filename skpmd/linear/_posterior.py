"""A posterior with too many coordinates for particles: a Gaussian without correlations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtr, ndtri

from skpmd._base.parameters import ParameterDraws, columns_of, with_names
from skpmd._base.utils import as_generator, check_n_draws, check_points, check_probabilities
from skpmd._typing import Array, ArrayLike, ArrayOrMore, RandomState
from skpmd.linear._design import normal_nodes
from skpmd.posterior import Posterior

_NODES = 512  # Predictions average over this many nodes.
_BLOCK = 1 << 22  # `expectation` draws at most this many numbers at once.
_REASON = (
    "{} is not available: the posterior is held as a Gaussian without correlations, which no "
    "weights of particles hold against the true one. Set covariance_type='full' where a matrix of "
    "all coordinates fits in memory."
)
_MISSING = ("particles", "ess", "pareto_k", "r_hat", "log_evidence", "log_evidence_se")
_NO_TABLE = (
    "{} is not available: there are no particles, which would have rows. summary() has a row for "
    "each coordinate, and to_arviz() has draws."
)
_TABLES = "to_frame", "to_xarray"


class GaussianPosterior:
    """A posterior distribution held as independent normals, one for each coordinate.

    It has the methods of `Posterior`, computed by formula, except for tables of particles. It lacks
    all correlations of the true posterior: its standard deviations are those of a coordinate given
    all others, which are at most as large as the marginal ones. Its means are where the expected
    gradient of the log posterior is zero. There are no diagnostics of its accuracy: neither k-hat,
    nor R-hat, nor evidence.

    The probabilities of a row depend on the coordinates only through the row's K logits, which are
    independent normals here. So K standard normal numbers, a column of ``nodes``, replace a
    particle with 100,000 coordinates. For each row they are scaled to the means and standard
    deviations of its own logits. Predictions are averages over nodes, which need hardly any memory.

    Parameters
    ----------
    loc, scale : ndarray of shape (d,)
        Means and standard deviations, in the units of the ``frame`` if there is one.
    names : sequence of str
        A name for each coordinate.
    n_logits : int
        Number K of logits.
    variables : dict of str to Variable, optional
        For exports: coordinates that together form one array, with the names of its axes. By
        default each coordinate is a variable of its own.
    coords : dict of str to sequence, optional
        Labels along the axes of these variables.
    frame : Units, optional
        Centres and units of columns, in which coordinates are independent. As given, an intercept,
        which is where columns are zero, then depends on the coefficients.

    Attributes
    ----------
    loc, scale : ndarray of shape (d,)
        Means and standard deviations in the given units.
    names, variables, coords, frame
        As given.
    nodes : ndarray of shape (K, m)
        Fixed (quasi-random) points that represent N(0, I).
    weights, log_weights : ndarray of shape (m,)
        Weights of the nodes, all equal.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianPosterior
    >>> posterior = GaussianPosterior(np.zeros(2), np.array([1.0, 2.0]), ["a", "b"])
    >>> posterior.interval(level=0.9).round(2).tolist()
    [[-1.64, 1.64], [-3.29, 3.29]]
    """

    def __init__(
        self, loc: Array, scale: Array, names: Sequence[str], n_logits: int = 1, *,
        variables: dict[str, Any] | None = None,
        coords: Mapping[str, Sequence[object]] | None = None, frame: Any = None,
    ) -> None:  # fmt: skip
        self._own = loc, scale
        self.loc, self.scale, self.names = loc, scale, names
        self.variables, self.coords, self.frame = variables, coords, frame
        if frame is not None:
            self.loc, self.scale = frame.inward(loc), frame.inward_sd(scale)
        self.nodes = normal_nodes(n_logits, _NODES)
        m = self.nodes.shape[1]
        self.weights, self.log_weights = np.full(m, 1.0 / m), np.full(m, -np.log(m))

    def __getattr__(self, name):
        """Say why there are no particles, diagnostics and evidence."""
        if name in _MISSING:
            raise AttributeError(_REASON.format(name))
        if name in _TABLES:
            raise AttributeError(_NO_TABLE.format(name))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getitem__(self, name: str) -> ParameterDraws:
        """A parameter, or a coordinate, by its name; see `Posterior`.

        Parameters
        ----------
        name : str
            A parameter, which may be an array, or one of ``names``.

        Returns
        -------
        ParameterDraws
            With ``mean()``, ``std()``, ``quantile(q)`` and ``interval(level)``, but no draws.

        Raises
        ------
        KeyError
            If there is no such name.
        """
        columns = columns_of(name, self.variables or {}, self.names)
        places = columns.ravel()
        part = GaussianPosterior(self.loc[places], self.scale[places], [name] * len(places))
        return ParameterDraws(part, columns.shape)

    __iter__ = None  # By names there is no first.

    def mean(self) -> Array:
        """Posterior mean, shape (d,).

        Returns
        -------
        ndarray of shape (d,)
            ``loc``.
        """
        return self.loc

    def std(self) -> Array:
        """Standard deviation of each coordinate given all others, shape (d,).

        Returns
        -------
        ndarray of shape (d,)
            ``scale``.
        """
        return self.scale

    def cov(self) -> Array:
        """Covariance, a matrix of full shape (d, d), diagonal where there is no ``frame``.

        Returns
        -------
        ndarray of shape (d, d)
            Covariance, which takes 8 d^2 bytes.
        """
        root = self._in_given(np.diag(self._own[1]))
        return root.T @ root

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each coordinate, shape (d,) or (k, d) for q of shape (k,).

        Parameters
        ----------
        q : float or array-like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (d,) or (k, d)
            Quantiles of the normals; infinite at 0 and 1.

        Raises
        ------
        ValueError
            If a probability does not lie in [0, 1].
        """
        q = check_probabilities("q", q)
        return self.loc + self.scale * ndtri(q)[..., None]

    def expectation(self, f: Callable[..., Any], n: int = 1000) -> ArrayOrMore:
        """Mean of f over n draws, which are the same in every call.

        Parameters
        ----------
        f : callable
            Takes draws of shape (k, d) and returns an array with leading axis k. It is called
            several times, so that not all draws are in memory at once.
        n : int, default=1000
            Number of draws.

        Returns
        -------
        ndarray or float
            Average, of the shape of one value of f.
        """
        rng, total = np.random.default_rng(0), 0.0
        block = max(1, _BLOCK // len(self.loc))
        for start in range(0, n, block):
            draws = with_names(self.sample(min(block, n - start), rng), self.variables)
            total = total + np.sum(f(draws), axis=0)
        return total / n

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, smooth: bool = False
    ) -> Array:
        """Draw points, shape (n_samples, d).

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.
        smooth : bool, default=False
            Without effect: all draws differ.

        Returns
        -------
        ndarray of shape (n_samples, d)
            Independent draws.

        Raises
        ------
        ValueError
            If n_samples is not an integer of at least 0.
        """
        n = check_n_draws("n_samples", n_samples, least=0)
        rng = as_generator(random_state)
        loc, scale = self._own
        return self._in_given(loc + scale * rng.standard_normal((n, len(loc))))

    def log_density(self, theta: ArrayLike) -> Array:
        """Log density at each row of theta, shape (n,).

        Parameters
        ----------
        theta : array-like of shape (n, d), or (d,) for one point
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Log of the normalised density, in nats.

        Raises
        ------
        ValueError
            If points have another number of coordinates, or are not finite.
        """
        (loc, scale), theta = self._own, check_points(theta, len(self.loc))
        log_normaliser = np.log(scale).sum() + 0.5 * len(loc) * np.log(2 * np.pi)
        if self.frame is not None:
            theta = self.frame.outward(theta)
            log_normaliser += self.frame.log_jacobian(theta)
        return -0.5 * (((theta - loc) / scale) ** 2).sum(axis=1) - log_normaliser

    def to_arviz(self, n_draws: int = 1000, random_state: RandomState = 0) -> Any:
        """Draws of the Gaussian for ArviZ, as in `Posterior.to_arviz`.

        Needs the extra: ``pip install skpmd[arviz]``.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws; each takes 8 bytes per coordinate.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Object with the group ``posterior``, in one chain.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If ``n_draws`` is not a positive integer.
        """
        n_draws, rng = check_n_draws("n_draws", n_draws), as_generator(random_state)
        draws = Posterior(
            self.sample(n_draws, rng), np.zeros(n_draws), names=self.names,
            variables=self.variables, coords=self.coords, caveat="draws of a Gaussian without "
            "correlations: intervals are too narrow where coordinates depend on each other",
        )  # fmt: skip
        return draws.to_arviz(n_draws, rng)

    interval, summary, _repr_html_ = Posterior.interval, Posterior.summary, Posterior._repr_html_
    _is_drawn = False

    def check(self) -> list[str]:
        """List reasons not to trust this posterior, as `Posterior.check` does.

        Returns
        -------
        list of str
            One or two sentences: that correlations are missing, and what to do.
        """
        return [
            "The posterior is held without correlations: intervals of single coordinates are too "
            "narrow where columns are correlated. Give covariance_type='full' where memory allows."
        ]

    def moments_in(self, frame: Any) -> tuple[Array, Array]:
        """Means and standard deviations in the frame, or in the given units.

        Parameters
        ----------
        frame : Units or None
            That of this posterior, or None for the given units.

        Returns
        -------
        loc, scale : ndarray of shape (d,)
            Means and standard deviations.
        """
        return (self.loc, self.scale) if frame is None else self._own

    def _in_given(self, u):
        return u if self.frame is None else self.frame.inward(u)

    def _p_positive(self):
        """Probability of a value above zero, (d,)."""
        return ndtr(self.loc / self.scale)

    def __repr__(self):
        return f"GaussianPosterior(d={len(self.loc)}, no correlations)"


def moments_of_logits(posterior, X, fit_intercept):
    """Means and standard deviations (n, K) of the logits of rows under a `GaussianPosterior`."""
    loc, scale = posterior.moments_in(posterior.frame)
    frame, shift = posterior.frame, None
    if frame is not None:
        shift = frame.shift if issparse(X) else None
        X = frame.rows(X)
    centre, spread = logit_moments(loc, scale**2, X, fit_intercept, shift)
    return centre, np.sqrt(spread)


def logits_at_nodes(posterior, X, fit_intercept):
    """Logits of rows at each node of a `GaussianPosterior`, shape (K, m, n).

    They are right for each row by itself. Dependence between rows is lost, because rows share the
    nodes but not their coefficients: draws are for functions of several rows.
    """
    centre, scale = moments_of_logits(posterior, X, fit_intercept)
    return centre.T[:, None] + scale.T[:, None] * posterior.nodes[:, :, None]


# ------------------------------------------------------------------- sums over rows
def logit_moments(mean, variance, X, fit_intercept, shift=None):
    """Means and variances of each row's logits, of rows less a ``shift`` (p,) if there is one.

    Means and variances (d,) are those of rows of coefficients one after the other, each with its
    intercept last; there are K = 1 logit or more, (n, K). Without variances they are None.
    """
    centre = products(X, mean, fit_intercept, shift)
    return centre, None if variance is None else _squares(X, variance, fit_intercept, shift)


def products(X, theta, fit_intercept, shift):
    """Each row times each row of coefficients, shape (n, K)."""
    slopes, intercepts = _slopes_and_intercepts(X, theta, fit_intercept)
    return X @ slopes.T + (intercepts if shift is None else intercepts - slopes @ shift)


def _squares(X, variance, fit_intercept, shift):
    """The squares of each row times each row of variances, shape (n, K)."""
    slopes, intercepts = _slopes_and_intercepts(X, variance, fit_intercept)
    table = _squared(X) @ slopes.T
    if shift is not None:
        table = np.maximum(table - 2.0 * (X @ (slopes * shift).T) + slopes @ shift**2, 0.0)
    return table + intercepts


def _slopes_and_intercepts(X, theta, fit_intercept):
    """Rows of coefficients, (K, p), and their intercepts."""
    rows = theta.reshape(-1, X.shape[1] + fit_intercept)
    return rows[:, : X.shape[1]], rows[:, -1] if fit_intercept else 0.0


def weighted_sum(X, table, fit_intercept, shift):
    """Sum over rows of table[n, k] x_n, where x_n may have a one for the intercept, shape (d,)."""
    slopes = (X.T @ table).T
    if shift is not None:
        slopes = slopes - np.outer(table.sum(axis=0), shift)
    return _with_ones(slopes, table, fit_intercept)


def weighted_squares(X, table, fit_intercept, shift):
    """The same of the squares of x_n."""
    slopes = (_squared(X).T @ table).T
    if shift is not None:
        slopes = slopes - 2.0 * shift * (X.T @ table).T + np.outer(table.sum(axis=0), shift**2)
    return _with_ones(slopes, table, fit_intercept)


def _with_ones(slopes, table, fit_intercept):
    if fit_intercept:
        slopes = np.column_stack([slopes, table.sum(axis=0)])
    return slopes.ravel()


def _squared(X):
    return X.multiply(X).tocsr() if issparse(X) else X * X
