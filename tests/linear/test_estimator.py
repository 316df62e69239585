"""BayesianLogisticRegressionPMD: against a grid, its paths, predictions and warnings."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD
from skpmd.linear._bernoulli import LogisticModel
from skpmd.posterior import Posterior


@pytest.fixture(scope="module")
def small():
    """One feature and an intercept, 12 rows: a posterior that is visibly not normal."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 1))
    return X, (rng.random(12) < expit(0.5 + 2.0 * X[:, 0])).astype(int)


class Grid:
    """Posterior of coefficient and intercept on a grid, prior N(0, 2^2) and N(0, 3^2)."""

    def __init__(self, X, y, power):
        slope, intercept = np.linspace(-8, 12, 501), np.linspace(-12, 12, 501)
        self.points = np.stack(np.meshgrid(slope, intercept, indexing="ij"), -1).reshape(-1, 2)
        sign = 2 * y - 1
        logits = self.points[:, :1] * X[:, 0] + self.points[:, 1:]
        log_joint = norm.logpdf(self.points[:, 0], 0, 2) + norm.logpdf(self.points[:, 1], 0, 3)
        log_joint -= power * np.logaddexp(0, -sign * logits).sum(axis=1)
        cell = (slope[1] - slope[0]) * (intercept[1] - intercept[0])
        self.log_evidence = logsumexp(log_joint) + np.log(cell)
        self.mass = np.exp(log_joint - logsumexp(log_joint))
        self.mean = self.mass @ self.points
        self.std = np.sqrt(self.mass @ (self.points - self.mean) ** 2)

    def proba(self, X):
        return self.mass @ expit(self.points[:, :1] * X[:, 0] + self.points[:, 1:])


@pytest.fixture(scope="module")
def grid_of(small):
    """By the power of the likelihood, each made once."""
    return cache(lambda power: Grid(*small, power))


PRIOR = {"prior_scale": 2.0, "intercept_prior_scale": 3.0}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"proposal": "mirror"},
        {"proposal": "laplace"},
        {"proposal": "prior"},
        {"proposal": "prior", "batch_size": 5, "step_size": 0.5},
        {"temperature": 2.0},
        {"proposal": "prior", "temperature": 2.0},
    ],
    ids=str,
)
def test_posterior_is_that_of_the_grid(small, grid_of, params):
    """Tolerances: 2400 effective draws make Monte Carlo sds of 0.02 of a posterior sd for means
    and 0.015 relative for sds; 4 of each. Probabilities inherit less than 0.02."""
    X, y = small
    model = BayesianLogisticRegressionPMD(scale=None, random_state=0, **PRIOR, **params).fit(X, y)
    grid = grid_of(1.0 / params.get("temperature", 1.0))
    assert np.abs((model.posterior_.mean() - grid.mean) / grid.std).max() < 0.08
    assert np.abs(model.posterior_.std() / grid.std - 1).max() < 0.06
    new = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], grid.proba(new), atol=0.02)
    if "temperature" in params:
        assert not hasattr(model, "log_evidence_")
    else:
        assert abs(model.log_evidence_ - grid.log_evidence) < 0.05
    np.testing.assert_allclose(model.coef_, [model.posterior_.mean()[:1]])
    np.testing.assert_allclose(model.intercept_, model.posterior_.mean()[1:])
    np.testing.assert_allclose(model.coef_std_, [model.posterior_.std()[:1]])


def test_steps_from_proposals_stay_at_the_posterior(small, grid_of):
    """reweight=False from the mixture of proposals: q0 is near the posterior and full-batch steps
    move it there; nothing is reweighted at the end."""
    X, y = small
    grid = grid_of(1.0)
    model = BayesianLogisticRegressionPMD(scale=None, reweight=False, random_state=0, **PRIOR).fit(
        X, y
    )
    assert np.abs((model.posterior_.mean() - grid.mean) / grid.std).max() < 0.15
    assert len(model.history_["step"]) == model.n_iter_ == 5
    with pytest.raises(AttributeError, match="reweight=True"):
        _ = model.posterior_.log_evidence


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def fitted(cancer):
    return BayesianLogisticRegressionPMD(random_state=0).fit(*cancer)


