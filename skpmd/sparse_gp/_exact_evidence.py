"""The log marginal likelihood of an exact Gaussian process on few rows, and its best kernel."""

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import lapack
from scipy.optimize import minimize

from skpmd.sparse_gp._covariance import parameter_names
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._model import LEAST_NOISE

_LOG_TWO_PI = np.log(2.0 * np.pi)
_IMPOSSIBLE = 1e25
_MANY = 200  # rows, above which several starts take a few steps each, and one goes on
_SCOUTS, _SCOUTING = 500, 20  # rows and evaluations of those
_SLOPE, _CHANGE = 1e-5, 2.2e-9  # at which a search ends, SciPy's own; the latter of the value
_SHORT = 0.1  # length scales of one more start, in those of the kernel
_SHARES = 0.01, 0.03, 0.1, 0.3  # of the variance of y, as noise
_SPREAD = 1.0  # sd of the log hyperparameters of another start, around those of the kernel


def noise_of(covariance, theta, sample):
    """Variance of the noise of each row; none is without any, which would weigh it infinitely."""
    noise = covariance.noise(theta, sample.X) * sample.spread + sample.own
    return np.maximum(noise, LEAST_NOISE * covariance.diagonal(theta, sample.X))


def log_marginal_likelihood(covariance, theta, sample, gradient=True):
    """Value, and gradient in theta unless that is not asked for.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. w equal rows are one row of noise variance
    / w, but for a factor that f does not touch. -inf and zeros where the covariance is not positive
    definite.
    """
    X, y, _, w, spread = sample
    noise = noise_of(covariance, theta, sample)
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
    X, y, _, w, _ = sample
    noise = noise_of(covariance, theta, sample)
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


def best_theta(
    covariance, sample, optimizer, n_restarts, rng, first=None, n_jobs=None, n_evaluations=15000
):
    """Hyperparameters of the largest marginal likelihood found, and its value.

    The likelihood is scaled so that the first step of L-BFGS, which is its slope, has length one in
    the logs: where slopes are steep it would leap into a corner of the bounds.

    Parameters
    ----------
    covariance : KernelCovariance
        Its kernel gives the first start, with its own noise or the best share of the variance of y
        in its place, and the bounds.
    sample : Sample
        Few rows: the cost is their number cubed.
    optimizer : "fmin_l_bfgs_b" or callable
        As in `GaussianProcessRegressor`.
    n_restarts : int
        Further starts, normal around the first one in the logs, clipped to the bounds; if any, one
        more with short length scales. Of more than 200 rows L-BFGS takes a few steps from each on
        500 of them, and goes on from the best place on all.
    rng : numpy.random.Generator
        Source of all randomness.
    first : ndarray of shape (d,), optional
        The first start as it is.
    n_jobs : int or None
        Threads that share the starts, in the sense of joblib.
    n_evaluations : int
        Most evaluations of L-BFGS; its own limit by default.

    Returns
    -------
    theta : ndarray of shape (d,)
        Logs.
    value : float
        Log marginal likelihood of the sample.
    """
    bounds = covariance.kernel.bounds
    if first is None:
        first = covariance.kernel.theta
        if not callable(optimizer):
            first = max(
                noisier(covariance, first, sample),
                key=lambda one: log_marginal_likelihood(covariance, one, sample, gradient=False),
            )

    def search(start, sample, n_evaluations):
        def objective(theta, eval_gradient=True):
            theta = np.asarray(theta, dtype=np.float64)
            value, slope = log_marginal_likelihood(covariance, theta, sample)
            # The line search takes a large number and no infinity.
            value = -value if np.isfinite(value) else _IMPOSSIBLE
            return (value, -slope) if eval_gradient else value

        if callable(optimizer):
            return optimizer(objective, start, bounds=bounds)
        return _descended(objective, start, bounds, n_evaluations)

    others = [first + _SPREAD * rng.standard_normal(len(first)) for _ in range(n_restarts)]
    if n_restarts:  # a short wave looks like noise from afar
        names = parameter_names(covariance.kernel)
        scales = [name.partition("[")[0].endswith("length_scale") for name in names]
        others.append(first + np.log(_SHORT) * np.array(scales))
    starts = [np.clip(start, bounds[:, 0], bounds[:, 1]) for start in (first, *others)]
    run = Parallel(n_jobs, prefer="threads")
    # Few rows are cheap, and further starts then never make the outcome worse.
    if n_restarts and len(sample.y) > _MANY and not callable(optimizer):
        some = take(sample, _SCOUTS, rng)
        found = run(delayed(search)(start, some, _SCOUTING) for start in starts)
        starts = [min(found, key=_value)[0]]
    found = run(delayed(search)(start, sample, n_evaluations) for start in starts)
    theta, value = min(found, key=_value)
    return np.asarray(theta, dtype=np.float64), -float(value)


def _descended(objective, start, bounds, n_evaluations):
    """The end of L-BFGS, and the objective there.

    The objective is scaled so that the first step, which is its slope, has length one at most.
    """
    value, slope = objective(start)
    scale = 1.0 / max(1.0, np.abs(slope).max())

    def scaled(theta):
        value, slope = objective(theta)
        return scale * value, scale * slope

    # It ends where it would without the scale.
    ends = {"gtol": _SLOPE * scale, "ftol": _CHANGE * scale * max(1.0, abs(value))}
    options = {**ends, "maxfun": n_evaluations}
    found = minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, found.fun / scale


def _value(found):
    return float(found[1])


def noisier(covariance, theta, sample):
    """Theta with its own noise, and with shares of the variance of y.

    A few rows that lie far apart may be fitted without any noise; no step leads from there to
    another fit.
    """
    if not covariance.is_fast:
        return [theta]
    y, w = sample.y, sample.weight / sample.spread
    variance = float(np.average((y - np.average(y, axis=0, weights=w)) ** 2, 0, w).mean())
    more = [covariance.with_noise(theta, share * variance) for share in _SHARES if variance > 0.0]
    return [theta, *more]
