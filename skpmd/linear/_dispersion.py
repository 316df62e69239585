"""Dispersions of families as monotone functions of standard normal coordinates.

The prior of a dispersion is that of the function's values, so that every coordinate beyond the
coefficients has the prior N(0, 1): priors, densities and streams need to know nothing of it.
"""

from functools import partial

import numpy as np
from scipy.special import (
    betainc,
    betaincinv,
    betaln,
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

_FAR = 8.0  # Beyond is a mass of 1e-15, and functions are flat.
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
_MIN_LEFT = 1e-15  # Of an effect's variance, by which others do not know it.


class Dispersions:
    """Some dispersions, each a function of a coordinate of its own.

    Parameters
    ----------
    names : tuple of str
        What users call them.
    laws : tuple
        Distributions on positive numbers: `HalfStudentT`, `Gamma` or `RootHalfNormal`.
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


def root_of_correlations(given, q):
    """Lower triangular roots (..., q, q) of matrices of correlations, given row by row."""
    root, given = np.zeros((*given.shape[:-1], q, q)), iter(np.moveaxis(given, -1, 0))
    root[..., 0, 0] = 1.0
    for i in range(1, q):
        for j in range(i):
            known = (root[..., i, :j] * root[..., j, :j]).sum(axis=-1)
            root[..., i, j] = (next(given) - known) / root[..., j, j]
        left = 1.0 - (root[..., i, :i] ** 2).sum(axis=-1)
        root[..., i, i] = np.sqrt(np.maximum(left, _MIN_LEFT))
    return root


def by_correlations(root, sds, by_root):
    """Derivatives by correlations (m, k), of those by a root (m, q, q) times ``sds`` (m, q)."""
    q, out = root.shape[-1], []
    more = np.zeros(root.shape)  # By the root itself, of correlations with effects further on.
    for i in range(q - 1, 0, -1):
        ratio = root[:, i, :i] / root[:, i, i : i + 1]
        by = sds[:, i : i + 1] * (by_root[:, i, :i] - ratio * by_root[:, i, i : i + 1])
        by += more[:, i, :i] - ratio * more[:, i, i : i + 1]
        for j in range(i - 1, -1, -1):
            one = by[:, j] / root[:, j, j]
            by[:, :j] -= one[:, None] * root[:, j, :j]
            more[:, j, : j + 1] -= one[:, None] * root[:, i, : j + 1]
            out.append(one)
    return np.stack(out[::-1], axis=1) if out else np.empty((len(root), 0))


class Correlations:
    """Correlations of q effects, row by row: each matrix of them is as probable, LKJ(1).

    Coordinates are those of partial correlations given the effects before both, a C-vine, which are
    independent beta variates on -1 to 1 (Lewandowski, Kurowicka and Joe 2009).
    """

    def __init__(self, names, q):
        self.names, self._q = names, q
        self._places = np.tril_indices(q, -1)
        self._shape = 0.5 * (q - self._places[1])  # Beta(a, a), by the first of both effects.
        n = np.arange(1.0, q)
        self._log_volume = (n * (n * np.log(2.0) + betaln(0.5 * n + 0.5, 0.5 * n + 0.5))).sum()

    def natural(self, u):
        """Correlations (..., k) of coordinates (..., k)."""
        root = self._root(self._partial(u))[0]
        return (root @ root.swapaxes(-1, -2))[..., self._places[0], self._places[1]]

    def standard(self, phi):
        """The inverse of `natural`."""
        root, out = root_of_correlations(phi, self._q), np.empty(np.shape(phi))
        for k, (i, j) in enumerate(zip(*self._places, strict=True)):
            left = 1.0 - (root[..., i, :j] ** 2).sum(axis=-1)
            below = 0.5 * (1.0 + root[..., i, j] / np.sqrt(np.maximum(left, _MIN_LEFT)))
            a = self._shape[k]
            out[..., k] = ndtri(below if a == 1.0 else betainc(a, a, np.clip(below, 0.0, 1.0)))
        return np.clip(out, -_FAR, _FAR)

    def pull_back(self, u, phi, by_phi):
        """See `Dispersions`."""
        partial = self._partial(u)
        (root, left), by = self._root(partial), np.zeros((*np.shape(u)[:-1], self._q, self._q))
        by[..., self._places[0], self._places[1]] = by_phi
        by, rest = (by + by.swapaxes(-1, -2)) @ root, np.maximum(1.0 - partial**2, _MIN_LEFT)
        out = np.empty(np.shape(u))
        for k in range(len(self.names) - 1, -1, -1):
            i, j = self._places[0][k], self._places[1][k]
            by_left = by[..., i, i] if j == i - 1 else by_left  # noqa: F821
            p, sine = partial[..., k], np.sqrt(rest[..., k])
            out[..., k] = left[..., i, j] * (by[..., i, j] - by_left * p / sine)
            by_left = by[..., i, j] * p + by_left * sine
        a = self._shape
        log_density = (a - 1.0) * np.log(0.25 * rest) - betaln(a, a) - np.log(2.0)
        log_slope = -0.5 * u**2 - _LOG_ROOT_TWO_PI - log_density
        return out * np.exp(np.where(np.abs(u) < _FAR, log_slope, -np.inf))

    def log_jacobian(self, u):
        """See `Dispersions`: what is N(0, I) becomes uniform."""
        out = -0.5 * u**2 - _LOG_ROOT_TWO_PI
        return np.where(np.abs(u) < _FAR, out, -np.inf).sum(axis=-1) + self._log_volume

    def _partial(self, u):
        """Partial correlations (..., k)."""
        below = ndtr(np.clip(u, -_FAR, _FAR))
        quantile = np.where(self._shape == 1.0, below, betaincinv(self._shape, self._shape, below))
        return 2.0 * quantile - 1.0

    def _root(self, partial):
        """Roots (..., q, q), and what effects before leave of each row's length."""
        root = np.zeros((*partial.shape[:-1], self._q, self._q))
        left = np.ones(root.shape)
        root[..., 0, 0] = 1.0
        for k, (i, j) in enumerate(zip(*self._places, strict=True)):
            p = partial[..., k]
            root[..., i, j] = p * left[..., i, j]
            left[..., i, j + 1] = left[..., i, j] * np.sqrt(np.maximum(1.0 - p**2, _MIN_LEFT))
            root[..., i, i] = left[..., i, i]
        return root, left


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

    An effect is its factor's sd times a coordinate.
    """

    def __init__(self, sds, factors):
        self.sds, self._n = sds, len(sds.names)
        self._of = np.repeat(np.arange(1, self._n), [len(one.labels) for one in factors])
        effects = [f"u[{one.factor}:{label}]" for one in factors for label in one.labels.tolist()]
        self.n_effects = len(effects)
        self.names = (*sds.names, *(name.replace(".0]", "]") for name in effects))

    def natural(self, u):
        """Sds and effects (..., k) of coordinates (..., k)."""
        sds = self.sds.natural(u[..., : self._n])
        return np.concatenate([sds, sds[..., self._of] * u[..., self._n :]], axis=-1)

    def standard(self, phi):
        """The inverse of `natural`."""
        sds = phi[..., : self._n]
        z = phi[..., self._n :] / sds[..., self._of]
        return np.concatenate([self.sds.standard(sds), z], axis=-1)

    def pull_back(self, u, phi, by_phi):
        """See `Dispersions`."""
        n, by_effects = self._n, by_phi[..., self._n :]
        by_sds = by_phi[..., :n].copy()
        for f in range(1, n):
            by_sds[..., f] += (by_effects * u[..., n:])[..., self._of == f].sum(axis=-1)
        by_u = self.sds.pull_back(u[..., :n], phi[..., :n], by_sds)
        return np.concatenate([by_u, by_effects * phi[..., self._of]], axis=-1)

    def log_jacobian(self, u):
        """See `Dispersions`."""
        sds = self.sds.natural(u[..., : self._n])
        of_effects = np.log(sds[..., self._of]).sum(axis=-1)
        return of_effects + self.sds.log_jacobian(u[..., : self._n])
