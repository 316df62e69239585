"""Predictions and scores of data in blocks: each block by itself, for no row depends on others."""

from __future__ import annotations

import inspect
from functools import partial, wraps
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpmd._rows.blocks import as_block
from skpmd._rows.dask_table import DaskBlocks
from skpmd._rows.opening import as_blocks, as_table, is_of_dask
from skpmd._rows.table import is_in_memory, table_of_one
from skpmd._runtime.call import counted

if TYPE_CHECKING:
    from skpmd._typing import Method


def row_by_row(method: Method) -> Method:
    """Decorator of a method of X whose result has a row for each: it takes data in blocks too.

    Of `skpmd.data.Blocks` results are those of all rows in memory; arrays of a collection of Dask
    are lazy arrays of Dask, and what is no array is computed.
    """
    signature = inspect.signature(method)

    @wraps(method)
    def called(self, X, *args, **kwargs):
        blocks = as_blocks(X) if is_in_memory(X) else X.blocks
        if blocks is None:
            return method(self, X, *args, **kwargs)
        if signature.bind(self, X, *args, **kwargs).arguments.get("return_cov"):
            raise ValueError(
                f"return_cov=True is of all rows together, and X is a {type(X).__name__}, of which "
                "one block is in memory at a time: give an array."
            )
        call = partial(_call, method, self, args, kwargs)
        if is_of_dask(X):
            return _of_collection(call, X, blocks)
        return _of_blocks(call, blocks, method.__name__)

    return called


def of_all_rows(score: Method) -> Method:
    """Decorator of ``score(X, y=None, sample_weight=None)``, which takes data in blocks too.

    These may have y and weights.
    """

    @wraps(score)
    def called(self, X=None, y=None, sample_weight=None):
        X, y, sample_weight = as_table(X, y, sample_weight)
        known = {} if sample_weight is None else {"sample_weight": sample_weight}
        return score(self, X, y, **known)

    return called


def _call(method, estimator, args, kwargs, block):
    """A method of one block; None of one without rows."""
    table = table_of_one(as_block(block))
    return method(estimator, table, *args, **kwargs) if len(table) else None


def _of_blocks(call, blocks, name):
    if isinstance(blocks, DaskBlocks):
        parts = blocks.each(call)
    else:
        parts = [call(block) for block in counted(blocks, name)]
    parts = [part for part in parts if part is not None]
    if not parts:
        raise ValueError("The blocks of X have no rows: give one row or more.")
    return _joined(parts)


def _joined(parts):
    """Results of several blocks as one of all rows."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if not isinstance(first, tuple):
        return type(first).joined(parts)
    columns = [_joined(column) for column in zip(*parts, strict=True)]
    return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)


def _of_collection(call, X, blocks):
    """Lazy arrays of a collection's blocks, or what is no array of them at once."""
    import dask.array as da

    example = _expected(call, X, blocks)
    if not (isinstance(example, (np.ndarray, tuple))):
        return _of_blocks(call, blocks, "predictions")
    n_rows = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks.items)
    parts = blocks.later(partial(_or_empty, call, _none_of(example)))

    def array(one, place=None):
        some = [part if place is None else part[place] for part in parts]
        some = [
            da.from_delayed(part, (n, *one.shape[1:]), meta=one[:0])
            for part, n in zip(some, n_rows, strict=True)
        ]
        return da.concatenate(some, allow_unknown_chunksizes=True)

    if isinstance(example, np.ndarray):
        return array(example)
    arrays = [array(one, place) for place, one in enumerate(example)]
    return type(example)(*arrays) if hasattr(example, "_fields") else tuple(arrays)


def _expected(call, X, blocks):
    """The result of a row, which says what there is to expect, and what is wrong with X.

    It is a made-up row, which costs nothing; where that fails it may be for its values, and a row
    of X says.
    """
    try:
        with np.errstate(all="ignore"):
            return call(_example(X))
    except Exception:
        for place in range(len(blocks.items)):
            (row,) = blocks.each(_first, places=[place])
            if row.shape[0] if hasattr(row, "shape") else len(row):
                return call(row)
        raise


def _first(X):
    return X[:1]


def _example(X):
    """A row as those of a collection are."""
    if not hasattr(X, "chunks"):
        return X._meta_nonempty.iloc[:1]
    if X.ndim == 2 and sparse.issparse(X._meta):
        return sparse.csr_matrix((1, X.shape[1]), dtype=X.dtype)
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)


def _none_of(example):
    if isinstance(example, np.ndarray):
        return example[:0]
    return tuple(_none_of(one) for one in example)


def _or_empty(call, empty, block):
    found = call(block)
    return empty if found is None else found
