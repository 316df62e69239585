"""Predictive draws and pointwise log-likelihoods."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from skpmd import BayesianLogisticRegressionPMD

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


@pytest.mark.parametrize("prior", ["laplace", "student_t", "cauchy", "horseshoe"])
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
