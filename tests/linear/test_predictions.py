"""Averages of probabilities over particles: all in single precision, and by normal logits."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from skpmd import BayesianLogisticRegressionPMD
from skpmd._runtime.threads import threads
from skpmd.linear import _averages
from skpmd.linear._averages import (
    log_averages,
    log_averages_by,
    log_averages_of_normal_logits,
    normal_logits_of,
    points_of,
)
from skpmd.linear._design import normal_nodes


def coefficients(K, width, m=600, spread=0.4, seed=0):
    """Weighted coefficients (m, K, width) around random ones."""
    rng = np.random.default_rng(seed)
    centre, weights = rng.standard_normal((K, width)), rng.random(m)
    return centre + spread * rng.standard_normal((m, K, width)), weights / weights.sum()


def in_logs(theta, weights, X):
    """The averages in double precision, term by term."""
    design = np.column_stack([X, np.ones(len(X))])
    logits = np.einsum("mkp,np->mkn", theta, design)
    if theta.shape[1] == 1:
        terms = np.concatenate([log_expit(-logits), log_expit(logits)], axis=1)
    else:
        terms = log_softmax(logits, axis=1)
    return logsumexp(np.log(weights)[:, None, None] + terms, axis=0)


@pytest.mark.parametrize("K", [1, 3])
def test_averages_are_right_to_single_precision_of_themselves(K):
    """Logits to 30 units have 1e-6 of their exponentials; thousands are averaged in logs."""
    theta, weights = coefficients(K, 5)
    X = np.random.default_rng(1).standard_normal((300, 4))
    X[:3] *= np.array([[3000.0], [1e20], [1e300]])
    points, exact = points_of(theta, weights), in_logs(theta, weights, X)
    found = log_averages(points, X, True)
    np.testing.assert_allclose(found[:, 3:], exact[:, 3:], rtol=0, atol=3e-6)
    np.testing.assert_allclose(found[:, :3], exact[:, :3], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(log_averages(points, csr_matrix(X), True), found)


@pytest.mark.parametrize("K", [1, 3])
def test_no_bit_depends_on_what_stands_beside_a_row_or_on_threads(K):
    points = points_of(*coefficients(K, 5))
    X = np.random.default_rng(2).standard_normal((3000, 4))
    whole = log_averages(points, X, True)
    np.testing.assert_array_equal(log_averages(points, X[777:790], True), whole[:, 777:790])
    with threads(2):
        np.testing.assert_array_equal(log_averages(points, X, True), whole)


@pytest.mark.parametrize("K", [1, 3])
def test_variances_of_differences_are_those_under_the_particles(K):
    theta, weights = coefficients(K, 5)
    X = np.random.default_rng(3).standard_normal((200, 4))
    logits = np.einsum("mkp,np->mkn", theta, np.column_stack([X, np.ones(len(X))]))
    logits = logits if K == 1 else logits[:, :-1] - logits[:, -1:]
    off = logits - np.tensordot(weights, logits, axes=1)
    exact = np.einsum("m,mkn->kn", weights, off**2).max(axis=0)
    normal = normal_logits_of(points_of(theta, weights), 32)
    found = log_averages_of_normal_logits(normal, X, True)[1]
    np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize("weight", [0.0, 1e-12, 0.5])
def test_few_particles_far_away_leave_the_others_in_single_precision(n_rows, weight, monkeypatch):
    theta, weights = coefficients(n_rows, 5, spread=0.5)
    theta[::40] *= 3000.0
    weights = weights * np.where(np.arange(len(weights)) % 40 == 0, weight, 1.0)
    points, X = points_of(theta, weights / weights.sum()), 2.0 * np.eye(4)
    X = np.vstack([X, -X, np.zeros((1, 4))])
    found = log_averages(points, X, True)
    sizes = []
    monkeypatch.setattr(
        _averages, "_by_logs", lambda points, *args: sizes.append(len(points.weights)) or 0.0
    )
    log_averages(points, X, True)
    assert all(size < 0.1 * len(weights) for size in sizes)
    monkeypatch.undo()
    np.testing.assert_allclose(found, _averages._by_logs(points, X, True), atol=1e-5)


def problem(n_classes, n=600, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    logits = X @ rng.standard_normal((p, n_classes))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    """A fit whose predictions average over normal logits, and the same with all particles."""
    X, y = problem(request.param)
    few = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    exact = BayesianLogisticRegressionPMD(prediction_tol=0.0, random_state=0).fit(X, y)
    return few, exact


def test_what_stands_for_all_particles_is_within_the_tolerance(fitted):
    few, exact = fitted
    assert few._state.normal_logits is not None and exact._state.normal_logits is None
    assert 0.0 < few.diagnostics_["prediction_error"] <= 0.9e-3
    assert exact.diagnostics_["prediction_error"] == 0.0
    X = np.random.default_rng(5).standard_normal((5000, 6))
    error = np.abs(few.predict_proba(X) - exact.predict_proba(X))
    assert 0.0 < error.max() <= 1e-3
    np.testing.assert_allclose(few.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.slow_but("2")
@pytest.mark.parametrize("seed", range(3))
def test_new_rows_of_a_skewed_posterior_are_within_the_tolerance_too(seed):
    # Held against 300 rows of the fit alone, few were off by three times the tolerance here.
    X, y = problem(2, n=300, p=10, seed=seed)
    model = BayesianLogisticRegressionPMD(scale=None, prior="horseshoe", random_state=0).fit(X, y)
    new = np.random.default_rng(9).standard_normal((20_000, 10))
    few = model.predict_proba(new)
    exact = np.exp(log_averages(model._points, new, True)).T
    assert np.abs(few - exact).max() <= 1e-3


@pytest.mark.slow_but("1.0-4-800-3", "2.0-4-800-3")
@pytest.mark.parametrize("K, n, p", [(4, 800, 3), (10, 2000, 6), (20, 1200, 2)])
@pytest.mark.parametrize("spread", [0.2, 1.0, 2.0])
def test_normal_logits_are_within_the_tolerance_on_any_rows(K, n, p, spread):
    X, y = problem(K, n, p)
    model = fit_of_classes(K, n, p)
    normal = model._state.normal_logits
    assert normal.covariances.shape == (K * (K - 1) // 2, (p + 1) * (p + 2) // 2)
    new = spread * np.random.default_rng(11).standard_normal((600, p))
    found, exact = model.predict_proba(new).T, np.exp(log_averages(model._points, new, True))
    assert np.abs(found - exact).max() <= 1e-3
    np.testing.assert_array_equal(found.argmax(axis=0), exact.argmax(axis=0))


@cache
def fit_of_classes(K, n, p):
    return BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(*problem(K, n, p))


def covariance_of(points, row):
    """Means (K,) of a row's logits, and covariances of these less the last one."""
    logits = points.offsets @ row
    logits = logits[:, :-1] - logits[:, -1:]
    return points.mean @ row, (logits.T * points.weights) @ logits


