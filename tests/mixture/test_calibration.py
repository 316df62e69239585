"""Simulation-based calibration of mixtures with all parameters as coordinates (Talts et al. 2018).

Two components in one column: weights, means and deviations from the prior, rows from the mixture,
and the ranks of the truth among draws of the posterior, components of both in the order of their
means. 200 replications, seeds fixed beforehand; the chi-square test over 20 bins must not reject at
1 % after Bonferroni's correction over the parameters.
"""

import numpy as np
import pytest
from scipy.stats import chisquare

from skpmd import GaussianMixturePMD

# Some draws of the prior have rows beside which it is wide, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

REPLICATIONS, DRAWS, BINS, ROWS = 200, 99, 20, 30
CONCENTRATION, MEAN, PRECISION, DF, SCATTER = 2.0, 1.5, 0.2, 5.0, 2.0


def from_prior(rng):
    """Weights, means and standard deviations of the user's units."""
    precision = rng.gamma(0.5 * DF, 2.0 / SCATTER, size=2)
    means = MEAN + rng.standard_normal(2) / np.sqrt(PRECISION * precision)
    return rng.dirichlet([CONCENTRATION] * 2), means, precision**-0.5


def in_order(weights, means, stds):
    """Means, deviations and the first weight with components in the order of their means."""
    order = np.argsort(means, axis=-1)
    parts = [np.take_along_axis(part, order, axis=-1) for part in (means, stds, weights)]
    return np.concatenate(parts, axis=-1)[..., :5]


def p_values(**wrong):
    rng = np.random.default_rng(20240612)
    ranks = []
    for seed in range(REPLICATIONS):
        weights, means, stds = from_prior(rng)
        which = rng.choice(2, size=ROWS, p=weights)
        X = means[which] + stds[which] * rng.standard_normal(ROWS)
        prior = {
            "weight_concentration_prior": CONCENTRATION, "mean_prior": [MEAN],
            "mean_precision_prior": PRECISION, "degrees_of_freedom_prior": DF,
            "covariance_prior": [[SCATTER]], "reg_covar": 0.0, **wrong,
        }  # fmt: skip
        mixture = GaussianMixturePMD(
            2, strategy="parameters", n_particles=400, random_state=seed, **prior
        ).fit(X[:, None])
        particles = mixture.posterior_.particles
        drawn = in_order(particles[:, :2], particles[:, 2:4], particles[:, 4:])
        chosen = rng.choice(len(drawn), DRAWS, replace=False)
        ranks.append((drawn[chosen] < in_order(weights, means, stds)).sum(axis=0))
    bins = np.array(ranks) * BINS // (DRAWS + 1)
    return np.array([chisquare(np.bincount(one, minlength=BINS)).pvalue for one in bins.T])


@pytest.mark.slow
def test_ranks_are_uniform():
    assert (p_values() > 0.01 / 5).all()


@pytest.mark.slow
def test_a_wrong_prior_is_noticed():
    """Deviations twice as wide as those that the rows come from."""
    assert (p_values(covariance_prior=[[4.0 * SCATTER]]) < 0.01 / 5).any()
