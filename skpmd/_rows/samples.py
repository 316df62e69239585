"""Samples of rows that stand for all, as `skpmd.proposals.control_variates` takes them."""

import numpy as np

from skpmd._rows.rows import stratified_sample
from skpmd._rows.table import is_in_memory

_UNIFORM, _TRIMS = 0.1, 10  # This share of a sample is drawn whatever remainders are.
_PARTS, _ROUNDING = 16, 1e-9  # Parts that a sample is seen in.


def together(rows, whole):
    """All rows: those in memory are one batch, which leaves more to large products of matrices."""
    return [rows.data] if is_in_memory(rows.data.X) else whole


class RowTerms:
    """Rows as what samples are of: each adds its own term to the log-likelihood."""

    def __init__(self, rows):
        self._rows, self.weight = rows, rows.data.weight

    def uniform(self, n, rng):
        """A batch of n rows that stand for all."""
        places, counts = stratified_sample(self.weight, n, rng)
        return self._rows.take(places)._replace(weight=counts * (self._rows.total / n))

    def drawn(self, sizes, n, rng):
        """Batches of rows that stand for all, drawn in proportion to sizes, and strata of parts."""
        share = shares_of(sizes, self.weight, n)
        places, counts = stratified_sample(share, n, rng)
        weight = self.weight[places] * counts * (share.sum() / n) / share[places]
        some = self._rows.take(places)._replace(weight=weight)
        free = np.flatnonzero(weight > self.weight[places] * (1.0 + _ROUNDING))
        parts = [some.take(free[i::_PARTS]) for i in range(min(_PARTS, len(free)))]
        certain = some.take(np.setdiff1d(np.arange(len(places)), free))
        return [some], [[certain], parts]


def shares_of(sizes, weight, n):
    """Shares of the terms of a sample of n: by sizes of remainders, and some whatever these are."""
    for _ in range(_TRIMS):  # Terms of more than the share of one are there for certain, and once.
        sizes = np.minimum(sizes, sizes.sum() / ((1.0 - _UNIFORM) * n))
    share = _UNIFORM / weight.sum() * weight
    return share + (1.0 - _UNIFORM) / sizes.sum() * sizes if sizes.any() else share
