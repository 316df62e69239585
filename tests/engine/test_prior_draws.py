"""What draws of the prior and particles of steps see that fitted proposals have missed."""

import numpy as np
import pytest
from scipy.stats import norm

from skpmd.engine.importance import Proposal, draw
from skpmd.engine.loop import Outcome
from skpmd.engine.particles import Particles
from skpmd.proposals.fitted_proposals import Proposals
from skpmd.proposals.prior_draws import PriorDraws, misses, with_missed

M = 2000


def two_modes(theta):
    """A tenth of the mass in a mode that no draw of the prior below is near."""
    parts = np.log(0.9) + norm.logpdf(theta[:, 0]), np.log(0.1) + norm.logpdf(theta[:, 0], 50.0)
    return np.logaddexp(*parts)


def prior_draws():
    draws = np.random.default_rng(0).normal(scale=5.0, size=(M, 1))
    values = two_modes(draws)
    log_likelihood = values - norm.logpdf(draws[:, 0], scale=5.0)
    return PriorDraws(draws, values, log_likelihood, two_modes, M, lambda: None)


def weighed(*parts):
    """Proposals with equal shares, and the outcome of weighing draws of theirs."""
    components = [Proposal(np.array([at]), np.array([[sd]]), 5.0) for at, sd in parts]
    found = Proposals(components, np.full(len(parts), 1.0 / len(parts)), True)
    rng = np.random.default_rng(1)
    theta = np.concatenate([draw(one, M, rng) for one in components])
    log_pi = found.log_density(theta)
    ratio = two_modes(theta) - log_pi
    return found, Outcome(Particles(theta, ratio, log_pi, log_pi, theta[:, :0]), [], True)


def steps(share):
    """Particles of steps, this share of them in the far mode."""
    theta = np.random.default_rng(2).standard_normal((M, 1))
    theta[: int(share * M)] += 50.0
    zeros = np.zeros(M)
    return Outcome(Particles(theta, zeros, zeros, zeros, theta[:, :0]), [], True)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_particles_of_steps_see_what_draws_of_the_prior_do_not(share):
    found, outcome = weighed((0.0, 1.0))
    assert not misses(outcome, prior_draws().thin(found.log_density, outcome, 2.0))
    thin = prior_draws().with_steps(steps(share)).thin(found.log_density, outcome, 2.0)
    assert misses(outcome, thin) == (share > 0.0)
    theta, log_mass = with_missed(outcome, thin)
    far = theta[:, 0] > 40.0
    # The proposal has a mass of .9 of its own, to which the others come.
    assert np.exp(log_mass[far]).sum() == pytest.approx(share, abs=1e-12)
    assert np.exp(log_mass[~far]).sum() == pytest.approx(1.0, abs=1e-6)


def test_thin_parts_are_not_missed_where_draws_have_their_mass():
    """The far mode has ten times too few draws, and its mass is right none the less."""
    found, outcome = weighed((0.0, 1.0), (50.0, 1.0))
    few = found._replace(shares=np.array([0.99, 0.01]))
    rng = np.random.default_rng(3)
    theta = np.concatenate(
        [draw(one, n, rng) for one, n in zip(few.components, (3960, 40), strict=True)]
    )
    log_pi = few.log_density(theta)
    particles = Particles(theta, two_modes(theta) - log_pi, log_pi, log_pi, theta[:, :0])
    outcome = outcome._replace(particles=particles)
    thin = prior_draws().with_steps(steps(0.1)).thin(few.log_density, outcome, 2.0)
    assert np.exp(thin[1].log_share).sum() > 0.05
    assert not misses(outcome, thin)
