"""Predictions of the logistic classifier: averages over particles, draws of labels, likelihoods."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from scipy.special import entr, expit, log_expit, log_softmax, logsumexp, softmax
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.mean_draws import N_DRAWS
from skpmd._base.utils import as_generator, check_n_draws, weighted_quantile
from skpmd._base.validation import (
    encode_known,
    naming_conversions,
    naming_unordered,
    refuse_no_table,
    refuse_overflows,
)
from skpmd._rows.by_block import row_by_row
from skpmd._rows.rows import Rows
from skpmd._typing import Array, ArrayLike, MatrixLike, RandomState
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
from skpmd.linear._family import exponentials, sigmoids
from skpmd.linear._family_kernels import MAX_EXPONENT
from skpmd.linear._grouped_softmax import ClassEffects
from skpmd.linear._ordinal_predict import OrderedPredictions
from skpmd.linear._posterior import GaussianPosterior, logits_at_nodes
from skpmd.linear._response import Classes

# At most this many probabilities are in memory, or in a cache, at a time.
_TABLE, _CACHED = 1 << 20, 1 << 17


class ClassPredictions(OrderedPredictions):
    """Predictions of a classifier whose particles are rows of coefficients, intercepts last.

    Each row of X is predicted by itself. Only methods with a ``random_state`` are random. Two
    classes with groups are ordered ones with minus the intercept between them.
    """

    @property
    def _are_ordered(self):
        return self._groups_of_fit is not None and self._state.response.n_rows == 1

    def _effects_of(self, X, codes):
        if codes is None or self._are_ordered or self._at_population:
            return super()._effects_of(X, codes)
        return ClassEffects((self._state.effects,), codes[None], [None])

    def _parts(self, theta):
        p = self._n_slopes
        cut = -theta[:, p : p + 1] if self._state.fit_intercept else np.zeros((len(theta), 1))
        return theta[:, :p], cut

    def _numbers(self, y):
        return encode_known(y, self.classes_)

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

    def _most_probable(self, X):
        check_is_fitted(self)
        if self._groups_of_fit is not None:
            return super()._most_probable(X)
        X, points = self._validated(X), self._points
        if points is None or len(self.classes_) > 2:
            return self._log_averages(X).argmax(axis=1)
        rows = in_units(X, self._units)
        codes, are_clear = labels_by_means(points, self._root, rows, self._state.fit_intercept)
        open_ = np.flatnonzero(~are_clear)
        if len(open_):
            codes[open_] = self._log_averages(X[open_]).argmax(axis=1)
        return codes

    def _ends(self, X, tails):
        check_is_fitted(self)
        if self._are_ordered:
            return super()._ends(X, tails)
        weights = self._particles_averaged[1]

        def ends(table):
            if len(table) == 1:
                of_logits = weighted_quantile(table[0], weights, tails)
                return expit(np.stack([-of_logits[::-1], of_logits]))  # The tails are alike.
            table = softmax(table, axis=0)
            return np.stack([weighted_quantile(one, weights, tails) for one in table])

        return self._reduced(self._validated(X), ends).transpose(2, 0, 1)

    def _entropies(self, X):
        if self._are_ordered:
            return super()._entropies(X)
        weights = self._particles_averaged[1]

        def entropies(table):
            if len(table) == 1:
                table = np.stack([np.zeros_like(table[0]), table[0]])
            proba = softmax(table, axis=0)
            of_average = entr(np.stack([weights @ one for one in proba])).sum(axis=0)
            return np.stack([of_average, weights @ entr(proba).sum(axis=0)])

        return self._reduced(X, entropies)

    def _drawn_particles(self, n):
        if isinstance(self.posterior_, GaussianPosterior):
            n = n or N_DRAWS
            draws = self.posterior_.sample(n, np.random.default_rng(0))
            return self._own(draws), np.full(n, 1.0 / n), None
        theta, *others = super()._drawn_particles(n)
        return (theta if self._are_ordered else self._own(theta)), *others

    def _add_means(self, add, theta, known):
        if self._are_ordered:
            super()._add_means(add, theta, known)
            return
        X, _, effects = known
        given = self._state.fit_intercept, len(self.classes_), self._units, effects
        of_table = sigmoids if len(self.classes_) == 2 else _probabilities
        for rows, table in _logit_tables(X, theta, *given, for_means=True):
            add(of_table(table).transpose(2, 1, 0), rows)

    def _draw(self, X, n_samples, rng):
        if self._are_ordered:
            return super()._draw(X, n_samples, rng)
        X, _, effects = self._known(self._validated(X))
        if effects is None:
            theta = self._own(self.posterior_.sample(n_samples, rng))
        else:
            chosen, effects = effects.drawn(n_samples, rng)
            theta = own_particles(self.posterior_)[self._particles_averaged[0][chosen]]
        given = self._state.fit_intercept, self.classes_, rng, self._units, effects
        return _draw_labels(X, theta, *given)

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
        if self._has_groups:
            raise ValueError(f"groups={self.groups!r} has no draws of the prior yet: set None.")
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

    def _log_likelihoods(self, X, y, draws):
        codes = encode_known(y, self.classes_).astype(int)
        theta = self._own(draws)
        out = np.empty((len(theta), len(codes)))
        fit_intercept, n_classes = self._state.fit_intercept, len(self.classes_)
        for rows, table in _tables(X, theta, fit_intercept, n_classes, self._units):
            out[:, rows] = np.take_along_axis(table, codes[None, None, rows], axis=0)[0]
        return out

    def _refuse_large(self, X):
        if getattr(self, "_state", None) is None or self._groups_of_fit is not None:
            super()._refuse_large(X)
        else:
            refuse_far(X, self._units, X.dtype)

    @property
    def _units(self):
        """Those that the posterior was found in, None of given ones."""
        frame = self.posterior_.frame
        return getattr(frame, "columns", frame)

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

    def _log_averages(self, X):
        if self._are_ordered:
            return super()._log_averages(X)
        if self._groups_of_fit is not None:
            with np.errstate(divide="ignore"):
                log_weights = np.log(self._particles_averaged[1])[:, None]
            found = self._reduced(
                X, lambda table: logsumexp(log_softmax(table, axis=0) + log_weights, axis=1)
            )
            return np.minimum(found.T, 0.0)
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

    def _reduced(self, X, reduce):
        """Logits under all particles, (1 or n_classes, m, n), reduced over particles."""
        points, dtype, (X, _, effects) = self.posterior_, X.dtype, self._known(X)
        if not isinstance(points, GaussianPosterior):
            points = own_particles(points)[self._particles_averaged[0]]
        fit_intercept, n_classes = self._state.fit_intercept, len(self.classes_)
        tables = _logit_tables(X, points, fit_intercept, n_classes, self._units, effects)
        averages = np.concatenate([reduce(table) for _, table in tables], axis=-1)
        return averages.astype(dtype, copy=False)  # Sums are made in double precision.


def _probabilities(table):
    """Probabilities (n_classes, m, n) of logits less those of the first class, overwritten."""
    if table.max() > MAX_EXPONENT:  # Two such classes would be as probable.
        return softmax(np.concatenate([np.zeros_like(table[:1]), table]), axis=0)
    odds = exponentials(table)
    out = np.empty((len(odds) + 1, *odds.shape[1:]))
    np.reciprocal(1.0 + odds.sum(axis=0), out=out[0])
    np.multiply(odds, out[0], out=out[1:])
    return out


def _tables(X, points, fit_intercept, n_classes, units, effects=None):
    """Slices of rows with the log probabilities of their classes, of shape (n_classes, m, n)."""
    for rows, table in _logit_tables(X, points, fit_intercept, n_classes, units, effects):
        if len(table) == 1:
            yield rows, np.stack([log_expit(-table[0]), log_expit(table[0])])
        else:
            yield rows, log_softmax(table, axis=0)


def _logit_tables(X, points, fit_intercept, n_classes, units, effects=None, for_means=False):
    """Slices of rows with their logits, of shape (1 or n_classes, m, n).

    With ``for_means``, of particles, there are few rows at a time, and logits of several classes
    are less those of the first, which is left out.

    ``points`` are m particles in ``units``, or in the given ones where these are None, or a
    `GaussianPosterior`, whose m nodes take their place. `ClassEffects` of rows are added.
    """
    by_nodes = isinstance(points, GaussianPosterior)
    m = len(points.weights) if by_nodes else len(points)
    n_rows, width = n_logits(n_classes), X.shape[1] + fit_intercept
    if not by_nodes:
        # In the order of the table, classes first, so that it is whole as it is made.
        coefficients = points[:, : n_rows * width].reshape(m, n_rows, width)
        if for_means and n_rows > 1:
            coefficients, n_rows = coefficients[:, 1:] - coefficients[:, :1], n_rows - 1
        coefficients = coefficients.transpose(1, 0, 2).reshape(-1, width)
        if issparse(X) and units is not None and fit_intercept:
            coefficients = at_zero(coefficients, units.shift)
    step = max(1, (_CACHED if for_means else _TABLE) // (m * n_classes))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        if by_nodes:
            table = logits_at_nodes(points, X[rows], fit_intercept)
        else:
            some = X[rows] if units is None else units.rows(X[rows])
            table = logits(coefficients, some, fit_intercept).astype(np.float64, copy=False)
            table = table.reshape(n_rows, m, -1)
            if effects is not None:
                effects.add(table, rows)
        yield rows, table


def _draw_labels(X, theta, fit_intercept, classes, rng, units, effects=None):
    """A label for each row and particle."""
    out = np.empty((X.shape[0], len(theta)), dtype=classes.dtype)
    for rows, table in _tables(X, theta, fit_intercept, len(classes), units, effects):
        below = np.cumsum(np.exp(table[:-1]), axis=0) < rng.random(table.shape[1:])
        out[rows] = classes[below.sum(axis=0)].T
    return out
