"""What a mixture estimator's parameters mean for its rows: scaled columns and the prior of them."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skpmd._base.utils import as_floats
from skpmd.engine.loop import Options
from skpmd.mixture._rows import each_added, over_rows, pieces

# The prior scatter is this share of the rows' covariance, for components are tighter than all rows.
_COVARIANCE_SHARE = 0.01
# The conjugate strategy's share falls once a component has more rows than this, and it stops here.
_FEW_ROWS_EACH, _MIN_SHARE = 10.0, 1e-4
_MEAN_PRECISION = {"conjugate": 1e-4, "parameters": 0.01}
# A column's scale is that of gaps between values this share of a component's rows apart, by so many
# of its quantiles.
_GAP_SHARE, _N_QUANTILES = 0.25, 400
# Gaps so many times wider than the others end a group of values; as much narrower than those of
# this quantile they are of values that are nearly tied.
_APART, _MANY = 10.0, 0.7
# Values count for the prior's defaults as if they were at most so many scales from the median.
_NEAR = 3.0
# The variance that the prior's default starts from is at most so many squared scales.
_WIDEST = 2.0
# Rows beyond all but this share of them, and beyond so many rows, may be mistakes; the prior of the
# means need not reach them. It reaches all others where they are within so many scales.
_RARE, _FEW_MISTAKES, _REACH = 0.01, 2.5, 5.0
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


class PriorParameters(NamedTuple):
    """Parameters of `GaussianMixturePMD` that say what the prior is; see there."""

    n_components: int
    covariance_type: str
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


class MixtureParameters(NamedTuple):
    """Parameters of `GaussianMixturePMD` as they are when a method is called; see there."""

    strategy: str
    n_particles: int | str
    init_params: str
    batch_size: int | str
    max_full_iter: int | str
    tol: float
    verbose_interval: int
    prior: PriorParameters
    options: Options  # Of the loop and of streams.


class Scaler(NamedTuple):
    """Shift and scale of the columns."""

    # (p,): Scaled x is (x - shift) / scale.
    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, sample, weight, n_components, covariance_type, rows=None):
        """Weighted medians, and scales of gaps between near values, as sds of a normal column.

        Far groups, sentinels and mistyped values leave them as they are. A column whose values are
        all alike but for rare ones, fewer than quantiles tell, has the sd of its values, and one
        without variation scale 1. Spherical components have one scale for all columns, of those
        that vary more often where there are any. The sample (n, p) counts ``weight`` (n,) times;
        sds are those of ``rows``, a `RowView` and its weights, where these are more.
        """
        shift, scale = _medians_and_scales(sample, weight, n_components)
        is_spherical, is_rare = covariance_type == "spherical", scale == 0.0
        if is_rare.all() or (is_rare.any() and not is_spherical):
            scale = np.where(is_rare, _sds(*(rows or (sample, weight)), shift), scale)
        if is_spherical:
            largest = scale.max() or 1.0  # Squares of tiny scales would underflow.
            scale = np.full_like(scale, largest * np.sqrt(np.mean((scale / largest) ** 2)))
        return cls(shift, np.where(scale == 0.0, 1.0, scale))

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


def _medians_and_scales(X, weight, n_components):
    """Weighted medians of columns, and their scales, each (p,); a scale is 0 without variation.

    Gaps are between quantiles that are a share of a component's rows apart. Half of them are
    smaller, so that gaps between groups do not count; where groups are far apart, a gap is that of
    a larger share of the values of one. Of values that are tied, or nearly so beside the gaps of
    many others, those others stand for all as squares do. A few values, of which most rows have
    one, leave gaps wider than the standard deviation, which is the most. The scale is 1 for a
    standard normal column.
    """
    step = max(_GAP_SHARE / n_components, 1.0 / len(X))
    n = max(_N_QUANTILES, int(np.ceil(4.0 / step)))
    ahead = min(int(np.ceil(step * n)), n - 1)
    at = (np.arange(n) + 0.5) / n
    values, normal = _quantiles(X, weight, at), ndtri(at)
    median = 0.5 * (values[(n - 1) // 2] + values[n // 2])
    gaps, scale = values[ahead:] - values[:-ahead], np.zeros(X.shape[1])
    # Rounding leaves a constant column of 1e9 gaps of 1e-7.
    present = gaps > 10.0 * np.finfo(float).eps * np.abs(median)
    present &= gaps > np.quantile(gaps, _MANY, axis=0) / _APART
    for j in np.flatnonzero(present.any(axis=0)):
        typical, share = np.median(gaps[present[:, j], j]), np.sqrt(present[:, j].mean())
        step = min(int(ahead * _n_groups(gaps[:, j] <= _APART * typical, ahead)), n - 1)
        scale[j] = share * typical / np.median(normal[step:] - normal[:-step])
    return median, np.minimum(scale, _sds(X, weight, np.average(X, axis=0, weights=weight)))


def _n_groups(near, ahead):
    """Effective number of groups of a column's quantiles, of which each near gap joins two."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], near, [0]])))
    sizes = ends[1::2] - ends[::2] + ahead
    return sizes.sum() ** 2 / (sizes**2).sum()


