"""Baselines for any posterior, and the Gibbs sampler of the tied mixture, on exact cases.

One exact case for each: they guard the comparisons and no part of skpmd.
"""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp, ndtri
from scipy.stats import multivariate_normal, norm

pytest.importorskip("examples.benchmarks.peers", reason="examples are not installed")

from examples.benchmarks.peers import one_pass_smc as smc
from examples.benchmarks.peers import problem as parts
from examples.benchmarks.peers.quadrature import quadrature
from examples.benchmarks.peers.tied_gibbs import tied_gibbs

# Rows x ~ N(theta, A^-1), theta ~ N(0, I): the posterior is N(MEAN, COV).
A = np.array([[1.0, 0.6], [0.6, 1.5]])
X = np.random.default_rng(0).normal([0.5, -0.3], 1.0, (40, 2))
COV = np.linalg.inv(np.eye(2) + len(X) * A)
MEAN = COV @ A @ X.sum(axis=0)
SD = np.sqrt(np.diag(COV))
# The same posterior from rows that are all alike: gradients of batches have no noise.
ALIKE = np.tile(X.mean(axis=0), (len(X), 1))


def log_likelihood(theta, X, y):
    gap = X - theta[:, None]
    return -0.5 * np.einsum("mni,ij,mnj->m", gap, A, gap)


def log_prior(theta):
    return norm.logpdf(theta).sum(axis=1)


def sample_prior(rng, m):
    return rng.standard_normal((m, 2))


def jax_log_likelihood(theta, X, y):
    gap = X - theta
    return -0.5 * ((gap @ A) * gap).sum()


def jax_log_prior(theta):
    return -0.5 * (theta @ theta)


GAUSSIAN = parts.Problem(
    2, log_likelihood, log_prior, sample_prior, jax_log_likelihood, jax_log_prior
)
# The log of the integral of likelihood times prior, which is a Gaussian one.
LOG_EVIDENCE = (
    log_likelihood(MEAN[None], X, None)[0]
    + log_prior(MEAN[None])[0]
    + np.log(2.0 * np.pi)
    + 0.5 * np.linalg.slogdet(COV)[1]
)


def last(snapshots):
    """The last snapshot with the weighted mean and covariance of its particles."""
    *_, found = snapshots
    weights = np.exp(found.log_weights - logsumexp(found.log_weights))
    mean = weights @ found.particles
    gap = found.particles - mean
    return found, mean, (gap.T * weights) @ gap


def assert_near(mean, cov, error, exact=COV):
    """Means within ``error`` posterior sd, covariances within three times that share."""
    np.testing.assert_allclose((mean - MEAN) / SD, 0.0, atol=error)
    np.testing.assert_allclose((cov - exact) / np.outer(SD, SD), 0.0, atol=3.0 * error)


