"""Simulation-based calibration (Talts et al. 2018): ranks of the truth among posterior draws.

For theta from the prior and data from the model, the rank of theta among independent posterior
draws is uniform if and only if the posterior is right on average. 2000 replications, seeds fixed
beforehand; the chi-square test over 20 bins must not reject at 1 % after
Bonferroni's correction over the parameters.
"""

import numpy as np
import pytest
from scipy.stats import chisquare

from skpmd import ParticleMirrorDescent

DRAWS, BINS, REPLICATIONS = 99, 20, 2000


def line_log_likelihood(theta, X, y):
    """y ~ N(theta0 + theta1 x, 0.5^2): conjugate under a normal prior."""
    mean = theta[:, :1] + theta[:, 1:] * X[:, 0]
    return -0.5 * (((y - mean) / 0.5) ** 2).sum(axis=1) - len(y) * np.log(0.5 * np.sqrt(2 * np.pi))


def line_data(theta, rng):
    X = rng.uniform(-1, 1, size=(12, 1))
    return X, theta[0] + theta[1] * X[:, 0] + 0.5 * rng.standard_normal(12)


def square_log_likelihood(theta, X, y):
    """x ~ N(theta0^2, 1) and N(theta1, 1): two modes in theta0, one in theta1."""
    first = ((X[:, 0] - theta[:, :1] ** 2) ** 2).sum(axis=1)
    second = ((X[:, 1] - theta[:, 1:]) ** 2).sum(axis=1)
    return -0.5 * (first + second) - len(X) * np.log(2 * np.pi)


def square_data(theta, rng):
    return np.array([theta[0] ** 2, theta[1]]) + rng.standard_normal((10, 2)), None


def log_prior(theta):
    return -0.5 * (theta**2).sum(axis=1) - np.log(2 * np.pi)


def sample_prior(rng, m):
    return rng.standard_normal((m, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "log_likelihood, simulate, reweight",
    [
        (line_log_likelihood, line_data, True),
        (line_log_likelihood, line_data, False),
        (square_log_likelihood, square_data, True),
    ],
    ids=["conjugate", "conjugate without polish", "bimodal"],
)
def test_ranks_are_uniform(log_likelihood, simulate, reweight):
    rng = np.random.default_rng(20240611)
    ranks = []
    # Without polish, exact averaging over one pass ends at the posterior; nothing else does.
    steps = {} if reweight else {"step_schedule": "rows", "max_iter": 1}
    for seed in range(REPLICATIONS):
        theta = rng.standard_normal(2)
        X, y = simulate(theta, rng)
        pmd = ParticleMirrorDescent(
            log_likelihood,
            log_prior,
            sample_prior,
            proposal="prior",
            n_particles=400,
            reweight=reweight,
            random_state=seed,
            **steps,
        )
        posterior = pmd.fit(X, y).posterior_
        chosen = rng.choice(len(posterior.weights), DRAWS, p=posterior.weights)
        ranks.append((posterior.particles[chosen] < theta).sum(axis=0))
    p_values = [
        chisquare(np.bincount(column * BINS // (DRAWS + 1), minlength=BINS)).pvalue
        for column in np.array(ranks).T
    ]
    assert min(p_values) > 0.01 / len(p_values), p_values