def medians(X, weight):
    """Weighted medians of columns, as those of a `Scaler`."""
    return _medians_and_scales(X, weight, 1)[0]


def _sds(X, weight, centre):
    """Weighted standard deviations of all rows around a centre; 0 where rounding leaves more."""
    sds = np.sqrt(over_rows(partial(_variance, weight.sum(), centre), X, weight, add=np.add))
    return np.where(sds <= 10.0 * np.finfo(float).eps * np.abs(centre), 0.0, sds)


def _variance(total, centre, X, weight):
    """Weighted variances of the columns around a centre."""
    variance = np.zeros(X.shape[1])
    for some in pieces(X):
        variance += (weight[some] / total) @ (X[some] - centre) ** 2
    return variance


def reach_of(X, weight, all_rows=False):
    """Largest distance of scaled rows (n, p) from 0 in each column, but for rows that are rare."""
    X = np.abs(X)
    if all_rows:
        return X.max(axis=0)
    place = 1.0 - max(_RARE, _FEW_MISTAKES / len(X))
    return _quantiles(X, weight, np.array([max(place, 0.0)]))[0]


def drawn_in(X, weight):
    """Scaled rows (n, p) whose rare values far from 0 are as near as the others."""
    reach = limits_of(X, weight)
    return np.clip(X, -reach, reach)


def limits_of(X, weight):
    """Where `drawn_in` takes far values to, (p,)."""
    return np.maximum(reach_of(X, weight), _REACH)


def _quantiles(X, weight, at):
    """Weighted quantiles of columns, each the value of a row; shape (len(at), p)."""
    if (weight == weight[0]).all():  # Places are those of all columns.
        places = np.ceil(at * len(X) - _ROUNDING).astype(int) - 1
        return np.sort(X, axis=0)[np.maximum(places, 0)]
    out = np.empty((len(at), X.shape[1]))
    for j, column in enumerate(X.T):
        order = np.argsort(column, kind="stable")
        total = np.cumsum(weight[order])
        places = np.searchsorted(total, (at - _ROUNDING) * total[-1], side="left")
        out[:, j] = column[order[np.minimum(places, len(X) - 1)]]
    return out


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
    if parameters.prior.component_prior == "independent":
        if parameters.strategy == "conjugate":
            raise ValueError(
                "component_prior='independent' is not conjugate: set strategy='parameters' or "
                "component_prior='normal_wishart'."
            )
        return "parameters"
    return "conjugate" if parameters.strategy == "auto" else parameters.strategy


def prior_of(parameters, X, weight, scaler, strategy, sample=None, total=None):
    """The prior, in scaled columns, that an estimator's parameters and rows come to.

    X (n, p) holds scaled rows, as an array or a `RowView`, and ``weight`` (n,) how often each
    counts. They are a sample of ``total`` rows, or all there are where that is None; ``sample``, an
    array and its weights, stands for them where that is not None. Some defaults differ between the
    strategies, "conjugate" and "parameters".
    """
    sample = (X, weight) if sample is None else sample
    _refuse_unused(parameters)
    p, K, kind = X.shape[1], parameters.n_components, parameters.weight_concentration_prior_type
    concentration, mean = parameters.weight_concentration_prior, np.zeros(p)
    if parameters.mean_prior is not None:
        with np.errstate(over="ignore"):
            mean = scaler.transform(_array("mean_prior", parameters.mean_prior, (p,)))
        _refuse_far("mean_prior", mean, _MAX_MEAN, "standard deviations away from the mean")
    precision = parameters.mean_precision_prior
    if parameters.mean_scale_prior is not None:
        mean_scale = _scales(parameters.mean_scale_prior, p) / scaler.scale
    elif parameters.component_prior == "independent":
        mean_scale = _spread(*sample)
    else:
        mean_scale = np.ones(p)  # Without a meaning.
    return MixturePrior(
        n_components=K,
        covariance_type=parameters.covariance_type,
        weights_type=kind,
        concentration=1.0 / K if concentration is None else float(concentration),
        discount=float(parameters.discount) if kind == "pitman_yor" else 0.0,
        component_prior=parameters.component_prior,
        mean=mean,
        mean_precision=(
            _mean_precision(*sample, parameters.covariance_type, strategy)
            if precision is None
            else float(precision)
        ),
        mean_scale=mean_scale,
        df=_df(parameters, p),
        covariance=_covariance(parameters, X, weight, scaler, strategy, total or weight.sum()),
    )


