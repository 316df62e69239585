"""Laplace and Gaussian mirror descent against closed forms, quadrature and scikit-learn."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skpmd.engine.model import Batch, Model
from skpmd.engine.variational import Gaussian, laplace, variational_mirror_descent
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._priors import NormalPrior


class LinearModel(Model):
    """y ~ N(X theta, 1), theta ~ N(0, I): the posterior is Gaussian."""

    def log_prior(self, theta):
        return norm.logpdf(theta).sum(axis=1)

    def log_likelihood(self, theta, batch):
        return norm.logpdf(batch.y, theta @ batch.X.T) @ batch.weight

    def gaussian_target(self, mean, cov, batches, b=1.0):
        gradient, precision = -mean, np.eye(len(mean))
        for batch in batches:
            gradient = gradient + b * batch.X.T @ (batch.weight * (batch.y - batch.X @ mean))
            precision = precision + b * (batch.X.T * batch.weight) @ batch.X
        return gradient, precision


def linear_batches():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    y = X @ np.array([1.0, -2.0, 0.0, 3.0]) + rng.standard_normal(50)
    weight = rng.uniform(0.5, 2.0, 50)
    return [Batch(X[:20], y[:20], weight[:20]), Batch(X[20:], y[20:], weight[20:])]


def exact_linear_posterior(b):
    batches = linear_batches()
    precision = np.eye(4) + b * sum((batch.X.T * batch.weight) @ batch.X for batch in batches)
    moment = b * sum(batch.X.T @ (batch.weight * batch.y) for batch in batches)
    return np.linalg.solve(precision, moment), np.linalg.inv(precision)


class SlopeProblem:
    """Logistic regression with one coefficient and no intercept: all integrals are on a line."""

    prior_scale = 1.0

    def __init__(self, n=8):
        rng = np.random.default_rng(1)
        self.x = rng.uniform(0.2, 2.5, n)
        self.sign = np.where(np.arange(n) == 3, -1.0, 1.0)
        self.weight = rng.uniform(0.5, 1.5, n)
        self.model = LogisticModel(NormalPrior(np.array([self.prior_scale])), fit_intercept=False)
        self.batches = [Batch(self.x[:, None], self.sign, self.weight)]
        self.grid = np.linspace(-10.0, 25.0, 35_001)
        self.cell = self.grid[1] - self.grid[0]

    def gradient(self, b=1.0):
        z = np.outer(self.grid, self.x * self.sign)
        slope = expit(-z) @ (self.weight * self.x * self.sign)
        return -self.grid / self.prior_scale**2 + b * slope

    def curvature(self, b=1.0):
        z = np.outer(self.grid, self.x)
        return self.prior_scale**-2 + b * ((expit(z) * expit(-z)) @ (self.weight * self.x**2))

    def laplace(self, **options):
        return laplace(self.model, self.batches, np.zeros(1), **options)

    def variational_mirror_descent(self, **options):
        return variational_mirror_descent(self.model, self.batches, self.laplace(), **options)


# ----------------------------------------------------------------------------- Laplace
@pytest.mark.parametrize("prior_scale", [0.3, 1.0, 5.0])
def test_the_mode_is_that_of_scikit_learn(prior_scale):
    # scikit-learn does not penalise the intercept; a prior of sd 1e4 on it moves the mode by about
    # its posterior variance over 1e8. The tolerance is that of the two optimisers.
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    scale = np.append(np.full(X.shape[1], prior_scale), 1e4)
    model = LogisticModel(NormalPrior(scale), fit_intercept=True)
    batches = [Batch(X, 2.0 * y - 1.0, np.ones(len(y)))]
    q = laplace(model, batches, np.zeros(len(scale)), tol=1e-10)
    other = LogisticRegression(C=prior_scale**2, solver="newton-cholesky", tol=1e-12, max_iter=500)
    other.fit(X, y)
    np.testing.assert_allclose(q.mean[:-1], other.coef_[0], atol=1e-6)
    np.testing.assert_allclose(q.mean[-1], other.intercept_[0], atol=1e-6)


class CountingModel(LogisticModel):
    """Counts passes over the data for values of the likelihood."""

    passes = 0

    def log_likelihood(self, theta, batch):
        self.passes += 1
        return super().log_likelihood(theta, batch)


def test_the_mode_costs_few_passes_over_the_data():
    # Log joint densities of single-precision features are rounded to about 1e-7 of a row's, times
    # the root of the number of rows; near the top that hides the rise of a good step, and the
    # search for a shorter one must not go on because of it. Newton needs 4 to 8 steps.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = (rng.standard_normal((20_000, 3)) * rng.uniform(0.1, 3.0)).astype(np.float32)
        uniform = rng.random(20_000)
        logit = rng.uniform(0.1, 3.0) * X[:, 0] + rng.uniform(-2.0, 2.0)
        sign = np.where(uniform < expit(logit), 1.0, -1.0)
        batches = [Batch(X, sign, np.ones(20_000))]
        model = CountingModel(NormalPrior(np.ones(4)), fit_intercept=True)
        q = laplace(model, batches, np.zeros(4))
        gradient, precision = model.gaussian_target(q.mean, None, batches)
        assert np.sqrt(gradient @ np.linalg.solve(precision, gradient)) < 1e-4
        assert model.passes < 30


class WallModel:
    """Log density in one dimension that rises for long, and falls steeply beyond zero.

    Halved steps from -1 end before the wall or far beyond the top, at the cube root of 1 / wall.
    """

    wall, flatness = 1e6, 1e-3

    def __init__(self):
        self.passes = 0

    def gaussian_target(self, mean, cov, batches, b=1.0):
        self.passes += 1
        beyond = max(float(mean[0]), 0.0)
        slope = 1.0 - self.flatness * mean[0] - self.wall * beyond**3
        return np.array([slope]), np.array([[self.flatness + 3.0 * self.wall * beyond**2]])


def test_a_step_that_is_short_of_the_top_is_taken():
    # From there on Newton needs some twenty steps. Halving it until nothing is left of it took 21
    # passes a step, and a hundred steps led nowhere.
    model = WallModel()
    q = laplace(model, [], np.array([-1.0]))
    assert abs(q.mean[0] - 0.01) < 1e-5
    assert model.passes < 60


# ----------------------------------------------------------------------------- mirror descent
def test_a_density_that_is_not_concave_is_climbed():
    """Slopes rise on the way up from the bottom of a cosine: no step is too long there."""

    class Cosine:
        def gaussian_target(self, mean, cov, batches, b):
            return np.sin(mean), np.abs(np.cos(mean))[None] + 1e-4

    q = laplace(Cosine(), [], np.array([0.1]))
    assert q.mean[0] == pytest.approx(np.pi, abs=1e-5)


@pytest.mark.parametrize("b", [1.0, 0.25])
def test_a_gaussian_posterior_is_found_exactly(b):
    mean, cov = exact_linear_posterior(b)
    mode = laplace(LinearModel(), linear_batches(), np.zeros(4), b)
    np.testing.assert_allclose(mode.mean, mean, atol=1e-10)
    np.testing.assert_allclose(mode.chol @ mode.chol.T, cov, rtol=1e-9, atol=1e-12)
    far = Gaussian(np.full(4, 3.0), 10.0 * np.eye(4))
    for start in (mode, far):
        q = variational_mirror_descent(LinearModel(), linear_batches(), start, b, max_iter=100)
        np.testing.assert_allclose(q.mean, mean, atol=1e-10)
        np.testing.assert_allclose(q.chol @ q.chol.T, cov, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("b", [1.0, 0.3])
def test_fixed_point_by_quadrature(b):
    # E_q[grad] = 0 and precision = E_q[-Hessian]. Logits here have sds up to 2, where the 16
    # Gauss-Hermite nodes of the model are good to 1e-4; the line's grid is good to rounding.
    problem = SlopeProblem()
    q = problem.variational_mirror_descent(b=b, max_iter=200, tol=1e-10)
    mean, sd = q.mean[0], q.chol[0, 0]
    mass = norm.pdf(problem.grid, mean, sd) * problem.cell
    assert mass @ problem.gradient(b) * sd == pytest.approx(0.0, abs=1e-4)
    assert mass @ problem.curvature(b) == pytest.approx(sd**-2, rel=1e-4)
