"""Which approximation suits the rows: inducing inputs, the nearest rows of each, or both."""

from functools import partial
from operator import itemgetter

import numpy as np

from skpmd._base.utils import as_generator
from skpmd._rows.rows import distinct, merge_copies
from skpmd._runtime.call import phase, share_of_time, write
from skpmd._runtime.threads import each
from skpmd.engine.loop import Stage, drive
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Data, take
from skpmd.sparse_gp._evidence import (
    SHARE,
    descended,
    log_marginal_likelihood,
    objective_of,
    searched,
)
from skpmd.sparse_gp._fit import fit_inducing, fit_kernels, interrupted, update_inducing
from skpmd.sparse_gp._hyperparameters import MIN_INDUCING
from skpmd.sparse_gp._model import NEAR
from skpmd.sparse_gp._vecchia_fit import (
    covariance_of,
    fit_near,
    n_beside,
    new_full_scale,
    update_near,
    with_inducing,
    with_kernel,
)

# So many rows' predictions from all others are compared, a quarter of all at most, and fewer than
# the second number tell nothing. A row counts for no more than so many nats: where tails are heavy
# a few would decide, by chance.
_SCORED_ROWS, _FEWEST_SCORED, _LARGEST_GAIN = 2000, 30, 2.0
# Of the others inducing inputs learn from so many, and from so many with neighbours: of fewer they
# would not learn what many rows together tell through noise.
_LEARNED_ROWS, _LEARNED_WITH_NEAR = 8000, 16_000
# So many inducing inputs are compared alone, and so many with neighbours; where those are not
# ahead, but behind by less than so many nats, there are as many as alone.
_COMPARED_INDUCING, _FEW_INDUCING, _OPEN = 1000, 500, 0.002
# Both together have to be ahead of either by so many nats a row: they cost.
_MIN_LEAD = 0.001
# Where inducing inputs cost neighbours more than so many nats their kernel is at fault.
_SPOILED = 0.03
# Beside neighbours so many numbers, rows times the square of inducing inputs, are worth their time.
_MAX_WORK = 4e10
_DRAWN_ROWS = 1000  # Rows whose evidence spreads particles of inducing inputs.
# The search for the kernel of inducing inputs: evaluations of the evidence of so many rows, and
# those of all rows of the sample, with the curvature that the first have found.
_EVALUATIONS, _FEW_ROWS, _MORE_EVALUATIONS, _MIN_GAIN = 15, 1000, 5, 0.1
# Approximations are equal to so many digits of their gains, and are these, the cheapest first.
_DIGITS, _BY_COST = 3, ("vecchia", "fitc", "full_scale")
# Up to so many distinct rows the posterior of kernels is that of the exact process; of more rows
# than so many times that nobody asks how many are distinct.
_EXACT_ROWS, _MAX_COPIES = 500, 20
_CHOICE = "the choice of an approximation"  # What a limit of the time ends.
_ROUGH = 1  # Twice nu of the roughest Matern kernel.


def update(parameters, state, data):
    """The state after one call's rows of a stream; None stands for no rows before."""
    is_near = parameters.form.approximation in NEAR
    return (update_near if is_near else update_inducing)(parameters, state, data)


def fit(parameters, data):
    """The state after a fit, by "auto" with the approximation that predicts some rows best.

    Up to a thousand distinct rows are inducing inputs, and the process is exact. With more,
    neighbours come first, and then, under the kernel that was found so, few inducing inputs alone
    and, unless these are ahead, both together. Where inducing inputs are ahead, or spoil what
    neighbours say, these are tried under another kernel too. What is taken is fitted at the end.
    """
    if parameters.form.approximation != "auto":
        is_near = parameters.form.approximation in NEAR
        return (fit_near if is_near else fit_inducing)(parameters, data)
    if _is_exact(parameters, data):
        return fit_kernels(parameters, data)
    if not _may_have_neighbours(parameters, data):
        return fit_inducing(parameters.replaced(approximation="fitc"), data)
    if parameters.weighting == "posterior":
        return fit_near(parameters, data)
    chosen = drive(_choices(parameters, data), what=_CHOICE)
    return interrupted(chosen.value) if chosen.interrupted else chosen.value


