"""Three posteriors with exact answers for the ablation: two modes, a curved one, a narrow one."""

import numpy as np
from scipy.special import logsumexp

from ..mixture import mixture

EDGE, SIDE = 5.0, 201  # the grid of the planar problems


def problems(quick):
    """Constructors by name; each takes a seed, which draws the data."""
    if quick:
        return {
            "mixture, TV": lambda seed: Planar(mixture.data(300, seed), mixture.log_likelihood),
            "regression, sds": lambda seed: Regression(seed, d=4),
        }
    return {
        "mixture, TV": lambda seed: Planar(mixture.data(1000, seed), mixture.log_likelihood),
        "banana, TV": lambda seed: Planar(banana_data(seed), banana_log_likelihood),
        "regression, sds": lambda seed: Regression(seed, d=10),
    }


class Planar:
    """A posterior in the plane under the prior N(0, I), exact on a grid.

    Parameters
    ----------
    X : ndarray of shape (n, 1)
        Data.
    log_likelihood : callable
        As `ParticleMirrorDescent` takes it.
    """

    log_prior = staticmethod(mixture.log_prior)
    sample_prior = staticmethod(mixture.sample_prior)

    def __init__(self, X, log_likelihood):
        self.X, self.y, self.log_likelihood = X, None, log_likelihood
        axis = np.linspace(-EDGE, EDGE, SIDE)
        self.points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        self.cell = (axis[1] - axis[0]) ** 2
        parts = np.array_split(self.points, max(1, len(self.points) * len(X) // 10**7))
        log_joint = np.concatenate([self.log_prior(p) + log_likelihood(p, X, None) for p in parts])
        mass = np.exp(log_joint - logsumexp(log_joint))
        self.density = mass / self.cell
        self.sd = np.sqrt(mass @ (self.points - mass @ self.points) ** 2)

    def error(self, posterior):
        """Total variation of the density that the posterior evaluates."""
        found = np.exp(posterior.log_density(self.points))
        return 0.5 * np.abs(found - self.density).sum() * self.cell


def banana_data(seed):
    """100 rows N(1, 2^2)."""
    return 1.0 + 2.0 * np.random.default_rng(2000 + seed).standard_normal((100, 1))


def banana_log_likelihood(theta, X, y):
    """Rows N(theta1 + theta2^2, 2^2): the data see a parabola, along which the prior decides."""
    mean = theta[:, 0] + theta[:, 1] ** 2
    return -0.125 * ((X[:, 0] - mean[:, None]) ** 2).sum(axis=1)


class Regression:
    """Linear regression of 200 rows on correlated columns, noise of sd 2, prior N(0, 9 I).

    The posterior is normal and known exactly. In ten dimensions it is so much narrower than the
    prior that no draw from the prior falls near it.
    """

    def __init__(self, seed, d):
        rng = np.random.default_rng(3000 + seed)
        self.d = d
        self.X = rng.standard_normal((200, d)) + rng.standard_normal((200, 1))
        self.y = self.X @ rng.standard_normal(d) + 2.0 * rng.standard_normal(200)
        covariance = np.linalg.inv(np.eye(d) / 9.0 + self.X.T @ self.X / 4.0)
        self.mean = covariance @ self.X.T @ self.y / 4.0
        self.sd = np.sqrt(np.diag(covariance))

    def log_likelihood(self, theta, X, y):
        """Log-likelihood of rows, up to a constant."""
        return -0.125 * ((y - theta @ X.T) ** 2).sum(axis=1)

    def log_prior(self, theta):
        """Log density of N(0, 9 I), up to a constant."""
        return -0.5 * (theta**2).sum(axis=1) / 9.0

    def sample_prior(self, rng, m):
        """Draw from N(0, 9 I)."""
        return 3.0 * rng.standard_normal((m, self.d))

    def error(self, posterior):
        """Largest error of a posterior mean, in posterior standard deviations."""
        return np.max(np.abs(posterior.mean() - self.mean) / self.sd)
