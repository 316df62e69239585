"""ParticleMirrorDescent: exact posteriors, its settings, its errors."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skpmd import ParticleMirrorDescent
from tests.tools.exact_models import (
    NORMAL_MEAN,
)

# 1000 particles weighed once have some 700 effective ones: 4 Monte Carlo sds of a posterior mean
# are 0.15 posterior sd, of a posterior sd 11 %.
MEAN_TOLERANCE, SD_TOLERANCE = 0.15, 0.11


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(0.8, 1.0, size=(60, 1))


def exact(X):
    n = len(X)
    quadratic = (X**2).sum() - X.sum() ** 2 / (n + 1)
    evidence = -0.5 * (n * np.log(2 * np.pi) + np.log(n + 1) + quadratic)
    return X.sum() / (n + 1), (n + 1) ** -0.5, evidence


def check_exact(pmd, X):
    mean, sd, evidence = exact(X)
    posterior = pmd.posterior_
    assert abs(posterior.mean()[0] - mean) < MEAN_TOLERANCE * sd
    assert abs(posterior.std()[0] / sd - 1) < SD_TOLERANCE
    if pmd.reweight:
        assert abs(pmd.log_evidence_ - evidence) < max(0.02, 4 * posterior.log_evidence_se)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"batch_size": 10},
        {"batch_size": 1},
        {"batch_size": 7, "sampling": "replacement"},
        {"step_size": 0.2},
        {"step_offset": 0.0, "batch_size": 20},
        {"step_schedule": "rows", "batch_size": 7, "reweight": False, "max_iter": 1},
        {"step_schedule": "theorem6", "batch_size": 20},
        {"rejuvenation": "always"},
        {"rejuvenation": "never", "n_particles": 4000},
        {"resampling": "stratified"},
        {"resampling": "residual"},
        {"resampling": "multinomial"},
        {"kernel": "epanechnikov", "rejuvenation": "always"},
        {"bandwidth": "theorem"},
        {"bandwidth": "scott"},
        {"bandwidth": "silverman"},
        {"bandwidth": "median", "bandwidth_factor": 3.0},
        {"bandwidth": 0.3},
        {"n_particles": 50, "particle_growth": 1.0, "max_particles": 1000, "batch_size": 20},
        {"n_particles": 50, "particle_growth": "theorem", "max_particles": 1000, "batch_size": 20},
        {"n_particles": 200, "final_particles": 1500},
        {"average": True},
        {"average": True, "final_particles": 1500},
    ],
    ids=str,
)
def test_conjugate_posterior(X, params):
    params = {"proposal": "prior", **params}
    pmd = ParticleMirrorDescent(**NORMAL_MEAN, random_state=3, **params).fit(X)
    check_exact(pmd, X)


def test_vague_start_widens_the_posterior_as_theory_says(X):
    """n0 = batches per pass: after P full-batch passes q is q0^(1/(P+1)) posterior^(P/(P+1))."""
    pmd = ParticleMirrorDescent(
        **NORMAL_MEAN, random_state=0, reweight=False, n_particles=4000, max_iter=4
    ).fit(X)
    # gamma_t = 1/(1+t): products of (1 - gamma) leave 1/5 on the prior and 4/5 on the likelihood
    precision = 0.2 + 0.8 * (1 + len(X))
    np.testing.assert_allclose(pmd.posterior_.std()[0], precision**-0.5, rtol=0.08)
    np.testing.assert_allclose(pmd.history_["step_size"], [1 / 2, 1 / 3, 1 / 4, 1 / 5])


def test_final_particles_without_polish_are_fixed_in_the_last_pass(X):
    pmd = ParticleMirrorDescent(
        **NORMAL_MEAN,
        n_particles=200,
        final_particles=3000,
        reweight=False,
        max_iter=3,
        batch_size=30,
        random_state=0,
    ).fit(X)
    np.testing.assert_array_equal(pmd.history_["n_particles"], [200] * 4 + [3000] * 2)
    assert pmd.posterior_.particles.shape == (3000, 1)


def test_growing_cloud_follows_its_schedule(X):
    pmd = ParticleMirrorDescent(
        **NORMAL_MEAN,
        n_particles=40,
        particle_growth=1.0,
        rejuvenation="always",
        reweight=False,
        max_particles=150,
        random_state=0,
    ).fit(X)
    np.testing.assert_array_equal(pmd.history_["n_particles"], [40, 80, 120, 150, 150])


@pytest.fixture(scope="module")
def two_modes():
    """Two equal modes on the two square roots of a mean, against a grid."""

    def log_likelihood(theta, X, y):
        return norm.logpdf(X[:, 0], theta**2).sum(axis=1)

    X = np.random.default_rng(4).normal(1.5, 1.0, size=(50, 1))
    grid = np.linspace(-3, 3, 3001)
    log_joint = norm.logpdf(grid) + log_likelihood(grid[:, None], X, None)
    log_evidence = logsumexp(log_joint) + np.log(grid[1] - grid[0])
    problem = {**NORMAL_MEAN, "log_likelihood": log_likelihood}
    return problem, X, grid, np.exp(log_joint - log_evidence), log_evidence


@pytest.mark.slow_for("0-prior", "1-prior", "2-prior")
@pytest.mark.parametrize("proposal", ["auto", "prior"])
@pytest.mark.parametrize("seed", range(3))
def test_both_modes_are_found_with_their_mass(two_modes, seed, proposal):
    """Total variation below 0.06 (1000 exact draws with Scott's rule reach 0.3); masses within
    4 binomial sds at 700 effective particles, 0.08."""
    problem, X, grid, density, log_evidence = two_modes
    model = ParticleMirrorDescent(**problem, proposal=proposal, random_state=seed)
    posterior = model.fit(X).posterior_
    found = np.exp(posterior.log_density(grid[:, None]))
    width = grid[1] - grid[0]
    assert 0.5 * np.abs(found - density).sum() * width < 0.06
    assert abs(posterior.expectation(lambda theta: theta[:, 0] > 0) - 0.5) < 0.08
    assert abs(posterior.log_evidence - log_evidence) < 0.05


@pytest.mark.parametrize("proposal", ["auto", "prior"])
def test_temperature_raises_the_likelihood_to_a_power(X, proposal):
    pmd = ParticleMirrorDescent(
        **NORMAL_MEAN, proposal=proposal, temperature=4.0, random_state=0
    ).fit(X)
    assert abs(pmd.posterior_.std()[0] / (1 + len(X) / 4) ** -0.5 - 1) < SD_TOLERANCE
    with pytest.raises(AttributeError, match="temperature=1"):
        _ = pmd.posterior_.log_evidence
    assert not hasattr(pmd, "log_evidence_")


def test_evidence_of_an_earlier_fit_does_not_linger(X):
    pmd = ParticleMirrorDescent(**NORMAL_MEAN, random_state=0).fit(X)
    assert hasattr(pmd, "log_evidence_")
    assert not hasattr(pmd.set_params(reweight=False).fit(X), "log_evidence_")


def test_averaged_iterate_has_no_certificate(X):
    posterior = (
        ParticleMirrorDescent(**NORMAL_MEAN, average=True, reweight=False, random_state=0)
        .fit(X)
        .posterior_
    )
    with pytest.raises(AttributeError, match="average of iterates"):
        _ = posterior.pareto_k
    assert posterior.ess == pytest.approx(1000)


def test_weights_are_repetitions(X):
    times = np.arange(len(X)) % 3
    one = ParticleMirrorDescent(**NORMAL_MEAN, random_state=1).fit(X, sample_weight=times)
    two = ParticleMirrorDescent(**NORMAL_MEAN, random_state=1).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(one.posterior_.particles, two.posterior_.particles, rtol=1e-7)
    np.testing.assert_allclose(one.posterior_.weights, two.posterior_.weights, rtol=1e-6)


def test_weights_need_a_likelihood_that_takes_them(X):
    problem = {**NORMAL_MEAN, "log_likelihood": lambda theta, X, y: np.zeros(len(theta))}
    with pytest.raises(ValueError, match="sample_weight was given, but log_likelihood takes none"):
        ParticleMirrorDescent(**problem).fit(X, sample_weight=np.ones(len(X)))


@njit
def jitted_log_likelihood(theta, X, y):
    out = np.zeros(len(theta))
    for i in range(len(theta)):
        for n in range(len(X)):
            out[i] -= 0.5 * (X[n, 0] - theta[i, 0]) ** 2 + 0.5 * np.log(2 * np.pi)
    return out


def test_numba_functions_are_welcome(X):
    problem = {**NORMAL_MEAN, "log_likelihood": jitted_log_likelihood}
    check_exact(ParticleMirrorDescent(**problem, random_state=0).fit(X), X)


def test_a_fit_that_is_verbose_says_once_that_kernels_are_compiled(X, capfd):
    problem = {**NORMAL_MEAN, "log_likelihood": njit(jitted_log_likelihood.py_func)}
    for times in (1, 0):
        ParticleMirrorDescent(**problem, random_state=0, verbose=1).fit(X)
        assert "".join(capfd.readouterr()).count("compiling kernels") == times


def test_history_records_each_step(X):
    params = {"proposal": "prior", "batch_size": 20, "max_iter": 2, "random_state": 0}
    pmd = ParticleMirrorDescent(**NORMAL_MEAN, **params).fit(X)
    history = pmd.history_
    assert {len(column) for column in history.values()} == {len(history["step"])}
    assert len(history["step"]) >= 7  # three batches, two passes, a polish round
    np.testing.assert_allclose(history["step_size"][:6], 1 / (3 + np.arange(1, 7)))
    assert history["step_size"][-1] == 1.0
    assert history["rejuvenations"][-1] >= 1 and history["bandwidth"][-1] > 0
    assert (history["ess"] <= history["n_particles"] + 1e-6).all()


def test_a_collapsed_cloud_is_never_silent():
    X = np.random.default_rng(0).normal(4.0, 1.0, size=(3000, 1))
    pmd = ParticleMirrorDescent(
        **NORMAL_MEAN, rejuvenation="never", n_particles=300, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="effective sample size is"):
        pmd.fit(X)
    assert pmd.diagnostics_["warnings"]


@pytest.mark.parametrize(
    "change, error, match",
    [
        ({"sample_prior": lambda rng, m: rng.normal(size=m)}, ValueError, "sample_prior must"),
        ({"log_prior": lambda theta: theta}, ValueError, "log_prior must return one value"),
        ({"log_likelihood": lambda theta, X, y: 0.0}, ValueError, "log_likelihood must return"),
        (
            {"log_likelihood": lambda theta, X, y: np.full(len(theta), np.nan)},
            FloatingPointError,
            r"log_likelihood returned nan .* theta = \[",
        ),
        (
            {"log_likelihood": lambda theta, X, y: np.full(len(theta), -np.inf)},
            FloatingPointError,
            "zero posterior density",
        ),
        ({"log_prior": lambda theta: np.nan * theta[:, 0]}, FloatingPointError, "log_prior ret"),
        ({"log_prior": 3}, ValueError, "log_prior"),
        ({"bandwidth": "wide"}, ValueError, "bandwidth"),
        ({"bandwidth": 1.5}, ValueError, "bandwidth must be at most 1"),
        ({"step_size": 0.0}, ValueError, "step_size"),
        ({"n_particles": 1}, ValueError, "n_particles"),
        ({"rejuvenation": "never", "final_particles": 10}, ValueError, "final_particles"),
        ({"rejuvenation": "never", "particle_growth": 1.0}, ValueError, "particle_growth"),
        ({"average": True, "rejuvenation": "never"}, ValueError, "average=True with reweight=True"),
        ({"final_particles": 50, "reweight": False, "max_iter": 1}, ValueError, "max_iter=1"),
        ({"max_particles": 5000}, ValueError, "set particle_growth"),
    ],
)
def test_errors_name_what_is_wrong(X, change, error, match):
    with pytest.raises(error, match=match):
        ParticleMirrorDescent(**{**NORMAL_MEAN, **change}).fit(X)


def test_an_error_of_a_function_says_how_it_was_called(X):
    def of_one_vector(theta, X, y):
        return -0.5 * ((X @ theta) ** 2).sum()

    with pytest.raises(ValueError, match="matmul") as caught:
        ParticleMirrorDescent(**{**NORMAL_MEAN, "log_likelihood": of_one_vector}).fit(X)
    assert caught.value.__notes__[0].startswith("log_likelihood was called with theta of shape (")
    other_order = {"sample_prior": lambda m, rng: rng.normal(size=(m, 1))}
    with pytest.raises(AttributeError) as caught:
        ParticleMirrorDescent(**{**NORMAL_MEAN, **other_order}).fit(X)
    assert "sample_prior(rng, m)" in caught.value.__notes__[0]
    fitted = ParticleMirrorDescent(
        **NORMAL_MEAN, predict_mean=lambda theta, X: X @ theta, random_state=0
    ).fit(X)
    with pytest.raises(ValueError, match="matmul") as caught:
        fitted.predict(X)
    assert caught.value.__notes__[0].startswith("predict_mean was called with theta of shape (")


def test_parts_of_a_stream_may_have_no_columns():
    y = np.random.default_rng(0).normal(size=60)
    model = ParticleMirrorDescent(
        distribution=lambda p, X: stats.norm(p["mu"][:, None], 1.0),
        prior={"mu": stats.norm(0.0, 10.0)}, random_state=0,
    )  # fmt: skip
    for part in (y[:30], y[30:]):
        model.partial_fit(y=part)
    # Two standard errors of the means of 4000 particles, in sds of 1 / sqrt(60).
    assert model.posterior_.mean()[0] == pytest.approx(y.mean(), abs=0.006)


def test_a_target_that_no_particle_allows_is_looked_for():
    model = ParticleMirrorDescent(
        distribution=lambda p, X: stats.poisson(p["rate"][:, None]),
        prior={"rate": stats.expon()}, random_state=0,
    )  # fmt: skip
    with pytest.raises(FloatingPointError, match="some row is impossible under each"):
        model.fit(y=np.array([1.0, 2.0, 2.5]))
