"""Simulation-based calibration of Gaussian processes (Talts et al. 2018).

The process: y from a process whose kernel is known, and the rank of its values at new points among
draws. The hyperparameters: length scale, scale and noise from their priors, y from the process, and
their ranks under ``weighting="posterior"``. 200 replications, seeds fixed beforehand; the
chi-square test over 20 bins must not reject at 1 % after Bonferroni's correction.
"""

import numpy as np
import pytest
from scipy.stats import chisquare, lognorm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd import SparseGPRegressorPMD

REPLICATIONS, DRAWS, BINS = 200, 99, 20


def p_values(ranks):
    bins = np.array(ranks) * BINS // (DRAWS + 1)
    return np.array([chisquare(np.bincount(one, minlength=BINS)).pvalue for one in bins.T])


def of_process(noise_told, **params):
    """Ranks of three values of the process; the estimator is given a noise level."""
    rng, ranks = np.random.default_rng(20241124), []
    kernel = ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(noise_told)
    for seed in range(REPLICATIONS):
        X = rng.uniform(-2.0, 2.0, (25, 1))
        root = np.linalg.cholesky(kernel.k1(X) + 1e-9 * np.eye(25))
        f = root @ rng.standard_normal(25)
        y = f + np.sqrt(0.1) * rng.standard_normal(25)
        model = SparseGPRegressorPMD(
            kernel, optimizer=None, normalize_y=False, random_state=seed, **params
        ).fit(X[3:], y[3:])
        process = model.predict_proba(X[:3], target="f")
        drawn = process.mean() + process.std() * rng.standard_normal((DRAWS, 3))
        ranks.append((drawn < f[:3]).sum(axis=0))
    return p_values(ranks)


@pytest.mark.slow
def test_ranks_of_the_process_are_uniform():
    assert (of_process(0.1) > 0.01 / 3).all()


@pytest.mark.slow
def test_a_wrong_noise_is_noticed():
    assert (of_process(1.0) < 0.01 / 3).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Pareto k-hat")  # Some replications: all of them count.
def test_ranks_of_hyperparameters_are_uniform():
    priors = [lognorm(0.5, scale=1.0), lognorm(0.5, scale=0.8), lognorm(0.5, scale=0.1)]
    rng, ranks = np.random.default_rng(20241125), []
    for seed in range(REPLICATIONS):
        scale, length, noise = truth = [prior.rvs(random_state=rng) for prior in priors]
        X = rng.uniform(-2.0, 2.0, (20, 1))
        covariance = scale * RBF(length)(X) + noise * np.eye(20)
        y = np.linalg.cholesky(covariance) @ rng.standard_normal(20)
        model = SparseGPRegressorPMD(
            ConstantKernel(1.0) * RBF(0.8) + WhiteKernel(0.1),
            hyperprior=priors, weighting="posterior", n_particles=200, max_iter=4,
            normalize_y=False, random_state=seed,
        ).fit(X, y)  # fmt: skip
        w = model.posterior_.weights
        drawn = model.posterior_.particles[rng.choice(len(w), DRAWS, p=w)]
        ranks.append((drawn < truth).sum(axis=0))
    assert (p_values(ranks) > 0.01 / 3).all()
