"""Sections and grids of a ridge against closed forms."""

import numpy as np
import pytest

from skpmd.engine.importance import draw, even_counts, mixture_log_density
from skpmd.engine.particles import effective_sample_size, log_sum_exp
from skpmd.engine.variational import Gaussian
from skpmd.proposals import ridge
from skpmd.proposals.fitted_proposals import ByDifferences

LOG_TWO_PI = np.log(2.0 * np.pi)


def funnel(theta):
    """v ~ N(0, 1), and the three others N(v, e^v) given v: their optimum moves along too."""
    v, x = theta[:, :1], theta[:, 1:]
    of_x = (-0.5 * (x - v) ** 2 * np.exp(-v) - 0.5 * v - 0.5 * LOG_TWO_PI).sum(axis=1)
    return of_x - 0.5 * v[:, 0] ** 2 - 0.5 * LOG_TWO_PI


START = Gaussian(np.array([1.0, 1.0, 1.0, 1.0]), np.eye(4))


def sections_of(j, start=START):
    derivatives = ByDifferences(funnel)
    first = ridge._first_section(derivatives, start, j)
    return ridge._grid(derivatives, ridge._uphill(derivatives, first, j, 1.0), j, 1.0)


def test_sections_of_a_normal_conditional_are_exact():
    """Differences of second order at a twentieth of an sd leave 1e-3 of a covariance."""
    for one in sections_of(0):
        v = one.mean[0]
        np.testing.assert_allclose(one.mean, v, atol=2e-3 * np.exp(0.5 * v))
        covariance = one.root @ one.root.T
        np.testing.assert_allclose(covariance[1:, 1:], np.exp(v) * np.eye(3), atol=5e-3 * np.exp(v))
        assert not one.root[0].any()
        exact = -0.5 * v**2 - 0.5 * LOG_TWO_PI
        assert one.log_mass == pytest.approx(exact, abs=0.01)


def test_a_grid_reaches_into_both_tails_and_is_fine():
    sections = sections_of(0)
    values = np.array([one.mean[0] for one in sections])
    assert values[0] < -4.5 and values[-1] > 4.5 and (np.diff(values) > 0.0).all()
    # Three log sds change by half a step each.
    assert np.diff(values).max() * np.sqrt(3.0) / 2.0 < 1.5 * ridge._MAX_CHANGE + 0.01


def test_the_coordinate_that_leaves_normal_sections_comes_first():
    """It is found from the funnel's highest point, down its neck, where any may do for a scale."""
    rng = np.random.default_rng(0)
    at = -1.5  # Where -v^2 / 2 - 3 v / 2 is largest.
    top = Gaussian(np.full(4, at), np.diag([1.0, *3 * [np.exp(0.5 * at)]]))
    components, log_mass = next(ridge.ridges(funnel, ByDifferences(funnel), top, rng))
    counts = even_counts(np.exp(log_mass) / np.exp(log_mass).sum(), 4000)
    theta = np.concatenate([draw(one, n, rng) for one, n in zip(components, counts, strict=True)])
    log_ratio = funnel(theta) - mixture_log_density(components, counts, theta)
    assert effective_sample_size(log_ratio) > 3000
    # The density is normalised; three standard errors of so many draws.
    assert abs(log_sum_exp(log_ratio) - np.log(len(theta))) < 0.03


def test_a_normal_density_has_no_ridge():
    def normal(theta):
        return -0.5 * (theta**2).sum(axis=1)

    rng = np.random.default_rng(0)
    assert not list(
        ridge.ridges(normal, ByDifferences(normal), Gaussian(np.zeros(3), np.eye(3)), rng)
    )


def test_a_density_that_does_not_end_has_no_grid():
    def endless(theta):
        v, x = theta.T
        return -0.5 * (x * np.exp(-0.1 * v)) ** 2 - 0.1 * v

    derivatives = ByDifferences(endless)
    first = ridge._first_section(derivatives, Gaussian(np.zeros(2), np.eye(2)), 0)
    assert ridge._grid(derivatives, first, 0, 1.0) is None
