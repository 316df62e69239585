"""NUTS on the likelihood of rows given their neighbours, for an RBF kernel and noise."""

import numpy as np

from .jax_setup import jax, jnp
from .nuts import Nuts
from .targets import Target

CHAINS, WARMUP, STEPS = 2, 100, 300


def draws(X, y, before, mode, covariance, seed=0):
    """Draws (n, d) of log variance, log length scales and log noise, uniform a priori.

    The CPU seconds, with compiling, and the smallest effective sample size come second and third.

    ``before`` (n, c) are the places of each row's neighbours, -1 after the last. Mode and
    covariance whiten; they need not be right.
    """
    target = Target(_potential(X, y, before), mode, np.linalg.cholesky(covariance))
    sampler = Nuts(target, n_chains=CHAINS, n_warmup=WARMUP)
    states, cpu = sampler.warm(seed)
    _, run = sampler.sample(states, STEPS, cpu)
    return run.flat, run.warmup_cpu + run.sampling_cpu, float(run.ess().min())


def _potential(X, y, before):
    there = jnp.asarray(before >= 0)
    near = np.maximum(before, 0)
    Xn, yn, X, y = (jnp.asarray(one) for one in (X[near], y[near] * (before >= 0), X, y))
    eye = jnp.eye(before.shape[1])

    def potential(theta):
        variance, scale, noise = jnp.exp(theta[0]), jnp.exp(theta[1:-1]), jnp.exp(theta[-1])
        A, a = Xn / scale, X / scale
        between = ((A[:, :, None] - A[:, None]) ** 2).sum(-1)
        both = there[:, :, None] & there[:, None]
        K = jnp.where(both, variance * jnp.exp(-0.5 * between), 0.0) + noise * eye
        k = jnp.where(there, variance * jnp.exp(-0.5 * ((A - a[:, None]) ** 2).sum(-1)), 0.0)
        half = jax.scipy.linalg.solve_triangular(
            jnp.linalg.cholesky(K), jnp.stack([k, yn], axis=-1), lower=True
        )
        left = variance + noise - (half[..., 0] ** 2).sum(-1)
        error = y - (half[..., 0] * half[..., 1]).sum(-1)
        return 0.5 * (jnp.log(left) + error**2 / left).sum()

    return potential
