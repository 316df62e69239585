"""The topic model: exact answers, kinds of input, threads, seeds, and what it refuses."""

import copy
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skpmd import LDATopicModelPMD

ASSIGNMENTS = ["sampled", "soft", "collapsed"]
WEIGHTINGS = ["stacking", "posterior", "uniform"]


def model(n_components=3, **params):
    return LDATopicModelPMD(n_components, **{"random_state": 0, "max_iter": 3, **params})


def corpus(n=120, length=30, K=3, V=24, seed=0):
    """Documents of topics that have words of their own, and their topics' word probabilities."""
    rng = np.random.default_rng(seed)
    phi = np.full((K, V), 0.02)
    for k, own in enumerate(np.array_split(np.arange(V), K)):
        phi[k, own] += rng.gamma(2.0, 1.0, size=len(own))
    phi /= phi.sum(axis=1, keepdims=True)
    theta = rng.dirichlet(np.full(K, 0.2), size=n)
    return np.array([rng.multinomial(length, p) for p in theta @ phi]), phi


X, PHI = corpus()


def matched(topics, truth):
    """Topics in the order of the truth's."""
    return topics[np.argmax(np.sqrt(truth) @ np.sqrt(topics).T, axis=1)]


def assert_equal(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.posterior_.log_weights, other.posterior_.log_weights)
    np.testing.assert_array_equal(one.transform(X[:9]), other.transform(X[:9]))


# ---------------------------------------------------------------------- exact answers
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("eta", [None, 0.3, "of words"])
def test_one_topic_is_conjugate(assignment, weighting, eta):
    eta = np.linspace(0.1, 2.0, 24) if eta == "of words" else eta
    params = {"assignment": assignment, "weighting": weighting, "topic_word_prior": eta}
    fitted = model(1, max_full_iter=1, n_particles=2, **params).fit(X)
    prior = np.broadcast_to(1.0 if eta is None else eta, 24)
    pseudo = prior + X.sum(axis=0)
    np.testing.assert_allclose(fitted.components_, pseudo[None], rtol=1e-5)
    np.testing.assert_allclose(fitted.topic_word_, pseudo[None] / pseudo.sum(), rtol=1e-5)
    np.testing.assert_allclose(fitted.transform(X), 1.0)
    exact = gammaln(pseudo).sum() - gammaln(pseudo.sum())
    exact += gammaln(prior.sum()) - gammaln(prior).sum()
    assert fitted.log_evidence_ == pytest.approx(exact, rel=1e-5)
    log_density = X @ np.log(pseudo / pseudo.sum())
    np.testing.assert_allclose(fitted.score_samples(X), log_density, rtol=1e-5)


