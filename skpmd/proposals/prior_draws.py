"""Draws of the prior, at which the posterior is known: searches start there, and fits are checked.

Where proposals or particles are far too thin at draws that stand for a share of the posterior, they
have missed a part of it.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from skpmd._runtime.call import phase
from skpmd._runtime.threads import n_rows
from skpmd.engine import mirror
from skpmd.engine.diagnostics import differences, evidence_of
from skpmd.engine.edges import edges, without_errors
from skpmd.engine.importance import draw, log_density
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import (
    Particles,
    draw_prior,
    effective_sample_size,
    log_sum_exp,
    moments,
    weights,
)
from skpmd.proposals.non_centred import hierarchy

# There are so many draws, as far as they evaluate no more rows than so many.
_N_DRAWS, _MAX_ROWS = 4000, 1 << 24
_MIN_POINTS = 256  # A search hands over so many points at once, at most, or as many as particles.
MISSED_NATS = 2.0  # The mixture misses a draw of the prior where it is so much too thin,
_MISSED_SHARE = 0.05  # and a part of the posterior where such draws have this share of the mass.
# So many nearest particles are their density, which is too rough a one in more dimensions. Where
# there are few it is too low by nature, so that more must be missing.
_NEAREST, _MAX_NEAR, _UNSEEN_NATS = 5, 5, 4.0
_ON_THE_WAY, _LEVEL = 16, 0.1  # Points between an optimum and a particle, and nats.
# A mode with a smaller share of its mass has been left out: of the mass that draws around it find,
# or, where there is no evidence to compare that with, of its share among all modes.
_HALF, _LEFT_OUT = 0.5, 0.1
_N_AROUND, _MIN_AROUND = 256, 20.0  # There are so many such draws; so many must be effective.
# Draws that are missed may not have this share of a variance either, of values cut off so many sds
# from the mean: heavy tails have no variance.
_MISSED_VARIANCE, _CUT = 0.3, 20.0
_MIN_ALIVE = 16  # With fewer draws that are possible nobody knows of an edge.
# So many draws, and no larger share of them, are pulled by up to so many powers of ten. They have
# to be so many nats ahead of all draws: priors of a sensible width ask for no further searches.
_N_PULLED, _SHARE_PULLED, _DECADES, _AHEAD = 500, 8, 8.0, 10.0
_MANY_SEEN = 100.0  # With fewer effective draws a single one may have most of a variance.


class Places(NamedTuple):
    """Places, and the log of the share of the posterior's mass that each of them stands for."""

    theta: np.ndarray  # (k, d)
    log_share: np.ndarray  # (k,)

    def mass_and_spread(self, mean, variance):
        """Sum of the shares, and their parts of each variance, (d,), around this mean.

        Both are in units of the whole posterior's.
        """
        share = np.exp(self.log_share)
        square = (self.theta - mean) ** 2 / np.maximum(variance, np.finfo(float).tiny)
        return share.sum(), share @ np.minimum(square, _CUT**2)

    def matter(self, mean, variance, known=(0.0, 0.0)):
        """Whether they have much of the mass or of a variance, beyond what is ``known`` of both."""
        mass, spread = self.mass_and_spread(mean, variance)
        more = (spread - known[1]).max(initial=0.0) > _MISSED_VARIANCE
        return bool(mass - known[0] > _MISSED_SHARE or more)


