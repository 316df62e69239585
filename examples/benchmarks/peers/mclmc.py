"""Microcanonical Langevin Monte Carlo, unadjusted, by blackjax.

Robnik, De Luca, Silverstein and Seljak (2023), "Microcanonical Hamiltonian Monte Carlo", JMLR 24:
the particle moves with a constant energy, its direction is partly refreshed; step size, refreshing
and a diagonal scaling are tuned on a first run. There is no acceptance step, so that the step size
leaves a bias.
"""

from functools import lru_cache

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock, Snapshot, Thinned, marks

try:
    import blackjax
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error


def mclmc(
    problem, X, y, *, n_particles, seed, n_steps, max_cpu=np.inf, n_tune=1000, energy_var=5e-4,
    n_snapshots=40, block=100,
):  # fmt: skip
    """Yield snapshots; see `problem`. ``energy_var`` is that which the step size is tuned for."""
    clock, data = Clock(), jax.tree.map(jnp.asarray, (X, y))
    tune, advance = _compiled(problem, n_tune, energy_var, block)
    theta = jnp.asarray(problem.sample_prior(np.random.default_rng(seed), 1)[0])
    key = jax.random.PRNGKey(seed)
    advance(*tune(theta, key, *data)[:2], key, *data)  # compiles
    with clock:
        state, parameters, n_gradients = jax.block_until_ready(tune(theta, key, *data))
    rows, kept = int(n_gradients) * len(X), Thinned(n_particles, 1)
    n_blocks = -(-n_steps // block)
    shown = marks(1, n_blocks, n_snapshots)
    for number in range(1, n_blocks + 1):
        with clock:
            key, now = jax.random.split(key)
            state, draws = jax.block_until_ready(advance(state, parameters, now, *data))
            kept.extend(np.asarray(draws)[:, None])
        rows += 2 * block * len(X)  # McLachlan's integrator takes two gradients a step
        if number in shown:
            particles, _ = kept.take()
            yield Snapshot(clock.cpu, rows, particles, np.zeros(len(particles)))
            if clock.cpu > max_cpu:
                return


@lru_cache(maxsize=8)
def _compiled(problem, n_tune, energy_var, block):
    """Return functions that tune a chain and move it on, for any data."""
    kernel = blackjax.mclmc.build_kernel()

    def density(X, y):
        return lambda theta: problem.jax_log_prior(theta) + problem.jax_log_likelihood(theta, X, y)

    @jax.jit
    def tune(theta, key, X, y):
        first, second = jax.random.split(key)
        log_density = density(X, y)
        state = blackjax.mcmc.mclmc.init(position=theta, logdensity_fn=log_density, rng_key=first)
        return blackjax.mclmc_find_L_and_step_size(
            mclmc_kernel=kernel, num_steps=n_tune, state=state, rng_key=second,
            logdensity_fn=log_density, desired_energy_var=energy_var,
        )[:3]  # fmt: skip

    @jax.jit
    def advance(state, parameters, key, X, y):
        log_density = density(X, y)

        def move(state, key):
            state, _ = kernel(
                rng_key=key, state=state, logdensity_fn=log_density, L=parameters.L,
                step_size=parameters.step_size,
                inverse_mass_matrix=parameters.inverse_mass_matrix,
            )  # fmt: skip
            return state, state.position

        return jax.lax.scan(move, state, jax.random.split(key, block))

    return tune, advance
