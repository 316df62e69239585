"""Latent Dirichlet allocation as a model of the engine: its conjugate block is all there is.

Coordinates theta are empty. The block holds the topic models of all particles, which may fill the
memory: a step updates them in place, one by one, in the rows of the batch's words only.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skpmd._runtime.threads import each
from skpmd.engine.model import Model
from skpmd.engine.particles import equal_log_weights, log_weights, stacking_step
from skpmd.lda import _learn_priors as learn_priors
from skpmd.lda._documents import Documents, tokens_of
from skpmd.lda._inference import document_elbos
from skpmd.lda._relabel import arrangement
from skpmd.lda._topics import MIN_DOCUMENTS, Counts, Topics

_ROUNDING = 1e-12  # relative rounding error of sums of weights
# One of so many documents is scored for stacking weights, for that costs as much as a step.
_EVERY = 10
_MAX_ITER = 20
_PRIOR = 50.0  # documents that the weights so far count as, at the start of a pass


class Scores(NamedTuple):
    """Stacking weights so far: by how well particles predict documents before they are fitted."""

    log_weights: np.ndarray  # (m,): Log weights of the particles; the weights sum to 1.
    n: float = _PRIOR  # Documents that they come from.

    def renewed(self):
        """The same weights as if of few documents: the particles of an earlier pass were others."""
        return self._replace(n=_PRIOR)


class LDABlock(NamedTuple):
    """Topic models of m particles and what their steps need."""

    topics: Topics
    counts: Counts
    scores: Scores  # Stacking weights.
    # (m,): What posterior weights subtract from the ELBOs, those at the last resampling. It is not
    # discounted: draws of a resampling have the ELBOs of then in their density for good.
    base: np.ndarray
    size: float  # Documents that the counts stand for.
    seeds: np.ndarray  # (m,) uint64: Seeds of the particles' streams of randomness.
    priors: learn_priors.PriorsState | None
    n_documents_seen: float = (
        0.0  # Weight of the documents so far; within a fit of those of the pass.
    )
    n_visits: int = 0  # Visits of documents in all passes, which number the streams of randomness.
    weight_visited: float = 0.0  # The same with the documents' weights.
    # Whether the counts are those of all documents so far, each once, and nothing else.
    exact: bool = False
    last_step: dict = {}  # What the history keeps of the last step.
    # Draws of each particle's counts, which say how uncertain they are; see `skpmd.lda._draws`.
    draws: Counts | None = None

    def arranged(self):
        """The block with topics at the places whose priors they suit; see `arrangement`."""
        orders = arrangement(self.topics, self.counts, self.size)
        if orders is None:
            return self
        return self._replace(counts=self.counts.arranged(orders), exact=False)

    def log_weights(self, source):
        """Log weights of the particles, by the ``weighting`` named; the weights sum to 1."""
        if source == "stacking":
            return self.scores.log_weights
        if source == "uniform":
            return equal_log_weights(self.topics.m)
        return log_weights(self.topics.elbo(self.counts) - self.base)


class LDAStatistics(NamedTuple):
    """Batches of documents, and the block under which their words are to be assigned to topics.

    The expected counts of their words would fill the memory for all particles at once.
    """

    block: LDABlock
    batches: tuple


class LDAModel(Model):
    """Latent Dirichlet allocation; see `skpmd.engine.model.Model` for the methods.

    ``total`` is the number of documents in all; None in an endless stream, whose counts stand for
    those so far. ``rng`` is the source of randomness of initial guesses and of scale particles.
    """

    n_coordinates, block_weighs = 0, False

    def __init__(self, parameters, update, total, rng):
        self.update, self.total, self._rng = update, total, rng
        self._elbo = parameters.weighting == "posterior"
        self._scores = parameters.weighting == "stacking" and parameters.n_particles > 1

    def sample_prior(self, rng, m):
        """Empty coordinates."""
        return np.empty((m, 0))

    def log_prior(self, theta):
        """Zeros: there are no coordinates."""
        return np.zeros(len(theta))

    def log_likelihood(self, theta, batch):
        """Zeros: the likelihood is that of the block."""
        return np.zeros(len(theta))

    def statistics(self, theta, block, batch):
        """The batch as it is."""
        return LDAStatistics(block, (batch,))

    def add_statistics(self, one, other):
        """Batches of one step together."""
        return one._replace(batches=one.batches + other.batches)

    def update_block(self, theta, block, a, b, statistics):
        """Score documents, assign their words, add the expected counts, and learn the priors.

        Counts become (1 - a) times what they were and b times those of the documents, in place
        unless a = 1.
        """
        current, batches = statistics
        full, first, first_weight = batches[0].is_piece, batches[0].documents, batches[0].weight
        n = float(sum(batch.weight.sum() for batch in batches))
        n_seen = block.n_documents_seen + n
        size = n_seen if self.total is None else self.total
        if not block.counts.totals.any() and len(first.data):
            block = current = self._with_guess(block, batches[0], size)
        topics, scores, priors, score = block.topics, block.scores, block.priors, np.nan
        if self._scores and not full:
            scores, score = _scored(
                scores, topics, block.counts, first, first_weight, block.n_visits
            )
        counts, n_visits = block.counts.discounted(1.0 - a), block.n_visits
        for documents, weight, _ in batches:
            counts, mass = current.topics.add_documents(
                counts, b, current.counts, documents, self.update,
                _streams(block.seeds, n_visits, documents.n), self._elbo, weight,
            )  # fmt: skip
            n_visits += documents.n
        gamma = b * n / size
        # Steps of a single topic average over all documents; see `skpmd.lda._fit`.
        visited = block.weight_visited + n
        averaged = topics.K == 1 and _same(n_seen, size) and visited >= (1.0 - _ROUNDING) * n_seen
        if priors is not None and not full:
            priors, topics = learn_priors.update(
                priors, topics, counts, n_entries=len(first.data), mass=mass, gamma=gamma,
                copies=size / n, weight=first_weight, rng=self._rng,
            )  # fmt: skip
        return block._replace(
            topics=topics, counts=counts, scores=scores, size=size, priors=priors,
            n_documents_seen=n_seen, n_visits=n_visits, weight_visited=visited,
            exact=averaged or (_same(a, 1.0) and _same(b, 1.0) and (full or _same(n, n_seen))),
            last_step={
                "step_size": gamma, "n_documents": n_visits - block.n_visits, "log_density": score
            },
            draws=None,
        )  # fmt: skip

    def select_block(self, block, ancestors):
        """Block of some of the particles; stacking weights, which never resample, stay."""
        topics = block.topics
        return block._replace(
            topics=topics.with_priors(topics.alpha[ancestors], topics.eta_scale[ancestors]),
            counts=block.counts.select(ancestors),
            base=block.base[ancestors],
            priors=block.priors and block.priors.select(ancestors),
        )

    def record(self, block, statistics):
        """Step size, documents, and mean log density of a word before the step."""
        return block.last_step

    def _with_guess(self, block, batch, size):
        """The block with an initial guess, made from the first documents that have words."""
        tokens = tokens_of(batch.documents, batch.weight)
        tokens *= (block.size or size) / batch.weight.sum()
        priors = block.priors and block.priors._replace(guess=1.0)
        return block._replace(counts=block.topics.initial_counts(tokens, self._rng), priors=priors)


def _scored(scores, topics, counts, documents, weight, first):
    """Weights after scoring some documents of a batch, to which the particles are not yet fitted.

    Documents have weights (n,). The first has the number ``first``; those whose number is a
    multiple of ten are scored.
    With the new `Scores` comes the mean log density of a word of these documents, by their ELBOs;
    it is nan without words.
    """
    indptr, indices, data = documents
    X = sp.csr_matrix((data, indices, indptr), shape=(documents.n, topics.V))
    some = slice((-first) % _EVERY, None, _EVERY)
    X, weight = X[some], weight[some]
    tokens = tokens_of(X, weight)
    if not tokens:
        return scores, np.nan
    chosen = Documents.of(X).for_kernels()
    elbos = each(
        lambda i: document_elbos(topics, counts, i, chosen, _MAX_ITER),
        range(topics.m),
        worth=documents.n >= MIN_DOCUMENTS,
    )
    log_density = np.array(elbos)
    mixed = np.logaddexp.reduce(scores.log_weights[:, None] + log_density, axis=0)
    log_weights = stacking_step(scores.log_weights, log_density, weight, scores.n)
    return Scores(log_weights, scores.n + weight.sum()), float((weight * mixed).sum() / tokens)


def _same(one, other):
    """Whether sums of weights are equal to rounding."""
    return abs(one - other) <= _ROUNDING * abs(other)


def _streams(seeds, first, n):
    """Seeds of the streams of n visits, for each particle: shape (m, n)."""
    numbers = np.arange(first, first + n, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    return seeds[:, None] + numbers
