"""Polynomials of several coordinates, and one that corrects a fitted log density by values.

Values of a log posterior at its particles have no error, unlike their places. What a density that
was fitted to places has missed, small skewness above all, which decides in its tails, is there to
be seen as a smooth function of the coordinates. Least squares finds it. Where there are no values,
far out or between the particles, the polynomial is bounded.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from skpmd.engine.particles import weights, whitened

_MAX_DEGREE = 4
PER_TERM = 8  # A fit needs so many particles for each coefficient.
POWER = 0.5  # Flattened weights make the fit hold where further data lead to.
_WITHIN = 0.999  # Beyond this share of the particles the polynomial stays as it is there.


class Polynomial(NamedTuple):
    """A bounded function of u = chol^-1 (theta - mean)."""

    mean: np.ndarray  # (d,): Mean.
    chol: np.ndarray  # (d, d): Cholesky factor.
    degree: int
    coefficients: np.ndarray  # (terms,): Of the monomials.
    radius: float  # Beyond it the value is that on the same ray at this radius.
    low: float  # The smallest and the largest value that it takes.
    high: float


def n_terms(d, degree):
    """How many monomials of d coordinates there are up to a degree."""
    return comb(d + degree, degree)


def degree_for(m, d):
    """The degree that m particles of d coordinates are enough for, None where it is below three."""
    return next((k for k in (_MAX_DEGREE, 3) if PER_TERM * n_terms(d, k) <= m), None)


def monomials(u, degree):
    """All monomials up to a degree at points u (n, d), (n, terms)."""
    n, d = u.shape
    block, first = np.ones((n, 1)), np.array([d - 1])  # The smallest coordinate in each of them.
    out = [block]
    for _ in range(degree):
        block, first = (
            np.concatenate([block[:, first >= k] * u[:, [k]] for k in range(d)], axis=1),
            np.concatenate([np.full((first >= k).sum(), k) for k in range(d)]),
        )
        out.append(block)
    return np.concatenate(out, axis=1)


def fit(theta, log_weights, values, mean, chol):
    """Least squares of values at weighted particles; None where these are too few for a cubic.

    ``values`` has the shape (m,). ``mean`` and ``chol`` are near the moments of the particles, for
    coordinates of order one.
    """
    known = np.isfinite(values) & (log_weights > -np.inf)
    theta, values = theta[known], values[known]
    m, d = theta.shape
    degree = degree_for(m, d)
    if degree is None:
        return None
    root = np.sqrt(weights(POWER * log_weights[known]))
    u = whitened(theta, mean, chol)
    radius = float(np.quantile(np.linalg.norm(u, axis=1), _WITHIN))
    terms = monomials(_within(u, radius), degree)
    coefficients = np.linalg.lstsq(terms * root[:, None], values * root, rcond=None)[0]
    found = terms @ coefficients
    return Polynomial(mean, chol, degree, coefficients, radius, found.min(), found.max())


def value(polynomial, theta):
    """Its values at rows of theta, (n,)."""
    u = _within(whitened(theta, polynomial.mean, polynomial.chol), polynomial.radius)
    found = monomials(u, polynomial.degree) @ polynomial.coefficients
    return np.clip(found, polynomial.low, polynomial.high)


def gradient(polynomial, theta):
    """Its gradients at rows of theta, (n, d)."""
    u = whitened(theta, polynomial.mean, polynomial.chol)
    near = _within(u, polynomial.radius)
    terms = monomials(near, polynomial.degree)
    slopes = _slopes(polynomial.coefficients, u.shape[1], polynomial.degree)
    out = terms[:, : len(slopes)] @ slopes
    found = terms @ polynomial.coefficients
    out[(found < polynomial.low) | (found > polynomial.high)] = 0.0
    length = np.linalg.norm(u, axis=1)
    far = length > polynomial.radius
    ray = u[far] / length[far, None]
    across = out[far] - (out[far] * ray).sum(axis=1, keepdims=True) * ray
    out[far] = polynomial.radius / length[far, None] * across
    return solve_triangular(polynomial.chol.T, out.T, lower=False).T


def _slopes(coefficients, d, degree):
    """Coefficients of the derivatives by each coordinate, (terms of a degree less, d)."""
    powers = _powers(d, degree)
    place = {tuple(one): i for i, one in enumerate(powers)}
    out = np.zeros((n_terms(d, degree - 1), d))
    for power, coefficient in zip(powers, coefficients, strict=True):
        for j in np.flatnonzero(power):
            lower = power.copy()
            lower[j] -= 1
            out[place[tuple(lower)], j] += power[j] * coefficient
    return out


def _powers(d, degree):
    """Exponents of the monomials, (terms, d): logs of their values where one coordinate is e."""
    return np.rint(np.log(monomials(np.exp(np.eye(d)), degree))).astype(int).T


def _within(u, radius):
    """Points whose length is at most the radius, on the same rays."""
    length = np.linalg.norm(u, axis=1, keepdims=True)
    return u * (radius / np.maximum(length, radius))
