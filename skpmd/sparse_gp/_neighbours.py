"""Nearest rows of points, and nearest rows of a row among those before it.

A tree is fast where rows fill few dimensions, whatever the number of columns; else all distances
are taken, by matrix products.
"""

import numpy as np
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from skpmd._runtime.threads import each

# A tree is slower than all distances from so many dimensions on, if there are so many rows; the
# dimensions are those of so many rows.
_MANY_DIMENSIONS, _MANY_ROWS, _SAMPLE = 9.0, 2000, 2000
_LEAF = 32  # Rows of a tree's leaf: with many columns a larger leaf than SciPy's saves time.
# Trees whose boxes are cut in the middle, and not at medians, are faster to make and to ask. They
# have a level for each power of two between the least and the largest number of a column: where
# some of the rows have so many of them boxes are cut at medians.
_MANY_POWERS = 2.0**64
_ROWS = 512  # A thread asks for so many points at a time.
# Trees hold all rows, this share of them, the same share of those and so on; the larger share saves
# candidates, and is for many rows that ask: more than one in so many.
_FEW_ASK, _MANY_ASK, _MANY = 0.5, 0.8, 8
# Of a row near the start of its tree so many times the candidates that it needs are found at first,
# and so many besides: by chance fewer than expected are before it.
_SPARE, _MORE = 1.1, 10
_FEW = 64  # So few rows are queried at once.
_IN_DISC = 0.7548776662466927, 0.5698402909980532  # Steps of a sequence that fills the unit square.


class _Tree:
    """Rows in the order of the leaves of a tree, near in memory where they are near."""

    def __init__(self, X, places):
        self.data, self.n, self._places = X, len(X), places
        self._search = _tree(X[self._places])

    def query(self, points, n, eps=0.0):
        """Places (k, n) of the nearest rows, nearest first, as near as `nearest` says."""
        return self._places[self._search.query(points, n, eps)[1].reshape(-1, n)]


class _AllDistances:
    """As `_Tree`, by all distances."""

    def __init__(self, X):
        self.data, self.n = X, len(X)
        self._search = NearestNeighbors(algorithm="brute").fit(X)

    def query(self, points, n, eps=0.0):
        """The nearest rows themselves: nothing is saved by others."""
        return self._search.kneighbors(points, n, return_distance=False)


def in_discs(X, codes, length_scale):
    """Rows (n, p) with a place in a disc for each of their categories (n, q), to find near rows.

    Different categories are all as far from each other, which no few axes can show: here they are
    on average, by a sequence that leaves no gaps (Roberts 2018). ``length_scale`` (q,) says how far
    that is. Any neighbours make a likelihood, and those of one category have one place.
    """
    radius, angle = (
        np.sqrt((codes * _IN_DISC[0]) % 1.0),
        2.0 * np.pi * ((codes * _IN_DISC[1]) % 1.0),
    )
    places = [X, radius * np.cos(angle) / length_scale, radius * np.sin(angle) / length_scale]
    return np.ascontiguousarray(np.concatenate(places, axis=1))


def in_leaves(X):
    """Places of rows in the order of the leaves of a tree: those near each other follow."""
    return _tree(X).indices if len(X) else np.empty(0, dtype=np.int64)


def _tree(X):
    some = np.abs(X[:: -(-len(X) // _SAMPLE)])
    least = np.min(some, axis=0, where=some > 0.0, initial=np.inf)
    is_deep = (some.max(axis=0) > _MANY_POWERS * least).any()
    return KDTree(X, leafsize=_LEAF, balanced_tree=bool(is_deep))


def index_of(X, places=None):
    """What `nearest` asks for rows of X (n, p); ``places`` are theirs `in_leaves`, if known."""
    if len(X) > _MANY_ROWS and _n_dimensions(X[:: -(-len(X) // _SAMPLE)]) > _MANY_DIMENSIONS:
        return _AllDistances(X)
    return _Tree(X, in_leaves(X) if places is None else places)


def _n_dimensions(X):
    """How many dimensions rows fill: 1 / sum of squared shares of the principal variances."""
    variances = np.linalg.eigvalsh(np.atleast_2d(np.cov(X.T)))
    total = variances.sum()
    return total**2 / (variances**2).sum() if total > 0.0 else 0.0


def nearest(index, points, n):
    """Places (k, n') of the n nearest rows, nearest first; all rows if they are fewer."""
    order = in_leaves(points)  # Points that lie near each other ask for the same leaves.
    found = np.empty((len(points), min(n, index.n)), dtype=np.int64)
    found[order] = _in_turn(index, points[order], n, 0.0)
    return found


def _in_turn(index, points, n, eps):
    """As `nearest`, of points in a sensible order.

    None is further than 1 + ``eps`` times the one that should stand in its place.
    """
    n = min(n, index.n)
    found = np.empty((len(points), n), dtype=np.int64)

    def of(start):
        some = slice(start, start + _ROWS)
        found[some] = index.query(points[some], n, eps)

    each(of, range(0, len(points), _ROWS))
    return found


def nearest_before(X, rows, n, eps=0.0):
    """Places (k, n) of the n nearest rows among those before each of ``rows``, nearest first.

    X (N, p) are all rows in their order and ``rows`` (k,) places of some. Where fewer than n come
    before a row the places after the last are -1. None is further than 1 + ``eps`` times the one
    that should stand in its place.

    The last rows ask all rows for some more than n and leave out those after them, the last of the
    rows before these ask all of those, and so on.
    """
    out, places = np.full((len(rows), n), -1, dtype=np.int64), in_leaves(X)
    turn = np.empty_like(places)
    turn[places] = np.arange(len(places))
    order = np.argsort(turn[rows], kind="stable")
    end, share = len(X), _MANY_ASK if _MANY * len(rows) > len(X) else _FEW_ASK
    while end > 0:
        start = int(share * end) if end > _FEW else 0
        queried = order[(rows[order] >= start) & (rows[order] < end)]
        if len(queried):
            places = places[places < end]
            _fill(out, index_of(X[:end], places), X, rows, queried, n, share, eps)
        end = start
    return out


def _fill(out, index, X, rows, queried, n, share, eps):
    n_candidates = int(_SPARE * n / share) + _MORE
    while len(queried):
        at = rows[queried]
        found = _in_turn(index, X[at], n_candidates, eps)
        # The first column of each row's own that is before it has the count 1, and so on.
        before = found < at[:, None]
        count = before.cumsum(axis=1, dtype=np.int32)
        known = (count[:, -1] >= np.minimum(n, at)) | (found.shape[1] == index.n)
        lines, columns = np.nonzero(before & (count <= n) & known[:, None])
        out[queried[lines], count[lines, columns] - 1] = found[lines, columns]
        queried, n_candidates = queried[~known], 2 * n_candidates
