"""The kernel density estimate: moments, normalisation, draws, weights, odd clouds."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import kstest, multivariate_normal

from skpmd.engine import kde, kernel_sums
from skpmd.engine.kde import BANDWIDTH_RULES, KERNELS
from skpmd.engine.particles import moments
from tests.tools.exact_models import skewed_particles

every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def kernel_covariance(estimate):
    return estimate.factor @ estimate.factor.T


def centres_of(estimate):
    return estimate.mean + estimate.centres @ estimate.factor.T


def total_moments(estimate):
    """Mean and covariance of the mixture: centres' covariance plus the kernels'."""
    w = np.exp(estimate.log_weights)
    centres = centres_of(estimate)
    mean = w @ centres
    centred = centres - mean
    return mean, (centred.T * w) @ centred + kernel_covariance(estimate)


def grid_1d(estimate, n=4001):
    low, high = centres_of(estimate).min(), centres_of(estimate).max()
    margin = 9.0 * estimate.factor[0, 0]
    return np.linspace(low - margin, high + margin, n)


# ----------------------------------------------------------------------------- moments
@every_kernel
@pytest.mark.parametrize("bandwidth", [0.01, 0.8, *BANDWIDTH_RULES])
@pytest.mark.parametrize("d", [1, 3])
def test_shrinkage_keeps_mean_and_covariance(kernel, bandwidth, d):
    theta, log_ratio = skewed_particles(150, d)
    estimate = kde.fit(theta, log_ratio, bandwidth=bandwidth, kernel=kernel)
    mean, cov = moments(theta, log_ratio)
    found_mean, found_cov = total_moments(estimate)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found_cov, cov, rtol=1e-9, atol=1e-9 * np.abs(cov).max())


# ----------------------------------------------------------------------------- density
@every_kernel
@pytest.mark.parametrize("shrinkage", [True, False])
@pytest.mark.parametrize("bandwidth", [0.1, "loo"])
def test_density_integrates_to_one_on_a_line(kernel, bandwidth, shrinkage):
    # The trapezoid rule on 20001 points; a compact kernel has kinks, hence 1e-5 and not rounding.
    theta, log_ratio = skewed_particles(40, 1)
    estimate = kde.fit(theta, log_ratio, bandwidth=bandwidth, kernel=kernel, shrinkage=shrinkage)
    grid = grid_1d(estimate, 20_001)
    density = np.exp(kde.log_density(estimate, grid[:, None]))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-5)
    mean = np.trapezoid(density * grid, grid)
    variance = np.trapezoid(density * (grid - mean) ** 2, grid)
    expected_mean, expected_cov = total_moments(estimate)
    assert mean == pytest.approx(expected_mean[0], rel=1e-5)
    assert variance == pytest.approx(expected_cov[0, 0], rel=1e-4)


@pytest.mark.parametrize("bandwidth", [0.1, "loo"])
@pytest.mark.parametrize("d", [1, 5])
def test_gaussian_kernels_equal_a_double_loop(bandwidth, d):
    theta, log_ratio = skewed_particles(40, d)
    estimate = kde.fit(theta, log_ratio, bandwidth=bandwidth)
    points = theta[:15] + 0.1
    w = np.exp(log_ratio - np.logaddexp.reduce(log_ratio))
    cov = kernel_covariance(estimate)
    expected = [
        sum(
            weight * multivariate_normal(centre, cov).pdf(point)
            for weight, centre in zip(w, centres_of(estimate), strict=True)
        )
        for point in points
    ]
    # In single precision: 6e-8 times coordinates of up to 50 widths of a kernel, times distances.
    np.testing.assert_allclose(kde.log_density(estimate, points), np.log(expected), atol=3e-5)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_compact_kernels_equal_a_double_loop(d):
    theta, log_ratio = skewed_particles(40, d)
    estimate = kde.fit(theta, log_ratio, bandwidth=0.6, kernel="epanechnikov")
    points = centres_of(estimate)[:15] + 0.01
    cov = kernel_covariance(estimate)
    # (1 - r^2 / R^2) (d + 2) / (2 volume) has covariance R^2 / (d + 4) on each axis.
    volume = np.exp(0.5 * d * np.log(np.pi * (d + 4)) - gammaln(0.5 * d + 1))
    peak = (d + 2) / (2 * volume * np.sqrt(np.linalg.det(cov)))
    w = np.exp(estimate.log_weights)
    expected = np.zeros(len(points))
    for i, point in enumerate(points):
        for weight, centre in zip(w, centres_of(estimate), strict=True):
            squared = (point - centre) @ np.linalg.solve(cov, point - centre)
            expected[i] += weight * peak * max(0.0, 1.0 - squared / (d + 4))
    np.testing.assert_allclose(kde.log_density(estimate, points), np.log(expected), atol=1e-8)


@pytest.mark.parametrize("d", [1, 4])
def test_the_widest_kernel_is_one_gaussian(d):
    theta, log_ratio = skewed_particles(80, d)
    estimate = kde.fit(theta, log_ratio, bandwidth=1.0)
    mean, cov = moments(theta, log_ratio)
    points = theta[:20]
    expected = multivariate_normal(mean, cov).logpdf(points)
    np.testing.assert_allclose(kde.log_density(estimate, points), expected, atol=1e-9)


def test_long_tables_are_evaluated_in_pieces():
    theta, log_ratio = skewed_particles(3000, 1)
    estimate = kde.fit(theta, log_ratio, bandwidth=0.2)
    points = np.linspace(0.0, 20.0, 250)[:, None]
    alone = [kde.log_density(estimate, point[None])[0] for point in points[::10]]
    np.testing.assert_allclose(kde.log_density(estimate, points)[::10], alone, rtol=1e-10)


# ----------------------------------------------------------------------------- draws
@every_kernel
@pytest.mark.parametrize("bandwidth", [0.15, 1.0])
def test_draws_follow_the_density(kernel, bandwidth):
    # Kolmogorov-Smirnov on independent draws against the integrated density; p > 0.001.
    theta, log_ratio = skewed_particles(40, 1)
    estimate = kde.fit(theta, log_ratio, bandwidth=bandwidth, kernel=kernel)
    draws, _ = kde.sample(estimate, 20_000, "multinomial", np.random.default_rng(0))
    grid = grid_1d(estimate, 20_001)
    cdf = np.cumsum(np.exp(kde.log_density(estimate, grid[:, None]))) * (grid[1] - grid[0])
    assert kstest(draws[:, 0], lambda x: np.interp(x, grid, cdf)).pvalue > 1e-3


def test_ancestors_are_the_centres_of_the_draws():
    theta, log_ratio = skewed_particles(50, 2)
    estimate = kde.fit(theta, log_ratio, bandwidth=1e-3)
    draws, ancestors = kde.sample(estimate, 500, "systematic", np.random.default_rng(0))
    offset = np.linalg.solve(estimate.factor, (draws - centres_of(estimate)[ancestors]).T)
    # A standard normal exceeds 5.5 in 1000 draws with probability 4e-5.
    assert np.abs(offset).max() < 5.5
    assert (np.diff(ancestors) >= 0).all()


# ----------------------------------------------------------------------------- weights
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, "theorem", "loo"])
def test_dead_particles_are_ignored(bandwidth):
    theta, log_ratio = skewed_particles(60, 2)
    dead = np.append(log_ratio, [-np.inf] * 3)
    particles = np.append(theta, [[1e6, 0.0], [np.nan, 1.0], [3.0, 3.0]], axis=0)
    order = np.random.default_rng(0).permutation(len(particles))
    kept = order[order < len(theta)]
    estimate = kde.fit(particles[order], dead[order], bandwidth=bandwidth)
    expected = kde.fit(theta[kept], log_ratio[kept], bandwidth=bandwidth)
    points = theta[:10]
    np.testing.assert_array_equal(
        kde.log_density(estimate, points), kde.log_density(expected, points)
    )


@every_kernel
@pytest.mark.parametrize("shrinkage", [True, False])
@pytest.mark.parametrize("bandwidth", [0.2, 1.0])
def test_a_weight_is_as_many_copies(kernel, shrinkage, bandwidth):
    theta, _ = skewed_particles(30, 2)
    copies = np.random.default_rng(0).integers(1, 5, 30)
    options = {"bandwidth": bandwidth, "kernel": kernel, "shrinkage": shrinkage}
    weighted = kde.fit(theta, np.log(copies), **options)
    repeated = kde.fit(np.repeat(theta, copies, axis=0), np.zeros(copies.sum()), **options)
    points = theta[:10] + 0.05
    np.testing.assert_allclose(
        kde.log_density(weighted, points), kde.log_density(repeated, points), atol=1e-9
    )


# ----------------------------------------------------------------------------- odd clouds
@every_kernel
@pytest.mark.parametrize("bandwidth", [0.5, *BANDWIDTH_RULES])
@pytest.mark.parametrize("m", [2, 5])
def test_fewer_particles_than_dimensions(kernel, bandwidth, m):
    theta = np.random.default_rng(0).normal(3.0, 2.0, (m, 5))
    estimate = kde.fit(theta, np.zeros(m), bandwidth=bandwidth, kernel=kernel)
    draws, _ = kde.sample(estimate, 400, "systematic", np.random.default_rng(1))
    assert np.isfinite(draws).all()
    assert np.isfinite(kde.log_density(estimate, draws)).all()
    # Draws stay near the flat that the cloud spans: the jitter is 1e-10 to 1e-8 of the variance.
    centred = theta - theta.mean(axis=0)
    basis = np.linalg.svd(centred)[2][m - 1 :]
    assert np.abs((draws - theta.mean(axis=0)) @ basis.T).max() < 1e-2


@pytest.mark.parametrize("bandwidth", [0.5, "loo"])
@pytest.mark.parametrize("gap", [30.0, 800.0, np.inf])
def test_a_single_particle_with_all_weight(bandwidth, gap):
    theta = np.random.default_rng(0).normal(3.0, 2.0, (5, 2))
    log_ratio = np.array([-gap, -gap, 0.0, -gap, -gap])
    estimate = kde.fit(theta, log_ratio, bandwidth=bandwidth)
    draws, ancestors = kde.sample(estimate, 10, "systematic", np.random.default_rng(0))
    assert len(np.unique(ancestors)) == 1
    np.testing.assert_allclose(draws, np.tile(theta[2], (10, 1)), atol=1e-4)
    assert np.isfinite(kde.log_density(estimate, draws)).all()


@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (200, 127, 1), (65, 129, 3), (300, 1000, 6)])
def test_compact_sums_are_those_of_all_pairs(n, m, d):
    rng = np.random.default_rng(0)
    points, centres = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    log_weights, reach = rng.normal(-300.0, 30.0, m), 1.5
    squared = ((points[:, None] - centres) ** 2).sum(axis=2)
    with np.errstate(divide="ignore"):
        inside = np.log(np.maximum(1.0 - squared / reach**2, 0.0))
    expected = logsumexp(log_weights + inside, axis=1)
    found = kernel_sums.compact_log_sums(centres, log_weights, points, reach)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
