"""Models with data whose posteriors are hard: eight schools, predators and prey, many columns."""

import numpy as np
from scipy import special, stats

from ..peers.problem import Problem
from .shapes_targets import LOG_TWO_PI, N_DRAWS, Shape, normal
from .shapes_truth import importance_truth, truth

# Rubin (1981): effects of coaching in eight schools, and their standard errors.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

# Thousands of pelts of hare and lynx that the Hudson's Bay Company bought, 1900 to 1920.
HARE = [30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1,
        40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7]  # fmt: skip
LYNX = [4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4,
        8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]  # fmt: skip
STEPS_A_YEAR = 5
LARGEST_LOG = 30.0  # Where a population leaves these bounds the solution is nowhere near the data.


def eight_schools(centred):
    """Effects N(mu, tau^2), mu ~ N(0, 5^2), tau ~ half-Cauchy(5).

    Coordinates are the effects, mu and log tau; not centred, the effects as (effect - mu) / tau.
    """

    def effects(theta):
        if centred:
            return theta[:, :8]
        return theta[:, 8:9] + np.exp(theta[:, 9:]) * theta[:, :8]

    def log_prior(theta):
        mu, log_tau = theta[:, 8], theta[:, 9]
        z = (theta[:, :8] - mu[:, None]) * np.exp(-log_tau)[:, None] if centred else theta[:, :8]
        value = -0.5 * (z**2).sum(axis=1) - 4.0 * LOG_TWO_PI - (8.0 * log_tau if centred else 0.0)
        return value + stats.norm.logpdf(mu, scale=5.0) + _log_half_cauchy(log_tau)

    def sample_prior(rng, m):
        mu, tau = 5.0 * rng.standard_normal(m), np.abs(5.0 * rng.standard_cauchy(m))
        z = rng.standard_normal((m, 8))
        first = mu[:, None] + tau[:, None] * z if centred else z
        return np.column_stack([first, mu, np.log(tau)])

    def log_likelihood(theta, X, y):
        school, error = X[:, 0].astype(int), X[:, 1]
        z = (y - effects(theta)[:, school]) / error
        return (-0.5 * z**2 - np.log(error) - 0.5 * LOG_TWO_PI).sum(axis=1)

    exact, log_evidence = _exact_schools(np.random.default_rng(1), centred)
    problem = Problem(10, log_likelihood, log_prior, sample_prior)
    X = np.column_stack([np.arange(8.0), ERRORS])
    return Shape(problem, X, EFFECTS, truth(exact, log_evidence))


def _log_half_cauchy(log_tau):
    """The density of log tau where tau is half-Cauchy(5), without overflow."""
    x = log_tau - np.log(5.0)
    return np.log(2.0 / np.pi) + x - np.logaddexp(0.0, 2.0 * x)


def _exact_schools(rng, centred):
    """Draws and log evidence: given tau all is Gaussian, and tau is by quadrature on a fine grid.

    The density of log tau falls as tau to its left and as tau^-9 to its right.
    """
    grid = np.linspace(-18.0, 8.0, 20_001)
    log_density, _, _ = _given_tau(grid)
    log_density += _log_half_cauchy(grid)
    mass = np.exp(log_density - log_density.max())
    below = np.cumsum(0.5 * (mass[1:] + mass[:-1]))
    log_evidence = log_density.max() + np.log(below[-1] * (grid[1] - grid[0]))
    log_tau = np.interp(rng.random(N_DRAWS) * below[-1], np.append(0.0, below), grid)
    _, mean, variance = _given_tau(log_tau)
    mu = mean + np.sqrt(variance) * rng.standard_normal(N_DRAWS)
    tau = np.exp(log_tau)
    # Given mu and tau, z is Gaussian with this precision; so no tau is too small.
    ratio = tau[:, None] / ERRORS
    precision = 1.0 + ratio**2
    z = ratio * (EFFECTS - mu[:, None]) / ERRORS / precision
    z += rng.standard_normal(z.shape) / np.sqrt(precision)
    first = mu[:, None] + tau[:, None] * z if centred else z
    return np.column_stack([first, mu, log_tau]), log_evidence


def _given_tau(log_tau):
    """Log-likelihood of tau with all else integrated out, and mean and variance of mu given it."""
    weight, linear, constant = 1.0 / 25.0, 0.0, -np.log(5.0)
    for effect, error in zip(EFFECTS, ERRORS, strict=True):
        spread = error**2 + np.exp(2.0 * log_tau)
        weight, linear = weight + 1.0 / spread, linear + effect / spread
        constant = constant - 0.5 * (effect**2 / spread + np.log(spread) + LOG_TWO_PI)
    return constant + 0.5 * linear**2 / weight - 0.5 * np.log(weight), linear / weight, 1.0 / weight


