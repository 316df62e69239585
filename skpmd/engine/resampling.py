"""Resampling: which ancestors new particles descend from.

Unbiased schemes all: E[number of copies of particle i] = n * w_i (Douc, Cappe and Moulines 2005).
Noise is drawn in NumPy and handed to the kernel, so that the answer depends on the generator only.
"""

import numpy as np
from numba import njit


def systematic(weights, n, rng):
    """One uniform, n equally spaced points."""
    return _invert(weights, (np.arange(n) + rng.random()) / n)


def stratified(weights, n, rng):
    """One uniform in each of n equal strata."""
    return _invert(weights, (np.arange(n) + rng.random(n)) / n)


def multinomial(weights, n, rng):
    """Independent draws."""
    return _invert(weights, np.sort(rng.random(n)))


def residual(weights, n, rng):
    """floor(n w_i) copies of each, the rest multinomial on the remainders."""
    expected = n * weights
    copies = np.floor(expected * (1.0 + 1e-12)).astype(np.int64)  # 0.9999999999999999 is 1.
    rest = n - copies.sum()
    ancestors = np.repeat(np.arange(len(weights)), copies)
    if rest > 0:
        remainder = np.maximum(expected - copies, 0.0)
        extra = multinomial(remainder / remainder.sum(), rest, rng)
        ancestors = np.sort(np.concatenate([ancestors, extra]))
    return ancestors


SCHEMES = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}


def resample(scheme, weights, n, rng):
    """Draw n ancestors by the named scheme: their indices in ascending order, shape (n,), int64.

    The weights, of shape (m,), are normalised; n need not equal m.
    """
    return SCHEMES[scheme](weights, n, rng)


def random_draws(weights, n, rng):
    """Systematic ancestors in random order, shape (n,), int64: each of them is a fair draw."""
    return rng.permutation(systematic(weights, n, rng))


@njit(cache=True, no_cfunc_wrapper=True)
def _invert(weights, points):
    """Invert the cumulative weights at ascending points in [0, 1)."""
    ancestors = np.empty(len(points), np.int64)
    total = 0.0
    last = 0  # This is the last particle alive: rounding must not carry a draw past it.
    for i in range(len(weights)):
        total += weights[i]
        if weights[i] > 0.0:
            last = i
    index = 0
    cumulative = weights[0] / total
    for j in range(len(points)):
        while points[j] >= cumulative and index < last:
            index += 1
            cumulative += weights[index] / total
        ancestors[j] = index
    return ancestors
