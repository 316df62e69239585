"""What posteriors drawn at random are made of: exact draws by cells, by conjugacy, by truncation.

The nonlinear parameters of a model, three at most, are on a grid that shrinks to where the mass is;
given these all else is drawn from what conjugacy makes of it. A draw is uniform within its cell.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from skpmd.engine.diagnostics import pareto_k

from .honesty_laws import LOG_TWO_PI

N_DRAWS = 100_000
FEW = 4_000  # Draws of the prior that a fit sees.
# A mode counts from this share of the posterior on.
LEAST_SHARE = 0.01
_POINTS = {1: (8000,), 2: (400, 400), 3: (64, 64, 64)}
_CUT = 20.0  # Cells whose log mass is further below the largest hold nothing.
_BLOCK = 4000


class Drawn(NamedTuple):
    """A posterior that was drawn at random, and what is exactly true of it.

    ``reach`` is the number, among 4,000 draws of the prior, that are expected in the basin of the
    mode that the fewest come to.
    """

    log_likelihood: Callable
    log_prior: Callable
    sample_prior: Callable
    X: np.ndarray
    y: np.ndarray | None
    draws: np.ndarray
    log_evidence: float
    reach: float = float(FEW)
    prior: dict | None = None  # The same prior by name, where it is given in this way.


def between(rng, low, high):
    """A number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def rotation(rng, d):
    """An orthogonal matrix, of the uniform law."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diag(r))


def places(n):
    """Rows whose one column is their number."""
    return np.arange(float(n))[:, None]


def independent(rng, laws):
    """Functions of a prior of independent distributions, and in half of the cases its dict.

    ``laws`` are frozen distributions of `scipy.stats` by name.
    """
    sizes = [np.size(law.support()[0]) for law in laws.values()]
    ends = np.cumsum(sizes)

    def log_prior(theta):
        parts = np.split(theta, ends[:-1], axis=1)
        return sum(law.logpdf(x).sum(axis=1) for law, x in zip(laws.values(), parts, strict=True))

    def sample_prior(rng, m):
        return np.hstack([
            law.rvs((m, size), random_state=rng)
            for law, size in zip(laws.values(), sizes, strict=True)
        ])  # fmt: skip

    return log_prior, sample_prior, dict(laws) if rng.random() < 0.5 else None


def blocked(function, points):
    """Values of a function at many points, some at a time."""
    blocks = np.array_split(points, max(1, len(points) // _BLOCK))
    return np.concatenate([function(block) for block in blocks])


class Cells(NamedTuple):
    """Draws of a density of one to three coordinates by cells.

    ``draws`` (m, k) are uniform in their cells, whose centres are ``centres[which]``.
    """

    draws: np.ndarray
    centres: np.ndarray
    which: np.ndarray
    log_integral: float
    reach: float


def on_cells(log_prior, log_likelihood, axes, rng, m=N_DRAWS):
    """Cells of a posterior of points (m, k).

    An axis is a pair of bounds, or an array of more edges, between which the posterior is constant.
    """
    fixed, reach = [len(axis) > 2 for axis in axes], FEW
    points = _POINTS[len(axes) - sum(fixed)] if not all(fixed) else ()
    for stage in range(4):
        free = iter(points)
        edges = [
            np.asarray(axis) if held else np.linspace(*axis, next(free) + 1)
            for axis, held in zip(axes, fixed, strict=True)
        ]
        middle = [0.5 * (edge[1:] + edge[:-1]) for edge in edges]
        shape = [len(one) for one in middle]
        centres = np.stack(np.meshgrid(*middle, indexing="ij"), axis=-1).reshape(-1, len(axes))
        widths = np.stack(np.meshgrid(*map(np.diff, edges), indexing="ij"), axis=-1)
        widths = widths.reshape(-1, len(axes))
        log_volume = np.log(widths).sum(axis=1)
        of_prior = log_prior(centres)
        values = np.full(len(centres), -np.inf)
        inside = of_prior > -np.inf
        values[inside] = of_prior[inside] + blocked(log_likelihood, centres[inside])
        mass = values + log_volume
        if stage == 0:
            reach = reached(values.reshape(shape), mass, of_prior + log_volume)
        if all(fixed):
            break
        smaller = _around(mass.reshape(shape), axes, edges, fixed)
        shrunk = [np.ptp(new) < 0.7 * np.ptp(old) for new, old in zip(smaller, axes, strict=True)]
        if not any(shrunk):
            break
        axes = smaller
    log_integral = special.logsumexp(mass)
    chosen = rng.choice(len(mass), m, p=np.exp(mass - log_integral))
    draws = centres[chosen] + widths[chosen] * rng.uniform(-0.5, 0.5, (m, len(axes)))
    used, which = np.unique(chosen, return_inverse=True)
    return Cells(draws, centres[used], which, float(log_integral), reach)


def _around(mass, axes, edges, fixed):
    """Bounds of the cells that hold something."""
    found = []
    for k, (axis, edge, held) in enumerate(zip(axes, edges, fixed, strict=True)):
        most = mass.max(axis=tuple(j for j in range(mass.ndim) if j != k))
        holding = np.flatnonzero(most > mass.max() - _CUT)
        low, high = max(holding[0] - 1, 0), min(holding[-1] + 2, len(edge) - 1)
        found.append(axis if held else (edge[low], edge[high]))
    return found


def reached(values, mass, prior_mass):
    """How many of 4,000 draws of the prior are in the basin of the mode least reached.

    The basins are those of steepest ascent from cell to cell; modes of less than 1 % do not count.
    """
    uphill = _uphill(values)
    while not np.array_equal(further := uphill[uphill], uphill):
        uphill = further
    shares = np.bincount(uphill, np.exp(mass - special.logsumexp(mass)), values.size)
    of_prior = np.bincount(uphill, np.exp(prior_mass), values.size)
    return float(FEW * of_prior[shares >= LEAST_SHARE].min())


def _uphill(values):
    """The place of the largest value among a cell and its neighbours, for each cell."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    own = np.pad(np.arange(values.size).reshape(values.shape), 1)
    best, best_place = values.copy(), own[(slice(1, -1),) * values.ndim].copy()
    for shift in np.ndindex((3,) * values.ndim):
        part = tuple(slice(s, s + n) for s, n in zip(shift, values.shape, strict=True))
        better = padded[part] > best
        best[better], best_place[better] = padded[part][better], own[part][better]
    return best_place.ravel()


