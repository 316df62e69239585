"""NUTS (NumPyro) on a `targets.Target`, in float64, as fast on one core as we could make it.

The chains move in the target's whitened coordinates, where the posterior is near N(0, I): with a
normal prior those of the Laplace approximation, theta = mode + L z with L L' the inverse Hessian
at the mode. All loops are compiled before the clock starts; warm-up and sampling are timed
apart, in CPU seconds.
"""

import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from .jax_setup import diagnostics, hmc, jax, jnp

LAYOUTS = {
    "4 in turn": {"n_chains": 4},
    "8 at once": {"n_chains": 8, "vectorised": True},
}


@dataclass(frozen=True)
class NutsRun:
    """Draws (chains, steps, d) in the coordinates that are reported and what they cost."""

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
        return _ess(self.draws)

    def ess_second_moment(self):
        """Effective sample size of each coordinate's squared deviation from its mean."""
        return _ess((self.draws - self.flat.mean(axis=0)) ** 2)

    def r_hat(self):
        """Split R-hat of each coordinate."""
        return np.asarray(diagnostics.split_gelman_rubin(self.draws))


def _ess(draws):
    return np.asarray(diagnostics.effective_sample_size(draws))


class Nuts:
    """Compiled NUTS chains for one posterior.

    Parameters
    ----------
    target : targets.Target
        The posterior.
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
        self, target, *, n_chains=4, vectorised=False, n_warmup=200, target_accept=0.8,
        adapt_mass=False,
    ):  # fmt: skip
        self.target = target
        self.n_chains, self.vectorised, self.n_warmup = n_chains, vectorised, n_warmup
        centre, scale = jnp.asarray(target.centre), jnp.asarray(target.scale)

        def potential(z):
            return target.potential(centre + scale @ z)

        init, sample = hmc(potential, algo="NUTS")

        def initialise(z, key):
            return init(
                z, n_warmup, target_accept_prob=target_accept, adapt_mass_matrix=adapt_mass,
                rng_key=key,
            )  # fmt: skip

        # Chains start from half the whitened spread; init must see concrete values once.
        self._initialise = jax.vmap(initialise) if vectorised else initialise
        self._initialise(*self._starts(0)) if vectorised else initialise(*self._start(0, 0))
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
        shape = (self.n_chains, len(self.target.centre))
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
            states = [self._initialise(*self._starts(seed))]
        else:
            states = [self._initialise(*self._start(seed, chain)) for chain in range(self.n_chains)]
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
            self.target.reported(self.target.centre + z @ self.target.scale.T),
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


def fastest(target, layouts, n_steps):
    """Return the name and the sampler of the layout with the most smallest-ESS per CPU second.

    ``layouts`` are names of `LAYOUTS`; each makes one trial run.
    """
    speeds = {}
    for layout in layouts:
        sampler = Nuts(target, **LAYOUTS[layout])
        with threadpool_limits(limits=1):
            trial = sampler.run(0, n_steps)
        speeds[layout] = trial.ess().min() / trial.sampling_cpu, sampler
    best = max(speeds, key=lambda layout: speeds[layout][0])
    return best, speeds[best][1]
