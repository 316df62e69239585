"""Numba kernels of a process whose rows are conditioned on some others: small dense systems.

Shapes of a covariance are numbers here: twice the nu of the Matern family (1, 3 or 5), 0 for the
squared exponential (see `skpmd.sparse_gp._stationary`).
"""

import math

import numpy as np
from numba import njit

_MIN_PIVOT = 1e-13  # Of a Cholesky factor, relative to the variance: rounding makes smaller ones.


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _value_and_slope(squared, shape):
    """The covariance at a squared distance in length scales, 1 at 0, and its derivative by that.

    The derivative is 0 where there is none.
    """
    if shape == 0:
        value = math.exp(-0.5 * squared)
        return value, -0.5 * value
    r = math.sqrt(shape * squared)
    decay = math.exp(-r)
    if shape == 1:
        return decay, -0.5 * decay / r if r > 0.0 else 0.0
    if shape == 3:
        return (1.0 + r) * decay, -1.5 * decay
    return (1.0 + r * (1.0 + r / 3.0)) * decay, -5.0 / 6.0 * (1.0 + r) * decay


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _condition(at, X, y, noise, near, amplitude, shape, A, slopes, z, u):
    """Factor the covariance of the neighbours of one point; how many there are, and the variance.

    The lower triangle of A (c, c) becomes that of its Cholesky factor L; z (c,) becomes L^-1 times
    the covariances with the point, and u (c, t) L^-1 y. Above its diagonal A has the derivatives of
    covariances by squared distances, ``slopes`` (c,) has those with the point. A neighbour below 0
    ends the list.
    """
    p, t, n = X.shape[1], y.shape[1], 0
    floor = _MIN_PIVOT * amplitude
    for a in range(len(near)):
        if near[a] < 0:
            break
        n += 1
    for a in range(n):
        i = near[a]
        squared = 0.0
        for j in range(p):
            gap = at[j] - X[i, j]
            squared += gap * gap
        value, slope = _value_and_slope(squared, shape)
        z[a], slopes[a] = amplitude * value, amplitude * slope
        for b in range(a):
            squared = 0.0
            for j in range(p):
                gap = X[i, j] - X[near[b], j]
                squared += gap * gap
            value, slope = _value_and_slope(squared, shape)
            A[a, b], A[b, a] = amplitude * value, amplitude * slope
        A[a, a] = amplitude + noise[i]
    left = amplitude
    for a in range(n):
        for b in range(a):
            total = A[a, b]
            for c in range(b):
                total -= A[a, c] * A[b, c]
            A[a, b] = total / A[b, b]
        total = A[a, a]
        for c in range(a):
            total -= A[a, c] * A[a, c]
        A[a, a] = math.sqrt(max(total, floor))
        total = z[a]
        for c in range(a):
            total -= A[a, c] * z[c]
        z[a] = total / A[a, a]
        left -= z[a] * z[a]
        for q in range(t):
            total = y[near[a], q]
            for c in range(a):
                total -= A[a, c] * u[c, q]
            u[a, q] = total / A[a, a]
    return n, max(left, floor)


@njit(cache=True, nogil=True, error_model="numpy")
def conditional_moments(points, X, y, noise, neighbours, amplitude, shape, mean, variance):
    """Mean (n, t) and variance (n,) of the process at points, given some rows for each.

    Points (n, p) and rows X (N, p) are in length scales; rows have targets y (N, t) with ``noise``
    (N,). ``neighbours`` (n, c) are places of rows, and -1 after the last one of a point.
    """
    c, t = neighbours.shape[1], y.shape[1]
    A, slopes, z, u = np.empty((c, c)), np.empty(c), np.empty(c), np.empty((c, t))
    for i in range(len(points)):
        n, left = _condition(
            points[i], X, y, noise, neighbours[i], amplitude, shape, A, slopes, z, u
        )
        variance[i] = left
        for q in range(t):
            total = 0.0
            for a in range(n):
                total += z[a] * u[a, q]
            mean[i, q] = total


