"""The families: what distribution rows have given their linear predictors.

What each method is for is said in `skpmd.linear._family.Family`.
"""

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaln,
    logit,
    ndtr,
    psi,
    stdtr,
    xlog1py,
    xlogy,
)

from skpmd._base.normal_mixtures import LOG_ROOT_TWO_PI
from skpmd.linear import _family_kernels as kernels
from skpmd.linear._dispersion import Cutpoints, Gamma, HalfStudentT
from skpmd.linear._family import Family

_MAX_COUNT = 1e15  # Larger numbers are not known to one.
_HUGE = 1e18  # NumPy draws no counts of larger means.
_LARGE = 1e4  # Stirling's series to its first term is exact from here on.
_TINY = 1e-300  # A parameter that underflows would leave no distribution.


class _Real(Family):
    """Numbers about a location, at a scale that is the first dispersion."""

    links, default_scale = ("identity",), 2.5

    def square_scale(self, p):
        return np.broadcast_to(p.dispersion[0] ** 2, p.mu.shape)

    def below(self, y, p):
        return self._below((y - p.mu) / p.dispersion[0], *p.dispersion[1:])

    def above(self, y, p):
        return self._below((p.mu - y) / p.dispersion[0], *p.dispersion[1:])


class Normal(_Real):
    """Normal distribution; its dispersion is the standard deviation."""

    name, links, kernel = "normal", ("identity", "log"), staticmethod(kernels.add_normal)
    dispersion, _below = ("sigma",), staticmethod(lambda z: ndtr(z))
    takes_outliers = "student_t"

    @property
    def is_conjugate(self):
        """Whether the link is the identity."""
        return self.link == "identity"

    def laws(self, scale):
        return (HalfStudentT(scale),)

    def rest(self, phi, y, size, weight):
        return -weight.sum() * (np.log(phi[:, 0]) + LOG_ROOT_TWO_PI)

    def rest_by_phi(self, phi, y, size, weight):
        return -weight.sum() / phi

    def variance(self, p):
        return self.square_scale(p)

    def log_density(self, y, p):
        (sigma,) = p.dispersion
        return -0.5 * ((y - p.mu) / sigma) ** 2 - (np.log(sigma) + LOG_ROOT_TWO_PI)

    def score(self, y, p):
        return (y - p.mu) / p.dispersion[0]

    def draw(self, p, rng):
        return rng.normal(p.mu, p.dispersion[0])


class StudentT(_Real):
    """Student's distribution; its dispersions are a scale and the degrees of freedom."""

    name, kernel = "student_t", staticmethod(kernels.add_student_t)
    is_concave, has_outliers, takes_outliers = False, True, ""
    dispersion, _below = ("sigma", "nu"), staticmethod(lambda z, nu: stdtr(nu, z))

    def laws(self, scale):
        """That of the degrees of freedom is by Juarez and Steel (2010)."""
        return HalfStudentT(scale), Gamma(2.0, 0.1)

    def rest(self, phi, y, size, weight):
        scale, df = phi.T
        one = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        return weight.sum() * (one - np.log(scale))

    def rest_by_phi(self, phi, y, size, weight):
        scale, df = phi.T
        by_df = 0.5 * (psi(0.5 * (df + 1.0)) - psi(0.5 * df) - 1.0 / df)
        return weight.sum() * np.stack([-1.0 / scale, by_df], axis=1)

    def variance(self, p):
        sigma, nu = p.dispersion
        square = np.where(nu > 2.0, sigma**2 * nu / (nu - 2.0), np.inf)
        return np.broadcast_to(square, p.mu.shape)

    def log_density(self, y, p):
        sigma, nu = p.dispersion
        constant = -betaln(0.5 * nu, 0.5) - 0.5 * np.log(nu) - np.log(sigma)
        return constant - 0.5 * (nu + 1.0) * np.log1p(((y - p.mu) / sigma) ** 2 / nu)

    def score(self, y, p):
        """By Wallace (1959)."""
        sigma, nu = p.dispersion
        z = (y - p.mu) / sigma
        size = np.sqrt(nu * np.log1p(z**2 / nu)) * ((8.0 * nu + 1.0) / (8.0 * nu + 3.0))
        return np.copysign(size, z)

    def draw(self, p, rng):
        sigma, nu = p.dispersion
        return p.mu + sigma * rng.standard_t(nu, p.mu.shape)


