"""Families: what distribution rows have given their linear predictors.

A family says which y it takes, how a dispersion enters, what is in closed form of its log density,
and which kernel has the rest.
"""

import numpy as np
from scipy.special import expit, gammaln, logit, ndtr, ndtri, psi, xlogy

from skpmd.linear import _family_kernels as kernels
from skpmd.linear._dispersion import Cutpoints, Dispersions, Gamma, HalfStudentT, RootHalfNormal

_MAX_COUNT = 1e15  # Larger numbers are not known to one.
_LARGE = 1e4  # Stirling's series to its first term is exact from here on.
_CODES = {
    "logit": kernels.LOGIT, "probit": kernels.PROBIT, "cloglog": kernels.CLOGLOG,
    "identity": kernels.IDENTITY, "log": kernels.LOG,
}  # fmt: skip
_HALF_LOG_TWO_PI = 0.5 * np.log(2.0 * np.pi)


def link_of(name, mu):
    """Linear predictors of means."""
    with np.errstate(divide="ignore"):
        return {
            "identity": lambda: mu, "log": lambda: np.log(mu), "logit": lambda: logit(mu),
            "probit": lambda: ndtri(mu), "cloglog": lambda: np.log(-np.log1p(-mu)),
        }[name]()  # fmt: skip


def mean_of(name, z):
    """Means of linear predictors."""
    with np.errstate(over="ignore"):
        return {
            "identity": lambda: z, "log": lambda: np.exp(z), "logit": lambda: expit(z),
            "probit": lambda: ndtr(z), "cloglog": lambda: -np.expm1(-np.exp(z)),
        }[name]()  # fmt: skip


class Family:
    """A distribution of y given a linear predictor, with dispersions phi that all rows share.

    A subclass has a ``name``, ``links`` of which the first is the default, and a ``kernel`` as of
    `skpmd.linear._family_kernels`; it may override the methods.

    Parameters
    ----------
    link : str
        One of ``links``.
    prior_scale : float or None
        Scale of the prior of the first dispersion, None as by default.
    """

    name, links, kernel = "", (), None
    is_count = False  # Whether y are whole numbers.
    is_real = False  # Whether y has a location and a scale of its own.
    is_conjugate = False  # Whether coefficients are normal, given the dispersion and rows.
    has_outliers = False  # Whether its log density is not concave in the predictor.
    has_cutpoints = False  # Whether its dispersions take the place of an intercept.
    groups = None  # `skpmd.linear._groups.Groups`, whose sds are further dispersions.
    default_scale = 1.0  # Of the prior of the first dispersion.
    of_what = "numbers"  # What y has to be, for errors.

    def __init__(self, link="auto", prior_scale=None):
        self.link = self.links[0] if link == "auto" else link
        self.prior_scale = self.default_scale if prior_scale is None else prior_scale
        self.code, self.dispersions = _CODES[self.link], self.priors(self.prior_scale)

    def priors(self, scale):
        """The `Dispersions`; none by default."""
        return Dispersions()

    def admits(self, y, size):
        """Which y (n,) there can be, bool; ``size`` are trials, or None."""
        return np.isfinite(y)

    def sizes(self, y, size):
        """What kernels are given beside y, (n,)."""
        return y if size is None else size

    def rest(self, phi, y, size, weight):
        """Sums over rows of what no kernel has of the log density, (m,)."""
        return np.zeros(len(phi))

    def rest_by_phi(self, phi, y, size, weight):
        """Its derivatives by dispersions, (m, k)."""
        return np.zeros(phi.shape)

    def deviance(self, y, mean, size, shape):
        """Half of the deviance of means (n,), by row; squares where a family has none.

        ``size`` (n,) are trials, and ``shape`` is that of a negative binomial distribution.
        """
        return (y - mean) ** 2


class _Real(Family):
    links, is_real, default_scale = ("identity",), True, 2.5


class Normal(_Real):
    """Normal distribution; its dispersion is the standard deviation."""

    name, links, kernel = "normal", ("identity", "log"), staticmethod(kernels.add_normal)

    @property
    def is_conjugate(self):
        """Whether the link is the identity; see `Family`."""
        return self.link == "identity"

    def priors(self, scale):
        """A half-Student-t standard deviation; see `Family`."""
        return Dispersions(("sigma",), (HalfStudentT(scale),))

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        return -weight.sum() * (np.log(phi[:, 0]) + _HALF_LOG_TWO_PI)

    def rest_by_phi(self, phi, y, size, weight):
        """See `Family`."""
        return -weight.sum() / phi


class StudentT(_Real):
    """Student's distribution; its dispersions are a scale and the degrees of freedom."""

    name, kernel = "student_t", staticmethod(kernels.add_student_t)
    has_outliers = True

    def priors(self, scale):
        """A half-Student-t scale, degrees of freedom by Juarez and Steel (2010); see `Family`."""
        laws = HalfStudentT(scale), Gamma(2.0, 0.1)
        return Dispersions(("sigma", "nu"), laws)

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        scale, df = phi.T
        one = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        return weight.sum() * (one - np.log(scale))

    def rest_by_phi(self, phi, y, size, weight):
        """See `Family`."""
        scale, df = phi.T
        by_df = 0.5 * (psi(0.5 * (df + 1.0)) - psi(0.5 * df) - 1.0 / df)
        return weight.sum() * np.stack([-1.0 / scale, by_df], axis=1)


