"""Numba kernels of a process whose rows are conditioned on some others: small dense systems.

Shapes of a covariance are numbers here: twice the nu of the Matern family (1, 3 or 5), 0 for the
squared exponential (see `skpmd.sparse_gp._covariance`).

Innermost loops run over neighbouring numbers and add to as many: processors take several of them at
a time. That is why inputs are copied column by column, why pairs stand in one array, why a
Cholesky factor is an upper triangle, and why several columns of it are taken at once.
"""

import math

import numpy as np
from numba import njit

_MIN_PIVOT = 1e-13  # Of a Cholesky factor, relative to the variance: rounding makes smaller ones.
# Wrappers for calls from C, and of inner kernels from Python, take time to compile. Inner kernels
# are inlined by LLVM: `inline="always"`, which copies their text before types are known, compiles
# for three times as long.
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
_OPTIONS["no_cfunc_wrapper"] = True
_INNER = {**_OPTIONS, "no_cpython_wrapper": True, "forceinline": True}
# The smallest exponent whose exponential has all digits; a number whose last bits are whole
# numbers; and the logarithm of two in two parts, of which multiples of the first are exact.
_LOWEST, _WHOLE = -708.0, 1.5 * 2.0**52
_PER_LOG_2 = 1.0 / math.log(2.0)
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@njit(**_INNER)
def _room(c, p, t):
    """Arrays to work in, for c neighbours, p inputs and t targets.

    They are inputs (p, c + 1), a triangle with what is solved by it (c, c + 1 + t), and covariances
    of pairs, their derivatives and what exponentials need; a pair is a neighbour and one after it
    or, last, the point.
    """
    pairs = c * (c + 1) // 2
    return (
        np.empty((p, c + 1)),
        np.empty((c, c + 1 + t)),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(pairs),
    )


@njit(**_INNER)
def _exponentials(x, n, power):
    """The first n of x, none of which is above 0, become their exponentials.

    exp(x) = 2^k exp(r), with the nearest k and the Taylor series of what is left, |r| < .35: to one
    unit in the last place. A call of `math.exp` for each takes three times as long.
    """
    bits = power.view(np.int64)
    for i in range(n):
        at = _LOWEST if x[i] < _LOWEST else x[i]
        power[i] = at * _PER_LOG_2 + _WHOLE
        k = power[i] - _WHOLE
        r = (at - k * _LOG_2_HIGH) - k * _LOG_2_LOW
        tail = 1.0 / 479001600.0
        tail = tail * r + 1.0 / 39916800.0
        tail = tail * r + 1.0 / 3628800.0
        tail = tail * r + 1.0 / 362880.0
        tail = tail * r + 1.0 / 40320.0
        tail = tail * r + 1.0 / 5040.0
        tail = tail * r + 1.0 / 720.0
        tail = tail * r + 1.0 / 120.0
        tail = tail * r + 1.0 / 24.0
        tail = tail * r + 1.0 / 6.0
        tail = tail * r + 0.5
        x[i] = tail * r * r + r + 1.0
    for i in range(n):  # The bits of 2^k.
        bits[i] = (bits[i] + 1023) << 52
    for i in range(n):
        x[i] *= power[i]


@njit(**_INNER)
def _squared_distances(inputs, n, apart, out):
    """Squared distances of all pairs of n neighbours and the point; how many pairs there are."""
    p, k = len(inputs), 0
    for a in range(n):
        m, rest = n - a, slice(a + 1, n + 1)
        row = out[k : k + m]
        k += m
        row[:] = 0.0
        j = 0
        while j < p:
            at0, x0 = inputs[j, a], inputs[j, rest]
            if j + 4 <= p and not apart[j : j + 4].any():
                x1, x2, x3 = inputs[j + 1], inputs[j + 2], inputs[j + 3]
                at1, at2, at3 = x1[a], x2[a], x3[a]
                x1, x2, x3 = x1[rest], x2[rest], x3[rest]
                for b in range(m):
                    gap0, gap1, gap2, gap3 = x0[b] - at0, x1[b] - at1, x2[b] - at2, x3[b] - at3
                    row[b] += (gap0 * gap0 + gap1 * gap1) + (gap2 * gap2 + gap3 * gap3)
                j += 4
                continue
            if apart[j : j + 1].any():
                for b in range(m):
                    row[b] += apart[j] if x0[b] != at0 else 0.0
            else:
                for b in range(m):
                    gap0 = x0[b] - at0
                    row[b] += gap0 * gap0
            j += 1
    return k