class Linear(NamedTuple):
    """Normal linear coefficients given the nonlinear parameters: evidence, mean, covariance."""

    log_evidence: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


def linear(designs, y, variance, prior_sd):
    """`Linear` of designs (m, n, p), y (n,), error variances and N(0, prior_sd^2)."""
    gram, cross = designs.transpose(0, 2, 1) @ designs, designs.transpose(0, 2, 1) @ y
    variance = np.broadcast_to(variance, len(designs))
    prior_sd = np.broadcast_to(prior_sd, gram.shape[1])
    covariance = np.linalg.inv(gram / variance[:, None, None] + np.diag(prior_sd**-2.0))
    right = cross / variance[:, None]
    mean = (covariance @ right[:, :, None])[:, :, 0]
    log_evidence = 0.5 * (
        (right * mean).sum(axis=1) - y @ y / variance
        + np.linalg.slogdet(covariance)[1] - 2.0 * np.log(prior_sd).sum()
        - len(y) * (LOG_TWO_PI + np.log(variance))
    )  # fmt: skip
    return Linear(log_evidence, mean, covariance)


def linear_draws(found, which, rng):
    """A draw of the coefficients for each place in ``which``."""
    z = rng.standard_normal((len(which), found.mean.shape[1], 1))
    return found.mean[which] + (np.linalg.cholesky(found.covariance)[which] @ z)[:, :, 0]


def log_normal_between(low, high):
    """Log of the standard normal probability between two numbers, in either tail."""
    low, high = np.where(low > 0.0, -high, low), np.where(low > 0.0, -low, high)
    upper, lower = special.log_ndtr(high), special.log_ndtr(low)
    with np.errstate(divide="ignore"):
        return upper + np.log1p(-np.exp(np.minimum(lower - upper, 0.0)))


def normal_between(rng, low, high):
    """Draws of standard normals between two numbers, in either tail."""
    flipped = low > 0.0
    below, above = np.where(flipped, -high, low), np.where(flipped, -low, high)
    u = rng.random(np.shape(below))
    mixed = np.logaddexp(
        special.log_ndtr(below) + np.log1p(-u), special.log_ndtr(above) + np.log(u)
    )
    z = np.clip(special.ndtri_exp(mixed), below, above)
    return np.where(flipped, -z, z)


