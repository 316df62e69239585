"""Sinh-arcsinh proposals: skewness of a posterior, from third derivatives and a few slices."""

from functools import cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import t as student

from skpmd._runtime.call import phase
from skpmd.engine.importance import AXIS_DF, Proposal

_NODES = np.linspace(-4.0, 4.0, 33)
_FINE = np.linspace(-4.0, 4.0, 401)
_MIN_SKEW = 0.1  # Axes with less skewness stay normal.
_GRID = np.linspace(-2.0, 2.0, 81)  # This is a grid of epsilon of the sinh-arcsinh map.
_WIDER = 1.04  # A marginal is wider than the slice: of 1.0 to 1.15 this had the best ESS.


@phase("skewness along axes")
def skewed(gaussian, model, log_joint, batches, b=1.0):
    """Give a Gaussian the skewness and the scale of the posterior along its most skewed axes.

    The model names the axes, by ``skew_axes(mean, chol, batches, b) -> (rotation, skewness)``; the
    log joint density on a slice along each then gives standard deviation and skewness of that
    slice, which the sinh-arcsinh map reproduces. The location stays: along skewed axes a slice
    through the mean is shifted where the marginal is not.

    ``log_joint`` maps theta of shape (m, d) to (m,), and b is the power of the likelihood. Where
    the posterior has no skewed axis, the `Proposal` has none.
    """
    rotation, skewness = model.skew_axes(gaussian.mean, gaussian.chol, batches, b)
    axes = np.flatnonzero(np.abs(skewness) > _MIN_SKEW)
    if not axes.size:
        return Proposal(gaussian.mean, gaussian.chol)
    return along(gaussian.mean, gaussian.chol @ rotation, axes, log_joint)


def along(mean, factor, axes, log_joint):
    """A `Proposal` with the scale and the skewness of slices along some columns of a factor."""
    points = mean + _NODES[None, :, None] * factor.T[axes][:, None, :]
    values = log_joint(points.reshape(-1, len(factor))).reshape(len(axes), -1)
    scale, skewness = _slice_moments(values)
    return skewed_by(mean, factor, axes, skewness, _WIDER * scale)


def skewed_by(mean, factor, axes, skewness, scale=None):
    """A `Proposal` with these skewnesses and scales (by default 1) along some columns."""
    scale = np.ones(len(axes)) if scale is None else scale
    epsilon = np.interp(skewness, _skewness_on_grid(), _GRID)
    centre, spread, _ = _sinh_arcsinh_moments(epsilon)
    return Proposal(
        mean, factor, axes=axes, epsilon=epsilon, scale=scale, centre=centre, spread=spread
    )


def most_skewed(rows, third, max_iter=30):
    """Rotation that maximises the sum of squared diagonal entries of sum_n third_n x_n x_n x_n."""
    rotation, last = np.eye(rows.shape[1]), 0.0
    for _ in range(max_iter):
        contracted = rows.T @ (third * (rows @ rotation) ** 2)
        skewness = (rotation * contracted).sum(axis=0)
        if skewness @ skewness <= 1.001 * last:
            break
        last = skewness @ skewness
        # The shift keeps axes without skewness where they are: their polar factor would
        # otherwise be decided by rounding.
        shift = 0.1 * np.max(skewness**2)
        left, _, right = np.linalg.svd(contracted * skewness + shift * rotation)
        rotation = left @ right
    return rotation


@cache
def _skewness_on_grid():
    return _sinh_arcsinh_moments(_GRID)[2]


def _slice_moments(values):
    """Standard deviation and skewness of densities given by log values at the nodes."""
    values = np.maximum(values - values.max(axis=1, keepdims=True), -700.0)
    density = np.exp(CubicSpline(_NODES, values, axis=1)(_FINE))
    density /= density.sum(axis=1, keepdims=True)
    centred = _FINE - density @ _FINE[:, None]
    sd = np.sqrt((density * centred**2).sum(axis=1))
    return sd, (density * centred**3).sum(axis=1) / sd**3


def _sinh_arcsinh_moments(epsilon):
    """Mean, standard deviation and skewness of sinh(arcsinh(Z) + epsilon), Z as in a proposal."""
    x = np.linspace(-6.0, 6.0, 301)  # The trapezoidal rule in arcsinh(Z) is exact to rounding.
    density = student.pdf(np.sinh(x), AXIS_DF) * np.cosh(x)
    density /= density.sum()
    values = np.sinh(x + np.asarray(epsilon)[:, None])
    mean = values @ density
    centred = values - mean[:, None]
    sd = np.sqrt(centred**2 @ density)
    return mean, sd, centred**3 @ density / sd**3
