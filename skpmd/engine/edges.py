"""Edges of a prior's support, and a model in coordinates that have none.

Gaussians, kernels and Student tails reach beyond an edge, where the posterior ends at once. Where a
coordinate has an edge of its own, whatever the others are, it is replaced by a logarithm or a logit
of the distance from it.
"""

import numpy as np
from scipy.special import expit, log_expit

from skpmd.engine.loop import is_ctrl_c
from skpmd.engine.model import Model
from skpmd.engine.particles import Particles

_PROBES = 16  # An edge has to be the same for so many draws of the other coordinates.
_SAME = 1e-6  # Edges that are closer than this share of a coordinate's range are one.
_BISECTIONS = 62
_TINY = 1e-300


class Unbounded(Model):
    """A model in coordinates u of the whole real line, its densities with the Jacobian.

    The ``model`` has no conjugate block. Edges ``lower`` and ``upper``, (d,) each, are infinite
    where there is none.
    """

    def __init__(self, model, lower, upper):
        self._model, self._lower, self._upper = model, lower, upper
        low, high = np.isfinite(lower), np.isfinite(upper)
        self.bounded, self._both, self._one = low | high, low & high, low ^ high
        # A single edge, and which way the support lies from there.
        self._edge, self._side = np.where(low, lower, upper)[self._one], np.where(low, 1.0, -1.0)
        self._side = self._side[self._one]

    def sample_prior(self, rng, m):
        """Draw from the prior, in coordinates u; see `Model`."""
        return self.outward(self._model.sample_prior(rng, m))

    def log_prior(self, u):
        """Log prior density of u; see `Model`."""
        return self._model.log_prior(self.inward(u)) + self.log_jacobian(u)

    def log_likelihood(self, u, batch):
        """Log-likelihood of a batch at u; see `Model`."""
        return self._model.log_likelihood(self.inward(u), batch)

    def within(self, theta):
        """Whether rows of theta are between the edges, (m,)."""
        return ((theta > self._lower) & (theta < self._upper)).all(axis=1)

    def inward(self, u):
        """Coordinates of the model, theta."""
        theta, both, one = u.copy(), self._both, self._one
        lower, upper = self._lower, self._upper
        with np.errstate(over="ignore"):
            theta[:, one] = self._edge + self._side * np.exp(u[:, one])
        theta[:, both] = lower[both] + (upper[both] - lower[both]) * expit(u[:, both])
        # Rounding and underflow end at the edge itself, where there may be no density.
        return np.clip(theta, np.nextafter(lower, np.inf), np.nextafter(upper, -np.inf))

    def with_slope(self, u):
        """Coordinates theta, and their derivatives by u, (m, d) each."""
        theta, slope = self.inward(u), np.ones_like(u)
        slope[:, self._one] = theta[:, self._one] - self._edge
        width = self._upper[self._both] - self._lower[self._both]
        slope[:, self._both] = width * expit(u[:, self._both]) * expit(-u[:, self._both])
        return theta, slope

    def outward(self, theta):
        """Coordinates u of theta within the edges."""
        u, both, one = theta.copy(), self._both, self._one
        u[:, one] = _log(self._side * (theta[:, one] - self._edge))
        below, above = theta - self._lower, self._upper - theta
        u[:, both] = _log(below[:, both]) - _log(above[:, both])
        return u

    def log_jacobian(self, u):
        """Log determinant of the derivative of theta by u, shape (m,)."""
        both = self._both
        width = np.log(self._upper[both] - self._lower[both]).sum()
        within = log_expit(u[:, both]) + log_expit(-u[:, both])
        return u[:, self._one].sum(axis=1) + within.sum(axis=1) + width

    def gradient(self, of_theta):
        """The function of u that has the values and gradients of a log density of theta."""

        def of_u(u):
            theta, slope = self.with_slope(u)
            values, gradients = of_theta(theta)
            of_jacobian = np.zeros_like(u)
            of_jacobian[:, self._one] = 1.0
            of_jacobian[:, self._both] = 1.0 - 2.0 * expit(u[:, self._both])
            return values + self.log_jacobian(u), gradients * slope + of_jacobian

        return of_u

    def restored(self, particles):
        """Particles of u as those of theta; ratios of densities stay as they are."""
        log_jacobian = self.log_jacobian(particles.theta)
        return particles._replace(
            theta=self.inward(particles.theta),
            log_pi=particles.log_pi - log_jacobian,
            log_prior=particles.log_prior - log_jacobian,
        )

    def freed(self, particles):
        """Particles of theta as those of u; those beyond the edges are left out."""
        inside = self.within(particles.theta)
        if not inside.all():
            particles = Particles(*(None if part is None else part[inside] for part in particles))
            particles = particles._replace(log_pi=particles.log_pi - np.log(inside.mean()))
        u = self.outward(particles.theta)
        log_jacobian = self.log_jacobian(u)
        return particles._replace(
            theta=u,
            log_pi=particles.log_pi + log_jacobian,
            log_prior=particles.log_prior + log_jacobian,
        )


