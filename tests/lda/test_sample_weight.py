"""Weights of documents: one of weight w is w copies, to the digits that each algorithm allows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from skpmd import LDATopicModelPMD
from tests.lda.test_estimator import PHI, corpus, matched

X, _ = corpus(n=60)
W = np.random.default_rng(0).integers(0, 5, size=60)
COPIES = np.repeat(X, W, axis=0)


def model(n_components=3, **own):
    params = {"assignment": "collapsed", "max_iter": 4, "n_particles": 2, "random_state": 0}
    return LDATopicModelPMD(n_components, **{**params, **own})


def assert_close(one, other, rtol=1e-4):
    """Sums in another order differ by rounding of float32, which steps pass on."""
    np.testing.assert_allclose(one.components_, other.components_, rtol=rtol)
    np.testing.assert_allclose(one.transform(X), other.transform(X), rtol=rtol, atol=1e-5)
    assert one.n_documents_seen_ == other.n_documents_seen_


@pytest.mark.parametrize("assignment", ["collapsed", "soft"])
@pytest.mark.parametrize("weighting", ["uniform", "posterior"])
@pytest.mark.parametrize("max_full_iter", [0, 2])
def test_whole_weights_are_copies(assignment, weighting, max_full_iter):
    """Steps on all documents, whose assignments are not random."""
    own = {"assignment": assignment, "weighting": weighting, "max_full_iter": max_full_iter}
    own = {"batch_size": 10_000, "evaluate_every": 1, **own}
    one, other = model(**own).fit(X, sample_weight=W), model(**own).fit(COPIES)
    assert_close(one, other)
    assert one.bound_ == pytest.approx(other.bound_, rel=1e-5)
    if weighting == "posterior" and max_full_iter:
        assert one.lower_bound_ == pytest.approx(other.lower_bound_, rel=1e-5)


@pytest.mark.parametrize("assignment", ["sampled", "collapsed"])
@pytest.mark.parametrize("weighting", ["uniform", "stacking"])
def test_weighted_parts_are_one_weighted_pass_of_fit(assignment, weighting):
    weight = np.random.default_rng(1).gamma(1.0, 2.0, size=60)
    own = {"assignment": assignment, "weighting": weighting, "batch_size": 10}
    stream = model(total_samples=float(weight.sum()), **own)
    for part in np.split(np.arange(60), 3):
        stream.partial_fit(X[part], sample_weight=weight[part])
    whole = model(max_iter=1, shuffle=False, **own).fit(X, sample_weight=weight)
    np.testing.assert_array_equal(stream.components_, whole.components_)
    np.testing.assert_array_equal(stream._log_weights, whole._log_weights)


def test_one_topic_is_exact_whatever_the_batches():
    weight = np.random.default_rng(1).gamma(1.0, 2.0, size=60)
    words = weight @ X
    expected = (gammaln(0.2 + words) - gammaln(0.2)).sum()
    expected += gammaln(24 * 0.2) - gammaln(24 * 0.2 + words.sum())
    params = {"topic_word_prior": 0.2, "batch_size": 7, "assignment": "sampled"}
    one = model(1, max_iter=1, **params).fit(X, sample_weight=weight)
    stream = model(1, **params)
    for part in np.array_split(np.arange(60), 7):
        stream.partial_fit(X[part], sample_weight=weight[part])
    for fitted in (one, stream):
        np.testing.assert_allclose(fitted.components_[0], words + 0.2, rtol=1e-5)
        assert fitted.log_evidence_ == pytest.approx(expected, rel=1e-6)
        assert fitted.n_documents_seen_ == pytest.approx(weight.sum(), rel=1e-12)


@pytest.mark.parametrize("weighting", ["uniform", "stacking", "posterior"])
def test_weights_of_one_change_no_digit(weighting):
    own = {"assignment": "auto", "batch_size": 16, "weighting": weighting}
    own |= {"learn_priors": weighting == "uniform", "max_iter": 40}
    one, other = model(**own).fit(X, sample_weight=np.ones(60)), model(**own).fit(X)
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one._log_weights, other._log_weights)
    np.testing.assert_array_equal(one.doc_topic_prior_, other.doc_topic_prior_)


@pytest.mark.slow_but("False")
@pytest.mark.parametrize("learn_priors", [False, True])
def test_sampled_batches_agree_with_copies_in_distribution(learn_priors):
    """Topics of weighted documents and of their copies are equally far from the truth."""
    rng = np.random.default_rng(2)
    many, phi = corpus(n=400)
    weight = rng.integers(0, 4, size=400)
    own = {"assignment": "sampled", "max_iter": 30, "learn_priors": learn_priors}
    fits = [
        model(**own).fit(many, sample_weight=weight),
        model(**own).fit(np.repeat(many, weight, axis=0)),
    ]
    topics = [matched(fitted.topic_word_, PHI) for fitted in fits]
    assert np.abs(topics[0] - topics[1]).sum(axis=1).max() < 0.06
    ratio = fits[0].components_.sum() / fits[1].components_.sum()
    assert abs(ratio - 1.0) < 0.02
    assert np.abs(fits[0].doc_topic_prior_ / fits[1].doc_topic_prior_ - 1.0).max() < 0.3


def test_a_factor_of_all_weights_makes_topics_more_certain():
    own = {"batch_size": 16, "topic_word_prior": 1e-6, "doc_topic_prior": 0.1}
    one = model(**own).fit(X, sample_weight=np.ones(60))
    other = model(**own).fit(X, sample_weight=np.full(60, 9.0))
    np.testing.assert_allclose(other.topic_word_, one.topic_word_, atol=1e-4)
    np.testing.assert_allclose(other.components_, 9.0 * one.components_, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(other.history_["step_size"], one.history_["step_size"], rtol=1e-12)


def test_documents_without_weight_are_not_there():
    some = np.arange(60) % 3 > 0
    one = model(assignment="auto").fit(sparse.csr_array(X), sample_weight=some)
    other = model(assignment="auto").fit(X[some])
    np.testing.assert_array_equal(one.components_, other.components_)


def test_scores_count_documents_by_their_weights():
    fitted = model().fit(X)
    expected = fitted.score_samples(X) @ W
    assert fitted.score(X, sample_weight=W) == pytest.approx(expected, rel=1e-12)
    ones = fitted.score(X, sample_weight=np.ones(60))
    assert fitted.score(X) == pytest.approx(ones, rel=1e-12)
    one = fitted.fit_transform(X, sample_weight=W)
    np.testing.assert_array_equal(one, model().fit(X, sample_weight=W).transform(X))


@pytest.mark.parametrize(
    "weight, message",
    [
        (np.full(60, -1.0), "[Nn]egative"),
        (np.zeros(60), "zero"),
        (np.ones(3), "sample_weight"),
        (np.full(60, np.nan), "NaN"),
        (np.full(60, 1e15), "Counts times sample_weight must be at most"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    stream = model().partial_fit(X)
    before = stream.components_
    for call in (model().fit, stream.partial_fit):
        with pytest.raises(ValueError, match=message):
            call(X, sample_weight=weight)
    np.testing.assert_array_equal(stream.components_, before)
