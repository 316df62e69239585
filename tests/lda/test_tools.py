"""Tools made for other topic models, which find in ours what they look for."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skpmd import LDATopicModelPMD

WEATHER, FOOD = "sun rain wind cloud snow storm".split(), "bread cheese wine oil salt rice".split()


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    texts = [list(rng.choice((WEATHER, FOOD)[i % 2], size=8)) for i in range(200)]
    vectorizer = CountVectorizer()
    X = vectorizer.fit_transform(" ".join(text) for text in texts)
    return LDATopicModelPMD(2, max_iter=10, random_state=0).fit(X), X, vectorizer, texts


def test_pyldavis_takes_the_model(fitted):
    lda_model = pytest.importorskip("pyLDAvis.lda_model")
    prepared = lda_model.prepare(*fitted[:3], n_jobs=1)
    assert set(prepared.topic_coordinates["topics"]) == {1, 2}
    np.testing.assert_allclose(prepared.topic_coordinates["Freq"].sum(), 100.0)
    assert set(prepared.topic_info["Term"]) == {*WEATHER, *FOOD}


def test_in_a_pipeline_behind_a_vectorizer(fitted):
    lda, X, vectorizer, texts = fitted
    pipeline = make_pipeline(vectorizer, lda)
    proportions = pipeline.transform([" ".join(WEATHER), " ".join(FOOD), "unknown words"])
    topic = proportions.argmax(axis=1)
    assert topic[0] != topic[1] and proportions[:2].max(axis=1).min() > 0.8
    np.testing.assert_allclose(proportions[2], 0.5)
    assert list(pipeline.get_feature_names_out()) == ["ldatopicmodelpmd0", "ldatopicmodelpmd1"]
