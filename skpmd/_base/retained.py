"""Rows that are retained beside a posterior: one record, and what becomes of it with new rows.

A stream retains all rows so far while it knows little: a posterior found anew from all of them is
better than one that steps from part to part. Past rows count (1 - a) times what they did, in each
of the columns alike. When that ends, and when the posterior is found anew, is the family's matter;
what rows take of memory is bounded here.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse, vstack

from skpmd._base.streaming import coefficients
from skpmd.engine.model import Batch

_MAX_NUMBERS = 1 << 21  # So many numbers of X are retained at most, 16 MB.


class Retained(NamedTuple):
    """All rows of a stream so far, with what they count now."""

    rows: Batch
    n_fitted: int = 0  # The posterior was found from so many of them at once, the first.

    def before_and_since(self):
        """The rows that the posterior was found from at once, and those since."""
        return [self.rows.take(some) for some in (slice(self.n_fitted), slice(self.n_fitted, None))]

    def unless_much(self):
        """The record itself, or None where its rows are too much to be retained."""
        return self if numbers_of_rows(self.rows.X).sum() <= _MAX_NUMBERS else None


def all_so_far(retained, stream, rows, options, shift=None):
    """All rows so far as a `Batch`, past ones discounted; None where they are not at hand.

    ``rows`` are the new `Rows`. A second pass over rows of a given number needs no retained ones:
    the first has seen them all. For ``shift`` see `stacked`.
    """
    if not stream.seen:
        return rows.data
    a, _ = coefficients(options, stream.seen, rows.total)
    if retained is None or (a > 0.0 and options.total_samples is not None):
        return None
    past = retained.rows
    return stacked(past._replace(weight=(1.0 - a) * past.weight), rows.data, shift)


def stacked(first, second, shift=None):
    """The rows of two batches as one; dense where one is, less the ``shift`` of sparse rows."""
    X = first.X, second.X
    if all(map(issparse, X)):
        both = vstack(X, format="csr")
    else:
        shift = 0.0 if shift is None else shift
        both = np.concatenate([one.toarray() - shift if issparse(one) else one for one in X])
    others = zip(first[1:], second[1:], strict=True)
    return Batch(both, *(None if pair[0] is None else np.concatenate(pair) for pair in others))


def numbers_of_rows(X):
    """How many numbers each row takes, (n,): those that are stored of a sparse one."""
    return np.diff(X.indptr) if issparse(X) else np.broadcast_to(X.shape[1], X.shape[0])
