"""What the study `theory` measures with, against grids and closed forms."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("examples.benchmarks.peers", reason="examples are not installed")

from examples.benchmarks.paper import theory_densities as densities
from examples.benchmarks.paper import theory_integrals as integrals
from examples.benchmarks.paper import theory_mirror as mirror
from examples.benchmarks.paper import theory_switch as switch
from examples.benchmarks.paper.theory import slopes
from examples.benchmarks.paper.theory_slopes import fitted
from skpmd.engine import kde

LINE = np.linspace(-8.0, 8.0, 8001)
CELL = LINE[1] - LINE[0]


def test_one_step_error_is_the_l1_distance(monkeypatch):
    kept = []
    smoothed = densities.smoothed
    monkeypatch.setattr(densities, "smoothed", lambda *a: kept.append(smoothed(*a)) or kept[0])
    error = densities.one_step_error(1, 200, 0)
    estimate = np.exp(kde.log_density(kept[0], LINE[:, None]))
    exact = norm.pdf(LINE, 0.5, np.sqrt(0.5))
    # Shares vary by about 0.08 over 4000 draws: four standard errors of twice their mean.
    assert error == pytest.approx(np.abs(estimate - exact).sum() * CELL, abs=0.01)


def test_divergence_is_that_of_both_densities_given_omega():
    problem, growth = densities.NormalMean(1), densities.Growth(1, 2, 50, (3,), 1)
    z = (LINE - problem.mean[0]) / np.sqrt(problem.variance)
    inside = np.abs(z) <= norm.ppf(0.75)  # half of the mass
    estimate = problem.estimate(growth, 3, 0)
    found = np.exp(kde.log_density(estimate, LINE[inside, None]))
    log_joint = problem.log_likelihood(LINE[:, None], problem.X, None)
    exact = np.exp(log_joint + problem.log_prior(LINE[:, None]))[inside]
    found, exact = found / found.sum(), exact / exact.sum()
    kl = exact @ np.log(exact / found)
    assert kl > 1e-4
    # 2000 draws of a log ratio whose square is the divergence: a few per cent.
    assert problem.divergence(growth, 3, 0) == pytest.approx(kl, rel=0.15)


def test_exponents_of_slower_growths():
    assert densities.divergence_exponent(1, 2.0) == pytest.approx(1 / 3)  # s = 2/3: 2 s - 1
    assert densities.divergence_exponent(4, 4.0) == pytest.approx(1 / 3)
    assert densities.divergence_exponent(2, 8.0) == 1.0  # the gradients' noise remains


def test_slopes_of_exact_powers():
    sizes = [10, 100, 1000]
    rows = []
    for task in ("weights", "rejuvenation"):
        costs = {"part": "table 1", "task": task}
        rows += [{**costs, "m": m, "cpu_s": m**1.5, "peak_mb": 3.0 * m} for m in sizes]
    found = [row["slope"] for row in slopes(rows)]
    assert found == pytest.approx([1.5, 1.0, 1.5, 1.0])


def test_exact_prox_mappings_end_at_the_posterior_and_keep_the_recurrence():
    points = mirror.Points()
    by_bayes = np.exp(-0.5 * ((points.rows[:, None] - points.theta) ** 2).sum(axis=0))
    by_bayes /= by_bayes.sum()
    np.testing.assert_allclose(np.exp(points.log_posterior), by_bayes, rtol=1e-10)
    assert points.divergence(points.start) == pytest.approx(
        by_bayes @ np.log(by_bayes * mirror.N_POINTS)
    )
    # A step of gamma = 1 is Bayes' rule for a row that counts for all.
    moved, expected = points.moved(points.start, 1.0, 0), mirror.N_ROWS * points.by_row[0]
    np.testing.assert_allclose(moved.log_ratio - moved.log_ratio[0], expected - expected[0])
    found, shares = mirror.last_iterates(points, (10, 1000), 0, True)
    assert found[1] < 0.05 and max(shares) < 1.0


def test_one_step_integral_is_right_for_many_particles():
    errors = [integrals.one_step_error(d, 200_000, 0) for d in (1, 5)]
    assert max(errors) < 0.003  # an sd of 1 over sqrt(2e5 / 3)
    wrong = [integrals.one_step_error(1, 200, seed) for seed in range(20)]
    assert np.mean(wrong) > 0.01


def test_the_outcome_of_the_switch_is_held_against_the_exact_one():
    # Weights of draws of the exact normal itself have nothing but their own noise.
    draws = 0.3 + 0.1 * np.random.default_rng(0).standard_normal((200_000, 3))
    particles = SimpleNamespace(theta=draws, log_ratio=np.zeros(len(draws)))
    assert switch.error_of(particles, np.full(3, 0.3), 0.1) < 0.004
    assert switch.error_of(particles, np.full(3, 0.35), 0.1) > 0.1
    *_, (steps, cpu, error) = switch.run("switch", 20_000, 0)
    assert steps == 50 and cpu > 0.0 and error < 0.05


def test_standard_error_of_a_slope():
    # Against the spread of slopes fitted to 2000 fresh sets of 30; their own error is 2 per cent.
    rng = np.random.default_rng(0)
    sizes = np.array([10.0, 30.0, 100.0])
    noise = 1.0 + 0.3 * rng.standard_normal((2000, 3, 30))
    common = 1.0 + 0.3 * rng.random((2000, 1, 30))  # a seed's level says nothing on the slope
    rows = [fitted("", sizes, sizes[:, None] ** -0.5 * one, 0, "") for one in noise * common]
    spread = np.std([row["slope"] for row in rows])
    assert np.mean([row["standard_error"] for row in rows]) == pytest.approx(spread, rel=0.1)
