"""New documents under one particle: topic proportions, ELBOs and probabilities of words.

A document's result does not depend on the others of the call. ``documents`` are
`skpmd.lda._documents.Documents` as kernels take them. The topics' probabilities phi of their words
are made on the fly from their counts, as in `skpmd.lda._kernels`. Iterations are in single
precision, final sums in double precision.
"""

import math

import numpy as np
from numba import njit

from skpmd.lda._kernels import SHORT, assigned_words, numbers_of_tokens

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
# Kernels that only kernels call need no functions to call them by, which take time to compile; and
# no divisor is zero, so that loops need not look for one.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


def topic_mass(topics, counts, i, documents, max_iter=100, tol=1e-3, n_chains=None, stream=0):
    """Pseudo-counts of topics in documents under particle ``i``, the prior's included; (n, K).

    They are alpha and the expected words of each topic. A row sums to the sum of alpha and the
    document's words, and without words it is alpha.

    Documents of up to 64 tokens have the posterior means given the topics, from the chain of
    `word_moments`, whose means are averaged with those of ``n_chains`` particles, by default all;
    longer ones the fixed point of expectation-maximisation for the documents'
    topic proportions, which is near it, with at most ``max_iter`` iterations, which end where the
    mean change of the pseudo-counts is below ``tol``. Random numbers come from a document's words
    and ``stream``, which each of several particles has of its own.
    """
    is_short = numbers_of_tokens(documents.indptr, documents.data) <= SHORT
    words = np.empty((documents.n, 4, topics.K))
    if not is_short.all():
        mass = np.empty((documents.n, topics.K))
        _pseudo_counts(*_arguments(topics, counts, i, documents), max_iter, tol, mass)
        words[:, 0] = mass - topics.alpha[i]
    if is_short.any():
        sweeps = _shared(_SWEEPS, n_chains or topics.m, max_iter)
        arguments = _arguments(topics, counts, i, documents, n_draws=1)
        assigned_words(*arguments, np.zeros(1, int), np.uint64(stream), *sweeps, False, words)
    return topics.alpha[i] + np.maximum(words[:, 0], 0.0)


def word_moments(
    topics, counts, i, documents, max_iter=100, n_chains=1, n_draws=1, used=(0,), stream=0
):  # fmt: skip
    """Posterior of the numbers n of a document's words in each topic, under one particle.

    Given these numbers, topic proportions have a Dirichlet distribution. The moments are those of
    `skpmd.lda._kernels.assigned_words`, of shape (n, 4, K), float64: E[n], E[n^2], P(n > 0) and
    P(n is all words). Parameters are those of `topic_mass`; ``counts`` are those of ``n_draws``
    draws of each particle's topics, of which the chain goes through those ``used``. It has at most
    ``max_iter`` sweeps, and fewer where its moments are averaged with those of others, ``n_chains``
    together.
    """
    out = np.empty((documents.n, 4, topics.K))
    sweeps = _shared(_SWEEPS_OF_MOMENTS, n_chains, max_iter)
    arguments = _arguments(topics, counts, i, documents, n_draws)
    assigned_words(*arguments, np.asarray(used), np.uint64(stream), *sweeps, True, out)
    return out


