"""One mirror descent step of the particles, in full or split by the effective sample size.

The stochastic mirror step of Dai et al. 2016 (eq. 2), q+ = q^(1-gamma) p^gamma L^(gamma s), the
sequential Bayes rule, forgetting and the final reweighting on all data are one linear form with
two coefficients in terms of the log ratio r = log q - log pi:

    r+ = (1 - a) r + a (log p - log pi) + b * log-likelihood of the batch

A mirror step has (a, b) = (gamma, gamma N / B), a stream (0, 1), reweighting on all data (1, 1).
"""

import operator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.call import tick
from skpmd._runtime.threads import summed, total
from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.model import linear_form
from skpmd.engine.particles import Particles, effective_sample_size, weights
from skpmd.engine.rejuvenation import DEFENSIVE_SHARE, rejuvenate_by_kernels
from skpmd.engine.rejuvenation_error import RejuvenationErrors

_MIN_KEPT = 0.95  # A segment may always go down to this share of the ESS that it starts with.
_GOOD_IN_PLACE = 0.9  # With this share effective where it stands no draw can do much better.
_GOOD_SHARE = 0.5  # With this share effective after fresh draws there is no further round.
MAX_ROUNDS = 3


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
    """What happened in one step; reported, never read back by the engine."""

    # The coefficients asked for.
    a: float
    b: float
    fraction: float  # f of the first segment: 1 unless the effective sample size split the step.
    substeps: int  # How often the step was split.
    # Whether the bound on substeps was reached and the rest was taken in one go.
    substep_bound_hit: bool
    rejuvenations: int  # How often the particles were drawn anew.
    bandwidth: float  # h of the last kernel density estimate in the step, nan without one.
    ess: float  # Effective sample size after the step.
    n_particles: int  # Number of particles after the step.
    # Bound on the error that rejuvenations so far have left in the means, in standard deviations of
    # q (`skpmd.engine.rejuvenation_error`); nan where no observer keeps account of it.
    rejuvenation_error: float = np.nan
    mean_error: float = np.nan  # The same with the Monte Carlo error of the particles as they are.
    extra: dict = {}  # What the model or the rejuvenation records of the step.


class Rejuvenation(NamedTuple):
    """How a step rejuvenates its particles, where its settings ask for that."""

    # A strategy: draws from the kernel density estimate of q
    # (`skpmd.engine.rejuvenation.rejuvenate_by_kernels`), draws from proposals fitted to the
    # outcome (`skpmd.engine.importance.ProposalDraws`), both before a segment, or moves by Markov
    # chains that leave q as it is, along gradients (`skpmd.engine.smc.MarkovMoves`) or by values
    # alone (`skpmd.proposals.ensemble_moves.EnsembleMoves`), which follow each segment.
    strategy: Any = rejuvenate_by_kernels
    # There are so many particles from the next one on; by default as many as there are.
    n_particles: int | None = None
    # Whether the particles are rejuvenated first in any case, with the defensive component.
    first: bool = False
    observer: RejuvenationErrors | None = None  # Keeps account of what is lost.


BY_KERNELS = Rejuvenation()


class Way(NamedTuple):
    """A step of coefficients (a, b), or how far one has come that is taken in segments."""

    particles: Particles
    # The coefficients of what is left of it.
    a: float
    b: float
    known: np.ndarray | None = None  # (m,): The log-likelihood of the particles, where it is.
    done: float = 0.0  # The share that has been taken,
    info: StepInfo | None = None  # and what has happened in it.


def step(particles, model, batches, a, b, settings, rng, **options):
    """Move q by one step of coefficients (a, b) on some data.

    The batches are summed over: one minibatch, or all data in pieces that fit in memory. The
    coefficient a is that of the prior part, b that of their log-likelihood. The settings say when
    the step is split and the particles are rejuvenated; the options are those of `segments`.

    Returns q after the step, and what happened as a `StepInfo`.
    """
    *_, last = segments(Way(particles, a, b), model, batches, settings, rng, **options)
    return last[:2]