@pytest.mark.parametrize("K", [2, 3, 7])
def test_normal_logits_have_the_moments_of_the_particles(K):
    """The same nodes in double precision, with NumPy's Cholesky factors."""
    points = points_of(*coefficients(K, 5))
    X = 2.0 * np.random.default_rng(12).standard_normal((140, 4))
    nodes, exact = normal_nodes(K - 1, 256, shifted=True), []
    for row in np.column_stack([X, np.ones(140)]):
        mean, covariance = covariance_of(points, row)
        z = mean[:, None] + np.vstack([np.linalg.cholesky(covariance) @ nodes, np.zeros((1, 256))])
        exact.append(softmax(z, axis=0).mean(axis=1))
    found, _ = log_averages_of_normal_logits(normal_logits_of(points, 256), X, True)
    np.testing.assert_allclose(np.exp(found).T, exact, rtol=1e-5, atol=1e-6)  # float32
    sparse, _ = log_averages_of_normal_logits(normal_logits_of(points, 256), csr_matrix(X), True)
    np.testing.assert_array_equal(sparse, found)


def test_more_nodes_come_nearer_to_the_normal_distribution():
    """Averages over two differences of logits by a product of Gauss's rules."""
    points = points_of(*coefficients(3, 5))
    X = np.random.default_rng(13).standard_normal((60, 4))
    one, weight = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(one, one)).reshape(2, -1)
    weights, exact = np.outer(weight, weight).ravel() / (2.0 * np.pi), []
    for row in np.column_stack([X, np.ones(60)]):
        mean, covariance = covariance_of(points, row)
        z = mean[:, None] + np.vstack([np.linalg.cholesky(covariance) @ grid, np.zeros((1, 1600))])
        exact.append(softmax(z, axis=0) @ weights)
    errors = [
        np.abs(
            np.exp(log_averages_of_normal_logits(normal_logits_of(points, n), X, True)[0]).T - exact
        ).max()
        for n in (256, 1024, 4096)
    ]  # They are 1.1e-3, 4.0e-4 and 4.1e-5, where differences of logits have sds of 1.
    assert errors[0] <= 2e-3 and errors[1] <= 6e-4 and errors[2] <= 1e-4


