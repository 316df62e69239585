"""Leave-one-out densities of the rows of a conjugate mixture, in closed form.

Given the responsibilities of all other rows those of a row are taken out of the components'
sufficient statistics, by a change of rank one, and out of the mixing weights: no sampling, and
nothing is fitted anew. With one component this is exact; with several what is left out is that
other rows would have had slightly different responsibilities.
"""

import numpy as np
from scipy.special import logsumexp, softmax

from skpmd._base.left_out import LeftOut, check_rows_of_fit
from skpmd.engine.threads import in_order


def leave_one_out(state, predictive, X, times, seen):
    """`LeftOut` of the rows of a conjugate `MixtureState`.

    ``predictive`` are its `MixtureParticles` for predictions, X a `RowView` of the rows, ``times``
    (n,) how often each counts, and ``seen`` (n,) their log densities by the fit with them.
    """
    check_rows_of_fit(times, state.fit.counts.total)
    blocks = _left_out(state.fit.model, state.fit.counts, X, times)
    if state.weighting == "stacking":
        weights = np.exp(predictive.log_predictive.ravel())
        parts = []
        for rows, log_density, _ in blocks:
            flat = log_density.reshape(len(log_density), -1)
            parts.append(_stacked(flat, weights, times[rows], state.n_samples_seen))
        table = np.concatenate(parts)[None] + state.scaler.log_jacobian
        return LeftOut(np.zeros(1), table, None, seen)
    parts = [logsumexp(density + mixing, axis=2) for _, density, mixing in blocks]
    table = np.concatenate(parts).T + state.scaler.log_jacobian
    log_evidence = times * table if state.weighting == "posterior" else None
    return LeftOut(state.points.log_weights, table, log_evidence, seen)


def _stacked(log_density, weights, times, total):
    """Log densities (n,) of the average that is stacked without the row itself.

    Weights of stacking are mean responsibilities of the rows, and of one row more that is its
    start: what the row left out has in these is taken away. That is the first step of the search
    for the weights of the other rows.
    """
    with np.errstate(divide="ignore"):
        own = softmax(log_density + np.log(weights), axis=1)
        left = np.maximum((total + 1.0) * weights - times[:, None] * own, 0.0)
        return logsumexp(log_density + np.log(left), axis=1) - np.log(left.sum(axis=1))


def _left_out(model, counts, X, times):
    """Slices of k rows; log densities and mixing weights of components without them, (k, m, K)."""
    posteriors, m = model.posteriors(counts), len(counts.entropy)

    def of(rows):
        features = model.family.features(X[rows])
        log_ratio, log_density = model.log_densities(posteriors, features)
        log_joint = log_density + posteriors.log_mixing.ravel()
        weight = np.ascontiguousarray(times[rows])
        resp, _ = model.responsibilities(log_joint, weight, np.zeros(m))
        model.family.left_out(posteriors.normals, features, log_ratio, log_density, resp)
        shape = (len(features), m, model.K)
        sizes = np.maximum(counts.sizes - resp.reshape(shape), 0.0)
        log_mixing = model.weights.log_mean(sizes.reshape(-1, model.K))
        return rows, log_density.reshape(shape), log_mixing.reshape(shape)

    return in_order(of, model.chunks(len(X), m))
