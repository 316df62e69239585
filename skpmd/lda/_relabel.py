"""Relabelling of topics: which topic of one particle is which topic of another."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from skpmd.engine.particles import equal_log_weights

_PIECE = 1 << 22  # square roots of probabilities that are computed at once
_TERMS = 1 << 24  # terms of the likelihoods of words under the priors of all topics, at most
_MAX_CANDIDATES = 8  # particles among which the reference of the relabelling is sought
_DIFFERENT = 1e6  # loss of affinity that keeps topics of different priors apart
# Topics change places where others suit the priors better by so many nats: not by chance alone.
_CLEAR = 3.0
# Particles disagree on a topic where theirs differ in this part of all probability (total
# variation), by so many standard deviations of the words of one of them.
_APART, _BEYOND = 0.25, 2.0
_MAX_NAMED = 5
_NEGLIGIBLE = 0.1  # weight of a particle that counts in this, as part of an equal one


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
    return _matched(topics, counts, log_weights, _kinds(topics))


def arrangement(topics, counts, n_documents):
    """Orders of the particles' topics that suit the topics' priors, or None if they do already.

    Where the priors of topics differ, each particle would have to find the topic of each prior, and
    steps that move single words seldom exchange two topics that are at the wrong places: particles
    would not agree, and their average would be none of theirs. So topics of all particles are
    matched by their words alone, and put to the places at which all these particles together have
    the largest posterior, given the words in each topic. This is exact for the priors of words;
    for those of documents it takes the ``n_documents`` to have one topic each.

    The orders have the shape (m, K), int: topic k is to be what is now ``orders[i, k]``.
    """
    m, K = topics.m, topics.K
    if _kinds(topics).max() == 0 or not counts.totals.any(axis=1).all():
        return None
    labels = _matched(topics, counts, equal_log_weights(m), np.zeros(K, dtype=int))
    suits = np.zeros((K, K))
    for i, own in enumerate(labels):
        suits += _log_likelihoods(topics, counts, n_documents, i)[:, own] / m
    _, best = linear_sum_assignment(suits, maximize=True)
    if suits[np.arange(K), best].sum() - np.trace(suits) > _CLEAR:
        labels = labels[:, best]
    return None if (labels == np.arange(K)).all() else labels


def _log_likelihoods(topics, counts, n_documents, i):
    """Of the words in each topic of particle i (columns) under the prior of each topic (rows).

    Left out is what does not depend on the place.
    """
    scale, totals = topics.eta_scale[i], counts.totals[i]
    share = n_documents * totals / totals.sum()
    found = np.log(topics.alpha[i])[:, None] * share
    words = np.flatnonzero(np.ptp(topics.eta, axis=1) > 0.0)
    most = max(1, _TERMS // (topics.m * topics.K**2))
    if len(words) > most:
        frequent = np.argsort(-counts.words[i, words].sum(axis=1), kind="stable")
        words = np.sort(words[frequent[:most]])
    own = counts.scale * counts.words[i, words].astype(np.float64)
    for k in range(topics.K):
        prior, size = scale * topics.eta[words, k, None], scale * topics.eta_total[k]
        found[k] += (gammaln(prior + own) - gammaln(prior)).sum(axis=0)
        found[k] -= gammaln(size + totals) - gammaln(size)
    return found


def disagreement(topics, counts, labels, log_weights):
    """What speaks against averages over particles, in a list: topics that are not the same ones.

    A topic of a particle is compared with its average over the others that have weight.
    """
    weights = np.exp(log_weights)
    some = np.flatnonzero(weights > _NEGLIGIBLE / topics.m)
    if len(some) == 1 or topics.K == 1 or not counts.totals.any():
        return []
    mean = np.zeros((topics.V, topics.K))
    for i in some:
        mean += (
            weights[i] / weights[some].sum() * topics.word_probabilities(counts, i)[:, labels[i]]
        )
    differ = np.zeros(topics.K, dtype=bool)
    for i in some:
        own = topics.word_probabilities(counts, i)[:, labels[i]].astype(np.float64)
        size = (counts.totals[i] + topics.eta_scale[i] * topics.eta_total)[labels[i]]
        apart, variance = own - mean, (own * (1.0 - own)).sum(axis=0) / (size + 1.0)
        far = (apart**2).sum(axis=0) > _BEYOND**2 * variance
        differ |= far & (np.abs(apart).sum(axis=0) > 2.0 * _APART)
    if not differ.any():
        return []
    numbers = np.flatnonzero(differ)
    named = ", ".join(str(k) for k in numbers[:_MAX_NAMED])
    named += ", ..." if len(numbers) > _MAX_NAMED else ""
    return [
        f"the particles have found different topics in {len(numbers)} of {topics.K} ({named}), "
        "whose averages are no topics of their own (lower n_components, give more documents, or "
        "look at those of each particle in posterior_.topic_word)"
    ]


def matches(topics, counts, others):
    """Orders of the topics of other particles, next to those of each of these particles.

    ``counts`` and ``others`` are `Counts` of particles under the priors of ``topics``. Topic k of
    particle i is topic ``order[i, j, k]`` of the other particle j, by their words alone. The orders
    have the shape (m, m, K), int; with them come the affinities (m, m), 1 where both are the same.
    """
    m = topics.m
    twice = [np.concatenate([prior, prior]) for prior in (topics.alpha, topics.eta_scale)]
    pairs = [np.concatenate(pair) for pair in zip(counts[:-1], others[:-1], strict=True)]
    both = counts._replace(words=pairs[0], totals=pairs[1], documents=pairs[2])
    affinity = _affinities(topics.with_priors(*twice), both, np.arange(m))
    return _assigned(affinity[:, m:], np.zeros(topics.K, dtype=int))


def _matched(topics, counts, log_weights, kinds):
    """The labels of `relabelling`, for two topics or more."""
    m = topics.m
    candidates = np.unique(np.linspace(0, m - 1, min(m, _MAX_CANDIDATES)).astype(int))
    order, gain = _assigned(_affinities(topics, counts, candidates), kinds)
    labels = order[int(np.argmax(gain @ np.exp(log_weights)))]
    return labels[:, np.argsort(labels[0])]


def _kinds(topics):
    """Numbers (K,) of the topics' kinds, equal where all priors are."""
    # Parameters of documents of two particles differ by a factor at most.
    priors = np.concatenate([topics.eta, topics.alpha[:1]])
    return np.unique(priors, axis=1, return_inverse=True)[1].ravel()


def _assigned(affinity, kinds):
    """Best assignments of topics of a kind by affinities (c, m, K, K), and their sums (c, m)."""
    affinity = affinity - _DIFFERENT * (kinds[:, None] != kinds)
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
