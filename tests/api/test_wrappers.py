"""Intervals and distributions through pipelines, searches and transformed targets."""

import copy

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)

from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD, SparseGPRegressorPMD
from skpmd.decision import BayesDecisionClassifier
from skpmd.wrappers import (
    cross_val_distribution,
    posterior_of,
    predict_distribution,
    predict_interval,
    predict_proba_interval,
)

X, Y = load_diabetes(return_X_y=True)
X, Y = X[:150], Y[:150]


def process(**params):
    params = {"n_particles": 1, "n_restarts_optimizer": 0, "random_state": 0, **params}
    return SparseGPRegressorPMD(**params)


@pytest.fixture(scope="module")
def inner():
    """A process that is fitted to scaled features, and the scaler."""
    scaler = StandardScaler().fit(X)
    return scaler, process().fit(scaler.transform(X), Y)


def test_a_pipeline_hands_the_keyword_on(inner):
    scaler, gp = inner
    mean, ends = (
        make_pipeline(StandardScaler(), process()).fit(X, Y).predict(X, return_interval=0.8)
    )
    np.testing.assert_array_equal(mean, gp.predict(scaler.transform(X)))
    np.testing.assert_array_equal(ends, gp.predict_interval(scaler.transform(X), 0.8))


def test_one_kind_of_spread_is_returned_at_a_time(inner):
    scaler, gp = inner
    for other in ("return_std", "return_cov"):
        with pytest.raises(RuntimeError, match="At most one"):
            gp.predict(X[:2], return_interval=0.9, **{other: True})
    with pytest.raises(ValueError, match="level"):
        gp.predict(X[:2], return_interval=95)


def test_intervals_go_through_searches_pipelines_and_frozen_estimators(inner):
    scaler, gp = inner
    expected = gp.predict_interval(scaler.transform(X), 0.9)
    pipeline = make_pipeline(StandardScaler(), process())
    search = GridSearchCV(pipeline, {"sparsegpregressorpmd__jitter": [1e-8]}, cv=2).fit(X, Y)
    nested = Pipeline([("same", "passthrough"), ("search", search)])
    for one in (gp, search, FrozenEstimator(search), nested):
        rows = scaler.transform(X) if one is gp else X
        np.testing.assert_array_equal(predict_interval(one, rows), expected)
    np.testing.assert_array_equal(predict_distribution(search, X).interval(0.9), expected)


@pytest.mark.parametrize("falls", [False, True])
def test_ends_are_mapped_back_and_sorted(inner, falls):
    scaler, gp = inner
    sign = -1.0 if falls else 1.0
    model = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), process()),
        func=lambda y: sign * np.log(y), inverse_func=lambda z: np.exp(sign * z),
    ).fit(X, Y)  # fmt: skip
    inside = process().fit(scaler.transform(X), sign * np.log(Y))
    expected = np.sort(np.exp(sign * inside.predict_interval(scaler.transform(X), 0.7)), axis=1)
    found = predict_interval(model, X, level=0.7)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found[:, 0] < found[:, 1]).all()
    with pytest.raises(TypeError, match="predict_interval"):
        predict_distribution(model, X)


def test_intervals_of_probabilities_go_through_too():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    model.fit(X, y)
    proba, ends = model.predict_proba(X[:20], return_interval=0.8)
    assert ends.shape == (20, 2, 2)
    np.testing.assert_array_equal(proba, model.predict_proba(X[:20]))
    other = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.3).fit(X, y)
    np.testing.assert_array_equal(predict_proba_interval(other, X[:20], 0.8), ends)
    with pytest.raises(TypeError, match="call predict_proba itself"):
        predict_distribution(model, X)


def test_what_has_no_interval_inside_is_refused():
    with pytest.raises(TypeError, match="LinearRegression has no predict_interval"):
        predict_interval(make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y), X)
    with pytest.raises(NotFittedError):
        predict_interval(GridSearchCV(process(), {}), X)
    without = GridSearchCV(process(), {"jitter": [1e-8]}, cv=2, refit=False).fit(X[:40], Y[:40])
    with pytest.raises(TypeError, match="refit=True"):
        predict_interval(without, X)
    with pytest.raises(ValueError, match="level"):
        predict_interval(process().fit(X[:30], Y[:30]), X, level=90)


