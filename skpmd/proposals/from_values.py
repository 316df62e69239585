"""A fit of a density by its values: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are moved on the way
(`skpmd.proposals.ensemble_moves`).

Proposals at the optima are never believed by themselves. Where their weights are even, and draws
of the prior know the posterior too or few particles of steps find the same, that is all. Else
mixtures fitted to the particles of steps are joined to them, and all are weighed together: the
weights show what either has missed, and the steps what the weights do not. Where the gradient is
known and these fail Hamiltonian moves follow: they start from around all optima, and R-hat shows
where they do not mix. What no proposals fit, and in more than six coordinates what none of them
fits closely, is left to the particles of steps, taken twice from
draws of the prior of their own: what the two say differently is a warning.

Numbers at the top of these modules are those of the study ``honesty`` (examples/benchmarks/general,
its development half): with them posteriors drawn at random, whose answers are known, are right or
warned of.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd._runtime.call import counted, out_of_time, tick
from skpmd.engine import mirror
from skpmd.engine.diagnostics import differences, finds_more, moments_and_errors
from skpmd.engine.edges import Unbounded, edges, without_errors
from skpmd.engine.importance import TAIL_DF, Proposal, since, widened
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.particles import draw_prior, equally_weighted
from skpmd.engine.variational import Gaussian
from skpmd.proposals import hmc
from skpmd.proposals.ensemble_moves import EnsembleMoves, mixtures_of_particles
from skpmd.proposals.fitted_proposals import (
    Proposals,
    check_gradient,
    proposals_along_ridges,
    proposals_at_optima,
)
from skpmd.proposals.importance_rounds import (
    OF_STEPS,
    Task,
    ends_well,
    is_plain,
    is_small,
    is_sound,
    is_thin,
    knows_spreads,
    soundest,
    weighed,
)
from skpmd.proposals.optima import scales
from skpmd.proposals.prior_draws import MISSED_NATS, prior_draws, with_missed

# With fewer particles no diagnostics see what is missing, so that more are drawn.
_MIN_PARTICLES = 1000
_MAX_STEPS_FIRST = 20  # In more coordinates moves by a gradient know more than steps.
# Where a sd rests on few draws, steps in few coordinates are taken again with so many times the
# particles: a percent of the mass may have most of a variance.
_MORE = 4
_UNKNOWN_LOG_SD = 0.15  # A log sd with a larger standard error is not known by its own draws.
_MAX_R_HAT, _MIN_DRAWS = 1.02, 100.0  # Chains are trusted up to here, and from so many draws on.
# A quick check has so many particles, so long steps, so many moves after each, of which so many are
# draws from one Student density. It ends where its log evidence has come to that standard error.
_N_QUICK, _QUICK_ESS, _MAX_QUICK_ERROR = 200, 0.25, 0.45
_QUICK_MOVES = {"max_moves": 3, "from_fitted": 0.7, "max_components": 1}
# Mixtures are fitted so many times, in few coordinates and in more.
_REFITS, _FEW_REFITS = 8, 2
_OF_PRIOR, _OF_WAY, _OF_EARLIER = 0.05, 0.25, 0.2  # Shares of the proposals.
# In more coordinates they must agree with the particles twice as closely, or find more.
_STRICT = 0.5

_UNSEEN = (
    "draws of the prior see a part of the posterior where there are no particles: raise n_particles"
)
_AGAIN = "the same steps taken again find"
_OTHER_FIT = "a fit with proposal='auto' finds"
_RAISE = ": raise n_particles"
# Powers of the likelihood that rise by no larger a share in so many segments have a limit below 1.
_STALLED, _MIN_RISE = 30, 0.05
_NO_EVIDENCE = "max_time ended the steps from the prior on their way to the posterior"


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
    draws = prior_draws(model, start, batches, options.power, rng)
    lower, upper = edges(without_errors(model.log_prior), start.theta)
    of_rows = draws.edges()
    lower, upper = np.fmax(lower, of_rows[0]), np.fmin(upper, of_rows[1])

    is_free = np.isinf([lower, upper]).all()
    free = None if is_free else Unbounded(model, lower, upper)

    def more_draws():
        fresh = draw_prior(model, len(start.theta), rng)
        found = prior_draws(model, fresh, batches, options.power, rng)
        return found if is_free else found.freed(free, batches, options.power)

    if is_free:
        yield from _unbounded(model, draws, more_draws, batches, options, rng, gradient)
        return
    gradient = gradient and free.gradient(gradient)
    draws = draws.freed(free, batches, options.power)
    support = (lower, upper) if np.isfinite(of_rows).any() else None
    for outcome in _unbounded(free, draws, more_draws, batches, options, rng, gradient):
        yield outcome._replace(particles=free.restored(outcome.particles), support=support)


def _unbounded(model, draws, more_draws, batches, options, rng, gradient):
    """The states where no coordinate has an edge; ``more_draws()`` are `PriorDraws` as well."""
    n = max(options.final_particles or options.n_particles, _MIN_PARTICLES)
    if gradient is not None:
        check_gradient(gradient, draws.log_joint, draws.theta, draws.values)
    task = Task(model, batches, draws, n, options.power, options.settings, gradient)
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
    yield from _by_steps(task, found, more_draws, rng)


def _attempt(task, rng):
    """States of reweighting of all proposals that can be fitted, up to the first that do well.

    These are proposals at the optima, and along ridges where those fail. Unless all is plain,
    mixtures fitted to the particles of steps from the prior follow, which come from somewhere else.
    Returns the `Attempt`.
    """
    draws, done, at_optima = task.draws, [], None  # What misses nothing, with its proposals.
    if not np.isfinite(draws.values).any():
        return Attempt(False, None, None, None, ())
    searches = proposals_at_optima(draws.log_joint, *draws.starts(), rng, task.gradient)
    # Moves by a gradient need no more than optima: what is between them they find by themselves.
    # Steps may find what searches have not, so that these go on after them only.
    by_moves = task.gradient is not None and draws.theta.shape[1] > _MAX_STEPS_FIRST
    for at_optima in searches:
        last, _ = yield from weighed(task, at_optima, rng, done)
        plain = is_plain(done) and done[-1].outcome is last
        if plain and not done[-1].is_explained():
            continue
        if ends_well(done, last) or not by_moves:
            break
    rng_of_steps = rng.spawn(1)[0]
    if is_plain(done) and done[-1].is_explained():
        plain = done[-1].outcome
        agree = draws.agree(plain) or quickly_confirmed(task, plain, at_optima, rng_of_steps)
        if agree or (agree is None and len(at_optima.optima) == 1):
            return Attempt(True, plain, at_optima, None, searches)
    if not any(is_sound(one.outcome) for one in done):
        for found in proposals_along_ridges(
            draws.log_joint, draws.theta, draws.log_likelihood,
            () if at_optima is None else at_optima.optima, rng, task.gradient,
        ):  # fmt: skip
            last, _ = yield from weighed(task, found, rng, done)
            if ends_well(done, last):
                break
    if by_moves:
        sound = soundest(done)
        if sound is not None:
            yield sound._replace(infos=[])
        return Attempt(sound is not None, sound, at_optima, None, searches)
    steps = None
    with suppress(FloatingPointError):
        steps = steps_from_prior(task, at_optima, rng_of_steps)
    if steps is None:
        return Attempt(False, None, at_optima, None, searches)
    if not steps.outcome.reweighted:
        yield steps.outcome
        tick()  # Time is over.
    earlier = done[-1].found if done else at_optima
    sound = yield from mixtures_of_steps(task, steps, earlier, rng, done)
    # Mixtures come with all proposals before: what they find unsound is.
    if sound is None:
        of_steps = [one for one in done if one.found.to == OF_STEPS]
        sound = soundest(of_steps or done)
        if not _is_better(task, sound, steps.outcome) or not knows_spreads(sound):
            last = done[-1].found if done else earlier
            return Attempt(False, sound, at_optima, steps, searches, last)
    yield sound._replace(infos=[])
    return Attempt(True, sound, at_optima, steps, searches)


def _is_better(task, sound, steps):
    """Whether sound weights are to be preferred to the particles of steps.

    In few coordinates they are where both say the same, and in more where they find more.
    """
    if sound is None:
        return False
    return not differences(sound, steps, "") if is_small(task) else finds_more(sound, steps)


def _by_moves(task, found, rng):
    """States of Hamiltonian moves from around all optima, and from likely draws of the prior."""
    draws, (students, shares) = task.draws, found.students()
    likely = draws.theta[np.argsort(-draws.log_likelihood, kind="stable")]
    start, largest = hmc.starts(students, shares, rng, others=likely), students[0]
    target, whitening = hmc.Target(task.gradient), Gaussian(largest.mean, largest.factor)
    for outcome in hmc.moved(task.model, target, start, whitening, task.n, task.power, rng):
        yield outcome.with_findings(
            notes={"method": "Hamiltonian moves from proposals fitted to values"}
        )


def _by_steps(task, found, more_draws, rng):
    """States of steps from the prior, taken twice: what the two disagree about is a warning."""
    first, at_optima = found.steps, found.at_optima
    if first is None:
        first = steps_from_prior(task, at_optima, rng)
    yield first.outcome
    tick()
    for more in found.searches:
        at_optima = more
    again = task._replace(draws=more_draws(), n=task.n * (_MORE if is_small(task) else 1))
    second, reasons, agreed, done = None, (), None, []
    with suppress(FloatingPointError):
        second = steps_from_prior(again, at_optima, rng)
    last = first.outcome._replace(infos=[])
    if second is not None:
        last = pooled_steps(task, first.outcome, second.outcome)
        found_again = differences(first.outcome, second.outcome, _AGAIN)
        reasons = tuple(text + _RAISE for text in found_again)
        if again.n > task.n:
            earlier = found.proposals or at_optima
            agreed = yield from mixtures_of_steps(task, second, earlier, rng, done)
            last = last._replace(infos=[])
    if agreed is None:
        agreed = next(
            (one for one in (soundest(done), found.best) if _is_better(task, one, last)), None
        )
    if agreed is not None:
        yield agreed._replace(infos=[])
        return
    n_left_out = 0
    if at_optima is not None:
        n_left_out = task.draws.n_left_out(at_optima, last, rng)
    reasons += (_UNSEEN,) if task.draws.are_missed_by(last) else ()
    yield last.with_findings(n_left_out=n_left_out, reasons=reasons)


def compared(outcome, model, batches, options, rng):
    """States of an outcome of stochastic steps: the last has reasons not to trust it.

    Steps may lose a narrow mode, or the neck of a funnel, which kernels of one covariance do not
    enter; the particles that are left know nothing of it, and their weights are good. A fit by
    values comes from somewhere else, and where it is sound the two must agree. Reasons are what it
    contradicts, or a spread that rests on few draws. The draws of that fit come from a generator of
    their own, so that ``rng`` is left as it is.
    """
    yield outcome
    _, _, _, of_log_sd = moments_and_errors(outcome.particles)
    j = int(of_log_sd.argmax())
    if of_log_sd[j] > _UNKNOWN_LOG_SD:
        unknown = (
            f"the sd of theta[:, {j}] rests on few draws (standard error {of_log_sd[j]:.0%}): "
            "raise n_particles or max_iter"
        )
        reasons = (*outcome.findings.reasons, unknown)
        yield outcome._replace(infos=[]).with_findings(reasons=reasons)
        return
    fits = from_values(model, batches, options, rng.spawn(1)[0])
    *_, other = counted(fits, "comparison with another fit")
    if not (other.findings.n_left_out or other.findings.reasons or is_thin(other.particles)):
        found = differences(outcome, other, _OTHER_FIT)
        found = tuple(f"{text}: set proposal='auto'" for text in found)
        reasons = outcome.findings.reasons + found
        yield outcome._replace(infos=[]).with_findings(reasons=reasons)


# ------------------------------------------------------------------- steps from the prior
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

    Where time ends them on the way they are not reweighted, or None if an error is asked for.
    FloatingPointError is raised where the model has no number, and ValueError where the likelihood
    outruns the prior: its power then has a limit, at which particles run off. Where searches
    have found several optima moves lead between them, for draws of the prior may know next to
    nothing of their shares.
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

    powers = []
    for last, info in counted(resumable(states, rng), "steps from the prior"):  # noqa: B007
        if moves.account.variance > max_error**2:
            return None
        powers.append(info.extra.get("power", 1.0))
        _check_progress(powers)
        if powers[-1] < 1.0 and out_of_time("the steps from the prior"):
            break
    found, is_whole = moves.account, powers[-1] == 1.0
    if not is_whole and max_error < np.inf:
        return None
    error = float(np.sqrt(max(found.variance, 0.0)))
    findings = Findings(
        notes={"method": "mirror steps on all data from prior, moved by differences"},
        no_evidence="" if is_whole else _NO_EVIDENCE,
    )
    outcome = Outcome(
        equally_weighted(task.model, last.theta), [info], reweighted=is_whole,
        evidence=(float(found.log_evidence + log_alive), error) if is_whole else None,
        findings=findings,
    )  # fmt: skip
    return Steps(outcome, found.fitted[:-1], scales)


def _check_progress(powers):
    """ValueError where powers of the likelihood have a limit below 1."""
    if len(powers) <= _STALLED or powers[-1] > (1.0 + _MIN_RISE) * powers[-1 - _STALLED]:
        return
    if powers[-1] < 1.0 / (1.0 + _MIN_RISE):
        raise ValueError(
            "The posterior has no integral: where the log-likelihood counts to the power "
            f"{powers[-1]:.2g}, it rises faster than the prior falls, and particles run off. It "
            "must be the log of a density (logpdf, not pdf), which falls where parameters do not "
            "fit the rows: mind its sign, and give parameters that rows do not bound a narrower "
            "prior."
        )


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
    parts, shares = [Proposal(centre, spread, TAIL_DF)], [np.array([_OF_PRIOR])]
    for of_way, of_each in steps.on_the_way:
        parts = parts + of_way
        shares.append(_OF_WAY / len(steps.on_the_way) * of_each)
    if earlier is not None:
        parts, shares = parts + earlier.components, [*shares, _OF_EARLIER * earlier.shares]
    rest, own, of_own = 1.0 - np.concatenate(shares).sum(), [], np.empty(0)
    before, pool = steps.outcome, None
    theta, log_ratio = before.particles.theta, before.particles.log_ratio
    for _ in range(_REFITS if is_small(task) else _FEW_REFITS):
        new, of_new = mixtures_of_particles(theta, log_ratio, steps.hierarchy, rng)
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
