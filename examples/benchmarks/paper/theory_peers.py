"""Table 1 for the other methods: what an iteration costs, and the rate of Langevin dynamics.

In 20 dimensions, batches of 100 rows: one-pass SMC reweights and moves m particles, NPV takes a
step of m components, SGLD and variational inference a step for one of theirs, whatever m is; the
latter's cost is that of the coordinates instead. The rate: SGLD with steps like t^(-1/3) on the
normal mean of Theorem 5, batches of one row, the error of E[tanh(theta)] from all of m steps.
"""

from functools import cache

import numpy as np

from ..harness.timing import cpu_clock
from . import theory_integrals as integrals
from .theory_slopes import fitted

D, N_ROWS, BATCH = 20, 1000, 100
SIZES = {
    "SMC": (64_000, 128_000, 256_000, 512_000),  # beyond the cache at all of them
    "NPV": (256, 512, 1024, 2048),
    "SGLD": (2000, 4000, 8000, 16_000),
    "SVI": (1000, 2000, 4000, 8000),  # dimensions
}
BOUNDS = {"SMC": 1.0, "NPV": 2.0, "SGLD": 0.0, "SVI": 1.0}
REPEATS = 5
SGLD_STEP, RATE_SIZES, RATE_SEEDS = 0.04, (1000, 4000, 16_000, 64_000), 60
QUICK_RATE = (1000, 4000), 10


def measured(quick):
    """Costs by size, the least of several repeats; errors of Langevin dynamics; all slopes."""
    for method, sizes in SIZES.items():
        sizes, costs = sizes[:3] if quick else sizes, []
        for size in sizes:
            one = {"SMC": _smc, "NPV": _npv, "SGLD": _sgld, "SVI": _svi}[method](size)
            costs.append(min(one() for _ in range(2 if quick else REPEATS)))
            yield {"part": "table 1, peers", "method": method, "size": size, "cpu_s": costs[-1]}
        relation = "at most" if method == "SVI" else "equal"
        yield fitted(f"table 1, time of {method}", sizes, costs, BOUNDS[method], relation)
    yield from langevin(quick)


def problem(d):
    """Linear regression with a normal prior, for NumPy and for JAX."""
    from ..peers.jax_setup import jnp
    from ..peers.problem import Problem

    return Problem(
        d,
        lambda theta, X, y: -0.5 * ((y - theta @ X.T) ** 2).sum(axis=1),
        lambda theta: -0.5 * (theta**2).sum(axis=1),
        lambda rng, m: rng.standard_normal((m, d)),
        lambda theta, X, y: -0.5 * ((y - X @ theta) ** 2).sum(),
        lambda theta: -0.5 * jnp.dot(theta, theta),
    )


def rows(d):
    """Rows and targets."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, d)) / np.sqrt(d)
    return X, X.sum(axis=1)


def _seconds(peer, n_iterations, d=D, **options):
    """Seconds of an iteration of a peer that counts them itself."""
    whole, (X, y) = problem(d), rows(d)

    def one():
        *_, last = peer(whole, X, y, seed=0, batch_size=BATCH, n_snapshots=1, **options)
        return last.cpu / n_iterations

    return one


def _smc(m):
    from ..peers.one_pass_smc import rejuvenated

    whole, (X, y), rng = problem(D), rows(D), np.random.default_rng(0)
    theta = whole.sample_prior(rng, m)

    def one():
        with cpu_clock() as clock:
            log_weights = 0.01 * whole.log_likelihood(theta, X[:BATCH], y[:BATCH])
            weights = np.exp(log_weights - log_weights.max())
            rejuvenated(theta, weights / weights.sum(), 0.2, rng)
        return clock.cpu

    one()
    return one


def _npv(m):
    from ..peers.npv import npv

    return _seconds(npv, 10, n_particles=m, passes=1)


def _sgld(m):
    from ..peers.sgld import sgld

    passes = m // (N_ROWS // BATCH)
    options = {"step_size": 1e-4, "burn_in": 0, "block": 1000}
    return _seconds(sgld, m, n_particles=m, passes=passes, **options)


def _svi(d):
    from ..peers.svi import svi

    return _seconds(svi, 200, d, n_particles=10, passes=20, family="diagonal")


def langevin(quick):
    """Errors of an integral by the number of steps, and their slope."""
    sizes, seeds = QUICK_RATE if quick else (RATE_SIZES, RATE_SEEDS)
    X = 0.4 + np.random.default_rng(0).standard_normal((integrals.N_ROWS, 1))
    exact, errors = integrals.exact_value(X), []
    for m in sizes:
        errors.append([abs(one_chain(m, X, seed) - exact) for seed in range(seeds)])
        yield {"part": "rate of SGLD", "m": m, "error": float(np.mean(errors[-1]))}
    yield fitted("table 1, rate of SGLD", sizes, errors, -1.0 / 3.0, "equal")


def one_chain(m, X, seed):
    """E[tanh(theta)] by all of m weighted steps of one chain."""
    from ..peers.sgld import sgld

    *_, found = sgld(
        normal_mean(), X, None, n_particles=m, seed=seed, batch_size=1, passes=m // len(X),
        step_size=SGLD_STEP, offset=1.0, decay=1.0 / 3.0, burn_in=0, n_snapshots=1,
        block=len(X) * 40,
    )  # fmt: skip
    weights = np.exp(found.log_weights)
    return float(weights @ np.tanh(found.particles[:, 0]) / weights.sum())


@cache
def normal_mean():
    """The model of Theorem 5 for JAX; one object, so that it is compiled once."""
    from ..peers.problem import Problem

    return Problem(
        1, None, None, integrals.sample_prior,
        lambda theta, X, y: -0.5 * ((X[:, 0] - theta[0]) ** 2).sum(),
        lambda theta: -0.5 * theta[0] ** 2,
    )  # fmt: skip
