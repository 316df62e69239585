"""Distributions of a kernel's hyperparameters before any row: the user's, and a weak one.

Without a prior of the user's the kernel of few rows has a weak one, in units of the data:

* the noise's standard deviation is half-normal, of the scale of y;
* the log of an amplitude is normal around the log variance of y;
* the log of a length scale is that of a common one and a deviation of its own. The common one is
  normal around 1.5 times the root of the number of columns, in standard deviations of each. The
  deviations are normal with a scale that the rows decide on, .03 to .7 of a unit: length scales are
  alike until the rows pay for more.
"""

import numpy as np

from skpmd.sparse_gp._covariance import kinds
from skpmd.sparse_gp._starts import scales_of

_NOISE = 1.0  # Scale of the noise's sd, in sds of y.
_AMPLITUDE_SD = 1.5
_LENGTH, _LENGTH_SD = np.log(1.5), 1.2
_SPREAD, _SPREAD_SD = np.log(0.15), 1.5  # Of the log of the deviations' scale.
_LOG_TWO_PI, _MAX_LOG = np.log(2.0 * np.pi), 100.0


class HyperPrior:
    """Prior of the logs of a kernel's free hyperparameters.

    It is uniform between the logs of the kernel's bounds, unless ``distributions`` are given:
    frozen ones of scipy.stats, one for each free hyperparameter in the order of ``kernel.theta``,
    on its own scale (not of its logarithm).
    """

    def __init__(self, kernel, distributions=None):
        self.bounds, self.distributions = kernel.bounds, distributions
        n = len(kernel.theta)
        if distributions is not None and len(distributions) != n:
            raise ValueError(
                f"hyperprior has {len(distributions)} distributions, the kernel {n} free "
                "hyperparameters (kernel.theta): give one for each, in that order."
            )
        methods = ("rvs", "logpdf", "cdf")
        if not all(hasattr(one, name) for one in distributions or () for name in methods):
            raise ValueError(
                f"hyperprior must hold frozen distributions of scipy.stats, got {distributions!r}."
            )
        for place, one in enumerate(distributions or ()):
            if one.cdf(0.0) > 0.0:
                raise ValueError(
                    f"hyperprior[{place}] has mass below 0, where no hyperparameter can be: give a "
                    "distribution of positive numbers."
                )

    def sample(self, rng, m):
        """Draw m rows, shape (m, d)."""
        if self.distributions is not None:
            columns = [one.rvs(size=m, random_state=rng) for one in self.distributions]
            return np.log(np.column_stack(columns))
        if not np.isfinite(self.bounds).all():
            raise ValueError("kernel has a hyperparameter without bounds: set them or hyperprior.")
        low, high = self.bounds.T
        return rng.uniform(low, high, (m, len(low)))

    def log_density(self, theta):
        """Log density of the logs, shape (m,)."""
        if self.distributions is not None:
            pairs = zip(self.distributions, theta.T, strict=True)
            return sum(one.logpdf(np.exp(column)) + column for one, column in pairs)
        low, high = self.bounds.T
        inside = ((theta >= low) & (theta <= high)).all(axis=1)
        # A bound at infinity makes it improper, and one point is no choice: neither has a density.
        length = (high - low)[np.isfinite(high - low) & (high > low)]
        return np.where(inside, -np.log(length).sum(), -np.inf)

    def inward(self, u):
        """Theta (m, d) of coordinates: they are theta."""
        return u

    def outward(self, theta):
        """Coordinates (d,) of theta."""
        return theta

    def slope(self, theta, slope, step=1e-5):
        """Gradient (d,) of the log posterior, given that of the log likelihood.

        That of the prior is found by differences, and 0 where it has none.
        """
        steps = step * np.eye(len(theta))
        with np.errstate(all="ignore"):
            ahead, behind = self.log_density(theta + steps), self.log_density(theta - steps)
            own = (ahead - behind) / (2.0 * step)
        return slope + np.where(np.isfinite(own), own, 0.0)


class Shrunk:
    """The weak prior of the module's text for a fast kernel, in coordinates in which it is simple.

    With several length scales these are in units of the deviations' scale, and the common one and
    the log of that scale are two more coordinates at the end. Theta is clipped to the kernel's
    bounds.
    """

    def __init__(self, kernel, sample):
        start, variance = scales_of(sample)
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

    def log_density(self, u):
        """Log density (m,)."""
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
