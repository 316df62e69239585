"""Draws of the assignment of all words to topics, which say how uncertain topics are.

A particle's counts are expectations, which stochastic steps bring near a solution. In a small
collection of documents there are many assignments about as good as any, and the topics' words are
as uncertain as these make them. So a collapsed Gibbs chain goes on from each particle (Griffiths
and Steyvers 2004), in rounds that become longer until the topics of the first half of a round are
those of the second, next to how uncertain they are. Some assignments of the last round are kept:
given each, the topics' words have Dirichlet posteriors. The cost is that of visits of tokens: of
large collections, whose topics are known better and by longer chains only, there are no chains.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances

from skpmd._runtime.call import phase, tick
from skpmd._runtime.threads import each
from skpmd.engine.loop import Stage, drive, resumable
from skpmd.engine.particles import equal_log_weights
from skpmd.lda import _kernels as kernels
from skpmd.lda._documents import Documents, groups_of, tokens_of
from skpmd.lda._relabel import arrangement, relabelling
from skpmd.lda._topics import Counts

_VISITS = 2e7  # tokens that each particle's chain visits, at most
_FIRST, _MAX_LENGTH = 24, 384  # sweeps of the first round, and at most of one
# Draws of all particles together, at least, where they have no more than so many numbers, and
# where they have more; and the least of each particle. Of few draws the tails are too near.
_KEPT, _FEW, _KEPT_OF_MANY, _MIN_EACH = 128, 1 << 20, 32, 4
_NUMBERS = 1 << 24  # numbers of all draws at most
_MAX_AT_ONCE = 1.5  # words that one move takes, at most, on average
_STARTING = 3  # sweeps of each document under the particle's own topics
# The topics have converged where the halves of a round differ by less than so many of their sds,
# on average over topics, and are far from it beyond the second.
_MAX_CHANGE, _MOVING = 0.4, 1.0
# Two topics are the same to the documents where they differ by no more than so many.
_ALIKE = 1.0
_ROUNDING = 1e-9  # of weights that are to be whole


class Drawn(NamedTuple):
    """What the chains have found."""

    # Counts of words in topics of R draws of each particle, those of the first particle first.
    counts: Counts
    n_sweeps: int
    findings: list  # What speaks against the result, in words.


def n_kept(m, V, K):
    """Draws of each particle; 0 where there is no room for them."""
    wanted = min(max(_FEW // (V * K), _KEPT_OF_MANY), _KEPT)
    n = min(-(-wanted // m), _NUMBERS // (m * V * K))
    return max(n, _MIN_EACH) if n >= _MIN_EACH else 0


def in_memory(X, weight, m, V, K):
    """Documents X, or those of data in blocks, and their weights where chains are affordable.

    Elsewhere it is None. Chains need two rounds within their visits, and room for draws. A document
    of weight w is w of them, each with topics of its own, or so many as weigh 1 at most.
    """
    if K == 1 or V == 1 or not n_kept(m, V, K) or would_move_many(X):
        return None
    parts, weights, n, most = [], [], 0, _VISITS / (3 * _FIRST)
    for some, own in groups_of(X, weight):
        own = np.ones(some.shape[0]) if own is None else own
        copies = np.ceil(own * (1.0 - _ROUNDING))
        documents = Documents.of(some).for_kernels()
        n_tokens = kernels.numbers_of_tokens(documents.indptr, documents.data)
        copies[n_tokens == 0] = 1.0  # They have nothing to draw, whatever they weigh.
        n += float(copies @ n_tokens)
        if n > most:
            return None
        copies = copies.astype(int)
        parts.append(some[np.repeat(np.arange(len(own)), copies)])
        weights.append(np.repeat(own / copies, copies))
    return (sp.vstack(parts, format="csr"), np.concatenate(weights)) if n else None


def would_move_many(X):
    """Whether chains would move many of a document's words at once, being the same word.

    That would be another distribution, with topics of fewer words. It looks at the first documents.
    """
    some, _ = next(groups_of(X, None))
    documents = Documents.of(some).for_kernels()
    n = kernels.numbers_of_tokens(documents.indptr, documents.data).sum()
    return tokens_of(some, None) > _MAX_AT_ONCE * n


@phase("draws of topics")
def drawn(topics, counts, seeds, X, weight):
    """Draw topics of all words of documents X (n, V) given their weights (n,).

    The chains start from the particles' ``counts``, with ``seeds`` (m,). Returns `Drawn`.
    """
    m, K, V = topics.m, topics.K, topics.V
    documents = Documents.of(X).for_kernels()
    n_tokens = int(kernels.numbers_of_tokens(documents.indptr, documents.data).sum())
    n_draws = n_kept(m, V, K)
    chains = [_Chain(topics, counts, i, seeds[i], documents, weight, n_tokens) for i in range(m)]
    several = [repeated(_only(topics, i), n_draws) for i in range(m)]

    def rounds(at):
        """The draws are those of the last round alone; what goes on is the place of each chain."""
        kept, n_sweeps, length = Counts.zeros(m * n_draws, V, K), 0, _FIRST
        if at is not None:
            n_sweeps, length, places = at
            for chain, place in zip(chains, places, strict=True):
                chain.go_on_from(place)
            yield None, None

        def one_round(i):
            own = slice(i * n_draws, (i + 1) * n_draws)
            chains[i].run(length, kept.words[own], kept.totals[own])
            some = Counts(kept.words[own], kept.totals[own], np.zeros(n_draws), 1.0)
            order = relabelling(several[i], some, equal_log_weights(n_draws))
            kept.words[own] = np.take_along_axis(some.words, order[:, None], axis=2)
            kept.totals[own] = np.take_along_axis(some.totals, order, axis=1)

        while True:
            each(one_round, range(m))
            tick()
            n_sweeps += length
            change, alike = _changes(topics, kept, n_draws, [chain.halves for chain in chains])
            orders = arrangement(topics, averaged(kept, m), weight.sum())
            if orders is not None:
                kept = kept.arranged(np.repeat(orders, n_draws, axis=0))
                for chain, order in zip(chains, orders, strict=True):
                    chain.arrange(order)
            is_last = change < _MAX_CHANGE and orders is None
            most = min(2 * length, _MAX_LENGTH)
            if is_last or length >= _MAX_LENGTH or (n_sweeps + most) * n_tokens > _VISITS:
                break
            length = most
            yield None, (n_sweeps, length, [chain.place() for chain in chains])
        yield Stage(Drawn(kept, n_sweeps, _findings(change, alike))), None

    return drive(resumable(rounds), what="the draws of topics").value


class _Chain:
    """A Gibbs chain over the topics of all tokens."""

    def __init__(self, topics, counts, i, seed, documents, weight, n_tokens):
        self._arguments = (*documents, weight)
        *given, alpha = topics.arguments_of_fits(counts, i)
        self._topics = np.empty(n_tokens, dtype=np.int32)
        wide = alpha.astype(np.float64)  # as predictions have it: their kernels are compiled once
        state = kernels.first_topics(
            *documents, *given, wide, np.uint64(seed), _STARTING, self._topics
        )
        self._state = np.uint64(state)
        self._words = np.zeros((topics.V, topics.K), dtype=np.float32)
        self._totals = np.zeros(topics.K)
        kernels.count_topics(*self._arguments, self._topics, self._words, self._totals)
        self._priors = given[2], topics.eta_scale[i] * topics.eta_total, alpha

    def place(self):
        """All that the next round begins with."""
        return self._topics, self._words, self._totals, self._state

    def go_on_from(self, place):
        """Begin the next round where another chain, of the same words, has been."""
        self._topics, self._words, self._totals, self._state = place

    def arrange(self, order):
        """Let topic k be what is now ``order[k]``."""
        self._topics = np.argsort(order).astype(np.int32)[self._topics]
        self._words, self._totals = self._words[:, order].copy(), self._totals[order]

    def run(self, n_sweeps, words, totals):
        """Go on, and write the counts of words at even distances, after a quarter."""
        skipped, place = n_sweeps // 4, 0
        middle = (skipped + n_sweeps) // 2
        self.halves = np.zeros((2, *self._words.shape))
        at = np.linspace(skipped, n_sweeps, len(words) + 1)[1:].astype(int)
        for sweep in range(1, n_sweeps + 1):
            self._state = np.uint64(
                kernels.gibbs_pass(
                    *self._arguments, self._topics, self._words, self._totals, *self._priors,
                    self._state,
                )
            )  # fmt: skip
            if sweep > skipped:
                self.halves[int(sweep > middle)] += (self._words + self._priors[0]) / (
                    self._totals + self._priors[1]
                )
            while place < len(at) and at[place] == sweep:
                words[place], totals[place] = self._words, self._totals
                place += 1
        self.halves /= np.array([middle - skipped, n_sweeps - middle])[:, None, None]


def repeated(topics, n):
    """Topics with n times each particle, one after the other."""
    alpha = np.repeat(topics.alpha, n, axis=0)
    return topics.with_priors(alpha, np.repeat(topics.eta_scale, n))


def averaged(counts, m):
    """Mean counts of each of m particles."""
    words = np.array([own.mean(axis=0) for own in np.split(counts.words, m)])
    totals = counts.totals.reshape(m, -1, counts.totals.shape[1]).mean(axis=1)
    return Counts(words, totals, np.full(m, np.nan), 1.0)


def _only(topics, i):
    return topics.with_priors(topics.alpha[i : i + 1], topics.eta_scale[i : i + 1])


def _changes(topics, kept, n_draws, halves):
    """How far topics move within a round, and pairs of topics that are the same to the documents.

    Distances are those of word probabilities, in standard deviations over all words of a topic:
    those between draws and those of the words' probabilities given a draw.
    """
    m, K = topics.m, topics.K
    means, variance = np.zeros((m, topics.V, K)), np.zeros((m, K))
    for i in range(m):
        size, eta = topics.eta_scale[i] * topics.eta_total, topics.eta_scale[i] * topics.eta
        square = np.zeros(K)
        for r in range(i * n_draws, (i + 1) * n_draws):
            total = kept.totals[r] + size
            phi = (kept.words[r] + eta) / total
            means[i] += phi / n_draws
            square += (phi**2).sum(axis=0)
            variance[i] += (phi * (1.0 - phi) / (total + 1.0)).sum(axis=0) / n_draws
        variance[i] += np.maximum(square / n_draws - (means[i] ** 2).sum(axis=0), 0.0)
    moved = np.array([((first - second) ** 2).sum(axis=0) for first, second in halves])
    alike = set()
    for mean, own in zip(means, variance, strict=True):
        apart = euclidean_distances(mean.T, squared=True)
        near = apart < _ALIKE**2 * (own[:, None] + own)
        alike |= set(zip(*np.nonzero(np.triu(near, 1)), strict=True))
    variance = np.maximum(variance.mean(axis=0), np.finfo(float).tiny)  # 0 of a single word
    return float(np.sqrt(moved.mean(axis=0) / variance).mean()), alike


def _findings(change, alike):
    found = []
    if change > _MOVING:
        found.append(
            f"the topics still change from sweep to sweep, by {change:.1f} of their standard "
            "deviations, so that intervals are too narrow (lower n_components, or give more "
            "documents)"
        )
    if alike:
        topics = sorted({int(k) for pair in alike for k in pair})
        found.append(
            f"the documents do not tell {len(topics)} topics from each other, the difference of "
            "two being less than its uncertainty (lower n_components, or give more documents)"
        )
    return found
