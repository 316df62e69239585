"""Stochastic collapsed variational Bayes, order zero, for topic models (Foulds et al. 2013).

A word w of document d belongs to topic k with probability

    g_k ~ (N_wk + eta) / (N_k + V eta) (n_dk + alpha),

where N_wk and n_dk are running estimates of how many tokens of the word, and of the document, the
topic has. A document goes through its words ``burn_in`` times for n_d alone, and once more for what
it gives to N; after a batch of B of its C tokens N moves towards C / B times what the batch gave.
Steps are scale / (offset + t)^0.9. Several tokens of one word are one update.

References
----------
Foulds, J., Boyles, L., DuBois, C., Smyth, P. and Welling, M. (2013). Stochastic collapsed
variational Bayesian inference for latent Dirichlet allocation. KDD.
"""

import numpy as np
from numba import njit

from ..harness.timing import cpu_clock
from .tokens import Topics

DECAY = 0.9
OF_DOCUMENTS = 1.0, 10.0  # scale and offset of a document's own steps, the paper's


def scvb0(X, K, setting, seed, points):
    """Yield topics each time that a number of documents from ``points`` has been visited.

    ``setting`` has ``alpha``, ``eta``, ``batch_size``, ``scale``, ``offset`` and ``burn_in``. Each
    pass takes the documents in a new order. ``Topics.step`` is the number of documents.
    """
    rng, (n, V) = np.random.default_rng(seed), X.shape
    table = X.indptr, X.indices, X.data.astype(np.float32)
    counts = rng.standard_exponential((V, K), dtype=np.float32)
    counts *= np.float32(X.sum() / counts.sum(dtype=np.float64))
    state = State(counts, float(X.sum()), setting)
    State(counts.copy(), state.total, setting).advance(table, np.arange(1), 0)  # compiles
    cpu, visited, t, size = 0.0, 0, 0, setting["batch_size"]
    order = rng.permutation(n)
    for point in points:
        with cpu_clock() as clock:
            while visited < point:
                place = visited % n
                chosen = order[place : place + size]
                state.advance(table, chosen, t)
                visited, t = visited + len(chosen), t + 1
                if visited % n == 0:
                    order = rng.permutation(n)
        cpu += clock.cpu
        yield Topics(visited, cpu, state.words(), np.full(K, setting["alpha"]))


class State:
    """The estimate N (V, K), kept as a table times a factor, so that a batch touches its words."""

    def __init__(self, counts, total, setting):
        self.table, self.factor, self.total, self.setting = counts, 1.0, total, setting
        self.topics = counts.sum(axis=0, dtype=np.float64)
        self._gained = np.zeros_like(counts)

    def advance(self, rows, chosen, t):
        """Step t, on the chosen documents."""
        own = self.setting
        size = own["scale"] / (own["offset"] + t) ** DECAY
        gained, seen = self._gained, np.zeros(len(self.topics))
        words = visit(
            self.table, np.float32(self.factor), self.topics, np.float32(own["alpha"]),
            np.float32(own["eta"]), own["burn_in"], *OF_DOCUMENTS, *rows, chosen, gained, seen,
        )  # fmt: skip
        self.factor *= 1.0 - size
        share = self.total / seen.sum() * size
        self.table[words] += gained[words] * np.float32(share / self.factor)
        gained[words] = 0.0
        self.topics = (1.0 - size) * self.topics + share * seen
        if self.factor < 1e-6:
            self.table *= np.float32(self.factor)
            self.factor = 1.0

    def words(self):
        """Word probabilities (topics, words)."""
        smoothed = self.table.T.astype(np.float64) * self.factor + self.setting["eta"]
        return smoothed / smoothed.sum(axis=1, keepdims=True)


@njit(cache=True)
def visit(
    table, factor, topics, alpha, eta, burn_in, scale, offset, indptr, indices, data, chosen,
    gained, seen,
):  # fmt: skip
    """Add to gained (V, K) and seen (K,) what documents give to topics; return their words."""
    V, K = table.shape
    inverse = (1.0 / (topics + V * eta)).astype(np.float32)
    own, weights = np.empty(K, dtype=np.float32), np.empty(K, dtype=np.float32)
    touched = np.zeros(V, dtype=np.bool_)
    for d in chosen:
        first, last = indptr[d], indptr[d + 1]
        length = np.float32(data[first:last].sum())
        own[:] = length / np.float32(K)
        t = np.float32(0.0)
        for sweep in range(burn_in + 1):
            for i in range(first, last):
                w, count = indices[i], data[i]
                total = _weigh(own, table[w], factor, eta, alpha, inverse, weights)
                size = np.float32(scale / (offset + t) ** 0.9)
                kept = (np.float32(1.0) - size) ** count
                share = (np.float32(1.0) - kept) * length / total
                for k in range(K):
                    own[k] = kept * own[k] + share * weights[k]
                t += count
                if sweep == burn_in:
                    touched[w] = True
                    for k in range(K):
                        gained[w, k] += count / total * weights[k]
    words = np.flatnonzero(touched)
    for w in words:
        for k in range(K):
            seen[k] += gained[w, k]
    return words


@njit(cache=True, fastmath=True)
def _weigh(own, counts, factor, eta, alpha, inverse, out):
    """Weights of a token's topics, and their sum."""
    for k in range(len(out)):
        out[k] = (factor * counts[k] + eta) * inverse[k] * (own[k] + alpha)
    total = np.float32(0.0)
    for k in range(len(out)):
        total += out[k]
    return total
