"""Yesterday's posterior as today's prior, and priors that differ between columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD
from skpmd.linear._priors import DensityPrior, LaplacePrior, NormalPrior, ShiftedPrior
from skpmd.proposals import fitted_density


def halves(load=load_breast_cancer, columns=slice(None)):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, columns])
    place = np.random.default_rng(0).permutation(len(y))
    return X[place], y[place], len(y) // 2


@pytest.mark.slow_but("load_iris-columns2-True")
@pytest.mark.parametrize(
    "load, columns, with_rows",
    [
        (load_breast_cancer, slice(None), True),
        (load_breast_cancer, slice(4), False),
        (load_iris, slice(None), True),
    ],
)
def test_two_halves_are_the_whole(load, columns, with_rows):
    """Within a tenth of a standard deviation; kernels (five coordinates) and rows (31, 15)."""
    X, y, h = halves(load, columns)
    whole = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)
    first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:h], y[:h])
    if not with_rows:
        first.posterior_.rows = None
    second = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    second.fit(X[h:], y[h:])
    z = (second.coef_ - whole.coef_) / whole.coef_std_
    assert np.abs(z).max() < 0.1
    np.testing.assert_allclose(second.coef_std_, whole.coef_std_, rtol=0.1)
    k = second.diagnostics_["prior_pareto_k"]
    assert (k is None) == (first.posterior_.rows is not None) and not (k or 0.0) > 0.7
    if second.diagnostics_["r_hat"] is None:
        # The evidences of the first half, and of the second given the first, are that of both.
        total = first.log_evidence_ + second.log_evidence_
        assert total == pytest.approx(whole.log_evidence_, abs=0.2)
    alone = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[h:], y[h:])
    assert np.abs((alone.coef_ - whole.coef_) / whole.coef_std_).max() > 0.5


@pytest.mark.slow
def test_halves_that_contradict_each_other():
    """Rows in their order: the whole is 3.9 standard deviations of the first from its mean.

    There skewness of .1 decides. Values of the first posterior show it, places of particles alone
    do not, and that is said.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, [0, 1, 4]])
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:300], y[:300]).posterior_
    first.rows = None
    model = BayesianLogisticRegressionPMD(prior=first, random_state=0)
    z = (model.fit(X[300:], y[300:]).coef_ - whole.coef_) / whole.coef_std_
    assert np.abs(z).max() < 0.1
    first.log_joint, first._fitted = None, {}
    with pytest.warns(ConvergenceWarning, match="of the posterior is where the earlier posterior"):
        model.fit(X[300:], y[300:])


def test_a_gaussian_posterior_is_a_normal_prior():
    X, y, h = halves()
    # The mean of an intercept cannot be given by itself.
    model = BayesianLogisticRegressionPMD(scale=None, covariance_type="diag", fit_intercept=False)
    first = model.fit(X[:h], y[:h]).posterior_
    second = clone(model).set_params(prior=first, scale="auto").fit(X[h:], y[h:])
    given = clone(model).set_params(prior_mean=first.loc, prior_scale=first.scale)
    given.fit(X[h:], y[h:])
    np.testing.assert_allclose(second.coef_, given.coef_, rtol=1e-6)
    np.testing.assert_allclose(second.coef_std_, given.coef_std_, rtol=1e-6)


def test_prior_mean_is_a_translation():
    """Under a flat likelihood the posterior is the prior."""
    X = np.zeros((2, 2))
    model = BayesianLogisticRegressionPMD(
        prior_mean=[3.0, -2.0], prior_scale=[0.5, 2.0], random_state=0
    ).fit(X, [0, 1])
    np.testing.assert_allclose(model.coef_, [[3.0, -2.0]], atol=0.02)
    np.testing.assert_allclose(model.coef_std_, [[0.5, 2.0]], rtol=0.03)
    np.testing.assert_array_equal(model.prior_scale_, [[0.5, 2.0]])


