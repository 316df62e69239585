"""Compiled sums and expectations of the sigmoid and of the softmax function."""

import numpy as np
from numba import njit

LANES = 128  # Rows that are handled side by side, so that their vectors stay in the first cache.
# Wrappers for calls from C take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}


@njit(**_KERNEL, error_model="numpy")
def _exponential(x, shifted, length):
    """e^x of up to 128 numbers x <= 0 in place; ``shifted`` is scratch space of the same length.

    The polynomial is written out over a short vector, which the compiler turns into SIMD code: a
    call to libm for each element is six times slower. It is exact to a few units in the last place.
    """
    bits = shifted.view(np.int64)
    magic = 6755399441055744.0  # Adding 1.5 * 2^52 rounds to an integer in the low bits.
    for j in range(length):
        shifted[j] = max(x[j], -700.0) * 1.4426950408889634 + magic
    for j in range(length):
        # e^x = 2^k e^r with |r| <= log(2) / 2, and e^r is its Taylor series to r^12 / 12!.
        bounded = max(x[j], -700.0)
        k = shifted[j] - magic
        r = bounded - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10
        p = 1 / 39916800.0 + r * (1 / 479001600.0)
        p = 1 / 3628800.0 + r * p
        p = 1 / 362880.0 + r * p
        p = 1 / 40320.0 + r * p
        p = 1 / 5040.0 + r * p
        p = 1 / 720.0 + r * p
        p = 1 / 120.0 + r * p
        p = 1 / 24.0 + r * p
        p = 1 / 6.0 + r * p
        p = 0.5 + r * p
        p = 1.0 + r * p
        x[j] = 1.0 + r * p
    for j in range(length):
        bits[j] = (bits[j] + 1023) << 52  # This builds 2^k in the exponent field.
    for j in range(length):
        x[j] *= shifted[j]


@njit(**_KERNEL, error_model="numpy")
def _logarithm(x, length):
    """Logarithm of up to 128 positive numbers x = 2^k f in place, f from 2^(-1/2) to 2^(1/2)."""
    power = np.empty(LANES)
    bits = power.view(np.int64)
    exponent = np.empty(LANES)
    for j in range(length):
        power[j] = x[j] * 1.4142135623730951
    for j in range(length):
        bits[j] = (bits[j] >> 52) - 1023
    for j in range(length):
        exponent[j] = bits[j]
    for j in range(length):
        bits[j] = (1023 - bits[j]) << 52  # This builds 2^-k.
    for j in range(length):
        # log f = 2 atanh(q) with q = (f - 1) / (f + 1) and |q| < 0.172.
        f = x[j] * power[j]
        q = (f - 1.0) / (f + 1.0)
        t = q * q
        p = 1 / 19.0 + t * (1 / 21.0)
        p = 1 / 17.0 + t * p
        p = 1 / 15.0 + t * p
        p = 1 / 13.0 + t * p
        p = 1 / 11.0 + t * p
        p = 1 / 9.0 + t * p
        p = 1 / 7.0 + t * p
        p = 1 / 5.0 + t * p
        p = 1 / 3.0 + t * p
        x[j] = exponent[j] * 0.6931471805599453 + 2.0 * q * (1.0 + t * p)


@njit(**_KERNEL, error_model="numpy")
def add_log_sigmoid(table, sign, weight, total, differentiate):
    """Add sum_n weight_n * log sigmoid(sign_n * table[i, n]) to total[i].

    log sigmoid(s z) = min(s z, 0) - log(1 + e^-|z|). Rows are summed in lanes, that is in a fixed
    order. With ``differentiate`` each logit is replaced by the derivative of what it adds,
    weight * sign * sigmoid(-sign * z).
    """
    m, n = table.shape
    small, scratch, lanes = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(m):
        lanes[:] = 0.0
        for start in range(0, n, LANES):
            length = min(LANES, n - start)
            z = table[i, start : start + length]
            s = sign[start : start + length]
            w = weight[start : start + length]
            for j in range(length):
                small[j] = -abs(np.float64(z[j]))
            _exponential(small, scratch, length)
            for j in range(length):
                # log(1 + e) = 2 atanh(q) with q = e / (2 + e) <= 1/3.
                e = small[j]
                q = e / (2.0 + e)
                t = q * q
                p = 1 / 27.0 + t * (1 / 29.0)
                p = 1 / 25.0 + t * p
                p = 1 / 23.0 + t * p
                p = 1 / 21.0 + t * p
                p = 1 / 19.0 + t * p
                p = 1 / 17.0 + t * p
                p = 1 / 15.0 + t * p
                p = 1 / 13.0 + t * p
                p = 1 / 11.0 + t * p
                p = 1 / 9.0 + t * p
                p = 1 / 7.0 + t * p
                p = 1 / 5.0 + t * p
                p = 1 / 3.0 + t * p
                p = 1.0 + t * p
                lanes[j] += w[j] * (min(s[j] * z[j], 0.0) - 2.0 * q * p)
            if differentiate:
                for j in range(length):
                    e = small[j]
                    z[j] = w[j] * s[j] * (1.0 if s[j] * z[j] < 0.0 else e) / (1.0 + e)
        subtotal = 0.0
        for j in range(LANES):
            subtotal += lanes[j]
        total[i] += subtotal


