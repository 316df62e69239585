"""Gaussian mirror descent: the mirror step in the Gaussian family, before any particle is drawn.

In natural parameters the step is lambda+ = (1 - gamma) lambda + gamma * target, where the target's
precision is E_q[-Hessian log p] and its mean solves the expected Newton equation. The fixed point
is the Gaussian of least Kullback-Leibler divergence to the posterior (Opper and Archambeau 2009);
with expectations taken at the mean only it is the Laplace approximation.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class Gaussian(NamedTuple):
    """Mean of shape (d,) and lower Cholesky factor of the covariance, shape (d, d)."""

    mean: np.ndarray
    chol: np.ndarray


def laplace(model, batches, start, b=1.0, max_iter=100, tol=1e-6):
    """Mode of the log joint density by damped Newton steps, and the curvature there.

    Returns
    -------
    Gaussian
        Normal distribution at the mode with the inverse negative Hessian as covariance.
    """
    return _fixed_point(model, batches, Gaussian(start, None), b, max_iter, tol)


def descend(model, batches, start, b=1.0, max_iter=20, tol=1e-3):
    """Gaussian mirror descent from a Gaussian, until mean and sds move by less than tol sds."""
    return _fixed_point(model, batches, start, b, max_iter, tol)


def _fixed_point(model, batches, q, b, max_iter, tol):
    spread = q.chol is not None
    mean, precision, gamma, last = q.mean, None, 1.0, np.inf
    for _ in range(max_iter):
        cov = q.chol @ q.chol.T if spread else None
        gradient, target = model.gaussian_target(mean, cov, batches, b)
        if spread and precision is not None:
            target = (1.0 - gamma) * precision + gamma * target
        factor = cho_factor(target, lower=True)
        move = cho_solve(factor, gradient)
        size = np.sqrt(gradient @ move)  # in posterior standard deviations
        # A step that does not shrink the residual was too long: shorten the next ones.
        gamma = 0.5 * gamma if size > 0.9 * last else min(1.0, 1.5 * gamma)
        last = size
        mean = mean + min(gamma, 5.0 * np.sqrt(len(mean)) / max(size, 1e-300)) * move
        precision = target
        q = Gaussian(mean, _chol_of_inverse(precision))
        if size < tol:
            break
    return q


def _chol_of_inverse(precision):
    """Lower Cholesky factor of the inverse of a symmetric positive definite matrix."""
    inverse = np.linalg.inv(precision)
    return np.linalg.cholesky(0.5 * (inverse + inverse.T))
