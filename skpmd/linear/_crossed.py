"""Rows of any family with effects of several factors, crossed or nested.

Effects of the factor with most levels are integrated out as if it were the only one. Those of all
others are coordinates z ~ N(0, 1), of which the effect of a level is the factor's sd times z: next
to the model of one factor they are coefficients of columns that say which level a row has.
"""

import copy
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse

from skpmd.linear._conditional import fitted_components
from skpmd.linear._dispersion import Dispersions, HalfStudentT, Levels
from skpmd.linear._groups import GroupedModel, Groups, grouped


class Factors(NamedTuple):
    """Several grouping factors, crossed or nested; methods are those of `Groups`."""

    first: Groups  # That with most levels, whose effects are integrated out.
    others: tuple  # Further ones.
    order: tuple  # Places of all, as they were given.
    has_levels: bool  # Whether effects of the others are coordinates, and not integrated out.

    slopes, columns, n_effects = (), (), 1

    @property
    def labels(self):
        """Of the first factor."""
        return self.first.labels

    @property
    def factors(self):
        """`Groups` of all factors, as they were given."""
        found = dict(zip(self.order, (self.first, *self.others), strict=True))
        return [found[place] for place in range(len(found))]

    @property
    def dispersions(self):
        """Sds of all factors, and levels where they are coordinates."""
        names = tuple(f"sd[{one.factor}]" for one in (self.first, *self.others))
        sds = Dispersions(names, (HalfStudentT(self.first.prior_scale),) * len(names))
        return Levels(sds, self.others) if self.has_levels else sds

    def units(self, unit, scale):
        """What they are per, (k,), where y is in a unit."""
        return np.full(len(self.dispersions.names), unit)

    def are_within(self, phi):
        """Whether dispersions (m, k) are some that there can be, (m,)."""
        return (phi[:, : len(self.order)] > 0.0).all(axis=1)

    @property
    def described(self):
        """What they are of, for people."""
        return ("of the predictor",) * len(self.dispersions.names)

    def priors(self, unit, scale):
        """Priors in words, (k,)."""
        sds = [HalfStudentT(self.first.prior_scale).described(unit)] * len(self.order)
        names = [f"Normal(0, sd[{one.factor}])" for one in self.others for _ in one.labels]
        return sds + names * self.has_levels


class CrossedModel(GroupedModel):
    """A family's likelihood with effects of several factors; see `GroupedModel`."""

    remainders = None  # Effects of other factors see all rows.

    def __init__(self, prior, fit_intercept, family, location=0.0, log_unit=0.0, shift=None):
        super().__init__(prior, fit_intercept, family, location, log_unit, shift)
        groups, own = family.groups, copy.copy(family)
        own.dispersions = family.dispersions.parts[0]
        own = grouped(own, groups.first)
        self._sizes = [len(one.labels) for one in groups.others]
        self.n_sds, self.n_levels = 1 + len(self._sizes), sum(self._sizes)
        if shift is not None:
            shift = np.append(shift, np.zeros(self.n_levels))
        self.of_one = GroupedModel(AsTheyAre(), fit_intercept, own, location, log_unit, shift)

    def of_one_factor(self, coefficients):
        """What the model of one factor has (m, d) of these.

        They are coefficients, levels, an intercept, dispersions of the family, and the sd of the
        first factor.
        """
        slopes, hyper, z = self.parts(coefficients)
        levels, p = z * self.sds_of_levels(hyper), slopes.shape[1] - self.fit_intercept
        u = hyper[:, : hyper.shape[1] - self.n_sds + 1]
        return np.hstack([slopes[:, :p], levels, slopes[:, p:], u])

    def parts(self, coefficients):
        """Coefficients (m, w), coordinates of dispersions and sds (m, k), and of levels (m, L)."""
        n, k = len(self.family.dispersions.names), self.n_levels
        w = coefficients.shape[1] - n
        return np.split(coefficients, [w, w + n - k], axis=1)

    def sds_of_levels(self, hyper):
        """Sds (m, L) of the levels of all factors but the first, of coordinates (m, k)."""
        laws = self.family.groups.dispersions.sds.laws[1:]
        u = np.clip(hyper[:, -len(laws) :], -8.0, 8.0)
        sds = [law.quantile(one) for law, one in zip(laws, u.T, strict=True)]
        return np.repeat(np.stack(sds, axis=1), self._sizes, axis=1)

    def split(self, coefficients):
        """What the model of one factor has; see `GroupedModel`."""
        return self.of_one.split(self.of_one_factor(coefficients))

    def integrals(self, known, batch, rows, starts, order):
        """See `GroupedModel.integrals`."""
        yield from self.of_one.integrals(known, self._with_columns(batch), rows, starts, order)

    def _add_sums(self, coefficients, order, batches, total, gradient):
        slopes, hyper, z = self.parts(coefficients)
        table, own = self.of_one_factor(coefficients), None
        own = None if gradient is None else np.zeros(table.shape)
        batches = [self._with_columns(batch) for batch in batches]
        self.of_one._add_sums(table, order, batches, total, own)
        if gradient is None:
            return
        p, w = slopes.shape[1] - self.fit_intercept, slopes.shape[1]
        by_levels, n_hyper = own[:, p : p + self.n_levels], hyper.shape[1]
        gradient[:, :p] += own[:, :p]
        gradient[:, p:w] += own[:, p + self.n_levels : w + self.n_levels]
        gradient[:, w : w + n_hyper - self.n_sds + 1] += own[:, w + self.n_levels :]
        by_phi = np.hstack([np.zeros((len(z), self.n_sds)), by_levels])
        u = coefficients[:, -by_phi.shape[1] :]
        dispersions = self.family.groups.dispersions
        gradient[:, -by_phi.shape[1] :] += dispersions.pull_back(u, dispersions.natural(u), by_phi)

    def _with_columns(self, batch):
        """The batch of one factor, with a column for each level of the others."""
        X, codes = batch.X, batch.group[:, 1:]
        first = np.cumsum([0, *self._sizes[:-1]])
        levels = _Levels(X, codes + first, self.n_levels)
        return batch._replace(X=levels.sparse() if issparse(X) else levels, group=batch.group[:, 0])

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
    """Columns X and one for each level, of which rows are made when they are asked for."""

    def __init__(self, X, places, n):
        self._X, self._places, self._n = X, places, n

    def __getitem__(self, rows):
        X, places = self._X[rows], self._places[rows]
        table = np.zeros((len(X), X.shape[1] + self._n), dtype=X.dtype)
        table[:, : X.shape[1]] = X
        np.put_along_axis(table, X.shape[1] + places, 1.0, axis=1)
        return table

    def sparse(self):
        """The same of sparse X."""
        n, k = self._places.shape
        ones = np.ones(n * k, dtype=self._X.dtype), self._places.ravel()
        columns = csr_matrix((*ones, np.arange(0, n * k + 1, k)), (n, self._n))
        return hstack([self._X, columns], format="csr")
