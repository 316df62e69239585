"""Densities of rows under particles, and responsibilities averaged over these.

A row with missing values is predicted by the exact marginal of the columns that it has. A normal's
log density is linear in the features (1, x, x x') of a row, or (1, x, x^2): those of many rows
under many components are one matrix product.
"""

import numpy as np
from scipy.special import softmax

from skpmd._rows.table import has_missing
from skpmd._runtime.threads import each
from skpmd.mixture._rows import RowView, pieces
from skpmd.mixture._smc_kernels import add_shares, relative_to_largest

# Rows are taken so many at a time, with particles of about so many densities.
_ROWS, _DENSITIES = 2048, 1 << 17
# So many particles tell a label where the best component is ahead of the next by this much.
_FEW, _CLEAR = 128, 0.3


def log_densities(particles, X):
    """Rows of a `RowView` by some at a time: their places or slice, and log densities (n, m K)."""
    for places, students, part in _by_pattern(particles.students, X):
        for rows, log_density in students.blocks(part):
            yield rows if isinstance(places, slice) else places[rows], log_density


def log_joints(particles, X):
    """The same with the log mixing weights of components within their particle, (n, m, K)."""
    for rows, log_density in log_densities(particles, X):
        log_mixing = particles.log_mixing
        yield rows, log_density.reshape(-1, *log_mixing.shape) + log_mixing


def averages(particles, weights, X):
    """Responsibilities (n, K) of rows of a `RowView`, averaged over weighted particles."""
    out = np.empty((0, particles.log_mixing.shape[1]))
    for rows, students, some in _by_pattern(particles.students, X):
        of = _of_normals if students.normal.all() else _of_students
        found = of(students, particles.log_mixing, weights, some)
        if isinstance(rows, slice):  # All of them, of which no copy is made.
            return found
        out = out if len(out) else np.empty((len(X), out.shape[1]))
        out[rows] = found
    return out


def most_probable(particles, weights, X):
    """Most probable component of each row, (n,), by `averages`; few particles tell most of them."""
    if particles.log_mixing.shape[1] == 1:
        return np.zeros(len(X), dtype=np.int64)
    if len(weights) < 4 * _FEW:
        return averages(particles, weights, X).argmax(axis=1)
    shares = np.cumsum(weights) / np.sum(weights)
    places = np.searchsorted(shares, (np.arange(_FEW) + 0.5) / _FEW)
    some = particles.select(np.minimum(places, len(weights) - 1))
    found = averages(some, np.ones(_FEW), X)
    labels = found.argmax(axis=1)
    second, best = np.partition(found, -2, axis=1)[:, -2:].T
    left = np.flatnonzero(best - second <= _CLEAR)
    if len(left):
        rows = RowView(X.table, left, scaler=X.scaler)
        labels[left] = averages(particles, weights, rows).argmax(axis=1)
    return labels


def _of_students(students, log_mixing, weights, X):
    out = np.empty((len(X), log_mixing.shape[1]))
    for rows, log_density in students.blocks(X):
        joint = log_density.reshape(-1, *log_mixing.shape) + log_mixing
        mean = np.tensordot(softmax(joint, axis=2), weights, axes=(1, 0))
        out[rows] = mean / mean.sum(axis=1, keepdims=True)
    return out


def _of_normals(students, log_mixing, weights, X):
    m, K = log_mixing.shape
    forms = -0.5 * students.coefficients
    forms[:, 0] += students.constant + log_mixing.ravel()
    out = np.empty((len(X), K))

    def fill(start):
        features = students.features(X[start : start + _ROWS]).T
        total = np.zeros((K, features.shape[1]))
        many = max(1, _DENSITIES // total.size)
        for first in range(0, m, many):
            part = forms[first * K : (first + many) * K]
            joint = (part @ features).reshape(-1, *total.shape)
            relative_to_largest(joint, np.empty((len(joint), total.shape[1])))
            np.exp(joint, out=joint)
            add_shares(joint, weights[first : first + many], total)
        out[start : start + _ROWS] = (total / total.sum(axis=0)).T

    each(fill, range(0, len(X), _ROWS))
    return out


# ---------------------------------------------------------------------- missing values
def _by_pattern(students, X):
    """Rows that miss the same columns, and what predicts them.

    Yields places of rows, components of the columns that these have, and the rows in these columns
    alone; where nothing is missing all rows at once, as they are.
    """
    if not has_missing(X.table):
        yield slice(None), students, X
        return
    patterns, which = np.unique(_missing(X), axis=0, return_inverse=True)
    for i, missing in enumerate(patterns):
        places, columns = np.flatnonzero(which.ravel() == i), np.flatnonzero(~missing)
        yield places, students.marginal(columns), X[places][:, columns]


def log_jacobians(scaler, X):
    """What is added to log densities of scaled rows, of the columns that each has; shape (n,)."""
    if not has_missing(X.table):
        return np.full(len(X), scaler.log_jacobian)
    return np.where(_missing(X), 0.0, -np.log(scaler.scale)).sum(axis=1)


def refuse_missing(X, method):
    """ValueError where rows of a fit have missing values."""
    if has_missing(X):
        count = sum(int(np.isnan(X[some]).any(axis=1).sum()) for some in pieces(X))
        raise ValueError(
            f"Input X contains NaN in {count} of {len(X)} rows, and {method} needs complete rows "
            "(handle_missing='marginal' is for predictions): leave them out, or impute them, for "
            "example by sklearn.impute.IterativeImputer."
        )


def _missing(X):
    """Which values of a `RowView` are missing, (n, p)."""
    return np.isnan(X.table if X.places is None else X.table[X.places])
