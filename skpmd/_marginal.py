"""The log marginal likelihood of an exact Gaussian process on few rows, and its best kernel."""

from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import lapack
from scipy.optimize import minimize

from skpmd._kernels import parameter_names

_LOG_TWO_PI = np.log(2.0 * np.pi)
_IMPOSSIBLE = 1e25
_MANY, _SCOUTING = 200, 20  # rows; evaluations for each of several starts where there are more
_SHORT = 0.1  # length scales of one more start, in those of the kernel
_SPREAD = 1.0  # sd of the log hyperparameters of another start, around those of the kernel


class Sample(NamedTuple):
    """Rows of data, each of which stands for `weight` equal ones.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        Features.
    y : ndarray of shape (n, t)
        Targets with one covariance.
    own : ndarray of shape (n,)
        Variance of each row's own noise, beside the kernel's.
    weight : ndarray of shape (n,)
        How often each row counts.
    spread : ndarray of shape (n,) or float
        Factor of the kernel's noise.
    """

    X: np.ndarray
    y: np.ndarray
    own: np.ndarray
    weight: np.ndarray
    spread: np.ndarray | float = 1.0


def take(sample, n, rng):
    """At most n rows, drawn as if each were there as often as it counts.

    One draw from each of n equal stretches of the total weight: a row of weight 2 and two copies of
    it are the same to the draw, and rows in some order are all represented. Equal rows become one,
    and all are sorted: neither copies nor the order of rows change an optimiser's path.
    """
    X, y, own, weight, spread = sample
    spread = np.broadcast_to(spread, weight.shape)
    places = np.arange(len(weight))
    if max(weight.sum(), len(weight)) > n:
        ends = np.cumsum(weight)
        at = (np.arange(n) + rng.random(n)) * (ends[-1] / n)
        places, counts = np.unique(np.searchsorted(ends, at, side="right"), return_counts=True)
        # Small weights leave few rows as vague as many.
        weight = counts * min(1.0, ends[-1] / n)
    X, y, own = X[places], y[places], own[places]
    first, which = distinct(np.column_stack([sortable(X), y, own]))
    spread = spread[places][first]
    return Sample(X[first], y[first], own[first], np.bincount(which, weight), spread)


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype == np.float64:
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)


def log_marginal_likelihood(covariance, theta, sample, gradient=True):
    """Value, and gradient in theta unless that is not asked for.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. w equal rows are one row of noise variance
    / w, but for a factor that f does not touch. -inf and zeros where the covariance is not positive
    definite.
    """
    X, y, own, w, spread = sample
    noise = covariance.noise(theta, X) * spread + own
    factor, info = _factored(covariance, theta, X, noise / w)
    if info:
        return (-np.inf, np.zeros(len(theta))) if gradient else -np.inf
    alpha, _ = lapack.dpotrs(factor, y, lower=1)
    log_det = np.log(np.diag(factor)).sum()
    n, t = y.shape
    copies = (w - 1.0) @ (_LOG_TWO_PI + np.log(noise)) + np.log(w).sum()
    value = -0.5 * np.vdot(y, alpha) - t * (0.5 * (n * _LOG_TWO_PI + copies) + log_det)
    if not gradient:
        return value
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    W = np.tril(inverse)
    W += np.tril(inverse, -1).T
    W = 0.5 * (alpha @ alpha.T - t * W)
    d = np.diag(W) / w - 0.5 * t * (w - 1.0) / noise
    return value, covariance.contracted_gradient(theta, X, W, d * spread)


def squared_errors(covariance, theta, sample):
    """Expected squared errors of f at the rows themselves, summed over targets, shape (n,)."""
    X, y, own, w, spread = sample
    noise = covariance.noise(theta, X) * spread + own
    factor, info = _factored(covariance, theta, X, noise / w)
    if info:
        return np.zeros(len(y))
    alpha, _ = lapack.dpotrs(factor, y, lower=1)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    # y - mean = noise alpha, and the variance is noise - noise^2 times the inverse's diagonal.
    ridge = noise / w
    variance = np.maximum(ridge - ridge**2 * np.diag(inverse), 0.0)
    return ((ridge[:, None] * alpha) ** 2).sum(axis=1) + y.shape[1] * variance


def _factored(covariance, theta, X, diagonal):
    """Cholesky factor of the covariance of the rows, and LAPACK's code: 0 if all is well."""
    K = np.asfortranarray(covariance.cross(theta, X, X).T)
    K[np.diag_indices_from(K)] += diagonal
    return lapack.dpotrf(K, lower=1, overwrite_a=1)


def best_theta(covariance, sample, optimizer, n_restarts, rng, first=None, n_jobs=None):
    """Hyperparameters of the largest marginal likelihood found, and its value.

    Parameters
    ----------
    covariance : KernelCovariance
        Its kernel gives the first start and the bounds.
    sample : Sample
        Few rows: the cost is their number cubed.
    optimizer : "fmin_l_bfgs_b" or callable
        As in `GaussianProcessRegressor`.
    n_restarts : int
        Further starts, normal around the first one in the logs, clipped to the bounds; if any, one
        more with short length scales. Of more than 200 rows L-BFGS takes a few steps from each, and
        goes on from the best place.
    rng : numpy.random.Generator
        Source of all randomness.
    first : ndarray of shape (d,), optional
        The first start; default: the kernel's.
    n_jobs : int or None
        Threads that share the starts, in the sense of joblib.

    Returns
    -------
    theta : ndarray of shape (d,)
        Logs.
    value : float
        Log marginal likelihood of the sample.
    """
    first = covariance.kernel.theta if first is None else first
    bounds = covariance.kernel.bounds

    def objective(theta, eval_gradient=True):
        theta = np.asarray(theta, dtype=np.float64)
        value, slope = log_marginal_likelihood(covariance, theta, sample)
        # The line search takes a large number and no infinity.
        value = -value if np.isfinite(value) else _IMPOSSIBLE
        return (value, -slope) if eval_gradient else value

    def search(start, **options):
        if callable(optimizer):
            return optimizer(objective, start, bounds=bounds)
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        return found.x, found.fun

    others = [first + _SPREAD * rng.standard_normal(len(first)) for _ in range(n_restarts)]
    if n_restarts:  # a short wave looks like noise from afar
        names = parameter_names(covariance.kernel)
        scales = [name.partition("[")[0].endswith("length_scale") for name in names]
        others.append(first + np.log(_SHORT) * np.array(scales))
    starts = [np.clip(start, bounds[:, 0], bounds[:, 1]) for start in (first, *others)]
    # Few rows are cheap, and further starts then never make the outcome worse.
    scouts = {"maxfun": _SCOUTING} if n_restarts and len(sample.y) > _MANY else {}
    run = delayed(search)
    found = Parallel(n_jobs, prefer="threads")(run(start, **scouts) for start in starts)
    if scouts and not callable(optimizer):
        found = [search(min(found, key=_value)[0])]
    theta, value = min(found, key=_value)
    return np.asarray(theta, dtype=np.float64), -float(value)


def _value(found):
    return float(found[1])
