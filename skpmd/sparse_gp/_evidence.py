"""Log marginal likelihoods with their gradients, and where they are largest.

That of an exact process is for few rows, and that of a sparse one for many: a thousand rows say
little about short length scales, for they lie too far apart. Searches are by L-BFGS (Nocedal and
Wright 2006, section 7.2), within bounds.
"""

from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpmd._runtime.call import best_in_time, out_of_time
from skpmd._runtime.threads import each, in_order
from skpmd.sparse_gp._blas import dpotrf, dpotri, dpotrs, dsyrk, dtrsm
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._model import blocks_of, floor_of_noise
from skpmd.sparse_gp._starts import (
    has_units,
    is_flat,
    placed_starts,
    starts_around,
    with_other_noise,
)

_LOG_TWO_PI = np.log(2.0 * np.pi)
_ROUNDS = 3  # Rounds in which rows are weighed by their errors, under Student noise.
# A search ends at this slope, or at this relative change of the value; SciPy's defaults.
_MIN_SLOPE, _MIN_CHANGE = 1e-5, 2.2e-9
# Values of a line search. One that finds no better place among so few is at the limit of rounding.
_MAX_LINE = 8
_MIN_SQUARE = 1e-10  # Of a positive matrix, relative to the largest of its eigenvalues.
# What a limit of the time ends, and the share of it that searches may take: the rows follow.
SEARCH, SHARE = "the search for a kernel", 0.5
PARTICLES = "the average over several kernels"
_MANY = 1000  # A limit of more evaluations says nothing of how many there will be.
IMPOSSIBLE = 1e25  # Objective where there is none: the line search takes no infinity.
# With more rows than the first number several starts take a few evaluations each on some rows, and
# only the best goes on.
_MANY_ROWS, _PRELIMINARY_ROWS, _PRELIMINARY_EVALUATIONS = 200, 500, 20
_PLACED_ROWS = 300  # Rows that decide among starts in the units of the data.
_STEPS = 2.0  # So many times the first step is the furthest along an axis.


def noise_of(covariance, theta, sample):
    """Variance of the noise of each row; no row is without any, or it would weigh infinitely."""
    noise = covariance.noise(theta, sample.X) * sample.noise_factor + sample.noise_variance
    return np.maximum(noise, floor_of_noise(covariance, theta, sample.X))


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
    W, _ = dpotri(factor, overwrite_c=1)
    W *= -0.5 * t
    W += dsyrk(0.5, alpha)
    d = np.diag(W) / w - 0.5 * t * (w - 1.0) / noise
    return value, covariance.contracted_gradient(theta, X, W, d * sample.noise_factor)


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
    out += covariance.fast.own_gradient(theta, Z, by_ZZ)
    out += covariance.fast.diagonal_gradient(theta, by_left, by_noise * sample.noise_factor)
    return value, out


def student_weighed(model, theta, sample, df, n_rounds=_ROUNDS):
    """The sample with the noise that Student noise has given its errors.

    Each round takes the expected squared errors under the weights of the one before
    (`skpmd.sparse_gp._student`).
    """
    noise = noise_of(model.covariance, theta, sample._replace(noise_factor=1.0))
    for _ in range(n_rounds):
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


# ---------------------------------------------------------------------- searches
class End(NamedTuple):
    """Where a search has ended (d,), the objective there, and what it knows of its curvature."""

    theta: np.ndarray
    value: float
    inverse_hessian: np.ndarray | None = None  # (d, d)


def searched(search, objective, n_evaluations=None):
    """The `End` of ``search(objective)``, or a tuple like it; the best place so far without time.

    The objective is minimised, with ``n_evaluations`` at most.
    """
    total = n_evaluations if n_evaluations and n_evaluations <= _MANY else None
    end = best_in_time(search, objective, SEARCH, total)
    return end if isinstance(end, End) else End(*end)


