"""What several factors of normal rows make of all that a likelihood needs, at ratios of variances.

Of rows A = (y, X) whose effects have variances rho_f times that of the noise, these are log det V
and A'V^-1 A, with V = I + sum of rho_f Z_f Z_f'. Both come from sums over levels and pairs of
levels, which are taken once: the factor with most levels is eliminated first, for its levels share
no row, and of all others there is a dense Schur complement. Of few levels they are found for each
particle. Of more, both are smooth in few ratios: particles have them from a table of Chebyshev's
nodes.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import cho_factor, cho_solve, lapack
from scipy.sparse import csr_matrix, diags
from sklearn.utils import gen_batches

_ROWS, TABLE = 1 << 13, 1 << 22  # Rows, and numbers of a table, that are in memory together.
# Levels are few of which a particle takes so many products, times four with each factor, for that
# multiplies nodes of a table by some 17.
_FEW = 1 << 14
MAX_RATIO = 1e10  # Of variances: there is nothing beyond.
_OF_DRAWS = 1e-2  # What effects of levels may lack, in posterior sds.
# A table's error, which is checked, is less than so many nats.
_TOLERANCE, _MAX_ERROR, _CHECKS, _TRIES, _MORE = 1e-4, 3e-3, 3, 4, 3


class _At(NamedTuple):
    """What there is at some ratios of variances."""

    log_det: float  # Of V.
    product: np.ndarray  # (1 + w, 1 + w): A'V^-1 A.
    log_det_by: np.ndarray  # (F,): Derivatives of the first by logs of the ratios.
    product_by: np.ndarray  # (F, 1 + w, 1 + w)
    means: np.ndarray  # (levels, 1 + w): Effects' means are their products with (1, -b).
    variances: np.ndarray  # (levels,): Of effects, over that of the noise.
    further: np.ndarray | None  # What `Sums.at` makes of further right sides.


class Sums:
    """Sums over rows of levels of all factors, pairs of levels, and columns."""

    def __init__(self, model, batch):
        codes = batch.group
        self.sizes = codes.max(axis=0) + 1
        self.ends = np.concatenate([[0], np.cumsum(self.sizes)])
        n_levels, self.of_rows, self.root = self.ends[-1], 0.0, np.empty((0, 0))
        for rows in gen_batches(len(codes), _ROWS):
            X, y, weight = model.known_off((batch, rows))
            scaled = np.column_stack([y, X]) * np.sqrt(weight)[:, None]
            Z = self._levels(codes[rows], np.sqrt(weight))
            self.of_rows = self.of_rows + Z.T @ scaled
            self.root = np.linalg.qr(
                np.concatenate([self.root.reshape(-1, X.shape[1] + 1), scaled]), "r"
            )
        self.weight = batch.weight.sum()
        key, cell = np.unique(np.ravel_multi_index(tuple(codes.T), self.sizes), return_inverse=True)
        of_cell = np.column_stack(np.unravel_index(key, self.sizes))
        self.cells = self._levels(of_cell, np.sqrt(np.bincount(cell, batch.weight)))
        products, G = (self.cells.T @ self.cells).tocsr(), self.sizes[0]
        self.n = products.diagonal()  # Rows of each level.
        self.between, self.others = products[:G, G:], products[G:, G:].toarray()
        self.mean_n = np.add.reduceat(self.n, self.ends[:-1]) / self.sizes
        self.n_levels, L, F = n_levels, len(self.others), len(self.sizes)
        self.are_few = L * L * (G + L) <= _FEW << 2 * F
        self._dense = self.between.toarray() if self.are_few else None

    def _levels(self, codes, values):
        """Rows (n, levels) with a value at the levels of each factor."""
        n, F = codes.shape
        places = (codes + self.ends[:-1]).ravel(), np.arange(0, n * F + 1, F)
        return csr_matrix((np.repeat(values, F), *places), (n, self.ends[-1]))

    def at(self, ratio, further=None):
        """`_At` some ratios (F,), each of the variance of a factor's effects to that of the noise.

        ``further(root)`` are right sides (levels, k) in the units of ``root``, for draws.
        """
        G, root = self.sizes[0], np.sqrt(np.repeat(ratio, self.sizes))
        first = 1.0 + root[:G] ** 2 * self.n[:G]
        cross = diags(root[:G]) @ self.between @ diags(root[G:])
        over = diags(1.0 / first) @ cross
        complement = np.eye(len(root) - G) + root[G:, None] * self.others * root[G:]
        complement -= (cross.T @ over).toarray()
        factor = cho_factor(complement, lower=True, overwrite_a=True)
        inverse = lapack.dpotri(factor[0], lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T

        def solved(right):
            low = cho_solve(factor, right[G:] - over.T @ right[:G])
            return np.concatenate([right[:G] / first[:, None] - over @ low, low])

        right = root[:, None] * self.of_rows
        found, of_inner, over = solved(right), 1.0 / first, over.tocsr()
        for rows in gen_batches(G, max(1, TABLE // len(inverse))):
            of_inner[rows] += np.asarray(over[rows].multiply(over[rows] @ inverse).sum(axis=1))[
                :, 0
            ]
        diagonal = np.concatenate([of_inner, np.diag(inverse)])
        log_det = np.log(first).sum() + 2.0 * np.log(np.diag(factor[0])).sum()
        parts = np.split(found, self.ends[1:-1])
        return _At(
            log_det, self.root.T @ self.root - right.T @ found,
            self.sizes - np.add.reduceat(diagonal, self.ends[:-1]),
            np.array([-part.T @ part for part in parts]), root[:, None] * found,
            root**2 * diagonal,
            None if further is None else root[:, None] * solved(further(root)),
        )  # fmt: skip

    def solved(self, ratios, right):
        """Of few levels, at all ratios (m, F): solutions of `at` of right sides (m, levels, k).

        They are in the units of roots of the ratios, and so are the right sides. Log determinants
        (m,) and diagonals of the inverse (m, levels) come next.
        """
        G, root = self.sizes[0], self.roots(ratios)
        first, cross = 1.0 + root[:, :G] ** 2 * self.n[:G], root[:, :G, None] * self._dense
        cross *= root[:, None, G:]
        over = cross / first[..., None]
        complement = np.eye(len(self.others)) - cross.swapaxes(1, 2) @ over
        complement += root[:, G:, None] * self.others * root[:, None, G:]
        inverse = np.linalg.inv(complement)
        low = inverse @ (right[:, G:] - over.swapaxes(1, 2) @ right[:, :G])
        found = np.concatenate([right[:, :G] / first[..., None] - over @ low, low], axis=1)
        of_inner = 1.0 / first + np.einsum("mgl,mgl->mg", over @ inverse, over)
        diagonal = np.hstack([of_inner, np.diagonal(inverse, axis1=1, axis2=2)])
        return found, np.log(first).sum(axis=1) + np.linalg.slogdet(complement)[1], diagonal

    def roots(self, ratios):
        """Roots (m, levels) of ratios (m, F)."""
        return np.sqrt(np.repeat(ratios, self.sizes, axis=1))

    def parts(self, m):
        """Slices of m particles whose matrices are in memory together."""
        size = self.sizes[0] * (len(self.others) + self.root.shape[1])
        return gen_batches(m, max(1, TABLE // size))


class Exact:
    """log det V and A'V^-1 A of each particle by itself."""

    def __init__(self, sums):
        self.sums = sums

    def products(self, ratios):
        """A'V^-1 A (m, 1 + w, 1 + w) at ratios (m, F)."""
        sums = self.sums
        if not sums.are_few:
            return np.array([sums.at(one).product for one in ratios])
        right = sums.roots(ratios)[..., None] * sums.of_rows
        return sums.root.T @ sums.root - right.swapaxes(1, 2) @ sums.solved(ratios, right)[0]

    def terms(self, ratios, c):
        """c'A'V^-1 A c (m,), log det V (m,) and A'V^-1 A c (m, 1 + w) of vectors c.

        Derivatives of the first two by logs of the ratios come last, (m, 2, F).
        """
        sums, m = self.sums, len(c)
        log_det, by_c = np.empty(m), np.empty(c.shape)
        by_ratio = np.empty((m, 2, ratios.shape[1]))
        for i in range(m if not sums.are_few else 0):
            at = sums.at(ratios[i])
            by_c[i], log_det[i] = at.product @ c[i], at.log_det
            by_ratio[i] = at.product_by @ c[i] @ c[i], at.log_det_by
        for some in sums.parts(m) if sums.are_few else ():
            root = sums.roots(ratios[some])
            right = (root * (c[some] @ sums.of_rows.T))[..., None]
            found, log_det[some], diagonal = sums.solved(ratios[some], right)
            found = found[..., 0]
            by_c[some] = c[some] @ sums.root.T @ sums.root - (root * found) @ sums.of_rows
            by_ratio[some, 0] = -np.add.reduceat(found**2, sums.ends[:-1], axis=1)
            by_ratio[some, 1] = sums.sizes - np.add.reduceat(diagonal, sums.ends[:-1], axis=1)
        return np.einsum("ij,ij->i", by_c, c), log_det, by_c, by_ratio