WIDE = 1.3 * np.linalg.cholesky(COV)
CHAINS = {"batch_size": 10, "passes": 2500, "decay": 0.0, "n_chains": 2}
# Module, function, its options, and the error in posterior sds: about four Monte Carlo errors.
METHODS = {
    # Shrunk kernels keep Gaussian particles Gaussian.
    "one-pass SMC": (
        "one_pass_smc", "one_pass_smc",
        {"n_particles": 30_000, "batch_size": 7, "bandwidth": 0.23}, 0.05,
    ),
    # Without the noise of batches: 20,000 draws, of which some 1,250 count.
    "momentum": (
        "sgld", "sgld",
        {**CHAINS, "n_particles": 20_000, "step_size": 2.5e-4, "burn_in": 200, "friction": 0.1},
        0.13,
    ),
    "Pareto-smoothed importance sampling": (
        "importance", "laplace_psis", {"mode": MEAN + 0.5 * SD, "factor": WIDE, "df": 5.0}, 0.08,
    ),
    "adaptive importance sampling": (
        "importance", "amis", {"mode": MEAN + SD, "factor": 0.4 * WIDE, "rounds": 20}, 0.04,
    ),
    "annealed importance sampling": (
        "annealed", "annealed",
        {"n_particles": 2000, "n_temperatures": 60, "step_size": 0.7, "block": 500,
         "curvature": np.linalg.eigvalsh(len(X) * A).max()}, 0.1,
    ),
    "Pathfinder": ("pathfinder", "pathfinder", {"n_particles": 4000}, 0.1),
    "microcanonical Langevin": (
        "mclmc", "mclmc", {"n_particles": 20_000, "n_steps": 20_000}, 0.15,
    ),
    "nutpie": ("nutpie_nuts", "nutpie_nuts", {"n_particles": 4000}, 0.1),
    "nested sampling": ("nested", "nested", {"n_particles": 4000, "prior_transform": ndtri}, 0.15),
    "IBIS": ("particles_smc", "ibis", {"n_particles": 3000, "batch_size": 7}, 0.1),
    "waste-free tempering": (
        "particles_smc", "tempered",
        {"n_particles": 3000, "batch_size": 7, "waste_free": True}, 0.1,
    ),
    "NUTS": ("prior_nuts", "prior_nuts", {"n_particles": 4000, "n_steps": 1000, "n_warmup": 100},
             0.1),
    "variational inference": (
        "svi", "svi",
        {"n_particles": 100, "batch_size": 10, "passes": 2500, "learning_rate": 0.3, "decay": 1.0,
         "family": "full"}, 0.05,
    ),
}  # fmt: skip
FIRST = {"laplace_psis": 2, "pathfinder": 1, "nutpie_nuts": 6}  # of endless snapshots
ROWS_ALIKE = {"sgld", "svi"}
EVIDENCE = {"amis": 0.02, "nested": 0.25}


@pytest.mark.slow_but("one-pass SMC", "adaptive importance sampling")
@pytest.mark.parametrize("name", METHODS)
def test_a_gaussian_posterior_is_found(name):
    module, function, options, error = METHODS[name]
    module = pytest.importorskip(f"examples.benchmarks.peers.{module}", exc_type=ImportError)
    rows = ALIKE if function in ROWS_ALIKE else X
    snapshots = getattr(module, function)(GAUSSIAN, rows, None, seed=0, **options)
    found, mean, cov = last(itertools.islice(snapshots, FIRST.get(function)))
    assert_near(mean, cov, error)
    if function in EVIDENCE:
        value = found.log_evidence
        if np.isnan(value):
            value = logsumexp(found.log_weights) - np.log(len(found.particles))
        assert value == pytest.approx(LOG_EVIDENCE, abs=EVIDENCE[function])


@pytest.mark.parametrize("equal", [False, True])
def test_a_pass_reads_each_row_once(equal):
    rng = np.random.default_rng(0)
    if equal:
        rows = parts.EqualBatches(20, 5, rng).take(8)
    else:
        stream = parts.batches(20, 6, rng)
        rows = [next(stream) for _ in range(8)]
    first, second = np.concatenate(rows[:4]), np.concatenate(rows[4:])
    assert sorted(first) == sorted(second) == list(range(20))
    assert list(first) != list(second)


def test_one_pass_smc_without_a_move_is_importance_sampling():
    # Two rows out of 40 leave most of the particles: no move.
    found, *_ = last(
        smc.one_pass_smc(GAUSSIAN, 0.1 * X[:2], None, n_particles=500, seed=3, batch_size=1)
    )
    expected = log_likelihood(found.particles, 0.1 * X[:2], None)
    np.testing.assert_allclose(found.log_weights, expected - logsumexp(expected), atol=1e-10)
    assert found.rows == 2


def test_a_grid_of_a_gaussian_is_exact():
    found, mean, cov = last(quadrature(GAUSSIAN, X, None, n_particles=0, seed=0, sides=(11, 161)))
    assert_near(mean, cov, 1e-5)
    assert found.log_evidence == pytest.approx(LOG_EVIDENCE, abs=1e-5)
    exact = multivariate_normal(MEAN, COV)
    points = exact.rvs(100, random_state=0)
    np.testing.assert_allclose(found.log_density(points), exact.logpdf(points), atol=0.01)


