"""The posterior over kernels of an exact process, by adaptive importance sampling.

Few rows may say so little that the posterior fills the bounds of the kernel and has its mass at
their edges, or so much that no draw of the prior lies near it, and it may have a mode of long waves
and much noise beside one of short waves and little. So draws come from a mixture: the prior,
Student distributions at the optima of searches that start from draws of the prior, and, round by
round, Student kernels around the draws of the largest weight so far (population Monte Carlo; Cappe,
Guillin, Marin and Robert 2004). All draws are weighed by the whole mixture (Owen and Zhou 2000), of
which the prior is a part: weights are bounded, and the evidence is right whatever the kernels miss.
"""

import numpy as np

from skpmd._runtime.call import phase
from skpmd.engine import mirror
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.loop import Outcome, resumable
from skpmd.engine.particles import Particles, effective_sample_size, weights
from skpmd.engine.resampling import resample
from skpmd.sparse_gp._descent import descended
from skpmd.sparse_gp._exact_evidence import IMPOSSIBLE

# Draws of a round, of the prior twice as many: with more rows than the first number an evaluation
# takes long, and there are fewer, down to the last number.
_CHEAP_ROWS, _DRAWS, _FEWEST = 120, 1000, 400
# Rounds end where so many draws are effective, and so many at least for each particle.
_ENOUGH, _MAX_ROUNDS = 600.0, 12
_STARTS, _EVALUATIONS = 4, 60  # So many searches for optima, of so many evaluations each.
_APART = 9.0  # They start from draws that lie so far from known optima, in squared sds.
_STEP = 1e-4  # Of the differences that approximate second derivatives.
_DF = 5.0  # Degrees of freedom of all proposals.
# Kernels of a round lie around so many draws, which are drawn by weights that are flattened until
# so many are effective, and are so much smaller than all draws together; some more are as wide.
_KERNELS, _EFFECTIVE, _NARROW = 24, 60.0, 0.35
_WIDE, _WIDER = 6, 1.5
_RIDGE = 1e-8  # Of a covariance, relative to the squared widths of the prior's draws.


def states_of_kernels(model, n, rng):
    """States of adaptive importance sampling, for `skpmd.engine.loop.drive`.

    ``model`` is an `ExactProcess`. Rounds go on until the weights of so many draws as ``n``
    particles need are effective.
    """
    n_rows = len(model.sample.weight)
    size = int(np.clip(_DRAWS * (_CHEAP_ROWS / n_rows) ** 2, _FEWEST, _DRAWS))
    enough = max(min(_ENOUGH, size), float(n))

    def states(at):
        if at is None:
            pool = _with_optima(model, _first(model, 2 * size, rng), size, rng)
            at = pool, pool.outcome().infos
        pool, infos = at
        yield pool.outcome()._replace(infos=infos), at
        while len(infos) <= _MAX_ROUNDS and pool.ess() < enough:
            pool = _with_kernels(model, pool, size, rng)
            outcome = pool.outcome()
            infos = [*infos, *outcome.infos]
            yield outcome, (pool, infos)

    return resumable(states, rng)


class _Pool:
    """All draws so far, and the mixture that they came from."""

    def __init__(self, theta, log_prior, log_likelihood, proposals, counts):
        # Of the mixture the prior is the first part; ``counts`` are the draws of each.
        self.theta, self.log_prior, self.log_likelihood = theta, log_prior, log_likelihood
        self.proposals, self.counts = proposals, counts

    def joined(self, model, proposals, size, rng):
        """These and ``size`` draws or so from further proposals, dealt out alike."""
        each_one = max(2, 2 * round(size / (2 * len(proposals))))
        theta = np.concatenate([draw(one, each_one, rng) for one in proposals])
        log_prior, log_likelihood = _valued(model, theta)
        return _Pool(
            np.concatenate([self.theta, theta]),
            np.concatenate([self.log_prior, log_prior]),
            np.concatenate([self.log_likelihood, log_likelihood]),
            [*self.proposals, *proposals],
            [*self.counts, *[each_one] * len(proposals)],
        )

    def log_pi(self):
        """Log density of the mixture at each draw, (m,)."""
        table = [self.log_prior, *(log_density(one, self.theta) for one in self.proposals)]
        with np.errstate(divide="ignore"):
            shares = np.log(np.array(self.counts) / np.sum(self.counts))
        return np.logaddexp.reduce(np.array(table) + shares[:, None], axis=0)

    def log_ratio(self):
        """Log of the joint density over that of the mixture at each draw, (m,)."""
        joint = self.log_prior + self.log_likelihood
        return np.where(np.isfinite(joint), joint - self.log_pi(), -np.inf)

    def ess(self):
        """Effective sample size of the draws."""
        return effective_sample_size(self.log_ratio())

    def outcome(self):
        """The draws as an `Outcome`."""
        log_pi, log_ratio = self.log_pi(), self.log_ratio()
        no_block = np.empty((len(self.theta), 0))
        particles = Particles(self.theta, log_ratio, log_pi, self.log_prior, no_block)
        info = mirror.StepInfo(
            a=1.0, b=1.0, fraction=1.0, substeps=0, substep_bound_hit=False, rejuvenations=0,
            bandwidth=np.nan, ess=effective_sample_size(log_ratio), n_particles=len(log_ratio),
        )  # fmt: skip
        notes = {"method": "adaptive importance sampling from the prior on"}
        return Outcome(particles, [info], True, notes=notes)


