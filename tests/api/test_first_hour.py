"""Errors that a newcomer meets in the first hour: each names what is wrong, and what to do."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd
from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    Posterior,
    SparseGPRegressorPMD,
)
from skpmd._runtime.display import Lines
from skpmd.decision import BayesDecisionClassifier

WORDS = np.array([["rain", "wind"], ["bread", "wine"]] * 10, dtype=object)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    return X, (X[:, 0] + rng.logistic(size=60) > 0).astype(int)


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (BayesianLogisticRegressionPMD(), "OneHotEncoder"),
        (SparseGPRegressorPMD(), "taken as categories if their dtype"),
        (GaussianMixturePMD(2), "Leave out columns of words"),
        (LDATopicModelPMD(2), "CountVectorizer"),
    ],
)
def test_words_in_place_of_numbers(model, advice):
    with pytest.raises(ValueError, match=advice):
        model.fit(WORDS, np.tile([0, 1], 10))


def test_a_pipeline_as_a_prior(rows):
    earlier = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
    earlier.fit(*rows)
    for prior in (earlier, FrozenEstimator(earlier)):
        with pytest.raises(ValueError, match=r"give pipeline\[-1\]"):
            BayesianLogisticRegressionPMD(prior=prior).fit(*rows)


def test_decisions_before_a_fit_and_of_bad_utilities(rows):
    X, y = rows
    decision = BayesDecisionClassifier(LogisticRegression())
    for call in (lambda: decision.predict(X), lambda: decision.score(X, y)):
        with pytest.raises(NotFittedError, match="fit"):
            call()
    by_row = BayesDecisionClassifier(LogisticRegression(), lambda costs: np.zeros((costs, 2, 2)))
    with pytest.raises(ValueError, match="tables for 5 rows, and X has 60"):
        by_row.fit(X, y).predict(X, costs=5)
    with pytest.raises(ValueError, match=r"utility must be finite, got nan at \(0, 1\)"):
        BayesDecisionClassifier(LogisticRegression(), [[0.0, np.nan], [1.0, 0.0]]).fit(X, y)


def test_weights_for_predictions_are_not_blamed_for_few_particles():
    weighting = "they are for predictions"
    found = Posterior(np.random.default_rng(0).normal(size=(16, 2)), np.zeros(16))
    assert "Raise n_particles" in " ".join(found.check())
    found = Posterior(found.particles, np.zeros(16), weighting=weighting)
    assert not found.check() and weighting in repr(found)


def test_files(rows, tmp_path):
    def log_likelihood(theta, X, y):
        return -0.5 * ((X[:, 0] - theta[:, :1]) ** 2).sum(axis=1)

    model = ParticleMirrorDescent(
        log_likelihood, prior={"mean": norm()}, n_particles=100, random_state=0
    )
    with pytest.raises(TypeError, match="log_likelihood, which no other .* joblib"):
        skpmd.save(model, tmp_path / "model.skops")
    with pytest.raises(FileNotFoundError, match="There is no folder .*: make it"):
        skpmd.save(BayesianLogisticRegressionPMD(), tmp_path / "none" / "model.skops")


def test_the_time_left_does_not_take_compilation_for_the_speed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("skpmd._runtime.display.display_clock", lambda: now[0])
    phase = Lines(0.0).open("steps", 50)
    now[0] = 20.0
    phase.advance(1, "")
    assert phase.described() == "steps 1/50 (2%), 20 s so far"
    now[0] = 21.0
    phase.advance(1, "")
    assert phase.described() == "steps 2/50 (4%), 48 s left"
