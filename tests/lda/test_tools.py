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


def top_words(lda, vectorizer, n=5):
    table = lda.top_words(n, vectorizer.get_feature_names_out())
    return [list(words) for _, words in table.groupby("topic")["word"]]


def test_coherence_and_diversity(fitted):
    coherencemodel = pytest.importorskip("gensim.models.coherencemodel")
    from gensim.corpora import Dictionary

    lda, _, vectorizer, texts = fitted
    topics = top_words(lda, vectorizer)
    assert len({word for topic in topics for word in topic}) == 10  # all of them different
    own = {"texts": texts, "dictionary": Dictionary(texts), "processes": 1}
    mixed = [WEATHER[:3] + FOOD[:2], FOOD[:3] + WEATHER[:2]]
    for measure in ("c_npmi", "u_mass", "c_v"):
        found, other = (
            coherencemodel.CoherenceModel(topics=one, coherence=measure, **own).get_coherence()
            for one in (topics, mixed)
        )
        assert found > other


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
