"""Distributions of some columns of a mixture's rows: moments, densities, quantiles and draws."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri, stdtr, stdtrit

from skpmd._base.normal_mixtures import lower_quantile
from skpmd._base.utils import as_floats, as_generator, check_level, check_n_draws
from skpmd._typing import Array, ArrayLike, RandomState
from skpmd.mixture._conditional import Components, given
from skpmd.mixture._particles import log_gamma_rise, root_times
from skpmd.mixture._scaler import Scaler

_NUMBERS = 1 << 20  # Rows are taken so many at a time that arrays have about so many numbers.


class MixtureDensity:
    """Distributions of n rows over q columns, each an average of Student or normal mixtures.

    `skpmd.GaussianMixturePMD.marginal` and ``conditional`` return it. Methods have the same names
    as in `skpmd.NormalMixture`, with the columns as the last axis. A distribution of one row is
    used for all rows of given values.

    Parameters
    ----------
    columns : ndarray of shape (q,), int
        Indices of the columns among those of the fit.
    components : skpmd.mixture._conditional.Components
        Components of all particles, in scaled columns.
    values : ndarray of shape (n, k)
        Scaled values of the k known columns; k is 0 for a marginal density.
    scaler : skpmd.mixture._scaler.Scaler
        Shifts and scales of the columns of the fit.

    Attributes
    ----------
    columns
        As given.

    References
    ----------
    Bishop, C. M. (2006). Pattern Recognition and Machine Learning, section 2.3. Springer.

    Ding, P. (2016). On the conditional distribution of the multivariate t distribution. The
    American Statistician 70.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import GaussianMixturePMD
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> X = np.column_stack([x, 2.0 * x + 0.1 * rng.normal(size=300)])
    >>> density = GaussianMixturePMD(random_state=0).fit(X).conditional([0], [[0.0], [1.0]])
    >>> density.mean().round(1).tolist()
    [[0.0], [2.0]]
    >>> density.interval(level=0.9).shape
    (2, 1, 2)
    """

    def __init__(
        self, columns: Array, components: Components, values: Array, scaler: Scaler
    ) -> None:
        self.columns, self._components, self._values = columns, components, values
        self._shift, self._scale = scaler.shift[columns], scaler.scale[columns]
        c, k = len(components.df), values.shape[1]
        self._step = max(1, _NUMBERS // (c * max(components.root[0].size, k)))
        self._diagonal = components.root.ndim == 2

    @property
    def shape(self) -> tuple[int, int]:
        """(n, q), the numbers of rows and columns."""
        return len(self), len(self.columns)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        n, q = self.shape
        return f"MixtureDensity({n} rows, {q} columns, {len(self._components.df)} components)"

    # ------------------------------------------------------------------ moments
    def mean(self) -> Array:
        """Means; a component without a mean (with df up to 1) contributes its centre.

        Returns
        -------
        ndarray of shape (n, q)
            Values in the units of the columns.
        """
        parts = [np.einsum("nc,ncq->nq", one.weights, one.location) for _, one in self._given()]
        return np.concatenate(parts) * self._scale + self._shift

    def cov(self) -> Array:
        """Covariances; infinite where a component has 2 degrees of freedom or fewer.

        Returns
        -------
        ndarray of shape (n, q, q)
            Covariances in products of the columns' units.
        """
        root, ratio = self._components.root, self._variance_ratio()
        q, at = len(self.columns), np.arange(len(self.columns))
        out = np.empty((*self.shape, q))
        for rows, (weights, location, factor) in self._given():
            mean = np.einsum("nc,ncq->nq", weights, location)
            off = location - mean[:, None]
            share = weights * factor * np.where(weights > 0.0, ratio, 0.0)
            is_infinite = ~np.isfinite(share).all(axis=1)
            share[is_infinite] = 0.0
            if self._diagonal:
                out[rows] = 0.0
                out[rows, at, at] = share @ root**2
            else:
                out[rows] = np.einsum("nc,cqr->nqr", share, root @ root.swapaxes(1, 2))
            out[rows] += (weights[..., None] * off).swapaxes(1, 2) @ off
            out[rows][is_infinite] = np.inf
        return out * np.outer(self._scale, self._scale)

    def var(self) -> Array:
        """Variances, the diagonals of `cov`.

        Returns
        -------
        ndarray of shape (n, q)
            Variances in squared units of the columns.
        """
        return np.einsum("nqq->nq", self.cov()).copy()

    def std(self) -> Array:
        """Standard deviations.

        Returns
        -------
        ndarray of shape (n, q)
            Values in the units of the columns.
        """
        return np.sqrt(self.var())

    # ------------------------------------------------------------------ density and probabilities
    def log_pdf(self, y: ArrayLike) -> Array:
        """Log density of row i at y_i, of all columns together; shape (n,).

        Parameters
        ----------
        y : array-like of shape (n, q)
            Values; any number of rows if the distribution has one row.

        Returns
        -------
        ndarray of shape (n,)
            Log densities in nats, for columns in their own units.

        Raises
        ------
        ValueError
            If y has another shape, or holds nan.
        """
        y = self._scaled(y)
        out = np.empty(len(y))
        for rows, (weights, location, factor), some in self._given_at(y):
            off = some[:, None] - location
            with np.errstate(divide="ignore"):
                terms = np.log(weights) + self._log_densities(off, factor)
            out[rows] = logsumexp(terms, axis=1)
        return out - np.log(self._scale).sum()

    def pdf(self, y: ArrayLike) -> Array:
        """Density of row i at y_i, of all columns together.

        Parameters
        ----------
        y : array-like of shape (n, q)
            Values; any number of rows if the distribution has one row.

        Returns
        -------
        ndarray of shape (n,)
            Densities, for columns in their own units.

        Raises
        ------
        ValueError
            If y has another shape, or holds nan.
        """
        return np.exp(self.log_pdf(y))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of values up to y in each column by itself.

        Parameters
        ----------
        y : array-like of shape (n, q)
            Values; any number of rows if the distribution has one row.

        Returns
        -------
        ndarray of shape (n, q)
            Probabilities.

        Raises
        ------
        ValueError
            If y has another shape, or holds nan.
        """
        y = self._scaled(y)
        out, sds = np.empty(y.shape), self._sds()
        for rows, (weights, location, factor), some in self._given_at(y):
            scale = np.sqrt(factor)[..., None] * sds
            below = _below((some[:, None] - location) / scale, self._components.df[:, None])
            out[rows] = np.einsum("nc,ncq->nq", weights, below)
        return np.minimum(out, 1.0)

    # ------------------------------------------------------------------ quantiles
    def ppf(self, q: float) -> Array:
        """Quantiles of each column by itself, shape (n, q).

        Parameters
        ----------
        q : float
            Probability strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n, q)
            Values whose `cdf` is q, in the units of the columns.

        Raises
        ------
        ValueError
            If q is not a number strictly between 0 and 1.
        """
        level = as_floats("q", q)
        if level.ndim or not 0.0 < level < 1.0:
            raise ValueError(f"q must be a number strictly between 0 and 1, got {q!r}.")
        return self._quantile(float(level))

    quantile = ppf

    def interval(self, level: float = 0.9) -> Array:
        """Central intervals of each column by itself.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Probability of each interval.

        Returns
        -------
        ndarray of shape (n, q, 2)
            Lower and upper ends, in the units of the columns.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        return np.stack([self._quantile(tail) for tail in check_level(level)], axis=-1)

    # ------------------------------------------------------------------ draws
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draws, shape (n_samples, n, q): columns jointly, rows independently.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws for each row.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, n, q)
            Draws, in the units of the columns.

        Raises
        ------
        ValueError
            If ``n_samples`` is not an integer of at least 0.
        """
        n_samples = check_n_draws("n_samples", n_samples, least=0)
        rng, (n, q), components = as_generator(random_state), self.shape, self._components
        out, normal = np.empty((n_samples, n, q)), np.isinf(components.df)
        half = 0.5 * np.where(normal, 1.0, components.df)
        for rows, one in self._given(at_least=n_samples * components.root[0].size):
            at = np.arange(len(one.weights))
            chosen = _chosen(one.weights, rng.random((n_samples, len(at))))
            noise = rng.standard_normal((*chosen.shape, q))
            shape = half[chosen][..., None] * np.ones(q if components.known.product else 1)
            chi2 = np.maximum(rng.standard_gamma(shape), np.finfo(float).tiny) / shape
            noise *= np.where(normal[chosen][..., None], 1.0, 1.0 / np.sqrt(chi2))
            noise *= np.sqrt(one.factor[at, chosen])[..., None]
            out[:, rows] = root_times(components.root[chosen], noise)
            out[:, rows] += one.location[at, chosen]
        return out * self._scale + self._shift

    # ------------------------------------------------------------------ parts of the above
    def _given(self, at_least=1):
        """Slices of rows, and their `Given`; a row needs so many numbers at least."""
        step = max(1, min(self._step, _NUMBERS // max(at_least, 1)))
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            yield rows, given(self._components, self._values[rows])

    def _given_at(self, y):
        """Slices of rows, their `Given`, and the values there; one row stands for all."""
        if len(self) == len(y):
            for rows, one in self._given():
                yield rows, one, y[rows]
            return
        (_, one), *_ = self._given()
        for start in range(0, len(y), self._step):
            rows = slice(start, start + self._step)
            yield rows, one, y[rows]

    def _scaled(self, y):
        """Values (n, q) in scaled columns."""
        y, (n, q) = as_floats("y", y), self.shape
        if y.ndim != 2 or y.shape[1] != q or (n != 1 and len(y) != n):
            rows = "any number of rows" if n == 1 else f"{n} rows"
            raise ValueError(f"y must have {rows} and {q} columns, got shape {y.shape}.")
        if np.isnan(y).any():
            raise ValueError("y must not hold nan: leave rows without a value out.")
        return (y - self._shift) / self._scale

    def _variance_ratio(self):
        """Variance over squared scale, (c,)."""
        df = self._components.df
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(np.isinf(df), 1.0, df / (df - 2.0))
        return np.where(df > 2.0, ratio, np.inf)

    def _sds(self):
        """Scales of the columns of each component, but for a factor; shape (c, q)."""
        root = self._components.root
        return root if self._diagonal else np.sqrt((root**2).sum(axis=2))

    def _log_densities(self, off, factor):
        """Log densities (n, c) at distances from the centres (n, c, q)."""
        root, df, q = self._components.root, self._components.df, off.shape[2]
        inverse = 1.0 / root if self._diagonal else np.linalg.inv(root)
        form = root_times(inverse[None], off) ** 2 / factor[..., None]
        diagonal = root if self._diagonal else np.diagonal(root, axis1=1, axis2=2)
        log_det = np.log(diagonal).sum(axis=1)
        constant = -log_det - 0.5 * q * np.log(factor)
        if self._components.known.product:
            return constant + _log_student(form, df[:, None], 1).sum(axis=2)
        return constant + _log_student(form.sum(axis=2), df, q)

    def _quantile(self, p):
        out, sds, df = np.empty(self.shape), self._sds(), self._components.df
        sign = 1.0 if p <= 0.5 else -1.0  # Of -y, whose lower tail has the digits.
        for rows, (weights, location, factor) in self._given():
            for j in range(len(self.columns)):
                centres, scales = sign * location[..., j], np.sqrt(factor) * sds[:, j]
                found = _lower_quantile(centres, scales, df, weights, min(p, 1.0 - p))
                out[rows, j] = sign * found
        return out * self._scale + self._shift


def _chosen(weights, uniform):
    """Components (s, n) drawn by weights (n, c) and uniform numbers (s, n)."""
    ends = np.cumsum(weights, axis=1)[:, :-1]
    out = np.empty(uniform.shape, dtype=np.int64)
    for i, row in enumerate(ends):
        out[:, i] = np.searchsorted(row, uniform[:, i], side="right")
    return out


def _log_student(form, df, q):
    """Log density of q columns of unit scale, by the squared distance from the centre."""
    finite = np.where(np.isinf(df), 1.0, df)
    constant = log_gamma_rise(0.5 * finite, 0.5 * q) - 0.5 * q * np.log(finite * np.pi)
    student = constant - 0.5 * (finite + q) * np.log1p(form / finite)
    return np.where(np.isinf(df), -0.5 * (form + q * np.log(2.0 * np.pi)), student)


def _below(z, df):
    """Distribution function of a Student of unit scale, or of a normal."""
    normal = np.isinf(df)
    if normal.all():
        return ndtr(z)
    return np.where(normal, ndtr(z), stdtr(np.where(normal, 1.0, df), z))


def _lower_quantile(location, scale, df, weights, p):
    """Values (n,) at which mixtures of c univariate components, each (n, c), reach p up to 0.5.

    They lie between the quantiles of the components.
    """
    normal = np.isinf(df)
    unit = np.where(normal, ndtri(p), stdtrit(np.where(normal, 1.0, df), p))
    ends, has_weight = location + scale * unit, weights > 0.0
    low = np.where(has_weight, ends, np.inf).min(axis=1)
    high = np.where(has_weight, ends, -np.inf).max(axis=1)

    def cdf_and_density(x):
        z = (x[:, None] - location) / scale
        density = np.exp(_log_student(z**2, df, 1)) / scale
        return (weights * _below(z, df)).sum(axis=1), (weights * density).sum(axis=1)

    return lower_quantile(cdf_and_density, p, low, high, 0.5 * (low + high), low == high)
