"""Distinct rows, sorted, with weights, and samples of them.

Neither copies of rows nor their order then change what is learnt.
"""

from typing import NamedTuple

import numpy as np

from skpmd._base.rows import stretches


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
