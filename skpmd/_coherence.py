"""Coherence of topics: whether their leading words occur in the same documents."""

import numpy as np
import scipy.sparse as sp

from skpmd._base.utils import check_count

_MEASURES = "npmi", "umass"
_AVERAGES = "macro", None


def coherence_of_topics(word_scores, X, top_n, measure, average):
    """Coherence of topics by documents; see `skpmd.metrics.topic_coherence`.

    ``word_scores`` of shape (K, V) are large for leading words, and X (n, V) is a sparse matrix.
    """
    K, V = word_scores.shape
    _check(top_n, measure, average, V)
    words = np.argsort(-word_scores, axis=1, kind="stable")[:, :top_n]
    distinct, places = np.unique(words, return_inverse=True)
    has_word = _has_word(X, distinct)
    values = [_of_topic(has_word[:, own], measure) for own in places.reshape(K, -1)]
    return np.array(values) if average is None else float(np.mean(values))


def _check(top_n, measure, average, V):
    check_count("top_n", top_n, 2)  # For a pair of words.
    if measure not in _MEASURES:
        raise ValueError(f"measure must be 'npmi' or 'umass', got {measure!r}.")
    if average not in _AVERAGES:
        raise ValueError(
            f"average must be 'macro', for the mean over topics, or None, got {average!r}."
        )
    if V < 2:
        raise ValueError("A vocabulary of one word has no pairs of words to be coherent.")


def _has_word(X, words):
    """Ones where a document has a word: a CSC matrix of the columns of these words."""
    found = sp.csc_matrix(X[:, words], dtype=np.float64, copy=True)
    found.sum_duplicates()
    found.data = (found.data > 0.0).astype(np.float64)
    return found


def _of_topic(has_word, measure):
    """Mean over pairs of words in their order; nan where no two of them occur."""
    n, size = has_word.shape
    together = (has_word.T @ has_word).toarray()
    documents = np.diagonal(together)
    first, second = np.triu_indices(size, 1)
    occur = (documents[first] > 0.0) & (documents[second] > 0.0)
    first, second = first[occur], second[occur]
    if not len(first):
        return np.nan
    both, one, other = together[first, second], documents[first], documents[second]
    values = _npmi(both, one, other, n) if measure == "npmi" else np.log((both + 1.0) / one)
    return float(values.mean())


def _npmi(both, one, other, n):
    """Normalised pointwise mutual information, with its limits where a logarithm is infinite."""
    values = np.where(both > 0.0, 0.0, -1.0)
    some = (both > 0.0) & (both < n)
    both, one, other = both[some], one[some], other[some]
    values[some] = np.log(both / one * (n / other)) / np.log(n / both)
    return values
