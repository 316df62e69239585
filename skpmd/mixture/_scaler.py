"""Scaled columns of mixtures: shifts and scales that far groups and mistyped values leave alone."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skpmd.mixture._rows import over_rows, pieces

# A column's scale is that of gaps between values this share of a component's rows apart, by so many
# of its quantiles.
_GAP_SHARE, _N_QUANTILES = 0.25, 400
# Gaps so many times wider than the others end a group of values; as much narrower than those of
# this quantile they are of values that are nearly tied.
_APART, _MANY = 10.0, 0.7
# Rows beyond all but this share of them, and beyond so many rows, may be mistakes; the prior of the
# means need not reach them. It reaches all others where they are within so many scales.
_RARE, _FEW_MISTAKES, REACH = 0.01, 2.5, 5.0
_LARGEST = 1e60  # Of scaled values: sums of products of larger ones would overflow.
# Rounding may leave a cumulative share below its value by this much.
_ROUNDING = 1e-10


class Scaler(NamedTuple):
    """Shift and scale of the columns."""

    # (p,): Scaled x is (x - shift) / scale.
    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, sample, weight, n_components, covariance_type, rows=None):
        """Weighted medians, and scales of gaps between near values, as sds of a normal column.

        Far groups, sentinels and mistyped values leave them as they are. A column whose values are
        all alike but for rare ones, fewer than quantiles tell, has the sd of its values, and one
        without variation scale 1. Spherical components have one scale for all columns, of those
        that vary more often where there are any. The sample (n, p) counts ``weight`` (n,) times;
        sds are those of ``rows``, a `RowView` and its weights, where these are more.
        """
        shift, scale = _medians_and_scales(sample, weight, n_components)
        is_spherical, is_rare = covariance_type == "spherical", scale == 0.0
        if is_rare.all() or (is_rare.any() and not is_spherical):
            scale = np.where(is_rare, _sds(*(rows or (sample, weight)), shift), scale)
        if is_spherical:
            largest = scale.max() or 1.0  # Squares of tiny scales would underflow.
            scale = np.full_like(scale, largest * np.sqrt(np.mean((scale / largest) ** 2)))
        farthest = over_rows(partial(_farthest, shift), (rows or (sample,))[0], add=np.maximum)
        scale = np.maximum(scale, farthest / _LARGEST)
        return cls(shift, np.where(scale == 0.0, 1.0, scale))

    @property
    def log_jacobian(self):
        """What is added to the log density of a scaled row to give that of the row."""
        return -np.log(self.scale).sum()

    def transform(self, X, out=None):
        """Rows, or locations, in scaled columns; in the array ``out``, if there is one."""
        out = np.subtract(X, self.shift, out=out)
        out /= self.scale
        return out

    def inverse_transform(self, X):
        """Scaled rows, or locations, in the user's columns."""
        return X * self.scale + self.shift


def _medians_and_scales(X, weight, n_components):
    """Weighted medians of columns, and their scales, each (p,); a scale is 0 without variation.

    Gaps are between quantiles that are a share of a component's rows apart. Half of them are
    smaller, so that gaps between groups do not count; where groups are far apart, a gap is that of
    a larger share of the values of one. Of values that are tied, or nearly so beside the gaps of
    many others, those others stand for all as squares do. A few values, of which most rows have
    one, leave gaps wider than the standard deviation, which is the most. The scale is 1 for a
    standard normal column.
    """
    step = max(_GAP_SHARE / n_components, 1.0 / len(X))
    n = max(_N_QUANTILES, int(np.ceil(4.0 / step)))
    ahead = min(int(np.ceil(step * n)), n - 1)
    at = (np.arange(n) + 0.5) / n
    values, normal = _quantiles(X, weight, at), ndtri(at)
    median = 0.5 * (values[(n - 1) // 2] + values[n // 2])
    gaps, scale = values[ahead:] - values[:-ahead], np.zeros(X.shape[1])
    # Rounding leaves a constant column of 1e9 gaps of 1e-7.
    present = gaps > 10.0 * np.finfo(float).eps * np.abs(median)
    present &= gaps > np.quantile(gaps, _MANY, axis=0) / _APART
    for j in np.flatnonzero(present.any(axis=0)):
        typical, share = np.median(gaps[present[:, j], j]), np.sqrt(present[:, j].mean())
        step = min(int(ahead * _n_groups(gaps[:, j] <= _APART * typical, ahead)), n - 1)
        scale[j] = share * typical / np.median(normal[step:] - normal[:-step])
    return median, np.minimum(scale, _sds(X, weight, np.average(X, axis=0, weights=weight)))


def _n_groups(near, ahead):
    """Effective number of groups of a column's quantiles, of which each near gap joins two."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], near, [0]])))
    sizes = ends[1::2] - ends[::2] + ahead
    return sizes.sum() ** 2 / (sizes**2).sum()


def medians(X, weight):
    """Weighted medians of columns, as those of a `Scaler`."""
    return _medians_and_scales(X, weight, 1)[0]


def _sds(X, weight, centre):
    """Weighted standard deviations of all rows around a centre; 0 where rounding leaves more."""
    sds = np.sqrt(over_rows(partial(variance_about, weight.sum(), centre), X, weight, add=np.add))
    return np.where(sds <= 10.0 * np.finfo(float).eps * np.abs(centre), 0.0, sds)


def _farthest(centre, X):
    """Largest distances of columns from a centre."""
    return np.max([np.abs(X[some] - centre).max(axis=0) for some in pieces(X)], axis=0)


def variance_about(total, centre, X, weight):
    """Weighted variances of the columns around a centre."""
    variance = np.zeros(X.shape[1])
    for some in pieces(X):
        variance += (weight[some] / total) @ (X[some] - centre) ** 2
    return variance


def reach_of(X, weight, all_rows=False):
    """Largest distance of scaled rows (n, p) from 0 in each column, but for rows that are rare."""
    X = np.abs(X)
    if all_rows:
        return X.max(axis=0)
    place = 1.0 - max(_RARE, _FEW_MISTAKES / len(X))
    return _quantiles(X, weight, np.array([max(place, 0.0)]))[0]


def drawn_in(X, weight):
    """Scaled rows (n, p) whose rare values far from 0 are as near as the others."""
    reach = limits_of(X, weight)
    return np.clip(X, -reach, reach)


def limits_of(X, weight):
    """Where `drawn_in` takes far values to, (p,)."""
    return np.maximum(reach_of(X, weight), REACH)


def _quantiles(X, weight, at):
    """Weighted quantiles of columns, each the value of a row; shape (len(at), p)."""
    if (weight == weight[0]).all():  # Places are those of all columns.
        places = np.ceil(at * len(X) - _ROUNDING).astype(int) - 1
        return np.sort(X, axis=0)[np.maximum(places, 0)]
    out = np.empty((len(at), X.shape[1]))
    for j, column in enumerate(X.T):
        order = np.argsort(column, kind="stable")
        total = np.cumsum(weight[order])
        places = np.searchsorted(total, (at - _ROUNDING) * total[-1], side="left")
        out[:, j] = column[order[np.minimum(places, len(X) - 1)]]
    return out
