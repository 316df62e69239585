"""What families of distributions have in common, and links between means and linear predictors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from skpmd.linear import _family_kernels as kernels
from skpmd.linear._dispersion import Dispersions, RootHalfNormal


class Link(NamedTuple):
    """Functions of linear predictors and of means, and how kernels know them."""

    code: int
    mean: Callable  # Of a linear predictor.
    rest: Callable  # What the mean lacks to 1, which a difference would not know near 1.
    predictor: Callable  # Of a mean.


LINKS = {
    "identity": Link(kernels.IDENTITY, lambda z: z, lambda z: 1.0 - z, lambda mu: mu),
    "log": Link(kernels.LOG, np.exp, lambda z: -np.expm1(z), np.log),
    "logit": Link(kernels.LOGIT, expit, lambda z: expit(-z), logit),
    "probit": Link(kernels.PROBIT, ndtr, lambda z: ndtr(-z), ndtri),
    "cloglog": Link(
        kernels.CLOGLOG, lambda z: -np.expm1(-np.exp(z)), lambda z: np.exp(-np.exp(z)),
        lambda mu: np.log(-np.log1p(-mu)),
    ),
}  # fmt: skip


def exponentials(table, is_logistic=False):
    """e to the power of numbers up to 300 in size, in the place of a table where that is whole."""
    table = np.ascontiguousarray(table)
    kernels.exponentials(table.reshape(-1), is_logistic)
    return table


def sigmoids(table):
    """`expit` of a table's numbers in the same way."""
    return exponentials(table, is_logistic=True)


# For tables that may be overwritten, which are the same in a third of the time.
FAST_MEANS = {"log": exponentials, "logit": sigmoids}


class Parameters(NamedTuple):
    """Of the distributions of r rows, each a mixture over m particles."""

    mu: np.ndarray  # (r, m): Means; of student_t locations, of binomial probabilities.
    rest: np.ndarray | None  # (r, m): 1 - mu, of families whose means lie between 0 and 1.
    dispersion: tuple  # Arrays (m,) or (r, m).
    trials: np.ndarray | None  # (r, 1): Of binomial.
    weights: np.ndarray  # (m,), or those of each row: They add up to 1.

    def average(self, terms):
        """Averages (r,) over particles of terms (r, m)."""
        return np.einsum("ij,ij->i", terms, np.broadcast_to(self.weights, terms.shape))


class Family:
    """A distribution of y given a linear predictor, with dispersions phi that all rows share.

    A subclass has the attributes below. For fits it has a ``kernel`` as of
    `skpmd.linear._family_kernels`, and `rest` and `rest_by_phi` for what the kernel leaves out. For
    predictions, which are distributions of one target, it has methods of `Parameters` ``p`` of r
    rows by m particles and, but for moments and draws, of targets (r, 1) within its support::

        variance(p), log_density(y, p), below(y, p), above(y, p), score(y, p), draw(p, rng)

    What is called a density is a probability for counts. A score is about the probit of what is
    below: it orders particles, and costs little. The distribution functions of counts also have
    values between counts, those of the incomplete gamma and beta functions, which searches and
    integrals need. ``prior_scale`` is that of the first dispersion, None as by default.
    """

    name, links, kernel = "", (), None  # The first link is the default.
    kind = "real"  # What y are, or positive, unit or count, or class.
    dispersion: tuple = ()  # What users call the dispersions.
    is_conjugate = False  # Whether coefficients are normal, given the dispersion and rows.
    is_concave = True  # Whether its log density is concave in the predictor.
    takes_outliers: str | None = None  # The family for outliers, "" this one, or none is.
    # What varies as much wherever y are, for a look at outliers, and how it is shown.
    stable: Callable | None = staticmethod(np.asarray)
    shown: Callable | None = None
    has_outliers = False  # Whether searches also begin where rows far off are left out.
    groups = None  # `skpmd.linear._groups.Groups`, whose sds are further dispersions.
    has_cutpoints = False  # Whether its dispersions take the place of an intercept.
    needs_rest = False  # Whether means lie between 0 and 1, and what they lack to 1 is asked for.
    default_scale = 1.0  # Of the prior of the first dispersion.
    of_what = "numbers"  # What y has to be, for errors.
    of_zeros = ""  # What to do with zeros that it does not admit.

    def __init__(self, link="auto", prior_scale=None):
        self.link = self.links[0] if link == "auto" else link
        self.prior_scale = self.default_scale if prior_scale is None else prior_scale
        self.code = LINKS[self.link].code
        self.dispersions = Dispersions(self.dispersion, self.laws(self.prior_scale))

    @property
    def is_real(self):
        """Whether y has a location and a scale of its own."""
        return self.kind == "real"

    def laws(self, scale):
        """Priors of the dispersions: by default their inverse roots are half-normal."""
        return tuple(RootHalfNormal(scale) for _ in self.dispersion)

    # ------------------------------------------------------------------ rows of a fit
    def admits(self, y, size):
        """Which y (n,) there can be, bool; ``size`` are trials, or None."""
        return np.isfinite(y)

    def check(self, y, trials):
        """ValueError where there cannot be one of these y (n,)."""
        admitted = self.admits(y, trials)
        if not admitted.all():
            i = int(np.flatnonzero(~admitted)[0])
            raise ValueError(
                f"y must hold {self.of_what} for family={self.name!r}, and has {y[i]:g} in row "
                f"{i}: give another family, or leave such rows out."
                f"{'' if y[i] else self.of_zeros}"
            )

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

    def explained(self, y, mean, size, shape, weight):
        """D^2 of means (n,) of y, whose null model is one rate; R^2 where there is no deviance.

        ``size`` (n,) are trials or exposures, and ``shape`` is as of `deviance`.
        """
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        null = size * (weight @ y) / (weight @ size)
        with np.errstate(divide="ignore", invalid="ignore"):
            left, of_null = (weight @ self.deviance(y, mu, size, shape) for mu in (mean, null))
        if not of_null > 0.0:
            return 1.0 if left <= 0.0 else 0.0
        return float(1.0 - left / of_null)

    # ------------------------------------------------------------------ a new target
    @property
    def least(self):
        """Lower end of the support."""
        return -np.inf if self.is_real else 0.0

    def largest(self, p):
        """Upper end of the support: a number or (r, 1)."""
        return 1.0 if self.kind == "unit" else np.inf

    def mean(self, p):
        """Means (r, m)."""
        return p.mu

    def square_scale(self, p):
        """Squared width (r, m) that is finite where the variance may not be."""
        return self.variance(p)
