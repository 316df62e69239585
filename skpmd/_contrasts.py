"""Columns of the user's rows: which is meant, what values of it are compared, and rows with these.

Definitions are those of marginaleffects; see `skpmd.effects`.
"""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, hstack, issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _get_feature_names

from skpmd._base.mean_draws import RowAverages
from skpmd._base.utils import as_floats, place_of_column
from skpmd._base.validation import checked_weights
from skpmd._rows.opening import as_blocks
from skpmd._rows.table import is_in_memory

_MAX_LEVELS = 25  # More are hardly meant to be compared, as in marginaleffects.
# Of slopes, as a share of the column's range, which is so many times that of its middle at most.
_STEP, _WIDE = 1e-4, 10.0
OF_TWO = {
    "difference": ("-", lambda high, low: high - low),
    "ratio": ("/", lambda high, low: high / low),
    "lnratio": ("/", lambda high, low: np.log(high / low)),
    "odds_ratio": ("/", lambda high, low: _odds(high) / _odds(low)),
    "lnor": ("/", lambda high, low: np.log(_odds(high) / _odds(low))),
}


class Contrast(NamedTuple):
    """Two of the values that a column is given, by their places, and what that is called."""

    label: str
    high: int
    low: int
    step: float | None = None  # Of a slope.


def rows_in_order(X, averages):
    """X, `RowAverages` or None, what estimates of rows are about, and names of columns or None.

    ``averages`` are None for each row, or what they are by, and weights; rows are then sorted.
    """
    if not is_in_memory(X) or as_blocks(X) is not None:
        raise TypeError(f"X must be in memory, got {type(X).__name__}: give a sample of its rows.")
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    names = _get_feature_names(X)
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"X must have rows and columns, got shape {tuple(X.shape)}.")
    n = X.shape[0]
    if averages is None:
        return X, None, ("row", np.arange(n)), names
    by, weight = averages
    weight = np.ones(n) if weight is None else checked_weights(weight, X).astype(np.float64)
    code, labels = np.zeros(n, dtype=np.int64), None
    if by is not None:
        if isinstance(by, str | Integral):
            by = column_at(X, place_of_column(by, names, X.shape[1], "by"))
        by = np.asarray(by)
        if by.shape != (n,):
            raise ValueError(f"by must be a column of X or have shape ({n},), got {by.shape}.")
        try:
            labels, code = np.unique(by, return_inverse=True)
        except TypeError as error:
            raise ValueError(f"by must hold labels of one kind, make them strings: {error}.") from (
                error
            )
        order = np.argsort(code, kind="stable")
        X, code, weight = _safe_indexing(X, order), code[order], weight[order]
    total = np.bincount(code, weight)
    if not (total > 0.0).all():
        raise ValueError("sample_weight is zero in all rows of an average: leave these rows out.")
    about = None if labels is None else ("by", labels)
    return X, RowAverages(code, weight / total[code], len(total)), about, names


def by_column(variables):
    """A dict of what to compare, None by default, of columns that are given in any way."""
    if isinstance(variables, str | Integral):
        return {variables: None}
    given = dict(variables) if isinstance(variables, Mapping) else dict.fromkeys(variables)
    if not given:
        raise ValueError("variables must name a column of X, got none.")
    return given


def column_at(X, place):
    """A column (n,), as X has it."""
    if issparse(X):
        return X.tocsc()[:, [place]].toarray()[:, 0]
    return _safe_indexing(X, place, axis=1)


def with_column(X, place, values):
    """X with other values in a column, of the same kind; the given X stays as it is."""
    values = np.broadcast_to(values, X.shape[0])
    if issparse(X):
        X = X.tocsc()
        return hstack([X[:, :place], csc_matrix(values[:, None]), X[:, place + 1 :]], "csr")
    if isinstance(X, np.ndarray):
        X = X.astype(np.result_type(X.dtype, values.dtype))
        X[:, place] = values
        return X
    column = column_at(X, place)
    if np.asarray(column).dtype.kind not in "biuf":
        values = type(column)(values.tolist(), dtype=column.dtype)
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        X.isetitem(place, getattr(values, "array", values))
        return X
    name = X.columns[place]
    return X.with_columns(type(column)(name, values))