class _Count(Family):
    links, kind, of_what = ("log",), "count", "whole numbers from 0 on"

    def admits(self, y, size):
        return (y >= 0.0) & (y == np.floor(y)) & (y <= _MAX_COUNT)


class Poisson(_Count):
    """Poisson distribution."""

    name, kernel = "poisson", staticmethod(kernels.add_poisson)
    takes_outliers, stable = "negative_binomial", staticmethod(np.sqrt)
    shown = staticmethod(lambda root: np.rint(root**2))

    def rest(self, phi, y, size, weight):
        return np.full(len(phi), -(weight @ _log_factorial(y)))

    def deviance(self, y, mean, size, shape):
        return _log_ratio(y, mean) - (y - mean)

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


class GammaFamily(Family):
    """Gamma distribution of variance mu^2 / shape."""

    name, links, kernel = "gamma", ("log",), staticmethod(kernels.add_gamma)
    kind, dispersion, of_what = "positive", ("shape",), "numbers above 0"
    stable, shown = staticmethod(np.log), staticmethod(np.exp)
    of_zeros = (
        " Amounts of which some are zero are two models, of whether there is one and of how much "
        'it is: see "Amounts with zeros" in the guide to linear models.'
    )

    def admits(self, y, size):
        return (y > 0.0) & np.isfinite(y)

    def sizes(self, y, size):
        """Logarithms of the amounts."""
        return np.log(y)

    def rest(self, phi, y, size, weight):
        shape = phi[:, 0]
        large = np.maximum(shape, _LARGE)  # By Stirling's series; see `_log_rising`.
        of_large = 0.5 * np.log(large) - LOG_ROOT_TWO_PI - 1.0 / (12.0 * large)
        one = shape * np.log(shape) - gammaln(shape) - shape
        return weight.sum() * np.where(shape < _LARGE, one, of_large) - weight @ np.log(y)

    def rest_by_phi(self, phi, y, size, weight):
        large = np.maximum(phi, _LARGE)
        of_large = 0.5 / large + 1.0 / (12.0 * large**2)
        return weight.sum() * np.where(phi < _LARGE, np.log(phi) - psi(phi), of_large)

    def deviance(self, y, mean, size, shape):
        return np.log(mean / y) + y / mean - 1.0

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


class _OfBeta(Family):
    """What has incomplete beta functions as probabilities, of a, b, x and 1 - x as in `_beta`."""

    def below(self, y, p):
        a, b, x, _ = self._beta(y, p)
        return np.where(a > 0.0, betainc(a, b, x), 1.0)

    def above(self, y, p):
        a, b, _, rest = self._beta(y, p)
        return np.where(a > 0.0, betainc(b, a, rest), 0.0)

    def score(self, y, p):
        return _beta_score(*self._beta(y, p))


