"""Affine-invariant ensembles (emcee), from values alone: stretch moves of many walkers."""

import numpy as np

from ..harness.timing import cpu_clock

try:
    import emcee
except ImportError as error:
    raise ImportError('This needs emcee: pip install "skpmd[bench]"') from error

_EACH = 100  # Moves between looks at the clock.


def stretch(problem, X, y, *, seed, budget, min_walkers=64):
    """Draws of the second half of a run of ``budget`` CPU seconds from the prior, and its seconds.

    Whether the chain is too short for an estimate of its autocorrelation time (emcee's own rule)
    comes last.
    """

    def log_joint(theta):
        value = problem.log_prior(theta)
        inside = np.isfinite(value)
        value[inside] += problem.log_likelihood(theta[inside], X, y)
        return np.where(np.isnan(value), -np.inf, value)

    n_walkers = max(min_walkers, 4 * problem.d)
    start = problem.sample_prior(np.random.default_rng(seed), n_walkers)
    sampler = emcee.EnsembleSampler(n_walkers, problem.d, log_joint, vectorize=True)
    state, cpu = emcee.State(start, random_state=np.random.RandomState(seed).get_state()), 0.0
    while cpu < budget:
        with np.errstate(all="ignore"), cpu_clock() as clock:
            state = sampler.run_mcmc(state, _EACH)
        cpu += clock.cpu
    half = sampler.iteration // 2
    try:
        sampler.get_autocorr_time(discard=half)
        short = False
    except emcee.autocorr.AutocorrError:
        short = True
    return sampler.get_chain(discard=half, flat=True), cpu, short
