"""Priors of mixing weights: Dirichlet, and stick-breaking processes cut at K.

All are conjugate to counts of shape (m, K). A process breaks its sticks in the order of the counts,
largest first (which needs no counting of orders: the variational posterior may choose it), and the
last component takes what is left. Draws of all parameters have either prior as sticks, in
coordinates that know no bounds.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, expit, gammaln


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


def weights_prior(kind, n_components, concentration, discount):
    """The conjugate prior of a name that `GaussianMixturePMD` takes; see `Sticks.of`."""
    if kind == "dirichlet_distribution":
        return Dirichlet(n_components, concentration)
    return Sticks.of(kind, n_components, concentration, discount)


class Sticks(NamedTuple):
    """Weights w_k = v_k prod_(j<k) (1 - v_j), v_k ~ Beta(a_k, b_k), v_K = 1.

    The coordinates are s_k = logit v_k, k < K.
    """

    # (K - 1,): Parameters of the Beta distributions.
    a: np.ndarray
    b: np.ndarray
    exchangeable: bool  # Whether the density of the weights does not change when they are permuted.

    @classmethod
    def of(cls, kind, n_components, concentration, discount=0.0):
        """Prior of a name that `GaussianMixturePMD` takes.

        ``"dirichlet_distribution"``: symmetric, the concentration is that of each component.
        ``"dirichlet_process"``: Beta(1, concentration). ``"pitman_yor"``:
        Beta(1 - discount, concentration + k discount). Both are cut at K components.
        """
        k = np.arange(1.0, n_components)
        if kind == "dirichlet_distribution":
            a = np.full(n_components - 1, float(concentration))
            return cls(a, concentration * (n_components - k), True)
        discount = discount if kind == "pitman_yor" else 0.0
        a = np.full(n_components - 1, 1.0 - discount)
        return cls(a, concentration + k * discount, False)

    # ------------------------------------------------------------------ given counts (m, K)
    def log_mean(self, counts):
        """Log of the expected weights, shape (m, K)."""
        order, a, b = self._betas(counts)
        log_stick = np.log(a) - np.log(a + b)
        log_rest = np.cumsum(np.log(b) - np.log(a + b), axis=1)
        return _unsorted(_weights(log_stick, log_rest), order)

    def log_evidence(self, counts):
        """Log probability of labels with these counts, shape (m,)."""
        _, a, b = self._betas(counts)
        return (betaln(a, b) - betaln(self.a, self.b)).sum(axis=1)

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
        return order, self.a + ordered[:, :-1], self.b + np.maximum(after[:, :-1], 0.0)

    # ------------------------------------------------------------------ in the coordinates
    def sample(self, rng, m):
        """Log weights of m draws from the prior; shape (m, K)."""
        # Log gammas that do not underflow where a is small: G(a) = G(a + 1) U^(1 / a).
        logs = [
            np.log(rng.gamma(shape + 1.0, 1.0, (m, len(shape))))
            - rng.exponential(size=(m, len(shape))) / shape
            for shape in (self.a, self.b)
        ]
        return log_mixing(logs[0] - logs[1])

    def log_density(self, sticks):
        """Log density of the coordinates; shape (m,)."""
        inside = self.a * _log_expit(sticks) + self.b * _log_expit(-sticks)
        return (inside - betaln(self.a, self.b)).sum(axis=1)

    def gradient(self, sticks):
        """Gradient of `log_density`; shape (m, K - 1)."""
        return self.a - (self.a + self.b) * expit(sticks)

    def curvature(self, sticks, count):
        """Curvature in the coordinates, at least that of the prior's tail; shape (m, K - 1)."""
        after = np.cumsum(count[:, ::-1], axis=1)[:, ::-1][:, :-1]
        tail = np.minimum(np.minimum(self.a, self.b), 1.0)
        return (self.a + self.b + after) * expit(sticks) * expit(-sticks) + 0.25 * tail**2


def blended(one, other, power):
    """Sticks with the density of one to the power 1 - power, times another's, up to a constant."""
    a, b = ((1.0 - power) * x + power * y for x, y in zip(one[:2], other[:2], strict=True))
    return Sticks(a, b, other.exchangeable)


def log_mixing(sticks):
    """Log weights of sticks; shape (m, K)."""
    return _weights(_log_expit(sticks), np.cumsum(_log_expit(-sticks), axis=1))


def sticks_of(log_weights):
    """Sticks of log weights; the inverse of `log_mixing`."""
    after = np.logaddexp.accumulate(log_weights[:, ::-1], axis=1)[:, ::-1]
    return log_weights[:, :-1] - after[:, 1:]


def by_sticks(by_weights, sticks):
    """Gradient in the sticks from the gradient in the log weights, shape (m, K)."""
    after = np.cumsum(by_weights[:, ::-1], axis=1)[:, ::-1]
    return by_weights[:, :-1] - expit(sticks) * after[:, :-1]


def _log_expit(x):
    return -np.logaddexp(0.0, -x)


def _weights(log_stick, log_rest):
    """Log weights from logs of sticks and of what remains after each."""
    start = np.zeros((len(log_stick), 1))
    before = np.concatenate([start, log_rest], axis=1)
    return before + np.concatenate([log_stick, start], axis=1)


def _unsorted(values, order):
    out = np.empty_like(values)
    np.put_along_axis(out, order, values, axis=1)
    return out
