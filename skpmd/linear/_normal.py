"""Normal rows under a normal prior: given the standard deviation the coefficients are normal.

All that rows say is in one triangular matrix, the root of their weighted sums of products. Its
eigenvectors give the posterior of the coefficients at any standard deviation, and the density of
that one, at a grid, in closed form: draws are exact up to the resolution of the grid, which their
weights make up for.
"""

from functools import partial

import numpy as np

from skpmd._runtime.threads import total
from skpmd.engine import mirror
from skpmd.engine.importance import normal, uniforms
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import Particles, Rejuvenated
from skpmd.linear._design import pieces
from skpmd.linear._glm import GeneralisedLinearModel
from skpmd.linear._priors import NormalPrior

_LOG_TWO_PI = np.log(2.0 * np.pi)
_GRID = np.linspace(-8.0, 8.0, 641)  # Where the density of the coordinate of sigma is looked for.
_FINE, _WIDTH = 801, 40.0  # Nodes around its mode, as far out as it falls by so many nats.


class NormalModel(GeneralisedLinearModel):
    """Normal rows with an identity link; see `GeneralisedLinearModel`."""

    @property
    def is_conjugate(self):
        """Whether the prior on coefficients is normal."""
        prior = getattr(self.prior, "prior", self.prior)
        return type(prior) is NormalPrior and not hasattr(self.prior, "rest")

    def log_likelihood(self, theta, batch):
        """Weighted sum over the rows of log p(y | coefficients, sigma), by sums; see `Model`."""
        return self._given_root(theta, *self._root([batch]))

    def _given_root(self, theta, root, weight):
        """The same of rows whose root and weight are known."""
        coefficients = self.prior.coefficients(theta)
        sigma = self.family.dispersions.natural(coefficients[:, -1:])[:, 0]
        left = coefficients[:, :-1] @ root[:, :-1].T - root[:, -1]
        squares = np.einsum("ij,ij->i", left, left)
        constant = 0.5 * _LOG_TWO_PI + np.log(sigma) + self.log_unit
        return -0.5 * squares / sigma**2 - weight * constant

    def _root(self, batches):
        """Triangular root of the sums of products of (x, y), of as many rows, and the weight."""
        # A horseshoe has more coordinates than there are coefficients and sigma.
        width = self.prior.coefficients(np.zeros((1, self.n_coordinates))).shape[1]
        return total(partial(self._root_of, width), batches, _joined)

    def _root_of(self, width, batches):
        """The root of some batches."""
        found = np.empty((0, width)), 0.0
        for piece in pieces(batches, self.table_size):
            X, y, weight = self.known_off(piece)
            scaled = np.sqrt(weight)[:, None] * np.column_stack([X, y])
            found = _joined(found, (scaled, weight.sum()))
        return found

    def exact_draws(self, batches, n, power, rng):
        """An `Outcome` of n draws from the posterior, in antithetic pairs with one sigma each."""
        draws = _ExactDraws(self, *self._root(batches), power, n)
        still, anew = mirror.Settings(rejuvenation="never"), mirror.Rejuvenation(draws, first=True)
        particles, info = mirror.step(
            None, self, batches, 1.0, power, still, rng, rejuvenation=anew
        )
        pair = np.arange(len(particles.theta)) // 2
        info = info._replace(rejuvenations=0)
        outcome = Outcome(particles, [info], reweighted=True, pair=pair)
        return outcome.with_findings(notes={"method": "exact draws, by a conjugate prior"})


