"""k-hat, the evidence and diagnostics of chains: against formulas, known values and arviz-stats."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.stats import genpareto

from skpmd.engine import diagnostics
from skpmd.engine.diagnostics import (
    ess_mean,
    heavy_tail,
    log_evidence,
    pareto_k,
    rank_diagnostics,
)
from skpmd.engine.particles import effective_sample_size, log_sum_exp


def pareto_log_weights(k, m, seed):
    """Log of Pareto weights, P(w > x) = x^(-1/k): every tail is a generalised Pareto of shape k."""
    return k * np.random.default_rng(seed).standard_exponential(m)


@pytest.mark.parametrize("m", [25, 224, 1000])
@pytest.mark.parametrize("k", [-0.5, 0.7])
def test_k_hat_equals_that_of_arviz(m, k):
    # arviz-stats has the same estimator and the same prior. Of the largest weights it takes
    # floor(3 sqrt(m)) above 225 draws and floor(m / 5) up to there; ours is the minimum of the
    # two (as Vehtari et al. 2024 define it), which is the same number for every whole m. It
    # leaves out grid points of weight below 2e-15, hence the tolerance.
    log_ratio = np.log(genpareto(k, loc=1.0).rvs(m, random_state=m))
    _, expected = array_stats.psislw(-log_ratio)
    assert pareto_k(log_ratio) == pytest.approx(float(expected), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("constant", [-1e4, 1e5])
def test_k_hat_ignores_a_constant(constant):
    # Adding 1e5 rounds each log weight by up to 1e-11; the smallest of the excesses may be of the
    # order of 1e-4 of the largest.
    log_ratio = pareto_log_weights(0.6, 2000, 0)
    assert pareto_k(log_ratio + constant) == pytest.approx(pareto_k(log_ratio), rel=1e-7)


def test_k_hat_of_weights_that_are_all_as_large():
    """One shape of the estimator's grid is an exponential's, of which 0 / 0 was taken."""
    assert pareto_k(np.append(np.full(1012, -50.0), np.zeros(100))) < 0.0


def test_k_hat_of_few_particles_is_unknown():
    assert np.isnan(pareto_k(pareto_log_weights(0.5, 24, 0)))
    assert np.isfinite(pareto_k(pareto_log_weights(0.5, 25, 0)))
    few_alive = np.append(pareto_log_weights(0.5, 24, 0), np.full(1000, -np.inf))
    assert np.isnan(pareto_k(few_alive))
    assert np.isnan(pareto_k(np.full(100, -np.inf)))


@pytest.mark.parametrize(
    "scale, k, heavy",
    [
        (1.0, 0.3, False),
        (1.0, 1.2, True),
        (1e-4, 1.2, False),  # a ripple on equal weights: no scale, hence no harm
        (0.02, 2.5, True),  # small so far, and about to explode
    ],
)
def test_a_heavy_tail_has_a_shape_and_a_size(scale, k, heavy):
    draws = genpareto(k).rvs(2000, random_state=0)
    log_ratio = np.log1p(scale * draws / np.median(draws))
    assert heavy_tail(log_ratio, pareto_k(log_ratio)) == heavy


@pytest.mark.parametrize("value", [0.0, -500.0, 300.0])
def test_k_hat_of_constant_weights(value):
    assert pareto_k(np.full(1000, value)) == -np.inf


def test_k_hat_of_one_weight_that_dwarfs_all_others():
    # The others vanish beside it in double precision; whatever the number, it must not reassure.
    log_ratio = np.random.default_rng(0).normal(size=1000)
    log_ratio[17] = 200.0
    assert not pareto_k(log_ratio) < 0.7


# ----------------------------------------------------------------------------- evidence


def test_evidence_is_the_log_mean_exponential():
    log_ratio = np.random.default_rng(0).normal(size=100) - 5000.0
    expected = np.logaddexp.reduce(log_ratio) - np.log(100)
    value, error = log_evidence(log_ratio)
    assert value == pytest.approx(expected, rel=1e-14)
    w = np.exp(log_ratio - expected)
    assert error == pytest.approx(w.std(ddof=1) / 10, rel=1e-9)


def test_evidence_without_a_particle_in_the_support():
    value, error = log_evidence(np.full(5, -np.inf))
    assert value == -np.inf and np.isnan(error)


def test_dead_particles_count_in_the_evidence():
    value, _ = log_evidence(np.array([0.0, 0.0, -np.inf, -np.inf]))
    assert value == pytest.approx(np.log(0.5))


def test_error_of_groups_is_that_of_their_means():
    log_ratio = np.random.default_rng(0).normal(size=60)
    group = np.random.default_rng(1).permutation(np.arange(60) // 3)
    w = np.exp(log_ratio - log_sum_exp(log_ratio)) * 60
    means = np.array([w[group == g].mean() for g in range(20)])
    value, error = log_evidence(log_ratio, group)
    assert value == log_evidence(log_ratio)[0]
    assert error == pytest.approx(means.std(ddof=1) / np.sqrt(20), rel=1e-12)


# ----------------------------------------------------------------------------- effective size
@pytest.mark.parametrize("constant", [0.0, -2000.0, 2000.0])
def test_effective_sample_size(constant):
    w = np.random.default_rng(0).random(40)
    expected = w.sum() ** 2 / (w**2).sum()
    assert effective_sample_size(np.log(w) + constant) == pytest.approx(expected, rel=1e-9)
    assert effective_sample_size(np.full(9, constant)) == pytest.approx(9.0)
    assert effective_sample_size(np.array([constant, -np.inf, -np.inf])) == 1.0


def test_sums_without_a_finite_term():
    assert effective_sample_size(np.full(3, -np.inf)) == 0.0
    assert log_sum_exp(np.full(3, -np.inf)) == -np.inf
    assert log_sum_exp(np.empty(0)) == -np.inf
    assert log_sum_exp(np.array([0.0, np.inf])) == np.inf
    assert log_sum_exp(np.array([-1000.0, -1000.0])) == pytest.approx(-1000.0 + np.log(2.0))


# ----------------------------------------------------------------------------- chains
def autoregression(rho, chains, n, seed=0):
    """Stationary AR(1) chains of unit variance, one coordinate."""
    rng = np.random.default_rng(seed)
    x = np.empty((chains, n, 1))
    x[:, 0] = rng.standard_normal((chains, 1))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((chains, 1))
    return x


def independent(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def ess_sd(draws):
    return ess_mean((draws - draws.mean(axis=(0, 1))) ** 2)


CHAINS = {
    "independent": independent((8, 200, 5)),
    "heavy tails": np.random.default_rng(1).standard_cauchy((8, 200, 5)),
    "autocorrelated": np.concatenate([autoregression(r, 4, 400, 2) for r in (0.5, 0.9, 0.99)], 2),
    "antithetic": np.concatenate([autoregression(r, 4, 400, 3) for r in (-0.3, -0.7, -0.95)], 2),
    "means disagree": independent((4, 100, 3), 4) + np.array([-1.0, 0.0, 0.0, 2.0])[:, None, None],
    "scales disagree": independent((4, 100, 3), 5) * np.array([1.0, 1.0, 1.0, 4.0])[:, None, None],
    "a drift": autoregression(0.0, 8, 400) + np.linspace(-2, 2, 400)[:, None],
    "equal draws": np.round(2.0 * independent((4, 100, 5), 6)),
    "few draws": independent((2, 4, 20), 10),
    "some draws": independent((4, 14, 20), 11),
    "far from zero": 1e6 + independent((4, 100, 3), 13),
}


@pytest.mark.parametrize("name", CHAINS)
def test_diagnostics_of_chains_equal_those_of_arviz(name):
    """Tolerance: autocovariances are taken by Fourier transforms of different lengths."""
    draws = CHAINS[name]
    axes = {"chain_axis": 0, "draw_axis": 1}
    ours = rank_diagnostics(draws)
    expected = {
        "bulk": ours.ess_bulk,
        "tail": ours.ess_tail,
        "mean": ess_mean(draws),
        "sd": ess_sd(draws),
    }
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(ours.r_hat, array_stats.rhat(draws, **axes), rtol=1e-9)
        for method, found in expected.items():
            prob = {"prob": 0.05} if method == "tail" else {}
            theirs = array_stats.ess(draws, method=method, **axes, **prob)
            np.testing.assert_allclose(found, theirs, rtol=1e-6, err_msg=method)


def test_chains_of_odd_length_lose_their_middle():
    # arviz-stats does the same, except that its quantiles for the tails are those of all draws.
    draws = independent((4, 101, 5))
    even = np.delete(draws, 50, axis=1)
    for ours, expected in zip(rank_diagnostics(draws), rank_diagnostics(even), strict=True):
        np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(ess_mean(draws), ess_mean(even))


def test_many_coordinates_are_taken_in_blocks(monkeypatch):
    x = CHAINS["some draws"]
    whole = np.array([*rank_diagnostics(x), ess_mean(x)])
    monkeypatch.setattr(diagnostics, "_BLOCK", 3 * x[..., 0].size)
    np.testing.assert_array_equal(np.array([*rank_diagnostics(x), ess_mean(x)]), whole)


def test_a_coordinate_that_never_moves_is_not_certified():
    # arviz-stats counts all draws of a constant; 0.1 is one whose mean is not exactly itself.
    x = np.full((4, 100, 1), 0.1)
    assert np.isnan(np.concatenate(rank_diagnostics(x))).all()
    assert np.isnan(ess_mean(x)).all()
    stuck = x + np.arange(4.0)[:, None, None]  # each chain at a place of its own
    assert rank_diagnostics(stuck).r_hat[0] > 1e6
