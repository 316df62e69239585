"""The fit with more coordinates than a matrix can hold: a Gaussian without correlations."""

import numpy as np

from skpmd._base.progress import bar_of_rounds
from skpmd._base.records import Records
from skpmd._base.results import Results
from skpmd.engine.loop import drive
from skpmd.engine.mean_field import mean_field_mirror_descent
from skpmd.linear._design import n_logits
from skpmd.linear._mean_field import mean_field_target
from skpmd.linear._posterior import GaussianPosterior

COVARIANCE_TYPES = ("auto", "full", "diag")
NO_PARTS = (
    "A Gaussian without correlations takes no data in parts: call fit, or set "
    "covariance_type='full'."
)
_NOT_CONVERGED = (
    "the mean-field mirror descent did not converge: bring the columns to one scale, or take a "
    "narrower prior"
)
# With more coordinates than this no full covariance is held: each matrix would take 32 MB.
_MAX_COORDINATES = 2000


def is_mean_field(parameters, n_features, n_classes):
    """Whether the posterior is to be held without correlations.

    ``covariance_type="auto"`` does so above 2000 coordinates where no parameter asks for particles.
    Asking for both is an error.
    """
    requests = {
        f"proposal={parameters.proposal!r}": parameters.proposal != "auto",
        "reweight=False": not parameters.reweight,
        "moves='always'": parameters.moves == "always",
        "prior='horseshoe'": _is(parameters.prior, "horseshoe"),
        "prior_scale='evidence'": _is(parameters.prior_scale, "evidence"),
    }
    against = [name for name, is_set in requests.items() if is_set]
    if parameters.covariance_type == "diag" and against:
        raise ValueError(
            "covariance_type='diag' holds the posterior as a Gaussian, without particles, and "
            f"{against[0]} asks for them: set one or the other."
        )
    if parameters.covariance_type == "auto":
        n_rows = n_logits(n_classes)
        many = n_rows * (n_features + parameters.fit_intercept) > _MAX_COORDINATES
        return many and not against
    return parameters.covariance_type == "diag"


def _is(parameter, name):
    """Whether a parameter, which need not be a str, has this value."""
    return isinstance(parameter, str) and parameter == name


def fit_mean_field(model, rows, power, names, **axes):
    """`Results` with a `GaussianPosterior`, by Gaussian mirror descent without correlations.

    The model's prior must have a Gaussian; ``names`` are those of the coordinates, and ``axes``
    are the variables and coords of the posterior.
    """
    batches, d = rows.whole(), len(names)
    states = mean_field_mirror_descent(
        lambda mean, variance: mean_field_target(model, mean, variance, batches, power), d
    )
    with bar_of_rounds(name="mean-field mirror descent") as report:
        last = drive(states, report)
    n_logits = d // (rows.data.X.shape[1] + model.fit_intercept)
    posterior = GaussianPosterior(last.mean, np.sqrt(last.variance), names, n_logits, **axes)
    diagnostics = {
        **dict.fromkeys(("ess", "pareto_k", "r_hat", "disagreement", "mean_error")),
        "method": "mean-field mirror descent",
        "interrupted": last.interrupted,
        "warnings": [] if last.converged else [_NOT_CONVERGED],
    }
    return Results(posterior, Records().extended(last.infos), diagnostics)
