"""Predictions of topic models: against enumeration, slow references and each other."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln, logsumexp

from skpmd import LDATopicModelPMD
from skpmd.lda._averages import completion_split
from skpmd.lda._documents import Documents
from skpmd.lda._inference import document_elbos, topic_mass
from skpmd.lda._topics import Counts, Topics, log_normaliser


def of(X):
    """Documents as kernels take them."""
    return Documents.of(X).for_kernels()


def particles(m=2, K=3, V=7, seed=0, alpha=0.4, eta=0.1, rows=False, scale=0.5):
    """A model and counts with topics of their own in each particle."""
    rng = np.random.default_rng(seed)
    prior = eta * (0.5 + rng.random((V, K))) if rows else np.full((1, K), eta)
    words = rng.gamma(0.3, 30.0, size=(m, V, K)).astype(np.float32)
    totals = scale * words.sum(axis=1, dtype=np.float64)
    model = Topics(alpha * (0.5 + rng.random((m, K))), prior, np.linspace(0.5, 1.5, m), V)
    return model, Counts(words, totals, np.full(m, np.nan), scale)


def documents(n=30, V=7, length=8.0, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.poisson(length / V * rng.gamma(0.5, 2.0, size=(n, V)))
    X[0] = 0
    return sp.csr_matrix(X.astype(np.float32))


def estimator_of(model, counts, weights, **params):
    """An estimator that holds given particles."""
    params = {"weighting": "stacking", "mean_change_tol": 1e-6, "max_iter": 5, **params}
    estimator = LDATopicModelPMD(
        model.K, n_particles=model.m, doc_topic_prior=model.alpha[0], random_state=0, **params
    ).fit(documents(V=model.V))
    block = estimator._state.block
    scores = block.scores._replace(log_weights=np.log(np.asarray(weights)))
    block = block._replace(topics=model, counts=counts, scores=scores)
    estimator._set_state(estimator._state._replace(block=block))
    return estimator


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(40, 0.2), 4)
    proportions = rng.dirichlet(np.full(4, 0.3), 150)
    X = np.array([rng.multinomial(rng.poisson(25), one @ topics) for one in proportions])
    X[5] = 0
    return X.astype(np.float64)


@pytest.fixture(scope="module")
def lda(corpus):
    return LDATopicModelPMD(4, doc_topic_prior=0.3, n_particles=3, random_state=0).fit(corpus)


def exact(phi, alpha, tokens):
    """Log probability of a few tokens, by all assignments."""
    total = []
    for z in product(range(len(alpha)), repeat=len(tokens)):
        n = np.bincount(z, minlength=len(alpha))
        words = np.log(phi[tokens, list(z)]).sum()
        total.append(words + log_normaliser(alpha + n) - log_normaliser(alpha))
    return logsumexp(total)


# ---------------------------------------------------------------------- bounds
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("rows", [False, True])
def test_elbos_are_below_the_enumerated_probability_and_near_it(K, rows):
    model, counts = particles(m=2, K=K, rows=rows, alpha=0.8)
    rng = np.random.default_rng(0)
    gaps = []
    for n in (1, 2, 3, 5, 6):
        for i in range(2):
            tokens = rng.integers(0, 7, n)
            X = sp.csr_matrix(np.bincount(tokens, minlength=7)[None].astype(np.float32))
            phi = model.word_probabilities(counts, i).astype(np.float64)
            gap = exact(phi, model.alpha[i], tokens) - document_elbos(model, counts, i, of(X))[0]
            assert gap > -1e-5
            gaps.append(gap / n)
    assert max(gaps) < 0.4 and np.mean(gaps) < 0.2


def slow(phi, alpha, counts, weigh, iterations, mass=None):
    """Pseudo-counts of one document after many iterations, in double precision."""
    mass = alpha + counts.sum() / len(alpha) if mass is None else mass
    for _ in range(iterations):
        r = phi * weigh(mass)
        mass = alpha + counts @ (r / r.sum(axis=1, keepdims=True))
    return mass


@pytest.mark.parametrize("K", [1, 2, 15, 16, 17, 33])
@pytest.mark.parametrize("rows", [False, True])
def test_kernels_agree_with_slow_references(K, rows):
    model, counts = particles(m=2, K=K, V=23, rows=rows)
    X = documents(n=6, V=23, length=250.0)  # Shorter ones have a chain, and no fixed point.
    assert X.sum(axis=1)[1:].min() > 64
    for i in range(2):
        phi, alpha = model.word_probabilities(counts, i).astype(np.float64), model.alpha[i]
        found = topic_mass(model, counts, i, of(X), 25, 0.0)
        bounds = document_elbos(model, counts, i, of(X), 25, 0.0)
        for d, row in enumerate(X.toarray().astype(np.float64)):
            mass = slow(phi, alpha, row, lambda mass: mass, 25)
            np.testing.assert_allclose(found[d], mass, rtol=1e-3, atol=1e-4)
            starts = alpha + row.sum() / K, in_turn(phi, alpha, row)
            best = max(slow_bound(phi, alpha, row, start) for start in starts)
            np.testing.assert_allclose(bounds[d], best, rtol=1e-4, atol=1e-5)


def in_turn(phi, alpha, counts):
    """Pseudo-counts with each word in the best topic given those before."""
    mass = alpha.copy()
    for own, count in zip(phi, counts, strict=True):
        mass[np.argmax(own * mass)] += count
    return mass


def slow_bound(phi, alpha, row, start):
    """The bound of one document after many iterations, in double precision."""
    mass = slow(phi, alpha, row, lambda mass: np.exp(digamma(mass)), 25, start)
    t = np.exp(digamma(mass))
    r = phi * t / (phi @ t)[:, None]
    n = row @ r
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(r > 0, r * (np.log(phi) - np.log(r)), 0.0).sum(axis=1)
    value = row @ terms + (gammaln(alpha + n) - gammaln(alpha)).sum()
    return value + gammaln(alpha.sum()) - gammaln(alpha.sum() + n.sum())


def test_the_bound_breaks_the_tie_of_equal_topics():
    """Among topics that are all alike, the bound is no worse than that with words of one topic."""
    K, V = 30, 6
    words = np.ones((1, V, K), dtype=np.float32) * 100.0
    model = Topics(np.full((1, K), 1.0 / K), np.full((1, K), 0.1), np.ones(1), V)
    counts = Counts(words, words.sum(axis=1, dtype=np.float64), np.zeros(1), 1.0)
    X = sp.csr_matrix(np.full((1, V), 10.0, dtype=np.float32))
    bound = document_elbos(model, counts, 0, of(X))[0]
    exactly, one = 60.0 * np.log(1.0 / V), np.eye(K)[0] * 60.0
    least = log_normaliser(model.alpha[0] + one) - log_normaliser(model.alpha[0])
    tied = slow_bound(np.full((V, K), 1.0 / V), model.alpha[0], X.toarray()[0], 1.0 / K + 60.0 / K)
    assert tied < exactly - 30.0 < exactly + least - 1e-3 < bound <= exactly + 1e-3


def test_iterations_end_as_set():
    model, counts = particles(K=4, V=23)
    X = documents(V=23, length=150.0)
    once, often, all_of_them = (
        topic_mass(model, counts, 0, of(X), *ends) for ends in ((1, 0.0), (500, 1e-3), (500, 0.0))
    )
    assert np.abs(once - all_of_them).max() > 0.1
    assert np.abs(often - all_of_them).max() < 0.5
    assert np.abs(often - all_of_them).max() > 0.0
    value = [document_elbos(model, counts, 0, of(X), n, 0.0).sum() for n in (1, 3, 10, 100)]
    assert (np.diff(value) > 0.0).all()


# ---------------------------------------------------------------------- averages
@pytest.mark.parametrize("alike", [False, True])
def test_predictions_are_averages_over_particles(alike):
    """Topics of priors of their own keep their places, and those that are alike are matched."""
    model, counts = particles(m=3, K=4, V=11)
    if alike:
        model = Topics(np.full((3, 4), 0.4), model.eta, model.eta_scale, 11)
    X, weights = documents(V=11), np.array([0.2, 0.5, 0.3])
    estimator = estimator_of(model, counts, weights)
    order = estimator._labels
    assert sorted(map(tuple, np.sort(order, axis=1))) == [(0, 1, 2, 3)] * 3
    assert (order != np.arange(4)).any() == alike
    ends = estimator.max_doc_update_iter, estimator.mean_change_tol
    mass = [topic_mass(model, counts, i, of(X), *ends, stream=i)[:, order[i]] for i in range(3)]
    proportions = [one / one.sum(axis=1, keepdims=True) for one in mass]
    np.testing.assert_allclose(
        estimator.transform(X), np.tensordot(weights, proportions, 1), rtol=1e-5
    )
    raw = estimator.transform(X, normalize=False)
    np.testing.assert_allclose(raw, np.tensordot(weights, mass, 1), rtol=1e-5)
    own = (weights @ model.alpha).sum() + np.asarray(X.sum(axis=1)).ravel()
    np.testing.assert_allclose(raw.sum(axis=1), own, rtol=1e-5)
    bounds = np.array([document_elbos(model, counts, i, of(X), *ends) for i in range(3)])
    expected = logsumexp(bounds + np.log(weights)[:, None], axis=0)
    # A document without words has log probability 0, up to the rounding of three weights.
    np.testing.assert_allclose(estimator.score_samples(X), expected, rtol=1e-12, atol=1e-15)


def test_completion_is_the_average_of_probabilities_of_words():
    model, counts = particles(m=3, K=4, V=11)
    X, weights = documents(V=11), np.array([0.2, 0.5, 0.3])
    estimator = estimator_of(model, counts, weights)
    given, held_out = completion_split(X)
    probability = np.zeros(held_out.shape)
    for i in range(3):
        mass = topic_mass(model, counts, i, of(given), 100, 1e-6, stream=i)
        proportions = mass / mass.sum(axis=1, keepdims=True)
        probability += weights[i] * (proportions @ model.word_probabilities(counts, i).T)
    expected = np.exp(-(held_out.toarray() * np.log(probability)).sum() / held_out.sum())
    np.testing.assert_allclose(estimator.perplexity(X, method="completion"), expected, rtol=1e-5)


def test_a_particle_without_weight_says_nothing():
    model, counts = particles(m=3, K=4, V=11)
    X = documents(V=11)
    with np.errstate(divide="ignore"):
        estimator = estimator_of(model, counts, [0.0, 0.4, 0.6])
    two = Topics(model.alpha[1:], model.eta, model.eta_scale[1:], 11)
    both = estimator_of(two, counts.select([1, 2]), [0.4, 0.6])
    np.testing.assert_array_equal(estimator.score_samples(X), both.score_samples(X))
    found, expected = estimator.transform(X), both.transform(X)
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(expected, axis=1), rtol=1e-6)


# ---------------------------------------------------------------------- rows, threads, forms
@pytest.mark.slow_for("transform")
@pytest.mark.parametrize("method", ["transform", "score_samples"])
def test_each_document_is_answered_by_itself(lda, corpus, method):
    X = np.tile(corpus, (4, 1))  # more than one piece
    together = getattr(lda, method)(X)
    np.testing.assert_array_equal(together[: len(corpus)], together[-len(corpus) :])
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(getattr(lda, method)(X[order]), together[order])
    for d in (0, 5, 17):
        np.testing.assert_array_equal(getattr(lda, method)(corpus[[d]])[0], together[d])
    threads = LDATopicModelPMD(4, doc_topic_prior=0.3, n_particles=3, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(getattr(threads.fit(corpus), method)(X), together)


def test_shape_and_dtype(lda, corpus):
    proportions = lda.transform(corpus)
    assert proportions.shape == (150, 4) and proportions.dtype == np.float64
    np.testing.assert_allclose(proportions.sum(axis=1), 1.0, rtol=1e-12)
    single = lda.transform(corpus.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, proportions, rtol=1e-6)
    np.testing.assert_array_equal(lda.predict_proba(corpus), proportions)
    assert lda.transform(corpus.astype(int)).dtype == np.float64
    assert lda.transform(np.zeros((2, 40))).shape == (2, 4)


# ---------------------------------------------------------------------- perplexity
def test_perplexity_by_the_bound(lda, corpus):
    score = lda.score(corpus)
    assert score == lda.score_samples(corpus).sum()
    assert lda.perplexity(corpus) == np.exp(-score / corpus.sum())
    # The bound is above the perplexity.
    assert 10.0 < lda.perplexity(corpus, "completion") < lda.perplexity(corpus) < 40.0


# ---------------------------------------------------------------------- errors
def test_errors_name_what_to_do(lda, corpus):
    with pytest.raises(ValueError, match="method must be 'bound' or 'completion', got 'gibbs'"):
        lda.perplexity(corpus, method="gibbs")
    for method in ("bound", "completion"):
        with pytest.raises(ValueError, match="no words that perplexity could be of"):
            lda.perplexity(np.zeros((3, 40)), method=method)
