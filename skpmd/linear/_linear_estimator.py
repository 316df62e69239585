"""What estimators of linear predictors share: fits, streams and merges of any response.

A family of them says what its y and its columns are; what follows from that is the same for all.
"""

from __future__ import annotations

from numbers import Real
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import check_rows_of_fit
from skpmd._base.merging import (
    MERGED,
    MERGED_BY_ROWS,
    check_equal,
    check_total,
    density_names,
    inherited,
    merge_densities,
    n_shards,
    refuse_copies,
    refuse_rows,
)
from skpmd._base.options import LOOP_CONSTRAINTS, OF_STOCHASTIC_STEPS
from skpmd._base.results import ParticleResults, Shown, results_of
from skpmd._base.steps import first_stream, stream_after
from skpmd._base.utils import as_generator, check_n_draws, warn
from skpmd._base.validation import fit_context, naming_singular_columns, refuse_overflows
from skpmd._rows.opening import as_table
from skpmd._rows.rows import Rows
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike, RandomState
from skpmd.engine.model import Batch
from skpmd.linear._column_scale import own_particles, warn_of_other_scale
from skpmd.linear._earlier_rows import joined, model_of
from skpmd.linear._fit import PROPOSALS, find_posterior, takes_steps
from skpmd.linear._group_effects import effects_of
from skpmd.linear._group_rows import in_groups, rows_of_groups
from skpmd.linear._hmc import MOVES
from skpmd.linear._make_model import PRIORS, axes_of, in_columns, is_mean_field, linear_model
from skpmd.linear._mean_field import NO_PARTS, fit_mean_field
from skpmd.linear._merge import (
    NO_WEIGHTS,
    check_classes,
    differing_units,
    merge_mean_field,
    rows_retained,
    shards_of,
)
from skpmd.linear._task import (
    LinearState,
    Task,
    results_of_task,
    state_after_part,
    task_of,
    units_of_columns,
)
from skpmd.posterior import Posterior
from skpmd.proposals.hmc import N_CHAINS

# Squares of scales, and of their inverses, have to be numbers.
SCALE = Interval(Real, 1e-30, 1e30, closed="both")
# Parameters that describe a prior which `prior` names.
_OF_NAMED_PRIORS = "prior_mean", "prior_scale", "prior_df", "intercept_prior_scale", "scale"


