"""Where batches come from: rows of arrays in memory."""

import numpy as np

from skpmd.engine.model import Batch

_AUTO_BATCH, _FEW_COLUMNS = 1000, 2


class Rows:
    """Weighted rows of an array, cut into batches of nearly equal size.

    Rows of weight zero are left out, so that weight zero is the same as absence. X is an array or
    CSR matrix of shape (n, p); y has the shape (n,) or (n, t), or is None; ``weight`` has the shape
    (n,), and None is one each. ``batch_size`` is the number of rows in a batch, ``"auto"``
    min(n, 1000).
    """

    def __init__(self, X, y, weight, batch_size):
        if weight is None:
            weight = np.ones(X.shape[0])
        elif not weight.all():
            if not weight.any():
                raise ValueError("sample_weight is zero for every row: there are no data to fit.")
            kept = weight > 0
            X, y, weight = X[kept], None if y is None else y[kept], weight[kept]
        self.data = Batch(X, y, weight)
        self.total = float(weight.sum())
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        self.n_batches = -(-len(weight) // size)

    def whole(self):
        """All data once, in order, as a list of batches (views)."""
        edges = self._edges()
        return [self._take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness.
        """
        n = len(self.data.weight)
        if self.n_batches == 1 and sampling == "epoch":
            yield self.data
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

    def _take(self, rows):
        X, y, weight = self.data
        return Batch(X[rows], None if y is None else y[rows], weight[rows])


def merged(weight, X, *columns):
    """Places of the distinct rows, in sorted order, and the total weight of each.

    ``weight`` has the shape (n,) and X (n, p). Rows have to agree in ``columns``, of shape (n,) or
    (n, t), too.
    """
    table = sortable(X)
    others = [column.reshape(len(column), -1) for column in columns]
    n_all = table.shape[1] + sum(column.shape[1] for column in others)
    for n_columns in (_FEW_COLUMNS, n_all):  # Few tell rows of real numbers apart.
        some = np.hstack([part[:, :n_columns] for part in (*others, table)])[:, :n_columns]
        order = np.lexsort(some.T[::-1])
        some = some[order]
        new = np.append(True, (some[1:] != some[:-1]).any(axis=1))
        if new.all():
            break
    starts = np.flatnonzero(new)
    return order[starts], np.add.reduceat(weight[order], starts)


def stratified_sample(weight, n, rng):
    """Places of rows drawn one from each of n equal strata of the total weight, and how often.

    A row of weight 2 and two copies of it are the same to the draw, and sorted rows are all
    represented.
    """
    ends = np.cumsum(weight)
    at = (np.arange(n) + rng.random(n)) * (ends[-1] / n)
    chosen = np.minimum(np.searchsorted(ends, at, side="right"), len(weight) - 1)
    return np.unique(chosen, return_counts=True)


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype == np.float64:
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)
