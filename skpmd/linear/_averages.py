"""Averages of class probabilities over particles, tile by tile of rows.

Logits are those of the mean coefficients, in double precision, and in single what each particle
differs by: rounding is then relative to the spread of the posterior. Averages are right to 1e-6,
and tiny ones to 1e-4 of themselves. Rows of which single precision does not know enough are
averaged in logs, in double.

Each row is averaged by itself: no bit depends on what stands beside it, for matrix products are of
tiles of one shape.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_expit, log_softmax, logsumexp

from skpmd.engine.threads import each
from skpmd.linear._kernels_single import LANES, average_sigmoids, average_softmaxes
from skpmd.linear._posterior import logits_at_nodes, moments_of_logits, own_particles

# Averages below are made in logs, and so are those of rows whose logits may be so far from the mean
# ones: e^-87 is the smallest exponential, and 1e-7 of a thousand is 1e-4.
TINY, FAR = 1e-30, 1e3
_NEAR = 10.0  # Other particles differ from the mean by more than so many times the median.
_TILES = 8  # A thread takes so many tiles at a time.
_LOGITS = 1 << 20  # At most so many are held at once where averages are made in logs.


class Points(NamedTuple):
    """Coefficients that stand for a posterior: K rows of a width each, an intercept last."""

    mean: np.ndarray  # (K, width): Their average.
    offsets: np.ndarray  # (m, K, width): What each differs from it by.
    weights: np.ndarray  # (m,): They add up to 1.


def points_of_posterior(posterior, n_classes, width):
    """All particles of a `Posterior` as `Points`, in the units that it was found in.

    Other coordinates than coefficients come last.
    """
    n_rows = 1 if n_classes == 2 else n_classes
    coefficients = own_particles(posterior)[:, : n_rows * width].reshape(-1, n_rows, width)
    return points_of(coefficients, posterior.weights)


def points_of(coefficients, weights):
    """`Points` of weighted coefficients (m, K, width)."""
    mean = np.tensordot(weights, coefficients, axes=1)
    return Points(mean, coefficients - mean, weights)


def log_averages(points, X, fit_intercept):
    """Logs of the averaged probabilities of each class, shape (n_classes, n), float64.

    With one row of coefficients there are two classes.
    """
    out = log_averages_in_single(points, X, fit_intercept)
    missing = np.flatnonzero(np.isnan(out[0]))
    if len(missing):
        out[:, missing] = _by_two_parts(points, X[missing], fit_intercept)
    return out


def _by_two_parts(points, X, fit_intercept):
    """As `log_averages`, of rows of which single precision does not know enough.

    Where tails are heavy that is for a few particles far away, which alone are averaged in logs.
    """
    size = np.abs(points.offsets).max(axis=(1, 2))
    is_near = size <= _NEAR * np.median(size)
    share = float(points.weights[is_near].sum())
    if is_near.all() or share == 0.0:
        return _by_logs(points, X, fit_intercept)
    near = Points(points.mean, points.offsets[is_near], points.weights[is_near] / share)
    out = log_averages_in_single(near, X, fit_intercept) + np.log(share)
    is_far = ~is_near & (points.weights > 0.0)
    if is_far.any():
        far = Points(points.mean, points.offsets[is_far], points.weights[is_far])
        with np.errstate(invalid="ignore"):  # What single precision does not know is found below.
            out = np.logaddexp(out, _by_logs(far, X, fit_intercept))
    left = np.flatnonzero(np.isnan(out[0]))
    out = np.minimum(out, 0.0)
    if len(left):
        out[:, left] = _by_logs(points, X[left], fit_intercept)
    return out


def log_averages_in_single(points, X, fit_intercept, at_zero=False):
    """As `log_averages`; not a number where single precision does not know enough.

    With ``at_zero`` all mean logits are 0 in place of the rows' own.
    """
    m, K, width = points.offsets.shape
    offsets = points.offsets.astype(np.float32).reshape(m * K, width)
    weights = points.weights.astype(np.float32)
    farthest = np.square(np.abs(points.offsets).max(axis=(0, 1), initial=0.0))
    out = np.empty((max(K, 2), X.shape[0]))

    def fill(start):
        n = min(LANES, X.shape[0] - start)
        tile = tile_of(X[start : start + n], width, fit_intercept)
        with np.errstate(all="ignore"):
            is_far = ~(np.square(tile) @ farthest < FAR**2)
        tile[is_far] = 0.0
        table = (offsets @ tile.T.astype(np.float32)).reshape(m, K, LANES)
        centre = np.zeros((K, LANES)) if at_zero else points.mean @ tile.T
        if K == 1:
            found = average_of_sigmoids(table[:, 0, :n], centre[0, :n], np.ones(n), weights)
        else:
            found = _of_softmaxes(table[..., :n], centre[:, :n], weights)
        found[:, is_far[:n] | (found.min(axis=0) < TINY)] = np.nan
        out[:, start : start + n] = np.log(found)

    by_tiles(fill, X)
    return np.minimum(out, 0.0, out=out)  # The weights add up to one only up to rounding.


def log_averages_of_normals(posterior, X, fit_intercept):
    """As `log_averages`, of logits that are independent normals: a `GaussianPosterior`."""
    K, m = posterior.nodes.shape
    nodes = np.repeat(posterior.nodes.T.astype(np.float32)[..., None], LANES, axis=2)
    weights = posterior.weights.astype(np.float32)
    out = np.empty((max(K, 2), X.shape[0]))

    def fill(start):
        some = X[start : start + LANES]
        n = some.shape[0]
        centre, scale = (one.T for one in moments_of_logits(posterior, some, fit_intercept))
        if K == 1:
            found = average_of_sigmoids(nodes[:, 0, :n], centre[0], scale[0], weights)
        else:
            found = _of_softmaxes(nodes[..., :n] * scale.astype(np.float32), centre, weights)
        missing = np.flatnonzero(~(found.min(axis=0) >= TINY))
        found[:, missing] = 1.0
        found = np.log(found)
        if len(missing):
            logits = logits_at_nodes(posterior, some[missing], fit_intercept)
            found[:, missing] = _averaged_in_logs(logits.transpose(1, 0, 2), posterior.log_weights)
        out[:, start : start + n] = found

    by_tiles(fill, X)
    return np.minimum(out, 0.0, out=out)


def by_tiles(fill, X):
    """Call a function of the first row of each tile."""
    starts = range(0, X.shape[0], LANES)
    some = [starts[a : a + _TILES] for a in range(0, len(starts), _TILES)]
    each(lambda part: [fill(start) for start in part], some)


def tile_of(X, width, fit_intercept):
    """Rows of X as one of (LANES, width), with ones for an intercept and below them zeros."""
    tile = np.zeros((LANES, width))
    tile[: X.shape[0], : X.shape[1]] = X.toarray() if issparse(X) else X
    if fit_intercept:
        tile[: X.shape[0], -1] = 1.0
    return tile


def average_of_sigmoids(table, centre, scale, weights):
    """Averages (2, n) of logits centre + scale * table."""
    out = np.empty((2, len(centre)))
    average_sigmoids(np.ascontiguousarray(table), single(centre), single(scale), weights, out)
    return out / out.sum(axis=0)  # Single precision adds up to one to 1e-7.


def _of_softmaxes(table, centre, weights):
    """Averages (K, n) of logits centre + table, which may be overwritten."""
    out = np.empty(centre.shape)
    average_softmaxes(np.ascontiguousarray(table), single(centre), weights, out)
    return out / out.sum(axis=0)


def single(values):
    return np.ascontiguousarray(values, dtype=np.float32)


def _by_logs(points, X, fit_intercept):
    """As `log_averages`, in double precision throughout."""
    m, K, width = points.offsets.shape
    with np.errstate(divide="ignore"):
        log_weights = np.log(points.weights)
    coefficients = (points.mean + points.offsets).reshape(m * K, width)
    out = np.empty((max(K, 2), X.shape[0]))
    step = max(1, min(LANES, _LOGITS // (m * K)))
    for start in range(0, X.shape[0], step):
        some = X[start : start + step]
        tile = tile_of(some, width, fit_intercept)[: some.shape[0]]
        logits = (coefficients @ tile.T).reshape(m, K, -1)
        out[:, start : start + step] = _averaged_in_logs(logits, log_weights)
    return np.minimum(out, 0.0, out=out)


def _averaged_in_logs(logits, log_weights):
    """Log averages (n_classes, n) over logits (m, K, n)."""
    if logits.shape[1] == 1:
        values = np.stack([log_expit(-logits[:, 0]), log_expit(logits[:, 0])], axis=1)
    else:
        values = log_softmax(logits, axis=1)
    return logsumexp(log_weights[:, None, None] + values, axis=0)
