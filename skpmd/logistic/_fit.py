"""Inference methods from a model and all its data to a posterior: steps, weights, moves."""

from typing import NamedTuple

import numpy as np

from skpmd._base.progress import bar_of_steps
from skpmd._base.results import convergence_warnings
from skpmd.engine.diagnostics import pareto_k
from skpmd.engine.loop import Outcome, run
from skpmd.engine.particles import draw_prior, effective_sample_size
from skpmd.engine.rejuvenation import rejuvenate
from skpmd.logistic._hmc import move_from_proposals, move_hierarchical
from skpmd.logistic._importance import draw_proposals, importance_sample, proposal_components

# Moves follow where a smaller share of the first round is effective. There (0.03 to 0.2 on real
# data, 0.5 to 1 where the weights were right) further rounds reached the number of effective draws,
# but with sds 16 to 32 % too small and without a warning.
_MIN_SHARE = 0.3
_FOR_STEPS = "raise n_particles or max_iter, lower step_size, or widen the prior"
_FOR_WEIGHTS = "set moves='auto', raise n_particles, or lower prior_scale"
_FOR_MOVES = "raise n_particles, lower prior_scale, or leave out features that few rows have"


class FitResult(NamedTuple):
    """A posterior, and how it was found.

    Attributes
    ----------
    outcome : Outcome
        Particles and diagnostics.
    n_iter : int
        Passes of stochastic steps, or rounds of reweighting, to which moves add one.
    method : str
        The inference method.
    remedy : str
        What to do if the outcome is not to be trusted.
    importance : Outcome or None
        The reweighted particles that moves have replaced.
    """

    outcome: Outcome
    n_iter: int
    method: str
    remedy: str
    importance: Outcome | None = None

    @property
    def notes(self):
        """Entries of ``diagnostics_`` beside those of the outcome."""
        if self.importance is None:
            return {"method": self.method}
        log_ratio = self.importance.particles.log_ratio
        return {
            "method": self.method,
            "importance_ess": effective_sample_size(log_ratio),
            "importance_pareto_k": pareto_k(log_ratio),
        }


def find_posterior(model, rows, parameters, options, rng, start=None):
    """The posterior by the inference method that the parameters and the model ask for.

    Parameters
    ----------
    model : Model
        Has a ``prior``; offers ``log_joint_gradient`` and, if its prior allows, a
        ``gaussian_target``.
    rows : Rows
        All data.
    parameters : LogisticParameters
        Of the estimator.
    options : Options
        Parameters of the loop.
    rng : numpy.random.Generator
        Source of all randomness.
    start : Particles, optional
        Where stochastic steps start instead of the prior or the proposals.

    Returns
    -------
    FitResult
        Outcome and method.
    """
    if start is not None and start.theta.shape[1] != model.n_coordinates:
        raise ValueError(
            f"warm_start=True needs the features and classes of the last fit: it had "
            f"{start.theta.shape[1]} coordinates, these data have {model.n_coordinates}. Set "
            "warm_start=False."
        )
    proposal, hierarchical = parameters.proposal, not model.prior.has_gaussian
    by_steps = proposal == "prior" or not options.reweight
    if by_steps and parameters.moves == "always":
        raise ValueError(
            "moves='always' is not for proposal='prior' or reweight=False, which take stochastic "
            "steps: set one or the other."
        )
    if by_steps or (hierarchical and parameters.moves == "never"):
        source = "prior" if hierarchical else proposal
        return _by_steps(model, rows, source, options, rng, start, parameters.verbose)
    if hierarchical:
        n, power = options.n_particles, 1.0 / options.temperature
        outcome = move_hierarchical(model, rows.whole(), n, power, rng, parameters.verbose)
        method = "Hamiltonian moves from a normal prior's posterior"
        return FitResult(outcome, 1, method, _FOR_MOVES)
    return _by_weights_or_moves(model, rows.whole(), parameters, options, rng)


def _by_steps(model, rows, source, options, rng, start, verbose):
    """Stochastic mirror steps from given particles, the prior or the mixture of proposals."""
    if start is not None:
        if np.isnan(start.log_pi).any():  # Mirror steps need pi, which moves and averages lack.
            start, _ = rejuvenate(start, model, options.settings, rng)
    elif source == "prior":
        start = draw_prior(model, options.n_particles, rng)
    else:
        components, shares = _mixture(model, rows.whole(), source, options)
        start = draw_proposals(model, components, shares, options.n_particles, rng)
    with bar_of_steps(options, rows, verbose) as report:
        outcome = run(model, rows, start, options, rng, report)
    method = f"mirror steps from {name_of(source)}"
    return FitResult(outcome, options.max_iter, method, _FOR_STEPS)


def _by_weights_or_moves(model, batches, parameters, options, rng):
    """Importance reweighting of draws from the proposals; where it fails, moves from there."""
    n, power, moves = options.n_particles, 1.0 / options.temperature, parameters.moves
    components, shares = _mixture(model, batches, parameters.proposal, options)
    source, importance = name_of(parameters.proposal), None
    if moves != "always":
        min_share = 0.0 if moves == "never" else _MIN_SHARE
        importance = importance_sample(model, batches, components, shares, n, power, rng, min_share)
        method = f"importance reweighting of {source}"
        fit = FitResult(importance, len(importance.infos), method, _FOR_WEIGHTS)
        failed = importance.infos[0].ess < min_share * n or bool(convergence_warnings(importance))
        if moves == "never" or importance.interrupted or not failed:
            return fit
    try:
        outcome = move_from_proposals(model, batches, components, n, power, rng, parameters.verbose)
    except KeyboardInterrupt:
        if importance is None:
            raise
        return fit._replace(outcome=importance._replace(interrupted=True))
    infos = outcome.infos if importance is None else importance.infos + outcome.infos
    method = f"Hamiltonian moves from {source}"
    outcome = outcome._replace(infos=infos)
    return FitResult(outcome, len(infos), method, _FOR_MOVES, importance)


def _mixture(model, batches, proposal, options):
    d, power = len(model.prior.scale), 1.0 / options.temperature
    return proposal_components(model, batches, proposal, d, power)


def name_of(proposal):
    """What ``diagnostics_["method"]`` calls the density that particles were first drawn from."""
    return "prior" if proposal == "prior" else f"proposals: {proposal}"
