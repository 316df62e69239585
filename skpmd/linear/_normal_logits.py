"""Averages of class probabilities where the logits of a row are jointly normal.

Of a posterior of many coefficients a row sees K logits, which are sums over these. Where the data
say much their joint distribution is near normal, and then it has means and covariances from those
of the coefficients, whatever the number of particles. What is added to all logits alike changes
nothing, so that the differences from the last logit are enough.
"""

from typing import NamedTuple

import numpy as np

from skpmd.linear._averages import FAR, TINY, by_tiles, single, tile_of
from skpmd.linear._design import normal_nodes
from skpmd.linear._kernels_single import LANES, average_normal_softmaxes


class NormalLogits(NamedTuple):
    """Means and covariances of K rows of coefficients, of a width each, an intercept last."""

    mean: np.ndarray  # (K, width)
    # (K (K - 1) / 2, width (width + 1) / 2), float32: covariances of rows less the last one, row
    # k with row l <= k. The products of a row of X with these have the order of `np.tril_indices`.
    covariances: np.ndarray
    nodes: np.ndarray  # (K - 1, m), float32: They and their mirror images stand for N(0, I).


def normal_logits_of(points, n_nodes):
    """`NormalLogits` with the moments of `Points`, and so many nodes or more."""
    K, width = points.mean.shape
    offsets = points.offsets[:, :-1] - points.offsets[:, -1:]
    flat = offsets.reshape(len(offsets), -1)
    covariance = ((flat.T * points.weights) @ flat).reshape(K - 1, width, K - 1, width)
    (k, other), (i, j) = np.tril_indices(K - 1), np.tril_indices(width)
    blocks = covariance[k, :, other]
    # Of a pair of columns there are two covariances, which have the same product to go with.
    packed = blocks[:, i, j] + np.where(i == j, 0.0, blocks[:, j, i])
    nodes = normal_nodes(K - 1, n_nodes, shifted=True)
    return NormalLogits(points.mean, single(packed), single(nodes[:, : nodes.shape[1] // 2]))


def log_averages_of_normal_logits(normal, X, fit_intercept, at_zero=False):
    """Log averages (K, n), float64; not a number where single precision does not know enough.

    With ``at_zero`` all mean logits are 0 in place of the rows' own.
    """
    K, width = normal.mean.shape
    i, j = np.tril_indices(width)
    of_own = np.arange(1, K) * np.arange(2, K + 1) // 2 - 1  # Places of the K - 1 variances.
    out = np.empty((K, X.shape[0]))

    def fill(start):
        n = min(LANES, X.shape[0] - start)
        tile = tile_of(X[start : start + n], width, fit_intercept)
        with np.errstate(all="ignore"):  # Rows of huge numbers are found below.
            columns = single(tile.T)
            spread = normal.covariances @ (columns[i] * columns[j])
            centre = np.zeros((K, LANES)) if at_zero else normal.mean @ tile.T
            is_far = ~(spread[of_own].max(axis=0) < FAR**2)
            spread[:, is_far] = 0.0
            found = np.empty((K, LANES))
            average_normal_softmaxes(single(centre), spread, normal.nodes, found)
            found /= found.sum(axis=0)  # Single precision adds up to one to 1e-7.
        found[:, is_far | ~(found.min(axis=0) >= TINY)] = np.nan
        out[:, start : start + n] = np.log(found[:, :n])

    by_tiles(fill, X)
    return np.minimum(out, 0.0, out=out)
