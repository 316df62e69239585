"""Step sizes and particle numbers against the paper's formulas; options that exclude each other."""

import numpy as np
import pytest

from skpmd import ParticleMirrorDescent
from skpmd._base.options import LOOP_CONSTRAINTS
from skpmd.engine.loop import Options
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, draw_prior
from skpmd.engine.schedules import Schedule, n_particles_at, step_size, theorem6_constant
from tests.tools.exact_models import (
    NORMAL_MEAN,
    NormalMean,
    normal_log_likelihood,
    normal_log_prior,
)


def normal_batch(n=30):
    X = np.random.default_rng(0).normal(1.0, 1.0, (n, 1))
    return Batch(X, None, np.ones(n))


def gamma(schedule, t):
    return step_size(schedule, t, 10.0, 10.0 * t, 1000, 2)


@pytest.mark.parametrize("eta", [0.3, 5.0])
@pytest.mark.parametrize("offset", [0.0, 40.0])
@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_power_rule(eta, offset, decay):
    schedule = Schedule("power", eta, offset, decay)
    for t in (1, 2, 17, 1000):
        assert gamma(schedule, t) == pytest.approx(min(1.0, eta / (offset + t**decay)), rel=1e-15)


@pytest.mark.parametrize("rule", ["power", "rows", "theorem6"])
def test_steps_are_capped_at_one(rule):
    schedule = Schedule(rule, 1e6, 0.0, 1.0, step_constant=1e6)
    assert gamma(schedule, 1) == 1.0
    assert all(0.0 < gamma(schedule, t) <= 1.0 for t in range(1, 50))


def test_rows_rule_averages_exactly_over_unequal_batches():
    # After the pass the likelihood of batch j has power gamma_j (N / n_j) prod_{t > j}
    # (1 - gamma_t), which must be 1 for every row, and the first density power 0.
    sizes = np.array([3.0, 11.0, 1.0, 7.5, 20.0, 0.5])
    schedule = Schedule("rows", 1.0, 0.0, 1.0)
    gammas = np.array(
        [
            step_size(schedule, t, size, seen, 100, 2)
            for t, (size, seen) in enumerate(zip(sizes, np.cumsum(sizes), strict=True), start=1)
        ]
    )
    left = np.append(np.cumprod((1.0 - gammas)[::-1])[::-1][1:], 1.0)
    np.testing.assert_allclose(gammas * sizes.sum() / sizes * left, 1.0, rtol=1e-13)
    assert np.prod(1.0 - gammas) == 0.0


@pytest.mark.parametrize("smoothness", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("m, d", [(100, 1), (5000, 8)])
def test_theorem6_rule_is_the_smaller_of_two_bounds(smoothness, m, d):
    constant = 0.7
    schedule = Schedule("theorem6", 1.0, 0.0, 1.0, constant, smoothness)
    bound = constant * m ** (-smoothness / (d + 2 * smoothness))
    for t in (1, 2, 5, 50, 5000):
        expected = min(2.0 / (t + 1), bound)
        assert step_size(schedule, t, 10.0, 10.0 * t, m, d) == pytest.approx(expected, rel=1e-14)
    assert bound < 1.0 and 2.0 / 5001 < bound  # both sides of the minimum were seen


def test_theorem6_constant_is_that_of_its_definition():
    particles = draw_prior(NormalMean(), 50, np.random.default_rng(0))
    batch = normal_batch()
    likelihood = normal_log_likelihood(particles.theta, batch.X, None)
    # q = prior: the gradient is minus the scaled log-likelihood, 1 / Delta the density's range.
    low, high = np.quantile([particles.log_prior, likelihood], [0.05, 0.95], axis=1)
    spread = high - low  # of the central 90 %
    expected = np.exp(spread[0]) / (0.5 * 3.0 * spread[1])
    constant = theorem6_constant(particles, NormalMean(), [batch], 3.0)
    assert constant == pytest.approx(expected, rel=1e-12)


def test_theorem6_constant_of_impossible_particles():
    theta = np.linspace(-1.0, 1.0, 5)[:, None]
    log_prior = normal_log_prior(theta)
    some = np.where(np.arange(5) < 2, -np.inf, 0.0)
    particles = Particles(theta, some, log_prior, log_prior, np.empty((5, 0)))
    assert 0.0 < theorem6_constant(particles, NormalMean(), [normal_batch()], 1.0) < np.inf
    nowhere = particles._replace(log_ratio=np.full(5, -np.inf))
    assert theorem6_constant(nowhere, NormalMean(), [normal_batch()], 1.0) == np.inf


def test_growth_by_a_power():
    assert n_particles_at(4, 100, 0.5, 10**6, 3, 1.0) == pytest.approx(200, abs=1)
    assert n_particles_at(9, 100, 1.5, 10**6, 3, 1.0) == pytest.approx(2700, abs=1)


@pytest.mark.parametrize("d, smoothness", [(1, 1.0), (2, 2.0), (3, 0.5)])
def test_growth_by_the_theorem(d, smoothness):
    expected = 10 * 3 ** (2 + d / smoothness)
    assert n_particles_at(3, 10, "theorem", 10**9, d, smoothness) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("growth", [2.0, 500.0, "theorem"])
def test_growth_stops_at_the_ceiling(growth):
    sizes = [n_particles_at(t, 100, growth, 777, 400, 1.0) for t in range(1, 100)]
    assert sizes[-1] == 777
    assert (np.diff(sizes) >= 0).all()
    assert all(isinstance(size, int) for size in sizes)


def test_options_are_an_estimators_parameters_of_the_same_names():
    own, of_step = {"n_particles": 17, "step_decay": 0.5}, {"kernel": "epanechnikov"}
    options = ParticleMirrorDescent(**NORMAL_MEAN, **own, **of_step)._loop_options()
    assert options == Options(17, schedule=Schedule(step_decay=0.5), settings=Settings(**of_step))


def test_defaults_of_the_estimator_and_of_the_loop_agree():
    assert ParticleMirrorDescent(**NORMAL_MEAN)._loop_options() == Options()
    fields = {*Options._fields, *Settings._fields, *Schedule._fields} - {"settings", "schedule"}
    assert fields < set(LOOP_CONSTRAINTS)
