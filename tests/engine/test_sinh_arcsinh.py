"""Skewed references: their axes, the moments of their map, what they gain on a skewed posterior."""

import numpy as np
import pytest
from scipy.stats import t as student

from skpmd.engine import importance
from skpmd.engine.importance import AXIS_DF, Proposal, log_density
from skpmd.engine.model import Batch
from skpmd.engine.variational import Gaussian, laplace, variational_mirror_descent
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._priors import NormalPrior
from tests.engine.test_importance import FACTOR, STRETCHED, STRETCHED_WEIGHT, skewed_reference


# ----------------------------------------------------------------------------- skewed references
def logistic_problem(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    sign = np.where(rng.random(n) < 0.9, 1.0, -1.0)
    model = LogisticModel(NormalPrior(np.full(d, 2.0)), fit_intercept=False)
    batches = [Batch(X, sign, np.ones(n))]

    def log_joint(theta):
        return model.log_prior(theta) + model.log_likelihood(theta, batches[0])

    return model, batches, log_joint


def skewed_logistic(**problem):
    model, batches, log_joint = logistic_problem(**problem)
    d = len(model.prior.scale)
    gaussian = variational_mirror_descent(model, batches, laplace(model, batches, np.zeros(d)))
    return gaussian, importance.skewed(gaussian, model, log_joint, batches)


def test_skew_axes_are_orthogonal(d=3):
    gaussian, reference = skewed_logistic(d=d)
    rotation = np.linalg.solve(gaussian.chol, reference.factor)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(d), atol=1e-10)
    np.testing.assert_array_equal(reference.mean, gaussian.mean)


def test_the_maps_constants_are_its_moments():
    # Mean and sd of sinh(arcsinh(Z) + epsilon) on the stretched grid, Z Student.
    _, reference = skewed_logistic()
    assert len(reference.axes) > 0
    mass = student.pdf(STRETCHED, AXIS_DF) * STRETCHED_WEIGHT
    for epsilon, centre, spread in zip(
        reference.epsilon, reference.centre, reference.spread, strict=True
    ):
        values = np.sinh(np.arcsinh(STRETCHED) + epsilon)
        assert mass @ values == pytest.approx(centre, abs=1e-4)
        assert np.sqrt(mass @ (values - centre) ** 2) == pytest.approx(spread, rel=1e-4)


def test_leaning_covers_a_skewed_posterior_better():
    # In one dimension the slice is the posterior: Kullback-Leibler divergence by quadrature.
    model, batches, log_joint = logistic_problem(n=12, d=1)
    gaussian, reference = skewed_logistic(n=12, d=1)
    grid = np.linspace(-4.0, 12.0, 8001)
    cell = grid[1] - grid[0]
    log_p = log_joint(grid[:, None])
    log_p -= np.logaddexp.reduce(log_p) + np.log(cell)

    def divergence(candidate):
        return np.exp(log_p) @ (log_p - log_density(candidate, grid[:, None])) * cell

    assert len(reference.axes) == 1
    plain = divergence(Proposal(gaussian.mean, gaussian.chol))
    assert 0.0 <= divergence(reference) < 0.25 * plain


def test_a_posterior_without_skewness_stays_normal():
    class Symmetric:
        def skew_axes(self, mean, chol, batches, b):
            # A rotation means nothing here, and moves need a factor that is triangular.
            return np.array([[0.6, -0.8], [0.8, 0.6]]), np.array([0.0, 0.05])

    reference = importance.skewed(Gaussian(np.zeros(2), FACTOR), Symmetric(), None, [])
    assert reference.axes.size == 0
    np.testing.assert_array_equal(reference.factor, FACTOR)


@pytest.mark.parametrize("epsilon", [-1.0, 0.3])
def test_slice_moments_of_a_skewed_normal(epsilon):
    # The slice's log density at 17 nodes gives back the standard deviation and the skewness of
    # what lies within four sds.
    reference = skewed_reference(1, epsilon=epsilon, scale=0.9)._replace(
        mean=np.zeros(1), factor=np.eye(1)
    )
    grid = np.linspace(-4.0, 4.0, 4001)
    mass = np.exp(log_density(reference, grid[:, None]))
    mass /= mass.sum()
    centre = mass @ grid
    sd = np.sqrt(mass @ (grid - centre) ** 2)
    values = log_density(reference, importance._NODES[:, None])[None]
    found_sd, found_skewness = importance._slice_moments(values)
    assert found_sd[0] == pytest.approx(sd, rel=0.02)
    assert found_skewness[0] == pytest.approx(mass @ (grid - centre) ** 3 / sd**3, abs=0.05)
