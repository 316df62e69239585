"""Stochastic variational inference in a Gaussian family, by NumPyro.

Reparametrised gradients of the evidence lower bound on batches (Hoffman et al. 2013; Kucukelbir et
al. 2017 for models without conjugacy), with Adam. The learning rate of step t is
``learning_rate / (1 + passes so far)^decay``.
"""

from functools import lru_cache, partial

import numpy as np
from scipy.linalg import solve_triangular

from .jax_setup import jax, jnp
from .problem import Clock, EqualBatches, Snapshot, gaussian_particles, marks

try:
    import numpyro
    from numpyro import distributions
    from numpyro.infer import SVI, Trace_ELBO, autoguide
except ImportError as error:
    raise ImportError('This needs NumPyro: pip install "skpmd[bench]"') from error

GUIDES = {
    "full": autoguide.AutoMultivariateNormal,
    "diagonal": autoguide.AutoDiagonalNormal,
}


def svi(
    problem, X, y, *, n_particles, seed, batch_size, passes, max_cpu=np.inf, family="full",
    learning_rate=0.01, decay=0.5, n_draws=1, n_snapshots=6, block=100,
):  # fmt: skip
    """Yield snapshots; see `problem`. Their particles have the Gaussian's mean and covariance.

    Parameters
    ----------
    family : {"full", "diagonal"}
        Covariance.
    learning_rate, decay : float
        Of Adam.
    n_draws : int
        Draws of theta for a gradient.
    block : int
        Steps in one compiled call.

    The mean starts from a draw of the prior, and the covariance from NumPyro's 0.01 I.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    per_pass = len(X) // batch_size
    n_blocks = max(1, round(passes * per_pass / block))
    initialise, advance, describe = _compiled(
        problem, family, n_draws, learning_rate, decay, per_pass, len(X) / batch_size
    )
    data = jax.tree.map(jnp.asarray, (X, y))
    start = jnp.asarray(problem.sample_prior(rng, 1)[0])
    state = initialise(jax.random.PRNGKey(seed), start, *data)
    advance(state, jnp.zeros((block, batch_size), dtype=int), *data)  # compiles
    shown = marks(1, n_blocks, n_snapshots)
    stream = EqualBatches(len(X), batch_size, rng)
    for number in range(1, n_blocks + 1):
        with clock:
            chosen = stream.take(block)
            state = jax.block_until_ready(advance(state, chosen, *data))
        if number in shown:
            rows = number * block * batch_size
            yield _snapshot(clock.cpu, rows, *describe(state), n_particles, rng)
            if clock.cpu > max_cpu:
                return


def _snapshot(cpu, rows, mean, factor, n_particles, rng):
    particles = gaussian_particles(mean, factor, n_particles, rng)
    density = partial(gaussian_log_density, mean=mean, factor=factor)
    return Snapshot(cpu, rows, particles, np.zeros(len(particles)), density)


def gaussian_log_density(theta, mean, factor):
    """Log density of N(mean, factor factor') with a lower triangular factor."""
    z = solve_triangular(factor, (theta - mean).T, lower=True)
    constant = np.log(np.diag(factor)).sum() + 0.5 * len(mean) * np.log(2.0 * np.pi)
    return -0.5 * (z**2).sum(axis=0) - constant


@lru_cache(maxsize=16)
def _compiled(problem, family, n_draws, learning_rate, decay, per_pass, scale):
    """Return functions that start, move on and describe one setting, for any data."""

    def model(X, y):
        # The prior is in the factor, so any density will do that is constant.
        support = distributions.constraints.real
        theta = numpyro.sample("theta", distributions.ImproperUniform(support, (), (problem.d,)))
        log_likelihood = problem.jax_log_likelihood(theta, X, y)
        numpyro.factor("joint", problem.jax_log_prior(theta) + scale * log_likelihood)

    guide = GUIDES[family](model)
    rate = _rate(learning_rate, decay, per_pass)
    method = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO(num_particles=n_draws))

    def initialise(key, start, X, y):
        params = method.get_params(method.init(key, X, y))
        return method.init(key, X, y, init_params={**params, "auto_loc": start})

    @jax.jit
    def advance(state, chosen, X, y):
        def body(state, rows):
            batch = jax.tree.map(lambda table: table[rows], (X, y))
            return method.update(state, *batch)

        return jax.lax.scan(body, state, chosen)[0]

    def describe(state):
        found = guide.get_posterior(method.get_params(state))
        if family == "full":
            return np.asarray(found.mean), np.asarray(found.scale_tril)
        return np.asarray(found.mean), np.diag(np.sqrt(found.variance))

    return initialise, advance, describe


def _rate(learning_rate, decay, per_pass):
    return lambda step: learning_rate / (1.0 + step / per_pass) ** decay