class _Grid:
    """Nodes of ratios, and the weights that interpolate between them.

    They are Chebyshev's in coordinates log(1 + ratio times rows of a level).
    """

    _beside = np.pi  # So far beside the line are singularities of what is interpolated.

    def __init__(self, sums, low, high, tolerance, more=0):
        self.sums, self.low, self.high = sums, low, high
        far = 2.0 * self._beside / (high - low)
        rate = np.log(far + np.sqrt(far**2 + 1.0))
        n = 2 + more + np.ceil(-np.log(tolerance) / rate).astype(int)
        self._inverses = [np.linalg.inv(chebyshev.chebvander(_nodes(one), one - 1)) for one in n]
        grids = np.meshgrid(*map(_nodes, n), indexing="ij")
        places = low + 0.5 * (high - low) * (1.0 + np.stack([g.ravel() for g in grids], axis=1))
        self.ratios = self.ratios_at(places)

    def at(self, ratios):
        """Coordinates of ratios."""
        return np.log1p(ratios * self.sums.mean_n)

    def ratios_at(self, x):
        """The inverse of `at`."""
        return np.minimum(np.expm1(x) / self.sums.mean_n, MAX_RATIO)

    def holds(self, ratios):
        """Whether ratios (m, F) are between nodes."""
        x = self.at(ratios)
        return ((x >= self.low) & (x <= self.high)).all(axis=1)

    def weights(self, ratios):
        """Weights (m, nodes), and their derivatives by logs of the ratios, (F, m, nodes).

        Ratios that are not between nodes have those of the nearest that are.
        """
        x = np.clip(self.at(ratios), self.low, self.high)
        width = self.high - self.low
        at = np.clip(2.0 * (x - self.low) / width - 1.0, -1.0, 1.0)
        values, slopes = [], []
        for one, inverse in zip(at.T, self._inverses, strict=True):
            terms = chebyshev.chebvander(one, len(inverse) - 1)
            by = np.zeros(inverse.shape)
            by[:-1] = chebyshev.chebder(np.eye(len(inverse)), axis=0)
            values.append(terms @ inverse)
            slopes.append(terms @ by @ inverse)
        by_log = 2.0 / width * -np.expm1(-x)
        all_slopes = [
            by_log[:, [f]]
            * _outer([slopes[g] if g == f else values[g] for g in range(len(values))])
            for f in range(len(values))
        ]
        return _outer(values), np.array(all_slopes)