@pytest.mark.slow_but("posterior-soft", "uniform-collapsed", "uniform-soft")
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_topics_are_found(assignment, weighting):
    fitted = model(assignment=assignment, weighting=weighting, max_iter=20).fit(X)
    distance = np.abs(matched(fitted.topic_word_, PHI) - PHI).sum(axis=1)
    assert distance.max() < 0.25
    np.testing.assert_allclose(fitted.topic_word_.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(fitted.components_.sum(), X.sum() + 24.0, rtol=0.01)
    proportions = fitted.fit_transform(X)
    assert proportions.shape == (120, 3) and (proportions > 0.0).all()
    np.testing.assert_allclose(proportions.sum(axis=1), 1.0)


def test_seeds_of_topics_keep_their_places():
    prior = np.full((3, 24), 0.01)
    for k, own in enumerate((2, 0, 1)):  # a word of each topic, in another order
        prior[k, PHI[own].argmax()] = 500.0
    fitted = model(topic_word_prior=prior, doc_topic_prior=[0.1, 0.2, 0.3]).fit(X)
    found = np.sqrt(fitted.topic_word_) @ np.sqrt(PHI).T
    np.testing.assert_array_equal(found.argmax(axis=1), [2, 0, 1])


def test_a_word_that_never_occurs_and_a_document_without_words_have_the_prior():
    wide = np.hstack([X, np.zeros((120, 1), dtype=int)])
    wide[5] = 0
    alpha = [0.1, 0.2, 0.3]
    fitted = model(doc_topic_prior=alpha, topic_word_prior=0.25, n_particles=1).fit(wide)
    np.testing.assert_allclose(fitted.components_[:, -1], 0.25, atol=0.2)  # and the guess
    np.testing.assert_allclose(fitted.transform(wide[5:6])[0], np.array(alpha) / 0.6, rtol=1e-6)
    reweighted = model(topic_word_prior=0.25, max_full_iter=1).fit(wide)
    np.testing.assert_allclose(reweighted.components_[:, -1], 0.25, rtol=1e-6)
    nothing = model().fit(np.zeros((4, 6)))
    np.testing.assert_allclose(nothing.components_, 1 / 3, rtol=1e-5)
    np.testing.assert_allclose(nothing.transform(np.zeros((2, 6))), 1 / 3)


def test_assignment_auto_looks_at_the_length_of_documents():
    short, long = X, 10 * X
    for counts, assignment in ((short, "sampled"), (long, "collapsed")):
        assert_equal(model().fit(counts), model(assignment=assignment).fit(counts))


def test_a_batch_of_more_documents_than_there_are_is_all_of_them():
    one, other = model(batch_size=120).fit(X), model(batch_size=10_000).fit(X)
    assert_equal(one, other)
    np.testing.assert_allclose(one.history_["step_size"], 1.0 / (1.0 + np.arange(1, 4) ** 0.7))


def test_steps_are_those_of_the_schedule():
    params = {"step_size": 0.8, "step_offset": 3.0, "step_decay": 0.6, "batch_size": 40}
    fitted = model(max_iter=2, **params).fit(X)
    expected = 0.8 / (3.0 + np.arange(1, 7) ** 0.6)
    np.testing.assert_allclose(fitted.history_["step_size"], expected)
    assert fitted.n_batch_iter_ == 6


# ---------------------------------------------------------------------- kinds of input
def _unsorted(X):
    """With columns in a wrong order, a count in two parts, and a zero that is stored."""
    coo = sparse.coo_array(X)
    order = np.random.default_rng(0).permutation(coo.nnz)
    row, col, data = coo.row[order], coo.col[order], coo.data[order].astype(float)
    row = np.concatenate([row, row[:1], [0]])
    col = np.concatenate([col, col[:1], [np.flatnonzero(X[0] == 0)[0]]])
    data = np.concatenate([data, [0.5, 0.0]])
    data[0] -= 0.5
    by_row = np.argsort(row, kind="stable")
    indptr = np.searchsorted(row[by_row], np.arange(len(X) + 1))
    return sparse.csr_array((data[by_row], col[by_row], indptr), shape=X.shape)


def _long_indices(X):
    csr = sparse.csr_matrix(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


@pytest.mark.parametrize(
    "kind",
    [
        sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array,
        sparse.coo_matrix, sparse.coo_array, _unsorted, _long_indices, np.asfortranarray, list,
        lambda X: X.astype(np.float64), lambda X: X.astype(np.float32),
        lambda X: X.astype(np.uint8), lambda X: sparse.csr_matrix(X, dtype=np.float32),
    ],
)  # fmt: skip
def test_kinds_of_input_are_alike(kind):
    dense, other = model(max_iter=1).fit(X), model(max_iter=1)
    given = kind(X)
    before = copy.deepcopy(given)
    assert_equal(dense, other.fit(given))
    np.testing.assert_allclose(other.transform(given), dense.transform(X), rtol=1e-6)
    np.testing.assert_allclose(other.score_samples(given), dense.score_samples(X), rtol=1e-5)
    if sparse.issparse(given):
        assert (given != before).nnz == 0 and given.nnz == before.nnz  # left as it was
    else:
        np.testing.assert_array_equal(given, before)


def test_read_only_counts_are_taken():
    given = sparse.csr_matrix(X, dtype=np.float32)
    for part in (given.data, given.indices, given.indptr):
        part.flags.writeable = False
    assert_equal(model(max_iter=1).fit(X), model(max_iter=1).fit(given))


def test_counts_need_not_be_whole():
    halved = model(max_iter=20).fit(0.5 * X)
    assert np.abs(matched(halved.topic_word_, PHI) - PHI).sum(axis=1).max() < 0.3
    assert halved.components_.sum() == pytest.approx(0.5 * X.sum() + 24.0, rel=0.01)


# ---------------------------------------------------------------------- seeds and copies
def test_seeds_are_honoured():
    assert_equal(model().fit(X), model().fit(X))
    other = model(random_state=1).fit(X)
    assert np.abs(other.components_ - model().fit(X).components_).max() > 1e-3
    source = np.random.RandomState(0)
    one = model(random_state=source).fit(X)
    again = model(random_state=source).fit(X)  # a generator goes on
    assert_equal(one, model(random_state=np.random.RandomState(0)).fit(X))
    assert np.abs(again.components_ - one.components_).max() > 1e-3


def test_documents_come_in_their_order_without_shuffle():
    ordered = model(shuffle=False).fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    for other in (model(shuffle=False).fit(X[order]), model(shuffle=True).fit(X)):
        assert np.abs(other.components_ - ordered.components_).max() > 1e-3


# ---------------------------------------------------------------------- names
def test_names_of_words_and_topics():
    frame = pd.DataFrame(X, columns=[f"word{i}" for i in range(24)])
    fitted = model().fit(frame)
    names = [f"ldatopicmodelpmd{k}" for k in range(3)]
    assert list(fitted.get_feature_names_out()) == names
    proportions = fitted.set_output(transform="pandas").transform(frame)
    assert list(proportions.columns) == names and (proportions.index == frame.index).all()
    assert set(fitted.top_words(3)["word"]) <= set(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame[frame.columns[::-1]])


# ---------------------------------------------------------------------- weights, progress


def test_an_average_predicts_better_than_its_particles():
    train, test = np.split(corpus(600, K=6, V=60)[0], 2)
    params = {"n_components": 6, "weighting": "uniform"}
    singles = [model(n_particles=1, random_state=s, **params).fit(train) for s in range(4)]
    average = model(n_particles=4, **params).fit(train)
    assert average.perplexity(test) < np.mean([one.perplexity(test) for one in singles])


def test_perplexity_ends_the_passes_and_is_kept(capsys):
    fitted = model(max_iter=50, evaluate_every=2, perp_tol=1e3, verbose=1).fit(X)
    assert fitted.n_batch_iter_ == 4 * 4  # four passes of four batches: two were compared
    assert fitted.bound_ == pytest.approx(fitted.perplexity(X))
    assert capsys.readouterr().out.count(": perplexity ") == 2
    silent = model(max_iter=2, evaluate_every=1).fit(X)
    assert capsys.readouterr().out == "" and silent.bound_ > 0.0
    assert not hasattr(model().fit(X), "bound_")


def test_the_bound_of_a_fit_is_that_of_its_end():
    for params in ({"evaluate_every": 2, "max_full_iter": 1}, {"evaluate_every": 10}):
        fitted = model(perp_tol=0.0, **params).fit(X)
        assert fitted.bound_ == fitted.perplexity(X)
    fitted.partial_fit(X)
    assert not hasattr(fitted, "bound_") and not hasattr(fitted, "n_iter_")
    wordless = model(evaluate_every=1).fit(np.zeros((4, 6)))
    assert np.isnan(wordless.bound_) and wordless.n_iter_ == 3


def test_passes_may_be_left_out():
    none = model(max_iter=0, max_full_iter=2).fit(X)
    assert none.n_batch_iter_ == 2
    assert none.components_.sum() == pytest.approx(X.sum() + 24.0, rel=1e-5)


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    "value, message",
    [(-1.0, "Negative values in data"), (np.nan, "contains NaN"), (np.inf, "contains infinity")],
)
@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_counts_that_are_none_are_refused(value, message, kind):
    bad = X.astype(float)
    bad[3, 2] = value
    fitted = model(max_iter=1).fit(X)
    calls = (
        model().fit, model().partial_fit, fitted.transform, fitted.score_samples,
        fitted.perplexity,
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(kind(bad))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_counts_that_are_too_large_are_refused(kind):
    large = X.astype(float)
    large[3, 2] = 2.5e15
    for call in (model().fit, model().partial_fit, model(max_iter=1).fit(X).transform):
        with pytest.raises(ValueError, match=r"at most 1e\+15, got 2.5e\+15"):
            call(kind(large))
    large[3, 2] = 1e15
    fitted = model(max_iter=1).fit(kind(large))
    assert np.isfinite(fitted.topic_word_).all() and np.isfinite(fitted.score(kind(large)))


@pytest.mark.parametrize("bad", [[1, 2, 3], "sun and rain", ["sun and rain", "wind"], None])
def test_what_is_no_table_is_refused_where_the_vocabulary_grows(bad):
    grown = model(vocabulary="growing").partial_fit(X)
    refused = "Expected 2D array|could not convert string|X is None"
    for call in (grown.partial_fit, grown.fit):
        with pytest.raises(ValueError, match=refused):
            call(bad)


def test_parameters_of_a_stream_are_copied_once():
    prior = np.full(24, 0.1)
    stream = model(topic_word_prior=prior).partial_fit(X)
    before = stream._frozen["topic_word_prior"]
    assert stream.partial_fit(X)._frozen["topic_word_prior"] is before  # not copied each time
    with pytest.raises(ValueError, match="was an array in the calls before and is an array of"):
        stream.set_params(topic_word_prior=2.0 * prior).partial_fit(X)
    with pytest.raises(ValueError, match="was an array in the calls before and is 0.3"):
        stream.set_params(topic_word_prior=0.3).partial_fit(X)
    prior *= 2.0  # in place
    with pytest.raises(ValueError, match="topic_word_prior was an array"):
        stream.set_params(topic_word_prior=prior).partial_fit(X)


def test_total_samples_may_be_set_after_fit():
    fitted = model().fit(X).set_params(total_samples=1000)
    words = fitted.partial_fit(X[:32]).components_.sum() - 24.0
    assert words == pytest.approx(30 * 1000, rel=0.1)  # with those of fit
    with pytest.raises(ValueError, match="total_samples was 1000 in the calls before and is 500"):
        fitted.set_params(total_samples=500).partial_fit(X)
    with pytest.raises(ValueError, match="n_components was 3"):
        model().fit(X).set_params(n_components=4).partial_fit(X)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"doc_topic_prior": [0.1, 0.2]}, r"doc_topic_prior has the shape \(2,\)"),
        ({"topic_word_prior": np.ones((24, 3))}, r"topic_word_prior has the shape \(24, 3\)"),
        ({"doc_topic_prior": [0.1, 0.0, 1.0]}, "doc_topic_prior must be positive"),
        ({"doc_topic_prior": -1.0}, "'doc_topic_prior' parameter"),
        ({"topic_word_prior": np.full(24, np.nan)}, "topic_word_prior must be positive"),
        ({"topic_word_prior": 0.0}, "'topic_word_prior' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"n_particles": 0}, "'n_particles' parameter"),
        ({"assignment": "mean"}, "'assignment' parameter"),
        ({"weighting": "likelihood"}, "'weighting' parameter"),
        ({"vocabulary": "open"}, "'vocabulary' parameter"),
        ({"n_local_iter": 0}, "'n_local_iter' parameter"),
        ({"step_offset": "auto"}, "'step_offset' parameter"),
        ({"max_iter": -1}, "'max_iter' parameter"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    for call in (model(**params).fit, model(**params).partial_fit):
        with pytest.raises(ValueError, match=message):
            call(X)


def test_nothing_is_there_before_a_fit():
    empty = model()
    for name in ("transform", "predict_proba", "score", "perplexity", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(empty, name)(X)
    for name in ("components_", "topic_word_", "posterior_", "history_", "log_evidence_"):
        assert not hasattr(empty, name)
    with pytest.raises(NotFittedError):
        empty.get_feature_names_out()


@pytest.mark.parametrize("learn_priors", [False, True])
def test_attributes_are_those_of_the_docstring(learn_priors):
    section = LDATopicModelPMD.__doc__.split("Attributes\n")[1].split("Notes\n")[0]
    names = {name for name in re.findall(r"\b[a-z_]+_\b", section) if not name.startswith("_")}
    fitted = model(learn_priors=learn_priors, evaluate_every=20, max_iter=20).fit(pd.DataFrame(X))
    conditional = {"log_evidence_", "lower_bound_", "feature_names_in_", "validation_scores_"}
    assert {name for name in names if not hasattr(fitted, name)} <= conditional
    assert {"components_", "topic_word_", "posterior_", "doc_topic_prior_"} <= names


@pytest.mark.parametrize("kind", ["shares", "tfidf"])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_shares_in_the_place_of_counts_are_warned_of(kind, way):
    rng = np.random.default_rng(4)
    X = rng.poisson(0.4, (60, 45)) + (np.arange(45) == np.arange(60)[:, None] % 45)
    norm = X.sum(axis=1) if kind == "shares" else np.sqrt((X**2).sum(axis=1))
    small = LDATopicModelPMD(2, max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match="different words on average counts as .* words"):
        getattr(small, way)(X / norm[:, None])
    getattr(clone(small), way)(X)
    getattr(clone(small), way)(0.7 * X)  # Discounted counts are no shares.
