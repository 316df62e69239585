"""Numba kernels of the local update, which assigns the words of documents to topics.

A document's words are visited given the topics' expected word probabilities phi, which are made on
the fly from the counts of those words alone. Every document has a stream of random numbers of its
own, so that the answer does not depend on which thread takes which documents. All is float32.
"""

import math

import numpy as np
from numba import njit

# Probabilities are kept above this, for float32 ends at 1e-38.
_MIN_PROBABILITY = np.float32(1e-30)
# A draw searches sums over blocks of topics, a group of sums at a time.
_BLOCK, _GROUP = 4, 4
_N_EM = 2  # steps of expectation-maximisation before a chain
# Occurrences of a word in a document that are assigned one by one; more are assigned in bundles.
_MAX_TOKENS = 64
# Sums of products may be taken in any order, and no nan occurs.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _word_probabilities(words, scale, prior, inverse, w, out):
    """E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        out[k] = max((words[w, k] * scale + prior[p, k]) * inverse[k], _MIN_PROBABILITY)
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(cache=True, nogil=True)
def _next_uniform(state):
    """The next state of a stream, and a number in [0, 1): splitmix64."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float32(z >> np.uint64(40)) * np.float32(1.0 / (1 << 24))


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _joint(phi, mass, out, sums):
    """Write phi times mass and its sums over blocks; return the sum of all."""
    total = np.float32(0.0)
    for b in range(len(sums)):
        one = np.float32(0.0)
        for i in range(_BLOCK):
            k = b * _BLOCK + i
            p = phi[k] * mass[k]
            out[k] = p
            one += p
        sums[b] = one
        total += one
    return total


@njit(cache=True, nogil=True)
def _draw_topic(joint, sums, target):
    """The topic at which the running sum passes the target.

    Groups, blocks and topics are each searched to the end: a jump that the processor cannot predict
    costs more than some sums.
    """
    below, running = np.float32(0.0), np.float32(0.0)
    b = 0
    for g in range(0, len(sums), _GROUP):
        for i in range(g, g + _GROUP):
            running += sums[i]
        if running <= target:
            b, below = g + _GROUP, running
    b = min(b, len(sums) - _GROUP)
    start, running = b, below
    for i in range(start, start + _GROUP):
        running += sums[i]
        if running <= target:
            b, below = i + 1, running
    k = min(b, start + _GROUP - 1) * _BLOCK
    start, running = k, below
    for i in range(start, start + _BLOCK):
        running += joint[i]
        if running <= target:
            k = i + 1
    k = min(k, start + _BLOCK - 1)
    while joint[k] <= 0.0:  # rounding went past the last topic
        k -= 1
    return k


