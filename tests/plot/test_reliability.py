"""Reliability diagrams against counts in a loop, and intervals against the beta distribution."""

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skpmd.plot import ReliabilityDisplay
from skpmd.plot._reliability import jeffreys_interval

RNG = np.random.default_rng(0)
PROB = RNG.random(300)
HITS = (RNG.random(300) < PROB).astype(int)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_points_are_those_of_scikit_learn(strategy):
    display = ReliabilityDisplay.from_predictions(HITS, PROB, n_bins=7, strategy=strategy)
    true, pred = calibration_curve(HITS, PROB, n_bins=7, strategy=strategy)
    np.testing.assert_allclose(display.line_.get_xdata(), pred)
    np.testing.assert_allclose(display.line_.get_ydata(), true)


def test_bars_are_jeffreys_intervals():
    display = ReliabilityDisplay.from_predictions(HITS, PROB, n_bins=5, level=0.8)
    segments = np.array(display.bars_.get_segments())
    for k in range(5):
        own = (PROB > 0.2 * k) & (PROB <= 0.2 * (k + 1))
        k_hits, n = HITS[own].sum(), own.sum()
        posterior = beta(k_hits + 0.5, n - k_hits + 0.5)
        np.testing.assert_allclose(segments[k, :, 1], posterior.ppf([0.1, 0.9]))
        assert posterior.cdf(segments[k, 1, 1]) == pytest.approx(0.9)
        np.testing.assert_allclose(segments[k, :, 0], PROB[own].mean())
    assert "80 %" in display.legend_.get_texts()[0].get_text()


def test_intervals_reach_the_ends_where_all_rows_are_alike():
    ends = jeffreys_interval([0.0, 4.0, 2.0], [4.0, 4.0, 4.0], 0.9)
    assert ends[0, 0] == 0.0 and ends[1, 1] == 1.0
    np.testing.assert_allclose(ends[0], 1.0 - ends[1][::-1])
    np.testing.assert_allclose(ends[2], beta(2.5, 2.5).ppf([0.05, 0.95]))


def test_a_row_of_weight_two_is_two_rows():
    weight = RNG.integers(0, 4, size=300)
    weighted = ReliabilityDisplay.from_predictions(HITS, PROB, sample_weight=weight)
    repeated = ReliabilityDisplay.from_predictions(np.repeat(HITS, weight), np.repeat(PROB, weight))
    for name in ("prob_pred", "prob_true", "interval", "counts"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))
    np.testing.assert_allclose(
        weighted.histogram_.get_data().values, repeated.histogram_.get_data().values
    )
    assert weighted.histogram_ax_.get_ylabel() == "weight of rows"
    assert repeated.histogram_ax_.get_ylabel() == "rows"


def test_the_histogram_has_all_rows():
    values, edges, _ = ReliabilityDisplay.from_predictions(HITS, PROB).histogram_.get_data()
    expected = [((PROB >= low) & (PROB < low + 0.05)).sum() for low in np.arange(20) * 0.05]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_allclose(edges, np.arange(21) * 0.05)


def test_bins_without_rows_are_left_out():
    display = ReliabilityDisplay.from_predictions([0, 1, 1], [0.05, 0.95, 1.0])
    np.testing.assert_array_equal(display.counts, [1.0, 2.0])
    same = ReliabilityDisplay.from_predictions([0, 1, 1], [0.5] * 3, strategy="quantile")
    np.testing.assert_array_equal(same.counts, [3.0])
    one = ReliabilityDisplay.from_predictions([1], [0.0])
    assert one.interval.tolist()[0][1] == 1.0


def test_each_class_of_a_classifier_has_a_diagram():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = LogisticRegression(max_iter=1000).fit(X, names)
    display = ReliabilityDisplay.from_estimator(model, X, names, pos_label="virginica")
    true, pred = calibration_curve(names == "virginica", model.predict_proba(X)[:, 2], n_bins=10)
    np.testing.assert_allclose(display.prob_true, true)
    np.testing.assert_allclose(display.prob_pred, pred)
    assert display.ax_.get_ylabel() == "frequency of class virginica"
    assert display.histogram_ax_.get_xlabel() == "predicted probability of class virginica"
    assert "LogisticRegression" in display.legend_.get_texts()[0].get_text()
    with pytest.raises(ValueError, match="pos_label must be one of"):
        ReliabilityDisplay.from_estimator(model, X, names)
    with pytest.raises(ValueError, match="y must hold classes"):
        ReliabilityDisplay.from_estimator(model, X, y, pos_label="setosa")


def test_two_diagrams_have_one_place():
    first = ReliabilityDisplay.from_predictions(HITS, PROB, name="one")
    second = ReliabilityDisplay.from_predictions(HITS, PROB**2, name="other", ax=first.axes_)
    assert second.ax_ is first.ax_ and second.histogram_ax_ is first.histogram_ax_
    labels = [one.get_text() for one in second.legend_.get_texts()]
    assert labels == ["one, 90 % intervals", "other, 90 % intervals"]


def test_bad_arguments_are_refused():
    draw = ReliabilityDisplay.from_predictions
    for bad in (PROB[:5], PROB + 0.5, np.column_stack([PROB, PROB]), np.full(300, np.nan)):
        with pytest.raises(ValueError):
            draw(HITS, bad)
    with pytest.raises(ValueError, match="pos_label must be given"):
        draw(np.where(HITS, "yes", "no"), PROB)
    with pytest.raises(ValueError, match="strategy"):
        draw(HITS, PROB, strategy="even")
    with pytest.raises(ValueError, match="n_bins"):
        draw(HITS, PROB, n_bins=0)
    with pytest.raises(ValueError, match="level"):
        draw(HITS, PROB, level=90)
    with pytest.raises(ValueError, match="(?i)sample.weight"):
        draw(HITS, PROB, sample_weight=np.zeros(300))
    with pytest.raises(TypeError, match="predict_proba"):
        ReliabilityDisplay.from_estimator(object(), PROB, HITS)
