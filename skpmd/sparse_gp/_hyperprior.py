"""Distribution of a kernel's hyperparameters: its prior, and draws from a subset's posterior."""

import numpy as np

from skpmd._runtime.call import phase
from skpmd._runtime.threads import each
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.particles import resample, weights

_DF = 10.0  # Degrees of freedom of the proposal.
_DRAWS = 20  # Draws from it for each particle.
_STEP = 1e-4  # Step of the differences that approximate second derivatives.


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

    def slope(self, theta, step=1e-5):
        """Gradient (d,) of the log density at one point, by differences; 0 where it has none."""
        steps = step * np.eye(len(theta))
        with np.errstate(all="ignore"):
            ahead, behind = self.log_density(theta + steps), self.log_density(theta - steps)
            slope = (ahead - behind) / (2.0 * step)
        return np.where(np.isfinite(slope), slope, 0.0)


@phase("draws of hyperparameters")
def draw_around(evidence, bounds, prior, theta, m, rng):
    """The best hyperparameters, and draws of their posterior around them.

    Draws from a Student proposal, with the curvature of the log evidence of a few rows, are weighed
    by it and resampled. The evidence of many rows may have refined theta away from the mode of
    those: their log likelihood is then tilted by its slope at theta, which makes theta a mode and
    leaves the curvature. The result, of shape (m, d), begins with theta.

    ``evidence(theta, gradient)`` is the log evidence of the few rows at theta (d,), and with
    ``gradient`` its slope too; ``bounds`` (d, 2) are those of the hyperparameters.
    """
    if m == 1 or not len(theta):
        return np.tile(theta, (m, 1))

    def slope_at(one):
        return evidence(one, True)[1]

    slope = slope_at(theta)
    proposal = proposal_around(slope_at, theta)
    draws = draw(proposal, _DRAWS * m, rng)
    low, high = bounds.T
    draws = np.clip(draws, low, high)
    values = each(lambda one: evidence(one, False), draws)
    # At a bound of theta a slope that points outwards is that of the mode.
    outwards = ((theta <= low) & (slope < 0.0)) | ((theta >= high) & (slope > 0.0))
    tilt = (draws - theta) @ np.where(outwards, 0.0, slope)
    log_prior = prior.log_density(draws)
    if not np.isfinite(log_prior).any():
        raise ValueError(
            "hyperprior has no mass at any draw around the fitted hyperparameters "
            f"{np.exp(theta)}: widen it, or set n_particles=1, which does without it."
        )
    log_weight = np.array(values) - tilt
    log_weight += log_prior - log_density(proposal, draws)
    if not np.isfinite(log_weight).any():
        return np.tile(theta, (m, 1))
    weight = np.exp(log_weight - log_weight.max())
    chosen = resample("systematic", weight / weight.sum(), m - 1, rng)
    return np.concatenate([theta[None], draws[chosen]])


def resampled(particles, m, rng):
    """Equally weighted hyperparameters, (m, d), of weighted ones."""
    return particles.theta[resample("systematic", weights(particles.log_ratio), m, rng)]


def proposal_around(slope_at, theta):
    """Student proposal around a mode, given the slope of the log density at any theta."""
    return Proposal(theta, _factor(slope_at, theta), _DF)


def _factor(slope_at, theta):
    """Cholesky factor of the inverse curvature; no direction wider than sd 1 in the logs.

    A direction of which the rows say nothing has no curvature, and that of a parameter at its bound
    may have the wrong sign.
    """
    d = len(theta)
    steps = _STEP * np.eye(d)
    slopes = each(lambda step: slope_at(theta + step), [*steps, *-steps])
    with np.errstate(invalid="ignore"):
        hessian = (np.array(slopes[d:]) - np.array(slopes[:d])) / (2.0 * _STEP)
    root = root_of_curvature(hessian)
    return np.linalg.cholesky(root @ root.T)


def root_of_curvature(hessian):
    """Square root (d, d) of the inverse curvature, none of whose directions is wider than one.

    At an edge a curvature may have the wrong sign. Where columns are huge or tiny beyond reason,
    rounding leaves no number.
    """
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (hessian + hessian.T)))
    return vectors / np.sqrt(np.maximum(values, 1.0))


def squares(proposal, theta):
    """Squared distances (m,) from the mean of a proposal, in its standard deviations."""
    return (np.linalg.solve(proposal.factor, (theta - proposal.mean).T) ** 2).sum(axis=0)
