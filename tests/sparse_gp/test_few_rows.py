"""Few rows: the posterior over kernels against grids, and averages under the weak prior."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skpmd import SparseGPRegressorPMD
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._draws import HyperPrior, Shrunk, Target, draw_from_posterior
from skpmd.sparse_gp._findings import left_out_findings


def on_a_grid(kernel, X, y, n=45):
    """Evidence, means and sds of the logs by scikit-learn's likelihood, on midpoints of a grid."""
    exact = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-10).fit(X, y)
    axes = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high in kernel.bounds]
    grid = np.array(list(itertools.product(*axes)))
    values = np.array([exact.log_marginal_likelihood(one, clone_kernel=False) for one in grid])
    weight = np.exp(values - logsumexp(values))
    mean = weight @ grid
    return logsumexp(values) - np.log(len(grid)), mean, np.sqrt(weight @ (grid - mean) ** 2)


@pytest.mark.slow_but("kernel0-9-1.0")
@pytest.mark.parametrize(
    "kernel, n, noise",
    [
        # Nine rows of much noise: the posterior fills the bounds.
        (RBF(1.0, (1e-3, 1e3)) + WhiteKernel(1.0, (1e-3, 1e3)), 9, 1.0),
        (RBF(1.0, (0.05, 50.0)) + WhiteKernel(1.0, (1e-2, 10.0)), 26, 0.4),
        (RationalQuadratic(1.0, 1.0, (0.05, 50.0), (0.05, 50.0)), 7, 0.1),
    ],
)
def test_the_posterior_over_kernels_is_that_of_a_grid(kernel, n, noise):
    rng = np.random.default_rng(n)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.cos(2.0 * X[:, 0]) + noise * rng.standard_normal(n)
    evidence, mean, sd = on_a_grid(kernel, X, y)
    gp = SparseGPRegressorPMD(
        kernel, alpha=1e-10, weighting="posterior", normalize_y=False, random_state=1
    )
    posterior = gp.fit(X, y).posterior_
    logs = np.log(posterior.particles)
    own = posterior.weights @ logs
    spread = np.sqrt(posterior.weights @ (logs - own) ** 2)
    # Six hundred effective draws: an error of a mean is .04 sds, and that of a log sd .03 to .06;
    # bounds are four of them, and the grid adds .02 at most.
    assert abs(posterior.log_evidence - evidence) < 4.0 * posterior.log_evidence_se + 0.02
    np.testing.assert_allclose(own, mean, atol=0.18 * sd.min())
    np.testing.assert_allclose(spread, sd, rtol=0.2)


