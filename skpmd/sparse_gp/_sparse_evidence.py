"""The log evidence of a sparse process on many rows, with its gradient in the hyperparameters.

A thousand rows say little about short length scales: they lie too far apart. So hyperparameters
that an exact process has fitted to few rows are refined by the evidence of a sparse one on many.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpmd._runtime.threads import each, in_order
from skpmd.sparse_gp._blas import dpotrf, dpotri, dpotrs, dsyrk, dtrsm
from skpmd.sparse_gp._descent import searched
from skpmd.sparse_gp._exact_evidence import IMPOSSIBLE, noise_of
from skpmd.sparse_gp._exact_evidence import best_of as best_value
from skpmd.sparse_gp._model import blocks_of

_ROUNDS = 3  # Rounds in which rows are weighed by their errors, under Student noise.


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
    out = covariance.cross_gradient(theta, sample.X, Z, solved.T)
    out += covariance.cross_gradient(theta, Z, Z, by_ZZ)
    out += covariance.diagonal_gradient(theta, by_left, by_noise * sample.noise_factor)
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


def refine(model, theta, sample, n_evaluations):
    """Hyperparameters of a larger evidence of many rows, started from those of few rows.

    The evidence is taken per row: the first step of L-BFGS has then a sensible length.
    """
    per_row = 1.0 / sample.weight.sum()

    def objective(theta):
        try:
            value, slope = sparse_evidence(model, theta, sample)
        except np.linalg.LinAlgError:
            value = -np.inf
        if not np.isfinite(value):
            return IMPOSSIBLE, np.zeros(len(theta))
        return -value * per_row, -slope * per_row

    bounds = model.covariance.kernel.bounds
    options = {"maxfun": n_evaluations}

    def search(timed):
        end = minimize(timed, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return end.x, end.fun

    return np.asarray(searched(search, objective, n_evaluations).theta, dtype=np.float64)


def best_of(model, thetas, sample):
    """The hyperparameters of the largest evidence."""
    return best_value(lambda one: sparse_evidence(model, one, sample, gradient=False)[0], thetas)
