"""Laplace approximations of regression posteriors, by Newton's method on the full data.

The prior is N(0, 1) on every coefficient and on every intercept.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logsumexp


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
    """Return negative log posterior, gradient and Hessian; the intercept is last."""
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


def _softmax_pieces(theta, X, y, n_classes):
    """Return the same for softmax regression, one row (coefficients, intercept) a class."""
    design = np.column_stack([X, np.ones(len(X))])
    width = design.shape[1]
    logits = design @ theta.reshape(n_classes, width).T
    log_total = logsumexp(logits, axis=1)
    probability = np.exp(logits - log_total[:, None])
    value = log_total.sum() - logits[np.arange(len(y)), y].sum() + 0.5 * theta @ theta
    gradient = theta + ((probability - np.eye(n_classes)[y]).T @ design).ravel()
    hessian = np.eye(len(theta))
    for k in range(n_classes):
        for j in range(k + 1):  # the lower triangle is all that is read
            curvature = probability[:, k] * ((j == k) - probability[:, j])
            block = np.s_[k * width : (k + 1) * width, j * width : (j + 1) * width]
            hessian[block] += (design * curvature[:, None]).T @ design
    return value, gradient, hessian


def laplace(X, y, *, max_iter=100, tol=1e-10, block=65536):
    """Fit the Laplace approximation of binary logistic regression.

    The rows are read in blocks, so a memory map of any length will do.
    """
    return _newton(lambda theta: _pieces(theta, X, y, block), X.shape[1] + 1, max_iter, tol)


def softmax_laplace(X, y, n_classes, *, max_iter=100, tol=1e-10):
    """Fit the Laplace approximation of softmax regression, symmetric: a row for each class."""
    d = n_classes * (X.shape[1] + 1)
    return _newton(lambda theta: _softmax_pieces(theta, X, y, n_classes), d, max_iter, tol)


def _newton(pieces, d, max_iter, tol):
    """Take full Newton steps, halved while the objective grows, from zero.

    Until the squared Newton decrement is below ``tol``.
    """
    theta = np.zeros(d)
    value, gradient, hessian = pieces(theta)
    for iteration in range(1, max_iter + 1):
        factor = cho_factor(hessian, lower=True)
        direction = cho_solve(factor, gradient)
        if gradient @ direction < tol:
            return Laplace(theta, cho_solve(factor, np.eye(d)), iteration)
        length = 1.0
        while True:
            candidate = pieces(theta - length * direction)
            if candidate[0] <= value or length < 1e-6:
                break
            length /= 2.0
        theta = theta - length * direction
        value, gradient, hessian = candidate
    raise RuntimeError(f"Newton's method did not converge in {max_iter} steps.")
