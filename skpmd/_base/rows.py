"""Where batches come from: rows of arrays, and of data that are read a block at a time.

A pass in random order goes through groups of blocks of consecutive rows. Blocks come in random
order, and the rows of a group are mixed: so data in files are read in pieces, a group of them is
in memory, and rows that are sorted by their label come mixed. The order depends on the number of
rows alone, not on where they are. Up to one group, which is all that most data are, it is a plain
permutation.
"""

import numpy as np
from scipy import sparse

from skpmd._base.in_order import Elsewhere, InOrder
from skpmd.engine.model import Batch, take_rows
from skpmd.engine.sums import are_elsewhere

_AUTO_BATCH, _FEW_COLUMNS = 1000, 2
# Rows of a block: so many numbers, no more than so many rows, or so many rows that are sparse. A
# group has so many blocks.
_BLOCK_NUMBERS, _MAX_BLOCK, _SPARSE_BLOCK, _GROUP = 1 << 20, 1 << 14, 1 << 11, 32
_AT_ONCE = 1 << 15  # Rows whose columns are copied at a time to sort them.
_ROUNDING, _TINY = 1e-12, np.finfo(np.float64).tiny


def block_size(X):
    """Number of consecutive rows that a pass in random order leaves together."""
    if getattr(X, "is_sparse", False) or sparse.issparse(X):
        return _SPARSE_BLOCK
    n_columns = np.prod(X.shape[1:], dtype=int) if hasattr(X, "shape") else 1
    return int(np.clip(_BLOCK_NUMBERS // max(1, n_columns), 1, _MAX_BLOCK))


def group_size(X):
    """Number of rows that such a pass shuffles at a time."""
    return _GROUP * block_size(X)


def is_read_in_blocks(X):
    """Whether rows are not in memory: X is a `skpmd._base.table.BlockTable`, or a view of one."""
    return getattr(X, "is_read_in_blocks", False)


class Rows:
    """Weighted rows of an array, cut into batches of nearly equal size.

    Rows of weight zero are left out, so that weight zero is the same as absence. X is an array or
    CSR matrix of shape (n, p); y has the shape (n,) or (n, t), or is None; ``weight`` has the shape
    (n,), and None is one each. ``batch_size`` is the number of rows in a batch, ``"auto"``
    min(n, 1000). ``select(values, rows)`` takes some rows of X or of y, by a slice, a mask or
    places: with another one than the default they may be of any kind. Of an X that is read in
    blocks there are only those rows in memory that are asked for. Other columns of
    `skpmd.engine.model.Batch` are given by their names.
    """

    def __init__(self, X, y, weight, batch_size, select=take_rows, **columns):
        self._select = select
        in_blocks = is_read_in_blocks(X)
        if weight is None:  # One number broadcast takes no memory.
            weight = np.broadcast_to(1.0, len(X)) if in_blocks else np.ones(X.shape[0])
        elif not weight.all():
            if not weight.any():
                raise ValueError("sample_weight is zero for every row: there are no data to fit.")
            kept = weight > 0
            X = X.only(kept) if in_blocks else select(X, kept)
            y, weight = select(y, kept), weight[kept]
            columns = {name: take_rows(column, kept) for name, column in columns.items()}
        self.data = Batch(X, y, weight, **columns)
        self.total = float(weight.sum())
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        self.n_batches = -(-len(weight) // size)

    @classmethod
    def of(cls, batch, batch_size):
        """The rows of one batch, with all of its columns."""
        return cls(batch_size=batch_size, **batch._asdict())

    def whole(self):
        """All data once, in order, as a sequence of batches: of an array they are views."""
        batches = self._in_order()
        return batches if is_read_in_blocks(self.data.X) else list(batches)

    def _in_order(self, edges=None):
        """All rows in order, as batches that are taken when it is their turn."""
        edges = self._edges() if edges is None else edges
        X, weight = self.data.X, self.data.weight
        pairs = list(zip(edges[:-1], edges[1:], strict=True))
        if not are_elsewhere(X):
            return InOrder(self._take, pairs, weight)
        return Elsewhere(self._take, pairs, weight, X, self._rest, self._select)

    def _elsewhere(self, places):
        """The batch of rows at sorted places, whose X stays where it is."""

        def take(some):
            return self._take(places[some])

        def rest(some):
            return self._rest(places[some])

        X, weight = self.data.X, self.data.weight
        edges = np.append(np.arange(0, len(places), block_size(X)), len(places))
        pairs = list(zip(edges[:-1], edges[1:], strict=True))
        return Elsewhere(take, pairs, weight[places], X, rest, self._select, places)

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness; of data in blocks it is several.
        """
        X, n = self.data.X, len(self.data.weight)
        size = block_size(X)
        if self.n_batches == 1 and sampling == "epoch":
            in_blocks = is_read_in_blocks(X)
            yield self._in_order([*range(0, n, size), n]) if in_blocks else self._all()
            return
        # What is worth it goes to the rows, and the rows come here for the others.
        sent = are_elsewhere(X) and n // self.n_batches >= size
        replaces = sampling == "replacement"
        for some, batches in in_random_order(size, np.diff(self._edges()), rng, replaces):
            yield from map(self._elsewhere if sent else self._taking_from(some), batches)

    def _taking_from(self, rows):
        """What takes batches of some of these rows, which are read together if they have to be."""
        X = self.data.X
        if not is_read_in_blocks(X):
            return self._take
        places = np.unique(rows)
        held = X[places]
        return lambda some: self._batch(held[np.searchsorted(places, some)], some)

    def _edges(self):
        return np.linspace(0, len(self.data.weight), self.n_batches + 1).astype(int)

    def _all(self):
        return self.data

    def _rest(self, rows):
        """The batch of some rows without its X."""
        return self._batch(None, rows)

    def _take(self, rows):
        return self._batch(self._select(self.data.X, rows), rows)

    def _batch(self, X, rows):
        """The batch of some rows, whose features are X."""
        batch = self.data._replace(X=None).take(rows, self._select)
        if is_read_in_blocks(self.data.X):  # It may be one number broadcast.
            batch = batch._replace(weight=np.ascontiguousarray(batch.weight))
        return batch._replace(X=X)


def in_random_order(size, sizes, rng, replace=False):
    """Batches of so many rows each (``sizes``), in random order, as sorted places.

    Yields, for each group of blocks of ``size`` rows, the places of all rows that its batches have,
    and those of each batch in a list. With ``replace`` rows of a group are drawn with replacement.
    """
    left, done = np.empty(0, dtype=np.int32), 0
    for group in _groups(int(np.sum(sizes)), size, rng, replace):
        left, start, batches = np.concatenate([left, group]) if len(left) else group, 0, []
        while done < len(sizes) and start + sizes[done] <= len(left):
            batches.append(np.sort(left[start : start + sizes[done]]))
            start, done = start + sizes[done], done + 1
        yield left[:start], batches
        left = left[start:]


def _groups(n, size, rng, replace):
    """Places of the rows of a pass, a group of blocks of ``size`` rows at a time."""
    n_blocks = -(-n // size)
    n_groups = -(-n_blocks // _GROUP)
    if n_groups > 1:
        # A pass draws before its first batch alone, for a fit that was cut off goes on in it.
        rng = np.random.default_rng(rng.integers(2**63))
    blocks = np.arange(n_blocks) if n_groups == 1 else rng.permutation(n_blocks)
    # Half the memory where numbers of rows allow for it.
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    for some in np.array_split(blocks, n_groups):
        places = [np.arange(i * size, min((i + 1) * size, n), dtype=dtype) for i in np.sort(some)]
        places = np.concatenate(places)
        if replace:
            yield places[rng.integers(len(places), size=len(places))]
        else:
            rng.shuffle(places)
            yield places


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
    """Places of rows drawn one from each of n equal strata of the total weight, and their weights.

    Sorted rows are all represented, each in proportion to its weight; the weights returned add up
    to n. A row that weighs as much as a stratum is drawn for certain and counts for what it weighs,
    and no other row is drawn twice (Deville's systematic sampling; Chauvet 2012): pairs of equal
    rows would be evidence that there is hardly any noise.
    """
    if _is_one_number(weight):
        n_rows, unit = len(weight), n / len(weight)
        if unit >= 1.0:
            return np.arange(n_rows), np.full(n_rows, unit)
        edges = np.arange(1, n) / unit
        start = np.floor(edges)
        at = _in_strata((edges - start) * unit, (start + 1.0 - edges) * unit, rng)
        return np.minimum((at / unit).astype(int), n_rows - 1), np.ones(n)
    unit = n / weight.sum()
    heavy = np.flatnonzero(weight * unit >= 1.0)
    if not len(heavy):
        return _light_sample(weight, n, rng), np.ones(n)
    counts = weight[heavy] * unit
    light = np.delete(np.arange(len(weight)), heavy)
    left = n - counts.sum() if len(light) else 0.0
    n_light = int(min(max(1.0, np.floor(left + _ROUNDING * n)), len(light)))
    drawn = light[_light_sample(weight[light], n_light, rng)] if n_light else light
    places = np.concatenate([heavy, drawn])
    counts = np.concatenate([counts, np.full(n_light, max(0.0, left) / max(1, n_light))])
    order = np.argsort(places[counts > 0.0])
    return places[counts > 0.0][order], counts[counts > 0.0][order]


def _light_sample(weight, n, rng):
    """Places of n rows, each of which weighs less than one of n strata of their total weight."""
    ends = np.cumsum(weight)
    unit = n / ends[-1]
    edges = np.arange(1, n) / unit
    across = np.minimum(np.searchsorted(ends, edges, side="right"), len(weight) - 1)
    before = edges - (ends[across] - weight[across])
    at = _in_strata(before * unit, (ends[across] - edges) * unit, rng)
    return np.minimum(np.searchsorted(ends, at / unit, side="right"), len(weight) - 1)


def _in_strata(before, after, rng):
    """A place in each of n strata of length one, (n,), never two in a row that lies across an edge.

    The row at the edge after a stratum has the lengths ``before`` and ``after`` (n - 1,) in the two
    strata. Each place is uniform in its stratum. Where the row has been drawn before the edge it is
    not after it, and else it is so much more often.
    """
    before, after = (np.maximum(one, 0.0) for one in (before, after))
    u = rng.random(len(before) + 1)
    drawn = after + (1.0 - after) * u[1:]  # Where the row has been drawn before.
    share = np.minimum(after / np.maximum(1.0 - before, _TINY), 1.0)
    beyond = np.maximum(u[1:] - share, 0.0) / np.maximum(1.0 - share, _TINY)
    other = np.where(u[1:] < share, u[1:] * (1.0 - before), after + (1.0 - after) * beyond)
    # Whether the row at the next edge is drawn; it depends on the last stratum where either may be.
    edge = 1.0 - np.append(before[1:], 0.0)
    follows, starts = drawn >= edge, other >= edge
    known = np.append(True, follows == starts)
    last = np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
    first = u[0] >= 1.0 - before[0] if len(before) else False
    was_drawn = np.append(first, starts)[last][:-1]
    return np.arange(len(u)) + np.append(u[0], np.where(was_drawn, drawn, other))


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype == np.float64:
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)
