"""Shapes with exact draws: a prior that is easy to draw from, and the likelihood that makes each.

The likelihood is the target's density divided by the prior's, so that the posterior is the target
itself and its log evidence is zero. There is one dummy row of data.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from ..peers.problem import Problem
from .shapes_truth import Truth, truth

N_DRAWS = 1_000_000
LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Shape(NamedTuple):
    """A posterior by its values, the data that its likelihood is called with, and the truth."""

    problem: Problem
    X: np.ndarray
    y: np.ndarray | None
    truth: Truth


class Law(NamedTuple):
    """A density: log values of theta (m, d), and draws from a generator, (m, d)."""

    log_density: Callable
    draw: Callable


def normal(d, scale):
    """N(0, scale^2) in every coordinate."""
    constant = -d * (np.log(scale) + 0.5 * LOG_TWO_PI)
    return Law(
        lambda theta: constant - 0.5 * ((theta / scale) ** 2).sum(axis=1),
        lambda rng, m: scale * rng.standard_normal((m, d)),
    )


def of(target, prior, draws=N_DRAWS):
    """The shape that is ``target``, seen from ``prior``."""
    exact = target.draw(np.random.default_rng(1), draws)

    def log_likelihood(theta, X, y):
        return target.log_density(theta) - prior.log_density(theta)

    problem = Problem(exact.shape[1], log_likelihood, prior.log_density, prior.draw)
    return Shape(problem, np.zeros((1, 1)), None, truth(exact, 0.0))


def funnel(d):
    """Neal's funnel: v ~ N(0, 9), and d - 1 coordinates N(0, exp(v)) given v."""

    def log_density(theta):
        v = theta[:, 0]
        squares = (theta[:, 1:] ** 2).sum(axis=1)
        given = -0.5 * squares * np.exp(-v) - 0.5 * (d - 1) * (v + LOG_TWO_PI)
        return given - 0.5 * (v / 3.0) ** 2 - np.log(3.0) - 0.5 * LOG_TWO_PI

    def draw(rng, m):
        v = 3.0 * rng.standard_normal(m)
        return np.column_stack([v, np.exp(0.5 * v)[:, None] * rng.standard_normal((m, d - 1))])

    return of(Law(log_density, draw), normal(d, 5.0))


def banana():
    """N(0, 1), and N(x^2 - 1, 0.5^2) given it."""

    def log_density(theta):
        x, y = theta.T
        return -0.5 * x**2 - 0.5 * ((y - x**2 + 1.0) / 0.5) ** 2 - np.log(0.5) - LOG_TWO_PI

    def draw(rng, m):
        x = rng.standard_normal(m)
        return np.column_stack([x, x**2 - 1.0 + 0.5 * rng.standard_normal(m)])

    return of(Law(log_density, draw), normal(2, 5.0))


def ring():
    """A circle of radius 3 and thickness 0.2: the radius has the density r N(r | 3, 0.2^2)."""
    constant = np.log(2.0 * np.pi * 3.0 * 0.2) + 0.5 * LOG_TWO_PI

    def log_density(theta):
        return -0.5 * ((np.hypot(*theta.T) - 3.0) / 0.2) ** 2 - constant

    def draw(rng, m):
        # By rejection under 6 N(r | 3, 0.2^2): the radius stays below 6, 15 sds away.
        r = 3.0 + 0.2 * rng.standard_normal(3 * m)
        r = r[6.0 * rng.random(3 * m) < r][:m]
        angle = rng.uniform(0.0, 2.0 * np.pi, m)
        return np.column_stack([r * np.cos(angle), r * np.sin(angle)])

    return of(Law(log_density, draw), normal(2, 3.0))


def modes(shares, means, sds, scale):
    """Round Gaussians in the plane, seen from N(0, scale^2)."""
    shares, means, sds = np.array(shares), np.array(means), np.array(sds)
    log_factor = np.log(shares) - 2.0 * np.log(sds) - LOG_TWO_PI

    def log_density(theta):
        squares = ((theta[:, None] - means) ** 2).sum(axis=2)
        return special.logsumexp(log_factor - 0.5 * squares / sds**2, axis=1)

    def draw(rng, m):
        k = rng.choice(len(shares), m, p=shares)
        return means[k] + sds[k, None] * rng.standard_normal((m, 2))

    return of(Law(log_density, draw), normal(2, scale))


