"""Split R-hat and effective draws against processes whose values are known."""

import numpy as np
import pytest

from skpmd.engine.convergence import effective_draws, split_r_hat


def autoregression(rho, chains, n, seed=0):
    """Stationary AR(1) chains of unit variance, one coordinate."""
    rng = np.random.default_rng(seed)
    x = np.empty((chains, n, 1))
    x[:, 0] = rng.standard_normal((chains, 1))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((chains, 1))
    return x


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_effective_draws_of_an_autoregression(rho):
    # The mean of an AR(1) process has (1 + rho) / (1 - rho) times the variance of independent
    # draws. The sum of estimated autocorrelations has a relative error of some 5 % at 16 x 2000.
    x = autoregression(rho, 16, 2000)
    exact = 16 * 2000 * (1 - rho) / (1 + rho)
    assert abs(effective_draws(x)[0] / exact - 1) < 0.15


def test_each_coordinate_is_judged_by_itself():
    x = np.concatenate([autoregression(0.0, 8, 400, 1), autoregression(0.9, 8, 400, 2)], axis=2)
    fast, slow = effective_draws(x)
    np.testing.assert_allclose([fast, slow], [effective_draws(x[..., [j]])[0] for j in (0, 1)])
    assert fast > 5 * slow


def test_r_hat_of_independent_draws_is_one():
    # sqrt(1 + (chi2 / df - 1) / n): the spread is below 1e-3 at half chains of 500.
    assert abs(split_r_hat(autoregression(0.0, 16, 1000))[0] - 1) < 3e-3


def test_r_hat_by_its_formula():
    # Two chains around -delta and +delta: W = 1, B / n = var of (-d, -d, d, d) = 4 d^2 / 3.
    delta = 2.0
    x = autoregression(0.0, 2, 4000, 3) + np.array([-delta, delta])[:, None, None]
    assert abs(split_r_hat(x)[0] / np.sqrt(1 + 4 * delta**2 / 3) - 1) < 0.03


def test_r_hat_sees_a_drift_that_all_chains_share():
    x = autoregression(0.0, 8, 400) + np.linspace(-2, 2, 400)[:, None]
    assert split_r_hat(x)[0] > 1.2


def test_a_coordinate_that_never_moves_is_not_certified():
    x = np.ones((4, 100, 1))
    assert not split_r_hat(x)[0] <= 1.05
    assert not effective_draws(x)[0] >= 1
