"""Gaussian mixtures with a posterior, weights and a stream."""

import copy
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from skpmd._base._legacy import reset, rollback_on_error
from skpmd._base.options import LOOP_CONSTRAINTS, check_options
from skpmd._base.rows import merged
from skpmd._base.utils import as_generator
from skpmd.engine.loop import Options
from skpmd.engine.mirror import Settings
from skpmd.mixture._conjugate_fit import fit_conjugate, take_in
from skpmd.mixture._initialization import INITS
from skpmd.mixture._particles import in_units
from skpmd.mixture._predict import MixturePredictions
from skpmd.mixture._prior import Units, problem_of, strategy_of
from skpmd.mixture._relabel import aligned, orders
from skpmd.mixture._reservoir import joined
from skpmd.mixture._smc_fit import all_rows, fit_parameters, learn_anew, partial_fit_parameters
from skpmd.mixture._summaries import (
    component_parameters,
    conjugate_points,
    precisions,
    prior_attributes,
)

WEIGHTINGS = ("stacking", "posterior", "uniform")
_SETTLED = (
    "n_components", "strategy", "covariance_type", "n_particles", "weight_concentration_prior_type",
    "weight_concentration_prior", "discount", "component_prior", "mean_prior",
    "mean_precision_prior", "mean_scale_prior", "degrees_of_freedom_prior", "covariance_prior",
    "reg_covar",
)  # fmt: skip