class _ExactDraws:
    """Strategy of rejuvenation: draws from the posterior given the root of all rows.

    These are read once: the root says how probable they are, too.
    """

    def __init__(self, model, root, weight, power, n):
        self._rows = root, weight
        root, weight = np.sqrt(power) * root, power * weight
        prior, w = model.prior, root.shape[1] - 1
        self._loc, self._scale = getattr(prior, "loc", np.zeros(w + 1))[:w], prior.scale[:w]
        self._model, self._weight, self._n = model, weight, n
        # In units of the prior, whose covariance is the identity there.
        design, y = root[:, :-1] * self._scale, root[:, -1] - root[:, :-1] @ self._loc
        design = np.vstack([design, np.zeros((max(0, w - len(design)), w))])  # Few rows.
        y = np.append(y, np.zeros(len(design) - len(y)))
        left, values, right = np.linalg.svd(design, full_matrices=False)
        of_y = left.T @ y
        self._axes, self._values, self._slopes = right.T, values**2, values * of_y
        self._rest, self._of_y = float(np.sum((y - left @ of_y) ** 2)), of_y**2

    def _log_marginal(self, u):
        """Log density of coordinates of sigma (k,), up to a constant that all share."""
        variance = self._model.family.dispersions.natural(u[:, None])[:, :1] ** 2
        ratio = self._values / variance
        squares = (self._rest + (self._of_y / (1.0 + ratio)).sum(axis=1)) / variance[:, 0]
        log_det = np.log1p(ratio).sum(axis=1) + self._weight * np.log(variance[:, 0])
        return -0.5 * (u**2 + squares + log_det)

    def __call__(self, particles, model, settings, rng, **_):
        """Draws, with their density; what the particles were before does not matter."""
        values = self._log_marginal(_GRID)
        inside = np.flatnonzero(values > values.max() - _WIDTH)
        low, high = (np.clip(inside[i] + side, 0, len(_GRID) - 1) for i, side in ((0, -1), (-1, 1)))
        nodes = np.linspace(_GRID[low], _GRID[high], _FINE)
        density = np.exp(self._log_marginal(nodes) - values.max())
        step = nodes[1] - nodes[0]
        mass = np.append(0.0, np.cumsum(0.5 * step * (density[1:] + density[:-1])))
        uniform = uniforms((self._n + 1) // 2, len(self._scale) + 1, rng)
        u, log_q = _inverse(uniform[:, -1] * mass[-1], nodes, density, mass)
        sigma = model.family.dispersions.natural(u[:, None])
        variance = 1.0 / (1.0 + self._values / sigma**2)
        # By the symmetric root, for rounding decides on signs and rotations of axes.
        z, theta = normal(uniform[:, :-1]) @ self._axes, []
        for side in (1.0, -1.0):
            along = self._slopes / sigma**2 * variance + side * z * np.sqrt(variance)
            points = self._loc + self._scale * (along @ self._axes.T)
            theta.append(np.hstack([points, u[:, None]]))
        log_q = log_q - np.log(mass[-1]) - 0.5 * (z**2 + _LOG_TWO_PI).sum(axis=1)
        log_q -= 0.5 * np.log(variance).sum(axis=1) + np.log(self._scale).sum()
        theta = np.stack(theta, axis=1).reshape(-1, len(self._scale) + 1)
        log_pi = np.repeat(log_q, 2)
        no_block = np.empty((len(theta), 0))
        particles = Particles(theta, np.zeros(len(theta)), log_pi, model.log_prior(theta), no_block)
        return Rejuvenated(particles, log_likelihood=model._given_root(theta, *self._rows))


def _inverse(at, nodes, density, mass):
    """Where a density that is linear between nodes has such masses below, and its log there."""
    i = np.clip(np.searchsorted(mass, at, side="right") - 1, 0, len(nodes) - 2)
    step, low = nodes[1] - nodes[0], density[i]
    slope, left = (density[i + 1] - low) / step, at - mass[i]
    # The positive root of slope / 2 x^2 + low x = left, in the form that a slope of zero may have.
    root = np.sqrt(np.maximum(low**2 + 2.0 * slope * left, 0.0))
    x = np.clip(2.0 * left / np.maximum(low + root, 1e-300), 0.0, step)
    return nodes[i] + x, np.log(np.maximum(low + slope * x, 1e-300))


def _joined(one, other):
    """The root of both, and the weight; of no more rows than columns."""
    rows = np.concatenate([one[0], other[0]])
    if len(rows) > rows.shape[1]:
        rows = np.linalg.qr(rows, mode="r")
    return rows, one[1] + other[1]
