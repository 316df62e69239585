"""Data in blocks become what a fit reads: a first pass over them, and parts of them for streams."""

import inspect
from functools import wraps
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import _get_feature_names

from skpmd._base.blocks import Block
from skpmd._base.dask_table import DaskBlocks, DaskTable
from skpmd._base.rows import group_size
from skpmd._base.sources import blocks_of, values_of
from skpmd._base.table import BlockTable, as_rows
from skpmd.engine.course import counted, phase

_OF_ROWS = "y", "sample_weight", "noise_variance"  # Arguments that there may be for each row.


def opened(X, y=None, sample_weight=None):
    """X, y and weights: X a `BlockTable` where it is data in blocks, else all as they are given.

    Blocks are gone through once, and have y and weights, or these are given for all rows.
    """
    blocks = None if isinstance(X, BlockTable) else blocks_of(X)
    if blocks is None:
        return X, y, sample_weight
    scan = _scanned(blocks)
    if not scan.n:
        raise ValueError("The blocks of X have no rows: give one row or more.")
    given = {"y": values_of("y", y), "sample_weight": values_of("sample_weight", sample_weight)}
    of_blocks = {"y": scan.joined("y"), "sample_weight": scan.joined("weight")}
    for name, values in given.items():
        if values is not None and of_blocks[name] is not None:
            raise ValueError(f"{name} is given, and in the blocks of X too: leave one of them out.")
    table = (DaskTable if isinstance(blocks, DaskBlocks) else BlockTable)(blocks, scan)
    rest = [given[name] if values is None else values for name, values in of_blocks.items()]
    return (table, *rest)


def refuse_rows_in_blocks(X, name):
    """ValueError where X has more rows than are held in memory, and the estimator needs them."""
    if isinstance(X, BlockTable) and X.array is None:
        raise ValueError(
            f"fit of {name} needs all rows in memory, and the blocks of X have {len(X)} rows: call "
            "partial_fit with them."
        )


