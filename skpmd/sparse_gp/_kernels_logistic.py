"""Numba kernels of the logistic link: expectations under a normal distribution of the process."""

import math

import numpy as np
from numba import njit

# The rule reaches so many standard deviations to each side of the mode: beyond is less than 1e-11.
_REACH = 7.0
# Its step, at most: in standard deviations, and in units of the link. The trapezoidal rule then
# errs by less than 1e-8, for the integrand is analytic up to pi from the real line.
_STEP_SD, _STEP_LINK, _MIN_NODES = 0.7, 0.8, 20
_POINT = 1e-7  # A smaller standard deviation is none.
_MAX_NEWTON, _CLOSE = 50, 1e-3  # Of the search for the mode, which need not be exact.
# Wrappers for calls from C, and of inner kernels from Python, take time to compile.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


@njit(**_INNER, forceinline=True)
def _sigmoid(f):
    near = math.exp(-abs(f))
    return (1.0 if f > 0.0 else near) / (1.0 + near)


@njit(**_INNER, forceinline=True)
def _log_sigmoid(f):
    return -math.log1p(math.exp(-f)) if f > 0.0 else f - math.log1p(math.exp(f))


@njit(**_INNER, forceinline=True)
def _mode(mean, variance):
    """Where sigmoid(f) N(f; mean, variance) is largest, roughly: from mean to mean + variance.

    Newton's method, with bisection where it would leave what is left of that interval.
    """
    low, high = mean, mean + variance
    f = mean if mean > 0.0 else min(high, max(low, 0.0))
    sd = math.sqrt(variance)
    for _ in range(_MAX_NEWTON):
        p = _sigmoid(-f)
        slope = variance * p - (f - mean)
        if slope > 0.0:
            low = f
        else:
            high = f
        new = f + slope / (1.0 + variance * p * (1.0 - p))
        if new <= low or new >= high:
            new = 0.5 * (low + high)
        if abs(new - f) <= _CLOSE * sd:
            return new
        f = new
    return f


@njit(**_KERNEL)
def log_expectations(sign, mean, variance, log_z, slope, curvature):
    """log Z of Z = E sigmoid(sign f), f normal, its derivative in the mean, and minus the second.

    All arrays have the shape (n,), the last three are filled. With t the tilted distribution,
    sigmoid times normal, the derivatives are E_t sigmoid(-f) and E_t[sigmoid(-f) (1 - 2
    sigmoid(f))], which lose nothing where the variance is small.
    """
    for i in range(len(mean)):
        m, v = sign[i] * mean[i], variance[i]
        sd = math.sqrt(v)
        if sd < _POINT:
            p = _sigmoid(-m)
            log_z[i], slope[i], curvature[i] = _log_sigmoid(m), sign[i] * p, p * (1.0 - p)
            continue
        middle = _mode(m, v)
        low, high = middle - _REACH * sd, middle + _REACH * sd
        at_mode = _log_sigmoid(middle) - 0.5 * (middle - m) ** 2 / v
        # f = scale sinh(t): nodes are dense about 0, where the link bends, and as far from each
        # other elsewhere as the normal density allows.
        step = _STEP_SD * sd / max(abs(low), abs(high))
        scale = _STEP_LINK / step
        start, end = math.asinh(low / scale), math.asinh(high / scale)
        half = max(int(math.ceil((end - start) / step)), _MIN_NODES)
        step = (end - start) / half
        z = first = second = 0.0
        for j in range(half + 1):
            t = start + j * step
            up = math.exp(t)
            f = 0.5 * scale * (up - 1.0 / up)
            x = (f - m) / sd
            near = math.exp(-abs(f))
            weight = math.exp(min(f, 0.0) - 0.5 * x * x - at_mode) / (1.0 + near)
            weight *= up + 1.0 / up
            p = (near if f > 0.0 else 1.0) / (1.0 + near)  # sigmoid(-f)
            z += weight
            first += weight * p
            second += weight * p * (2.0 * p - 1.0)
        first /= z
        second /= z
        slope[i] = sign[i] * first
        curvature[i] = max(first * first - second, 0.0)
        log_z[i] = at_mode + math.log(0.5 * z * step * scale / sd) - 0.5 * math.log(2.0 * math.pi)


@njit(**_KERNEL)
def sites(sign, weight, mean, variance, left, damping, precision, linear, log_z):
    """One update by moment matching of the rows' sites, in place; see `skpmd.sparse_gp._logit`."""
    n = len(sign)
    cavity_mean, cavity_variance = np.empty(n), np.empty(n)
    log_tilted, slope, curvature = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        # Sites act on f; that on the part of f that u knows is wider by what u leaves open.
        open_ = 1.0 + precision[i] * left[i]
        share = min(weight[i], 1.0)
        own = share * precision[i] / open_
        rest = max(1.0 - own * variance[i], 1e-12)
        cavity_mean[i] = (mean[i] - share * linear[i] / open_ * variance[i]) / rest
        cavity_variance[i] = variance[i] / rest + left[i]
    log_expectations(sign, cavity_mean, cavity_variance, log_tilted, slope, curvature)
    for i in range(n):
        m, v, a, b = cavity_mean[i], cavity_variance[i], slope[i], curvature[i]
        rest = max(1.0 - v * b, 1e-12)
        new_precision, new_linear = b / rest, (a + b * m) / rest
        precision[i] += damping * (new_precision - precision[i])
        linear[i] += damping * (new_linear - linear[i])
        p, s = precision[i], linear[i]
        spread = 1.0 + p * v
        log_z[i] = log_tilted[i] + 0.5 * math.log(spread)
        log_z[i] -= (s * m + 0.5 * s * s * v - 0.5 * p * m * m) / spread
