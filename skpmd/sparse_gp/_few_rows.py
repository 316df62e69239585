"""Draws of a kernel's hyperparameters for predictions from few rows.

The best hyperparameters of few rows fit them too well, one length scale for each column above all:
thirty rows of thirty columns are explained by a few columns without noise. So predictions average
over the posterior. Without a prior of the user's the kernel has a weak one, in units of the data:

* the noise's standard deviation is half-normal, of the scale of y;
* the log of an amplitude is normal around the log variance of y;
* the log of a length scale is that of a common one and a deviation of its own. The common one is
  normal around 1.5 times the root of the number of columns, in standard deviations of each. The
  deviations are normal with a scale that the rows decide on, .03 to .7 of a unit: length scales are
  alike until the rows pay for more.

Draws are those of importance resampling from Student distributions at the modes, and from the
prior, moved by elliptical slices with a Student distribution in the prior's place (Murray, Adams
and MacKay 2010; Nishihara, Murray and Adams 2014), which need no step size and leave the posterior
as it is.
"""

import numpy as np

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine.importance import Proposal, draw, mixture_log_density
from skpmd.engine.particles import resample, weights
from skpmd.sparse_gp._covariance import KernelCovariance, kinds
from skpmd.sparse_gp._descent import descended, objective_of
from skpmd.sparse_gp._hyperprior import root_of_curvature, squares
from skpmd.sparse_gp._starts import column_scales

_NOISE = 1.0  # Scale of the noise's sd, in sds of y.
_AMPLITUDE_SD = 1.5
_LENGTH, _LENGTH_SD = np.log(1.5), 1.2
_SPREAD, _SPREAD_SD = np.log(0.15), 1.5  # Of the log of the deviations' scale.
_DF = 8.0  # Degrees of freedom of the proposals.
_FROM_PRIOR, _FROM_MODE = 64, 96  # Draws of importance resampling.
_EVALUATIONS = 40  # Of a search for a mode.
_STEP = 1e-4  # Of the differences that approximate second derivatives.
# Moves of each draw: with more rows than the first number an evaluation takes long, and the rows
# leave less to be found.
_CHEAP_ROWS, _MOVES = 150, 10
_MAX_SHRINKS = 30  # Of a slice: rounding may leave none.
_LOG_TWO_PI, _MAX_LOG = np.log(2.0 * np.pi), 100.0


def scales_of(sample, categorical=()):
    """Where length scales of columns (p,) start, and the variance of y, of a `Sample`."""
    X, y, weight = sample.X, sample.y, sample.weight
    start = column_scales(X, categorical) * np.sqrt(X.shape[1])
    # With a wide noise of their own, outliers count little.
    variance = float(np.average(y**2, axis=0, weights=weight / sample.noise_factor).mean())
    return start, variance if variance > 0.0 else 1.0


class Given:
    """Coordinates that are theta itself, under a `HyperPrior`: the user's, or the bounds."""

    def __init__(self, prior):
        self.prior, self.bounds = prior, prior.bounds

    def inward(self, u):
        """Theta (m, d) of coordinates."""
        return u

    def outward(self, theta):
        """Coordinates (d,) of theta."""
        return theta

    def sample(self, rng, m):
        """Draws of the prior."""
        return self.prior.sample(rng, m)

    def log_prior(self, u):
        """Log prior density (m,)."""
        return self.prior.log_density(u)

    def slope(self, u, slope):
        """Gradient of the log posterior, given that of the log likelihood by theta, (d,)."""
        return slope + self.prior.slope(u)


