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
    data = rows.data
    columns = [sortable(data.X), data.y] + ([] if data.noise is None else [data.noise])
    first, which = distinct(np.column_stack(columns))
    n = len(first)
    if n < 2:
        return None
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[: n_held_out(n)]] = True
    last = chosen[which]
    size = -(-len(data.weight) // rows.n_batches)
    return tuple(Rows.of(data.take(one), size) for one in (~last, last))
