"""Class probabilities averaged over particles, chunk by chunk of rows."""

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skpmd._base.utils import check_level, weighted_quantile

_TABLE = 1 << 20  # probabilities held at once


class AveragedClassifier(ClassifierMixin):
    """Predictions of a classifier whose ``posterior_`` holds weighted particles, or nodes.

    A subclass gives the log probabilities of the classes under each particle,
    ``_class_log_proba(X, theta, n_classes) -> (n_classes, m, n_samples)``. Nothing here is random,
    and each row is predicted by itself.
    """

    def predict_proba(self, X):
        """Posterior predictive class probabilities: averages over particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probability of each class, in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Logarithm of `predict_proba`, shape (n_samples, n_classes)."""
        check_is_fitted(self, "posterior_")
        log_weights = self.posterior_.log_weights[:, None]
        # Each class by its own sum in logs: a small probability keeps its digits.
        log_proba = self._by_rows(
            X, lambda table: np.stack([logsumexp(log_weights + one, axis=0) for one in table])
        ).T
        return np.minimum(log_proba, 0.0)  # the weights add up to one but for rounding

    def decision_function(self, X):
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

    def predict(self, X):
        """The class of highest averaged probability, shape (n_samples,)."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba_interval(self, X, level=0.9):
        """Central credible intervals of the class probabilities.

        Where `predict_proba` is the chance of a class, this is how well that chance is known.

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
        """
        tails = check_level(level)
        check_is_fitted(self, "posterior_")
        weights = self.posterior_.weights

        def ends(table):
            return np.stack([weighted_quantile(np.exp(one), weights, tails) for one in table])

        return self._by_rows(X, ends).transpose(2, 0, 1)

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays; with ``reset``, the features of X are remembered."""
        return validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset
        )

    def _by_rows(self, X, reduce):
        """Log probabilities under all particles, reduced over particles."""
        X = self._validated(X)
        theta = getattr(self.posterior_, "particles", None)
        tables = self._tables(X, theta, len(self.classes_))
        averages = np.concatenate([reduce(table) for _, table in tables], axis=-1)
        return averages.astype(X.dtype, copy=False)  # sums are made in double precision

    def _tables(self, X, theta, n_classes):
        """Slices of rows with the log probabilities of their classes, (n_classes, m, n).

        Under particles theta, or under the posterior's own nodes where it has no particles.
        """
        m = len(self.posterior_.weights) if theta is None else len(theta)
        step = max(1, _TABLE // (m * n_classes))
        for start in range(0, X.shape[0], step):
            rows = slice(start, min(start + step, X.shape[0]))
            yield rows, self._class_log_proba(X[rows], theta, n_classes)
