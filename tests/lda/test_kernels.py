"""Kernels and steps of topic models beside slow references and enumerated posteriors."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from skpmd._runtime.threads import threads
from skpmd.lda import _kernels as kernels
from skpmd.lda._documents import Documents
from skpmd.lda._topics import ASSIGNMENTS, Counts, LocalUpdate, Topics

SIZES = [1, 3, 4, 5, 15, 16, 17, 33]  # around the blocks and groups of the kernels


def documents(*rows):
    """Documents from dicts of {word: count}."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([w for row in rows for w in row], dtype=np.int32)
    data = np.array([c for row in rows for c in row.values()], dtype=np.float32)
    return Documents(indptr, indices, data)


ROWS = {0: 2, 3: 1, 4: 3}, {}, {1: 1}, {2: 1.5, 5: 0.25, 0: 1}, {3: 4, 2: 1}
DOCS = documents(*ROWS)


def topics(K, V=6, m=1, alpha=0.3, eta=0.2):
    return Topics(np.full((m, K), alpha), np.full((1, K), eta), np.ones(m), V)


def fitted_counts(model, seed=0):
    """Counts that tell topics apart."""
    words = np.random.default_rng(seed).gamma(0.5, 10.0, size=(model.m, model.V, model.K))
    words = words.astype(np.float32)
    totals = words.sum(axis=1, dtype=float)
    return Counts(words, totals, np.zeros(model.m), 1.0)


def assign_words(assignment, model, counts, docs, *options, seeds=None):
    """Expected counts and mass by a kernel, for the first particle."""
    assigned = np.full((len(docs.indices), model.K), np.nan, dtype=np.float32)
    mass = np.full((docs.n, model.K), np.nan, dtype=np.float32)
    if assignment == "sampled":
        seeds = np.arange(docs.n, dtype=np.uint64) if seeds is None else seeds
        options = seeds, *options
    kernel = getattr(kernels, assignment)
    given = model.arguments_of_fits(counts, 0)
    kernel(*docs, 0, docs.n, *given, *options, assigned, mass)
    return assigned, mass


def parts(model, counts, docs):
    """Of each document: its words' counts, phi of shape (n, K), and where they stand."""
    phi = model.word_probabilities(counts, 0).astype(float)
    for d in range(docs.n):
        own = slice(docs.indptr[d], docs.indptr[d + 1])
        yield docs.data[own].astype(float), phi[docs.indices[own]], own


