"""Where a posterior has any density, which draws from kernels around particles must know."""

import numpy as np

from skpmd.engine.edges import edges
from skpmd.engine.values import without_errors


def support_of(prior, given, found=None):
    """What a `Posterior` is told of its support, as keywords.

    ``prior`` is the `PriorCheck` and ``given`` the `PriorFunctions`. ``found`` are edges of the
    likelihood, where they are known.
    """
    log_prior = given.log_prior if prior.has_more_edges else None
    return {"support": prior.support if found is None else found, "log_prior": log_prior}


def edges_given_rows(model, batches, outcome, support):
    """Edges of the posterior, (d,) each: the prior's, and what the likelihood adds to them.

    It is asked only where particles show that it has an edge, because some within the prior are
    impossible. None where there is nothing to add, or no time.
    """
    particles = outcome.particles
    theta, dead = particles.theta, particles.log_ratio == -np.inf
    if outcome.ended_early or not (dead & (particles.log_prior > -np.inf)).any():
        return None

    def log_joint(points):
        values = model.log_prior(points)
        for batch in batches:
            possible = values > -np.inf
            if possible.any():
                values[possible] += model.log_likelihood(points[possible], batch)
        return values

    lower, upper = edges(without_errors(log_joint), np.unique(theta[~dead], axis=0))
    if support is None:
        return lower, upper
    return np.maximum(lower, support[0]), np.minimum(upper, support[1])
