"""Numba kernels of topic models: the words of documents and their topics, in fits and new ones.

A document's words are visited given the topics' expected word probabilities phi, which are made on
the fly from the counts of those words alone. Every document has a stream of random numbers of its
own, so that the answer does not depend on which thread takes which documents. All is float32.

The first fit waits until kernels are compiled. Of what compiles slowly they make little use:
``max``, ``sum``, ``np.zeros``, an array written onto another (which compiles the text of an
error), arrays of many kinds, arguments of more than one type, and counters that begin at a literal
0, whose type every loop around them finds in a further round.
"""

import math

import numpy as np
from numba import njit

# Probabilities are kept above this, for float32 ends at 1e-38.
_MIN_PROBABILITY = np.float32(1e-30)
_MIN_LOG = -69.0  # and logs of topics' weights above this
# A draw searches sums over blocks of topics, a group of sums at a time.
_BLOCK, _GROUP = 4, 4
# Steps of expectation-maximisation before a chain, and before that of a long new document.
_N_EM, _N_EM_OF_LONG = 2, 20
# Occurrences of a word in a document that are assigned one by one; more are assigned in bundles.
_MAX_TOKENS = 64
# Words of documents in which whole topics, too, are drawn anew in predictions.
SHORT = 64
_MAX_SHARED = 4  # topics of such a document, at most
# Draws in a sweep of the words of two topics, the step of their log odds, and ends of these.
_N_SPLITS, _SLICE, _MAX_LOG_ODDS, _MAX_SHRINKS = 2, 2.0, 300.0, 60
_TINY = 1e-12  # is added to uniform numbers, whose logs are taken
_ROUNDING = 1e-4  # of sums of counts in single precision
# Sums of products may be taken in any order, and no nan occurs.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
# Kernels that only kernels call need no functions to call them by, which take time to compile; and
# no divisor is zero, so that loops need not look for one.
_KERNEL = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_INNER = {**_KERNEL, "no_cpython_wrapper": True}


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _word_probabilities(words, scale, prior, inverse, w, out):
    """E[phi] of one word under each topic, padded by zeros to whole blocks."""
    K = words.shape[1]
    p = w if prior.shape[0] > 1 else 0
    for k in range(K):
        phi = (words[w, k] * scale + prior[p, k]) * inverse[k]
        out[k] = phi if phi > _MIN_PROBABILITY else _MIN_PROBABILITY
    for k in range(K, len(out)):
        out[k] = np.float32(0.0)


@njit(**_INNER)
def _fill(words, scale, prior, inverse, indices, phi):
    """The same of all words of a document."""
    for j in range(len(indices)):
        _word_probabilities(words, scale, prior, inverse, indices[j], phi[j])


@njit(**_INNER)
def _next_uniform(state):
    """The next state of a stream, and a number in [0, 1): splitmix64."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float32(z >> np.uint64(40)) * np.float32(1.0 / (1 << 24))


@njit(**_INNER, fastmath=_FAST, forceinline=True)
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


@njit(**_INNER)
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
    last = len(sums) - _GROUP
    b = b if b < last else last
    start, running = b, below
    for i in range(start, start + _GROUP):
        running += sums[i]
        if running <= target:
            b, below = i + 1, running
    last = start + _GROUP - 1
    k = (b if b < last else last) * _BLOCK
    start, running = k, below
    for i in range(start, start + _BLOCK):
        running += joint[i]
        if running <= target:
            k = i + 1
    last = start + _BLOCK - 1
    k = k if k < last else last
    while joint[k] <= 0.0:  # rounding went past the last topic
        k -= 1
    return k


@njit(**_INNER)
def _n_blocks(K):
    """Number of blocks for K topics and the zeros behind them, in whole groups."""
    return -(-K // (_BLOCK * _GROUP)) * _GROUP


@njit(**_INNER)
def _longest(indptr):
    """Distinct words of the longest document."""
    longest = 0
    for d in range(len(indptr) - 1):
        n = indptr[d + 1] - indptr[d]
        longest = n if n > longest else longest
    return longest


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _gains(phi, counts, t, gain):
    """Sum over words of count phi / (phi . t); times t these are the expected words of topics."""
    gain[:] = np.float32(0.0)
    for j in range(len(counts)):
        row, s = phi[j], np.float32(0.0)
        for k in range(len(t)):
            s += row[k] * t[k]
        f = counts[j] / s
        for k in range(len(t)):
            gain[k] += f * row[k]


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _em_step(phi, counts, mass, alpha, gain):
    """One step of expectation-maximisation: mass becomes alpha and the topics' expected words."""
    _gains(phi, counts, mass, gain)
    for k in range(len(alpha)):
        mass[k] = alpha[k] + mass[k] * gain[k]