@njit(**_KERNEL)
def expected_derivatives(centre, spread, sign, weight, nodes, node_weights):
    """Weighted E[d/dz log sigmoid(s z)] and E[-d2/dz2] of each row, z ~ N(centre, spread^2)."""
    slope = np.empty(len(centre))
    curvature = np.empty(len(centre))
    for i in range(len(centre)):
        first = 0.0
        second = 0.0
        for k in range(len(nodes)):
            z = centre[i] + spread[i] * nodes[k]
            e = np.exp(-abs(z))
            small = e / (1.0 + e)  # sigmoid(-|z|)
            probability = 1.0 - small if z >= 0 else small
            target = 0.5 * (1.0 + sign[i])
            first += node_weights[k] * (target - probability)
            second += node_weights[k] * small * (1.0 - small)
            if spread[i] == 0.0:
                first = target - probability
                second = small * (1.0 - small)
                break
        slope[i] = weight[i] * first
        curvature[i] = weight[i] * second
    return slope, curvature


@njit(**_KERNEL)
def expected_third(centre, spread, weight, nodes, node_weights):
    """Weighted E[d3/dz3 log sigmoid(z)] of each row, z ~ N(centre, spread^2)."""
    out = np.empty(len(centre))
    for i in range(len(centre)):
        total = 0.0
        for k in range(len(nodes)):
            z = centre[i] + spread[i] * nodes[k]
            e = np.exp(-abs(z))
            small = e / (1.0 + e)
            slope = (1.0 - 2.0 * small) if z >= 0 else (2.0 * small - 1.0)
            total += node_weights[k] * small * (1.0 - small) * slope
        out[i] = weight[i] * total
    return out


@njit(**_KERNEL, error_model="numpy")
def add_log_softmax(table, label, weight, total, differentiate):
    """Add sum_n weight_n * log softmax(table[i, :, n])[label_n] to total[i].

    With ``differentiate`` the table becomes the derivative of that sum by its entries,
    weight_n (1{k = label_n} - p_k). Rows are summed in lanes, that is in a fixed order.
    """
    m, n_classes, n = table.shape
    top, mass, work = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    chosen, lanes, scratch = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(m):
        lanes[:] = 0.0
        for start in range(0, n, LANES):
            stop = min(start + LANES, n)
            length = stop - start
            y = label[start:stop]
            w = weight[start:stop]
            top[:] = -np.inf
            mass[:] = 0.0
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    top[j] = max(top[j], np.float64(z[j]))
            for j in range(length):
                chosen[j] = table[i, y[j], start + j] - top[j]
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    work[j] = z[j] - top[j]
                _exponential(work, scratch, length)
                for j in range(length):
                    mass[j] += work[j]
                if differentiate:
                    # Numba compiles an assignment of an array to a slice for seconds.
                    for j in range(length):
                        z[j] = work[j]
            if differentiate:
                for k in range(n_classes):
                    z = table[i, k, start:stop]
                    for j in range(length):
                        z[j] *= -w[j] / mass[j]
                for j in range(length):
                    table[i, y[j], start + j] += w[j]
            _logarithm(mass, length)
            for j in range(length):
                lanes[j] += w[j] * (chosen[j] - mass[j])
        subtotal = 0.0
        for j in range(LANES):
            subtotal += lanes[j]
        total[i] += subtotal


@njit(**_KERNEL, error_model="numpy")
def expected_softmax(centre, spread, nodes):
    """E[p_k] and E[p_k p_l] with p = softmax(z) and z ~ N(centre, spread), for each row.

    Only the lower triangles of the spread and of E[p_k p_l] are used. The Cholesky factor
    overwrites the spread; that of a singular spread stops at its rank.
    """
    n, n_classes = centre.shape
    size = nodes.shape[1]
    first = np.empty((n, n_classes))
    second = np.empty((n, n_classes, n_classes))
    p = np.empty((n_classes, size))
    top, mass, scratch = np.empty(size), np.empty(size), np.empty(size)
    for i in range(n):
        chol = spread[i]
        for k in range(n_classes):
            for column in range(k + 1):
                rest = chol[k, column]
                for j in range(column):
                    rest -= chol[k, j] * chol[column, j]
                if column == k:
                    chol[k, k] = np.sqrt(max(rest, 0.0))
                else:
                    pivot = chol[column, column]
                    chol[k, column] = rest / pivot if pivot > 1e-7 else 0.0
        top[:] = -np.inf
        for k in range(n_classes):
            p[k] = centre[i, k]
            for column in range(k + 1):
                if chol[k, column] != 0.0:  # Most entries are zero where logits are independent.
                    for j in range(size):
                        p[k, j] += chol[k, column] * nodes[column, j]
            for j in range(size):
                top[j] = max(top[j], p[k, j])
        mass[:] = 0.0
        for k in range(n_classes):
            for j in range(size):
                p[k, j] -= top[j]
            _exponential(p[k], scratch, size)
            for j in range(size):
                mass[j] += p[k, j]
        for k in range(n_classes):
            total = 0.0
            for j in range(size):
                p[k, j] /= mass[j]
                total += p[k, j]
            first[i, k] = total / size
            for other in range(k):
                total = 0.0
                for j in range(size):
                    total += p[k, j] * p[other, j]
                second[i, k, other] = total / size
    return first, second
