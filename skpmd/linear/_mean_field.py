"""Linear models under a Gaussian without correlations, by products with X and its squares alone.

The likelihood of a row x depends on theta ~ N(mean, diag(variance)) through its logits x . theta_k,
which are independent normals with means x . mean_k and variances x^2 . variance_k. So expectations
take O(nnz) numbers, and no d x d matrix.
"""

import numpy as np
from scipy.sparse import issparse

from skpmd.engine.mean_field import DiagonalTarget
from skpmd.engine.threads import in_order


def logit_moments(mean, variance, X, fit_intercept, shift=None):
    """Means and variances of each row's logits, of rows less a ``shift`` (p,) if there is one.

    Means and variances (d,) are those of rows of coefficients one after the other, each with its
    intercept last; there are K = 1 logit or more, (n, K). Without variances they are None.
    """
    centre = _times(X, mean, fit_intercept, shift)
    return centre, None if variance is None else _squares(X, variance, fit_intercept, shift)


def mean_field_target(model, mean, variance, batches, b=1.0):
    """Expectations of the log joint density that the mean-field mirror step needs.

    The model offers ``expected_logits``, and its prior ``expected``. The Gaussian has mean and
    variance of shape (d,); at ``variance=None`` the values are those at the mean itself. b is the
    power of the likelihood. Returns a `DiagonalTarget`.
    """
    ones = model.fit_intercept
    sd = None if variance is None else np.sqrt(variance)
    gradient, of_prior = model.prior.expected(mean, sd)
    precision, couplings = of_prior.copy(), []

    def of(batch):
        X, y, weight, *_ = batch
        shift = model.shift_of(X)
        centre, spread = logit_moments(mean, variance, X, ones, shift)
        slope, curvature, coupled = model.expected_logits(centre, spread, y)
        weight = b * weight[:, None]
        by_slope = _sum(X, weight * slope, ones, shift)
        return by_slope, _sum_of_squares(X, weight * curvature, ones, shift), (weight, coupled)

    for slope, curvature, coupling in in_order(of, batches):
        gradient += slope
        precision += curvature
        couplings.append(coupling)

    def product(u):
        def times(pair):
            (X, *_), (weight, coupled) = pair
            shift = model.shift_of(X)
            return _sum(X, weight * coupled(_times(X, u, ones, shift)), ones, shift)

        total = of_prior * u
        for part in in_order(times, zip(batches, couplings, strict=True)):
            total += part
        return total

    return DiagonalTarget(gradient, precision, product)


def _times(X, theta, fit_intercept, shift):
    """Each row times each row of coefficients, shape (n, K)."""
    slopes, intercepts = _rows(X, theta, fit_intercept)
    return X @ slopes.T + (intercepts if shift is None else intercepts - slopes @ shift)


def _squares(X, variance, fit_intercept, shift):
    """The squares of each row times each row of variances, shape (n, K)."""
    slopes, intercepts = _rows(X, variance, fit_intercept)
    table = _squared(X) @ slopes.T
    if shift is not None:
        table = np.maximum(table - 2.0 * (X @ (slopes * shift).T) + slopes @ shift**2, 0.0)
    return table + intercepts


def _rows(X, theta, fit_intercept):
    """Rows of coefficients, (K, p), and their intercepts."""
    rows = theta.reshape(-1, X.shape[1] + fit_intercept)
    return rows[:, : X.shape[1]], rows[:, -1] if fit_intercept else 0.0


def _sum(X, table, fit_intercept, shift):
    """Sum over rows of table[n, k] x_n, where x_n may have a one for the intercept, shape (d,)."""
    slopes = (X.T @ table).T
    if shift is not None:
        slopes = slopes - np.outer(table.sum(axis=0), shift)
    return _with_ones(slopes, table, fit_intercept)


def _sum_of_squares(X, table, fit_intercept, shift):
    """The same of the squares of x_n."""
    slopes = (_squared(X).T @ table).T
    if shift is not None:
        slopes = slopes - 2.0 * shift * (X.T @ table).T + np.outer(table.sum(axis=0), shift**2)
    return _with_ones(slopes, table, fit_intercept)


def _with_ones(slopes, table, fit_intercept):
    if fit_intercept:
        slopes = np.column_stack([slopes, table.sum(axis=0)])
    return slopes.ravel()


def _squared(X):
    return X.multiply(X).tocsr() if issparse(X) else X * X
