"""What a fit leaves on an estimator: the posterior, its certificate, the record, the warnings."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpmd.engine.diagnostics import MOST_K, heavy_tail, log_evidence, pareto_k
from skpmd.posterior import Posterior

_LEAST_ESS = 20.0
_LEAST_SHARE = 0.02
_MOST_DISAGREEMENT = 6.0  # standard errors
_MOST_R_HAT = 1.05
_LEAST_DRAWS = 100.0  # effective, of the worst coordinate's mean: an error of a tenth of its sd


def forget(estimator):
    """Drop what an earlier fit left: a fit that is interrupted must not look like a fitted one."""
    for name in [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]:
        delattr(estimator, name)


def set_results(estimator, outcome, *, names=None, group=None, disagreement=None, **diagnostics):
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
    **diagnostics
        Further entries of ``diagnostics_``.
    """
    cloud = outcome.cloud
    chains = outcome.chains
    k = None if np.isnan(cloud.log_pi).any() else pareto_k(cloud.log_ratio)
    missing = _why_no_evidence(estimator, outcome)
    evidence, error = (None, None) if missing else log_evidence(cloud.log_ratio, group)
    posterior = Posterior(
        cloud.theta,
        cloud.log_ratio,
        names=names,
        ess=None if chains is None else chains.ess,
        pareto_k=k,
        r_hat=None if chains is None else chains.r_hat,
        log_evidence=evidence,
        log_evidence_se=error,
        unavailable=missing,
    )
    estimator.posterior_ = posterior
    estimator.history_ = _history(outcome.infos)
    estimator.diagnostics_ = {
        "ess": posterior.ess,
        "pareto_k": k,
        "r_hat": None if chains is None else chains.r_hat,
        "disagreement": disagreement,
        **diagnostics,
        "warnings": (
            _doubts(posterior, cloud.log_ratio, k, _bound_hit(outcome), disagreement)
            if chains is None
            else _doubts_of_chains(chains)
        ),
    }
    vars(estimator).pop("log_evidence_", None)  # of weights that were given up
    if evidence is not None:
        estimator.log_evidence_ = evidence


def warn_of_doubts(estimator, remedy):
    """Warn the caller of ``fit`` of what ``diagnostics_`` holds against the result."""
    reasons = estimator.diagnostics_["warnings"]
    if reasons:
        name = type(estimator).__name__
        message = f"{name}: {'; '.join(reasons)}. Do not trust this posterior; {remedy}."
        # The frames above: fit, scikit-learn's wrapper of it, the caller.
        warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _why_no_evidence(estimator, outcome):
    if outcome.chains is not None:
        return "the particles were moved along gradients, and are not weighted draws"
    if np.isnan(outcome.cloud.log_pi).any():
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


def _doubts(posterior, log_ratio, k, bound_hit, disagreement):
    """Reasons not to trust a result; empty where there is none."""
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
    if bound_hit:
        reasons.append(
            "the bound on splits of a step (max_splits) was reached and the rest of it was taken "
            "in one go: the particles may not have arrived where the posterior is"
        )
    if disagreement is not None and disagreement > _MOST_DISAGREEMENT:
        reasons.append(
            f"the references disagree on the posterior mean by {disagreement:.1f} standard errors"
        )
    return reasons


def _doubts_of_chains(chains):
    """Reasons not to trust Hamiltonian moves; empty where there is none."""
    reasons = []
    if not chains.r_hat <= _MOST_R_HAT:
        reasons.append(
            f"split R-hat is {chains.r_hat:.2f} (above {_MOST_R_HAT}): the chains of the "
            "Hamiltonian moves do not agree"
        )
    if not chains.ess >= _LEAST_DRAWS:
        reasons.append(f"the worst coordinate has {chains.ess:.0f} effective draws")
    return reasons
