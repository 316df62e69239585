"""Scores of predictive distributions: closed forms, weights, and scorers inside of scikit-learn."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import check_scoring, mean_absolute_error
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skpmd.metrics import (
    crps,
    interval_coverage,
    interval_coverage_scorer,
    interval_width,
    log_predictive_density_scorer,
    make_distribution_scorer,
    neg_crps_scorer,
    neg_pinball_loss_scorer,
    negative_log_predictive_density,
    pinball_loss,
)
from skpmd.predictive import NormalMixture

SCORES = [negative_log_predictive_density, crps, pinball_loss, interval_coverage, interval_width]
SCORERS = [log_predictive_density_scorer, neg_crps_scorer, neg_pinball_loss_scorer]


class Line(RegressorMixin, BaseEstimator):
    """Least squares with normal errors: their standard deviation times `width`."""

    def __init__(self, width=1.0):
        self.width = width

    def fit(self, X, y, sample_weight=None):
        design = np.column_stack([np.ones(len(X)), X])
        root = np.ones(len(y)) if sample_weight is None else np.sqrt(sample_weight)
        self.coef_ = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0]
        self.std_ = np.sqrt(np.average((design @ self.coef_ - y) ** 2, weights=sample_weight))
        return self

    def predict(self, X):
        check_is_fitted(self)
        return np.column_stack([np.ones(len(X)), X]) @ self.coef_

    def predict_proba(self, X):
        mean = self.predict(X)
        return NormalMixture(mean, np.full(len(mean), self.width * self.std_))


def make_case(n=30, k=3, seed=0):
    rng = np.random.default_rng(seed)
    dist = NormalMixture(rng.normal(size=(k, n)), np.exp(rng.normal(size=(k, n))))
    return 2.0 * rng.normal(size=n), dist, rng.integers(0, 4, n).astype(float)


def make_line(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -2.0] + 0.5 + 0.3 * rng.normal(size=n)


# ----------------------------------------------------------------------------- values
def test_scores_are_averages_of_what_the_distribution_says():
    y, dist, weight = make_case()
    lower, upper = dist.interval(0.7).T
    rows = {
        negative_log_predictive_density: -dist.log_pdf(y),
        crps: dist.crps(y),
        interval_coverage: (lower <= y) & (y <= upper),
        interval_width: upper - lower,
    }
    for score, values in rows.items():
        options = {"level": 0.7} if "interval" in score.__name__ else {}
        found = score(y, dist, **options)
        assert type(found) is float
        assert found == pytest.approx(values.mean(), rel=1e-13)
        found = score(y, dist, sample_weight=weight, **options)
        assert type(found) is float
        assert found == pytest.approx(np.average(values, weights=weight), rel=1e-13)


def test_a_certain_prediction_is_scored_by_its_absolute_error():
    y, mean = np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 3.0])
    dist = NormalMixture(mean, np.zeros(3))
    assert crps(y, dist) == pytest.approx(mean_absolute_error(y, mean))
    assert interval_coverage(y, dist) == pytest.approx(1.0 / 3.0)  # ends are inside
    assert interval_width(y, dist) == 0.0


# ----------------------------------------------------------------------------- weights, inputs
@pytest.mark.parametrize("score", SCORES)
def test_a_weight_is_as_many_copies(score):
    y, dist, weight = make_case()
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    expected = score(y[rows], dist[rows])
    assert score(y, dist, sample_weight=weight) == pytest.approx(expected, rel=1e-12)
    assert score(y, dist, sample_weight=np.ones(30)) == pytest.approx(score(y, dist), rel=1e-12)


def test_rows_without_weight_have_no_part_even_where_they_are_infinite():
    dist = NormalMixture([0.0, 0.0], [0.0, 1.0])  # the first is certain, and wrong
    found = negative_log_predictive_density([1.0, 0.5], dist, sample_weight=[0.0, 2.0])
    assert found == pytest.approx(-norm.logpdf(0.5))
    assert negative_log_predictive_density([1.0, 0.5], dist) == np.inf


@pytest.mark.parametrize("score", SCORES)
def test_targets_may_be_lists_series_and_columns(score):
    y, dist, _ = make_case()
    expected = score(y, dist)
    for other in (list(y), pd.Series(y, index=range(7, 37)), pd.DataFrame(y), y[:, None]):
        assert score(other, dist) == expected


@pytest.mark.parametrize("score", SCORES)
def test_bad_targets_and_weights_are_an_error(score):
    y, dist, _ = make_case()
    with pytest.raises(ValueError, match="y_true must have one target for each of the 30 rows"):
        score(y[:-1], dist)
    with pytest.raises(ValueError, match="y_true must have one target"):
        score(np.zeros((30, 2)), dist)
    with pytest.raises(ValueError, match="y_true contains NaN"):
        score(np.where(y > 0, y, np.nan), dist)
    with pytest.raises(ValueError, match="[Nn]egative"):
        score(y, dist, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match="sample_weight"):
        score(y, dist, sample_weight=np.ones(29))
    with pytest.raises(ValueError, match="[Ss]ample.weight.*zero"):
        score(y, dist, sample_weight=np.zeros(30))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dist", [np.ones((30, 2)), None])
def test_what_is_no_distribution_is_an_error(score, dist):
    with pytest.raises(TypeError, match="dist must be a predictive .* sklearn.metrics"):
        score(np.zeros(30), dist)


@pytest.mark.parametrize("alpha", [0.0, 1.0, np.nan, 90, "a", None])
def test_a_bad_alpha_is_an_error(alpha):
    y, dist, _ = make_case()
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1, got"):
        pinball_loss(y, dist, alpha)


@pytest.mark.parametrize("score", [interval_coverage, interval_width])
def test_a_bad_level_is_an_error(score):
    y, dist, _ = make_case()
    with pytest.raises(ValueError, match="level must lie"):
        score(y, dist, level=90)


# ----------------------------------------------------------------------------- scorers
def test_scorers_are_scores_where_greater_is_better():
    X, y = make_line()
    model, weight = Line().fit(X, y), np.arange(60.0)
    dist = model.predict_proba(X)
    losses = negative_log_predictive_density, crps, pinball_loss
    for scorer, loss in zip(SCORERS, losses, strict=True):
        assert scorer(model, X, y) == -loss(y, dist)
        found = scorer(model, X, y, sample_weight=weight)
        assert found == -loss(y, dist, sample_weight=weight)
    upper = make_distribution_scorer(pinball_loss, greater_is_better=False, alpha=0.95)
    assert upper(model, X, y) == -pinball_loss(y, dist, alpha=0.95)
    coverage = make_distribution_scorer(interval_coverage, greater_is_better=True, level=0.5)
    assert coverage(model, X, y) == interval_coverage(y, dist, level=0.5) > 0.0
    assert interval_coverage_scorer(model, X, y) == interval_coverage(y, dist, level=0.9)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("pipeline", [False, True])
def test_grid_search_finds_the_width_of_the_errors(scorer, pipeline):
    # The median does not depend on the width, so that its loss is the same for all.
    X, y = make_line()
    model, name = Line(), "width"
    if pipeline:
        model, name = make_pipeline(StandardScaler(), Line()), "line__width"
    search = GridSearchCV(model, {name: [0.01, 1.0, 100.0]}, scoring=scorer, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    if scorer is neg_pinball_loss_scorer:
        np.testing.assert_allclose(scores, scores[0], rtol=1e-12)
    else:
        assert search.best_params_ == {name: 1.0}
    held_out = scorer(search, X, y)  # of the best model, which answers predict_proba
    assert held_out == scorer(search.best_estimator_, X, y)


def test_several_scorers_at_once():
    X, y = make_line()
    scoring = {
        "density": log_predictive_density_scorer,
        "crps": neg_crps_scorer,
        "coverage": make_distribution_scorer(interval_coverage, greater_is_better=True),
        "r2": "r2",
    }
    found = cross_validate(Line(), X, y, scoring=scoring, cv=KFold(3))
    alone = cross_val_score(Line(), X, y, scoring=neg_crps_scorer, cv=KFold(3))
    np.testing.assert_array_equal(found["test_crps"], alone)
    assert (found["test_coverage"] > 0.5).all() and (found["test_r2"] > 0.5).all()
    search = GridSearchCV(Line(), {"width": [0.1, 1.0]}, scoring=scoring, refit="density", cv=3)
    assert search.fit(X, y).best_params_ == {"width": 1.0}


def test_weights_are_routed():
    X, y = make_line()
    weight = np.random.default_rng(0).integers(0, 4, 60).astype(float)
    expected = []
    for train, test in KFold(3).split(X):
        dist = Line().fit(X[train], y[train]).predict_proba(X[test])
        expected.append(-crps(y[test], dist, sample_weight=weight[test]))
    with config_context(enable_metadata_routing=True):
        scorer = make_distribution_scorer(crps, greater_is_better=False)
        scorer.set_score_request(sample_weight=True)
        found = cross_validate(
            Line().set_fit_request(sample_weight=False),
            X,
            y,
            scoring=scorer,
            cv=KFold(3),
            params={"sample_weight": weight},
        )
    np.testing.assert_allclose(found["test_score"], expected, rtol=1e-13)


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers_go_through_pickle_and_clone(scorer):
    X, y = make_line()
    model = Line().fit(X, y)
    search = clone(GridSearchCV(Line(), {"width": [1.0]}, scoring=scorer))
    copies = pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer), search.scoring
    for other in copies:
        assert other(model, X, y) == scorer(model, X, y)
        assert repr(other) == repr(scorer)
    assert check_scoring(model, scoring=scorer) is scorer


def test_a_scorer_says_what_it_is():
    assert repr(neg_crps_scorer) == "make_distribution_scorer(crps, greater_is_better=False)"
    upper = make_distribution_scorer(pinball_loss, greater_is_better=False, alpha=0.95)
    expected = "make_distribution_scorer(pinball_loss, greater_is_better=False, alpha=0.95)"
    assert repr(upper) == expected
    with pytest.raises(TypeError, match="greater_is_better"):  # a sign nobody chose is a wrong one
        make_distribution_scorer(crps)
