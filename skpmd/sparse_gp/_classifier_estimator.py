"""Sparse Gaussian process classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call

from skpmd._base.estimator import result
from skpmd._base.merging import MERGED_BY_ROWS, n_shards, refuse_rows
from skpmd._base.utils import warn
from skpmd._base.validation import (
    checked_weights,
    encode,
    encode_known,
    fit_context,
    naming_unordered,
    refuse_overflows,
    row_weights,
)
from skpmd._rows.opening import as_table, in_parts
from skpmd._rows.rows import taken
from skpmd._rows.table import need_memory
from skpmd._typing import Array, ArrayLike, FilePath, MatrixLike, Seed
from skpmd.sparse_gp._classification_fit import (
    much_open,
    update,
    with_results,
)
from skpmd.sparse_gp._classification_predict import ClassifierPredictions
from skpmd.sparse_gp._data import Data, kind_of_rows
from skpmd.sparse_gp._estimator import PROCESS_CONSTRAINTS, ProcessResults
from skpmd.sparse_gp._findings import at_independence
from skpmd.sparse_gp._fit import GPParameters
from skpmd.sparse_gp._hyperparameters import Form, Search
from skpmd.sparse_gp._merge import described, disagreement, distances, merged


class SparseGPClassifierPMD(ClassifierPredictions, ClassifierMixin, ProcessResults):
    """Gaussian process classification with inducing inputs, for any number of rows.

    It is an alternative to `sklearn.gaussian_process.GaussianProcessClassifier`, which can handle
    only a few thousand rows. Each particle is one set of hyperparameters of the kernel. The values
    u of the process at the inducing inputs are Gaussian given these, by expectation propagation:
    each label adds a site to the natural parameters of u, matched to the moments of the logistic
    likelihood (Minka 2001). This is much closer to the posterior than the Laplace approximation or
    a variational bound.

    For two classes there is one process. For more there is one for each class, which separates its
    rows from all others through a logistic link (one versus rest). All have the same kernel, and
    the expected probabilities are divided by their sum. The order of the classes has no effect.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Covariance, any of `sklearn.gaussian_process.kernels`. None means ``ConstantKernel() *
        RBF(one length scale for each column)``, started from the scales of the data; the logs of
        its length scales have a normal prior around their mean, with a standard deviation of 0.5.
    categorical_features : "from_dtype", array-like of shape (k,) or None, default="from_dtype"
        Columns of categories, as in `sklearn.ensemble.HistGradientBoostingRegressor`: those of a
        data frame whose dtype is a category's, or the names, places or a mask of columns. The
        default kernel then is a `MixedKernel`, in which two categories are equal or not: a short
        length scale lets each have a function of its own. Missing values are one category more,
        and a category that no fit has seen differs from all others. None means that all columns
        are numbers.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        Optimizer of the evidence of a subset; as in `GaussianProcessClassifier`. None means that
        the kernel is not changed.
    n_restarts_optimizer : int, default=1
        Number of further starts. If there are any, one start has short length scales and one has
        those of the data. All start on 200 rows, and the best one continues.
    n_subset : int, default=1000
        Largest number of rows that the kernel is fitted to.
    hyperprior : list of scipy.stats frozen distributions or None, default=None
        Prior of the free hyperparameters, one distribution for each in the order of
        ``kernel.theta``, not on the log scale. It is used for several particles; a single particle
        maximises the evidence without it. None means uniform on the log scale between the kernel's
        bounds. The prior of the default kernel's length scales applies in addition.
    n_inducing : int or "auto", default="auto"
        Largest number of inducing inputs, M; ``"auto"`` is 1000. If there are not more distinct
        rows than M, the inducing inputs are these rows, and nothing is approximated by them. An
        iteration costs n M^2 for each process.
    inducing_init : {"random", "kmeans", "greedy"} or array-like of shape (M, p), default="random"
        Inducing inputs, chosen as by `SparseGPRegressorPMD`. In a stream they follow the rows,
        unless they are given.
    jitter : float in [0, 0.01], default=1e-14
        Inducing inputs that others leave less variance than this, as a fraction of the mean
        variance, have no part of their own; see `SparseGPRegressorPMD`.
    n_particles : int, default=1
        Number of sets of hyperparameters. A single set is the optimum; more sets are drawn around
        it.
    weighting : {"posterior", "uniform"}, default="posterior"
        Weights of several particles. ``"posterior"``: by the evidence of all rows, the prior, and
        the density that they were drawn from. ``"uniform"``: equal weights (draws from a normal
        approximation).
    batch_size : int or "auto", default="auto"
        Number of rows whose covariances are held in memory at once, 2048 by default. It changes no
        result.
    max_iter : int, default=500
        Largest number of iterations over the rows of a call.
    tol : float, default=1e-2
        Iterations end when the mean of all values u together moves by less than this number of
        posterior standard deviations.
    half_life : float or None, default=None
        For `partial_fit`: number of rows of later calls after which a row of a stream counts half;
        rows of one call do not discount each other. None means that none is forgotten.
    forgetting : float in [0, 0.2], default=0.0
        The same as a share: the fraction of the past that each new row discounts, which is
        1 - 2^(-1 / half_life); 0.01 is a half-life of 69 rows.
    <prior>
    max_time : float or None, default=None
        Seconds after which `fit`, and a call of `partial_fit`, end at their next complete state.
        The search for a kernel gets half of this time and ends at the best kernel so far; at least
        one iteration over all rows follows. A ``ConvergenceWarning`` says so.
    <running>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    kernel_ : Kernel
        Fitted kernel, which maximises the evidence of the subset (for the default kernel, times its
        prior).
    posterior_ : Posterior
        Particles: hyperparameters, not on the log scale, with their weights.
    inducing_ : ndarray of shape (M, p)
        Inducing inputs.
    log_marginal_likelihood_value_ : float
        Log evidence of all rows so far for the best particle, in nats. It is the estimate of
        expectation propagation, not a bound. With three classes or more it is the sum over the
        processes.
    history_ : dict of str to ndarray of shape (n_entries,)
        One entry per iteration; see `ParticleMirrorDescent`.
    diagnostics_ : dict
        ``ess``, ``pareto_k`` (with 20 particles or more), ``interrupted``, ``out_of_time`` and
        ``warnings``.
    n_iter_ : int
        Number of iterations.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessClassifier : Laplace's approximation, for few rows.
    BayesianLogisticRegressionPMD : A linear classifier.

    References
    ----------
    Minka, T. P. (2001). Expectation propagation for approximate Bayesian inference. UAI.

    Naish-Guzman, A. and Holden, S. (2007). The generalized FITC approximation. NIPS 20.

    Nickisch, H. and Rasmussen, C. E. (2008). Approximations for binary Gaussian process
    classification. Journal of Machine Learning Research 9.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import SparseGPClassifierPMD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 2))
    >>> y = np.where((X**2).sum(axis=1) + 0.3 * rng.standard_normal(200) < 2.0, "in", "out")
    >>> gp = SparseGPClassifierPMD(random_state=0).fit(X, y)
    >>> gp.predict([[0.0, 0.0], [2.0, 2.0]]).tolist()
    ['in', 'out']
    >>> gp.predict_proba(X[:3]).shape
    (3, 2)
    """

    _parameter_constraints: dict = {
        **PROCESS_CONSTRAINTS,
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "weighting": [StrOptions({"posterior", "uniform"})],
    }
    _frozen_parameters = ("kernel", "categorical_features", "jitter", "weighting", "n_particles")
    _adopted_attributes = (*ProcessResults._adopted_attributes, "classes_")

    def __init__(
        self,
        kernel: Any = None,
        *,
        categorical_features: Literal["from_dtype"] | ArrayLike | None = "from_dtype",
        optimizer: Literal["fmin_l_bfgs_b"] | Callable[..., Any] | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 1,
        n_subset: int = 1000,
        hyperprior: Sequence[Any] | None = None,
        n_inducing: Literal["auto"] | int = "auto",
        inducing_init: Literal["random", "kmeans", "greedy"] | ArrayLike = "random",
        jitter: float = 1e-14,
        n_particles: int = 1,
        weighting: Literal["posterior", "uniform"] = "posterior",
        batch_size: Literal["auto"] | int = "auto",
        max_iter: int = 500,
        tol: float = 1e-2,
        forgetting: float = 0.0,
        half_life: float | None = None,
        prior: SparseGPClassifierPMD | None = None,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.categorical_features = categorical_features
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.n_subset = n_subset
        self.hyperprior = hyperprior
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.jitter = jitter
        self.n_particles = n_particles
        self.weighting = weighting
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.forgetting = forgetting
        self.half_life = half_life
        self.prior = prior
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the kernel to a subset, and the processes to all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Two classes or more, of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        SparseGPClassifierPMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If y has one class only, or the weights leave a class without any.

        Warns
        -----
        ConvergenceWarning
            If iterations have not converged, a length scale ends at its lower bound, inducing
            inputs leave more than half of the variance unexplained, or only a few of 20 or more
            particles have weight.
        """
        data = {"X": X, "y": y, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            X, y, sample_weight = as_table(X, y, sample_weight)
            need_memory(X, f"fit of {type(self).__name__}", "call partial_fit with them")
            self._reset()
            if self.prior is not None:
                return self.partial_fit(X, y, sample_weight=sample_weight)
            X, categories = self._encoded(X)
            parameters = self._parameters(categories.places)
            parameters = parameters._replace(options=parameters.options._replace(forgetting=0.0))
            X, y = self._validated(X, y, reset=True)
            codes, classes = encode(y)
            weight = row_weights(X, codes, classes, sample_weight, None, all_classes=True)
            self._counted(weight)
            data = _data(X, codes, np.ones(len(X)) if weight is None else weight)
            state = update(parameters, None, data, _n_processes(classes))
            self.classes_ = classes
            self._set_state(state._replace(categories=categories))
            self._freeze()
        self._warn(X, fitted_kernel=True)
        return self

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add more rows, which are then no longer needed.

        The rows of a call are added once, under the posterior at that time: their sites are
        iterated until they agree with each other and with the q(u) of earlier calls, and do not
        change later. The kernel is fitted to the rows of the first calls, which are retained. It is
        fitted anew to all of them whenever their number has doubled, until there are ``n_subset``.
        Inducing inputs follow a stream into new regions, unless they were given. If the call fails
        in any way, the estimator remains unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels; a call may hold a single class.
        classes : array-like of shape (n_classes,), optional
            All classes; needed at the first call, unless there was a fit.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        SparseGPClassifierPMD
            The estimator.

        Raises
        ------
        ValueError
            If y holds other labels than ``classes``, a parameter of the stream has changed, rows do
            not match those of earlier calls, or all weights are zero.

        Warns
        -----
        ConvergenceWarning
            As in `fit`.
        """
        with self._all_or_nothing():
            before = self._state_or_prior()
            self._check_frozen()
            X, categories = self._encoded(X, before)
            parameters = self._parameters(categories.places)
            X, y = self._validated(X, y, reset=before is None)
            with naming_unordered("classes", classes):
                _check_partial_fit_first_call(self, classes)
            codes = encode_known(y, self.classes_)
            data = _data(X, codes, self._counted(checked_weights(sample_weight, X)))
            state = update(parameters, before, data, _n_processes(self.classes_))
            self._set_state(state._replace(categories=categories))
            self._freeze()
            is_new = before is None or state.n_fitted > before.n_fitted
            self._warn(X, fitted_kernel=is_new and state.retained is None)
            return self

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the processes given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            refuse_rows(X, y, "the sites of its rows add up as they are")
            self._start_merge(estimators, ("jitter",))
            states, n = [one._state for one in estimators], n_shards(estimators)
            state = merged(estimators)
            state = state._replace(converged=all(one.converged for one in states))
            method = f"sum of the natural parameters of {n} shards, each row as it was in its shard"
            state, away = (
                with_results(self._parameters(state.categories.places), state),
                distances(states, state),
            )
            self._set_state(described(state, method, n, away, disagreement(away)))
        self._warn_or_interrupt(MERGED_BY_ROWS)
        return self

    @result
    def inducing_(self) -> Array:
        """Inducing inputs."""
        return self._state.model.inducing

    def _parameters(self, categorical=()):
        """The parameters as a record."""
        options = self._loop_options(kernel="gaussian", rejuvenation="never")
        search = self._record(Search, n_refine=0, categorical=categorical)
        form = self._record(Form, approximation="fitc", n_neighbors=0, reservoir_size=0)
        of_y = {"alpha": 0.0, "normalize_y": False, "likelihood": "logistic", "df": None}
        return self._record(GPParameters, search=search, form=form, options=options, **of_y)

    def _validated(self, X, y, reset):
        X, y = self._checked_data(X, y, **kind_of_rows(self.kernel), reset=reset)
        refuse_overflows("X", X)
        return X, y

    def _warn(self, X, fitted_kernel):
        """Warn of what speaks against the fit, a kernel fitted just now, or the inputs."""
        found, share = [], much_open(self._state, X)
        if fitted_kernel and self.optimizer is not None:
            found += at_independence(self.kernel_, self.kernel_.theta)
        if share is not None:
            found.append(
                f"The {len(self.inducing_)} inducing inputs leave {share:.0%} of the variance of "
                "the process open: predictions may be far from those of all rows. Raise n_inducing."
            )
        for reason in found:
            warn(reason)
        self.posterior_.concerns.extend(found)
        self._warn_or_interrupt()


def _data(X, codes, weight):
    """The rows that have any weight."""
    present = weight > 0.0
    if not present.any():
        raise ValueError("sample_weight is zero for every row: there are no data to fit.")
    zero = np.zeros(len(X))
    return taken(Data(X, codes[:, None], zero, zero, weight), present)


def _n_processes(classes):
    """One for two classes, else one for each."""
    return 1 if len(classes) == 2 else len(classes)
