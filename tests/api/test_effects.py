"""Effects against closed forms, and against differences of predictions.

Definitions are those of marginaleffects: a numeric column is moved by +1 from its value, averages
of ratios are ratios of averages, and slopes are centred differences over 1e-4 of the range.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.data import Blocks
from skpmd.effects import (
    avg_comparisons,
    avg_predictions,
    avg_slopes,
    comparisons,
    predictions,
    slopes,
)

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2))
ETA = 0.3 + X @ [0.8, -0.5]
LABELS = RNG.integers(0, 3, N)
WEIGHT = RNG.integers(1, 4, N).astype(float)
FRAME = pd.DataFrame({
    "hours": X[:, 0], "region": np.array(["west", "east", "north"])[LABELS],
    "urban": X[:, 1] > 0.0, "school": RNG.integers(0, 5, N),
})  # fmt: skip
# Sums and links are taken in another order than by the models: the 1e-10.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@cache
def normal():
    return BayesianGLMRegressorPMD(random_state=0).fit(X, ETA + RNG.normal(size=N))


@cache
def logistic():
    y = np.where(np.random.default_rng(1).random(N) < expit(ETA), "yes", "no")
    return BayesianLogisticRegressionPMD(prediction_tol=1e-9, random_state=0).fit(X, y)


@cache
def poisson():
    rng = np.random.default_rng(2)
    exposure = rng.uniform(0.5, 2.0, N)
    model = BayesianGLMRegressorPMD("poisson", exposure=2, random_state=0)
    return model.fit(np.column_stack([X, exposure]), rng.poisson(exposure * np.exp(ETA)))


@cache
def regions():
    """A pipeline with categories, two values and groups."""
    columns = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["region"]),
        (StandardScaler(), ["hours"]),
        ("passthrough", ["urban", "school"]),
    ).set_output(transform="pandas")
    columns.set_params(verbose_feature_names_out=False)
    last = BayesianGLMRegressorPMD("poisson", groups=["school"], n_particles=500, random_state=0)
    y = np.random.default_rng(3).poisson(np.exp(0.5 * ETA + 0.1 * FRAME.school))
    return make_pipeline(columns, last).fit(FRAME, y)


def particles(model):
    """Particles with weight, and their weights."""
    posterior = model.posterior_
    alive = posterior.weights > 0.0
    return posterior.particles[alive], posterior.weights[alive]


def moved(X, place, by):
    X = X.copy()
    X[:, place] += by
    return X


# ------------------------------------------------------------------- closed forms
@pytest.mark.parametrize("place", [0, -1])
def test_of_normal_y_one_more_is_the_coefficient(place):
    theta, weights = particles(normal())
    found = comparisons(normal(), X[:4], place, n_draws=None)
    assert_allclose(found.draws, np.repeat(theta[:, [place % 2]], 4, axis=1), **CLOSE)
    assert_allclose(found.weights, weights)
    assert_allclose(found.mean, np.full(4, normal().coef_[place]), **CLOSE)
    assert_allclose(found.std, np.full(4, normal().coef_std_[place]), **CLOSE)
    for average in (avg_comparisons, avg_slopes):
        draws = average(normal(), X, place, n_draws=None).draws[:, 0]
        assert_allclose(draws, theta[:, place % 2], rtol=1e-9)  # Of slopes 1e-16 / 1e-4 is left.


def test_of_three_classes_far_rows_are_as_predicted():
    """Classes with odds of more than e^300 to the first were as probable as each other."""
    noise = np.random.default_rng(1).gumbel(size=(N, 3))
    labels = (ETA[:, None] * [-3.0, 0.0, 3.0] + noise).argmax(axis=1)
    fitted = BayesianLogisticRegressionPMD(n_particles=200, random_state=0).fit(X, labels)
    far = np.array([[60.0, 0.0], [200.0, 0.0], [-200.0, 0.0]])
    means = predictions(fitted, far).mean.reshape(3, -1)
    assert_allclose(means.T, fitted.predict_proba(far), atol=1e-6)


def test_the_odds_ratio_of_one_more_is_that_of_the_coefficient():
    theta, _ = particles(logistic())
    found = comparisons(logistic(), X[:4], 0, comparison="odds_ratio", n_draws=None)
    assert_allclose(found.draws, np.exp(np.repeat(theta[:, :1], 4, axis=1)), **CLOSE)
    logs = comparisons(logistic(), X[:4], {0: 2.0}, comparison="lnor", n_draws=None)
    assert_allclose(logs.draws, 2.0 * np.repeat(theta[:, :1], 4, axis=1), **CLOSE)
    assert found.null == 1.0 and logs.null == 0.0
    assert found.names == [f"0, +1, {i}" for i in range(4)]  # Without the class, that of all.
    assert predictions(logistic(), X[:1]).names == ["yes, 0"]


def test_the_ratio_of_rates_is_that_of_the_coefficient():
    rows = np.column_stack([X, np.linspace(0.5, 2.0, N)])
    theta, _ = particles(poisson())
    for function, n in ((comparisons, N), (avg_comparisons, 1)):
        found = function(poisson(), rows, 0, comparison="ratio", n_draws=None)
        assert_allclose(found.draws, np.exp(np.repeat(theta[:, :1], n, axis=1)), **CLOSE)
    log = avg_comparisons(poisson(), rows, 0, comparison="lnratio", n_draws=None)
    assert_allclose(log.draws, theta[:, :1], **CLOSE)
    double = avg_comparisons(poisson(), rows, {2: (1.0, 2.0)}, comparison="ratio")
    assert_allclose(double.draws, 2.0, **CLOSE)  # Twice the exposure has twice the events.


def test_slopes_are_derivatives():
    """Of a centred difference the error is step^2 / 24 times a third derivative below 1."""
    theta, weights = particles(logistic())
    p = expit(X @ theta[:, :2].T + (theta[:, 2] - 0.0))
    shift = logistic().predict_proba(X)[:, 1] - p @ weights
    assert np.abs(shift).max() < 1e-5  # The intercept is that at zero.
    exact = (p * (1.0 - p) * theta[:, 0]).T
    step = 1e-4 * np.ptp(X[:, 0])
    tolerance = step**2 / 24 + 1e-10
    assert_allclose(slopes(logistic(), X, 0, n_draws=None).draws, exact, atol=tolerance, rtol=0)
    found = avg_slopes(logistic(), X, 0, n_draws=None)
    assert_allclose(found.draws[:, 0], exact.mean(axis=1), atol=tolerance, rtol=0)


# ------------------------------------------------------------------- averages
@pytest.mark.parametrize("comparison", ["difference", "ratio", "odds_ratio"])
def test_averages_are_those_of_each_draw(comparison):
    low, high = (predictions(logistic(), one).draws for one in (X, moved(X, 0, 1.0)))
    for by, weight in ((None, None), (LABELS, WEIGHT)):
        found = avg_comparisons(
            logistic(), X, 0, comparison=comparison, by=by, sample_weight=weight
        )
        of, w = (np.zeros(N), np.ones(N)) if by is None else (by, weight)
        for g, draws in enumerate(found.draws.T):
            some = of == g
            a, b = (np.average(one[:, some], axis=1, weights=w[some]) for one in (high, low))
            if comparison == "odds_ratio":
                a, b = a / (1.0 - a), b / (1.0 - b)
            expected = a - b if comparison == "difference" else a / b
            assert_allclose(draws, expected, **CLOSE)
    assert list(found.columns["by"]) == [0, 1, 2]
    assert found.interval(0.8).shape == (3, 2)


def test_weights_are_as_repeated_rows():
    some = np.repeat(np.arange(N), WEIGHT.astype(int))
    one = avg_predictions(logistic(), X, sample_weight=WEIGHT)
    assert_allclose(one.draws, avg_predictions(logistic(), X[some]).draws, **CLOSE)


def test_a_column_says_what_averages_are_by():
    found = avg_predictions(regions(), FRAME, by="region", n_draws=None)
    mean = pd.Series(regions().predict(FRAME)).groupby(FRAME.region).mean()
    assert list(found.columns["by"]) == list(mean.index) == found.names
    assert_allclose(found.mean, mean, **CLOSE)


def test_thinned_particles_have_one_weight_and_the_same_distribution():
    """1,000 of 4,000 particles: means to 4 standard errors, as if independent."""
    found, whole = (avg_predictions(logistic(), X, n_draws=n) for n in (1000, None))
    assert found.draws.shape == (1000, 1) and np.ptp(found.weights) == 0.0
    assert abs(found.mean - whole.mean)[0] < 4.0 * whole.std[0] / np.sqrt(1000.0)
    assert_allclose(found.std, whole.std, rtol=0.1)
    again = avg_predictions(logistic(), X)
    assert (again.draws == found.draws).all()


def test_draws_of_effects_are_as_wide_as_the_posterior():
    """sds of 1,000 draws of normal coefficients, to 4.5 standard errors of sds; they were 0.63."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X = X[["age", "bmi", "bp", "s5"]]
    model = BayesianGLMRegressorPMD(random_state=0).fit(X, y)
    found, posterior = avg_comparisons(model, X, list(X)), model.posterior_
    assert_allclose(found.std, posterior.std()[:4], rtol=0.1)
    assert_allclose(posterior.sample(1000, random_state=0).std(axis=0), posterior.std(), rtol=0.1)