def _mean_precision(X, weight, kind, strategy):
    """kappa: the prior of the means is so wide that groups far from the median are not drawn to it.

    A group at a distance d adds kappa d^2 to its scatter. A tied scatter has all of them, even
    those of a single row.
    """
    reach = reach_of(X, weight, all_rows=kind == "tied").max()
    near = _REACH * (np.sqrt(X.shape[1]) if kind == "spherical" else 1.0)
    return _MEAN_PRECISION[strategy] * (near / max(reach, near)) ** 2


def _spread(X, weight):
    """Standard deviations of scaled rows, without rare values far away; 1 without variation."""
    X = drawn_in(X, weight)
    sds = np.sqrt(_variance(weight.sum(), np.average(X, axis=0, weights=weight), X, weight))
    return np.where(sds > 0.0, sds, 1.0)


def _df(parameters, p):
    """nu: by default one degree of freedom more than the least, of a matrix or of a variance."""
    if parameters.degrees_of_freedom_prior is None:
        return {"diag": 1.0, "spherical": 1.0 / p}.get(parameters.covariance_type, float(p))
    df = float(parameters.degrees_of_freedom_prior)
    lower = p - 1 if parameters.covariance_type in ("full", "tied") else 0
    if df < lower + _MIN_DF:
        raise ValueError(
            f"The parameter 'degrees_of_freedom_prior' should be greater than {lower}, by "
            f"{_MIN_DF} at least, but got {df:.3f}: raise it, or leave it None for the "
            "default."
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


def _covariance_of(X, weight, matrix, near=_NEAR):
    """Weighted covariance of scaled rows, some at a time, values far from the median drawn in.

    Without ``matrix`` it is the variances.
    """
    mean, second = over_rows(
        partial(_moments, weight.sum(), matrix, near), X, weight, add=each_added
    )
    return second - (np.outer(mean, mean) if matrix else mean**2)


def _moments(total, matrix, near, X, weight):
    """Weighted means of the columns and of their products, or of their squares."""
    p = X.shape[1]
    mean, second = np.zeros(p), np.zeros((p, p) if matrix else p)
    for some in pieces(X):
        part, share = np.clip(X[some], -near, near), weight[some] / total
        mean += share @ part
        second += (part.T * share) @ part if matrix else share @ part**2
    return mean, second


def _covariance(parameters, X, weight, scaler, strategy, total):
    """Psi; what is added to its diagonal keeps components on equal rows proper."""
    p, kind, independent = (
        X.shape[1], parameters.covariance_type, parameters.component_prior == "independent",
    )  # fmt: skip
    if parameters.covariance_prior is None:
        share = _covariance_share(parameters, total, strategy)
        matrix = kind in ("full", "tied")
        # With independent components the prior of correlations is uniform.
        # One column may have all of the variance that spherical components have in each.
        near = _NEAR * (np.sqrt(p) if kind == "spherical" else 1.0)
        covariance = _covariance_of(X, weight, matrix and not independent, near)
        if kind == "spherical":
            covariance = covariance.mean(keepdims=True)
        if not independent:
            covariance = share * _no_wider_than_gaps(covariance)
        if matrix and independent:
            covariance = np.diag(covariance)
        elif kind == "spherical":
            covariance = covariance[0]
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


def _no_wider_than_gaps(covariance):
    """Covariance of scaled columns, or variances, that groups far from each other do not widen."""
    if covariance.ndim == 1:
        return np.minimum(covariance, _WIDEST)
    factor = np.sqrt(_WIDEST / np.maximum(np.diag(covariance), _WIDEST))
    return covariance * np.outer(factor, factor)


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