def objective_of(value_and_slope):
    """What a search minimises, as scikit-learn's processes hand it to an optimizer: minus a value.

    ``value_and_slope(theta)`` is a log density and its gradient.
    """

    def objective(theta, eval_gradient=True):
        theta = np.asarray(theta, dtype=np.float64)
        try:
            value, slope = value_and_slope(theta)
        except np.linalg.LinAlgError:
            value, slope = -np.inf, theta
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            value, slope = -IMPOSSIBLE, np.zeros(len(theta))
        return (-value, -slope) if eval_gradient else -value

    return objective


def descended(objective, start, bounds, n_evaluations, min_gain=None, inverse_hessian=None):
    """The `End` of L-BFGS, at a step that changes the objective by less than ``min_gain``.

    That is by default a share of its value at the start, as SciPy has it. The objective is scaled
    so that the first step, which is its slope, has length one at most: where slopes are steep it
    would leap into a corner of the bounds.

    ``inverse_hessian`` is the curvature that a search among fewer rows has found. Coordinates are
    then those in which it is the same in all directions, in a unit that makes the first step
    Newton's: it goes most of the way, where L-BFGS alone would first have to find out what is known
    already. No coordinate leads further than twice that step, or by more than one, for hardly any
    curvature tells little. What leaves the bounds is brought back to them.
    """
    how = start, bounds, n_evaluations, min_gain
    if inverse_hessian is not None:
        return searched(lambda timed: _newton(timed, *how, inverse_hessian), objective, how[2])
    return searched(lambda timed: _descended(timed, *how), objective, n_evaluations)


def _descended(objective, start, bounds, n_evaluations, min_gain):
    value, slope = objective(start)
    scale = 1.0 / max(1.0, np.abs(slope).max())
    first = value, slope  # The search begins with it.
    origin = 0.0 if min_gain is None else value  # Changes are relative to values above one.
    least = _MIN_CHANGE * max(1.0, abs(value)) if min_gain is None else min_gain

    def scaled(theta):
        value, slope = first if np.array_equal(theta, start) else objective(theta)
        return scale * (value - origin), scale * slope

    # The search ends where it would without the scale.
    tolerances = {"gtol": _MIN_SLOPE * scale, "ftol": least * scale}
    options = {**tolerances, "maxfun": n_evaluations, "maxls": _MAX_LINE}
    end = minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return End(end.x, end.fun / scale + origin, scale * end.hess_inv.todense())


def _newton(objective, start, bounds, n_evaluations, min_gain, inverse_hessian):
    value, slope = objective(start)
    squares, axes = np.linalg.eigh(0.5 * (inverse_hessian + inverse_hessian.T))
    root = axes * np.sqrt(np.maximum(squares, _MIN_SQUARE * squares[-1]))
    length = np.linalg.norm(root.T @ slope)
    if not length > 0.0:
        return End(start, value, inverse_hessian)
    root, scale = length * root, length**-2
    radius = np.minimum(_STEPS, 1.0 / np.abs(root).max(axis=0))

    def scaled(at):
        moved = start + root @ at
        theta = np.clip(moved, *bounds.T)
        here, by_theta = objective(theta) if at.any() else (value, slope)
        return scale * (here - value), scale * (root.T @ (by_theta * (theta == moved)))

    options = {"gtol": 0.0, "ftol": scale * min_gain, "maxfun": n_evaluations, "maxls": _MAX_LINE}
    box = list(zip(-radius, radius, strict=True))
    at = np.zeros(len(start))
    end = minimize(scaled, at, jac=True, method="L-BFGS-B", bounds=box, options=options)
    theta = np.clip(start + root @ end.x, *bounds.T)
    return End(theta, end.fun / scale + value, scale * (root @ end.hess_inv.todense() @ root.T))


def minimised(value_and_slope, start, bounds, optimizer, n_evaluations=None):
    """The end of a search for the largest value, by the user's ``optimizer`` if it is callable."""
    objective = objective_of(value_and_slope)
    if callable(optimizer):
        return searched(lambda timed: optimizer(timed, start, bounds=bounds), objective)
    return descended(objective, start, bounds, n_evaluations)


