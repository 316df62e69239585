"""What pictures ask of tables and of models: rows along one column, units, names and meanings."""

from collections import Counter

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from skpmd._base.utils import as_floats
from skpmd._contrasts import column_at, place_of_column, with_column
from skpmd.plot._common import short_names
from skpmd.wrappers import innermost, inside, outward

# What a linear predictor is by its link, and e to the power of a difference of two.
KINDS = {"identity": ("units of y", "exp(units of y)"),
         "log": ("log of the mean", "ratio of means"), "logit": ("log odds", "odds ratio"),
         "softmax": ("log odds against the first class", "odds ratio against the first class"),
         }  # fmt: skip
_FURTHER = 0.05  # Places go beyond the rows by so much of their range.


def along_column(X, feature, at, n_points):
    """Rows that differ in one column: the table, its column, the column of X, and its name."""
    names = list(X.columns) if hasattr(X, "columns") else None
    X = dense("X", X) if names is None else X
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}.")
    j = place_of_column(feature, names, X.shape[1], "feature")
    if at is not None:
        at = as_floats("at", at) if names is None else list(at)
        if len(at) != X.shape[1]:
            raise ValueError(f"at must have shape ({X.shape[1]},), a value for each column.")
    name = f"column {j}" if names is None else str(names[j])
    values = as_floats(f"column {name!r}", column_at(X, j))
    # Rows of X have the types of its columns, which a table made anew would not.
    table, places = _safe_indexing(X, np.zeros(n_points, dtype=int)), _places(values, n_points)
    table = table.reset_index(drop=True) if hasattr(table, "reset_index") else table
    for k in range(X.shape[1]):
        other = _usual(column_at(X, k)) if at is None and k != j else places if k == j else at[k]
        table = with_column(table, k, other)
    return table, places, values, name


def _usual(column):
    """The median of numbers, and the most frequent of other values."""
    if np.asarray(column).dtype.kind in "fiu":
        return np.nanmedian(column)
    counts = Counter(one for one in column if one == one and one is not None)
    return max(sorted(counts), key=counts.get)


def as_column(values):
    """Numbers of one column as (n,), also from shape (n, 1)."""
    values = np.asarray(values)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def dense(name, values):
    """An argument as an array of numbers; TypeError, with its name, if it is sparse."""
    if sparse.issparse(values):
        raise TypeError(f"{name} must be dense, got a sparse matrix: give {name}.toarray().")
    return as_floats(name, values)


def named(rows, names):
    """Rows as a data frame with these names; unchanged if names is None."""
    if names is None:
        return rows
    try:
        from pandas import DataFrame
    except ImportError:  # Of another library's frames only scikit-learn's warning is left.
        return rows
    return DataFrame(rows, columns=names)


def scaling_of(estimator):
    """Shifts and factors (p,) that take columns of the innermost estimator to those it was given.

    None where the steps of a pipeline do more to a column than shift and scale it.
    """
    p = inside(estimator).n_features_in_
    rows = np.vstack([np.zeros(p), np.eye(p), np.full(p, 2.0)])
    try:
        found = np.asarray(outward(estimator, rows), dtype=np.float64)
        again = innermost(estimator, named(found, getattr(estimator, "feature_names_in_", None)))[1]
    except (AttributeError, TypeError, ValueError):  # Of a step that has no way back.
        return None
    shift, factor = found[0], np.diag(found[1:-1] - found[0])
    is_linear = np.allclose(found, shift + rows * factor, rtol=1e-9) and (factor > 0.0).all()
    is_inverse = np.allclose(dense("X", again), rows, rtol=1e-6, atol=1e-6)
    return (shift, factor) if is_linear and is_inverse else None


def meaning_of_coefficients(estimator):
    """What coefficients of a linear model are, and e to their power; None of other estimators."""
    found = inside(estimator)
    if not hasattr(found, "coef_"):
        return None
    scaling = scaling_of(estimator)
    column = "transformed column" if scaling is None else "scaled column"
    column = "column" if scaling is not None and (scaling[1] == 1.0).all() else column
    return tuple(f"{one} per unit of the {column}" for one in _kinds(found))


def _kinds(model):
    """What coefficients of a linear model are, and e to their power."""
    if hasattr(model, "cutpoints_"):
        return "log odds of higher classes", "odds ratio of higher classes"
    if hasattr(model, "classes_"):
        if len(model.classes_) > 2:
            return "coefficient", "exp(coefficient)"
        (of,) = short_names(model.classes_[1:])
        return f"log odds of {of}", f"odds ratio of {of}"
    if getattr(model, "exposure", None) is not None:
        return "log of the rate", "rate ratio"
    return KINDS.get(model.link_, (f"linear predictor ({model.link_})", "ratio"))


def coefficients_of(posterior):
    """Names of a linear model's coefficients, without its intercepts; None of other posteriors."""
    variables = getattr(posterior, "variables", None) or {}
    if "coef" not in variables:
        return None
    return [posterior.names[j] for j in np.sort(variables["coef"].columns, axis=None)] or None


def target_name_of(y):
    """The name of a series of targets, or ``"y"``."""
    name = getattr(y, "name", None)
    return "y" if name is None else str(name)


def _places(values, n_points):
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError("feature must be a column with finite values.")
    low, high = values.min(), values.max()
    further = _FURTHER * (high - low) or max(abs(low), 1.0)
    return np.linspace(low - further, high + further, n_points)
