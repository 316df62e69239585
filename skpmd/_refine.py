"""The log evidence of a sparse process on many rows, with its gradient in the hyperparameters.

A thousand rows know little of short length scales: they lie too far apart. So hyperparameters that
an exact process has learnt from few rows are moved on by the evidence of a sparse one on many.
"""

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm, dsyrk, dtrsm
from scipy.optimize import minimize

from skpmd.models.sparse_gp import jittered_cholesky

_IMPOSSIBLE = 1e25


def sparse_evidence(covariance, theta, sample, Z, approximation, jitter):
    """Value and gradient in theta.

    With V = L^-1 K_ZX, P = diag(w / lambda), B = I + V P V', m = B^-1 V P y, r = y - V' m and
    h_n = v_n' B^-1 v_n the derivatives are

        in V:       m (P r)' - B^-1 V P - 2 V diag(g),
        in K_ZX:    L^-T times that,
        in K_ZZ:    -1/2 L^-T (m m' - I + B^-1 - 2 V diag(g) V') L^-1,
        in lambda:  w / (2 lambda) ((r^2 + h) / lambda - 1),

    where g is the derivative in what the inducing inputs leave open, k(x, x) - v' v. (F depends on
    V by V' V alone, which is why no derivative of a Cholesky factor is needed.)

    Parameters
    ----------
    covariance : KernelCovariance
        With ``is_fast``.
    theta : ndarray of shape (d,)
        Hyperparameters.
    sample : Sample
        Rows.
    Z : ndarray of shape (M, p)
        Inducing inputs.
    approximation : {"fitc", "vfe"}
        See `skpmd.models.sparse_gp`.
    jitter : float
        As there.
    """
    X, y, own, w, spread = sample
    t = y.shape[1]
    L = jittered_cholesky(covariance.cross(theta, Z, Z), jitter)
    V = dtrsm(1.0, L, covariance.cross(theta, X, Z).T, lower=1, overwrite_b=1)
    left = np.maximum(covariance.diagonal(theta, X) - np.einsum("ij,ij->j", V, V), 0.0)
    lam = covariance.noise(theta, X) * spread + own
    lam = lam + left if approximation == "fitc" else lam
    p = w / lam
    B = dsyrk(1.0, V * np.sqrt(p), lower=1)
    B[np.diag_indices_from(B)] += 1.0
    factor, info = lapack.dpotrf(B, lower=1, overwrite_a=1)
    if info:
        return -np.inf, np.zeros(len(theta))
    s = V @ (p[:, None] * y)
    m, _ = lapack.dpotrs(factor, s, lower=1)
    value = 0.5 * np.vdot(s, m) - t * np.log(np.diag(factor)).sum()
    value -= 0.5 * (t * (w @ np.log(2.0 * np.pi * lam)) + (p @ y**2).sum())
    solved, _ = lapack.dpotrs(factor, V, lower=1)  # B^-1 V
    r = y - V.T @ m
    h = np.einsum("ij,ij->j", V, solved)
    by_noise = 0.5 * p * (((r**2).sum(axis=1) + t * h) / lam - t)
    by_left = by_noise
    if approximation == "vfe":
        value -= 0.5 * t * (p @ left)
        by_noise = by_noise + 0.5 * t * p * left / lam
        by_left = -0.5 * t * p
    by_V = solved
    by_V *= -t * p
    by_V += dgemm(1.0, m, p[:, None] * r, trans_b=1)
    weighted = V * by_left
    by_V -= 2.0 * weighted
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    inner = m @ m.T + t * (inverse - np.eye(len(Z))) - 2.0 * weighted @ V.T
    half = dtrsm(1.0, L, inner, lower=1, trans_a=1)
    by_ZZ = -0.5 * dtrsm(1.0, L, half.T, lower=1, trans_a=1)
    by_ZX = dtrsm(1.0, L, by_V, lower=1, trans_a=1, overwrite_b=1)
    gradient = covariance.cross_gradient(theta, X, Z, by_ZX.T)
    gradient += covariance.cross_gradient(theta, Z, Z, by_ZZ)
    gradient += covariance.diagonal_gradient(theta, by_left, by_noise * spread)
    return value, gradient


def refined_theta(covariance, theta, sample, Z, approximation, jitter, max_iter):
    """Hyperparameters that the evidence of many rows prefers, from those of few rows on."""
    approximation = "fitc" if approximation == "dtc" else approximation

    def objective(theta):
        try:
            value, slope = sparse_evidence(covariance, theta, sample, Z, approximation, jitter)
        except np.linalg.LinAlgError:
            return _IMPOSSIBLE, np.zeros(len(theta))
        return (-value, -slope) if np.isfinite(value) else (_IMPOSSIBLE, np.zeros(len(theta)))

    bounds = covariance.kernel.bounds
    options = {"maxiter": max_iter}
    found = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)


def better_theta(covariance, thetas, sample, Z, jitter):
    """The hyperparameters of the larger evidence, under "fitc"."""

    def evidence(theta):
        return sparse_evidence(covariance, theta, sample, Z, "fitc", jitter)[0]

    return max(thetas, key=evidence)
