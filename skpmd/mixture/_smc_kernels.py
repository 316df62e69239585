"""Numba kernels of mixtures with all parameters as coordinates: small matrices of many particles.

NumPy's products and factors of stacks of such matrices take ten times as long.
"""

import math

import numpy as np
from numba import njit

# A curvature steers proposals and need not be exact: this share is added to its diagonal.
_JITTER = 1e-8
# Wrappers for calls from C, and of inner kernels from Python, take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


@njit(**_KERNEL, error_model="numpy")
def natural_parameters(log_mixing, means, factor):
    """What multiplies (1, x, x x') in log (mixing weight x density); shape (m, K, q)."""
    m, K, p = means.shape
    out, half = np.empty((m, K, 1 + p + p * (p + 1) // 2)), np.empty(p)
    for i in range(m):
        for k in range(K):
            # C' mu first: the square mu' Lambda mu is then a sum of squares.
            square, log_det = 0.0, 0.0
            for a in range(p):
                total = 0.0
                for b in range(a, p):
                    total += factor[i, k, b, a] * means[i, k, b]
                half[a] = total
                square += total * total
                log_det += math.log(factor[i, k, a, a])
            constant = log_mixing[i, k] + log_det - 0.5 * p * math.log(2.0 * math.pi)
            out[i, k, 0] = constant - 0.5 * square
            f = 1 + p
            for a in range(p):
                total = 0.0
                for b in range(a + 1):
                    total += factor[i, k, a, b] * half[b]
                out[i, k, 1 + a] = total
                for b in range(a, p):
                    precision = 0.0
                    for c in range(a + 1):
                        precision += factor[i, k, a, c] * factor[i, k, b, c]
                    out[i, k, f] = precision * (-0.5 if a == b else -1.0)
                    f += 1
    return out


@njit(**_KERNEL)
def relative_to_largest(log_density, top):
    """Subtract the largest of the K from log densities (m, K, n); ``top`` (m, n) receives it."""
    m, K, n = log_density.shape
    for i in range(m):
        for r in range(n):
            top[i, r] = log_density[i, 0, r]
        for k in range(1, K):
            for r in range(n):
                top[i, r] = max(top[i, r], log_density[i, k, r])
        for k in range(K):
            for r in range(n):
                log_density[i, k, r] -= top[i, r]


@njit(**_KERNEL, error_model="numpy")
def add_shares(density, weight, total):
    """Add to ``total`` (K, n) the shares of densities (m, K, n) in their sums, weighted (m,)."""
    m, K, n = density.shape
    share = np.empty(n)
    for i in range(m):
        for r in range(n):
            share[r] = density[i, 0, r]
        for k in range(1, K):
            for r in range(n):
                share[r] += density[i, k, r]
        for r in range(n):
            share[r] = weight[i] / share[r]
        for k in range(K):
            for r in range(n):
                total[k, r] += density[i, k, r] * share[r]


@njit(**_KERNEL, error_model="numpy")
def parameter_gradients(count, first, second, means, factor):
    """As `skpmd.mixture._component_priors.by_parameters`."""
    m, K, p = means.shape
    by_means, by_factor = np.empty((m, K, p)), np.zeros((m, K, p, p))
    away, half, scatter = np.empty(p), np.empty(p), np.empty((p, p))
    for i in range(m):
        for k in range(K):
            for a in range(p):
                away[a] = first[i, k, a] - count[i, k] * means[i, k, a]
            for a in range(p):
                half[a] = 0.0
                for b in range(a, p):
                    half[a] += factor[i, k, b, a] * away[b]
            for a in range(p):
                total = 0.0
                for b in range(a + 1):
                    total += factor[i, k, a, b] * half[b]
                by_means[i, k, a] = total
                # second - first mu' - mu first' + count mu mu' = second - away mu' - mu first'
                for b in range(p):
                    cross = away[a] * means[i, k, b] + means[i, k, a] * first[i, k, b]
                    scatter[a, b] = second[i, k, a, b] - cross
            for a in range(p):
                for b in range(a + 1):
                    total = 0.0
                    for c in range(b, p):
                        total += scatter[a, c] * factor[i, k, c, b]
                    by_factor[i, k, a, b] = -total
                by_factor[i, k, a, a] = count[i, k] + by_factor[i, k, a, a] * factor[i, k, a, a]
    return by_means, by_factor


@njit(**_KERNEL, error_model="numpy")
def scatter_about(count, first, second, means):
    """Sum of w r (x - mu)(x - mu)', without a difference of large numbers where mu is far."""
    m, K, p = means.shape
    out = np.empty((m, K, p, p))
    for i in range(m):
        for k in range(K):
            n = max(count[i, k], 1e-300)
            for a in range(p):
                centre_a = first[i, k, a] / n
                for b in range(p):
                    centre_b = first[i, k, b] / n
                    about_centre = second[i, k, a, b] - first[i, k, a] * centre_b
                    away = (means[i, k, a] - centre_a) * (means[i, k, b] - centre_b)
                    out[i, k, a, b] = about_centre + n * away
    return out


@njit(**_KERNEL)
def squares(factor):
    """C C' of lower triangular C, shape (m, K, p, p)."""
    m, K, p, _ = factor.shape
    out = np.empty((m, K, p, p))
    for i in range(m):
        for k in range(K):
            for a in range(p):
                for b in range(a + 1):
                    total = 0.0
                    for c in range(b + 1):
                        total += factor[i, k, a, c] * factor[i, k, b, c]
                    out[i, k, a, b] = out[i, k, b, a] = total
    return out


@njit(**_KERNEL)
def forms(factor, away):
    """|C' v|^2 of lower triangular C and vectors v (m, K, p); shape (m, K)."""
    m, K, p = away.shape
    out = np.zeros((m, K))
    for i in range(m):
        for k in range(K):
            for a in range(p):
                total = 0.0
                for b in range(a, p):
                    total += factor[i, k, b, a] * away[i, k, b]
                out[i, k] += total * total
    return out


@njit(**_KERNEL)
def traces(root, factor):
    """tr(C' L L' C) of one lower triangular L (p, p) and lower triangular C; shape (m, K)."""
    m, K, p, _ = factor.shape
    out = np.zeros((m, K))
    for i in range(m):
        for k in range(K):
            for a in range(p):
                for b in range(p):
                    total = 0.0
                    for c in range(max(a, b), p):
                        total += root[c, a] * factor[i, k, c, b]
                    out[i, k] += total * total
    return out


@njit(**_INNER, error_model="numpy")
def _factored(block, size, even):
    """Write the Cholesky factor of a block, scaled to ones on the diagonal, to ``even``."""
    finite = True
    for a in range(size):
        for b in range(a + 1):
            scale = math.sqrt(block[a, a]) * math.sqrt(block[b, b])
            even[a, b] = block[a, b] / scale
            finite = finite and math.isfinite(even[a, b])
    for a in range(size):
        for b in range(a + 1):
            if not finite:
                even[a, b] = 1.0 if a == b else 0.0
            total = even[a, b] + (_JITTER if a == b else 0.0)
            for c in range(b):
                total -= even[a, c] * even[b, c]
            even[a, b] = math.sqrt(max(total, _JITTER)) if a == b else total / even[b, b]


@njit(**_KERNEL, error_model="numpy")
def curvature_roots(of_sticks, of_means, scatter, count, factor, ends):
    """Packed roots (m, q) of the curvature: blocks of sticks, means, columns of C.

    * of_sticks: (m, K - 1), of each stick;
    * of_means: (m, K, p, p), of the means;
    * scatter, count: (m, F, p, p) and (m, F), with F factors: see
      `skpmd.mixture._component_priors.ComponentConditional`;
    * factor: (m, K, p, p), C;
    * ends: (d,), where the rows end; see `skpmd.engine.triangular`.
    """
    m, K, p, _ = of_means.shape
    F, n_entries = scatter.shape[1], p * (p + 1) // 2
    two = K - 1 + K * p
    roots = np.zeros((m, ends[-1]))
    block, even = np.empty((p, p)), np.empty((p, p))
    for i in range(m):
        for k in range(K - 1):
            roots[i, k] = math.sqrt(of_sticks[i, k])
        for k in range(K):
            _factored(of_means[i, k], p, even)
            for a in range(p):
                at = K - 1 + k * p + a
                for b in range(a + 1):
                    place = ends[at] - 1 - (a - b)
                    roots[i, place] = math.sqrt(of_means[i, k, a, a]) * even[a, b]
        for k in range(F):
            for j in range(p):  # Entries (a, j) of C, a >= j, the first by its logarithm.
                size, diagonal = p - j, factor[i, k, j, j]
                for a in range(size):
                    for b in range(size):
                        block[a, b] = scatter[i, k, a + j, b + j]
                for a in range(size):
                    block[0, a] *= diagonal
                    block[a, 0] *= diagonal
                block[0, 0] += count[i, k]
                _factored(block, size, even)
                for a in range(size):
                    row = two + k * n_entries + (a + j) * (a + j + 1) // 2 + j
                    for b in range(a + 1):
                        column = two + k * n_entries + (b + j) * (b + j + 1) // 2 + j
                        place = ends[row] - 1 - (row - column)
                        roots[i, place] = math.sqrt(block[a, a]) * even[a, b]
    return roots
