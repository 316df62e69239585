"""Dispersions of families as monotone functions of standard normal coordinates.

The prior of a dispersion is that of the function's values, so that every coordinate beyond the
coefficients has the prior N(0, 1): priors, densities and streams need to know nothing of it.
"""

from functools import partial, reduce

import numpy as np
from scipy.special import (
    betainc,
    betaincinv,
    erfcinv,
    erfinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    ndtri,
    ndtri_exp,
)

from skpmd.linear._correlations import by_sds, factor_of

_FAR = 8.0  # Beyond is a mass of 1e-15, and functions are flat.
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)


class Dispersions:
    """Some dispersions, each a function of a coordinate of its own.

    ``names`` are what users call them, and ``laws`` their distributions on positive numbers:
    `HalfStudentT`, `Gamma` or `RootHalfNormal`.
    """

    def __init__(self, names=(), laws=()):
        self.names, self.laws = names, laws

    def natural(self, u):
        """Dispersions (m, k) of coordinates (m, k)."""
        u, out = np.clip(u, -_FAR, _FAR), np.empty(np.shape(u))
        for j, law in enumerate(self.laws):
            out[..., j] = law.quantile(u[..., j])
        return out

    def standard(self, phi):
        """Coordinates of dispersions; the inverse of `natural`."""
        out = np.empty(np.shape(phi))
        for j, law in enumerate(self.laws):
            out[..., j] = np.clip(law.standard(phi[..., j]), -_FAR, _FAR)
        return out

    def pull_back(self, u, phi, by_phi):
        """Derivatives by coordinates, of derivatives by dispersions; all are (m, k)."""
        return by_phi * np.exp(self._log_slopes(u, phi))

    def log_jacobian(self, u):
        """Log determinant of the derivative of dispersions by coordinates, (m,)."""
        return self._log_slopes(u, self.natural(u)).sum(axis=-1)

    def _log_slopes(self, u, phi):
        out = np.empty(np.shape(u))
        for j, law in enumerate(self.laws):
            out[..., j] = -0.5 * u[..., j] ** 2 - _LOG_ROOT_TWO_PI - law.log_density(phi[..., j])
        return np.where(np.abs(u) < _FAR, out, -np.inf)

    def described(self, unit):
        """The prior of each, in words; the first is in such a unit of y."""
        units = [unit] + [1.0] * len(self.laws)
        return [law.described(one) for law, one in zip(self.laws, units, strict=False)]


def _by_side(u, low, high):
    """A function of coordinates (m,) that has a form for those below zero and one for others."""
    out, below = np.empty(np.shape(u)), u < 0.0
    out[below], out[~below] = low(u[below]), high(u[~below])
    return out


class HalfStudentT:
    """|T| scale with T of Student's distribution, three degrees of freedom."""

    def __init__(self, scale, df=3.0):
        self.scale, self.df = scale, df

    def quantile(self, u):
        """Its value with as much mass below it as N(0, 1) has below u."""
        df = self.df

        # T^2 / (df + T^2) is a beta variate, and so is the rest: each is exact where it is small.
        def low(u):
            share = betaincinv(0.5, 0.5 * df, ndtr(u))
            return share / (1.0 - share)

        def high(u):
            share = betaincinv(0.5 * df, 0.5, ndtr(-u))
            return (1.0 - share) / share

        return self.scale * np.sqrt(df * _by_side(u, low, high))

    def standard(self, x):
        """The inverse of `quantile`."""
        ratio = (x / self.scale) ** 2 / self.df
        below = betainc(0.5, 0.5 * self.df, ratio / (1.0 + ratio))
        above = betainc(0.5 * self.df, 0.5, 1.0 / (1.0 + ratio))
        return np.where(below < 0.5, ndtri(below), -ndtri(above))

    def log_density(self, x):
        """Log density."""
        df, z = self.df, x / self.scale
        constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
        return constant - 0.5 * (df + 1) * np.log1p(z * z / df) + np.log(2.0 / self.scale)

    def described(self, unit):
        """In words, of values in a unit."""
        return f"half-Student-t({self.df:g}, {self.scale * unit:.4g})"


class Gamma:
    """Gamma distribution."""

    def __init__(self, shape, rate):
        self.shape, self.rate = shape, rate

    def quantile(self, u):
        """See `HalfStudentT`."""
        low, high = partial(gammaincinv, self.shape), partial(gammainccinv, self.shape)
        return _by_side(u, lambda u: low(ndtr(u)), lambda u: high(ndtr(-u))) / self.rate

    def standard(self, x):
        """The inverse of `quantile`."""
        below, above = gammainc(self.shape, self.rate * x), gammaincc(self.shape, self.rate * x)
        return np.where(below < 0.5, ndtri(below), -ndtri(above))

    def log_density(self, x):
        """Log density."""
        constant = self.shape * np.log(self.rate) - gammaln(self.shape)
        return constant + (self.shape - 1.0) * np.log(x) - self.rate * x

    def described(self, unit):
        """See `HalfStudentT`."""
        return f"Gamma({self.shape:g}, rate {self.rate / unit:g})"


