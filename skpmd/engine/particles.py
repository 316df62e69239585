"""Particles drawn from a known density, and the log ratio they carry."""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import solve_triangular


class Particles(NamedTuple):
    """Particles of one density q, held by importance ratios to the density they came from.

    The particles were drawn from a density pi (the prior, a proposal or the kernel density
    estimate of the last rejuvenation), and q is known up to a constant through
    ``log_ratio = log q - log pi``. The ratio is never renormalised: after reweighting its
    log mean exponential is the log evidence.
    """

    # (m, d): Particle positions (xi of the paper's section 3.1 where a conjugate block is
    # present).
    theta: np.ndarray
    # (m,): r, the log ratio of q to pi, up to one constant. ``-inf`` marks a particle outside q.
    log_ratio: np.ndarray
    log_pi: np.ndarray  # (m,): Log density, normalised, from which each particle was drawn.
    log_prior: np.ndarray  # (m,): Log prior density at each particle, evaluated once per position.
    # (m, k): Natural parameters of q(zeta | xi), one row per particle; k = 0 for a plain model. A
    # model may have any other object in its place.
    block: np.ndarray


class Rejuvenated(NamedTuple):
    """What a strategy of rejuvenation hands back to the step.

    A strategy is a callable ``(particles, model, settings, rng, *, n_particles, defensive,
    observer)``; one with the attribute ``follows`` is called after each segment instead, with
    ``done``, the share of the step that has been taken.
    """

    particles: Particles  # Fresh particles of q.
    bandwidth: float = np.nan  # Of a kernel density estimate, nan of other strategies.
    # (m,): That of the step's rows at the fresh particles, where it has been taken already.
    log_likelihood: np.ndarray | None = None
    record: dict = {}  # What the history keeps of it.


def draw_prior(model, n_particles, rng):
    """Particles at q = prior: positions from the prior, pi = prior, r = 0."""
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
    """Normalise log ratios to log weights that sum to one in probability.

    The largest goes first: a sum next to a number of 1e16 has lost what the weights differ by.
    """
    relative = log_ratio - np.max(log_ratio)
    return relative - log_sum_exp(relative)


def weights(log_ratio):
    """Normalised weights, linear scale."""
    return np.exp(log_weights(log_ratio))


def moments(theta, log_ratio):
    """Weighted mean of shape (d,) and covariance of shape (d, d) of weighted particles."""
    w = weights(log_ratio)
    mean = w @ theta
    centred = theta - mean
    return mean, (centred * w[:, None]).T @ centred


def whitened(theta, mean, chol):
    """Points u = chol^-1 (theta - mean), (m, d), of a lower triangular Cholesky factor."""
    return solve_triangular(chol, (theta - mean).T, lower=True).T


@njit(cache=True, no_cfunc_wrapper=True)
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


@njit(cache=True, no_cfunc_wrapper=True)
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


def equally_weighted(model, theta):
    """Particles of one weight, whose density is not known: moved by Markov chains, or averaged."""
    m = len(theta)
    unknown, block = np.full(m, np.nan), np.empty((m, 0))
    return Particles(theta, np.zeros(m), unknown, model.log_prior(theta), block)
