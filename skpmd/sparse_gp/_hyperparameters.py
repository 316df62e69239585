"""A kernel, its hyperparameters from some of the rows, and the model that they make."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Matern,
    WhiteKernel,
)

from skpmd._runtime.call import out_of_time, phase, write
from skpmd.sparse_gp._categories import MixedKernel
from skpmd.sparse_gp._covariance import KernelCovariance, theta_limits
from skpmd.sparse_gp._data import take
from skpmd.sparse_gp._evidence import (
    PARTICLES,
    SEARCH,
    best_of,
    maximise_evidence,
    refine,
    sparse_evidence,
    student_weighed,
)
from skpmd.sparse_gp._inducing import choose
from skpmd.sparse_gp._model import SEARCH_JITTER, SparseGP
from skpmd.sparse_gp._starts import scales_of, widened, with_other_noise
from skpmd.sparse_gp._student import StudentSparseGP

# The automatic number of inducing inputs lies between these; up to the first, all distinct rows
# are inducing inputs.
MIN_INDUCING, _MAX_INDUCING = 1000, 2000
# The sparse evidence of many rows is taken with so many inducing inputs, and maximised with so many
# evaluations. Under Student noise the rows are weighed anew between several such searches.
_REFINE_INDUCING, _REFINE_EVALUATIONS = 500, (12,)
_REFINE_STUDENT_EVALUATIONS = (6, 6, 6)
# The search for a kernel takes place on so many rows, and goes on from there on all with so many
# evaluations.
_SEARCH_ROWS, _MORE_EVALUATIONS = 1000, 15
# The automatic number of particles: for up to so many rows many, for more rows fewer, then one; and
# all of them together hold so many numbers at most.
FEW_ROWS, _MANY_PARTICLES = 500, 16
_MAX_AVERAGED, _FEW_PARTICLES = 10_000, 8
_MAX_STORED = 1 << 24
# Many steps of many particles make a posterior: by default each of them is to be cheap.
_POSTERIOR_PARTICLES, _POSTERIOR_INDUCING = 32, 100
_LARGEST = 1e140  # Variances of f: their squares are numbers.
_STUDENT_ROUNDS = 3  # Rounds in which rows are weighed by their errors, under Student noise.


class Search(NamedTuple):
    """Parameters of the search for a kernel, as an estimator documents them."""

    kernel: Any
    optimizer: Any
    n_restarts_optimizer: int
    n_subset: int
    n_refine: int
    hyperprior: list | None
    categorical: tuple[int, ...] = ()  # Places of columns of categories.


class Form(NamedTuple):
    """Parameters of how a process is approximated, as an estimator documents them."""

    approximation: str
    n_inducing: int | str
    inducing_init: Any
    n_neighbors: int | str
    reservoir_size: int
    jitter: float

    @property
    def is_given(self):
        """Whether inducing inputs, or their number, are the user's."""
        return self.n_inducing != "auto" or not isinstance(self.inducing_init, str)


def default_kernel(sample, categorical=(), nu=np.inf, shortest=1e-2, min_noise=1e-6):
    """ConstantKernel() * RBF(one scale per column) + WhiteKernel(), started from the sample.

    A length scale starts at the column's typical deviation times the root of the number of
    columns, at which two rows are about one and a half length scales apart, and has ``shortest``
    times that for its lower bound, as the noise has ``min_noise`` times the variance. A Matern
    kernel of another ``nu`` takes the place of RBF, and a `MixedKernel` that of either where some
    columns are ``categorical``.
    """
    start, variance = scales_of(sample, categorical)
    signal = ConstantKernel(variance, (1e-3 * variance, 1e3 * variance))
    noise = WhiteKernel(0.1 * variance, (min_noise * variance, 10.0 * variance))
    bounds = np.column_stack([shortest * start, 1e3 * start])
    if categorical:
        shape = MixedKernel(start, bounds, nu, categorical)
    else:
        shape = RBF(start, bounds) if np.isinf(nu) else Matern(start, bounds, nu=nu)
    return signal * shape + noise


