"""Steps of a Gaussian process estimator: what it holds, and how rows are taken in."""

from typing import NamedTuple

import numpy as np

from skpmd._hyper import HyperPrior, draw_around
from skpmd._inducing import follow
from skpmd._marginal import Sample, take
from skpmd._partial import Stream, advance
from skpmd._process import (
    FEW,
    Units,
    learned_theta,
    new_covariance,
    new_model,
    rows_of,
    sample_of,
)
from skpmd._stacking import hold_out, stacked, updated
from skpmd.engine.cloud import Cloud, draw_prior
from skpmd.engine.mirror import step
from skpmd.models.sparse_gp import SparseGP


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
        Hyperparameters of their largest marginal likelihood.
    stream : Stream
        Its cloud holds the particles and q(u) of each.
    log_weights : ndarray of shape (m,) or None
        Weights of the particles; None where those of the cloud are meant.
    scored : float
        Rows whose predictions have made the weights.
    """

    model: SparseGP
    units: Units
    sample: Sample
    theta: np.ndarray
    stream: Stream
    log_weights: np.ndarray | None
    scored: float = 0.0

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
    units = Units.of(data.y[weight > 0], weight[weight > 0], estimator.normalize_y)
    rows = rows_of(estimator, data, units)
    sample = take(sample_of(rows), estimator.n_subset, rng)
    covariance = new_covariance(estimator, sample)
    prior = HyperPrior(covariance.kernel, estimator.hyperprior)
    theta = learned_theta(estimator, covariance, rows, sample, rng)
    model = new_model(estimator, covariance, prior, rows, theta, rng)
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
    return Process(model, units, sample, theta, stream, log_weights), rows


def absorb(process, rows, options, stacking):
    """Take rows in; with ``stacking`` predictions of them, or of some, are scored before."""
    if stacking and process.stream.seen:
        scores = log_density(process, rows)
        weights = updated(process.log_weights, scores, rows, process.scored)
        process = process._replace(log_weights=weights, scored=process.scored + rows.total)
    elif stacking:
        rows, last = hold_out(rows, process.stream.rng)
        process = process.after(advance(process.stream, process.model, rows, options))
        weights = stacked(log_density(process, last), last.data.weight)
        process, rows = process._replace(log_weights=weights, scored=last.total), last
    return process.after(advance(process.stream, process.model, rows, options))


def repeat(process, rows, options, max_iter, tol):
    """Passes in which each row is weighed by its error under q(u) of the pass before."""
    last = -np.inf
    for _ in range(max_iter):
        process = weighing(process)
        model, stream = process.model, process.stream
        settings, batches = options.settings, rows.whole()
        cloud, info = step(stream.cloud, model, batches, 1.0, 1.0, settings, stream.rng)
        process = process.after(stream._replace(cloud=cloud, infos=[*stream.infos, info]))
        bound = model.log_partition(cloud.block).max()
        if bound - last < tol * rows.total:
            break
        last = bound
    return process


def weighing(process):
    """The process whose model weighs rows by q(u) of now, for Student noise."""
    conditionals = [process.conditional(i) for i in range(len(process.cloud.theta))]
    return process._replace(model=process.model.weighing(conditionals))


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
    X, y, _ = rows.data
    theta = process.cloud.theta
    out = np.empty((len(theta), len(X)))
    for i, one in enumerate(theta):
        mean, variance = process.model.predict(one, process.conditional(i), X)
        variance = variance + process.model.covariance.noise(one, X) + y[:, -1]
        squared = ((y[:, :-1] - mean) ** 2).sum(axis=1) / variance
        out[i] = -0.5 * (mean.shape[1] * np.log(2.0 * np.pi * variance) + squared)
    return out
