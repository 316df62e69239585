"""Draws of a kernel's hyperparameters from their posterior, and around its mode.

Rows may say so little that the posterior fills the bounds of the kernel and has its mass at their
edges, or so much that no draw of the prior lies near it, and it may have a mode of long waves and
much noise beside one of short waves and little. So draws come from a mixture: the prior, Student
distributions at the optima of searches, and, round by round, Student kernels around the draws of
the largest weight so far (population Monte Carlo; Cappe, Guillin, Marin and Robert 2004). All draws
are weighed by the whole mixture (Owen and Zhou 2000), of which the prior is a part: weights are
bounded, and the evidence is right whatever the kernels miss. Where rows are many the mixture begins
at the optimum alone, for the posterior is near it.

For predictions of more than few rows one round around the best is enough.
"""

from typing import Any, NamedTuple

import numpy as np

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine import mirror
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.particles import Particles, effective_sample_size, resample, weights
from skpmd.sparse_gp._descent import descended, objective_of

_STEP = 1e-4  # Of the differences that approximate second derivatives, in widths.
_APART = 9.0  # Searches start from draws that lie so far from known optima, in squared sds.
# Kernels of a round lie around so many draws, which are drawn by weights that are flattened until
# so many are effective, and are so much smaller than all draws together; some more are as wide.
_KERNELS, _EFFECTIVE, _NARROW = 12, 30.0, 0.25
_WIDE, _WIDER = 6, 1.5
# Draws of a round for a posterior, and for predictions: with more rows than the first number an
# evaluation takes long, and there are fewer, down to the last number.
_CHEAP_ROWS, _DRAWS, _DRAWS_FOR_PREDICTIONS = 120, (1000, 400), (240, 60)
# Rounds for a posterior end where so many draws are effective, and so many at least for each
# particle; those for predictions where so many are for each.
_ENOUGH, _ENOUGH_FOR_EACH = 600.0, 2.0
_FROM_PRIOR = 64  # Draws of the prior for predictions.
_RIDGE = 1e-8  # Of a covariance, relative to the squared widths of the prior's draws.
_DF = 8.0  # Degrees of freedom of the mixture's proposals.
_DF_AROUND, _DRAWS_AROUND = 10.0, 20  # Of the one round around the best, for each particle.


class Target(NamedTuple):
    """A posterior of hyperparameters."""

    prior: Any  # A `HyperPrior` or `Shrunk`, in whose coordinates u draws are.
    # evidence(theta, gradient): the log likelihood at theta (d,), with ``gradient`` its slope too.
    evidence: Any

    def values(self, u):
        """Log prior and log joint densities (m,); -inf off the support, where none is taken."""
        with np.errstate(all="ignore"):
            log_prior = _known(self.prior.log_density(u))
            inside, likelihood = np.isfinite(log_prior), np.full(len(u), -np.inf)
            thetas = self.prior.inward(u[inside])
            found = each(lambda one: self.evidence(one, gradient=False), thetas)
        likelihood[inside] = _known(np.array(found))
        return log_prior, likelihood + log_prior

    def value_and_slope(self, u):
        """Log joint density and its gradient at u (d,)."""
        with np.errstate(all="ignore"):
            value, slope = self.evidence(self.prior.inward(u[None])[0], gradient=True)
            return value + self.prior.log_density(u[None])[0], self.prior.slope(u, slope)


class Plan(NamedTuple):
    """How many draws there are, and how many searches for optima of how many evaluations."""

    of_prior: int
    of_optima: int  # Of all of them together.
    of_round: int
    enough: float  # Rounds end where so many draws are effective.
    n_rounds: int  # At most.
    n_starts: int
    n_evaluations: int


def _known(values):
    """Log densities, -inf where there is no number."""
    return np.where(np.isnan(values), -np.inf, values)


class _Pool(NamedTuple):
    """All draws so far, and the mixture that they came from."""

    u: np.ndarray  # (m, d)
    log_prior: np.ndarray  # (m,)
    log_joint: np.ndarray  # (m,)
    log_sum: np.ndarray  # (m,): Log of the sum of the parts' densities, times their draws.
    parts: list  # [(proposal, draws)]; None stands for the prior.

    @property
    def log_pi(self):
        """Log density of the mixture at each draw, (m,)."""
        return self.log_sum - np.log(len(self.u))

    @property
    def log_ratio(self):
        """Log of the joint density over that of the mixture at each draw, (m,)."""
        known = np.isfinite(self.log_joint)
        return np.where(known, self.log_joint - self.log_pi, -np.inf)

    @property
    def ess(self):
        """Effective sample size."""
        return effective_sample_size(self.log_ratio)

    @property
    def widths(self):
        """Standard deviations (d,) of the draws of the first part."""
        return self.u[: self.parts[0][1]].std(axis=0)

    def outcome(self, infos=()):
        """The draws as an `Outcome`, after those whose records are given."""
        no_block = np.empty((len(self.u), 0))
        particles = Particles(self.u, self.log_ratio, self.log_pi, self.log_prior, no_block)
        info = mirror.StepInfo(
            a=1.0, b=1.0, fraction=1.0, substeps=0, substep_bound_hit=False, rejuvenations=0,
            bandwidth=np.nan, ess=self.ess, n_particles=len(self.u),
        )  # fmt: skip
        notes = {"method": "adaptive importance sampling"}
        return Outcome(particles, [*infos, info], True, findings=Findings(notes=notes))


