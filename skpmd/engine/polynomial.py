"""A polynomial that corrects a fitted log density by values of the true one.

Values of a log posterior at its particles have no error, unlike their places. What a density that
was fitted to places has missed, small skewness above all, which decides in its tails, is there to
be seen as a smooth function of the coordinates. Least squares finds it. Where there are no values,
far out or between the particles, the polynomial is bounded.
"""

from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from skpmd.engine.particles import weights

_MAX_DEGREE = 4
_PER_TERM = 8  # A fit needs so many particles for each coefficient.
_POWER = 0.5  # Flattened weights make the fit hold where further data lead to.
_WITHIN = 0.999  # Beyond this share of the particles the polynomial stays as it is there.


class Polynomial(NamedTuple):
    """A bounded function of u = chol^-1 (theta - mean)."""

    mean: np.ndarray  # (d,): Mean.
    chol: np.ndarray  # (d, d): Cholesky factor.
    powers: np.ndarray  # (terms, d) int: Exponents of each term.
    coefficients: np.ndarray  # (terms,): Coefficients.
    radius: float  # Beyond it the value is that on the same ray at this radius.
    low: float  # The smallest and the largest value that it takes.
    high: float


def fit(theta, log_weights, values, mean, chol):
    """Least squares of values at weighted particles; None where these are too few for a cubic.

    ``values`` has the shape (m,). ``mean`` and ``chol`` are near the moments of the particles, for
    coordinates of order one.
    """
    known = np.isfinite(values) & (log_weights > -np.inf)
    theta, values = theta[known], values[known]
    m, d = theta.shape
    degree = next((k for k in (_MAX_DEGREE, 3) if _PER_TERM * comb(d + k, k) <= m), None)
    if degree is None:
        return None
    root = np.sqrt(weights(_POWER * log_weights[known]))
    u = solve_triangular(chol, (theta - mean).T, lower=True).T
    radius = float(np.quantile(np.linalg.norm(u, axis=1), _WITHIN))
    powers = _powers(d, degree)
    terms = _terms(_within(u, radius), powers)
    coefficients = np.linalg.lstsq(terms * root[:, None], values * root, rcond=None)[0]
    found = terms @ coefficients
    return Polynomial(mean, chol, powers, coefficients, radius, found.min(), found.max())


def value(polynomial, theta):
    """Its values at rows of theta, (n,)."""
    u = _within(_whitened(polynomial, theta), polynomial.radius)
    found = _terms(u, polynomial.powers) @ polynomial.coefficients
    return np.clip(found, polynomial.low, polynomial.high)


def gradient(polynomial, theta):
    """Its gradients at rows of theta, (n, d)."""
    u = _whitened(polynomial, theta)
    near, out = _within(u, polynomial.radius), np.empty_like(u)
    for j in range(u.shape[1]):
        powers = polynomial.powers.copy()
        factor = polynomial.coefficients * powers[:, j]
        powers[:, j] = np.maximum(powers[:, j] - 1, 0)
        out[:, j] = _terms(near, powers) @ factor
    found = _terms(near, polynomial.powers) @ polynomial.coefficients
    out[(found < polynomial.low) | (found > polynomial.high)] = 0.0
    length = np.linalg.norm(u, axis=1)
    far = length > polynomial.radius
    ray = u[far] / length[far, None]
    across = out[far] - (out[far] * ray).sum(axis=1, keepdims=True) * ray
    out[far] = polynomial.radius / length[far, None] * across
    return solve_triangular(polynomial.chol.T, out.T, lower=False).T


def _whitened(polynomial, theta):
    return solve_triangular(polynomial.chol, (theta - polynomial.mean).T, lower=True).T


def _within(u, radius):
    """Points whose length is at most the radius, on the same rays."""
    length = np.linalg.norm(u, axis=1, keepdims=True)
    return u * (radius / np.maximum(length, radius))


def _powers(d, degree):
    """Exponents of all monomials up to a degree, (terms, d)."""
    out = []
    for k in range(degree + 1):
        for places in combinations_with_replacement(range(d), k):
            out.append(np.bincount(places, minlength=d) if k else np.zeros(d, dtype=int))
    return np.array(out)


def _terms(u, powers):
    """Values of monomials at points, (n, terms)."""
    table = np.ones((len(u), len(powers)))
    for j in range(u.shape[1]):
        of_column = u[:, [j]] ** np.arange(powers.max() + 1)
        table *= of_column[:, powers[:, j]]
    return table
