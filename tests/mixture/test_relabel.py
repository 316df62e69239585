"""Components of all particles brought into the order of the best one."""

import numpy as np
import pytest

from skpmd.mixture._particles import MixtureParticles
from skpmd.mixture._relabel import relabelling


def particles_of(means, sds, shares=None, log_weights=None):
    """Particles of spherical normals; means (m, K, p), sds (m, K)."""
    means, sds = np.asarray(means, dtype=float), np.asarray(sds, dtype=float)
    m, K, p = means.shape
    shares = np.full((m, K), 1.0 / K) if shares is None else np.asarray(shares)
    own = np.full(m, -np.log(m)) if log_weights is None else np.asarray(log_weights)
    log_mixing = np.log(shares)
    scale = sds[..., None, None] * np.eye(p)
    return MixtureParticles(
        own, log_mixing, own[:, None] + log_mixing, means, scale, np.full((m, K), 3.0)
    )


def test_permuted_copies_are_put_back():
    rng = np.random.default_rng(0)
    means, sds = rng.normal(size=(5, 2)), 0.2 + rng.random(5)
    shares = rng.dirichlet(np.full(5, 5.0))
    order = rng.permuted(np.tile(np.arange(5), (40, 1)), axis=1)
    noise = 0.01 * rng.normal(size=(40, 5, 2))
    particles = particles_of(means[order] + noise, sds[order], shares[order])
    found = relabelling(particles)
    assert found.dtype.kind == "i"
    labels = np.take_along_axis(order, found, axis=1)
    assert (labels == labels[0]).all()
    same = particles.relabelled(found)
    np.testing.assert_allclose(same.location.std(axis=0), 0.01, atol=0.01)
    for name in ("log_mixing", "log_predictive", "scale_cholesky", "df"):
        values = getattr(same, name)
        if name != "log_predictive":
            np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape))
    np.testing.assert_array_equal(same.log_weights, particles.log_weights)


def test_scale_and_share_tell_apart_what_means_do_not():
    means = np.zeros((2, 2, 1))
    assert relabelling(particles_of(means, [[1.0, 3.0], [3.1, 0.9]], log_weights=[0.0, -9.0]))[
        1
    ].tolist() == [1, 0]
    one = particles_of(means, np.ones((2, 2)), [[0.8, 0.2], [0.25, 0.75]], [0.0, -9.0])
    assert relabelling(one)[1].tolist() == [1, 0]


def test_components_without_overlap_go_to_the_nearest():
    means = np.array([[[0.0], [1000.0]], [[700.0], [200.0]]])
    sds = np.full((2, 2), 0.1)
    assert relabelling(particles_of(means, sds, log_weights=[0.0, -9.0]))[1].tolist() == [1, 0]


@pytest.mark.parametrize("best", [0, 3])
def test_the_particle_of_the_largest_weight_is_followed(best):
    rng = np.random.default_rng(1)
    means = rng.permuted(np.tile(np.arange(4.0), (6, 1)), axis=1)[..., None]
    log_weights = np.full(6, -5.0)
    log_weights[best] = 0.0
    found = relabelling(particles_of(means, np.full((6, 4), 0.3), log_weights=log_weights))
    assert found[best].tolist() == [0, 1, 2, 3]
    ordered = np.take_along_axis(means[..., 0], found, axis=1)
    np.testing.assert_array_equal(ordered, np.broadcast_to(means[best, :, 0], (6, 4)))


def test_among_equals_a_typical_particle_is_followed():
    """The first of ten is unlike the others, which would then be aligned at random."""
    means = np.tile([[[0.0], [1.0]]], (10, 1, 1))
    means[0] = [[500.0], [-700.0]]
    found = relabelling(particles_of(means, np.full((10, 2), 0.3)))
    assert (found[1:] == [0, 1]).all()
    assert found[0].tolist() == [1, 0]


def test_one_component_and_no_width():
    assert relabelling(particles_of(np.zeros((3, 1, 2)), np.ones((3, 1)))).tolist() == [[0]] * 3
    means = np.array([[[0.0], [1.0]], [[1.0], [0.0]]])
    found = relabelling(particles_of(means, np.full((2, 2), 1e-150), log_weights=[0.0, -9.0]))
    assert found[1].tolist() == [1, 0]
