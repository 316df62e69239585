"""New documents under one particle: topic proportions, ELBOs and probabilities of words.

A document's result does not depend on the others of the call. ``documents`` are
`skpmd.lda._documents.Documents` as kernels take them. The topics' probabilities phi of their words
are made on the fly from their counts, as in `skpmd.lda._kernels`. Iterations are in single
precision, final sums in double precision.
"""

import numpy as np

from skpmd.lda._kernels import (
    SHORT,
    assigned_words,
    elbos,
    mix,
    numbers_of_tokens,
    pseudo_counts,
)

# Tokens of a document that its chains visit, and the least and the most of their sweeps, over all
# particles: for means, which average conditional probabilities of many tokens where there are many,
# and for moments.
_SWEEPS, _SWEEPS_OF_MOMENTS = (1024, 16, 64), (8192, 64, 256)


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
        pseudo_counts(*_arguments(topics, counts, i, documents), max_iter, tol, mass)
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
    elbos(*_arguments(topics, counts, i, documents), max_iter, tol, out)
    return out


def word_probabilities(topics, counts, i, documents, proportions):
    """Probabilities of the documents' distinct words given proportions (n, K) of their topics.

    Returns one float64 for each stored count; other parameters are those of `topic_mass`.
    """
    out = np.empty(len(documents.indices))
    mix(*documents[:2], *topics.kernel_arguments(counts, i), proportions, out)
    return out


def _arguments(topics, counts, i, documents, n_draws=None):
    """First arguments of a kernel: documents, what E[phi] of a particle is made of, and alpha."""
    return *documents, *topics.kernel_arguments(counts, i, n_draws), topics.alpha[i]
