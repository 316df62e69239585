"""Stochastic gradient Riemannian Langevin dynamics for topic models (Patterson and Teh 2013).

In the expanded-mean coordinates, topic k has phi_kw = theta_kw / sum_v theta_kv with
theta_kw ~ Gamma(eta, 1), and the metric is diagonal with entries 1 / theta. A step on B of N
documents is

    theta <- |theta + e/2 (eta - theta + N/B sum_d E[n_dkw - phi_kw n_dk]) + sqrt(e theta) noise|,

e_t = step (1 + t / offset)^(-decay), where n_dkw counts the tokens of word w that document d gives
to topic k. The expectations are means along a collapsed Gibbs chain of the document given phi, the
topic proportions integrated out. Small steps sample the posterior; a step leaves a bias of the
order of e and of the batch's noise.

References
----------
Patterson, S. and Teh, Y. W. (2013). Stochastic gradient Riemannian Langevin dynamics on the
probability simplex. Advances in Neural Information Processing Systems 26.
"""

import numpy as np
from numba import njit

from ..harness.timing import cpu_clock
from .tokens import Topics, drawn, listed

N_BURN, N_KEPT = 10, 10  # sweeps of a document's chain
_MIN = np.float32(1e-30)


def sgrld(X, K, setting, seed, points):
    """Yield topics each time that a number of documents from ``points`` has been visited.

    ``setting`` has ``alpha``, ``eta``, ``batch_size``, ``step``, ``offset``, ``decay``. Each pass
    takes the documents in a new order. ``Topics.step`` is the number of documents.
    """
    rng = np.random.default_rng(seed)
    tokens, starts = listed(X, rng)
    alpha = np.full(K, setting["alpha"], dtype=np.float32)
    theta = rng.standard_gamma(1.0, (X.shape[1], K), dtype=np.float32)
    advance(theta.copy(), alpha, tokens, starts, np.arange(1), setting, 0, rng)  # compiles
    cpu, visited, batches = 0.0, 0, _batches(X.shape[0], setting["batch_size"], rng)
    for point in points:
        with cpu_clock() as clock:
            while visited < point:
                t, chosen = next(batches)
                advance(theta, alpha, tokens, starts, chosen, setting, t, rng)
                visited += len(chosen)
        cpu += clock.cpu
        yield Topics(visited, cpu, probabilities(theta), alpha)


def _batches(n, size, rng):
    """Numbers of steps, and documents of each, without end."""
    t = 0
    while True:
        order = rng.permutation(n)
        for a in range(0, n, size):
            yield t, order[a : a + size]
            t += 1


def probabilities(theta):
    """Word probabilities (topics, words)."""
    words = theta.T.astype(np.float64)
    return words / words.sum(axis=1, keepdims=True)


def advance(theta, alpha, tokens, starts, chosen, setting, t, rng):
    """Step t, in place, on the chosen documents."""
    size = setting["step"] * (1.0 + t / setting["offset"]) ** -setting["decay"]
    counts = np.zeros_like(theta)
    inverse = (1.0 / theta.sum(axis=0, dtype=np.float64)).astype(np.float32)
    count(theta, inverse, alpha, tokens, starts, chosen, N_BURN, N_KEPT, counts, rng)
    counts *= np.float32((len(starts) - 1) / len(chosen))
    noise = rng.standard_normal(theta.shape, dtype=np.float32)
    totals = counts.sum(axis=0, dtype=np.float64).astype(np.float32) * inverse
    move(theta, counts, totals, np.float32(setting["eta"]), np.float32(size), noise)


@njit(cache=True)
def count(theta, inverse, alpha, tokens, starts, chosen, n_burn, n_kept, counts, rng):
    """Add how often each word is given to each topic, a mean over the chain, to counts (V, K)."""
    weights, own = np.empty_like(alpha), np.empty_like(alpha)
    one, part = np.float32(1.0), np.float32(1.0 / n_kept)
    for d in chosen:
        words = tokens[starts[d] : starts[d + 1]]
        labels = np.full(len(words), -1)
        own[:] = alpha
        for sweep in range(n_burn + n_kept):
            for i in range(len(words)):
                if labels[i] >= 0:
                    own[labels[i]] -= one
                total = _weigh(own, theta[words[i]], inverse, weights)
                labels[i] = drawn(weights, rng.random() * total)
                own[labels[i]] += one
                if sweep >= n_burn:
                    counts[words[i], labels[i]] += part


@njit(cache=True, fastmath=True)
def _weigh(own, theta, inverse, out):
    """Weights of a token's topics, and their sum."""
    for k in range(len(out)):
        out[k] = own[k] * theta[k] * inverse[k]
    total = np.float32(0.0)
    for k in range(len(out)):  # apart, so that its order does not hang on where the arrays lie
        total += out[k]
    return total


@njit(cache=True)
def move(theta, counts, totals, eta, size, noise):
    """The Langevin step given counts of all documents; totals are divided by theta's sums."""
    half = np.float32(0.5) * size
    for w in range(len(theta)):
        for k in range(theta.shape[1]):
            now = theta[w, k]
            drift = eta - now + counts[w, k] - now * totals[k]
            moved = abs(now + half * drift + np.sqrt(size * now) * noise[w, k])
            theta[w, k] = max(moved, _MIN)