@njit(**_INNER)
def _start_evenly(counts, alpha, mass):
    """Set mass to alpha and an equal part of the document's words for each topic."""
    total = np.float32(0.0)
    for j in range(len(counts)):
        total += counts[j]
    each = total / np.float32(len(alpha))
    for k in range(len(alpha)):
        mass[k] = alpha[k] + each


@njit(**_INNER)
def _tokens(count):
    """Number of tokens of a word, and how much each counts."""
    tokens = math.ceil(count) if count < _MAX_TOKENS else _MAX_TOKENS
    return tokens, count / np.float32(tokens)


def numbers_of_tokens(indptr, counts):
    """Tokens of each document that are assigned one by one, (n,) int64; those of `_tokens`."""
    tokens = np.minimum(np.ceil(counts), _MAX_TOKENS).astype(np.int64)
    return np.diff(np.append(0, np.cumsum(tokens))[indptr])


@njit(**_INNER)
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


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _gibbs_sweep(phi, counts, mass, alpha, joint, sums, state, assigned, weight, expected):
    """Draw the topic of each token given those of the others, once for all tokens.

    The tokens' conditional probabilities times ``weight`` are added to the expected counts.
    """
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            z = assigned[j, i]
            rest = mass[z] - each
            mass[z] = rest if rest > alpha[z] else alpha[z]  # not less by rounding
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


@njit(**_INNER)
def _sum_rows(expected, out):
    """Write the expected words of a document in each topic."""
    out[:] = np.float32(0.0)
    for j in range(len(expected)):
        for k in range(len(out)):
            out[k] += expected[j, k]


