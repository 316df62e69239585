"""Weights of particles: uniform, of the posterior, or by stacking.

Likelihood weights of particles that each carry a whole model fall on one of them. Stacking weights
maximise the log score of the mixture on rows that no particle has been fitted to (Yao et al. 2018).
They are no posterior weights.
"""

import numpy as np
from scipy.special import softmax

from skpmd.engine.particles import log_weights

_MIN_WEIGHT = 1e-300  # No weight becomes zero.


def uniform(m):
    """Log weights of m particles of equal weight."""
    return np.full(m, -np.log(m))


def posterior(log_values):
    """Log weights in proportion to evidences, or to bounds of them, given their logarithms."""
    return log_weights(log_values)


def stacked(
    log_density, weight, log_start=None, *, max_iter=200, tol=0.0, prior_rows=0.0, dtype=np.float32
):  # fmt: skip
    """Log weights of the best mixture by expectation-maximisation.

    Each weight is multiplied by its mean responsibility, until the mean log score gains less than
    ``tol``. ``log_start`` and the log weights returned have the shape (c,) and a sum of exp 1; by
    default all are equal at the start.

    ``log_density``, of shape (n, c), is that of rows under each particle, or component of one, that
    does not know them, and ``weight``, (n,), is how often each row counts. ``prior_rows`` speak for
    the weights at the start: with some, none becomes zero.

    The densities have the given dtype. Responsibilities need no more than float32, and the products
    are bound by memory; but the score then has a noise of 1e-8, at which weights may still be on
    their way.
    """
    largest = log_density.max(axis=1, keepdims=True)
    density = (log_density - largest).astype(dtype, copy=False)
    np.exp(density, out=density)
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
    """Log weights (m,) after new rows that no particle has been fitted to yet.

    w <- (1 - g) w + g * mean responsibility of each particle for the rows, g the share of these
    rows among all that have been scored. To first order that is a mirror step on the log score of
    the mixture.

    The log weights before have a sum of exp 1 and come from ``n_before`` weighted rows.
    ``log_density``, of shape (m, n), is that of the new rows under each particle, and ``weight``,
    (n,), is how often each row counts.
    """
    total = weight.sum()
    gamma = total / (n_before + total)
    joint = log_weights[:, None] + log_density
    responsibility = softmax(joint, axis=0) @ weight / total
    responsibility = np.maximum(responsibility, _MIN_WEIGHT)
    return np.log((1.0 - gamma) * np.exp(log_weights) + gamma * responsibility)
