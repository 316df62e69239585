"""Nested sampling by dynesty (Speagle 2020, MNRAS 493; Skilling 2006, Bayesian Analysis 1).

Live points climb through shells of the prior with ever larger likelihood; its weighted points are a
posterior sample, and it estimates the evidence. It ends by itself and shows nothing before.
"""

import numpy as np

from .problem import Clock, Snapshot

try:
    import dynesty
except ImportError as error:
    raise ImportError('This needs dynesty: pip install "skpmd[bench]"') from error


def nested(problem, X, y, *, n_particles, seed, prior_transform, max_cpu=np.inf, n_live=500):
    """Yield the end of a run; ``prior_transform`` makes draws of the prior of uniform numbers."""

    def log_likelihood(theta):
        return float(problem.log_likelihood(theta[None], X, y)[0])

    clock = Clock()
    with clock:
        sampler = dynesty.NestedSampler(
            log_likelihood, prior_transform, problem.d, nlive=n_live,
            rstate=np.random.default_rng(seed),
        )  # fmt: skip
        sampler.run_nested(print_progress=False)
    found = sampler.results
    particles, log_weights = found.samples, found.logwt - found.logz[-1]
    if len(particles) > n_particles:  # as many as the others keep, equally weighted
        weights = np.exp(log_weights - log_weights.max())
        chosen = np.random.default_rng(seed).choice(
            len(particles), n_particles, p=weights / weights.sum()
        )
        particles, log_weights = particles[chosen], np.zeros(n_particles)
    evidence = float(found.logz[-1])
    yield Snapshot(
        clock.cpu, int(np.sum(found.ncall)) * len(X), particles, log_weights, log_evidence=evidence
    )
