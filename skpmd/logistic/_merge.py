"""Posteriors of shards of rows as one: by their densities, or by formula without correlations."""

from typing import NamedTuple

import numpy as np

from skpmd._base.merging import merge_densities
from skpmd._base.records import Records
from skpmd._base.results import Results
from skpmd.engine.model import Batch
from skpmd.logistic._column_scale import Units
from skpmd.logistic._compressed import own_posterior
from skpmd.logistic._earlier_rows import EarlierRows, PriorOfRows
from skpmd.logistic._hmc import move_from_proposals
from skpmd.logistic._make_model import in_columns, linear_model
from skpmd.logistic._posterior import GaussianPosterior
from skpmd.logistic._priors import NormalPrior, Prior, ShiftedPrior
from skpmd.proposals.density_product import AllRows, Shard

# Scales that shards have found may be so many times apart. Those of columns of random shards are
# nearly the same.
_MAX_APART = 2.0
NO_WEIGHTS = "rows weigh particles, and these are Gaussians without correlations"


def models_of_shards(parameters, features, classes, states):
    """The model of each shard: their priors may differ in what each has found by itself.

    That are scales, and the units that their coefficients are in. ``states`` are the estimators'
    states, of ``features`` and ``classes`` that all have.
    """
    mean_field = {state.stream is None for state in states}
    if len(mean_field) > 1:
        raise ValueError(
            "Some shards hold their posterior without correlations, and some do not: set "
            "covariance_type to 'diag' or 'full' for all."
        )
    given, _ = in_columns(parameters, features, classes, mean_field.pop())
    models = [
        linear_model(given, len(features), len(classes), state.prior_scale) for state in states
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
    given, _ = in_columns(parameters, features, classes, mean_field=False)
    held = [_rows_of(state, given, len(classes), power) for state in states]
    return None if any(one is None for one in held) else held


def _rows_of(state, given, n_classes, power):
    """Rows that a posterior holds, or that a stream has retained so far; None without."""
    if state.retained is None:
        return getattr(state.results.posterior, "rows", None)
    X, y, weight = state.retained.rows
    prior = PriorOfRows(given, state.prior_scale, state.units)
    return EarlierRows(Batch(X, y, power * weight), prior, n_classes, None, 0.0)


def found_by_rows(outcome, rows, is_reduced, n_merged):
    """What diagnostics say of a fit to rows of so many shards; a normal may stand for others."""
    what = f"{outcome.notes['method']}, {len(rows.data.weight)} rows of {n_merged} shards"
    what += " and a normal likelihood of their others" * is_reduced
    return {"method": what, "n_shards": n_merged}


def differing_priors(models, states, prior_scale):
    """Reasons to warn of scales of a prior that each shard has found by itself.

    Evidence of few rows hardly knows a scale, and may be as far from that of all rows in all
    shards: coefficients were 1.2 sds off where scales were .08 and .12, and that of all rows .17.
    """
    if isinstance(prior_scale, str) and prior_scale == "evidence":
        return (
            "the prior is that of estimators[0], whose scale is the most probable given its own "
            "rows, and all rows may have another one: set prior_scale to a number for all shards",
        )
    scales = np.array([
        model.prior.scale if state.units is None else state.units.inward_sd(model.prior.scale)
        for model, state in zip(models, states, strict=True)
    ])  # fmt: skip
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
    shard. Points are in the units of either.
    """
    units = states[0].units if task is None else task.prior.units
    posteriors = [own_posterior(state.results.posterior, units) for state in states]
    shards = []
    for posterior, model, state in zip(posteriors, models, states, strict=True):
        prior = model.prior if units is None else _PriorIn(model.prior, state.units.since(units))
        shards.append(Shard(posterior.fitted_density(), prior.log_density, prior.gradient))
    rows = None if task is None else all_rows(task.model, task.rows.whole(), options.power)
    return merge_densities(shards, posteriors, n_merged, options.n_particles, rng, rows=rows)


class _PriorIn(NamedTuple):
    """A prior as one of coefficients in other units."""

    prior: Prior
    move: Units  # Those of the prior, as ones of columns in the other units.

    def log_density(self, theta):
        u = self.move.outward(theta)
        return self.prior.log_density(u) - self.move.log_jacobian(u)

    def gradient(self, theta):
        return self.move.pull_back(self.prior.gradient(self.move.outward(theta)))


def all_rows(model, batches, power):
    """`AllRows` of a model, with Hamiltonian moves where weights fail."""

    def moved(components, n, rng):
        yield from move_from_proposals(model, batches, components, n, power, rng)

    return AllRows(model, batches, power, moved)


def merge_mean_field(models, states, n_merged, axes):
    """`Results` of the product of Gaussians without correlations, over the surplus priors.

    Their natural parameters, a precision and a linear part for each coordinate, add up. Where
    intercepts are at other centres, the product has correlations of them with coefficients: it has
    the mean of the product, and each coordinate the precision given all others.
    """
    posteriors = [state.results.posterior for state in states]
    units = states[0].units
    moments = [posterior.moments_in(posterior.frame) for posterior in posteriors]
    parts = [_natural(1.0 / scale**2, loc) for loc, scale in moments]
    priors = [_of_normal_prior(model.prior) for model in models]
    precision, linear = parts[0]
    coupled, scalars = [], []
    for state, part, prior in zip(states[1:], parts[1:], priors[1:], strict=True):
        more = part[0] - prior[0], part[1] - prior[1]
        if units is not None:
            move = state.units.since(units)
            diagonal, by_intercepts = _in_first(move, more[0])
            coupled += list(by_intercepts[0])
            scalars += list(by_intercepts[1])
            more = diagonal, move.pull_back(more[1])
        precision, linear = precision + more[0], linear + more[1]
    mean, precision = _solved(precision, linear, coupled, scalars)
    posterior = GaussianPosterior(
        mean, 1.0 / np.sqrt(precision), n_logits=len(posteriors[0].nodes), frame=units, **axes
    )
    diagnostics = {
        **states[0].results.diagnostics,
        "method": f"sum of the natural parameters of {n_merged} shards",
        "n_shards": n_merged,
        "warnings": [],
    }
    return Results(posterior, Records(), diagnostics)


def _in_first(move, precision):
    """A diagonal precision in other units: what stays diagonal, and vectors with their factors.

    A factor times the outer product of its vector is added for each intercept, which is a sum of
    coordinates now.
    """
    width = len(move.centre) + move.fit_intercept
    diagonal = precision.reshape(-1, width).copy()
    diagonal[:, : len(move.centre)] *= move.scale**2
    if not move.fit_intercept:
        return diagonal.ravel(), ((), ())
    places, factors = np.arange(width - 1, precision.size, width), diagonal[:, -1].copy()
    diagonal[:, -1] = 0.0
    intercepts = np.zeros((len(places), precision.size))
    intercepts[np.arange(len(places)), places] = 1.0
    return diagonal.ravel(), (move.pull_back(intercepts), factors)


def _solved(diagonal, linear, vectors, factors):
    """The mean by a precision that is diagonal but for some products, and its diagonal."""
    if not vectors:
        return linear / diagonal, diagonal
    U, factors = np.array(vectors), np.array(factors)
    scaled = U / diagonal
    inner = np.eye(len(U)) + factors[:, None] * (scaled @ U.T)
    mean = (linear - U.T @ np.linalg.solve(inner, factors * (scaled @ linear))) / diagonal
    return mean, diagonal + factors @ U**2


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