def test_columns_by_name_and_group():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = list("abcd")
    named = BayesianLogisticRegressionPMD(
        prior_mean={"b": 1.0}, prior_scale={("a", "c"): 0.3, "d": 2.0}, random_state=0
    )
    placed = BayesianLogisticRegressionPMD(
        prior_mean=[0.0, 1.0, 0.0, 0.0], prior_scale=[0.3, 1.0, 0.3, 2.0], random_state=0
    )
    by_class = clone(placed).set_params(prior_scale=np.tile(placed.prior_scale, (3, 1)))
    expected = placed.fit(X, y).predict_proba(X)
    for model in (named, by_class):
        np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), expected)
    draws = [model.sample_prior_y(X, [0, 1, 2], 5) for model in (named, placed)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"prior_scale": {"e": 1.0}}, "names the column 'e'"),
        ({"prior_scale": {("a", "b"): 1.0, "a": 2.0}}, "'a' twice"),
        ({"prior_scale": [1.0, 2.0]}, r"shape \(4,\)"),
        ({"prior_scale": [1.0, 2.0, 3.0, -1.0]}, "from 1e-30"),
        ({"prior_mean": [1.0, 2.0, 3.0, np.nan]}, "from -1e"),
        ({"prior_mean": {"a": [1.0]}}, "must be a number"),
        ({"prior": "horseshoe", "prior_mean": 1.0}, "about zero"),
        ({"prior": "horseshoe", "prior_scale": [1.0] * 4}, "one prior_scale"),
    ],
)
def test_errors_name_the_parameter(parameters, message):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = list("abcd")
    with pytest.raises(ValueError, match=message):
        BayesianLogisticRegressionPMD(**parameters).fit(X, y)


def test_other_columns_are_refused():
    X, y, h = halves(load_iris)
    frame = pd.DataFrame(X, columns=list("abcd"))
    first = BayesianLogisticRegressionPMD(random_state=0).fit(frame[:h], y[:h])
    model = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    with pytest.raises(ValueError, match="prior knows nothing of x0"):
        model.fit(X[h:], y[h:])
    # Columns may come in another order.
    other = model.fit(frame.loc[h:, ["c", "a", "d", "b"]], y[h:])
    assert other.posterior_.names[:5] == ["c[0]", "a[0]", "d[0]", "b[0]", "intercept[0]"]
    plain = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    gap = plain.fit(frame[h:], y[h:]).coef_[:, [2, 0, 3, 1]] - other.coef_
    assert np.abs(gap / other.coef_std_).max() < 0.1


def test_clones_and_searches():
    X, y, h = halves(load_iris)
    X, y = X[y != 1], y[y != 1]
    h = len(y) // 2
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:h], y[:h])
    expected = BayesianLogisticRegressionPMD(prior=first, random_state=0).fit(X[h:], y[h:]).coef_
    with pytest.raises(ValueError, match="not fitted"):
        clone(BayesianLogisticRegressionPMD(prior=first)).fit(X[h:], y[h:])
    for prior in (first.posterior_, FrozenEstimator(first)):
        model = clone(BayesianLogisticRegressionPMD(prior=prior, random_state=0))
        np.testing.assert_array_equal(model.fit(X[h:], y[h:]).coef_, expected)
    model = BayesianLogisticRegressionPMD(prior=first.posterior_, n_particles=200, random_state=0)
    search = GridSearchCV(model, {"temperature": [1.0, 2.0]}, cv=2).fit(X[h:], y[h:])
    assert search.best_score_ > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


@pytest.mark.slow
def test_streams_begin_at_the_prior():
    X, y, h = halves(load_iris)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:h], y[:h])
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    stream = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    for part in np.array_split(np.arange(h, len(y)), 3):
        stream.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert np.abs((stream.coef_ - whole.coef_) / whole.coef_std_).max() < 0.2
    stream = pickle.loads(pickle.dumps(stream)).partial_fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="prior was"):
        stream.set_params(prior="normal").partial_fit(X[:1], y[:1])


def test_first_parts_of_few_rows_leave_the_units_of_the_prior():
    """A stream is a fit to all of its rows, to a fiftieth of a standard deviation.

    Its first rows decide on the units of a named prior, and say nothing of those of a density.
    """
    rng = np.random.default_rng(2)
    X = rng.standard_normal((140, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 100.0]
    y = rng.random(140) < expit((X - [5.0, 0.0, 100.0]) @ [1.0, 0.05, 3.0])
    prior = BayesianLogisticRegressionPMD(random_state=0).fit(X[:100], y[:100]).posterior_
    prior.rows = None
    whole = BayesianLogisticRegressionPMD(prior=prior, random_state=0).fit(X[100:], y[100:])
    stream = BayesianLogisticRegressionPMD(prior=prior, random_state=0)
    for rows in (slice(100, 120), slice(120, 140)):
        stream.partial_fit(X[rows], y[rows], classes=[False, True])
    assert (np.abs(stream.coef_ - whole.coef_) < 0.02 * whole.coef_std_).all()


def test_other_parameters_of_the_prior_are_named_as_unused():
    X, y, h = halves(load_iris)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:h], y[:h]).posterior_
    model = BayesianLogisticRegressionPMD(prior=first, prior_scale=2.0, random_state=0)
    with pytest.warns(UserWarning, match="prior_scale=2.0 changes nothing where the prior is"):
        model.fit(X[h:], y[h:])
    with pytest.raises(AttributeError, match="earlier posterior"):
        _ = model.prior_scale_


