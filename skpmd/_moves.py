"""Hamiltonian moves of the particles, where no weights reach the posterior."""

import numpy as np

from skpmd._base import Outcome
from skpmd.engine.cloud import Cloud
from skpmd.engine.mirror import StepInfo
from skpmd.engine.moves import N_CHAINS, hamiltonian
from skpmd.engine.references import draw_mixture

MOVES = ("auto", "always", "never")
_ENOUGH = 0.25  # effective draws of the worst coordinate, as a share of n_particles


def move(model, batches, start, mean, chol, n_particles, power, rng):
    """Chains on all data from the given positions, as an unweighted cloud.

    Parameters
    ----------
    model : Model
        Offers ``log_joint_gradient``.
    batches : list of Batch
        All data.
    start : ndarray of shape (n_chains, d)
        First positions.
    mean, chol : ndarray of shape (d,), (d, d)
        Mean and Cholesky factor of a covariance near the posterior's.
    n_particles : int
        Draws to return, at the least.
    power : float
        Power of the likelihood.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    Outcome
        With ``chains``.
    """
    chains = hamiltonian(
        lambda theta: model.log_joint_gradient(theta, batches, power),
        start,
        mean,
        chol,
        rng,
        target_ess=_ENOUGH * n_particles,
    )
    # Successive draws say much the same: evenly spaced ones are as good, and cheaper to predict by.
    every = max(1, chains.draws.shape[0] * chains.draws.shape[1] // n_particles)
    theta = chains.draws[:, ::-1][:, ::every].reshape(-1, chains.draws.shape[2])
    m = len(theta)
    unknown = np.full(m, np.nan)
    cloud = Cloud(theta, np.zeros(m), unknown, unknown, np.empty((m, 0)))
    info = StepInfo(1.0, power, 1.0, 0, False, 0, np.nan, chains.ess, m)
    return Outcome(cloud, [info], polished=True, chains=chains)


def move_from_references(model, batches, components, shares, n_particles, power, rng):
    """As `move`, from draws of a mixture of references."""
    start, _ = draw_mixture(components, shares, N_CHAINS, rng)
    plain = next(reference for reference in components if not reference.axes.size)
    return move(model, batches, start, plain.mean, plain.factor, n_particles, power, rng)