def in_parts(partial_fit):
    """Decorator of ``partial_fit``: of data in blocks it takes as many rows as fit in memory.

    Any argument that there is for each row is cut with them. If one part fails, none is taken in.
    """
    signature = inspect.signature(partial_fit)

    @wraps(partial_fit)
    def called(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        X = given.get("X")
        blocks = X if isinstance(X, BlockTable) else blocks_of(X)
        if blocks is None:
            return partial_fit(self, *args, **kwargs)
        rest = {**{name: one for name, one in given.items() if name != "self"}, "X": blocks}
        with self._all_or_nothing():
            of_rows = [rest.get(name) for name in ("X", "y", "sample_weight")]
            X, y, weight = opened(*of_rows)
            rest.update(X=X, y=y, sample_weight=weight)
            known = {name: one for name, one in rest.items() if one is not None}
            if X.array is not None:
                return partial_fit(self, **known)
            of_rows = _for_each_row(known, len(X))
            self._protect_state()
            for rows in counted(gen_batches(len(X), group_size(X)), "parts of the rows"):
                part = {name: one[rows] for name, one in of_rows.items()}
                if not _counts_for_nothing(part, of_rows):
                    partial_fit(self, **{**known, **part, "X": X.part(rows)})
        return self

    return called


def _for_each_row(known, n):
    """The arguments that have a value for each of n rows; a number that stands for all is none."""
    found = {name: values_of(name, known[name]) for name in _OF_ROWS if name in known}
    found = {name: values for name, values in found.items() if np.ndim(values)}
    for name, values in found.items():
        if len(values) != n:
            raise ValueError(
                f"{name} has {len(values)} values, and X has {n} rows: give one for each row."
            )
    return found


def _counts_for_nothing(part, of_rows):
    """Whether all weights of a part are zero, where not all of them are."""
    weight = part.get("sample_weight")
    return weight is not None and not np.any(weight) and np.any(of_rows["sample_weight"])


def table_of_one(block):
    """A block as a table whose rows are in memory, however many."""
    scan, rows = _Scan(), as_rows(block.X)
    scan.add(_summary(rows, block))
    scan.rows = [rows]
    return BlockTable([block], scan)


def _scanned(blocks):
    """What there is to know of all blocks; their rows too while they are few."""
    scan, name = _Scan(), "first pass over the blocks"
    if isinstance(blocks, DaskBlocks):
        with phase(name):
            for found in blocks.each(_summary_of_rows):
                scan.add(found)
            if 0 < scan.n <= group_size(scan):
                scan.rows = blocks.each(as_rows)
        return scan
    scan.rows = []
    for block in counted(blocks, name):
        rows = as_rows(block.X)
        scan.add(_summary(rows, block))
        if scan.rows is not None:
            scan.rows = [*scan.rows, rows] if scan.n <= group_size(scan) else None
    return scan


class _Summary(NamedTuple):
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


def _summary_of_rows(X):
    return _summary(as_rows(X), Block(X))


def _summary(rows, block):
    """`_Summary` in the rows of a block, which are floats."""
    is_sparse, low, high = sparse.issparse(rows), np.inf, -np.inf
    values = rows.data if is_sparse else rows
    with np.errstate(all="ignore"):
        is_number = not np.isnan(values.sum())
    # Where it is none, there may be infinite numbers of both signs.
    has_missing = not is_number and bool(np.isnan(values).any())
    if is_sparse:
        low = high = 0.0
    return _Summary(
        rows.shape, rows.dtype, is_sparse, _names_of(block),
        float(np.fmin.reduce(values, axis=None, initial=low)),
        float(np.fmax.reduce(values, axis=None, initial=high)),
        has_missing, block.y, block.weight,
    )  # fmt: skip


class _Scan:
    """What the first pass over blocks learns; the rows themselves where they are few."""

    def __init__(self):
        self.ends, self.n, self.p, self.dtype, self.names = [], 0, None, None, None
        self.low, self.high, self.has_missing, self.is_sparse = np.inf, -np.inf, False, False
        self.rows, self._others = None, {"y": [], "weight": []}

    @property
    def shape(self):
        """Numbers of rows and of columns."""
        return self.n, self.p

    def add(self, found):
        """Take in what was found in a further block."""
        place, (n, p) = len(self.ends), found.shape
        if self.p is None:
            self.names, self.dtype = found.names, found.dtype
            self.p, self.is_sparse = p, found.is_sparse
        if (p, found.is_sparse) != (self.p, self.is_sparse):
            kinds = "dense", "sparse"
            raise ValueError(
                f"Block {place} of X is {kinds[found.is_sparse]} with {p} columns, and the first "
                f"one is {kinds[self.is_sparse]} with {self.p}: make them alike."
            )
        if not np.array_equal(found.names, self.names):
            raise ValueError(f"Block {place} of X has other names of columns than the first one.")
        self.dtype = np.promote_types(self.dtype, found.dtype)
        self.n += n
        self.ends.append(self.n)
        self.low, self.high = min(self.low, found.low), max(self.high, found.high)
        self.has_missing = self.has_missing or found.has_missing
        for name, parts in self._others.items():
            parts.append(_column(getattr(found, name), name, n, place))

    def joined(self, name):
        """y or weights of all rows; None where no block has them."""
        parts = self._others[name]
        known = [part is not None for part in parts]
        if not any(known):
            return None
        if not all(known):
            raise ValueError(f"Block {known.index(False)} has no {name}, and others have one.")
        return np.concatenate(parts)


def _names_of(block):
    return _get_feature_names(block.X) if block.names is None else block.names


def _column(values, name, n, place):
    """A block's y or weights, as an array of n rows; None stays None."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"Block {place} has {n} rows of X and {name} of the shape {values.shape}: it needs one "
            "for each row."
        )
    return values
