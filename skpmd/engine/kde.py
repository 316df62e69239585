"""Rejuvenation: a weighted kernel density estimate with shrinkage, to draw from and to evaluate.

Centres move towards the weighted mean and the kernels are as wide as what that takes from the
covariance (Liu and West 2001): with whitened kernel covariance H, centres are multiplied by
(I - H)^(1/2), so the estimate has the mean and the covariance of the particles at every bandwidth.
At H = I it is one Gaussian (or one Epanechnikov bump).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd.engine import kernel_sums
from skpmd.engine.bandwidth import kernel_covariance, shrink_matrix
from skpmd.engine.particles import log_weights, moments, resample, weights, whitened

KERNELS = ("gaussian", "epanechnikov")
_NODES, _ROUNDS = 7, 20  # Of a match of moments.
_CHUNK = 1 << 18  # So many pairwise values are held at once.


class KDE(NamedTuple):
    """A weighted kernel density estimate, theta = mean + factor @ z.

    The coordinates z are whitened, turned to the axes of the kernel and divided by its width, so
    that every kernel has covariance I in them.
    """

    centres: np.ndarray  # (m, d): Kernel centres in z, already shrunk.
    log_weights: np.ndarray  # (m,): Normalised log weights of the centres.
    mean: np.ndarray  # (d,): Weighted mean of the particles.
    factor: np.ndarray  # (d, d): Square root of the kernels' covariance in theta.
    covariance_factor: np.ndarray  # (d, d): Square root of the particles' covariance.
    bandwidth: float  # Geometric mean over axes of the kernel's width relative to the particles'.
    kernel: str  # {"gaussian", "epanechnikov"}: Kernel.
    source: np.ndarray  # (m,) int: Index of the particle behind each centre.


def fit(
    theta,
    log_ratio,
    *,
    bandwidth="loo",
    factor=1.0,
    smoothness=1.0,
    kernel="gaussian",
    shrinkage=True,
):
    """Fit the estimate to weighted particles.

    ``theta`` has the shape (m, d), and ``log_ratio`` are log weights (m,) up to a constant. For
    ``bandwidth``, ``factor`` and ``smoothness`` see `skpmd.engine.bandwidth.kernel_covariance`.

    Epanechnikov has the compact support that Theorem 6 assumes. Both kernels are scaled to the
    kernel covariance, at which they are interchangeable to about 1 % of bandwidth (their canonical
    bandwidths; Wand and Jones 1995, section 2.7). Without shrinkage the estimate is wider than q,
    as in the published algorithm.
    """
    theta, log_ratio, source = _distinct(theta, log_ratio)
    mean, cov = moments(theta, log_ratio)
    chol = cholesky(cov)
    white = whitened(theta, mean, chol)
    log_w = log_weights(log_ratio)
    covariance = kernel_covariance(white, log_w, bandwidth, factor, smoothness, shrinkage)
    values, vectors = np.linalg.eigh(covariance)
    width = np.sqrt(values)
    centres = white @ shrink_matrix(covariance, shrinkage) @ vectors / width
    return KDE(
        np.ascontiguousarray(centres),
        log_w,
        mean,
        chol @ vectors * width,
        chol,
        float(np.exp(np.log(width).mean())),
        kernel,
        source,
    )


def sample(kde, n, scheme, rng):
    """Draw n points; returns (points of shape (n, d), index of its ancestor)."""
    ancestors = resample(scheme, np.exp(kde.log_weights), n, rng)
    d = len(kde.mean)
    noise = rng.standard_normal((n, d))
    if kde.kernel == "epanechnikov":
        # Radius squared / (d + 4) ~ Beta(d / 2, 2): density proportional to 1 - radius^2.
        radius = np.sqrt((d + 4) * rng.beta(d / 2, 2.0, n))
        noise *= (radius / np.linalg.norm(noise, axis=1))[:, None]
    return kde.mean + (kde.centres[ancestors] + noise) @ kde.factor.T, kde.source[ancestors]


def log_density(kde, theta):
    """Log density of the estimate at each row of theta, shape (n,)."""
    points = np.linalg.solve(kde.factor, (theta - kde.mean).T).T
    log_det = np.linalg.slogdet(kde.factor)[1]
    if not kde.centres.any():  # At full shrinkage every kernel is the same.
        return _log_kernel(np.einsum("ij,ij->i", points, points), kde) - log_det
    if kde.kernel == "gaussian":
        tiles = kernel_sums.tiled(kde.centres, kde.log_weights)
        log_constant = 0.5 * len(kde.mean) * np.log(2.0 * np.pi)
        return kernel_sums.log_sums(tiles, points) - log_constant - log_det
    reach = np.sqrt(len(kde.mean) + 4.0)
    sums = kernel_sums.compact_log_sums(kde.centres, kde.log_weights, points, reach)
    return sums + _log_kernel(np.zeros(1), kde) - log_det


def gradient(kde, theta):
    """Gradient of the log of the estimate at each row of theta, (n, d), with Gaussian kernels."""
    points = np.linalg.solve(kde.factor, (theta - kde.mean).T).T
    out, step = np.empty_like(points), max(1, _CHUNK // len(kde.centres))
    squares = 0.5 * np.einsum("ij,ij->i", kde.centres, kde.centres)
    for start in range(0, len(points), step):
        some = points[start : start + step]
        table = some @ kde.centres.T + (kde.log_weights - squares)
        table = np.exp(table - table.max(axis=1, keepdims=True))
        table /= table.sum(axis=1, keepdims=True)
        out[start : start + step] = table @ kde.centres - some
    return np.linalg.solve(kde.factor.T, out.T).T


def matched(kde, free, mean, std):
    """The estimate in coordinates u of `Unbounded`, moved so that theta has these moments, (d,).

    Each coordinate with an edge is shifted and stretched. An estimate that has the moments of u has
    more of theta beyond an edge far away: of an exponential distribution 1.06 times the standard
    deviation. Each marginal density is a mixture of normals, of which quadrature knows the moments.
    """
    nodes, of_nodes = np.polynomial.hermite_e.hermegauss(_NODES)
    width, w = np.linalg.norm(kde.factor, axis=1), np.exp(kde.log_weights)
    apart = (kde.centres @ kde.factor.T + nodes[:, None, None] * width).reshape(-1, len(mean))
    w = np.outer(of_nodes / of_nodes.sum(), w).ravel()
    some = free.bounded & (std > 0.0)
    unit, reach = np.where(some, std, 1.0), 0.5 * np.sqrt(w @ apart**2)
    shift, stretch, least = np.zeros(len(mean)), np.ones(len(mean)), np.full(len(mean), np.inf)
    found = shift, stretch
    for _ in range(_ROUNDS):  # Newton steps, none of them long.
        theta, slope = free.with_slope(kde.mean + shift + stretch * apart)
        centred = theta - w @ theta
        variance = np.maximum(w @ centred**2, np.finfo(float).tiny)
        of_mean, of_log_std = (mean - w @ theta) / unit, np.log(unit) - 0.5 * np.log(variance)
        closer = some & (np.hypot(of_mean, of_log_std) < least)
        least = np.where(closer, np.hypot(of_mean, of_log_std), least)
        found = tuple(np.where(closer, *pair) for pair in zip((shift, stretch), found, strict=True))
        of_stretch = slope * stretch * apart
        a, b = w @ slope / unit, w @ of_stretch / unit
        c, d = (w @ (centred * one) / variance for one in (slope, of_stretch))
        determinant = np.where(some & (a * d != b * c), a * d - b * c, np.inf)
        moved = (d * of_mean - b * of_log_std) / determinant
        stretched = (a * of_log_std - c * of_mean) / determinant
        shift = shift + np.clip(moved, -reach, reach)
        stretch = stretch * np.exp(np.clip(stretched, -0.5, 0.5))
    shift, stretch = found
    return kde._replace(mean=kde.mean + shift, factor=stretch[:, None] * kde.factor)


def _distinct(theta, log_ratio):
    """Particles with a weight, copies merged into one (a copy would be its own near neighbour)."""
    w = weights(log_ratio)
    source = np.flatnonzero(w > 0.0)
    _, first, copy_of = np.unique(theta[source], axis=0, return_index=True, return_inverse=True)
    if len(first) == len(source):
        return theta[source], log_ratio[source], source
    order = np.argsort(first)  # The order of the particles is kept.
    merged = np.log(np.bincount(copy_of.ravel(), w[source]))
    return theta[source[first[order]]], merged[order], source[first[order]]


def cholesky(cov):
    """Cholesky factor of a covariance that may be singular (fewer live particles than axes)."""
    scale = np.sqrt(np.maximum(np.diag(cov), np.finfo(float).tiny))
    correlation = cov / np.outer(scale, scale)
    jitter = 0.0
    while True:
        try:
            return scale[:, None] * np.linalg.cholesky(correlation + jitter * np.eye(len(cov)))
        except np.linalg.LinAlgError:
            jitter = max(1e-10, 10.0 * jitter)


def _log_kernel(squared, kde):
    """Log of the d-dimensional kernel of covariance I at squared distances."""
    d = len(kde.mean)
    if kde.kernel == "gaussian":
        return -0.5 * squared - 0.5 * d * np.log(2 * np.pi)
    support = d + 4  # At this squared radius the covariance is I.
    log_volume = 0.5 * d * np.log(np.pi * support) - gammaln(0.5 * d + 1)
    with np.errstate(divide="ignore"):
        inside = np.log(np.maximum(1.0 - squared / support, 0.0))
    return np.log(0.5 * (d + 2)) - log_volume + inside
