"""Stationary covariances as functions of the squared scaled distance, by matrix products.

k(x, x') = g(r^2), r^2 = sum_j (x_j - x'_j)^2 / l_j^2, with g(0) = 1 (Rasmussen and Williams 2006,
section 4.2). The derivative of g, the slope, gives all gradients of a marginal likelihood.
"""

import numpy as np

SHAPES = (0.5, 1.5, 2.5, np.inf)  # nu of the Matern family; inf is the squared exponential
# The largest exponent. Its exponential, 1e-39, is nothing beside any variance, but products of it
# keep within the range of numbers: those below take processors twenty times as long.
_FARTHEST = 90.0


def values(squared, nu):
    """g at the squared distances, which are overwritten."""
    if nu == np.inf:
        squared *= -0.5
        return np.exp(np.maximum(squared, -_FARTHEST, out=squared), out=squared)
    r = np.sqrt(squared, out=squared)
    r *= np.sqrt(2.0 * nu)
    np.minimum(r, _FARTHEST, out=r)
    if nu == 0.5:
        return np.exp(np.negative(r, out=r), out=r)
    polynomial = 1.0 + r if nu == 1.5 else 1.0 + r * (1.0 + r / 3.0)
    return np.multiply(polynomial, np.exp(np.negative(r, out=r), out=r), out=r)


def slopes(squared, nu):
    """Derivative of g by the squared distance; 0 where nu = 1/2 has none, at distance 0."""
    if nu == np.inf:
        return -0.5 * np.exp(-0.5 * squared)
    r = np.sqrt(2.0 * nu * squared)
    if nu == 0.5:
        return np.divide(-0.5 * np.exp(-r), r, out=np.zeros_like(r), where=r > 0.0)
    return -np.exp(-r) * (1.5 if nu == 1.5 else 5.0 / 6.0 * (1.0 + r))
