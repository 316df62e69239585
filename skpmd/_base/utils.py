"""Random generators, weighted quantiles, checks and warnings that estimators share."""

import os
import sys
import warnings
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from inspect import cleandoc
from numbers import Integral, Real
from pickle import UnpicklingError

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skpmd._rows.table import is_in_memory

_begun = ContextVar("random state that a fit by skpmd began with", default=None)
_INSIDE = ("skpmd", "sklearn.base", "contextlib")
# Rows far from all others are looked for in so many rows. They are of few values, or few of the
# rows, with gaps of so many deviations of the rest, which has so many rows at least.
_LOOKED_AT, _FEW_VALUES, _FEW_ROWS, _GAP, _FEWEST_ROWS = 2000, 3, 0.05, 5.0, 10
_GAP_OF_FEW = 20.0  # And of few that share no number, as the largest amounts do not.
# So many gaps are looked at. The spread of so few levels is their range, so many times; a gap to
# zero counts for less so many times, for often nothing is what zero stands for.
_MAX_CUTS, _FEW_LEVELS, _OF_LEVELS, _OF_ZERO = 4, 5, 4.0, 6.0
# What is warned of leaves so much of the variance, where rows share a number and where they do not,
# as of amounts; deviations below the third are of rounding.
_KEPT, _KEPT_OF_FEW, _ROUNDING = 0.1, 0.01, 1e-13


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


# ------------------------------------------------------------------ rows far from all others
def sentinels(X):
    """Values far from all others that rows of a column share, {column: (k,)}, of rows (n, p).

    They often stand for what is missing, as -999 does.
    """
    found = {}
    for j, values, counts, (middle, _) in _parted(X):
        shared = np.delete(values, middle)[np.delete(counts, middle) > 1]
        if len(shared):
            found[j] = shared
    return found


def warn_of_far_columns(rows, scale, names):
    """Warn of columns in which some rows are far from all others, whose effect these take.

    Deviations of columns are ``scale``, None for those of the rows that are looked at. `Rows` that
    are not in memory are few of the first ones, for others would have to be read for it. Of sparse
    rows columns are looked at that are not zero in most.
    """
    X = rows.data.X
    some, places = rows.take(_looked_at(len(rows), is_in_memory(X))).X, np.arange(len(names))
    if issparse(some):
        some = some.tocsc()
        places = np.flatnonzero(2 * np.diff(some.indptr) > some.shape[0])
        some = some[:, places].toarray()
    found = _far(some, None if scale is None else scale[places], names[places])
    if found:
        listed = ", ".join(list(found)[:3]) + ", ..." * (len(found) > 3)
        what, value = next(iter(found.values()))
        remedy = "Correct these rows, clip them, or take logarithms"
        if value is not None:
            given, where = _exactly(value), ""
            if value != np.round(value):
                given, where = "...", " what has scaled it"
            remedy = (
                "If that stands for what is missing, set a SimpleImputer(missing_values="
                f"{given}, add_indicator=True) before{where}"
            )
        warn(
            f"rows far from all others take the slopes of {len(found)} of {len(names)} columns "
            f"({listed}), and next to nothing is left for the effect among other rows: {what}. "
            f"{remedy}.",
            UserWarning,
        )


def warn_of_far_values(name, values, remedy=None, shown=None):
    """Warn of values (n,) or (n, t) of rows far from all others, on which a fit then turns.

    What takes outliers is the ``remedy``: None where nothing does, "" where this is it. Where
    values are transformed, so that they vary as much wherever they are, ``shown`` takes that back;
    else outliers are those that most of the variance is of.
    """
    values = values[:, None] if values.ndim == 1 else values
    size = np.maximum(np.abs(values).max(axis=0), np.finfo(np.float64).tiny)
    scale = size * (values / size).std(axis=0)
    t = values.shape[1]
    names = [name] if t == 1 else [f"{name}[:, {j}]" for j in range(t)]
    for what, value in _far(values[_looked_at(len(values))], scale, names, shown).values():
        if value is None and remedy == "":
            continue
        do = "Correct these rows or leave them out" + (f", or set {remedy}" if remedy else "")
        if value is not None:
            do = "If that stands for what is missing, leave these rows out"
            do += f"; otherwise set {remedy}" if remedy else ""
        warn(f"rows far from all others turn the fit: {what}. {do}.", UserWarning)
        return


