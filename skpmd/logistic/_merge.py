"""Posteriors of shards of rows as one: by their densities, or by formula without correlations."""

import numpy as np

from skpmd._base.merging import merge_densities
from skpmd._base.records import Records
from skpmd._base.results import Results
from skpmd.engine.density_product import AllRows, Shard
from skpmd.engine.model import Batch
from skpmd.logistic._earlier_rows import EarlierRows, PriorOfRows
from skpmd.logistic._hmc import move_from_proposals
from skpmd.logistic._make_model import in_columns, linear_model
from skpmd.logistic._posterior import GaussianPosterior
from skpmd.logistic._priors import NormalPrior, ShiftedPrior

# Scales that shards have found may be so many times apart. Those of columns of random shards are
# nearly the same.
_MAX_APART = 2.0
NO_WEIGHTS = "rows weigh particles, and these are Gaussians without correlations"


def models_of_shards(parameters, features, classes, states):
    """The model of each shard: their priors may differ in scales that each has found by itself.

    ``states`` are the estimators' states, of ``features`` and ``classes`` that all have.
    """
    mean_field = {state.stream is None for state in states}
    if len(mean_field) > 1:
        raise ValueError(
            "Some shards hold their posterior without correlations, and some do not: set "
            "covariance_type to 'diag' or 'full' for all."
        )
    given = in_columns(parameters, features, classes, mean_field.pop())
    models = [
        linear_model(given, len(features), len(classes), state.prior_scale, state.column_scale)
        for state in states
    ]
    if not models[0].prior.has_gaussian:
        raise ValueError(
            "prior='horseshoe' has no density that stands for its posterior, whose scales are as "
            "uncertain as its coefficients: set another prior for the shards, or fit all rows."
        )
    return models


def rows_held(states, parameters, features, classes, power):
    """`EarlierRows` of each shard; None where one has not retained what stands for all its rows.

    Where the prior of all is an earlier posterior its rows are in each of them, and not used.
    ``power`` is that of the likelihood.
    """
    if states[0].stream is None or not isinstance(parameters.prior, str):
        return None
    given = in_columns(parameters, features, classes, mean_field=False)
    held = [_rows_of(state, given, len(classes), power) for state in states]
    return None if any(one is None for one in held) else held


def _rows_of(state, given, n_classes, power):
    """Rows that a posterior holds, or that a stream has retained so far; None without."""
    if state.retained is None:
        return getattr(state.results.posterior, "rows", None)
    X, y, weight = state.retained.rows
    prior = PriorOfRows(given, state.prior_scale, state.column_scale)
    return EarlierRows(Batch(X, y, power * weight), prior, n_classes, None, 0.0)


def found_by_rows(outcome, rows, is_reduced, n_merged):
    """What diagnostics say of a fit to rows of so many shards; a normal may stand for others."""
    what = f"{outcome.notes['method']}, {len(rows.data.weight)} rows of {n_merged} shards"
    what += " and a normal likelihood of their others" * is_reduced
    return {"method": what, "n_shards": n_merged}


def differing_priors(models, prior_scale):
    """Reasons to warn of scales of a prior that each shard has found by itself.

    Evidence of few rows hardly knows a scale, and may be as far from that of all rows in all
    shards: coefficients were 1.2 sds off where scales were .08 and .12, and that of all rows .17.
    """
    if isinstance(prior_scale, str) and prior_scale == "evidence":
        return (
            "the prior is that of estimators[0], whose scale is the most probable given its own "
            "rows, and all rows may have another one: set prior_scale to a number for all shards",
        )
    scales = np.array([model.prior.scale for model in models])
    apart = float(np.max(scales.max(axis=0) / scales.min(axis=0)))
    if not apart > _MAX_APART:
        return ()
    return (
        f"the prior is that of estimators[0], and scales that other shards have found by themselves"
        f" are up to {apart:.1f} times apart from it or each other: set prior_scale to a number and"
        " scale=None, on columns of one scale",
    )


def merge_particles(models, states, task, options, rng, n_merged):
    """`skpmd._base.merging.merge_densities` of the shards' particles.

    The ``task`` has all rows and their model. Where it is None the prior is that of the first
    shard.
    """
    posteriors = [state.results.posterior for state in states]
    shards = [
        Shard(posterior.fitted_density(), model.prior.log_density, model.prior.gradient)
        for posterior, model in zip(posteriors, models, strict=True)
    ]
    rows = None if task is None else all_rows(task.model, task.rows.whole(), options.power)
    return merge_densities(shards, posteriors, n_merged, options.n_particles, rng, rows=rows)


def all_rows(model, batches, power):
    """`AllRows` of a model, with Hamiltonian moves where weights fail."""

    def moved(components, n, rng):
        yield from move_from_proposals(model, batches, components, n, power, rng)

    return AllRows(model, batches, power, moved)


def merge_mean_field(models, states, n_merged, axes):
    """`Results` of the product of Gaussians without correlations, over the surplus priors.

    Their natural parameters, a precision and a linear part for each coordinate, add up.
    """
    posteriors = [state.results.posterior for state in states]
    natural = [_natural(1.0 / one.scale**2, one.loc) for one in posteriors]
    of_priors = [_of_normal_prior(model.prior) for model in models]
    precision, linear = (
        of_first + sum(one - prior for one, prior in zip(each, priors, strict=True))
        for of_first, each, priors in zip(
            of_priors[0], zip(*natural, strict=True), zip(*of_priors, strict=True), strict=True
        )
    )
    posterior = GaussianPosterior(
        linear / precision, 1.0 / np.sqrt(precision), n_logits=len(posteriors[0].nodes), **axes
    )
    diagnostics = {
        **states[0].results.diagnostics,
        "method": f"sum of the natural parameters of {n_merged} shards",
        "n_shards": n_merged,
        "warnings": [],
    }
    return Results(posterior, Records(), diagnostics)


def _natural(precision, mean):
    return precision, precision * mean


def _of_normal_prior(prior):
    """Precision and linear part of a prior; ValueError where it is none of normals."""
    loc = 0.0
    if isinstance(prior, ShiftedPrior):
        prior, loc = prior.prior, prior.loc
    if not isinstance(prior, NormalPrior):
        raise ValueError(
            "Gaussians without correlations are merged by formula under prior='normal' only: set "
            "it, or covariance_type='full'."
        )
    return _natural(prior.scale**-2.0, loc)
