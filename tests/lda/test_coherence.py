"""Coherence of topics: against counts of documents one by one."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skpmd import LDATopicModelPMD
from skpmd.metrics import topic_coherence

RNG = np.random.default_rng(0)
# Rare words and frequent ones, one in every document, another in none.
X = RNG.poisson(np.exp(RNG.normal(-1.5, 1.5, size=12)), size=(60, 12))
X[:, 3], X[:, 7] = 1 + X[:, 3], 0
TOPICS = RNG.dirichlet(np.full(12, 0.3), size=5)


def by_hand(topic, documents, n, measure):
    """Mean over pairs of the n leading words, with sets of documents."""
    lead = sorted(range(len(topic)), key=lambda word: -topic[word])[:n]
    sets = [{i for i, document in enumerate(documents) if document[word] > 0} for word in lead]
    total, values = len(documents), []
    for one, other in combinations([own for own in sets if own], 2):
        both = len(one & other)
        if measure == "umass":
            values.append(math.log((both + 1) / len(one)))
        elif both in (0, total):
            values.append(0.0 if both else -1.0)
        else:
            mutual = math.log(both * total / len(one) / len(other))
            values.append(mutual / -math.log(both / total))
    return sum(values) / len(values)


@pytest.mark.parametrize("measure", ["npmi", "umass"])
@pytest.mark.parametrize("top_n", [3, 5, 12, 40])
def test_it_is_that_of_documents_counted_one_by_one(measure, top_n):
    expected = [by_hand(topic, X, top_n, measure) for topic in TOPICS]
    own = {"top_n": top_n, "measure": measure}
    found = topic_coherence(TOPICS, X, average=None, **own)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert topic_coherence(TOPICS, X, **own) == pytest.approx(np.mean(expected), rel=1e-12)


def _in_parts(X):
    """Each count in two parts, and zeros that are stored."""
    rows, columns = np.indices(X.shape).reshape(2, -1)
    counts = np.concatenate([0.25 * X.ravel(), 0.75 * X.ravel()])
    indptr = np.arange(0, counts.size + 1, 2 * X.shape[1])
    order = np.argsort(np.tile(rows, 2), kind="stable")
    return sparse.csr_matrix((counts[order], np.tile(columns, 2)[order], indptr), X.shape)


@pytest.mark.parametrize(
    "make",
    [np.float32, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, _in_parts],
)
def test_kinds_of_matrices_make_no_difference(make):
    given = make(X)
    before = given.copy()
    assert topic_coherence(TOPICS, given) == topic_coherence(TOPICS, X)
    assert abs(given - before).max() == 0.0
    if sparse.issparse(given):
        np.testing.assert_array_equal(given.data, before.data)


def test_words_that_do_not_occur_are_left_out():
    topic = np.zeros((1, 12))
    topic[0, [7, 0, 1]] = 3.0, 2.0, 1.0
    some = topic_coherence(topic, X, top_n=3)
    topic[0, 7] = 0.0
    assert some == topic_coherence(topic, X, top_n=2)
    topic[0, 7] = 3.0
    assert np.isnan(topic_coherence(topic, X, top_n=2))
    assert np.isnan(topic_coherence(np.vstack([topic, TOPICS]), X, top_n=2))


def test_a_model_is_judged_by_its_expected_words():
    lda = LDATopicModelPMD(3, n_particles=2, max_iter=2, random_state=0).fit(X)
    for own in ({}, {"top_n": 3, "measure": "umass", "average": None}):
        expected = topic_coherence(lda.topic_word_, X[:30], **own)
        np.testing.assert_array_equal(lda.coherence(sparse.csr_matrix(X[:30]), **own), expected)
    with pytest.raises(NotFittedError):
        LDATopicModelPMD().coherence(X)
    with pytest.raises(ValueError, match="features"):
        lda.coherence(X[:, :5])


@pytest.mark.parametrize(
    "own, message",
    [
        ({"top_n": 1}, "top_n must be an integer of at least 2"),
        ({"top_n": 2.5}, "top_n must be an integer of at least 2"),
        ({"top_n": True}, "top_n must be an integer of at least 2"),
        ({"measure": "c_v"}, "measure must be 'npmi' or 'umass'"),
        ({"average": "micro"}, "average must be 'macro'"),
    ],
)
def test_errors_name_the_parameter(own, message):
    with pytest.raises(ValueError, match=message):
        topic_coherence(TOPICS, X, **own)


def test_data_that_are_no_counts_of_these_words_are_refused():
    with pytest.raises(ValueError, match="X has 11 columns and components 12"):
        topic_coherence(TOPICS, X[:, :11])
    with pytest.raises(ValueError, match="Negative values"):
        topic_coherence(TOPICS, -X)
    with pytest.raises(ValueError, match="one word has no pairs"):
        topic_coherence(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="components"):
        topic_coherence(np.full((2, 12), np.nan), X)