# ------------------------------------------------------------------- what is compared
@pytest.mark.parametrize(
    "given, low, high, label",
    [
        (3, None, 3.0, "+3"),
        ((-1.0, 1.5), -1.0, 1.5, "1.5 - -1"),
        ("sd", *(X[:, 0].mean() + np.array([-0.5, 0.5]) * X[:, 0].std(ddof=1)), "sd"),
        ("iqr", *np.quantile(X[:, 0], [0.25, 0.75]), "iqr"),
        ("minmax", X[:, 0].min(), X[:, 0].max(), "minmax"),
    ],
)  # fmt: skip
def test_what_a_number_is_compared_at(given, low, high, label):
    found = comparisons(logistic(), X[:, :], {0: given}, n_draws=None)
    sides = [X.copy(), X.copy()]
    sides[0][:, 0] = X[:, 0] if low is None else low
    sides[1][:, 0] = X[:, 0] + high if low is None else high
    below, above = (logistic().predict_proba(one)[:, 1] for one in sides)
    # Averaged probabilities are right to 1e-6, and these are exact averages.
    assert_allclose(found.mean, above - below, atol=2e-6, rtol=0)
    assert set(found.columns["contrast"]) == {label}


def test_strings_are_compared_before_they_are_encoded():
    found = avg_comparisons(regions(), FRAME, ["region", "urban"], n_draws=None)
    assert found.names == ["region, north - east", "region, west - east", "urban, True - False"]
    at = {
        level: regions().predict(FRAME.assign(region=level)).mean()
        for level in ("east", "north", "west")
    }
    assert_allclose(found.mean[:2], [at["north"] - at["east"], at["west"] - at["east"]], **CLOSE)
    urban = [regions().predict(FRAME.assign(urban=one)).mean() for one in (True, False)]
    assert_allclose(found.mean[2], urban[0] - urban[1], **CLOSE)
    frame = FRAME.assign(region=FRAME.region.astype("category"))
    other = avg_comparisons(regions(), frame, {"region": "west"}, comparison="ratio", n_draws=None)
    assert other.names == ["region, east / west", "region, north / west"]
    pair = avg_comparisons(regions(), FRAME, {"region": ("west", "north")}, n_draws=None)
    assert_allclose(pair.draws[:, 0], found.draws[:, 0] - found.draws[:, 1], **CLOSE)
    assert avg_slopes(regions(), FRAME, "region").names == found.names[:2]


