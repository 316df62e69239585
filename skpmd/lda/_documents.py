"""Documents of a topic model, and the batches that steps take."""

from typing import NamedTuple

import numpy as np

_TAKEN = 1024  # documents that a shuffled pass takes from X at once, which is slow for a few
_PIECE = 512  # documents of a full-batch iteration whose expected counts are in memory at once


class Documents(NamedTuple):
    """Counts of words, row by row: ``indptr``, ``indices`` and ``data`` as in a CSR matrix."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @classmethod
    def of(cls, X):
        """Rows of a CSR matrix without explicit zeros."""
        return cls(X.indptr, X.indices, X.data)

    @property
    def n(self):
        """Number of documents."""
        return len(self.indptr) - 1

    def rows(self, start, stop):
        """Consecutive documents, as a view."""
        ends = self.indptr[start : stop + 1]
        own = slice(ends[0], ends[-1])
        return Documents(ends - ends[0], self.indices[own], self.data[own])

    def for_kernels(self):
        """The same as kernels take them: places in int32 and counts in float32.

        It is a copy where X has other types, and so of a few documents at a time.
        """
        indptr, indices = (one.astype(np.int32, copy=False) for one in self[:2])
        return Documents(indptr, indices, self.data.astype(np.float32, copy=False))

    def batches(self, size, is_piece=False):
        """All of them in order, as batches of some size."""
        for start in range(0, self.n, size):
            part = self.rows(start, min(start + size, self.n))
            yield DocumentBatch(part, np.ones(part.n), is_piece)


class DocumentBatch(NamedTuple):
    """Documents of a step, of weight 1 each; of a full-batch iteration this is a piece."""

    documents: Documents
    weight: np.ndarray
    is_piece: bool


class DocumentRows:
    """All documents of a call, with the interface of `skpmd._base.rows.Rows`.

    X (n, V) is a CSR matrix of counts without explicit zeros. The last batch of a pass may
    have fewer documents than ``batch_size``. With ``shuffle`` each pass has an order of its own.
    """

    def __init__(self, X, batch_size, shuffle):
        self.data, self.batch_size, self.shuffle = X, batch_size, shuffle
        self.total, self.n_batches = float(X.shape[0]), -(-X.shape[0] // batch_size)

    def whole(self):
        """All documents once, in order, as a list of batches (views)."""
        return list(Documents.of(self.data).batches(_PIECE, is_piece=True))

    def one_pass(self, sampling, rng):
        """Batches of one pass."""
        size = self.batch_size
        if not self.shuffle:
            yield from Documents.of(self.data).batches(size)
            return
        order = rng.permutation(self.data.shape[0])
        step = size * max(1, _TAKEN // size)
        for start in range(0, len(order), step):
            chosen = order[start : start + step]
            parts = [np.sort(chosen[a : a + size]) for a in range(0, len(chosen), size)]
            yield from Documents.of(self.data[np.concatenate(parts)]).batches(size)


def with_words(X):
    """The documents that have words: to a stream without an end the others say nothing."""
    some = np.diff(X.indptr) > 0
    return X if some.all() else X[some]
