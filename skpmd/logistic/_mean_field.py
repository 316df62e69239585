"""Linear models under a Gaussian without correlations, by products with X and its squares alone.

The likelihood of a row x depends on theta ~ N(mean, diag(variance)) through its logits x . theta_k,
which are independent normals with means x . mean_k and variances x^2 . variance_k. So expectations
take O(nnz) numbers, and no d x d matrix.
"""

import numpy as np
from scipy.sparse import issparse

from skpmd.engine.mean_field import DiagonalTarget
from skpmd.engine.threads import in_order


def logit_moments(mean, variance, X, fit_intercept):
    """Means and variances of each row's logits.

    Means and variances (d,) are those of rows of coefficients one after the other, each with its
    intercept last; there are K = 1 logit or more, (n, K). Without variances they are None.
    """
    centre = _times(X, mean, fit_intercept)
    return centre, None if variance is None else _times(_squared(X), variance, fit_intercept)


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
        X, y, weight = batch
        centre, spread = logit_moments(mean, variance, X, ones)
        slope, curvature, coupled = model.expected_logits(centre, spread, y)
        weight = b * weight[:, None]
        by_slope = _sum(X, weight * slope, ones)
        return by_slope, _sum(_squared(X), weight * curvature, ones), (weight, coupled)

    for slope, curvature, coupling in in_order(of, batches):
        gradient += slope
        precision += curvature
        couplings.append(coupling)

    def product(u):
        def times(pair):
            (X, _, _), (weight, coupled) = pair
            return _sum(X, weight * coupled(_times(X, u, ones)), ones)

        total = of_prior * u
        for part in in_order(times, zip(batches, couplings, strict=True)):
            total += part
        return total

    return DiagonalTarget(gradient, precision, product)


def _times(X, theta, fit_intercept):
    """Each row times each row of coefficients, shape (n, K)."""
    rows = theta.reshape(-1, X.shape[1] + fit_intercept)
    table = X @ rows[:, : X.shape[1]].T
    return table + rows[:, -1] if fit_intercept else table


def _sum(X, table, fit_intercept):
    """Sum over rows of table[n, k] x_n, where x_n may have a one for the intercept, shape (d,)."""
    slopes = (X.T @ table).T
    if fit_intercept:
        slopes = np.column_stack([slopes, table.sum(axis=0)])
    return slopes.ravel()


def _squared(X):
    return X.multiply(X).tocsr() if issparse(X) else X * X
