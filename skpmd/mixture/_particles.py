"""The form in which both strategies of a mixture hand over what predictions need."""

from typing import Any, NamedTuple

import numpy as np

from skpmd._base.records import Records


class MixtureParticles(NamedTuple):
    """Particles that each are a whole mixture of Student or normal components.

    Columns are shifted and scaled by a `skpmd.mixture._prior.Scaler`.
    """

    # (m,): Log weights of the particles, sum of exp 1: for labels, responsibilities and parameters.
    log_weights: np.ndarray
    # (m, K): Log mixing weights within each particle, in expectation under its posterior.
    log_mixing: np.ndarray
    # (m, K): Log weights of all components for predictions, sum of exp over all of them 1. Without
    # stacking they are ``log_weights[:, None] + log_mixing``.
    log_predictive: np.ndarray
    location: np.ndarray  # (m, K, p): Centres.
    # (m, K, p, p): Lower Cholesky factors of the scale matrices; (m, K, p) where they are diagonal.
    scale_cholesky: np.ndarray
    df: np.ndarray  # (m, K): Degrees of freedom; inf is a normal.
    # Whether a component is a product of univariate Students, one for each column (diagonal
    # covariances), and not a multivariate one. No difference where df is inf.
    product: bool = False


def select(particles, places):
    """Some of the particles, their weights as they were."""
    return MixtureParticles(*(values[places] for values in particles[:-1]), particles.product)


def rescaled(particles, scaler, other):
    """Particles in the columns of one scaler in those of another."""
    ratio = scaler.scale / other.scale
    return particles._replace(
        location=other.transform(scaler.inverse_transform(particles.location)),
        scale_cholesky=particles.scale_cholesky
        * (ratio if is_diagonal(particles) else ratio[:, None]),
    )


def is_diagonal(particles):
    """Whether scale matrices are diagonal, and their roots vectors."""
    return particles.scale_cholesky.ndim == particles.location.ndim


def root_times(root, noise):
    """Roots (..., p, p), or (..., p) where they are diagonal, times vectors (..., p)."""
    if root.ndim == noise.ndim:
        return root * noise
    return np.einsum("...ij,...j->...i", root, noise)


class SMCFit(NamedTuple):
    """Fit result of ``strategy="parameters"``."""

    particles: MixtureParticles  # Draws of the posterior, df = inf; scaled columns.
    # Log marginal likelihood of the scaled rows (the Jacobian of the scaler is added later); labels
    # count, so it is that of the unordered mixture.
    log_evidence: float | None
    log_evidence_se: float | None  # Its standard error.
    records: Records  # Of the steps.
    converged: bool  # Whether the posterior was reached.
    # Whether Ctrl-C ended it; the particles are then those of the last complete step.
    interrupted: bool = False
    convergence_warnings: list = []  # Reasons not to trust it.
    state: Any = None  # What a stream needs to go on; the strategy's own.