def segments(way, model, batches, settings, rng, rejuvenation=BY_KERNELS, current=None):
    """The segments of a step one by one, as far each as the effective sample size lets it go.

    ``way`` is the whole step, or, without an observer, where one has come to that has been begun
    with the same arguments. ``current`` is the block under which local variables of the rows are
    taken, by default the particles' own. The other arguments are as of `step`.

    Yields q after each segment, the last of which has taken the whole step, a `StepInfo` of what
    has happened in the step so far, and the `Way` that is left.
    """
    particles, a, b, known, done, info = way
    rejuvenate, n_particles, at_first, observer = rejuvenation
    whole, first = (a, b), None
    substeps = rejuvenations = 0
    bandwidth, bound_hit = np.nan, False
    follows = getattr(rejuvenate, "follows", False)
    due = at_first or _is_due(particles, settings)
    defensive, fraction = DEFENSIVE_SHARE if at_first else 0.0, done
    if info is not None:
        whole, first = (info.a, info.b), info.fraction
        substeps, bandwidth = info.substeps, info.bandwidth
        rejuvenations, due, defensive = info.rejuvenations, not follows, DEFENSIVE_SHARE
    while fraction < 1.0:
        tick()
        if due:
            fresh = rejuvenate(
                particles, model, settings, rng,
                n_particles=n_particles, defensive=defensive, observer=observer,
            )  # fmt: skip
            particles, bandwidth, known = fresh.particles, fresh.bandwidth, fresh.log_likelihood
            rejuvenations += 1
        path, statistics = _path(particles, model, batches, a, b, current, known)
        fraction = 1.0
        if settings.rejuvenation != "never":
            fraction = largest_fraction(path, settings.ess_threshold)
        if fraction < 1.0 and substeps == settings.max_substeps:
            fraction, bound_hit = 1.0, True
        first = fraction if first is None else first
        log_ratio, block = path(fraction)
        particles = particles._replace(log_ratio=log_ratio, block=block)
        ess, extra = effective_sample_size(log_ratio), {}
        if observer is not None:
            observer.segment(fraction * a)
        if fraction < 1.0:
            a, b = remainder(a, b, fraction)
            substeps += 1
            due, defensive, known = not follows, DEFENSIVE_SHARE, None
        done += fraction * (1.0 - done)
        if follows:
            fresh = rejuvenate(particles, model, settings, rng, n_particles=n_particles, done=done)
            particles, known, extra = fresh.particles, fresh.log_likelihood, fresh.record
            rejuvenations += 1
        elif model.has_block:
            extra = model.record(block, statistics)
        errors = (np.nan, np.nan) if observer is None else observer.errors(particles)
        info = StepInfo(
            *whole, first, substeps, bound_hit, rejuvenations, bandwidth, ess, len(particles.theta),
            *errors, extra,
        )  # fmt: skip
        yield particles, info, Way(particles, a, b, known, done, info)


def remainder(a, b, fraction):
    """Coefficients of what is left of a step (a, b) after taking a fraction f < 1 of it.

    Taking (f a, f b) and then the remainder equals the whole step: the factors (1 - a) multiply,
    so a' = a (1 - f) / (1 - f a) and b' = b (1 - f) / (1 - f a). A step of a = 1 stays whole.
    """
    shrink = (1.0 - fraction) / (1.0 - fraction * a)
    return a * shrink, b * shrink


def log_likelihood(model, theta, batches):
    """Log-likelihood of all rows of the batches for each particle, shape (m,)."""
    return total(partial(_log_likelihood, model, theta), batches)


def _log_likelihood(model, theta, batches):
    return summed(lambda batch: model.log_likelihood(theta, batch), batches, operator.add)


def log_likelihood_inside(model, theta, batches, log_prior):
    """The same, -inf off the support of the prior, where no model is asked."""
    return _where(log_prior > -np.inf, lambda some: log_likelihood(model, some, batches), theta)


def log_joint(model, batches, power, theta):
    """Log prior, and the log-likelihood to a power, of each particle, shape (m,)."""
    log_prior = model.log_prior(theta)
    return log_prior + power * log_likelihood_inside(model, theta, batches, log_prior)


def _is_due(particles, settings):
    if settings.rejuvenation == "always":
        return bool(particles.log_ratio.any())  # Particles at r = 0 are fresh draws already.
    if settings.rejuvenation == "never":
        return False
    enough = settings.ess_threshold * len(particles.theta)
    return effective_sample_size(particles.log_ratio) < enough


