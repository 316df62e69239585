"""Uncertainty of documents' topic proportions: a mixture of beta distributions.

Given how many of a document's words are of a topic, its proportion has a beta distribution, and the
posterior is a mixture over these numbers. For each particle it has three components: for no word
of the topic and for all words, which are exact, and one with the mean and the variance of all other
numbers. A document that may have a word of a topic or none has most of a proportion near 0 and the
rest far from it, which no single beta distribution has.
"""

from typing import NamedTuple

import numpy as np

from skpmd.lda._beta_quantiles import mixture_quantiles

_MIN_PARAMETER = 1e-300  # A document of a single topic would have b = 0.
_NEGLIGIBLE = 1e-7  # weights of components that are left out


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
