"""``prior_scale="evidence"``: the scale under which the data are most probable."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from skpmd._runtime.call import best_in_time, phase, share_of_time
from skpmd.engine.diagnostics import log_evidence
from skpmd.linear._fit import proposal_components
from skpmd.linear._make_model import linear_model
from skpmd.proposals.importance_rounds import importance_sample

LOW, HIGH = 1e-3, 1e2  # Scales between these are searched, for standardised features.
_N_DRAWS = 1000  # Each round at a scale has this many draws.
# So many scales per decade are tried before the search: the evidence may have several maxima.
_PER_DECADE = 2
_TOLERANCE = 0.01  # The search ends at this accuracy of the logarithm of the scale.
# A difference of fewer nats is "not worth more than a bare mention" (Kass and Raftery 1995).
_MIN_DIFFERENCE = 1.0
_SHARE = 0.5  # Of the time of a fit that has a limit, the search may take so much.
_SEARCH = "the search for the prior's scale"


class ScaleChoice(NamedTuple):
    """The best scale, its log evidence where known, and what speaks against it ("" if nothing)."""

    scale: float
    log_evidence: float | None = None
    warning: str = ""


def best_scale(evidence):
    """Scale in [LOW, HIGH] of the highest evidence, the best of all scales tried.

    A few scales in each decade are tried, then the logarithm of the scale is searched between the
    neighbours of the best of them. Where an end of the range is as good as the best, to within one
    nat, the data do not determine the scale, whether the evidence still rises there or is flat: the
    choice then carries a warning.

    ``evidence`` maps a scale to its log evidence; what is not finite counts as minus infinity.
    """
    tried = {}

    def negative_evidence(log_scale):
        value = float(evidence(float(np.exp(log_scale))))
        return -value if np.isfinite(value) else np.inf

    ends = np.log([LOW, HIGH])
    grid = np.linspace(*ends, 1 + int(np.ceil(_PER_DECADE * np.log10(HIGH / LOW))))

    def search(timed):
        def noted(log_scale):
            value = timed(log_scale)
            tried[log_scale] = -value
            return value

        for log_scale in sorted(grid, key=abs):  # Where time ends it, scales near 1 come first.
            noted(log_scale)
        best = max(tried, key=tried.get)
        if tried[best] > -np.inf:
            bracket = np.clip([best - (grid[1] - grid[0]), best + (grid[1] - grid[0])], *ends)
            minimize_scalar(noted, bounds=bracket, method="bounded", options={"xatol": _TOLERANCE})

    best_in_time(search, negative_evidence, _SEARCH)
    best = max(tried, key=tried.get)
    if tried[best] == -np.inf:
        raise ValueError(f"the log evidence is not finite at any scale from {LOW:g} to {HIGH:g}.")
    known = [end for end in ends if end in tried]  # Of a search without time they may not be.
    as_good = [f"{np.exp(end):g}" for end in known if tried[best] - tried[end] < _MIN_DIFFERENCE]
    warning = ""
    if as_good:
        warning = (
            f"the evidence hardly prefers prior_scale={np.exp(best):.3g} to {' or '.join(as_good)}"
            ", the end of the range searched: the data do not determine the scale"
        )
    return ScaleChoice(float(np.exp(best)), float(tried[best]), warning)


def scale_by_evidence(make_model, batches, n_particles, rng):
    """Scale of a model's prior by the evidence that importance sampling gives; see `best_scale`.

    Every scale has the same random numbers. The errors of their evidences are then nearly the same,
    and do not mislead the search. ``make_model`` maps a scale to a model with that scale of its
    prior, and there are ``n_particles`` draws in a round.
    """
    seed = rng.integers(2**63)

    def evidence(scale):
        model = make_model(scale)
        mixture = proposal_components(model, batches, "auto", 1.0)
        rng = np.random.default_rng(seed)
        outcome = importance_sample(model, batches, mixture, n_particles, 1.0, rng)
        return log_evidence(outcome.particles.log_ratio, outcome.pair)[0]

    return best_scale(evidence)


def chosen_scale(parameters, rows, response, shift, rng):
    """`ScaleChoice` by the evidence of `Rows`."""
    if parameters.prior == "horseshoe":
        raise ValueError(
            "prior_scale='evidence' is not for prior='horseshoe', which learns its scales "
            "itself: set a number."
        )
    n_features = rows.data.X.shape[1]
    with share_of_time(_SHARE), phase("search for the prior's scale"):
        return scale_by_evidence(
            lambda scale: linear_model(parameters, n_features, response, scale, shift),
            rows.whole(),
            _N_DRAWS,
            rng,
        )
