"""Predictions of ordered classes: averages over particles, intervals, draws, likelihoods.

Each row is treated by itself, in tiles of one shape: no bit depends on what stands beside it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.special import entr, log_expit, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import check_rows_of_fit
from skpmd._base.utils import as_generator, check_level, check_n_draws, weighted_quantile
from skpmd._base.validation import refuse_overflows
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike, RandomState
from skpmd.linear._averages import by_tiles, tile_of
from skpmd.linear._column_scale import in_units
from skpmd.linear._family_kernels import _exponential
from skpmd.linear._kernels_single import LANES
from skpmd.predictive import Uncertainty

_FAR = 300.0  # Probabilities of predictors that are further from zero are averaged in logs.


class OrdinalPredictions(ClassifierMixin):
    """Predictions of an estimator whose particles are coefficients and cutpoints.

    Each row of X is predicted by itself. Only methods with a ``random_state`` are random.
    """

    score = of_all_rows(ClassifierMixin.score)

    @row_by_row
    def predict_proba(self, X: MatrixLike, return_interval: float | None = None) -> ArrayOrMore:
        """Posterior predictive class probabilities, which are averages over particles.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, that of the offset included.
        return_interval : float in (0, 1), default=None
            If given, the level of the intervals of `predict_proba_interval`, which are then
            returned too.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probability of each class, in the order of ``classes_``.
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends, with ``return_interval``.
        """
        proba = np.exp(self.predict_log_proba(X))
        if return_interval is None:
            return proba
        return proba, self.predict_proba_interval(X, return_interval)

    @row_by_row
    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, that of the offset included.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities in nats, of the dtype of X, in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._validated(X)
        cut, weights = self._cut_of_particles, self.posterior_.weights
        near = np.clip(cut, -_FAR, _FAR)
        raised, gaps = np.exp(-near), np.ones(cut.shape)
        gaps[:, 1:] = -np.expm1(-np.diff(near, axis=1))
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)

        def averages(table, _):
            out = np.zeros((cut.shape[1] + 1, table.shape[1]))
            average_cumulative(table, raised, gaps, weights, out)
            with np.errstate(divide="ignore", invalid="ignore"):
                out = np.log(out)
            for j in np.flatnonzero(np.abs(table).max(axis=0) > _FAR):
                eta = np.ascontiguousarray(table[:, j])
                of_class = (log_probability(eta, *edges) for edges in _edges(cut))
                out[:, j] = [logsumexp(log_weights + one) for one in of_class]
            return out

        found = self._by_rows(averages, self._b_of_particles, X, cut.shape[1] + 1)
        # Weights add up to one only up to rounding.
        return np.minimum(found.T, 0.0).astype(X.dtype, copy=False)

    @row_by_row
    def predict(self, X: MatrixLike) -> Array:
        """The class with the highest averaged probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, that of the offset included.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, among ``classes_``.
        """
        codes = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[codes]

    @row_by_row
    def predict_proba_interval(self, X: MatrixLike, level: float = 0.9) -> Array:
        """Central credible intervals of the class probabilities: how well these are known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, that of the offset included.
        level : float in (0, 1), default=0.9
            Posterior probability of the interval.

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
            Lower and upper end (last axis) for each class (second axis).

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        tails = check_level(level)
        check_is_fitted(self)
        X, cut, weights = self._validated(X), self._cut_of_particles, self.posterior_.weights

        def ends(table, _):
            of_class = (np.exp(log_probability(table.T, *edges)).T for edges in _edges(cut))
            return np.stack([weighted_quantile(one, weights, tails) for one in of_class])

        found = self._by_rows(ends, self._b_of_particles, X, cut.shape[1] + 1, 2)
        return found.transpose(2, 0, 1).astype(X.dtype, copy=False)

    @row_by_row
    def predict_uncertainty(self, X: MatrixLike) -> Uncertainty:
        """Entropy of the predicted class, and its aleatoric and epistemic parts, in nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, that of the offset included.

        Returns
        -------
        Uncertainty
            ``total``, ``aleatoric`` (the posterior mean of the entropy) and ``epistemic`` (the
            mutual information of class and coefficients), each of shape (n_samples,).
        """
        check_is_fitted(self)
        X, cut, weights = self._validated(X), self._cut_of_particles, self.posterior_.weights

        def entropies(table, _):
            of_class = [np.exp(log_probability(table.T, *edges)) for edges in _edges(cut)]
            total = sum(entr((weights * one).sum(axis=1)) for one in of_class)
            return np.stack([total, sum((weights * entr(one)).sum(axis=1) for one in of_class)])

        total, aleatoric = self._by_rows(entropies, self._b_of_particles, X, 2)
        aleatoric = np.minimum(aleatoric, total)  # But for rounding it is.
        return Uncertainty(total, aleatoric, total - aleatoric)

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw labels from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: labels of different
        rows are dependent as they are in the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns, that of the offset included.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Labels.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        X, rng = self._validated(X), as_generator(random_state)
        theta = self.posterior_.sample(check_n_draws("n_samples", n_samples), rng)
        noise = rng.logistic(size=(len(theta), X.shape[0]))

        def codes(table, rows):
            cut = theta[:, self._n_slopes :][:, : self._n_cutpoints, None]
            return sum((table + noise[:, rows] > one).astype(int) for one in cut.swapaxes(0, 1))

        found = self._by_rows(codes, theta[:, : self._n_slopes], X, len(theta))
        return self.classes_[found.T.astype(np.int64)]

    def pointwise_log_likelihood(
        self, X: MatrixLike, y: ArrayLike, n_draws: int | None = None, random_state: RandomState = 0
    ) -> Array:
        """Log-likelihood of each row under each particle, for leave-one-out estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns, that of the offset included.
        y : array-like of shape (n_rows,)
            Labels, among ``classes_``.
        n_draws : int, optional
            Number of draws of equal weight, as ArviZ's ``loo`` expects. By default all particles,
            with the weights ``posterior_.weights``.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        ndarray of shape (n_draws, n_rows) or (m, n_rows)
            log p(y_n | x_n, theta_i) in nats, without row weights and at temperature 1.

        Raises
        ------
        ValueError
            If y holds labels that are not among ``classes_``, or ``n_draws`` is not a positive
            integer.
        """
        check_is_fitted(self)
        X, y = self._validated(X, y)
        codes, theta = self._codes(y), self.posterior_.particles
        if n_draws is not None:
            theta = self.posterior_.sample(check_n_draws("n_draws", n_draws), random_state)
        p, k = self._n_slopes, self._n_cutpoints
        edge = np.full((len(theta), 1), np.inf)
        edges = np.hstack([-edge, theta[:, p : p + k], edge])

        def of_labels(table, rows):
            own = codes[rows]
            return log_probability(table, edges[:, own], edges[:, own + 1])

        return self._by_rows(of_labels, theta[:, :p], X, len(theta))

    def _by_rows(self, function, b, X, *shape):
        """``function(predictors (m, rows), slice of rows)`` of some rows at a time: (*shape, n).

        Predictors are offset + (x - mean) b, of coefficients b (m, p) of given columns.
        """
        X, offset, *_ = self._split(X)
        units, n = self._state.units, X.shape[0]
        rows, b = in_units(X, units), b * units.scale
        out = np.empty((*shape, n))

        def fill(start):
            some = slice(start, min(start + LANES, n))
            table = b @ tile_of(rows[some], b.shape[1], False).T  # Sums depend on its shape.
            table = np.ascontiguousarray(table[:, : some.stop - start])
            if offset is not None:
                table += offset[some]
            out[..., some] = function(table, some)

        with self._threads():
            by_tiles(fill, X)
        return out

    def _check_rows_of_fit(self, times):
        """ValueError where rows that are to be left out are not those of the fit."""
        if self._state.stream is not None:
            check_rows_of_fit(times, self._state.stream.seen)

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays; with ``reset``, the features of X are remembered."""
        checked = self._checked_data(
            X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset
        )
        refuse_overflows("X", checked[0] if isinstance(checked, tuple) else checked)
        return checked

    # ------------------------------------------------------------------ results
    @result
    def _n_slopes(self):
        return len(self._state.units.scale)

    @result
    def _n_cutpoints(self):
        return self._state.response.n_dispersions

    @result
    def _b_of_particles(self):
        return self.posterior_.particles[:, : self._n_slopes]

    @result
    def _cut_of_particles(self):
        return self.posterior_.particles[:, self._n_slopes :][:, : self._n_cutpoints]

    @result
    def coef_(self) -> Array:
        """Posterior means of the coefficients, shape (n_coefficients,)."""
        return self.posterior_.mean()[: self._n_slopes]

    @result
    def coef_std_(self) -> Array:
        """Posterior standard deviations of the coefficients, shape (n_coefficients,)."""
        return self.posterior_.std()[: self._n_slopes]

    @result
    def cutpoints_(self) -> Array:
        """Posterior means of the cutpoints at the columns' means, shape (n_classes - 1,)."""
        return self.posterior_.mean()[self._n_slopes :][: self._n_cutpoints]

    @result
    def cutpoints_std_(self) -> Array:
        """Posterior standard deviations of the cutpoints, shape (n_classes - 1,)."""
        return self.posterior_.std()[self._n_slopes :][: self._n_cutpoints]


