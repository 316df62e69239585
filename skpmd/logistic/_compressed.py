"""A few particles that stand for all of them in predictions, and how far they are off."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit

from skpmd.engine.course import phase
from skpmd.engine.loop import Stage
from skpmd.logistic._averages import (
    Points,
    log_averages,
    log_averages_in_single,
    points_of,
    variances,
)

_SIZES = 256, 512, 1024, 2048  # At most half of all particles are tried.
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
    """Few particles, and for which rows they stand for all."""

    points: Points
    roots: np.ndarray  # (K, width, width): Of the variances of logits under all particles.
    largest: float  # The largest such variance of a row that they were held against.
    error: float  # The largest error of a probability there.


def points_of_posterior(posterior, n_classes, width):
    """All particles of a `Posterior` as `Points`; other coordinates than coefficients come last."""
    n_rows = 1 if n_classes == 2 else n_classes
    coefficients = posterior.particles[:, : n_rows * width].reshape(-1, n_rows, width)
    return points_of(coefficients, posterior.weights)


def compressions(points, X, fit_intercept, tol):
    """None, which stands for all particles, and then what `compressed` finds, for `drive`."""
    yield Stage(None)
    yield Stage(compressed(points, X, fit_intercept, tol))


@phase("particles for predictions")
def compressed(points, X, fit_intercept, tol):
    """`Compressed` of the fewest particles that are off by half of ``tol``, or None.

    They are held against up to a thousand rows of X, and mixtures of these, as they are and as if
    all classes were equally probable. They have the mean of all particles, and what is missing of
    the variances of logits is made up for.
    """
    n, (m, K, width) = X.shape[0], points.offsets.shape
    if not tol or n < _FEWEST_ROWS or (K > 1 and K * width > _MANY):
        return None
    rows = _with_mixed(X[np.linspace(0, n - 1, min(n, _ROWS)).astype(int)])
    roots, covariances = roots_of(points), _covariances(points) if K > 1 else None
    ways = False, True  # At the rows' own mean logits, and at a tie.
    exact = [log_averages_in_single(points, rows, fit_intercept, way) for way in ways]
    if np.isnan(exact).any():
        return None
    hopeless = 0
    for size, start in product((one for one in _SIZES if 2 * one <= m), _STARTS):
        if size == hopeless:
            continue
        few = _systematic(points, size, start)
        if K == 1:
            few = few._replace(roots=(roots[0], roots_of(few)[0]))
        else:
            few = few._replace(excess=(covariances - _covariances(few)).astype(np.float32))
        found = [log_averages_in_single(few, rows, fit_intercept, way) for way in ways]
        off = np.abs(found[0] - exact[0]).max()
        errors = np.abs(np.exp(found) - np.exp(exact)).max(axis=(1, 2))
        shares = errors / (tol * np.array([_SHARE, _SHARE_AT_TIE]))
        if shares.max() <= 1.0 and off <= _LOG_ERROR * tol:
            largest = float(variances(roots, rows, fit_intercept).max())
            return Compressed(few, roots, largest, float(errors.max()))
        if not shares.max() <= _HOPELESS:
            hopeless = size
    return None


def _with_mixed(rows):
    """Rows and, unless they are sparse, as many that have each column from another of them."""
    if issparse(rows):
        return rows
    n, p = rows.shape
    places = np.arange(n)[:, None] + 2 * np.arange(p) + 1
    return np.vstack([rows, rows[places % n, np.arange(p)]])


def log_averages_by(few, points, X, fit_intercept):
    """Log averages (n_classes, n) by few particles, and by all where few may not stand for them.

    All are averaged over where a logit varies by more than on the rows that few were held against,
    and where it matters for the most probable class.
    """
    out = log_averages_in_single(few.points, X, fit_intercept)
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


def _covariances(points):
    """Covariances of rows of coefficients, each with itself and those before it."""
    rows, columns = np.tril_indices(points.offsets.shape[1])
    weighted = points.offsets * points.weights[:, None, None]
    return weighted[:, rows].transpose(1, 2, 0) @ points.offsets[:, columns].transpose(1, 0, 2)


def _systematic(points, size, start):
    """So many particles of equal weight, in proportion to the weights of all, around their mean."""
    chosen = np.searchsorted(np.cumsum(points.weights), (np.arange(size) + start) / size)
    offsets = points.offsets[np.minimum(chosen, len(points.weights) - 1)]
    return Points(points.mean, offsets - offsets.mean(axis=0), np.full(size, 1.0 / size))
