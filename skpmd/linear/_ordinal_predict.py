"""Predictions of ordered classes: averages over particles, intervals, draws, likelihoods.

Each row is treated by itself, in tiles of one shape: no bit depends on what stands beside it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, log_expit, logsumexp
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.mean_draws import MeanDraws, some_particles
from skpmd._base.utils import weighted_quantile
from skpmd._typing import Array
from skpmd.linear._averages import by_tiles, tile_of
from skpmd.linear._column_scale import in_units
from skpmd.linear._family import exponentials
from skpmd.linear._family_kernels import MAX_EXPONENT, average_cumulative
from skpmd.linear._kernels import LANES


class OrderedPredictions:
    """Predictions of an estimator whose particles are coefficients and cutpoints.

    It offers `_parts`, of coordinates (m, d) coefficients (m, p) and cutpoints (m, K - 1) where
    columns are zero. Each row of X is predicted by itself. Only methods with a ``random_state`` are
    random.
    """

    def _centred(self, theta):
        """Coefficients (m, p), and cutpoints where columns are at their means, (m, K - 1)."""
        b, cut = self._parts(theta)
        return b, cut - (b @ self._state.units.centre)[:, None]

    def _log_averages(self, X):
        b, cut, weights = self._averaged
        raised, gaps = _raised(cut)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)

        def averages(table, _):
            out = np.zeros((cut.shape[1] + 1, table.shape[1]))
            average_cumulative(table, raised, gaps, weights, out)
            with np.errstate(divide="ignore", invalid="ignore"):
                out = np.log(out)
            for j in np.flatnonzero(np.abs(table).max(axis=0) > MAX_EXPONENT):
                eta = np.ascontiguousarray(table[:, j])
                of_class = (log_probability(eta, *edges) for edges in _edges(cut))
                out[:, j] = [logsumexp(log_weights + one) for one in of_class]
            return out

        found = self._by_rows(averages, b, self._known(X), cut.shape[1] + 1)
        return np.minimum(found.T, 0.0)  # Weights add up to one only up to rounding.

    def _ends(self, X, tails):
        check_is_fitted(self)
        X, (b, cut, weights) = self._validated(X), self._averaged

        def ends(table, _):
            of_class = (np.exp(log_probability(table.T, *edges)).T for edges in _edges(cut))
            return np.stack([weighted_quantile(one, weights, tails) for one in of_class])

        found = self._by_rows(ends, b, self._known(X), cut.shape[1] + 1, 2)
        return found.transpose(2, 0, 1).astype(X.dtype, copy=False)

    def _entropies(self, X):
        b, cut, weights = self._averaged

        def entropies(table, _):
            of_class = [np.exp(log_probability(table.T, *edges)) for edges in _edges(cut)]
            total = sum(entr((weights * one).sum(axis=1)) for one in of_class)
            return np.stack([total, sum((weights * entr(one)).sum(axis=1) for one in of_class)])

        return self._by_rows(entropies, b, self._known(X), 2)

    def _draws_of_mean(self, sides, n_draws, by):
        check_is_fitted(self)
        (theta, weights, chosen), out = self._drawn_particles(n_draws), []
        for X in sides:
            X, offset, effects = self._known(self._validated(X).astype(np.float64, copy=False))
            if effects is not None:
                effects = effects.drawn(len(chosen), np.random.default_rng(0), chosen)[1]
            out.append(MeanDraws(by))
            self._add_means(out[-1].add, theta, (X, offset, effects))
        return np.stack([found.whole() for found in out]), weights

    def _drawn_particles(self, n):
        """Some particles (m, d) as `_add_means` wants them, their weights and their places (m,)."""
        some, weights = self._particles_averaged
        chosen, weights = some_particles(weights, n)
        return self.posterior_.particles[some][chosen], weights, chosen

    def _add_means(self, add, theta, known):
        """Add probabilities (rows, m, K or 1) under particles, by rows, of what `_known` gives."""
        b, cut = self._centred(theta)
        raised, gaps, first = *_raised(cut), cut.shape[1] == 1

        def of_rows(table, rows):
            rate, above, of_class = exponentials(table), 1.0, []
            for edge, gap in zip(raised.T[..., None], gaps.T[..., None], strict=True):
                odds = rate * edge
                below = 1.0 / (1.0 + odds)
                of_class.append(gap * above * below)
                above = odds * below
            add(np.stack([*of_class, above][first:]).T, rows)
            return 0.0

        self._by_rows(of_rows, b, known)

    def _draw(self, X, n_samples, rng, chosen=None):
        X, offset, effects = self._known(self._validated(X))
        if effects is None:
            theta = self.posterior_.sample(n_samples, rng)
        else:
            chosen, effects = effects.drawn(n_samples, rng, chosen)
            theta = self.posterior_.particles[self._particles_averaged[0][chosen]]
        noise = rng.logistic(size=(len(theta), X.shape[0]))
        b, cut = self._centred(theta)

        def codes(table, rows):
            return sum((table + noise[:, rows] > one[:, None]).astype(int) for one in cut.T)

        found = self._by_rows(codes, b, (X, offset, effects), len(theta))
        return self.classes_[found.T.astype(np.int64)]

    def _one_each(self, X, n, rng):
        """Draws (n_rows, n) of y, one of each particle with effects of groups."""
        return self._draw(X, n, rng, np.arange(n))

    def _log_likelihoods(self, X, y, draws):
        codes = self._numbers(y).astype(np.int64)
        b, cut = self._centred(self.posterior_.particles if draws is None else draws)
        edge = np.full((len(cut), 1), np.inf)
        edges = np.hstack([-edge, cut, edge])

        def of_labels(table, rows):
            own = codes[rows]
            return log_probability(table, edges[:, own], edges[:, own + 1])

        return self._by_rows(of_labels, b, self._known(X), len(cut))

    def _known(self, X):
        """Columns with coefficients, the offset or None, and `RowEffects` or None."""
        X, offset, _, codes = self._split(X)
        return X, offset, self._effects_of(X, codes)

    @property
    def _averaged(self):
        """Coefficients, cutpoints and weights of the particles that predictions average over."""
        some, weights = self._particles_averaged
        return *self._centred(self.posterior_.particles[some]), weights

    def _by_rows(self, function, b, known, *shape):
        """``function(predictors (m, rows), slice of rows)`` of some rows at a time: (*shape, n).

        Predictors are offset + (x - mean) b + effects, of coefficients b (m, p) of given columns,
        and of what is ``known`` of rows, as of `_known`.
        """
        X, offset, effects = known
        units, n = self._state.units, X.shape[0]
        rows, b = in_units(X, units), b * units.scale
        out = np.empty((*shape, n))

        def fill(start):
            some = slice(start, min(start + LANES, n))
            table = b @ tile_of(rows[some], b.shape[1], False).T  # Sums depend on its shape.
            table = np.ascontiguousarray(table[:, : some.stop - start])
            if offset is not None:
                table += offset[some]
            if effects is not None:
                effects.add(table.T, some)
            out[..., some] = function(table, some)

        with self._threads():
            by_tiles(fill, X)
        return out


class OrdinalPredictions(OrderedPredictions):
    """The same, where cutpoints follow the coefficients."""

    def _parts(self, theta):
        p = self._n_slopes
        return theta[:, :p], theta[:, p : p + self._state.response.n_own]

    @result
    def cutpoints_(self) -> Array:
        """Posterior means of the cutpoints where columns are zero, shape (n_classes - 1,)."""
        return self._parts(self.posterior_.mean()[None])[1][0]

    @result
    def cutpoints_std_(self) -> Array:
        """Posterior standard deviations of the cutpoints, shape (n_classes - 1,)."""
        return self._parts(self.posterior_.std()[None])[1][0]


def _raised(cut):
    """What `average_cumulative` needs of cutpoints (m, K - 1), both of this shape."""
    near, gaps = np.clip(cut, -MAX_EXPONENT, MAX_EXPONENT), np.ones(cut.shape)
    gaps[:, 1:] = -np.expm1(-np.diff(near, axis=1))
    return np.exp(-near), gaps


def _edges(cut):
    """Lower and upper cutpoints of each class, (m,) or infinite, of cutpoints (m, K - 1)."""
    edges = [-np.inf, *cut.T, np.inf]
    return zip(edges[:-1], edges[1:], strict=True)


def log_probability(eta, lower, upper):
    """log(F(upper - eta) - F(lower - eta)) with F logistic, without a difference of the two."""
    with np.errstate(divide="ignore"):
        between = np.log(-np.expm1(lower - upper))
    return log_expit(upper - eta) + log_expit(eta - lower) + between
