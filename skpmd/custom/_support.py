"""Where a posterior has any density, which draws from kernels around particles must know."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from skpmd._base.results import Shown
from skpmd.engine import mirror
from skpmd.engine.edges import edges, without_errors

# Steps over an edge are looked for between so many pairs of particles, by so many halvings.
_PAIRS, _HALVINGS = 32, 30
_LIKELY = 0.5  # A normal cut so many nats below its mode has a sixth beyond: .17 nats of the row.


def shown_of(prior, given, found=None):
    """`Shown` particles, with what is known of their support.

    ``prior`` is the `PriorCheck` and ``given`` the `PriorFunctions`. ``found`` are edges of the
    likelihood, where they are known.
    """
    log_prior = given.log_prior if prior.has_more_edges else None
    support = prior.support if found is None else found
    return Shown(names=given.names, support=support, log_prior=log_prior)


def edges_given_rows(model, batches, outcome, support):
    """Edges of the posterior, (d,) each: the prior's, and what the likelihood adds to them.

    It is asked only where particles show that it has an edge, because some within the prior are
    impossible, or where the fit has found edges. None where there is nothing to add, or no time.
    """
    particles = outcome.particles
    if outcome.support is not None:
        return _within(outcome.support, support)
    theta, dead = particles.theta, particles.log_ratio == -np.inf
    if outcome.ended_early or not (dead & (particles.log_prior > -np.inf)).any():
        return None

    log_joint = partial(mirror.log_joint, model, batches, 1.0)
    found = edges(without_errors(log_joint), np.unique(theta[~dead], axis=0))
    return _within(found, support)


def _beyond(alive, support):
    """Particles mirrored at each edge of a support, some of them each."""
    for edge in () if support is None else support:
        for j in np.flatnonzero(np.isfinite(edge)):
            some = alive[: _PAIRS // 4].copy()
            some[:, j] = 2.0 * edge[j] - some[:, j]
            yield some


def _within(found, support):
    if support is None:
        return found
    return np.maximum(found[0], support[0]), np.minimum(found[1], support[1])


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
