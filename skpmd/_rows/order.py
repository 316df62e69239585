"""In which order a pass goes through rows.

A pass in random order goes through groups of blocks of consecutive rows. Blocks come in random
order, and the rows of a group are mixed: so data in files are read in pieces, a group of them is
in memory, and rows that are sorted by their label come mixed. The order depends on the number of
rows alone, not on where they are. Up to one group, which is all that most data are, it is a plain
permutation.
"""

import numpy as np
from scipy import sparse

# Rows of a block: so many numbers, no more than so many rows, or so many rows that are sparse. A
# group has so many blocks.
_BLOCK_NUMBERS, _MAX_BLOCK, _SPARSE_BLOCK, _GROUP = 1 << 20, 1 << 14, 1 << 11, 32


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
