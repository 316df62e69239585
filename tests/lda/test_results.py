"""Results of a topic model: relabelling, intervals, words, evidence."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from scipy.special import betainc, betaincinv, gammaln
from scipy.stats import kstest

from skpmd import LDATopicModelPMD
from skpmd.lda._beta_mixtures import mixture_quantiles
from skpmd.lda._posterior import TopicPosterior
from skpmd.lda._relabel import arrangement, relabelling
from skpmd.lda._results import topic_posterior
from skpmd.lda._topics import Counts, Topics


def permuted(m=4, K=6, V=50, seed=0, noise=0.05, eta=None):
    """Particles with the same topics under labels of their own; the labels."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(V, 0.1), K).T * rng.uniform(100, 1000, K)
    order = rng.permuted(np.tile(np.arange(K), (m, 1)), axis=1)
    words = np.array([topics[:, one] * (1.0 + noise * rng.random((V, K))) for one in order])
    counts = Counts(words.astype(np.float32), words.sum(axis=1), np.full(m, np.nan), 1.0)
    eta = np.full((1, K), 0.1) if eta is None else eta
    return Topics(np.full((m, K), 0.2), eta, np.ones(m), V), counts, order


def equal(m):
    return np.full(m, -np.log(m))


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(40, 0.1), 4)
    proportions = rng.dirichlet(np.full(4, 0.3), 200)
    return np.array([rng.multinomial(rng.poisson(30), one @ topics) for one in proportions])


@pytest.fixture(scope="module")
def lda(corpus):
    return LDATopicModelPMD(
        4, doc_topic_prior=0.3, n_particles=3, weighting="stacking", random_state=0
    ).fit(corpus)


# ---------------------------------------------------------------------- relabelling
def test_permuted_copies_are_put_back():
    model, counts, order = permuted()
    found = relabelling(model, counts, equal(4))
    assert found.dtype.kind == "i"
    np.testing.assert_array_equal(found[0], np.arange(6))  # numbered as in the first particle
    labels = np.take_along_axis(order, found, axis=1)
    assert (labels == order[0]).all()
    average = topic_posterior(model, counts, found, equal(4), "uniform").mean()
    own = model.word_probabilities(counts, 0).T
    np.testing.assert_allclose(average, own, atol=0.01)


def test_the_scale_of_stored_counts_does_not_matter():
    model, counts, _ = permuted(noise=2.0)
    scaled = counts._replace(words=counts.words * np.float32(2.0), scale=0.5)
    np.testing.assert_array_equal(
        relabelling(model, counts, equal(4)), relabelling(model, scaled, equal(4))
    )


def test_others_are_matched_to_the_best_connected_particle():
    # The first particle is far from the others, which are alike: theirs agree all the same.
    model, counts, order = permuted(m=5, V=30)
    words = counts.words.copy()
    words[0] = np.random.default_rng(9).gamma(0.3, 50.0, size=words[0].shape)
    counts = counts._replace(words=words, totals=words.sum(axis=1, dtype=np.float64))
    labels = np.take_along_axis(order, relabelling(model, counts, equal(5)), axis=1)[1:]
    assert (labels == labels[0]).all()


def test_topics_of_different_priors_are_not_taken_for_one_another():
    eta = np.full((50, 6), 0.1)
    eta[3, 2] = 5.0  # topic 2 has a word of its own
    model, counts, _ = permuted(eta=eta)
    found = relabelling(model, counts, equal(4))
    assert (found[:, 2] == 2).all()
    assert len(np.unique(found, axis=0)) > 1


def test_topics_of_different_proportions_are_not_taken_for_one_another():
    model, counts, _ = permuted()
    shape = np.array([0.2, 0.2, 0.9, 0.2, 0.2, 0.05])
    model = model.with_priors(np.outer([1.0, 0.3, 1.7, 2.0], shape), np.ones(4))  # as if learnt
    found = relabelling(model, counts, equal(4))
    assert (found[:, [2, 5]] == [2, 5]).all()
    assert len(np.unique(found, axis=0)) > 1


