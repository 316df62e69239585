"""``prior_scale="evidence"``: the scale under which the data are most probable."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from skpmd.engine.diagnostics import log_evidence
from skpmd.logistic._importance import importance_sample, proposal_components
from skpmd.logistic._make_model import linear_model

LOW, HIGH = 1e-3, 1e2  # for standardised features
_DRAWS = 1000  # a round of each scale that is tried
_PER_DECADE = 2  # scales tried before the search: the evidence may have more than one top
_TOLERANCE = 0.01  # of the logarithm of the scale
_TOLD_APART = 1.0  # nats; less is "not worth more than a bare mention" (Kass and Raftery 1995)


class ScaleChoice(NamedTuple):
    """The best scale, its log evidence, and what is to be said against it ("" if nothing is)."""

    scale: float
    log_evidence: float
    warning: str


def best_scale(evidence, low=LOW, high=HIGH):
    """Scale in [low, high] of the highest evidence.

    A few scales to the decade are tried, then the logarithm of the scale is searched between the
    neighbours of the best of them. Where an end of the range is as good as the best, to within one
    nat, the data do not determine the scale, whether the evidence still rises there or is flat:
    the choice then carries a doubt.

    Parameters
    ----------
    evidence : callable
        scale -> log evidence; anything not finite counts as the worst there is.
    low, high : float
        Range of the search.

    Returns
    -------
    ScaleChoice
        The best of all scales tried.
    """
    tried = {}

    def loss(log_scale):
        value = evidence(float(np.exp(log_scale)))
        tried[log_scale] = value if np.isfinite(value) else -np.inf
        return -tried[log_scale]

    ends = np.log([low, high])
    grid = np.linspace(*ends, 1 + int(np.ceil(_PER_DECADE * np.log10(high / low))))
    for log_scale in grid:
        loss(log_scale)
    best = max(tried, key=tried.get)
    if tried[best] == -np.inf:
        raise ValueError(f"the log evidence is not finite at any scale from {low:g} to {high:g}.")
    bracket = np.clip([best - (grid[1] - grid[0]), best + (grid[1] - grid[0])], *ends)
    minimize_scalar(loss, bounds=bracket, method="bounded", options={"xatol": _TOLERANCE})
    best = max(tried, key=tried.get)
    as_good = [f"{np.exp(end):g}" for end in ends if tried[best] - tried[end] < _TOLD_APART]
    warning = ""
    if as_good:
        warning = (
            f"the evidence hardly tells prior_scale={np.exp(best):.3g} from {' or '.join(as_good)}"
            ", the end of the range searched: the data do not determine the scale"
        )
    return ScaleChoice(float(np.exp(best)), float(tried[best]), warning)


def scale_by_evidence(make_model, batches, n_particles, rng, low=LOW, high=HIGH):
    """Scale of a model's prior by the evidence that weighted references give.

    Every scale is weighed with the same random numbers. The noise of one evidence is then nearly
    that of the next, and the search does not chase it.

    Parameters
    ----------
    make_model : callable
        scale -> Model with that scale of its prior.
    batches : list of Batch
        All data.
    n_particles : int
        Draws in a round.
    rng : numpy.random.Generator
        Source of the seed of the draws.
    low, high : float
        Range of the search.

    Returns
    -------
    ScaleChoice
        As of `best_scale`.
    """
    seed = rng.integers(2**63)

    def evidence(scale):
        model = make_model(scale)
        pilot = proposal_components(model, batches, "auto", len(model.prior.scale), 1.0)
        rng = np.random.default_rng(seed)
        outcome = importance_sample(model, batches, *pilot, n_particles, 1.0, rng)
        return log_evidence(outcome.particles.log_ratio, outcome.pair)[0]

    return best_scale(evidence, low, high)


def chosen_scale(estimator, rows, n_classes, rng):
    """Scale of the prior that an estimator's parameters ask for, with a warning if in doubt.

    Parameters
    ----------
    estimator : estimator
        Has ``prior_scale`` and the parameters that `linear_model` reads.
    rows : Rows
        All data.
    n_classes : int
        Of the data.
    rng : numpy.random.Generator
        Source of randomness, spent by ``"evidence"`` only.

    Returns
    -------
    float
        The scale.
    """
    if estimator.prior_scale != "evidence":
        return estimator.prior_scale
    if estimator.prior == "horseshoe":
        raise ValueError(
            "prior_scale='evidence' is not for prior='horseshoe', which learns its scales "
            "itself: set a number."
        )
    n_features = rows.data.X.shape[1]
    choice = scale_by_evidence(
        lambda scale: linear_model(estimator, n_features, n_classes, scale),
        rows.whole(),
        _DRAWS,
        rng,
    )
    if choice.warning:
        message = f"{type(estimator).__name__}: {choice.warning}. Set prior_scale to a number."
        # The frames above: fit, scikit-learn's wrapper of it, the caller.
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return choice.scale
