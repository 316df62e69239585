"""Posteriors of shards of rows as one: by rows that they hold, by densities, or by formula."""

from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

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
from skpmd._base.results import Results, Shown, results_of
from skpmd._base.steps import Records, stream_after
from skpmd._base.utils import as_generator
from skpmd._rows.rows import Rows
from skpmd.engine.model import Batch
from skpmd.linear._column_scale import Units, own_posterior
from skpmd.linear._fit import find_posterior
from skpmd.linear._group_rows import in_groups, rows_of_groups
from skpmd.linear._make_model import axes_of, in_columns, linear_model
from skpmd.linear._posterior import GaussianPosterior
from skpmd.linear._priors import NormalPrior
from skpmd.linear._task import (
    EarlierRows,
    PriorOfRows,
    Task,
    effects_if_any,
    joined,
    model_of,
    results_of_task,
)
from skpmd.posterior import Posterior
from skpmd.proposals.density_product import Shard

# Scales that shards have found may be so many times apart. Those of columns of random shards are
# nearly the same.
_MAX_APART = 2.0
_NO_WEIGHTS = "rows weigh particles, and these are Gaussians without correlations"


class Merging:
    """Mixin of estimators, which are merged with those of other rows; see `skpmd.merge`."""

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
                refuse_rows(X, y, _NO_WEIGHTS)
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
            effects=effects_if_any(task.model, task.prior, task.rows.whole(), results),
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


def rows_retained(states, parameters, power):
    """`EarlierRows` of each shard; None where one has not retained what stands for all its rows.

    ``power`` is that of the likelihood.
    """
    found = []
    for state in states:
        rows = getattr(state.results.posterior, "rows", None)
        if state.retained is not None:  # A stream has all its rows so far.
            rows = state.retained.rows
            rows = rows._replace(weight=power * rows.weight)
            prior = PriorOfRows(parameters, state.prior_scale, state.units, state.response)
            rows = EarlierRows(rows, prior, None, 0.0)
        found.append(rows)
    return None if any(rows is None for rows in found) else found


def check_classes(rows, retained, temperature, response):
    """ValueError where classes of a `Batch` of all rows have other weights than in the shards.

    ``retained`` are the `EarlierRows` of these; the weights are not known where that is None, or
    where something else stands for some of their rows.
    """
    if retained is None or any(one.rest is not None for one in retained):
        return
    given, seen = response.totals(rows), sum(response.totals(one.rows) for one in retained)
    for one, other in zip(given, seen, strict=True) if len(given) > 1 else ():
        check_total(one, temperature * other, "of a class ")


def shards_of(parameters, states, n_features):
    """A `Shard` for each state, all in the frame of the first, which comes second.

    The prior of a shard is that of its fit.
    """
    if parameters.prior == "horseshoe":
        raise ValueError(
            "prior='horseshoe' has no density that stands for its posterior, whose scales are as "
            "uncertain as its coefficients: set another prior for the shards, or fit all rows."
        )
    if isinstance(parameters.prior_scale, str):
        raise ValueError(
            "prior_scale='evidence' finds another scale in each shard: give X and y of all rows to "
            "merge, or set prior_scale to a number for all shards."
        )
    frame, shards = states[0].response.frame(states[0].units), []
    for state in states:
        prior = linear_model(parameters, n_features, state.response, state.prior_scale).prior
        move = None if frame is None else state.response.frame(state.units).since(frame)
        posterior = _posterior_in(frame, state)
        shards.append(Shard(posterior.fitted_density(), partial(_log_prior, prior, move)))
    return shards, frame


def _posterior_in(frame, state):
    """The posterior of a shard in the frame of the first."""
    posterior = state.results.posterior
    if frame is None or isinstance(frame, Units):
        return own_posterior(posterior, frame)
    own = own_posterior(posterior)
    move = frame.since(state.response.frame(state.units))
    theta, log_joint = move.outward(own.particles), own.log_joint
    if log_joint is not None:
        log_joint = log_joint + move.log_jacobian(theta)
    return Posterior(theta, own.log_weights, log_joint=log_joint, ess=own.ess)


def _log_prior(prior, move, theta):
    """Log density of a prior at coefficients in other units."""
    if move is None:
        return prior.log_density(theta)
    u = move.outward(theta)
    return prior.log_density(u) - move.log_jacobian(u)


def differing_units(states):
    """Reasons to warn of scales of columns, and so of priors, that each shard has found itself."""
    if states[0].units is None:
        return ()
    scales = np.array([state.units.scale for state in states])
    apart = float(np.max(scales.max(axis=0) / scales.min(axis=0)))
    if not apart > _MAX_APART:
        return ()
    return (
        f"the prior is that of estimators[0], and scales of columns that other shards have found "
        f"are up to {apart:.1f} times apart from it or each other: set scale=None, on columns of "
        "one scale",
    )


def merge_mean_field(prior, states, n_merged, axes):
    """`Results` of the product of Gaussians without correlations, over the surplus priors.

    Their natural parameters, a precision and a linear part for each coordinate, add up. Where
    intercepts are at other centres, the product has correlations of them with coefficients: it has
    the mean of the product, and each coordinate the precision given all others.
    """
    if not isinstance(getattr(prior, "prior", prior), NormalPrior):
        raise ValueError(
            "Gaussians without correlations are merged by formula under prior='normal' only: set "
            "it, or covariance_type='full'."
        )
    first, surplus, d = states[0], 1 - len(states), prior.n_coordinates
    n_rows = len(first.results.posterior.nodes)
    p = d // n_rows - first.fit_intercept
    as_given = Units(np.zeros(p), np.ones(p), n_rows, first.fit_intercept)
    linear, precision = prior.expected(np.zeros(d), None)
    linear, precision = surplus * linear, surplus * precision
    diagonal, parts = precision.copy(), []
    for state in states:
        loc, scale = state.results.posterior.moments_in(state.units)
        move = (state.units or as_given).since(first.units or as_given)
        parts.append((move, scale**-2.0))
        linear = linear + move.pull_back(loc / scale**2)
        squared = move._replace(centre=move.centre**2, scale=move.scale**2)
        diagonal += squared.pull_back(scale**-2.0)

    def product(theta):
        return precision * theta + sum(
            move.pull_back(own * move.outward(theta)) for move, own in parts
        )

    mean, _ = cg(
        LinearOperator((d, d), product), linear, linear / diagonal, rtol=1e-10,
        M=LinearOperator((d, d), lambda theta: theta / diagonal),
    )  # fmt: skip
    posterior = GaussianPosterior(mean, diagonal**-0.5, n_logits=n_rows, frame=first.units, **axes)
    method = f"sum of the natural parameters of {n_merged} shards"
    found = {**first.results.diagnostics, "method": method, "n_shards": n_merged, "warnings": []}
    return Results(posterior, Records(), found)
