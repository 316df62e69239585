"""Units of columns: a prior in terms of their standard deviations, and where it overrules the rows.

A prior on coefficients is one on the change of the logit by one unit of a column. In units in which
a column hardly varies it allows next to no change at all, whatever the rows say.
"""

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.preprocessing import StandardScaler
from sklearn.utils import gen_batches

from skpmd._base.warn import warn

# Columns of a smaller sd, whose sd changes the logit by less than so much under the prior, are
# warned of where the likelihood still rises by so many of its standard errors.
_SMALL, _MAX_CHANGE, _MIN_ERRORS = 0.05, 0.2, 10.0
_ROUNDING = 1e-9
_ROWS_AT_ONCE = 1 << 14


def column_scaler(X, weight, with_mean=False):
    """A StandardScaler of weighted rows; columns that do not vary have the scale 1."""
    scaler = StandardScaler(with_mean=with_mean)
    with np.errstate(invalid="ignore"):  # By rounding a variance may be below zero.
        for some in gen_batches(X.shape[0], _ROWS_AT_ONCE):
            scaler.partial_fit(X[some], sample_weight=None if weight is None else weight[some])
    scaler.scale_[np.isnan(scaler.scale_)] = 1.0
    return scaler


def column_scale_of(X, weight, is_first=False):
    """Standard deviations of the columns, (p,), 1 where a column does not vary.

    Where the rows are the first ones of a stream there is a warning of such columns.
    """
    scaler = column_scaler(X, weight)
    varies = scaler.var_ > 0.0
    n_constant = int((~varies).sum())
    if is_first and n_constant:
        warn(
            f"{n_constant} of {X.shape[1]} columns do not vary in the first rows, which "
            "scale='auto' takes units from: theirs is 1 from now on. Give more rows to the first "
            "call, or scale the columns.",
            UserWarning,
        )
    return np.where(varies, scaler.scale_, 1.0)


def warn_of_overruled(data, coefficients, intercepts, prior_scale, names):
    """Warn of columns with these names (p,) on which the prior decides; see `overruled`."""
    columns = overruled(data, coefficients, intercepts, prior_scale)
    if columns.size:
        first = ", ".join(map(str, names[columns[:3]])) + ", ..." * (len(columns) > 3)
        warn(
            f"In the units of {len(columns)} of {len(names)} columns ({first}) the prior allows "
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
    X, y, weight = data
    sd = column_scale_of(X, weight)
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
