"""Relabelling: which component of one particle is which component of another."""

import numpy as np
from scipy.optimize import linear_sum_assignment

# Matrices of affinities have about so many entries at once.
_MAX_NUMBERS = 1 << 17
# This share of the distance is subtracted from affinities: it decides where nothing overlaps.
_FAR_APART = 1e-6
# Particles with a log weight this near to the largest may be the best; at most so many are tried,
# by their affinities with at most so many others.
_NEAR, _MAX_CANDIDATES, _MAX_OTHERS = np.log(2.0), 20, 50

_ROUNDING = 1e-9  # Sums of affinities that differ by no more are equal.


def relabelling(particles, before=None):
    """Order of each particle's components that brings them next to those of the best particle.

    Of all assignments it has the largest affinity, sum_k sqrt(w_k v_k) BC(N_k, M_k), with w and v
    the mixture weights and BC the Bhattacharyya coefficient: the sum of the squared Hellinger
    distances between weighted components is then least. Where no components overlap the
    Bhattacharyya distances decide. The best particle is the one with the largest weight; among
    those within a factor of two, the one with the largest mean affinity with the others.

    Component k of the best particle is component ``order[i, k]`` of particle i; the order has the
    shape (m, K), int. With ``before``, particles of the rows before in the same scaled columns and
    with as many components, it is component k of the best particle there, so that labels go on. Log
    weights, log mixing weights, locations and scales of the particles are used.
    """
    m, n_components = particles.log_mixing.shape
    if n_components == 1:
        return np.zeros((m, 1), dtype=np.int64)
    best = _best(particles)
    affinity = _affinities(particles, best, np.arange(m))
    order = np.array([_assigned(one)[0] for one in affinity])
    if before is None:
        return order
    pair = before.select([_best(before)]).joined(particles.select([best]))
    return order[:, _assigned(_affinities(pair, 0, np.array([1]))[0])[0]]


def matches(particles, others):
    """Orders of the components of other particles, next to those of each of these particles.

    Component k of particle i is component ``order[i, j, k]`` of the other particle j. The orders
    have the shape (m, m', K), int; with them come the affinities (m, m'), 1 where both are the
    same. The arguments are as of `relabelling`.
    """
    both, m = particles.joined(others), len(particles.log_weights)
    places = np.arange(m, len(both.log_weights))
    found = [[_assigned(one) for one in _affinities(both, i, places)] for i in range(m)]
    order = np.array([[one[0] for one in row] for row in found])
    return order, np.array([[one[1] for one in row] for row in found])


def _best(particles):
    """Place of the particle that the others are relabelled by."""
    log_weights = particles.log_weights
    candidates = np.flatnonzero(log_weights > log_weights.max() - _NEAR)
    if len(candidates) == 1:
        return int(candidates[0])
    candidates = candidates[_spaced(len(candidates), _MAX_CANDIDATES)]
    weights = np.exp(log_weights - log_weights.max())
    others = _spaced(len(weights), _MAX_OTHERS)
    totals = [
        weights[others] @ [_assigned(one)[1] for one in _affinities(particles, best, others)]
        for best in candidates
    ]
    are_best = np.array(totals) >= (1.0 - _ROUNDING) * max(totals)
    return int(candidates[np.argmax(are_best)])  # Of equal ones the first, whatever the digits.


def _spaced(n, most):
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def _assigned(affinity):
    rows, columns = linear_sum_assignment(affinity, maximize=True)
    return columns, affinity[rows, columns].sum()


def _affinities(particles, best, places):
    """Affinities of the best particle's components with others'; shape (len(places), K, K)."""
    _, n_components, p = particles.location.shape
    numbers = n_components**2 * (p if particles.is_diagonal else p**2)
    many = max(1, _MAX_NUMBERS // numbers)
    parts = [
        _affinity(particles, best, places[start : start + many])
        for start in range(0, len(places), many)
    ]
    return np.concatenate(parts)


def _affinity(particles, best, places):
    root = particles.scale_cholesky
    away = particles.location[places][:, None] - particles.location[best][:, None]
    of_middle = _of_diagonals if particles.is_diagonal else _of_matrices
    square, log_det, logs = of_middle(root[places], root[best], away)
    p = away.shape[-1]
    log_det = log_det - 0.5 * (logs[0][:, None] + logs[1][:, None])
    distance = 0.125 * np.maximum(square, 0.0) + 0.5 * np.maximum(log_det, 0.0)
    log_mixing = particles.log_mixing
    pairs = log_mixing[places][:, None] + log_mixing[best][:, None]
    overlap = np.exp(0.5 * pairs - distance)
    return overlap - _FAR_APART * np.minimum(distance, 1e6 * p)


def _of_matrices(root, of_best, away):
    """Forms and log determinants of mean covariances, and log determinants of both, by roots.

    A distribution of no width has no inverse: a ridge of rounding error's size stands in.
    """
    covariances = [one @ one.swapaxes(-1, -2) for one in (root, of_best)]
    middle = 0.5 * (covariances[0][:, None] + covariances[1][:, None])
    at = np.arange(away.shape[-1])
    middle[..., at, at] *= 1.0 + 1e-10
    middle[..., at, at] += 1e-300
    square = (np.linalg.solve(middle, away[..., None])[..., 0] * away).sum(axis=-1)
    logs = [
        2.0 * np.log(np.diagonal(one, axis1=-2, axis2=-1)).sum(axis=-1) for one in (root, of_best)
    ]
    return square, np.linalg.slogdet(middle)[1], logs


def _of_diagonals(root, of_best, away):
    """As `_of_matrices`, of diagonal ones."""
    middle = 0.5 * (root[:, None] ** 2 + of_best[:, None] ** 2)
    middle = middle * (1.0 + 1e-10) + 1e-300
    logs = [2.0 * np.log(one).sum(axis=-1) for one in (root, of_best)]
    return (away**2 / middle).sum(axis=-1), np.log(middle).sum(axis=-1), logs
