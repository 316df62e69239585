"""Where batches come from: rows of arrays in memory."""

import numpy as np

from skpmd.engine.model import Batch

_AUTO_BATCH, _FEW_COLUMNS = 1000, 2
_AT_ONCE = 1 << 15  # Rows whose columns are copied at a time to sort them.


def _of_array(values, rows):
    """Some rows of an array or a CSR matrix; None stays None."""
    return None if values is None else values[rows]


class Rows:
    """Weighted rows of an array, cut into batches of nearly equal size.

    Rows of weight zero are left out, so that weight zero is the same as absence. X is an array or
    CSR matrix of shape (n, p); y has the shape (n,) or (n, t), or is None; ``weight`` has the shape
    (n,), and None is one each. ``batch_size`` is the number of rows in a batch, ``"auto"``
    min(n, 1000). ``select(values, rows)`` takes some rows of X or of y, by a slice, a mask or
    places: with another one than the default they may be of any kind.
    """

    def __init__(self, X, y, weight, batch_size, select=_of_array):
        self._select = select
        if weight is None:
            weight = np.ones(X.shape[0])
        elif not weight.all():
            if not weight.any():
                raise ValueError("sample_weight is zero for every row: there are no data to fit.")
            kept = weight > 0
            X, y, weight = select(X, kept), select(y, kept), weight[kept]
        self.data = Batch(X, y, weight)
        self.total = float(weight.sum())
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        self.n_batches = -(-len(weight) // size)

    def whole(self):
        """All data once, in order, as a list of batches (views)."""
        return list(self._in_order())

    def _in_order(self):
        edges = self._edges()
        return (self._take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True))

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness.
        """
        n = len(self.data.weight)
        if self.n_batches == 1 and sampling == "epoch":
            yield self._all()
            return
        if sampling == "epoch":  # Half the memory where numbers of rows allow for it.
            order = np.arange(n, dtype=np.int32 if n <= np.iinfo(np.int32).max else np.int64)
            rng.shuffle(order)
        else:
            order = rng.integers(n, size=n)
        edges = self._edges()
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            yield self._take(np.sort(order[a:b]))

    def _edges(self):
        return np.linspace(0, len(self.data.weight), self.n_batches + 1).astype(int)

    def _all(self):
        return self.data

    def _take(self, rows):
        X, y, weight = self.data
        return Batch(self._select(X, rows), self._select(y, rows), weight[rows])


def merged(weight, X, *columns):
    """Places of the distinct rows, in sorted order, and the total weight of each.

    ``weight`` has the shape (n,) and X (n, p). Rows have to agree in ``columns``, of shape (n,) or
    (n, t), too. A weight that is one number broadcast stays so where all rows are distinct.
    """
    table = sortable(X)
    others = [column.reshape(len(column), -1) for column in columns]
    columns = [column for part in (*others, table) for column in part.T]
    order, new = _sorted(columns[:1] + [one for one in columns[1:] if not _is_one_number(one)])
    if new.all():
        return order, weight if _is_one_number(weight) else weight[order]
    starts = np.flatnonzero(new)
    return order[starts], np.add.reduceat(weight[order], starts)


def _sorted(columns):
    """Places of rows sorted by the first column, ties by the next; and whether each is a new row.

    The columns are read in blocks, for a copy of all of them may not fit in memory.
    """
    n = len(columns[0])
    order = np.argsort(columns[0], kind="stable")
    if n <= np.iinfo(np.int32).max:
        order = order.astype(np.int32)
    new = np.zeros(n, dtype=bool)
    _sort_ties(columns, order, new)
    return order, new


def _sort_ties(columns, order, new):
    """Sort rows that are sorted by the first column by the others too, and write what is new."""
    first, others, n, start = columns[0], columns[1:], len(order), 0
    while start < n:
        stop = min(start + _AT_ONCE, n)
        values = first[order[start:stop]]
        ends = np.flatnonzero(values[1:] != values[:-1]) + 1
        if stop < n and not len(ends):  # Rows of one value fill the block.
            stop = _end_of(values[0], first, order, stop)
            some = order[start:stop]
            if others:
                some[:] = some[np.argsort(others[0][some], kind="stable")]
                _sort_ties(others, some, new[start:stop])
        else:
            stop = n if stop == n else start + ends[-1]
            some = order[start:stop]
            ends = ends[ends < len(some)]
            if len(ends) == len(some) - 1 or not others:
                new[start + ends] = True
            else:
                places, new[start:stop] = _sorted_few(columns, some)
                some[:] = some[places]
        new[start], start = True, stop


def _sorted_few(columns, some):
    """Sorted places among some rows, and whether each is a new row."""
    for n_columns in (_FEW_COLUMNS, len(columns)):  # Few tell rows of real numbers apart.
        table = np.array([column[some] for column in columns[:n_columns]])
        places = np.lexsort(table[::-1])
        table = table[:, places]
        new = np.append(True, (table[:, 1:] != table[:, :-1]).any(axis=0))
        if new.all():
            break
    return places, new


def _end_of(value, column, order, start):
    """The first place from ``start`` on, in sorted order, where a column has another value."""
    stop = len(order)
    while start < stop:
        middle = (start + stop) // 2
        if column[order[middle]] == value:
            start = middle + 1
        else:
            stop = middle
    return start


def _is_one_number(weight):
    return weight.strides == (0,)


def stratified_sample(weight, n, rng):
    """Places of rows drawn one from each of n equal strata of the total weight, and how often.

    A row of weight 2 and two copies of it are the same to the draw, and sorted rows are all
    represented.
    """
    at = np.arange(n) + rng.random(n)
    if _is_one_number(weight):
        chosen = (at * (len(weight) / n)).astype(int)
    else:
        ends = np.cumsum(weight)
        chosen = np.searchsorted(ends, at * (ends[-1] / n), side="right")
    return np.unique(np.minimum(chosen, len(weight) - 1), return_counts=True)


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype == np.float64:
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)
