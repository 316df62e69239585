"""Stochastic variational inference of logistic regression with Jaakkola and Jordan's bound.

The prior is N(0, I) on every coefficient and on the intercept, the last coordinate. With
z_i = x_i' theta, lambda(xi) = tanh(xi / 2) / (4 xi) and any xi_i,

    log p(y_i | theta) >= log sigmoid(xi_i) + (y_i - 1/2) z_i - xi_i / 2
                          - lambda(xi_i) (z_i^2 - xi_i^2),

which is quadratic in theta: given xi, the best q is N(P^-1 h, P^-1) with

    P = I + 2 sum_i lambda(xi_i) x_i x_i',    h = sum_i (y_i - 1/2) x_i,

and given q the best xi_i^2 is E_q z_i^2. (h, P) are the natural parameters of q; a natural
gradient step of length rho on the bound of a batch, scaled up to all rows, is a weighted average
of old ones and of those that are best for the batch (Hoffman et al., equation 31). With all rows in
the batch and rho = 1 it is the original algorithm.

References
----------
Hoffman, M., Blei, D., Wang, C. and Paisley, J. (2013). Stochastic variational inference. Journal
of Machine Learning Research 14, 1303-1347.

Jaakkola, T. and Jordan, M. (1997). A variational approach to Bayesian logistic regression models
and their extensions. AISTATS.
"""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from .problem import Clock, Snapshot, batches, gaussian_particles, marks


def jaakkola_jordan(
    X, y, *, n_particles, seed, batch_size, passes, max_cpu=np.inf, rho, n_snapshots=6
):
    """Yield snapshots, as of `problem`. Their particles have the Gaussian's mean and covariance.

    ``rho(t)`` is the length of step t = 1, 2, ..., at most 1. The prior is the start.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    design = np.column_stack([X, np.ones(len(X))])
    half = np.asarray(y, dtype=np.float64) - 0.5
    h, P = np.zeros(design.shape[1]), np.eye(design.shape[1])
    n_steps = max(1, round(passes * len(half) / batch_size))
    shown, rows = marks(1, n_steps, n_snapshots), 0
    stream = batches(len(half), batch_size, rng)
    for step in range(1, n_steps + 1):
        with clock:
            batch = next(stream)
            rows += len(batch)
            scale, length = len(half) / len(batch), rho(step)
            new_h, new_P = batch_parameters(design[batch], half[batch], h, P, scale)
            h, P = h + length * (new_h - h), P + length * (new_P - P)
        if step in shown:
            mean, factor = moments(h, P)
            particles = gaussian_particles(mean, factor, n_particles, rng)
            yield Snapshot(clock.cpu, rows, particles, np.zeros(len(particles)))
            if clock.cpu > max_cpu:
                return


def batch_parameters(design, half, h, P, scale):
    """Natural parameters that are best for a batch, each of its rows counted ``scale`` times."""
    weighted = (2.0 * scale * curvature(best_xi(design, h, P)))[:, None] * design
    return scale * (half @ design), np.eye(len(h)) + weighted.T @ design


def best_xi(design, h, P):
    """Return the root of E_q z_i^2 for each row."""
    factor = cholesky(P, lower=True, check_finite=False)
    columns = np.column_stack([h, design.T])
    white = solve_triangular(factor, columns, lower=True, overwrite_b=True, check_finite=False)
    mean, rows = white[:, 0], white[:, 1:]
    return np.sqrt((rows**2).sum(axis=0) + (mean @ rows) ** 2)


def curvature(xi):
    """Return lambda(xi), which is 1/8 at zero."""
    xi = np.maximum(xi, 1e-6)
    return np.tanh(0.5 * xi) / (4.0 * xi)


def moments(h, P):
    """Return the mean of N(P^-1 h, P^-1) and a factor of its covariance."""
    cov = np.linalg.inv(P)
    return cov @ h, np.linalg.cholesky(0.5 * (cov + cov.T))
