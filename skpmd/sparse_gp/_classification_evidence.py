"""The kernel of a classifier: evidence of expectation propagation, and where it is largest."""

from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skpmd._rows.rows import distinct
from skpmd._runtime.call import phase, untimed
from skpmd.engine.loop import FullBatch, full_batch_iterations
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles
from skpmd.sparse_gp._covariance import KernelCovariance, free_parts
from skpmd.sparse_gp._data import Sample, take
from skpmd.sparse_gp._evidence import best_end, log_marginal_likelihood, sparse_evidence
from skpmd.sparse_gp._hyperparameters import default_kernel, refuse_kernel
from skpmd.sparse_gp._logit import LogitSparseGP
from skpmd.sparse_gp._model import SEARCH_JITTER, distance
from skpmd.sparse_gp._starts import starts_around, widened

# Sites go so much of their way at first, further while the steps get shorter, and half of it where
# they do not: from the prior, all at once, they would overshoot.
DAMPING, _FASTER, _SLOWER, _MIN_DAMPING, _SHRINKS = 0.5, 1.2, 0.5, 0.05, 0.9
# In the search for a kernel: how near q(u) comes to the fixed point, and in how many iterations.
_SEARCH_TOL, _SEARCH_ITERATIONS = 0.05, 60
# It takes place on so many rows, from each start with a few evaluations and from the best of their
# ends with more, and ends on all rows of the subset. Processes have so many inducing inputs.
_SEARCH_ROWS, _EVALUATIONS, _MORE_EVALUATIONS, _LAST_EVALUATIONS = 200, 8, 15, 10
_INDUCING = 300
_MIN_PRECISION = 1e-8  # Of a site, where it stands for an observation of regression.
# Prior variance of f, and its bounds: at sd 30 nearly all probabilities are 0 or 1.
_VARIANCE, _BOUNDS = 4.0, (1e-2, 1e3)
_SHORTER = 0.5  # One start has the length scales of the data times this.
# Standard deviation of the logs of the default kernel's length scales around their mean: labels say
# little, and the evidence alone would let single columns decide.
_SPREAD = 0.5
_STILL = Settings(rejuvenation="never")


class Rounds(NamedTuple):
    """When iterations end: at a move of q(u) by ``tol`` of its sds, or after ``max_iter``."""

    tol: float
    max_iter: int


def iterations(model, particles, batches, rounds, a=1.0, *, damping=DAMPING):
    """States of iterations until the sites agree with each other, for `skpmd.engine.loop.drive`.

    With a = 1 they begin with the q(u) of ``particles``; else that is the stream's, a is what is
    forgotten of it, and the batches are new rows. ``damping`` is the share of their way that sites
    go at first.
    """
    damped = model.at(model.inducing)
    damped.damping = damping

    def until(particles, t, memory):
        last, before = (None, np.inf) if memory is None else (memory.last, memory.moved)
        now, moved = damped.conditionals(particles.theta, particles.block), np.inf
        if last is not None:
            moves = [distance(*pair) for pair in zip(now, last, strict=True)]
            moved = max(moves) / damped.damping
            factor = _FASTER if moved < _SHRINKS * before else _SLOWER
            damped.damping = float(np.clip(factor * damped.damping, _MIN_DAMPING, 1.0))
        sites = [batch.local for batch in batches]
        return particles, bool(moved < rounds.tol), _Memory(now, moved, damped.damping, sites)

    def resume(memory):
        damped.damping = memory.damping
        for batch, sites in zip(batches, memory.sites, strict=True):
            batch.local[:] = sites

    full_batch = FullBatch(rounds.max_iter, until, resume)
    return full_batch_iterations(particles, damped, batches, (a, 1.0), _STILL, None, full_batch)


class _Memory(NamedTuple):
    """What an iteration is to know of the one before."""

    last: list  # q(v) of each process.
    moved: float  # How far they have moved.
    damping: float
    sites: list  # Sites of each batch, which change in place.


def processes(model, positions):
    """Particles of hyperparameters (m, d), each n_processes times, at the prior of u."""
    theta = np.repeat(positions, model.n_processes, axis=0)
    zero = np.zeros(len(theta))
    return Particles(theta, zero, zero, zero, model.prior_block(theta))


def no_sites(n_rows, n):
    """Room for the sites of n processes, of which none says anything."""
    return np.zeros((n_rows, 2 * n))


def log_evidence(model, theta, batch, gradient=True):
    """Log evidence of one particle on a batch, its gradient or zeros, and whether q(u) converged.

    Sites of the batch are those to begin with, and become those of theta. At the fixed point the
    evidence does not change with them, so that its gradient is that of a regression on the sites:
    with observations b / p of variance 1 / p (Rasmussen and Williams 2006, section 5.5.2).
    """
    particles = processes(model, theta[None])
    if batch.local.any():  # From the sites as they are.
        same = model.at(model.inducing)
        same.damping = 0.0
        block = same.statistics(particles.theta, particles.block, batch)
        particles = particles._replace(block=block)
    with untimed():  # The evidence is that of the fixed point; it is the search that may end.
        rounds = Rounds(_SEARCH_TOL, _SEARCH_ITERATIONS)
        *_, outcome = iterations(model, particles, (batch,), rounds)
    value = model.log_evidences(outcome.particles.block)[0]
    if not gradient or not np.isfinite(value):
        return value, np.zeros(len(theta)), outcome.converged
    slope = sum(_slope(model, theta, batch, k) for k in range(model.n_processes))
    return value, slope, outcome.converged


