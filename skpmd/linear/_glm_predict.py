"""Predictions of generalised linear models: averages over particles, distributions, draws."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.utils import check_probabilities
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike
from skpmd.linear._family_mixture import FamilyMixture
from skpmd.linear._group_effects import GroupedMixture
from skpmd.predictive import Uncertainty


class GLMPredictions(RegressorMixin):
    """Predictions of an estimator whose particles are coefficients, an intercept and a dispersion.

    Each row of X is predicted by itself. Only methods with a ``random_state`` are random.
    """

    _of_y = {"y_numeric": True}

    @row_by_row
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_interval: float | None = None
    ) -> ArrayOrMore:
        """Posterior mean of the mean of y, and on request the spread of a new y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, those of roles included: with an exposure these are expected counts or amounts
            over it, with trials expected numbers of successes.
        return_std : bool, default=False
            Whether to return standard deviations of new y, too.
        return_interval : float in (0, 1), default=None
            If given, the level of central intervals of new y, which are then returned too.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            Means.
        y_std : ndarray of shape (n_samples,)
            Standard deviations, with ``return_std``.
        y_interval : ndarray of shape (n_samples, 2)
            Lower and upper ends, with ``return_interval``.

        Raises
        ------
        RuntimeError
            If both are requested.
        """
        if return_std and return_interval is not None:
            raise RuntimeError(
                "At most one of return_std and return_interval can be requested: ask twice."
            )
        found = self.predict_proba(X)
        if return_std:
            return found.mean(), found.std()
        if return_interval is not None:
            return found.mean(), found.interval(return_interval)
        return found.mean()

    @row_by_row
    def predict_proba(self, X: MatrixLike) -> FamilyMixture:
        """Predictive distribution of y in each row: a mixture over particles.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns, those of roles included.

        Returns
        -------
        FamilyMixture
            Distribution of n_samples rows, in the units of y.
        """
        check_is_fitted(self)
        X, offset, trials, codes = self._split(self._validated(X))
        coefficients, phi = self._of_particles
        family, p = self._state.response.family, X.shape[1]
        centre, kind = self._state.units.centre, FamilyMixture
        effects, (some, weights) = self._effects_of(X, codes), self._particles_averaged
        if effects is not None:
            kind, coefficients, phi = GroupedMixture, coefficients[some], phi[some]
        if issparse(X):
            X = hstack([X, csr_matrix(np.ones((X.shape[0], 1)))]).tocsr()
        else:
            coefficients = coefficients.copy()
            coefficients[:, p] += coefficients[:, :p] @ centre
            X = np.column_stack([X.astype(np.float64, copy=False) - centre, np.ones(len(X))])
        if family.name == "binomial" and trials is None:
            trials = np.ones(X.shape[0])
        found = kind(
            family.name, coefficients, X, dispersion=phi, weights=weights,
            link=family.link, offset=offset, trials=trials,
        )  # fmt: skip
        return found if effects is None else found.with_effects(effects)

    def _draws_of_mean(self, sides, n_draws, by):
        with self._threads():
            found = [self.predict_proba(X)._draws_of_mean(n_draws, by) for X in sides]
        return np.stack([values for values, _ in found]), found[0][1]

    @row_by_row
    def predict_interval(
        self, X: MatrixLike, level: float = 0.9, target: Literal["y", "mean"] = "y"
    ) -> Array:
        """Central predictive intervals, or credible intervals of the mean; see `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns.
        level : float in (0, 1), default=0.9
            Probability of each interval.
        target : {"y", "mean"}, default="y"
            Intervals of a new y, or of its mean, such as a rate, which do not include noise.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends, in the units of y; whole numbers for counts with ``"y"``.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1, or the target is none of the two.
        """
        if target not in ("y", "mean"):
            raise ValueError(f"target must be 'y' or 'mean', got {target!r}.")
        found = self.predict_proba(X)
        return found.interval(level) if target == "y" else found.interval_of_mean(level)

    @row_by_row
    def predict_quantiles(self, X: MatrixLike, alpha: ArrayLike) -> Array:
        """Predictive quantiles at the probabilities ``alpha``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns.
        alpha : float or array-like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (n_samples, k)
            A column for each probability, in the units of y.

        Raises
        ------
        ValueError
            If a probability does not lie in [0, 1], or ``alpha`` has more than one axis.
        """
        alpha = np.atleast_1d(check_probabilities("alpha", alpha))
        if alpha.ndim > 1:
            raise ValueError(f"alpha must be a number or have one axis, got shape {alpha.shape}.")
        return self.predict_proba(X).ppf(alpha)

    @row_by_row
    def predict_uncertainty(self, X: MatrixLike) -> Uncertainty:
        """Variance of a new y, and its aleatoric and epistemic parts.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns.

        Returns
        -------
        Uncertainty
            ``total``, ``aleatoric`` and ``epistemic`` (the variance of the mean under all
            particles), each of shape (n_samples,), in squared units of y.
        """
        found = self.predict_proba(X)
        total, epistemic = found.var(), found.var_of_mean()
        return Uncertainty(total, total - epistemic, epistemic)

    def _draw(self, X, n_samples, rng):
        found = self.predict_proba(X)
        if isinstance(found, GroupedMixture):
            return found.sample_groups(n_samples, rng).T
        return found.sample(n_samples, rng, jointly=True).T

    def _one_each(self, X, n, rng):
        """Draws (n_rows, n) of y, one of each particle of which there are n."""
        found, each = self.predict_proba(X), np.arange(n)
        if isinstance(found, GroupedMixture):
            return found.sample_groups(n, rng, each).T
        return found._drawn(n, rng, each[None]).T

    def _log_likelihoods(self, X, y, draws):
        model, theta, batch, _ = self._likelihood_of(X, y, np.ones(len(y)), draws)
        return model.by_row(theta, batch.X, batch.y, batch.weight, batch.offset, batch.exposure)

    def _numbers(self, y):
        return np.asarray(y, dtype=np.float64)

    @of_all_rows
    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the deviance that the means explain, D^2; R^2 for real-valued y and shares.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Columns.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        float
            1 for perfect means, 0 for one mean (or one rate, or probability) of all rows.
        """
        check_is_fitted(self)
        found = self.predict_proba(X)
        y = np.asarray(y, dtype=np.float64)
        family, shape = self._state.response.family, self.dispersion_.get("shape", np.inf)
        size = np.exp(found.offset) if family.link == "log" else np.ones(len(y))
        size = size if found.trials is None else found.trials
        return family.explained(y, found.mean(), size, shape, sample_weight)

    # ------------------------------------------------------------------ results
    @result
    def _of_particles(self):
        """Given coefficients (m, p + 1), an intercept last, and dispersions."""
        theta, w = self.posterior_.particles, self._width
        coefficients = theta[:, :w]
        if not self._state.fit_intercept:
            constant = np.full((len(theta), 1), self._state.response.location)
            coefficients = np.hstack([coefficients, constant])
        return coefficients, theta[:, w : w + self._state.response.n_own]

    @result
    def intercept_(self) -> float:
        """Posterior mean of the intercept where all columns are zero."""
        return float(self.posterior_.weights @ self._of_particles[0][:, -1])

    @result
    def intercept_std_(self) -> float:
        """Posterior standard deviation of the intercept where all columns are zero."""
        gap = self._of_particles[0][:, -1] - self.intercept_
        return float(np.sqrt(self.posterior_.weights @ gap**2))

    @result
    def dispersion_(self) -> dict[str, Any]:
        """Posterior medians of the dispersion's coordinates, a dict of float by name.

        The shape of counts that may be Poisson has no mean.
        """
        median, w = self.posterior_.quantile(0.5), self._width
        family = self._state.response.family
        levels = getattr(getattr(family.groups, "dispersions", None), "n_effects", 0)
        names = family.dispersions.names[: len(family.dispersions.names) - levels]
        return {name: float(median[w + j]) for j, name in enumerate(names)}
