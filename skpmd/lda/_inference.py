"""New documents under a particle's topics: shares of topics, bounds of log probabilities, words.

Each document is answered by itself, whoever shares the call with it. The topics' probabilities phi
of its words are made on the fly from their counts, as in `skpmd.lda._kernels`. Iterations
are in single precision; what they end in is summed in double precision.
"""

import math

import numpy as np
from numba import njit

from skpmd.lda._model import Documents

_LEAST = np.float32(1e-30)
_LEAST_LOG = -69.0  # of it
_BLOCK = 16  # topics are padded to whole registers
# Sums of products may be taken in any order: they are for proportions. No nan is made.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def topic_mass(model, counts, i, X, max_iter=100, tol=1e-3, start=0, stop=None):
    """Pseudo-counts of topics in documents under one particle, the prior's included.

    They are alpha and the words of each topic at the fixed point of expectation-maximisation for
    the documents' shares.

    Parameters
    ----------
    model : Topics
        Priors.
    counts : Counts
        Of the particles.
    i : int
        The particle.
    X : csr_matrix of shape (n, V), float32
        Documents, without explicit zeros.
    max_iter : int
        Iterations for a document.
    tol : float
        Mean change of the pseudo-counts at which they end.
    start, stop : int
        Which of the documents; default all.

    Returns
    -------
    ndarray of shape (stop - start, K), float64
        A row sums to that of alpha and the document's words; without words it is alpha.
    """
    stop = X.shape[0] if stop is None else stop
    out = np.empty((stop - start, model.K))
    given = *Documents.of(X), start, stop, *model.given(counts, i)[:-1], model.alpha[i]
    _soft(*given, max_iter, tol, out)
    return out


def log_bounds(model, counts, i, X, max_iter=100, tol=1e-3, start=0, stop=None):
    """Lower bounds of the log probabilities of documents' words under one particle.

    With r_jk the share of topic k in word j, c_j the word's count, n_k = sum_j c_j r_jk and A the
    log normaliser of a Dirichlet distribution,

        sum_j c_j sum_k r_jk (log phi_k(w_j) - log r_jk) + A(alpha + n) - A(alpha)

    is a bound for any r. It is taken at r proportional to phi_k exp(digamma(alpha_k + n_k)), where
    it is largest. Words have an order: the multinomial coefficient is not in it.

    Parameters are those of `topic_mass`.

    Returns
    -------
    ndarray of shape (stop - start,), float64
        Bounds in nats; 0 without words.
    """
    stop = X.shape[0] if stop is None else stop
    out = np.empty(stop - start)
    given = *Documents.of(X), start, stop, *model.given(counts, i)[:-1], model.alpha[i]
    _bounds(*given, max_iter, tol, out)
    return out


def word_probabilities(model, counts, i, X, shares, start, stop):
    """Probabilities of the documents' distinct words given shares of topics, under one particle.

    Parameters
    ----------
    model, counts, i, X, start, stop
        As in `topic_mass`.
    shares : ndarray of shape (stop - start, K), float64
        Of topics in these documents.

    Returns
    -------
    ndarray of float64
        One for each stored count of these documents.
    """
    out = np.empty(X.indptr[stop] - X.indptr[start])
    _mixed(X.indptr, X.indices, start, stop, *model.given(counts, i)[:-1], shares, out)
    return out


