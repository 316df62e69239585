"""Stochastic gradient Langevin dynamics, by blackjax, and the same with a momentum.

Welling and Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics", ICML: theta
moves by eps_t times the gradient of the log posterior, estimated from a batch, plus noise of
variance 2 eps_t, with eps_t = step_size / (1 + t / offset)^decay; draws are weighted by eps_t.
Every chain starts from a draw of the prior and has batches of its own.

With ``friction`` a below 1 there is a momentum v (Chen, Fox and Guestrin 2014, "Stochastic gradient
Hamiltonian Monte Carlo", ICML, equation 15): v becomes (1 - a) v + eps_t times the gradient plus
noise of variance 2 a eps_t, and theta moves by v. At a = 1 that is Langevin dynamics again.
(BlackJAX's version draws v with unit variance where its stationary one is eps_t.)
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
    offset=1000.0, decay=0.55, burn_in=1000, n_chains=1, n_snapshots=6, block=500, friction=1.0,
):  # fmt: skip
    """Yield snapshots; see `problem`.

    ``n_chains`` chains share ``n_particles`` evenly; each makes ``passes``, of which the first
    ``burn_in`` steps are not kept. ``decay=0`` keeps the step size. ``block``: steps in one
    compiled call.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    n_blocks = max(1, round(passes * (len(X) // batch_size) / block))
    data = jax.tree.map(jnp.asarray, (X, y))
    options = (problem.jax_log_likelihood, problem.jax_log_prior, friction)
    theta = jnp.asarray(problem.sample_prior(rng, n_chains))
    state = (theta, jnp.zeros_like(theta)), jax.random.PRNGKey(seed)
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


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(log_likelihood, log_prior, friction, state, key, first, chosen, size, X, y):
    """Move all chains through a block of batches; return the last states and all draws."""
    step_size, offset, decay = size

    def estimate(one, rows):
        batch = jax.tree.map(lambda table: table[rows], (X, y))
        return log_prior(one) + len(X) / len(rows) * log_likelihood(one, *batch)

    langevin = blackjax.sgld(jax.grad(estimate))

    def with_momentum(key, theta, speed, rows, eps):
        noise = jnp.sqrt(2.0 * friction * eps) * jax.random.normal(key, theta.shape)
        speed = (1.0 - friction) * speed + eps * jax.grad(estimate)(theta, rows) + noise
        return theta + speed, speed

    def without(key, theta, speed, rows, eps):
        return langevin.step(key, theta, rows, eps), speed

    move = without if friction == 1.0 else with_momentum
    move = jax.vmap(move, in_axes=(0, 0, 0, 0, None))

    def body(carry, given):
        (theta, speed), key = carry
        step, rows = given
        key, now = jax.random.split(key)
        keys = jax.random.split(now, len(theta))
        eps = step_size * (1.0 + step / offset) ** -decay
        theta, speed = move(keys, theta, speed, rows, eps)
        return ((theta, speed), key), theta

    steps = first + jnp.arange(len(chosen))
    (state, key), draws = jax.lax.scan(body, (state, key), (steps, chosen))
    return state, key, draws
