"""Kernels in single precision: gradients inside a trajectory, and averages over particles."""

import numpy as np
from numba import njit

LANES = 128  # Rows that are handled side by side, so that their vectors stay in the first cache.
_AT_ONCE = 64  # Particles whose probabilities are added up before the sum goes on in float64.
# Constants of e^x in single precision: literals would make the arithmetic double.
_MIN_EXPONENT, _ROUNDER, _LOG2E = np.float32(-87.0), np.float32(12582912.0), np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_E6, _E5, _E4 = np.float32(1.9875691e-4), np.float32(1.3981999e-3), np.float32(8.3334519e-3)
_E3, _E2, _E1 = np.float32(4.1665795e-2), np.float32(1.6666665e-1), np.float32(0.5)
_ZERO, _ONE, _BIAS, _FRACTION = np.float32(0.0), np.float32(1.0), np.int32(127), np.int32(23)
_ROUNDING = np.float32(1e-6)  # So much of a variance is rounding.
# Wrappers for calls from C take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}


@njit(**_KERNEL)
def _single_exponential(x, shifted, length):
    """e^x of up to 128 float32 numbers x <= 0 in place, to 1e-7; as `_exponential`."""
    bits = shifted.view(np.int32)
    for j in range(length):
        shifted[j] = max(x[j], _MIN_EXPONENT) * _LOG2E + _ROUNDER
    for j in range(length):
        k = shifted[j] - _ROUNDER
        r = max(x[j], _MIN_EXPONENT) - k * _LN2_HIGH - k * _LN2_LOW
        p = _E5 + r * _E6
        p = _E4 + r * p
        p = _E3 + r * p
        p = _E2 + r * p
        p = _E1 + r * p
        x[j] = _ONE + r + r * r * p
    for j in range(length):
        bits[j] = (bits[j] + _BIAS) << _FRACTION
    for j in range(length):
        x[j] *= shifted[j]


@njit(**_KERNEL)
def sigmoid_slopes(table, weight):
    """Replace float32 logits by |w_n| times the derivative of log sigmoid(sign(w_n) z).

    That is w_n sigmoid(-sign(w_n) z) for weights w_n that have the sign of their row's label. The
    arithmetic is in single precision: these are for gradients inside a trajectory.
    """
    m, n = table.shape
    small, scratch = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(m):
        for start in range(0, n, LANES):
            length = min(LANES, n - start)
            z = table[i, start : start + length]
            w = weight[start : start + length]
            for j in range(length):
                small[j] = -abs(z[j])
            _single_exponential(small, scratch, length)
            for j in range(length):
                e = small[j]
                top = _ONE if z[j] * w[j] < _ZERO else e
                z[j] = w[j] * top / (_ONE + e)


