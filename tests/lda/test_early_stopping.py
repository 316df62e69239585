"""Passes that end by a held-out score, and the number of topics by one in a search."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold

from skpmd import LDATopicModelPMD
from skpmd._base.utils import as_generator
from skpmd.lda._averages import completion_split
from tests.lda.test_estimator import corpus

X, _ = corpus(n=200)
OWN = {"early_stopping": True, "max_iter": 60, "random_state": 0, "n_particles": 2}


def held_out(seed, n, fraction):
    """Documents that a fit leaves out: the first that it draws."""
    order = as_generator(seed).permutation(n)
    size = int(np.ceil(fraction * n))
    return np.sort(order[:size]), np.sort(order[size:])


def test_it_ends_where_scores_stay():
    lda = LDATopicModelPMD(3, n_iter_no_change=3, tol=1e-3, **OWN).fit(X)
    scores = lda.validation_scores_
    assert 3 < len(scores) < 60 and lda.n_iter_ == len(scores)
    best = np.maximum.accumulate(scores)
    is_better = np.diff(scores, prepend=-np.inf) > 0
    is_better[1:] = scores[1:] >= best[:-1] + 1e-3
    assert not is_better[-3:].any() and is_better[-4]
    runs = "".join("1" if one else "0" for one in is_better)
    assert "000" not in runs[:-1]  # It did not go on beyond the first three.


def test_scores_are_those_of_documents_that_are_left_out():
    lda = LDATopicModelPMD(3, validation_fraction=0.25, **OWN).fit(X)
    out, rest = held_out(0, 200, 0.25)
    assert lda.n_documents_seen_ == len(rest) == 150
    score = -np.log(lda.perplexity(X[out], method="completion"))
    assert lda.validation_scores_[-1] == pytest.approx(score, rel=1e-12)


def test_held_out_documents_leave_no_trace():
    """Other words in their place change scores, and no topic, where no pass ends."""
    own = {**OWN, "max_iter": 4, "n_iter_no_change": 10}
    one = LDATopicModelPMD(3, **own).fit(X)
    out, _ = held_out(0, 200, 0.1)
    other = X.copy()
    other[out] = 50 * other[out][:, ::-1]
    changed = LDATopicModelPMD(3, **own).fit(other)
    np.testing.assert_array_equal(one.components_, changed.components_)
    assert abs(one.validation_scores_[-1] - changed.validation_scores_[-1]) > 0.01


def test_it_is_deterministic_and_changes_nothing_where_it_is_off():
    one, other = (LDATopicModelPMD(3, **OWN, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.validation_scores_, other.validation_scores_)
    plain = LDATopicModelPMD(3, random_state=0, tol=5.0, n_iter_no_change=1).fit(X)
    np.testing.assert_array_equal(
        plain.components_, LDATopicModelPMD(3, random_state=0).fit(X).components_
    )
    assert not hasattr(plain, "validation_scores_")


def test_weights_count_in_scores():
    weight = np.random.default_rng(0).gamma(1.0, size=200) + 0.1
    lda = LDATopicModelPMD(3, **OWN).fit(X, sample_weight=weight)
    out, rest = held_out(0, 200, 0.1)
    assert lda.n_documents_seen_ == pytest.approx(weight[rest].sum())
    words, total = 0.0, 0.0
    for document, own in zip(X[out], weight[out], strict=True):
        n = completion_split(sparse.csr_matrix(document[None].astype(float)))[1].data.sum()
        total += own * n * np.log(lda.perplexity(document[None], method="completion"))
        words += own * n
    assert lda.validation_scores_[-1] == pytest.approx(-total / words, rel=1e-6)


def test_full_batch_iterations_follow():
    lda = LDATopicModelPMD(3, max_full_iter=2, **OWN).fit(X)
    assert lda.n_iter_ == len(lda.validation_scores_) + 2
    assert lda.components_.sum() == pytest.approx(
        X[held_out(0, 200, 0.1)[1]].sum() + 24.0, rel=1e-5
    )


def test_a_stream_drops_it():
    lda = LDATopicModelPMD(3, **OWN).fit(X)
    with pytest.raises(ValueError, match="early_stopping=True is for the passes of fit"):
        lda.partial_fit(X)
    lda.set_params(early_stopping=False).partial_fit(X)
    assert not hasattr(lda, "validation_scores_")


def test_what_cannot_be_held_out_is_refused():
    with pytest.raises(ValueError, match="leaves none to fit"):
        LDATopicModelPMD(3, validation_fraction=0.95, **OWN).fit(X[:4])
    with pytest.raises(ValueError, match="held-out documents of two words or more"):
        LDATopicModelPMD(3, **OWN).fit(np.zeros((20, 5)))
    for name, value in (("validation_fraction", 0.0), ("n_iter_no_change", 0), ("tol", -1.0)):
        with pytest.raises(ValueError, match=name):
            LDATopicModelPMD(3, **{**OWN, name: value}).fit(X)


def by_completion(lda, X, y=None):
    return -lda.perplexity(X, method="completion")


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [None, by_completion])
def test_a_search_finds_the_number_of_topics(scoring):
    """Three topics with words of their own: fewer cannot be, more gain nothing."""
    long, _ = corpus(n=300, length=60)
    lda = LDATopicModelPMD(doc_topic_prior=0.2, topic_word_prior=0.05, **OWN)
    cv = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(lda, {"n_components": [1, 2, 3, 8]}, scoring=scoring, cv=cv).fit(long)
    assert search.best_params_ == {"n_components": 3}
    assert len(search.best_estimator_.validation_scores_) < 60
