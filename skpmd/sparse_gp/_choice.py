"""Which approximation suits the rows: inducing inputs, the nearest rows of each, or both."""

import operator
from operator import itemgetter

import numpy as np

from skpmd._base.utils import as_generator
from skpmd._rows.rows import distinct, merge_copies
from skpmd._runtime.call import phase, share_of_time, write
from skpmd._runtime.threads import each, summed
from skpmd.engine.loop import Stage, drive
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Data
from skpmd.sparse_gp._descent import SHARE, maximise_evidence
from skpmd.sparse_gp._evidence import log_marginal_likelihood
from skpmd.sparse_gp._fit import fit, fit_kernels, interrupted, update
from skpmd.sparse_gp._hyperparameters import MIN_INDUCING, n_inducing, n_particles
from skpmd.sparse_gp._vecchia_fit import (
    covariance_of,
    fit_vecchia,
    n_beside,
    new_full_scale,
    with_inducing,
    with_kernel,
)

# So many rows' predictions from all others are compared, a quarter of all at most, and fewer than
# the second number tell nothing. A row counts for no more than so many nats: where tails are heavy
# a few would decide, by chance.
_SCORED_ROWS, _FEWEST_SCORED, _LARGEST_GAIN = 4000, 30, 2.0
# Of the others inducing inputs learn from so many, and from so many with neighbours.
_LEARNED_ROWS, _LEARNED_WITH_NEAR = 10_000, 20_000
# Where inducing inputs alone are behind, both have so many of them at first; if both are not ahead
# so, but behind by no more than that, they have all.
_FEW_INDUCING, _MAY_BE_AHEAD = 1000, 0.01
# Evaluations of the evidence in the search for the kernel of inducing inputs, and the rows whose
# evidence spreads particles around its end.
_EVALUATIONS, _DRAWN_ROWS = 15, 1000
# Approximations are equal to so many digits of their gains, and are these, the cheapest first.
_DIGITS, _BY_COST = 3, ("vecchia", "fitc", "full_scale")
# Up to so many distinct rows the posterior of kernels is that of the exact process; of more rows
# than so many times that nobody asks how many are distinct.
_EXACT_ROWS, _MAX_COPIES = 500, 20
_CHOICE = "the choice of an approximation"  # What a limit of the time ends.
_ROUGH = 1  # Twice nu of the roughest Matern kernel.


def fit_chosen(parameters, data):
    """The state after a fit by the approximation that predicts some of the rows best.

    Up to a thousand distinct rows are inducing inputs, and the process is exact. With more,
    neighbours are tried first, and then, under the kernel that was found so, inducing inputs and
    both together. Unless both are ahead of neighbours, and inducing inputs are not, all but
    neighbours are tried under another kernel too.
    """
    if _is_exact(parameters, data):
        return fit_kernels(parameters, data)
    if not _may_have_neighbours(parameters, data):
        return fit(parameters.replaced(approximation="fitc"), data)
    if parameters.weighting == "posterior":
        return fit_vecchia(parameters, data)
    chosen = drive(_choices(parameters, data), what=_CHOICE)
    return interrupted(chosen.value) if chosen.interrupted else chosen.value


