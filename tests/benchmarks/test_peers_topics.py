"""Baselines of the benchmarks for topic models, where the exact answer is known."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln, softmax
from scipy.stats import chisquare

pytest.importorskip("examples.benchmarks", reason="the benchmarks are not here")
from examples.benchmarks.peers import canini_smc, scvb0, sgrld
from examples.benchmarks.peers.tokens import drawn, listed

ALPHA, ETA, K = 0.4, 0.3, 2
# Two and three tokens, of three words.
DOCUMENTS = csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]]))


def test_tokens_are_those_of_each_document():
    X = csr_array(np.random.default_rng(0).poisson(1.5, (30, 8)).astype(float))
    tokens, starts = listed(X, np.random.default_rng(1))
    found = [np.bincount(tokens[starts[d] : starts[d + 1]], minlength=8) for d in range(30)]
    np.testing.assert_array_equal(found, X.toarray())
    assert not np.array_equal(tokens, listed(X, np.random.default_rng(2))[0])


@pytest.mark.parametrize(("target", "place"), [(0.0, 1), (0.49, 1), (0.5, 3), (1.4, 3), (1.6, 3)])
def test_a_draw_never_takes_what_has_no_weight(target, place):
    # The last target stands for rounding: it is beyond the sum.
    assert drawn(np.array([0.0, 0.5, 0.0, 1.0], dtype=np.float32), target) == place


# ---------------------------------------------------------------------- SGRLD
def test_sgrld_has_the_moments_of_a_dirichlet():
    """Topics with given counts are chains of their own: 1000 of them, with equal counts.

    The bias of the step falls in proportion to it (measured: 5 % of the variances at 0.05). At 0.02
    it is 2 %; means and variances over 500 steps of 1000 chains that forget a state in about 20
    steps have Monte Carlo errors of 0.3 and 1 %.
    """
    rng, counts, eta, size = np.random.default_rng(0), np.array([6.0, 3.0, 1.0]), 2.0, 0.02
    theta = rng.standard_gamma(1.0, (3, 1000), dtype=np.float32)
    given = np.tile(counts[:, None].astype(np.float32), 1000)
    found = []
    for step in range(1000):
        totals = (counts.sum() / theta.sum(axis=0)).astype(np.float32)
        noise = rng.standard_normal(theta.shape, dtype=np.float32)
        sgrld.move(theta, given, totals, np.float32(eta), np.float32(size), noise)
        if step >= 500:
            found.append(sgrld.probabilities(theta))
    found = np.concatenate(found)
    mean = (counts + eta) / (counts + eta).sum()
    variance = mean * (1.0 - mean) / ((counts + eta).sum() + 1.0)
    np.testing.assert_allclose(found.mean(axis=0), mean, rtol=0.015)
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.05)
    np.testing.assert_allclose(theta.sum(axis=0).mean(), 3 * eta, rtol=0.05)


def test_sgrld_expects_the_counts_of_enumeration():
    """Mean counts over a document's labels; 40,000 sweeps: standard errors below 0.01."""
    rng = np.random.default_rng(0)
    theta = rng.standard_gamma(1.0, (3, K), dtype=np.float32)
    alpha, counts = np.full(K, ALPHA, dtype=np.float32), np.zeros((3, K), dtype=np.float32)
    inverse = (1.0 / theta.sum(axis=0)).astype(np.float32)
    tokens, starts = listed(DOCUMENTS, rng)
    given = theta, inverse, alpha, tokens, starts, np.arange(1, 2)
    sgrld.count(*given, 3, 4, counts, rng)
    np.testing.assert_array_equal(counts.sum(axis=1), DOCUMENTS.toarray()[1])  # each token once
    counts[:] = 0.0
    sgrld.count(*given, 10, 40_000, counts, rng)
    phi, own, exact, total = theta * inverse, tokens[starts[1] :], np.zeros((3, K)), 0.0
    for labels in product(range(K), repeat=3):
        held = np.bincount(labels, minlength=K)
        weight = phi[own, labels].prod() * np.exp(gammaln(ALPHA + held).sum())
        total += weight
        np.add.at(exact, (own, labels), weight)
    np.testing.assert_allclose(counts, exact / total, atol=0.03)


