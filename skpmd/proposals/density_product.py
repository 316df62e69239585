"""Posteriors of disjoint shards of rows as one: the product of their densities over the priors.

The posterior given all rows is

    p(theta | all rows) proportional to p_0(theta) prod_k p(theta | shard k) / p_k(theta)

with p_k the prior of shard k and p_0 that of all rows. Where a fitted density stands for the
posterior of each shard, values of the right side are known without a row. So the product is sampled
like any density whose values are known, by proposals that are fitted at its optima and weighed by
it. Where all rows are at hand, these weigh the same draws instead, which is exact.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skpmd.engine import mirror
from skpmd.engine.edges import Unbounded
from skpmd.engine.model import Batch, Model
from skpmd.proposals import fitted_density
from skpmd.proposals.fitted_density import FittedDensity
from skpmd.proposals.fitted_proposals import EACH, fitted_proposals
from skpmd.proposals.importance_rounds import importance_rounds

# Searches for optima start from so many draws of the densities, and a few optima are enough.
_STARTS = 200
_NO_ROWS = (Batch(np.empty((1, 0)), None, np.ones(1)),)


class Shard(NamedTuple):
    """What is known of the posterior given some of the rows."""

    density: FittedDensity
    log_prior: Any  # Log prior density of its fit: of points (m, d), (m,).


class DensityProduct(Model):
    """The product as a model: the prior of the first shard, and the likelihood of all.

    ``shards`` are one `Shard` for each posterior, all in the same coordinates.
    """

    def __init__(self, shards):
        self.shards = shards
        self.n_coordinates = len(shards[0].density.mean)

    def sample_prior(self, rng, m):
        """Draws of the densities, from which searches start; see `Model`."""
        some = [fitted_density.sample(one.density, m, rng) for one in self.shards]
        return rng.permutation(np.concatenate(some))[:m]

    def log_prior(self, theta):
        """Log density of the first shard's prior; see `Model`."""
        return self.shards[0].log_prior(theta)

    def log_likelihood(self, theta, batch):
        """What all shards have learned from their rows, up to a constant; see `Model`."""
        total = np.zeros(len(theta))
        for shard in self.shards:
            log_prior = shard.log_prior(theta)
            with np.errstate(invalid="ignore"):  # Beyond an edge both are -inf.
                total += fitted_density.log_density(shard.density, theta) - log_prior
        return np.where(np.isnan(total), -np.inf, total)


def merged_states(product, n, rng, support=None, rows=None):
    """States of n draws a round of a product, for `skpmd.engine.loop.drive`.

    The ``support`` of the coordinates is two arrays of edges (d,), or None. ``rows`` are the model
    of all rows, their batches and the power of the likelihood, where the rows are at hand.
    """
    model, batches, power = rows or (product, _NO_ROWS, 1.0)
    has_edges = support is not None and np.isfinite(support).any()
    if has_edges:
        product, model = Unbounded(product, *support), Unbounded(model, *support)

    log_joint = partial(mirror.log_joint, product, _NO_ROWS, 1.0)
    starts = product.sample_prior(rng, _STARTS)
    values = log_joint(starts)
    found = next(fitted_proposals(log_joint, starts, values, values, rng), None)
    if found is None:
        raise ValueError(
            "No optimum of the product of the shards' densities was found: fit all rows together."
        )
    mixture = found.components, found.shares
    for outcome in importance_rounds(model, batches, mixture, n, power, rng):
        # Proposals at several places are not to agree on a mean.
        gap = outcome.findings.disagreement if len(found.components) == EACH else None
        particles = outcome.particles
        if has_edges:
            particles = model.restored(particles)
        yield outcome._replace(particles=particles).with_findings(disagreement=gap)
