"""What a fit leaves on an estimator: the posterior, its certificate, the record, the warnings."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd.engine import loss
from skpmd.engine.diagnostics import MOST_K, heavy_tail, log_evidence, pareto_k
from skpmd.posterior import Posterior

_LEAST_ESS = 20.0
_LEAST_SHARE = 0.02
_MOST_DISAGREEMENT = 6.0  # standard errors
_MOST_ERROR = 0.2  # of a mean, in posterior sds


def forget(estimator):
    """Drop what an earlier fit left: a fit that fails must not look like a fitted one."""
    for name in [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]:
        delattr(estimator, name)
    estimator._stream = None


def set_results(
    estimator, outcome, *, names=None, group=None, disagreement=None, stream=False, **diagnostics
):
    """Set posterior, evidence, history and diagnostics.

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
    stream : bool
        Whether data were given in parts: no evidence then, and the error that redraws have left in
        the means is a reason to warn.
    **diagnostics
        Further entries of ``diagnostics_``.
    """
    cloud = outcome.cloud
    averaged = bool(np.isnan(cloud.log_pi).any())
    k = None if averaged else pareto_k(cloud.log_ratio)
    missing = _why_no_evidence(estimator, outcome, averaged, stream)
    evidence, error = (None, None) if missing else log_evidence(cloud.log_ratio, group)
    posterior = Posterior(
        cloud.theta,
        cloud.log_ratio,
        names=names,
        pareto_k=k,
        log_evidence=evidence,
        log_evidence_se=error,
        unavailable=missing,
    )
    estimator.posterior_ = posterior
    estimator.history_ = _history(outcome.infos)
    estimator.diagnostics_ = {
        "ess": posterior.ess,
        "pareto_k": k,
        "disagreement": disagreement,
        "mean_error": None if outcome.polished else loss.of_cloud(cloud)[1],
        "interrupted": outcome.interrupted,
        **diagnostics,
    }
    estimator.diagnostics_["warnings"] = _doubts(estimator, outcome, stream)
    vars(estimator).pop("log_evidence_", None)  # of the data before these
    if evidence is not None:
        estimator.log_evidence_ = evidence


def warn_of_doubts(estimator, remedy):
    """Warn the caller of what ``diagnostics_`` holds against the result, or hand on his Ctrl-C."""
    if estimator.diagnostics_["interrupted"]:
        raise KeyboardInterrupt
    reasons = estimator.diagnostics_["warnings"]
    if reasons:
        name = type(estimator).__name__
        message = f"{name}: {'; '.join(reasons)}. Do not trust this posterior; {remedy}."
        # The frames above: fit or partial_fit, scikit-learn's wrapper of it, the caller.
        warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _why_no_evidence(estimator, outcome, averaged, stream):
    if stream:
        return "it needs all data in one fit"
    if averaged:
        return "the particles are an average of iterates, not weighted draws"
    if not outcome.polished or estimator.temperature != 1.0:
        return "it needs polish=True and temperature=1"
    if _bound_hit(outcome):
        return "a step could not be taken whole, see the warning"
    return ""


def _bound_hit(outcome):
    return any(info.split_bound_hit for info in outcome.infos)


def _history(infos):
    """Record of the steps as a dict of arrays, one entry per step; ready for a DataFrame."""
    renamed = {"a": "step_size", "b": "likelihood_power"}
    columns = {
        renamed.get(name, name): np.array([getattr(info, name) for info in infos])
        for name in infos[0]._fields
    }
    return {"step": np.arange(1, len(infos) + 1), **columns}


def _doubts(estimator, outcome, stream):
    """Reasons not to trust a result; empty where there is none."""
    posterior, found = estimator.posterior_, estimator.diagnostics_
    k, disagreement, error = found["pareto_k"], found["disagreement"], found["mean_error"]
    log_ratio = outcome.cloud.log_ratio
    reasons, m = [], len(log_ratio)
    least = max(_LEAST_ESS, _LEAST_SHARE * m)
    distinct = len(np.unique(posterior.particles[:, 0]))  # the weights do not know of copies
    if not posterior.ess >= least:
        reasons.append(f"the effective sample size is {posterior.ess:.0f} of {m} particles")
    elif distinct < least:
        reasons.append(f"only {distinct} of {m} particles are distinct: the cloud has collapsed")
    if k is not None and heavy_tail(log_ratio, k):
        reasons.append(
            f"Pareto k-hat is {k:.2f} (above {MOST_K}): the particles miss a tail of the posterior"
        )
    if _bound_hit(outcome):
        reasons.append(
            "the bound on splits of a step (max_splits) was reached and the rest of it was taken "
            "in one go: the particles may not have arrived where the posterior is"
        )
    if disagreement is not None and disagreement > _MOST_DISAGREEMENT:
        reasons.append(
            f"the references disagree on the posterior mean by {disagreement:.1f} standard errors"
        )
    if stream and error > _MOST_ERROR:
        reasons.append(
            f"posterior means may be off by {error:.2f} standard deviations, by redraws of the "
            "particles or because few are effective"
        )
    if outcome.interrupted:
        reasons.append(f"the fit was interrupted after {len(outcome.infos)} steps")
    return reasons