def apart(found, true):
    return abs(found - true).sum(axis=1).max() / 2.0


@pytest.mark.slow_but("documents-fit", "documents-full")
@pytest.mark.parametrize("way", ["fit", "stream", "numbered", "full"])
@pytest.mark.parametrize("prior", ["documents", "words"])
def test_particles_agree_where_topics_have_priors_of_their_own(way, prior):
    """Each prior finds its topic in every particle; of total variations some were .5 to .9."""
    rng = np.random.default_rng(15)
    true, alpha, eta = rng.dirichlet(np.full(40, 0.1), 3), np.full(3, 0.2), 0.1
    if prior == "documents":
        alpha = np.array([0.1, 0.2, 0.4])
    else:
        eta = np.full((3, 40), 0.1)
        np.put_along_axis(eta, np.argsort(-true, axis=1)[:, :2], 0.9, axis=1)
    X = np.array([rng.multinomial(40, t @ true) for t in rng.dirichlet(alpha, 400)])
    own = {"numbered": {"max_iter": 20}, "full": {"max_iter": 10, "max_full_iter": 3}}.get(way, {})
    model = LDATopicModelPMD(3, doc_topic_prior=alpha, topic_word_prior=eta, random_state=0, **own)
    if way == "stream":
        for start in [*range(0, 400, 40), *range(0, 400, 5), *range(0, 400, 100)]:
            model.partial_fit(X[start : start + 40])
    else:
        model.fit(X)
    each = model.posterior_.topic_word
    assert max(apart(one, model.topic_word_) for one in each) < 0.15
    assert apart(model.topic_word_, true) < 0.15


def test_topics_of_nearly_equal_priors_stay_where_they_are():
    """No document says which of two such topics is which: they are matched, and not moved."""
    model, counts, order = permuted(noise=0.02)
    model = model.with_priors(np.tile([0.2, 0.2, 0.2, 0.2, 0.2, 0.2000001], (4, 1)), np.ones(4))
    found = arrangement(model, counts, 100.0)
    np.testing.assert_array_equal(found[0], np.arange(6))
    assert (np.take_along_axis(order, found, axis=1) == order[0]).all()
    assert arrangement(model, counts.arranged(found), 100.0) is None
    assert arrangement(permuted()[0], counts, 100.0) is None  # Equal priors.


def test_topics_take_the_places_of_their_priors():
    """Against all orders of four topics, of one particle, by the Dirichlet-multinomial."""
    rng = np.random.default_rng(6)
    eta = rng.gamma(0.5, 1.0, (30, 4)) + 0.01
    words = rng.gamma(0.3, 20.0, (1, 30, 4)).astype(np.float32)
    totals = words.sum(axis=1, dtype=np.float64)
    model = Topics(np.full((1, 4), 0.3), eta, np.full(1, 0.7), 30)
    counts = Counts(0.5 * words, totals, np.full(1, np.nan), 2.0)

    def density(order):
        prior, n = 0.7 * eta, words[0][:, order]
        size = prior.sum(axis=0)
        found = (gammaln(prior + n) - gammaln(prior)).sum()
        return found - (gammaln(size + n.sum(axis=0)) - gammaln(size)).sum()

    best = max(permutations(range(4)), key=lambda order: density(list(order)))
    assert density(list(best)) - density([0, 1, 2, 3]) > 3.0  # It pays to move.
    np.testing.assert_array_equal(arrangement(model, counts, 50.0)[0], best)


