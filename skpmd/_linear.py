"""The model behind a linear classifier's parameters: its prior, its rows of coefficients, names."""

import numpy as np

from skpmd.models.horseshoe import HorseshoePrior
from skpmd.models.logistic import LogisticModel
from skpmd.models.priors import LaplacePrior, NormalPrior, ProductPrior, StudentTPrior
from skpmd.models.softmax import SoftmaxModel

PRIORS = ("normal", "laplace", "student_t", "cauchy", "horseshoe")


def linear_model(estimator, n_features, n_classes, prior_scale):
    """Binary or softmax regression with the prior that an estimator's parameters name.

    Parameters
    ----------
    estimator : estimator
        Has ``prior``, ``prior_df``, ``intercept_prior_scale`` and ``fit_intercept``.
    n_features, n_classes : int
        Of the data. Two classes have one row of coefficients, more have one each.
    prior_scale : float
        Scale of the coefficients' prior; of tau under the horseshoe.

    Returns
    -------
    LogisticModel or SoftmaxModel
        Coordinates are rows of coefficients, each with its intercept last.
    """
    n_rows = 1 if n_classes == 2 else n_classes
    is_intercept = np.zeros((n_rows, n_features + estimator.fit_intercept), dtype=bool)
    is_intercept[:, n_features:] = True
    prior = _prior(estimator, is_intercept.ravel(), float(prior_scale))
    if n_classes == 2:
        return LogisticModel(prior, estimator.fit_intercept)
    return SoftmaxModel(prior, estimator.fit_intercept, n_classes)


def _prior(estimator, is_intercept, prior_scale):
    scale = np.where(is_intercept, float(estimator.intercept_prior_scale), prior_scale)
    if estimator.prior == "normal":
        return NormalPrior(scale)
    if estimator.prior == "horseshoe":
        return HorseshoePrior(scale, is_intercept, prior_scale)
    kinds = {
        "laplace": LaplacePrior,
        "student_t": lambda scale: StudentTPrior(scale, float(estimator.prior_df)),
        "cauchy": lambda scale: StudentTPrior(scale, 1.0),
    }
    on_slopes = kinds[estimator.prior](scale[~is_intercept])
    if not is_intercept.any():
        return on_slopes
    intercepts, slopes = np.flatnonzero(is_intercept), np.flatnonzero(~is_intercept)
    parts = [(slopes, on_slopes), (intercepts, NormalPrior(scale[intercepts]))]
    return ProductPrior(parts, len(scale))


def coordinate_names(model, features, classes):
    """Names of the coordinates of the posterior, of coefficients by row and then of scales."""
    one = [*features, "intercept"] if model.fit_intercept else list(features)
    names = one if len(classes) == 2 else [f"{name}[{label}]" for label in classes for name in one]
    return names + model.prior.scale_names(names)
