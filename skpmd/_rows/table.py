"""Rows of blocks that read as one array, and in which order a pass goes through them.

A pass in random order goes through groups of blocks of consecutive rows. Blocks come in random
order, and the rows of a group are mixed: so data in files are read in pieces, a group of them is
in memory, and rows that are sorted by their label come mixed. The order depends on the number of
rows alone, not on where they are. Up to one group, which is all that most data are, it is a plain
permutation.
"""

import copy
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names

OF_DATES = "Give dates as numbers, such as days since the first: (x - x.min()).dt.days"
# Rows of a block: so many numbers, no more than so many rows, or so many rows that are sparse. A
# group has so many blocks.
_BLOCK_NUMBERS, _MAX_BLOCK, _SPARSE_BLOCK, _GROUP = 1 << 20, 1 << 14, 1 << 11, 32
_WORTH_A_THREAD = 2e-3  # Seconds that a block takes to be read; handing it over takes a twentieth.


def block_size(X):
    """Number of consecutive rows that a pass in random order leaves together."""
    if getattr(X, "is_sparse", False) or sparse.issparse(X):
        return _SPARSE_BLOCK
    n_columns = np.prod(X.shape[1:], dtype=int) if hasattr(X, "shape") else 1
    return int(np.clip(_BLOCK_NUMBERS // max(1, n_columns), 1, _MAX_BLOCK))


def group_size(X):
    """Number of rows that such a pass shuffles at a time; tables of no more are in memory."""
    return _GROUP * block_size(X)


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


class ReadAhead:
    """The block that was read last, for any thread, and the one that is asked for after it.

    Blocks are read one at a time, and nobody depends on when: what fails in the thread is read
    again by whoever asks for it, and fails there. Blocks that are quickly read are read when they
    are asked for.
    """

    def __init__(self):
        self._lock, self._last = Lock(), (-1, None)
        self._thread, self._ahead = None, (-1, None)  # A place, and the future of its block.
        self._seconds = 0.0  # That the last block took.

    def block(self, place, read, following=None):
        """``read(place)``, and begin with that of the place that ``following`` is, if any."""
        with self._lock:
            known, rows = self._last
            if known == place:
                return rows
            del rows
            self._last = -1, None  # So that no more than two of them are in memory together.
            rows = self._taken(place)
            if rows is None:
                rows, self._seconds = timed(read, place)
            self._last = place, rows
            if following is not None and self._seconds >= _WORTH_A_THREAD:
                self._thread = self._thread or ThreadPoolExecutor(max_workers=1)
                self._ahead = following, self._thread.submit(timed, read, following)
            return rows

    def follows(self, place):
        """Whether the block that was read last is the one before this."""
        return self._last[0] == place - 1 >= 0

    def _taken(self, place):
        """The rows of a block that has been read ahead; None of another one, and of a failure."""
        (known, future), self._ahead = self._ahead, (-1, None)
        # Another block is waited for too: what is read need not bear two readers.
        if future is None or future.exception() is not None or known != place:
            return None
        rows, self._seconds = future.result()
        return rows

    def __reduce__(self):
        """What is pickled: no block, no lock and no thread."""
        return ReadAhead, ()


def timed(read, place):
    """The rows of a block, and the seconds that they took."""
    start = time.perf_counter()
    rows = read(place)
    return rows, time.perf_counter() - start


class BlockTable:
    """Rows of shape (n, p) that read as slices or places; two blocks are in memory at most.

    ``found`` are the `Summary` of each block. Rows that are as few as a pass in random order has in
    memory anyway are in ``array``, which is None of more. ``low`` and ``high`` are the least and
    the greatest number, 0 included, and ``has_missing`` says whether some are none.
    """

    ndim = 2

    def __init__(self, blocks, found, rows=None):
        self.blocks, self.names, self.is_sparse = blocks, found[0].names, found[0].is_sparse
        self._ends = np.cumsum([one.shape[0] for one in found])  # Of the rows of each block.
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
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if self._places is None and step == 1:
                return self._read(slice(start, max(start, stop)))
            rows = np.arange(start, stop, step)
        rows = np.asarray(rows)
        if rows.dtype == bool:
            return self._left(np.flatnonzero(rows))
        rows = self._at(rows)
        if (rows[1:] >= rows[:-1]).all():
            return self._read(rows)
        places, back = np.unique(rows, return_inverse=True)
        return self._read(places)[back]

    def __array__(self, dtype=None, copy=None):
        """Refuse to read all rows at once."""
        raise TypeError("Data in blocks are not read at once: take some of the rows.")

    def then(self, function):
        """The same table with a function of the rows of each block, row by row, in their place."""
        some = copy.copy(self)
        some.is_sparse = sparse.issparse(function(self[:0]))
        # The reader has rows as they were before.
        some._function, some._reader = partial(_after, self._function, function), ReadAhead()
        return some

    def _left(self, places):
        """The table without all rows but these; as few as are in memory anyway are read."""
        if len(places) <= group_size(self):
            return self[places]
        some = copy.copy(self)
        some._places, some.shape = self._at(places), (len(places), self.shape[1])
        return some

    def _at(self, rows):
        """Places among the rows of all blocks."""
        return rows if self._places is None else self._places[rows]

    def _read(self, rows):
        """Rows of all blocks, by a slice or at sorted places, in one array."""
        cuts = self._cuts(rows)
        some = self._each(cuts, self._following(cuts) if isinstance(rows, slice) else None)
        if len(cuts) < 2 or self.is_sparse:
            return self._joined(list(some))
        out = np.empty((cuts[-1][1].stop, self.shape[1]), self.dtype)
        for (_, own, _), one in zip(cuts, some, strict=True):
            out[own] = one
        return out

    def _cuts(self, rows):
        """(block, slice among these rows, what they are in the block), of each block they are in.

        A slice of a block is a view of its rows.
        """
        edges, is_slice = np.append(0, self._ends), isinstance(rows, slice)
        if is_slice:
            ends = np.clip(edges, rows.start, rows.stop) - rows.start
        else:
            ends = np.searchsorted(rows, edges)
        cuts = []
        for place in np.flatnonzero(np.diff(ends)):
            own, before = slice(*map(int, ends[place : place + 2])), edges[place]
            if is_slice:
                first = int(rows.start - before)
                some = slice(own.start + first, own.stop + first)
            else:
                some = rows[own] - before
            cuts.append((int(place), own, some))
        return cuts

    def _following(self, cuts):
        """The block that is likely to be read after these, where blocks come in order."""
        if not cuts or not (len(cuts) > 1 or self._reader.follows(cuts[0][0])):
            return None
        after = cuts[-1][0] + 1
        return after if after < len(self._ends) else None

    def _each(self, cuts, following):
        """What is taken of each block in turn, while the block after it is read."""
        following = [*(place for place, _, _ in cuts[1:]), following]
        for (place, _, some), then in zip(cuts, following, strict=False):
            ahead = then if self.blocks.reads_by_place else None
            yield self._reader.block(place, self._rows_of, ahead)[some]

    def _joined(self, parts):
        if len(parts) == 1:
            return parts[0].astype(self.dtype, copy=False)
        if self.is_sparse:
            empty = sparse.csr_matrix((0, self.shape[1]), dtype=self.dtype)
            return sparse.vstack([empty, *parts], format="csr", dtype=self.dtype)
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts], dtype=self.dtype)

    def _rows_of(self, place):
        return read_rows(self.blocks[place].X, *self._how(place))

    def _how(self, place):
        """What `read_rows` takes beside a block."""
        n = int(np.diff(self._ends, prepend=0)[place])
        return self._function, self.dtype, place, (n, self.shape[1])


