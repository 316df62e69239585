"""Normal rows with an identity link and effects of several factors: integrals in closed form.

Of rows A = (y, X) whose effects have variances rho_f times that of the noise, all that a likelihood
needs are log det V and A'V^-1 A, with V = I + sum of rho_f Z_f Z_f'. Both come from sums over
levels and pairs of levels, which are taken once: the factor with most levels is eliminated first,
for its levels share no row, and of all others there is a dense Schur complement. Both are smooth in
few ratios: particles have them from a table of Chebyshev's nodes around the mode.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import cho_factor, cho_solve, lapack
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags
from sklearn.utils import gen_batches

from skpmd.linear._conditional import conditional_components
from skpmd.linear._glm import definite
from skpmd.linear._groups import GroupedModel
from skpmd.linear._priors import precision_matrix

_LOG_TWO_PI = np.log(2.0 * np.pi)
_ROWS, _TABLE = 1 << 13, 1 << 22  # Rows, and numbers of a table, that are in memory together.
_MAX_RATIO, _EXACT = 1e10, 1e9  # Of variances: there is nothing beyond, or y has no noise.
_FAR, _STEP = 6.0, 1e-2  # Coordinates of sds that are looked at, and a step of differences.
# A table reaches as far as so many draws of twice the posterior's sds, or of its own where these
# are wide: what is beyond costs more. Its error, which is checked, is less than so many nats.
_REACH, _FREE, _DRAWS = 2.0, 0.25, 500
_OF_DRAWS = 1e-2  # What effects of levels may lack, in posterior sds.
_TOLERANCE, _MAX_ERROR, _CHECKS, _TRIES, _MORE = 1e-4, 3e-3, 3, 4, 3


class _At(NamedTuple):
    """What there is at some ratios of variances."""

    log_det: float  # Of V.
    product: np.ndarray  # (1 + w, 1 + w): A'V^-1 A.
    log_det_by: np.ndarray  # (F,): Derivatives of the first by logs of the ratios.
    product_by: np.ndarray  # (F, 1 + w, 1 + w)
    means: np.ndarray  # (levels, 1 + w): Effects' means are their products with (1, -b).
    variances: np.ndarray  # (levels,): Of effects, over that of the noise.
    further: np.ndarray | None  # What `_Sums.at` makes of further right sides.


class _Sums:
    """Sums over rows of levels of all factors, pairs of levels, and columns."""

    def __init__(self, model, batch):
        codes = batch.group
        self.sizes = codes.max(axis=0) + 1
        self.ends = np.concatenate([[0], np.cumsum(self.sizes)])
        n_levels, self.of_rows, self.root = self.ends[-1], 0.0, np.empty((0, 0))
        for rows in gen_batches(len(codes), _ROWS):
            X, y, weight = model.design((batch, rows))
            y = y - model.location - (0.0 if batch.offset is None else batch.offset[rows])
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
        self.n_levels = n_levels

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
        for rows in gen_batches(G, max(1, _TABLE // len(inverse))):
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
        return np.minimum(np.expm1(x) / self.sums.mean_n, _MAX_RATIO)

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


class _Table(_Grid):
    """log det V and A'V^-1 A at nodes of ratios, between which they are interpolated."""

    def __init__(self, sums, low, high, more):
        super().__init__(sums, low, high, _TOLERANCE / sums.n_levels, more)
        found = [sums.at(one) for one in self.ratios]
        self.log_dets = np.array([one.log_det for one in found])
        self.products = np.array([one.product for one in found])


class _RootGrid(_Grid):
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


