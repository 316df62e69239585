"""Data that come in blocks, which `fit` takes in place of an array that does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

PROTOCOL = (
    "give skpmd.data.Blocks of a sequence whose items, X, (X, y) or (X, y, sample_weight), can be "
    "read again and again"
)
_NUMBERS_AT_ONCE = 1 << 20  # Of a file that is cut where nothing says where.


class Block(NamedTuple):
    """Rows that are stored together: X of shape (n, p), and y and weights of the shape (n, ...)."""

    X: object  # An array, CSR matrix or table.
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    names: np.ndarray | None = None  # Of the columns, where X itself does not know them.


class Items(Protocol):
    """What has parts that are read by their place."""

    def __len__(self) -> int: ...  # noqa: D105
    def __getitem__(self, i: int, /) -> Any: ...  # noqa: D105


class Blocks:
    """Rows in blocks, of which ``fit`` and ``partial_fit`` have a few in memory at a time.

    Blocks may have any numbers of rows: neither batches nor sums depend on where the rows are cut,
    and the same rows in one array have the same posterior.

    Parameters
    ----------
    items : sequence, iterable, or callable
        What has ``__len__`` and ``__getitem__`` is read by places. What has ``__iter__`` only, or a
        callable that returns an iterator, is read from its beginning, and a pass in random order
        then reads it more than once. An item is X, (X, y), or (X, y, sample_weight), with X an
        array, a CSR matrix or a data frame of shape (n_rows, n_features) and y of shape (n_rows,)
        or (n_rows, n_targets). It has to be the same each time.

    Raises
    ------
    TypeError
        If the items can be read only once, as those of a generator can.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianMixturePMD
    >>> from skpmd.data import Blocks
    >>> rng = np.random.default_rng(0)
    >>> parts = [rng.normal(size=(50, 2)) + 9 * (i % 2) for i in range(4)]
    >>> GaussianMixturePMD(2, random_state=0).fit(Blocks(parts)).weights_.round(1)
    array([0.5, 0.5])
    """

    def __init__(self, items: Items | Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        kind = type(items).__name__
        if hasattr(items, "__next__"):
            raise TypeError(
                f"items is a {kind}, which can be read only once, and fit reads it several times: "
                f"{PROTOCOL}, or call partial_fit with each of them."
            )
        self.reads_by_place = hasattr(items, "__len__") and hasattr(items, "__getitem__")
        if not (self.reads_by_place or hasattr(items, "__iter__") or callable(items)):
            raise TypeError(f"items is a {kind}, which has no items: {PROTOCOL}.")
        self.items, self._iterator, self._place = items, None, 0

    def __iter__(self):
        """Read all blocks in order, each a `Block`."""
        if self.reads_by_place:
            return (as_block(self.items[i]) for i in range(len(self.items)))
        return map(as_block, self.items() if callable(self.items) else self.items)

    def __getitem__(self, i):
        """Read the `Block` at place i, of which there must be one."""
        if self.reads_by_place:
            return as_block(self.items[i])
        if self._iterator is None or self._place > i:
            self._iterator, self._place = iter(self), 0
        for block in self._iterator:
            self._place += 1
            if self._place > i:
                return block
        self._iterator = None
        raise ValueError(f"The blocks are fewer than when they were read first: no {i}.")

    def __getstate__(self):
        """What is pickled: an iterator cannot be."""
        return {**vars(self), "_iterator": None, "_place": 0}


def as_block(item):
    """The `Block` that an item is: X, (X, y) or (X, y, sample_weight)."""
    if isinstance(item, Block):
        return item
    if not isinstance(item, tuple):
        return Block(item)
    if not 1 <= len(item) <= 3:
        raise ValueError(
            f"An item of Blocks must be X, (X, y) or (X, y, sample_weight), got {len(item)} things."
        )
    return Block(*item)


def of_file(X):
    """The `Blocks` of a memory-mapped file of other numbers than floats in C order."""
    size = max(1, _NUMBERS_AT_ONCE // max(1, X.shape[1]))
    starts = range(0, len(X), size)
    return Blocks(Parts(starts, lambda start: np.array(X[start : start + size], order="C")))


class Parts:
    """Items that a function reads, one of each place, when they are asked for."""

    def __init__(self, places, read):
        self._places, self._read = places, read

    def __len__(self):
        return len(self._places)

    def __getitem__(self, i):
        return self._read(self._places[i])
