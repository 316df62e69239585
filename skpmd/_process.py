"""The process that a Gaussian process estimator fits: its rows, units, kernel and model."""

from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd._inducing import choose
from skpmd._kernels import KernelCovariance
from skpmd._marginal import Sample, best_theta, squared_errors, take
from skpmd._refine import best_of, noisier, refined_theta, student_weighed
from skpmd._streams import Rows
from skpmd.models.sparse_gp import SparseGP
from skpmd.models.student_gp import StudentSparseGP

FEW, MANY = 1000, 2000  # inducing inputs of "auto": all distinct rows up to the first
_FEWER, _REFINEMENTS = 500, 12  # inducing inputs and evaluations of the sparse evidence
_STUDENT = 6, 6, 6  # the same where rows are weighed anew between them
_ROUNDS = 3  # of weighing the rows of a sample by their errors, under Student noise
_ROWS = 2048  # of a batch by default


class Units(NamedTuple):
    """Offsets and scales of the targets inside, each of shape (t,)."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, y, weight, normalize):
        """Weighted means and standard deviations of y (n, t), or zeros and ones."""
        if not normalize:
            return cls(np.zeros(y.shape[1]), np.ones(y.shape[1]))
        mean, scale = np.transpose([_moments(column, weight) for column in y.T])
        # A constant y differs from its mean by rounding.
        constant = scale <= 1e-14 * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, scale))


def _moments(values, weight):
    """Weighted mean and standard deviation, the same to the last digit if copies are weights."""
    values, which = np.unique(values, return_inverse=True)
    weight = np.bincount(which, weight)
    mean = np.average(values, weights=weight)
    return mean, np.sqrt(np.average((values - mean) ** 2, weights=weight))


class Data(NamedTuple):
    """Checked input of one call.

    Attributes
    ----------
    X : ndarray of shape (n, p)
        Features.
    y : ndarray of shape (n, t)
        Targets, in their own units.
    own : ndarray of shape (n,)
        Variance of each row's own noise, in squared units of y.
    weight : ndarray of shape (n,)
        How often each row counts.
    """

    X: np.ndarray
    y: np.ndarray
    own: np.ndarray
    weight: np.ndarray


def rows_of(estimator, data, units):
    """Batches of rows; y with the variance of its own noise, in inner units."""
    alpha = np.asarray(estimator.alpha, dtype=np.float64)
    if alpha.ndim and alpha.shape != data.own.shape:
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({alpha.shape} != {data.own.shape})"
        )
    y = (data.y - units.mean) / units.scale
    own = data.own / units.scale[0] ** 2 + alpha
    size = _ROWS if estimator.batch_size == "auto" else estimator.batch_size
    return Rows(data.X, np.column_stack([y, own]), data.weight, size)


def sample_of(rows):
    """All rows as a `Sample`."""
    X, y, weight = rows.data
    return Sample(X, y[:, :-1], y[:, -1], weight)


def default_kernel(sample):
    """ConstantKernel() * RBF(one scale per column) + WhiteKernel(), placed by the sample.

    A length scale starts at the column's standard deviation times the root of the number of
    columns, at which two rows are about one and a half length scales apart.
    """
    X, y, _, weight, _ = sample
    sd = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, 0, weight))
    start = np.where(sd > 0.0, sd, 1.0) * np.sqrt(X.shape[1])
    variance = float(np.average(y**2, axis=0, weights=weight).mean())
    variance = variance if variance > 0.0 else 1.0
    signal = ConstantKernel(variance, (1e-3 * variance, 1e3 * variance))
    noise = WhiteKernel(0.1 * variance, (1e-6 * variance, 10.0 * variance))
    bounds = np.column_stack([1e-2 * start, 1e3 * start])
    return signal * RBF(start, bounds) + noise


def starting_kernel(estimator, sample):
    """A copy of the estimator's kernel, or the default one."""
    if estimator.kernel is None:
        return default_kernel(sample)
    return estimator.kernel.clone_with_theta(estimator.kernel.theta)


def learned_theta(estimator, covariance, rows, sample, rng):
    """Hyperparameters by the marginal likelihood of a sample; those of the kernel where fixed.

    Where there are more rows, the evidence of a sparse process on many of them moves them on.
    """
    optimizer = estimator.optimizer
    if optimizer is None or not covariance.kernel.n_dims:
        return covariance.kernel.theta
    theta, _ = best_theta(
        covariance, sample, optimizer, estimator.n_restarts_optimizer, rng, n_jobs=estimator.n_jobs
    )
    if estimator.likelihood == "student_t":
        for _ in range(_ROUNDS):
            error = squared_errors(covariance, theta, sample)
            scale = covariance.noise(theta, sample.X) + sample.own
            precision = (estimator.df + 1.0) / (estimator.df + error / scale)
            sample = sample._replace(spread=1.0 / precision)
            theta, _ = best_theta(covariance, sample, optimizer, 0, rng, theta)
    if estimator.n_refine > len(sample.y) and rows.total > len(sample.y) and covariance.is_fast:
        theta = _moved_on(estimator, covariance, rows, theta, rng)
    return theta


def _moved_on(estimator, covariance, rows, theta, rng):
    """Hyperparameters by the evidence of many rows, from those of few rows on."""
    many = take(sample_of(rows), estimator.n_refine, rng)
    few, more = (
        choose("random", lambda n, rng: take(many, n, rng), M, covariance, theta, rng)
        for M in (_FEWER, FEW)
    )
    # "dtc" has no evidence that would speak for short length scales.
    approximation = "vfe" if estimator.approximation == "vfe" else "fitc"
    own = few, approximation, estimator.jitter
    refined = best_of(covariance, noisier(covariance, theta, many), many, *own)
    is_student = estimator.likelihood == "student_t"
    for n_evaluations in _STUDENT if is_student else (_REFINEMENTS,):
        if is_student:
            many = student_weighed(covariance, refined, many, *own, estimator.df)
        refined = refined_theta(covariance, refined, many, *own, n_evaluations)
    # Few inducing inputs may like a kernel that more of them do not.
    return best_of(covariance, (theta, refined), many, more, "fitc", estimator.jitter)


def n_inducing(estimator, rows):
    """How many inducing inputs."""
    if estimator.n_inducing == "auto":
        return int(np.clip(rows.total / 4.0, FEW, MANY))
    return estimator.n_inducing


def new_model(estimator, covariance, prior, rows, theta, rng):
    """The model, its inducing inputs placed among the rows."""
    sample = sample_of(rows)
    inducing = choose(
        estimator.inducing_init,
        lambda n, rng: take(sample, n, rng),
        n_inducing(estimator, rows),
        covariance,
        theta,
        rng,
    )
    if inducing.shape[1:] != sample.X.shape[1:]:
        raise ValueError(
            f"inducing_init has shape {inducing.shape}, X has {sample.X.shape[1]} features."
        )
    own = covariance, prior, inducing, estimator.approximation, estimator.jitter
    options = {"block_weighs": estimator.weighting == "mirror", "n_jobs": estimator.n_jobs}
    if estimator.likelihood == "student_t":
        return StudentSparseGP(*own, df=estimator.df, **options)
    return SparseGP(*own, sample.y.shape[1], **options)


def new_covariance(estimator, sample):
    """The covariance of the estimator's kernel."""
    return KernelCovariance(starting_kernel(estimator, sample))
