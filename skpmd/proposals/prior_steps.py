"""Steps from the prior to the posterior, whose particles are moved on the way."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd._runtime.call import counted
from skpmd.engine import mirror
from skpmd.engine.loop import Outcome, resumable
from skpmd.engine.particles import equally_weighted
from skpmd.proposals.agreement import differences
from skpmd.proposals.ensemble_moves import EnsembleMoves

# A quick check has so many particles, so long steps, so many moves after each, of which so many are
# draws from one Student density. It ends where its log evidence has come to that standard error.
_N_QUICK, _QUICK_ESS, _MAX_QUICK_ERROR = 200, 0.25, 0.45
_QUICK_MOVES = {"max_moves": 3, "from_fitted": 0.7, "max_components": 1}


class Steps(NamedTuple):
    """What came of steps from the prior to the posterior."""

    outcome: Outcome  # Its particles are equally weighted.
    on_the_way: list  # Components and shares of a mixture fitted after each segment but the last.
    hierarchy: Any  # Units of the scales of others, or None.


def quickly_confirmed(task, outcome, at_optima, rng):
    """Whether few particles of long steps find the same; None where they are too few to tell.

    They know means and spreads, but not the evidence, where the prior is much wider.
    """
    quick = task._replace(n=_N_QUICK, settings=task.settings._replace(ess_threshold=_QUICK_ESS))
    steps = None
    with suppress(FloatingPointError):
        steps = steps_from_prior(quick, at_optima, rng, _MAX_QUICK_ERROR, **_QUICK_MOVES)
    if steps is None:
        return None
    return not differences(outcome, steps.outcome._replace(log_evidence=None), "")


def steps_from_prior(task, at_optima, rng, max_error=np.inf, **of_moves):
    """`Steps` from the prior to the posterior; None where their evidence has a larger error.

    FloatingPointError is raised where the model has no number. Where searches have found several
    optima moves lead between them, for draws of the prior may know next to nothing of their shares.
    """
    known, scales = None, task.draws.hierarchy()
    if at_optima is not None and len(at_optima.optima) > 1:
        known = at_optima.students()
    moves = EnsembleMoves(task.model, task.batches, task.power, known, hierarchy=scales, **of_moves)
    start, log_likelihood, log_alive = task.draws.alive()

    def states(at):
        before, moves.account = (None, moves.account) if at is None else at
        if before is not None:
            yield (before.particles, before.info), None
        for last, info, way in mirror.segments(
            start, task.model, task.batches, 1.0, task.power, task.settings, rng, task.n,
            rejuvenate=moves, known=log_likelihood / task.power, at=before,
        ):  # fmt: skip
            yield (last, info), (way, moves.account)

    for last, info in counted(resumable(states, rng), "steps from the prior"):  # noqa: B007
        if moves.account.variance > max_error**2:
            return None
    found = moves.account
    outcome = Outcome(
        equally_weighted(task.model, last.theta), [info], reweighted=True,
        log_evidence=float(found.log_evidence + log_alive),
        log_evidence_se=float(np.sqrt(max(found.variance, 0.0))),
        notes={"method": "mirror steps on all data from prior, moved by differences"},
    )  # fmt: skip
    return Steps(outcome, found.fitted[:-1], scales)


def pooled_steps(task, one, other):
    """The particles of both, and their evidence."""
    values = np.array([one.log_evidence, other.log_evidence])
    sizes = [len(part.particles.theta) for part in (one, other)]
    errors = np.array([one.log_evidence_se, other.log_evidence_se])
    theta = np.concatenate([one.particles.theta, other.particles.theta])
    return other._replace(
        particles=equally_weighted(task.model, theta),
        log_evidence=float(logsumexp(values, b=sizes) - np.log(np.sum(sizes))),
        log_evidence_se=float(max(np.hypot(*errors), np.ptp(values) / 2.0)),
    )
