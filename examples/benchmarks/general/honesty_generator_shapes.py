"""Shapes drawn at random: mixtures, stars, kinks, truncated and ordered parameters.

Each function takes a generator and gives a `Drawn`.
"""

import numpy as np
from scipy import special, stats

from .honesty_generator import (
    FEW,
    LEAST_SHARE,
    N_DRAWS,
    Drawn,
    between,
    chosen,
    independent,
    log_normal_between,
    normal_between,
    places,
    rotation,
)
from .honesty_laws import LOG_TWO_PI

_ROW = np.zeros((1, 1))


def _normals(log_shares, means, factors):
    """Log densities of each component, (m, K): share N(mean, factor factor')."""
    inverses = np.linalg.inv(factors)
    constants = log_shares - np.linalg.slogdet(factors)[1] - 0.5 * means.shape[1] * LOG_TWO_PI

    def each(theta):
        squares = [
            (((theta - mean) @ inverse.T) ** 2).sum(axis=1)
            for mean, inverse in zip(means, inverses, strict=True)
        ]
        return constants - 0.5 * np.column_stack(squares)

    def draw(rng, m):
        parts = np.sort(rng.choice(len(means), m, p=np.exp(log_shares)))
        z = rng.standard_normal((m, means.shape[1]))
        return means[parts] + np.vstack([z[parts == k] @ f.T for k, f in enumerate(factors)])

    return each, draw


def _seen(rng, each, draw, means, scale):
    """The mixture, seen from a normal prior of this size around somewhere near."""
    d = means.shape[1]
    centre = scale * rng.uniform(-0.5, 0.5, d)
    log_prior, sample_prior, prior = independent(rng, {"theta": stats.norm(centre, scale)})

    def log_likelihood(theta, X, y):
        return special.logsumexp(each(theta), axis=1) - log_prior(theta)

    return Drawn(log_likelihood, log_prior, sample_prior, _ROW, None, draw(rng, N_DRAWS), 0.0,
                 prior=prior)  # fmt: skip


def mixture(rng):
    """Two to six rotated normals with shares, scales and places of their own."""
    d, n_modes = int(rng.integers(1, 13)), int(rng.integers(2, 7))
    shares = rng.dirichlet(np.full(n_modes, 2.0))
    shares = (shares + 0.05) / (shares + 0.05).sum()
    # The wider of two normals is felt far away, and that the more the more coordinates there are.
    uneven = rng.uniform(0.0, 2.0) / np.sqrt(d)
    sizes = np.exp(uneven * rng.uniform(-1.0, 1.0, n_modes))
    means = rng.uniform(2.0, 5.0) * rng.standard_normal((n_modes, d)) / d**0.25
    flat = rng.uniform(0.0, 1.0)
    factors = np.array([
        size * rotation(rng, d) * np.exp(flat * rng.uniform(-1.5, 0.5, d)) for size in sizes
    ])  # fmt: skip
    each, draw = _normals(np.log(shares), means, factors)
    extent = np.sqrt((means**2).mean() + 1.0)
    made = _seen(rng, each, draw, means, extent * between(rng, 1.0, 10.0 if d < 4 else 3.0))
    nearest = each(made.sample_prior(np.random.default_rng(0), 10 * FEW)).argmax(axis=1)
    counts = np.bincount(nearest, minlength=n_modes)[shares >= LEAST_SHARE]
    return made._replace(reach=float(counts.min() / 10.0))


