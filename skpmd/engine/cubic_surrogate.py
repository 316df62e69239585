"""A polynomial in the place of log q: what a rejuvenation keeps of q beyond its two moments.

Until a rejuvenation, log q = r + log pi is known without error at every particle. A density
estimate throws these values away and looks at where the particles lie; least squares on the values
loses only what a cubic cannot follow.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine import rejuvenation_error
from skpmd.engine.particles import effective_sample_size, weights, whitened
from skpmd.engine.polynomial import PER_TERM, POWER, monomials, n_terms

_MIN_ESS = 20.0  # A fit needs so many effective particles where the step goes.
_MAX_MISFIT = 0.25  # A worse root mean square misfit, in nats, is not trusted.
_MAX_TERMS = 1000  # Of more, those of 17 coordinates, a fit took minutes and gigabytes.


class Cubic(NamedTuple):
    """Polynomial in u = chol^-1 (theta - mean), by its coefficients."""

    mean: np.ndarray
    chol: np.ndarray
    coefficients: np.ndarray
    degree: int  # 3, or 2 of many coordinates.


def fit(particles, after, gaussian):
    """Weighted least squares of log q on the particles, or None where that is not to be trusted.

    A polynomial knows nothing beyond its particles. So enough of them have to be effective where
    the step goes, and it has to follow log q there and wherever q has mass.

    ``particles`` is q, whose pi has to be known, and ``after`` the same particles after the step.
    The Gaussian is near q, for coordinates of order one.
    """
    theta, d = particles.theta, particles.theta.shape[1]
    degree = 3 if n_terms(d, 3) <= _MAX_TERMS else 2
    if np.isnan(particles.log_pi).any() or len(theta) < PER_TERM * n_terms(d, degree):
        return None
    if effective_sample_size(after.log_ratio) < _MIN_ESS:
        return None
    log_q = particles.log_ratio + particles.log_pi
    alive = log_q > -np.inf
    root = np.sqrt(weights(POWER * particles.log_ratio[alive]))
    terms = monomials(whitened(theta[alive], *gaussian), degree)
    solution = np.linalg.lstsq(terms * root[:, None], log_q[alive] * root, rcond=None)[0]
    misfit = terms @ solution - log_q[alive]
    # Later steps may go where this one does not: the polynomial has to follow q there too.
    follows = all(
        w @ (misfit - w @ misfit) ** 2 < _MAX_MISFIT**2
        for w in (root**2, weights(after.log_ratio[alive]))
    )
    return Cubic(*gaussian, solution, degree) if follows else None


def value(cubic, theta):
    """The polynomial at each row of theta, shape (m,)."""
    return monomials(whitened(theta, cubic.mean, cubic.chol), cubic.degree) @ cubic.coefficients


def error_terms_of(cubic, particles, after, error_terms, monitored):
    """What the polynomial loses of q, seen where the step takes q.

    It is added to ``error_terms``, of shape (r, 3) or (1, 3), which rejuvenations before this one
    have lost; the sum has the shape (r, 3), see `skpmd.engine.rejuvenation_error`. ``particles``
    and ``after`` are as of `fit`.
    """
    w = weights(after.log_ratio)
    alive = w > 0.0
    gain = value(cubic, particles.theta[alive]) - (particles.log_ratio + particles.log_pi)[alive]
    return rejuvenation_error.of_gain(
        error_terms, particles.theta[alive], w[alive], gain, monitored
    )
