"""Importance reweighting of draws from a mixture of proposals, in adaptive rounds."""

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.importance import ProposalDraws, adapted, disagreement, even_counts, pooled
from skpmd.engine.journal import once
from skpmd.engine.loop import Outcome

TARGET_ESS = 0.6  # No further round is drawn once this share of the particles is effective.
MAX_ROUNDS = 10  # There are at most this many rounds.
_HOPELESS = 0.01  # After two rounds with a smaller share effective there is no third.


def importance_rounds(
    model, batches, components, shares, n_particles, power, rng, min_share=0.0, min_ess=0.0
):  # fmt: skip
    """States of rounds until enough draws are effective, for `skpmd.engine.loop.drive`.

    Each round draws ``n_particles``. Rounds end once 60 % of that number, and ``min_ess``, are
    effective, and after the first where that is less than the share ``min_share``.
    """
    rounds = proposal_rounds(
        model, batches, components, shares, power, rng,
        n=n_particles,
        target_ess=max(TARGET_ESS * n_particles, min_ess),
        min_first_ess=min_share * n_particles,
    )  # fmt: skip
    for outcome, _ in rounds:
        yield outcome


def importance_sample(model, batches, components, shares, n_particles, power, rng, min_share=0.0):
    """The last state of `importance_rounds`, with the records of all rounds."""
    infos = []
    for outcome in importance_rounds(
        model, batches, components, shares, n_particles, power, rng, min_share
    ):
        infos += outcome.infos
    return outcome._replace(infos=infos)


def proposal_rounds(
    model, batches, proposals, shares, b, rng, *, n, target_ess, min_first_ess=0.0,
    max_rounds=MAX_ROUNDS, before=None,
):  # fmt: skip
    """Draw from a mixture of proposals and weigh by the posterior, in adaptive rounds.

    Each round is a step of coefficients (1, b) on n fresh draws, b the power of the likelihood; the
    draws of all rounds are weighed by the one mixture that they came from (see
    `skpmd.engine.importance`). The shares of the proposals are those of the first round.

    Draws of rounds ``before``, `PooledDraws` of the same proposals, count with all others.

    Rounds end when the effective sample size reaches ``target_ess``, when that of the first is
    below ``min_first_ess``, after ``max_rounds``, or after two or more if less than 1 % of the
    draws are effective.

    Each yields the `Outcome` of all draws so far, and the `PooledDraws` themselves. Its record has
    their number and effective sample size. The disagreement of the proposals on the posterior mean
    (`skpmd.engine.importance.disagreement`) is None before the last round.
    """
    still = mirror.Settings(rejuvenation="never")
    shares, draws, t = np.asarray(shares, dtype=float), before, 0
    done = False
    while not done:
        t += 1
        counts, so_far = even_counts(shares, n), None if draws is None else draws.particles

        def weighed(counts=counts, so_far=so_far):
            strategy = ProposalDraws(proposals, counts)
            particles, info = mirror.step(
                so_far, model, batches, 1.0, b, still, rng,
                rejuvenate=strategy, rejuvenate_first=True,
            )  # fmt: skip
            return particles, info, strategy.table

        particles, info, table = once("round of draws from proposals", weighed, rng)
        draws = pooled(draws, particles, table, counts)
        info = info._replace(ess=draws.ess, n_particles=len(draws.particles.theta), rejuvenations=0)
        hopeless = t == 1 and draws.ess < min_first_ess
        hopeless |= t > 1 and draws.ess < _HOPELESS * info.n_particles
        done = draws.ess >= target_ess or t == max_rounds or hopeless
        gap = disagreement(draws)[0] if done else None
        yield Outcome(draws.particles, [info], True, pair=draws.pair, disagreement=gap), draws
        if not done:
            shares = adapted(draws)
