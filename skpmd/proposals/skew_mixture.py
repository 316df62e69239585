"""Mixtures of skew normals fitted to weighted particles.

Expectation maximisation fits normals, with covariances of their own or one for all, which many
coordinates have particles for; the Bayesian information criterion says how many there are and which
of the two they have. Each is then made skew by the sinh-arcsinh map where its particles are.
"""

import numpy as np
from scipy.cluster.vq import kmeans2

from skpmd.engine.importance import Proposal, log_density, most_skewed, skewed_by
from skpmd.engine.particles import effective_sample_size, systematic, weights, whitened

_MAX_COMPONENTS, _MAX_EM, _EM_TOL = 8, 200, 1e-5
_MIN_POINTS = 2.0  # Each component has so many effective particles for each coordinate.
_MAX_KURTOSIS = 2.5  # A marginal with less (a normal one has 3) may be of several modes.
_JITTER = 1e-9  # Of covariances of components, in units of the whole.
# Skewness is measured on other particles than those that chose its axes, and counts from so many of
# its standard errors on.
_MIN_ERRORS = 3.0
_MAX_SKEWED = 200  # With more coordinates, finding skewed axes takes long.


def fit(theta, log_weights, mean, chol):
    """Components (a `Proposal` each) of the mixture that has the largest BIC, and their shares.

    ``theta`` (m, d) are particles with ``log_weights`` (m,), ``mean`` and ``chol`` their moments.
    The result is always the same for the same particles.
    """
    white = whitened(theta, mean, chol)
    w, ess = weights(log_weights), effective_sample_size(log_weights)
    starts = _starting_points(theta, w, white)
    best, best_score = None, -np.inf
    for K in range(1, _MAX_COMPONENTS + 1):
        label = _labels(starts, w, K)
        found = [_candidate(white, w, ess, label, tied) for tied in (False, True)[: min(K, 2)]]
        top = max((one for one in found if one is not None), key=lambda one: one[0], default=None)
        if top is None or top[0] <= best_score:
            break
        best_score, best = top[0], top[1:]
    parts, shares = best
    moved = [p._replace(mean=mean + chol @ p.mean, factor=chol @ p.factor) for p in parts]
    return moved, shares


def _starting_points(theta, w, white):
    """Points that show clusters: coordinates with flat marginals, if there are any."""
    centred = theta - w @ theta
    scaled = centred / np.sqrt(w @ centred**2)
    flat = w @ scaled**4 < _MAX_KURTOSIS
    return scaled[:, flat] if flat.any() else white


def _labels(points, w, K):
    """Labels of K clusters of weighted points, (m,), by k-means on draws of equal weight."""
    if K == 1:
        return np.zeros(len(w), dtype=int)
    rng = np.random.default_rng(0)
    centres, _ = kmeans2(points[systematic(w, len(w), rng)], K, minit="++", rng=rng)
    return ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


def _candidate(white, w, ess, label, tied):
    """BIC, components and shares of a mixture; None where a component has too few particles."""
    K, d = label.max() + 1, white.shape[1]
    responsibility = _responsibilities(white, w, ess, np.eye(K)[label], tied)
    if responsibility is None:
        return None
    normals = _normals(white, w, responsibility, tied)
    parts = [
        _skewed(white, w * column, ess, *normal)
        for column, normal in zip(responsibility.T, normals, strict=True)
    ]
    shares = w @ responsibility
    n_numbers = K - 1 + K * d + (1 if tied else K) * d * (d + 1) / 2
    n_numbers += sum(len(part.axes) for part in parts)
    terms = np.array([log_density(part, white) for part in parts]).T + np.log(shares)
    score = ess * (w @ np.logaddexp.reduce(terms, axis=1)) - 0.5 * n_numbers * np.log(ess)
    return score, parts, shares


def _responsibilities(white, w, ess, responsibility, tied):
    """Responsibilities (m, K) of normals by expectation maximisation; None as of a candidate."""
    d, last = white.shape[1], -np.inf
    for _ in range(_MAX_EM if responsibility.shape[1] > 1 else 0):
        shares = w @ responsibility
        if shares.min() * ess <= _MIN_POINTS * d:
            return None
        normals = _normals(white, w, responsibility, tied)
        terms = [log_density(Proposal(*normal), white) for normal in normals]
        terms = np.array(terms).T + np.log(shares)
        total = np.logaddexp.reduce(terms, axis=1)
        responsibility, mean_log = np.exp(terms - total[:, None]), w @ total
        if mean_log - last < _EM_TOL:
            break
        last = mean_log
    return responsibility


def _normals(white, w, responsibility, tied):
    """Means and Cholesky factors of weighted points, one for each column of responsibilities."""
    K, d = responsibility.shape[1], white.shape[1]
    shares, covariances = w @ responsibility, np.empty((K, d, d))
    means = (w[:, None] * responsibility).T @ white / shares[:, None]
    for k in range(K):
        centred = white - means[k]
        covariances[k] = (centred.T * (w * responsibility[:, k] / shares[k])) @ centred
    if tied:
        covariances[:] = np.tensordot(shares / shares.sum(), covariances, axes=1)
    chols = np.linalg.cholesky(covariances + _JITTER * np.eye(d))
    return list(zip(means, chols, strict=True))


def _skewed(white, w, ess, mean, chol):
    """A normal that is made skew along axes where one half of weighted points and the other are."""
    if len(mean) > _MAX_SKEWED:
        return Proposal(mean, chol)
    inner = whitened(white, mean, chol)
    splits = [slice(0, None, 2), slice(1, None, 2)]
    if any(not w[half].sum() > 0.0 for half in splits):  # One point may have all the weight.
        return Proposal(mean, chol)
    first, second = ((inner[half], w[half] / w[half].sum()) for half in splits)
    rotation = most_skewed(first[0], first[1][:, None])
    skewness = second[1] @ (second[0] @ rotation) ** 3
    error = np.sqrt(15.0 / max(0.5 * ess * w.sum(), 1.0))
    axes = np.flatnonzero(np.abs(skewness) > _MIN_ERRORS * error)
    return skewed_by(mean, chol @ rotation, axes, skewness[axes])
