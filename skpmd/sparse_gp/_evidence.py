"""Log marginal likelihoods with their gradients in the hyperparameters.

That of an exact process is for few rows, and that of a sparse one for many: a thousand rows say
little about short length scales, for they lie too far apart.
"""

from typing import NamedTuple

import numpy as np

from skpmd._runtime.threads import each, in_order
from skpmd.sparse_gp._blas import dpotrf, dpotri, dpotrs, dsyrk, dtrsm
from skpmd.sparse_gp._model import MIN_NOISE, blocks_of

_LOG_TWO_PI = np.log(2.0 * np.pi)
_ROUNDS = 3  # Rounds in which rows are weighed by their errors, under Student noise.


def noise_of(covariance, theta, sample):
    """Variance of the noise of each row; no row is without any, or it would weigh infinitely."""
    noise = covariance.noise(theta, sample.X) * sample.noise_factor + sample.noise_variance
    variance = covariance.diagonal(theta, sample.X)
    return np.maximum(noise, MIN_NOISE * np.average(variance, weights=sample.weight))


def log_marginal_likelihood(covariance, theta, sample, gradient=True):
    """Value, and with ``gradient`` the gradient in theta too.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. w equal rows are one row of noise variance
    / w, but for a factor that does not depend on f. -inf and zeros where the covariance is not
    positive definite.
    """
    X, y, w = sample.X, sample.y, sample.weight
    noise, factor = _factored(covariance, theta, sample)
    if factor is None:
        return (-np.inf, np.zeros(len(theta))) if gradient else -np.inf
    alpha, _ = dpotrs(factor, y)
    log_det = np.log(np.diag(factor)).sum()
    n, t = y.shape
    copies = (w - 1.0) @ (_LOG_TWO_PI + np.log(noise)) + np.log(w).sum()
    value = -0.5 * np.vdot(y, alpha) - t * (0.5 * (n * _LOG_TWO_PI + copies) + log_det)
    if not gradient:
        return value
    inverse, _ = dpotri(factor, overwrite_c=1)
    W = np.tril(inverse)
    W += np.tril(inverse, -1).T
    W = 0.5 * (alpha @ alpha.T - t * W)
    d = np.diag(W) / w - 0.5 * t * (w - 1.0) / noise
    return value, covariance.contracted_gradient(theta, X, W, d * sample.noise_factor)


def squared_errors(covariance, theta, sample):
    """Expected squared errors of f at the rows themselves, summed over targets, shape (n,)."""
    y = sample.y
    noise, factor = _factored(covariance, theta, sample)
    if factor is None:
        return np.zeros(len(y))
    alpha, _ = dpotrs(factor, y)
    inverse, _ = dpotri(factor, overwrite_c=1)
    # y - mean = noise alpha, and the variance is noise - noise^2 times the inverse's diagonal.
    ridge = noise / sample.weight
    variance = np.maximum(ridge - ridge**2 * np.diag(inverse), 0.0)
    return ((ridge[:, None] * alpha) ** 2).sum(axis=1) + y.shape[1] * variance


def left_out(covariance, theta, sample):
    """Means (n, t) and variances (n,) of rows from all others; None where there are none.

    Rasmussen and Williams 2006, equations 5.10 to 5.12.
    """
    _, factor = _factored(covariance, theta, sample)
    if factor is None:
        return None
    alpha, _ = dpotrs(factor, sample.y)
    inverse, _ = dpotri(factor, overwrite_c=1)
    variance = 1.0 / np.diag(inverse)
    return sample.y - variance[:, None] * alpha, variance


def _factored(covariance, theta, sample):
    """Noise of the rows, and the Cholesky factor of their covariance or None."""
    noise = noise_of(covariance, theta, sample)
    K = np.asfortranarray(covariance.cross(theta, sample.X, sample.X).T)
    K[np.diag_indices_from(K)] += noise / sample.weight
    factor, info = dpotrf(K, overwrite_a=1)
    return noise, None if info else factor


