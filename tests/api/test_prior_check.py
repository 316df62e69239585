"""A prior that is given twice: right ones pass, wrong ones and wrong constants are named.

The false alarm rate of a check is 1e-5, so that no right prior is ever refused here; of 2000 draws
that take 12 or more Metropolis steps those below differ by eight standard errors or more.
"""

import copy
import math

import numpy as np
import pytest
from scipy import stats

from skpmd.custom._prior import PriorCheck, check_prior
from skpmd.engine.edges import NotANumberError
from skpmd.engine.model import Model


class Prior(Model):
    def __init__(self, sample_prior, log_prior):
        self.sample_prior, self.log_prior = sample_prior, log_prior


def normal(d, sd=1.0, correlation=0.0):
    covariance = sd**2 * (np.full((d, d), correlation) + (1.0 - correlation) * np.eye(d))
    chol = np.linalg.cholesky(covariance)
    law = stats.multivariate_normal(np.zeros(d), covariance)
    return (
        lambda rng, m: rng.standard_normal((m, d)) @ chol.T,
        lambda theta: law.logpdf(theta).reshape(len(theta)),
    )


def cauchy(d):
    return (
        lambda rng, m: rng.standard_cauchy((m, d)),
        lambda theta: stats.cauchy.logpdf(theta).sum(axis=1),
    )


def cube(d):
    return (
        lambda rng, m: rng.random((m, d)),
        lambda theta: np.where(((theta > 0) & (theta < 1)).all(axis=1), 0.0, -np.inf),
    )


RIGHT = {
    "normal": normal(3),
    "tiny": normal(2, 1e-8),
    "correlated": normal(5, correlation=0.95),
    "many": normal(60),
    "cauchy": cauchy(4),
    "cube": cube(3),
}
WRONG = {
    "sd": (normal(3, 0.8)[0], normal(3)[1]),
    # So little of log_prior that only the spread of that coordinate shows it.
    "sd of one": (
        lambda rng, m: rng.standard_normal((m, 20)) * np.where(np.arange(20) == 7, 0.6, 1.0),
        normal(20)[1],
    ),
    "correlation": (normal(5)[0], normal(5, correlation=0.8)[1]),
    "no correlation": (normal(5, correlation=0.8)[0], normal(5)[1]),
    "tails": (cauchy(2)[0], normal(2)[1]),
    "no Jacobian": (
        lambda rng, m: np.log(rng.gamma(2.0, size=(m, 1))),
        lambda theta: stats.gamma.logpdf(np.exp(theta[:, 0]), 2.0),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_priors_pass(name):
    check = check_prior(Prior(*RIGHT[name]), np.random.default_rng(0))
    assert check.mismatch == "" and check.log_integral == 0.0


@pytest.mark.parametrize("name", WRONG)
def test_wrong_priors_are_named(name):
    check = check_prior(Prior(*WRONG[name]), np.random.default_rng(0))
    assert "standard errors" in check.mismatch


@pytest.mark.parametrize("name", ["normal", "tiny", "correlated", "cauchy", "cube"])
def test_a_constant_is_estimated(name):
    """Standard errors are below .1, and a constant of 1 nat is far beyond five of them."""
    sample_prior, log_prior = RIGHT[name]
    check = check_prior(
        Prior(sample_prior, lambda theta: log_prior(theta) + 1.0), np.random.default_rng(0)
    )
    assert check.mismatch == "" and check.log_integral == pytest.approx(1.0, abs=0.3)


def test_a_density_without_numbers_beyond_its_edge():
    """Where `log_prior` has no number proposals are refused, point by point and at once."""

    def log_prior(theta):
        with np.errstate(invalid="ignore"):
            values = 0.5 * np.log(theta[:, 0]) - theta[:, 0] - np.log(np.sqrt(np.pi) / 2.0)
        if np.isnan(values).any():
            raise NotANumberError("nan", values)
        return values

    prior = Prior(lambda rng, m: rng.gamma(1.5, size=(m, 1)), log_prior)
    check = check_prior(prior, np.random.default_rng(0))
    assert check.mismatch == "" and check.log_integral == 0.0


@pytest.mark.parametrize("dtype, seen", [("f4", True), ("f2", False)])
def test_a_few_ties_do_not_hide_a_coordinate(dtype, seen):
    """Single precision has some; half precision is next to whole numbers."""
    prior = Prior(
        lambda rng, m: (0.5 * rng.standard_normal((m, 1))).astype(dtype).astype(float),
        normal(1)[1],
    )
    found = [check_prior(prior, np.random.default_rng(seed)).mismatch for seed in range(5)]
    assert all(found) == seen, found


def test_draws_without_a_density_are_named():
    prior = Prior(
        lambda rng, m: np.where(rng.random((m, 1)) < 0.01, 9.0, 0.5) * rng.standard_normal((m, 1)),
        lambda theta: np.where(np.abs(theta[:, 0]) < 4.0, norm_log_density(theta), -np.inf),
    )
    assert "log_prior is not finite" in check_prior(prior, np.random.default_rng(0)).mismatch


def norm_log_density(theta):
    return stats.norm.logpdf(theta[:, 0])


def test_a_density_that_raises_beyond_its_support_is_left_alone():
    def log_prior(theta):
        return np.array([-math.log(x) - 0.5 * math.log(x) ** 2 for x in theta[:, 0]])

    prior = Prior(lambda rng, m: np.exp(rng.standard_normal((m, 1))), log_prior)
    assert check_prior(prior, np.random.default_rng(0)) == PriorCheck()


def test_the_generator_is_left_as_it_is():
    rng = np.random.default_rng(0)
    before = copy.deepcopy(rng.bit_generator.state)
    check_prior(Prior(*normal(2)), rng)
    assert rng.bit_generator.state == before


def test_whole_numbers_are_left_alone():
    """Metropolis steps of a continuous proposal say nothing of a coordinate of whole numbers."""
    prior = Prior(
        lambda rng, m: rng.integers(0, 10, (m, 1)).astype(float),
        lambda theta: np.full(len(theta), -np.log(10.0)),
    )
    assert check_prior(prior, np.random.default_rng(0)).mismatch == ""