@pytest.mark.parametrize("is_weak", [True, False])
def test_slopes_of_the_priors(is_weak):
    rng = np.random.default_rng(4)
    sample = Sample(rng.normal(size=(12, 3)), rng.normal(size=(12, 1)), np.zeros(12), np.ones(12))
    kernel = ConstantKernel(1.0) * RBF(np.ones(3)) + WhiteKernel(1.0)
    prior = Shrunk(kernel, sample) if is_weak else HyperPrior(kernel)
    weight = rng.normal(size=5)  # A log likelihood that is linear in theta.
    u = prior.sample(rng, 1)[0]

    def value(u):
        return prior.inward(u[None])[0] @ weight + prior.log_density(u[None])[0]

    steps = 1e-6 * np.eye(len(u))
    expected = [(value(u + step) - value(u - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(prior.slope(u, weight), expected, atol=1e-5)
    theta = prior.inward(u[None])[0]
    np.testing.assert_allclose(prior.inward(prior.outward(theta)[None])[0], theta)


def test_draws_are_those_of_the_posterior():
    """A normal likelihood of theta under the weak prior, against importance sampling from it."""
    rng = np.random.default_rng(5)
    sample = Sample(rng.normal(size=(12, 2)), rng.normal(size=(12, 1)), np.zeros(12), np.ones(12))
    kernel = ConstantKernel(1.0) * RBF(np.ones(2)) + WhiteKernel(1.0)
    prior, at = Shrunk(kernel, sample), np.array([0.5, -0.5, 1.5, -2.0])

    def evidence(theta, gradient):
        value = -0.5 * ((theta - at) ** 2).sum() / 0.5**2
        return (value, -(theta - at) / 0.5**2) if gradient else value

    draws = np.concatenate([
        draw_from_posterior(Target(prior, evidence), at, 12, 101, np.random.default_rng(seed))[1:]
        for seed in range(4)
    ])  # fmt: skip
    many = prior.inward(prior.sample(rng, 200_000))
    weight = np.exp(-0.5 * ((many - at) ** 2).sum(axis=1) / 0.5**2)
    mean = weight @ many / weight.sum()
    sd = np.sqrt(weight @ (many - mean) ** 2 / weight.sum())
    # Means of four runs have errors of .08 sds, and sds of .04; nearly four of them.
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0.0, atol=0.3)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.15)


@pytest.mark.slow
def test_intervals_of_few_rows_and_many_columns_hold_their_share():
    inside, n_sets, n_new = [], 6, 150
    for seed in range(n_sets):
        rng = np.random.default_rng([7, seed])
        X = rng.normal(size=(24 + n_new, 18))
        y = X @ np.linspace(-0.5, 0.5, 18) + 0.4 * rng.standard_normal(len(X))
        gp = SparseGPRegressorPMD(random_state=seed).fit(X[:24], y[:24])
        low, high = gp.predict_interval(X[24:], level=0.9).T
        inside.append(((low <= y[24:]) & (y[24:] <= high)).mean())
    # The share of a set has a standard deviation of .06 or so; one kernel holds .55 to .7.
    assert np.mean(inside) > 0.83


def test_a_kernel_that_few_rows_contradict_is_warned_of():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2.0, 2.0, (40, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.5 * rng.standard_normal(40)
    small = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.05)
    with pytest.warns(UserWarning, match="the kernel does not suit the rows"):
        gp = SparseGPRegressorPMD(small, optimizer=None, random_state=0).fit(X, y)
    assert len(gp.posterior_.weights) == 1
    assert any("given all others" in one for one in gp.diagnostics_["warnings"])
    assert not left_out_findings(SparseGPRegressorPMD(random_state=0).fit(X, y)._state)


@pytest.mark.slow_but("69-True")
@pytest.mark.parametrize("n_neighbors, is_right", [(3, False), (69, True)])
def test_posteriors_by_too_few_neighbours_are_held_against_the_exact_likelihood(
    n_neighbors, is_right
):
    rng = np.random.default_rng(17)
    X, bounds = rng.uniform(-2.0, 2.0, (60, 2)), (1e-2, 1e2)
    X = np.concatenate([X, X[:10]])  # Some inputs have two targets.
    y = np.sin(1.5 * X[:, 0]) + 0.3 * rng.standard_normal(70)
    kernel = ConstantKernel(1.0, bounds) * RBF(1.0, bounds) + WhiteKernel(1.0, bounds)
    gp = SparseGPRegressorPMD(
        kernel, approximation="vecchia", n_neighbors=n_neighbors, weighting="posterior",
        normalize_y=False, random_state=0,
    )  # fmt: skip
    if is_right:  # All rows are neighbours: the likelihood is exact, to rounding.
        assert not gp.fit(X, y).diagnostics_["warnings"]
        return
    with pytest.warns(UserWarning, match="the evidence of the exact process"):
        gp.fit(X, y)
    (found,) = [one for one in gp.diagnostics_["warnings"] if "the exact process" in one]
    # The evidence of the exact process by importance sampling from a box around the fit.
    exact = GaussianProcessRegressor(kernel, optimizer=None, alpha=1e-10).fit(X, y)
    logs = np.log(gp.posterior_.particles)
    mean, sd = logs.mean(axis=0), logs.std(axis=0)
    low, high = np.maximum(mean - 6 * sd, np.log(1e-2)), np.minimum(mean + 6 * sd, np.log(1e2))
    draws = rng.uniform(low, high, (2000, 3))
    values = [exact.log_marginal_likelihood(one, clone_kernel=False) for one in draws]
    evidence = logsumexp(values) - np.log(2000) + np.log((high - low) / np.log(1e4)).sum()
    off = float(found.split(" is larger by ")[1].split()[0])
    # Sixteen particles, whose weights differ by a spread of one or two nats.
    assert abs(off) > 0.5 and off == pytest.approx(evidence - gp.log_evidence_, abs=1.0)


def test_a_target_that_the_noise_of_others_does_not_suit_is_warned_of():
    rng = np.random.default_rng(31)
    X = rng.uniform(-2.0, 2.0, (70, 1))
    y = np.sin(2.0 * X) + 0.02 * rng.standard_normal((70, 4))
    y[:, 3] = rng.standard_normal(70)
    with pytest.warns(UserWarning, match="given all others, hold"):
        SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
