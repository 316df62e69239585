"""One-pass sequential Monte Carlo for a sparse Gaussian process, with q(u) in closed form.

Balakrishnan and Madigan (2006), as in appendix H.3.2 of Dai et al. (2016): particles start from the
solution on a subset of data, each batch reweights them once by its predictive likelihood, and where
the effective sample size falls below half of their number they are resampled and moved by kernels
around centres that shrink towards the mean.

Particles are hyperparameters of the kernel, with one set of inducing inputs Z. Given both, the
values u at Z are normal, and are kept in closed form (Rao-Blackwellised): particles of u itself, in
a thousand dimensions, would fall to one of them within a batch. A move of the hyperparameters takes
q(u | Z) along as the same likelihood of the same values at Z; it is not made again from the rows.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd._rows.rows import Rows
from skpmd.engine.particles import systematic
from skpmd.predictive import NormalMixture
from skpmd.sparse_gp._data import Data
from skpmd.sparse_gp._fit import initialise

from .problem import Clock

CHUNK = 4096  # rows that are predicted at once
NEGLIGIBLE = 1e-6  # weight of a particle that predictions leave out


class Particle:
    """Hyperparameters theta (d,), and q(u | Z) given them, shape (1, k).

    Each has a copy of the model, which remembers the factor of its own covariance.
    """

    def __init__(self, model, theta, block=None):
        self.model, self.theta = model.at(model.inducing), theta
        self.block = model.prior_block(theta[None]) if block is None else block
        self.log_evidence = self._log_evidence()

    def update(self, batch):
        """Add the rows of a batch; return their log predictive likelihood."""
        before = self.log_evidence
        self.block += self.model.statistics(self.theta[None], self.block, batch)
        self.log_evidence = self._log_evidence()
        return self.log_evidence - before

    def moved(self, theta):
        """This particle at other hyperparameters."""
        block = self.model.move_block(self.theta[None], self.block, theta[None])
        return Particle(self.model, theta, block)

    def predict(self, X):
        """Predictive means and standard deviations of the targets, both (n,)."""
        conditional = self.model.conditional(self.theta, self.block[0])
        moments = []
        for part in np.array_split(X, max(1, -(-len(X) // CHUNK))):
            mean, variance = self.model.predict(self.theta, conditional, part)
            variance = variance + self.model.covariance.noise(self.theta, part)
            moments.append((mean[:, 0], np.sqrt(variance)))
        return tuple(np.concatenate(both) for both in zip(*moments, strict=True))

    def _log_evidence(self):
        return float(self.model.log_partition(self.block)[0])


class Particles(NamedTuple):
    """Weighted particles (a list, and their log weights) with the predictions of an estimator."""

    particles: list
    log_weights: np.ndarray

    @property
    def weights(self):
        """Normalised weights."""
        return np.exp(self.log_weights - logsumexp(self.log_weights))

    def predict_proba(self, X):
        """Predictive distributions of the targets, noise included."""
        weights = self.weights
        kept = np.flatnonzero(weights > NEGLIGIBLE)
        moments = [self.particles[i].predict(X) for i in kept]
        means, stds = (np.array(both) for both in zip(*moments, strict=True))
        return NormalMixture(means, stds, weights[kept] / weights[kept].sum())

    def after(self, batch):
        """Update by a batch, and reweight each particle by how well it predicted it."""
        gains = np.array([particle.update(batch) for particle in self.particles])
        return self._replace(log_weights=self.log_weights + gains)

    def rejuvenated(self, bandwidth, rng):
        """Resample, and move by kernels, within the bounds of the kernel's hyperparameters."""
        theta, weights = np.array([one.theta for one in self.particles]), self.weights
        ancestors = systematic(weights, len(theta), rng)
        mean = weights @ theta
        centred = theta - mean
        spread = (rng.standard_normal((len(theta),) * 2) * np.sqrt(weights)) @ centred
        moved = mean + np.sqrt(1.0 - bandwidth**2) * centred[ancestors] + bandwidth * spread
        moved = np.clip(moved, *self.particles[0].model.covariance.kernel.bounds.T)
        particles = [self.particles[a].moved(one) for a, one in zip(ancestors, moved, strict=True)]
        return Particles(particles, np.zeros(len(particles)))


def subset_start(estimator, X, y, rng):
    """Return particles that know a subset of data, of all of whose rows they are the posterior.

    Kernel, inducing inputs and hyperparameters around the best ones are found as `estimator`, a
    `SparseGPRegressorPMD` with ``normalize_y=False``, does from these rows.
    """
    zero = np.zeros(len(y))
    data = Data(X, y[:, None], zero, zero, zero + 1.0)
    parameters = estimator._parameters()
    if parameters.form.approximation == "auto":
        parameters = parameters.replaced(approximation="fitc")
    state, rows = initialise(parameters, data, rng)
    particles = Particles(
        [Particle(state.model, theta) for theta in state.particles.theta], zero[:0]
    )
    for batch in rows.whole():
        for particle in particles.particles:
            particle.update(batch)
    return particles._replace(log_weights=np.zeros(len(particles.particles)))


def gp_one_pass_smc(X, y, *, start, n_start, batch_size, seed, bandwidth=0.1, checkpoints=()):
    """Yield (CPU seconds, rows, `Particles`) at checkpoints and at the end.

    Parameters
    ----------
    X, y : arrays (n, p) and (n,)
        The training part, standardised; it is read once, in this order.
    start : callable
        ``start(X, y, rng)`` returns the `Particles` that knows the rows it is given.
    n_start : int
        How many rows that is.
    batch_size : int
        Rows that reweight the particles together.
    seed : int
        Of the start and of all moves.
    bandwidth : float
        Of the kernels, in the spread of the particles; with 0 particles are reweighted and no more.
    checkpoints : sequence of int
        Rows after which to yield.
    """
    rng, clock = np.random.default_rng(seed), Clock()
    waiting = sorted({*checkpoints, len(y)})
    with clock:
        particles, n_read = start(X[:n_start], y[:n_start], rng), n_start
    last, none = slice(n_start, None), np.zeros(len(y) - n_start)
    for batch in Rows(X[last], y[last, None], None, batch_size, noise=none).whole():
        with clock:
            particles, n_read = particles.after(batch), n_read + len(batch.weight)
            if bandwidth and 1.0 / (particles.weights**2).sum() < 0.5 * len(particles.particles):
                particles = particles.rejuvenated(bandwidth, rng)
        if n_read >= waiting[0]:
            yield clock.cpu, n_read, particles
            waiting = [one for one in waiting if one > n_read]
