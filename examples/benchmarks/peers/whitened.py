"""Laplace approximations of a `Problem`, and the same problem in the coordinates that they whiten.

theta = mode + L z with L L' the inverse Hessian of the negative log posterior at the mode. NUTS and
variational inference are given these, as somebody would who has gradients.
"""

import numpy as np
from scipy.optimize import minimize

from .jax_setup import jax, jnp
from .problem import Clock, Problem
from .targets import Target


def laplace_target(problem, X, y, clock=None):
    """Return the posterior of all rows as a `Target`, by Newton steps from the prior's centre.

    A `Clock` takes the seconds of the search, without compilation.
    """
    X, y = jnp.asarray(X), None if y is None else jnp.asarray(y)

    def potential(theta):
        return -problem.jax_log_prior(theta) - problem.jax_log_likelihood(theta, X, y)

    value, slope, curvature = (
        jax.jit(function) for function in (potential, jax.grad(potential), jax.hessian(potential))
    )
    start = np.median(problem.sample_prior(np.random.default_rng(0), 1001), axis=0)
    for function in (value, slope, curvature):  # compiles
        jax.block_until_ready(function(start))
    with clock or Clock():
        found = minimize(value, start, jac=slope, hess=curvature, method="trust-exact")
        covariance = np.linalg.inv(np.asarray(curvature(found.x)))
    return Target(potential, found.x, np.linalg.cholesky(covariance))


def whitened(problem, target):
    """Return the problem of z; its draws of the prior, where chains start, are N(0, I)."""
    centre, scale = jnp.asarray(target.centre), jnp.asarray(target.scale)

    def likelihood(z, X, y):
        return problem.jax_log_likelihood(centre + scale @ z, X, y)

    return Problem(
        d=problem.d,
        log_likelihood=None,
        log_prior=None,
        sample_prior=lambda rng, m: rng.standard_normal((m, problem.d)),
        jax_log_likelihood=likelihood,
        jax_log_prior=lambda z: problem.jax_log_prior(centre + scale @ z),
    )


def corrected(problem, target):
    """Return the problem of z whose prior is the Laplace approximation, for values on all rows.

    Its likelihood is the posterior over that prior, so that tempered sequential Monte Carlo goes
    from the one to the other (Chopin and Ridgway 2017, "Leave Pima Indians alone", Statistical
    Science 32).
    """

    def normal(z):
        return -0.5 * (z**2).sum(axis=1) - 0.5 * problem.d * np.log(2.0 * np.pi)

    def likelihood(z, X, y):
        theta = target.centre + z @ target.scale.T
        return problem.log_likelihood(theta, X, y) + problem.log_prior(theta) - normal(z)

    centre, scale = jnp.asarray(target.centre), jnp.asarray(target.scale)

    def jax_normal(z):
        return -0.5 * (z @ z) - 0.5 * problem.d * jnp.log(2.0 * jnp.pi)

    def jax_likelihood(z, X, y):
        theta = centre + scale @ z
        joint = problem.jax_log_likelihood(theta, X, y) + problem.jax_log_prior(theta)
        return joint - jax_normal(z)

    def draws(rng, m):
        return rng.standard_normal((m, problem.d))

    return Problem(problem.d, likelihood, normal, draws, jax_likelihood, jax_normal)
