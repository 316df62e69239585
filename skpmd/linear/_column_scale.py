"""Units of columns: where a posterior is found, and where a prior in given ones overrules rows.

A prior on coefficients is one on the change of the logit by one unit of a column, and that on the
intercept one of the logit where all columns are zero. Years, time stamps or prices make either mean
anything. So columns are centred and divided by their standard deviations inside, and posteriors are
reported in the given units.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis

from skpmd._base.results import varying
from skpmd._base.utils import warn
from skpmd._base.validation import refuse_overflows
from skpmd._rows.table import is_in_memory, mapped
from skpmd._runtime.threads import total
from skpmd.posterior import Posterior

# Columns of a smaller sd, whose sd changes the logit by less than so much under the prior, are
# warned of where the likelihood still rises by so many of its standard errors.
_SMALL, _MAX_CHANGE, _MIN_ERRORS = 0.05, 0.2, 10.0
_ROUNDING = 1e-9
_FAR_FOR_SINGLE = 100.0  # Single precision knows 1e-5 of an sd so many sds from zero.
# Of columns as of rare words the prior allows a number of usual size to change the logit by so much
# at most: on tf-idf of 5,000 words standard deviations alone give an accuracy of .87 for .96.
_MAX_RARE = 3.0
_CONSTANT = 64 * np.finfo(np.float64).eps  # An sd that is a smaller share of the mean is rounding.
_ROWS_AT_ONCE = 1 << 14
# Later rows of a stream are warned of where a column is so many units from its centre, or varies by
# so few; of fewer rows nothing is known of the latter.
_OTHER_SCALE, _FEW = 100.0, 10


class Units(NamedTuple):
    """Centres and units of columns, and the linear map between coefficients in these and as given.

    Coefficients are rows one after the other, an intercept last in each; what comes after them
    stays as it is. Outward is from given columns to those in units, as `skpmd.engine.edges` has it.
    """

    centre: np.ndarray  # (p,): Where intercepts, or cutpoints, are; zero without them.
    scale: np.ndarray  # (p,)
    n_rows: int  # Of coefficients.
    fit_intercept: bool
    has_cutpoints: bool = False  # They take the place of intercepts, and are none of the rows.

    @property
    def is_centred(self):
        """Whether columns are centred, for there is something at their centres."""
        return self.fit_intercept or self.has_cutpoints

    @property
    def shift(self):
        """Centres in units, (p,), which sparse rows keep; None where columns are not centred."""
        return self.centre / self.scale if self.is_centred else None

    def rows(self, X):
        """Rows in units, in their own precision; sparse ones stay so, and are not centred."""
        return mapped(self._rows, X)

    def _rows(self, X):
        if issparse(X):
            is_far = np.abs(self.centre / self.scale).max(initial=0.0) > _FAR_FOR_SINGLE
            data = (X.data / self.scale[X.indices]).astype(np.float64 if is_far else X.dtype)
            return type(X)((data, X.indices, X.indptr), shape=X.shape)
        out = X - self.centre  # In place from here: a second copy of many rows takes as long again.
        out /= self.scale
        return out.astype(X.dtype, copy=False)

    def given(self, X):
        """Given rows, of ones in units."""
        scale = self.scale
        inverse = self._replace(centre=-self.centre / scale, scale=1.0 / scale)
        return inverse.rows(X)

    def dense(self, X):
        """Rows in units, centred, in double precision."""
        return ((X.toarray() if issparse(X) else X) - self.centre) / self.scale

    def outward(self, theta):
        """Coefficients (..., d) in units, of those of given columns."""
        out, rows, p = self._copied(theta)
        if self.fit_intercept:
            rows[..., p] += rows[..., :p] @ self.centre
        rows[..., :p] *= self.scale
        return out

    def inward(self, u):
        """Coefficients (..., d) of given columns, of those in units."""
        out, rows, p = self._copied(u)
        rows[..., :p] /= self.scale
        if self.fit_intercept:
            rows[..., p] -= rows[..., :p] @ self.centre
        return out

    def inward_sd(self, sd):
        """Standard deviations (d,) of given coefficients, of independent ones in units."""
        out, rows, p = self._copied(sd)
        rows[..., :p] /= self.scale
        if self.fit_intercept:
            rows[..., p] = np.hypot(
                rows[..., p], np.linalg.norm(rows[..., :p] * self.centre, axis=-1)
            )
        return out

    def pull_back(self, gradient, theta=None):
        """Gradients by given coefficients, of those by ones in units, (..., d), at any point."""
        out, rows, p = self._copied(gradient)
        rows[..., :p] *= self.scale
        if self.fit_intercept:
            rows[..., :p] += rows[..., p:] * self.centre
        return out

    def log_jacobian(self, u):
        """Log determinant of the derivative of given coefficients by ones in units."""
        return -self.n_rows * np.log(self.scale).sum()

    def within(self, theta):
        """Whether points (m, d) have coordinates in units: all have."""
        return np.ones(len(theta), dtype=bool)

    def only(self, columns):
        """Units of some columns, in this order."""
        return self._replace(centre=self.centre[columns], scale=self.scale[columns])

    def of(self, places):
        """Units of the coefficients at some places; None where these are no whole rows."""
        places, width = np.asarray(places).reshape(-1), len(self.centre) + self.fit_intercept
        n_rows = len(set((places // width).tolist()))
        n = len(places) // n_rows
        rows, inner = places[::n] // width, places[:n] % width
        is_whole = np.array_equal(np.add.outer(rows * width, inner).ravel(), places)
        if self.fit_intercept:
            is_whole, inner = is_whole and inner[-1] == width - 1, inner[:-1]
        if not is_whole or max(rows) >= self.n_rows or (inner >= len(self.centre)).any():
            return None
        return self.only(inner)._replace(n_rows=n_rows)

    def since(self, other):
        """These units as ones of columns that are in other units."""
        centre, scale = (self.centre - other.centre) / other.scale, self.scale / other.scale
        return self._replace(centre=centre, scale=scale)

    def described(self, names):
        """What each coordinate is per unit of, and what its prior is of, for people."""
        p = len(self.centre)
        one = [f"per unit of the column (prior: per {scale:.4g})" for scale in self.scale]
        if self.fit_intercept:
            one.append("where columns are 0 (prior: at their means)")
        out = one * self.n_rows
        return out + ["log of a scale"] * (len(names) - self.n_rows * (p + self.fit_intercept))

    def _copied(self, theta):
        """A copy, its rows of coefficients (..., n_rows, width), and the number of columns."""
        out = np.array(theta, dtype=np.float64)
        p = len(self.centre)
        width = p + self.fit_intercept
        rows = out[..., : self.n_rows * width]
        return out, rows.reshape(*rows.shape[:-1], self.n_rows, width), p


class InUnits:
    """Rows in units as an array of double precision, of which slices are made when asked for.

    Some rows by their places are such rows again. Sparse rows become dense slices.
    """

    def __init__(self, X, units):
        self._X, self._units, self.shape = X, units, X.shape
        self.is_sparse = issparse(X)

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            return self._units.dense(self._X[rows])
        return InUnits(self._X[rows], self._units)

    def __matmul__(self, coefficients):
        given = coefficients / self._units.scale
        return self._X @ given - self._units.centre @ given


def shift_of(units):
    """What is to be subtracted from sparse rows in units, (p,); None where there is nothing."""
    return None if units is None else units.shift


def in_units(X, units):
    """Rows as predictions take them: as they are where there are no units."""
    return X if units is None else InUnits(X, units)


def at_zero(coefficients, shift):
    """Rows of coefficients (m, p + 1) whose intercepts are at zero, and not at the centres."""
    out = coefficients.copy()
    out[:, -1] -= out[:, :-1] @ shift
    return out


def refuse_far(X, units, dtype):
    """ValueError where products of rows in ``units`` overflow in this precision."""
    if units is None or not is_in_memory(X):
        refuse_overflows("X", X, dtype if units is None else np.float64)
        return
    with np.errstate(over="ignore"):  # What overflows is refused.
        if issparse(X):
            largest = abs(X).max(axis=0).toarray().ravel() if X.nnz else np.zeros(X.shape[1])
            largest = np.maximum(largest, np.abs(units.centre))
        else:
            low, high = X.min(axis=0), X.max(axis=0)
            largest = np.maximum(high - units.centre, units.centre - low)
        largest = np.minimum(largest / units.scale, np.finfo(np.float64).max)
    refuse_overflows("X in the units of the fit", largest, dtype)


class Moments(NamedTuple):
    """Weighted moments of columns."""

    weight: float
    mean: np.ndarray  # (p,)
    variance: np.ndarray  # (p,)
    nonzero: np.ndarray  # (p,): Share of the numbers that are not zero.

    @property
    def sd(self):
        """Standard deviations; 1 of columns that do not vary."""
        return np.where(self.varies, np.sqrt(self.variance), 1.0)

    @property
    def capped_sd(self):
        """The same, or a part of the typical size of numbers other than zero if that is more."""
        others = (1.0 - self.nonzero) * self.mean**2  # What zeros add to the variance.
        squares = np.maximum(self.variance - others, 0.0) / np.maximum(self.nonzero, 1e-300)
        return np.maximum(self.sd, np.where(self.varies, np.sqrt(squares) / _MAX_RARE, 0.0))

    @property
    def varies(self):
        """Whether columns vary, beyond rounding."""
        return np.sqrt(self.variance) > _CONSTANT * np.abs(self.mean)


def moments_of(batches):
    """`Moments` of batches, taken where they are."""
    return total(_moments, batches, _joined)


def _moments(batches):
    parts = (
        _of_rows(X[some], weight[some])
        for X, _, weight, *_ in batches
        for some in gen_batches(len(weight), _ROWS_AT_ONCE)
    )
    return reduce(_joined, parts)


def _of_rows(X, weight):
    """Those of a few rows; the second pass makes up for the rounding of the first."""
    X, weight = X.astype(np.float64, copy=False), weight.astype(np.float64)
    n = weight.sum()
    if issparse(X):
        mean, variance = mean_variance_axis(X, axis=0, weights=weight)
        of_numbers = np.repeat(weight, np.diff(X.indptr)) * (X.data != 0.0)
        nonzero = np.bincount(X.indices, of_numbers, minlength=X.shape[1]) / n
        return Moments(n, mean, np.maximum(variance, 0.0), nonzero)
    nonzero = weight @ (X != 0.0) / n
    mean = weight @ X / n
    X = X - mean
    shift = weight @ X / n
    return Moments(n, mean + shift, np.maximum(weight @ X**2 / n - shift**2, 0.0), nonzero)


def _joined(one, other):
    n, gap = one.weight + other.weight, other.mean - one.mean
    share = other.weight / n
    variance = (1.0 - share) * one.variance + share * other.variance
    nonzero = (1.0 - share) * one.nonzero + share * other.nonzero
    return Moments(n, one.mean + share * gap, variance + share * (1.0 - share) * gap**2, nonzero)


def units_of(batches, n_rows, fit_intercept, has_cutpoints=False, is_first=False, is_text=False):
    """`Units` of the columns of batches, for so many rows of coefficients.

    Where the rows are the first ones of a stream there is a warning of columns that do not vary.
    With ``is_text`` units of columns that are zero in most rows are larger: see `Moments`.
    """
    found = moments_of(batches)
    n_constant = int((~found.varies).sum())
    if is_first and n_constant:
        warn(
            f"{n_constant} of {len(found.mean)} columns do not vary in the first rows, which "
            "scale='auto' takes units from: theirs is 1, or that of further rows where these come "
            "while the first are retained. Give more rows to the first call, or scale the columns.",
            UserWarning,
        )
    scale = found.capped_sd if is_text else found.sd
    units = Units(found.mean, scale, n_rows, fit_intercept, has_cutpoints)
    return units if units.is_centred else units._replace(centre=np.zeros(len(found.mean)))


def warn_of_other_scale(batches, units, names):
    """Warn of columns of further rows whose scale is not at all that of the ``units``."""
    found = moments_of(batches)
    far = np.hypot(np.sqrt(found.variance), found.mean - units.centre) > _OTHER_SCALE * units.scale
    if found.weight >= _FEW:
        far |= found.varies & (np.sqrt(found.variance) * _OTHER_SCALE < units.scale)
    columns = np.flatnonzero(far)
    if columns.size:
        warn(
            f"{_listed(columns, names)} have another scale than in the first rows, which "
            f"scale='auto' took centres and units from, by a factor of {_OTHER_SCALE:g} or more: "
            "the prior is still in these units. Give columns one scale in all calls, or call fit "
            "with all rows.",
            UserWarning,
        )


def _listed(columns, names):
    first = ", ".join(map(str, names[columns[:3]])) + ", ..." * (len(columns) > 3)
    return f"{len(columns)} of {len(names)} columns ({first})"


def warn_of_overruled(data, coefficients, intercepts, prior_scale, names):
    """Warn of columns with these names (p,) on which the prior decides; see `overruled`."""
    columns = overruled(data, coefficients, intercepts, prior_scale)
    if columns.size:
        warn(
            f"In the units of {_listed(columns, names)} the prior allows "
            "next to no effect, and the rows say otherwise: set scale='auto', or standardise the "
            "columns.",
            UserWarning,
        )


def overruled(data, coefficients, intercepts, prior_scale):
    """Columns on which the prior decides against the likelihood, because of their units: (k,) int.

    ``data`` is a batch with the targets of a model (-1 and 1, or codes of classes), ``prior_scale``
    a number or one for each coefficient, and
    ``coefficients`` (r, p) and ``intercepts`` (r,) are posterior means.
    """
    X, y, weight, *_ = data
    sd = moments_of([data]).sd
    widest = np.max(np.atleast_2d(prior_scale), axis=0)
    small = np.flatnonzero((sd < _SMALL) & (widest * sd < _MAX_CHANGE))
    if not small.size:
        return small
    sums = 0.0
    for rows in gen_batches(X.shape[0], _ROWS_AT_ONCE):
        residual, curvature = _derivatives(X[rows], y[rows], weight[rows], coefficients, intercepts)
        columns = X[rows][:, small]
        squared = columns.power(2) if issparse(columns) else columns**2
        of_columns = columns.T @ curvature, squared.T @ curvature, columns.T @ residual
        sums = sums + np.vstack([residual.sum(axis=0), curvature.sum(axis=0), *of_columns])
    # The intercept takes up the mean of a column, weighted by curvature.
    total = np.maximum(sums[1], np.finfo(float).tiny)
    first, squares, slope = sums[2:].reshape(3, len(small), -1)
    slope = slope - first / total * sums[0]
    information = squares - first**2 / total
    known = information > _ROUNDING * squares
    z = np.divide(slope, np.sqrt(np.where(known, information, 1.0)), where=known,
                  out=np.zeros_like(slope))  # fmt: skip
    return small[np.abs(z).max(axis=1) > _MIN_ERRORS]


def _derivatives(X, y, weight, coefficients, intercepts):
    """Of log likelihoods by logits, (n, r): the first, and the negative second."""
    logits = np.asarray(X @ coefficients.T) + intercepts
    if len(coefficients) == 1:
        probability, is_class = expit(logits), y[:, None] > 0.0
    else:
        probability, is_class = softmax(logits, axis=1), y[:, None] == np.arange(len(coefficients))
    parts = is_class - probability, probability * (1.0 - probability)
    return (weight[:, None] * part for part in parts)


def own_particles(posterior):
    """Particles in the units that the posterior was found in."""
    frame = posterior.frame
    return posterior.particles if frame is None else frame.outward(posterior.particles)


def own_posterior(posterior, units=None):
    """A `Posterior` in ``units``, by default in those that it was found in."""
    frame = posterior.frame
    if frame is None:
        return posterior
    if units is None:
        theta = own_particles(posterior)
    else:
        theta = units.outward(posterior.particles)
    log_joint = posterior.log_joint
    if log_joint is not None:
        log_joint = log_joint + varying((units or frame).log_jacobian(theta))
    return Posterior(theta, posterior.log_weights, log_joint=log_joint, ess=posterior.ess)
