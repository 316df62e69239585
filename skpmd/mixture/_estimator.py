"""Gaussian mixtures with a posterior, row weights and streaming updates."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions

from skpmd._base.estimator import ParticleEstimator, result
from skpmd._base.merging import n_shards, refuse_rows
from skpmd._base.options import LOOP_CONSTRAINTS
from skpmd._base.utils import as_generator
from skpmd._base.validation import checked_weights, fit_context, refuse_overflows
from skpmd._rows.opening import as_table, in_parts
from skpmd._rows.table import need_memory
from skpmd._runtime.call import untimed
from skpmd._typing import Array, ArrayLike, FilePath, MatrixLike, Seed
from skpmd.engine.loop import Stage, drive
from skpmd.mixture._conjugate_fit import (
    INITS,
    fit_conjugate,
    history_of_conjugate,
    update_conjugate,
)
from skpmd.mixture._merge import merge_conjugate
from skpmd.mixture._predict import MixturePredictions
from skpmd.mixture._prior import MixtureParameters, PriorParameters, strategy_of
from skpmd.mixture._responsibilities import refuse_missing
from skpmd.mixture._rows import distinct_rows, rows_of_fit
from skpmd.mixture._smc_fit import fit_draws, history_of_draws, update_draws
from skpmd.mixture._summaries import (
    component_parameters,
    conjugate_state,
    draws_state,
    mixture_posterior,
    precisions,
    prior_covariance,
    prior_findings,
    rounding_findings,
)
from skpmd.posterior import Posterior

WEIGHTINGS = ("stacking", "posterior", "uniform")


class GaussianMixturePMD(MixturePredictions, DensityMixin, ParticleEstimator):
    """Bayesian Gaussian mixture, in which each particle is a whole mixture.

    There are two forms of particles. ``strategy="parameters"``: all weights, means and covariances
    are coordinates of a particle, and the particles are draws from the posterior, with its
    evidence. This is for few coordinates. ``strategy="conjugate"``: a particle is one optimum with
    the conjugate posterior of weights, means and covariances around it. Particles differ in which
    rows they group together. Predictions are an average over particles of Student mixtures.

    Parameters
    ----------
    n_components : int, default=1
        Number of components of each particle.
    strategy : {"auto", "parameters", "conjugate"}, default="auto"
        Form of the particles. ``"auto"`` is ``"conjugate"``, unless ``component_prior`` is
        ``"independent"``; see ``strategy_``. ``"parameters"``, the posterior with all its modes and
        its evidence, takes seconds for a hundred rows and minutes for a thousand.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Form of the covariances.
    n_particles : int or "auto", default="auto"
        Number of particles; ``"auto"`` is 2000 draws, or 8 to 16 conjugate ones. Fewer than 100
        draws give a warning, and a single draw an error.
    weighting : {"stacking", "posterior", "uniform"}, default="stacking"
        How the conjugate strategy weights particles for predictions: by how well their components
        predict rows that are left out of them, by the particles' lower bounds of the evidence, or
        equally. Stacking weights are not posterior weights. With ``"uniform"`` labels, too, are an
        average over all particles, which often finds groups better than the best particle.
    weight_concentration_prior_type : {"dirichlet_distribution", "dirichlet_process", \
"pitman_yor"}, default="dirichlet_distribution"
        Prior of the mixture weights.
    weight_concentration_prior : float or None, default=None
        Concentration of each component (Dirichlet) or of the process; None means 1 / n_components.
    discount : float, default=0.25
        Discount of the Pitman-Yor process, in [0, 1).
    component_prior : {"normal_wishart", "independent"}, default="normal_wishart"
        Prior of means and covariances; ``"independent"`` has normal means, half-normal standard
        deviations and uniform correlations, and is for ``strategy="parameters"``. A parameter that
        does not belong to this prior raises an error.
    mean_prior : array-like of shape (n_features,) or None, default=None
        Prior mean of the means; None means the medians of the columns.
    mean_precision_prior : float or None, default=None
        Prior precision of the means, relative to the components' precisions (``"normal_wishart"``
        only); None means 1e-4, or 0.01 with ``strategy="parameters"``, and less where groups are
        many times a column's scale away from the median.
    mean_scale_prior : float or array-like of shape (n_features,) or None, default=None
        Prior standard deviations of the means with ``component_prior="independent"``; None means
        those of the rows, without rare values far away.
    degrees_of_freedom_prior : float or None, default=None
        Degrees of freedom of the Wishart distribution (``"normal_wishart"`` only), at least 0.1
        above their bound, which is n_features - 1, or 0 with ``"diag"`` and ``"spherical"``. None
        means one degree of freedom more than the least: n_features, 1 with ``"diag"``, where each
        column has its own, and 1 / n_features with ``"spherical"``, where a row has n_features.
    covariance_prior : float or array-like or None, default=None
        Prior scatter, of the shape that `sklearn.mixture.BayesianGaussianMixture` takes. None means
        a share of the rows' covariance: ``(10 * n_components / n_samples)**2``, between 1e-4 and 1,
        or 0.01 with ``strategy="parameters"``. In this covariance, values far from the median count
        as if they were three scales away, and far groups do not widen it. Conjugate ``"full"``
        components of fewer than ``2 * n_features**2`` rows each are also fitted under
        ``n_features / 10`` times this covariance, which is kept unless rows that are left out are
        less probable under it by 0.05 nats on average. Use a larger share to
        find groups rather than to estimate densities. With ``component_prior="independent"`` its
        diagonal has the squared scales of the half-normal standard deviations, and all other
        entries must be 0; None means the rows' variances, by the same rule.
    reg_covar : float, default=1e-6
        Added to the diagonal of the prior scatter, relative to the columns' squared scales.
    init_params : {"mixed", "k-means++", "kmeans", "random_from_data", "random"}, default="mixed"
        How each particle of the conjugate strategy starts: from centres that are far from each
        other, with 2 or 20 steps of Lloyd's algorithm; from random rows, with 2 steps; or with
        random responsibilities. ``"mixed"`` alternates between ``"k-means++"`` and
        ``"random_from_data"``.
    batch_size : int or "auto", default="auto"
        Number of rows in a stochastic step. The strategy ``"parameters"`` ignores this parameter,
        ``init_params``, ``max_iter``, ``max_full_iter``, ``tol`` and ``warm_start``.
    max_iter : int, default=5
        Number of passes of stochastic steps through the data; may be 0.
    max_full_iter : int or "auto", default="auto"
        Number of full-batch steps after these passes; ``"auto"`` is 3, and 100 for one particle or
        few rows.
    tol : float, default=1e-3
        Steps end when the lower bound increases by no more than this per row.
    step_size, step_offset, step_decay : float, default=1.0, 1.0, 0.5
        Step t has size ``step_size / (step_offset + t**step_decay)``.
    rejuvenation, ess_threshold, bandwidth : str, float, str or float, default="ess", 0.5, "loo"
        As in `BayesianLogisticRegressionPMD`; for ``strategy="parameters"``. ``rejuvenation`` and
        ``bandwidth`` have an effect only in a stream with too many rows to be retained (5000).
    total_samples : float or None, default=None
        Number of rows of one pass of `partial_fit`, if there will be several passes; not with
        ``half_life``.
    half_life : float or None, default=None
        For `partial_fit`: number of rows of later calls after which a row of a stream counts half;
        rows of one call do not discount each other. None means that none is forgotten.
    forgetting : float in [0, 0.2], default=0.0
        The same as a share: the fraction of the past that each new row discounts, which is
        1 - 2^(-1 / half_life); 0.01 is a half-life of 69 rows.
    warm_start : bool, default=False
        Whether `fit` starts from the particles of the previous fit (conjugate strategy). Scales and
        defaults of the prior are taken from the new rows.
    <prior>
    max_time : float or None, default=None
        Seconds after which `fit`, and a call of `partial_fit`, end at their next complete state,
        which is a step of all particles; a ``ConvergenceWarning`` says so. With
        ``strategy="parameters"`` the particles are then not yet draws from the posterior.
    handle_missing : {"error", "marginal"}, default="error"
        How predictions treat nan: as an error, or as a missing value, using the exact marginal
        density of the observed values of the row. `fit` needs complete rows in both cases, which is
        why the tag ``allow_nan`` is False. This parameter may be set after `fit`.
    <running>
    verbose_interval : int, default=10
        Number of steps between two lines of progress.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixing weights, averaged over relabelled particles.
    means_ : ndarray of shape (n_components, n_features)
        Means.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Covariances, their inverses, and factors of these, with the shapes of
        `sklearn.mixture.GaussianMixture`. With ``strategy="parameters"`` covariances are posterior
        means. A conjugate particle has the inverse of the posterior mean of its precision, which is
        smaller by about (n_features + 1) / rows, relatively.
    strategy_ : str
        The strategy used.
    converged_ : bool
        Whether the best particle has converged, or the posterior was reached. False if a conjugate
        stream with several components has rows whose responsibilities were computed only once.
    n_iter_ : int
        Number of steps.
    lower_bound_ : float
        Lower bound of the log evidence from the best particle (conjugate), or `log_evidence_`.
    log_evidence_ : float
        Log marginal likelihood (``strategy="parameters"``); too low for concentrations far below
        0.1. It is not available once a stream no longer retains its rows, or discounts some.
    posterior_ : Posterior
        Draws of weights, means and standard deviations of relabelled components. With
        ``strategy="conjugate"`` and several components each particle takes its responsibilities of
        the rows as known: standard deviations and intervals are too small if components overlap,
        and there is no evidence.
    diagnostics_ : dict
        ``warnings``, a list of reasons not to trust the result, ``interrupted`` and
        ``out_of_time``. After `skpmd.merge` also the ``method``, the number of shards,
        ``n_shards``, and how well their components match, ``alignment``.
    history_ : dict of str to ndarray of shape (n_steps,)
        A record of the steps. For the conjugate strategy: ``step_size``, and for each row the best
        particle's ``elbo`` (full-batch iterations only) and ``log_density`` before the step.
    weight_concentration_prior_, mean_precision_prior_, degrees_of_freedom_prior_ : float
        Parameters of the prior, as far as they belong to ``component_prior``.
    mean_prior_, mean_scale_prior_ : ndarray of shape (n_features,)
        Parameters of the prior, as above.
    covariance_prior_ : float or ndarray
        Parameter of the prior, with the shape that it has in
        `sklearn.mixture.BayesianGaussianMixture`.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.

    Notes
    -----
    Columns are shifted and scaled internally, so that their units do not matter; the
    prior's defaults are relative to the rows. Medians and a scale from gaps between near values are
    what they are relative to: mistyped values, sentinels such as -9999 and groups far from each
    other leave the other rows' components as they are, if there are components for them. Densities
    and draws of rows are averages over particles with the weights of ``weighting``. Labels,
    responsibilities, parameters and ``posterior_`` weight the particles by their bounds of the
    evidence (equally with ``weighting="uniform"``), so that one particle often has nearly all of
    the weight. Components of all particles are matched with those of the best particle.

    The log evidence refers to the prior over all orders of the components, and the posterior is an
    equal mixture of these orders: no factor of ``n_components!`` has to be added.

    See Also
    --------
    sklearn.mixture.BayesianGaussianMixture : One variational optimum, without streaming updates.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    Yao, Y., Vehtari, A., Simpson, D. and Gelman, A. (2018). Using stacking to average Bayesian
    predictive distributions. Bayesian Analysis 13.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianMixturePMD
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, size=(200, 2)), rng.normal(3, 1, size=(100, 2))])
    >>> mixture = GaussianMixturePMD(2, strategy="conjugate", random_state=0).fit(X)
    >>> np.sort(mixture.weights_).round(2)
    array([0.33, 0.67])
    >>> mixture.score_samples([[0.0, 0.0]]).shape
    (1,)
    """

    _of_words = "Leave out columns of words, or fit one mixture for each category"
    _frozen_parameters = ("strategy", "n_particles", *PriorParameters._fields)
    _parameter_constraints: dict = {
        **LOOP_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "strategy": [StrOptions({"auto", "parameters", "conjugate"})],
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "n_particles": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "weighting": [StrOptions(set(WEIGHTINGS))],
        "weight_concentration_prior_type": [
            StrOptions({"dirichlet_distribution", "dirichlet_process", "pitman_yor"})
        ],
        "weight_concentration_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "discount": [Interval(Real, 0.0, 1.0, closed="left")],
        "component_prior": [StrOptions({"normal_wishart", "independent"})],
        "mean_prior": [None, "array-like"],
        "mean_precision_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "mean_scale_prior": [None, Interval(Real, 0.0, None, closed="neither"), "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, 0.0, None, closed="neither")],
        "covariance_prior": [None, "array-like", Interval(Real, 0.0, None, closed="neither")],
        "reg_covar": [Interval(Real, 0.0, None, closed="left")],
        "init_params": [StrOptions(set(INITS))],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "max_full_iter": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "step_offset": [Interval(Real, 0, None, closed="left")],
        "handle_missing": [StrOptions({"error", "marginal"})],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    }  # fmt: skip

    def __init__(
        self,
        n_components: int = 1,
        *,
        strategy: Literal["auto", "parameters", "conjugate"] = "auto",
        covariance_type: Literal["full", "tied", "diag", "spherical"] = "full",
        n_particles: Literal["auto"] | int = "auto",
        weighting: Literal["stacking", "posterior", "uniform"] = "stacking",
        weight_concentration_prior_type: Literal[
            "dirichlet_distribution", "dirichlet_process", "pitman_yor"
        ] = "dirichlet_distribution",
        weight_concentration_prior: float | None = None,
        discount: float = 0.25,
        component_prior: Literal["normal_wishart", "independent"] = "normal_wishart",
        mean_prior: ArrayLike | None = None,
        mean_precision_prior: float | None = None,
        mean_scale_prior: ArrayLike | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: ArrayLike | None = None,
        reg_covar: float = 1e-6,
        init_params: Literal[
            "mixed", "k-means++", "kmeans", "random_from_data", "random"
        ] = "mixed",
        batch_size: Literal["auto"] | int = "auto",
        max_iter: int = 5,
        max_full_iter: Literal["auto"] | int = "auto",
        tol: float = 1e-3,
        step_size: float = 1.0,
        step_offset: float = 1.0,
        step_decay: float = 0.5,
        rejuvenation: Literal["ess", "always", "never"] = "ess",
        ess_threshold: float = 0.5,
        bandwidth: Literal["loo", "theorem", "scott", "silverman", "median"] | float = "loo",
        total_samples: float | None = None,
        forgetting: float = 0.0,
        half_life: float | None = None,
        warm_start: bool = False,
        prior: GaussianMixturePMD | None = None,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        handle_missing: Literal["error", "marginal"] = "error",
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.strategy = strategy
        self.covariance_type = covariance_type
        self.n_particles = n_particles
        self.weighting = weighting
        self.weight_concentration_prior_type = weight_concentration_prior_type
        self.weight_concentration_prior = weight_concentration_prior
        self.discount = discount
        self.component_prior = component_prior
        self.mean_prior = mean_prior
        self.mean_precision_prior = mean_precision_prior
        self.mean_scale_prior = mean_scale_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.reg_covar = reg_covar
        self.init_params = init_params
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_full_iter = max_full_iter
        self.tol = tol
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.rejuvenation = rejuvenation
        self.ess_threshold = ess_threshold
        self.bandwidth = bandwidth
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.warm_start = warm_start
        self.prior = prior
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.handle_missing = handle_missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to all rows.

        Rows are scaled a few at a time: in addition to X and ``sample_weight`` this takes about 25
        bytes per row, 40 if columns have many ties, and a few megabytes of memory
        (``strategy="conjugate"``). After
        Ctrl-C the particles are those of the last complete step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or data in blocks (`skpmd.data.Blocks`), with weights in the blocks or as an
            argument.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        GaussianMixturePMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If all weights are zero, or the prior does not match the data.

        Warns
        -----
        ConvergenceWarning
            If a given ``max_full_iter`` ends the steps before the bound has converged; if the prior
            of the covariances outweighs the rows in most of the mixture; with
            ``strategy="parameters"``, for each reason not to trust the posterior.
        """
        data = {"X": X, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            X, y, sample_weight = as_table(X, y, sample_weight)
            earlier = getattr(self, "_state", None) if self.warm_start else None
            self._reset()
            if self.prior is not None:
                return self.partial_fit(X, y, sample_weight)
            parameters = self._parameters()
            rows, weight = rows_of_fit(*self._read(X, sample_weight, reset=True))
            state = self._first_state(parameters, rows, weight, earlier)
            reasons = [*state.fit.convergence_warnings, *prior_findings(state)]
            fit = state.fit._replace(convergence_warnings=reasons)
            self._set_state(state._replace(fit=fit))
            self._freeze()
            with untimed():  # Without them here the first prediction would take the time.
                weighed = drive(self._weighed())
            if weighed.interrupted:
                fit = self._state.fit._replace(interrupted=True)
                self._set_state(self._state._replace(fit=fit))
        self._warn_or_interrupt()
        return self

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the mixture with more rows, which are then no longer needed.

        As long as there are few rows, all are retained, and all are fitted anew whenever their
        number has doubled. Later each row counts once, by its responsibilities when it arrives, and
        a sample of the rows is retained, for stacking and for the defaults of the prior. Where
        rows since the last fit are unlike those before, in units, places or groups, the sample is
        fitted anew (``strategy="conjugate"``). Rows should come shuffled: in sorted order a stream
        can be worse than `fit`. Components retain their numbers from call to call, by matching them
        with those of the best particle before. If the call fails in any way, or Ctrl-C ends it, the
        estimator remains unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        GaussianMixturePMD
            The estimator.

        Raises
        ------
        ValueError
            If a parameter of the particles or the prior has changed since the first call, rows do
            not match those of earlier calls, or all weights are zero.

        Warns
        -----
        ConvergenceWarning
            If rows lie so far from those of the first call that rounding leaves few digits of their
            covariances.
        """
        with self._all_or_nothing():
            before = self._state_or_prior()
            parameters = self._parameters()
            self._check_frozen()
            rows, weight = distinct_rows(*self._read(X, sample_weight, reset=before is None))
            if before is None:
                state = self._first_state(parameters, rows, weight)
            elif before.strategy == "parameters":
                fit = update_draws(parameters, before.fit, rows, weight)
                state = draws_state(fit, before)
            else:
                fit = update_conjugate(parameters, before.fit, rows, weight)
                state = conjugate_state(fit, self.weighting, before)
                reasons = [*fit.convergence_warnings, *rounding_findings(state)]
                state = state._replace(fit=state.fit._replace(convergence_warnings=reasons))
            self._set_state(state)
            self._freeze()
            self._warn_or_interrupt()
            return self

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the mixture given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            refuse_rows(X, y, "counts of components add up")
            self._start_merge(estimators, self._frozen_parameters)
            states, n = [one._state for one in estimators], n_shards(estimators)
            if any(state.strategy != "conjugate" for state in states):
                raise ValueError(
                    "strategy_='parameters' makes draws, which have no counts to add: set "
                    "strategy='conjugate' for all shards."
                )
            rng = as_generator(self.random_state)
            fit = merge_conjugate(self._parameters(), [one.fit for one in states], n, rng)
            self._set_state(conjugate_state(fit, self.weighting, states[0]))
        self._warn_or_interrupt()
        return self

    # ------------------------------------------------------------------ steps of a fit
    def _parameters(self):
        """`MixtureParameters` of now."""
        prior = self._record(PriorParameters)
        return self._record(MixtureParameters, prior=prior, options=self._loop_options())

    def _read(self, X, sample_weight, reset):
        """Checked rows, and how often each counts."""
        X = self._checked_data(
            X, dtype=[np.float64, np.float32], order="C", reset=reset,
            ensure_all_finite=self._finite(),
        )  # fmt: skip
        refuse_missing(X, "fit")
        refuse_overflows("X", X)
        return X, self._counted(checked_weights(sample_weight, X))

    def _first_state(self, parameters, rows, weight, earlier=None):
        """`MixtureState` after the first rows, from an earlier one on where it is conjugate too."""
        strategy = strategy_of(parameters)
        if self.verbose and self.strategy == "auto":
            print(f"strategy='auto' takes {strategy!r}.")
        rng = as_generator(self.random_state)
        if strategy == "parameters":
            remedy = "set strategy='conjugate' and component_prior='normal_wishart'"
            need_memory(rows.table, "strategy='parameters'", remedy)
            return draws_state(fit_draws(parameters, rows, weight, rng))
        before = earlier.fit if earlier and earlier.strategy == "conjugate" else None
        fit = fit_conjugate(parameters, rows, weight, rng, before)
        return conjugate_state(fit, self.weighting)

    def _weighed(self):
        """The estimator without weights for predictions and with them, for `drive`."""
        yield Stage(None)
        yield Stage(self._predictive)

    def _warn_or_interrupt(self):
        fit = self._state.fit
        self._conclude(fit.convergence_warnings, interrupted=fit.interrupted)

    # ------------------------------------------------------------------ results
    @result
    def strategy_(self) -> str:
        """The strategy used, a str."""
        return self._state.strategy

    @result
    def diagnostics_(self) -> dict[str, Any]:
        """Warnings about the result and diagnostics of a merge, a dict."""
        fit = self._state.fit
        return {
            "warnings": list(fit.convergence_warnings),
            "interrupted": fit.interrupted,
            "out_of_time": self.out_of_time_,
            **(getattr(fit, "merged", None) or {}),
        }

    @result
    def converged_(self) -> bool:
        """Whether the best particle has converged, or the posterior was reached."""
        return bool(self._state.fit.converged)

    @result
    def history_(self) -> dict[str, Array]:
        """Record of the steps, a dict of ndarray."""
        state = self._state
        history_of = history_of_draws if state.strategy == "parameters" else history_of_conjugate
        return history_of(state.fit.records)

    @result
    def n_iter_(self) -> int:
        """Number of steps."""
        return self._state.fit.records.n

    @result
    def lower_bound_(self) -> float:
        """Lower bound of the log evidence."""
        return self._state.lower_bound

    @result
    def log_evidence_(self) -> float:
        """Log marginal likelihood; raises AttributeError where it is not known."""
        if self._state.log_evidence is None:
            return self.posterior_.log_evidence  # This raises, and says why.
        return self._state.log_evidence

    @result
    def posterior_(self) -> Posterior:
        """Draws of weights, means and standard deviations of relabelled components."""
        return mixture_posterior(self._state)

    @result
    def _component_parameters(self):
        """Weights, means and covariances."""
        state = self._state
        return component_parameters(state.points, state.scaler, state.prior.covariance_type)

    @result
    def weights_(self) -> Array:
        """Mixing weights."""
        return self._component_parameters[0]

    @result
    def means_(self) -> Array:
        """Means."""
        return self._component_parameters[1]

    @result
    def covariances_(self) -> Array:
        """Covariances."""
        return self._component_parameters[2]

    @result
    def _precisions(self):
        """Precisions and their factors."""
        return precisions(self.covariances_, self._state.prior.covariance_type)

    @result
    def precisions_(self) -> Array:
        """Inverses of the covariances."""
        return self._precisions[0]

    @result
    def precisions_cholesky_(self) -> Array:
        """Factors of the precisions."""
        return self._precisions[1]

    # ------------------------------------------------------------------ the prior
    @result
    def weight_concentration_prior_(self) -> float:
        """Concentration of each component, or of the process."""
        return self._state.prior.concentration

    @result
    def mean_prior_(self) -> Array:
        """Prior mean of the means."""
        return self._state.scaler.inverse_transform(self._state.prior.mean)

    @result
    def covariance_prior_(self) -> Array:
        """Prior scatter, or squared scales of the half-normal standard deviations."""
        return prior_covariance(self._state.prior, self._state.scaler)

    @result
    def mean_precision_prior_(self) -> float:
        """Prior precision of the means relative to the components'; ``"normal_wishart"`` only."""
        return self._of_prior("normal_wishart", "mean_precision")

    @result
    def degrees_of_freedom_prior_(self) -> float:
        """Degrees of freedom of the Wishart distribution; ``"normal_wishart"`` only."""
        return self._of_prior("normal_wishart", "df")

    @result
    def mean_scale_prior_(self) -> Array:
        """Prior standard deviations of the means; ``"independent"`` only."""
        return self._of_prior("independent", "mean_scale") * self._state.scaler.scale

    def _of_prior(self, component_prior, name):
        """A hyperparameter, or AttributeError where the prior does not have it."""
        prior = self._state.prior
        if prior.component_prior != component_prior:
            raise AttributeError(f"component_prior={prior.component_prior!r} has no {name}.")
        return getattr(prior, name)
