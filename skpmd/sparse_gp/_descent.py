"""Searches for hyperparameters by L-BFGS (Nocedal and Wright 2006, section 7.2), within bounds."""

from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpmd._runtime.call import best_in_time
from skpmd._runtime.threads import each
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._evidence import log_marginal_likelihood, sparse_evidence
from skpmd.sparse_gp._starts import (
    has_units,
    is_flat,
    placed_starts,
    starts_around,
    with_other_noise,
)

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

    def search(start, sample, n_evaluations):
        value = partial(log_marginal_likelihood, covariance, sample=sample)
        return minimised(value, start, bounds, optimizer, n_evaluations)

    starts = starts_around(covariance, first, n_restarts, rng, placed if n_restarts else ())
    # Few rows are cheap, so every start is followed to its end and none makes the outcome worse.
    if n_restarts and len(sample.y) > _MANY_ROWS and not callable(optimizer):
        some = take(sample, _PRELIMINARY_ROWS, rng)
        preliminary = partial(search, sample=some, n_evaluations=_PRELIMINARY_EVALUATIONS)
        ends = each(preliminary, starts)
        starts = [min(ends, key=itemgetter(1))[0]]
    ends = each(lambda start: search(start, sample, n_evaluations), starts)
    best = min(ends, key=itemgetter(1))
    if placed and not n_restarts and is_flat(-best[1], sample):
        more = each(lambda start: search(start, sample, n_evaluations), placed)
        best = min([best, *more], key=itemgetter(1))
    return np.asarray(best[0], dtype=np.float64)


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
