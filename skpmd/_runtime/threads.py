"""Work in parts: threads that divide it, and sums over batches that are taken where the rows are.

No result depends on how many threads there are.

`threads` lends some to whatever is called within its context. There the items of `each` and of
`in_order` are taken by whichever thread is free, and their results are handed back in the order of
the items: sums over them have the same bits however many threads there are, as long as the items do
not depend on it. Without such a context, and for a single item, nothing but a loop is run.

Items are worth a thread if they take half a millisecond or more, nearly all of it in compiled code
that releases Python's lock: matrix products, NumPy's functions of large arrays, and kernels with
``nogil=True``. Threads of BLAS, Numba and OpenMP are left as they are. (joblib's threads take 1.4
to 1.7 times as long for batches of 64 documents, 50 topics and 4 particles, and 5 times for a
single particle.)

Batches are gone through one by one, unless they say themselves how to add up: what has
``total(function, add)`` ships ``function``, which takes a sequence of batches, to the data, and
adds the results up there. Everything a function needs goes with it, so it is a bound method, or a
`functools.partial` of one, and can be pickled.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import islice
from operator import add
from time import perf_counter
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from skpmd._runtime.call import show_work, tick

_WORTH = 5e-4  # Seconds that an item of several in order takes, if it is worth a thread.
_PATIENCE = 1.0  # Seconds after which one that waits for others shows that work goes on.
_AT_ONCE = 8  # Of results that are summed up, each thread makes so many before the sum goes on.


class _Workers(NamedTuple):
    """Threads at hand: the caller's own, and those of the pool."""

    n: int
    pool: ThreadPoolExecutor | None
    seconds: dict  # That an item of a function took when it was last called.


_ALONE = _Workers(1, None, {})
_workers = ContextVar("threads of skpmd", default=_ALONE)


@contextmanager
def threads(n_jobs):
    """Lend threads, in the sense of joblib's ``n_jobs``, for as long as the context lasts."""
    n = effective_n_jobs(n_jobs)
    # The caller does a part itself. No thread is started before there is something to do.
    pool = ThreadPoolExecutor(n - 1) if n > 1 else None
    token = _workers.set(_Workers(n, pool, {}))
    try:
        yield
    finally:
        _workers.reset(token)
        if pool is not None:
            pool.shutdown()


def n_threads():
    """How many threads there are, the caller's included."""
    return _workers.get().n


def ranges(n, at_least=1):
    """As many ranges (start, stop) of n things as there are threads, of so many things at least.

    They are for work whose result does not depend on where it is cut.
    """
    n_parts = max(1, min(n_threads(), n // at_least))
    edges = [n * k // n_parts for k in range(n_parts + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True))


def each(function, items, worth=True):
    """Results of a function of each item, in their order, as a list.

    ``worth`` says whether the items are worth other threads than the caller's. The function may
    itself call `each`: threads that are free help. No thread is at work afterwards, also after an
    error or Ctrl-C, for a rollback must be the last to write.
    """
    items = list(items)
    n, pool, _ = _workers.get()
    n_helpers = min(n, len(items)) - 1 if worth else 0
    if n_helpers < 1:
        return [_of(function, item) for item in items]
    results, left = [None] * len(items), deque(enumerate(items))

    def work():
        try:
            while left:
                try:
                    place, item = left.popleft()
                except IndexError:  # Another thread was faster.
                    break
                results[place] = _of(function, item)
        except BaseException:
            left.clear()  # Nothing new is begun.
            raise

    helpers = [pool.submit(copy_context().run, work) for _ in range(n_helpers)]
    try:
        work()
    finally:
        left.clear()
        # One that no thread has begun is not waited for: all may be busy with what has called us.
        begun = [helper for helper in helpers if not helper.cancel()]
        while wait(begun, _PATIENCE).not_done:
            show_work()
    for helper in begun:
        helper.result()
    return results


def _of(function, item):
    """The function of an item, unless the time of the fit is over."""
    tick()
    return function(item)


def by_rows(function, *arrays, at_least=1):
    """A function of the rows of arrays, each row by itself: its result, or tuple of results.

    A thread takes so many rows at least. NumPy's operations on stacks of matrices, and elementwise
    ones, are such functions; a product of matrices is none, for BLAS rounds by its shape.
    """
    some = ranges(len(arrays[0]), at_least)
    if len(some) == 1:
        return function(*arrays)
    parts = each(lambda ends: function(*(one[slice(*ends)] for one in arrays)), some)
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    return np.concatenate(parts)


def in_order(function, items, at_once=_AT_ONCE):
    """The same one by one, in the order of the items: for sums of more than fits in memory.

    Each thread has ``at_once`` results waiting, at most. Items are timed: where those of the same
    function have taken too little for a thread, the caller does them alone.
    """
    items, n, seconds = iter(items), n_threads(), _workers.get().seconds
    if n == 1:
        for item in items:
            yield _of(function, item)
        return
    known = function.__code__  # What closures of one function share.
    while now := list(islice(items, n * at_once if seconds.get(known, 0.0) >= _WORTH else 1)):
        start = perf_counter()
        results = each(function, now)
        seconds[known] = (perf_counter() - start) * min(n, len(now)) / len(now)
        yield from results


def summed(of, batches, plus, **how):
    """The sum over batches, with ``plus(one, other)``; 0 without any.

    Batches may be made one by one, and not fit in memory together.
    """
    so_far = None
    for part in in_order(of, batches, **how):
        so_far = part if so_far is None else plus(so_far, part)
    return 0 if so_far is None else so_far


# ------------------------------------------------------------------- batches
def are_distributed(batches):
    """Whether batches are best gone through where they are, and not one by one."""
    return callable(getattr(batches, "total", None))


def batches_of(batch):
    """The batches that one of a pass consists of: itself, or several where it is large."""
    return (batch,) if isinstance(batch, tuple) else batch


def total(function, batches, add=add):
    """Sum of ``function(batches)`` over all batches; ``add(one, other)`` makes one of two."""
    return batches.total(function, add) if are_distributed(batches) else function(batches)


def add_up(function, batches, *into):
    """Add to arrays, in place, what ``function(batches, *into)`` adds to them; return them."""
    if not are_distributed(batches):
        function(batches, *into)
        return into
    empty = partial(_from_zero, function, [one.shape for one in into])
    for one, more in zip(into, batches.total(empty, _each_added), strict=True):
        one += more
    return into


def n_rows(batches):
    """Number of rows of all batches, without a look at them where it is known."""
    known = getattr(batches, "n_rows", None)
    return sum(len(batch.weight) for batch in batches) if known is None else known


def _from_zero(function, shapes, batches):
    sums = [np.zeros(shape) for shape in shapes]
    function(batches, *sums)
    return sums


def _each_added(one, other):
    return [a + b for a, b in zip(one, other, strict=True)]
