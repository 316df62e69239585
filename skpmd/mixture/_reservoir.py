"""Rows of a stream that are kept: all while they are few, then those of the smallest hash.

The hash is of a row's bytes, so which rows are kept depends neither on their order nor on the
parts that they come in, and copies of a row share its fate.
"""

from typing import NamedTuple

import numpy as np

from skpmd._base.hashing import INCREMENT, mix_bits
from skpmd._base.rows import merged

_LEAST, _EACH = 1000, 200  # rows, and rows for each component


class Kept(NamedTuple):
    """Distinct rows.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        Rows, sorted.
    weight : ndarray of shape (n,)
        How often each counts, the past discounted.
    fresh : ndarray of shape (n,)
        What the discount has left of one row's weight since it came last.
    complete : bool
        Whether these are all rows so far.
    """

    X: np.ndarray
    weight: np.ndarray
    fresh: np.ndarray
    complete: bool

    def sampled_weight(self):
        """Weights for a sample: rows of the past are in it less often already."""
        return self.weight if self.complete else self.weight / np.maximum(self.fresh, 1e-300)


def n_kept(n_components):
    """How many rows are kept."""
    return max(_LEAST, _EACH * n_components)


def joined(kept, X, weight, discount):
    """Rows kept and more that have come, none left out.

    Parameters
    ----------
    kept : Kept or None
        Before.
    X : ndarray of shape (n, p)
        Distinct rows, sorted.
    weight : ndarray of shape (n,)
        How often each counts.
    discount : float
        What is left of the past's weight.

    Returns
    -------
    Kept
        After.
    """
    fresh = np.ones(len(X))
    if kept is None:
        return Kept(X, weight, fresh, True)
    X = np.concatenate([kept.X, X])
    weight = np.concatenate([discount * kept.weight, weight])
    fresh = np.concatenate([discount * kept.fresh, fresh])
    return Kept(*_merged(X, weight, fresh), kept.complete)


def trimmed(kept, size):
    """At most ``size`` of the rows."""
    if len(kept.X) <= size:
        return kept
    X, weight, fresh, _ = kept
    # An exponential variate divided by freshness: the past is sampled as it counts.
    key = -np.log(uniforms(X)) / np.maximum(fresh, 1e-300)
    chosen = np.sort(np.argpartition(key, size - 1)[:size])
    return Kept(X[chosen], weight[chosen], fresh[chosen], False)


def _merged(X, weight, fresh):
    places, total = merged(weight, X)
    order = np.lexsort(X.T[::-1])
    ordered = X[order]
    first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    return X[places], total, np.maximum.reduceat(fresh[order], first)


def uniforms(X):
    """Numbers in (0, 1) that the bytes of each row determine."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
    state = np.zeros(len(X), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            state = mix_bits(state ^ column) + INCREMENT
    return (mix_bits(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
