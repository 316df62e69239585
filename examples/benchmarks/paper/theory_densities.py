"""Theorems 4 and 6: errors of weighted kernel density estimates, after one step and after T.

Both to the letter: particles rejuvenated before every step, steps taken whole, centres where the
particles are (no shrinkage), h = FACTOR m^(-1/(d + 2 beta)) with beta = 1, no reweighting.
Everything exact is normal and known in closed form.
"""

import warnings
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent
from skpmd.engine import kde

from .theory_slopes import fitted

BETA, FACTOR = 1.0, 2.0  # the theorems leave the constant of the bandwidth free
N_POINTS = 4000  # exact draws that a distance is averaged over
N_ROWS, ROW_VARIANCE = 20, 40.0  # Theorem 6
INSIDE = {1: 0.5, 2: 0.5, 3: 0.1, 4: 0.1}  # the mass of Omega, by d


class Growth(NamedTuple):
    """m_t = start * t^power in d dimensions, and the T at which the divergence is measured."""

    d: int
    power: int
    start: int
    times: tuple
    seeds: int


GROWTHS = (
    Growth(1, 2, 50, (2, 3, 4, 6, 8, 12), 60),
    Growth(1, 3, 20, (2, 3, 4, 6, 8, 12), 100),
    Growth(2, 4, 20, (2, 3, 4, 6, 8), 100),
    Growth(3, 5, 50, (2, 3, 4, 5), 100),
    Growth(4, 6, 50, (2, 3, 4), 120),
)
QUICK_GROWTHS = (Growth(1, 2, 50, (2, 4, 8), 10), Growth(2, 3, 50, (2, 3, 4), 10))
SIZES, REPETITIONS = (100, 316, 1000, 3162, 10000), 60
QUICK_SIZES = (100, 316, 1000)


def one_step_exponent(d):
    """Exponent of 1/m in Theorem 4."""
    return BETA / (d + 2.0 * BETA)


def divergence_exponent(d, power):
    """Exponent of 1/T in Theorem 6 where m_t grows like t^power.

    With s = p beta / (d + 2 beta) its three terms are T^-1, T^(1 - 2 s) and T^-s.
    """
    s = power * one_step_exponent(d)
    return min(1.0, 2.0 * s - 1.0, s)


def one_step_errors(quick):
    """Theorem 4: L1 error of one step from N(0, I) to N(0.5, I / 2), by m and d."""
    sizes, repetitions = (QUICK_SIZES, 20) if quick else (SIZES, REPETITIONS)
    for d in (1, 2) if quick else (1, 2, 4):
        errors = [[one_step_error(d, m, seed) for seed in range(repetitions)] for m in sizes]
        for m, own in zip(sizes, errors, strict=True):
            yield {"part": "theorem 4", "d": d, "m": m, "l1_error": float(np.mean(own))}
        yield fitted(f"theorem 4, d = {d}", sizes, errors, -one_step_exponent(d), "at most")


def one_step_error(d, m, seed):
    """L1 distance of the estimate to the density that it estimates.

    Between two densities it is twice the expectation, under the exact one, of how much the
    estimate falls short of it as a share; exact draws give that with little noise.
    """
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((m, d))
    log_weights = (0.5 * theta**2 - (theta - 0.5) ** 2).sum(axis=1)
    estimate = smoothed(theta, log_weights, "gaussian")
    z = rng.standard_normal((N_POINTS, d))
    exact = normal_log_density(z, 0.5)
    ratio = np.exp(kde.log_density(estimate, 0.5 + np.sqrt(0.5) * z) - exact)
    return 2.0 * np.maximum(0.0, 1.0 - ratio).mean()


def smoothed(theta, log_weights, kernel):
    """The weighted kernel density estimate of Algorithm 1."""
    return kde.fit(
        theta,
        log_weights,
        bandwidth="theorem",
        factor=FACTOR,
        smoothness=BETA,
        kernel=kernel,
        shrinkage=False,
    )


def normal_log_density(z, variance):
    """Log density of N(mean, variance I) at mean + sd z."""
    d = z.shape[1]
    return -0.5 * (z**2).sum(axis=1) - 0.5 * d * np.log(2 * np.pi * variance)


def divergences(quick, n_jobs=1):
    """Theorem 6: mean divergence by T, for each growth of m_t; ``n_jobs`` seeds side by side."""
    workers = Parallel(n_jobs=n_jobs)
    for growth in QUICK_GROWTHS if quick else GROWTHS:
        d, p, start, times, seeds = growth
        problem = NormalMean(d)
        found = np.reshape(
            workers(
                delayed(problem.divergence)(growth, T, seed) for T in times for seed in range(seeds)
            ),
            (len(times), seeds),
        )
        print(f"theorem 6, d = {d}, m_t ~ t^{p} done", flush=True)
        for T, own in zip(times, found, strict=True):
            case = {"part": "theorem 6", "d": d, "growth": p, "T": T, "m_T": start * T**p}
            yield {**case, "seeds": seeds, "kl": float(np.mean(own))}
        name = f"theorem 6, d = {d}, m_t ~ t^{p}"
        yield fitted(name, times, found, -divergence_exponent(d, p), "at most")


class NormalMean:
    """Rows N(theta, 40 I), prior N(0, I): a posterior N(mean, variance I) known exactly.

    Parameters
    ----------
    d : int
        Dimension.
    """

    def __init__(self, d):
        self.d = d
        self.X = 0.5 + np.sqrt(ROW_VARIANCE) * np.random.default_rng(d).standard_normal((N_ROWS, d))
        self.variance = 1.0 / (1.0 + N_ROWS / ROW_VARIANCE)
        self.mean = self.variance * self.X.sum(axis=0) / ROW_VARIANCE
        z = np.random.default_rng(0).standard_normal((N_POINTS, d))
        self.z = z[(z**2).sum(axis=1) <= chi2.ppf(INSIDE[d], d)]
        self.exact = normal_log_density(self.z, self.variance)

    def log_likelihood(self, theta, X, y):
        """Log-likelihood of some rows, up to a constant."""
        squared = len(X) * (theta**2).sum(axis=1) - 2.0 * theta @ X.sum(axis=0)
        return -0.5 * squared / ROW_VARIANCE

    def log_prior(self, theta):
        """Log density of N(0, I)."""
        return normal_log_density(theta, 1.0)

    def sample_prior(self, rng, m):
        """Draw from N(0, I)."""
        return rng.standard_normal((m, self.d))

    def divergence(self, growth, T, seed):
        """KL(exact, estimate) of the two as densities on Omega, after T steps."""
        estimate = self.estimate(growth, T, seed)
        log_ratio = kde.log_density(estimate, self.mean + np.sqrt(self.variance) * self.z)
        log_ratio -= self.exact
        return float(np.log(np.exp(log_ratio).mean()) - log_ratio.mean())

    def estimate(self, growth, T, seed):
        """The density after T steps."""
        estimator = ParticleMirrorDescent(
            self.log_likelihood,
            self.log_prior,
            self.sample_prior,
            n_particles=growth.start,
            particle_growth=growth.power,
            max_particles=10**6,
            max_iter=T,
            batch_size=N_ROWS,
            sampling="replacement",
            step_schedule="theorem6",
            rejuvenation="always",
            ess_threshold=0.0,
            kernel="epanechnikov",
            bandwidth="theorem",
            bandwidth_factor=FACTOR,
            smoothness=BETA,
            shrinkage=False,
            reweight=False,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # no reweighting: nothing is diagnosed
            posterior = estimator.fit(self.X).posterior_
        return smoothed(posterior.particles, posterior.log_weights, "epanechnikov")
