"""What a user hands over as data: as scikit-learn checks it, and as far as numbers can hold it."""

from contextlib import contextmanager

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import _check_sample_weight

_POWER = 3  # Powers of numbers up to this one must not overflow: sums of squares then do not.
# Sums over rows mean nothing beyond: the others, or the prior, are lost by rounding.
_WEIGHTS = 1e-30, 1e15


def checked_weights(sample_weight, X):
    """``sample_weight`` as an array of shape (n,), ones where it is None.

    ValueError where one is negative, or so small or large that sums with it mean nothing.
    """
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if sample_weight is None:
        return weight
    smallest, largest = weight.min(where=weight > 0.0, initial=1.0), weight.max(initial=1.0)
    for extreme in (smallest, largest):
        if not _WEIGHTS[0] <= extreme <= _WEIGHTS[1]:
            raise ValueError(
                f"sample_weight holds {extreme:g}: it must be 0, or between {_WEIGHTS[0]:g} and "
                f"{_WEIGHTS[1]:g}, for a row of weight w counts as w rows. Set it to 0 to leave "
                "rows out, or scale all weights."
            )
    return weight


@contextmanager
def naming_singular_columns(X):
    """Context that turns a matrix without a Cholesky factor into an error that names a column.

    It is the one whose values differ least beside their size: sums of squares lose such columns.
    """
    try:
        yield
    except np.linalg.LinAlgError as error:
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(X.tocsr(), axis=0)
        else:
            mean, variance = X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            j = int(np.nanargmax(np.abs(mean) / np.sqrt(variance)))
        raise ValueError(
            f"Rounding has made the posterior of these columns singular ({error}). Column {j} of X "
            f"has the mean {mean[j]:g} and the standard deviation {np.sqrt(variance[j]):g}: "
            "subtract means and divide by standard deviations, for example by "
            "sklearn.preprocessing.StandardScaler."
        ) from error


def refuse_no_table(X):
    """ValueError or TypeError, with what to give instead, where X cannot be read as a table."""
    kind = type(X).__name__
    if X is None:
        raise ValueError("X is None: give an array of shape (n_samples, n_features).")
    if hasattr(X, "__next__"):
        raise TypeError(
            f"X is a {kind}, which can be read only once: give an array, or call partial_fit with "
            "each of its parts."
        )
    if callable(getattr(X, "collect", None)) and not hasattr(X, "__array__"):
        raise TypeError(f"X is a {kind}, whose rows are not there yet: give X.collect().")


def refuse_overflows(name, values):
    """ValueError where numbers of an array or sparse matrix are so large that squares overflow."""
    values = values.data if sparse.issparse(values) else values
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return
    limits = np.finfo(values.dtype)
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > float(limits.max) ** (1 / _POWER):
        raise ValueError(
            f"{name} holds numbers as large as {largest:g}, whose squares overflow: scale it, for "
            "example by sklearn.preprocessing.StandardScaler."
        )
    if name == "y" and 0.0 < largest < float(limits.tiny) ** (1 / _POWER):
        raise ValueError(
            f"y holds numbers of {largest:g} at most, whose squares are zero to rounding: scale it."
        )
