"""Rows with missing values: each is predicted by the exact marginal of the columns that it has."""

import numpy as np

from skpmd._rows.table import has_missing
from skpmd.mixture._rows import pieces


def by_pattern(students, X):
    """Rows that miss the same columns, and what predicts them.

    ``students`` are components of all columns, and X a `RowView` whose missing values are nan.
    Yields places of rows, components of the columns that these have, and the rows in these columns
    alone; where nothing is missing all rows at once, as they are.
    """
    if not has_missing(X.table):
        yield slice(None), students, X
        return
    table = X.table if X.places is None else X.table[X.places]
    patterns, which = np.unique(np.isnan(table), axis=0, return_inverse=True)
    for i, missing in enumerate(patterns):
        places, columns = np.flatnonzero(which.ravel() == i), np.flatnonzero(~missing)
        yield places, students.marginal(columns), X[places][:, columns]


def log_densities(students, X):
    """Rows by some at a time: their places or slice, and log densities under all components."""
    for places, some, part in by_pattern(students, X):
        for rows, log_density in some.blocks(part):
            yield rows if isinstance(places, slice) else places[rows], log_density


def log_jacobians(scaler, X):
    """What is added to log densities of scaled rows, of the columns that each has; shape (n,)."""
    if not has_missing(X.table):
        return np.full(len(X), scaler.log_jacobian)
    table = X.table if X.places is None else X.table[X.places]
    return np.where(np.isnan(table), 0.0, -np.log(scaler.scale)).sum(axis=1)


def refuse_missing(X, method):
    """ValueError where rows of a fit have missing values."""
    if has_missing(X):
        count = sum(int(np.isnan(X[some]).any(axis=1).sum()) for some in pieces(X))
        raise ValueError(
            f"Input X contains NaN in {count} of {len(X)} rows, and {method} needs complete rows "
            "(handle_missing='marginal' is for predictions): leave them out, or impute them, for "
            "example by sklearn.impute.IterativeImputer."
        )
