"""Rows of data in the forms in which the fit needs them, and the scale of the targets."""

from typing import NamedTuple

import numpy as np

from skpmd._rows.rows import Rows, distinct, merge_copies, stratified_sample, taken
from skpmd._rows.table import group_size
from skpmd.engine.model import Batch

_ROUNDING = 1e-13
_MIDDLE_RANGE = 2.5631  # The middle 80 % of a normal distribution, in standard deviations.
_AUTO_BATCH = 2048  # Rows in a batch where the user does not say how many.
_PIECE = 1 << 15  # Distinct targets that are summed at a time.
# Noise of a row is at most so many variances of y: sums with more of it overflow.
_MAX_NOISE = 1e100


class Scaler(NamedTuple):
    """Offsets and scales of the targets, each of shape (t,)."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, y, weight, normalize, robust):
        """Weighted means and standard deviations of y (n, t), or zeros and ones.

        With ``robust`` they are medians and scaled ranges of quantiles, unless such a range is
        zero.
        """
        if not normalize:
            return cls(np.zeros(y.shape[1]), np.ones(y.shape[1]))
        both = [_moments(column, weight) for column in y.T]
        if robust:
            both = [_robust(column, weight) or one for column, one in zip(y.T, both, strict=True)]
        mean, scale = np.transpose(both)
        # A constant y differs from its mean by rounding.
        constant = scale <= _ROUNDING * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, scale))

    def transform(self, y):
        """Targets as they are fitted."""
        return (y - self.mean) / self.scale

    def inverse_transform(self, y):
        """Fitted targets in the user's units."""
        return y * self.scale + self.mean


def _moments(values, weight):
    """Weighted mean and standard deviation, the same to the last digit if copies are weights."""
    order = np.argsort(values, kind="stable")
    # The squares of large numbers would overflow.
    unit = max(abs(values[order[0]]), abs(values[order[-1]])) or 1.0
    total = mean = square = 0.0
    for some, w in _distinct_values(values, weight, order):
        total, mean = total + w.sum(), mean + (some / unit * w).sum()
    mean /= total
    for some, w in _distinct_values(values, weight, order):
        square += ((some / unit - mean) ** 2 * w).sum()
    return unit * mean, unit * np.sqrt(square / total)


def _distinct_values(values, weight, order):
    """Distinct values and their weights in pieces of a size that copies do not change."""
    pending = np.empty((2, 0))
    for start in range(0, len(order), _PIECE):
        some = order[start : start + _PIECE]
        v = values[some]
        starts = np.flatnonzero(np.append(True, v[1:] != v[:-1]))
        more = np.array([v[starts], np.add.reduceat(weight[some], starts)])
        if pending.size and pending[0, -1] == more[0, 0]:  # The block has cut through copies.
            pending[1, -1] += more[1, 0]
            more = more[:, 1:]
        pending = np.concatenate([pending, more], axis=1)
        if pending.shape[1] > _PIECE:
            yield pending[:, :_PIECE]
            pending = pending[:, _PIECE:]
    yield pending


def _robust(values, weight):
    """Weighted median, and standard deviation by the range of most values; None if that is zero.

    Outliers are few. The median absolute deviation would say nothing of a signal that is constant
    for most of the time.
    """
    order = np.argsort(values, kind="stable")
    ends = weight[order]
    np.cumsum(ends, out=ends)
    low, median, high = values[order[np.searchsorted(ends, np.array([0.1, 0.5, 0.9]) * ends[-1])]]
    sd = (high - low) / _MIDDLE_RANGE
    return (median, sd) if sd > _ROUNDING * abs(median) else None


class Data(NamedTuple):
    """Checked input of one call."""

    X: np.ndarray  # (n, p): Features.
    y: np.ndarray  # (n, t): Targets, in the user's units.
    noise_variance: np.ndarray  # (n,): Variance of each row's own noise, in squared units of y.
    alpha: np.ndarray  # (n,): More of it, in squared units of the scaled y.
    weight: np.ndarray  # (n,): How often each row counts.

    def own_noise(self, scaler):
        """Variance of each row's own noise, of the scaled y; one number broadcast where it is."""
        parts = self.noise_variance, self.alpha
        if all(one.strides == (0,) for one in parts):
            parts = self.noise_variance[:1], self.alpha[:1]
        with np.errstate(over="ignore"):
            noise = parts[0] / scaler.scale[0] ** 2 + parts[1]
        if not noise.max() <= _MAX_NOISE:
            raise ValueError(
                f"noise_variance or alpha is {noise.max():.3g} times the variance of y: such rows "
                "say nothing, leave them out."
            )
        return np.broadcast_to(noise, len(self.y))

    @property
    def is_large(self):
        """Whether copies of rows are left as they are: there are too many to be sorted."""
        return len(self.y) > group_size(self.X)


