"""A fit of a density by its values: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are rejuvenated on the
way. Steps from proposals that do not fit were worse than those from the prior: what such proposals
miss is missed by the steps too, and no weight shows it. Where the gradient is known Hamiltonian
moves come before the steps: they start from around all optima, and R-hat shows where they do not
mix.
"""

import numpy as np

from skpmd.engine import chain_draws, mirror
from skpmd.engine.derivatives import check_gradient
from skpmd.engine.diagnostics import heavy_tail, log_evidence, pareto_k
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.fitted_proposals import EACH, fitted_proposals
from skpmd.engine.importance import mixture_log_density
from skpmd.engine.importance_rounds import importance_rounds
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import draw_prior, effective_sample_size, weights
from skpmd.engine.reweight import reweighting

_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
# With a smaller share effective, and fewer draws, or a heavy tail, weights have failed.
_MIN_SHARE, _ENOUGH = 0.05, 1000.0
_MIN_POINTS = 256  # A search hands over so many points at once, at most, or n_particles.
_MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_MISSED_NATS = 3.0  # The mixture misses a draw of the prior where it is so much too thin,
_MISSED_SHARE = 0.05  # and a part of the posterior where such draws have this share of the mass.
_ON_THE_WAY, _LEVEL = 16, 0.1  # Points between an optimum and a particle, and nats.
_LEFT_OUT = 0.1  # A mode with a smaller share of its Laplace mass has been left out.
_MAX_R_HAT, _MIN_DRAWS = 1.02, 100.0  # Chains are trusted up to here, and from so many draws on.


def from_values(model, batches, options, rng, gradient=None):
    """The states of a fit, for `skpmd.engine.loop.drive`.

    ``gradient`` maps points (k, d) to log joint densities (k,) and their gradients (k, d), where it
    is known. Coordinates with edges are replaced by others without (`skpmd.engine.edges`).
    """
    start = draw_prior(model, options.n_particles, rng)
    lower, upper = edges(without_errors(model.log_prior), start.theta)
    if np.isinf([lower, upper]).all():
        yield from _unbounded(model, start, batches, options, rng, gradient)
        return
    free = Unbounded(model, lower, upper)
    gradient = gradient and free.gradient(gradient)
    for outcome in _unbounded(free, free.freed(start), batches, options, rng, gradient):
        yield outcome._replace(particles=free.restored(outcome.particles))


def _unbounded(model, start, batches, options, rng, gradient):
    """The states where no coordinate has an edge.

    The draws of the prior ``start`` show where the searches start, and later whether the proposals
    miss a part of what they see of the posterior.
    """
    n, power = options.final_particles or options.n_particles, options.power

    # What weighs the draws of the prior.
    seen = power * mirror.log_likelihood_inside(model, start.theta, batches, start.log_prior)
    values = start.log_prior + seen
    log_joint = _searchable(model, batches, power, max(_MIN_POINTS, len(values)))
    if gradient is not None:
        check_gradient(gradient, log_joint, start.theta, values)
    best, at_optima = None, None
    for found in fitted_proposals(log_joint, start.theta, values, seen, rng, gradient):
        # Moves need no more than optima: what is between them they find by themselves.
        at_optima = at_optima if found.along_ridge else found
        last = yield from _by_weights(model, batches, found, n, power, rng)
        if last is None:
            continue
        unseen = not found.complete or _missed(found, start.theta, values, seen, last)
        if not (unseen or (last.disagreement or 0.0) > _MAX_DISAGREEMENT):
            if not _is_thin(last.particles):
                return
            best = last if best is None or _ess(last) > _ess(best) else best
    if gradient is not None and at_optima is not None and at_optima.complete:
        likely = start.theta[np.argsort(-seen, kind="stable")]
        for last in _by_moves(model, gradient, at_optima, likely, n, power, rng):
            yield last
        if last.chains.r_hat <= _MAX_R_HAT and last.chains.ess >= _MIN_DRAWS:
            return
    for last in _by_steps(model, batches, start, n, power, options.settings, rng):
        last = last._replace(notes={"method": "mirror steps on all data from prior"})
        yield last
    if best is not None and _ess(best) > _ess(last) and _k(best) < _k(last):
        last = best
    n_left_out = 0
    if at_optima is not None:
        n_left_out = _n_left_out(at_optima, last.particles, log_joint)
    yield last._replace(infos=[], n_left_out=n_left_out)


