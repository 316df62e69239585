"""Weights of particles by how well their average predicts (Yao et al. 2018).

Likelihood weights of particles that each carry a whole model fall on one of them. Stacking weights
maximise the log score of the mixture on rows to which no particle is fitted; a step

    w <- (1 - g) w + g * mean over rows of w_i p_i(y) / sum_j w_j p_j(y)

is, to first order, a mirror step on that score. They are no posterior weights.
"""

import numpy as np
from scipy.special import logsumexp

from skpmd._base.rows import Rows, distinct, sortable

_MAX_ROWS, _MAX_FRACTION = 1000, 0.2  # At most so many rows, of all rows, are held out.


def hold_out(rows, rng):
    """Rows to fit first, and rows whose predictions are scored before they are added too.

    Equal rows stay together: copies of a row are its weight. None where all are equal.
    """
    X, y, weight = rows.data
    first, which = distinct(np.column_stack([sortable(X), y]))
    n = len(first)
    if n < 2:
        return None
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[: max(1, min(_MAX_ROWS, int(_MAX_FRACTION * n)))]] = True
    last = chosen[which]
    size = -(-len(weight) // rows.n_batches)
    return tuple(Rows(X[one], y[one], weight[one], size) for one in (~last, last))


def updated(log_weights, log_density, weight, scored):
    """Log weights after one step on new rows of a weight; ``scored`` counts those before."""
    g = weight.sum() / (scored + weight.sum())
    share = _responsibilities(log_weights, log_density, weight)
    return np.log((1.0 - g) * np.exp(log_weights) + g * share)


def _responsibilities(log_weights, log_density, weight):
    joint = log_weights[:, None] + log_density
    shares = np.exp(joint - logsumexp(joint, axis=0)) @ weight
    return np.maximum(shares / weight.sum(), 1e-300)
