"""Weights of particles, or of their components, by stacking."""

import numpy as np
import pytest

from skpmd.engine.particles import equal_log_weights, log_weights, stacked

OF_COMPONENTS = {"max_iter": 100, "tol": 1e-5, "prior_rows": 1.0}


@pytest.fixture
def table():
    """Log densities of rows under five normal components, and how often the rows count."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(4000) < 0.3, -2.0, 1.0) + rng.standard_normal(4000)
    centres = np.array([-4.0, -2.0, 0.0, 1.0, 3.0])
    return -0.5 * (x[:, None] - centres) ** 2, rng.integers(1, 5, 4000).astype(float)


def test_weights_are_shares_of_the_best_average(table):
    log_density, weight = table
    shares = np.exp(stacked(log_density, weight, **OF_COMPONENTS))
    assert shares.sum() == pytest.approx(1.0)
    density = np.exp(log_density)

    def score(values):
        return weight @ np.log(density @ values) / weight.sum()

    assert score(shares) > score(np.full(5, 0.2)) + 0.05
    for k in range(5):  # no share is worth more elsewhere, but for what the steps have left
        assert score(0.99 * shares + 0.01 * np.eye(5)[k]) < score(shares) + 2e-4


def test_weights_of_rows_are_repetitions(table):
    log_density, weight = table[0][:500], table[1][:500]
    weight[log_density.argmax(axis=1) == 1] *= 5.0
    weighted = stacked(log_density, weight, **OF_COMPONENTS)
    copies = np.repeat(log_density, weight.astype(int), axis=0)
    repeated = stacked(copies, np.ones(len(copies)), **OF_COMPONENTS)
    np.testing.assert_allclose(np.exp(weighted), np.exp(repeated), atol=1e-4)
    alike = stacked(log_density, np.ones(500), **OF_COMPONENTS)
    assert np.abs(np.exp(weighted) - np.exp(alike)).max() > 0.1


def test_other_weights():
    np.testing.assert_allclose(np.exp(equal_log_weights(4)), 0.25)
    values = np.array([-1e4, -1e4 + np.log(3.0)])
    np.testing.assert_allclose(np.exp(log_weights(values)), [0.25, 0.75])
