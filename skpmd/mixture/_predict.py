"""Predictions of a mixture: averages over particles, never from point estimates."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.mean_draws import MeanDraws, some_particles
from skpmd._base.predictions import ClassProbabilities
from skpmd._base.utils import as_generator, check_n_draws
from skpmd._base.validation import checked_weights, refuse_overflows
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._typing import Array, ArrayLike, MatrixLike, RandomState
from skpmd.mixture import _partition
from skpmd.mixture._density_predict import MixtureQueries
from skpmd.mixture._partition import Partition
from skpmd.mixture._responsibilities import (
    averages,
    log_densities,
    log_jacobians,
    log_joints,
    most_probable,
)
from skpmd.mixture._rows import RowView
from skpmd.mixture._summaries import conjugate_particles

# Particles whose log weight is less than the largest by more are left out of labels.
_NEGLIGIBLE = -20.0
_NAN = (
    "Input X contains NaN: set_params(handle_missing='marginal') predicts rows from the values "
    "that they have."
)


class MixturePredictions(MixtureQueries, ClassProbabilities):
    """Mixin of an estimator whose ``_state`` is a `skpmd.mixture._summaries.MixtureState`."""

    # ------------------------------------------------------------------ densities and labels
    @row_by_row
    def score_samples(self, X: MatrixLike) -> Array:
        """Log posterior predictive density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log of the average density over the particles' Student (or normal) mixtures, in nats.
            For a row with missing values it is the log density of the other values, and 0 if all
            are missing.
        """
        X, particles = self._rows(X), self._predictive
        log_weights = particles.log_predictive.ravel()
        out = log_jacobians(self._state.scaler, X)
        for rows, log_density in log_densities(particles, X):
            out[rows] += logsumexp(log_density + log_weights, axis=1)
        return out

    @of_all_rows
    def score(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Weighted mean of the log posterior predictive density of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, not negative.

        Returns
        -------
        float
            Weighted mean of `score_samples`, in nats.
        """
        values = self.score_samples(X)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, values)
        return float(np.average(values, weights=sample_weight))

    def _probabilities(self, X):
        rows = self._rows(X)
        log_weights, particles = self._labelling_particles()
        with self._threads():
            return averages(particles, np.exp(log_weights), rows)

    def _draws_of_mean(self, sides, n_draws, by):
        log_weights, particles = self._labelling_particles()
        chosen, weights = some_particles(softmax(log_weights), n_draws)
        particles, out = particles.select(chosen), []
        for X in sides:
            found = MeanDraws(by)
            for rows, joint in log_joints(particles, self._rows(X)):
                found.add(softmax(joint, axis=2), rows)
            out.append(found.whole())
        return np.stack(out), weights

    @row_by_row
    def predict(self, X: MatrixLike) -> Array:
        """Most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.

        Returns
        -------
        ndarray of shape (n_samples,), int
            Components, from 0.
        """
        X, (log_weights, particles) = self._rows(X), self._labelling_particles()
        with self._threads():
            return most_probable(particles, np.exp(log_weights), X)

    def fit_predict(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Array:
        """Fit, and return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        ndarray of shape (n_samples,), int
            Components, from 0.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """Rows drawn from the posterior predictive density.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness; None is the estimator's own ``random_state``.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows, sorted by their components.
        y : ndarray of shape (n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        n_samples = check_n_draws("n_samples", n_samples)
        rng = as_generator(self.random_state if random_state is None else random_state)
        particles = self._predictive
        students, K = particles.students, particles.log_mixing.shape[1]
        weights = np.exp(particles.log_predictive.ravel())
        drawn = rng.choice(len(weights), size=n_samples, p=weights / weights.sum())
        drawn = drawn[np.argsort(drawn % K, kind="stable")]
        return self._state.scaler.inverse_transform(students.draw(drawn, rng)), drawn % K

    # ------------------------------------------------------------------ criteria and parameters
    def bic(self, X: MatrixLike) -> float:
        """Bayesian information criterion of the best particle's mixture; lower is better.

        The best particle is the one with the largest likelihood of these rows
        (``strategy="parameters"``), or with the largest bound of the evidence (``"conjugate"``,
        with its mixture of Student distributions), whatever ``weighting`` is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.

        Returns
        -------
        float
            Minus twice the log-likelihood, plus the number of free parameters times log(n_samples),
            in nats.
        """
        log_likelihood = self._best_score(X)  # This checks X.
        n_coordinates = self._state.prior.n_coordinates
        return -2.0 * log_likelihood + n_coordinates * np.log(np.shape(X)[0])

    def aic(self, X: MatrixLike) -> float:
        """Akaike information criterion of the best particle's mixture; lower is better.

        See `bic` for the best particle.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``handle_missing="marginal"`` nan is a missing value.

        Returns
        -------
        float
            Minus twice the log-likelihood, plus twice the number of free parameters, in nats.
        """
        return -2.0 * self._best_score(X) + 2.0 * self._state.prior.n_coordinates

    def component_interval(self, level: float = 0.9) -> dict[str, Array]:
        """Central credible intervals of the parameters of relabelled components.

        With ``strategy="conjugate"`` each particle is a posterior that takes its own
        responsibilities of the rows as known: intervals are too narrow if components overlap.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        dict of str to ndarray
            ``"weights"`` of shape (n_components, 2), ``"means"`` and ``"stds"`` of shape
            (n_components, n_features, 2): lower and upper ends, in the units of the columns.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        ends = self.posterior_.interval(level)
        K, p = self._state.prior.n_components, self.n_features_in_
        parts = np.split(ends, [K, K + K * p])
        shaped = [part.reshape(K, p, 2) for part in parts[1:]]
        return {"weights": parts[0], "means": shaped[0], "stds": shaped[1]}

    # ------------------------------------------------------------------ partitions
    def co_clustering(self, X: MatrixLike) -> Array:
        """Probability that two rows belong to the same component.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, at most a few thousand.

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
            Probabilities, 1 on the diagonal.

        Raises
        ------
        ValueError
            If there are more than 2000 rows.
        """
        return _partition.co_clustering(*self._all_responsibilities(X))

    def optimal_partition(
        self,
        X: MatrixLike,
        loss: Literal["vi", "binder"] = "vi",
        level: float = 0.9,
        random_state: RandomState = None,
    ) -> Partition:
        """Partition with the smallest expected loss, and a credible ball of partitions around it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, at most a few thousand.
        loss : {"vi", "binder"}, default="vi"
            Variation of information, or Binder's loss.
        level : float, default=0.9
            Probability of the credible ball.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness; None is the estimator's own ``random_state``.

        Returns
        -------
        Partition
            Labels, expected loss and credible ball; see `skpmd.mixture._partition`.

        Raises
        ------
        ValueError
            If there are more than 2000 rows, there is no such loss, or the level does not lie
            strictly between 0 and 1.

        References
        ----------
        Wade, S. and Ghahramani, Z. (2018). Bayesian cluster analysis: point estimation and credible
        balls. Bayesian Analysis 13.

        Dahl, D. B., Johnson, D. J. and Mueller, P. (2022). Search algorithms and loss functions for
        Bayesian clustering. Journal of Computational and Graphical Statistics 31.
        """
        rng = as_generator(self.random_state if random_state is None else random_state)
        return _partition.optimal_partition(
            *self._all_responsibilities(X), loss=loss, level=level, rng=rng
        )

    # ------------------------------------------------------------------ particles for all these
    @result
    def _predictive(self):
        """Particles for predictions: with ``strategy="conjugate"`` Students, and their weights."""
        state = self._state
        if state.strategy == "parameters":
            return state.points
        return conjugate_particles(state.fit, state.points, state.weighting)

    def _labelling_particles(self):
        """Log weights of the particles that matter for labels, and these particles."""
        log_weights = self._predictive.log_weights
        places = np.flatnonzero(log_weights > log_weights.max() + _NEGLIGIBLE)
        return log_weights[places], self._predictive.select(places)

    def _rows(self, X):
        """Checked rows in scaled columns, as a `RowView`."""
        check_is_fitted(self)
        finite = self._finite()
        try:
            X = self._checked_data(
                X, dtype=[np.float64, np.float32], reset=False, ensure_all_finite=finite
            )
        except ValueError as error:
            if finite is True and "contains NaN" in str(error):
                raise ValueError(_NAN) from error
            raise
        refuse_overflows("X", X)
        return RowView(X, scaler=self._state.scaler)

    def _finite(self):
        """What scikit-learn is to accept of numbers that are not finite."""
        handled = getattr(self, "handle_missing", "error")
        if handled not in ("error", "marginal"):  # It may have been set after the fit.
            self._check_parameters()
        return "allow-nan" if handled == "marginal" else True

    def _all_responsibilities(self, X):
        """Responsibilities (m, n, K) under each particle, and log weights of the particles."""
        X = self._rows(X)
        _partition.check_rows(len(X))
        log_weights, particles = self._labelling_particles()
        out = np.empty((len(log_weights), len(X), particles.log_mixing.shape[1]))
        for rows, joint in log_joints(particles, X):
            out[:, rows] = softmax(joint, axis=2).swapaxes(0, 1)
        return out, log_weights

    def _best_score(self, X):
        """Log-likelihood of the best particle."""
        X, particles = self._rows(X), self._predictive
        if self._state.strategy == "conjugate":  # Their weights may be equal, their ELBOs are not.
            model, counts = self._state.fit.model, self._state.fit.counts
            particles = particles.select([int(model.posteriors(counts).elbo.argmax())])
        total = np.zeros(len(particles.log_mixing))
        for _, joint in log_joints(particles, X):
            total += logsumexp(joint, axis=2).sum(axis=0)
        return float(total.max() + log_jacobians(self._state.scaler, X).sum())
