"""What stands for all particles in predictions, normal logits or a few, and how far it is off."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit

from skpmd.engine.course import phase
from skpmd.engine.loop import Stage
from skpmd.linear._averages import (
    Points,
    log_averages,
    log_averages_in_single,
    points_of,
    variances,
)
from skpmd.linear._normal_logits import (
    NormalLogits,
    log_averages_of_normal_logits,
    normal_logits_of,
)
from skpmd.posterior import Posterior

_NODES = 256, 512, 1024  # Where logits are normal, for three classes or more.
_SIZES = 256, 512, 1024, 2048  # At most half of all particles are tried, for two classes.
_STARTS = 0.5, 0.1, 0.3, 0.7, 0.9  # Where the first of them is, in parts of the step to the next.
# They are held against so many rows of a fit and rows that have each column from another of these,
# with their own mean logits and with those of a tie, where most is open. There they may be off by
# so much of the tolerance: others are further off than these, but hardly any than at a tie. At so
# many times that no other start mends it.
_ROWS, _FEWEST_ROWS, _SHARE, _SHARE_AT_TIE, _HOPELESS = 1000, 100, 0.5, 0.9, 3.0
_LOG_ERROR = 50.0  # A log probability may be off by this many times more than a probability.
_MANY = 512  # Coefficients of three classes or more whose covariances would take longer.
# Half of the largest second derivative of the sigmoid: an average over logits of variance v is off
# from the sigmoid of their mean by v times that, at most.
_CURVATURE = 1.0 / (12.0 * np.sqrt(3.0))


class Compressed(NamedTuple):
    """What stands for all particles, and for which rows."""

    points: Points | NormalLogits
    roots: np.ndarray  # (K, width, width): Of the variances of logits under all particles.
    largest: float  # The largest such variance of a row that it was held against.
    error: float  # The largest error of a probability there.


def points_of_posterior(posterior, n_classes, width):
    """All particles of a `Posterior` as `Points`, in the units that it was found in.

    Other coordinates than coefficients come last.
    """
    n_rows = 1 if n_classes == 2 else n_classes
    coefficients = own_particles(posterior)[:, : n_rows * width].reshape(-1, n_rows, width)
    return points_of(coefficients, posterior.weights)


def own_particles(posterior):
    """Particles in the units that the posterior was found in."""
    frame = posterior.frame
    return posterior.particles if frame is None else frame.outward(posterior.particles)


def compressions(points, X, fit_intercept, tol):
    """None, which stands for all particles, and then what `compressed` finds, for `drive`."""
    yield Stage(None)
    yield Stage(compressed(points, X, fit_intercept, tol))


def own_posterior(posterior, units=None):
    """A `Posterior` in ``units``, by default in those that it was found in."""
    frame = posterior.frame
    if frame is None:
        return posterior
    theta = own_particles(posterior) if units is None else units.outward(posterior.particles)
    return Posterior(theta, posterior.log_weights, log_joint=posterior.log_joint, ess=posterior.ess)


@phase("particles for predictions")
def compressed(points, X, fit_intercept, tol):
    """`Compressed` of the fewest particles or nodes that are off by half of ``tol``, or None.

    They are held against up to a thousand rows of X, and mixtures of these, as they are and as if
    all classes were equally probable. For two classes particles are taken, which have the mean of
    all; what is missing of the variance of the logit is made up for. For more, the logits of a row
    are taken as jointly normal.
    """
    n, (K, width) = X.shape[0], points.mean.shape
    if not tol or n < _FEWEST_ROWS or (K > 1 and K * width > _MANY):
        return None
    rows = _with_mixed(X[np.linspace(0, n - 1, min(n, _ROWS)).astype(int)])
    ways = False, True  # At the rows' own mean logits, and at a tie.
    exact = [log_averages_in_single(points, rows, fit_intercept, way) for way in ways]
    if np.isnan(exact).any():
        return None
    roots = roots_of(points)
    for candidates in _candidates(points, roots[0]):
        for few in candidates:
            found = [_log_averages(few, rows, fit_intercept, way) for way in ways]
            off = np.abs(found[0] - exact[0]).max()
            errors = np.abs(np.exp(found) - np.exp(exact)).max(axis=(1, 2))
            shares = errors / (tol * np.array([_SHARE, _SHARE_AT_TIE]))
            if shares.max() <= 1.0 and off <= _LOG_ERROR * tol:
                largest = float(variances(roots, rows, fit_intercept).max())
                return Compressed(few, roots, largest, float(errors.max()))
            if not shares.max() <= _HOPELESS:
                break
    return None


def _candidates(points, root):
    """What may stand for all particles: groups, of which the first is the worst or like the others.

    ``root`` is of the variances of the only row of coefficients, where there is one.
    """
    m, K = points.offsets.shape[:2]
    if K > 1:
        yield (normal_logits_of(points, size) for size in _NODES)
        return
    for size in (one for one in _SIZES if 2 * one <= m):
        every = (_systematic(points, size, start) for start in _STARTS)
        yield (few._replace(roots=(root, roots_of(few)[0])) for few in every)


def _log_averages(few, X, fit_intercept, at_zero=False):
    """Log averages (n_classes, n) over what stands for all particles."""
    of = log_averages_in_single if isinstance(few, Points) else log_averages_of_normal_logits
    return of(few, X, fit_intercept, at_zero)


def _with_mixed(rows):
    """Rows and, unless they are sparse, as many that have each column from another of them."""
    if issparse(rows) or getattr(rows, "is_sparse", False):
        return rows
    rows, (n, p) = rows[:], rows.shape
    places = np.arange(n)[:, None] + 2 * np.arange(p) + 1
    return np.vstack([rows, rows[places % n, np.arange(p)]])


def log_averages_by(few, points, X, fit_intercept):
    """Log averages (n_classes, n) by few particles, and by all where few may not stand for them.

    All are averaged over where a logit varies by more than on the rows that few were held against,
    and where it matters for the most probable class.
    """
    out = _log_averages(few.points, X, fit_intercept)
    second, best = np.exp(np.partition(out, -2, axis=0)[-2:])
    left = variances(few.roots, X, fit_intercept) > few.largest
    left = np.flatnonzero(left | ~(best - second > 4.0 * few.error))  # Some may be no number.
    if len(left):
        out[:, left] = log_averages(points, X[left], fit_intercept)
    return out


def labels_by_means(points, roots, X, fit_intercept):
    """Codes (n,) of the more probable of two classes, and whether the mean logit settles them."""
    logit = X @ points.mean[0, : X.shape[1]] + (points.mean[0, -1] if fit_intercept else 0.0)
    spread = variances(roots, X, fit_intercept)
    return (logit > 0.0).astype(int), np.abs(expit(logit) - 0.5) > _CURVATURE * spread + 1e-9


def roots_of(points):
    """Matrices (K, width, width): a row's product with one has a logit's variance as its square."""
    scaled = points.offsets * np.sqrt(points.weights)[:, None, None]
    values, vectors = np.linalg.eigh(scaled.transpose(1, 2, 0) @ scaled.transpose(1, 0, 2))
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None]


def _systematic(points, size, start):
    """So many particles of equal weight, in proportion to the weights of all, around their mean."""
    chosen = np.searchsorted(np.cumsum(points.weights), (np.arange(size) + start) / size)
    offsets = points.offsets[np.minimum(chosen, len(points.weights) - 1)]
    return Points(points.mean, offsets - offsets.mean(axis=0), np.full(size, 1.0 / size))
