"""Stochastic gradient Fisher scoring (Ahn, Korattikara and Welling 2012, ICML).

Langevin dynamics on batches whose preconditioner is the inverse of a running estimate of the Fisher
information, from the scatter of the gradients of single rows; gradient noise of the batch counts as
part of the injected noise, for which batches are drawn with replacement (passes would take half of
it out again). However large ``step_size`` is, a step goes at most 2 b / (n + b) of the
way to the mode with batches of b of n rows.
"""

from functools import partial

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock, Snapshot, Thinned, marks


def fisher_scoring(
    problem, X, y, *, n_particles, seed, batch_size, passes, max_cpu=np.inf, step_size,
    burn_in=500, n_snapshots=6, block=100,
):  # fmt: skip
    """Yield snapshots; see `problem`. The first ``burn_in`` steps are not kept."""
    rng, clock = np.random.default_rng(seed), Clock()
    n_blocks = max(1, round(passes * (len(X) // batch_size) / block))
    data = jax.tree.map(jnp.asarray, (X, y))
    options = problem.jax_log_likelihood, problem.jax_log_prior
    theta = jnp.asarray(problem.sample_prior(rng, 1)[0])
    state = theta, jnp.eye(problem.d) / len(X), jax.random.PRNGKey(seed)
    shape = block, batch_size
    _advance(*options, state, 0, jnp.zeros(shape, dtype=int), step_size, *data)  # compiles
    kept = Thinned(n_particles, 1)
    shown = marks(burn_in // block + 1, n_blocks, n_snapshots)
    for number in range(n_blocks):
        with clock:
            chosen = rng.integers(len(X), size=shape)
            state, draws = _advance(*options, state, number * block, chosen, step_size, *data)
            kept.extend(np.asarray(draws)[max(burn_in - number * block, 0) :, None])
        if number + 1 in shown and kept:
            particles, _ = kept.take()
            rows = (number + 1) * block * batch_size
            yield Snapshot(clock.cpu, rows, particles, np.zeros(len(particles)))
            if clock.cpu > max_cpu:
                return


@partial(jax.jit, static_argnums=(0, 1))
def _advance(log_likelihood, log_prior, state, first, chosen, step_size, X, y):
    """Move the chain through a block of batches; return the last state and all draws."""
    n, batch_size = len(X), chosen.shape[1]
    gamma = (n + batch_size) / batch_size

    def of_row(theta, row):
        return log_likelihood(theta, *jax.tree.map(lambda part: part[None], row))

    slopes = jax.vmap(jax.grad(of_row), in_axes=(None, 0))

    def move(carry, given):
        theta, information, key = carry
        step, rows = given
        each = slopes(theta, jax.tree.map(lambda table: table[rows], (X, y)))
        mean = each.mean(axis=0)
        scatter = (each - mean).T @ (each - mean) / (batch_size - 1)
        share = 1.0 / (1.0 + step)
        information = (1.0 - share) * information + share * scatter
        key, now = jax.random.split(key)
        # B is proportional to the information: noise and preconditioner have one root.
        noise = 4.0 * gamma * n * information / step_size
        drift = jax.grad(log_prior)(theta) + n * mean
        drift += jnp.linalg.cholesky(noise + 1e-8 * jnp.eye(len(theta))) @ jax.random.normal(
            now, theta.shape
        )
        prior = -jax.hessian(log_prior)(theta)
        move = jnp.linalg.solve(gamma * n * information + prior + noise, drift)
        theta = theta + 2.0 * move
        return (theta, information, key), theta

    steps = first + jnp.arange(len(chosen))
    return jax.lax.scan(move, state, (steps, jnp.asarray(chosen)))
