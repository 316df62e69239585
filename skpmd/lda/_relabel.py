"""Which topic of one particle is which topic of another."""

import numpy as np
from scipy.optimize import linear_sum_assignment

_NUMBERS = 1 << 22  # square roots of probabilities at once
_CANDIDATES = 8  # particles that may be the one that others are aligned to
_APART = 1e6  # what it costs to take topics of different priors for one


def orders(model, counts, log_weights):
    """Order of each particle's topics that brings them next to those of the other particles.

    The others are aligned to the best-connected particle. Of all assignments theirs has the largest
    affinity, sum_k sqrt(s_k s'_k) sum_w sqrt(phi_kw phi'_kw), with s the topics' shares of all
    words: the sum of the squared Hellinger distances between weighted topics is then least. Topics
    are numbered as in the first particle, so that they keep their places in a stream (but where
    mirror weights resample, another may become the first). Topics of different priors, of words or
    of documents' shares, are never taken for one another.

    Parameters
    ----------
    model : Topics
        Priors.
    counts : Counts
        Of the particles.
    log_weights : ndarray of shape (m,)
        Of the particles.

    Returns
    -------
    ndarray of shape (m, K), int
        Topic k is topic ``order[i, k]`` of particle i; the first row is 0, 1, ..., K - 1.
    """
    m, K = model.m, model.K
    if m == 1 or K == 1:
        return np.tile(np.arange(K), (m, 1))
    candidates = np.unique(np.linspace(0, m - 1, min(m, _CANDIDATES)).astype(int))
    affinity = _affinities(model, counts, candidates)
    for prior in (model.eta, model.alpha[:1]):  # particles' alpha differ by a factor, if at all
        _, kind = np.unique(prior, axis=1, return_inverse=True)
        kind = kind.ravel()
        affinity -= _APART * (kind[:, None] != kind)
    found = [[linear_sum_assignment(pair, maximize=True)[1] for pair in one] for one in affinity]
    gain = np.take_along_axis(affinity, np.array(found)[..., None], axis=3).sum(axis=(2, 3))
    order = np.array(found[int(np.argmax(gain @ np.exp(log_weights)))])
    return order[:, np.argsort(order[0])]


def _affinities(model, counts, candidates):
    """Of the candidates' topics with those of all particles; shape (candidates, m, K, K)."""
    m, K, V = model.m, model.K, model.V
    sizes = counts.totals + model.eta_scale[:, None] * model.eta_total
    # For sqrt(share of k x phi of w), whose squares sum to 1.
    root = (1.0 / np.sqrt(sizes.sum(axis=1))).astype(np.float32)[:, None, None]
    scale, factor = np.float32(counts.scale), model.eta_scale[:, None, None]
    affinity = np.zeros((len(candidates) * K, m * K))
    step = max(1, _NUMBERS // (m * K))
    for start in range(0, V, step):
        rows = slice(start, start + step)
        prior = model.eta if len(model.eta) == 1 else model.eta[rows]
        words = np.sqrt(scale * counts.words[:, rows] + (factor * prior).astype(np.float32)) * root
        chosen, every = (np.moveaxis(part, 1, 0) for part in (words[candidates], words))
        affinity += chosen.reshape(len(chosen), -1).T @ every.reshape(len(every), -1)
    return affinity.reshape(len(candidates), K, m, K).swapaxes(1, 2)
