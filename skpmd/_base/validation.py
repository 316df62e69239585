"""What a user hands over as data: as scikit-learn checks it, and as far as numbers can hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from datetime import date, timedelta

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing, check_array, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    check_consistent_length,
    column_or_1d,
)

from skpmd._rows.blocks import Blocks
from skpmd._rows.rows import ones
from skpmd._rows.table import OF_DATES, BlockTable, group_size, is_in_memory, limits
from skpmd._typing import Method

_POWER = 3  # Powers of numbers up to this one must not overflow: sums of products then do not.
# The largest weight lies between these: rounding loses others, or the prior, beside it.
WEIGHTS = 1e-30, 1e15
# How other libraries begin to say that something is no number, without saying what.
_CONVERSIONS = (
    "could not convert", "setting an array element", "float() argument", "int() argument",
    "The DType", "Cannot convert", "Cannot cast", "can't convert", "invalid literal",
    "must be real number",
)  # fmt: skip
# What to do with columns of words, where a model knows what to do with categories.
ENCODE = (
    "Encode columns of words, for example by sklearn.preprocessing.OneHotEncoder in a "
    "sklearn.compose.ColumnTransformer"
)
_NOTHING = 1e-30  # A weight of so small a share of the largest counts for nothing.
# Rows that count less than this share of a row each make a posterior more than three times as wide
# as they could: such weights are likelier shares of a total than numbers of rows. So few rows as
# parts of a stream may have say nothing.
_MIN_SHARE, _FEW_ROWS = 0.1, 10
_ROWS_AT_ONCE = 1 << 16


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """scikit-learn's decorator of fits, which checks parameters, but the method keeps its type."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def checked_weights(sample_weight, X):
    """``sample_weight`` as an array of shape (n,), ones where it is None.

    Weights that count for nothing beside the largest are zero. ValueError where one is negative, or
    all are zero or so small or large that sums with them mean nothing.
    """
    if sample_weight is None:
        return ones(X)
    with naming_conversions("sample_weight"):
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = weight.max(initial=0.0)
    if not largest:  # Newer versions of scikit-learn refuse these themselves.
        raise ValueError("sample_weight is zero for every row: there are no data to fit.")
    if not WEIGHTS[0] <= largest <= WEIGHTS[1]:
        raise ValueError(
            f"The largest sample_weight is {largest:g}: it must be between {WEIGHTS[0]:g} and "
            f"{WEIGHTS[1]:g}, for a row of weight w counts as w rows. Scale all weights."
        )
    nothing = weight < _NOTHING * largest
    return np.where(nothing, 0.0, weight) if nothing.any() else weight


def refuted_weights(weight):
    """Why weights (n,) of rows seem to be no numbers of rows, in a sentence; "" where they may be.

    They are judged by the weight of the row that an average unit of weight is in, which rows of
    little weight beside others, such as those of the distant past, do not change.
    """
    n, total = np.count_nonzero(weight), float(weight.sum())
    share = float(np.einsum("i,i->", weight, weight)) / total  # No copy of one number broadcast.
    if n <= _FEW_ROWS or (share >= _MIN_SHARE * (1.0 - 1e-6) and total > 1.0 + 1e-6):
        return ""
    return (
        f"the weights of {n} rows sum to {total:.3g}. A row of weight w counts as w rows, so the "
        f"posterior is that of {total:.3g} rows. Where weights are shares of a total, multiply "
        f"them by {n / total:.3g}"
    )


def checked_blocks(X, y="no_validation", *, y_numeric=False, multi_output=False, **how):
    """A `BlockTable`, or the array that it is, and y, checked as ``validate_data`` does it."""
    if is_in_memory(X):
        rows = check_array(X.array, input_name="X", **how)
    else:
        _check_values(X, how.get("ensure_all_finite", True))
        if X.is_sparse and not how.get("accept_sparse"):
            raise TypeError("Sparse data was passed for X, but dense data is required.")
        rows = X
    if isinstance(y, str) and y == "no_validation":
        return rows
    if y is None:
        raise ValueError("The blocks have no y, and none is given: this estimator requires y.")
    y = _check_y(y, multi_output=multi_output, y_numeric=y_numeric)
    check_consistent_length(X, y)
    return rows, y


