"""ParticleMirrorDescent: posterior of a user's own model, from values or also gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from skpmd._base.estimator import result
from skpmd._base.merging import (
    MERGED,
    MERGED_BY_ROWS,
    check_total,
    density_names,
    inherited,
    merge_densities,
    n_shards,
)
from skpmd._base.options import LOOP_CONSTRAINTS, OF_STOCHASTIC_STEPS, convergence_reasons
from skpmd._base.results import (
    OF_STEPS,
    ParticleResults,
    Remedies,
    Results,
    convergence_warnings,
    results_of,
)
from skpmd._base.steps import (
    Stream,
    advance,
    bar_of_rounds,
    bar_of_steps,
    first_stream,
    kernel_step,
    stream_after,
)
from skpmd._base.utils import as_generator, warn
from skpmd._base.validation import check_numbers, fit_context, is_frame, refuse_no_table
from skpmd._rows.opening import as_table, in_parts
from skpmd._rows.table import array_of, need_memory
from skpmd._typing import ArrayLike, FilePath, MatrixLike, Seed
from skpmd.custom._distributions import function_of
from skpmd.custom._fit import by_sample_or_all, step_from_values
from skpmd.custom._model import (
    CustomModel,
    check_arguments,
    checked_names,
    framed,
    gradient_given,
    is_given_weights,
    likelihood_of,
    never_negative,
    of_parts,
    rows_of,
)
from skpmd.custom._predict import CustomPredictions
from skpmd.custom._prior import (
    PriorCheck,
    check_prior,
    edges_given_rows,
    prior_functions,
    shards_of,
    shown_of,
)
from skpmd.engine.loop import drive, run
from skpmd.engine.particles import draw_prior
from skpmd.posterior import Posterior
from skpmd.proposals.from_values import compared, from_values

_CHAINS = "give the model parameters of like scales that depend less on each other"
_WITH_GRADIENT = Remedies(chains=_CHAINS)
_WITHOUT_GRADIENT = Remedies(
    "raise n_particles, or give log_joint_gradient, with which chains follow", _CHAINS
)
# Functions that may be missing, and how they are called.
_OPTIONAL = {
    "distribution": "theta, X",
    "log_likelihood_pointwise": "theta, X, y",
    "predict_mean": "theta, X",
    "sample_targets": "theta, X, rng",
}


class CustomState(NamedTuple):
    """Result of a fit."""

    stream: Stream  # What it needs to go on.
    results: Results  # What it shows.
    n_iter: int  # Passes; after `partial_fit`, steps.
    prior: PriorCheck  # What is wrong with the prior.


def _checked(given, model, rng):
    """What is wrong with a prior, as a `PriorCheck`."""
    return PriorCheck(support=given.support) if given.agree else check_prior(model, rng)


def _mismatch(prior, given, particles):
    """Reasons to warn of a prior that is given twice, or that is an earlier posterior."""
    if not prior.mismatch:
        return () if given.density is None else convergence_reasons(given.density, particles)
    return (
        f"sample_prior does not draw from the density that log_prior gives: {prior.mismatch}; make "
        "the two agree, Jacobians included",
    )


def _results(outcome, prior, given, records=None, support=None, **more):
    """`Results`, with what a posterior gets to know of its prior."""
    return results_of(
        outcome, records, shown=shown_of(prior, given, support), prior_pareto_k=given.pareto_k,
        **more,
    )  # fmt: skip


class ParticleMirrorDescent(CustomPredictions, ParticleResults):
    """Posterior of a user's own model by particle mirror descent.

    Only values of the log-likelihood and the log prior are needed (a gradient helps if there is
    one). Neither conjugacy nor a single mode is assumed. Particles are drawn from proposals that
    are fitted to values of the posterior, or follow mirror descent steps on the space of densities
    (Dai, He, Dai and Song 2016, Algorithm 1) and are rejuvenated from a weighted kernel density
    estimate when few of them carry most of the weight. In the end they are weighted by the
    posterior itself.

    Parameters
    ----------
    log_likelihood : callable or None
        ``log_likelihood(theta, X, y)`` with theta of shape (m, d), float64, returns (m,): for each
        particle the log-likelihood summed over the rows given. ``X`` and ``y`` are None if `fit`
        got none. If this parameter is None, the sum of ``log_likelihood_pointwise`` is used. If it
        has a keyword ``sample_weight`` of shape (n,), the model accepts weights. It may use NumPy
        or Numba. It is called only for particles inside the prior's support, and, if rows times
        particles are more than 2^18, for some of the particles at a time. With ``n_jobs`` several
        threads call it at once, as they do the functions of rows below, and it must be thread-safe:
        it must not write to anything that outlives a call. Threads help as far as it releases
        Python's lock, as NumPy does in large operations and Numba with ``nogil=True``.
    log_prior : callable, optional
        ``log_prior(theta)`` returns (m,), with ``-inf`` outside the support. It must be normalised
        for the evidence to be meaningful. Give it together with ``sample_prior``, or give ``prior``
        instead.
    sample_prior : callable, optional
        ``sample_prior(rng, m)`` with a `numpy.random.Generator` returns (m, d). It must draw from
        exactly the density that ``log_prior`` gives. Before a fit this is checked, with separate
        draws and ``log_prior`` at 60,000 points (twelve parameters: 250,000). A
        ``ConvergenceWarning`` names what differs; small differences are not noticed.
    prior : dict, Posterior or fitted estimator, optional
        Replaces these two functions. A dict has the names of parameters and, for each, a continuous
        distribution of `scipy.stats` with its parameters: ``{"mu": norm(0, 10), "sigma":
        halfnorm(scale=5), "beta": norm(np.zeros(3), 1)}``. The parameters are independent a priori;
        theta has their coordinates one after another, on the scale of these distributions. All
        functions may take parts of it by name: ``theta["mu"]`` has shape (m,), and
        ``theta["beta"]`` (m, 3). ``posterior_["beta"]`` has their draws. If a distribution is
        bounded, proposals are fitted to logarithms or logits of the distance from
        the bound. An earlier posterior, ``fitted.posterior_``, makes yesterday's posterior today's
        prior: a density fitted to it takes its place (`Posterior.fitted_density`), and
        ``diagnostics_["prior_pareto_k"]`` shows how good this density is. With ``names`` its
        coordinates are found by name, and others are left out. A fitted estimator is used as its
        posterior (in searches, which clone estimators, give ``posterior_``).
    log_joint_gradient : callable, optional
        ``log_joint_gradient(theta, X, y)`` returns the log joint density of each particle given all
        rows at once, (m,), and its gradient, (m, d), as anything that NumPy can read. With it
        searches for optima are exact and handle up to 1000 parameters, and if weights fail,
        Hamiltonian moves take over, whose diagnostic is R-hat. Like ``log_likelihood`` it may take
        ``sample_weight``. `skpmd.from_jax` makes it. It is used with ``proposal="auto"`` and
        ``temperature=1``.
    names : sequence of str, optional
        A name for each coordinate of theta, for ``posterior_``, its summary and its exports.
        Parameters of a ``prior`` keep theirs.
    distribution : callable, optional
        ``distribution(theta, X)`` returns the distribution of y in each row under each particle, as
        a distribution of `scipy.stats` with parameters of shape (m, n), or (m, 1) if they are the
        same in all rows. It says all that the functions of rows below say, and those of them that
        are given come first.
    log_likelihood_pointwise : callable, optional
        ``log_likelihood_pointwise(theta, X, y)`` returns (m, n): the log-likelihood of each row
        under each particle. `pointwise_log_likelihood`, `score` and `skpmd.model_comparison.loo`
        then need one call instead of one for each row. With ``log_likelihood=None`` its sum over
        the rows is the log-likelihood, and it needs no ``sample_weight``: the estimator applies the
        weights.
    predict_mean : callable, optional
        ``predict_mean(theta, X)`` returns (m, n) or (m, n, t): the mean of y, or another quantity
        of interest, for each row under each particle. `predict` and `predict_interval` use it.
    sample_targets : callable, optional
        ``sample_targets(theta, X, rng)`` with a `numpy.random.Generator` returns (m, n) or (m, n,
        t): a y drawn for each row under each particle. `sample_y` uses it, and so do the intervals
        of y in `predict` and `predict_interval`.
    validate : bool, default=True
        Whether y and X are checked. A data frame reaches the functions as it is, with columns of
        words if it has some, and numbers that are missing are an error; anything else is an array
        of numbers of shape (n, p). False passes all unchanged: also missing values, lists of
        objects and dicts of columns. Batches and predictions pass some of the rows, in the same
        type.
    proposal : {"auto", "prior"}, default="auto"
        Where `fit` starts from. ``"auto"``: proposals that are fitted to the optima of the density,
        which are found from its values. If they fit well, the particles are drawn from them and
        reweighted, and the parameters of stochastic steps have no effect. If the weights fail, or
        what comes from the prior contradicts them, mirror steps on all data start from the prior,
        and proposals fitted to their particles join the others; then Hamiltonian moves along
        ``log_joint_gradient`` follow, if it is given, and where no proposals fit the particles of
        two runs of such steps are the result. ``"prior"``: stochastic mirror steps from the
        prior, the algorithm of the paper. ``reweight=False``, ``average=True``, ``particle_growth``
        and a ``rejuvenation`` other than ``"ess"`` have the same effect.
    n_particles : int, default=1000
        Number m of particles, in each round if proposals need several rounds; with
        ``proposal="auto"`` at least 1000. A mode of the posterior is lost without a warning if none
        of m or 4000 draws from the prior comes near it. With ``proposal="prior"`` and fewer than
        some 50 particles there is always a warning.
    max_iter : int, default=5
        Passes over the data.
    batch_size : int or "auto", default="auto"
        Rows in a batch; ``"auto"`` is min(n, 1000).
    step_schedule : {"power", "rows", "theorem6"}, default="power"
        Rule of the step sizes gamma_t, each capped at 1. ``"power"``: ``step_size / (step_offset +
        t**step_decay)``. ``"rows"``: exact averaging, ``step_size`` times the share of this batch
        in all rows visited so far. ``"theorem6"``: min(2 / (t + 1), step_constant *
        m_t^(-smoothness / (d + 2 smoothness))).
    step_size : float, default=1.0
        Constant eta of the schedule.
    step_offset : float or "auto", default="auto"
        Offset n0; ``"auto"`` is the number of batches in a pass, so that already the first step is
        small.
    step_decay : float, default=1.0
        Exponent kappa of the schedule.
    step_constant : float or "auto", default="auto"
        Constant Delta / M of Theorem 6; ``"auto"`` estimates it from the first particles.
    sampling : {"epoch", "replacement"}, default="epoch"
        Whether batches are drawn without replacement within a pass, or with replacement, as in
        Algorithm 1.
    rejuvenation : {"ess", "always", "never"}, default="ess"
        When to draw particles anew: when the effective sample size falls (section 3.3 of the
        paper), before every step (its strategy 2), or not at all (its strategy 1).
    ess_threshold : float in [0, 1), default=0.5
        Effective sample size, as a share of the particles, below which the particles are
        rejuvenated and a step is taken in substeps. 0 switches both off.
    max_substeps : int, default=100
        Largest number of substeps in one step.
    resampling : {"systematic", "stratified", "residual", "multinomial"}, default="systematic"
        How ancestors are drawn at a rejuvenation.
    bandwidth : {"loo", "theorem", "scott", "silverman", "median"} or float, default="loo"
        Kernel width relative to the spread of the particles. ``"loo"``: width and shape with the
        best leave-one-out log score. ``"theorem"``: h = bandwidth_factor * m^(-1/(d + 2
        smoothness)). ``"median"``: 0.1 times the median distance (appendix H).
    bandwidth_factor : float, default=1.0
        Factor for the rules other than ``"loo"``.
    smoothness : float, default=1.0
        Exponent beta of the Hölder class in the rules of the theorems.
    kernel : {"gaussian", "epanechnikov"}, default="gaussian"
        The Epanechnikov kernel has the compact support that Theorem 6 assumes. Reweighting draws
        from Gaussian kernels in any case, because its weights need a density that is positive
        everywhere. With ``reweight=False`` and few steps the particles lag behind, because a
        compact kernel does not reach far.
    shrinkage : bool, default=True
        Whether kernel centres shrink towards the mean, so that a rejuvenation does not change mean
        and covariance (Liu and West 2001).
    particle_growth : {"theorem"}, float or None, default=None
        Exponent p of m_t = n_particles * t^p; ``"theorem"`` is 2 + d / smoothness. The number
        changes at the next rejuvenation.
    max_particles : int or None, default=None
        Limit of a growing number of particles; None means 10 * n_particles.
    final_particles : int or None, default=None
        Number of particles in the reweighting, or, without reweighting, in a last pass with fixed
        particles (section 3.3).
    average : bool, default=False
        Whether to use the average of all iterates, weighted by step size, as in Theorem 2(b),
        instead of the last iterate. It is the result with ``reweight=False``; otherwise the
        reweighting draws from it.
    reweight : bool, default=True
        Whether to weight the final particles by the posterior on all data. The result then no
        longer depends on the step sizes, and includes the log evidence.
    total_samples : float or None, default=None
        For `partial_fit`: None means a stream, in which each row counts once. A number is the
        number of rows of a data set over which several passes may be made.
    half_life : float or None, default=None
        For `partial_fit`: number of rows of later calls after which a row of a stream counts half;
        rows of one call do not discount each other. None means that none is forgotten.
    forgetting : float in [0, 0.2], default=0.0
        The same as a share: the fraction of the past that each new row discounts, which is
        1 - 2^(-1 / half_life); 0.01 is a half-life of 69 rows.
    temperature : float, default=1.0
        The posterior is proportional to prior * likelihood^(1 / temperature).
    max_time : float or None, default=None
        Seconds after which `fit` ends at its next complete state: a round of reweighting, a check
        of chains or a step, after the search for optima. A ``ConvergenceWarning`` says so. A step
        of `partial_fit` is always completed.
    <running>

    Attributes
    ----------
    posterior_ : Posterior
        The weighted particles, with their diagnostics.
    log_evidence_ : float
        Log marginal likelihood, after ``reweight=True`` at ``temperature=1`` (not set otherwise,
        nor if a step could not be completed).
    history_ : dict of str to ndarray of shape (n_entries,)
        One entry per step: ``step``, ``step_size`` (a), ``likelihood_power`` (b), ``fraction`` of
        it before the first substep, ``substeps``, ``substep_bound_hit``, ``rejuvenations``,
        ``bandwidth``, ``ess``, ``n_particles``, ``rejuvenation_error``. Rounds of reweighting come
        last; the result is from the round with the largest ``ess``. `partial_fit` adds one entry
        per call.
    diagnostics_ : dict
        ``method``, ``ess``, ``pareto_k``, ``r_hat`` (after Hamiltonian moves, else None),
        ``disagreement`` (of proposals at one optimum, else None), ``mean_error`` (estimate of the
        largest error of a mean from rejuvenations and from few particles, in posterior standard
        deviations; only a lower bound in a stream with sorted rows; None after reweighting and if
        not known), ``interrupted``, ``out_of_time``, ``log_prior_integral`` (after `fit`: log of
        the integral of the density that ``log_prior`` gives, 0 if there is no evidence that it
        differs from 1), ``prior_pareto_k`` (k-hat of an earlier posterior relative to the density
        that represents it as the prior, else None), ``warnings``.
    n_iter_ : int
        Number of rounds of reweighting and mirror steps, or of passes of stochastic steps; after
        `partial_fit`, number of steps.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of columns of X, if it has columns.
    feature_names_in_ : ndarray of shape (p,)
        Names of the columns, if X is a table whose names are all strings.

    Raises
    ------
    ValueError
        If an array that a callable returns has the wrong shape, sample weights are given but a
        callable takes none, the number of ``names`` is not the number of coordinates, or
        ``log_joint_gradient`` is not the gradient of the two other functions.
    FloatingPointError
        If a callable returns nan or +inf, or every particle has zero density.

    See Also
    --------
    BayesianLogisticRegressionPMD : A built-in model.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    Liu, J. and West, M. (2001). Combined parameter and state estimation in simulation-based
    filtering. In Sequential Monte Carlo Methods in Practice, Springer.

    Examples
    --------
    The mean of normal data under a normal prior:

    >>> import numpy as np
    >>> from skpmd import ParticleMirrorDescent
    >>> X = np.random.default_rng(0).normal(1.0, 1.0, size=(100, 1))
    >>> def log_likelihood(theta, X, y):
    ...     return -0.5 * ((X[:, 0] - theta) ** 2).sum(axis=1) - 50 * np.log(2 * np.pi)
    >>> def log_prior(theta):
    ...     return -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    >>> def sample_prior(rng, m):
    ...     return rng.standard_normal((m, 1))
    >>> pmd = ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, random_state=0)
    >>> exact = X.sum() / (len(X) + 1)
    >>> bool(abs(pmd.fit(X).posterior_.mean()[0] - exact) < 0.01)
    True

    The same with a prior from SciPy, and with the posterior as the prior for further rows:

    >>> from scipy import stats
    >>> first = ParticleMirrorDescent(
    ...     log_likelihood_pointwise=lambda theta, X, y: stats.norm.logpdf(X[:, 0], theta),
    ...     prior={"mean": stats.norm(0, 1)}, random_state=0).fit(X[:50])
    >>> second = ParticleMirrorDescent(
    ...     log_likelihood_pointwise=first.log_likelihood_pointwise,
    ...     prior=first.posterior_, random_state=0).fit(X[50:])
    >>> second.posterior_.names, bool(abs(second.posterior_.mean()[0] - exact) < 0.01)
    (['mean'], True)

    Functions may take parameters of such a prior by name, and so does the posterior:

    >>> named = ParticleMirrorDescent(
    ...     log_likelihood_pointwise=lambda theta, X, y: stats.norm.logpdf(
    ...         X[:, 0], theta["mu"][:, None], theta["sigma"][:, None]),
    ...     prior={"mu": stats.norm(0, 1), "sigma": stats.halfnorm(scale=2)}, random_state=0).fit(X)
    >>> bool(abs(named.posterior_["mu"].mean() - exact) < 0.02)
    True
    >>> named.posterior_["sigma"].interval(level=0.9).shape
    (2,)

    A function for the mean under each particle gives predictions, which average over the posterior:

    >>> def predict_mean(theta, X):
    ...     return np.repeat(theta, len(X), axis=1)
    >>> mean = pmd.set_params(predict_mean=predict_mean).predict(X)
    >>> bool(abs(mean[0] - exact) < 0.01), pmd.predict_interval(X, target="mean").shape
    (True, (100, 2))
    """

    _parameter_constraints: dict = {
        **LOOP_CONSTRAINTS,
        "log_likelihood": [callable, None],
        "log_prior": [callable, None],
        "sample_prior": [callable, None],
        "prior": [dict, Posterior, BaseEstimator, None],
        "log_joint_gradient": [callable, None],
        "names": ["array-like", None],
        "distribution": [callable, None],
        "log_likelihood_pointwise": [callable, None],
        "predict_mean": [callable, None],
        "sample_targets": [callable, None],
        "validate": ["boolean"],
        "proposal": [StrOptions({"auto", "prior"})],
    }

    def __init__(
        self,
        log_likelihood: Callable[..., Any] | None = None,
        log_prior: Callable[..., Any] | None = None,
        sample_prior: Callable[..., Any] | None = None,
        *,
        prior: Any = None,
        log_joint_gradient: Callable[..., Any] | None = None,
        names: Sequence[str] | None = None,
        distribution: Callable[..., Any] | None = None,
        log_likelihood_pointwise: Callable[..., Any] | None = None,
        predict_mean: Callable[..., Any] | None = None,
        sample_targets: Callable[..., Any] | None = None,
        validate: bool = True,
        proposal: Literal["auto", "prior"] = "auto",
        n_particles: int = 1000,
        max_iter: int = 5,
        batch_size: Literal["auto"] | int = "auto",
        step_schedule: Literal["power", "rows", "theorem6"] = "power",
        step_size: float = 1.0,
        step_offset: Literal["auto"] | float = "auto",
        step_decay: float = 1.0,
        step_constant: Literal["auto"] | float = "auto",
        sampling: Literal["epoch", "replacement"] = "epoch",
        rejuvenation: Literal["ess", "always", "never"] = "ess",
        ess_threshold: float = 0.5,
        max_substeps: int = 100,
        resampling: Literal["systematic", "stratified", "residual", "multinomial"] = "systematic",
        bandwidth: Literal["loo", "theorem", "scott", "silverman", "median"] | float = "loo",
        bandwidth_factor: float = 1.0,
        smoothness: float = 1.0,
        kernel: Literal["gaussian", "epanechnikov"] = "gaussian",
        shrinkage: bool = True,
        particle_growth: Literal["theorem"] | float | None = None,
        max_particles: int | None = None,
        final_particles: int | None = None,
        average: bool = False,
        reweight: bool = True,
        total_samples: float | None = None,
        forgetting: float = 0.0,
        half_life: float | None = None,
        temperature: float = 1.0,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.log_likelihood = log_likelihood
        self.log_prior = log_prior
        self.sample_prior = sample_prior
        self.prior = prior
        self.log_joint_gradient = log_joint_gradient
        self.names = names
        self.distribution = distribution
        self.log_likelihood_pointwise = log_likelihood_pointwise
        self.predict_mean = predict_mean
        self.sample_targets = sample_targets
        self.validate = validate
        self.proposal = proposal
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.step_schedule = step_schedule
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.step_constant = step_constant
        self.sampling = sampling
        self.rejuvenation = rejuvenation
        self.ess_threshold = ess_threshold
        self.max_substeps = max_substeps
        self.resampling = resampling
        self.bandwidth = bandwidth
        self.bandwidth_factor = bandwidth_factor
        self.smoothness = smoothness
        self.kernel = kernel
        self.shrinkage = shrinkage
        self.particle_growth = particle_growth
        self.max_particles = max_particles
        self.final_particles = final_particles
        self.average = average
        self.reweight = reweight
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.temperature = temperature
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Find the posterior given data.

        Parameters
        ----------
        X : array-like of shape (n, p), optional
            Rows of data. Without X the rows are those of ``y``. Without X and y the functions get
            None for both: the model has no data, or the functions hold the data themselves. X may
            also be data in blocks (`skpmd.data.Blocks`), with y and weights in the blocks or as
            arguments.
        y : array-like of shape (n,) or (n, t), optional
            Targets, passed to ``log_likelihood`` unchanged.
        sample_weight : array-like of shape (n,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        ParticleMirrorDescent
            The fitted estimator.

        Raises
        ------
        ValueError
            If the prior is missing or given twice, a function cannot be called with the required
            arguments or returns another shape, or weights are given and no function takes them.
        TypeError
            If ``prior`` is of another type, or a function does not return real numbers.
        FloatingPointError
            If a function returns nan.
        """
        data = {"X": X, "y": y, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            X, y, sample_weight = as_table(X, y, sample_weight)
            options = self._loop_options()
            self._reset()
            model, rows, given = self._read(X, y, sample_weight, reset=True)
            rng = as_generator(self.random_state)
            prior = _checked(given, model, rng)
            reason = never_negative(model, self._function("log_likelihood_pointwise"), rows)
            if reason:  # Such a fit may take long.
                warn(f"{type(self).__name__}: {reason}.", UserWarning)
            outcome, n_iter = self._find_posterior(model, rows, sample_weight, options, rng)
            stream = stream_after(outcome, rows.total, rng)
            found = edges_given_rows(model, rows.whole(), outcome, prior.support)
            reasons = _mismatch(prior, given, outcome.particles)
            reasons += of_parts(model, rows, outcome.particles.theta) + outcome.findings.reasons
            results = _results(
                outcome.with_findings(reasons=reasons), prior, given, support=found,
                temperature=self.temperature,
                log_prior_integral=prior.log_integral, remedies=self._remedies(),
            )  # fmt: skip
            results.posterior.concerns.extend([reason] * bool(reason))
            self._set_state(CustomState(stream, results, n_iter, prior))
        if prior.log_integral and results.log_evidence is not None:
            warn(
                f"log_prior integrates to exp({prior.log_integral:.3g}) where sample_prior draws "
                f"from, and not to 1: log_evidence_ is off by that, {prior.log_integral:+.3g} "
                "nats. The posterior is not affected.",
                UserWarning,
            )
        self._warn_or_interrupt()
        return self

    def _find_posterior(self, model, rows, sample_weight, options, rng):
        """The `Outcome` given all rows, and the number of rounds, steps or passes."""
        if self._starts_from_proposals():
            self._warn_unused(OF_STOCHASTIC_STEPS, "set proposal='prior' for such steps")
            gradient = self._gradient(rows.data, sample_weight)
            with bar_of_rounds() as report:
                if gradient is None:
                    states = by_sample_or_all(model, rows, options, rng)
                else:
                    states = from_values(model, rows.whole(), options, rng, gradient)
                outcome = drive(states, report)
            return outcome, len(outcome.infos)
        start = draw_prior(model, self.n_particles, rng)
        with bar_of_steps(options, rows) as report:
            outcome = run(model, rows, start, options, rng, report)
        outcome = outcome.with_findings(notes={"method": "mirror steps from prior"})
        if not (outcome.ended_early or convergence_warnings(outcome)):
            states = compared(outcome, model, rows.whole(), options, rng)
            outcome = drive(states, what="the comparison with another fit")
        return outcome, self.max_iter

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: MatrixLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows, which are then no longer needed.

        Each new row counts once, by the sequential Bayes rule (the first `total_samples` rows, if
        that is given), and no data are stored. After `fit`, the posterior continues from the result
        of `fit`; otherwise the first rows are fitted as by `fit`. Nothing is approximated between
        rejuvenations. If a cubic polynomial approximates the log of the posterior before a step
        well, rejuvenations draw from proposals for the result of the step, otherwise from a kernel
        density estimate. Their error is estimated in ``history_["rejuvenation_error"]``, and there
        is a warning if it is large. If the call fails in any way, the estimator remains unchanged.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows of data; None if there is only ``y``.
        y : array-like of shape (n,) or (n, t), optional
            Targets.
        sample_weight : array-like of shape (n,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        ParticleMirrorDescent
            The estimator.

        Raises
        ------
        ValueError, TypeError, FloatingPointError
            As `fit`.
        """
        with self._all_or_nothing():
            if y is None:
                refuse_no_table(X)
            options, before = self._loop_options(), getattr(self, "_state", None)
            if before is None:
                self._reset()
            model, rows, given = self._read(X, y, sample_weight, reset=before is None)
            stream = first_stream(self.random_state) if before is None else before.stream
            prior = _checked(given, model, stream.rng) if before is None else before.prior
            by_proposals = self._starts_from_proposals()
            step = step_from_values if by_proposals else kernel_step
            stream = advance(stream, model, rows, options, step)
            method = (
                "stream from proposals fitted to values" if by_proposals else "stream from prior"
            )
            reasons = _mismatch(prior, given, stream.particles)
            reasons += of_parts(model, rows, stream.particles.theta)
            outcome = stream.outcome().with_findings(reasons=reasons)
            results = _results(outcome, prior, given, stream.records, stream=True, method=method)
            self._set_state(CustomState(stream, results, stream.records.n, prior))
            self._warn_or_interrupt()
            return self

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the posterior given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            self._start_merge(estimators, ("names", "temperature"))
            states, n = [one._state for one in estimators], n_shards(estimators)
            seen, support = sum(state.stream.seen for state in states), states[0].prior.support
            rng, (first, given) = as_generator(self.random_state), estimators[0]._model()
            models = [first, *(one._model()[0] for one in estimators[1:])]
            shards = shards_of(models, [state.results.posterior for state in states])
            all_rows = None
            if X is not None or y is not None:
                model, rows, given = self._read(X, y, sample_weight, reset=False)
                check_total(rows.total, seen)
                all_rows = model, rows.whole(), 1.0 / self.temperature
            outcome, found = merge_densities(shards, n, self.n_particles, rng, support, all_rows)
            if all_rows is None:  # Else rows weigh, whatever the shards' particles are like.
                reasons = inherited(estimators) + outcome.findings.reasons
                outcome = outcome.with_findings(reasons=reasons)
            results = _results(
                outcome, states[0].prior, given,
                temperature=self.temperature, stream=all_rows is None,
                merged=density_names(n) if all_rows is None else None, **found,
            )  # fmt: skip
            stream = stream_after(outcome, seen, rng)
            self._set_state(CustomState(stream, results, results.records.n, states[0].prior))
        self._warn_or_interrupt(MERGED if all_rows is None else MERGED_BY_ROWS)
        return self

    @result
    def posterior_(self) -> Posterior:
        """Posterior, the weighted particles with their diagnostics."""
        posterior = self._state.results.posterior
        if posterior.lacks_prior and self.log_prior is not None:  # It has been in a file.
            posterior.log_prior = self.log_prior
        return posterior

    def _function(self, name):
        """A function of the user by its name, or that of ``distribution``; None without both."""
        given = getattr(self, name)
        if given is None and self.distribution is not None:
            return function_of(name, self.distribution)
        return given

    def _model(self, sample_weight=None):
        """The model and its `PriorFunctions`."""
        pointwise = self._function("log_likelihood_pointwise")
        name, log_likelihood = likelihood_of(self.log_likelihood, pointwise)
        names = checked_names(self.names)
        given = prior_functions(self.prior, self.log_prior, self.sample_prior, names)
        weighted = is_given_weights(name, log_likelihood, sample_weight)
        return CustomModel(
            log_likelihood, given.log_prior, given.sample_prior, weighted, name, given.names,
            given.variables,
        ), given  # fmt: skip

    @result
    def n_iter_(self) -> int:
        """Number of rounds and steps, or of stochastic passes; after `partial_fit`, of steps."""
        return self._state.n_iter

    def _remedies(self):
        """What to do where a fit has found too little."""
        if not self._starts_from_proposals():
            return OF_STEPS
        return _WITHOUT_GRADIENT if self.log_joint_gradient is None else _WITH_GRADIENT

    def _starts_from_proposals(self):
        """Whether a fit starts from proposals: what asks for steps from the prior gets them."""
        plain = self.reweight and not self.average and self.particle_growth is None
        return self.proposal == "auto" and plain and self.rejuvenation == "ess"

    def _read(self, X, y, sample_weight, reset):
        """The model, the rows that go with it, and its `PriorFunctions`."""
        X, y = self._data(X, y, reset)
        for name, arguments in _OPTIONAL.items():
            if getattr(self, name) is not None:
                check_arguments(name, getattr(self, name), arguments)
        if self.prior is not None and self.log_joint_gradient is not None:
            raise ValueError(
                "log_joint_gradient has a prior of its own: give log_prior and sample_prior with "
                "it in the place of prior, or set log_joint_gradient=None."
            )
        model, given = self._model(sample_weight)
        model.columns = getattr(X, "names", None)  # Of a `BlockTable`.
        rows = rows_of(X, y, sample_weight, self.batch_size)
        if sample_weight is not None:
            self._counted(rows.data.weight)
        return model, rows, given

    def _data(self, X, y, reset):
        """X and y as the functions get them: checked arrays, or as they are; None stays None."""
        if X is None:
            if not reset and hasattr(self, "n_features_in_"):
                refuse_no_table(X)
        elif self.validate and not is_frame(X):
            names = getattr(X, "names", None)
            X = self._checked_data(X, dtype=[np.float64, np.float32], order="C", reset=reset)
            X = framed(X, names)
        elif self.validate:
            X = self._checked_data(X, skip_check_array=True, reset=reset)
            check_numbers(X)
        else:
            refuse_no_table(X)
            if reset and len(getattr(X, "shape", ())) == 2:  # What has columns may have names.
                validate_data(self, X, skip_check_array=True)
            X = framed(array_of(X), getattr(X, "names", None))
        if self.validate and y is not None:
            y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
            if X is not None:
                check_consistent_length(X, y)
        return X, y

    def __sklearn_tags__(self):
        """Tags: whether data are checked."""
        tags = super().__sklearn_tags__()
        tags.no_validation = not self.validate
        return tags

    def _gradient(self, data, sample_weight):
        """The user's gradient given all rows, as a function of particles alone; None without."""
        function = self.log_joint_gradient
        if function is None:
            return None
        if self.temperature != 1.0:
            raise ValueError(
                f"log_joint_gradient is that of the posterior at temperature=1, got "
                f"temperature={self.temperature}: set log_joint_gradient=None."
            )
        need_memory(data.X, "log_joint_gradient", "set log_joint_gradient=None")
        return gradient_given(function, data, sample_weight)
