"""The few rows that make a logistic posterior stiff, for the inner steps of Hamiltonian moves."""

import numpy as np

from skpmd.linear._design import pieces
from skpmd.proposals.splitting import Stiff

_TABLE = 1 << 18  # Rows are looked at in pieces of about so many numbers.
# A row is stiff where its expected curvature is above this, in units of the posterior's own.
_MIN_CURVATURE = 1.0
# At most this share of the rows is stiff, or so many if these are more: inner steps have to be
# cheap.
_MAX_SHARE, _FEW_ROWS = 0.02, 32
# Copies of a row count together. They are found in each piece, and then among so many pieces.
_MAX_SPREAD = 32.0
# Directions whose curvature by all stiff rows together is below this times 1/4 are left out.
_MIN_SQUARE = 16.0
# With more coordinates than this all rows may be so stiff, and those alone count that are so many
# times as stiff as half of them.
_MANY, _UNUSUAL = 200, 4.0
# The variance of the normal density with the height of the logistic one.
_LOGISTIC_VARIANCE = 8.0 / np.pi
# The sd of a logit is taken this many times as wide: a Gaussian beside an edge seems far from it.
_WIDER = 3.0


def stiff_rows(model, batches, power, mean, chol):
    """Return the `Stiff` part of the posterior in the whitening by ``mean`` and ``chol``.

    A dummy that few rows have makes an edge: the logits of these rows have a large sd under the
    posterior, so that the rows count as 0 or as a steep slope, depending on where the particle is.
    The expected curvature of a row along its own whitened features, of squared length s^2, is s^2
    times the mean of p (1 - p); that is nearly s^2 N(z; 0, s^2 + 8 / pi), z the logit of a class
    against all others at the mean.

    The stiff part is the likelihood of the rows where that is large, seen along the directions in
    which these rows vary; in all others they stay at the mean.
    """
    X, y, weight = _chosen(model, batches, mean, chol)
    factors = _by_class(chol, X.shape[1])
    K = len(factors)
    white = np.concatenate([X @ factor for factor in factors - _common(factors)])
    if len(white) < len(mean) and len(mean) > _MANY:
        roots = np.sqrt(np.tile(weight, K))[:, None] * white
        _, values, rows = np.linalg.svd(roots, full_matrices=False)
        values, vectors = values[::-1] ** 2, np.ascontiguousarray(rows[::-1].T)
    else:
        values, vectors = np.linalg.eigh(white.T @ (np.tile(weight, K)[:, None] * white))
    axes = vectors[:, values > _MIN_SQUARE]
    at_mean = (mean.reshape(K, -1) @ X.T).ravel()
    slopes = np.ascontiguousarray((white @ axes).T, dtype=np.float32)
    offset, weight = at_mean.astype(np.float32), power * weight

    def function(a):
        table = a.astype(np.float32) @ slopes
        table += offset
        total = np.zeros(len(a))
        model.differentiate(table.reshape(len(a), K, len(y)), y, weight, total)
        return total, (table @ slopes.T).astype(np.float64)

    # Leapfrog is stable up to 2 / sqrt(curvature), and a logistic curvature is 1/4 at most.
    return Stiff(axes, function, 2.0 / np.sqrt(np.max(values, initial=1.0)))


def _chosen(model, batches, mean, chol):
    """Distinct rows of large expected curvature: dense X with ones, y, weight."""
    found, n_rows = [], 0
    for one in pieces(batches, _TABLE):
        X, y, weight = _distinct(*model.design(one))
        n_rows += len(y)
        some = weight * _expected_curvature(X, mean, chol) > _MIN_CURVATURE / _MAX_SPREAD
        found.append((X[some], y[some], weight[some]))
    X, y, weight = _distinct(*(np.concatenate(part) for part in zip(*found, strict=True)))
    curvature = weight * _expected_curvature(X, mean, chol)
    most = max(_FEW_ROWS, int(_MAX_SHARE * n_rows))
    bound = np.sort(curvature)[::-1][most] if len(curvature) > most else 0.0
    usual = _UNUSUAL * np.median(curvature) if chol.shape[1] > _MANY and len(curvature) else 0.0
    some = curvature > max(bound, _MIN_CURVATURE, usual)
    return X[some], y[some], weight[some]


def _distinct(X, y, weight):
    """Each row once, with the weight of all its copies, in an order that is the rows' own."""
    bits = (np.column_stack([X, y]) + 0.0).view(np.uint64)  # There is one zero.
    factors = np.random.default_rng(0).integers(1 << 63, size=bits.shape[1], dtype=np.uint64)
    # Rows that share a key by chance would be taken for one: the moves stay exact nevertheless.
    keys = ((bits ^ (bits >> 32)) * (2 * factors + 1)).sum(axis=1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return X[first], y[first], np.bincount(inverse, weight, minlength=len(first))


def _expected_curvature(X, mean, chol):
    """Mean of p (1 - p) times the squared length of each whitened row, of its largest class."""
    factors = _by_class(chol, X.shape[1])
    variance = [np.einsum("ij,ij->i", X @ (one @ one.T), X) for one in factors - _common(factors)]
    variance = np.maximum(np.max(variance, axis=0), 0.0)
    odds = _log_odds(X @ mean.reshape(len(factors), -1).T)
    spread = (variance + _LOGISTIC_VARIANCE)[:, None]
    density = np.exp(-0.5 * odds**2 / (_WIDER**2 * spread)) / np.sqrt(2.0 * np.pi * spread)
    return variance * density.max(axis=1)


def _by_class(chol, n_columns):
    """The rows of ``chol`` that belong to each class, shape (K, n_columns, d)."""
    return chol.reshape(-1, n_columns, chol.shape[1])


def _common(factors):
    """The mean over classes, which the likelihood of several does not see; 0 where there is one."""
    return factors.mean(axis=0) if len(factors) > 1 else 0.0


def _log_odds(logits):
    """Logits of each class against all the others, of the shape of ``logits`` (n, K)."""
    if logits.shape[1] == 1:
        return logits
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    tiny = np.finfo(float).tiny
    return np.log(np.maximum(p, tiny)) - np.log(np.maximum(1.0 - p, tiny))
