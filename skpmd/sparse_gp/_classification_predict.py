"""Predictions of a classifier: averages over q(f) and over particles, chunk by chunk of rows."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logit, ndtri, softmax
from sklearn.utils.validation import check_is_fitted

from skpmd._base.mean_draws import N_DRAWS, normal_draws, refuse_many
from skpmd._base.predictions import ClassProbabilities
from skpmd._rows.by_block import row_by_row
from skpmd._typing import Array, MatrixLike
from skpmd.engine.importance import uniforms
from skpmd.predictive import NormalMixture
from skpmd.sparse_gp._kernels_logistic import log_expectations
from skpmd.sparse_gp._predict import ProcessPredictions, average

_CHUNK = 1 << 22  # Covariances held at once.
_POINTS = 1 << 10  # Of the processes of three classes or more, for intervals.
_CERTAIN = 1e-15  # No probability is nearer to 0 or 1 than this to decision_function.


class ClassifierPredictions(ProcessPredictions, ClassProbabilities):
    """Predictions of classification."""

    def _probabilities(self, X):
        mean, variance, weights = self._moments(X)
        ones = np.ones(mean.size)
        log_p, slope, curvature = (np.empty(mean.size) for _ in range(3))
        log_expectations(ones, mean.ravel(), variance.ravel(), log_p, slope, curvature)
        p = np.exp(log_p).reshape(mean.shape)
        if mean.shape[1] == 1:
            positive = np.minimum(weights @ p[:, 0], 1.0)  # Rounding may go beyond.
            return np.column_stack([1.0 - positive, positive])
        # Where all processes are far below zero their probabilities may all be zero to rounding.
        log_p = log_p.reshape(mean.shape)
        shares = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return average(weights, shares).T

    @row_by_row
    def decision_function(self, X: MatrixLike) -> Array:
        """Log odds of the second class of two, or logs of all classes' probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores.
        """
        p = np.clip(self.predict_proba(X), _CERTAIN, 1.0 - _CERTAIN)
        return logit(p[:, 1]) if p.shape[1] == 2 else np.log(p)

    def latent_mean_and_variance(self, X: MatrixLike) -> tuple[Array, Array]:
        """Mean and variance of the process, averaged over the particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        mean, variance : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of the second class of two, or of the processes of all classes.
        """
        means, variances, weights = self._moments(X)
        mean = average(weights, means)
        spread = average(weights, variances + (means - mean) ** 2)
        return (mean[0], spread[0]) if len(mean) == 1 else (mean.T, spread.T)

    def _ends(self, X, tails):
        means, variances, weights = self._moments(X, noise=False)
        sds = np.sqrt(np.maximum(variances, 0.0))
        _, C, n = means.shape
        if C == 1:
            ends = expit(NormalMixture(means[:, 0], sds[:, 0], weights).ppf(tails))
            return np.stack([1.0 - ends[:, ::-1], ends], axis=1)
        points = uniforms(_POINTS, C + 1, np.random.default_rng(0))
        which = np.searchsorted(np.cumsum(weights), points[:, 0] * weights.sum())
        which = np.minimum(which, len(weights) - 1)
        z, ends = ndtri(points[:, 1:, None]), np.empty((n, C, 2))
        step = max(1, _CHUNK // (_POINTS * C))
        for rows in (slice(a, a + step) for a in range(0, n, step)):
            log_p = log_expit(means[which][..., rows] + sds[which][..., rows] * z)
            shares = softmax(log_p, axis=1)
            ends[rows] = np.moveaxis(np.quantile(shares, tails, axis=0), 0, -1).transpose(1, 0, 2)
        return ends

    def _draws_of_mean(self, sides, n_draws, by):
        """Probabilities under draws of the processes, jointly at all rows, in opposite pairs."""
        check_is_fitted(self)
        sides = [self._rows_checked(X) for X in sides]
        refuse_many(sum(map(len, sides)))
        state, X, found, shares = self._state, np.concatenate(sides), [], []
        model, theta, C = state.model, state.particles.theta, state.model.n_processes
        for i, weight in enumerate(state.weights):
            pairs, log_p = max(1, round(0.5 * weight * (n_draws or N_DRAWS))), []
            for k in range(i * C, (i + 1) * C):
                mean, covariance = model.predict(theta[k], self._conditional(k), X, joint=True)
                f = normal_draws(mean[:, 0], covariance, pairs, k)
                noise = np.repeat(model.covariance.noise(theta[k], X), 2 * pairs)
                one, slope, curvature = (np.empty(f.size) for _ in range(3))
                log_expectations(np.ones(f.size), f.ravel(), noise, one, slope, curvature)
                log_p.append(one.reshape(f.shape))
            table = np.stack(log_p, axis=-1)
            found.append(np.exp(table) if C == 1 else softmax(table, axis=-1))
            shares.append(np.full(2 * pairs, 0.5 * weight / pairs))
        values = np.concatenate(found, axis=1).reshape(len(sides), len(sides[0]), -1, C)
        if by is not None:
            values = np.einsum("gn,snmk->sgmk", by.matrix(), values)
        return values, np.concatenate(shares)

    # ------------------------------------------------------------------ particles
    def _moments(self, X, noise=True):
        """Means and variances of f, with the kernel's noise or without, (m, C, n); weights (m,)."""
        check_is_fitted(self)
        state, X = self._state, self._rows_checked(X)
        model, theta = state.model, state.particles.theta

        def moments_of(rows):
            out = np.empty((2, len(theta), len(rows), 1))
            for i, one in enumerate(theta):
                mean, variance = model.predict(one, self._conditional(i), rows)
                own = model.covariance.noise(one, rows) if noise else 0.0
                out[:, i, :, 0] = mean[:, 0], variance + own
            return out

        out = self._by_rows(X, moments_of, (2, len(theta)))
        return *out.reshape(2, -1, model.n_processes, len(X)), state.weights
