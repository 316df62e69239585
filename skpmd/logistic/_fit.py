"""The ways from a model and all its data to a posterior: steps, weights, moves."""

from typing import NamedTuple

import numpy as np

from skpmd._base.progress import bar_of_steps
from skpmd._base.results import convergence_warnings
from skpmd.engine.diagnostics import pareto_k
from skpmd.engine.loop import Outcome, run
from skpmd.engine.particles import draw_prior, effective_sample_size
from skpmd.engine.rejuvenation import rejuvenate_by_kernels
from skpmd.logistic._hmc import move_from_references, move_hierarchical
from skpmd.logistic._importance import draw_proposals, importance_sample, proposal_components

# Of a first round that is effective. Where it was below (0.03 to 0.2 on real data, 0.5 to 1 where
# weights were right), rounds that made up the number were silent about sds 16 to 32 % too small.
_LEAST_SHARE = 0.3
_FOR_STEPS = "raise n_particles or max_iter, lower step_size, or widen the prior"
_FOR_WEIGHTS = "set moves='auto', raise n_particles, or lower prior_scale"
_FOR_MOVES = "raise n_particles, lower prior_scale, or leave out features that few rows have"


class Found(NamedTuple):
    """A posterior, and how it was come by.

    Attributes
    ----------
    outcome : Outcome
        Cloud and certificate.
    n_iter : int
        Passes of steps, rounds of weighing, one for moves.
    path : str
        The way taken.
    remedy : str
        What to do if the outcome is in doubt.
    pilot : Outcome or None
        Weights that were given up for moves.
    """

    outcome: Outcome
    n_iter: int
    path: str
    remedy: str
    pilot: Outcome | None = None

    @property
    def notes(self):
        """Entries of ``diagnostics_`` beside those of the outcome."""
        if self.pilot is None:
            return {"method": self.path}
        log_ratio = self.pilot.particles.log_ratio
        ess, k = effective_sample_size(log_ratio), pareto_k(log_ratio)
        return {"method": self.path, "pilot_ess": ess, "pilot_pareto_k": k}


def find_posterior(estimator, model, rows, options, rng, start=None):
    """The posterior by the way that the estimator's parameters and its model ask for.

    Parameters
    ----------
    estimator : estimator
        Has ``proposal``, ``reweight``, ``moves``, ``n_particles``, ``max_iter``, ``temperature``.
    model : Model
        Has a ``prior``; offers ``log_joint_gradient`` and, if its prior allows, a
        ``gaussian_target``.
    rows : Rows
        All data.
    options : Options
        Parameters of the loop.
    rng : numpy.random.Generator
        Source of all randomness.
    start : Particles, optional
        Where stochastic steps start instead of the prior or the references.

    Returns
    -------
    Found
        Outcome and path.
    """
    if start is not None and start.theta.shape[1] != model.n_coordinates:
        raise ValueError(
            f"warm_start=True needs the features and classes of the last fit: it had "
            f"{start.theta.shape[1]} coordinates, these data have {model.n_coordinates}. Set "
            "warm_start=False."
        )
    proposal, power = estimator.proposal, 1.0 / estimator.temperature
    hierarchical = not model.prior.has_gaussian
    by_steps = proposal == "prior" or not estimator.reweight
    if by_steps and estimator.moves == "always":
        raise ValueError(
            "moves='always' is not for proposal='prior' or reweight=False, which take stochastic "
            "steps: set one or the other."
        )
    if by_steps or (hierarchical and estimator.moves == "never"):
        from_prior = proposal == "prior" or hierarchical
        return _by_steps(estimator, model, rows, options, power, rng, from_prior, start)
    if hierarchical:
        n, batches = estimator.n_particles, rows.whole()
        outcome = move_hierarchical(model, batches, n, power, rng, estimator.verbose)
        return Found(outcome, 1, "moves from a normal prior's posterior", _FOR_MOVES)
    return _by_weights_or_moves(estimator, model, rows.whole(), power, rng)


def _by_steps(estimator, model, rows, options, power, rng, from_prior, start):
    """Stochastic mirror steps, from a cloud, the prior or the mixture of references."""
    if start is not None:
        if np.isnan(start.log_pi).any():  # moved or averaged: mirror steps ask for pi
            start = rejuvenate_by_kernels(start, model, options.settings, rng).particles
    elif from_prior:
        start = draw_prior(model, estimator.n_particles, rng)
    else:
        mixture = _mixture(estimator, model, rows.whole(), power)
        start = draw_proposals(model, *mixture, estimator.n_particles, rng)
    with bar_of_steps(options, rows, estimator.verbose) as report:
        outcome = run(model, rows, start, options, rng, report)
    path = f"mirror steps from {'prior' if from_prior else estimator.proposal}"
    return Found(outcome, estimator.max_iter, path, _FOR_STEPS)


def _by_weights_or_moves(estimator, model, batches, power, rng):
    """The polish step on draws from the mixture of references; where it fails, moves from there."""
    components, shares = _mixture(estimator, model, batches, power)
    n = estimator.n_particles
    pilot = None
    if estimator.moves != "always":
        least = 0.0 if estimator.moves == "never" else _LEAST_SHARE
        pilot = importance_sample(model, batches, components, shares, n, power, rng, least)
        path = f"references: {estimator.proposal}"
        found = Found(pilot, len(pilot.infos), path, _FOR_WEIGHTS)
        doubtful = pilot.infos[0].ess < least * n or bool(convergence_warnings(pilot))
        if estimator.moves == "never" or pilot.interrupted or not doubtful:
            return found
    try:
        outcome = move_from_references(model, batches, components, n, power, rng, estimator.verbose)
    except KeyboardInterrupt:
        if pilot is None:
            raise
        return found._replace(outcome=pilot._replace(interrupted=True))
    infos = outcome.infos if pilot is None else pilot.infos + outcome.infos
    path = f"moves from references: {estimator.proposal}"
    return Found(outcome._replace(infos=infos), len(infos), path, _FOR_MOVES, pilot)


def _mixture(estimator, model, batches, power):
    return proposal_components(model, batches, estimator.proposal, len(model.prior.scale), power)