def refuse_kernel(kernel):
    """ValueError where a user's kernel is none of one function, or its values are not possible."""
    if isinstance(kernel, CompoundKernel):
        raise ValueError(
            "kernel is a CompoundKernel, which has several values for each pair of rows: give the "
            "sum or the product of its kernels."
        )
    with np.errstate(all="ignore"):  # They are logs, also of what is not positive.
        theta = kernel.theta
        low, high = kernel.bounds.T if len(theta) else np.zeros((2, 0))
        least, most = theta_limits(kernel)
    if not (np.isfinite(theta).all() and (low <= high).all()):
        raise ValueError(
            f"kernel={kernel} has a hyperparameter that is not positive, or whose lower bound is "
            f"above its upper one: theta is {theta}, the logs of bounds are {low} and {high}."
        )
    if not ((least <= theta) & (theta <= most)).all():
        raise ValueError(
            f"kernel={kernel} has a hyperparameter that is not between e^{least.min():g} and "
            f"e^{most.max():g}, which is as far as it can be evaluated: scale X or y."
        )


def new_covariance(search, sample, **default):
    """The covariance of a copy of the user's kernel, or of the default one."""
    kernel = search.kernel
    if kernel is None:
        return KernelCovariance(default_kernel(sample, search.categorical, **default))
    refuse_kernel(kernel)
    return KernelCovariance(widened(kernel.clone_with_theta(kernel.theta), sample))


def check_signal(covariance, X):
    """Raise a ValueError where f has no variance at the rows X, or one whose square overflows."""
    covariance.kernel(X[:1])  # The kernel itself raises on a wrong number of length scales.
    variance = covariance.diagonal(covariance.kernel.theta, X)
    if not variance.any():
        raise ValueError(f"kernel has no variance but noise: {covariance.kernel}. Add a signal.")
    if not variance.max() < _LARGEST:
        raise ValueError(
            f"kernel={covariance.kernel} has a variance of {variance.max():.3g} at rows of X, and "
            f"{_LARGEST:g} is the limit: give y in a larger unit, and the kernel with it."
        )


def check_kernel(covariance, sample, likelihood, weighting):
    """Raise a ValueError where a kernel cannot do what other parameters ask."""
    theta, X = covariance.kernel.theta, sample.X
    check_signal(covariance, X)
    noise = covariance.noise(theta, X)
    if likelihood == "student_t" and not noise.any():
        raise ValueError("likelihood='student_t' needs noise: add a WhiteKernel to the kernel.")
    if weighting == "posterior" and not len(theta):
        raise ValueError(
            "weighting='posterior' needs a kernel with free hyperparameters: set 'uniform'."
        )


@phase("search for a kernel")
def fit_hyperparameters(parameters, covariance, whole, subset, rng):
    """Hyperparameters by the marginal likelihood of a subset; the kernel's own where fixed.

    L-BFGS searches on some rows of the subset, and with normal noise goes on from there on all of
    them. Where the whole has more rows, the evidence of a sparse process on many of these refines
    the hyperparameters of a fast kernel.

    Returns theta (d,), in logs, and the `Sample` of the search, with noise according to its errors
    if noise is Student's.
    """
    optimizer, df = parameters.search.optimizer, parameters.student_df

    def exact(some):
        return SparseGP(covariance, None, some.X, "fitc", parameters.form.jitter)

    if optimizer is None or not covariance.kernel.n_dims:
        theta = covariance.kernel.theta
        return theta, subset if df is None else student_weighed(exact(subset), theta, subset, df)
    sample = subset if callable(optimizer) else take(subset, _SEARCH_ROWS, rng)
    n_rows = len(sample.y)
    n_restarts = parameters.search.n_restarts_optimizer
    write(f"kernel: search by the evidence of {n_rows} rows")
    theta = maximise_evidence(covariance, sample, optimizer, n_restarts, rng)
    if df is not None:
        for _ in range(_STUDENT_ROUNDS):
            if out_of_time(SEARCH):
                break
            sample = student_weighed(exact(sample), theta, sample, df, n_rounds=1)
            theta = maximise_evidence(covariance, sample, optimizer, 0, rng, theta)
    elif len(subset.y) > n_rows and not out_of_time(SEARCH):
        theta = maximise_evidence(
            covariance, subset, optimizer, 0, rng, theta, n_evaluations=_MORE_EVALUATIONS
        )
        n_rows = len(subset.y)
    many = min(parameters.search.n_refine, len(whole.weight)) > n_rows
    if many and covariance.is_fast and not out_of_time(SEARCH):
        theta = _refined(parameters, covariance, whole, theta, rng)
    return theta, sample


