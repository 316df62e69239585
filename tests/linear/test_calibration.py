"""Simulation-based calibration of logistic regression (Talts et al. 2018), by default and moved.

Coefficients from their prior, rows from the model, and the rank of the true coefficients among
draws of the posterior. 200 replications, seeds fixed beforehand; the chi-square test over 20 bins
must not reject at 1 % after Bonferroni's correction over the coordinates.
"""

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import chisquare

from skpmd import BayesianLogisticRegressionPMD

REPLICATIONS, DRAWS, BINS, ROWS = 200, 99, 20, 40
DRAWN = {
    "normal": lambda rng, size: 1.5 * rng.standard_normal(size),
    "student_t": lambda rng, size: 1.5 * rng.standard_t(4.0, size),
    "laplace": lambda rng, size: 1.5 * rng.laplace(size=size),
}


def p_values(prior, n_classes, scale=1.5, **params):
    rng = np.random.default_rng(20241124)
    n_sets, ranks = 1 if n_classes == 2 else n_classes, []
    for seed in range(REPLICATIONS):
        coefficients = DRAWN[prior](rng, (n_sets, 2))
        X = rng.standard_normal((ROWS, 2))
        scores = X @ coefficients.T
        if n_classes == 2:
            y = (rng.random(ROWS) < expit(scores[:, 0])).astype(int)
        else:
            y = (softmax(scores, axis=1).cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1)
        if len(np.unique(y)) < n_classes:
            # Rows of the other classes with next to no weight: there is nothing else to say it by.
            X, y = np.vstack([X, np.zeros((n_classes, 2))]), np.append(y, np.arange(n_classes))
        weight = np.where(np.arange(len(y)) < ROWS, 1.0, 1e-12)
        model = BayesianLogisticRegressionPMD(
            prior=prior, prior_scale=scale, fit_intercept=False, random_state=seed, **params
        ).fit(X, y, sample_weight=weight)
        w = model.posterior_.weights
        drawn = model.posterior_.particles[rng.choice(len(w), DRAWS, p=w)]
        ranks.append((drawn < coefficients.ravel()).sum(axis=0))
    bins = np.array(ranks) * BINS // (DRAWS + 1)
    return np.array([chisquare(np.bincount(one, minlength=BINS)).pvalue for one in bins.T])


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior, moves", [*((prior, "auto") for prior in DRAWN), ("normal", "always")]
)
def test_ranks_are_uniform(prior, moves):
    found = p_values(prior, 2, moves=moves)
    assert (found > 0.01 / len(found)).all()


@pytest.mark.slow
def test_ranks_of_three_classes_are_uniform():
    found = p_values("normal", 3)
    assert (found > 0.01 / len(found)).all()


@pytest.mark.slow
def test_a_wrong_scale_is_noticed():
    assert (p_values("normal", 2, scale=0.7) < 0.01 / 2).any()