class PriorDraws(NamedTuple):
    """Draws of the prior, and the posterior's density there and anywhere else."""

    theta: np.ndarray  # (m, d): The draws.
    values: np.ndarray  # (m,): Log joint density.
    log_likelihood: np.ndarray  # (m,): To its power, which weighs draws of the prior.
    log_joint: Callable  # From points (k, d) to (k,), -inf where the model has no number.
    n_drawn: int  # Draws, with those that have been left out.
    # Without arguments: the `Hierarchy` that the draws show, or None, found when it is needed.
    hierarchy: Callable
    log_prior: Callable | None = None  # As `log_joint`; without it there are no further starts.
    # Particles of steps (k, d), which are checks as well, and their log joint density.
    steps: tuple = ()
    bounded: np.ndarray | None = None  # Which coordinates are logarithms of distances from edges.

    def starts(self):
        """Where searches may start, (k, d), with values and weights: the draws, and others.

        Under a prior that is thousands of times too wide no draw comes near the posterior, and on
        the way there the density is flat. Some draws are therefore pulled towards their edges, or
        towards zero or their middle, by powers of ten; those that rows find far likelier than all
        draws are starts, too. (Priors may have no bound: where scales of effects go to zero.)
        """
        own = self.theta, self.values, self.log_likelihood
        if self.log_prior is None:
            return own
        rng, alive = np.random.default_rng(0), np.flatnonzero(np.isfinite(self.values))
        some = self.theta[alive[: min(_N_PULLED, len(alive) // _SHARE_PULLED)]]
        decades = rng.uniform(0.0, _DECADES, (len(some), 1)) + rng.uniform(-1.0, 1.0, some.shape)
        decades, middle = np.abs(decades), np.median(self.theta, axis=0)
        # The median of some draws of a prior around zero is a hundredth of its width off.
        middle[np.abs(middle) < 0.1 * self.theta.std(axis=0)] = 0.0
        near = middle + (some - middle) * 10.0**-decades
        if self.bounded is not None:
            near = np.where(self.bounded, some - np.log(10.0) * decades, near)
        above = joint = np.full(len(near), -np.inf)
        with suppress(Exception):  # Functions need not take points that are so far from the prior.
            joint = self.log_joint(near)
            likelier = joint - self.log_prior(near) - self.log_likelihood.max()
            above = np.fmin(joint - self.values.max(), likelier)
        ahead = above > _AHEAD
        if not ahead.any():
            return own
        more = near[ahead], joint[ahead], self.log_likelihood.max() + above[ahead]
        return tuple(np.concatenate(parts) for parts in zip(own, more, strict=True))

    def with_steps(self, steps):
        """The same with the particles of the outcome of ``steps``."""
        theta = steps.particles.theta
        return self._replace(steps=(theta, self.log_joint(theta)))

    def edges(self):
        """Edges of the posterior, (d,) each, where rows make some draws impossible."""
        alive = np.isfinite(self.values)
        d = self.theta.shape[1]
        if alive.all() or alive.sum() < _MIN_ALIVE:
            return np.full(d, -np.inf), np.full(d, np.inf)
        return edges(self.log_joint, self.theta[alive])

    def freed(self, free, batches, power):
        """The same in coordinates without edges, without the draws beyond these."""
        inside = free.within(self.theta)
        u = free.outward(self.theta[inside])
        return PriorDraws(
            u, self.values[inside] + free.log_jacobian(u), self.log_likelihood[inside],
            _searchable(free, batches, power, max(_MIN_POINTS, len(u))), self.n_drawn,
            cache(partial(hierarchy, u)), without_errors(free.log_prior), bounded=free.bounded,
        )  # fmt: skip

    def alive(self):
        """Those with a number as particles of the prior, their log-likelihood, and a share.

        The last is the log of their share of all draws. Where there is none they are all, for steps
        to say so.
        """
        alive = np.isfinite(self.values)
        alive |= not alive.any()
        values, log_likelihood = self.values[alive], self.log_likelihood[alive]
        log_prior, m = np.zeros(len(values)), len(values)
        np.subtract(values, log_likelihood, out=log_prior, where=np.isfinite(values))
        start = Particles(self.theta[alive], np.zeros(m), log_prior, log_prior, np.empty((m, 0)))
        return start, log_likelihood, np.log(m / self.n_drawn)

    def agree(self, outcome):
        """Whether they know the posterior by themselves, and find what an outcome finds."""
        if effective_sample_size(self.log_likelihood) < _MANY_SEEN:
            return False
        no_block = np.empty((len(self.theta), 0))
        ratio = self.log_likelihood + np.log(len(self.theta) / self.n_drawn)
        own = Particles(self.theta, ratio, self.values, self.values, no_block)
        return not differences(outcome, Outcome(own, [], reweighted=True), "")

    def thin(self, log_density, outcome, nats):
        """`Places` where a log density is ``nats`` too thin, of draws and of particles of steps.

        What draws of the prior stand for is in units of the outcome's evidence, for among
        themselves one of them may have all the weight, and know nothing.
        """
        alive, (evidence, _) = np.isfinite(self.values), evidence_of(outcome)
        share = self.log_likelihood[alive] - np.log(self.n_drawn) - evidence
        checked = [(self.theta[alive], self.values[alive], np.minimum(share, 0.0))]
        if self.steps:
            equal = np.full(len(self.steps[1]), -np.log(len(self.steps[1])))
            checked.append((*self.steps, equal))
        found = []
        for theta, values, log_share in checked:
            some = too_thin(log_density, theta, values, outcome, nats)
            found.append(Places(theta[some], log_share[some]))
        return found

    def are_missed_by(self, outcome):
        """Whether they lie in a part of the posterior where particles of steps are not.

        Steps cut the tips of what is long and thin, and what is left knows nothing of them. The
        particles' own density is that of the nearest among them, which is right along a thin curve
        where that of kernels of one width is not.
        """
        particles = outcome.particles
        if not outcome.reweighted or particles.theta.shape[1] > _MAX_NEAR:
            return False
        mean, covariance = moments(particles.theta, particles.log_ratio)

        def density(theta):
            return _by_nearest(particles.theta, weights(particles.log_ratio), theta)

        (thin,) = self.thin(density, outcome, _UNSEEN_NATS)
        return thin.matter(mean, np.diag(covariance))

    def n_left_out(self, found, outcome, rng):
        """How many of the optima that a search has found have next to no particles around them.

        Mirror steps may lose a narrow mode on the way, and no weight shows it. Optima from where
        the way to the nearest particle is level lie on one plateau with it, and are no modes of
        their own. Draws come from a generator of their own.
        """
        particles, (plain, share) = outcome.particles, found.students()
        w, d = weights(particles.log_ratio), particles.theta.shape[1]
        near = np.array([w[_squares(one, particles.theta) < 9.0 * d].sum() for one in plain])
        small, known = (near < _LEFT_OUT * share) & (len(plain) > 1), np.ones(len(plain), bool)
        if outcome.reweighted:
            evidence, _ = evidence_of(outcome)
            rng = rng.spawn(1)[0]
            log_mass = np.array([self._log_mass(one, rng) for one in plain])
            known, mass = np.isfinite(log_mass), np.exp(np.minimum(log_mass - evidence, 0.0))
            share = np.where(known, mass, share)
            small = np.where(known, near < _HALF * share, small)
        left_out = (share > _MISSED_SHARE) & small
        return sum(
            not self._leads_to(one, particles.theta, known[i])
            for i, one in enumerate(plain)
            if left_out[i]
        )

    def _log_mass(self, proposal, rng):
        """Log of the mass around an optimum, within three standard deviations or so.

        It is nan where draws do not know it: on a curved ridge few of them have all the weight.
        """
        theta = draw(proposal, _N_AROUND, rng)
        inside = _squares(proposal, theta) < 9.0 * theta.shape[1]
        ratios = self.log_joint(theta[inside]) - log_density(proposal, theta[inside])
        if effective_sample_size(ratios) < _MIN_AROUND:
            return np.nan
        return log_sum_exp(ratios) - np.log(_N_AROUND)

    def _leads_to(self, proposal, theta, mass_is_known):
        """Whether an optimum and the nearest particle are of one mode.

        Between them the density falls next to nowhere. Where the mass around the optimum is not
        known it falls nowhere below the particle's: what is sharp at its top has no curvature there
        that would tell how wide it is.
        """
        nearest = theta[np.argmin(_squares(proposal, theta))] - proposal.mean
        way = np.linspace(0.0, 1.0, _ON_THE_WAY)[:, None] * nearest
        values = self.log_joint(proposal.mean + way)
        return bool(values[0 if mass_is_known else -1] - values.min() < _LEVEL)


def too_thin(log_density, theta, values, outcome, nats=MISSED_NATS):
    """Where a log density is ``nats`` lower than the posterior's, whose unnormalised values are."""
    evidence, _ = evidence_of(outcome)
    return values - log_density(theta) > evidence + nats


def misses(outcome, thin):
    """Whether proposals that are too thin at some `Places` have missed a part of the posterior.

    What their own draws have of the mass where they are too thin is not missed.
    """
    particles, (evidence, _) = outcome.particles, evidence_of(outcome)
    some, own = particles.log_ratio > evidence + MISSED_NATS, _places_of(particles)
    mean, covariance = moments(particles.theta, particles.log_ratio)
    variance = np.diag(covariance)
    known = Places(own.theta[some], own.log_share[some]).mass_and_spread(mean, variance)
    return any(one.matter(mean, variance, known) for one in thin)


def with_missed(outcome, thin):
    """The particles and the `Places` where proposals are too thin, as `Places` all."""
    parts = zip(_places_of(outcome.particles), *thin, strict=True)
    return Places(*(np.concatenate(part) for part in parts))


def _places_of(particles):
    log_ratio = particles.log_ratio
    return Places(particles.theta, log_ratio - log_sum_exp(log_ratio))


def _by_nearest(theta, w, places):
    """Log density (k,) at places (k, d), of the weight of the particles (m, d) in a ball there."""
    mean, covariance = moments(theta, np.log(np.maximum(w, np.finfo(float).tiny)))
    d, scale = len(mean), np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    distance, near = cKDTree((theta - mean) / scale).query((places - mean) / scale, _NEAREST)
    radius = np.maximum(distance[:, -1], np.finfo(float).tiny)
    log_ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1.0) + d * np.log(radius)
    return np.log(w[near].sum(axis=1)) - log_ball - np.log(scale).sum()


def _squares(proposal, theta):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (theta - proposal.mean).T) ** 2).sum(axis=0)


