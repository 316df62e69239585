"""Mixtures of beta distributions: those of words' probabilities, and of documents' proportions.

A word's probability in a topic is Beta(a, b) under each particle. With b much larger than a this is
nearly a gamma distribution, P(phi <= x) = P(a, -(b + (a - 1) / 2) log(1 - x)) up to terms of the
order (a / b)^2 (Wise 1950), which is several times faster than the incomplete beta function.

Given how many of a document's words are of a topic, its proportion has a beta distribution, and the
posterior is a mixture over these numbers. For each particle it has three components: for no word
of the topic and for all words, which are exact, and one with the mean and the variance of all other
numbers. A document that may have a word of a topic or none has most of a proportion near 0 and the
rest far from it, which no single beta distribution has.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaln, gammainc, gammaln, ndtri

# The gamma distribution stands in where a / b is below the first and b above the second.
_RARE, _LARGE = 0.003, 300.0
# Logs of quantiles lie between these; smaller quantiles are returned as 0, larger ones as 1.
_MIN_LOG, _MAX_LOG = -700.0, -1e-15
_TOL = 1e-6  # error of the logs of a quantile x and of 1 - x
_MAX_ITER = 60
_PIECE = 1 << 16  # mixtures that are handled at once
_MIN_PARAMETER = 1e-300  # A document of a single topic would have b = 0.
_NEGLIGIBLE = 1e-7  # weights of components that are left out


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
    with np.errstate(over="ignore"):  # Where rounding leaves no digit: bisection is left.
        density = np.exp(a * log_x + (b - 1.0) * survival - log_beta)
    return (weights * probability).sum(axis=0), (weights * density).sum(axis=0)


class Proportions(NamedTuple):
    """Components of the mixtures, each of shape (c, n, K): means, sizes a + b, and weights."""

    mean: np.ndarray
    size: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, moments, alpha, totals, weights):
        """Of moments (m, n, 4, K) of words in topics; see `skpmd.lda._inference.word_moments`.

        ``alpha`` (m, K) are the priors, ``totals`` (n,) the documents' words, and ``weights`` (m,)
        those of the particles.
        """
        first, second, some, every = np.moveaxis(moments, 2, 0)
        totals = totals[:, None]
        found = first.sum(axis=2, keepdims=True)  # The documents' words, up to rounding.
        first = first * np.divide(totals, found, out=np.ones_like(found), where=found > 0)
        none, every = _certain(1.0 - some), _certain(every)
        between = _certain(1.0 - none - every)
        inverse = np.divide(1.0, between, out=np.zeros_like(between), where=between > 0.0)
        words = np.clip((first - every * totals) * inverse, 0.0, totals)
        spread = np.maximum((second - every * totals**2) * inverse - words**2, 0.0)
        alpha = np.broadcast_to(alpha[:, None], first.shape)
        size = alpha.sum(axis=2, keepdims=True) + totals
        a = alpha + words
        rest = a * (size - a)
        # Variances of n add to those given n: sizes are smaller than those of certain words.
        excess = np.divide(spread * size, rest, out=np.zeros_like(rest), where=rest > 0.0)
        own = np.maximum((size - excess) / (1.0 + excess), _MIN_PARAMETER)
        size = np.broadcast_to(size, first.shape)
        means = np.array([alpha, a, alpha + totals]) / size
        weight = weights[:, None, None] * np.array([none, between, every])
        weight /= weight.sum(axis=(0, 1))
        parts = means, np.array([size, own, size]), weight
        return cls(*(part.reshape(-1, *first.shape[1:]) for part in parts))

    def standard_deviations(self):
        """Of the mixtures; shape (n, K)."""
        mean, size, weight = self
        square = (weight * mean * (mean * size + 1.0) / (size + 1.0)).sum(axis=0)
        return np.sqrt(np.maximum(square - (weight * mean).sum(axis=0) ** 2, 0.0))

    def intervals(self, tails):
        """Quantiles of the mixtures at probabilities ``tails``; shape (n, K, len(tails))."""
        c = len(self.mean)
        a = np.maximum(self.size * self.mean, _MIN_PARAMETER).reshape(c, -1)
        b = np.maximum(self.size * (1.0 - self.mean), _MIN_PARAMETER).reshape(c, -1)
        ends = [mixture_quantiles(a, b, self.weight.reshape(c, -1), q) for q in tails]
        # Of sizes beyond 1e12 rounding may swap the ends.
        return np.sort(np.stack(ends, axis=-1), axis=-1).reshape(*self.mean.shape[1:], len(tails))


def _certain(probability):
    """Probabilities, those near 0 or 1 set to these."""
    some = np.clip(probability, 0.0, 1.0)
    some[some < _NEGLIGIBLE] = 0.0
    some[some > 1.0 - _NEGLIGIBLE] = 1.0
    return some
