"""Posteriors that a certificate was silent on once, and others that no setting was chosen on.

Each has a truth of its own: by quadrature on a grid where there are two coordinates or fewer, by
exact draws, or by conjugacy. The likelihoods of those that are made of a target are the target's
density divided by the prior's, so that their log evidence is zero.
"""

import numpy as np
from scipy import special, stats

from ..peers.problem import Problem
from .honesty_laws import LOG_TWO_PI, Law, Shape, funnel, normal, of
from .honesty_truth import truth

N_DRAWS = 400_000
GRID = 1600  # Points of a grid along each of two coordinates.


def rows(n):
    """Data without features."""
    return np.zeros((n, 1))


def on_grid(log_prior, sample_prior, log_likelihood, lower, upper, X=None, y=None):
    """The shape of a model of one or two coordinates whose posterior lies within a box."""
    X = rows(1) if X is None else X
    axes = [
        np.linspace(low, high, 200_001 if len(lower) == 1 else GRID)
        for low, high in zip(lower, upper, strict=True)
    ]
    cell = np.array([axis[1] - axis[0] for axis in axes])
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    values = log_prior(points)
    inside = values > -np.inf
    blocks = np.array_split(points[inside], max(1, inside.sum() // 4000))
    values[inside] += np.concatenate([log_likelihood(block, X, y) for block in blocks])
    log_evidence = special.logsumexp(values) + np.log(cell).sum()
    rng = np.random.default_rng(1)
    mass = np.exp(values - values.max())
    chosen = points[rng.choice(len(points), N_DRAWS, p=mass / mass.sum())]
    draws = chosen + cell * rng.uniform(-0.5, 0.5, chosen.shape)
    return Shape(
        Problem(len(axes), log_likelihood, log_prior, sample_prior), X, y,
        truth(draws, log_evidence),
    )  # fmt: skip


def mixture(shares, means, sds, prior):
    """Round Gaussians in any number of dimensions."""
    shares, means, sds = np.array(shares), np.array(means, dtype=float), np.array(sds)
    d = means.shape[1]
    log_factor = np.log(shares) - d * (np.log(sds) + 0.5 * LOG_TWO_PI)

    def log_density(theta):
        squares = ((theta[:, None] - means) ** 2).sum(axis=2)
        return special.logsumexp(log_factor - 0.5 * squares / sds**2, axis=1)

    def draw(rng, m):
        k = rng.choice(len(shares), m, p=shares)
        return means[k] + sds[k, None] * rng.standard_normal((m, d))

    return of(Law(log_density, draw), prior, draws=N_DRAWS)


def spike_and_slab():
    """Three effects, each N(0, .02^2) or N(0, 1) with even odds, observed with errors of .3."""
    spike, slab, error, seen = 0.02, 1.0, 0.3, np.array([0.1, 0.6, -1.2])

    def log_prior(theta):
        both = [stats.norm.logpdf(theta, scale=sd) + np.log(0.5) for sd in (spike, slab)]
        return np.logaddexp(*both).sum(axis=1)

    def sample_prior(rng, m):
        sd = np.where(rng.random((m, 3)) < 0.5, spike, slab)
        return sd * rng.standard_normal((m, 3))

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, theta, error).sum(axis=1)

    rng, variance = np.random.default_rng(1), np.array([spike, slab]) ** 2
    log_mass = stats.norm.logpdf(seen[:, None], scale=np.sqrt(variance + error**2)) + np.log(0.5)
    in_slab = rng.random((N_DRAWS, 3)) < special.expit(log_mass[:, 1] - log_mass[:, 0])
    of_each = np.where(in_slab, variance[1], variance[0])
    shrunk = of_each / (of_each + error**2)
    draws = shrunk * seen + np.sqrt(shrunk) * error * rng.standard_normal((N_DRAWS, 3))
    evidence = np.logaddexp(*log_mass.T).sum()
    problem = Problem(3, log_likelihood, log_prior, sample_prior)
    return Shape(problem, rows(3), seen, truth(draws, evidence))


def conflict(df, seen):
    """A Student prior and one observation with Student errors, far from it: two modes."""
    return on_grid(
        lambda theta: stats.t.logpdf(theta[:, 0], df),
        lambda rng, m: rng.standard_t(df, (m, 1)),
        lambda theta, X, y: stats.t.logpdf(y - theta, df)[:, 0],
        [-300.0], [300.0], y=np.array([seen]),
    )  # fmt: skip


def hierarchy(n_groups, n_each=1):
    """Means of groups N(0, e^v), v ~ N(0, 3^2), with ``n_each`` N(mean, 1) observations each."""
    rng = np.random.default_rng(n_groups)
    seen = rng.standard_normal(n_groups) * 0.7 + rng.standard_normal(n_groups) / np.sqrt(n_each)
    variance, prior = 1.0 / n_each, funnel_law(n_groups + 1, 3.0)

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, theta[:, 1:], np.sqrt(variance)).sum(axis=1)

    grid = np.linspace(-15.0, 15.0, 60_001)
    values = stats.norm.logpdf(grid, scale=3.0)
    spread = np.exp(grid) + variance
    values += -0.5 * (n_groups * (np.log(spread) + LOG_TWO_PI) + (seen**2).sum() / spread)
    log_evidence = special.logsumexp(values) + np.log(grid[1] - grid[0])
    mass = special.softmax(values)
    rng = np.random.default_rng(1)
    v = rng.choice(grid, N_DRAWS, p=mass)
    share = np.exp(v) / (np.exp(v) + variance)
    noise = rng.standard_normal((N_DRAWS, n_groups))
    means = share[:, None] * seen + np.sqrt(share * variance)[:, None] * noise
    problem = Problem(n_groups + 1, log_likelihood, prior.log_density, prior.draw)
    return Shape(problem, rows(n_groups), seen, truth(np.column_stack([v, means]), log_evidence))