def _shared(sweeps, n_chains, most):
    """Visits and numbers of sweeps of each of some chains, which have no more than ``most``."""
    visits, *ends = (-(-number // n_chains) for number in sweeps)
    return visits, *(min(end, most) for end in ends)


def document_elbos(topics, counts, i, documents, max_iter=100, tol=1e-3):
    """Lower bounds of the log probabilities of documents' words under one particle.

    With r_jk the responsibility of topic k for word j, c_j the word's count, n_k = sum_j c_j r_jk
    and A the log normaliser of a Dirichlet distribution,

        sum_j c_j sum_k r_jk (log phi_k(w_j) - log r_jk) + A(alpha + n) - A(alpha)

    is a lower bound for any r. It is taken at r proportional to phi_k exp(digamma(alpha_k + n_k)),
    where it is largest. Iterations start from an equal part of the words for each topic, and from
    words that are put one by one to the topic that is most probable given those before, for
    topics that are alike would stay tied, at a saddle; the larger bound is taken. Words have an
    order: there is no multinomial coefficient in it.

    Parameters are those of `topic_mass`. Bounds are in nats, of shape (n,); without words they are
    0.
    """
    out = np.empty(documents.n)
    _elbos(*_arguments(topics, counts, i, documents), max_iter, tol, out)
    return out


def word_probabilities(topics, counts, i, documents, proportions):
    """Probabilities of the documents' distinct words given proportions (n, K) of their topics.

    Returns one float64 for each stored count; other parameters are those of `topic_mass`.
    """
    out = np.empty(len(documents.indices))
    _mix(*documents[:2], *topics.kernel_arguments(counts, i), proportions, out)
    return out


def _arguments(topics, counts, i, documents, n_draws=None):
    """First arguments of a kernel: documents, what E[phi] of a particle is made of, and alpha."""
    return *documents, *topics.kernel_arguments(counts, i, n_draws), topics.alpha[i]


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _phi(words, scale, prior, inverse, w, out):
    """Write E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        phi = (words[w, k] * scale + prior[p, k]) * inverse[k]
        out[k] = phi if phi > _MIN_PROBABILITY else _MIN_PROBABILITY
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(**_INNER)
def _longest(indptr):
    """Distinct words of the longest document."""
    longest = 0
    for d in range(len(indptr) - 1):
        n = indptr[d + 1] - indptr[d]
        longest = n if n > longest else longest
    return longest


@njit(**_INNER, fastmath=_FAST, forceinline=True)
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


@njit(**_INNER)
def _start_evenly(counts, start, n, alpha, mass):
    """Set mass to alpha and an equal part of the document's words for each topic."""
    total = 0.0
    for j in range(n):
        total += counts[start + j]
    for k in range(len(alpha)):
        mass[k] = alpha[k] + total / len(alpha)


@njit(**_INNER)
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


@njit(**_INNER)
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
                p = np.float32(mass[k])
                t[k] = p if p > _MIN_PROBABILITY else _MIN_PROBABILITY
        _expected(phi, counts, start, n, t, gain)
        change = 0.0
        for k in range(K):
            new = alpha[k] + t[k] * float(gain[k])
            change += abs(new - mass[k])
            mass[k] = new
        if change < tol * K:
            break


@njit(**_KERNEL)
def _pseudo_counts(
    indptr, indices, counts, words, scale, prior, inverse, alpha, max_iter, tol, out
):
    """Pseudo-counts (n, K) of the documents' topics."""
    K = words.shape[1]
    padded = -(-K // _BLOCK) * _BLOCK
    phi = np.empty((_longest(indptr), padded), dtype=np.float32)
    scratch = np.empty((2, padded), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    t, gain = scratch[0], scratch[1]
    for d in range(len(out)):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        for j in range(n):
            _phi(words, scale, prior, inverse, indices[start + j], phi[j])
        mass = out[d]
        _start_evenly(counts, start, n, alpha, mass)
        _fixed_point(phi, counts, start, n, alpha, max_iter, tol, False, mass, t, gain, mass)


@njit(**_KERNEL)
def _elbos(indptr, indices, counts, words, scale, prior, inverse, alpha, max_iter, tol, out):
    """ELBOs (n,) of the documents' words, the larger of two starts."""
    K = words.shape[1]
    padded = -(-K // _BLOCK) * _BLOCK
    phi = np.empty((_longest(indptr), padded), dtype=np.float32)
    scratch, own = np.empty((2, padded), dtype=np.float32), np.empty((2, K))
    scratch[:] = np.float32(0.0)
    t, gain, mass, log_t = scratch[0], scratch[1], own[0], own[1]
    for d in range(len(out)):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        for j in range(n):
            _phi(words, scale, prior, inverse, indices[start + j], phi[j])
        for is_second in range(2):
            if is_second:
                _start_in_turn(phi, counts, start, n, alpha, mass)
            else:
                _start_evenly(counts, start, n, alpha, mass)
            _fixed_point(phi, counts, start, n, alpha, max_iter, tol, True, mass, t, gain, log_t)
            _log_weights(mass, log_t)
            bound = _elbo(phi, counts, start, n, log_t, alpha)
            out[d] = bound if not is_second or bound > out[d] else out[d]


@njit(**_INNER)
def _digamma(x):
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    series = f * (1.0 / 12.0 - f * (1.0 / 120.0 - f * (1.0 / 252.0 - f / 240.0)))
    return shift + math.log(x) - 0.5 / x - series


@njit(**_INNER)
def _log_weights(mass, out):
    """Write digamma(mass) less its largest value, but no logs of numbers too small for float32."""
    largest = -np.inf
    for k in range(len(mass)):
        out[k] = _digamma(mass[k])
        largest = out[k] if out[k] > largest else largest
    for k in range(len(mass)):
        log = out[k] - largest
        out[k] = log if log > _MIN_LOG else _MIN_LOG


@njit(**_INNER)
def _elbo(phi, counts, start, n, log_t, alpha):
    """ELBO of one document at responsibilities proportional to phi t, in double precision."""
    K = len(alpha)
    own = np.empty((2, K))
    t, mass, value = own[0], own[1], 0.0
    for k in range(K):
        t[k], mass[k] = math.exp(log_t[k]), 0.0
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


@njit(**_KERNEL)
def _mix(indptr, indices, words, scale, prior, inverse, proportions, out):
    K = words.shape[1]
    phi = np.empty(-(-K // _BLOCK) * _BLOCK, dtype=np.float32)
    for d in range(len(proportions)):
        for j in range(indptr[d], indptr[d + 1]):
            _phi(words, scale, prior, inverse, indices[j], phi)
            p = 0.0
            for k in range(K):
                p += proportions[d, k] * phi[k]
            out[j] = p
