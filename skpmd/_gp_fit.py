"""Steps of a Gaussian process estimator: what it holds, and how rows are taken in."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from skpmd._hyper import HyperPrior, draw_around
from skpmd._inducing import follow
from skpmd._marginal import Sample, take
from skpmd._partial import Stream, advance
from skpmd._process import (
    FEW,
    Data,
    Units,
    check_kernel,
    learned_theta,
    new_covariance,
    new_model,
    rows_of,
    sample_of,
)
from skpmd._stacking import hold_out, stacked, updated
from skpmd.engine.cloud import Cloud, draw_prior
from skpmd.models.sparse_gp import SparseGP
from skpmd.posterior import as_generator


class Process(NamedTuple):
    """A process and what it has learnt.

    Attributes
    ----------
    model : SparseGP
        Covariance and inducing inputs.
    units : Units
        Of y.
    sample : Sample
        Rows that the kernel was learnt from.
    theta : ndarray of shape (d,)
        Hyperparameters that were found.
    stream : Stream
        Its cloud holds the particles and q(u) of each.
    log_weights : ndarray of shape (m,) or None
        Weights of the particles; None where those of the cloud are meant.
    alpha : float
        Noise variance of every new row beside the kernel's, in inner units.
    n_learned : int
        Rows that there were when the kernel was learnt.
    scored : float
        Rows whose predictions have made the weights.
    kept : Data or None
        All rows, while there are few.
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
    def cloud(self):
        """Particles."""
        return self.stream.cloud

    def conditional(self, i):
        """q(u) of particle i, factored."""
        return self.model.conditional(self.cloud.theta[i], self.cloud.block[i])

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
    weight = data.weight
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: there are no data to fit.")
    df = estimator.df if estimator.likelihood == "student_t" else None
    units = Units.of(data.y[weight > 0], weight[weight > 0], estimator.normalize_y, df is not None)
    rows = rows_of(estimator, data, units)
    whole = sample_of(rows, df)
    sample = take(whole, estimator.n_subset, rng)
    covariance = new_covariance(estimator, sample)
    check_kernel(estimator, covariance, sample)
    prior = HyperPrior(covariance.kernel, estimator.hyperprior)
    theta = learned_theta(estimator, covariance, whole, sample, rng)
    model = new_model(estimator, covariance, prior, whole, theta, rng)
    m = estimator.n_particles
    if estimator.weighting == "mirror":
        cloud, log_weights = draw_prior(model, m, rng), None
    else:
        particles = theta[None]
        if m > 1:
            particles = draw_around(covariance, prior, theta, sample, m, rng)
        zero = np.zeros(m)
        cloud = Cloud(particles, zero, zero, zero, model.prior_block(particles))
        log_weights = np.full(m, -np.log(m))
    stream = Stream(cloud, None, [], 0.0, rng)
    alpha = float(estimator.alpha) if np.ndim(estimator.alpha) == 0 else 0.0
    own = model, units, sample, theta, stream, log_weights, alpha, len(data.y)
    return Process(*own), rows


def take_in(estimator, process, data, options):
    """The process after one call's rows; None stands for none before.

    While fewer rows than ``n_subset`` have taught the kernel they are kept, and it is learnt anew
    from all of them whenever their number has doubled: a first part of one row says nothing of
    scales.
    """
    kept = None if process is None else process.kept
    whole = data if kept is None else kept.joined(data)
    if process is None or (kept is not None and len(whole.y) >= 2 * process.n_learned):
        process, rows = begin(estimator, whole, as_generator(estimator.random_state))
    else:
        rows = rows_of(estimator, data, process.units)
        if isinstance(estimator.inducing_init, str):
            best = int(process.log_weights.argmax()) if process.log_weights is not None else 0
            process = following(process, rows.data.X, estimator.n_inducing, best)
    process = absorb(estimator, process, rows, options)
    grows = estimator.total_samples is None and not estimator.forgetting
    keeps = grows and estimator.weighting != "mirror" and process.n_learned < estimator.n_subset
    return process._replace(kept=whole if keeps else None)


def absorb(estimator, process, rows, options):
    """Take rows in; with stacking predictions of them, or of some, are scored before."""
    if estimator.weighting == "stacking" and len(process.cloud.theta) > 1:
        if process.stream.seen:
            scores = log_density(process, rows)
            weights = updated(process.log_weights, scores, rows, process.scored)
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
        bound = model.log_partition(after.cloud.block).max()
        if conditionals is not None and bound - last < estimator.tol * rows.total:
            break
        conditionals = [after.conditional(i) for i in range(len(after.cloud.theta))]
        last = bound
    return after


def following(process, X, n_inducing, best):
    """The process with inducing inputs that go where the rows of X go.

    ``best`` is the particle whose hyperparameters say how far that is.
    """
    model, cloud = process.model, process.cloud
    n = max(FEW if n_inducing == "auto" else n_inducing, model.n_inducing)
    inducing = follow(model, cloud.theta[best], X, n)
    if inducing is None:
        return process
    model, block = model.onto(inducing, cloud.theta, cloud.block)
    return process.after(process.stream._replace(cloud=cloud._replace(block=block)), model=model)


def log_density(process, rows):
    """Log predictive densities of rows under each particle, shape (m, n)."""
    out = []
    for i, theta in enumerate(process.cloud.theta):
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
