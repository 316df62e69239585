"""Probabilities of classes, or of components: what all families of them offer."""

from __future__ import annotations

from sklearn.base import ClassifierMixin

from skpmd._base.utils import check_level
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._typing import Array, ArrayOrMore, MatrixLike


class ClassProbabilities:
    """Mixin of estimators of probabilities, which offer `_probabilities` and `_ends`.

    Each row of X is predicted by itself, and without randomness.
    """

    score = of_all_rows(ClassifierMixin.score)

    # ------------------------------------------------------------------ what a family says
    def _probabilities(self, X):
        """Averages (n, n_classes) over the particles."""
        raise NotImplementedError

    def _ends(self, X, tails):
        """Quantiles (n, n_classes, 2) of the probabilities at two of their own."""
        raise NotImplementedError

    def _most_probable(self, X):
        """Codes (n,) of the classes with the highest probabilities."""
        return self._probabilities(X).argmax(axis=1)

    # ------------------------------------------------------------------ what follows
    @row_by_row
    def predict(self, X: MatrixLike) -> Array:
        """The class with the highest averaged probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns as in `fit`; those of a process cannot be sparse.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, among ``classes_``.
        """
        codes = self._most_probable(X)
        return self.classes_[codes]

    @row_by_row
    def predict_proba(self, X: MatrixLike, return_interval: float | None = None) -> ArrayOrMore:
        """Probabilities of classes, or of a mixture's components, averaged over the particles.

        Those of a logistic regression are within ``prediction_tol`` of the averages on the rows of
        the fit. Averages over a process are integrals in one dimension, right to 1e-8. Components
        are those of relabelled particles, given the values of a row that are observed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns as in `fit`; those of a process or a mixture cannot be sparse. With a mixture's
            ``handle_missing="marginal"`` nan is a missing value.
        return_interval : float in (0, 1), default=None
            If given, the level of the intervals of `predict_proba_interval`, which are then
            returned too. A `Pipeline` passes the argument on; for searches see
            `skpmd.wrappers.predict_proba_interval`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probability of each class, in the order of ``classes_``, or of each component; a row
            sums to 1.
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends, with ``return_interval``.

        Raises
        ------
        ValueError
            If ``return_interval`` is not between 0 and 1, or X is not as it was in `fit`.
        """
        if return_interval is None:
            return self._probabilities(X)
        tails = check_level(return_interval, "return_interval")
        return self._probabilities(X), self._ends(X, tails)

    @row_by_row
    def predict_proba_interval(self, X: MatrixLike, level: float = 0.9) -> Array:
        """Central credible intervals of the probabilities: how well these are known.

        They are quantiles over the particles. With a mixture's ``strategy="conjugate"`` these take
        their responsibilities of the fitted rows as known, and intervals are too narrow if
        components overlap. For a process with two classes they are quantiles of the logistic
        function of the process. With more they are those of 1024 fixed points of a quasi-random
        sequence, the same for each row, for which the probabilities of all processes are divided by
        their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns as in `predict_proba`.
        level : float in (0, 1), default=0.9
            Posterior probability of each interval.

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
            Lower and upper end (last axis) for each class or component (second axis).

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        return self._ends(X, check_level(level))
