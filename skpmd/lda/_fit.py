"""Fits of topic models: passes over all documents, full-batch iterations, and streams."""

import copy
from typing import NamedTuple

import numpy as np

from skpmd._base.steps import Records, bar_of_steps
from skpmd._runtime.call import phase, untimed, write
from skpmd.engine.loop import FullBatch, Method, Options, Outcome, Stage, drive, run
from skpmd.engine.mirror import Settings
from skpmd.engine.particles import draw_prior, effective_sample_size, equal_log_weights, resample
from skpmd.engine.schedules import step_size
from skpmd.lda import _draws as draws
from skpmd.lda import _learn_priors as learn_priors
from skpmd.lda._averages import perplexity
from skpmd.lda._documents import DocumentRows, groups_of, tokens_of, total_of, with_words
from skpmd.lda._early_stopping import are_no_better, held_out, score_of
from skpmd.lda._model import LDABlock, LDAModel, Scores
from skpmd.lda._parameters import batch_size_of, local_update_of, schedule_of, topics_of
from skpmd.lda._topics import Counts, LocalUpdate

# Posterior weights resample where the effective sample size is below this part of the particles.
_MIN_ESS = 0.5
# With max_iter="auto" there are so many passes before the draws of a small collection, and through
# one without draws more until the topics are still, up to so many, or to visits of so many words.
_PASSES, _MAX_PASSES, _PASS_VISITS = 5, 20, 1.2e7
# Documents that repeat each of their words so many times have so many full-batch iterations.
_REPEATED, _MAX_FULL = 8.0, 300
_PIECE = 1 << 16  # Numbers of words that are gone through at a time.
_MANY = 64  # Documents of a call from which on the places of its topics are looked at.
# Where topics move further than this in the last pass, 90 % intervals held .73 to .84, and below
# it .87 and more. Of the topics' words, the first so many numbers are looked at.
_MOVING, _LOOKED_AT = 0.45, 1 << 20
_STILL = (
    "the topics still change from pass to pass, by {:.1f} of their standard deviations in the "
    "last, so that intervals are too narrow (set {} to a larger number)"
)
# A particle is a whole topic model: none is drawn anew, and no step is split.
_SETTINGS = Settings(rejuvenation="never")


class LDAState(NamedTuple):
    """What has been fitted, and all that a stream needs to go on."""

    block: LDABlock
    update: LocalUpdate  # How words are assigned to topics.
    rng: np.random.Generator  # Source of all randomness but that of assignments.
    # Of the steps: size, documents and mean log density of a word.
    records: Records = Records()
    perplexity: float | None = None  # Of the documents of a fit, with ``evaluate_every``.
    n_iter: int | None = None  # Passes and full-batch iterations of a fit.
    # Scores of held-out documents after each pass of a fit, with ``early_stopping``.
    validation_scores: tuple | None = None
    interrupted: bool = False  # Whether Ctrl-C ended the fit.
    merged: dict | None = None  # What there is to say of a merge of shards; None without.
    findings: tuple = ()  # What speaks against a fit, in words.
    # How far topics moved in the last pass of a fit, in standard deviations; None where not known.
    change: float | None = None


def initialise(parameters, X, weight, total, size, rng):
    """The state before the first document: its particles differ by a guess.

    There is no guess as yet if the first batch has no words. X (n, V), a CSR matrix, has the
    documents of the first call: the rule for the assignment looks at their length. ``weight`` (n,)
    are their weights, None for 1, and ``total`` is the weight of all documents, None where it is
    not known. A batch has ``size`` documents.
    """
    topics, m, priors = topics_of(parameters, X.shape[1]), parameters.n_particles, None
    if parameters.learn_priors:
        priors, topics = learn_priors.initialise(topics, rng)
    seeds = rng.integers(0, 2**64, size=m, dtype=np.uint64)
    given = with_words(X, weight) if total is None else (X, weight)
    first, its_weight = (None if one is None else one[:size] for one in given)
    known = total_of(first, its_weight)
    size = known if total is None else total
    tokens = tokens_of(first, its_weight) * size / (known or 1.0)
    counts = topics.initial_counts(tokens, rng) if tokens else Counts.zeros(m, topics.V, topics.K)
    block = LDABlock(topics, counts, Scores(equal_log_weights(m)), np.zeros(m), size, seeds, priors)
    return LDAState(block, local_update_of(parameters, X, weight), rng)


