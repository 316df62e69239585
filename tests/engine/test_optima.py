"""Optima from values: places, curvatures and masses against closed forms."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skpmd.proposals.fitted_proposals import ByDifferences, proposals_at_optima
from skpmd.proposals.optima import arms, optima


def found(log_density, draws):
    """Optima where the draws come from a density that does not matter."""
    values = log_density(draws)
    ones, complete, _ = optima(log_density, draws, values, values, ByDifferences(log_density))
    assert complete
    return ones


def normal(mean, cov):
    return lambda theta: np.atleast_1d(multivariate_normal(mean, cov).logpdf(theta))


@pytest.mark.parametrize("d, condition", [(1, 1.0), (3, 10.0), (8, 1e4), (30, 1e6)])
def test_a_normal_density_is_found_exactly(d, condition):
    """Its Hessian has no higher terms: what is left is rounding, amplified by the differences."""
    rng = np.random.default_rng(d)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    cov = axes * np.logspace(0.0, -np.log10(condition), d) @ axes.T
    mean = 3.0 * rng.standard_normal(d)
    (one,) = found(normal(mean, cov), 10.0 * rng.standard_normal((200, d)))
    chol = np.linalg.cholesky(cov)
    assert np.linalg.norm(np.linalg.solve(chol, one.gaussian.mean - mean)) < 1e-2
    white = np.linalg.solve(chol, one.gaussian.chol)
    np.testing.assert_allclose(white @ white.T, np.eye(d), atol=1e-3)
    assert one.log_mass == pytest.approx(0.0, abs=2e-3)


def test_all_modes_are_found_by_mass():
    """Five normals, one of them narrow and rare, from 4000 draws of a wide normal."""
    means = np.array([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0], [0.0, -4.0], [5.0, 5.0]])
    sds, mass = np.array([0.7, 0.5, 0.6, 0.4, 0.15]), np.array([0.35, 0.25, 0.2, 0.15, 0.05])

    def log_density(theta):
        each = [normal(m, s**2 * np.eye(2))(theta) for m, s in zip(means, sds, strict=True)]
        return np.logaddexp.reduce(np.log(mass)[:, None] + each, axis=0)

    ones = found(log_density, 5.0 * np.random.default_rng(0).standard_normal((4000, 2)))
    assert len(ones) == 5
    for k, one in enumerate(ones):  # In the order of their masses.
        np.testing.assert_allclose(one.gaussian.mean, means[k], atol=0.02)
        assert one.log_mass == pytest.approx(np.log(mass[k]), abs=0.02)


def test_nothing_is_found_where_there_is_nothing():
    draws = np.random.default_rng(0).standard_normal((50, 2))
    values = np.full(50, -np.inf)

    def nothing(theta):
        return np.full(len(theta), -np.inf)

    assert optima(nothing, draws, values, values, ByDifferences(nothing))[:2] == ([], True)


def test_noise_is_not_searched():
    rng = np.random.default_rng(0)

    def log_density(theta):
        return -0.5 * (theta**2).sum(axis=1) + 1e-2 * rng.standard_normal(len(theta))

    draws = rng.standard_normal((50, 2))
    values = log_density(draws)
    assert optima(log_density, draws, values, values, ByDifferences(log_density))[:2] == ([], True)


def test_a_search_that_is_not_complete_says_so(monkeypatch):
    """More modes than values are asked for; each draw lies at one of them."""
    monkeypatch.setattr("skpmd.proposals.optima._MAX_POINTS", 500)
    grid = np.stack(np.meshgrid(*[np.arange(9.0)] * 2), axis=-1).reshape(-1, 2)

    def log_density(theta):
        squared = ((theta[:, None] - grid) ** 2).sum(axis=2) / 0.05**2
        return np.logaddexp.reduce(-0.5 * squared, axis=1)

    values = log_density(grid)
    ones, complete, _ = optima(log_density, grid, values, values, ByDifferences(log_density))
    assert len(ones) < 81 and not complete
    monkeypatch.undo()
    ones, *_ = optima(log_density, grid, values, values, ByDifferences(log_density))
    assert len(ones) == 81


def test_normals_that_cross_are_found_by_the_way_of_searches():
    """Two long normals of one mean in six dimensions: the optimum is their crossing.

    A second-order expansion on one of them has a remainder of exp(-8) or so from the other, and
    differences of second order an error of a thousandth.
    """
    rng, d, shares = np.random.default_rng(0), 6, np.array([0.7, 0.3])
    parts = []
    for long in (1, 2):
        sds = np.where(np.arange(d) < long, 1.0, 0.05)
        turned = np.linalg.qr(rng.standard_normal((d, d)))[0] * sds
        parts.append(multivariate_normal(np.full(d, 0.5), turned @ turned.T))

    def log_density(theta):
        one, other = (np.atleast_1d(part.logpdf(theta)) for part in parts)
        return np.logaddexp(np.log(shares[0]) + one, np.log(shares[1]) + other)

    draws = 2.0 * rng.standard_normal((4000, d))
    values = log_density(draws)
    ones, _, _ = optima(log_density, draws, values, values, ByDifferences(log_density))
    assert len(ones) == 1
    more = next(proposals_at_optima(log_density, draws, values, values, rng)).optima
    for share, part in zip(shares, parts, strict=True):
        gaps = [np.abs(one.gaussian.chol @ one.gaussian.chol.T - part.cov).max() for one in more]
        nearest = more[int(np.argmin(gaps))]
        assert min(gaps) < 0.01
        np.testing.assert_allclose(nearest.gaussian.mean, 0.5, atol=0.02)
        assert nearest.log_mass == pytest.approx(np.log(share), abs=0.02)


def test_a_normal_has_no_arms():
    draws = 5.0 * np.random.default_rng(0).standard_normal((1000, 3))
    density = normal(np.ones(3), 0.01)
    values, derivatives = density(draws), ByDifferences(density)
    ones, _, path = optima(density, draws, values, values, derivatives)
    assert len(ones) == len(arms(ones, path, derivatives)) == 1


def mixture_of_labels(power):
    """A mixture of five normals for 40 rows each, and a likelihood to a power of coordinate 0."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(6.0 * j, 1.0, 40) for j in range(5)])

    def log_density(theta):
        log = -0.5 * (y - theta[:, :, None]) ** 2
        total = np.logaddexp.reduce(log, axis=1).sum(axis=1) - 0.005 * (theta**2).sum(axis=1)
        return total + power * theta[:, 0]

    return log_density, rng.normal(12.0, 10.0, (2000, 5))


