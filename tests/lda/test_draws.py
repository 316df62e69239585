"""Draws of the assignment of words to topics: against enumeration, and what they say."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, softmax
from sklearn.exceptions import ConvergenceWarning

from skpmd import LDATopicModelPMD
from skpmd.lda import _draws as draws
from skpmd.lda import _kernels as kernels
from skpmd.lda._topics import Counts, Topics


def test_a_chain_is_the_posterior_by_enumeration():
    """Pairs of tokens in one topic, over all 2^7 assignments of seven tokens.

    Of 20,000 passes the standard error of a share is below .004 where one in five is new.
    """
    tokens, document = np.array([0, 1, 1, 2, 0, 2, 2]), np.array([0, 0, 0, 0, 1, 1, 1])
    alpha, eta, V, K = np.array([0.3, 0.8]), 0.2, 3, 2
    every = np.array(list(product(range(K), repeat=7)))
    log_p = np.zeros(len(every))
    for i, z in enumerate(every):
        words = np.zeros((V, K))
        np.add.at(words, (tokens, z), 1.0)
        log_p[i] += (gammaln(eta + words)).sum() - gammaln(V * eta + words.sum(axis=0)).sum()
        for d in range(2):
            log_p[i] += gammaln(alpha + np.bincount(z[document == d], minlength=K)).sum()
    p = softmax(log_p)
    exact = (every[:, :, None] == every[:, None]).transpose(1, 2, 0) @ p
    indptr = np.array([0, 3, 5], dtype=np.int32)
    indices = np.array([0, 1, 2, 0, 2], dtype=np.int32)
    counts = np.array([1, 2, 1, 1, 2], dtype=np.float32)
    topics, words, totals = np.zeros(7, dtype=np.int32), np.zeros((V, K), np.float32), np.zeros(K)
    given = indptr, indices, counts, np.ones(2)
    kernels.count_topics(*given, topics, words, totals)
    priors = np.full((1, K), eta, np.float32), np.full(K, V * eta), alpha.astype(np.float32)
    state, together, n = np.uint64(3), np.zeros((7, 7)), 20_000
    for _ in range(n):
        state = np.uint64(kernels.gibbs_pass(*given, topics, words, totals, *priors, state))
        together += (topics[:, None] == topics) / n
    np.testing.assert_allclose(together, exact, atol=0.015)
    np.testing.assert_allclose(totals, np.bincount(topics, minlength=K))


def drawn(seed, K=2, V=25, D=80, L=25, alpha=0.6, eta=0.4):
    rng = np.random.default_rng(seed)
    phi, theta = rng.dirichlet(np.full(V, eta), K), rng.dirichlet(np.full(K, alpha), D)
    X = np.array([rng.multinomial(L, t @ phi) for t in theta])
    return phi, theta, X


def fit(X, K=2, alpha=0.6, eta=0.4, **own):
    return LDATopicModelPMD(
        K, doc_topic_prior=alpha, topic_word_prior=eta, **{"random_state": 0, **own}
    ).fit(X)


def test_intervals_of_a_small_collection_hold_what_they_say():
    """Topics that share words: twelve collections, by whose spread the standard error is .02."""
    words, documents = [], []
    for seed in range(12):
        phi, theta, X = drawn([7, seed])
        model = fit(X)
        place = linear_sum_assignment(-np.sqrt(phi) @ np.sqrt(model.topic_word_).T)[1]
        low, high = np.moveaxis(model.topic_word_interval(0.9)[place], -1, 0)
        words.append(((low <= phi) & (phi <= high)).mean())
        low, high = np.moveaxis(model.transform(X, return_interval=0.9)[1][:, place], -1, 0)
        documents.append(((low <= theta) & (theta <= high)).mean())
    assert 0.84 < np.mean(words) < 0.96 and 0.84 < np.mean(documents) < 0.96


def test_results_are_those_of_the_draws():
    X = drawn(3)[2]
    model = fit(X, n_particles=2)
    posterior, block = model.posterior_, model._state.block
    assert posterior.draws.shape == (2, 64, 2, 25) and model.n_iter_ > 5
    np.testing.assert_allclose(posterior.draws.mean(axis=1), posterior.concentration, rtol=1e-4)
    np.testing.assert_allclose(block.draws.totals.sum(axis=1), X.sum(), rtol=1e-6)
    some = posterior.sample(4000, random_state=1)
    np.testing.assert_allclose(some.mean(axis=0), posterior.mean(), atol=0.01)
    np.testing.assert_allclose(some.std(axis=0), posterior.std(), atol=0.003)
    again = fit(X, n_particles=2, n_jobs=2)
    np.testing.assert_array_equal(again.posterior_.draws, posterior.draws)
    model.partial_fit(X)
    assert model.posterior_.draws is None and model._state.block.draws is None


def test_passes_that_are_numbered_have_no_draws():
    X = drawn(3)[2]
    assert fit(X, max_iter=6).posterior_.draws is None and fit(X, max_iter=6).n_iter_ == 6
    assert fit(X, max_full_iter=1).posterior_.draws is None
    assert fit(X, K=1).posterior_.draws is None


def test_topics_that_documents_do_not_tell_apart_are_found():
    X = np.tile([3, 1, 2, 0, 4], (60, 1))
    with pytest.warns(ConvergenceWarning, match="do not tell .* topics from each other"):
        model = fit(X, K=4, alpha=None, eta=None)
    assert "lower n_components" in model.diagnostics_["warnings"][0]
    assert fit(drawn(5, eta=0.1)[2], eta=0.1).diagnostics_["warnings"] == []


def test_equal_documents_have_a_sane_perplexity():
    """Of 4.0 with one topic: no more than the price of so many topics that are alike."""
    X = np.tile([4, 4, 4, 4, 0], (200, 1))
    with pytest.warns(ConvergenceWarning):
        model = LDATopicModelPMD(20, random_state=0).fit(X)
    assert model.perplexity(X) < 8.0 and model.perplexity(X, method="completion") < 4.5
    odd = np.array([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    assert np.isfinite(model.score_samples(odd)).all() and np.isfinite(model.transform(odd)).all()


def test_chains_exchange_topics_whose_priors_suit_each_other():
    """Two topics that are large and small, found at the places of one another."""
    rng = np.random.default_rng(4)
    phi, theta = rng.dirichlet(np.full(30, 0.1), 2), rng.dirichlet([0.5, 0.15], 400)
    X = sp.csr_matrix([rng.multinomial(20, t @ phi) for t in theta])
    alpha, eta = np.tile([0.5, 0.15], (3, 1)), np.full((1, 2), 0.1)
    topics = Topics(alpha, eta, np.ones(3), 30)
    words = (4000.0 * np.repeat(phi[None, ::-1], 3, axis=0)).swapaxes(1, 2).astype(np.float32)
    counts = Counts(words, words.sum(axis=1, dtype=np.float64), np.full(3, np.nan), 1.0)
    found = draws.drawn(topics, counts, np.arange(3, dtype=np.uint64), X, None)
    mean = draws.averaged(found.counts, 3)
    assert (mean.totals[:, 0] > 2.0 * mean.totals[:, 1]).all()
    for i in range(3):
        own = topics.word_probabilities(mean, i).T
        assert abs(own - phi).sum(axis=1).max() / 2.0 < 0.2  # Exchanged they differ by .7.
