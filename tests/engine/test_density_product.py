"""The product of shards' densities: against products of normals, which are known."""

import numpy as np
import pytest

from skpmd.engine.loop import drive
from skpmd.engine.particles import moments
from skpmd.proposals import density_product, fitted_density
from skpmd.proposals.density_product import DensityProduct, Shard

D, K, M = 3, 4, 3000


def log_prior(theta):
    return -0.5 * np.einsum("ij,ij->i", theta, theta) / 4.0


def prior_gradient(theta):
    return -theta / 4.0


@pytest.fixture(scope="module")
def normal():
    """Shards whose posteriors are normal, their particles, and the mean and precision of all."""
    rng, shards, particles = np.random.default_rng(0), [], []
    precision, linear = np.eye(D) / 4.0, np.zeros(D)
    for _ in range(K):
        rows = rng.normal(size=(20, D)) * [1.0, 2.0, 0.5]
        own = rows.T @ rows
        at = own @ rng.normal(size=D) * 0.2 + own @ np.ones(D)
        precision, linear = precision + own, linear + at
        posterior = own + np.eye(D) / 4.0
        mean = np.linalg.solve(posterior, at)
        theta = mean + rng.normal(size=(M, D)) @ np.linalg.inv(np.linalg.cholesky(posterior))
        values = -0.5 * np.einsum("ij,jk,ik->i", theta - mean, posterior, theta - mean)
        density = fitted_density.fit(theta, np.zeros(M), values)
        shards.append(Shard(density, log_prior, prior_gradient))
        particles.append((theta, np.zeros(M), values))
    return shards, particles, np.linalg.solve(precision, linear), precision


def drawn(shards, n=4000):
    states = density_product.merged_states(
        DensityProduct(shards), n, np.random.default_rng(1), "shards"
    )
    return drive(states).particles


def test_the_product_of_normals_is_the_normal_of_all_rows(normal):
    shards, _, mean, precision = normal
    particles = drawn(shards)
    found, cov = moments(particles.theta, particles.log_ratio)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    # 4000 antithetic draws; densities follow values of the posteriors.
    np.testing.assert_allclose((found - mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)) / sd, 1.0, atol=0.05)


def test_without_gradients_and_between_edges_it_is_the_same(normal):
    shards, _, mean, precision = normal
    particles = drawn([shard._replace(prior_gradient=None) for shard in shards])
    found, _ = moments(particles.theta, particles.log_ratio)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    np.testing.assert_allclose((found - mean) / sd, 0.0, atol=0.05)


def test_the_gradient_is_that_of_the_values(normal):
    shards, _, mean, _ = normal
    product, step = DensityProduct(shards), 1e-5
    values, slope = product.gradient(mean[None] + 0.01)
    log_joint = density_product.log_joint(product)
    assert values == pytest.approx(log_joint(mean[None] + 0.01))
    for j in range(D):
        ahead, behind = (mean[None] + 0.01 + sign * step * np.eye(D)[j] for sign in (1, -1))
        by_difference = (log_joint(ahead) - log_joint(behind)) / (2.0 * step)
        assert slope[0, j] == pytest.approx(by_difference[0], rel=1e-4, abs=1e-4)


def test_normals_have_nothing_beyond_their_moments_and_agree(normal):
    shards, particles, _, _ = normal
    found = drawn(shards)
    given = found.theta, found.log_ratio
    # Densities are kernels on 3000 particles, whose own noise is seen.
    assert density_product.nonnormality(shards, *given) < 0.1
    assert density_product.misfit(shards, [*enumerate(particles)], *given) < 0.02
    distances = density_product.distances(shards, *given)
    assert distances.shape == (K,) and distances.max() < 3.0


def test_a_slope_that_a_density_lacks_is_the_shift_of_the_mean(normal):
    shards, particles, _, precision = normal
    found = drawn(shards)
    slope = np.array([0.0, 0.7, 0.0]) * np.sqrt(precision[1, 1])
    theta, log_weights, values = particles[0]
    particles = [(theta, log_weights, values + theta @ slope), *particles[1:]]
    cov = np.linalg.inv(precision)
    exact = np.abs(cov @ slope / np.sqrt(np.diag(cov))).max()
    shift = density_product.misfit(
        shards, [*enumerate(particles)], found.theta, found.log_ratio
    )  # 200 of the particles are effective there, at the smallest.
    assert shift == pytest.approx(exact, rel=0.25)


def test_a_misfit_is_looked_at_where_the_product_is(normal):
    shards, particles, mean, precision = normal
    found = drawn(shards)
    centres = np.array([shard.density.mean for shard in shards])
    k = int(np.abs(mean - centres)[:, 1].argmax())
    # What the density leaves is flat where its shard is, and of slope 1 where the product is.
    theta, log_weights, values = particles[k]
    left = 0.5 * (theta[:, 1] - centres[k, 1]) ** 2 / (mean - centres[k])[1]
    size = 0.7 * np.sqrt(precision[1, 1])
    cov = np.linalg.inv(precision)
    exact = np.abs(size * cov[1] / np.sqrt(np.diag(cov))).max()
    given = [*enumerate(particles)]
    given[k] = k, (theta, log_weights, values + size * left)
    shift = density_product.misfit(shards, given, found.theta, found.log_ratio)
    assert shift == pytest.approx(exact, rel=0.4)  # 200 particles are effective there.
