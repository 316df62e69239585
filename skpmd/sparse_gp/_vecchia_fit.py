"""Fits of a process whose rows are conditioned on neighbours, with inducing inputs or without."""

import copy

import numpy as np
from scipy.stats import norm

from skpmd._base.retained import RetainedRows, left_of_past
from skpmd._base.steps import Records, Stream, bar_of_rounds
from skpmd._base.utils import as_generator
from skpmd._runtime.call import phase, share_of_time, write
from skpmd.engine import mirror
from skpmd.engine.loop import drive, stage
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, equal_log_weights, stacked
from skpmd.sparse_gp._data import Population, Sample, ScaledRows, Scaler, take
from skpmd.sparse_gp._descent import SHARE
from skpmd.sparse_gp._evidence import left_out
from skpmd.sparse_gp._fit import MIN_SCORED, GPState, with_results
from skpmd.sparse_gp._full_scale import FullScaleGP
from skpmd.sparse_gp._hyperparameters import FEW_ROWS, check_kernel, n_particles, new_covariance
from skpmd.sparse_gp._hyperprior import HyperPrior, draw_around, resampled
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._kernel_posterior import exact_findings, states_by_neighbours
from skpmd.sparse_gp._vecchia import Sites, VecchiaGP
from skpmd.sparse_gp._vecchia_evidence import best_kernel, some_rows

# The step that records a fit takes so many rows, with one particle as few as those whose
# predictions weigh particles in stacking.
_WEIGHED_ROWS, _SCORED_ROWS = 8000, 1000
# Intervals of this level for so many rows, from all others, are held against their targets; where
# they hold a smaller share a warning follows.
_CHECKED_ROWS, _MIN_CHECKED, _LEVEL, _MIN_COVERAGE = 500, 30, 0.9, 0.75
# The default kernel has one of these shapes, which the likelihood chooses; the second is one of the
# rough ones. Its shortest length scales, in units of where they start, are this over the number of
# rows: few show no fine detail.
_SHAPES, _DETAIL, _SHORTEST = (np.inf, 1.5, 2.5, 0.5), 10.0, (1e-4, 1e-2)
# Nor do few rows show that there is no noise: a thousand allow the larger of these parts of the
# variance, and more a part that falls with the sixth power of their number, to the smaller one.
_NOISE_BOUNDS = 4e-10, 1e-6
_ENOUGH = 1000  # A kernel that was fitted to fewer distinct rows is searched for anew.


def fit_vecchia(parameters, data):
    """The state after a fit to all rows."""
    rng = as_generator(parameters.random_state)
    scaler = Scaler.fit(data.y, data.weight, parameters.normalize_y, robust=False)
    rows = ScaledRows(data, scaler, parameters.batch_size)
    sample = take(Population(rows), parameters.search.n_subset, rng)
    retained = _chosen(parameters, RetainedRows(_sites_of(rows)), rng)
    return _fitted(parameters, retained, scaler, sample, rows.total, rng)


