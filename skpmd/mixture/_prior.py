"""What a mixture estimator's parameters mean for its rows: inner units and the prior in them."""

from typing import NamedTuple

import numpy as np

_COVARIANCE_SHARE = 0.01  # of the rows' covariance: the prior's, where components are tighter
_FEW_ROWS_EACH, _LEAST_SHARE = 10.0, 1e-4  # rows of a component from which it falls, and how far
_MEAN_PRECISION = {"conjugate": 1e-4, "parameters": 0.01}
_SINGULAR = 1e-3  # of reg_covar, which may be lost in rounding
_ROUNDING = 1e-10  # of the largest eigenvalue
_FEW_COORDINATES, _FEW_ROWS = 12, 2000
_LEAST_DF = 0.1  # above the bound: draws of a gamma of half of it are still numbers
_CONJUGATE_ONLY = ("mean_precision_prior", "degrees_of_freedom_prior")


class Units(NamedTuple):
    """Shift and scale of the columns.

    Attributes
    ----------
    shift, scale : ndarray of shape (p,)
        Inner x is (x - shift) / scale.
    """

    shift: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weight, covariance_type):
        """Weighted means and standard deviations; one scale for all columns where it has to be.

        A column without variation has scale 1.
        """
        shift = np.average(X, axis=0, weights=weight)
        variance = np.average((X - shift) ** 2, axis=0, weights=weight)
        # Rounding leaves a constant column of 1e9 a standard deviation of 1e-7.
        constant = np.sqrt(variance) <= 10.0 * np.finfo(float).eps * np.abs(X).max(axis=0)
        if covariance_type == "spherical":
            variance = np.full_like(variance, np.where(constant, 0.0, variance).mean())
            constant = variance == 0.0
        return cls(shift, np.where(constant, 1.0, np.sqrt(variance)))

    @property
    def log_jacobian(self):
        """What is added to the log density of an inner row to give that of the row."""
        return -np.log(self.scale).sum()

    def inner(self, X):
        """Rows in inner units."""
        return (X - self.shift) / self.scale

    def outer(self, X):
        """Inner rows, or locations, in the user's units."""
        return X * self.scale + self.shift


class Problem(NamedTuple):
    """A mixture and its prior, in inner units.

    Normal-Wishart components, with kappa = ``mean_precision``, nu = ``df`` and Psi =
    ``covariance``: mu_k given its precision has mean ``mean`` and precision kappa times that;

    * full: Lambda_k ~ Wishart(nu, Psi^-1), so that E[Lambda_k] = nu Psi^-1;
    * tied: one Lambda for all components, of the same prior;
    * diag: lambda_kj ~ Gamma(nu / 2, rate Psi_j / 2), each column on its own;
    * spherical: lambda_k ~ Gamma(p nu / 2, rate p Psi / 2).

    Attributes
    ----------
    n_components : int
        K.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Form of the covariances.
    weights_type : {"dirichlet_distribution", "dirichlet_process", "pitman_yor"}
        Prior of the mixture weights.
    concentration : float
        Of the Dirichlet, each component's; of the processes, the whole.
    discount : float
        Of the Pitman-Yor process, 0 elsewhere.
    component_prior : {"normal_wishart", "independent"}
        Prior of means and covariances.
    mean : ndarray of shape (p,)
        Prior mean of the locations.
    mean_precision : float
        kappa.
    mean_scale : ndarray of shape (p,)
        Standard deviations of the locations, ``component_prior="independent"`` only.
    df : float
        nu.
    covariance : ndarray of shape (p, p), (p, p), (p,) or ()
        Psi, of the covariance type; with ``"independent"`` the squared scales of the half-normal
        standard deviations.
    """

    n_components: int
    covariance_type: str
    weights_type: str
    concentration: float
    discount: float
    component_prior: str
    mean: np.ndarray
    mean_precision: float
    mean_scale: np.ndarray
    df: float
    covariance: np.ndarray

    @property
    def n_coordinates(self):
        """Free parameters of the mixture, as many as scikit-learn counts."""
        return n_coordinates(self.n_components, len(self.mean), self.covariance_type)


def n_coordinates(n_components, p, covariance_type):
    """Free parameters of a mixture: weights, means and covariances."""
    of_covariances = {
        "full": n_components * p * (p + 1) // 2,
        "tied": p * (p + 1) // 2,
        "diag": n_components * p,
        "spherical": n_components,
    }
    return n_components - 1 + n_components * p + of_covariances[covariance_type]


def strategy_of(estimator, n, p, in_parts):
    """Which strategy ``"auto"`` stands for.

    The conjugate one is exact for one component, and scales; all parameters as coordinates are
    exact for a few of them and few rows.
    """
    if estimator.component_prior == "independent":
        if estimator.strategy == "conjugate":
            raise ValueError(
                "component_prior='independent' is not conjugate: set strategy='parameters' or "
                "component_prior='normal_wishart'."
            )
        return "parameters"
    if estimator.strategy != "auto":
        return estimator.strategy
    d = n_coordinates(estimator.n_components, p, estimator.covariance_type)
    few = d <= _FEW_COORDINATES and n <= _FEW_ROWS and not in_parts
    return "parameters" if few and estimator.n_components > 1 else "conjugate"


