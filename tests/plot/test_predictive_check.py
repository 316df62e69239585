"""Posterior predictive checks against SciPy's densities, counts, and statistics by hand."""

import numpy as np
import pytest
from scipy.stats import gaussian_kde
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import SparseGPRegressorPMD
from skpmd.plot import PosteriorPredictiveCheckDisplay
from tests.plot.displays import X, Y, classifier
from tests.plot.test_predictive_band import ends

RNG = np.random.default_rng(0)
OBSERVED = RNG.normal(size=100)
REPLICATED = RNG.normal(size=(60, 100)) * 1.2
draw = PosteriorPredictiveCheckDisplay.from_predictions


def test_densities_are_kernel_estimates_of_one_width():
    display = draw(OBSERVED, REPLICATED, levels=(0.5, 0.8))
    x, density = display.observed_.get_data()
    quarters = np.subtract(*np.quantile(OBSERVED, [0.75, 0.25])) / 1.349
    width = 0.9 * min(OBSERVED.std(), quarters) * 100**-0.2
    curves = np.array([
        gaussian_kde(one, width / one.std(ddof=1))(x) for one in (OBSERVED, *REPLICATED)
    ])  # fmt: skip
    # Targets are counted on a mesh of 2048 cells, whose width is a few thousandths of the range.
    np.testing.assert_allclose(density, curves[0], atol=1e-3)
    _, low, high = ends(display.outer_)
    np.testing.assert_allclose(low, np.quantile(curves[1:], 0.1, axis=0), atol=2e-3)
    np.testing.assert_allclose(high, np.quantile(curves[1:], 0.9, axis=0), atol=2e-3)
    assert display.kind == "density" and display.ax_.get_ylabel() == "density"
    assert display.p_value is None


def test_outliers_of_the_replicated_do_not_press_the_picture_together():
    y_rep = REPLICATED.copy()
    y_rep[:, 0] = 1e9
    display = draw(OBSERVED, y_rep)
    assert np.ptp(display.x) < 20.0
    assert np.trapezoid(display.observed, display.x) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("kind", ["numbers", "strings"])
def test_frequencies_are_counts(kind):
    y, y_rep = RNG.poisson(2.0, size=80), RNG.poisson(2.0, size=(50, 80))
    if kind == "strings":
        y, y_rep = y.astype(str), y_rep.astype(str)
    display = draw(y, y_rep)
    assert display.kind == "frequency"
    table = np.array([[(one == value).mean() for value in display.x] for one in y_rep])
    np.testing.assert_allclose(
        display.observed_.get_ydata(), [(y == value).mean() for value in display.x]
    )
    segments = np.array(display.outer_.get_segments())[:, :, 1]
    np.testing.assert_allclose(segments, np.quantile(table, [0.05, 0.95], axis=0).T)
    if kind == "numbers":
        np.testing.assert_array_equal(display.observed_.get_xdata(), display.x)
    else:
        labels = [one.get_text() for one in display.ax_.get_xticklabels()]
        assert labels == display.x.tolist()


def test_a_statistic_has_its_share_of_larger_ones():
    display = draw(OBSERVED, REPLICATED, statistic=np.ptp)
    own, others = np.ptp(OBSERVED), np.ptp(REPLICATED, axis=1)
    assert display.observed_.get_xdata()[0] == own
    assert display.p_value == pytest.approx((others > own).mean())
    values, edges, _ = display.histogram_.get_data()
    np.testing.assert_array_equal(values, np.histogram(others, edges)[0])
    assert values.sum() == 60 and display.ax_.get_xlabel() == "ptp of y"
    assert f"{100 * display.p_value:.3g} %" in display.legend_.get_texts()[1].get_text()


def test_ties_count_half():
    display = draw(np.ones(4), np.ones((10, 4)), statistic="mean")
    assert display.p_value == 0.5
    display.figure_.canvas.draw()


def test_draws_of_a_classifier_are_those_of_sample_y():
    display = PosteriorPredictiveCheckDisplay.from_estimator(
        classifier(), X, Y, n_draws=30, random_state=3
    )
    draws = classifier().sample_y(X, 30, random_state=np.random.default_rng(0))
    assert display.replicated.shape == (30, 3) and draws.shape == (150, 30)
    np.testing.assert_allclose(display.replicated.sum(axis=1), 1.0)
    # Under a fit with an intercept frequencies are about those observed.
    np.testing.assert_allclose(display.replicated.mean(axis=0), [1 / 3] * 3, atol=0.05)
    again = PosteriorPredictiveCheckDisplay.from_estimator(
        classifier(), X, Y, n_draws=30, random_state=3
    )
    np.testing.assert_array_equal(display.replicated, again.replicated)


def test_targets_are_mapped_back():
    rows = np.linspace(0.0, 3.0, 30)[:, None]
    y = np.exp(np.sin(2.0 * rows[:, 0]) + 0.1 * RNG.normal(size=30))
    gp = SparseGPRegressorPMD(n_particles=1, n_restarts_optimizer=0, random_state=0)
    model = make_pipeline(
        StandardScaler(), TransformedTargetRegressor(gp, func=np.log, inverse_func=np.exp)
    ).fit(rows, y)
    display = PosteriorPredictiveCheckDisplay.from_estimator(model, rows, y, statistic="min")
    assert display.replicated.shape == (200,) and (display.replicated > 0.0).all()
    assert 0.01 < display.p_value < 0.99
    with pytest.raises(TypeError, match="LinearRegression has no sample_y"):
        PosteriorPredictiveCheckDisplay.from_estimator(LinearRegression().fit(rows, y), rows, y)


def test_odd_targets_are_drawn():
    for y in (np.zeros(5), np.array([1e-12, 2e-12, 5.5e-12]), np.array([0.5]), [True, False]):
        y = np.asarray(y)
        draw(y, np.array([y, y])).figure_.canvas.draw()
    constant = draw(np.full(6, 2.5), np.full((3, 6), 2.5), kind="density")
    assert np.isfinite(constant.observed).all()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="Give y_rep.T"):
        draw(OBSERVED, REPLICATED.T)
    with pytest.raises(ValueError, match="y must have shape"):
        draw(OBSERVED, OBSERVED)
    with pytest.raises(ValueError, match="finite"):
        draw(OBSERVED, np.where(REPLICATED > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match="statistic must be"):
        draw(OBSERVED, REPLICATED, statistic="mode")
    with pytest.raises(ValueError, match="statistic must return"):
        draw(OBSERVED, REPLICATED, statistic=np.sort)
    with pytest.raises(ValueError, match="needs numbers"):
        draw(["a", "b"], [["a", "b"]], statistic="mean")
    with pytest.raises(ValueError, match="overflow"):
        draw(1e200 * OBSERVED, 1e200 * REPLICATED)
    with pytest.raises(ValueError, match="one kind"):
        draw(np.array(["a", None], dtype=object), np.array([["a", None]], dtype=object))
    with pytest.raises(ValueError, match="kind must be"):
        draw(OBSERVED, REPLICATED, kind="histogram")
    with pytest.raises(ValueError, match="classes have frequencies"):
        draw(np.array(["a", "b"]), np.array([["a", "b"]]), kind="density")
