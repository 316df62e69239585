"""Compiled log densities of families: sums over rows, and derivatives by linear predictors.

Each kernel takes linear predictors (m, n) of m particles, and what rows and particles have: y,
``size`` (trials, where a family has them) and ``weight`` (n,), and dispersions ``phi`` (m, k). It
adds weighted sums of the terms that depend on the predictor to ``total`` (m,); what else there is
of a log density is in closed form, and the family adds it. From ``order`` 1 on predictors are
replaced by the weighted derivative, and derivatives by ``phi`` are added to ``by_phi`` (m, k); at
``order`` 2 the weighted negative second derivatives are written to ``curvature`` (m, n).
"""

import math

import numpy as np
from numba import njit

from skpmd.linear._kernels import LANES as _LANES
from skpmd.linear._kernels import exponential, logarithm

LOGIT, PROBIT, CLOGLOG, IDENTITY, LOG = range(5)  # Links, as kernels know them.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}
MAX_EXPONENT = 300.0  # Larger ones are held to it: products of exponentials are numbers.
_MIN = 1e-150  # Squares of smaller numbers are zero.
_LOG_ROOT_TWO_PI = 0.9189385332046727


@njit(**_KERNEL, error_model="numpy")
def _exponential(x, scratch, length):
    """e^x of up to 128 numbers in place, which are held within bounds."""
    for j in range(length):
        x[j] = min(max(x[j], -MAX_EXPONENT), MAX_EXPONENT)
    exponential(x, scratch, length)


@njit(**_KERNEL, error_model="numpy")
def exponentials(x, is_logistic):
    """e^x, or 1 / (1 + e^-x), of numbers (n,) in place, in a third of the time of NumPy."""
    scratch, sign = np.empty(_LANES), -1.0 if is_logistic else 1.0
    for start in range(0, len(x), _LANES):
        some = x[start : start + _LANES]
        for j in range(len(some)):
            some[j] *= sign
        _exponential(some, scratch, len(some))
        if is_logistic:
            for j in range(len(some)):
                some[j] = 1.0 / (1.0 + some[j])


@njit(**_KERNEL)
def add_normal(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Normal, phi = (sd,): -(y - mu)^2 / (2 sd^2); links identity and log."""
    m, n = table.shape
    for i in range(m):
        inverse, value = 1.0 / phi[i, 0] ** 2, 0.0
        for j in range(n):
            w = weight[j] * inverse
            mu = table[i, j] if link == IDENTITY else math.exp(min(table[i, j], MAX_EXPONENT))
            slope = 1.0 if link == IDENTITY else mu
            gap = y[j] - mu
            value += w * gap * gap
            if order > 0:
                table[i, j] = w * gap * slope
            if order > 1:
                curvature[i, j] = w * (1.0 if link == IDENTITY else mu * (mu - gap))
        total[i] -= 0.5 * value
        if order > 0:
            by_phi[i, 0] += value / phi[i, 0]


@njit(**_KERNEL, error_model="numpy")
def add_student_t(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Student t, phi = (scale, df): -(df + 1) / 2 log(1 + (y - mu)^2 / (df scale^2))."""
    m, n = table.shape
    tail, exponent, power = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        scale, df = phi[i, 0], phi[i, 1]
        value, by_scale, by_df = 0.0, 0.0, 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):
                z[j] = (y[start + j] - z[j]) / scale
                tail[j] = 1.0 + min(z[j] * z[j] / df, 1e300)
            logarithm(tail, exponent, power, length)
            for j in range(length):
                value += weight[start + j] * tail[j]
            if order > 0:
                for j in range(length):
                    w, square = weight[start + j], z[j] * z[j]
                    below = df + square
                    share = (df + 1.0) / below
                    by_scale += w * share * square
                    by_df += w * (share * square / df - tail[j])
                    if order > 1:
                        bent = share * (df - square) / (below * scale * scale)
                        curvature[i, start + j] = w * bent
                    z[j] = w * share * z[j] / scale
        total[i] -= 0.5 * (df + 1.0) * value
        if order > 0:
            by_phi[i, 0] += by_scale / scale
            by_phi[i, 1] += 0.5 * by_df


