"""Mixtures fitted to the particles of steps, weighed together with all proposals before."""

import numpy as np

from skpmd.engine.importance import Proposal, since, widened
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import moments
from skpmd.proposals import student_mixture
from skpmd.proposals.agreement import differences, finds_more
from skpmd.proposals.fitted_proposals import Proposals
from skpmd.proposals.optima import scales
from skpmd.proposals.prior_draws import MISSED_NATS, with_missed
from skpmd.proposals.weighed_proposals import (
    OF_STEPS,
    ends_well,
    is_plain,
    is_small,
    is_sound,
    knows_spreads,
    weighed,
)

# Mixtures are fitted so many times, in few coordinates and in more.
_REFITS, _FEW_REFITS = 8, 2
_OF_PRIOR, _OF_WAY, _OF_EARLIER = 0.05, 0.25, 0.2  # Shares of the proposals.
_OF_FAR = 0.25  # Of the rest, where squares are large,
_SQUARES = 1e-12, 1e12  # as far as these.
# In more coordinates they must agree with the particles twice as closely, or find more.
_STRICT = 0.5
_WIDE_DF = 5.0  # Of the one that is as wide as the prior.


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
            found, of_each = student_mixture.fit(places, log_weights, rng)
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
