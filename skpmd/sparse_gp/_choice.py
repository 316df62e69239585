"""Which approximation suits the rows: inducing inputs, the nearest rows of each, or both."""

from operator import itemgetter

import numpy as np

from skpmd._base.progress import write_line
from skpmd._base.rows import distinct
from skpmd._base.utils import as_generator
from skpmd.engine.threads import each
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Data
from skpmd.sparse_gp._exact_evidence import log_marginal_likelihood, maximise_evidence
from skpmd.sparse_gp._fit import fit, update
from skpmd.sparse_gp._full_scale_fit import n_beside, new_full_scale, with_inducing
from skpmd.sparse_gp._hyperparameters import (
    MIN_INDUCING,
    default_kernel,
    n_inducing,
    n_particles,
)
from skpmd.sparse_gp._vecchia_fit import fit_vecchia, with_kernel

# Predictions of so many rows, a quarter of all at most, are compared. A row counts for no more than
# so many nats: where tails are heavy a few would decide, by chance. Inducing inputs learn from so
# many others, and from so many with neighbours.
_SCORED_ROWS, _LARGEST_GAIN, _LEARNED_ROWS, _LEARNED_WITH_NEAR = 4000, 2.0, 10_000, 20_000
# Where inducing inputs alone are behind, both have so many of them at first, and all where the gain
# is no larger than that.
_FEW_INDUCING, _CLEAR_GAIN = 1000, 0.01
# Evaluations of the evidence in the search for the kernel of inducing inputs, and the rows whose
# evidence spreads particles around its end.
_EVALUATIONS, _DRAWN_ROWS = 15, 1000
_ROUGH = 1  # Twice nu of the roughest Matern kernel.


