"""Relabelling of topics: which topic of one particle is which topic of another."""

import numpy as np
from scipy.optimize import linear_sum_assignment

_PIECE = 1 << 22  # square roots of probabilities that are computed at once
_MAX_CANDIDATES = 8  # particles among which the reference of the relabelling is sought
_DIFFERENT = 1e6  # loss of affinity that keeps topics of different priors apart


def relabelling(topics, counts, log_weights):
    """Permutation of each particle's topics that matches them to those of the other particles.

    The others are matched to the best-connected particle, by the assignment of largest affinity
    sum_k sqrt(s_k s'_k) sum_w sqrt(phi_kw phi'_kw), with s the topics' proportions of all words:
    the sum of the squared Hellinger distances between weighted topics is then least. Topics are
    numbered as in the first particle, so that they keep their numbers in a stream, unless
    resampling makes another particle the first. Topics whose priors differ, of words or of topic
    proportions, are never matched.

    Of the outcome ``labels``, an int array of shape (m, K), topic k is topic ``labels[i, k]`` of
    particle i; the first row is 0, 1, ..., K - 1.
    """
    m, K = topics.m, topics.K
    if m == 1 or K == 1:
        return np.tile(np.arange(K), (m, 1))
    candidates = np.unique(np.linspace(0, m - 1, min(m, _MAX_CANDIDATES)).astype(int))
    affinity = _affinities(topics, counts, candidates)
    for prior in (topics.eta, topics.alpha[:1]):  # alpha of particles differ by a factor at most
        _, kind = np.unique(prior, axis=1, return_inverse=True)
        kind = kind.ravel()
        affinity -= _DIFFERENT * (kind[:, None] != kind)
    matches = np.array(
        [[linear_sum_assignment(pair, maximize=True)[1] for pair in one] for one in affinity]
    )
    gain = np.take_along_axis(affinity, matches[..., None], axis=3).sum(axis=(2, 3))
    labels = matches[int(np.argmax(gain @ np.exp(log_weights)))]
    return labels[:, np.argsort(labels[0])]


def _affinities(topics, counts, candidates):
    """Affinities of the candidates' topics with all particles'; shape (candidates, m, K, K)."""
    m, K, V = topics.m, topics.K, topics.V
    sizes = counts.totals + topics.eta_scale[:, None] * topics.eta_total
    # For the square root of proportion times phi, whose squares sum to 1.
    root = (1.0 / np.sqrt(sizes.sum(axis=1))).astype(np.float32)[:, None, None]
    scale, factor = np.float32(counts.scale), topics.eta_scale[:, None, None]
    affinity = np.zeros((len(candidates) * K, m * K))
    step = max(1, _PIECE // (m * K))
    for start in range(0, V, step):
        rows = slice(start, start + step)
        prior = topics.eta if len(topics.eta) == 1 else topics.eta[rows]
        words = np.sqrt(scale * counts.words[:, rows] + (factor * prior).astype(np.float32)) * root
        chosen, every = (np.moveaxis(part, 1, 0) for part in (words[candidates], words))
        affinity += chosen.reshape(len(chosen), -1).T @ every.reshape(len(every), -1)
    return affinity.reshape(len(candidates), K, m, K).swapaxes(1, 2)
