"""Posteriors of shards of rows as one: by their densities, or by formula without correlations."""

import numpy as np

from skpmd._base.merging import merge_densities
from skpmd._base.records import Records
from skpmd._base.results import Results
from skpmd.engine.density_product import AllRows, Shard
from skpmd.logistic._hmc import move_from_proposals
from skpmd.logistic._make_model import in_columns, linear_model
from skpmd.logistic._posterior import GaussianPosterior
from skpmd.logistic._priors import NormalPrior, ShiftedPrior

NO_WEIGHTS = "rows weigh particles, and these are Gaussians without correlations"


def models_of_shards(parameters, features, classes, states):
    """The model of each shard, and the parameters in the shape of the coefficients.

    Priors of shards may differ in scales that each has found by itself.
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
    return models, given


def hold_rows(states, prior):
    """Whether the posteriors of all shards hold their rows.

    Rows of an earlier posterior, where that is the ``prior``, are in all of them, and not used.
    """
    held = [getattr(state.results.posterior, "rows", None) for state in states]
    return isinstance(prior, str) and all(one is not None for one in held)


def noted(outcome, rows, held, n_merged):
    """The outcome of a fit to rows of so many shards, whose method says so.

    ``held`` are the `EarlierRows` where rows are those that posteriors hold.
    """
    what = f"{outcome.notes['method']}, {len(rows.data.weight)} rows of {n_merged} shards"
    if held is not None and held.rest is not None:
        what += " and a normal likelihood of their others"
    return outcome._replace(notes={**outcome.notes, "method": what, "n_shards": n_merged})


def merge_particles(models, states, rows, options, rng, n_merged):
    """`skpmd._base.merging.merge_densities` of the shards' particles.

    ``rows`` are all rows, or None. The merged prior is that of the first shard.
    """
    posteriors = [state.results.posterior for state in states]
    shards = [
        Shard(posterior.fitted_density(), model.prior.log_density, model.prior.gradient)
        for posterior, model in zip(posteriors, models, strict=True)
    ]
    if rows is not None:
        rows = all_rows(models[0], rows.whole(), options.power)
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