@pytest.mark.parametrize("learn_priors", [False, True])
def test_an_average_has_the_priors_of_its_topics(corpus, learn_priors):
    alpha = np.array([2.0, 0.1, 0.4, 0.1])
    own = {"doc_topic_prior": alpha, "learn_priors": learn_priors, "max_iter": 10}
    estimator = LDATopicModelPMD(4, n_particles=4, random_state=0, **own).fit(corpus)
    factor = 1.0 if not learn_priors else estimator.doc_topic_prior_[0] / 2.0
    np.testing.assert_allclose(estimator.doc_topic_prior_, factor * alpha)
    nothing = estimator.transform(np.zeros((1, 40)))[0]
    np.testing.assert_allclose(nothing, alpha / alpha.sum())


# ---------------------------------------------------------------------- intervals
@pytest.mark.parametrize("q", [0.005, 0.05, 0.3, 0.5, 0.7, 0.95, 0.995])
def test_quantiles_of_one_particle_are_those_of_beta_distributions(q):
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(np.log(0.01), np.log(3e4), 4000))
    b = np.exp(rng.uniform(np.log(0.5), np.log(1e6), 4000))
    found, expected = mixture_quantiles(a[None], b[None], np.ones(1), q), betaincinv(a, b, q)
    normal = expected > 1e-300
    np.testing.assert_allclose(found[normal], expected[normal], rtol=1e-4)
    assert (found[~normal] <= 1e-300).all()


def test_quantiles_of_any_sizes_are_probabilities():
    rng = np.random.default_rng(2)
    a, b = 10.0 ** rng.uniform(-100.0, 100.0, (2, 3, 500))
    x = mixture_quantiles(a, b, np.array([0.2, 0.3, 0.5]), 0.5)
    assert ((x >= 0.0) & (x <= 1.0)).all()


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
def test_quantiles_of_a_mixture_have_its_probability(q):
    rng = np.random.default_rng(1)
    a = np.exp(rng.uniform(np.log(0.02), np.log(3000.0), (3, 4000)))  # particles that disagree
    b = np.exp(rng.uniform(np.log(10.0), np.log(1e5), (3, 4000)))
    weights = np.array([0.05, 0.35, 0.6])
    x = mixture_quantiles(a, b, weights, q)
    assert ((x > 0) & (x < 1)).all()
    # Between two parts the distribution is flat: a step to either side passes q.
    below, above = (weights @ betainc(a, b, np.minimum(x * r, 1.0)) for r in (0.9999, 1.0001))
    assert (below <= q + 1e-7).all() and (above >= q - 1e-7).all()


def test_intervals_hold_draws_of_the_posterior(lda):
    ends = lda.topic_word_interval(level=0.8)
    assert ends.shape == (4, 40, 2) and ends.dtype == np.float64
    assert (ends[..., 0] <= ends[..., 1]).all() and ends.min() >= 0.0 and ends.max() <= 1.0
    draws = lda.posterior_.sample(4000, random_state=0)
    assert draws.shape == (4000, 4, 40)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    np.testing.assert_allclose(draws.mean(axis=0), lda.topic_word_, atol=0.004)
    # Draws of a topic are divided by their sum, which differs from 1 by the uncertainty of its few
    # large words: their tails are a little heavier or lighter than those of the marginals.
    for part, side in ((draws < ends[..., 0], 0.1), (draws > ends[..., 1], 0.1)):
        np.testing.assert_allclose(part.mean(axis=0), side, atol=0.05)
    wider = lda.topic_word_interval(level=0.95)
    assert (wider[..., 0] <= ends[..., 0]).all() and (wider[..., 1] >= ends[..., 1]).all()
    np.testing.assert_array_equal(lda.topic_word_interval(0.8, topics=[2, -4]), ends[[2, 0]])
    assert lda.topic_word_interval(topics=[]).shape == (0, 40, 2)


def test_draws_of_rare_words_are_finite_and_beta():
    concentration = np.full((1, 2, 30), 1e-3, dtype=np.float32)
    concentration[0, 1] = 2.0
    prior = concentration.copy()  # All is prior, and certain.
    posterior = TopicPosterior(concentration, prior, np.ones((1, 2)), np.zeros(1), "uniform")
    draws = posterior.sample(500, random_state=0)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    assert kstest(draws[:, 1, 7], "beta", args=(2.0, 58.0)).pvalue > 1e-3
    assert posterior.sample(0).shape == (0, 2, 30)


