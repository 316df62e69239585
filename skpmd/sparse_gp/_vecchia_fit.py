"""Fits of a process whose rows are conditioned on neighbours, with inducing inputs or without."""

import copy

import numpy as np

from skpmd._base.retained import RetainedRows, left_of_past
from skpmd._base.steps import Records, Stream
from skpmd._base.utils import as_generator
from skpmd._runtime.call import phase, share_of_time, write
from skpmd.engine import mirror
from skpmd.engine.loop import stage
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, equal_log_weights, stacked
from skpmd.sparse_gp._data import Population, Sample, ScaledRows, Scaler, Sites, take
from skpmd.sparse_gp._draws import HyperPrior, Target
from skpmd.sparse_gp._evidence import SHARE
from skpmd.sparse_gp._fit import MIN_SCORED, GPState, drawn, with_results
from skpmd.sparse_gp._hyperparameters import check_kernel, n_particles, new_covariance
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._vecchia import VecchiaGP
from skpmd.sparse_gp._vecchia_evidence import best_kernel, some_rows

# The step that records a fit takes so many rows, with one particle as few as those whose
# predictions weigh particles in stacking.
_WEIGHED_ROWS, _SCORED_ROWS = 8000, 1000
# The default kernel has one of these shapes, which the likelihood chooses; the second is one of the
# rough ones. Its shortest length scales, in units of where they start, are this over the number of
# rows: few show no fine detail.
_SHAPES, _DETAIL, _SHORTEST = (np.inf, 1.5, 2.5, 0.5), 10.0, (1e-4, 1e-2)
# Nor do few rows show that there is no noise: a thousand allow the larger of these parts of the
# variance, and more a part that falls with the sixth power of their number, to the smaller one.
_NOISE_BOUNDS = 4e-10, 1e-6
_ENOUGH = 1000  # A kernel that was fitted to fewer distinct rows is searched for anew.


def fit_near(parameters, data):
    """The state after a fit to all rows."""
    rng = as_generator(parameters.random_state)
    scaler = Scaler.fit(data.y, data.weight, parameters.normalize_y, robust=False)
    rows = ScaledRows(data, scaler, parameters.batch_size)
    sample = take(Population(rows), parameters.search.n_subset, rng)
    retained = _chosen(parameters, RetainedRows(_sites_of(rows)), rng)
    return _fitted(parameters, retained, scaler, sample, rows.total, rng)


def update_near(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room.

    The kernel is fitted anew, from where it was, whenever there are twice as many distinct rows as
    when it was last.
    """
    if state is None:
        return fit_near(parameters, data)
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
        state = state._replace(model=state.model.of(sites), stream=stream, retained=retained)
        return _completed(parameters, state)
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
    model, theta, rng = state.model, state.theta, state.stream.rng
    n = len(model.sites.weight)
    m = n_particles(parameters, model.covariance.kernel, n, n)
    n_some = n if parameters.weighting == "posterior" else parameters.search.n_subset * (m > 1)
    target = _target(model, some_rows(n, n_some, rng))
    positions, outcome = drawn(parameters, target, theta, (n, m), rng)
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
    state = with_results(state._replace(stream=stream, log_weights=log_weights), outcome)
    return _completed(parameters, state)


def _target(model, rows):
    """The posterior of hyperparameters given the likelihood of some rows."""
    batch = Batch(None, None, np.ones(len(rows)), place=rows)

    def evidence(one, gradient):
        if gradient:
            return model.gradient(one, rows, batch.weight)
        return model.log_likelihood(one[None], batch)[0]

    return Target(model.prior, evidence)


@phase("weights of particles")
def _stacked(model, positions, rows):
    """Log weights of particles by their predictions of some rows from all others."""
    scores = np.array([model.log_density_left_out(one, rows) for one in positions])
    return stacked(scores.T, model.sites.weight[rows], tol=-np.inf, dtype=np.float64)


# Inducing inputs beside neighbours by default: this share of the rows, inside these numbers, and
# fewer where rows are many, so that no more numbers are held in memory.
_SHARE, _MIN_INDUCING, _MAX_INDUCING, _FEWEST, _MAX_NUMBERS = 0.4, 1000, 3000, 100, 1 << 25


def _completed(parameters, state):
    """The state of neighbours, under "full_scale" with inducing inputs."""
    is_full_scale = parameters.form.approximation == "full_scale"
    return with_inducing(parameters, state) if is_full_scale else state


@phase("pass with inducing inputs")
def with_inducing(parameters, state):
    """The state of a process by neighbours, with inducing inputs: one pass over its rows."""
    theta, rng = state.particles.theta, state.stream.rng
    model = new_full_scale(parameters, state.model, state.theta, len(theta), rng)
    write(f"one pass with {model.n_inducing} inducing inputs")
    block = model.statistics(theta, None, model.all_rows())
    particles = state.particles._replace(block=block)
    return state._replace(model=model, stream=state.stream._replace(particles=particles))


def new_full_scale(parameters, model, theta, n_particles, rng):
    """The process by neighbours with some of its rows as inducing inputs."""
    sites, n = model.sites, parameters.form.n_inducing
    n = n_beside(len(sites.weight), n_particles) if n == "auto" else n
    sample = Sample(sites.X, sites.y, sites.noise_variance, sites.weight)
    inducing = choose(parameters.form.inducing_init, sample, n, model.covariance, theta, rng)
    return model.with_inducing(inducing, parameters.form.jitter)


def n_beside(n_rows, n_particles):
    """How many inducing inputs there are beside neighbours by default."""
    n = np.clip(int(_SHARE * n_rows), _MIN_INDUCING, _MAX_INDUCING)
    return int(min(n, max(_FEWEST, _MAX_NUMBERS // (n_rows * n_particles))))
