"""Topic models in parts: streams, growing vocabularies, Ctrl-C and calls that fail."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from skpmd import LDATopicModelPMD
from skpmd.lda import _fit, _kernels
from skpmd.lda._model import LDAModel
from tests.lda.test_estimator import (
    ASSIGNMENTS,
    PHI,
    WEIGHTINGS,
    X,
    assert_equal,
    corpus,
    matched,
    model,
)
from tests.tools.interrupts import interrupt

EMPTY = np.zeros((20, 24), dtype=int)
NAMES = [f"word{i}" for i in range(24)]


def stream(n_components=3, **params):
    params = {"random_state": 0, "assignment": "sampled", "batch_size": 20, **params}
    return LDATopicModelPMD(n_components, **params)


def parts(X, size):
    return [X[a : a + size] for a in range(0, len(X), size)]


def updated(estimator, parts):
    for part in parts:
        estimator.partial_fit(part)
    return estimator


def state(estimator):
    """All that a stream goes on from."""
    block, rng = estimator._state.block, estimator._state.rng
    numbers = *block.counts, block.scores.log_weights, block.base, block.seeds
    return [*(np.copy(one) for one in numbers), rng.bit_generator.state, block.n_visits]


def assert_same_state(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_equal(a, b)


# ---------------------------------------------------------------------- parts of a fit
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_parts_are_one_pass_of_fit(assignment, weighting):
    params = {"assignment": assignment, "weighting": weighting}
    whole = stream(max_iter=1, shuffle=False, **params).fit(X)
    for size in (20, 60):
        one = updated(stream(total_samples=120, **params), parts(X, size))
        if weighting == "posterior":  # which resamples at the end of a call
            np.testing.assert_allclose(one.components_.sum(), whole.components_.sum(), rtol=1e-4)
        else:
            assert_equal(one, whole)
            np.testing.assert_equal(one.history_, whole.history_)


def test_parts_that_come_again_are_passes_of_fit():
    whole = stream(max_iter=8, shuffle=False, learn_priors=True).fit(X)
    one = updated(stream(total_samples=120, learn_priors=True), 8 * parts(X, 40))
    assert_equal(one, whole)
    np.testing.assert_array_equal(one.doc_topic_prior_, whole.doc_topic_prior_)
    assert np.abs(one.doc_topic_prior_ - 1 / 3).min() > 0.05  # learnt indeed


def test_a_stream_goes_on_with_what_fit_has_found():
    fitted = stream(max_iter=5).fit(X)
    before, steps = fitted.perplexity(X), fitted.n_batch_iter_
    fitted.partial_fit(X[:60])
    assert fitted.n_batch_iter_ == steps + 3
    assert fitted.perplexity(X) == pytest.approx(before, rel=0.05)
    again = fitted.fit(X)
    assert_equal(again, stream(max_iter=5).fit(X))


@pytest.mark.parametrize("total_samples", [None, 120, 1e6])
def test_counts_stand_for_the_documents_so_far_or_in_all(total_samples):
    fitted = updated(stream(total_samples=total_samples), parts(X, 20) * 3)
    words = fitted.components_.sum() - 24.0
    n = 360 if total_samples is None else total_samples
    assert words == pytest.approx(30 * n, rel=0.1)  # a part of it is what is left of the guess


def test_documents_that_come_one_by_one_are_parts_of_a_batch():
    counts = corpus(400)[0]
    batches = updated(stream(), parts(counts, 20))
    single = updated(stream(), parts(counts, 1))
    assert single.perplexity(counts) == pytest.approx(batches.perplexity(counts), rel=0.05)
    sizes = single.history_["step_size"]
    left = np.prod(1.0 - sizes), np.prod(1.0 - batches.history_["step_size"])
    np.testing.assert_allclose(*np.log(left), rtol=0.2)


@pytest.mark.parametrize("size", [1, 7])
def test_parts_of_a_step_of_size_1_are_averaged(size):
    fitted = updated(stream(step_size=9.0, step_offset=0.0), parts(X, size))
    so_far = np.minimum(size * np.arange(1, 1 + -(-120 // size)), 120)
    sizes = np.diff(so_far, prepend=0) / np.minimum(so_far, 20)
    np.testing.assert_allclose(fitted.history_["step_size"], sizes)
    first = updated(stream(1, step_size=9.0, step_offset=0.0), parts(X[:20], size))
    np.testing.assert_allclose(first.components_[0], 1.0 + X[:20].sum(axis=0), rtol=1e-5)
    whole = stream(1, max_iter=3).fit(X[:20])
    assert first.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-6)


def test_topics_keep_their_places_from_part_to_part():
    fitted = stream(total_samples=400)
    counts = corpus(400)[0]
    fitted = updated(fitted, parts(counts[:200], 100))
    before = fitted.topic_word_
    after = updated(fitted, parts(counts[200:], 20)).topic_word_
    closeness = np.sqrt(before) @ np.sqrt(after).T
    np.testing.assert_array_equal(closeness.argmax(axis=1), np.arange(3))


# ---------------------------------------------------------------------- documents without words
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_guess_waits_for_words(assignment):
    counts = np.vstack([EMPTY, corpus(400)[0]])
    params = {"assignment": assignment, "shuffle": False}
    one = stream(max_iter=1, **params).fit(counts)
    assert np.ptp(one.topic_word_, axis=0).max() > 0.1
    assert_equal(updated(stream(total_samples=420, **params), parts(counts, 20)), one)
    many = stream(max_iter=4, **params).fit(counts)
    assert np.abs(matched(many.topic_word_, PHI) - PHI).sum(axis=1).max() < 0.3


@pytest.mark.parametrize("total_samples", [None, 60])
def test_documents_without_words_leave_the_prior(total_samples):
    fitted = stream(topic_word_prior=0.25, total_samples=total_samples)
    updated(fitted, [EMPTY, EMPTY])
    np.testing.assert_array_equal(fitted.components_, np.full((3, 24), 0.25))
    np.testing.assert_array_equal(model(topic_word_prior=0.25).fit(EMPTY).components_, 0.25)


def test_a_guess_that_comes_late_is_discounted_from_then_on():
    fitted = updated(stream(total_samples=180, learn_priors=True), [EMPTY, *parts(X, 20)[:4]])
    left = np.prod(1.0 - fitted.history_["step_size"][1:])
    assert fitted._state.block.priors.guess == pytest.approx(left)


@pytest.mark.parametrize("params", [{}, {"learn_priors": True}, {"weighting": "posterior"}])
def test_a_stream_leaves_documents_without_words_out(params):
    counts = X.copy()
    counts[:, 0] += 250  # long ones, for assignment="auto"
    straight = updated(stream(assignment="auto", **params), [counts[:60], counts[60:]])
    fitted = stream(assignment="auto", **params).partial_fit(EMPTY)
    updated(fitted, [np.vstack([EMPTY, counts[:60]]), EMPTY])
    before = state(fitted)
    fitted.partial_fit(EMPTY)
    assert_same_state(state(fitted), before)
    mixed = np.zeros((120, 24), dtype=int)
    mixed[::2] = counts[60:]
    fitted.partial_fit(mixed)
    assert fitted.n_documents_seen_ == 120 and fitted.assignment_ == straight.assignment_
    if params:  # the guess is drawn later
        assert fitted.components_.sum() == pytest.approx(straight.components_.sum(), rel=1e-3)
    else:
        assert_equal(fitted, straight)


# ---------------------------------------------------------------------- weights
@pytest.mark.slow
def test_mirror_weights_are_the_same_with_resampling_and_without(monkeypatch):
    params = {"weighting": "posterior", "assignment": "soft", "random_state": 3, "step_offset": 3.0}
    params |= {"n_particles": 200, "max_iter": 60}
    mean, true, taken = [], _fit.resample, []
    monkeypatch.setattr(_fit, "resample", lambda *a: taken.append(0) or true(*a))
    for enough in (0.0, 0.5):
        monkeypatch.setattr(_fit, "_MIN_ESS", enough)
        fitted = model(2, **params).fit(X[:3])
        bound = fitted._state.block.topics.elbo(fitted._state.block.counts)
        mean.append(fitted.posterior_.weights @ (bound > -276.2))
    assert taken and mean[1] == pytest.approx(mean[0], abs=0.1)


def test_steps_on_all_documents_do_not_weigh_resampled_particles_again(monkeypatch):
    params = {"weighting": "posterior", "n_particles": 20}
    weighed = model(**params).fit(X)._state.block
    assert weighed.base.any()  # there was a resampling
    reweighted = model(max_full_iter=1, **params).fit(X)._state.block
    np.testing.assert_array_equal(reweighted.base, weighed.base)


# ---------------------------------------------------------------------- growing vocabularies
def test_new_words_have_the_prior_until_they_occur():
    grown = stream(vocabulary="growing", topic_word_prior=0.3).partial_fit(X)
    wide = np.hstack([X[:40], np.zeros((40, 2), dtype=int)])
    wide[:, 24] = 3
    grown.partial_fit(wide)
    assert grown.n_features_in_ == 26 and grown.components_.shape == (3, 26)
    assert (grown.components_[:, 24] > 0.4).any()
    np.testing.assert_allclose(grown.components_[:, 25], 0.3, rtol=1e-5)
    np.testing.assert_allclose(grown.topic_word_.sum(axis=1), 1.0, rtol=1e-5)
    assert grown.transform(wide).shape == (40, 3)


@pytest.mark.parametrize("eta", [None, 0.3])
def test_columns_that_come_later_are_columns_of_zeros_before(eta):
    """One topic and a first step of size 1, which leaves nothing of a guess."""
    params = {"topic_word_prior": eta, "step_offset": 0.0, "step_decay": 0.5}
    wide = X.copy()
    wide[:60, 18:] = 0
    grown = stream(1, vocabulary="growing", **params)
    updated(grown, [wide[:60, :18], wide[60:]])
    fixed = updated(stream(1, **params), [wide[:60], wide[60:]])
    np.testing.assert_allclose(grown.components_, fixed.components_, rtol=1e-5)
    np.testing.assert_allclose(grown.score_samples(X), fixed.score_samples(X), rtol=1e-5)


def test_a_vocabulary_does_not_shrink_nor_grow_in_predictions():
    grown = stream(vocabulary="growing").partial_fit(X)
    with pytest.raises(ValueError, match="X has 23 features.*a word that X lacks is a column of"):
        grown.partial_fit(X[:, :23])
    wide = np.hstack([X, X[:, :1]])
    for call in (grown.transform, grown.score_samples, grown.perplexity):
        with pytest.raises(ValueError, match="X has 25 features, but LDATopic"):
            call(wide)
    assert grown.n_features_in_ == 24 and grown.transform(X).shape == (120, 3)
    with pytest.raises(ValueError, match="X has 25 features.*new words need vocabulary='growing'"):
        stream().partial_fit(X).partial_fit(wide)


def test_names_of_a_growing_vocabulary():
    frame = pd.DataFrame(X, columns=NAMES)
    more = pd.concat([frame, frame[["word0"]].set_axis(["new"], axis=1)], axis=1)
    grown = stream(vocabulary="growing").partial_fit(frame)
    with pytest.raises(ValueError, match="vocabulary='growing'"):
        grown.partial_fit(more[["new", *NAMES]])
    assert list(grown.feature_names_in_) == NAMES
    grown.partial_fit(more)
    assert list(grown.feature_names_in_) == [*NAMES, "new"]
    assert grown.transform(more).shape == (120, 3)


@pytest.mark.parametrize("prior", [np.full(24, 0.1), np.full((3, 24), 0.1).tolist()])
def test_a_prior_of_each_word_does_not_grow_along(prior):
    grown = stream(vocabulary="growing", topic_word_prior=prior)
    for call in (grown.partial_fit, grown.fit):  # at once, and not when new words come
        with pytest.raises(ValueError, match="topic_word_prior is an array.*give a number"):
            call(X)
    fixed = stream(topic_word_prior=prior).partial_fit(X)
    before = state(fixed)
    with pytest.raises(ValueError, match="topic_word_prior is an array.*give a number"):
        fixed.set_params(vocabulary="growing").partial_fit(X)
    assert_same_state(state(fixed), before)


# ---------------------------------------------------------------------- calls that fail
# ---------------------------------------------------------------------- Ctrl-C in fit
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("at", [9, 10, 11])
def test_an_interrupted_fit_keeps_what_it_has(monkeypatch, at, n_jobs):
    fitted = stream(n_jobs=n_jobs)
    interrupt(monkeypatch, _kernels, "deposit", at)  # in the third batch
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X)
    monkeypatch.undo()
    assert fitted.n_batch_iter_ == 2
    np.testing.assert_allclose(fitted.topic_word_.sum(axis=1), 1.0, rtol=1e-5)
    words, totals, *_, scale = fitted._state.block.counts
    np.testing.assert_allclose(scale * words.sum(axis=1), totals, rtol=1e-4)
    assert fitted.partial_fit(X).n_batch_iter_ == 8


def test_full_batches_that_are_interrupted_keep_the_passes(monkeypatch):
    fitted = stream(max_iter=2, max_full_iter=3)
    interrupt(monkeypatch, LDAModel, "update_block", 13)  # after two passes of six batches
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X)
    monkeypatch.undo()
    assert_equal(fitted, stream(max_iter=2).fit(X))


# ---------------------------------------------------------------------- memory
@pytest.mark.slow_but("float64")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_documents_are_not_copied(dtype):
    """A fit, a part and predictions take 0.3 times the bytes of X; counts in float32 took more."""
    counts = np.random.default_rng(0).integers(1, 4, 800_000).astype(dtype)
    words = np.tile(np.arange(0, 200, 2, dtype=np.int32), 8000)
    documents = sparse.csr_matrix((counts, words, np.arange(0, 800_001, 100)), shape=(8000, 200))
    size = sum(one.nbytes for one in (counts, documents.indices, documents.indptr))
    fitted = LDATopicModelPMD(2, n_particles=1, max_iter=1, assignment="soft", n_local_iter=1)
    for call in (fitted.fit, fitted.partial_fit, fitted.transform, fitted.perplexity):
        call(documents[:50])  # Code is compiled, which takes memory.
        tracemalloc.start()
        call(documents)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.3 * size


def test_steps_on_all_documents_need_the_particles_once_more(monkeypatch):
    wide = sparse.hstack([X, sparse.csr_matrix((120, 50_000))]).tocsr()
    fitted, true, peaks = model(4, max_iter=1, max_full_iter=1), LDAModel.update_block, []

    def measured(*args):
        tracemalloc.start()
        try:
            return true(*args)
        finally:
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    monkeypatch.setattr(LDAModel, "update_block", measured)
    fitted.fit(wide)
    assert peaks[-1] < 1.2 * fitted._state.block.counts.words.nbytes


def test_a_stream_says_what_is_left_of_its_start():
    """In small steps the same documents leave next to nothing of it, and intervals hold more."""
    rng = np.random.default_rng(17)
    phi = rng.dirichlet(np.full(70, 0.1), 3)
    X = np.array([rng.multinomial(25, t @ phi) for t in rng.dirichlet(np.full(3, 0.2), 600)])
    held = []
    for size, n in (("auto", 1), (12, 0)):
        stream = LDATopicModelPMD(
            3, doc_topic_prior=0.2, topic_word_prior=0.1, batch_size=size, random_state=0
        )
        for part in np.array_split(X, 6):
            stream.partial_fit(part)
        found = [one for one in stream.diagnostics_["warnings"] if "guess" in one]
        left = np.prod(1.0 - stream.history_["step_size"])
        assert len(found) == n and (left > 0.003) == bool(n)
        assert all(f"so that {left:.1%} of" in one and "batch_size" in one for one in found)
        place = linear_sum_assignment(-np.sqrt(phi) @ np.sqrt(stream.topic_word_).T)[1]
        low, high = np.moveaxis(stream.topic_word_interval(0.9)[place], -1, 0)
        held.append(((low <= phi) & (phi <= high)).mean())
    assert held[0] < 0.7 and held[1] > held[0] + 0.1
    fitted = LDATopicModelPMD(3, max_iter=1, random_state=0).fit(X)
    assert not any("guess" in one for one in fitted.diagnostics_["warnings"])
