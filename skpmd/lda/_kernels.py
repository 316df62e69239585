"""Numba kernels of topic models: the words of documents shared out among topics.

A document's words are visited given the topics' expected word probabilities phi, which are made on
the fly from the counts of those words alone. Every document has a stream of random numbers of its
own, so that the answer does not depend on how documents are shared out among threads. Numbers are
float32; probabilities are kept above ``_LEAST``, for float32 ends at 1e-38.
"""

import math

import numpy as np
from numba import njit

_LEAST = np.float32(1e-30)
_BLOCK, _GROUP = 4, 4  # topics whose sum is kept, and sums that are looked through at once
_N_SOFT = 2  # steps of expectation-maximisation before a chain
_MOST_TOKENS = 64  # of one word of a document; more of them are assigned together
# Sums of products may be taken in any order: they are for proportions. No nan is made.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, fastmath=_FAST, nogil=True)
def _word_probabilities(words, scale, prior, inverse, w, out):
    """E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        out[k] = max((words[w, k] * scale + prior[p, k]) * inverse[k], _LEAST)
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(cache=True, nogil=True)
def _next(state):
    """The next state of a stream and a number in [0, 1): splitmix64."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float32(z >> np.uint64(40)) * np.float32(1.0 / (1 << 24))


@njit(cache=True, fastmath=_FAST, nogil=True)
def _joint(phi, mass, out, sums):
    """phi times mass, and its sums over blocks; returns the sum of all."""
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
def _drawn(joint, sums, target):
    """Place at which the running sum passes the target.

    Group, block, topic: each is looked through to its end, for a jump that cannot be foreseen costs
    more than some sums.
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
    while joint[k] <= 0.0:  # rounding went past the last one
        k -= 1
    return k


@njit(cache=True, nogil=True)
def _n_blocks(K):
    """Blocks of K topics and of the zeros behind them: whole groups."""
    return -(-K // (_BLOCK * _GROUP)) * _GROUP


@njit(cache=True, nogil=True)
def _longest(indptr, first, last):
    """Distinct words of the longest document."""
    longest = 0
    for d in range(first, last):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@njit(cache=True, fastmath=_FAST, nogil=True)
def _softened(phi, counts, mass, alpha, gain):
    """Mass after one step of expectation-maximisation: alpha and the expected words of topics."""
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
def _evenly(counts, alpha, mass):
    """Alpha and equal shares of a document's words."""
    each = counts.sum() / np.float32(len(alpha))
    for k in range(len(alpha)):
        mass[k] = alpha[k] + each


@njit(cache=True, nogil=True)
def _tokens(count):
    """Tokens of a word, and what each counts."""
    tokens = int(min(math.ceil(count), _MOST_TOKENS))
    return tokens, count / np.float32(tokens)


@njit(cache=True, nogil=True)
def _assigned(phi, counts, mass, alpha, joint, sums, state, assigned):
    """Draw the topics of all tokens given shares of the topics; mass is then that of the tokens."""
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        total = _joint(phi[j], mass, joint, sums)
        for i in range(tokens):
            state, u = _next(state)
            assigned[j, i] = _drawn(joint, sums, u * total)
    mass[: len(alpha)] = alpha
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            mass[assigned[j, i]] += each
    return state


@njit(cache=True, fastmath=_FAST, nogil=True)
def _swept(phi, counts, mass, alpha, joint, sums, state, assigned, share, shares):
    """Draw the topic of each token given those of the others.

    ``share`` of each token's conditional probabilities is added to the shares.
    """
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            z = assigned[j, i]
            mass[z] = max(mass[z] - each, alpha[z])  # rounding
            total = _joint(phi[j], mass, joint, sums)
            state, u = _next(state)
            z = _drawn(joint, sums, u * total)
            assigned[j, i] = z
            mass[z] += each
            if share > 0.0:
                factor, row = share * each / total, shares[j]
                for k in range(len(alpha)):
                    row[k] += factor * joint[k]
    return state


@njit(cache=True, nogil=True)
def _summed(shares, out):
    """Words of a document in each topic."""
    out[:] = np.float32(0.0)
    for j in range(len(shares)):
        for k in range(len(out)):
            out[k] += shares[j, k]