def _edges(cut):
    """Lower and upper cutpoints of each class, (m,) or infinite, of cutpoints (m, K - 1)."""
    edges = [-np.inf, *cut.T, np.inf]
    return zip(edges[:-1], edges[1:], strict=True)


def log_probability(eta, lower, upper):
    """log(F(upper - eta) - F(lower - eta)) with F logistic, without a difference of the two."""
    with np.errstate(divide="ignore"):
        between = np.log(-np.expm1(lower - upper))
    return log_expit(upper - eta) + log_expit(eta - lower) + between


@njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy")
def average_cumulative(table, raised, gaps, weights, out):
    """Add averages over particles of probabilities of classes to ``out`` (K, n).

    Predictors are ``table`` (m, n), of up to 128 rows; of cutpoints (m, K - 1) there are e^-cut in
    ``raised`` and 1 - e^(those below - cut) in ``gaps``, 1 for the first; ``weights`` are (m,). A
    class has F(cut - z) F(z - the cutpoint below) times the latter, without a difference.
    """
    (m, n_cuts), n = raised.shape, table.shape[1]
    rate, scratch, above = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(m):
        for j in range(n):
            rate[j] = table[i, j]
            above[j] = weights[i]
        _exponential(rate, scratch, n)
        for k in range(n_cuts):
            edge, gap = raised[i, k], gaps[i, k]
            for j in range(n):
                odds = rate[j] * edge
                below = 1.0 / (1.0 + odds)
                out[k, j] += gap * above[j] * below
                above[j] = weights[i] * odds * below
        for j in range(n):
            out[n_cuts, j] += above[j]
