"""The log marginal likelihood of an exact Gaussian process on few rows, and its best kernel."""

from functools import partial
from operator import itemgetter

import numpy as np

from skpmd._runtime.threads import each
from skpmd.engine.model import Model
from skpmd.sparse_gp._blas import dpotrf, dpotri, dpotrs
from skpmd.sparse_gp._covariance import parameter_names
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._descent import descended, searched
from skpmd.sparse_gp._model import MIN_NOISE
from skpmd.sparse_gp._starts import has_units, is_flat, placed_starts

_LOG_TWO_PI = np.log(2.0 * np.pi)
IMPOSSIBLE = 1e25  # Objective where there is none: the line search takes no infinity.
# With more rows than the first number several starts take a few evaluations each on some rows, and
# only the best goes on.
_MANY_ROWS, _PRELIMINARY_ROWS, _PRELIMINARY_EVALUATIONS = 200, 500, 20
_PLACED_ROWS = 300  # Rows that decide among starts in the units of the data.
_SHORT = 0.1  # Factor of the length scales of one more start.
_NOISE_FRACTIONS = 0.01, 0.03, 0.1, 0.3  # Fractions of the variance of y that are tried as noise.
_START_SD = 1.0  # Starts vary around the first by this standard deviation, in the logs.


def noise_of(covariance, theta, sample):
    """Variance of the noise of each row; no row is without any, or it would weigh infinitely."""
    noise = covariance.noise(theta, sample.X) * sample.noise_factor + sample.noise_variance
    variance = covariance.diagonal(theta, sample.X)
    return np.maximum(noise, MIN_NOISE * np.average(variance, weights=sample.weight))


def log_marginal_likelihood(covariance, theta, sample, gradient=True):
    """Value, and with ``gradient`` the gradient in theta too.

    Rasmussen and Williams 2006, equations 5.8 and 5.9. w equal rows are one row of noise variance
    / w, but for a factor that does not depend on f. -inf and zeros where the covariance is not
    positive definite.
    """
    X, y, w = sample.X, sample.y, sample.weight
    noise, factor = _factored(covariance, theta, sample)
    if factor is None:
        return (-np.inf, np.zeros(len(theta))) if gradient else -np.inf
    alpha, _ = dpotrs(factor, y)
    log_det = np.log(np.diag(factor)).sum()
    n, t = y.shape
    copies = (w - 1.0) @ (_LOG_TWO_PI + np.log(noise)) + np.log(w).sum()
    value = -0.5 * np.vdot(y, alpha) - t * (0.5 * (n * _LOG_TWO_PI + copies) + log_det)
    if not gradient:
        return value
    inverse, _ = dpotri(factor, overwrite_c=1)
    W = np.tril(inverse)
    W += np.tril(inverse, -1).T
    W = 0.5 * (alpha @ alpha.T - t * W)
    d = np.diag(W) / w - 0.5 * t * (w - 1.0) / noise
    return value, covariance.contracted_gradient(theta, X, W, d * sample.noise_factor)


class ExactProcess(Model):
    """Hyperparameters of an exact process on few rows, whose log marginal likelihood weighs them.

    ``prior`` is a `HyperPrior` and ``sample`` holds all rows. Batches are not looked at.
    """

    def __init__(self, covariance, prior, sample):
        self.covariance, self.prior, self.sample = covariance, prior, sample

    def sample_prior(self, rng, m):
        """Draw m rows of hyperparameters."""
        return self.prior.sample(rng, m)

    def log_prior(self, theta):
        """Log density of the hyperparameters."""
        return self.prior.log_density(theta)

    def log_likelihood(self, theta, batch=None):
        """Log marginal likelihoods (m,) of all rows; -inf where there is none."""

        def of(one):
            return log_marginal_likelihood(self.covariance, one, self.sample, gradient=False)

        with np.errstate(all="ignore"):
            return np.array(each(of, theta))

    def log_joint_and_gradient(self, theta):
        """Log joint densities (m,) and their gradients (m, d)."""

        def of(one):
            return log_marginal_likelihood(self.covariance, one, self.sample)

        with np.errstate(all="ignore"):
            values, slopes = zip(*each(of, theta), strict=True)
        by_prior = [self.prior.slope(one) for one in theta]
        return np.array(values) + self.log_prior(theta), np.array(slopes) + np.array(by_prior)


