"""Adaptive tempered SMC (BlackJAX) with random walk moves, from values of NumPy functions.

Each temperature is the one at which the effective sample size falls to half; particles then take
`N_MOVES` Metropolis steps of a Gaussian random walk whose covariance is theirs, scaled by
2.38^2 / d. A density is a call back to Python with all particles at once, so that nobody has to
write a model twice.
"""

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock

try:
    from blackjax import rmh
    from blackjax.mcmc import random_walk
    from blackjax.smc import adaptive_tempered, resampling
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error

TARGET_ESS, N_MOVES = 0.5, 20
_NEVER = -1e100  # What is not in the support: a product with the temperature zero is then a number.


def tempered(problem, X, y, *, n_particles, seed, max_cpu=np.inf):
    """Return particles of equal weights, the log evidence and CPU seconds, without compilation.

    None where ``max_cpu`` seconds end it before the posterior is reached.
    """
    step = _kernel(problem, X, y)
    theta = problem.sample_prior(np.random.default_rng(seed), n_particles)
    state, key = adaptive_tempered.init(jnp.asarray(theta)), jax.random.PRNGKey(seed)
    jax.block_until_ready(step(key, state, _factor(state.particles)))  # compiles
    clock, log_evidence = Clock(), 0.0
    while float(state.tempering_param) < 1.0:
        with clock:
            key, now = jax.random.split(key)
            state, info = step(now, state, _factor(state.particles))
            log_evidence += float(info.log_likelihood_increment)
        if clock.cpu > max_cpu:
            return None
    # BlackJAX moves before it reweights: the last weights have not been used.
    rows = resampling.systematic(key, state.weights, n_particles)
    return np.asarray(state.particles)[np.asarray(rows)], log_evidence, clock.cpu


def _kernel(problem, X, y):
    """One step from temperature to temperature, compiled."""
    walk = random_walk.build_additive_step()

    def move(key, state, log_density, factor):
        def proposed(key, position):
            return factor @ jax.random.normal(key, position.shape)

        return walk(key, state, log_density, proposed)

    kernel = adaptive_tempered.build_kernel(
        _called_back(problem.log_prior, problem.d),
        _called_back(lambda theta: problem.log_likelihood(theta, X, y), problem.d),
        move,
        rmh.init,
        resampling.systematic,
        TARGET_ESS,
    )
    return jax.jit(lambda key, state, factor: kernel(key, state, N_MOVES, {"factor": factor[None]}))


def _called_back(function, d):
    """A function of many particles in NumPy as one of one particle in JAX."""

    def values(theta):
        theta = np.asarray(theta)
        with np.errstate(all="ignore"):
            value = function(theta.reshape(-1, d))
        return np.maximum(np.nan_to_num(value, nan=_NEVER), _NEVER).reshape(theta.shape[:-1])

    shape = jax.ShapeDtypeStruct((), jnp.float64)
    return lambda theta: jax.pure_callback(values, shape, theta, vmap_method="broadcast_all")


def _factor(theta):
    """A Cholesky factor of the covariance of the moves."""
    theta = np.asarray(theta)
    d = theta.shape[1]
    # A prior with tails that have no moments has no covariance: outliers are left out.
    low, high = np.quantile(theta, [0.005, 0.995], axis=0)
    covariance = np.atleast_2d(np.cov(np.clip(theta, low, high).T))
    covariance += 1e-12 * np.trace(covariance) / d * np.eye(d)
    return jnp.asarray(2.38 / np.sqrt(d) * np.linalg.cholesky(covariance))