def test_missing_values_are_for_the_pipeline():
    gaps = np.where(np.arange(N) % 7 == 0, np.nan, X[:, 0])
    rows = np.column_stack([gaps, X[:, 1]])
    model = make_pipeline(SimpleImputer(), BayesianGLMRegressorPMD(random_state=0))
    model.fit(rows, ETA + WEIGHT)
    sd = np.nanstd(gaps, ddof=1)
    found = avg_comparisons(model, rows, {0: "sd"}, n_draws=None)
    assert_allclose(found.mean, sd * model[-1].coef_[0], **CLOSE)
    slope = avg_slopes(model, rows, 0, n_draws=None).mean  # Of missing values it is 0.
    assert_allclose(slope, np.isfinite(gaps).mean() * model[-1].coef_[0], rtol=1e-8)


def test_the_given_rows_stay_as_they_are():
    before, array = FRAME.copy(), X.copy()
    avg_comparisons(regions(), FRAME, ["hours", "region"])
    avg_comparisons(logistic(), array, 1)
    pd.testing.assert_frame_equal(FRAME, before)
    assert (array == X).all()


def test_searches_sparse_rows_and_single_precision():
    search = GridSearchCV(normal(), {"prior_scale": [2.5]}, cv=2).fit(X, ETA + WEIGHT)
    assert_allclose(avg_comparisons(search, X, 0, n_draws=None).mean,
                    search.best_estimator_.coef_[0], **CLOSE)  # fmt: skip
    expected = avg_slopes(logistic(), X, 1).draws
    assert_allclose(avg_slopes(logistic(), csr_matrix(X), 1).draws, expected, rtol=1e-7)
    # The rows are rounded to 6e-8, steps are not.
    single = avg_slopes(logistic(), X.astype(np.float32), 1).draws
    assert_allclose(single, expected, rtol=1e-5)