@phase("values at draws of the prior")
def _first(model, size, rng):
    theta = model.sample_prior(rng, size)
    return _Pool(theta, *_valued(model, theta), [], [size])


def _valued(model, theta):
    """Log prior densities and log-likelihoods (m,); -inf off the support, where none is taken."""
    with np.errstate(all="ignore"):
        log_prior = _known(model.log_prior(theta))
    inside, values = np.isfinite(log_prior), np.full(len(theta), -np.inf)
    if inside.any():
        values[inside] = _known(model.log_likelihood(theta[inside]))
    return log_prior, values


def _known(values):
    """Log densities, -inf where there is no number."""
    return np.where(np.isnan(values), -np.inf, values)


@phase("search for optima")
def _with_optima(model, pool, size, rng):
    """The pool with draws from Student distributions at optima of the joint density."""
    joint, widths = pool.log_prior + pool.log_likelihood, pool.theta.std(axis=0)
    left, found = np.isfinite(joint), []
    for _ in range(_STARTS):
        if not left.any():
            break
        start = pool.theta[np.argmax(np.where(left, joint, -np.inf))]
        end = descended(
            _objective(model), start, model.covariance.kernel.bounds, _EVALUATIONS
        ).theta
        proposal = Proposal(end, _factor(model, end, widths), _DF)
        if all(_squares(one, end[None])[0] > 1.0 for one in found):
            found.append(proposal)
        left &= (_squares(proposal, pool.theta) > _APART) & (
            _squares(Proposal(start, np.diag(widths)), pool.theta) > 1.0
        )
    return pool.joined(model, found, size, rng) if found else pool


def _objective(model):
    def objective(theta):
        (value,), (slope,) = model.log_joint_and_gradient(np.asarray(theta, dtype=float)[None])
        return (-value, -slope) if np.isfinite(value) else (IMPOSSIBLE, np.zeros(len(slope)))

    return objective


def _squares(proposal, theta):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (theta - proposal.mean).T) ** 2).sum(axis=0)


def _factor(model, theta, widths):
    """Square root of the inverse curvature; no direction is wider than draws of the prior."""
    d = len(theta)
    steps = _STEP * np.eye(d)
    low, high = model.covariance.kernel.bounds.T
    points = np.clip(np.concatenate([theta + steps, theta - steps]), low, high)
    _, slopes = model.log_joint_and_gradient(points)
    gaps = np.diag(points[:d] - points[d:])[:, None]
    hessian = (slopes[d:] - slopes[:d]) / np.where(gaps > 0.0, gaps, np.inf)
    scaled = 0.5 * (hessian + hessian.T) * np.outer(widths, widths)
    values, vectors = np.linalg.eigh(np.nan_to_num(scaled))
    # At an edge a curvature may have the wrong sign, and says little of the width.
    return widths[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))


@phase("draws around the best so far")
def _with_kernels(model, pool, size, rng):
    """The pool with draws from kernels around those of the largest weights."""
    log_ratio, power = pool.log_ratio(), 1.0
    while power > 1e-3 and effective_sample_size(power * log_ratio) < _EFFECTIVE:
        power *= 0.7
    w = weights(power * log_ratio)
    mean = w @ pool.theta
    away = pool.theta - mean
    widths = pool.theta[: pool.counts[0]].std(axis=0)
    factor = np.linalg.cholesky((w * away.T) @ away + _RIDGE * np.diag(widths**2))
    centres = pool.theta[resample("systematic", w, _KERNELS, rng)]
    narrow = [Proposal(one, np.sqrt(_NARROW) * factor, _DF) for one in centres]
    wide = [Proposal(mean, np.sqrt(_WIDER) * factor, _DF)] * _WIDE
    return pool.joined(model, [*narrow, *wide], size, rng)