@njit(**_KERNEL)
def softmax_slopes(table, label, weight):
    """Replace float32 logits (m, K, n) by weight_n (1{k = label_n} - p_k), as `sigmoid_slopes`."""
    m, n_classes, n = table.shape
    top, mass = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    for i in range(m):
        for start in range(0, n, LANES):
            stop = min(start + LANES, n)
            length = stop - start
            w = weight[start:stop]
            top[:length] = table[i, 0, start:stop]
            mass[:] = _ZERO
            for k in range(1, n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    top[j] = max(top[j], z[j])
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    z[j] -= top[j]
                _single_exponential(z, scratch, length)
                for j in range(length):
                    mass[j] += z[j]
            for j in range(length):
                mass[j] = -w[j] / mass[j]
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    z[j] *= mass[j]
            for j in range(length):
                table[i, label[start + j], start + j] += w[j]


@njit(**_KERNEL)
def average_sigmoids(table, centre, scale, weight, averages):
    """Averages of sigmoid(-z) and sigmoid(z) over particles i, z_in = centre_n + scale_n table_in.

    ``table`` (m, n), ``centre`` and ``scale`` (n,), and ``weight`` (m,), which adds up to 1, are
    float32. ``averages`` (2, n) are float64, each a sum of its own: a small one has all its digits,
    unless it is less than e^-87.
    """
    m, n = table.shape
    small, scratch = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    below, above = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    z = np.empty(LANES, np.float32)
    for start in range(0, n, LANES):
        length = min(LANES, n - start)
        for j in range(length):
            averages[0, start + j] = averages[1, start + j] = 0.0
        for first in range(0, m, _AT_ONCE):
            below[:], above[:] = _ZERO, _ZERO
            for i in range(first, min(m, first + _AT_ONCE)):
                w = weight[i]
                for j in range(length):
                    z[j] = centre[start + j] + scale[start + j] * table[i, start + j]
                    small[j] = -abs(z[j])
                _single_exponential(small, scratch, length)
                for j in range(length):
                    large = w / (_ONE + small[j])
                    less = small[j] * large
                    below[j] += less if z[j] > _ZERO else large
                    above[j] += large if z[j] > _ZERO else less
            for j in range(length):
                averages[0, start + j] += below[j]
                averages[1, start + j] += above[j]


@njit(**_KERNEL)
def average_softmaxes(table, centre, weight, averages):
    """Averages (K, n) of softmax(z) over particles i, z_ikn = centre_kn + table_ikn.

    As `average_sigmoids`; the table (m, K, n) is overwritten.
    """
    m, n_classes, n = table.shape
    top, factor = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    sums = np.empty((n_classes, LANES), np.float32)
    averages[:] = 0.0
    for start in range(0, n, LANES):
        stop = min(start + LANES, n)
        length = stop - start
        for first in range(0, m, _AT_ONCE):
            sums[:] = _ZERO
            for i in range(first, min(m, first + _AT_ONCE)):
                for k in range(n_classes):
                    z, c = table[i, k, start:stop], centre[k, start:stop]
                    for j in range(length):
                        z[j] += c[j]
                        top[j] = z[j] if k == 0 else max(top[j], z[j])
                        factor[j] = _ZERO
                for k in range(n_classes):
                    z = table[i, k, start:stop]
                    for j in range(length):
                        z[j] -= top[j]
                    _single_exponential(z, scratch, length)
                    for j in range(length):
                        factor[j] += z[j]
                for j in range(length):
                    factor[j] = weight[i] / factor[j]
                for k in range(n_classes):
                    z, total = table[i, k, start:stop], sums[k]
                    for j in range(length):
                        total[j] += z[j] * factor[j]
            for k in range(n_classes):
                for j in range(length):
                    averages[k, start + j] += sums[k, j]


@njit(**_KERNEL)
def _factorise(spread, d, n):
    """Cholesky factors in place of the lower triangles (d (d + 1) / 2, n) of n matrices.

    Coordinates that those before them determine have columns of zeros.
    """
    inverse = np.empty((d, LANES), np.float32)
    for k in range(d):
        row = k * (k + 1) // 2
        own, bound = spread[row + k], inverse[k]
        for j in range(n):
            bound[j] = own[j] * _ROUNDING
        for c in range(k + 1):
            column = c * (c + 1) // 2
            rest = spread[row + c]
            for i in range(c):
                a, b = spread[row + i], spread[column + i]
                for j in range(n):
                    rest[j] -= a[j] * b[j]
            if c < k:
                scale = inverse[c]
                for j in range(n):
                    rest[j] *= scale[j]
        for j in range(n):
            root = np.sqrt(own[j]) if own[j] > bound[j] else _ZERO
            own[j] = root
            bound[j] = _ONE / root if root > _ZERO else _ZERO


@njit(**_KERNEL)
def average_normal_softmaxes(centre, spread, nodes, averages):
    """Averages (K, n) of softmax(z) where z has a normal distribution, for n <= 128 rows.

    ``centre`` (K, n) has the means of z, ``spread`` (K (K - 1) / 2, n) the lower triangles of the
    covariances of z_k - z_K, k < K, which are overwritten. The normal distribution is represented
    by the columns of ``nodes`` (K - 1, m) and their mirror images. All are float32 but the
    averages.
    """
    n_classes, n = centre.shape
    d, m = nodes.shape
    shift, z = np.empty((d, LANES), np.float32), np.empty((n_classes, LANES), np.float32)
    top, factor = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    sums = np.empty((n_classes, LANES), np.float32)
    share = np.float32(0.5 / m)
    _factorise(spread, d, n)
    averages[:] = 0.0
    for first in range(0, m, _AT_ONCE):
        sums[:] = _ZERO
        for i in range(first, min(m, first + _AT_ONCE)):
            for k in range(d):
                total = shift[k]
                for c in range(k + 1):
                    node, one = nodes[c, i], spread[k * (k + 1) // 2 + c]
                    if c == 0:
                        for j in range(n):
                            total[j] = one[j] * node
                    else:
                        for j in range(n):
                            total[j] += one[j] * node
            for side in range(2):
                sign = _ONE if side == 0 else -_ONE
                for j in range(n):
                    z[d, j] = top[j] = centre[d, j]
                    factor[j] = _ZERO
                for k in range(d):
                    own, c, s = z[k], centre[k], shift[k]
                    for j in range(n):
                        own[j] = c[j] + sign * s[j]
                        top[j] = max(top[j], own[j])
                for k in range(n_classes):
                    own = z[k]
                    for j in range(n):
                        own[j] -= top[j]
                    _single_exponential(own, scratch, n)
                    for j in range(n):
                        factor[j] += own[j]
                for j in range(n):
                    factor[j] = share / factor[j]
                for k in range(n_classes):
                    own, total = z[k], sums[k]
                    for j in range(n):
                        total[j] += own[j] * factor[j]
        for k in range(n_classes):
            for j in range(n):
                averages[k, j] += sums[k, j]