def _looked_at(n, are_all_near=True):
    """Places of some of n rows, from the first ones only where others would have to be read."""
    some = min(n, _LOOKED_AT)
    return np.arange(some) * (n // some if are_all_near else 1)


def _far(some, scale, names, shown=None):
    """{name: (what rows far from others are, the number that some of them share, or None)}."""
    found = {}
    is_stable, shown = shown is not None, shown or np.asarray
    for j, values, counts, (middle, gap) in _parted(some, scale):
        far, n_far = np.delete(values, middle), np.delete(counts, middle)
        n, most = counts[middle].sum(), np.argmax(n_far) if len(far) else None
        is_shared = most is not None and 1 < n_far[most] >= n_far.sum() / 2
        if is_shared:
            # Of counts after a transformation most may be one number.
            is_usual = 2 * n_far[most] > len(some) and far[most] != np.round(far[most])
        else:
            is_usual = values[0] >= 0.0 and values[-1] <= 1.0  # Few rows reach parts of splines.
        whole = _sd(values, counts) if scale is None else scale[j]
        kept = (_sd(values[middle], counts[middle]) / whole) ** 2
        is_alone = is_shared or gap > _GAP_OF_FEW
        if is_stable:
            is_usual, kept = most is None, 0.0
        if is_usual or kept > (_KEPT if is_alone else _KEPT_OF_FEW):
            continue
        low, *_, high = shown(values[middle])
        what = f"{names[j]} is {low:g} to {high:g} in {n} of {len(some)} rows"
        if most is None:
            what += f", and the deviation of all is {shown(whole):.3g}"
        else:
            value = shown(far[most])
            what += f", and {_exactly(value) if is_shared else format(value, 'g')} in {n_far[most]}"
            what += f" of the {n_far.sum()} others" if len(far) > 1 else ""
        found[str(names[j])] = what, value if is_shared else None
    return found


def _parted(X, scale=None):
    """Columns of which a part may be far: (place, sorted values (k,), how often, `_middle`)."""
    if len(X) < _FEWEST_ROWS:
        return
    size = np.abs(X).max(axis=0, initial=0.0)
    size = np.where(size > 0.0, size, 1.0)
    ordered = np.sort(X / size, axis=0)  # Squares of these do not overflow.
    sd = ordered.std(axis=0)
    may = np.diff(ordered, axis=0).max(axis=0) > 0.5 * sd
    if scale is not None:
        may |= sd < np.sqrt(_KEPT) * np.minimum(scale / size, 1e100)
    for j in np.flatnonzero(may & (sd > _ROUNDING)):
        values, counts = np.unique(X[:, j], return_counts=True)
        yield int(j), values, counts, _middle(values / size[j], counts)


def _middle(values, counts):
    """Which of sorted values (k,), that are there so often, are not far from others: a slice.

    With it comes the gap to the others, in spreads of the middle. The largest gap, and the largest
    that then remains, cut off what is few.
    """
    cuts = [(np.inf, slice(0, len(values)))]
    while len(cuts) <= _MAX_CUTS:
        start, stop = cuts[-1][1].start, cuts[-1][1].stop
        gaps = np.diff(values[start:stop])
        if len(gaps) < 2:
            break
        cut = start + 1 + int(np.argmax(gaps))
        ends = [one for one in (slice(start, cut), slice(cut, stop)) if _is_end(counts, one)]
        if not ends:
            break
        end = min(ends, key=lambda one: one.stop - one.start)
        rest = slice(cut, stop) if end.start == start else slice(start, cut)
        if len(counts[rest]) < 2 or counts[rest].sum() < _FEWEST_ROWS:
            break
        cuts.append((gaps.max() / (_OF_ZERO if 0.0 in values[end] else 1.0), rest))
    while True:
        gap, middle = cuts.pop()
        gap = gap / max(_spread(values[middle], counts[middle]), _ROUNDING)
        if gap > _GAP:
            return middle, gap


def _is_end(counts, some):
    """Whether these values are few, or of few rows."""
    return some.stop - some.start <= _FEW_VALUES or counts[some].sum() <= _FEW_ROWS * counts.sum()


def _spread(values, counts):
    """The deviation of values; that of levels, and where one has most of the rows, says less."""
    if len(values) > _FEW_LEVELS and 2 * counts.max() < counts.sum():
        return _sd(values, counts)
    return _OF_LEVELS * (values[-1] - values[0])


def _sd(values, counts):
    size = np.abs(values).max()
    values = values / size if size > 0.0 else values  # Squares of these do not overflow.
    centre = np.average(values, weights=counts)
    return size * np.sqrt(np.average((values - centre) ** 2, weights=counts))


def _exactly(value):
    """A number with all of its digits, for something else to look for it."""
    is_short = np.abs(value) < 1e16
    return np.format_float_positional(value, trim="-") if is_short else str(value)
