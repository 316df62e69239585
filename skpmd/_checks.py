"""Reasons not to trust a posterior, and what to change."""

import numpy as np

from skpmd.engine.diagnostics import MAX_K, heavy_tail

_FEW_DRAWS, _MAX_R_HAT, _LARGE_SE = 100, 1.05, 0.5


def kind(posterior):
    """What particles are that are not the posterior, by choice of the method; "" by default."""
    if len(posterior.weights) == 1:
        return "a point estimate, whose intervals have no width"
    return "" if posterior.weighting.startswith("posterior") else posterior.weighting


def findings(posterior):
    """Findings as sentences (list of str), the most serious first; empty if there are none.

    What is so by choice of the method, whatever the rows are, is none: see `kind`.
    """
    found = [text for text in (_of_chains(posterior), _of_weights(posterior)) if text]
    if posterior.weighting != "posterior" and posterior.weighting.startswith("posterior"):
        found.append(
            f"The particles' weights are no plain posterior weights ({posterior.weighting}): the "
            "probability of an interval of a coordinate is not its posterior probability."
        )
    if posterior.ess < _FEW_DRAWS and not kind(posterior):
        error = 1.0 / np.sqrt(posterior.ess)
        found.append(
            f"The effective sample size is {posterior.ess:.0f}: means have an error of {error:.2f} "
            "posterior standard deviations, and ends of intervals more. Raise n_particles."
        )
    error = getattr(posterior, "log_evidence_se", None)
    if error is not None and error > _LARGE_SE:
        found.append(
            f"The standard error of log_evidence is {error:.2f} nats: a difference between models "
            "of less than three of these says nothing."
        )
    found += [text[0].upper() + text[1:].rstrip(".") + "." for text in posterior.concerns]
    if posterior.caveat is not None:
        found.append(f"Of this posterior: {posterior.caveat}.")
    return found


def _of_chains(posterior):
    """What R-hat says, or None."""
    r_hat = getattr(posterior, "r_hat", None)
    if r_hat is None or r_hat <= _MAX_R_HAT:
        return None
    return (
        f"R-hat is {r_hat:.2f}, above {_MAX_R_HAT}: chains are at different places. Scale the "
        "columns, narrow the prior, or raise n_particles."
    )


def _of_weights(posterior):
    """What k-hat says, or None."""
    k = getattr(posterior, "pareto_k", None)
    if k is None or not heavy_tail(posterior.log_weights, k):
        return None
    return (
        f"k-hat is {k:.2f}, above {MAX_K}: a few particles carry the averages, and the posterior "
        "may be where none is. Raise n_particles, or narrow the prior."
    )