def _slope(model, theta, batch, k):
    """The gradient of one process's evidence."""
    precision = np.maximum(batch.local[:, 2 * k], _MIN_PRECISION)
    target = batch.local[:, 2 * k + 1] / precision
    sample = Sample(batch.X, target[:, None], 1.0 / precision, batch.weight)
    if model.covariance.is_fast:
        return sparse_evidence(model, theta, sample)[1]
    return log_marginal_likelihood(model.covariance, theta, sample)[1]


def batch_of(sample, n):
    """A `Batch` of a sample's rows, with the sites of `no_sites`."""
    sites = no_sites(len(sample.weight), n)
    return Batch(sample.X, sample.y[:, 0], sample.weight, local=sites)


class KernelSearch:
    """The evidence of some rows as a function of the kernel's hyperparameters.

    ``rows`` is a `Sample`, whose y are codes. ``log_prior(theta)``, a value and a
    slope, is added to the evidence. Sites are those of the last theta that was asked for: searches
    that take place at once need one search each.
    """

    def __init__(self, covariance, rows, n_processes, jitter, log_prior):
        self.rows, self.n, self.log_prior = rows, n_processes, log_prior
        Z = rows.X[distinct(rows.X)[0]]
        if covariance.is_fast and len(Z) > _INDUCING:
            # Evenly spaced among the sorted rows: the search has no randomness.
            Z = Z[np.linspace(0, len(Z) - 1, _INDUCING).astype(int)]
        self.model = LogitSparseGP(covariance, None, Z, max(SEARCH_JITTER, jitter), n_processes)
        self.batch = batch_of(rows, n_processes)

    def reset(self):
        """Begin with sites of no rows."""
        self.batch.local[...] = 0.0

    def value(self, theta, gradient=True):
        """Log evidence with the log prior, and the gradient; -inf without convergence."""
        theta = np.asarray(theta, dtype=np.float64)
        for _ in range(2):  # Where the last theta was far away the sites begin anew.
            try:
                value, slope, converged = log_evidence(self.model, theta, self.batch, gradient)
            except np.linalg.LinAlgError:
                converged = False
            if converged and np.isfinite(value):
                log_prior, by_theta = self.log_prior(theta)
                return value + log_prior, slope + by_theta
            self.reset()
        return -np.inf, np.zeros(len(theta))


def new_covariance(search, sample):
    """The covariance of a copy of the user's kernel, or of the default one: it has no noise."""
    kernel = search.kernel
    if kernel is not None:
        refuse_kernel(kernel)
        kernel = kernel.clone_with_theta(kernel.theta)
        return KernelCovariance(widened(kernel, sample, _VARIANCE))
    shape = default_kernel(sample, search.categorical).k1.k2
    return KernelCovariance(ConstantKernel(_VARIANCE, _BOUNDS) * shape)


def log_prior_of(kernel, start):
    """The prior of `KernelSearch` for a user's kernel, flat, or for the default one, None.

    Logs of the default kernel's length scales, in units of the columns, are normal around their
    mean. ``start`` is the theta that searches start at, which is in units of the columns.
    """

    def flat(theta):
        return 0.0, np.zeros(len(theta))

    def near(theta):
        off = theta[1:] - start[1:]
        off -= off.mean()
        return -0.5 * (off @ off) / _SPREAD**2, np.append(0.0, -off / _SPREAD**2)

    return near if kernel is None else flat


def _placed(kernel, sample):
    """Theta with length scales of the data: from far longer ones no step leads to short ones.

    A scale for each column, or their geometric mean where a part of the kernel has one for all.
    """
    theta = kernel.theta.copy()
    for part in free_parts(kernel):
        if part.attribute == "length_scale" and sample.X.dtype == np.float64:
            categorical = getattr(part.leaf, "categorical", ())
            logs = np.log(default_kernel(sample, categorical).k1.k2.length_scale * _SHORTER)
            is_one_each = len(logs) == part.place.stop - part.place.start
            theta[part.place] = logs if is_one_each else logs.mean()
    return theta


@phase("search for a kernel")
def fit_kernel(parameters, covariance, subset, n_processes, rng):
    """Hyperparameters of the largest evidence of a subset; the kernel's own where it is fixed."""
    optimizer, kernel = parameters.search.optimizer, covariance.kernel
    if optimizer is None or not kernel.n_dims:
        return kernel.theta

    log_prior = log_prior_of(parameters.search.kernel, kernel.theta)

    def value_of(rows):
        return KernelSearch(covariance, rows, n_processes, parameters.form.jitter, log_prior).value

    starts = starts_around(covariance, kernel.theta, parameters.search.n_restarts_optimizer, rng)
    bounds, rounds = kernel.bounds, [(subset, None)]
    if parameters.search.n_restarts_optimizer:
        starts.append(np.clip(_placed(kernel, subset), *bounds.T))
    if not callable(optimizer):
        few = take(subset, _SEARCH_ROWS, rng)
        rounds = [(few, _EVALUATIONS), (few, _MORE_EVALUATIONS)]
        if len(subset.weight) > len(few.weight):
            rounds.append((subset, _LAST_EVALUATIONS))
    theta = best_end(value_of, starts, rounds, bounds, optimizer).theta
    return np.asarray(theta, dtype=np.float64)