def update_vecchia(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room.

    The kernel is fitted anew, from where it was, whenever there are twice as many distinct rows as
    when it was last.
    """
    if state is None:
        return fit_vecchia(parameters, data)
    size, seen = data.weight.sum(), state.stream.seen
    left = left_of_past(parameters.options, seen, size)
    if left is None:
        return state  # A second pass: all rows are known.
    rng, scaler, seen = copy.deepcopy(state.stream.rng), state.scaler, seen + size
    before = state.retained.discounted(left)
    before = before._replace(rows=before.rows._replace(squares=left * before.rows.squares))
    more = RetainedRows(_sites_of(ScaledRows(data, scaler, parameters.batch_size)))
    retained = _chosen(parameters, before.joined(more), rng)
    sites = retained.rows
    if retained.n_rows < 2 * state.n_fitted:
        stream = state.stream._replace(rng=rng, seen=seen)
        return state._replace(model=state.model.of(sites), stream=stream, retained=retained)
    y = scaler.inverse_transform(sites.y)
    new = Scaler.fit(y, sites.weight, parameters.normalize_y, robust=False)
    ratio = float(np.mean((scaler.scale / new.scale) ** 2))
    # Noise alpha is that of the scaled y, whatever its scale; of some calls it may have been less.
    alpha = np.minimum(sites.noise_variance, state.alpha)
    sites = sites._replace(
        y=new.transform(y),
        noise_variance=ratio * (sites.noise_variance - alpha) + alpha,
        squares=ratio * sites.squares,
    )
    sample = take(Sample(*sites[:4]), parameters.search.n_subset, rng)
    after = _fitted(parameters, retained._replace(rows=sites), new, sample, seen, rng, state)
    records = state.stream.records.joined(after.stream.records)
    return after._replace(stream=after.stream._replace(records=records))


def _sites_of(rows):
    X, y, weight, noise, *_ = rows.take(slice(None))
    return Sites(X, y, noise, weight, np.zeros(len(weight)))


def _chosen(parameters, retained, rng):
    """As many of the distinct `Sites` as may be retained, in random order."""
    retained = retained.merged(Sites.merged).sampled(parameters.form.reservoir_size)
    return retained.select(rng.permutation(retained.n_rows))


def _fitted(parameters, retained, scaler, sample, seen, rng, before=None):
    """The state of a kernel fitted to some rows; ``before`` is that of a stream so far, or None."""
    sites = retained.rows
    search, n = parameters.search, len(sites.weight)
    shapes = _SHAPES if search.kernel is None else _SHAPES[:1]
    covariances = [covariance_of(search, sample, nu, n) for nu in shapes]
    covariance = covariances[0] if before is None else before.model.covariance
    if not covariance.is_fast:
        raise ValueError(
            "approximation='vecchia' takes constants times an RBF or a Matern kernel (nu of 0.5, "
            f"1.5, 2.5 or inf), and WhiteKernels beside them; kernel is {covariance.kernel}: set "
            "approximation='fitc'."
        )
    check_kernel(covariance, sample, parameters.likelihood, parameters.weighting)
    start = None
    if before is not None and before.n_fitted >= _ENOUGH:
        covariances, start = [covariance], before.theta
    with share_of_time(SHARE):

        def best():
            found, theta = best_kernel(parameters, covariances, sites, sample, rng, start)
            return [one is found for one in covariances].index(True), theta

        place, theta = stage(best, rng)
        covariance = covariances[place]
    state = GPState(
        model=VecchiaGP(covariance, None, sites, np.ones(sites.X.shape[1])),
        scaler=scaler,
        sample=sample,
        theta=theta,
        stream=Stream(None, None, Records(), seen, rng),
        log_weights=None,
        alpha=float(parameters.alpha) if np.ndim(parameters.alpha) == 0 else 0.0,
        n_fitted=len(sites.weight),
        retained=retained,
    )
    return with_kernel(parameters, state, covariance, theta)


def covariance_of(search, sample, nu, n):
    """The covariance of the user's kernel, or the default one of a shape for n distinct rows."""
    shortest = float(np.clip(_DETAIL / n, *_SHORTEST))
    min_noise = float(np.clip(_NOISE_BOUNDS[1] * (_ENOUGH / n) ** 6, *_NOISE_BOUNDS))
    return new_covariance(search, sample, nu=nu, shortest=shortest, min_noise=min_noise)


def with_kernel(parameters, state, covariance, theta):
    """The state of the same rows under the best hyperparameters of a kernel, with particles."""
    prior = HyperPrior(covariance.kernel, parameters.search.hyperprior)
    metric = covariance.term(theta).length_scale
    model = VecchiaGP(covariance, prior, state.model.sites, metric, parameters.form.n_neighbors)
    return _with_particles(parameters, state._replace(model=model, theta=theta))


def _with_particles(parameters, state):
    """The state with particles, their weights and the results."""
    n, theta, rng, outcome = len(state.model.sites.weight), state.theta, state.stream.rng, None
    m = n_particles(parameters, state.model.covariance.kernel, n, n)
    if parameters.weighting == "posterior":
        with bar_of_rounds() as report:
            outcome = drive(states_by_neighbours(state.model, np.arange(n), theta, m, rng), report)
        positions = resampled(outcome.particles, m, rng)
    else:
        positions = _drawn(parameters, state.model, theta, m, rng)
    rows = some_rows(n, _WEIGHED_ROWS if len(positions) > 1 else _SCORED_ROWS, rng)
    batch = Batch(None, None, np.ones(len(rows)), place=rows)
    zero, no_block = np.zeros(len(positions)), np.empty((len(positions), 0))
    still = mirror.Settings(rejuvenation="never")
    particles, info = mirror.step(
        Particles(positions, zero, zero, zero, no_block), state.model, (batch,), 1.0,
        n / len(rows), still, rng,
    )  # fmt: skip
    infos = [info] if outcome is None else outcome.infos
    stream = state.stream._replace(particles=particles, records=Records().extended(infos))
    log_weights = equal_log_weights(len(positions))
    scored = some_rows(n, _SCORED_ROWS, rng)
    enough = len(scored) >= MIN_SCORED * len(positions)
    if parameters.weighting == "stacking" and enough and len(positions) > 1:
        log_weights = _stacked(state.model, positions, scored)
    return with_results(state._replace(stream=stream, log_weights=log_weights), outcome)


def _drawn(parameters, model, theta, m, rng):
    """The best hyperparameters and draws around them, given some rows; shape (m, d)."""
    rows = some_rows(len(model.sites.weight), parameters.search.n_subset if m > 1 else 0, rng)
    batch = Batch(None, None, np.ones(len(rows)), place=rows)

    def evidence(one, gradient):
        if gradient:
            return model.gradient(one, rows, batch.weight)
        return model.log_likelihood(one[None], batch)[0]

    return draw_around(evidence, model.covariance.kernel.bounds, model.prior, theta, m, rng)


@phase("weights of particles")
def _stacked(model, positions, rows):
    """Log weights of particles by their predictions of some rows from all others."""
    scores = np.array([model.log_density_left_out(one, rows) for one in positions])
    return stacked(scores.T, model.sites.weight[rows], tol=-np.inf, dtype=np.float64)


def posterior_findings(state):
    """Sentences where the posterior of kernels by neighbours is not that of the exact process."""
    model, sample = state.model, state.sample
    if not isinstance(model, VecchiaGP) or not np.isclose(
        sample.weight.sum(), model.sites.weight.sum()
    ):
        return []
    return exact_findings(model, state.particles.theta, sample)


def left_out_findings(state):
    """Sentences where rows are further from what all others say of them than they should be.

    With neighbours that is said by the best particle, and of few rows by the average over all.
    """
    model = getattr(state.model, "rows", state.model)  # Inducing inputs have no part in it.
    if isinstance(model, VecchiaGP):
        n = len(model.sites.weight)
        rows = np.arange(min(n, _CHECKED_ROWS))  # Rows are in random order.
        found = [model.left_out(state.particles.theta[state.best], rows)] if len(rows) else []
        y, remedy = model.sites.y[rows], "n_restarts_optimizer or n_neighbors"
    else:
        n, y, remedy = len(state.sample.weight), state.sample.y, "n_restarts_optimizer"
        if model.df is not None or not n == state.n_fitted <= FEW_ROWS or n < _MIN_CHECKED:
            return []
        found = [left_out(model.covariance, one, state.sample) for one in state.particles.theta]
        found = [one for one in found if one is not None]
    if n < _MIN_CHECKED or not found:
        return []
    below = np.mean([norm.cdf((y - m) / np.sqrt(v)[:, None]) for m, v in found], axis=0)
    # Targets have one noise in common, so that each is asked for by itself.
    coverage = (np.abs(below - 0.5) < 0.5 * _LEVEL).mean(axis=0).min()
    if coverage >= _MIN_COVERAGE:
        return []
    return [
        f"intervals of {_LEVEL:.0%} for rows, given all others, hold {coverage:.0%} of them: the "
        f"kernel does not suit the rows. Give another kernel, or raise {remedy}."
    ]


# Neighbours of a prediction by default: fewer than where there are no inducing inputs.
_N_PREDICTION = 50
# Inducing inputs by default: this share of the rows, inside these numbers, and fewer where rows are
# many, so that no more numbers are held in memory.
_SHARE, _MIN_INDUCING, _MAX_INDUCING, _FEWEST, _MAX_NUMBERS = 0.4, 1000, 3000, 100, 1 << 25


def fit_full_scale(parameters, data):
    """The state after a fit to all rows; the kernel is that of neighbours."""
    parameters = _with_number(parameters)
    return with_inducing(parameters, fit_vecchia(parameters, data))


def update_full_scale(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room."""
    if state is None:
        return fit_full_scale(parameters, data)
    before = state._replace(model=state.model.rows)
    after = update_vecchia(parameters, before, data)
    return state if after is before else with_inducing(parameters, after)


@phase("pass with inducing inputs")
def with_inducing(parameters, state):
    """The state of a process by neighbours, with inducing inputs: one pass over its rows."""
    positions, rng = state.particles.theta, state.stream.rng
    model = new_full_scale(parameters, state.model, state.theta, len(positions), rng)
    write(f"one pass with {model.n_inducing} inducing inputs")
    particles = state.particles._replace(block=model.prior_block(positions))
    still = mirror.Settings(rejuvenation="never")
    particles, _ = mirror.step(particles, model, model.batches(), 0.0, 1.0, still, rng)
    return state._replace(model=model, stream=state.stream._replace(particles=particles))


def _with_number(parameters):
    """The parameters with a number of particles: one by default, for predictions cost much."""
    if parameters.n_particles != "auto" or parameters.weighting == "posterior":
        return parameters
    return parameters.replaced(n_particles=1)


def new_full_scale(parameters, rows, theta, n_particles, rng):
    """The process with some of the ``rows``, a `VecchiaGP`, as inducing inputs."""
    sites, n = rows.sites, parameters.form.n_inducing
    n = n_beside(len(sites.weight), n_particles) if n == "auto" else n
    sample = Sample(sites.X, sites.y, sites.noise_variance, sites.weight)
    inducing = choose(parameters.form.inducing_init, sample, n, rows.covariance, theta, rng)
    n_nearest = parameters.form.n_neighbors
    n_nearest = _N_PREDICTION if n_nearest == "auto" else n_nearest
    return FullScaleGP(rows, inducing, parameters.form.jitter, n_nearest)


def n_beside(n_rows, n_particles):
    """How many inducing inputs there are beside neighbours by default."""
    n = np.clip(int(_SHARE * n_rows), _MIN_INDUCING, _MAX_INDUCING)
    return int(min(n, max(_FEWEST, _MAX_NUMBERS // (n_rows * n_particles))))
