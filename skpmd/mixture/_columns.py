"""Columns that a user names: by places, by names or by a mask."""

import numpy as np
from sklearn.utils.validation import _get_feature_names


def places_of(columns, n_features, names=None):
    """Places (k,) of distinct columns among ``n_features``, in the order given.

    ``columns`` is one place or name, several of them, or a mask; ``names`` (n_features,) are those
    of the fit, None where it had none.
    """
    given = np.atleast_1d(np.asarray(columns))
    if given.ndim != 1 or not given.size:
        raise ValueError(f"columns must be one column or a list of some, got {columns!r}.")
    if given.dtype.kind in "UO":
        return _distinct(np.array([_place(one, names) for one in given]), columns)
    if given.dtype.kind == "b":
        if len(given) != n_features:
            raise ValueError(
                f"columns has a mask of {len(given)} entries for the {n_features} columns of the "
                "fit: give one for each."
            )
        if not given.any():
            raise ValueError("columns has a mask without a True: give one column or more.")
        return np.flatnonzero(given)
    if given.dtype.kind not in "iu":
        raise ValueError(f"columns must be integers, names or a mask, got {columns!r}.")
    if not ((given >= -n_features) & (given < n_features)).all():
        raise ValueError(
            f"columns must be from 0 to {n_features - 1}, those of the fit, got {columns!r}."
        )
    return _distinct(given.astype(int) % n_features, columns)


def values_of(values, places, names=None):
    """The columns of a data frame that have the names of the places; other values as they are.

    ``names`` (n_features,) are those of the fit, None where it had none.
    """
    found = None if names is None else _get_feature_names(values)
    if found is None:
        return values
    wanted = [str(name) for name in names[places]]
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise ValueError(
            f"values has no columns {missing}, as they were called in the fit: add them, or give "
            "an array."
        )
    return values.select(wanted) if hasattr(values, "select") else values[wanted]


def _place(name, names):
    if names is None:
        raise ValueError(
            f"columns has the name {str(name)!r}, and the fit had no names of columns: give "
            "places, or fit a data frame."
        )
    found = np.flatnonzero(np.asarray(names, dtype=object) == name)
    if not len(found):
        known = [str(one) for one in names]
        raise ValueError(f"columns has {str(name)!r}, which is none of {known}.")
    return found[0]


def _distinct(places, columns):
    if len(np.unique(places)) < len(places):
        raise ValueError(f"columns must differ from each other, got {columns!r}.")
    return places
