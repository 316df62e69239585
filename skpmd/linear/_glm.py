"""Generalised linear models: rows of a family, seen through one linear predictor and dispersions.

theta is the coefficients, an intercept last of them, and then a standard normal coordinate for each
dispersion (`skpmd.linear._dispersion`). A Gaussian over theta gives each row a normal predictor
whose mean and variance depend on the dispersions. Rules over both give expected gradients, and by
Stein's identity, E[f'(u)] = E[f(u) (u - mean)] / variance, expected second derivatives in the
dispersions, of which no kernel has any; at a point they are differences.
"""

from functools import cache, partial, reduce
from itertools import product

import numpy as np
from scipy.sparse import issparse

from skpmd._base.utils import warn
from skpmd._rows.rows import stacked_rows
from skpmd._runtime.threads import add_up, in_order
from skpmd.engine.model import Batch
from skpmd.linear._design import LinearModel, cubed, gauss_hermite, pieces
from skpmd.linear._family import LINKS
from skpmd.linear._priors import precision_matrix

_STEP = 1e-4  # Of differences in dispersions at a point, in prior sds.
_NODES, _WIDE_NODES, _WIDE = 7, 24, 1.0  # Of predictors; more where their sds are larger.
_WIDE_STEP = 0.1  # Of third differences, in posterior sds.
# Starts see so many rows. Of robust fits: how many begin, steps of each, and how many go on.
_START_ROWS, _STARTS, _CONCENTRATIONS, _BEST = 400, 20, 3, 2
# Rounds of a start's search, nats that one has to gain, and what it tries of a dispersion.
_ROUNDS, _GAIN, _GRID, _FINE = 40, 0.1, np.linspace(-7.0, 7.0, 57), np.linspace(-0.2, 0.2, 9)
_EXACT = 1e-10  # Rows that are as near to a linear function, relative to y, are on it.
MIN_CURVATURE = 1e-4  # Of a standardised direction in which a log density is not concave.


