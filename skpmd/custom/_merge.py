"""Posteriors of shards of rows under a user's own model as one: by their densities."""

import numpy as np

from skpmd._base.merging import check_equal, refuse_copies
from skpmd.engine.edges import without_errors
from skpmd.proposals.density_product import Shard

# Log priors of shards may differ by so much, beside a constant: they are the user's own functions,
# which may have been pickled.
_SAME = 1e-6
_COMPARED = 200  # Particles of each shard that they are compared at.


def shards_of(models, posteriors):
    """A `Shard` for each posterior; ``models`` give their priors, which have to be the same."""
    refuse_copies([one.particles for one in posteriors])
    check_equal("The length of theta", [one.particles.shape[1] for one in posteriors])
    log_priors = [without_errors(model.log_prior) for model in models]
    for k, posterior in enumerate(posteriors):
        theta = np.concatenate([one.particles[:_COMPARED] for one in (posteriors[0], posterior)])
        first, own = log_priors[0](theta), log_priors[k](theta)
        with np.errstate(invalid="ignore"):  # Beyond an edge both are -inf.
            apart = np.ptp(own - first)
        size = 1.0 + np.abs(first[np.isfinite(first)]).max(initial=0.0)
        if not apart <= _SAME * size:
            raise ValueError(
                f"the prior of estimators[{k}] is not that of estimators[0]: at particles of both, "
                f"differences of their log densities vary by {apart:.3g}. Fit all shards under one."
            )
    densities = [posterior.fitted_density() for posterior in posteriors]
    return [Shard(*both) for both in zip(densities, log_priors, strict=True)]