def modes2():
    """Two modes of unequal mass and width."""
    return modes([0.8, 0.2], [[-2.0, 0.0], [2.0, 1.0]], [0.7, 0.2], 4.0)


def modes5():
    """Five modes of unequal mass and width, the lightest of them narrow and far out."""
    centres = [[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0], [0.0, -4.0], [5.0, 5.0]]
    return modes([0.35, 0.25, 0.2, 0.15, 0.05], centres, [0.7, 0.5, 0.6, 0.4, 0.15], 5.0)


def tails(dof):
    """Two independent Student coordinates, seen from a wide prior with tails of its own."""
    prior = Law(
        lambda theta: stats.t.logpdf(theta / 10.0, 2).sum(axis=1) - 2.0 * np.log(10.0),
        lambda rng, m: 10.0 * rng.standard_t(2, (m, 2)),
    )
    target = Law(
        lambda theta: stats.t.logpdf(theta, dof).sum(axis=1),
        lambda rng, m: rng.standard_t(dof, (m, 2)),
    )
    return of(target, prior)


def edge():
    """A uniform prior on the cube whose mass is at a corner: exp(-20 t) in each coordinate."""
    rate = 20.0
    whole = -np.expm1(-rate)
    constant = 3.0 * np.log(rate / whole)

    def log_prior(theta):
        return np.where(((theta > 0.0) & (theta < 1.0)).all(axis=1), 0.0, -np.inf)

    def log_likelihood(theta, X, y):
        return constant - rate * theta.sum(axis=1)

    exact = -np.log1p(-whole * np.random.default_rng(1).random((N_DRAWS, 3))) / rate
    problem = Problem(3, log_likelihood, log_prior, lambda rng, m: rng.random((m, 3)))
    return Shape(problem, np.zeros((1, 1)), None, truth(exact, 0.0))


def condition():
    """A Gaussian of 30 coordinates whose covariance has a condition of 10^6."""
    rng, d = np.random.default_rng(0), 30
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    sds, mean = np.logspace(-3.0, 0.0, d), rng.standard_normal(d)
    constant = -np.log(sds).sum() - 0.5 * d * LOG_TWO_PI
    target = Law(
        lambda theta: constant - 0.5 * (((theta - mean) @ axes / sds) ** 2).sum(axis=1),
        lambda rng, m: mean + (sds * rng.standard_normal((m, d))) @ axes.T,
    )
    return of(target, normal(d, 10.0), draws=200_000)


def plateau():
    """exp(-|t / 2|^8) in each of two coordinates: flat inside, with steep sides."""
    constant = 2.0 * np.log(4.0 * special.gamma(1.125))

    def draw(rng, m):
        size = 2.0 * rng.gamma(0.125, size=(m, 2)) ** 0.125
        return size * rng.choice([-1.0, 1.0], (m, 2))

    target = Law(lambda theta: -((theta / 2.0) ** 8).sum(axis=1) - constant, draw)
    return of(target, normal(2, 3.0))


def noisy():
    """A Gaussian whose likelihood comes with fresh noise of log sd 0.5, unbiased for it."""
    sd, rng = 0.5, np.random.default_rng(99)
    target = Law(
        lambda theta: -0.5 * ((theta - 1.0) ** 2).sum(axis=1) / 0.09 - np.log(0.09) - LOG_TWO_PI,
        lambda rng, m: 1.0 + 0.3 * rng.standard_normal((m, 2)),
    )
    plain = of(target, normal(2, 3.0))

    def log_likelihood(theta, X, y):
        noise = sd * rng.standard_normal(len(theta)) - 0.5 * sd**2
        return plain.problem.log_likelihood(theta, X, y) + noise

    return plain._replace(problem=plain.problem._replace(log_likelihood=log_likelihood))


TARGETS = {
    "funnel2": lambda: funnel(2),
    "funnel5": lambda: funnel(5),
    "funnel10": lambda: funnel(10),
    "banana": banana,
    "ring": ring,
    "modes2": modes2,
    "modes5": modes5,
    "student": lambda: tails(5),
    "cauchy": lambda: tails(1),
    "edge": edge,
    "condition": condition,
    "plateau": plateau,
    "noisy": noisy,
}
