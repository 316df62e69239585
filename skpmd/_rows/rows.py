"""Where batches come from: the rows of a fit with their columns, and the batches of passes."""

from functools import partial
from itertools import pairwise

import numpy as np

from skpmd._rows.order import block_size, in_random_order
from skpmd._rows.table import is_in_memory
from skpmd.engine.model import Batch, take_rows
from skpmd.engine.sums import are_elsewhere

_AUTO_BATCH = 1000


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
        self.total = float(weight.sum())
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
        batches = self._in_order(self._edges())
        return list(batches) if is_in_memory(self.data.X) else batches

    def one_pass(self, sampling, rng):
        """Batches of one pass: ``"epoch"`` without replacement, ``"replacement"`` with it.

        A single batch is all rows and spends no randomness; of data in blocks it is several.
        """
        X, n = self.data.X, len(self)
        size = block_size(X)
        if self.n_batches == 1 and sampling == "epoch":
            yield self._all() if is_in_memory(X) else self._in_order([*range(0, n, size), n])
            return
        # What is worth it goes to the rows, and the rows come here for the others.
        are_sent = are_elsewhere(X) and n // self.n_batches >= size
        replaces = sampling == "replacement"
        for some, batches in in_random_order(size, np.diff(self._edges()), rng, replaces):
            if are_sent:
                for places in batches:
                    yield self._in_order([*range(0, len(places), size), len(places)], places)
            else:
                # No name holds what has been read, so that no two groups are in memory together.
                yield from self._taken(taking(X, some, self._select), batches)

    def _taken(self, take, batches):
        return (self._batch(take(places), places) for places in batches)

    def _in_order(self, edges, places=None):
        """Batches between edges of all rows, or of those at sorted places; made in their turn."""

        def at(some):
            return some if places is None else places[some]

        def take(some):
            return self.take(at(some))

        def rest(some):
            return self._batch(None, at(some))

        X, weight = self.data.X, self.data.weight
        pairs, weight = list(pairwise(edges)), weight if places is None else weight[places]
        if not are_elsewhere(X):
            return InOrder(take, pairs, weight)
        return Elsewhere(take, pairs, weight, X, rest, self._select, places)

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


class InOrder:
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


class Elsewhere(InOrder):
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

    return function(InOrder(take, list(pairwise([*range(0, n, size), n])), rest.weight))


def taking(X, places, select=take_rows):
    """A function that takes rows of X at some of these places, which a table reads together."""
    if is_in_memory(X):
        return partial(select, X)
    places = np.unique(places)
    rows = X[places]
    return lambda some: rows[np.searchsorted(places, some)]