def _log_sum(target, parts, u):
    with np.errstate(divide="ignore"):
        of_parts = [
            np.log(n) + (target.prior.log_density(u) if one is None else log_density(one, u))
            for one, n in parts
        ]
    return np.logaddexp.reduce(of_parts, axis=0)


def _joined(target, pool, proposals, size, rng):
    """The pool and ``size`` draws or so from further proposals, dealt out alike; None has none."""
    n = max(2, 2 * round(size / (2 * len(proposals))))
    new = [(one, n) for one in proposals]
    u = np.concatenate([_drawn(target, *one, rng) for one in new])
    log_prior, log_joint = target.values(u)
    if pool is None:
        return _Pool(u, log_prior, log_joint, _log_sum(target, new, u), new)
    parts = [*pool.parts, *new]
    before = np.logaddexp(pool.log_sum, _log_sum(target, new, pool.u))
    log_sum = np.concatenate([before, _log_sum(target, parts, u)])
    pairs = zip(pool[:3], (u, log_prior, log_joint), strict=True)
    return _Pool(*map(np.concatenate, pairs), log_sum, parts)


def _drawn(target, proposal, n, rng):
    return target.prior.sample(rng, n) if proposal is None else draw(proposal, n, rng)


# ---------------------------------------------------------------------- curvature
def proposal_at(slope_at, mode, widths, df=_DF):
    """A Student proposal of the curvature at a mode, none of whose directions is wider than widths.

    A direction of which the rows say nothing has no curvature. At an edge it may have the wrong
    sign, and where columns are huge or tiny beyond reason, rounding leaves no number.
    """
    steps = _STEP * np.diag(widths)
    slopes, d = np.array(each(slope_at, [*(mode + steps), *(mode - steps)])), len(mode)
    with np.errstate(invalid="ignore"):
        hessian = (slopes[d:] - slopes[:d]) / (2.0 * _STEP) * widths
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (hessian + hessian.T)))
    root = vectors / np.sqrt(np.maximum(values, 1.0))
    return Proposal(mode, widths[:, None] * np.linalg.cholesky(root @ root.T), df)


def _squares(proposal, u):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (u - proposal.mean).T) ** 2).sum(axis=0)


# ---------------------------------------------------------------------- rounds
def _size(n_rows, most, fewest):
    return int(np.clip(most * (_CHEAP_ROWS / n_rows) ** 2, fewest, most))


def states_of_posterior(target, theta, n_rows, m, rng):
    """States of importance sampling, good for m particles, for `skpmd.engine.loop.drive`.

    ``theta`` (d,) are the best hyperparameters by the likelihood of n rows alone.
    """
    size = _size(n_rows, *_DRAWS)
    enough = max(min(_ENOUGH, size), float(m))
    return _states(target, theta, Plan(2 * size, size, size, enough, 12, 4, 60), rng)


@phase("draws of kernels")
def draw_from_posterior(target, theta, n_rows, m, rng):
    """The best hyperparameters theta (d,), and draws of their posterior; shape (m, d)."""
    if m == 1 or not len(theta):
        return np.tile(theta, (m, 1))
    size = _size(n_rows, *_DRAWS_FOR_PREDICTIONS)
    of_optima = size + _DRAWS_FOR_PREDICTIONS[1]
    plan = Plan(_FROM_PRIOR, of_optima, size, _ENOUGH_FOR_EACH * m, 4, 2, 40)
    *_, last = _states(target, theta, plan, rng)
    found = last.particles
    if not np.isfinite(found.log_ratio).any():
        return np.tile(theta, (m, 1))
    draws = target.prior.inward(resampled(found.log_ratio, found.theta, m - 1, rng))
    return np.concatenate([theta[None], draws])


