"""Sparse Gaussian process regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.merging import MERGED_BY_ROWS, n_shards, refuse_rows
from skpmd._base.options import LOOP_CONSTRAINTS
from skpmd._base.results import ParticleResults
from skpmd._base.utils import as_floats, warn, warn_of_far_values
from skpmd._base.validation import checked_weights, fit_context, refuse_overflows
from skpmd._rows.opening import as_table, in_parts
from skpmd._rows.rows import taken
from skpmd._rows.table import is_in_memory
from skpmd._typing import Array, ArrayLike, ArrayOrMore, FilePath, MatrixLike, Seed
from skpmd.sparse_gp._categories import Categories, refuse_kernel_without
from skpmd.sparse_gp._choice import fit, update
from skpmd.sparse_gp._data import Data, kind_of_rows
from skpmd.sparse_gp._evidence import log_marginal_likelihood
from skpmd.sparse_gp._findings import (
    kernel_findings,
    left_out_findings,
    posterior_findings,
    warn_of_open_variance,
)
from skpmd.sparse_gp._fit import GPParameters, with_results
from skpmd.sparse_gp._hyperparameters import Form, Search
from skpmd.sparse_gp._inducing import INITS
from skpmd.sparse_gp._merge import described, disagreement, distances, merged, refuse_neighbours
from skpmd.sparse_gp._model import APPROXIMATIONS, MAX_JITTER, NEAR
from skpmd.sparse_gp._predict import GaussianProcessPredictions

PROCESS_CONSTRAINTS = {
    **LOOP_CONSTRAINTS,
    "kernel": [None, Kernel],
    "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
    "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
    "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
    "n_subset": [Interval(Integral, 1, None, closed="left")],
    "hyperprior": [list, tuple, None],
    "n_inducing": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "inducing_init": [StrOptions(set(INITS)), "array-like"],
    "jitter": [Interval(Real, 0, MAX_JITTER, closed="both")],
}


class ProcessResults(ParticleResults):
    """What estimators of processes show alike, and how they read columns of categories."""

    _of_words = (
        "Columns of words are taken as categories if their dtype says so, for example after "
        "X.astype({name: 'category'}), or if categorical_features names them"
    )

    def _with_codes(self, X):
        """The rows of a prediction, with the codes of their categories."""
        return self._state.categories.encoded(X)[0]

    def _encoded(self, X, before=None):
        """The rows of a fit with codes of their categories, and these; ``before`` is the state."""
        known, requested = before.categories if before else Categories(), self.categorical_features
        if before is None and (hasattr(X, "columns") or not isinstance(requested, str)):
            known = Categories.of(X, requested)
        if self.kernel is not None:
            refuse_kernel_without(self.kernel, known, list(getattr(X, "columns", ())))
        return known.encoded(X, learns=True) if known.places else (X, known)

    @result
    def kernel_(self) -> Any:
        """Fitted kernel."""
        return self._state.model.covariance.kernel.clone_with_theta(self._state.theta)

    @result
    def log_marginal_likelihood_value_(self) -> float:
        """Log evidence of the best particle, under the approximation."""
        return self._state.model.best_evidence(self._state.particles)

    @result
    def n_iter_(self) -> int:
        """Number of steps, passes or iterations."""
        return self._state.stream.records.n


class SparseGPRegressorPMD(GaussianProcessPredictions, RegressorMixin, ProcessResults):
    """Gaussian process regression for many rows: by inducing inputs, nearest neighbours, or both.

    Each particle is one set of hyperparameters of the kernel. The values u of the process at the
    inducing inputs are Gaussian given these hyperparameters, and each row adds to the natural
    parameters of u (Dai et al. 2016, appendix F.1). So one pass over rows in any order and any
    batches gives the exact posterior of u, given the kernel: there is no learning rate, and rows
    may come in parts. If all distinct rows are inducing inputs (up to 1000 of them by default), a
    particle predicts the same as `sklearn.gaussian_process.GaussianProcessRegressor`. With
    neighbours each row adds its density given the nearest rows before it, and the rows are
    retained.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Covariance, any of `sklearn.gaussian_process.kernels`. A `WhiteKernel` is the noise.
        scikit-learn's default bounds are widened where the units of the data ask for it. None
        means ``ConstantKernel() * RBF(one length scale for each column) + WhiteKernel()``, started
        from the scales of the data. If neighbours are tried, the likelihood or, under "auto", the
        predictions of some rows choose between RBF and Matern kernels of nu 0.5, 1.5 and 2.5.
    categorical_features : "from_dtype", array-like of shape (k,) or None, default="from_dtype"
        Columns of categories, as in `sklearn.ensemble.HistGradientBoostingRegressor`: those of a
        data frame whose dtype is a category's, or the names, places or a mask of columns. The
        default kernel then is a `MixedKernel`, in which two categories are equal or not: a short
        length scale lets each have a function of its own. Missing values are one category more,
        and a category that no fit has seen differs from all others. None means that all columns
        are numbers.
    alpha : float or array-like of shape (n_samples,), default=1e-10
        Variance of additional noise of each row, on the scale on which y is fitted (as in
        `GaussianProcessRegressor`: the scaled y with ``normalize_y=True``).
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        Optimizer of the marginal likelihood of a subset, or of the likelihood with neighbours; as
        in `GaussianProcessRegressor`. None means that the kernel is not changed.
    n_restarts_optimizer : int, default=1
        Number of further starts; one more start has short length scales. Where the kernel's length
        scales are far from the units of X, or it has a period, others are placed by the data. With
        more than 200 rows only the best start after a few steps on 500 rows continues.
    n_subset : int, default=2000
        Largest number of rows that the kernel is fitted to, with inducing inputs alone; the cost
        grows with the cube of this number. If it is above 1000, most of the search uses 1000 rows.
        With neighbours, with which "auto" begins, the kernel is fitted to all rows. The subset then
        limits the rows that the other particles are drawn from, and the rows for the second kernel
        that "auto" tries.
    n_refine : int, default=10000
        Largest number of rows whose evidence then refines the kernel of inducing inputs, under a
        process with at most 500 inducing inputs; with 0 the kernel of the subset remains. A
        thousand rows lie too far apart to show short length scales. It applies to RBF and Matern
        kernels, and has no effect if neighbours are tried.
    hyperprior : list of scipy.stats frozen distributions or None, default=None
        Prior of the free hyperparameters, one distribution for each in the order of
        ``kernel.theta``, not on the log scale. It is used for several particles; a single particle,
        and the first of several, maximise the marginal likelihood without it. None means uniform on
        the log scale between the kernel's bounds. Predictions from up to 500 rows then have a
        weakly informative prior for RBF and Matern kernels: half-normal for the noise's standard
        deviation, log-normal for the amplitude and for a length scale that all columns have in
        common, from which those of columns differ as far as the rows say so.
    normalize_y : bool, default=True
        Whether y is fitted as (y - mean) / standard deviation.
    n_inducing : int or "auto", default="auto"
        Largest number of inducing inputs, M. ``"auto"`` is a quarter of the rows, at least 1000 and
        at most 2000. If there are not more distinct rows than M, the inducing inputs are these
        rows. A pass costs n M^2. With "full_scale" ``"auto"`` is two fifths of the distinct rows,
        at least 1000 and at most 3000, but fewer if n M numbers for all particles would be more
        than 33 million, and at least 100; where ``approximation="auto"`` has taken it n M^2 is
        4e10 at most. It is 100 with ``weighting="posterior"`` and inducing inputs alone.
    inducing_init : {"random", "kmeans", "greedy"} or array-like of shape (M, p), default="random"
        Inducing inputs: random rows, centres of clusters, rows with the largest variance given the
        previous ones (Burt et al. 2020), or as given. In a stream they follow the rows, unless they
        are given.
    approximation : {"auto", "fitc", "vfe", "dtc", "vecchia", "full_scale"}, default="auto"
        With inducing inputs, how the variance that u does not explain is treated: as noise of the
        row ("fitc"), as a penalty on the evidence ("vfe", a lower bound of the evidence of the
        exact process), or not at all ("dtc", as in the paper). Predictive variances contain it in
        any case. "vecchia" has no inducing inputs: each row is conditioned on its nearest rows, and
        the estimator retains the rows. It is better if the process has more detail than inducing
        inputs can represent; it supports constants times an RBF or Matern kernel with normal noise.
        "full_scale" combines both: inducing inputs, and neighbours for the remaining variance
        (Gyger, Furrer and Sigrist 2025); a prediction costs more. "auto" is "fitc" in streams that
        begin with `partial_fit`, for up to 1000 distinct rows, for other kernels and Student noise,
        and if inducing inputs or their number are given. With ``weighting="posterior"`` it is the
        exact process ("fitc" with all rows as inducing inputs) for up to 500 distinct rows, and
        "vecchia" for more. Otherwise `fit` takes the approximation that predicts some of the rows
        best. ``approximation_`` is the one taken.
    n_neighbors : int or "auto", default="auto"
        With ``approximation="vecchia"`` and "full_scale" the number of rows that each row, and each
        prediction, is conditioned on; the cost of a row grows with the cube of this number.
        ``"auto"`` is 20 for rows (twice that at the end of the search for a kernel with up to
        20,000 distinct rows) and 100 for predictions (50 with inducing inputs).
    reservoir_size : int, default=300000
        With ``approximation="vecchia"`` and "full_scale" the largest number of distinct rows that
        are retained, in a fit as in a stream; of more rows a sample is retained. With
        ``forgetting`` it is drawn by what is left of each row since it came last, and rows of which
        less than a millionth is left are dropped.
    jitter : float in [0, 0.01], default=1e-14
        Inducing inputs that others leave less variance than this, as a fraction of the mean
        variance, have no part of their own in the process; nor have those of which rounding leaves
        nothing. It is multiplied by ten until the covariance of the others is positive definite.
        With ``weighting="posterior"`` by steps it is at least 1e-8.
    likelihood : {"gaussian", "student_t"}, default="gaussian"
        Distribution of the noise. Student noise is for outliers: its scale is the square root of
        the noise level of the `WhiteKernel`, and passes are repeated until the evidence lower bound
        (ELBO) has converged.
    df : float above 2, default=4.0
        Degrees of freedom of Student noise.
    n_particles : int or "auto", default="auto"
        Number of sets of hyperparameters that predictions average over; a single set is the
        optimum. "auto" is 16 for up to 500 rows and 8 for up to 10,000 (4 with 2000 inducing
        inputs). It is 1 for more rows, which determine the kernel well, and with "full_scale",
        whose predictions are expensive. It is 1 in streams that begin with `partial_fit`, if the
        kernel is not optimised, and where ``approximation="auto"`` has compared and taken "fitc";
        and it is 32 with ``weighting="posterior"``.
    weighting : {"stacking", "uniform", "posterior"}, default="stacking"
        Weights of several particles. ``"posterior"``: the posterior of the hyperparameters, by
        importance sampling from the whole prior on, with the likelihood of the exact process for up
        to 500 distinct rows under "auto", and with that given neighbours, which "auto" takes for
        more rows. With inducing inputs it is found by mirror steps from ``hyperprior`` with
        rejuvenation, at a cost of n M^2 for each particle and step. This is for few rows: with more
        than some hundred, one particle gets nearly all of the weight. ``"stacking"`` and
        ``"uniform"`` draw particles from the posterior given the subset.
        ``"stacking"`` chooses their weights so that their average predicts a fifth of the rows
        best; ``"uniform"`` gives equal weights. With fewer than ten such rows for each particle, as
        by default for up to 500 rows, ``"stacking"`` gives equal weights too. Neither are posterior
        weights.
    batch_size : int or "auto", default="auto"
        Number of rows whose covariances are held in memory at once, 2048 by default. It changes no
        result, except with ``weighting="posterior"``.
    max_iter : int, default=20
        Largest number of passes, with Student noise; number of passes of mirror steps, if there are
        any.
    tol : float, default=1e-3
        Gain of the ELBO per row below which passes end, in nats.
    step_size, step_offset, step_decay : float, default=1.0, "auto", 1.0
        Mirror steps of ``weighting="posterior"`` with inducing inputs:
        gamma_t = step_size / (step_offset + t^step_decay).
    rejuvenation, ess_threshold, bandwidth : str, float, str or float, default="ess", 0.5, "loo"
        Rejuvenation between mirror steps; see `ParticleMirrorDescent`.
    total_samples : float or None, default=None
        For `partial_fit`: number of rows of a data set over which several passes may be made; None
        means a stream, in which each row counts once.
    half_life : float or None, default=None
        For `partial_fit`: number of rows of later calls after which a row of a stream counts half;
        rows of one call do not discount each other. None means that none is forgotten.
    forgetting : float in [0, 0.2], default=0.0
        The same as a share: the fraction of the past that each new row discounts, which is
        1 - 2^(-1 / half_life); 0.01 is a half-life of 69 rows.
    n_targets : int or None, default=None
        Number of columns of y, for predictions before `fit`.
    <prior>
    max_time : float or None, default=None
        Seconds after which `fit`, and a call of `partial_fit`, end at their next complete state.
        Searches for a kernel get half of this time and end at the best kernel so far; all rows are
        added in any case. A ``ConvergenceWarning`` says so.
    <running>

    Attributes
    ----------
    kernel_ : Kernel
        Fitted kernel. With inducing inputs it maximises the marginal likelihood of the subset,
        refined by that of many rows; with neighbours it maximises the likelihood of the retained
        rows. Under "auto" the kernel of inducing inputs, or of both, may be one that maximises the
        marginal likelihood of the subset.
    posterior_ : Posterior
        Particles: hyperparameters, not on the log scale, with the weights of ``weighting``.
    approximation_ : str
        The approximation taken.
    inducing_ : ndarray of shape (M, p)
        Inducing inputs; not set with ``approximation_ == "vecchia"``.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of all rows so far (with neighbours, of the retained rows) for the
        best particle under the approximation, in nats, for y as it is fitted (scaled with
        ``normalize_y=True``). With ``"vfe"`` it is a lower bound for the exact process; with
        Student noise it is a lower bound too.
    log_evidence_ : float
        With ``weighting="posterior"``: log of the marginal likelihood, averaged over the prior of
        the hyperparameters.
    history_ : dict of str to ndarray of shape (n_entries,)
        One entry per step or pass; see `ParticleMirrorDescent`.
    diagnostics_ : dict
        ``ess``, ``interrupted``, ``out_of_time`` and ``warnings``; with ``weighting="posterior"``
        all of `ParticleMirrorDescent`.
    n_iter_ : int
        Number of steps or passes.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process, for few rows.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    Quinonero-Candela, J. and Rasmussen, C. E. (2005). A unifying view of sparse approximate
    Gaussian process regression. Journal of Machine Learning Research 6.

    Gyger, T., Furrer, R. and Sigrist, F. (2025). Vecchia-inducing-points full-scale approximations
    for Gaussian processes. arXiv:2507.05064.

    Burt, D. R., Rasmussen, C. E. and van der Wilk, M. (2020). Convergence of sparse variational
    inference in Gaussian processes regression. Journal of Machine Learning Research 21.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import SparseGPRegressorPMD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> gp = SparseGPRegressorPMD(n_inducing=50, random_state=0).fit(X, y)
    >>> bool(gp.score(X, y) > 0.97)
    True
    >>> gp.predict_interval([[0.0], [10.0]], level=0.9).shape
    (2, 2)
    """

    _parameter_constraints: dict = {
        **PROCESS_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "n_refine": [Interval(Integral, 0, None, closed="left")],
        "normalize_y": ["boolean"],
        "approximation": [StrOptions({"auto", *APPROXIMATIONS, *NEAR})],
        "n_neighbors": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "reservoir_size": [Interval(Integral, 1, None, closed="left")],
        "likelihood": [StrOptions({"gaussian", "student_t"})],
        "df": [Interval(Real, 2, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_targets": [Interval(Integral, 1, None, closed="left"), None],
        "n_particles": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "weighting": [StrOptions({"stacking", "uniform", "posterior"})],
    }
    _frozen_parameters = (
        "kernel", "categorical_features", "normalize_y", "approximation", "n_neighbors", "jitter",
        "likelihood", "df", "weighting", "n_particles",
    )  # fmt: skip

    def __init__(
        self,
        kernel: Any = None,
        *,
        categorical_features: Literal["from_dtype"] | ArrayLike | None = "from_dtype",
        alpha: ArrayLike = 1e-10,
        optimizer: Literal["fmin_l_bfgs_b"] | Callable[..., Any] | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 1,
        n_subset: int = 2000,
        n_refine: int = 10000,
        hyperprior: Sequence[Any] | None = None,
        normalize_y: bool = True,
        n_inducing: Literal["auto"] | int = "auto",
        inducing_init: Literal["random", "kmeans", "greedy"] | ArrayLike = "random",
        approximation: Literal["auto", "fitc", "vfe", "dtc", "vecchia", "full_scale"] = "auto",
        n_neighbors: Literal["auto"] | int = "auto",
        reservoir_size: int = 300_000,
        jitter: float = 1e-14,
        likelihood: Literal["gaussian", "student_t"] = "gaussian",
        df: float = 4.0,
        n_particles: Literal["auto"] | int = "auto",
        weighting: Literal["stacking", "uniform", "posterior"] = "stacking",
        batch_size: Literal["auto"] | int = "auto",
        max_iter: int = 20,
        tol: float = 1e-3,
        step_size: float = 1.0,
        step_offset: float | Literal["auto"] = "auto",
        step_decay: float = 1.0,
        rejuvenation: Literal["ess", "always", "never"] = "ess",
        ess_threshold: float = 0.5,
        bandwidth: Literal["loo", "theorem", "scott", "silverman", "median"] | float = "loo",
        total_samples: float | None = None,
        forgetting: float = 0.0,
        half_life: float | None = None,
        n_targets: int | None = None,
        prior: SparseGPRegressorPMD | None = None,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.categorical_features = categorical_features
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.n_subset = n_subset
        self.n_refine = n_refine
        self.hyperprior = hyperprior
        self.normalize_y = normalize_y
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.approximation = approximation
        self.n_neighbors = n_neighbors
        self.reservoir_size = reservoir_size
        self.jitter = jitter
        self.likelihood = likelihood
        self.df = df
        self.n_particles = n_particles
        self.weighting = weighting
        self.batch_size = batch_size
        self.max_iter = max_iter
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
        self.n_targets = n_targets
        self.prior = prior
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Self:
        """Fit the kernel (with inducing inputs alone, to a subset) and the process to all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, or data in blocks (`skpmd.data.Blocks`), with y and weights in the blocks or
            as arguments.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Targets; several targets share one kernel, and are independent given it.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.
        noise_variance : array-like of shape (n_samples,), optional
            Variance of each row's own noise, in addition to the kernel's noise, in squared units of
            y; with Student noise the squared scale.

        Returns
        -------
        SparseGPRegressorPMD
            The fitted estimator.

        Raises
        ------
        ValueError
            If all weights are zero, or a parameter does not match the data.
        numpy.linalg.LinAlgError
            If the covariance of the inducing inputs is not positive definite with any jitter.

        Warns
        -----
        UserWarning
            If targets far from all others, sentinels or outliers, turn the fit.
        ConvergenceWarning
            If a kernel measures from where columns are zero, as ``DotProduct`` does, and rounding
            of its variance hides how rows differ; if a length scale ends at its lower bound or
            a noise at its upper one, or a bound costs much evidence; if no row tells of another
            under the kernel although near rows agree; if a kernel without noise meets rows that
            have some; if copies of rows, or large weights, leave no noise; with inducing inputs
            alone, if a quarter of the variance of f is due to
            too few of them; if the 90 % intervals for up to
            500 rows, given all others, contain less than 75 % of them (with neighbours, or 30 to
            500 distinct rows in all); with ``weighting="posterior"``, for each of the warnings in
            ``diagnostics_``, and if with neighbours and up to 2000 rows the likelihood at the
            particles is not that of the exact process.
        """
        data = {"X": X, "y": y, "sample_weight": sample_weight, "noise_variance": noise_variance}
        with self._all_or_nothing(fit_of=data):
            X, y, sample_weight = as_table(X, y, sample_weight)
            self._reset()
            if self.prior is not None:
                return self.partial_fit(X, y, sample_weight, noise_variance)
            X, categories = self._encoded(X)
            parameters = self._parameters(categories.places)
            data = self._read(X, y, sample_weight, noise_variance)
            if not is_in_memory(data.X):
                parameters = parameters.replaced(approximation=self._without_neighbours())
            self._set_state(fit(parameters, data)._replace(categories=categories))
            self._freeze()
        self._warn(data, fitted_kernel=True)
        if self.normalize_y:
            remedy = "set normalize_y=False, and a kernel in the units of the data"
            self._warn_of_one_row(data.X.shape[0], remedy)
        return self

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
    ) -> Self:
        """Add more rows; with inducing inputs alone they are then no longer needed.

        Rows add up: given kernel and inducing inputs, and with normal noise, the posterior does not
        depend on how rows are divided into calls. (Student noise weights each part by its errors
        under the posterior at that time, and does not weight it again.) With neighbours up to
        ``reservoir_size`` rows are retained, and the kernel is fitted anew whenever their number
        has doubled since the last time. With inducing inputs the kernel is fitted to the rows of
        the first calls, which are retained. It is fitted anew to all of them whenever their number
        has doubled, or quadrupled once it has been fitted to ``n_subset`` rows. When it has been
        refined by ``n_refine`` rows, the rows are dropped. Inducing inputs follow a stream into new
        regions, unless they were given. If the call fails in any way, the estimator remains
        unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.
        noise_variance : array-like of shape (n_samples,), optional
            Variance of each row's own noise, in addition to the kernel's noise, in squared units of
            y.

        Returns
        -------
        SparseGPRegressorPMD
            The estimator.

        Raises
        ------
        ValueError
            If a parameter of the stream has changed, rows do not match those of earlier calls, or
            all weights are zero.

        Warns
        -----
        ConvergenceWarning
            As in `fit`, if the kernel is fitted. With inducing inputs alone also if the new rows
            are far from their predictions, compared with the predictive standard deviations, so
            that the kernel does not suit them.
        """
        with self._all_or_nothing():
            before = self._state_or_prior()
            self._check_frozen()
            X, categories = self._encoded(X, before)
            parameters = self._parameters(categories.places)
            data = self._read(X, y, sample_weight, noise_variance, reset=before is None)
            if parameters.form.approximation == "auto":
                taken = "fitc" if before is None else before.model.approximation
                parameters = parameters.replaced(approximation=taken)
            if parameters.n_particles == "auto" and parameters.weighting != "posterior":
                taken = 1 if before is None else len(before.particles.theta)
                parameters = parameters.replaced(n_particles=taken)
            state = update(parameters, before, data)._replace(categories=categories)
            self._set_state(state)
            self._freeze()
            is_new = before is None or state.n_fitted > before.n_fitted
            is_early = state.n_fitted < self.n_subset and self.approximation_ not in NEAR
            goes_on = is_early and state.retained is not None
            self._warn(data, fitted_kernel=is_new and not goes_on)
            return self

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the process given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            refuse_rows(X, y, "natural parameters add up, and no row could make it more exact")
            self._start_merge(estimators, ("jitter", "likelihood", "df", "_n_targets"))
            refuse_neighbours([one.approximation_ for one in estimators])
            states, n = [one._state for one in estimators], n_shards(estimators)
            state = with_results(merged(estimators))
            method = f"sum of the natural parameters of {n} shards"
            away, reasons = distances(states, state), []
            if self.likelihood == "student_t":
                method += ", each row weighed as it was in its shard"
                reasons = disagreement(away)
            self._set_state(described(state, method, n, away, reasons))
        # No shard is one by neighbours.
        warn_of_open_variance(self._state, [_rows_of(one.sample) for one in states])
        self._warn_or_interrupt(MERGED_BY_ROWS)
        return self

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> ArrayOrMore:
        """Log marginal likelihood of the exact process on some of the rows.

        With inducing inputs alone these are the rows that the kernel was fitted to, unless "auto"
        chose inducing inputs. They are all rows if there were at most ``n_subset``, and at most
        1000.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,), default=None
            Logs of the free hyperparameters, as in ``kernel_.theta``; None means the fitted ones.
        eval_gradient : bool, default=False
            Whether to return the gradient with respect to theta too.
        clone_kernel : bool, default=True
            If False, ``kernel_`` has this theta afterwards.

        Returns
        -------
        log_likelihood : float
            Log marginal likelihood in nats, for y as it is fitted (Rasmussen and Williams 2006,
            equation 5.8).
        gradient : ndarray of shape (n_hyperparameters,)
            Its gradient, with ``eval_gradient``.

        Raises
        ------
        ValueError
            If theta has another shape or is not finite, or a gradient is requested without theta.
        AttributeError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            theta = self.kernel_.theta
        theta, d = as_floats("theta", theta), len(self.kernel_.theta)
        if theta.shape != (d,) or not np.isfinite(theta).all():
            raise ValueError(
                f"theta must have a number for each of the {d} free hyperparameters of kernel_, in "
                f"the order of kernel_.theta, got {theta}."
            )
        if not clone_kernel:
            self.kernel_.theta = theta
        covariance = self._state.model.covariance
        return log_marginal_likelihood(covariance, theta, self._state.sample, eval_gradient)

    @result
    def inducing_(self) -> Array:
        """Inducing inputs; raises AttributeError if there are none."""
        if self.approximation_ == "vecchia":
            raise AttributeError("inducing_ is not there with approximation='vecchia'.")
        return self._state.model.inducing

    @result
    def approximation_(self) -> str:
        """The approximation taken."""
        return self._state.model.approximation

    def __sklearn_tags__(self):
        """Tags: predictions before a fit are those of the prior; several targets."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.target_tags.multi_output = self.likelihood == "gaussian"
        return tags

    # ------------------------------------------------------------------ steps of a fit
    def _parameters(self, categorical=()):
        """The parameters as a record."""
        # The kernel of the rejuvenation is not that of the process.
        rejuvenation = self.rejuvenation if self.weighting == "posterior" else "never"
        options = self._loop_options(kernel="gaussian", rejuvenation=rejuvenation)
        search, form = self._record(Search, categorical=categorical), self._record(Form)
        return self._record(GPParameters, search=search, form=form, options=options)

    def _read(self, X, y, sample_weight, noise_variance, reset=True):
        X, y = self._checked_data(X, y, **kind_of_rows(self.kernel), y_numeric=True, reset=reset,
            multi_output=self.likelihood == "gaussian",
        )  # fmt: skip
        y = as_floats("y", y).reshape(len(y), -1)
        for name, values in (("X", X), ("y", y)):
            refuse_overflows(name, values)
        if not reset and y.shape[1] != self._n_targets:
            raise ValueError(f"y has {y.shape[1]} targets, it had {self._n_targets} before.")
        if self.n_targets is not None and y.shape[1] != self.n_targets:
            raise ValueError(
                f"The number of targets seen in `y` is {y.shape[1]}, n_targets={self.n_targets}."
            )
        if self.likelihood == "student_t" and self.approximation in NEAR:
            raise ValueError(
                f"approximation={self.approximation!r} is for likelihood='gaussian': set "
                "approximation='fitc' for Student noise."
            )
        if self.likelihood == "student_t" and self.weighting == "posterior":
            raise ValueError(
                "weighting='posterior' is for likelihood='gaussian', whose evidence is exact: set "
                "weighting='stacking'."
            )
        if self.weighting == "posterior" and self.n_particles == 1:
            raise ValueError(
                "weighting='posterior' is for many particles: raise n_particles from 1."
            )
        # One number broadcast takes no memory.
        weight, variance = np.broadcast_to(1.0, len(y)), np.broadcast_to(0.0, len(y))
        if sample_weight is not None:
            weight = self._counted(checked_weights(sample_weight, X))
        if noise_variance is not None:
            if y.shape[1] > 1:
                raise ValueError(
                    "noise_variance is for one target; fit several by "
                    "sklearn.multioutput.MultiOutputRegressor, or without it."
                )
            variance = as_floats("noise_variance", noise_variance)
            variance = check_array(
                np.atleast_1d(variance), ensure_2d=False, input_name="noise_variance"
            )
            if variance.shape != (len(y),) or (variance < 0.0).any():
                raise ValueError(
                    f"noise_variance must have a variance, not below 0, for each of {len(y)} rows, "
                    f"got shape {variance.shape} and a least value of {variance.min()}."
                )
        data = Data(X, y, variance, self._alphas(len(y)), weight)
        # A row of weight zero is as good as absent.
        data = data if weight.all() else taken(data, weight > 0.0)
        if noise_variance is None:
            is_normal = self.likelihood == "gaussian"
            warn_of_far_values("y", data.y, "likelihood='student_t'" if is_normal else "")
        return data

    def _without_neighbours(self):
        """The approximation of rows that are not in memory, as neighbours have to be."""
        if self.approximation in NEAR:
            raise ValueError(
                f"approximation={self.approximation!r} retains all rows, and these data in blocks "
                "are too many to be in memory: set approximation='fitc', or fit some of the rows."
            )
        return "fitc" if self.approximation == "auto" else self.approximation

    def _alphas(self, n):
        alpha = as_floats("alpha", self.alpha)
        if alpha.ndim and alpha.shape != (n,):
            raise ValueError(
                "alpha must be a scalar or an array with same number of entries as y. "
                f"({alpha.shape} != ({n},)) For rows that a search cuts, use noise_variance of fit."
            )
        if not (np.isfinite(alpha).all() and (alpha >= 0.0).all()):
            raise ValueError("alpha must be finite and not negative: it is a variance.")
        return np.broadcast_to(alpha, n)

    def _warn(self, data, fitted_kernel):
        """Warn of what speaks against a posterior, a kernel fitted just now, or the inputs."""
        if self.diagnostics_["interrupted"]:
            self._conclude(interrupted=True)
        state, found = self._state, []
        if self.approximation_ not in NEAR:
            last = data.X, data.own_noise(state.scaler)
            # A stream that forgets may have left the rows that its kernel was fitted to.
            past = [] if self._forgetting() else [_rows_of(state.sample)]
            warn_of_open_variance(state, [*past, last])
        if fitted_kernel and self.weighting != "posterior":
            found = kernel_findings(
                state.model.covariance, state.theta, state.sample, self.optimizer is not None,
                state.stream.seen / state.n_fitted,
            )  # fmt: skip
        elif fitted_kernel:
            found = posterior_findings(state)
        if fitted_kernel and not found:  # What is wrong with a kernel makes intervals wrong.
            found = left_out_findings(state)
        self.diagnostics_["warnings"].extend(found)
        self.posterior_.concerns.extend(found)
        if self.weighting == "posterior":
            self._warn_or_interrupt()
            return
        self._conclude()
        for reason in found:
            warn(f"{type(self).__name__}: {reason}")


def _rows_of(sample):
    """Inputs of a sample, and the noise of each row's own."""
    return sample.X, sample.noise_variance