def fit_topics(parameters, X, weight, rng):
    """Fit topics to all documents X; other parameters are those of `initialise`.

    If Ctrl-C ends the fit, each particle is as it was after its last complete step.
    """
    is_auto, drawing, until_still = parameters.max_iter == "auto", None, False
    X, weight, out = held_out(parameters, X, weight, rng)
    n, total = X.shape[0], total_of(X, weight)
    size = batch_size_of(parameters, float(n))
    state = initialise(parameters, X, weight, total, size, rng)
    if is_auto:
        drawing = _to_draw(parameters, state, X, weight)
        is_last = not parameters.max_full_iter and parameters.weighting != "posterior"
        until_still = drawing is None and is_last
        passes = _n_passes(X, tokens_of) if until_still else _PASSES
        parameters = parameters._replace(max_iter=passes)
        if until_still and out is None and state.block.priors is None and _repeat_words(X):
            # Topics are known so well that smaller and smaller steps do not get there.
            n_full = _n_passes(X, lambda some, _: some.nnz, _MAX_FULL)
            parameters = parameters._replace(max_iter=_PASSES, max_full_iter=n_full)
    rows = DocumentRows(X, size, parameters.shuffle, weight)
    state = after_steps(parameters, state, rows, total, out, until_still)
    block = state.block._replace(n_documents_seen=total)
    if state.interrupted:
        block = block._replace(counts=block.counts.balanced())
    elif block.priors is not None:
        block = block._replace(topics=learn_priors.final_topics(block.priors, block.topics))
    n_iter = block.n_visits // n
    state = state._replace(block=block, n_iter=n_iter)
    if drawing is not None and not state.interrupted:
        after = drive(_with_draws(state, *drawing))
        state = after.value._replace(interrupted=after.interrupted)
    elif state.change is not None and state.change > _MOVING:
        if until_still or not parameters.max_full_iter:
            name = "max_full_iter" if parameters.max_full_iter else "max_iter"
            state = state._replace(findings=(_STILL.format(state.change, name),))
    if parameters.evaluate_every <= 0 or state.interrupted:
        return state
    with untimed():
        evaluated = drive(_evaluated(parameters, state, X, weight))
    return evaluated.value._replace(interrupted=evaluated.interrupted)


def _n_passes(X, size_of, most=_MAX_PASSES):
    """Passes through documents X without draws, by the visits in each of them."""
    n_visits = 1.0
    for some, _ in groups_of(X, None):
        n_visits += size_of(some, None)
        if n_visits * _PASSES > _PASS_VISITS:
            return _PASSES
    return min(int(_PASS_VISITS / n_visits), most)


def _repeat_words(X):
    some, _ = next(groups_of(X, None))
    return tokens_of(some, None) > _REPEATED * some.nnz


def _to_draw(parameters, state, X, weight):
    """Documents and weights for chains: None where other counts are asked for, or of many."""
    if parameters.max_full_iter or parameters.weighting == "posterior":
        return None
    topics = state.block.topics
    return draws.in_memory(X, weight, topics.m, topics.V, topics.K)


def _with_draws(state, X, weight):
    """The state without the draws of its chains and with them, for `drive`."""
    yield Stage(state)
    block = state.block
    found = draws.drawn(block.topics, block.counts, block.seeds, X, weight)
    counts = draws.averaged(found.counts, block.topics.m)
    block = block._replace(counts=counts, draws=found.counts, exact=False)
    n_iter = state.n_iter + found.n_sweeps
    yield Stage(state._replace(block=block, n_iter=n_iter, findings=tuple(found.findings)))


def _evaluated(parameters, state, X, weight):
    """The state without the perplexity of its documents and with it, for `drive`."""
    yield Stage(state)
    yield Stage(state._replace(perplexity=_perplexity(parameters, state.block, X, weight)))


def update_stream(parameters, state, X, weight):
    """Update the particles by one call's documents, in a single pass in their order.

    The counts of ``state`` change in place; `restorer` takes them back if anything fails.
    """
    total, block = parameters.total_samples, state.block
    one_pass = parameters._replace(max_iter=1, max_full_iter=0, shuffle=False, evaluate_every=0)
    if X.shape[1] > block.topics.V:
        wide = topics_of(parameters, X.shape[1])
        wide = wide.with_priors(block.topics.alpha, block.topics.eta_scale)
        block = block._replace(topics=wide, counts=block.counts.widened(X.shape[1]), draws=None)
    if total is None:
        X, weight = with_words(X, weight)
    update = state.update if block.n_visits else local_update_of(parameters, X, weight)
    before = LDAState(block, update, copy.deepcopy(state.rng), state.records)
    rows = DocumentRows(X, batch_size_of(parameters, total), False, weight)
    with untimed():
        after = after_steps(one_pass, before, rows, total)
    if after.interrupted:
        raise KeyboardInterrupt
    return after


