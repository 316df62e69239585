"""BayesianLogisticRegressionPMD: class probabilities averaged over a real posterior."""

import warnings
from functools import partial
from numbers import Real

from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_feature_names_in

from skpmd._base._legacy import reset, rollback_on_error, set_results, warn_of_convergence
from skpmd._base.options import LOOP_CONSTRAINTS, check_options
from skpmd._base.rows import Rows
from skpmd._base.streaming import (
    advance,
    check_coordinates,
    first_stream,
    kernel_step,
    stream_after,
)
from skpmd._base.utils import as_generator
from skpmd.engine.loop import Options
from skpmd.engine.mirror import Settings
from skpmd.logistic._empirical_bayes import chosen_scale
from skpmd.logistic._fit import find_posterior
from skpmd.logistic._hmc import MOVES
from skpmd.logistic._importance import PROPOSALS
from skpmd.logistic._labels import encode, encode_known, row_weights
from skpmd.logistic._make_model import PRIORS, coordinate_names, linear_model, missing_means
from skpmd.logistic._mean_field_fit import (
    COVARIANCE_TYPES,
    NO_PARTS,
    fit_diagonal,
    is_diagonal,
    takes_parts,
)
from skpmd.logistic._predict import LinearPredictions
from skpmd.logistic._streaming import proposal_step


