"""Where the components of a particle start: k-means++ and a few steps of Lloyd's (Numba)."""

import numpy as np
from numba import njit


@njit(cache=True)
def spread(X, weight, uniforms):
    """Centres by k-means++ (Arthur and Vassilvitskii 2007), shape (K, p).

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows.
    weight : ndarray of shape (n,)
        How often each counts.
    uniforms : ndarray of shape (K,)
        Uniform numbers, one for each centre.
    """
    n, p = X.shape
    K = len(uniforms)
    centres = np.empty((K, p))
    nearest = np.empty(n)
    mass = weight.copy()
    for k in range(K):
        total = mass.sum()
        if not total > 0.0:  # all rows are centres: any row will do
            mass, total = weight.copy(), weight.sum()
        target, sofar, chosen = uniforms[k] * total, 0.0, n - 1
        for a in range(n):
            sofar += mass[a]
            if sofar > target:
                chosen = a
                break
        centres[k] = X[chosen]
        for a in range(n):
            distance = 0.0
            for j in range(p):
                distance += (X[a, j] - centres[k, j]) ** 2
            if k == 0 or distance < nearest[a]:
                nearest[a] = distance
            mass[a] = weight[a] * nearest[a]
    return centres


@njit(cache=True)
def lloyd(X, weight, centres, steps):
    """Labels of the rows after steps of Lloyd's algorithm; the centres are moved."""
    n, p = X.shape
    K = len(centres)
    labels = np.empty(n, dtype=np.int64)
    for step in range(steps + 1):
        for a in range(n):
            least = np.inf
            for k in range(K):
                distance = 0.0
                for j in range(p):
                    distance += (X[a, j] - centres[k, j]) ** 2
                if distance < least:
                    least = distance
                    labels[a] = k
        if step == steps:
            break
        sums, total = np.zeros((K, p)), np.zeros(K)
        for a in range(n):
            total[labels[a]] += weight[a]
            for j in range(p):
                sums[labels[a], j] += weight[a] * X[a, j]
        for k in range(K):
            if total[k] > 0.0:  # an empty one stays
                for j in range(p):
                    centres[k, j] = sums[k, j] / total[k]
    return labels
