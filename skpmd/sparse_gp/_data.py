"""Rows of data in the forms in which the fit needs them, and the scale of the targets."""

from typing import NamedTuple

import numpy as np

from skpmd._base.rows import Rows, merged, stratified_sample

_ROUNDING = 1e-13
_MIDDLE_RANGE = 2.5631  # The middle 80 % of a normal distribution, in standard deviations.
_AUTO_BATCH = 2048  # Rows in a batch where the user does not say how many.
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
    values, which = np.unique(values, return_inverse=True)
    weight = np.bincount(which, weight)
    unit = np.abs(values).max() or 1.0  # The squares of large numbers would overflow.
    mean = np.average(values / unit, weights=weight)
    return unit * mean, unit * np.sqrt(np.average((values / unit - mean) ** 2, weights=weight))


def _robust(values, weight):
    """Weighted median, and standard deviation by the range of most values; None if that is zero.

    Outliers are few. The median absolute deviation would say nothing of a signal that is constant
    for most of the time.
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weight[order])
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

    def joined(self, other):
        """These rows and those of another call."""
        return Data._make(np.concatenate(pair) for pair in zip(self, other, strict=True))

    def merged(self):
        """The distinct rows, sorted."""
        *columns, weight = self
        places, weight = merged(weight, *columns)
        return self.select(places)._replace(weight=weight)

    def select(self, places):
        """Some of the rows."""
        return Data._make(column[places] for column in self)


def rows_of(data, scaler, batch_size):
    """Batches of rows, with scaled targets and the variance of each row's own noise as ``y``."""
    with np.errstate(over="ignore"):
        noise = data.noise_variance / scaler.scale[0] ** 2 + data.alpha
    if not noise.max() <= _MAX_NOISE:
        raise ValueError(
            f"noise_variance or alpha is {noise.max():.3g} times the variance of y: such rows say "
            "nothing, leave them out."
        )
    size = _AUTO_BATCH if batch_size == "auto" else batch_size
    return Rows(data.X, np.column_stack([scaler.transform(data.y), noise]), data.weight, size)


class Sample(NamedTuple):
    """Distinct rows, sorted: neither copies of rows nor their order change a fit."""

    # As of `Data`, with y scaled.
    X: np.ndarray
    y: np.ndarray
    noise_variance: np.ndarray
    weight: np.ndarray
    noise_factor: np.ndarray | float = 1.0  # (n,): Factor of the kernel's noise.


def sample_of(rows, df=None):
    """The distinct rows as a `Sample`.

    With ``df``, that of Student noise, rows far from the median have wide noise from the start.
    """
    X, y, weight = rows.data
    places, weight = merged(weight, X, y)
    X, y, noise_variance = X[places], y[places, :-1], y[places, -1]
    if df is None:
        return Sample(X, y, noise_variance, weight)
    median, sd = _robust(y[:, 0], weight) or (0.0, np.inf)
    factor = (df + ((y[:, 0] - median) / sd) ** 2) / (df + 1.0)
    return Sample(X, y, noise_variance, weight, factor)


def take(sample, n, rng):
    """At most n rows of a sample, drawn as if each were there as often as it counts."""
    weight = sample.weight
    if max(weight.sum(), len(weight)) <= n:
        return sample
    places, counts = stratified_sample(weight, n, rng)
    # Where the total weight is small the rows drawn must not count for more than that.
    counts = counts * min(1.0, weight.sum() / n)
    factor = np.broadcast_to(sample.noise_factor, weight.shape)[places]
    X, y, noise_variance = sample.X[places], sample.y[places], sample.noise_variance[places]
    return Sample(X, y, noise_variance, counts, factor)
