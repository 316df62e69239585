"""Fits of a process whose rows are conditioned on their neighbours: rows stay with the estimator."""

import copy

import numpy as np
from scipy.stats import norm

from skpmd._base.hashing import uniforms
from skpmd._base.progress import bar_of_rounds
from skpmd._base.records import Records
from skpmd._base.results import results_of
from skpmd._base.streaming import Stream
from skpmd._base.utils import as_generator
from skpmd._base.warn import warn
from skpmd.engine import mirror, weighting
from skpmd.engine.loop import drive
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, weights
from skpmd.engine.resampling import resample
from skpmd.sparse_gp._data import Scaler, rows_of, sample_of, take
from skpmd.sparse_gp._fit import GPState, with_results
from skpmd.sparse_gp._hyperparameters import check_kernel, new_covariance
from skpmd.sparse_gp._hyperprior import HyperPrior
from skpmd.sparse_gp._vecchia import VecchiaGP, sites_of
from skpmd.sparse_gp._vecchia_evidence import (
    best_hyperparameters,
    some_rows,
    states_of_kernels,
)

# Particles for predictions are drawn given so many rows, whose predictions weigh them too.
_PARTICLE_ROWS, _SCORED_ROWS = 8000, 1000
# Intervals of this level for so many rows, from all others, are held against their targets: a warning
# follows where they hold fewer than this share.
_CHECKED_ROWS, _MIN_CHECKED, _LEVEL, _MIN_COVERAGE = 500, 30, 0.9, 0.75
_ENOUGH = 1000  # A kernel that was fitted to fewer distinct rows is searched for anew.


def fit_vecchia(parameters, data, before=None):
    """The state after a fit to all rows; ``before`` is that of a stream so far, or None."""
    rng = as_generator(parameters.random_state)
    scaler = Scaler.fit(data.y, data.weight, parameters.normalize_y, robust=False)
    rows = rows_of(data, scaler, parameters.batch_size)
    sample = take(sample_of(rows), parameters.n_subset, rng)
    covariance = new_covariance(parameters.kernel, sample)
    if not covariance.is_fast:
        raise ValueError(
            f"approximation='vecchia' takes a constant times an RBF or a Matern kernel (nu of 0.5, "
            f"1.5, 2.5 or inf), and WhiteKernels beside it; kernel is {covariance.kernel}: set "
            "approximation='fitc'."
        )
    check_kernel(covariance, sample, parameters.likelihood, parameters.weighting)
    prior = HyperPrior(covariance.kernel, parameters.hyperprior)
    sites = _sites(rows, rng)
    theta = best_hyperparameters(
        parameters, covariance, sites, sample, rng, None if before is None else before.theta
    )
    model = VecchiaGP(
        covariance, prior, sites, covariance.term(theta).length_scale, parameters.n_neighbors
    )
    state = GPState(
        model=model,
        scaler=scaler,
        sample=sample,
        theta=theta,
        stream=Stream(None, None, Records() if before is None else before.stream.records, 0.0, rng),
        log_weights=None,
        alpha=float(parameters.alpha) if np.ndim(parameters.alpha) == 0 else 0.0,
        n_fitted=len(sites.weight),
        retained=data,
    )
    return _with_particles(parameters, state, rows.total)


def update_vecchia(parameters, state, data):
    """The state after one call's rows of a stream, which are retained as far as there is room.

    The kernel is fitted anew, from where it was, whenever there are twice as many distinct rows as
    when it was last.
    """
    if state is None:
        return fit_vecchia(parameters, _trimmed(parameters, data))
    options, size = parameters.options, data.weight.sum()
    total, seen = options.total_samples, state.stream.seen
    if total is not None and seen + size > total * (1.0 + 1e-9):
        return state  # A second pass: all rows are known.
    retained = state.retained._replace(
        weight=state.retained.weight * (1.0 - options.forgetting) ** size
    )
    data = _trimmed(parameters, retained.joined(data))
    rows = rows_of(data, state.scaler, parameters.batch_size)
    rng = copy.deepcopy(state.stream.rng)
    sites = _sites(rows, rng)
    if len(sites.weight) >= 2 * state.n_fitted:
        known = state if state.n_fitted >= _ENOUGH else None
        after = fit_vecchia(parameters, data, known)
        return after._replace(stream=after.stream._replace(seen=seen + size))
    stream = state.stream._replace(rng=rng, seen=seen + size)
    return state._replace(model=state.model.of(sites), retained=data, stream=stream)


