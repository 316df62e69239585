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
    order, gain = _assigned(topics, _affinities(topics, counts, candidates))
    labels = order[int(np.argmax(gain @ np.exp(log_weights)))]
    return labels[:, np.argsort(labels[0])]


def matches(topics, counts, others):
    """Orders of the topics of other particles, next to those of each of these particles.

    ``counts`` and ``others`` are `Counts` of particles under the priors of ``topics``. Topic k of
    particle i is topic ``order[i, j, k]`` of the other particle j. The orders have the shape
    (m, m, K), int; with them come the affinities (m, m), 1 where both are the same.
    """
    m = topics.m
    twice = [np.concatenate([prior, prior]) for prior in (topics.alpha, topics.eta_scale)]
    pairs = [np.concatenate(pair) for pair in zip(counts[:-1], others[:-1], strict=True)]
    both = counts._replace(words=pairs[0], totals=pairs[1], documents=pairs[2])
    affinity = _affinities(topics.with_priors(*twice), both, np.arange(m))
    return _assigned(topics, affinity[:, m:])


def _assigned(topics, affinity):
    """Best assignments of topics by affinities (c, m, K, K), and their sums (c, m)."""
    for prior in (topics.eta, topics.alpha[:1]):  # alpha of particles differ by a factor at most
        _, kind = np.unique(prior, axis=1, return_inverse=True)
        kind = kind.ravel()
        affinity = affinity - _DIFFERENT * (kind[:, None] != kind)
    order = np.array(
        [[linear_sum_assignment(pair, maximize=True)[1] for pair in one] for one in affinity]
    )
    return order, np.take_along_axis(affinity, order[..., None], axis=3).sum(axis=(2, 3))


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
