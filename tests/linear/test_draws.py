"""Predictive draws and pointwise log-likelihoods."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import expit, logit, logsumexp, ndtr
from scipy.stats import t
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
)
from skpmd.linear._make_model import PRIORS

N = 20_000  # draws; frequencies have a standard error below 0.0036, and 4.5 of these are 0.016


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0, "yes", "no")
    return BayesianLogisticRegressionPMD(n_particles=1000, random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return BayesianLogisticRegressionPMD(n_particles=1000, random_state=0).fit(X, y), X, y


@pytest.mark.parametrize("problem", ["binary", "iris"])
def test_frequencies_of_drawn_labels_are_the_probabilities(problem, request):
    model, X, _ = request.getfixturevalue(problem)
    rows = X[[0, 17, -1]]
    labels = model.sample_y(rows, n_samples=N)
    assert labels.shape == (3, N) and labels.dtype == model.classes_.dtype
    frequencies = (labels[:, :, None] == model.classes_).mean(axis=1)
    assert np.abs(frequencies - model.predict_proba(rows)).max() < 0.016


def test_a_draw_takes_one_particle_for_all_rows(binary):
    # Twice the same row: labels agree more often than independent ones, by the variance of p.
    model, X, _ = binary
    row = X[[3]]
    a, b = model.sample_y(np.repeat(row, 2, axis=0), n_samples=N) == "yes"
    theta, w = model.posterior_.particles, model.posterior_.weights
    p = expit(theta[:, :2] @ row[0] + theta[:, 2])
    both = w @ p**2
    assert both - (w @ p) ** 2 > 0.005
    assert abs(np.mean(a & b) - both) < 0.016


def test_prior_draws_need_no_fit():
    # One row at the origin, intercept N(0, 1): the labels are even; the log odds of many rows with
    # one particle share it.
    model = BayesianLogisticRegressionPMD(intercept_prior_scale=1.0)
    labels = model.sample_prior_y(np.zeros((2, 3)), classes=["a", "b"], n_samples=N)
    assert labels.shape == (2, N)
    assert abs((labels[0] == "b").mean() - 0.5) < 0.016
    z = np.random.default_rng(1).standard_normal(10**6)
    assert abs(((labels[0] == "b") & (labels[1] == "b")).mean() - (expit(z) ** 2).mean()) < 0.016
    with pytest.raises(NotFittedError):
        model.sample_y(np.zeros((2, 3)))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("prior", [name for name in PRIORS if name != "normal"])
def test_every_prior_has_draws(prior):
    model = BayesianLogisticRegressionPMD(prior=prior)
    labels = model.sample_prior_y(np.ones((2, 3)), classes=[1, 2, 3], n_samples=N)
    for label in (1, 2, 3):  # classes are exchangeable a priori
        assert abs((labels[0] == label).mean() - 1 / 3) < 0.016


@pytest.mark.parametrize("problem", ["binary", "iris"])
def test_pointwise_log_likelihoods_average_to_the_predictive_probability(problem, request):
    model, X, y = request.getfixturevalue(problem)
    table = model.pointwise_log_likelihood(X, y)
    assert table.shape == (len(model.posterior_.particles), len(y))
    averaged = logsumexp(table + model.posterior_.log_weights[:, None], axis=0)
    own = np.searchsorted(model.classes_, y)
    expected = model.predict_log_proba(X)[np.arange(len(y)), own]
    # Predictions average in single precision.
    np.testing.assert_allclose(averaged, expected, atol=1e-6)
    drawn = model.pointwise_log_likelihood(X, y, n_draws=500)
    assert drawn.shape == (500, len(y))
    # Systematic draws: each particle floor(n w) or one more times.
    assert np.abs(np.exp(drawn).mean(axis=0) - np.exp(expected)).max() < 0.02


def test_bad_numbers_and_labels(binary):
    model, X, y = binary
    for n in (0, -1, 1.5, "all"):
        with pytest.raises(ValueError, match="Invalid value for .n_"):
            model.sample_y(X, n_samples=n)
    with pytest.raises(ValueError, match="not among the classes"):
        model.pointwise_log_likelihood(X[:1], ["perhaps"])
    with pytest.raises(ValueError, match="evidence"):
        BayesianLogisticRegressionPMD(prior_scale="evidence").sample_prior_y(X)


def test_columns_and_classes_are_checked(binary):
    model, X, y = binary
    with pytest.raises(ValueError, match="1 features, but .* is expecting 2"):
        model.pointwise_log_likelihood(X[:, :1], y)
    for classes in ([], ["yes"]):
        with pytest.raises(ValueError, match="classes must hold two labels or more"):
            model.sample_prior_y(X, classes)


def test_draws_follow_the_seed_and_touch_no_global_state(binary):
    model, X, _ = binary
    state = np.random.get_state()[1].copy()
    np.testing.assert_array_equal(model.sample_y(X, 3), model.sample_y(X, 3))
    assert (model.sample_y(X, 3) != model.sample_y(X, 3, random_state=1)).any()
    np.testing.assert_array_equal(np.random.get_state()[1], state)


# ------------------------------------------------------------------ the prior, of other estimators
# Rows are centred and of unit sd, so that predictors have variances 1 + x'x under unit scales.
X_PRIOR = np.array([[-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]] * 2 + [[0.0, 0.0]] * 2)
X_PRIOR /= X_PRIOR.std(axis=0)


def test_prior_draws_of_numbers_have_the_moments_of_normals():
    y = 7.0 + 3.0 * np.random.default_rng(0).standard_normal(len(X_PRIOR))
    prior = {"prior_mean": [0.5, 0.0], "dispersion_prior_scale": 1e-9}
    model = BayesianGLMRegressorPMD(prior_scale=2.0, intercept_prior_scale=1.5, **prior)
    X = [10.0, 0.1] * X_PRIOR + [50.0, 2.0]
    draws = model.sample_prior_y(X, y, N)
    mean = y.mean() + 0.5 * y.std() * X_PRIOR[:, 0]
    sd = y.std() * np.sqrt(1.5**2 + 2.0**2 * (X_PRIOR**2).sum(axis=1))
    # 4.5 standard errors, of a mean sd / sqrt(N) and of an sd that over sqrt(2), as everywhere.
    assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * sd / np.sqrt(N)).all()
    np.testing.assert_allclose(draws.std(axis=1), sd, rtol=4.5 / np.sqrt(2.0 * N))
    assert not [name for name in vars(model) if name.endswith("_")]
    one, other = (model.sample_prior_y(kind(X), y, 5) for kind in (csr_array, np.asarray))
    np.testing.assert_allclose(one, other)


def test_prior_draws_of_numbers_have_the_noise_of_a_half_student():
    y = np.random.default_rng(0).standard_normal(len(X_PRIOR))
    model = BayesianGLMRegressorPMD(prior_scale=1e-9, intercept_prior_scale=1e-9)
    gap = np.abs(model.sample_prior_y(X_PRIOR, y, N) - y.mean()) / (2.5 * y.std())
    # P(|noise| < 1) of a normal whose sd is half-Student-t(3, 1).
    share = quad(lambda s: 2.0 * t(3).pdf(s) * (2.0 * ndtr(1.0 / s) - 1.0), 0.0, np.inf)[0]
    assert np.abs((gap < 1.0).mean(axis=1) - share).max() < 0.016


def test_prior_draws_of_counts_have_the_moments_of_lognormal_rates():
    years = np.linspace(0.5, 2.0, len(X_PRIOR))
    X, y = np.column_stack([X_PRIOR, years]), np.arange(len(X_PRIOR))
    scale = {"prior_scale": 0.2, "intercept_prior_scale": 0.3}
    draws = BayesianGLMRegressorPMD("poisson", exposure=2, **scale).sample_prior_y(X, y, N)
    v = 0.3**2 + 0.2**2 * (X_PRIOR**2).sum(axis=1)
    mean = years * y.sum() / years.sum() * np.exp(0.5 * v)
    variance = mean + np.expm1(v) * mean**2
    assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * np.sqrt(variance / N)).all()
    # Fourth moments of counts are at most 12 times those that a normal has here.
    np.testing.assert_allclose(draws.var(axis=1), variance, rtol=4.5 * np.sqrt(12.0 / N))


def test_prior_draws_of_ordered_classes_are_dirichlet_at_the_mean():
    y = np.resize(["high", "low", "none"], len(X_PRIOR))
    model = BayesianOrdinalClassifierPMD(["none", "low", "medium", "high"])
    draws = model.sample_prior_y(X_PRIOR, y, N)
    assert draws.shape == (len(X_PRIOR), N)
    for label in model.categories:  # Of Dirichlet(1, ..., 1) of K: E p = 1 / K, E p^2 = 2 / K(K+1).
        first, second = draws[-2:] == label  # Both are at the columns' means.
        assert abs(first.mean() - 0.25) < 0.016 and abs((first & second).mean() - 0.1) < 0.016
    rng, v = np.random.default_rng(1), X_PRIOR[0] @ X_PRIOR[0]
    below, z = rng.beta(1.0, 3.0, 10**6), np.sqrt(v) * rng.standard_normal(10**6)
    share = expit(logit(below) - z).mean()  # Of either end, for the prior is symmetric.
    for label in ("none", "high"):
        assert abs((draws[0] == label).mean() - share) < 0.016


def test_draws_of_an_earlier_posterior_are_those_of_its_predictions():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    first = BayesianGLMRegressorPMD(random_state=0).fit(X, y)
    found = first.predict_proba(X)
    draws = BayesianGLMRegressorPMD(prior=first).sample_prior_y(X, y, 5000)
    # 4.5 standard errors, as above; the density that stands for its particles is as near.
    assert (np.abs(draws.mean(axis=1) - found.mean()) < 0.064 * found.std()).all()
    np.testing.assert_allclose(draws.std(axis=1), found.std(), rtol=0.064)


def test_prior_draws_need_a_prior_and_what_it_refers_to():
    y = np.arange(len(X_PRIOR))
    with pytest.raises(ValueError, match="evidence"):
        BayesianGLMRegressorPMD(prior_scale="evidence").sample_prior_y(X_PRIOR, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        BayesianGLMRegressorPMD().sample_prior_y(X_PRIOR, None)
    with pytest.raises(ValueError, match="Invalid value for .n_samples"):
        BayesianOrdinalClassifierPMD().sample_prior_y(X_PRIOR, y, 0)
