"""The Laplace approximation of the logistic posterior, by Newton's method on the full data."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit


@dataclass(frozen=True)
class Laplace:
    """Mode, covariance (inverse Hessian at the mode) and the number of Newton steps taken."""

    mode: np.ndarray
    cov: np.ndarray
    n_iter: int

    def std(self):
        """Return the standard deviation of each coordinate."""
        return np.sqrt(np.diag(self.cov))


def _pieces(theta, X, y, block):
    """Return negative log posterior (prior N(0, I)), gradient and Hessian, intercept last."""
    n_features = X.shape[1]
    value, gradient = 0.5 * theta @ theta, theta.copy()
    hessian = np.eye(n_features + 1)
    for start in range(0, len(X), block):
        rows = np.asarray(X[start : start + block], dtype=np.float64)
        labels = y[start : start + block]
        logits = rows @ theta[:-1] + theta[-1]
        probability = expit(logits)
        value += np.logaddexp(0.0, logits).sum() - logits @ labels
        residual, curvature = probability - labels, probability * (1.0 - probability)
        gradient[:-1] += residual @ rows
        gradient[-1] += residual.sum()
        weighted = rows * curvature[:, None]
        hessian[:-1, :-1] += weighted.T @ rows
        cross = weighted.sum(axis=0)
        hessian[:-1, -1] += cross
        hessian[-1, :-1] += cross
        hessian[-1, -1] += curvature.sum()
    return value, gradient, hessian


def laplace(X, y, *, max_iter=100, tol=1e-10, block=65536):
    """Fit the Laplace approximation, prior N(0, 1) on every coefficient and on the intercept.

    Full Newton steps, halved while the objective grows, until the squared Newton decrement is
    below ``tol``. The rows are read in blocks, so a memory map of any length will do.
    """
    theta = np.zeros(X.shape[1] + 1)
    value, gradient, hessian = _pieces(theta, X, y, block)
    for iteration in range(1, max_iter + 1):
        factor = cho_factor(hessian, lower=True)
        direction = cho_solve(factor, gradient)
        if gradient @ direction < tol:
            return Laplace(theta, cho_solve(factor, np.eye(len(theta))), iteration)
        length = 1.0
        while True:
            candidate = _pieces(theta - length * direction, X, y, block)
            if candidate[0] <= value or length < 1e-6:
                break
            length /= 2.0
        theta = theta - length * direction
        value, gradient, hessian = candidate
    raise RuntimeError(f"Newton's method did not converge in {max_iter} steps.")