@phase("values at draws of the prior")
def prior_draws(model, start, batches, power, rng):
    """`PriorDraws` that are the particles ``start`` of the prior, and more where rows are few."""
    n_more = min(_N_DRAWS, _MAX_ROWS // max(n_rows(batches), 1)) - len(start.theta)
    draws = [start, draw_prior(model, n_more, rng)] if n_more > 0 else [start]
    theta, log_prior = (
        np.concatenate([getattr(some, name) for some in draws]) for name in ("theta", "log_prior")
    )
    seen = power * mirror.log_likelihood_inside(model, theta, batches, log_prior)
    log_joint = _searchable(model, batches, power, max(_MIN_POINTS, len(start.theta)))
    scales = cache(partial(hierarchy, theta))
    log_prior_of = without_errors(model.log_prior)
    return PriorDraws(theta, log_prior + seen, seen, log_joint, len(theta), scales, log_prior_of)


def _searchable(model, batches, power, n_points):
    """The log joint density for searches, which go where no particle would.

    Points come in pieces, as many at once as particles do. Where a model has no number, the density
    is zero, and its overflows are of no interest.
    """
    log_prior_of = without_errors(model.log_prior)

    def some_of(theta):
        log_prior = log_prior_of(theta)
        return log_prior + power * mirror.log_likelihood_inside(model, theta, batches, log_prior)

    piece = without_errors(some_of)

    def log_joint(theta):
        pieces = [theta[i : i + n_points] for i in range(0, len(theta), n_points)]
        with np.errstate(all="ignore"):
            return np.concatenate([piece(some) for some in pieces])

    return log_joint
