"""New documents under one particle: topic proportions, ELBOs and probabilities of words.

A document's result does not depend on the others of the call. The topics' probabilities phi of its
words are made on the fly from their counts, as in `skpmd.lda._kernels`. Iterations are in single
precision, final sums in double precision.
"""

import math

import numpy as np
from numba import njit

from skpmd.lda._documents import Documents
from skpmd.lda._kernels import assigned_words

# Probabilities are kept above this, for float32 ends at 1e-38; and their logs above the next.
_MIN_PROBABILITY = np.float32(1e-30)
_MIN_LOG = -69.0
# Tokens of a document that its chains visit, and the least and the most of their sweeps, over all
# particles: for means, which average conditional probabilities of many tokens where there are many,
# and for moments.
_SWEEPS, _SWEEPS_OF_MOMENTS = (1024, 16, 64), (8192, 64, 256)
_BLOCK = 16  # topics are padded to multiples of this, which fill whole registers
# Sums of products may be taken in any order, and no nan occurs.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def topic_mass(
    topics, counts, i, X, max_iter=100, tol=1e-3, start=0, stop=None, n_chains=None, stream=0
):  # fmt: skip
    """Pseudo-counts of topics in documents under one particle, the prior's included.

    They are alpha and the expected words of each topic. A row sums to the sum of alpha and the
    document's words, and without words it is alpha. The shape is (stop - start, K), float64.

    Documents of up to 64 tokens have the posterior means given the topics, from the chain of
    `word_moments`, whose means are averaged with those of ``n_chains`` particles, by default all;
    longer ones the fixed point of expectation-maximisation for the documents'
    topic proportions, which is near it, with at most ``max_iter`` iterations, which end where the
    mean change of the pseudo-counts is below ``tol``.

    The particle is number ``i``. Random numbers come from a document's words and ``stream``, which
    each of several particles has of its own. X (n, V), a CSR matrix without explicit zeros, has the
    documents, which are taken from ``start`` up to ``stop``, by default to the end.
    """
    stop = X.shape[0] if stop is None else stop
    mass = np.empty((stop - start, topics.K))
    _iterate(*_arguments(topics, counts, i, X, start, stop), max_iter, tol, False, mass)
    out = np.empty((stop - start, 4, topics.K))
    out[:, 0] = mass - topics.alpha[i]
    sweeps = _shared(_SWEEPS, n_chains or topics.m, max_iter)
    arguments = _of_draws(topics, counts, i, 1, (0,), stream, X, start, stop)
    assigned_words(*arguments, *sweeps, False, out)
    return topics.alpha[i] + np.maximum(out[:, 0], 0.0)


def word_moments(
    topics, counts, i, X, max_iter=100, n_chains=1, start=0, stop=None, n_draws=1, used=(0,),
    stream=0,
):  # fmt: skip
    """Posterior of the numbers n of a document's words in each topic, under one particle.

    Given these numbers, topic proportions have a Dirichlet distribution. The moments are those of
    `skpmd.lda._kernels.assigned_words`, of shape (stop - start, 4, K), float64: E[n], E[n^2],
    P(n > 0) and P(n is all words). Parameters are those of `topic_mass`; ``counts`` are those of
    ``n_draws`` draws of each particle's topics, of which the chain goes through those ``used``. It
    has at most ``max_iter`` sweeps, and fewer where its moments are averaged with those of others,
    ``n_chains`` together.
    """
    stop = X.shape[0] if stop is None else stop
    out = np.empty((stop - start, 4, topics.K))
    arguments = _of_draws(topics, counts, i, n_draws, used, stream, X, start, stop)
    assigned_words(*arguments, *_shared(_SWEEPS_OF_MOMENTS, n_chains, max_iter), True, out)
    return out


