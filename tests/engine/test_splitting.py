"""Flows between kicks: reversible, of constant volume, and exact where they claim to be."""

import numpy as np
import pytest
from scipy.special import expit, log_expit

from skpmd.proposals.hmc import N_CHAINS, Target, _trajectory, _Whitened
from skpmd.proposals.splitting import FreeFlight, Stiff, StiffFlow
from tests.engine.test_hmc import hamiltonian

STEEP = 100.0


def edge(axis):
    """Log sigmoid(-100 a) of the position a along an axis."""

    def function(a):
        return log_expit(-STEEP * a[:, 0]), -STEEP * expit(STEEP * a)

    return Stiff(axis[:, None], function, 2.0 / STEEP)


def flows():
    axis = np.array([0.6, 0.0, 0.8])
    return [FreeFlight(), StiffFlow(edge(axis)), StiffFlow(edge(axis)._replace(axes=np.eye(3)))]


def advanced(flow, z, p, h=0.3, step=0.007):
    return flow.advance(z, p, h, step, flow.initialise(z))


@pytest.mark.parametrize("flow", flows())
def test_a_flow_backwards_returns_to_its_start(flow):
    # The error is that of rounding, which the edge multiplies by at most e^(100 * 0.3 / 2).
    z, p = np.random.default_rng(0).standard_normal((2, 5, 3))
    end, momentum, _, error = advanced(flow, z, p)
    back, turned, _, other = advanced(flow, end, -momentum)
    np.testing.assert_allclose(back, z, atol=1e-8)
    np.testing.assert_allclose(-turned, p, atol=1e-8)
    np.testing.assert_allclose(error + other, 0.0, atol=1e-6)


@pytest.mark.parametrize("flow", flows())
def test_a_flow_keeps_volumes(flow):
    # The determinant of the Jacobian by central differences of 1e-6 is good to 1e-6 or so.
    start = np.random.default_rng(1).standard_normal(6)
    moved = np.concatenate([start + 1e-6 * np.eye(6), start - 1e-6 * np.eye(6)])
    z, p, _, _ = advanced(flow, moved[:, :3], moved[:, 3:])
    ends = np.concatenate([z, p], axis=1)
    assert np.linalg.det((ends[:6] - ends[6:]) / 2e-6) == pytest.approx(1.0, abs=1e-4)


def test_forces_add_up_to_the_gradient():
    rng = np.random.default_rng(4)
    z, gradient = rng.standard_normal((2, 5, 3))
    stiff = edge(np.array([0.6, 0.0, 0.8]))
    flow = StiffFlow(stiff)
    inside = stiff.function(z @ stiff.axes)[1] @ stiff.axes.T - z
    found = flow.slow_force(z, gradient, flow.initialise(z)) + inside
    np.testing.assert_allclose(found, gradient, rtol=1e-12, atol=1e-12)


def bent(theta):
    """N(0, I_3) with an edge along the first coordinate, and a tilt along the second."""
    value = -0.5 * (theta**2).sum(axis=1) + log_expit(-STEEP * theta[:, 0])
    value = value + 2.0 * log_expit(theta[:, 1])
    gradient = -theta
    gradient[:, 0] -= STEEP * expit(STEEP * theta[:, 0])
    gradient[:, 1] += 2.0 * expit(-theta[:, 1])
    return value, gradient


def exact_moments(factor):
    grid = np.linspace(-9.0, 9.0, 400_001)
    density = np.exp(-0.5 * grid**2 + factor(grid))
    density /= density.sum()
    mean = density @ grid
    return mean, np.sqrt(density @ (grid - mean) ** 2)


def run(**params):
    rng = np.random.default_rng(0)
    start = -np.abs(rng.standard_normal((N_CHAINS, 3)))
    *_, chains = hamiltonian(bent, start, np.zeros(3), np.eye(3), rng, target_ess=2000, **params)
    return chains


def stiff_edge(mean, chol):
    """The edge in the whitening, along the one direction in which it changes."""
    slope = chol[0] / np.linalg.norm(chol[0])

    def function(a):
        along = STEEP * (mean[0] + np.linalg.norm(chol[0]) * a)
        return log_expit(-along[:, 0]), -STEEP * np.linalg.norm(chol[0]) * expit(along)

    return Stiff(slope[:, None], function, 2.0 / STEEP)


def roughly(theta):
    """A gradient that is wrong by a tenth and rounded."""
    return (1.1 * bent(theta)[1]).round(2)


@pytest.mark.parametrize("stiff", [None, stiff_edge])
@pytest.mark.parametrize("inside", [None, roughly])
def test_a_trajectory_backwards_returns_to_its_start(stiff, inside):
    # Whatever the gradients inside: but for rounding, which the edge multiplies.
    rng = np.random.default_rng(5)
    chains = _Whitened(Target(bent, inside, stiff), np.full(3, 0.1), 0.8 * np.eye(3))
    state, momentum = chains.at(rng.standard_normal((20, 3))), rng.standard_normal((20, 3))
    ahead, p, error = _trajectory(chains, state, momentum, 0.1, 0.01, 5)
    back, turned, other = _trajectory(chains, ahead, -p, 0.1, 0.01, 5)
    np.testing.assert_allclose(back.z, state.z, atol=1e-7)
    np.testing.assert_allclose(-turned, momentum, atol=1e-7)
    np.testing.assert_allclose(error + other, 0.0, atol=1e-5)
    assert np.abs(ahead.z - state.z).max() > 0.1


@pytest.mark.parametrize("inside", [None, roughly])
def test_moments_are_exact_with_a_stiff_part_and_rough_gradients(inside):
    # 4.5 standard errors of a mean of that many effective draws; sds to 0.1 as 1000 of them allow.
    chains = run(stiff=stiff_edge, inside=inside, max_iter=2000)
    assert chains.r_hat < 1.02
    factors = (
        lambda z: log_expit(-STEEP * z),
        lambda z: 2.0 * log_expit(z),
        np.zeros_like,
    )
    for j, factor in enumerate(factors):
        mean, sd = exact_moments(factor)
        assert abs(chains.draws[..., j].mean() - mean) < 4.5 * sd / np.sqrt(chains.ess)
        assert abs(chains.draws[..., j].std() / sd - 1.0) < 0.1
