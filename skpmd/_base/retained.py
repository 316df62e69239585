"""Rows that a stream retains: one record of them in all families, and one rule that chooses them.

A stream retains all rows so far while it knows little: a posterior found anew from all of them is
better than one that steps from part to part. Past rows count (1 - a) times what they did, in each
of the columns alike, and a second pass needs none: the first has seen them all. Where rows are too
many a sample is retained where it is of use, or none:

* linear models: all, in their order, until there are enough of each class and later ones look like
  them; then none, for a posterior given a sample would be wider than that of all rows;
* mixtures: of optima a sample, for weights of predictions, scales of columns, defaults of the prior
  and fits anew; of draws all, and of too many none;
* processes: with inducing inputs all until the kernel is fitted, and then none, for q(u) knows
  them; with neighbours, on which predictions are conditioned, a sample.

A sample has the smallest exponential variates, made of the hash of a row's inputs, over what
forgetting has left of the row since it came last: the past is sampled as it counts (Efraimidis and
Spirakis 2006). It depends neither on the order of rows nor on the parts that they come in, copies
of a row share its fate, and no randomness is spent.

What is no such record: rows that an earlier posterior has for a further fit
(`skpmd.linear._task`) stand for its density, so that they are those least like a normal
likelihood, with a quadratic for all others. The `Sample` of a process, for the search for a kernel,
is drawn anew of the rows of each fit, as often as they count. Inducing inputs need not be rows.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd._base.hashing import hashed_uniforms
from skpmd._base.steps import coefficients
from skpmd._rows.rows import numbers_of_rows, stacked_rows, taken, without_copies

_MAX_NUMBERS = 1 << 21  # So many numbers of X are retained at most where all rows are, 16 MB.
_FORGOTTEN = 1e-6  # A row of which less is left is forgotten.


class RetainedRows(NamedTuple):
    """Rows of a stream so far, with what they count now."""

    rows: Any  # Their columns, such as a `Batch`, of which X and ``weight`` are always there.
    # (n,): What forgetting has left of each since it came last; None where all is left.
    discount: np.ndarray | None = None
    complete: bool = True  # Whether these are all rows so far, but those that are forgotten.
    # The posterior was found anew from so many of them; from the first, where rows are in order.
    n_fitted: int = 0

    @property
    def n_rows(self):
        """How many there are."""
        return len(self.rows.weight)

    def before_and_since(self):
        """The rows that the posterior was found from at once, and those since."""
        n = self.n_fitted
        return taken(self.rows, slice(n)), taken(self.rows, slice(n, None))

    def unless_much(self):
        """The record itself, or None where there is no room for all of its rows."""
        return self if numbers_of_rows(self.rows.X).sum() <= _MAX_NUMBERS else None

    @property
    def left(self):
        """What forgetting has left of each, (n,), which can only be read."""
        return np.broadcast_to(1.0 if self.discount is None else self.discount, self.n_rows)

    @property
    def given_weight(self):
        """Weights (n,) that rows came with; zero of those of which forgetting has left nothing."""
        nothing = np.zeros(self.n_rows)
        return np.divide(self.rows.weight, self.left, out=nothing, where=self.left > 0.0)

    def sampled_weight(self):
        """Weights for a sample: rows of the past are in it less often already."""
        return self.rows.weight if self.complete else self.given_weight

    def select(self, places):
        """Some of the rows, in copies if ``places`` is an array."""
        discount = None if self.discount is None else self.discount[places]
        return self._replace(rows=taken(self.rows, places), discount=discount)

    def discounted(self, factor):
        """The same rows, which count this much less than they did."""
        if factor == 1.0:
            return self
        rows = self.rows._replace(weight=factor * self.rows.weight)
        return self._replace(rows=rows, discount=factor * self.left)

    def joined(self, new, shift=None):
        """These rows and then those of another record."""
        rows, discount = stacked_rows(self.rows, new.rows, shift), None
        if self.discount is not None or new.discount is not None:
            discount = np.concatenate([self.left, new.left])
        complete, n_fitted = self.complete and new.complete, self.n_fitted + new.n_fitted
        return RetainedRows(rows, discount, complete, n_fitted)

    def merged(self, merge=without_copies):
        """Distinct rows by ``merge(rows)``; the last of copies says how much is left of a row."""
        if self.discount is None:
            return self._replace(rows=merge(self.rows)[0])
        last_first = self.select(slice(None, None, -1))
        rows, places = merge(last_first.rows)
        return self._replace(rows=rows, discount=last_first.discount[places])

    def sampled(self, size):
        """At most so many of the rows that are not forgotten, in their order."""
        kept = self
        if self.discount is not None:
            kept = self.select(np.flatnonzero(self.discount >= _FORGOTTEN))
        if kept.n_rows <= size:
            return kept
        key = sampling_keys(kept.rows.X, kept.left)
        places = np.sort(np.argpartition(key, size - 1)[:size])
        return kept.select(places)._replace(complete=False)


def sampling_keys(X, discount=1.0):
    """Exponential variates of rows (n,), of their bytes; the smallest are those of a sample."""
    return -np.log(hashed_uniforms(X)) / discount


def left_of_past(options, seen, size):
    """The factor of past rows' weights after so many more; None in a second pass."""
    a, _ = coefficients(options, seen, size)
    return None if a > 0.0 and options.total_samples is not None else 1.0 - a


def so_far(retained, rows, options, seen, shift=None):
    """All rows of a stream so far, the past discounted; None where they are not at hand.

    ``retained`` are those after ``seen`` weighted rows, or None. New ``rows``, columns which may be
    the user's, are not copied where they are the first. For ``shift`` see `stacked_rows`.
    """
    if not seen:
        return RetainedRows(rows)
    left = left_of_past(options, seen, float(rows.weight.sum()))
    if retained is None or left is None:
        return None
    return retained.discounted(left).joined(RetainedRows(rows), shift)
