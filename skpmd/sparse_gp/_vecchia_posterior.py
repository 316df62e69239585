"""The posterior over kernels by the likelihood of rows given their neighbours."""

import numpy as np
from scipy.special import logsumexp

from skpmd._runtime.threads import each
from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.loop import Outcome
from skpmd.engine.model import Batch
from skpmd.proposals.fitted_proposals import fitted_proposals
from skpmd.proposals.importance_rounds import importance_rounds
from skpmd.proposals.weighed_proposals import is_thin
from skpmd.sparse_gp._exact_evidence import log_marginal_likelihood

# Of up to so many rows so many particles have their exact evidence. The first number is the largest
# difference that is let pass, in nats; the second the largest standard deviation of it, which is
# what the mean of a hyperparameter is off by at most, in standard deviations, to first order.
_EXACT_ROWS, _EXACT_PARTICLES, _MAX_OFF, _MAX_SPREAD = 2000, 16, 0.5, 0.5
_STARTS, _SPREAD = 64, 0.3  # Searches for the posterior start from so many places around the best.
_WITHIN = 1e-3  # They lie inside the bounds by this share of their distance.
_MIN_SHARE, _MIN_ESS, _MIN_DRAWS = 0.05, 100.0, 400


def states_of_kernels(model, rows, theta, n, rng):
    """States of importance reweighting of hyperparameters, for `skpmd.engine.loop.drive`.

    The density is that of ``rows`` (k,) and the prior. Proposals are fitted to it around
    hyperparameters ``theta`` (d,) near its best, and then along ridges if their weights fail.
    """
    batches = [Batch(None, None, np.ones(len(rows)), place=rows)]
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
        to = found.to.replace("values", "the likelihood")
        notes = {"method": f"importance reweighting of proposals fitted to {to}"}
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


def exact_findings(model, theta, sample):
    """Sentences where the posterior of an exact process is another, of equal particles (m, d).

    ``sample`` holds all rows. The evidence of the exact process is that by neighbours times the
    mean of exp(d) over the posterior, d being the difference of the log likelihoods there, and the
    exact posterior has the weights exp(d).
    """
    if len(sample.y) > _EXACT_ROWS:
        return []
    theta = theta[:: -(-len(theta) // _EXACT_PARTICLES)]
    with np.errstate(all="ignore"):
        exact = np.array(each(
            lambda one: log_marginal_likelihood(model.covariance, one, sample, gradient=False),
            theta,
        ))  # fmt: skip
        off = exact - model.log_likelihood(theta, model.all_rows())
    off = off[np.isfinite(off)]
    if not len(off):
        return []
    shift, spread = logsumexp(off) - np.log(len(off)), off.std()
    if abs(shift) < _MAX_OFF and spread < _MAX_SPREAD:
        return []
    return [
        f"the evidence of the exact process is larger by {shift:.3g} nats than that by neighbours, "
        f"and the logs of particles' weights are off by {spread:.2g}: intervals of hyperparameters "
        "and the evidence are not those of the kernel. Raise n_neighbors, or fit 500 rows, for "
        "which the likelihood is exact."
    ]
