"""The Gaussian without correlations against scalar optimisation, quadrature and closed forms."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack, random_array
from scipy.special import expit, log_expit, ndtri, softmax
from scipy.stats import norm, qmc
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpmd import BayesianLogisticRegressionPMD, GaussianPosterior
from skpmd.engine import mean_field
from skpmd.engine.loop import drive
from skpmd.engine.mean_field import DiagonalTarget, mean_field_mirror_descent
from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._mean_field import mean_field_target
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._priors import LaplacePrior, NormalPrior

DIAGONAL = {"covariance_type": "diag", "intercept_prior_scale": 1.0}


@parametrize_with_checks([BayesianLogisticRegressionPMD(covariance_type="diag")])
def test_scikit_learn_checks(estimator, check, monkeypatch):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        # Rows in another order round differently, and conjugate gradients amplify that: where they
        # stop early, answers agree to 1e-5 or better, and the check asks for 1e-7. Hence exactly.
        monkeypatch.setattr(mean_field, "_RESIDUAL", 1e-8)
    check(estimator)


def table(n=60, p=4, K=2, seed=0):
    """Columns that are alike, labels that depend on them, uneven weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    z = X @ rng.standard_normal((p, K)) + rng.gumbel(size=(n, K))
    return X, z.argmax(axis=1), rng.uniform(0.2, 2.0, n)


def fixed_point(model, batches, d, b=1.0):
    states = mean_field_mirror_descent(
        lambda mean, variance: mean_field_target(model, mean, variance, batches, b), d, tol=1e-8
    )
    return drive(states)


# ------------------------------------------------------------------------------ the descent
def test_on_a_normal_posterior_the_mean_is_exact_and_the_variance_conditional():
    """Correlations of 0.98: a step coordinate by coordinate would diverge."""
    precision = 0.02 * np.eye(30) + 0.98 * np.ones((30, 30))
    moment = np.linspace(-1.0, 1.0, 30)

    def target(mean, variance):
        gradient = moment - precision @ mean
        return DiagonalTarget(gradient, np.diag(precision), lambda u: precision @ u)

    found = drive(mean_field_mirror_descent(target, 30))
    gap = found.mean - np.linalg.solve(precision, moment)
    # Steps end below 0.02 posterior sds together; conjugate gradients leave a tenth of a step.
    assert np.sqrt(gap @ precision @ gap) < 0.03
    np.testing.assert_allclose(found.variance, 1.0)
    assert found.converged


@pytest.mark.parametrize("b", [1.0, 0.5])
def test_binary_fixed_point_is_the_least_divergence_of_its_family(monkeypatch, b):
    """Against SciPy's maximum of the evidence lower bound, by 60 points of quadrature."""
    monkeypatch.setattr(mean_field, "_SHORT", 1e-6)
    X, y, weight = table()
    sign = 2.0 * y - 1.0
    scale = np.array([0.5, 1.0, 1.5, 2.0, 1.0])
    rows = np.column_stack([X, np.ones(len(X))])
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    shares = shares / shares.sum()

    def minus_bound(q):
        mean, sd = q[:5], np.exp(q[5:])
        logit = (rows @ mean)[:, None] + np.sqrt(rows**2 @ sd**2)[:, None] * nodes
        likelihood = weight @ (log_expit(sign[:, None] * logit) @ shares)
        return -b * likelihood + 0.5 * ((mean**2 + sd**2) / scale**2).sum() - q[5:].sum()

    best = minimize(minus_bound, np.zeros(10), method="BFGS", options={"gtol": 1e-7}).x
    model = LogisticModel(NormalPrior(scale), True)
    batches = [Batch(X[:25], sign[:25], weight[:25]), Batch(X[25:], sign[25:], weight[25:])]
    found = fixed_point(model, batches, 5, b)
    # SciPy's gradient by finite differences stalls near 1e-5.
    np.testing.assert_allclose(found.mean, best[:5], atol=2e-4)
    np.testing.assert_allclose(0.5 * np.log(found.variance), best[5:], atol=2e-4)


