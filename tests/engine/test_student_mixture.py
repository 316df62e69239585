"""Mixtures fitted to weighted particles: what is drawn from them and weighed is exact."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skpmd.engine.importance import draw, even_counts, mixture_log_density
from skpmd.engine.particles import effective_sample_size, log_sum_exp
from skpmd.proposals.ensemble_moves import student_mixture

MEANS = np.array([[-4.0, 0.0, 1.0], [3.0, 2.0, -1.0]])
COVARIANCES = [np.diag([1.0, 0.04, 4.0]), [[1.0, 0.7, 0.0], [0.7, 1.0, 0.0], [0.0, 0.0, 0.25]]]


def log_target(theta):
    parts = [
        multivariate_normal(*one).logpdf(theta) for one in zip(MEANS, COVARIANCES, strict=True)
    ]
    return np.logaddexp(np.log(0.3) + parts[0], np.log(0.7) + parts[1])


def weighed(parts, shares, n=4000):
    """Log ratios of draws from a mixture to the target."""
    rng = np.random.default_rng(1)
    pairs = zip(parts, even_counts(shares, n), strict=True)
    theta = np.concatenate([draw(one, count, rng) for one, count in pairs if count])
    return log_target(theta) - mixture_log_density(parts, shares, theta)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_weights_of_its_draws_are_even(is_weighted):
    """The evidence of a normalised target is 0; its error is sqrt((n / ess - 1) / n) < .02.

    Weighted particles come from a normal three times as wide; some of them have no weight.
    """
    rng = np.random.default_rng(0)
    if is_weighted:
        theta = np.array([0.0, 1.0, 0.0]) + 4.0 * rng.standard_normal((20_000, 3))
        log_pi = multivariate_normal([0.0, 1.0, 0.0], 16.0 * np.eye(3)).logpdf(theta)
        log_weights = log_target(theta) - log_pi
        theta[:50], log_weights[:50] = 1e3, -np.inf
    else:
        at = rng.random(2000) < 0.3
        draws = [rng.multivariate_normal(*one, 2000) for one in zip(MEANS, COVARIANCES)]  # noqa: B905
        theta, log_weights = np.where(at[:, None], *draws), np.zeros(2000)
    parts, shares = student_mixture(theta, log_weights, np.random.default_rng(2))
    assert shares.sum() == pytest.approx(1.0)
    log_ratio = weighed(parts, shares)
    assert effective_sample_size(log_ratio) > 0.7 * len(log_ratio)
    assert log_sum_exp(log_ratio) - np.log(len(log_ratio)) == pytest.approx(0.0, abs=0.04)


@pytest.mark.parametrize("m, d", [(3, 8), (40, 2), (1, 2)])
def test_few_particles_have_a_mixture_too(m, d):
    theta = np.random.default_rng(m).standard_normal((m, d))
    parts, shares = student_mixture(theta, np.zeros(m), np.random.default_rng(0))
    assert all(np.isfinite(one.factor).all() for one in parts) and np.isfinite(shares).all()
    points = np.concatenate([draw(one, 10, np.random.default_rng(1)) for one in parts])
    assert np.isfinite(mixture_log_density(parts, shares, points)).all()


def test_one_particle_with_all_the_weight_has_a_mixture():
    """Others are so far away that squares of distances, in its units, have no number."""
    theta = np.append(1e5 * np.random.default_rng(0).standard_normal((99, 1)), [[2.0]], axis=0)
    log_weights = np.append(np.full(99, -800.0), 0.0)
    parts, shares = student_mixture(theta, log_weights, np.random.default_rng(0))
    assert np.isfinite(mixture_log_density(parts, shares, theta)).all()
