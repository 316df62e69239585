"""The product of shards' densities: against products of normals, which are known."""

import numpy as np
import pytest

from skpmd.engine.loop import drive
from skpmd.engine.particles import moments
from skpmd.proposals import fitted_density
from skpmd.proposals.density_product import DensityProduct, Shard, merged_states

D, K, M = 3, 4, 3000


def log_prior(theta):
    return -0.5 * np.einsum("ij,ij->i", theta, theta) / 4.0


def test_the_product_of_normals_is_the_normal_of_all_rows():
    rng, shards = np.random.default_rng(0), []
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
        shards.append(Shard(fitted_density.fit(theta, np.zeros(M), values), log_prior))
    particles = drive(merged_states(DensityProduct(shards), 4000, rng)).particles
    found, cov = moments(particles.theta, particles.log_ratio)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    # 4000 antithetic draws; densities follow values of the posteriors.
    np.testing.assert_allclose((found - np.linalg.solve(precision, linear)) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)) / sd, 1.0, atol=0.05)


def test_a_product_without_an_optimum_is_refused():
    density = fitted_density.fit(np.random.default_rng(0).normal(size=(500, 1)), np.zeros(500))
    nowhere = Shard(density, lambda theta: np.full(len(theta), -np.inf))
    with pytest.raises(ValueError, match="No optimum of the product"):
        drive(merged_states(DensityProduct([nowhere, nowhere]), 100, np.random.default_rng(0)))