def _shared(sweeps, n_chains, most):
    """Visits and numbers of sweeps of each of some chains, which have no more than ``most``."""
    visits, *ends = (-(-number // n_chains) for number in sweeps)
    return visits, *(min(end, most) for end in ends)


def document_elbos(topics, counts, i, X, max_iter=100, tol=1e-3, start=0, stop=None):
    """Lower bounds of the log probabilities of documents' words under one particle.

    With r_jk the responsibility of topic k for word j, c_j the word's count, n_k = sum_j c_j r_jk
    and A the log normaliser of a Dirichlet distribution,

        sum_j c_j sum_k r_jk (log phi_k(w_j) - log r_jk) + A(alpha + n) - A(alpha)

    is a lower bound for any r. It is taken at r proportional to phi_k exp(digamma(alpha_k + n_k)),
    where it is largest. Iterations start from an equal part of the words for each topic, and from
    words that are put one by one to the topic that is most probable given those before, for
    topics that are alike would stay tied, at a saddle; the larger bound is taken. Words have an
    order: there is no multinomial coefficient in it.

    Parameters are those of `topic_mass`. Bounds are in nats, of shape (stop - start,); without
    words they are 0.
    """
    stop = X.shape[0] if stop is None else stop
    out = np.empty((stop - start, 1))
    _iterate(*_arguments(topics, counts, i, X, start, stop), max_iter, tol, True, out)
    return out[:, 0]


def word_probabilities(topics, counts, i, X, proportions, start, stop):
    """Probabilities of the documents' distinct words given topic proportions, under one particle.

    The proportions have the shape (stop - start, K); other parameters are those of `topic_mass`.
    Returns one float64 for each stored count of these documents.
    """
    indptr, indices, _ = Documents.of(X).rows(start, stop).for_kernels()
    out = np.empty(len(indices))
    arguments = topics.kernel_arguments(counts, i)[:-1]
    _mix(indptr, indices, 0, stop - start, *arguments, proportions, out)
    return out


def _arguments(topics, counts, i, X, start, stop):
    """First arguments of a kernel: documents, what E[phi] of a particle is made of, and alpha."""
    documents = Documents.of(X).rows(start, stop).for_kernels()
    return *documents, 0, stop - start, *topics.kernel_arguments(counts, i)[:-1], topics.alpha[i]


def _of_draws(topics, counts, i, n_draws, used, stream, X, start, stop):
    """The same of draws of the particle's topics, the draws that are used, and the stream."""
    documents = Documents.of(X).rows(start, stop).for_kernels()
    own = topics.kernel_arguments_of_draws(counts, i, n_draws)
    return *documents, 0, stop - start, *own, topics.alpha[i], np.asarray(used), np.uint64(stream)


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _phi(words, scale, prior, inverse, w, out):
    """Write E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        out[k] = max((words[w, k] * scale + prior[p, k]) * inverse[k], _MIN_PROBABILITY)
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(cache=True, nogil=True)
def _longest(indptr, first, last):
    """Distinct words of the longest document."""
    longest = 0
    for d in range(first, last):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _expected(phi, counts, start, n, t, gain):
    """Sum over words of count phi / (phi . t); times t these are the expected words of topics."""
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
def _start_evenly(counts, start, n, alpha, mass):
    """Set mass to alpha and an equal part of the document's words for each topic."""
    total = 0.0
    for j in range(n):
        total += counts[start + j]
    for k in range(len(alpha)):
        mass[k] = alpha[k] + total / len(alpha)


@njit(cache=True, nogil=True)
def _start_in_turn(phi, counts, start, n, alpha, mass):
    """Set mass to alpha and each word's count for the best topic given the words before it."""
    for k in range(len(alpha)):
        mass[k] = alpha[k]
    for j in range(n):
        best = 0
        for k in range(1, len(alpha)):
            if phi[j, k] * mass[k] > phi[j, best] * mass[best]:
                best = k
        mass[best] += counts[start + j]


@njit(cache=True, nogil=True)
def _fixed_point(phi, counts, start, n, alpha, max_iter, tol, variational, mass, t, gain, log_t):
    """Iterate mass = alpha + expected words, at proportions t = mass or exp(digamma(mass))."""
    K = len(alpha)
    for _ in range(max_iter):
        if variational:
            _log_weights(mass, log_t)
            for k in range(K):
                t[k] = math.exp(log_t[k])
        else:
            for k in range(K):
                t[k] = max(np.float32(mass[k]), _MIN_PROBABILITY)
        _expected(phi, counts, start, n, t, gain)
        change = 0.0
        for k in range(K):
            new = alpha[k] + t[k] * float(gain[k])
            change += abs(new - mass[k])
            mass[k] = new
        if change < tol * K:
            break


@njit(cache=True, nogil=True)
def _iterate(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    max_iter, tol, variational, out,
):  # fmt: skip
    """Pseudo-counts of the documents' topics, or if ``variational`` ELBOs of their words."""
    K = words.shape[1]
    padded = -(-K // _BLOCK) * _BLOCK
    phi = np.empty((_longest(indptr, first, last), padded), dtype=np.float32)
    t, gain = np.zeros(padded, dtype=np.float32), np.empty(padded, dtype=np.float32)
    mass, log_t = np.empty(K), np.empty(K)
    for d in range(first, last):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        for j in range(n):
            _phi(words, scale, prior, inverse, indices[start + j], phi[j])
        own = phi, counts, start, n
        _start_evenly(counts, start, n, alpha, mass)
        _fixed_point(*own, alpha, max_iter, tol, variational, mass, t, gain, log_t)
        if variational:
            _log_weights(mass, log_t)
            bound = _elbo(*own, log_t, alpha)
            _start_in_turn(*own, alpha, mass)
            _fixed_point(*own, alpha, max_iter, tol, variational, mass, t, gain, log_t)
            _log_weights(mass, log_t)
            out[d - first, 0] = max(bound, _elbo(*own, log_t, alpha))
        else:
            out[d - first] = mass


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
    """Write digamma(mass) less its largest value, but no logs of numbers too small for float32."""
    largest = -np.inf
    for k in range(len(mass)):
        out[k] = _digamma(mass[k])
        largest = max(largest, out[k])
    for k in range(len(mass)):
        out[k] = max(out[k] - largest, _MIN_LOG)


@njit(cache=True, nogil=True)
def _elbo(phi, counts, start, n, log_t, alpha):
    """ELBO of one document at responsibilities proportional to phi t, in double precision."""
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
def _mix(indptr, indices, first, last, words, scale, prior, inverse, proportions, out):
    K = words.shape[1]
    phi = np.empty(-(-K // _BLOCK) * _BLOCK, dtype=np.float32)
    for d in range(first, last):
        for j in range(indptr[d], indptr[d + 1]):
            _phi(words, scale, prior, inverse, indices[j], phi)
            p = 0.0
            for k in range(K):
                p += proportions[d - first, k] * phi[k]
            out[j - indptr[first]] = p
