"""BayesianLogisticRegressionPMD: class probabilities averaged over a posterior."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call

from skpmd._base.estimator import result
from skpmd._base.utils import fill_docstrings
from skpmd._base.validation import (
    encode,
    encode_known,
    naming_unordered,
    row_weights,
)
from skpmd._runtime.call import untimed
from skpmd._typing import Array, ArrayLike, FilePath, Seed
from skpmd.engine.loop import drive
from skpmd.linear._averages import points_of_posterior, searched_normal_logits
from skpmd.linear._class_estimator import LinearClassifier
from skpmd.linear._column_scale import in_units, warn_of_overruled
from skpmd.linear._design import n_logits
from skpmd.linear._families import FAMILIES
from skpmd.linear._group_estimator import GROUP_CONSTRAINTS, GroupColumns
from skpmd.linear._grouped_softmax import ClassGroups, Softmax
from skpmd.linear._groups import grouped
from skpmd.linear._linear_estimator import SCALE
from skpmd.linear._make_model import PRIORS, missing_moments
from skpmd.linear._mean_field import COVARIANCE_TYPES
from skpmd.linear._posterior import GaussianPosterior
from skpmd.linear._predict import ClassPredictions
from skpmd.linear._response import Classes, Distribution
from skpmd.linear._row_estimator import RowStatements
from skpmd.linear._texts import TEXTS
from skpmd.posterior import Posterior


class BayesianLogisticRegressionPMD(ClassPredictions, RowStatements, LinearClassifier):
    """Logistic regression, binary or multinomial, with a posterior over its coefficients.

    By default the posterior is found in up to four stages: the Laplace approximation; Gaussian
    mirror descent from it (the mirror step in the Gaussian family); draws from both, with and
    without the skewness that the posterior has along its axes, which are reweighted by the
    posterior itself; and, if the diagnostics of these weights are bad, Hamiltonian moves of the
    particles. Predictions average over the particles. ``proposal="prior"`` uses only values of the
    likelihood: it starts from the prior and takes stochastic mirror steps with rejuvenation, as in
    Algorithm 1 of the paper.

    Parameters
    ----------
    prior : {"normal", "laplace", "student_t", "cauchy", "horseshoe"} or posterior, default="normal"
        Prior on each coefficient. On standardised columns the mode under ``"normal"`` is
        scikit-learn's solution with an L2 penalty at ``C=prior_scale**2``, under ``"laplace"`` with
        an L1 penalty at ``C=prior_scale``. ``"horseshoe"`` shrinks many coefficients to almost zero
        and leaves some free; its local and global scales are coordinates of the posterior, found by
        Hamiltonian
        moves. An earlier posterior, ``fitted.posterior_``, on the same columns and classes, makes
        yesterday's posterior today's prior. If it holds its rows (see ``posterior_``), the fit uses
        the rows of both. Otherwise a density fitted to it takes its place
        (`Posterior.fitted_density`), and ``diagnostics_["prior_pareto_k"]`` shows how good this
        density is. The other parameters of the prior then have no effect. A fitted estimator is
        used as its posterior (in searches, which clone estimators, give ``posterior_``).
    prior_mean : float, array-like or dict, default=0.0
        Centre of the prior on coefficients, in the same forms and shapes as ``prior_scale``. It
        does not apply to the intercept, and not to the horseshoe.
    prior_scale : float, "evidence", array-like or dict, default=1.0
        Scale of the prior (the standard deviation of a normal one); under the horseshoe the scale
        of tau, the half-Cauchy global scale. ``"evidence"`` takes the scale under which the data
        are most probable; it is not available for the horseshoe. An array has one scale for each
        column, shape (n_features,), or one for each coefficient, the shape of ``coef_``. The keys
        of a dict are names of columns, or tuples of names for groups of columns; other columns have
        a scale of 1 (and a ``prior_mean`` of 0). ``scale`` says what all of them are per.
    prior_df : float, default=4.0
        Degrees of freedom under ``"student_t"``.
    intercept_prior_scale : float, default=10.0
        Standard deviation of the normal prior on an intercept: on the logit at the columns' means
        or, with ``scale=None``, where all columns are zero.
    scale : "auto" or None, default="auto"
        What ``prior_mean`` and ``prior_scale`` refer to. ``"auto"``: the change of the logit per
        standard deviation of a column, in the rows of `fit` with their weights, those by class
        included, or in the first calls of a stream that have 50 rows together (1
        for a column that does not vary). With ``covariance_type="diag"`` the unit of a column that
        is zero in most rows is at least a third of the root mean square of its other numbers.
        Columns are centred inside, unless there is no intercept, so that a column in any units
        gives the answer of standardised ones. None: the literal prior, per unit of the given
        columns, and the intercept's where all of them are zero; columns should then be
        standardised, for nothing is centred inside, and a column far from zero moves the intercept
        out of its prior. In either case coefficients and intercepts are in the given units.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    class_weight : dict, "balanced" or None, default=None
        Factors of the row weights, by label; ``"balanced"`` gives all classes the same total. The
        posterior then belongs to data that were not observed: it is good for decisions, but not for
        error bars.
    <proposals>
    covariance_type : {"auto", "full", "diag"}, default="auto"
        ``"diag"`` fits a Gaussian without correlations, by mirror descent in that family, with
        memory proportional to the data. It is for text, where a full covariance does not fit in
        memory. There are then no particles and no diagnostics of them; standard deviations are
        those of a coefficient given all others. ``"auto"`` is ``"diag"`` above 2000 coordinates
        (``(n_features + 1) * n_classes``, or ``n_features + 1`` for two classes) if no other
        parameter requires particles.
    <particles>
    prediction_tol : float, default=1e-3
        How far predicted probabilities may differ from averages over all particles. They are
        averages over normal logits with the posterior's means and covariances. Whether these do is
        found on up to 1000 rows of the fit, and on mixtures of these rows: no probability there has
        an error of more than half of ``prediction_tol``, or of more than nine tenths of it if all
        classes were equally probable, and no log probability of more than fifty times
        ``prediction_tol`` (``diagnostics_["prediction_error"]`` is the largest error of a
        probability). In a stream these are rows of the last part. Rows whose logits vary more than
        those of any of these rows, and rows whose most probable class is uncertain, are averaged
        over all particles. With 0, or if this accuracy is not reached, all rows are.
    <calls>
    <running>
    groups : str, int or list of one, default=None
        Column of X, by its name or place, with the label of each row's group: strings, categories
        or integers, or nothing where a group is missing. Each group has an intercept of its own on
        the logit, normal about that of all, as in `BayesianGLMRegressorPMD`; of more than two
        classes one for each but the first, independent of each other. With groups
        ``prediction_tol`` has no effect, and there have to be particles.
    slopes : dict of str or int to list of one str or int, default=None
        Columns, three at most, with coefficients that are different in each group, such as
        ``{"school": ["hours", "age"]}``. For two classes.
    <groups>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    coef_, coef_std_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Posterior means and standard deviations of the coefficients: of the log odds of
        ``classes_[1]``, or one row for each of more than two classes.
    intercept_, intercept_std_ : ndarray of shape (1,) or (n_classes,)
        Posterior means and standard deviations of the intercepts, which are where all columns are
        zero; 0 without intercepts. These four attributes have the dtype of X.
    posterior_ : Posterior or GaussianPosterior
        Weighted particles, or a Gaussian without correlations; coordinates are the coefficients and
        the intercept of each row of ``coef_``, row by row, and last the logarithms of the
        horseshoe's scales. After `fit`, ``posterior_.rows`` holds the rows for a later fit that has
        this posterior as its ``prior``, or a summary of them if they take more memory than the
        particles; None if a density of the particles is enough. Pickles contain these rows, too:
        set ``posterior_.rows = None`` if others must not get them. With ``groups`` come
        ``sd[school]``, ``sd[school:hours]`` and ``cor[school:hours]`` as in
        `BayesianGLMRegressorPMD`; of more than two classes ``sd[school:CLASS]`` of each but the
        first. The fit holds its rows, as a stream does.
    group_effects_ : EffectsOfGroups
        Effects of the groups, with ``groups``: means, standard deviations, intervals, ranks.
    prior_scale_ : float or ndarray of the shape of ``coef_``
        Scale of the prior, as given or chosen by the evidence, in the units that ``scale`` says.
    log_evidence_ : float
        Log marginal likelihood, with ``reweight=True`` and ``temperature=1`` (not set otherwise,
        nor after moves). With an earlier posterior as the prior, it is that of the new rows.
    n_iter_ : int
        Number of rounds of reweighting and checks of chains, or of passes of stochastic steps;
        after `partial_fit`, number of steps.
    history_ : dict of str to ndarray of shape (n_entries,)
        One entry per step, round, check of chains or call: step size, effective sample size,
        rejuvenations, bandwidth, ``r_hat`` of moves, and, without reweighting, the estimated error
        of the means from the rejuvenations so far (``rejuvenation_error``). For a Gaussian without
        correlations: the step size and the largest ``change`` of a log precision.
    diagnostics_ : dict
        The inference ``method``; ``ess``; ``pareto_k``; the ``disagreement`` of the proposal's
        components in standard errors; ``r_hat`` of moves, and ``importance_ess`` and
        ``importance_pareto_k`` of weights that moves have replaced, if any; ``mean_error``
        (estimate of the largest error of a mean from rejuvenations and from few particles, in
        posterior standard deviations; None after reweighting; only a lower bound in a stream with
        sorted rows that are too many to be retained); of many rows ``n_rows_weighed`` and
        ``log_weight_error``, the rows of a sample and the standard error of log weights by it, in
        nats; ``interrupted``;
        ``out_of_time``; ``prior_pareto_k``, the k-hat of an earlier posterior relative to the
        density that represents it as the prior, if there is one; ``warnings``.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has them.

    Warns
    -----
    ConvergenceWarning
        If coefficients are known to have no posterior mean (separable classes under heavy tails);
        if k-hat is above 0.7 on weights that differ visibly, few particles are effective, the
        proposal's components disagree, chains disagree (split R-hat above 1.05), or the limit on
        substeps was reached. The message says what to do.

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
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLogisticRegressionPMD(random_state=0)
    >>> model.fit(X, y).predict_proba(X[:2]).shape
    (2, 2)
    >>> bool(model.posterior_.pareto_k < 0.7)
    True

    Use the posterior of the first rows, with its units, as the prior for the others:

    >>> X = X[:, [0, 1, 4]]
    >>> first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:300], y[:300])
    >>> second = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    >>> second = second.fit(X[300:], y[300:])
    >>> whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    >>> bool((abs(second.coef_ - whole.coef_) < 0.2 * whole.coef_std_).all())
    True
    """

    _parameter_constraints: dict = {
        **LinearClassifier._parameter_constraints,
        "prior": [StrOptions(set(PRIORS)), Posterior, GaussianPosterior, BaseEstimator],
        "prior_scale": [StrOptions({"evidence"}), SCALE, "array-like", dict],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "prediction_tol": [Interval(Real, 0, None, closed="left")],
        **GROUP_CONSTRAINTS,
    }
    _roles = ()
    _frozen_parameters = (*LinearClassifier._frozen_parameters, *GroupColumns._group_roles)
    _alike = "class_weight", "temperature"

    def __init__(
        self,
        *,
        prior: Literal["normal", "laplace", "student_t", "cauchy", "horseshoe"]
        | Posterior
        | GaussianPosterior
        | BaseEstimator = "normal",
        prior_mean: ArrayLike | dict[Any, float] = 0.0,
        prior_scale: ArrayLike | dict[Any, float] = 1.0,
        prior_df: float = 4.0,
        intercept_prior_scale: float = 10.0,
        scale: Literal["auto"] | None = "auto",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        proposal: Literal["auto", "prior", "laplace", "mirror"] = "auto",
        moves: Literal["auto", "always", "never"] = "auto",
        covariance_type: Literal["auto", "full", "diag"] = "auto",
        n_particles: int = 4000,
        max_iter: int = 5,
        batch_size: Literal["auto"] | int = "auto",
        step_size: float = 1.0,
        step_offset: float | Literal["auto"] = "auto",
        step_decay: float = 1.0,
        rejuvenation: Literal["ess", "always", "never"] = "ess",
        ess_threshold: float = 0.5,
        bandwidth: Literal["loo", "theorem", "scott", "silverman", "median"] | float = "loo",
        reweight: bool = True,
        prediction_tol: float = 1e-3,
        total_samples: float | None = None,
        forgetting: float = 0.0,
        half_life: float | None = None,
        warm_start: bool = False,
        temperature: float = 1.0,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        groups: list[str | int] | str | int | None = None,
        slopes: dict[Any, list[str | int]] | None = None,
        group_prior_scale: float = 2.5,
        groups_at: Literal["own", "population"] = "own",
    ) -> None:
        self.prior = prior
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_df = prior_df
        self.intercept_prior_scale = intercept_prior_scale
        self.scale = scale
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
        self.prediction_tol = prediction_tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.warm_start = warm_start
        self.temperature = temperature
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.groups = groups
        self.slopes = slopes
        self.group_prior_scale = group_prior_scale
        self.groups_at = groups_at

    def _targets(self, X, y, sample_weight, known, response, is_part, classes=None):
        """Codes, weights and the classes; see `LinearEstimator`."""
        _, y = y
        if is_part:
            with naming_unordered("classes", classes):
                _check_partial_fit_first_call(self, classes)
        elif response is None:
            codes, self.classes_ = encode(y)
        if is_part or response is not None:
            codes = encode_known(y, self.classes_)
        is_fit = response is None and not is_part
        weight = row_weights(
            X, codes, self.classes_, sample_weight, self.class_weight, all_classes=is_fit
        )
        if response is None:
            response = self._in_classes() if self._has_groups else Classes(self.classes_)
        return codes, self._counted(weight), response

    def _in_classes(self):
        """What groups need: two classes are one success, or none, in a trial."""
        if len(self.classes_) > 2:
            return Classes(self.classes_, Softmax())
        return Distribution(FAMILIES["binomial"]())

    def _with_groups(self, response, labels, X, weight):
        """A response with effects of groups of rows: of three classes or more, of each class."""
        if response.n_rows == 1 or response.family.groups is not None:
            return super()._with_groups(response, labels, X, weight)
        if self.slopes or len(labels) > 1:
            given = f"slopes={self.slopes!r}" if self.slopes else f"groups={self.groups!r}"
            raise ValueError(
                f"{given}: y has {len(self.classes_)} classes, and slopes and several factors are "
                "for two. Set slopes=None and name one column in groups, or fit one class against "
                "the others with sklearn.multiclass.OneVsRestClassifier."
            )
        names = tuple(str(label) for label in self.classes_[1:])
        factor, scale = str(self._name_of(self._factors[0])), float(self.group_prior_scale)
        groups = ClassGroups(factor, labels[0], names, scale)
        return response._replace(family=grouped(response.family, groups))

    def _concerns(self, task, theta):
        """Moments that do not exist; see `LinearEstimator`."""
        return missing_moments(task.model, task.rows.data, theta, len(self.classes_))

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the posterior given the rows of all of these estimators; see `skpmd.merge`."""
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' gives rows of each shard weights of their own: fit "
                "all shards with a dict."
            )
        return super()._merge(estimators, X, y, sample_weight)

    @result
    def coef_(self) -> Array:
        """Posterior means of the coefficients, shape (1 or n_classes, n_features)."""
        return self._coefficients(self.posterior_.mean())[0]

    @result
    def coef_std_(self) -> Array:
        """Posterior standard deviations of the coefficients."""
        return self._coefficients(self.posterior_.std())[0]

    @result
    def intercept_(self) -> Array:
        """Posterior means of the intercepts, shape (1,) or (n_classes,)."""
        return self._coefficients(self.posterior_.mean())[1]

    @result
    def intercept_std_(self) -> Array:
        """Posterior standard deviations of the intercepts."""
        return self._coefficients(self.posterior_.std())[1]

    def _warn_of_column_scale(self, rows):
        """Warn where the prior overrules the rows: it may where columns are not scaled."""
        if self.scale is None and isinstance(self.prior, str) and self.prior != "horseshoe":
            means = self.coef_.astype(float), self.intercept_
            warn_of_overruled(rows.data, *means, self.prior_scale_, self._features())

    def _coefficients(self, moment):
        """A moment of the coefficients and of the intercepts, in the dtype of X."""
        state, p = self._state, self.n_features_in_ - len(self._places())
        n_rows = n_logits(len(self.classes_))
        rows = moment[: n_rows * (p + state.fit_intercept)].reshape(n_rows, -1)
        most = np.finfo(state.dtype).max  # Beyond it are means that have not converged.
        rows = np.clip(rows, -most, most).astype(state.dtype, copy=False)
        return rows[:, :p], rows[:, p] if state.fit_intercept else np.zeros(n_rows, state.dtype)

    def _completed(self, state, X, are_given=True):
        """The state with what predictions average over; its error is a diagnostic."""
        results = state.results
        if self._has_groups:
            return state
        points = points_of_posterior(
            results.posterior, len(self.classes_), X.shape[1] + self.fit_intercept
        )
        X = in_units(X, results.posterior.frame) if are_given else X
        with untimed():  # It is short beside the fit, and spares predictions more.
            stage = drive(
                searched_normal_logits(points, X, self.fit_intercept, self.prediction_tol)
            )
        few = stage.value
        results.diagnostics["prediction_error"] = 0.0 if few is None else few.error
        results.diagnostics["interrupted"] |= stage.interrupted
        return state._replace(normal_logits=few)

    def _parameters(self):
        """Parameters of the family."""
        return self._linear_parameters()

    def __getstate__(self):
        """What is pickled: weights of classes as pairs, for skops takes a key False for True."""
        state = super().__getstate__()
        if isinstance(state.get("class_weight"), dict):
            state["class_weight"] = {"pairs": list(state["class_weight"].items())}
        return state

    def __setstate__(self, state):
        """Take over what was pickled."""
        weight = state.get("class_weight")
        if isinstance(weight, dict):
            state = {**state, "class_weight": dict(weight["pairs"])}
        super().__setstate__(state)


fill_docstrings(TEXTS, BayesianLogisticRegressionPMD)
