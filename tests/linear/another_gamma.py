"""The gamma distribution once more, as a family that is added: variance mu^2 / shape, log link."""

import math

import numpy as np
from numba import njit
from scipy.special import gammainc, gammaincc, gammaln, psi, xlogy

from skpmd.linear._family import Family


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def add_another_gamma(table, y, size, weight, phi, link, total, by_phi, curvature, order):
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
    """What rows are given their linear predictors, and a new y of means p.mu, rows by particles."""

    name, links, kernel = "another_gamma", ("log",), staticmethod(add_another_gamma)
    kind, dispersion, of_what = "positive", ("shape",), "numbers above 0"

    def admits(self, y, size):
        return (y > 0.0) & np.isfinite(y)

    def rest(self, phi, y, size, weight):
        of_shape = phi[:, 0] * np.log(phi[:, 0]) - gammaln(phi[:, 0])
        return weight.sum() * of_shape + (phi[:, 0] - 1.0) * (weight @ np.log(y))

    def rest_by_phi(self, phi, y, size, weight):
        return weight.sum() * (np.log(phi) + 1.0 - psi(phi)) + weight @ np.log(y)

    def variance(self, p):
        return p.mu**2 / p.dispersion[0]

    def log_density(self, y, p):
        shape, rate = p.dispersion[0], p.dispersion[0] / p.mu
        return shape * np.log(rate) - gammaln(shape) + xlogy(shape - 1.0, y) - y * rate

    def below(self, y, p):
        return gammainc(p.dispersion[0], y * p.dispersion[0] / p.mu)

    def above(self, y, p):
        return gammaincc(p.dispersion[0], y * p.dispersion[0] / p.mu)

    def score(self, y, p):  # About the probit of `below` (Wilson and Hilferty 1931).
        shape = p.dispersion[0]
        return 3.0 * np.sqrt(shape) * (np.cbrt(y / p.mu) - 1.0 + 1.0 / (9.0 * shape))

    def draw(self, p, rng):
        return rng.gamma(p.dispersion[0], p.mu / p.dispersion[0])
