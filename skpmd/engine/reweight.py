"""The polish step: one exact reweighting on all data (a = b = 1), redrawn first where needed."""

import numpy as np

from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.mirror import step

_FINE_SHARE = 0.9  # of the cloud effective where it stands: no redraw can do much better
_GOOD_SHARE = 0.5  # effective after a redraw: no further round
_MAX_ROUNDS = 3


def reweight(particles, model, batches, b, settings, rng, n_particles=None):
    """Weigh a cloud by the posterior itself, from a density known exactly.

    Minibatch noise, the trace of the first density and the kernel's smoothing are all removed by
    the weights; what is left is Monte Carlo error, which ESS and k-hat certify. Particles that
    already stand well are weighed where they are (weak data: draws from the prior). Otherwise they
    are redrawn first, from the kernel density estimate and a wide component. A round with a poor
    certificate is followed by another from the better density that it found, three at most, unless
    it could not be taken whole; the round with the largest effective sample size is kept.

    The kernel is Gaussian whatever the settings say: under a compact one pi is zero where the
    posterior is not, and no weight can show it.

    Parameters
    ----------
    particles : Particles
        Where the mirror steps ended. Under ``rejuvenation="never"`` it is weighed where it is.
    model, batches, settings, rng
        As in `skpmd.engine.mirror.step`.
    b : float
        Power of the likelihood, 1 / temperature.
    n_particles : int, optional
        Size of the cloud to return; default: as it is.

    Returns
    -------
    particles : Particles
        r = log joint - log pi exactly.
    infos : list of StepInfo
        One for each weighing, the one that is kept last.
    """
    n_particles = len(particles.theta) if n_particles is None else n_particles
    in_place = settings.rejuvenation == "never" or _known(particles, settings, n_particles)
    settings = settings._replace(kernel="gaussian")
    kept, infos = None, []
    if in_place:
        kept = step(particles, model, batches, 1.0, b, settings._replace(rejuvenation="never"), rng)
        infos.append(kept[1])
        if settings.rejuvenation == "never" or _certified(*kept, _FINE_SHARE):
            return kept[0], infos
    for _ in range(_MAX_ROUNDS):
        particles, info = step(particles, model, batches, 1.0, b, settings, rng, n_particles, True)
        infos.append(info)
        if kept is None or info.ess > kept[1].ess:
            kept = particles, info
        if info.substep_bound_hit or _certified(particles, info, _GOOD_SHARE):
            break
    infos.sort(key=lambda info: info is kept[1])
    return kept[0], infos


def _known(particles, settings, n_particles):
    """Whether a cloud of the right size has a pi to be weighed against, positive everywhere."""
    return (
        len(particles.theta) == n_particles
        and settings.rejuvenation == "ess"
        and settings.kernel == "gaussian"
        and bool(np.isfinite(particles.log_pi).all())
    )


def _certified(particles, info, share):
    heavy = heavy_tail(particles.log_ratio, pareto_k(particles.log_ratio))
    return info.ess >= share * info.n_particles and not heavy