def writeable(state):
    """The state with counts that can change in place: those of a memory-mapped pickle cannot."""
    counts = state.block.counts
    if counts.words.flags.writeable:
        return state
    counts = counts._replace(words=np.array(counts.words))
    return state._replace(block=state.block._replace(counts=counts))


def restorer(counts, indices):
    """A function that sets counts back to what they are now: a call's words are few beside all."""
    words = counts.words
    occurs = np.zeros(max(words.shape[1], indices.max(initial=0) + 1), dtype=bool)
    for start in range(0, len(indices), _PIECE):
        occurs[indices[start : start + _PIECE]] = True
    touched = np.flatnonzero(occurs[: words.shape[1]])
    before = words[:, touched]

    def restore():
        words[:, touched] = before

    return restore


def after_steps(parameters, state, rows, total, out=None, until_still=False):
    """The state after the engine's loop: passes over `DocumentRows`, and full-batch iterations.

    ``out`` are held-out documents and their weights, None without early stopping.
    """
    rng = state.rng
    model = LDAModel(parameters, state.update, total, rng)
    start = draw_prior(model, parameters.n_particles, rng)._replace(block=state.block)
    options = Options(max_iter=parameters.max_iter, reweight=False, settings=_SETTINGS)
    until = _AfterIteration(parameters.max_full_iter, until_still)
    full_batch = FullBatch(parameters.max_full_iter, until, until.resume)
    outcome = Outcome(start)
    after_pass = _AfterPass(parameters, model, rows, out, until_still)
    sizes = _step_sizes(parameters, state.block, total, rows)
    if parameters.max_iter or parameters.max_full_iter:
        with bar_of_steps(options, rows, full_batch) as report:
            method = Method(sizes, after_pass, full_batch)
            outcome = run(model, rows, start, options, rng, report, method)
    return state._replace(
        change=until.left if parameters.max_full_iter and until_still else after_pass.change,
        validation_scores=after_pass.scores,
        block=outcome.particles.block,
        records=state.records.extended([tuple(info.extra.values()) for info in outcome.infos]),
        interrupted=outcome.interrupted,
    )


def _step_sizes(parameters, block, total, rows):
    """Coefficients of the steps of a call.

    Time runs in full batches: a batch of fewer documents is a part of a step, so that documents
    that come one by one do not each have the weight of a batch. Documents count once in time,
    whatever they weigh, so that a factor of all weights changes no step. The step size is that of
    the batch's end; parts of a step of size 1 are averaged over the last full batch. In an endless
    stream the counts stand for more documents after each step. Those of a single topic are known:
    steps that average over all documents so far give them, and leave nothing of the guess.
    """
    full, schedule = rows.batch_size, schedule_of(parameters)

    def step_sizes(t, n, seen, m, d):
        taken = rows.n_taken(t) - rows.n_taken(t - 1)
        n_visits = block.n_visits + rows.n_taken(t)
        whole = step_size(schedule, n_visits / full, n, n_visits, m, d)
        part = taken / min(n_visits, full)
        gamma = -np.expm1(taken / full * np.log1p(-whole)) if whole < 1.0 else part
        n_documents = block.n_documents_seen + seen
        gamma = n / n_documents if block.topics.K == 1 else gamma
        size = n_documents if total is None else total
        before = block.size if t == 1 else size - n if total is None else total
        growth = size / before if before else 1.0
        return 1.0 - (1.0 - gamma) * growth, gamma * size / n

    return step_sizes


class _AfterIteration:
    """What follows each of n full-batch iterations, which end where topics are still, or do not.

    The last has to leave the counts of all documents as they are.
    """

    def __init__(self, n, until_still):
        self._n, self._until_still = n, until_still
        self.left = None  # How far topics have to go yet, in standard deviations; None if unknown.

    def resume(self, memory):
        """Go on from the memory of an earlier run."""
        *_, self.left = memory or (None,)

    def __call__(self, particles, t, memory):
        block, some = particles.block, None
        if self._until_still:
            some, before, _ = memory or (None, None, None)
            some, change = moved(some, block)
            # Each moves less than the one before by a factor: what is left is a series.
            if before:
                self.left = change / max(1.0 - change / before, 0.01)
            memory = some, change, self.left
        stop = self.left is not None and self.left <= _MOVING
        arranged = block if stop or t == self._n else block.arranged()
        return particles._replace(block=arranged), stop, memory


