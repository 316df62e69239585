"""Baselines for any posterior, and the Gibbs sampler of the tied mixture, on exact cases."""

import itertools
from types import SimpleNamespace

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


def last(snapshots):
    """The last snapshot with the weighted mean and covariance of its particles."""
    *_, found = snapshots
    weights = np.exp(found.log_weights - logsumexp(found.log_weights))
    mean = weights @ found.particles
    gap = found.particles - mean
    return found, mean, (gap.T * weights) @ gap


def assert_near(mean, cov, error):
    """Means within ``error`` posterior sd, covariances within three times that share."""
    np.testing.assert_allclose((mean - MEAN) / SD, 0.0, atol=error)
    np.testing.assert_allclose((cov - COV) / np.outer(SD, SD), 0.0, atol=3.0 * error)


def test_thinned_draws_are_evenly_spaced():
    kept = parts.Thinned(20, 2)
    for start in range(0, 1000, 7):
        steps = np.arange(start, min(start + 7, 1000))
        kept.extend(np.repeat(steps, 2).reshape(-1, 2, 1))
    draws, times = kept.take()
    np.testing.assert_array_equal(draws[:, 0], times)  # each draw with its own step
    assert len(draws) == 20
    gaps = np.diff(draws[::2, 0])
    assert draws[0, 0] == 0 and gaps.max() <= 2 * gaps.min() and times[-1] > 900


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


def test_gaussian_particles_have_exact_moments():
    factor = np.linalg.cholesky(COV)
    draws = parts.gaussian_particles(MEAN, factor, 10, np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=1e-12)
    np.testing.assert_allclose(np.cov(draws.T, ddof=0), COV, atol=1e-12)


def test_one_pass_smc_without_a_move_is_importance_sampling():
    # Two rows out of 40 leave most of the particles: no move.
    found, *_ = last(
        smc.one_pass_smc(GAUSSIAN, 0.1 * X[:2], None, n_particles=500, seed=3, batch_size=1)
    )
    expected = log_likelihood(found.particles, 0.1 * X[:2], None)
    np.testing.assert_allclose(found.log_weights, expected - logsumexp(expected), atol=1e-10)
    assert found.rows == 2


