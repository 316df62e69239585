"""Numba kernels of mixtures: features of rows, responsibilities, left-out densities, starts.

What BLAS can do is done by BLAS: a quadratic form in x is linear in the features (1, x, x x').
"""

import math

import numpy as np
from numba import njit

# A responsibility with a lower log is lost in rounding, and a component does not miss a lower one.
_NEGLIGIBLE, _LITTLE = -37.0, 1e-9
# A product beyond this is replaced by its log.
_LARGE = 1e100
# Rows that are taken side by side, and columns whose product is taken before its size is looked at.
_SIDE, _AT_ONCE = 32, 8
_LOG_PI = math.log(math.pi)
# From here on log gammas lose more digits than the series does.
_HUGE = 1e6
# Wrappers for calls from C, and of inner kernels from Python, take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


@njit(**_INNER)
def _log_gamma_rise(a, h):
    """As `skpmd.mixture._particles.log_gamma_rise`, of two numbers."""
    if a <= _HUGE:
        return math.lgamma(a + h) - math.lgamma(a)
    slope = h * (h - 1.0) / (2.0 * a)
    return h * math.log(a) + slope * (1.0 - (2.0 * h - 1.0) / (6.0 * a))


@njit(**_KERNEL)
def quadratic_features(X):
    """(1, x, x_i x_j for i <= j) of each row, shape (n, 1 + p + p (p + 1) / 2)."""
    n, p = X.shape
    out = np.empty((n, 1 + p + p * (p + 1) // 2))
    for a in range(n):
        out[a, 0] = 1.0
        f = 1 + p
        for i in range(p):
            x = X[a, i]
            out[a, 1 + i] = x
            for j in range(i, p):
                out[a, f] = x * X[a, j]
                f += 1
    return out


@njit(**_KERNEL)
def precisions(roots, out):
    """Inverses of L L' for lower triangular L, shape (n, p, p), written to ``out``.

    LAPACK takes ten times as long for matrices of ten columns, and makes threads wait for a lock.
    """
    n, p, _ = roots.shape
    inverse = np.empty((p, p))
    for a in range(n):
        for i in range(p):
            scale = 1.0 / roots[a, i, i]
            for j in range(i):
                inverse[i, j] = 0.0
            for k in range(i):
                factor = roots[a, i, k] * scale
                for j in range(k + 1):
                    inverse[i, j] -= factor * inverse[k, j]
            inverse[i, i] = scale
        for i in range(p):
            for j in range(p):
                out[a, i, j] = 0.0
        for k in range(p):
            for i in range(k + 1):
                factor = inverse[k, i]
                for j in range(i + 1):
                    out[a, i, j] += factor * inverse[k, j]
        for i in range(p):
            for j in range(i):
                out[a, j, i] = out[a, i, j]


@njit(**_KERNEL)
def responsibilities(log_joint, weight, resp, log_density, entropy):
    """Weighted responsibilities and log densities of rows, and the entropies of the labels.

    ``log_joint`` (n, m, K) holds log weight plus log density of each component, and ``weight`` (n,)
    how often rows count. ``resp`` (n, m, K) receives weight times responsibility r,
    ``log_density`` (n, m) the log densities; -sum of weight r log r is added to ``entropy`` (m,).
    """
    n, m, K = log_joint.shape
    for a in range(n):
        for i in range(m):
            largest = -np.inf
            for k in range(K):
                largest = max(largest, log_joint[a, i, k])
            total, weighted = 0.0, 0.0
            for k in range(K):
                gap = log_joint[a, i, k] - largest
                if gap > _NEGLIGIBLE:
                    r = math.exp(gap)
                    total += r
                    weighted += r * gap
                    resp[a, i, k] = r
                else:
                    resp[a, i, k] = 0.0
            factor = weight[a] / total
            for k in range(K):
                resp[a, i, k] *= factor
            log_density[a, i] = largest + math.log(total)
            # r log r = r (gap - log total)
            entropy[i] -= weight[a] * (weighted / total - math.log(total))


@njit(**_INNER)
def _log_of_product(x, location, rate):
    """Sum over columns of log(1 + rate (x - location)^2) of one row and one component."""
    total, more = 0.0, 0.0  # The product is 1 + more, which may be tiny.
    for j in range(len(x)):
        gap = x[j] - location[j]
        form = rate[j] * gap * gap
        more += form + more * form
        if more > _LARGE:
            total += math.log(more)
            more = 0.0
    return total + math.log1p(more)


@njit(**_KERNEL)
def product_log_sum(X, location, rate):
    """Sum over columns of log(1 + rate (x - location)^2), shape (n, c); few logs are taken.

    Rows are taken side by side, as vector registers hold them, and columns by so few that their
    product seldom overflows: where it does a row is taken by itself.
    """
    n, p = X.shape
    c = len(location)
    out, side = np.empty((n, c)), np.zeros((p, _SIDE))
    more, total = np.empty(_SIDE), np.empty(_SIDE)
    for start in range(0, n, _SIDE):
        width = min(_SIDE, n - start)
        for i in range(width):
            for j in range(p):
                side[j, i] = X[start + i, j]
        for k in range(c):
            for i in range(_SIDE):
                more[i], total[i] = 0.0, 0.0
            for first in range(0, p, _AT_ONCE):
                for j in range(first, min(p, first + _AT_ONCE)):
                    centre, factor = location[k, j], rate[k, j]
                    for i in range(_SIDE):
                        gap = side[j, i] - centre
                        form = factor * gap * gap
                        more[i] += form + more[i] * form
                for i in range(width):
                    if more[i] > _LARGE:
                        total[i] += math.log(more[i])
                        more[i] = 0.0
            for i in range(width):
                value = total[i] + math.log1p(more[i])
                if not math.isfinite(value):
                    value = _log_of_product(X[start + i], location[k], rate[k])
                out[start + i, k] = value
    return out


@njit(**_KERNEL)
def left_out(log_ratio, log_density, resp, kappa, kappa0, df, per_row, D, power):
    """Log Student densities of rows whose own responsibility r has been taken out of a component.

    Taking r of a row x out of the scatter Psi of a normal-Wishart posterior is a change of rank
    one: with d = x - mean, q = d' Psi^-1 d, kappa' = kappa - r,

        |Psi'| = |Psi| (1 - s),  d' Psi'^-1 d = q / (1 - s),  s = r q kappa / kappa'

    and x lies kappa / kappa' times as far from the new mean. No more is taken out than has come in
    over the prior's ``kappa0``: a stochastic step may have forgotten some of a row.

    * log_ratio: (n, c), log(1 + u), u = q kappa / (kappa + 1);
    * log_density: (n, c), with the row; replaced by those without;
    * resp: (n, c), responsibility of each component for one copy of the row;
    * kappa, df: (c,), of the components with all rows; df of the Student distribution;
    * per_row: what a row adds to df;
    * D: columns that share one precision;
    * power: that of the scatter's determinant in the density.
    """
    n, c = log_ratio.shape
    for a in range(n):
        for k in range(c):
            r = min(resp[a, k], kappa[k] - kappa0)
            if r <= _LITTLE:
                continue
            less = max(kappa[k] - r, kappa0)  # Rounding may leave nothing of a tiny kappa0.
            q = math.expm1(log_ratio[a, k]) * (kappa[k] + 1.0) / kappa[k]
            factor = max(1.0 - r * q * kappa[k] / less, 1e-12)
            u = less / (less + 1.0) * (kappa[k] / less) ** 2 * q / factor
            before, after = df[k], df[k] - per_row * r
            # The density with the row, with each of its factors changed.
            change = _log_gamma_rise(0.5 * after, 0.5 * D)
            change -= _log_gamma_rise(0.5 * before, 0.5 * D)
            gain = math.log(less * (kappa[k] + 1.0) / ((less + 1.0) * kappa[k]))
            change += 0.5 * D * gain - power * math.log(factor)
            change += 0.5 * (before + D) * log_ratio[a, k] - 0.5 * (after + D) * math.log1p(u)
            log_density[a, k] += change


@njit(**_KERNEL)
def left_out_product(X, log_density, resp, kappa, kappa0, df, location, scatter):
    """`left_out` for columns of their own precision: rank one in each of them."""
    n, p = X.shape
    c = len(kappa)
    for a in range(n):
        for k in range(c):
            r = min(resp[a, k], kappa[k] - kappa0)
            if r <= _LITTLE:
                continue
            less, after = max(kappa[k] - r, kappa0), df[k] - r
            one = _log_gamma_rise(0.5 * after, 0.5)
            one += 0.5 * (math.log(less / (less + 1.0)) - _LOG_PI)
            total = p * one
            for j in range(p):
                q = (X[a, j] - location[k, j]) ** 2 / scatter[k, j]
                factor = max(1.0 - r * q * kappa[k] / less, 1e-12)
                u = less / (less + 1.0) * (kappa[k] / less) ** 2 * q / factor
                total -= 0.5 * math.log(factor * scatter[k, j])
                total -= 0.5 * (after + 1.0) * math.log1p(u)
            log_density[a, k] = total


@njit(**_KERNEL)
def kmeans_plusplus(X, weight, uniforms):
    """Centres by k-means++ (Arthur and Vassilvitskii 2007), shape (K, p).

    The rows X (n, p) count ``weight`` (n,) times. ``uniforms`` (K,) has a number for each centre.
    """
    n, p = X.shape
    K = len(uniforms)
    centres = np.empty((K, p))
    nearest = np.empty(n)
    mass = weight.copy()
    for k in range(K):
        total = mass.sum()
        if not total > 0.0:  # All rows are centres: any row will do.
            mass, total = weight.copy(), weight.sum()
        target, sofar, chosen = uniforms[k] * total, 0.0, n - 1
        for a in range(n):
            sofar += mass[a]
            if sofar > target:
                chosen = a
                break
        for j in range(p):  # Numba compiles an assignment of an array to a row for seconds.
            centres[k, j] = X[chosen, j]
        for a in range(n):
            distance = 0.0
            for j in range(p):
                distance += (X[a, j] - centres[k, j]) ** 2
            if k == 0 or distance < nearest[a]:
                nearest[a] = distance
            mass[a] = weight[a] * nearest[a]
    return centres


@njit(**_KERNEL)
def lloyd(X, weight, centres, steps):
    """Labels of the rows after steps of Lloyd's algorithm; the centres are moved."""
    n, p = X.shape
    K = len(centres)
    labels = np.zeros(n, dtype=np.int64)  # Of a row whose distances overflow: the first.
    for step in range(steps + 1):
        for a in range(n):
            nearest = np.inf
            for k in range(K):
                distance = 0.0
                for first in range(0, p, _SIDE):  # Most centres are too far by some columns.
                    for j in range(first, min(p, first + _SIDE)):
                        distance += (X[a, j] - centres[k, j]) ** 2
                    if distance >= nearest:
                        break
                if distance < nearest:
                    nearest = distance
                    labels[a] = k
        if step == steps:
            break
        sums, total = np.zeros((K, p)), np.zeros(K)
        for a in range(n):
            total[labels[a]] += weight[a]
            for j in range(p):
                sums[labels[a], j] += weight[a] * X[a, j]
        for k in range(K):
            if total[k] > 0.0:  # An empty one stays.
                for j in range(p):
                    centres[k, j] = sums[k, j] / total[k]
    return labels
