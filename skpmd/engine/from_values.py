"""A fit of a density by its values: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are rejuvenated on the
way. Steps from proposals that do not fit were worse than those from the prior: what such proposals
miss is missed by the steps too, and no weight shows it. Where the gradient is known Hamiltonian
moves come before the steps: they start from around all optima, and R-hat shows where they do not
mix.
"""

from typing import NamedTuple

import numpy as np

from skpmd.engine import chain_draws, mirror
from skpmd.engine.derivatives import check_gradient
from skpmd.engine.diagnostics import heavy_tail, pareto_k
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.fitted_proposals import EACH, Proposals, fitted_proposals
from skpmd.engine.importance_rounds import importance_rounds
from skpmd.engine.loop import Outcome
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
_MAX_R_HAT, _MIN_DRAWS = 1.02, 100.0  # Chains are trusted up to here, and from so many draws on.


_UNSEEN = (
    "draws of the prior see a part of the posterior where there are no particles: raise n_particles"
)


class Attempt(NamedTuple):
    """What came of fitted proposals."""

    sound: bool  # Whether the last state is to be trusted.
    best: Outcome | None  # The best of those states that miss nothing, but whose weights failed.
    at_optima: Proposals | None


def from_values(model, batches, options, rng, gradient=None):
    """The states of a fit, for `skpmd.engine.loop.drive`.

    ``gradient`` maps points (k, d) to log joint densities (k,) and their gradients (k, d), where it
    is known. Coordinates with edges are replaced by others without (`skpmd.engine.edges`).
    """
    start = draw_prior(model, max(options.n_particles, _MIN_PARTICLES), rng)
    lower, upper = edges(without_errors(model.log_prior), start.theta)
    if np.isinf([lower, upper]).all():
        yield from _unbounded(model, start, batches, options, rng, gradient)
        return
    free = Unbounded(model, lower, upper)
    gradient = gradient and free.gradient(gradient)
    for outcome in _unbounded(free, free.freed(start), batches, options, rng, gradient):
        yield outcome._replace(particles=free.restored(outcome.particles))


def _unbounded(model, start, batches, options, rng, gradient):
    """The states where no coordinate has an edge; ``start`` are draws of the prior."""
    n = max(options.final_particles or options.n_particles, _MIN_PARTICLES)
    power = options.power
    scouts = scouted(model, start, batches, power, rng)
    if gradient is not None:
        check_gradient(gradient, scouts.log_joint, scouts.theta, scouts.values)
    found = yield from _attempt(model, batches, scouts, n, power, rng, gradient)
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
    for last in _by_steps(model, batches, start, n, power, options.settings, rng):
        last = last._replace(notes={"method": "mirror steps on all data from prior"})
        yield last
    if best is not None and _ess(best) > _ess(last) and _k(best) < _k(last):
        last = best
    n_left_out = 0 if at_optima is None else scouts.n_left_out(at_optima, last, rng)
    reasons = (_UNSEEN,) if scouts.unseen(last) else ()
    yield last._replace(infos=[], n_left_out=n_left_out, reasons=reasons)


def _attempt(model, batches, scouts, n, power, rng, gradient=None):
    """States of reweighting of all proposals that can be fitted, up to the first that do well.

    Returns the `Attempt`.
    """
    best, at_optima = None, None
    for found in fitted_proposals(
        scouts.log_joint, scouts.theta, scouts.values, scouts.log_likelihood, rng, gradient
    ):
        # Moves need no more than optima: what is between them they find by themselves.
        at_optima = at_optima if found.along_ridge else found
        last = yield from _by_weights(model, batches, found, n, power, rng)
        if last is None:
            continue
        unseen = not found.complete or scouts.missed(found, last)
        if not (unseen or (last.disagreement or 0.0) > _MAX_DISAGREEMENT):
            if not is_thin(last.particles):
                return Attempt(True, None, at_optima)
            best = last if best is None or _ess(last) > _ess(best) else best
    return Attempt(False, best, at_optima)


def _by_weights(model, batches, found, n, power, rng):
    """States of importance reweighting of draws from the proposals, in rounds.

    Returns the last of them, None where the tails of proposals reach where the model has no number.
    """
    where = " along a ridge" if found.along_ridge else ""
    notes = {"method": f"importance reweighting of proposals fitted to values{where}"}
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


def _by_steps(model, batches, start, n, power, settings, rng):
    """States of a step of a = 1 from a known density, and of the reweighting at its end."""
    for last in mirror.segments(start, model, batches, 1.0, power, settings, rng):
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
