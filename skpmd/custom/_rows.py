"""Rows of a user's data of any kind, and what the user's functions say of each of them.

Data are arrays, tables, lists of objects, dicts of them, or none.
"""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import _num_samples

from skpmd._base.parameters import with_names
from skpmd._base.validation import checked_weights, naming_missing
from skpmd._rows.rows import Rows
from skpmd._rows.table import BlockTable
from skpmd._runtime.threads import each
from skpmd.custom._model import AT_ONCE, parts_of, refuse_no_numbers

_ROUNDING = 1e-8  # Of a sum over rows.
POINTWISE = "log_likelihood_pointwise"
_N_LOOKED_AT, _NEXT_TO_NOTHING = 100, 1e-3  # Draws of the prior, and rows, at most; and a share.
_N_COMPARED, _SAME_SUM = 4, 1e-5  # Particles whose sums over rows are compared, and how closely.


def rows_of(X, y, sample_weight, batch_size):
    """The weighted `Rows` of data whose X, y or both may be None.

    Without either there are no rows to divide: the model has no data, or holds them itself. It is
    then evaluated whole, as one row is.
    """
    n = count_rows(X, y)
    if sample_weight is None:
        weight = np.ones(n)
    elif X is None and y is None:
        raise ValueError(
            "sample_weight was given without X and y: there are no rows for it to weigh."
        )
    else:
        weight = checked_weights(sample_weight, np.zeros(n))
    return Rows(X, y, weight, batch_size, select)


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