def _choices(parameters, data):
    """The state of neighbours with one kernel, and the state chosen, for `drive`."""
    one = parameters.replaced(n_particles=1)
    state = fit_vecchia(one, data)
    yield Stage(state)
    n = min(_SCORED_ROWS, len(state.model.sites.weight) // 4)
    if n < _FEWEST_SCORED:
        yield Stage(_with_particles(parameters, state))
        return
    write(f"approximations: compared on {n} rows")
    near = _of_near(state, n)

    def ahead(densities_of, *args):
        """By how many nats a row, on average, a process is ahead of neighbours."""
        try:
            with np.errstate(all="ignore"):  # What overflows has no gain, and is not taken.
                gains = densities_of(parameters, *args) - near
        except np.linalg.LinAlgError:  # Not every kernel has inducing inputs.
            return -np.inf
        gain = float(np.clip(gains, -_LARGEST_GAIN, _LARGEST_GAIN).mean())
        return gain if np.isfinite(gain) else -np.inf

    inducing = ahead(_of_inducing, state, n)
    is_smooth = inducing > 0.0
    both = _both_ahead(ahead, parameters, state, n, is_smooth)
    found = [(0.0, "vecchia", state), (inducing, "fitc", state), (both, "full_scale", state)]
    other = None if both > 0.0 > inducing else _under_another_kernel(one, state, is_smooth)
    if other is not None:
        found.append((_both_ahead(ahead, parameters, other, n, is_smooth), "full_scale", other))
        if is_smooth:
            found.append((ahead(_of_inducing, other, n), "fitc", other))
    yield Stage(_best_of(parameters, found, data))


def _both_ahead(ahead, parameters, state, n, has_all):
    """What both inducing inputs and neighbours are ahead by, in nats a row.

    Unless it ``has_all`` of them there are few inducing inputs where that tells enough.
    """
    m = 1 if parameters.n_particles == "auto" else parameters.n_particles
    most = n_beside(len(state.model.sites.weight), m)
    if most > _FEW_INDUCING and not has_all:
        found = ahead(_of_both, state, n, _FEW_INDUCING)
        if found > 0.0 or found < -_MAY_BE_AHEAD:
            return found
    return ahead(_of_both, state, n, most)


def _best_of(parameters, found, data):
    """The state of the first of [(gain, approximation, state), ...] by gain that can be fitted.

    Of equal ones it is the one with the cheapest predictions: inducing inputs that are all rows
    need no neighbours.
    """
    order = sorted(found, key=lambda one: (-round(one[0], _DIGITS), _BY_COST.index(one[1])))
    for _, approximation, state in order:
        if approximation == "vecchia":
            return _with_particles(parameters, state)
        try:
            if approximation == "fitc":
                return _fit_inducing(parameters, state, data)
            return _with_both(parameters, state)
        except np.linalg.LinAlgError:
            continue


def _with_both(parameters, state):
    """The state with inducing inputs beside neighbours, one particle unless a number is given."""
    if parameters.n_particles != "auto":
        state = _with_particles(parameters, state)
    return with_inducing(parameters, state)


def _with_particles(parameters, state):
    """The state of neighbours with all particles: none of them has a part in the choice."""
    return with_kernel(parameters, state, state.model.covariance, state.theta)


@phase("another kernel")
def _under_another_kernel(parameters, state, is_smooth):
    """The state under the kernel of the largest exact evidence of some rows, or None.

    The search starts where that for neighbours has ended. Few of these may take what is smooth for
    rough: where it ``is_smooth``, for inducing inputs are better, RBF is the other candidate for
    the default kernel. Where it is not, inducing inputs may carry the smooth part of what is rough,
    and neighbours the rest: the default kernel is the roughest one.
    """
    covariance, theta, sample = state.model.covariance, state.theta, state.sample
    optimizer, is_default = parameters.search.optimizer, parameters.search.kernel is None
    shape, n = covariance.term(theta).shape, len(state.model.sites.weight)
    if optimizer is None or not len(theta):
        return None
    candidates = [covariance]
    if is_smooth and is_default and shape:  # Not RBF.
        candidates.append(covariance_of(None, sample, np.inf, n))
    elif not is_smooth:
        if not is_default or callable(optimizer) or shape == _ROUGH:
            return None
        candidates = [covariance_of(None, sample, 0.5 * _ROUGH, n)]
    write(f"kernel: search by the evidence of {len(sample.y)} rows")

    def ended(one):
        end = maximise_evidence(
            one, sample, optimizer, 0, None, np.clip(theta, *one.kernel.bounds.T), _EVALUATIONS
        )
        return log_marginal_likelihood(one, end, sample, gradient=False), (one, end)

    with share_of_time(SHARE):
        _, (covariance, theta) = max(each(ended, candidates), key=itemgetter(0))
    return with_kernel(parameters, state, covariance, theta)


def _fit_inducing(parameters, state, data):
    """The state of inducing inputs under a kernel that is found already."""
    kernel = state.model.covariance.at(state.theta)
    n_stored = n_inducing("auto", data.weight.sum()) ** 2
    m = n_particles(parameters, kernel, len(state.model.sites.weight), n_stored)
    n = min(parameters.search.n_subset, _DRAWN_ROWS)
    known = parameters.replaced(
        approximation="fitc", kernel=kernel, optimizer=None, n_particles=m, n_subset=n
    )
    return fit(known, data)


def _may_have_neighbours(parameters, data):
    kernel = parameters.search.kernel
    if parameters.form.is_given or parameters.likelihood != "gaussian":
        return False
    if kernel is not None and not KernelCovariance(kernel).is_fast:
        return False
    few = len(data.y) <= MIN_INDUCING or len(distinct(data.X)[0]) <= MIN_INDUCING
    return parameters.weighting == "posterior" or not few


def _is_exact(parameters, data):
    """Whether the posterior of kernels is that of the exact process: rows are few."""
    if parameters.weighting != "posterior" or parameters.form.is_given:
        return False
    if len(data.y) > _MAX_COPIES * _EXACT_ROWS:
        return False
    places, _ = merge_copies(data.weight, data.X, data.y, data.noise_variance + data.alpha)
    return len(places) <= _EXACT_ROWS


def _of_near(state, n):
    """Log densities of the first n rows given their neighbours.

    They are the mean of those given all rows, and given the others alone, which is what inducing
    inputs can learn from. The first alone would favour neighbours, and the second what is compared
    with them: it is ahead by less where rows are more.
    """
    (scored, others), theta = _parted(state, n), state.theta
    of_all = state.model.log_density_left_out(theta, np.arange(n)) / state.model.n_targets
    return 0.5 * (of_all + _log_densities(others, theta, others.conditional(theta, None), scored))


@phase("comparison with inducing inputs")
def _of_inducing(parameters, state, n):
    """Log densities of the first n rows by inducing inputs that have learnt from others."""
    sites, theta = state.model.sites, state.theta
    scored, known = sites.select(slice(n)), sites.select(slice(n, n + _LEARNED_ROWS))
    parameters = parameters.replaced(
        approximation="fitc", kernel=state.model.covariance.at(theta), optimizer=None,
        normalize_y=False, n_particles=1, weighting="uniform",
        n_inducing=n_inducing("auto", sites.weight.sum()),
        random_state=parameters.random_state if isinstance(parameters.random_state, int) else 0,
    )  # fmt: skip
    zero = np.zeros(len(known.weight))
    fitted = update(
        parameters, None, Data(known.X, known.y, known.noise_variance, zero, known.weight)
    )
    return _log_densities(fitted.model, theta, fitted.conditional(0), scored)


@phase("comparison with both")
def _of_both(parameters, state, n, m):
    """As `_of_inducing`, of m inducing inputs, and all others as near rows."""
    theta, (scored, others) = state.theta, _parted(state, n)
    rng = as_generator(0)  # The rows are in random order.
    model = new_full_scale(parameters.replaced(n_inducing=m), others, theta, 1, rng)
    n_learned = min(_LEARNED_WITH_NEAR, len(others.sites.weight))

    def of(batch):
        return model.statistics(theta[None], None, batch)

    block = summed(of, model.batches(n_learned), operator.add)
    return _log_densities(model, theta, model.conditional(theta, block[0]), scored)


def _parted(state, n):
    """The first n rows, and the process by neighbours of all others."""
    sites = state.model.sites
    return sites.select(slice(n)), state.model.of(sites.select(slice(n, None)))


def _log_densities(model, theta, conditional, scored):
    """Log densities of a row's targets, on average over these, (n,)."""
    mean, variance = model.predict(theta, conditional, scored.X)
    noise = model.covariance.noise(theta, scored.X) + scored.noise_variance
    variance = variance + noise / scored.weight
    squares = ((scored.y - mean) ** 2).mean(axis=1)
    return -0.5 * (np.log(2.0 * np.pi * variance) + squares / variance)
