"""What draws of the prior see of a posterior: where searches start, and what fits have missed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.diagnostics import log_evidence
from skpmd.engine.fitted_proposals import EACH
from skpmd.engine.importance import mixture_log_density
from skpmd.engine.particles import draw_prior, weights
from skpmd.engine.values import without_errors

# There are so many draws, as far as they evaluate no more rows than so many.
_N_DRAWS, _MAX_ROWS = 4000, 1 << 24
_MIN_POINTS = 256  # A search hands over so many points at once, at most, or as many as particles.
_MISSED_NATS = 3.0  # The mixture misses a draw of the prior where it is so much too thin,
_MISSED_SHARE = 0.05  # and a part of the posterior where such draws have this share of the mass.
_ON_THE_WAY, _LEVEL = 16, 0.1  # Points between an optimum and a particle, and nats.
_LEFT_OUT = 0.1  # A mode with a smaller share of its Laplace mass has been left out.


class Scouts(NamedTuple):
    """Draws of the prior, and the posterior's density there and anywhere else."""

    theta: np.ndarray  # (m, d): The draws.
    values: np.ndarray  # (m,): Log joint density.
    log_likelihood: np.ndarray  # (m,): To its power, which weighs draws of the prior.
    log_joint: Callable  # From points (k, d) to (k,), -inf where the model has no number.

    def missed(self, found, outcome):
        """Whether draws see a part of the posterior where fitted `Proposals` have nothing."""
        alive = np.isfinite(self.values)
        evidence, _ = log_evidence(outcome.particles.log_ratio, outcome.pair)
        density = mixture_log_density(found.components, found.shares, self.theta[alive])
        thin = self.values[alive] - density > evidence + _MISSED_NATS
        return weights(self.log_likelihood[alive])[thin].sum() > _MISSED_SHARE

    def n_left_out(self, found, particles):
        """How many of the optima that a search has found have next to no particles around them.

        Mirror steps may lose a narrow mode on the way, and no weight shows it. Optima from where
        the way to the nearest particle is level lie on one plateau with it, and are no modes of
        their own.
        """
        plain, mass = found.components[1::EACH], found.shares[1::EACH] / found.shares[1::EACH].sum()
        if len(plain) < 2:
            return 0
        w, d = weights(particles.log_ratio), particles.theta.shape[1]
        near = [w[_squares(one, particles.theta) < 9.0 * d] for one in plain]
        left_out = [
            share > _MISSED_SHARE
            and around.sum() < _LEFT_OUT * share
            and not self._is_level(one, particles.theta)
            for one, around, share in zip(plain, near, mass, strict=True)
        ]
        return sum(left_out)

    def _is_level(self, proposal, theta):
        """Whether the density falls next to nowhere between an optimum and the nearest particle."""
        nearest = theta[np.argmin(_squares(proposal, theta))] - proposal.mean
        way = np.linspace(0.0, 1.0, _ON_THE_WAY)[:, None] * nearest
        values = self.log_joint(proposal.mean + way)
        return bool(values[0] - values.min() < _LEVEL)


def _squares(proposal, theta):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (theta - proposal.mean).T) ** 2).sum(axis=0)


def scouted(model, start, batches, power, rng):
    """The `Scouts` that are the particles ``start`` of the prior, and more where rows are few."""
    n_rows = sum(len(batch.weight) for batch in batches)
    n_more = min(_N_DRAWS, _MAX_ROWS // max(n_rows, 1)) - len(start.theta)
    draws = [start, draw_prior(model, n_more, rng)] if n_more > 0 else [start]
    theta, log_prior = (
        np.concatenate([getattr(some, name) for some in draws]) for name in ("theta", "log_prior")
    )
    seen = power * mirror.log_likelihood_inside(model, theta, batches, log_prior)
    log_joint = _searchable(model, batches, power, max(_MIN_POINTS, len(start.theta)))
    return Scouts(theta, log_prior + seen, seen, log_joint)


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
