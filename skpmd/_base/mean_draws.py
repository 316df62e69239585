"""Means of rows under single particles, for `skpmd.effects`: which particles, and their averages.

An estimator hands them over by ``_draws_of_mean(sides, n_draws, by)``. ``sides`` are several X with
the same rows, which differ in a column, and means at all of them are under the same draws. It
returns values (S, n, m, k), or with a `RowAverages` (S, G, m, k), and weights (m,) of the draws.
With classes k are those of the classes, of which two are the second alone.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from skpmd.engine.particles import random_draws

N_DRAWS = 1000  # Where it is not said how many, and particles are not what they are made of.
_MAX_JOINT = 4000  # Rows of a process at which there are joint draws.


class RowAverages(NamedTuple):
    """Averages over the rows of each of some groups."""

    code: np.ndarray  # (n,): Group of each row; in order they cost least.
    weight: np.ndarray  # (n,): Share of the row in its group's average.
    n_groups: int

    def matrix(self):
        """The same as a matrix (G, n)."""
        out = np.zeros((self.n_groups, len(self.code)))
        out[self.code, np.arange(len(self.code))] = self.weight
        return out


def some_particles(weights, n_draws):
    """Places and weights of all particles with a weight, or of ``n_draws`` that stand for them."""
    alive = np.flatnonzero(weights > 0.0)
    if n_draws is None or len(alive) <= n_draws:
        return alive, weights[alive] / weights[alive].sum()
    chosen = random_draws(weights, n_draws, np.random.default_rng(0))
    return chosen, np.full(n_draws, 1.0 / n_draws)


class MeanDraws:
    """Collects means of a few rows at a time, from any thread; ``by`` is None or `RowAverages`."""

    def __init__(self, by):
        self._by, self._parts = by, {}

    def add(self, table, rows):
        """Take means (r, m, k) of some rows: a slice, or places."""
        first = rows.start if isinstance(rows, slice) else int(rows[0])
        if self._by is None:
            self._parts[first] = rows, table
            return
        own, place = np.unique(self._by.code[rows], return_inverse=True)
        share = np.zeros((len(own), len(place)))
        share[place, np.arange(len(place))] = self._by.weight[rows]
        of_class = [share @ table[..., k] for k in range(table.shape[2])]
        self._parts[first] = own, np.stack(of_class, axis=-1)

    def whole(self):
        """Those of all rows, (n, m, k), or averages, (G, m, k), added up in the rows' order."""
        parts = [self._parts[start] for start in sorted(self._parts)]
        n = sum(len(table) for _, table in parts) if self._by is None else self._by.n_groups
        out = np.zeros((n, *parts[0][1].shape[1:]))
        for places, table in parts:
            out[places] += table
        return out


def refuse_many(n):
    """ValueError of more rows, of all sides, than a process has joint draws at."""
    if n > _MAX_JOINT:
        raise ValueError(
            f"A process needs draws at all rows together, here {n} with those that they are "
            f"compared to, and has them at {_MAX_JOINT}: give a sample of the rows of X."
        )


def normal_draws(mean, covariance, pairs, seed):
    """Draws (d, 2 pairs) of N(mean, covariance) and, for each, its opposite about the mean."""
    scale = np.sqrt(np.diag(covariance).max(initial=0.0)) or 1.0
    root, pivots, rank, _ = dpstrf(covariance / scale**2, lower=1)
    root = np.tril(root)[:, :rank][np.argsort(pivots)]
    draws = scale * root @ np.random.default_rng(seed).standard_normal((rank, pairs))
    return mean[:, None] + np.hstack([draws, -draws])
