"""Uncertainty of documents' topic proportions: a mixture of beta distributions over particles.

Under each particle a topic's proportion has a beta distribution with the mean that predictions have
and the size of `skpmd.lda._inference.proportion_sizes`.
"""

import numpy as np

from skpmd.lda._beta_quantiles import mixture_quantiles

_MIN_PARAMETER = 1e-300  # A document of a single topic would have b = 0.


def standard_deviations(mean, size, weights):
    """Of the mixture: ``mean`` and ``size`` (m, n, K), ``weights`` (m,); shape (n, K)."""
    square = mean * (mean * size + 1.0) / (size + 1.0)
    centre = np.tensordot(weights, mean, axes=1)
    return np.sqrt(np.maximum(np.tensordot(weights, square, axes=1) - centre**2, 0.0))


def intervals(mean, size, weights, tails):
    """Quantiles of the mixture at probabilities ``tails``; shape (n, K, len(tails))."""
    m = len(mean)
    a = np.maximum(size * mean, _MIN_PARAMETER).reshape(m, -1)
    b = np.maximum(size * (1.0 - mean), _MIN_PARAMETER).reshape(m, -1)
    ends = [mixture_quantiles(a, b, weights, q) for q in tails]
    # Of sizes beyond 1e12 rounding may swap the ends.
    return np.sort(np.stack(ends, axis=-1), axis=-1).reshape(*mean.shape[1:], len(tails))
