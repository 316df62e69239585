"""Bandwidths: the published rules, and the kernel with the best leave-one-out score."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import multivariate_normal

from skpmd.engine import kde
from skpmd.engine.particles import effective_sample_size, moments
from tests.tools.exact_models import skewed_particles, two_modes


def kernel_covariance(estimate):
    return estimate.factor @ estimate.factor.T


def total_variation(estimate, density):
    """Distance to an exact density in the plane, on a grid."""
    axis = np.linspace(-9.0, 9.0, 121)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    gap = np.abs(np.exp(kde.log_density(estimate, points)) - density(points))
    return 0.5 * gap.sum() * (axis[1] - axis[0]) ** 2


# ----------------------------------------------------------------------------- rules
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("factor, smoothness", [(1.0, 1.0), (0.5, 0.5), (1.3, 2.0)])
def test_theorem_rule(d, factor, smoothness):
    theta, log_ratio = skewed_particles(90, d)
    estimate = kde.fit(theta, log_ratio, bandwidth="theorem", factor=factor, smoothness=smoothness)
    expected = factor * 90 ** (-1.0 / (d + 2.0 * smoothness))
    assert estimate.bandwidth == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("factor", [1.0, 0.6])
def test_scott_and_silverman_rules_count_effective_particles(d, factor):
    theta, log_ratio = skewed_particles(90, d)
    ess = effective_sample_size(log_ratio)
    scott = kde.fit(theta, log_ratio, bandwidth="scott", factor=factor).bandwidth
    silverman = kde.fit(theta, log_ratio, bandwidth="silverman", factor=factor).bandwidth
    assert scott == pytest.approx(factor * ess ** (-1 / (d + 4)), rel=1e-10)
    assert silverman == pytest.approx(factor * (ess * (d + 2) / 4) ** (-1 / (d + 4)), rel=1e-10)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_median_rule(factor):
    theta, _ = skewed_particles(79, 3)
    mean, cov = moments(theta, np.zeros(79))
    white = np.linalg.solve(np.linalg.cholesky(cov), (theta - mean).T).T
    estimate = kde.fit(theta, np.zeros(79), bandwidth="median", factor=factor)
    assert estimate.bandwidth == pytest.approx(factor * 0.1 * np.median(pdist(white)), rel=1e-9)


# ----------------------------------------------------------------------------- leave-one-out
def leave_one_out_score(theta, log_ratio, covariance, shrinkage):
    """sum_i w_i log sum_{j != i} w_j / (1 - w_i) N(x_i; c_j, H), whitened, by brute force."""
    mean, cov = moments(theta, log_ratio)
    white = np.linalg.solve(np.linalg.cholesky(cov), (theta - mean).T).T
    w = np.exp(log_ratio - np.logaddexp.reduce(log_ratio))
    centres = white
    if shrinkage:
        values, vectors = np.linalg.eigh(np.eye(len(cov)) - covariance)
        centres = white @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    score = 0.0
    for i, point in enumerate(white):
        others = multivariate_normal(point, covariance).logpdf(centres) + np.log(w)
        others[i] = -np.inf
        score += w[i] * (np.logaddexp.reduce(others) - np.log1p(-w[i]))
    return score


def whitened_kernel(estimate, theta, log_ratio):
    chol = np.linalg.cholesky(moments(theta, log_ratio)[1])
    root = np.linalg.solve(chol, estimate.factor)
    return root @ root.T


@pytest.mark.parametrize("spread, shrinkage", [(1.0, False), (2.0, True)])
def test_chosen_kernel_scores_at_least_as_well_as_any_round_one(spread, shrinkage):
    theta, log_ratio = skewed_particles(150, 2)
    log_ratio = spread * log_ratio
    estimate = kde.fit(theta, log_ratio, bandwidth="loo", shrinkage=shrinkage)
    chosen = whitened_kernel(estimate, theta, log_ratio)
    best = leave_one_out_score(theta, log_ratio, chosen, shrinkage)
    for h in (0.03, 0.05, 0.08, 0.13, 0.2, 0.32, 0.5, 0.75, 1.0 - 1e-9):
        round_one = h**2 * np.eye(2)
        assert best >= leave_one_out_score(theta, log_ratio, round_one, shrinkage) - 1e-6


def test_a_gaussian_cloud_in_many_dimensions_gets_one_gaussian():
    theta = np.random.default_rng(0).standard_normal((1000, 30))
    assert kde.fit(theta, np.zeros(1000)).bandwidth == 1.0


def test_a_cloud_of_two_modes_gets_kernels_of_their_shape():
    # Exact density on a grid. The kernel's correlation is that of a mode (+0.9), the cloud's is
    # negative; the total variation of 800 draws is far below that of a rule of thumb.
    theta, density = two_modes(800)
    chosen = kde.fit(theta, np.zeros(800), bandwidth="loo")
    scott = kde.fit(theta, np.zeros(800), bandwidth="scott")
    cov = kernel_covariance(chosen)
    assert cov[0, 1] > 0.5 * np.sqrt(cov[0, 0] * cov[1, 1])
    assert np.corrcoef(theta.T)[0, 1] < -0.5
    assert total_variation(chosen, density) < 0.15
    assert total_variation(chosen, density) < 0.5 * total_variation(scott, density)


def test_large_clouds_are_scored_on_a_part():
    theta, density = two_modes(2500)
    assert total_variation(kde.fit(theta, np.zeros(2500)), density) < 0.1
