"""A reservoir sample of a stream's rows: all while they are few, then those of the smallest hash.

The hash is of a row's bytes, so which rows are retained depends neither on their order nor on the
parts that they come in, and copies of a row share its fate.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skpmd._base.hashing import uniforms
from skpmd.mixture._rows import distinct_rows, over_rows, pieces

# The reservoir holds at least so many rows, or so many for each component; of many columns so many
# numbers at most, but rows for each component.
_MIN_ROWS, _ROWS_EACH, _MAX_NUMBERS, _FEW_EACH = 1000, 200, 1 << 16, 10


class Reservoir(NamedTuple):
    """Distinct rows."""

    X: np.ndarray  # (n, p): Rows, sorted.
    weight: np.ndarray  # (n,): How often each counts, the past discounted.
    discount: np.ndarray  # (n,): What forgetting has left of one row's weight since it came last.
    complete: bool  # Whether these are all rows so far.

    def sampled_weight(self):
        """Weights for a sample: rows of the past are in it less often already."""
        return self.weight if self.complete else self.weight / np.maximum(self.discount, 1e-300)


def reservoir_size(n_components, n_columns):
    """How many rows are retained."""
    most = max(_MAX_NUMBERS // n_columns, _FEW_EACH * n_components)
    return min(max(_MIN_ROWS, _ROWS_EACH * n_components), most)


def discounted(reservoir, factor):
    """A reservoir whose rows count this much less than they did."""
    weight, discount = factor * reservoir.weight, factor * reservoir.discount
    return reservoir._replace(weight=weight, discount=discount)


def _best(size, rows, places):
    """At most so many of the places, as their rows and chance have it, and keys of theirs."""
    found = np.empty(0, dtype=np.int64), np.empty(0)
    for some in pieces(rows):
        # An exponential variate over the discount, so the past is sampled as it counts.
        key = -np.log(uniforms(rows[some])) / np.maximum(rows.discount(some), 1e-300)
        found = _best_of_two(size, found, (places[some], key))
    return found


def _best_of_two(size, one, other):
    chosen, key = map(np.concatenate, zip(one, other, strict=True))
    if len(key) > size:
        best = np.argpartition(key, size - 1)[:size]
        chosen, key = chosen[best], key[best]
    return chosen, key


def retained_of(rows, weight, size, complete=True):
    """`Reservoir` of at most ``size`` of the rows.

    ``rows`` is a `RowView`, and ``weight`` (n,) how often each counts. ``complete`` says whether
    they are all so far.
    """
    if len(rows) <= size:
        return Reservoir(rows[:], *map(np.array, (weight, rows.discount(slice(None)))), complete)
    best = partial(_best, size)
    chosen, _ = over_rows(best, rows, range(len(rows)), add=partial(_best_of_two, size))
    chosen = np.sort(chosen)
    X, weight, discount = rows[chosen], weight[chosen], rows.discount(chosen)
    if rows.discounts is None:  # Those of a large fit are neither sorted nor distinct.
        some, weight = distinct_rows(X, weight)
        X, discount = some[:], np.ones(len(some))
    return Reservoir(X, np.array(weight), discount, False)
