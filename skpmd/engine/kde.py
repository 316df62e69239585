"""Rejuvenation: a weighted kernel density estimate with shrinkage, to draw from and to evaluate.

Centres move towards the weighted mean and the kernels are as wide as what that takes from the
covariance (Liu and West 2001): with whitened kernel covariance H, centres are multiplied by
(I - H)^(1/2), so the estimate has the mean and the covariance of the particles at every bandwidth.
At H = I it is one Gaussian (or one Epanechnikov bump). How wide kernels are is up to rules.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd.engine import kernel_sums
from skpmd.engine.particles import (
    effective_sample_size,
    log_weights,
    moments,
    random_draws,
    resample,
    squared_distances,
    weights,
    whitened,
)

KERNELS = ("gaussian", "epanechnikov")
_NODES, _ROUNDS = 7, 20  # Of a match of moments.
_CHUNK = 1 << 18  # So many pairwise values are held at once.
_GRID = np.array([0.03, 0.05, 0.08, 0.13, 0.2, 0.32, 0.5, 0.75, 1.0])
_MAX_SCORED = 1024  # The leave-one-out score is averaged over so many particles, at most,
_MIN_SCORED = 256  # and over so many, if there are, though that be more than
_MAX_PAIRS = 8_000_000  # so many distances.
_PER_NUMBER = 50  # With fewer of them for each number of a shape, half learn it and half judge it.
_MIN_GAIN = 1e-4  # The search for a shape ends where it gains less, in nats.
_PATIENCE = 3  # The search stops after so many narrower bandwidths that score worse.
_MAX_ITER = 15  # The kernel's shape is refined so many times, at most.
_NARROWEST = 1e-3  # This is the smallest bandwidth along any axis, in whitened units.


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
    ``bandwidth``, ``factor`` and ``smoothness`` see `kernel_covariance`.

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


# ------------------------------------------------------------------- how wide the kernels are
def kernel_covariance(white, log_w, rule, factor, smoothness, shrinkage):
    """Covariance of the kernels in whitened coordinates, shape (d, d).

    The particles ``white``, of shape (m, d), have weighted mean 0 and covariance I; their log
    weights are normalised. With ``shrinkage`` centres will be shrunk: the leave-one-out score
    depends on it, and eigenvalues are then in (0, 1].

    A float as ``rule`` is h itself: the covariance is h^2 I. ``factor`` multiplies h of the rules
    ``"theorem"``, ``"scott"``, ``"silverman"`` and ``"median"``, and ``smoothness`` is beta of the
    theorem's rule h = factor * m^(-1/(d + 2 beta)).
    """
    d = white.shape[1]
    if rule == "loo":
        return _leave_one_out(white, log_w, shrinkage)
    h = rule if not isinstance(rule, str) else factor * _RULES[rule](white, log_w, smoothness)
    if shrinkage:
        h = min(h, 1.0)  # At a larger width no shrinkage gives the covariance back.
    return h**2 * np.eye(d)


def shrink_matrix(covariance, shrinkage):
    """The map A that moves centres so that A A' + kernel covariance = I (Liu and West 2001)."""
    d = len(covariance)
    if not shrinkage:
        return np.eye(d)
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(1.0 - values, 0.0))) @ vectors.T


