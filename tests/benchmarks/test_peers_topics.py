"""Baselines of the benchmarks for topic models, where the exact answer is known."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln, softmax

pytest.importorskip("examples.benchmarks", reason="the benchmarks are not here")
from examples.benchmarks.peers import canini_smc, scvb0, sgrld
from examples.benchmarks.peers.tokens import listed

ALPHA, ETA, K = 0.4, 0.3, 2
# Two and three tokens, of three words.
DOCUMENTS = csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]]))


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


@pytest.mark.slow
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


# ---------------------------------------------------------------------- SCVB0
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
