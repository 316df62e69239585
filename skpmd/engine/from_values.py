"""A fit of a density by its values: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are rejuvenated on the
way. Steps from proposals that do not fit were worse than those from the prior: what such proposals
miss is missed by the steps too, and no weight shows it.

So proposals at the optima are never believed by themselves. Where their weights are even, and draws
of the prior know the posterior too or a few particles moved by steps do not contradict them, that
is all. Else mixtures fitted to the particles of steps from the prior are joined to them, and all
are weighed together: the weights show what either has missed. Where the gradient is known and these
fail Hamiltonian moves follow: they start from around all optima, and R-hat shows where they do not
mix.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine import chain_draws, mirror, student_mixture
from skpmd.engine.agreement import differences
from skpmd.engine.course import counted
from skpmd.engine.derivatives import check_gradient
from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.fitted_proposals import (
    EACH,
    Proposals,
    proposals_along_ridges,
    proposals_at_optima,
)
from skpmd.engine.importance import Proposal
from skpmd.engine.importance_rounds import importance_rounds
from skpmd.engine.journal import once
from skpmd.engine.loop import Outcome
from skpmd.engine.optima import scales
from skpmd.engine.particles import draw_prior, effective_sample_size
from skpmd.engine.reweight import reweighting
from skpmd.engine.scouts import scouted
from skpmd.engine.values import without_errors

# With fewer particles no diagnostics see what is missing, so that more are drawn.
_MIN_PARTICLES = 1000
_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
# With a smaller share effective, and fewer draws, or a heavy tail, weights have failed.
_MIN_SHARE, _ENOUGH = 0.05, 1000.0
_MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_MAX_PLAIN_K = 0.35  # Of weights that need no more proposals.
_MAX_SOUND_K = 0.5  # From here on weights have no variance.
# A quick check has so many particles and segments at most, and so many of them effective.
_N_QUICK, _MAX_QUICK, _MIN_QUICK, _QUICK_ESS = 200, 40, 40.0, 0.3
_MAX_SEGMENTS, _REFITS = 40, 4  # Of steps that mixtures are fitted to, and such mixtures.
_MAX_BESIDE_MOVES = 20  # In more coordinates moves by a gradient know more than steps.
_OF_STEPS = "particles of steps"
_ON_THE_WAY = 3  # Segments before the end.
_OF_PRIOR, _OF_WAY, _OF_EARLIER = 0.05, 0.15, 0.3  # Shares of the proposals.
_WIDE_DF = 5.0  # Of the one that is as wide as the prior.
_MAX_R_HAT, _MIN_DRAWS = 1.02, 100.0  # Chains are trusted up to here, and from so many draws on.


_UNSEEN = (
    "draws of the prior see a part of the posterior where there are no particles: raise n_particles"
)


_HEAVY = (
    "the weights of proposals that reach further have a heavy tail (k-hat {:.2f}), so that "
    "particles may miss a part of the posterior: raise n_particles"
)


class Attempt(NamedTuple):
    """What came of fitted proposals."""

    sound: bool  # Whether the last state is to be trusted.
    best: Outcome | None  # The best of those states that miss nothing, but whose weights failed.
    at_optima: Proposals | None
    path: list | None  # Records and particles of steps from the prior, as far as there are any.


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
    if np.isinf([lower, upper]).all():
        yield from _unbounded(model, start, scouts, batches, options, rng, gradient)
        return
    free = Unbounded(model, lower, upper)
    gradient = gradient and free.gradient(gradient)
    start, scouts = free.freed(start), scouts.freed(free, batches, options.power)
    support = (lower, upper) if np.isfinite(of_rows).any() else None
    for outcome in _unbounded(free, start, scouts, batches, options, rng, gradient):
        yield outcome._replace(particles=free.restored(outcome.particles), support=support)


def _unbounded(model, start, scouts, batches, options, rng, gradient):
    """The states where no coordinate has an edge; ``start`` are draws of the prior."""
    n = max(options.final_particles or options.n_particles, _MIN_PARTICLES)
    power = options.power
    if gradient is not None:
        check_gradient(gradient, scouts.log_joint, scouts.theta, scouts.values)
    settings = options.settings
    found = yield from _attempt(model, batches, scouts, n, power, settings, rng, gradient)
    if found.sound:
        return
    best, at_optima = found.best, found.at_optima
    if gradient is not None and at_optima is not None and at_optima.complete:
        likely = scouts.theta[np.argsort(-scouts.log_likelihood, kind="stable")]
        for last in _by_moves(model, gradient, at_optima, likely, n, power, rng):
            yield last
        chains = last.chains
        mixed = chains.r_hat <= _MAX_R_HAT and chains.ess >= _MIN_DRAWS
        if mixed and not chains.warming_up:
            return
    path = found.path
    if path is not None and path[-1][1].substep_bound_hit:
        path = None  # More steps may arrive.
    for last in _by_steps(model, batches, start, path, n, power, settings, rng):
        last = last._replace(notes={"method": "mirror steps on all data from prior"})
        yield last
    reasons = ()
    if found.path is not None and best is not None:
        reasons = (_HEAVY.format(_k(best)),)
    if best is not None and _ess(best) > _ess(last) and _k(best) < _k(last):
        last = best
    n_left_out = 0 if at_optima is None else scouts.n_left_out(at_optima, last, rng)
    reasons += (_UNSEEN,) if scouts.unseen(last) else ()
    yield last._replace(infos=[], n_left_out=n_left_out, reasons=reasons)


def _attempt(model, batches, scouts, n, power, settings, rng, gradient=None):
    """States of reweighting of all proposals that can be fitted, up to the first that do well.

    These are proposals at the optima, and along ridges where those fail. Unless all is plain,
    mixtures fitted to the particles of steps from the prior follow, which come from somewhere else.
    Returns the `Attempt`.
    """
    done, at_optima = [], None  # Outcomes that miss nothing, with their proposals.
    if not np.isfinite(scouts.values).any():
        return Attempt(False, None, None, None)
    for found in proposals_at_optima(
        scouts.log_joint, scouts.theta, scouts.values, scouts.log_likelihood, rng, gradient
    ):
        # Moves need no more than optima: what is between them they find by themselves.
        at_optima = found
        last = yield from _tried(model, batches, scouts, found, n, power, rng, done)
        if _ends_well(done, last):
            break
    witness = rng.spawn(1)[0]
    if _is_plain(done):
        plain = done[-1][1]
        agree = scouts.confirm(plain) or _quickly_confirmed(
            model, batches, scouts, plain, power, settings, witness
        )
        if agree or (agree is None and len(at_optima.optima) == 1):
            return Attempt(True, None, at_optima, None)
    if not any(_is_sound(outcome) for _, outcome in done):
        for found in proposals_along_ridges(
            scouts.log_joint, scouts.theta, scouts.log_likelihood,
            () if at_optima is None else at_optima.optima, rng, gradient,
        ):  # fmt: skip
            last = yield from _tried(model, batches, scouts, found, n, power, rng, done)
            if _ends_well(done, last):
                break
    path, earlier = None, done[-1][0] if done else at_optima
    if gradient is None or scouts.theta.shape[1] <= _MAX_BESIDE_MOVES:
        path = yield from _from_steps(
            model, batches, scouts, earlier, n, power, settings, witness, done
        )
    # Mixtures come with all proposals before: what they find unsound is.
    last = [(found, outcome) for found, outcome in done if found.to == _OF_STEPS] or done
    sound = [outcome for _, outcome in last if _is_sound(outcome) and _k(outcome) < _MAX_SOUND_K]
    if sound:
        yield min(sound, key=_k)._replace(infos=[])
        return Attempt(True, None, at_optima, None)
    best = max((outcome for _, outcome in last), key=_ess, default=None)
    return Attempt(False, best, at_optima, path)


def _tried(model, batches, scouts, found, n, power, rng, done):
    """States of reweighting, and the last of them. What misses nothing is added to ``done``."""
    last = yield from _by_weights(model, batches, found, n, power, rng)
    if last is not None and found.complete and not scouts.missed(found, last):
        if (last.disagreement or 0.0) <= _MAX_DISAGREEMENT:
            done.append((found, last))
    return last


def _ends_well(done, last):
    return bool(done) and done[-1][1] is last and _is_sound(last)


def _is_sound(outcome):
    return not is_thin(outcome.particles)


def _is_plain(done):
    """Whether the last weights are as even as where proposals at its optima fit a posterior."""
    return bool(done) and _is_sound(done[-1][1]) and _k(done[-1][1]) < _MAX_PLAIN_K


def _quickly_confirmed(model, batches, scouts, outcome, power, settings, rng):
    """Whether few particles agree that long steps with kernels by a rule of thumb have moved.

    None where these have not arrived: the rule is too wide for several modes, and few particles
    lose a posterior that is much narrower than the prior in some directions alone.
    """
    quick = settings._replace(
        max_substeps=_MAX_QUICK, ess_threshold=_QUICK_ESS,
        bandwidth="silverman", bandwidth_factor=1.0,
    )  # fmt: skip
    path = _path(model, batches, scouts, _N_QUICK, power, quick, rng)
    if path is None or path[-1][1].substep_bound_hit:
        return None
    particles = path[-1][0]
    if effective_sample_size(particles.log_ratio) < _MIN_QUICK:
        return None
    return not differences(outcome, Outcome(particles, [], reweighted=True), "")


def _path(model, batches, scouts, m, power, settings, rng):
    """Particles after each segment of a step from the prior to the posterior, and its record.

    There are none where the model has no number. The first are draws of the prior under a power of
    the likelihood.
    """
    start = scouts.tempered(0.5 * m)
    segments = mirror.segments(
        start, model, batches, 1.0, power, settings, rng, m, rejuvenate_first=True
    )
    try:
        return [(start, None), *counted(segments, "steps from the prior")]
    except FloatingPointError:
        return None


def _from_steps(model, batches, scouts, earlier, n, power, settings, rng, done):
    """States of reweighting of mixtures fitted to particles of steps, and of ``earlier`` proposals.

    A mixture fitted to particles on the way, where the posterior is wider, and one as wide as the
    prior keep its tails. Each mixture is fitted to the draws of the one before, until weights are
    even. What misses nothing is added to ``done``.
    """
    settings = settings._replace(max_substeps=min(settings.max_substeps, _MAX_SEGMENTS))
    path = once(
        "steps from the prior",
        lambda: _path(model, batches, scouts, n, power, settings, rng),
        rng,
    )
    if path is None:
        return None
    centre, spread = np.median(scouts.theta, axis=0), np.diag(scales(scouts.theta))
    parts, shares = [Proposal(centre, spread, _WIDE_DF)], [np.array([_OF_PRIOR])]
    on_the_way, particles = path[max(len(path) - 1 - _ON_THE_WAY, 0)][0], path[-1][0]
    if on_the_way is not particles:
        of_way, of_each = student_mixture.fit(on_the_way.theta, on_the_way.log_ratio, rng)
        parts, shares = parts + of_way, [*shares, _OF_WAY * of_each]
    if earlier is not None:
        parts, shares = parts + earlier.components, [*shares, _OF_EARLIER * earlier.shares]
    rest = 1.0 - np.concatenate(shares).sum()
    for _ in range(_REFITS):
        own, of_each = student_mixture.fit(particles.theta, particles.log_ratio, rng)
        mixed = np.concatenate([rest * of_each, *shares])
        mixed = Proposals(own + parts, mixed, True, _OF_STEPS)
        last = yield from _tried(model, batches, scouts, mixed, n, power, rng, done)
        if last is None or (_ends_well(done, last) and _is_plain(done)):
            break
        particles = last.particles
    return path


def _by_weights(model, batches, found, n, power, rng):
    """States of importance reweighting of draws from the proposals, in rounds.

    Returns the last of them, None where the tails of proposals reach where the model has no number.
    """
    notes = {"method": f"importance reweighting of proposals fitted to {found.to}"}
    last = None
    try:
        for outcome in importance_rounds(
            model, batches, found.components, found.shares, n, power, rng, _MIN_SHARE, _MIN_ESS
        ):
            # Proposals at several places are not to agree on a mean.
            gap = outcome.disagreement if len(found.components) == EACH else None
            last = outcome._replace(disagreement=gap, notes=notes)
            yield last
    except FloatingPointError:
        return None
    return last


def _by_moves(model, gradient, found, likely, n, power, rng):
    """States of Hamiltonian moves from around all optima, and from likely draws of the prior."""
    plain, shares = found.components[1::EACH], found.shares[1::EACH]
    start, largest = chain_draws.starts(plain, shares, rng, others=likely), plain[0]
    for outcome in chain_draws.moved(
        model, gradient, start, largest.mean, largest.factor, n, power, rng
    ):
        yield outcome._replace(
            notes={"method": "Hamiltonian moves from proposals fitted to values"}
        )


def _by_steps(model, batches, start, path, n, power, settings, rng):
    """States of a step of a = 1 from a known density, and of the reweighting at its end.

    Where the ``path`` of such a step is known it is not taken again.
    """
    if path is None:
        segments = mirror.segments(start, model, batches, 1.0, power, settings, rng)
    else:
        segments = path[-1:]
    for last in segments:
        yield Outcome(last[0], [])  # What Ctrl-C leaves; the record is that of the whole step.
    particles, info = last
    yield Outcome(particles, [info], reweighted=info.substep_bound_hit)
    if info.substep_bound_hit:  # The rest of the step has weighed the particles already.
        return
    for rejuvenated, info in reweighting(particles, model, batches, power, settings, rng, n):
        yield Outcome(rejuvenated, [info], True)


def is_thin(particles):
    """Whether weights have failed: few particles have them all, or too much is in a few."""
    log_ratio = particles.log_ratio
    if effective_sample_size(log_ratio) < min(_MIN_SHARE * len(log_ratio), _ENOUGH):
        return True
    return heavy_tail(log_ratio, pareto_k(log_ratio))


def _ess(outcome):
    return effective_sample_size(outcome.particles.log_ratio)


def _k(outcome):
    return pareto_k(outcome.particles.log_ratio)