@pytest.mark.slow
def test_sgrld_takes_batches_for_all_documents():
    """One topic: the exact posterior is a Dirichlet. The mean over the steps is near its own.

    Runs of other seeds are off by at most 0.006.
    """
    X = csr_array(np.random.default_rng(0).multinomial(3, [0.6, 0.3, 0.1], 10).astype(float))
    setting = {"eta": 2.0, "step": 0.02, "offset": 1e9, "decay": 1.0}
    rng = np.random.default_rng(0)
    tokens, starts = listed(X, rng)
    theta, found = np.ones((3, 1), dtype=np.float32), []
    for t in range(10_000):
        chosen = rng.permutation(10)[:5]
        sgrld.advance(theta, np.ones(1, np.float32), tokens, starts, chosen, setting, t, rng)
        found.append(sgrld.probabilities(theta)[0])
    exact = X.sum(axis=0) + 2.0
    np.testing.assert_allclose(np.mean(found[500:], axis=0), exact / exact.sum(), atol=0.015)


def test_sgrld_answers_where_it_is_asked():
    schedule = {"step": 0.1, "offset": 10.0, "decay": 0.9}
    setting = {"alpha": ALPHA, "eta": ETA, "batch_size": 2, **schedule}
    points = list(sgrld.sgrld(DOCUMENTS, K, setting, 0, (2, 4, 10)))
    assert [topics.step for topics in points] == [2, 4, 10]
    for topics in points:
        np.testing.assert_allclose(topics.words.sum(axis=1), 1.0)
    assert points[0].cpu < points[-1].cpu


# ---------------------------------------------------------------------- SCVB0
SCVB0 = {"alpha": ALPHA, "eta": ETA, "scale": 10.0, "offset": 1000.0}


def test_scvb0_of_one_topic_has_the_counts_of_the_words():
    """Batches give in turn what they have; the last steps average over some hundred of them."""
    X = csr_array(np.random.default_rng(0).multinomial(3, [0.6, 0.3, 0.1], 20).astype(float))
    setting = {**SCVB0, "batch_size": 5, "burn_in": 1}
    *_, found = scvb0.scvb0(X, 1, setting, 0, (20_000,))
    exact = X.sum(axis=0) + ETA
    np.testing.assert_allclose(found.words[0], exact / exact.sum(), atol=0.01)
    assert found.step == 20_000


def test_scvb0_finds_the_fixed_point_of_a_document():
    """Given N, the counts of a document are those that its words have by these very counts."""
    rng = np.random.default_rng(0)
    table = rng.gamma(1.0, 5.0, (6, K)).astype(np.float32)
    topics = table.sum(axis=0, dtype=float)
    X = csr_array(np.array([[4.0, 0.0, 3.0, 2.0, 0.0, 6.0]]))
    gained, seen = np.zeros_like(table), np.zeros(K)
    words = scvb0.visit(
        table, np.float32(1.0), topics, np.float32(ALPHA), np.float32(ETA), 20_000, 1.0, 10.0,
        X.indptr, X.indices, X.data.astype(np.float32), np.arange(1), gained, seen,
    )  # fmt: skip
    np.testing.assert_array_equal(words, [0, 2, 3, 5])
    np.testing.assert_allclose(gained.sum(axis=1), X.toarray()[0], rtol=1e-5)
    given = (table + ETA) / (topics + 6 * ETA) * (seen + ALPHA)
    expected = X.toarray()[0] @ (given / given.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(seen, expected, rtol=0.01)


def test_scvb0_takes_several_tokens_of_a_word_at_once():
    """As often as they stand there, but for the weights, which move little on the way."""
    table = np.random.default_rng(1).gamma(1.0, 5.0, (2, K)).astype(np.float32)
    found = []
    for X in ([[3.0, 5.0]], [[1.0, 1.0]]):
        X, gained, seen = csr_array(np.array(X)), np.zeros_like(table), np.zeros(K)
        scvb0.visit(
            table, np.float32(1.0), table.sum(axis=0, dtype=float), np.float32(1e4),
            np.float32(ETA), 1, 1.0, 10.0, X.indptr, X.indices, X.data.astype(np.float32),
            np.arange(1), gained, seen,
        )  # fmt: skip
        found.append(gained / X.toarray()[0][:, None])
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_scvb0_separates_documents_of_words_apart():
    rng = np.random.default_rng(0)
    halves = np.kron(np.eye(2), np.ones((1, 5))) / 5
    X = csr_array(rng.multinomial(20, halves[rng.integers(2, size=200)]).astype(float))
    setting = {**SCVB0, "batch_size": 20, "burn_in": 2, "offset": 50.0, "scale": 5.0}
    *_, found = scvb0.scvb0(X, 2, setting, 0, (4000,))
    share = found.words[:, :5].sum(axis=1)
    np.testing.assert_allclose(sorted(share), [0.0, 1.0], atol=0.01)


# ---------------------------------------------------------------------- one-particle SMC
def joint(tokens, owner, labels):
    """Log p(words, labels) up to a constant, for some of the tokens."""
    words, documents = np.zeros((3, K)), np.zeros((2, K))
    np.add.at(words, (tokens, labels), 1.0)
    np.add.at(documents, (owner, labels), 1.0)
    topics = gammaln(ETA + words).sum() - gammaln(3 * ETA + words.sum(axis=0)).sum()
    shares = gammaln(ALPHA + documents).sum() - gammaln(K * ALPHA + documents.sum(axis=1)).sum()
    return topics + shares


def fresh(seed):
    return canini_smc.particle(DOCUMENTS, K, ALPHA, ETA, np.random.default_rng(seed))


def test_one_topic_counts_all_words():
    X = csr_array(np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float))
    setting = {"alpha": ALPHA, "eta": ETA, "first": 0.2, "sweeps": 2, "past": 3}
    points = list(canini_smc.one_particle_smc(X, 1, setting, 0, (5, 20, 40)))
    assert [topics.step for topics in points] == [5, 20, 40]
    for topics in points:
        expected = X[: topics.step].sum(axis=0) + ETA
        np.testing.assert_allclose(topics.words[0], expected / expected.sum(), rtol=1e-6)


