"""Fits of topic models: passes over all documents, full-batch iterations, and streams."""

import copy
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skpmd._base.progress import progress
from skpmd.engine.particles import effective_sample_size, log_sum_exp
from skpmd.engine.resampling import resample
from skpmd.engine.schedules import step_size
from skpmd.lda import _learn_priors as learn_priors
from skpmd.lda._parameters import batch_size_of, local_update_of, schedule_of, topics_of
from skpmd.lda._predict import perplexity
from skpmd.lda._stacking import Scores, scored
from skpmd.lda._topics import Counts, Documents, LocalUpdate, Topics

# Posterior weights resample where the effective sample size is below this part of the particles.
_MIN_ESS = 0.5
_MAX_HISTORY = 10_000  # steps of earlier calls that a stream remembers
_TAKEN = 1024  # documents that are taken from X at once
_FULL_BATCH_PIECE = 512  # documents of a full-batch iteration that are in memory at once


class LDAState(NamedTuple):
    """What has been fitted, and all that a stream needs to go on.

    Attributes
    ----------
    topics : Topics
        Topic models of all particles under their priors.
    counts : Counts
        Counts of the particles.
    update : LocalUpdate
        How words are assigned to topics.
    scores : Scores
        Stacking weights.
    base : ndarray of shape (m,)
        What posterior weights subtract from the ELBOs: those at the last resampling. It is not
        discounted: draws of a resampling have the ELBOs of then in their density for good.
    size : float
        Documents that the counts stand for.
    n_documents_seen : int
        Documents so far.
    n_visits : int
        Visits of documents so far, in all passes: the number of the next stream of randomness.
    seeds : ndarray of shape (m,), uint64
        Seeds of the particles' streams of randomness.
    history : list of tuple
        Number, size, documents and mean log density of a word of each step; of a stream the last
        10,000 or so.
    rng : numpy.random.Generator
        Source of all other randomness.
    priors : PriorsState or None
        State of ``learn_priors``.
    exact : bool
        Whether the counts are those of all documents so far, each once, and nothing else.
    perplexity : float or None
        That of the documents of a fit, with ``evaluate_every``.
    n_iter : int or None
        Passes and full-batch iterations of a fit.
    interrupted : bool
        Whether Ctrl-C ended the fit.
    """

    topics: Topics
    counts: Counts
    update: LocalUpdate
    scores: Scores
    base: np.ndarray
    size: float
    n_documents_seen: int
    n_visits: int
    seeds: np.ndarray
    history: list
    rng: np.random.Generator
    priors: learn_priors.PriorsState | None = None
    exact: bool = False
    perplexity: float | None = None
    n_iter: int | None = None
    interrupted: bool = False

    def log_weights(self, weighting):
        """Log weights of the particles; the weights sum to 1."""
        if weighting == "stacking":
            return self.scores.log_weights
        if weighting == "uniform":
            return np.full(self.topics.m, -np.log(self.topics.m))
        log_ratio = self.topics.elbo(self.counts) - self.base
        return log_ratio - log_sum_exp(log_ratio)


def initialise(parameters, X, total, rng):
    """Particles before the first document.

    Parameters
    ----------
    parameters : LDAParameters
        Parameters of the estimator.
    X : csr_matrix of shape (n, V), float32
        Documents of the first call: the rule for the assignment looks at their length.
    total : float or None
        Number of documents in all, where that is known.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    LDAState
        Particles that differ by a guess; without it as yet if the first batch has no words.
    """
    topics, m, priors = topics_of(parameters, X.shape[1]), parameters.n_particles, None
    if parameters.learn_priors:
        priors, topics = learn_priors.initialise(topics, rng)
    seeds = rng.integers(0, 2**64, size=m, dtype=np.uint64)
    first = (_with_words(X) if total is None else X)[: batch_size_of(parameters, total)]
    size = float(first.shape[0] if total is None else total)
    tokens = float(first.data.sum(dtype=np.float64)) * size / max(1, first.shape[0])
    counts = topics.initial_counts(tokens, rng) if tokens else Counts.zeros(m, topics.V, topics.K)
    return LDAState(
        topics=topics,
        counts=counts,
        update=local_update_of(parameters, X),
        scores=Scores(np.full(m, -np.log(m))),
        base=np.zeros(m),
        size=size,
        n_documents_seen=0,
        n_visits=0,
        seeds=seeds,
        history=[],
        rng=rng,
        priors=priors,
    )


