"""Conjugate posteriors of mixing weights: Dirichlet, and stick-breaking processes cut at K.

All take counts of shape (m, K). A process breaks its sticks in the order of the counts, largest
first (which needs no counting of orders: the variational posterior may choose it), and the last
component takes what is left.
"""

import numpy as np
from scipy.special import betaln, gammaln


class Dirichlet:
    """K weights ~ Dirichlet(alpha, ..., alpha), with alpha the concentration."""

    def __init__(self, n_components, concentration):
        self.K, self.alpha = n_components, concentration

    def log_mean(self, counts):
        """Log of the expected weights, shape (m, K)."""
        total = counts.sum(axis=1, keepdims=True) + self.K * self.alpha
        return np.log(counts + self.alpha) - np.log(total)

    def log_evidence(self, counts):
        """Log probability of labels with these counts, shape (m,)."""
        total = counts.sum(axis=1)
        each = gammaln(counts + self.alpha) - gammaln(self.alpha)
        return (
            each.sum(axis=1) + gammaln(self.K * self.alpha) - gammaln(total + self.K * self.alpha)
        )

    def draw(self, counts, rng):
        """Weights drawn from the posterior, shape (m, K)."""
        # Gamma variates of a small shape underflow: G(a) = G(a + 1) U^(1 / a).
        shape = counts + self.alpha
        logs = np.log(rng.standard_gamma(shape + 1.0)) + np.log(rng.random(shape.shape)) / shape
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


class Sticks:
    """A Pitman-Yor process: stick k ~ Beta(1 - discount, concentration + k discount), k = 1, ...

    It is cut at K = ``n_components``. The discount is in [0, 1); without it this is a Dirichlet
    process.
    """

    def __init__(self, n_components, concentration, discount=0.0):
        self.K = n_components
        self.a0 = np.full(n_components - 1, 1.0 - discount)
        self.b0 = concentration + discount * np.arange(1.0, n_components)

    def log_mean(self, counts):
        """Log of the expected weights, shape (m, K)."""
        order, a, b = self._betas(counts)
        log_stick = np.log(a) - np.log(a + b)
        log_rest = np.cumsum(np.log(b) - np.log(a + b), axis=1)
        return _unsorted(_weights(log_stick, log_rest), order)

    def log_evidence(self, counts):
        """Log probability of labels with these counts, shape (m,)."""
        _, a, b = self._betas(counts)
        return (betaln(a, b) - betaln(self.a0, self.b0)).sum(axis=1)

    def draw(self, counts, rng):
        """Weights drawn from the posterior, shape (m, K)."""
        order, a, b = self._betas(counts)
        sticks = np.clip(rng.beta(a, b), 1e-300, 1.0 - 1e-16)
        log_rest = np.cumsum(np.log1p(-sticks), axis=1)
        return np.exp(_unsorted(_weights(np.log(sticks), log_rest), order))

    def _betas(self, counts):
        order = np.argsort(-counts, axis=1, kind="stable")
        ordered = np.take_along_axis(counts, order, axis=1)
        after = ordered.sum(axis=1, keepdims=True) - np.cumsum(ordered, axis=1)
        return order, self.a0 + ordered[:, :-1], self.b0 + np.maximum(after[:, :-1], 0.0)


def _weights(log_stick, log_rest):
    """Log weights from logs of sticks and of what remains after each."""
    start = np.zeros((len(log_stick), 1))
    before = np.concatenate([start, log_rest], axis=1)
    return before + np.concatenate([log_stick, start], axis=1)


def _unsorted(values, order):
    out = np.empty_like(values)
    np.put_along_axis(out, order, values, axis=1)
    return out


def weights_prior(kind, n_components, concentration, discount):
    """The prior of the mixing weights that an estimator's parameters name."""
    if kind == "dirichlet_distribution":
        return Dirichlet(n_components, concentration)
    return Sticks(n_components, concentration, discount if kind == "pitman_yor" else 0.0)
