"""Correlations of effects of a group, and factors of their covariances.

They are lower triangles, row by row, of which two effects have three numbers.
"""

import numpy as np
from scipy.special import betainc, betaincinv, betaln, ndtr, ndtri

_FAR, _LOG_ROOT_TWO_PI = 8.0, 0.5 * np.log(2.0 * np.pi)  # See `skpmd.linear._dispersion`.
_MIN_LEFT = 1e-15  # Of an effect's variance, by which others do not know it.


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


def factor_of(sds):
    """Factors of effects' covariances, of their sds and correlations (..., k).

    They are lower triangles, row by row (..., k) as well.
    """
    q = int(np.sqrt(2 * sds.shape[-1]))
    root = sds[..., :q, None] * root_of_correlations(sds[..., q:], q)
    return root[..., *np.tril_indices(q)]


def by_sds(sds, by_factor):
    """Derivatives by sds and correlations (m, k), of those by factors."""
    q = int(np.sqrt(2 * sds.shape[1]))
    root = root_of_correlations(sds[:, q:], q)
    by_root = np.zeros(root.shape)
    by_root[:, *np.tril_indices(q)] = by_factor
    of_sds = (root * by_root).sum(axis=2)
    return np.hstack([of_sds, by_correlations(root, sds[:, :q], by_root)])
