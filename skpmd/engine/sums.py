"""Sums over batches of rows, taken where the rows are.

Batches are gone through one by one, unless they say themselves how to add up: what has
``total(function, add)`` ships ``function``, which takes a sequence of batches, to the data, and
adds the results up there. Everything a function needs goes with it, so it is a bound method, or a
`functools.partial` of one, and can be pickled.
"""

from functools import partial
from operator import add

import numpy as np


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
