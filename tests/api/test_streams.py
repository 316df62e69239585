"""Pipelines that take parts, and scores before learning."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import IncrementalPCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from skpmd import BayesianLogisticRegressionPMD, SparseGPRegressorPMD
from skpmd.metrics import log_predictive_density_scorer
from skpmd.streams import StreamingPipeline, prequential_score

RNG = np.random.default_rng(0)
X = 50.0 + 10.0 * RNG.standard_normal((600, 6))
Y = (X @ [2.0, -1.0, 0.5, 0.0, 0.0, 0.0] + 10.0 * RNG.logistic(size=600) > 75.0).astype(int)
PARTS = np.split(np.arange(600), 4)


def logistic():
    return BayesianLogisticRegressionPMD(n_particles=1000, random_state=0)


def pipeline(*transformers, **params):
    steps = [(f"step{j}", one) for j, one in enumerate(transformers)]
    return StreamingPipeline([*steps, ("last", logistic())], **params)


def test_steps_learn_as_they_would_by_hand():
    model, scaler, pca, last = (
        pipeline(StandardScaler(), IncrementalPCA(5)), StandardScaler(), IncrementalPCA(5),
        logistic(),
    )  # fmt: skip
    for some in PARTS:
        model.partial_fit(X[some], Y[some], classes=[0, 1])
        Z = pca.partial_fit(scaler.partial_fit(X[some]).transform(X[some])).transform(
            scaler.transform(X[some])
        )
        last.partial_fit(Z, Y[some], classes=[0, 1])
    assert model.n_samples_seen_ == len(X)
    expected = last.predict_proba(pca.transform(scaler.transform(X)))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert model.score(X, Y) > 0.6  # Axes have turned as rows came.


def test_transformers_are_frozen_after_the_rows_that_are_named():
    model = pipeline(StandardScaler(), freeze_after=len(PARTS[0]))
    for some in PARTS:
        model.partial_fit(X[some], Y[some], classes=[0, 1])
    np.testing.assert_array_equal(model[0].mean_, X[PARTS[0]].mean(axis=0))
    assert model[0].n_samples_seen_ == len(PARTS[0])


def test_frozen_and_stateless_steps_transform_as_they_are():
    fitted = FrozenEstimator(QuantileTransformer(n_quantiles=50).fit(X))
    model = pipeline(fitted).partial_fit(X[:200], Y[:200], classes=[0, 1])
    assert model.score(X, Y) > 0.75
    words = np.array(["good fine", "bad poor"] * 30)
    steps = [("hash", HashingVectorizer(n_features=16)), ("last", SGDClassifier(random_state=0))]
    text = StreamingPipeline(steps)
    text.partial_fit(words, np.arange(60) % 2, classes=[0, 1])
    assert text.score(words, np.arange(60) % 2) == 1.0


def test_what_needs_all_rows_is_named_and_nothing_is_lost():
    with pytest.raises(TypeError, match="estimator has no partial_fit: Pipeline"):
        prequential_score(make_pipeline(StandardScaler(), SGDClassifier()), [])
    with pytest.raises(TypeError, match="'step0', QuantileTransformer, has no partial_fit"):
        pipeline(QuantileTransformer()).partial_fit(X, Y, classes=[0, 1])
    model = pipeline(StandardScaler()).partial_fit(X[:200], Y[:200], classes=[0, 1])
    before = model.predict_proba(X), model[0].mean_.copy()
    with pytest.raises(ValueError):
        model.partial_fit(X[200:], np.where(Y[200:] == 1, 7, 0))
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    np.testing.assert_array_equal(model[0].mean_, before[1])
    assert model.n_samples_seen_ == 200


def test_it_is_a_pipeline():
    model = clone(pipeline(StandardScaler(), freeze_after=100))
    assert model.get_params()["freeze_after"] == 100
    assert model.set_params(last__n_particles=200).fit(X, Y).score(X, Y) > 0.75
    assert model.n_samples_seen_ == 600
    steps = [("scale", StandardScaler()), ("last", SGDClassifier(random_state=0))]
    frozen = StreamingPipeline(steps, freeze_after=100).fit(X, Y)
    frozen.partial_fit(X + 10.0, Y)
    np.testing.assert_allclose(frozen[0].mean_, X.mean(axis=0))
    assert not hasattr(StreamingPipeline([("scale", QuantileTransformer())]), "partial_fit")
    with pytest.raises(ValueError, match="freeze_after"):
        pipeline(StandardScaler(), freeze_after=0).partial_fit(X, Y, classes=[0, 1])


def test_parts_are_scored_before_they_are_learnt():
    model = pipeline(StandardScaler())
    stream = ((X[some], Y[some]) for some in PARTS)
    found = prequential_score(model, stream, "neg_log_loss", window=2, params={"classes": [0, 1]})
    by_hand, scores = clone(model), []
    for place, some in enumerate(PARTS):
        if place:
            p = by_hand.predict_proba(X[some])[np.arange(len(some)), Y[some]]
            scores.append(np.log(p).mean())
        by_hand.partial_fit(X[some], Y[some], classes=[0, 1])
    np.testing.assert_allclose(found.scores, scores)
    counts = np.array([len(some) for some in PARTS[1:]])
    np.testing.assert_array_equal(found.n_samples, counts)
    assert found.mean == pytest.approx(np.average(scores, weights=counts))
    assert found.rolling[2] == pytest.approx(np.average(scores[1:], weights=counts[1:]))
    np.testing.assert_array_equal(found.estimator.predict_proba(X), by_hand.predict_proba(X))
    assert not hasattr(model, "n_samples_seen_")


def test_distributions_are_scored_too():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3.0, 3.0, (300, 1))
    y = np.sin(rows[:, 0]) + 0.1 * rng.standard_normal(300)
    parts = [(rows[some], y[some]) for some in np.split(np.arange(300), 3)]
    gp = SparseGPRegressorPMD(n_inducing=30, random_state=0)
    found = prequential_score(gp, parts, log_predictive_density_scorer)
    assert found.scores[-1] > 0.5
    with pytest.raises(ValueError, match="two parts"):
        prequential_score(gp, parts[:1])
    with pytest.raises(ValueError, match="window"):
        prequential_score(gp, parts, window=0)
