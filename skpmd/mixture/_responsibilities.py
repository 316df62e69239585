"""Responsibilities averaged over particles that are mixtures of normals.

A normal's log density is linear in the features (1, x, x x') of a row, or (1, x, x^2): those of
many rows under many components are one matrix product.
"""

import numpy as np
from scipy.special import softmax

from skpmd.engine.threads import each
from skpmd.mixture._smc_kernels import add_shares, relative_to_largest

# Rows are taken so many at a time, with particles of about so many densities.
_ROWS, _DENSITIES = 2048, 1 << 17
# So many particles tell a label where the best component is ahead of the next by this much.
_FEW, _CLEAR = 128, 0.3


def responsibilities(log_density, log_mixing):
    """Responsibilities (n, m, K) of each particle's components, by log densities (n, m K)."""
    return softmax(log_density.reshape(-1, *log_mixing.shape) + log_mixing, axis=2)


def averages(students, log_mixing, weights, X):
    """Responsibilities (n, K) of rows, averaged over weighted particles.

    ``students`` are their components one after the other, ``log_mixing`` (m, K) their log weights
    within each particle, and X an array or a `RowView`.
    """
    of = _of_normals if students.normal.all() else _of_students
    return of(students, log_mixing, weights, X)


def _of_students(students, log_mixing, weights, X):
    out = np.empty((len(X), log_mixing.shape[1]))
    for rows, log_density in students.blocks(X):
        mean = np.tensordot(responsibilities(log_density, log_mixing), weights, axes=(1, 0))
        out[rows] = mean / mean.sum(axis=1, keepdims=True)
    return out


def _of_normals(students, log_mixing, weights, X):
    m, K = log_mixing.shape
    forms = -0.5 * students.coefficients
    forms[:, 0] += students.constant + log_mixing.ravel()
    out = np.empty((len(X), K))

    def fill(start):
        features = students.features(X[start : start + _ROWS]).T
        total = np.zeros((K, features.shape[1]))
        many = max(1, _DENSITIES // total.size)
        for first in range(0, m, many):
            part = forms[first * K : (first + many) * K]
            joint = (part @ features).reshape(-1, *total.shape)
            relative_to_largest(joint, np.empty((len(joint), total.shape[1])))
            np.exp(joint, out=joint)
            add_shares(joint, weights[first : first + many], total)
        out[start : start + _ROWS] = (total / total.sum(axis=0)).T

    each(fill, range(0, len(X), _ROWS))
    return out


def few_of(weights):
    """Places of a few particles that stand for all, each with the same weight; None for all."""
    if len(weights) < 4 * _FEW:
        return None
    shares = np.cumsum(weights) / np.sum(weights)
    places = np.searchsorted(shares, (np.arange(_FEW) + 0.5) / _FEW)
    return np.minimum(places, len(weights) - 1)


def are_clear(probabilities):
    """Whether few particles tell the most probable component of each row, shape (n,)."""
    if probabilities.shape[1] == 1:
        return np.ones(len(probabilities), dtype=bool)
    second, best = np.partition(probabilities, -2, axis=1)[:, -2:].T
    return best - second > _CLEAR
