"""A density near the rows that particles of a mixture can start from, and the way to the prior.

Under a vague prior a component that lies where the rows are is rare, and on the way from it the
likelihood at low powers has one component take all rows: that a second one would pay comes out too
late to be found. From components that are spread over the rows nothing is rare.
"""

from typing import NamedTuple

import numpy as np

from skpmd.mixture._component_priors import Conditional, Independent, NormalWishart
from skpmd.mixture._stick_breaking import Sticks


class Blend(NamedTuple):
    """Components with the density of one prior to the power 1 - power, times another's to power."""

    # Of the same covariance type.
    one: NormalWishart | Independent
    other: NormalWishart | Independent
    power: float  # Of the other.

    @property
    def covariance_type(self):
        """Of both."""
        return self.other.covariance_type

    @property
    def mean(self):
        """Of the other."""
        return self.other.mean

    def log_density(self, means, factor):
        """Up to a constant; shape (m,)."""
        return self._mixed(*(prior.log_density(means, factor) for prior in self[:2]))

    def gradient(self, means, factor):
        """Of `log_density`."""
        both = [prior.gradient(means, factor) for prior in self[:2]]
        return tuple(self._mixed(*parts) for parts in zip(*both, strict=True))

    def conditional(self, means, factor, sums):
        """`Conditional` given which rows belong to which component."""
        both = [prior.conditional(means, factor, sums) for prior in self[:2]]
        return Conditional(*(self._mixed(*parts) for parts in zip(*both, strict=True)))

    def _mixed(self, one, other):
        return (1.0 - self.power) * one + self.power * other


def blended_sticks(one, other, power):
    """Sticks with the density of one to the power 1 - power, times another's, up to a constant."""
    a, b = ((1.0 - power) * x + power * y for x, y in zip(one[:2], other[:2], strict=True))
    return Sticks(a, b, other.exchangeable)


def near_rows(sticks, components, X, weight):
    """Priors of weights and components that spread over the rows.

    Variances are about those of the rows, by K^(-2 / p), the size at which K components fill the
    same space; means are spread as the rows are, the far ones too, or no way leads to these. The
    priors given say what form the new ones have. The rows X (n, p) count ``weight`` (n,) times.
    """
    n_components, p = len(sticks.a) + 1, X.shape[1]
    mean = np.average(X, axis=0, weights=weight)
    centred = X - mean
    covariance = (centred.T * (weight / weight.sum())) @ centred
    k = np.arange(1.0, n_components)
    even = Sticks(np.ones(n_components - 1), n_components - k, sticks.exchangeable)
    kind, size = components.covariance_type, n_components ** (-2.0 / p)
    if isinstance(components, Independent):
        # Never narrower than a share of the prior: a column may be constant.
        sd = np.sqrt(np.diag(covariance))
        scale = np.sqrt(np.mean(sd**2, keepdims=True)) if kind == "spherical" else sd
        scale = np.sqrt(size) * scale + 0.01 * components.scale
        return even, Independent(kind, mean, sd + 0.01 * components.mean_scale, scale)
    if kind == "diag":
        covariance = np.diag(covariance)
    elif kind == "spherical":
        covariance = np.trace(covariance) / p**2
    df = {"diag": 4.0, "spherical": 4.0 / p}.get(kind, p + 3.0)
    scatter = 2.0 * size * covariance + components.covariance
    return even, NormalWishart(kind, mean, size, df, scatter)
