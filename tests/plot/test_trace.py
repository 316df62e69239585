"""Traces against the records that they draw, for every estimator that has one."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.plot import TraceDisplay

X, Y = load_breast_cancer(return_X_y=True)
X = (X[:150, :3] - X[:150, :3].mean(axis=0)) / X[:150, :3].std(axis=0)
Y = Y[:150]
COUNTS = np.random.default_rng(0).poisson(1.0, size=(100, 12))


def custom():
    return ParticleMirrorDescent(
        lambda theta, X, y: norm.logpdf(X[:, 0], theta[:, :1]).sum(axis=1),
        lambda theta: norm.logpdf(theta).sum(axis=1),
        lambda rng, m: rng.standard_normal((m, 1)),
        proposal="prior",
        n_particles=500,
        random_state=0,
    )


def logistic(**params):
    return BayesianLogisticRegressionPMD(n_particles=500, random_state=0, **params)


ESTIMATORS = [
    logistic(),
    logistic(proposal="prior", batch_size=20),
    logistic(covariance_type="diag"),
    logistic(moves="always"),
    custom(),
    SparseGPRegressorPMD(n_particles=1, n_restarts_optimizer=0, random_state=0),
    SparseGPClassifierPMD(random_state=0),
    GaussianMixturePMD(2, strategy="conjugate", n_particles=4, random_state=0),
    GaussianMixturePMD(1, strategy="parameters", n_particles=200, random_state=0),
]


@pytest.mark.slow_but(
    "BayesianLogisticRegressionPMD0", "GaussianMixturePMD0", "SparseGPRegressorPMD"
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_each_estimator_has_a_trace(estimator):
    display = TraceDisplay.from_estimator(estimator.fit(X, Y))
    display.figure_.canvas.draw()
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_xdata(), estimator.history_["step"])
        if name in estimator.history_:
            np.testing.assert_array_equal(line.get_ydata(), estimator.history_[name])
        assert np.isfinite(line.get_ydata()).any()
    assert display.axes_[-1].get_xlabel() == "step"
    assert all(one.get_ylabel() for one in display.axes_)


def test_topics_have_a_trace():
    lda = LDATopicModelPMD(3, max_iter=5, random_state=0).fit(COUNTS)
    display = TraceDisplay.from_estimator(lda, columns=["log_density", "step_size"])
    assert display.axes_[0].get_ylabel() == "log density\n(nats per word)"
    assert TraceDisplay.from_estimator(lda).columns[0] == "step_size"


def test_the_share_is_the_effective_number_divided_by_all():
    history = {"step": [1, 2], "ess": [50.0, 30.0], "n_particles": [100, 60], "extra": [1.0, 2.0]}
    display = TraceDisplay(history)
    assert display.columns == ["ess_share", "n_particles"]
    display.plot()
    np.testing.assert_array_equal(display.lines_["ess_share"].get_ydata(), [0.5, 0.5])
    assert TraceDisplay(history, columns=["extra", "ess"]).columns == ["extra", "ess"]


def test_the_evidence_ends_at_that_of_the_fit():
    rng = np.random.default_rng(0)
    rows = 100.0 * rng.normal(size=(60, 1))
    model = GaussianMixturePMD(1, strategy="parameters", n_particles=300, random_state=0).fit(rows)
    display = TraceDisplay.from_estimator(model, columns=["log_evidence"])
    values, history = display.lines_["log_evidence"].get_ydata(), model.history_
    assert values[-1] == pytest.approx(model.log_evidence_)
    # Densities of scaled rows are larger, by the scale to the power of the likelihood.
    scale = model._state.scaler.scale
    assert scale == pytest.approx(rows.std(), rel=0.2)
    shift = -60.0 * history["likelihood_power"] * np.log(scale)
    np.testing.assert_allclose(values, np.cumsum(history["log_increment"]) + shift)
    assert "nats" in display.ax_.get_ylabel()


def test_panels_share_one_axis_of_steps():
    model = logistic(proposal="prior", batch_size=20).fit(X, Y)
    display = TraceDisplay.from_estimator(model, max_panels=3)
    assert len(display.axes_) == 3 and display.n_columns > 3
    assert display.figure_.get_suptitle() == (
        f"3 of {display.n_columns} columns: {display.n_columns - 3} are not shown"
    )
    display.axes_[0].set_xlim(3, 7)
    assert all(one.get_xlim() == (3, 7) for one in display.axes_)


def test_a_column_of_decades_is_logarithmic():
    history = {"step": [1, 2, 3], "change": [1.0, 0.1, 1e-3], "r_hat": [1.1, 1.0, np.nan]}
    display = TraceDisplay(history).plot()
    assert [one.get_yscale() for one in display.axes_] == ["linear", "log"]


def test_searches_are_gone_through_and_bad_columns_refused():
    search = GridSearchCV(logistic(), {"prior_scale": [1.0]}, cv=2).fit(X, Y)
    display = TraceDisplay.from_estimator(search)
    np.testing.assert_array_equal(display.history["ess"], search.best_estimator_.history_["ess"])
    for columns in (["nothing"], ["step"], []):
        with pytest.raises(ValueError, match="columns must be"):
            TraceDisplay.from_estimator(search, columns=columns)
    with pytest.raises(ValueError, match="'step'"):
        TraceDisplay({"ess": [1.0]})
