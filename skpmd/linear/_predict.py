"""Predictions of the logistic classifier: averages over particles, draws of labels, likelihoods."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from scipy.special import entr, expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import check_rows_of_fit
from skpmd._base.utils import as_generator, check_level, check_n_draws, weighted_quantile
from skpmd._base.validation import (
    encode_known,
    naming_conversions,
    naming_unordered,
    refuse_no_table,
    refuse_overflows,
)
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._rows.rows import Rows
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike, RandomState
from skpmd.linear._averages import (
    labels_by_means,
    log_averages,
    log_averages_by,
    log_averages_of_normals,
    points_of_posterior,
    root_of,
)
from skpmd.linear._column_scale import at_zero, in_units, own_particles, refuse_far
from skpmd.linear._design import logits, n_logits
from skpmd.linear._posterior import GaussianPosterior, logits_at_nodes
from skpmd.linear._response import Classes
from skpmd.predictive import Uncertainty

_TABLE = 1 << 20  # At most this many probabilities are in memory at a time.


class ClassPredictions(ClassifierMixin):
    """Predictions of a classifier whose particles are rows of coefficients, intercepts last.

    Each row of X is predicted by itself. Only methods with a ``random_state`` are random.
    """

    score = of_all_rows(ClassifierMixin.score)

    @row_by_row
    def predict_proba(self, X: MatrixLike, return_interval: float | None = None) -> ArrayOrMore:
        """Posterior predictive class probabilities, which are averages over particles.

        On the rows of the fit they are within ``prediction_tol`` of averages over all particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        return_interval : float in (0, 1), default=None
            If given, the level of the intervals of `predict_proba_interval`, which are then
            returned too. A `Pipeline` passes the argument on; for searches see
            `skpmd.wrappers.predict_proba_interval`.

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
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities in nats, of the dtype of X, in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._validated(X)
        return self._log_proba(X).astype(X.dtype, copy=False)  # Sums are in double precision.

    @row_by_row
    def decision_function(self, X: MatrixLike) -> Array:
        """Log odds of the averaged probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log odds of ``classes_[1]`` with two classes; log probabilities with more.
        """
        log_proba = self.predict_log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    @row_by_row
    def predict(self, X: MatrixLike) -> Array:
        """The class with the highest averaged probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, among ``classes_``.
        """
        check_is_fitted(self)
        X, points = self._validated(X), self._points
        if points is None or len(self.classes_) > 2:
            return self.classes_[self._log_proba(X).argmax(axis=1)]
        rows = in_units(X, self._units)
        codes, are_clear = labels_by_means(points, self._root, rows, self._state.fit_intercept)
        open_ = np.flatnonzero(~are_clear)
        if len(open_):
            codes[open_] = self._log_proba(X[open_]).argmax(axis=1)
        return self.classes_[codes]

    @row_by_row
    def predict_proba_interval(self, X: MatrixLike, level: float = 0.9) -> Array:
        """Central credible intervals of the class probabilities.

        `predict_proba` gives the probability of a class. These intervals show how well it is known.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
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
        weights = self.posterior_.weights

        def ends(table):
            if len(table) == 1:
                of_logits = weighted_quantile(table[0], weights, tails)
                return expit(np.stack([-of_logits[::-1], of_logits]))  # The tails are alike.
            table = softmax(table, axis=0)
            return np.stack([weighted_quantile(one, weights, tails) for one in table])

        return self._by_rows(X, ends).transpose(2, 0, 1)

    @row_by_row
    def predict_uncertainty(self, X: MatrixLike) -> Uncertainty:
        """Entropy of the predicted class, and its aleatoric and epistemic parts, in nats.

        The aleatoric part is the posterior mean of the entropy, which would remain if the
        coefficients were known. The epistemic part is the mutual information of the class and the
        coefficients (Houlsby et al. 2011): labels of rows where it is large are the most
        informative.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        Uncertainty
            ``total``, ``aleatoric`` and ``epistemic``, each of shape (n_samples,).

        References
        ----------
        Houlsby, N., Huszár, F., Ghahramani, Z. and Lengyel, M. (2011). Bayesian active learning for
        classification and preference learning. arXiv:1112.5745.
        """
        check_is_fitted(self)
        weights = self.posterior_.weights

        def entropies(table):
            """Of the average over all particles, and on average."""
            if len(table) == 1:
                table = np.stack([np.zeros_like(table[0]), table[0]])
            proba = softmax(table, axis=0)
            of_average = entr(np.stack([weights @ one for one in proba])).sum(axis=0)
            return np.stack([of_average, weights @ entr(proba).sum(axis=0)])

        total, aleatoric = self._by_rows(X, entropies)
        aleatoric = np.minimum(aleatoric, total)  # But for rounding it is.
        return Uncertainty(total, aleatoric, total - aleatoric)

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw labels from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: labels of different
        rows are dependent as they are in the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
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
        X = self._validated(X)
        rng = as_generator(random_state)
        theta = _own_draws(self.posterior_, check_n_draws("n_samples", n_samples), rng)
        return _draw_labels(X, theta, self._state.fit_intercept, self.classes_, rng, self._units)

    def sample_prior_y(
        self,
        X: MatrixLike,
        classes: ArrayLike = (0, 1),
        n_samples: int = 1,
        random_state: RandomState = 0,
    ) -> Array:
        """Draw labels from the prior predictive distribution; no fit is needed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Features.
        classes : array-like of shape (n_classes,), default=(0, 1)
            Labels.
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
            If there are fewer than two classes, or ``n_samples`` is not a positive integer.
        """
        self._validate_params()
        refuse_no_table(X)
        names = _get_feature_names(X)
        with np.errstate(all="ignore"), naming_conversions("X"):
            X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        refuse_overflows("X", X, X.dtype)
        rng = as_generator(random_state)
        with naming_unordered("classes", classes):
            classes = np.unique(classes)
        if classes.dtype.kind == "f" and not np.isfinite(classes).all():
            raise ValueError(f"classes must not hold nan or infinite numbers, got {classes}.")
        if len(classes) < 2:
            raise ValueError(f"classes must hold two labels or more, got {classes.tolist()}.")
        m = check_n_draws("n_samples", n_samples)
        names = [f"x{j}" for j in range(X.shape[1])] if names is None else names
        rows = Rows(X, None, None, self.batch_size)
        theta, units = self._drawn_prior(rows, names, Classes(classes), m, rng)
        return _draw_labels(X, theta, self.fit_intercept, classes, rng, units)

    def _check_rows_of_fit(self, times):
        """ValueError where rows that are to be left out are not those of the fit."""
        if self._state.stream is not None:
            check_rows_of_fit(times, self._state.stream.seen)

    def pointwise_log_likelihood(
        self, X: MatrixLike, y: ArrayLike, n_draws: int | None = None, random_state: RandomState = 0
    ) -> Array:
        """Log-likelihood of each row under each particle, for leave-one-out estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : array-like of shape (n_rows,)
            Labels, among ``classes_``.
        n_draws : int, optional
            Number of draws of equal weight, which are particles taken in proportion to their
            weights, as ArviZ's ``loo`` expects. By default all particles, with the weights
            ``posterior_.weights``.
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
        codes = encode_known(y, self.classes_).astype(int)
        if n_draws is None:
            theta = own_particles(self.posterior_)
        else:
            n_draws = check_n_draws("n_draws", n_draws)
            theta = _own_draws(self.posterior_, n_draws, random_state)
        out = np.empty((len(theta), len(codes)))
        fit_intercept, n_classes = self._state.fit_intercept, len(self.classes_)
        for rows, table in _tables(X, theta, fit_intercept, n_classes, self._units):
            out[:, rows] = np.take_along_axis(table, codes[None, None, rows], axis=0)[0]
        return out

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays; with ``reset``, the features of X are remembered."""
        checked = self._checked_data(
            X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset
        )
        rows = checked[0] if isinstance(checked, tuple) else checked
        if reset or getattr(self, "_state", None) is None:  # Units are not known yet.
            refuse_overflows("X", rows)
        else:
            refuse_far(rows, self._units, rows.dtype)
        return checked

    @property
    def _units(self):
        """Those that the posterior was found in, None of given ones."""
        return self.posterior_.frame

    @result
    def _points(self):
        """All particles as `Points`; None for a Gaussian without correlations."""
        if isinstance(self.posterior_, GaussianPosterior):
            return None
        width = self.n_features_in_ + self._state.fit_intercept
        return points_of_posterior(self.posterior_, len(self.classes_), width)

    @result
    def _root(self):
        """Of the variances of logits under all particles, for two classes."""
        return root_of(self._points)

    def _log_proba(self, X):
        """Log averages (n, n_classes) of checked rows."""
        state, points = self._state, self._points
        with self._threads():
            if points is None:
                found = log_averages_of_normals(self.posterior_, X, state.fit_intercept)
            elif state.normal_logits is None or state.normal_logits.error > self.prediction_tol:
                found = log_averages(points, in_units(X, self._units), state.fit_intercept)
            else:
                rows = in_units(X, self._units)
                found = log_averages_by(state.normal_logits, points, rows, state.fit_intercept)
        return found.T

    def _by_rows(self, X, reduce):
        """Logits under all particles, (1 or n_classes, m, n), reduced over particles."""
        X, points = self._validated(X), self.posterior_
        points = points if isinstance(points, GaussianPosterior) else own_particles(points)
        fit_intercept, n_classes = self._state.fit_intercept, len(self.classes_)
        tables = _logit_tables(X, points, fit_intercept, n_classes, self._units)
        averages = np.concatenate([reduce(table) for _, table in tables], axis=-1)
        return averages.astype(X.dtype, copy=False)  # Sums are made in double precision.


def _tables(X, points, fit_intercept, n_classes, units):
    """Slices of rows with the log probabilities of their classes, of shape (n_classes, m, n)."""
    for rows, table in _logit_tables(X, points, fit_intercept, n_classes, units):
        if len(table) == 1:
            yield rows, np.stack([log_expit(-table[0]), log_expit(table[0])])
        else:
            yield rows, log_softmax(table, axis=0)


def _logit_tables(X, points, fit_intercept, n_classes, units):
    """Slices of rows with their logits, of shape (1 or n_classes, m, n).

    ``points`` are m particles in ``units``, or in the given ones where these are None, or a
    `GaussianPosterior`, whose m nodes take their place.
    """
    by_nodes = isinstance(points, GaussianPosterior)
    m = len(points.weights) if by_nodes else len(points)
    n_rows, width = n_logits(n_classes), X.shape[1] + fit_intercept
    if not by_nodes:
        coefficients = points[:, : n_rows * width].reshape(-1, width)
        if issparse(X) and units is not None and fit_intercept:
            coefficients = at_zero(coefficients, units.shift)
    step = max(1, _TABLE // (m * n_classes))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        if by_nodes:
            table = logits_at_nodes(points, X[rows], fit_intercept)
        else:
            some = X[rows] if units is None else units.rows(X[rows])
            table = logits(coefficients, some, fit_intercept).astype(np.float64, copy=False)
            table = table.reshape(m, n_rows, -1).transpose(1, 0, 2)
        yield rows, table


def _own_draws(posterior, n, rng):
    """n draws of equal weight from a posterior of either kind, in the units of its frame."""
    draws = posterior.sample(n, rng)
    return draws if posterior.frame is None else posterior.frame.outward(draws)


def _draw_labels(X, theta, fit_intercept, classes, rng, units):
    """A label for each row and particle."""
    out = np.empty((X.shape[0], len(theta)), dtype=classes.dtype)
    for rows, table in _tables(X, theta, fit_intercept, len(classes), units):
        below = np.cumsum(np.exp(table[:-1]), axis=0) < rng.random(table.shape[1:])
        out[rows] = classes[below.sum(axis=0)].T
    return out
