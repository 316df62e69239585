"""Random generators, weighted quantiles, checks and warnings that estimators share."""

import os
import sys
import warnings
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from inspect import cleandoc
from itertools import product
from numbers import Integral, Real
from pickle import UnpicklingError

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

_begun = ContextVar("random state that a fit by skpmd began with", default=None)
_INSIDE = ("skpmd", "sklearn.base", "contextlib")
# Sentinels are so many standard deviations from others, of which there are so many rows. Below so
# many times the mean no deviation is any; a gap is more than the range over so many.
_FAR_ENDS, _FEWEST_ROWS, _ROUNDING, _N_GAPS = 30.0, 10, 1e-13, 4.0


@contextmanager
def begun_with(random_state):
    """Context of a fit whose seeds come from a ``RandomState``, unless that is None.

    It stands for the one that an estimator has, or for none, which an earlier run has moved on.
    """
    token = _begun.set(random_state)
    try:
        yield
    finally:
        _begun.reset(token)


def as_generator(random_state):
    """A `numpy.random.Generator` from any random state that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        state = check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1, a RandomState or a "
            f"Generator, got {random_state!r}."
        ) from error
    seeds = state.randint(np.iinfo(np.int32).max, size=4)
    if _begun.get() is not None and not isinstance(random_state, Integral):
        seeds = _begun.get().randint(np.iinfo(np.int32).max, size=4)
    return np.random.default_rng(seeds)


def as_floats(name, values):
    """An argument of that name as an array of float64; ValueError where it holds no numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}.")


def check_probabilities(name, values):
    """An argument of that name as an array of numbers in [0, 1]; ValueError where they are not."""
    values = as_floats(name, values)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(f"{name} must lie in [0, 1], got {values}.")
    return values


def check_points(theta, d):
    """Points of d coordinates, shape (k, d), from such an array, one point, or numbers if d = 1."""
    theta = as_floats("theta", theta)
    if theta.ndim < 2:
        theta = theta.reshape(-1, 1) if d == 1 else theta[None, ...]
    if theta.ndim != 2 or theta.shape[1] != d:
        raise ValueError(
            f"theta has {theta.shape[-1]} coordinates, the posterior {d}: give an array of shape "
            f"(k, {d}), got {theta.shape}."
        )
    if not np.isfinite(theta).all():
        raise ValueError("theta must be finite, and holds nan or infinite numbers.")
    return theta


def weighted_quantile(values, weights, q):
    """Weighted quantiles along the first axis; shape of q followed by the other axes of values."""
    q = check_probabilities("q", q)
    alive = weights > 0
    values, weights = values[alive], weights[alive]
    flat = np.ascontiguousarray(values.reshape(len(values), -1).T)
    out = np.empty((q.size, len(flat)))
    for j, row in enumerate(flat):
        order = np.argsort(row)
        w = weights[order]
        out[:, j] = np.interp(q.ravel(), np.cumsum(w) - 0.5 * w, row[order])
    return out.reshape(q.shape + values.shape[1:])


def sentinels(X):
    """Values far from all others that rows of a column share, {column: (k,)}, of rows (n, p).

    They often stand for what is missing, as -999 does. One or two of them are at an end of the
    column, as far from the rest as thirty times its standard deviation.
    """
    if len(X) < _FEWEST_ROWS:
        return {}
    ordered = np.sort(X, axis=0)
    with np.errstate(over="ignore"):  # What overflows is not taken for one.
        gaps, length = np.diff(ordered, axis=0), ordered[-1] - ordered[0]
        may = ((gaps[0] == 0.0) | (gaps[-1] == 0.0)) & (gaps.max(axis=0) > length / _N_GAPS)
        found = {int(j): _far_ends(ordered[:, j]) for j in np.flatnonzero(may)}
    return {j: values for j, values in found.items() if len(values)}


def _far_ends(column):
    """Those values of a column that are sentinels, the fewest that may be."""
    values, counts = np.unique(column, return_counts=True)
    for low, high in sorted(product(range(3), repeat=2), key=sum)[1:]:
        some = slice(low, len(values) - high)
        rest, ends, n = values[some], np.delete(values, some), counts[some]
        if len(rest) < 2 or n.sum() < _FEWEST_ROWS or np.delete(counts, some).min() < 2:
            continue
        mean = np.average(rest, weights=n)
        sd = np.sqrt(np.average((rest - mean) ** 2, weights=n))
        gap = np.abs(ends[:, None] - rest[[0, -1]]).min()
        if gap > _FAR_ENDS * sd > _ROUNDING * np.abs(mean):
            return ends
    return values[:0]


def check_n_draws(name, n, least=1):
    """How many draws a user asks for by the parameter of that name; ValueError on a bad number."""
    if isinstance(n, (bool, np.bool_)) or not (isinstance(n, Integral) and n >= least):
        many = "one sample" if least == 1 else f"{least} samples"
        raise ValueError(
            f"Invalid value for {name!r}: {n!r} . The sampling requires at least {many}, and the "
            "number must be an integer."
        )
    return int(n)


def check_count(name, value, least=1):
    """An integer of at least ``least``; ValueError otherwise."""
    is_whole = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not (is_whole and value >= least):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)


def check_level(level, name="level"):
    """Lower and upper tail probability of a central interval; raises on a bad level."""
    if not (isinstance(level, Real) and 0 < level < 1):
        percent = isinstance(level, Real) and 1 < level < 100
        remedy = f" For {level:g} % give {level / 100:g}." if percent else ""
        remedy = " For 90 % give 0.9." if level is True else remedy
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {level!r}.{remedy}")
    return [0.5 - 0.5 * level, 0.5 + 0.5 * level]


def place_of_column(column, names, n, parameter):
    """The place of a column that is named, or given by its place."""
    known = [] if names is None else list(names)
    if isinstance(column, str) and column in known:
        return known.index(column)
    if isinstance(column, Integral) and not isinstance(column, bool) and -n <= column < n:
        return int(column) % n
    what = f"its columns are {', '.join(known[:5])}" if known else f"it has {n} without names"
    raise ValueError(f"{parameter}={column!r} is no column of X: {what}.")


def warn(message, category=ConvergenceWarning):
    """Warn from the first frame that is neither ours nor scikit-learn's wrapper of ``fit``."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module):
    return any(module == one or module.startswith(f"{one}.") for one in _INSIDE)


@contextmanager
def replacing(path):
    """Context with a new file of bytes, which takes its place at the path once it is whole."""
    beside = f"{path}.{os.urandom(4).hex()}.tmp"  # No file of the user.
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)


def damaged_folder(error):
    """Folder of Numba's cache if an error comes from a damaged file in it, else None."""
    if not isinstance(error, (UnpicklingError, EOFError)):
        return None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "numba.core.caching":
            path = getattr(frame.f_locals.get("self"), "_index_path", None)
            if path is not None:
                return os.path.dirname(path)
        trace = trace.tb_next
    return None


def filled(text, texts):
    """A docstring with common texts in the place of their names in angle brackets."""
    text = cleandoc(text or "")
    for name, common in texts.items():
        text = text.replace(name, cleandoc(common))
    return text


def fill_docstrings(texts, *functions):
    """Put such texts into the docstrings of functions, or of what a class has of them."""
    for function in functions:
        if callable(function) and function.__doc__:  # Python may run without docstrings.
            function.__doc__ = filled(function.__doc__, texts)
