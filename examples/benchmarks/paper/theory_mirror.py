"""Theorem 2: stochastic mirror descent itself, where every prox-mapping is exact.

Where the prior is a hundred points that count alike, so is every density on the way, and a step of
the engine that moves weights alone is the exact prox-mapping: nothing is approximated. Rows are
N(theta, 1), one in each step, drawn with replacement; the points are quantiles of N(0, 1). Both
q_T and the posterior q* are known, and so are all expectations over the next row.
"""

import numpy as np
from scipy.special import ndtri

from skpmd.custom._model import CustomModel
from skpmd.engine.mirror import Settings, step
from skpmd.engine.model import Batch
from skpmd.engine.particles import draw_prior, log_weights

from .theory_slopes import fitted

N_POINTS, N_ROWS = 100, 10
TIMES, REPETITIONS = (10, 32, 100, 316, 1000, 3162), 200
QUICK = (10, 32, 100), 20
CHECKED = 5  # runs whose recurrence is checked at each of the times
FIXED = Settings(rejuvenation="never")


class Points:
    """Rows N(theta, 1) under a prior of points that count alike, and their posterior."""

    def __init__(self):
        self.rows = 0.5 + np.random.default_rng(0).standard_normal(N_ROWS)
        self.theta = ndtri((np.arange(N_POINTS) + 0.5) / N_POINTS)
        self.model = CustomModel(
            log_likelihood, log_prior, lambda rng, m: self.theta[:, None], weighted=False
        )
        self.batches = [Batch(row.reshape(1, 1), None, np.ones(1)) for row in self.rows]
        self.by_row = -0.5 * (self.rows[:, None] - self.theta) ** 2  # (rows, points)
        self.log_posterior = log_weights(self.by_row.sum(axis=0))
        self.start = draw_prior(self.model, N_POINTS, np.random.default_rng(0))

    def moved(self, particles, gamma, row):
        """One step of the engine on one row, which counts for all."""
        batch = (self.batches[row],)
        return step(particles, self.model, batch, gamma, gamma * N_ROWS, FIXED, None)[0]

    def divergence(self, particles):
        """KL(q*, q)."""
        gap = self.log_posterior - log_weights(particles.log_ratio)
        return float(np.exp(self.log_posterior) @ gap)

    def recurrence(self, particles, gamma):
        """Both sides of Theorem 2(a) at a state, expectations over the next row taken exactly."""
        after = [self.divergence(self.moved(particles, gamma, row)) for row in range(N_ROWS)]
        gradient = log_weights(particles.log_ratio) + np.log(N_POINTS) - N_ROWS * self.by_row
        largest = np.mean(np.abs(gradient).max(axis=1) ** 2)
        bound = (1.0 - gamma) * self.divergence(particles) + 0.5 * gamma**2 * largest
        return float(np.mean(after)), float(bound)


def measured(quick):
    """Both parts of the theorem, their slopes and how far below the bounds they are."""
    times, repetitions = QUICK if quick else (TIMES, REPETITIONS)
    points = Points()
    last = [last_iterates(points, times, seed, seed < CHECKED) for seed in range(repetitions)]
    divergences = np.array([found for found, _ in last]).T
    sides = np.concatenate([checked for _, checked in last if checked])
    averages = np.array([[average(points, T, seed) for seed in range(repetitions)] for T in times])
    for T, own, ends in zip(times, divergences, averages, strict=True):
        case = {"part": "theorem 2", "T": T, "repetitions": repetitions}
        yield {**case, "kl_last": float(own.mean()), "kl_average": float(ends.mean())}
    yield fitted("theorem 2(a), last iterate", times, divergences, -1.0, "equal")
    yield fitted("theorem 2(b), average", times, averages, -0.5, "at most")
    yield {"part": "recurrence", "states": len(sides), "largest_share": float(sides.max())}


def last_iterates(points, times, seed, checked):
    """KL(q*, q_T) at each T with gamma_t = 2 / (t + 1); shares of the recurrence's two sides."""
    rng, particles, found, sides = np.random.default_rng(seed), points.start, [], []
    for t in range(1, times[-1] + 1):
        gamma = 2.0 / (t + 1.0)
        if checked and t in times:
            after, bound = points.recurrence(particles, gamma)
            sides.append(after / bound)
        particles = points.moved(particles, gamma, rng.integers(N_ROWS))
        if t in times:
            found.append(points.divergence(particles))
    return found, sides


def average(points, T, seed):
    """KL(average, q*) = L(average) - L(q*) after T steps of 1 / sqrt(T), all averaged alike."""
    rng, particles, gamma = np.random.default_rng(10_000 + seed), points.start, 1.0 / np.sqrt(T)
    total = np.zeros(N_POINTS)
    for _ in range(T):
        total += np.exp(log_weights(particles.log_ratio))
        particles = points.moved(particles, gamma, rng.integers(N_ROWS))
    mean = total / T
    return float(mean @ (np.log(mean) - points.log_posterior))


def log_likelihood(theta, X, y):
    """Of rows N(theta, 1), up to a constant."""
    return -0.5 * ((X[:, 0] - theta) ** 2).sum(axis=1)


def log_prior(theta):
    """All points alike: the engine knows no other weights than those of the particles."""
    return np.zeros(len(theta))
