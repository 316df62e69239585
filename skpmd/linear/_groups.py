"""Effects of groups: a factor's intercepts and slopes are integrated out of each group's rows.

Given coefficients, dispersions and the effects' covariance, groups are independent, so that the log
likelihood is a sum over groups of logs of integrals of one dimension, or of two with a slope. They
are found by adaptive Gauss-Hermite quadrature (Liu and Pierce 1994; Pinheiro and Bates 1995), and
derivatives by Fisher's identity, as averages over the effects given the rows. Standard deviations
and a correlation are further coordinates like dispersions.
"""

import copy
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtr, ndtri

from skpmd._runtime.threads import in_order
from skpmd.engine.variational import laplace
from skpmd.linear._design import gauss_hermite
from skpmd.linear._dispersion import Dispersions, HalfStudentT
from skpmd.linear._glm import GeneralisedLinearModel, definite
from skpmd.linear._group_kernels import integrate_intercepts
from skpmd.linear._group_quadrature import integrate_groups
from skpmd.linear._priors import precision_matrix

# Nodes a dimension. A group has the first rule whose integral differs from that of the one before
# by less than this share of a nat, which is divided by the root of about the number of groups:
# what is left of errors is alike at all particles but for a share of as much.
_RULES, _TOLERANCE = (3, 5, 7, 11, 17, 27, 43), 5e-3
_NEGLIGIBLE = 1e-10  # Nodes of such weights are left out.
_OFTEN = 0.95  # Rules are chosen where effects vary as much as at this share of the particles.
_LARGEST = 40.0  # Predictors of rows that kernels of intercepts take.
_ROWS, _TABLE = 1 << 10, 1 << 17  # Rows of a piece, and numbers of its tables.
_STEP, _WIDE = 1e-4, np.sqrt(3.0)  # Of differences at a point, and of Gauss's rule of three nodes.
_GRID = np.linspace(-3.5, 1.5, 11)  # What a start tries of the coordinates of sds.


class Groups(NamedTuple):
    """One grouping factor; `skpmd.linear._crossed.Factors` are several."""

    factor: str  # Its name.
    labels: np.ndarray  # (G,): Of the groups, whose codes are places here.
    slope: str | None  # Name of the column on which each group has a slope of its own.
    column: int  # Its place among those that have coefficients; -1 where there is none.
    prior_scale: float

    others = ()  # Further factors.

    @property
    def factors(self):
        """`Groups` of all factors, as they were given."""
        return [self]

    @property
    def n_effects(self):
        """Effects of each group."""
        return 1 if self.slope is None else 2

    @property
    def dispersions(self):
        """`Dispersions` of the effects: sds, and the correlation of two."""
        law, name = HalfStudentT(self.prior_scale), self.factor
        if self.slope is None:
            return Dispersions((f"sd[{name}]",), (law,))
        names = f"sd[{name}]", f"sd[{name}:{self.slope}]", f"cor[{name}:{self.slope}]"
        return Dispersions(names, (law, law, Correlation()))

    def units(self, unit, scale):
        """What they are per, (k,), where y is in a unit and columns are in units of ``scale``."""
        return np.array([unit, unit / scale[self.column], 1.0][: len(self.dispersions.names)])

    def are_within(self, phi):
        """Whether dispersions (m, k) are some that there can be, (m,)."""
        return (phi[:, :2] > 0.0).all(axis=1) & (np.abs(phi[:, 2:]) < 1.0).all(axis=1)

    @property
    def described(self):
        """What they are of, for people."""
        words = "of the predictor", "of the predictor, per unit of the column", ""
        return words[: len(self.dispersions.names)]

    def priors(self, unit, scale):
        """Priors in words, (k,); for the arguments see `units`."""
        laws = self.dispersions.laws
        return [law.described(one) for law, one in zip(laws, self.units(unit, scale), strict=True)]


class Correlation:
    """The uniform distribution on -1 to 1, LKJ(1) of two effects; see `HalfStudentT`."""

    def quantile(self, u):
        """Its value with as much mass below it as N(0, 1) has below u."""
        return 2.0 * ndtr(u) - 1.0

    def standard(self, x):
        """The inverse of `quantile`."""
        return ndtri(0.5 * (1.0 + x))

    def log_density(self, x):
        """Log density."""
        return np.full(np.shape(x), -np.log(2.0))

    def described(self, unit):
        """In words."""
        return "LKJ(1)"


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


def grouped(family, groups):
    """The same `Family` with effects of `Groups`."""
    out = copy.copy(family)
    out.groups, out.dispersions = groups, Joined(family.dispersions, groups.dispersions)
    return out