class GaussianMixturePMD(MixturePredictions, DensityMixin, BaseEstimator):
    """Bayesian Gaussian mixture whose particles each are a whole mixture.

    Two forms of particle. ``strategy="parameters"``: all weights, means and covariances are
    coordinates of a particle, and the particles are draws of the posterior, with its evidence:
    for few coordinates. ``strategy="conjugate"``: a particle is one optimum with the conjugate
    posterior of weights, means and covariances around it; particles differ in which rows go
    together. Predictions are an average over particles of Student mixtures.

    Parameters
    ----------
    n_components : int, default=1
        Components of each particle.
    strategy : {"auto", "parameters", "conjugate"}, default="auto"
        Form of the particles; ``strategy_`` says which ``"auto"`` took: ``"parameters"`` for
        several components, at most 12 free parameters and 2000 distinct rows, given to `fit`, and
        wherever ``component_prior`` is ``"independent"``. `partial_fit` else takes ``"conjugate"``.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Form of the covariances.
    n_particles : int or "auto", default="auto"
        Particles; ``"auto"`` is 2000 draws, or 8 to 16 conjugate ones. Fewer than 100 draws are
        warned of, and 1 is refused.
    weighting : {"stacking", "posterior", "uniform"}, default="stacking"
        Where the conjugate strategy's weights for predictions come from: how well components
        predict rows that they have not learnt, the particles' lower bounds of the evidence, or
        nowhere. Stacking weights are not posterior weights. With ``"uniform"`` labels, too, are an
        average over all particles, which often finds groups better than the best one.
    weight_concentration_prior_type : {"dirichlet_distribution", "dirichlet_process", \
"pitman_yor"}, default="dirichlet_distribution"
        Prior of the mixture weights.
    weight_concentration_prior : float or None, default=None
        Concentration of each component (Dirichlet) or of the process; None is 1 / n_components.
    discount : float, default=0.25
        Discount of the Pitman-Yor process, in [0, 1).
    component_prior : {"normal_wishart", "independent"}, default="normal_wishart"
        Prior of means and covariances; ``"independent"`` has normal means, half-normal standard
        deviations and uniform correlations, and is for ``strategy="parameters"``. A parameter that
        the prior does not have is refused.
    mean_prior : array-like of shape (n_features,) or None, default=None
        Prior mean of the means; None is the rows'.
    mean_precision_prior : float or None, default=None
        Precision of the means in units of the components' (``"normal_wishart"`` only); None is
        1e-4, or 0.01 with ``strategy="parameters"``.
    mean_scale_prior : float or array-like of shape (n_features,) or None, default=None
        Prior standard deviations of the means with ``component_prior="independent"``; None is the
        rows'.
    degrees_of_freedom_prior : float or None, default=None
        Of the Wishart distribution (``"normal_wishart"`` only), at least 0.1 above its bound:
        n_features - 1, or 0 with ``"diag"`` and ``"spherical"``; None is n_features.
    covariance_prior : float or array-like or None, default=None
        Prior scatter, of the shape that `sklearn.mixture.BayesianGaussianMixture` takes. None is a
        share of the rows' covariance: ``(10 * n_components / n_samples)**2``, between 1e-4 and 1,
        or 0.01 with ``strategy="parameters"``. For groups rather than densities give more of it.
        With ``component_prior="independent"`` its diagonal has the squared scales of the
        half-normal standard deviations, and nothing may stand beside it; None is the rows'
        variances.
    reg_covar : float, default=1e-6
        Added to the diagonal of the prior scatter, in units of the columns' variances.
    init_params : {"mixed", "k-means++", "kmeans", "random_from_data", "random"}, default="mixed"
        How each particle of the conjugate strategy starts: from centres that are far from each
        other, with 2 or 20 steps of Lloyd's algorithm; from any rows, with 2 steps; or with shares
        at random. ``"mixed"`` is ``"k-means++"`` and ``"random_from_data"`` in turns.
    batch_size : int or "auto", default="auto"
        Rows of a stochastic step. Of this, ``init_params``, ``max_iter``, ``max_full_iter``,
        ``tol`` and ``warm_start`` the strategy ``"parameters"`` makes no use.
    max_iter : int, default=5
        Passes of stochastic steps through the data; may be 0.
    max_full_iter : int or "auto", default="auto"
        Steps on all data after them; ``"auto"`` is 3, and 100 for one particle or few rows.
    tol : float, default=1e-3
        Steps end when the lower bound gains no more than this for each row.
    step_size, step_offset, step_decay : float, default=1.0, 1.0, 0.5
        Step t has size ``step_size / (step_offset + t**step_decay)``.
    rejuvenation, ess_threshold, bandwidth
        As in `BayesianLogisticRegressionPMD`; for ``strategy="parameters"``. ``rejuvenation`` and
        ``bandwidth`` act in a stream whose rows have become too many to be kept (5000).
    total_samples : float or None, default=None
        Rows of one pass of `partial_fit`, where there will be several; not with ``forgetting``.
    forgetting : float, default=0.0
        Share of the past that each row of later calls of `partial_fit` makes forgotten; rows of one
        call do not discount each other.
    warm_start : bool, default=False
        Whether `fit` starts from the particles of the fit before (conjugate strategy). Units and
        defaults of the prior are those of the new rows.
    random_state : int, RandomState or None, default=None
        Source of randomness.
    verbose : int, default=0
        Progress.
    verbose_interval : int, default=10
        Steps between two lines of it.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixture weights, averaged over aligned particles.
    means_ : ndarray of shape (n_components, n_features)
        Means.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Covariances and what follows from them, of the shapes of `sklearn.mixture.GaussianMixture`.
        With ``strategy="parameters"`` covariances are posterior means; a conjugate particle has the
        inverse of the posterior mean of its precision, which is smaller, by a share of
        (n_features + 1) / rows or so.
    strategy_ : str
        The strategy taken.
    converged_ : bool
        Whether the best particle has settled, or the posterior was reached. False after rows of a
        conjugate stream that several components have shared out only once.
    n_iter_ : int
        Steps.
    lower_bound_ : float
        Lower bound of the log evidence by the best particle (conjugate), or `log_evidence_`.
    log_evidence_ : float
        Log marginal likelihood (``strategy="parameters"``); too low for concentrations far below
        0.1. Not there once rows of a stream are no longer kept, or some are forgotten.
    posterior_ : Posterior
        Draws of weights, means and standard deviations of aligned components.
    history_ : dict of str to ndarray
        A record of the steps. Of the conjugate strategy: size, and for each row the best particle's
        bound (steps on all data only) and log density of the rows before it learnt them.
    weight_concentration_prior_, mean_prior_, mean_precision_prior_, degrees_of_freedom_prior_, \
covariance_prior_, mean_scale_prior_
        The prior, as far as ``component_prior`` has it.

    Notes
    -----
    Columns are shifted and scaled inside, so units do not matter; the prior's defaults are relative
    to the rows. Densities and draws of rows are averages over particles with the weights of
    ``weighting``. Labels, responsibilities, parameters and ``posterior_`` weigh the particles by
    their bounds of the evidence (equally with ``weighting="uniform"``), which is often one particle
    with nearly all of the weight; components of all particles are aligned to those of the best.

    The log evidence is that of the prior over all orders of the components, of which the posterior
    is an equal mixture: no factor of ``n_components!`` has to be added.

    See Also
    --------
    sklearn.mixture.BayesianGaussianMixture : One variational optimum, and no stream.

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

    _parameter_constraints: dict = {
        **{
            name: LOOP_CONSTRAINTS[name]
            for name in (
                "batch_size", "step_size", "step_offset", "step_decay", "rejuvenation",
                "ess_threshold", "bandwidth", "total_samples", "forgetting", "random_state",
                "verbose",
            )
        },
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
        "warm_start": ["boolean"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
    }  # fmt: skip

    def __init__(
        self,
        n_components=1,
        *,
        strategy="auto",
        covariance_type="full",
        n_particles="auto",
        weighting="stacking",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=None,
        discount=0.25,
        component_prior="normal_wishart",
        mean_prior=None,
        mean_precision_prior=None,
        mean_scale_prior=None,
        degrees_of_freedom_prior=None,
        covariance_prior=None,
        reg_covar=1e-6,
        init_params="mixed",
        batch_size="auto",
        max_iter=5,
        max_full_iter="auto",
        tol=1e-3,
        step_size=1.0,
        step_offset=1.0,
        step_decay=0.5,
        rejuvenation="ess",
        ess_threshold=0.5,
        bandwidth="loo",
        total_samples=None,
        forgetting=0.0,
        warm_start=False,
        random_state=None,
        verbose=0,
        verbose_interval=10,
    ):
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
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Learn the mixture from all rows.

        There are several copies of them in memory meanwhile; `partial_fit` is for more rows than
        that leaves room for. After Ctrl-C the particles are those of the last complete step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; w is the same as w copies of the row.

        Returns
        -------
        GaussianMixturePMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If all weights are zero, or the prior does not go with the data.

        Warns
        -----
        ConvergenceWarning
            If a given ``max_full_iter`` ends the steps before the bound has settled; with
            ``strategy="parameters"`` of what stands against the posterior.
        """
        with rollback_on_error(self):
            before = getattr(self, "_conjugate", None) if self.warm_start else None
            reset(self)
            self._points = None
            self._options()
            X, weight = self._read(X, sample_weight, reset=True)
            strategy = strategy_of(self, len(X), X.shape[1], in_parts=False)
            rng = as_generator(self.random_state)
            if strategy == "parameters":
                self._learn_parameters(X, weight, rng, first=True)
            else:
                kept = joined(None, X, weight, 1.0)
                self._set_conjugate(fit_conjugate(self, kept, rng, before))
                self._particles()
        self._warn()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, sample_weight=None):
        """Take more rows in, which are then no longer needed.

        While they are few, all rows are kept, and the particles learn anew from all of them
        whenever there are twice as many. Later each row counts once, shared out as the particles
        see it when it comes; a sample of the rows is kept, for stacking and for the defaults of the
        prior. Rows should come shuffled: in sorted order a stream can be much worse than `fit`.
        Components keep their places from call to call, next to those of the best particle before.
        If the call fails in any way, or Ctrl-C ends it, the estimator stays as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; w is the same as w copies of the row.

        Returns
        -------
        GaussianMixturePMD
            The estimator.
        """
        with rollback_on_error(self):
            first = getattr(self, "strategy_", None) is None
            self._options()
            if not first:
                self._refuse_changes()
            X, weight = self._read(X, sample_weight, reset=first)
            if first:
                strategy = strategy_of(self, len(X), X.shape[1], in_parts=True)
            else:
                strategy = self.strategy_
            if strategy == "parameters":
                rng = as_generator(self.random_state) if first else None
                self._learn_parameters(X, weight, rng, first)
            else:
                before = None if first else self._conjugate
                self._set_conjugate(take_in(self, before, X, weight))
            self._warn()
        return self

    # ------------------------------------------------------------------ steps of a fit
    def _options(self):
        """Options of a step on rows that are not kept."""
        options = Options(
            total_samples=self.total_samples,
            forgetting=self.forgetting,
            settings=Settings(
                rejuvenation=self.rejuvenation,
                ess_threshold=self.ess_threshold,
                bandwidth=self.bandwidth,
            ),
        )
        return check_options(options)

    def _read(self, X, sample_weight, reset):
        """Distinct rows, sorted, and how often each counts."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=reset)
        X = np.asarray(X, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        present = weight > 0.0  # a row of weight zero is as good as absent
        if not present.any():
            raise ValueError("sample_weight is zero for every row: there are no data to fit.")
        if not present.all():
            X, weight = X[present], weight[present]
        places, weight = merged(weight, X)
        return X[places], weight

    def _refuse_changes(self):
        """Parameters that the stream so far has been made with stay as they are."""
        for name, before in self._settled.items():
            now = getattr(self, name)
            if not np.array_equal(now, before):
                raise ValueError(
                    f"{name} was {before!r} in the calls before and is {now!r}: set it back, or "
                    "call fit."
                )

    def _set_conjugate(self, conjugate):
        """Results of conjugate particles."""
        before = self._points_before(conjugate.units)
        conjugate, points = conjugate_points(conjugate, self.weighting, before)
        self._conjugate, self._state, self._certificates = conjugate, None, {}
        self._seen = conjugate.seen
        bound = conjugate.model.state(conjugate.counts).bound.max()
        self.lower_bound_ = float(bound + conjugate.counts.total * conjugate.units.log_jacobian)
        gamma, mean_bound, score, n_particles = np.array(conjugate.history).reshape(-1, 4).T
        self.history_ = {
            "step": np.arange(1, len(gamma) + 1),
            "step_size": gamma,
            "bound": mean_bound + conjugate.units.log_jacobian,
            "log_density": score + conjugate.units.log_jacobian,
            "n_particles": n_particles.astype(int),
        }
        self._interrupted, self._convergence_warnings = (
            conjugate.interrupted,
            conjugate.convergence_warnings,
        )
        self._set("conjugate", points, conjugate.units, conjugate.problem, conjugate.converged)

    def _learn_parameters(self, X, weight, rng, first):
        """Rows for ``strategy="parameters"``, the first or more."""
        seen, size = 0.0 if first else self._seen, float(weight.sum())
        if first:
            units, problem = self._units_and_prior(X, weight)
            fitted = fit_parameters(self, problem, units.inner(X), weight, rng)
        else:
            units, problem, state = self._units, self._problem, self._state
            total = all_rows(self, state, units.inner(X), weight)
            if total is None:
                own = problem, units.inner(X), weight, None, state
                fitted = partial_fit_parameters(self, *own)
            else:
                X, weight, discount = units.outer(total[0]), *total[1:]
                units, problem = self._units_and_prior(X, weight)
                own = units.inner(X), weight, size, discount, state
                fitted = learn_anew(self, problem, *own)
        order = orders(fitted.particles, self._points_before(units))
        points = aligned(fitted.particles, order)
        self._conjugate, self._state = None, fitted.state
        self._seen = seen + size
        self.history_ = fitted.history
        self._interrupted, self._convergence_warnings = (
            fitted.interrupted,
            list(fitted.convergence_warnings),
        )
        evidence = fitted.log_evidence
        self._certificates = {"unavailable": "the particles have not all been weighed by all rows"}
        vars(self).pop("log_evidence_", None)  # of the rows before these
        self.lower_bound_ = np.nan
        if evidence is not None:
            evidence = float(evidence + self._seen * units.log_jacobian)
            self._certificates = {
                "log_evidence": evidence, "log_evidence_se": fitted.log_evidence_se,
            }  # fmt: skip
            self.log_evidence_ = self.lower_bound_ = evidence
        self._set("parameters", points, units, problem, fitted.converged)

    def _units_and_prior(self, X, weight):
        """For ``strategy="parameters"``, from all rows so far."""
        units = Units.of(X, weight, self.covariance_type)
        return units, problem_of(self, units.inner(X), weight, units, "parameters")

    def _points_before(self, units):
        """Particles of the rows before in the units of now, or None after none."""
        points = getattr(self, "_points", None)
        return None if points is None else in_units(points, self._units, units)

    def _set(self, strategy, points, units, problem, converged):
        """Results that both strategies have."""
        if self.verbose and self.strategy == "auto" and not hasattr(self, "strategy_"):
            print(f"strategy='auto' takes {strategy!r}.")
        self.strategy_, self.converged_ = strategy, bool(converged)
        self.n_iter_ = len(self.history_["step"])
        self.n_components_ = problem.n_components
        self._points, self._units, self._problem, self._lazy = points, units, problem, {}
        parameters = component_parameters(points, units, self.covariance_type)
        self.weights_, self.means_, self.covariances_ = parameters
        factors = precisions(self.covariances_, self.covariance_type)
        self.precisions_, self.precisions_cholesky_ = factors
        for name, value in prior_attributes(problem, units).items():
            setattr(self, name, value)
        self._settled = {name: copy.deepcopy(getattr(self, name)) for name in _SETTLED}

    def _n_parameters(self):
        """Free parameters of one mixture."""
        return self._problem.n_coordinates

    def _warn(self):
        """Warn the caller of doubts, or hand on his Ctrl-C."""
        if self._interrupted:
            raise KeyboardInterrupt
        if self._convergence_warnings:
            warnings.warn(
                f"{type(self).__name__}: {'; '.join(self._convergence_warnings)}.",
                ConvergenceWarning,
                stacklevel=3,
            )
