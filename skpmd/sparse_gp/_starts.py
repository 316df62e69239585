"""A kernel in the units of the data: where searches start, and how far default bounds reach.

A length scale of one, with scikit-learn's bounds, suits columns whose rows are about one apart. In
seconds or in years no row tells of another there, and no slope leads to where they do.
"""

import numpy as np
from scipy.signal import lombscargle
from scipy.spatial import cKDTree
from sklearn.gaussian_process import kernels as sk

from skpmd._base.utils import sentinels
from skpmd.sparse_gp._covariance import free_parts, kinds

_DEFAULT_BOUNDS = 1e-5, 1e5  # Those of scikit-learn.
# Where a typical value times or over the first number is beyond default bounds, these are taken in
# units of that value too.
_ROOM = 1e2
# Length scales of starts are these times the typical ones; of several parts each next one's are
# shorter by the second number. Starts nearer to the typical ones than the third are left alone.
_FACTORS, _APART, _NEAR = (1.0, 0.3, 0.1, 0.03), 0.25, 4.0
_NOISES = 0.01, 0.1, 0.5  # Fractions of the variance of y that are tried as noise.
_FAR = 30.0  # Standard deviations so many times those of the middle are those of rows far away.
_MIDDLE_RANGE = 2.5631  # The middle 80 % of a normal distribution, in standard deviations.
# A periodogram has so many frequencies for each that the range of rows can tell apart, so many
# frequencies at most, and takes so many rows; trends of these degrees are taken out first.
_OVERSAMPLED, _MAX_FREQUENCIES, _PERIODIC_ROWS, _DEGREES = 6, 6000, 1000, (1, 3)
_PEAKS, _MULTIPLES = 3, (1.0, 2.0, 3.0)  # Of each; a period may be a multiple of that of a peak.

_SHORT = 0.1  # Factor of the length scales of one more start.
_NOISE_FRACTIONS = 0.01, 0.03, 0.1, 0.3  # Fractions of the variance of y that are tried as noise.
_START_SD = 1.0  # Starts vary around the first by this standard deviation, in the logs.
# A kernel is flat where it is no more nats ahead of noise alone, and rows say otherwise where the
# targets of near ones, so many at least, agree by so many standard errors.
_FLAT, _AGREE, _FEWEST = 3.0, 4.0, 10


def is_in_units_of_X(part):
    """Whether a hyperparameter is a distance between rows."""
    if part.attribute == "length_scale":
        return not isinstance(part.leaf, sk.ExpSineSquared)
    return part.attribute in ("periodicity", "sigma_0")


def column_scales(X, categorical=()):
    """Standard deviations of columns, (p,); typical ones where rows are far away, 1 if constant.

    Those of ``categorical`` columns are those of numbers that are as far from each other, on
    average. Rows are far away where the standard deviation is thirty times that of the middle of
    the column. A column that is mostly constant has no middle. Rows of sentinels have no part.
    """
    found = sentinels(X)
    low, middle, high = np.quantile(X, [0.1, 0.5, 0.9], axis=0)
    scale = (high - low) / _MIDDLE_RANGE
    sd = np.max(np.abs(X - middle), axis=0)
    unit = np.where(sd > 0.0, sd, 1.0)
    sd = unit * np.sqrt(np.mean(((X - X.mean(axis=0)) / unit) ** 2, axis=0))
    rounding = 1e-13 * np.abs(middle)
    is_far = (scale > rounding) & (sd > _FAR * scale)
    out = np.where(is_far, scale, np.where(sd > rounding, sd, 1.0))
    for j in categorical:
        shares = np.unique(X[:, j], return_counts=True)[1] / len(X)
        out[j] = np.sqrt(0.5 * (1.0 - (shares**2).sum())) or 1.0
    for j in set(found) - set(categorical):
        out[j] = column_scales(X[~np.isin(X[:, j], found[j]), j : j + 1])[0]
    return out


