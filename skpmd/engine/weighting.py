"""Weights of particles: uniform, of the posterior, or by stacking.

Likelihood weights of particles that each carry a whole model fall on one of them. Stacking weights
maximise the log score of the mixture on rows that no particle has been fitted to (Yao et al. 2018).
They are no posterior weights.
"""

import numpy as np

from skpmd.engine.particles import log_sum_exp

_MIN_WEIGHT = 1e-300  # No weight becomes zero.


def uniform(m):
    """Log weights of m particles of equal weight."""
    return np.full(m, -np.log(m))


def posterior(log_values):
    """Log weights in proportion to evidences, or to bounds of them, given their logarithms."""
    return log_values - log_sum_exp(log_values)


def stacked(
    log_density, weight, log_start=None, *, max_iter=200, tol=0.0, prior_rows=0.0, dtype=np.float32
):  # fmt: skip
    """Log weights of the best mixture by expectation-maximisation.

    Each weight is multiplied by its mean responsibility.

    Parameters
    ----------
    log_density : ndarray of shape (n, c)
        Of rows under each particle, or component of one, that does not know them.
    weight : ndarray of shape (n,)
        How often each row counts.
    log_start : ndarray of shape (c,), optional
        Log weights to start from, sum of exp 1; default: equal ones.
    max_iter : int
        Bound on the iterations.
    tol : float
        Iterations end when the mean log score gains less.
    prior_rows : float
        Rows that speak for the weights at the start: with some, none becomes zero.
    dtype : dtype
        Of the densities. Responsibilities need no more than float32, and the products are bound by
        memory; but the score then has a noise of 1e-8, at which weights may still be on their way.

    Returns
    -------
    ndarray of shape (c,)
        Log weights, sum of exp 1.
    """
    largest = log_density.max(axis=1, keepdims=True)
    density = np.exp((log_density - largest).astype(dtype))
    start = np.exp(uniform(log_density.shape[1]) if log_start is None else log_start)
    weights, total, last = start, weight.sum(), -np.inf
    for _ in range(max_iter):
        mixed = np.maximum(density @ weights.astype(dtype), 1e-30)
        score = weight @ np.log(mixed.astype(np.float64)) / total
        if score - last < tol:
            break
        gain = density.T @ (weight / mixed).astype(dtype)
        weights = (weights * gain + prior_rows * start) / (total + prior_rows)
        weights, last = weights / weights.sum(), score
    return np.log(np.maximum(weights, _MIN_WEIGHT))


def stacking_step(log_weights, log_density, weight, n_before):
    """Log weights after new rows that no particle has been fitted to yet.

    w <- (1 - g) w + g * mean responsibility of each particle for the rows, g the share of these
    rows among all that have been scored. To first order that is a mirror step on the log score of
    the mixture.

    Parameters
    ----------
    log_weights : ndarray of shape (m,)
        Before, sum of exp 1.
    log_density : ndarray of shape (m, n)
        Of the rows under each particle.
    weight : ndarray of shape (n,)
        How often each row counts.
    n_before : float
        Weighted rows that the weights before come from.

    Returns
    -------
    ndarray of shape (m,)
        Log weights after.
    """
    total = weight.sum()
    gamma = total / (n_before + total)
    joint = log_weights[:, None] + log_density
    responsibility = np.exp(joint - np.logaddexp.reduce(joint, axis=0)) @ weight / total
    responsibility = np.maximum(responsibility, _MIN_WEIGHT)
    return np.log((1.0 - gamma) * np.exp(log_weights) + gamma * responsibility)
