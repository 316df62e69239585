"""Adaptive tempered sequential Monte Carlo: the ESS-controlled step with moves by Markov chains.

Powers of the likelihood lead from a density that can be drawn from to the posterior: a step of
a = b = 1 does that, in segments as the effective sample size allows (`skpmd.engine.mirror`).
Where the posterior is not near normal no density estimate of a few hundred particles is good enough
to draw from. If all data are at hand, particles can be resampled after each segment and moved by a
Markov chain that leaves the density of that power as it is (sequential Monte Carlo samplers; Del
Moral, Doucet and Jasra 2006). The product of the increments estimates the evidence.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.call import counted
from skpmd._runtime.threads import by_rows
from skpmd.engine import mirror
from skpmd.engine.diagnostics import rank_correlation, ranks, variance_of_increment
from skpmd.engine.loop import Outcome, resumable
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.particles import (
    Particles,
    Rejuvenated,
    accepted,
    adapted_step,
    equally_weighted,
    log_sum_exp,
    resample,
    weights,
)
from skpmd.engine.triangular import ends_of, solve_lower, solve_transposed, times_transposed

_ACCEPT = 0.6  # The step size is adapted to this acceptance (Roberts and Rosenthal 1998).
_FIRST_STEP = 1.0  # The first step size is this times d^(-1/6).
_SPREAD = 0.5  # The log step size varies by this from one move to the next.
_FORGOTTEN = 0.1  # Moves end at this correlation with where they started.
_MIN_MOVES, _MAX_MOVES = 5, 60  # Each particle makes so many moves after a segment.
_MAX_STAGES = 1000
_PART = 256  # A thread takes so many particles at least.


class Start(NamedTuple):
    """Where tempering starts from, if not from the prior of the model itself."""

    # The prior of another model, which leads to a posterior from nearer by.
    initial: Any = None
    theta: np.ndarray | None = None  # (m, d): Or equally weighted draws of a posterior,
    before: Sequence = ()  # and the batches that it is given.


FROM_PRIOR, BY_DEFAULT = Start(), mirror.Settings()


def tempering(model, batches, n_particles, rng, start=FROM_PRIOR, settings=BY_DEFAULT):
    """Draws of a posterior and its evidence, from the prior on or from draws of another posterior.

    The model offers ``local(theta, batches)``: the log joint density given all batches, shape (m,),
    its gradient (m, d), and the root F of a curvature F F' at each particle: its diagonal, (m, d),
    or packed rows of a lower triangular one (`skpmd.engine.triangular`), whose first columns are
    the model's ``first_columns`` (d,). It may offer ``permute_labels(theta, rng)`` and
    ``to_ordered(theta)`` where a posterior has symmetries and particles keep to one of several
    equal regions: the first spreads them over all, moves take place anywhere, and the second takes
    them back. Neither changes the measure.

    Where the `Start` has an ``initial`` model, the model offers ``between(initial, share)``, a
    model whose ``local`` has the prior to the power of the share, times that of the initial one to
    the rest, up to a constant. The data ``before`` are left behind where ``batches`` do not hold
    them too.

    Of the settings count ``ess_threshold``, the share of the particles that stays effective in a
    segment, and ``resampling``. Each segment yields equally weighted draws (their density is not
    known: ``log_pi`` is nan), and the evidence so far relative to that of the start, with a
    standard error that counts particles as an autoregressive chain of the rank correlation that
    the moves before them have left. The ``extra`` of a record holds the ``power`` of the
    likelihood, ``log_increment`` of the log evidence, and ``n_moves``, ``acceptance`` and
    ``correlation`` of the moves.
    """
    first = model if start.initial is None else start.initial
    theta = first.sample_prior(rng, n_particles) if start.theta is None else start.theta
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    moves = MarkovMoves(first, batches, start.before)
    log_pi = moves.log_start(theta)
    particles = Particles(
        theta, np.zeros(len(theta)), log_pi, model.log_prior(theta), np.empty((len(theta), 0))
    )
    settings = settings._replace(rejuvenation="ess", max_substeps=_MAX_STAGES)
    rejuvenation = mirror.Rejuvenation(moves, n_particles)

    def states(at):
        if at is not None:
            moves.log_step = at.log_step
            yield at.outcome(model, at.infos), None
        at = _Tempered(mirror.Way(particles, 1.0, 1.0), []) if at is None else at
        for _, info, way in mirror.segments(at.way, model, batches, settings, rng, rejuvenation):
            more = variance_of_increment(moves.n_before, info.ess, at.correlation)
            at = _Tempered(
                way=way,
                infos=[*at.infos, info],
                log_step=moves.log_step,
                log_evidence=at.log_evidence + info.extra["log_increment"],
                variance=at.variance + more,
                correlation=float(info.extra["correlation"]),
            )
            yield at.outcome(model, [info]), at

    yield from resumable(states, rng)


class _Tempered(NamedTuple):
    """How far tempering has come."""

    way: mirror.Way
    infos: list  # Records of all segments so far.
    log_step: float | None = None  # Of the moves.
    log_evidence: float = 0.0
    variance: float = 0.0  # Of its estimate.
    correlation: float = 0.0  # That the last moves have left.

    def outcome(self, model, infos):
        """The state, with records of the segments since another."""
        return Outcome(
            equally_weighted(model, self.way.particles.theta),
            infos,
            converged=self.way.done == 1.0,
            evidence=(float(self.log_evidence), float(np.sqrt(self.variance))),
        )


class MarkovMoves:
    """Strategy of rejuvenation: resampled particles, moved by a chain that leaves q as it is.

    The step starts from the prior of ``first`` and the data ``before``, and ends at the data
    ``batches``.
    """

    follows = True

    def __init__(self, first, batches, before):
        self.first, self.batches, self.before = first, batches, before
        self.log_step, self.n_before = None, 0

    def log_start(self, theta):
        """Log density that the step starts from, up to the evidence of its data."""
        value = self.first.log_prior(theta)
        return value + log_likelihood(self.first, theta, self.before) if self.before else value

    def __call__(self, particles, model, settings, rng, *, n_particles, done):
        """Resampled and moved particles of q, r = 0."""
        m = self.n_before = len(particles.theta)
        increment = log_sum_exp(particles.log_ratio) - np.log(m)
        if self.log_step is None:
            self.log_step = np.log(_FIRST_STEP * particles.theta.shape[1] ** (-1.0 / 6.0))
        kept = resample(settings.resampling, weights(particles.log_ratio), n_particles, rng)
        target = _scaled(self.before, 1.0 - done) + _scaled(self.batches, done)
        now = model if model is self.first else model.between(self.first, done)
        theta = particles.theta[kept]
        theta, self.log_step, record = _moved(now, target, theta, self.log_step, rng)
        log_prior = model.log_prior(theta)
        known = log_likelihood(model, theta, self.batches)
        log_pi = done * (log_prior + known)
        if done < 1.0:
            log_pi = log_pi + (1.0 - done) * self.log_start(theta)
        fresh = Particles(theta, np.zeros(len(theta)), log_pi, log_prior, np.empty((len(theta), 0)))
        extra = {"power": done, "log_increment": increment, **record}
        return Rejuvenated(fresh, log_likelihood=known, record=extra)


def _scaled(batches, power):
    """Batches that count for the power of their likelihood."""
    if power == 1.0:
        return list(batches)
    return [batch._replace(weight=power * batch.weight) for batch in batches] if power else []


def _moved(model, batches, theta, log_step, rng):
    """Particles moved until their log densities have forgotten where they were.

    Returns the particles, the log step, and a record of the moves.
    """
    symmetric = hasattr(model, "permute_labels")
    theta = model.permute_labels(theta, rng) if symmetric else theta
    state = _State(theta, *model.local(theta, batches))
    start, probabilities, correlation = ranks(state.value), [], 1.0
    for t in counted(range(_MAX_MOVES), "moves"):
        if t >= _MIN_MOVES and correlation < _FORGOTTEN:
            break
        step = np.exp(log_step + _SPREAD * rng.standard_normal((len(theta), 1)))
        state, probability = _langevin(model, batches, state, step, rng)
        log_step = adapted_step(log_step, probability, _ACCEPT, t)
        probabilities.append(probability)
        correlation = float(rank_correlation(start, ranks(state.value)))
    theta = model.to_ordered(state.theta) if symmetric else state.theta
    acceptance, n = float(np.mean(probabilities)), len(probabilities)
    record = {"n_moves": n, "acceptance": acceptance, "correlation": correlation}
    return theta, log_step, record


class _State(NamedTuple):
    """Particles, and what `local` says of them; the root is that of the curvature."""

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
    first = getattr(model, "first_columns", np.arange(noise.shape[1]))
    diagonal = ends_of(first) - 1
    with np.errstate(over="ignore", invalid="ignore"):  # What flies off is refused.
        moved = by_rows(partial(_proposed, first), step, noise, *state, at_least=_PART)
        new = _State(moved, *model.local(moved, batches))
        back = by_rows(partial(_noise_back, first), step, state.theta, *new, at_least=_PART)
        log_ratio = new.value - state.value
        log_ratio += 0.5 * (noise**2).sum(axis=1) - _log_det(state.root, diagonal)
        log_ratio -= 0.5 * (back**2).sum(axis=1) - _log_det(new.root, diagonal)
    taken, probability = accepted(log_ratio, rng)
    refused = np.flatnonzero(~taken)
    for after, before in zip(new, state, strict=True):
        after[refused] = before[refused]
    return new, float(probability.mean())


def _proposed(first, step, noise, *state):
    state = _State(*state)
    drift = 0.5 * step**2 * solve_lower(state.root, first, state.gradient)
    return state.theta + solve_transposed(state.root, first, drift + step * noise)


def _noise_back(first, step, theta, *new):
    """The noise that a move from the new places to theta would have needed."""
    new = _State(*new)
    drift = 0.5 * step**2 * solve_lower(new.root, first, new.gradient)
    return (times_transposed(new.root, first, theta - new.theta) - drift) / step


def _log_det(root, diagonal):
    return np.log(root[:, diagonal]).sum(axis=1)
