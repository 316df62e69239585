"""Rows of any family with effects of several factors, crossed or nested.

Effects of the factor with most levels are integrated out as if it were the only one. Those of all
others are coordinates z ~ N(0, 1), of which effects of a level are a factor of their covariance
times z: next to the model of one factor they are coefficients of columns that say which level a row
has, times the column of a slope.
"""

import copy
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse

from skpmd.linear._conditional import fitted_components
from skpmd.linear._dispersion import Levels
from skpmd.linear._grouped_normal import GroupedNormal
from skpmd.linear._groups import GroupedModel, Groups, grouped, slope_columns


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

    def starts(self, batches):
        """The best of some sds where all levels are alike; see `LinearModel`."""
        if not self.prior.has_gaussian:
            return [np.zeros(self.n_coordinates)]
        return super().starts(batches)

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
