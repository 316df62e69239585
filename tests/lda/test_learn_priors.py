"""Learning the scales of a topic model's priors."""

import copy
import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from scipy.stats import hypergeom, multivariate_hypergeom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skpmd import LDATopicModelPMD
from skpmd.lda import _learn_priors as learning
from skpmd.lda._prior_scale import SD, Groups, PriorScale, Tally
from skpmd.lda._topics import Counts, Topics


def corpus(D, V, K, length, alpha, eta, seed=0):
    """Documents of the model, and their true words of each topic."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(V, eta), size=K)
    proportions = rng.dirichlet(np.broadcast_to(alpha, (K,)), size=D)
    topics = np.array([rng.multinomial(length, one) for one in proportions])
    X, words = np.zeros((D, V)), np.zeros((V, K))
    for d, k in np.argwhere(topics):
        drawn = rng.multinomial(topics[d, k], phi[k])
        X[d] += drawn
        words[:, k] += drawn
    return sp.csr_matrix(X), topics, words


def log_probability(counts, prior):
    """Of a sequence of words with these counts: a Dirichlet-multinomial."""
    rises = gammaln(prior + counts) - gammaln(prior)
    total = gammaln(prior.sum() + counts.sum()) - gammaln(prior.sum())
    return rises.sum() - total


# ---------------------------------------------------------------------- tallies
def test_tally_is_the_mean_over_draws_without_putting_back():
    counts = np.array([[7, 0, 3, 30], [1, 20, 3, 0], [12, 5, 3, 0]], dtype=np.float32)
    scale = PriorScale(Groups.of(np.ones((1, 1))), Groups.of(np.ones(1)), (6, 0.5))
    tally = scale.tally(counts, 2.0, 2.0 * counts.sum(axis=0, dtype=np.float64))
    whole = 2 * counts.astype(int)
    exact = np.zeros(6)
    for total, column in zip(whole.sum(axis=0), whole.T, strict=True):
        exact += hypergeom.sf(np.arange(6), total, column[:, None], 6).sum(axis=0)
    np.testing.assert_allclose(tally.parts[0], exact, atol=1e-6)
    np.testing.assert_array_equal(tally.wholes, np.full((1, 6), 4.0))


def test_rare_words_are_tallied_without_the_sum():
    total, n = 40_000.0, 30
    counts = np.array([[20.0], [3.0], [0.25], [total - 23.25]], dtype=np.float32)
    scale = PriorScale(Groups.of(np.ones((1, 1))), Groups.of(np.ones(1)), (n, 0.5))
    tally = scale.tally(counts, 1.0, np.array([total]))
    np.testing.assert_allclose(tally.parts.sum(), n, rtol=1e-4)  # each draw is of some word
    rare = hypergeom.sf(np.arange(2), int(total), np.array([[20], [3]]), n).sum(axis=0)
    rest = 1.0 + n * 0.25 / total  # the first beyond 0 is surely drawn
    np.testing.assert_allclose(tally.parts[0, 0], rest + rare[0], rtol=1e-6)
    # By the first rare draw the frequent word has one draw less: two or more of it as well.
    np.testing.assert_allclose(tally.parts[0, 1] - rare[1], 1.0, rtol=1e-6)


@pytest.mark.parametrize("alpha", [np.full(4, 0.3), np.array([0.3, 0.3 * np.exp(2.0), 0.3, 0.3])])
def test_likelihood_is_the_mean_over_draws_of_the_dirichlet_multinomial(alpha):
    rows, theta = np.array([[3, 2, 4, 0], [9, 0, 0, 1], [0, 8, 0, 0]]), np.array([[-1.0], [0.7]])
    scale = PriorScale.of_documents(alpha)
    columns, totals = np.ascontiguousarray(rows.T, dtype=np.float32), rows.sum(axis=1)
    result = scale.log_likelihood(theta, scale.tally(columns, 1.0, totals.astype(float)))
    exact = np.zeros(2)
    for row, total in zip(rows, totals, strict=True):
        n = total // 2
        for drawn in itertools.product(*(range(min(count, n) + 1) for count in row)):
            if sum(drawn) == n:
                chance = multivariate_hypergeom.pmf(drawn, row, n)
                values = [log_probability(np.array(drawn), np.exp(t) * alpha) for t in theta[:, 0]]
                exact += chance * np.array(values)
    np.testing.assert_allclose(result, exact, rtol=1e-6)


def test_groups_are_near_their_values():
    eta = np.exp(np.random.default_rng(0).normal(size=(50, 6), scale=0.3))
    groups = Groups.of(eta)
    assert len(groups.values) <= 17
    assert np.abs(np.log(groups.values[groups.index] / eta)).max() <= 0.0626
    assert len(Groups.of(np.full((1, 9), 0.2)).values) == 1


def test_prior_is_normalised_and_sampled():
    scale = PriorScale.of_documents(np.ones(3))
    grid = np.linspace(-12.0, 12.0, 4001)[:, None]
    assert np.trapezoid(np.exp(scale.log_prior(grid)), grid[:, 0]) == pytest.approx(1.0)
    assert scale.sample_prior(np.random.default_rng(0), 4000).std() == pytest.approx(SD, rel=0.05)


# ---------------------------------------------------------------------- scale particles
def true_counts(words):
    return Counts(words[None].astype(np.float32), words.sum(axis=0)[None], np.zeros(1), 1.0)


def test_a_step_on_all_documents_is_the_posterior_on_a_grid():
    _, topics, words = corpus(400, 120, 4, 30, 0.4, 0.1)
    model = Topics(np.full((1, 4), 0.25), np.full((1, 4), 0.25), np.ones(1), 120)
    rng = np.random.default_rng(0)
    state, model = learning.initialise(model, rng)
    few = topics[:16]  # each for 25
    counts, mass = true_counts(words), few[None].astype(np.float32)
    given = {"n_entries": 10_000, "mass": mass, "gamma": 1.0, "copies": 25.0, "rng": rng}
    given["weight"] = np.ones(mass.shape[1])
    state, model = learning.update(state, model, counts, **given)
    grid = np.linspace(-3.0, 3.0, 2001)[:, None]
    columns = np.ascontiguousarray(few.T, dtype=np.float32)
    of_documents = state.scale.tally(columns, 1.0, few.sum(axis=1).astype(float)).times(25.0)
    of_topics = PriorScale.of_topics(model.eta, model.V)
    for scale, tally, result in (
        (state.scale, of_documents, model.alpha[0, 0] / 0.25),
        (of_topics, of_topics.tally(words.astype(np.float32), 1.0, words.sum(axis=0)),
         model.eta_scale[0]),
    ):  # fmt: skip
        log_density = scale.log_prior(grid) + scale.log_likelihood(grid, tally)
        density = np.exp(log_density - log_density.max())
        mean = (density @ grid[:, 0]) / density.sum()
        sd = np.sqrt(density @ (grid[:, 0] - mean) ** 2 / density.sum())
        assert abs(np.log(result) - mean) < 0.5 * sd


def test_scales_wait_until_the_guess_is_gone():
    model = Topics(np.full((2, 3), 0.1), np.full((1, 3), 0.1), np.ones(2), 40)
    rng = np.random.default_rng(0)
    state, model = learning.initialise(model, rng)
    mass = np.ones((2, 5, 3), dtype=np.float32)
    for gamma, starts in ((0.5, False), (0.9, False), (0.99, True)):
        before = state
        given = {"n_entries": 9, "mass": mass, "gamma": gamma, "copies": 1.0, "rng": rng}
        given["weight"] = np.ones(mass.shape[1])
        state, after = learning.update(state, model, model.initial_counts(9.0, rng), **given)
        assert (state.tallies is not None) == starts
        assert after is model and state.documents is before.documents
    assert isinstance(state.tallies[0], Tally)
    assert len(state.select([1, 1]).documents) == 2


# ---------------------------------------------------------------------- estimator
@pytest.mark.slow_but("1.0-sampled")
@pytest.mark.parametrize(
    "case",
    [(1500, 400, 6, 50, 0.15, 0.08), (1000, 600, 10, 120, 0.08, 0.03)],
    ids=["sampled", "collapsed"],
)
@pytest.mark.parametrize("given", [None, 1.0])
def test_priors_are_recovered_from_either_side(case, given):
    X, *_ = corpus(*case)
    model = LDATopicModelPMD(
        case[2], doc_topic_prior=given, topic_word_prior=given, learn_priors=True, n_particles=2,
        random_state=0,
    ).fit(X)  # fmt: skip
    alpha, eta = case[-2:]
    assert np.abs(np.log(model.doc_topic_prior_ / alpha)).max() < np.log(1.5)
    assert abs(np.log(model.topic_word_prior_ / eta)) < np.log(1.7)


def test_shapes_of_the_given_priors_are_in_memory():
    X, *_ = corpus(600, 80, 3, 30, 0.2, 0.1)
    alpha = np.array([0.1, 0.2, 0.4])
    eta = np.exp(np.random.default_rng(0).normal(size=(3, 80), scale=0.5))
    model = LDATopicModelPMD(
        3, doc_topic_prior=alpha, topic_word_prior=eta, learn_priors=True, n_particles=1,
        random_state=0,
    ).fit(X)  # fmt: skip
    assert np.ptp(model.doc_topic_prior_ / alpha) < 1e-12
    assert model.topic_word_prior_.shape == (3, 80)
    assert np.ptp(model.topic_word_prior_ / eta) < 1e-12
    assert model.topic_word_prior_[0, 0] != eta[0, 0]


def test_a_fit_that_could_not_learn_says_so_and_has_the_given_priors():
    X, *_ = corpus(100, 30, 3, 20, 0.2, 0.1)
    given = {"doc_topic_prior": [2.0, 1.0, 3.0], "topic_word_prior": 0.9, "random_state": 0}
    estimator = LDATopicModelPMD(3, learn_priors=True, n_particles=2, **given)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter, give more documents") as caught:
        estimator.fit(X)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(estimator.doc_topic_prior_, [2.0, 1.0, 3.0])
    assert estimator.topic_word_prior_ == pytest.approx(0.9)
    concentration = estimator.posterior_.concentration.sum() - 2 * 3 * 30 * 0.9
    assert concentration == pytest.approx(estimator._state.block.counts.totals.sum(), rel=1e-4)
    with warnings.catch_warnings():  # a stream may still come so far, and more passes do
        warnings.simplefilter("error")
        stream = LDATopicModelPMD(3, learn_priors=True, n_particles=2, **given).partial_fit(X)
        more = clone(estimator).set_params(max_iter=20).fit(X)
    assert stream.doc_topic_prior_.mean() == pytest.approx(1 / 3)
    assert more.topic_word_prior_ != pytest.approx(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            more.set_params(max_iter=1).fit(X)
    assert more.topic_word_prior_ != pytest.approx(0.9)  # left as it was


def test_stream_learns_as_fit_does_and_grows():
    X, *_ = corpus(800, 60, 4, 25, 0.2, 0.1)
    params = {"learn_priors": True, "n_particles": 2, "random_state": 0, "batch_size": 10}
    whole = LDATopicModelPMD(4, shuffle=False, max_iter=1, **params).fit(X)
    stream = LDATopicModelPMD(4, total_samples=800, vocabulary="growing", **params)
    for start in range(0, 640, 160):
        stream.partial_fit(X[start : start + 160])
    grown = copy.deepcopy(stream)
    stream.partial_fit(X[640:])
    np.testing.assert_array_equal(stream.doc_topic_prior_, whole.doc_topic_prior_)
    assert stream.topic_word_prior_ == whole.topic_word_prior_ != pytest.approx(0.25)
    wide = sp.hstack([X[640:650], sp.csr_matrix((10, 5))]).tocsr()
    grown.partial_fit(wide)
    assert grown.components_.shape == (4, 65)
    assert grown.doc_topic_prior_ != pytest.approx(0.25)
    with pytest.raises(ValueError, match="Negative"):
        grown.partial_fit(-wide)


def test_resampled_particles_take_their_priors_along():
    X, *_ = corpus(600, 60, 4, 25, 0.2, 0.1)
    model = LDATopicModelPMD(
        4, learn_priors=True, weighting="posterior", n_particles=4, random_state=0
    ).fit(X)
    block = model._state.block
    np.testing.assert_allclose(block.topics.eta_scale, block.priors.eta_scale())
    np.testing.assert_allclose(block.topics.alpha, block.priors.alpha())
    assert np.isfinite(model.score(X))
