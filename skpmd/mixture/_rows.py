"""Rows of a table that are copied some at a time: distinct, in sorted order, in scaled columns.

Order and copies of rows do not change a fit, for it takes distinct rows in sorted order. A copy of
them all would need as much memory as the table itself, and their places need a small share of it.
"""

from functools import partial

import numpy as np
from sklearn.utils import gen_batches

from skpmd._rows.order import group_size
from skpmd._rows.sampling import merged
from skpmd._rows.table import is_in_memory
from skpmd.engine.sums import are_elsewhere

# Pieces have about so many numbers, and so many rows at least.
_AT_ONCE, _MIN_AT_ONCE = 1 << 15, 64


class RowView:
    """Rows of a table, which read as one array of float64: by slices and by places.

    ``table`` (n, p) has floats of any size, and ``places`` (k,) says which of its rows these are,
    in their order; None is all of them as they are. ``discounts`` (k,) is what forgetting has left
    of one row's weight since it came last; None where all are new. With a ``scaler`` rows are read
    in its columns.
    """

    def __init__(self, table, places=None, discounts=None, scaler=None):
        self.table, self.places, self.discounts, self.scaler = table, places, discounts, scaler
        self._held = None, None  # Columns that are where the rows are, and what holds them there.

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
        return self._total if are_elsewhere(self.table) else None

    def _total(self, function, add, held, places=None):
        return self.table.total(partial(_of_view, function, self.scaler), add, held, places)

    def sent(self, rest, places=None):
        """As of the table: ``rest(slice)`` for the rows of each of its blocks."""
        return self.table.sent(rest, places)

    def held_columns(self, columns):
        """The same of columns of the rows, which are those of the last call most of the time."""
        known, held = self._held
        if known is None or any(a is not b for a, b in zip(known, columns, strict=True)):
            held = self.sent(lambda rows: tuple(np.array(one[rows]) for one in columns))
            self._held = columns, held
        return held

    def scaled(self, scaler):
        """The same rows in the columns of a scaler."""
        return RowView(self.table, self.places, self.discounts, scaler)

    def discount(self, index):
        """Discounts of some of the rows."""
        discounts = np.broadcast_to(1.0, len(self)) if self.discounts is None else self.discounts
        return discounts[index]


def _of_view(function, scaler, X, rest):
    return function(RowView(X, scaler=scaler), rest)


def _of_columns(function, X, columns):
    return function(X, *columns)


def over_rows(function, X, *columns, add):
    """``function(X, ...)`` of rows and columns of them, or its sum by ``add`` where rows are."""
    if are_elsewhere(X):
        return X.total(partial(_of_columns, function), add, X.held_columns(columns))
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
    places, total = merged(weight, table)
    present = total > 0.0
    if not present.all():
        places, total = places[present], total[present]
    # Where there are no copies, equal ones need no memory.
    if len(total) == np.count_nonzero(weight > 0.0) and (total == total[0]).all():
        total = np.broadcast_to(total[0], len(total))
    return RowView(table, places), total


def joined(rows, weight, earlier):
    """`RowView` of rows and those of a `Reservoir` before them, and the total weight of each.

    The rows count ``weight`` times. Those that come again are new.
    """
    table = np.concatenate([rows[:], earlier.X])
    discounts = np.concatenate([np.ones(len(rows)), earlier.discount])
    places, total = merged(np.concatenate([weight, earlier.weight]), table)
    return RowView(table, places, discounts[places]), total