def test_each_document_comes_once():
    for seed in range(20):
        particle, rng = fresh(seed), np.random.default_rng(seed)
        canini_smc.arrive(particle, 0, 1, 5, rng)
        before = particle.labels[:2].copy()
        assert (particle.labels[2:] == -1).all()
        canini_smc.arrive(particle, 1, 2, 0, rng)
        np.testing.assert_array_equal(particle.labels[:2], before)


@pytest.mark.parametrize("place", range(5))
def test_a_tokens_weights_are_its_conditional_probabilities(place):
    """Float32, so to six digits."""
    rng, weights = np.random.default_rng(place), np.empty(K, dtype=np.float32)
    particle = fresh(place)
    canini_smc.arrive(particle, 0, 2, 1, rng)
    canini_smc.visit(particle, place, weights, rng)
    logs, labels = [], particle.labels.copy()
    for k in range(K):
        labels[place] = k
        logs.append(joint(particle.tokens, particle.owner, labels))
    np.testing.assert_allclose(weights / weights.sum(), softmax(logs), rtol=1e-5)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("past", [0, 30])
def test_labels_follow_the_law_of_the_filter(past):
    """Without rejuvenation tokens are drawn in turn, given those before; with much of it, from p.

    20,000 runs; the two laws are so far apart that a test of one finds the other (p below 1e-10).
    """
    runs = 20_000
    found, codes = np.zeros(K**5), K ** np.arange(5)
    start, rng = fresh(0), np.random.default_rng(1)
    for _ in range(runs):
        particle = start._replace(
            labels=np.full(5, -1), words=np.zeros((3, K), np.int32), totals=np.zeros(K, np.int64),
            documents=np.zeros((2, K), np.int32), inverse=start.inverse.copy(),
        )  # fmt: skip
        canini_smc.arrive(particle, 0, 2, past, rng)
        found[codes @ particle.labels] += 1
    exact = np.zeros(K**5)
    for labels in product(range(K), repeat=5):
        exact[codes @ labels] = law(start, np.array(labels), past)
    assert chisquare(found, runs * exact / exact.sum()).pvalue > 0.01


def law(particle, labels, past):
    """Of the labels, up to a constant."""
    tokens, owner = particle.tokens, particle.owner
    if past:
        return np.exp(joint(tokens, owner, labels))
    probability = 1.0
    for n in range(1, 6):
        logs = []
        for k in range(K):
            logs.append(joint(tokens[:n], owner[:n], np.append(labels[: n - 1], k)))
        probability *= softmax(logs)[labels[n - 1]]
    return probability
