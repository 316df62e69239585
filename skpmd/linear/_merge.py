"""Posteriors of shards of rows as one: by rows that they hold, by densities, or by formula."""

from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from skpmd._base.merging import check_total
from skpmd._base.results import Results
from skpmd._base.steps import Records
from skpmd.linear._column_scale import Units, own_posterior
from skpmd.linear._earlier_rows import EarlierRows, PriorOfRows
from skpmd.linear._make_model import linear_model
from skpmd.linear._posterior import GaussianPosterior
from skpmd.linear._priors import NormalPrior
from skpmd.posterior import Posterior
from skpmd.proposals.density_product import Shard

# Scales that shards have found may be so many times apart. Those of columns of random shards are
# nearly the same.
_MAX_APART = 2.0
NO_WEIGHTS = "rows weigh particles, and these are Gaussians without correlations"


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
