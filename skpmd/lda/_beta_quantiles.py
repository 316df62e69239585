"""Quantiles of mixtures of beta distributions, many at once.

A word's probability in a topic is Beta(a, b) under each particle. With b much larger than a this is
nearly a gamma distribution, P(phi <= x) = P(a, -(b + (a - 1) / 2) log(1 - x)) up to terms of the
order (a / b)^2 (Wise 1950), which is several times faster than the incomplete beta function.
"""

import numpy as np
from scipy.special import betainc, betaln, gammainc, gammaln, ndtri

# The gamma distribution stands in where a / b is below the first and b above the second.
_RARE, _LARGE = 0.003, 300.0
# Logs of quantiles lie between these; smaller quantiles are returned as 0, larger ones as 1.
_MIN_LOG, _MAX_LOG = -700.0, -1e-15
_TOL = 1e-6  # error of the logs of a quantile x and of 1 - x
_MAX_ITER = 60
_PIECE = 1 << 16  # mixtures that are handled at once


def mixture_quantiles(a, b, weights, q):
    """Quantiles of mixtures of m beta distributions, shape (n,).

    Newton's method for the log of the smaller tail's probability as a function of log x, which is
    concave where particles agree, inside a bracket that bisection shrinks. The quantiles have a
    relative error of at most 1e-4.

    The components' parameters a and b, of shape (m, n), are positive. Their weights, (m,) for all
    mixtures or (m, n), sum to 1, and the probability q is in (0, 1).
    """
    weights = np.broadcast_to(weights if np.ndim(weights) > 1 else weights[:, None], a.shape)
    pieces = [slice(start, start + _PIECE) for start in range(0, a.shape[1], _PIECE)]
    parts = [_quantiles(a[:, own], b[:, own], weights[:, own], q) for own in pieces]
    return np.concatenate(parts)


def _quantiles(a, b, weights, q):
    log_x = _guess(a, b, weights, q)
    low, high = np.full(log_x.shape, _MIN_LOG), np.full(log_x.shape, _MAX_LOG)
    left, log_beta = np.arange(log_x.size), betaln(a, b)
    upper = q > 0.5
    target = np.log(min(q, 1.0 - q))
    for _ in range(_MAX_ITER):
        u = log_x[left]
        probability, density = _distribution(a, b, log_beta, weights, u)
        tail, slope = (1.0 - probability, -density) if upper else (probability, density)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value = np.log(tail) - target
            new = u - value * tail / slope
        below = value > 0.0 if upper else value < 0.0
        low[left] = np.where(below, u, low[left])
        high[left] = np.where(below, high[left], u)
        inside = (new > low[left]) & (new < high[left])
        log_x[left] = np.where(inside, new, 0.5 * (low[left] + high[left]))
        moving = np.abs(log_x[left] - u) > _TOL * np.minimum(1.0, -u)
        left, log_beta = left[moving], log_beta[:, moving]
        a, b, weights = a[:, moving], b[:, moving], weights[:, moving]
        if not left.size:
            break
    return np.where(log_x > _MIN_LOG + 1.0, np.exp(log_x), 0.0)


def _guess(a, b, weights, q):
    """Log quantiles of gamma distributions with the mixtures' means and variances."""
    size = a + b
    mean = (weights * (a / size)).sum(axis=0)
    square = (weights * (a * (a + 1.0) / (size * (size + 1.0)))).sum(axis=0)
    shape = mean * mean / np.maximum(square - mean * mean, 1e-12 * mean * mean)
    root = 1.0 - 1.0 / (9.0 * shape) + ndtri(q) / (3.0 * np.sqrt(shape))  # Wilson and Hilferty
    small = (np.log(q) + gammaln(shape + 1.0)) / shape - np.log(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_x = np.log(mean) + np.where((shape > 1.0) & (root > 0.1), 3.0 * np.log(root), small)
    return np.clip(log_x, _MIN_LOG, np.log(np.minimum(0.5 + 0.5 * mean, 1.0 - 1e-12)))


def _distribution(a, b, log_beta, weights, log_x):
    """Probability of less than x, and density of log x."""
    survival = np.log1p(-np.exp(log_x))  # log(1 - x)
    counted = weights > 0.0
    rare = (a < _RARE * b) & (b > _LARGE) & counted
    y = (b + 0.5 * (a - 1.0)) * -survival
    probability = np.zeros(a.shape)
    probability[rare] = gammainc(a[rare], y[rare])
    others = counted & ~rare
    x = np.broadcast_to(np.exp(log_x), a.shape)
    probability[others] = betainc(a[others], b[others], x[others])
    density = np.exp(a * log_x + (b - 1.0) * survival - log_beta)
    return (weights * probability).sum(axis=0), (weights * density).sum(axis=0)
