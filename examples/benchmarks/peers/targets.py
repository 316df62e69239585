"""The posteriors that NUTS is run on: binary and softmax regression under N(0, 1).

Coordinates as reported: coefficients in column order, intercept last; softmax regression has K
such rows, one after the other (``coef_0, intercept_0, coef_1, ...``), the symmetric
parametrisation. The data are standardised features and labels 0, 1, ...
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .jax_setup import jax, jnp
from .laplace import laplace, softmax_laplace


@dataclass(frozen=True)
class Target:
    """A posterior on R^d and the coordinates in which it is near N(0, I).

    Attributes
    ----------
    potential : callable
        Negative log joint density at theta, shape (d,), up to a constant; written in jax.
    centre, scale : ndarray of shape (d,) and (d, d)
        The chains move in z, theta = centre + scale @ z.
    reported : callable
        From theta, shape (..., d), to the coordinates whose moments are wanted.
    """

    potential: Callable
    centre: np.ndarray
    scale: np.ndarray
    reported: Callable = np.asarray


def target(data):
    """Return the posterior of a `Dataset` under N(0, 1) on coefficients and intercepts."""
    n_classes = int(data.y.max()) + 1
    return _softmax(data.X, data.y, n_classes) if n_classes > 2 else _binary(data.X, data.y)


def _binary(X, y):
    approximation = laplace(X, y)
    loss = _logistic_loss(X, y)

    def potential(theta):
        return loss(theta) + 0.5 * (theta @ theta)

    return Target(potential, approximation.mode, np.linalg.cholesky(approximation.cov))


def _softmax(X, y, n_classes):
    approximation = softmax_laplace(X, y, n_classes)
    design = np.column_stack([X, np.ones(len(X))])
    # The chosen logits add up to a linear function: sum_n logit[y_n, n] = <observed, theta>.
    observed = jnp.asarray((np.eye(n_classes)[y].T @ design).ravel())
    columns = jnp.asarray(design.T)

    def potential(theta):
        logits = theta.reshape(n_classes, -1) @ columns
        return log_sum_exp_sum(logits) - observed @ theta + 0.5 * (theta @ theta)

    return Target(potential, approximation.mode, np.linalg.cholesky(approximation.cov))


def _logistic_loss(X, y):
    # With the label's sign folded into the rows, -log p(y | theta) = softplus(rows @ theta).
    signs = 1.0 - 2.0 * np.asarray(y, dtype=np.float64)
    rows = jnp.asarray(signs[:, None] * np.column_stack([X, np.ones(len(X))]))
    return lambda theta: softplus_sum(rows @ theta)


@jax.custom_vjp
def softplus_sum(x):
    """Sum of log(1 + exp(x)), with a gradient that shares its one exponential per entry."""
    return (jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))).sum()


def _softplus_sum_forward(x):
    small = jnp.exp(-jnp.abs(x))
    value = (jnp.maximum(x, 0.0) + jnp.log1p(small)).sum()
    return value, jnp.where(x >= 0.0, 1.0, small) / (1.0 + small)


softplus_sum.defvjp(_softplus_sum_forward, lambda sigmoid, upstream: (upstream * sigmoid,))


@jax.custom_vjp
def log_sum_exp_sum(x):
    """Sum over columns of the log-sum-exp over rows, its exponentials shared likewise."""
    return _log_sum_exp_sum_forward(x)[0]


def _log_sum_exp_sum_forward(x):
    largest = x.max(axis=0)
    powers = jnp.exp(x - largest)
    total = powers.sum(axis=0)
    return (largest + jnp.log(total)).sum(), powers / total


log_sum_exp_sum.defvjp(_log_sum_exp_sum_forward, lambda shares, upstream: (upstream * shares,))
