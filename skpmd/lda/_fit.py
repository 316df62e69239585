"""Steps of a topic model: passes over all documents, steps on all of them, and a stream."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import progress
from skpmd.engine.particles import effective_sample_size, log_sum_exp
from skpmd.engine.resampling import resample
from skpmd.engine.schedules import step_size
from skpmd.lda import _learn_priors as topic_priors
from skpmd.lda._model import Counts, Documents, Sweeps, Topics
from skpmd.lda._parameters import batch_rows, model_of, schedule_of, sweeps_of
from skpmd.lda._stacking import Scores, scored

_ENOUGH = 0.5  # share of the particles that is effective, below which mirror weights resample
_RECORD = 10_000  # steps of a stream that are remembered
_TAKEN = 1024  # documents
_POLISH_ROWS = 512  # documents at once


class Learned(NamedTuple):
    """Particles of a topic model and all that a stream needs to go on.

    Attributes
    ----------
    model : Topics
        Priors of each particle.
    counts : Counts
        Of the particles.
    sweeps : Sweeps
        How words are shared out.
    scores : Scores
        Stacking weights.
    base : ndarray of shape (m,)
        What mirror weights subtract from the bounds: those at the last resampling. It does not
        fade: the draws of a resampling have the bounds of then in their density for good.
    size : float
        Documents that the counts stand for.
    seen : int
        Documents so far.
    visits : int
        Visits of documents so far, again and again: the number of the next stream of randomness.
    seeds : ndarray of shape (m,), uint64
        Of the particles' streams of randomness.
    history : list of tuple
        Number, size, documents and mean log density of a word before it was learnt, of each step;
        of a stream the last 10,000 or so.
    rng : numpy.random.Generator
        Source of all other randomness.
    priors : PriorsState or None
        Of ``learn_priors``.
    exact : bool
        Whether the counts are those of all documents so far, each once, and nothing else.
    interrupted : bool
        Whether Ctrl-C ended the fit.
    """

    model: Topics
    counts: Counts
    sweeps: Sweeps
    scores: Scores
    base: np.ndarray
    size: float
    seen: int
    visits: int
    seeds: np.ndarray
    history: list
    rng: np.random.Generator
    priors: topic_priors.PriorsState | None = None
    exact: bool = False
    interrupted: bool = False

    def log_weights(self, weighting):
        """Log weights of the particles, sum of exp 1."""
        if weighting == "stacking":
            return self.scores.log_weights
        if weighting == "uniform":
            return np.full(self.model.m, -np.log(self.model.m))
        log_ratio = self.model.bound(self.counts) - self.base
        return log_ratio - log_sum_exp(log_ratio)


def start(estimator, X, total, rng):
    """Particles before the first document.

    Parameters
    ----------
    estimator : LDATopicModelPMD
        Its parameters.
    X : csr_matrix of shape (n, V), float32
        Documents of the first call: the rule for the assignment looks at their length.
    total : float or None
        Documents in all, where that is known.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    Learned
        Particles that differ by a guess; without one yet if the first batch has no words.
    """
    model, m, priors = model_of(estimator, X.shape[1]), estimator.n_particles, None
    if estimator.learn_priors:
        priors, model = topic_priors.start(model, rng)
    seeds = rng.integers(0, 2**64, size=m, dtype=np.uint64)
    first = (_with_words(X) if total is None else X)[: batch_rows(estimator, total)]
    size = float(first.shape[0] if total is None else total)
    tokens = float(first.data.sum(dtype=np.float64)) * size / max(1, first.shape[0])
    counts = model.start(tokens, rng) if tokens else Counts.none(m, model.V, model.K)
    scores, sweeps = Scores(np.full(m, -np.log(m))), sweeps_of(estimator, X)
    return Learned(model, counts, sweeps, scores, np.zeros(m), size, 0, 0, seeds, [], rng, priors)


def fit_topics(estimator, X, rng, workers, perplexity):
    """Learn from all documents.

    Parameters
    ----------
    estimator : LDATopicModelPMD
        Its parameters.
    X : csr_matrix of shape (n, V), float32
        Counts.
    rng : numpy.random.Generator
        Source of all randomness.
    workers : Workers
        Threads.
    perplexity : callable
        Of the documents, given what has been learnt; asked for with ``evaluate_every``.

    Returns
    -------
    Learned
        Particles that have learnt.
    """
    n = X.shape[0]
    learned = start(estimator, X, float(n), rng)
    try:
        for step in _steps(estimator, X, learned, workers, perplexity):
            learned = step
    except KeyboardInterrupt:
        if not learned.history:
            raise
        learned = learned._replace(counts=learned.counts.balanced(), interrupted=True)
    return learned._replace(seen=n)


def _steps(estimator, X, learned, workers, perplexity):
    """All steps of a fit, one by one: what has been learnt after each."""
    n, evaluated, every = X.shape[0], None, estimator.evaluate_every
    size, rng = batch_rows(estimator, n), learned.rng
    with progress(estimator.max_iter * -(-n // size), estimator.verbose, "batches") as bar:
        for iteration in range(1, estimator.max_iter + 1):
            order = rng.permutation(n) if estimator.shuffle else np.arange(n)
            learned = learned._replace(scores=learned.scores.renewed(), seen=0)
            for batch in _batches(X, order, size):
                learned = advance(estimator, learned, batch, float(n), workers)
                yield learned
                bar.update(1, f"step size {learned.history[-1][1]:.2g}")
            learned = _reweighed(estimator, learned, rng)
            yield learned
            if every > 0 and iteration % every == 0:
                before, evaluated = evaluated, perplexity(learned)
                if estimator.verbose:
                    print(f"pass {iteration}: perplexity {evaluated:.4f}")
                if before is not None and abs(before - evaluated) < estimator.perp_tol:
                    break
    for _ in range(estimator.max_full_iter):
        learned = _polished(estimator, learned, X, workers)
        yield learned


def take_in(estimator, before, X, workers):
    """The particles after one call's documents of a stream.

    Parameters
    ----------
    estimator : LDATopicModelPMD
        Its parameters.
    before : Learned or None
        None stands for no documents before.
    X : csr_matrix of shape (n, V), float32
        Counts.
    workers : Workers
        Threads.

    Returns
    -------
    Learned
        After; ``before`` is as it was if anything fails.
    """
    learned, total = before, estimator.total_samples
    size = batch_rows(estimator, total)
    with _undone(learned, X.indices):
        learned = learned._replace(rng=copy.deepcopy(learned.rng))
        if X.shape[1] > learned.model.V:
            model, counts = model_of(estimator, X.shape[1]), learned.counts.widened(X.shape[1])
            model = model.with_priors(learned.model.alpha, learned.model.eta_scale)
            learned = learned._replace(model=model, counts=counts)
        learned = learned._replace(history=learned.history[-_RECORD:])
        if total is None:
            X = _with_words(X)
        if not learned.visits:
            learned = learned._replace(sweeps=sweeps_of(estimator, X))
        for batch in _batches(X, np.arange(X.shape[0]), size):
            learned = advance(estimator, learned, batch, total, workers)
        return _reweighed(estimator, learned, learned.rng)


def _with_words(X):
    """The documents that have words: in a stream without an end the others say nothing."""
    some = np.diff(X.indptr) > 0
    return X if some.all() else X[some]


@contextmanager
def _undone(learned, indices):
    """Counts as they were if anything fails: a call's words are few beside the vocabulary."""
    words = learned.counts.words
    touched = np.unique(indices)
    touched = touched[touched < words.shape[1]]
    before = words[:, touched]
    try:
        yield
    except BaseException:
        words[:, touched] = before
        raise