class NegativeBinomial(_OfBeta, _Count):
    """Negative binomial distribution of variance mu + mu^2 / shape."""

    name, kernel = "negative_binomial", staticmethod(kernels.add_negative_binomial)
    dispersion, stable = ("shape",), staticmethod(np.log1p)
    shown = staticmethod(lambda log: np.rint(np.expm1(log)))

    def score(self, y, p):
        """That of `_beta_score`, divided above and below by the cube root of what is below."""
        (shape,), b = p.dispersion, y + 1.0
        ratio = np.cbrt(p.mu / b)
        gap = (1.0 - 1.0 / (9.0 * b)) - ratio * (1.0 - 1.0 / (9.0 * shape))
        return 3.0 * gap / np.sqrt(1.0 / b + ratio**2 / shape)

    def rest(self, phi, y, size, weight):
        count, total = _distinct(y, weight)
        return (_log_rising(count, phi) - gammaln(count + 1.0)) @ total

    def rest_by_phi(self, phi, y, size, weight):
        count, total = _distinct(y, weight)
        return _slope_of_log_rising(count, phi) @ total[:, None]

    def deviance(self, y, mean, size, shape):
        return _log_ratio(y, mean) - (y + shape) * np.log((y + shape) / (mean + shape))

    def variance(self, p):
        return p.mu + p.mu**2 / p.dispersion[0]

    def log_density(self, y, p):
        (shape,) = p.dispersion
        # The logarithm of the binomial coefficient keeps its digits for large shapes.
        ways = -betaln(shape, y + 1.0) - np.log(shape + y)
        return ways - shape * np.log1p(p.mu / shape) + xlogy(y, p.mu / (shape + p.mu))

    def _beta(self, y, p):
        (shape,) = p.dispersion
        return shape, y + 1.0, shape / (shape + p.mu), p.mu / (shape + p.mu)

    def draw(self, p, rng):
        (shape,) = p.dispersion
        return rng.poisson(np.minimum(rng.gamma(shape, p.mu / shape), _HUGE))


class Binomial(_OfBeta):
    """Successes in a number of trials, which is 1 where none is given."""

    name, links = "binomial", ("logit", "probit", "cloglog")
    kind, needs_rest, stable = "count", True, None
    of_what = "whole numbers from 0 to the number of trials"

    @property
    def kernel(self):
        """That of the link, of which only the one in use is compiled."""
        return kernels.add_logit if self.link == "logit" else kernels.add_binomial

    def admits(self, y, size):
        return (y >= 0.0) & (y == np.floor(y)) & (y <= (1.0 if size is None else size))

    def check(self, y, trials):
        """ValueError where there cannot be one of these y (n,)."""
        wrong = ~self.admits(y, trials)
        if trials is None and wrong.any():
            i = int(wrong.argmax())
            raise ValueError(
                f"y must be 0 or 1 for family='binomial' without trials, and has {y[i]:g} in row "
                f"{i}: set trials to the column of X that has the numbers of trials, of which y "
                "are successes; rates times trials are successes, too."
            )
        super().check(y, trials)

    def sizes(self, y, size):
        """Trials."""
        return np.ones(len(y)) if size is None else size

    def rest(self, phi, y, size, weight):
        n = self.sizes(y, size)
        of_row = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return np.full(len(phi), weight @ of_row)

    def deviance(self, y, mean, size, shape):
        return _log_ratio(y, mean) + _log_ratio(size - y, size - mean)

    def largest(self, p):
        return p.trials

    def mean(self, p):
        return p.trials * p.mu

    def variance(self, p):
        return p.trials * p.mu * p.rest

    def log_density(self, y, p):
        ways = -betaln(p.trials - y + 1.0, y + 1.0) - np.log1p(p.trials)
        return ways + xlogy(y, p.mu) + xlogy(p.trials - y, p.rest)

    def _beta(self, y, p):
        return p.trials - y, y + 1.0, p.rest, p.mu

    def score(self, y, p):
        a, *others = self._beta(y, p)
        return _beta_score(np.maximum(a, 0.5), *others)

    def draw(self, p, rng):
        return rng.binomial(p.trials.astype(np.int64), p.mu)


