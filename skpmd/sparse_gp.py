"""Sparse Gaussian process regression."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from skpmd._base import LOOP_CONSTRAINTS, Options, run
from skpmd._gp_predictions import GaussianProcessPredictions
from skpmd._hyper import HyperPrior, draw_around
from skpmd._inducing import INITS, follow
from skpmd._marginal import log_marginal_likelihood, take
from skpmd._partial import Stream, learn, unharmed
from skpmd._process import (
    FEW,
    Data,
    Units,
    learned_theta,
    new_covariance,
    new_model,
    rows_of,
    sample_of,
)
from skpmd._results import forget, set_results, warn_of_doubts
from skpmd._stacking import hold_out, stacked, updated
from skpmd.engine.cloud import Cloud
from skpmd.engine.mirror import step
from skpmd.models.sparse_gp import APPROXIMATIONS, MOST_JITTER
from skpmd.posterior import Posterior, as_generator

WEIGHTINGS = ("stacking", "uniform", "mirror")


class SparseGPRegressorPMD(GaussianProcessPredictions, RegressorMixin, BaseEstimator):
    """Gaussian process regression with inducing inputs, in one exact pass over the data."""

    _parameter_constraints: dict = {
        **LOOP_CONSTRAINTS,
        "kernel": [None, Kernel],
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "n_subset": [Interval(Integral, 1, None, closed="left")],
        "hyperprior": [list, tuple, None],
        "normalize_y": ["boolean"],
        "n_inducing": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "inducing_init": [StrOptions(set(INITS)), "array-like"],
        "approximation": [StrOptions(set(APPROXIMATIONS))],
        "jitter": [Interval(Real, 0, MOST_JITTER, closed="both")],
        "likelihood": [StrOptions({"gaussian", "student_t"})],
        "df": [Interval(Real, 2, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_targets": [Interval(Integral, 1, None, closed="left"), None],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "weighting": [StrOptions(set(WEIGHTINGS))],
    }

    def __init__(
        self,
        kernel=None,
        *,
        alpha=1e-10,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=1,
        n_subset=1000,
        hyperprior=None,
        normalize_y=True,
        n_inducing="auto",
        inducing_init="random",
        approximation="fitc",
        jitter=1e-8,
        likelihood="gaussian",
        df=4.0,
        n_particles=1,
        weighting="stacking",
        batch_size="auto",
        max_iter=20,
        tol=1e-3,
        step_size=1.0,
        step_offset="auto",
        step_decay=1.0,
        rejuvenation="ess",
        ess_threshold=0.5,
        bandwidth="loo",
        total_samples=None,
        forgetting=0.0,
        n_targets=None,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.n_subset = n_subset
        self.hyperprior = hyperprior
        self.normalize_y = normalize_y
        self.n_inducing = n_inducing
        self.inducing_init = inducing_init
        self.approximation = approximation
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
        self.n_targets = n_targets
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, noise_variance=None):
        """Learn the kernel, and take all rows in."""
        options = self._options()
        forget(self)
        vars(self).pop("_model", None)
        rng = as_generator(self.random_state)
        data = self._read(X, y, sample_weight, noise_variance)
        model, theta, rows, units = self._begin(data, rng)
        if self.weighting == "mirror":
            self._fit_mirror(model, rows, units, options, rng)
        else:
            self._start(model, theta, units, rng)
            self._absorb(rows, options, first=True)
            if self.likelihood == "student_t":
                self._repeat(rows, options)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X, y, sample_weight=None, noise_variance=None):
        """Take more rows in, which are then no longer needed."""
        with unharmed(self):
            options = self._options()
            first = not self._is_fitted
            data = self._read(X, y, sample_weight, noise_variance, reset=first)
            if first:
                rng = as_generator(self.random_state)
                model, theta, rows, units = self._begin(data, rng)
                self._start(model, theta, units, rng)
            else:
                rows = rows_of(self, data, self._units)
                self._follow(rows)
                if self.likelihood == "student_t":
                    self._weigh_rows_by(self._stream.cloud)
            self._absorb(rows, options, first)
        return self

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """Log marginal likelihood of the exact process on the rows that the kernel was learnt from.

        All rows where there were no more than ``n_subset``.
        """
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            theta = self.kernel_.theta
        theta = np.asarray(theta, dtype=np.float64)
        if not clone_kernel:
            self.kernel_.theta = theta
        covariance = self._model.covariance
        return log_marginal_likelihood(covariance, theta, self._sample, eval_gradient)

    # ------------------------------------------------------------------ steps of a fit
    def _options(self):
        """Options of the loop; its ``kernel`` is that of the density estimate, not ours."""
        mirror = self.weighting == "mirror"
        own = {} if mirror else {"rejuvenation": "never"}
        return Options.of(self, kernel="gaussian", **own)

    def _read(self, X, y, sample_weight, noise_variance, reset=True):
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", y_numeric=True, multi_output=True, reset=reset
        )
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if not reset and y.shape[1] != self._model.n_targets:
            raise ValueError(f"y has {y.shape[1]} targets, it had {self._model.n_targets} before.")
        if self.n_targets is not None and y.shape[1] != self.n_targets:
            raise ValueError(
                f"The number of targets seen in `y` is {y.shape[1]}, n_targets={self.n_targets}."
            )
        if y.shape[1] > 1 and self.likelihood == "student_t":
            raise ValueError("likelihood='student_t' is for one target, use MultiOutputRegressor.")
        positive = {"dtype": np.float64, "ensure_non_negative": True}
        weight = _check_sample_weight(sample_weight, X, **positive)
        own = np.zeros(len(y))
        if noise_variance is not None:
            if y.shape[1] > 1:
                raise ValueError(
                    "noise_variance is for one target; fit several by "
                    "sklearn.multioutput.MultiOutputRegressor, or without it."
                )
            own = _check_sample_weight(noise_variance, X, **positive)
        return Data(X, y, own, weight)

    def _begin(self, data, rng):
        """Model, hyperparameters of the particles, rows and units, from the first data."""
        weight = data.weight
        if not weight.any():
            raise ValueError("sample_weight is zero for every row: there are no data to fit.")
        units = Units.of(data.y[weight > 0], weight[weight > 0], self.normalize_y)
        rows = rows_of(self, data, units)
        sample = take(sample_of(rows), self.n_subset, rng)
        covariance = new_covariance(self, sample)
        prior = HyperPrior(covariance.kernel, self.hyperprior)
        theta = learned_theta(self, covariance, sample, rng)
        self._sample = sample
        self.kernel_ = covariance.at(theta)
        particles = theta[None]
        if self.n_particles > 1 and self.weighting != "mirror":
            particles = draw_around(covariance, prior, theta, sample, self.n_particles, rng)
        model = new_model(self, covariance, prior, rows, theta, rng)
        return model, particles, rows, units

    def _start(self, model, theta, units, rng):
        m = len(theta)
        zero = np.zeros(m)
        cloud = Cloud(theta, zero, zero, zero, model.prior_block(theta))
        self._model, self._units = model, units
        self._stream = Stream(cloud, None, [], 0.0, rng)
        self._log_weights = np.full(m, -np.log(m))
        self._scored = 0.0

    def _follow(self, rows):
        """Inducing inputs that go where the stream goes, unless they were given."""
        if not isinstance(self.inducing_init, str):
            return
        cloud = self._stream.cloud
        theta = cloud.theta[self.posterior_.weights.argmax()]
        n = FEW if self.n_inducing == "auto" else self.n_inducing
        inducing = follow(self._model, theta, rows.data.X, max(n, self._model.n_inducing))
        if inducing is not None:
            self._model, block = self._model.onto(inducing, cloud.theta, cloud.block)
            self._stream = self._stream._replace(cloud=cloud._replace(block=block))

    def _absorb(self, rows, options, first):
        """Take rows in; with several particles their predictions of them are scored before."""
        if len(self._log_weights) > 1 and self.weighting == "stacking":
            if first:
                rows, last = hold_out(rows, self._stream.rng)
                learn(self, self._model, rows, options)
                self._log_weights = stacked(self._log_density(last), last.data.weight)
                self._scored, rows = last.total, last
            else:
                scores = self._log_density(rows)
                self._log_weights = updated(self._log_weights, scores, rows, self._scored)
                self._scored += rows.total
        stream = learn(self, self._model, rows, options)
        self._set(stream.cloud, self._log_weights if self.weighting != "mirror" else None)
        self.n_iter_ = len(stream.infos)

    def _repeat(self, rows, options):
        """Passes in which each row is weighed by its error under q(u) of the pass before."""
        last, cloud = -np.inf, self._stream.cloud
        for _ in range(self.max_iter - 1):
            self._weigh_rows_by(cloud)
            cloud, info = step(
                cloud, self._model, rows.whole(), 1.0, 1.0, options.settings, self._stream.rng
            )
            self._stream = self._stream._replace(cloud=cloud, infos=[*self._stream.infos, info])
            bound = self._model.log_partition(cloud.block).max()
            if bound - last < self.tol * rows.total:
                break
            last = bound
        self._set(cloud, self._log_weights)
        self.n_iter_ = len(self._stream.infos)

    def _weigh_rows_by(self, cloud):
        pairs = zip(cloud.theta, cloud.block, strict=True)
        self._model.current = [self._model.conditional(i, *one) for i, one in enumerate(pairs)]

    def _log_density(self, rows):
        """Log predictive densities of rows under each particle, shape (m, n)."""
        cloud = self._stream.cloud
        self._theta, self._block, self._factored = cloud.theta, cloud.block, {}
        X, y, _ = rows.data
        out = np.empty((len(cloud.theta), len(X)))
        for i, theta in enumerate(cloud.theta):
            mean, variance = self._model.predict(theta, self._conditional(i), X)
            variance = variance + self._model.covariance.noise(theta, X) + y[:, -1]
            squared = ((y[:, :-1] - mean) ** 2).sum(axis=1) / variance
            out[i] = -0.5 * (mean.shape[1] * np.log(2.0 * np.pi * variance) + squared)
        return out

    def _fit_mirror(self, model, rows, units, options, rng):
        self._model, self._units = model, units
        theta = model.sample_prior(rng, self.n_particles)
        log_prior = model.log_prior(theta)
        start = Cloud(theta, np.zeros(len(theta)), log_prior, log_prior, model.prior_block(theta))
        outcome = run(model, rows, start, options, rng)
        names = self._names()
        set_results(self, outcome, names=names, particles=np.exp(outcome.cloud.theta))
        self._stream = Stream(outcome.cloud, None, outcome.infos, rows.total, rng)
        self._log_weights = None
        self._keep(outcome.cloud)
        self.n_iter_ = self.max_iter
        warn_of_doubts(self, "raise n_particles or max_iter, or narrow hyperprior")

    def _set(self, cloud, log_weights):
        self.posterior_ = Posterior(
            np.exp(cloud.theta),
            cloud.log_ratio if log_weights is None else log_weights,
            names=self._names(),
            unavailable="the weights are those of the best predictions, not of the posterior",
        )
        self._keep(cloud)
        self.log_marginal_likelihood_value_ = float(self._model.log_partition(cloud.block).max())

    def _keep(self, cloud):
        self._theta, self._block, self._factored = cloud.theta, cloud.block, {}

    def _conditional(self, i):
        if i not in self._factored:
            self._factored[i] = self._model.conditional(i, self._theta[i], self._block[i])
        return self._factored[i]

    def _names(self):
        kernel = self._model.covariance.kernel
        names = []
        for one in kernel.hyperparameters:
            if not one.fixed:
                n = one.n_elements
                names += [one.name] if n == 1 else [f"{one.name}[{j}]" for j in range(n)]
        return names

    def _prior_kernel(self, X):
        if self.kernel is not None:
            return self.kernel
        return ConstantKernel(1.0) * RBF(np.full(np.shape(X)[1], np.sqrt(np.shape(X)[1])))
