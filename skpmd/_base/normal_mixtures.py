"""Mixtures of normals in one dimension, one for each of n rows: averages, distances, quantiles.

Means, standard deviations and weights are arrays (k, n). A component of standard deviation 0 is a
constant.
"""

import numpy as np
from scipy.special import erf, ndtr, ndtri

_MAX_STEPS = 200  # A search ends after so many steps; about 7 are usual.
_EPS = np.finfo(float).eps
LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


def lower_quantile(cdf_and_density, p, low, high, start, done):
    """Places (n,) where distribution functions reach p, at most 0.5.

    ``cdf_and_density`` maps places (n,), one for each distribution, to two arrays (n,). The
    quantiles lie between ``low`` and ``high``, the search begins at ``start``, and where it is
    ``done`` the beginning is the end, (n,) each.

    Newton's method on the logarithm of the distribution function, which is smooth in the tail; a
    step that leaves the bracket gives way to a bisection. A row that is done stays as it is: it
    does not depend on the other rows.
    """
    x, done = start, done.copy()
    for _ in range(_MAX_STEPS):
        cdf, density = cdf_and_density(x)
        low, high = np.where(cdf < p, x, low), np.where(cdf < p, high, x)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            gap = np.log(cdf) - np.log(p)
            newton = -gap * cdf / density
        # As close as rounding of the distribution function, or of x, lets it come.
        nearest = 4.0 * _EPS * np.abs(x)
        done |= (np.abs(gap) <= 16.0 * _EPS * (1.0 - np.log(p))) | (high - low <= 2.0 * nearest)
        if done.all():
            break
        # A step of no length would leave the other end of the bracket far off.
        ahead = x + np.copysign(np.maximum(np.abs(newton), nearest), newton)
        inside = (low < ahead) & (ahead < high)
        x = np.where(done, x, np.where(inside, ahead, low + 0.5 * (high - low)))
    return x


def weighted(weights, table):
    """Averages over the components, (n,)."""
    return np.einsum("kn,kn->n", weights, table)


def scaled(y, means, stds):
    """(y - means) / stds, shape (k, n); of a constant infinite, with its own value below y."""
    off = y - means
    out = np.where(off >= 0.0, np.inf, -np.inf)
    with np.errstate(over="ignore"):
        return np.divide(off, stds, out=out, where=stds > 0.0)


def mean_abs(means, stds):
    """E|Z| of Z normal."""
    means = np.abs(means)
    with np.errstate(over="ignore"):
        z = np.divide(means, stds, out=np.full(means.shape, np.inf), where=stds > 0.0)
        density = np.exp(-0.5 * z**2 - LOG_ROOT_TWO_PI)
    return 2.0 * stds * density + means * erf(np.sqrt(0.5) * z)


def least_quantile(means, stds, weights, p, reaches):
    """Least value at which the cdf reaches p, at most 0.5, of each row.

    It lies between the quantiles of the components.
    """
    ends = means + np.multiply(stds, ndtri(p), out=np.zeros(stds.shape), where=stds > 0.0)
    low = np.where(weights > 0.0, ends, np.inf).min(axis=0)
    high = np.where(weights > 0.0, ends, -np.inf).max(axis=0)
    if p == 0.0 or (low == high).all():
        return low
    x, done = _at_jumps(means, stds, weights, p, reaches, low + 0.5 * (high - low))

    def cdf_and_density(x):
        return _cdf_and_density(x, means, stds, weights)

    return lower_quantile(cdf_and_density, p, low, high, x, done | (low == high))


def _cdf_and_density(x, means, stds, weights):
    z = scaled(x, means, stds)
    with np.errstate(over="ignore"):
        density = weights * np.exp(-0.5 * z**2 - LOG_ROOT_TWO_PI)
        density = np.divide(density, stds, out=np.zeros(z.shape), where=stds > 0.0)
    return weighted(weights, ndtr(z)), density.sum(axis=0)


def _at_jumps(means, stds, weights, p, reaches, start):
    """Rows whose cdf jumps over p, at a constant: its value there, else start; and which."""
    x, found = start.copy(), np.zeros(len(start), dtype=bool)
    constant = stds == 0.0
    for j in np.flatnonzero(constant.any(axis=1)):
        at = weighted(weights, ndtr(scaled(means[j], means, stds)))
        jump = weighted(weights, constant & (means == means[j]))
        here = constant[j] & (weights[j] > 0.0) & reaches(at, p) & ~reaches(at - jump, p)
        x[here], found = means[j, here], found | here
    return x, found