def funnel_law(d, scale):
    """v ~ N(0, scale^2), and d - 1 coordinates N(0, e^v) given it."""

    def log_density(theta):
        v = theta[:, 0]
        with np.errstate(over="ignore"):
            squares = (theta[:, 1:] ** 2).sum(axis=1) * np.exp(-v)
        given = -0.5 * squares - 0.5 * (d - 1) * (v + LOG_TWO_PI)
        return given + stats.norm.logpdf(v, scale=scale)

    def draw(rng, m):
        v = scale * rng.standard_normal(m)
        return np.column_stack([v, np.exp(0.5 * v)[:, None] * rng.standard_normal((m, d - 1))])

    return Law(log_density, draw)


def banana(bend, width, d=2):
    """x ~ N(0, 1), y given x N(bend (x^2 - 1), width^2), and d - 2 further N(0, 1)."""

    def log_density(theta):
        x, y = theta[:, 0], theta[:, 1]
        rest = stats.norm.logpdf(np.delete(theta, 1, axis=1)).sum(axis=1)
        return rest + stats.norm.logpdf(y, bend * (x**2 - 1.0), width)

    def draw(rng, m):
        z = rng.standard_normal((m, d))
        z[:, 1] = bend * (z[:, 0] ** 2 - 1.0) + width * z[:, 1]
        return z

    return of(Law(log_density, draw), normal(d, 4.0), draws=N_DRAWS)


def students(df, d, scale=5.0):
    """Independent Student coordinates seen from a wider normal prior."""
    target = Law(
        lambda theta: stats.t.logpdf(theta, df).sum(axis=1),
        lambda rng, m: rng.standard_t(df, (m, d)),
    )
    return of(target, normal(d, scale), draws=N_DRAWS)


def corner(d, rate):
    """A uniform prior on the cube, exp(-rate t) in each coordinate."""
    constant = d * np.log(rate / -np.expm1(-rate))

    def log_prior(theta):
        return np.where(((theta > 0.0) & (theta < 1.0)).all(axis=1), 0.0, -np.inf)

    uniform = np.random.default_rng(1).random((N_DRAWS, d))
    exact = np.log1p(uniform * np.expm1(-rate)) / -rate
    problem = Problem(
        d, lambda theta, X, y: constant - rate * theta.sum(axis=1), log_prior,
        lambda rng, m: rng.random((m, d)),
    )  # fmt: skip
    return Shape(problem, rows(1), None, truth(exact, 0.0))


def simplex():
    """Shares of four kinds, the last left out, under a Dirichlet prior: edges that depend."""
    counts, alpha = np.array([7.0, 0.0, 2.0, 1.0]), np.ones(4)

    def all_shares(theta):
        return np.column_stack([theta, 1.0 - theta.sum(axis=1)])

    def log_prior(theta):
        return np.where((all_shares(theta) > 0.0).all(axis=1), special.gammaln(4.0), -np.inf)

    def log_likelihood(theta, X, y):
        return special.xlogy(y, all_shares(theta)).sum(axis=1)

    draws = np.random.default_rng(1).dirichlet(alpha + counts, N_DRAWS)[:, :3]
    evidence = special.gammaln(4.0) + special.gammaln(1.0 + counts).sum() - special.gammaln(14.0)
    problem = Problem(3, log_likelihood, log_prior, lambda rng, m: rng.dirichlet(alpha, m)[:, :3])
    return Shape(problem, rows(len(counts)), counts, truth(draws, evidence))


