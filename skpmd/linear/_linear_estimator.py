"""What estimators of linear predictors share: fits, streams and merges of any response.

A family of them says what its y and its columns are; what follows from that is the same for all.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in

from skpmd._base.estimator import result
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
from skpmd._base.utils import as_generator, warn
from skpmd._base.validation import naming_singular_columns
from skpmd._rows.opening import as_table
from skpmd._rows.rows import Rows
from skpmd._typing import ArrayOrMore
from skpmd.linear._column_scale import warn_of_other_scale
from skpmd.linear._earlier_rows import joined, model_of
from skpmd.linear._fit import PROPOSALS, find_posterior, takes_steps
from skpmd.linear._group_effects import effects_of
from skpmd.linear._hmc import MOVES
from skpmd.linear._make_model import PRIORS, in_columns, is_mean_field, linear_model
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
    axes_of,
    results_of_task,
    state_after_part,
    task_of,
)
from skpmd.posterior import Posterior
from skpmd.proposals.hmc import N_CHAINS

# Squares of scales, and of their inverses, have to be numbers.
SCALE = Interval(Real, 1e-30, 1e30, closed="both")
# Parameters that describe a prior which `prior` names.
_OF_NAMED_PRIORS = "prior_mean", "prior_scale", "prior_df", "intercept_prior_scale", "scale"


class LinearEstimator(ParticleResults):
    """Base of estimators whose particles are coefficients of linear predictors.

    A family of them offers `_parameters`, the record of its parameters, and `_given_rows`; it may
    add to what is said of a fit by `_concerns`, and to its state by `_completed`.
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

    # ------------------------------------------------------------------ a fit
    def _fitted(self, X, y, sample_weight):
        """Fit to all rows, and warn; what is undefined, for whom it concerns."""
        data = {"X": X, "y": y, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            rows, concern = self._fit(*as_table(X, y, sample_weight))
        self._warn_or_interrupt()
        self._warn_of_column_scale(rows)
        n_retained = len(self.posterior_.particles) if self.diagnostics_.get("r_hat") else 0
        if self.n_particles < N_CHAINS <= n_retained:
            warn(
                f"n_particles={self.n_particles} is less than the {N_CHAINS} chains of the "
                f"Hamiltonian moves: {n_retained} draws are retained, and ess is of these. Set "
                f"n_particles={N_CHAINS} or more, or moves='never'.",
                UserWarning,
            )
        return concern

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
            concern, effects = self._concerns(task, theta), effects_of(task, results.posterior)
        self._freeze()
        state = LinearState(
            stream, results, n_iter, task.scale, task.model.fit_intercept, X.dtype,
            units=task.prior.units, response=task.prior.response, effects=effects,
        )  # fmt: skip
        self._set_state(state if task.is_mean_field else self._completed(state, X))
        return rows, concern

    def _task(self, options, rows, features, response, rng):
        """The `Task` of a fit to these rows."""
        task = task_of(self._parameters(), options, rows, features, response, rng)
        if task.warning:
            warn(f"{type(self).__name__}: {task.warning}. Set prior_scale to a number.")
        return task

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
        return self

    # ------------------------------------------------------------------ a merge
    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """Become the posterior given the rows of all of these estimators; see `skpmd.merge`."""
        with self._all_or_nothing():
            self._start_merge(estimators, (*self._frozen_parameters, *self._alike))
            states, n = [one._state for one in estimators], n_shards(estimators)
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

    def _task_of_shards(self, states, parameters, features, given, rng):
        """The `Task` of all rows, or of those that shards hold; None where there are none."""
        X, y, sample_weight = given
        response, power = states[0].response, 1.0 / self.temperature
        retained = rows_retained(states, parameters, power)
        if X is not None:
            rows, _ = self._given_rows(X, y, sample_weight, response)
            check_total(rows.total, sum(state.stream.seen for state in states))
            check_classes(rows.data, retained, self.temperature, response)
        else:
            refuse_rows(None, y, "rows are X and y together")
            if retained is None:
                return None
            data, rest = joined(retained)
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
        state = state._replace(prior_scale=task.prior.scale, units=task.prior.units)
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

    # ------------------------------------------------------------------ results
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
