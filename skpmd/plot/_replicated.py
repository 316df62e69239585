"""Densities, frequencies and statistics of observed and of replicated targets."""

import numpy as np

_PLACES, _MESH = 300, 2048  # Places of a density, and of the fine mesh that rows are counted on.
_MAX_VALUES = 20  # So many whole numbers at most have frequencies.
_TAIL = 0.005  # So much of the replicated targets may be left out on either side.
_NAMED = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max, "median": np.median}


def is_discrete(y):
    """Whether frequencies of values are more informative than a density."""
    if y.dtype.kind != "f":
        return True
    values = np.unique(y)
    return len(values) <= _MAX_VALUES and bool((values == np.round(values)).all())


def density_curves(y, y_rep):
    """Points, density of y and densities of the replicated targets: (g,), (g,), (n_draws, g).

    All are smoothed by a normal kernel with the width from Silverman's rule for y, so that they
    differ only by the targets and not by the width.
    """
    if y.dtype.kind != "f":
        raise ValueError("kind='density' needs numbers: classes have frequencies.")
    width = _width(y) or _width(y_rep.ravel()) or max(abs(y[0]), 1.0) * 1e-3
    x = np.linspace(*_ends(y, y_rep, width), _PLACES)
    edges = np.linspace(x[0] - 4.0 * width, x[-1] + 4.0 * width, _MESH + 1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    z = (x - centres[:, None]) / width
    kernel = np.exp(-0.5 * z**2) / (width * np.sqrt(2.0 * np.pi))
    counts = np.array([np.histogram(one, edges)[0] for one in (y, *y_rep)])
    curves = counts @ kernel / len(y)
    return x, curves[0], curves[1:]


def frequencies(y, y_rep):
    """Values, and their frequencies in y and the replicated targets: (g,), (g,), (n_draws, g)."""
    try:
        values = np.unique(np.concatenate([np.unique(y), np.unique(y_rep)]))
    except TypeError as error:
        raise ValueError(f"y and y_rep must hold values of one kind: {error}.") from error
    if y.dtype.kind == "f" and (values == np.round(values)).all():
        values = values.astype(int)
    observed = np.array([np.mean(y == value) for value in values])
    replicated = np.array([np.mean(y_rep == value, axis=1) for value in values]).T
    return values, observed, replicated


def values_of_statistic(statistic, y, y_rep):
    """A statistic of y and of each replicated data set, and its name."""
    function = _NAMED.get(statistic, statistic) if isinstance(statistic, str) else statistic
    if isinstance(statistic, str) and y.dtype.kind not in "bfiu":
        raise ValueError(f"statistic={statistic!r} needs numbers: y has the dtype {y.dtype}.")
    if not callable(function):
        raise ValueError(
            f"statistic must be a function of targets of shape (n,), or one of "
            f"{', '.join(_NAMED)}, got {statistic!r}."
        )
    found = [np.asarray(function(one)) for one in (y, *y_rep)]
    if any(one.ndim or one.dtype.kind not in "bfiu" or not np.isfinite(one) for one in found):
        raise ValueError(f"statistic must return a finite number, got {found[0]!r} of y.")
    found = np.array(found, dtype=np.float64)
    name = statistic if isinstance(statistic, str) else getattr(statistic, "__name__", "statistic")
    name = "statistic" if name == "<lambda>" else name
    return (float(found[0]), found[1:]), name


def _width(y):
    """Silverman's rule of thumb."""
    quarters = np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.349
    spread = min(np.std(y), quarters) or np.std(y)
    return 0.9 * spread * len(y) ** -0.2


def _ends(y, y_rep, width):
    """Where places begin and end: over y, and most of what was drawn, though not too far."""
    low, high = y.min(), y.max()
    room = max(high - low, 8.0 * width)
    tails = np.quantile(y_rep, [_TAIL, 1.0 - _TAIL])
    first = np.clip(tails[0], low - room, low)
    last = np.clip(tails[1], high, high + room)
    return first - 3.0 * width, last + 3.0 * width
