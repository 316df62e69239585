"""One-pass sequential Monte Carlo: each batch reweights the particles once, kernels move them.

Balakrishnan and Madigan (2006), "A one-pass sequential Monte Carlo method for Bayesian analysis of
massive datasets", Bayesian Analysis 1(2). Particles start from the prior (theirs from a posterior
of the first rows; Dai et al. 2016 start all methods from the prior). Where the effective sample
size falls below half of the particles, these are resampled and moved by kernels around centres
that shrink towards the mean, so that mean and covariance stay (Liu and West 2001). Rows that have
been read are not read again, so the error of a move stays.
"""

import numpy as np
from scipy.special import logsumexp

from skpmd.engine.particles import systematic

from .problem import Clock, Snapshot, batches, marks

# Discounts of .99 and .95 in the notation of Liu and West: h^2 = 1 - ((3 delta - 1) / (2 delta))^2.
BANDWIDTHS = (0.1, 0.23)


def one_pass_smc(
    problem, X, y, *, n_particles, seed, batch_size, passes=1, max_cpu=np.inf, bandwidth=0.1,
    n_snapshots=6,
):  # fmt: skip
    """Yield snapshots; see `problem`.

    ``bandwidth`` is the width of the kernels as a share of the spread of the particles. There is
    one pass, and ``passes`` above 1 mean nothing more.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    n_steps = -(-len(X) // batch_size)
    shown = marks(1, n_steps, n_snapshots)
    with clock:
        theta = problem.sample_prior(rng, n_particles)
        log_w = np.zeros(n_particles)
    systematic(np.full(2, 0.5), 2, np.random.default_rng(0))  # compiles
    stream = batches(len(X), batch_size, rng)
    rows = 0
    for step in range(1, n_steps + 1):
        with clock:
            batch = next(stream)
            rows += len(batch)
            part = None if y is None else y[batch]
            log_w = log_w + problem.log_likelihood(theta, X[batch], part)
            log_w -= logsumexp(log_w)
            if np.exp(-logsumexp(2.0 * log_w)) < 0.5 * n_particles:
                theta = rejuvenated(theta, np.exp(log_w), bandwidth, rng)
                log_w = np.full(n_particles, -np.log(n_particles))
        if step in shown:
            yield Snapshot(clock.cpu, rows, theta, log_w)
            if clock.cpu > max_cpu:
                return


def rejuvenated(theta, weights, bandwidth, rng):
    """Draw as many particles from the shrunk kernel density estimate."""
    mean = weights @ theta
    centred = theta - mean
    cov = (centred.T * weights) @ centred
    # Collapsed particles have a singular covariance; a little of its size keeps the factor defined.
    factor = np.linalg.cholesky(cov + 1e-10 * np.trace(cov) * np.eye(len(cov)) + 1e-300)
    ancestors = systematic(weights, len(theta), rng)
    noise = rng.standard_normal(theta.shape) @ factor.T
    return mean + np.sqrt(1.0 - bandwidth**2) * centred[ancestors] + bandwidth * noise
