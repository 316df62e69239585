"""More results of a fitted mixture: densities of some columns, and the uncertainty of labels."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.utils import as_floats, weighted_quantile
from skpmd._base.validation import refuse_overflows
from skpmd._typing import Array, ArrayLike, Columns, MatrixLike
from skpmd.mixture._conditional import components_of, places_of, values_of
from skpmd.mixture._density import MixtureDensity
from skpmd.mixture._left_out import leave_one_out
from skpmd.mixture._responsibilities import log_jacobians, log_joints, refuse_missing
from skpmd.mixture._summaries import draws_of


class MixtureQueries:
    """Mixin of an estimator whose ``_state`` is a `skpmd.mixture._summaries.MixtureState`."""

    def marginal(self, columns: Columns) -> MixtureDensity:
        """Posterior predictive density of some columns, whatever the others are.

        Parameters
        ----------
        columns : int, str or array-like of them, or mask of shape (n_features,)
            Columns; names are those of the data frame of the fit.

        Returns
        -------
        MixtureDensity
            Distribution of one row, in the order of ``columns``. It is the exact average over
            particles.

        Raises
        ------
        ValueError
            If a column does not exist, or is given twice.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skpmd import GaussianMixturePMD
        >>> mixture = GaussianMixturePMD(3, random_state=0).fit(load_iris().data)
        >>> mixture.marginal([2, 3]).mean().round(1)
        array([[3.8, 1.2]])
        """
        check_is_fitted(self)
        return self._density(np.empty(0, dtype=int), self._places(columns), np.empty((1, 0)))

    def conditional(self, columns: Columns, values: ArrayLike) -> MixtureDensity:
        """Posterior predictive density of all other columns, given values of some.

        Its mean is Gaussian mixture regression (Ghahramani and Jordan 1994) averaged over
        particles. Its draws fill gaps, row by row: what is not known of the mixture is the same
        in all rows, and for multiple imputation each table has to have a mixture of its own, as
        one fitted to rows that are weighted at random.

        Parameters
        ----------
        columns : int, str or array-like of them, or mask of shape (n_features,)
            The k known columns; at least one other column has to remain.
        values : array-like of shape (n, k)
            Their values in n rows, in the order of ``columns``. Of a data frame, the columns with
            their names are taken, if the fit had names.

        Returns
        -------
        MixtureDensity
            Distribution of n rows; its ``columns`` are the other columns, in the order of the fit.

        Raises
        ------
        ValueError
            If a column does not exist or none remains, values are not finite or of another shape,
            or a data frame lacks one of the columns.
        TypeError
            If only some of a data frame's columns are called by strings.

        References
        ----------
        Ghahramani, Z. and Jordan, M. I. (1994). Supervised learning from incomplete data via an EM
        approach. NIPS 6.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from skpmd import GaussianMixturePMD
        >>> mixture = GaussianMixturePMD(3, random_state=0).fit(load_iris().data)
        >>> density = mixture.conditional([0, 1], [[5.0, 3.4], [6.0, 2.8]])
        >>> density.columns, density.mean().shape
        (array([2, 3]), (2, 2))
        """
        check_is_fitted(self)
        known = self._places(columns)
        wanted = np.setdiff1d(np.arange(self.n_features_in_), known)
        if not len(wanted):
            raise ValueError(
                f"columns has all {self.n_features_in_} columns of the fit: leave one or more out, "
                "or call score_samples."
            )
        names = getattr(self, "feature_names_in_", None)
        values = as_floats("values", values_of(values, known, names))
        if values.ndim != 2 or values.shape[1] != len(known) or not len(values):
            raise ValueError(
                f"values must have a column for each of the {len(known)} of columns, and one row "
                f"or more, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError(
                "values holds nan or infinite numbers. Leave a column that is not known out of "
                "columns, with a call for each set of columns that rows know."
            )
        refuse_overflows("values", values)
        return self._density(known, wanted, values)

    def _ends(self, X, tails):
        rows, draws = self._rows(X), self._draws
        weights = np.exp(draws.log_weights)
        out = np.empty((len(rows), draws.log_mixing.shape[1], 2))
        for some, joint in log_joints(draws, rows):
            proba = softmax(joint, axis=2)
            out[some] = np.moveaxis(weighted_quantile(proba.swapaxes(0, 1), weights, tails), 0, 2)
        return out

    def pointwise_log_likelihood(self, X: MatrixLike, y: object = None) -> Array:
        """Log density of each row under each particle of ``posterior_``.

        `skpmd.model_comparison.waic` and ArviZ need it, and, with ``strategy="parameters"``,
        `skpmd.model_comparison.loo`. The order of the components does not matter.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (m, n_samples)
            log p(x_n | theta_i), to be weighted by ``posterior_.weights``.
        """
        rows, draws = self._rows(X), self._draws
        out = np.tile(log_jacobians(self._state.scaler, rows), (len(draws.log_mixing), 1))
        for some, joint in log_joints(draws, rows):
            out[:, some] += logsumexp(joint, axis=2).T
        return out

    def _leave_one_out(self, X, y, times):
        """`LeftOut` of the rows of the fit; None with draws, given which rows are independent."""
        rows, state = self._rows(X), self._state
        refuse_missing(rows.table, "leaving rows out")
        if state.strategy == "parameters":
            return None
        return leave_one_out(state, self._predictive, rows, times, self.score_samples(X))

    @result
    def _draws(self):
        """Normal mixtures that are the particles of ``posterior_``."""
        return draws_of(self._state)

    def _places(self, columns):
        return places_of(columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _density(self, known, wanted, values):
        """`MixtureDensity` of wanted columns given values of known ones."""
        scaler, components = self._state.scaler, components_of(self._predictive, known, wanted)
        scaled = (values - scaler.shift[known]) / scaler.scale[known]
        return MixtureDensity(wanted, components, scaled, scaler)