class Table(_Grid):
    """log det V and A'V^-1 A at nodes of ratios, between which they are interpolated."""

    def __init__(self, sums, low, high, more):
        super().__init__(sums, low, high, _TOLERANCE / sums.n_levels, more)
        found = [sums.at(one) for one in self.ratios]
        self.log_dets = np.array([one.log_det for one in found])
        self._products = np.array([one.product for one in found])

    def products(self, ratios):
        """See `Exact`."""
        return np.tensordot(self.weights(ratios)[0], self._products, 1)

    def terms(self, ratios, c):
        """See `Exact`, which all have that are not between nodes."""
        m, F = ratios.shape
        out = np.empty(m), np.empty(m), np.empty(c.shape), np.empty((m, 2, F))
        holds = self.holds(ratios)
        outside, inside = np.flatnonzero(~holds), np.flatnonzero(holds)
        step = max(1, TABLE // (len(self.ratios) * (1 + F)))
        parts = [(self._between, inside[i : i + step]) for i in range(0, len(inside), step)]
        for of, some in (*parts, (Exact(self.sums).terms, outside)):
            for whole, part in zip(out, of(ratios[some], c[some]), strict=True):
                whole[some] = part
        return out

    def _between(self, ratios, c):
        weights, slopes = self.weights(ratios)
        by_c, squares = np.zeros(c.shape), np.empty(weights.shape)
        for j, product in enumerate(self._products):
            of_node = c @ product
            squares[:, j] = np.einsum("ij,ij->i", of_node, c)
            by_c += weights[:, [j]] * of_node
        by_ratio = np.stack([(slopes * squares).sum(axis=2).T, (slopes @ self.log_dets).T], axis=1)
        return (weights * squares).sum(axis=1), weights @ self.log_dets, by_c, by_ratio


class RootGrid(_Grid):
    """The same for functions of sds, which roots of small ratios are, in a coordinate of these.

    It reaches as far as the ``ratios`` do. There are no derivatives.
    """

    _beside = 0.5 * np.pi

    def __init__(self, sums, ratios):
        self.sums = sums
        x = self.at(ratios)
        super().__init__(sums, x.min(axis=0) - 1e-6, x.max(axis=0) + 1e-6, _OF_DRAWS)

    def at(self, ratios):
        """See `_Grid`."""
        return np.arcsinh(np.sqrt(ratios * self.sums.mean_n))

    def ratios_at(self, x):
        """See `_Grid`."""
        return np.sinh(x) ** 2 / self.sums.mean_n


def _nodes(n):
    return -np.cos(np.pi * np.arange(n) / (n - 1))


def _outer(factors):
    return reduce(lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), factors)


def table_between(sums, low, high):
    """A `Table` between two ends, with more nodes where its error is large."""
    rng = np.random.default_rng(0)
    for attempt in range(_TRIES):
        table, error = Table(sums, low, high, _MORE * attempt), 0.0
        for one in low + rng.random((_CHECKS, len(low))) * (high - low):
            ratio = table.ratios_at(one)
            at, weights = sums.at(ratio), table.weights(ratio[None])[0][0]
            product = np.tensordot(weights, table._products, 1)
            # Relative to the least sum of squares, which is about that of the noise.
            gap = abs(product[0, 0] - at.product[0, 0]) * sums.weight / at.product[0, 0]
            error = max(error, gap, abs(weights @ table.log_dets - at.log_det))
        if error < _MAX_ERROR:
            break
    return table