def lotka_volterra():
    """Predators and prey with lognormal errors, the model that posteriordb has of these data.

    Coordinates are logarithms: rates of growth, of being eaten, of death and of eating, the two
    populations of 1900, and the sds of the errors of both. Rates are N(1, 0.5^2) and
    N(0.05, 0.05^2), positive; the other four are lognormal.
    """
    means, sds = np.array([1.0, 0.05, 1.0, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    outside = stats.norm.cdf(0.0, means, sds)
    centres = np.array([np.log(10.0), np.log(10.0), -1.0, -1.0])

    def log_prior(theta):
        log_rates = theta[:, :4]
        with np.errstate(over="ignore"):
            rates = stats.norm.logpdf(np.exp(log_rates), means, sds) - np.log1p(-outside)
        rest = stats.norm.logpdf(theta[:, 4:], centres)
        return (rates + log_rates).sum(axis=1) + rest.sum(axis=1)

    def sample_prior(rng, m):
        share = outside + (1.0 - outside) * rng.random((m, 4))
        rates = stats.norm.ppf(share, means, sds)
        return np.column_stack([np.log(rates), centres + rng.standard_normal((m, 4))])

    def log_likelihood(theta, X, y):
        paths = _populations(np.exp(theta[:, :4]), theta[:, 4:6], years=20)
        z = (np.log(y) - paths[:, X[:, 0].astype(int)]) * np.exp(-theta[:, None, 6:])
        constant = np.log(y).sum() + len(y) * LOG_TWO_PI
        return -0.5 * (z**2).sum(axis=(1, 2)) - len(y) * theta[:, 6:].sum(axis=1) - constant

    X, y = np.arange(21.0)[:, None], np.column_stack([HARE, LYNX])
    problem = Problem(8, log_likelihood, log_prior, sample_prior)
    start = np.log([0.55, 0.028, 0.80, 0.024, 33.0, 6.0, 0.25, 0.25])
    return Shape(problem, X, y, _reference(problem, X, y, start, dof=7.0))


def _populations(rates, log_start, years):
    """Logarithms of both populations at the end of every year, (m, years + 1, 2).

    By the classical Runge-Kutta method with fixed steps, on logarithms.
    """
    growth, eaten, death, eating = rates.T
    size = 1.0 / STEPS_A_YEAR

    def slope(state):
        prey, predators = np.exp(state)
        return np.stack([growth - eaten * predators, eating * prey - death])

    state = log_start.T.copy()
    path = [state]
    for step in range(1, years * STEPS_A_YEAR + 1):
        first = slope(state)
        second = slope(_bounded(state + 0.5 * size * first))
        third = slope(_bounded(state + 0.5 * size * second))
        fourth = slope(_bounded(state + size * third))
        state = _bounded(state + size / 6.0 * (first + 2.0 * second + 2.0 * third + fourth))
        if step % STEPS_A_YEAR == 0:
            path.append(state)
    return np.stack(path).transpose(2, 0, 1)


def _bounded(state):
    return np.clip(state, -LARGEST_LOG, LARGEST_LOG)


def logistic(d, n):
    """Logistic regression on d correlated columns, generated, under N(0, 1)."""
    rng = np.random.default_rng(d)
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    y = (rng.random(n) < special.expit(X @ rng.standard_normal(d))).astype(float)

    def log_likelihood(theta, X, y):
        logits = theta @ X.T
        return logits @ y - np.logaddexp(0.0, logits).sum(axis=1)

    prior = normal(d, 1.0)
    problem = Problem(d, log_likelihood, prior.log_density, prior.draw)
    return Shape(problem, X, y, _reference(problem, X, y, np.zeros(d), dof=20.0))


def _reference(problem, X, y, start, dof):
    def log_joint(theta):
        return problem.log_prior(theta) + problem.log_likelihood(theta, X, y)

    return importance_truth(log_joint, start, dof)


MODELS = {
    "lotka_volterra": lotka_volterra,
    "eight_centred": lambda: eight_schools(True),
    "eight_noncentred": lambda: eight_schools(False),
    "logistic20": lambda: logistic(20, 200),
    "logistic50": lambda: logistic(50, 1000),
}