def _batches(X, order, size):
    """Documents in an order, batch by batch; many are taken from X at once, for that takes time."""
    step = size * max(1, _TAKEN // size)
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        ends = [*range(0, len(chosen), size), len(chosen)]
        pairs = list(zip(ends[:-1], ends[1:], strict=True))
        taken = Documents.of(X[np.concatenate([np.sort(chosen[a:b]) for a, b in pairs])])
        for a, b in pairs:
            yield taken.rows(a, b)


def advance(estimator, learned, documents, total, workers):
    """One step on a batch of documents.

    Time runs in full batches: a batch of fewer documents is a part of a step, so that documents
    that come one by one are not each taken for the whole. The step size is that of the batch's end;
    parts of a step of size 1 are averaged over the last full batch.
    """
    n, full = documents.n, batch_rows(estimator, total)
    visits, seen = learned.visits + n, learned.seen + n
    whole = step_size(schedule_of(estimator), visits / full, n, visits, learned.model.m, 0)
    part = n / min(visits, full)
    gamma = -np.expm1(n / full * np.log1p(-whole)) if whole < 1.0 else part
    size = float(seen) if total is None else float(total)
    learned, workers = _guessed(learned, documents, size), workers.of(n)
    scores, score = learned.scores, np.nan
    if estimator.weighting == "stacking" and learned.model.m > 1:
        first = learned.visits
        scores, score = scored(scores, learned.model, learned.counts, documents, first, workers)
    keep = (1.0 - gamma) * size / learned.size
    seeds = _streams(learned.seeds, learned.visits, n)
    counts, mass = learned.model.add(
        learned.counts.faded(keep), gamma * size / n, learned.counts, documents,
        learned.sweeps, seeds, workers, terms=estimator.weighting == "posterior",
    )  # fmt: skip
    model, priors = learned.model, learned.priors
    if priors is not None:
        taken = counts, len(documents.data), mass, gamma, size / n, learned.rng
        priors, model = topic_priors.advance(priors, model, *taken)
    _record(learned.history, gamma, n, score)
    return learned._replace(
        model=model, priors=priors, counts=counts, scores=scores,
        size=size, seen=seen, visits=visits, exact=gamma == 1.0 and n == size == seen,
    )  # fmt: skip


def _guessed(learned, documents, size):
    """The particles with a guess: without one it is made of the first documents with words."""
    if learned.counts.totals.any() or not len(documents.data):
        return learned
    tokens = float(documents.data.sum(dtype=np.float64)) * size / documents.n
    counts = learned.model.start(tokens, learned.rng)
    priors = learned.priors and learned.priors._replace(guess=1.0)
    return learned._replace(counts=counts, size=size, priors=priors)


def _record(history, *step):
    history.append((history[-1][0] + 1 if history else 1, *step))


def _streams(seeds, first, n):
    """Seeds of the streams of n visits, for each particle: shape (m, n)."""
    numbers = np.arange(first, first + n, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return seeds[:, None] + numbers


def _polished(estimator, learned, X, workers):
    """A step of size 1 on all documents: Bayes' rule given how words are shared out."""
    n, model, terms = X.shape[0], learned.model, estimator.weighting == "posterior"
    counts = Counts.none(model.m, model.V, model.K)
    for a in range(0, n, _POLISH_ROWS):
        rows = X[a : a + _POLISH_ROWS]
        seeds = _streams(learned.seeds, learned.visits + a, rows.shape[0])
        given = learned.counts, Documents.of(rows), learned.sweeps, seeds, workers, terms
        counts, _ = model.add(counts, 1.0, *given)
    _record(learned.history, 1.0, n, np.nan)
    return learned._replace(counts=counts, visits=learned.visits + n, exact=True)


def _reweighed(estimator, learned, rng):
    """Mirror weights resample where few particles are effective; others never do."""
    if estimator.weighting != "posterior" or learned.model.m == 1:
        return learned
    log_weights = learned.log_weights("posterior")
    if effective_sample_size(log_weights) >= _ENOUGH * learned.model.m:
        return learned
    bound = learned.base + log_weights  # up to a constant, which no weight needs
    chosen = resample("systematic", np.exp(log_weights), learned.model.m, rng)
    counts, model = learned.counts.take(chosen), learned.model
    model = model.with_priors(model.alpha[chosen], model.eta_scale[chosen])
    priors = learned.priors and learned.priors.take(chosen)
    return learned._replace(model=model, priors=priors, counts=counts, base=bound[chosen])