class GeneralisedLinearModel(LinearModel):
    """A family's likelihood of one linear predictor under a prior on coefficients.

    Of batches it reads ``offset``, a known part of the predictor, and ``exposure``, which are the
    trials of a family that has them.

    ``location`` is the predictor where all coefficients, and the intercept, are zero, ``log_unit``
    the log of the unit that y is in, which the log density is not per; see also `LinearModel`.
    """

    def __init__(self, prior, fit_intercept, family, location=0.0, log_unit=0.0, shift=None):
        super().__init__(prior, fit_intercept, shift)
        self.family, self.location, self.log_unit = family, location, log_unit

    def known_part(self, batch):
        """All columns are read; see `LinearModel`."""
        return batch

    def log_likelihood(self, theta, batch):
        """Weighted sum over the rows of log p(y | predictor, dispersions); see `Model`."""
        coefficients, total = self.prior.coefficients(theta), np.zeros(len(theta))
        self._add_sums(coefficients, 0, [batch], total, None)
        return total

    def by_row(self, coefficients, X, y, weight, offset, size):
        """Log density of each row under each particle, (m, n), of columns as of a `Batch`."""
        batch = Batch(X, y, weight, offset=offset, exposure=size)
        u, slopes = self._parts(coefficients)
        phi, out = self.family.dispersions.natural(u), np.zeros((len(y), len(coefficients)))
        by_phi = np.zeros(phi.shape)  # Of order 0 nothing is added.
        for _, _, rows in self._places(len(phi), [batch]):
            table = np.ascontiguousarray(self._predictors(slopes, batch, rows).T)
            for j, predictors in zip(range(len(y))[rows], table, strict=True):
                row = slice(j, j + 1)
                self._evaluate(predictors[:, None], batch, row, phi, (out[j], by_phi, _NOTHING, 0))
                columns = self._columns(batch, row)
                out[j] += self.family.rest(phi, *columns) - weight[j] * self.log_unit
        return out.T

    def _parts(self, coefficients):
        """Coordinates of dispersions, and coefficients without them."""
        width = coefficients.shape[1] - len(self.family.dispersions.names)
        return coefficients[:, width:], coefficients[:, :width]

    def _add_gradient(self, coefficients, differentiate, batches, total, gradient):
        """Add log-likelihoods (m,) of the batches, and their gradients by coefficients."""
        self._add_sums(coefficients, 1, batches, total, gradient)

    def _add_sums(self, coefficients, order, batches, total, gradient):
        u, slopes = self._parts(coefficients)
        width, k = slopes.shape[1], u.shape[1]
        phi = self.family.dispersions.natural(u)
        by_phi = np.zeros(phi.shape)

        def of(place):
            some, batch, rows = place
            table = self._predictors(slopes[some], batch, rows)
            part, of_phi = np.zeros(len(table)), np.zeros((len(table), k))
            self._evaluate(table, batch, rows, phi[some], (part, of_phi, _NOTHING, order))
            by_slopes = self.by_coefficients(table, batch.X[rows]) if order else None
            return some, part, of_phi, by_slopes

        for some, part, of_phi, by_slopes in in_order(of, self._places(len(u), batches)):
            total[some] += part
            if order:
                by_phi[some] += of_phi
                gradient[some, :width] += by_slopes
        for batch in batches:
            columns = self._columns(batch, slice(None))
            total += self.family.rest(phi, *columns) - columns[-1].sum() * self.log_unit
            if order:
                by_phi += self.family.rest_by_phi(phi, *columns)
        if order:
            gradient[:, width:] += self.family.dispersions.pull_back(u, phi, by_phi)

    def _predictors(self, coefficients, batch, rows):
        """Linear predictors (m, n) in double precision."""
        X = batch.X[rows]
        slopes = coefficients[:, : X.shape[1]]
        of_dtype = slopes.astype(X.dtype, copy=False)
        table = (X @ of_dtype.T).T if issparse(X) else of_dtype @ X.T
        table = np.ascontiguousarray(table, dtype=np.float64)
        base = self.location + (coefficients[:, -1] if self.fit_intercept else 0.0)
        if self.shift_of(X) is not None:
            base = base - slopes @ self.shift
        table += np.broadcast_to(base, len(table))[:, None]
        if batch.offset is not None:
            table += batch.offset[rows]
        return table

    def _columns(self, batch, rows):
        """y, sizes and weights of some rows, as kernels take them."""
        y = np.array(batch.y[rows], dtype=np.float64)
        size = None if batch.exposure is None else np.array(batch.exposure[rows], dtype=np.float64)
        return y, self.family.sizes(y, size), np.array(batch.weight[rows])

    def _evaluate(self, table, batch, rows, phi, out):
        """Let the family's kernel do what ``out`` asks for."""
        columns = self._columns(batch, rows)
        self.family.kernel(table, *columns, np.ascontiguousarray(phi), self.family.code, *out)

    # ------------------------------------------------------------------- where searches begin
    @property
    def is_log_concave(self):
        """Whether a search for the mode may begin anywhere."""
        return not len(self.family.dispersions.names) or self.family.has_cutpoints

    @property
    def has_poles(self):
        """Whether a density without spread is infinite at a row of its own mean."""
        has_spread = bool(self.family.dispersions.names)
        return has_spread and self.family.kind not in ("count", "class")

    def is_met(self, batches):
        """Whether coefficients can meet all rows, so that the joint density has no bound.

        That is a pole of next to no mass, which no search for a mode leaves.
        """
        w = self.n_coordinates - len(self.family.dispersions.names)
        return sum(len(batch.weight) for batch in batches) <= w

    def starts(self, batches):
        """Points near modes, for a density with dispersions is not concave far from them.

        Some rows tell of them. Coefficients and dispersions are searched in turn, by values. Of a
        family with outliers several fits begin, for least squares may be a mode of next to no mass.
        """
        zero = np.zeros(self.n_coordinates)
        if self.is_log_concave or not self.prior.has_gaussian:
            return [zero]
        some = self._some_rows(batches)
        fits = self._robust_fits(some) if self.family.has_outliers else [()]
        return [self._climbed(np.append(fit, zero[len(fit) :]), some) for fit in fits]

    def look_for_exact_rows(self, batches):
        """Warn or raise where a linear function meets more rows than it has coefficients.

        A density without spread has no bound there, and the posterior of the dispersion no
        integral: of n rows and w coefficients it is that of sigma^(w - n) near zero. Coefficients
        of real y are found all the same, as scikit-learn expects; it is an error for other y.
        Returns whether it has warned.
        """
        family, fit = self.family, None
        for batch in [self._some_rows(batches), *batches]:
            # Nothing below 0 is exact under a log link.
            with np.errstate(divide="ignore", invalid="ignore"):
                y = LINKS[family.link].predictor(np.asarray(batch.y, dtype=np.float64))
            y = y - self.location - (0.0 if batch.offset is None else batch.offset)
            for piece in pieces([batch], self.table_size, self.n_coordinates):
                design, _, weight = self.design(piece)
                target, heavy = y[piece[1]], weight > 0.0
                if not np.isfinite(target).all():
                    return False
                if fit is None:
                    fit, _, rank, _ = np.linalg.lstsq(design[heavy], target[heavy])
                    if rank == heavy.sum():
                        return False
                gap = np.abs(target - design @ fit)[heavy].max(initial=0.0)
                if not gap <= _EXACT * np.abs(target).max(initial=0.0):
                    return False
        name = family.dispersions.names[0]
        message = (
            f"y is an exact function of the columns under family={family.name!r} (constant, say), "
            f"which leaves nothing to learn {name} from: its posterior is improper, with all mass "
            "where rows have no spread. Leave out the columns that y was computed from, and fit "
            "no y that is constant."
        )
        if not family.is_real:
            raise ValueError(message)
        warn(f"{message} Do not trust this posterior.")
        return True

    def _some_rows(self, batches):
        """A batch of some rows, which weigh as much as all."""
        left = max(1, _START_ROWS // max(1, len(batches)))
        found, total = [], 0.0
        for batch in batches:
            n = len(batch.weight)
            found.append(batch.take(np.unique(np.linspace(0, n - 1, min(n, left)).astype(int))))
            total += batch.weight.sum()
        some = reduce(stacked_rows, found)
        return some._replace(weight=some.weight * (total / some.weight.sum()))

    def _climbed(self, theta, some):
        """A point that is higher than ``theta``: coordinates of dispersions, and Newton's steps."""
        k = len(self.family.dispersions.names)
        w = len(theta) - k

        def best(points):
            nonlocal value
            values = self.log_prior(points) + self.log_likelihood(points, some)
            value = np.nanmax(values)
            return points[np.nanargmax(values)]

        value, before = -np.inf, -np.inf

        # All dispersions together: a scale among outliers depends on how many these may be.
        table = np.stack(np.meshgrid(*[_GRID[::4]] * k), axis=-1).reshape(-1, k)
        theta = best(np.hstack([np.tile(theta[:w], (len(table), 1)), table]))
        for _ in range(_ROUNDS):
            if value - before < _GAIN:
                break
            before = value
            for j, grid in product(range(w, len(theta)), (_GRID, _FINE)):
                move = np.zeros((len(grid), len(theta)))
                move[:, j] = grid - (theta[j] if grid is _GRID else 0.0)
                theta = best(theta + move)
            gradient, precision = self.gaussian_target(theta, None, [some])
            move = np.linalg.solve(precision[:w, :w], gradient[:w])
            lengths = np.append(0.5 ** np.arange(12.0), 0.0)
            theta = best(theta + np.pad(np.outer(lengths, move), ((0, 0), (0, len(theta) - w))))
        return theta

    def _robust_fits(self, some):
        """Coefficients by least squares, and by least trimmed squares from few rows each.

        Steps take the better half of all rows (Rousseeuw and Van Driessen 2006).
        """
        design, y, _ = self.design((some, slice(None)))
        y = y - self.location - (0.0 if some.offset is None else some.offset)
        n, w = design.shape
        rng, found = np.random.default_rng(0), []
        half = max(n // 2 + 1, min(w + 1, n))
        for _ in range(_STARTS):
            chosen = rng.choice(n, min(w + 1, n), replace=False)
            for _ in range(_CONCENTRATIONS):
                fit = np.linalg.lstsq(design[chosen], y[chosen])[0]
                chosen = np.argsort(np.abs(y - design @ fit), kind="stable")[:half]
            found.append((np.sort((y - design @ fit) ** 2)[:half].sum(), fit))
        found.sort(key=lambda one: one[0])
        return [np.linalg.lstsq(design, y)[0], *(fit for _, fit in found[:_BEST])]

    # ------------------------------------------------------------------- under a Gaussian
    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Arguments and results are as in `OneLogit.gaussian_target`. Where the Hessian is not
        negative definite, as of Student's distribution far from a mode, directions of the wrong
        sign are turned over.
        """
        gradient, hessian = self._target(mean, cov, batches, b)
        return gradient, definite(hessian)

    def derivatives(self, mean, batches):
        """As they are, of whatever sign; see `LinearModel`."""
        return self._target(mean, None, batches, 1.0)

    def _target(self, mean, cov, batches, b):
        sd = None if cov is None else np.sqrt(np.diag(cov))
        gradient, precision = self.prior.expected(mean, sd)
        nodes = Nodes(mean, cov, len(self.family.dispersions.names))
        return add_up(
            partial(self._add_target, nodes, b), batches, gradient, precision_matrix(precision)
        )

    def _add_target(self, nodes, b, batches, gradient, hessian):
        """Add what the rows of the batches make of it."""
        k, dispersions = nodes.z.shape[1], self.family.dispersions
        w = len(gradient) - k
        phi = dispersions.natural(nodes.u)

        def of(piece):
            batch, rows = piece
            X, s, centre, spread = self._moments(nodes, piece)
            t, weights = nodes.rule(spread)
            weights = np.outer(nodes.weights, weights).ravel()
            z, u = np.repeat(nodes.z, len(t), axis=0), np.repeat(nodes.u, len(t), axis=0)
            phi_of = np.repeat(phi, len(t), axis=0)
            table = (centre + (nodes.u - nodes.mean_u) @ s.T)[:, None] + t[:, None] * spread
            table = np.ascontiguousarray(table.reshape(len(u), -1))
            curvature, of_phi = np.empty(table.shape), np.zeros(phi_of.shape)
            self._evaluate(table, batch, rows, phi_of, (np.zeros(len(u)), of_phi, curvature, 2))
            slope, curve = weights @ table, weights @ curvature
            by_u = dispersions.pull_back(u, phi_of, of_phi)
            by_both = (weights[:, None] * z).T @ table
            by_both = by_both.T @ nodes.inverse + curve[:, None] * s
            twice = (weights[:, None] * by_u).T @ z @ nodes.inverse - by_both.T @ s
            first = np.concatenate([X.T @ slope, weights @ by_u])
            return first, (X.T * curve) @ X, X.T @ by_both, twice

        each = pieces(batches, self.table_size, nodes.n_numbers)
        for first, of_slopes, of_both, twice in in_order(of, each):
            gradient += b * first
            hessian[:w, :w] += b * of_slopes
            hessian[:w, w:] -= b * of_both
            hessian[w:, :w] -= b * of_both.T
            hessian[w:, w:] -= 0.5 * b * (twice + twice.T)
        for batch in batches if k else ():
            by_phi = self.family.rest_by_phi(phi, *self._columns(batch, slice(None)))
            by_u = b * dispersions.pull_back(nodes.u, phi, by_phi)
            gradient[w:] += nodes.weights @ by_u
            twice = (nodes.weights[:, None] * by_u).T @ nodes.z @ nodes.inverse
            hessian[w:, w:] -= 0.5 * (twice + twice.T)

    def _moments(self, nodes, piece):
        """Design, slopes in dispersions, and means and sds of the predictors of a piece's rows."""
        batch, rows = piece
        X, *_ = self.design(piece)
        centre = X @ nodes.mean + self.location
        if batch.offset is not None:
            centre = centre + batch.offset[rows]
        spread = np.zeros(len(X))
        if nodes.rest is not None:
            spread = np.sqrt(np.maximum(np.einsum("ij,ij->i", X @ nodes.rest, X), 0.0))
        return X, X @ nodes.slope, centre, spread

    def remainders(self, mean, chol, batch):
        """Sizes (n,) of what a quadratic lacks of each row; see `OneLogit.remainders`.

        Squared slopes are large, too, of rows far out that dispersions depend on.
        """
        w = len(mean) - len(self.family.dispersions.names)
        phi = self.family.dispersions.natural(mean[None, w:])
        nodes = Nodes(mean[:w], None, 0)

        def of(piece):
            X, _, centre, _ = self._moments(nodes, piece)
            slope, curvature, of_phi = (
                centre[None].copy(),
                np.empty((1, len(X))),
                np.zeros(phi.shape),
            )
            self._evaluate(slope, *piece, phi, (np.zeros(1), of_phi, curvature, 2))
            weight = batch.weight[piece[1]]
            return (np.abs(curvature[0]) + slope[0] ** 2 / weight) * cubed(X @ chol[:w])

        return np.concatenate(list(in_order(of, pieces([batch], self.table_size, nodes.n_numbers))))

    def third_derivatives(self, mean, chol, batches):
        """For each piece whitened rows and the expected third derivatives by their predictors."""
        k = len(self.family.dispersions.names)
        w = len(mean) - k
        phi = self.family.dispersions.natural(mean[None, w:])
        nodes = Nodes(mean[:w], chol[:w] @ chol[:w].T, 0)

        def of(piece):
            batch, rows = piece
            X, _, centre, spread = self._moments(nodes, piece)
            spread = np.maximum(spread, 1e-3)
            t, weights = nodes.rule(spread)
            table = centre + t[:, None] * spread
            curvature, of_phi = np.empty(table.shape), np.zeros((len(t), k))
            phi_of = np.repeat(phi, len(t), axis=0)
            self._evaluate(table, batch, rows, phi_of, (np.zeros(len(t)), of_phi, curvature, 2))
            return X @ chol[:w], -((weights * t) @ curvature) / spread

        return in_order(of, pieces(batches, self.table_size, nodes.n_numbers))

    def third_of_dispersions(self, mean, sd, batches, b):
        """Third derivatives in the coordinates of dispersions, (d,), zero in others."""
        out, k = np.zeros(len(mean)), len(self.family.dispersions.names)
        for j in range(len(mean) - k, len(mean)):
            move = np.zeros(len(mean))
            move[j] = _WIDE_STEP * sd[j]
            slopes = [
                self.gaussian_target(mean + side * move, None, batches, b)[0][j]
                for side in (-1.0, 0.0, 1.0)
            ]
            out[j] = (slopes[0] - 2.0 * slopes[1] + slopes[2]) / move[j] ** 2
        return out


_NOTHING = np.empty((0, 0))


def definite(precision, least=MIN_CURVATURE):
    """A positive definite matrix: itself, or with directions of the wrong sign turned over.

    Curvatures of standardised coordinates are no smaller than the ``least``.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(precision)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    if values[0] > least:
        return precision
    root = scale[:, None] * vectors
    return (root * np.maximum(np.abs(values), least)) @ root.T


# ------------------------------------------------------------------- rules
class Nodes:
    """Rules for dispersions under a Gaussian, and the coefficients given each of their nodes."""

    def __init__(self, mean, cov, k):
        w = len(mean) - k
        self.mean, self.mean_u = mean[:w], mean[w:]
        self.z, self.weights = _rule_of_dispersions(k, cov is None)
        if cov is None:
            root, self.slope, self.rest = _STEP * np.eye(k), np.zeros((w, k)), None
        else:
            root = np.linalg.cholesky(cov[w:, w:]) if k else np.empty((0, 0))
            self.slope = np.linalg.solve(cov[w:, w:], cov[w:, :w]).T if k else np.zeros((w, 0))
            self.rest = cov[:w, :w] - self.slope @ cov[w:, :w]
        self.u, self.inverse = self.mean_u + self.z @ root.T, np.linalg.inv(root)
        # Of a row, in all tables together.
        self.n_numbers = len(self.z) * (1 if cov is None else _NODES) + w

    def rule(self, spread):
        """Nodes and weights for N(0, 1), enough for predictors with these sds."""
        if self.rest is None:
            return np.zeros(1), np.ones(1)
        return gauss_hermite(_NODES if spread.max(initial=0.0) < _WIDE else _WIDE_NODES)


@cache
def _rule_of_dispersions(k, is_point):
    """Nodes (q, k) and weights (q,) for N(0, I): Gauss's for one or two, two a dimension of more.

    Of three and more dispersions, cutpoints, the rule is exact to the third degree.
    """
    if k > 2:
        unit = np.sqrt(k) * np.eye(k)
        return np.concatenate([unit, -unit]), np.full(2 * k, 0.5 / k)
    nodes, weights = gauss_hermite(5 if k == 1 and not is_point else 3)
    places = list(product(range(len(nodes)), repeat=k))
    z = np.array([[nodes[i] for i in place] for place in places]).reshape(len(places), k)
    return z, np.array([np.prod([weights[i] for i in place]) for place in places])
