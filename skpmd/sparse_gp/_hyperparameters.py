"""The process that a Gaussian process estimator fits: its rows, units, kernel and model."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd._base.rows import Rows, merged
from skpmd.sparse_gp._covariance import KernelCovariance, parameter_names
from skpmd.sparse_gp._data import Sample, take
from skpmd.sparse_gp._exact_evidence import best_theta, noise_of, noisier, squared_errors
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._model import SparseGP
from skpmd.sparse_gp._sparse_evidence import best_of, refined_theta, student_weighed
from skpmd.sparse_gp._student import StudentSparseGP

FEW, MANY = 1000, 2000  # inducing inputs of "auto": all distinct rows up to the first
_FEWER, _REFINEMENTS = 500, 12  # inducing inputs and evaluations of the sparse evidence
_STUDENT = 6, 6, 6  # the same where rows are weighed anew between them
_ENOUGH, _MORE = 1000, 15  # rows of the search for a kernel; evaluations on more rows than those
_ROUNDS = 3  # of weighing the rows of a sample by their errors, under Student noise
_ROUNDING = 1e-13
_RANGE = 2.5631  # of the middle 80 % of a normal distribution, in standard deviations
_ROWS = 2048  # of a batch by default


class Units(NamedTuple):
    """Offsets and scales of the targets inside, each of shape (t,)."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, y, weight, normalize, robust):
        """Weighted means and standard deviations of y (n, t), or zeros and ones.

        ``robust`` takes the median and a scaled range of quantiles, unless that is zero.
        """
        if not normalize:
            return cls(np.zeros(y.shape[1]), np.ones(y.shape[1]))
        both = [_moments(column, weight) for column in y.T]
        if robust:
            both = [_robust(column, weight) or one for column, one in zip(y.T, both, strict=True)]
        mean, scale = np.transpose(both)
        # A constant y differs from its mean by rounding.
        constant = scale <= _ROUNDING * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, scale))


def _moments(values, weight):
    """Weighted mean and standard deviation, the same to the last digit if copies are weights."""
    values, which = np.unique(values, return_inverse=True)
    weight = np.bincount(which, weight)
    unit = np.abs(values).max() or 1.0  # squares of large numbers would overflow
    mean = np.average(values / unit, weights=weight)
    return unit * mean, unit * np.sqrt(np.average((values / unit - mean) ** 2, weights=weight))


