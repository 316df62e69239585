"""Gibbs samplers of logistic regression: under N(0, I), and under the horseshoe prior.

`chains` is for the horseshoe, separable classes too. The posterior is that of
``targets.target(data, "horseshoe")``: c_j = tau lambda_j z_j with z_j ~ N(0, 1) and lambda_j,
tau ~ C+(0, 1), an intercept ~ N(0, 1). Where a hyperplane separates the classes the likelihood
bounds no scale from above: tau keeps its half-Cauchy tail, c its directions, and gradients see a
cone with hard walls. A sweep has three parts, each of which leaves the posterior as it is:

* The coefficients given the scales, all at once, by Polya-Gamma variables (Polson, Scott and
  Windle 2013). The larger the margins, the shorter these steps are beside them.
* The scales given c, by inverse-gamma variables (Makalic and Schmidt 2016).
* Each scale given z, by slices (Neal 2003): c moves along, as long as its rays allow. With the
  part before, that is interweaving (Yu and Meng 2011). Chains go down the tail of tau to where
  the first part is fast, and up again.

`normal_chains` is for N(0, 1) on every coefficient and on the intercept: the first part alone, with
all scales at 1.

References
----------
Makalic, E. and Schmidt, D. (2016). A simple sampler for the horseshoe estimator. IEEE Signal
Processing Letters 23, 179-182.

Neal, R. (2003). Slice sampling. Annals of Statistics 31, 705-767.

Polson, N., Scott, J. and Windle, J. (2013). Bayesian inference for logistic models using
Polya-Gamma latent variables. Journal of the American Statistical Association 108, 1339-1349.

Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. Journal of
Computational and Graphical Statistics 20, 531-570.
"""

import math
import time

import numpy as np
from numba import njit

N_CHAINS = 16
SLICE_WIDTH = 2.0  # of a log scale: a half-Cauchy's has the sd pi / 2
_CUT = 0.64  # where the two series of a Polya-Gamma density take over from each other


def chains(data, n_steps, seed, n_chains=N_CHAINS):
    """Yield, without end, coefficients (intercept last) and CPU seconds.

    Arrays of shape (n_chains, n_steps, p + 1); the first is for the caller to drop. The chains
    start from c = 0 and scales near 1: slices of a scale start badly where the likelihood is tiny.
    """
    rng = np.random.default_rng(seed)
    rows = _signed_rows(data)
    p = rows.shape[1] - 1
    z, log_scales = np.zeros((n_chains, p + 1)), rng.standard_normal((n_chains, p + 1))
    columns = np.ascontiguousarray(rows.T)
    _advance(z.copy(), log_scales.copy(), rows, columns, 1, rng)  # compiles
    while True:
        start = time.process_time()
        chunk = _advance(z, log_scales, rows, columns, n_steps, rng)
        yield chunk, time.process_time() - start


def normal_chains(data, n_steps, seed, n_chains=1, start=None):
    """Yield the same under N(0, 1) on all coordinates.

    The chains start from draws of it, or all of them from ``start``.
    """
    rng = np.random.default_rng(seed)
    rows = _signed_rows(data)
    z = rng.standard_normal((n_chains, rows.shape[1]))
    if start is not None:
        z[:] = start
    _advance_normal(z.copy(), rows, 1, rng)  # compiles
    while True:
        began = time.process_time()
        chunk = _advance_normal(z, rows, n_steps, rng)
        yield chunk, time.process_time() - began


def _signed_rows(data):
    """Rows with the label's sign in them: p(y | c) = prod_i 1 / (1 + exp(-rows_i c))."""
    signs = 2.0 * np.asarray(data.y, dtype=np.float64) - 1.0
    return signs[:, None] * np.column_stack([data.X, np.ones(len(signs))])


