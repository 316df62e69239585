"""Posteriors of topics as tables, arrays with named axes, and for ArviZ."""

import sys

import numpy as np
import pytest
from scipy.stats import beta

from skpmd import LDATopicModelPMD, TopicPosterior

pandas = pytest.importorskip("pandas")
pytest.importorskip("xarray")
pytest.importorskip("arviz_base")

WORDS = "ant bee cat dog elm fir".split()
COUNTS = np.random.default_rng(0).poisson(1.0, (40, 6))


@pytest.fixture(scope="module")
def posterior():
    frame = pandas.DataFrame(COUNTS, columns=WORDS)
    lda = LDATopicModelPMD(2, n_particles=3, weighting="stacking", max_iter=5, random_state=0)
    return lda.fit(frame).posterior_


def test_a_summary_has_a_row_for_each_word_of_each_topic(posterior):
    found = pandas.DataFrame(posterior.summary(level=0.8))
    assert list(found) == ["topic", "word", "mean", "std", "lower", "upper"]
    assert found["word"].tolist() == WORDS * 2
    assert found["topic"].tolist() == [0] * 6 + [1] * 6
    np.testing.assert_array_equal(found["mean"].to_numpy().reshape(2, 6), posterior.mean())
    ends = found[["lower", "upper"]].to_numpy().reshape(2, 6, 2)
    np.testing.assert_array_equal(ends, posterior.interval(0.8))
    np.testing.assert_array_equal(found["std"].to_numpy().reshape(2, 6), posterior.std())


def test_standard_deviations_are_those_of_a_mixture_of_betas():
    prior = np.array([[[0.5, 1.0, 3.0]], [[2.0, 2.0, 7.0]]], dtype=np.float32)
    weights = np.array([0.3, 0.7])
    found = TopicPosterior(prior, prior, np.ones((2, 1)), np.log(weights), "uniform").std()
    totals = prior.sum(axis=2, keepdims=True)
    means, variances = beta.stats(prior, totals - prior)
    centre = np.tensordot(weights, means, 1)
    expected = np.tensordot(weights, variances + (means - centre) ** 2, 1)
    np.testing.assert_allclose(found, np.sqrt(expected), rtol=1e-6)


def test_a_table_has_a_row_for_each_topic_of_each_particle(posterior):
    frame = posterior.to_frame()
    assert frame.index.names == ["particle", "topic"] and list(frame) == ["particle_weight", *WORDS]
    np.testing.assert_array_equal(frame.loc[(2, 1), WORDS], posterior.topic_word[2, 1])
    np.testing.assert_array_equal(frame.loc[(1, 0), "particle_weight"], posterior.weights[1])


def test_arrays_have_axes_and_words(posterior):
    data = posterior.to_xarray()
    assert data["topic_word"].dims == ("particle", "topic", "word")
    assert data["doc_topic_prior"].dims == ("particle", "topic")
    assert list(data["word"].values) == WORDS
    mean = (data["topic_word"] * data["particle_weight"]).sum("particle")
    np.testing.assert_allclose(mean.sel(word="cat").values, posterior.mean()[:, 2], rtol=1e-5)
    assert data.attrs["weights"] == "stacking" and "expected" in data.attrs["topic_word"]


def test_draws_are_those_of_the_posterior(posterior):
    tree = posterior.to_arviz(50, random_state=3)
    data = tree["posterior"]
    assert data["topic_word"].dims == ("chain", "draw", "topic", "word")
    draws = posterior.sample(50, random_state=3)
    np.testing.assert_array_equal(data["topic_word"].values[0], draws)
    assert list(data["word"].values) == WORDS and data.attrs["n_particles"] == 3


def test_words_may_be_named_and_have_numbers_otherwise():
    model = LDATopicModelPMD(2, n_particles=1, random_state=0).fit(COUNTS)
    data = model.posterior_.to_xarray()
    assert list(data["word"].values) == list("012345") and "one particle" in data.attrs["caveat"]
    assert list(model.posterior_.to_frame(WORDS))[1:] == WORDS
    assert model.posterior_.summary(feature_names=WORDS)["word"] == WORDS * 2
    with pytest.raises(ValueError, match="one name for each of the 6 words"):
        model.posterior_.to_xarray(["a"])
    for export in (
        model.posterior_.to_frame,
        model.posterior_.to_xarray,
        model.posterior_.to_arviz,
    ):
        with pytest.raises(ValueError, match="names of coordinates must differ"):
            export(feature_names=["a"] * 6)


@pytest.mark.parametrize("method", ["to_frame", "to_xarray", "to_arviz"])
def test_a_missing_library_names_the_extra(monkeypatch, posterior, method):
    for name in ("pandas", "xarray", "arviz", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[arviz\]"):
        getattr(posterior, method)()
