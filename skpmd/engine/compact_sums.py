"""Compiled sums of Epanechnikov kernels over all pairs of points and centres.

Centres lie in tiles, coordinate by coordinate, so that a pair is SIMD code and no table of all
pairs is ever held. All is in double precision: a point that a single kernel of a small weight
reaches keeps its density, and one that none reaches has none.
"""

import numpy as np
from numba import njit

from skpmd._runtime.threads import each, ranges

_LANES = 128  # Centres in a tile.
_POINTS = 64  # Points that a thread takes at once.
# Sums may be taken in any order, and no nan occurs.
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


def log_sums(centres, log_weights, points, radius):
    """Log of sum_j w_j max(0, 1 - |x_i - c_j|^2 / radius^2) for points (n, d), shape (n,).

    It is -inf where no kernel of the centres (m, d) reaches.
    """
    (m, d), top = centres.shape, log_weights.max()
    n_tiles = -(-m // _LANES)
    padded, shares = np.zeros((n_tiles * _LANES, d)), np.zeros(n_tiles * _LANES)
    padded[:m], shares[:m] = centres / radius, np.exp(log_weights - top)
    tiles = np.ascontiguousarray(padded.reshape(n_tiles, _LANES, d).transpose(0, 2, 1))
    shares, points = shares.reshape(n_tiles, _LANES), np.ascontiguousarray(points / radius)
    out = np.empty(len(points))

    def fill(some):
        rows = slice(*some)
        _sums(tiles, shares, points[rows], out[rows])

    each(fill, ranges(len(points), _POINTS))
    with np.errstate(divide="ignore"):
        return np.log(out) + top


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _sums(tiles, shares, points, out):
    n_tiles, d, lanes = tiles.shape
    left = np.empty(lanes)
    for i in range(len(points)):
        total = 0.0
        for t in range(n_tiles):
            centres, own = tiles[t], shares[t]
            for j in range(lanes):
                left[j] = 1.0
            for k in range(d):
                column, at = centres[k], points[i, k]
                for j in range(lanes):
                    gap = at - column[j]
                    left[j] -= gap * gap
            for j in range(lanes):
                total += own[j] * max(left[j], 0.0)
        out[i] = total
