"""Importance sampling around a Laplace approximation, by values of the posterior alone.

`laplace_psis` draws from the normal or a Student t around the mode and smooths its weights (Vehtari
et al. 2024, "Pareto smoothed importance sampling", JMLR 25; smoothing by ArviZ). `amis` adapts that
Student t to its own weighted draws and weighs all of them by the mixture of all proposals so far
(Cornuet, Marin, Mira and Robert 2012, "Adaptive multiple importance sampling", Scandinavian Journal
of Statistics 39).
"""

import numpy as np
from scipy.special import gammaln, logsumexp

from .problem import Clock, Snapshot

try:
    from arviz_stats.base import array_stats
except ImportError as error:
    raise ImportError('This needs ArviZ\'s statistics: pip install "skpmd[bench,test]"') from error


class StudentT:
    """A Student t around a point; a normal where ``df`` is infinite."""

    def __init__(self, centre, factor, df):
        self.centre, self.factor, self.df = centre, factor, df
        self.log_det = np.log(np.abs(np.diag(factor))).sum()

    def draw(self, rng, m):
        """Return m draws, (m, d)."""
        z = rng.standard_normal((m, len(self.centre)))
        if np.isfinite(self.df):
            z *= np.sqrt(self.df / rng.chisquare(self.df, m))[:, None]
        return self.centre + z @ self.factor.T

    def log_density(self, theta):
        """Return the log density at theta (m, d)."""
        d, df = len(self.centre), self.df
        squared = (np.linalg.solve(self.factor, (theta - self.centre).T) ** 2).sum(axis=0)
        if not np.isfinite(df):
            return -0.5 * (squared + d * np.log(2.0 * np.pi)) - self.log_det
        constant = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
        return constant - self.log_det - 0.5 * (df + d) * np.log1p(squared / df)


def laplace_psis(problem, X, y, *, mode, factor, seed, max_cpu=np.inf, df=np.inf, block=2000):
    """Yield snapshots of more and more draws; ``factor`` is a root of the covariance (d, d)."""
    rng, clock, proposal = np.random.default_rng(seed), Clock(), StudentT(mode, factor, df)
    particles, log_ratio = np.empty((0, problem.d)), np.empty(0)
    while clock.cpu <= max_cpu:
        with clock:
            for _ in range(max(1, len(particles) // (3 * block))):
                theta = proposal.draw(rng, block)
                gap = _log_joint(problem, theta, X, y) - proposal.log_density(theta)
                particles = np.concatenate([particles, theta])
                log_ratio = np.concatenate([log_ratio, gap])
            log_weights = smoothed(log_ratio)
        yield Snapshot(clock.cpu, len(particles) * len(X), particles, log_weights)


def amis(problem, X, y, *, mode, factor, seed, max_cpu=np.inf, df=10.0, block=1000, rounds=40):
    """Yield snapshots after each round of ``block`` draws from the proposal of the round before."""
    rng, clock = np.random.default_rng(seed), Clock()
    proposals, particles, log_joint = [StudentT(mode, factor, df)], None, None
    for _ in range(rounds):
        with clock:
            theta = proposals[-1].draw(rng, block)
            values = _log_joint(problem, theta, X, y)
            if particles is None:
                particles, log_joint = theta, values
                log_mixture = proposals[-1].log_density(theta)[None]
            else:
                old = np.array([proposals[-1].log_density(particles)])
                of_new = np.array([proposal.log_density(theta) for proposal in proposals])
                log_mixture = np.hstack([np.vstack([log_mixture, old]), of_new])
                particles = np.concatenate([particles, theta])
                log_joint = np.concatenate([log_joint, values])
            log_weights = log_joint - logsumexp(log_mixture, axis=0) + np.log(len(proposals))
            weights = np.exp(log_weights - logsumexp(log_weights))
            centre = weights @ particles
            scatter = (particles - centre).T * weights @ (particles - centre)
            enough = 1.0 / (weights @ weights) > 2.0 * problem.d
        yield Snapshot(clock.cpu, len(particles) * len(X), particles, log_weights)
        if clock.cpu > max_cpu:
            return
        with clock:
            adapted = (centre, np.linalg.cholesky(scatter)) if enough else (mode, factor)
            proposals.append(StudentT(*adapted, df))


def smoothed(log_ratio):
    """Return Pareto smoothed log weights (m,) of log ratios of target and proposal."""
    return np.asarray(array_stats.psislw(-log_ratio)[0])  # it takes those of the inverse


def _log_joint(problem, theta, X, y):
    return problem.log_likelihood(theta, X, y) + problem.log_prior(theta)