def poisson_gamma():
    """Twelve rates with few counts under Gamma(.5) priors: mass at an edge, in closed form."""
    counts = np.array([0.0, 0, 1, 0, 3, 0, 7, 2, 0, 1, 0, 12])

    def log_prior(theta):
        with np.errstate(all="ignore"):
            return np.where((theta > 0.0).all(axis=1), stats.gamma.logpdf(theta, 0.5).sum(axis=1),
                            -np.inf)  # fmt: skip

    def log_likelihood(theta, X, y):
        return stats.poisson.logpmf(y, theta).sum(axis=1)

    draws = np.random.default_rng(1).gamma(0.5 + counts, 0.5, (N_DRAWS, len(counts)))
    evidence = stats.nbinom.logpmf(counts, 0.5, 0.5).sum()
    problem = Problem(
        len(counts), log_likelihood, log_prior, lambda rng, m: rng.gamma(0.5, size=(m, len(counts)))
    )
    return Shape(problem, rows(len(counts)), counts, truth(draws, evidence))


def two_means():
    """The means of an even mixture of two normals, whose labels may be exchanged."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(-1.0, 1.0, 25), rng.normal(1.5, 1.0, 25)])

    def log_likelihood(theta, X, y):
        each = stats.norm.logpdf(X[:, 0], theta[:, :, None])
        return (np.logaddexp(each[:, 0], each[:, 1]) + np.log(0.5)).sum(axis=1)

    prior = normal(2, 3.0)
    return on_grid(prior.log_density, prior.draw, log_likelihood, [-5, -5], [5, 5], X=x[:, None])


def sinusoid():
    """Frequency and phase of a noisy sinusoid on few points: many modes."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0.0, 10.0, 15))
    y = np.sin(1.7 * x + 0.5) + 0.7 * rng.standard_normal(len(x))

    def log_prior(theta):
        inside = (theta > [0.2, -np.pi]).all(axis=1) & (theta < [6.0, np.pi]).all(axis=1)
        return np.where(inside, -np.log(5.8 * 2.0 * np.pi), -np.inf)

    def log_likelihood(theta, X, y):
        fitted = np.sin(theta[:, :1] * X[:, 0] + theta[:, 1:])
        return stats.norm.logpdf(y, fitted, 0.7).sum(axis=1)

    return on_grid(
        log_prior, lambda rng, m: rng.uniform([0.2, -np.pi], [6.0, np.pi], (m, 2)),
        log_likelihood, [0.2, -np.pi], [6.0, np.pi], X=x[:, None], y=y,
    )  # fmt: skip


def change_point():
    """Where the rate of counts changes, and by what factor: a likelihood with jumps."""
    rng = np.random.default_rng(2)
    counts = np.concatenate([rng.poisson(3.0, 12), rng.poisson(5.0, 18)]).astype(float)
    places = np.arange(30.0)

    def log_prior(theta):
        inside = (theta[:, 0] > 0.0) & (theta[:, 0] < 30.0)
        return np.where(inside, stats.norm.logpdf(theta[:, 1]) - np.log(30.0), -np.inf)

    def log_likelihood(theta, X, y):
        log_rate = np.log(3.0) + theta[:, 1:] * (X[:, 0] > theta[:, :1])
        return stats.poisson.logpmf(y, np.exp(log_rate)).sum(axis=1)

    return on_grid(
        log_prior,
        lambda rng, m: np.column_stack([rng.uniform(0.0, 30.0, m), rng.standard_normal(m)]),
        log_likelihood, [0.0, -3.0], [30.0, 3.0], X=places[:, None], y=counts,
    )  # fmt: skip


def weibull():
    """Shape and scale of lifetimes of which half are cut off, in logarithms."""
    rng = np.random.default_rng(4)
    times = rng.weibull(1.6, 30)
    seen = times < 0.8
    times = np.minimum(times, 0.8)

    def log_likelihood(theta, X, y):
        shape = np.exp(theta[:, :1])
        z = shape * (np.log(X[:, 0]) - theta[:, 1:])
        return (y * (theta[:, :1] + z - np.log(X[:, 0])) - np.exp(z)).sum(axis=1)

    prior = normal(2, 1.5)
    return on_grid(prior.log_density, prior.draw, log_likelihood, [-3, -4], [3, 6],
                   X=times[:, None], y=seen.astype(float))  # fmt: skip