def sparse_evidence(model, theta, sample, gradient=True):
    """Value, and gradient in theta or None.

    With V = L^-1 K_ZX, P = diag(w / lambda), B = I + V P V', m = B^-1 V P y, r = y - V' m and
    h_n = v_n' B^-1 v_n the derivatives are

        in V:       m (P r)' - B^-1 V P - 2 V diag(g),
        in K_ZX:    L^-T times that,
        in K_ZZ:    -1/2 L^-T (m m' - I + B^-1 - 2 V diag(g) V') L^-1,
        in lambda:  w / (2 lambda) ((r^2 + h) / lambda - 1), plus w left / (2 lambda^2) for "vfe",

    where g is the derivative in the conditional variance given Z, left = k(x, x) - v' v. (F depends
    on V through V' V alone, which is why no derivative of a Cholesky factor is needed.) The model's
    approximation is "fitc" or "vfe", and its covariance ``is_fast``.
    """
    fit = _fit(model, theta, sample)
    if fit is None:
        return -np.inf, np.zeros(len(theta))
    y, w, t = sample.y, sample.weight, sample.y.shape[1]
    Z, covariance, is_vfe = model.inducing, model.covariance, model.approximation == "vfe"
    L, V, left, lam, factor, s, m = fit
    p = w / lam
    value = 0.5 * np.vdot(s, m) - t * np.log(np.diag(factor)).sum()
    value -= 0.5 * (t * (w @ np.log(2.0 * np.pi * lam)) + (p @ y**2).sum())
    if is_vfe:
        value -= 0.5 * t * (p @ left)
    if not gradient:
        return value, None
    r, solved, h = _errors(fit, y)
    by_noise = 0.5 * p * (((r**2).sum(axis=1) + t * h) / lam - t)
    by_left = by_noise
    if is_vfe:
        by_noise = by_noise + 0.5 * t * p * left / lam
        by_left = -0.5 * t * p

    def replaced(rows):
        """Derivatives in K_ZX in the place of B^-1 V, and what the rows add to those in K_ZZ."""
        by_V, weighted = solved[:, rows], V[:, rows] * by_left[rows]
        by_V *= -t * p[rows]
        by_V += m @ (p[:, None] * r)[rows].T
        by_V -= 2.0 * weighted
        by_V[:] = dtrsm(1.0, L, by_V, trans_a=1)
        return 2.0 * weighted @ V[:, rows].T

    inverse, _ = dpotri(factor)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    inner = m @ m.T + t * (inverse - np.eye(len(Z)))
    for part in in_order(replaced, blocks_of(len(y))):
        inner -= part
    half = dtrsm(1.0, L, inner, trans_a=1)
    by_ZZ = -0.5 * dtrsm(1.0, L, half.T, trans_a=1)
    out = covariance.fast.cross_gradient(theta, sample.X, Z, solved.T)
    out += covariance.fast.cross_gradient(theta, Z, Z, by_ZZ)
    out += covariance.fast.diagonal_gradient(theta, by_left, by_noise * sample.noise_factor)
    return value, out


def student_weighed(model, theta, sample, df):
    """The sample with the noise that Student noise has given its errors.

    Each round takes the expected squared errors under the weights of the one before
    (`skpmd.sparse_gp._student`).
    """
    noise = noise_of(model.covariance, theta, sample._replace(noise_factor=1.0))
    for _ in range(_ROUNDS):
        fit = _fit(model, theta, sample)
        if fit is None:
            return sample
        r, _, h = _errors(fit, sample.y)
        error, scale = (r**2).sum(axis=1) + h, noise
        if model.approximation == "fitc":
            scale = scale + fit.left
        else:
            error = error + fit.left
        sample = sample._replace(noise_factor=(df + error / scale) / (df + 1.0))
    return sample


class _Fit(NamedTuple):
    """As in the text of `sparse_evidence`: lam is lambda, factor is that of B, and s = V P y."""

    L: np.ndarray
    V: np.ndarray
    left: np.ndarray
    lam: np.ndarray
    factor: np.ndarray
    s: np.ndarray
    m: np.ndarray


def _fit(model, theta, sample):
    """The process given the sample; None where B is not finite."""
    X, y, w = sample.X, sample.y, sample.weight
    L, V = model.prior_factor(theta), model.whitened(theta, X)
    left = np.maximum(model.covariance.diagonal(theta, X) - _column_sums(V, V), 0.0)
    lam = noise_of(model.covariance, theta, sample)
    lam = lam + left if model.approximation == "fitc" else lam
    p = w / lam
    root, B = np.sqrt(p), np.zeros((len(V), len(V)), order="F")
    for part in in_order(lambda rows: dsyrk(1.0, V[:, rows] * root[rows]), blocks_of(len(y))):
        B += part
    B[np.diag_indices_from(B)] += 1.0
    factor, info = dpotrf(B, overwrite_a=1)
    if info:
        return None
    s = V @ (p[:, None] * y)
    m, _ = dpotrs(factor, s)
    return _Fit(L, V, left, lam, factor, s, m)


def _errors(fit, y):
    """r, B^-1 V and h."""
    solved = np.empty(fit.V.shape, order="F")

    def fill(rows):
        solved[:, rows], _ = dpotrs(fit.factor, fit.V[:, rows])

    each(fill, blocks_of(len(y)))
    return y - fit.V.T @ fit.m, solved, _column_sums(fit.V, solved)


def _column_sums(V, other):
    """Sums of the columns of V times another matrix."""
    parts = each(
        lambda rows: np.einsum("ij,ij->j", V[:, rows], other[:, rows]), blocks_of(V.shape[1])
    )
    return np.concatenate(parts)
