"""Quantiles of a mixture of beta distributions, cell by cell.

A cell is a word's probability in a topic: Beta(a, b) under each particle. With much larger b than a
it is nearly a gamma distribution, P(phi <= x) = P(a, -(b + (a - 1) / 2) log(1 - x)) but for terms
of the order (a / b)^2 (Wise 1950), which is several times faster than the incomplete beta function.
"""

import numpy as np
from scipy.special import betainc, betaln, gammainc, gammaln, ndtri

_RARE, _LARGE = 0.003, 300.0  # a / b below and b above which the gamma distribution serves
_LEAST_LOG, _MOST_LOG = -700.0, -1e-15  # of a quantile; what is less is 0, and more 1
_TOL = 1e-6  # in the logs of a quantile and of 1 - it
_STEPS = 60
_CELLS = 1 << 16  # at once


def mixture_quantiles(a, b, weights, q):
    """Quantiles of mixtures of m beta distributions.

    Newton's method for the log of the smaller tail's probability as a function of log x, which is
    concave where particles agree, inside a bracket that bisection shrinks.

    Parameters
    ----------
    a, b : ndarray of shape (m, n)
        Parameters of the mixtures' parts; positive.
    weights : ndarray of shape (m,)
        Of the parts, sum 1.
    q : float
        Probability in (0, 1).

    Returns
    -------
    ndarray of shape (n,)
        Quantiles, to a relative error of 1e-4.
    """
    pieces = range(0, a.shape[1], _CELLS)
    parts = [
        _quantiles(a[:, start : start + _CELLS], b[:, start : start + _CELLS], weights, q)
        for start in pieces
    ]
    return np.concatenate(parts)


def _quantiles(a, b, weights, q):
    log_x = _guess(a, b, weights, q)
    low, high = np.full(log_x.shape, _LEAST_LOG), np.full(log_x.shape, _MOST_LOG)
    left, parts = np.arange(log_x.size), (a, b, betaln(a, b))
    upper = q > 0.5
    target = np.log(min(q, 1.0 - q))
    for _ in range(_STEPS):
        u = log_x[left]
        probability, density = _distribution(*parts, weights, u)
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
        left, parts = left[moving], tuple(part[:, moving] for part in parts)
        if not left.size:
            break
    return np.where(log_x > _LEAST_LOG + 1.0, np.exp(log_x), 0.0)


def _guess(a, b, weights, q):
    """Log quantiles of gamma distributions with the mixtures' means and variances, in (0, 1)."""
    size = a + b
    mean = weights @ (a / size)
    square = weights @ (a * (a + 1.0) / (size * (size + 1.0)))
    shape = mean * mean / np.maximum(square - mean * mean, 1e-12 * mean * mean)
    root = 1.0 - 1.0 / (9.0 * shape) + ndtri(q) / (3.0 * np.sqrt(shape))  # Wilson and Hilferty
    small = (np.log(q) + gammaln(shape + 1.0)) / shape - np.log(shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        log_x = np.log(mean) + np.where((shape > 1.0) & (root > 0.1), 3.0 * np.log(root), small)
    return np.clip(log_x, _LEAST_LOG, np.log(np.minimum(0.5 + 0.5 * mean, 1.0 - 1e-12)))


def _distribution(a, b, log_beta, weights, log_x):
    """Probability below x and density of log x."""
    survival = np.log1p(-np.exp(log_x))  # log(1 - x)
    rare = (a < _RARE * b) & (b > _LARGE)
    y = (b + 0.5 * (a - 1.0)) * -survival
    probability = np.empty(a.shape)
    probability[rare] = gammainc(a[rare], y[rare])
    if not rare.all():
        x = np.broadcast_to(np.exp(log_x), a.shape)
        probability[~rare] = betainc(a[~rare], b[~rare], x[~rare])
    density = np.exp(a * log_x + (b - 1.0) * survival - log_beta)
    return weights @ probability, weights @ density
