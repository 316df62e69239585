"""What a fit leaves on an estimator: the posterior, its certificate, the record, the warnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skpmd._base.estimator import ParticleEstimator, result
from skpmd._base.steps import Records
from skpmd._base.utils import warn
from skpmd._typing import Array
from skpmd.engine.diagnostics import MAX_K, MAX_R_HAT, evidence_of, heavy_tail, pareto_k
from skpmd.engine.importance import MAX_DISAGREEMENT
from skpmd.engine.mirror import StepInfo
from skpmd.engine.particles import effective_sample_size
from skpmd.posterior import Posterior
from skpmd.proposals.hmc import TARGET_ESS

# A posterior is warned of below these effective numbers of particles and shares of them,
_MIN_ESS, _MIN_SHARE = 20.0, 0.02
# where there could be more below so many: the largest error of ten means is then .25 sds or so.
_ENOUGH = 100.0
# above this error of a mean, in sds, and of chains below so many effective draws: a mean then errs
# by a tenth of its sd.
_MAX_ERROR, _MIN_DRAWS = 0.2, 100.0
_OF_NUMBERS = "the effective sample size is", "Pareto k-hat is", "R-hat is", "posterior means may"
_CAVEAT = "it is a product of {}, and no row has weighed it"
_NO_ROW = (
    "it is merged from densities of shards, and no row has weighed it: give X and y to merge, or "
    "see diagnostics_['product_pareto_k'] and what else diagnostics_ says of shards"
)


class Remedies(NamedTuple):
    """What to do, in words, where there are too few draws; it depends on how they are made."""

    few: str = "raise n_particles"  # Weighted particles.
    chains: str = "raise n_particles"  # Chains that move hardly at all.


OF_STREAMS = Remedies(few="raise n_particles, or give the rows in larger parts")
OF_STEPS = Remedies(few="raise n_particles or max_iter, or lower step_size")


class Results(NamedTuple):
    """What an estimator shows of a fit."""

    posterior: Posterior  # The weighted particles, with their diagnostics.
    records: Records  # Of the steps.
    # How far to trust the posterior; ``"warnings"`` lists what speaks against it.
    diagnostics: dict
    log_evidence: float | None = None  # Log marginal likelihood, where it is known.


class Shown(NamedTuple):
    """What a posterior shows of its particles; see `Posterior` for the others."""

    # (m, d): The particles as the user wants to see them; by default as they are.
    coordinates: np.ndarray | None = None
    names: list | None = None  # Of the coordinates.
    variables: dict | None = None
    coords: dict | None = None
    support: tuple | None = None
    log_prior: Callable | None = None
    frame: Any = None  # Takes the coordinates to the given units.


_AS_THEY_ARE = Shown()


def results_of(
    outcome, records=None, *, temperature=1.0, shown=_AS_THEY_ARE, stream=False, merged=None,
    remedies=None, **diagnostics,
):  # fmt: skip
    """Posterior, evidence, records and diagnostics of an outcome of any inference method.

    ``temperature`` is 1 / power of the likelihood; the evidence is known at 1 only. In a ``stream``
    data were given in parts: there is no evidence then, and the error that rejuvenations have left
    in the means is a reason to warn. ``merged`` says what densities a posterior is a product of
    where no row has weighed it: its k-hat, which speaks of the product alone, is called
    ``product_pareto_k`` then. ``remedies`` are `Remedies`, by default to raise ``n_particles``, and
    in a stream also larger parts. ``records`` are those of the steps of all calls, by default those
    of the outcome. Further keywords become entries of ``diagnostics``.
    """
    particles, chains = outcome.particles, outcome.chains
    missing = _why_no_evidence(outcome, temperature, stream)
    if merged is not None:
        missing, remedies = _NO_ROW, Remedies()
    evidence, error = (None, None) if missing else evidence_of(outcome)
    k, of_product = _pareto_k(particles), {}
    if k is None and outcome.evidence is not None:
        k = np.nan  # Of particles that moves have made equal the weights say nothing.
    if merged is not None:
        k, of_product = None, {"product_pareto_k": k}
    r_hat = None if chains is None else chains.r_hat
    coordinates, frame = shown.coordinates, shown.frame
    is_own = coordinates is None or coordinates is particles.theta
    coordinates = particles.theta if is_own else coordinates
    found = convergence_warnings(outcome, stream, remedies)
    # What the posterior's own numbers tell, it tells by itself.
    concerns = [text for text in found if not text.startswith(_OF_NUMBERS)]
    concerns += _not_weighed(outcome, stream, merged)
    posterior = Posterior(
        coordinates if frame is None else frame.inward(coordinates),
        particles.log_ratio,
        names=shown.names,
        # Chains may have made more draws than there are particles.
        ess=None if chains is None else min(chains.ess, float(len(particles.theta))),
        pareto_k=k,
        r_hat=r_hat,
        log_evidence=evidence,
        log_evidence_se=error,
        unavailable=missing,
        caveat=None if merged is None else _CAVEAT.format(merged),
        variables=shown.variables,
        coords=shown.coords,
        weighting="posterior" if temperature == 1.0 else f"posterior at temperature {temperature}",
        log_joint=_log_joint(particles, frame) if is_own else None,
        support=shown.support,
        log_prior=shown.log_prior,
        frame=frame,
        concerns=concerns,
    )
    diagnostics = {
        "ess": posterior.ess,
        "pareto_k": k,
        "r_hat": r_hat,
        "disagreement": outcome.findings.disagreement,
        "mean_error": outcome.mean_error,
        "interrupted": outcome.interrupted,
        **of_product,
        **outcome.findings.notes,
        **diagnostics,
        "warnings": found,
    }
    records = Records().extended(outcome.infos) if records is None else records
    return Results(posterior, records, diagnostics, evidence)


class ParticleResults(ParticleEstimator):
    """Base of estimators whose ``_state`` has ``results``, a `Results`."""

    @result
    def posterior_(self) -> Posterior:
        """Posterior, the weighted particles with their diagnostics."""
        return self._state.results.posterior

    @result
    def history_(self) -> dict[str, Array]:
        """Record of the steps, a dict of ndarray."""
        return history_of(self._state.results.records)

    @result
    def diagnostics_(self) -> dict[str, Any]:
        """How far to trust the posterior, a dict."""
        return self._state.results.diagnostics

    @result
    def log_evidence_(self) -> float:
        """Log marginal likelihood in nats; raises AttributeError where it is not known."""
        if self._state.results.log_evidence is None:
            return self.posterior_.log_evidence  # raises, and says why
        return self._state.results.log_evidence

    def _set_state(self, state):
        """Take over a new state, whose diagnostics say whether ``max_time`` ended the call."""
        super()._set_state(state)
        state.results.diagnostics["out_of_time"] = bool(self._ended)

    def _warn_or_interrupt(self, remedy=""):
        """Warn the user of what ``diagnostics_`` holds against the result, or hand on Ctrl-C.

        ``remedy`` is what to do in any case; each reason may say what to do about it.
        """
        found = self._state.results.diagnostics
        self._conclude(found["warnings"], remedy, found["interrupted"])

    def _warn_of_one_row(self, n, remedy):
        """Warn where a fit has one row, of which the units of default priors are not known."""
        if n != 1:
            return
        reason = (
            "there is one row, which does not tell how y and the columns vary: default priors take "
            f"their standard deviations to be 1. Give two rows or more, or {remedy}"
        )
        self.diagnostics_["warnings"].append(reason)
        self.posterior_.concerns.append(reason)
        warn(f"{type(self).__name__}: {reason}.", UserWarning)


def _not_weighed(outcome, stream, merged):
    """What there is to say of particles that have not been weighed by all rows, a list of str."""
    error, of_rows = outcome.mean_error, outcome.reweighted or outcome.chains is not None
    if of_rows or merged is not None:
        return []
    known = "by how much they are off is not known"
    if error is not None:
        known = (
            f"their means may be off by {error:.2f} standard deviations by rejuvenations and few "
            "particles, or by more where the steps have not gone all the way"
        )
    if not stream:
        return [
            "the particles are not reweighted: they are where the steps have brought them, which "
            f"need not be where the posterior is, and {known}. "
            + ("Give the fit more time" if outcome.ended_early else "Set reweight=True")
        ]
    # A stream has no rows to weigh by; its account of errors says how far it is off.
    if error is None or error > _MAX_ERROR:
        return [f"the particles of a stream are not weighed by all of its rows, and {known}"]
    return []


def _log_joint(particles, frame):
    """Log of the density that particles are weighed by, up to a constant; None where unknown.

    It is one of coordinates as given, for particles in those of the frame, if there is one.
    """
    if np.isnan(particles.log_pi).any():
        return None
    found = particles.log_ratio + particles.log_pi
    return found if frame is None else found - varying(frame.log_jacobian(particles.theta))


def varying(log_jacobian):
    """What varies of log determinants: zeros where all are the same, and where a map is flat."""
    with np.errstate(invalid="ignore"):  # Of infinite ones.
        gap = log_jacobian - np.max(log_jacobian)
    return np.where(np.isfinite(log_jacobian), gap, 0.0)


def _pareto_k(particles):
    """k-hat, None where the density that the particles came from is not known."""
    return None if np.isnan(particles.log_pi).any() else pareto_k(particles.log_ratio)


def _why_no_evidence(outcome, temperature, stream):
    if stream:
        return "it needs all data in one fit"
    if outcome.chains is not None:
        return "the particles were moved along gradients, and are not weighted draws"
    if outcome.evidence is None and np.isnan(outcome.particles.log_pi).any():
        return "the particles are an average of iterates, not weighted draws"
    if not outcome.reweighted or temperature != 1.0:
        return "it needs reweight=True and temperature=1"
    if _bound_hit(outcome):
        return "a step could not be taken whole, see the warning"
    return outcome.findings.no_evidence


def _bound_hit(outcome):
    return any(info.substep_bound_hit for info in outcome.infos)


def history_of(records):
    """The last steps as a dict of arrays, one entry per step; ready for a DataFrame.

    What only some steps have recorded is nan for the others.
    """
    infos = records.last
    renamed = {"a": "step_size", "b": "likelihood_power"}
    fields = infos[0]._fields if infos else StepInfo._fields
    columns = {
        renamed.get(name, name): np.array([getattr(info, name) for info in infos])
        for name in fields
        if name != "extra"
    }
    extras = [getattr(info, "extra", {}) for info in infos]
    for name in dict.fromkeys(name for extra in extras for name in extra):
        columns[name] = np.array([extra.get(name, np.nan) for extra in extras])
    return {"step": records.numbers(), **columns}


def convergence_warnings(outcome, stream=False, remedies=None):
    """Reasons not to trust an outcome, a list of str with what to do; empty where there is none."""
    remedies = remedies or (OF_STREAMS if stream else Remedies())
    if outcome.chains is None:
        reasons = _of_weights(outcome, remedies.few)
    else:
        reasons = _of_chains(outcome, remedies.chains)
    reasons += outcome.findings.reasons
    if stream:
        if outcome.error_terms is not None and np.isnan(outcome.error_terms).any():
            reasons.append(
                "what rejuvenations of the particles have lost is not known, for the fit before "
                "was interrupted: call fit"
            )
        error = outcome.mean_error
        if error is not None and error > _MAX_ERROR:
            reasons.append(
                f"posterior means may be off by {error:.2f} standard deviations, or more if the "
                "rows come sorted, by rejuvenations of the particles or because few are effective: "
                + remedies.few
            )
    if outcome.interrupted:
        reasons.append(f"the fit was interrupted after {len(outcome.infos)} steps")
    return reasons


def _of_weights(outcome, remedy):
    log_ratio, disagreement = outcome.particles.log_ratio, outcome.findings.disagreement
    reasons, m = [], len(log_ratio)
    ess, k = effective_sample_size(log_ratio), _pareto_k(outcome.particles)
    least = max(_MIN_ESS, _MIN_SHARE * m, min(_ENOUGH, 0.5 * m))
    distinct = len(np.unique(outcome.particles.theta[:, 0]))  # the weights do not know of copies
    if not ess >= least:
        reasons.append(f"the effective sample size is {ess:.0f} of {m} particles: {remedy}")
    elif distinct < least:
        reasons.append(
            f"only {distinct} of {m} particles are distinct, so that they have collapsed: {remedy}"
        )
    if k is not None and heavy_tail(log_ratio, k):
        reasons.append(
            f"Pareto k-hat is {k:.2f} (above {MAX_K}), so that the particles miss a tail of the "
            f"posterior: {remedy}"
        )
    if _bound_hit(outcome):
        reasons.append(
            "the bound on substeps was reached and the rest of a step was taken in one go, so that "
            "the particles may not have arrived where the posterior is: raise max_substeps or "
            "max_iter, or lower step_size"
        )
    if outcome.findings.n_left_out:
        reasons.append(
            f"the particles have left out {outcome.findings.n_left_out} of the modes that a search "
            "has found: raise n_particles"
        )
    if disagreement is not None and disagreement > MAX_DISAGREEMENT:
        reasons.append(
            f"the proposals disagree on the posterior mean by {disagreement:.1f} standard errors: "
            "raise n_particles"
        )
    return reasons


def _of_chains(outcome, remedy):
    chains, m, reasons = outcome.chains, len(outcome.particles.theta), []
    if not chains.r_hat <= MAX_R_HAT:
        reasons.append(
            f"R-hat is {chains.r_hat:.4g} (above {MAX_R_HAT}), so that the chains of the "
            f"Hamiltonian moves do not agree: {remedy}"
        )
    if not chains.ess >= _MIN_DRAWS:
        # Chains that have all the draws they were to make are too few, others move too little.
        few = TARGET_ESS * m < _MIN_DRAWS
        reasons.append(
            f"the worst coordinate has {chains.ess:.0f} effective draws: "
            + ("raise n_particles" if few else remedy)
        )
    if chains.warming_up and outcome.ended_early:
        reasons.append("the Hamiltonian moves ended in their warm-up")
    elif chains.warming_up:
        reasons.append(
            "the Hamiltonian moves ended in their warm-up, for they need very short steps: "
            + remedy
        )
    return reasons
