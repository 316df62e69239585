"""What models share that see a row only through its products with coefficients."""

from functools import cache

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri
from scipy.stats.qmc import Sobol


def designs(batches, fit_intercept, n_numbers):
    """Rows in pieces of so many numbers: (dense float64 X with its ones, y, weight)."""
    for X, y, weight in batches:
        step = max(1, n_numbers // (X.shape[1] + 1))
        for start in range(0, len(weight), step):
            part = slice(start, start + step)
            piece = X[part].toarray() if issparse(X) else X[part]
            piece = piece.astype(np.float64, copy=False)
            if fit_intercept:
                piece = np.column_stack([piece, np.ones(len(piece))])
            yield piece, y[part], weight[part]


def logits(theta, X, fit_intercept):
    """Each row times each particle, shape (m, n), in the dtype of X; an intercept comes last."""
    theta = theta.astype(X.dtype, copy=False)
    slopes = theta[:, :-1] if fit_intercept else theta
    table = np.ascontiguousarray((X @ slopes.T).T) if issparse(X) else slopes @ X.T
    if fit_intercept:
        table += theta[:, -1:]
    return table


def slopes_gradient(table, X):
    """Sum over rows of table[:, n] x_n, shape (m, p)."""
    return (X.T @ table.T).T if issparse(X) else table @ X


def most_skewed(rows, third, max_iter):
    """Rotation that maximises the sum of squared diagonal entries of sum_n third_n x_n x_n x_n."""
    rotation, last = np.eye(rows.shape[1]), 0.0
    for _ in range(max_iter):
        contracted = rows.T @ (third * (rows @ rotation) ** 2)
        skewness = (rotation * contracted).sum(axis=0)
        if skewness @ skewness <= 1.001 * last:
            break
        last = skewness @ skewness
        # The shift keeps axes without skewness where they are: their polar factor would
        # otherwise be decided by rounding.
        shift = 0.1 * np.max(skewness**2)
        left, _, right = np.linalg.svd(contracted * skewness + shift * rotation)
        rotation = left @ right
    return rotation


@cache
def normal_nodes(d, least=128):
    """Points in columns whose mean over a function stands for that under N(0, I_d).

    ``least`` of them, or more where d > least / 4, to a power of two. The first half is Sobol's
    sequence taken to the normal distribution, the second its mirror image, and a linear map makes
    their covariance the identity: polynomials up to degree three are exact.
    """
    power = (max(least // 2, 2 * d) - 1).bit_length()
    half = ndtri(Sobol(d, scramble=False).random_base2(power) + 0.5**power / 2).T
    half = np.linalg.solve(np.linalg.cholesky(half @ half.T / half.shape[1]), half)
    return np.concatenate([half, -half], axis=1)
