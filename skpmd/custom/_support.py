"""Rows without which a posterior would reach further than particles do: for leaving rows out."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Steps over an edge are looked for between so many pairs of particles, by so many halvings.
_PAIRS, _HALVINGS = 32, 30
_LIKELY = 0.5  # A normal cut so many nats below its mode has a sixth beyond: .17 nats of the row.


def _beyond(alive, support):
    """Particles mirrored at each edge of a support, some of them each."""
    for edge in () if support is None else support:
        for j in np.flatnonzero(np.isfinite(edge)):
            some = alive[: _PAIRS // 4].copy()
            some[:, j] = 2.0 * edge[j] - some[:, j]
            yield some


class Densities(NamedTuple):
    """Functions of points (k, d)."""

    log_prior: Callable  # (k,)
    of_all: Callable  # Log-likelihood of all rows, (k,),
    of_each: Callable  # and of each row, (k, n).


def closing_rows(densities, alive, far, table, std, support):
    """Which of n rows are the only ones under which likely points are impossible, (n,).

    Without such a row the posterior reaches further than the particles do, of which no weights of
    theirs can tell. The points are found by bisection between particles ``far`` out, which are
    impossible, or places beyond edges of the ``support``, and the particles ``alive`` next to them.
    The ``table`` (m, n) has the log-likelihood of each row under these, and ``std`` (d,) are units.
    """
    log_prior, of_all, of_each = densities
    closing = np.zeros(table.shape[1], bool)
    far = far[len(far) * np.arange(min(len(far), _PAIRS)) // max(min(len(far), _PAIRS), 1)]
    far = np.concatenate([far, *_beyond(alive, support)])
    far = far[log_prior(far) > -np.inf] if len(far) else far
    if not len(far):
        return closing
    unit = np.where(std > 0.0, std, 1.0)
    near = alive[[(((alive - one) / unit) ** 2).sum(axis=1).argmin() for one in far]]
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        possible = log_prior(middle) > -np.inf
        if possible.any():
            possible[possible] = of_all(middle[possible]) > -np.inf
        near = np.where(possible[:, None], middle, near)
        far = np.where(possible[:, None], far, middle)
    far = far[log_prior(far) > -np.inf]
    if not len(far):
        return closing
    of_alive = log_prior(alive)
    for log_density, values in zip(log_prior(far), of_each(far), strict=True):
        impossible = np.isneginf(values)
        if impossible.sum() == 1:
            most = (of_alive + table[:, ~impossible].sum(axis=1)).max()
            closing |= impossible & (log_density + values[~impossible].sum() > most - _LIKELY)
    return closing
