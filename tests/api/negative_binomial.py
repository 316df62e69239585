"""Negative-binomial regression: counts with mean mu = exp(x @ coef) and variance mu + mu^2 / r."""

from collections import namedtuple

import numpy as np
from scipy.special import gammaln
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from skpmd._base.results import ParticleResults, results_of
from skpmd._base.steps import advance, first_stream, stream_after
from skpmd._base.utils import as_generator
from skpmd._rows.rows import Rows
from skpmd.engine.loop import Options, run
from skpmd.engine.model import Model
from skpmd.engine.particles import draw_prior

State = namedtuple("State", "stream results")


class NegativeBinomial(Model):
    """The model: a row of theta is a particle: the intercept, the coefficients and log r."""

    def __init__(self, n_features, shape=2.0, rate=0.5):
        self.scale = np.append(5.0, np.ones(n_features))  # of intercept and coefficients, normal
        self.shape, self.rate = shape, rate  # of r, gamma

    def sample_prior(self, rng, m):
        linear = self.scale * rng.standard_normal((m, len(self.scale)))
        return np.column_stack([linear, np.log(rng.gamma(self.shape, 1.0 / self.rate, m))])

    def log_prior(self, theta):
        z, log_r = theta[:, :-1] / self.scale, theta[:, -1]
        normal = -0.5 * z**2 - np.log(self.scale) - 0.5 * np.log(2.0 * np.pi)
        constant = self.shape * np.log(self.rate) - gammaln(self.shape)
        # The Jacobian r of the logarithm turns r^(shape - 1) into r^shape.
        return normal.sum(axis=1) + constant + self.shape * log_r - self.rate * np.exp(log_r)

    def log_likelihood(self, theta, batch):
        y, log_r, r = batch.y, theta[:, -1:], np.exp(theta[:, -1:])
        counts, which = np.unique(y, return_inverse=True)  # fewer than rows
        constant = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
        logit = theta[:, :1] + theta[:, 1:-1] @ batch.X.T - log_r  # log(mu / r)
        rows = y * logit - (y + r) * np.logaddexp(0.0, logit)
        return constant @ np.bincount(which, batch.weight) + rows @ batch.weight


class NegativeBinomialPMD(RegressorMixin, ParticleResults):
    """The estimator; posterior_, history_, diagnostics_ and log_evidence_ come with its base."""

    def __init__(self, n_particles=2000, random_state=None):
        self.n_particles, self.random_state = n_particles, random_state

    def fit(self, X, y):
        self._reset()
        model, rows = self._read(X, y, reset=True)
        rng, options = as_generator(self.random_state), Options(n_particles=self.n_particles)
        start = draw_prior(model, self.n_particles, rng)
        outcome = run(model, rows, start, options, rng)  # its last step is the reweighting
        return self._learnt(State(stream_after(outcome, rows.total, rng), results_of(outcome)))

    def partial_fit(self, X, y):
        first = getattr(self, "_state", None) is None
        model, rows = self._read(X, y, reset=first)
        stream = first_stream(self.random_state) if first else self._state.stream
        after = advance(stream, model, rows, Options(n_particles=self.n_particles))
        return self._learnt(State(after, results_of(after.outcome(), after.records, stream=True)))

    def predict(self, X):
        theta, X = self.posterior_.particles, validate_data(self, X, reset=False)
        return np.exp(theta[:, 0] + X @ theta[:, 1:-1].T) @ self.posterior_.weights

    def _read(self, X, y, reset):
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        return NegativeBinomial(X.shape[1]), Rows(X, y, None, "auto")

    def _learnt(self, state):
        self._set_state(state)
        self._warn_or_interrupt("raise n_particles, or give more rows in a call")
        return self
