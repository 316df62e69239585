"""Rejuvenation: fresh particles from the kernel density estimate of q, some from further out."""

import numpy as np

from skpmd.engine import kde
from skpmd.engine.importance import TAIL_DF, Proposal, draw, log_density
from skpmd.engine.particles import Particles, Rejuvenated, resample

DEFENSIVE_SHARE = 0.05  # This share of the particles is defensive in a substep and in reweighting.


def rejuvenate_by_kernels(
    particles, model, settings, rng, *, n_particles=None, defensive=0.0, observer=None
):
    """Draw particles anew from the kernel density estimate of q, which becomes pi (r = 0).

    This is the paper's strategy 2 (eq. 6) with the covariance kept by shrinkage.

    A kernel density estimate ends near its outermost particle. Where q has to move (a substep),
    each rejuvenation then cuts it off on the side it moves to, and it shrinks to a point on the
    way; where the posterior has the heavier tails (reweighting), the weights have no variance.
    There the share ``defensive`` of the particles comes from a Student distribution that is wider
    than q (importance sampling with a defensive component; Hesterberg 1995). q is then the estimate
    with the same share of one normal, which has the mean and the covariance of the particles too
    and goes on where the kernels end, and r = log q - log pi.

    The number of particles stays as it is unless ``n_particles`` says otherwise. An ``observer``,
    of `RejuvenationErrors`, keeps account of what the estimate loses of q.
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
    n_defensive = int(np.ceil(defensive * n - 1e-9))  # It is one at least; 3.0000000004 is 3.
    theta, ancestors = kde.sample(estimate, n - n_defensive, settings.resampling, rng)
    if n_defensive:
        scheme = settings.resampling
        theta, ancestors = _add_defensive(theta, ancestors, estimate, n_defensive, scheme, rng)
    log_q, log_pi = _log_densities(estimate, theta, n_defensive / n)
    inherited = model.select_block(particles.block, ancestors)
    block = model.move_block(particles.theta[ancestors], inherited, theta)
    if observer is not None:
        observer.rejuvenated(particles.theta[estimate.source], estimate, settings.shrinkage)
    moved = Particles(theta, log_q - log_pi, log_pi, model.log_prior(theta), block)
    return Rejuvenated(moved, estimate.bandwidth)


def _add_defensive(theta, ancestors, estimate, n_defensive, scheme, rng):
    """Draws of the defensive component after those of the estimate, with ancestors by weight.

    Only a model with a conjugate block asks what a particle inherits.
    """
    # One draw of each antithetic pair is taken.
    drawn = draw(_defensive_component(estimate), 2 * n_defensive, rng)[::2]
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
    """Student, three times as wide as q on a line, less so in many dimensions.

    There most draws from a much wider density lie where no posterior is, and the radius of Student
    draws varies enough by itself.
    """
    width = 1.0 + 2.0 / np.sqrt(len(estimate.mean))
    return Proposal(estimate.mean, width * estimate.covariance_factor, TAIL_DF)