@njit(cache=True, nogil=True)
def _n_blocks(K):
    """Number of blocks for K topics and the zeros behind them, in whole groups."""
    return -(-K // (_BLOCK * _GROUP)) * _GROUP


@njit(cache=True, nogil=True)
def _longest(indptr, first, last):
    """Distinct words of the longest document."""
    longest = 0
    for d in range(first, last):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _em_step(phi, counts, mass, alpha, gain):
    """One step of expectation-maximisation: mass becomes alpha and the topics' expected words."""
    gain[:] = np.float32(0.0)
    for j in range(len(counts)):
        row, s = phi[j], np.float32(0.0)
        for k in range(len(mass)):
            s += row[k] * mass[k]
        f = counts[j] / s
        for k in range(len(mass)):
            gain[k] += f * row[k]
    for k in range(len(alpha)):
        mass[k] = alpha[k] + mass[k] * gain[k]


@njit(cache=True, nogil=True)
def _start_evenly(counts, alpha, mass):
    """Set mass to alpha and an equal part of the document's words for each topic."""
    each = counts.sum() / np.float32(len(alpha))
    for k in range(len(alpha)):
        mass[k] = alpha[k] + each


@njit(cache=True, nogil=True)
def _tokens(count):
    """Number of tokens of a word, and how much each counts."""
    tokens = int(min(math.ceil(count), _MAX_TOKENS))
    return tokens, count / np.float32(tokens)


@njit(cache=True, nogil=True)
def _draw_assignments(phi, counts, mass, alpha, joint, sums, state, assigned):
    """Draw the topics of all tokens given the mass of the topics, and count the mass anew."""
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        total = _joint(phi[j], mass, joint, sums)
        for i in range(tokens):
            state, u = _next_uniform(state)
            assigned[j, i] = _draw_topic(joint, sums, u * total)
    for k in range(len(alpha)):
        mass[k] = alpha[k]
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            mass[assigned[j, i]] += each
    return state


@njit(cache=True, fastmath=_FAST, nogil=True, forceinline=True)
def _gibbs_sweep(phi, counts, mass, alpha, joint, sums, state, assigned, weight, expected):
    """Draw the topic of each token given those of the others, once for all tokens.

    The tokens' conditional probabilities times ``weight`` are added to the expected counts.
    """
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            z = assigned[j, i]
            mass[z] = max(mass[z] - each, alpha[z])  # not less by rounding
            total = _joint(phi[j], mass, joint, sums)
            state, u = _next_uniform(state)
            z = _draw_topic(joint, sums, u * total)
            assigned[j, i] = z
            mass[z] += each
            if weight > 0.0:
                factor, row = weight * each / total, expected[j]
                for k in range(len(alpha)):
                    row[k] += factor * joint[k]
    return state


@njit(cache=True, nogil=True)
def _sum_rows(expected, out):
    """Write the expected words of a document in each topic."""
    out[:] = np.float32(0.0)
    for j in range(len(expected)):
        for k in range(len(out)):
            out[k] += expected[j, k]


@njit(cache=True, nogil=True)
def sampled(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    seeds, n_local_iter, n_burn, expected, mass_out,
):  # fmt: skip
    """Assign words by the mean conditional probabilities along a Gibbs chain.

    Two steps of expectation-maximisation precede the chain: after a few sweeps from random topics a
    document's words would still be spread over too many of them. Then there are ``n_local_iter``
    Gibbs sweeps, of which the first ``n_burn`` are not counted.

    * indptr, indices, counts: documents, as in a CSR matrix; counts are float32;
    * first, last: the documents from ``first`` up to, not including, ``last``;
    * words: (V, K), float32, counts of words in topics, divided by ``scale``, float32;
    * prior: (V or 1, K), float32, Dirichlet parameters of the topics' words;
    * inverse: (K,), float32, one over a topic's counts and prior, summed over words;
    * alpha: (K,), float32, Dirichlet parameters of the documents' topic proportions;
    * seeds: (n,), uint64, of the documents' streams of random numbers;
    * expected: (nnz, K), float32, receives a word's count times its responsibilities;
    * mass_out: (n, K), float32, receives the expected words of each document in each topic.
    """
    nb = _n_blocks(words.shape[1])
    longest = _longest(indptr, first, last)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    assigned = np.empty((longest, _MAX_TOKENS), dtype=np.int32)
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    joint, gain = np.empty_like(mass), np.empty_like(mass)
    sums = np.empty(nb, dtype=np.float32)
    part = np.float32(1.0 / (n_local_iter - n_burn))
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        for j in range(b - a):
            _word_probabilities(words, scale, prior, inverse, indices[a + j], phi[j])
        expected[a:b] = np.float32(0.0)
        _start_evenly(own, alpha, mass)
        for _ in range(_N_EM):
            _em_step(phi, own, mass, alpha, gain)
        state = _draw_assignments(phi, own, mass, alpha, joint, sums, seeds[d], assigned)
        for iteration in range(n_local_iter):
            weight = part if iteration >= n_burn else np.float32(0.0)
            state = _gibbs_sweep(
                phi, own, mass, alpha, joint, sums, state, assigned, weight, expected[a:b]
            )
        _sum_rows(expected[a:b], mass_out[d])


@njit(cache=True, fastmath=_FAST, nogil=True)
def soft(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, expected, mass_out,
):  # fmt: skip
    """Assign words by expectation-maximisation for each document; see `sampled`."""
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    phi = np.empty((_longest(indptr, first, last), nb * _BLOCK), dtype=np.float32)
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    gain = np.empty_like(mass)
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        for j in range(b - a):
            _word_probabilities(words, scale, prior, inverse, indices[a + j], phi[j])
        _start_evenly(own, alpha, mass)
        for _ in range(n_local_iter):
            _em_step(phi, own, mass, alpha, gain)
        for j in range(b - a):
            row, s = phi[j], np.float32(0.0)
            for k in range(len(mass)):
                s += row[k] * mass[k]
            f = own[j] / s
            for k in range(K):
                expected[a + j, k] = f * row[k] * mass[k]
        _sum_rows(expected[a:b], mass_out[d])


@njit(cache=True, fastmath=_FAST, nogil=True)
def collapsed(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, expected, mass_out,
):  # fmt: skip
    """Assign each word given the other words of its document.

    This is the zeroth-order collapsed update (Asuncion et al. 2009): a word's own responsibilities
    are left out of the topics' masses when they are computed anew. See `sampled`.
    """
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    longest = _longest(indptr, first, last)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    one = np.empty((longest, nb * _BLOCK), dtype=np.float32)  # responsibilities of a token
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    new, least = np.empty_like(mass), np.full(nb * _BLOCK, alpha[K - 1])
    for k in range(K):
        least[k] = alpha[k]
    for d in range(first, last):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        for k in range(len(mass)):
            mass[k] = least[k]
        for j in range(n):
            _word_probabilities(words, scale, prior, inverse, indices[start + j], phi[j])
            s = np.float32(0.0)
            for k in range(len(mass)):
                s += phi[j, k] * least[k]
            for k in range(len(mass)):
                one[j, k] = phi[j, k] * least[k] / s
                mass[k] += counts[start + j] * one[j, k]
        for _ in range(n_local_iter):
            for j in range(n):
                row, own, count = phi[j], one[j], counts[start + j]
                token = min(count, np.float32(1.0))  # a count may be less than one
                for k in range(len(mass)):
                    new[k] = row[k] * max(mass[k] - token * own[k], least[k])
                s = np.float32(0.0)
                # The sum has a loop of its own: in one that also stores, the compiler's order of
                # summation depends on where the arrays lie in memory.
                for k in range(len(mass)):
                    s += new[k]
                s = np.float32(1.0) / s
                for k in range(len(mass)):
                    p = new[k] * s
                    mass[k] += count * (p - own[k])
                    own[k] = p
        for j in range(n):
            count = counts[start + j]
            for k in range(K):
                expected[start + j, k] = count * one[j, k]
        _sum_rows(expected[start : start + n], mass_out[d])


@njit(cache=True, nogil=True)
def deposit(indices, expected, words, factor, low, high):
    """Add ``factor`` times the expected counts to the words from ``low`` up to ``high``."""
    K = words.shape[1]
    for j in range(len(indices)):
        w = indices[j]
        if low <= w < high:
            for k in range(K):
                words[w, k] += factor * expected[j, k]


@njit(cache=True, nogil=True)
def entropies(indptr, indices, counts, first, last, expected, out):
    """Entropies of the topics of each document's words, given their expected counts."""
    for d in range(first, last):
        total = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            for k in range(expected.shape[1]):
                count = expected[j, k]
                if count > 0.0:
                    total -= count * math.log(count / counts[j])
        out[d] = total
