"""A mixture of Student densities fitted to weighted particles, to draw from.

Expectation maximisation of scale mixtures (Peel and McLachlan 2000) with a number of components
that the particles can tell apart. It is a proposal, whose draws are weighed: it need not be the
best mixture, but reach as far as the particles do. Covariances of few particles are drawn towards
that of the whole.
"""

import numpy as np
from scipy.cluster.vq import kmeans2

from skpmd.engine.importance import Proposal
from skpmd.engine.particles import effective_sample_size, moments, systematic, weights, whitened

_DF = 5.0
_EACH, _MAX_COMPONENTS = 10.0, 10  # A component has so many effective particles a coordinate.
_ITERATIONS, _TOL = 30, 1e-4
_NARROWEST, _JITTER = 1e-3, 1e-9  # Of components and of the whole, in units of the whole.


def fit(theta, log_weights, rng, max_components=_MAX_COMPONENTS, max_iter=_ITERATIONS):
    """Components (a `Proposal` each) and their shares, of particles (m, d) and log weights (m,)."""
    alive = log_weights > -np.inf
    theta, log_weights = theta[alive], log_weights[alive]
    mean, covariance = moments(theta, log_weights)
    d, w, ess = len(mean), weights(log_weights), effective_sample_size(log_weights)
    # One particle may have all the weight, and a variance of next to nothing.
    reach = np.maximum(np.abs(theta - mean).max(axis=0), np.finfo(float).tiny ** 0.25)
    scale = np.maximum(np.sqrt(np.diag(covariance)), _JITTER * reach)
    correlation = covariance / scale / scale[:, None]
    chol = scale[:, None] * np.linalg.cholesky(correlation + _JITTER * np.eye(d))
    white = whitened(theta, mean, chol)
    n_components = int(np.clip(ess / (_EACH * d), 1, max_components))
    shares, means, roots = _fitted(white, w, ess, _clusters(white, w, n_components, rng), max_iter)
    parts = [
        Proposal(mean + chol @ one, chol @ root, _DF)
        for one, root in zip(means, roots, strict=True)
    ]
    return parts, shares


def _clusters(white, w, n_components, rng):
    """Responsibilities (m, K) of 0 and 1, by k-means on draws of equal weight."""
    if n_components == 1:
        return np.ones((len(w), 1))
    draws = white[systematic(w, len(w), rng)]
    centres = np.unique(draws, axis=0)
    if len(centres) > n_components:
        centres, label = kmeans2(draws, n_components, minit="++", rng=rng)
        centres = centres[np.unique(label)]
    nearest = ((white[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return np.eye(len(centres))[nearest]


def _fitted(white, w, ess, responsibility, max_iter):
    """Shares, means and Cholesky factors by expectation maximisation."""
    d, last = white.shape[1], -np.inf
    nearness = np.ones(responsibility.shape)
    for _ in range(max_iter):
        shares = w @ responsibility
        enough = shares * ess > d + 2.0
        enough[shares.argmax()] = True
        if not enough.all():
            responsibility, nearness = responsibility[:, enough], nearness[:, enough]
            responsibility = responsibility / np.maximum(
                responsibility.sum(axis=1, keepdims=True), np.finfo(float).tiny
            )
            shares = w @ responsibility
        table = w[:, None] * responsibility * nearness
        means = table.T @ white / table.sum(axis=0)[:, None]
        roots = [
            _root(white - mean, column / share, (d + 1.0) / (share * ess + d + 1.0))
            for mean, column, share in zip(means, table.T, shares, strict=True)
        ]
        squares = np.stack(
            [(whitened(white, *one) ** 2).sum(axis=1) for one in zip(means, roots, strict=True)],
            axis=1,
        )
        terms = np.log(shares) - [np.log(np.diag(root)).sum() for root in roots]
        terms = terms - 0.5 * (_DF + d) * np.log1p(squares / _DF)
        nearness = (_DF + d) / (_DF + squares)
        total = np.logaddexp.reduce(terms, axis=1)
        responsibility, mean_log = np.exp(terms - total[:, None]), w @ total
        if mean_log - last < _TOL:
            break
        last = mean_log
    shares = w @ responsibility
    return shares / shares.sum(), means, roots


def _root(centred, w, towards):
    """Cholesky factor of a covariance, which is drawn ``towards`` one as wide, but round."""
    d = centred.shape[1]
    covariance = (centred.T * w) @ centred
    width = min(1.0, np.trace(covariance) / d)
    round_part = (towards * width + _NARROWEST**2) * np.eye(d)
    return np.linalg.cholesky((1.0 - towards) * covariance + round_part)
