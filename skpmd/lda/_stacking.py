"""Weights of topic models by how well they predict documents before they are fitted to them.

Only some documents are scored, for that costs as much as a step. See `skpmd.engine.particles`.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skpmd._runtime.threads import each
from skpmd.engine.particles import stacking_step
from skpmd.lda._documents import Documents, tokens_of
from skpmd.lda._inference import document_elbos
from skpmd.lda._topics import MIN_DOCUMENTS

_EVERY = 10  # one of so many documents is scored
_MAX_ITER = 20
_PRIOR = 50.0  # documents that the weights so far count as, at the start of a pass


class Scores(NamedTuple):
    """Stacking weights so far."""

    log_weights: np.ndarray  # (m,): Log weights of the particles; the weights sum to 1.
    n: float = _PRIOR  # Documents that they come from.

    def renewed(self):
        """The same weights as if of few documents: the particles of an earlier pass were others."""
        return self._replace(n=_PRIOR)


def scored(scores, topics, counts, documents, weight, first):
    """Weights after scoring some documents of a batch, to which the particles are not yet fitted.

    Documents have weights (n,). The first has the number ``first``; those whose number is a
    multiple of ten are scored.
    With the new `Scores` comes the mean log density of a word of these documents, by their ELBOs;
    it is nan without words.
    """
    indptr, indices, data = documents
    X = sp.csr_matrix((data, indices, indptr), shape=(documents.n, topics.V))
    some = slice((-first) % _EVERY, None, _EVERY)
    X, weight = X[some], weight[some]
    tokens = tokens_of(X, weight)
    if not tokens:
        return scores, np.nan
    chosen = Documents.of(X).for_kernels()
    elbos = each(
        lambda i: document_elbos(topics, counts, i, chosen, _MAX_ITER),
        range(topics.m),
        worth=documents.n >= MIN_DOCUMENTS,
    )
    log_density = np.array(elbos)
    mixed = np.logaddexp.reduce(scores.log_weights[:, None] + log_density, axis=0)
    log_weights = stacking_step(scores.log_weights, log_density, weight, scores.n)
    return Scores(log_weights, scores.n + weight.sum()), float((weight * mixed).sum() / tokens)
