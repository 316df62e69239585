"""A reservoir sample of a stream's rows: all while they are few, then those of the smallest hash.

The hash is of a row's bytes, so which rows are retained depends neither on their order nor on the
parts that they come in, and copies of a row share its fate.
"""

from typing import NamedTuple

import numpy as np

from skpmd._base.hashing import uniforms
from skpmd._base.rows import merged

# The reservoir holds at least so many rows, or so many for each component.
_MIN_ROWS, _ROWS_EACH = 1000, 200


class Reservoir(NamedTuple):
    """Distinct rows."""

    X: np.ndarray  # (n, p): Rows, sorted.
    weight: np.ndarray  # (n,): How often each counts, the past discounted.
    discount: np.ndarray  # (n,): What forgetting has left of one row's weight since it came last.
    complete: bool  # Whether these are all rows so far.

    def sampled_weight(self):
        """Weights for a sample: rows of the past are in it less often already."""
        return self.weight if self.complete else self.weight / np.maximum(self.discount, 1e-300)


def reservoir_size(n_components):
    """How many rows are retained."""
    return max(_MIN_ROWS, _ROWS_EACH * n_components)


def extend(reservoir, X, weight, discount):
    """The rows of a reservoir and new ones, none left out.

    The new rows X (n, p) are distinct and sorted, and count ``weight`` (n,) times. ``discount`` is
    what is left of the past's weight. The reservoir is None before the first rows.
    """
    undiscounted = np.ones(len(X))
    if reservoir is None:
        return Reservoir(X, weight, undiscounted, True)
    X = np.concatenate([reservoir.X, X])
    weight = np.concatenate([discount * reservoir.weight, weight])
    discounts = np.concatenate([discount * reservoir.discount, undiscounted])
    places, total = merged(weight, X)
    order = np.lexsort(X.T[::-1])
    ordered = X[order]
    first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
    latest = np.maximum.reduceat(discounts[order], first)
    return Reservoir(X[places], total, latest, reservoir.complete)


def trim(reservoir, size):
    """A reservoir of at most ``size`` of the rows."""
    if len(reservoir.X) <= size:
        return reservoir
    X, weight, discount, _ = reservoir
    # The key is an exponential variate over the discount, so the past is sampled as it counts.
    key = -np.log(uniforms(X)) / np.maximum(discount, 1e-300)
    chosen = np.sort(np.argpartition(key, size - 1)[:size])
    return Reservoir(X[chosen], weight[chosen], discount[chosen], False)
