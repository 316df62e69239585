"""Which approximation suits the rows: inducing inputs, or the nearest rows of each."""

import numpy as np

from skpmd._base.rows import distinct
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Data
from skpmd.sparse_gp._fit import fit, update
from skpmd.sparse_gp._hyperparameters import MIN_INDUCING, n_inducing
from skpmd.sparse_gp._vecchia_fit import fit_vecchia

# Predictions of so many rows are compared, and inducing inputs learn from so many others.
_SCORED_ROWS, _LEARNED_ROWS = 500, 10_000


def fit_chosen(parameters, data):
    """The state after a fit by the approximation that predicts some of the rows better.

    Up to a thousand distinct rows are inducing inputs, and the process is exact. With more,
    neighbours are tried first, and inducing inputs then under the kernel that was found so. They
    are taken if they predict as well from ten thousand rows as neighbours do from all.
    """
    inducing = parameters._replace(approximation="fitc")
    if not _may_have_neighbours(parameters, data):
        return fit(inducing, data)
    if parameters.weighting == "posterior":
        return fit_vecchia(parameters, data)
    state = fit_vecchia(parameters, data)
    rows = np.arange(min(_SCORED_ROWS, len(state.model.sites.weight) // 2))
    if _score_of_inducing(inducing, state, rows) < _score(state.model, state.theta, rows):
        return state
    # The search for inducing inputs starts from where that for neighbours has ended. Few neighbours
    # may take what is smooth for rough: RBF is then another candidate, and the evidence decides.
    covariance = state.model.covariance
    found = covariance.at(state.theta)
    candidates = [inducing._replace(kernel=found, n_restarts_optimizer=0)]
    if parameters.kernel is None and covariance.term(state.theta).shape:  # Not RBF.
        candidates.append(inducing)
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
    scored, kernel = sites.select(rows), fitted.particles.theta[0]
    mean, variance = fitted.model.predict(kernel, fitted.conditional(0), scored.X)
    noise = fitted.model.covariance.noise(kernel, scored.X) + scored.noise_variance
    return _log_density(scored.y, mean, variance + noise / scored.weight)


def _log_density(y, mean, variance):
    squares = ((y - mean) ** 2).mean(axis=1)
    return float(-0.5 * np.mean(np.log(variance) + squares / variance))
