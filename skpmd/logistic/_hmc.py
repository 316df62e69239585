"""Hamiltonian moves of the particles, where no weights reach the posterior."""

import numpy as np

from skpmd._base.progress import progress
from skpmd.engine.hmc import MAX_TOTAL, N_CHAINS, hamiltonian
from skpmd.engine.importance import draw
from skpmd.engine.loop import Outcome
from skpmd.engine.mirror import StepInfo
from skpmd.engine.particles import Particles
from skpmd.engine.variational import laplace, variational_mirror_descent
from skpmd.logistic._priors import NormalPrior

MOVES = ("auto", "always", "never")
_ENOUGH = 0.25  # effective draws of the worst coordinate, as a share of n_particles
_START_DF = 10.0
_HARMLESS = 0.01  # nats
_WORTH = 1 << 16  # numbers in the features
_NARROW = 0.3  # of the first scales of a hierarchical prior: far out, chains take long to come in
_WIDE = 10.0  # times the prior's scale: there, too, what the data know is looked at
_STRETCH = 1.5  # sd of the log factor by which a jump multiplies all coefficients
_LEAST_KNOWN = 1e-6  # least precision that the data give, as a share of the pilot prior's


def move_from_references(model, batches, components, n_particles, power, rng, verbose):
    """Chains from around the plain reference of a mixture, as an unweighted cloud.

    They start from Student draws: wide enough for R-hat, and none so far out that it never comes
    in, as draws of a Cauchy reference may be.

    Parameters
    ----------
    model : Model
        Offers ``log_joint_gradient``.
    batches : list of Batch
        All data.
    components : list of Proposal
        Of the mixture.
    n_particles : int
        Draws to return, at the least.
    power : float
        Power of the likelihood.
    rng : numpy.random.Generator
        Source of all randomness.
    verbose : int
        Whether to show progress.

    Returns
    -------
    Outcome
        With ``chains``.
    """
    plain = next(reference for reference in components if not reference.axes.size)
    start = draw(plain._replace(df=_START_DF), N_CHAINS, rng)
    return _move(model, batches, start, plain.mean, plain.factor, n_particles, power, rng, verbose)


def move_hierarchical(model, batches, n_particles, power, rng, verbose):
    """Chains under a prior with scales among its coordinates, which has no Gaussian reference.

    The Gaussian mirror descent under a normal prior of the same scale says what the data know of
    each coefficient: its mean and precision less the normal prior's own are the coordinates that
    chains then move in.

    Parameters and returns as of `move_from_references`; the cloud is in the prior's own
    coordinates.
    """
    informed, gaussian = _informed(model, batches, power)
    moved = model.with_prior(informed)
    start = _NARROW * informed.sample_near(rng, N_CHAINS)
    d = start.shape[1]
    mean, chol = np.zeros(d), np.eye(d)
    plain = np.flatnonzero(model.prior.plain)
    mean[plain] = gaussian.mean[plain]
    chol[plain, plain] = np.sqrt((gaussian.chol[plain] ** 2).sum(axis=1))
    start[:, plain] = mean[plain] + chol[plain, plain] * start[:, plain]

    def jump(theta, rng):
        return informed.stretched(theta, _STRETCH * rng.standard_normal(len(theta)))

    own = {"jump": jump, "shown": informed.coefficients}
    outcome = _move(moved, batches, start, mean, chol, n_particles, power, rng, verbose, **own)
    return outcome._replace(
        particles=outcome.particles._replace(theta=informed.uninformed(outcome.particles.theta))
    )


def _informed(model, batches, power):
    """The prior in coordinates of what the data know, and the pilot's Gaussian."""
    prior = model.prior
    mean, variance, gaussian = _known(model, batches, prior.global_scale, power)
    # How fast it grows with the prior's scale: what the data leave open grows along.
    defensive = _known(model, batches, _WIDE * prior.global_scale, power)[1]
    growth = np.clip(0.5 * np.log(defensive / variance) / np.log(_WIDE), 0.0, 1.0)
    return prior.informed(mean, np.sqrt(variance), growth), gaussian


def _known(model, batches, scale, power):
    """What the data know of each coefficient: mean and variance, less the pilot prior's share.

    Also the pilot's Gaussian, under normal priors of this scale on what the horseshoe shrinks.
    """
    prior = model.prior
    normal = NormalPrior(np.where(prior.plain, prior.scale, scale))
    pilot = model.with_prior(normal)
    mode = laplace(pilot, batches, np.zeros(len(normal.scale)), power)
    gaussian = variational_mirror_descent(pilot, batches, mode, power)
    precision = 1.0 / (gaussian.chol**2).sum(axis=1)
    known = np.maximum(precision - normal.scale**-2.0, _LEAST_KNOWN / normal.scale**2)
    return gaussian.mean * precision / known, 1.0 / known, gaussian


def _move(model, batches, start, mean, chol, n_particles, power, rng, verbose, **own):
    batches = _in_single_precision(model, batches, start, power)
    found = hamiltonian(
        lambda theta: model.log_joint_gradient(theta, batches, power),
        start,
        mean,
        chol,
        rng,
        target_ess=_ENOUGH * n_particles,
        **own,
    )
    chains = None
    interrupted = False
    with progress(MAX_TOTAL, verbose, "moves (at most)") as bar:
        try:
            for chains in found:
                bar.update(50, f"r_hat={chains.r_hat:.3f}, ess={chains.ess:.0f}")
        except KeyboardInterrupt:
            if chains is None:
                raise
            interrupted = True
    # Successive draws say much the same: evenly spaced ones are as good, and cheaper to predict by.
    every = max(1, chains.draws.shape[0] * chains.draws.shape[1] // n_particles)
    theta = chains.draws[:, ::-1][:, ::every].reshape(-1, chains.draws.shape[2])
    m = len(theta)
    particles = Particles(
        theta, np.zeros(m), np.full(m, np.nan), model.log_prior(theta), np.empty((m, 0))
    )
    info = StepInfo(1.0, power, 1.0, 0, False, 0, np.nan, chains.ess, m)
    return Outcome(particles, [info], True, interrupted, chains=chains)


def _in_single_precision(model, batches, theta, power):
    """The batches with many features in float32, which halves the time, if that changes nothing.

    Rounding is harmless as long as it moves log densities, compared between positions, by much
    less than the nats that a Metropolis decision turns on.
    """
    if sum(batch.X.size for batch in batches) < _WORTH:
        return batches
    single = [batch._replace(X=batch.X.astype(np.float32, copy=False)) for batch in batches]
    exact, rounded = (model.log_joint_gradient(theta, part, power)[0] for part in (batches, single))
    with np.errstate(invalid="ignore"):  # inf - inf: not the same, then
        return single if np.ptp(rounded - exact) < _HARMLESS else batches