@njit(**_INNER)
def _values_and_slopes(x, slopes, m, amplitude, shape, power):
    """The first m of x, squared distances in length scales, become covariances.

    ``slopes`` are their derivatives by the squared distances, 0 where there is none.
    """
    for k in range(m):
        slopes[k] = math.sqrt(shape * x[k])
        x[k] = -0.5 * x[k] if shape == 0 else -slopes[k]
    _exponentials(x, m, power)
    if shape == 0:
        for k in range(m):
            x[k] *= amplitude
            slopes[k] = -0.5 * x[k]
    elif shape == 1:
        for k in range(m):
            x[k] *= amplitude
            slopes[k] = -0.5 * x[k] / slopes[k] if slopes[k] > 0.0 else 0.0
    elif shape == 3:
        for k in range(m):
            decay, r = amplitude * x[k], slopes[k]
            x[k], slopes[k] = (1.0 + r) * decay, -1.5 * decay
    else:
        for k in range(m):
            decay, r = amplitude * x[k], slopes[k]
            x[k] = (1.0 + r * (1.0 + r / 3.0)) * decay
            slopes[k] = -5.0 / 6.0 * (1.0 + r) * decay


@njit(**_INNER)
def _fill(at, X, y, noise, near, amplitude, shape, apart, room):
    """Covariances of the neighbours of a point, and beside them theirs with it; how many there are.

    The upper triangle A has them, then the column of the point, then the targets. A neighbour below
    0 ends the list.
    """
    inputs, A, x, slopes, power = room
    p, t, n = X.shape[1], y.shape[1], 0
    while n < len(near) and near[n] >= 0:
        n += 1
    for a in range(n):
        i = near[a]
        for j in range(p):
            inputs[j, a] = X[i, j]
        A[a, a] = amplitude + noise[i]
        for q in range(t):
            A[a, n + 1 + q] = y[i, q]
    for j in range(p):
        inputs[j, n] = at[j]
    m = _squared_distances(inputs, n, apart, x)
    _values_and_slopes(x, slopes, m, amplitude, shape, power)
    k = 0
    for a in range(n):
        for b in range(a + 1, n + 1):
            A[a, b] = x[k]
            k += 1
    return n


@njit(**_INNER)
def _factor(A, n, width, floor):
    """The upper triangle of A becomes U with A = U'U, and the columns after it what U' solves."""
    for a in range(n):
        row, k = A[a], 0
        while k + 4 <= a:
            one, two, three, four = A[k], A[k + 1], A[k + 2], A[k + 3]
            by1, by2, by3, by4 = one[a], two[a], three[a], four[a]
            for b in range(a, width):
                row[b] -= (by1 * one[b] + by2 * two[b]) + (by3 * three[b] + by4 * four[b])
            k += 4
        while k < a:
            one = A[k]
            by1 = one[a]
            for b in range(a, width):
                row[b] -= by1 * one[b]
            k += 1
        row[a] = math.sqrt(max(row[a], floor))
        scale = 1.0 / row[a]
        for b in range(a + 1, width):
            row[b] *= scale


@njit(**_INNER)
def _left(A, n, variance, floor):
    """What n neighbours leave of the variance of their point."""
    for a in range(n):
        variance -= A[a, n] * A[a, n]
    return max(variance, floor)


@njit(**_OPTIONS)
def conditional_moments(points, X, y, noise, neighbours, amplitude, shape, apart, mean, variance):
    """Mean (n, t) and variance (n,) of the process at points, given some rows for each.

    Points (n, p) and rows X (N, p) are in length scales; rows have targets y (N, t) with ``noise``
    (N,). ``neighbours`` (n, c) are places of rows, and -1 after the last one of a point. Columns
    of categories are those where ``apart`` (p,) is the squared distance of different ones, and not
    0; it is empty where there are none.
    """
    t, floor = y.shape[1], _MIN_PIVOT * amplitude
    room = _room(neighbours.shape[1], X.shape[1], t)
    A = room[1]
    for i in range(len(points)):
        n = _fill(points[i], X, y, noise, neighbours[i], amplitude, shape, apart, room)
        _factor(A, n, n + 1 + t, floor)
        variance[i] = _left(A, n, amplitude, floor)
        for q in range(t):
            total = 0.0
            for a in range(n):
                total += A[a, n] * A[a, n + 1 + q]
            mean[i, q] = total


