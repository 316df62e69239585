"""What a fit of a linear model is to find the posterior of, and what comes of it, for estimators.

Estimators check what they are given, ask for a task or a further part of a stream, and report.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skpmd._base.options import MAX_MISFIT_OF_ROWS, convergence_reasons, misfit_reasons
from skpmd._base.results import Results, Shown, results_of
from skpmd._base.retained import RetainedRows
from skpmd._base.steps import Stream, kernel_step
from skpmd._base.validation import naming_singular_columns
from skpmd._rows.rows import Rows
from skpmd._rows.table import is_in_memory
from skpmd.linear._averages import NormalLogits
from skpmd.linear._column_scale import Units, own_posterior, refuse_far, shift_of, units_of
from skpmd.linear._design import LinearModel
from skpmd.linear._earlier_rows import (
    EarlierRows,
    PriorOfRows,
    TiltedPrior,
    all_rows,
    earlier_rows,
    given_earlier,
    model_of,
    rows_for_later,
)
from skpmd.linear._empirical_bayes import ScaleChoice, chosen_scale
from skpmd.linear._fit import name_of, takes_steps
from skpmd.linear._group_effects import effects_of
from skpmd.linear._group_rules import unconverged_reasons
from skpmd.linear._make_model import (
    LinearParameters,
    axes_of,
    in_columns,
    is_mean_field,
    linear_model,
)
from skpmd.linear._streaming import advance_retaining, proposal_step, with_units_of


class LinearState(NamedTuple):
    """Result of a fit."""

    stream: Stream | None  # What it needs to go on; None for a Gaussian without correlations.
    results: Results  # What it shows.
    n_iter: int  # Rounds, passes or steps.
    prior_scale: object  # Of the prior: a number, or one for each coefficient; None without.
    fit_intercept: bool  # Whether there is an intercept.
    dtype: np.dtype  # Of the features.
    retained: RetainedRows | None = None  # Rows of a stream whose classes may come one by one.
    units: Units | None = None  # What coefficients and their prior are in, if not given columns.
    # What predictions average over, if not all particles.
    normal_logits: NormalLogits | None = None
    response: Any = None  # `Classes` or `Distribution`: What y is.
    effects: Any = None  # `EffectsOfGroups`, if there are groups.
    roles: dict | None = None  # Places of columns of X that play roles in the fit, by roles.


class Task(NamedTuple):
    """What a fit is to find the posterior of."""

    model: LinearModel
    rows: Rows  # In its units; those of an earlier posterior, which is the prior, come first.
    parameters: LinearParameters
    prior: PriorOfRows  # Before all of them.
    earlier: EarlierRows | None
    by_steps: bool  # Whether stochastic steps are asked for.
    is_mean_field: bool = False
    warning: str = ""  # What speaks against a scale that was chosen by the evidence.

    @property
    def is_reduced(self):
        """Whether a quadratic stands for some of the rows."""
        return self.earlier is not None and self.earlier.rest is not None

    @property
    def scale(self):
        """Scale of the prior; None where an earlier posterior is the prior."""
        return None if self.earlier else self.prior.scale


def task_of(parameters, options, rows, features, response, rng):
    """The `Task` of a fit: under a prior, or with the rows of an earlier posterior."""
    n_features = rows.data.X.shape[1]
    is_named = isinstance(parameters.prior, str)
    is_diagonal = is_mean_field(parameters, n_features, response)
    by_steps = takes_steps(parameters, options)
    earlier = None
    if is_in_memory(rows.data.X) and not (is_named or is_diagonal or by_steps):
        earlier = earlier_rows(parameters, features, response)
    if earlier is not None:
        rows = _in_units(rows, earlier.prior.units, parameters.batch_size)
        both = Rows.of(all_rows(earlier, rows.data, options.power), parameters.batch_size)
        return Task(model_of(earlier), both, parameters, earlier.prior, earlier, by_steps)
    parameters, units = in_columns(parameters, features, response, is_diagonal)
    if is_named:
        units = units_of_columns(parameters, rows, response, is_text=is_diagonal)
    rows = _in_units(rows, units, parameters.batch_size)
    shift = shift_of(units)
    choice = ScaleChoice(parameters.prior_scale)
    if isinstance(parameters.prior_scale, str):
        with naming_singular_columns(rows.data.X):
            choice = chosen_scale(parameters, rows, response, shift, rng)
    model = linear_model(parameters, n_features, response, choice.scale, shift)
    prior = PriorOfRows(parameters, choice.scale, units, response)
    return Task(model, rows, parameters, prior, None, by_steps, is_diagonal, choice.warning)


def units_of_columns(parameters, rows, response, **how):
    """Centres and units of columns that a named prior refers to; None of given columns."""
    if parameters.scale is None:
        return response.given_units(rows.data.X.shape[1], parameters.fit_intercept)
    return units_of(
        rows.whole(), response.n_rows, parameters.fit_intercept, response.has_cutpoints, **how
    )


def _in_units(rows, units, batch_size):
    """`Rows` in units."""
    data = rows.data
    refuse_far(data.X, units, np.float32)  # Moves take products of any rows in single precision.
    return rows if units is None else Rows.of(data._replace(X=units.rows(data.X)), batch_size)


def results_of_task(task, outcome, options, axes, remedies=None, **diagnostics):
    """The outcome as one of the rows of this fit alone, and its `Results`.

    ``axes`` are as of `axes_of`, and further keywords become entries of ``diagnostics``.
    """
    model, earlier = task.model, task.earlier
    seen = model.prior.reported(outcome.particles.theta)
    outcome, prior_k = _of_prior(model, outcome)
    if earlier is not None:
        outcome = given_earlier(outcome, model, earlier)
    family = getattr(task.prior.response, "family", None)
    if getattr(family, "groups", None) is not None:
        reasons = unconverged_reasons(model, task.rows, outcome.particles)
        outcome = outcome.with_findings(reasons=outcome.findings.reasons + reasons)
    shown = Shown(seen, frame=task.prior.response.frame(task.prior.units), **axes)
    results = results_of(
        outcome, temperature=options.temperature, shown=shown, remedies=remedies,
        prior_pareto_k=prior_k, **diagnostics,
    )  # fmt: skip
    if not task.by_steps and getattr(family, "groups", None) is None:
        results.posterior.rows = rows_for_later(
            model, task.rows.data, options.power, own_posterior(results.posterior),
            task.prior, earlier, outcome.findings.sample,
        )  # fmt: skip
    return outcome, results


def _of_prior(model, outcome):
    """The outcome with what speaks against an earlier posterior's density, and its k-hat."""
    prior = model.prior
    density = getattr(prior, "density", None)
    reasons = () if density is None else convergence_reasons(density, outcome.particles)
    if isinstance(prior, TiltedPrior):
        reasons += misfit_reasons(prior.rest.misfit, most=MAX_MISFIT_OF_ROWS)
    outcome = outcome.with_findings(reasons=outcome.findings.reasons + reasons)
    return outcome, None if density is None else density.pareto_k


