"""The averaged iterate: a reservoir whose slots are draws from sum gamma_t q_t / sum gamma_t."""

import numpy as np
import pytest

from skpmd.engine.loop import include
from skpmd.engine.particles import Particles, moments

GAMMAS = (1.0, 0.5, 0.7, 0.05)
SIZES = (20, 20, 30, 30)


def cloud_of(theta, log_ratio):
    unknown = np.zeros(len(theta))
    return Particles(theta, log_ratio, unknown, unknown, np.empty((len(theta), 0)))


def weighted_clouds(sizes=SIZES):
    rng = np.random.default_rng(0)
    return [
        cloud_of(rng.normal(3.0 * t, 1.0, (m, 2)), rng.normal(size=m)) for t, m in enumerate(sizes)
    ]


def averaged(clouds, gammas, scheme, seed):
    rng, average = np.random.default_rng(seed), None
    for particles, gamma in zip(clouds, gammas, strict=True):
        average = include(average, particles, gamma, scheme, rng)
    return average


@pytest.mark.parametrize(
    "sizes, scheme", [((25, 25, 25, 25), "stratified"), (SIZES, "multinomial")], ids=str
)
def test_expectation_is_the_weighted_average_of_the_iterates(sizes, scheme):
    clouds = weighted_clouds(sizes)
    means = np.array([moments(particles.theta, particles.log_ratio)[0] for particles in clouds])
    expected = np.array(GAMMAS) @ means / sum(GAMMAS)
    found = np.array([averaged(clouds, GAMMAS, scheme, s).theta.mean(axis=0) for s in range(1500)])
    # The answers of 1500 seeds are independent; the tolerance is 4.5 of their standard errors.
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (error > 0).all()
    assert (np.abs(found.mean(axis=0) - expected) < 4.5 * error).all()


def test_shares_of_the_iterates_are_their_step_sizes():
    # Every iterate sits on a value of its own, so slots can be counted. The number of slots of
    # the last one is fixed by rounding; the earlier ones vary, at most as a binomial(40, share)
    # does, so 4.5 standard errors over 1500 seeds are 4.5 sqrt(share (1 - share) / 60000).
    clouds = [cloud_of(np.full((40, 1), float(t)), np.zeros(40)) for t in range(4)]
    share = np.array(GAMMAS) / sum(GAMMAS)
    slots = [averaged(clouds, GAMMAS, "systematic", s).theta[:, 0].astype(int) for s in range(1500)]
    counts = np.array([np.bincount(slot, minlength=4) for slot in slots])
    tolerance = 4.5 * np.sqrt(share * (1 - share) / (40 * 1500))
    assert (np.abs(counts.mean(axis=0) / 40 - share) < tolerance).all()
    assert set(counts[:, 3]) <= {int(40 * share[3]), int(40 * share[3]) + 1}


def test_the_first_iterate_is_taken_whole():
    particles = weighted_clouds()[0]
    dead = particles._replace(log_ratio=np.where(np.arange(20) % 2, -np.inf, 0.0))
    average = include(None, dead, 0.01, "systematic", np.random.default_rng(0))
    assert average.total == 0.01
    np.testing.assert_array_equal(np.unique(average.theta[:, 0]), np.sort(particles.theta[::2, 0]))
