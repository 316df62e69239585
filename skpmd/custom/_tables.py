"""What a user's functions say of each row under each particle."""

import numpy as np

from skpmd._runtime.threads import each
from skpmd.custom._model import AT_ONCE, parts_of, refuse_no_numbers
from skpmd.custom._rows import rows_of

_ROUNDING = 1e-8  # Of a sum over rows.
_POINTWISE = "log_likelihood_pointwise"


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
            f"log_likelihood=None needs {_POINTWISE}, whose sum over the rows takes its place: "
            "give one of the two."
        )

    def summed(theta, X, y, sample_weight):
        n = None if X is None and y is None else len(sample_weight)
        table = values_table(_POINTWISE, pointwise(theta, X, y), len(theta), n, by_targets=False)
        with np.errstate(over="ignore", invalid="ignore"):  # What is no number is refused later.
            # Rows that only the function knows have no weights.
            return table.sum(axis=1) if n is None else table @ sample_weight

    return _POINTWISE, summed


def pointwise_table(model, pointwise, theta, batch):
    """Log-likelihood of each row under each particle, (m, n), without weights.

    ``pointwise`` is the user's function. Where it is None the model is called for one row after
    another.
    """
    if pointwise is None:
        single = rows_of(batch.X, batch.y, None, 1).whole()
        return np.column_stack([model.log_likelihood(theta, row) for row in single])

    def of(some):
        values = pointwise(some.copy(), batch.X, batch.y)
        table = values_table(_POINTWISE, values, len(some), count(batch), by_targets=False)
        wrong = (np.isnan(table) | (table == np.inf)).any(axis=1)
        refuse_no_numbers(_POINTWISE, wrong, some, np.where(wrong, np.nan, 0.0))
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
        f"log_likelihood is not the sum of {_POINTWISE} over the rows: {whole[i]:.8g} and "
        f"{sums[i]:.8g} under one particle. Make the two agree, constants included, or set "
        "log_likelihood=None, which takes the sum."
    )
