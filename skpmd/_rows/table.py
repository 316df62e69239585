"""Rows of blocks that read as one array, and the first pass over the blocks, which makes them."""

import copy
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skpmd._rows.blocks import as_rows, names_of
from skpmd._rows.order import group_size
from skpmd._rows.read_ahead import ReadAhead


class BlockTable:
    """Rows of shape (n, p) that read as slices or places; two blocks are in memory at most.

    ``found`` are the `Summary` of each block. Rows that are as few as a pass in random order has in
    memory anyway are in ``array``, which is None of more. ``low`` and ``high`` are the least and
    the greatest number, 0 included, and ``has_missing`` says whether some are none.
    """

    ndim = 2

    def __init__(self, blocks, found, rows=None):
        self.blocks, self.names, self.is_sparse = blocks, found[0].names, found[0].is_sparse
        self._ends = np.cumsum([one.shape[0] for one in found])
        self.shape = int(self._ends[-1]), found[0].shape[1]
        self.dtype = np.result_type(*{one.dtype for one in found})
        self.low, self.high = min(one.low for one in found), max(one.high for one in found)
        self.has_missing = any(one.has_missing for one in found)
        self._reader = ReadAhead()
        self._places = None  # Of the rows that there are; None of all.
        self._function = _as_they_are
        self.array = None if rows is None else self._joined(rows)

    def __len__(self):
        return self.shape[0]

    @property
    def is_in_memory(self):
        """Whether the rows are in ``array``."""
        return self.array is not None

    def __getitem__(self, rows):
        if isinstance(rows, slice) and self._places is None:
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._between(start, max(start, stop))
            rows = np.arange(start, stop, step)
        rows = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        if rows.dtype == bool:
            return self._left(np.flatnonzero(rows))
        rows = rows if self._places is None else self._places[rows]
        if (rows[1:] >= rows[:-1]).all():
            return self._sorted(rows)
        places, back = np.unique(rows, return_inverse=True)
        return self._sorted(places)[back]

    def __array__(self, dtype=None, copy=None):
        """Refuse to read all rows at once."""
        raise TypeError("Data in blocks are not read at once: take some of the rows.")

    def then(self, function):
        """The same table with a function of the rows of each block, row by row, in their place."""
        some = copy.copy(self)
        some.is_sparse = sparse.issparse(function(self[:0]))
        # The reader has rows as they were before.
        some._function, some._reader = partial(_after, self._function, function), ReadAhead()
        if some.array is not None:
            some.array = function(some.array)
        return some

    def part(self, rows):
        """Some rows, by a slice, as a table whose rows are in memory."""
        some = copy.copy(self)
        some.array = self[rows]
        some.shape = some.array.shape
        return some

    def _left(self, places):
        """The table without all rows but these; as few as are in memory anyway are read."""
        if len(places) <= group_size(self):
            return self[places]
        some = copy.copy(self)
        some._places = places if self._places is None else self._places[places]
        some.shape = len(places), self.shape[1]
        return some

    def _between(self, start, stop):
        """Consecutive rows; a view where they are of one block."""
        place, parts = np.searchsorted(self._ends, start, side="right"), []
        in_order = self._reader.follows(place)
        while start < stop:
            before, end = self._edges(place)
            end = min(stop, end)
            if end > start:
                parts.append((place, slice(start - before, end - before)))
            start, place = end, place + 1
        in_order = in_order or len(parts) > 1
        return self._read(parts, place if in_order and place < len(self._ends) else None)

    def _sorted(self, places):
        """Rows at sorted places."""
        which, parts = np.searchsorted(self._ends, places, side="right"), []
        for place in np.unique(which):
            parts.append((place, places[which == place] - self._edges(place)[0]))
        return self._read(parts)

    def _read(self, parts, following=None):
        """Rows of blocks, of pairs of a block and of what is taken of its rows, in one array.

        ``following`` is the block that is likely to be read after them.
        """
        some = self._each(parts, following)
        if len(parts) < 2 or self.is_sparse:
            return self._joined(list(some))
        ends = np.cumsum([_size(one) for _, one in parts])
        rows, start = np.empty((ends[-1], self.shape[1]), self.dtype), 0
        for end, one in zip(ends, some, strict=True):
            rows[start:end], start = one, end
        return rows

    def _each(self, parts, following):
        """What is taken of each block in turn, while the block after it is read."""
        following = [*(place for place, _ in parts[1:]), following]
        for (place, some), then in zip(parts, following, strict=False):
            ahead = then if self.blocks.reads_by_place else None
            yield self._reader.block(place, self._rows_of, ahead)[some]

    def _edges(self, place):
        return self._ends[place - 1] if place else 0, self._ends[place]

    def _joined(self, parts):
        if len(parts) == 1:
            return parts[0].astype(self.dtype, copy=False)
        if self.is_sparse:
            empty = sparse.csr_matrix((0, self.shape[1]), dtype=self.dtype)
            return sparse.vstack([empty, *parts], format="csr", dtype=self.dtype)
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts], dtype=self.dtype)

    def _rows_of(self, place):
        return rows_of(self.blocks[int(place)].X, *self._how(place))

    def _how(self, place):
        """What `rows_of` takes beside a block."""
        before, end = self._edges(place)
        return self._function, self.dtype, place, (int(end - before), self.shape[1])