@njit(**_KERNEL)
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
    longest = _longest(indptr)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    assigned = np.empty((longest, _MAX_TOKENS), dtype=np.int32)
    scratch = np.empty((4, nb * _BLOCK), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    mass, joint, gain, sums = scratch[0], scratch[1], scratch[2], scratch[3, :nb]
    part = np.float32(1.0 / (n_local_iter - n_burn))
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        _fill(words, scale, prior, inverse, indices[a:b], phi)
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


@njit(**_KERNEL, fastmath=_FAST)
def soft(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, expected, mass_out,
):  # fmt: skip
    """Assign words by expectation-maximisation for each document; see `sampled`."""
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    phi = np.empty((_longest(indptr), nb * _BLOCK), dtype=np.float32)
    scratch = np.empty((2, nb * _BLOCK), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    mass, gain = scratch[0], scratch[1]
    for d in range(first, last):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        _fill(words, scale, prior, inverse, indices[a:b], phi)
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


@njit(**_KERNEL, fastmath=_FAST)
def collapsed(
    indptr, indices, counts, first, last, words, scale, prior, inverse, alpha,
    n_local_iter, expected, mass_out,
):  # fmt: skip
    """Assign each word given the other words of its document.

    This is the zeroth-order collapsed update (Asuncion et al. 2009): a word's own responsibilities
    are left out of the topics' masses when they are computed anew. See `sampled`.
    """
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    longest = _longest(indptr)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    shares = np.empty((longest, nb * _BLOCK), dtype=np.float32)  # responsibilities of a token
    scratch, one = np.empty((3, nb * _BLOCK), dtype=np.float32), np.float32(1.0)
    mass, new, least = scratch[0], scratch[1], scratch[2]
    for k in range(len(least)):
        least[k] = alpha[k if k < K else K - 1]
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
                shares[j, k] = phi[j, k] * least[k] / s
                mass[k] += counts[start + j] * shares[j, k]
        for _ in range(n_local_iter):
            for j in range(n):
                row, own, count = phi[j], shares[j], counts[start + j]
                token = count if count < one else one  # a count may be less than one
                for k in range(len(mass)):
                    rest = mass[k] - token * own[k]
                    new[k] = row[k] * (rest if rest > least[k] else least[k])
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
                expected[start + j, k] = count * shares[j, k]
        _sum_rows(expected[start : start + n], mass_out[d])


@njit(**_INNER)
def _seed(indices, counts):
    """A state for the stream of a document, from its words alone."""
    state = np.uint64(0)
    for j in range(len(indices)):
        state ^= np.uint64(indices[j] + 1) * np.uint64(0xD1342543DE82EF95)
        state, _ = _next_uniform(state)
        state ^= np.uint64(counts[j] * np.float32(1024.0))
        state = (state ^ (state >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return state


@njit(**_INNER)
def _draw_in_turn(phi, counts, alpha, mass, words, joint, sums, state, assigned):
    """Draw the topic of each token given those before it: no topics stay tied as in a saddle."""
    for k in range(len(alpha)):
        mass[k], words[k] = alpha[k], np.float32(0.0)
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            total = _joint(phi[j], mass, joint, sums)
            state, u = _next_uniform(state)
            z = _draw_topic(joint, sums, u * total)
            assigned[j, i] = z
            words[z] += each
            mass[z] = alpha[z] + words[z]
    return state


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _count_token(joint, words, each, part, spread, whole, moments):
    """Add a token's part to the moments of the topics' words, given the other tokens ``words``.

    With p the token's conditional probabilities and n the words of topics with it, its part of the
    mean of n is p each, of that of n^2 it is p n each, and of P(n > 0) it is p each / n: the sums
    of these over the tokens of a topic are n, n^2 and 1. The last is also its part of the
    probability that the topic has all words of the document, where n is no less than ``whole``.
    """
    if not spread:
        for k in range(len(words)):
            moments[0, k] += part * joint[k]
        return
    for k in range(len(words)):
        p, n = float(part * joint[k]), float(words[k] + each)
        moments[0, k] += p
        moments[1, k] += p * n
        moments[2, k] += p / n
        moments[3, k] += p / n if n >= whole else 0.0


@njit(**_INNER, fastmath=_FAST, forceinline=True)
def _sweep(
    phi, counts, alpha, mass, words, joint, sums, state, assigned, weight, spread, whole,
    moments,
):  # fmt: skip
    """Draw the topic of each token given those of the others; count if ``weight`` is positive."""
    zero = np.float32(0.0)
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        for i in range(tokens):
            z = assigned[j, i]
            rest = words[z] - each
            words[z] = rest if rest > zero else zero  # not less by rounding
            mass[z] = alpha[z] + words[z]
            total = _joint(phi[j], mass, joint, sums)
            state, u = _next_uniform(state)
            z = _draw_topic(joint, sums, u * total)
            if weight > 0.0:
                part = weight * each / total
                _count_token(joint, words, each, part, spread, whole, moments)
            assigned[j, i] = z
            words[z] += each
            mass[z] = alpha[z] + words[z]
    return state


@njit(**_INNER)
def _relabel(
    logs, counts, rises, alpha, mass, words, labels, chances, state, assigned, weight,
    moments,
):  # fmt: skip
    """Draw the topic of all tokens that share one, among topics without tokens; count likewise.

    Which tokens are together stays as it is, so that this leaves the posterior of the topics as it
    is. With few words and a small alpha a chain of single tokens would stay with a topic for long.
    """
    K, n_blocks = len(alpha), 0
    for k in range(K):
        if words[k] > 0.0:
            labels[n_blocks] = k
            n_blocks += 1
    if n_blocks > _MAX_SHARED:
        for b in range(n_blocks):
            k = labels[b]
            moments[0, k] += weight * words[k]
            moments[1, k] += weight * words[k] ** 2
            moments[2, k] += weight
        return state
    for b in range(n_blocks):
        z, size = labels[b], int(words[labels[b]] + 0.5)
        for k in range(K):
            chances[k] = rises[size, k] if k == z or words[k] == 0.0 else -np.inf
        for j in range(len(counts)):
            n = 0
            for i in range(_tokens(counts[j])[0]):
                n += assigned[j, i] == z
            if n:
                for k in range(K):
                    chances[k] += n * logs[j, k]
        largest, total = chances[z], 0.0
        for k in range(K):
            largest = chances[k] if chances[k] > largest else largest
        for k in range(K):
            chances[k] = math.exp(chances[k] - largest)
            total += chances[k]
        state, u = _next_uniform(state)
        target, to, running = u * total, z, 0.0
        for k in range(K):
            running += chances[k]
            if running > target and chances[k] > 0.0:
                to = k
                break
        if weight > 0.0:
            for k in range(K):
                p = weight * chances[k] / total
                moments[0, k] += p * size
                moments[1, k] += p * size * size
                moments[2, k] += p
                moments[3, k] += p if n_blocks == 1 else 0.0
        if to != z:
            for j in range(len(counts)):
                for i in range(_tokens(counts[j])[0]):
                    if assigned[j, i] == z:
                        assigned[j, i] = to
            words[to], words[z] = words[z], np.float32(0.0)
            mass[to], mass[z] = alpha[to] + words[to], alpha[z]
    return state


@njit(**_INNER)
def _log_gamma_draw(a, state):
    """The log of a gamma variable of shape a (Marsaglia and Tsang 2000)."""
    log_scale = 0.0
    if a < 1.0:
        state, u = _next_uniform(state)
        log_scale, a = math.log(u + _TINY) / a, a + 1.0
    d = a - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        state, u = _next_uniform(state)
        state, angle = _next_uniform(state)
        x = math.sqrt(-2.0 * math.log(u + _TINY)) * math.cos(2.0 * math.pi * angle)
        v = (1.0 + c * x) ** 3
        state, u = _next_uniform(state)
        if v > 0.0 and math.log(u + _TINY) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return state, math.log(d * v) + log_scale


@njit(**_INNER)
def _log_odds_density(x, a, b, of):
    """Log density of the log odds x of two topics, of words whose topic is one of these.

    The log odds have a logistic beta prior (a, b); ``of`` (n, 3) has the words' probabilities under
    each of the two, and their counts.
    """
    odds = math.exp(x)
    value = a * x - (a + b) * math.log1p(odds)
    for j in range(len(of)):
        likelihood = (odds * of[j, 0] + of[j, 1]) / (odds + 1.0)
        value += of[j, 2] * math.log(likelihood)
    return value


@njit(**_INNER)
def _split(phi, counts, alpha, mass, words, chosen, of, state, assigned):
    """Draw anew which of the words of two topics are of the first, all at once.

    Where the words of two topics are much alike, a chain of single tokens goes from one share of
    these topics to another in hundreds of steps. Here their log odds are drawn given the topics of
    tokens, and then, given which tokens are of one of the two, by a step of a slice sampler (Neal
    2003), without their topics; at last the topics are drawn given the log odds. The two are
    topics that ``chosen`` makes probable, or the second is any.
    """
    K, total = len(alpha), 0.0
    for k in range(K):
        total += chosen[k]
    k = other = np.int64(0)
    for i in range(2):
        state, u = _next_uniform(state)
        k, other = other, np.int64(0)
        if i and u < 0.5:
            other = int(2.0 * u * K)
            continue
        target = (2.0 * u - 1.0 if i else u) * total
        while other < K - 1 and target >= chosen[other]:
            target -= chosen[other]
            other += 1
    if k == other or words[k] + words[other] <= 0.0:
        return state
    n = np.int64(0)
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        found = np.int64(0)
        for i in range(tokens):
            found += assigned[j, i] == k or assigned[j, i] == other
        if found:
            of[n, 0], of[n, 1], of[n, 2] = phi[j, k], phi[j, other], found * each
            n += 1
    of, a, b = of[:n], alpha[k], alpha[other]
    state, first = _log_gamma_draw(a + words[k], state)
    state, second = _log_gamma_draw(b + words[other], state)
    x = first - second
    x = x if x > -_MAX_LOG_ODDS else -_MAX_LOG_ODDS
    x = x if x < _MAX_LOG_ODDS else _MAX_LOG_ODDS
    state, u = _next_uniform(state)
    level = _log_odds_density(x, a, b, of) + math.log(u + _TINY)
    state, u = _next_uniform(state)
    low = x - _SLICE * u
    high = low + _SLICE
    while low > -_MAX_LOG_ODDS and _log_odds_density(low, a, b, of) > level:
        low -= _SLICE
    while high < _MAX_LOG_ODDS and _log_odds_density(high, a, b, of) > level:
        high += _SLICE
    low = low if low > -_MAX_LOG_ODDS else -_MAX_LOG_ODDS
    high = high if high < _MAX_LOG_ODDS else _MAX_LOG_ODDS
    for _ in range(_MAX_SHRINKS):
        state, u = _next_uniform(state)
        new = low + u * (high - low)
        if _log_odds_density(new, a, b, of) > level:
            x = new
            break
        low, high = (new, high) if new < x else (low, new)
    odds = math.exp(x)
    words[k] = words[other] = np.float32(0.0)
    for j in range(len(counts)):
        tokens, each = _tokens(counts[j])
        share = odds * phi[j, k] / (odds * phi[j, k] + phi[j, other])
        for i in range(tokens):
            z = assigned[j, i]
            if z == k or z == other:
                state, u = _next_uniform(state)
                z = k if u < share else other
                assigned[j, i] = z
                words[z] += each
    mass[k], mass[other] = a + words[k], b + words[other]
    return state


@njit(**_INNER)
def _log_rises(alpha):
    """Log of alpha (alpha + 1) ... for each number of factors up to the longest short document."""
    rises = np.empty((SHORT + 1, len(alpha)))
    rises[0] = 0.0
    for n in range(SHORT):
        for k in range(len(alpha)):
            rises[n + 1, k] = rises[n, k] + math.log(alpha[k] + n)
    return rises


@njit(**_KERNEL)
def assigned_words(
    indptr, indices, counts, words, scale, prior, inverse, alpha, used, stream, visits, least,
    most, spread, out,
):  # fmt: skip
    """Numbers n of words of each topic in documents given the topics: moments of their posterior.

    A Gibbs chain for each document averages the conditional probabilities of its tokens, and in
    documents of few tokens those of whole topics, too. It goes through the draws of topics that are
    ``used``, numbers of ``words`` and ``inverse``, and averages over these. The chain's random
    numbers come from the document's words and ``stream`` alone, so that each document has one
    answer. A document has as many sweeps as make ``visits`` tokens, but from ``least`` to ``most``
    and at least one of each draw, and a quarter more that are not counted.

    ``out`` (n, 4, K), float64, receives the means of n, and with ``spread`` of n^2, of
    whether n > 0 and of whether n is all words of the document. For documents of one word they are
    exact. Without ``spread`` the rows of documents of more tokens than `SHORT` stay as they are.
    See `sampled`.
    """
    K, nb = words.shape[2], _n_blocks(words.shape[2])
    longest = _longest(indptr)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    assigned = np.empty((longest, _MAX_TOKENS), dtype=np.int32)
    scratch = np.empty((5, nb * _BLOCK), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    mass, own, joint, chosen = scratch[0], scratch[1], scratch[2], scratch[3]
    sums, labels = scratch[4, :nb], np.empty((1, K), dtype=np.int32)[0]
    wide = np.empty((5, nb * _BLOCK))
    moments, chances = wide[:4], wide[4, :K]
    logs = np.empty((longest if longest < SHORT else SHORT, K))
    pairs, rises = np.empty((longest, 3)), _log_rises(alpha)
    short_alpha = alpha.astype(np.float32)  # as kernels of fits have it: they are compiled once
    for d in range(len(out)):
        a, b = indptr[d], indptr[d + 1]
        of, n_tokens, whole, n_words = counts[a:b], 0, True, np.float32(0.0)
        for j in range(b - a):
            tokens, each = _tokens(of[j])
            n_tokens += tokens
            n_words += of[j]
            whole = whole and each == 1.0
        if n_tokens > SHORT and not spread:
            continue
        moments[:] = 0.0
        n_sweeps = visits // (n_tokens if n_tokens > 1 else 1)
        n_sweeps = n_sweeps if n_sweeps > least else least
        n_sweeps = 1 if n_tokens == 1 else n_sweeps if n_sweeps < most else most
        n_sweeps = -(-n_sweeps // len(used))  # of each draw
        n_burn = n_sweeps * len(used) // 4
        n_burn = 0 if n_tokens == 1 else n_burn if n_burn > 1 else 1
        blocks = whole and 1 < n_tokens <= SHORT
        part = np.float32((0.5 if blocks else 1.0) / (n_sweeps * len(used)))
        n_splits = 0 if K == 1 or n_tokens == 1 else _N_SPLITS if spread else 1
        most_words = float((1.0 - _ROUNDING) * n_words)
        state = _seed(indices[a:b], of) ^ stream
        for r in range(len(used) if n_tokens else 0):
            draw, n_before = used[r], n_burn if r == 0 else 0
            _fill(words[draw], scale, prior, inverse[draw], indices[a:b], phi)
            for j in range(b - a if blocks else 0):
                for k in range(K):
                    logs[j, k] = math.log(phi[j, k])
            if r == 0:
                state = _draw_in_turn(phi, of, alpha, mass, own, joint, sums, state, assigned)
                if n_tokens > SHORT:
                    for _ in range(_N_EM_OF_LONG):
                        _em_step(phi, of, mass, short_alpha, joint)
                    state = _draw_assignments(
                        phi, of, mass, short_alpha, joint, sums, state, assigned
                    )  # fmt: skip
                    for k in range(K):
                        own[k] = mass[k] - np.float32(alpha[k])
                for k in range(len(mass)):
                    chosen[k] = mass[k]
            for sweep in range(n_before + n_sweeps):
                for _ in range(n_splits):
                    state = _split(phi, of, alpha, mass, own, chosen, pairs, state, assigned)
                weight = part if sweep >= n_before else np.float32(0.0)
                state = _sweep(
                    phi, of, alpha, mass, own, joint, sums, state, assigned, weight, spread,
                    most_words, moments,
                )  # fmt: skip
                if blocks:
                    state = _relabel(
                        logs, of, rises, alpha, mass, own, labels, chances, state,
                        assigned, weight, moments,
                    )  # fmt: skip
        for i in range(4):
            for k in range(K):
                out[d, i, k] = moments[i, k]


@njit(**_KERNEL)
def first_topics(
    indptr, indices, counts, words, scale, prior, inverse, alpha, state, n_sweeps, topics
):
    """Draw the topics of all tokens of all documents given the topics' words.

    ``topics`` receives them, token by token in the order of ``indices``. Returns the state of the
    stream of random numbers. See `sampled`.
    """
    nb, n = _n_blocks(words.shape[1]), len(indptr) - 1
    longest = _longest(indptr)
    phi = np.empty((longest, nb * _BLOCK), dtype=np.float32)
    assigned = np.empty((longest, _MAX_TOKENS), dtype=np.int32)
    scratch = np.empty((4, nb * _BLOCK), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    mass, own, joint, sums = scratch[0], scratch[1], scratch[2], scratch[3, :nb]
    moments, weight = np.empty((4, 1)), np.float32(0.0)  # None of the sweeps is counted.
    at = np.int64(0)
    for d in range(n):
        a, b = indptr[d], indptr[d + 1]
        _fill(words, scale, prior, inverse, indices[a:b], phi)
        of = counts[a:b]
        state = _draw_in_turn(phi, of, alpha, mass, own, joint, sums, state, assigned)
        for _ in range(n_sweeps):
            state = _sweep(
                phi, of, alpha, mass, own, joint, sums, state, assigned, weight, weight > 0.0,
                np.inf, moments,
            )  # fmt: skip
        for j in range(b - a):
            for i in range(_tokens(of[j])[0]):
                topics[at] = assigned[j, i]
                at += 1
    return state


@njit(**_KERNEL)
def count_topics(indptr, indices, counts, weight, topics, words, totals):
    """Add the words of all documents to those of their topics, times the documents' weights."""
    at = np.int64(0)
    for d in range(len(indptr) - 1):
        for j in range(indptr[d], indptr[d + 1]):
            tokens, each = _tokens(counts[j])
            for _ in range(tokens):
                words[indices[j], topics[at]] += weight[d] * each
                totals[topics[at]] += weight[d] * each
                at += 1


@njit(**_KERNEL, fastmath=_FAST)
def gibbs_pass(
    indptr, indices, counts, weight, topics, words, totals, prior, prior_totals, alpha, state
):
    """Draw the topic of each token given those of all others, once for all tokens.

    Topics' words and documents' proportions are integrated out (Griffiths and Steyvers 2004).
    ``words`` (V, K), float32, and ``totals`` (K,), float64, are the counts by ``topics``, which
    change in place; ``prior_totals`` (K,) are sums of the prior over words, and ``weight`` (n,)
    those of documents. Returns the state of the stream. See `sampled`.
    """
    K, nb = words.shape[1], _n_blocks(words.shape[1])
    scratch, zero = np.empty((5, nb * _BLOCK), dtype=np.float32), np.float32(0.0)
    scratch[:] = zero
    mass, phi, joint = scratch[0], scratch[1], scratch[2]
    sums, inverse = scratch[3, :nb], scratch[4, :K]
    for k in range(K):
        inverse[k] = 1.0 / (totals[k] + prior_totals[k])
    many_rows, start = prior.shape[0] > 1, np.int64(0)
    for d in range(len(indptr) - 1):
        for k in range(K):
            mass[k] = alpha[k]
        at = start
        for j in range(indptr[d], indptr[d + 1]):
            tokens, each = _tokens(counts[j])
            for _ in range(tokens):
                mass[topics[at]] += each
                at += 1
        at = start
        for j in range(indptr[d], indptr[d + 1]):
            tokens, each = _tokens(counts[j])
            gain = np.float32(weight[d] * each)
            own, of = words[indices[j]], prior[indices[j] if many_rows else 0]
            for _ in range(tokens):
                z = topics[at]
                rest, words_left, total_left = mass[z] - each, own[z] - gain, totals[z] - gain
                mass[z] = rest if rest > alpha[z] else alpha[z]  # not less by rounding
                own[z] = words_left if words_left > zero else zero
                totals[z] = total_left if total_left > 0.0 else 0.0
                inverse[z] = 1.0 / (totals[z] + prior_totals[z])
                for k in range(K):
                    p = (own[k] + of[k]) * inverse[k]
                    phi[k] = p if p > _MIN_PROBABILITY else _MIN_PROBABILITY
                total = _joint(phi, mass, joint, sums)
                state, u = _next_uniform(state)
                z = _draw_topic(joint, sums, u * total)
                topics[at] = z
                mass[z] += each
                own[z] += gain
                totals[z] += gain
                inverse[z] = 1.0 / (totals[z] + prior_totals[z])
                at += 1
        start = at
    return state


@njit(**_KERNEL)
def deposit(indices, expected, words, factor, low, high):
    """Add ``factor`` times the expected counts to the words from ``low`` up to ``high``."""
    K = words.shape[1]
    for j in range(len(indices)):
        w = indices[j]
        if low <= w < high:
            for k in range(K):
                words[w, k] += factor * expected[j, k]


@njit(**_KERNEL)
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


# ---------------------------------------------------------------------- new documents
@njit(**_INNER)
def _start_widely(counts, alpha, mass):
    """As `_start_evenly`, in double precision."""
    total = 0.0
    for j in range(len(counts)):
        total += counts[j]
    for k in range(len(alpha)):
        mass[k] = alpha[k] + total / len(alpha)


@njit(**_INNER)
def _start_in_turn(phi, counts, alpha, mass):
    """Set mass to alpha and each word's count for the best topic given the words before it."""
    for k in range(len(alpha)):
        mass[k] = alpha[k]
    for j in range(len(counts)):
        best = 0
        for k in range(1, len(alpha)):
            if phi[j, k] * mass[k] > phi[j, best] * mass[best]:
                best = k
        mass[best] += counts[j]


@njit(**_INNER)
def _fixed_point(phi, counts, alpha, max_iter, tol, variational, mass, t, gain, log_t):
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
        _gains(phi, counts, t, gain)
        change = 0.0
        for k in range(K):
            new = alpha[k] + t[k] * float(gain[k])
            change += abs(new - mass[k])
            mass[k] = new
        if change < tol * K:
            break


@njit(**_KERNEL)
def pseudo_counts(indptr, indices, counts, words, scale, prior, inverse, alpha, max_iter, tol, out):
    """Pseudo-counts (n, K) of the documents' topics."""
    K = words.shape[1]
    padded = _n_blocks(K) * _BLOCK
    phi = np.empty((_longest(indptr), padded), dtype=np.float32)
    scratch = np.empty((2, padded), dtype=np.float32)
    scratch[:] = np.float32(0.0)
    t, gain = scratch[0], scratch[1]
    for d in range(len(out)):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        _fill(words, scale, prior, inverse, indices[a:b], phi)
        mass = out[d]
        _start_widely(own, alpha, mass)
        _fixed_point(phi, own, alpha, max_iter, tol, False, mass, t, gain, mass)


@njit(**_KERNEL)
def elbos(indptr, indices, counts, words, scale, prior, inverse, alpha, max_iter, tol, out):
    """ELBOs (n,) of the documents' words, the larger of two starts."""
    K = words.shape[1]
    padded = _n_blocks(K) * _BLOCK
    phi = np.empty((_longest(indptr), padded), dtype=np.float32)
    scratch, wide = np.empty((2, padded), dtype=np.float32), np.empty((2, K))
    scratch[:] = np.float32(0.0)
    t, gain, mass, log_t = scratch[0], scratch[1], wide[0], wide[1]
    for d in range(len(out)):
        a, b = indptr[d], indptr[d + 1]
        own = counts[a:b]
        _fill(words, scale, prior, inverse, indices[a:b], phi)
        for is_second in range(2):
            if is_second:
                _start_in_turn(phi, own, alpha, mass)
            else:
                _start_widely(own, alpha, mass)
            _fixed_point(phi, own, alpha, max_iter, tol, True, mass, t, gain, log_t)
            _log_weights(mass, log_t)
            bound = _elbo(phi, own, log_t, alpha)
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
def _elbo(phi, counts, log_t, alpha):
    """ELBO of one document at responsibilities proportional to phi t, in double precision."""
    K = len(alpha)
    own = np.empty((2, K))
    t, mass, value = own[0], own[1], 0.0
    for k in range(K):
        t[k], mass[k] = math.exp(log_t[k]), 0.0
    for j in range(len(counts)):
        s = 0.0
        for k in range(K):
            s += phi[j, k] * t[k]
        count = float(counts[j])
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
def mix(indptr, indices, words, scale, prior, inverse, proportions, out):
    K = words.shape[1]
    phi = np.empty(_n_blocks(K) * _BLOCK, dtype=np.float32)
    for d in range(len(proportions)):
        for j in range(indptr[d], indptr[d + 1]):
            _word_probabilities(words, scale, prior, inverse, indices[j], phi)
            p = 0.0
            for k in range(K):
                p += proportions[d, k] * phi[k]
            out[j] = p
