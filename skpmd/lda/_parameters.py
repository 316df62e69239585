"""Parameters of a topic model, and what they mean for its documents: priors, batches and steps."""

from collections import namedtuple

import numpy as np

from skpmd._base.utils import as_floats
from skpmd._rows.table import group_size
from skpmd.engine.schedules import Schedule
from skpmd.lda._documents import tokens_of
from skpmd.lda._topics import LocalUpdate, Topics

# From this mean number of words in a document on, sampled assignments predict worse than
# collapsed ones.
_LONG = 200.0
_N_LOCAL_ITER = {"sampled": 3, "collapsed": 10, "soft": 20}
_N_BURN = 1  # Gibbs sweeps whose conditional probabilities are not counted
# Dirichlet parameters lie between these: single precision holds them and their inverses.
_PRIORS = 1e-30, 1e15
# Documents in a batch, and in a batch of a small corpus, which has fewer documents than the last.
_BATCH, _SMALL_BATCH, _SMALL_CORPUS = 64, 32, 5000


LDAParameters = namedtuple(
    "LDAParameters",
    "n_components doc_topic_prior topic_word_prior learn_priors n_particles assignment n_local_iter"
    " step_size step_offset step_decay batch_size max_iter max_full_iter total_samples weighting"
    " shuffle max_doc_update_iter mean_change_tol evaluate_every perp_tol"
    " early_stopping validation_fraction n_iter_no_change tol",
)
LDAParameters.__doc__ = "Parameters of a call; `LDATopicModelPMD` documents each."


def topics_of(parameters, n_words):
    """Topic models of all particles under the priors given, for a number of words."""
    K, m = parameters.n_components, parameters.n_particles
    alpha = doc_topic_prior(parameters.doc_topic_prior, K)
    eta = topic_word_prior(parameters.topic_word_prior, K, n_words)
    return Topics(np.tile(alpha, (m, 1)), eta, np.ones(m), n_words)


def doc_topic_prior(values, K):
    """Dirichlet parameters of the documents' topic proportions, shape (K,)."""
    if values is None:
        return np.full(K, 1.0 / K)
    alpha = as_floats("doc_topic_prior", values)
    if alpha.shape not in ((), (K,)):
        raise ValueError(
            f"doc_topic_prior has the shape {alpha.shape}: give a number, or one for each of the "
            f"{K} topics (n_components)."
        )
    _check_positive("doc_topic_prior", alpha)
    return np.array(np.broadcast_to(alpha, (K,)))


def topic_word_prior(values, K, n_words):
    """Dirichlet parameters of the topics' words, shape (1, K), or (V, K) where words differ."""
    if values is None:
        return np.full((1, K), 1.0 / K)
    eta = as_floats("topic_word_prior", values)
    if eta.shape not in ((), (n_words,), (K, n_words)):
        raise ValueError(
            f"topic_word_prior has the shape {eta.shape}: give a number, one for each of the "
            f"{n_words} words, or an array of shape (n_components, n_features) = ({K}, {n_words})."
        )
    _check_positive("topic_word_prior", eta)
    if eta.ndim == 0:
        return np.full((1, K), float(eta))
    rows = eta[:, None] if eta.ndim == 1 else eta.T
    return np.array(np.broadcast_to(rows, (n_words, K)), order="C")


def _check_positive(name, values):
    low, high = _PRIORS
    if not ((values >= low).all() and (values <= high).all()):
        raise ValueError(
            f"{name} must be positive and finite, from {low:g} to {high:g}; its least value is "
            f"{np.min(values)}, its largest {np.max(values)}."
        )


def local_update_of(parameters, X, weight=None):
    """Settings of the local update; ``assignment="auto"`` looks at the mean length of X.

    It looks at the first documents where they are not in memory together.
    """
    assignment = parameters.assignment
    if assignment == "auto":
        if X.shape[0] > (first := group_size(X)):
            X, weight = X[:first], None if weight is None else weight[:first]
        some = np.diff(X.indptr) > 0
        n = np.count_nonzero(some) if weight is None else weight[some].sum()
        mean_length = tokens_of(X, weight) / (n or 1.0)
        assignment = "sampled" if mean_length < _LONG else "collapsed"
    n_local_iter = parameters.n_local_iter
    if n_local_iter == "auto":
        n_local_iter = _N_LOCAL_ITER[assignment]
    return LocalUpdate(assignment, n_local_iter, min(_N_BURN, n_local_iter - 1))


def batch_size_of(parameters, total):
    """Documents of a batch; ``total`` of them in all, or None in an endless stream."""
    size = parameters.batch_size
    if size == "auto":
        size = _SMALL_BATCH if total is not None and total < _SMALL_CORPUS else _BATCH
    return size if total is None else int(max(1, min(size, total)))


def schedule_of(parameters):
    """Rule of the step sizes."""
    eta, offset, decay = parameters.step_size, parameters.step_offset, parameters.step_decay
    return Schedule("power", eta, offset, decay)
