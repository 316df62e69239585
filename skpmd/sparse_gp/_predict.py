"""Predictions of a Gaussian process estimator: averages over particles, chunk by chunk of rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import block_diag
from scipy.special import logsumexp
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils import check_array

from skpmd._base.mean_draws import N_DRAWS, normal_draws, refuse_many
from skpmd._base.utils import (
    as_floats,
    as_generator,
    check_n_draws,
    check_probabilities,
)
from skpmd._base.validation import naming_conversions, refuse_no_table, refuse_overflows
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._rows.table import refuse_dates
from skpmd._runtime.threads import each
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike, RandomState
from skpmd.predictive import NormalMixture, Uncertainty
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Scaler, kind_of_rows
from skpmd.sparse_gp._hyperparameters import refuse_kernel
from skpmd.sparse_gp._left_out import leave_one_out
from skpmd.sparse_gp._student import scale_nodes

# Rows of so many covariances are predicted at once, and of the second number at least.
_CHUNK, _MIN_ROWS = 1 << 17, 500


class ProcessPredictions:
    """What predictions of an estimator whose ``_state`` is a `GPState` share.

    Conditionals q(u) of the particles are factored when they are first needed, and stored in
    ``_cache``.
    """

    _n_targets = 1

    def _rows_checked(self, X):
        """Rows for predictions of a fitted estimator, whose parameters may be others by now."""
        kind = kind_of_rows(self._state.model.covariance.kernel)
        X = self._checked_data(self._with_codes(X), **kind, reset=False)
        refuse_overflows("X", X)
        return X

    def _conditional(self, i):
        """q(u) of one row of the particles, factored."""
        key = "conditional", i
        if key not in self._cache:
            self._cache[key] = self._state.conditional(i)
        return self._cache[key]

    def _by_rows(self, X, function, shape):
        """A function of rows, chunk by chunk; its values have the shape (*shape, n, t)."""
        out, n_stored = np.empty((*shape, len(X), self._n_targets)), 1

        def fill(rows):
            out[..., rows, :] = function(X[rows])

        with self._threads():
            if self.__sklearn_is_fitted__():
                n_stored = self._state.model.n_stored
                # Factored here, so that not every thread does it.
                each(self._conditional, range(len(self._state.particles.theta)))
            step = max(_MIN_ROWS, _CHUNK // n_stored)
            each(fill, [slice(a, a + step) for a in range(0, len(X), step)])
        return out


class GaussianProcessPredictions(ProcessPredictions):
    """Predictions of regression.

    Before ``fit`` they are those of the prior, as in `GaussianProcessRegressor`.
    """

    score = of_all_rows(RegressorMixin.score)

    @row_by_row
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        return_interval: float | None = None,
    ) -> ArrayOrMore:
        """Predictive mean, and on request its standard deviation, covariance or interval.

        As in `GaussianProcessRegressor` these include the noise of the kernel's `WhiteKernel`, but
        not ``alpha``. With neighbours a covariance is conditioned on the neighbours of all its rows
        together, the nearest 3000 at most. The more rows it has, the fewer neighbours there are for
        each, and the more means and variances differ from those of single rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        return_std, return_cov : bool, default=False
            Whether to return standard deviations or the covariance, too. At most one of these and
            ``return_interval`` can be requested.
        return_interval : float in (0, 1), default=None
            If given, the level of the intervals of `predict_interval`, which are then returned too.
            A `Pipeline` passes the argument on; for searches and transformed targets see
            `skpmd.wrappers.predict_interval`.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            Means.
        y_std : ndarray of shape (n_samples,)
            Standard deviations, with ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples)
            Covariance, with ``return_cov``.
        y_interval : ndarray of shape (n_samples, 2)
            Lower and upper ends, with ``return_interval``.

        Raises
        ------
        RuntimeError
            If more than one of the three is requested.
        ValueError
            If the level does not lie strictly between 0 and 1, or there are several targets, for
            which there are no intervals.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if return_interval is not None:
            if return_std or return_cov:
                raise RuntimeError(
                    "At most one of return_std, return_cov and return_interval can be requested."
                )
            return self.predict(X), self.predict_interval(X, return_interval)
        X = self._checked(X)
        if return_cov:
            return tuple(_squeezed(one) for one in self._joint(X))
        weights = self._weights()

        def mean_of(rows):
            return average(weights, (self._mean(i, rows) for i in range(len(weights))))

        def moments_of(rows):
            means, variances, noise = self._all_moments(rows)
            mean, variances = average(weights, means), variances + self._noise_factor() * noise
            spread = average(weights, variances + (means - mean) ** 2)
            return np.array([mean, np.sqrt(spread)])

        if not return_std:
            return _squeezed(self._by_rows(X, mean_of, ()))
        return tuple(map(_squeezed, self._by_rows(X, moments_of, (2,))))

    @row_by_row
    def predict_proba(self, X: MatrixLike, target: Literal["y", "f"] = "y") -> NormalMixture:
        """Predictive distribution of each row: a mixture over particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        target : {"y", "f"}, default="y"
            What to predict: a new observation, with noise and ``alpha``, or the function without
            noise.

        Returns
        -------
        NormalMixture
            Distribution of n_samples rows, in the units of y.

        Raises
        ------
        ValueError
            If ``target`` is neither of these, or y had several columns.
        """
        if not (isinstance(target, str) and target in ("y", "f")):
            raise ValueError(f"target must be 'y' or 'f', got {target!r}.")
        X, weights, factors = self._checked(X), self._weights(), [float(target == "y")]
        if self._n_targets > 1:
            raise ValueError(
                f"predict_proba is for one target, y had {self._n_targets}: use "
                "predict(return_std=True), or sklearn.multioutput.MultiOutputRegressor."
            )
        if target == "y" and self._student_df is not None:
            factors, node_weights = scale_nodes(self._student_df)
            weights = np.outer(node_weights, weights).ravel()

        def components_of(rows):
            means, variances, noise = self._all_moments(rows, alpha=True)
            variances = np.concatenate([variances + factor * noise for factor in factors])
            return np.array([np.tile(means, (len(factors), 1, 1)), np.sqrt(variances)])

        means, sds = self._by_rows(X, components_of, (2, len(weights)))[..., 0]
        return NormalMixture(means, sds, weights)

    @row_by_row
    def predict_interval(
        self, X: MatrixLike, level: float = 0.9, target: Literal["y", "f"] = "y"
    ) -> Array:
        """Central predictive intervals; see `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        level : float in (0, 1), default=0.9
            Predictive probability of each interval.
        target : {"y", "f"}, default="y"
            What to predict: a new observation, with noise and ``alpha``, or the function without
            noise.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends, in the units of y.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1, ``target`` is neither of these, or y
            had several columns.
        """
        return self.predict_proba(X, target).interval(level)

    @row_by_row
    def predict_uncertainty(self, X: MatrixLike) -> Uncertainty:
        """Variance of a new observation, and its aleatoric and epistemic parts.

        The epistemic part is the variance of the function under all particles, which more rows
        would reduce; the aleatoric part is the noise. They are in squared units of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        Uncertainty
            ``total``, ``aleatoric`` and ``epistemic``, each of shape (n_samples,).
        """
        total, epistemic = (self.predict_proba(X, target).var() for target in ("y", "f"))
        return Uncertainty(total, total - epistemic, epistemic)

    @row_by_row
    def predict_quantiles(
        self, X: MatrixLike, alpha: ArrayLike, target: Literal["y", "f"] = "y"
    ) -> Array:
        """Predictive quantiles at the probabilities ``alpha``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        alpha : float or array-like of shape (k,)
            Probabilities in [0, 1].
        target : {"y", "f"}, default="y"
            What to predict: a new observation, with noise and ``alpha``, or the function without
            noise.

        Returns
        -------
        ndarray of shape (n_samples, k)
            A column for each probability, in the units of y.

        Raises
        ------
        ValueError
            If a probability does not lie in [0, 1], ``alpha`` has more than one axis, ``target`` is
            neither of these, or y had several columns.
        """
        alpha = np.atleast_1d(check_probabilities("alpha", alpha))
        if alpha.ndim > 1:
            raise ValueError(f"alpha must be a number or have one axis, got shape {alpha.shape}.")
        return self.predict_proba(X, target).ppf(alpha)

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw functions at the rows of X, with the noise of the kernel.

        They have the covariance of `predict`; with neighbours this is best for few rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Points at which to draw.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            A function in each column; (n_rows, t, n_samples) with t targets.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        n_samples = check_n_draws("n_samples", n_samples)
        X, rng = self._checked(X), as_generator(random_state)
        weights = self._weights()
        chosen = rng.choice(len(weights), n_samples, p=weights)
        out = np.empty((len(X), self._n_targets, n_samples))
        for i in np.unique(chosen):
            columns = np.flatnonzero(chosen == i)
            mean, covariance, noise = self._moments(i, X, joint=True)
            for j in range(self._n_targets):
                values, vectors = np.linalg.eigh(covariance[:, :, j])
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                draws = root @ rng.standard_normal((len(X), len(columns)))
                draws += np.sqrt(noise[:, j, None]) * self._unit_noise(rng, draws.shape)
                out[:, j, columns] = mean[:, j, None] + draws
        return out[:, 0] if self._n_targets == 1 else out

    def _draws_of_mean(self, sides, n_draws, by):
        """Draws of the function, jointly at all rows: pairs of opposite ones, of weights alike."""
        sides, particles = [self._checked(X) for X in sides], self._weights()
        (S, n), X = (len(sides), len(sides[0])), np.concatenate(sides)
        refuse_many(len(X))
        averages = np.eye(n) if by is None else by.matrix()
        found, weights = [], []
        for i, weight in enumerate(particles):
            mean, covariance, _ = self._moments(i, X, joint=True)
            pairs = max(1, round(0.5 * weight * (n_draws or N_DRAWS)))
            whole = block_diag(*[averages] * S)
            of_targets = [
                normal_draws(whole @ mean[:, j], whole @ covariance[:, :, j] @ whole.T, pairs, i)
                for j in range(self._n_targets)
            ]
            found.append(np.stack(of_targets, axis=-1))
            weights.append(np.full(2 * pairs, 0.5 * weight / pairs))
        values = np.concatenate(found, axis=1)
        return values.reshape(S, -1, *values.shape[1:]), np.concatenate(weights)

    def log_predictive_density(self, X: MatrixLike, y: ArrayLike) -> Array:
        """Log density of the predictive distribution of each row at its target.

        Minus its mean is `skpmd.metrics.negative_log_predictive_density`. Of several targets it is
        their joint density: independent given a particle, and averaged over particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats, for densities in the units of y.

        Raises
        ------
        NotFittedError
            Before a fit.
        ValueError
            If y has another number of targets than in the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from skpmd import SparseGPRegressorPMD
        >>> X = np.linspace(0.0, 3.0, 40)[:, None]
        >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(37.0 * X[:, 0])
        >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
        >>> gp.log_predictive_density(X, y).shape
        (40,)
        """
        self._check_has_state("log_predictive_density")
        X, y = self._checked_pair(X, y)
        if self._n_targets == 1:
            return self.predict_proba(X).log_pdf(y[:, 0])
        weights = self._weights()

        def moments_of(rows):
            means, variances, noise = self._all_moments(rows, alpha=True)
            return np.array([means, variances + noise])

        mean, variance = self._by_rows(X, moments_of, (2, len(weights)))
        terms = -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance).sum(axis=2)
        return logsumexp(terms, axis=0, b=weights[:, None])

    def _leave_one_out(self, X, y, times):
        """`LeftOut` of the rows of the fit, for `skpmd.model_comparison.loo`."""
        self._check_has_state("leave-one-out estimates")
        if y is None:
            raise ValueError("y is None: leaving rows out needs the targets of the fit.")
        X, y = self._checked_pair(X, y)
        if self._forgetting() > 0.0 and self.approximation_ != "vecchia":
            raise ValueError(
                "With forgetting rows of the past have lost weight, and how much is not known any "
                "more: skpmd.streams.prequential_score has predictions of a stream."
            )
        return leave_one_out(self._state, X, y, times)

    def _checked_pair(self, X, y):
        """Rows and their targets (n, t), checked, of a fitted estimator."""
        kind = kind_of_rows(self._state.model.covariance.kernel)
        X = self._with_codes(X)
        X, y = self._checked_data(X, y, **kind, y_numeric=True, multi_output=True, reset=False)
        y = as_floats("y", y).reshape(len(y), -1)
        if y.shape[1] != self._n_targets:
            raise ValueError(f"y has {y.shape[1]} targets, it had {self._n_targets} in the fit.")
        for name, values in (("X", X), ("y", y)):
            refuse_overflows(name, values)
        return X, y

    def _check_has_state(self, what):
        """Raise before a fit, when predictions are those of the prior."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' before {what}."
            )

    # ------------------------------------------------------------------ particles
    def _checked(self, X):
        if not self.__sklearn_is_fitted__():
            self._validate_params()
            refuse_no_table(X)
            refuse_dates("X", X)
            with np.errstate(all="ignore"), naming_conversions("X"):
                X = check_array(X, **{"dtype": np.float64, **kind_of_rows(self.kernel)})
            refuse_overflows("X", X)
            return X
        return self._rows_checked(X)

    def _weights(self):
        """Weights of the particles that have any."""
        return self._state.weights if self.__sklearn_is_fitted__() else np.ones(1)

    @property
    def _n_targets(self):
        fitted = self.__sklearn_is_fitted__()
        return self._state.model.n_targets if fitted else int(self.n_targets or 1)

    @property
    def _student_df(self):
        """Degrees of freedom of Student noise; None for normal noise."""
        if self.__sklearn_is_fitted__():
            return self._state.model.df
        return self.df if self.likelihood == "student_t" else None

    def _all_moments(self, X, alpha=False):
        """Means, variances of f and of noise under all particles, each (m, n, t)."""
        parts = [self._moments(i, X, alpha) for i in range(len(self._weights()))]
        return tuple(np.array(one) for one in zip(*parts, strict=True))

    def _mean(self, i, X):
        """Mean (n, t) of one particle."""
        if not self.__sklearn_is_fitted__():
            return self._moments(i, X)[0]
        state = self._state
        mean = state.model.mean(state.particles.theta[i], self._conditional(i), X)
        return state.scaler.inverse_transform(mean)

    def _moments(self, i, X, alpha=False, joint=False):
        """Mean (n, t), variances (n, t) or covariances (n, n, t), noise (n, t) of one particle."""
        if self.__sklearn_is_fitted__():
            model, scaler, extra = self._state.model, self._state.scaler, self._state.alpha
            theta, covariance = self._state.particles.theta[i], model.covariance
            mean, variance = model.predict(theta, self._conditional(i), X, joint)
        else:
            covariance = KernelCovariance(self._prior_kernel(X))
            scaler = Scaler(0.0, np.ones(self._n_targets))
            given = as_floats("alpha", self.alpha)
            extra = float(given) if given.ndim == 0 else 0.0
            covariance.kernel(X[:1])  # The kernel itself raises on a wrong number of length scales.
            theta, mean = covariance.kernel.theta, np.zeros((len(X), self._n_targets))
            variance = covariance.cross(theta, X, X) if joint else covariance.diagonal(theta, X)
        noise = covariance.noise(theta, X)
        if alpha:
            noise = noise + extra
        squared = scaler.scale**2
        mean = scaler.inverse_transform(mean)
        return mean, variance[..., None] * squared, noise[:, None] * squared

    def _prior_kernel(self, X):
        """The kernel of predictions before a fit."""
        if self.kernel is not None:
            refuse_kernel(self.kernel)
            return self.kernel
        return ConstantKernel(1.0) * RBF(np.full(np.shape(X)[1], np.sqrt(np.shape(X)[1])))

    def _unit_noise(self, rng, shape):
        """Draws of noise of unit scale."""
        df = self._student_df
        return rng.standard_normal(shape) if df is None else rng.standard_t(df, shape)

    def _noise_factor(self):
        """Variance of noise of unit scale."""
        df = self._student_df
        return 1.0 if df is None else df / (df - 2.0)

    def _joint(self, X):
        """Mean (n, t) and covariances (n, n, t) of the mixture."""
        weights = self._weights()
        parts = [self._moments(i, X, joint=True) for i in range(len(weights))]
        mean = sum(w * part[0] for w, part in zip(weights, parts, strict=True))
        total = np.zeros((len(X), len(X), self._n_targets))
        for w, (own_mean, covariance, noise) in zip(weights, parts, strict=True):
            covariance[np.diag_indices(len(X))] += self._noise_factor() * noise
            off = own_mean - mean
            total += w * (covariance + off[:, None] * off[None])
        return mean, total


def average(weights, values):
    """Average over particles, the first axis; no digit depends on the other rows."""
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _squeezed(values):
    """Without the axis of targets where there is one."""
    return values[..., 0] if values.shape[-1] == 1 else values