class ScaledRows(Rows):
    """Batches of rows, with scaled targets and the variance of each row's own noise.

    These are made for each batch: for all rows at once they would be a second y. ``data`` has the
    targets in the user's units.
    """

    def __init__(self, data, scaler, batch_size):
        size = _AUTO_BATCH if batch_size == "auto" else batch_size
        super().__init__(data.X, data.y, data.weight, size)
        self._given, self._scaler = data, scaler
        self.noise = data.own_noise(scaler)  # (n,): Of the scaled y.

    def whole(self):
        """All rows once, in order, as batches that are made whenever they are gone through."""
        return self._consecutive(self._edges())

    def scaled(self):
        """The same rows, with all that is made."""
        return self._with_all_made(slice(None))

    def split(self, n, rng):
        """All rows but n, which are drawn, as `ScaledRows`, and those n with all that is made."""
        n_rows = len(self.data.weight)
        places, left = np.sort(rng.choice(n_rows, n, replace=False)), np.ones(n_rows, dtype=bool)
        left[places] = False  # By a mask no row is read that is not in memory.
        others = ScaledRows(taken(self._given, left), self._scaler, self._size())
        return others, self._with_all_made(places)

    def _with_all_made(self, places):
        X, y, weight, noise, *_ = self.take(places)
        return Rows(X, y, weight, self._size(), noise=noise)

    @property
    def is_large(self):
        """See `Data`."""
        return self._given.is_large

    def _size(self):
        return -(-len(self.data.weight) // self.n_batches)

    def _all(self):
        return self.take(slice(None))

    def _batch(self, X, rows):
        y = self._scaler.transform(self.data.y[rows])
        weight, noise = (np.ascontiguousarray(one[rows]) for one in (self.data.weight, self.noise))
        return Batch(X, y, weight, noise)


class Sample(NamedTuple):
    """Distinct rows, sorted: neither copies of rows nor their order change a fit."""

    # As of `Data`, with y scaled.
    X: np.ndarray
    y: np.ndarray
    noise_variance: np.ndarray
    weight: np.ndarray
    noise_factor: np.ndarray | float = 1.0  # (n,): Factor of the kernel's noise.

    def select(self, places, weight):
        """Some of the rows, with other weights."""
        factor = self.noise_factor
        factor = factor[places] if np.ndim(factor) else factor
        return Sample(self.X[places], self.y[places], self.noise_variance[places], weight, factor)


class Sites(NamedTuple):
    """Rows of distinct inputs, or of different noise at one, in the order of the likelihood."""

    X: np.ndarray  # (n, p): Inputs.
    y: np.ndarray  # (n, t): Weighted means of the targets.
    noise_variance: np.ndarray  # (n,): Of each copy, beside the kernel's.
    weight: np.ndarray  # (n,): How many copies there are.
    squares: np.ndarray  # (n,): Weighted sums of squares about the means, of all targets.

    def select(self, places):
        """Some of the rows."""
        return Sites(*(column[places] for column in self))

    def merged(self):
        """The distinct rows, sorted, and the place of the first of each.

        The squares of rows that become one are joined by those of their means about the new one.
        """
        first, which = distinct(np.column_stack([self.noise_variance, self.X]))
        n, w = len(first), self.weight
        total = np.bincount(which, w, n)
        mean = np.stack([np.bincount(which, w * column, n) / total for column in self.y.T], axis=1)
        within = self.squares + w * ((self.y - mean[which]) ** 2).sum(axis=1)
        squares = np.bincount(which, within, n)
        return Sites(self.X[first], mean, self.noise_variance[first], total, squares), first


class Population:
    """The distinct rows of a fit, sorted, of which samples are drawn: places of rows, no copies.

    Of a large fit they are all rows, as they come.

    With ``df``, that of Student noise, rows far from the median have wide noise from the start.
    ``weight`` is that of each distinct row.
    """

    def __init__(self, rows, df=None):
        X, y, weight, *_ = rows.data
        self.X, self.n_targets = X, y.shape[1]  # X with copies, as it was given.
        self._rows, self._df = rows, df
        if rows.is_large:
            self._places, self.weight = np.arange(len(weight)), weight
        else:
            self._places, self.weight = merge_copies(weight, X, y, rows.noise)
        if df is not None:
            self._middle = _robust(y[:, 0], weight) or (0.0, np.inf)

    def select(self, places, weight):
        """Some of the distinct rows as a `Sample`, with other weights."""
        places = self._places[places]
        X, y, _, noise, *_ = self._rows.take(places)
        weight = np.ascontiguousarray(weight)
        if self._df is None:
            return Sample(X, y, noise, weight)
        median, sd = self._middle
        error = (self._rows.data.y[places, 0] - median) / sd
        factor = (self._df + error**2) / (self._df + 1.0)
        return Sample(X, y, noise, weight, factor)


def take(rows, n, rng):
    """At most n rows of a sample or population, drawn as if each were there as often as it counts.

    Returns a `Sample`.
    """
    weight = rows.weight
    if max(weight.sum(), len(weight)) <= n:
        return rows.select(slice(None), weight)
    places, counts = stratified_sample(weight, n, rng)
    # Where the total weight is small the rows drawn must not count for more than that.
    return rows.select(places, counts * min(1.0, weight.sum() / n))


def kind_of_rows(kernel):
    """How input for a kernel is checked: some take other things than vectors."""
    if kernel is None or kernel.requires_vector_input:
        return {"dtype": np.float64, "order": "C"}
    return {"dtype": None, "ensure_2d": False}
