"""The cloud: particles drawn from a known density, and the log ratio they carry."""

from typing import NamedTuple

import numpy as np
from numba import njit

NO_ERROR = np.zeros((1, 3))  # lost so far, whatever is watched


class Particles(NamedTuple):
    """Particles of one density q, held by importance ratios to the density they came from.

    The particles were drawn from a density pi (the prior, a reference or the kernel density
    estimate of the last rejuvenation), and q is known up to a constant through
    ``log_ratio = log q - log pi``. The ratio is never renormalised: after a polish step its
    log mean exponential is the log evidence.

    Attributes
    ----------
    theta : ndarray of shape (m, d)
        Particle positions (xi of the paper's section 3.1 where a closed-form block is present).
    log_ratio : ndarray of shape (m,)
        r, the log ratio of q to pi, up to one constant. ``-inf`` marks a particle outside q.
    log_pi : ndarray of shape (m,)
        Log density, normalised, from which each particle was drawn.
    log_prior : ndarray of shape (m,)
        Log prior density at each particle, evaluated once per position.
    block : ndarray of shape (m, k)
        Natural parameters of q(zeta | xi), one row per particle; k = 0 for a plain model.
    error_terms : ndarray of shape (r, 3) or (1, 3)
        What redraws have cost; see `skpmd.engine.rejuvenation_error`.
    """

    theta: np.ndarray
    log_ratio: np.ndarray
    log_pi: np.ndarray
    log_prior: np.ndarray
    block: np.ndarray
    error_terms: np.ndarray = NO_ERROR


def draw_prior(model, n_particles, rng):
    """Start a cloud at q = prior: positions from the prior, pi = prior, r = 0."""
    theta = np.ascontiguousarray(model.sample_prior(rng, n_particles), dtype=np.float64)
    log_prior = model.log_prior(theta)
    if not np.isfinite(log_prior).all():
        raise ValueError(
            "sample_prior draws parameters where log_prior is not finite: the two must describe "
            "one and the same density."
        )
    fixed = np.ptp(theta, axis=0) == 0.0
    if fixed.any():
        j = int(np.flatnonzero(fixed)[0])
        raise ValueError(
            f"All {len(theta)} draws of sample_prior have theta[:, {j}] = {theta[0, j]:g}, and "
            "particles never leave it: draw it from the prior with the generator that "
            "sample_prior is given, or leave it out of theta."
        )
    return Particles(theta, np.zeros(len(theta)), log_prior, log_prior, model.prior_block(theta))


def log_weights(log_ratio):
    """Normalise log ratios to log weights that sum to one in probability."""
    return log_ratio - log_sum_exp(log_ratio)


def weights(log_ratio):
    """Normalised weights, linear scale."""
    return np.exp(log_weights(log_ratio))


def moments(theta, log_ratio):
    """Weighted mean of shape (d,) and covariance of shape (d, d) of a cloud."""
    w = weights(log_ratio)
    mean = w @ theta
    centred = theta - mean
    return mean, (centred * w[:, None]).T @ centred


@njit(cache=True)
def log_sum_exp(values):
    """Log of the sum of exponentials of a vector, stable; -inf where nothing is finite."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf or top == np.inf:
        return top
    total = 0.0
    for value in values:
        total += np.exp(value - top)
    return top + np.log(total)


@njit(cache=True)
def effective_sample_size(log_ratio):
    """Kish's effective sample size of unnormalised log weights, 0 where all are -inf."""
    top = -np.inf
    for value in log_ratio:
        top = max(top, value)
    if top == -np.inf:
        return 0.0
    first = 0.0
    second = 0.0
    for value in log_ratio:
        weight = np.exp(value - top)
        first += weight
        second += weight * weight
    return first * first / second
