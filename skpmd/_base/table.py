"""Rows of blocks that read as one array: all that the rest sees of where data come from."""

import copy

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _check_y, check_consistent_length

from skpmd._base.read_ahead import ReadAhead


class BlockTable:
    """Rows of shape (n, p) that read as slices, masks or places; two blocks are in memory at most.

    Where all rows are as few as a pass in random order has in memory anyway they are in ``array``,
    which is None of more. ``low`` and ``high`` are the smallest and the largest number, and
    ``has_missing`` says whether some are none.
    """

    ndim, is_read_in_blocks = 2, True

    def __init__(self, blocks, scan):
        self.blocks, self._ends, self.names = blocks, np.array(scan.ends), scan.names
        self.shape, self.dtype, self.is_sparse = (scan.n, scan.p), scan.dtype, scan.is_sparse
        self.low, self.high, self.has_missing = scan.low, scan.high, scan.has_missing
        self._reader = ReadAhead()
        self.array = None if scan.rows is None else self._joined(scan.rows)
        self._places = None  # Of the rows that there are; None of all.
        self._function = _as_they_are

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        if isinstance(rows, slice) and self._places is None:
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._between(start, max(start, stop))
            rows = np.arange(start, stop, step)
        if self._places is not None:
            rows = self._places[rows]
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        if (rows[1:] >= rows[:-1]).all():
            return self._sorted(rows)
        places, back = np.unique(rows, return_inverse=True)
        return self._sorted(places)[back]

    def __array__(self, dtype=None, copy=None):
        """Refuse to read all rows at once."""
        raise TypeError("Data in blocks are not read at once: take some of the rows.")

    def then(self, function, is_sparse):
        """The same table with a function of the rows of each block, row by row, in their place."""
        some = copy.copy(self)
        some._function, some.is_sparse, some._reader = function, is_sparse, ReadAhead()
        if some.array is not None:
            some.array = function(some.array)
        return some

    def part(self, rows):
        """Some rows, by a slice, as a table whose rows are in memory."""
        some = copy.copy(self)
        some.array = self[rows]
        some.shape = some.array.shape
        return some

    def only(self, mask):
        """The same table without the rows where the mask (n,) is False."""
        some = copy.copy(self)
        some._places = np.flatnonzero(mask) if self._places is None else self._places[mask]
        some.shape = len(some._places), self.shape[1]
        return some

    def max(self, initial):
        """Largest number, or ``initial``; nan where there is one."""
        return np.nan if self.has_missing else max(self.high, initial)

    def min(self, initial):
        """Smallest number, or ``initial``; nan where there is one."""
        return np.nan if self.has_missing else min(self.low, initial)

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
        """What is taken of each block, in turn."""
        following = [*(place for place, _ in parts[1:]), following]
        return (self._some(*part, then) for part, then in zip(parts, following, strict=False))

    def _edges(self, place):
        return self._ends[place - 1] if place else 0, self._ends[place]

    def _joined(self, parts):
        if len(parts) == 1:
            return parts[0].astype(self.dtype, copy=False)
        if self.is_sparse:
            empty = sparse.csr_matrix((0, self.shape[1]), dtype=self.dtype)
            return sparse.vstack([empty, *parts], format="csr", dtype=self.dtype)
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts], dtype=self.dtype)

    def _some(self, place, some, following):
        """What is taken of the rows of one block, while ``following`` is read."""
        following = following if self.blocks.reads_by_place else None
        return self._reader.block(place, self._rows_of, following)[some]

    def _rows_of(self, place):
        return rows_of(self.blocks.read(int(place)).X, *self._how(place))

    def _how(self, place):
        """What `rows_of` takes beside a block."""
        before, end = self._edges(place)
        return self._function, self.dtype, place, (int(end - before), self.shape[1])


def _as_they_are(rows):
    return rows


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


def as_rows(X, dtype=(np.float64, np.float32)):
    """A block's rows as an array or a CSR matrix of floats, whatever their values."""
    return check_array(
        X, accept_sparse="csr", dtype=dtype, order="C", ensure_all_finite=False,
        ensure_min_samples=0, input_name="X",
    )  # fmt: skip


def checked_table(X, y="no_validation", *, y_numeric=False, multi_output=False, **how):
    """A `BlockTable`, or the array that it is, and y, checked as ``validate_data`` does it."""
    if X.array is not None:
        rows = check_array(X.array, input_name="X", **how)
    else:
        _check_values(X, how.get("ensure_all_finite", True))
        if X.is_sparse and not how.get("accept_sparse"):
            raise TypeError("Sparse data was passed for X, but dense data is required.")
        rows = X
    if isinstance(y, str) and y == "no_validation":
        return rows
    if y is None:
        raise ValueError("The blocks have no y, and none is given: this estimator requires y.")
    y = _check_y(y, multi_output=multi_output, y_numeric=y_numeric)
    check_consistent_length(X, y)
    return rows, y


def _check_values(X, ensure_all_finite):
    """ValueError where numbers are none or infinite, and have to be."""
    if not ensure_all_finite:
        return
    if X.has_missing and ensure_all_finite is True:
        raise ValueError("Input X contains NaN.")
    if np.isinf([X.low, X.high]).any():
        raise ValueError(f"Input X contains infinity or a value too large for dtype('{X.dtype}').")