def test_polars():
    pl = pytest.importorskip("polars")
    model = BayesianGLMRegressorPMD(random_state=0).fit(FRAME[["hours", "urban"]], ETA)
    frame = pl.DataFrame({"hours": X[:, 0], "urban": X[:, 1] > 0.0})
    for variable in ("hours", "urban"):
        found = avg_comparisons(model, frame, variable).draws
        assert_allclose(found, avg_comparisons(model, FRAME[["hours", "urban"]], variable).draws)


# ------------------------------------------------------------------- families
CLASSES = np.digitize(ETA + np.sin(9.0 * X[:, 1]), [-0.5, 0.8])
GROUPED, TRIALS = np.column_stack([X, LABELS]), np.column_stack([X, np.full(N, 4.0)])
FEW = {"n_particles": 500, "random_state": 0}
# Estimators, rows, y, and how exact `predict` is: averaged probabilities are right to 1e-6.
FAMILIES = {
    "ordinal": (BayesianOrdinalClassifierPMD(**FEW), X, CLASSES, 1e-10),
    "classes": (BayesianLogisticRegressionPMD(**FEW), X, CLASSES, 2e-6),
    "groups": (BayesianLogisticRegressionPMD(groups=[2], **FEW), GROUPED, CLASSES > 0, 1e-10),
    "three": (BayesianLogisticRegressionPMD(groups=[2], **FEW), GROUPED, CLASSES, 1e-10),
    "trials": (BayesianGLMRegressorPMD("binomial", trials=2, **FEW), TRIALS, CLASSES, 1e-10),
    "mixture": (GaussianMixturePMD(2, n_particles=50, random_state=0), X, None, 1e-10),
    "process": (SparseGPRegressorPMD(random_state=0), X, ETA + np.sin(3.0 * X[:, 0]), 1e-10),
}


@pytest.mark.slow_for("three", "groups")
@pytest.mark.parametrize("family", FAMILIES)
def test_means_of_draws_are_predictions(family):
    model, rows, y, tolerance = FAMILIES[family]
    model = clone(model).fit(rows, y)
    is_real = family in ("trials", "process")
    expected = model.predict(rows)[:, None] if is_real else model.predict_proba(rows)
    expected = expected[:, 1:] if family == "groups" else expected
    found = predictions(model, rows, n_draws=None)
    assert_allclose(found.mean, expected.T.ravel(), atol=tolerance, rtol=0)
    average = avg_predictions(model, rows, by=LABELS, n_draws=None)
    by = [expected[LABELS == g].mean(axis=0) for g in range(3)]
    assert_allclose(average.mean, np.transpose(by).ravel(), atol=tolerance, rtol=0)
    both = comparisons(model, rows[:3], 0, n_draws=None)
    sides = [predictions(model, one, n_draws=None) for one in (rows[:3], moved(rows[:3], 0, 1.0))]
    # A variance of 850 beside a noise of 1e-6 leaves so many digits of a mean.
    close = {"atol": 1e-8} if family == "process" else CLOSE
    assert_allclose(both.mean, sides[1].mean - sides[0].mean, **close)
    if family != "process":  # Whose draws are of the rows of a call.
        assert_allclose(both.draws, sides[1].draws - sides[0].draws, **CLOSE)


