"""Fitted proposals, weighed by a posterior: their weights, and what these say of them."""

from typing import Any, NamedTuple

from skpmd.engine import mirror
from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import effective_sample_size
from skpmd.proposals.agreement import moments_and_errors
from skpmd.proposals.fitted_proposals import EACH, Proposals
from skpmd.proposals.importance_rounds import MAX_ROUNDS, TARGET_ESS, Until, proposal_rounds
from skpmd.proposals.prior_draws import MISSED_NATS, PriorDraws, misses, too_thin

_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
# With a smaller share effective, and fewer draws, or a heavy tail, weights have failed.
_MIN_SHARE, _ENOUGH = 0.05, 1000.0
_MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_MAX_PLAIN_K = 0.35  # Of weights that need no more proposals.
_MAX_SOUND_K = 0.5  # From here on weights have no variance.
OF_STEPS = "particles of steps"
_OF_STEPS_ESS = 2.0  # There so many times the number of particles are to be effective.
_SMALL = 6  # So many coordinates are few.
_MAX_LOG_SD_ERROR = 0.08  # A sd that rests on many draws has no larger one.


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
    if found.complete and (last.findings.disagreement or 0.0) <= _MAX_DISAGREEMENT:
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
