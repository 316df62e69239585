"""One mirror descent step on a cloud, in full or split by the effective sample size.

The stochastic mirror step of Dai et al. 2016 (eq. 2), q+ = q^(1-gamma) p^gamma L^(gamma s), the
sequential Bayes rule, forgetting and the final reweighting on all data are one linear form with
two coefficients in terms of the log ratio r = log q - log pi:

    r+ = (1 - a) r + a (log p - log pi) + b * log-likelihood of the batch

A mirror step has (a, b) = (gamma, gamma N / B), a stream (0, 1), a polish step (1, 1).
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine import rejuvenation_error
from skpmd.engine.particles import effective_sample_size, weights
from skpmd.engine.rejuvenation import DEFENSIVE_SHARE, rejuvenate

_ROOM = 0.95  # a segment may always go down to this share of the ESS it starts with


class Settings(NamedTuple):
    """What a step needs to know beside the model; see `ParticleMirrorDescent` for each meaning."""

    rejuvenation: str = "ess"
    ess_threshold: float = 0.5
    max_substeps: int = 100
    resampling: str = "systematic"
    bandwidth: float | str = "loo"
    bandwidth_factor: float = 1.0
    smoothness: float = 1.0
    kernel: str = "gaussian"
    shrinkage: bool = True


class StepInfo(NamedTuple):
    """What happened in one step; reported, never read back by the engine.

    Attributes
    ----------
    a, b : float
        The coefficients asked for.
    fraction : float
        f of the first segment: 1 unless the guard split the step.
    substeps : int
        How often the guard split the step.
    substep_bound_hit : bool
        Whether the bound on splits was reached and the rest was taken in one go.
    rejuvenations : int
        How often the cloud was redrawn.
    bandwidth : float
        h of the last rejuvenation in the step, nan without one.
    ess : float
        Effective sample size after the step.
    n_particles : int
        Size of the cloud after the step.
    rejuvenation_error : float
        Bound on the error that redraws so far have left in the means, in standard deviations of q
        (`skpmd.engine.rejuvenation_error`).
    mean_error : float
        The same with the Monte Carlo error of the particles as they are; nan for draws from
        references, which `skpmd.logistic._importance` weighs by all data.
    """

    a: float
    b: float
    fraction: float
    substeps: int
    substep_bound_hit: bool
    rejuvenations: int
    bandwidth: float
    ess: float
    n_particles: int
    rejuvenation_error: float = 0.0
    mean_error: float = np.nan


def step(particles, model, batches, a, b, settings, rng, n_particles=None, rejuvenate_first=False):
    """Move q by one step of coefficients (a, b) on some data.

    Parameters
    ----------
    particles : Particles
        q before the step.
    model : Model
        See `skpmd.engine.model.Model`.
    batches : sequence of Batch
        Rows of data, summed over: one minibatch, or all data in pieces that fit in memory.
    a, b : float
        Coefficients on the prior part and on the batch's log-likelihood.
    settings : Settings
        Guard and rejuvenation.
    rng : numpy.random.Generator
        Source of all randomness.
    n_particles : int, optional
        Size of the cloud from the next rejuvenation on; default: as it is.
    rejuvenate_first : bool
        Whether to redraw the cloud first in any case, with the wide component.

    Returns
    -------
    particles : Particles
        q after the step.
    info : StepInfo
        What happened.
    """
    asked, first = (a, b), None
    substeps = rejuvenations = 0
    bandwidth, bound_hit = np.nan, False
    redraw, defensive = (
        (True, DEFENSIVE_SHARE) if rejuvenate_first else (_wants_redraw(particles, settings), 0.0)
    )
    while True:
        if redraw:
            particles, bandwidth = rejuvenate(
                particles, model, settings, rng, n_particles, defensive
            )
            rejuvenations += 1
        path = _path(particles, model, batches, a, b)
        fraction = 1.0
        if settings.rejuvenation != "never":
            fraction = largest_fraction(path, settings.ess_threshold)
        if fraction < 1.0 and substeps == settings.max_substeps:
            fraction, bound_hit = 1.0, True
        first = fraction if first is None else first
        log_ratio, block = path(fraction)
        error_terms = rejuvenation_error.fade(particles.error_terms, fraction * a)
        particles = particles._replace(log_ratio=log_ratio, block=block, error_terms=error_terms)
        if fraction == 1.0:
            break
        a, b = remainder(a, b, fraction)
        substeps += 1
        redraw, defensive = True, DEFENSIVE_SHARE
    ess = effective_sample_size(particles.log_ratio)
    errors, m = rejuvenation_error.of_cloud(particles, model.monitored), len(particles.theta)
    info = StepInfo(*asked, first, substeps, bound_hit, rejuvenations, bandwidth, ess, m, *errors)
    return particles, info


def remainder(a, b, fraction):
    """Coefficients of what is left of a step (a, b) after taking a fraction f < 1 of it.

    Taking (f a, f b) and then the remainder equals the whole step: the factors (1 - a) multiply,
    so a' = a (1 - f) / (1 - f a) and b' = b (1 - f) / (1 - f a). A polish step (a = 1) stays whole.
    """
    shrink = (1.0 - fraction) / (1.0 - fraction * a)
    return a * shrink, b * shrink


def log_likelihood(model, theta, batches):
    """Log-likelihood of all rows of the batches for each particle, shape (m,)."""
    return sum(model.log_likelihood(theta, batch) for batch in batches)


def _wants_redraw(particles, settings):
    if settings.rejuvenation == "always":
        return bool(particles.log_ratio.any())  # a cloud at r = 0 is already a fresh draw
    if settings.rejuvenation == "never":
        return False
    return effective_sample_size(particles.log_ratio) < settings.ess_threshold * len(
        particles.theta
    )


def _path(particles, model, batches, a, b):
    """The step as a path f -> (log ratio, block) for f in (0, 1], data visited once.

    With a closed-form block of natural parameters eta the integral over zeta adds
    A(eta+) - (1 - a) A(eta) - a A(eta_prior), A the log-partition function; it is not linear in
    f, so it is evaluated anew at each f.
    """
    inside = particles.log_prior > -np.inf
    likelihood = _where(
        inside, lambda theta: log_likelihood(model, theta, batches), particles.theta
    )
    drift = b * likelihood
    if a:  # a stream does not ask what pi is, nor what the prior is off its support
        drift = drift + a * (particles.log_prior - particles.log_pi)
    if np.isnan(drift).any() or (drift == np.inf).any():
        raise FloatingPointError(
            "log_likelihood or log_prior returned nan or +inf for some particles; "
            "return -inf where a parameter is impossible."
        )
    if not np.isfinite(_mix(particles.log_ratio, drift, 1.0, a)).any():
        raise FloatingPointError(
            "Every particle has zero posterior density: sample_prior draws outside the support "
            "of the likelihood, or n_particles is too small to find it."
        )
    if not particles.block.shape[1]:
        return lambda f: (_mix(particles.log_ratio, drift, f, a), particles.block)
    prior = model.prior_block(particles.theta)
    statistics = sum(model.statistics(particles.theta, particles.block, batch) for batch in batches)

    def moved(f):
        return (1.0 - f * a) * particles.block + f * (a * prior + b * statistics)

    if not model.block_weighs:
        return lambda f: (_mix(particles.log_ratio, drift, f, a), moved(f))
    partition, partition_prior = model.log_partition(particles.block), model.log_partition(prior)

    def path(f):
        block = moved(f)
        gain = model.log_partition(block) - (1.0 - f * a) * partition - f * a * partition_prior
        return _mix(particles.log_ratio, drift, f, a) + gain, block

    return path


def _where(inside, function, theta):
    """Values of the function for particles inside the prior's support, -inf for the others."""
    if inside.all():
        return function(theta)
    values = np.full(len(theta), -np.inf)
    if inside.any():
        values[inside] = function(np.ascontiguousarray(theta[inside]))
    return values


