"""The polish step: one exact reweighting on all data, from a fresh density (a = b = 1)."""

from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.mirror import rejuvenate, step

_GOOD_SHARE = 0.5  # of the cloud, effective
_MAX_ROUNDS = 3


def polish(cloud, model, batches, b, settings, rng, n_particles=None):
    """Redraw the cloud from its kernel density estimate and weigh it by the posterior itself.

    Minibatch noise, the trace of the first density and the kernel's smoothing are all removed by
    the weights; what is left is Monte Carlo error, which ESS and k-hat certify. A round with a
    poor certificate is followed by another from the better density that it found, three at most,
    unless it could not be taken whole; the round with the largest effective sample size is kept.

    Parameters
    ----------
    cloud : Cloud
        Where the mirror steps ended. Under ``rejuvenation="never"`` it is weighed where it is.
    model, batches, settings, rng, n_particles
        As in `skpmd.engine.mirror.step`.
    b : float
        Power of the likelihood, 1 / temperature.

    Returns
    -------
    cloud : Cloud
        r = log joint - log pi exactly.
    infos : list of StepInfo
        One for each round.
    """
    if settings.rejuvenation == "never":
        cloud, info = step(cloud, model, batches, 1.0, b, settings, rng)
        return cloud, [info]
    best, infos = None, []
    for _ in range(_MAX_ROUNDS):
        cloud, bandwidth = rejuvenate(cloud, model, settings, rng, n_particles)
        cloud, info = step(cloud, model, batches, 1.0, b, settings, rng)
        if not info.rejuvenations:
            info = info._replace(bandwidth=bandwidth)
        infos.append(info._replace(rejuvenations=info.rejuvenations + 1))
        if best is None or info.ess > best[1].ess:
            best = cloud, info
        good = info.ess >= _GOOD_SHARE * info.n_particles
        good = good and not heavy_tail(cloud.log_ratio, pareto_k(cloud.log_ratio))
        if good or info.split_bound_hit:
            break
    return best[0], infos
