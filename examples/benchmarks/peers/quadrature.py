"""The posterior on a grid: what somebody with two parameters does.

A coarse grid over the prior finds where the posterior is, finer ones cover that box; between the
points of a grid the log density is linear in each coordinate.
"""

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.special import logsumexp

from .problem import Clock, Snapshot

REACH, FLOOR = 5.0, 16.0  # prior sds that are looked at; nats below the peak that are kept


def quadrature(
    problem, X, y, *, n_particles, seed, max_cpu=np.inf, coarse=31, sides=(21, 41, 81, 161, 321)
):
    """Yield grids of more and more points, under a prior N(0, I)."""
    clock = Clock()
    with clock:
        axes = [np.linspace(-REACH, REACH, coarse)] * problem.d
        log_joint = _values(problem, axes, X, y)
        axes = _box(axes, log_joint)
    n_points = coarse**problem.d
    for side in sides:
        with clock:
            finer = [np.linspace(*ends, side) for ends in axes]
            log_joint = _values(problem, finer, X, y)
            cell = np.prod([axis[1] - axis[0] for axis in finer])
            log_evidence = float(logsumexp(log_joint) + np.log(cell))
            table = RegularGridInterpolator(
                finer, log_joint - log_evidence, bounds_error=False, fill_value=-700.0
            )
        n_points += side**problem.d
        points = np.stack(np.meshgrid(*finer, indexing="ij"), axis=-1).reshape(-1, problem.d)
        yield Snapshot(clock.cpu, n_points * len(X), points, log_joint.ravel(), table, log_evidence)
        if clock.cpu > max_cpu:
            return


def _values(problem, axes, X, y):
    """The log joint density on a grid."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, problem.d)
    blocks = np.array_split(points, -(-len(points) // 1000))
    values = [problem.log_likelihood(b, X, y) + problem.log_prior(b) for b in blocks]
    return np.concatenate(values).reshape([len(axis) for axis in axes])


def _box(axes, log_joint):
    """The ends, on each axis, of where the density is not negligible, a cell further out."""
    kept, ends = log_joint > log_joint.max() - FLOOR, []
    for k, axis in enumerate(axes):
        others = tuple(j for j in range(len(axes)) if j != k)
        (places,) = np.nonzero(kept.any(axis=others))
        ends.append((axis[max(places[0] - 1, 0)], axis[min(places[-1] + 1, len(axis) - 1)]))
    return ends
