"""Predictive bands against quantiles of normals and what estimators predict."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import NormalMixture, ParticleMirrorDescent, SparseGPRegressorPMD
from skpmd.plot import PredictiveBandDisplay

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 2.0, size=(40, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=40)


def process():
    return SparseGPRegressorPMD(n_particles=1, n_restarts_optimizer=0, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return process().fit(X, Y)


def ends(band):
    """x, lower and upper end of what `fill_between` has drawn."""
    data = band.get_paths()[0].vertices
    half = (len(data) - 1) // 2
    return data[1:half, 0], data[1:half, 1], data[half + 1 : -1, 1][::-1]


def test_bands_are_quantiles_of_a_mixture():
    x = np.array([2.0, 0.0, 1.0])
    dist = NormalMixture([[2.0, 0.0, 1.0], [5.0, 0.0, 1.0]], np.ones((2, 3)), [0.3, 0.7])
    display = PredictiveBandDisplay.from_predictions(x, dist, levels=(0.5, 0.8))
    np.testing.assert_array_equal(display.line_.get_xdata(), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(display.line_.get_ydata(), [0.0, 1.0, 0.3 * 2.0 + 0.7 * 5.0])
    for band, level in ((display.inner_band_, 0.5), (display.outer_band_, 0.8)):
        places, low, high = ends(band)
        np.testing.assert_array_equal(places, [0.0, 1.0, 2.0])
        for q, found in ((0.5 - level / 2, low), (0.5 + level / 2, high)):
            cdf = lambda y, q=q: 0.3 * norm.cdf(y, 2.0) + 0.7 * norm.cdf(y, 5.0) - q  # noqa: E731
            np.testing.assert_allclose(found[:2], [norm.ppf(q), 1.0 + norm.ppf(q)], rtol=1e-9)
            np.testing.assert_allclose(found[2], brentq(cdf, -10.0, 20.0), rtol=1e-9)


def test_other_columns_stay_at_their_medians(fitted):
    display = PredictiveBandDisplay.from_estimator(fitted, X, Y, n_points=7)
    low, high = X[:, 0].min(), X[:, 0].max()
    further = 0.05 * (high - low)
    x = np.linspace(low - further, high + further, 7)
    np.testing.assert_allclose(display.line_.get_xdata(), x)
    mean, std = fitted.predict(np.column_stack([x, np.full(7, np.median(X[:, 1]))]), True)
    np.testing.assert_allclose(display.line_.get_ydata(), mean)
    _, lower, upper = ends(display.outer_band_)
    np.testing.assert_allclose(lower, mean + norm.ppf(0.05) * std, rtol=1e-6)
    np.testing.assert_allclose(upper, mean + norm.ppf(0.95) * std, rtol=1e-6)
    np.testing.assert_array_equal(display.points_.get_xydata(), np.column_stack([X[:, 0], Y]))
    assert display.points_.get_label() == "data (other columns vary)"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("column 0", "y")


def test_columns_may_stay_elsewhere(fitted):
    display = PredictiveBandDisplay.from_estimator(fitted, X, feature=-1, at=[0.5, 9.0], n_points=5)
    rows = np.column_stack([np.full(5, 0.5), display.x])
    np.testing.assert_allclose(display.center, fitted.predict(rows))
    assert display.points_ is None and display.ax_.get_xlabel() == "column 1"
    assert display.x[0] < X[:, 1].min() and display.x[-1] > X[:, 1].max()


def test_columns_of_data_frames_have_names_and_types():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age of the cell": X[:, 0], "kind": ["a", "b", "b", "b"] * 10})
    frame["count"] = np.arange(40)

    def encoded(table):
        assert list(table.columns) == list(frame.columns)
        return np.column_stack([table["age of the cell"], table["kind"] == "b", table["count"]])

    class Encoder(StandardScaler):
        def fit(self, X, y=None):
            return super().fit(encoded(X), y)

        def transform(self, X):
            return super().transform(encoded(X))

    model = make_pipeline(Encoder(), process()).fit(frame, Y)
    target = pandas.Series(Y, name="height")
    display = PredictiveBandDisplay.from_estimator(
        model, frame, target, feature="age of the cell", n_points=6
    )
    rows = pandas.DataFrame({"age of the cell": display.x, "kind": ["b"] * 6, "count": [19.5] * 6})
    np.testing.assert_allclose(display.center, model.predict(rows))
    assert display.ax_.get_xlabel() == "age of the cell" and display.ax_.get_ylabel() == "height"
    by_place = PredictiveBandDisplay.from_estimator(model, frame, feature=2, n_points=3)
    assert by_place.name == "count"
    with pytest.raises(ValueError, match="its columns are age of the cell, kind, count"):
        PredictiveBandDisplay.from_estimator(model, frame, feature="weight")
    with pytest.raises(ValueError, match="column 'kind'"):
        PredictiveBandDisplay.from_estimator(model, frame, feature="kind")


def test_transformed_targets_have_intervals(fitted):
    model = TransformedTargetRegressor(process(), func=np.log, inverse_func=np.exp)
    model.fit(X, np.exp(Y))
    display = PredictiveBandDisplay.from_estimator(model, X, np.exp(Y), n_points=5)
    plain = PredictiveBandDisplay.from_estimator(fitted, X, Y, n_points=5)
    np.testing.assert_allclose(display.outer, np.exp(plain.outer), rtol=1e-6)
    assert display.line_.get_label() == "prediction"


def test_bad_arguments_are_refused(fitted):
    draw = PredictiveBandDisplay.from_estimator
    for feature in (2, "a"):
        with pytest.raises(ValueError, match=f"feature={feature!r} is no column of X: it has 2"):
            draw(fitted, X, feature=feature)
    with pytest.raises(ValueError, match="at must have"):
        draw(fitted, X, at=[1.0])
    with pytest.raises(ValueError, match="n_points"):
        draw(fitted, X, n_points=1)
    with pytest.raises(ValueError, match="y must have shape"):
        draw(fitted, X, Y[:3])
    with pytest.raises(ValueError, match="X must have shape"):
        draw(fitted, X[:, 0])
    with pytest.raises(TypeError, match=r"X.toarray\(\)"):
        draw(fitted, sparse.csr_array(X))
    with pytest.raises(TypeError, match="predict_proba"):
        draw(LinearRegression().fit(X, Y), X)
    with pytest.raises(TypeError, match="must be a predictive one"):
        PredictiveBandDisplay.from_predictions([1.0], np.ones((1, 2)))
    with pytest.raises(ValueError, match="x must have shape"):
        PredictiveBandDisplay.from_predictions([1.0], NormalMixture([0.0, 1.0], [1.0, 1.0]))


def own_model(**functions):
    return ParticleMirrorDescent(
        log_likelihood_pointwise=lambda theta, X, y: norm.logpdf(y, theta @ X.T, 0.6),
        prior={"b": norm(np.zeros(2), 2.0)},
        predict_mean=lambda theta, X: theta @ X.T,
        random_state=0,
        **functions,
    )


@pytest.mark.parametrize("has_targets", [True, False])
def test_bands_of_a_model_of_ones_own(has_targets):
    # A conjugate linear model: 4000 draws know an end to 2 % of the standard deviation or so.
    def sample_targets(theta, X, rng):
        return rng.normal(theta @ X.T, 0.6)

    model = own_model(sample_targets=sample_targets if has_targets else None).fit(X, Y)
    display = PredictiveBandDisplay.from_estimator(model, X, Y, n_points=9)
    cov = np.linalg.inv(X.T @ X / 0.36 + np.eye(2) / 4.0)
    rows = np.column_stack([display.x, np.full(9, np.median(X[:, 1]))])
    mean = rows @ cov @ X.T @ Y / 0.36
    sd = np.sqrt(np.einsum("ij,jk,ik->i", rows, cov, rows) + 0.36 * has_targets)
    np.testing.assert_allclose(display.center, mean, atol=0.02)
    for band, z in ((display.inner, norm.ppf(0.75)), (display.outer, norm.ppf(0.95))):
        exact = mean[:, None] + np.outer(sd, [-z, z])
        np.testing.assert_allclose((band - exact) / sd[:, None], 0.0, atol=0.12)
    words = [text.get_text() for text in display.legend_.get_texts()]
    assert any(("of new y" if has_targets else "of the mean") in word for word in words)


def test_a_band_is_of_one_target():
    model = own_model().set_params(predict_mean=lambda theta, X: np.stack([theta @ X.T] * 2, -1))
    with pytest.raises(ValueError, match="a band is of one"):
        PredictiveBandDisplay.from_estimator(model.fit(X, Y), X, Y)
