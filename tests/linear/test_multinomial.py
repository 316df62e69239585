"""More than two classes: against a grid, under permutations, and beside the posterior mode."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD


@pytest.fixture(scope="module")
def small():
    """One feature, no intercept, 15 rows, three classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 1))
    return X, (X * [-1.5, 0.0, 2.0] + rng.gumbel(size=(15, 3))).argmax(axis=1)


class Grid:
    """Posterior of one coefficient a class, prior N(0, 1.5^2) each.

    Of spacing 0.3 out to six prior sds: sums of smooth densities that vanish at the ends have
    errors of 1e-7.
    """

    def __init__(self, X, y):
        axis = np.linspace(-9.0, 9.0, 61)
        self.points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
        log_joint = norm.logpdf(self.points, 0.0, 1.5).sum(axis=1)
        for x, code in zip(X[:, 0], y, strict=True):
            log_joint += log_softmax(x * self.points, axis=1)[:, code]
        self.log_evidence = logsumexp(log_joint) + 3 * np.log(axis[1] - axis[0])
        self.mass = np.exp(log_joint - logsumexp(log_joint))
        self.mean = self.mass @ self.points
        self.std = np.sqrt(self.mass @ (self.points - self.mean) ** 2)

    def proba(self, X):
        return np.stack([self.mass @ np.exp(log_softmax(x * self.points, 1)) for x in X[:, 0]])


@pytest.fixture(scope="module")
def grid(small):
    return Grid(*small)


@pytest.mark.parametrize(
    "params",
    [{}, {"moves": "always"}, {"proposal": "laplace"}, {"proposal": "prior"}],
    ids=["auto", "moves", "laplace", "prior"],
)
def test_posterior_is_that_of_the_grid(small, grid, params):
    """Tolerances: 1000 effective draws at the least (the target of the moves) make Monte Carlo sds
    of 0.03 of a posterior sd for means and 0.022 relative for sds; 4 of each."""
    model = BayesianLogisticRegressionPMD(
        scale=None, prior_scale=1.5, fit_intercept=False, random_state=0, **params
    ).fit(*small)
    assert np.abs((model.coef_[:, 0] - grid.mean) / grid.std).max() < 0.12
    np.testing.assert_allclose(model.coef_std_[:, 0], grid.std, rtol=0.09)
    new = np.linspace(-3, 3, 7)[:, None]
    # A probability's posterior sd is below 0.2; 4 Monte Carlo errors of 0.2 / sqrt(1000).
    np.testing.assert_allclose(model.predict_proba(new), grid.proba(new), atol=0.025)
    np.testing.assert_allclose(np.exp(model.decision_function(new)), model.predict_proba(new))
    np.testing.assert_array_equal(model.predict(new), model.predict_proba(new).argmax(axis=1))
    if params.get("moves") == "always":
        assert not hasattr(model, "log_evidence_")
    else:
        assert abs(model.log_evidence_ - grid.log_evidence) < 0.05  # as for two classes


def test_intervals_are_quantiles_of_the_grid(small, grid):
    model = BayesianLogisticRegressionPMD(
        scale=None, prior_scale=1.5, fit_intercept=False, random_state=0
    )
    found = model.fit(*small).predict_proba_interval([[1.0]], level=0.8)[0]
    proba = np.exp(log_softmax(grid.points, axis=1))
    for k in range(3):
        below = [grid.mass[proba[:, k] < end].sum() for end in found[k]]
        # Quantiles at 2400 effective draws: sd 0.006; 4 of these.
        np.testing.assert_allclose(below, [0.1, 0.9], atol=0.025)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def fitted(iris):
    return BayesianLogisticRegressionPMD(random_state=0).fit(*iris)


def test_iris_is_certified(fitted):
    assert fitted.diagnostics_["warnings"] == []
    assert fitted.coef_.shape == fitted.coef_std_.shape == (3, 4)
    assert fitted.intercept_.shape == fitted.intercept_std_.shape == (3,)
    assert fitted.posterior_.particles.shape[1] == 15


def test_the_data_say_nothing_of_class_sums(fitted):
    """A shift common to all classes changes no probability: under normal priors the sum of a
    feature's coefficients keeps its prior, N(0, 3 s^2). Importance weights of 2000 effective draws
    and more: Monte Carlo sds of 0.022 for means, 0.016 relative for sds; 4 of each."""
    particles, weights = fitted.posterior_.particles, fitted.posterior_.weights
    sums = particles.reshape(len(particles), 3, 5).sum(axis=1)
    prior_sd = np.sqrt(3) * np.array([1.0, 1.0, 1.0, 1.0, 10.0])
    mean = weights @ sums
    sd = np.sqrt(weights @ (sums - mean) ** 2)
    assert np.abs(mean / prior_sd).max() < 0.09
    np.testing.assert_allclose(sd, prior_sd, rtol=0.065)


@pytest.mark.parametrize("order", [[1, 2, 0], [2, 1, 0]], ids=str)
def test_the_order_of_classes_does_not_matter(iris, fitted, order):
    """Rows of coefficients are permuted, up to two Monte Carlo errors of 0.025 sd each."""
    X, y = iris
    other = BayesianLogisticRegressionPMD(random_state=0).fit(X, np.array(order)[y])
    gap = (other.coef_[order] - fitted.coef_) / fitted.coef_std_
    assert np.abs(gap).max() < 0.15
    np.testing.assert_allclose(other.coef_std_[order], fitted.coef_std_, rtol=0.1)
    np.testing.assert_allclose(other.predict_proba(X)[:, order], fitted.predict_proba(X), atol=0.02)
    assert abs(other.log_evidence_ - fitted.log_evidence_) < 0.1
