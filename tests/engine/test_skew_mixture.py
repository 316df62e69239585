"""Mixtures of skew normals: weights of particles, skewness, modes and tied covariances."""

import numpy as np
import pytest
from scipy.stats import skew

from skpmd.engine.kde import cholesky
from skpmd.engine.particles import moments
from skpmd.proposals import fitted_density


def test_weights_count():
    """Draws of a wide normal, weighted to a narrower one elsewhere: 3,600 effective of 8,000."""
    rng = np.random.default_rng(0)
    theta = 1.3 * rng.standard_normal((8000, 6))
    log_weights = 0.5 * ((theta / 1.3) ** 2 - (theta - 0.3) ** 2).sum(axis=1)
    draws = fitted_density.sample(fitted_density.fit(theta, log_weights), 20_000, rng)
    # Means of so many effective draws err by .017.
    np.testing.assert_allclose(draws.mean(axis=0), 0.3, atol=0.07)
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.06)


def test_skewness_is_that_of_the_particles():
    """Gamma draws; by the components alone, for values would mend what these lack."""
    rng = np.random.default_rng(0)
    theta = rng.gamma(4.0, size=(6000, 6))
    density = fitted_density.fit(theta, np.zeros(6000))
    found = skew(fitted_density.sample(density, 40_000, rng))
    np.testing.assert_allclose(found, 1.0, atol=0.35)


@pytest.mark.slow_but("6")
@pytest.mark.parametrize("d", [6, 30])
def test_modes_are_found(d):
    """Two modes along one coordinate: of thirty coordinates only a common covariance pays."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((3000, d))
    theta[:, 0] += 6.0 * (rng.random(3000) < 0.3)
    mean, cov = moments(theta, np.zeros(3000))
    components, shares = fitted_density.skew_normals(theta, np.zeros(3000), mean, cholesky(cov))
    assert len(components) == 2
    order = np.argsort([one.mean[0] for one in components])
    np.testing.assert_allclose(shares[order], [0.7, 0.3], atol=0.04)
    np.testing.assert_allclose([components[k].mean[0] for k in order], [0.0, 6.0], atol=0.15)
