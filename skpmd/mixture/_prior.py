"""What a mixture estimator's parameters mean for its rows: scaled columns and the prior of them."""

from functools import partial
from typing import NamedTuple

import numpy as np

from skpmd._base.utils import as_floats
from skpmd.engine.loop import Options
from skpmd.mixture._rows import each_added, over_rows, pieces

# The prior scatter is this share of the rows' covariance, for components are tighter than all rows.
_COVARIANCE_SHARE = 0.01
# The conjugate strategy's share falls once a component has more rows than this, and it stops here.
_FEW_ROWS_EACH, _MIN_SHARE = 10.0, 1e-4
_MEAN_PRECISION = {"conjugate": 1e-4, "parameters": 0.01}
# An eigenvalue below this share of reg_covar says that reg_covar has been lost in rounding.
# A prior may be so many sds of the rows away from them, and so many of their variances wide.
_MAX_MEAN, _MAX_SCATTER = 1e7, 1e15
_SINGULAR = 1e-3
# Rounding may leave an eigenvalue negative by this share of the largest one.
_ROUNDING = 1e-10
# Degrees of freedom exceed their bound by at least this, or draws of a gamma would underflow; with
# more than the most rounding loses the rows.
_MIN_DF, _MAX_DF = 0.1, 1e15
_CONJUGATE_ONLY = ("mean_precision_prior", "degrees_of_freedom_prior")


class MixtureParameters(NamedTuple):
    """Parameters of `GaussianMixturePMD` as they are when a method is called; see there."""

    n_components: int
    strategy: str
    covariance_type: str
    n_particles: int | str
    weighting: str
    weight_concentration_prior_type: str
    weight_concentration_prior: float | None
    discount: float
    component_prior: str
    mean_prior: np.ndarray | None
    mean_precision_prior: float | None
    mean_scale_prior: float | np.ndarray | None
    degrees_of_freedom_prior: float | None
    covariance_prior: float | np.ndarray | None
    reg_covar: float
    init_params: str
    batch_size: int | str
    max_iter: int
    max_full_iter: int | str
    tol: float
    step_size: float
    step_offset: float
    step_decay: float
    ess_threshold: float
    total_samples: float | None
    verbose_interval: int
    options: Options  # Of the loop.


class Scaler(NamedTuple):
    """Shift and scale of the columns."""

    # (p,): Scaled x is (x - shift) / scale.
    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weight, covariance_type):
        """Weighted means and standard deviations; one scale for all columns where it has to be.

        A column without variation has scale 1. The rows (n, p) are an array or a `RowView`.
        """
        total = weight.sum()
        shift, low, high = over_rows(partial(_mean_and_range, total), X, weight, add=_both)
        variance = over_rows(partial(_variance, total, shift), X, weight, add=np.add)
        # Rounding leaves a constant column of 1e9 a standard deviation of 1e-7.
        rounding = 10.0 * np.finfo(float).eps * np.maximum(high, -low)
        constant = (low == high) | (np.sqrt(variance) <= rounding)
        if covariance_type == "spherical":
            variance = np.full_like(variance, np.where(constant, 0.0, variance).mean())
            constant = variance == 0.0
        return cls(shift, np.where(constant, 1.0, np.sqrt(variance)))

    @property
    def log_jacobian(self):
        """What is added to the log density of a scaled row to give that of the row."""
        return -np.log(self.scale).sum()

    def transform(self, X, out=None):
        """Rows, or locations, in scaled columns; in the array ``out``, if there is one."""
        out = np.subtract(X, self.shift, out=out)
        out /= self.scale
        return out

    def inverse_transform(self, X):
        """Scaled rows, or locations, in the user's columns."""
        return X * self.scale + self.shift


def _mean_and_range(total, X, weight):
    """Weighted means of the columns, of this total weight, their minima and their maxima."""
    mean = np.zeros(X.shape[1])
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for some in pieces(X):
        part = X[some]
        mean += (weight[some] / total) @ part
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
    return mean, low, high


def _both(one, other):
    """Means, minima and maxima of two parts of the rows."""
    (mean, low, high), (more, lower, higher) = one, other
    return mean + more, np.minimum(low, lower), np.maximum(high, higher)


def _variance(total, mean, X, weight):
    """Weighted variances of the columns around their means."""
    variance = np.zeros(X.shape[1])
    for some in pieces(X):
        variance += (weight[some] / total) @ (X[some] - mean) ** 2
    return variance


