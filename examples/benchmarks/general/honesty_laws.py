"""Posteriors with exact draws: an easy prior, and the likelihood that makes each.

The likelihood is the target's density divided by the prior's, so that the posterior is the target
itself and its log evidence is zero. There is one dummy row of data.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..peers.problem import Problem
from .honesty_truth import Truth, truth

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
