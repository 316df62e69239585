"""Parameters of the prior that may differ between columns, or groups of them."""

import numpy as np

from skpmd._base.utils import as_floats


def per_column(name, value, features, n_rows, default, low=-1e30):
    """A number for each coefficient, (n_rows, p); a single number or a str is returned as it is.

    Parameters
    ----------
    name : str
        Of the parameter, for errors.
    value : float, str, array-like or dict
        As the user gave it. The keys of a dict are names of columns, or tuples of names.
    features : sequence of str
        Names of the columns, (p,).
    n_rows : int
        Rows of coefficients: 1, or the number of classes.
    default : float
        For columns that a dict does not name.
    low : float
        The smallest number allowed; the largest is 1e30.
    """
    if isinstance(value, str):
        return value
    p = len(features)
    given = _of_dict(name, value, features, default) if isinstance(value, dict) else value
    given = as_floats(name, given)
    if given.ndim and given.shape not in ((p,), (n_rows, p)):
        raise ValueError(
            f"{name} must be a number, have one for each of {p} columns, shape ({p},), or for each "
            f"coefficient, shape ({n_rows}, {p}); got shape {given.shape}."
        )
    if not ((given >= low) & (given <= 1e30)).all():
        raise ValueError(f"{name} must hold numbers from {low:g} to 1e30, got {given}.")
    return np.broadcast_to(given, (n_rows, p)) if given.ndim else float(given)


def _of_dict(name, value, features, default):
    """The numbers of a dict by the places of its keys, (p,)."""
    place = {str(feature): j for j, feature in enumerate(features)}
    out, named = np.full(len(place), default, dtype=np.float64), set()
    for key, number in value.items():
        for column in key if isinstance(key, tuple) else (key,):
            if column not in place:
                raise ValueError(
                    f"{name} names the column {column!r}, which X does not have: its columns are "
                    f"{', '.join(list(place)[:5])}{', ...' * (len(place) > 5)}."
                )
            if column in named:
                raise ValueError(f"{name} names the column {column!r} twice.")
            named.add(column)
            if np.ndim(number):
                raise ValueError(f"{name}[{key!r}] must be a number, got {number!r}.")
            out[place[column]] = as_floats(f"{name}[{key!r}]", number)
    return out