def select(values, rows):
    """Some rows, by a slice, a mask or places, as what they are; None stays None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray | BlockTable):
        return values[rows]
    if isinstance(values, Mapping):
        return {key: select(column, rows) for key, column in values.items()}
    return _safe_indexing(values, np.arange(_num_samples(values))[rows])


# ------------------------------------------------------------------- values of each row
def values_table(name, values, m, n, *, by_targets=True, numbers=True):
    """What a function returned as an array of shape (m, n) or, ``by_targets``, (m, n, t).

    ``n`` is None where there are no rows that could be counted. With ``numbers`` they are float64.
    """
    values = np.asarray(values)
    shapes = (2, 3) if by_targets else (2,)
    if values.ndim not in shapes or len(values) != m or n not in (None, values.shape[1]):
        rows = "n" if n is None else n
        many = f" or ({m}, {rows}, t)" if by_targets else ""
        raise ValueError(
            f"{name} must return shape ({m}, {rows}){many}, a row for each particle and a column "
            f"for each row of X, got {values.shape}."
        )
    if not numbers:
        return values
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must return real numbers, got dtype {values.dtype}.")
    return values.astype(np.float64, copy=False)


def parts_of_table(X, y, m):
    """All rows as batches that fit a cache with m particles; one where there are no data."""
    return rows_of(X, y, None, max(1, AT_ONCE // m)).whole()


def count(batch):
    """How many columns a table of a batch has; None where there are no data to say so."""
    return None if batch.X is None and batch.y is None else len(batch.weight)


def likelihood_of(log_likelihood, pointwise):
    """What errors call the log-likelihood of all rows, and the function; one of the two is given.

    The sum of values for each row takes ``sample_weight``, as a user's function may.
    """
    if log_likelihood is not None:
        return "log_likelihood", log_likelihood
    if pointwise is None:
        raise ValueError(
            "There is no likelihood: give log_likelihood, or log_likelihood_pointwise, whose sum "
            "over the rows takes its place, or distribution, which has them both."
        )

    def summed(theta, X, y, sample_weight):
        n = None if X is None and y is None else len(sample_weight)
        table = values_table(POINTWISE, pointwise(theta, X, y), len(theta), n, by_targets=False)
        with np.errstate(over="ignore", invalid="ignore"):  # What is no number is refused later.
            # Rows that only the function knows have no weights.
            return table.sum(axis=1) if n is None else table @ sample_weight

    return POINTWISE, summed


def pointwise_table(model, pointwise, theta, batch):
    """Log-likelihood of each row under each particle, (m, n), without weights.

    ``pointwise`` is the user's function. Where it is None the model is called for one row after
    another.
    """
    if pointwise is None:
        single = rows_of(batch.X, batch.y, None, 1).whole()
        return np.column_stack([model.log_likelihood(theta, row) for row in single])

    def of(some):
        values = pointwise(with_names(some, model.variables), batch.X, batch.y)
        table = values_table(POINTWISE, values, len(some), count(batch), by_targets=False)
        wrong = (np.isnan(table) | (table == np.inf)).any(axis=1)
        refuse_no_numbers(POINTWISE, wrong, some, np.where(wrong, np.nan, 0.0))
        return table

    return np.concatenate(each(of, parts_of(theta, len(batch.weight))))


def check_sum(table, whole, pointwise):
    """ValueError where log-likelihoods of all rows (m,) are not the sums of those of each."""
    sums = table.sum(axis=1)
    is_close = np.isclose(sums, whole, rtol=_ROUNDING, atol=_ROUNDING)
    if is_close.all():
        return
    if pointwise is None:
        raise ValueError(
            "log_likelihood of all rows is not the sum of that of each: rows are not "
            "independent given theta, and no row has a log-likelihood of its own."
        )
    i = int(is_close.argmin())
    raise ValueError(
        f"log_likelihood is not the sum of {POINTWISE} over the rows: {whole[i]:.8g} and "
        f"{sums[i]:.8g} under one particle. Make the two agree, constants included, or set "
        "log_likelihood=None, which takes the sum."
    )


def never_negative(model, pointwise, rows):
    """A reason to warn where a log-likelihood looks like a density itself; "" by default.

    Draws of the prior that do not fit rows make logs of densities negative, and densities zero.
    ``pointwise`` is the user's function of each row, or None.
    """
    batch = next(iter(rows.whole()))
    if batch.X is None and batch.y is None:
        return ""
    batch = batch.take(slice(_N_LOOKED_AT), select)
    with suppress(Exception), np.errstate(all="ignore"):  # The fit itself says what is wrong.
        theta = model.sample_prior(np.random.default_rng(0), _N_LOOKED_AT)
        if pointwise is None:
            values = model.log_likelihood(theta, batch)
        else:
            values = pointwise_table(model, pointwise, theta, batch)
        low, high = np.min(values), np.max(values)
        is_probability = pointwise is not None and high <= 1.0
        if 0.0 <= low < high and (low <= _NEXT_TO_NOTHING * high or is_probability):
            return (
                f"values of {model.likelihood_name} are negative at no draw of the prior, but from "
                f"{low:.3g} to {high:.3g}: they must be logs of densities or of probabilities "
                "(logpdf or logpmf of SciPy, not pdf or pmf), and minus sums of squares, not plus"
            )
    return ""


def of_parts(model, rows, theta):
    """A reason to warn where the log-likelihood of rows is not the sum over parts of them.

    Functions that hold the data themselves, or their number, would count them once for each part.
    """
    if rows.n_batches < 2:
        return ()
    batch, theta = next(iter(rows.whole())), theta[:_N_COMPARED]
    n = len(batch.weight)
    if n < 2:
        return ()
    parts = [batch.take(part, select) for part in (slice(n // 2), slice(n // 2, None))]
    whole = model.log_likelihood(theta, batch)
    both = sum(model.log_likelihood(theta, one) for one in parts)
    if np.allclose(both, whole, rtol=_SAME_SUM, atol=_SAME_SUM):
        return ()
    return (
        f"log_likelihood of {n} rows is {whole[0]:.6g}, and the sum over both halves of them "
        f"{both[0]:.6g}: rows come in parts, so that it must be the sum over the rows that it is "
        "given, of X and y and of no other data or number of rows; where rows depend on each "
        "other, set batch_size to their number",
    )