def test_a_posterior_that_no_density_holds_is_warned_of():
    X, y, h = halves(load_iris)
    posterior = BayesianLogisticRegressionPMD(random_state=0).fit(X[:h], y[:h]).posterior_
    rng = np.random.default_rng(0)
    shape = posterior.particles.shape
    posterior.particles = stats.t(2.0).rvs(size=shape, random_state=rng)
    posterior.log_joint = stats.t(2.0).logpdf(posterior.particles).sum(axis=1)
    posterior.rows = None
    model = BayesianLogisticRegressionPMD(
        prior=posterior, moves="never", n_particles=500, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="that density misses a tail"):
        model.fit(X[h:], y[h:])


@pytest.mark.parametrize("inner", [NormalPrior(np.array([0.5, 2.0])), LaplacePrior(np.ones(2))])
def test_shifted_priors_are_moved(inner):
    loc, theta = np.array([1.0, -3.0]), np.random.default_rng(0).normal(size=(5, 2))
    shifted = ShiftedPrior(inner, loc)
    np.testing.assert_allclose(shifted.log_density(theta + loc), inner.log_density(theta))
    np.testing.assert_allclose(shifted.gradient(theta + loc), inner.gradient(theta))
    mean, sd = theta[0], np.array([0.3, 0.4])
    moved = shifted.expected(mean + loc, sd), shifted.expected_third(mean + loc, sd)
    for one, other in zip(moved[0], inner.expected(mean, sd), strict=True):
        np.testing.assert_allclose(one, other)
    np.testing.assert_allclose(moved[1], inner.expected_third(mean, sd))
    draws = shifted.sample(np.random.default_rng(1), 10)
    np.testing.assert_allclose(draws - loc, inner.sample(np.random.default_rng(1), 10))


def test_density_prior_of_a_normal_is_that_normal():
    rng = np.random.default_rng(0)
    cov = np.array([[1.0, 0.8], [0.8, 2.0]])
    theta = rng.multivariate_normal([1.0, -1.0], cov, 20_000)
    prior = DensityPrior(fitted_density.fit(theta, np.zeros(len(theta))))
    mean = np.array([0.3, 0.4])
    gradient, precision = prior.expected(mean, None)
    np.testing.assert_allclose(precision, np.linalg.inv(cov), atol=0.05)
    np.testing.assert_allclose(
        gradient, np.linalg.solve(cov, np.array([1.0, -1.0]) - mean), atol=0.05
    )


def test_other_classes_have_a_clear_error():
    """Coefficients of the second of two were taken for those of another, with the sign reversed."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] + X[::-1, 1] > 0.0).astype(int)
    earlier = BayesianLogisticRegressionPMD(random_state=0).fit(X, y).posterior_
    later = BayesianLogisticRegressionPMD(prior=earlier, random_state=0)
    with pytest.raises(ValueError, match=r"classes \[0, 1\], and y has \['churned', 'stayed'\]"):
        later.fit(X, np.where(y == 1, "churned", "stayed"))
    later.fit(X, y == 1)  # False and True are 0 and 1.


def test_an_intercept_that_no_coefficient_takes_has_a_clear_error():
    X = np.random.default_rng(0).normal(size=(60, 2))
    earlier = BayesianGLMRegressorPMD(random_state=0).fit(X, X[:, 0] + X[::-1, 1])
    later = BayesianGLMRegressorPMD(fit_intercept=False, prior=earlier.posterior_, random_state=0)
    with pytest.raises(ValueError, match="an intercept, and fit_intercept=False leaves none"):
        later.fit(X, X[:, 0] + X[::-1, 1])
