"""Rows of a user's data of any kind: arrays, tables, lists of objects, dicts of them, or none."""

from collections.abc import Mapping

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skpmd._base.validation import checked_weights
from skpmd._rows.rows import Rows
from skpmd._rows.table import BlockTable


def rows_of(X, y, sample_weight, batch_size):
    """The weighted `Rows` of data whose X, y or both may be None.

    Without either there are no rows to divide: the model has no data, or holds them itself. It is
    then evaluated whole, as one row is.
    """
    n = n_rows(X, y)
    if sample_weight is None:
        weight = np.ones(n)
    elif X is None and y is None:
        raise ValueError(
            "sample_weight was given without X and y: there are no rows for it to weigh."
        )
    else:
        weight = checked_weights(sample_weight, np.zeros(n))
    return Rows(X, y, weight, batch_size, select)


def n_rows(X, y=None):
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


def select(values, rows):
    """Some rows, by a slice, a mask or places, as what they are; None stays None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray | BlockTable):
        return values[rows]
    if isinstance(values, Mapping):
        return {key: select(column, rows) for key, column in values.items()}
    return _safe_indexing(values, np.arange(_num_samples(values))[rows])
