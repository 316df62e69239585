"""Gaussian mirror descent without correlations: for more coordinates than a matrix can hold.

The step of `skpmd.engine.variational` in the family N(mean, diag(variance)): precisions move by
lambda+ = (1 - gamma) lambda + gamma E_q[-d2 log p / d theta_j2], and the mean to where
E_q[grad log p] = 0 at the variances it has. The fixed point is the Gaussian of this family of
least Kullback-Leibler divergence to the posterior.

In this family a mirror step would move each coordinate of the mean as if the others stood still,
and go in circles where columns are alike. The equation of the mean is that of a concave maximum
where log p is concave, and Newton's method solves it, by products with the curvature alone.
"""

from typing import NamedTuple

import numpy as np

_LEAST_PROGRESS, _MOST_OVERSHOOT = 0.9, 0.25  # as in `skpmd.engine.variational.laplace`
_SHORT = 0.02  # standard deviations, all coordinates together: a step not worth another
_MOST_STEPS = 200  # of Newton's method
_LOOSE, _MOST_PRODUCTS = 0.1, 200  # of conjugate gradients: residual left, products taken


class DiagonalTarget(NamedTuple):
    """What the log joint density is on average under N(mean, diag(variance)).

    Attributes
    ----------
    gradient : ndarray of shape (d,)
        E[grad log p].
    precision : ndarray of shape (d,)
        E[-d2 log p / d theta_j2], positive.
    product : callable
        u of shape (d,) -> E[-Hessian log p] u, or a positive definite stand-in with about that
        diagonal: it decides how fast the mean arrives, and not where.
    """

    gradient: np.ndarray
    precision: np.ndarray
    product: object


class Descent(NamedTuple):
    """Outcome of `mean_field_mirror_descent`.

    Attributes
    ----------
    mean, variance : ndarray of shape (d,)
        The Gaussian.
    steps : list of (gamma, change)
        Step sizes, and largest changes of a log precision that a whole step would have made.
    converged : bool
        Whether the last change was small, and the mean arrived.
    """

    mean: np.ndarray
    variance: np.ndarray
    steps: list
    converged: bool


def mean_field_mirror_descent(target, d, max_iter=50, tol=0.02):
    """Gaussian mirror descent in the diagonal family, from zero and the curvature there.

    Parameters
    ----------
    target : callable
        (mean, variance or None) -> DiagonalTarget; None for the values at the mean itself.
    d : int
        Number of coordinates.
    max_iter : int
        Bound on the mirror steps.
    tol : float
        Stop when no log precision would change by more than this.

    Returns
    -------
    Descent
        The last iterate, its mean at rest under its variances.
    """
    mean = np.zeros(d)
    precision, gamma, steps, last = target(mean, None).precision, 1.0, [], 0.0
    for _ in range(max_iter):
        mean, at, arrived = _climb(target, mean, 1.0 / precision)
        change = np.log(at.precision / precision)
        if np.sum(change * last) < 0.0:
            gamma *= 0.5  # a change that takes back the one before asks for shorter steps
        steps.append((gamma, float(np.abs(change).max())))
        if steps[-1][1] < tol:
            break
        precision, last = (1.0 - gamma) * precision + gamma * at.precision, change
    else:
        mean, at, arrived = _climb(target, mean, 1.0 / precision)
    return Descent(mean, 1.0 / precision, steps, arrived and steps[-1][1] < tol)


def _climb(target, mean, variance):
    """Newton's method for E_q[grad log p] = 0 at fixed variances: (mean, target, arrived).

    A step is halved until the slope along it has fallen, as in `skpmd.engine.variational.laplace`.
    """
    at = target(mean, variance)
    for _ in range(_MOST_STEPS):
        move = _solve(at)
        slope = at.gradient @ move  # the squared length of the step in standard deviations
        if slope < _SHORT**2:
            return mean, at, True
        length = 1.0
        while True:
            ahead = target(mean + length * move, variance)
            left = ahead.gradient @ move / slope
            if -_MOST_OVERSHOOT < left < _LEAST_PROGRESS or length < 1e-6:
                break
            length *= 0.5
        mean, at = mean + length * move, ahead
    return mean, at, False


def _solve(at):
    """Solve product(x) = gradient loosely by conjugate gradients, scaled by the precisions."""
    x, residual = np.zeros_like(at.gradient), at.gradient
    scaled = residual / at.precision
    direction, size = scaled, residual @ scaled
    enough = _LOOSE**2 * size
    for _ in range(_MOST_PRODUCTS):
        if size <= enough:
            break
        curved = at.product(direction)
        length = size / (direction @ curved)
        x = x + length * direction
        residual = residual - length * curved
        scaled = residual / at.precision
        last, size = size, residual @ scaled
        direction = scaled + size / last * direction
    return x