def _as_they_are(rows):
    return rows


def _after(first, second, rows):
    return second(first(rows))


def read_rows(X, function, dtype, place, shape):
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
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    if np.isnan(low):
        low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
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
        rows.shape, rows.dtype, sparse.issparse(rows), column_names_of(block), *limits(rows),
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


def joined_column(found, name):
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


def refuse_dates(name, values):
    """TypeError where an array, or a column of a data frame, holds dates or durations.

    As numbers they would be nano- or microseconds, whichever their type counts.
    """
    of_column = ""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        kinds = zip(values.columns, values.dtypes, strict=True)
        column = next((one for one, dtype in kinds if _is_time(dtype)), None)
        if column is None:
            return
        of_column = f". The first such column of {name} is {column!r}"
    elif not _is_time(getattr(values, "dtype", None)):
        return
    raise TypeError(
        f"{name} cannot be read as an array of numbers: it holds dates or durations{of_column}. "
        f"{OF_DATES}."
    )


def _is_time(dtype):
    """Whether a dtype of NumPy, pandas or Polars is one of dates or durations."""
    if hasattr(dtype, "is_temporal"):
        return dtype.is_temporal()
    return getattr(dtype, "kind", None) in ("m", "M")


def as_rows(X, dtype=(np.float64, np.float32)):
    """A block's rows as an array or a CSR matrix of floats, whatever their values."""
    refuse_dates("X", X)
    try:
        return check_array(
            X, accept_sparse="csr", dtype=dtype, order="C", ensure_all_finite=False,
            ensure_min_samples=0, input_name="X",
        )  # fmt: skip
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"Blocks of X hold numbers alone, and {error}: make numbers of words, and integers of "
            "labels of groups, or fit X in memory (of Dask, X.compute())."
        ) from error


def column_names_of(block):
    """Names of the columns of a block, or None."""
    return _get_feature_names(block.X) if block.names is None else block.names
