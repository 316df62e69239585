"""NUTS (NumPyro) for Bayesian logistic regression, as fast on one core as we could make it.

The model: standardised features, prior N(0, 1) on each coefficient and on the intercept, float64.
The chains move in coordinates whitened by the Laplace approximation, theta = mode + L z with
L L' the inverse Hessian at the mode, so the posterior is near N(0, I) for them. All loops are
compiled before the clock starts; warm-up and sampling are timed apart, in CPU seconds.

Coordinates of theta: coefficients in column order, intercept last.
"""

import os
import time
from dataclasses import dataclass

# One thread for XLA; this only works before jax is loaded for the first time.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
    from numpyro.infer.hmc import hmc
except ImportError as error:
    raise ImportError('This needs NumPyro and JAX: pip install "skpmd[bench]"') from error

from .laplace import laplace

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True)
class NutsRun:
    """Draws (chains, steps, d) in the model's coordinates and what they cost."""

    draws: np.ndarray
    warmup_cpu: float
    sampling_cpu: float
    n_leapfrog: int
    n_divergent: int

    @property
    def flat(self):
        """All draws as one (chains * steps, d) array."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    def ess(self):
        """Effective sample size of each coordinate's mean."""
        return np.asarray(effective_sample_size(self.draws))

    def ess_second_moment(self):
        """Effective sample size of each coordinate's squared deviation from its mean."""
        return np.asarray(effective_sample_size((self.draws - self.flat.mean(axis=0)) ** 2))

    def r_hat(self):
        """Split R-hat of each coordinate."""
        return np.asarray(split_gelman_rubin(self.draws))


@jax.custom_vjp
def softplus_sum(x):
    """Sum of log(1 + exp(x)), with a gradient that shares its one exponential per entry."""
    return (jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))).sum()


def _softplus_sum_forward(x):
    small = jnp.exp(-jnp.abs(x))
    value = (jnp.maximum(x, 0.0) + jnp.log1p(small)).sum()
    return value, jnp.where(x >= 0.0, 1.0, small) / (1.0 + small)


softplus_sum.defvjp(_softplus_sum_forward, lambda sigmoid, upstream: (upstream * sigmoid,))


class Nuts:
    """Compiled NUTS chains for one data set.

    Parameters
    ----------
    X, y : arrays
        Standardised features and 0/1 labels.
    n_chains : int
        Number of chains.
    vectorised : bool
        Move all chains in one compiled call (a batched likelihood, but every chain waits for the
        longest trajectory) or one after the other.
    n_warmup : int
        Steps of step-size adaptation per chain; they count in ``warmup_cpu``.
    target_accept : float
        Target of the adaptation.
    adapt_mass : bool
        Adapt a diagonal mass matrix on top of the whitening.
    """

    def __init__(
        self, X, y, *, n_chains=4, vectorised=False, n_warmup=200, target_accept=0.8,
        adapt_mass=False,
    ):  # fmt: skip
        approximation = laplace(X, y)
        self.mode = approximation.mode
        self.scale = np.linalg.cholesky(approximation.cov)
        self.n_chains, self.vectorised, self.n_warmup = n_chains, vectorised, n_warmup
        design = np.column_stack([X, np.ones(len(X))])
        signs = 1.0 - 2.0 * np.asarray(y, dtype=np.float64)
        # With the label's sign folded in, -log p(y | z) = softplus(offset + rows @ z).
        rows = jnp.asarray(signs[:, None] * (design @ self.scale))
        offset = jnp.asarray(signs * (design @ self.mode))
        mode, scale = jnp.asarray(self.mode), jnp.asarray(self.scale)

        def potential(z):
            theta = mode + scale @ z
            return softplus_sum(offset + rows @ z) + 0.5 * theta @ theta

        init, sample = hmc(potential, algo="NUTS")

        def begin(z, key):
            return init(
                z, n_warmup, target_accept_prob=target_accept, adapt_mass_matrix=adapt_mass,
                rng_key=key,
            )  # fmt: skip

        # Chains start from half the Laplace spread; init must see concrete values once.
        self._begin = jax.vmap(begin) if vectorised else begin
        self._begin(*self._starts(0)) if vectorised else begin(*self._start(0, 0))
        step = jax.vmap(sample) if vectorised else sample

        def advance(state, length):
            def body(state, _):
                state = step(state)
                return state, (state.z, state.num_steps, state.diverging)

            return jax.lax.scan(body, state, None, length=length)

        self._advance = jax.jit(advance, static_argnums=1)
        self._compiled = set()

    def _starts(self, seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), 2 * self.n_chains)
        shape = (self.n_chains, len(self.mode))
        return 0.5 * jax.random.normal(keys[0], shape), keys[self.n_chains :]

    def _start(self, seed, chain):
        z, keys = self._starts(seed)
        return z[chain], keys[chain]

    def _timed(self, state, length):
        start = time.process_time()
        state, collected = jax.block_until_ready(self._advance(state, length))
        return state, [np.asarray(part) for part in collected], time.process_time() - start

    def warm(self, seed):
        """Start the chains and adapt them; return their states and the CPU seconds."""
        if self.vectorised:
            states = [self._begin(*self._starts(seed))]
        else:
            states = [self._begin(*self._start(seed, chain)) for chain in range(self.n_chains)]
        warmed = [self._timed(state, self.n_warmup) for state in states]
        return [state for state, _, _ in warmed], sum(cpu for _, _, cpu in warmed)

    def sample(self, states, n_steps, warmup_cpu=0.0):
        """Move warmed chains ``n_steps`` on; return the new states and a `NutsRun`."""
        moved = [self._timed(state, n_steps) for state in states]
        if self.vectorised:
            z, lengths, divergent = (np.moveaxis(part, 0, 1) for part in moved[0][1])
        else:
            z, lengths, divergent = (
                np.stack([collected[k] for _, collected, _ in moved]) for k in range(3)
            )
        run = NutsRun(
            self.mode + z @ self.scale.T,
            warmup_cpu,
            sum(cpu for _, _, cpu in moved),
            int(lengths.sum()),
            int(divergent.sum()),
        )
        return [state for state, _, _ in moved], run

    def run(self, seed, n_steps):
        """Compile if need be (outside the clock), then warm up and draw."""
        if n_steps not in self._compiled:
            # A run that is thrown away: the only sure way to have every path compiled.
            self.sample(self.warm(0)[0], n_steps)
            self._compiled.add(n_steps)
        states, warmup_cpu = self.warm(seed)
        return self.sample(states, n_steps, warmup_cpu)[1]
