"""Bayes' rule after Bayes' rule in the Gaussian family: yesterday's posterior is today's prior."""

from typing import NamedTuple

import numpy as np

from skpmd.engine import cubic_surrogate, kde, rejuvenation_error
from skpmd.engine.importance import Reference, log_density
from skpmd.engine.particles import NOTHING
from skpmd.engine.variational import Gaussian, descend, laplace


class Track(NamedTuple):
    """A Gaussian that follows q from step to step beside the particles.

    It is found by the Gaussian mirror step, hence without Monte Carlo noise: a covariance of m
    particles errs by sqrt(d / m), and redraw after redraw that adds up.

    Attributes
    ----------
    gaussian : Gaussian
        The Gaussian nearest to q.
    lost : ndarray of shape (r, 3) or (1, 3)
        What it cannot hold of q; see `skpmd.engine.rejuvenation_error`.
    """

    gaussian: Gaussian
    lost: np.ndarray


class Sequel:
    """A model with the prior q^(1 - a) p^a, where q is a Gaussian and p the prior of the model.

    Its posterior is the outcome of a step of coefficient a from q.

    Parameters
    ----------
    model : Model
        Offers ``gaussian_target`` and ``skew_axes``.
    gaussian : Gaussian
        q.
    a : float
        Coefficient of the step.
    """

    def __init__(self, model, gaussian, a, cubic=None):
        self._cubic = cubic
        self._model, self._a = model, a
        self.tail_df = model.tail_df if a else np.inf
        self._reference = Reference(*gaussian)
        inverse = np.linalg.inv(gaussian.chol)
        self._mean, self._precision = gaussian.mean, inverse.T @ inverse
        self.log_likelihood, self.skew_axes = model.log_likelihood, model.skew_axes
        self.watched = model.watched

    def log_prior(self, theta):
        """Log density up to a constant; see `Model`."""
        if self._cubic is None:
            log_q = log_density(self._reference, theta)
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


def track_of(cloud, watched):
    """The Gaussian with the moments of a cloud, and what is lost if it takes the cloud's place."""
    estimate = kde.fit(cloud.theta, cloud.log_ratio, bandwidth=1.0)
    lost = rejuvenation_error.of_redraw(
        cloud.lost, cloud.theta[estimate.source], estimate, True, watched
    )
    return Track(Gaussian(estimate.mean, estimate.cloud_factor), lost)


def better(track, other, watched):
    """The one of two tracks that will have lost less once as many data again have come."""
    if track is None:
        return other

    def ahead(track):
        variance = 0.5 * (watched(track.gaussian.chol.T) ** 2).sum(axis=0)
        return rejuvenation_error.squared_error(track.lost, variance).max()

    return track if ahead(track) <= ahead(other) else other


def follow(track, model, batches, a, b, rng):
    """Track after a step of coefficients (a, b) on the rows of some batches.

    Parameters
    ----------
    track : Track or None
        Before the step; None is the prior.
    model : Model
        Offers ``gaussian_target``.
    batches : sequence of Batch
        Rows of data.
    a, b : float
        Coefficients.
    rng : numpy.random.Generator
        Of the random displacements by which skewness is measured.

    Returns
    -------
    Track
        After the step.
    """
    start, lost = np.zeros(len(model.prior.scale)), NOTHING
    if track is not None:
        start, lost = track.gaussian.mean, rejuvenation_error.fade(track.lost, a)
        model = Sequel(model, track.gaussian, a)
    gaussian = descend(model, batches, laplace(model, batches, start, b), b)
    return Track(gaussian, rejuvenation_error.of_curvature(lost, model, batches, gaussian, b, rng))
