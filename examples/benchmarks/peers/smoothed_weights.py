"""Approximations with gradients, their draws weighed with Pareto smoothing (BlackJAX).

``laplace``: draws of the normal distribution at the mode. ``pathfinder``: eight paths of L-BFGS
from draws of the prior, scaled by its spread, each with the Gaussian on it that has the largest
evidence lower bound (Zhang, Carpenter, Gelman and Vehtari 2022), mixed by importance.
"""

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock

try:
    from blackjax.diagnostics import psis_weights
    from blackjax.vi.multipathfinder import multi_approximate
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error

N_PATHS = 8


def laplace(target, *, n_draws, seed):
    """Return draws, weights, k-hat and CPU seconds, without the search for the mode."""

    def drawn(key):
        z = jax.random.normal(key, (n_draws, len(target.centre)))
        theta = target.centre + z @ target.scale.T
        log_ratio = -jax.vmap(target.potential)(theta) + 0.5 * (z**2).sum(axis=1)
        return theta, log_ratio

    return _weighed(jax.jit(drawn), seed)


def pathfinder(problem, X, y, *, n_draws, seeds):
    """The same of the mixture over the paths, for each seed; the search is part of it."""
    X, y = jnp.asarray(X), None if y is None else jnp.asarray(y)

    @jax.jit
    def drawn(key, starts, centre, scale):
        def log_density(z):
            theta = centre + scale * z
            return problem.jax_log_prior(theta) + problem.jax_log_likelihood(theta, X, y)

        found, _ = multi_approximate(key, log_density, starts, n_draws // N_PATHS)
        theta = centre + scale * found.samples.reshape(-1, problem.d)
        return theta, (found.logp - found.logq).ravel()

    for seed in seeds:
        prior = problem.sample_prior(np.random.default_rng(seed), 1000)
        low, centre, high = np.quantile(prior, [0.25, 0.5, 0.75], axis=0)
        starts = jnp.asarray((prior[:N_PATHS] - centre) / (high - low))
        yield _weighed(drawn, seed, starts, jnp.asarray(centre), jnp.asarray(high - low))


def _weighed(drawn, seed, *arguments):
    """Draws and smoothed weights, (m, d) and (m,), k-hat and CPU seconds; None where none is."""
    key, clock = jax.random.PRNGKey(seed), Clock()
    weigh = jax.jit(psis_weights)
    jax.block_until_ready(weigh(drawn(key, *arguments)[1]))  # compiles
    with clock:
        theta, log_ratio = drawn(key, *arguments)
        log_ratio = jnp.where(jnp.isfinite(log_ratio), log_ratio, -1e300)
        log_weights, k_hat = jax.block_until_ready(weigh(log_ratio))
    weights = np.exp(np.asarray(log_weights))
    if not np.isfinite(weights).all() or not weights.sum() > 0.0:
        return None
    return np.asarray(theta), weights / weights.sum(), float(k_hat), clock.cpu
