"""What a topic model's parameters mean for its documents: priors, batches, sweeps and steps."""

import numpy as np

from skpmd.engine.schedules import StepSchedule
from skpmd.lda._model import Sweeps, Topics

_LONG = 200.0  # words of a mean document from which sampled assignments are behind collapsed ones
_N_SWEEPS = {"sampled": 3, "collapsed": 10, "soft": 20}
_BURN = 1  # of a chain
_BATCH, _SMALL_BATCH, _FEW_DOCUMENTS = 64, 32, 5000


def model_of(estimator, n_words):
    """Priors of an estimator, for a number of words."""
    K, m = estimator.n_components, estimator.n_particles
    alpha = doc_topic_prior(estimator.doc_topic_prior, K)
    eta = topic_word_prior(estimator.topic_word_prior, K, n_words)
    return Topics(np.tile(alpha, (m, 1)), eta, np.ones(m), n_words)


def doc_topic_prior(values, K):
    """Dirichlet parameters of documents' shares, shape (K,)."""
    if values is None:
        return np.full(K, 1.0 / K)
    alpha = np.asarray(values, dtype=np.float64)
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
    eta = np.asarray(values, dtype=np.float64)
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
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise ValueError(
            f"{name} must be positive and finite; its least value is {np.min(values)}, its largest "
            f"{np.max(values)}."
        )


def sweeps_of(estimator, X):
    """How words are shared out; ``assignment="auto"`` looks at the mean length of documents X."""
    assignment = estimator.assignment
    if assignment == "auto":
        n = np.count_nonzero(np.diff(X.indptr))
        mean_length = float(X.data.sum(dtype=np.float64)) / max(n, 1)
        assignment = "sampled" if mean_length < _LONG else "collapsed"
    n_local_iter = estimator.n_local_iter
    if n_local_iter == "auto":
        n_local_iter = _N_SWEEPS[assignment]
    return Sweeps(assignment, n_local_iter, min(_BURN, n_local_iter - 1))


def batch_rows(estimator, total):
    """Documents of a batch; ``total`` of them in all, or None in an endless stream."""
    size = estimator.batch_size
    if size == "auto":
        size = _SMALL_BATCH if total is not None and total < _FEW_DOCUMENTS else _BATCH
    return size if total is None else int(max(1, min(size, total)))


def schedule_of(estimator):
    """Rule of the step sizes."""
    return StepSchedule("power", estimator.step_size, estimator.step_offset, estimator.step_decay)