@njit(cache=True, nogil=True, error_model="numpy")
def regression_weights(
    points, X, explained, noise, neighbours, amplitude, shape, weights, variance
):
    """Weights (n, c) of the neighbours' targets in the mean of points, and variances (n,).

    The arguments are as of `conditional_moments`. ``explained`` (n, c + 1, c + 1) is what is taken
    from the covariances of the neighbours and, last, of the point: the process is what it leaves.
    """
    c = neighbours.shape[1]
    A, z = np.empty((c, c)), np.empty(c)
    floor = _MIN_PIVOT * amplitude
    for r in range(len(points)):
        near, known = neighbours[r], explained[r]
        n = 0
        while n < c and near[n] >= 0:
            n += 1
        left = amplitude - known[c, c]
        for a in range(n):
            i = near[a]
            squared = 0.0
            for j in range(X.shape[1]):
                gap = points[r, j] - X[i, j]
                squared += gap * gap
            z[a] = amplitude * _value_and_slope(squared, shape)[0] - known[c, a]
            for b in range(a):
                squared = 0.0
                for j in range(X.shape[1]):
                    gap = X[i, j] - X[near[b], j]
                    squared += gap * gap
                A[a, b] = amplitude * _value_and_slope(squared, shape)[0] - known[a, b]
            A[a, a] = max(amplitude - known[a, a], 0.0) + noise[i]
        for a in range(n):
            for b in range(a):
                total = A[a, b]
                for d in range(b):
                    total -= A[a, d] * A[b, d]
                A[a, b] = total / A[b, b]
            total = A[a, a]
            for d in range(a):
                total -= A[a, d] * A[a, d]
                z[a] -= A[a, d] * z[d]
            A[a, a] = math.sqrt(max(total, floor))
            z[a] /= A[a, a]
            left -= z[a] * z[a]
        variance[r] = max(left, floor)
        for a in range(n - 1, -1, -1):
            total = z[a]
            for d in range(a + 1, n):
                total -= A[d, a] * weights[r, d]
            weights[r, a] = total / A[a, a]
        for a in range(n, c):
            weights[r, a] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def density_gradient(rows, X, y, noise, share, weight, neighbours, amplitude, shape, out):
    """Add up log densities of rows given their neighbours, and their derivatives.

    The arguments are as of `conditional_moments`, the points being some ``rows`` (n,) of X, which
    count ``weight`` (n,) times; ``share`` (N,) is the derivative of a row's noise by that of the
    kernel. ``out`` (3 + p,) has the density, its derivatives by the log amplitude and by the noise
    of the kernel, and those by the logs of the length scales.
    """
    c, t, p = neighbours.shape[1], y.shape[1], X.shape[1]
    A, slopes, z, u = np.empty((c, c)), np.empty(c), np.empty(c), np.empty((c, t))
    b, by_mean = np.empty(c), np.empty(c)
    for r in range(len(rows)):
        i = rows[r]
        near = neighbours[r]
        n, left = _condition(X[i], X, y, noise, near, amplitude, shape, A, slopes, z, u)
        v, squares = left + noise[i], 0.0
        for a in range(n):
            by_mean[a] = 0.0
        for q in range(t):
            error = y[i, q]
            for a in range(n):
                error -= z[a] * u[a, q]
            squares += error * error
            for a in range(n):
                by_mean[a] += error / v * u[a, q]
        out[0] -= weight[r] * 0.5 * (t * math.log(2.0 * math.pi * v) + squares / v)
        by_v = weight[r] * 0.5 * (squares / v - t) / v
        for a in range(n - 1, -1, -1):  # Solutions with L': of z, and of the errors' share in u.
            first, second = z[a], by_mean[a]
            for d in range(a + 1, n):
                first -= A[d, a] * b[d]
                second -= A[d, a] * by_mean[d]
            b[a] = first / A[a, a]
            by_mean[a] = second / A[a, a]
        # One factor of amplitude and noise scales v alone: the amplitude has what noise leaves.
        out[1] += by_v * left
        out[2] += by_v * share[i]
        for a in range(n):
            m, one = near[a], weight[r] * by_mean[a]
            factor = 2.0 * (2.0 * by_v * b[a] - one) * slopes[a]
            for j in range(p):
                gap = X[i, j] - X[m, j]
                out[3 + j] += factor * gap * gap
            own = b[a] * (by_v * b[a] - one)
            out[1] -= own * noise[m]
            out[2] += own * share[m]
            for d in range(a):
                o = near[d]
                own = weight[r] * (b[a] * by_mean[d] + b[d] * by_mean[a])
                factor = 2.0 * (own - 2.0 * by_v * b[a] * b[d]) * A[d, a]
                for j in range(p):
                    gap = X[m, j] - X[o, j]
                    out[3 + j] += factor * gap * gap