def fit_topics(parameters, X, rng, workers):
    """Fit topics to all documents.

    Parameters
    ----------
    parameters : LDAParameters
        Parameters of the estimator.
    X : csr_matrix of shape (n, V), float32
        Counts.
    rng : numpy.random.Generator
        Source of all randomness.
    workers : Workers
        Threads.

    Returns
    -------
    LDAState
        At the end, or after the last complete step if Ctrl-C ended the fit.
    """
    n = X.shape[0]
    state = initialise(parameters, X, float(n), rng)
    try:
        for after in _steps(parameters, X, state, workers):
            state = after
    except KeyboardInterrupt:
        if not state.history:
            raise
        state = state._replace(counts=state.counts.balanced(), interrupted=True)
    state = state._replace(n_documents_seen=n, n_iter=state.n_visits // n)
    if state.priors is not None and not state.interrupted:
        state = state._replace(topics=learn_priors.final_topics(state.priors, state.topics))
    if parameters.evaluate_every > 0 and not state.interrupted:
        state = state._replace(perplexity=_perplexity(parameters, state, X))
    return state


def _steps(parameters, X, state, workers):
    """All steps of a fit, one by one: the state after each."""
    n, evaluated, every = X.shape[0], None, parameters.evaluate_every
    size, rng = batch_size_of(parameters, n), state.rng
    with progress(parameters.max_iter * -(-n // size), parameters.verbose, "batches") as bar:
        for iteration in range(1, parameters.max_iter + 1):
            order = rng.permutation(n) if parameters.shuffle else np.arange(n)
            state = state._replace(scores=state.scores.renewed(), n_documents_seen=0)
            for batch in _batches(X, order, size):
                state = take_step(parameters, state, batch, float(n), workers)
                yield state
                bar.update(1, f"step size {state.history[-1][1]:.2g}")
            state = _resampled(parameters, state, rng)
            yield state
            if every > 0 and iteration % every == 0:
                before, evaluated = evaluated, _perplexity(parameters, state, X)
                if parameters.verbose:
                    print(f"pass {iteration}: perplexity {evaluated:.4f}")
                if before is not None and abs(before - evaluated) < parameters.perp_tol:
                    break
    for _ in range(parameters.max_full_iter):
        state = full_batch_step(parameters, state, X, workers)
        yield state


def _perplexity(parameters, state, X):
    log_weights = state.log_weights(parameters.weighting)
    return perplexity(parameters, state, log_weights, X)


def update_stream(parameters, state, X, workers):
    """Update the particles by one call's documents of a stream.

    Parameters
    ----------
    parameters : LDAParameters
        Parameters of the estimator.
    state : LDAState
        Before; as it was if anything fails.
    X : csr_matrix of shape (n, V), float32
        Counts.
    workers : Workers
        Threads.

    Returns
    -------
    LDAState
        After.
    """
    total = parameters.total_samples
    size = batch_size_of(parameters, total)
    with _rollback_of_counts(state.counts, X.indices):
        state = state._replace(
            rng=copy.deepcopy(state.rng),
            history=state.history[-_MAX_HISTORY:],
            perplexity=None,
            n_iter=None,
        )
        if X.shape[1] > state.topics.V:
            wide = topics_of(parameters, X.shape[1])
            wide = wide.with_priors(state.topics.alpha, state.topics.eta_scale)
            state = state._replace(topics=wide, counts=state.counts.widened(X.shape[1]))
        if total is None:
            X = _with_words(X)
        if not state.n_visits:
            state = state._replace(update=local_update_of(parameters, X))
        for batch in _batches(X, np.arange(X.shape[0]), size):
            state = take_step(parameters, state, batch, total, workers)
        return _resampled(parameters, state, state.rng)


def _with_words(X):
    """The documents that have words: to a stream without an end the others say nothing."""
    some = np.diff(X.indptr) > 0
    return X if some.all() else X[some]


@contextmanager
def _rollback_of_counts(counts, indices):
    """Counts as they were if anything fails: a call's words are few beside the vocabulary."""
    words = counts.words
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


def take_step(parameters, state, documents, total, workers):
    """One step on a batch of documents.

    Time runs in full batches: a batch of fewer documents is a part of a step, so that documents
    that come one by one do not each have the weight of a batch. The step size is that of the
    batch's end; parts of a step of size 1 are averaged over the last full batch.
    """
    n, full = documents.n, batch_size_of(parameters, total)
    n_visits, n_seen = state.n_visits + n, state.n_documents_seen + n
    whole = step_size(schedule_of(parameters), n_visits / full, n, n_visits, state.topics.m, 0)
    part = n / min(n_visits, full)
    gamma = -np.expm1(n / full * np.log1p(-whole)) if whole < 1.0 else part
    size = float(n_seen) if total is None else float(total)
    state, workers = _with_guess(state, documents, size), workers.of(n)
    scores, score = state.scores, np.nan
    if parameters.weighting == "stacking" and state.topics.m > 1:
        first = state.n_visits
        scores, score = scored(scores, state.topics, state.counts, documents, first, workers)
    discount = (1.0 - gamma) * size / state.size
    counts, mass = state.topics.add_documents(
        state.counts.discounted(discount),
        gamma * size / n,
        state.counts,
        documents,
        state.update,
        _streams(state.seeds, state.n_visits, n),
        workers,
        elbo=parameters.weighting == "posterior",
    )
    topics, priors = state.topics, state.priors
    if priors is not None:
        priors, topics = learn_priors.update(
            priors,
            topics,
            counts,
            n_entries=len(documents.data),
            mass=mass,
            gamma=gamma,
            copies=size / n,
            rng=state.rng,
        )
    _record(state.history, gamma, n, score)
    return state._replace(
        topics=topics,
        priors=priors,
        counts=counts,
        scores=scores,
        size=size,
        n_documents_seen=n_seen,
        n_visits=n_visits,
        exact=gamma == 1.0 and n == size == n_seen,
    )


def _with_guess(state, documents, size):
    """Particles with a guess: if there is none yet, it is made from the first words."""
    if state.counts.totals.any() or not len(documents.data):
        return state
    tokens = float(documents.data.sum(dtype=np.float64)) * size / documents.n
    counts = state.topics.initial_counts(tokens, state.rng)
    priors = state.priors and state.priors._replace(guess=1.0)
    return state._replace(counts=counts, size=size, priors=priors)


def _record(history, *step):
    history.append((history[-1][0] + 1 if history else 1, *step))


def _streams(seeds, first, n):
    """Seeds of the streams of n visits, for each particle: shape (m, n)."""
    numbers = np.arange(first, first + n, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return seeds[:, None] + numbers


def full_batch_step(parameters, state, X, workers):
    """A step of size 1 on all documents: Bayes' rule given the assignment of the words."""
    n, topics = X.shape[0], state.topics
    counts = Counts.zeros(topics.m, topics.V, topics.K)
    for a in range(0, n, _FULL_BATCH_PIECE):
        rows = X[a : a + _FULL_BATCH_PIECE]
        counts, _ = topics.add_documents(
            counts,
            1.0,
            state.counts,
            Documents.of(rows),
            state.update,
            _streams(state.seeds, state.n_visits + a, rows.shape[0]),
            workers,
            elbo=parameters.weighting == "posterior",
        )
    _record(state.history, 1.0, n, np.nan)
    return state._replace(counts=counts, n_visits=state.n_visits + n, exact=True)


def _resampled(parameters, state, rng):
    """Posterior weights resample where few particles are effective; others never do."""
    topics = state.topics
    if parameters.weighting != "posterior" or topics.m == 1:
        return state
    log_weights = state.log_weights("posterior")
    if effective_sample_size(log_weights) >= _MIN_ESS * topics.m:
        return state
    elbo = state.base + log_weights  # up to a constant, which the weights do not need
    chosen = resample("systematic", np.exp(log_weights), topics.m, rng)
    return state._replace(
        topics=topics.with_priors(topics.alpha[chosen], topics.eta_scale[chosen]),
        priors=state.priors and state.priors.select(chosen),
        counts=state.counts.select(chosen),
        base=elbo[chosen],
    )
