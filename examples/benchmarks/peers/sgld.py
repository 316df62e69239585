"""Stochastic gradient Langevin dynamics, by blackjax.

Welling and Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics", ICML: theta
moves by eps_t times the gradient of the log posterior, estimated from a batch, plus noise of
variance 2 eps_t, with eps_t = step_size / (1 + t / offset)^decay; draws are weighted by eps_t.
Every chain starts from a draw of the prior and has batches of its own.
"""

from functools import partial

import numpy as np

from .jax_setup import jax, jnp
from .problem import Clock, EqualBatches, Snapshot, Thinned, marks

try:
    import blackjax
except ImportError as error:
    raise ImportError('This needs BlackJAX: pip install "skpmd[bench]"') from error


def sgld(
    problem, X, y, *, n_particles, seed, batch_size, passes, max_cpu=np.inf, step_size,
    offset=1000.0, decay=0.55, burn_in=1000, n_chains=1, n_snapshots=6, block=500,
):  # fmt: skip
    """Yield snapshots; see `problem`.

    ``n_chains`` chains share ``n_particles`` evenly; each makes ``passes``, of which the first
    ``burn_in`` steps are not kept. ``decay=0`` keeps the step size. ``block``: steps in one
    compiled call.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    n_blocks = max(1, round(passes * (len(X) // batch_size) / block))
    data = jax.tree.map(jnp.asarray, (X, y))
    options = (problem.jax_log_likelihood, problem.jax_log_prior)
    state = jnp.asarray(problem.sample_prior(rng, n_chains)), jax.random.PRNGKey(seed)
    size, shape = jnp.asarray([step_size, offset, decay]), (block, n_chains, batch_size)
    _advance(*options, *state, 0, jnp.zeros(shape, dtype=int), size, *data)  # compiles
    kept = Thinned(n_particles, n_chains)
    shown = marks(burn_in // block + 1, n_blocks, n_snapshots)
    streams = [EqualBatches(len(X), batch_size, rng) for _ in range(n_chains)]
    for number in range(n_blocks):
        with clock:
            chosen = [stream.take(block) for stream in streams]
            *state, draws = _advance(
                *options, *state, number * block, np.stack(chosen, axis=1), size, *data
            )
            draws = np.asarray(draws)
            start = burn_in - number * block
            kept.extend(draws[max(start, 0) :])
        if number + 1 in shown and kept:
            rows = (number + 1) * block * n_chains * batch_size
            particles, times = kept.take()
            log_weights = -decay * np.log1p((times + burn_in) / offset)
            yield Snapshot(clock.cpu, rows, particles, log_weights)
            if clock.cpu > max_cpu:
                return


@partial(jax.jit, static_argnums=(0, 1))
def _advance(log_likelihood, log_prior, theta, key, first, chosen, size, X, y):
    """Move all chains through a block of batches; return the last states and all draws."""
    step_size, offset, decay = size

    def estimate(one, rows):
        batch = jax.tree.map(lambda table: table[rows], (X, y))
        return log_prior(one) + len(X) / len(rows) * log_likelihood(one, *batch)

    algorithm = blackjax.sgld(jax.grad(estimate))
    move = jax.vmap(algorithm.step, in_axes=(0, 0, 0, None))

    def body(carry, given):
        theta, key = carry
        step, rows = given
        key, now = jax.random.split(key)
        keys = jax.random.split(now, len(theta))
        theta = move(keys, theta, rows, step_size * (1.0 + step / offset) ** -decay)
        return (theta, key), theta

    steps = first + jnp.arange(len(chosen))
    (theta, key), draws = jax.lax.scan(body, (theta, key), (steps, chosen))
    return theta, key, draws
