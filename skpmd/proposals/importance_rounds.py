"""Importance reweighting of draws from a mixture of proposals, in adaptive rounds.

And what the weights say of proposals that are fitted to values of a density.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.diagnostics import heavy_tail, moments_and_errors, pareto_k
from skpmd.engine.importance import (
    MAX_DISAGREEMENT,
    ProposalDraws,
    adapted,
    disagreement,
    even_counts,
    pooled,
)
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.particles import effective_sample_size
from skpmd.proposals.fitted_proposals import EACH, Proposals
from skpmd.proposals.prior_draws import MISSED_NATS, PriorDraws, misses, too_thin

TARGET_ESS = 0.6  # No further round is drawn once this share of the particles is effective.
MAX_ROUNDS = 10  # There are at most this many rounds.
_HOPELESS = 0.01  # After two rounds with a smaller share effective there is no third.
_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
# With a smaller share effective, and fewer draws, or a heavy tail, weights have failed.
_MIN_SHARE, _ENOUGH = 0.05, 1000.0
_MAX_PLAIN_K = 0.35  # Of weights that need no more proposals.
_MAX_SOUND_K = 0.5  # From here on weights have no variance.
OF_STEPS = "particles of steps"
_OF_STEPS_ESS = 2.0  # There so many times the number of particles are to be effective.
_SMALL = 6  # So many coordinates are few.
_MAX_LOG_SD_ERROR = 0.08  # A sd that rests on many draws has no larger one.


class Until(NamedTuple):
    """When rounds of draws end."""

    n: int  # Draws in a round.
    ess: float  # With so many effective draws of all rounds,
    first_ess: float = 0.0  # with fewer than these of the first,
    max_rounds: int = MAX_ROUNDS  # or after so many.


def importance_rounds(model, batches, mixture, n_particles, power, rng, min_share=0.0):
    """States of rounds until enough draws are effective, for `skpmd.engine.loop.drive`.

    Each round draws ``n_particles``. Rounds end once 60 % of that number are effective, and after
    the first where that is less than the share ``min_share``. ``mixture`` are the proposals and
    their shares.
    """
    until = Until(n_particles, TARGET_ESS * n_particles, min_share * n_particles)
    for outcome, _ in proposal_rounds(model, batches, mixture, power, rng, until):
        yield outcome


def importance_sample(model, batches, mixture, n_particles, power, rng, min_share=0.0):
    """The last state of `importance_rounds`, with the records of all rounds."""
    infos = []
    for outcome in importance_rounds(model, batches, mixture, n_particles, power, rng, min_share):
        infos += outcome.infos
    return outcome._replace(infos=infos)


def proposal_rounds(model, batches, mixture, b, rng, until, before=None):
    """Draw from a mixture of proposals and weigh by the posterior, in adaptive rounds.

    Each round is a step of coefficients (1, b) on fresh draws, b the power of the likelihood; the
    draws of all rounds are weighed by the one mixture that they came from (see
    `skpmd.engine.importance`). The shares of the proposals are those of the first round.

    Draws of rounds ``before``, `PooledDraws` of the same proposals, count with all others.

    Rounds end as ``until`` says, and after two or more if less than 1 % of the draws are effective.

    Each yields the `Outcome` of all draws so far, and the `PooledDraws` themselves. Its record has
    their number and effective sample size. The disagreement of the proposals on the posterior mean
    (`skpmd.engine.importance.disagreement`) is None before the last round.
    """
    proposals, shares = mixture
    still = mirror.Settings(rejuvenation="never")

    def states(at):
        draws, infos, done = (before, [], False) if at is None else at
        if infos:
            yield outcome(draws, infos, done), None
        while not done:
            of_round = np.asarray(shares, dtype=float) if not infos else adapted(draws)
            draws, info = one_round(draws, of_round)
            infos = [*infos, info]
            hopeless = len(infos) == 1 and draws.ess < until.first_ess
            hopeless |= len(infos) > 1 and draws.ess < _HOPELESS * info.n_particles
            done = draws.ess >= until.ess or len(infos) == until.max_rounds or hopeless
            yield outcome(draws, [info], done), (draws, infos, done)

    def one_round(draws, shares):
        counts, so_far = even_counts(shares, until.n), None if draws is None else draws.particles
        strategy = ProposalDraws(proposals, counts)
        anew = mirror.Rejuvenation(strategy, first=True)
        particles, info = mirror.step(so_far, model, batches, 1.0, b, still, rng, rejuvenation=anew)
        draws = pooled(draws, particles, strategy.table, counts)
        info = info._replace(ess=draws.ess, n_particles=len(draws.particles.theta), rejuvenations=0)
        return draws, info

    def outcome(draws, infos, done):
        gap = disagreement(draws)[0] if done else None
        findings = Findings(disagreement=gap)
        return Outcome(draws.particles, infos, True, pair=draws.pair, findings=findings), draws

    yield from resumable(states, rng)


# ------------------------------------------------------------------- proposals fitted to values
class Task(NamedTuple):
    """What a fit by values is of, in coordinates without edges."""

    model: Any
    batches: list
    draws: PriorDraws
    n: int  # Particles.
    power: float  # Of the likelihood.
    settings: mirror.Settings
    gradient: Any = None


class Weighed(NamedTuple):
    """Proposals that have missed nothing that draws of the prior or particles of steps show."""

    found: Proposals
    outcome: Outcome
    thin: list  # `Places` where they are too thin; these have little of the mass.

    def is_explained(self):
        """Whether they are too thin at no draw of the prior, and nowhere on the way of a search.

        Such places have next to no mass, but they lead to what may have: arms that cross at an
        optimum are much narrower than what draws of the prior see, and so are modes of wide skirts.
        """
        if any(len(places.theta) for places in self.thin):
            return False
        return not too_thin(self.found.log_density, *self.found.path, self.outcome).any()


def weighed(task, found, rng, done, before=None):
    """States of reweighting, the last of them, and its `PooledDraws` with those ``before``.

    What misses nothing is added to ``done``.
    """
    last, draws = yield from _by_weights(task, found, rng, before)
    if last is None:
        return None, draws
    if before is not None:  # Its density is that of all mixtures.
        found = found._replace(shares=draws.counts / draws.counts.sum())
    if found.complete and (last.findings.disagreement or 0.0) <= MAX_DISAGREEMENT:
        thin = task.draws.thin(found.log_density, last, MISSED_NATS)
        if not misses(last, thin):
            done.append(Weighed(found, last, thin))
    return last, draws


def _by_weights(task, found, rng, before=None):
    """States of importance reweighting of draws from the proposals, in rounds.

    Returned are the last of them and all `PooledDraws`, with those ``before``; the first is None
    where the tails of proposals reach where the model has no number.
    """
    notes = {"method": f"importance reweighting of proposals fitted to {found.to}"}
    enough, max_rounds = max(TARGET_ESS * task.n, _MIN_ESS), MAX_ROUNDS
    if found.to == OF_STEPS:
        enough = _OF_STEPS_ESS * task.n
        max_rounds = MAX_ROUNDS // 2 if is_small(task) else MAX_ROUNDS
    until = Until(task.n, enough, _MIN_SHARE * task.n, max_rounds)
    last, draws, mixture = None, None, (found.components, found.shares)
    try:
        for last, draws in proposal_rounds(  # noqa: B007
            task.model, task.batches, mixture, task.power, rng, until, before
        ):
            # Proposals at several places are not to agree on a mean.
            gap = last.findings.disagreement if len(found.components) == EACH else None
            last = last.with_findings(notes=notes, disagreement=gap)
            yield last
    except FloatingPointError:
        return None, draws
    return last, draws


def ends_well(done, last):
    """Whether the last proposals that were tried have missed nothing, and have sound weights."""
    return bool(done) and done[-1].outcome is last and is_sound(last)


def is_sound(outcome):
    """Whether weights have not failed."""
    return not is_thin(outcome.particles)


def is_plain(done):
    """Whether the last weights are as even as where proposals at its optima fit a posterior."""
    return bool(done) and is_sound(done[-1].outcome) and _k(done[-1].outcome) < _MAX_PLAIN_K


def knows_spreads(outcome):
    """Whether standard deviations rest on many draws."""
    _, _, _, of_log_sd = moments_and_errors(outcome.particles)
    return of_log_sd.max() < _MAX_LOG_SD_ERROR


def is_small(task):
    """Whether coordinates are few."""
    return task.draws.theta.shape[1] <= _SMALL


def soundest(done):
    """The outcome of the lightest tail among those whose weights are sound, or None."""
    sound = [
        one.outcome for one in done if is_sound(one.outcome) and _k(one.outcome) < _MAX_SOUND_K
    ]
    return min(sound, key=_k, default=None)


def is_thin(particles):
    """Whether weights have failed: few particles have them all, or too much is in a few."""
    log_ratio = particles.log_ratio
    if effective_sample_size(log_ratio) < min(_MIN_SHARE * len(log_ratio), _ENOUGH):
        return True
    return heavy_tail(log_ratio, pareto_k(log_ratio))


def _k(outcome):
    return pareto_k(outcome.particles.log_ratio)