def squared_errors(covariance, theta, sample):
    """Expected squared errors of f at the rows themselves, summed over targets, shape (n,)."""
    y = sample.y
    noise, factor = _factored(covariance, theta, sample)
    if factor is None:
        return np.zeros(len(y))
    alpha, _ = dpotrs(factor, y)
    inverse, _ = dpotri(factor, overwrite_c=1)
    # y - mean = noise alpha, and the variance is noise - noise^2 times the inverse's diagonal.
    ridge = noise / sample.weight
    variance = np.maximum(ridge - ridge**2 * np.diag(inverse), 0.0)
    return ((ridge[:, None] * alpha) ** 2).sum(axis=1) + y.shape[1] * variance


def left_out(covariance, theta, sample):
    """Means (n, t) and variances (n,) of rows from all others; None where there are none.

    Rasmussen and Williams 2006, equations 5.10 to 5.12.
    """
    _, factor = _factored(covariance, theta, sample)
    if factor is None:
        return None
    alpha, _ = dpotrs(factor, sample.y)
    inverse, _ = dpotri(factor, overwrite_c=1)
    variance = 1.0 / np.diag(inverse)
    return sample.y - variance[:, None] * alpha, variance


def _factored(covariance, theta, sample):
    """Noise of the rows, and the Cholesky factor of their covariance or None."""
    noise = noise_of(covariance, theta, sample)
    K = np.asfortranarray(covariance.cross(theta, sample.X, sample.X).T)
    K[np.diag_indices_from(K)] += noise / sample.weight
    factor, info = dpotrf(K, overwrite_a=1)
    return noise, None if info else factor


def maximise_evidence(
    covariance, sample, optimizer, n_restarts, rng, first=None, n_evaluations=15000
):
    """Hyperparameters of the largest marginal likelihood, shape (d,).

    The cost is the number of rows cubed. ``optimizer`` is "fmin_l_bfgs_b" or a callable, as in
    `GaussianProcessRegressor`. The first start is ``first`` (d,) as it is. Where that is None it is
    the kernel's theta, with its own noise or, for L-BFGS, the best fraction of the variance of y in
    its place.

    ``n_restarts`` further starts are normal around the first one in the logs, clipped to the
    kernel's bounds; if there are any, one more has short length scales, and others are in the units
    of the data unless the first one is. Of more than 200 rows L-BFGS takes a few steps from each on
    500 of them, and goes on from the best place on all. Without further starts those in the units
    of the data follow an end at which no row tells of another.

    ``n_evaluations`` is the most that L-BFGS may take, its own limit by default.
    """
    bounds, placed = covariance.kernel.bounds, []
    if first is None:
        placed = _placed(covariance, sample, rng)
        first = covariance.kernel.theta
        if not callable(optimizer):
            first = best_of(
                lambda one: log_marginal_likelihood(covariance, one, sample, gradient=False),
                with_other_noise(covariance, first, sample),
            )

    def search(start, sample, n_evaluations):
        def objective(theta, eval_gradient=True):
            theta = np.asarray(theta, dtype=np.float64)
            value, slope = log_marginal_likelihood(covariance, theta, sample)
            value = -value if np.isfinite(value) else IMPOSSIBLE
            return (value, -slope) if eval_gradient else value

        if callable(optimizer):
            return searched(lambda timed: optimizer(timed, start, bounds=bounds), objective)
        return descended(objective, start, bounds, n_evaluations)

    starts = starts_around(covariance, first, n_restarts, rng, placed if n_restarts else ())
    # Few rows are cheap, so every start is followed to its end and none makes the outcome worse.
    if n_restarts and len(sample.y) > _MANY_ROWS and not callable(optimizer):
        some = take(sample, _PRELIMINARY_ROWS, rng)
        preliminary = partial(search, sample=some, n_evaluations=_PRELIMINARY_EVALUATIONS)
        ends = each(preliminary, starts)
        starts = [min(ends, key=itemgetter(1))[0]]
    ends = each(lambda start: search(start, sample, n_evaluations), starts)
    best = min(ends, key=itemgetter(1))
    if placed and not n_restarts and is_flat(-best[1], sample):
        more = each(lambda start: search(start, sample, n_evaluations), placed)
        best = min([best, *more], key=itemgetter(1))
    return np.asarray(best[0], dtype=np.float64)


def _placed(covariance, sample, rng):
    """Starts in the units of the data, the best by some rows."""
    if not has_units(covariance.kernel, sample):
        return []
    some = take(sample, _PLACED_ROWS, rng)

    def value(theta):
        return log_marginal_likelihood(covariance, theta, some, gradient=False)

    return placed_starts(covariance, sample, value)


def best_of(value, thetas):
    """The first of the hyperparameters of the largest value."""
    return thetas[int(np.argmax(each(value, thetas)))]


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
    names = parameter_names(kernel)
    return np.array([name.partition("[")[0].endswith("length_scale") for name in names])


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
