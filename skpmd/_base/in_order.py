"""Batches of consecutive rows: taken when they are asked for, or left where the rows are."""

from functools import partial

from sklearn.utils import gen_batches


class InOrder:
    """Batches of consecutive rows, taken when they are asked for.

    ``take(rows)`` makes a batch of a slice, ``edges`` are pairs of places, and ``weight`` is that
    of all rows.
    """

    is_read_in_blocks = True

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
    """The same of rows that are elsewhere: sums over them are made there, and added up.

    ``rest(rows)`` is the batch of a slice without its X, which ``table`` has, and
    ``select(values, rows)`` takes some rows of its y. ``places`` are those of the rows among the
    rows of the table, sorted; None is all of them.
    """

    def __init__(self, take, edges, weight, table, rest, select, places=None):
        super().__init__(take, edges, weight)
        self._table, self._rest, self._select, self._places = table, rest, select, places
        self._held = None

    def total(self, function, add):
        """The sum of a function of batches, made where they are."""
        if self._held is None:
            self._held = self._table.held(self._rest, self._places)
        size = max(stop - start for start, stop in self._edges)
        of_block = partial(_of_block, function, self._select, size)
        return self._table.total(of_block, add, self._held, self._places)


def _of_block(function, select, size, X, rest):
    """A function of the batches that rows and the rest of them are cut into."""

    def take(some):
        return rest.take(some, select)._replace(X=X[some])

    edges = [(some.start, some.stop) for some in gen_batches(len(rest.weight), size)]
    return function(InOrder(take, edges, rest.weight))
