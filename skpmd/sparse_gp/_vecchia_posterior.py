"""The posterior over kernels by the likelihood of rows given their neighbours."""

import numpy as np

from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.fitted_proposals import fitted_proposals
from skpmd.engine.from_values import is_thin
from skpmd.engine.importance_rounds import importance_rounds
from skpmd.engine.loop import Outcome
from skpmd.engine.model import Batch

_STARTS, _SPREAD = 64, 0.3  # Searches for the posterior start from so many places around the best.
_WITHIN = 1e-3  # They lie inside the bounds by this share of their distance.
_MIN_SHARE, _MIN_ESS, _MIN_DRAWS = 0.05, 100.0, 400


def states_of_kernels(model, rows, theta, n, rng):
    """States of importance reweighting of hyperparameters, for `skpmd.engine.loop.drive`.

    The density is that of ``rows`` (k,) and the prior. Proposals are fitted to it around
    hyperparameters ``theta`` (d,) near its best, and then along ridges if their weights fail.
    """
    batches = [Batch(rows[:, None], None, np.ones(len(rows)))]
    free = Unbounded(model, *edges(model.log_prior, model.sample_prior(rng, _STARTS)))
    draws = free.outward(_around(model, theta, rng))

    def log_joint(points):
        with np.errstate(all="ignore"):
            values = free.log_prior(points) + free.log_likelihood(points, batches[0])
        return np.where(np.isfinite(values), values, -np.inf)

    def of_theta(points):
        found = [model.gradient(one, rows, batches[0].weight) for one in points]
        by_prior = [model.prior.slope(one) for one in points]
        values, slopes = zip(*found, strict=True)
        return np.array(values) + model.log_prior(points), np.array(slopes) + np.array(by_prior)

    values = log_joint(draws)
    seen = values - free.log_prior(draws)
    best = None
    for found in fitted_proposals(log_joint, draws, values, seen, rng, free.gradient(of_theta)):
        where = " along a ridge" if found.along_ridge else ""
        notes = {"method": f"importance reweighting of proposals fitted to the likelihood{where}"}
        for last in importance_rounds(
            free, batches, found.components, found.shares, max(n, _MIN_DRAWS), 1.0, rng,
            _MIN_SHARE, _MIN_ESS,
        ):  # fmt: skip
            best = Outcome(
                free.restored(last.particles), last.infos, True, pair=last.pair, notes=notes
            )
            yield best
        if not is_thin(best.particles):
            return


def _around(model, theta, rng):
    """Theta and places around it, inside the bounds of the kernel."""
    low, high = model.covariance.kernel.bounds.T
    inside = _WITHIN * (high - low)
    near = theta + _SPREAD * rng.standard_normal((_STARTS, len(theta)))
    near[0] = theta
    return np.clip(near, low + inside, high - inside)
