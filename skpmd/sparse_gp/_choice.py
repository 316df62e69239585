"""Which approximation suits the rows: inducing inputs, the nearest rows of each, or both."""

import numpy as np

from skpmd._base.rows import distinct
from skpmd._base.utils import as_generator
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Data
from skpmd.sparse_gp._fit import fit, update
from skpmd.sparse_gp._full_scale_fit import new_full_scale, with_inducing
from skpmd.sparse_gp._hyperparameters import MIN_INDUCING, n_inducing
from skpmd.sparse_gp._vecchia_fit import fit_vecchia, with_kernel

# Predictions of so many rows are compared, and inducing inputs learn from so many others.
_SCORED_ROWS, _LEARNED_ROWS = 1000, 10_000


def fit_chosen(parameters, data):
    """The state after a fit by the approximation that predicts some of the rows best.

    Up to a thousand distinct rows are inducing inputs, and the process is exact. With more,
    neighbours are tried first, and then, under the kernel that was found so, inducing inputs and
    both together. These learn from ten thousand rows for it.
    """
    inducing = parameters._replace(approximation="fitc")
    if not _may_have_neighbours(parameters, data):
        return fit(inducing, data)
    state = fit_vecchia(parameters, data)
    if parameters.weighting == "posterior":
        return state
    rows = np.arange(min(_SCORED_ROWS, len(state.model.sites.weight) // 4))
    near = _score(state.model, state.theta, rows)
    few, both = _score_of_inducing(inducing, state, rows), _score_of_both(parameters, state, rows)
    if near > max(few, both):
        return state
    if few < near:
        return with_inducing(parameters, state)
    found = _fit_inducing(inducing, state, data)
    other = with_kernel(parameters, state, found.model.covariance, found.theta)
    few, together = (
        _score_of_inducing(inducing, other, rows),
        _score_of_both(parameters, other, rows),
    )
    if few > max(both, together):
        return found
    return with_inducing(parameters, state if both > together else other)


def _fit_inducing(parameters, state, data):
    """The state of inducing inputs, whose search starts where that for neighbours has ended.

    Few neighbours may take what is smooth for rough. Where they have, RBF is the other candidate
    for the default kernel, and the evidence decides.
    """
    covariance = state.model.covariance
    found = covariance.at(state.theta)
    candidates = [parameters._replace(kernel=found, n_restarts_optimizer=0)]
    if parameters.kernel is None and covariance.term(state.theta).shape:  # Not RBF.
        candidates.append(parameters)
    states = [fit(one, data) for one in candidates]
    return max(states, key=lambda one: one.model.best_evidence(one.particles))


def _may_have_neighbours(parameters, data):
    covariance = KernelCovariance(parameters.kernel) if parameters.kernel is not None else None
    given = parameters.n_inducing != "auto" or not isinstance(parameters.inducing_init, str)
    if given or parameters.likelihood != "gaussian" or (covariance and not covariance.is_fast):
        return False
    few = len(data.y) <= MIN_INDUCING or len(distinct(data.X)[0]) <= MIN_INDUCING
    return parameters.weighting == "posterior" or not few


def _score(model, theta, rows):
    return _log_density(model.sites.y[rows], *model.left_out(theta, rows))


def _score_of_inducing(parameters, state, rows):
    """As `_score`, of a process with inducing inputs that has learnt from other rows."""
    sites, theta = state.model.sites, state.theta
    n = min(len(rows) + _LEARNED_ROWS, len(sites.weight))
    known = sites.select(slice(len(rows), n))
    parameters = parameters._replace(
        kernel=state.model.covariance.at(theta), optimizer=None, normalize_y=False,
        n_particles=1, weighting="uniform", n_inducing=n_inducing("auto", sites.weight.sum()),
        random_state=parameters.random_state if isinstance(parameters.random_state, int) else 0,
    )  # fmt: skip
    zero = np.zeros(len(known.weight))
    fitted = update(
        parameters, None, Data(known.X, known.y, known.noise_variance, zero, known.weight)
    )
    return _score_of(fitted.model, theta, fitted.conditional(0), sites.select(rows))


def _score_of_both(parameters, state, rows):
    """As `_score`, of inducing inputs that have learnt from other rows, and all others as near."""
    sites, theta = state.model.sites, state.theta
    others = state.model.of(sites.select(slice(len(rows), None)))
    rng = as_generator(0)  # The rows are in random order.
    model = new_full_scale(parameters, others, theta, len(state.particles.theta), rng)
    n = min(_LEARNED_ROWS, len(others.sites.weight))
    block = sum(model.statistics(theta[None], None, batch) for batch in model.batches(n))
    return _score_of(model, theta, model.conditional(theta, block[0]), sites.select(rows))


def _score_of(model, theta, conditional, scored):
    mean, variance = model.predict(theta, conditional, scored.X)
    noise = model.covariance.noise(theta, scored.X) + scored.noise_variance
    return _log_density(scored.y, mean, variance + noise / scored.weight)


def _log_density(y, mean, variance):
    squares = ((y - mean) ** 2).mean(axis=1)
    return float(-0.5 * np.mean(np.log(variance) + squares / variance))
