"""Regions of highest density against those of normals, and against masses of particles."""

import numpy as np
import pytest
from matplotlib.path import Path
from scipy.stats import chi2, norm, qmc

from skpmd import GaussianPosterior, Posterior
from skpmd.plot import PairDisplay
from skpmd.plot._pairs import thresholds

# Points that are spread more evenly than random ones, so that estimates of densities are better.
NORMALS = norm.ppf(qmc.Sobol(2, seed=0).random_base2(11))


def polygons(contour, level):
    """Closed outlines at the k-th level of a contour."""
    path = contour.get_paths()[level]
    return [Path(points) for points in path.to_polygons() if len(points) > 2]


def area(polygon):
    x, y = polygon.vertices.T
    return 0.5 * abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1]))


def masses(display, posterior, i=1, j=0):
    """Weights of the particles within the inner and the outer region."""
    both, out = posterior.particles[:, [j, i]], []
    for level in (1, 0):
        inside = np.zeros(len(both), dtype=bool)
        for one in polygons(display.contours_[i, j], level):
            inside ^= one.contains_points(both)
        out.append(posterior.weights @ inside)
    return out


def test_thresholds_are_those_of_a_normal():
    x = np.linspace(-6.0, 6.0, 601)
    density = np.exp(-0.5 * (x[:, None] ** 2 + x**2)) / (2.0 * np.pi)
    found = thresholds(density, np.full(density.shape, 0.02**2), (0.5, 0.9))
    # Within radius r there is 1 - exp(-r^2 / 2), so that the density there is (1 - p) / 2 pi.
    np.testing.assert_allclose(found, np.array([0.1, 0.5]) / (2.0 * np.pi), rtol=2e-3)
    line = norm.pdf(x)
    found = thresholds(line, np.gradient(x), (0.5, 0.9))
    np.testing.assert_allclose(found, norm.pdf(norm.ppf([0.95, 0.75])), rtol=0.02)


def test_thresholds_rise_strictly_where_the_density_is_flat():
    low, high = thresholds(np.ones((4, 4)), np.ones((4, 4)), (0.5, 0.9))
    assert low < high


def test_regions_of_a_normal_are_ellipses_of_the_right_area():
    root = np.array([[2.0, 0.0], [1.2, 0.5]])
    posterior = Posterior(NORMALS @ root.T, np.zeros(2048), names=["u", "v"])
    display = PairDisplay.from_posterior(posterior)
    for level, p in ((0, 0.9), (1, 0.5)):
        (outline,) = polygons(display.contours_[1, 0], level)
        exact = np.pi * chi2.ppf(p, 2) * abs(np.linalg.det(root))
        # A kernel estimate of 2048 points; an error of 4 % in area is one of 2 % in radius.
        np.testing.assert_allclose(area(outline), exact, rtol=0.04)
    x, density, (cut, _) = display.marginals[0]
    np.testing.assert_allclose(density, norm.pdf(x, scale=2.0), atol=0.01)
    within = x[density >= cut]
    np.testing.assert_allclose(within[[0, -1]], 2.0 * norm.ppf([0.05, 0.95]), atol=0.3)
    np.testing.assert_array_equal(display.lines_[0].get_xydata().T, [x, density])


def test_modes_are_parts_of_a_region_with_their_weights():
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    group = np.arange(2048) % 3
    posterior = Posterior(
        0.5 * NORMALS + centres[group], np.log(np.array([0.6, 0.3, 0.1])[group]), names=["a", "b"]
    )
    display = PairDisplay.from_posterior(posterior, levels=(0.5, 0.95))
    outer = polygons(display.contours_[1, 0], 0)
    inner = polygons(display.contours_[1, 0], 1)
    assert len(outer) == 3
    for centre in centres:
        assert sum(one.contains_point(centre) for one in outer) == 1
    # Of normals of equal width with weights w the region above t, in units of the density at the
    # top, holds sum(max(w - t, 0)). For 0.5 that is t = 0.2: the least has no part of it.
    assert [any(one.contains_point(centre) for one in inner) for centre in centres] == [1, 1, 0]
    # Particles are nearer to the middle of their mode than what is drawn with a kernel.
    np.testing.assert_allclose(masses(display, posterior), [0.5, 0.95], atol=0.06)


