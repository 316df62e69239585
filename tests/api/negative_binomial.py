"""Negative-binomial regression of counts.

The mean is mu = exp(x @ coef), and the variance mu + mu^2 / r.
"""

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
    """Rows of theta are particles: intercept, coefficients and log r."""

    def __init__(self, n_features, shape=2.0, rate=0.5):
        # Intercept and coefficients are normal, and r has a gamma prior.
        self.scale = np.append(5.0, np.ones(n_features))
        self.shape, self.rate = shape, rate

    def sample_prior(self, rng, m):
        linear = self.scale * rng.standard_normal((m, len(self.scale)))
        r = rng.gamma(self.shape, 1.0 / self.rate, m)
        return np.column_stack([linear, np.log(r)])

    def log_prior(self, theta):
        z, log_r = theta[:, :-1] / self.scale, theta[:, -1]
        normal = -0.5 * (z**2 + np.log(2.0 * np.pi)) - np.log(self.scale)
        # The Jacobian r of the logarithm turns r^(shape - 1) into r^shape.
        gamma = self.shape * (np.log(self.rate) + log_r)
        gamma -= gammaln(self.shape) + self.rate * np.exp(log_r)
        return normal.sum(axis=1) + gamma

    def log_likelihood(self, theta, batch):
        y, log_r, r = batch.y, theta[:, -1:], np.exp(theta[:, -1:])
        counts, which = np.unique(y, return_inverse=True)  # fewer than rows
        constant = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
        log_mu = theta[:, :1] + theta[:, 1:-1] @ batch.X.T
        logit = log_mu - log_r
        rows = y * logit - (y + r) * np.logaddexp(0.0, logit)
        n_of = np.bincount(which, batch.weight)
        return constant @ n_of + rows @ batch.weight


class NegativeBinomialPMD(RegressorMixin, ParticleResults):
    """Its base has posterior_, history_, diagnostics_ and log_evidence_."""

    def __init__(self, n_particles=2000, random_state=None):
        self.n_particles, self.random_state = n_particles, random_state

    def fit(self, X, y):
        self._reset()
        model, rows = self._read(X, y, reset=True)
        rng = as_generator(self.random_state)
        start = draw_prior(model, self.n_particles, rng)
        options = Options(n_particles=self.n_particles)
        outcome = run(model, rows, start, options, rng)
        stream = stream_after(outcome, rows.total, rng)
        return self._learnt(State(stream, results_of(outcome)))

    def partial_fit(self, X, y):
        first = getattr(self, "_state", None) is None
        model, rows = self._read(X, y, reset=first)
        new = first_stream(self.random_state)
        before = new if first else self._state.stream
        options = Options(n_particles=self.n_particles)
        after = advance(before, model, rows, options)
        results = results_of(after.outcome(), after.records, stream=True)
        return self._learnt(State(after, results))

    def predict(self, X):
        X, posterior = validate_data(self, X, reset=False), self.posterior_
        theta = posterior.particles
        mu = np.exp(theta[:, 0] + X @ theta[:, 1:-1].T)
        return mu @ posterior.weights

    def _read(self, X, y, reset):
        checks = {"dtype": np.float64, "y_numeric": True, "reset": reset}
        X, y = validate_data(self, X, y, **checks)
        return NegativeBinomial(X.shape[1]), Rows(X, y, None, "auto")

    def _learnt(self, state):
        self._set_state(state)
        self._warn_or_interrupt("raise n_particles, or give larger parts")
        return self
