"""Passes that end where the words of held-out documents are predicted no better."""

import numpy as np

from skpmd.lda._averages import completion_perplexity
from skpmd.lda._documents import chosen


def held_out(parameters, X, weight, rng):
    """Documents and weights of the fit, and those that it leaves out, None without early stopping.

    As many documents are drawn for these as ``validation_fraction`` says, rounded up.
    """
    if not parameters.early_stopping:
        return X, weight, None
    n = X.shape[0]
    n_out = int(np.ceil(parameters.validation_fraction * n))
    if n_out >= n:
        raise ValueError(
            f"validation_fraction={parameters.validation_fraction} of {n} documents leaves none to "
            "fit: lower it, or set early_stopping=False."
        )
    out = np.zeros(n, dtype=bool)
    out[rng.permutation(n)[:n_out]] = True
    return *chosen(X, weight, ~out), chosen(X, weight, out)


def score_of(parameters, block, X, weight):
    """Mean log probability of a held-out word, by completion."""
    log_weights = block.log_weights(parameters.weighting)
    score = -np.log(completion_perplexity(parameters, block, log_weights, X, weight))
    if np.isnan(score):
        raise ValueError(
            "early_stopping=True needs held-out documents of two words or more, and there are "
            "none: raise validation_fraction, or set early_stopping=False."
        )
    return float(score)


def are_no_better(parameters, scores):
    """Whether the last few scores have not been better than the best before."""
    best, n_without_change = -np.inf, 0
    for score in scores:
        n_without_change = 0 if score >= best + parameters.tol else n_without_change + 1
        best = max(best, score)
    return n_without_change >= parameters.n_iter_no_change
