"""Edges of a support, and the coordinates that have none."""

import numpy as np
import pytest

from skpmd.engine.edges import Unbounded, edges
from skpmd.engine.model import Model
from skpmd.engine.particles import draw_prior

LOWER, UPPER = np.array([-np.inf, 2.0, -np.inf, -1.0]), np.array([np.inf, np.inf, 3.0, 1.0])


class Bounded(Model):
    """A normal, an exponential above 2, one below 3, and a uniform coordinate on [-1, 1]."""

    def sample_prior(self, rng, m):
        one = rng.exponential(size=(m, 2))
        return np.column_stack(
            [rng.standard_normal(m), 2.0 + one[:, 0], 3.0 - one[:, 1], rng.uniform(-1.0, 1.0, m)]
        )

    def log_prior(self, theta):
        inside = ((theta > LOWER) & (theta < UPPER)).all(axis=1)
        values = -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2.0 * np.pi) - np.log(2.0)
        return np.where(inside, values - (theta[:, 1] - 2.0) - (3.0 - theta[:, 2]), -np.inf)


def test_edges_are_found():
    model = Bounded()
    draws = model.sample_prior(np.random.default_rng(0), 500)
    lower, upper = edges(model.log_prior, draws)
    np.testing.assert_allclose(lower, LOWER, atol=1e-9)
    np.testing.assert_allclose(upper, UPPER, atol=1e-9)


def test_an_edge_that_depends_on_others_is_none():
    """A triangle: the sum of two is below one. Its other sides are edges."""

    def log_prior(theta):
        return np.where((theta > 0.0).all(axis=1) & (theta.sum(axis=1) < 1.0), 0.0, -np.inf)

    draws = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 500)[:, :2]
    lower, upper = edges(log_prior, draws)
    np.testing.assert_allclose(lower, 0.0, atol=1e-9)
    assert (upper == np.inf).all()


def test_a_hole_is_no_edge():
    def log_prior(theta):
        radius = np.linalg.norm(theta, axis=1)
        return np.where(radius > 1.0, -0.5 * radius**2, -np.inf)

    draws = np.random.default_rng(0).standard_normal((500, 2))
    lower, upper = edges(log_prior, draws[np.linalg.norm(draws, axis=1) > 1.0])
    assert np.isinf([lower, upper]).all()


@pytest.mark.parametrize("sd", [3.0, 20.0])
def test_no_draw_is_on_the_other_side_of_an_edge(sd):
    """Of a log-normal prior, draws of which come as close to zero as numbers do."""

    def log_prior(theta):
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.log(theta[:, 0]) / sd
            return np.where(theta[:, 0] > 0.0, -0.5 * z**2 - np.log(theta[:, 0]), -np.inf)

    draws = np.exp(sd * np.random.default_rng(0).standard_normal((1000, 1)))
    lower, upper = edges(log_prior, draws)
    u = Unbounded(Bounded(), lower, upper).outward(draws)
    np.testing.assert_allclose(u, np.log(draws), atol=1e-9)


@pytest.fixture
def free():
    return Unbounded(Bounded(), LOWER, UPPER)


def test_the_jacobian_is_that_of_the_map(free):
    u = np.random.default_rng(2).standard_normal((20, 4))
    step = 1e-6
    slope = np.diagonal(
        [[(free.inward(u + step * e) - free.inward(u - step * e)) / (2 * step) for e in np.eye(4)]],
        axis1=1, axis2=3,
    )[0]  # fmt: skip
    np.testing.assert_allclose(free.log_jacobian(u), np.log(np.abs(slope)).sum(axis=1), atol=1e-6)


def test_gradients_follow(free):
    """Of a density of theta, its sum of squares; central differences in u err by 1e-8."""

    def of_theta(theta):
        return -0.5 * (theta**2).sum(axis=1), -theta

    of_u = free.gradient(of_theta)
    u, step = np.random.default_rng(3).standard_normal((10, 4)), 1e-5
    values, gradients = of_u(u)
    np.testing.assert_allclose(values, of_theta(free.inward(u))[0] + free.log_jacobian(u))
    for j, e in enumerate(np.eye(4)):
        difference = (of_u(u + step * e)[0] - of_u(u - step * e)[0]) / (2.0 * step)
        np.testing.assert_allclose(gradients[:, j], difference, atol=1e-6)


def test_particles_come_back_as_they_were(free):
    particles = draw_prior(Bounded(), 50, np.random.default_rng(4))
    freed = free.freed(particles)
    np.testing.assert_allclose(freed.log_prior, free.log_prior(freed.theta), atol=1e-8)
    for one, other in zip(free.restored(freed), particles, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
