"""Collections of Dask as data in blocks: what is done with a block is done where it is.

Functions of blocks go to the workers, and so do y and weights of their rows, once; what they return
is added up there, in pairs and in a fixed order. All goes by graphs that Dask can run again, so a
worker that is lost takes nothing along.
"""

import pickle
import warnings
from contextlib import contextmanager
from contextvars import Context
from functools import partial, reduce
from time import monotonic as clock

import numpy as np

from skpmd._rows.blocks import Block, Blocks, Parts
from skpmd._rows.table import BlockTable, read_rows
from skpmd._runtime.call import phase, tick

_FEW = 8  # Results of blocks that are added up, or come here, at a time.
_PATIENCE = 1.0  # Seconds after which a wait for workers looks up.
_SMALL = 1 << 17  # Bytes that go with each task: a task of their own would be another message.


class DaskBlocks(Blocks):
    """The blocks of rows of a `dask.array.Array` or a `dask.dataframe.DataFrame`."""

    def __init__(self, collection):
        chunks = getattr(collection, "chunks", ())
        if len(chunks) == 2 and len(chunks[1]) > 1:
            collection = collection.rechunk({1: -1})
        self._delayed = list(np.ravel(collection.to_delayed()))
        super().__init__(Parts(self._delayed, _read))
        self._collection = collection  # What workers hold of it they hold as long as it is there.

    def each(self, function, *columns, places=None):
        """``function(X, ...)`` of blocks where they are, as a list.

        ``places`` are those of the blocks, by default of all. A column has an argument for each.
        """
        return _computed(self.later(function, *columns, places=places))

    def total(self, function, add, *columns, places):
        """The sum of the same, a few at a time and in their order, the last few here."""
        plus, parts = _task(_sum), self.later(function, *columns, places=places)
        sent = _sent(add)
        while len(parts) > _FEW:
            parts = [plus(sent, *parts[i : i + _FEW]) for i in range(0, len(parts), _FEW)]
        return reduce(add, _computed(parts))

    def later(self, function, *columns, places=None):
        """The same as `each` gives, as values that Dask has not computed yet."""
        call, sent = _task(_called), _sent(function)
        places = range(len(self.items)) if places is None else places
        some = zip(places, *columns, strict=True)
        return [call(sent, self._delayed[i], *arguments) for i, *arguments in some]

    def sent(self, values):
        """Values that go to where the work is done once, for columns of arguments.

        One by one: Dask warns of messages that are large.
        """
        return [_value(one).persist() for one in values]


class DaskTable(BlockTable):
    """The same as a `BlockTable`: rows are selected, and sums over them made, where they are."""

    def sent(self, rest, rows=None):
        """``rest(slice)`` for the rows of each block, which go to where these are.

        ``rows`` are sorted places among the rows of the table; None is all of them.
        """
        return self.blocks.sent([rest(own) for _, own, _ in self._cuts_of(rows)])

    def total(self, function, add, sent, rows=None):
        """The sum of ``function(X, rest)`` over the blocks of these rows, with what was sent."""
        which, _, some = zip(*self._cuts_of(rows), strict=True)
        how = [self._how(place) for place in which]
        return self.blocks.total(partial(_with_rest, function), add, how, some, sent, places=which)

    def _cuts_of(self, rows):
        if rows is None:
            rows = slice(0, len(self)) if self._places is None else np.arange(len(self))
        return self._cuts(rows if isinstance(rows, slice) else self._at(rows))

    def _each(self, cuts, following):
        """A few at a time, so that no more than these are here twice."""
        for start in range(0, len(cuts), _FEW):
            which, _, some = zip(*cuts[start : start + _FEW], strict=True)
            how = [self._how(place) for place in which]
            yield from self.blocks.each(_taken, how, some, places=which)


def _read(delayed):
    return Block(delayed.compute())


def _sent(function):
    """A function as it is sent: with each task, or a large one once for all tasks of a worker."""
    import cloudpickle  # Dask needs it itself.

    sent = cloudpickle.dumps((function, np.geterr()))
    return sent if len(sent) <= _SMALL else _value(sent)


def _called(sent, *arguments):
    """The function of what it is given: whose call and threads there are is not its affair.

    They are there where Dask has no worker of its own. What becomes of overflows is as here.
    """
    function, errors = pickle.loads(sent)

    def called():
        with np.errstate(**errors):
            return function(*arguments)

    return Context().run(called)


def _sum(sent, *parts):
    add, _ = pickle.loads(sent)
    return reduce(add, parts)


def _taken(X, how, some):
    """Some rows of a block, as a table reads them."""
    return read_rows(X, *how)[some]


def _with_rest(function, X, how, some, rest):
    return function(_taken(X, how, some), rest)


def _computed(parts):
    """The results as a list; while workers compute them it shows, and time may end it."""
    import dask
    from dask.base import get_scheduler

    client = getattr(get_scheduler(), "__self__", None)
    if not hasattr(client, "gather"):  # Dask has no workers, and computes them here.
        return list(dask.compute(*parts))
    futures = client.compute(parts)
    with client.as_current(), _no_task():
        n_done = _n_done(futures)
        if not (n_done or client.nthreads()):
            text = "The cluster of Dask has no workers: nothing is done until some come."
            warnings.warn(text, stacklevel=2)
        if n_done < len(futures):
            with phase("pass over the blocks", len(futures)) as advance:
                advance(n_done)
                while n_done < len(futures):
                    now = _n_done(futures)
                    advance(now - n_done)
                    n_done = now
                    tick()
        return client.gather(futures)


def _n_done(futures):
    """How many of them are, after a wait for all that is not long; one that has failed ends it."""
    from distributed import wait

    start = clock()
    try:
        wait(futures, _PATIENCE)
    except TimeoutError:
        if clock() - start < _PATIENCE:  # Somebody else's, from a handler of signals.
            raise
    if any(future.status == "error" for future in futures):
        return len(futures)
    return sum(future.done() for future in futures)


@contextmanager
def _no_task():
    """Leave the place of a task, where this is one, to those that it waits for."""
    from distributed import rejoin, secede

    try:
        secede()
    except (ValueError, KeyError):  # There is no task here, or one that has left its place already.
        yield
        return
    except AttributeError as error:
        raise RuntimeError(
            "A fit of a collection of Dask in a task of its own workers, as joblib's Dask backend "
            "makes them, waits for blocks in threads that cannot leave their place: set n_jobs=1 "
            "of the estimator."
        ) from error
    try:
        yield
    finally:
        rejoin()


def _value(value):
    import dask

    return dask.delayed(value, traverse=False)


def _task(function):
    import dask

    return dask.delayed(function, traverse=False, pure=False)
