"""What a fit leaves on an estimator: the posterior, its certificate, the record, the warnings."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd.engine.diagnostics import MOST_K, heavy_tail, log_evidence, pareto_k
from skpmd.posterior import Posterior

_LEAST_ESS = 20.0
_LEAST_SHARE = 0.02
_MOST_DISAGREEMENT = 6.0  # standard errors


def set_results(
    estimator,
    outcome,
    *,
    names=None,
    group=None,
    disagreement=None,
    remedy="raise n_particles or max_iter, or lower step_size",
    **diagnostics,
):
    """Set posterior, evidence, history and diagnostics; warn where the result is poor.

    Parameters
    ----------
    estimator : estimator
        Has ``temperature``; receives ``posterior_``, ``history_``, ``diagnostics_`` and, where it
        is known, ``log_evidence_``.
    outcome : Outcome
        From the loop or from the references.
    names : list of str, optional
        Names of the coordinates.
    group : ndarray of int, optional
        Antithetic pairs, for the standard error of the evidence.
    disagreement : float, optional
        Of the references, in standard errors.
    remedy : str
        What to do about a poor result, for the warning.
    **diagnostics
        Further entries of ``diagnostics_``.
    """
    cloud = outcome.cloud
    exact = outcome.polished and estimator.temperature == 1.0
    averaged = bool(np.isnan(cloud.log_pi).any())
    k = None if averaged else pareto_k(cloud.log_ratio)
    evidence, error = log_evidence(cloud.log_ratio, group) if exact else (None, None)
    reason = "it needs polish=True and temperature=1"
    if averaged:
        reason = "the particles are an average of iterates, not weighted draws"
    posterior = Posterior(
        cloud.theta,
        cloud.log_ratio,
        names=names,
        pareto_k=k,
        log_evidence=evidence,
        log_evidence_se=error,
        unavailable=reason,
    )
    bound_hit = any(info.split_bound_hit for info in outcome.infos)
    reasons = _doubts(posterior.ess, cloud.log_ratio, k, bound_hit, disagreement)
    estimator.posterior_ = posterior
    estimator.history_ = _history(outcome.infos)
    estimator.diagnostics_ = {
        "ess": posterior.ess,
        "pareto_k": k,
        "disagreement": disagreement,
        **diagnostics,
        "warnings": reasons,
    }
    if exact:
        estimator.log_evidence_ = evidence
    elif hasattr(estimator, "log_evidence_"):
        del estimator.log_evidence_
    if reasons:
        name = type(estimator).__name__
        message = f"{name}: {'; '.join(reasons)}. Do not trust this posterior; {remedy}."
        warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _history(infos):
    """Record of the steps as a dict of arrays, one entry per step; ready for a DataFrame."""
    renamed = {"a": "step_size", "b": "likelihood_power"}
    columns = {
        renamed.get(name, name): np.array([getattr(info, name) for info in infos])
        for name in infos[0]._fields
    }
    return {"step": np.arange(1, len(infos) + 1), **columns}


def _doubts(ess, log_ratio, k, bound_hit, disagreement):
    """Reasons not to trust a result; empty where there is none."""
    reasons, m = [], len(log_ratio)
    if not ess >= max(_LEAST_ESS, _LEAST_SHARE * m):
        reasons.append(f"the effective sample size is {ess:.0f} of {m} particles")
    if k is not None and heavy_tail(log_ratio, k):
        reasons.append(
            f"Pareto k-hat is {k:.2f} (above {MOST_K}): the particles miss a tail of the posterior"
        )
    if bound_hit:
        reasons.append(
            "the bound on splits of a step was reached and the rest of it was taken in one go "
            "(max_splits)"
        )
    if disagreement is not None and disagreement > _MOST_DISAGREEMENT:
        reasons.append(
            f"the references disagree on the posterior mean by {disagreement:.1f} standard errors"
        )
    return reasons
