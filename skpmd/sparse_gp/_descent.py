"""Searches for hyperparameters by L-BFGS (Nocedal and Wright 2006, section 7.2), within bounds."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skpmd._runtime.call import best_in_time

# A search ends at this slope, or at this relative change of the value; SciPy's defaults.
_MIN_SLOPE, _MIN_CHANGE = 1e-5, 2.2e-9
# Values of a line search. One that finds no better place among so few is at the limit of rounding.
_MAX_LINE = 8
_MIN_SQUARE = 1e-10  # Of a positive matrix, relative to the largest of its eigenvalues.
# What a limit of the time ends, and the share of it that searches may take: the rows follow.
SEARCH, SHARE = "the search for a kernel", 0.5
PARTICLES = "the average over several kernels"
_MANY = 1000  # A limit of more evaluations says nothing of how many there will be.
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


def descended(objective, start, bounds, n_evaluations, min_gain=None):
    """The end of L-BFGS.

    It ends where a step changes the objective by less than ``min_gain``; that is by default a share
    of its value at the start, as SciPy has it.

    The objective is scaled so that the first step, which is its slope, has length one at most:
    where slopes are steep it would leap into a corner of the bounds.
    """
    how = start, bounds, n_evaluations, min_gain
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


def descended_further(objective, start, bounds, n_evaluations, min_gain, inverse_hessian):
    """As `descended`, among more rows than those of which a search has found the curvature.

    Coordinates are those in which that is the same in all directions, in a unit that makes the
    first step Newton's: it goes most of the way, where L-BFGS alone would first have to find out
    what is known already. No coordinate leads further than twice that step, or by more than one,
    for hardly any curvature tells little. What leaves the bounds is brought back to them.
    """
    how = start, bounds, n_evaluations, min_gain, inverse_hessian
    return searched(lambda timed: _descended_further(timed, *how), objective, n_evaluations)


def _descended_further(objective, start, bounds, n_evaluations, min_gain, inverse_hessian):
    value, slope = objective(start)
    squares, axes = np.linalg.eigh(0.5 * (inverse_hessian + inverse_hessian.T))
    root = axes * np.sqrt(np.maximum(squares, _MIN_SQUARE * squares[-1]))
    length = np.linalg.norm(root.T @ slope)
    if not length > 0.0:
        return End(start, value)
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
    return End(np.clip(start + root @ end.x, *bounds.T), end.fun / scale + value)
