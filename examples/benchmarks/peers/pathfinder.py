"""Pathfinder by several paths, its draws weighed by Pareto smoothed importance sampling.

Zhang, Carpenter, Gelman and Vehtari (2022), "Pathfinder: parallel quasi-Newton variational
inference", JMLR 23: from a draw of the prior L-BFGS climbs, the normal approximation on its path
with the largest evidence bound is drawn from, and the draws of all paths are weighed together.
Paths are BlackJAX's, smoothing is ArviZ's.
"""

from functools import lru_cache

import numpy as np

from .importance import smoothed
from .jax_setup import jax, jnp
from .problem import Clock, Snapshot

try:
    import blackjax
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error

SEARCH_DRAWS = 20  # for the bound at each point of a path


def pathfinder(
    problem, X, y, *, n_particles, seed, max_cpu=np.inf, n_paths=4, max_iter=60, memory=10
):
    """Yield snapshots, each with the draws of ``n_paths`` more paths, ``n_particles`` of them."""
    data = jax.tree.map(jnp.asarray, (X, y))
    rng, clock, key = np.random.default_rng(seed), Clock(), jax.random.PRNGKey(seed)
    search = _compiled(problem, n_particles // n_paths, max_iter, memory)
    starts = jnp.asarray(problem.sample_prior(rng, n_paths))
    jax.block_until_ready(search(key, starts, *data))  # compiles
    particles, log_ratio, rows = np.empty((0, problem.d)), np.empty(0), 0
    while clock.cpu <= max_cpu:
        with clock:
            key, now = jax.random.split(key)
            theta, gap = (np.asarray(part) for part in search(now, starts, *data))
            particles = np.concatenate([particles, theta.reshape(-1, problem.d)])
            log_ratio = np.concatenate([log_ratio, gap.ravel()])
            log_weights = smoothed(log_ratio)
            starts = jnp.asarray(problem.sample_prior(rng, n_paths))
        rows += (2 * max_iter + 2) * len(X)  # each point: a gradient, and values of its draws
        yield Snapshot(clock.cpu, rows, particles, log_weights)


@lru_cache(maxsize=4)
def _compiled(problem, n_draws, max_iter, memory):
    """Return a function that draws from paths, for any data, with log ratios of the draws."""

    def search(key, starts, X, y):
        def log_density(theta):
            return problem.jax_log_prior(theta) + problem.jax_log_likelihood(theta, X, y)

        def one(key, start):
            first, second = jax.random.split(key)
            options = {"maxiter": max_iter, "maxcor": memory}
            state, _ = blackjax.pathfinder.approximate(
                first, log_density, start, SEARCH_DRAWS, **options
            )
            draws, log_q = blackjax.pathfinder.sample(second, state, n_draws)
            return draws, jax.vmap(log_density)(draws) - log_q

        return jax.vmap(one)(jax.random.split(key, len(starts)), starts)

    return jax.jit(search)