class LinearEstimator(ParticleResults):
    """Base of estimators whose particles are coefficients of linear predictors.

    A family of them offers `_parameters`, the record of its parameters, `_given_rows`, `_draw` and
    `_log_likelihoods`; it may add to what is said of a fit by `_concerns`, and to its state by
    `_completed`.
    """

    _parameter_constraints: dict = {
        **LOOP_CONSTRAINTS,
        "prior": [StrOptions(set(PRIORS)), Posterior, BaseEstimator],
        "prior_mean": [Interval(Real, -1e30, 1e30, closed="both"), "array-like", dict],
        "prior_scale": [StrOptions({"auto", "evidence"}), SCALE, "array-like", dict],
        "prior_df": [Interval(Real, 0, None, closed="neither")],
        "intercept_prior_scale": [SCALE],
        "scale": [StrOptions({"auto"}), None],
        "fit_intercept": ["boolean"],
        "proposal": [StrOptions(set(PROPOSALS))],
        "moves": [StrOptions(set(MOVES))],
    }
    _frozen_parameters: tuple[str, ...] = (
        "prior", "prior_mean", "prior_scale", "prior_df", "intercept_prior_scale", "scale",
        "fit_intercept",
    )  # fmt: skip

    # ------------------------------------------------------------------ what a family says
    def _parameters(self):
        """`LinearParameters`."""
        raise NotImplementedError

    def _given_rows(self, X, y, sample_weight, response=None):
        """Checked `Rows` in given columns, and what y is, which is known in later calls.

        They are those of a fit, or of the first part of a stream, where ``response`` is None.
        """
        raise NotImplementedError

    def _features(self):
        """Names of the columns that have coefficients."""
        return _check_feature_names_in(self)

    def _concerns(self, task, theta):
        """What is undefined of a posterior of these particles; "" by default."""
        return ""

    def _completed(self, state, X, are_given=True):
        """The state with what predictions need; rows X are as given, or in the posterior's units.

        By default it is as it is.
        """
        return state

    def _warn_of_column_scale(self, rows):
        """Warn of columns on whose effect the prior decides; by default there are none."""

    def _draw(self, X, n_samples, rng):
        """Targets (n, n_samples), of which each column is that of one particle."""
        raise NotImplementedError

    def _log_likelihoods(self, X, y, draws):
        """Those (m, n) of checked rows; ``draws`` are in given units, None for all particles."""
        raise NotImplementedError

    _of_y: dict = {}  # How targets are checked.

    def _refuse_large(self, X, reset):
        """ValueError where numbers of rows are too large to reckon with."""
        refuse_overflows("X", X)

    # ------------------------------------------------------------------ a fit
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Find the posterior of coefficients, and of what else y depends on.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), float32 or float64
            Columns with coefficients, in any units, and those with roles. X may also be data in
            blocks (`skpmd.data.Blocks`), with y and weights in the blocks or as arguments.
        y : array-like of shape (n_samples,), optional
            Labels of two classes or more, of any type; or what a family has: any numbers, counts,
            positive numbers, successes or shares.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights; a row of weight w counts as w copies of it.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If y has one class only and no categories are given, a label that is none of these, or
            numbers that the family cannot have; if amounts or shares are an exact function of the
            columns (constant, say), which leaves nothing to learn a shape or precision from (of
            other numbers a warning); if the weights leave a class without any; if the link is none
            of the family's, or a role is no column.
        """
        data = {"X": X, "y": y, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            rows, concern = self._fit(*as_table(X, y, sample_weight))
        self._warn_or_interrupt()
        if self.scale is not None and isinstance(self.prior, str):
            self._warn_of_one_row(len(rows), "set scale=None, and priors in the units of the data")
        self._warn_of_column_scale(rows)
        n_retained = len(self.posterior_.particles) if self.diagnostics_.get("r_hat") else 0
        if self.n_particles < N_CHAINS <= n_retained:
            warn(
                f"n_particles={self.n_particles} is less than the {N_CHAINS} chains of the "
                f"Hamiltonian moves: {n_retained} draws are retained, and ess is of these. Set "
                f"n_particles={N_CHAINS} or more, or moves='never'.",
                UserWarning,
            )
        if concern:
            self.diagnostics_["warnings"].append(concern)
            warn(
                f"{type(self).__name__}: {concern}. Report posterior_.quantile(0.5) and "
                "posterior_.interval(), which exist, or set "
                "prior='normal', or prior='student_t' with prior_df above 2."
            )
        return self

    def _fit(self, X, y, sample_weight):
        """The rows, and what is undefined."""
        options, parameters = self._loop_options(), self._parameters()
        last = getattr(self, "_state", None) if self.warm_start else None
        if not takes_steps(parameters, options):
            self._warn_unused(
                OF_STOCHASTIC_STEPS, "set proposal='prior' or reweight=False for such steps"
            )
        self._reset()
        rows, response = self._given_rows(X, y, sample_weight)
        X, features = rows.data.X, self._features()
        rng = as_generator(self.random_state)
        self._warn_unused_prior()
        task = self._task(options, rows, features, response, rng)
        axes = axes_of(task.model, features, response)
        if task.is_mean_field:
            results = fit_mean_field(
                task.model, task.rows, 1.0 / self.temperature, frame=task.prior.units, **axes
            )
            stream, n_iter, concern, effects = None, results.records.n, None, None
        else:
            with naming_singular_columns(X):
                outcome, n_iter, remedies = find_posterior(
                    task.model, task.rows, task.parameters, options, rng,
                    None if last is None else last.stream,
                )  # fmt: skip
            theta = outcome.particles.theta
            outcome, results = results_of_task(task, outcome, options, axes, remedies)
            stream = stream_after(outcome, rows.total, rng)
            concern = self._concerns(task, theta)
            effects = effects_of(task.model, task.prior, task.rows.whole(), results.posterior)
        self._freeze()
        state = LinearState(
            stream, results, n_iter, task.scale, task.model.fit_intercept, X.dtype,
            units=task.prior.units, response=task.prior.response, effects=effects,
            retained=None if effects is None else rows_of_groups(task.rows),
        )  # fmt: skip
        self._set_state(state if task.is_mean_field else self._completed(state, X))
        return rows, concern

    def _task(self, options, rows, features, response, rng):
        """The `Task` of a fit to these rows."""
        task = task_of(self._parameters(), options, rows, features, response, rng)
        if task.warning:
            warn(f"{type(self).__name__}: {task.warning}. Set prior_scale to a number.")
        return task

    def _drawn_prior(self, rows, features, response, n, rng):
        """n draws of the prior, in coordinates of a fit to these rows, and the units of these."""
        parameters, units = in_columns(self._parameters(), features, response, mean_field=False)
        if isinstance(parameters.prior_scale, str):
            raise ValueError("prior_scale='evidence' has no prior before the data: set a number.")
        if isinstance(self.prior, str):
            units = units_of_columns(parameters, rows, response)
        prior = linear_model(parameters, len(features), response, parameters.prior_scale).prior
        return prior.reported(prior.sample(rng, n)), units

    # ------------------------------------------------------------------ a stream
    def _after_part(self, X, y, sample_weight, **given):
        """Take in one call's rows of a stream; further keywords are those of `_given_rows`."""
        with self._all_or_nothing():
            options, parameters = self._loop_options(), self._parameters()
            before = getattr(self, "_state", None)
            first = before is None or before.stream is None
            if first and isinstance(self.prior_scale, str) and self.prior_scale == "evidence":
                raise ValueError(
                    "prior_scale='evidence' needs all data: call fit, or set a number."
                )
            if first:
                self._frozen = {}
            self._check_frozen()
            rows, response = self._given_rows(
                X, y, sample_weight, None if first else before.response, is_part=True, **given
            )
            features = self._features()
            if is_mean_field(parameters, len(features), response):
                raise ValueError(NO_PARTS)
            self._freeze()
            stream = first_stream(self.random_state) if first else before.stream
            state = state_after_part(
                parameters, options, rows, None if first else before, stream, features, response
            )
            self._set_state(self._completed(state, rows.data.X))
            self._warn_or_interrupt()
            if first:
                self._warn_of_column_scale(rows)
            elif state.units is not None:
                warn_of_other_scale(rows.whole(), state.units, features)
            return self  # Ctrl-C here takes the part back, too.

    # ------------------------------------------------------------------ a merge
    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the posterior given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            self._start_merge(estimators, (*self._frozen_parameters, *self._alike))
            states, n = self._states_of_shards(estimators), n_shards(estimators)
            kinds = ["diag" if state.stream is None else "full" for state in states]
            check_equal("covariance_type", kinds)
            refuse_copies([state.results.posterior.mean() for state in states])
            features, response = self._features(), states[0].response
            parameters, _ = in_columns(self._parameters(), features, response, False)
            task, rng = None, as_generator(self.random_state)
            if kinds[0] == "full":
                given = X, y, sample_weight
                task = self._task_of_shards(states, parameters, features, given, rng)
            else:
                refuse_rows(X, y, NO_WEIGHTS)
            model = linear_model(parameters, len(features), response, states[0].prior_scale)
            axes = axes_of(model, features, response)
            if kinds[0] == "diag":
                results = merge_mean_field(model.prior, states, n, axes)
                state = states[0]._replace(results=results)
            elif task is not None:
                state = self._merged_by_rows(task, states, n, axes, rng)
            else:
                state = self._merged_by_densities(parameters, states, n, axes, rng)
            if task is None or task.is_reduced:
                reasons = inherited(estimators) + differing_units(states)
                state.results.diagnostics["warnings"][:0] = reasons
            self._set_state(state)
        self._warn_or_interrupt(MERGED if task is None else MERGED_BY_ROWS)
        return self

    _alike = ("temperature",)  # Other parameters that shards have to share.

    def _states_of_shards(self, estimators):
        return [one._state for one in estimators]

    def _task_of_shards(self, states, parameters, features, given, rng):
        """The `Task` of all rows, or of those that shards hold; None where there are none."""
        X, y, sample_weight = given
        response, power = states[0].response, 1.0 / self.temperature
        retained = rows_retained(states, parameters, power)
        if X is not None:
            rows, response = self._given_rows(X, y, sample_weight, response)
            check_total(rows.total, sum(state.stream.seen for state in states))
            check_classes(rows.data, retained, self.temperature, response)
        else:
            refuse_rows(None, y, "rows are X and y together")
            if retained is None:
                return None
            data, rest = joined(retained)
            if data.group is not None:
                data = Batch(**in_groups(data._asdict()))
            units = retained[0].prior.units
            data = data._replace(weight=data.weight * self.temperature)
            if units is not None and rest is None:
                data = data._replace(X=units.given(data.X))
            rows = Rows.of(data, self.batch_size)
            if rest is not None:
                return Task(model_of(rest), rows, parameters, rest.prior, rest, by_steps=False)
        options = self._loop_options()
        return self._task(options, rows, features, response, rng)

    def _merged_by_rows(self, task, states, n_merged, axes, rng):
        """The state of a fit to rows of all shards; a normal likelihood may stand for others."""
        options = self._loop_options()
        outcome, _, remedies = find_posterior(task.model, task.rows, task.parameters, options, rng)
        method, n = outcome.findings.notes["method"], len(task.rows.data.weight)
        what = f"{method}, {n} rows of {n_merged} shards"
        what += " and a normal likelihood of their others" * task.is_reduced
        outcome, results = results_of_task(
            task, outcome, options, axes, remedies, method=what, n_shards=n_merged
        )
        state = self._state_of_shards(states, outcome, results, rng)
        state = state._replace(
            prior_scale=task.prior.scale,
            units=task.prior.units,
            response=task.prior.response,
            effects=effects_of(task.model, task.prior, task.rows.whole(), results.posterior),
        )
        if state.effects is not None:
            state = state._replace(retained=rows_of_groups(task.rows))
        return state if task.is_reduced else self._completed(state, task.rows.data.X, False)

    def _merged_by_densities(self, parameters, states, n_merged, axes, rng):
        """The state of the product of the shards' densities, under the prior of the first."""
        shards, frame = shards_of(parameters, states, len(self._features()))
        outcome, found = merge_densities(shards, n_merged, self.n_particles, rng)
        results = results_of(
            outcome, temperature=self.temperature, stream=True, merged=density_names(n_merged),
            shown=Shown(frame=frame, **axes), **found,
        )  # fmt: skip
        return self._state_of_shards(states, outcome, results, rng)

    def _state_of_shards(self, states, outcome, results, rng):
        stream = stream_after(outcome, sum(state.stream.seen for state in states), rng)
        return states[0]._replace(
            stream=stream, results=results, n_iter=results.records.n, retained=None,
            normal_logits=None,
        )  # fmt: skip

    # ------------------------------------------------------------------ predictions
    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> Array:
        """Draw y from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: y of different rows
        are dependent as they are in the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns as in `fit`.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Labels, or numbers in the units of y.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self)
        n_samples, rng = check_n_draws("n_samples", n_samples), as_generator(random_state)
        return self._draw(X, n_samples, rng)

    def pointwise_log_likelihood(
        self, X: MatrixLike, y: ArrayLike, n_draws: int | None = None, random_state: RandomState = 0
    ) -> Array:
        """Log-likelihood of each row under each particle, for leave-one-out estimates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Columns as in `fit`.
        y : array-like of shape (n_rows,)
            Targets: labels among ``classes_``, or numbers that the family can have.
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
            If y holds labels that are not among ``classes_``, or numbers that the family cannot
            have, or ``n_draws`` is not a positive integer.
        """
        check_is_fitted(self)
        (X, y), draws = self._validated(X, y), None
        if n_draws is not None:
            draws = self.posterior_.sample(check_n_draws("n_draws", n_draws), random_state)
        return self._log_likelihoods(X, y, draws)

    def _own(self, draws):
        """All particles, or draws in given units, in those that the posterior was found in."""
        frame = self.posterior_.frame
        if draws is None:
            return own_particles(self.posterior_)
        return draws if frame is None else frame.outward(draws)

    def _check_rows_of_fit(self, times):
        """ValueError where rows that are to be left out are not those of the fit."""
        if self._state.stream is not None:
            check_rows_of_fit(times, self._state.stream.seen)

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays; with ``reset``, the features of X are remembered."""
        checked = self._checked_data(
            X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset,
            **({} if isinstance(y, str) else self._of_y),
        )  # fmt: skip
        self._refuse_large(checked[0] if isinstance(checked, tuple) else checked, reset)
        return checked

    def __sklearn_tags__(self):
        """Tags: sparse input is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------ results
    @result
    def _n_slopes(self):
        return len(self._state.units.scale)

    @result
    def coef_(self) -> Array:
        """Posterior means of the coefficients, shape (n_coefficients,)."""
        return self.posterior_.mean()[: self._n_slopes]

    @result
    def coef_std_(self) -> Array:
        """Posterior standard deviations of the coefficients, shape (n_coefficients,)."""
        return self.posterior_.std()[: self._n_slopes]

    @result
    def prior_scale_(self) -> ArrayOrMore:
        """Scale of the prior, as given or chosen by the evidence.

        A number, or an array of the shape of ``coef_``; raises AttributeError where the prior is an
        earlier posterior.
        """
        if self._state.prior_scale is None:
            raise AttributeError("prior_scale_ is not there: the prior is an earlier posterior.")
        scale = self._state.prior_scale
        return np.reshape(scale, self.coef_.shape) if np.ndim(scale) else scale

    @result
    def n_iter_(self) -> int:
        """Number of rounds and checks of chains, or of passes; after `partial_fit`, of steps."""
        return self._state.n_iter

    def _warn_unused_prior(self):
        """Warn of parameters of a named prior that an earlier posterior has no use for."""
        if not isinstance(self.prior, str):
            where = "where the prior is an earlier posterior"
            self._warn_unused(_OF_NAMED_PRIORS, "leave them as they are", where)