def _states(target, theta, plan, rng):
    def states(at):
        if at is None:
            pool = _begun(target, theta, plan, rng)
            at = pool, pool.outcome().infos
        pool, infos = at
        yield pool.outcome()._replace(infos=infos), at
        while len(infos) <= plan.n_rounds and pool.ess < plan.enough:
            pool = _with_kernels(target, pool, plan.of_round, rng)
            outcome = pool.outcome(infos)
            infos = outcome.infos
            yield outcome._replace(infos=infos[-1:]), (pool, infos)

    return resumable(states, rng)


def _begun(target, theta, plan, rng):
    pool = _of_prior(target, plan.of_prior, rng)
    found = _optima(target, pool, theta, plan)
    return _joined(target, pool, found, plan.of_optima, rng) if found else pool


@phase("values at draws of the prior")
def _of_prior(target, size, rng):
    return _joined(target, None, [None], size, rng)


@phase("search for optima")
def _optima(target, pool, theta, plan):
    """Student distributions at optima of the joint density."""
    widths, left, found = pool.widths, np.isfinite(pool.log_joint), []
    objective, start = objective_of(target.value_and_slope), target.prior.outward(theta)
    for _ in range(plan.n_starts):
        end = descended(objective, start, target.prior.bounds, plan.n_evaluations).theta
        proposal = proposal_at(lambda u: target.value_and_slope(u)[1], end, widths)
        if all(_squares(one, end[None])[0] > 1.0 for one in found):
            found.append(proposal)
        left &= (_squares(proposal, pool.u) > _APART) & (
            _squares(Proposal(start, np.diag(widths)), pool.u) > 1.0
        )
        if not left.any():
            break
        start = pool.u[np.argmax(np.where(left, pool.log_joint, -np.inf))]
    return found


@phase("draws around the best so far")
def _with_kernels(target, pool, size, rng):
    """The pool with draws from kernels around those of the largest weights."""
    log_ratio, power = pool.log_ratio, 1.0
    while power > 1e-3 and effective_sample_size(power * log_ratio) < _EFFECTIVE:
        power *= 0.7
    w = weights(power * log_ratio)
    mean = w @ pool.u
    away = pool.u - mean
    factor = np.linalg.cholesky((w * away.T) @ away + _RIDGE * np.diag(pool.widths**2))
    centres = pool.u[resample("systematic", w, _KERNELS, rng)]
    narrow = [Proposal(one, np.sqrt(_NARROW) * factor, _DF) for one in centres]
    wide = [Proposal(mean, np.sqrt(_WIDER) * factor, _DF)] * _WIDE
    return _joined(target, pool, [*narrow, *wide], size, rng)


def resampled(log_ratio, u, m, rng):
    """Equally weighted hyperparameters, (m, d), of weighted ones."""
    return u[resample("systematic", weights(log_ratio), m, rng)]


# ---------------------------------------------------------------------- one round around the best
@phase("draws of hyperparameters")
def draw_around(target, theta, m, rng):
    """The best hyperparameters, and draws of their posterior around them.

    Draws from a Student proposal, with the curvature of the log evidence of a few rows, are weighed
    by it and resampled. The evidence of many rows may have refined theta away from the mode of
    those: their log likelihood is then tilted by its slope at theta, which makes theta a mode and
    leaves the curvature. The result, of shape (m, d), begins with theta.
    """
    if m == 1 or not len(theta):
        return np.tile(theta, (m, 1))
    evidence, prior = target.evidence, target.prior

    def slope_at(one):
        return evidence(one, gradient=True)[1]

    slope, (low, high) = slope_at(theta), prior.bounds.T
    draws, log_proposal = around(slope_at, theta, _DRAWS_AROUND * m, prior.bounds, rng)
    values = each(lambda one: evidence(one, gradient=False), draws)
    # At a bound of theta a slope that points outwards is that of the mode.
    outwards = ((theta <= low) & (slope < 0.0)) | ((theta >= high) & (slope > 0.0))
    tilt = (draws - theta) @ np.where(outwards, 0.0, slope)
    log_prior = prior.log_density(draws)
    if not np.isfinite(log_prior).any():
        raise ValueError(
            "hyperprior has no mass at any draw around the fitted hyperparameters "
            f"{np.exp(theta)}: widen it, or set n_particles=1, which does without it."
        )
    log_weight = np.array(values) - tilt
    log_weight += log_prior - log_proposal
    if not np.isfinite(log_weight).any():
        return np.tile(theta, (m, 1))
    return np.concatenate([theta[None], resampled(log_weight, draws, m - 1, rng)])


def around(slope_at, theta, n, bounds, rng):
    """Draws (n, d) around a mode, clipped to bounds (d, 2), and their log densities (n,)."""
    proposal = proposal_at(slope_at, theta, np.ones(len(theta)), _DF_AROUND)
    draws = np.clip(draw(proposal, n + n % 2, rng)[:n], *bounds.T)
    return draws, log_density(proposal, draws)
