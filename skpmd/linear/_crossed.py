"""Rows of any family with effects of several factors, crossed or nested.

Effects of the factor with most levels are integrated out as if it were the only one. Those of all
others are coordinates z ~ N(0, 1), of which effects of a level are a factor of their covariance
times z: next to the model of one factor they are coefficients of columns that say which level a row
has, times the column of a slope.
"""

import copy
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack, issparse
from sklearn.utils import gen_batches

from skpmd.linear._conditional import conditional_components, fitted_components
from skpmd.linear._crossed_sums import MAX_RATIO, TABLE, Exact, RootGrid, Sums, table_between
from skpmd.linear._dispersion import Levels
from skpmd.linear._glm import definite
from skpmd.linear._grouped_normal import EXACT, LOG_TWO_PI, GroupedNormal
from skpmd.linear._groups import GroupedModel, Groups, grouped, slope_columns
from skpmd.linear._priors import precision_matrix

_EXACT = 1e9  # With such a ratio of variances y has no noise.
_FAR, _STEP = 6.0, 1e-2  # Coordinates of sds that are looked at, and a step of differences.
# A table reaches as far as so many draws of twice the posterior's sds, or of its own where these
# are wide: what is beyond costs more. With more factors than these it has too many nodes.
_REACH, _FREE, _DRAWS, _MAX_FACTORS = 2.0, 0.25, 500, 3


class Factors(NamedTuple):
    """Several grouping factors, crossed or nested; methods are those of `Groups`."""

    first: Groups  # That with most levels, whose effects are integrated out.
    others: tuple  # Further ones.
    order: tuple  # Places of all, as they were given.
    has_levels: bool  # Whether effects of the others are coordinates, and not integrated out.

    @property
    def labels(self):
        """Of the first factor."""
        return self.first.labels

    @property
    def n_effects(self):
        """Effects of each level of the first factor."""
        return self.first.n_effects

    @property
    def _parts(self):
        return self.first, *self.others

    @property
    def factors(self):
        """`Groups` of all factors, as they were given."""
        found = dict(zip(self.order, self._parts, strict=True))
        return [found[place] for place in range(len(found))]

    @property
    def dispersions(self):
        """Sds and correlations of all factors, and effects where they are coordinates."""
        found = Levels(self.first, self.others)
        return found if self.has_levels else found.sds

    def units(self, unit, scale):
        """What they are per, (k,), where y is in a unit and columns are in units of ``scale``."""
        sds = [one.units(unit, scale) for one in self._parts]
        effects = [
            np.tile(of_sds[: one.n_effects], len(one.labels))
            for one, of_sds in zip(self.others, sds[1:], strict=True)
        ]
        return np.concatenate(sds + effects * self.has_levels)

    def are_within(self, phi):
        """Whether dispersions (m, k) are some that there can be, (m,)."""
        sizes = [len(one.dispersions.names) for one in self._parts]
        parts = np.split(phi[:, : sum(sizes)], np.cumsum(sizes)[:-1], axis=1)
        every = zip(self._parts, parts, strict=True)
        return np.all([one.are_within(part) for one, part in every], axis=0)

    @property
    def described(self):
        """What they are of, for people."""
        sds = [word for one in self._parts for word in one.described]
        effects = [word for one in self.others
                   for word in one.described[: one.n_effects] * len(one.labels)]  # fmt: skip
        return (*sds, *effects * self.has_levels)

    def priors(self, unit, scale):
        """Priors in words, (k,)."""
        sds = [text for one in self._parts for text in one.priors(unit, scale)]
        effects = [f"Normal(0, {name})" for one in self.others for _ in one.labels
                   for name in one.dispersions.names[: one.n_effects]]  # fmt: skip
        return sds + effects * self.has_levels


