"""Rows held out for stacking, whose weights come from `skpmd.engine.weighting`."""

import numpy as np

from skpmd._base.rows import Rows, distinct, sortable

_MAX_ROWS, _MAX_FRACTION = 1000, 0.2  # At most so many rows, of all rows, are held out.


def n_held_out(n):
    """How many of n rows are held out."""
    return max(1, min(_MAX_ROWS, int(_MAX_FRACTION * n)))


def hold_out(rows, rng):
    """Rows to fit first, and rows whose predictions are scored before they are added too.

    Equal rows stay together: copies of a row are its weight. None where all are equal.
    """
    X, y, weight = rows.data
    first, which = distinct(np.column_stack([sortable(X), y]))
    n = len(first)
    if n < 2:
        return None
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[: n_held_out(n)]] = True
    last = chosen[which]
    size = -(-len(weight) // rows.n_batches)
    return tuple(Rows(X[one], y[one], weight[one], size) for one in (~last, last))