def _typical(part, sample, variance):
    """A value of a hyperparameter that suits the data, of the shape of its place; None if any."""
    X, n = sample.X, part.place.stop - part.place.start
    if part.attribute == "noise_level":
        return np.full(n, variance)
    if X.dtype != np.float64 or not is_in_units_of_X(part):
        return None
    if part.attribute == "sigma_0":
        return np.full(n, _norm(X))
    scales = column_scales(X, getattr(part.leaf, "categorical", ()))
    if n > 1:
        return scales * np.sqrt(len(scales))
    return np.array([np.linalg.norm(scales) or np.hypot.reduce(scales)])  # Squares may be zero.


def _norm(X):
    """A typical length of rows, which may be far from zero."""
    unit = np.abs(X).max() or 1.0
    return float(unit * np.sqrt(np.median(((X / unit) ** 2).sum(axis=1)))) or 1.0


def widened(kernel, sample, variance=None):
    """The kernel, with default bounds that reach as far as the units of the data ask.

    ``variance`` is that of the values, by default of the targets. Bounds that differ from
    scikit-learn's are the user's, and stay.
    """
    variance = _variance(sample) if variance is None else variance
    values = {**_amplitudes(kernel, sample, variance)}
    for part in free_parts(kernel):
        typical = _typical(part, sample, variance)
        if typical is not None:
            values[part.name] = typical
    bounds = {}
    for part in free_parts(kernel):
        given = np.atleast_2d(getattr(part.leaf, f"{part.attribute}_bounds"))
        if part.name not in values or not (given == _DEFAULT_BOUNDS).all():
            continue
        typical = values[part.name]
        low, high = _DEFAULT_BOUNDS
        if (typical < _ROOM * low).any() or (typical > high / _ROOM).any():
            pair = np.minimum(low, low * typical), np.maximum(high, high * typical)
            pair = np.column_stack(pair)
            bounds[f"{part.name}_bounds"] = pair if len(pair) > 1 else tuple(pair[0])
    return kernel.clone_with_theta(kernel.theta).set_params(**bounds) if bounds else kernel


def _variance(sample):
    """Mean square of the targets, outliers of wide noise little; one where they are zero."""
    weight = sample.weight / sample.noise_factor
    found = float(np.average(sample.y**2, axis=0, weights=weight).mean())
    return found if found > 0.0 else 1.0


def scales_of(sample, categorical=()):
    """Where length scales of columns (p,) start, and the variance of y, of a `Sample`."""
    X = sample.X
    return column_scales(X, categorical) * np.sqrt(X.shape[1]), _variance(sample)


def _amplitudes(kernel, sample, variance):
    """Constants of the summands that give each its share of the variance, by their names."""
    terms = [(name, term) for name, term in _summands(kernel, "") if _has_signal(term)]
    found = {}
    for name, term in terms:
        place = _constant(term, name)
        if place is None:
            continue
        constant = place[1].constant_value
        with np.errstate(all="ignore"):
            mean = float(np.mean(term.diag(sample.X))) / constant
            value = variance / (len(terms) * mean)
        if np.isfinite(value) and value > 0.0:
            found[place[0]] = np.array([value])
    return found


def _summands(kernel, path):
    """(path, kernel) of each summand."""
    if isinstance(kernel, sk.Sum):
        return [*_summands(kernel.k1, f"{path}k1__"), *_summands(kernel.k2, f"{path}k2__")]
    return [(path, kernel)]


def _has_signal(kernel):
    return not isinstance(kernel, sk.WhiteKernel)


def _constant(kernel, path):
    """Name and kernel of the first constant that is free and a factor of a summand; or None."""
    if isinstance(kernel, sk.ConstantKernel):
        free = not kernel.hyperparameter_constant_value.fixed
        return (f"{path}constant_value", kernel) if free else None
    if isinstance(kernel, sk.Product):
        return _constant(kernel.k1, f"{path}k1__") or _constant(kernel.k2, f"{path}k2__")
    return None


