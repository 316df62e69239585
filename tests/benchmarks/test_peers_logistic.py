"""The benchmarks' baselines for logistic regression, against exact cases in two dimensions."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp

pytest.importorskip("examples.benchmarks", reason="the examples are not part of the package")

from examples.benchmarks.peers import jaakkola_jordan as jj
from examples.benchmarks.peers import polya_gamma


def table(n=30, seed=0):
    """A slope and an intercept."""
    rng = np.random.default_rng(seed)
    X = 1.5 * rng.standard_normal((n, 1))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-1.2 * X[:, 0] - 0.4))).astype(int)
    return X, y


def design_of(X):
    return np.column_stack([X, np.ones(len(X))])


def exact(X, y):
    """Log evidence, mean and sd under N(0, I), by sums over a grid (errors below 1e-6)."""
    axis = np.linspace(-6.0, 6.0, 401)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    joint = log_expit((2 * y - 1) * (theta @ design_of(X).T)).sum(axis=1)
    joint += -0.5 * (theta**2).sum(axis=1) - np.log(2.0 * np.pi)
    log_sum = logsumexp(joint)
    weights = np.exp(joint - log_sum)
    mean = weights @ theta
    return log_sum + 2.0 * np.log(axis[1] - axis[0]), mean, np.sqrt(weights @ (theta - mean) ** 2)


def bound(xi, X, y):
    """Log evidence of the quadratic lower bounds at xi, and (h, P): a Gaussian integral."""
    design, half = design_of(X), y - 0.5
    curvature = np.tanh(0.5 * xi) / (4.0 * xi)
    h, P = half @ design, np.eye(2) + 2.0 * (design.T * curvature) @ design
    constant = (log_expit(xi) - 0.5 * xi + curvature * xi**2).sum()
    return constant + 0.5 * h @ np.linalg.solve(P, h) - 0.5 * np.linalg.slogdet(P)[1], h, P


def last(X, y, **options):
    """Mean and covariance at the end, which the particles have exactly."""
    *_, snapshot = jj.jaakkola_jordan(X, y, n_particles=100, seed=1, **options)
    return snapshot.particles.mean(axis=0), np.cov(snapshot.particles.T, bias=True)


def whole(X, y):
    return last(X, y, batch_size=len(y), passes=200, rho=lambda t: 1.0)


def test_bound_at_its_best_is_found_and_lies_below_the_evidence():
    X, y = table()
    found = minimize(lambda log_xi: -bound(np.exp(log_xi), X, y)[0], np.zeros(len(y)), tol=1e-12)
    _, h, P = bound(np.exp(found.x), X, y)
    mean, cov = whole(X, y)
    # An optimum is flat: numerical gradients of 1e-6 leave the parameters within about 1e-4.
    np.testing.assert_allclose(mean, np.linalg.solve(P, h), rtol=1e-3)
    np.testing.assert_allclose(cov, np.linalg.inv(P), rtol=1e-3, atol=1e-6)
    evidence, exact_mean, exact_sd = exact(X, y)
    assert evidence - 0.6 < -found.fun < evidence
    # Not exact: the bound's Gaussian is too narrow, and its mean is near.
    assert np.all(np.abs(mean - exact_mean) < 0.3 * exact_sd)
    assert np.all(np.sqrt(np.diag(cov)) < exact_sd)


def test_batches_ask_on_average_for_what_all_rows_ask_for():
    X, y = table()
    design, half = design_of(X), y - 0.5
    h, P = np.array([3.0, -1.0]), np.array([[4.0, 1.0], [1.0, 3.0]])
    parts = [
        jj.batch_parameters(design[part], half[part], h, P, 3.0)
        for part in np.array_split(np.arange(30), 3)
    ]
    for k, full in enumerate(jj.batch_parameters(design, half, h, P, 1.0)):
        np.testing.assert_allclose(np.mean([part[k] for part in parts], axis=0), full, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("c", [0.0, 0.7])
def test_polya_gamma_moments(c):
    rng = np.random.default_rng(2)
    draws = np.array([polya_gamma.polya_gamma(c, rng) for _ in range(20_000)])
    mean = 0.25 if c == 0.0 else np.tanh(0.5 * c) / (2.0 * c)
    variance = 1.0 / 24.0
    if c > 0.0:
        variance = (np.sinh(c) - c) / (4.0 * c**3 * np.cosh(0.5 * c) ** 2)
    assert abs(draws.mean() - mean) < 4.0 * np.sqrt(variance / len(draws))
    assert draws.var() == pytest.approx(variance, rel=0.1)  # excess kurtosis up to 3: 3.5 sd


@pytest.mark.slow
def test_gibbs_sampler_has_the_posterior_as_its_stationary_law():
    X, y = table()
    case = SimpleNamespace(X=X, y=y)
    draws, _ = next(
        polya_gamma.normal_chains(case, 3000, seed=3, n_chains=4, start=np.array([3.0, -2.0]))
    )
    draws = draws[:, 50:].reshape(-1, 2)
    _, mean, sd = exact(X, y)
    # Some 4,000 effective draws: 0.016 sd, four of these; of an sd 0.011.
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.065 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.045)