def test_labels_that_can_be_switched_need_few_searches():
    """All 120 orders, with equal masses and the covariances that belong to them."""
    log_density, draws = mixture_of_labels(0.0)
    values = log_density(draws)
    derivatives = ByDifferences(log_density)
    ones, complete, _ = optima(log_density, draws, values, values, derivatives)
    assert complete
    orders = {tuple(np.argsort(one.gaussian.mean)) for one in ones}
    assert len(orders) == 120 == len([one for one in ones if one.log_mass > ones[0].log_mass - 1.0])
    assert derivatives.n_points < 20_000
    first, last = ones[0].gaussian, ones[100].gaussian
    place = last.mean + 0.5 * last.chol.sum(axis=1)
    gap = log_density(np.stack([place, last.mean])) @ [1.0, -1.0]
    own = np.linalg.solve(last.chol, place - last.mean)
    assert gap == pytest.approx(-0.5 * own @ own, abs=0.05)
    assert log_density(first.mean[None])[0] == pytest.approx(log_density(last.mean[None])[0])


def test_what_is_nearly_a_symmetry_is_none():
    """Four labels can be switched; all orders of coordinate 0 have a mass of their own."""
    log_density, draws = mixture_of_labels(0.01)
    ones = found(log_density, draws)
    assert len({tuple(np.argsort(one.gaussian.mean)) for one in ones}) == 120
    slopes = ByDifferences(log_density)
    for one in ones:
        value, slope = slopes.slope(one.gaussian.mean, one.gaussian.chol)
        assert np.linalg.norm(slope) < 0.02
        volume = np.linalg.slogdet(one.gaussian.chol)[1] + 2.5 * np.log(2.0 * np.pi)
        assert one.log_mass == pytest.approx(value + volume, abs=0.02)
