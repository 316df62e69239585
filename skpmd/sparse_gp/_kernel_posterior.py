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
from scipy.special import logsumexp

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine import mirror
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.loop import Findings, Outcome, resumable
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, effective_sample_size, resample, weights
from skpmd.proposals.fitted_proposals import fitted_proposals
from skpmd.proposals.importance_rounds import TARGET_ESS, Until, is_thin, proposal_rounds
from skpmd.sparse_gp._descent import descended, objective_of
from skpmd.sparse_gp._evidence import log_marginal_likelihood
from skpmd.sparse_gp._hyperprior import root_of_curvature, squares

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
        return Outcome(particles, [info], True, findings=Findings(notes=notes))


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

    def value_and_slope(theta):
        (value,), (slope,) = model.log_joint_and_gradient(theta[None])
        return value, slope

    objective = objective_of(value_and_slope)
    for _ in range(_STARTS):
        if not left.any():
            break
        start = pool.theta[np.argmax(np.where(left, joint, -np.inf))]
        end = descended(objective, start, model.covariance.kernel.bounds, _EVALUATIONS).theta
        proposal = Proposal(end, _factor(model, end, widths), _DF)
        if all(squares(one, end[None])[0] > 1.0 for one in found):
            found.append(proposal)
        left &= (squares(proposal, pool.theta) > _APART) & (
            squares(Proposal(start, np.diag(widths)), pool.theta) > 1.0
        )
    return pool.joined(model, found, size, rng) if found else pool


def _factor(model, theta, widths):
    """Square root of the inverse curvature; no direction is wider than draws of the prior."""
    d = len(theta)
    steps = _STEP * np.eye(d)
    low, high = model.covariance.kernel.bounds.T
    points = np.clip(np.concatenate([theta + steps, theta - steps]), low, high)
    _, slopes = model.log_joint_and_gradient(points)
    gaps = np.diag(points[:d] - points[d:])[:, None]
    hessian = (slopes[d:] - slopes[:d]) / np.where(gaps > 0.0, gaps, np.inf)
    return widths[:, None] * root_of_curvature(hessian * np.outer(widths, widths))


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


# Of up to so many rows so many particles have their exact evidence. The first number is the largest
# difference that is let pass, in nats; the second the largest standard deviation of it, which is
# what the mean of a hyperparameter is off by at most, in standard deviations, to first order.
_EXACT_ROWS, _EXACT_PARTICLES, _MAX_OFF, _MAX_SPREAD = 2000, 16, 0.5, 0.5
_PLACES, _SPREAD = 64, 0.3  # Searches for the posterior start from so many places around the best.
_WITHIN = 1e-3  # They lie inside the bounds by this share of their distance.
_MIN_SHARE, _MIN_ESS, _MIN_DRAWS = 0.05, 100.0, 400


def states_by_neighbours(model, rows, theta, n, rng):
    """States of importance reweighting of hyperparameters, for `skpmd.engine.loop.drive`.

    The density is that of ``rows`` (k,) and the prior. Proposals are fitted to it around
    hyperparameters ``theta`` (d,) near its best, and then along ridges if their weights fail.
    """
    batches = [Batch(None, None, np.ones(len(rows)), place=rows)]
    free = Unbounded(model, *edges(model.log_prior, model.sample_prior(rng, _PLACES)))
    draws = free.outward(_around(model, theta, rng))

    def log_joint(points):
        with np.errstate(all="ignore"):
            values = free.log_prior(points) + free.log_likelihood(points, batches[0])
        return np.where(np.isfinite(values), values, -np.inf)

    def of_theta(points):
        found = [model.gradient(one, rows, batches[0].weight) for one in points]
        by_prior = [model.prior.slope(one) for one in points]
        values, slopes = zip(*found, strict=True)
        return np.array(values) + model.log_prior(points), np.array(slopes) + np.array(by_prior)

    values = log_joint(draws)
    seen = values - free.log_prior(draws)
    best, n = None, max(n, _MIN_DRAWS)
    until = Until(n, max(TARGET_ESS * n, _MIN_ESS), _MIN_SHARE * n)
    for found in fitted_proposals(log_joint, draws, values, seen, rng, free.gradient(of_theta)):
        to = found.to.replace("values", "the likelihood")
        notes = {"method": f"importance reweighting of proposals fitted to {to}"}
        mixture = found.components, found.shares
        for last, _ in proposal_rounds(free, batches, mixture, 1.0, rng, until):
            particles, findings = free.restored(last.particles), Findings(notes=notes)
            best = Outcome(particles, last.infos, True, pair=last.pair, findings=findings)
            yield best
        if not is_thin(best.particles):
            return


def _around(model, theta, rng):
    """Theta and places around it, inside the bounds of the kernel."""
    low, high = model.covariance.kernel.bounds.T
    inside = _WITHIN * (high - low)
    near = theta + _SPREAD * rng.standard_normal((_PLACES, len(theta)))
    near[0] = theta
    return np.clip(near, low + inside, high - inside)


def exact_findings(model, theta, sample):
    """Sentences where the posterior of an exact process is another, of equal particles (m, d).

    ``sample`` holds all rows. The evidence of the exact process is that by neighbours times the
    mean of exp(d) over the posterior, d being the difference of the log likelihoods there, and the
    exact posterior has the weights exp(d).
    """
    if len(sample.y) > _EXACT_ROWS:
        return []
    theta = theta[:: -(-len(theta) // _EXACT_PARTICLES)]
    with np.errstate(all="ignore"):
        exact = np.array(each(
            lambda one: log_marginal_likelihood(model.covariance, one, sample, gradient=False),
            theta,
        ))  # fmt: skip
        off = exact - model.log_likelihood(theta, model.all_rows())
    off = off[np.isfinite(off)]
    if not len(off):
        return []
    shift, spread = logsumexp(off) - np.log(len(off)), off.std()
    if abs(shift) < _MAX_OFF and spread < _MAX_SPREAD:
        return []
    return [
        f"the evidence of the exact process is larger by {shift:.3g} nats than that by neighbours, "
        f"and the logs of particles' weights are off by {spread:.2g}: intervals of hyperparameters "
        "and the evidence are not those of the kernel. Raise n_neighbors, or fit 500 rows, for "
        "which the likelihood is exact."
    ]
