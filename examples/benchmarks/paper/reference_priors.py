"""Priors of one coordinate, for NumPy and JAX alike: log densities and draws."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Prior(NamedTuple):
    """One coordinate's prior: log density by module (NumPy or jax.numpy), and draws."""

    log_density: Any
    sample: Any


def normal(mean=0.0, scale=1.0):
    """N(mean, scale^2)."""
    constant = -0.5 * LOG_TWO_PI - float(np.log(scale))
    return Prior(
        lambda xp, t: constant - 0.5 * ((t - mean) / scale) ** 2,
        lambda rng, m: mean + scale * rng.standard_normal(m),
    )


def student(dof, mean, scale):
    """Student's t."""
    constant = float(stats.t(dof, mean, scale).logpdf(mean))
    return Prior(
        lambda xp, t: constant - 0.5 * (dof + 1) * xp.log1p(((t - mean) / scale) ** 2 / dof),
        lambda rng, m: mean + scale * rng.standard_t(dof, m),
    )


def log_of(symmetric):
    """The prior of log(abs(x)), x a variable that is symmetric around zero."""
    return Prior(
        lambda xp, t: symmetric.log_density(xp, xp.exp(t)) + t + float(np.log(2.0)),
        lambda rng, m: np.log(np.abs(symmetric.sample(rng, m))),
    )


def log_gamma(shape, rate):
    """The prior of the logarithm of a Gamma variable."""
    law = stats.loggamma(shape, loc=-np.log(rate))
    constant = float(law.logpdf(0.0)) + rate
    return Prior(
        lambda xp, t: constant + shape * t - rate * xp.exp(t),
        lambda rng, m: law.rvs(m, random_state=rng),
    )


def log_uniform(top):
    """The prior of the logarithm of a variable that is uniform on (0, top)."""
    edge = float(np.log(top))
    return Prior(
        lambda xp, t: xp.where(t <= edge, t - edge, -xp.inf),
        lambda rng, m: edge + np.log(1.0 - rng.random(m)),
    )
