"""BayesianLogisticRegressionPMD: class probabilities averaged over a real posterior."""

from numbers import Real

import numpy as np
from scipy.special import log_expit
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    validate_data,
)

from skpmd._averaging import AveragedClassifier
from skpmd._base import LOOP_CONSTRAINTS, Options, run
from skpmd._labels import check_both_weighted, encode_binary
from skpmd._moves import MOVES, move_from_references
from skpmd._proposals import PROPOSALS, draw_references, references, weigh_references
from skpmd._results import forget, set_results, warn_of_doubts
from skpmd._streams import Rows
from skpmd.engine.cloud import draw_prior
from skpmd.models.logistic import LogisticModel, logits
from skpmd.models.priors import NormalPrior
from skpmd.posterior import as_generator


class BayesianLogisticRegressionPMD(AveragedClassifier, BaseEstimator):
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
    moves : {"auto", "always", "never"}, default="auto"
        Hamiltonian moves of 32 chains along gradients of the posterior on all data: where the
        weights of draws from references fail their certificate; in place of the weights; not at
        all. Moved particles carry equal weights; split R-hat is their certificate, and there is
        no evidence. Not with ``proposal="prior"`` or ``polish=False``.
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
        Rounds of weighing, or passes of stochastic steps.
    history_ : dict of ndarray
        One entry per step or round: step size, effective sample size, rejuvenations, bandwidth.
    diagnostics_ : dict
        Which path was taken and how it went: ``path``, ``ess``, ``pareto_k``, ``disagreement`` of
        the references in standard errors and how many of them could be judged, ``warnings``.
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
        "moves": [StrOptions(set(MOVES))],
        **LOOP_CONSTRAINTS,  # those of parameters that are not exposed here are never looked up
    }

    def __init__(
        self,
        *,
        prior_scale=1.0,
        intercept_prior_scale=10.0,
        fit_intercept=True,
        proposal="auto",
        moves="auto",
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
        temperature=1.0,
        random_state=None,
        verbose=0,
    ):
        self.prior_scale = prior_scale
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.proposal = proposal
        self.moves = moves
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
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            check_both_weighted(sign, sample_weight)
        rows = Rows(X, sign, sample_weight, self.batch_size)
        scale = np.full(X.shape[1] + self.fit_intercept, float(self.prior_scale))
        if self.fit_intercept:
            scale[-1] = self.intercept_prior_scale
        model = LogisticModel(NormalPrior(scale), self.fit_intercept)
        rng = as_generator(self.random_state)
        names = list(_check_feature_names_in(self)) + ["intercept"] * self.fit_intercept
        if self.proposal == "prior" or not self.polish:
            remedy = self._fit_steps(model, rows, options, names, rng)
        else:
            remedy = self._fit_references(model, rows, names, rng)
        self.classes_ = classes
        self._set_coefficients()
        warn_of_doubts(self, remedy)
        return self

    def _fit_steps(self, model, rows, options, names, rng):
        """Stochastic mirror steps, from the prior or from the mixture of references."""
        if self.proposal == "prior":
            start = draw_prior(model, self.n_particles, rng)
        else:
            start = draw_references(model, *self._references(model, rows), self.n_particles, rng)
        outcome = run(model, rows, start, options, rng)
        set_results(self, outcome, names=names, path=f"mirror steps from {self.proposal}")
        self.n_iter_ = self.max_iter
        return "raise n_particles or max_iter, lower step_size, or widen the prior"

    def _fit_references(self, model, rows, names, rng):
        """The polish step on draws from the references; where it fails, moves from there."""
        task = (
            model,
            rows.whole(),
            *self._references(model, rows),
            self.n_particles,
            1.0 / self.temperature,
            rng,
        )
        infos, pilot = [], {}
        if self.moves != "always":
            infos = self._weigh(task, names)
            if self.moves == "never" or not self.diagnostics_["warnings"]:
                return "set moves='auto', raise n_particles, or lower prior_scale"
            pilot = {f"pilot_{name}": self.diagnostics_[name] for name in ("ess", "pareto_k")}
        outcome = move_from_references(*task)
        outcome = outcome._replace(infos=infos + outcome.infos)
        set_results(
            self, outcome, names=names, path=f"moves from references: {self.proposal}", **pilot
        )
        self.n_iter_ = len(outcome.infos)
        return "raise n_particles, lower prior_scale, or leave out features that few rows have"

    def _weigh(self, task, names):
        """Weigh draws from the mixture of references; returns the record of the rounds."""
        outcome, pair, disagreement, judged = weigh_references(*task)
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
        return outcome.infos

    def _references(self, model, rows):
        d = len(model.prior.scale)
        return references(model, rows.whole(), self.proposal, d, 1.0 / self.temperature)

    def _set_coefficients(self):
        mean, std = self.posterior_.mean(), self.posterior_.std()
        p = self.n_features_in_
        self.coef_, self.coef_std_ = mean[None, :p], std[None, :p]
        self.intercept_ = mean[p:] if self.fit_intercept else np.zeros(1)
        self.intercept_std_ = std[p:] if self.fit_intercept else np.zeros(1)

    def _class_log_proba(self, X):
        table = logits(self.posterior_.particles, X, self.fit_intercept)
        table = table.astype(np.float64, copy=False)
        return np.stack([log_expit(-table), log_expit(table)])

    def __sklearn_tags__(self):
        """Tags: binary only for now."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
