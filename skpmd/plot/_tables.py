"""What pictures ask of tables and of models: rows along one column, units, names and meanings."""

from numbers import Integral

import numpy as np
from scipy import sparse

from skpmd._base.utils import as_floats
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
    if hasattr(X, "iloc"):
        return _along_frame(X, feature, at, n_points)
    X = dense("X", X)
    if X.ndim != 2 or not len(X):
        raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}.")
    if not _is_place(feature, X.shape[1]):
        raise ValueError(
            f"feature must be the place of one of {X.shape[1]} columns, got {feature!r}; names "
            "need a data frame."
        )
    at = np.nanmedian(X, axis=0) if at is None else as_floats("at", at)
    if at.shape != X.shape[1:]:
        raise ValueError(f"at must have shape ({X.shape[1]},), a value for each column.")
    table = np.tile(at, (n_points, 1))
    table[:, feature] = _places(X[:, feature], n_points)
    return table, table[:, feature], X[:, feature], f"column {feature % X.shape[1]}"


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
    places = [variables[one].columns for one in ("coef", "b") if one in variables]
    return [posterior.names[j] for one in places for j in np.sort(one, axis=None)] or None


def target_name_of(y):
    """The name of a series of targets, or ``"y"``."""
    name = getattr(y, "name", None)
    return "y" if name is None else str(name)


def _along_frame(X, feature, at, n_points):
    names = list(X.columns)
    is_name = any(feature is name or feature == name for name in names)
    if not is_name and not _is_place(feature, len(names)):
        raise ValueError(
            f"feature must be a column of X, its name or place, got {feature!r}; there are "
            f"{', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}."
        )
    j = names.index(feature) if is_name else range(len(names))[feature]
    if at is not None and len(at) != len(names):
        raise ValueError(f"at must have shape ({len(names)},), a value for each column.")
    values = as_floats(f"column {names[j]!r}", X.iloc[:, j].to_numpy())
    # Rows of X have the types of its columns, which a table made anew would not.
    table = X.iloc[np.zeros(n_points, dtype=int)].reset_index(drop=True)
    for k in range(len(names)):
        column = X.iloc[:, k]
        if k == j:
            table[names[k]] = _places(values, n_points)
        elif at is not None:
            table[names[k]] = np.repeat(list(at)[k], n_points)
        elif column.dtype.kind in "fiu":
            table[names[k]] = np.full(n_points, column.median())
        else:
            mode = column[column == column.mode().iloc[0]].iloc[[0]]
            table[names[k]] = mode.repeat(n_points).reset_index(drop=True)
    return table, table[names[j]].to_numpy(), values, str(names[j])


def _is_place(feature, n):
    is_whole = isinstance(feature, Integral) and not isinstance(feature, bool)
    return is_whole and -n <= feature < n


def _places(values, n_points):
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError("feature must be a column with finite values.")
    low, high = values.min(), values.max()
    further = _FURTHER * (high - low) or max(abs(low), 1.0)
    return np.linspace(low - further, high + further, n_points)
