"""Distinct rows, sorted, with weights, and samples of them.

Neither copies of rows nor their order then change what is learnt.
"""

from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Rows of data, each of which stands for `weight` equal ones.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        Features.
    y : ndarray of shape (n, t)
        Targets with one covariance.
    own : ndarray of shape (n,)
        Variance of each row's own noise, beside the kernel's.
    weight : ndarray of shape (n,)
        How often each row counts.
    spread : ndarray of shape (n,) or float
        Factor of the kernel's noise.
    """

    X: np.ndarray
    y: np.ndarray
    own: np.ndarray
    weight: np.ndarray
    spread: np.ndarray | float = 1.0


def merged(weight, X, *columns):
    """Places of the distinct rows, in sorted order, and the total weight of each.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        How often each row counts.
    X : ndarray of shape (n, p)
        Features.
    *columns : ndarrays of shape (n,) or (n, t)
        What else rows have to agree in.
    """
    keys = np.column_stack([*columns, sortable(X)])
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
    return order[starts], np.add.reduceat(weight[order], starts)


def take(sample, n, rng):
    """At most n rows of a sample of distinct ones, drawn as if each were there as it counts."""
    X, y, own, weight, spread = sample
    if max(weight.sum(), len(weight)) <= n:
        return sample
    places, counts = stretches(weight, n, rng)
    # Small weights leave few rows as vague as many.
    counts = counts * min(1.0, weight.sum() / n)
    spread = np.broadcast_to(spread, weight.shape)[places]
    return Sample(X[places], y[places], own[places], counts, spread)


def stretches(weight, n, rng):
    """Places of rows drawn one from each of n equal stretches of the total weight, and how often.

    A row of weight 2 and two copies of it are the same to the draw, and sorted rows are all
    represented.
    """
    ends = np.cumsum(weight)
    at = (np.arange(n) + rng.random(n)) * (ends[-1] / n)
    chosen = np.minimum(np.searchsorted(ends, at, side="right"), len(weight) - 1)
    return np.unique(chosen, return_counts=True)


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype == np.float64:
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)
