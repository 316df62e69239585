"""Importance reweighting on all data: steps of a = b = 1 from densities known exactly.

Minibatch noise, the trace of the first density and the kernel's smoothing are all removed by the
weights; what is left is Monte Carlo error, which ESS and k-hat certify.
"""

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.diagnostics import heavy_tail, pareto_k

_GOOD_IN_PLACE = 0.9  # With this share effective where it stands no draw can do much better.
_GOOD_SHARE = 0.5  # With this share effective after fresh draws there is no further round.
MAX_ROUNDS = 3


def reweighting(particles, model, batches, b, settings, rng, n_particles=None):
    """Weigh particles by the posterior itself, drawn anew first where needed.

    Particles that already stand well are weighed where they are (weak data: draws from the prior),
    and so are all under ``rejuvenation="never"``. Otherwise they are drawn anew first, from the
    kernel density estimate and a defensive component. A round with poor diagnostics is followed by
    another from the better density that it found, three at most, unless it could not be taken
    whole; the round with the largest effective sample size is kept.

    The kernel is Gaussian whatever the settings say: under a compact one pi is zero where the
    posterior is not, and no weight can show it.

    The coefficient b is the power of the likelihood, 1 / temperature, and ``n_particles`` are
    drawn, by default as many as there are. Each round yields the particles of the best one so far,
    with r = log joint - log pi exactly, and its own `StepInfo`.
    """
    n_particles = len(particles.theta) if n_particles is None else n_particles
    in_place = settings.rejuvenation == "never" or _is_known(particles, settings, n_particles)
    settings = settings._replace(kernel="gaussian")
    anew = mirror.Rejuvenation(n_particles=n_particles, first=True)
    best, best_ess = None, -np.inf
    if in_place:
        still = settings._replace(rejuvenation="never")
        best, info = mirror.step(particles, model, batches, 1.0, b, still, rng)
        best_ess = info.ess
        yield best, info
        if settings.rejuvenation == "never" or _is_certified(best, info, _GOOD_IN_PLACE):
            return
    for _ in range(MAX_ROUNDS):
        particles, info = mirror.step(
            particles, model, batches, 1.0, b, settings, rng, rejuvenation=anew
        )
        if info.ess > best_ess:
            best, best_ess = particles, info.ess
        yield best, info
        if info.substep_bound_hit or _is_certified(particles, info, _GOOD_SHARE):
            return


def _is_known(particles, settings, n_particles):
    """Whether enough particles have a pi to be weighed against, positive everywhere."""
    return (
        len(particles.theta) == n_particles
        and settings.rejuvenation == "ess"
        and settings.kernel == "gaussian"
        and bool(np.isfinite(particles.log_pi).all())
    )


def _is_certified(particles, info, share):
    heavy = heavy_tail(particles.log_ratio, pareto_k(particles.log_ratio))
    return info.ess >= share * info.n_particles and not heavy