def _choices(parameters, data):
    """The state of neighbours with one kernel, and the state chosen, for `drive`."""
    one = parameters.replaced(n_particles=1)
    state = fit_near(one, data)
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

    alone = ahead(_of_inducing, state, n)
    is_smooth = alone > 0.0
    found = [(0.0, "vecchia", state), (alone, "fitc", state)]
    if not is_smooth:
        found.append((_both_ahead(ahead, state, n), "full_scale", state))
    if is_smooth or found[-1][0] < -_SPOILED:
        other = _under_another_kernel(one, state, is_smooth)
        if other is not None and is_smooth:
            found.append((ahead(_of_inducing, other, n), "fitc", other))
        best = max(found[1:], key=itemgetter(0))[2] if is_smooth else other
        if best is not None:  # Both have the kernel that suits inducing inputs.
            found.append((_both_ahead(ahead, best, n), "full_scale", best))
    yield Stage(_best_of(parameters, found, data))


def _both_ahead(ahead, state, n):
    """What both inducing inputs and neighbours are ahead by, in nats a row.

    There are few inducing inputs where that tells enough.
    """
    found = ahead(_of_both, state, n, _FEW_INDUCING)
    if -_OPEN < found <= _MIN_LEAD:
        found = max(found, ahead(_of_both, state, n, _COMPARED_INDUCING))
    return found - _MIN_LEAD


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
    n, m = len(state.model.sites.weight), 1
    if parameters.n_particles != "auto":
        state, m = _with_particles(parameters, state), parameters.n_particles
    most = min(int(np.sqrt(_MAX_WORK / n)), n_beside(n, m))
    return with_inducing(parameters.replaced(n_inducing=most), state)


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
        candidates.append(covariance_of(parameters.search, sample, np.inf, n))
    elif not is_smooth:
        if not is_default or callable(optimizer) or shape == _ROUGH:
            return None
        candidates = [covariance_of(parameters.search, sample, 0.5 * _ROUGH, n)]
    write(f"kernel: search by the evidence of {len(sample.y)} rows")
    few = sample if callable(optimizer) else take(sample, _FEW_ROWS, as_generator(0))

    def ended(one, some=few, start=theta, n_evaluations=_EVALUATIONS, curvature=None):
        bounds = one.kernel.bounds
        objective = objective_of(partial(log_marginal_likelihood, one, sample=some))
        start = np.clip(start, *bounds.T)
        if callable(optimizer):
            return one, searched(lambda timed: optimizer(timed, start, bounds=bounds), objective)
        least = None if curvature is None else _MIN_GAIN
        return one, descended(objective, start, bounds, n_evaluations, least, curvature)

    with share_of_time(SHARE):
        covariance, end = min(each(ended, candidates), key=lambda found: found[1].value)
        curvature = end.inverse_hessian  # None where time is over.
        if is_smooth and len(few.y) < len(sample.y) and curvature is not None:
            curvature = curvature * (len(few.y) / len(sample.y))
            _, end = ended(covariance, sample, end.theta, _MORE_EVALUATIONS, curvature)
    return with_kernel(parameters, state, covariance, np.asarray(end.theta, dtype=np.float64))


def _fit_inducing(parameters, state, data):
    """The state of inducing inputs under a kernel that is found already."""
    kernel = state.model.covariance.at(state.theta)
    m = 1 if parameters.n_particles == "auto" else parameters.n_particles
    n = min(parameters.search.n_subset, _DRAWN_ROWS)
    known = parameters.replaced(
        approximation="fitc", kernel=kernel, optimizer=None, n_particles=m, n_subset=n
    )
    return fit_inducing(known, data)


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
        n_inducing=_COMPARED_INDUCING,
        random_state=parameters.random_state if isinstance(parameters.random_state, int) else 0,
    )  # fmt: skip
    zero = np.zeros(len(known.weight))
    fitted = update_inducing(
        parameters, None, Data(known.X, known.y, known.noise_variance, zero, known.weight)
    )
    return _log_densities(fitted.model, theta, fitted.conditional(0), scored)


@phase("comparison with both")
def _of_both(parameters, state, n, m):
    """As `_of_inducing`, of m inducing inputs, and all others as near rows."""
    theta, (scored, others) = state.theta, _parted(state, n)
    rng = as_generator(0)  # The rows are in random order.
    m = min(m, n_beside(len(state.model.sites.weight), 1))
    model = new_full_scale(parameters.replaced(n_inducing=m), others, theta, 1, rng)
    n_learned = min(_LEARNED_WITH_NEAR, len(others.sites.weight))

    block = model.statistics(theta[None], None, model.all_rows(n_learned))
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