@njit
def _advance_normal(z, rows, n_steps, rng):
    """Move chains of z, in place, all scales being 1; return the coefficients."""
    out = np.empty((len(z), n_steps, z.shape[1]))
    logs = np.zeros(z.shape[1])
    for chain in range(len(z)):
        for step in range(n_steps):
            _draw_coefficients(z[chain], logs, rows, rng)
            out[chain, step] = z[chain]
    return out


@njit
def _advance(z, log_scales, rows, columns, n_steps, rng):
    """Move chains of z and (log lambda, log tau), in place; return the coefficients."""
    out = np.empty((len(z), n_steps, z.shape[1]))
    for chain in range(len(z)):
        for step in range(n_steps):
            own, logs = z[chain], log_scales[chain]
            _draw_coefficients(own, logs, rows, rng)
            _draw_scales(own, logs, rng)
            _slice_scales(own, logs, columns, rng)
            out[chain, step] = _widths(logs) * own
    return out


@njit
def _widths(logs):
    """Prior standard deviations of the coefficients given the scales, one for the intercept."""
    out = np.ones(len(logs))
    out[:-1] = np.exp(logs[:-1] + logs[-1])
    return out


@njit
def _draw_coefficients(z, logs, rows, rng):
    """Draw omega_i ~ PG(1, rows_i c), and z from its Gaussian given omega."""
    widths = _widths(logs)
    scaled = rows * widths
    margins = scaled @ z
    weighted = scaled.copy()
    for i in range(len(margins)):
        weighted[i] *= polya_gamma(margins[i], rng)
    precision = scaled.T @ weighted + np.eye(len(z))
    factor = np.ascontiguousarray(np.linalg.cholesky(precision))
    upper = np.ascontiguousarray(factor.T)
    # N(P^-1 b, P^-1) with P = L L' and b = scaled' 1 / 2: L'^-1 (L^-1 b + noise).
    for j in range(len(z)):
        z[j] = (0.5 * scaled[:, j].sum() - factor[j, :j] @ z[:j]) / factor[j, j]
    for j in range(len(z)):
        z[j] += rng.standard_normal()
    for j in range(len(z) - 1, -1, -1):
        z[j] = (z[j] - upper[j, j + 1 :] @ z[j + 1 :]) / factor[j, j]


@njit
def _draw_scales(z, logs, rng):
    """Draw lambda, then tau, given c, which z follows.

    s ~ C+(0, 1) is s^2 ~ IG(1/2, 1/a) with a ~ IG(1/2, 1), and c_j ~ N(0, s^2 w^2) makes it
    s^2 ~ IG(1, 1/a + c_j^2 / (2 w^2)), a ~ IG(1, 1 + 1/s^2).
    """
    p = len(z) - 1
    squares = (np.exp(logs[:p]) * z[:p]) ** 2  # of c_j / tau
    for j in range(p):
        rate = _auxiliary(logs[j], rng) + 0.5 * squares[j]
        moved = 0.5 * np.log(rate / rng.standard_exponential())
        z[j] *= np.exp(logs[j] - moved)
        logs[j] = moved
    rate = _auxiliary(logs[p], rng) + 0.5 * np.exp(2.0 * logs[p]) * (z[:p] ** 2).sum()
    moved = 0.5 * np.log(rate / rng.standard_gamma(0.5 * (p + 1)))
    z[:p] *= np.exp(logs[p] - moved)
    logs[p] = moved


@njit
def _auxiliary(log_scale, rng):
    """Return 1 / a with a ~ IG(1, 1 + 1/s^2)."""
    return rng.standard_exponential() / (1.0 + np.exp(-2.0 * log_scale))


@njit
def _slice_scales(z, logs, columns, rng):
    """Draw each log lambda_j, then log tau, given z."""
    p = len(z) - 1
    effects = (_widths(logs) * z)[:, None] * columns
    margins = effects.sum(axis=0)
    for j in range(p):
        ray = (np.exp(logs[p]) * z[j]) * columns[j]
        rest = margins - effects[j]
        logs[j] = _slice(logs[j], rest, ray, rng)
        margins = rest + np.exp(logs[j]) * ray
    intercept = z[p] * columns[p]
    logs[p] = _slice(logs[p], intercept, (margins - intercept) * np.exp(-logs[p]), rng)