def test_draws_of_a_process_have_its_covariance():
    """Of 4,000 draws in opposite pairs: a standard deviation is known to 1 / sqrt(2 * 2,000)."""
    y = ETA + np.sin(3.0 * X[:, 0]) + 0.1 * WEIGHT
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
    rows = X[:20]
    both = np.vstack([rows, moved(rows, 1, 1.0)])
    _, covariance = gp.predict(both, return_cov=True)
    contrast = np.concatenate([np.full(20, -0.05), np.full(20, 0.05)])
    noise = gp.predict_proba(both).var() - gp.predict_proba(both, target="f").var()
    covariance -= np.diag(noise)
    expected = np.sqrt(contrast @ covariance @ contrast)
    assert_allclose(avg_comparisons(gp, rows, 1, n_draws=4000).std, expected, rtol=0.08)
    pairs = comparisons(gp, rows, 1, n_draws=4000)
    gaps = np.hstack([-np.eye(20), np.eye(20)])
    std = np.sqrt(np.diag(gaps @ covariance @ gaps.T))
    assert_allclose(pairs.std, std, rtol=0.1)
    assert_allclose(pairs.draws.mean(axis=1).std(), expected, rtol=0.08)


@pytest.mark.slow
def test_probabilities_of_a_process():
    """Draws against averages over the process, to 4 of their standard errors."""
    for y in (ETA > 0.0, np.digitize(ETA, [-0.5, 0.8])):
        model = SparseGPClassifierPMD(random_state=0).fit(X, y)
        found, expected = predictions(model, X[:10], n_draws=4000), model.predict_proba(X[:10])
        expected = expected[:, 1:] if expected.shape[1] == 2 else expected
        error = 4.0 * found.std / np.sqrt(2000.0)
        # Of three classes predict_proba averages processes before it divides by their sum.
        slack = 1e-4 if expected.shape[1] == 1 else 0.03
        assert (np.abs(found.mean - expected.T.ravel()) < error + slack).all()
        average = avg_comparisons(model, X[:10], 0).draws
        unit = comparisons(model, X[:10], 0).draws
        assert_allclose(average, unit.reshape(len(unit), -1, 10).mean(axis=2), **CLOSE)


def test_rows_keep_their_groups():
    found = avg_comparisons(regions(), FRAME, {"school": (0, 4)}, comparison="ratio", n_draws=None)
    effects = regions()[-1].group_effects_
    assert_allclose(found.draws[:, 0], np.exp(effects.draws[4, 0] - effects.draws[0, 0]),
                    rtol=1e-6)  # fmt: skip
    new = FRAME.assign(school=-1.0)
    one = comparisons(regions(), new[:2], "hours", comparison="ratio")
    rate = comparisons(regions(), FRAME[:1], "hours", comparison="ratio")
    assert_allclose(one.draws, np.repeat(rate.draws, 2, axis=1), **CLOSE)  # Both sides share it.


def test_a_model_of_ones_own():
    model = ParticleMirrorDescent(
        log_likelihood=lambda theta, X, y: -0.5 * ((y - theta @ X.T) ** 2).sum(axis=1),
        log_prior=lambda theta: -0.5 * (theta**2).sum(axis=1) - np.log(2.0 * np.pi),
        sample_prior=lambda rng, m: rng.normal(size=(m, 2)),
        predict_mean=lambda theta, X: theta @ X.T, random_state=0,
    ).fit(X, ETA)  # fmt: skip
    theta, _ = particles(model)
    found = avg_comparisons(model, X, [0, 1], n_draws=None)
    assert_allclose(found.draws, theta, **CLOSE)
    with pytest.raises(TypeError, match="ParticleMirrorDescent needs predict_mean"):
        avg_comparisons(model.set_params(predict_mean=None), X, 0)