def _leave_one_out(white, log_w, shrinkage):
    """Kernel covariance with the best weighted leave-one-out log score of a Gaussian kernel.

    A multiple of the identity is chosen on a grid; expectation maximisation then shapes it
    (each pair's distance counts with its responsibility), over-relaxed. It follows the shape of
    a mode, which under several modes is not that of the whole. The shape has d (d + 1) / 2 numbers:
    where these are many it is learnt from other particles than those that judge it.
    """
    d = white.shape[1]
    if len(white) < 3:
        return np.eye(d)  # Nothing is left once a point is left out.
    judges, teachers = _samples(weights(log_w), d * (d + 1) // 2)
    one_gaussian = _score(white, log_w, np.eye(d), judges, shrinkage)
    best, best_score, worse = None, -np.inf, 0
    for h in _GRID[-2::-1]:
        covariance = h**2 * np.eye(d)
        score = _score(white, log_w, covariance, judges, shrinkage)
        if score > best_score:
            best, best_score = covariance, score
            worse = 0 if score > one_gaussian else worse + 1
        else:
            worse += 1
        if worse == _PATIENCE:
            break
    if best is None:
        return np.eye(d)  # No kernel but the widest reaches from one particle to another.
    relaxation, refined = 1.0, None
    for _ in range(_MAX_ITER):
        if refined is None:
            refined = _refined(white, log_w, best, teachers, shrinkage)
        proposal = _relax(best, refined, relaxation)
        score = _score(white, log_w, proposal, judges, shrinkage)
        if score > best_score:
            gain, best, best_score, refined = score - best_score, proposal, score, None
            relaxation *= 1.5
            if gain < _MIN_GAIN or best_score < one_gaussian:
                break
        elif relaxation == 1.0:
            break
        else:
            relaxation = 1.0
    return best if best_score > one_gaussian else np.eye(d)


def _samples(w, n_numbers):
    """Particles that judge a shape and that teach it: (their numbers, how much each counts).

    They are the same where a shape has few numbers to learn, and otherwise have no particle in
    common. A particle is included with a probability in proportion to its weight, up to 1:
    systematic sampling without replacement, in the order of the weights and without randomness.
    """
    order = np.argsort(-w, kind="stable")
    # Particles with more than a fair share of the weight that is left are included for sure.
    rest = w[order][::-1].cumsum()[::-1]
    n = min(len(w), _MAX_SCORED, max(_MIN_SCORED, _MAX_PAIRS // len(w)))
    sure = int(np.argmax((n - np.arange(len(w))) * w[order] <= rest))
    step = rest[sure] / (n - sure)
    places = (np.arange(n - sure) + 0.5) * step
    others = sure + np.searchsorted(w[order][sure:].cumsum(), places)
    others = np.minimum(others, len(w) - 1)
    chosen = np.concatenate([np.arange(sure), others])
    counts = np.concatenate([w[order][:sure], np.full(n - sure, step)])
    if n >= _PER_NUMBER * n_numbers:
        return ((order[chosen], counts),) * 2
    judges = np.zeros(n, dtype=bool)
    judges[::2] = True
    return ((order[chosen[part]], counts[part]) for part in (judges, ~judges))


def _scaled(white, log_w, covariance, scored, shrinkage):
    """Points and tiles of centres in the kernel's units, its root, and the centres as they are."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.clip(values, _NARROWEST**2, None))
    centres = white @ shrink_matrix(covariance, shrinkage)
    tiles = kernel_sums.tiled(centres @ vectors / root, log_w)
    return white[scored] @ vectors / root, tiles, root, vectors, centres


def _score(white, log_w, covariance, sample, shrinkage):
    """Weighted leave-one-out log score."""
    scored, counts = sample
    points, tiles, root, *_ = _scaled(white, log_w, covariance, scored, shrinkage)
    log_sums = kernel_sums.log_sums(tiles, points, scored)
    # Leaving centre j out renormalises the other weights by 1 - w_j.
    log_scores = log_sums - np.log1p(-np.minimum(np.exp(log_w[scored]), 1.0 - 1e-12))
    return counts @ log_scores / counts.sum() - np.log(root).sum()


def _refined(white, log_w, covariance, sample, shrinkage):
    """The covariance of one EM update."""
    scored, counts = sample
    w = counts / counts.sum()
    points, tiles, root, vectors, centres = _scaled(white, log_w, covariance, scored, shrinkage)
    _, means, totals = kernel_sums.responsibilities(tiles, points, w, scored)
    points, means = white[scored], (means * root) @ vectors.T
    cross = (points.T * w) @ means
    update = (points.T * w) @ points - cross - cross.T
    update += (centres.T * totals[: len(centres)]) @ centres
    return update


def _relax(old, new, power):
    """Move from one covariance towards another along the geodesic: old (old^-1 new)^power."""
    values, vectors = np.linalg.eigh(old)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    change, axes = np.linalg.eigh(inverse @ new @ inverse)
    moved = root @ (axes * np.maximum(change, 1e-12) ** power) @ axes.T @ root
    values, vectors = np.linalg.eigh(moved)
    return (vectors * np.clip(values, _NARROWEST**2, 1.0)) @ vectors.T


def _theorem(white, log_w, smoothness):
    m, d = white.shape
    return m ** (-1.0 / (d + 2.0 * smoothness))


def _scott(white, log_w, smoothness):
    return effective_sample_size(log_w) ** (-1.0 / (white.shape[1] + 4))


def _silverman(white, log_w, smoothness):
    d = white.shape[1]
    return (effective_sample_size(log_w) * (d + 2) / 4.0) ** (-1.0 / (d + 4))


def _median(white, log_w, smoothness):
    """0.1 times the median pairwise distance (the paper's appendix H), or else Scott's rule."""
    pick = random_draws(weights(log_w), min(len(white), 500), np.random.default_rng(0))
    squared = squared_distances(white[pick], white[pick])
    apart = squared[np.triu_indices(len(pick), 1)]
    # One particle, or copies of it, have no distance.
    middle = np.median(apart) if len(apart) else 0.0
    return 0.1 * np.sqrt(middle) if middle > 0.0 else _scott(white, log_w, smoothness)


_RULES = {"theorem": _theorem, "scott": _scott, "silverman": _silverman, "median": _median}
BANDWIDTH_RULES = ("loo", *_RULES)