def _mix(log_ratio, drift, f, a):
    keep = 1.0 - f * a
    # At a whole step of a = 1 the past is forgotten even where it was -inf (0 * inf is nan).
    return keep * log_ratio + f * drift if keep > 0.0 else f * drift


def largest_fraction(path, threshold):
    """Largest f in (0, 1] such that the effective sample size along the path stays above a share.

    The whole step is tried first. Otherwise the ESS need not be monotone along the path, so the
    first crossing is bracketed by small growing steps and then bisected.
    """
    probe, alive, start = _first_probe(path)
    # What no split mends does not count: particles outside the support, and what a fresh draw with
    # a wide component lacks from the start.
    ess_floor = min(threshold * alive, _ROOM * start)

    def enough(f):
        return effective_sample_size(path(f)[0]) >= ess_floor

    if enough(1.0):
        return 1.0
    low, high = 0.0, probe
    while high < 1.0 and enough(high):
        low, high = high, 1.3 * high
    high = min(high, 1.0)
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low if low > 0.0 else high


def _first_probe(path):
    """An f at which log weights have moved by about 0.1 nats; live particles; ESS at f = 0."""
    f = 1e-9
    near, far = path(f)[0], path(2 * f)[0]
    alive = np.isfinite(near)
    w = weights(near[alive])
    change = far[alive] - near[alive]
    spread = np.sqrt(w @ (change - w @ change) ** 2)
    probe = min(0.5, f * max(1.0, 0.1 / max(spread, 1e-300)))
    return probe, alive.sum(), effective_sample_size(near)