def _refined(parameters, covariance, whole, theta, rng):
    """Hyperparameters by the evidence of many rows, started from those of few rows."""
    many, df = take(whole, parameters.search.n_refine, rng), parameters.student_df
    write(f"kernel: search by the evidence of {len(many.y)} rows")
    few_inputs, more_inputs = (
        choose("random", many, M, covariance, theta, rng) for M in (_REFINE_INDUCING, MIN_INDUCING)
    )
    # The evidence of "dtc" would not prefer short length scales where they are right.
    kind = "vfe" if parameters.form.approximation == "vfe" else "fitc"
    jitter = max(SEARCH_JITTER, parameters.form.jitter)
    model = SparseGP(covariance, None, few_inputs, kind, jitter)

    def best(model, thetas):
        return best_of(lambda one: sparse_evidence(model, one, many, gradient=False)[0], thetas)

    refined = best(model, with_other_noise(covariance, theta, many))
    for n_evaluations in _REFINE_EVALUATIONS if df is None else _REFINE_STUDENT_EVALUATIONS:
        if df is not None:
            many = student_weighed(model, refined, many, df)
        refined = refine(model, refined, many, n_evaluations)
    # Few inducing inputs may prefer a kernel that more of them do not.
    model = SparseGP(covariance, None, more_inputs, "fitc", jitter)
    return best(model, (theta, refined))


# What to do where the posterior of the hyperparameters has too few effective particles.
FEW_PARTICLES = "raise n_particles, or narrow hyperprior"


def n_particles(parameters, kernel, n_rows, n_stored):
    """How many sets of the kernel's hyperparameters, for so many distinct rows.

    The fewer the rows, the less they say of the kernel. Each particle holds ``n_stored`` numbers.
    """
    if parameters.n_particles != "auto":
        return int(parameters.n_particles)  # True counts as one.
    if parameters.weighting == "posterior":
        return _POSTERIOR_PARTICLES
    is_meant = parameters.search.optimizer is None or not kernel.n_dims
    is_costly = parameters.form.approximation == "full_scale"
    if is_meant or is_costly or n_rows > _MAX_AVERAGED or out_of_time(PARTICLES):
        return 1  # The kernel is meant as it is, or the rows leave little doubt of it.
    most = _MANY_PARTICLES if n_rows <= FEW_ROWS else _FEW_PARTICLES
    return int(np.clip(_MAX_STORED // n_stored, 1, most))


def n_inducing(requested, total, weighting="stacking"):
    """How many inducing inputs for rows of a total weight."""
    if requested != "auto":
        return requested
    if weighting == "posterior":
        return _POSTERIOR_INDUCING
    return int(np.clip(total / 4.0, MIN_INDUCING, _MAX_INDUCING))


def new_model(parameters, covariance, prior, whole, theta, rng):
    """The model, its inducing inputs placed among the rows."""
    n = n_inducing(parameters.form.n_inducing, whole.weight.sum(), parameters.weighting)
    inducing = choose(parameters.form.inducing_init, whole, n, covariance, theta, rng)
    df = parameters.student_df
    kind, options = (SparseGP, {}) if df is None else (StudentSparseGP, {"df": df})
    # Steps carry what rows have said from one factor of K_ZZ to another, by the inverse of it.
    by_steps = parameters.weighting == "posterior"
    return kind(
        covariance,
        prior,
        inducing,
        parameters.form.approximation,
        max(SEARCH_JITTER, parameters.form.jitter) if by_steps else parameters.form.jitter,
        n_targets=whole.n_targets,
        block_weighs=by_steps,
        **options,
    )