def phase():
    """Two coefficients whose sign no observation tells: |x'b| with errors."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((12, 2))
    y = np.abs(X @ [1.0, -0.5]) + 0.3 * rng.standard_normal(12)

    def log_likelihood(theta, X, y):
        return stats.norm.logpdf(y, np.abs(theta @ X.T), 0.3).sum(axis=1)

    prior = normal(2, 1.0)
    return on_grid(prior.log_density, prior.draw, log_likelihood, [-3, -3], [3, 3], X=X, y=y)


def cross():
    """An even mixture of two long Gaussians across each other."""

    def log_density(theta):
        arms = [stats.norm.logpdf(theta, scale=scale).sum(axis=1)
                for scale in ([2.0, 0.1], [0.1, 2.0])]  # fmt: skip
        return np.logaddexp(*arms) + np.log(0.5)

    def draw(rng, m):
        scale = np.where(rng.random(m)[:, None] < 0.5, [2.0, 0.1], [0.1, 2.0])
        return scale * rng.standard_normal((m, 2))

    return of(Law(log_density, draw), normal(2, 4.0), draws=N_DRAWS)


def shell(d):
    """A sphere of radius 3 and thickness .3 in d dimensions."""
    grid = np.linspace(1e-3, 8.0, 80_001)
    log_radial = (d - 1) * np.log(grid) - 0.5 * ((grid - 3.0) / 0.3) ** 2
    area = np.log(2.0) + 0.5 * d * np.log(np.pi) - special.gammaln(0.5 * d)
    constant = area + special.logsumexp(log_radial) + np.log(grid[1] - grid[0])

    def log_density(theta):
        return -0.5 * ((np.linalg.norm(theta, axis=1) - 3.0) / 0.3) ** 2 - constant

    def draw(rng, m):
        z = rng.standard_normal((m, d))
        r = rng.choice(grid, m, p=special.softmax(log_radial))
        return r[:, None] * z / np.linalg.norm(z, axis=1, keepdims=True)

    return of(Law(log_density, draw), normal(d, 2.5), draws=N_DRAWS)


def skewed(d):
    """Logarithms of gamma variables of shapes .5 to 3, mixed by a rotation."""
    shapes = np.linspace(0.5, 3.0, d)
    axes = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]

    def log_density(theta):
        z = theta @ axes
        return (shapes * z - np.exp(z) - special.gammaln(shapes)).sum(axis=1)

    def draw(rng, m):
        return np.log(rng.gamma(shapes, size=(m, d))) @ axes.T

    return of(Law(log_density, draw), normal(d, 5.0), draws=N_DRAWS)


# The shapes on which a fit was wrong in silence before this study was written,
NAMED = {
    "widths 1 and .05": lambda: mixture(
        [0.5, 0.5], [[-3.0, 0.0], [4.0, 2.0]], [1.0, 0.05], normal(2, 5.0)
    ),
    "mode 4 prior sds out": lambda: mixture(
        [0.5, 0.5], [[0.0, 0.0], [4.0, 0.0]], [0.5, 0.3], normal(2, 1.0)
    ),
    "spike and slab": spike_and_slab,
    "Student 3 in conflict": lambda: conflict(3.0, 20.0),
    "nine groups": lambda: hierarchy(9),
    "twenty groups": lambda: hierarchy(20, n_each=5),
    "banana of a tenth": lambda: banana(1.0, 0.1),
    "banana of a tenth, d=6": lambda: banana(1.0, 0.1, d=6),
    "Student 3, d=10": lambda: students(3.0, 10),
    "corner, d=3": lambda: corner(3, 20.0),
    "funnel, d=3": lambda: funnel(3),
}
# and others.
OTHERS = {
    "conflict of Cauchys at 8": lambda: conflict(1.0, 8.0),
    "three modes, d=5": lambda: mixture(
        [0.5, 0.3, 0.2], 2.5 * np.eye(3, 5), [0.5, 0.3, 0.4], normal(5, 2.0)
    ),
    "corner, d=8": lambda: corner(8, 5.0),
    "simplex": simplex,
    "Poisson and gamma": poisson_gamma,
    "two means": two_means,
    "sinusoid": sinusoid,
    "change point": change_point,
    "Weibull": weibull,
    "phase": phase,
    "cross": cross,
    "shell, d=4": lambda: shell(4),
    "skewed, d=6": lambda: skewed(6),
    "Student 8, d=4": lambda: students(8.0, 4),
}
# A mode that one draw of the prior in 60,000 comes near.
UNREACHABLE = {
    "needle": lambda: mixture([0.5, 0.5], [[-3.0, 0.0], [4.0, 2.0]], [1.0, 0.005], normal(2, 5.0)),
}
