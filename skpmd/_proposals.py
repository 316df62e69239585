"""From a model that offers a Gaussian target to weighted particles, without stochastic steps."""

import numpy as np

from skpmd._base import Outcome
from skpmd.engine.cloud import Cloud
from skpmd.engine.gaussian import descend, laplace
from skpmd.engine.mirror import StepInfo, log_likelihood
from skpmd.engine.references import Reference, disagreement, draw_mixture, weigh
from skpmd.engine.skew import skewed

PROPOSALS = ("auto", "prior", "laplace", "mirror")
_ENOUGH = 0.6  # effective share of n_particles at which no further round is drawn
_MAX_ROUNDS = 10
_TAIL_DF = 5.0  # Student tails of the widest reference
_MIRROR_SHARES, _LAPLACE_SHARES = (0.75, 0.25), (0.5, 0.5)


def references(model, batches, proposal, d, power):
    """References named by a proposal, with their shares in a mixture.

    ``"laplace"`` is the normal approximation at the mode, skewed, and itself with Student tails;
    ``"mirror"`` the Gaussian mirror descent's fixed point, skewed and plain; ``"auto"`` all four.

    Parameters
    ----------
    model : Model
        Offers ``gaussian_target`` and ``skew_axes``.
    batches : list of Batch
        All data.
    proposal : {"auto", "laplace", "mirror"}
        Which references.
    d : int
        Dimension.
    power : float
        Power of the likelihood.

    Returns
    -------
    references : list of Reference
        Components.
    shares : ndarray
        Their shares.
    """

    def log_joint(theta):
        return model.log_prior(theta) + power * log_likelihood(model, theta, batches)

    mode = laplace(model, batches, np.zeros(d), power)
    components, shares = [], []
    if proposal in ("auto", "mirror"):
        mirror = descend(model, batches, mode, power)
        components.append(skewed(mirror, model, log_joint, batches, power))
        components.append(Reference(mirror.mean, mirror.chol))
        shares += _MIRROR_SHARES
    if proposal in ("auto", "laplace"):
        components.append(skewed(mode, model, log_joint, batches, power))
        components.append(Reference(mode.mean, mode.chol, _TAIL_DF))
        shares += [0.25 * share for share in _LAPLACE_SHARES] if shares else _LAPLACE_SHARES
    return components, np.array(shares) / sum(shares)


def draw_references(model, components, shares, n_particles, rng):
    """A cloud at q = mixture of the references: r = 0."""
    theta, log_pi = draw_mixture(components, shares, n_particles, rng)
    m = len(theta)
    return Cloud(theta, np.zeros(m), log_pi, model.log_prior(theta), np.empty((m, 0)))


def weigh_references(model, batches, components, shares, n_particles, power, rng):
    """The polish step on draws from the mixture, in rounds until enough of them are effective.

    Returns
    -------
    outcome : Outcome
        One StepInfo for each round.
    pair : ndarray of shape (m,), int
        Antithetic pairs.
    disagreement : float
        Of the references on the posterior mean, in standard errors.
    judged : int
        How many references had the effective sample size to be compared.
    """
    weighing = weigh(
        components,
        shares,
        model.log_prior,
        lambda theta: power * log_likelihood(model, theta, batches),
        n_particles,
        _MAX_ROUNDS,
        _ENOUGH * n_particles,
        rng,
    )
    per_round = len(weighing.cloud.theta) // len(weighing.rounds)
    infos = [
        StepInfo(1.0, power, 1.0, 0, False, 0, np.nan, ess, per_round * (i + 1))
        for i, ess in enumerate(weighing.rounds)
    ]
    outcome = Outcome(weighing.cloud, infos, True, weighing.interrupted)
    return outcome, weighing.pair, *disagreement(weighing, components)
