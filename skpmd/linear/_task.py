"""What a fit of a linear model is to find the posterior of, and what comes of it, for estimators.

Estimators check what they are given, ask for a task or a further part of a stream, and report.

A posterior retains rows, for a further fit whose prior it is. A density that is fitted to particles
knows too little of a posterior of many coefficients: means of
the next one were off by up to .39 standard deviations (31 coefficients, 4000 particles). With few
coefficients it knows enough for one further fit, but what it lacks far out, where few rows leave
much open, adds up over several: means were .8 standard deviations off after six parts of 30 to 200
rows. Third and fourth derivatives, which are sums over the rows, are no better a summary: these
terms rise without end where the likelihood falls. So the rows themselves are retained, as long as
they take no more room than the particles; the next fit is then one to the rows of both, and exact.
Of more rows a density is enough where there are values for it, or those are retained that are least
like a normal likelihood, and a quadratic stands for the others.

Polynomials in place of rows are those of PASS-GLM (Huggins, Adams and Broderick 2017); some rows in
place of all are a coreset (Campbell and Broderick 2019).
"""

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from skpmd._base.options import (
    MAX_MISFIT_OF_ROWS,
    convergence_reasons,
    coordinates_named,
    misfit_reasons,
    posterior_of_prior,
)
from skpmd._base.results import Results, Shown, results_of
from skpmd._base.retained import RetainedRows
from skpmd._base.steps import Stream, kernel_step
from skpmd._base.validation import naming_singular_columns
from skpmd._rows.rows import Rows, numbers_of_rows, stacked_rows
from skpmd._rows.table import is_in_memory
from skpmd.engine.kde import cholesky
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.model import Batch
from skpmd.engine.particles import random_draws
from skpmd.engine.polynomial import degree_for
from skpmd.linear._averages import NormalLogits
from skpmd.linear._column_scale import Units, own_posterior, refuse_far, shift_of, units_of
from skpmd.linear._design import LinearModel
from skpmd.linear._fit import name_of, takes_steps
from skpmd.linear._group_effects import effects_of
from skpmd.linear._group_rules import unconverged_reasons
from skpmd.linear._make_model import (
    LinearParameters,
    ScaleChoice,
    axes_of,
    chosen_scale,
    in_columns,
    is_mean_field,
    linear_model,
)
from skpmd.linear._priors import TiltedPrior, precision_matrix
from skpmd.linear._response import Classes
from skpmd.linear._streaming import advance_retaining, proposal_step, with_units_of
from skpmd.proposals.control_variates import Expansion, of_power

_ROOM = 1.0  # Rows take so much room, in units of that of the particles.
_NO_EVIDENCE = "that of the rows of the earlier posterior, which is the prior, is not known"
_NORMAL = 0.1  # A likelihood is all but normal within so many nats: means move by .04 sds at most.
_STEP = 1e-4  # Of differences in coordinates of a posterior.
_N_CHECKED = 64  # The quadratic is compared with the likelihood at so many particles.


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


class PriorOfRows(NamedTuple):
    """The prior that there was before all rows."""

    parameters: LinearParameters
    scale: object  # A number, or one for each coefficient, (K, p).
    units: Units | None  # What it refers to, if not the given columns.
    response: Any  # `Classes` or `Distribution`: What y is.


class EarlierRows(NamedTuple):
    """All that a posterior was found from."""

    # In the units of the prior; weights are multiplied by the power of the likelihood.
    rows: Batch
    prior: PriorOfRows
    rest: Expansion | None  # Of rows that are not retained; None where all are.
    # Log marginal likelihood of the rows before those of the fit, and of these; None where unknown.
    log_evidence: float | None


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
    groups = task.prior.response.groups
    if groups is not None:
        reasons = unconverged_reasons(model, task.rows, outcome.particles)
        outcome = outcome.with_findings(reasons=outcome.findings.reasons + reasons)
    shown = Shown(seen, frame=task.prior.response.frame(task.prior.units), **axes)
    results = results_of(
        outcome, temperature=options.temperature, shown=shown, remedies=remedies,
        prior_pareto_k=prior_k, **diagnostics,
    )  # fmt: skip
    if not task.by_steps and groups is None:
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
        units, response=response, effects=effects_if_any(model, prior, of_groups, results),
    )  # fmt: skip