class RootHalfNormal:
    """x whose x^(-1/2) is half-normal; with more mass at a family's limit of no dispersion."""

    def __init__(self, scale):
        self.scale = scale

    def quantile(self, u):
        """See `HalfStudentT`."""
        low, high = erfinv(ndtr(-np.maximum(u, 0.0))), erfcinv(ndtr(np.minimum(u, 0.0)))
        return (np.sqrt(2.0) * self.scale * np.where(u > 0.0, low, high)) ** -2.0

    def standard(self, x):
        """The inverse of `quantile`."""
        z = x**-0.5 / self.scale  # The mass of larger ones is 2 Phi(-z).
        above = np.minimum(2.0 * ndtr(-z), 1.0)
        below = 1.0 - above  # Of z near zero, by its series.
        below = np.where(z < 1e-4, 2.0 * z * np.exp(-_LOG_ROOT_TWO_PI), below)
        return np.where(above < 0.5, ndtri(above), -ndtri(below))

    def log_density(self, x):
        """Log density."""
        z = x**-0.5 / self.scale
        of_root = -0.5 * z * z - _LOG_ROOT_TWO_PI + np.log(2.0 / self.scale)
        return of_root - np.log(2.0) - 1.5 * np.log(x)

    def described(self, unit):
        """See `HalfStudentT`; families that have it have no unit of y."""
        return f"x^(-1/2) half-Normal({self.scale:.4g})"


class Cutpoints:
    """Cutpoints between K classes, whose probabilities at a predictor of zero are uniform.

    A class has 1 - (1 - Phi(u))^(1 / (K - 1 - j)) of what the classes below leave: that is a beta
    variate, and all together are Dirichlet(1, ..., 1).
    """

    def __init__(self, n_classes):
        self.names = tuple(f"cut[{k}]" for k in range(1, n_classes))
        self._left = np.arange(n_classes - 1, 0, -1.0)

    def natural(self, u):
        """Cutpoints (m, K - 1), which are the logits of the probabilities of all classes below."""
        log_above = self._log_above(u)
        return np.log(-np.expm1(log_above)) - log_above

    def standard(self, phi):
        """The inverse of `natural`."""
        log_above = -np.logaddexp(0.0, phi)
        share = np.diff(log_above, axis=-1, prepend=0.0)
        return np.clip(-ndtri_exp(np.minimum(self._left * share, -1e-300)), -_FAR, _FAR)

    def pull_back(self, u, phi, by_phi):
        """See `Dispersions`."""
        by_log_above = by_phi / -np.expm1(self._log_above(u))
        onwards = np.cumsum(by_log_above[..., ::-1], axis=-1)[..., ::-1]
        return onwards * self._hazards(u)

    def log_jacobian(self, u):
        """See `Dispersions`."""
        log_below = np.log(-np.expm1(self._log_above(u)))
        with np.errstate(divide="ignore"):
            return (np.log(self._hazards(u)) - log_below).sum(axis=-1)

    def _log_above(self, u):
        """Logs of the probabilities of all classes above each cutpoint."""
        u = np.clip(u, -_FAR, _FAR)
        return np.minimum(np.cumsum(log_ndtr(-u) / self._left, axis=-1), -1e-300)

    def _hazards(self, u):
        log_hazard = -0.5 * u * u - _LOG_ROOT_TWO_PI - log_ndtr(-u)
        return np.where(np.abs(u) < _FAR, np.exp(log_hazard) / self._left, 0.0)

    def described(self, unit):
        """The prior of each, in words."""
        return ["Dirichlet(1) on the classes' probabilities at the columns' means"] * len(
            self.names
        )


class Joined:
    """Dispersions of a family and those of groups, in this order; methods are `Dispersions`'s."""

    def __init__(self, own, groups):
        self.parts, self.n_own = (own, groups), len(own.names)
        self.names = (*own.names, *groups.names)

    def natural(self, u):
        """Dispersions (m, k) of coordinates (m, k)."""
        return np.concatenate([one.natural(some) for one, some in self._cut(u)], axis=-1)

    def standard(self, phi):
        """The inverse of `natural`."""
        return np.concatenate([one.standard(some) for one, some in self._cut(phi)], axis=-1)

    def pull_back(self, u, phi, by_phi):
        """Derivatives by coordinates, of derivatives by dispersions."""
        some = zip(*(self._cut(table) for table in (u, phi, by_phi)), strict=True)
        parts = [own[0][0].pull_back(*(table for _, table in own)) for own in some]
        return np.concatenate(parts, axis=-1)

    def log_jacobian(self, u):
        """Log determinant of the derivative of dispersions by coordinates, (m,)."""
        return sum(one.log_jacobian(some) for one, some in self._cut(u))

    def _cut(self, table):
        n = self.n_own
        return list(zip(self.parts, (table[..., :n], table[..., n:]), strict=True))