def _as_they_are(rows):
    return rows


def _after(first, second, rows):
    return second(first(rows))


def _size(some):
    return some.stop - some.start if isinstance(some, slice) else len(some)


def rows_of(X, function, dtype, place, shape):
    """A function of the rows of a block, which has to be of this shape."""
    rows = function(as_rows(X, dtype))
    if rows.shape != shape:
        raise ValueError(
            f"Block {place} of X has the shape {rows.shape}, and had {shape} when it was read "
            "first: blocks have to be the same each time."
        )
    return rows


# ---------------------------------------------------------------------- what all rows can be asked
def is_in_memory(X):
    """Whether all rows of X are at hand together, as only few of a table are."""
    return getattr(X, "is_in_memory", True)


def array_of(X):
    """The array that a table of few rows is; any other X as it is."""
    return X.array if isinstance(X, BlockTable) and X.is_in_memory else X


def need_memory(X, who, remedy):
    """ValueError, with the remedy, where not all rows are in memory, and who works needs them."""
    if not is_in_memory(X):
        raise ValueError(
            f"{who} needs all rows in memory, and the blocks of X have {len(X)} rows: {remedy}."
        )


def mapped(function, X):
    """``function(X)``, which makes a row of each row; of a table whenever its blocks are read."""
    return X.then(function) if isinstance(X, BlockTable) else function(X)


def limits(X):
    """The least and the greatest of the numbers of X and 0; missing ones have no size."""
    if isinstance(X, BlockTable):
        return X.low, X.high
    values = X.data if sparse.issparse(X) else X
    if has_missing(values):
        low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
    else:
        low, high = values.min(initial=0.0), values.max(initial=0.0)
    return float(low), float(high)


def has_missing(X):
    """Whether a number of X is nan, for which no copy is made."""
    if isinstance(X, BlockTable):
        return X.has_missing
    return bool(np.isnan((X.data if sparse.issparse(X) else X).min(initial=0.0)))


# ---------------------------------------------------------------------- the first pass over blocks
class Summary(NamedTuple):
    """What the first pass learns of a block."""

    shape: tuple
    dtype: np.dtype
    is_sparse: bool
    names: np.ndarray | None
    low: float
    high: float
    has_missing: bool
    y: np.ndarray | None
    weight: np.ndarray | None


def summary_of(rows, block):
    """The `Summary` of a block, whose rows are these floats."""
    return Summary(
        rows.shape, rows.dtype, sparse.issparse(rows), names_of(block), *limits(rows),
        has_missing(rows), block.y, block.weight,
    )  # fmt: skip


def table_of_one(block):
    """A block as a table whose rows are in memory, however many."""
    rows = as_rows(block.X)
    return BlockTable([block], [summary_of(rows, block)], [rows])


def are_few(found):
    """Whether blocks of which these are the `Summary` have no more rows than are in memory."""
    return sum(one.shape[0] for one in found) <= group_size(found[0])


def refuse_unlike(found):
    """ValueError where columns of the blocks of each `Summary` are not those of the first."""
    kinds = "dense", "sparse"
    (_, p), is_sparse, names = found[0].shape, found[0].is_sparse, found[0].names
    for place, one in enumerate(found):
        if (one.shape[1], one.is_sparse) != (p, is_sparse):
            raise ValueError(
                f"Block {place} of X is {kinds[one.is_sparse]} with {one.shape[1]} columns, and "
                f"the first one is {kinds[is_sparse]} with {p}: make them alike."
            )
        if not np.array_equal(one.names, names):
            raise ValueError(f"Block {place} of X has other names of columns than the first one.")


def column_of(found, name):
    """y or weights of all rows, of the `Summary` of each block; None where no block has them."""
    parts = [getattr(one, name) for one in found]
    if all(part is None for part in parts):
        return None
    for place, (part, one) in enumerate(zip(parts, found, strict=True)):
        if part is None:
            raise ValueError(f"Block {place} has no {name}, and others have one.")
        if np.ndim(part) == 0 or len(part) != one.shape[0]:
            raise ValueError(
                f"Block {place} has {one.shape[0]} rows of X and {name} of the shape "
                f"{np.shape(part)}: it needs one for each row."
            )
    return np.concatenate([np.asarray(part) for part in parts])
