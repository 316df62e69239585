"""A fit from values of the density alone: proposals fitted at its optima, or steps from the prior.

It is one algorithm whatever the start: q begins at a density that is known, and a step of a = 1
takes it to the posterior. From proposals that fit well that step is importance reweighting, taken
whole; from the prior the effective sample size splits it, and the particles are rejuvenated on the
way. Steps from proposals that do not fit were worse than those from the prior: what such proposals
miss is missed by the steps too, and no weight shows it.
"""

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.diagnostics import heavy_tail, log_evidence, pareto_k
from skpmd.engine.importance import Proposal, mixture_log_density
from skpmd.engine.loop import Outcome
from skpmd.engine.optima import optima
from skpmd.engine.particles import draw_prior, effective_sample_size, weights
from skpmd.engine.reweight import proposal_rounds, reweighting
from skpmd.engine.sinh_arcsinh import along

_TARGET_ESS = 0.6  # No further round is drawn once this share of the particles is effective.
_MIN_ESS = 100.0  # Pairs are antithetic: a sd is known from half as many draws as there are.
_MAX_ROUNDS = 10
_MIN_SHARE = 0.05  # With a smaller share effective, or a heavy tail, weights have failed.
_EACH = 2  # An optimum has so many components,
_TAIL_DF = 5.0  # and the second has Student tails.
_SKEWED, _PLAIN = 0.6, 0.4  # Shares of the two.
_MIN_MASS = 0.02  # Each optimum has this share of the draws, at least.
_MAX_DIMENSIONS = 100  # In more of them a Hessian takes longer than what it gains.
_MIN_POINTS = 256  # A search hands over so many points at once, at most, or n_particles.
_MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_MISSED_NATS = 3.0  # The mixture misses a draw of the prior where it is so much too thin,
_MISSED_SHARE = 0.05  # and a part of the posterior where such draws have this share of the mass.


def from_values(model, batches, options, rng):
    """The states of a fit, for `skpmd.engine.loop.drive`.

    The draws of the prior show where the searches start, and later whether the proposals miss a
    part of what they see of the posterior.
    """
    n, power = options.final_particles or options.n_particles, options.power
    start = draw_prior(model, options.n_particles, rng)

    # What weighs the draws of the prior.
    seen = power * mirror.log_likelihood_inside(model, start.theta, batches, start.log_prior)
    values = start.log_prior + seen
    log_joint = _searchable(model, batches, power, max(_MIN_POINTS, len(values)))
    components, shares, complete = fitted_proposals(log_joint, start.theta, values, seen)
    before = None
    try:
        if components:
            for before in _by_weights(model, batches, components, shares, n, power, rng):
                yield before
    except FloatingPointError:  # The tails of proposals reach where the model has no number.
        before = None
    if before is not None:
        failed = not complete or (before.disagreement or 0.0) > _MAX_DISAGREEMENT
        failed |= _missed(components, shares, start.theta, values, seen, before)
        if not (failed or _is_thin(before.particles)):
            return
    for after in _by_steps(model, batches, start, n, power, options.settings, rng):
        yield after._replace(notes={"method": "mirror steps on all data from prior"})
    if before is not None and not failed and _ess(before) > _ess(after) and _k(before) < _k(after):
        yield before._replace(infos=[])


def _searchable(model, batches, power, n_points):
    """The log joint density for searches, which go where no particle would.

    Points come in pieces, as many at once as particles do. Where a model has no number, the density
    is zero, and its overflows are of no interest.
    """

    def piece(theta):
        try:
            log_prior = model.log_prior(theta)
            seen = mirror.log_likelihood_inside(model, theta, batches, log_prior)
        except FloatingPointError:
            if len(theta) == 1:
                return np.array([-np.inf])
            return np.concatenate([piece(point[None]) for point in theta])
        return log_prior + power * seen

    def log_joint(theta):
        pieces = [theta[i : i + n_points] for i in range(0, len(theta), n_points)]
        with np.errstate(all="ignore"):
            return np.concatenate([piece(some) for some in pieces])

    return log_joint


def _by_weights(model, batches, components, shares, n, power, rng):
    """States of importance reweighting of draws from the proposals, in rounds."""
    notes = {"method": "importance reweighting of proposals fitted to values"}
    rounds = proposal_rounds(
        model, batches, components, shares, power, rng,
        n=n,
        max_rounds=_MAX_ROUNDS,
        target_ess=max(_TARGET_ESS * n, _MIN_ESS),
        min_first_ess=_MIN_SHARE * n,
    )  # fmt: skip
    for draws, info, gap in rounds:
        # Each of several optima has proposals of its own, which are not to agree on a mean.
        gap = gap if len(components) == _EACH else None
        yield Outcome(draws.particles, [info], True, pair=draws.pair, disagreement=gap, notes=notes)


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


def fitted_proposals(log_joint, draws, values, log_likelihood):
    """Components of a mixture, their shares, and whether they are all; none where none are found.

    Each optimum has a Gaussian with the skewness of slices along its axes, and one with Student
    tails.
    """
    d = draws.shape[1]
    if d > _MAX_DIMENSIONS:
        return [], np.empty(0), True
    found, complete = optima(log_joint, draws, values, log_likelihood)
    if not found:
        return [], np.empty(0), complete
    components, shares = [], []
    mass = np.exp([one.log_mass - found[0].log_mass for one in found])
    mass = np.maximum(mass / mass.sum(), _MIN_MASS)
    for one, share in zip(found, mass / mass.sum(), strict=True):
        mean, chol = one.gaussian
        axes, lengths, _ = np.linalg.svd(chol)
        components.append(along(mean, axes * lengths, np.arange(d), log_joint))
        components.append(Proposal(mean, chol, _TAIL_DF))
        shares += [_SKEWED * share, _PLAIN * share]
    return components, np.array(shares), complete


def _missed(components, shares, draws, values, log_likelihood, outcome):
    """Whether draws of the prior see a part of the posterior where the mixture has nothing."""
    alive = np.isfinite(values)
    evidence, _ = log_evidence(outcome.particles.log_ratio, outcome.pair)
    log_ratio = values[alive] - mixture_log_density(components, shares, draws[alive])
    thin = log_ratio > evidence + _MISSED_NATS
    return weights(log_likelihood[alive])[thin].sum() > _MISSED_SHARE


def _is_thin(particles):
    """Whether weights have failed: few particles have them all, or too much is in a few."""
    log_ratio = particles.log_ratio
    if effective_sample_size(log_ratio) < _MIN_SHARE * len(log_ratio):
        return True
    return heavy_tail(log_ratio, pareto_k(log_ratio))


def _ess(outcome):
    return effective_sample_size(outcome.particles.log_ratio)


def _k(outcome):
    return pareto_k(outcome.particles.log_ratio)