def test_of_a_words_tokens_in_a_topic_as_many_are_certain_as_it_has_a_share():
    """Of 8 tokens of which 6 are expected in a topic, 36 / 8 are certain, and the mean stays."""
    counts = np.array([[6.0, 1.0, 3.0], [2.0, 9.0, 0.0]])
    own = np.array([0.5 + counts], dtype=np.float32), np.full((1, 2, 3), 0.5, dtype=np.float32)
    posterior = TopicPosterior(*own, np.ones((1, 2)), np.zeros(1), "uniform")
    a, mean = 0.5 + counts**2 / counts.sum(axis=0), posterior.mean()
    expected = [betaincinv(a, a * (1.0 - mean) / mean, q) for q in (0.05, 0.95)]
    np.testing.assert_allclose(posterior.interval(0.9), np.stack(expected, axis=-1), rtol=1e-3)


def test_a_vocabulary_of_one_word_is_certain():
    estimator = LDATopicModelPMD(2, n_particles=2, random_state=0).fit(np.ones((4, 1)))
    np.testing.assert_allclose(estimator.topic_word_, 1.0, rtol=1e-6)
    np.testing.assert_allclose(estimator.topic_word_interval(), 1.0, rtol=1e-6)


# ---------------------------------------------------------------------- averages
def test_results_are_averages_over_relabelled_particles(lda):
    model, counts, order = lda._state.block.topics, lda._state.block.counts, lda._labels
    weights = lda.posterior_.weights
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    pseudo = [
        (counts.scale * counts.words[i].astype(float) + model.eta_scale[i] * model.eta).T[order[i]]
        for i in range(3)
    ]
    np.testing.assert_allclose(lda.components_, np.tensordot(weights, pseudo, 1), rtol=1e-5)
    phi = [one / one.sum(axis=1, keepdims=True) for one in pseudo]
    np.testing.assert_allclose(lda.topic_word_, np.tensordot(weights, phi, 1), rtol=1e-5)
    np.testing.assert_allclose(lda.posterior_.topic_word, phi, rtol=1e-5)
    np.testing.assert_allclose(lda.topic_word_.sum(axis=1), 1.0, rtol=1e-12)
    assert lda.posterior_.n_particles == 3
    np.testing.assert_allclose(lda.posterior_.doc_topic_prior, 0.3)


def test_mirror_weights_are_those_of_the_bounds(corpus):
    own = {"weighting": "posterior", "max_full_iter": 1, "n_particles": 3, "random_state": 0}
    estimator = LDATopicModelPMD(4, doc_topic_prior=0.3, **own).fit(corpus)
    block = estimator._state.block
    expected = block.topics.elbo(block.counts)
    posterior = estimator.posterior_
    np.testing.assert_allclose(np.diff(posterior.log_weights), np.diff(expected), atol=1e-6)
    np.testing.assert_allclose(posterior.weights.sum(), 1.0, rtol=1e-9)
    assert posterior.weights.max() > 0.9  # as likelihood weights are
    average = np.tensordot(posterior.weights, posterior.topic_word, 1)
    np.testing.assert_allclose(estimator.topic_word_, average, atol=1e-6)


def test_the_posterior_is_the_users_own(corpus):
    stream = LDATopicModelPMD(3, n_particles=2, random_state=0).partial_fit(corpus)
    posterior, components = stream.posterior_, stream.components_
    assert stream.posterior_ is posterior and stream.components_ is components
    before = posterior.concentration.copy()
    stream.partial_fit(corpus)
    np.testing.assert_array_equal(posterior.concentration, before)
    assert stream.posterior_ is not posterior
    assert np.abs(stream.components_ - components).max() > 0.1
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.mean(), posterior.mean())
    assert repr(again) == "TopicPosterior(2 particles, 3 topics, 40 words, uniform weights)"


