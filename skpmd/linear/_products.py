"""Moments of logits, and sums over rows, without a covariance of coefficients."""

import numpy as np
from scipy.sparse import issparse


def logit_moments(mean, variance, X, fit_intercept, shift=None):
    """Means and variances of each row's logits, of rows less a ``shift`` (p,) if there is one.

    Means and variances (d,) are those of rows of coefficients one after the other, each with its
    intercept last; there are K = 1 logit or more, (n, K). Without variances they are None.
    """
    centre = products(X, mean, fit_intercept, shift)
    return centre, None if variance is None else _squares(X, variance, fit_intercept, shift)


def products(X, theta, fit_intercept, shift):
    """Each row times each row of coefficients, shape (n, K)."""
    slopes, intercepts = _slopes_and_intercepts(X, theta, fit_intercept)
    return X @ slopes.T + (intercepts if shift is None else intercepts - slopes @ shift)


def _squares(X, variance, fit_intercept, shift):
    """The squares of each row times each row of variances, shape (n, K)."""
    slopes, intercepts = _slopes_and_intercepts(X, variance, fit_intercept)
    table = _squared(X) @ slopes.T
    if shift is not None:
        table = np.maximum(table - 2.0 * (X @ (slopes * shift).T) + slopes @ shift**2, 0.0)
    return table + intercepts


def _slopes_and_intercepts(X, theta, fit_intercept):
    """Rows of coefficients, (K, p), and their intercepts."""
    rows = theta.reshape(-1, X.shape[1] + fit_intercept)
    return rows[:, : X.shape[1]], rows[:, -1] if fit_intercept else 0.0


def weighted_sum(X, table, fit_intercept, shift):
    """Sum over rows of table[n, k] x_n, where x_n may have a one for the intercept, shape (d,)."""
    slopes = (X.T @ table).T
    if shift is not None:
        slopes = slopes - np.outer(table.sum(axis=0), shift)
    return _with_ones(slopes, table, fit_intercept)


def weighted_squares(X, table, fit_intercept, shift):
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
