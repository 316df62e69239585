"""Data in blocks become what a fit reads: a first pass over them, and parts of them for streams."""

import inspect
from functools import wraps

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import _get_feature_names

from skpmd._base.rows import group_size
from skpmd._base.sources import blocks_of
from skpmd._base.table import BlockTable, as_rows
from skpmd.engine.course import counted

_OF_ROWS = "y", "sample_weight", "noise_variance"  # Arguments that there may be for each row.


def opened(X, y=None, sample_weight=None):
    """X, y and weights: X a `BlockTable` where it is data in blocks, else all as they are given.

    Blocks are gone through once, and have y and weights, or these are given for all rows.
    """
    blocks = None if isinstance(X, BlockTable) else blocks_of(X)
    if blocks is None:
        return X, y, sample_weight
    scan = _Scan()
    for block in counted(blocks, "first pass over the blocks"):
        scan.add(block)
    if not scan.n:
        raise ValueError("The blocks of X have no rows: give one row or more.")
    given = {"y": y, "sample_weight": sample_weight}
    of_blocks = {"y": scan.joined("y"), "sample_weight": scan.joined("weight")}
    for name, values in given.items():
        if values is not None and of_blocks[name] is not None:
            raise ValueError(f"{name} is given, and in the blocks of X too: leave one of them out.")
    table = BlockTable(blocks, scan)
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
            self._protect_state()
            for rows in counted(gen_batches(len(X), group_size(X)), "parts of the rows"):
                part = {name: one[rows] for name, one in known.items() if name in _OF_ROWS}
                partial_fit(self, **{**known, **part, "X": X.part(rows)})
        return self

    return called


class _Scan:
    """What the first pass over blocks learns; the rows themselves while they are few."""

    def __init__(self):
        self.ends, self.n, self.p, self.dtype, self.names = [], 0, None, None, None
        self.low, self.high, self.has_missing, self.is_sparse = np.inf, -np.inf, False, False
        self.rows, self._others = [], {"y": [], "weight": []}

    def add(self, block):
        """Learn of a further block."""
        X, place = as_rows(block.X), len(self.ends)
        if self.p is None:
            self.names, self.dtype = _names_of(block), X.dtype
            self.p, self.is_sparse = X.shape[1], sparse.issparse(X)
        if (X.shape[1], sparse.issparse(X)) != (self.p, self.is_sparse):
            kinds = "dense", "sparse"
            raise ValueError(
                f"Block {place} of X is {kinds[sparse.issparse(X)]} with {X.shape[1]} columns, and "
                f"the first one is {kinds[self.is_sparse]} with {self.p}: make them alike."
            )
        if not np.array_equal(_names_of(block), self.names):
            raise ValueError(f"Block {place} of X has other names of columns than the first one.")
        self.dtype = np.promote_types(self.dtype, X.dtype)
        self.n += X.shape[0]
        self.ends.append(self.n)
        self._note_values(X.data if self.is_sparse else X)
        for name, parts in self._others.items():
            parts.append(_column(getattr(block, name), name, X.shape[0], place))
        if self.rows is not None:
            self.rows.append(X)
            if self.n > group_size(X):
                self.rows = None

    def _note_values(self, values):
        with np.errstate(all="ignore"):
            is_number = not np.isnan(values.sum())
        if not is_number:  # There may be none, or infinite numbers of both signs.
            self.has_missing = self.has_missing or bool(np.isnan(values).any())
        default = 0.0 if self.is_sparse else np.inf
        self.low = min(self.low, float(np.fmin.reduce(values, axis=None, initial=default)))
        default = 0.0 if self.is_sparse else -np.inf
        self.high = max(self.high, float(np.fmax.reduce(values, axis=None, initial=default)))

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
