"""What estimators of linear predictors share: fits, streams and merges of any response.

A family of them says what its y and its columns are; what follows from that is the same for all.
"""

from __future__ import annotations

from numbers import Real
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in

from skpmd._base.estimator import result
from skpmd._base.options import LOOP_CONSTRAINTS, OF_STOCHASTIC_STEPS
from skpmd._base.results import ParticleResults
from skpmd._base.steps import first_stream, stream_after
from skpmd._base.utils import as_generator, warn, warn_of_far_columns, warn_of_far_values
from skpmd._base.validation import fit_context, naming_singular_columns, refuse_overflows
from skpmd._rows.opening import as_table
from skpmd._rows.rows import Rows
from skpmd._typing import Array, ArrayLike, ArrayOrMore, MatrixLike
from skpmd.linear._column_scale import warn_of_other_scale
from skpmd.linear._fit import PROPOSALS, find_posterior, takes_steps
from skpmd.linear._group_rows import rows_of_groups
from skpmd.linear._hmc import MOVES
from skpmd.linear._make_model import (
    PRIORS,
    LinearParameters,
    axes_of,
    in_columns,
    is_mean_field,
    linear_model,
)
from skpmd.linear._mean_field import NO_PARTS, fit_mean_field
from skpmd.linear._merge_estimator import Merging
from skpmd.linear._roles import known_part, places_of, split
from skpmd.linear._task import (
    LinearState,
    effects_if_any,
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


class LinearEstimator(Merging, ParticleResults):
    """Base of estimators whose particles are coefficients of linear predictors.

    A family of them offers `_parameters`, the record of its parameters, `_targets`, `_draw` and
    `_log_likelihoods`; it may add to what is said of a fit by `_concerns`, and to its state by
    `_completed`. ``_roles`` are the names of parameters that are None or a column of X which has no
    coefficient; what estimators do with columns of groups is in `GroupColumns`.
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

    def _targets(self, X, y, sample_weight, known, response, is_part):
        """Numbers or codes (n,), weights (n,) or None, and what y is, of checked rows.

        y are as they are given, and checked; ``known`` are the offset and trials, each (n,) or
        None. Names of classes may come next.
        """
        raise NotImplementedError

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

    def _warn_of_far_rows(self, rows, are_first=True):
        """Warn of columns whose effect is that of few rows far away; the first ones give units."""
        units = self._state.units
        scale = None if units is None or not are_first else units.scale
        warn_of_far_columns(rows, scale, self._features())

    def _warn_of_far_roles(self, offset, trials):
        """Warn of rows whose offsets, exposures or numbers of trials are far from all others."""
        if offset is not None:
            given = {"offset": "offset", "exposure": "log(exposure)"}
            name = " + ".join(given[one] for one in given if getattr(self, one, None) is not None)
            warn_of_far_values(name, offset, shown=np.asarray)
        if trials is not None:
            warn_of_far_values("trials", np.log(trials), shown=lambda log: np.rint(np.exp(log)))

    _of_y: dict = {}  # How targets are checked.
    _roles: tuple[str, ...] = ("offset",)

    def _refuse_large(self, X):
        """ValueError where numbers of further rows are too large to reckon with."""
        refuse_overflows("X", X)

    # ------------------------------------------------------------------ rows
    def _given_rows(self, X, y, sample_weight, response=None, is_part=False, **classes):
        """Checked `Rows` in given columns, and what y is, which is known in later calls.

        They are those of a fit, or of the first part of a stream, where ``response`` is None.
        """
        given, labels, codes = y, None, None
        if self._has_groups:
            X, labels = self._coded(X, self._known_labels(response))
        X, y = self._checked_rows(X, y, reset=response is None)
        X, offset, trials, codes = self._split(X)
        self._warn_of_far_roles(offset, trials)
        how = (offset, trials), response, is_part
        y, weight, response = self._targets(X, (given, y), sample_weight, *how, **classes)
        if codes is not None:
            codes, response = self._in_groups_of(response, X, codes, labels, weight, is_part)
        if offset is not None:
            offset = offset / response.unit
        columns = {"offset": offset, "exposure": trials}
        if codes is not None:
            return self._rows_in_groups(X, response.targets(y), weight, codes, columns), response
        if not isinstance(self.prior, str):
            self._refuse_prior_of_groups()
        return Rows(X, response.targets(y), weight, self.batch_size, **columns), response

    def _linear_parameters(self, **given):
        """`LinearParameters` as they are given to the estimator, but for these."""
        of_groups = self._of_groups() if self._has_groups else {}
        return self._record(LinearParameters, **{**given, **of_groups})

    @property
    def _has_groups(self):
        """Whether parameters name columns of groups, or slopes, which have to be of some."""
        return self.groups is not None or bool(self.slopes)

    def _split(self, X):
        """Columns with coefficients, the offset of predictors, trials and groups, or None."""
        places = self._places()
        if not places:
            return X, None, None, None
        X, columns = split(X, places)
        if not X.shape[1] and not getattr(self, "fit_intercept", True):
            raise ValueError(
                "X has no columns beside those of roles, and fit_intercept=False leaves no "
                "coefficient: set True, or give a column."
            )
        codes = [one for role, one in columns.items() if role.startswith("groups")]
        codes = np.column_stack(codes) if len(codes) > 1 else codes[0] if codes else None
        return (X, *known_part(columns), codes)

    def _places(self):
        """{role: place}, of the fit where there is one: parameters may have been set since."""
        state = getattr(self, "_state", None)
        if state is not None and state.roles is not None:
            return state.roles
        return self._places_in(getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _places_in(self, names, n_columns):
        given = {role: getattr(self, role) for role in self._roles}
        given = {role: one for role, one in given.items() if one is not None}
        if self._has_groups:
            given |= self._roles_of_groups()
        return places_of(given, names, n_columns) if given else {}

    def _set_state(self, state):
        super()._set_state(state._replace(roles=self._places()))

    def _features(self):
        """Names of the columns that have coefficients."""
        names, places = _check_feature_names_in(self), self._places().values()
        return np.delete(names, list(places)) if places else names

    def _validated(self, X, y="no_validation"):
        """X, or X and y, as checked arrays, with codes of groups in the place of labels."""
        if self._groups_of_fit is not None:
            X, _ = self._coded(X)
        return self._checked_rows(X, y, reset=False)

    def _checked_rows(self, X, y, reset):
        """The same of X that has codes already; with ``reset``, its features are remembered."""
        checked = self._checked_data(
            X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset,
            **({} if isinstance(y, str) else self._of_y),
        )  # fmt: skip
        X = checked[0] if isinstance(checked, tuple) else checked
        if reset:
            refuse_overflows("X", X)
        else:
            self._refuse_large(X)
        return checked

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

        Warns
        -----
        UserWarning
            If rows far from all others, sentinels or outliers, take the slope of a column, or those
            of y turn the fit.
        """
        data = {"X": X, "y": y, "sample_weight": sample_weight}
        with self._all_or_nothing(fit_of=data):
            rows, concern = self._fit(*as_table(X, y, sample_weight))
        self._warn_or_interrupt()
        if self.scale is not None and isinstance(self.prior, str):
            self._warn_of_one_row(len(rows), "set scale=None, and priors in the units of the data")
        self._warn_of_column_scale(rows)
        self._warn_of_far_rows(rows)
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
            effects = effects_if_any(task.model, task.prior, task.rows.whole(), results)
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
            self._warn_of_far_rows(rows, first)
            return self  # Ctrl-C here takes the part back, too.

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
