"""The likelihood of normal mixtures, one for each particle, and what its gradient is made of.

A normal density is linear in the products of a row's columns, t(x) = (1, x, x x'): the log
densities of a block of rows under all components of a block of particles are one matrix product,
and so are the sums of t(x) by responsibility, which every gradient is a function of.
"""

from typing import NamedTuple

import numpy as np

from skpmd._runtime.threads import in_order
from skpmd.mixture._kernels import quadratic_features
from skpmd.mixture._smc_kernels import natural_parameters, relative_to_largest

# Densities are taken in blocks of about so many numbers, which stay in a processor's cache, and of
# at most so many rows.
_BLOCK, _MAX_ROWS = 1 << 17, 2048


class Mixtures(NamedTuple):
    """Normal mixtures, one for each particle."""

    log_mixing: np.ndarray  # (m, K): Log mixing weights.
    means: np.ndarray  # (m, K, p): Means.
    factor: np.ndarray  # (m, K, p, p): Lower Cholesky factors C of the precisions, Lambda = C C'.


class Sums(NamedTuple):
    """Sums over rows by responsibility: the likelihood and its gradient ask for no more."""

    value: np.ndarray  # (m,): Log-likelihood.
    count: np.ndarray  # (m, K): Sum of w r.
    first: np.ndarray  # (m, K, p): Sum of w r x.
    second: np.ndarray  # (m, K, p, p): Sum of w r x x'.

    def plus(self, other):
        """These and others."""
        return Sums(*(one + more for one, more in zip(self, other, strict=True)))


def no_sums(mixtures):
    """`Sums` of no rows."""
    shape = mixtures.means.shape
    return Sums(
        np.zeros(shape[0]), np.zeros(shape[:2]), np.zeros(shape), np.zeros((*shape, shape[2]))
    )


def log_likelihood(mixtures, X, weight):
    """Weighted sum over rows of the log density; shape (m,)."""
    value = np.zeros(len(mixtures.log_mixing))
    for particles, part in _by_blocks(lambda t, w, d, s, log_sum: log_sum @ w, mixtures, X, weight):
        value[particles] += part
    return value


def sums(mixtures, X, weight):
    """`Sums` of all rows."""
    m, n_components, p = mixtures.means.shape
    value, moments = np.zeros(m), np.zeros((m, n_components, 1 + p + p * (p + 1) // 2))

    def of(t, w, density, total, log_sum):
        density *= (w / total)[:, None, :]  # The responsibilities, w r.
        return log_sum @ w, (density.reshape(-1, len(w)) @ t).reshape(*density.shape[:2], -1)

    for particles, (part, of_part) in _by_blocks(of, mixtures, X, weight):
        value[particles] += part
        moments[particles] += of_part
    second = np.empty((m, n_components, p, p))
    rows, columns = np.triu_indices(p)
    second[..., rows, columns] = second[..., columns, rows] = moments[..., 1 + p :]
    return Sums(value, moments[..., 0], moments[..., 1 : 1 + p], second)


def _by_blocks(function, mixtures, X, weight):
    """Slices of particles, and a function for each.

    It is of t(x), the weights, densities relative to the row's largest, (m, K, n), their sums over
    components, (m, n), and the logs of the sums of the densities themselves.
    """
    mixtures = Mixtures(*(np.ascontiguousarray(values) for values in mixtures))
    natural, (m, n_components) = natural_parameters(*mixtures), mixtures.log_mixing.shape
    size = min(_MAX_ROWS, len(X))
    many = max(1, _BLOCK // (n_components * size))
    for start in range(0, len(X), size):
        t, w = quadratic_features(X[start : start + size]), weight[start : start + size]

        def of(one, t=t, w=w):
            particles = slice(one, min(one + many, m))
            part = natural[particles]
            density = (part.reshape(-1, t.shape[1]) @ t.T).reshape(*part.shape[:2], len(w))
            top = np.empty((len(part), len(w)))
            relative_to_largest(density, top)
            np.exp(density, out=density)
            total = np.add.reduce(density, axis=1)
            return particles, function(t, w, density, total, np.log(total) + top)

        yield from in_order(of, range(0, m, many))
