"""Ratios of gamma functions whose arguments may be huge."""

import numpy as np
from scipy.special import gammaln

# From here on log gammas lose more digits than the series does.
_HUGE = 1e6


def log_gamma_rise(a, h):
    """log Gamma(a + h) - log Gamma(a), for h that is small beside a where a is huge.

    The difference of two log gammas loses the digits that they have in common: at a = 1e13 they are
    3e14, and 1 / 16 is lost. There Stirling's series stands in their place,

        h log a + h (h - 1) / (2 a) - h (h - 1) (2 h - 1) / (12 a^2) + ...

    ``a`` is an array of positive numbers, whose shape the differences have; h is not negative.
    """
    a = np.asarray(a, dtype=np.float64)
    huge = a > _HUGE
    near = np.where(huge, 1.0, a)
    exact = gammaln(near + h) - gammaln(near)
    far = np.where(huge, a, 1.0)
    slope = h * (h - 1.0) / (2.0 * far)
    series = h * np.log(far) + slope * (1.0 - (2.0 * h - 1.0) / (6.0 * far))
    return np.where(huge, series, exact)