class Shrunk:
    """Coordinates in which the weak prior of the module's text is simple, for a fast kernel.

    With several length scales these are in units of the deviations' scale, and the common one and
    the log of that scale are two more coordinates at the end. Theta is clipped to the kernel's
    bounds.
    """

    def __init__(self, kernel, sample):
        start, variance = scales_of(sample, KernelCovariance(kernel).categorical)
        self._noise, amplitude, scales = (
            np.flatnonzero(kinds(kernel) == one)
            for one in ("noise_level", "constant_value", "length_scale")
        )
        d, self._scales = len(kernel.theta), scales
        self._limits = kernel.bounds.T
        self._middle, log_variance = np.zeros(d), np.log(variance)  # Where theta has its middle.
        self._middle[self._noise] = log_variance + 2.0 * np.log(_NOISE)
        self._middle[amplitude] = log_variance / max(len(amplitude), 1)
        self._middle[scales] = np.log(start) if len(scales) > 1 else np.log(start).mean()
        # The normal coordinates: all but the noise.
        self._mean, self._sd = np.zeros(d), np.ones(d)
        self._sd[amplitude] = _AMPLITUDE_SD
        if len(scales) > 1:
            self._mean = np.append(self._mean, [_LENGTH, _SPREAD])
            self._sd = np.append(self._sd, [_LENGTH_SD, _SPREAD_SD])
        else:
            self._mean[scales], self._sd[scales] = _LENGTH, _LENGTH_SD
        self._normal = np.delete(np.arange(len(self._mean)), self._noise)
        self.bounds = np.tile([-np.inf, np.inf], (len(self._mean), 1))

    def inward(self, u):
        """Theta (m, d) of coordinates (m, k)."""
        return np.clip(self._free(u), *self._limits)

    def _free(self, u):
        theta = u[:, : len(self._middle)].copy()
        if len(self._scales) > 1:
            theta[:, self._scales] *= np.exp(np.minimum(u[:, -1:], _MAX_LOG))
            theta[:, self._scales] += u[:, -2:-1]
        return theta + self._middle

    def outward(self, theta):
        """Coordinates (k,) of theta (d,)."""
        u = theta - self._middle
        if len(self._scales) < 2:
            return u
        common, spread = np.median(u[self._scales]), max(u[self._scales].std(), np.exp(_SPREAD))
        u[self._scales] = (u[self._scales] - common) / spread
        return np.append(u, [common, np.log(spread)])

    def sample(self, rng, m):
        """Draws (m, k) of the prior."""
        u = self._mean + self._sd * rng.standard_normal((m, len(self._mean)))
        u[:, self._noise] = 2.0 * np.log(np.abs(rng.standard_normal((m, len(self._noise)))))
        return u

    def log_prior(self, u):
        """Log prior density (m,)."""
        z = ((u - self._mean) / self._sd)[:, self._normal]
        of_normal = -0.5 * (z**2 + _LOG_TWO_PI).sum(axis=1) - np.log(self._sd[self._normal]).sum()
        log_square = u[:, self._noise]  # Of a standard normal variable.
        with np.errstate(over="ignore"):
            of_noise = 0.5 * (log_square - np.exp(log_square) - _LOG_TWO_PI)
        return of_normal + of_noise.sum(axis=1)

    def slope(self, u, slope):
        """Gradient (k,) of the log posterior at u, given that of the log likelihood by theta."""
        theta, (low, high) = self._free(u[None])[0], self._limits
        slope = np.where((theta > low) & (theta < high), slope, 0.0)
        by_u = -(u - self._mean) / self._sd**2
        by_u[self._noise] = 0.5 * (1.0 - np.exp(np.minimum(u[self._noise], _MAX_LOG)))
        scales = self._scales
        if len(scales) > 1:
            scale = np.exp(min(u[-1], _MAX_LOG))
            by_u[-2] += slope[scales].sum()
            by_u[-1] += scale * (slope[scales] @ u[scales])
            slope[scales] *= scale
        by_u[: len(slope)] += slope
        return by_u