def test_history_is_that_of_the_steps(lda):
    history = lda.history_
    assert set(history) == {"step", "step_size", "n_documents", "log_density"}
    assert history["n_documents"].sum() == 5 * 200
    np.testing.assert_array_equal(history["step"], np.arange(1, len(history["step"]) + 1))
    assert (history["step_size"] > 0).all() and (history["step_size"] <= 1).all()
    score = history["log_density"]
    score = score[np.isfinite(score)]
    assert score[-1] > score[0]


# ---------------------------------------------------------------------- words
def test_top_words_are_the_most_probable(lda):
    pd = pytest.importorskip("pandas")
    table = lda.top_words(5, level=0.8)
    assert isinstance(table, pd.DataFrame)
    assert list(table) == ["topic", "rank", "word", "probability", "lower", "upper"]
    assert table["rank"].tolist() == [1, 2, 3, 4, 5] * 4
    ends = lda.topic_word_interval(0.8)
    for k, own in table.groupby("topic"):
        words = own["word"].to_numpy()
        assert words.tolist() == np.argsort(-lda.topic_word_[k], kind="stable")[:5].tolist()
        np.testing.assert_array_equal(own["probability"], lda.topic_word_[k, words])
        np.testing.assert_allclose(own[["lower", "upper"]], ends[k, words], rtol=1e-5)
    names = np.array([f"w{j}" for j in range(40)])
    named = lda.top_words(5, feature_names=names)
    assert named["word"].tolist() == [f"w{j}" for j in table["word"]]
    assert len(lda.top_words(100)) == 4 * 40  # no more words than there are


# ---------------------------------------------------------------------- evidence


def test_evidence_says_why_it_is_not_there(lda, corpus):
    with pytest.raises(AttributeError, match="several topics"):
        _ = lda.log_evidence_
    with pytest.raises(AttributeError, match="weighting='posterior'"):
        _ = lda.lower_bound_
    params = {"weighting": "posterior", "max_iter": 0, "n_particles": 1, "random_state": 0}
    for name in ("log_evidence_", "lower_bound_"):
        stochastic = LDATopicModelPMD(1, **params).fit(corpus)
        with pytest.raises(AttributeError, match="max_full_iter=1"):
            getattr(stochastic, name)


@pytest.mark.parametrize("name", ["log_evidence_", "lower_bound_"])
def test_evidence_is_not_there_where_priors_are_learnt(corpus, name):
    own = {"weighting": "posterior", "max_full_iter": 1, "random_state": 0, "n_particles": 1}
    learning = LDATopicModelPMD(1, learn_priors=True, max_iter=10, **own).fit(corpus)
    with pytest.raises(AttributeError, match="set learn_priors=False"):
        getattr(learning, name)


def test_the_lower_bound_is_below_the_evidence(corpus):
    own = {"weighting": "posterior", "max_full_iter": 1, "random_state": 0, "n_particles": 2}
    one = LDATopicModelPMD(1, topic_word_prior=0.2, **own).fit(corpus)
    np.testing.assert_allclose(one.lower_bound_, one.log_evidence_, rtol=1e-5)
    several = LDATopicModelPMD(4, topic_word_prior=0.2, doc_topic_prior=0.3, **own).fit(corpus)
    assert one.lower_bound_ < several.lower_bound_ < 0.0
    block = several._state.block
    assert several.lower_bound_ == block.topics.elbo(block.counts).max()


# ---------------------------------------------------------------------- errors
def test_errors_name_what_to_do(lda):
    for level in (0, 1, 90, "0.9"):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            lda.topic_word_interval(level)
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            lda.top_words(level=level)
    for n in (0, 2.5):
        with pytest.raises(ValueError, match="n must be an integer of at least 1"):
            lda.top_words(n)
    with pytest.raises(ValueError, match=r"one name for each of the 40 words"):
        lda.top_words(feature_names=["a", "b"])
