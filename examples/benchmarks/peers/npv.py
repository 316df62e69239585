"""Nonparametric variational inference on batches: a uniform mixture of isotropic Gaussians.

Gershman, Hoffman and Blei (2012), "Nonparametric variational inference", ICML. With f the log joint
density and q_n the density at mean n, averaged over the components after each has been convolved
with component n, the bound is the mean over n of f(mu_n) + sigma_n^2 tr(Hessian of f at mu_n) / 2
- log q_n. As in the paper the means follow the bound without its second term (whose slope has third
derivatives), and the variances all of it.

Here both follow stochastic gradients at once, f estimated on a batch, by Adam; the published
stochastic variant alternates L-BFGS over means and variances. With m components of d coordinates a
step costs m^2 d for the entropy and m d gradients of a batch for the traces.
"""

from functools import partial

import numpy as np
from scipy.special import logsumexp

from .jax_setup import jax, jnp
from .problem import Clock, EqualBatches, Snapshot, marks

MEMORY = 0.9, 0.999  # of Adam


def npv(
    problem, X, y, *, n_particles, seed, batch_size, passes, max_cpu=np.inf, learning_rate=0.03,
    decay=0.5, n_snapshots=6, block=10,
):  # fmt: skip
    """Yield snapshots; see `problem`. ``n_particles`` is the number of components.

    Particles are 2 d points for each component, with its mean and covariance. Means start from
    draws of the prior, each standard deviation at the spread of the prior times
    ``n_particles**(-1 / (d + 4))``, as in a kernel density estimate. The learning rate of step t is
    ``learning_rate / (1 + passes so far)^decay``.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    per_pass = len(X) // batch_size
    n_blocks = max(1, round(passes * per_pass / block))
    data = jax.tree.map(jnp.asarray, (X, y))
    mu = problem.sample_prior(rng, n_particles)
    spread = problem.sample_prior(rng, 1000).std(axis=0).mean()
    log_sd = np.log(spread) - np.log(n_particles) / (problem.d + 4)
    params = jnp.asarray(np.column_stack([mu, np.full(n_particles, log_sd)]))
    state = params, jnp.zeros_like(params), jnp.zeros_like(params)
    options = problem.jax_log_likelihood, problem.jax_log_prior
    size = jnp.asarray([learning_rate, decay, float(per_pass)])
    _advance(*options, state, 0, jnp.zeros((block, batch_size), dtype=int), size, *data)
    shown = marks(1, n_blocks, n_snapshots)
    stream = EqualBatches(len(X), batch_size, rng)
    for number in range(n_blocks):
        with clock:
            chosen = stream.take(block)
            state = _advance(*options, state, number * block, chosen, size, *data)
            state = jax.block_until_ready(state)
        if number + 1 in shown:
            yield _snapshot(clock.cpu, (number + 1) * block * batch_size, np.asarray(state[0]))
            if clock.cpu > max_cpu:
                return


def _snapshot(cpu, rows, params):
    mu, sd = params[:, :-1], np.exp(params[:, -1])
    d = mu.shape[1]
    offsets = np.sqrt(d) * np.concatenate([np.eye(d), -np.eye(d)])
    points = (mu[:, None] + sd[:, None, None] * offsets).reshape(-1, d)
    return Snapshot(
        cpu, rows, points, np.zeros(len(points)), lambda theta: log_density(theta, mu, sd)
    )


def log_density(theta, mu, sd, block=2000):
    """Log density of the uniform mixture of N(mu_n, sd_n^2 I)."""
    d = mu.shape[1]
    constant = d * np.log(sd) + 0.5 * d * np.log(2.0 * np.pi) + np.log(len(mu))
    parts = []
    for start in range(0, len(theta), block):
        points = theta[start : start + block]
        squared = sum((points[:, k, None] - mu[:, k]) ** 2 for k in range(d))
        parts.append(logsumexp(-0.5 * squared / sd**2 - constant, axis=1))
    return np.concatenate(parts)


def _elbo(params, log_joint):
    """The bound, such that its gradient is the step that the paper takes."""
    mu, sd = params[:, :-1], jnp.exp(params[:, -1])
    d = mu.shape[1]

    def trace(one):
        gradient = jax.grad(log_joint)
        columns = jax.vmap(lambda axis: jax.jvp(gradient, (one,), (axis,))[1] @ axis)
        return columns(jnp.eye(d)).sum()

    curvature = jax.lax.stop_gradient(jax.vmap(trace)(mu))
    variance = sd[:, None] ** 2 + sd**2
    norms = (mu**2).sum(axis=1)
    squared = jnp.maximum(norms[:, None] + norms - 2.0 * mu @ mu.T, 0.0)
    table = -0.5 * squared / variance - 0.5 * d * jnp.log(2.0 * jnp.pi * variance)
    log_q = jax.scipy.special.logsumexp(table, axis=1) - jnp.log(len(mu))
    return (jax.vmap(log_joint)(mu) + 0.5 * sd**2 * curvature - log_q).sum()


@partial(jax.jit, static_argnums=(0, 1))
def _advance(log_likelihood, log_prior, state, first, chosen, size, X, y):
    """Take a block of Adam's steps."""
    learning_rate, decay, per_pass = size

    def body(state, given):
        params, slope, square = state
        step, rows = given
        batch = jax.tree.map(lambda table: table[rows], (X, y))

        def log_joint(one):
            return log_prior(one) + len(X) / len(rows) * log_likelihood(one, *batch)

        gradient = jax.grad(_elbo)(params, log_joint)
        slope = MEMORY[0] * slope + (1.0 - MEMORY[0]) * gradient
        square = MEMORY[1] * square + (1.0 - MEMORY[1]) * gradient**2
        rate = learning_rate / (1.0 + step / per_pass) ** decay
        scaled = jnp.sqrt(square / (1.0 - MEMORY[1] ** (step + 1.0))) + 1e-8
        params = params + rate * slope / (1.0 - MEMORY[0] ** (step + 1.0)) / scaled
        return (params, slope, square), None

    steps = first + jnp.arange(len(chosen))
    return jax.lax.scan(body, state, (steps, chosen))[0]