def moved(before, block):
    """Word probabilities (m, v, K) after a pass, and how far those ``before`` are from them.

    The distance is that of `skpmd.lda._draws`, with the variance given the words in each topic, and
    over some words: the memory of all would be that of the model.
    """
    topics, counts = block.topics, block.counts
    n = max(1, _LOOKED_AT // (topics.m * topics.K))
    rows = np.linspace(0, topics.V, min(n, topics.V), endpoint=False).astype(int)
    prior = topics.eta if len(topics.eta) == 1 else topics.eta[rows]
    scale = topics.eta_scale[:, None]
    size = counts.totals + scale * topics.eta_total
    now = counts.scale * counts.words[:, rows] + scale[:, None] * prior
    now = (now / size[:, None]).astype(np.float32)
    variance = (now * (1.0 - now)).sum(axis=1, dtype=np.float64) / (size + 1.0)
    if before is None or not (variance > 0.0).all():
        return now, None
    change = ((now - before) ** 2).sum(axis=1, dtype=np.float64)
    return now, float(np.sqrt(change.mean(axis=0) / variance.mean(axis=0)).mean())


class _AfterPass:
    """What follows each pass: resampling, and the scores that may end the passes."""

    def __init__(self, parameters, model, rows, out, until_still):
        self._parameters, self._model, self._rows = parameters, model, (rows.data, rows.weight)
        self._out, self._until_still = out, until_still
        self.change = None  # Of the topics in the last pass, in standard deviations; None of one.
        self.scores = None if out is None else ()  # Of held-out documents, after each pass.

    def resume(self, memory):
        """Go on from the memory of an earlier run."""
        _, self.scores, _, self.change = memory

    def _is_due(self, block):
        """Whether topics may change places: seldom in a stream of few documents at a time."""
        n = self._rows[0].shape[0]
        before = int(block.n_visits - n).bit_length()
        return self._parameters.max_iter > 1 or n >= _MANY or before < block.n_visits.bit_length()

    def __call__(self, particles, iteration, rng, memory):
        parameters = self._parameters
        before, _, some = (memory or (None, None, None))[:3]
        every, evaluated = parameters.evaluate_every, before
        block, stop = _resampled(parameters, self._model, particles.block, rng), False
        block = block.arranged() if self._is_due(block) else block
        if every > 0 and (iteration + 1) % every == 0:
            evaluated = _perplexity(parameters, block, *self._rows)
            write(f"pass {iteration + 1}: perplexity {evaluated:.4f}")
            stop = before is not None and abs(before - evaluated) < parameters.perp_tol
        if self._out is not None:
            self.scores = *self.scores, score_of(parameters, block, *self._out)
            stop = are_no_better(parameters, self.scores) or stop
            write(f"pass {iteration + 1}: held-out score {self.scores[-1]:.4f}")
        # Resampling exchanges particles, and a call of a stream is its only pass.
        if parameters.max_iter > 1 and parameters.weighting != "posterior":
            some, self.change = moved(some, block)
        if self._until_still and iteration + 1 >= _PASSES and self.change is not None:
            stop = stop or self.change <= _MOVING
        if not stop and iteration + 1 < parameters.max_iter:
            block = block._replace(scores=block.scores.renewed(), n_documents_seen=0.0)
        memory = evaluated, self.scores, some, self.change
        return particles._replace(block=block), stop, memory


def _resampled(parameters, model, block, rng):
    """Posterior weights resample where few particles are effective; others never do."""
    m = block.topics.m
    if parameters.weighting != "posterior" or m == 1:
        return block
    log_weights = block.log_weights("posterior")
    if effective_sample_size(log_weights) >= _MIN_ESS * m:
        return block
    elbo = block.base + log_weights  # up to a constant, which the weights do not need
    chosen = resample("systematic", np.exp(log_weights), m, rng)
    return model.select_block(block._replace(base=elbo), chosen)


@phase("perplexity")
def _perplexity(parameters, block, X, weight):
    log_weights = block.log_weights(parameters.weighting)
    return perplexity(parameters, block, log_weights, X, weight)