@pytest.mark.slow
def test_distributions_of_folds_come_in_the_order_of_the_rows():
    groups = np.random.default_rng(0).integers(0, 3, len(X))
    weight = np.random.default_rng(1).random(len(X))
    model = make_pipeline(StandardScaler(), process(n_particles=2))
    params = {"sparsegpregressorpmd__sample_weight": weight}
    cv = GroupKFold(3)
    dist = cross_val_distribution(model, X, Y, groups=groups, cv=cv, params=params, n_jobs=2)
    for train, test in cv.split(X, Y, groups):
        model.fit(X[train], Y[train], sparsegpregressorpmd__sample_weight=weight[train])
        np.testing.assert_allclose(
            dist[test].log_pdf(Y[test]), predict_distribution(model, X[test]).log_pdf(Y[test])
        )
    with pytest.raises(ValueError, match="exactly one test part"):
        cross_val_distribution(model, X, Y, cv=ShuffleSplit(2, random_state=0))


def test_families_of_folds_come_in_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    rows, years = rng.normal(size=(90, 2)), rng.uniform(0.5, 2.0, 90)
    y = rng.poisson(years * np.exp(1.0 + rows[:, 0])).astype(float)
    rows, cv = np.column_stack([rows, years]), KFold(3, shuffle=True, random_state=0)
    model = BayesianGLMRegressorPMD("poisson", exposure=2, n_particles=200, random_state=0)
    dist = cross_val_distribution(model, rows, y, cv=cv)
    many, again = np.stack([y, y + 1.0]), copy.deepcopy(dist)[::-1]
    found = dist.mean(), dist.log_score(many), dist.interval(0.8), dist.crps(y), np.asarray(dist)
    for train, test in cv.split(rows):
        one = model.fit(rows[train], y[train]).predict_proba(rows[test])
        of_one = one.mean(), one.log_score(many[:, test]), one.interval(0.8), one.crps(y[test]), one
        for whole, part, axis in zip(found, of_one, (0, 1, 0, 0, 0), strict=True):
            np.testing.assert_array_equal(whole.take(test, axis=axis), part)
        np.testing.assert_array_equal(dist[test].cdf(y[test]), one.cdf(y[test]))
        np.testing.assert_array_equal(again.cdf(2.0)[::-1][test], one.cdf(2.0))
        np.testing.assert_array_equal(dist[test[::-1]][0].pmf(3.0), one[-1].pmf(3.0))
    draws = dist.sample(4000, random_state=0)  # 4.5 standard errors.
    assert (np.abs(draws.mean(axis=0) - found[0]) < 4.5 * dist.std() / np.sqrt(4000)).all()
    np.testing.assert_array_equal(dist.sample(3, random_state=0), dist.sample(3, random_state=0))
    assert len(dist) == 90 and dist.is_count and dist.shape == (90, 2)
    with pytest.raises(ValueError, match="y must have as many values as rows, 90"):
        dist.cdf(y[:5])
    with pytest.raises(AttributeError, match="has no coefficients"):
        _ = dist.coefficients