def splitmix(seed):
    """Numbers in [0, 1) of a document's stream, by the reference implementation of splitmix64."""
    state, mask = int(seed), (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield ((z ^ (z >> 31)) >> 40) / (1 << 24)


# ---------------------------------------------------------------------- kernels
@pytest.mark.parametrize("K", SIZES)
def test_soft_assignments_are_those_of_expectation_maximisation(K):
    model = topics(K)
    counts = fitted_counts(model)
    assigned, mass = assign_words("soft", model, counts, DOCS, 7)
    for (c, phi, own), total in zip(parts(model, counts, DOCS), mass, strict=True):
        theta = model.alpha[0] + c.sum() / K
        for _ in range(8):
            r = c[:, None] * phi * theta / (phi @ theta)[:, None]
            theta = model.alpha[0] + r.sum(axis=0)
        np.testing.assert_allclose(assigned[own], r, rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(total, r.sum(axis=0), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("K", SIZES)
def test_collapsed_assignments_leave_a_token_out(K):
    model = topics(K)
    counts = fitted_counts(model)
    assigned, mass = assign_words("collapsed", model, counts, DOCS, 4)
    for (c, phi, own), total in zip(parts(model, counts, DOCS), mass, strict=True):
        r = phi * model.alpha[0]
        r /= r.sum(axis=1, keepdims=True)
        for _ in range(4):
            for j in range(len(c)):
                others = model.alpha[0] + c @ r - min(c[j], 1.0) * r[j]
                r[j] = phi[j] * others / (phi[j] @ others)
        np.testing.assert_allclose(assigned[own], c[:, None] * r, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(total, c @ r, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("scale", [0.02, 0.5])
def test_collapsed_assignments_of_parts_of_words_are_parts(scale):
    """Of a word that counts less than a token, no more than that is left out."""
    rows = {0: 1, 3: 1, 4: 1}, {2: 1, 5: 1}
    scaled = documents(*({w: scale for w in row} for row in rows))
    whole, part = topics(4), topics(4, alpha=0.3 * scale)
    assigned, _ = assign_words("collapsed", whole, fitted_counts(whole), documents(*rows), 20)
    of_parts, _ = assign_words("collapsed", part, fitted_counts(part), scaled, 20)
    np.testing.assert_allclose(of_parts, scale * assigned, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("K", SIZES)
def test_sampled_assignments_are_a_gibbs_chains_conditional_probabilities(K):
    model = topics(K)
    counts = fitted_counts(model)
    seeds = np.arange(DOCS.n, dtype=np.uint64) + 100
    assigned, mass = assign_words("sampled", model, counts, DOCS, 5, 2, seeds=seeds)
    own_parts = parts(model, counts, DOCS)
    for (c, phi, own), total, seed in zip(own_parts, mass, seeds, strict=True):
        expected = _gibbs(c, phi, model.alpha[0], 5, 2, splitmix(seed))
        np.testing.assert_allclose(assigned[own], expected, rtol=2e-4, atol=1e-6)
        np.testing.assert_allclose(total, expected.sum(axis=0), rtol=2e-4, atol=1e-6)


def _gibbs(c, phi, alpha, n_local_iter, n_burn, uniforms):
    """From two steps of expectation-maximisation on."""
    mass = alpha + c.sum() / len(alpha)
    for _ in range(2):
        mass = alpha + (c[:, None] * phi * mass / (phi @ mass)[:, None]).sum(axis=0)
    tokens = np.repeat(np.arange(len(c)), np.ceil(c).astype(int))
    each = (c / np.ceil(c))[tokens]

    def drawn(p):
        return int((np.cumsum(p) <= next(uniforms) * p.sum()).sum())

    z = [drawn(phi[j] * mass) for j in tokens]
    mass, assigned = alpha.copy(), np.zeros_like(phi)
    np.add.at(mass, z, each)
    for iteration in range(n_local_iter):
        for i, j in enumerate(tokens):
            mass[z[i]] -= each[i]
            p = phi[j] * mass
            z[i] = drawn(p)
            mass[z[i]] += each[i]
            if iteration >= n_burn:
                assigned[j] += each[i] * p / p.sum() / (n_local_iter - n_burn)
    return assigned


def test_sampled_assignments_approach_the_posterior_of_a_document():
    """All assignments of five tokens are summed over."""
    model, docs = topics(3), documents({0: 2, 3: 1, 4: 2})
    counts = fitted_counts(model)
    c, phi, _ = next(parts(model, counts, docs))
    word = np.repeat(np.arange(3), c.astype(int))
    expected = np.zeros_like(phi)
    for z in itertools.product(range(3), repeat=5):
        n = np.bincount(z, minlength=3)
        p = np.prod(phi[word, z]) * np.exp(gammaln(0.3 + n).sum())
        np.add.at(expected, (word, z), p)
    expected *= c.sum() / expected.sum()
    many = Documents(np.arange(31) * 3, np.tile(docs.indices, 30), np.tile(docs.data, 30))
    assigned, _ = assign_words("sampled", model, counts, many, 1020, 20)
    np.testing.assert_allclose(assigned.reshape(30, 3, 3).mean(axis=0), expected, atol=0.01)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("alpha", [1e-30, 1e-9, 1e3])
@pytest.mark.parametrize("K", [1, 2, 17])
def test_words_are_assigned_in_full(assignment, alpha, K):
    """Also those that are unlikely under all topics."""
    model = topics(K, alpha=alpha, eta=1e-9)
    counts = fitted_counts(model)._replace(words=np.zeros((1, 6, K), dtype=np.float32))
    docs = documents({0: 1}, {0: 200, 1: 0.01, 5: 1e6}, {2: 1, 3: 1})
    options = (3, 1) if assignment == "sampled" else (3,)
    assigned, mass = assign_words(assignment, model, counts, docs, *options)
    np.testing.assert_allclose(assigned.sum(axis=1), docs.data, rtol=1e-4)
    np.testing.assert_allclose(mass.sum(axis=1), [1, 1000200.01, 2], rtol=1e-4)
    assert (assigned >= 0.0).all()


def test_deposits_and_entropies_are_sums():
    rng, K = np.random.default_rng(0), 5
    assigned = DOCS.data[:, None] * rng.dirichlet(np.ones(K), size=len(DOCS.data))
    assigned[0, 0] = 0.0
    assigned = assigned.astype(np.float32)
    words = np.ones((6, K), dtype=np.float32)
    kernels.deposit(DOCS.indices, assigned, words, np.float32(0.5), 1, 6)  # not word 0
    expected = np.ones((6, K))
    np.add.at(expected, DOCS.indices, 0.5 * assigned)
    expected[0] = 1.0
    np.testing.assert_allclose(words, expected, rtol=1e-6)
    entropy = np.zeros(DOCS.n)
    kernels.entropies(*DOCS, 0, DOCS.n, assigned, entropy)
    terms = np.where(
        assigned > 0, assigned * np.log(np.maximum(assigned, 1e-30) / DOCS.data[:, None]), 0
    )
    expected = [-terms[a:b].sum() for a, b in itertools.pairwise(DOCS.indptr)]
    np.testing.assert_allclose(entropy, expected, rtol=1e-5, atol=1e-12)


# ---------------------------------------------------------------------- steps
SOFT = LocalUpdate("soft", 5)


def step(model, counts, docs, update=SOFT, discount=0.0, gain=1.0, n_jobs=1, terms=True):
    """discount * counts + gain (the documents' counts), as in a fit, and the documents' mass."""
    seeds = np.arange(model.m * docs.n, dtype=np.uint64).reshape(model.m, -1)
    counts = counts._replace(words=counts.words.copy())
    with threads(n_jobs):
        return model.add_documents(
            counts.discounted(discount), gain, counts, docs, update, seeds, terms
        )


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_a_step_is_a_convex_combination(assignment):
    model = topics(4, m=2)
    before, update = fitted_counts(model), LocalUpdate(assignment, 4, 1)
    new, mass = step(model, before, DOCS, update)
    after, _ = step(model, before, DOCS, update, discount=0.7, gain=2.0)
    words = after.words * after.scale
    np.testing.assert_allclose(words, 0.7 * before.words + 2.0 * new.words, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after.totals, words.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(after.documents, 2.0 * new.documents, rtol=1e-4)
    np.testing.assert_allclose(mass.sum(axis=1), new.totals, rtol=1e-5)
    by_word = np.bincount(DOCS.indices, DOCS.data, minlength=6)
    np.testing.assert_allclose(new.words.sum(axis=2), np.tile(by_word, (2, 1)), rtol=1e-5)


def test_a_scale_that_would_underflow_is_taken_into_the_counts():
    model = topics(3)
    slow = counts = fitted_counts(model)
    for _ in range(20):
        counts, _ = step(model, counts, DOCS, discount=0.1, gain=1.0)
        slow = slow._replace(words=(slow.words * slow.scale).astype(np.float32), scale=1.0)
        slow, _ = step(model, slow, DOCS, discount=0.1, gain=1.0)
    assert 1e-13 < counts.scale <= 1.0
    np.testing.assert_allclose(counts.words * counts.scale, slow.words * slow.scale, rtol=1e-4)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("m", [1, 3])
def test_threads_do_not_change_the_answer(assignment, m):
    model = topics(5, m=m)
    answers = [
        step(model, fitted_counts(model), DOCS, LocalUpdate(assignment, 4, 1), 0.5, 2.0, n_jobs)
        for n_jobs in (1, 2, 3)
    ]
    for counts, mass in answers[1:]:
        for one, other in zip((*counts, mass), (*answers[0][0], answers[0][1]), strict=True):
            np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------- what counts say
@pytest.mark.parametrize(
    "eta", [np.full((1, 3), 0.4), np.random.default_rng(0).gamma(1, 1, (6, 3))]
)
def test_expected_word_probabilities(eta):
    model = Topics(np.full((2, 3), 0.1), eta, np.array([1.0, 2.5]), 6)
    counts = fitted_counts(model)._replace(scale=1.0)
    for i, scale in enumerate((1.0, 2.5)):
        pseudo = counts.words[i] + scale * eta
        phi = model.word_probabilities(counts, i)
        np.testing.assert_allclose(phi, pseudo / pseudo.sum(axis=0), rtol=1e-5)
        np.testing.assert_allclose(phi.sum(axis=0), 1.0, rtol=1e-5)


def test_particles_of_one_scale_have_one_prior_of_words():
    eta = np.random.default_rng(0).gamma(1, 1, (6, 3))
    model = Topics(np.full((3, 3), 0.1), eta, np.array([1.0, 2.0, 1.0]), 6)
    priors = [model.kernel_arguments(fitted_counts(model), i)[2] for i in range(3)]
    assert priors[0] is priors[2]
    np.testing.assert_allclose(priors[1], 2.0 * eta, rtol=1e-6)


def test_the_guess_stands_for_a_part_of_the_words_and_is_discounted():
    model = topics(3, V=500, m=2)
    guess = model.initial_counts(1000.0, np.random.default_rng(0))
    np.testing.assert_allclose(guess.totals.sum(axis=1), 100.0, rtol=0.05)
    np.testing.assert_allclose(guess.words.sum(axis=1), guess.totals, rtol=1e-4)
    counts, _ = step(model, guess, DOCS, discount=0.0)
    np.testing.assert_allclose(counts.totals.sum(axis=1), DOCS.data.sum(), rtol=1e-5)


# ---------------------------------------------------------------------- evidence
def log_rise(prior, counts):
    """A(prior + counts) - A(prior) of Dirichlet distributions along the last axis."""
    after = gammaln(prior + counts).sum(axis=-1) - gammaln((prior + counts).sum(axis=-1))
    return after - gammaln(prior).sum(axis=-1) + gammaln(prior.sum(axis=-1))


def test_elbo_is_its_formula():
    model, alpha = topics(3), np.full(3, 0.3)
    before = fitted_counts(model)
    assigned, mass = assign_words("soft", model, before, DOCS, 5)
    counts, _ = step(model, before, DOCS, SOFT)
    of_topics = np.zeros((3, 6))
    np.add.at(of_topics.T, DOCS.indices, assigned)
    entropy = -(assigned * np.log(assigned / DOCS.data[:, None])).sum()
    terms = log_rise(np.full((3, 6), 0.2), of_topics).sum() + log_rise(alpha, mass).sum()
    assert model.elbo(counts)[0] == pytest.approx(terms + entropy, rel=1e-5)


TINY = documents({0: 2, 1: 1}, {2: 2}, {0: 1, 2: 1})
TOKENS = [(0, 0), (0, 0), (0, 1), (1, 2), (1, 2), (2, 0), (2, 2)]  # document, word


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("alpha", [[0.1, 0.1], [2.0, 0.5]])
@pytest.mark.parametrize("eta", [np.full((1, 2), 0.1), np.array([[1, 0.2], [0.5, 1], [0.1, 2]])])
def test_elbo_is_below_the_evidence_and_near_it(assignment, alpha, eta):
    """All assignments of a tiny corpus are summed over."""
    model = Topics(np.array([alpha]), eta, np.array([0.8]), 3)
    d, w = np.array(TOKENS).T
    logs = []
    for z in itertools.product(range(2), repeat=len(TOKENS)):
        of_documents, of_topics = np.zeros((3, 2)), np.zeros((2, 3))
        np.add.at(of_documents, (d, z), 1.0)
        np.add.at(of_topics, (z, w), 1.0)
        prior = np.broadcast_to(0.8 * eta, (3, 2)).T
        one = log_rise(np.array(alpha), of_documents).sum() + log_rise(prior, of_topics).sum()
        logs.append(one)
    exact, counts = logsumexp(logs), fitted_counts(model)
    for _ in range(30):
        counts, _ = step(model, counts, TINY, LocalUpdate(assignment, 20, 5))
    assert exact - 5.0 < model.elbo(counts)[0] < exact


def test_elbo_of_documents_that_were_not_counted_is_not_a_number():
    model = topics(2)
    counts, _ = step(model, fitted_counts(model), DOCS, terms=False)
    assert np.isnan(model.elbo(counts)).all()
