"""Scales that draws of a prior show, coordinates in their units, and moves of them."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from skpmd.engine import mirror
from skpmd.engine.importance import Proposal, draw, log_density
from skpmd.engine.model import Model
from skpmd.engine.particles import Particles
from skpmd.proposals.ensemble_moves import EnsembleMoves
from skpmd.proposals.non_centred import hierarchy

M = 2000


def regions(rng, m=M, at=(-0.5, 0.5)):
    """Six effects around two means of regions, these around one mean, and both log scales."""
    log_scales = np.array(at) + rng.standard_normal((m, 2))
    mean = 3.0 * rng.standard_normal((m, 1))
    regional = mean + np.exp(log_scales[:, 1:]) * rng.standard_normal((m, 2))
    effects = regional[:, [0, 0, 0, 1, 1, 1]]
    effects = effects + np.exp(log_scales[:, :1]) * rng.standard_normal((m, 6))
    return np.hstack([effects, regional, mean, log_scales])


def horseshoe(rng, m=M):
    """Three effects, logs of their own scales and of a common one, which have Cauchy tails."""
    log_scales = np.log(np.abs(rng.standard_cauchy((m, 4))))
    sds = np.exp(log_scales[:, :3] + log_scales[:, 3:])
    return np.hstack([sds * rng.standard_normal((m, 3)), log_scales])


@pytest.mark.parametrize("at", [(-0.5, 0.5), (2.5, -1.0)], ids=str)
def test_nested_scales_are_found(at):
    """Rates have a standard error of 1.1 / sqrt(2,000) = .025; the bound is four of these.

    Effects may vary much more than what they are centred at, and much less: then they lie far from
    any place at a distance that goes with their centre, which is no scale of theirs.
    """
    found = hierarchy(regions(np.random.default_rng(0), at=at))
    one, other = found.scales  # Effects first: they are centred at what the other one scales.
    assert (one.j, other.j) == (9, 10)
    assert sorted(one.scaled) == [0, 1, 2, 3, 4, 5]
    assert sorted(other.scaled) == [6, 7]
    assert np.abs(np.r_[one.rate, other.rate] - 1.0).max() < 0.1
    centres = np.zeros((11, 6))
    centres[6, :3] = centres[7, 3:] = 1.0
    assert np.abs(one.slopes[:, np.argsort(one.scaled)] - centres).max() < 0.1


def test_scales_with_heavy_tails_are_found():
    found = hierarchy(horseshoe(np.random.default_rng(0)))
    scaled = {one.j: sorted(one.scaled) for one in found.scales}
    assert scaled == {3: [0], 4: [1], 5: [2], 6: [0, 1, 2]}
    assert all(np.abs(one.rate - 1.0).max() < 0.2 for one in found.scales)
    assert not any(one.slopes.any() for one in found.scales)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_nothing_is_found_where_there_is_no_hierarchy(d):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((d, d))
    for draws in (
        rng.standard_normal((M, d)) @ factor,
        rng.standard_cauchy((M, d)),
        np.ones((M, d)),
        np.cumsum(rng.standard_exponential((M, d)), axis=1),
        np.log(np.cumsum(rng.standard_exponential((M, d)), axis=1)),
    ):
        assert hierarchy(draws) is None


@pytest.mark.parametrize("seed", range(3))
def test_what_effects_are_centred_at_does_not_scale_them(seed):
    """They lie around a sine with one error, and the further out the further from any line."""
    rng = np.random.default_rng(seed)
    centre = np.exp(rng.standard_normal((M, 1)))
    effects = np.sin(centre) + 0.3 * rng.standard_normal((M, 2))
    assert hierarchy(np.hstack([effects, centre])) is None


def test_coordinates_come_back_and_volumes_are_determinants():
    draws = regions(np.random.default_rng(0))
    found = hierarchy(draws)
    u = found.outward(draws)
    back, log_jacobian = found.with_jacobian(u)
    assert np.allclose(back, draws, rtol=0.0, atol=1e-9)
    j, step = np.full(M, 9), np.full(M, -1.3)
    new, volume = found.moved(draws, j, step)
    h, place = 1e-6, u[:1]
    steps = place + h * np.eye(11)
    numeric = (found.with_jacobian(steps)[0] - found.with_jacobian(place)[0]) / h
    assert np.linalg.slogdet(numeric)[1] == pytest.approx(log_jacobian[0], abs=1e-4)
    steps = draws[:1] + h * np.eye(11)
    numeric = (found.moved(steps, j[:11], step[:11])[0] - new[:1]) / h
    assert np.linalg.slogdet(numeric)[1] == pytest.approx(volume[0], abs=1e-4)
    assert np.allclose(new[:, 9], draws[:, 9] - 1.3)
    assert np.allclose(np.delete(found.outward(new), 9, axis=1), np.delete(u, 9, axis=1))


def test_moves_to_where_there_is_no_number_stay():
    draws = regions(np.random.default_rng(0))
    new, volume = hierarchy(draws).moved(draws, np.full(M, 9), np.full(M, np.inf))
    assert np.array_equal(new, draws)
    assert (volume == -np.inf).all()


def test_a_proposal_in_units_of_scales_is_a_density():
    """Its mean ratio to the prior, which it is near, is 1, to three errors of 20,000 draws."""
    rng = np.random.default_rng(1)
    found = hierarchy(regions(rng))
    u = found.outward(regions(rng))
    proposal = Proposal(u.mean(axis=0), np.linalg.cholesky(np.cov(u.T)), 5.0, hierarchy=found)
    theta = draw(proposal, 20_000, rng)
    effects, regional, mean, log_scales = np.split(theta, [6, 8, 9], axis=1)
    log_prior = norm.logpdf(effects, regional[:, [0, 0, 0, 1, 1, 1]], np.exp(log_scales[:, :1]))
    log_prior = log_prior.sum(axis=1) + norm.logpdf(mean[:, 0], scale=3.0)
    log_prior += norm.logpdf(regional, mean, np.exp(log_scales[:, 1:])).sum(axis=1)
    log_prior += norm.logpdf(log_scales, [-0.5, 0.5]).sum(axis=1)
    ratio = np.exp(log_prior - log_density(proposal, theta))
    assert abs(ratio.mean() - 1.0) < 3.0 * ratio.std() / np.sqrt(20_000)
    assert ratio.std() < 2.0


def test_a_proposal_in_units_of_scales_is_zero_where_they_have_no_number():
    found = hierarchy(horseshoe(np.random.default_rng(0)))
    proposal = Proposal(np.zeros(7), np.eye(7), 5.0, hierarchy=found)
    theta = np.array([[1e200, 0.0, 0.0, -300.0, 0.0, 0.0, -300.0], np.zeros(7)])
    value = log_density(proposal, theta)
    assert value[0] == -np.inf
    assert np.isfinite(value[1])


class Groups(Model):
    """Twelve effects, their mean and their log scale, each effect seen once with an error of .3."""

    y = 0.1 * np.random.default_rng(5).standard_normal(12)

    def sample_prior(self, rng, m):
        mean, scale = 10.0 * rng.standard_normal((m, 1)), 2.0 * rng.standard_normal((m, 1))
        return np.hstack([mean + np.exp(scale) * rng.standard_normal((m, 12)), mean, scale])

    def log_prior(self, theta):
        effects, mean, scale = np.split(theta, [12, 13], axis=1)
        log = norm.logpdf(effects, mean, np.exp(scale)).sum(axis=1)
        return log + norm.logpdf(mean[:, 0], scale=10.0) + norm.logpdf(scale[:, 0], scale=2.0)

    def log_likelihood(self, theta, batch):
        return norm.logpdf(self.y, theta[:, :12], 0.3).sum(axis=1)


@pytest.mark.slow
def test_steps_enter_the_neck_of_a_funnel():
    """Against a sum over a grid of the scale; four runs of 1,000 particles each.

    With half of them independent an error of a mean is .022 sds and that of a log sd .016; bounds
    are three of these, and twice as much of the mean evidence, whose error is .05. Without moves of
    scales the sd was .78 of the true one, and the mean .18 sds away.
    """
    model, grid = Groups(), np.linspace(-14.0, 6.0, 1001)
    log = [
        multivariate_normal.logpdf(
            model.y, np.zeros(12), (0.09 + np.exp(2.0 * one)) * np.eye(12) + 100.0
        )
        for one in grid
    ]
    log = np.array(log) + norm.logpdf(grid, scale=2.0)
    mass = np.exp(log - log.max())
    mean = mass @ grid / mass.sum()
    sd = np.sqrt(mass @ (grid - mean) ** 2 / mass.sum())
    evidence = np.log(mass.sum() * (grid[1] - grid[0])) + log.max()
    scale, values = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        draws = model.sample_prior(rng, 4000)
        log_prior = model.log_prior(draws)
        start = Particles(draws, np.zeros(4000), log_prior, log_prior, np.empty((4000, 0)))
        moves = EnsembleMoves(model, [None], 1.0, hierarchy=hierarchy(draws))
        *_, (last, *_) = mirror.segments(
            mirror.Way(start, 1.0, 1.0),
            model,
            [None],
            mirror.Settings(),
            rng,
            mirror.Rejuvenation(moves, 1000),
        )
        scale.append(last.theta[:, 13])
        values.append(moves.account.log_evidence)
    scale = np.concatenate(scale)
    assert scale.mean() == pytest.approx(mean, abs=0.07 * sd)
    assert scale.std() == pytest.approx(sd, rel=0.06)
    assert np.mean(values) == pytest.approx(evidence, abs=0.1)