def chosen(rng, log_weights, least=0.05, m=N_DRAWS):
    """Places of draws by weight, and the log of the mean weight; few that count are an error."""
    total = special.logsumexp(log_weights)
    weights = np.exp(log_weights - total)
    if 1.0 / (weights @ weights) < least * len(weights):
        raise RuntimeError("The draws of this posterior do not fit it.")
    return rng.choice(len(weights), m, p=weights), float(total - np.log(len(weights)))


def by_importance(log_joint, starts, rng, dof=4.0, m=N_DRAWS):
    """Draws and log evidence of a posterior with a few optima, by Student proposals at each.

    An optimum is searched from each of ``starts``; the proposals have the curvature of the optima,
    then the moments that a first round gives. Weights with a k-hat of .3 or more, and halves whose
    log evidences differ by more than .03, are errors.
    """
    centres, factors, log_shares = _optima(log_joint, starts)
    for size in (m // 5, m // 5, 2 * m):
        parts = rng.choice(len(centres), size, p=special.softmax(log_shares))
        z = rng.standard_normal((size, len(centres[0])))
        z /= np.sqrt(rng.chisquare(dof, size) / dof)[:, None]
        theta = centres[parts] + (factors[parts] @ z[:, :, None])[:, :, 0]
        each = _log_students(theta, centres, factors, dof) + special.log_softmax(log_shares)
        log_ratio = blocked(log_joint, theta) - special.logsumexp(each, axis=1)
        if size < m:
            share = special.softmax(log_ratio)[:, None] * special.softmax(each, axis=1)
            log_shares = np.log(share.sum(axis=0) + 1e-3)
            centres, factors = _moments(theta, share, centres, factors)
    half = [special.logsumexp(part) - np.log(m) for part in (log_ratio[:m], log_ratio[m:])]
    if not (pareto_k(log_ratio) < 0.3 and abs(half[0] - half[1]) < 0.03):
        raise RuntimeError("The proposals of this posterior do not fit it.")
    which, log_evidence = chosen(rng, log_ratio, m=m)
    return theta[which], log_evidence


def _optima(log_joint, starts):
    """Centres, factors of covariances and log masses of normal approximations, none twice."""
    centres, factors, log_masses = [], [], []
    for start in starts:
        found = optimize.minimize(lambda theta: -log_joint(theta[None])[0], start, method="BFGS")
        factor = np.linalg.cholesky(found.hess_inv + 1e-9 * np.eye(len(start)))
        known = [np.linalg.norm(np.linalg.solve(f, found.x - c))
                 for c, f in zip(centres, factors, strict=True)]  # fmt: skip
        if all(distance > 1.0 for distance in known):
            centres.append(found.x)
            factors.append(1.2 * factor)
            log_masses.append(-found.fun + np.log(np.diag(factor)).sum())
    kept = np.array(log_masses) > max(log_masses) - 12.0
    return np.array(centres)[kept], np.array(factors)[kept], np.array(log_masses)[kept]


def _log_students(theta, centres, factors, dof):
    d = theta.shape[1]
    constant = special.gammaln(0.5 * (dof + d)) - special.gammaln(0.5 * dof)
    constant -= 0.5 * d * np.log(dof * np.pi)
    columns = []
    for centre, factor in zip(centres, factors, strict=True):
        z = np.linalg.solve(factor, (theta - centre).T)
        squares = np.log1p((z**2).sum(axis=0) / dof)
        columns.append(constant - np.log(np.diag(factor)).sum() - 0.5 * (dof + d) * squares)
    return np.column_stack(columns)


def _moments(theta, share, centres, factors):
    """Centres and factors that the weighted draws give to each proposal, where enough count."""
    centres, factors = centres.copy(), factors.copy()
    for k, weights in enumerate(share.T):
        weights = weights / max(weights.sum(), 1e-300)
        if weights @ weights < 1.0 / (20.0 * theta.shape[1]):
            centres[k] = weights @ theta
            rest = theta - centres[k]
            factors[k] = np.linalg.cholesky((rest * weights[:, None]).T @ rest)
    return centres, factors