class BayesianLogisticRegressionPMD(LinearPredictions, BaseEstimator):
    """Logistic regression, binary or multinomial, with a posterior over its coefficients.

    By default the posterior is found in up to four moves: the Laplace approximation; Gaussian
    mirror descent from it (the mirror step in the Gaussian family); one polish step, which weighs
    draws from both, plain and with the skewness that the posterior shows along its axes, by the
    posterior itself; and, where those weights fail their certificate, Hamiltonian moves of the
    particles. Predictions average over the particles. ``proposal="prior"`` uses values of the
    likelihood alone, from the prior, by stochastic mirror steps with rejuvenation, as in the
    paper's Algorithm 1.

    Parameters
    ----------
    prior : {"normal", "laplace", "student_t", "cauchy", "horseshoe"}, default="normal"
        Prior on each coefficient, around zero. The mode under ``"normal"`` is scikit-learn's L2
        penalty at ``C=prior_scale**2``, under ``"laplace"`` its L1 penalty at ``C=prior_scale``.
        ``"horseshoe"`` shrinks many coefficients to nothing and leaves some free; its local and
        global scales are coordinates of the posterior, found by Hamiltonian moves.
    prior_scale : float or "evidence", default=1.0
        Scale of the prior (the standard deviation of a normal one); of tau, the half-Cauchy global
        scale, under the horseshoe. ``"evidence"`` takes the scale under which the data are most
        probable, not for the horseshoe. Standardise the features.
    prior_df : float, default=4.0
        Degrees of freedom under ``"student_t"``.
    intercept_prior_scale : float, default=10.0
        Standard deviation of the normal prior on an intercept.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    class_weight : dict, "balanced" or None, default=None
        Factors of the row weights, by label; ``"balanced"`` gives all classes the same total. The
        posterior is then one of data that were not observed: good for decisions, not for error
        bars.
    proposal : {"auto", "prior", "laplace", "mirror"}, default="auto"
        The density that particles are first drawn from: a mixture of ``"laplace"`` and
        ``"mirror"`` references; the prior; the Laplace approximation; the Gaussian of the mirror
        descent. References are mixed, never chosen between.
    moves : {"auto", "always", "never"}, default="auto"
        Hamiltonian moves of 32 chains along gradients of the posterior on all data: where the
        weights of draws from references fail their certificate; in place of the weights; not at
        all. Moved particles carry equal weights; split R-hat is their certificate, and there is
        no evidence. Not with ``proposal="prior"`` or ``reweight=False``.
    covariance_type : {"auto", "full", "diag"}, default="auto"
        ``"diag"`` stops at a Gaussian without correlations, by mirror descent in that family, in
        memory proportional to the data: for text, where a full covariance does not fit. There are
        no particles and no certificate then; standard deviations are those of a coefficient given
        all others. ``"auto"`` is ``"diag"`` above 2000 coordinates (``(n_features + 1) *
        n_classes``, or one row of them for two classes) where no other parameter asks for
        particles.
    n_particles : int, default=4000
        Particles drawn in a round (in pairs: an odd number is rounded up); rounds follow until the
        effective sample size reaches 0.6 of it, ten at most. The size of the cloud with
        ``proposal="prior"`` or ``reweight=False``.
    max_iter : int, default=5
        Passes of stochastic steps, with ``proposal="prior"`` or ``reweight=False``. A polish step
        forgets them (gamma = 1), so with a reference and ``reweight=True`` none are made.
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
    reweight : bool, default=True
        Weigh the particles by the posterior on all data.
    total_samples : float or None, default=None
        For `partial_fit`: None is a stream, in which each row counts once. A number is that of the
        rows of a data set that may be passed over many times.
    forgetting : float in [0, 1), default=0.0
        For `partial_fit`: share of the past that a stream forgets with each row.
    warm_start : bool, default=False
        Whether the stochastic steps of `fit` start where the last fit ended, instead of from the
        prior or the references. Without such steps it changes nothing.
    temperature : float, default=1.0
        The posterior is proportional to prior * likelihood^(1 / temperature).
    random_state : int, RandomState instance or None, default=None
        Seed; the same integer gives the same answer.
    verbose : int, default=0
        1 shows progress of stochastic steps.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_, coef_std_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior means and standard deviations of the coefficients: of the log odds of
        ``classes_[1]``, or one row for each of more than two classes.
    intercept_, intercept_std_ : ndarray of shape (1,) or (n_classes,)
        Posterior means and standard deviations of the intercepts; 0 without them. All four are of
        the dtype of X.
    posterior_ : Posterior or GaussianPosterior
        Weighted particles, or a Gaussian without correlations; coordinates are the coefficients
        of a row and its intercept, row by row, and last the logarithms of the horseshoe's scales.
    prior_scale_ : float
        Scale of the prior, as given or by evidence.
    log_evidence_ : float
        Log marginal likelihood, with ``reweight=True`` and ``temperature=1`` (not set otherwise,
        nor after moves).
    n_iter_ : int
        Rounds of weighing, or passes of stochastic steps; after `partial_fit`, steps.
    history_ : dict of ndarray
        One entry per step, round or call: step size, effective sample size, rejuvenations,
        bandwidth, and what rejuvenations so far have cost the means (``rejuvenation_error``); of a
        Gaussian without correlations the step size and the largest ``change`` of a log precision.
    diagnostics_ : dict
        Which path was taken and how it went: ``method``, ``ess``, ``pareto_k``, ``disagreement`` of
        the references in standard errors, ``r_hat`` of moves, the ``pilot_ess`` and
        ``pilot_pareto_k`` of weights that were given up for them, ``mean_error``
        (estimate of the largest error of a mean by redraws and few particles; None once polished),
        ``interrupted``, ``warnings``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has them.

    Warns
    -----
    ConvergenceWarning
        If coefficients are known to have no posterior mean (separable classes under heavy tails);
        if k-hat is above 0.7 on weights that differ visibly, few particles are effective, the
        references disagree, chains disagree (split R-hat above 1.05), or the bound on splits was
        reached; the message says what to do.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The posterior mode, at ``C=prior_scale**2``.
    ParticleMirrorDescent : Any other model.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    Neal, R. (2011). MCMC using Hamiltonian dynamics. In Handbook of Markov Chain Monte Carlo, CRC.

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
        "prior": [StrOptions(set(PRIORS))],
        "prior_scale": [StrOptions({"evidence"}), Interval(Real, 0, None, closed="neither")],
        "prior_df": [Interval(Real, 0, None, closed="neither")],
        "intercept_prior_scale": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "proposal": [StrOptions(set(PROPOSALS))],
        "moves": [StrOptions(set(MOVES))],
        "warm_start": ["boolean"],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        **LOOP_CONSTRAINTS,  # those of parameters that are not exposed here are never looked up
    }

    def __init__(
        self,
        *,
        prior="normal",
        prior_scale=1.0,
        prior_df=4.0,
        intercept_prior_scale=10.0,
        fit_intercept=True,
        class_weight=None,
        proposal="auto",
        moves="auto",
        covariance_type="auto",
        n_particles=4000,
        max_iter=5,
        batch_size="auto",
        step_size=1.0,
        step_offset="auto",
        step_decay=1.0,
        rejuvenation="ess",
        ess_threshold=0.5,
        bandwidth="loo",
        reweight=True,
        total_samples=None,
        forgetting=0.0,
        warm_start=False,
        temperature=1.0,
        random_state=None,
        verbose=0,
    ):
        self.prior = prior
        self.prior_scale = prior_scale
        self.prior_df = prior_df
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.proposal = proposal
        self.moves = moves
        self.covariance_type = covariance_type
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.rejuvenation = rejuvenation
        self.ess_threshold = ess_threshold
        self.bandwidth = bandwidth
        self.reweight = reweight
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.warm_start = warm_start
        self.temperature = temperature
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Find the posterior of the coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), float32 or float64
            Features. They should be standardised, for the prior treats all alike.
        y : array-like of shape (n_samples,)
            Two classes or more, of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; w is the same as w copies of the row.

        Returns
        -------
        BayesianLogisticRegressionPMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If y has one class only, or the weights leave a class without any.
        """
        options = self._options()
        last = getattr(self, "_stream", None) if self.warm_start else None
        reset(self)
        X, y = self._validated(X, y, reset=True)
        codes, classes = encode(y)
        rows = self._rows(X, codes, classes, sample_weight, all_classes=True)
        rng = as_generator(self.random_state)
        diagonal = is_diagonal(self, X.shape[1], len(classes))
        self.prior_scale_ = chosen_scale(self, rows, len(classes), rng)
        model = linear_model(self, X.shape[1], len(classes), self.prior_scale_)
        if diagonal:
            names = coordinate_names(model, _check_feature_names_in(self), classes)
            fit_diagonal(self, model, rows, names)
            self.classes_ = classes
            self._set_coefficients(X.dtype)
            remedy = "lower prior_scale"
        else:
            start = None if last is None else last.particles
            found = find_posterior(self, model, rows, options, rng, start)
            self.classes_ = classes
            self._set_results(model, found.outcome, X.dtype, **found.notes)
            self._stream = stream_after(found.outcome, rows.total, rng)
            self.n_iter_ = found.n_iter
            remedy = found.remedy
        warn_of_convergence(self, remedy)
        if not diagonal:
            particles = found.outcome.particles.theta
            self._warn_of_missing_means(missing_means(model, rows.data, particles, len(classes)))
        return self

    @available_if(takes_parts)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take more rows into the posterior, which are then no longer needed.

        The first rows to come (all `total_samples` of them, if that is given) count once each: the
        sequential Bayes rule, with no data kept. After fit, the posterior goes on from what fit
        left. Between rejuvenations nothing is approximated; what they lose is estimated in
        ``history_["rejuvenation_error"]``, and a large error is warned of. The prior is that of the
        first call. If a call fails in any way, the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), float32 or float64
            Features, on one scale in all calls.
        y : array-like of shape (n_samples,)
            Labels; one class alone is fine, but the first rows to come should hold all.
        classes : array-like of shape (n_classes,), optional
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
            If y holds other labels than ``classes``, or a parameter needs all data at once.
        """
        with rollback_on_error(self):
            options = self._options()
            first = getattr(self, "_stream", None) is None
            if self.class_weight == "balanced":
                raise ValueError("class_weight='balanced' needs all data: call fit, or set a dict.")
            if first and self.prior_scale == "evidence":
                raise ValueError(
                    "prior_scale='evidence' needs all data: call fit, or set a number."
                )
            X, y = self._validated(X, y, reset=first)
            _check_partial_fit_first_call(self, classes)
            if first:
                self.prior_scale_ = float(self.prior_scale)
            if is_diagonal(self, X.shape[1], len(self.classes_)):
                raise ValueError(NO_PARTS)
            rows = self._rows(X, encode_known(y, self.classes_), self.classes_, sample_weight)
            model = linear_model(self, X.shape[1], len(self.classes_), self.prior_scale_)
            proposal = self.proposal if model.prior.has_gaussian else "prior"
            stream = getattr(self, "_stream", None) or first_stream(self.random_state)
            check_coordinates(stream, model)
            step = partial(proposal_step, proposal=proposal) if proposal != "prior" else kernel_step
            stream = self._stream = advance(stream, model, rows, options, step)
            outcome, path = stream.outcome(), f"stream from {proposal}"
            self._set_results(model, outcome, X.dtype, stream=True, method=path)
            self.n_iter_ = len(stream.infos)
            warn_of_convergence(self, "raise n_particles, or give the rows in larger parts")
        return self

    def _options(self):
        """Options of the loop."""
        options = Options(
            n_particles=self.n_particles,
            max_iter=self.max_iter,
            step_size=self.step_size,
            step_offset=self.step_offset,
            step_decay=self.step_decay,
            reweight=self.reweight,
            total_samples=self.total_samples,
            forgetting=self.forgetting,
            temperature=self.temperature,
            settings=Settings(
                rejuvenation=self.rejuvenation,
                ess_threshold=self.ess_threshold,
                bandwidth=self.bandwidth,
            ),
        )
        return check_options(options)

    def _rows(self, X, codes, classes, sample_weight, all_classes=False):
        """Data with targets and weights as the model wants them."""
        weight = row_weights(X, codes, classes, sample_weight, self.class_weight, all_classes)
        targets = 2.0 * codes - 1.0 if len(classes) == 2 else codes
        return Rows(X, targets, weight, self.batch_size)

    def _warn_of_missing_means(self, reason):
        if reason:
            self.diagnostics_["warnings"].append(reason)
            message = (
                f"{type(self).__name__}: {reason}, and coef_ and coef_std_ settle nowhere. Report "
                "posterior_.quantile(0.5) and posterior_.interval(), which exist, or set "
                "prior='normal', or prior='student_t' with prior_df above 2."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _set_results(self, model, outcome, dtype, **notes):
        """Posterior and diagnostics in the coordinates of a user, and moments of coefficients."""
        set_results(
            self,
            outcome,
            names=coordinate_names(model, _check_feature_names_in(self), self.classes_),
            coordinates=model.prior.reported(outcome.particles.theta),
            **notes,
        )
        self._set_coefficients(dtype)

    def __sklearn_tags__(self):
        """Tags: sparse input is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
