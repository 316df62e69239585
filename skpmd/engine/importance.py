"""Importance sampling from several references at once: the polish step with a chosen pi.

References (Laplace, Gaussian mirror, skewed versions of both, Student tails) are mixed, never
chosen between: all draws of all rounds are weighted by the one mixture they came from
(deterministic mixture weights, Owen and Zhou 2000; adaptive rounds, Cornuet et al. 2012). That
mixture is pi, and the step on it has a = b = 1, so log-mean-exp of r estimates the log evidence.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.special import gammaln

from skpmd.engine.particles import Particles, effective_sample_size, moments, weights

AXIS_DF = 25.0  # Student tails along skewed axes
_HOPELESS = 0.01  # effective share of the draws, after two rounds, at which no further one is drawn
_RESOLUTION = 0.005  # posterior sds, least standard error of a disagreement
_FLOOR = 0.05  # least share of any reference: what bounds the weights where others are thin


class Proposal(NamedTuple):
    """theta = mean + factor @ u with u_j = skewed and scaled z_j, z standard normal or Student.

    The axes listed in ``axes`` are skewed by the sinh-arcsinh map of Jones and Pewsey (2009),
    u = scale * (sinh(arcsinh(z) + epsilon) - centre) / spread, with centre and spread such that
    u has mean 0 and standard deviation ``scale``. Its inverse and its Jacobian are closed
    forms. Along these axes z is Student with 25 degrees of freedom, each by itself: that costs
    little (0.005 nats an axis), and a draw far out on a skewed side no longer carries the weight of
    dozens (the largest of 8000 weights fell from 20-85 to 10-28 times the mean on a posterior with
    d = 58, over ten seeds).

    Attributes
    ----------
    mean : ndarray of shape (d,)
        Mean.
    factor : ndarray of shape (d, d)
        Any square root of the covariance.
    df : float
        Degrees of freedom of the multivariate Student tails along all other axes; inf for normal.
    axes : ndarray of shape (s,), int
        Columns of ``factor`` along which the reference is skewed.
    epsilon, scale, centre, spread : ndarray of shape (s,)
        The map of each of them.
    """

    mean: np.ndarray
    factor: np.ndarray
    df: float = np.inf
    axes: np.ndarray = np.empty(0, dtype=int)
    epsilon: np.ndarray = np.empty(0)
    scale: np.ndarray = np.empty(0)
    centre: np.ndarray = np.empty(0)
    spread: np.ndarray = np.empty(0)


class ImportanceSample(NamedTuple):
    """Outcome of `adaptive_importance_sampling`.

    Attributes
    ----------
    particles : Particles
        All draws with r = log joint - log pi, pi the mixture over all rounds.
    pair : ndarray of shape (m,), int
        Label of each draw's antithetic pair.
    source : ndarray of shape (m,), int
        Index of the reference that each draw came from.
    rounds : list of float
        Effective sample size after each round.
    interrupted : bool
        Whether Ctrl-C ended it; the rounds before are whole.
    """

    particles: Particles
    pair: np.ndarray
    source: np.ndarray
    rounds: list
    interrupted: bool


def draw(reference, n, rng):
    """Draw n points (n even) as antithetic pairs z, -z; pairs are neighbours."""
    d = len(reference.mean)
    z = rng.standard_normal((n // 2, d))
    if np.isfinite(reference.df):
        z /= np.sqrt(rng.chisquare(reference.df, n // 2) / reference.df)[:, None]
    axes = reference.axes
    z[:, axes] = rng.standard_t(AXIS_DF, size=(n // 2, len(axes)))
    z = np.stack([z, -z], axis=1).reshape(n, d)
    skewed = np.sinh(np.arcsinh(z[:, axes]) + reference.epsilon)
    z[:, axes] = reference.scale * (skewed - reference.centre) / reference.spread
    return reference.mean + z @ reference.factor.T


def log_density(reference, theta):
    """Log density of a reference at each row of theta, shape (n,)."""
    lu = lu_factor(reference.factor)
    z = lu_solve(lu, (theta - reference.mean).T).T
    axes = reference.axes
    raw = z[:, axes] / reference.scale * reference.spread + reference.centre
    skewed = np.sinh(np.arcsinh(raw) - reference.epsilon)
    log_jacobian = 0.5 * (np.log1p(skewed**2) - np.log1p(raw**2)).sum(axis=1)
    log_jacobian += np.log(reference.spread / reference.scale).sum()
    log_jacobian -= np.log(np.abs(np.diag(lu[0]))).sum()
    rest = np.delete(z, axes, axis=1)
    squared = np.einsum("ij,ij->i", rest, rest)
    log_axes = _log_student(skewed**2, 1, AXIS_DF).sum(axis=1)
    return log_jacobian + log_axes + _log_student(squared, rest.shape[1], reference.df)


def _log_student(squared, d, df):
    """Log of the d-dimensional standard Student (normal at df = inf) at squared radii."""
    if not np.isfinite(df):
        return -0.5 * squared - 0.5 * d * np.log(2 * np.pi)
    normaliser = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * np.log(df * np.pi)
    return normaliser - 0.5 * (df + d) * np.log1p(squared / df)


def draw_mixture(references, shares, n, rng):
    """n draws from a mixture of references with its log density: (theta, log density)."""
    counts = _even_counts(np.asarray(shares, dtype=float), n)
    theta = _draw_each(references, counts, rng)
    return theta, _log_mixture(_log_densities(references, theta), counts)


def _draw_each(references, counts, rng):
    return np.concatenate([draw(ref, k, rng) for ref, k in zip(references, counts, strict=True)])


def adaptive_importance_sampling(
    references, shares, log_prior, log_likelihood, n, max_rounds, target, rng, least=0.0
):
    """Draw from a mixture of references and weigh by the posterior, in adaptive rounds.

    Parameters
    ----------
    references : list of Proposal
        Components of the mixture.
    shares : ndarray of shape (len(references),)
        Their shares in the first round.
    log_prior, log_likelihood : callable
        theta of shape (m, d) -> (m,); the likelihood on all data, with its power.
    n : int
        Draws per round.
    max_rounds : int
        Bound on rounds.
    target : float
        Rounds stop when the effective sample size reaches this, or after two rounds if less than
        1 % of the draws are effective.
    rng : numpy.random.Generator
        Source of the draws.
    least : float
        Effective sample size of the first round below which there is no second.

    Returns
    -------
    ImportanceSample
        The weighted cloud and how it came about.
    """
    shares = np.asarray(shares, dtype=float)
    drawn, counts = [], np.zeros(len(references))
    rounds, particles, interrupted = [], None, False
    while True:
        try:
            take = _even_counts(shares, n)
            theta = _draw_each(references, take, rng)
            source = np.repeat(np.arange(len(references)), take)
            ahead = [*drawn, (theta, log_prior(theta), log_likelihood(theta), source)]
            weighed = _weighted_cloud(ahead, references, counts + take)
        except KeyboardInterrupt:
            if particles is None:
                raise
            interrupted = True
            break
        drawn, counts, (particles, table) = ahead, counts + take, weighed
        rounds.append(effective_sample_size(particles.log_ratio))
        hopeless = rounds[0] < least
        hopeless |= len(rounds) > 1 and rounds[-1] < _HOPELESS * len(particles.theta)
        if rounds[-1] >= target or len(rounds) == max_rounds or hopeless:
            break
        shares = _adapt(particles, table, counts)
    pair = np.arange(len(particles.theta)) // 2
    return ImportanceSample(
        particles, pair, np.concatenate([part[3] for part in drawn]), rounds, interrupted
    )


def _weighted_cloud(drawn, references, counts):
    """All draws so far weighted by the mixture of all rounds, and log densities (m, K)."""
    theta, prior, likelihood, _ = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    table = _log_densities(references, theta)
    log_pi = _log_mixture(table, counts)
    particles = Particles(
        theta, prior + likelihood - log_pi, log_pi, prior, np.empty((len(theta), 0))
    )
    return particles, table


def _log_densities(references, theta):
    return np.stack([log_density(reference, theta) for reference in references], axis=1)


def _log_mixture(table, counts):
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(table + np.log(counts / counts.sum()), axis=1)


def _adapt(particles, table, counts):
    """Shares of the next round: one EM step on the mixture's fit to the cloud.

    Population Monte Carlo (Cappé et al. 2008). Only the shares move: refitting a mean and a
    covariance to the cloud and weighing the same cloud by them biases the evidence (by 0.1 nats at
    d = 58 and 2000 effective draws), the shares do not.
    """
    w = weights(particles.log_ratio)
    shares = w @ np.exp(table - particles.log_pi[:, None]) * counts / counts.sum()
    shares = np.maximum(shares / shares.sum(), _FLOOR)
    return shares / shares.sum()


def _even_counts(shares, n):
    """Even numbers of draws by largest remainders, summing to n rounded up to even."""
    pairs = shares * ((n + 1) // 2)
    counts = np.floor(pairs).astype(int)
    rest = (n + 1) // 2 - counts.sum()
    counts[np.argsort(counts - pairs, kind="stable")[:rest]] += 1
    return 2 * counts


def disagreement(weighing, references, min_ess=50.0):
    """Largest gap between a reference's own posterior means and the mixture's.

    Each reference with an effective sample size of at least ``min_ess`` by its own density is
    held against the whole.

    Returns
    -------
    worst : float
        Largest gap over references and coordinates, in standard errors; those of both estimates
        come from the sums over antithetic pairs, which are independent.
    judged : int
        References that had the effective sample size to be held against the whole.
    """
    particles = weighing.particles
    log_joint = particles.log_ratio + particles.log_pi
    mean, variance = _mean_and_error(particles.theta, particles.log_ratio, weighing.pair)
    # Pairs cancel on a symmetric posterior, and what is left is rounding: a gap of a few hundredths
    # of a posterior sd is no disagreement.
    floor = _RESOLUTION**2 * np.diag(moments(particles.theta, particles.log_ratio)[1])
    worst, judged = 0.0, 0
    for k, reference in enumerate(references):
        own = weighing.source == k
        if not own.any():
            continue
        log_ratio = log_joint[own] - log_density(reference, particles.theta[own])
        if effective_sample_size(log_ratio) < min_ess:
            continue
        judged += 1
        own_mean, own_variance = _mean_and_error(
            particles.theta[own], log_ratio, weighing.pair[own]
        )
        gap = np.abs(own_mean - mean) / np.sqrt(own_variance + variance + floor)
        worst = max(worst, float(gap.max()))
    return worst, judged


def _mean_and_error(theta, log_ratio, pair):
    """Weighted mean and its variance by the delta method, shape (d,) each."""
    w = weights(log_ratio)
    mean = w @ theta
    _, pair = np.unique(pair, return_inverse=True)
    residual = w[:, None] * (theta - mean)
    sums = np.stack([np.bincount(pair, column) for column in residual.T], axis=1)
    return mean, (sums**2).sum(axis=0)