def star(rng):
    """Two to five long normals through one centre, each rotated on its own."""
    d, arms = int(rng.integers(2, 11)), int(rng.integers(2, 6))
    centre, ratio = 2.0 * rng.standard_normal(d), between(rng, 3.0, 30.0)
    factors = []
    for _ in range(arms):
        sds = np.full(d, 1.0 / ratio)
        sds[: int(rng.integers(1, max(2, d // 2 + 1)))] = 1.0
        sds *= np.exp(0.3 * rng.standard_normal(d))
        factors.append(rotation(rng, d) * sds)
    shares = rng.dirichlet(np.full(arms, 3.0))
    each, draw = _normals(np.log(shares), np.tile(centre, (arms, 1)), np.array(factors))
    return _seen(rng, each, draw, centre[None], 2.5 * between(rng, 1.0, 10.0))


def kinks(rng):
    """Rotated coordinates under a round normal prior, each seen one to five times, Laplace errors.

    Between two observations the log-likelihood is linear, and the posterior a part of a normal.
    """
    d, seen, size = int(rng.integers(1, 21)), int(rng.integers(1, 6)), between(rng, 0.3, 3.0)
    axes, scale = rotation(rng, d), size * np.exp(rng.uniform(-1.5, 0.5, d))
    truth = size * rng.standard_normal(d)
    prior_sd, centre = size * between(rng, 1.0, 10.0), np.zeros(d)
    y = np.sort((axes.T @ truth)[:, None] + rng.laplace(size=(d, seen)) * scale[:, None], axis=1)
    log_prior, sample_prior, prior = independent(rng, {"theta": stats.norm(centre, prior_sd)})

    def log_likelihood(theta, X, y):
        own = X[:, 0].astype(int)
        z = np.abs((theta @ axes[:, own])[:, :, None] - y) / scale[own, None]
        return -(z + np.log(2.0 * scale[own])[:, None]).sum(axis=(1, 2))

    below = np.column_stack([np.zeros(d), np.cumsum(y, axis=1)])  # The sum of those further down.
    slopes = (seen - 2.0 * np.arange(seen + 1)) / scale[:, None]
    constants = (2.0 * below - y.sum(axis=1)[:, None]) / scale[:, None]
    ends = np.column_stack([np.full(d, -np.inf), y, np.full(d, np.inf)])
    shifted = slopes * prior_sd**2
    low, high = (ends[:, :-1] - shifted) / prior_sd, (ends[:, 1:] - shifted) / prior_sd
    masses = constants + 0.5 * shifted * slopes + log_normal_between(low, high)
    log_evidence = special.logsumexp(masses, axis=1).sum() - seen * np.log(2.0 * scale).sum()
    columns = []
    for k in range(d):
        part = rng.choice(seen + 1, N_DRAWS, p=special.softmax(masses[k]))
        z = normal_between(rng, low[k, part], high[k, part])
        columns.append(shifted[k, part] + prior_sd * z)
    draws = np.column_stack(columns) @ axes.T
    return Drawn(log_likelihood, log_prior, sample_prior, places(d), y, draws, log_evidence,
                 prior=prior)  # fmt: skip


def truncated(rng):
    """Coefficients that bounds hold, in a box or above zero; ordered means; ordered cut points."""
    return (_boxed, _boxed, _ordered, _cut_points)[rng.integers(4)](rng)


def _boxed(rng):
    """A linear regression whose coefficients are in a box or positive."""
    d, n = int(rng.integers(1, 13)), int(rng.integers(5, 60))
    n = max(n, d + 2)
    error, width = between(rng, 0.2, 3.0), between(rng, 1.0, 10.0)
    X = rng.standard_normal((n, d)) + rng.uniform(0.0, 1.0) * rng.standard_normal((n, 1))
    if rng.random() < 0.5:
        low, high = np.zeros(d), np.full(d, np.inf)
        law, prior_precision = stats.halfnorm(low, width), width**-2.0
        truth = np.abs(rng.standard_normal(d)) * (rng.random(d) < 0.6)
        log_constant = d * (np.log(2.0 / width) - 0.5 * LOG_TWO_PI)
    else:
        low, high = -rng.uniform(0.0, 1.0, d), rng.uniform(0.2, 1.0, d) * width
        law, prior_precision = stats.uniform(low, high - low), 0.0
        truth = low + (high - low) * rng.beta(0.5, 0.5, d)
        log_constant = -np.log(high - low).sum()
    y = X @ truth + error * rng.standard_normal(n)
    log_prior, sample_prior, prior = independent(rng, {"beta": law})

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, theta @ X.T, error).sum(axis=1)

    covariance = np.linalg.inv(X.T @ X / error**2 + prior_precision * np.eye(d))
    mean = covariance @ X.T @ y / error**2
    log_constant += (
        stats.norm.logpdf(y, X @ mean, error).sum() - 0.5 * prior_precision * mean @ mean
    )
    log_constant += 0.5 * (d * LOG_TWO_PI + np.linalg.slogdet(covariance)[1])
    factor = np.linalg.cholesky(covariance)
    z, log_weights = np.zeros((2 * N_DRAWS, d)), 0.0
    for k in range(d):  # The rule of Geweke, Hajivassiliou and Keane.
        at = mean[k] + z[:, :k] @ factor[k, :k]
        a, b = (low[k] - at) / factor[k, k], (high[k] - at) / factor[k, k]
        log_weights = log_weights + log_normal_between(a, b)
        z[:, k] = normal_between(rng, a, b)
    which, log_mass = chosen(rng, log_weights, least=0.02)
    draws = mean + z[which] @ factor.T
    return Drawn(log_likelihood, log_prior, sample_prior, X, y, draws, log_constant + log_mass,
                 prior=prior)  # fmt: skip


def _ordered(rng):
    """Means of groups that are known to rise: normals, given that they are in order."""
    d, error = int(rng.integers(2, 11)), between(rng, 0.2, 2.0)
    scale = between(rng, 1.0, 10.0)
    counts = rng.integers(1, 15, d)
    truth = np.sort(rng.standard_normal(d))
    group = np.repeat(np.arange(d), counts)
    y = truth[group] + error * rng.standard_normal(len(group))

    def log_prior(theta):
        rising = (np.diff(theta, axis=1) > 0.0).all(axis=1)
        density = stats.norm.logpdf(theta, scale=scale).sum(axis=1) + special.gammaln(d + 1.0)
        return np.where(rising, density, -np.inf)

    def sample_prior(rng, m):
        return np.sort(scale * rng.standard_normal((m, d)), axis=1)

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, theta[:, X[:, 0].astype(int)], error).sum(axis=1)

    variance = 1.0 / (counts / error**2 + scale**-2.0)
    mean, sd = variance * np.bincount(group, y) / error**2, np.sqrt(variance)
    theta, log_weights = np.empty((2 * N_DRAWS, d)), 0.0
    for k in range(d):
        low = (theta[:, k - 1] - mean[k]) / sd[k] if k else np.full(len(theta), -np.inf)
        high = np.full(len(theta), np.inf)
        log_weights = log_weights + log_normal_between(low, high)
        theta[:, k] = mean[k] + sd[k] * normal_between(rng, low, high)
    which, log_mass = chosen(rng, log_weights, least=0.01)
    log_joint = stats.norm.logpdf(y, mean[group], error).sum()
    log_joint += stats.norm.logpdf(mean, scale=scale).sum() + special.gammaln(d + 1.0)
    log_evidence = log_joint + 0.5 * (d * LOG_TWO_PI + np.log(variance).sum()) + log_mass
    return Drawn(log_likelihood, log_prior, sample_prior, group[:, None].astype(float), y,
                 theta[which], log_evidence)  # fmt: skip


def _cut_points(rng):
    """Cut points of a normal scale with two to seven kinds of answers, Dirichlet shares."""
    d = int(rng.integers(1, 7))
    alpha = np.full(d + 1, between(rng, 0.5, 3.0))
    counts = rng.multinomial(rng.integers(5, 80), rng.dirichlet(np.full(d + 1, 1.5))).astype(float)
    constant = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()

    def log_shares(theta):
        outside = np.full((len(theta), 1), np.inf)
        ends = np.hstack([-outside, theta, outside])
        return log_normal_between(ends[:, :-1], ends[:, 1:])

    def log_prior(theta):
        rising = (np.diff(theta, axis=1) > 0.0).all(axis=1)
        found = np.full(len(theta), -np.inf)
        own = theta[rising]
        found[rising] = constant + ((alpha - 1.0) * log_shares(own)).sum(axis=1)
        found[rising] += stats.norm.logpdf(own).sum(axis=1)
        return found

    def cut(rng, alpha, m):
        below = np.cumsum(rng.dirichlet(alpha, m)[:, :-1], axis=1)
        return special.ndtri(np.clip(below, 1e-300, 1.0 - 1e-16))

    def log_likelihood(theta, X, y):
        own = log_shares(theta)[:, X[:, 0].astype(int)]
        return np.where(y > 0.0, y * own, 0.0).sum(axis=1)

    log_evidence = constant + special.gammaln(alpha + counts).sum()
    log_evidence -= special.gammaln((alpha + counts).sum())
    return Drawn(
        log_likelihood, log_prior, lambda rng, m: cut(rng, alpha, m), places(d + 1), counts,
        cut(rng, alpha + counts, N_DRAWS), log_evidence,
    )  # fmt: skip
