"""Models with known posteriors that the tests share."""

import numpy as np
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from skpmd.engine.model import Model


def normal_log_likelihood(theta, X, y, sample_weight=None):
    """Rows x ~ N(theta, I), theta broadcast over the columns of X."""
    X, weight = np.asarray(X), np.ones(len(X)) if sample_weight is None else sample_weight
    centre, total = X.mean(axis=0), weight.sum()
    rows, means = X - centre, theta - centre
    squared = total * (means**2).sum(axis=1) - 2.0 * means @ (weight @ rows)
    squared += weight @ (rows**2).sum(axis=1)
    return -0.5 * squared - 0.5 * X.shape[1] * np.log(2 * np.pi) * total


def normal_log_prior(theta):
    """theta ~ N(0, I)."""
    return -0.5 * (theta**2).sum(axis=1) - 0.5 * theta.shape[1] * np.log(2 * np.pi)


def normal_sample_prior(rng, m):
    return rng.standard_normal((m, 1))


NORMAL_MEAN = {
    "log_likelihood": normal_log_likelihood,
    "log_prior": normal_log_prior,
    "sample_prior": normal_sample_prior,
}


def normal_log_likelihood_pointwise(theta, X, y):
    """The same, of each row."""
    X = np.asarray(X)
    with np.errstate(over="ignore"):  # An outlier may be that far away.
        squared = ((X[None] - theta[:, None]) ** 2).sum(axis=2)
    return -0.5 * squared - 0.5 * X.shape[1] * np.log(2 * np.pi)


def normal_predict_mean(theta, X):
    """Mean of a row's first column, whatever X is."""
    return np.broadcast_to(theta[:, :1], (len(theta), len(X)))


def normal_sample_targets(theta, X, rng):
    """A first column of each row."""
    return rng.normal(theta[:, :1], 1.0, (len(theta), len(X)))


NORMAL_PREDICTIONS = {
    "names": ["mean"],
    "log_likelihood_pointwise": normal_log_likelihood_pointwise,
    "predict_mean": normal_predict_mean,
    "sample_targets": normal_sample_targets,
}


class LogGammas:
    """theta = Q z, z logs of 60 exponential variables, the data without a say: weights fail here.

    Means are Q times -0.577, the variances pi^2 / 6, exactly.
    """

    d = 60
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    mean, sd = -np.euler_gamma * axes.sum(axis=1), np.pi / np.sqrt(6.0)

    @classmethod
    def log_density(cls, theta):
        z = theta @ cls.axes
        return (z - np.exp(z)).sum(axis=1)

    @classmethod
    def log_prior(cls, theta):
        return norm.logpdf(theta, scale=3.0).sum(axis=1)

    @classmethod
    def sample_prior(cls, rng, m):
        return 3.0 * rng.standard_normal((m, cls.d))

    @classmethod
    def log_likelihood(cls, theta, X, y):
        return cls.log_density(theta) - cls.log_prior(theta)

    @classmethod
    def log_joint_gradient(cls, theta, X, y):
        with np.errstate(over="ignore"):
            return cls.log_density(theta), (1.0 - np.exp(theta @ cls.axes)) @ cls.axes.T


LOG_GAMMAS = {
    "log_likelihood": LogGammas.log_likelihood,
    "log_prior": LogGammas.log_prior,
    "sample_prior": LogGammas.sample_prior,
    "log_joint_gradient": LogGammas.log_joint_gradient,
}


class NormalMean(Model):
    """Rows N(theta, 1), theta ~ N(0, 1): posterior N(sum / (n + 1), 1 / (n + 1))."""

    def sample_prior(self, rng, m):
        return rng.standard_normal((m, 1))

    def log_prior(self, theta):
        return norm.logpdf(theta[:, 0])

    def log_likelihood(self, theta, batch):
        return norm.logpdf(batch.X[:, 0], theta) @ batch.weight


class HeavyTailedMean(NormalMean):
    """The same rows under a Student prior, whose log density is not quadratic."""

    def sample_prior(self, rng, m):
        return rng.standard_t(4, size=(m, 1))

    def log_prior(self, theta):
        return student.logpdf(theta[:, 0], 4)


class NoiseScale(Model):
    """Rows N(zeta, e^(2 xi)): xi ~ N(0, 0.7^2) by particles, zeta ~ N(0, 1.5^2) in closed form.

    Natural parameters of a normal zeta are (mean * precision, -precision / 2).
    """

    prior_sd = 1.5
    scale_sd = 0.7

    def sample_prior(self, rng, m):
        return self.scale_sd * rng.standard_normal((m, 1))

    def log_prior(self, theta):
        return norm.logpdf(theta[:, 0], 0.0, self.scale_sd)

    def log_likelihood(self, theta, batch):
        """log h of the rows: what zeta does not touch."""
        precision = np.exp(-2 * theta[:, 0])
        squares = batch.weight @ batch.X[:, 0] ** 2
        n = batch.weight.sum()
        return -0.5 * precision * squares - n * (theta[:, 0] + 0.5 * np.log(2 * np.pi))

    def prior_block(self, theta):
        return np.tile([0.0, -0.5 * self.prior_sd**-2.0], (len(theta), 1))

    def statistics(self, theta, block, batch):
        precision = np.exp(-2 * theta[:, 0])
        total, n = batch.weight @ batch.X[:, 0], batch.weight.sum()
        return np.column_stack([precision * total, -0.5 * precision * n])

    def log_partition(self, block):
        return -0.25 * block[:, 0] ** 2 / block[:, 1] - 0.5 * np.log(-block[:, 1] / np.pi)

    def move_block(self, theta, block, moved):
        """The data part scales with the noise precision."""
        prior = self.prior_block(theta)
        ratio = np.exp(2 * (theta[:, 0] - moved[:, 0]))
        return prior + ratio[:, None] * (block - prior)

    def density(self, block):
        """Log density of zeta under one block."""
        precision = -2 * block[1]
        return lambda zeta: norm.logpdf(zeta, block[0] / precision, precision**-0.5)

    def log_marginal(self, theta, x):
        """Log-likelihood with zeta integrated out, from the joint normal of all rows."""
        n = len(x)
        cov = self.prior_sd**2 * np.ones((n, n))
        return np.array(
            [
                multivariate_normal.logpdf(x, np.zeros(n), cov + np.exp(2 * xi) * np.eye(n))
                for xi in theta[:, 0]
            ]
        )


def skewed_particles(m, d, seed=0):
    """A correlated cloud with a tail on the first axis and uneven weights."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((m, d)) @ rng.standard_normal((d, d))
    theta[:, 0] += np.exp(rng.standard_normal(m))
    return theta + 5.0, rng.normal(0.0, 0.7, m) - 300.0


def two_modes(m, seed=0):
    """Two elongated modes whose shape is not that of the whole cloud, with their exact density."""
    rng = np.random.default_rng(seed)
    cov = np.array([[1.0, 0.9], [0.9, 1.0]])
    centres = np.array([[-3.0, 3.0], [3.0, -3.0]])
    side = rng.integers(2, size=m)
    theta = centres[side] + rng.multivariate_normal(np.zeros(2), cov, m)

    def density(points):
        return sum(0.5 * multivariate_normal(centre, cov).pdf(points) for centre in centres)

    return theta, density