@pytest.mark.parametrize("prior", [NormalPrior, LaplacePrior])
def test_softmax_fixed_point_meets_its_two_conditions(monkeypatch, prior):
    """E[gradient] = 0 and precision = E[-second derivative], by 2^14 points over coefficients."""
    monkeypatch.setattr(mean_field, "_SHORT", 1e-6)
    X, y, weight = table(K=3)
    prior = prior(np.linspace(0.5, 1.0, 15))
    found = fixed_point(SoftmaxModel(prior, True, 3), [Batch(X, y.astype(float), weight)], 15)
    sd = np.sqrt(found.variance)
    z = ndtri(qmc.Sobol(15, seed=0).random_base2(14))
    rows = np.column_stack([X, np.ones(len(X))])
    theta = (found.mean + sd * z).reshape(-1, 3, 5)
    p = softmax(np.einsum("np,mkp->mnk", rows, theta), axis=2)
    residual = weight[:, None] * (np.eye(3)[y] - p.mean(axis=0))
    curvature = weight[:, None] * (p * (1.0 - p)).mean(axis=0)
    of_prior = prior.expected(found.mean, sd)
    # The rule of 128 nodes for three logits errs by 1e-3 here.
    gradient = (residual.T @ rows).ravel() + of_prior[0]
    assert np.abs(gradient * sd).max() < 0.01
    precision = (curvature.T @ rows**2).ravel() + of_prior[1]
    np.testing.assert_allclose(found.variance * precision, 1.0, atol=0.01)


@pytest.mark.parametrize("K", [2, 3])
def test_expectations_at_the_mean_are_those_of_the_full_target(K):
    X, y, weight = table(K=K)
    d = 5 if K == 2 else 15
    prior = NormalPrior(np.linspace(0.5, 1.0, d))
    model = LogisticModel(prior, True) if K == 2 else SoftmaxModel(prior, True, K)
    batches = [Batch(X, 2.0 * y - 1.0 if K == 2 else y.astype(float), weight)]
    mean = np.random.default_rng(1).standard_normal(d)
    gradient, hessian = model.gaussian_target(mean, None, batches, 0.7)
    found = mean_field_target(model, mean, None, batches, 0.7)
    np.testing.assert_allclose(found.gradient, gradient)
    np.testing.assert_allclose(found.precision, np.diag(hessian))
    u = np.random.default_rng(2).standard_normal(d)
    np.testing.assert_allclose(found.product(u), hessian @ u)
    # Under a Gaussian the full target's expectations are the same numbers.
    variance = np.linspace(0.1, 0.4, d)
    gradient, hessian = model.gaussian_target(mean, np.diag(variance), batches, 0.7)
    found = mean_field_target(model, mean, variance, batches, 0.7)
    np.testing.assert_allclose(found.gradient, gradient)
    np.testing.assert_allclose(found.precision, np.diag(hessian))


