"""Averages over particles: topic proportions and probabilities of documents, and perplexities."""

import numpy as np
from scipy.special import log_softmax, logsumexp

from skpmd._base.hashing import INCREMENT, mix_bits
from skpmd._runtime.threads import each
from skpmd.lda._beta_mixtures import Proportions
from skpmd.lda._documents import Documents, groups_of, tokens_of
from skpmd.lda._inference import document_elbos, topic_mass, word_moments, word_probabilities

_NEGLIGIBLE = -30.0  # log weight, relative to the largest, of particles that are left out
_DOCUMENTS = 256  # documents that a thread takes at a time
_UNCERTAIN = 32  # the same for uncertainties, which take longer
_DRAWS_USED = 8  # draws of a particle's topics that intervals use: a chain under each takes time
_SPLIT = 512  # documents that are split in two at a time
# Occurrences of a word that are placed one by one; of those beyond, each part has one half.
_MAX_PLACED = 64


def proportions(parameters, block, log_weights, labels, X, normalize):
    """Topic proportions or pseudo-counts, averaged over relabelled particles; (n, K)."""
    out = np.zeros((X.shape[0], block.topics.K))
    places, log_weights = _with_weight(log_weights)
    weights = np.exp(log_weights)

    def piece(rows, documents):
        masses = _masses(parameters, block, places, documents)
        for i, weight, mass in zip(places, weights, masses, strict=True):
            if normalize:
                mass /= mass.sum(axis=1, keepdims=True)
            out[rows] += weight * mass[:, labels[i]]

    _for_each_piece(piece, X, _DOCUMENTS)
    return out


def uncertainty(parameters, block, log_weights, labels, X, tails=None):
    """Standard deviations (n, K) of topic proportions, or their quantiles at ``tails``."""
    places, log_weights = _with_weight(log_weights)
    counts = block.counts if block.draws is None else block.draws
    n_draws = len(counts.words) // block.topics.m
    used = np.linspace(0, n_draws, min(n_draws, _DRAWS_USED), False).astype(int)
    alpha = np.take_along_axis(block.topics.alpha[places], labels[places], axis=1)
    totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    shape = X.shape[0], block.topics.K
    out = np.empty(shape if tails is None else (*shape, len(tails)))

    def piece(rows, documents):
        how = parameters.max_doc_update_iter, len(places), n_draws, used
        moments = [
            word_moments(block.topics, counts, i, documents, *how, stream)[..., labels[i]]
            for stream, i in enumerate(places)
        ]
        found = Proportions.of(np.array(moments), alpha, totals[rows], np.exp(log_weights))
        out[rows] = found.standard_deviations() if tails is None else found.intervals(tails)

    _for_each_piece(piece, X, _UNCERTAIN)
    return out


def log_probabilities(parameters, block, log_weights, X):
    """Lower bounds of the log probabilities of documents, averaged over particles; shape (n,)."""
    places, log_weights = _with_weight(log_weights)
    table = np.empty((len(places), X.shape[0]))
    how = parameters.max_doc_update_iter, parameters.mean_change_tol

    def piece(rows, documents):
        for own, i in zip(table, places, strict=True):
            own[rows] = document_elbos(block.topics, block.counts, i, documents, *how)

    _for_each_piece(piece, X, _DOCUMENTS)
    return logsumexp(table + log_weights[:, None], axis=0)


def perplexity(parameters, block, log_weights, X, weight=None):
    """Perplexity by the bound; nan without words, so that a fit does not fail."""
    total, tokens = 0.0, 0.0
    for some, own in groups_of(X, weight):
        values = log_probabilities(parameters, block, log_weights, some)
        total += values.sum() if own is None else own @ values
        tokens += tokens_of(some, own)
    return float(np.exp(-total / (tokens or np.nan)))


def completion_perplexity(parameters, block, log_weights, X, weight=None):
    """Perplexity by completion, in pieces that do not fill the memory; nan without words."""
    total, tokens = 0.0, 0.0
    for start in range(0, X.shape[0], _SPLIT):
        given, held_out = completion_split(X[start : start + _SPLIT])
        log_words = np.log(completed_words(parameters, block, log_weights, given, held_out))
        counts = held_out.data.astype(np.float64)
        if weight is not None:
            counts *= np.repeat(weight[start : start + _SPLIT], np.diff(held_out.indptr))
        total += log_words @ counts
        tokens += counts.sum()
    return float(np.exp(-total / (tokens or np.nan)))


def completed_words(parameters, block, log_weights, given, held_out):
    """Probabilities of the distinct held-out words, given the other parts of their documents."""
    out = np.zeros(held_out.nnz)
    places, log_weights = _with_weight(log_weights)
    weights = np.exp(log_weights)

    def piece(rows, documents):
        others = Documents.of(held_out).rows(rows.start, rows.stop).for_kernels()
        own = slice(*held_out.indptr[[rows.start, rows.stop]])
        masses = _masses(parameters, block, places, documents)
        for i, weight, mass in zip(places, weights, masses, strict=True):
            mass /= mass.sum(axis=1, keepdims=True)
            out[own] += weight * word_probabilities(block.topics, block.counts, i, others, mass)

    _for_each_piece(piece, given, _DOCUMENTS)
    return out


def completion_split(X):
    """Put each occurrence of a word into one part or the other with equal chances.

    The chances are the bits of a hash of the word and of the whole document. In a document whose
    counts are not all whole numbers, each count is halved instead. The two parts are CSR matrices
    without explicit zeros, as X (n, V) is, and their sum is X.
    """
    counts = X.data.astype(np.float64)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    words = mix_bits(X.indices.astype(np.uint64) * INCREMENT)
    sums = np.cumsum(mix_bits(words + counts.view(np.uint64)), dtype=np.uint64)
    sums = np.append(np.uint64(0), sums)
    documents = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # modulo 2^64, so no sum is too large
    bits = mix_bits(words + mix_bits(documents)[row])
    first = np.floor(0.5 * np.maximum(counts - _MAX_PLACED, 0.0))
    for bit in range(int(min(counts.max(initial=0.0), _MAX_PLACED))):
        left = np.flatnonzero(counts > bit)
        first[left] += (bits[left] >> np.uint64(bit)) & np.uint64(1)
    broken = np.bincount(row, counts != np.floor(counts), X.shape[0]) > 0
    first = np.where(broken[row], 0.5 * counts, first)
    return _with_counts(X, first), _with_counts(X, counts - first)


def _with_counts(X, counts):
    part = X.copy()
    part.data = counts.astype(np.float32)
    part.eliminate_zeros()
    return part


def _masses(parameters, block, places, documents):
    """Pseudo-counts of the documents' topics under each of some particles."""
    how = parameters.max_doc_update_iter, parameters.mean_change_tol, len(places)
    for stream, i in enumerate(places):
        yield topic_mass(block.topics, block.counts, i, documents, *how, stream)


def _for_each_piece(function, X, size):
    """``function(rows, documents)`` of so many documents at a time, each in a thread."""
    every = Documents.of(X)

    def piece(start):
        rows = slice(start, min(start + size, every.n))
        function(rows, every.rows(rows.start, rows.stop).for_kernels())

    each(piece, range(0, every.n, size))


def _with_weight(log_weights):
    """Particles whose weight is not negligible, and their log weights; the weights sum to 1."""
    places = np.flatnonzero(log_weights > log_weights.max() + _NEGLIGIBLE)
    return places, log_softmax(log_weights[places])
