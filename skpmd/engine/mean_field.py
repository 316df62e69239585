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
from scipy.sparse.linalg import LinearOperator, cg

from skpmd._runtime.call import phase
from skpmd.engine.loop import resumable
from skpmd.engine.variational import newton

# A step shorter than this is the last; its length is the Euclidean norm in standard deviations.
_SHORT = 0.02
# Newton's method takes so many steps at most.
_MAX_STEPS = 200
# Conjugate gradients stop at this share of the first residual, or after so many products.
_RESIDUAL, _MAX_PRODUCTS = 0.1, 200
# Mirror steps end after so many means in a row that Newton's method has not found: five rows took
# 80 s.
_MAX_UNSOLVED = 2
_MIN_PRECISION = 1e-100  # Smaller precisions are as good as none, and have no inverse.


class DiagonalTarget(NamedTuple):
    """What the log joint density is on average under N(mean, diag(variance))."""

    gradient: np.ndarray  # (d,): E[grad log p].
    precision: np.ndarray  # (d,): E[-d2 log p / d theta_j2], positive.
    # u of shape (d,) -> E[-Hessian log p] u, or a positive definite stand-in with about that
    # diagonal: it decides how fast the mean arrives, and not where.
    product: object


class MeanFieldStep(NamedTuple):
    """Size of a step, and the largest change of a log precision that a whole one would make."""

    step_size: float
    change: float


class MeanField(NamedTuple):
    """A complete state of `mean_field_mirror_descent`."""

    # (d,): The Gaussian; the expected gradient at its mean is zero under its variances.
    mean: np.ndarray
    variance: np.ndarray
    infos: list  # A record of each step, as of `skpmd.engine.loop.Outcome`.
    converged: bool  # Whether the last change was small, and the mean has converged.
    interrupted: bool = False  # Whether Ctrl-C ended it.
    out_of_time: bool = False  # Whether ``max_time`` did.


def mean_field_mirror_descent(target, d, max_iter=50, tol=0.02):
    """Gaussian mirror descent in the diagonal family, from zero and the curvature there.

    ``target`` maps (mean, variance), of shape (d,) each, to a `DiagonalTarget`; a variance of None
    asks for the values at the mean itself. There are ``max_iter`` mirror steps at most, and they
    end where no log precision would change by more than ``tol``. Yields the `MeanField` of each for
    `skpmd.engine.loop.drive`.
    """

    def states(at):
        if at is None:
            at = np.zeros(d), target(np.zeros(d), None).precision, 1.0, 0.0, 0, None, False
        mean, precision, gamma, last, unsolved, found, done = at
        infos = [] if found is None else found.infos
        if found is not None:
            yield found, None
        while len(infos) < max_iter and not done:
            mean, ahead, arrived = _climb(target, mean, 1.0 / precision)
            unsolved = 0 if arrived else unsolved + 1
            change = np.log(ahead.precision / precision)
            if np.sum(change * last) < 0.0:
                gamma *= 0.5  # A change that takes back the one before needs shorter steps.
            info = MeanFieldStep(gamma, float(np.abs(change).max()))
            infos = [*infos, info]
            found = MeanField(mean, 1.0 / precision, [info], arrived and info.change < tol)
            done = info.change < tol or unsolved == _MAX_UNSOLVED
            if not done:
                precision, last = (1.0 - gamma) * precision + gamma * ahead.precision, change
            so_far = found._replace(infos=infos)
            yield found, (mean, precision, gamma, last, unsolved, so_far, done)
        if not done:
            mean, *_ = _climb(target, mean, 1.0 / precision)
            yield MeanField(mean, 1.0 / precision, [], False), None

    return resumable(states)


@phase("Newton's method")
def _climb(target, mean, variance):
    """Newton's method for E_q[grad log p] = 0 at fixed variances: (mean, target, arrived)."""

    def floored(mean):
        at = target(mean, variance)
        return at._replace(precision=np.maximum(at.precision, _MIN_PRECISION))

    return newton(floored, _solve, mean, floored(mean), _MAX_STEPS, _SHORT)


def _solve(at):
    """Solve product(x) = gradient loosely by conjugate gradients, in units of 1 / sqrt(precision).

    In these units the matrix has about a unit diagonal, and the residual that ends the iteration is
    measured in standard deviations.
    """
    scale, d = 1.0 / np.sqrt(at.precision), len(at.gradient)
    scaled = LinearOperator((d, d), lambda u: scale * at.product(scale * u), dtype=float)
    x, _ = cg(scaled, scale * at.gradient, rtol=_RESIDUAL, maxiter=_MAX_PRODUCTS)
    return scale * x
