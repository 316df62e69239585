"""Predictive distributions of real-valued targets: a mixture of normals for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from inspect import signature
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from skpmd._base.normal_mixtures import (
    LOG_ROOT_TWO_PI,
    least_quantile,
    mean_abs,
    scaled,
    weighted,
)
from skpmd._base.utils import (
    as_floats,
    as_generator,
    check_level,
    check_n_draws,
    check_probabilities,
    fill_docstrings,
)
from skpmd._typing import Array, ArrayLike, RandomState

_NODES = 64  # Of a rule for expectations.
# What docstrings of distributions have in common, in the place of names in angle brackets.
TEXTS = {
    "<y>": """
        Parameters
        ----------
        y : float or array-like of shape (n,) or (..., n)
            Targets, in the units of the means (of a binomial, numbers of successes); a single
            number is used for all rows.

        Returns
        -------
        ndarray of shape (n,) or that of y
        """,
    "<errors>": """
        Raises
        ------
        ValueError
            If y has another number of rows, or holds nan.
        """,
    "<draws>": """
        Returns
        -------
        ndarray of shape (n_samples, n)
            Draws, in the units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not an integer of at least 0.
        """,
}
# What the methods of `PredictiveDistribution` ask of a distribution.
_HOOKS = {"_mean", "_var", "_log_pdf", "_probability", "_quantiles", "_energy", "_crps"}


class Uncertainty(NamedTuple):
    """Uncertainty of the prediction of each row, and its parts; each an array of shape (n,).

    For classes these are entropies in nats, for a regression variances in squared units of y.

    Attributes
    ----------
    total : ndarray of shape (n,)
        The sum of the other two.
    aleatoric : ndarray of shape (n,)
        Part that would remain if all parameters were known.
    epistemic : ndarray of shape (n,)
        Part that more rows can remove.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> X, y = load_iris(return_X_y=True)
    >>> found = BayesianLogisticRegressionPMD(random_state=0).fit(X, y).predict_uncertainty(X)
    >>> found.total.shape, bool((found.epistemic < found.total).all())
    ((150,), True)
    """

    total: np.ndarray  # The sum of the other two.
    aleatoric: np.ndarray  # What would be left if all parameters were known.
    epistemic: np.ndarray  # What more rows can take away.


class PredictiveDistribution:
    """Base of the distributions of n rows that ``predict_proba`` of regressors returns.

    Scores, decisions and displays take any of them: `NormalMixture`, and `FamilyMixture` of linear
    models. All have ``sample`` and a density, or probabilities of counts, and what is below.
    Methods have the same names as in skpro's distributions, return arrays, and treat each row by
    itself. Conversion to an array gives means and standard deviations, shape (n, 2). Indexing
    selects rows. Methods of ``y`` take one number for all rows, an array of shape (n,), or an array
    of shape (..., n). Their result has the shape of y, or (n,) if y is a number.

    Examples
    --------
    >>> from skpmd.predictive import NormalMixture, PredictiveDistribution
    >>> isinstance(NormalMixture([0.0], [1.0]), PredictiveDistribution)
    True
    """

    @property
    def is_count(self) -> bool:
        """Whether values are whole numbers, which have probabilities and no densities."""
        return False

    # ------------------------------------------------------------------ an array of rows
    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2), the shape of the array of means and standard deviations."""
        return len(self), 2

    def __getitem__(self, rows):
        """The distributions of some rows: an integer, a slice, a mask or integers."""
        rows = np.atleast_1d(np.arange(len(self))[rows])
        if rows.ndim > 1:
            raise IndexError(f"rows must be picked by an index of one axis, got {rows.ndim} axes.")
        return self._part(rows)

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError(f"a {type(self).__name__} is no array: leave copy=False out.")
        table = np.column_stack([self.mean(), self.std()])
        return table if dtype is None else table.astype(dtype)

    @classmethod
    def joined(cls: type[Self], parts: Sequence[Self]) -> Self:
        """Join the rows of several distributions into one.

        Parameters
        ----------
        parts : sequence of distributions of this class
            At least one distribution; all must have the same particles, or as many components.

        Returns
        -------
        NormalMixture or FamilyMixture
            Rows of all parts, in this order.

        Raises
        ------
        ValueError
            If parts have other particles or components.
        """
        return parts[0]._joined(parts)

    # ------------------------------------------------------------------ moments
    def mean(self) -> Array:
        """Means, shape (n,).

        Returns
        -------
        ndarray of shape (n,)
            Values in the units of y.
        """
        return self._mean()

    def var(self) -> Array:
        """Variances, shape (n,): within components, or particles, and between them.

        Returns
        -------
        ndarray of shape (n,)
            Variances in squared units of y.
        """
        return self._var()

    def std(self) -> Array:
        """Standard deviations, shape (n,), the square roots of `var`.

        Returns
        -------
        ndarray of shape (n,)
            Values in the units of y.
        """
        return np.sqrt(self.var())

    # ------------------------------------------------------------------ density and probabilities
    def log_score(self, y: ArrayLike) -> Array:
        """Log density of row i at y_i, or of counts log probability.

        <y>
            In nats.

        <errors>
        """
        found: Array = getattr(self, "log_pmf" if self.is_count else "log_pdf")(y)
        return found

    def log_pdf(self, y: ArrayLike) -> Array:
        """Log density of row i at y_i; infinite at the value of a constant.

        <y>
            Log densities, in nats, per unit of y.

        Raises
        ------
        ValueError
            If values are counts, y has another number of rows, or it holds nan.
        """
        return self._log_pdf(y)

    def pdf(self, y: ArrayLike) -> Array:
        """Density of row i at y_i, the exponential of `log_pdf`.

        <y>
            Densities, per unit of y.

        <errors>
        """
        return np.exp(self.log_pdf(y))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of values up to y_i in row i.

        <y>
            Probabilities.

        <errors>
        """
        return self._probability(y, upper=False)

    def sf(self, y: ArrayLike) -> Array:
        """Probability of values above y_i in row i, accurate also in the upper tail.

        <y>
            Probabilities.

        <errors>
        """
        return self._probability(y, upper=True)

    surv = sf  # its name in skpro

    # ------------------------------------------------------------------ quantiles
    def ppf(self, q: ArrayLike) -> Array:
        """Quantiles, the least values whose `cdf` is q or more.

        Parameters
        ----------
        q : float or array-like of shape (j,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (n,) or (n, j)
            Quantiles, as exact as the class says. A probability above 0.5 is used as 1 - q, so that
            the upper tail is as exact as q is.

        Raises
        ------
        ValueError
            If q has more than one axis, or a number outside of [0, 1].
        """
        q = check_probabilities("q", q)
        if q.ndim > 1:
            raise ValueError(f"q must be a number or have shape (j,), got {q.shape}.")
        tails = [(one, False) if one <= 0.5 else (1.0 - one, True) for one in q.ravel().tolist()]
        found = self._quantiles(tails)
        return found[0] if q.ndim == 0 else found.T

    quantile = ppf

    def interval(self, level: float = 0.9) -> Array:
        """Central intervals, shape (n, 2): lower and upper end, quantiles as `ppf` finds them.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Probability of each interval; those of counts hold that or more.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends, in the units of y.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        tail = check_level(level)[0]
        return self._quantiles([(tail, False), (tail, True)]).T

    # ------------------------------------------------------------------ scores
    def energy(self, y: ArrayLike | None = None) -> Array:
        """E|Y - y_i| in row i, or without y, E|Y - Y'| of two independent draws; shape (n,).

        Parameters
        ----------
        y : float or array-like of shape (n,) or (..., n), default=None
            Targets, in the units of the means; a single number is used for all rows.

        Returns
        -------
        ndarray of shape (n,) or that of y
            Mean distances, in the units of y.

        <errors>
        """
        return self._energy(y)

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of row i at y_i, in the units of y; less is better.

        It is the integral of the squared difference of the cdf and of a step at y_i, of counts the
        sum over all of them: E|Y - y| - E|Y - Y'| / 2 (Gneiting and Raftery 2007, equation 21).

        <y>
            Scores.

        <errors>
        """
        return self._crps(y)

    # ------------------------------------------------------------------ skpro
    def to_skpro(self, index: Any = None, columns: Any = None) -> Any:
        """Convert to a distribution object of skpro, of shape (n, 1).

        Parameters
        ----------
        index, columns : pandas.Index, default=None
            Names of the n rows and of the one column, as in the data frame of the targets; numbers
            by default.

        Returns
        -------
        skpro.distributions.base.BaseDistribution
            Of one normal a `skpro.distributions.Normal`; of several a subclass of skpro's
            NormalMixture that computes the energy correctly; of others one that asks this object.

        Raises
        ------
        ImportError
            If skpro is not installed (``pip install skpmd[skpro]``).
        ValueError
            If the standard deviation of a normal is 0.
        """
        return self._to_skpro(index, columns)

    def _targets(self, y):
        """y as an array of numbers, one or (n,) or (..., n); ValueError where it is none."""
        y, n = as_floats("y", y), len(self)
        if y.ndim and y.shape[-1] != n:
            raise ValueError(
                f"y must be a number or have as many values as there are rows, shape ({n},) or "
                f"(..., {n}), got {y.shape}."
            )
        if np.isnan(y).any():
            raise ValueError("y must not hold nan: leave rows without a value out.")
        return y


class NormalMixture(PredictiveDistribution):
    """Distributions of n rows, each a mixture of k normals with its own or shared weights.

    Methods, rows and shapes are as of `PredictiveDistribution`. Quantiles are accurate to about 14
    digits relative to the width of the distribution there. Scores are in closed form (Grimit et al.
    2006), and take time proportional to k^2 n.

    Parameters
    ----------
    means, stds : array-like of shape (k, n), or (n,) for one component
        Means and standard deviations of the components. A component of standard deviation 0 is a
        constant.
    weights : array-like of shape (k,) or (k, n), default=None
        Probabilities of the components, which add up to 1; equal by default.

    Attributes
    ----------
    means, stds, weights : ndarray of shape (k, n)
        As given, with weights for each row, divided by their sum.

    Raises
    ------
    ValueError
        If the shapes do not match, a number is nan or infinite, a standard deviation is negative,
        or weights do not add up to 1.

    Examples
    --------
    >>> from skpmd.predictive import NormalMixture
    >>> bimodal = NormalMixture(means=[[-2.0], [2.0]], stds=[[1.0], [1.0]])
    >>> bimodal.mean(), bimodal.var()
    (array([0.]), array([5.]))
    >>> bimodal.interval(level=0.9).round(2)
    array([[-3.28,  3.28]])
    >>> bimodal.crps(2.0).round(3)
    array([1.116])
    """

    def __init__(self, means: ArrayLike, stds: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.means, self.stds = _table("means", means), _table("stds", stds)
        if self.means.ndim != 2 or self.means.shape != self.stds.shape or not len(self.means):
            raise ValueError(
                f"means and stds must have one shape (k, n) with k at least 1, got "
                f"{self.means.shape} and {self.stds.shape}."
            )
        if (self.stds < 0.0).any():
            raise ValueError(f"stds must be at least 0, got {self.stds.min()}.")
        self.weights = np.broadcast_to(_shares(weights, self.means.shape), self.means.shape)

    # ------------------------------------------------------------------ an array of rows
    def __len__(self):
        return self.means.shape[1]

    def _joined(self, parts):
        tables = ([getattr(one, name) for one in parts] for name in ("means", "stds", "weights"))
        whole = copy(self)  # Without normalising the weights again.
        whole.means, whole.stds, whole.weights = (np.concatenate(one, axis=1) for one in tables)
        return whole

    def _part(self, rows):
        part = copy(self)  # without normalising the weights again, which could cost a digit
        part.means, part.stds = self.means[:, rows], self.stds[:, rows]
        part.weights = self.weights[:, rows]
        return part

    def __repr__(self):
        return f"NormalMixture({len(self)} rows, {len(self.means)} components)"

    # ------------------------------------------------------------------ moments
    def _mean(self):
        return weighted(self.weights, self.means)

    def _var(self):
        return weighted(self.weights, self.stds**2 + (self.means - self.mean()) ** 2)

    def expectation(self, f: Callable[..., Any]) -> Array:
        """Means of f(y) under the distribution of each row, shape (n,).

        Parameters
        ----------
        f : callable
            Takes an array of targets of any shape and returns values of the same shape. It should
            be smooth: Gauss-Hermite rules of 64 points integrate it over each component.

        Returns
        -------
        ndarray of shape (n,)
            Means.

        Raises
        ------
        ValueError
            If f returns values of another shape than it takes.

        Examples
        --------
        >>> import numpy as np
        >>> from skpmd.predictive import NormalMixture
        >>> NormalMixture(means=[0.0, 1.0], stds=[1.0, 0.5]).expectation(np.exp).round(3)
        array([1.649, 3.08 ])
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        weights, total = weights / weights.sum(), np.zeros(self.means.shape)
        # Components without weight are where others are: f may have no value elsewhere.
        is_empty = self.weights == 0.0
        means = np.where(is_empty, self.mean(), self.means)
        stds = np.where(is_empty, 0.0, self.stds)
        for node, weight in zip(nodes, weights, strict=True):
            values = np.asarray(f(means + stds * node), dtype=np.float64)
            if values.shape != total.shape:
                raise ValueError(
                    f"f must return values of the shape that it takes, {total.shape}, got "
                    f"{values.shape}."
                )
            total += weight * values
        return weighted(self.weights, total)

    # ------------------------------------------------------------------ density and probabilities
    def _log_pdf(self, y):
        return self._at(y, self._log_density)

    def log_cdf(self, y: ArrayLike) -> Array:
        """Logarithm of `cdf`, accurate in both tails.

        <y>
            Log probabilities, in nats.

        <errors>
        """
        return self._at(y, lambda y: self._log_below(self._scaled(y)))

    def log_sf(self, y: ArrayLike) -> Array:
        """Logarithm of `sf`, accurate in both tails.

        <y>
            Log probabilities, in nats.

        <errors>
        """
        return self._at(y, lambda y: self._log_below(-self._scaled(y)))

    # ------------------------------------------------------------------ draws
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draws, shape (n_samples, n).

        Parameters
        ----------
        n_samples : int, default=1
            Draws of each row, independent of those of other rows.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        <draws>
        """
        n_samples = check_n_draws("n_samples", n_samples, least=0)
        rng = as_generator(random_state)
        uniform = rng.random((n_samples, len(self)))
        component = np.zeros(uniform.shape, dtype=int)
        for end in np.cumsum(self.weights, axis=0)[:-1]:
            component += uniform >= end
        rows = np.arange(len(self))
        noise = rng.standard_normal(uniform.shape)
        return self.means[component, rows] + self.stds[component, rows] * noise

    # ------------------------------------------------------------------ scores
    def _energy(self, y):
        if y is not None:
            return self._at(
                y, lambda y: weighted(self.weights, mean_abs(self.means - y, self.stds))
            )
        total = np.zeros(len(self))
        for i, (weight, mean, std) in enumerate(
            zip(self.weights, self.means, self.stds, strict=True)
        ):
            # Pairs of components, each once: the one before and the one after are the same.
            distance = mean_abs(self.means[i:] - mean, np.hypot(self.stds[i:], std))
            pairs = 2.0 * weighted(self.weights[i:], distance)
            total += weight * (pairs - self.weights[i] * distance[0])
        return total

    def _crps(self, y):
        return self.energy(as_floats("y", y)) - 0.5 * self.energy()

    def _to_skpro(self, index, columns):
        if not (self.stds > 0.0).all():
            raise ValueError(
                f"to_skpro needs standard deviations above 0, and {(self.stds == 0.0).sum()} of "
                f"stds are 0: give these rows a noise, or leave them out."
            )
        normal, mixture = _skpro_classes()
        if len(self.means) == 1:
            return normal(self.means.T, self.stds.T, index=index, columns=columns)
        return mixture(
            self.weights.T, self.means.T[..., None], self.stds.T[..., None], index, columns
        )

    # ------------------------------------------------------------------ parts of the above
    def _at(self, y, function):
        """Values of a function of (n,), row by row of y, which keeps memory at k n numbers."""
        y, n = self._targets(y), len(self)
        if y.ndim < 2:
            return function(y)
        rows = y.reshape(prod(y.shape[:-1]), n)
        return np.reshape([function(row) for row in rows], y.shape)

    def _probability(self, y, upper):
        """Probabilities up to y, or above."""
        return self._at(y, lambda y: self._below(-self._scaled(y) if upper else self._scaled(y)))

    def _scaled(self, y):
        return scaled(y, self.means, self.stds)

    def _log_density(self, y):
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            terms = -0.5 * self._scaled(y) ** 2 - np.log(self.stds) - LOG_ROOT_TWO_PI
        constant = np.where(y == self.means, np.inf, -np.inf)
        return self._log_average(np.where(self.stds > 0.0, terms, constant))

    def _below(self, z):
        """Probability below values, given in standard deviations of each component (k, n)."""
        return np.minimum(weighted(self.weights, ndtr(z)), 1.0)

    def _log_below(self, z):
        out, above = self._log_average(log_ndtr(z)), self._below(-z)
        return np.log1p(-above, out=out, where=above < 0.5)

    def _log_average(self, terms):
        """Log of the weighted average of exponentials, shape (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self.weights > 0.0, np.log(self.weights) + terms, -np.inf)
        return logsumexp(terms, axis=0)

    def _quantiles(self, tails):
        """Values (j, n) with probabilities of at most 0.5 below them, or above."""
        found = [self._quantile(*tail) for tail in tails]
        return np.reshape(found, (len(tails), len(self)))

    def _quantile(self, tail, upper):
        if not upper:
            return least_quantile(self.means, self.stds, self.weights, tail, np.greater_equal)
        # Of -Y. Where a jump of the cdf ends at q itself, the least value is below the jump after.
        return 0.0 - least_quantile(-self.means, self.stds, self.weights, tail, np.greater)


class JoinedDistribution(PredictiveDistribution):
    """Distributions of n rows, some from one fit and some from others, which have other particles.

    It has the methods that its parts have, with their arguments and shapes: ``mean``, ``std``,
    ``cdf``, ``ppf``, ``interval``, ``crps`` and so on; draws of different parts are independent.
    Indexing selects rows. Conversion to an array gives means and standard deviations, shape (n, 2).

    Parameters
    ----------
    parts : sequence of k PredictiveDistribution
        The distributions, all of one kind.
    places : sequence of k array-likes of shape (n_rows,)
        Of each part the places (int) of its rows; all together are 0 to n - 1.

    Examples
    --------
    >>> from skpmd import FamilyMixture
    >>> from skpmd.wrappers import JoinedDistribution
    >>> parts = [FamilyMixture("poisson", [[1.0]], [[mean]]) for mean in (2.0, 3.0)]
    >>> JoinedDistribution(parts, [[1], [0]]).mean()
    array([3., 2.])
    """

    def __init__(
        self, parts: Sequence[PredictiveDistribution], places: Sequence[ArrayLike]
    ) -> None:
        self._parts, self._places = list(parts), [np.asarray(one, dtype=int) for one in places]

    @property
    def is_count(self) -> bool:
        """See `PredictiveDistribution`."""
        return self._parts[0].is_count

    def _to_skpro(self, index, columns):
        return type(self._parts[0])._to_skpro(self, index, columns)

    def __len__(self):
        return sum(map(len, self._places))

    def _part(self, rows):
        parts, places = [], []
        for one, own in zip(self._parts, self._places, strict=True):
            at, order = np.flatnonzero(np.isin(rows, own)), np.argsort(own)
            parts.append(one[order[np.searchsorted(own, rows[at], sorter=order)]])
            places.append(at)
        return JoinedDistribution(parts, places)

    def __repr__(self):
        return f"JoinedDistribution({len(self)} rows, {self._parts})"

    def __getattr__(self, name: str) -> Callable[..., Array]:
        """A method of all parts, of which each has the y of its own rows."""
        is_known = name in _HOOKS or not name.startswith("_")  # Copies ask for others.
        methods = [getattr(one, name) for one in self._parts] if is_known else []
        if not methods or not callable(methods[0]):
            raise AttributeError(f"JoinedDistribution has no {name}: its parts have their own.")
        taken = signature(methods[0])

        def called(*args, **kwargs):
            given = taken.bind(*args, **kwargs).arguments
            if "random_state" in taken.parameters:
                given["random_state"] = as_generator(given.get("random_state"))
            each = [given] * len(methods)
            if np.ndim(given.get("y")):
                y, n = as_floats("y", given["y"]), len(self)
                if y.shape[-1] != n:
                    raise ValueError(f"y must have as many values as rows, {n}, got {y.shape}.")
                each = [{**given, "y": y[..., own]} for own in self._places]
            found = [method(**some) for method, some in zip(methods, each, strict=True)]
            axis = -1 if {"y", "random_state", "tails"} & set(taken.parameters) else 0
            order = np.argsort(np.concatenate(self._places))
            return np.take(np.concatenate(found, axis=axis), order, axis=axis)

        return called


for _kind in (PredictiveDistribution, NormalMixture):
    fill_docstrings(TEXTS, *vars(_kind).values())


def _table(name, values):
    """A copy of shape (k, n), finite."""
    values = np.array(values, dtype=float, order="C", ndmin=2)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got nan or infinite values.")
    return values


def _shares(weights, shape):
    """Weights of shape (k, 1) or (k, n), which add up to 1."""
    k, n = shape
    weights = np.full(k, 1.0 / k) if weights is None else weights
    weights = np.asarray(weights, dtype=float, order="C")
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in ((k, 1), (k, n)):
        raise ValueError(f"weights must have shape ({k},) or ({k}, {n}), got {weights.shape}.")
    total = weights.sum(axis=0)
    if not ((weights >= 0.0).all() and np.allclose(total, 1.0)):
        raise ValueError(
            f"weights must be probabilities which add up to 1 over the {k} components: divide "
            f"them by their sum."
        )
    return weights / total


@cache
def _skpro_classes():
    """skpro's `Normal`, and its `NormalMixture` with the right self-energy.

    Of the mixture skpro 2.16 leaves the distance of the means out of E|Y - Y'|, and so out of its
    CRPS. (Its more general `Mixture` estimates this from draws that are all of one component.)
    Made here, when it is asked for, because skpro may not be installed.
    """
    try:
        from skpro.distributions import Normal
        from skpro.distributions import NormalMixture as Theirs
    except ImportError as error:
        raise ImportError(
            "to_skpro needs skpro 2.12 or newer: pip install skpmd[skpro]."
        ) from error

    class ExactNormalMixture(Theirs):
        def _energy_self(self):
            mixture = NormalMixture(self._mu[..., 0].T, self._sigma[..., 0].T, self._pi.T)
            return mixture.energy()[0] if self.ndim == 0 else mixture.energy()[:, None]

        def _iloc(self, rowidx=None, colidx=None):
            part = super()._iloc(rowidx, colidx)
            return type(self)(**part.get_params(deep=False))

        def _iat(self, rowidx=None, colidx=None):
            part = super()._iat(rowidx, colidx)
            return type(self)(**part.get_params(deep=False))

        def __reduce__(self):
            return _skpro_mixture, tuple(self.get_params(deep=False).items())

    return Normal, ExactNormalMixture


def _skpro_mixture(*parameters):
    """A mixture out of a pickle."""
    return _skpro_classes()[1](**dict(parameters))
