"""Particles that are mixtures of Student or normal components: their densities and draws."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd.mixture._kernels import product_log_sum, quadratic_features

# Densities, and features of rows, are taken in blocks of about so many numbers, and of at least so
# many rows.
_CHUNK, _MIN_CHUNK = 2**16, 16
_LOG_PI = np.log(np.pi)
# From here on log gammas lose more digits than the series does.
_HUGE = 1e6


class MixtureParticles(NamedTuple):
    """Particles that each are a whole mixture of Student or normal components.

    Columns are shifted and scaled by a `skpmd.mixture._scaler.Scaler`.
    """

    # (m,): Log weights of the particles, sum of exp 1: for labels, responsibilities and parameters.
    log_weights: np.ndarray
    # (m, K): Log mixing weights within each particle, in expectation under its posterior.
    log_mixing: np.ndarray
    # (m, K): Log weights of all components for predictions, sum of exp over all of them 1. Without
    # stacking they are ``log_weights[:, None] + log_mixing``.
    log_predictive: np.ndarray
    location: np.ndarray  # (m, K, p): Centres.
    # (m, K, p, p): Lower Cholesky factors of the scale matrices; (m, K, p) where they are diagonal.
    scale_cholesky: np.ndarray
    df: np.ndarray  # (m, K): Degrees of freedom; inf is a normal.
    # Whether a component is a product of univariate Students, one for each column (diagonal
    # covariances), and not a multivariate one. No difference where df is inf.
    product: bool = False

    @classmethod
    def of_normals(cls, log_weights, log_mixing, location, scale_cholesky):
        """Mixtures of normals, without stacked weights."""
        log_predictive, df = log_weights[:, None] + log_mixing, np.full(log_mixing.shape, np.inf)
        return cls(log_weights, log_mixing, log_predictive, location, scale_cholesky, df)

    @property
    def is_diagonal(self):
        """Whether scale matrices are diagonal, and their roots vectors."""
        return self.scale_cholesky.ndim == self.location.ndim

    @property
    def variances(self):
        """Diagonals of the scale matrices, (m, K, p)."""
        squares = self.scale_cholesky**2
        return squares if self.is_diagonal else squares.sum(axis=-1)

    @property
    def students(self):
        """All components, one after the other, as `Students`."""
        p, root = self.location.shape[-1], self.scale_cholesky
        location, root = self.location.reshape(-1, p), root.reshape(-1, *root.shape[2:])
        return Students(location, root, self.df.ravel(), self.product)

    def select(self, places):
        """Some of the particles, their weights as they were."""
        return MixtureParticles(*(values[places] for values in self[:-1]), self.product)

    def joined(self, others):
        """These particles and others, weights as they were."""
        pairs = zip(self[:-1], others[:-1], strict=True)
        return MixtureParticles(*map(np.concatenate, pairs), self.product)

    def relabelled(self, order):
        """The same with components in the orders (m, K)."""
        rows, (log_weights, *parts) = np.arange(len(order))[:, None], self[:-1]
        return MixtureParticles(log_weights, *(part[rows, order] for part in parts), self.product)

    def rescaled(self, scaler, other):
        """Particles in the columns of one scaler in those of another."""
        ratio = scaler.scale / other.scale
        return self._replace(
            location=other.transform(scaler.inverse_transform(self.location)),
            scale_cholesky=self.scale_cholesky * (ratio if self.is_diagonal else ratio[:, None]),
        )


class Students:
    """Components with location, scale matrix and degrees of freedom.

    Centres have the shape (c, p), lower Cholesky factors of the scale matrices (c, p, p), or (c, p)
    where these are diagonal, and ``df`` (c,), which is inf for a normal. With ``product`` columns
    have univariate Students of their own.
    """

    def __init__(self, location, scale_cholesky, df, product):
        self.location, self.root, self.df = location, scale_cholesky, df
        p = location.shape[1]
        self.diagonal = scale_cholesky.ndim == 2
        diagonal = self.root if self.diagonal else np.diagonal(self.root, axis1=1, axis2=2)
        # A normal is a Student whose (1 + q / df)^-(df + D)/2 is taken in the limit.
        self.normal = np.isinf(df)
        self.product = product and not self.normal.all()
        if product and self.normal.any() and not self.normal.all():
            raise ValueError("df must be inf for all components or for none, with product=True.")
        D = 1.0 if self.product else float(max(p, 1))  # Of no columns any value will do.
        finite = np.where(self.normal, 1.0, df)
        self.exponent = np.where(self.normal, 0.5, 0.5 * (finite + D))
        each = log_gamma_rise(0.5 * finite, 0.5 * D) - 0.5 * D * np.log(finite)
        each = np.where(self.normal, -0.5 * D * np.log(2.0), each)
        self.constant = p / D * each - 0.5 * p * _LOG_PI - np.log(diagonal).sum(axis=1)
        if self.product:
            self.rate = 1.0 / (finite[:, None] * diagonal**2)
        else:
            self.coefficients = self._coefficients(np.where(self.normal, 1.0, 1.0 / finite))

    def _coefficients(self, rate):
        """Linear form of q / df in the features of rows, shape (c, f)."""
        if self.diagonal:
            quadratic = rate[:, None] / self.root**2
            linear = quadratic * self.location
        else:
            inverse = np.linalg.inv(self.root)
            precision = np.swapaxes(inverse, 1, 2) @ inverse * rate[:, None, None]
            linear = np.einsum("cij,cj->ci", precision, self.location)
            i, j = np.triu_indices(self.location.shape[1])
            quadratic = precision[:, i, j] * np.where(i == j, 1.0, 2.0)
        constant = np.einsum("ci,ci->c", linear, self.location)
        return np.concatenate([constant[:, None], -2.0 * linear, quadratic], axis=1)

    def features(self, X):
        """(1, x, x x') of rows, or (1, x, x^2) where scale matrices are diagonal; shape (n, f)."""
        X = np.ascontiguousarray(X)
        if not self.diagonal:
            return quadratic_features(X)
        return np.concatenate([np.ones((len(X), 1)), X, X**2], axis=1)

    def marginal(self, columns):
        """The same components of some columns only, by their places; there may be none.

        Marginals of a Student distribution have its degrees of freedom, and the part of its centre
        and scale matrix that belongs to the columns.
        """
        root = self.root[:, columns]
        root = root if self.diagonal else cholesky_of_rows(root)
        return Students(self.location[:, columns], root, self.df, self.product)

    def log_density(self, X):
        """Log densities of rows, shape (n, c)."""
        if self.product:
            X = np.ascontiguousarray(X)
            logs = product_log_sum(X, np.ascontiguousarray(self.location), self.rate)
        else:
            form = self.features(X) @ self.coefficients.T
            np.maximum(form, 0.0, out=form)  # Rounding may leave it below.
            logs = form if self.normal.all() else np.where(self.normal, form, np.log1p(form))
        return self.constant - self.exponent * logs

    def blocks(self, X):
        """Slices of the rows, and their log densities."""
        p = self.location.shape[1]
        n_features = 1 + 2 * p if self.diagonal else 1 + p + p * (p + 1) // 2
        size = max(_MIN_CHUNK, _CHUNK // max(len(self.df), n_features))
        for a in range(0, len(X), size):
            rows = slice(a, a + size)
            yield rows, self.log_density(X[rows])

    def draw(self, chosen, rng):
        """A draw of each chosen component, shape (len(chosen), p)."""
        n, p = len(chosen), self.location.shape[1]
        noise = rng.standard_normal((n, p))
        df, normal = self.df[chosen], self.normal[chosen]
        finite = np.where(normal, 1.0, df)
        columns = p if self.product else 1
        chi2 = 2.0 * rng.standard_gamma(0.5 * finite[:, None] * np.ones(columns))
        noise *= np.where(normal[:, None], 1.0, np.sqrt(finite[:, None] / chi2))
        return self.location[chosen] + root_times(self.root[chosen], noise)


def cholesky_of_rows(rows):
    """Lower Cholesky factors of A A' for matrices A of shape (c, q, p) with q up to p.

    By QR factors of A', which lose no digits to the product.
    """
    upper = np.linalg.qr(np.swapaxes(rows, 1, 2), mode="r")
    signs = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    return np.swapaxes(upper * signs[:, :, None], 1, 2)


def root_times(root, noise):
    """Roots (..., p, p), or (..., p) where they are diagonal, times vectors (..., p)."""
    if root.ndim == noise.ndim:
        return root * noise
    return np.einsum("...ij,...j->...i", root, noise)


def log_gamma_rise(a, h):
    """log Gamma(a + h) - log Gamma(a), for h that is small beside a where a is huge.

    The difference of two log gammas loses the digits that they have in common: at a = 1e13 they are
    3e14, and 1 / 16 is lost. There Stirling's series stands in their place,

        h log a + h (h - 1) / (2 a) - h (h - 1) (2 h - 1) / (12 a^2) + ...

    ``a`` is an array of positive numbers, whose shape the differences have; h is not negative.
    """
    a = np.asarray(a, dtype=np.float64)
    huge = a > _HUGE
    near = np.where(huge, 1.0, a)
    exact = gammaln(near + h) - gammaln(near)
    far = np.where(huge, a, 1.0)
    slope = h * (h - 1.0) / (2.0 * far)
    series = h * np.log(far) + slope * (1.0 - (2.0 * h - 1.0) / (6.0 * far))
    return np.where(huge, series, exact)
