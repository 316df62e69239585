"""Gaussian mirror descent: the mirror step in the Gaussian family, before any particle is drawn.

In natural parameters the step is lambda+ = (1 - gamma) lambda + gamma * target, where the target's
precision is E_q[-Hessian log p] and its mean solves the expected Newton equation. The fixed point
is the Gaussian of least Kullback-Leibler divergence to the posterior (Opper and Archambeau 2009);
with expectations taken at the mean only it is the Laplace approximation.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skpmd._runtime.call import phase

_MAX_SLOPE_LEFT = 0.9  # A Newton step may leave this share of the slope.
_MAX_OVERSHOOT = 0.25  # A step past the top may meet this share of the slope, downwards.
_SHORTEST = 1e-6  # A step that is halved to less of itself leads nowhere.
_MAX_GROWTH = 10.0  # A mirror step under which the residual grows more has overshot.
_MIN_GAMMA = 1e-3  # Step sizes are not halved below this.


class Gaussian(NamedTuple):
    """Mean of shape (d,) and lower Cholesky factor of the covariance, shape (d, d)."""

    mean: np.ndarray
    chol: np.ndarray


@phase("Laplace approximation")
def laplace(model, batches, start, b=1.0, max_iter=100, tol=1e-6):
    """Mode of the log joint density by Newton's method, and the curvature there.

    A step is halved until the slope along it has fallen, so a log-concave posterior is climbed from
    anywhere. Steps end where the next would be shorter than ``tol`` standard deviations. The
    `Gaussian` returned has its mean at the mode and the inverse negative Hessian as covariance.

    The model offers ``gaussian_target``, ``start`` has the shape (d,), and b is the power of the
    likelihood.
    """

    def target(mean):
        return model.gaussian_target(mean, None, batches, b)

    def solve(at):
        return cho_solve(cho_factor(at[1], lower=True), at[0])

    mean, (_, precision), _ = newton(target, solve, start, target(start), max_iter, tol)
    return Gaussian(mean, chol_of_inverse(precision))


def newton(target, solve, mean, at, max_iter, tol):
    """Newton's method for a gradient of zero: the end, what the target is there, and if it is one.

    ``target`` maps a mean (d,) to a tuple whose first entry is the gradient, ``at`` is that of the
    first mean, and ``solve`` maps such a tuple to the step. Steps end where the next would be
    shorter than ``tol``. The last value says whether they did.
    """
    for _ in range(max_iter):
        with np.errstate(over="ignore", invalid="ignore"):
            move = solve(at)
            slope = at[0] @ move  # The squared length of the step, in standard deviations.
        if not np.isfinite(slope):  # Numbers have overflowed.
            return mean, at, False
        if slope < tol**2:
            return mean, at, True
        length, overshot = 1.0, False
        while True:
            ahead = target(mean + length * move)
            # The slope ahead says more than a value could: values of many rows round first.
            # A step far past the top may end lower than it began: Newton then runs in circles.
            left = ahead[0] @ move / slope
            if -_MAX_OVERSHOOT < left < _MAX_SLOPE_LEFT or length < _SHORTEST:
                break
            # The half of one that was too long may be short of the top: a shorter one is no better.
            if overshot and left >= _MAX_SLOPE_LEFT:
                break
            overshot |= bool(left <= -_MAX_OVERSHOOT)
            length *= 0.5
        mean, at = mean + length * move, ahead
        if length < _SHORTEST:  # The next would be as short.
            break
    return mean, at, False


@phase("Gaussian mirror descent")
def variational_mirror_descent(model, batches, start, b=1.0, max_iter=20, tol=1e-3):
    """Gaussian mirror descent from a Gaussian near the posterior, such as `laplace`.

    Steps end where the mean moves by less than ``tol`` standard deviations; the last iterate is
    returned. Other arguments are as of `laplace`.
    """
    gamma = 1.0
    gradient, target = model.gaussian_target(start.mean, start.chol @ start.chol.T, batches, b)
    q, precision = start, target
    if not np.isfinite(gradient).all():  # Numbers have overflowed, so wide is the Gaussian.
        return start
    for _ in range(max_iter):
        while True:
            mixed = (1.0 - gamma) * precision + gamma * target
            move = cho_solve(cho_factor(mixed, lower=True), gradient)
            ahead = Gaussian(q.mean + gamma * move, chol_of_inverse(mixed))
            new = model.gaussian_target(ahead.mean, ahead.chol @ ahead.chol.T, batches, b)
            # Residuals in posterior standard deviations.
            size, size_ahead = np.sqrt(gradient @ move), np.linalg.norm(ahead.chol.T @ new[0])
            if size_ahead < _MAX_GROWTH * size or size < tol or gamma < _MIN_GAMMA:
                break
            gamma *= 0.5
        if not np.isfinite(size_ahead):
            break
        q, precision, (gradient, target) = ahead, mixed, new
        if size < tol:
            break
        # A residual that does not shrink asks for shorter steps.
        gamma = 0.5 * gamma if size_ahead > 0.9 * size else min(1.0, 1.5 * gamma)
    return q


def chol_of_inverse(precision):
    """Lower Cholesky factor of the inverse of a symmetric positive definite matrix."""
    inverse = np.linalg.inv(precision)
    return np.linalg.cholesky(0.5 * (inverse + inverse.T))
