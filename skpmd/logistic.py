"""BayesianLogisticRegressionPMD: class probabilities averaged over a real posterior."""

from numbers import Real

import numpy as np
from scipy.special import expit, log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from skpmd._base import LOOP_CONSTRAINTS, Options, run
from skpmd._labels import check_both_weighted, encode_binary, encode_known
from skpmd._partial import Stream, learn, unharmed
from skpmd._proposals import PROPOSALS, draw_references, references, weigh_references
from skpmd._results import forget, set_results, warn_of_doubts
from skpmd._streams import Rows
from skpmd.engine.cloud import draw_prior
from skpmd.models.logistic import LogisticModel, logits
from skpmd.models.priors import NormalPrior
from skpmd.posterior import as_generator, check_level, weighted_quantile

_TABLE = 1 << 20  # logits held at once in predictions


class BayesianLogisticRegressionPMD(ClassifierMixin, BaseEstimator):
    """Binary logistic regression with a posterior over its coefficients.

    Coefficients have independent normal priors. By default the posterior is found in three moves:
    the Laplace approximation; Gaussian mirror descent from it (the mirror step in the Gaussian
    family); and one polish step, which weighs draws from both, plain and with the skewness that the
    posterior shows along its axes, by the posterior itself. Predictions average over the weighted
    particles. ``proposal="prior"`` uses values of the likelihood alone, from the prior, by
    stochastic mirror steps with rejuvenation, as in the paper's Algorithm 1.

    Parameters
    ----------
    prior_scale : float, default=1.0
        Standard deviation of the normal prior on each coefficient; scikit-learn's ``C`` is its
        square. Standardise the features.
    intercept_prior_scale : float, default=10.0
        Standard deviation of the normal prior on the intercept.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    proposal : {"auto", "prior", "laplace", "mirror"}, default="auto"
        The density that particles are first drawn from: a mixture of ``"laplace"`` and
        ``"mirror"`` references; the prior; the Laplace approximation; the Gaussian of the mirror
        descent. References are mixed, never chosen between.
    n_particles : int, default=4000
        Particles drawn in a round (in pairs: an odd number is rounded up); rounds follow until the
        effective sample size reaches 0.6 of it, ten at most. The size of the cloud with
        ``proposal="prior"`` or ``polish=False``.
    max_iter : int, default=5
        Passes of stochastic steps, with ``proposal="prior"`` or ``polish=False``. A polish step
        forgets them (gamma = 1), so with a reference and ``polish=True`` none are made.
    batch_size : int or "auto", default="auto"
        Rows in a batch; ``"auto"`` is min(n, 1000).
    step_size, step_offset, step_decay : default=1.0, "auto", 1.0
        gamma_t = step_size / (step_offset + t**step_decay), capped at 1; offset ``"auto"`` is the
        number of batches in a pass.
    rejuvenation : {"ess", "always", "never"}, default="ess"
        When stochastic steps redraw the cloud.
    ess_threshold : float in [0, 1), default=0.5
        Share of effective particles at which a step is split and the cloud redrawn.
    bandwidth : {"loo", "theorem", "scott", "silverman", "median"} or float, default="loo"
        Kernel width of a rejuvenation.
    polish : bool, default=True
        Weigh the particles by the posterior on all data.
    total_samples : float or None, default=None
        For `partial_fit`: None is a stream, in which each row counts once. A number is that of the
        rows of a data set that may be passed over many times.
    forgetting : float in [0, 1), default=0.0
        For `partial_fit`: share of the past that a stream forgets with each row.
    temperature : float, default=1.0
        The posterior is proportional to prior * likelihood^(1 / temperature).
    random_state : int, RandomState instance or None, default=None
        Seed; the same integer gives the same answer.
    verbose : int, default=0
        1 shows progress of stochastic steps.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels.
    coef_, coef_std_ : ndarray of shape (1, n_features)
        Posterior means and standard deviations of the coefficients.
    intercept_, intercept_std_ : ndarray of shape (1,)
        Posterior mean and standard deviation of the intercept; 0 without one.
    posterior_ : Posterior
        Weighted particles; coordinates are the coefficients and, last, the intercept.
    log_evidence_ : float
        Log marginal likelihood, with ``polish=True`` and ``temperature=1`` (not set otherwise).
    n_iter_ : int
        Rounds of weighing, or passes of stochastic steps; after `partial_fit`, steps.
    history_ : dict of ndarray
        One entry per step, round or call: step size, effective sample size, rejuvenations,
        bandwidth, and what redraws so far have cost the means (``redraw_error``).
    diagnostics_ : dict
        Which path was taken and how it went: ``path``, ``ess``, ``pareto_k``, ``disagreement`` of
        the references in standard errors and how many of them could be judged, ``mean_error``
        (bound on the error of the means by redraws and by few particles, None after a polish step),
        ``interrupted``, ``warnings``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has them.

    Warns
    -----
    ConvergenceWarning
        If k-hat is above 0.7 on weights that differ visibly, few particles are effective, the
        references disagree, or the bound on splits was reached; the message says what to do.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The posterior mode, at ``C=prior_scale**2``.
    ParticleMirrorDescent : Any other model.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    Opper, M. and Archambeau, C. (2009). The variational Gaussian approximation revisited. Neural
    Computation 21, 786-792.

    Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance
    sampling. Journal of Machine Learning Research 25(72).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 2)
    >>> bool(model[-1].posterior_.pareto_k < 0.7)
    True
    """

    _parameter_constraints: dict = {
        "prior_scale": [Interval(Real, 0, None, closed="neither")],
        "intercept_prior_scale": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "proposal": [StrOptions(set(PROPOSALS))],
        **LOOP_CONSTRAINTS,  # those of parameters that are not exposed here are never looked up
    }

    def __init__(
        self,
        *,
        prior_scale=1.0,
        intercept_prior_scale=10.0,
        fit_intercept=True,
        proposal="auto",
        n_particles=4000,
        max_iter=5,
        batch_size="auto",
        step_size=1.0,
        step_offset="auto",
        step_decay=1.0,
        rejuvenation="ess",
        ess_threshold=0.5,
        bandwidth="loo",
        polish=True,
        total_samples=None,
        forgetting=0.0,
        temperature=1.0,
        random_state=None,
        verbose=0,
    ):
        self.prior_scale = prior_scale
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.proposal = proposal
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.rejuvenation = rejuvenation
        self.ess_threshold = ess_threshold
        self.bandwidth = bandwidth
        self.polish = polish
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.temperature = temperature
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Find the posterior of the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), float32 or float64
            Features. They should be standardised, for the prior treats all alike.
        y : array-like of shape (n_samples,)
            Two classes of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; w is the same as w copies of the row.

        Returns
        -------
        BayesianLogisticRegressionPMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If y does not have exactly two classes.
        """
        options = Options.of(self)
        forget(self)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        sign, classes = encode_binary(y)
        rows = self._rows(X, sign, sample_weight)
        if sample_weight is not None:
            check_both_weighted(rows.data.y, rows.data.weight)
        model, names = self._model()
        rng = as_generator(self.random_state)
        if self.proposal == "prior" or not self.polish:
            outcome, remedy = self._fit_steps(model, rows, options, names, rng)
        else:
            outcome, remedy = self._fit_references(model, rows, names, rng)
        self._stream = Stream(outcome.cloud, None, outcome.infos, rows.total, rng)
        self.classes_ = classes
        self._set_coefficients()
        warn_of_doubts(self, remedy)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take more rows into the posterior, which are then no longer needed.

        The first rows to come (all `total_samples` of them, if that is given) count once each: the
        sequential Bayes rule, with no data kept. After fit, the posterior goes on from what fit
        left. Between rejuvenations nothing is approximated; what they lose is estimated in
        ``history_["redraw_error"]``, and a large error is warned of. If the call fails in any way,
        the estimator stays as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), float32 or float64
            Features, on one scale in all calls.
        y : array-like of shape (n_samples,)
            Labels; one class alone is fine.
        classes : array-like of shape (2,), optional
            All classes; needed at the first call, unless there was a fit.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; w is the same as w copies of the row.

        Returns
        -------
        BayesianLogisticRegressionPMD
            The estimator.

        Raises
        ------
        ValueError
            If y holds other labels than ``classes``, or those are not two.
        """
        with unharmed(self):
            options = Options.of(self)
            first = getattr(self, "_stream", None) is None
            X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C", reset=first)
            _check_partial_fit_first_call(self, classes)
            rows = self._rows(X, encode_known(y, self.classes_), sample_weight)
            model, names = self._model()
            learn(self, model, rows, options, self.proposal, names)
            self._set_coefficients()
            warn_of_doubts(self, "raise n_particles, or give the rows in larger parts")
        return self

    def _rows(self, X, sign, sample_weight):
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return Rows(X, sign, sample_weight, self.batch_size)

    def _model(self):
        """The model of what `validate_data` has seen, and the names of its coordinates."""
        names = list(_check_feature_names_in(self)) + ["intercept"] * self.fit_intercept
        scale = np.full(len(names), float(self.prior_scale))
        if self.fit_intercept:
            scale[-1] = self.intercept_prior_scale
        return LogisticModel(NormalPrior(scale), self.fit_intercept), names

    def _fit_steps(self, model, rows, options, names, rng):
        """Stochastic mirror steps, from the prior or from the mixture of references."""
        if self.proposal == "prior":
            start = draw_prior(model, self.n_particles, rng)
        else:
            start = draw_references(model, *self._references(model, rows), self.n_particles, rng)
        outcome = run(model, rows, start, options, rng)
        set_results(self, outcome, names=names, path=f"mirror steps from {self.proposal}")
        self.n_iter_ = self.max_iter
        return outcome, "raise n_particles or max_iter, lower step_size, or widen the prior"

    def _fit_references(self, model, rows, names, rng):
        """The polish step on draws from the mixture of references."""
        outcome, pair, disagreement, judged = weigh_references(
            model,
            rows.whole(),
            *self._references(model, rows),
            self.n_particles,
            1.0 / self.temperature,
            rng,
        )
        set_results(
            self,
            outcome,
            names=names,
            group=pair,
            disagreement=disagreement,
            references_judged=judged,
            path=f"references: {self.proposal}",
        )
        self.n_iter_ = len(outcome.infos)
        remedy = "raise n_particles, lower prior_scale, or leave out features that few rows have"
        return outcome, remedy

    def _references(self, model, rows):
        d = len(model.prior.scale)
        return references(model, rows.whole(), self.proposal, d, 1.0 / self.temperature)

    def _set_coefficients(self):
        mean, std = self.posterior_.mean(), self.posterior_.std()
        p = self.n_features_in_
        self.coef_, self.coef_std_ = mean[None, :p], std[None, :p]
        self.intercept_ = mean[p:] if self.fit_intercept else np.zeros(1)
        self.intercept_std_ = std[p:] if self.fit_intercept else np.zeros(1)

    def predict_proba(self, X):
        """Posterior predictive class probabilities: averages over particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probability of each class, in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Logarithm of `predict_proba`, shape (n_samples, 2)."""
        check_is_fitted(self, "posterior_")
        log_weights = self.posterior_.log_weights[:, None]

        def log_average(table):
            # Each class by its own sum in logs: a small probability keeps its digits.
            return np.stack(
                [logsumexp(log_weights + log_expit(s * table), axis=0) for s in (-1, 1)]
            )

        return self._by_rows(X, log_average).T

    def decision_function(self, X):
        """Log odds of the averaged probability of ``classes_[1]``, shape (n_samples,)."""
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0]

    def predict(self, X):
        """The class of higher averaged probability, shape (n_samples,)."""
        second = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[second.astype(int)]

    def predict_proba_interval(self, X, level=0.9):
        """Central credible intervals of the class probabilities.

        Where `predict_proba` is the chance of a class, this is how well that chance is known.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        level : float in (0, 1), default=0.9
            Posterior probability of the interval.

        Returns
        -------
        ndarray of shape (n_samples, 2, 2)
            Lower and upper end (last axis) for each class (second axis).
        """
        tails = check_level(level)
        check_is_fitted(self, "posterior_")
        weights = self.posterior_.weights

        def ends(table):
            return np.stack([weighted_quantile(expit(s * table), weights, tails) for s in (-1, 1)])

        return self._by_rows(X, ends).transpose(2, 0, 1)

    def _by_rows(self, X, reduce):
        """Logits under all particles, reduced over particles, chunk by chunk of rows."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False)
        particles = self.posterior_.particles
        step = max(1, _TABLE // len(particles))
        parts = []
        for start in range(0, len(X), step):
            table = logits(particles, X[start : start + step], self.fit_intercept)
            parts.append(reduce(table.astype(np.float64, copy=False)))
        return np.concatenate(parts, axis=-1)

    def __sklearn_tags__(self):
        """Tags: binary only for now."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