def test_logits_that_do_not_vary_are_their_means():
    """Without an intercept a row of zeros has no logits; and two classes may be always alike."""
    theta, weights = coefficients(4, 3)
    theta[:, 1] = theta[:, 0]
    points = points_of(theta, weights)
    X = np.vstack([np.zeros((1, 3)), np.random.default_rng(14).standard_normal((50, 3))])
    found = np.exp(log_averages_of_normal_logits(normal_logits_of(points, 1024), X, False)[0])
    np.testing.assert_array_equal(found[:, 0], 0.25)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    z = np.einsum("mkp,np->mkn", theta, X)
    exact = np.einsum("m,mkn->kn", weights, softmax(z, axis=1))
    np.testing.assert_allclose(found, exact, atol=6e-3)  # 600 draws have other third moments.


def test_rows_of_huge_numbers_are_no_number_until_all_particles_are_averaged_over():
    model = fit_of_classes(4, 800, 3)
    X = np.random.default_rng(15).standard_normal((5, 3))
    X[:4] *= np.array([[1e5], [1e20], [1e160], [1e300]])
    normal = model._state.normal_logits
    found, _ = log_averages_of_normal_logits(normal, X, True)
    np.testing.assert_array_equal(np.isnan(found[0]), [True, True, True, True, False])
    exact = log_averages(model._points, X, True)
    found = log_averages_by(normal, model._points, X, True)
    np.testing.assert_array_equal(found[:, :4], exact[:, :4])
    np.testing.assert_allclose(np.exp(found[:, 4]), np.exp(exact[:, 4]), atol=1e-3)


def test_no_bit_of_normal_logits_depends_on_what_stands_beside_a_row_or_on_threads():
    model = fit_of_classes(4, 800, 3)
    X = np.random.default_rng(16).standard_normal((3000, 3))
    whole = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X[777:790]), whole[777:790])
    np.testing.assert_array_equal(model.predict_proba(X[::-1]), whole[::-1])
    points = model._state.normal_logits, model._points
    with threads(2):
        np.testing.assert_array_equal(np.exp(log_averages_by(*points, X, True)).T, whole)


def test_a_posterior_far_from_normal_has_all_particles():
    # Of three classes and 200 rows, normal logits are off by 2e-3 at a tie.
    X, y = problem(3, n=200, p=4)
    model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    assert model._state.normal_logits is None and model.diagnostics_["prediction_error"] == 0.0


def test_labels_are_those_of_all_particles(fitted):
    few, exact = fitted
    X = 0.3 * np.random.default_rng(6).standard_normal((5000, 6))  # Many are near a tie.
    labels = exact.classes_[exact.predict_proba(X).argmax(axis=1)]
    for model in fitted:
        np.testing.assert_array_equal(model.predict(X), labels)
        np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), labels)