def test_one_pass_smc_moves_keep_mean_and_covariance():
    # Skewed particles of unequal weights; 100,000 draws err by 0.003 sd and 0.01 variances.
    rng = np.random.default_rng(0)
    theta = rng.standard_exponential((2000, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    weights = rng.random(2000) * (theta[:, 0] < 2.0)
    weights /= weights.sum()
    moved = [smc.rejuvenated(theta, weights, 0.6, rng) for _ in range(50)]
    moved = np.concatenate(moved)
    mean = weights @ theta
    cov = ((theta - mean).T * weights) @ (theta - mean)
    np.testing.assert_allclose(moved.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(moved.T), cov, atol=0.04 * cov.max())


def test_one_pass_smc_on_a_gaussian():
    # Shrunk kernels keep Gaussian particles Gaussian; only sampling errs: 1 / sqrt(30,000) = 0.006
    # sd with all particles, some five times that with the weights of four moves.
    found, mean, cov = last(
        smc.one_pass_smc(
            GAUSSIAN, X, None, n_particles=30_000, seed=0, batch_size=7, bandwidth=0.23
        )
    )
    assert found.rows == 40
    assert_near(mean, cov, 0.05)


def test_sgld_on_a_gaussian():
    # Without the noise of batches the draws are an autoregression with covariance
    # P^-1 (I - eps P / 2)^-1, P the posterior's precision. 20,000 draws that forget in some
    # 1 / (eps 25) = 8 steps: an error of sqrt(2 * 8 / 20,000) = 0.03 sd.
    sgld = pytest.importorskip("examples.benchmarks.peers.sgld", exc_type=ImportError).sgld
    eps, P = 0.005, np.linalg.inv(COV)
    _, mean, cov = last(
        sgld(
            GAUSSIAN, ALIKE, None, n_particles=20_000, seed=0, batch_size=10, passes=2500,
            step_size=eps, decay=0.0, burn_in=100, n_chains=2,
        )
    )  # fmt: skip
    exact = COV @ np.linalg.inv(np.eye(2) - 0.5 * eps * P)
    np.testing.assert_allclose((mean - MEAN) / SD, 0.0, atol=0.1)
    np.testing.assert_allclose(cov, exact, atol=0.1 * np.diag(exact).max())


def test_sgld_weighs_draws_by_their_steps():
    sgld = pytest.importorskip("examples.benchmarks.peers.sgld", exc_type=ImportError).sgld
    found, *_ = last(
        sgld(
            GAUSSIAN, ALIKE, None, n_particles=1000, seed=0, batch_size=10, passes=125,
            step_size=1e-3, offset=1.0, decay=1.0, burn_in=10, n_chains=2,
        )
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(-found.log_weights[::2]), 1.0 + np.arange(10, 500))
    assert found.rows == 500 * 2 * 10


def test_momentum_on_a_gaussian():
    # Without the noise of batches the momentum forgets in 1 / friction = 10 steps and theta in some
    # friction / (eps 25) = 16: an error of sqrt(2 * 16 / 20,000) = 0.04 sd. Of order eps off.
    sgld = pytest.importorskip("examples.benchmarks.peers.sgld", exc_type=ImportError).sgld
    _, mean, cov = last(
        sgld(
            GAUSSIAN, ALIKE, None, n_particles=20_000, seed=0, batch_size=10, passes=2500,
            step_size=2.5e-4, decay=0.0, burn_in=200, n_chains=2, friction=0.1,
        )
    )  # fmt: skip
    np.testing.assert_allclose((mean - MEAN) / SD, 0.0, atol=0.13)
    np.testing.assert_allclose(cov, COV, atol=0.13 * np.diag(COV).max())


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


@pytest.mark.parametrize("df", [np.inf, 5.0])
def test_smoothed_importance_sampling_on_a_gaussian(df):
    # From a wrong centre and scale; 4000 draws, of which some third count: 0.03 sd.
    method = pytest.importorskip("examples.benchmarks.peers.importance", exc_type=ImportError)
    factor = 1.3 * np.linalg.cholesky(COV)
    found, mean, cov = last(
        itertools.islice(
            method.laplace_psis(
                GAUSSIAN, X, None, mode=MEAN + 0.5 * SD, factor=factor, seed=0, df=df
            ), 2,
        )
    )  # fmt: skip
    assert len(found.particles) == 4000
    assert_near(mean, cov, 0.08)


def test_adaptive_importance_sampling_on_a_gaussian():
    # From two sds off and a third of the scale it finds the Gaussian: 20,000 draws, 0.01 sd.
    method = pytest.importorskip("examples.benchmarks.peers.importance", exc_type=ImportError)
    factor = 0.5 * np.linalg.cholesky(COV)
    found, mean, cov = last(
        method.amis(GAUSSIAN, X, None, mode=MEAN + SD, factor=factor, seed=0, rounds=20)
    )
    assert len(found.particles) == 20_000
    assert_near(mean, cov, 0.04)
    log_evidence = logsumexp(found.log_weights) - np.log(20_000)
    assert log_evidence == pytest.approx(log_evidence_of_all(), abs=0.02)


def log_evidence_of_all():
    """The log of the integral of likelihood times prior, which is a Gaussian one."""
    at_mean = log_likelihood(MEAN[None], X, None)[0] + log_prior(MEAN[None])[0]
    return at_mean + np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(COV)[1]


def test_annealed_importance_sampling_on_a_gaussian():
    # 2000 particles, of which most count: 0.03 sd, and 0.03 in the log evidence.
    method = pytest.importorskip("examples.benchmarks.peers.annealed", exc_type=ImportError)
    curvature = np.linalg.eigvalsh(len(X) * A).max()
    found, mean, cov = last(
        method.annealed(
            GAUSSIAN, X, None, n_particles=2000, seed=0, n_temperatures=60, step_size=0.7,
            curvature=curvature, block=500,
        )
    )  # fmt: skip
    assert len(found.particles) == 2000
    assert_near(mean, cov, 0.1)
    # The one in JAX lacks the constant of the prior, which the weights never see.
    log_evidence = logsumexp(found.log_weights) - np.log(2000)
    assert log_evidence == pytest.approx(log_evidence_of_all(), abs=0.1)


def test_pathfinder_on_a_gaussian():
    # Weights correct what the paths leave: 4000 draws, 0.03 sd.
    method = pytest.importorskip("examples.benchmarks.peers.pathfinder", exc_type=ImportError)
    found, mean, cov = last(
        itertools.islice(method.pathfinder(GAUSSIAN, X, None, n_particles=4000, seed=0), 1)
    )
    assert len(found.particles) == 4000
    assert_near(mean, cov, 0.1)


def test_microcanonical_langevin_on_a_gaussian():
    # 20,000 steps with some ten of them a draw: 0.03 sd; the step size leaves a bias of this size.
    method = pytest.importorskip("examples.benchmarks.peers.mclmc", exc_type=ImportError)
    _, mean, cov = last(method.mclmc(GAUSSIAN, X, None, n_particles=20_000, seed=0, n_steps=20_000))
    assert_near(mean, cov, 0.15)


def test_nutpie_on_a_gaussian():
    # 3200 draws, hardly correlated: 0.02 sd.
    method = pytest.importorskip("examples.benchmarks.peers.nutpie_nuts", exc_type=ImportError)
    snapshots = method.nutpie_nuts(GAUSSIAN, X, None, n_particles=4000, seed=0)
    found, mean, cov = last(itertools.islice(snapshots, 6))
    assert len(found.particles) == 3200 and found.rows > 3200 * len(X)
    assert_near(mean, cov, 0.1)


def test_nested_sampling_on_a_gaussian():
    # 500 live points: the log evidence within sqrt(information / 500), some .07; some 2000
    # effective draws, of which a sample is taken: .03 sd.
    method = pytest.importorskip("examples.benchmarks.peers.nested", exc_type=ImportError)
    found, mean, cov = last(
        method.nested(GAUSSIAN, X, None, n_particles=4000, seed=0, prior_transform=ndtri)
    )
    assert len(found.particles) <= 4000
    assert_near(mean, cov, 0.15)
    assert found.log_evidence == pytest.approx(log_evidence_of_all(), abs=0.25)


def test_a_grid_of_a_gaussian_is_exact():
    found, mean, cov = last(quadrature(GAUSSIAN, X, None, n_particles=0, seed=0, sides=(11, 161)))
    assert_near(mean, cov, 1e-5)
    assert found.log_evidence == pytest.approx(log_evidence_of_all(), abs=1e-5)
    exact = multivariate_normal(MEAN, COV)
    points = exact.rvs(100, random_state=0)
    np.testing.assert_allclose(found.log_density(points), exact.logpdf(points), atol=0.01)


def test_a_spline_flow_has_the_density_of_its_rows():
    # 4000 rows: the entropy is known within 1 / sqrt(2000) = .02 nats, some .05 for the fit.
    flow = pytest.importorskip("examples.benchmarks.peers.flow", exc_type=ImportError)
    law = multivariate_normal([1.0, -1.0], [[1.0, 0.7], [0.7, 1.0]])
    learn, valid, test = np.split(law.rvs(8000, random_state=0), [4000, 6000])
    log_density, cpu = flow.spline_flow(learn, valid, seed=0, max_cpu=20.0, hidden=(32, 32))
    assert log_density(test).mean() == pytest.approx(law.logpdf(test).mean(), abs=0.05)
    assert 0.0 < cpu < 60.0


def test_stacked_mixtures_take_the_weights_of_the_most_probable():
    densities = pytest.importorskip("examples.benchmarks.mixture.densities")
    near, far = (SimpleNamespace(score_samples=norm(m).logpdf) for m in (0.0, 3.0))
    valid, test = np.split(
        norm.rvs(size=4000, random_state=0) + 3.0 * (np.arange(4000) % 4 == 0), 2
    )
    log_weights, _ = densities.stacking([near, far], valid)
    score = densities.averaged([near, far], test, log_weights)
    exact = np.log(0.75 * norm(0.0).pdf(test) + 0.25 * norm(3.0).pdf(test)).mean()
    assert score == pytest.approx(exact, abs=0.005)


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


def test_npv_bound():
    npv = pytest.importorskip("examples.benchmarks.peers.npv", exc_type=ImportError)
    mu, sd = np.array([[0.1, 0.2], [1.0, -1.0], [0.5, 0.0]]), np.array([0.3, 0.5, 1.2])

    def log_joint(theta):
        return jax_log_prior(theta) + jax_log_likelihood(theta, X, None)

    expected = 0.0
    for one, width in zip(mu, sd, strict=True):
        q = [
            multivariate_normal(other, (width**2 + w**2) * np.eye(2)).pdf(one)
            for other, w in zip(mu, sd, strict=True)
        ]
        trace = -np.trace(np.linalg.inv(COV))
        expected += log_joint(one) + 0.5 * width**2 * trace - np.log(np.mean(q))
    params = npv.jnp.asarray(np.column_stack([mu, np.log(sd)]))
    value = npv.jax.jit(npv._elbo, static_argnums=1)(params, log_joint)
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.parametrize("waste_free", [True, False])
@pytest.mark.parametrize("method", ["ibis", "tempered"])
def test_particles_smc_on_a_gaussian(method, waste_free):
    # 3000 particles: 1 / sqrt(3000) = 0.02 sd, some twice that where chains are kept whole.
    pytest.importorskip("particles")
    from examples.benchmarks.peers import particles_smc

    state = np.random.get_state()[1].copy()
    found, mean, cov = last(
        getattr(particles_smc, method)(
            GAUSSIAN, X, None, n_particles=3000, seed=0, batch_size=7, waste_free=waste_free
        )
    )
    assert_near(mean, cov, 0.1)
    assert found.rows >= len(X) and len(found.particles) == 3000
    np.testing.assert_array_equal(np.random.get_state()[1], state)


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


@pytest.mark.slow  # NumPyro takes ten seconds to compile
@pytest.mark.parametrize("family", ["full", "diagonal"])
def test_svi_on_a_gaussian(family):
    # The diagonal family's optimum has the conditional variances. Adam's steps end at 1e-4.
    module = pytest.importorskip("examples.benchmarks.peers.svi", exc_type=ImportError)
    found, mean, cov = last(
        module.svi(
            GAUSSIAN, ALIKE, None, n_particles=100, seed=0, batch_size=10, passes=2500,
            learning_rate=0.3, decay=1.0, family=family,
        )
    )  # fmt: skip
    exact = COV if family == "full" else np.diag(1.0 / np.diag(np.linalg.inv(COV)))
    np.testing.assert_allclose((mean - MEAN) / SD, 0.0, atol=0.05)
    np.testing.assert_allclose(cov, exact, atol=0.1 * exact.max())
    density = multivariate_normal(mean, cov).logpdf(X[:5])
    np.testing.assert_allclose(found.log_density(X[:5]), density, rtol=1e-8)


@pytest.mark.slow  # likewise
def test_prior_nuts_on_a_gaussian():
    # 4000 draws, nearly independent: 0.02 sd.
    module = pytest.importorskip("examples.benchmarks.peers.prior_nuts", exc_type=ImportError)
    _, mean, cov = last(
        module.prior_nuts(GAUSSIAN, X, None, n_particles=4000, seed=0, n_steps=1000, n_warmup=100)
    )
    assert_near(mean, cov, 0.1)