# ------------------------------------------------------------------- summaries and errors
def test_summaries_say_what_estimates_are_of():
    found = avg_comparisons(logistic(), X, [0, 1], by=LABELS)
    table = found.summary(0.8)
    assert list(table) == ["term", "contrast", "group", "by", "estimate", "std", "lower", "upper",
                           "p_positive"]  # fmt: skip
    assert {len(column) for column in table.values()} == {6}
    assert list(table["term"]) == ["0"] * 3 + ["1"] * 3
    assert (table["lower"] < table["estimate"]).all() and (table["p_positive"][:3] > 0.99).all()
    ratio = avg_comparisons(logistic(), X, 1, comparison="ratio").summary()
    assert ratio["p_positive"][0] < 0.05  # Ratios are compared to 1.


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: comparisons(logistic(), X, "age"), "variables='age' is no column of X: it has 2"),
        (lambda: comparisons(regions(), FRAME, "age"), "its columns are hours, region"),
        (lambda: comparisons(logistic(), X, []), "must name a column"),
        (lambda: comparisons(logistic(), X, 2), "variables=2 is no column"),
        (lambda: comparisons(logistic(), X, {0: "mad"}), "one of sd, iqr, minmax, got 'mad'"),
        (lambda: comparisons(logistic(), X, {0: (1, 2, 3)}), "must be a pair"),
        (lambda: comparisons(logistic(), X, {0: ("a", "b")}), "must hold real numbers"),
        (lambda: comparisons(logistic(), X, 0, comparison="or"), "comparison must be one of"),
        (lambda: comparisons(normal(), X, 0, comparison="odds_ratio"), "is of probabilities"),
        (lambda: slopes(logistic(), X, {0: 2.0}), "slopes take no values to compare"),
        (lambda: comparisons(regions(), FRAME, {"region": "south"}), "'south' is not among"),
        (lambda: comparisons(regions(), FRAME[:1], "region"), "has 1 levels in these rows"),
        (lambda: avg_predictions(logistic(), X, by="age"), "by='age' is no column"),
        (lambda: avg_predictions(logistic(), X, by=[1, 2]), r"have shape \(120,\), got \(2,\)"),
        (lambda: avg_predictions(logistic(), X, by=np.array([1, "a"] * 60, dtype=object)),
         "by must hold labels of one kind"),
        (lambda: avg_predictions(logistic(), X, by=LABELS, sample_weight=LABELS), "is zero in all"),
        (lambda: predictions(logistic(), X, n_draws=0), "n_draws must be an integer"),
        (lambda: predictions(logistic(), X[0]), "X must have rows and columns"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_levels_of_a_categorical_column_need_not_be_in_the_rows():
    levels = sorted(set(FRAME["region"]))
    row = FRAME[:1].assign(region=pd.Categorical(FRAME["region"][:1], levels))
    pair = {"region": levels[:2]}
    sides = [FRAME[:1].assign(region=level) for level in levels[:2]]
    low, high = (predictions(regions(), side).mean for side in sides)
    np.testing.assert_allclose(comparisons(regions(), row, pair).mean, high - low, atol=1e-10)


def test_what_has_no_means_is_refused():
    topics = LDATopicModelPMD(2, n_particles=2, random_state=0).fit(np.abs(X * 9.0).round())
    other = TransformedTargetRegressor(normal(), func=np.exp, inverse_func=np.log).fit(X, ETA)
    for model in (topics, StandardScaler().fit(X), other):
        with pytest.raises(TypeError, match=f"{type(model).__name__} has no means of y"):
            predictions(model, X)
    with pytest.raises(TypeError, match="Blocks"):
        predictions(normal(), Blocks([X]))
    gp = SparseGPRegressorPMD(random_state=0).fit(X, ETA)
    with pytest.raises(ValueError, match="4800 with those that they are compared to"):
        avg_comparisons(gp, np.tile(X, (20, 1)), 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("is_frame", [False, True])
def test_small_integers_do_not_overflow(dtype, is_frame):
    """Sums of eight bits had effects of the other sign."""
    ages = RNG.integers(18, 95, N)
    y = 0.1 * ages + RNG.normal(size=N)
    given = {"n_draws": 10}
    found = []
    for kind in ("int64", dtype):
        rows = ages[:, None].astype(kind)
        rows = pd.DataFrame(rows, columns=["age"]) if is_frame else rows
        model = BayesianGLMRegressorPMD(random_state=0).fit(rows, y)
        column = "age" if is_frame else 0
        found.append([
            avg_comparisons(model, rows, {column: value}, **given).mean[0]
            for value in (50, -1, [-200, 200], "minmax")
        ] + [avg_slopes(model, rows, column, **given).mean[0]])  # fmt: skip
    assert_allclose(found[1], found[0], rtol=1e-9)
    assert found[0][0] == pytest.approx(50.0 * found[0][-1], rel=1e-5)


@pytest.mark.parametrize("far", [1e5, 1e20])
def test_a_far_row_makes_no_step_of_a_slope(far):
    y = np.exp(0.5 * X[:, 0]) * RNG.gamma(5.0, 0.2, N)
    model = BayesianGLMRegressorPMD("gamma", random_state=0).fit(X, y)
    rows = np.vstack([X, [[-far, 0.0]]])
    found, right = slopes(model, rows, 0), slopes(model, X, 0)
    assert_allclose(found.mean[:N], right.mean, rtol=1e-6)
    assert_allclose(found.std[:N], right.std, rtol=1e-6)
