"""Document completion, coherence and diversity: one judge for the topics of every side.

The tokens of each document are split at random in two (document completion). A collapsed Gibbs
sampler with the topics held fixed, 40 sweeps left out and 80 kept, finds the mix of topics of the
first part; the perplexity is that of the tokens of the second one. Several models are averaged in
the probability of each token, each with its own mix.
"""

import numpy as np
from numba import njit

from ..peers.tokens import tokens_of

BURN_IN, KEPT = 40, 80
EPSILON = 1e-12  # gensim's, for pairs of words that no document has


class Completion:
    """Documents split in two: what is known of them, and what is evaluated."""

    def __init__(self, X, seed):
        rng = np.random.default_rng(seed)
        documents = [rng.permutation(tokens) for tokens in tokens_of(X)]
        sizes = [len(tokens) // 2 for tokens in documents]
        self._known = _joined([t[:n] for t, n in zip(documents, sizes, strict=True)])
        self._evaluated = _joined([t[n:] for t, n in zip(documents, sizes, strict=True)])

    def probabilities(self, topics):
        """Probability of each token of the second parts."""
        by_word = np.ascontiguousarray(topics.words.T, dtype=np.float64)
        alpha = np.asarray(topics.alpha, dtype=np.float64)
        return _complete(by_word, alpha, *self._known, *self._evaluated, BURN_IN, KEPT)

    def perplexity(self, *models):
        """Perplexity of the average of several models."""
        return perplexity([self.probabilities(topics) for topics in models])


def perplexity(probabilities, weights=None):
    """From a list of the probabilities of the tokens, one entry for each model."""
    mean = np.average(probabilities, axis=0, weights=weights)
    return float(np.exp(-np.mean(np.log(mean))))


def _joined(documents):
    starts = np.cumsum([0, *map(len, documents)])
    return starts, np.concatenate(documents).astype(np.int64)


@njit(cache=True, error_model="numpy")
def _complete(by_word, alpha, starts, words, evaluated_starts, evaluated, burn_in, kept):
    """The chain of a document is seeded by its place: its answer is the same in any company."""
    found = np.empty(len(evaluated))
    for d in range(len(starts) - 1):
        np.random.seed(d)
        own = words[starts[d] : starts[d + 1]]
        mix = _mix(by_word, alpha, own, burn_in, kept)
        for i in range(evaluated_starts[d], evaluated_starts[d + 1]):
            found[i] = np.dot(mix, by_word[evaluated[i]])
    return found


@njit(cache=True, error_model="numpy")
def _mix(by_word, alpha, words, burn_in, kept):
    """Mean of (n_k + alpha_k) / (N + sum of alpha) over the sweeps kept."""
    K, N = len(alpha), len(words)
    counts, cumulative = alpha.copy(), np.empty(K)
    labels = np.full(N, -1)
    mix = np.zeros(K)
    for sweep in range(burn_in + kept):
        for i in range(N):
            if labels[i] >= 0:
                counts[labels[i]] -= 1.0
            total = 0.0
            for k in range(K):
                total += counts[k] * by_word[words[i], k]
                cumulative[k] = total
            k = min(np.searchsorted(cumulative, np.random.random() * total, side="right"), K - 1)
            labels[i] = k
            counts[k] += 1.0
        if sweep >= burn_in:
            mix += counts
    return mix / mix.sum()


def coherence(topics, X, n_words=10):
    """Mean NPMI of the pairs among each topic's leading words, by the documents that hold them.

    As gensim's ``c_npmi`` with a window longer than every document.
    """
    leading = np.argsort(-topics.words, axis=1, kind="stable")[:, :n_words]
    chosen, places = np.unique(leading, return_inverse=True)
    held = (X[:, chosen] > 0).astype(np.float64)
    together = (held.T @ held).toarray() / X.shape[0]
    share = np.diag(together)
    npmi = np.log((together + EPSILON) / np.outer(share, share)) / -np.log(together + EPSILON)
    pairs = ~np.eye(n_words, dtype=bool)
    return float(np.mean([npmi[np.ix_(own, own)][pairs] for own in places.reshape(leading.shape)]))


def diversity(topics, n_words=25):
    """Share of different words among the leading words of all topics, as in OCTIS."""
    leading = np.argsort(-topics.words, axis=1, kind="stable")[:, :n_words]
    return float(len(np.unique(leading)) / leading.size)
