"""Densities of rows given the others of their group, and of groups, as ratios of integrals.

Effects are integrated out, so that a row is left out of its group too (Vehtari et al. 2016,
Bayesian leave-one-out cross-validation approximations for Gaussian latent variable models).
"""

import numpy as np

from skpmd._runtime.threads import in_order
from skpmd.linear._group_rows import group_pieces

_PAIRS = 1 << 14  # Pairs of rows of a group that are in memory together.


def of_groups(model, theta, batch):
    """Log density of all rows of each group together, (m, G), in the order of the batch.

    Rows of the batch are sorted by their group, and theta (m, d) are coefficients.
    """
    known, starts = model.split(theta), _starts(batch)
    own = np.add.reduceat(_own(model, known[1], batch, batch.weight), starts[:-1], axis=1)
    return _integrals(model, known, batch) + own


def of_rows(model, theta, batch):
    """Log densities (m, n) given the other rows of the group, of one copy and of all copies."""
    known, starts, n = model.split(theta), _starts(batch), len(batch.weight)
    which = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    whole = _integrals(model, known, batch)[:, which]
    rest = _without_rows(model, known, batch, starts, None)
    one, own = whole, _own(model, known[1], batch, np.ones(n))
    if (batch.weight != 1.0).any():
        one = _without_rows(model, known, batch, starts, 1.0)
    return one - rest + own, whole - rest + batch.weight * own


def _starts(batch):
    return np.concatenate([[0], np.flatnonzero(np.diff(batch.group)) + 1, [len(batch.group)]])


def _integrals(model, known, batch):
    """Logs of the groups' integrals (m, G), without what is the same for all predictors."""

    def of(piece):
        parts = model.integrals(known, batch, *piece, 0)
        return np.concatenate([values for _, values, *_ in parts])

    return np.concatenate(list(in_order(of, group_pieces(batch))), axis=1)


def _without_rows(model, known, batch, starts, weight):
    """The same (m, n) of each row's group where the row has this weight; None is without it."""
    out = np.zeros((len(known[0]), len(batch.weight)))
    sizes = np.diff(starts)
    some = np.flatnonzero(sizes > (weight is None))  # Of a row alone nothing is left.
    pieces = np.cumsum(sizes[some].astype(np.float64) ** 2) // _PAIRS
    for piece in np.unique(pieces):
        places, rows, counts = [], [], []
        for g in some[pieces == piece]:
            all_, k = np.arange(starts[g], starts[g + 1]), sizes[g]
            table = np.tile(all_, (k, 1))
            is_left = np.eye(k, dtype=bool) if weight is None else np.zeros((k, k), dtype=bool)
            places.append(table[~is_left])
            rows.append(all_)
            counts.append(np.full(k, k - (weight is None)))
        places, rows = np.concatenate(places), np.concatenate(rows)
        group = np.repeat(rows, np.concatenate(counts))
        others = batch.take(places)._replace(group=group)
        if weight is not None:
            others = others._replace(weight=np.where(places == group, weight, others.weight))
        out[:, rows] = _integrals(model, known, others)
    return out


def _own(model, phi, batch, weight):
    """What rows (m, n) of these weights add, the same for all predictors."""
    (y, size, _), out = model._columns(batch, slice(None)), np.empty((len(phi), len(weight)))
    for i in range(len(weight)):
        row = slice(i, i + 1)
        out[:, i] = model.family.rest(phi, y[row], size[row], weight[row])
    return out - weight * model.log_unit
