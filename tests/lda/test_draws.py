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
from skpmd.lda import _fit as fits
from skpmd.lda import _kernels as kernels
from skpmd.lda._relabel import disagreement
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


@pytest.mark.slow
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
    found = draws.drawn(topics, counts, np.arange(3, dtype=np.uint64), X, np.ones(400))
    mean = draws.averaged(found.counts, 3)
    assert (mean.totals[:, 0] > 2.0 * mean.totals[:, 1]).all()
    for i in range(3):
        own = topics.word_probabilities(mean, i).T
        assert abs(own - phi).sum(axis=1).max() / 2.0 < 0.2  # Exchanged they differ by .7.


def relabelled(found, true):
    place = linear_sum_assignment(-np.sqrt(true) @ np.sqrt(found).T)[1]
    return found[place], place


@pytest.mark.slow
def test_a_weighted_document_is_as_certain_as_its_copies():
    """Topics of weights are drawn for each copy; drawn once for all, sds were 1.6 times these."""
    phi, _, X = drawn(12, D=70)
    weight = np.random.default_rng(1).integers(1, 9, 70)
    one, other = fit(X.repeat(weight, axis=0)), None
    other = LDATopicModelPMD(2, doc_topic_prior=0.6, topic_word_prior=0.4, random_state=0)
    other.fit(X, sample_weight=weight.astype(float))
    both = [(m, relabelled(m.topic_word_, phi)) for m in (one, other)]
    sds = [m.posterior_.std()[place].mean() for m, (_, place) in both]
    assert abs(np.log(sds[0] / sds[1])) < 0.1  # 128 draws each: a standard error of .06.
    assert abs(both[0][1][0] - both[1][1][0]).sum(axis=1).max() / 2.0 < 0.06
    halves = np.full(70, 0.5)
    some, weights = draws.in_memory(sp.csr_matrix(X), 3.0 * halves, 4, 25, 2)
    assert some.shape[0] == 140 and (weights == 0.75).all()
    assert draws.in_memory(sp.csr_matrix(X), 1000.0 * halves, 4, 25, 2) is None


@pytest.mark.slow_but("alpha1")
@pytest.mark.parametrize("alpha", [0.2, [0.1, 0.2, 0.4]])
def test_particles_that_found_different_topics_are_found(alpha):
    """Three topics of 400 documents, of which one particle splits one in two and joins two."""
    rng = np.random.default_rng(14)
    true = rng.dirichlet(np.full(40, 0.1), 3)
    X = np.array([rng.multinomial(40, t @ true) for t in rng.dirichlet([0.1, 0.2, 0.4], 400)])
    model = fit(X, K=3, alpha=alpha, eta=0.1)
    (finding,) = model.diagnostics_["warnings"]
    assert "have found different topics in" in finding and "posterior_.topic_word" in finding
    each = model.posterior_.topic_word
    gaps = abs(each - model.topic_word_).sum(axis=2).max(axis=0) / 2.0
    assert (gaps > 0.25).any()
    numbered = fit(X, K=3, alpha=alpha, eta=0.1, max_iter=10)
    assert "have found different topics" in numbered.diagnostics_["warnings"][0]
    alone = fit(X, K=3, alpha=alpha, eta=0.1, n_particles=1)
    assert alone.diagnostics_["warnings"] == []


def test_passes_go_on_until_topics_are_still(monkeypatch):
    """Where there is no chain: up to the limit of visits, and no further than topics move."""
    rng = np.random.default_rng(8)
    true = rng.dirichlet(np.full(60, 0.1), 4)
    X = np.array([rng.multinomial(50, t @ true) for t in rng.dirichlet([0.2] * 4, 300)])
    monkeypatch.setattr(draws, "_VISITS", 1e4)
    found = fit(X, K=4, alpha=0.2, eta=0.1)
    assert 5 < found.n_iter_ <= 20 and found.posterior_.draws is None
    if found.n_iter_ < 20:
        assert found._state.change <= fits._MOVING
    monkeypatch.setattr(fits, "_PASS_VISITS", 7.5 * X.sum())
    monkeypatch.setattr(fits, "_MOVING", 0.0)
    with pytest.warns(ConvergenceWarning, match="still change from pass to pass"):
        assert fit(X, K=4, alpha=0.2, eta=0.1).n_iter_ == 7