def problem_of(estimator, X, weight, units, strategy, total=None):
    """The prior of an estimator for its rows.

    Parameters
    ----------
    estimator : GaussianMixturePMD
        Its parameters.
    X : ndarray of shape (n, p)
        Rows in inner units.
    weight : ndarray of shape (n,)
        How often each counts.
    units : Units
        Of the columns.
    strategy : {"conjugate", "parameters"}
        Some defaults differ.
    total : float, optional
        Rows that these are a sample of; default: these.

    Returns
    -------
    Problem
        In inner units.
    """
    _refuse_unused(estimator)
    p, K, kind = X.shape[1], estimator.n_components, estimator.weight_concentration_prior_type
    concentration = estimator.weight_concentration_prior
    mean = estimator.mean_prior
    if mean is not None:
        mean = (_array("mean_prior", mean, (p,)) - units.shift) / units.scale
    precision = estimator.mean_precision_prior
    mean_scale = estimator.mean_scale_prior
    mean_scale = np.ones(p) if mean_scale is None else _scales(mean_scale, p) / units.scale
    df = float(p) if estimator.degrees_of_freedom_prior is None else _df(estimator, p)
    return Problem(
        K,
        estimator.covariance_type,
        kind,
        1.0 / K if concentration is None else float(concentration),
        float(estimator.discount) if kind == "pitman_yor" else 0.0,
        estimator.component_prior,
        np.zeros(p) if mean is None else mean,
        _MEAN_PRECISION[strategy] if precision is None else float(precision),
        mean_scale,
        df,
        _covariance(estimator, X, weight, units, strategy, total or weight.sum()),
    )


def _df(estimator, p):
    df = float(estimator.degrees_of_freedom_prior)
    least = p - 1 if estimator.covariance_type in ("full", "tied") else 0
    if df < least + _LEAST_DF:
        raise ValueError(
            f"The parameter 'degrees_of_freedom_prior' should be greater than {least}, by "
            f"{_LEAST_DF} at least, but got {df:.3f}: raise it, or leave it None for the number of "
            "columns."
        )
    return df


def _refuse_unused(estimator):
    """A prior's parameter that the other form of prior has is an error, not ignored."""
    own = estimator.component_prior
    other = _CONJUGATE_ONLY if own == "independent" else ("mean_scale_prior",)
    for name in other:
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"{name} has no meaning with component_prior={own!r}: leave it None, or set the "
                "other component_prior."
            )


def _scales(values, p):
    scales = np.broadcast_to(np.asarray(values, dtype=np.float64), (p,))
    if not (np.isfinite(scales).all() and (scales > 0.0).all()):
        raise ValueError(f"mean_scale_prior must be positive and finite, got {values!r}.")
    return scales


def _share(estimator, total, strategy):
    """Share of the rows' covariance that the prior's default has.

    Components of few rows take their shape from all rows; those of many have their own.
    """
    if estimator.component_prior == "independent":
        return 1.0
    if strategy == "parameters":
        return _COVARIANCE_SHARE
    few = _FEW_ROWS_EACH * estimator.n_components / total
    return float(np.clip(few**2, _LEAST_SHARE, 1.0))


def _covariance(estimator, X, weight, units, strategy, total):
    """Psi; what is added to its diagonal keeps components on equal rows proper."""
    p, kind, own = X.shape[1], estimator.covariance_type, estimator.covariance_prior
    if own is None:
        share = _share(estimator, total, strategy)
        centred = X - np.average(X, axis=0, weights=weight)
        covariance = share * (centred.T * (weight / weight.sum())) @ centred
        if kind == "diag":
            covariance = np.diag(covariance).copy()
        elif kind in ("full", "tied") and estimator.component_prior == "independent":
            covariance = np.diag(np.diag(covariance))  # correlations are uniform
        elif kind == "spherical":
            covariance = np.array(np.trace(covariance) / p)
    else:
        covariance = _given_covariance(own, p, kind, units)
        _refuse_correlations(covariance, estimator.component_prior)
    matrix = kind in ("full", "tied")
    covariance = covariance + estimator.reg_covar * (np.eye(p) if matrix else 1.0)
    least = np.linalg.eigvalsh(covariance).min() if matrix else covariance.min()
    if not least > _SINGULAR * estimator.reg_covar + np.finfo(float).tiny:
        raise ValueError(
            f"The prior scatter is singular with reg_covar={estimator.reg_covar:g}, for columns do "
            "not vary or depend on each other linearly: raise reg_covar, or give covariance_prior."
        )
    return covariance


def _refuse_correlations(covariance, component_prior):
    if component_prior == "independent" and covariance.ndim == 2:
        if np.count_nonzero(covariance - np.diag(np.diag(covariance))):
            raise ValueError(
                "covariance_prior must be diagonal with component_prior='independent', whose "
                "correlations are uniform: the diagonal has the squared scales of the half-normal "
                "standard deviations."
            )


def _given_covariance(own, p, kind, units):
    shape = {"full": (p, p), "tied": (p, p), "diag": (p,), "spherical": ()}[kind]
    own = _array("covariance_prior", own, shape)
    if kind in ("full", "tied"):
        values = np.linalg.eigvalsh(own)
        if not np.allclose(own, own.T) or values[0] <= -_ROUNDING * max(values[-1], 0.0):
            raise ValueError("covariance_prior must be symmetric and positive definite.")
        return own / np.outer(units.scale, units.scale)
    if not (own > 0.0).all():
        raise ValueError(f"covariance_prior must be positive with covariance_type={kind!r}.")
    return own / (units.scale**2 if kind == "diag" else units.scale[0] ** 2)


def _array(name, values, shape):
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(
            f"The parameter '{name}' should have the shape of {shape}, but got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite.")
    return values
