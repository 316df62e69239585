"""Densities and draws of many multivariate Student (or normal) components at once."""

import numpy as np

from skpmd.mixture._kernels import product_log_sum, quadratic_features
from skpmd.mixture._particles import root_times
from skpmd.mixture._special import log_gamma_rise

# Densities, and features of rows, are taken in blocks of about so many numbers, and of at least so
# many rows.
_CHUNK, _MIN_CHUNK = 2**16, 16
_LOG_PI = np.log(np.pi)


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
        p = self.location.shape[1]
        if self.diagonal:
            quadratic = rate[:, None] / self.root**2
            linear = quadratic * self.location
            constant = np.einsum("ci,ci->c", linear, self.location)
            return np.concatenate([constant[:, None], -2.0 * linear, quadratic], axis=1)
        inverse = np.linalg.inv(self.root)
        precision = np.swapaxes(inverse, 1, 2) @ inverse * rate[:, None, None]
        linear = np.einsum("cij,cj->ci", precision, self.location)
        constant = np.einsum("ci,ci->c", linear, self.location)
        i, j = np.triu_indices(p)
        quadratic = precision[:, i, j] * np.where(i == j, 1.0, 2.0)
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
