"""Bayes' rule after Bayes' rule in the Gaussian family: yesterday's posterior is today's prior."""

from typing import NamedTuple

import numpy as np

from skpmd.engine import cubic_surrogate, kde, rejuvenation_error
from skpmd.engine.importance import Proposal, log_density
from skpmd.engine.model import Model
from skpmd.engine.variational import Gaussian, laplace, variational_mirror_descent


class AssumedDensity(NamedTuple):
    """A Gaussian that follows q from step to step beside the particles.

    It is found by the Gaussian mirror step, hence without Monte Carlo noise: a covariance of m
    particles errs by sqrt(d / m), and rejuvenation after rejuvenation that adds up.
    """

    gaussian: Gaussian  # The Gaussian nearest to q.
    # (r, 3) or (1, 3): What it cannot hold of q; see `skpmd.engine.rejuvenation_error`.
    error_terms: np.ndarray


class AssumedDensityModel(Model):
    """A model with the prior q^(1 - a) p^a, where q is a Gaussian and p the prior of the model.

    Its posterior is the outcome of a step of coefficient a from q. The model offers
    ``gaussian_target`` and ``skew_axes``. Given a `Cubic`, ``log_prior`` takes it for log q;
    ``gaussian_target`` takes the Gaussian in any case.
    """

    # A prior that knows of earlier rows leaves one mode, and no density without a bound.
    is_log_concave, has_poles = True, False

    def __init__(self, model, gaussian, a, cubic=None):
        self._cubic = cubic
        self._model, self._a = model, a
        self.tail_df = model.tail_df if a else np.inf
        self._proposal = Proposal(*gaussian)
        inverse = np.linalg.inv(gaussian.chol)
        self._mean, self._precision = gaussian.mean, inverse.T @ inverse
        self.log_likelihood, self.skew_axes = model.log_likelihood, model.skew_axes
        self.monitored, self.n_coordinates = model.monitored, len(gaussian.mean)

    def starts(self, batches):
        """Where searches for modes begin: anywhere, of a log-concave density, or at the mean."""
        is_concave = getattr(self._model, "is_log_concave", True)
        return [np.zeros(self.n_coordinates) if is_concave else self._mean]

    def log_prior(self, theta):
        """Log density up to a constant; see `Model`."""
        if self._cubic is None:
            log_q = log_density(self._proposal, theta)
        else:
            log_q = cubic_surrogate.value(self._cubic, theta)
        if not self._a:
            return log_q
        return (1.0 - self._a) * log_q + self._a * self._model.log_prior(theta)

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian; the model's own prior counts a times."""
        gradient, hessian = self._model.gaussian_target(mean, cov, batches, b)
        prior_gradient, prior_hessian = self._model.gaussian_target(mean, cov, [], b)
        keep = 1.0 - self._a
        gradient = gradient + keep * (self._precision @ (self._mean - mean) - prior_gradient)
        return gradient, hessian + keep * (self._precision - prior_hessian)


def project(particles, error_terms, monitored):
    """The Gaussian with the moments of the particles, and what q loses if it takes their place."""
    estimate = kde.fit(particles.theta, particles.log_ratio, bandwidth=1.0)
    error_terms = rejuvenation_error.of_rejuvenation(
        error_terms, particles.theta[estimate.source], estimate, True, monitored
    )
    return AssumedDensity(Gaussian(estimate.mean, estimate.covariance_factor), error_terms)


def more_accurate(assumed, other, monitored):
    """The one of two densities that will have lost less once as many data again have come."""
    if assumed is None:
        return other

    def ahead(assumed):
        variance = 0.5 * (monitored(assumed.gaussian.chol.T) ** 2).sum(axis=0)
        return rejuvenation_error.squared_error(assumed.error_terms, variance).max()

    return assumed if ahead(assumed) <= ahead(other) else other


def filter_step(assumed, model, batches, a, b, rng):
    """The assumed density after a step of coefficients (a, b) on the rows of some batches.

    ``assumed`` is that before the step, None for the prior. The model offers ``gaussian_target``.
    Randomness is spent on the displacements by which skewness is measured.
    """
    start, error_terms = np.zeros(len(model.prior.scale)), rejuvenation_error.NO_ERROR
    if assumed is not None:
        start, error_terms = assumed.gaussian.mean, rejuvenation_error.fade(assumed.error_terms, a)
        model = AssumedDensityModel(model, assumed.gaussian, a)
    gaussian = variational_mirror_descent(model, batches, laplace(model, batches, start, b), b)
    return AssumedDensity(
        gaussian, rejuvenation_error.of_curvature(error_terms, model, batches, gaussian, b, rng)
    )
