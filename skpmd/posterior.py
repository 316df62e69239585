"""The posterior as weighted particles: summaries, draws, diagnostics and exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skpmd._base.parameters import (
    ParameterDraws,
    WeightedDraws,
    columns_of,
    with_names,
)
from skpmd._base.utils import (
    as_generator,
    check_n_draws,
    check_points,
)
from skpmd._export import Variable, to_arviz, to_frame, to_html, to_xarray
from skpmd._typing import Array, ArrayLike, ArrayOrMore, Frame, RandomState
from skpmd.engine import kde
from skpmd.engine.diagnostics import MAX_K, MAX_R_HAT, heavy_tail
from skpmd.engine.edges import Unbounded
from skpmd.engine.particles import (
    deviations,
    effective_sample_size,
    log_sum_exp,
    random_draws,
)
from skpmd.engine.particles import log_weights as normalised
from skpmd.proposals import fitted_density
from skpmd.proposals.fitted_density import FittedDensity

# Smooth draws outside the support are drawn anew so many times; their share is known by so many.
_ROUNDS, _N_MASS = 100, 1 << 13
_ROUNDING = 1e-6  # Of coordinates that sum to one.
_UNAVAILABLE = "{} is not available: {}."
_FEW_DRAWS, _LARGE_SE = 100, 0.5


class Posterior(WeightedDraws):
    """A posterior distribution held as weighted particles.

    Estimators build it, and it is the same class for all of them. Averages are weighted averages
    over the particles, and `sample` draws particles. `log_density` and smooth draws are those of a
    kernel density estimate of the particles with shrinkage (Liu and West 2001), within the support.

    Parameters
    ----------
    particles : ndarray of shape (m, d), float64
        Positions.
    log_weights : ndarray of shape (m,), float64
        Log weights; normalised here.
    names : sequence of str, optional
        A name for each coordinate; default ``theta0, theta1, ...``
    ess : float, optional
        Effective number of draws, if the draws are not independent. By default it is Kish's
        effective sample size of the weights.
    pareto_k, r_hat, log_evidence, log_evidence_se : float, optional
        Diagnostics and evidence, where they are known; see the attributes.
    unavailable : str, optional
        Why k-hat or the evidence is not available, for the error that access to them raises.
    caveat : str, optional
        What the draws do not account for, shown in the repr.
    variables : dict of str to Variable, optional
        For exports: coordinates that together form one array, with the names of its axes. By
        default each coordinate is a variable of its own.
    coords : dict of str to sequence, optional
        Labels along the axes of these variables.
    weighting : str, optional
        Kind of the weights; default ``"posterior"``.
    log_joint : ndarray of shape (m,), optional
        Log of prior times likelihood at each particle, up to a constant, where it is known.
    support : tuple of two ndarray of shape (d,), optional
        Lower and upper bounds of the coordinates, if known; infinite for a coordinate without
        bounds.
    simplex : array-like of int, shape (k,), optional
        Places of coordinates that are positive and sum to one.
    log_prior : callable, optional
        Takes points of shape (k, d), and returns numbers of shape (k,) that are -inf where the
        prior has no density; for a support that bounds of single coordinates do not describe. It is
        left out of pickles and files.
    concerns : sequence of str, optional
        Reasons not to trust the posterior that its own numbers do not tell, for `check`.
    rows : EarlierRows, optional
        The rows, or what represents them, for a further fit for which a density of the particles is
        not enough; see the user guide on priors. Set it to None before passing the posterior to
        anyone who must not see the rows.
    frame : Units, optional
        Centres and units of columns in which the posterior was found. Densities are fitted in
        these, where coordinates are of one size and hardly correlated.

    Attributes
    ----------
    particles, log_weights, names, log_joint, support, rows, frame
        As given, with normalised weights.
    weights : ndarray of shape (m,)
        Normalised weights.
    ess : float
        Effective sample size, between 1 and m. After Hamiltonian moves it is the smallest effective
        number of draws for the mean or variance of any coordinate, and at most m if the chains made
        more draws than were retained.
    pareto_k : float
        Pareto k-hat. If it is above 0.7, do not trust averages over the particles, unless the
        weights are nearly equal (k-hat does not depend on the scale of their differences).
    r_hat : float
        Rank-normalised split R-hat, if the particles come from Hamiltonian moves. Trust the
        particles if it is below 1.05.
    log_evidence, log_evidence_se : float
        Log marginal likelihood and its standard error, in nats.

    Raises
    ------
    ValueError
        If the shapes do not match, or no log weight is finite.

    References
    ----------
    Liu, J. and West, M. (2001). Combined parameter and state estimation in simulation-based
    filtering. In Sequential Monte Carlo Methods in Practice, Springer.

    Vehtari, A., Gelman, A., Simpson, D., Carpenter, B. and Bürkner, P.-C. (2021).
    Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of
    MCMC. Bayesian Analysis 16.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import Posterior
    >>> rng = np.random.default_rng(0)
    >>> posterior = Posterior(rng.normal(size=(500, 2)), np.zeros(500), names=["a", "b"])
    >>> posterior.mean().shape, posterior.interval(level=0.9).shape
    ((2,), (2, 2))
    >>> posterior["b"].interval(level=0.9).shape
    (2,)
    >>> posterior.log_density(posterior.sample(3, random_state=0)).shape
    (3,)
    """

    def __init__(
        self,
        particles: Array,
        log_weights: Array,
        *,
        names: Sequence[str] | None = None,
        ess: float | None = None,
        pareto_k: float | None = None,
        r_hat: float | None = None,
        log_evidence: float | None = None,
        log_evidence_se: float | None = None,
        unavailable: str = "the posterior was built without it",
        caveat: str | None = None,
        variables: dict[str, Any] | None = None,
        coords: Mapping[str, Sequence[object]] | None = None,
        weighting: str = "posterior",
        log_joint: Array | None = None,
        support: tuple[Array, Array] | None = None,
        simplex: ArrayLike | None = None,
        log_prior: Callable[..., Any] | None = None,
        concerns: Sequence[str] = (),
        rows: Any = None,
        frame: Any = None,
    ) -> None:
        self.particles = np.asarray(particles, dtype=np.float64)
        log_weights = np.asarray(log_weights, dtype=np.float64)
        if self.particles.ndim != 2 or log_weights.shape != self.particles.shape[:1]:
            raise ValueError(
                f"particles must have shape (m, d) and log_weights (m,); got "
                f"{self.particles.shape} and {log_weights.shape}."
            )
        if np.isnan(log_weights).any() or not np.isfinite(log_sum_exp(log_weights)):
            raise ValueError("log_weights must hold a finite value and neither nan nor +inf.")
        self.log_weights = normalised(log_weights)
        self.weights = np.exp(self.log_weights)
        d = self.particles.shape[1]
        self.names = [f"theta{j}" for j in range(d)] if names is None else [str(n) for n in names]
        if len(self.names) != d:
            raise ValueError(f"names has {len(self.names)} entries for {d} coordinates.")
        self.ess = float(effective_sample_size(self.log_weights) if ess is None else ess)
        self._pareto_k = pareto_k
        self._r_hat = r_hat
        self._log_evidence = log_evidence
        self._log_evidence_se = log_evidence_se
        self._unavailable = unavailable
        self.caveat, self.variables, self.coords = caveat, variables, coords
        if simplex is not None:
            lower, upper = np.full((2, d), [[-np.inf], [np.inf]]) if support is None else support
            support = np.where(np.isin(np.arange(d), simplex), 0.0, lower), upper
        self.weighting, self.log_joint, self.support = weighting, log_joint, support
        self.simplex, self.log_prior, self._needs_prior = simplex, log_prior, False
        self.concerns, self.rows, self._kde, self._fitted = list(concerns), rows, None, {}
        self.frame = frame

    @property
    def pareto_k(self) -> float:
        """Pareto k-hat of the importance weights; raises AttributeError where there is none.

        It is nan of equally weighted particles that moves from the prior have made.
        """
        return self._available("pareto_k", self._pareto_k)

    @property
    def r_hat(self) -> float:
        """R-hat of Hamiltonian moves; raises AttributeError if there were none."""
        missing = "the particles are weighted draws, see pareto_k"
        return self._available("r_hat", self._r_hat, missing)

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood in nats; raises AttributeError where it is not known."""
        return self._available("log_evidence", self._log_evidence)

    @property
    def log_evidence_se(self) -> float:
        """Standard error of `log_evidence`; raises AttributeError where it is not known."""
        return self._available("log_evidence_se", self._log_evidence_se)

    def __getitem__(self, name: str) -> ParameterDraws:
        """Weighted draws of a parameter, ``posterior["b"]``, or of a coordinate, by its name.

        Parameters
        ----------
        name : str
            A parameter, which may be an array (``"coef"``), or one of ``names`` (``"hours"``).

        Returns
        -------
        ParameterDraws
            With ``mean()``, ``std()``, ``quantile(q)`` and ``interval(level)`` of its shape.

        Raises
        ------
        KeyError
            If there is no such name; it lists those that there are.
        """
        columns = columns_of(name, self.variables or {}, self.names)
        part = Posterior(self.particles[:, columns.ravel()], self.log_weights)
        return ParameterDraws(part, columns.shape)

    __iter__ = None  # By names there is no first.

    def mean(self) -> Array:
        """Posterior mean, shape (d,).

        Returns
        -------
        ndarray of shape (d,), float64
            Weighted average of the particles.
        """
        return self.weights @ self.particles

    def cov(self) -> Array:
        """Posterior covariance, shape (d, d).

        Returns
        -------
        ndarray of shape (d, d), float64
            Weighted covariance of the particles.
        """
        centred = self.particles - self.mean()
        return (centred.T * self.weights) @ centred

    def std(self) -> Array:
        """Posterior standard deviations, shape (d,).

        Returns
        -------
        ndarray of shape (d,), float64
            Roots of the diagonal of `cov`.
        """
        return deviations(self.weights, self.particles)

    def expectation(self, f: Callable[..., Any]) -> ArrayOrMore:
        """Posterior mean of f.

        Parameters
        ----------
        f : callable
            Takes particles of shape (m, d) and returns an array with leading axis m. The particles
            also take names of parameters and of coordinates: ``theta["coef"]``, ``theta["hours"]``.

        Returns
        -------
        ndarray or float
            Average over particles, of the shape of one value of f.

        Raises
        ------
        ValueError
            If f does not return one value for each particle.
        """
        return np.tensordot(self.weights, self._values(f), axes=1)[()]

    def derive(self, f: Callable[..., Any]) -> ParameterDraws:
        """Weighted draws of a function of the parameters, such as a ratio of two of them.

        Parameters
        ----------
        f : callable
            As in `expectation`.

        Returns
        -------
        ParameterDraws
            With ``mean()``, ``std()``, ``quantile(q)`` and ``interval(level)``, as of a parameter.

        Raises
        ------
        ValueError
            If f does not return one value for each particle.

        Examples
        --------
        >>> import numpy as np
        >>> from skpmd import Posterior
        >>> particles = np.random.default_rng(0).gamma(9.0, size=(1000, 2))
        >>> posterior = Posterior(particles, np.zeros(1000), names=["old", "new"])
        >>> posterior.derive(lambda theta: theta["new"] / theta["old"]).interval(level=0.9).round(1)
        array([0.5, 2.2])
        """
        values = self._values(f)
        flat = Posterior(values.reshape(len(values), -1), self.log_weights)
        return ParameterDraws(flat, values.shape[1:])

    def _values(self, f):
        """Values of f at all particles, with leading axis m."""
        coordinates = {name: Variable(np.array(j)) for j, name in enumerate(self.names)}
        theta = with_names(self.particles, coordinates | (self.variables or {}))
        values = np.asarray(f(theta)) if callable(f) else np.empty(0)
        if values.shape[:1] != self.weights.shape:
            raise ValueError(
                f"f must return one value per particle, leading axis {len(self.weights)}, got "
                f"shape {values.shape}."
            )
        return values

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, smooth: bool = False
    ) -> Array:
        """Draw from the posterior.

        Draws are particles, chosen by their weights (systematic resampling in random order), as
        `quantile` and exports have them. If there are more draws than particles, or a few particles
        carry much of the weight, some particles are drawn several times.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.
        smooth : bool, default=False
            Whether to draw from the density that `log_density` evaluates instead, so that no two
            draws are the same. Means and standard deviations are those of the particles.

        Returns
        -------
        ndarray of shape (n_samples, d)
            Draws within the support, in random order. If nearly all kernels lie outside the support
            that ``log_prior`` tells of, some smooth draws are particles.

        Raises
        ------
        ValueError
            If n_samples is not an integer of at least 0, or smooth draws need ``log_prior``, which
            a file has not kept.
        """
        n = check_n_draws("n_samples", n_samples, least=0)
        rng = as_generator(random_state)
        if not smooth:
            return self.particles[random_draws(self.weights, n, rng)]
        self._density()
        draws, missing = [np.empty((0, self.particles.shape[1]))], n
        for _ in range(_ROUNDS):
            if not missing:
                break
            some = self._smooth_draws(missing, rng)
            draws.append(some[self._within(some)])
            missing -= len(draws[-1])
        draws.append(self.particles[random_draws(self.weights, missing, rng)])
        return rng.permutation(np.concatenate(draws))

    def log_density(self, theta: ArrayLike) -> Array:
        """Log posterior density of each row of theta, shape (n,), on the particles' scale.

        It is that of a kernel density estimate, -inf outside the support. Kernels are normal in
        logarithms or logits of the distance from a bound, for coordinates with bounds.

        Parameters
        ----------
        theta : array-like of shape (n, d), or (d,) for one point
            Points.

        Returns
        -------
        ndarray of shape (n,)
            Log of the density that `sample` draws from with ``smooth=True``, in nats. It is
            normalised, but for a posterior with a ``simplex``.

        Raises
        ------
        ValueError
            If points have another number of coordinates, or are not finite, or if ``log_prior`` is
            needed, which a file has not kept.
        """
        theta = check_points(theta, self.particles.shape[1])
        free, density, log_mass = self._density()
        out, inside = np.full(len(theta), -np.inf), self._within(theta)
        u = theta[inside] if free is None else free.outward(theta[inside])
        out[inside] = kde.log_density(density, u) - log_mass
        if free is not None:
            out[inside] -= free.log_jacobian(u)
        return out

    def fitted_density(self, coordinates: Sequence[int] | None = None) -> FittedDensity:
        """Density that represents this posterior as the ``prior`` of a further fit.

        It is a mixture of normals with the skewness of the particles. In up to five coordinates it
        is the kernel density estimate of the particles instead, if that is closer. Where values of
        the posterior density are known, a polynomial corrects it. Posteriors of logistic
        regressions with ``rows`` do not need it. See `skpmd.proposals.fitted_density`.

        Parameters
        ----------
        coordinates : sequence of int, optional
            Indices of the coordinates whose marginal density to fit; by default all, in their
            order.

        Returns
        -------
        skpmd.proposals.fitted_density.FittedDensity
            Its ``pareto_k`` is the k-hat of the posterior relative to it, None if values of the
            posterior density are not known.
        """
        d = self.particles.shape[1]
        places = list(range(d) if coordinates is None else coordinates)
        if tuple(places) not in self._fitted:
            of_all = sorted(places) == list(range(d))
            self._fitted[tuple(places)] = fitted_density.fit(
                np.ascontiguousarray(self.particles[:, places]),
                self.log_weights,
                self.log_joint if of_all else None,
                None if self.support is None else tuple(edge[places] for edge in self.support),
                None if self.frame is None else self.frame.of(places),
            )
        return self._fitted[tuple(places)]

    def summary(self, level: float = 0.9) -> dict[str, Any]:
        """Summary statistics of each coordinate.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        dict of str to list or ndarray of shape (d,)
            Columns ready for `pandas.DataFrame`: ``name``, ``mean``, ``std``, ``lower`` and
            ``upper``, the ends of the central credible interval; ``p_positive``, the probability of
            a value above zero; for particles, ``mcse``, the Monte Carlo standard error of the
            mean, std / sqrt(ess); and, with a ``frame``, ``unit``, a list of str: what coefficients
            are per unit of, and what their prior is.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        lower, upper = self.interval(level).T
        columns = {"name": list(self.names), "mean": self.mean(), "std": self.std()}
        columns |= {"lower": lower, "upper": upper, "p_positive": self._p_positive()}
        if self._is_drawn:  # Where the effective number of draws is not known it may be one.
            columns["mcse"] = columns["std"] / np.sqrt(np.fmax(self.ess, 1.0))
        if self.frame is not None:
            columns["unit"] = self.frame.described(self.names)
        return columns

    _is_drawn = True  # The particles are draws, whose averages have an error.

    def check(self) -> list[str]:
        """List reasons not to trust this posterior, and what to change.

        Returns
        -------
        list of str
            One or two sentences for each finding, the most serious first: a large R-hat, weights
            with a heavy tail, particles that have not been weighed by all rows, weights of another
            temperature, few effective draws, an uncertain evidence, and what else a fit warned of.
            Empty if there are no findings. What the particles are by choice of the method (a point
            estimate, weights for predictions) stands in the repr.
        """
        return _findings(self)

    def to_frame(self) -> Frame:
        """Particles as a pandas.DataFrame, with a row for each.

        The first column is ``particle_weight``, the others are the coordinates by their names.
        Needs the extra: ``pip install skpmd[arviz]``.

        Returns
        -------
        pandas.DataFrame
            Data frame of m rows and 1 + d columns.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If two coordinates have the same name, or one is named ``particle_weight``.
        """
        return to_frame(self)

    def to_xarray(self) -> Any:
        """Particles as an xarray.Dataset with named axes.

        The first axis of each variable is ``particle``, along which ``particle_weight`` is a
        coordinate. The attributes hold the diagnostics and the kind of the weights. Needs the
        extra: ``pip install skpmd[arviz]``.

        Returns
        -------
        xarray.Dataset
            A variable for each array of coordinates, of shape (m, ...).

        Raises
        ------
        ImportError
            If xarray is not installed.
        ValueError
            If two coordinates have the same name, or one has the name of an axis.
        """
        return to_xarray(self)

    def to_arviz(
        self, n_draws: int = 1000, random_state: RandomState = 0, *,
        log_likelihood: ArrayLike | None = None, posterior_predictive: ArrayLike | None = None,
        prior: ArrayLike | None = None, observed_data: ArrayLike | None = None,
        group_effects: Any = None,
    ) -> Any:  # fmt: skip
        """Draws of equal weight for ArviZ: InferenceData where ArviZ 0.x is installed, or DataTree.

        Particles are resampled in proportion to their weights (one chain). Needs the extra:
        ``pip install skpmd[arviz]``.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.
        log_likelihood : array-like of shape (m, n_rows), default=None
            Log-likelihood of each row under each of the m particles, as
            ``pointwise_log_likelihood(X, y)`` of an estimator returns it; for `arviz.loo`.
        posterior_predictive : array-like of shape (m, n_rows), default=None
            Targets drawn under each particle.
        prior : array-like of shape (n, d), default=None
            Draws from the prior, with the same coordinates as the particles.
        observed_data : array-like of shape (n_rows,), default=None
            Observed targets.
        group_effects : EffectsOfGroups or dict of str to EffectsOfGroups, default=None
            ``group_effects_`` of the estimator: variables ``1|school`` and ``hours|school`` with
            the dimension ``school``, by the names of the columns. There are draws of as many
            particles as effects have.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Object with the group ``posterior`` and the groups that are given. The attributes of the
            posterior hold its diagnostics and the kind of the weights.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If a group does not have a row for each particle.
        """
        groups = {
            "log_likelihood": log_likelihood, "posterior_predictive": posterior_predictive,
            "prior": prior, "observed_data": observed_data, "group_effects": group_effects,
        }  # fmt: skip
        return to_arviz(self, n_draws, random_state, groups)

    def __repr__(self):
        m, d = self.particles.shape
        parts = [f"{m} particles", f"d={d}", f"ess={self.ess:.0f}"]
        if self._pareto_k is not None:
            parts.append(f"pareto_k={self._pareto_k:.2f}{self._why_harmless()}")
        if self._r_hat is not None:
            parts.append(f"r_hat={self._r_hat:.3f}")
        if self._log_evidence is not None:
            parts.append(f"log_evidence={self._log_evidence:.2f}±{self._log_evidence_se:.2f}")
        parts += [text for text in (_kind(self), self.caveat) if text]
        return f"Posterior({', '.join(parts)})"

    def _repr_html_(self):
        return to_html(self)

    def _why_harmless(self):
        """Why a large k-hat is not warned of; empty where it is, or is not large."""
        k = self._pareto_k
        if not k > MAX_K or heavy_tail(self.log_weights, k):
            return ""
        return " of nearly equal weights"

    def _available(self, name, value, missing=None):
        if value is None:
            raise AttributeError(_UNAVAILABLE.format(name, missing or self._unavailable))
        return value

    def __getstate__(self):
        """State without densities, which are made anew when needed, and without functions."""
        needs = self._needs_prior or self.log_prior is not None
        without = {"_kde": None, "_fitted": {}, "log_prior": None, "_needs_prior": needs}
        return {**self.__dict__, **without}

    @property
    def lacks_prior(self) -> bool:
        """Whether ``log_prior`` was left out of a file, and has not been set again."""
        return self._needs_prior and self.log_prior is None

    def _weighted(self):
        return self.particles, self.weights

    def _density(self):
        """What takes coordinates off their bounds, the density there, and its log mass within."""
        if self.lacks_prior:
            raise ValueError(
                "log_prior, by which densities and smooth draws keep to the support, is in no file:"
                " set posterior.log_prior, or take posterior_ of the estimator."
            )
        if self._kde is None:  # made when first asked for: many users never do
            alive, bounds = self.weights > 0.0, self.support
            theta, free = self.particles[alive], self.frame
            is_bounded = bounds is not None and np.isfinite(bounds).any()
            if is_bounded:
                free = Unbounded(None, *bounds)
            theta = theta if free is None else free.outward(theta)
            density = kde.fit(theta, self.log_weights[alive])
            if is_bounded:
                density = kde.matched(density, free, self.mean(), self.std())
            self._kde = free, density, 0.0
            if self.log_prior is not None:
                inside = self._within(self._smooth_draws(_N_MASS, np.random.default_rng(0)))
                self._kde = *self._kde[:2], np.log(max(inside.mean(), 1.0 / _N_MASS))
        return self._kde

    def _smooth_draws(self, n, rng):
        """Draws of the density within the bounds, but not yet of the prior's support."""
        free, density, _ = self._kde
        draws, _ = kde.sample(density, n, "systematic", rng)
        draws = draws if free is None else free.inward(draws)
        if self.simplex is not None:
            draws[:, self.simplex] /= draws[:, self.simplex].sum(axis=1, keepdims=True)
        return draws

    def _within(self, theta):
        """Whether rows of theta are within the support, (n,)."""
        inside = np.ones(len(theta), dtype=bool)
        if self.support is not None:
            lower, upper = self.support
            inside = ((theta > lower) & (theta < upper)).all(axis=1)
        if self.simplex is not None:
            inside &= np.abs(theta[:, self.simplex].sum(axis=1) - 1.0) < _ROUNDING
        if self.log_prior is not None and inside.any():
            inside[inside] = np.asarray(self.log_prior(theta[inside])) > -np.inf
        return inside


