"""What a user hands over becomes what a fit reads, and parts of it what a stream reads."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np

from skpmd._rows.arrow import ArrowBlocks
from skpmd._rows.blocks import Block, Blocks, of_file
from skpmd._rows.dask_table import DaskBlocks, DaskTable
from skpmd._rows.table import (
    BlockTable,
    are_few,
    as_rows,
    group_size,
    is_in_memory,
    joined_column,
    refuse_unlike,
    summary_of,
    table_of_one,
)
from skpmd._runtime.call import counted, phase

if TYPE_CHECKING:
    from skpmd._typing import Method

_OF_ROWS = "y", "sample_weight", "noise_variance"  # Arguments that there may be for each row.


def is_of_dask(value):
    """Whether a value is an array or a data frame of Dask, which need not be installed."""
    # Any attribute of what is merely delayed is another delayed value.
    return all(hasattr(type(value), name) for name in ("__dask_graph__", "to_delayed"))


def refuse_delayed(name, value):
    """TypeError of a value that Dask has not computed and of which no shape is known."""
    if hasattr(type(value), "__dask_graph__") and not is_of_dask(value):
        raise TypeError(
            f"{name} is {type(value).__name__} of Dask, and its shape is not known: give a "
            "dask.array.from_delayed(...) of it with its shape, or what its compute() returns."
        )


def as_blocks(X):
    """The `Blocks` that X is; None of what scikit-learn makes an array of."""
    if isinstance(X, Blocks):
        return X
    if is_of_dask(X):
        return DaskBlocks(X)
    refuse_delayed("X", X)
    library, kind = type(X).__module__.partition(".")[0], type(X).__name__
    if library == "pyarrow" and kind in ("Table", "RecordBatch") or hasattr(X, "get_fragments"):
        return ArrowBlocks(X)
    if isinstance(X, np.memmap) and X.ndim == 2:
        is_read_as_it_is = X.dtype in (np.float64, np.float32) and X.flags.c_contiguous
        return None if is_read_as_it_is else of_file(X)
    return None


def computed(name, values):
    """y or weights of all rows: computed where they are a collection of Dask."""
    refuse_delayed(name, values)
    return np.asarray(values.compute()) if is_of_dask(values) else values


def as_table(X, y=None, sample_weight=None):
    """X, y and weights: X a `BlockTable` where it is data in blocks, else all as they are given.

    Blocks are gone through once, and have y and weights, or these are given for all rows.
    """
    blocks = None if isinstance(X, BlockTable) else as_blocks(X)
    if blocks is None:
        return X, y, sample_weight
    found, rows = _first_pass(blocks)
    given = {"y": computed("y", y), "sample_weight": computed("sample_weight", sample_weight)}
    of_blocks = {"y": joined_column(found, "y"), "sample_weight": joined_column(found, "weight")}
    for name, values in given.items():
        if values is not None and of_blocks[name] is not None:
            raise ValueError(f"{name} is given, and in the blocks of X too: leave one of them out.")
    kind = DaskTable if isinstance(blocks, DaskBlocks) else BlockTable
    rest = [given[name] if values is None else values for name, values in of_blocks.items()]
    return (kind(blocks, found, rows), *rest)


def _first_pass(blocks):
    """The `Summary` of each block, and a list of their rows, or None where they are many."""
    found, rows, name = [], [], "first pass over the blocks"
    if isinstance(blocks, DaskBlocks):
        with phase(name):
            found = blocks.each(_summary)
            rows = blocks.each(as_rows) if are_few(found) else None
    else:
        for block in counted(blocks, name):
            own = as_rows(block.X)
            found.append(summary_of(own, block))
            rows = [*rows, own] if rows is not None and are_few(found) else None
    if not any(one.shape[0] for one in found):
        raise ValueError("The blocks of X have no rows: give one row or more.")
    refuse_unlike(found)
    return found, rows


def _summary(X):
    return summary_of(as_rows(X), Block(X))


def in_parts(partial_fit: Method) -> Method:
    """Decorator of ``partial_fit``: of data in blocks it takes as many rows as fit in memory.

    Any argument that there is for each row is cut with them. If one part fails, none is taken in.
    """
    signature = inspect.signature(partial_fit)

    @wraps(partial_fit)
    def called(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        X = given.get("X")
        blocks = X if isinstance(X, BlockTable) else as_blocks(X)
        if blocks is None:
            return partial_fit(self, *args, **kwargs)
        rest = {**{name: one for name, one in given.items() if name != "self"}, "X": blocks}
        with self._all_or_nothing():
            of_rows = [rest.get(name) for name in ("X", "y", "sample_weight")]
            X, y, weight = as_table(*of_rows)
            rest.update(X=X, y=y, sample_weight=weight)
            known = {name: one for name, one in rest.items() if one is not None}
            if is_in_memory(X):
                return partial_fit(self, **known)
            of_rows = _for_each_row(known, len(X))
            self._protect_state()
            size = group_size(X)
            for start in counted(range(0, len(X), size), "parts of the rows"):
                rows = slice(start, min(start + size, len(X)))
                part = {name: one[rows] for name, one in of_rows.items()}
                if not _counts_for_nothing(part, of_rows):
                    some = table_of_one(Block(X[rows], names=X.names))
                    partial_fit(self, **{**known, **part, "X": some})
        return self

    return called


def _for_each_row(known, n):
    """The arguments that have a value for each of n rows; a number that stands for all is none."""
    found = {name: computed(name, known[name]) for name in _OF_ROWS if name in known}
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
