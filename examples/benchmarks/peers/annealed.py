"""Annealed importance sampling (Neal 2001, Statistics and Computing 11).

Each particle goes from the prior to the posterior through powers of the likelihood, by one move of
Hamiltonian Monte Carlo at each, and its weight is the product of the ratios on its way. There is no
resampling: particles are independent, and more come with time.
"""

from functools import lru_cache

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock, Snapshot


def annealed(
    problem, X, y, *, n_particles, seed, max_cpu=np.inf, n_temperatures=100, n_leaps=4,
    step_size=1.0, curvature=0.0, block=50,
):  # fmt: skip
    """Yield snapshots, each with ``block`` more particles, up to ``n_particles``.

    The step at power b is ``step_size / sqrt(1 + b curvature)``, with the largest curvature of the
    negative log likelihood where the prior's is one. Powers are b = (k / n)^4.
    """
    data, clock = jax.tree.map(jnp.asarray, (X, y)), Clock()
    rng, key = np.random.default_rng(seed), jax.random.PRNGKey(seed)
    powers = jnp.linspace(0.0, 1.0, n_temperatures + 1) ** 4
    steps = step_size / jnp.sqrt(1.0 + powers * curvature)
    climb = _compiled(problem, n_leaps)
    start = jnp.asarray(problem.sample_prior(rng, block))
    jax.block_until_ready(climb(start, key, powers, steps, *data))  # compiles
    particles, log_weights = np.empty((0, problem.d)), np.empty(0)
    while len(particles) < n_particles:
        with clock:
            key, now = jax.random.split(key)
            start = jnp.asarray(problem.sample_prior(rng, block))
            theta, gained = climb(start, now, powers, steps, *data)
            particles = np.concatenate([particles, np.asarray(theta)])
            log_weights = np.concatenate([log_weights, np.asarray(gained)])
        rows = len(particles) // block * n_temperatures * (n_leaps + 1) * len(X)
        yield Snapshot(clock.cpu, rows, particles, log_weights)
        if clock.cpu > max_cpu:
            return


@lru_cache(maxsize=8)
def _compiled(problem, n_leaps):
    """Return the way of particles from the prior to the posterior, for any data."""

    def climb(theta, key, powers, steps, X, y):
        likelihood = jax.vmap(lambda one: problem.jax_log_likelihood(one, X, y))

        def potential(one, power):
            return -problem.jax_log_prior(one) - power * problem.jax_log_likelihood(one, X, y)

        slope = jax.vmap(jax.grad(potential), in_axes=(0, None))
        value = jax.vmap(potential, in_axes=(0, None))

        def move(carry, given):
            theta, gained = carry
            before, power, step, key = given
            gained += (power - before) * likelihood(theta)
            first, second = jax.random.split(key)
            momentum = jax.random.normal(first, theta.shape)
            place, speed = theta, momentum - 0.5 * step * slope(theta, power)
            for leap in range(n_leaps):
                place = place + step * speed
                speed -= (0.5 if leap == n_leaps - 1 else 1.0) * step * slope(place, power)
            gap = value(theta, power) - value(place, power)
            gap += 0.5 * (momentum**2 - speed**2).sum(axis=1)
            accepted = jnp.log(jax.random.uniform(second, gap.shape)) < gap
            return (jnp.where(accepted[:, None], place, theta), gained), None

        keys = jax.random.split(key, len(powers) - 1)
        given = powers[:-1], powers[1:], steps[1:], keys
        (theta, gained), _ = jax.lax.scan(move, (theta, jnp.zeros(len(theta))), given)
        return theta, gained

    return jax.jit(climb)
