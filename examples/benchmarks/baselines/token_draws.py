"""Tokens of documents, and the draw of a token's topic, for samplers of topic models."""

import numpy as np
from numba import njit


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