def _check_values(X, ensure_all_finite):
    """ValueError where numbers are none or infinite, and have to be."""
    if not ensure_all_finite:
        return
    if X.has_missing and ensure_all_finite is True:
        raise ValueError("Input X contains NaN.")
    if np.isinf(limits(X)).any():
        raise ValueError(f"Input X contains infinity or a value too large for dtype('{X.dtype}').")


@contextmanager
def naming_conversions(name, of_words=ENCODE, X=None):
    """Context in which what is no number, or no array of them, ends in an error with its name.

    ``of_words`` says what to do with words in X, of which a data frame has the column named.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if not str(error).startswith(_CONVERSIONS):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        is_of_words = str(error).startswith("could not convert string")
        advice = f". {of_words}" if is_of_words and name.startswith("X") else ""
        column = _column_without_numbers(X)
        if column is not None:
            advice = f". The first such column of X is {column[0]!r}. {column[1] or of_words}"
        elif name == "y":
            advice = ". For labels of classes there is BayesianLogisticRegressionPMD"
        what = str(error).partition(". This means")[0]
        raise kind(f"{name} cannot be read as an array of numbers: {what}{advice}") from error


def _column_without_numbers(X):
    """The first column of a data frame that is none of numbers, and what to do if it is of dates.

    None where there is no such column, or X is no data frame.
    """
    for place, name in enumerate(getattr(X, "columns", ())):
        column = _safe_indexing(X, place, axis=1)
        try:
            np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            first = next(iter(column), None)
            is_date = isinstance(first, date | timedelta)
            return name, OF_DATES if is_date else ""
    return None


@contextmanager
def naming_missing(X, y):
    """Context in which scikit-learn's error about nan or infinity says where the first is."""
    try:
        yield
    except ValueError as error:
        head, _, rest = str(error).partition(".")
        values = {"Input X contains": X, "Input y contains": y}.get(head[:16])
        if values is None or not is_in_memory(values):
            raise
        try:
            table = check_array(
                values, dtype=np.float64, ensure_all_finite=False, ensure_2d=False, allow_nd=True,
                accept_sparse="coo",
            )  # fmt: skip
        except (TypeError, ValueError):  # Labels that are words, beside nan.
            raise error from None
        if sparse.issparse(table):
            k = np.flatnonzero(~np.isfinite(table.data))[:1]
            places = np.column_stack([table.row[k], table.col[k]])
        else:
            places = np.argwhere(~np.isfinite(table))
        if not len(places):  # A number that is too large for single precision.
            raise
        row, *column = places[0].tolist()
        names = getattr(values, "columns", range(table.shape[-1]))
        of_column = f" of column {names[column[0]]!r}" if column else ""
        raise ValueError(f"{head}, the first in row {row}{of_column}.{rest}") from error


@contextmanager
def naming_singular_columns(X):
    """Context that turns a matrix without a Cholesky factor into an error that names a column.

    It is the one whose values differ least beside their size: sums of squares lose such columns.
    """
    try:
        yield
    except np.linalg.LinAlgError as error:
        X = X[: group_size(X)]
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(X.tocsr(), axis=0)
        else:
            mean, variance = X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
        # One constant column is no harm, but many of them are.
        varies = variance > 0.0
        sd = np.sqrt(np.where(varies, variance, np.inf if varies.any() else 1.0))
        j = int(np.argmax(np.abs(mean) / sd))
        sd = np.sqrt(np.maximum(variance, 0.0))
        raise ValueError(
            f"Rounding has made the posterior of these columns singular ({error}). Column {j} of X "
            f"has the mean {mean[j]:g} and the standard deviation {sd[j]:g}: "
            "subtract means and divide by standard deviations, for example by "
            "sklearn.preprocessing.StandardScaler; fit_intercept=True does so inside."
        ) from error


