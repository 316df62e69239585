"""The posteriors that NUTS is run on: binary and softmax regression, several priors.

Coordinates as reported: coefficients in column order, intercept last; softmax regression has K
such rows, one after the other (``coef_0, intercept_0, coef_1, ...``), the symmetric
parametrisation. The intercept's prior is N(0, 1), whatever the prior on the coefficients. The
data are standardised features and labels 0, 1, ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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


def target(data, prior="normal"):
    """Return the posterior of a `Dataset` under N(0, 1) or one of `PRIORS` on the coefficients."""
    if prior == "horseshoe":
        return _horseshoe(data.X, data.y)
    n_classes = int(data.y.max()) + 1
    if n_classes > 2:
        if prior != "normal":
            raise ValueError("Softmax regression is here with the normal prior only.")
        return _softmax(data.X, data.y, n_classes)
    return _binary(data.X, data.y, PRIORS[prior])


# Negative log densities of coefficients, scale 1, constants left out.
PRIORS = {
    "normal": lambda coef: 0.5 * (coef @ coef),
    "laplace": lambda coef: jnp.abs(coef).sum(),
    "student_t": lambda coef: 2.5 * jnp.log1p(coef**2 / 4.0).sum(),  # 4 degrees of freedom
    "cauchy": lambda coef: jnp.log1p(coef**2).sum(),
}


def _binary(X, y, prior):
    # The Laplace approximation under the normal prior whitens for the others too.
    approximation = laplace(X, y)
    loss = _logistic_loss(X, y)

    def potential(theta):
        return loss(theta) + prior(theta[:-1]) + 0.5 * theta[-1] ** 2

    return Target(potential, approximation.mode, np.linalg.cholesky(approximation.cov))


def _horseshoe(X, y):
    """Coefficients s_j u_j with u_j ~ N(0, 1), s_j = lambda_j tau and lambda_j, tau ~ C+(0, 1).

    In (coef, log s) small scales make a funnel, in (u, log s) large ones do. So u is whitened given
    s: to second order the likelihood is exp(g'b - b'Hb / 2), hence u | s ~ N(P^-1 S g, P^-1) with
    P = I + S H S = L L', and the chains see w = L'(u - P^-1 S g). The change of variables, with
    log |du/dw| = -log det L, is exact however rough the expansion is.

    theta = (w, log lambda, log tau), w with an entry for the intercept, whose scale is one. The
    logarithm l of a standard half-Cauchy variable has the density sech(l) / pi.
    """
    p = X.shape[1]
    loss = _logistic_loss(X, y)
    approximation = laplace(X, y)
    precision = np.linalg.inv(approximation.cov)
    slope, curvature = jnp.asarray(precision @ approximation.mode), precision - np.eye(p + 1)
    solve = jax.scipy.linalg.solve_triangular

    def standardised(theta):
        """Return u, s and log det L."""
        w, log_lambda, log_tau = theta[: p + 1], theta[p + 1 : -1], theta[-1]
        s = jnp.append(jnp.exp(log_lambda + log_tau), 1.0)
        factor = jnp.linalg.cholesky(jnp.eye(p + 1) + s[:, None] * curvature * s)
        u = solve(factor.T, w + solve(factor, s * slope, lower=True))
        return u, s, jnp.log(jnp.diag(factor)).sum()

    def potential(theta):
        u, s, log_det = standardised(theta)
        size = jnp.abs(theta[p + 1 :])
        log_cosh = size + jnp.log1p(jnp.exp(-2.0 * size))
        return loss(s * u) + 0.5 * (u @ u) + log_det + log_cosh.sum()

    @jax.jit
    @partial(jnp.vectorize, signature="(d)->(c)")
    def coefficients(theta):
        u, s, _ = standardised(theta)
        return s * u

    d = 2 * p + 2
    return Target(potential, np.zeros(d), np.eye(d), lambda theta: np.asarray(coefficients(theta)))


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
