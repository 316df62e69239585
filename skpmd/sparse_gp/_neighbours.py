"""Nearest rows of points, and nearest rows of a row among those before it.

A tree is fast where rows fill few dimensions, whatever the number of columns; else all distances
are taken, by matrix products.
"""

import numpy as np
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from skpmd.engine.threads import each

# A tree is slower than all distances from so many dimensions on, if there are so many rows; the
# dimensions are those of so many rows.
_MANY_DIMENSIONS, _MANY_ROWS, _SAMPLE = 9.0, 2000, 2000
_ROWS = 512  # A thread asks for so many points at a time.
_SPARE = 2.2  # Of rows in the later half so many times the neighbours are found at first,
_MORE = 10  # and so many besides: some will be rows after them.
_FEW = 64  # So few rows are queried at once.


class _AllDistances:
    """As a `KDTree`, as far as it is used here."""

    def __init__(self, X):
        self.data, self.n = X, len(X)
        self._search = NearestNeighbors(algorithm="brute").fit(X)

    def query(self, points, n):
        return self._search.kneighbors(points, n)


def index_of(X):
    """What `nearest` asks for rows of X (n, p)."""
    if len(X) > _MANY_ROWS and _n_dimensions(X[:: -(-len(X) // _SAMPLE)]) > _MANY_DIMENSIONS:
        return _AllDistances(X)
    return KDTree(X)


def _n_dimensions(X):
    """How many dimensions rows fill: 1 / sum of squared shares of the principal variances."""
    variances = np.linalg.eigvalsh(np.atleast_2d(np.cov(X.T)))
    total = variances.sum()
    return total**2 / (variances**2).sum() if total > 0.0 else 0.0


def nearest(index, points, n):
    """Places (k, n') of the n nearest rows, nearest first; all rows if they are fewer."""
    n = min(n, index.n)

    def of(start):
        return index.query(points[start : start + _ROWS], n)[1].reshape(-1, n)

    found = each(of, range(0, len(points), _ROWS))
    return np.concatenate(found) if found else np.empty((0, n), dtype=np.int64)


def nearest_before(X, rows, n):
    """Places (k, n) of the n nearest rows among those before each of ``rows``, nearest first.

    X (N, p) are all rows in their order and ``rows`` (k,) places of some. Where fewer than n come
    before a row the places after the last are -1.

    Rows of the later half ask all rows for some more than n and leave out those after them, rows of
    the quarter before it ask the first half, and so on.
    """
    out = np.full((len(rows), n), -1, dtype=np.int64)
    end = len(X)
    while end > 0:
        start = end // 2 if end > _FEW else 0
        queried = np.flatnonzero((rows >= start) & (rows < end))
        if len(queried):
            _fill(out, index_of(X[:end]), X, rows, queried, n)
        end = start
    return out


def _fill(out, index, X, rows, queried, n):
    n_candidates = int(_SPARE * n) + _MORE
    while len(queried):
        at = rows[queried]
        found = nearest(index, X[at], n_candidates)
        before = found < at[:, None]
        known = (before.sum(axis=1) >= np.minimum(n, at)) | (found.shape[1] == index.n)
        # A stable sort brings those before to the front, the nearest first.
        order = np.argsort(~before[known], axis=1, kind="stable")[:, :n]
        places = np.take_along_axis(found[known], order, axis=1)
        places[~np.take_along_axis(before[known], order, axis=1)] = -1
        out[queried[known], : places.shape[1]] = places
        queried, n_candidates = queried[~known], 2 * n_candidates
