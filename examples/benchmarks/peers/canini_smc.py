"""Sequential Monte Carlo for topic models with one particle (Canini, Shi and Griffiths 2009).

Documents come one by one, each once. A new token is given a topic by its conditional probability
given the topics of all tokens before it, topic proportions and words of topics integrated out. Then
tokens that came before are rejuvenated: drawn evenly and given new topics in the same way, for
which all of them stay in memory. One particle has no weights that could differ, so there is no
resampling and rejuvenation waits for nothing, as in the incremental Gibbs sampler of that paper.
The first documents get sweeps of a batch sampler before the others come, as in its experiments.

References
----------
Canini, K. R., Shi, L. and Griffiths, T. L. (2009). Online inference of topics with latent Dirichlet
allocation. Proceedings of AISTATS, PMLR 5, 65-72.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from ..harness.timing import cpu_clock
from .tokens import Topics, drawn, listed


class Particle(NamedTuple):
    """Tokens, their topics (-1 is none yet), and how many of them each topic has.

    ``inverse`` is one over a topic's tokens and prior, summed over words.
    """

    tokens: np.ndarray
    starts: np.ndarray
    owner: np.ndarray
    labels: np.ndarray
    words: np.ndarray  # (V, K)
    documents: np.ndarray  # (n, K)
    totals: np.ndarray  # (K,)
    inverse: np.ndarray  # (K,)
    alpha: np.float32
    eta: np.float32

    def topics(self, cpu, visited):
        """Expected word probabilities of the topics."""
        words = self.words.T + np.float64(self.eta)
        words /= words.sum(axis=1, keepdims=True)
        return Topics(visited, cpu, words, np.full(len(words), self.alpha))


def one_particle_smc(X, K, setting, seed, points):
    """Yield topics each time that a number of documents from ``points`` has been visited.

    ``setting`` has ``alpha``, ``eta``, the ``first`` share of the documents and their ``sweeps``,
    and the ``past`` tokens that are rejuvenated after each new one. ``Topics.step`` is the number
    of documents.
    """
    rng = np.random.default_rng(seed)
    state = particle(X, K, setting["alpha"], setting["eta"], rng)
    arrive(state, 0, 0, 0, rng)  # compiles
    sweep(state, 0, 0, rng)
    cpu, visited, first = 0.0, 0, int(setting["first"] * X.shape[0])
    for point in points:
        with cpu_clock() as clock:
            if visited < first <= point:
                arrive(state, visited, first, setting["past"], rng)
                sweep(state, first, setting["sweeps"], rng)
                visited = first
            arrive(state, visited, point, setting["past"], rng)
        cpu, visited = cpu + clock.cpu, point
        yield state.topics(cpu, visited)


def particle(X, K, alpha, eta, rng):
    """A particle that has read no document."""
    tokens, starts = listed(X, rng)
    V, n = X.shape[1], X.shape[0]
    owner, labels = np.repeat(np.arange(n), np.diff(starts)), np.full(len(tokens), -1)
    words, documents = np.zeros((V, K), dtype=np.int32), np.zeros((n, K), dtype=np.int32)
    totals, inverse = np.zeros(K, dtype=np.int64), np.full(K, 1.0 / (V * eta), dtype=np.float32)
    counts = words, documents, totals, inverse
    return Particle(tokens, starts, owner, labels, *counts, np.float32(alpha), np.float32(eta))


@njit(cache=True)
def arrive(particle, first, last, past, rng):
    """Take documents in, from ``first`` up to, not with, ``last``."""
    weights = np.empty(len(particle.totals), dtype=np.float32)
    for i in range(particle.starts[first], particle.starts[last]):
        visit(particle, i, weights, rng)
        for _ in range(past):
            visit(particle, int(rng.random() * (i + 1)), weights, rng)


@njit(cache=True)
def sweep(particle, last, times, rng):
    """Give all tokens of the documents before ``last`` new topics, some times over."""
    weights = np.empty(len(particle.totals), dtype=np.float32)
    for _ in range(times):
        for i in range(particle.starts[last]):
            visit(particle, i, weights, rng)


@njit(cache=True)
def visit(particle, i, weights, rng):
    """Give a token a topic; ``weights`` are then those that it was drawn with."""
    if particle.labels[i] >= 0:
        _put(particle, i, particle.labels[i], -1)
    words, documents = particle.words[particle.tokens[i]], particle.documents[particle.owner[i]]
    total = _weigh(documents, particle.alpha, words, particle.eta, particle.inverse, weights)
    particle.labels[i] = drawn(weights, rng.random() * total)
    _put(particle, i, particle.labels[i], 1)


@njit(cache=True)
def _put(particle, i, k, sign):
    particle.words[particle.tokens[i], k] += sign
    particle.documents[particle.owner[i], k] += sign
    particle.totals[k] += sign
    prior = len(particle.words) * particle.eta
    particle.inverse[k] = np.float32(1.0) / np.float32(particle.totals[k] + prior)


@njit(cache=True, fastmath=True)
def _weigh(documents, alpha, words, eta, inverse, out):
    """Conditional probabilities of a token's topics up to a factor, and their sum."""
    for k in range(len(out)):
        out[k] = (documents[k] + alpha) * (words[k] + eta) * inverse[k]
    total = np.float32(0.0)
    for k in range(len(out)):  # apart, so that its order does not hang on where the arrays lie
        total += out[k]
    return total