@njit(cache=True, nogil=True)
def sampled(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    seeds, n_local_iter, n_burn, shares, mass_out,
):  # fmt: skip
    """Words of documents shared out by the conditional probabilities along a Gibbs chain.

    Two steps of expectation-maximisation say where the chain starts: from nothing, as Gibbs
    samplers start, a few sweeps leave words too much alone with their topics.

    Parameters
    ----------
    indptr, indices, counts : ndarray
        Documents, as in a CSR matrix; counts are float32.
    first, last : int
        Documents to answer: ``first`` up to, not with, ``last``.
    words : ndarray of shape (V, K), float32
        Counts of words in topics, divided by ``scale``.
    scale : float32
        Of them.
    prior : ndarray of shape (V or 1, K), float32
        Dirichlet parameters of the topics' words.
    inverse : ndarray of shape (K,), float32
        One over a topic's counts and prior, summed over words.
    alpha : ndarray of shape (K,), float32
        Dirichlet parameters of documents' shares.
    seeds : ndarray of shape (n,), uint64
        Of the documents' streams of random numbers.
    n_local_iter, n_burn : int
        Sweeps, and those of them whose probabilities are not counted.
    shares : ndarray of shape (nnz, K), float32
        Receives a word's count, shared out.
    mass_out : ndarray of shape (n, K), float32
        Receives the words of each document in each topic.
    """
    nb = _n_blocks(words.shape[1])
    longest = _longest(indptr, first, last)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    assigned = np.empty((longest, _MOST_TOKENS), dtype=np.int32)
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    joint, gain = np.empty_like(mass), np.empty_like(mass)
    sums = np.empty(nb, dtype=np.float32)
    part = np.float32(1.0 / (n_local_iter - n_burn))
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        for j in range(b - a):
            _word_probabilities(words, scale, prior, inverse, indices[a + j], phi[j])
        shares[a:b] = np.float32(0.0)
        _evenly(own, alpha, mass)
        for _ in range(_N_SOFT):
            _softened(phi, own, mass, alpha, gain)
        state = _assigned(phi, own, mass, alpha, joint, sums, seeds[d], assigned)
        for sweep in range(n_local_iter):
            share = part if sweep >= n_burn else np.float32(0.0)
            state = _swept(phi, own, mass, alpha, joint, sums, state, assigned, share, shares[a:b])
        _summed(shares[a:b], mass_out[d])


@njit(cache=True, fastmath=_FAST, nogil=True)
def soft(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, shares, mass_out,
):  # fmt: skip
    """Words of documents shared out at the end of expectation-maximisation; see `sampled`."""
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    phi = np.empty((_longest(indptr, first, last), nb * _BLOCK), dtype=np.float32)
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    gain = np.empty_like(mass)
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        for j in range(b - a):
            _word_probabilities(words, scale, prior, inverse, indices[a + j], phi[j])
        _evenly(own, alpha, mass)
        for _ in range(n_local_iter):
            _softened(phi, own, mass, alpha, gain)
        for j in range(b - a):
            row, s = phi[j], np.float32(0.0)
            for k in range(len(mass)):
                s += row[k] * mass[k]
            f = own[j] / s
            for k in range(K):
                shares[a + j, k] = f * row[k] * mass[k]
        _summed(shares[a:b], mass_out[d])


@njit(cache=True, fastmath=_FAST, nogil=True)
def collapsed(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, shares, mass_out,
):  # fmt: skip
    """Words of documents shared out, each given the other words of its document.

    The zeroth-order collapsed update (Asuncion et al. 2009): a word's own share is left out of the
    topics' masses when it is shared out anew. See `sampled` for the parameters.
    """
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    longest = _longest(indptr, first, last)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    one = np.empty((longest, nb * _BLOCK), dtype=np.float32)  # of one token of each word
    mass = np.zeros(nb * _BLOCK, dtype=np.float32)
    new, least = np.empty_like(mass), np.full(nb * _BLOCK, alpha[K - 1])
    least[:K] = alpha
    for d in range(first, last):
        start, n = indptr[d], indptr[d + 1] - indptr[d]
        mass[:] = least
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
                held = min(count, np.float32(1.0))  # of less than a token, all there is
                for k in range(len(mass)):
                    new[k] = row[k] * max(mass[k] - held * own[k], least[k])
                s = np.float32(0.0)
                # In a loop without a store: in one with it the compiler takes the sum in an order
                # that hangs on where the arrays lie in memory.
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
                shares[start + j, k] = count * one[j, k]
        _summed(shares[start : start + n], mass_out[d])


@njit(cache=True, nogil=True)
def deposit(indices, shares, words, factor, low, high):
    """Add ``factor`` times the shares to the counts of words from ``low`` up to ``high``."""
    K = words.shape[1]
    for j in range(len(indices)):
        w = indices[j]
        if low <= w < high:
            for k in range(K):
                words[w, k] += factor * shares[j, k]


@njit(cache=True, nogil=True)
def entropies(indptr, indices, counts, first, last, shares, out):
    """Entropies of the topics of each document's words, given their shares."""
    for d in range(first, last):
        total = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            for k in range(shares.shape[1]):
                share = shares[j, k]
                if share > 0.0:
                    total -= share * math.log(share / counts[j])
        out[d] = total
