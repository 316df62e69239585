"""What a fit of a mixture says: particles for predictions, draws, and parameters of components."""

import numpy as np

from skpmd.engine.particles import log_sum_exp
from skpmd.mixture._components import cholesky
from skpmd.mixture._particles import MixtureParticles
from skpmd.mixture._relabel import orders
from skpmd.mixture._stacking import stacked
from skpmd.posterior import Posterior

_DRAWS, _LEAST_DRAWS, _NUMBERS = 1000, 200, 4_000_000
_NEGLIGIBLE = -30.0  # log weight below which a particle says nothing of parameters


def conjugate_points(conjugate, weighting, before=None):
    """Particles at the expected parameters of each, df = inf; components aligned, and the counts.

    Parameters
    ----------
    conjugate : Conjugate
        What has been learnt.
    weighting : {"stacking", "posterior", "uniform"}
        Whether particles are weighed by their bounds of the evidence, or not at all.
    before : MixtureParticles or None
        Of the rows before, in the same units: components go on with their places.

    Returns
    -------
    Conjugate
        The same with components in the order of the best particle's.
    MixtureParticles
        In inner units.
    """
    model, m = conjugate.model, len(conjugate.counts.entropy)
    state = model.state(conjugate.counts)
    log_weights = np.full(m, -np.log(m))
    if weighting != "uniform":
        log_weights = state.bound - log_sum_exp(state.bound)
    found = _points(model, state, log_weights)
    if model.K > 1 and (m > 1 or before is not None):
        order = orders(found, before)
        components = np.take_along_axis(conjugate.counts.components, order[..., None], axis=1)
        conjugate = conjugate._replace(counts=conjugate.counts._replace(components=components))
        found = _points(model, model.state(conjugate.counts), log_weights)
    return conjugate, found


def _points(model, state, log_weights):
    scale, shares = model.family.location_scale(state.normals), state.log_shares
    predictive = log_weights[:, None] + shares
    no_df = np.full(shares.shape, np.inf)
    return MixtureParticles(log_weights, shares, predictive, state.normals.mean, scale, no_df)


def conjugate_particles(conjugate, points, weighting):
    """Particles for predictions: Students, and the weights of their average."""
    model, family = conjugate.model, conjugate.model.family
    state = model.state(conjugate.counts)
    log_predictive, m = points.log_predictive, len(points.log_weights)
    if weighting == "stacking" and m * model.K > 1:
        kept, start = conjugate.kept, state.log_shares - np.log(m)
        weight, X = kept.sampled_weight(), conjugate.units.inner(kept.X)
        left_out = model.left_out(state, X, weight)
        log_predictive = stacked(left_out, weight, start.ravel()).reshape(m, -1)
    return points._replace(
        log_predictive=log_predictive,
        scale_cholesky=family.student_scale(state.normals),
        df=np.array(np.broadcast_to(family.student_df(state.normals), log_predictive.shape)),
        product=family.product,
    )


def conjugate_draws(conjugate, points, rng):
    """Draws of the particles' posteriors, as particles of equal weight."""
    model, p = conjugate.model, conjugate.model.p
    n = int(np.clip(_NUMBERS / (model.K * p * p), _LEAST_DRAWS, _DRAWS))
    weights = np.exp(points.log_weights)
    at = np.sort(rng.choice(len(weights), size=n, p=weights / weights.sum()))
    state = model.state(conjugate.counts)
    shares = np.log(np.maximum(model.weights.draw(conjugate.counts.sizes[at], rng), 1e-300))
    location, scale = model.family.draw(state.normals, at, rng)
    equal, no_df = np.full(n, -np.log(n)), np.full(shares.shape, np.inf)
    return MixtureParticles(equal, shares, equal[:, None] + shares, location, scale, no_df)


def posterior_of(points, units, **certificates):
    """Posterior of weights, means and standard deviations of the components, the user's units."""
    m, K, p = points.location.shape
    variances = (points.scale_cholesky**2).sum(axis=-1)
    means, stds = units.outer(points.location), np.sqrt(variances) * units.scale
    parts = [np.exp(points.log_shares), means.reshape(m, -1), stds.reshape(m, -1)]
    names = [f"weight[{k}]" for k in range(K)]
    names += [f"{what}[{k},{j}]" for what in ("mean", "std") for k in range(K) for j in range(p)]
    return Posterior(np.concatenate(parts, axis=1), points.log_weights, names=names, **certificates)


def component_parameters(points, units, covariance_type):
    """Weights, means and covariances, averaged over aligned particles, in the user's units.

    Returns
    -------
    weights : ndarray of shape (K,)
        Sum 1.
    means : ndarray of shape (K, p)
        Of the components.
    covariances : ndarray
        Of the shape that scikit-learn gives this type.
    """
    told = points.log_weights > _NEGLIGIBLE
    w = np.exp(points.log_weights[told])
    w = w / w.sum()
    shares = np.tensordot(w, np.exp(points.log_shares[told]), axes=1)
    means = units.outer(np.tensordot(w, points.location[told], axes=1))
    root = points.scale_cholesky[told]
    covariances = np.zeros(root.shape[1:])
    for share, one in zip(w, root, strict=True):
        covariances += share * (one @ np.swapaxes(one, -1, -2))
    covariances *= np.outer(units.scale, units.scale)
    if covariance_type == "tied":
        covariances = covariances[0]
    elif covariance_type != "full":
        covariances = np.diagonal(covariances, axis1=1, axis2=2).copy()
        if covariance_type == "spherical":
            covariances = covariances.mean(axis=1)
    return shares / shares.sum(), means, covariances


def precisions(covariances, covariance_type):
    """Precisions and their factors, of the shapes that scikit-learn gives this type."""
    if covariance_type in ("diag", "spherical"):
        return 1.0 / covariances, 1.0 / np.sqrt(covariances)
    inverse = np.linalg.inv(cholesky(covariances))
    transposed = np.swapaxes(inverse, -1, -2)
    return transposed @ inverse, transposed


def prior_attributes(problem, units):
    """The prior in the user's units, by the names of the attributes."""
    covariance, scale = problem.covariance, units.scale
    if problem.covariance_type in ("full", "tied"):
        covariance = covariance * np.outer(scale, scale)
    else:
        covariance = covariance * (scale**2 if problem.covariance_type == "diag" else scale[0] ** 2)
    told = {
        "weight_concentration_prior_": problem.concentration,
        "mean_prior_": units.outer(problem.mean),
        "covariance_prior_": covariance[()],
    }
    if problem.component_prior == "independent":
        return {**told, "mean_scale_prior_": problem.mean_scale * scale}
    return {
        **told,
        "mean_precision_prior_": problem.mean_precision,
        "degrees_of_freedom_prior_": problem.df,
    }