def effects_if_any(model, prior, batches, results):
    """`EffectsOfGroups` that have rows in the batches; None without groups."""
    if prior.response.groups is None:
        return None
    return effects_of(model, prior, batches, results.posterior)


# ------------------------------------------------------------------- rows of earlier fits
def earlier_rows(parameters, features, response):
    """`EarlierRows` of the posterior, or its estimator, that is the prior of the ``parameters``.

    Columns and classes come in the order of ``features`` and the ``response``. None where the
    posterior holds no rows, or is one of more coefficients.
    """
    posterior = posterior_of_prior(parameters.prior)
    names, n_rows = response.coefficient_names(features, parameters.fit_intercept), response.n_rows
    places = np.array(coordinates_named(posterior, names))
    earlier = getattr(posterior, "rows", None)
    if earlier is None or len(places) != len(posterior.names):
        return None
    old = earlier.prior.response
    if n_rows == 1 and isinstance(old, Classes) and not np.array_equal(old.labels, response.labels):
        raise ValueError(
            f"prior knows the classes {old.labels.tolist()}, and y has {response.labels.tolist()}: "
            "coefficients are those of the second. Give the same labels."
        )
    width = len(places) // n_rows
    classes, columns = places[::width] // width, places[:width] % width
    if not np.array_equal(np.add.outer(classes * width, columns).ravel(), places):
        return None  # Names of columns that end like those of classes.
    columns = columns[: earlier.rows.X.shape[1]]
    rows = earlier.rows._replace(X=earlier.rows.X[:, columns])
    if n_rows > 1:
        rows = response.reordered(rows, classes)

    def ordered(value):
        return value[np.ix_(classes, columns)] if np.ndim(value) else value

    old, rest, known = earlier.prior, earlier.rest, getattr(posterior, "log_evidence", None)
    if rest is not None:
        precision = rest.precision[np.ix_(places, places)]
        rest = rest._replace(
            centre=rest.centre[places], slope=rest.slope[places], precision=precision
        )
    is_known = earlier.log_evidence is not None and known is not None
    known = earlier.log_evidence + known if is_known else None
    prior = PriorOfRows(
        old.parameters._replace(prior_mean=ordered(old.parameters.prior_mean)),
        ordered(old.scale),
        None if old.units is None else old.units.only(columns),
        old.response if response.n_rows == 1 else response,
    )
    return EarlierRows(rows, prior, rest, known)


def model_of(earlier):
    """The model of the prior before all rows, tilted by those that are not retained."""
    prior, rest, n_features = earlier.prior, earlier.rest, earlier.rows.X.shape[1]
    model = linear_model(
        prior.parameters, n_features, prior.response, prior.scale, shift_of(prior.units)
    )
    return model if rest is None else model.with_prior(TiltedPrior(model.prior, rest))


def all_rows(earlier, rows, power):
    """Those that are retained, and then the ``rows`` of a fit, in the units of the earlier prior.

    The ``power`` of either is to come.
    """
    before = earlier.rows._replace(weight=earlier.rows.weight / power)
    both = _with_columns_of(rows, before), _with_columns_of(before, rows)
    return stacked_rows(*both, shift_of(earlier.prior.units))


def _with_columns_of(other, rows):
    """Rows with offsets of zero, and trials of one, where others have some and these have none."""
    found = {}
    for name, value in (("offset", 0.0), ("exposure", 1.0)):
        if getattr(rows, name) is None and getattr(other, name) is not None:
            found[name] = np.full(len(rows.weight), value)
    return rows._replace(**found)


def given_earlier(outcome, model, earlier):
    """The `Outcome` of all rows as one of the new rows, whose prior is the earlier posterior."""
    particles, known = outcome.particles, earlier.log_evidence or 0.0
    log_prior = particles.log_prior + model.log_likelihood(particles.theta, earlier.rows) - known
    particles = particles._replace(log_ratio=particles.log_ratio - known, log_prior=log_prior)
    outcome = outcome._replace(particles=particles)
    if earlier.log_evidence is None:
        outcome = outcome.with_findings(no_evidence=_NO_EVIDENCE)
    return outcome


