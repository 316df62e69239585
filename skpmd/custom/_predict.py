"""Predictions of a user's own model: averages over particles, draws of targets, densities."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import check_rows_of_fit
from skpmd._base.mean_draws import MeanDraws, some_particles
from skpmd._base.parameters import with_names
from skpmd._base.utils import as_generator, check_level, check_n_draws, warn, weighted_quantile
from skpmd._base.validation import checked_weights
from skpmd._rows.by_block import of_all_rows, row_by_row
from skpmd._runtime.threads import each, in_order
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike, RandomState
from skpmd.custom._model import (
    POINTWISE,
    check_sum,
    count,
    noted,
    parts_of,
    parts_of_table,
    pointwise_table,
    rows_of,
    values_table,
)
from skpmd.custom._support import Densities, closing_rows
from skpmd.engine.particles import random_draws

# Of targets of a row there are so many draws, or one for each particle. The probability that an
# interval of 90 % holds is then known to 0.5 %.
_N_DRAWS = 4000
# All rows have the same stream of random numbers: a row's answer is then that of the row alone.
_SEED = 0
_TARGETS = {  # Functions that predictions need, and what they return.
    "predict_mean": "predict_mean(theta, X), the mean of y for each particle and row, (m, n)",
    "sample_targets": "sample_targets(theta, X, rng), a y drawn for each particle and row, (m, n)",
}


def _needs(*parameters):
    """A check for `available_if`: one of the parameters, which are functions, is given."""

    def check(estimator):
        if all(estimator._function(name) is None for name in parameters):
            raise AttributeError(
                f"It needs {', or '.join(_TARGETS[name] for name in parameters)}, or distribution("
                "theta, X), which has them all: give ParticleMirrorDescent such a function, for "
                "example by set_params."
            )
        return True

    return check


class CustomPredictions:
    """Predictions of an estimator by those functions of the user that are given.

    Only methods with a ``random_state`` are random. Functions are called with parts of the rows,
    and each row of X is predicted by itself.
    """

    @available_if(_needs("predict_mean"))
    @row_by_row
    def predict(
        self, X: MatrixLike, return_std: bool = False, return_interval: float | None = None
    ) -> ArrayOrMore:
        """Predictive mean, and on request its standard deviation or interval.

        The mean is the average of ``predict_mean`` over the particles, not its value at the mean of
        the particles. Standard deviations and intervals are those of y if ``sample_targets`` is
        given, and otherwise those of the mean, from the particles alone; see `predict_interval`.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows, or None if the fit had none.
        return_std : bool, default=False
            Whether to return standard deviations, too.
        return_interval : float in (0, 1), default=None
            If given, the level of the intervals of `predict_interval`, which are then returned too.
            A `Pipeline` passes the argument on; for searches and transformed targets see
            `skpmd.wrappers.predict_interval`.

        Returns
        -------
        y_mean : ndarray of shape (n,) or (n, t)
            Means.
        y_std : ndarray of shape (n,) or (n, t)
            Standard deviations, with ``return_std``.
        y_interval : ndarray of shape (n, 2) or (n, t, 2)
            Lower and upper ends, with ``return_interval``.

        Raises
        ------
        RuntimeError
            If ``return_std`` and ``return_interval`` are both requested.
        ValueError
            If a function returns an array of the wrong shape.
        FloatingPointError
            If a function returns nan.

        Warns
        -----
        UserWarning
            If standard deviations or intervals are requested without ``sample_targets``.
        """
        if return_std and return_interval is not None:
            raise RuntimeError("At most one of return_std and return_interval can be requested.")
        spread = _std if return_std else None
        if return_interval is not None:
            tails = check_level(return_interval, "return_interval")
            spread = partial(_ends, tails=tails)
        check_is_fitted(self)
        if spread is not None and self._function("sample_targets") is None:
            name = "return_std" if return_std else "return_interval"
            warn(
                f"{name} is that of the mean alone, and not of a new y, without sample_targets: "
                "give such a function, or ask for predict_interval(X, target='mean').",
                UserWarning,
            )
        X, _ = self._data(X, None, reset=False)
        mean = self._over_means(X, _mean)
        return mean if spread is None else (mean, self._spread("auto", X, spread))

    @available_if(_needs("predict_mean", "sample_targets"))
    @row_by_row
    def predict_interval(
        self, X: MatrixLike, level: float = 0.9, target: Literal["auto", "y", "mean"] = "auto"
    ) -> Array:
        """Central predictive intervals, or credible intervals of the mean.

        Intervals of y are quantiles of 4000 draws of ``sample_targets`` for each row, or of one
        draw for each particle. If weights are nearly equal, intervals of 90 % contain y with a
        probability of 89 to 91 %. Each row uses the same random numbers, so that its result does
        not depend on the other rows. The function is called for one row at a time, which takes some
        tenths of a millisecond.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows, or None if the fit had none.
        level : float in (0, 1), default=0.9
            Probability that an interval contains the true value.
        target : {"auto", "y", "mean"}, default="auto"
            Intervals of a new y, or of ``predict_mean``, which do not include noise. ``"auto"`` is
            y if ``sample_targets`` is given.

        Returns
        -------
        ndarray of shape (n, 2) or (n, t, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If ``level`` or ``target`` has a value that is not allowed, or the function for a target
            is missing.
        """
        tails = check_level(level)
        check_is_fitted(self)
        X, _ = self._data(X, None, reset=False)
        return self._spread(target, X, partial(_ends, tails=tails))

    @available_if(_needs("sample_targets"))
    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw targets from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: targets of
        different rows are dependent as they are in the posterior.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows, or None if the fit had none.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, t, n_samples)
            Targets, of the type that ``sample_targets`` returns.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        n_samples, rng = check_n_draws("n_samples", n_samples), as_generator(random_state)
        X, _ = self._data(X, None, reset=False)
        theta, weights = self._with_weight
        chosen = random_draws(weights, n_samples, rng)
        batch = rows_of(X, None, None, "auto").data
        draws = [
            self._targets(some, batch, rng, numbers=False)
            for some in parts_of(theta[chosen], len(batch.weight))
        ]
        return np.moveaxis(np.concatenate(draws), 0, -1)

    def _check_rows_of_fit(self, times):
        """ValueError where rows that are to be left out are not those of the fit."""
        check_rows_of_fit(times, self._state.stream.seen)

    def _closing_rows(self, X, y, table):
        """Rows (n,) without which the support is wider; ``table`` is of particles with weight."""
        model, rows, _ = self._read(X, y, None, reset=False)
        posterior, batch = self.posterior_, rows.data
        particles, is_alive = posterior.particles, posterior.weights > 0.0
        densities = Densities(
            model.log_prior,
            lambda theta: model.log_likelihood(theta, batch),
            lambda theta: pointwise_table(model, self._function(POINTWISE), theta, batch),
        )
        with self._threads():
            return closing_rows(
                densities, particles[is_alive], particles[~is_alive], table, posterior.std(),
                posterior.support,
            )  # fmt: skip

    def pointwise_log_likelihood(
        self, X: MatrixLike | None = None, y: ArrayLike | None = None
    ) -> Array:
        """Log-likelihood of each row under each particle, for `skpmd.model_comparison.loo`.

        It is ``log_likelihood_pointwise``. Without this function ``log_likelihood`` is called for
        each row in turn. If ``log_likelihood`` is given, the sum over the rows is compared with it.

        Parameters
        ----------
        X : array-like of shape (n, p), optional
            Rows of data.
        y : array-like of shape (n,) or (n, t), optional
            Targets.

        Returns
        -------
        ndarray of shape (m, n)
            Log-likelihoods under all particles, which have the weights ``posterior_.weights``; -inf
            for particles without weight.

        Raises
        ------
        ValueError
            If the log-likelihood of all rows is not the sum over the rows.
        """
        check_is_fitted(self)
        model, rows, _ = self._read(X, y, None, reset=False)
        is_alive = self.posterior_.weights > 0.0
        with self._threads():
            found = self._density_table(model, self.posterior_.particles[is_alive], rows.data)
        table = np.full((len(is_alive), found.shape[1]), -np.inf)
        table[is_alive] = found
        return table

    @of_all_rows
    def score(
        self,
        X: MatrixLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean log predictive density of the rows; more is better.

        The density of a row is the average of its likelihood over the particles. Each row is scored
        by itself: dependence between rows given theta is ignored. Searches such as `GridSearchCV`
        use this score. It is fast with ``log_likelihood_pointwise``.

        Parameters
        ----------
        X : array-like of shape (n, p), optional
            Rows of data.
        y : array-like of shape (n,) or (n, t), optional
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows in the average.

        Returns
        -------
        float
            Mean in nats; for a continuous y it depends on the units of y.

        Raises
        ------
        ValueError
            If the log-likelihood of all rows is not the sum over the rows.
        """
        check_is_fitted(self)
        model, rows, _ = self._read(X, y, None, reset=False)
        theta, weights = self._with_weight

        def of(batch):
            table = self._density_table(model, theta, batch)
            return logsumexp(np.log(weights)[:, None] + table, axis=0)

        parts = parts_of_table(rows.data.X, rows.data.y, len(theta))
        with self._threads():
            density = np.concatenate(list(in_order(of, parts)))
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, density)
        return float(np.average(density, weights=sample_weight))

    # ------------------------------------------------------------------ tables
    @result
    def _with_weight(self):
        """The particles that have any weight, (m, d), and their weights, (m,).

        Others may be off the prior's support, where the user's functions need not have a value.
        """
        posterior = self.posterior_
        is_alive = posterior.weights > 0.0
        weights = posterior.weights[is_alive]
        return posterior.particles[is_alive], weights / weights.sum()

    def _density_table(self, model, theta, batch):
        """Log-likelihood of each row of a batch under each particle, (m, n)."""
        pointwise = self._function(POINTWISE)
        table = pointwise_table(model, pointwise, theta, batch)
        if self.log_likelihood is not None:
            check_sum(table, model.log_likelihood(theta, batch), pointwise)
        return table

    def _spread(self, target, X, reduce):
        """``reduce(table, weights)`` of y or of its mean, see `predict_interval`."""
        needed = {"y": "sample_targets", "mean": "predict_mean"}
        if not (isinstance(target, str) and target in (*needed, "auto")):
            raise ValueError(f"target must be 'auto', 'y' or 'mean', got {target!r}.")
        if target == "auto":
            target = "mean" if self._function("sample_targets") is None else "y"
        if self._function(needed[target]) is None:
            raise ValueError(f"target={target!r} needs {_TARGETS[needed[target]]}: give it.")
        return (self._over_draws if target == "y" else self._over_means)(X, reduce)

    def _over_means(self, X, reduce):
        """``reduce(table, weights)`` of means (m, n) or (m, n, t), for parts of the rows."""
        theta, weights = self._with_weight

        def of(batch):
            return reduce(self._mean_table(theta, batch), weights)

        with self._threads():
            return np.concatenate(each(of, parts_of_table(X, None, len(theta))))

    @available_if(_needs("predict_mean"))
    def _draws_of_mean(self, sides, n_draws, by):
        check_is_fitted(self)
        theta, weights = self._with_weight
        chosen, weights = some_particles(weights, n_draws)
        theta, out = theta[chosen], []
        for X in sides:
            X, start, found = self._data(X, None, reset=False)[0], 0, MeanDraws(by)
            for batch in parts_of_table(X, None, len(theta)):
                rows = slice(start, start := start + count(batch))
                table = self._mean_table(theta, batch).swapaxes(0, 1)
                found.add(table.reshape(*table.shape[:2], -1), rows)
            out.append(found.whole())
        return np.stack(out), weights

    def _mean_table(self, theta, batch):
        """Means under each particle, (m, n) or (m, n, t)."""
        with noted("predict_mean", theta, batch.X):
            values = self._function("predict_mean")(
                with_names(theta, self.posterior_.variables), batch.X
            )
        table = values_table("predict_mean", values, len(theta), count(batch))
        return _no_nan("predict_mean", table)

    def _over_draws(self, X, reduce):
        """``reduce(table, weights)`` of draws of y, for one row after another."""
        theta, weights = self._with_weight
        times = -(-_N_DRAWS // len(theta))
        theta, weights = np.tile(theta, (times, 1)), np.tile(weights / times, times)

        def of(batch):
            draws = self._targets(theta, batch, np.random.default_rng(_SEED))
            return reduce(_no_nan("sample_targets", draws), weights)

        with self._threads():
            return np.concatenate(each(of, rows_of(X, None, None, 1).whole()))

    def _targets(self, theta, batch, rng, numbers=True):
        """A draw of y under each particle, (m, n) or (m, n, t)."""
        with noted("sample_targets", theta, batch.X):
            theta = with_names(theta, self.posterior_.variables)
            values = self._function("sample_targets")(theta, batch.X, rng)
        return values_table("sample_targets", values, len(theta), count(batch), numbers=numbers)


def _no_nan(name, table):
    """The table; FloatingPointError where it holds nan."""
    n_nan = int(np.isnan(table).sum())
    if n_nan:
        raise FloatingPointError(f"{name} returned nan for {n_nan} of {table.size} values.")
    return table


def _mean(table, weights):
    """Average over particles, the first axis; no digit depends on what stands beside a row.

    One particle after the other is added to all rows. NumPy adds up a single column in pairs, which
    is another order, so that it stands twice.
    """
    flat = np.ascontiguousarray(table).reshape(len(table), -1)
    columns = np.repeat(flat, 2, axis=1) if flat.shape[1] == 1 else flat
    sums = np.add.reduce(weights[:, None] * columns, axis=0)
    return sums[: flat.shape[1]].reshape(table.shape[1:])


def _std(table, weights):
    """Standard deviation over particles; nan where a value is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.sqrt(_mean((table - _mean(table, weights)) ** 2, weights))


def _ends(table, weights, tails):
    """Quantiles over particles, along a new last axis."""
    return np.moveaxis(weighted_quantile(table, weights, tails), 0, -1)