@njit(**_OPTIONS)
def regression_weights(
    points, X, explained, noise, neighbours, amplitude, shape, apart, weights, variance
):
    """Weights (n, c) of the neighbours' targets in the mean of points, and variances (n,).

    The arguments are as of `conditional_moments`. ``explained`` (n, c + 1, c + 1) is what is taken
    from the covariances of the neighbours and, last, of the point: the process is what it leaves.
    """
    c, floor, no_target = neighbours.shape[1], _MIN_PIVOT * amplitude, np.empty((len(X), 0))
    room = _room(c, X.shape[1], no_target.shape[1])
    A = room[1]
    for i in range(len(points)):
        known = explained[i]
        n = _fill(points[i], X, no_target, noise, neighbours[i], amplitude, shape, apart, room)
        for a in range(n):
            A[a, a] -= min(known[a, a], amplitude)
            for b in range(a + 1, n):
                A[a, b] -= known[a, b]
            A[a, n] -= known[a, c]
        _factor(A, n, n + 1, floor)
        variance[i] = _left(A, n, amplitude - known[c, c], floor)
        for a in range(n - 1, -1, -1):
            total = A[a, n]
            for b in range(a + 1, n):
                total -= A[a, b] * weights[i, b]
            weights[i, a] = total / A[a, a]
        for a in range(n, c):
            weights[i, a] = 0.0


@njit(**_OPTIONS)
def density_gradient(rows, X, y, noise, share, weight, neighbours, amplitude, shape, apart, out):
    """Add up log densities of rows given their neighbours, and their derivatives.

    The arguments are as of `conditional_moments`, the points being some ``rows`` (n,) of X, which
    count ``weight`` (n,) times; ``share`` (N,) is the derivative of a row's noise by that of the
    kernel. ``out`` (3 + p,) has the density, its derivatives by the log amplitude and by the noise
    of the kernel, and those by the logs of the length scales.
    """
    c, t, p, floor = neighbours.shape[1], y.shape[1], X.shape[1], _MIN_PIVOT * amplitude
    room = _room(c, p, t)
    inputs, A, _, slopes, _ = room
    by_point, by_mean, by_length = np.empty(c), np.empty(c), np.zeros((p, c + 1))
    for r in range(len(rows)):
        i = rows[r]
        near = neighbours[r]
        n = _fill(X[i], X, y, noise, near, amplitude, shape, apart, room)
        _factor(A, n, n + 1 + t, floor)
        left = _left(A, n, amplitude, floor)
        v, squares = left + noise[i], 0.0
        by_mean[:n] = 0.0
        for q in range(t):
            error = y[i, q]
            for a in range(n):
                error -= A[a, n] * A[a, n + 1 + q]
            squares += error * error
            for a in range(n):
                by_mean[a] += error / v * A[a, n + 1 + q]
        out[0] -= weight[r] * 0.5 * (t * math.log(2.0 * math.pi * v) + squares / v)
        by_v = weight[r] * 0.5 * (squares / v - t) / v
        for a in range(n - 1, -1, -1):  # What U solves, of the point and of the errors' share.
            first, second = A[a, n], by_mean[a]
            for b in range(a + 1, n):
                first -= A[a, b] * by_point[b]
                second -= A[a, b] * by_mean[b]
            by_point[a], by_mean[a] = first / A[a, a], second / A[a, a]
        # One factor of amplitude and noise scales v alone: the amplitude has what noise leaves.
        out[1] += by_v * left
        out[2] += by_v * share[i]
        k = 0
        for a in range(n):
            one, two = by_point[a], weight[r] * by_mean[a]
            own = one * (by_v * one - two)
            out[1] -= own * noise[near[a]]
            out[2] += own * share[near[a]]
            by_squared, m = slopes[k : k + n - a], n - a
            k += m
            one, two = 2.0 * weight[r] * one, 2.0 * (two - 2.0 * by_v * one)
            for b in range(m - 1):
                by_squared[b] *= one * by_mean[a + 1 + b] + two * by_point[a + 1 + b]
            by_squared[m - 1] *= 2.0 * (2.0 * by_v * by_point[a] - weight[r] * by_mean[a])
            for j in range(p):
                at, x, total = inputs[j, a], inputs[j, a + 1 : n + 1], by_length[j]
                if apart[j : j + 1].any():
                    for b in range(m):
                        total[b] += by_squared[b] * apart[j] if x[b] != at else 0.0
                    continue
                for b in range(m):
                    gap = x[b] - at
                    total[b] += by_squared[b] * (gap * gap)
    for j in range(p):
        for b in range(c + 1):
            out[3 + j] += by_length[j, b]
