"""Priors of mixing weights as sticks that are broken off one after another."""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, expit


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


def log_mixing(sticks):
    """Log weights of sticks; shape (m, K)."""
    rest = np.cumsum(_log_expit(-sticks), axis=1)
    zero = np.zeros((len(sticks), 1))
    return np.concatenate([_log_expit(sticks), zero], axis=1) + np.concatenate([zero, rest], axis=1)


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
