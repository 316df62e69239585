"""Resampling: unbiased, sorted, exact at the edges of the cumulative weights."""

import numpy as np
import pytest

from skpmd.engine.importance import normal, uniforms
from skpmd.engine.particles import SCHEMES, _invert, random_draws, resample

WEIGHTS = np.array([0.05, 0.3, 0.0, 0.17, 0.08, 0.4])
ONE_UNIFORM_PER_POINT = {
    "systematic": lambda rng, n: (np.arange(n) + rng.random()) / n,
    "stratified": lambda rng, n: (np.arange(n) + rng.random(n)) / n,
    "multinomial": lambda rng, n: np.sort(rng.random(n)),
}

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


class Uniforms:
    """Stands in for a generator: all its uniforms are one value."""

    def __init__(self, value):
        self.value = value

    def random(self, size=None):
        return self.value if size is None else np.full(size, self.value)


def random_weights(m, seed, dead=()):
    w = np.random.default_rng(seed).gamma(0.5, size=m)
    w[list(dead)] = 0.0
    return w / w.sum()


def inverse(weights, points):
    """Reference: first index whose cumulative weight exceeds the point."""
    cumulative = np.cumsum(weights / np.cumsum(weights)[-1])
    alive = np.flatnonzero(weights)
    return np.minimum(np.searchsorted(cumulative, points, side="right"), alive[-1])


@pytest.mark.parametrize("scheme", ["systematic", "stratified", "residual"])
@pytest.mark.parametrize("m", [1, 49, 1000])
def test_equal_weights_keep_every_particle_once(scheme, m):
    # 49 * (1 / 49) is below one in floating point: rounding must not turn a copy into a lottery.
    weights = np.full(m, 1.0 / m)
    ancestors = resample(scheme, weights, m, np.random.default_rng(0))
    np.testing.assert_array_equal(ancestors, np.arange(m))


@every_scheme
@pytest.mark.parametrize("uniform", [0.0, 0.5, 1.0 - 2.0**-53])
@pytest.mark.parametrize("dead", [(0, 1), (3,), (5, 6)])
def test_edges_of_the_unit_interval_never_reach_a_dead_particle(scheme, uniform, dead):
    weights = random_weights(7, 1, dead)
    ancestors = resample(scheme, weights, 5, Uniforms(uniform))
    assert (ancestors < 7).all()
    assert (weights[ancestors] > 0).all()


@pytest.mark.parametrize("scheme", ONE_UNIFORM_PER_POINT)
@pytest.mark.parametrize("m, n", [(1, 4), (5, 5), (40, 100), (300, 17)])
def test_scheme_inverts_its_points(scheme, m, n):
    for seed in range(20):
        weights = random_weights(m, seed)
        points = ONE_UNIFORM_PER_POINT[scheme](np.random.default_rng(seed), n)
        ancestors = resample(scheme, weights, n, np.random.default_rng(seed))
        np.testing.assert_array_equal(ancestors, inverse(weights, points))


@pytest.mark.parametrize("n", [8, 31])
def test_residual_adds_a_multinomial_on_the_remainders(n):
    for seed in range(20):
        ancestors = resample("residual", WEIGHTS, n, np.random.default_rng(seed))
        copies = np.floor(n * WEIGHTS).astype(int)
        remainder = n * WEIGHTS - copies
        points = np.sort(np.random.default_rng(seed).random(n - copies.sum()))
        extra = inverse(remainder / remainder.sum(), points)
        expected = np.concatenate([np.repeat(np.arange(len(WEIGHTS)), copies), extra])
        np.testing.assert_array_equal(ancestors, np.sort(expected))


def test_points_on_a_boundary_belong_to_the_next_particle():
    weights = np.full(4, 0.25)  # exact in binary, so the points hit the boundaries exactly
    points = np.array([0.0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(_invert(weights, points), [0, 1, 2, 3])
    np.testing.assert_array_equal(resample("systematic", weights, 4, Uniforms(0.0)), [0, 1, 2, 3])
    np.testing.assert_array_equal(
        resample("stratified", weights, 8, Uniforms(0.0)), np.arange(8) // 2
    )


def test_rounding_never_carries_a_draw_past_the_last_particle():
    weights = np.full(10, 0.1)  # their running sum stays below one
    points = np.array([1.0 - 2.0**-53])
    assert np.cumsum(weights)[-1] < 1.0
    np.testing.assert_array_equal(_invert(np.append(weights, 0.0), points), [9])


@pytest.mark.parametrize("n", [125, 500, 1000])
def test_some_draws_of_a_sobol_sequence_stand_for_all(n):
    """sds of n of 4,000 particles in the order of a proposal, to 4.5 standard errors of n draws.

    Every fourth or eighth point of such a sequence is in one part of the space: without a random
    order sds were between 0.2 and 1 of what they are.
    """
    points = normal(uniforms(4000, 6, np.random.default_rng(0)))
    weights = np.full(4000, 1 / 4000)
    for seed in range(5):
        some = points[random_draws(weights, n, np.random.default_rng(seed))]
        np.testing.assert_allclose(some.std(axis=0), 1.0, atol=4.5 / np.sqrt(2 * n))


def test_random_draws_have_copies_by_weight():
    draws = random_draws(np.array([0.5, 0.0, 0.25, 0.25]), 8, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(draws), [4, 0, 2, 2])
