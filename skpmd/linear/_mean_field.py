"""Linear models under a Gaussian without correlations, by products with X and its squares alone.

The likelihood of a row x depends on theta ~ N(mean, diag(variance)) through its logits x . theta_k,
which are independent normals with means x . mean_k and variances x^2 . variance_k. So expectations
take O(nnz) numbers, and no d x d matrix: such a fit has more coordinates than a matrix can have.
"""

import numpy as np

from skpmd._base.results import Results
from skpmd._base.steps import Records, bar_of_rounds
from skpmd._runtime.threads import in_order
from skpmd.engine.loop import drive
from skpmd.engine.mean_field import DiagonalTarget, mean_field_mirror_descent
from skpmd.linear._posterior import (
    GaussianPosterior,
    logit_moments,
    products,
    weighted_squares,
    weighted_sum,
)

COVARIANCE_TYPES = ("auto", "full", "diag")
NO_PARTS = (
    "A Gaussian without correlations takes no data in parts: call fit, or set "
    "covariance_type='full'."
)
_NOT_CONVERGED = (
    "the mean-field mirror descent did not converge: bring the columns to one scale, or take a "
    "narrower prior"
)


def mean_field_target(model, mean, variance, batches, b=1.0):
    """Expectations of the log joint density that the mean-field mirror step needs.

    The model offers ``expected_logits``, and its prior ``expected``. The Gaussian has mean and
    variance of shape (d,); at ``variance=None`` the values are those at the mean itself. b is the
    power of the likelihood. Returns a `DiagonalTarget`.
    """
    ones = model.fit_intercept
    sd = None if variance is None else np.sqrt(variance)
    gradient, of_prior = model.prior.expected(mean, sd)
    precision, couplings = of_prior.copy(), []

    def of(batch):
        X, y, weight, *_ = batch
        shift = model.shift_of(X)
        centre, spread = logit_moments(mean, variance, X, ones, shift)
        slope, curvature, coupled = model.expected_logits(centre, spread, y)
        weight = b * weight[:, None]
        by_slope = weighted_sum(X, weight * slope, ones, shift)
        return by_slope, weighted_squares(X, weight * curvature, ones, shift), (weight, coupled)

    for slope, curvature, coupling in in_order(of, batches):
        gradient += slope
        precision += curvature
        couplings.append(coupling)

    def product(u):
        def times(pair):
            (X, *_), (weight, coupled) = pair
            shift = model.shift_of(X)
            return weighted_sum(X, weight * coupled(products(X, u, ones, shift)), ones, shift)

        total = of_prior * u
        for part in in_order(times, zip(batches, couplings, strict=True)):
            total += part
        return total

    return DiagonalTarget(gradient, precision, product)


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