def test_uncertain_topics_are_no_disagreement():
    """Particles differ as much in both, but in the first by no more than two tokens leave open."""
    words = np.zeros((3, 12, 2), dtype=np.float32)
    for i in range(3):
        words[i, [i, i + 3], 0] = words[i, 11, 1] = 1.0
    topics, labels = (
        Topics(np.full((3, 2), 0.5), np.full((1, 2), 0.01), np.ones(3), 12),
        [[0, 1]] * 3,
    )
    for factor, n in ((1.0, 0), (500.0, 1)):
        totals = factor * words.sum(axis=1, dtype=np.float64)
        counts = Counts(np.float32(factor) * words, totals, np.full(3, np.nan), 1.0)
        found = disagreement(topics, counts, labels, np.full(3, -np.log(3.0)))
        assert len(found) == n and all("in 1 of 2 (0)" in one for one in found)
    alone = np.array([0.0, -50.0, -50.0])  # Particles without weight are in no average.
    assert disagreement(topics, counts, labels, alone) == []


@pytest.mark.slow
def test_topics_that_still_change_after_the_passes_are_found(monkeypatch):
    """A collection that is too large for chains: after five passes, and no longer after 25."""
    monkeypatch.setattr(draws, "_VISITS", 1e5)
    monkeypatch.setattr(fits, "_PASS_VISITS", 0.0)
    phi, _, X = drawn(9, K=4, V=60, D=1500, L=15, alpha=0.5, eta=0.5)
    with pytest.warns(ConvergenceWarning, match="still change from pass to pass, by"):
        few = fit(X, K=4, alpha=0.5, eta=0.5)
    assert "set max_iter to a larger number" in few.diagnostics_["warnings"][0]
    assert few.posterior_.draws is None and few.n_iter_ == 5
    many = fit(X, K=4, alpha=0.5, eta=0.5, max_iter=25)
    assert many.diagnostics_["warnings"] == []
    held = []
    for model in (few, many):
        place = relabelled(model.topic_word_, phi)[1]
        low, high = np.moveaxis(model.topic_word_interval(0.9)[place], -1, 0)
        held.append(((low <= phi) & (phi <= high)).mean())
    assert held[0] < 0.8 and held[1] > held[0] + 0.05  # The advice helps.


def test_the_change_of_the_last_pass_is_that_of_the_topics():
    X = drawn(3)[2]
    before, after = (fit(X, max_iter=n, n_particles=2)._state.block for n in (3, 4))
    phi = [
        np.array([b.topics.word_probabilities(b.counts, i) for i in range(2)]).astype(float)
        for b in (before, after)
    ]
    size = after.counts.totals + 0.4 * 25
    variance = ((phi[1] * (1.0 - phi[1])).sum(axis=1) / (size + 1.0)).mean(axis=0)
    change = np.sqrt(((phi[1] - phi[0]) ** 2).sum(axis=1).mean(axis=0) / variance).mean()
    found = fit(X, max_iter=4, n_particles=2)._state.change
    np.testing.assert_allclose(found, change, rtol=1e-3)
    assert fit(X, max_iter=1)._state.change is None
    assert fit(X, max_iter=3, weighting="posterior")._state.change is None


@pytest.mark.parametrize("n, length, V, K", [(100, 10_000, 30, 3), (12, 10**6, 10, 2)])
def test_topics_of_words_that_are_repeated_often_are_found(n, length, V, K):
    """Chains that move many words at once end .2 to .45 from the topics that made the words.

    An optimum is .01 to .03 from them in total variation, by 300 passes, as scikit-learn's is.
    """
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(V, 0.5), K)
    X = np.array([rng.multinomial(length, t @ true) for t in rng.dirichlet([0.3] * K, n)])
    found = LDATopicModelPMD(K, random_state=0).fit(X)
    distance = 0.5 * np.abs(found.topic_word_[:, None] - true).sum(axis=2)
    assert distance[linear_sum_assignment(distance)].max() < 0.04
    assert found.posterior_.draws is None and found._state.change <= fits._MOVING


def test_full_iterations_that_do_not_end_are_warned_of(monkeypatch):
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(30, 0.5), 3)
    X = np.array([rng.multinomial(10**5, t @ true) for t in rng.dirichlet([0.3] * 3, 30)])
    monkeypatch.setattr(fits, "_MAX_FULL", 10)
    with pytest.warns(ConvergenceWarning, match="still change .*set max_full_iter to a larger"):
        found = LDATopicModelPMD(3, random_state=0).fit(X)
    assert found.n_iter_ == 15
    LDATopicModelPMD(3, max_full_iter=400, random_state=0).fit(X)