@pytest.mark.slow
def test_fisher_scoring_on_a_gaussian():
    # A step goes 2 / (gamma (1 + 4 / eps)) = .07 of the way, gamma = 1 + 2000 / 100: 7500 steps are
    # some 260 draws, .06 sd.
    method = pytest.importorskip(
        "examples.benchmarks.peers.fisher_scoring", exc_type=ImportError
    ).fisher_scoring
    rows = np.random.default_rng(1).multivariate_normal(MEAN, np.linalg.inv(A), 2000)
    exact = np.linalg.inv(np.eye(2) + 2000 * A)
    _, mean, cov = last(
        method(
            GAUSSIAN, rows, None, n_particles=4000, seed=0, batch_size=100, passes=400,
            step_size=10.0,
        )
    )  # fmt: skip
    centre = exact @ (2000 * A @ rows.mean(axis=0))
    np.testing.assert_allclose((mean - centre) / np.sqrt(np.diag(exact)), 0.0, atol=0.2)
    np.testing.assert_allclose(cov / exact[0, 0], exact / exact[0, 0], atol=0.25)


@pytest.mark.slow
def test_a_spline_flow_has_the_density_of_its_rows():
    # 4000 rows: the entropy is known within 1 / sqrt(2000) = .02 nats, some .05 for the fit.
    flow = pytest.importorskip("examples.benchmarks.peers.flow", exc_type=ImportError)
    law = multivariate_normal([1.0, -1.0], [[1.0, 0.7], [0.7, 1.0]])
    learn, valid, test = np.split(law.rvs(8000, random_state=0), [4000, 6000])
    log_density, cpu = flow.spline_flow(learn, valid, seed=0, max_cpu=20.0, hidden=(32, 32))
    assert log_density(test).mean() == pytest.approx(law.logpdf(test).mean(), abs=0.05)
    assert 0.0 < cpu < 60.0


@pytest.mark.slow
def test_npv_with_one_component():
    # The bound's maximum: the mode, and sd^2 = d / trace of the precision.
    npv = pytest.importorskip("examples.benchmarks.peers.npv", exc_type=ImportError).npv
    found, mean, cov = last(
        npv(
            GAUSSIAN, ALIKE, None, n_particles=1, seed=0, batch_size=10, passes=1000,
            learning_rate=0.1, decay=0.5, block=100,
        )
    )  # fmt: skip
    variance = 2.0 / np.trace(np.linalg.inv(COV))
    np.testing.assert_allclose(mean, MEAN, atol=1e-4)
    np.testing.assert_allclose(cov, variance * np.eye(2), atol=1e-5)
    points = X[:5]
    exact = multivariate_normal(mean, variance * np.eye(2)).logpdf(points)
    np.testing.assert_allclose(found.log_density(points), exact, rtol=5e-3)


@pytest.mark.slow
def test_tied_gibbs_on_a_grid():
    # Few rows with much noise, so that chains change modes. 80,000 draws whose autocorrelation time
    # is some 30: an error of 0.02 sd.
    rng = np.random.default_rng(1)
    x = rng.choice([1.0, -1.0], 12) + rng.standard_normal(12)
    axis = np.linspace(-4.0, 4.0, 201)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    components = [norm.logpdf(x, centre[:, None], 1.0) for centre in (points[:, 0], points.sum(1))]
    log_joint = np.logaddexp(*components).sum(axis=1) + log_prior(points)
    weights = np.exp(log_joint - logsumexp(log_joint))
    exact = weights @ points
    exact_cov = ((points - exact).T * weights) @ (points - exact)
    options = {"seed": 0, "passes": 40_000, "sigma": 1.0, "n_chains": 2}
    _, mean, cov = last(tied_gibbs(GAUSSIAN, x[:, None], None, n_particles=80_000, **options))
    *_, few = tied_gibbs(GAUSSIAN, x[:, None], None, n_particles=2000, **options)
    # 2000 of the draws' Gaussians: their average is off by some .01.
    assert 0.5 * np.abs(np.exp(few.log_density(points)) * 0.04**2 - weights).sum() < 0.04
    sd = np.sqrt(np.diag(exact_cov))
    np.testing.assert_allclose((mean - exact) / sd, 0.0, atol=0.08)
    np.testing.assert_allclose((cov - exact_cov) / np.outer(sd, sd), 0.0, atol=0.08)