def maximise_evidence(
    covariance, sample, optimizer, n_restarts, rng, first=None, n_evaluations=15000
):
    """Hyperparameters of the largest marginal likelihood, shape (d,).

    The cost is the number of rows cubed. ``optimizer`` is "fmin_l_bfgs_b" or a callable, as in
    `GaussianProcessRegressor`. The first start is ``first`` (d,) as it is. Where that is None it is
    the kernel's theta, with its own noise or, for L-BFGS, the best fraction of the variance of y in
    its place.

    ``n_restarts`` further starts are normal around the first one in the logs, clipped to the
    kernel's bounds; if there are any, one more has short length scales, and others are in the units
    of the data unless the first one is. Of more than 200 rows L-BFGS takes a few steps from each on
    500 of them, and goes on from the best place on all. Without further starts those in the units
    of the data follow an end at which no row tells of another.

    ``n_evaluations`` is the most that L-BFGS may take, its own limit by default.
    """
    bounds, placed = covariance.kernel.bounds, []
    if first is None:
        placed = _placed(covariance, sample, rng)
        first = covariance.kernel.theta
        if not callable(optimizer):
            first = best_of(
                lambda one: log_marginal_likelihood(covariance, one, sample, gradient=False),
                with_other_noise(covariance, first, sample),
            )

    def value_of(sample):
        return partial(log_marginal_likelihood, covariance, sample=sample)

    starts = starts_around(covariance, first, n_restarts, rng, placed if n_restarts else ())
    rounds, how = [(sample, n_evaluations)], (bounds, optimizer)
    # Few rows are cheap, so every start is followed to its end and none makes the outcome worse.
    if n_restarts and len(sample.y) > _MANY_ROWS and not callable(optimizer):
        rounds.insert(0, (take(sample, _PRELIMINARY_ROWS, rng), _PRELIMINARY_EVALUATIONS))
    best = best_end(value_of, starts, rounds, *how)
    if placed and not n_restarts and is_flat(-best.value, sample):
        best = min(best, best_end(value_of, placed, rounds, *how), key=itemgetter(1))
    return np.asarray(best.theta, dtype=np.float64)


def best_end(value_of, starts, rounds, bounds, optimizer):
    """The best `End` of searches from several places, from where those among more rows go on.

    ``value_of(rows)`` makes the function of theta, a value and its slope, that is to be largest, of
    the rows of each of the ``rounds`` [(rows, evaluations), ...].
    """
    end = None
    for rows, n in rounds:
        if end is not None and out_of_time(SEARCH):
            break

        def search(start, rows=rows, n=n):
            return minimised(value_of(rows), start, bounds, optimizer, n)

        end = min(each(search, starts), key=itemgetter(1))
        starts = [end.theta]
    return end


def _placed(covariance, sample, rng):
    """Starts in the units of the data, the best by some rows."""
    if not has_units(covariance.kernel, sample):
        return []
    some = take(sample, _PLACED_ROWS, rng)

    def value(theta):
        return log_marginal_likelihood(covariance, theta, some, gradient=False)

    return placed_starts(covariance, sample, value)


def refine(model, theta, sample, n_evaluations):
    """Hyperparameters of a larger evidence of many rows, started from those of few rows.

    The evidence is taken per row: the first step of L-BFGS has then a sensible length.
    """
    per_row = 1.0 / sample.weight.sum()

    def of_row(theta):
        value, slope = sparse_evidence(model, theta, sample)
        return value * per_row, slope * per_row

    how = {"jac": True, "method": "L-BFGS-B", "bounds": model.covariance.kernel.bounds}

    def search(timed):
        end = minimize(timed, theta, options={"maxfun": n_evaluations}, **how)
        return end.x, end.fun

    end = searched(search, objective_of(of_row), n_evaluations)
    return np.asarray(end.theta, dtype=np.float64)


def best_of(value, thetas):
    """The first of the hyperparameters of the largest value."""
    return thetas[int(np.argmax(each(value, thetas)))]