class Levels:
    """Sds of factors, the first of which is by itself, and effects of the levels of all others.

    Effects of a level are a factor of the covariance of its factor's times coordinates.
    """

    def __init__(self, first, others):
        dispersions = [one.dispersions for one in (first, *others)]
        self.sds = reduce(Joined, dispersions)
        self.n_sds, effects, self._terms = len(self.sds.names), [], []
        last, start = len(dispersions[0].names), self.n_sds
        for one, own in zip(others, dispersions[1:], strict=True):
            n, q = len(one.labels), one.n_effects
            some = slice(last, last := last + len(own.names))
            self._terms.append((some, slice(start, start := start + n * q), (n, q)))
            parts = [f"u[{name}:" for name in one.names_of_effects]
            effects += [f"{part}{label}]" for label in one.labels.tolist() for part in parts]
        self.n_effects = len(effects)
        self.names = (*self.sds.names, *(name.replace(".0]", "]") for name in effects))

    def factors(self, sds):
        """Of each factor but the first: where its effects are, and factors (..., q, q)."""
        for some, own, (_, q) in self._terms:
            lower = np.zeros((*sds.shape[:-1], q, q))
            i, j = np.tril_indices(q)
            lower[..., i, j] = factor_of(sds[..., some])
            yield slice(own.start - self.n_sds, own.stop - self.n_sds), lower

    def effects(self, sds, z):
        """Effects (..., L) of coordinates, given natural sds."""
        out = np.empty(z.shape)
        for own, lower in self.factors(sds):
            out[..., own] = _times(z[..., own], lower.swapaxes(-1, -2))
        return out

    def coordinates(self, sds, effects):
        """The inverse of `effects`."""
        out = np.empty(effects.shape)
        for own, lower in self.factors(sds):
            out[..., own] = _times(effects[..., own], np.linalg.inv(lower).swapaxes(-1, -2))
        return out

    def by_effects(self, sds, by_coordinates):
        """Derivatives by effects, of those by coordinates."""
        out = np.empty(by_coordinates.shape)
        for own, lower in self.factors(sds):
            out[..., own] = _times(by_coordinates[..., own], np.linalg.inv(lower))
        return out

    def log_volume(self, sds):
        """Log determinant of effects by coordinates, (...,)."""
        out = np.zeros(sds.shape[:-1])
        for own, lower in self.factors(sds):
            n = (own.stop - own.start) // lower.shape[-1]
            out += n * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1)
        return out

    def precision(self, sds):
        """Of effects, (m, L, L)."""
        out = np.zeros((len(sds), self.n_effects, self.n_effects))
        for own, lower in self.factors(sds):
            root, q = np.linalg.inv(lower), lower.shape[-1]
            block = root.swapaxes(-1, -2) @ root
            for first in range(own.start, own.stop, q):
                out[:, first : first + q, first : first + q] = block
        return out

    def natural(self, u):
        """Sds, correlations and effects (..., k) of coordinates (..., k)."""
        sds = self.sds.natural(u[..., : self.n_sds])
        return np.concatenate([sds, self.effects(sds, u[..., self.n_sds :])], axis=-1)

    def standard(self, phi):
        """The inverse of `natural`."""
        sds, effects = np.split(phi, [self.n_sds], axis=-1)
        return np.concatenate([self.sds.standard(sds), self.coordinates(sds, effects)], axis=-1)

    def pull_back(self, u, phi, by_phi):
        """See `Dispersions`."""
        n, out = self.n_sds, np.array(by_phi)
        for (some, own, shape), (_, lower) in zip(self._terms, self.factors(phi), strict=True):
            z, by_effects = (one[..., own].reshape(-1, *shape) for one in (u, by_phi))
            out[..., own] = _times(by_phi[..., own], lower)
            by_lower = np.einsum("mla,mlb->mab", by_effects, z)[:, *np.tril_indices(shape[1])]
            of_sds = phi[..., some].reshape(len(z), -1)
            out[..., some] += by_sds(of_sds, by_lower).reshape(phi[..., some].shape)
        out[..., :n] = self.sds.pull_back(u[..., :n], phi[..., :n], out[..., :n])
        return out

    def log_jacobian(self, u):
        """See `Dispersions`."""
        u = u[..., : self.n_sds]
        return self.log_volume(self.sds.natural(u)) + self.sds.log_jacobian(u)


def _times(values, matrix):
    """Effects of levels (..., n q), those of each level times a matrix (..., q, q)."""
    levels = values.reshape(*values.shape[:-1], -1, matrix.shape[-1])
    return (levels @ matrix).reshape(values.shape)
