"""Hyperparameters as particles: their posterior on a grid, and weights for predictions."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skpmd import SparseGPRegressorPMD
from skpmd.engine.particles import stacked
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._draws import HyperPrior, Target, draw_around
from skpmd.sparse_gp._evidence import log_marginal_likelihood, maximise_evidence
from skpmd.sparse_gp._hyperparameters import n_particles
from skpmd.sparse_gp._model import SparseGP

KERNEL = ConstantKernel(1.0, "fixed") * RBF(1.0, (0.05, 20.0)) + WhiteKernel(0.1, (1e-3, 3.0))


def problem(n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 5.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


def on_a_grid(X, y, log_prior, n=80):
    """Moments of the logs of the hyperparameters, and the log evidence."""
    axes = [np.linspace(low, high, n) for low, high in KERNEL.bounds]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    value = []
    for log_length in axes[0]:  # One decomposition serves all noises.
        eigenvalues, vectors = np.linalg.eigh(RBF(np.exp(log_length))(X))
        variance = eigenvalues + np.exp(axes[1])[:, None]
        value.append(stats.norm.logpdf(vectors.T @ y, scale=np.sqrt(variance)).sum(axis=1))
    value = np.concatenate(value)
    exact = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, y)
    for i in (0, n * n // 2, n * n - 1):
        assert value[i] == pytest.approx(exact.log_marginal_likelihood(theta[i]))
    value += log_prior(theta)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = logsumexp(value) + np.log(cell)
    weight = np.exp(value - logsumexp(value))
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2), evidence


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
def test_mirror_weights_are_the_posterior_of_the_hyperparameters(given):
    X, y = problem()
    if given:
        hyperprior = [stats.gamma(4.0, scale=0.5), stats.halfnorm(0.0, 0.5)]

        def log_prior(theta):
            own = sum(
                one.logpdf(np.exp(column)) + column
                for one, column in zip(hyperprior, theta.T, strict=True)
            )
            return own
    else:
        hyperprior = None
        volume = np.prod(KERNEL.bounds[:, 1] - KERNEL.bounds[:, 0])

        def log_prior(theta):
            return np.full(len(theta), -np.log(volume))

    mean, std, evidence = on_a_grid(X, y, log_prior)
    gp = SparseGPRegressorPMD(
        KERNEL, approximation="fitc", weighting="posterior", n_particles=500,
        hyperprior=hyperprior, max_iter=2,
        optimizer=None, normalize_y=False, random_state=0,
    ).fit(X, y)  # fmt: skip
    posterior = gp.posterior_
    assert posterior.ess > 250
    found = posterior.expectation(np.log)
    spread = np.sqrt(posterior.expectation(lambda theta: (np.log(theta) - found) ** 2))
    # 4.5 standard errors of a mean of 250 draws, and of an sd.
    assert (np.abs(found - mean) < 0.28 * std).all()
    assert (np.abs(spread / std - 1.0) < 0.2).all()
    assert abs(gp.log_evidence_ - evidence) < 0.15
    assert abs(posterior.log_evidence - gp.log_evidence_) == 0.0


def test_stacking_weights_are_the_best_of_the_log_score():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 300)) + np.array([[0.0], [0.2], [-3.0], [0.1]])
    weight = rng.integers(1, 4, 300).astype(float)

    def loss(free):
        log_weights = free - logsumexp(free)
        return -weight @ logsumexp(log_weights[:, None] + table, axis=0)

    best = minimize(loss, np.zeros(4))
    found = stacked(table.T, weight)
    assert abs(logsumexp(found)) < 1e-12
    assert loss(found) < best.fun + 1e-3 * weight.sum()


@pytest.mark.slow
def test_particles_that_predict_better_weigh_more():
    X, y = problem(400)
    gp = SparseGPRegressorPMD(n_particles=4, n_subset=40, n_inducing=50, random_state=0).fit(X, y)
    assert gp.posterior_.particles.shape == (4, 3)
    mixture = gp.predict_proba(X[:5])
    assert mixture.means.shape == (4, 5)
    mean, std = gp.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, mixture.mean())
    np.testing.assert_allclose(std, mixture.std(), rtol=1e-8)
    covariance = gp.predict(X[:5], return_cov=True)[1]
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-8)
    with pytest.raises(AttributeError, match="for predictions"):
        _ = gp.posterior_.log_evidence


@pytest.mark.slow_for("posterior")
@pytest.mark.parametrize("weighting", ["stacking", "uniform", "posterior"])
def test_streams_of_particles(weighting):
    X, y = problem(120)
    gp = SparseGPRegressorPMD(
        KERNEL, n_particles=200 if weighting == "posterior" else 3, weighting=weighting,
        normalize_y=False, inducing_init=np.linspace(0.0, 5.0, 12)[:, None], n_subset=40,
        rejuvenation="never" if weighting == "posterior" else "ess", ess_threshold=0.0,
        random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning) if weighting == "posterior" else nullcontext():
        for rows in np.array_split(np.arange(120), 3):
            gp.partial_fit(X[rows], y[rows])
    assert gp.n_iter_ == 3
    assert gp.score(X, y) > 0.6
    if weighting == "uniform":
        np.testing.assert_allclose(gp.posterior_.weights, 1.0 / 3.0)


@pytest.mark.slow_for("posterior")
@pytest.mark.parametrize("weighting", ["stacking", "posterior"])
def test_jobs_change_nothing(weighting):
    X, y = problem(100)
    found = [
        SparseGPRegressorPMD(
            KERNEL, approximation="fitc", n_particles=20 if weighting == "posterior" else 3,
            weighting=weighting, max_iter=2, n_jobs=n_jobs, rejuvenation="never",
            ess_threshold=0.0, n_subset=50, n_restarts_optimizer=2, batch_size=30, random_state=0,
        )
        for n_jobs in (None, 3)
    ]  # fmt: skip
    with pytest.warns(UserWarning) if weighting == "posterior" else nullcontext():
        one, other = (gp.fit(X, y).predict(X, return_std=True) for gp in found)
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_particles_lie_around_what_many_rows_found():
    X, y = problem(40)
    covariance = KernelCovariance(KERNEL)
    sample = Sample(X, y[:, None], np.zeros(40), np.ones(40))
    mode = maximise_evidence(covariance, sample, "fmin_l_bfgs_b", 0, np.random.default_rng(0))
    prior, means = HyperPrior(KERNEL, None), []

    def evidence(theta, gradient):
        return log_marginal_likelihood(covariance, theta, sample, gradient)

    for theta in (mode, mode + [-1.0, 0.0]):
        draws = draw_around(Target(prior, evidence), theta, 400, np.random.default_rng(1))
        np.testing.assert_array_equal(draws[0], theta)
        assert (draws.std(axis=0) > 0.05).all()
        means.append(draws.mean(axis=0))
    # Without the tilt both sets of draws would be those of the rows.
    assert means[1][0] - means[0][0] < -0.5


@pytest.mark.parametrize(
    "n, n_stored, params, m",
    [
        (500, 500**2, {}, 16),
        (501, 501**2, {}, 8),
        (10_000, 10_000, {}, 8),
        (10_001, 10_001, {}, 1),
        (9000, 2000**2, {}, 4),
        (9000, 2**25, {}, 1),
        (60, 60**2, {"optimizer": None}, 1),
        (60, 60**2, {"weighting": "posterior"}, 32),
        (10_001, 2**25, {"n_particles": 3}, 3),
    ],
)
def test_the_automatic_number_of_particles(n, n_stored, params, m):
    parameters = SparseGPRegressorPMD(**params)._parameters()
    assert n_particles(parameters, KERNEL, n, n_stored) == m
    assert n_particles(SparseGPRegressorPMD()._parameters(), RBF(1.0, "fixed"), n, n_stored) == 1


def test_few_rows_are_predicted_by_an_average_by_default():
    X, y = problem(60)
    gp = SparseGPRegressorPMD(n_restarts_optimizer=0, random_state=0).fit(X, y)
    assert gp.posterior_.particles.shape[0] == 16
    alone = SparseGPRegressorPMD(gp.kernel_, optimizer=None).fit(X, y)
    assert alone.posterior_.particles.shape[0] == 1
    stream = SparseGPRegressorPMD(random_state=0).partial_fit(X[:30], y[:30])
    assert stream.partial_fit(X[30:], y[30:]).posterior_.particles.shape[0] == 1


@pytest.mark.parametrize("approximation", ["fitc", "vecchia"])
def test_few_rows_do_not_choose_among_particles(approximation):
    """One row of eight was scored, and one particle at random had all of the weight."""
    X, y = problem(60)
    for n, m in ((8, 16), (60, 7 if approximation == "vecchia" else 2)):
        gp = SparseGPRegressorPMD(
            approximation=approximation, n_particles=m, n_restarts_optimizer=0, random_state=0
        ).fit(X[:n], y[:n])
        np.testing.assert_allclose(gp.posterior_.weights, 1.0 / m)
    gp.set_params(n_particles=6 if approximation == "vecchia" else 1).fit(X, y)
    assert approximation == "fitc" or np.ptp(gp.posterior_.weights) > 1e-3


@pytest.mark.parametrize("approximation", ["fitc", "vecchia"])
@pytest.mark.parametrize("bounds", [(1e-5, np.inf), (1.0, 1.0)])
def test_bounds_without_a_density_have_draws(approximation, bounds):
    """One arbitrary draw was there fifteen times."""
    X, y = problem(40)
    kernel = ConstantKernel(1.0, bounds) * RBF(1.0) + WhiteKernel(0.1)
    gp = SparseGPRegressorPMD(kernel, approximation=approximation, random_state=0).fit(X, y)
    assert len(np.unique(gp.posterior_.particles, axis=0)) > 8


def test_a_prior_without_mass_near_the_kernel_is_named():
    X, y = problem(40)
    far = [stats.uniform(50.0, 1.0)] * 2  # Of all rows draws of the prior itself would be found.
    gp = SparseGPRegressorPMD(KERNEL, hyperprior=far, n_subset=30, random_state=0)
    with pytest.raises(ValueError, match="hyperprior has no mass"):
        gp.fit(X, y)
    gp.set_params(n_particles=1).fit(X, y)


def test_stages_of_a_search_are_shown(capsys):
    X, y = problem(30)
    SparseGPRegressorPMD(verbose=1, random_state=0).fit(X, y)
    assert "kernel: search by the evidence of 30 rows" in capsys.readouterr().out
    SparseGPRegressorPMD(random_state=0).fit(X, y)
    assert not capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*(lower bound|Drop the copies)")  # They take the noise.
def test_a_weight_is_copies_to_stacking():
    X, y = problem(60)
    weight = np.tile([1, 2, 3], 20)
    one, other = (
        SparseGPRegressorPMD(n_particles=3, n_subset=200, random_state=0) for _ in range(2)
    )
    one.fit(X, y, sample_weight=weight)
    other.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(one.posterior_.weights, other.posterior_.weights, rtol=1e-5)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "kernel", [RBF(), ConstantKernel() * Matern(nu=1.5), RationalQuadratic(), DotProduct()]
)
@pytest.mark.parametrize("size", [30.0, 90.0, 1000.0])
def test_a_wild_redraw_does_no_harm(kernel, size):
    # Such a particle has no weight. What it asks for must be finite all the same: its length scale
    # may be lost in the rounding of the distances.
    covariance = KernelCovariance(kernel + WhiteKernel())
    rng = np.random.default_rng(0)
    model = SparseGP(covariance, None, rng.standard_normal((20, 2)), "dtc", 1e-8)
    d = len(covariance.kernel.theta)
    theta = rng.normal(size=(1, d))
    moved = size * np.array([signs for signs in np.ndindex(*[2] * d)]) * 2.0 - size
    block = model.prior_block(np.repeat(theta, len(moved), axis=0))
    block = model.move_block(np.repeat(theta, len(moved), axis=0), block, moved)
    assert np.isfinite(block).all()
    for one in moved:
        variances = (model.prior_factor(one) ** 2).sum(axis=1)
        # Rows that others determine have noise of the mean variance on top.
        expected = covariance.diagonal(one, model.inducing)
        mean = expected.mean()
        gap = np.minimum(abs(variances - expected), abs(variances - expected - mean))
        assert (gap <= 0.02 * (expected + mean)).all()
