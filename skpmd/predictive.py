"""Predictive distributions of real-valued targets: a mixture of normals for each row."""

from numbers import Integral

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from skpmd.posterior import as_generator, check_level

_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
_BISECTIONS = 60


class NormalMixture:
    """Distributions of n rows, each a mixture of k normals with weights of its own or shared.

    Methods have the names of skpro's distributions, and work row by row. As an array it is its
    means and standard deviations, shape (n, 2).

    Parameters
    ----------
    means, stds : array-like of shape (k, n)
        Of the components.
    weights : array-like of shape (k,) or (k, n), default=None
        Probabilities of the components, which add up to 1; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import NormalMixture
    >>> bimodal = NormalMixture(means=[[-2.0], [2.0]], stds=[[1.0], [1.0]])
    >>> bimodal.mean(), bimodal.var()
    (array([0.]), array([5.]))
    >>> bimodal.interval(level=0.9).round(2)
    array([[-3.29,  3.29]])
    """

    def __init__(self, means, stds, weights=None):
        self.means, self.stds = (
            np.atleast_2d(means).astype(float),
            np.atleast_2d(stds).astype(float),
        )
        if self.means.shape != self.stds.shape:
            raise ValueError(
                f"means and stds must have one shape (k, n), got {self.means.shape} and "
                f"{self.stds.shape}."
            )
        if not (self.stds >= 0.0).all():
            raise ValueError("stds must be at least 0 and not nan.")
        k = len(self.means)
        weights = np.full(k, 1.0 / k) if weights is None else np.asarray(weights, dtype=float)
        weights = weights[:, None] if weights.ndim == 1 else weights
        total = weights.sum(axis=0)
        if len(weights) != k or (weights < 0.0).any() or not np.allclose(total, 1.0):
            raise ValueError(f"weights must be {k} probabilities which add up to 1.")
        self.weights = np.broadcast_to(weights / total, self.means.shape)

    @property
    def shape(self):
        """(n, 2): rows, and the columns of the distribution as an array."""
        return self.means.shape[1], 2

    def __len__(self):
        return self.means.shape[1]

    def __getitem__(self, rows):
        """The distributions of some rows."""
        rows = np.atleast_1d(np.arange(len(self))[rows])
        return NormalMixture(self.means[:, rows], self.stds[:, rows], self.weights[:, rows])

    def __array__(self, dtype=None, copy=None):
        return np.column_stack([self.mean(), self.std()]).astype(dtype or float)

    def __repr__(self):
        return f"NormalMixture({len(self)} rows, {len(self.means)} components)"

    def mean(self):
        """Means, shape (n,)."""
        return np.einsum("kn,kn->n", self.weights, self.means)

    def var(self):
        """Variances, shape (n,): within components and between them."""
        off = self.means - self.mean()
        return np.einsum("kn,kn->n", self.weights, self.stds**2 + off**2)

    def std(self):
        """Standard deviations, shape (n,)."""
        return np.sqrt(self.var())

    def log_pdf(self, y):
        """Log density of row i at y_i, shape (n,); of every row at a scalar y."""
        z = (self._values(y) - self.means) / self.stds
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights) - 0.5 * z**2 - np.log(self.stds) - _LOG_ROOT_TWO_PI
        return logsumexp(terms, axis=0)

    def pdf(self, y):
        """Density, shape (n,)."""
        return np.exp(self.log_pdf(y))

    def cdf(self, y):
        """Probability of values up to y_i in row i, shape (n,)."""
        z = (self._values(y) - self.means) / self.stds
        return np.einsum("kn,kn->n", self.weights, ndtr(z))

    def log_cdf(self, y):
        """Logarithm of `cdf`, with its digits in the lower tail, shape (n,)."""
        z = (self._values(y) - self.means) / self.stds
        with np.errstate(divide="ignore"):
            return logsumexp(np.log(self.weights) + log_ndtr(z), axis=0)

    def ppf(self, q):
        """Quantiles, shape (n,) for one probability, (n, len(q)) for several.

        By bisection between the quantiles of the components, to the last digit of their width.
        """
        q = np.asarray(q, dtype=float)
        if np.isnan(q).any() or (q < 0.0).any() or (q > 1.0).any():
            raise ValueError(f"q must lie in [0, 1], got {q}.")
        columns = [self._one_quantile(one) for one in q.ravel()]
        return columns[0] if q.ndim == 0 else np.stack(columns, axis=-1)

    quantile = ppf

    def interval(self, level=0.9):
        """Central intervals, shape (n, 2): lower and upper end."""
        return self.ppf(check_level(level))

    def sample(self, n_samples=1, random_state=None):
        """Draws, shape (n_samples, n).

        Parameters
        ----------
        n_samples : int
            Draws of each row, independent of those of other rows.
        random_state : int, RandomState, Generator or None
            Source of randomness.
        """
        if not (isinstance(n_samples, Integral) and n_samples >= 1):
            raise ValueError(f"n_samples must be an integer of at least 1, got {n_samples!r}.")
        rng = as_generator(random_state)
        shape = n_samples, len(self)
        ends = np.cumsum(self.weights, axis=0)[:-1]
        component = (rng.random(shape)[:, None, :] > ends).sum(axis=1)
        rows = np.arange(len(self))
        noise = rng.standard_normal(shape)
        return self.means[component, rows] + self.stds[component, rows] * noise

    def energy(self, y=None):
        """E|Y - y_i| in row i, shape (n,); without y, E|Y - Y'| of two independent draws."""
        if y is not None:
            return np.einsum(
                "kn,kn->n", self.weights, _mean_abs(self._values(y) - self.means, self.stds)
            )
        total = np.zeros(len(self))
        for w, mean, std in zip(self.weights, self.means, self.stds, strict=True):
            spread = np.sqrt(self.stds**2 + std**2)
            total += w * np.einsum("kn,kn->n", self.weights, _mean_abs(self.means - mean, spread))
        return total

    def crps(self, y):
        """Continuous ranked probability score, shape (n,), in the units of y; less is better.

        E|Y - y| - E|Y - Y'| / 2 (Gneiting and Raftery 2007, equation 21), in closed form.
        """
        return self.energy(y) - 0.5 * self.energy()

    def _values(self, y):
        y = np.asarray(y, dtype=float)
        if y.ndim and y.shape != (len(self),):
            raise ValueError(f"y must be a number or of shape ({len(self)},), got {y.shape}.")
        return y

    def _one_quantile(self, q):
        ends = self.means + self.stds * ndtri(q)
        low, high = ends.min(axis=0), ends.max(axis=0)
        if q in (0.0, 1.0) or len(ends) == 1:
            return low
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)


def _mean_abs(mean, std):
    """E|Z| of Z normal."""
    z = np.divide(mean, std, out=np.full(np.broadcast(mean, std).shape, np.inf), where=std > 0.0)
    density = np.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI)
    inside = 2.0 * std * density + mean * (2.0 * ndtr(z) - 1.0)
    return np.where(std > 0.0, inside, np.abs(mean))
