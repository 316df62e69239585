"""Rows that are copied some at a time, distinct and sorted, and those that a stream retains.

Order and copies of rows do not change a fit, for it takes distinct rows in sorted order. A copy of
them all would need as much memory as the table itself, and their places need a small share of it.
"""

from functools import partial

import numpy as np
from sklearn.utils import gen_batches

from skpmd._base.retained import RetainedRows, sampling_keys
from skpmd._rows.rows import merge_copies
from skpmd._rows.table import group_size, is_in_memory
from skpmd._runtime.threads import are_distributed
from skpmd.engine.model import Batch

# The reservoir holds at least so many rows, or so many for each component; of many columns so many
# numbers at most, but rows for each component.
_MIN_RETAINED, _ROWS_EACH, _MAX_NUMBERS, _FEW_EACH = 1000, 200, 1 << 16, 10
# Pieces have about so many numbers, and so many rows at least.
_AT_ONCE, _MIN_AT_ONCE = 1 << 15, 64


class RowView:
    """Rows of a table, which read as one array of float64: by slices and by places.

    ``table`` (n, p) has floats of any size, and ``places`` (k,) says which of its rows these are,
    in their order; None is all of them as they are. With a ``scaler`` rows are read in its columns.
    """

    def __init__(self, table, places=None, scaler=None):
        self.table, self.places, self.scaler = table, places, scaler
        self._sent_columns = None, None  # Columns that are where the rows are, and what was sent.

    def __len__(self):
        return len(self.table if self.places is None else self.places)

    @property
    def is_in_memory(self):
        """As of the table."""
        return is_in_memory(self.table)

    @property
    def shape(self):
        """Numbers of rows and of columns."""
        return len(self), self.table.shape[1]

    def __getitem__(self, index):
        rows = index if self.places is None else self.places[index]
        copy = isinstance(rows, slice)  # Rows by their places are a copy already.
        X = self.table[rows].astype(np.float64, order="C", subok=False, copy=copy)
        return X if self.scaler is None else self.scaler.transform(X, out=X)

    @property
    def total(self):
        """``total(function, add, sent, places=None)``, as of the table, where it has that."""
        return self._total if are_distributed(self.table) else None

    def _total(self, function, add, sent, places=None):
        return self.table.total(partial(_of_view, function, self.scaler), add, sent, places)

    def sent(self, rest, places=None):
        """As of the table: ``rest(slice)`` for the rows of each of its blocks."""
        return self.table.sent(rest, places)

    def sent_columns(self, columns):
        """The same of columns of the rows, which are those of the last call most of the time."""
        known, sent = self._sent_columns
        if known is None or any(a is not b for a, b in zip(known, columns, strict=True)):
            sent = self.sent(lambda rows: tuple(np.array(one[rows]) for one in columns))
            self._sent_columns = columns, sent
        return sent

    def scaled(self, scaler):
        """The same rows in the columns of a scaler."""
        return RowView(self.table, self.places, scaler)


def _of_view(function, scaler, X, rest):
    return function(RowView(X, scaler=scaler), rest)


def _of_columns(function, X, columns):
    return function(X, *columns)


def over_rows(function, X, *columns, add):
    """``function(X, ...)`` of rows and columns of them, or its sum by ``add`` where rows are."""
    if are_distributed(X):
        return X.total(partial(_of_columns, function), add, X.sent_columns(columns))
    return function(X, *columns)


def each_added(one, other):
    """The sums of the arrays of two tuples."""
    return tuple(map(np.add, one, other))


def pieces(X):
    """Slices of the rows of an array or `RowView`, for sums over them that need little memory."""
    return gen_batches(len(X), max(_MIN_AT_ONCE, _AT_ONCE // X.shape[1]))


def rows_of_fit(table, weight):
    """The same as `distinct_rows`, of all rows of a fit.

    More than a group of blocks stay as they come: those that are not in memory cannot be sorted,
    and the same ones in memory are to have the same fit.
    """
    if len(weight) <= group_size(table):
        return distinct_rows(table, weight)
    present = weight > 0.0
    if present.all():
        return RowView(table), weight
    if is_in_memory(table):  # No row is copied.
        return RowView(table, np.flatnonzero(present)), weight[present]
    return RowView(table[present]), weight[present]


def distinct_rows(table, weight):
    """`RowView` of the distinct rows of positive weight, sorted, and the total weight of each.

    ``weight`` (n,) says how often each row of the table (n, p) counts. The weights returned can
    only be read: equal ones share memory.
    """
    places, total = merge_copies(weight, table)
    present = total > 0.0
    if not present.all():
        places, total = places[present], total[present]
    # Where there are no copies, equal ones need no memory.
    if len(total) == np.count_nonzero(weight > 0.0) and (total == total[0]).all():
        total = np.broadcast_to(total[0], len(total))
    return RowView(table, places), total


# ---------------------------------------------------------------------- rows that are retained
def reservoir_size(n_components, n_columns):
    """How many rows are retained."""
    most = max(_MAX_NUMBERS // n_columns, _FEW_EACH * n_components)
    return min(max(_MIN_RETAINED, _ROWS_EACH * n_components), most)


def retained_of(rows, weight, size):
    """`RetainedRows`, at most ``size`` of those of a call.

    ``rows`` is a `RowView`, and ``weight`` (n,) how often each counts.
    """
    if len(rows) <= size:
        return RetainedRows(Batch(rows[:], None, np.array(weight)))
    best = partial(_best, size)
    chosen, _ = over_rows(best, rows, range(len(rows)), add=partial(_best_of_two, size))
    chosen = np.sort(chosen)
    # Those of a large fit are neither sorted nor distinct.
    some = RetainedRows(Batch(rows[chosen], None, weight[chosen]), complete=False)
    return some.merged()


def _best(size, rows, places):
    """At most so many of the places, by the keys of their rows, with these."""
    found = np.empty(0, dtype=np.int64), np.empty(0)
    for some in pieces(rows):
        found = _best_of_two(size, found, (places[some], sampling_keys(rows[some])))
    return found


def _best_of_two(size, one, other):
    chosen, key = map(np.concatenate, zip(one, other, strict=True))
    if len(key) > size:
        best = np.argpartition(key, size - 1)[:size]
        chosen, key = chosen[best], key[best]
    return chosen, key