class _Rules:
    """Nodes (N, 2) of all rules, and logs of their weights over the density of N(0, I) there."""

    def __init__(self, n_effects):
        self.first, nodes, weights = [0], [], []
        for n in _RULES:
            one, of_one = gauss_hermite(n)
            for i, j in product(range(n), range(n if n_effects > 1 else 1)):
                t = one[i], one[j] if n_effects > 1 else 0.0
                weight = of_one[i] * (of_one[j] if n_effects > 1 else 1.0)
                if weight < _NEGLIGIBLE:
                    continue
                nodes.append(t)
                weights.append(np.log(weight) + 0.5 * (t[0] ** 2 + t[1] ** 2))
            self.first.append(len(nodes))
        self.first, self.nodes = np.array(self.first), np.array(nodes)
        self.log_weights = np.array(weights)


_rules = cache(_Rules)


class GroupedModel(GeneralisedLinearModel):
    """A family's likelihood in which effects of groups are integrated out.

    Rows of a batch are sorted by their ``group``, and those of a group are in one batch.
    """

    is_log_concave = False

    def log_likelihood(self, theta, batch):
        """Sum over the groups of logs of integrals; see `Model`."""
        total = np.zeros(len(theta))
        self._add_sums(self.prior.coefficients(theta), 0, [batch], total, None)
        return total

    def factor(self, sds):
        """Lower triangular factors (m, 3) of effects' covariances, of their sds and correlation."""
        out = np.zeros((len(sds), 3))
        out[:, 0] = sds[:, 0]
        if sds.shape[1] > 1:
            out[:, 1], out[:, 2] = sds[:, 1] * sds[:, 2], sds[:, 1] * _sine(sds[:, 2])
        return out

    def _by_sds(self, sds, by_factor):
        """Derivatives by sds and correlation, of those by factors."""
        if sds.shape[1] == 1:
            return by_factor[:, :1]
        (_, sd, cosine), sine = sds.T, _sine(sds[:, 2])
        one, other, last = by_factor.T
        return np.stack([one, cosine * other + sine * last, sd * (other - cosine / sine * last)], 1)

    def split(self, coefficients):
        """Coefficients (m, w), dispersions (m, k) and factors (m, 3)."""
        k = len(self.family.dispersions.names)
        width = coefficients.shape[1] - k
        phi = self.family.dispersions.natural(coefficients[:, width:])
        n = self.family.dispersions.n_own
        return coefficients[:, :width], phi[:, :n], phi[:, n:]

    def _add_sums(self, coefficients, order, batches, total, gradient):
        slopes, phi, sds = known = self.split(coefficients)
        width, by_phi, by_factor = slopes.shape[1], np.zeros(phi.shape), np.zeros((len(phi), 3))
        for batch in batches:
            for value, more in self._of_pieces(known, batch, order):
                total += value
                if order:
                    by_slopes, of_factor, of_phi = more
                    gradient[:, :width] += by_slopes
                    by_factor += of_factor
                    by_phi += of_phi
            columns = self._columns(batch, slice(None))
            total += self.family.rest(phi, *columns) - columns[-1].sum() * self.log_unit
            if order:
                by_phi += self.family.rest_by_phi(phi, *columns)
        if order:
            by_all = np.hstack([by_phi, self._by_sds(sds, by_factor)])
            u, phi = coefficients[:, width:], np.hstack([phi, sds])
            gradient[:, width:] += self.family.dispersions.pull_back(u, phi, by_all)

    def _of_pieces(self, known, batch, order):
        """`_of_piece` of all pieces of a batch, by threads."""

        def of(piece):
            return self._of_piece(known, batch, order, piece)

        return in_order(of, group_pieces(batch))

    @np.errstate(over="ignore", invalid="ignore")  # Far from all rows sums are no numbers.
    def _of_piece(self, known, batch, order, piece):
        """Sums of some groups (m,), and derivatives by coefficients, factors and dispersions."""
        rows, starts = piece
        slopes, phi, sds = known
        X, shift = batch.X[rows], self.shift_of(batch.X)
        value, more = np.zeros(len(slopes)), None
        if order:
            more = np.zeros(slopes.shape), np.zeros((len(phi), 3)), np.zeros(phi.shape)
        for some, values, table, *others in self.integrals(known, batch, rows, starts, order):
            value[some] = values.sum(axis=1)
            if not order:
                continue
            by_slopes, ones = (X.T @ table.T).T if issparse(X) else table @ X, table.sum(axis=1)
            if shift is not None:
                by_slopes = by_slopes - ones[:, None] * shift
            more[0][some, : by_slopes.shape[1]] = by_slopes
            if self.fit_intercept:
                more[0][some, -1] = ones
            more[1][some], more[2][some] = others[:2]
        return value, more

    def integrals(self, known, batch, rows, starts, order):
        """Of groups, for blocks of particles: slice, values, table, by factor, by phi, moments.

        See `integrate_groups`; the number of nodes of each group, and where searches begin, are
        found at the particles' median and where effects vary much.
        """
        slopes, phi, sds = known
        groups, factor, x = self.family.groups, self.factor(sds), None
        columns = self._columns(batch, rows)
        if groups.slope is not None:
            x = batch.X[rows][:, [groups.column]]
            x = (x.toarray() if issparse(x) else x)[:, 0].astype(np.float64)
            if self.shift_of(batch.X) is not None:
                x = x - self.shift[groups.column]
        is_fast = groups.slope is None and self._is_fast(columns)
        rules, n_groups = _rules(groups.n_effects), len(starts) - 1

        def call(some, start, rule, order):
            table = self._predictors(slopes_of[some], batch, rows)
            own, of_factor = phi_of[some], factor_of[some]
            if is_fast:
                m, kind = len(table), int(self.family.name == "poisson")
                values, by_factor = np.zeros((m, n_groups)), np.zeros((m, 3))
                moments = np.empty((m, n_groups if order == 2 else 0, 7))
                # So improbable are rows beyond that no particle with some of them has a weight.
                np.clip(table, -_LARGEST, _LARGEST, out=table)
                largest = float(np.abs(table).max())
                turned, (y, _, weight) = np.ascontiguousarray(table.T), columns
                integrate_intercepts(
                    kind, turned, largest, y, weight, starts, of_factor[:, 0].copy(),
                    start[:, 0].copy(), rule, rules.first, rules.nodes[:, 0].copy(),
                    rules.log_weights, order, values, by_factor, moments,
                )  # fmt: skip
                return some, values, turned.T, by_factor, np.zeros(own.shape), moments
            of_rows = *columns, starts, x
            known = table, own, of_factor
            return some, *integrate_groups(self.family, of_rows, known, start, rule, rules, order)

        slopes_of, phi_of, factor_of = (_probes(one, factor) for one in (slopes, phi, factor))
        both = slice(0, len(factor_of))
        at_median = self._predictors(slopes_of[:1], batch, rows)
        is_fast = is_fast and np.abs(at_median).max() < 0.5 * _LARGEST
        n = np.sqrt(n_groups * len(batch.group) / starts[-1])
        start, rule = np.zeros((n_groups, 2)), np.zeros(n_groups, dtype=np.int64)
        last, best = None, rule.copy()
        for k in range(len(_RULES)):
            _, values, *_, moments = call(both, start, rule, 2)
            open_ = rule >= 0
            start[open_] = np.nan_to_num(moments[0, open_, :2])
            best[open_] = k
            if last is not None:
                change = np.abs(values - last).max(axis=0)
                rule = np.where(open_ & ~(change < _TOLERANCE / n), k + 1, -1)
            else:
                rule = rule + 1
            last = np.where(open_, values, last) if last is not None else values
            if not (rule >= 0).any():
                break
        slopes_of, phi_of, factor_of = slopes, phi, factor
        block = max(1, _TABLE // starts[-1])
        for i in range(0, len(slopes), block):
            yield call(slice(i, i + block), start, best, order)

    def _is_fast(self, columns):
        """Whether intercepts have a kernel of their own: of counts, and of single trials."""
        _, size, weight = columns
        if self.family.name == "binomial" and self.family.link == "logit":
            return bool((size == 1.0).all() and (weight == 1.0).all())
        return self.family.name == "poisson"

    # ------------------------------------------------------------------- where searches begin
    def starts(self, batches):
        """Near the mode without effects, at the best of some sds of effects; see `LinearModel`."""
        if not self.prior.has_gaussian:
            return [np.zeros(self.n_coordinates)]
        plain, of_groups = self._without_groups()
        found = []
        for start in plain.starts(batches):
            mode = laplace(plain, batches, start).mean
            grid = np.zeros((len(_GRID), of_groups))
            grid[:, : self.family.groups.n_effects] = _GRID[:, None]
            points = np.hstack([np.tile(mode, (len(_GRID), 1)), grid])
            value = self.log_prior(points) + sum(self.log_likelihood(points, b) for b in batches)
            found.append(points[np.where(np.isfinite(value), value, -np.inf).argmax()])
        return found

    def _without_groups(self):
        """The model without effects, and how many coordinates it has less."""
        k = len(self.family.groups.dispersions.names)
        family = copy.copy(self.family)
        family.groups, family.dispersions = None, self.family.dispersions.parts[0]
        prior = _Marginal(self.prior, self.n_coordinates - k)
        model = GeneralisedLinearModel(
            prior, self.fit_intercept, family, self.location, self.log_unit, self.shift
        )
        return model, k

    # ------------------------------------------------------------------- under a Gaussian
    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Gradients of the likelihood are exact, and averages of them are by a rule of three nodes
        along each axis; second derivatives are their differences.
        """
        steps = _STEP * np.eye(len(mean)) if cov is None else _WIDE * np.linalg.cholesky(cov)
        gradient, precision = self.prior.expected(mean, None if cov is None else _sd(cov))
        with np.errstate(over="ignore", invalid="ignore"):
            at, ahead, back = self._along(mean, steps, batches)
            is_finite = np.isfinite(at + (ahead - back).sum(axis=0)).all()
        if cov is not None:
            at = at + (ahead + back - 2.0 * at).sum(axis=0) / 6.0
        if not is_finite:  # After a step that was too long: who took it halves it.
            return np.full(len(mean), np.nan), precision_matrix(precision)
        hessian = np.linalg.solve(steps.T, 0.5 * (ahead - back))
        hessian = precision_matrix(precision) - 0.5 * b * (hessian + hessian.T)
        return gradient + b * at, definite(hessian)

    def skew_axes(self, mean, chol, batches, b=1.0):
        """The axes of the factor itself, and third derivatives along each; see `LinearModel`."""
        third = self.prior.expected_third(mean, np.linalg.norm(chol, axis=1))
        at, ahead, back = self._along(mean, chol, batches)
        of_rows = np.einsum("ji,ij->i", chol, ahead + back - 2.0 * at)
        return np.eye(len(mean)), b * of_rows + third @ chol**3

    def _along(self, mean, steps, batches):
        """Gradients of the log-likelihood at a point, and one step ahead and back on each axis."""
        points = np.concatenate([mean[None], mean + steps.T, mean - steps.T])
        gradient = np.zeros(points.shape)
        self._add_sums(points, 1, batches, np.zeros(len(points)), gradient)
        at, *rest = np.split(gradient, [1, 1 + len(mean)])
        return at[0], *rest


class _Marginal:
    """A prior of the first coordinates alone, where a Gaussian is fitted, whose others are zero."""

    tail_df = np.inf
    has_gaussian = True

    def __init__(self, prior, n):
        self._prior, self.n_coordinates = prior, n

    def coefficients(self, theta):
        return theta

    def log_density(self, theta):
        return self._prior.log_density(self._with_zeros(theta))

    def expected(self, mean, sd):
        sd = None if sd is None else self._with_zeros(sd) + (self._with_zeros(sd) == 0.0)
        parts = self._prior.expected(self._with_zeros(mean), sd)
        return tuple(part[(slice(self.n_coordinates),) * part.ndim] for part in parts)

    def _with_zeros(self, theta):
        more = self._prior.n_coordinates - self.n_coordinates
        return np.concatenate([theta, np.zeros((*theta.shape[:-1], more))], axis=-1)


def first_codes(batch):
    """Codes (n,) of the factor whose effects are integrated out."""
    return batch.group if batch.group.ndim == 1 else batch.group[:, 0]


def group_pieces(batch, most=_ROWS):
    """Some whole groups at a time, ``most`` at most: slices of rows, and where groups begin."""
    codes = first_codes(batch)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
    first = 0
    while first < len(edges) - 1:
        last = max(first + 1, np.searchsorted(edges, edges[first] + _ROWS, side="right") - 1)
        last = min(last, first + max(1, most))
        yield slice(edges[first], edges[last]), edges[first : last + 1] - edges[first]
        first = last


def _probes(table, factor):
    """A table's median over particles, and its row where effects vary much."""
    if len(factor) == 1:
        return np.ascontiguousarray(table)
    size = (factor**2).sum(axis=1)
    i = np.argsort(size, kind="stable")[int(np.ceil(_OFTEN * (len(size) - 1)))]
    return np.stack([np.median(table, axis=0), table[i]])


def _sine(cosine):
    return np.sqrt(np.maximum(1.0 - cosine**2, 1e-15))


def _sd(cov):
    return np.sqrt(np.diag(cov))