# ------------------------------------------------------------------- reasons not to trust it
def _kind(posterior):
    """What particles are that are not the posterior, by choice of the method; "" by default."""
    if len(posterior.weights) == 1:
        return "a point estimate, whose intervals have no width"
    return "" if posterior.weighting.startswith("posterior") else posterior.weighting


def _findings(posterior):
    """Findings as sentences (list of str), the most serious first; empty if there are none.

    What is so by choice of the method, whatever the rows are, is none: see `_kind`.
    """
    found = [text for text in (_of_chains(posterior), _of_weights(posterior)) if text]
    if posterior.weighting != "posterior" and posterior.weighting.startswith("posterior"):
        found.append(
            f"The particles' weights are no plain posterior weights ({posterior.weighting}): the "
            "probability of an interval of a coordinate is not its posterior probability."
        )
    if posterior.ess < _FEW_DRAWS and not _kind(posterior):
        error = 1.0 / np.sqrt(posterior.ess)
        found.append(
            f"The effective sample size is {posterior.ess:.0f}: means have an error of {error:.2f} "
            "posterior standard deviations, and ends of intervals more. Raise n_particles."
        )
    error = getattr(posterior, "log_evidence_se", None)
    if error is not None and error > _LARGE_SE:
        found.append(
            f"The standard error of log_evidence is {error:.2f} nats: a difference between models "
            "of less than three of these says nothing."
        )
    found += [text[0].upper() + text[1:].rstrip(".") + "." for text in posterior.concerns]
    if posterior.caveat is not None:
        found.append(f"Of this posterior: {posterior.caveat}.")
    return found


def _of_chains(posterior):
    """What R-hat says, or None."""
    r_hat = getattr(posterior, "r_hat", None)
    if r_hat is None or r_hat <= MAX_R_HAT:
        return None
    return (
        f"R-hat is {r_hat:.2f}, above {MAX_R_HAT}: chains are at different places. Scale the "
        "columns, narrow the prior, or raise n_particles."
    )


def _of_weights(posterior):
    """What k-hat says, or None."""
    k = getattr(posterior, "pareto_k", None)
    if k is None or not heavy_tail(posterior.log_weights, k):
        return None
    return (
        f"k-hat is {k:.2f}, above {MAX_K}: a few particles carry the averages, and the posterior "
        "may be where none is. Raise n_particles, or narrow the prior."
    )