class CrossedModel(GroupedModel):
    """A family's likelihood with effects of several factors; see `GroupedModel`."""

    remainders = None  # Effects of other factors see all rows.

    def __init__(self, prior, fit_intercept, family, location=0.0, log_unit=0.0, shift=None):
        super().__init__(prior, fit_intercept, family, location, log_unit, shift)
        groups, own = family.groups, copy.copy(family)
        self.law, self._with_levels = groups.dispersions, None
        own.dispersions = family.dispersions.parts[0]
        own = grouped(own, groups.first)
        self.n_sds, self.n_levels = self.law.n_sds, self.law.n_effects
        self._n_others = self.n_sds - len(groups.first.dispersions.names)
        if shift is not None:
            shift = np.append(shift, np.zeros(self.n_levels))
        kind = GroupedNormal if family.is_conjugate else GroupedModel
        self.of_one = kind(AsTheyAre(), fit_intercept, own, location, log_unit, shift)

    def of_one_factor(self, coefficients):
        """What the model of one factor has (m, d) of these.

        They are coefficients, effects, an intercept, dispersions of the family, and those of the
        first factor.
        """
        slopes, hyper, z = self.parts(coefficients)
        effects, p = self.law.effects(self.sds_of(hyper), z), slopes.shape[1] - self.fit_intercept
        u = hyper[:, : hyper.shape[1] - self._n_others]
        return np.hstack([slopes[:, :p], effects, slopes[:, p:], u])

    def parts(self, coefficients):
        """Coefficients (m, w), coordinates of dispersions and sds (m, k), and of levels (m, L)."""
        n, k = len(self.family.dispersions.names), self.n_levels
        w = coefficients.shape[1] - n
        return np.split(coefficients, [w, w + n - k], axis=1)

    def sds_of(self, hyper):
        """Sds and correlations (m, n_sds) of all factors, of coordinates (m, k)."""
        return self.law.sds.natural(hyper[:, -self.n_sds :])

    def split(self, coefficients):
        """What the model of one factor has; see `GroupedModel`."""
        return self.of_one.split(self.of_one_factor(coefficients))

    def integrals(self, known, batch, rows, starts, order):
        """See `GroupedModel.integrals`."""
        batch = self._with_columns(batch)
        yield from self._with_rules().integrals(known, batch, rows, starts, order)

    def _with_rules(self):
        """The model of one factor, with the rule of quadrature that this one has been given."""
        if self._rule is None and not self._is_next:
            return self.of_one
        own = copy.copy(self.of_one)
        own._rule, own._is_next = self._rule, self._is_next
        return own

    def _add_sums(self, coefficients, order, batches, total, gradient):
        slopes, hyper, z = self.parts(coefficients)
        table, own = self.of_one_factor(coefficients), None
        own = None if gradient is None else np.zeros(table.shape)
        batches = [self._with_columns(batch) for batch in batches]
        self._with_rules()._add_sums(table, order, batches, total, own)
        if gradient is None:
            return
        p, w, L = slopes.shape[1] - self.fit_intercept, slopes.shape[1], self.n_levels
        n_hyper = hyper.shape[1] - self._n_others
        gradient[:, :p] += own[:, :p]
        gradient[:, p:w] += own[:, p + L : w + L]
        gradient[:, w : w + n_hyper] += own[:, w + L :]
        u = coefficients[:, w + hyper.shape[1] - self.n_sds :]
        by_phi = np.hstack([np.zeros((len(z), self.n_sds)), own[:, p : p + L]])
        gradient[:, -u.shape[1] :] += self.law.pull_back(u, self.law.natural(u), by_phi)

    def _with_columns(self, batch):
        """The batch of one factor, with a column for each effect of the levels of the others.

        The last is held, for sums over its rows belong to it.
        """
        known = self._with_levels  # Read once, for other threads may replace it.
        if known is not None and known[0] is batch:
            return known[1]
        X, places, values, first = batch.X, [], [], 0
        ones = np.ones(len(batch.group))
        for one, codes in zip(self.family.groups.others, batch.group.T[1:], strict=True):
            q = one.n_effects
            places += [first + codes * q + j for j in range(q)]
            values += [ones, *slope_columns(self, one, X).T]
            first += q * len(one.labels)
        levels = _Levels(X, np.column_stack(places), np.column_stack(values), self.n_levels)
        X = levels.sparse() if issparse(X) else levels
        found = batch._replace(X=X, group=batch.group[:, 0])
        self._with_levels = batch, found
        return found

    def look_for_exact_rows(self, batches):
        """Of normal rows those of the model of one factor; see `GroupedNormal`."""
        if not self.family.is_conjugate:
            return super().look_for_exact_rows(batches)
        return self.of_one.look_for_exact_rows([self._with_columns(batch) for batch in batches])

    def conditional_components(self, batches, power):
        """Proposals given sds and dispersions, and their shares; see `fitted_components`."""
        return fitted_components(self, batches, power)


