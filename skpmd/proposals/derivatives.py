"""Derivatives of a log density in whitened coordinates: of its values, or of a known gradient.

Coordinates u are those of theta = at + root u. In them a difference is taken at a fixed share of a
standard deviation, where neither rounding nor higher derivatives matter. One call of the density
takes many points: a gradient by central differences is one call of 2 d points, and a Hessian one of
2 d^2, or one of 2 d gradients.
"""

import numpy as np

_STEP = 1e-3  # Differences of first order are taken at this share of a standard deviation,
_WIDE_STEP = 0.05  # and those of second order at this one.
_WRONG_SLOPE = 0.05  # A gradient off by this share of itself is not that of the density.
_WRONG_VALUE, _COMPARED = 1e-3, 5  # Nor are values whose changes between so many draws are off so.
_CHECKED = 0.1, 0.2  # That is checked by differences at thousandths of these widths of the prior.


class ByDifferences:
    """Derivatives from values alone; ``log_density`` maps points (k, d) to values (k,).

    Its ``path`` are the points, with values, at which slopes have been asked for.
    """

    def __init__(self, log_density):
        self._log_density, self.n_points, self.path = log_density, 0, []

    def slope(self, at, root):
        """Value at a point, -inf off the support or where it is too steep, and gradient, (d,)."""
        d = len(at)
        steps = _STEP * np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d)])
        values = self._log_density(at + steps @ root.T)
        self.n_points += len(steps)
        value, ahead, behind = values[0], values[1 : d + 1], values[d + 1 :]
        self.path.append((at, value))
        if value == -np.inf:
            return value, np.zeros(d)
        # At an edge of the support the side that is inside counts.
        ahead, behind = (np.where(side > -np.inf, side, value) for side in (ahead, behind))
        with np.errstate(over="ignore"):
            slope = (ahead - behind) / (2.0 * _STEP)
        return (value, slope) if np.isfinite(slope).all() else (-np.inf, np.zeros(d))

    def hessian(self, at, root, value):
        """Hessian at a point, (d, d), where the value is known."""
        d = len(at)
        i, j = np.triu_indices(d, 1)
        unit = np.eye(d)
        corners = [si * unit[i] + sj * unit[j] for si in (1, -1) for sj in (1, -1)]
        points = _WIDE_STEP * np.concatenate([unit, -unit, *corners])
        values = self._log_density(at + points @ root.T)
        self.n_points += len(points)
        values = np.maximum(values, value - 1e3)  # Off the support.
        ahead, behind = values[:d], values[d : 2 * d]
        hessian = np.diag(ahead - 2.0 * value + behind)
        pp, pm, mp, mm = values[2 * d :].reshape(4, -1)
        hessian[i, j] = hessian[j, i] = 0.25 * (pp - pm - mp + mm)
        return hessian / _WIDE_STEP**2


class ByGradients:
    """Derivatives from ``gradient``, which maps points (k, d) to values (k,) and gradients."""

    def __init__(self, gradient):
        self._gradient, self.n_points, self.path = gradient, 0, []

    def slope(self, at, root):
        """As of `ByDifferences`."""
        with np.errstate(all="ignore"):  # A search goes where no particle would.
            values, gradients = self._gradient(at[None])
        self.n_points += 1
        self.path.append((at, values[0]))
        if not (np.isfinite(values).all() and np.isfinite(gradients).all()):
            return -np.inf, np.zeros(len(at))
        return values[0], gradients[0] @ root

    def hessian(self, at, root, value):
        """As of `ByDifferences`; nan next to an edge of the support."""
        steps = _WIDE_STEP * np.eye(len(at))
        with np.errstate(all="ignore"):
            _, gradients = self._gradient(at + np.concatenate([steps, -steps]) @ root.T)
        ahead, behind = np.split(gradients @ root, 2)
        hessian = (ahead - behind) / (2.0 * _WIDE_STEP)
        return 0.5 * (hessian + hessian.T)


def check_gradient(gradient, log_joint, draws, values):
    """Raise ValueError where a gradient, or its values, are not those of the density.

    The gradient is compared at the best of the draws, and values there and at others, up to a
    constant.
    """
    best = np.argsort(-values, kind="stable")[: np.isfinite(values).sum()]
    if not best.size:
        return
    at, d = draws[best[0]], draws.shape[1]
    steps = np.maximum(np.abs(draws - np.median(draws, axis=0)).mean(axis=0), 1e-300)
    (_, expected), (_, again) = (
        ByDifferences(log_joint).slope(at, size * np.diag(steps)) for size in _CHECKED
    )
    ratio = _CHECKED[0] / _CHECKED[1]
    _, slope = ByGradients(gradient).slope(at, _CHECKED[0] * np.diag(steps))
    errors = np.abs(slope - expected)
    # Where two steps disagree, rounding, a curve or an edge is to blame, and not the gradient.
    allowed = _WRONG_SLOPE * np.abs(expected) + 1e-3 * np.abs(expected).max() + 1e-6
    wrong = np.flatnonzero(~(errors <= allowed + 3.0 * np.abs(again * ratio - expected)))
    if wrong.size:
        j, unit = wrong[0], _CHECKED[0] * steps[wrong[0]]
        raise ValueError(
            f"log_joint_gradient is not the gradient of log_prior + log_likelihood: at theta = "
            f"{at} its coordinate {j} of {d} is {slope[j] / unit:g} where differences of the "
            f"values say {expected[j] / unit:g}. It must return the log joint density, shape (m,), "
            "and its gradient, shape (m, d), given all rows."
        )
    some = best[np.linspace(0, len(best) - 1, min(_COMPARED, len(best))).astype(int)]
    with np.errstate(all="ignore"):
        known = np.array([gradient(draws[[i]])[0][0] for i in some])
    gap, change = known - values[some], np.abs(values[some] - values[some[0]])
    off = np.abs(gap - gap[0]) > _WRONG_VALUE * change + 1e-5 * np.abs(values[some]).max() + 1e-3
    if off.any():
        i = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"log_joint_gradient returns other values than log_prior + log_likelihood: from theta "
            f"= {at} to {draws[some[i]]} they change by {known[i] - known[0]:g} where these change "
            f"by {values[some[i]] - values[some[0]]:g}. It must have all terms, for all rows."
        )
