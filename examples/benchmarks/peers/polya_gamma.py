"""Gibbs sampler of logistic regression under N(0, I), by Polya-Gamma variables.

References
----------
Polson, N., Scott, J. and Windle, J. (2013). Bayesian inference for logistic models using
Polya-Gamma latent variables. Journal of the American Statistical Association 108, 1339-1349.
"""

import math
import time

import numpy as np
from numba import njit

_CUT = 0.64  # where the two series of a Polya-Gamma density take over from each other


def normal_chains(data, n_steps, seed, n_chains=1, start=None):
    """Yield, without end, coefficients (intercept last) and CPU seconds.

    Arrays of shape (n_chains, n_steps, p + 1); the first is for the caller to drop. The chains
    start from draws of the prior, or all of them from ``start``.
    """
    rng = np.random.default_rng(seed)
    # The label's sign is in the rows: p(y | c) = prod_i 1 / (1 + exp(-rows_i c)).
    signs = 2.0 * np.asarray(data.y, dtype=np.float64) - 1.0
    rows = signs[:, None] * np.column_stack([data.X, np.ones(len(signs))])
    z = rng.standard_normal((n_chains, rows.shape[1]))
    if start is not None:
        z[:] = start
    _advance(z.copy(), rows, 1, rng)  # compiles
    while True:
        began = time.process_time()
        chunk = _advance(z, rows, n_steps, rng)
        yield chunk, time.process_time() - began


@njit
def _advance(z, rows, n_steps, rng):
    """Move chains of z, in place; return the coefficients."""
    out = np.empty((len(z), n_steps, z.shape[1]))
    for chain in range(len(z)):
        for step in range(n_steps):
            _draw_coefficients(z[chain], rows, rng)
            out[chain, step] = z[chain]
    return out


@njit
def _draw_coefficients(z, rows, rng):
    """Draw omega_i ~ PG(1, rows_i z), and z from its Gaussian given omega."""
    margins = rows @ z
    weighted = rows.copy()
    for i in range(len(margins)):
        weighted[i] *= polya_gamma(margins[i], rng)
    precision = rows.T @ weighted + np.eye(len(z))
    factor = np.ascontiguousarray(np.linalg.cholesky(precision))
    upper = np.ascontiguousarray(factor.T)
    # N(P^-1 b, P^-1) with P = L L' and b = rows' 1 / 2: L'^-1 (L^-1 b + noise).
    for j in range(len(z)):
        z[j] = (0.5 * rows[:, j].sum() - factor[j, :j] @ z[:j]) / factor[j, j]
    for j in range(len(z)):
        z[j] += rng.standard_normal()
    for j in range(len(z) - 1, -1, -1):
        z[j] = (z[j] - upper[j, j + 1 :] @ z[j + 1 :]) / factor[j, j]


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