class MixturePrior(NamedTuple):
    """The prior hyperparameters of a mixture, in scaled columns.

    Normal-Wishart components, with kappa = ``mean_precision``, nu = ``df`` and Psi =
    ``covariance``: mu_k given its precision has mean ``mean`` and precision kappa times that;

    * full: Lambda_k ~ Wishart(nu, Psi^-1), so that E[Lambda_k] = nu Psi^-1;
    * tied: one Lambda for all components, of the same prior;
    * diag: lambda_kj ~ Gamma(nu / 2, rate Psi_j / 2), each column on its own;
    * spherical: lambda_k ~ Gamma(p nu / 2, rate p Psi / 2).
    """

    n_components: int  # K.
    covariance_type: str  # {"full", "tied", "diag", "spherical"}: Form of the covariances.
    # {"dirichlet_distribution", "dirichlet_process", "pitman_yor"}: Prior of the mixing weights.
    weights_type: str
    concentration: float  # Of each component (Dirichlet), or of the whole process.
    discount: float  # Of the Pitman-Yor process, 0 elsewhere.
    component_prior: str  # {"normal_wishart", "independent"}: Prior of means and covariances.
    mean: np.ndarray  # (p,): Prior mean of the locations.
    mean_precision: float  # kappa.
    # (p,): Standard deviations of the locations, ``component_prior="independent"`` only.
    mean_scale: np.ndarray
    df: float  # nu.
    # (p, p), (p,) or (): Psi, of the covariance type; with ``"independent"`` the squared scales of
    # the half-normal standard deviations.
    covariance: np.ndarray

    @property
    def n_coordinates(self):
        """Free parameters: weights, means and covariances, as scikit-learn counts them."""
        K, p = self.n_components, len(self.mean)
        of_covariances = {"full": K * p * (p + 1) // 2, "tied": p * (p + 1) // 2, "diag": K * p}
        return K - 1 + K * p + of_covariances.get(self.covariance_type, K)


def strategy_of(parameters):
    """Which strategy ``"auto"`` stands for: the one that scales, where the prior is conjugate.

    Draws of all parameters take seconds for a hundred rows, and minutes for a thousand: nobody who
    asks for a mixture in general waits for them.
    """
    if parameters.component_prior == "independent":
        if parameters.strategy == "conjugate":
            raise ValueError(
                "component_prior='independent' is not conjugate: set strategy='parameters' or "
                "component_prior='normal_wishart'."
            )
        return "parameters"
    return "conjugate" if parameters.strategy == "auto" else parameters.strategy


def prior_of(parameters, X, weight, scaler, strategy, total=None):
    """The prior, in scaled columns, that an estimator's parameters and rows come to.

    X (n, p) holds scaled rows, as an array or a `RowView`, and ``weight`` (n,) how often each
    counts. They are a sample of
    ``total`` rows, or all there are where that is None. Some defaults differ between the
    strategies, "conjugate" and "parameters".
    """
    _refuse_unused(parameters)
    p, K, kind = X.shape[1], parameters.n_components, parameters.weight_concentration_prior_type
    concentration, mean = parameters.weight_concentration_prior, np.zeros(p)
    if parameters.mean_prior is not None:
        with np.errstate(over="ignore"):
            mean = scaler.transform(_array("mean_prior", parameters.mean_prior, (p,)))
        _refuse_far("mean_prior", mean, _MAX_MEAN, "standard deviations away from the mean")
    precision, mean_scale = parameters.mean_precision_prior, np.ones(p)
    if parameters.mean_scale_prior is not None:
        mean_scale = _scales(parameters.mean_scale_prior, p) / scaler.scale
    return MixturePrior(
        n_components=K,
        covariance_type=parameters.covariance_type,
        weights_type=kind,
        concentration=1.0 / K if concentration is None else float(concentration),
        discount=float(parameters.discount) if kind == "pitman_yor" else 0.0,
        component_prior=parameters.component_prior,
        mean=mean,
        mean_precision=_MEAN_PRECISION[strategy] if precision is None else float(precision),
        mean_scale=mean_scale,
        df=_df(parameters, p),
        covariance=_covariance(parameters, X, weight, scaler, strategy, total or weight.sum()),
    )


def _df(parameters, p):
    if parameters.degrees_of_freedom_prior is None:
        return float(p)
    df = float(parameters.degrees_of_freedom_prior)
    lower = p - 1 if parameters.covariance_type in ("full", "tied") else 0
    if df < lower + _MIN_DF:
        raise ValueError(
            f"The parameter 'degrees_of_freedom_prior' should be greater than {lower}, by "
            f"{_MIN_DF} at least, but got {df:.3f}: raise it, or leave it None for the number of "
            "columns."
        )
    if df > _MAX_DF:
        raise ValueError(
            f"The parameter 'degrees_of_freedom_prior' should be at most {_MAX_DF:g}, but got "
            f"{df:g}: beside it no row counts."
        )
    return df


def _refuse_unused(parameters):
    """A prior's parameter that the other form of prior has is an error, not ignored."""
    kind = parameters.component_prior
    other = _CONJUGATE_ONLY if kind == "independent" else ("mean_scale_prior",)
    for name in other:
        if getattr(parameters, name) is not None:
            raise ValueError(
                f"{name} has no meaning with component_prior={kind!r}: leave it None, or set the "
                "other component_prior."
            )


def _scales(values, p):
    scales = _array("mean_scale_prior", values, () if np.ndim(values) == 0 else (p,))
    scales = np.broadcast_to(scales, (p,))
    if not (np.isfinite(scales).all() and (scales > 0.0).all()):
        raise ValueError(f"mean_scale_prior must be positive and finite, got {values!r}.")
    return scales


def _covariance_share(parameters, total, strategy):
    """Share of the rows' covariance that the prior scatter has by default.

    Components of few rows take their shape from all rows; those of many have their own.
    """
    if parameters.component_prior == "independent":
        return 1.0
    if strategy == "parameters":
        return _COVARIANCE_SHARE
    few = _FEW_ROWS_EACH * parameters.n_components / total
    return float(np.clip(few**2, _MIN_SHARE, 1.0))


def _covariance_of(X, weight):
    """Weighted covariance of scaled rows, whose means are next to zero, some rows at a time."""
    mean, second = over_rows(partial(_moments, weight.sum()), X, weight, add=each_added)
    return second - np.outer(mean, mean)


def _moments(total, X, weight):
    """Weighted means of the columns and of their products."""
    mean, second = np.zeros(X.shape[1]), np.zeros((X.shape[1], X.shape[1]))
    for some in pieces(X):
        part, share = X[some], weight[some] / total
        mean += share @ part
        second += (part.T * share) @ part
    return mean, second


def _covariance(parameters, X, weight, scaler, strategy, total):
    """Psi; what is added to its diagonal keeps components on equal rows proper."""
    p, kind, independent = (
        X.shape[1], parameters.covariance_type, parameters.component_prior == "independent",
    )  # fmt: skip
    if parameters.covariance_prior is None:
        share = _covariance_share(parameters, total, strategy)
        covariance = share * _covariance_of(X, weight)
        if kind == "diag":
            covariance = np.diag(covariance).copy()
        elif kind in ("full", "tied") and independent:
            covariance = np.diag(np.diag(covariance))  # The prior of correlations is uniform.
        elif kind == "spherical":
            covariance = np.array(np.trace(covariance) / p)
    else:
        with np.errstate(over="ignore"):
            covariance = _given_covariance(parameters.covariance_prior, p, kind, scaler)
        _refuse_far("covariance_prior", covariance, _MAX_SCATTER, "times the variances")
        if independent:
            _refuse_correlations(covariance)
    matrix = kind in ("full", "tied")
    covariance = covariance + parameters.reg_covar * (np.eye(p) if matrix else 1.0)
    values = np.linalg.eigvalsh(covariance) if matrix else np.atleast_1d(covariance)
    rounding = np.finfo(float).tiny + (np.finfo(float).eps * values.max() if matrix else 0.0)
    if not values.min() > _SINGULAR * parameters.reg_covar + rounding:
        raise ValueError(
            f"The prior scatter is singular with reg_covar={parameters.reg_covar:g}, for columns "
            "do not vary or depend on each other linearly: raise reg_covar, or give "
            "covariance_prior."
        )
    return covariance


def _refuse_correlations(covariance):
    if covariance.ndim == 2 and np.count_nonzero(covariance - np.diag(np.diag(covariance))):
        raise ValueError(
            "covariance_prior must be diagonal with component_prior='independent', whose "
            "correlations are uniform: the diagonal has the squared scales of the half-normal "
            "standard deviations."
        )


def _given_covariance(values, p, kind, scaler):
    shape = {"full": (p, p), "tied": (p, p), "diag": (p,), "spherical": ()}[kind]
    covariance = _array("covariance_prior", values, shape)
    if kind in ("full", "tied"):
        eigenvalues = np.linalg.eigvalsh(covariance)
        rounding = _ROUNDING * max(eigenvalues[-1], 0.0)
        if not np.allclose(covariance, covariance.T) or eigenvalues[0] <= -rounding:
            raise ValueError("covariance_prior must be symmetric and positive definite.")
        return covariance / np.outer(scaler.scale, scaler.scale)
    if not (covariance > 0.0).all():
        raise ValueError(f"covariance_prior must be positive with covariance_type={kind!r}.")
    return covariance / (scaler.scale**2 if kind == "diag" else scaler.scale[0] ** 2)


def _refuse_far(name, values, most, what):
    """ValueError where a prior is so far from the rows that sums with both lose the rows."""
    largest = np.abs(values).max()
    if not largest <= most:
        raise ValueError(
            f"{name} is {largest:.3g} {what} of the rows, and it may be {most:g} at most: give it "
            "in the units of the columns of X."
        )


def _array(name, values, shape):
    values = as_floats(name, values)
    if values.shape != shape:
        raise ValueError(
            f"The parameter '{name}' should have the shape of {shape}, but got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite.")
    return values
