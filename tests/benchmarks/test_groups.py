"""What the study ``groups`` compares with: effects that are coordinates, and integrated ones."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

pytest.importorskip("examples.benchmarks", reason="the examples are not part of the package")

from examples.benchmarks.harness import group_sets

DATA = {
    "poisson": {
        "exposure": lambda rng, n: rng.uniform(0.5, 2.0, n),
        "weight": lambda rng, n: rng.integers(1, 3, n).astype(np.float64),
    },
    "binomial": {},
    "normal": {},
}
Z = np.linspace(-9.0, 9.0, 401)


@pytest.mark.parametrize("family", DATA)
def test_effects_that_are_coordinates_have_the_integrated_density(family):
    targets = pytest.importorskip("examples.benchmarks.peers.group_targets", exc_type=ImportError)
    data = group_sets.drawn("a", family, [3, 1], 0.8, **DATA[family])
    joint, marginal = targets.joint_target(data.repeated()), targets.marginal_density(data)
    d = len(targets.names(data))
    rng, gaps = np.random.default_rng(1), []
    for theta in 0.4 * rng.standard_normal((3, d)):
        points = np.array([[*theta, a, b] for a in Z[::8] for b in Z[::8]])
        table = -np.asarray(targets.jax.vmap(joint.potential)(points))
        integral = logsumexp(table) + 2.0 * np.log(Z[8] - Z[0])
        gaps.append(integral - np.log(2.0 * np.pi) - float(marginal(theta)))
    np.testing.assert_allclose(gaps, 0.0, atol=1e-6)


def test_a_slope_of_each_group_has_scipys_density():
    targets = pytest.importorskip("examples.benchmarks.peers.group_targets", exc_type=ImportError)
    data = group_sets.drawn("a", "normal", [5, 4], 0.8)._replace(slope=0)
    target = targets.joint_target(data)
    rng, gaps = np.random.default_rng(2), []
    x, unit = data.columns[:, 0] - data.columns.mean(), data.y.std()
    for theta in 0.5 * rng.standard_normal((3, 10)):
        b, a, sigma, *sds, cosine = target.reported(theta)
        s = np.array(sds) * [1.0, data.columns.std()] / unit
        covariance = np.outer(s, s) * [[1.0, cosine], [cosine, 1.0]]
        u = np.linalg.cholesky(covariance) @ theta[6:].reshape(2, 2) * unit
        eta = a + u[0, data.codes] + (b + u[1, data.codes] / data.columns.std()) * x
        value = stats.norm.logpdf(data.y, eta, sigma).sum() + stats.norm.logpdf(theta[6:]).sum()
        value += stats.norm.logpdf(theta[:2], scale=2.5).sum() + np.log1p(-(cosine**2))
        value += sum(stats.t.logpdf(one, 3, scale=2.5) + np.log(one) for one in (sigma / unit, *s))
        gaps.append(value + float(target.potential(theta)))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8)