@pytest.mark.slow
def test_narrow_modes_and_ridges_have_regions():
    far = 0.03 * NORMALS + np.where(np.arange(2048) % 2, 5.0, -5.0)[:, None]
    posterior = Posterior(far, np.zeros(2048))
    display = PairDisplay.from_posterior(posterior)
    np.testing.assert_allclose(masses(display, posterior), [0.5, 0.9], atol=0.06)
    far = 1e-3 * NORMALS + np.where(np.arange(2048) % 2, 5.0, -5.0)[:, None]
    display = PairDisplay.from_posterior(Posterior(far, np.zeros(2048)))
    x, density, cuts = display.marginals[0]
    # Between two points of the grid the density is no triangle as wide as the mesh.
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.1)
    ridge = NORMALS[:, :1] + 0.01 * NORMALS[:, 1:] * [[0.0, 1.0]]
    posterior = Posterior(ridge, np.zeros(2048))
    display = PairDisplay.from_posterior(posterior)
    np.testing.assert_allclose(masses(display, posterior), [0.5, 0.9], atol=0.03)


def test_coordinates_that_depend_on_each_other_are_a_line():
    share = norm.cdf(NORMALS[:, 0])
    posterior = Posterior(np.column_stack([share, 1.0 - share]), np.zeros(2048))
    display = PairDisplay.from_posterior(posterior)
    vertices = np.concatenate([path.vertices for path in display.contours_[1, 0].get_paths()])
    assert len(vertices) and np.abs(vertices.sum(axis=1) - 1.0).max() < 1e-4
    assert np.ptp(vertices[:, 0]) > 0.6
    display.figure_.canvas.draw()


def test_scales_do_not_matter():
    scale = np.array([1e-12, 1e9])
    small = Posterior(NORMALS * scale + [0.0, 1e9], np.zeros(2048))
    plain = Posterior(NORMALS, np.zeros(2048))
    areas = [
        area(polygons(PairDisplay.from_posterior(one).contours_[1, 0], 0)[0])
        for one in (small, plain)
    ]
    np.testing.assert_allclose(areas[0] / scale.prod(), areas[1], rtol=0.02)


def test_the_first_coordinates_are_shown_and_constants_are_not():
    particles = np.column_stack([np.ones(2048), NORMALS, NORMALS**2])
    posterior = Posterior(particles, np.zeros(2048), names=["one", "a", "b", "c", "d"])
    display = PairDisplay.from_posterior(posterior, max_coordinates=2)
    assert display.names == ["a", "b"] and list(display.pairs) == [(1, 0)]
    assert display.figure_.get_suptitle() == "2 of 4 coordinates: 2 are not shown"
    with pytest.raises(ValueError, match="'one'"):
        PairDisplay.from_posterior(posterior, names=["one", "a"])
    with pytest.raises(ValueError, match="all of the weight"):
        PairDisplay.from_posterior(Posterior(particles[:1], np.zeros(1)))


@pytest.mark.parametrize("gap", [5.0, 10.0, 40.0, 800.0])
def test_few_effective_particles_are_drawn_or_refused(gap):
    log_weights = np.where(np.arange(2048) == 7, 0.0, -gap)
    posterior = Posterior(NORMALS, log_weights)
    if posterior.weights[7] < 1.0 - 1e-6:
        PairDisplay.from_posterior(posterior).figure_.canvas.draw()
    else:
        with pytest.raises(ValueError, match="all of the weight"):
            PairDisplay.from_posterior(posterior)


def test_one_coordinate_is_a_density():
    display = PairDisplay.from_posterior(Posterior(NORMALS, np.zeros(2048)), names=["theta1"])
    assert display.axes_.shape == (1, 1) and not display.pairs
    assert display.ax_.get_xlabel() == "theta1"


def test_labels_stand_at_the_edges():
    names = ["a", "b", "c"]
    posterior = Posterior(np.column_stack([NORMALS, NORMALS[:, 0]]), np.zeros(2048), names=names)
    axes = PairDisplay.from_posterior(posterior).axes_
    assert [one.get_xlabel() for one in axes[-1]] == names
    assert [one.get_ylabel() for one in axes[1:, 0]] == names[1:]
    assert not axes[0, 1].axison and [one.get_text() for one in axes[0, 2].get_legend().texts] == [
        "50 %",
        "90 %",
    ]


def test_a_posterior_without_particles_is_refused():
    with pytest.raises(TypeError, match="no particles"):
        PairDisplay.from_posterior(GaussianPosterior(np.zeros(2), np.ones(2), ["a", "b"]))
