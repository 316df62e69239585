"""Columns of X that play roles: exposure, offset, trials, groups. They go with X wherever it goes.

Constructors of estimators name them, and they have no coefficient.
"""

from functools import partial
from numbers import Integral

import numpy as np
from scipy.sparse import issparse

from skpmd._rows.table import group_size, is_in_memory, mapped
from skpmd.linear._make_model import few

_MAX_EXPOSURE = 1e300


def places_of(roles, names, n_columns):
    """{role: place} of the roles that are given, {role: name or place}."""
    found = {}
    for role, given in roles.items():
        if given is None:
            continue
        if isinstance(given, str):
            if names is None or given not in names:
                known = (
                    'X has no names. Transformers keep them by set_output(transform="pandas"), and '
                    f"a place, such as {role}=-1 of the last column, needs none"
                )
                if names is not None:
                    known = f"its columns are {few(names)}"
                raise ValueError(f"{role}={given!r} is no column of X: {known}.")
            place = list(names).index(given)
        elif isinstance(given, Integral) and not isinstance(given, bool):
            place = int(given)
            if not -n_columns <= place < n_columns:
                raise ValueError(f"{role}={given} is no column of X, which has {n_columns}.")
            place %= n_columns
        else:
            raise ValueError(f"{role} must be the name or the place of a column, got {given!r}.")
        if place in found.values():
            other = next(name for name, one in found.items() if one == place)
            raise ValueError(f"{role} and {other} are the same column {given!r}: name another one.")
        found[role] = place
    return found


def split(X, places):
    """X without the columns of roles, and these, {role: (n,)}."""
    left = np.setdiff1d(np.arange(X.shape[1]), list(places.values()))
    if not len(left) and not any(role.startswith("groups") for role in places):
        raise ValueError("X has no columns beside those of roles: give one that has a coefficient.")
    columns = {role: _column(X, place) for role, place in places.items()}
    return mapped(partial(_some_columns, left), X), columns


def known_part(columns):
    """The offset of linear predictors, or None, and trials, or None, of columns of roles."""
    offset, exposure, trials = (columns.get(role) for role in ("offset", "exposure", "trials"))
    if exposure is not None:
        _check("exposure", exposure, (exposure > 0.0) & (exposure <= _MAX_EXPOSURE), "above 0")
        offset = np.log(exposure) + (0.0 if offset is None else offset)
    if trials is not None:
        _check("trials", trials, (trials >= 1.0) & (trials == np.floor(trials)), "whole, from 1 on")
    return offset, trials


def _some_columns(places, X):
    some = X[:, places]
    return some if issparse(some) else np.ascontiguousarray(some)


def _column(X, place):
    """One column in double precision, (n,)."""
    step = X.shape[0] if is_in_memory(X) else group_size(X)
    parts = [X[start : start + step][:, [place]] for start in range(0, X.shape[0], max(1, step))]
    parts = [part.toarray() if issparse(part) else part for part in parts]
    return np.concatenate(parts)[:, 0].astype(np.float64)


def _check(role, values, is_right, what):
    if not is_right.all():
        i = int(np.flatnonzero(~is_right)[0])
        raise ValueError(
            f"The column of {role} must hold numbers {what}, and has {values[i]:g} in row {i}: "
            "leave such rows out."
        )