def _trimmed(parameters, data):
    """Data of as many rows as a stream retains; which ones depends on nothing but the rows."""
    size = parameters.reservoir_size
    if len(data.y) <= size:
        return data
    key = -np.log(uniforms(np.column_stack([data.X, data.y]))) / data.weight
    return data.select(np.sort(np.argpartition(key, size - 1)[:size]))


def _sites(rows, rng):
    X, y, weight = rows.data
    return sites_of((X, y[:, :-1], y[:, -1], weight), rng.permutation)


def _with_particles(parameters, state, total):
    """The state with particles, their weights and the results."""
    m, rng = int(parameters.n_particles), state.stream.rng  # True counts as one.
    n, theta, outcome = len(state.model.sites.weight), state.theta, None
    if parameters.weighting == "posterior":
        with bar_of_rounds(parameters.verbose) as report:
            outcome = drive(states_of_kernels(state.model, np.arange(n), theta, m, rng), report)
        positions = resampled(outcome.particles, m, rng)
    elif m > 1:
        rows = some_rows(n, _PARTICLE_ROWS, rng)
        drawn = drive(states_of_kernels(state.model, rows, theta, m, rng)).particles
        positions = np.concatenate([theta[None], resampled(drawn, m - 1, rng)])
    else:
        positions = theta[None]
    rows = some_rows(n, _PARTICLE_ROWS, rng)
    batch = Batch(rows[:, None], None, np.ones(len(rows)))
    zero, no_block = np.zeros(len(positions)), np.empty((len(positions), 0))
    still = mirror.Settings(rejuvenation="never")
    particles, info = mirror.step(
        Particles(positions, zero, zero, zero, no_block), state.model, (batch,), 1.0,
        n / len(rows), still, rng,
    )  # fmt: skip
    infos = [info] if outcome is None else outcome.infos
    stream = state.stream._replace(
        particles=particles, records=state.stream.records.extended(infos), seen=total
    )
    log_weights = weighting.uniform(len(positions))
    if parameters.weighting == "stacking" and len(positions) > 1:
        log_weights = _stacked(state.model, positions, some_rows(n, _SCORED_ROWS, rng))
    return with_results(state._replace(stream=stream, log_weights=log_weights), outcome)


def resampled(particles, m, rng):
    """Equally weighted hyperparameters, (m, d), of weighted ones."""
    return particles.theta[resample("systematic", weights(particles.log_ratio), m, rng)]


def _stacked(model, positions, rows):
    """Log weights of particles by their predictions of some rows from all others."""
    scores = np.array([_log_density(model, one, rows) for one in positions])
    return weighting.stacked(scores.T, model.sites.weight[rows], tol=-np.inf, dtype=np.float64)


def _log_density(model, theta, rows):
    mean, variance = model.left_out(theta, rows)
    squares = ((model.sites.y[rows] - mean) ** 2).sum(axis=1)
    return -0.5 * (model.n_targets * np.log(2.0 * np.pi * variance) + squares / variance)


def warn_of_left_out(state):
    """Warn where rows are further from what all others say of them than they should be."""
    model, n = state.model, len(state.model.sites.weight)
    if n < _MIN_CHECKED:
        return
    rows = np.arange(min(n, _CHECKED_ROWS))  # Rows are in random order.
    mean, variance = model.left_out(state.particles.theta[state.best], rows)
    variance = variance[:, None]
    inside = np.abs(model.sites.y[rows] - mean) < norm.isf(0.5 - 0.5 * _LEVEL) * np.sqrt(variance)
    coverage = inside.mean()
    if coverage < _MIN_COVERAGE:
        warn(
            f"Intervals of {_LEVEL:.0%} for rows, given all others, hold {coverage:.0%} of them: the "
            "kernel does not suit the rows. Give another kernel, or raise n_restarts_optimizer or "
            "n_neighbors."
        )
