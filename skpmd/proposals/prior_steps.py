"""Steps from the prior, whose particles are moved on the way, and mixtures fitted to these."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd._runtime.call import counted
from skpmd.engine import mirror
from skpmd.engine.diagnostics import differences, finds_more
from skpmd.engine.importance import Proposal, since, widened
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.particles import equally_weighted, moments
from skpmd.proposals.ensemble_moves import EnsembleMoves, student_mixture
from skpmd.proposals.fitted_proposals import Proposals
from skpmd.proposals.importance_rounds import (
    OF_STEPS,
    ends_well,
    is_plain,
    is_small,
    is_sound,
    knows_spreads,
    weighed,
)
from skpmd.proposals.optima import scales
from skpmd.proposals.prior_draws import MISSED_NATS, with_missed

# A quick check has so many particles, so long steps, so many moves after each, of which so many are
# draws from one Student density. It ends where its log evidence has come to that standard error.
_N_QUICK, _QUICK_ESS, _MAX_QUICK_ERROR = 200, 0.25, 0.45
_QUICK_MOVES = {"max_moves": 3, "from_fitted": 0.7, "max_components": 1}
# Mixtures are fitted so many times, in few coordinates and in more.
_REFITS, _FEW_REFITS = 8, 2
_OF_PRIOR, _OF_WAY, _OF_EARLIER = 0.05, 0.25, 0.2  # Shares of the proposals.
_OF_FAR = 0.25  # Of the rest, where squares are large,
_SQUARES = 1e-12, 1e12  # as far as these.
# In more coordinates they must agree with the particles twice as closely, or find more.
_STRICT = 0.5
_WIDE_DF = 5.0  # Of the one that is as wide as the prior.


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
    return not differences(outcome, steps.outcome._replace(evidence=None), "")


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
    rejuvenation = mirror.Rejuvenation(moves, task.n)

    def states(at):
        before = mirror.Way(start, 1.0, task.power, log_likelihood / task.power)
        if at is not None:
            before, moves.account = at
            yield (before.particles, before.info), None
        for last, info, way in mirror.segments(
            before, task.model, task.batches, task.settings, rng, rejuvenation
        ):
            yield (last, info), (way, moves.account)

    for last, info in counted(resumable(states, rng), "steps from the prior"):  # noqa: B007
        if moves.account.variance > max_error**2:
            return None
    found = moves.account
    error = float(np.sqrt(max(found.variance, 0.0)))
    notes = {"method": "mirror steps on all data from prior, moved by differences"}
    outcome = Outcome(
        equally_weighted(task.model, last.theta), [info], reweighted=True,
        evidence=(float(found.log_evidence + log_alive), error), findings=Findings(notes=notes),
    )  # fmt: skip
    return Steps(outcome, found.fitted[:-1], scales)


def pooled_steps(task, one, other):
    """The particles of both, and their evidence."""
    values, errors = np.transpose([one.evidence, other.evidence])
    sizes = [len(part.particles.theta) for part in (one, other)]
    theta = np.concatenate([one.particles.theta, other.particles.theta])
    return other._replace(
        particles=equally_weighted(task.model, theta),
        evidence=(
            float(logsumexp(values, b=sizes) - np.log(np.sum(sizes))),
            float(max(np.hypot(*errors), np.ptp(values) / 2.0)),
        ),
    )


def mixtures_of_steps(task, steps, earlier, rng, done):
    """States of reweighting of mixtures fitted to particles of steps, and of ``earlier`` proposals.

    Mixtures fitted to particles on the way, where the posterior is wider, and one as wide as the
    prior keep its tails. Each mixture is fitted to the draws of those before and to the draws of
    the prior that these miss, until weights are even and say what was said before them: they may
    well find more than the particles of steps, which do not enter a neck, but then the next mixture
    may find more again.

    In few coordinates draws of all mixtures count (adaptive multiple importance sampling; Cornuet
    et al. 2012), and two of these must agree. In more, a mixture fits the draws that it has been
    fitted to better than others, so that their weights would be too even: an evidence in 18
    coordinates lost an eighth of a nat so.

    Returned is the last outcome that agrees, or None. What misses nothing is added to ``done``.
    """
    draws, task = task.draws.theta, task._replace(draws=task.draws.with_steps(steps.outcome))
    centre, spread = np.median(draws, axis=0), np.diag(scales(draws))
    parts, shares = [Proposal(centre, spread, _WIDE_DF)], [np.array([_OF_PRIOR])]
    for of_way, of_each in steps.on_the_way:
        parts = parts + of_way
        shares.append(_OF_WAY / len(steps.on_the_way) * of_each)
    if earlier is not None:
        parts, shares = parts + earlier.components, [*shares, _OF_EARLIER * earlier.shares]
    rest, own, of_own = 1.0 - np.concatenate(shares).sum(), [], np.empty(0)
    before, pool = steps.outcome, None
    theta, log_ratio = before.particles.theta, before.particles.log_ratio
    for _ in range(_REFITS if is_small(task) else _FEW_REFITS):
        new, of_new = _mixture(theta, log_ratio, steps.hierarchy, rng)
        # Those before go on with half a share: what few draws have found is not lost again.
        of_own = np.concatenate([0.5 * of_new, 0.5 * of_own]) if own else of_new
        own = new + own
        mixed = Proposals(own + parts, np.concatenate([rest * of_own, *shares]), True, OF_STEPS)
        known = widened(pool, new) if pool is not None and is_small(task) else None
        last, pool = yield from weighed(task, mixed, rng, done, known)
        if last is None:
            break
        fresh = last if known is None else Outcome(since(pool, known), [], True)
        agrees = ends_well(done, last) and is_plain(done) and not differences(fresh, before, "")
        if agrees and is_small(task):  # Few draws agree with whatever there is.
            agrees = known is not None and is_sound(fresh) and knows_spreads(last)
        elif agrees:
            agrees = finds_more(fresh, steps.outcome)
            agrees = agrees or not differences(fresh, steps.outcome, "", _STRICT)
        if agrees:
            return last
        thin = task.draws.thin(mixed.log_density, last, MISSED_NATS)
        theta, log_ratio = with_missed(last, thin)
        before = last if is_sound(last) else before
    return None


def _mixture(theta, log_ratio, hierarchy, rng):
    """Components and shares of mixtures fitted to particles (m, d) of log weights (m,).

    One fits their density and one their squares, and where there is a hierarchy two more do the
    same in its units.
    """
    parts, shares = [], []
    for scaled in (None,) if hierarchy is None else (None, hierarchy):
        places = theta if scaled is None else scaled.outward(theta)
        kept = np.isfinite(places).all(axis=1)
        places, own = places[kept], log_ratio[kept]
        for log_weights, share in ((own, 1.0 - _OF_FAR), (_by_squares(places, own), _OF_FAR)):
            found, of_each = student_mixture(places, log_weights, rng)
            parts += [one._replace(hierarchy=scaled) for one in found]
            shares.append(share * of_each)
    shares = np.concatenate(shares)
    return parts, shares / shares.sum()


def _by_squares(theta, log_ratio):
    """Log weights (m,) times the largest square of a standardised coordinate.

    A mean square is known best by draws of the density times the square. Where a percent of the
    mass has most of a variance, few particles of the density are there.
    """
    mean, covariance = moments(theta, log_ratio)
    variance = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    with np.errstate(over="ignore"):  # Where all of the weight is one particle's.
        squares = ((theta - mean) ** 2 / variance).max(axis=1)
    return log_ratio + np.log(np.clip(squares, *_SQUARES))