@njit(**_KERNEL, error_model="numpy")
def add_poisson(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Poisson with a log link: y z - e^z."""
    m, n = table.shape
    rate, scratch = np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        value = 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):
                rate[j] = z[j]
            _exponential(rate, scratch, length)
            for j in range(length):
                value += weight[start + j] * (y[start + j] * z[j] - rate[j])
            if order > 0:
                for j in range(length):
                    z[j] = weight[start + j] * (y[start + j] - rate[j])
            if order > 1:
                for j in range(length):
                    curvature[i, start + j] = weight[start + j] * rate[j]
        total[i] += value


@njit(**_KERNEL, error_model="numpy")
def add_negative_binomial(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Negative binomial, phi = (shape,), log link: y z - (y + shape) log(1 + e^z / shape)."""
    m, n = table.shape
    small, scratch = np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        shape, value, by_shape = phi[i, 0], 0.0, 0.0
        log_shape = math.log(shape)
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):
                small[j] = -abs(z[j] - log_shape)
            _exponential(small, scratch, length)
            for j in range(length):
                w, count = weight[start + j], y[start + j]
                s, e = z[j] - log_shape, small[j]
                soft = max(s, 0.0) + math.log1p(e)  # To all digits, for a shape may be large.
                value += w * (count * z[j] - (count + shape) * soft)
                if order > 0:
                    p = (1.0 if s > 0.0 else e) / (1.0 + e)
                    z[j] = w * (count - (count + shape) * p)
                    by_shape += w * ((count + shape) * p / shape - soft)
                if order > 1:
                    curvature[i, start + j] = w * (count + shape) * e / (1.0 + e) ** 2
        total[i] += value
        if order > 0:
            by_phi[i, 0] += by_shape


@njit(**_KERNEL, error_model="numpy")
def add_gamma(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Gamma, phi = (shape,), log link: shape (1 + d - e^d), where d is log y - z.

    ``size`` is log y.
    """
    m, n = table.shape
    ratio, scratch = np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        shape, value = phi[i, 0], 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):
                ratio[j] = size[start + j] - z[j]
                z[j] = ratio[j]
            _exponential(ratio, scratch, length)
            for j in range(length):
                w, d = weight[start + j], z[j]
                # Of rows that are next to their means neither may be rounded: shapes are large.
                last = 1.0 + d * 0.25
                beyond = ratio[j] - 1.0
                if abs(d) < 1e-3:
                    beyond = d * (1.0 + 0.5 * d * (1.0 + d * last / 3.0))
                    value -= w * 0.5 * d * d * (1.0 + d * last / 3.0)
                else:
                    value += w * (d - beyond)
                if order > 0:
                    z[j] = w * shape * beyond
                if order > 1:
                    curvature[i, start + j] = w * shape * ratio[j]
        total[i] += shape * value
        if order > 0:
            by_phi[i, 0] += value


@njit(**_KERNEL)
def _log_shares(z, link):
    """log mu and log(1 - mu) of a probability mu, and the first two derivatives of each by z."""
    if link == LOGIT:
        e = math.exp(-abs(z))
        p, soft = (1.0 if z > 0.0 else e) / (1.0 + e), math.log1p(e)
        return min(z, 0.0) - soft, -max(z, 0.0) - soft, 1.0 - p, -p, -p * (1.0 - p), -p * (1.0 - p)
    if link == CLOGLOG:
        rate = math.exp(min(max(z, -700.0), MAX_EXPONENT))
        ratio = rate / math.expm1(rate) if rate < MAX_EXPONENT else 0.0
        log_mu = math.log(-math.expm1(-rate)) if rate > 1e-300 else z
        return log_mu, -rate, ratio, -rate, ratio * (1.0 - rate - ratio), -rate
    log_mu, log_rest = _log_normal_cdf(z), _log_normal_cdf(-z)
    log_density = -0.5 * z * z - _LOG_ROOT_TWO_PI
    up, down = math.exp(log_density - log_mu), math.exp(log_density - log_rest)
    return log_mu, log_rest, up, -down, -up * (z + up), -down * (down - z)


@njit(**_KERNEL)
def _log_normal_cdf(z):
    if z > -10.0:
        return math.log(0.5 * math.erfc(-z * math.sqrt(0.5)))
    s = 1.0 / (z * z)  # Abramowitz and Stegun 26.2.12: relative to 1e-10 from here on.
    series = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s))))
    return -0.5 * z * z - _LOG_ROOT_TWO_PI - math.log(-z) + math.log(series)


@njit(**_KERNEL, error_model="numpy")
def add_logit(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Binomial with a logit link: y z - size log(1 + e^z). What others need is not compiled."""
    m, n = table.shape
    small, scratch = np.empty(_LANES), np.empty(_LANES)
    exponent, power = np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        value = 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):
                small[j] = -abs(z[j])
            _exponential(small, scratch, length)
            for j in range(length):
                scratch[j] = 1.0 + small[j]
            logarithm(scratch, exponent, power, length)
            for j in range(length):
                soft = max(z[j], 0.0) + scratch[j]
                value += weight[start + j] * (y[start + j] * z[j] - size[start + j] * soft)
            if order > 1:
                for j in range(length):
                    e, w = small[j], weight[start + j] * size[start + j]
                    curvature[i, start + j] = w * e / (1.0 + e) ** 2
            if order > 0:
                for j in range(length):
                    e = small[j]
                    p = (1.0 if z[j] > 0.0 else e) / (1.0 + e)
                    z[j] = weight[start + j] * (y[start + j] - size[start + j] * p)
        total[i] += value