def refuse_no_table(X):
    """ValueError or TypeError, with what to give instead, where X cannot be read as a table."""
    kind = type(X).__name__
    if X is None:
        raise ValueError("X is None: give an array of shape (n_samples, n_features).")
    if isinstance(X, Blocks):
        raise TypeError(
            f"X is a {kind}, which fit and partial_fit take: call this method with the rows of "
            "each block."
        )
    if hasattr(X, "__next__"):
        raise TypeError(
            f"X is a {kind}, which can be read only once: give an array, or call partial_fit with "
            "each of its parts."
        )
    if callable(getattr(X, "collect", None)) and not hasattr(X, "__array__"):
        raise TypeError(f"X is a {kind}, whose rows are not there yet: give X.collect().")


def refuse_overflows(name, values, dtype=np.float64):
    """ValueError where sums of products of an array's or sparse matrix's numbers overflow.

    ``dtype`` is that of the sums. Of targets ``"y"`` such sums must not vanish either.
    """
    values, info = values.data if sparse.issparse(values) else values, np.finfo(dtype)
    values = values if hasattr(values, "dtype") else np.asarray(values)
    if values.dtype.kind != "f":  # Some kernels take other things than numbers.
        return
    low, high = limits(values)
    largest = max(high, -low)
    if largest > float(info.max) ** (1 / _POWER):
        raise ValueError(
            f"{name} holds numbers as large as {largest:g}, and sums of their products overflow: "
            "scale it, for example by sklearn.preprocessing.StandardScaler."
        )
    if name == "y" and 0.0 < largest < float(info.tiny) ** (1 / _POWER):
        raise ValueError(
            f"y holds numbers of {largest:g} at most, whose squares are zero to rounding: scale it."
        )