@phase("draws of kernels")
def draw_posterior(evidence, prior, theta, m, n_rows, rng):
    """Hyperparameters (m, d): the best ones, theta (d,), and draws of their posterior.

    ``evidence(theta, gradient)`` is the log likelihood of all rows at theta (d,), and with
    ``gradient`` its slope too; ``prior`` is `Given` or `Shrunk`.
    """

    def log_joint(u):
        """Log joint densities (k,) of coordinates (k, d)."""
        log_prior, values = prior.log_prior(u), np.full(len(u), -np.inf)
        inside = np.isfinite(log_prior)
        thetas = prior.inward(u[inside])
        with np.errstate(all="ignore"):
            values[inside] = each(lambda one: evidence(one, False), thetas)
        return log_prior + np.where(np.isnan(values), -np.inf, values)

    def value_and_slope(u):
        with np.errstate(all="ignore"):
            value, slope = evidence(prior.inward(u[None])[0], True)
        return value + prior.log_prior(u[None])[0], prior.slope(u, slope)

    first = prior.sample(rng, _FROM_PRIOR)
    values = log_joint(first)
    starts = [prior.outward(theta), first[int(np.argmax(values))]]
    objective = objective_of(value_and_slope)
    modes = [descended(objective, one, prior.bounds, _EVALUATIONS) for one in starts]
    modes.sort(key=lambda mode: mode.value)
    widths = first.std(axis=0)
    proposals = [_around(value_and_slope, u, widths) for u, *_ in modes]
    if squares(proposals[0], modes[1].theta[None])[0] < 1.0:
        proposals = proposals[:1]  # They are one mode.
    draws = np.concatenate([first, *(draw(one, _FROM_MODE, rng) for one in proposals)])
    values = np.concatenate([values, log_joint(draws[_FROM_PRIOR:])])
    share = np.array([_FROM_PRIOR, len(draws) - _FROM_PRIOR]) / len(draws)
    of_modes = mixture_log_density(proposals, np.full(len(proposals), 1.0 / len(proposals)), draws)
    density = np.logaddexp(np.log(share[0]) + prior.log_prior(draws), np.log(share[1]) + of_modes)
    if not np.isfinite(values).any():
        return np.tile(theta, (m, 1))
    log_weight = np.where(np.isfinite(values), values - density, -np.inf)
    chosen = resample("systematic", weights(log_weight), m - 1, rng)
    n_moves = int(np.clip(_MOVES * (_CHEAP_ROWS / n_rows) ** 2, 1, _MOVES))
    moved = [
        _moved(log_joint, proposals[0], draws[i], values[i], n_moves, one)
        for i, one in zip(chosen, rng.spawn(m - 1), strict=True)
    ]
    return np.concatenate([theta[None], prior.inward(np.array(moved))])


def _around(value_and_slope, mode, widths):
    """A Student proposal of the curvature at a mode, no wider than draws of the prior."""
    steps = _STEP * np.diag(widths)
    slopes = np.array([value_and_slope(mode + step)[1] for step in (*steps, *-steps)])
    d = len(mode)
    hessian = (slopes[d:] - slopes[:d]) / (2.0 * _STEP) * widths
    return Proposal(mode, widths[:, None] * root_of_curvature(hessian), _DF)


def _moved(log_joint, proposal, u, value, n, rng):
    """A draw after n elliptical slices, with a Student distribution in the prior's place."""
    d, mean, factor = len(u), proposal.mean, proposal.factor

    def of_student(one):
        squared = squares(proposal, one[None])[0]
        return -0.5 * (_DF + d) * np.log1p(squared / _DF), squared

    for _ in range(n):
        density, squared = of_student(u)
        scale = np.sqrt(0.5 * (_DF + squared) / rng.gamma(0.5 * (_DF + d)))
        other = scale * (factor @ rng.standard_normal(d))
        level = value - density + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        for _ in range(_MAX_SHRINKS):
            new = mean + (u - mean) * np.cos(angle) + other * np.sin(angle)
            its = log_joint(new[None])[0]
            if its - of_student(new)[0] > level:
                u, value = new, its
                break
            low, high = (low, angle) if angle > 0.0 else (angle, high)
            angle = rng.uniform(low, high)
    return u
