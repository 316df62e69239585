"""Importance reweighting of draws from a mixture of proposals, in adaptive rounds."""

from typing import NamedTuple

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.importance import ProposalDraws, adapted, disagreement, even_counts, pooled
from skpmd.engine.loop import Findings, Outcome, resumable

TARGET_ESS = 0.6  # No further round is drawn once this share of the particles is effective.
MAX_ROUNDS = 10  # There are at most this many rounds.
_HOPELESS = 0.01  # After two rounds with a smaller share effective there is no third.


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