def edges(log_prior, draws):
    """Lower and upper edge of each coordinate, (d,) each, infinite where draws have no common one.

    ``log_prior`` maps points (k, d) to (k,), -inf off the support, which the draws (m, d) are from.
    """
    low, high = draws.min(axis=0), draws.max(axis=0)
    reach = high - low
    places = np.linspace(0, len(draws) - 1, min(_PROBES, len(draws))).astype(int)
    probes = draws[np.unique(places)]
    lower = _edge(log_prior, probes, low - reach, reach)
    upper = _edge(log_prior, probes, high + reach, reach)
    # Draws that lie on an edge, several at one place, are of a discrete coordinate.
    low_is_single, high_is_single = ((draws == end).sum(axis=0) == 1 for end in (low, high))
    return (
        np.where((lower < low) & low_is_single, lower, -np.inf),
        np.where((upper > high) & high_is_single, upper, np.inf),
    )


def _edge(log_prior, probes, outside, reach):
    """Edges (d,) between draws and places that are further out than any; nan where there is none.

    An edge is the last number known to be outside. Zero is asked for first, and numbers next to it:
    bisection would never get there, and draws may lie as close to it as numbers do.
    """
    k, d = probes.shape
    columns = np.arange(d)

    def inside(values):
        """Whether the probes (k, d) with one of the columns set to its value are in the support."""
        points = np.repeat(probes[:, None], len(columns), axis=1)
        points[:, np.arange(len(columns)), columns] = values
        with np.errstate(all="ignore"):
            return (log_prior(points.reshape(-1, d)) > -np.inf).reshape(k, len(columns))

    near, far = probes.copy(), np.broadcast_to(outside, (k, d)).copy()
    out, columns = np.full(d, np.nan), np.flatnonzero(~inside(far).any(axis=0))
    if not len(columns):
        return out
    near, far, reach = near[:, columns], far[:, columns], reach[columns]
    for t in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        apart = (near * far > 0.0) & (np.abs(near) > 2.0 * np.abs(far))  # By orders of magnitude.
        middle = np.where(
            apart, np.sign(near) * np.sqrt(np.abs(near)) * np.sqrt(np.abs(far)), middle
        )
        if t == 0:
            middle = np.where(np.sign(near) * np.sign(far) < 0.0, 0.0, middle)
        if t == 1:
            middle = np.where(near * far == 0.0, np.sign(near + far) * _TINY, middle)
        if t > 1 and ((middle == near) | (middle == far)).all():
            break
        within = inside(middle)
        near, far = np.where(within, middle, near), np.where(within, far, middle)
    same = np.ptp(far, axis=0) <= _SAME * reach
    out[columns] = np.where(same, np.median(far, axis=0), np.nan)
    return out


def _log(distance):
    return np.log(np.maximum(distance, np.finfo(float).tiny))


class NotANumberError(FloatingPointError):
    """Some values of a user's function are nan or +inf; it carries all of that call.

    They are those of the very function that was called, and nothing to whoever adds to them.
    """

    def __init__(self, message, values):
        super().__init__(message)
        self.values = values


class NoValuesError(Exception):
    """A density has raised: beyond its support it may, and the fit says whether it does inside."""


def of_numbers(function):
    """A user's function of points that is -inf without a number, and raises one error for all."""

    def values(theta):
        try:
            return function(theta)
        except NotANumberError as error:
            return np.where(error.values < np.inf, error.values, -np.inf)
        except Exception as error:
            if is_ctrl_c(error):
                raise
            raise NoValuesError from error

    return values


def without_errors(function):
    """A function of points (k, d) that is -inf where it has no number."""

    def values(theta):
        try:
            return function(theta)
        except FloatingPointError:
            if len(theta) == 1:
                return np.array([-np.inf])
            middle = len(theta) // 2  # There may be few of them among many.
            return np.concatenate([values(theta[:middle]), values(theta[middle:])])

    return values
