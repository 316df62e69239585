"""Even points: uniform one by one, and better than independent ones together."""

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit
from scipy.stats import chi2, kstest

from skpmd.engine.importance import Proposal, chi_squared, draw, student_from_normal, uniforms

SEEDS = 400


@pytest.mark.parametrize("place", [0, 1, 6])
def test_each_point_is_uniform_by_itself(place):
    # One point of each of 400 sequences; Kolmogorov-Smirnov of independent points, p > 0.001.
    points = [uniforms(7, 3, np.random.default_rng(seed))[place] for seed in range(SEEDS)]
    for column in np.transpose(points):
        assert kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.slow_for("3-22000")
@pytest.mark.parametrize(("n", "d"), [(0, 2), (1, 1), (5, 2), (1000, 30), (3, 22_000)])
def test_points_are_inside_their_cube(n, d):
    points = uniforms(n, d, np.random.default_rng(0))
    assert points.shape == (n, d)
    assert ((points > 0.0) & (points < 1.0)).all()


def test_chi_squared_draws_follow_their_distribution():
    uniform = uniforms(4096, 1, np.random.default_rng(0))[:, 0]
    assert kstest(chi_squared(uniform, 5.0), chi2(5.0).cdf).pvalue > 1e-3


def test_student_quantiles_by_a_spline():
    z = np.linspace(-6.3, 6.3, 999)
    exact = np.sign(z) * -stdtrit(25.0, ndtr(-np.abs(z)))
    np.testing.assert_allclose(student_from_normal(25.0)(z), exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("df", [np.inf, 5.0])
def test_draws_are_more_accurate_than_independent_ones(df):
    # P(theta_0 < 0.7, theta_1 < -0.3) by 500 pairs, 100 seeds. The root mean square error was 0.12
    # (normal) and 0.29 (Student) of that of independent pairs; the bound is half of it.
    proposal = Proposal(np.zeros(2), np.eye(2), df)
    even, independent = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        even.append(share(draw(proposal, 1000, rng)))
        z = rng.standard_normal((500, 2))
        if np.isfinite(df):
            z /= np.sqrt(rng.chisquare(df, 500) / df)[:, None]
        independent.append(share(np.concatenate([z, -z])))
    truth = np.mean(even + independent)
    errors = [np.sqrt(np.mean((np.array(one) - truth) ** 2)) for one in (even, independent)]
    assert errors[0] < 0.5 * errors[1]


def share(theta):
    """Share of the draws in a corner."""
    return np.mean((theta[:, 0] < 0.7) & (theta[:, 1] < -0.3))
