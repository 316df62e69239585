"""The gamma distribution once more, as a family that is added.

The variance is mu^2 / shape, and the link is the logarithm.
"""

import math

import numpy as np
from numba import njit
from scipy.special import gammainc, gammaincc, gammaln, psi, xlogy

from skpmd.linear._family import Family


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def add_another_gamma(
    table, y, size, weight, phi, link, total, by_phi, curvature, order
):  # fmt: skip
    """Gamma, phi = (shape,), log link: -shape (z + y e^-z)."""
    for i in range(table.shape[0]):
        shape, value = phi[i, 0], 0.0
        for j in range(table.shape[1]):
            z = table[i, j]
            ratio = y[j] * math.exp(-max(min(z, 700.0), -700.0))
            value += weight[j] * (z + ratio)
            if order > 0:
                table[i, j] = weight[j] * shape * (ratio - 1.0)
            if order > 1:
                curvature[i, j] = weight[j] * shape * ratio
        total[i] -= shape * value
        if order > 0:
            by_phi[i, 0] -= value


class AnotherGamma(Family):
    """Rows given their linear predictors, and a new y of means p.mu.

    What is of a new y has one row for each of data, one column a particle.
    """

    name, links = "another_gamma", ("log",)
    kernel = staticmethod(add_another_gamma)
    kind, dispersion, of_what = "positive", ("shape",), "numbers above 0"

    def admits(self, y, size):
        return (y > 0.0) & np.isfinite(y)

    def rest(self, phi, y, size, weight):
        shape, log_y = phi[:, 0], weight @ np.log(y)
        constant = shape * np.log(shape) - gammaln(shape)
        return weight.sum() * constant + (shape - 1.0) * log_y

    def rest_by_phi(self, phi, y, size, weight):
        slope = np.log(phi) + 1.0 - psi(phi)
        return weight.sum() * slope + weight @ np.log(y)

    def variance(self, p):
        return p.mu**2 / p.dispersion[0]

    def log_density(self, y, p):
        shape, rate = p.dispersion[0], p.dispersion[0] / p.mu
        constant = shape * np.log(rate) - gammaln(shape)
        return constant + xlogy(shape - 1.0, y) - y * rate

    def below(self, y, p):
        return gammainc(p.dispersion[0], y * p.dispersion[0] / p.mu)

    def above(self, y, p):
        return gammaincc(p.dispersion[0], y * p.dispersion[0] / p.mu)

    def score(self, y, p):
        # About the probit of `below` (Wilson and Hilferty 1931).
        shape = p.dispersion[0]
        mean = 1.0 - 1.0 / (9.0 * shape)
        return 3.0 * np.sqrt(shape) * (np.cbrt(y / p.mu) - mean)

    def draw(self, p, rng):
        return rng.gamma(p.dispersion[0], p.mu / p.dispersion[0])