class AsTheyAre:
    """In the place of a prior where only a likelihood is asked for: theta are coefficients."""

    tail_df = np.inf

    def coefficients(self, theta):
        """The coordinates themselves."""
        return theta


class _Levels:
    """Columns X and those of effects, of which rows are made when they are asked for.

    Of each row effects at some ``places`` (n, k) have ``values``, and others zero.
    """

    def __init__(self, X, places, values, n):
        self._X, self._places, self._values, self._n = X, places, values, n

    def __getitem__(self, rows):
        X, places, values = self._X[rows], self._places[rows], self._values[rows]
        table = np.zeros((len(X), X.shape[1] + self._n), dtype=X.dtype)
        table[:, : X.shape[1]] = X
        np.put_along_axis(table, X.shape[1] + places, values.astype(X.dtype), axis=1)
        return table

    def sparse(self):
        """The same of sparse X."""
        n, k = self._places.shape
        values = self._values.ravel().astype(self._X.dtype), self._places.ravel()
        columns = csr_matrix((*values, np.arange(0, n * k + 1, k)), (n, self._n))
        return hstack([self._X, columns], format="csr")


# ------------------------------------------------------------------- normal rows
class CrossedNormal(GroupedModel):
    """Normal rows with an identity link, whose integrals are in closed form; see `GroupedModel`.

    What these are of sds is in `skpmd.linear._crossed_sums`.
    """

    remainders = None  # Effects of other factors see all rows.

    def __init__(self, *given):
        super().__init__(*given)
        self.law = Levels(self.family.groups.first, ())
        self._known = {}  # Of copies with other priors, too.

    def table(self, batch, power=1.0):
        """The `Table` of a batch, and the mode of the posterior in it, which are found once.

        The latter are coefficients, coordinates of sds, and the factor of the covariance of these.
        """
        key = batch.y.ctypes.data, len(batch.y)  # Of these rows, in whatever precision.
        if self._known.get("key") != key:
            sums = Sums(self, batch)
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

    n_levels = 0  # Whose effects are coordinates.

    def sds_of(self, hyper):
        """See `CrossedModel`; no coordinate has them."""
        return hyper

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
            step = max(1, TABLE // (w + 1) ** 2)
            for some in gen_batches(len(h), step):
                product = table.products(ratios[some]) * (power / phi[some, 0] ** 2)[:, None, None]
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
            squares, log_det, by_c, by_ratio = table.terms(ratios_of(noise, sds), c)
            n, variance = table.sums.weight, noise**2
            total -= 0.5 * (squares / variance + log_det + n * np.log(variance))
            total -= n * (0.5 * LOG_TWO_PI + self.log_unit)
            if not order:
                continue
            w, by_log = slopes.shape[1], -(by_ratio[:, 0] / variance[:, None] + by_ratio[:, 1])
            gradient[:, :w] += by_c[:, 1:] / variance[:, None]
            by_noise = (squares / variance - n - by_log.sum(axis=1)) / noise
            by_phi = np.column_stack([by_noise, by_log / sds])
            phi = np.column_stack([noise, sds])
            dispersions = self.family.dispersions
            gradient[:, w:] += dispersions.pull_back(coefficients[:, w:], phi, by_phi)

    def effects(self, coefficients, batch, rng):
        """Means and mean squares (levels,) of effects given particles, and draws (levels, m).

        Draws are right sides of the equations of means with noise (Papandreou and Yuille 2010),
        which change with the ratios as smoothly as these: of many levels they are interpolated.
        """
        (slopes, noise, sds), (table, _) = self.split(coefficients), self.table(batch)
        sums, m, ratios = table.sums, len(noise), ratios_of(noise, sds)
        c = np.column_stack([np.ones(m), -slopes]).T
        of_prior, of_rows = rng.standard_normal((sums.n_levels, m)), np.zeros((sums.n_levels, m))
        for rows in gen_batches(sums.cells.shape[0], max(1, TABLE // m)):
            some = sums.cells[rows]
            of_rows += some.T @ rng.standard_normal((some.shape[0], m))
        centre, draws, variance = np.zeros(of_rows.shape), np.zeros(of_rows.shape), 0.0
        for some in sums.parts(m) if sums.are_few else ():
            root = sums.roots(ratios[some]).T
            right = np.stack([root * (sums.of_rows @ c[:, some]),
                              root * of_rows[:, some] + of_prior[:, some]])  # fmt: skip
            found, _, diagonal = sums.solved(ratios[some], right.transpose(2, 1, 0))
            centre[:, some], draws[:, some] = root * found.transpose(2, 1, 0)
            variance = variance + ((root * noise[some]) ** 2 * diagonal.T).sum(axis=1) / m
        grid = None if sums.are_few else RootGrid(sums, ratios)
        nodes = () if grid is None else zip(grid.ratios, grid.weights(ratios)[0].T, strict=True)
        for ratio, weight in nodes:
            at = sums.at(ratio, lambda root: root[:, None] * of_rows + of_prior)
            centre += at.means @ (c * weight)
            draws += at.further * weight
            variance = variance + at.variances * np.mean(weight * noise**2)
        return centre.mean(axis=1), (centre**2).mean(axis=1) + variance, centre + noise * draws


def ratios_of(noise, sds):
    """Ratios of variances, (m, F)."""
    return np.clip((sds / noise[:, None]) ** 2, 1e-30, MAX_RATIO)


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
        """The `Table` around the mode, and what that is; see `CrossedNormal.table`."""
        k = len(self._model.family.dispersions.names)
        start = self._model.family.dispersions.standard(np.append(0.7, np.full(k - 1, 0.5)))
        bounds = [(-_FAR, _FAR)] * k
        found = minimize(lambda u: self._value(u)[:2], start, jac=True, method="L-BFGS-B",
                         bounds=bounds, options={"ftol": 1e-9, "gtol": 1e-2})  # fmt: skip
        mode = found.x
        at_mode = self._model.family.dispersions.natural(mode[None])
        is_exact = ratios_of(at_mode[:, 0], at_mode[:, 1:]).max() > _EXACT
        if is_exact or mode[0] < 0.1 - _FAR:
            raise ValueError(EXACT)
        rows = [self._value(mode + side * _STEP * one)[1] for one in np.eye(k) for side in (1, -1)]
        hessian = np.subtract(rows[::2], rows[1::2]) / (2.0 * _STEP)
        cov = np.linalg.inv(definite(0.5 * (hessian + hessian.T)))
        chol, found = np.linalg.cholesky(cov), self._value(mode)[2]
        if self._sums.are_few or k > 1 + _MAX_FACTORS:
            return Exact(self._sums), (found, mode, chol)
        z = np.random.default_rng(0).standard_normal((_DRAWS, k))
        reach = np.where(np.sqrt(np.diag(cov)) > _FREE, 1.0, _REACH)
        draws = mode + reach * (z @ chol.T)
        phi = self._model.family.dispersions.natural(np.clip(draws, -_FAR, _FAR))
        x = np.log1p(ratios_of(phi[:, 0], phi[:, 1:]) * self._sums.mean_n)
        low, high = x.min(axis=0), x.max(axis=0) + 1e-6
        return table_between(self._sums, low, high), (found, mode, chol)