def state_after_part(parameters, options, given, before, stream, features, response):
    """The `LinearState` after one call's rows of a stream; ``before`` is None at the first.

    ``given`` are the `Rows` in the user's columns, ``stream`` is where the stream is.
    """
    n_features = given.data.X.shape[1]
    is_named, dtype = isinstance(parameters.prior, str), given.data.X.dtype
    parameters, units = in_columns(parameters, features, response, mean_field=False)
    prior_scale, retained = parameters.prior_scale, None
    if before is not None:
        prior_scale, retained, units = before.prior_scale, before.retained, before.units
        is_own = is_named and units is not None  # An earlier posterior is a prior in its units.
        if retained is not None and is_own and options.total_samples is None:
            units, retained = with_units_of(given, units, retained)
            if retained.n_fitted == 0:  # They were too few to tell of y, too.
                response, given, retained = response.renewed(given, retained, parameters)
    elif is_named:
        units = units_of_columns(parameters, given, response, is_first=True)
    rows = _in_units(given, units, parameters.batch_size)
    model = linear_model(parameters, n_features, response, prior_scale, shift_of(units))
    proposal = parameters.proposal if model.prior.has_gaussian else "prior"
    step = partial(proposal_step, proposal=proposal) if proposal != "prior" else kernel_step
    with naming_singular_columns(given.data.X):
        stream, retained = advance_retaining(retained, stream, model, rows, options, step, response)
    seen = model.prior.reported(stream.particles.theta)
    outcome, prior_k = _of_prior(model, stream.outcome())
    shown = Shown(seen, frame=response.frame(units), **axes_of(model, features, response))
    results = results_of(
        outcome, stream.records, shown=shown, stream=True,
        method=f"stream from {name_of(proposal)}", prior_pareto_k=prior_k,
    )  # fmt: skip
    of_groups = rows.whole() if retained is None else [retained.rows]
    prior = PriorOfRows(parameters, prior_scale, units, response)
    return LinearState(
        stream, results, stream.records.n, prior_scale, model.fit_intercept, dtype, retained,
        units, response=response, effects=effects_of(model, prior, of_groups, results.posterior),
    )  # fmt: skip
