"""The paper's tied mixture, and its exact posterior on a grid.

x ~ N(theta1, 2.5^2) / 2 + N(theta1 + theta2, 2.5^2) / 2, theta ~ N(0, I), rows drawn at
theta = (1, -2), whose posterior has a second mode at (-1, 2) (section 6 of the paper).
"""

import numpy as np
from scipy.special import logsumexp

SIGMA, N_PARTICLES = 2.5, 1500


def data(n, seed):
    """n rows of the mixture at theta = (1, -2)."""
    rng = np.random.default_rng(1000 + seed)
    return np.where(rng.random(n) < 0.5, 1.0, -1.0)[:, None] + SIGMA * rng.standard_normal((n, 1))


def log_likelihood(theta, X, y):
    """Log-likelihood of the rows for each particle, shape (m,)."""
    first = -0.5 * ((X[:, 0] - theta[:, :1]) / SIGMA) ** 2
    second = -0.5 * ((X[:, 0] - theta.sum(axis=1, keepdims=True)) / SIGMA) ** 2
    return (np.logaddexp(first, second) - np.log(2 * SIGMA * np.sqrt(2 * np.pi))).sum(axis=1)


def log_prior(theta):
    """Log density of N(0, I)."""
    return -0.5 * (theta**2).sum(axis=1) - np.log(2 * np.pi)


def sample_prior(rng, m):
    """Draw from N(0, I)."""
    return rng.standard_normal((m, 2))


class Grid:
    """The exact posterior on a square grid over [-4, 4]^2."""

    def __init__(self, X, side):
        axis = np.linspace(-4.0, 4.0, side)
        self.points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        self.cell = (axis[1] - axis[0]) ** 2
        parts = np.array_split(self.points, max(1, len(self.points) * len(X) // 10**7))
        log_joint = np.concatenate([log_prior(p) + log_likelihood(p, X, None) for p in parts])
        self.log_evidence = logsumexp(log_joint) + np.log(self.cell)
        self.log_density = log_joint - self.log_evidence
        self.density = np.exp(self.log_density)

    def draw(self, n, rng):
        """Independent exact draws: cells by mass, uniform within a cell."""
        cells = rng.choice(len(self.points), n, p=self.density / self.density.sum())
        return self.points[cells] + np.sqrt(self.cell) * (rng.random((n, 2)) - 0.5)