def _robust(values, weight):
    """Weighted median, and standard deviation by the range of most values; None for zero.

    Outliers are few. The distance of half of the values from their median would say nothing of a
    signal that is at rest for most of the time.
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weight[order])
    low, median, high = values[order[np.searchsorted(ends, np.array([0.1, 0.5, 0.9]) * ends[-1])]]
    sd = (high - low) / _RANGE
    return (median, sd) if sd > _ROUNDING * abs(median) else None


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
    alpha : ndarray of shape (n,)
        More of it, in squared inner units.
    weight : ndarray of shape (n,)
        How often each row counts.
    """

    X: np.ndarray
    y: np.ndarray
    own: np.ndarray
    alpha: np.ndarray
    weight: np.ndarray

    def joined(self, other):
        """These rows and those of another call."""
        return Data(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def merged(self):
        """The distinct rows, sorted."""
        places, weight = merged(self.weight, self.X, self.y, self.own, self.alpha)
        return Data(*(column[places] for column in self[:-1]), weight)


def rows_of(estimator, data, units):
    """Batches of rows; y with the variance of its own noise, in inner units."""
    y = (data.y - units.mean) / units.scale
    own = data.own / units.scale[0] ** 2 + data.alpha
    size = _ROWS if estimator.batch_size == "auto" else estimator.batch_size
    return Rows(data.X, np.column_stack([y, own]), data.weight, size)


def sample_of(rows, df=None):
    """The distinct rows as a `Sample`.

    With ``df``, of Student noise, rows far from the median have wide noise from the start.
    """
    X, y, weight = rows.data
    places, weight = merged(weight, X, y)
    X, y, own = X[places], y[places, :-1], y[places, -1]
    if df is None:
        return Sample(X, y, own, weight)
    median, sd = _robust(y[:, 0], weight) or (0.0, np.inf)
    return Sample(X, y, own, weight, (df + ((y[:, 0] - median) / sd) ** 2) / (df + 1.0))


def default_kernel(sample):
    """ConstantKernel() * RBF(one scale per column) + WhiteKernel(), placed by the sample.

    A length scale starts at the column's standard deviation times the root of the number of
    columns, at which two rows are about one and a half length scales apart.
    """
    X, y, _, weight, _ = sample
    mean = np.average(X, axis=0, weights=weight)
    sd = np.sqrt(np.average((X - mean) ** 2, 0, weight))
    # A constant column differs from its mean by rounding.
    start = np.where(sd > _ROUNDING * np.abs(mean), sd, 1.0) * np.sqrt(X.shape[1])
    # With spread, wild targets count little.
    variance = float(np.average(y**2, axis=0, weights=weight / sample.spread).mean())
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


def learned_theta(estimator, covariance, whole, subset, rng):
    """Hyperparameters by the marginal likelihood of a subset; those of the kernel where fixed.

    L-BFGS searches on some of its rows, and goes on from there on all with normal noise. Where the
    whole has more rows, the evidence of a sparse process on many of them moves theta on. Returns
    the rows of the search too, weighed by their errors if noise is Student's.
    """
    optimizer = estimator.optimizer
    if optimizer is None or not covariance.kernel.n_dims:
        return covariance.kernel.theta, subset
    n_restarts, n_jobs = estimator.n_restarts_optimizer, estimator.n_jobs
    sample = subset if callable(optimizer) else take(subset, _ENOUGH, rng)
    n_known = len(sample.y)
    theta, _ = best_theta(covariance, sample, optimizer, n_restarts, rng, n_jobs=n_jobs)
    if estimator.likelihood == "student_t":
        for _ in range(_ROUNDS):
            error = squared_errors(covariance, theta, sample)
            scale = noise_of(covariance, theta, sample._replace(spread=1.0))
            precision = (estimator.df + 1.0) / (estimator.df + error / scale)
            sample = sample._replace(spread=1.0 / precision)
            theta, _ = best_theta(covariance, sample, optimizer, 0, rng, theta)
    elif len(subset.y) > n_known:
        theta, _ = best_theta(covariance, subset, optimizer, 0, rng, theta, n_evaluations=_MORE)
        n_known = len(subset.y)
    more = min(estimator.n_refine, len(whole.y)) > n_known
    if more and covariance.is_fast:
        theta = _moved_on(estimator, covariance, whole, theta, rng)
    return theta, sample


def _moved_on(estimator, covariance, whole, theta, rng):
    """Hyperparameters by the evidence of many rows, from those of few rows on."""
    many = take(whole, estimator.n_refine, rng)
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


def warn_of_bounds(kernel):
    """Warn where a kernel says that rows tell nothing of each other, at the end of its bounds.

    (A long length scale belongs to a column that does not matter, and a small noise to a smooth y.)
    """
    for name, value, (low, high) in zip(
        parameter_names(kernel), kernel.theta, kernel.bounds, strict=True
    ):
        kind = name.partition("[")[0].rpartition("__")[2]
        ends = {"length_scale": ("lower", low), "noise_level": ("upper", high)}
        which, bound = ends.get(kind, ("", np.nan))
        if np.isclose(value, bound):
            warnings.warn(
                f"{name} of the kernel ended at its {which} bound, {np.exp(bound):.3g}: rows tell "
                "nothing of each other there. Raise n_restarts_optimizer, widen the bounds, or "
                "start the kernel elsewhere.",
                ConvergenceWarning,
                stacklevel=5,
            )


def n_inducing(estimator, total):
    """How many inducing inputs for rows of a total weight."""
    if estimator.n_inducing == "auto":
        return int(np.clip(total / 4.0, FEW, MANY))
    return estimator.n_inducing


def new_model(estimator, covariance, prior, sample, theta, rng):
    """The model, its inducing inputs placed among the rows."""
    inducing = choose(
        estimator.inducing_init,
        lambda n, rng: take(sample, n, rng),
        n_inducing(estimator, sample.weight.sum()),
        covariance,
        theta,
        rng,
    )
    if inducing.shape[1:] != sample.X.shape[1:]:
        raise ValueError(
            f"inducing_init has shape {inducing.shape}, X has {sample.X.shape[1]} features."
        )
    own = covariance, prior, inducing, estimator.approximation, estimator.jitter
    options = {"block_weighs": estimator.weighting == "posterior", "n_jobs": estimator.n_jobs}
    if estimator.likelihood == "student_t":
        return StudentSparseGP(*own, df=estimator.df, **options)
    return SparseGP(*own, sample.y.shape[1], **options)


def new_covariance(estimator, sample):
    """The covariance of the estimator's kernel."""
    return KernelCovariance(starting_kernel(estimator, sample))


def check_kernel(estimator, covariance, sample):
    """Refuse kernels that cannot do what other parameters ask."""
    theta, X = covariance.kernel.theta, sample.X
    covariance.kernel(X[:1])  # refuses a wrong number of length scales
    if not covariance.diagonal(theta, X).any():
        raise ValueError(f"kernel has no variance but noise: {covariance.kernel}. Add a signal.")
    noise = covariance.noise(theta, X)
    if estimator.likelihood == "student_t" and not noise.any():
        raise ValueError("likelihood='student_t' needs noise: add a WhiteKernel to the kernel.")
    if estimator.weighting == "posterior" and not len(theta):
        raise ValueError(
            "weighting='posterior' needs a kernel with free hyperparameters: set 'uniform'."
        )