def test_classes_that_are_hardly_apart_are_held_apart_by_all_particles():
    # Near a tie of two classes 45 of the labels by normal logits differ.
    X, y = problem(3, n=200, p=4)
    model = BayesianLogisticRegressionPMD(scale=None, prediction_tol=1e-2, random_state=0).fit(X, y)
    new = np.random.default_rng(17).standard_normal((5000, 4))
    slope, offset = model.coef_[0] - model.coef_[1], model.intercept_[0] - model.intercept_[1]
    new -= np.outer(new @ slope + offset, slope) / (slope @ slope)
    new += 1e-3 * np.random.default_rng(18).standard_normal(new.shape)
    exact = log_averages(model._points, new, True)
    found = log_averages_of_normal_logits(model._state.normal_logits, new, True)[0]
    assert (found.argmax(axis=0) != exact.argmax(axis=0)).sum() > 10
    np.testing.assert_array_equal(model.predict(new), exact.argmax(axis=0))


def test_rows_that_few_were_not_held_against_are_averaged_over_all(fitted):
    few, exact = fitted
    far = 20.0 * np.random.default_rng(7).standard_normal((50, 6))
    np.testing.assert_array_equal(few.predict_proba(far), exact.predict_proba(far))


def test_a_stream_measures_its_error_anew():
    X, y = problem(2, n=900)
    model = BayesianLogisticRegressionPMD(random_state=0)
    errors = []
    for some in np.split(np.arange(900), 3):
        model.partial_fit(X[some], y[some], classes=[0, 1])
        errors.append(model.diagnostics_["prediction_error"])
    posterior = model.posterior_
    logits = posterior.particles[:, :-1] @ X.T + posterior.particles[:, -1:]
    exact = posterior.weights @ expit(logits)
    assert np.abs(model.predict_proba(X)[:, 1] - exact).max() <= 1e-3
    assert len(set(errors)) == 3


@pytest.mark.parametrize("value", [-1e-3, "exact", np.inf])
def test_a_bad_tolerance_is_refused(value):
    X, y = problem(2, n=60)
    with pytest.raises(ValueError, match="prediction_tol"):
        BayesianLogisticRegressionPMD(prediction_tol=value).fit(X, y)


def test_entropies_are_parted_into_noise_and_ignorance(fitted):
    """The mutual information of label and coefficients, by sums over particles."""
    _, model = fitted
    X = np.random.default_rng(10).standard_normal((30, 6))
    posterior, K = model.posterior_, len(model.classes_)
    theta = posterior.particles.reshape(len(posterior.weights), -1, 7)
    logits = np.einsum("mkp,np->mnk", theta[..., :6], X) + theta[:, None, :, 6]
    logits = np.concatenate([np.zeros_like(logits), logits], axis=2) if K == 2 else logits
    p = np.exp(log_softmax(logits, axis=2))
    mean = np.tensordot(posterior.weights, p, axes=1)
    total = -(mean * np.log(mean)).sum(axis=1)
    aleatoric = posterior.weights @ -(p * np.log(p)).sum(axis=2)
    found = model.predict_uncertainty(X)
    np.testing.assert_allclose(found.total, total, atol=1e-5)
    np.testing.assert_allclose(found.aleatoric, aleatoric, atol=1e-5)
    np.testing.assert_allclose(found.epistemic, total - aleatoric, atol=2e-5)
    assert (found.epistemic >= 0.0).all()
    far = model.predict_uncertainty(30.0 * X)
    assert far.epistemic.max() > 5.0 * found.epistemic.mean()


def test_rows_near_a_tie_of_a_rare_class_have_the_labels_of_all():
    # All rows of the fit were far from a tie: few were off by 2.4 times the tolerance there.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    y = (X.sum(axis=1) - 6.5 + rng.logistic(size=2000) > 0).astype(int)
    model = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)
    slope = model.coef_[0]
    new = rng.standard_normal((6000, 3))
    new -= np.outer(new @ slope + model.intercept_[0], slope) / (slope @ slope)
    new[3000:] += 1e-2 * rng.standard_normal((3000, 3))
    exact = np.exp(log_averages(model._points, new, True)).T
    assert np.abs(model.predict_proba(new) - exact).max() <= 1e-3
    np.testing.assert_array_equal(model.predict(new), exact.argmax(axis=1))
    by_means = new[3000:] @ slope + model.intercept_[0] > 0.0
    assert (by_means != exact[3000:].argmax(axis=1)).sum() > 100
