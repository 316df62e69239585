"""What a mixture estimator's parameters mean for its rows: the prior, in scaled columns."""

from collections import namedtuple
from functools import partial
from typing import NamedTuple

import numpy as np

from skpmd._base.utils import as_floats
from skpmd.mixture._rows import each_added, over_rows, pieces
from skpmd.mixture._scaler import REACH, drawn_in, reach_of, variance_about

# The prior scatter is this share of the rows' covariance, for components are tighter than all rows.
_COVARIANCE_SHARE = 0.01
# The conjugate strategy's share falls once a component has more rows than this, and it stops here.
_FEW_ROWS_EACH, _MIN_SHARE = 10.0, 1e-4
# Full covariances with fewer rows each than so many times their squared number of columns are tried
# with so large a share for each column, too.
_FEW_FOR_MATRICES, _WIDE_SHARE = 2.0, 0.1
_MEAN_PRECISION = {"conjugate": 1e-4, "parameters": 0.01}
# Values count for the prior's defaults as if they were at most so many scales from the median.
_NEAR = 3.0
# The variance that the prior's default starts from is at most so many squared scales.
_WIDEST = 2.0
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


PriorParameters = namedtuple(
    "PriorParameters",
    "n_components covariance_type weight_concentration_prior_type weight_concentration_prior"
    " discount component_prior mean_prior mean_precision_prior mean_scale_prior"
    " degrees_of_freedom_prior covariance_prior reg_covar",
)
PriorParameters.__doc__ = "Parameters that say what the prior is; `GaussianMixturePMD` has each."
MixtureParameters = namedtuple(
    "MixtureParameters",
    "strategy n_particles init_params batch_size max_full_iter tol verbose_interval prior options",
)
MixtureParameters.__doc__ = "Parameters of a call; `GaussianMixturePMD` documents each."


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


def has_two_scatters(parameters, n, p):
    """Whether the rows are to say which of two default scatters suits n of them in p columns.

    The smaller one suits densities of any shape. But it makes a component of about p rows in p
    columns more probable than a group by itself: four groups of 250 rows in 20 columns, seven
    standard deviations apart, became three and such a component.
    """
    K = parameters.n_components
    is_default = parameters.covariance_prior is None and parameters.covariance_type == "full"
    is_larger = _WIDE_SHARE * p > _share(parameters, "conjugate", n)
    return is_default and K > 1 and n < _FEW_FOR_MATRICES * K * p**2 and is_larger


def widened(prior, parameters, total):
    """A prior of ``total`` rows with the larger one of two default scatters."""
    factor = _WIDE_SHARE * len(prior.mean) / _share(parameters, "conjugate", total)
    return prior._replace(covariance=factor * prior.covariance)


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
    near = REACH * (np.sqrt(X.shape[1]) if kind == "spherical" else 1.0)
    return _MEAN_PRECISION[strategy] * (near / max(reach, near)) ** 2


def _spread(X, weight):
    """Standard deviations of scaled rows, without rare values far away; 1 without variation."""
    X = drawn_in(X, weight)
    sds = np.sqrt(variance_about(weight.sum(), np.average(X, axis=0, weights=weight), X, weight))
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


def _covariance_of(X, weight, matrix, near):
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
    p, kind = X.shape[1], parameters.covariance_type
    matrix, independent = kind in ("full", "tied"), parameters.component_prior == "independent"
    if parameters.covariance_prior is None:
        share = _share(parameters, strategy, total)
        covariance = _default_covariance(parameters, X, weight, share)
    else:
        with np.errstate(over="ignore"):
            covariance = _given_covariance(parameters.covariance_prior, p, kind, scaler)
        _refuse_far("covariance_prior", covariance, _MAX_SCATTER, "times the variances")
        if independent:
            _refuse_correlations(covariance)
    _refuse_far("reg_covar", parameters.reg_covar, _MAX_SCATTER, "times the variances")
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


def _default_covariance(parameters, X, weight, share):
    """A share of the covariance of the rows, which groups far from each other do not widen.

    Components of few rows take their shape from all rows; those of many have their own.
    """
    p, kind = X.shape[1], parameters.covariance_type
    # One column may have all of the variance that spherical components have in each.
    near, matrix = _NEAR * (np.sqrt(p) if kind == "spherical" else 1.0), kind in ("full", "tied")
    if parameters.component_prior == "independent":  # The prior of correlations is uniform.
        variances = _covariance_of(X, weight, False, near)
        return np.diag(variances) if matrix else variances.mean() if kind != "diag" else variances
    covariance = _covariance_of(X, weight, matrix, near)
    if matrix:
        factor = np.sqrt(_WIDEST / np.maximum(np.diag(covariance), _WIDEST))
        return share * (covariance * np.outer(factor, factor))
    return share * np.minimum(covariance.mean() if kind == "spherical" else covariance, _WIDEST)


def _share(parameters, strategy, total):
    """Which share of the rows' covariance the default scatter is."""
    if strategy != "conjugate":
        return _COVARIANCE_SHARE
    few = _FEW_ROWS_EACH * parameters.n_components / total
    return float(np.clip(few**2, _MIN_SHARE, 1.0))


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
            f"{name} is {largest:.3g} {what} of the rows, and it may be {most:g} at most: lower "
            "it; means and covariances of priors are in the units of the columns of X."
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
