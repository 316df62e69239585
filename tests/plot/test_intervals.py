"""Forest plots against quantiles by formula and by sorting."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianPosterior,
    Posterior,
)
from skpmd.plot import PosteriorIntervalDisplay

NAMES = ["a", "b", "c", "d"]
LOC, SCALE = np.array([0.0, -3.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.1, 4.0])
NORMAL = GaussianPosterior(LOC, SCALE, NAMES)


def drawn(lines):
    """Ends and heights of a collection of horizontal lines."""
    segments = np.array(lines.get_segments())
    return segments[:, :, 0], segments[:, 0, 1]


def test_lines_are_quantiles_of_a_normal():
    display = PosteriorIntervalDisplay.from_posterior(NORMAL, levels=(0.6, 0.8))
    for lines, level in ((display.inner_lines_, 0.6), (display.outer_lines_, 0.8)):
        ends, rows = drawn(lines)
        expected = np.array(norm.interval(level, LOC, SCALE)).T
        np.testing.assert_allclose(ends, expected, rtol=1e-12)
        np.testing.assert_array_equal(rows, np.arange(4))
    np.testing.assert_array_equal(display.points_.get_xdata(), LOC)
    thick, thin = (one.get_linewidth()[0] for one in (display.inner_lines_, display.outer_lines_))
    assert thick > 2.0 * thin
    assert "60 %" in display.ax_.get_xlabel() and "80 %" in display.ax_.get_xlabel()


def test_weights_of_particles_count():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=2000), rng.integers(1, 5, size=2000)
    posterior = Posterior(values[:, None], np.log(weights), names=["x"])
    display = PosteriorIntervalDisplay.from_posterior(posterior, statistic="median")
    copies = np.repeat(values, weights)  # A particle of weight w is w particles.
    ends = drawn(display.outer_lines_)[0][0]
    # The definitions of a quantile differ by the gap between two particles.
    np.testing.assert_allclose(ends, np.quantile(copies, [0.05, 0.95]), atol=0.01)
    np.testing.assert_allclose(display.points_.get_xdata(), np.median(copies), atol=0.01)


@pytest.mark.parametrize(
    "sort, order",
    [(None, "abcd"), ("center", "dcab"), ("magnitude", "bdca"), ("distance", "cbda")],
)
def test_rows_are_sorted_from_the_top(sort, order):
    display = PosteriorIntervalDisplay.from_posterior(NORMAL, sort=sort)
    assert "".join(display.names) == order
    assert [one.get_text() for one in display.ax_.get_yticklabels()] == list(order)
    bottom, top = display.ax_.get_ylim()
    assert bottom > top  # Row 0 is the highest.
    np.testing.assert_array_equal(
        display.points_.get_xdata(), [LOC[NAMES.index(name)] for name in order]
    )


def test_names_are_chosen_in_the_order_wanted():
    display = PosteriorIntervalDisplay.from_posterior(NORMAL, names=["d", "a"])
    assert display.names == ["d", "a"] and not display.ax_.get_title()
    assert PosteriorIntervalDisplay.from_posterior(NORMAL, names="b").names == ["b"]
    with pytest.raises(ValueError, match=r"got \['e'\]; there are a, b, c, d"):
        PosteriorIntervalDisplay.from_posterior(NORMAL, names=["a", "e"])
    with pytest.raises(ValueError, match="names must be"):
        PosteriorIntervalDisplay.from_posterior(NORMAL, names=[])


def test_the_title_says_how_many_are_not_shown():
    display = PosteriorIntervalDisplay.from_posterior(NORMAL, sort="center", max_rows=3)
    assert display.names == ["d", "c", "a"]
    assert display.ax_.get_title() == "3 of 4 coordinates: 1 is not shown"
    with pytest.raises(ValueError, match="max_rows"):
        PosteriorIntervalDisplay.from_posterior(NORMAL, max_rows=0)


def test_the_null_line_does_not_press_intervals_together():
    near = PosteriorIntervalDisplay.from_posterior(NORMAL)
    assert near.null_line_.get_xdata()[0] == 0.0
    far = Posterior(1e6 + np.random.default_rng(0).normal(size=(100, 1)), np.zeros(100))
    display = PosteriorIntervalDisplay.from_posterior(far)
    assert display.null_line_ is None and np.ptp(display.ax_.get_xlim()) < 10.0
    assert PosteriorIntervalDisplay.from_posterior(NORMAL, null_value=None).null_line_ is None
    assert PosteriorIntervalDisplay.from_posterior(NORMAL, null_value=1.0).null_line_ is not None


def test_ratios_are_powers_of_e_on_a_logarithmic_axis():
    display = PosteriorIntervalDisplay.from_posterior(NORMAL, statistic="median", ratios=True)
    expected = np.exp(np.array(norm.interval(0.9, LOC, SCALE)).T)
    np.testing.assert_allclose(drawn(display.outer_lines_)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(display.points_.get_xdata(), np.exp(LOC), rtol=1e-12)
    assert display.ax_.get_xscale() == "log" and display.null_line_.get_xdata()[0] == 1.0
    assert display.ax_.get_xlabel().startswith("exp(posterior median), ")
    display.plot(null_value=1.0, ratios=True)
    assert display.null_line_.get_xdata()[0] == pytest.approx(np.e)
    np.testing.assert_array_equal(display.center, LOC)  # They are not changed.


@pytest.mark.parametrize("scale, n_least", [(0.004, 3), (1.5, 3), (900.0, 1)])
def test_an_axis_of_ratios_of_any_length_has_numbers(scale, n_least):
    posterior = GaussianPosterior(np.array([0.3]), np.array([scale]), ["a"])
    axes = PosteriorIntervalDisplay.from_posterior(posterior, ratios=True).ax_
    low, high = axes.get_xlim()
    ticks = [one for one in axes.get_xticks() if low <= one <= high]
    texts = {axes.xaxis.get_major_formatter()(one) for one in ticks}
    assert len(ticks) >= n_least and len(texts) == len(ticks) and np.isfinite([low, high]).all()


def test_the_axis_names_the_class_and_rows_the_columns():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    X = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["months", "fee"])
    y = np.where(X["fee"] + rng.logistic(size=60) > 0, "stays", "leaves")
    steps = StandardScaler(), BayesianLogisticRegressionPMD(n_particles=200, random_state=0)
    model = make_pipeline(*steps).fit(X, y)
    display = PosteriorIntervalDisplay.from_estimator(model)
    assert display.names == ["months", "fee", "intercept"]
    label = display.ax_.get_xlabel()
    assert label.startswith("log odds of stays per unit of the scaled column\nposterior mean, ")
    label = display.plot(ratios=True).ax_.get_xlabel()
    assert label.startswith("odds ratio of stays per unit of the scaled column\nexp(posterior ")
    own = PosteriorIntervalDisplay.from_estimator(model[-1], ratios=True)
    assert own.ax_.get_xlabel().startswith("odds ratio of stays per unit of the column\n")
    assert own.names == ["x0", "x1"] and own.n_coordinates == 2  # Without the intercept.
    three = make_pipeline(*steps).fit(X, np.where(X["months"] > 1.0, "new", y))
    display = PosteriorIntervalDisplay.from_estimator(three)
    assert display.ax_.get_xlabel().startswith("coefficient per unit of the scaled column\n")
    assert display.names[:2] == ["months[leaves]", "fee[leaves]"]


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"family": "poisson", "exposure": "years"}, "rate ratio per unit of the column\n"),
        ({"family": "poisson"}, "ratio of means per unit of the column\n"),
        ({"family": "binomial"}, "odds ratio per unit of the column\n"),
        ({}, "exp(units of y) per unit of the column\n"),
    ],
)
def test_the_axis_names_the_ratio_of_a_link(options, expected):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(6)
    X = pandas.DataFrame(rng.uniform(0.5, 1.5, (60, 2)), columns=["age", "years"])
    model = BayesianGLMRegressorPMD(**options, n_particles=200, random_state=0)
    model.fit(X, rng.integers(2, size=60))
    display = PosteriorIntervalDisplay.from_estimator(model, ratios=True)
    assert display.ax_.get_xlabel().startswith(expected)
    assert display.names == ["age", "years"][: 1 if "exposure" in options else 2]


def test_a_point_estimate_has_points_only():
    one = Posterior(np.array([[1.0, 2.0]]), np.zeros(1))
    display = PosteriorIntervalDisplay.from_posterior(one, sort="distance")
    np.testing.assert_array_equal(display.outer, [[1.0, 1.0], [2.0, 2.0]])
    display.figure_.canvas.draw()


def test_forty_long_names_have_room():
    names = [f"a very long name of measurement {j} of a cell [micrometres]" for j in range(40)]
    posterior = GaussianPosterior(np.zeros(40), np.ones(40), names)
    display = PosteriorIntervalDisplay.from_posterior(posterior)
    display.figure_.canvas.draw()
    boxes = [one.get_window_extent() for one in display.ax_.get_yticklabels()]
    assert all(one.y0 >= other.y1 - 1.0 for one, other in zip(boxes, boxes[1:], strict=False))
    width = display.figure_.bbox.width
    assert all(0.0 <= box.x0 and box.x1 <= 0.55 * width for box in boxes)


def test_artists_take_keywords():
    display = PosteriorIntervalDisplay.from_posterior(
        NORMAL, color="black", point_kw={"ms": 9}, line_kw={"linestyle": ":"}
    )
    assert display.points_.get_markersize() == 9 and display.points_.get_color() == "black"