class CrossedNormal(GroupedModel):
    """Normal rows with an identity link and several factors; see `GroupedModel`."""

    remainders = None  # Effects of other factors see all rows.

    def __init__(self, *given):
        super().__init__(*given)
        self._known = {}  # Of copies with other priors, too.

    def table(self, batch, power=1.0):
        """The `_Table` of a batch, and the mode of the posterior in it, which are found once.

        The latter are coefficients, coordinates of sds, and the factor of the covariance of these.
        """
        key = batch.y.ctypes.data, len(batch.y)  # Of these rows, in whatever precision.
        if self._known.get("key") != key:
            sums = _Sums(self, batch)
            self._known.update(key=key, y=batch.y, table=_Search(self, sums, power).table())
        return self._known["table"]

    @property
    def sizes(self):
        """Levels of each factor in the rows whose table is known, (F,)."""
        return self._known["table"][0].sums.sizes

    def starts(self, batches):
        """The mode of sds and coefficients; see `LinearModel`."""
        if not self.prior.has_gaussian:
            return [np.zeros(self.n_coordinates)]
        return [np.concatenate(self.table(next(iter(batches)))[1][:2])]

    n_levels = 0  # That are coordinates.

    def sds_of_levels(self, hyper):
        """None; see `CrossedModel`."""
        return np.ones((len(hyper), 0))

    def conditional_components(self, batches, power):
        """Proposals given sds, of which coefficients are normal, and their shares."""
        table, (mean, *of_h) = self.table(next(iter(batches)), power)
        w, prior = len(mean), self.prior
        slope, precision = prior.expected(np.append(mean, of_h[0]), None)
        precision = precision_matrix(precision)[:w, :w]
        slope = slope[:w] + precision @ mean

        def given(h):
            phi = self.family.dispersions.natural(h)
            ratios = ratios_of(phi[:, 0], phi[:, 1:])
            step = max(1, _TABLE // (w + 1) ** 2)
            for some in gen_batches(len(h), step):
                product = np.tensordot(table.weights(ratios[some])[0], table.products, 1)
                product *= (power / phi[some, 0] ** 2)[:, None, None]
                yield some, slope + product[:, 1:, 0], precision + product[:, 1:, 1:]

        return conditional_components(self, batches, power, of_h, given)

    def split(self, coefficients):
        """Coefficients (m, w), the sd of the noise (m,) and those of effects (m, F)."""
        k = len(self.family.dispersions.names)
        phi = self.family.dispersions.natural(coefficients[:, -k:])
        return coefficients[:, :-k], phi[:, 0], phi[:, 1:]

    def _add_sums(self, coefficients, order, batches, total, gradient):
        for batch in batches:
            table, _ = self.table(batch)
            slopes, noise, sds = self.split(coefficients)
            c = np.column_stack([np.ones(len(slopes)), -slopes])
            ratios = ratios_of(noise, sds)
            squares, log_det = np.empty(len(c)), np.empty(len(c))
            by_c, by_ratio = np.empty(c.shape), np.empty((2, sds.shape[1], len(c)))
            holds = table.holds(ratios)
            self._between(table, ratios, c, holds, (squares, log_det, by_c, by_ratio))
            for i in np.flatnonzero(~holds):
                at = table.sums.at(ratios[i])
                by_c[i], log_det[i] = at.product @ c[i], at.log_det
                squares[i], by_ratio[1, :, i] = by_c[i] @ c[i], at.log_det_by
                by_ratio[0, :, i] = at.product_by @ c[i] @ c[i]
            n, variance = table.sums.weight, noise**2
            total -= 0.5 * (squares / variance + log_det + n * np.log(variance))
            total -= n * (0.5 * _LOG_TWO_PI + self.log_unit)
            if not order:
                continue
            w, by_log = slopes.shape[1], -(by_ratio[0] / variance + by_ratio[1])
            gradient[:, :w] += by_c[:, 1:] / variance[:, None]
            by_noise = (squares / variance - n - by_log.sum(axis=0)) / noise
            by_phi = np.column_stack([by_noise, by_log.T / sds])
            phi = np.column_stack([noise, sds])
            dispersions = self.family.dispersions
            gradient[:, w:] += dispersions.pull_back(coefficients[:, w:], phi, by_phi)

    def _between(self, table, ratios, c, some, out):
        """Write sums of particles that are between nodes."""
        if not some.any():
            return
        weights, slopes = table.weights(ratios[some])
        c, by_c, squares = c[some], np.zeros(c[some].shape), np.empty(weights.shape)
        for j, product in enumerate(table.products):
            of_node = c @ product
            squares[:, j] = np.einsum("ij,ij->i", of_node, c)
            by_c += weights[:, [j]] * of_node
        out[0][some], out[1][some] = (weights * squares).sum(axis=1), weights @ table.log_dets
        out[2][some], out[3][0][:, some] = by_c, (slopes * squares).sum(axis=2)
        out[3][1][:, some] = slopes @ table.log_dets

    def effects(self, coefficients, batch, rng):
        """Means and mean squares (levels,) of effects given particles, and draws (levels, m).

        Draws are right sides of the equations of means with noise (Papandreou and Yuille 2010),
        which change with the ratios as smoothly as these: they are interpolated, too.
        """
        (slopes, noise, sds), (table, _) = self.split(coefficients), self.table(batch)
        sums, m = table.sums, len(noise)
        grid = _RootGrid(sums, ratios_of(noise, sds))
        weights, _ = grid.weights(ratios_of(noise, sds))
        c = np.column_stack([np.ones(m), -slopes]).T
        of_prior, of_rows = rng.standard_normal((sums.n_levels, m)), np.zeros((sums.n_levels, m))
        for rows in gen_batches(sums.cells.shape[0], max(1, _TABLE // m)):
            some = sums.cells[rows]
            of_rows += some.T @ rng.standard_normal((some.shape[0], m))
        centre, draws, variance = np.zeros(of_rows.shape), np.zeros(of_rows.shape), 0.0
        for ratio, weight in zip(grid.ratios, weights.T, strict=True):
            at = sums.at(ratio, lambda root: root[:, None] * of_rows + of_prior)
            centre += at.means @ (c * weight)
            draws += at.further * weight
            variance = variance + at.variances * np.mean(weight * noise**2)
        return centre.mean(axis=1), (centre**2).mean(axis=1) + variance, centre + noise * draws


def ratios_of(noise, sds):
    """Ratios of variances, (m, F)."""
    return np.clip((sds / noise[:, None]) ** 2, 1e-30, _MAX_RATIO)


class _Search:
    """The mode of the coordinates of sds, over coefficients, and the table around it."""

    def __init__(self, model, sums, power):
        self._model, self._sums, self._power = model, sums, power
        w = sums.root.shape[1] - 1
        prior = model.prior
        if prior.has_gaussian:
            zero = np.zeros(prior.n_coordinates)
            precision = precision_matrix(prior.expected(zero, None)[1])[:w, :w]
        else:
            precision = np.eye(w) / prior.global_scale**2
        self._precision = precision

    def _value(self, u):
        """Less the log density, its gradient (k,), and coefficients' means."""
        dispersions = self._model.family.dispersions
        phi = dispersions.natural(u[None])
        ratio, power = ratios_of(phi[:, 0], phi[:, 1:])[0], self._power
        at, n, variance = self._sums.at(ratio), power * self._sums.weight, phi[0, 0] ** 2 / power
        precision = at.product[1:, 1:] / variance + self._precision
        factor = cho_factor(precision, lower=True)
        mean = cho_solve(factor, at.product[1:, 0] / variance)
        cov = cho_solve(factor, np.eye(len(mean)))
        c = np.append(1.0, -mean)
        squares = c @ at.product @ c / variance
        value = squares + power * at.log_det + n * np.log(variance) + mean @ self._precision @ mean
        value += 2.0 * np.log(np.diag(factor[0])).sum() + u @ u
        by_log = at.product_by @ c @ c + np.einsum("fij,ij->f", at.product_by[:, 1:, 1:], cov)
        by_log = by_log / variance + power * at.log_det_by
        of_cov = np.sum(at.product[1:, 1:] * cov) / variance
        by_noise = 2.0 * (n - squares - of_cov - by_log.sum()) / phi[0, 0]
        by_phi = np.append(by_noise, 2.0 * by_log / phi[0, 1:])
        return 0.5 * value, 0.5 * dispersions.pull_back(u[None], phi, by_phi[None])[0] + u, mean

    def table(self):
        """The `_Table` around the mode, and what that is; see `CrossedNormal.table`."""
        k = len(self._model.family.dispersions.names)
        start = self._model.family.dispersions.standard(np.append(0.7, np.full(k - 1, 0.5)))
        bounds = [(-_FAR, _FAR)] * k
        found = minimize(lambda u: self._value(u)[:2], start, jac=True, method="L-BFGS-B",
                         bounds=bounds, options={"ftol": 1e-9, "gtol": 1e-2})  # fmt: skip
        mode = found.x
        at_mode = self._model.family.dispersions.natural(mode[None])
        is_exact = ratios_of(at_mode[:, 0], at_mode[:, 1:]).max() > _EXACT
        if is_exact or mode[0] < 0.1 - _FAR:
            raise ValueError(
                "y is an exact function of the columns and the groups, which leaves nothing to "
                "learn sigma from: its posterior is improper. Leave out a factor of groups, or the "
                "columns that y was computed from."
            )
        rows = [self._value(mode + side * _STEP * one)[1] for one in np.eye(k) for side in (1, -1)]
        hessian = np.subtract(rows[::2], rows[1::2]) / (2.0 * _STEP)
        cov = np.linalg.inv(definite(0.5 * (hessian + hessian.T)))
        chol, z = np.linalg.cholesky(cov), np.random.default_rng(0).standard_normal((_DRAWS, k))
        reach = np.where(np.sqrt(np.diag(cov)) > _FREE, 1.0, _REACH)
        draws = mode + reach * (z @ chol.T)
        phi = self._model.family.dispersions.natural(np.clip(draws, -_FAR, _FAR))
        x = np.log1p(ratios_of(phi[:, 0], phi[:, 1:]) * self._sums.mean_n)
        low, high = x.min(axis=0), x.max(axis=0) + 1e-6
        return self._checked(low, high), (self._value(mode)[2], mode, chol)

    def _checked(self, low, high):
        """A table between two ends, with more nodes where its error is large."""
        sums, rng = self._sums, np.random.default_rng(0)
        for attempt in range(_TRIES):
            table, error = _Table(sums, low, high, _MORE * attempt), 0.0
            for one in low + rng.random((_CHECKS, len(low))) * (high - low):
                ratio = table.ratios_at(one)
                at, weights = sums.at(ratio), table.weights(ratio[None])[0][0]
                product = np.tensordot(weights, table.products, 1)
                # Relative to the least sum of squares, which is about that of the noise.
                gap = abs(product[0, 0] - at.product[0, 0]) * sums.weight / at.product[0, 0]
                error = max(error, gap, abs(weights @ table.log_dets - at.log_det))
            if error < _MAX_ERROR:
                break
        return table