class _Count(Family):
    links, is_count, of_what = ("log",), True, "whole numbers from 0 on"

    def admits(self, y, size):
        """Whole numbers from zero on; see `Family`."""
        return (y >= 0.0) & (y == np.floor(y)) & (y <= _MAX_COUNT)


class Poisson(_Count):
    """Poisson distribution."""

    name, kernel = "poisson", staticmethod(kernels.add_poisson)

    def deviance(self, y, mean, size, shape):
        """See `Family`."""
        return _log_ratio(y, mean) - (y - mean)

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        return np.full(len(phi), -(weight @ gammaln(y + 1.0)))


class NegativeBinomial(_Count):
    """Negative binomial distribution of variance mu + mu^2 / shape."""

    name, kernel = "negative_binomial", staticmethod(kernels.add_negative_binomial)

    def deviance(self, y, mean, size, shape):
        """See `Family`."""
        return _log_ratio(y, mean) - (y + shape) * np.log((y + shape) / (mean + shape))

    def priors(self, scale):
        """A half-normal root of 1 / shape; see `Family`."""
        return Dispersions(("shape",), (RootHalfNormal(scale),))

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        count, total = _distinct(y, weight)
        return (_log_rising(count, phi) - gammaln(count + 1.0)) @ total

    def rest_by_phi(self, phi, y, size, weight):
        """See `Family`."""
        count, total = _distinct(y, weight)
        return _slope_of_log_rising(count, phi) @ total[:, None]


class GammaFamily(Family):
    """Gamma distribution of variance mu^2 / shape."""

    name, links, kernel = "gamma", ("log",), staticmethod(kernels.add_gamma)
    of_what = "numbers above 0"

    def deviance(self, y, mean, size, shape):
        """See `Family`."""
        return np.log(mean / y) + y / mean - 1.0

    def priors(self, scale):
        """A half-normal root of 1 / shape; see `Family`."""
        return Dispersions(("shape",), (RootHalfNormal(scale),))

    def admits(self, y, size):
        """Positive numbers; see `Family`."""
        return (y > 0.0) & np.isfinite(y)

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        shape = phi[:, 0]
        large = np.maximum(shape, _LARGE)  # By Stirling's series; see `_log_rising`.
        of_large = 0.5 * np.log(large) - _HALF_LOG_TWO_PI - 1.0 / (12.0 * large)
        one = shape * np.log(shape) - gammaln(shape) - shape
        return weight.sum() * np.where(shape < _LARGE, one, of_large) - weight @ np.log(y)

    def rest_by_phi(self, phi, y, size, weight):
        """See `Family`."""
        large = np.maximum(phi, _LARGE)
        of_large = 0.5 / large + 1.0 / (12.0 * large**2)
        return weight.sum() * np.where(phi < _LARGE, np.log(phi) - psi(phi), of_large)

    def sizes(self, y, size):
        """Logarithms of the amounts; see `Family`."""
        return np.log(y)


class Binomial(Family):
    """Successes in a number of trials, which is 1 where none is given."""

    name, links = "binomial", ("logit", "probit", "cloglog")
    kernel, is_count = staticmethod(kernels.add_binomial), True
    of_what = "whole numbers from 0 to the number of trials"

    def deviance(self, y, mean, size, shape):
        """See `Family`."""
        return _log_ratio(y, mean) + _log_ratio(size - y, size - mean)

    def admits(self, y, size):
        """Whole numbers up to the trials; see `Family`."""
        return (y >= 0.0) & (y == np.floor(y)) & (y <= (1.0 if size is None else size))

    def sizes(self, y, size):
        """Trials; see `Family`."""
        return np.ones(len(y)) if size is None else size

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        n = self.sizes(y, size)
        of_row = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return np.full(len(phi), weight @ of_row)


class Beta(Family):
    """Beta distribution of shares, with parameters mu and (1 - mu) times a precision."""

    name, links = "beta", ("logit", "probit", "cloglog")
    kernel, of_what = staticmethod(kernels.add_beta), "numbers above 0 and below 1"

    def priors(self, scale):
        """A half-normal root of 1 / precision; see `Family`."""
        return Dispersions(("precision",), (RootHalfNormal(scale),))

    def admits(self, y, size):
        """Numbers between 0 and 1; see `Family`."""
        return (y > 0.0) & (y < 1.0)

    def sizes(self, y, size):
        """Log odds of the shares; see `Family`."""
        return logit(y)

    def rest(self, phi, y, size, weight):
        """See `Family`."""
        return weight.sum() * gammaln(phi[:, 0]) - weight @ (np.log(y) + np.log1p(-y))

    def rest_by_phi(self, phi, y, size, weight):
        """See `Family`."""
        return weight.sum() * psi(phi)


class Cumulative(Family):
    """Ordered classes, codes 0 to K - 1: P(y <= k) is the logistic function of cut_k - z."""

    name, links, kernel = "cumulative", ("logit",), staticmethod(kernels.add_cumulative)
    has_cutpoints = True

    def __init__(self, n_classes):
        super().__init__()
        self.n_classes, self.dispersions = n_classes, Cutpoints(n_classes)


FAMILIES = {
    one.name: one
    for one in (Normal, StudentT, Poisson, NegativeBinomial, GammaFamily, Binomial, Beta)
}


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
