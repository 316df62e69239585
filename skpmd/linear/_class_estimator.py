"""What classifiers by linear predictors share: parts of a stream, logs, and entropies."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skpmd._base.predictions import ClassProbabilities
from skpmd._base.validation import fit_context
from skpmd._rows.by_block import row_by_row
from skpmd._rows.opening import in_parts
from skpmd._typing import Array, ArrayLike, MatrixLike
from skpmd.linear._linear_estimator import LinearEstimator
from skpmd.linear._mean_field import NO_PARTS
from skpmd.predictive import Uncertainty


def _takes_parts(estimator):
    """Whether there is a ``partial_fit``; raises AttributeError where there is none."""
    if getattr(estimator, "covariance_type", None) == "diag":
        raise AttributeError(NO_PARTS)
    return True


class LinearClassifier(ClassProbabilities, ClassifierMixin, LinearEstimator):
    """Base of classifiers whose particles are coefficients of linear predictors.

    They offer, of checked rows, `_log_averages` (n, n_classes) of probabilities and `_entropies`
    (2, n): of their averages, and on average.
    """

    _adopted_attributes = "n_features_in_", "feature_names_in_", "classes_"

    @available_if(_takes_parts)
    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows, which are then no longer needed.

        Each new row counts once, by the sequential Bayes rule (the first `total_samples` rows, if
        that is given). The first rows are retained (up to 2^21 numbers), and the posterior is
        computed anew from all of them, until each class has ten rows for each of its coefficients
        and further rows have the same shares of classes and similar columns. Rows may therefore
        come sorted. After that, and after `fit`, the stream continues without stored data. Nothing
        is approximated between rejuvenations. The error of rejuvenations is estimated in
        ``history_["rejuvenation_error"]``, and there is a warning if it is large. The parameters of
        the prior and ``fit_intercept`` must not change between calls. If a call fails in any way,
        the estimator remains unchanged.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), float32 or float64
            Columns as in `fit`, on the same scale in all calls: the first part decides on centres
            and units (see ``scale``).
        y : array-like of shape (n_samples,)
            Labels. A call may hold a single class, but the first rows should hold all classes.
        classes : array-like of shape (n_classes,), optional
            All classes, which are sorted; needed at the first call, unless there was a fit, or
            ``categories`` or an ordered dtype of y name them where classes are ordered.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        Self
            The estimator.

        Raises
        ------
        ValueError
            If y holds other labels than ``classes``, or a parameter needs all data at once.
        """
        if getattr(self, "class_weight", None) == "balanced":
            raise ValueError("class_weight='balanced' needs all data: call fit, or set a dict.")
        return self._after_part(X, y, sample_weight, classes=classes)

    @row_by_row
    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities in nats, of the dtype of X, in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._validated(X)
        return self._log_averages(X).astype(X.dtype, copy=False)  # Sums are in double precision.

    @row_by_row
    def predict_uncertainty(self, X: MatrixLike) -> Uncertainty:
        """Entropy of the predicted class, and its aleatoric and epistemic parts, in nats.

        The aleatoric part is the posterior mean of the entropy, which would remain if the
        coefficients were known. The epistemic part is the mutual information of the class and the
        coefficients (Houlsby et al. 2011): labels of rows where it is large are the most
        informative.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns as in `fit`.

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
        total, aleatoric = self._entropies(self._validated(X))
        aleatoric = np.minimum(aleatoric, total)  # But for rounding it is.
        return Uncertainty(total, aleatoric, total - aleatoric)

    def _probabilities(self, X):
        return np.exp(self.predict_log_proba(X))

    def _most_probable(self, X):
        return self.predict_log_proba(X).argmax(axis=1)
