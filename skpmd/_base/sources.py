"""What counts as data in blocks: `Blocks`, and tables and arrays of other libraries that are."""

import numpy as np

from skpmd._base.arrow import ArrowBlocks
from skpmd._base.blocks import Block, Blocks
from skpmd._base.dask_table import DaskBlocks, is_of_dask, refuse_delayed

_NUMBERS_AT_ONCE = 1 << 20  # Of a file that is cut where nothing says where.


def blocks_of(X):
    """The `Blocks` that X is; None of what scikit-learn makes an array of."""
    if isinstance(X, Blocks):
        return X
    if is_of_dask(X):
        return DaskBlocks(X)
    refuse_delayed("X", X)
    library, kind = type(X).__module__.partition(".")[0], type(X).__name__
    if library == "pyarrow" and kind in ("Table", "RecordBatch") or hasattr(X, "get_fragments"):
        return ArrowBlocks(X)
    if isinstance(X, np.memmap) and X.ndim == 2 and not _is_read_as_it_is(X):
        return Blocks(_Converted(X))
    return None


def values_of(name, values):
    """y or weights of all rows: computed where they are a collection of Dask."""
    refuse_delayed(name, values)
    return np.asarray(values.compute()) if is_of_dask(values) else values


def _is_read_as_it_is(X):
    return X.dtype in (np.float64, np.float32) and X.flags.c_contiguous


class _Converted:
    """A file of other numbers than floats in C order, a few rows at a time."""

    def __init__(self, X):
        self._X, self._size = X, max(1, _NUMBERS_AT_ONCE // max(1, X.shape[1]))

    def __len__(self):
        return -(-len(self._X) // self._size)

    def __getitem__(self, i):
        return Block(np.array(self._X[i * self._size : (i + 1) * self._size], order="C"))
