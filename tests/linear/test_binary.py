"""The logistic model: likelihood to rounding in any memory layout, derivatives, skewness."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._kernels import add_log_sigmoid
from skpmd.linear._priors import NormalPrior


def make_batch(n=300, p=4, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(dtype)
    return Batch(X, rng.choice([-1.0, 1.0], n), rng.uniform(0.1, 3.0, n))


def make_model(d, fit_intercept):
    return LogisticModel(NormalPrior(np.linspace(0.5, 2.0, d)), fit_intercept)


def particles(m, d, seed=1):
    return 2.0 * np.random.default_rng(seed).standard_normal((m, d))


def plain_log_likelihood(theta, batch, fit_intercept):
    """Sum of weighted log sigmoids, in NumPy, in the precision of X for the logits alone."""
    X = batch.X
    if fit_intercept:
        X = np.column_stack([X, np.ones(len(X), X.dtype)])
    table = (theta.astype(X.dtype) @ X.T).astype(np.float64)
    return -np.logaddexp(0.0, -table * batch.y) @ batch.weight


# ----------------------------------------------------------------------------- likelihood
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n", [1, 127, 128, 129, 1000])
@pytest.mark.parametrize("m", [1, 3, 700])
def test_log_likelihood_equals_numpy(fit_intercept, n, m):
    batch = make_batch(n)
    theta = particles(m, 4 + fit_intercept)
    found = make_model(4 + fit_intercept, fit_intercept).log_likelihood(theta, batch)
    assert found.shape == (m,) and found.dtype == np.float64
    np.testing.assert_allclose(
        found, plain_log_likelihood(theta, batch, fit_intercept), rtol=1e-13, atol=0
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_single_precision_features(fit_intercept):
    # Logits are rounded to 6e-8 relative, sums are in double precision: errors of random sign of
    # about 1e-7 a row against a sum of more than 0.1 a row.
    batch = make_batch(2000, dtype=np.float32)
    theta = particles(20, 4 + fit_intercept)
    found = make_model(4 + fit_intercept, fit_intercept).log_likelihood(theta, batch)
    exact = plain_log_likelihood(theta, batch._replace(X=batch.X.astype(np.float64)), fit_intercept)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert (found != exact).any()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    "logit", [0.0, 1e-300, 1e-9, 0.3, 5.0, 37.0, 100.0, 699.0, 700.0, 701.0, 745.0, 800.0, 1e6]
)
def test_log_sigmoid_of_any_logit(sign, logit):
    for z in (logit, -logit):
        total = np.zeros(1)
        add_log_sigmoid(np.array([[z]]), np.array([sign]), np.ones(1), total, False)
        # Below exp(-700) the answer is 1e-304, not its exact even smaller value.
        np.testing.assert_allclose(total[0], -np.logaddexp(0.0, -sign * z), rtol=1e-14, atol=1e-303)


def test_log_sigmoid_over_a_dense_grid():
    z = np.linspace(-45.0, 45.0, 20_001)
    for sign in (-1.0, 1.0):
        total = np.zeros(len(z))
        add_log_sigmoid(z[:, None].copy(), np.array([sign]), np.ones(1), total, False)
        np.testing.assert_allclose(total, -np.logaddexp(0.0, -sign * z), rtol=4e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [5, 130])
def test_the_kernel_equals_its_python_source(dtype, n):
    # The compiler may contract multiplications and additions: a few units in the last place.
    rng = np.random.default_rng(0)
    table = rng.normal(0.0, 20.0, (3, n)).astype(dtype)
    sign, weight = rng.choice([-1.0, 1.0], n), rng.random(n)
    compiled, python = np.ones(3), np.ones(3)
    add_log_sigmoid(table, sign, weight, compiled, False)
    add_log_sigmoid.py_func(table, sign, weight, python, False)
    np.testing.assert_allclose(compiled, python, rtol=1e-14)


def test_the_kernel_adds_to_what_is_there():
    total = np.array([5.0, -3.0])
    add_log_sigmoid(np.zeros((2, 3)), np.ones(3), np.ones(3), total, False)
    np.testing.assert_allclose(total, np.array([5.0, -3.0]) - 3 * np.log(2), rtol=1e-15)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_log_likelihood_is_additive_over_batches(fit_intercept):
    batch, theta = make_batch(500), particles(30, 4 + fit_intercept)
    model = make_model(4 + fit_intercept, fit_intercept)
    pieces = [batch.take(rows) for rows in (slice(0, 77), slice(77, None))]
    total = sum(model.log_likelihood(theta, piece) for piece in pieces)
    np.testing.assert_allclose(model.log_likelihood(theta, batch), total, rtol=1e-13)


def test_a_weight_is_as_many_copies():
    batch, theta = make_batch(50), particles(10, 5)
    copies = np.random.default_rng(0).integers(0, 4, 50)
    model = make_model(5, True)
    repeated = Batch(
        np.repeat(batch.X, copies, axis=0), np.repeat(batch.y, copies), np.ones(copies.sum())
    )
    weighted = model.log_likelihood(theta, batch._replace(weight=copies.astype(float)))
    np.testing.assert_allclose(weighted, model.log_likelihood(theta, repeated), rtol=1e-13)


def test_the_order_of_rows_and_particles_does_not_matter():
    batch, theta, model = make_batch(400), particles(10, 5), make_model(5, True)
    order = np.random.default_rng(0).permutation(400)
    expected = model.log_likelihood(theta, batch)
    shuffled = model.log_likelihood(theta, batch.take(order))
    np.testing.assert_allclose(shuffled, expected, rtol=1e-13)
    np.testing.assert_allclose(model.log_likelihood(theta[::-1], batch), expected[::-1], rtol=1e-13)


def test_flipping_labels_and_coefficients_changes_nothing():
    batch, theta, model = make_batch(), particles(10, 5), make_model(5, True)
    flipped = model.log_likelihood(-theta, batch._replace(y=-batch.y))
    np.testing.assert_allclose(flipped, model.log_likelihood(theta, batch), rtol=1e-14)


@pytest.mark.parametrize("layout", ["fortran", "strided", "read-only", "all"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_memory_layout_changes_nothing(layout, fit_intercept):
    batch, theta = make_batch(200), particles(10, 4 + fit_intercept)
    model = make_model(4 + fit_intercept, fit_intercept)
    parts = [theta, *batch[:3]]
    if layout in ("strided", "all"):
        parts = [np.repeat(part, 2, axis=0)[::2] for part in parts]
    if layout in ("fortran", "all"):
        parts = [np.asfortranarray(part) if part.ndim == 2 else part for part in parts]
    if layout in ("read-only", "all"):
        for part in parts:
            part.flags.writeable = False
    other_theta, other_batch = parts[0], Batch(*parts[1:])
    np.testing.assert_allclose(
        model.log_likelihood(other_theta, other_batch),
        model.log_likelihood(theta, batch),
        rtol=1e-13,
    )
    for found, expected in zip(
        model.gaussian_target(theta[0], None, [other_batch]),
        model.gaussian_target(theta[0], None, [batch]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_input_is_left_alone():
    batch, theta, model = make_batch(), particles(10, 5), make_model(5, True)
    kept = [part.copy() for part in (theta, *batch[:3])]
    model.log_likelihood(theta, batch)
    model.gaussian_target(theta[0], np.eye(5), [batch])
    for part, copy in zip((theta, *batch[:3]), kept, strict=True):
        np.testing.assert_array_equal(part, copy)


# ----------------------------------------------------------------------------- derivatives
def log_joint(model, theta, batches, b):
    value = model.log_prior(theta[None])[0]
    return value + b * sum(model.log_likelihood(theta[None], batch)[0] for batch in batches)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("b", [1.0, 0.4])
def test_derivatives_at_a_point_equal_finite_differences(fit_intercept, b):
    # Central differences with steps of 1e-5 (gradient) and 1e-3 (Hessian, from gradients).
    d = 4 + fit_intercept
    model, batches = make_model(d, fit_intercept), [make_batch(80, seed=s) for s in (0, 5)]
    mean = particles(1, d)[0] / 2
    gradient, precision = model.gaussian_target(mean, None, batches, b)
    for j, axis in enumerate(np.eye(d)):
        up, down = (log_joint(model, mean + h * axis, batches, b) for h in (1e-5, -1e-5))
        assert gradient[j] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-5)
        up, down = (
            model.gaussian_target(mean + h * axis, None, batches, b)[0] for h in (1e-4, -1e-4)
        )
        np.testing.assert_allclose(-precision[j], (up - down) / 2e-4, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sd, tolerance", [(0.1, 1e-12), (0.3, 1e-6), (0.5, 1e-4), (1.5, 1e-2)])
def test_expected_derivatives_equal_quadrature(sd, tolerance):
    # The error of 16 nodes grows with the spread of the logits, here up to 2.3 sd.
    batch = make_batch(40, 1)
    model = make_model(1, False)
    theta = np.linspace(-12 * sd, 12 * sd, 20_001) + 0.4
    mass = norm.pdf(theta, 0.4, sd) * (theta[1] - theta[0])
    z = np.outer(theta, batch.X[:, 0])
    slope = (expit(-z * batch.y) * batch.y * batch.weight) @ batch.X[:, 0]
    curvature = (expit(z) * expit(-z) * batch.weight) @ batch.X[:, 0] ** 2
    prior = model.prior.expected(np.zeros(1), None)[1][0]
    gradient, precision = model.gaussian_target(np.array([0.4]), np.array([[sd**2]]), [batch])
    assert gradient[0] == pytest.approx(mass @ (slope - prior * theta), rel=tolerance)
    assert precision[0, 0] == pytest.approx(mass @ (curvature + prior), rel=tolerance)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_expected_derivatives_equal_averages_over_draws(fit_intercept):
    # 4000 antithetic pairs; the tolerance is 4.5 standard errors of each entry's mean.
    d = 2 + fit_intercept
    model, batch = make_model(d, fit_intercept), make_batch(60, 2)
    rng = np.random.default_rng(0)
    mean, root = rng.standard_normal(d), 0.4 * np.tril(rng.standard_normal((d, d)))
    gradient, precision = model.gaussian_target(mean, root @ root.T, [batch])
    draws = mean + rng.standard_normal((4000, d)) @ root.T
    values = [model.gaussian_target(theta, None, [batch]) for theta in draws]
    for found, sample in (
        (gradient, np.array([value[0] for value in values])),
        (precision, np.array([value[1] for value in values])),
    ):
        error = sample.std(axis=0) / np.sqrt(len(sample))
        assert (np.abs(sample.mean(axis=0) - found) <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_of_single_precision_features_are_double(fit_intercept):
    d = 4 + fit_intercept
    model, batch = make_model(d, fit_intercept), make_batch(dtype=np.float32)
    exact = batch._replace(X=batch.X.astype(np.float64))
    for cov in (None, 0.1 * np.eye(d)):
        for found, expected in zip(
            model.gaussian_target(np.ones(d), cov, [batch]),
            model.gaussian_target(np.ones(d), cov, [exact]),
            strict=True,
        ):
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, expected)


def test_skewness_is_the_third_derivative_at_a_narrow_gaussian():
    # One coefficient: the whitened third derivative of the log-likelihood, by finite differences
    # of the curvature.
    model, batch = make_model(1, False), make_batch(40, 1)
    mean, chol = np.array([0.7]), np.array([[1e-3]])
    rotation, skewness = model.skew_axes(mean, chol, [batch])
    up, down = (model.gaussian_target(mean + h, None, [batch])[1][0, 0] for h in (1e-4, -1e-4))
    assert abs(rotation[0, 0]) == pytest.approx(1.0)
    assert rotation[0, 0] * skewness[0] == pytest.approx(-(up - down) / 2e-4 * 1e-9, rel=1e-4)


def test_skew_axes_find_the_direction_of_the_skewed_data():
    # All rows along one oblique direction: the skewness lies along it and nowhere else.
    direction = np.array([0.6, 0.0, 0.8])
    X = np.outer(np.random.default_rng(0).uniform(0.5, 2.0, 20), direction)
    batch = Batch(X, np.ones(20), np.ones(20))
    model = make_model(3, False)
    rotation, skewness = model.skew_axes(direction, 0.3 * np.eye(3), [batch])
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
    first = np.abs(skewness).argmax()
    assert abs(rotation[:, first] @ direction) == pytest.approx(1.0, abs=1e-3)
    assert np.abs(np.delete(skewness, first)).max() < 1e-3 * np.abs(skewness[first])