def fit_chosen(parameters, data):
    """The state after a fit by the approximation that predicts some of the rows best.

    Up to a thousand distinct rows are inducing inputs, and the process is exact. With more,
    neighbours are tried first, and then, under the kernel that was found so, inducing inputs and
    both together; if both are not the best so, also under another kernel. These learn from no more
    than twenty thousand rows for it.
    """
    inducing = parameters._replace(approximation="fitc")
    if not _may_have_neighbours(parameters, data):
        return fit(inducing, data)
    if parameters.weighting == "posterior":
        return fit_vecchia(parameters, data)
    one = parameters._replace(n_particles=1)
    state = fit_vecchia(one, data)
    rows = np.arange(min(_SCORED_ROWS, len(state.model.sites.weight) // 4))
    write_line(f"approximations: compared on {len(rows)} rows", parameters.verbose)
    near = _of_near(state, rows)

    def gain(densities):
        """By how many nats a row these are ahead of those given neighbours."""
        return float(np.clip(densities - near, -_LARGEST_GAIN, _LARGEST_GAIN).mean())

    few = gain(_of_inducing(inducing, state, rows))

    def gain_of_both(state):
        n = n_beside(len(state.model.sites.weight), n_particles=1)
        if few < 0.0 and n > _FEW_INDUCING:
            found = gain(_of_both(parameters, state, rows, _FEW_INDUCING))
            if abs(found) > _CLEAR_GAIN:
                return found
        return gain(_of_both(parameters, state, rows, n))

    both = gain_of_both(state)
    if both > 0.0 > few:
        return _with_both(parameters, state)
    kernels = _other_kernels(parameters, state, is_near=few < 0.0)
    if not kernels:
        return _with_particles(parameters, state)
    covariance, theta = _best_kernel(parameters, state, kernels)
    other = with_kernel(one, state, covariance, theta)
    together = gain_of_both(other)
    if few > 0.0:
        few = gain(_of_inducing(inducing, other, rows))
    if max(few, both, together) < 0.0:
        return _with_particles(parameters, state)
    if few > max(both, together):
        return _fit_inducing(inducing, covariance.at(theta), state, data)
    return _with_both(parameters, state if both > together else other)


def _with_both(parameters, state):
    """The state with inducing inputs beside neighbours, one particle unless a number is given."""
    if parameters.n_particles != "auto":
        state = _with_particles(parameters, state)
    return with_inducing(parameters, state)


def _with_particles(parameters, state):
    """The state of neighbours with all particles: none of them has a part in the choice."""
    return with_kernel(parameters, state, state.model.covariance, state.theta)


def _other_kernels(parameters, state, is_near):
    """Covariances that inducing inputs may have in place of that of neighbours.

    Few neighbours may take what is smooth for rough: where inducing inputs are better than these,
    RBF is the other candidate for the default kernel. Where they are not, inducing inputs may have
    the smooth part of what is rough, and neighbours the rest.
    """
    is_default, shape = parameters.kernel is None, state.model.covariance.term(state.theta).shape
    if not is_near:
        rbf = [KernelCovariance(default_kernel(state.sample))] if is_default and shape else []
        return [state.model.covariance, *rbf]
    if not is_default or parameters.optimizer is None or shape == _ROUGH:
        return []
    return [KernelCovariance(default_kernel(state.sample, nu=0.5 * _ROUGH))]


def _best_kernel(parameters, state, candidates):
    """Covariance and hyperparameters of the largest exact evidence of some rows.

    The search starts where that for neighbours has ended.
    """
    theta, sample, optimizer = state.theta, state.sample, parameters.optimizer
    if optimizer is None or not len(theta):
        return candidates[0], theta
    write_line(f"kernel: search by the evidence of {len(sample.y)} rows", parameters.verbose)

    def ended(one):
        end = maximise_evidence(
            one, sample, optimizer, 0, None, np.clip(theta, *one.kernel.bounds.T), _EVALUATIONS
        )
        return log_marginal_likelihood(one, end, sample, gradient=False), (one, end)

    return max(each(ended, candidates), key=itemgetter(0))[1]


def _fit_inducing(parameters, kernel, state, data):
    """The state of inducing inputs under a kernel that is found already."""
    n_held = n_inducing("auto", data.weight.sum()) ** 2
    m = n_particles(parameters, kernel, len(state.model.sites.weight), n_held)
    n = min(parameters.n_subset, _DRAWN_ROWS)
    known = parameters._replace(kernel=kernel, optimizer=None, n_particles=m, n_subset=n)
    return fit(known, data)


def _may_have_neighbours(parameters, data):
    covariance = KernelCovariance(parameters.kernel) if parameters.kernel is not None else None
    given = parameters.n_inducing != "auto" or not isinstance(parameters.inducing_init, str)
    if given or parameters.likelihood != "gaussian" or (covariance and not covariance.is_fast):
        return False
    few = len(data.y) <= MIN_INDUCING or len(distinct(data.X)[0]) <= MIN_INDUCING
    return parameters.weighting == "posterior" or not few


def _of_near(state, rows):
    """Log densities of some rows given their neighbours among all others."""
    return _log_densities(state.model.sites.y[rows], *state.model.left_out(state.theta, rows))


def _of_inducing(parameters, state, rows):
    """As `_of_near`, of a process with inducing inputs that has learnt from other rows."""
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
    return _log_densities_of(fitted.model, theta, fitted.conditional(0), sites.select(rows))


def _of_both(parameters, state, rows, n_inducing):
    """As `_of_near`, of inducing inputs that have learnt from others, and these others as near."""
    sites, theta = state.model.sites, state.theta
    others = state.model.of(sites.select(slice(len(rows), None)))
    rng = as_generator(0)  # The rows are in random order.
    parameters = parameters._replace(n_inducing=n_inducing)
    model = new_full_scale(parameters, others, theta, len(state.particles.theta), rng)
    n = min(_LEARNED_WITH_NEAR, len(others.sites.weight))
    block = sum(model.statistics(theta[None], None, batch) for batch in model.batches(n))
    return _log_densities_of(model, theta, model.conditional(theta, block[0]), sites.select(rows))


def _log_densities_of(model, theta, conditional, scored):
    mean, variance = model.predict(theta, conditional, scored.X)
    noise = model.covariance.noise(theta, scored.X) + scored.noise_variance
    return _log_densities(scored.y, mean, variance + noise / scored.weight)


def _log_densities(y, mean, variance):
    squares = ((y - mean) ** 2).mean(axis=1)
    return -0.5 * (np.log(variance) + squares / variance)
