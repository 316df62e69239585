"""From a known density to the posterior by powers of their ratio, with Metropolis moves in between.

A mirror step from q0 leads to q0^(1 - gamma) posterior^gamma; a path of them, each as far as the
guard of `skpmd.engine.mirror` allows, leads to the posterior. Where a posterior has several modes,
ridges or scales that differ from place to place, no kernel density estimate is good enough to draw
from. If all data are at hand, particles can be resampled after each step and moved by a Markov
chain that leaves the density of that power as it is (sequential Monte Carlo samplers; Del Moral,
Doucet and Jasra 2006). The product of the increments estimates the evidence.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine.mirror import largest_fraction, log_likelihood
from skpmd.engine.particles import Particles, effective_sample_size, log_sum_exp, weights
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


class TemperedSMC(NamedTuple):
    """What `tempered_smc` leaves behind.

    Attributes
    ----------
    particles : Particles
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

    particles: Particles
    log_evidence: float
    log_evidence_se: float
    stages: list
    interrupted: bool = False


def _silent(stage):
    pass


def tempered_smc(
    model, batches, n_particles, rng, *, reference=None, start=None, before=(),
    ess_threshold=0.5, scheme="systematic", report=_silent,
):  # fmt: skip
    """Draws of a posterior and its evidence, from the prior on or from draws of another posterior.

    Parameters
    ----------
    model : Model
        Offers ``local(theta, batches)``: the log joint density given all batches, shape (m,), its
        gradient (m, d), and the root F of a curvature F F' at each particle, (m, d) where it is
        diagonal, else (m, d, d), lower triangular. It may offer ``shuffled(theta, rng)`` and
        ``enter(theta)`` where a posterior has symmetries and particles keep to one of several equal
        regions: the first spreads them over all, moves take place anywhere, and the second takes
        them back. Neither changes the measure.
    batches : sequence of Batch
        All data.
    n_particles : int
        m.
    rng : numpy.random.Generator
        Source of all randomness.
    reference : Model, optional
        Particles start from its prior, and not from the model's own. The model then offers
        ``between(reference, share)``, a model whose ``local`` has the prior to the power of the
        share, times the reference's to the power of the rest, up to a constant.
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
    TemperedSMC
        The posterior; the evidence is relative to the start's.
    """
    first = model if reference is None else reference
    theta = first.sample_prior(rng, n_particles) if start is None else start
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    gain = _gain(model, theta, batches, before, reference)
    power, total, variance, stages = 0.0, 0.0, 0.0, []
    log_step = np.log(_FIRST_STEP * theta.shape[1] ** (-1.0 / 6.0))
    try:
        while power < 1.0 and len(stages) < _MOST_STAGES:
            nearer = _next_power(power, gain, ess_threshold)
            ratio = (nearer - power) * gain
            increment, ess = log_sum_exp(ratio) - np.log(len(theta)), effective_sample_size(ratio)
            kept = resample(scheme, weights(ratio), n_particles, rng)
            target = _scaled(before, 1.0 - nearer) + _scaled(batches, nearer)
            now = model if reference is None else model.between(reference, nearer)
            moved, log_step, record = _moves(now, target, theta[kept], log_step, rng)
            moved_gain = _gain(model, moved, batches, before, reference)
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
    particles = Particles(theta, np.zeros(m), unknown, model.log_prior(theta), no_block)
    return TemperedSMC(particles, total, float(np.sqrt(variance)), stages, power < 1.0)


def _scaled(batches, power):
    """Batches that count for the power of their likelihood."""
    if power == 1.0:
        return list(batches)
    return [batch._replace(weight=power * batch.weight) for batch in batches] if power else []


def _gain(model, theta, batches, before, reference):
    """Log density at the end of the way over that at its start."""
    gain = log_likelihood(model, theta, batches)
    if before:
        gain = gain - log_likelihood(model, theta, before)
    if reference is not None:
        gain = gain + model.log_prior(theta) - reference.log_prior(theta)
    return gain


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
    """Particles, and what `local` says of them; the root is of the curvature."""

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    root: np.ndarray


def _langevin(model, batches, state, step, rng):
    """One move of every particle: the state after it, and the mean acceptance probability.

    theta' ~ N(theta + e^2 G^-1 gradient / 2, e^2 G^-1), G = F F' the curvature. It differs between
    the two ends of a move, so the proposal is not symmetric (Metropolis-adjusted Langevin moves,
    preconditioned by position; Roberts and Stramer 2002).
    """
    noise = rng.standard_normal(state.theta.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # what flies off is refused, and no news
        moved = _drifted(state, step) + step * _solved(state.root, noise)
        new = _State(moved, *model.local(moved, batches))
        back = _times(new.root, state.theta - _drifted(new, step)) / step
        log_accept = new.value - state.value
        log_accept += 0.5 * (noise**2).sum(axis=1) - _log_det(state.root)
        log_accept -= 0.5 * (back**2).sum(axis=1) - _log_det(new.root)
        accept = np.exp(np.minimum(0.0, np.where(np.isnan(log_accept), -np.inf, log_accept)))
    taken = rng.random(len(accept)) < accept
    chosen = (
        np.where(taken.reshape(-1, *[1] * (old.ndim - 1)), other, old)
        for old, other in zip(state, new, strict=True)
    )
    return _State(*chosen), accept.mean()


def _drifted(state, step):
    root, gradient = state.root, state.gradient
    if root.ndim == 2:
        return state.theta + 0.5 * step**2 * gradient / root**2
    return state.theta + 0.5 * step**2 * _solved(
        root, np.linalg.solve(root, gradient[..., None])[..., 0]
    )


def _solved(root, noise):
    """F'^-1 noise."""
    if root.ndim == 2:
        return noise / root
    return np.linalg.solve(root.swapaxes(-1, -2), noise[..., None])[..., 0]


def _times(root, values):
    """F' values."""
    return root * values if root.ndim == 2 else np.einsum("mji,mj->mi", root, values)


def _log_det(root):
    diagonal = root if root.ndim == 2 else np.diagonal(root, axis1=-2, axis2=-1)
    return np.log(diagonal).sum(axis=1)


def _correlation(one, other):
    """Of the ranks of two vectors: tails do not speak for all."""
    ranks = [np.argsort(np.argsort(values)) - 0.5 * (len(values) - 1) for values in (one, other)]
    return float(ranks[0] @ ranks[1] / np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
