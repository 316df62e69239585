"""A fit of a density by its values: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are moved on the way
(`skpmd.engine.ensemble_moves`).

Proposals at the optima are never believed by themselves. Where their weights are even, and draws
of the prior know the posterior too or few particles of steps find the same, that is all. Else
mixtures fitted to the particles of steps are joined to them, and all are weighed together: the
weights show what either has missed, and the steps what the weights do not. Where the gradient is
known and these fail Hamiltonian moves follow: they start from around all optima, and R-hat shows
where they do not mix. What no proposals fit is left to the particles of steps, taken twice from
draws of the prior of their own: what the two say differently is a warning.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd.engine import chain_draws, mirror, student_mixture
from skpmd.engine.agreement import differences, moments_and_errors
from skpmd.engine.course import counted
from skpmd.engine.derivatives import check_gradient
from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.ensemble_moves import EnsembleMoves
from skpmd.engine.fitted_proposals import (
    EACH,
    Proposals,
    proposals_along_ridges,
    proposals_at_optima,
)
from skpmd.engine.importance import Proposal, since, widened
from skpmd.engine.importance_rounds import MAX_ROUNDS, TARGET_ESS, proposal_rounds, state
from skpmd.engine.journal import once
from skpmd.engine.loop import Outcome
from skpmd.engine.non_centred import hierarchy
from skpmd.engine.optima import scales
from skpmd.engine.particles import draw_prior, effective_sample_size, equally_weighted, moments
from skpmd.engine.scouts import Scouts, scouted
from skpmd.engine.values import without_errors

# With fewer particles no diagnostics see what is missing, so that more are drawn.
_MIN_PARTICLES = 1000
_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
# With a smaller share effective, and fewer draws, or a heavy tail, weights have failed.
_MIN_SHARE, _ENOUGH = 0.05, 1000.0
_MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_MAX_PLAIN_K = 0.35  # Of weights that need no more proposals.
_MAX_SOUND_K = 0.5  # From here on weights have no variance.
# A quick check has so many particles, so long steps, so many moves after each, of which so many are
# draws from one Student density. It ends where its log evidence has come to that standard error.
_N_QUICK, _QUICK_ESS, _MAX_QUICK_ERROR = 200, 0.25, 0.45
_QUICK_MOVES = {"max_moves": 3, "from_fitted": 0.7, "max_components": 1}
# Mixtures are fitted so many times, in few coordinates and in more,
_REFITS, _FEW_REFITS = 8, 4
_OF_STEPS_ESS = 2.0  # and so many times the number of particles are to be effective.
_MAX_BESIDE_MOVES = 20  # In more coordinates moves by a gradient know more than steps.
_SMALL = 6  # So many coordinates are few.
# Where a log sd has a larger error than this, steps in few coordinates are taken again with so many
# times the particles: a percent of the mass may have most of a variance.
_MAX_LOG_SD_ERROR, _MORE = 0.08, 4
_OF_STEPS = "particles of steps"
_OF_PRIOR, _OF_WAY, _OF_EARLIER = 0.05, 0.25, 0.2  # Shares of the proposals.
_OF_FAR = 0.25  # Of the rest, where squares are large,
_SQUARES = 1e-12, 1e12  # as far as these.
_WIDE_DF = 5.0  # Of the one that is as wide as the prior.
_MIN_ERROR = 0.2  # Of a log evidence that no mixture has confirmed, in nats.
_MAX_R_HAT, _MIN_DRAWS = 1.02, 100.0  # Chains are trusted up to here, and from so many draws on.

_UNSEEN = (
    "draws of the prior see a part of the posterior where there are no particles: raise n_particles"
)
_AGAIN = "the same steps taken again find"
_RAISE = ": raise n_particles"


class Task(NamedTuple):
    """What a fit by values is of, in coordinates without edges."""

    model: Any
    batches: list
    scouts: Scouts
    n: int  # Particles.
    power: float  # Of the likelihood.
    settings: mirror.Settings
    gradient: Any = None


class Steps(NamedTuple):
    """What came of steps from the prior to the posterior."""

    outcome: Outcome  # Its particles are equally weighted.
    on_the_way: list  # Components and shares of a mixture fitted after each segment but the last.
    hierarchy: Any  # Units of the scales of others, or None.


class Attempt(NamedTuple):
    """What came of fitted proposals."""

    sound: bool  # Whether the last state is to be trusted.
    best: Outcome | None  # Weights that are sound by themselves.
    at_optima: Proposals | None
    steps: Steps | None  # Where they have been taken.
    searches: Any  # Further `Proposals` at optima, as they are asked for.
    proposals: Proposals | None = None  # The last that have missed nothing.


def from_values(model, batches, options, rng, gradient=None):
    """The states of a fit, for `skpmd.engine.loop.drive`.

    ``gradient`` maps points (k, d) to log joint densities (k,) and their gradients (k, d), where it
    is known. Coordinates with edges are replaced by others without (`skpmd.engine.edges`).
    """
    start = draw_prior(model, max(options.n_particles, _MIN_PARTICLES), rng)
    scouts = scouted(model, start, batches, options.power, rng)
    lower, upper = edges(without_errors(model.log_prior), start.theta)
    of_rows = scouts.edges()
    lower, upper = np.fmax(lower, of_rows[0]), np.fmin(upper, of_rows[1])

    def again():
        fresh = draw_prior(model, len(start.theta), rng)
        return scouted(model, fresh, batches, options.power, rng)

    if np.isinf([lower, upper]).all():
        yield from _unbounded(model, scouts, again, batches, options, rng, gradient)
        return
    free = Unbounded(model, lower, upper)
    gradient = gradient and free.gradient(gradient)
    scouts = scouts.freed(free, batches, options.power)

    def freed_again():
        return again().freed(free, batches, options.power)

    support = (lower, upper) if np.isfinite(of_rows).any() else None
    for outcome in _unbounded(free, scouts, freed_again, batches, options, rng, gradient):
        yield outcome._replace(particles=free.restored(outcome.particles), support=support)


def _unbounded(model, scouts, again, batches, options, rng, gradient):
    """The states where no coordinate has an edge; ``again()`` are further draws of the prior."""
    n = max(options.final_particles or options.n_particles, _MIN_PARTICLES)
    if gradient is not None:
        check_gradient(gradient, scouts.log_joint, scouts.theta, scouts.values)
    task = Task(model, batches, scouts, n, options.power, options.settings, gradient)
    found = yield from _attempt(task, rng)
    if found.sound:
        return
    at_optima = found.at_optima
    if gradient is not None and at_optima is not None and at_optima.complete:
        for last in _by_moves(task, at_optima, rng):
            yield last
        chains = last.chains
        mixed = chains.r_hat <= _MAX_R_HAT and chains.ess >= _MIN_DRAWS
        if mixed and not chains.warming_up:
            return
    yield from _by_steps(task, found, again, rng)


def _attempt(task, rng):
    """States of reweighting of all proposals that can be fitted, up to the first that do well.

    These are proposals at the optima, and along ridges where those fail. Unless all is plain,
    mixtures fitted to the particles of steps from the prior follow, which come from somewhere else.
    Returns the `Attempt`.
    """
    scouts, done, at_optima = task.scouts, [], None  # What misses nothing, with its proposals.
    if not np.isfinite(scouts.values).any():
        return Attempt(False, None, None, None, ())
    searches = proposals_at_optima(
        scouts.log_joint, scouts.theta, scouts.values, scouts.log_likelihood, rng, task.gradient
    )
    # Moves by a gradient need no more than optima: what is between them they find by themselves.
    # Steps may find what searches have not, so that these go on after them only.
    by_moves = task.gradient is not None and scouts.theta.shape[1] > _MAX_BESIDE_MOVES
    for found in searches:
        at_optima = found
        last, _ = yield from _tried(task, found, rng, done)
        plain = _is_plain(done) and done[-1][1] is last
        if plain and not scouts.explained(found, last):
            continue
        if _ends_well(done, last) or not by_moves:
            break
    witness = rng.spawn(1)[0]
    if _is_plain(done) and scouts.explained(at_optima, done[-1][1]):
        plain = done[-1][1]
        agree = scouts.confirm(plain) or _quickly_confirmed(task, plain, at_optima, witness)
        if agree or (agree is None and len(at_optima.optima) == 1):
            return Attempt(True, plain, at_optima, None, searches)
    if not any(_is_sound(outcome) for _, outcome in done):
        for found in proposals_along_ridges(
            scouts.log_joint, scouts.theta, scouts.log_likelihood,
            () if at_optima is None else at_optima.optima, rng, task.gradient,
        ):  # fmt: skip
            last, _ = yield from _tried(task, found, rng, done)
            if _ends_well(done, last):
                break
    if by_moves:
        sound = _soundest(done)
        if sound is not None:
            yield sound._replace(infos=[])
        return Attempt(sound is not None, sound, at_optima, None, searches)
    steps = _steps(task, at_optima, witness)
    if steps is None:
        return Attempt(False, None, at_optima, None, searches)
    earlier = done[-1][0] if done else at_optima
    sound = yield from _from_steps(task, steps, earlier, rng, done)
    # Mixtures come with all proposals before: what they find unsound is.
    if sound is None:
        of_steps = [pair for pair in done if pair[0].to == _OF_STEPS]
        sound = _soundest(of_steps or done)
        if (
            sound is None
            or differences(sound, steps.outcome, "")
            or (_n_again(task) > task.n and not _knows_spreads(sound))
        ):
            last = done[-1][0] if done else earlier
            return Attempt(False, sound, at_optima, steps, searches, last)
    yield sound._replace(infos=[])
    return Attempt(True, sound, at_optima, steps, searches)


def _tried(task, found, rng, done, before=None):
    """States of reweighting, the last of them, and its `PooledDraws` with those ``before``.

    What misses nothing is added to ``done``.
    """
    last, draws = yield from _by_weights(task, found, rng, before)
    if before is not None:  # Its density is that of all mixtures.
        found = found._replace(shares=draws.counts / draws.counts.sum())
    if last is not None and found.complete and not task.scouts.missed(found, last):
        if (last.disagreement or 0.0) <= _MAX_DISAGREEMENT:
            done.append((found, last))
    return last, draws


def _ends_well(done, last):
    return bool(done) and done[-1][1] is last and _is_sound(last)


def _is_sound(outcome):
    return not is_thin(outcome.particles)


def _is_plain(done):
    """Whether the last weights are as even as where proposals at its optima fit a posterior."""
    return bool(done) and _is_sound(done[-1][1]) and _k(done[-1][1]) < _MAX_PLAIN_K


def _knows_spreads(outcome):
    """Whether standard deviations rest on many draws."""
    _, _, _, of_log_sd = moments_and_errors(outcome.particles)
    return of_log_sd.max() < _MAX_LOG_SD_ERROR


def _n_again(task):
    """How many particles steps have that are taken again."""
    return task.n * (_MORE if _is_small(task) else 1)


def _is_small(task):
    return task.scouts.theta.shape[1] <= _SMALL


def _soundest(done):
    """The outcome of the lightest tail among those whose weights are sound, or None."""
    sound = [one for _, one in done if _is_sound(one) and _k(one) < _MAX_SOUND_K]
    return min(sound, key=_k, default=None)


def _quickly_confirmed(task, outcome, at_optima, rng):
    """Whether few particles of long steps find the same; None where they are too few to tell.

    They know means and spreads, but not the evidence, where the prior is much wider.
    """
    quick = task._replace(n=_N_QUICK, settings=task.settings._replace(ess_threshold=_QUICK_ESS))
    steps = _steps(quick, at_optima, rng, _MAX_QUICK_ERROR, **_QUICK_MOVES)
    if steps is None:
        return None
    return not differences(outcome, steps.outcome._replace(log_evidence=None), "")


def _steps(task, at_optima, rng, max_error=np.inf, **of_moves):
    """`Steps` from the prior to the posterior; None where the model has no number.

    They end where the log evidence has a larger standard error.
    """
    try:
        return _taken(task, at_optima, rng, max_error, **of_moves)
    except FloatingPointError:
        return None


def _taken(task, at_optima, rng, max_error=np.inf, **of_moves):
    """The same, which raises FloatingPointError where the model has no number.

    Where searches have found several optima moves lead between them, for draws of the prior may
    know next to nothing of their shares.
    """
    known = None
    if at_optima is not None and len(at_optima.optima) > 1:
        shares = at_optima.shares[1::EACH]
        known = at_optima.components[1::EACH], shares / shares.sum()
    units = hierarchy(task.scouts.theta)
    moves = EnsembleMoves(task.model, task.batches, task.power, known, hierarchy=units, **of_moves)
    start, log_likelihood, log_alive = task.scouts.alive()

    def whole():
        segments = mirror.segments(
            start, task.model, task.batches, 1.0, task.power, task.settings, rng, task.n,
            rejuvenate=moves, known=log_likelihood / task.power,
        )  # fmt: skip
        for last, info in counted(segments, "steps from the prior"):  # noqa: B007
            if moves.variance > max_error**2:
                return None
        log_evidence = float(moves.log_evidence + log_alive)
        return (
            last.theta,
            info,
            log_evidence,
            float(np.sqrt(max(moves.variance, 0.0))),
            moves.fitted[:-1],
        )

    found = once("steps from the prior", whole, rng)
    if found is None:
        return None
    theta, info, log_evidence, error, fitted = found
    outcome = Outcome(
        equally_weighted(task.model, theta), [info], reweighted=True,
        log_evidence=log_evidence, log_evidence_se=error,
        notes={"method": "mirror steps on all data from prior, moved by differences"},
    )  # fmt: skip
    return Steps(outcome, fitted, units)


def _from_steps(task, steps, earlier, rng, done):
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
    draws = task.scouts.theta
    centre, spread = np.median(draws, axis=0), np.diag(scales(draws))
    parts, shares = [Proposal(centre, spread, _WIDE_DF)], [np.array([_OF_PRIOR])]
    for of_way, of_each in steps.on_the_way:
        parts = parts + of_way
        shares.append(_OF_WAY / len(steps.on_the_way) * of_each)
    if earlier is not None:
        parts, shares = parts + earlier.components, [*shares, _OF_EARLIER * earlier.shares]
    rest, own, of_own = 1.0 - np.concatenate(shares).sum(), [], np.empty(0)
    before, pool, agreed = steps.outcome, None, None
    theta, log_ratio = before.particles.theta, before.particles.log_ratio
    for _ in range(_REFITS if _is_small(task) else _FEW_REFITS):
        new, of_new = _mixture(theta, log_ratio, steps.hierarchy, rng)
        # Those before go on with half a share: what few draws have found is not lost again.
        of_own = np.concatenate([0.5 * of_new, 0.5 * of_own]) if own else of_new
        own = new + own
        mixed = Proposals(own + parts, np.concatenate([rest * of_own, *shares]), True, _OF_STEPS)
        known = widened(pool, new) if pool is not None and _is_small(task) else None
        last, pool = yield from _tried(task, mixed, rng, done, known)
        if last is None:
            break
        fresh = last if known is None else Outcome(since(pool, known), [], True)
        if _ends_well(done, last) and _is_plain(done) and not differences(fresh, before, ""):
            agreed = last
            if not _is_small(task) or (known is not None and _knows_spreads(last)):
                break
        theta, log_ratio = task.scouts.beside(mixed, last)
        before = last if _is_sound(last) else before
    return agreed


def _mixture(theta, log_ratio, hierarchy, rng):
    """Components and shares of mixtures fitted to particles (m, d) of log weights (m,).

    One fits their density and one their squares, and where there is a hierarchy two more do the
    same in its units.
    """
    parts, shares = [], []
    for units in (None,) if hierarchy is None else (None, hierarchy):
        places = theta if units is None else units.outward(theta)
        kept = np.isfinite(places).all(axis=1)
        places, own = places[kept], log_ratio[kept]
        for log_weights, share in ((own, 1.0 - _OF_FAR), (_by_squares(places, own), _OF_FAR)):
            found, of_each = student_mixture.fit(places, log_weights, rng)
            parts += [one._replace(hierarchy=units) for one in found]
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


def _by_weights(task, found, rng, before=None):
    """States of importance reweighting of draws from the proposals, in rounds.

    Returned are the last of them and all `PooledDraws`, with those ``before``; the first is None
    where the tails of proposals reach where the model has no number.
    """
    notes = {"method": f"importance reweighting of proposals fitted to {found.to}"}
    enough, max_rounds = max(TARGET_ESS * task.n, _MIN_ESS), MAX_ROUNDS
    if found.to == _OF_STEPS:
        enough = _OF_STEPS_ESS * task.n
        max_rounds = MAX_ROUNDS // 2 if _is_small(task) else MAX_ROUNDS
    last = draws = None
    try:
        for draws, info, gap in proposal_rounds(
            task.model, task.batches, found.components, found.shares, task.power, rng, n=task.n,
            target_ess=enough, min_first_ess=_MIN_SHARE * task.n, max_rounds=max_rounds,
            before=before,
        ):  # fmt: skip
            # Proposals at several places are not to agree on a mean.
            gap = gap if len(found.components) == EACH else None
            last = state(draws, info, gap)._replace(notes=notes)
            yield last
    except FloatingPointError:
        return None, draws
    return last, draws


def _by_moves(task, found, rng):
    """States of Hamiltonian moves from around all optima, and from likely draws of the prior."""
    scouts = task.scouts
    likely = scouts.theta[np.argsort(-scouts.log_likelihood, kind="stable")]
    plain, shares = found.components[1::EACH], found.shares[1::EACH]
    start, largest = chain_draws.starts(plain, shares, rng, others=likely), plain[0]
    for outcome in chain_draws.moved(
        task.model, task.gradient, start, largest.mean, largest.factor, task.n, task.power, rng
    ):
        yield outcome._replace(
            notes={"method": "Hamiltonian moves from proposals fitted to values"}
        )


def _by_steps(task, found, again, rng):
    """States of steps from the prior, taken twice: what the two disagree about is a warning."""
    first, at_optima = found.steps, found.at_optima
    if first is None:
        first = _taken(task, at_optima, rng)
    yield first.outcome
    for more in found.searches:
        at_optima = more
    again = task._replace(scouts=again(), n=_n_again(task))
    second = _steps(again, at_optima, rng)
    last, reasons, agreed, done = first.outcome._replace(infos=[]), (), None, []
    if second is not None:
        last = _pooled(task, first.outcome, second.outcome)
        found_again = differences(first.outcome, second.outcome, _AGAIN)
        reasons = tuple(text + _RAISE for text in found_again)
        if again.n > task.n:
            agreed = yield from _from_steps(task, second, found.proposals or at_optima, rng, done)
            last = last._replace(infos=[])
    for sound in (agreed, _soundest(done), found.best):
        if sound is not None and (sound is agreed or not differences(sound, last, "")):
            yield sound._replace(infos=[])
            return
    n_left_out = 0
    if at_optima is not None:
        n_left_out = task.scouts.n_left_out(at_optima, last, rng)
    reasons += (_UNSEEN,) if task.scouts.unseen(last) else ()
    yield last._replace(n_left_out=n_left_out, reasons=reasons)


def _pooled(task, one, other):
    """The particles of both, and their evidence.

    Where no mixture fits particles, moves mix less than ranks tell: errors of evidences of
    horseshoes drawn at random were some .2 nats and more, on one side.
    """
    values = np.array([one.log_evidence, other.log_evidence])
    sizes = [len(part.particles.theta) for part in (one, other)]
    errors = np.array([one.log_evidence_se, other.log_evidence_se])
    theta = np.concatenate([one.particles.theta, other.particles.theta])
    return other._replace(
        particles=equally_weighted(task.model, theta),
        log_evidence=float(logsumexp(values, b=sizes) - np.log(np.sum(sizes))),
        log_evidence_se=float(max(np.hypot(*errors), np.ptp(values) / 2.0, _MIN_ERROR)),
    )


def is_thin(particles):
    """Whether weights have failed: few particles have them all, or too much is in a few."""
    log_ratio = particles.log_ratio
    if effective_sample_size(log_ratio) < min(_MIN_SHARE * len(log_ratio), _ENOUGH):
        return True
    return heavy_tail(log_ratio, pareto_k(log_ratio))


def _k(outcome):
    return pareto_k(outcome.particles.log_ratio)