class Beta(_OfBeta):
    """Beta distribution of shares, with parameters mu and (1 - mu) times a precision."""

    name, links, kernel = "beta", ("logit", "probit", "cloglog"), staticmethod(kernels.add_beta)
    kind, dispersion, needs_rest, is_concave = "unit", ("precision",), True, False
    of_what = "numbers above 0 and below 1"
    stable, shown = staticmethod(logit), staticmethod(expit)

    def admits(self, y, size):
        return (y > 0.0) & (y < 1.0)

    def sizes(self, y, size):
        """Log odds of the shares."""
        return logit(y)

    def rest(self, phi, y, size, weight):
        return weight.sum() * gammaln(phi[:, 0]) - weight @ (np.log(y) + np.log1p(-y))

    def rest_by_phi(self, phi, y, size, weight):
        return weight.sum() * psi(phi)

    def variance(self, p):
        return p.mu * p.rest / (1.0 + p.dispersion[0])

    def log_density(self, y, p):
        a, b = self._shapes(p)
        return xlogy(a - 1.0, y) + xlog1py(b - 1.0, -y) - betaln(a, b)

    def _shapes(self, p):
        return (np.maximum(mean * p.dispersion[0], _TINY) for mean in (p.mu, p.rest))

    def _beta(self, y, p):
        return *self._shapes(p), y, 1.0 - y

    def draw(self, p, rng):
        return rng.beta(*self._shapes(p))


class Cumulative(Family):
    """Ordered classes, codes 0 to K - 1: P(y <= k) is the logistic function of cut_k - z."""

    name, links, kernel = "cumulative", ("logit",), staticmethod(kernels.add_cumulative)
    kind, has_cutpoints = "class", True

    def __init__(self, n_classes):
        super().__init__()
        self.n_classes, self.dispersions = n_classes, Cutpoints(n_classes)


FAMILIES = {
    one.name: one
    for one in (Normal, StudentT, Poisson, NegativeBinomial, GammaFamily, Binomial, Beta)
}


def _gamma_score(shape, x):
    """About the probit of the regularised incomplete gamma function (Wilson and Hilferty 1931)."""
    return 3.0 * np.sqrt(shape) * (np.cbrt(x / shape) - 1.0 + 1.0 / (9.0 * shape))


def _beta_score(a, b, x, rest):
    """About the probit of the incomplete beta function (Abramowitz and Stegun 1964, 26.5.22)."""
    first, second = np.cbrt(b * x), np.cbrt(a * rest)
    gap = first * (1.0 - 1.0 / (9.0 * b)) - second * (1.0 - 1.0 / (9.0 * a))
    return 3.0 * gap / np.sqrt(first**2 / b + second**2 / a)


def _log_factorial(y):
    """The logarithm of y! of whole numbers (n,), once for each number where these are few."""
    largest = y.max(initial=0.0)
    if largest >= len(y):
        return gammaln(y + 1.0)
    return gammaln(np.arange(1.0, largest + 2.0))[y.astype(np.intp)]


def _log_rising(n, x):
    """log Gamma(n + x) - log Gamma(x) - n log x, of large x by Stirling's series.

    There each of the three terms alone is rounded to more than all of them are together, and many
    rows have the same n.
    """
    large = np.maximum(x, _LARGE)
    of_large = (large + n - 0.5) * np.log1p(n / large) - n
    of_large += (1.0 / (large + n) - 1.0 / large) / 12.0
    return np.where(x < _LARGE, gammaln(n + x) - gammaln(x) - xlogy(n, x), of_large)


def _slope_of_log_rising(n, x):
    """Its derivative by x."""
    large = np.maximum(x, _LARGE)
    ahead = large + n
    of_large = np.log1p(n / large) - n / large + 0.5 * n / (large * ahead)
    of_large += n * (large + ahead) / (12.0 * (large * ahead) ** 2)
    return np.where(x < _LARGE, psi(n + x) - psi(x) - n / x, of_large)


def _distinct(y, weight):
    """Distinct counts, and the weight of each."""
    count, place = np.unique(y, return_inverse=True)
    return count, np.bincount(place, weight)


def _log_ratio(y, mean):
    """y log(y / mean), which is zero where y is, for all means."""
    return xlogy(y, y / np.maximum(mean, np.finfo(float).tiny))
