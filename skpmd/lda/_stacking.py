"""Weights of topic models by how well they predict documents before they learn them.

Few of the documents are scored, for scoring costs as much as learning. See `skpmd._base.stacking`.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skpmd._base.stacking import updated
from skpmd.lda._inference import log_bounds

_EVERY = 10  # documents, of which one is scored
_ITERATIONS = 20
_PRIOR = 50.0  # documents that speak for the weights as they were


class Scores(NamedTuple):
    """Weights so far.

    Attributes
    ----------
    log_weights : ndarray of shape (m,)
        Of the particles, sum of exp 1.
    n : float
        Documents that they come from.
    """

    log_weights: np.ndarray
    n: float = _PRIOR

    def renewed(self):
        """The same weights, as if of few documents: particles of an earlier pass were others."""
        return self._replace(n=_PRIOR)


def scored(scores, model, counts, documents, first, workers):
    """Weights after documents that have not been learnt, or long ago.

    Parameters
    ----------
    scores : Scores
        Before.
    model : Topics
        Priors.
    counts : Counts
        Of the particles.
    documents : Documents
        A batch.
    first : int
        Number of the first: those whose number is a multiple of ten are scored.
    workers : Workers
        Threads.

    Returns
    -------
    Scores
        After.
    float
        Mean log density of a word of these documents, nan without words.
    """
    indptr, indices, data = documents
    X = sp.csr_matrix((data, indices, indptr), shape=(documents.n, model.V))
    X = X[(-first) % _EVERY :: _EVERY]
    tokens = float(X.data.sum(dtype=np.float64))
    if not tokens:
        return scores, np.nan
    log_density = np.array(
        workers.map(lambda i: log_bounds(model, counts, i, X, _ITERATIONS), range(model.m))
    )
    weight = np.ones(X.shape[0])
    mixed = np.logaddexp.reduce(scores.log_weights[:, None] + log_density, axis=0)
    log_weights = updated(scores.log_weights, log_density, weight, scores.n)
    return Scores(log_weights, scores.n + X.shape[0]), float(mixed.sum() / tokens)