@njit(cache=True, fastmath=_FAST, nogil=True)
def _phi(words, scale, prior, inverse, w, out):
    """E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        out[k] = max((words[w, k] * scale + prior[p, k]) * inverse[k], _LEAST)
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(cache=True, nogil=True)
def _longest(indptr, first, last):
    longest = 0
    for d in range(first, last):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@njit(cache=True, fastmath=_FAST, nogil=True)
def _expected(phi, counts, start, n, t, gain):
    """Sum over words of count phi / (phi . t): times t it is the words of each topic."""
    gain[:] = np.float32(0.0)
    for j in range(n):
        row = phi[j]
        s = np.float32(0.0)
        for k in range(len(t)):
            s += row[k] * t[k]
        f = counts[start + j] / s
        for k in range(len(t)):
            gain[k] += f * row[k]


@njit(cache=True, nogil=True)
def _soft(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    max_iter, tol, out,
):  # fmt: skip
    K = words.shape[1]
    padded = -(-K // _BLOCK) * _BLOCK
    phi = np.empty((_longest(indptr, first, last), padded), dtype=np.float32)
    t, gain = np.zeros(padded, dtype=np.float32), np.empty(padded, dtype=np.float32)
    for d in range(first, last):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        mass = out[d - first]
        mass[:] = alpha
        if n == 0:
            continue
        total = 0.0
        for j in range(n):
            _phi(words, scale, prior, inverse, indices[start + j], phi[j])
            total += counts[start + j]
        mass += total / K
        for _ in range(max_iter):
            for k in range(K):
                t[k] = max(np.float32(mass[k]), _LEAST)
            _expected(phi, counts, start, n, t, gain)
            change = 0.0
            for k in range(K):
                new = alpha[k] + t[k] * float(gain[k])
                change += abs(new - mass[k])
                mass[k] = new
            if change < tol * K:
                break


@njit(cache=True, nogil=True)
def _digamma(x):
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    series = f * (1.0 / 12.0 - f * (1.0 / 120.0 - f * (1.0 / 252.0 - f / 240.0)))
    return shift + math.log(x) - 0.5 / x - series


@njit(cache=True, nogil=True)
def _log_weights(mass, out):
    """digamma(mass) less its largest, and not so low that float32 ends."""
    largest = -np.inf
    for k in range(len(mass)):
        out[k] = _digamma(mass[k])
        largest = max(largest, out[k])
    for k in range(len(mass)):
        out[k] = max(out[k] - largest, _LEAST_LOG)


@njit(cache=True, nogil=True)
def _bounds(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    max_iter, tol, out,
):  # fmt: skip
    K = words.shape[1]
    padded = -(-K // _BLOCK) * _BLOCK
    phi = np.empty((_longest(indptr, first, last), padded), dtype=np.float32)
    t, gain = np.zeros(padded, dtype=np.float32), np.empty(padded, dtype=np.float32)
    mass, log_t = np.empty(K), np.empty(K)
    for d in range(first, last):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        out[d - first] = 0.0
        if n == 0:
            continue
        total = 0.0
        for j in range(n):
            _phi(words, scale, prior, inverse, indices[start + j], phi[j])
            total += counts[start + j]
        mass[:] = alpha + total / K
        for _ in range(max_iter):
            _log_weights(mass, log_t)
            for k in range(K):
                t[k] = math.exp(log_t[k])
            _expected(phi, counts, start, n, t, gain)
            change = 0.0
            for k in range(K):
                new = alpha[k] + t[k] * float(gain[k])
                change += abs(new - mass[k])
                mass[k] = new
            if change < tol * K:
                break
        _log_weights(mass, log_t)
        out[d - first] = _bound(phi, counts, start, n, log_t, alpha)


@njit(cache=True, nogil=True)
def _bound(phi, counts, start, n, log_t, alpha):
    """The bound of one document at shares proportional to phi t, in double precision."""
    K = len(alpha)
    t, mass = np.exp(log_t), np.zeros(K)
    value = 0.0
    for j in range(n):
        s = 0.0
        for k in range(K):
            s += phi[j, k] * t[k]
        count = float(counts[start + j])
        value += count * math.log(s)
        for k in range(K):
            mass[k] += count / s * phi[j, k] * t[k]
    before = after = 0.0
    for k in range(K):
        value += math.lgamma(alpha[k] + mass[k]) - math.lgamma(alpha[k]) - mass[k] * log_t[k]
        before += alpha[k]
        after += alpha[k] + mass[k]
    return value + math.lgamma(before) - math.lgamma(after)


@njit(cache=True, nogil=True)
def _mixed(indptr, indices, first, last, words, scale, prior, inverse, shares, out):
    K = words.shape[1]
    phi = np.empty(-(-K // _BLOCK) * _BLOCK, dtype=np.float32)
    for d in range(first, last):
        for j in range(indptr[d], indptr[d + 1]):
            _phi(words, scale, prior, inverse, indices[j], phi)
            p = 0.0
            for k in range(K):
                p += shares[d - first, k] * phi[k]
            out[j - indptr[first]] = p
