"""Steps of a Gaussian process estimator: what it holds, and how rows are taken in."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from skpmd._base.stacking import hold_out, stacked, updated
from skpmd._base.streaming import Stream, advance
from skpmd._base.utils import as_generator
from skpmd.engine.particles import Particles, draw_prior
from skpmd.sparse_gp._data import Sample, take
from skpmd.sparse_gp._hyperparameters import (
    Data,
    Units,
    check_kernel,
    learned_theta,
    n_inducing,
    new_covariance,
    new_model,
    rows_of,
    sample_of,
)
from skpmd.sparse_gp._hyperprior import HyperPrior, draw_around
from skpmd.sparse_gp._inducing import follow
from skpmd.sparse_gp._model import SparseGP

_LOOKED_AT, _LEAST_LOOKED_AT = 200, 10  # rows of a part whose predictions are checked
_SURPRISE = 2.0  # standard deviations, of the middle one of the errors


class Process(NamedTuple):
    """A process and what it has learnt.

    Attributes
    ----------
    model : SparseGP
        Covariance and inducing inputs.
    units : Units
        Of y.
    sample : Sample
        Rows that the kernel was learnt from, weighed by their errors under Student noise.
    theta : ndarray of shape (d,)
        Hyperparameters that were found.
    stream : Stream
        Its cloud holds the particles and q(u) of each.
    log_weights : ndarray of shape (m,) or None
        Weights of the particles; None where those of the cloud are meant.
    alpha : float
        Noise variance of every new row beside the kernel's, in inner units.
    n_learned : int
        Distinct rows that there were when the kernel was learnt.
    scored : float
        Rows whose predictions have made the weights.
    kept : Data or None
        All rows, while there are few. With forgetting their weights fall like those of the past.
    """

    model: SparseGP
    units: Units
    sample: Sample
    theta: np.ndarray
    stream: Stream
    log_weights: np.ndarray | None
    alpha: float
    n_learned: int
    scored: float = 0.0
    kept: Data | None = None

    @property
    def particles(self):
        """Particles."""
        return self.stream.particles

    @property
    def best(self):
        """Place of the particle of the largest weight."""
        weights = self.particles.log_ratio if self.log_weights is None else self.log_weights
        return int(weights.argmax())

    def conditional(self, i):
        """q(u) of particle i, factored."""
        return self.model.conditional(self.particles.theta[i], self.particles.block[i])

    def after(self, stream, **changes):
        """The same with another stream."""
        return self._replace(stream=stream, **changes)


def begin(estimator, data, rng):
    """A process that has learnt its kernel and no row yet, and the rows.

    Parameters
    ----------
    estimator : SparseGPRegressorPMD
        Its parameters.
    data : Data
        Of the first call.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    Process, Rows
        Ready for `absorb`.
    """
    df = estimator.df if estimator.likelihood == "student_t" else None
    units = Units.of(data.y, data.weight, estimator.normalize_y, df is not None)
    rows = rows_of(estimator, data, units)
    whole = sample_of(rows, df)
    sample = take(whole, estimator.n_subset, rng)
    covariance = new_covariance(estimator, sample)
    check_kernel(estimator, covariance, sample)
    prior = HyperPrior(covariance.kernel, estimator.hyperprior)
    theta, sample = learned_theta(estimator, covariance, whole, sample, rng)
    model = new_model(estimator, covariance, prior, whole, theta, rng)
    m = estimator.n_particles
    if estimator.weighting == "posterior":
        particles, log_weights = draw_prior(model, m, rng), None
    else:
        positions = theta[None]
        if m > 1:
            positions = draw_around(covariance, prior, theta, sample, m, rng)
        zero = np.zeros(m)
        particles = Particles(positions, zero, zero, zero, model.prior_block(positions))
        log_weights = np.full(m, -np.log(m))
    stream = Stream(particles, None, [], 0.0, rng)
    alpha = float(estimator.alpha) if np.ndim(estimator.alpha) == 0 else 0.0
    own = model, units, sample, theta, stream, log_weights, alpha, len(whole.y)
    return Process(*own), rows


def take_in(estimator, process, data, options):
    """The process after one call's rows; None stands for none before.

    While fewer rows than can teach the kernel have done so they are kept, and it is learnt anew
    from all of them whenever there are enough more: a first part of one row says nothing of scales.
    """
    whole = data if process is None else _kept_with(estimator, process, data)
    if process is None or (whole is not None and len(whole.y) >= _next(estimator, process)):
        process, rows = begin(estimator, whole, as_generator(estimator.random_state))
    else:
        rows = rows_of(estimator, data, process.units)
        if whole is None or process.n_learned >= estimator.n_subset:
            _warn_of_surprise(process, rows)
        if isinstance(estimator.inducing_init, str):
            total = process.stream.seen + rows.total
            process = following(process, rows.data.X, n_inducing(estimator, total))
    process = absorb(estimator, process, rows, options)
    keeps = estimator.weighting != "posterior" and process.n_learned < _teaching(estimator, process)
    return process._replace(kept=whole.merged() if keeps and whole is not None else None)


def _teaching(estimator, process):
    """Distinct rows that can teach the kernel."""
    moves_on = estimator.optimizer is not None and process.model.covariance.is_fast
    return max(estimator.n_subset, estimator.n_refine) if moves_on else estimator.n_subset


def _next(estimator, process):
    """Distinct rows at which the kernel is learnt anew: more rows cost more, and say less anew."""
    return (2 if process.n_learned < estimator.n_subset else 4) * process.n_learned


def _kept_with(estimator, process, data):
    """The rows kept and those of a call; None where none are kept, or a second pass begins."""
    kept, total = process.kept, estimator.total_samples
    size = data.weight.sum()
    if kept is None or (total is not None and process.stream.seen + size > total * (1.0 + 1e-9)):
        return None
    weight = kept.weight * (1.0 - estimator.forgetting) ** size
    return kept._replace(weight=weight).joined(data).merged()


def _warn_of_surprise(process, rows):
    """Warn where predictions of rows to come are far off, by their own standard deviations."""
    batch = rows.data
    n = len(batch.y)
    if not process.stream.seen or n < _LEAST_LOOKED_AT:
        return
    some, best = slice(None, None, -(-n // _LOOKED_AT)), process.best
    theta, X, y = process.particles.theta[best], batch.X[some], batch.y[some]
    mean, variance = process.model.predict(theta, process.conditional(best), X)
    variance = variance + process.model.covariance.noise(theta, X) + y[:, -1]
    middle = np.sqrt(np.median((y[:, :-1] - mean) ** 2 / variance[:, None]))
    if middle > _SURPRISE:
        warnings.warn(
            f"Half of the new rows lie more than {middle:.1f} standard deviations off their "
            "predictions: the kernel, learnt from the first calls or given, does not suit them. "
            "Call fit on rows of all kinds, or give such rows to the first partial_fit.",
            ConvergenceWarning,
            stacklevel=5,
        )


def absorb(estimator, process, rows, options):
    """Take rows in; with stacking predictions of them, or of some, are scored before."""
    if estimator.weighting == "stacking" and len(process.particles.theta) > 1:
        if process.stream.seen:
            scores = log_density(process, rows)
            weights = updated(process.log_weights, scores, rows.data.weight, process.scored)
            process = process._replace(log_weights=weights, scored=process.scored + rows.total)
        elif (parts := hold_out(rows, process.stream.rng)) is not None:
            process, rows = _passes(estimator, process, parts[0], options), parts[1]
            weights = stacked(log_density(process, rows), rows.data.weight)
            process = process._replace(log_weights=weights, scored=rows.total)
    return _passes(estimator, process, rows, options)


def _passes(estimator, process, rows, options):
    """One pass, which is exact; with Student noise passes until the evidence bound settles.

    Each of those begins at the same place, and weighs the rows by their errors under q(u) of the
    one before.
    """
    if estimator.likelihood != "student_t":
        return process.after(advance(process.stream, process.model, rows, options))
    model, conditionals, infos, last = process.model, None, process.stream.infos, -np.inf
    for _ in range(estimator.max_iter):
        model = model.weighing(conditionals)
        stream = advance(process.stream, model, rows, options)
        infos = [*infos, stream.infos[-1]]
        after = process.after(stream._replace(infos=infos), model=model)
        bound = model.log_partition(after.particles.block).max()
        if conditionals is not None and bound - last < estimator.tol * rows.total:
            break
        conditionals = [after.conditional(i) for i in range(len(after.particles.theta))]
        last = bound
    return after


def following(process, X, n):
    """The process with up to n inducing inputs that go where the rows of X go.

    The particle of the largest weight says how far that is.
    """
    model, particles = process.model, process.particles
    inducing = follow(model, particles.theta[process.best], X, max(n, model.n_inducing))
    if inducing is None:
        return process
    model, block = model.onto(inducing, particles.theta, particles.block)
    return process.after(
        process.stream._replace(particles=particles._replace(block=block)), model=model
    )


def log_density(process, rows):
    """Log predictive densities of rows under each particle, shape (m, n)."""
    out = []
    for i, theta in enumerate(process.particles.theta):
        conditional = process.conditional(i)
        out.append([_log_density(process.model, theta, conditional, one) for one in rows.whole()])
    return np.array([np.concatenate(parts) for parts in out])


def _log_density(model, theta, conditional, batch):
    """Log predictive densities of a batch under one particle; Student noise by its nodes."""
    X, y, own = batch.X, batch.y[:, :-1], batch.y[:, -1]
    mean, variance = model.predict(theta, conditional, X)
    noise, squared = model.covariance.noise(theta, X) + own, ((y - mean) ** 2).sum(axis=1)
    factors, shares = model.noise_nodes()
    total = variance + np.outer(factors, noise)
    terms = -0.5 * (mean.shape[1] * np.log(2.0 * np.pi * total) + squared / total)
    return logsumexp(terms, axis=0, b=shares[:, None])
