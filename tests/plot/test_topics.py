"""Words of topics against beta distributions and what the estimator says."""

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skpmd import LDATopicModelPMD
from skpmd.plot import TopicDisplay
from tests.plot.displays import topics

COUNTS = np.random.default_rng(0).poisson([8.0, 4.0, 2.0, 1.0], size=(30, 4))


def test_intervals_of_one_topic_are_those_of_a_dirichlet():
    lda = LDATopicModelPMD(1, topic_word_prior=0.5, random_state=0).fit(COUNTS)
    display = TopicDisplay.from_estimator(lda, n_words=3, level=0.8)
    counts = COUNTS.sum(axis=0) + 0.5
    ends = np.array(display.lines_[0].get_segments())[:, :, 0]
    for j in range(3):  # Columns are in the order of their frequency.
        exact = beta(counts[j], counts.sum() - counts[j])
        np.testing.assert_allclose(ends[j], exact.ppf([0.1, 0.9]), rtol=1e-3)
        np.testing.assert_allclose(display.points_[0].get_xdata()[j], exact.mean(), rtol=1e-5)
    assert display.words == [["word 0", "word 1", "word 2"]]
    assert display.ax_.get_title() == "topic 0: 100.0 % of words"
    assert "80 %" in display.ax_.get_xlabel()


def test_words_are_those_of_the_largest_probability():
    model, names = topics(), np.array(["cat", "dog", "bond", "stock"])
    display = TopicDisplay.from_estimator(model, feature_names=names, n_words=2)
    ends = model.topic_word_interval(0.9)
    for place, k in enumerate(display.topics):
        order = np.argsort(-model.topic_word_[k])[:2]
        assert display.words[place] == names[order].tolist()
        labels = [one.get_text() for one in display.axes_[place].get_yticklabels()]
        assert labels == display.words[place]
        np.testing.assert_allclose(display.probability[place], model.topic_word_[k][order])
        np.testing.assert_allclose(display.interval[place], ends[k][order], rtol=1e-3)
    shares = model.components_.sum(axis=1) / model.components_.sum()
    assert (np.diff(display.shares) <= 0.0).all()
    np.testing.assert_allclose(display.shares, shares[display.topics], rtol=0.05)


def test_topics_are_chosen_and_those_not_shown_are_counted():
    model = topics()
    display = TopicDisplay.from_estimator(model, topics=[1], n_words=50)
    assert display.topics.tolist() == [1] and display.probability.shape == (1, 4)
    assert not display.figure_.get_suptitle()
    # Words too are those of the topic that was asked for.
    most = np.argsort(-model.topic_word_, axis=1)[:, :2]
    display = TopicDisplay.from_estimator(model, topics=[1, 0], n_words=2)
    assert display.words == [[f"word {j}" for j in most[k]] for k in (1, 0)]
    display = TopicDisplay.from_estimator(model, max_topics=1)
    assert display.figure_.get_suptitle() == "1 of 2 topics: 1 is not shown"
    for bad in ([2], [], [0.5], 1):
        with pytest.raises(ValueError, match="topics must be"):
            TopicDisplay.from_estimator(model, topics=bad)
    with pytest.raises(ValueError, match="feature_names must have"):
        TopicDisplay.from_estimator(model, feature_names=["a"])
    with pytest.raises(ValueError, match="n_words"):
        TopicDisplay.from_estimator(model, n_words=0)


def test_a_pipeline_knows_the_words():
    texts = ["cat dog cat", "dog cat mouse", "stock bond stock", "bond market stock"] * 5
    lda = LDATopicModelPMD(2, doc_topic_prior=0.1, n_particles=2, random_state=0)
    model = make_pipeline(CountVectorizer(), lda).fit(texts)
    found = {word for words in TopicDisplay.from_estimator(model).words for word in words}
    assert found == {"bond", "cat", "dog", "market", "mouse", "stock"}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COUNTS, columns=["the", "of", "and", "a"])
    fitted = LDATopicModelPMD(1, random_state=0).fit(frame)
    assert TopicDisplay.from_estimator(fitted).words == [["the", "of", "and", "a"]]
