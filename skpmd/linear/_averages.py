"""Averages of class probabilities: over all particles, and over normal logits that stand for them.

Logits are those of the mean coefficients, in double precision, and in single what each particle
differs by: rounding is then relative to the spread of the posterior. Averages are right to 1e-6,
and tiny ones to 1e-4 of themselves. Rows of which single precision does not know enough are
averaged in logs, in double.

Each row is averaged by itself: no bit depends on what stands beside it, for matrix products are of
tiles of one shape.

Of a posterior of many coefficients a row sees K logits, which are sums over these. Where the data
say much their joint distribution is near normal, and then it has means and covariances from those
of the coefficients, whatever the number of particles. What is added to all logits alike changes
nothing, so that the differences from the last logit are enough; of two classes there is one.
Whether it is near enough is known beforehand: averages over normal logits are compared with those
over all particles. Rows unlike those of the comparison are averaged over all particles.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, log_expit, log_softmax, logsumexp

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine.loop import Stage
from skpmd.linear._bernoulli import average_sigmoids
from skpmd.linear._column_scale import own_particles
from skpmd.linear._design import gauss_hermite, n_logits, normal_nodes
from skpmd.linear._kernels import LANES
from skpmd.linear._multinomial import average_normal_softmaxes, average_softmaxes
from skpmd.linear._posterior import logits_at_nodes, moments_of_logits

# Averages below are made in logs, and so are those of rows whose logits may be so far from the mean
# ones: e^-87 is the smallest exponential, and 1e-7 of a thousand is 1e-4.
TINY, FAR = 1e-30, 1e3
_NEAR = 10.0  # Other particles differ from the mean by more than so many times the median.
_TILES = 8  # A thread takes so many tiles at a time.
_LOGITS = 1 << 20  # At most so many are in memory at a time where averages are made in logs.
_RULES = 32, 96  # Nodes of Gauss's rules, for two classes.
_NODES = 256, 512, 1024  # Quasi-random ones, for more.
# They are compared with all particles on so many rows of a fit and rows that have each column from
# another of these, with their own mean logits and with those of a tie, where most is open. There
# they may be off by so much of the tolerance: others are further off than these, but hardly any
# than at a tie. At so many times that no number of nodes mends it.
_ROWS, _FEWEST_ROWS, _SHARE, _SHARE_AT_TIE, _HOPELESS = 400, 100, 0.5, 0.9, 3.0
_LOG_ERROR = 50.0  # A log probability may be off by this many times more than a probability.
_MANY = 512  # Coefficients of three classes or more whose covariances would take longer.
# Half of the largest second derivative of the sigmoid: an average over logits of variance v is off
# from the sigmoid of their mean by v times that, at most.
_CURVATURE = 1.0 / (12.0 * np.sqrt(3.0))


class Points(NamedTuple):
    """Coefficients that stand for a posterior: K rows of a width each, an intercept last."""

    mean: np.ndarray  # (K, width): Their average.
    offsets: np.ndarray  # (m, K, width): What each differs from it by.
    weights: np.ndarray  # (m,): They add up to 1.


def points_of_posterior(posterior, n_classes, width):
    """All particles of a `Posterior` as `Points`, in the units that it was found in.

    Other coordinates than coefficients come last.
    """
    n_rows = n_logits(n_classes)
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

    def average(rows, n):
        tile = tile_of(X[rows], width, fit_intercept)
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
        return np.log(found)

    return _in_tiles(average, X, max(K, 2))


def _in_tiles(average, X, n_classes):
    """Logs (n_classes, n) of averages that a function has of a slice of n rows, tile by tile."""
    out = np.empty((n_classes, X.shape[0]))

    def fill(start):
        rows = slice(start, min(start + LANES, X.shape[0]))
        out[:, rows] = average(rows, rows.stop - start)

    by_tiles(fill, X)
    return np.minimum(out, 0.0, out=out)  # Weights add up to one only up to rounding.


def log_averages_of_normals(posterior, X, fit_intercept):
    """As `log_averages`, of logits that are independent normals: a `GaussianPosterior`."""
    K, m = posterior.nodes.shape
    nodes = np.repeat(posterior.nodes.T.astype(np.float32)[..., None], LANES, axis=2)
    weights = posterior.weights.astype(np.float32)

    def average(rows, n):
        some = X[rows]
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
        return found

    return _in_tiles(average, X, max(K, 2))


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


class NormalLogits(NamedTuple):
    """Means and covariances of K rows of coefficients, of a width each, an intercept last."""

    mean: np.ndarray  # (K, width)
    # Of two classes the root (width, width) of the covariance. Of more (K (K - 1) / 2,
    # width (width + 1) / 2), float32: covariances of rows less the last one, row k with row l <= k.
    # The products of a row of X with these have the order of `np.tril_indices`.
    covariances: np.ndarray
    nodes: np.ndarray  # (d, m), float32: Of more classes they and their mirror images are N(0, I).
    weights: np.ndarray  # (m,), float32
    largest: float  # The largest variance of a difference on the rows of the comparison.
    error: float  # The largest error of a probability there.


def normal_logits_of(points, n_nodes):
    """`NormalLogits` with the moments of `Points`, and so many nodes or more."""
    K, width = points.mean.shape
    if K == 1:
        nodes, weights = gauss_hermite(n_nodes)
        covariances, nodes = root_of(points), nodes[None]
    else:
        offsets = points.offsets[:, :-1] - points.offsets[:, -1:]
        flat = offsets.reshape(len(offsets), -1)
        covariance = ((flat.T * points.weights) @ flat).reshape(K - 1, width, K - 1, width)
        (k, other), (i, j) = np.tril_indices(K - 1), np.tril_indices(width)
        blocks = covariance[k, :, other]
        # Of a pair of columns there are two covariances, which have the same product to go with.
        covariances = single(blocks[:, i, j] + np.where(i == j, 0.0, blocks[:, j, i]))
        nodes = normal_nodes(K - 1, n_nodes, shifted=True)
        nodes = nodes[:, : nodes.shape[1] // 2]
        weights = np.full(nodes.shape[1], 1.0 / nodes.shape[1])
    return NormalLogits(points.mean, covariances, single(nodes), single(weights), np.inf, 0.0)


def root_of(points):
    """Matrix (width, width): a row's product with it has the variance of its logit as its square.

    The points have one row of coefficients.
    """
    scaled = points.offsets[:, 0] * np.sqrt(points.weights)[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ scaled)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def log_averages_of_normal_logits(normal, X, fit_intercept, at_zero=False):
    """Log averages (n_classes, n), float64, and the largest variance of a row's differences (n,).

    They are not a number where single precision does not know enough. With ``at_zero`` all mean
    logits are 0 in place of the rows' own.
    """
    K, width = normal.mean.shape
    pairs = np.tril_indices(width)
    of_own = np.arange(1, K) * np.arange(2, K + 1) // 2 - 1  # Places of the K - 1 variances.
    table = np.repeat(normal.nodes[0][:, None], LANES, axis=1) if K == 1 else None
    widest = np.empty(X.shape[0])

    def average(rows, n):
        tile = tile_of(X[rows], width, fit_intercept)
        with np.errstate(all="ignore"):  # Rows of huge numbers are found below.
            centre = np.zeros((K, LANES)) if at_zero else normal.mean @ tile.T
            if K == 1:
                variance = np.square(tile @ normal.covariances).sum(axis=1)
                is_far = ~(variance < FAR**2)
                scale = np.sqrt(np.where(is_far, 0.0, variance))
                found = average_of_sigmoids(table, centre[0], scale, normal.weights)
            else:
                columns = single(tile.T)
                spread = normal.covariances @ (columns[pairs[0]] * columns[pairs[1]])
                variance = spread[of_own].max(axis=0)
                is_far = ~(variance < FAR**2)
                spread[:, is_far] = 0.0
                found = np.empty((K, LANES))
                average_normal_softmaxes(single(centre), spread, normal.nodes, found)
                found /= found.sum(axis=0)  # Single precision adds up to one to 1e-7.
        found[:, is_far | ~(found.min(axis=0) >= TINY)] = np.nan
        widest[rows] = variance[:n]
        return np.log(found[:, :n])

    return _in_tiles(average, X, max(K, 2)), widest


def searched_normal_logits(points, X, fit_intercept, tol):
    """None, which stands for all particles, and then `fitting_normal_logits`, for `drive`."""
    yield Stage(None)
    yield Stage(fitting_normal_logits(points, X, fit_intercept, tol))


@phase("normal logits for predictions")
def fitting_normal_logits(points, X, fit_intercept, tol):
    """`NormalLogits` of the fewest nodes that are off by half of ``tol`` from `Points`, or None.

    The comparison is on up to four hundred rows of X, and mixtures of these, as they are and as if
    all classes were equally probable.
    """
    n, (K, width) = X.shape[0], points.mean.shape
    if not tol or n < _FEWEST_ROWS or (K > 1 and K * width > _MANY):
        return None
    rows = _with_mixed(X[np.linspace(0, n - 1, min(n, _ROWS)).astype(int)])
    ways = False, True  # At the rows' own mean logits, and at a tie.
    exact = [log_averages_in_single(points, rows, fit_intercept, way) for way in ways]
    if np.isnan(exact).any():
        return None
    for size in _RULES if K == 1 else _NODES:
        normal = normal_logits_of(points, size)
        found, (variance, _) = zip(
            *(log_averages_of_normal_logits(normal, rows, fit_intercept, way) for way in ways),
            strict=True,
        )
        off = np.abs(found[0] - exact[0]).max()
        errors = np.abs(np.exp(found) - np.exp(exact)).max(axis=(1, 2))
        shares = errors / (tol * np.array([_SHARE, _SHARE_AT_TIE]))
        if shares.max() <= 1.0 and off <= _LOG_ERROR * tol:
            return normal._replace(largest=float(variance.max()), error=float(errors.max()))
        if not shares.max() <= _HOPELESS:
            return None
    return None


def _with_mixed(rows):
    """Rows and, unless they are sparse, as many that have each column from another of them."""
    if issparse(rows) or getattr(rows, "is_sparse", False):
        return rows
    rows, (n, p) = rows[:], rows.shape
    places = np.arange(n)[:, None] + 2 * np.arange(p) + 1
    return np.vstack([rows, rows[places % n, np.arange(p)]])


def log_averages_by(normal, points, X, fit_intercept):
    """Log averages (n_classes, n) by normal logits, and by all points where these may not do.

    All are averaged over where logits vary by more than on the rows of the comparison, and where it
    matters for the most probable class.
    """
    out, variance = log_averages_of_normal_logits(normal, X, fit_intercept)
    second, best = np.exp(np.partition(out, -2, axis=0)[-2:])
    is_clear = best - second > 4.0 * normal.error  # Some may be no number.
    left = np.flatnonzero((variance > normal.largest) | ~is_clear)
    if len(left):
        out[:, left] = log_averages(points, X[left], fit_intercept)
    return out


def labels_by_means(points, root, X, fit_intercept):
    """Codes (n,) of the more probable of two classes, and whether the mean logit settles them."""
    logit = X @ points.mean[0, : X.shape[1]] + (points.mean[0, -1] if fit_intercept else 0.0)
    spread = np.empty(len(logit))

    def fill(start):
        n = min(LANES, X.shape[0] - start)
        tile = tile_of(X[start : start + n], len(root), fit_intercept)
        with np.errstate(over="ignore"):
            spread[start : start + n] = np.square(tile @ root).sum(axis=1)[:n]

    by_tiles(fill, X)
    return (logit > 0.0).astype(int), np.abs(expit(logit) - 0.5) > _CURVATURE * spread + 1e-9
