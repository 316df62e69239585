"""Between proposals, Hamiltonian chains and particles: where chains start, and what they leave."""

import numpy as np

from skpmd.engine.importance import draw, even_counts
from skpmd.engine.loop import Outcome
from skpmd.engine.mirror import StepInfo
from skpmd.engine.particles import equally_weighted
from skpmd.proposals.hmc import N_CHAINS, hamiltonian

TARGET_ESS = 0.25  # Chains run until the worst coordinate has this share of n_particles draws.
_START_DF = 10.0  # Chains start from Student draws with these degrees of freedom.


def starts(proposals, shares, rng, *, others=()):
    """Where chains start: Student draws (n_chains, d) from around each proposal, by its share.

    They are wide enough for R-hat, but none of them so far out that it never arrives, as draws of a
    Cauchy component may be. The proposals have no skewed axes. Some start at ``others``, places
    (k, d), instead, at most a quarter of them: from a part of the posterior that no proposal knows.
    """
    others = others[: N_CHAINS // 4]
    counts = even_counts(np.asarray(shares) / np.sum(shares), N_CHAINS)
    wide = [proposal._replace(df=_START_DF) for proposal in proposals]
    theta = np.concatenate([draw(one, n, rng) for one, n in zip(wide, counts, strict=True)])
    if len(others):
        theta[:: N_CHAINS // len(others)][: len(others)] = others
    return theta


def moved(model, log_joint_gradient, start, mean, chol, n_particles, power, rng, **options):
    """States of chains that start there, first whitened by ``mean`` and ``chol``.

    Each check of R-hat yields the `outcome_of` the draws so far. The options are those of
    `skpmd.proposals.hmc.hamiltonian`.
    """
    least = TARGET_ESS * n_particles
    for chains in hamiltonian(
        log_joint_gradient, start, mean, chol, rng, target_ess=least, **options
    ):
        yield outcome_of(model, thinned(chains, n_particles), chains, power)


def thinned(chains, n_particles):
    """Draws that stand for all, evenly spaced: successive ones are alike, and cost predictions."""
    every = max(1, chains.draws.shape[0] * chains.draws.shape[1] // n_particles)
    return chains.draws[:, ::-1][:, ::every].reshape(-1, chains.draws.shape[2])


def outcome_of(model, theta, chains, power):
    """`Outcome` of equally weighted draws ``theta`` that stand for those of the chains.

    There are ``n_particles`` of them or more, fewer where the chains have made fewer draws.
    """
    info = StepInfo(
        1.0, power, 1.0, 0, False, 0, np.nan, chains.ess, len(theta), extra={"r_hat": chains.r_hat}
    )
    return Outcome(equally_weighted(model, theta), [info], reweighted=True, chains=chains)