@njit
def _slice(x, rest, ray, rng):
    """Slice sampling of a half-Cauchy scale exp(x) of ``ray``: stepping out, shrinkage."""
    level = _log_density(x, rest, ray) - rng.standard_exponential()
    low = x - SLICE_WIDTH * rng.random()
    high = low + SLICE_WIDTH
    while _log_density(low, rest, ray) > level:
        low -= SLICE_WIDTH
    while _log_density(high, rest, ray) > level:
        high += SLICE_WIDTH
    while True:
        new = low + (high - low) * rng.random()
        if _log_density(new, rest, ray) > level:
            return new
        if new < x:
            low = new
        else:
            high = new


@njit
def _log_density(x, rest, ray):
    """Of x = log scale: the likelihood and sech(x), up to a constant."""
    scale, size = np.exp(x), abs(x)
    total = -size - math.log1p(np.exp(-2.0 * size))
    for i in range(len(rest)):
        margin = rest[i] + scale * ray[i]
        total -= max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
    return total


@njit
def polya_gamma(c, rng):
    """Draw from PG(1, c), by Devroye's rejection from an alternating series.

    A quarter of a Jacobi variable tilted by c / 2; see section 4 of Polson, Scott and Windle.
    """
    half = 0.5 * abs(c)
    rate = np.pi**2 / 8.0 + 0.5 * half**2
    p_tail = _tail_probability(half, rate)
    while True:
        if rng.random() < p_tail:
            x = _CUT + rng.standard_exponential() / rate
        else:
            x = _short_inverse_gaussian(half, rng)
        if _accepted(x, rng):
            return 0.25 * x


@njit
def _tail_probability(half, rate):
    """Share of the proposal's mass beyond the cut, where it is exponential."""
    root = 1.0 / np.sqrt(2.0 * _CUT)
    shift = np.log(rate) + rate * _CUT
    # Twice the normal distribution functions in that of the inverse Gaussian.
    upper = np.exp(shift - half + np.log(math.erfc(root * (1.0 - _CUT * half))))
    lower = np.exp(shift + half + np.log(math.erfc(root * (1.0 + _CUT * half))))
    return 1.0 / (1.0 + 2.0 / np.pi * (upper + lower))


@njit
def _short_inverse_gaussian(half, rng):
    """Draw from the inverse Gaussian of mean 1 / half and shape 1, cut at `_CUT`."""
    if half * _CUT < 1.0:  # the mean is beyond: from half = 0, by rejection
        while True:
            one, two = rng.standard_exponential(), rng.standard_exponential()
            if one**2 <= 2.0 * two / _CUT:
                x = _CUT / (1.0 + _CUT * one) ** 2
                if rng.random() <= np.exp(-0.5 * half**2 * x):
                    return x
    mean = 1.0 / half
    while True:  # Michael, Schucany and Haas (1976)
        spread = mean * rng.standard_normal() ** 2
        x = mean * (1.0 + 0.5 * (spread - np.sqrt(spread * (4.0 + spread))))
        if rng.random() > mean / (mean + x):
            x = mean**2 / x
        if x <= _CUT:
            return x


@njit
def _accepted(x, rng):
    """Accept with the ratio of the series to its first term: its partial sums bracket it."""
    total = _term(0, x)
    height = rng.random() * total
    n = 0
    while True:
        n += 1
        if n % 2 == 1:
            total -= _term(n, x)
            if height <= total:
                return True
        else:
            total += _term(n, x)
            if height > total:
                return False


@njit
def _term(n, x):
    k = n + 0.5
    if x > _CUT:
        return np.pi * k * np.exp(-0.5 * (np.pi * k) ** 2 * x)
    return np.pi * k * (2.0 / (np.pi * x)) ** 1.5 * np.exp(-2.0 * k**2 / x)