def contrasts_of(variable, column, given, comparison):
    """Values of a column to predict at, scalars or (n,), and the `Contrast`s of these."""
    values, sign = np.asarray(column), OF_TWO.get(comparison, OF_TWO["difference"])[0]
    is_real = values.dtype.kind == "O" and all(isinstance(one, Real) for one in values)
    if is_real or values.dtype.kind == "f":
        values = values.astype(np.float64)  # A step of a slope is less than single precision.
    elif values.dtype.kind in "iu":
        values = values.astype(np.int64)  # Pixels and ages may be of eight bits.
    is_pair = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if is_pair and len(given) != 2:
        raise ValueError(f"variables[{variable!r}] must be a pair, a step or a word, got {given}.")
    if values.dtype.kind not in "biuf":
        return _of_levels(variable, column, list(given) if is_pair else given, sign)
    known = values[values == values]  # Others are missing, for a step of a pipeline to fill in.
    if not len(known):
        raise ValueError(f"The column of variables={variable!r} holds no value.")
    if given is None and np.isin(known, (0, 1)).all():
        given, is_pair = (False, True) if values.dtype.kind == "b" else (0, 1), True
    if is_pair:
        low, high = given
        as_floats(f"variables[{variable!r}]", given)
        names = [str(one) if isinstance(one, bool) else f"{one:g}" for one in (high, low)]
        return [low, high], [Contrast(f" {sign} ".join(names), 1, 0)]
    if comparison == "slope":
        if given is not None:
            raise ValueError(f"slopes take no values to compare, got {given!r} of {variable!r}.")
        # A row far from all others is no measure of a step at these.
        low, high = np.quantile(known, [0.1, 0.9])
        wide = min(float(np.ptp(known)), _WIDE * (high - low) or np.inf)
        step = _STEP * (wide or max(abs(float(known[0])), 1.0))
        return [values - 0.5 * step, values + 0.5 * step], [Contrast("dY/dX", 1, 0, step)]
    if given is None or (isinstance(given, Real) and not isinstance(given, bool)):
        given = 1 if given is None else given
        return [values, values + given], [Contrast(f"{given:+g}", 1, 0)]
    ends = {
        "sd": lambda: np.mean(known) + np.array([-0.5, 0.5]) * np.std(known, ddof=1),
        "iqr": lambda: np.quantile(known, [0.25, 0.75]),
        "minmax": lambda: np.array([known.min(), known.max()]),
    }
    if not isinstance(given, str) or given not in ends:
        raise ValueError(
            f"variables[{variable!r}] must be a step, a pair of values, or one of "
            f"{', '.join(ends)}, got {given!r}."
        )
    return list(ends[given]()), [Contrast(given, 1, 0)]


def _of_levels(variable, column, given, sign):
    """The same of strings and categories: each level is compared to the first or the given."""
    some = [one for one in column if isinstance(one, str) or one == one and one is not None]
    known = list(getattr(column.dtype, "categories", sorted(set(some))))
    levels = [one for one in known if one in set(some)]
    if isinstance(given, list):
        base = levels = given
    else:
        base = [levels[0] if given is None else given] if levels else [given]
    if unknown := [one for one in base if one not in known]:
        raise ValueError(
            f"variables[{variable!r}] must name levels of the column, and {unknown[0]!r} is not "
            f"among {known[:5]}: give rows that have it, or a categorical column."
        )
    if not 1 < len(levels) <= _MAX_LEVELS:
        raise ValueError(
            f"The column of variables={variable!r} has {len(levels)} levels in these rows, and 2 "
            f"to {_MAX_LEVELS} can be compared: give more rows, or a pair of levels."
        )
    levels = [base[0], *(one for one in levels if one != base[0])]
    first = levels[0]
    return levels, [
        Contrast(f"{one} {sign} {first}", place, 0) for place, one in enumerate(levels) if place
    ]


def _odds(probability):
    return probability / (1.0 - probability)