# ---------------------------------------------------------------------------- the estimator
def data(K, n=120):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 6)) * (rng.random((n, 6)) < 0.4)
    y = (X @ rng.standard_normal((6, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, y


@pytest.mark.parametrize("K", [2, 3])
def test_sparse_and_dense_single_and_double_repeated_and_weighted_agree(K):
    X, y = data(K)
    weight = np.arange(len(y)) % 3
    fits = [
        BayesianLogisticRegressionPMD(**DIAGONAL).fit(X, y, weight),
        BayesianLogisticRegressionPMD(**DIAGONAL).fit(csr_matrix(X), y, weight),
        BayesianLogisticRegressionPMD(**DIAGONAL).fit(X.repeat(weight, 0), y.repeat(weight)),
        BayesianLogisticRegressionPMD(**DIAGONAL, batch_size=7).fit(X, y, weight),
    ]
    # To rounding, but that a batch without a wide logit has the quadrature of fewer nodes.
    for other in fits[1:]:
        np.testing.assert_allclose(other.coef_, fits[0].coef_, atol=1e-5)
        np.testing.assert_allclose(other.coef_std_, fits[0].coef_std_, rtol=1e-5)
        np.testing.assert_allclose(
            other.predict_proba(csr_matrix(X)), fits[0].predict_proba(X), atol=1e-5
        )
    single = BayesianLogisticRegressionPMD(**DIAGONAL).fit(X.astype(np.float32), y, weight)
    np.testing.assert_allclose(single.coef_, fits[0].coef_, atol=1e-4)


def test_near_the_full_posterior_where_columns_are_orthogonal():
    """Then there are no correlations to drop, but those that skewness makes."""
    rng = np.random.default_rng(4)
    X = np.linalg.qr(rng.standard_normal((400, 5)))[0] * 20.0
    y = (rng.random(400) < expit(X @ np.linspace(-0.3, 0.3, 5))).astype(int)
    full = BayesianLogisticRegressionPMD(random_state=0, prior_scale=1.0).fit(X, y)
    diag = BayesianLogisticRegressionPMD(covariance_type="diag", prior_scale=1.0).fit(X, y)
    assert np.abs((diag.coef_ - full.coef_) / full.coef_std_).max() < 0.1
    np.testing.assert_allclose(diag.coef_std_, full.coef_std_, rtol=0.06)


def test_binary_predictions_are_integrals_over_one_logit():
    X, y = data(2)
    model = BayesianLogisticRegressionPMD(scale=None, **DIAGONAL).fit(X, y)
    posterior = model.posterior_
    rows = np.column_stack([X, np.ones(len(X))])
    centre, sd = rows @ posterior.mean(), np.sqrt(rows**2 @ posterior.std() ** 2)
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    exact = expit(centre[:, None] + sd[:, None] * nodes) @ (shares / shares.sum())
    # Nodes of equal weight end at 2.9 sds.
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], exact, atol=5e-4)
    # On a line half of the nodes mirror the others onto themselves: 1/256 apart in probability,
    # hence 0.04 sds at the ends of the interval.
    ends = expit(centre[:, None] + sd[:, None] * ndtri([0.05, 0.95]))
    np.testing.assert_allclose(model.predict_proba_interval(X)[:, 1], ends, atol=0.01)
    np.testing.assert_allclose(model.predict_proba(X[:1]), model.predict_proba(X)[:1], rtol=1e-12)
    assert (model.predict_proba(X) == model.predict_proba(X)).all()
    assert (model.predict(X) == model.predict_proba(X).argmax(axis=1)).all()


def test_predictions_for_many_classes_are_averages_over_draws_of_all_coefficients():
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegressionPMD(**DIAGONAL).fit(X - X.mean(axis=0), y)
    rows = np.column_stack([X - X.mean(axis=0), np.ones(len(X))])[::10]
    draws = model.posterior_.sample(40_000, random_state=0).reshape(-1, 3, 5)
    p = softmax(np.einsum("np,mkp->mnk", rows, draws), axis=2)
    # Monte Carlo errs by 0.3 / sqrt(40,000) = 0.0015 at most, an end of an interval by more.
    ours = model.predict_proba(rows[:, :-1])
    np.testing.assert_allclose(ours, p.mean(axis=0), atol=0.006)
    ends = np.quantile(p, [0.05, 0.95], axis=0).transpose(1, 2, 0)
    np.testing.assert_allclose(model.predict_proba_interval(rows[:, :-1]), ends, atol=0.03)


@pytest.mark.slow
def test_no_matrix_of_all_coordinates_is_made():
    """Text of 400 rows and 8000 columns: a full covariance would take 4.6 GB at three classes."""
    X = random_array((400, 8000), density=0.01, format="csr", rng=np.random.default_rng(0))
    X = csr_matrix(X)
    y = np.arange(400) % 3
    model = BayesianLogisticRegressionPMD()
    tracemalloc.start()
    model.fit(X, y)
    model.predict_proba(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.diagnostics_["method"] == "mean-field mirror descent"
    # The data take 0.4 MB, a vector of coordinates 0.2 MB, a table of predictions 8 MB.
    assert peak < 60e6


def test_the_number_of_coordinates_decides_unless_particles_are_asked_for():
    X, y = data(2)
    wide = hstack([csr_matrix(X), csr_matrix((X.shape[0], 1994))]).tocsr()
    model = BayesianLogisticRegressionPMD().fit(wide, y)
    assert isinstance(model.posterior_, GaussianPosterior)
    few = BayesianLogisticRegressionPMD(n_particles=100).fit(X, y)
    assert few.diagnostics_["method"] == "importance reweighting of proposals: auto"
    with pytest.raises(ValueError, match="takes no data in parts"):
        model.partial_fit(wide, y)
    assert not hasattr(BayesianLogisticRegressionPMD(covariance_type="diag"), "partial_fit")
    asking = ({"proposal": "laplace"}, {"reweight": False}, {"moves": "always"})
    for params in (*asking, {"prior": "horseshoe"}, {"prior_scale": "evidence"}):
        with pytest.raises(ValueError, match="set one or the other"):
            BayesianLogisticRegressionPMD(covariance_type="diag", **params).fit(X, y)


def test_a_descent_that_does_not_arrive_is_warned_of(monkeypatch):
    monkeypatch.setattr(mean_field, "_MAX_STEPS", 1)
    X, y = data(3)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        BayesianLogisticRegressionPMD(covariance_type="diag", prior_scale=10.0).fit(X, y)


# ---------------------------------------------------------------------------- the posterior
def test_posterior_is_that_of_independent_normals():
    loc, scale = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, 1.0])
    posterior = GaussianPosterior(loc, scale, ["a", "b", "c"])
    exact = norm(loc, scale)
    np.testing.assert_allclose(posterior.interval(0.8), np.array(exact.interval(0.8)).T)
    np.testing.assert_allclose(posterior.quantile(0.3), exact.ppf(0.3))
    theta = np.random.default_rng(0).standard_normal((4, 3))
    np.testing.assert_allclose(posterior.log_density(theta), exact.logpdf(theta).sum(axis=1))
    np.testing.assert_allclose(posterior.cov(), np.diag(scale**2))
    draws = posterior.sample(20_000, random_state=0)
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.02)
    square = posterior.expectation(lambda theta: theta**2, n=20_000)
    np.testing.assert_allclose(square, loc**2 + scale**2, rtol=0.05)
    summary = posterior.summary()
    assert summary["name"] == ["a", "b", "c"] and "mcse" not in summary
    draws = posterior.sample(40_000, random_state=0)
    np.testing.assert_allclose(summary["p_positive"], (draws > 0.0).mean(axis=0), atol=0.01)
    assert "no correlations" in posterior._repr_html_()
    assert pickle.loads(pickle.dumps(posterior)).mean() is not None
    with pytest.raises(ValueError, match="q must lie"):
        posterior.quantile(1.5)


@pytest.mark.parametrize("name", ["particles", "pareto_k", "r_hat", "log_evidence", "ess"])
def test_certificates_that_do_not_exist_say_so(name):
    posterior = GaussianPosterior(np.zeros(1), np.ones(1), ["a"])
    with pytest.raises(AttributeError, match="Gaussian without correlations"):
        getattr(posterior, name)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:In the units of:UserWarning")
def test_numbers_that_overflow_leak_no_warning():
    """Columns of 1e8 and 1e11: a RuntimeWarning of conjugate gradients, an infinite coefficient."""
    rng = np.random.default_rng(86)
    X = (rng.standard_normal((3, 5)) * [1e-6, 1.0, 1e8, 1e11, 1e3]).astype(np.float32)
    for prior in ("normal", "student_t"):
        model = BayesianLogisticRegressionPMD(
            prior=prior, covariance_type="diag", temperature=10.0, fit_intercept=False
        )
        model.fit(X, [0, 1, 0])
        assert np.isfinite(model.coef_).all()
