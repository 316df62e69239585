"""Quantiles of many distributions at once, by their distribution functions and densities."""

import numpy as np

_MAX_STEPS = 200  # A search ends after so many steps; about 7 are usual.
_EPS = np.finfo(float).eps


def lower_quantile(cdf_and_density, p, low, high, start, done):
    """Places (n,) where distribution functions reach p, at most 0.5.

    Newton's method on the logarithm of the distribution function, which is smooth in the tail; a
    step that leaves the bracket gives way to a bisection. A row that is done stays as it is: it
    does not depend on the other rows.

    Parameters
    ----------
    cdf_and_density : callable
        Of places (n,), one for each distribution; two arrays (n,).
    p : float
        Probability.
    low, high : ndarray of shape (n,)
        Places between which the quantiles lie.
    start : ndarray of shape (n,)
        Places to begin at.
    done : ndarray of shape (n,), bool
        Where the beginning is the end.
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
