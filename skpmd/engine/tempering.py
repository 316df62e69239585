"""From the prior to the posterior by powers of the likelihood, with Metropolis moves in between.

A mirror step of gamma = b from the prior is a power of the likelihood; a path of them, each as far
as the guard of `skpmd.engine.mirror` allows, leads to the posterior. Where a posterior has several
modes, ridges or scales that differ from place to place, no kernel density estimate is good enough
to draw from. If all data are at hand, particles can be resampled after each step and moved by a
Markov chain that leaves the density of that power as it is (sequential Monte Carlo samplers; Del
Moral, Doucet and Jasra 2006). The product of the increments estimates the evidence.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine.cloud import Cloud, effective_sample_size, log_sum_exp, weights
from skpmd.engine.mirror import largest_fraction, log_likelihood
from skpmd.engine.resampling import resample

_ACCEPT = 0.6  # acceptance that the step size is adapted to (Roberts and Rosenthal 1998)
_FIRST_STEP = 1.0  # times d^(-1/6)
_SPREAD = 0.5  # of the log step from one move to the next
_FORGOTTEN = 0.1  # correlation with the start of a stage at which its moves end
_LEAST_MOVES, _MOST_MOVES = 5, 60
_MOST_STAGES = 1000


class Stage(NamedTuple):
    """A record of one power of the likelihood.

    Attributes
    ----------
    power : float
        Of the likelihood, 1 at the end.
    ess : float
        Effective sample size before resampling.
    log_increment : float
        Of the log evidence.
    moves : int
        Moves of each particle.
    acceptance : float
        Their mean acceptance probability.
    correlation : float
        Of the ranks of the log densities before and after the moves.
    """

    power: float
    ess: float
    log_increment: float
    moves: int
    acceptance: float
    correlation: float


class Tempered(NamedTuple):
    """What `temper` leaves behind.

    Attributes
    ----------
    cloud : Cloud
        Equally weighted draws; their density is not known (``log_pi`` is nan).
    log_evidence : float
        Log marginal likelihood.
    log_evidence_se : float
        Its standard error, from the weights of each stage as if stages were independent.
    stages : list of Stage
        Record.
    interrupted : bool
        Whether Ctrl-C ended it; the cloud is then that of the last complete stage.
    """

    cloud: Cloud
    log_evidence: float
    log_evidence_se: float
    stages: list
    interrupted: bool = False


def _silent(stage):
    pass


def temper(
    model, batches, n_particles, rng, *, start=None, before=(), ess_threshold=0.5,
    scheme="systematic", report=_silent,
):  # fmt: skip
    """Draws of a posterior and its evidence, from the prior on or from draws of another posterior.

    Parameters
    ----------
    model : Model
        Offers ``local(theta, batches)``: the log joint density given all batches, shape (m,), its
        gradient and the scales of the coordinates at each particle, both (m, d). It may offer
        ``shuffled(theta, rng)`` and ``enter(theta)`` where a posterior has symmetries and particles
        keep to one of several equal regions: the first spreads them over all, moves take place
        anywhere, and the second takes them back. Neither changes the measure.
    batches : sequence of Batch
        All data.
    n_particles : int
        m.
    rng : numpy.random.Generator
        Source of all randomness.
    start : ndarray of shape (m, d), optional
        Equally weighted draws of the posterior given ``before``; default: draws of the prior.
    before : sequence of Batch
        Data of the start, to be left behind where ``batches`` do not hold them too.
    ess_threshold : float
        Share of the particles that stays effective in a step of the power.
    scheme : str
        Of `skpmd.engine.resampling`.
    report : callable
        Told of each stage.

    Returns
    -------
    Tempered
        The posterior; the evidence is relative to the start's.
    """
    theta = model.sample_prior(rng, n_particles) if start is None else start
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    gain = _gain(model, theta, batches, before)
    power, total, variance, stages = 0.0, 0.0, 0.0, []
    log_step = np.log(_FIRST_STEP * theta.shape[1] ** (-1.0 / 6.0))
    try:
        while power < 1.0 and len(stages) < _MOST_STAGES:
            nearer = _next_power(power, gain, ess_threshold)
            ratio = (nearer - power) * gain
            increment, ess = log_sum_exp(ratio) - np.log(len(theta)), effective_sample_size(ratio)
            kept = resample(scheme, weights(ratio), n_particles, rng)
            target = _scaled(before, 1.0 - nearer) + _scaled(batches, nearer)
            moved, log_step, record = _moves(model, target, theta[kept], log_step, rng)
            moved_gain = _gain(model, moved, batches, before)
            # From here on nothing takes time: Ctrl-C leaves the last whole stage.
            variance += (len(theta) / ess - 1.0) / len(theta)
            theta, gain, power, total = moved, moved_gain, nearer, total + increment
            stages.append(Stage(power, ess, increment, *record))
            report(stages[-1])
    except KeyboardInterrupt:
        if not stages:
            raise
    m = len(theta)
    unknown, no_block = np.full(m, np.nan), np.empty((m, 0))
    cloud = Cloud(theta, np.zeros(m), unknown, model.log_prior(theta), no_block)
    return Tempered(cloud, total, float(np.sqrt(variance)), stages, power < 1.0)


def _scaled(batches, power):
    """Batches that count for the power of their likelihood."""
    if power == 1.0:
        return list(batches)
    return [batch._replace(weight=power * batch.weight) for batch in batches] if power else []


def _gain(model, theta, batches, before):
    """Log-likelihood of the data to come over that of the data before."""
    gain = log_likelihood(model, theta, batches)
    return gain - log_likelihood(model, theta, before) if before else gain


def _next_power(power, gain, threshold):
    """The next power of the likelihood, as far as the guard lets a step go."""
    left = 1.0 - power
    fraction = largest_fraction(lambda f: (f * left * gain, None), threshold)
    return 1.0 if fraction == 1.0 else power + fraction * left


def _moves(model, batches, theta, log_step, rng):
    """Particles moved until their log densities have forgotten where they were.

    Returns the particles, the log step, and (moves, acceptance, correlation).
    """
    symmetric = hasattr(model, "shuffled")
    theta = model.shuffled(theta, rng) if symmetric else theta
    state = _State(theta, *model.local(theta, batches))
    start, accepts, correlation = state.value, [], 1.0
    for t in range(_MOST_MOVES):
        step = np.exp(log_step + _SPREAD * rng.standard_normal((len(theta), 1)))
        state, accept = _langevin(model, batches, state, step, rng)
        accepts.append(accept)
        log_step += (accept - _ACCEPT) * (t + 1.0) ** -0.6
        correlation = _correlation(start, state.value)
        if t + 1 >= _LEAST_MOVES and correlation < _FORGOTTEN:
            break
    theta = model.enter(state.theta) if symmetric else state.theta
    return theta, log_step, (t + 1, float(np.mean(accepts)), correlation)


class _State(NamedTuple):
    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    scale: np.ndarray


def _langevin(model, batches, state, step, rng):
    """One move of every particle: the state after it, and the mean acceptance probability.

    Scales at the two ends of a move differ, so the proposal is not symmetric (Langevin moves,
    preconditioned by position and Metropolis-adjusted; Roberts and Stramer 2002).
    """
    noise = rng.standard_normal(state.theta.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # what flies off is refused, and no news
        moved = _drifted(state, step) + step * state.scale * noise
        new = _State(moved, *model.local(moved, batches))
        back = (state.theta - _drifted(new, step)) / (step * new.scale)
        log_accept = new.value - state.value
        log_accept += 0.5 * (noise**2).sum(axis=1) + np.log(state.scale).sum(axis=1)
        log_accept -= 0.5 * (back**2).sum(axis=1) + np.log(new.scale).sum(axis=1)
        accept = np.exp(np.minimum(0.0, np.where(np.isnan(log_accept), -np.inf, log_accept)))
    taken = rng.random(len(accept)) < accept
    chosen = (
        np.where(taken.reshape(-1, *[1] * (old.ndim - 1)), other, old)
        for old, other in zip(state, new, strict=True)
    )
    return _State(*chosen), accept.mean()


def _drifted(state, step):
    return state.theta + 0.5 * step**2 * state.scale**2 * state.gradient


def _correlation(one, other):
    """Of the ranks of two vectors: tails do not speak for all."""
    ranks = [np.argsort(np.argsort(values)) - 0.5 * (len(values) - 1) for values in (one, other)]
    return float(ranks[0] @ ranks[1] / np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
