"""A posterior as the general peers see it, what they yield, and the parts that they share.

A peer is a generator ``name(problem, X, y, *, n_particles, seed, batch_size, passes, max_cpu,
...)`` of `Snapshot`: the approximation at a few points, evenly spaced in the logarithm of the rows
read. It ends after its passes, or after the first snapshot beyond ``max_cpu`` seconds. Compilation
and the making of snapshots are outside its clock.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Problem(NamedTuple):
    """A prior and a likelihood, for many particles at once and, in JAX, for one point.

    Functions of JAX are compiled once for each function object: keep one `Problem` for all seeds.

    Attributes
    ----------
    d : int
        Dimension of theta.
    log_likelihood : callable
        From theta (m, d), X and y to (m,): sums over the rows given.
    log_prior : callable
        From theta (m, d) to (m,), normalised.
    sample_prior : callable
        From a `numpy.random.Generator` and m to (m, d).
    jax_log_likelihood, jax_log_prior : callable
        The same of one theta (d,), written in jax.
    """

    d: int
    log_likelihood: Callable
    log_prior: Callable
    sample_prior: Callable
    jax_log_likelihood: Callable | None = None
    jax_log_prior: Callable | None = None


class Snapshot(NamedTuple):
    """An approximation of the posterior and what it took.

    Attributes
    ----------
    cpu : float
        CPU seconds of the algorithm so far.
    rows : int
        Rows read so far. A row that is read for several particles at once counts once.
    particles : ndarray of shape (m, d)
        Particles or draws; of a family with a density, points with its mean and covariance.
    log_weights : ndarray of shape (m,)
        Their log weights, up to a constant.
    log_density : callable or None
        From theta (k, d) to (k,), where the approximation has a density of its own.
    log_evidence : float
        The log evidence where the method estimates it, else nan.
    """

    cpu: float
    rows: int
    particles: np.ndarray
    log_weights: np.ndarray
    log_density: Callable | None = None
    log_evidence: float = float("nan")


class Clock:
    """CPU seconds of the blocks that it is entered for (``with clock:``), added up."""

    def __init__(self):
        self.cpu = 0.0

    def __enter__(self):
        self._start = time.process_time()
        return self

    def __exit__(self, *_):
        self.cpu += time.process_time() - self._start


class Thinned:
    """Draws of several chains, of which at most m evenly spaced ones are handed out.

    All draws that were offered are kept up to twice that number; from then on every second one is,
    then every fourth, and so on.
    """

    def __init__(self, m, n_chains):
        self.size, self.stride, self.offered = max(1, m // n_chains), 1, 0
        self.draws, self.times = [], []

    def extend(self, draws):
        """Offer draws of shape (steps, n_chains, d)."""
        first = -self.offered % self.stride
        self.draws += list(draws[first :: self.stride])
        self.times += list(range(self.offered + first, self.offered + len(draws), self.stride))
        self.offered += len(draws)
        while len(self.draws) > 2 * self.size:
            self.draws, self.times = self.draws[::2], self.times[::2]
            self.stride *= 2

    def __bool__(self):
        return bool(self.draws)

    def take(self):
        """Return draws (k, d), and the step of each, counted from the first that was offered."""
        chosen = np.linspace(0, len(self.draws) - 1, min(self.size, len(self.draws)))
        chosen = chosen.round().astype(int)
        draws, times = np.array(self.draws)[chosen], np.array(self.times)[chosen]
        return draws.reshape(-1, draws.shape[-1]), np.repeat(times, draws.shape[1])


def marks(first, last, count):
    """Return about ``count`` whole numbers up to last, evenly spaced in the logarithm."""
    first, last = max(1, first), max(1, last)
    return {last, *np.geomspace(min(first, last), last, count).round().astype(int).tolist()}


def batches(n, batch_size, rng):
    """Yield rows of batches for ever: pass after pass, each in an order of its own.

    The last batch of a pass is smaller where the size does not divide the number of rows.
    """
    while True:
        order = rng.permutation(n)
        yield from np.split(order, range(batch_size, n, batch_size))


class EqualBatches:
    """Batches of one size, pass after pass; what is left over of a pass is left out."""

    def __init__(self, n, batch_size, rng):
        self.n, self.batch_size, self.rng = n, batch_size, rng
        self.waiting = np.empty((0, batch_size), dtype=int)

    def take(self, count):
        """Return the rows of the next batches, shape (count, batch_size)."""
        per_pass = self.n // self.batch_size
        while len(self.waiting) < count:
            order = self.rng.permutation(self.n)[: per_pass * self.batch_size]
            self.waiting = np.concatenate([self.waiting, order.reshape(per_pass, -1)])
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


def gaussian_particles(mean, factor, m, rng):
    """Return an even number m of draws of N(mean, factor factor'), moments made exact.

    The mean by antithetic pairs; the covariance too where there are more pairs than coordinates.
    """
    z = rng.standard_normal((m // 2, len(mean)))
    if len(z) > len(mean):
        z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T
    return mean + np.vstack([z, -z]) @ factor.T