def test_default_fit_in_31_dimensions_is_certified(fitted):
    posterior = fitted.posterior_
    assert posterior.ess > 2000 and posterior.pareto_k < 0.7
    assert fitted.diagnostics_["disagreement"] < 6
    assert fitted.diagnostics_["method"] == "importance reweighting of proposals: auto"
    assert fitted.diagnostics_["warnings"] == []
    assert posterior.names[-1] == "intercept" and len(posterior.names) == 31


@pytest.mark.slow
def test_two_paths_meet(cancer, fitted):
    """Values only, from the prior, against the proposals: two algorithms, one posterior.

    The sum of two Monte Carlo errors over 31 coordinates, some 2000 effective draws each: a largest
    gap of 0.1 posterior sd is 3 sds; rejuvenations from kernels add as much.
    """
    other = BayesianLogisticRegressionPMD(proposal="prior", random_state=1).fit(*cancer)
    gap = (other.posterior_.mean() - fitted.posterior_.mean()) / fitted.posterior_.std()
    assert np.abs(gap).max() < 0.2
    assert np.abs(other.posterior_.std() / fitted.posterior_.std() - 1).max() < 0.12
    assert abs(other.log_evidence_ - fitted.log_evidence_) < 0.15


def test_predictions_are_averages_over_particles(cancer, fitted):
    X = cancer[0][:40]
    posterior = fitted.posterior_
    logits = posterior.particles[:, :-1] @ X.T + posterior.particles[:, -1:]
    average = posterior.weights @ expit(logits)
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], average, rtol=2e-6)  # Single precision has 1e-6.
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(proba))
    np.testing.assert_allclose(expit(fitted.decision_function(X)), average, rtol=2e-6)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[(average > 0.5).astype(int)])
    plug_in = expit(X @ fitted.coef_[0] + fitted.intercept_)
    assert np.abs(plug_in - average).max() > 1e-3  # never the plug-in mean


def test_no_probability_is_above_one(cancer, fitted):
    # Weights add up to one but for rounding, up or down by seed; log_loss refuses what is above.
    far, particles = 1e3 * cancer[0][:20], fitted.posterior_.particles
    model = copy(fitted)
    for seed in range(10):
        log_weights = np.random.default_rng(seed).normal(0.0, 3.0, len(particles))
        results = fitted._state.results._replace(posterior=Posterior(particles, log_weights))
        model._set_state(fitted._state._replace(results=results))
        assert model.predict_proba(far).max() <= 1.0


def test_intervals_of_probabilities(cancer, fitted):
    X = cancer[0][:50]
    wide, narrow = (fitted.predict_proba_interval(X, level) for level in (0.95, 0.5))
    assert wide.shape == (50, 2, 2)
    proba = fitted.predict_proba(X)
    assert (wide[..., 0] <= narrow[..., 0]).all() and (narrow[..., 1] <= wide[..., 1]).all()
    assert (wide[..., 0] <= proba).all() and (proba <= wide[..., 1]).all()
    np.testing.assert_allclose(wide[:, 0, 0], 1 - wide[:, 1, 1])
    posterior = fitted.posterior_
    logits = posterior.particles[:, :-1] @ X[0] + posterior.particles[:, -1]
    below = posterior.weights[expit(logits) < narrow[0, 1, 0]].sum()
    assert abs(below - 0.25) < 0.01
    with pytest.raises(ValueError, match="level"):
        fitted.predict_proba_interval(X, level=1.0)


def test_without_intercept(small):
    X, y = small
    model = BayesianLogisticRegressionPMD(fit_intercept=False, random_state=0).fit(X, y)
    assert model.posterior_.particles.shape[1] == 1
    np.testing.assert_array_equal(model.intercept_, [0.0])
    np.testing.assert_array_equal(model.intercept_std_, [0.0])