@njit(**_KERNEL)
def add_binomial(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Binomial with links probit and cloglog: y log mu + (size - y) log(1 - mu)."""
    m, n = table.shape
    for i in range(m):
        value = 0.0
        for j in range(n):
            log_mu, log_rest, up, down, bend, other = _log_shares(table[i, j], link)
            hits, misses = weight[j] * y[j], weight[j] * (size[j] - y[j])
            if hits > 0.0:  # Zero times the logarithm of zero is nothing.
                value += hits * log_mu
            if misses > 0.0:
                value += misses * log_rest
            if order > 0:
                table[i, j] = hits * up + misses * down
            if order > 1:
                curvature[i, j] = -hits * bend - misses * other
        total[i] += value


@njit(**_KERNEL, error_model="numpy")
def _gammas(x, value, first, second, scratch, length, order):
    """log Gamma of up to 128 x > 0 and, from orders 1 and 2 on, its first and second derivatives.

    Each is Stirling's series at x + 8, and what x (x + 1) ... (x + 7) takes off it. ``scratch`` has
    the shape (3, 128).
    """
    exponent, power, product = scratch[0], scratch[1], scratch[2]
    for j in range(length):
        low = x[j]
        for k in range(1, 8):
            low *= x[j] + k
        product[j] = low
        value[j] = x[j] + 8.0
    logarithm(value, exponent, power, length)
    logarithm(product, exponent, power, length)
    if order > 0:
        for j in range(length):
            r = 1.0 / (x[j] + 8.0)
            s = r * r
            tail = 1 / 252.0 - s * (1 / 240.0 - s * (1 / 132.0))
            first[j] = value[j] - 0.5 * r - s * (1 / 12.0 - s * (1 / 120.0 - s * tail))
            tail = 1 / 42.0 - s * (1 / 30.0 - s * (5.0 / 66.0))
            second[j] = r + 0.5 * s + r * s * (1 / 6.0 - s * (1 / 30.0 - s * tail))
        for k in range(8):
            for j in range(length):
                r = 1.0 / (x[j] + k)
                first[j] -= r
                second[j] += r * r
    for j in range(length):
        r = 1.0 / (x[j] + 8.0)
        s = r * r
        tail = 1 / 1260.0 - s * (1 / 1680.0 - s * (1 / 1188.0))
        tail = _LOG_ROOT_TWO_PI + r * (1 / 12.0 - s * (1 / 360.0 - s * tail))
        value[j] = (x[j] + 7.5) * value[j] - x[j] - 8.0 + tail - product[j]


@njit(**_KERNEL, error_model="numpy")
def add_beta(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Beta, phi = (precision,): -log B(mu phi, (1 - mu) phi) + log Gamma(phi) and powers of y.

    ``size`` is log(y / (1 - y)).
    """
    m, n = table.shape
    mu, rest, up, bend = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    a, log_a, psi_a, tri_a = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    b, log_b, psi_b, tri_b = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    scratch, log_rest = np.empty((3, _LANES)), np.empty(n)  # The last is log(1 - y).
    for j in range(n):
        log_rest[j] = -max(size[j], 0.0) - math.log1p(math.exp(-abs(size[j])))
    for i in range(m):
        precision, value, by_precision = phi[i, 0], 0.0, 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z, odds = table[i, start : start + length], size[start : start + length]
            if link == LOGIT:
                for j in range(length):
                    rest[j] = -abs(z[j])
                _exponential(rest, a, length)
                for j in range(length):
                    near = 1.0 / (1.0 + rest[j])
                    far = rest[j] * near
                    mu[j] = near if z[j] > 0.0 else far
                    rest[j] = far if z[j] > 0.0 else near
                    up[j], bend[j] = rest[j], -mu[j] * rest[j]
            else:
                for j in range(length):
                    log_mu, log_miss, up[j], _, bend[j], _ = _log_shares(z[j], link)
                    mu[j], rest[j] = math.exp(log_mu), math.exp(log_miss)
            for j in range(length):
                a[j], b[j] = max(mu[j] * precision, _MIN), max(rest[j] * precision, _MIN)
            _gammas(a, log_a, psi_a, tri_a, scratch, length, order)
            _gammas(b, log_b, psi_b, tri_b, scratch, length, order)
            for j in range(length):
                log_a[j] = a[j] * odds[j] - log_a[j] - log_b[j]
            for j in range(length):
                value += weight[start + j] * (log_a[j] + precision * log_rest[start + j])
            if order == 0:
                continue
            for j in range(length):
                w, to_one, to_zero = weight[start + j], odds[j] - psi_a[j], psi_b[j]
                slope = precision * mu[j] * up[j]
                z[j] = w * (to_one + to_zero) * slope
                by_precision += w * (mu[j] * to_one - rest[j] * to_zero + log_rest[start + j])
                if order > 1:
                    curve = (tri_a[j] + tri_b[j]) * slope * slope
                    bent = precision * mu[j] * (bend[j] + up[j] * up[j])
                    curvature[i, start + j] = w * (curve - (to_one + to_zero) * bent)
        total[i] += value
        if order > 0:
            by_phi[i, 0] += by_precision


@njit(**_KERNEL, error_model="numpy")
def add_cumulative(table, y, size, weight, phi, link, total, by_phi, curvature, order):
    """Ordered classes, phi = cutpoints: log of P(y) = F(phi_y - z) - F(phi_(y-1) - z), F logistic.

    The difference of the two is F(A) F(-B) (1 - e^(B - A)), A above and B below.
    """
    m, n = table.shape
    n_cuts = phi.shape[1]
    high, low, above, below = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    scratch, exponent, power = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    log_gap, by_gap = np.zeros(n_cuts + 1), np.zeros(n_cuts + 1)
    for i in range(m):
        value = 0.0
        for k in range(1, n_cuts):
            gap = max(phi[i, k] - phi[i, k - 1], 1e-300)
            log_gap[k] = math.log(-math.expm1(-gap))
            by_gap[k] = 1.0 / math.expm1(gap) if gap < MAX_EXPONENT else 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            for j in range(length):  # An end without a cutpoint is far away.
                k = int(y[start + j])
                high[j] = phi[i, k] - z[j] if k < n_cuts else MAX_EXPONENT
                low[j] = phi[i, k - 1] - z[j] if k > 0 else -MAX_EXPONENT
                above[j], below[j] = -abs(high[j]), -abs(low[j])
            _exponential(above, scratch, length)
            _exponential(below, scratch, length)
            for j in range(length):
                scratch[j] = (1.0 + above[j]) * (1.0 + below[j])
            logarithm(scratch, exponent, power, length)
            for j in range(length):
                logs = log_gap[int(y[start + j])] - scratch[j]
                value += weight[start + j] * (min(high[j], 0.0) - max(low[j], 0.0) + logs)
            if order > 0:
                for j in range(length):
                    k, w = int(y[start + j]), weight[start + j]
                    up = (above[j] if high[j] > 0.0 else 1.0) / (1.0 + above[j])  # F(-A).
                    down = (1.0 if low[j] > 0.0 else below[j]) / (1.0 + below[j])  # F(B).
                    z[j] = w * (down - up)
                    if k < n_cuts:
                        by_phi[i, k] += w * (up + by_gap[k])
                    if k > 0:
                        by_phi[i, k - 1] -= w * (down + by_gap[k])
                    if order > 1:
                        curvature[i, start + j] = w * (up * (1.0 - up) + down * (1.0 - down))
        total[i] += value


@njit(**_KERNEL, error_model="numpy")
def average_cumulative(table, raised, gaps, weights, out):
    """Add averages over particles of probabilities of classes to ``out`` (K, n).

    Predictors are ``table`` (m, n), of up to 128 rows; of cutpoints (m, K - 1) there are e^-cut in
    ``raised`` and 1 - e^(those below - cut) in ``gaps``, 1 for the first; ``weights`` are (m,). A
    class has F(cut - z) F(z - the cutpoint below) times the latter, without a difference.
    """
    (m, n_cuts), n = raised.shape, table.shape[1]
    rate, scratch, above = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    for i in range(m):
        for j in range(n):
            rate[j] = table[i, j]
            above[j] = weights[i]
        _exponential(rate, scratch, n)
        for k in range(n_cuts):
            edge, gap = raised[i, k], gaps[i, k]
            for j in range(n):
                odds = rate[j] * edge
                below = 1.0 / (1.0 + odds)
                out[k, j] += gap * above[j] * below
                above[j] = weights[i] * odds * below
        for j in range(n):
            out[n_cuts, j] += above[j]
