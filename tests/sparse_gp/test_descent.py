"""Searches among more rows begin with what a search among fewer has found."""

import numpy as np
import pytest

from skpmd.sparse_gp._evidence import descended

WIDE = np.array([[-50.0, 50.0]] * 4)


def bowl(seed, spread=3.0):
    """An objective with a minimum at random, its place and the inverse of its Hessian."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    hessian = axes @ np.diag(10.0 ** rng.uniform(-spread, 0.0, 4)) @ axes.T
    lowest = rng.uniform(-0.4, 0.4, 4)
    seen = []

    def objective(theta):
        seen.append(theta)
        gap = theta - lowest
        return 3.0 + 0.5 * gap @ hessian @ gap, hessian @ gap

    return objective, lowest, np.linalg.inv(hessian), seen


@pytest.mark.parametrize("seed", range(5))
def test_the_first_step_is_newtons(seed):
    objective, lowest, inverse, seen = bowl(seed)
    end = descended(objective, np.zeros(4), WIDE, 5, 1e-12, inverse)
    np.testing.assert_allclose(seen[1], lowest, rtol=1e-6)
    np.testing.assert_allclose(end.theta, lowest, rtol=1e-6)
    assert end.value == pytest.approx(3.0, abs=1e-12)
    assert len(seen) <= 4


@pytest.mark.parametrize("seed", range(5))
def test_a_search_knows_the_curvature_that_another_needs(seed):
    objective, lowest, _, _ = bowl(seed, 2.0)
    first = descended(objective, np.ones(4), WIDE, 60, 1e-12)
    np.testing.assert_allclose(first.theta, lowest, atol=1e-3)
    moved, place = lowest + 0.1, []

    def other(theta):
        place.append(theta)
        return objective(theta - 0.1)

    end = descended(other, first.theta, WIDE, 4, 1e-12, first.inverse_hessian)
    known = np.linalg.norm(end.theta - moved)
    assert known < 0.2 * np.linalg.norm(first.theta - moved)


def test_hardly_any_curvature_leads_no_further_than_one():
    def objective(theta):
        return 1e-6 * theta[0] + 0.5 * theta[1] ** 2, np.array([1e-6, theta[1]])

    start = np.array([0.0, 0.5])
    end = descended(objective, start, WIDE[:2], 10, 0.0, np.diag([1e9, 1.0]))
    assert -1.0 - 1e-9 <= end.theta[0] < -0.9
    assert abs(end.theta[1]) < 1e-6


def test_what_leaves_the_bounds_is_brought_back():
    objective, lowest, inverse, seen = bowl(1, 1.0)
    bounds = np.array([[-0.05, 0.05]] * 4)
    end = descended(objective, np.zeros(4), bounds, 30, 1e-12, inverse)
    assert all((bounds[:, 0] <= one).all() and (one <= bounds[:, 1]).all() for one in seen)
    within = descended(objective, np.zeros(4), bounds, 100, 1e-14)
    assert end.value <= objective(np.clip(lowest, *bounds.T))[0] + 1e-9
    assert end.value >= within.value - 1e-9


def test_no_slope_is_an_end():
    objective, lowest, inverse, seen = bowl(0)
    end = descended(objective, lowest, WIDE, 5, 1e-12, inverse)
    np.testing.assert_array_equal(end.theta, lowest)
