"""Tokens of documents, topics, and the draw of a token's topic, for all that fits topic models."""

from dataclasses import dataclass

import numpy as np
from numba import njit


@dataclass(frozen=True)
class Topics:
    """What a model has found after a number of passes, sweeps or particles, and its CPU seconds."""

    step: int
    cpu: float
    words: np.ndarray  # (topics, words), rows sum to one
    alpha: np.ndarray  # (topics,)


def tokens_of(X):
    """The words of each document, one entry for each occurrence."""
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        yield np.repeat(X.indices[part], X.data[part].astype(np.int64))


def listed(X, rng):
    """Words of all tokens, in random order within a document, and where each document starts."""
    starts = np.concatenate([[0], np.cumsum(X.sum(axis=1).astype(np.int64))])
    words = np.repeat(X.indices, X.data.astype(np.int64)).astype(np.int64)
    owner = np.repeat(np.arange(X.shape[0]), np.diff(starts))
    return words[np.lexsort((rng.random(len(words)), owner))], starts


@njit(cache=True)
def drawn(weights, target):
    """Place at which the running sum of the weights passes the target."""
    last = len(weights) - 1
    for k in range(last):
        target -= weights[k]
        if target < 0.0:
            return k
    return last
