"""Distributions of one target given its mean and dispersion, for `FamilyMixture`.

Methods of a family take `Parameters` of r rows by m particles and, but for moments and draws,
targets (r, 1) within its support. Continuous families and counts have the same methods: what is
called a density is a probability for counts. A score is about the probit of what is below: it
orders particles, and costs little. The distribution functions of counts also have values
between counts, those of the incomplete gamma and beta functions, which searches and integrals need.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaln,
    ndtr,
    stdtr,
    xlog1py,
    xlogy,
)

from skpmd._base.normal_mixtures import LOG_ROOT_TWO_PI

_TINY = 1e-300  # A parameter that underflows would leave no distribution.
_HUGE = 1e18  # NumPy draws no counts of larger means.
# Means of linear predictors, and what they lack to 1, which a difference would not know near 1.
LINKS = {
    "identity": (lambda z: z, lambda z: 1.0 - z),
    "log": (np.exp, lambda z: -np.expm1(z)),
    "logit": (expit, lambda z: expit(-z)),
    "probit": (ndtr, lambda z: ndtr(-z)),
    "cloglog": (lambda z: -np.expm1(-np.exp(z)), lambda z: np.exp(-np.exp(z))),
}


class Parameters(NamedTuple):
    """Of the distributions of r rows, each a mixture over m particles."""

    mu: np.ndarray  # (r, m): Means; of student_t locations, of binomial probabilities.
    rest: np.ndarray | None  # (r, m): 1 - mu, of families whose means lie between 0 and 1.
    dispersion: tuple  # Arrays (m,) or (r, m).
    trials: np.ndarray | None  # (r, 1): Of binomial.
    weights: np.ndarray  # (m,): They add up to 1.


def _gamma_score(shape, x):
    """About the probit of the regularised incomplete gamma function (Wilson and Hilferty 1931)."""
    return 3.0 * np.sqrt(shape) * (np.cbrt(x / shape) - 1.0 + 1.0 / (9.0 * shape))


def _beta_score(a, b, x, rest):
    """About the probit of the incomplete beta function (Abramowitz and Stegun 1964, 26.5.22)."""
    first, second = np.cbrt(b * x), np.cbrt(a * rest)
    gap = first * (1.0 - 1.0 / (9.0 * b)) - second * (1.0 - 1.0 / (9.0 * a))
    return 3.0 * gap / np.sqrt(first**2 / b + second**2 / a)


class Family:
    """What families have in common: their support and the names of their dispersion."""

    kind = "real"  # Or positive, unit or count.
    dispersion: tuple = ()
    needs_rest = False

    @property
    def least(self):
        """Lower end of the support."""
        return -np.inf if self.kind == "real" else 0.0

    def mean(self, p):
        """Means (r, m)."""
        return p.mu

    def square_scale(self, p):
        """Squared width (r, m) that is finite where the variance may not be."""
        return self.variance(p)

    def largest(self, p):
        """Upper end of the support: a number or (r, 1)."""
        return 1.0 if self.kind == "unit" else np.inf


class _Normal(Family):
    dispersion = ("sigma",)

    def variance(self, p):
        return np.broadcast_to(p.dispersion[0] ** 2, p.mu.shape)

    def log_density(self, y, p):
        (sigma,) = p.dispersion
        return -0.5 * ((y - p.mu) / sigma) ** 2 - (np.log(sigma) + LOG_ROOT_TWO_PI)

    def below(self, y, p):
        return ndtr((y - p.mu) / p.dispersion[0])

    def above(self, y, p):
        return ndtr((p.mu - y) / p.dispersion[0])

    def score(self, y, p):
        return (y - p.mu) / p.dispersion[0]

    def draw(self, p, rng):
        return rng.normal(p.mu, p.dispersion[0])


class _StudentT(Family):
    dispersion = ("sigma", "nu")

    def variance(self, p):
        sigma, nu = p.dispersion
        square = np.where(nu > 2.0, sigma**2 * nu / (nu - 2.0), np.inf)
        return np.broadcast_to(square, p.mu.shape)

    def square_scale(self, p):
        return np.broadcast_to(p.dispersion[0] ** 2, p.mu.shape)

    def log_density(self, y, p):
        sigma, nu = p.dispersion
        constant = -betaln(0.5 * nu, 0.5) - 0.5 * np.log(nu) - np.log(sigma)
        return constant - 0.5 * (nu + 1.0) * np.log1p(((y - p.mu) / sigma) ** 2 / nu)

    def below(self, y, p):
        sigma, nu = p.dispersion
        return stdtr(nu, (y - p.mu) / sigma)

    def above(self, y, p):
        sigma, nu = p.dispersion
        return stdtr(nu, (p.mu - y) / sigma)

    def score(self, y, p):
        sigma, nu = p.dispersion
        z = (y - p.mu) / sigma
        # Wallace 1959.
        size = np.sqrt(nu * np.log1p(z**2 / nu)) * ((8.0 * nu + 1.0) / (8.0 * nu + 3.0))
        return np.copysign(size, z)

    def draw(self, p, rng):
        sigma, nu = p.dispersion
        return p.mu + sigma * rng.standard_t(nu, p.mu.shape)


class _Poisson(Family):
    kind = "count"

    def variance(self, p):
        return p.mu

    def log_density(self, y, p):
        return xlogy(y, p.mu) - p.mu - gammaln(y + 1.0)

    def below(self, y, p):
        return gammaincc(y + 1.0, p.mu)

    def above(self, y, p):
        return gammainc(y + 1.0, p.mu)

    def score(self, y, p):
        return -_gamma_score(y + 1.0, p.mu)

    def draw(self, p, rng):
        return rng.poisson(np.minimum(p.mu, _HUGE))


class _NegativeBinomial(Family):
    kind, dispersion = "count", ("shape",)

    def variance(self, p):
        return p.mu + p.mu**2 / p.dispersion[0]

    def log_density(self, y, p):
        (shape,) = p.dispersion
        # The logarithm of the binomial coefficient keeps its digits for large shapes.
        ways = -betaln(shape, y + 1.0) - np.log(shape + y)
        return ways - shape * np.log1p(p.mu / shape) + xlogy(y, p.mu / (shape + p.mu))

    def below(self, y, p):
        (shape,) = p.dispersion
        return betainc(shape, y + 1.0, shape / (shape + p.mu))

    def above(self, y, p):
        (shape,) = p.dispersion
        return betainc(y + 1.0, shape, p.mu / (shape + p.mu))

    def score(self, y, p):
        # `_beta_score`, divided above and below by the cube root of what is below.
        (shape,), b = p.dispersion, y + 1.0
        ratio = np.cbrt(p.mu / b)
        gap = (1.0 - 1.0 / (9.0 * b)) - ratio * (1.0 - 1.0 / (9.0 * shape))
        return 3.0 * gap / np.sqrt(1.0 / b + ratio**2 / shape)

    def draw(self, p, rng):
        (shape,) = p.dispersion
        return rng.poisson(np.minimum(rng.gamma(shape, p.mu / shape), _HUGE))


class _Gamma(Family):
    kind, dispersion = "positive", ("shape",)

    def variance(self, p):
        return p.mu**2 / p.dispersion[0]

    def log_density(self, y, p):
        (shape,) = p.dispersion
        rate = shape / p.mu
        return shape * np.log(rate) - gammaln(shape) + xlogy(shape - 1.0, y) - y * rate

    def below(self, y, p):
        return gammainc(p.dispersion[0], y * (p.dispersion[0] / p.mu))

    def above(self, y, p):
        return gammaincc(p.dispersion[0], y * (p.dispersion[0] / p.mu))

    def score(self, y, p):
        return _gamma_score(p.dispersion[0], y * (p.dispersion[0] / p.mu))

    def draw(self, p, rng):
        return rng.gamma(p.dispersion[0], p.mu / p.dispersion[0])


class _Binomial(Family):
    kind, needs_rest = "count", True

    def mean(self, p):
        return p.trials * p.mu

    def variance(self, p):
        return p.trials * p.mu * p.rest

    def largest(self, p):
        return p.trials

    def log_density(self, y, p):
        ways = -betaln(p.trials - y + 1.0, y + 1.0) - np.log1p(p.trials)
        return ways + xlogy(y, p.mu) + xlogy(p.trials - y, p.rest)

    def below(self, y, p):
        return np.where(y < p.trials, betainc(p.trials - y, y + 1.0, p.rest), 1.0)

    def above(self, y, p):
        return np.where(y < p.trials, betainc(y + 1.0, p.trials - y, p.mu), 0.0)

    def score(self, y, p):
        return _beta_score(np.maximum(p.trials - y, 0.5), y + 1.0, p.rest, p.mu)

    def draw(self, p, rng):
        return rng.binomial(p.trials.astype(np.int64), p.mu)


class _Beta(Family):
    kind, dispersion, needs_rest = "unit", ("kappa",), True

    def variance(self, p):
        return p.mu * p.rest / (1.0 + p.dispersion[0])

    def _shapes(self, p):
        (kappa,) = p.dispersion
        return np.maximum(p.mu * kappa, _TINY), np.maximum(p.rest * kappa, _TINY)

    def log_density(self, y, p):
        a, b = self._shapes(p)
        return xlogy(a - 1.0, y) + xlog1py(b - 1.0, -y) - betaln(a, b)

    def below(self, y, p):
        a, b = self._shapes(p)
        return betainc(a, b, y)

    def above(self, y, p):
        a, b = self._shapes(p)
        return betainc(b, a, 1.0 - y)

    def score(self, y, p):
        return _beta_score(*self._shapes(p), y, 1.0 - y)

    def draw(self, p, rng):
        return rng.beta(*self._shapes(p))


FAMILIES = {
    "normal": _Normal(),
    "student_t": _StudentT(),
    "poisson": _Poisson(),
    "negative_binomial": _NegativeBinomial(),
    "gamma": _Gamma(),
    "binomial": _Binomial(),
    "beta": _Beta(),
}