def _searchable(model, batches, power, n_points):
    """The log joint density for searches, which go where no particle would.

    Points come in pieces, as many at once as particles do. Where a model has no number, the density
    is zero, and its overflows are of no interest.
    """

    def some_of(theta):
        log_prior = model.log_prior(theta)
        return log_prior + power * mirror.log_likelihood_inside(model, theta, batches, log_prior)

    piece = without_errors(some_of)

    def log_joint(theta):
        pieces = [theta[i : i + n_points] for i in range(0, len(theta), n_points)]
        with np.errstate(all="ignore"):
            return np.concatenate([piece(some) for some in pieces])

    return log_joint


def without_errors(function):
    """A function of points (k, d) that is -inf where it has no number."""

    def values(theta):
        try:
            return function(theta)
        except FloatingPointError:
            if len(theta) == 1:
                return np.array([-np.inf])
            return np.concatenate([values(point[None]) for point in theta])

    return values


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


def _missed(found, draws, values, log_likelihood, outcome):
    """Whether draws of the prior see a part of the posterior where the mixture has nothing."""
    alive = np.isfinite(values)
    evidence, _ = log_evidence(outcome.particles.log_ratio, outcome.pair)
    log_ratio = values[alive] - mixture_log_density(found.components, found.shares, draws[alive])
    thin = log_ratio > evidence + _MISSED_NATS
    return weights(log_likelihood[alive])[thin].sum() > _MISSED_SHARE


def _n_left_out(found, particles, log_joint):
    """How many of the optima that a search has found have next to no particles around them.

    Mirror steps may lose a narrow mode on the way, and no weight shows it. Optima from where the
    way to the nearest particle is level lie on one plateau with it, and are no modes of their own.
    """
    plain, mass = found.components[1::EACH], found.shares[1::EACH] / found.shares[1::EACH].sum()
    w, d = weights(particles.log_ratio), particles.theta.shape[1]
    near = [
        w[
            ((np.linalg.solve(one.factor, (particles.theta - one.mean).T)) ** 2).sum(axis=0)
            < 9.0 * d
        ]
        for one in plain
    ]
    left_out = [
        share > _MISSED_SHARE
        and around.sum() < _LEFT_OUT * share
        and not _is_level(one, particles.theta, log_joint)
        for one, around, share in zip(plain, near, mass, strict=True)
    ]
    return sum(left_out) if len(plain) > 1 else 0


def _is_level(proposal, theta, log_joint):
    """Whether the density falls next to nowhere between an optimum and the nearest particle."""
    away = theta - proposal.mean
    nearest = away[np.argmin((np.linalg.solve(proposal.factor, away.T) ** 2).sum(axis=0))]
    values = log_joint(proposal.mean + np.linspace(0.0, 1.0, _ON_THE_WAY)[:, None] * nearest)
    return bool(values[0] - values.min() < _LEVEL)


def _is_thin(particles):
    """Whether weights have failed: few particles have them all, or too much is in a few."""
    log_ratio = particles.log_ratio
    if effective_sample_size(log_ratio) < min(_MIN_SHARE * len(log_ratio), _ENOUGH):
        return True
    return heavy_tail(log_ratio, pareto_k(log_ratio))


def _ess(outcome):
    return effective_sample_size(outcome.particles.log_ratio)


def _k(outcome):
    return pareto_k(outcome.particles.log_ratio)
