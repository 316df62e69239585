"""Documents of a topic model, and the batches that steps take."""

from typing import NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from skpmd._rows.rows import taking
from skpmd._rows.table import block_size, group_size, in_random_order

# Documents that a pass in random order takes from X at once, which is slow for a few.
_TAKEN = 1024
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

    def batches(self, size, weight=None):
        """All of them in order, as batches of some size; ``weight`` None is 1 for each."""
        for start in range(0, self.n, size):
            part = self.rows(start, min(start + size, self.n))
            own = np.ones(part.n) if weight is None else weight[start : start + size]
            yield DocumentBatch(part, own, False)


class DocumentBatch(NamedTuple):
    """Documents of a step, and their weights."""

    documents: Documents
    weight: np.ndarray
    is_piece: bool


class DocumentRows:
    """All documents of a call, with the interface of `skpmd._rows.rows.Rows`.

    X (n, V) is a CSR matrix of counts without explicit zeros, and ``weight`` (n,), or None, says as
    how many copies each counts. The last batch of a pass may have fewer documents than
    ``batch_size``. With ``shuffle`` each pass has an order of its own.
    """

    def __init__(self, X, batch_size, shuffle, weight=None):
        self.data, self.batch_size, self.shuffle = X, batch_size, shuffle
        self.weight, self.n_batches = weight, -(-X.shape[0] // batch_size)
        self.total = total_of(X, weight)

    def n_taken(self, t):
        """How many documents the first t batches have, however much they weigh."""
        passes, batches = divmod(t, self.n_batches)
        n = self.data.shape[0]
        return passes * n + min(batches * self.batch_size, n)

    def whole(self):
        """All documents once, in order, as a list of batches."""
        n = self.data.shape[0]  # It may be 0: documents may all be without words.
        pieces = (slice(start, min(start + _PIECE, n)) for start in range(0, n, _PIECE))
        return [_Piece(self.data, rows, self.weight) for rows in pieces]

    def one_pass(self, sampling, rng):
        """Batches of one pass."""
        X, size = self.data, self.batch_size
        n = X.shape[0]
        if not self.shuffle:
            n_read = size * -(-group_size(X) // size)
            for some, weight in groups_of(X, self.weight, n_read):
                yield from Documents.of(some).batches(size, weight)
            return
        sizes = [min(size, n - start) for start in range(0, n, size)]
        at_once = max(1, _TAKEN // size)
        for some, batches in in_random_order(block_size(X), sizes, rng):
            take = taking(X, some)
            for start in range(0, len(batches), at_once):
                places = np.concatenate(batches[start : start + at_once])
                weight = None if self.weight is None else self.weight[places]
                yield from Documents.of(take(places)).batches(size, weight)


class _Piece:
    """A piece of a full-batch iteration, as a `DocumentBatch` that is taken when it is its turn."""

    is_piece = True

    def __init__(self, X, rows, weight):
        self._X, self._rows = X, rows
        n = rows.stop - rows.start
        self.weight = np.ones(n) if weight is None else weight[rows]

    @property
    def documents(self):
        """The documents."""
        return Documents.of(self._X[self._rows])

    def __iter__(self):
        return iter((self.documents, self.weight, self.is_piece))


def total_of(X, weight):
    """The weight of all documents of X, where None is 1 for each."""
    return float(X.shape[0] if weight is None else weight.sum())


def groups_of(X, weight, n=None):
    """Documents and weights, n at a time, by default those of a group of blocks; no copy of few."""
    if X.shape[0] <= group_size(X):
        yield X, weight
        return
    n = group_size(X) if n is None else n
    for rows in gen_batches(X.shape[0], n):
        yield X[rows], None if weight is None else weight[rows]


def tokens_of(X, weight=None):
    """Words of all documents of X, with their weights."""
    if weight is None:
        return float(X.data.sum(dtype=np.float64))
    return float(X.data @ np.repeat(weight, np.diff(X.indptr)))


def chosen(X, weight, some):
    """Some of the documents and of their weights: ``some`` is a mask."""
    if some.all():
        return X, weight
    return X[some], None if weight is None else weight[some]


def with_words(X, weight):
    """The documents that have words: to a stream without an end the others say nothing."""
    return chosen(X, weight, np.diff(X.indptr) > 0)
