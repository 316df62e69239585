"""Posteriors of shards of rows under a user's own model as one: by their densities."""

import numpy as np

from skpmd._base.merging import check_total, merge_densities, refuse_equal_findings
from skpmd.engine.values import without_errors
from skpmd.proposals.density_product import AllRows, Shard

# Log priors of shards may differ by so much, beside a constant: they are the user's own functions,
# which may have been pickled.
_SAME = 1e-6
_COMPARED = 200  # Particles of each shard that they are compared at.


def merge_particles(models, states, rows, options, rng, n_merged):
    """`skpmd._base.merging.merge_densities` of the shards' particles.

    ``models`` give the prior of each shard, and the first the likelihood of all ``rows``, if there
    are any.
    """
    posteriors = [state.results.posterior for state in states]
    refuse_equal_findings([posterior.particles for posterior in posteriors])
    _check_coordinates([posterior.particles.shape[1] for posterior in posteriors])
    log_priors = [without_errors(model.log_prior) for model in models]
    _check_priors(log_priors, posteriors)
    shards = [
        Shard(posterior.fitted_density(), log_prior)
        for posterior, log_prior in zip(posteriors, log_priors, strict=True)
    ]
    if rows is not None:
        check_total(rows.total, sum(state.stream.seen for state in states))
        rows = AllRows(models[0], rows.whole(), options.power)
    n, support = options.n_particles, states[0].prior.support
    return merge_densities(shards, posteriors, n_merged, n, rng, support, rows)


def _check_coordinates(numbers):
    for k, d in enumerate(numbers):
        if d != numbers[0]:
            raise ValueError(
                f"theta has {numbers[0]} coordinates in estimators[0] and {d} in estimators[{k}]: "
                "fit all shards with one model."
            )


def _check_priors(log_priors, posteriors):
    """ValueError where a shard's prior is not that of the first, at particles of either."""
    for k, posterior in enumerate(posteriors[1:], start=1):
        theta = np.concatenate([one.particles[:_COMPARED] for one in (posteriors[0], posterior)])
        first, own = log_priors[0](theta), log_priors[k](theta)
        inside = np.isfinite(first) & np.isfinite(own)
        gap = (own - first)[inside]
        size = 1.0 + np.abs(first[inside]).max(initial=0.0)
        if not inside.all() or np.ptp(gap) > _SAME * size:
            apart = np.inf if not inside.all() else np.ptp(gap)
            raise ValueError(
                f"the prior of estimators[{k}] is not that of estimators[0]: at particles of both, "
                f"differences of their log densities vary by {apart:.3g}. Fit all shards under one."
            )
