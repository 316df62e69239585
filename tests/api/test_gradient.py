"""`ParticleMirrorDescent` with a gradient: searches, Hamiltonian moves, and models in JAX."""

import pickle

import numpy as np
import pandas as pd
import pytest

from skpmd import ParticleMirrorDescent, from_jax
from tests.tools.exact_models import LOG_GAMMAS, LogGammas

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
Y = X @ [1.0, -0.5, 0.2] + 0.5 * RNG.standard_normal(80)
# Normal data with known sd .5 under a standard normal prior: the posterior is normal.
PRECISION = X.T @ X / 0.25 + np.eye(3)
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ X.T @ Y / 0.25


def log_likelihood(theta, X, y, sample_weight=None):
    residual = y - theta @ X.T
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    return -0.5 * residual**2 @ weight / 0.25


def log_prior(theta):
    return -0.5 * (theta**2 + np.log(2.0 * np.pi)).sum(axis=1)


def sample_prior(rng, m):
    return rng.standard_normal((m, 3))


def log_joint_gradient(theta, X, y):
    values = log_likelihood(theta, X, y) + log_prior(theta)
    return values, (y - theta @ X.T) @ X / 0.25 - theta


def model(**params):
    params = {"n_particles": 2000, "random_state": 0, **params}
    return ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, **params)


def test_with_and_without_it_the_posterior_is_the_same():
    for gradient in (None, log_joint_gradient):
        posterior = model(log_joint_gradient=gradient).fit(X, Y).posterior_
        # 1500 effective draws in antithetic pairs, three standard errors.
        assert posterior.ess > 1500
        sd = np.sqrt(np.diag(COVARIANCE))
        assert np.abs((posterior.mean() - MEAN) / sd).max() < 3.0 / np.sqrt(1500)


def test_it_is_given_all_rows_at_once():
    rows = set()

    def gradient(theta, X, y):
        rows.add(len(X))
        return log_joint_gradient(theta, X, y)

    model(log_joint_gradient=gradient, batch_size=13).fit(X, Y)
    assert rows == {80}


@pytest.mark.slow
def test_moves_take_over_where_weights_fail():
    """Four standard errors of the effective draws of the worst coordinate."""
    found = ParticleMirrorDescent(**LOG_GAMMAS, n_particles=2000, random_state=0).fit(X)
    assert found.diagnostics_["method"].startswith("Hamiltonian moves")
    assert found.diagnostics_["r_hat"] < 1.02 and found.diagnostics_["pareto_k"] is None
    posterior, error = found.posterior_, 4.0 / np.sqrt(found.posterior_.ess)
    assert np.abs((posterior.mean() - LogGammas.mean) / LogGammas.sd).max() < error
    np.testing.assert_allclose(posterior.std(), LogGammas.sd, rtol=error)
    with pytest.raises(AttributeError, match="gradients"):
        found.log_evidence_  # noqa: B018


@pytest.mark.parametrize(
    "gradient, message",
    [
        (
            lambda t, X, y: (log_joint_gradient(t, X, y)[0], -log_joint_gradient(t, X, y)[1]),
            "is not",
        ),
        (lambda t, X, y: [1.1 * one for one in log_joint_gradient(t, X, y)], "is not"),
        (
            lambda t, X, y: (1.01 * log_joint_gradient(t, X, y)[0], log_joint_gradient(t, X, y)[1]),
            "other values",
        ),
        (lambda t, X, y: (log_joint_gradient(t, X, y)[0], t[:, :2]), r"got \(1, 2\)"),
        (lambda t, X, y: (np.zeros(7), log_joint_gradient(t, X, y)[1]), r"got \(7,\)"),
    ],
)
def test_a_wrong_gradient_is_refused(gradient, message):
    with pytest.raises(ValueError, match=message):
        model(log_joint_gradient=gradient).fit(X, Y)


def test_what_it_does_not_go_with_is_refused():
    with pytest.raises(ValueError, match="temperature=2.0"):
        model(log_joint_gradient=log_joint_gradient, temperature=2.0).fit(X, Y)
    with pytest.raises(ValueError, match="log_joint_gradient takes none"):
        model(log_joint_gradient=log_joint_gradient).fit(X, Y, np.ones(80))


# ---------------------------------------------------------------------------------------- JAX
def jax_model(**params):
    jnp = pytest.importorskip("jax.numpy")

    def log_likelihood(theta, X, y, sample_weight=None):
        squares = (y - X @ theta) ** 2
        return -0.5 * jnp.sum(squares if sample_weight is None else sample_weight * squares) / 0.25

    def log_prior(theta):
        return -0.5 * jnp.sum(theta**2 + jnp.log(2.0 * jnp.pi))

    functions = from_jax(log_likelihood, log_prior)
    params = {"n_particles": 2000, "random_state": 0, **params}
    return ParticleMirrorDescent(sample_prior=sample_prior, **functions, **params)


def test_a_model_in_jax_is_the_model_in_numpy():
    """In double precision: the searches are the same up to rounding, and so are all draws."""
    one = jax_model().fit(X, Y)
    other = model(log_joint_gradient=log_joint_gradient).fit(X, Y)
    np.testing.assert_allclose(one.posterior_.particles, other.posterior_.particles, rtol=1e-6)
    np.testing.assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-8)
    import jax

    assert not jax.config.jax_enable_x64  # what the process has set stays


def test_jax_gets_the_array_of_a_frame():
    one, other = jax_model().fit(X, Y), jax_model().fit(pd.DataFrame(X).add_prefix("x"), Y)
    np.testing.assert_array_equal(one.posterior_.particles, other.posterior_.particles)


def test_weights_of_rows_reach_jax():
    weights = RNG.integers(0, 3, 80).astype(float)
    one = jax_model().fit(X, Y, weights)
    rows = np.repeat(np.arange(80), weights.astype(int))
    other = jax_model().fit(X[rows], Y[rows])
    np.testing.assert_allclose(one.posterior_.mean(), other.posterior_.mean(), atol=0.01)


def module_log_likelihood(theta, X, y):
    return -0.5 * ((y - X @ theta) ** 2).sum()


def module_log_prior(theta):
    return -0.5 * (theta**2).sum()


def test_callables_can_be_pickled():
    pytest.importorskip("jax")
    functions = from_jax(module_log_likelihood, module_log_prior)
    before = functions["log_joint_gradient"](np.ones((5, 3)), X, Y)
    again = pickle.loads(pickle.dumps(functions))["log_joint_gradient"](np.ones((5, 3)), X, Y)
    np.testing.assert_array_equal(before[1], again[1])
    assert before[0].dtype == np.float64 and before[1].shape == (5, 3)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[jax\]"):
        from_jax(module_log_likelihood, module_log_prior)
