"""The rows of a fit with their columns: batches of passes, distinct rows, samples of rows."""

from functools import partial
from itertools import pairwise

import numpy as np
from scipy.sparse import issparse, vstack

from skpmd._rows.table import block_size, in_random_order, is_in_memory
from skpmd._runtime.threads import are_distributed
from skpmd.engine.model import Batch, take_rows

_AUTO_BATCH = 1000
_ROUNDING, _TINY = 1e-12, np.finfo(np.float64).tiny
_MAX_ROWS, _MAX_FRACTION = 1000, 0.2  # At most so many rows, of all rows, are held out.


def ones(X):
    """The weights of rows of X that have none: of a table one number broadcast, without memory."""
    return np.ones(X.shape[0]) if is_in_memory(X) else np.broadcast_to(1.0, len(X))


class Rows:
    """Weighted rows, cut into batches of nearly equal size.

    Rows of weight zero are left out, so that weight zero is the same as absence. X is an array,
    CSR matrix or `BlockTable` of shape (n, p); y has the shape (n,) or (n, t), or is None;
    ``weight`` has the shape (n,), and None is one each; other ``columns`` of a `Batch` are given by
    their names. ``batch_size`` is the number of rows in a batch, ``"auto"`` min(n, 1000).
    ``select(values, rows)`` takes some rows of a column, by a slice, a mask or places: with another
    one than the default they may be of any kind.
    """

    def __init__(self, X, y, weight, batch_size, select=take_rows, **columns):
        self._select = select
        if weight is None:
            weight = ones(X)
        elif not weight.all():
            if not weight.any():
                raise ValueError("sample_weight is zero for every row: there are no data to fit.")
            left = weight > 0
            X, y, weight = select(X, left), select(y, left), weight[left]
            columns = {name: select(column, left) for name, column in columns.items()}
        self.data = Batch(X, y, weight, **columns)
        self.total, self._views = float(weight.sum()), None
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        self.n_batches = -(-len(weight) // size)

    @classmethod
    def of(cls, batch, batch_size):
        """The rows of one batch, with all of its columns."""
        return cls(batch_size=batch_size, **batch._asdict())

    def __len__(self):
        return len(self.data.weight)

    def take(self, rows):
        """The batch of some rows, by a slice or places."""
        return self._batch(self._select(self.data.X, rows), rows)

    def only(self, mask):
        """The rows that a mask leaves, as `Rows` whose batches are as large."""
        columns = self.data._asdict().items()
        size = -(-len(self) // self.n_batches)
        some = {name: self._select(column, mask) for name, column in columns}
        return Rows(**some, batch_size=size, select=self._select)

    def whole(self):
        """All data once, in order, as a sequence of batches: of an array they are views."""
        if not is_in_memory(self.data.X):
            return self._consecutive(self._edges())
        if self._views is None:
            self._views = list(self._consecutive(self._edges()))
        return self._views

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness; of data in blocks it is several.
        """
        X, n = self.data.X, len(self)
        size = block_size(X)
        if self.n_batches == 1 and sampling == "epoch":
            yield self._all() if is_in_memory(X) else self._consecutive([*range(0, n, size), n])
            return
        # What is worth it goes to the rows, and the rows come here for the others.
        are_sent = are_distributed(X) and n // self.n_batches >= size
        replaces = sampling == "replacement"
        for some, batches in in_random_order(size, np.diff(self._edges()), rng, replaces):
            if are_sent:
                for places in batches:
                    yield self._consecutive([*range(0, len(places), size), len(places)], places)
            else:
                # No name holds what has been read, so that no two groups are in memory together.
                yield from self._taken(taking(X, some, self._select), batches)

    def _taken(self, take, batches):
        return (self._batch(take(places), places) for places in batches)

    def _consecutive(self, edges, places=None):
        """Batches between edges of all rows, or of those at sorted places; made in their turn."""

        def at(some):
            return some if places is None else places[some]

        def take(some):
            return self.take(at(some))

        def rest(some):
            return self._batch(None, at(some))

        X, weight = self.data.X, self.data.weight
        pairs, weight = list(pairwise(edges)), weight if places is None else weight[places]
        if not are_distributed(X):
            return ConsecutiveBatches(take, pairs, weight)
        return DistributedBatches(take, pairs, weight, X, rest, self._select, places)

    def _edges(self):
        return np.linspace(0, len(self), self.n_batches + 1).astype(int)

    def _all(self):
        return self.data

    def _batch(self, X, rows):
        """The batch of some rows, whose features are X; weights of a table may be broadcast."""
        batch = self.data._replace(X=None).take(rows, self._select)._replace(X=X)
        if is_in_memory(self.data.X):
            return batch
        return batch._replace(weight=np.ascontiguousarray(batch.weight))


def are_in_memory(batches):
    """Whether batches are in memory, and not made anew whenever they are gone through."""
    return getattr(batches, "are_in_memory", True)


class ConsecutiveBatches:
    """Batches of consecutive rows, made when they are asked for.

    ``take(rows)`` makes a batch of a slice, ``edges`` are pairs of places, and ``weight`` is that
    of all rows.
    """

    are_in_memory = False

    def __init__(self, take, edges, weight):
        self._take, self._edges, self.weight = take, edges, weight

    def __len__(self):
        return len(self._edges)

    @property
    def n_rows(self):
        """Number of all rows."""
        return len(self.weight)

    def __getitem__(self, i):
        return self._take(slice(*self._edges[i]))


class DistributedBatches(ConsecutiveBatches):
    """The same of rows on other machines: sums over them are made there, and added up.

    ``rest(rows)`` is the batch of a slice without its X, which ``table`` has, and
    ``select(values, rows)`` takes some rows of its columns. ``places`` are those of the rows among
    the rows of the table, sorted; None is all of them.
    """

    def __init__(self, take, edges, weight, table, rest, select, places=None):
        super().__init__(take, edges, weight)
        self._table, self._rest, self._select, self._places = table, rest, select, places
        self._sent = None

    def total(self, function, add):
        """The sum of a function of batches, made where they are."""
        if self._sent is None:
            self._sent = self._table.sent(self._rest, self._places)
        size = max(stop - start for start, stop in self._edges)
        of_block = partial(_of_block, function, self._select, size)
        return self._table.total(of_block, add, self._sent, self._places)


def _of_block(function, select, size, X, rest):
    """A function of the batches that rows and the rest of them are cut into."""
    n = len(rest.weight)

    def take(some):
        return rest._replace(X=X).take(some, select)

    return function(ConsecutiveBatches(take, list(pairwise([*range(0, n, size), n])), rest.weight))


def taking(X, places, select=take_rows):
    """A function that takes rows of X at some of these places, which a table reads together."""
    if is_in_memory(X):
        return partial(select, X)
    places = np.unique(places)
    rows = X[places]
    return lambda some: rows[np.searchsorted(places, some)]


def merge_copies(weight, X, *columns):
    """Places of the distinct rows, in sorted order, and the total weight of each.

    ``weight`` has the shape (n,) and X (n, p). Rows have to agree in ``columns``, of shape (n,) or
    (n, t), too. A weight that is one number broadcast stays so where all rows are distinct.
    """
    parts = [column.reshape(len(column), -1) for column in (*columns, sortable(X))]
    first, *others = [column for part in parts for column in part.T]
    order = np.argsort(first, kind="stable")
    if len(order) <= np.iinfo(np.int32).max:
        order = order.astype(np.int32)  # Half the memory.
    new = _differs(first, order)
    for column in others:
        # Rows that follow an equal one, and the one before: few columns leave none.
        tied = np.flatnonzero(~new | ~np.append(new[1:], True))
        if not len(tied):
            break
        if _is_one_number(column):
            continue
        groups = np.cumsum(new[tied])
        some = order[tied]
        some = some[np.lexsort([column[some], groups])]
        order[tied] = some
        new[tied] |= _differs(column, some)
    if new.all():
        return order, weight if _is_one_number(weight) else weight[order]
    starts = np.flatnonzero(new)
    return order[starts], np.add.reduceat(weight[order], starts)


def _differs(column, order):
    """Whether each row, in this order, has another value than the one before it."""
    values = column[order]
    return np.append(True, values[1:] != values[:-1])


def taken(rows, places):
    """Some rows of any record of columns, by a slice, a mask or places."""
    return type(rows)(*(take_rows(column, places) for column in rows))


def stacked_rows(first, second, shift=None):
    """The rows of two records of columns as one; dense where one is, less the ``shift`` of sparse.

    X is the first of the columns.
    """
    X = first.X, second.X
    if all(map(issparse, X)):
        both = vstack(X, format="csr")
    else:
        shift = 0.0 if shift is None else shift
        both = np.concatenate([one.toarray() - shift if issparse(one) else one for one in X])
    others = zip(first[1:], second[1:], strict=True)
    others = (None if pair[0] is None else np.concatenate(pair) for pair in others)
    return type(first)(both, *others)


def without_copies(rows):
    """The distinct rows of a record of columns, sorted, and the places of their first copies."""
    others = rows._replace(X=None, weight=None)
    columns = [column for column in others if column is not None]
    places, weight = merge_copies(rows.weight, rows.X, *columns)
    return taken(rows, places)._replace(weight=weight), places


def numbers_of_rows(X):
    """How many numbers each row takes, (n,): those that are stored of a sparse one."""
    return np.diff(X.indptr) if issparse(X) else np.broadcast_to(X.shape[1], X.shape[0])


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
    if X.dtype.kind == "f":
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)


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
    return rows.only(~last), rows.only(last)
