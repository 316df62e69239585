"""Results of a topic model: its posterior, the record of steps, the evidence, priors and words."""

import numpy as np

from skpmd._base.utils import check_count
from skpmd._export import library
from skpmd.lda._posterior import TopicPosterior, names_of

_MAX_LEFT = 0.003  # part of a stream's counts that may be that of its start


def topic_posterior(topics, counts, labels, log_weights, weighting, feature_names=None, draws=None):
    """The `TopicPosterior` of particles with counts and weights, with arrays of its own.

    ``labels``, of shape (m, K), come from `skpmd.lda._relabel.relabelling`, ``feature_names`` are
    the words where they are known, and ``draws`` counts of several draws of each particle, or None.
    """
    m, K, V = topics.m, topics.K, topics.V
    concentration, priors = np.empty((m, K, V), dtype=np.float32), []
    n_draws = 0 if draws is None else len(draws.words) // m
    several = np.empty((m, n_draws, K, V), dtype=np.float32)
    for i in range(m):
        eta = (topics.eta_scale[i] * topics.eta).astype(np.float32)
        priors.append(eta.T[labels[i]])
        words = counts.words[i] * np.float32(counts.scale)
        words += eta
        concentration[i] = words.T[labels[i]]
        for r in range(n_draws):
            several[i, r] = (draws.words[i * n_draws + r] + eta).T[labels[i]]
    alpha = np.take_along_axis(topics.alpha, labels, axis=1)
    several = several if n_draws else None
    given = concentration, np.array(priors), alpha, log_weights, weighting
    return TopicPosterior(*given, feature_names, several)


def history(records):
    """Record of the steps, a dict of ndarray."""
    gamma, n, score = np.array(records.last, dtype=np.float64).reshape(-1, 3).T
    n = n.astype(int)
    return {
        "step": records.numbers(), "step_size": gamma, "n_documents": n, "log_density": score
    }  # fmt: skip


def start_left(records):
    """What speaks against a stream of so few documents that its topics are still near their guess.

    With steps of sizes g the part (1 - g_1) (1 - g_2) ... of the counts is that of the start. In
    simulated streams 90 % intervals held .50, .56 and .66 where it was .06, .016 and .003.
    """
    if not records.n or records.n > len(records.last):
        return []
    left = float(np.prod(1.0 - history(records)["step_size"]))
    if left <= _MAX_LEFT:
        return []
    return [
        f"the documents were few for the size of the steps, so that {left:.1%} of the topics' "
        "counts are still those of the guess they started from, and intervals are too narrow (give "
        "more documents, or set batch_size to a smaller number, as 16)"
    ]


def doc_topic_prior(topics, weights, labels):
    """Dirichlet parameters of topic proportions, averaged over relabelled particles; (K,)."""
    return weights @ np.take_along_axis(topics.alpha, labels, axis=1)


def topic_word_prior(topics, weights):
    """Dirichlet parameters of the topics' words, averaged over particles: a float or (K, V)."""
    eta = float(weights @ topics.eta_scale) * topics.eta.T
    return float(eta[0, 0]) if topics.eta.size == topics.K and np.ptp(eta) == 0.0 else eta


def log_evidence(block, learn_priors):
    """Log probability of all fitted words with one topic; AttributeError if it is not known."""
    if block.topics.K > 1:
        raise _missing("log_evidence_", "with several topics only bounds are known")
    _check_exact("log_evidence_", block, learn_priors)
    # A single topic has all words: the documents' own terms are 0.
    counts = block.counts._replace(documents=np.zeros(block.topics.m))
    return float(block.topics.elbo(counts)[0])


def lower_bound(block, weighting, learn_priors):
    """Lower bound of the log evidence (best particle); AttributeError if it is not known."""
    if weighting != "posterior":
        raise _missing("lower_bound_", "its terms are computed with weighting='posterior'")
    _check_exact("lower_bound_", block, learn_priors)
    return float(block.topics.elbo(block.counts).max())


def _check_exact(name, block, learn_priors):
    if learn_priors:
        raise _missing(name, "the priors are learnt, set learn_priors=False")
    if not block.exact:
        reason = "counts are not those of all documents, each once: set max_full_iter=1"
        raise _missing(name, reason)


def _missing(name, reason):
    return AttributeError(f"{name} is not available: {reason}.")


def table_of_words(posterior, n, names, level):
    """Data frame of the n most probable words of each topic; numbers if ``names`` is None."""
    pandas = library("pandas", "arviz")
    check_count("n", n)
    names = names_of("feature_names", names, posterior.concentration.shape[2], "words")
    words, values = posterior.top_words(n, level)
    return pandas.DataFrame(_columns("word", names[words], "probability", values))


def table_of_documents(proportions, interval_of, n, names):
    """Data frame of the n documents with the largest proportion of each topic.

    ``proportions`` has the shape (documents, K), and ``interval_of(rows)`` returns the ends of the
    intervals for some documents, of shape (len(rows), K, 2).
    """
    pandas = library("pandas", "arviz")
    check_count("n", n)
    names = names_of("document_names", names, len(proportions), "documents")
    rows = np.argsort(-proportions.T, axis=1, kind="stable")[:, :n]
    distinct, places = np.unique(rows, return_inverse=True)
    topics = np.arange(len(rows))[:, None]
    values = np.empty((*rows.shape, 3))
    values[..., 0] = proportions[rows, topics]
    values[..., 1:] = interval_of(distinct)[places.reshape(rows.shape), topics]
    return pandas.DataFrame(_columns("document", names[rows], "proportion", values))


def _columns(kind, names, value, values):
    """Columns of a table: ``names`` of the leading things of each topic, and ``values``.

    They have the shapes (K, n) and (K, n, 3), with the ends of an interval after the value.
    """
    K, n = names.shape
    columns = {
        "topic": np.repeat(np.arange(K), n),
        "rank": np.tile(np.arange(1, n + 1), K),
        kind: names.ravel(),
    }
    ends = zip((value, "lower", "upper"), np.moveaxis(values, -1, 0), strict=True)
    return columns | {name: one.ravel() for name, one in ends}