@pytest.mark.slow
def test_folds_may_have_other_numbers_of_components():
    """480 rows have 16 sets of hyperparameters, more than 500 have 8."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (540, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    cv = [(np.arange(480), np.arange(480, 540)), (np.arange(30, 540), np.arange(30))]
    cv = [*cv, (np.r_[0:30, 480:540], np.arange(30, 480))]
    dist = cross_val_distribution(process(n_particles="auto"), X, y, cv=cv)
    assert len(dist) == 540 and 0.8 < np.mean(
        (dist.interval(0.9)[:, 0] < y) & (y < dist.interval(0.9)[:, 1])
    )


@pytest.mark.filterwarnings("ignore:Some values in column")
def test_ends_without_an_inverse_are_reported():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100, 2))
    y = np.exp(2.0 * rows[:, 0] + 0.8 * rng.standard_normal(100))
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0)
    model = TransformedTargetRegressor(gp, transformer=PowerTransformer()).fit(rows, y)
    with pytest.warns(UserWarning, match="PowerTransformer has no inverse at ends of"):
        ends = predict_interval(model, rows, 0.95)
    assert not np.isnan(ends[:, 0]).any() and np.isnan(ends[:, 1]).any()


def test_decisions_are_gone_through():
    X, y = load_breast_cancer(return_X_y=True)
    model = BayesianLogisticRegressionPMD(n_particles=100, random_state=0)
    decision = BayesDecisionClassifier(make_pipeline(StandardScaler(), model)).fit(X, y)
    assert predict_proba_interval(decision, X[:2]).shape == (2, 2, 2)


def test_distributions_need_targets():
    with pytest.raises(ValueError, match="y must be given"):
        cross_val_distribution(SparseGPRegressorPMD(), np.zeros((4, 1)), None)


# ------------------------------------------------------------------ names of columns
COLUMNS = ["age", "log_lambda[x0]", "x0"]  # As users may call them.
TABLE = np.random.default_rng(2).normal(size=(40, 3))


def table():
    return pytest.importorskip("pandas").DataFrame(TABLE, columns=COLUMNS)


def classifier(**params):
    return BayesianLogisticRegressionPMD(n_particles=100, random_state=0, **params)


FEW = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.slow_but("normal-pipeline", "normal-search", "normal-threshold", "normal-decision")
@FEW
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda one: one,
        lambda one: GridSearchCV(one, {}, cv=2),
        lambda one: FixedThresholdClassifier(make_pipeline(MinMaxScaler(), one)),
        lambda one: BayesDecisionClassifier(one, utility=np.eye(2)),
    ],
    ids=["pipeline", "search", "threshold", "decision"],
)
@pytest.mark.parametrize("prior", ["normal", "horseshoe"])
def test_coordinates_behind_transformers_have_names_of_columns(wrapped, prior):
    """They are those of the same fit to a table whose columns keep their names."""
    y = (TABLE[:, 0] > 0).astype(int)
    model = wrapped(make_pipeline(StandardScaler(), classifier(prior=prior, moves="never")))
    found = posterior_of(model.fit(table(), y))
    named = classifier(prior=prior, moves="never").fit(table(), y).posterior_
    assert found.names == named.names and found.coords == named.coords
    assert found.variables.keys() == named.variables.keys()
    assert found.summary()["name"] == named.names


@FEW
def test_three_classes_keep_theirs():
    y = np.array(["x0", "age", "c"])[np.digitize(TABLE[:, 1], [-0.5, 0.5])]
    model = make_pipeline(StandardScaler(), classifier()).fit(table(), y)
    named = classifier().fit(table(), y).posterior_
    found = posterior_of(model)
    assert found.names == named.names and found.coords == named.coords
    assert model[-1].posterior_.names[0] == "x0[age]"  # What is fitted stays as it is.


def test_names_are_those_that_transformers_make():
    y = (TABLE[:, 0] > 0).astype(int)
    nested = make_pipeline(PolynomialFeatures(2, include_bias=False), classifier())
    found = posterior_of(make_pipeline(StandardScaler(), nested).fit(table()[["age", "x0"]], y))
    assert found.names == ["age", "x0", "age^2", "age x0", "x0^2", "intercept"]
    silent = make_pipeline(FunctionTransformer(np.tanh), StandardScaler(), classifier())
    assert posterior_of(silent.fit(TABLE, y)).names == ["x0", "x1", "x2", "intercept"]
    process_ = TransformedTargetRegressor(make_pipeline(StandardScaler(), process()))
    target = TABLE @ [1.0, 0.5, -0.5]
    assert posterior_of(process_.fit(table(), target)).names[0] == "k1__k1__constant_value"
    with pytest.raises(TypeError, match="LinearRegression has no posterior_"):
        posterior_of(make_pipeline(StandardScaler(), LinearRegression()).fit(TABLE, target))
