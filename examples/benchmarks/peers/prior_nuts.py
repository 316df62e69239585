"""NUTS (NumPyro) from draws of the prior, in the coordinates as they come.

`nuts` is faster where a Laplace approximation whitens; this one takes nothing of the posterior for
granted, counts the rows that it reads, and is compiled once for data of one size. Chains move side
by side. Step sizes and a diagonal mass matrix are adapted during warm-up, as NumPyro does.
"""

from functools import lru_cache

import numpy as np

from .jax_setup import hmc, jax, jnp
from .problem import Clock, Snapshot, Thinned, marks


def prior_nuts(
    problem, X, y, *, n_particles, seed, n_steps, max_cpu=np.inf, n_chains=4, n_warmup=200,
    n_snapshots=6, block=25,
):  # fmt: skip
    """Yield snapshots; see `problem`. ``n_steps`` are those of each chain after its warm-up."""
    clock = Clock()
    theta = problem.sample_prior(np.random.default_rng(seed), n_chains)
    initialise, advance = _compiled(problem, n_warmup, block)
    data = jax.tree.map(jnp.asarray, (X, y))
    keys = jax.random.split(jax.random.PRNGKey(seed), n_chains)
    state = initialise(jnp.asarray(theta), keys, *data)
    advance(state, *data)  # compiles
    kept, warm, rows = Thinned(n_particles, n_chains), -(-n_warmup // block), 0
    n_blocks = warm + -(-n_steps // block)
    shown = marks(warm + 1, n_blocks, n_snapshots)
    for number in range(1, n_blocks + 1):
        with clock:
            state, (draws, lengths) = jax.block_until_ready(advance(state, *data))
            if number > warm:
                kept.extend(np.asarray(draws))
        # The chains of a step wait for the longest trajectory.
        rows += int(np.asarray(lengths).max(axis=1).sum()) * len(X)
        if number in shown and kept:
            particles, _ = kept.take()
            yield Snapshot(clock.cpu, rows, particles, np.zeros(len(particles)))
            if clock.cpu > max_cpu:
                return


@lru_cache(maxsize=4)
def _compiled(problem, n_warmup, block):
    """Return functions that start chains and move them on, for any data."""

    def potential(X, y):
        return lambda theta: -problem.jax_log_prior(theta) - problem.jax_log_likelihood(theta, X, y)

    init, sample = hmc(potential_fn_gen=potential, algo="NUTS")

    def initialise(theta, keys, X, y):
        def one(start, key):
            return init(start, n_warmup, rng_key=key, model_args=(X, y))

        one(theta[0], keys[0])  # it must see concrete values once
        return jax.jit(jax.vmap(one))(theta, keys)

    def advance(state, X, y):
        def body(state, _):
            state = jax.vmap(lambda chain: sample(chain, model_args=(X, y)))(state)
            return state, (state.z, state.num_steps)

        return jax.lax.scan(body, state, None, length=block)

    return initialise, jax.jit(advance)
