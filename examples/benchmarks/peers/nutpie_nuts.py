"""NUTS by nutpie, whose diagonal mass matrix is adapted from gradients as well as draws.

A run cannot be looked at before its end: each snapshot is of a run of its own, twice as long as the
one before, and has the seconds of that run alone.
"""

import time
from functools import lru_cache

import numpy as np

from .jax_setup import jax, jnp
from .problem import Snapshot

try:
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc
except ImportError as error:
    raise ImportError('This needs nutpie: pip install "skpmd[bench]"') from error


def nutpie_nuts(
    problem, X, y, *, n_particles, seed, max_cpu=np.inf, n_chains=1, n_tune=150, n_draws=100
):
    """Yield snapshots of ``n_draws`` draws of each chain, of half as many again, and so on.

    Each is a run of its own, from its start.
    """
    data, calls = jax.tree.map(jnp.asarray, (X, y)), [0]
    density = _compiled(problem)
    starts = problem.sample_prior(np.random.default_rng(seed), 100)
    density(starts[0], *data)  # compiles

    def log_density(theta):
        calls[0] += 1
        value, gradient = density(theta, *data)
        return float(value), np.asarray(gradient)

    model = from_pyfunc(
        problem.d, lambda: log_density, lambda *_: lambda theta: {"theta": theta},
        [np.dtype(float)], [(problem.d,)], ["theta"],
        make_initial_point_fn=lambda number: starts[number % len(starts)],
    )  # fmt: skip
    while True:
        calls[0], start = 0, time.process_time()
        trace = nutpie.sample(
            model, draws=n_draws, tune=n_tune, chains=n_chains, cores=1, seed=seed,
            progress_bar=False, save_warmup=False,
        )  # fmt: skip
        cpu = time.process_time() - start
        draws = np.asarray(trace.posterior["theta"]).reshape(-1, problem.d)
        draws = draws[:: -(-len(draws) // n_particles)]
        yield Snapshot(cpu, calls[0] * len(X), draws, np.zeros(len(draws)))
        if 1.5 * cpu > max_cpu:
            return
        n_draws += n_draws // 2


@lru_cache(maxsize=4)
def _compiled(problem):
    """Return the log density with its gradient, for any data."""

    def density(theta, X, y):
        return problem.jax_log_prior(theta) + problem.jax_log_likelihood(theta, X, y)

    return jax.jit(jax.value_and_grad(density))
