"""Passes that end where the words of held-out documents are predicted no better."""

import numpy as np

from skpmd.lda._averages import completion_perplexity
from skpmd.lda._documents import chosen


class EarlyStopping:
    """Scores of documents that a fit leaves out, by completion after each pass.

    X (n, V) has these documents, and ``weight`` (n,), or None, their weights.
    """

    def __init__(self, parameters, X, weight):
        self._parameters, self._X, self._weight = parameters, X, weight
        self.scores = []  # Mean log probability of a word after each pass.
        self._best, self._n_without_change = -np.inf, 0

    def should_stop(self, block):
        """Score a state, and say whether the last few have not been better than the best."""
        log_weights = block.log_weights(self._parameters.weighting)
        given = self._parameters, block, log_weights, self._X, self._weight
        score = -np.log(completion_perplexity(*given))
        if np.isnan(score):
            raise ValueError(
                "early_stopping=True needs held-out documents of two words or more, and there are "
                "none: raise validation_fraction, or set early_stopping=False."
            )
        self._add(float(score))
        return self._n_without_change >= self._parameters.n_iter_no_change

    def resume(self, scores):
        """Go on where these are the scores so far."""
        for score in scores:
            self._add(score)

    def _add(self, score):
        self.scores.append(score)
        is_better = score >= self._best + self._parameters.tol
        self._n_without_change = 0 if is_better else self._n_without_change + 1
        self._best = max(self._best, score)


def held_out(parameters, X, weight, rng):
    """Documents and weights of the fit, and its `EarlyStopping`, which is None without it.

    As many documents are drawn for it as ``validation_fraction`` says, rounded up.
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
    return *chosen(X, weight, ~out), EarlyStopping(parameters, *chosen(X, weight, out))
