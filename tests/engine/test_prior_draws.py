"""What draws of the prior and particles of steps see that fitted proposals have missed."""

import numpy as np
import pytest
from scipy.stats import norm

from skpmd.engine.importance import Proposal, draw
from skpmd.engine.loop import Outcome
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, draw_prior
from skpmd.proposals import from_values
from skpmd.proposals import prior_draws as of_prior
from skpmd.proposals.fitted_proposals import Proposals
from skpmd.proposals.from_values import Attempt, Steps
from skpmd.proposals.importance_rounds import Task
from skpmd.proposals.prior_draws import PriorDraws, misses, with_missed
from tests.tools.exact_models import NormalMean

M = 2000


def two_modes(theta):
    """A tenth of the mass in a mode that no draw of a prior of scale 5 is near."""
    parts = np.log(0.9) + norm.logpdf(theta[:, 0]), np.log(0.1) + norm.logpdf(theta[:, 0], 50.0)
    return np.logaddexp(*parts)


def prior_draws(scale=5.0):
    draws = np.random.default_rng(0).normal(scale=scale, size=(M, 1))
    values = two_modes(draws)
    log_likelihood = values - norm.logpdf(draws[:, 0], scale=scale)
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


def test_values_of_starts_are_the_densitys_own():
    """Of pulled ones too: a search ends before it begins where one point has two values."""

    def log_density(theta):
        return norm.logpdf(theta, scale=1e-3).sum(axis=1)

    draws = np.random.default_rng(0).standard_normal((M, 3))
    values, log_prior = log_density(draws), norm.logpdf(draws).sum(axis=1)
    known = draws, values, values - log_prior
    of_all = PriorDraws(
        *known, log_density, M, lambda: None, log_prior=lambda theta: norm.logpdf(theta).sum(axis=1)
    )
    theta, values, weights = of_all.starts()
    assert len(theta) > M and np.argmax(values) >= M
    np.testing.assert_array_equal(values, log_density(theta))
    assert len(theta) == len(weights)


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


@pytest.mark.parametrize("n_rows, expected", [(1, 4000), (8, 2048), (32, 1000)])
def test_draws_of_the_prior_are_as_many_as_rows_allow(n_rows, expected, monkeypatch):
    """They are more than 1,000 particles as far as these and they evaluate 2^14 rows."""
    monkeypatch.setattr(of_prior, "_MAX_ROWS", 1 << 14)
    model, rng = NormalMean(), np.random.default_rng(0)
    rows = Batch(np.zeros((n_rows, 1)), None, np.ones(n_rows))
    start = draw_prior(model, 1000, rng)
    found = of_prior.prior_draws(model, start, [rows], 1.0, rng)
    assert found.theta.shape == (expected, 1) and found.n_drawn == expected
    np.testing.assert_array_equal(found.theta[:1000], start.theta)
    log_joint = model.log_prior(found.theta) + model.log_likelihood(found.theta, rows)
    np.testing.assert_allclose(found.values, log_joint)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_mode_that_is_the_only_optimum_is_left_out_where_no_particles_are(share):
    """Its mass is known by draws around it, and particles of steps are elsewhere."""
    found = Proposals([Proposal(np.array([50.0]), np.eye(1))] * 2, np.full(2, 0.5), True)
    outcome = steps(share)._replace(evidence=(0.0, 0.01))
    n_left_out = prior_draws().n_left_out(found, outcome, np.random.default_rng(3))
    assert n_left_out == (share == 0.0)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_steps_that_have_lost_what_draws_of_the_prior_see_are_warned_of(share, monkeypatch):
    """Both times steps end in the same particles, so that they contradict one another nowhere."""
    taken = Steps(steps(share)._replace(evidence=(0.0, 0.01)), [], None)
    monkeypatch.setattr(from_values, "steps_from_prior", lambda *_: taken)
    monkeypatch.setattr(from_values, "mixtures_of_steps", lambda *_: iter(()))
    wide = prior_draws(scale=30.0)
    task = Task(NormalMean(), [], wide, M, 1.0, Settings())
    rng, found = np.random.default_rng(4), Attempt(False, None, None, taken, ())
    *_, last = from_values._by_steps(task, found, lambda: wide, rng)
    assert last.findings.reasons == ((from_values._UNSEEN,) if share == 0.0 else ())
