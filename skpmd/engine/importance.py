"""Importance proposals, skewed ones too: several densities that particles are drawn from at once.

Proposals (Laplace, Gaussian mirror, skewed versions of both, Student tails) are mixed, never
chosen between: all draws of all rounds are weighted by the one mixture they came from
(deterministic mixture weights, Owen and Zhou 2000; adaptive rounds, Cornuet et al. 2012). That
mixture is pi, and the step on it has a = b = 1, so log-mean-exp of r estimates the log evidence.
Along some axes a proposal may be skewed as the posterior is, by third derivatives and a few slices.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import lu_factor, lu_solve
from scipy.special import chdtri, gammaln, ndtr, ndtri, stdtrit
from scipy.stats import t as student
from scipy.stats.qmc import Sobol

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine.particles import (
    Particles,
    Rejuvenated,
    effective_sample_size,
    moments,
    weights,
)

TAIL_DF = 5.0  # Degrees of freedom of what has the Student tails that bound weights.
AXIS_DF = 25.0  # Degrees of freedom of the Student tails along skewed axes.
MAX_DISAGREEMENT = 6.0  # Proposals that disagree more on a mean, in standard errors, have failed.
_RESOLUTION = 0.005  # A disagreement has no smaller standard error, in posterior sds.
_LARGEST = 1e100  # No coordinate of a draw is larger.
# Shares of each proposal, or of all together: they bound the weights where others are thin.
_MIN_SHARE, _MIN_SHARES = 0.05, 0.25
_BITS = 30
_FURTHEST = 7.0  # No point is further out than this many standard deviations.
_NODES = np.linspace(-4.0, 4.0, 33)
_FINE = np.linspace(-4.0, 4.0, 401)
_MIN_SKEW = 0.1  # Axes with less skewness stay normal.
_GRID = np.linspace(-2.0, 2.0, 81)  # This is a grid of epsilon of the sinh-arcsinh map.
_WIDER = 1.04  # A marginal is wider than the slice: of 1.0 to 1.15 this had the best ESS.


class Proposal(NamedTuple):
    """theta = mean + factor @ u with u_j = skewed and scaled z_j, z standard normal or Student.

    The axes listed in ``axes`` are skewed by the sinh-arcsinh map of Jones and Pewsey (2009),
    u = scale * (sinh(arcsinh(z) + epsilon) - centre) / spread, with centre and spread such that
    u has mean 0 and standard deviation ``scale``. Its inverse and its Jacobian are closed
    forms. Along these axes z is Student with 25 degrees of freedom, each by itself: that costs
    little (0.005 nats an axis), and a draw far out on a skewed side no longer carries the weight of
    dozens (the largest of 8000 weights fell from 20-85 to 10-28 times the mean on a posterior with
    d = 58, over ten seeds).
    """

    mean: np.ndarray  # (d,): Mean.
    factor: np.ndarray  # (d, d): Any square root of the covariance.
    # Degrees of freedom of the multivariate Student tails along all other axes; inf for normal.
    df: float = np.inf
    # (s,) int: Columns of ``factor`` along which the proposal is skewed.
    axes: np.ndarray = np.empty(0, dtype=int)
    # (s,): The map of each of them.
    epsilon: np.ndarray = np.empty(0)
    scale: np.ndarray = np.empty(0)
    centre: np.ndarray = np.empty(0)
    spread: np.ndarray = np.empty(0)
    # What takes its coordinates to those of the model, `skpmd.proposals.non_centred.Hierarchy`.
    hierarchy: Any = None


class PooledDraws(NamedTuple):
    """Draws of all rounds, weighed by the mixture over all of them."""

    particles: Particles  # All draws with r = log joint - log pi, pi the mixture over all rounds.
    pair: np.ndarray  # (m,) int: Label of each draw's antithetic pair.
    source: np.ndarray  # (m,) int: Index of the proposal that each draw came from.
    table: np.ndarray  # (m, K): Log density of each draw under each proposal.
    counts: np.ndarray  # (K,): Draws from each proposal.
    ess: float  # Effective sample size.


class ProposalDraws:
    """Strategy of rejuvenation: particles drawn from a mixture of proposals, which becomes pi.

    ``counts``, of shape (K,), holds even numbers, of draws to take from each of K proposals. After
    a call ``table``, (m, K), holds the log densities of the draws under each proposal.
    """

    def __init__(self, proposals, counts):
        self.proposals, self.counts, self.table = proposals, counts, None

    def __call__(self, particles, model, settings, rng, **_):
        """Fresh draws, r = 0; what the particles were before does not matter."""
        theta = _draw_each(self.proposals, self.counts, rng)
        self.table = _log_densities(self.proposals, theta)
        log_pi, m = _log_mixture(self.table, self.counts), len(theta)
        no_block = np.empty((m, 0))
        return Rejuvenated(Particles(theta, np.zeros(m), log_pi, model.log_prior(theta), no_block))


def pooled(before, particles, table, counts):
    """All draws so far and those of one more round, weighed by the mixture over all rounds.

    ``before`` is the `PooledDraws` of the rounds before, None in the first. ``particles`` are the
    draws of this round, weighed by the posterior, and ``table`` and ``counts`` are those of the
    `ProposalDraws` that they came from.
    """
    source, all_draws = np.repeat(np.arange(len(counts)), counts), particles
    if before is not None:
        table = np.concatenate([before.table, table])
        counts = before.counts + counts
        source = np.concatenate([before.source, source])
        log_joint = [one.log_ratio + one.log_pi for one in (before.particles, particles)]
        parts = zip(before.particles, particles, strict=True)
        all_draws = Particles(*(np.concatenate(part) for part in parts))
        log_pi = _log_mixture(table, counts)
        log_ratio = np.concatenate(log_joint) - log_pi
        all_draws = all_draws._replace(log_ratio=log_ratio, log_pi=log_pi)
    pair = np.arange(len(source)) // 2
    ess = effective_sample_size(all_draws.log_ratio)
    return PooledDraws(all_draws, pair, source, table, counts, ess)


def widened(draws, proposals):
    """The same `PooledDraws` beside further proposals, which come first and have drawn nothing."""
    more = _log_densities(proposals, draws.particles.theta)
    return draws._replace(
        source=draws.source + len(proposals),
        table=np.concatenate([more, draws.table], axis=1),
        counts=np.concatenate([np.zeros(len(proposals), dtype=int), draws.counts]),
    )


def since(draws, before):
    """Particles of the rounds after ``before``, weighed by the mixture of these alone."""
    m = len(before.source)
    particles = Particles(*(part[m:] for part in draws.particles))
    log_pi = _log_mixture(draws.table[m:], draws.counts - before.counts)
    log_joint = particles.log_ratio + particles.log_pi
    return particles._replace(log_ratio=log_joint - log_pi, log_pi=log_pi)


def draw(proposal, n, rng):
    """Draw n points (n even) as antithetic pairs z, -z; pairs are neighbours."""
    return _placed(proposal, uniforms(n // 2, len(proposal.mean) + 1, rng))


def _placed(proposal, uniform):
    """Pairs of draws, two for each of the uniform points (n, d + 1)."""
    z = normal(uniform[:, :-1])
    axes = proposal.axes
    along_axes = _AXIS_STUDENT(z[:, axes])
    if np.isfinite(proposal.df):
        z /= np.sqrt(chi_squared(uniform[:, -1], proposal.df) / proposal.df)[:, None]
    z[:, axes] = along_axes
    z = np.stack([z, -z], axis=1).reshape(-1, z.shape[1])
    skewed = np.sinh(np.arcsinh(z[:, axes]) + proposal.epsilon)
    z[:, axes] = proposal.scale * (skewed - proposal.centre) / proposal.spread
    theta = proposal.mean + z @ proposal.factor.T
    if proposal.hierarchy is None:
        return theta
    # Scales of scales overflow; so far out there is next to nothing of any posterior.
    theta, _ = proposal.hierarchy.with_jacobian(theta)
    return np.nan_to_num(theta, nan=_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)


def log_density(proposal, theta, lu=None):
    """Log density of a proposal at each row of theta, shape (n,).

    ``lu`` is that of its factor by `scipy.linalg.lu_factor`, for those who need it many times.
    """
    lu = lu_factor(proposal.factor) if lu is None else lu
    if proposal.hierarchy is not None:
        u, value = proposal.hierarchy.outward(theta), np.full(len(theta), -np.inf)
        inside = np.isfinite(u).all(axis=1)
        _, log_jacobian = proposal.hierarchy.with_jacobian(u[inside])
        of_u = log_density(proposal._replace(hierarchy=None), u[inside], lu)
        value[inside] = of_u - log_jacobian
        return value
    z, raw, skewed = _standardised(proposal, lu, theta)
    return _log_density(proposal, lu, z, raw, skewed)


def log_density_and_gradient(proposal, theta, lu):
    """Log density of a proposal at each row of theta, (n,), and its gradient, (n, d)."""
    axes = proposal.axes
    z, raw, skewed = _standardised(proposal, lu, theta)
    value = _log_density(proposal, lu, z, raw, skewed)
    rest = np.delete(z, axes, axis=1)
    if np.isfinite(proposal.df):
        squared = np.einsum("ij,ij->i", rest, rest)[:, None]
        slope = -(proposal.df + rest.shape[1]) / (proposal.df + squared) * z
    else:
        slope = -z
    of_skewed = -(AXIS_DF + 1.0) * skewed / (AXIS_DF + skewed**2) + skewed / (1.0 + skewed**2)
    by_raw = of_skewed * np.sqrt((1.0 + skewed**2) / (1.0 + raw**2)) - raw / (1.0 + raw**2)
    slope[:, axes] = by_raw * proposal.spread / proposal.scale
    return value, lu_solve(lu, slope.T, trans=1).T


def _standardised(proposal, lu, theta):
    """The axes' coordinates u of points, and along skewed ones the map's argument and its value."""
    z = lu_solve(lu, (theta - proposal.mean).T).T
    raw = z[:, proposal.axes] / proposal.scale * proposal.spread + proposal.centre
    return z, raw, np.sinh(np.arcsinh(raw) - proposal.epsilon)


def _log_density(proposal, lu, z, raw, skewed):
    log_jacobian = 0.5 * (np.log1p(skewed**2) - np.log1p(raw**2)).sum(axis=1)
    log_jacobian += np.log(proposal.spread / proposal.scale).sum()
    log_jacobian -= np.log(np.abs(np.diag(lu[0]))).sum()
    rest = np.delete(z, proposal.axes, axis=1)
    squared = np.einsum("ij,ij->i", rest, rest)
    log_axes = _log_student(skewed**2, 1, AXIS_DF).sum(axis=1)
    return log_jacobian + log_axes + _log_student(squared, rest.shape[1], proposal.df)


def _log_student(squared, d, df):
    """Log of the d-dimensional standard Student (normal at df = inf) at squared radii."""
    if not np.isfinite(df):
        return -0.5 * squared - 0.5 * d * np.log(2 * np.pi)
    normaliser = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
    return normaliser - 0.5 * (df + d) * np.log1p(squared / df)


def mixture_log_density(proposals, shares, theta):
    """Log density of a mixture of proposals at each row of theta, shape (n,)."""
    return _log_mixture(_log_densities(proposals, theta), np.asarray(shares))


def _draw_each(proposals, counts, rng):
    """Draws of all proposals, from successive parts of one sequence of uniform points."""
    pairs = np.asarray(counts) // 2
    uniform = uniforms(pairs.sum(), len(proposals[0].mean) + 1, rng)
    parts = np.split(uniform, np.cumsum(pairs)[:-1])
    return np.concatenate([_placed(*one) for one in zip(proposals, parts, strict=True)])


def _log_densities(proposals, theta):
    return np.stack(each(lambda proposal: log_density(proposal, theta), proposals), axis=1)


def _log_mixture(table, counts):
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(table + np.log(counts / counts.sum()), axis=1)


def adapted(draws):
    """Shares of the next round: one EM step on the mixture's fit to the weighted draws.

    Population Monte Carlo (Cappé et al. 2008). Only the shares move: refitting a mean and a
    covariance to the draws and weighing the same draws by them biases the evidence (by 0.1 nats at
    d = 58 and 2000 effective draws), the shares do not.
    """
    particles, counts = draws.particles, draws.counts
    w = weights(particles.log_ratio)
    shares = w @ np.exp(draws.table - particles.log_pi[:, None]) * counts / counts.sum()
    shares = np.maximum(shares / shares.sum(), min(_MIN_SHARE, _MIN_SHARES / len(shares)))
    return shares / shares.sum()


def even_counts(shares, n):
    """Even numbers of draws by largest remainders, summing to n rounded up to even."""
    pairs = shares * ((n + 1) // 2)
    counts = np.floor(pairs).astype(int)
    rest = (n + 1) // 2 - counts.sum()
    counts[np.argsort(counts - pairs, kind="stable")[:rest]] += 1
    return 2 * counts


def disagreement(draws, min_ess=50.0):
    """Largest gap between a proposal's own posterior means and the mixture's.

    Each proposal with an effective sample size of at least ``min_ess`` by its own density is held
    against the whole. The largest gap over proposals and coordinates is in standard errors; those
    of both estimates come from the sums over antithetic pairs, which are independent. The number of
    proposals that were held against the whole comes second.
    """
    particles = draws.particles
    log_joint = particles.log_ratio + particles.log_pi
    mean, variance = _mean_and_error(particles.theta, particles.log_ratio, draws.pair)
    # Pairs cancel on a symmetric posterior, and what is left is rounding: a gap of a few hundredths
    # of a posterior sd is no disagreement.
    floor = _RESOLUTION**2 * np.diag(moments(particles.theta, particles.log_ratio)[1])

    def of(k):
        own = draws.source == k
        log_ratio = log_joint[own] - draws.table[own, k]
        if not own.any() or effective_sample_size(log_ratio) < min_ess:
            return None
        own_mean, own_variance = _mean_and_error(particles.theta[own], log_ratio, draws.pair[own])
        gap, error = np.abs(own_mean - mean), np.sqrt(own_variance + variance + floor)
        # Squares of coordinates as small as 1e-300 vanish: there is no error to compare with.
        return float(np.divide(gap, error, out=np.zeros_like(gap), where=error > 0.0).max())

    gaps = [gap for gap in each(of, range(draws.table.shape[1])) if gap is not None]
    return max(gaps, default=0.0), len(gaps)


def _mean_and_error(theta, log_ratio, pair):
    """Weighted mean and its variance by the delta method, shape (d,) each."""
    w = weights(log_ratio)
    mean = w @ theta
    _, pair = np.unique(pair, return_inverse=True)
    residual = w[:, None] * (theta - mean)
    sums = np.stack([np.bincount(pair, column) for column in residual.T], axis=1)
    return mean, (sums**2).sum(axis=0)


def uniforms(n, d, rng):
    """Points (n, d) of a scrambled Sobol sequence, strictly between 0 and 1.

    Each point is uniform by itself, so that averages over the points are unbiased, but together
    they leave no gaps. Errors of importance reweighting between two Gaussians with 2000 points were
    a twentieth of those of independent draws in two dimensions, a tenth in ten and half in thirty
    (theory: Owen 1997).

    There are no more coordinates than SciPy's sequences have; others are independent.
    """
    known = min(d, Sobol.MAXDIM)
    # The sequence is asked for a power of two, of which the first n are taken: SciPy warns of other
    # numbers, which are less even but unbiased too.
    points = Sobol(known, bits=_BITS, rng=rng).random_base2(max(int(n) - 1, 0).bit_length())[:n]
    if known < d:
        points = np.hstack([points, rng.random((n, d - known))])
    return points * (1.0 - 0.5**_BITS) + 0.5 ** (_BITS + 1)


def normal(uniform):
    """Standard normal draws from uniform ones."""
    return ndtri(uniform)


def chi_squared(uniform, df):
    """Draws of a chi-squared distribution from uniform ones."""
    return chdtri(df, uniform)


def student_from_normal(df):
    """The function that turns normal draws into Student draws, by quantiles.

    It is a spline through exact quantiles, which take a hundred times as long: its relative error
    is below 1e-9.
    """
    left = np.linspace(-_FURTHEST, 0.0, 201)
    quantiles = stdtrit(df, ndtr(left))
    quantiles[-1] = 0.0
    return CubicSpline(
        np.concatenate([left, -left[-2::-1]]), np.concatenate([quantiles, -quantiles[-2::-1]])
    )


_AXIS_STUDENT = student_from_normal(AXIS_DF)


# ------------------------------------------------------------------- skewness
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
