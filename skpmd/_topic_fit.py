"""Steps of a topic model: passes over all documents, steps on all of them, and a stream."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skpmd import _topic_priors as topic_priors
from skpmd._progress import progress
from skpmd._topic_problem import batch_rows, model_of, schedule_of, sweeps_of
from skpmd._topic_stacking import Scores, scored
from skpmd.engine.cloud import effective_sample_size, log_sum_exp
from skpmd.engine.resampling import resample
from skpmd.engine.schedules import step_size
from skpmd.models.topics import Counts, Documents, Sweeps, Topics

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
        What mirror weights subtract from the bounds: those at the last resampling, as far as the
        steps since then have left of them.
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
        Whether the counts are those of all documents, each once, and nothing else.
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
        Particles that differ by a guess.
    """
    model, m, priors = model_of(estimator, X.shape[1]), estimator.n_particles, None
    if estimator.learn_priors:
        priors, model = topic_priors.start(model, rng)
    seeds = rng.integers(0, 2**64, size=m, dtype=np.uint64)
    first = X[: batch_rows(estimator, total)]
    size = float(first.shape[0] if total is None else total)
    tokens = float(first.data.sum(dtype=np.float64)) * size / first.shape[0]
    counts = model.start(tokens, rng)
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
    float or None
        The last perplexity, if any was asked for.
    """
    n, evaluated = X.shape[0], None
    learned = start(estimator, X, float(n), rng)
    size, every = batch_rows(estimator, n), estimator.evaluate_every
    bar = progress(estimator.max_iter * -(-n // size), estimator.verbose, "batches")
    try:
        with bar as bar:
            for iteration in range(1, estimator.max_iter + 1):
                order = rng.permutation(n) if estimator.shuffle else np.arange(n)
                learned = learned._replace(scores=learned.scores.renewed())
                for batch in _batches(X, order, size):
                    learned = advance(estimator, learned, batch, float(n), workers)
                    bar.update(1, f"step size {learned.history[-1][1]:.2g}")
                learned = _reweighed(estimator, learned, rng)
                if every > 0 and iteration % every == 0:
                    before, evaluated = evaluated, perplexity(learned)
                    if estimator.verbose:
                        print(f"pass {iteration}: perplexity {evaluated:.4f}")
                    if before is not None and abs(before - evaluated) < estimator.perp_tol:
                        break
        for _ in range(estimator.max_polish):
            learned = _polished(estimator, learned, X, workers)
    except KeyboardInterrupt:
        if not learned.history:
            raise
        learned = learned._replace(counts=learned.counts.balanced(), interrupted=True)
    return learned._replace(seen=n), evaluated


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
        for batch in _batches(X, np.arange(X.shape[0]), size):
            learned = advance(estimator, learned, batch, total, workers)
        return _reweighed(estimator, learned, learned.rng)


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
    that come one by one are not each taken for the whole. The step size is that of the batch's end.
    """
    n, full = documents.n, batch_rows(estimator, total)
    visits, seen = learned.visits + n, learned.seen + n
    whole = step_size(schedule_of(estimator), visits / full, n, visits, learned.model.m, 0)
    gamma = -np.expm1(n / full * np.log1p(-whole)) if whole < 1.0 else 1.0
    size = float(seen) if total is None else float(total)
    scores, score = learned.scores, np.nan
    if estimator.weighting == "stacking" and learned.model.m > 1:
        first = learned.visits
        scores, score = scored(scores, learned.model, learned.counts, documents, first, workers)
    keep = (1.0 - gamma) * size / learned.size
    seeds = _streams(learned.seeds, learned.visits, n)
    counts, mass = learned.model.add(
        learned.counts.faded(keep), gamma * size / n, learned.counts, documents,
        learned.sweeps, seeds, workers, terms=estimator.weighting == "mirror",
    )  # fmt: skip
    _record(learned.history, gamma, n, score)
    model, priors = learned.model, learned.priors
    if priors is not None:
        taken = counts, len(documents.data), mass, gamma, size / n, learned.rng
        priors, model = topic_priors.advance(priors, model, *taken)
    return learned._replace(
        model=model, priors=priors, counts=counts, scores=scores, base=keep * learned.base,
        size=size, seen=seen, visits=visits, exact=gamma == 1.0 and n == size,
    )  # fmt: skip


def _record(history, *step):
    history.append((history[-1][0] + 1 if history else 1, *step))


def _streams(seeds, first, n):
    """Seeds of the streams of n visits, for each particle: shape (m, n)."""
    numbers = np.arange(first, first + n, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return seeds[:, None] + numbers


def _polished(estimator, learned, X, workers):
    """A step of size 1 on all documents: Bayes' rule given how words are shared out."""
    n, model, terms = X.shape[0], learned.model, estimator.weighting == "mirror"
    parts = []
    for i in range(model.m):  # one particle at a time: its counts are there twice
        one, counts = model.only(i), learned.counts.take([i])
        new = Counts.none(1, model.V, model.K)
        for a in range(0, n, _POLISH_ROWS):
            rows = X[a : a + _POLISH_ROWS]
            seeds = _streams(learned.seeds[i : i + 1], learned.visits + a, rows.shape[0])
            given = counts, Documents.of(rows), learned.sweeps, seeds, workers, terms
            new, _ = one.add(new, 1.0, *given)
        parts.append(new)
    _record(learned.history, 1.0, n, np.nan)
    base = np.zeros(model.m)
    return learned._replace(
        counts=Counts.joined(parts), base=base, visits=learned.visits + n, exact=True
    )


def _reweighed(estimator, learned, rng):
    """Mirror weights resample where few particles are effective; others never do."""
    if estimator.weighting != "mirror" or learned.model.m == 1:
        return learned
    log_weights = learned.log_weights("mirror")
    if effective_sample_size(log_weights) >= _ENOUGH * learned.model.m:
        return learned
    bound = learned.base + log_weights  # up to a constant, which no weight needs
    chosen = resample("systematic", np.exp(log_weights), learned.model.m, rng)
    counts, model = learned.counts.take(chosen), learned.model
    model = model.with_priors(model.alpha[chosen], model.eta_scale[chosen])
    priors = learned.priors and learned.priors.take(chosen)
    return learned._replace(model=model, priors=priors, counts=counts, base=bound[chosen])