def test_a_failing_fit_from_the_prior_warns():
    """300 particles from the prior in 31 dimensions without rejuvenation: they collapse."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = BayesianLogisticRegressionPMD(
        proposal="prior", n_particles=300, rejuvenation="never", random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="effective sample size"):
        model.fit(X, y)


def test_n_particles_is_the_effective_number_aimed_for(cancer):
    model = BayesianLogisticRegressionPMD(n_particles=1000, random_state=0).fit(*cancer)
    assert model.posterior_.ess >= 600
    assert model.n_iter_ == len(model.history_["step"])
    assert len(model.posterior_.particles) == 1000 * model.n_iter_


def test_a_warm_start_goes_on_from_the_last_fit():
    # One pass from the prior leaves much of it; a second from there less, and ten are near the end.
    X, y = load_breast_cancer(return_X_y=True)
    X = (X[:, :3] - X[:, :3].mean(axis=0)) / X[:, :3].std(axis=0)
    exact = BayesianLogisticRegressionPMD(random_state=0).fit(X, y).posterior_.mean()
    parameters = {"proposal": "prior", "reweight": False, "n_particles": 1000, "random_state": 0}

    def error(model):
        return np.abs(model.posterior_.mean() - exact).max()

    model = BayesianLogisticRegressionPMD(max_iter=1, warm_start=True, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        errors = [error(model.fit(X, y)) for _ in range(6)]
        assert errors[5] < 0.3 * errors[0]
        cold = BayesianLogisticRegressionPMD(max_iter=1, **parameters)
        assert error(cold.fit(X, y)) == error(cold.fit(X, y)) == errors[0]
    with pytest.raises(ValueError, match="warm_start=True needs the features and classes"):
        model.fit(X[:, :2], y)


@pytest.mark.parametrize("params", [{"proposal": "prior"}, {"reweight": False}])
def test_moves_and_stochastic_steps_exclude_each_other(cancer, params):
    model = BayesianLogisticRegressionPMD(moves="always", **params)
    with pytest.raises(ValueError, match="moves='always' is not for"):
        model.fit(*cancer)


@pytest.mark.parametrize("moves", ["auto", "always"])
def test_ctrl_c_in_moves_falls_back_on_the_last_complete_state(cancer, monkeypatch, moves):
    whole, count = LogisticModel.log_joint_gradient, iter(range(10**6))

    def failing(self, theta, batches, b=1.0):
        if next(count) == 50:  # This is in the warm-up of the chains.
            raise KeyboardInterrupt
        return whole(self, theta, batches, b)

    monkeypatch.setattr(LogisticModel, "log_joint_gradient", failing)
    monkeypatch.setattr("skpmd.linear._fit._MIN_SHARE", 2.0)  # All weights count as failed.
    model = BayesianLogisticRegressionPMD(moves=moves, n_particles=200, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*cancer)
    if moves == "always":
        assert not hasattr(model, "posterior_")
        return
    assert model.diagnostics_["method"] == "importance reweighting of proposals: auto"
    assert model.diagnostics_["interrupted"] and model.n_iter_ == 1
    assert model.predict(cancer[0]).shape == (569,)


def test_moves_after_weights_keep_their_diagnostics(cancer, monkeypatch):
    monkeypatch.setattr("skpmd.linear._fit._MIN_SHARE", 2.0)
    X, y = cancer
    model = BayesianLogisticRegressionPMD(n_particles=200, random_state=0).fit(X[:, :3], y)
    assert model.diagnostics_["method"] == "Hamiltonian moves from proposals: auto"
    assert model.history_["ess"][0] == model.diagnostics_["importance_ess"] > 100
    assert model.diagnostics_["importance_pareto_k"] < 0.7
    assert model.history_["r_hat"][-1] == model.diagnostics_["r_hat"] < 1.05
    assert model.n_iter_ == len(model.history_["step"]) > 1


def test_a_stream_may_begin_anew_after_a_fit_without_one():
    """Mean-field fits leave no stream, and so no parameters that are frozen."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:200, :3])
    model = BayesianLogisticRegressionPMD(covariance_type="diag", prior_scale=3.0, random_state=0)
    model.fit(X, y[:200]).set_params(covariance_type="full", prior_scale=1.0)
    model.partial_fit(X, y[:200])
    fresh = BayesianLogisticRegressionPMD(covariance_type="full", prior_scale=1.0, random_state=0)
    fresh.partial_fit(X, y[:200], classes=[0, 1])
    np.testing.assert_array_equal(model.posterior_.particles, fresh.posterior_.particles)
    with pytest.raises(ValueError, match="prior_scale was 1.0"):
        model.set_params(prior_scale=2.0).partial_fit(X, y[:200])


def test_fewer_particles_than_chains_are_raised_by_name(small):
    """n_particles=10 left 32 particles without a word, with an effective number of 1702."""
    model = BayesianLogisticRegressionPMD(n_particles=10, moves="always", random_state=0)
    X, y = small
    with pytest.warns(UserWarning, match="n_particles=10 is less than the 32 chains") as caught:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert sum("n_particles=10" in str(one.message) for one in caught) == 1
    assert len(model.posterior_.particles) == 32 and model.diagnostics_["ess"] <= 32
