"""The route for more coordinates than a matrix can hold: a Gaussian without correlations."""

import numpy as np

from skpmd.engine.mean_field import mean_field_mirror_descent
from skpmd.logistic._mean_field import diagonal_target
from skpmd.logistic._posterior import GaussianPosterior

COVARIANCE_TYPES = ("auto", "full", "diag")
NO_PARTS = (
    "A Gaussian without correlations takes no data in parts: call fit, or set "
    "covariance_type='full'."
)
_MOST_COORDINATES = 2000  # of a full covariance: each matrix takes 32 MB, and there are several


def is_diagonal(estimator, n_features, n_classes):
    """Whether an estimator is to hold the posterior without correlations.

    ``"auto"`` does so above 2000 coordinates where nothing asks for particles. Asking for both is
    an error.
    """
    asked = {
        f"proposal={estimator.proposal!r}": estimator.proposal != "auto",
        "reweight=False": not estimator.reweight,
        "moves='always'": estimator.moves == "always",
        "prior='horseshoe'": estimator.prior == "horseshoe",
        "prior_scale='evidence'": estimator.prior_scale == "evidence",
    }
    against = [name for name, is_asked in asked.items() if is_asked]
    if estimator.covariance_type == "diag" and against:
        raise ValueError(
            "covariance_type='diag' holds the posterior as a Gaussian, without particles, and "
            f"{against[0]} asks for them: set one or the other."
        )
    if estimator.covariance_type == "auto":
        n_rows = 1 if n_classes == 2 else n_classes
        many = n_rows * (n_features + estimator.fit_intercept) > _MOST_COORDINATES
        return many and not against
    return estimator.covariance_type == "diag"


def takes_parts(estimator):
    """Whether there is a ``partial_fit``; raises AttributeError where there is none."""
    if estimator.covariance_type == "diag":
        raise AttributeError(NO_PARTS)
    return True


def fit_diagonal(estimator, model, rows, names):
    """Set posterior, history and diagnostics by diagonal Gaussian mirror descent.

    Parameters
    ----------
    estimator : estimator
        Has ``temperature``.
    model : LogisticModel or SoftmaxModel
        Its prior has a Gaussian.
    rows : Rows
        All data.
    names : list of str
        Of the coordinates.
    """
    batches, power, d = rows.whole(), 1.0 / estimator.temperature, len(names)
    descent = mean_field_mirror_descent(
        lambda mean, variance: diagonal_target(model, mean, variance, batches, power), d
    )
    n_logits = d // (rows.data.X.shape[1] + model.fit_intercept)
    estimator.posterior_ = GaussianPosterior(
        descent.mean, np.sqrt(descent.variance), names, n_logits
    )
    gamma, change = (np.array(column) for column in zip(*descent.steps, strict=True))
    estimator.history_ = {
        "step": np.arange(1, len(gamma) + 1),
        "step_size": gamma,
        "change": change,
    }
    estimator.n_iter_ = len(gamma)
    reasons = [] if descent.converged else ["the diagonal mirror descent did not converge"]
    none = dict.fromkeys(("ess", "pareto_k", "r_hat", "disagreement", "mean_error"))
    estimator.diagnostics_ = {
        **none,
        "method": "diagonal mirror",
        "interrupted": False,
        "warnings": reasons,
    }