def has_units(kernel, sample):
    """Whether searches need starts in the units of the data: periods, or far length scales."""
    away = [0.0]
    for part in free_parts(kernel):
        if sample.X.dtype == np.float64 and is_in_units_of_X(part):
            if part.attribute == "periodicity":
                return True
            typical = _typical(part, sample, 1.0)
            away.append(np.abs(kernel.theta[part.place] - np.log(typical)).max())
    return max(away) > np.log(_NEAR)


def placed_starts(covariance, sample, value):
    """Hyperparameters in the units of the data, at most three (d,) of the largest ``value(theta)``.

    Length scales are shares of typical distances between rows, and periods those of peaks of a
    periodogram of the targets. None where nothing of the kernel is in units of X.
    """
    kernel, variance, parts = covariance.kernel, _variance(sample), free_parts(covariance.kernel)
    in_units = [part for part in parts if is_in_units_of_X(part)]
    if not in_units or sample.X.dtype != np.float64:
        return []
    periodic = [part for part in in_units if part.attribute == "periodicity"]
    periods, candidates = _periods(sample, len(periodic)), []
    for factor in _FACTORS:
        theta, shorter = kernel.theta.copy(), factor
        for part in in_units:
            unit = _typical(part, sample, variance)
            if part.attribute == "length_scale":
                unit, shorter = unit * shorter, shorter * _APART
            theta[part.place] = np.log(unit)
        for some in periods:
            for part, period in zip(periodic, some, strict=True):
                theta[part.place] = np.log(period)
            candidates += _with_levels(kernel, parts, theta.copy(), sample, variance)
    candidates = [np.clip(theta, *kernel.bounds.T) for theta in candidates]
    values = np.array([value(theta) for theta in candidates])
    return _best_apart(candidates, values, in_units)


def _with_levels(kernel, parts, theta, sample, variance):
    """Theta with amplitudes that suit the data, and with several levels of noise."""
    noises = [part.place for part in parts if part.attribute == "noise_level"]
    amplitudes = _amplitudes(kernel.clone_with_theta(theta), sample, variance)
    for part in parts:
        if part.name in amplitudes:
            theta[part.place] = np.log(amplitudes[part.name])
    out = []
    for share in _NOISES if noises else _NOISES[:1]:
        other = theta.copy()
        for place in noises:
            other[place] = np.log(share * variance)
        out.append(other)
    return out


def _best_apart(candidates, values, in_units, n=3):
    """The best of the candidates that differ in what is in units of X."""
    chosen, keys = [], []
    for place in np.argsort(-values):
        theta = candidates[place]
        key = np.concatenate([theta[part.place] for part in in_units])
        if np.isfinite(values[place]) and not any(np.allclose(key, one) for one in keys):
            chosen.append(theta)
            keys.append(key)
        if len(chosen) == n:
            break
    return chosen