def joined(shards):
    """The rows of posteriors under one prior, and `EarlierRows` of what stands for their others.

    Both are in the units of the first, whose prior is that of all. The latter has no rows, and is
    None where nothing stands for any.
    """
    first, units = shards[0], shards[0].prior.units
    shards = [first, *(_in(first.prior, one) for one in shards[1:])]
    rests = [one.rest for one in shards if one.rest is not None]
    rows = reduce(partial(stacked_rows, shift=shift_of(units)), [one.rows for one in shards])
    if not rests:
        return rows, None
    none = first.rows.take(slice(0))
    return rows, first._replace(
        rows=none, rest=reduce(lambda one, other: other.plus(one), rests), log_evidence=0.0
    )


def _in(prior, earlier):
    """`EarlierRows` in the units of another `PriorOfRows`."""
    if prior.units is None:
        return earlier
    rows, rest = prior.response.since(earlier.rows, earlier.prior.response), earlier.rest
    rows = rows._replace(X=prior.units.since(earlier.prior.units).rows(rows.X))
    if rest is not None:
        new, old = (one.response.frame(one.units) for one in (prior, earlier.prior))
        centre = new.since(old).outward(rest.centre)
        # As it takes coordinates to where the rest is.
        back = partial(old.since(new).pull_back, theta=centre)
        precision = back(back(rest.precision).T)
        rest = Expansion(centre, back(rest.slope), precision, rest.constant, rest.misfit)
    return earlier._replace(rows=rows, rest=rest)


def rows_for_later(model, rows, power, posterior, prior, earlier, sample=None):
    """The `EarlierRows` of a `Posterior`; None where values of its density are enough.

    They are where the rows are many, and the coefficients few. ``rows`` is a `Batch` of all that
    it was found from at this ``power`` of the likelihood, of which ``earlier`` came with its
    prior, under the `PriorOfRows` that there was before. Where that is a density itself, or has
    coordinates beyond the coefficients, a density has to be enough. A ``sample`` may have stood for
    all rows.
    """
    m, d = posterior.particles.shape
    if not (isinstance(prior.parameters.prior, str) and model.prior.has_gaussian):
        return None
    X = rows.X
    n_numbers = numbers_of_rows(X)
    is_much = n_numbers.sum() > _ROOM * m * d
    if is_much and posterior.log_joint is not None and degree_for(m, d) is not None:
        return None
    rows = rows._replace(weight=power * rows.weight)
    rest = None if earlier is None else earlier.rest
    if is_much:
        rows, rest = _reduced(model, rows, n_numbers, posterior, rest, of_power(sample, power))
    elif earlier is None:
        rows = rows._replace(X=X[np.arange(len(rows.weight))])  # A copy: X may be the user's.
    known = 0.0 if earlier is None else earlier.log_evidence
    return EarlierRows(rows, prior, rest, known)


def _reduced(model, rows, n_numbers, posterior, before, sample):
    """As many rows as take the room of the particles, and the `Expansion` of all others.

    No rows are retained where the likelihood of all of them is all but normal.
    """
    mean, chol = posterior.mean(), cholesky(posterior.cov())
    is_retained = np.zeros(len(n_numbers), dtype=bool)
    if sample is None:
        rest = _normal(model, [rows], mean, chol, posterior)
    else:
        rest = _normal(model, sample.batches, mean, chol, posterior)
        rest = rest.plus(sample.rest.averaged(mean, chol @ chol.T))
    if rest.misfit > _NORMAL:
        order = np.argsort(-model.skewness_of_rows(mean, chol, rows), kind="stable")
        is_retained[order] = np.cumsum(n_numbers[order]) <= _ROOM * posterior.particles.size
        rest = _normal(model, [rows.take(~is_retained)], mean, chol, posterior)
    return rows.take(np.flatnonzero(is_retained)), rest if before is None else rest.plus(before)


def _normal(model, batches, mean, chol, posterior):
    """The `Expansion` of rows: their mean gradient and second derivatives under the posterior."""
    target = model.gaussian_target(mean, chol @ chol.T, batches)
    of_prior = model.prior.expected(mean, np.linalg.norm(chol, axis=1))
    slope, precision = target[0] - of_prior[0], target[1] - precision_matrix(of_prior[1])
    rest = Expansion(mean, slope, precision)
    chosen = random_draws(posterior.weights, _N_CHECKED, np.random.default_rng(0))
    some = posterior.particles[chosen]
    gap = log_likelihood(model, some, batches) - rest.value(some)
    return rest._replace(constant=float(gap.mean()), misfit=float(gap.std()))
