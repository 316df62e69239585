"""The step: its linear form, the guard, rejuvenation, and the closed-form block, exactly."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

from skpmd.engine.mirror import Settings, log_likelihood, remainder, step
from skpmd.engine.model import Batch
from skpmd.engine.particles import Particles, draw_prior, effective_sample_size, moments
from skpmd.engine.rejuvenation import rejuvenate_by_kernels
from tests.tools.exact_models import HeavyTailedMean, NoiseScale, NormalMean

NEVER = Settings(rejuvenation="never")


def batch_of(x, weight=None):
    x = np.asarray(x, dtype=float).reshape(-1, 1)
    return Batch(x, None, np.ones(len(x)) if weight is None else np.asarray(weight, dtype=float))


@pytest.fixture
def data():
    return np.random.default_rng(5).normal(0.7, 1.0, size=40)


@pytest.fixture
def particles():
    """A cloud with a past: drawn from N(0.2, 0.8^2), carrying uneven log ratios."""
    rng = np.random.default_rng(6)
    theta = 0.2 + 0.8 * rng.standard_normal((300, 1))
    log_pi = norm.logpdf(theta[:, 0], 0.2, 0.8)
    model = NormalMean()
    return Particles(
        theta, rng.normal(size=300), log_pi, model.log_prior(theta), np.empty((300, 0))
    )


@pytest.mark.parametrize("a, b", [(0.3, 4.0), (0.0, 1.0), (1.0, 1.0), (0.05, 0.0)])
def test_step_is_the_linear_form(particles, data, a, b):
    model, batch = NormalMean(), batch_of(data)
    after, info = step(particles, model, (batch,), a, b, NEVER, np.random.default_rng(0))
    likelihood = norm.logpdf(data[None, :], particles.theta).sum(axis=1)
    drift = particles.log_prior - particles.log_pi - particles.log_ratio
    np.testing.assert_allclose(after.log_ratio, particles.log_ratio + a * drift + b * likelihood)
    assert (info.a, info.b, info.fraction, info.substeps) == (a, b, 1.0, 0)
    assert info.ess == effective_sample_size(after.log_ratio)


def test_weight_is_repetition_and_batches_add_up(particles, data):
    model, rng = NormalMean(), np.random.default_rng(0)
    times = np.arange(40) % 3
    repeated = batch_of(np.repeat(data, times))
    whole, _ = step(particles, model, (repeated,), 0.5, 2.0, NEVER, rng)
    weighted, _ = step(particles, model, (batch_of(data, times),), 0.5, 2.0, NEVER, rng)
    pieces = [batch_of(data[:13], times[:13]), batch_of(data[13:], times[13:])]
    added, _ = step(particles, model, pieces, 0.5, 2.0, NEVER, rng)
    np.testing.assert_allclose(weighted.log_ratio, whole.log_ratio, rtol=1e-12)
    np.testing.assert_allclose(added.log_ratio, whole.log_ratio, rtol=1e-12)


@pytest.mark.parametrize("a, b", [(0.3, 4.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.5)])
@pytest.mark.parametrize("fraction", [1e-6, 0.25, 0.9])
def test_fraction_and_remainder_compose_to_the_whole_step(particles, data, a, b, fraction):
    model, batch, rng = NormalMean(), (batch_of(data),), np.random.default_rng(0)
    whole, _ = step(particles, model, batch, a, b, NEVER, rng)
    first, _ = step(particles, model, batch, fraction * a, fraction * b, NEVER, rng)
    rest_a, rest_b = remainder(a, b, fraction)
    both, _ = step(first, model, batch, rest_a, rest_b, NEVER, rng)
    np.testing.assert_allclose(both.log_ratio, whole.log_ratio, rtol=1e-9, atol=1e-9)
    if a == 1.0:
        assert (rest_a, rest_b) == (1.0, b)


def test_guard_stops_at_the_first_crossing():
    """A peaked batch on a fresh cloud: ESS is at the threshold where the first segment ends."""
    model = NormalMean()
    data = np.random.default_rng(1).normal(2.5, 1.0, size=400)
    rng = np.random.default_rng(2)
    particles = draw_prior(model, 1000, rng)
    _, info = step(particles, model, (batch_of(data),), 1.0, 1.0, Settings(), rng)
    assert info.substeps >= 1 and 0 < info.fraction < 1
    likelihood = norm.logpdf(data[None, :], particles.theta).sum(axis=1)
    at = [effective_sample_size(info.fraction * f * likelihood) for f in (0.5, 0.9, 0.99, 1.0)]
    assert min(at) >= 500 - 1e-6
    np.testing.assert_allclose(at[-1], 500, rtol=1e-3)


def test_ess_need_not_be_monotone():
    """ESS rises along the path before it falls: the guard stops at the fall, not at f = 0."""
    m = 400
    rng = np.random.default_rng(0)
    log_ratio = np.zeros(m)
    log_ratio[: m // 2] = 2.0  # q is on this half; the step takes all weight to the other
    flat = np.zeros(m)
    particles = Particles(rng.standard_normal((m, 1)), log_ratio, flat, flat, np.empty((m, 0)))

    class Swap(NormalMean):
        def log_likelihood(self, theta, batch):
            return np.where(np.arange(len(theta)) < m // 2, -60.0, 0.0)

    settings = Settings(ess_threshold=0.6, max_substeps=1)
    assert effective_sample_size(log_ratio) > 0.6 * m
    _, info = step(particles, Swap(), (batch_of([0.0]),), 0.0, 1.0, settings, rng)
    # Even weights at f = 2 / 60; mirrored to the other half at f = 4 / 60; 0.6 m at 4.29 / 60.
    assert info.fraction == pytest.approx(4.29 / 60, abs=1e-4)


def test_a_guarded_peaked_step_is_exact_where_an_unguarded_one_collapses():
    """Posterior N(2.49.., 1/401) from N(0, 1): the guard splits, redraws and lands on it.

    Tolerance: Monte Carlo error of a mean of about 1000 effective particles is 0.03 sd; 4 of them.
    """
    model = NormalMean()
    data = np.random.default_rng(1).normal(2.5, 1.0, size=400)
    mean, sd = data.sum() / 401, 401**-0.5
    rng = np.random.default_rng(4)
    particles = draw_prior(model, 1500, rng)
    unguarded, _ = step(particles, model, (batch_of(data),), 1.0, 1.0, NEVER, rng)
    assert effective_sample_size(unguarded.log_ratio) < 10
    guarded, info = step(particles, model, (batch_of(data),), 1.0, 1.0, Settings(), rng)
    found, cov = moments(guarded.theta, guarded.log_ratio)
    assert info.ess > 750
    assert abs(found[0] - mean) < 0.13 * sd
    assert abs(np.sqrt(cov[0, 0]) / sd - 1) < 0.09
    evidence = logsumexp(guarded.log_ratio) - np.log(len(guarded.theta))
    assert abs(evidence - exact_log_evidence(data)) < 0.1


def exact_log_evidence(x):
    """Log marginal likelihood of N(theta, 1) rows under theta ~ N(0, 1)."""
    n = len(x)
    quadratic = (x**2).sum() - x.sum() ** 2 / (n + 1)
    return -0.5 * (n * np.log(2 * np.pi) + np.log(n + 1) + quadratic)


def test_rejuvenation_makes_a_fresh_cloud_of_the_same_density(particles):
    model, rng = HeavyTailedMean(), np.random.default_rng(7)
    particles = particles._replace(log_prior=model.log_prior(particles.theta))
    fresh, bandwidth, _, _ = rejuvenate_by_kernels(
        particles, model, Settings(), rng, n_particles=20000
    )
    assert len(fresh.theta) == 20000 and 0 < bandwidth <= 1
    assert not fresh.log_ratio.any()
    np.testing.assert_allclose(fresh.log_prior, model.log_prior(fresh.theta))
    mean, cov = moments(particles.theta, particles.log_ratio)
    found, found_cov = moments(fresh.theta, fresh.log_ratio)
    # 20,000 draws: sd of the mean 0.007 sd, of the variance 0.01 relative; 4 of each.
    assert abs(found[0] - mean[0]) < 0.03 * np.sqrt(cov[0, 0])
    np.testing.assert_allclose(found_cov, cov, rtol=0.04)
    # log_pi is a density: importance weights from it integrate the prior to one (0.02 is 4 sd).
    ratio = np.exp(fresh.log_prior - fresh.log_pi)
    near = np.abs(fresh.theta[:, 0] - mean[0]) < 2 * np.sqrt(cov[0, 0])
    edges = mean[0] + 2 * np.sqrt(cov[0, 0]) * np.array([-1, 1])
    mass = quad(lambda t: np.exp(model.log_prior(np.array([[t]]))[0]), *edges)[0]
    assert abs((ratio * near).mean() - mass) < 0.02


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("wide", [0.1, 0.5])
def test_a_wide_component_leaves_q_as_it_is(particles, wide, kernel):
    """Draws reach further out; mean and covariance of q, and the density drawn from, are exact."""
    model, rng = HeavyTailedMean(), np.random.default_rng(9)
    settings = Settings(kernel=kernel, bandwidth=0.2)
    fresh = rejuvenate_by_kernels(
        particles, model, settings, rng, n_particles=40_000, defensive=wide
    ).particles
    mean, cov = moments(particles.theta, particles.log_ratio)
    sd = np.sqrt(cov[0, 0])
    reach = np.abs(fresh.theta[:, 0] - mean[0]) / sd
    # Student, 5 degrees of freedom, scale 3: 18.2 % lie beyond 4.63 cloud sds; 4 sds of the share.
    assert abs((reach > 3 * 1.5436).mean() / wide - 0.1834) < 4 * np.sqrt(0.15 / (wide * 40_000))
    found, found_cov = moments(fresh.theta, fresh.log_ratio)
    assert abs(found[0] - mean[0]) < 4 * sd / 40_000**0.5 / (1 - wide) ** 0.5
    np.testing.assert_allclose(found_cov, cov, rtol=0.04)
    # Both are densities: r integrates to one, and so does any normal over pi.
    assert abs(np.exp(fresh.log_ratio).mean() - 1.0) < 0.02
    ratio = norm.pdf(fresh.theta[:, 0], mean[0], 2 * sd) / np.exp(fresh.log_pi)
    assert abs(ratio.mean() - 1.0) < 4 * ratio.std() / 200


def test_always_redraws_before_each_step_but_not_a_fresh_cloud(data):
    model, rng = NormalMean(), np.random.default_rng(8)
    settings = Settings(rejuvenation="always", ess_threshold=0.0)
    particles = draw_prior(model, 400, rng)
    particles, first = step(particles, model, (batch_of(data),), 0.2, 0.2, settings, rng)
    particles, second = step(particles, model, (batch_of(data),), 0.2, 0.2, settings, rng)
    assert (first.rejuvenations, second.rejuvenations) == (0, 1)
    assert np.isnan(first.bandwidth) and second.bandwidth > 0


def test_a_dead_particle_lives_again_after_a_whole_step_with_a_one(particles, data):
    model, batch, rng = NormalMean(), (batch_of(data),), np.random.default_rng(0)
    log_ratio = particles.log_ratio.copy()
    log_ratio[:5] = -np.inf
    dead = particles._replace(log_ratio=log_ratio)
    stochastic, _ = step(dead, model, batch, 0.5, 0.5, NEVER, rng)
    assert (stochastic.log_ratio[:5] == -np.inf).all() and np.isfinite(
        stochastic.log_ratio[5:]
    ).all()
    whole, _ = step(dead, model, batch, 1.0, 1.0, NEVER, rng)
    expected = (
        particles.log_prior - particles.log_pi + log_likelihood(model, particles.theta, batch)
    )
    np.testing.assert_allclose(whole.log_ratio, expected)


# ---------------------------------------------------------------- the closed-form block


def brute_force(model, theta, log_density, batch, a, b):
    """Integral over zeta of q(zeta)^(1-a) p(zeta)^a L(zeta)^b, one particle at a time, by quad."""
    values = []
    for row, density in zip(theta, log_density, strict=True):

        def integrand(zeta, row=row, density=density):
            likelihood = norm.logpdf(batch.X[:, 0], zeta, np.exp(row[0])) @ batch.weight
            prior = norm.logpdf(zeta, 0.0, model.prior_sd)
            return np.exp((1 - a) * density(zeta) + a * prior + b * likelihood + 20.0)

        values.append(np.log(quad(integrand, -6, 6, points=[0.0, 0.5, 1.0], limit=200)[0]) - 20.0)
    return np.array(values)


@pytest.mark.slow_but("0.3-1.5")
@pytest.mark.parametrize("a, b", [(0.3, 1.5), (0.0, 1.0), (1.0, 1.0)])
def test_block_gain_is_the_integral_over_the_conjugate_parameter(a, b):
    """Delta of a model with a block equals brute-force integration over zeta (design: 2-3 nats
    are lost by formulae that drop the normalisers)."""
    model, rng = NoiseScale(), np.random.default_rng(10)
    batch = batch_of(rng.normal(0.5, 1.2, size=7), rng.integers(1, 3, size=7))
    before = draw_prior(model, 6, rng)
    # A past: one stochastic step, so that q(zeta | xi) is no longer the prior.
    particles, _ = step(before, model, (batch_of([0.4, 1.0]),), 0.5, 0.8, NEVER, rng)
    densities = [model.density(block) for block in particles.block]
    after, _ = step(particles, model, (batch,), a, b, NEVER, rng)
    gain = brute_force(model, particles.theta, densities, batch, a, b)
    drift = a * (particles.log_prior - particles.log_pi - particles.log_ratio)
    np.testing.assert_allclose(after.log_ratio - particles.log_ratio, drift + gain, atol=1e-6)
    prior = model.prior_block(particles.theta)
    moved = (
        (1 - a) * particles.block
        + a * prior
        + b * model.statistics(particles.theta, particles.block, batch)
    )
    np.testing.assert_allclose(after.block, moved)


def test_block_fraction_and_remainder_compose(data):
    """Split steps of a model with a block re-evaluate the path; together they are the whole."""
    model, rng = NoiseScale(), np.random.default_rng(11)
    particles = draw_prior(model, 50, rng)
    batch = (batch_of(data),)
    whole, _ = step(particles, model, batch, 0.4, 2.0, NEVER, rng)
    first, _ = step(particles, model, batch, 0.3 * 0.4, 0.3 * 2.0, NEVER, rng)
    both, _ = step(first, model, batch, *remainder(0.4, 2.0, 0.3), NEVER, rng)
    np.testing.assert_allclose(both.block, whole.block)
    np.testing.assert_allclose(both.log_ratio, whole.log_ratio, atol=1e-9)


@pytest.mark.parametrize("wide", [0.0, 0.3])
def test_the_block_follows_its_particle(data, wide):
    """Whichever ancestor it comes from, a block is the conjugate one at the new position."""
    model, rng, batch = NoiseScale(), np.random.default_rng(13), batch_of(data)
    particles, _ = step(draw_prior(model, 200, rng), model, (batch,), 0.0, 1.0, NEVER, rng)
    fresh = rejuvenate_by_kernels(
        particles, model, Settings(), rng, n_particles=150, defensive=wide
    ).particles
    expected = model.prior_block(fresh.theta) + model.statistics(fresh.theta, fresh.block, batch)
    np.testing.assert_allclose(fresh.block, expected)
