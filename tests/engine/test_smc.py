"""Tempering: evidence and draws of posteriors that are known, whatever the scales of the moves."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import kstest, multivariate_normal, norm

from skpmd.engine.diagnostics import variance_of_increment
from skpmd.engine.loop import drive, silent
from skpmd.engine.mirror import Settings
from skpmd.engine.model import Batch
from skpmd.engine.smc import Start, tempering
from tests.tools.exact_models import NormalMean


def batch_of(x):
    x = np.asarray(x, dtype=float).reshape(-1, 1)
    return Batch(x, None, np.ones(len(x)))


class Mean(NormalMean):
    """Rows N(theta, 1), theta ~ N(0, 1), with sizes of moves that depend on the place."""

    def local(self, theta, batches):
        value, gradient = self.log_prior(theta), -theta
        precision = 1.0
        for batch in batches:
            value = value + self.log_likelihood(theta, batch)
            gradient = gradient + batch.weight @ batch.X[:, 0] - batch.weight.sum() * theta
            precision += batch.weight.sum()
        return value, gradient, np.sqrt(precision) / (1.0 + 0.8 * np.sin(3.0 * theta))


class Square(Mean):
    """Rows N(theta^2, 1): two modes of equal mass, of which particles keep to the positive one."""

    def sample_prior(self, rng, m):
        return np.abs(rng.standard_normal((m, 1)))

    def log_prior(self, theta):
        return np.where(theta[:, 0] < 0.0, -np.inf, norm.logpdf(theta[:, 0]) + np.log(2.0))

    def log_likelihood(self, theta, batch):
        return norm.logpdf(batch.X[:, 0], theta**2) @ batch.weight

    def local(self, theta, batches):
        value, gradient = norm.logpdf(theta[:, 0]), -theta
        for batch in batches:
            value = value + self.log_likelihood(theta, batch)
            total, n = batch.weight @ batch.X[:, 0], batch.weight.sum()
            gradient = gradient + 2.0 * theta * (total - n * theta**2)
        return value, gradient, np.full(theta.shape, 10.0)

    def permute_labels(self, theta, rng):
        return theta * rng.choice([-1.0, 1.0], size=(len(theta), 1))

    def to_ordered(self, theta):
        return np.abs(theta)


def tempered(model, batches, n_particles, rng, report=silent, **options):
    return drive(tempering(model, batches, n_particles, rng, **options), report)


def exact(x):
    """Log evidence, mean and sd under `Mean`."""
    n = len(x)
    evidence = multivariate_normal.logpdf(x, np.zeros(n), np.eye(n) + 1.0)
    return evidence, np.sum(x) / (n + 1), (n + 1) ** -0.5


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(2.0, 1.0, size=300)


def test_from_the_prior_to_the_posterior(x):
    found = tempered(Mean(), [batch_of(x[:100]), batch_of(x[100:])], 4000, np.random.default_rng(0))
    evidence, mean, sd = exact(x)
    assert found.evidence[0] == pytest.approx(evidence, abs=4 * found.evidence[1])
    assert 0.02 < found.evidence[1] < 0.1
    theta = found.particles.theta[:, 0]
    assert abs(theta.mean() - mean) < 0.06 * sd and abs(theta.std() / sd - 1.0) < 0.05
    assert not found.particles.log_ratio.any() and np.isnan(found.particles.log_pi).all()
    np.testing.assert_array_equal(
        found.particles.log_prior, Mean().log_prior(found.particles.theta)
    )
    powers = [info.extra["power"] for info in found.infos]
    assert (
        powers == sorted(powers) and powers[-1] == 1.0 and found.converged and not found.interrupted
    )
    assert sum(info.extra["log_increment"] for info in found.infos) == pytest.approx(
        found.evidence[0]
    )
    assert all(abs(info.ess - 2000) < 1 for info in found.infos[:-1])
    assert all(0.4 < info.extra["acceptance"] < 0.8 for info in found.infos)


@pytest.mark.slow
def test_evidence_is_right_on_average_and_its_error_honest(x):
    found = [
        tempered(Mean(), [batch_of(x)], 300, np.random.default_rng(seed)) for seed in range(40)
    ]
    off = np.array([one.evidence[0] for one in found]) - exact(x)[0]
    error = np.mean([one.evidence[1] for one in found])
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(40) + 0.5 * error**2
    assert 0.7 < off.std() / error < 1.5  # An sd of 40 errs by 0.11 of itself.


def test_moves_leave_the_posterior_as_it_is(x):
    """Scales that depend on the place would lead astray were they not accounted for."""
    _, mean, sd = exact(x[:5])
    rng, batch = np.random.default_rng(2), batch_of(x[:5])
    start = mean + sd * rng.standard_normal((20_000, 1))
    found = tempered(Mean(), [batch], 20_000, rng, start=Start(theta=start, before=[batch]))
    (info,) = found.infos
    assert info.extra["n_moves"] >= 5 and info.extra["acceptance"] < 0.9
    assert abs(found.evidence[0]) < 1e-12  # The step goes nowhere; rounding is left.
    moved = found.particles.theta[:, 0]
    assert (moved != np.sort(start[:, 0])).mean() > 0.9
    assert kstest(moved, norm(mean, sd).cdf).pvalue > 0.01


def test_from_one_posterior_to_another(x):
    """Some rows go, others come: the evidence is the ratio of the two."""
    before, after = x[:40], x[20:120]
    evidence, mean, sd = exact(before)
    start = mean + sd * np.random.default_rng(3).standard_normal((4000, 1))
    rng = np.random.default_rng(4)
    start = Start(theta=start, before=[batch_of(before)])
    found = tempered(Mean(), [batch_of(after)], 4000, rng, start=start)
    expected, mean, sd = exact(after)
    assert found.evidence[0] == pytest.approx(expected - evidence, abs=0.1)
    assert abs(found.particles.theta.mean() - mean) < 0.06 * sd
    fewer = tempered(Mean(), [], 3000, rng, start=start)
    assert fewer.particles.theta.shape == (3000, 1)
    assert abs(fewer.particles.theta.mean()) < 0.1 and fewer.particles.theta.std() == pytest.approx(
        1, abs=0.1
    )


def test_a_symmetric_posterior_in_one_of_its_regions(x):
    rows = 0.5 * x[:50]
    found = tempered(Square(), [batch_of(rows)], 3000, np.random.default_rng(5))
    grid = np.linspace(0, 4, 4001)[:, None]
    model = Square()
    log_joint = model.log_prior(grid) + model.log_likelihood(grid, batch_of(rows))
    joint = np.exp(log_joint - log_joint.max())
    evidence = log_joint.max() + np.log(joint.sum() * 0.001)
    assert found.evidence[0] == pytest.approx(evidence, abs=4 * found.evidence[1])
    assert (found.particles.theta >= 0).all()
    mean = (grid[:, 0] * joint).sum() / joint.sum()
    assert found.particles.theta.mean() == pytest.approx(mean, abs=0.01)


def test_an_increment_of_correlated_particles_varies_as_much_as_it_says():
    """Log mean weights of 400 draws along chains that remember half of where they were.

    A variance over 4,000 chains errs by sqrt(2 / 4,000) = 2.2 %, and the bound is three of these
    and a percent for what 400 draws are few for; without the correlation it would be three times
    what it says.
    """
    rng, slope = np.random.default_rng(0), 0.1
    noise = rng.standard_normal((4000, 400)) * np.append(1.0, np.full(399, 0.75**0.5))
    weight = np.exp(slope * lfilter([1.0], [1.0, -0.5], noise, axis=1))
    ess = 400 * np.exp(-(slope**2))  # That of so many draws, as their number grows.
    expected = variance_of_increment(400, ess, 0.5)
    assert np.log(weight.mean(axis=1)).var() == pytest.approx(expected, rel=0.076)


def test_same_generator_same_answer_and_threshold(x):
    one, two = (tempered(Mean(), [batch_of(x)], 100, np.random.default_rng(6)) for _ in range(2))
    np.testing.assert_array_equal(one.particles.theta, two.particles.theta)
    fine, whole = (
        tempered(
            Mean(), [batch_of(x)], 100, np.random.default_rng(6), settings=Settings("ess", one)
        )
        for one in (0.9, 0.0)
    )
    assert len(fine.infos) > len(one.infos) and len(whole.infos) == 1
