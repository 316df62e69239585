"""Fresh particles from the kernel density estimate of a cloud, some of them from further out."""

import numpy as np

from skpmd.engine import kde, rejuvenation_error
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.particles import Particles
from skpmd.engine.resampling import resample

DEFENSIVE_SHARE = 0.05  # of the particles, in a split step and in the polish step
_DEFENSIVE_DF = 5.0


def rejuvenate(particles, model, settings, rng, n_particles=None, defensive=0.0):
    """Redraw the cloud from the kernel density estimate of q, which becomes the new pi (r = 0).

    This is the paper's strategy 2 (eq. 6) with the covariance kept by shrinkage.

    A kernel density estimate ends near its outermost particle. Where the cloud has to move (a split
    step), each redraw then cuts it off on the side it moves to, and it shrinks to a point on the
    way; where the posterior has the heavier tails (a polish step), the weights have no variance.
    There a share of the particles comes from a Student distribution that is wider than the cloud
    (importance sampling with a defensive component; Hesterberg 1995). q is then the estimate with
    the same share of one normal, which has the mean and the covariance of the cloud too and goes on
    where the kernels end, and r = log q - log pi.

    Parameters
    ----------
    particles : Particles
        q.
    model : Model
        See `skpmd.engine.model.Model`.
    settings : Settings
        Bandwidth, kernel, shrinkage and resampling.
    rng : numpy.random.Generator
        Source of the draws.
    n_particles : int, optional
        Size of the new cloud; default: as it is.
    defensive : float
        Share of the wide component.

    Returns
    -------
    particles : Particles
        Fresh draws.
    bandwidth : float
        Of the estimate.
    """
    estimate = kde.fit(
        particles.theta,
        particles.log_ratio,
        bandwidth=settings.bandwidth,
        factor=settings.bandwidth_factor,
        smoothness=settings.smoothness,
        kernel=settings.kernel,
        shrinkage=settings.shrinkage,
    )
    n = len(particles.theta) if n_particles is None else n_particles
    n_defensive = int(np.ceil(defensive * n - 1e-9))  # one at least; 3.0000000004 is 3
    theta, ancestors = kde.sample(estimate, n - n_defensive, settings.resampling, rng)
    if n_defensive:
        theta, ancestors = _add_defensive(
            theta, ancestors, estimate, n_defensive, settings.resampling, rng
        )
    log_q, log_pi = _log_densities(estimate, theta, n_defensive / n)
    block = model.move_block(particles.theta[ancestors], particles.block[ancestors], theta)
    kept = particles.theta[estimate.source]
    error_terms = rejuvenation_error.of_redraw(
        particles.error_terms, kept, estimate, settings.shrinkage, model.monitored
    )
    moved = Particles(theta, log_q - log_pi, log_pi, model.log_prior(theta), block, error_terms)
    return moved, estimate.bandwidth


def _add_defensive(theta, ancestors, estimate, n_defensive, scheme, rng):
    """Draws of the wide component after those of the estimate, with ancestors by weight.

    Only a model with a closed-form block asks what a particle inherits.
    """
    drawn = draw(_defensive_component(estimate), 2 * n_defensive, rng)[
        ::2
    ]  # one of each antithetic pair
    inherited = estimate.source[resample(scheme, np.exp(estimate.log_weights), n_defensive, rng)]
    return np.concatenate([theta, drawn]), np.concatenate([ancestors, inherited])


def _log_densities(estimate, theta, share):
    """Log of q and of pi."""
    log_kde = kde.log_density(estimate, theta)
    if not share:
        return log_kde, log_kde
    log_kde += np.log1p(-share)
    normal = Proposal(estimate.mean, estimate.covariance_factor)
    log_q, log_pi = (
        np.logaddexp(log_kde, np.log(share) + log_density(component, theta))
        for component in (normal, _defensive_component(estimate))
    )
    return log_q, log_pi


def _defensive_component(estimate):
    """Student, three times as wide as the cloud on a line, less so in many dimensions.

    There most draws from a much wider density lie where no posterior is, and the radius of Student
    draws varies enough by itself.
    """
    width = 1.0 + 2.0 / np.sqrt(len(estimate.mean))
    return Proposal(estimate.mean, width * estimate.covariance_factor, _DEFENSIVE_DF)
