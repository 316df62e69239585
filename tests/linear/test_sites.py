"""Many coordinates: expectation propagation, and the chains that it whitens."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from skpmd import BayesianLogisticRegressionPMD
from skpmd.engine.model import Batch
from skpmd.engine.variational import Gaussian, laplace
from skpmd.linear import _fit
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._hmc import stiff_rows
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._priors import NormalPrior
from skpmd.linear._sites import expectation_propagation, renewed
from skpmd.proposals import hmc


def rows_of(n, p, K, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if K == 2:
        slopes = np.where(np.arange(p) < 5, 1.0, 0.0)
        return X, (X @ slopes + rng.logistic(size=n) > 0.0).astype(float)
    logits = X @ (0.6 * rng.standard_normal((p, K)))
    return X, (logits + rng.gumbel(size=(n, K))).argmax(axis=1).astype(float)


@pytest.mark.parametrize("b", [1.0, 0.5])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_one_row_has_its_own_moments(y, b):
    """Of one row they are exact, by integration: its site alone has no error."""
    scale, x = 4.0, np.array([[0.7]])
    model = LogisticModel(NormalPrior(np.array([scale])), False)
    batch = [Batch(x, np.array([y]), np.array([1.5]))]
    found = expectation_propagation(model, batch, laplace(model, batch, np.zeros(1), b), b)
    theta = np.linspace(-40.0, 40.0, 200_001)
    log_p = b * model.log_likelihood(theta[:, None], batch[0]) + model.log_prior(theta[:, None])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ theta
    # Steps end where the next would be shorter than 0.02 sds.
    assert found.mean[0] == pytest.approx(mean, abs=0.02 * np.sqrt(p @ (theta - mean) ** 2))
    assert found.chol[0, 0] ** 2 == pytest.approx(p @ (theta - mean) ** 2, rel=0.03)


def test_renewed_sites_stay_where_moments_are_right():
    """A site that is right already is its own renewal: rows of which each is a coordinate."""
    rng = np.random.default_rng(0)
    X, y, scale = np.eye(6), rng.choice([-1.0, 1.0], 6), 3.0
    model = LogisticModel(NormalPrior(np.full(6, scale)), False)
    batches = [Batch(X[:4], y[:4], np.ones(4)), Batch(X[4:], y[4:], np.ones(2))]
    # Independent coordinates know nothing of each other: one renewal of a cavity is the answer.
    nothing = np.zeros(6), np.zeros(6)
    site = renewed(model, np.zeros(6), np.full(6, scale**2), y, np.ones(6), nothing)
    precision = site[1] + scale**-2.0
    found = expectation_propagation(model, batches, laplace(model, batches, np.zeros(6)))
    np.testing.assert_allclose(found.mean, site[0] / precision, atol=0.02 * scale)
    np.testing.assert_allclose(np.diag(found.chol) ** -2.0, precision, rtol=0.03)
    again = renewed(model, site[0] / precision, 1.0 / precision, y, np.ones(6), site)
    np.testing.assert_allclose(again, site, rtol=1e-5)  # Nodes end six sds out.


def test_it_has_the_moments_of_long_chains_where_mirror_descent_has_not():
    """2000 effective draws of the worst coordinate leave .02 of the gaps of means."""
    X, y = rows_of(100, 50, 2)
    given = {"random_state": 0, "moves": "always", "n_particles": 8000}
    chains = BayesianLogisticRegressionPMD(**given, scale=None, intercept_prior_scale=1.0)
    draws = chains.fit(X, y).posterior_
    model = LogisticModel(NormalPrior(np.ones(51)), True)
    batches = [Batch(X, 2.0 * y - 1.0, np.ones(len(y)))]
    mode = laplace(model, batches, np.zeros(51))
    found = expectation_propagation(model, batches, mode)
    gap = (found.mean - draws.mean()) / draws.std()
    assert np.sqrt(np.mean(gap**2)) < 0.04
    ratio = np.linalg.norm(found.chol, axis=1) / draws.std()
    assert abs(np.mean(ratio) - 1.0) < 0.02
    assert np.abs(ratio - 1.0).max() < 0.06
    of_mode = np.linalg.norm(mode.chol, axis=1) / draws.std()
    assert np.mean(of_mode) < 0.93


def _normal(cov):
    precision = np.linalg.inv(cov)

    def both(theta):
        return -0.5 * np.einsum("ij,ij->i", theta @ precision, theta), -theta @ precision

    return both, lambda theta: both(theta)[1].astype(np.float32)


@pytest.mark.slow
def test_chains_find_the_scale_of_a_shape():
    """The whitening is .6 times as wide and half an sd off; draws are those of the normal."""
    rng = np.random.default_rng(1)
    d = 40
    root = np.tril(rng.standard_normal((d, d))) / np.sqrt(d) + np.eye(d)
    cov = root @ root.T
    chol = np.linalg.cholesky(cov)
    both, inside = _normal(cov)
    target = hmc.Target(both, inside, is_shaped=True)
    centre = 0.5 * np.sqrt(np.diag(cov))
    start = centre + 0.6 * rng.standard_normal((hmc.N_CHAINS, d)) @ chol.T
    *_, last = hmc.hamiltonian(target, start, Gaussian(centre, 0.6 * chol), rng, target_ess=4000)
    draws = last.draws.reshape(-1, d)
    assert last.r_hat < 1.02
    # 4000 effective draws: an sd of .016 of means, and 1.1 % of sds, times 3.5.
    np.testing.assert_array_less(np.abs(draws.mean(axis=0)), 0.056 * np.sqrt(np.diag(cov)))
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(cov)), rtol=0.045)


def test_whitening_in_single_precision_is_that_in_double():
    rng = np.random.default_rng(0)
    cov = block_diag(np.eye(3), [[2.0, 0.5], [0.5, 1.0]])
    chol, mean = np.linalg.cholesky(cov), np.arange(5.0)
    target = hmc.Target(*_normal(cov))
    z = rng.standard_normal((7, 5))
    plain = hmc._Whitened(target, mean, chol)
    shaped = hmc._Whitened(target._replace(is_shaped=True), mean, chol)
    np.testing.assert_allclose(shaped.position(z), plain.position(z), rtol=1e-12)
    np.testing.assert_allclose(shaped.evaluate(z).gradient, plain.evaluate(z).gradient, rtol=1e-9)
    np.testing.assert_allclose(shaped.gradient_inside(z), plain.evaluate(z).gradient, atol=1e-4)


def test_rows_are_stiff_where_others_are_not():
    """Of many coordinates all rows may be curved much; two are stiff beside them."""
    rng = np.random.default_rng(0)
    d, n = 210, 400
    X, y = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], n)
    model, chol = LogisticModel(NormalPrior(np.ones(d)), False), np.eye(d)
    given = model, [Batch(X, y, np.ones(n))], 1.0, np.zeros(d)
    assert stiff_rows(*given, 0.5 * chol).axes.shape == (d, 0)
    X[:2] *= 10.0
    stiff = stiff_rows(*given, 0.5 * chol)
    assert stiff.axes.shape == (d, 2)
    np.testing.assert_allclose(stiff.axes.T @ stiff.axes, np.eye(2), atol=1e-12)
    seen = X[:2] / np.linalg.norm(X[:2], axis=1, keepdims=True) @ stiff.axes
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("K", [2, 8])
def test_only_hopeless_weights_of_many_coordinates_are_left_out(K):
    """Where many rows tell a few columns apart nothing has changed, and neither for few columns."""
    parameters = BayesianLogisticRegressionPMD()
    for n, p, scale, is_hopeless in (
        (3000, 10, 1.0, False), (300, 30 if K > 2 else 210, 1.0, True),
        (300, 30 if K > 2 else 210, 0.01, False),
    ):  # fmt: skip
        X, y = rows_of(n, p, K)
        prior = NormalPrior(np.full((1 if K == 2 else K) * (p + 1), scale))
        model = LogisticModel(prior, True) if K == 2 else SoftmaxModel(prior, True, K)
        batches = [Batch(X, 2.0 * y - 1.0 if K == 2 else y, np.ones(n))]
        found = _fit._of_many_coordinates(model, batches, parameters, 1.0)
        assert (found is not None) == is_hopeless
    never = BayesianLogisticRegressionPMD(moves="never")
    assert _fit._of_many_coordinates(model, batches, never, 1.0) is None


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p", "K"), [(400, 220, 2), (400, 30, 8)])
def test_means_sds_and_probabilities_are_those_of_a_long_run(n, p, K, monkeypatch):
    """The long run has another whitening, adapted windows and four times the draws.

    The fit has 1000 effective draws of the worst coordinate and some 1800 of most: gaps of means
    have an sd of .026, with the long run's own, and 3.8 times that is the largest of 250; sds have
    an error of 2 %.
    """
    X, y = rows_of(n, p, K)
    some = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    monkeypatch.setattr(_fit, "_of_many_coordinates", lambda *given: None)
    given = {"random_state": 1, "moves": "always", "n_particles": 16_000}
    whole = BayesianLogisticRegressionPMD(**given).fit(X, y)
    assert some.diagnostics_["r_hat"] < 1.02 > whole.diagnostics_["r_hat"]
    assert some.diagnostics_["ess"] > 1000
    assert "importance_ess" not in some.diagnostics_
    one, other = some.posterior_, whole.posterior_
    gap = (one.mean() - other.mean()) / other.std()
    assert np.abs(gap).max() < 0.12
    assert np.sqrt(np.mean(gap**2)) < 0.04
    np.testing.assert_allclose(one.std(), other.std(), rtol=0.09)
    assert abs(np.mean(one.std() / other.std()) - 1.0) < 0.01
    new = np.random.default_rng(5).standard_normal((100, p))
    for rows in (X[:100], new):
        gap = some.predict_proba(rows) - whole.predict_proba(rows)
        assert np.abs(gap).max() < 0.05
        assert np.sqrt(np.mean(gap**2)) < 0.012


@pytest.mark.parametrize("prior_scale", [3.0, 10.0])
def test_chains_find_their_own_shape_where_laplaces_is_another(prior_scale):
    """Classes that three directions of 25 columns tell apart: with Laplace's shape R-hat ended at
    1.18 and 1.23, with 34 effective draws."""
    X, y = separable()
    found = BayesianLogisticRegressionPMD(prior_scale=prior_scale, random_state=0).fit(X, y)
    assert found.diagnostics_["r_hat"] < 1.02
    assert found.diagnostics_["ess"] > 1000


def test_chains_that_end_in_their_warm_up_are_followed_by_others(monkeypatch):
    """They were kept, whatever their R-hat."""
    moved, calls = _fit.move_from_proposals, []

    def move_from_proposals(*args):
        calls.append(args)
        outcomes = moved(*args)
        return [next(outcomes)] if len(calls) == 1 else outcomes

    monkeypatch.setattr(_fit, "move_from_proposals", move_from_proposals)
    monkeypatch.setattr(_fit, "_OF_ANOTHER_SHAPE", np.inf)
    found = BayesianLogisticRegressionPMD(prior_scale=3.0, random_state=0).fit(*separable())
    assert len(calls) == 2
    assert found.diagnostics_["r_hat"] < 1.02


def separable():
    """Nine classes of 200 rows that three directions of 25 columns tell apart."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 3))
    X = z @ rng.standard_normal((3, 25)) + 0.03 * rng.standard_normal((200, 25))
    return X, (3.0 * z @ rng.standard_normal((3, 9)) + 0.3 * rng.gumbel(size=(200, 9))).argmax(
        axis=1
    )