def _path(particles, model, batches, a, b, current, known):
    """The step as a path f -> (log ratio, block) for f in (0, 1], and the rows' statistics.

    Data are visited once. With a conjugate block of natural parameters eta the integral over zeta
    adds A(eta+) - (1 - a) A(eta) - a A(eta_prior), A the log-partition function; it is not linear
    in f, so it is evaluated anew at each f. ``known`` is the log-likelihood, where a rejuvenation
    has taken it already.
    """
    theta, log_ratio = particles.theta, _log_ratio(particles, model, batches, a, b, known)
    if not model.has_block:
        return lambda f: (log_ratio(f), particles.block), None
    block = particles.block if current is None else current
    statistics = total(partial(_statistics, model, theta, block), batches, model.add_statistics)

    def moved(f):
        return model.update_block(theta, particles.block, f * a, f * b, statistics)

    if not model.block_weighs:
        return lambda f: (log_ratio(f), moved(f)), statistics
    before = model.log_partition(particles.block)
    at_prior = model.log_partition(model.prior_block(theta)) if a else 0.0

    def path(f):
        new = moved(f)
        gain = model.log_partition(new) - (1.0 - f * a) * before - f * a * at_prior
        return log_ratio(f) + gain, new

    return path, statistics


def _statistics(model, theta, block, batches):
    """Statistics of all rows of the batches."""
    return summed(
        lambda batch: model.statistics(theta, block, batch),
        batches,
        model.add_statistics,
        at_once=1,
    )


def _log_ratio(particles, model, batches, a, b, known):
    """Log ratio as a function of f, without the gain of a conjugate block."""
    theta, old = particles.theta, particles.log_ratio
    if not theta.shape[1] and not model.block_weighs:  # Nothing weighs such particles.
        return lambda f: old
    if known is None:
        known = log_likelihood_inside(model, theta, batches, particles.log_prior)
    # A stream does not ask what pi is, nor what the prior is off its support.
    prior = particles.log_prior - particles.log_pi if a else 0.0
    whole = linear_form(old, prior, known, a, b)
    _check_values(whole)
    return lambda f: whole if f == 1.0 else linear_form(old, prior, known, f * a, f * b)


def _check_values(log_ratio):
    if np.isnan(log_ratio).any() or (log_ratio == np.inf).any():
        raise FloatingPointError(
            "log_likelihood or log_prior returned nan or +inf for some particles; "
            "return -inf where a parameter is impossible."
        )
    if not np.isfinite(log_ratio).any():
        raise FloatingPointError(
            "Every particle has zero posterior density: some row is impossible under each (look "
            "for a target that its distribution cannot have, such as a count below 0 or with a "
            "fraction), sample_prior draws outside the support of log_likelihood, or n_particles "
            "is too small to find it."
        )


def _where(inside, function, theta):
    """Values of the function for particles inside the prior's support, -inf for the others."""
    if inside.all():
        return function(theta)
    values = np.full(len(theta), -np.inf)
    if inside.any():
        values[inside] = function(np.ascontiguousarray(theta[inside]))
    return values


def largest_fraction(path, threshold):
    """Largest f in (0, 1] such that the effective sample size along the path stays above a share.

    The whole step is tried first. Otherwise the ESS need not be monotone along the path, so the
    first crossing is bracketed by small growing steps and then bisected.
    """
    probe, alive, start = _first_probe(path)
    # What no substep mends does not count: particles outside the support, and what a fresh draw
    # with a defensive component lacks from the start.
    ess_floor = min(threshold * alive, _MIN_KEPT * start)

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
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(w @ (change - w @ change) ** 2)
    if not np.isfinite(spread):  # Squares overflow, and no digit of it matters.
        spread = np.abs(change).max()
    probe = min(0.5, f * max(1.0, 0.1 / max(spread, 1e-300)))
    return probe, alive.sum(), effective_sample_size(near)


# ------------------------------------------------------------------- importance reweighting
def reweighting(particles, model, batches, b, settings, rng, n_particles=None):
    """Weigh particles by the posterior itself, drawn anew first where needed: steps of a = b = 1.

    Minibatch noise, the trace of the first density and the kernel's smoothing are all removed by
    the weights; what is left is Monte Carlo error, which ESS and k-hat certify.

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
    anew = Rejuvenation(n_particles=n_particles, first=True)
    best, best_ess = None, -np.inf
    if in_place:
        still = settings._replace(rejuvenation="never")
        best, info = step(particles, model, batches, 1.0, b, still, rng)
        best_ess = info.ess
        yield best, info
        if settings.rejuvenation == "never" or _is_certified(best, info, _GOOD_IN_PLACE):
            return
    for _ in range(MAX_ROUNDS):
        particles, info = step(particles, model, batches, 1.0, b, settings, rng, rejuvenation=anew)
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