def _periods(sample, n):
    """Lists of n periods that searches may start at; one without any where n is 0."""
    if not n:
        return [()]
    X, y = sample.X, sample.y
    step = -(-len(X) // _PERIODIC_ROWS)
    found = []
    for column in X.T:
        order = np.argsort(column, kind="stable")
        if column[order[0]] < column[order[-1]]:  # Rows in succession: others alias.
            some = order[: len(order) // step]
            for degree in _DEGREES:
                found += _peaks(column[some], y[some], degree)
    if not found:
        return [tuple(column_scales(X).max() for _ in range(n))]
    if n == 1:
        return [(times * one,) for times in _MULTIPLES for one in found]
    return [tuple(np.roll(found, -k)[:n]) if len(found) >= n else (found[0],) * n
            for k in range(len(found))]  # fmt: skip


def _peaks(x, y, degree):
    """Periods of the highest peaks of the periodogram of targets (n, t) without a trend."""
    n, length = len(x), float(x[-1] - x[0])
    if n < 2 * degree + 4 or not length > 0.0:
        return []
    unit = (x - x[0]) / length
    trend = np.polynomial.legendre.legvander(2.0 * unit - 1.0, degree)
    left = y - trend @ np.linalg.lstsq(trend, y, rcond=None)[0]
    if not (np.abs(left) > 1e-12 * np.abs(y).max()).any():
        return []
    gaps = np.diff(unit)
    gap = float(np.median(gaps[gaps > 0.0]))
    highest = 0.5 / min(gap, 1.0 / n)
    m = int(min(_MAX_FREQUENCIES, max(8.0, _OVERSAMPLED * highest)))
    frequencies = np.linspace(0.5, max(highest, 2.0), m)
    power = sum(lombscargle(unit, one, 2.0 * np.pi * frequencies) for one in left.T)
    inner = power[1:-1]
    tops = 1 + np.flatnonzero((inner >= power[:-2]) & (inner >= power[2:]))
    tops = tops[np.argsort(-power[tops])][:_PEAKS] if len(tops) else [int(power.argmax())]
    return [length / frequencies[k] for k in tops]


def is_flat(value, sample):
    """Whether rows tell nothing of each other at a log evidence, although near ones agree."""
    return is_no_better_than_noise(value, sample) and _agreement(sample) > _AGREE


def is_no_better_than_noise(value, sample):
    """Whether a log evidence is not clearly above that of the targets as noise alone."""
    return value < _log_density_of_noise(sample) + _FLAT


def _log_density_of_noise(sample):
    """Log density of the targets as noise of their own variance."""
    w = sample.weight
    with np.errstate(divide="ignore"):
        logs = np.log(2.0 * np.pi * np.average(sample.y**2, axis=0, weights=w))
    return float(-0.5 * w.sum() * (logs + 1.0).sum())


def _agreement(sample):
    """By how many standard errors the targets of nearest rows agree; 0 where they have none."""
    X, y = sample.X, sample.y - sample.y.mean(axis=0)
    square = (y**2).mean()
    if len(y) < _FEWEST or X.dtype != np.float64 or not square > 0.0:
        return 0.0
    scaled = (X - np.median(X, axis=0)) / column_scales(X)
    nearest = cKDTree(scaled).query(scaled, 2)[1]
    other = np.where(nearest[:, 0] == np.arange(len(y)), nearest[:, 1], nearest[:, 0])
    # Of a pair of nearest rows each counts.
    return float((y * y[other]).mean() / square * np.sqrt(0.5 * y.size))


def starts_around(covariance, first, n_restarts, rng, placed=()):
    """Places where searches start, within the kernel's bounds.

    ``n_restarts`` of them are around the first; if there are any, one more, the last, has short
    length scales. Others are those ``placed`` by the data.
    """
    others = [first + _START_SD * rng.standard_normal(len(first)) for _ in range(n_restarts)]
    low, high = covariance.kernel.bounds.T
    starts = [np.clip(start, low, high) for start in (first, *others, *placed)]
    return [*starts, shortened(covariance, first)] if n_restarts else starts


def shortened(covariance, theta):
    """Theta with a tenth of its length scales: with long ones short waves look like noise.

    No step leads from there to another fit.
    """
    scales = are_length_scales(covariance.kernel)
    return np.clip(theta + np.log(_SHORT) * scales, *covariance.kernel.bounds.T)


def are_length_scales(kernel):
    """Which of a kernel's hyperparameters are length scales, (d,) of bool."""
    return kinds(kernel) == "length_scale"


def with_other_noise(covariance, theta, sample):
    """Theta with its own noise, and with fractions of the variance of y.

    A few rows that lie far apart may be fitted without any noise; no step leads from there to
    another fit.
    """
    if not covariance.is_fast:
        return [theta]
    y, w = sample.y, sample.weight / sample.noise_factor
    variance = float(np.average((y - np.average(y, axis=0, weights=w)) ** 2, 0, w).mean())
    fractions = _NOISE_FRACTIONS if variance > 0.0 else ()
    more = [covariance.with_noise(theta, one * variance) for one in fractions]
    return [theta, *more]
