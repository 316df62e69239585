"""The form in which both strategies of a mixture hand over what predictions need."""

from typing import Any, NamedTuple

import numpy as np


class MixtureParticles(NamedTuple):
    """Particles that each are a whole mixture of Student or normal components.

    Columns are shifted and scaled by a `skpmd.mixture._prior.Scaler`.

    Attributes
    ----------
    log_weights : ndarray of shape (m,)
        Log weights of the particles, sum of exp 1: for labels, responsibilities and parameters.
    log_mixing : ndarray of shape (m, K)
        Log mixing weights within each particle, in expectation under its posterior.
    log_predictive : ndarray of shape (m, K)
        Log weights of all components for predictions, sum of exp over all of them 1. Without
        stacking they are ``log_weights[:, None] + log_mixing``.
    location : ndarray of shape (m, K, p)
        Centres.
    scale_cholesky : ndarray of shape (m, K, p, p)
        Lower Cholesky factors of the scale matrices (full matrices for every covariance type).
    df : ndarray of shape (m, K)
        Degrees of freedom; inf is a normal.
    product : bool
        Whether a component is a product of univariate Students, one for each column (diagonal
        covariances), and not a multivariate one. No difference where df is inf.
    """

    log_weights: np.ndarray
    log_mixing: np.ndarray
    log_predictive: np.ndarray
    location: np.ndarray
    scale_cholesky: np.ndarray
    df: np.ndarray
    product: bool = False


def select(particles, places):
    """Some of the particles, their weights as they were."""
    return MixtureParticles(*(values[places] for values in particles[:-1]), particles.product)


def rescaled(particles, scaler, other):
    """Particles in the columns of one scaler in those of another."""
    ratio = scaler.scale / other.scale
    return particles._replace(
        location=other.transform(scaler.inverse_transform(particles.location)),
        scale_cholesky=particles.scale_cholesky * ratio[:, None],
    )


class SMCFit(NamedTuple):
    """Fit result of ``strategy="parameters"``.

    Attributes
    ----------
    particles : MixtureParticles
        Draws of the posterior, df = inf; scaled columns.
    log_evidence : float or None
        Log marginal likelihood of the scaled rows (the Jacobian of the scaler is added later);
        labels count, so it is that of the unordered mixture.
    log_evidence_se : float or None
        Its standard error.
    history : dict of str to ndarray
        A record with one entry for each step.
    converged : bool
        Whether the posterior was reached.
    interrupted : bool
        Whether Ctrl-C ended it; the particles are then those of the last complete step.
    convergence_warnings : list of str
        Reasons not to trust it.
    state : object
        What a stream needs to go on; the strategy's own.
    """

    particles: MixtureParticles
    log_evidence: float | None
    log_evidence_se: float | None
    history: dict
    converged: bool
    interrupted: bool = False
    convergence_warnings: list = []
    state: Any = None