def _check_labels(y):
    """ValueError where y holds no labels of classes, with what to do about intervals of pandas."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        first = next(iter(np.ravel(np.asarray(y, dtype=object))), None)
        if not (hasattr(first, "left") and hasattr(first, "right")):
            raise
        raise ValueError(
            f"y has intervals as labels, such as {first}: name them, as pandas.cut(x, bins, "
            "labels=[...]) does, or give y.cat.rename_categories(str) of a series, which keeps "
            "their order."
        ) from error


def encode(y):
    """Codes 0, 1, ... of the labels, float64, and the classes in sorted order."""
    with naming_unordered("y", y):
        _check_labels(y)
        y = column_or_1d(y, warn=True)
        some = list(gen_batches(len(y), _ROWS_AT_ONCE))  # All at once take several times as much.
        classes = np.unique(np.concatenate([np.unique(y[rows]) for rows in some]))
    if len(classes) < 2:
        raise ValueError(f"y must contain 2 classes or more; got one class only: {classes[0]}.")
    codes = np.empty(len(y))
    for rows in some:
        codes[rows] = np.searchsorted(classes, y[rows])
    return codes, classes


def encode_known(y, classes):
    """Codes of labels that must be among known classes; one class alone is fine."""
    with naming_unordered("y", y):
        _check_labels(y)
    y = column_or_1d(y, warn=True)
    if len(classes) < 2:
        raise ValueError(f"classes must hold 2 labels or more, got {classes.tolist()}.")
    with naming_unordered("y", y):
        unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes.")
    return np.searchsorted(classes, y).astype(np.float64)


@contextmanager
def naming_unordered(name, labels):
    """Context that says which labels, an argument of that name, cannot be compared."""
    try:
        with np.errstate(all="ignore"):  # Labels may be numbers that no integer can hold.
            yield
    except TypeError as error:
        kinds = sorted(
            {type(label).__name__ for label in np.ravel(np.asarray(labels, dtype=object))}
        )
        raise TypeError(
            f"{name} has labels of the types {', '.join(kinds)}, which have no order: make all "
            "of them strings, or all of them numbers."
        ) from error


def row_weights(X, codes, classes, sample_weight, class_weight, all_classes):
    """Weights (n,) of the rows of X, by row and by class; None where neither is given.

    ``codes``, of shape (n,), are the classes of the rows, and ``classes``, (K,), the labels.
    ``sample_weight`` and ``class_weight`` are as the user gives them. With ``all_classes`` it is an
    error if ``sample_weight`` leaves a class without weight.
    """
    if sample_weight is None and class_weight is None:
        return None
    weight = checked_weights(sample_weight, X)
    if all_classes:
        _check_all_weighted(codes, weight, classes)
    if class_weight is None:
        return weight
    weight = weight * class_weights(class_weight, codes, classes, weight)
    if not weight.any():
        raise ValueError(f"class_weight={class_weight} leaves every row without weight.")
    if not WEIGHTS[0] <= weight.max() <= WEIGHTS[1]:
        raise ValueError(
            f"The largest weight of a row is {weight.max():g} with class_weight={class_weight}: it "
            f"must be between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}."
        )
    return weight


def _check_all_weighted(codes, weight, classes):
    """Raise if the weights leave a class without any."""
    totals = np.bincount(codes.astype(int), weight, minlength=len(classes))
    if not totals.all():
        empty = classes.tolist()[np.flatnonzero(totals == 0.0)[0]]
        raise ValueError(
            f"sample_weight leaves class {empty!r} without any weight; a posterior needs rows of "
            "all classes."
        )


def class_weights(class_weight, codes, classes, weight):
    """Factors (n,) by which ``class_weight`` multiplies the weights of rows.

    It holds the weight of each label, 1 where a label is missing; ``"balanced"`` gives all classes
    the same total. Other arguments are as of `row_weights`.
    """
    codes = codes.astype(int)
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, minlength=len(classes))
        return (weight.sum() / (len(classes) * totals))[codes]
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, which are not among the classes {labels}.")
    try:
        factors = np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)
    except (TypeError, ValueError):
        factors = np.array([np.nan])
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        raise ValueError(
            f"class_weight must hold finite numbers that are not negative; got {class_weight}."
        )
    return factors[codes]


# ------------------------------------------------------------------- rows of any kind
def count_rows(X, y=None):
    """How many rows data have, 1 where there are neither X nor y; ValueError if they differ."""
    counts = {}
    for name, data in {"X": X, "y": y}.items():
        if isinstance(data, Mapping):
            counts |= {f"{name}[{key!r}]": _num_samples(column) for key, column in data.items()}
        elif data is not None:
            counts[name] = _num_samples(data)
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"X and y must have as many rows, found input variables with inconsistent numbers of "
            f"samples: {counts}."
        )
    n = next(iter(counts.values()), 1)
    if not n:
        raise ValueError(f"{next(iter(counts))} has no rows: give one row or more.")
    return n


def is_frame(X):
    """Whether X is a data frame, of pandas, Polars or another package, whose rows are in memory."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and not isinstance(X, BlockTable)


def check_numbers(X):
    """ValueError where a column of numbers of a data frame has one that is missing or infinite."""
    places = [j for j, dtype in enumerate(X.dtypes) if _is_number(dtype)]
    if places:
        numbers = _safe_indexing(X, places, axis=1)  # By place, for names may come twice.
        with naming_missing(numbers, None):
            check_array(numbers, dtype=np.float64, input_name="X")


def _is_number(dtype):
    """Whether a type of a column is one of numbers; those of Polars have a method for it."""
    return dtype.is_numeric() if hasattr(dtype, "is_numeric") else dtype.kind in "fiu"


def select_rows(values, rows):
    """Some rows, by a slice, a mask or places, as what they are; None stays None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray | BlockTable):
        return values[rows]
    if isinstance(values, Mapping):
        return {key: select_rows(column, rows) for key, column in values.items()}
    return _safe_indexing(values, np.arange(_num_samples(values))[rows])
