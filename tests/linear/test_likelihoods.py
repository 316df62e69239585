"""Likelihoods of linear predictors: to rounding in any memory layout, derivatives, expectations."""

import numpy as np
import pytest
from scipy.special import expit, gammaln, log_softmax, ndtri, softmax
from scipy.stats import chi2, norm, qmc
from sklearn.datasets import load_iris

from skpmd import BayesianLogisticRegressionPMD
from skpmd._rows.rows import Rows
from skpmd.engine.diagnostics import log_evidence
from skpmd.engine.loop import Options
from skpmd.engine.model import Batch
from skpmd.engine.particles import moments
from skpmd.engine.variational import laplace, variational_mirror_descent
from skpmd.linear._bernoulli import LogisticModel, add_log_sigmoid
from skpmd.linear._design import OneLogit, normal_nodes
from skpmd.linear._fit import find_posterior, proposal_components
from skpmd.linear._multinomial import SoftmaxModel, add_log_softmax, expected_softmax
from skpmd.linear._priors import NormalPrior
from skpmd.proposals.importance_rounds import importance_sample

# K logits: one is that of two classes, whose labels are -1 and 1, more are one for each class.
EACH = pytest.mark.parametrize("K", [1, 3])
BOTH = pytest.mark.parametrize("fit_intercept", [True, False])


def make_batch(n=300, p=4, K=3, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n) if K == 1 else rng.integers(0, K, n).astype(float)
    return Batch(X, y, rng.uniform(0.1, 3.0, n))


def make_model(p=4, K=3, fit_intercept=True):
    prior = NormalPrior(np.linspace(0.5, 2.0, K * (p + fit_intercept)))
    return LogisticModel(prior, fit_intercept) if K == 1 else SoftmaxModel(prior, fit_intercept, K)


def particles(m, p=4, K=3, fit_intercept=True, seed=1):
    return 2.0 * np.random.default_rng(seed).standard_normal((m, K * (p + fit_intercept)))


def in_double(batch):
    return batch._replace(X=batch.X.astype(np.float64))


def plain_log_likelihood(theta, batch, K, fit_intercept):
    """Weighted sums of log probabilities by SciPy, in the precision of X for the logits alone."""
    X = batch.X
    if fit_intercept:
        X = np.column_stack([X, np.ones(len(X), X.dtype)])
    rows = theta.astype(X.dtype).reshape(len(theta), K, -1)
    table = np.einsum("mkp,np->mnk", rows, X).astype(np.float64)
    if K == 1:
        return -np.logaddexp(0.0, -table[..., 0] * batch.y) @ batch.weight
    return log_softmax(table, axis=2)[:, np.arange(len(X)), batch.y.astype(int)] @ batch.weight


# ----------------------------------------------------------------------------- likelihood
@BOTH
@pytest.mark.parametrize("K", [1, 2, 3, 10])
@pytest.mark.parametrize("n, m", [(1, 3), (127, 1), (128, 3), (129, 60), (1100, 60), (1000, 700)])
def test_log_likelihood_equals_scipy(fit_intercept, K, n, m):
    # 60 particles of 10 classes and 1100 rows are cut both ways.
    batch, theta = make_batch(n, K=K), particles(m, 4, K, fit_intercept)
    found = make_model(4, K, fit_intercept).log_likelihood(theta, batch)
    assert found.shape == (m,) and found.dtype == np.float64
    np.testing.assert_allclose(
        found, plain_log_likelihood(theta, batch, K, fit_intercept), rtol=1e-13, atol=1e-13
    )


@EACH
def test_features_in_single_precision_have_sums_in_double(K):
    # Logits are rounded to 6e-8 relative, and summed over 2000 rows in products of 1e-7 relative.
    batch, theta, model = (
        make_batch(2000, K=K, dtype=np.float32),
        particles(20, K=K),
        make_model(K=K),
    )
    found, expected = (all_of(model, theta, rows) for rows in (batch, in_double(batch)))
    assert all(one.dtype == np.float64 for one in found)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5, atol=1e-2)
    assert (found[0] != expected[0]).any() and (found[2] != expected[2]).any()
    for one, other in zip(found[3:], expected[3:], strict=True):
        np.testing.assert_array_equal(one, other)


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
@pytest.mark.parametrize("scale", [1e-12, 1.0, 30.0, 1e4, 1e30])
def test_log_softmax_of_any_logits(dtype, scale):
    # Up to 40 logits a row: the logarithm's argument runs from 1 to 40.
    rng = np.random.default_rng(0)
    for K in (2, 5, 40):
        table = (scale * rng.standard_normal((1, K, 300))).astype(dtype)
        label = rng.integers(0, K, 300)
        expected = log_softmax(table[0].astype(np.float64), axis=0)
        residual = (np.arange(K)[:, None] == label) - np.exp(expected)
        for n in range(300):
            total, column = np.zeros(1), table[:, :, n : n + 1].copy()
            add_log_softmax(column, label[n : n + 1], np.ones(1), total, True)
            np.testing.assert_allclose(total[0], expected[label[n], n], rtol=1e-14, atol=2e-15)
            np.testing.assert_allclose(
                column[0, :, 0], residual[:, n], rtol=0, atol=4 * np.finfo(dtype).eps
            )


def test_equal_logits_have_equal_probability():
    for value in (0.0, 1e4, -1e4, 1e300):
        total = np.zeros(1)
        add_log_softmax(np.full((1, 7, 1), value), np.array([3]), np.ones(1), total, False)
        assert total[0] == pytest.approx(-np.log(7), rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("differentiate", [True, False])
@EACH
def test_the_kernels_equal_their_python_source(dtype, differentiate, K):
    # The compiler may contract multiplications and additions: a few units in the last place.
    rng = np.random.default_rng(0)
    table = rng.normal(0.0, 20.0, (3, 130) if K == 1 else (3, K, 130)).astype(dtype)
    kernel = add_log_sigmoid if K == 1 else add_log_softmax
    label = rng.choice([-1.0, 1.0], 130) if K == 1 else rng.integers(0, K, 130)
    weight, compiled, python, other = rng.random(130), np.ones(3), np.ones(3), table.copy()
    kernel(table, label, weight, compiled, differentiate)
    kernel.py_func(other, label, weight, python, differentiate)
    np.testing.assert_allclose(compiled, python, rtol=1e-14)
    np.testing.assert_allclose(table, other, rtol=1e-6 if dtype == np.float32 else 1e-13)


def all_of(model, theta, batch):
    """Everything that the model says of a batch, as a list of arrays."""
    cov = 0.1 * np.eye(theta.shape[1])
    return [
        model.log_likelihood(theta, batch),
        *model.log_joint_gradient(theta, [batch]),
        *model.gaussian_target(theta[0], None, [batch]),
        *model.gaussian_target(theta[0], cov, [batch]),
    ]


def assert_same(found, expected, rtol=1e-11):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-11)


@EACH
def test_log_likelihood_is_additive_over_batches(K):
    batch, theta, model = make_batch(500, K=K), particles(30, K=K), make_model(K=K)
    pieces = [batch.take(rows) for rows in (slice(0, 77), slice(77, None))]
    total = sum(model.log_likelihood(theta, piece) for piece in pieces)
    np.testing.assert_allclose(model.log_likelihood(theta, batch), total, rtol=1e-13)


@EACH
def test_a_weight_is_as_many_copies(K):
    batch, theta, model = make_batch(50, K=K), particles(10, K=K), make_model(K=K)
    copies = np.random.default_rng(0).integers(0, 4, 50)
    repeated = batch._replace(weight=np.ones(50)).take(np.repeat(np.arange(50), copies))
    weighted = batch._replace(weight=copies.astype(float))
    assert_same(all_of(model, theta, weighted), all_of(model, theta, repeated))


@pytest.mark.parametrize("K", [1, 10])
def test_the_order_of_rows_and_the_type_of_labels_do_not_matter(K):
    batch, theta, model = make_batch(700, K=K), particles(10, K=K), make_model(K=K)
    shuffled = batch.take(np.random.default_rng(0).permutation(700))
    if K > 1:
        shuffled = shuffled._replace(y=shuffled.y.astype(np.int32))
    assert_same(all_of(model, theta, shuffled), all_of(model, theta, batch))


def test_the_order_of_classes_does_not_matter():
    # The rule for expectations tells classes apart; what is exact here is all but those.
    batch, theta = make_batch(K=4), particles(10, K=4)
    order = np.array([2, 0, 3, 1])  # new class j is old class order[j]
    model = SoftmaxModel(NormalPrior(np.ones(20)), True, 4)
    renamed = batch._replace(y=np.argsort(order)[batch.y.astype(int)].astype(float))
    coordinates = np.arange(20).reshape(4, 5)[order].ravel()
    value, gradient, slope, precision = all_of(model, theta, batch)[1:5]
    expected = (value, gradient[:, coordinates], slope[coordinates])
    expected += (precision[np.ix_(coordinates, coordinates)],)
    assert_same(all_of(model, theta[:, coordinates], renamed)[1:5], expected)


def test_a_shift_common_to_all_classes_changes_nothing():
    batch, theta, model = make_batch(), particles(10), make_model()
    shift = np.tile(np.array([1.0, -2.0, 0.5, 3.0, 10.0]), 3)
    np.testing.assert_allclose(
        model.log_likelihood(theta + shift, batch), model.log_likelihood(theta, batch), rtol=1e-12
    )
    # Along it there is the prior alone: the Hessian of the likelihood is zero.
    _, precision = model.gaussian_target(theta[0], None, [batch])
    expected = shift * model.prior.scale**-2.0
    np.testing.assert_allclose(precision @ shift, expected, atol=1e-10)


def test_two_classes_are_the_logistic_model():
    batch, theta = make_batch(K=2), particles(10, K=2)
    difference = theta[:, 5:] - theta[:, :5]
    logistic = LogisticModel(NormalPrior(np.ones(5)), fit_intercept=True)
    np.testing.assert_allclose(
        make_model(K=2).log_likelihood(theta, batch),
        logistic.log_likelihood(difference, batch._replace(y=2.0 * batch.y - 1.0)),
        rtol=1e-12,
    )


@pytest.mark.slow_but("1-all", "3-all")  # Each layout compiles kernels of its own.
@pytest.mark.parametrize("layout", ["fortran", "strided", "read-only", "all"])
@EACH
def test_memory_layout_changes_nothing_and_input_is_left_alone(layout, K):
    batch, theta, model = make_batch(200, K=K), particles(10, K=K), make_model(K=K)
    parts = [theta.copy(), *(part.copy() for part in batch[:3])]
    if layout in ("strided", "all"):
        parts = [np.repeat(part, 2, axis=0)[::2] for part in parts]
    if layout in ("fortran", "all"):
        parts = [np.asfortranarray(part) if part.ndim == 2 else part for part in parts]
    if layout in ("read-only", "all"):
        for part in parts:
            part.flags.writeable = False
    assert_same(all_of(model, parts[0], Batch(*parts[1:])), all_of(model, theta, batch))
    model.skew_axes(parts[0][0], np.eye(theta.shape[1]), [Batch(*parts[1:])])
    for part, given in zip(parts, (theta, *batch[:3]), strict=True):
        np.testing.assert_array_equal(part, given)


# ----------------------------------------------------------------------------- derivatives
@BOTH
@pytest.mark.parametrize("K", [1, 2, 3, 10])
@pytest.mark.parametrize("b", [1.0, 0.4])
def test_gradient_equals_finite_differences(fit_intercept, K, b):
    # Central differences with steps of 1e-5 on values of about 1000: good to 1e-5.
    model, batches = make_model(4, K, fit_intercept), [make_batch(80, K=K, seed=s) for s in (0, 5)]
    theta = particles(3, 4, K, fit_intercept)

    def log_joint(theta):
        likelihood = sum(plain_log_likelihood(theta, batch, K, fit_intercept) for batch in batches)
        return model.log_prior(theta) + b * likelihood

    values, gradients = model.log_joint_gradient(theta, batches, b)
    assert values.shape == (3,) and gradients.shape == theta.shape
    np.testing.assert_allclose(values, log_joint(theta), rtol=1e-12)
    for j, axis in enumerate(np.eye(theta.shape[1])):
        slope = (log_joint(theta + 1e-5 * axis) - log_joint(theta - 1e-5 * axis)) / 2e-5
        np.testing.assert_allclose(gradients[:, j], slope, rtol=1e-6, atol=1e-4)


def test_gradient_of_many_particles_and_rows_is_that_of_each():
    # 60 particles of 10 classes and 1100 rows are cut both ways.
    model, batch, theta = make_model(K=10), make_batch(1100, K=10), particles(60, K=10)
    values, gradients = model.log_joint_gradient(theta, [batch])
    for i in (0, 24, 25, 59):
        value, gradient = model.log_joint_gradient(theta[i : i + 1], [batch])
        assert values[i] == pytest.approx(value[0], rel=1e-12)
        np.testing.assert_allclose(gradients[i], gradient[0], rtol=1e-9, atol=1e-9)


@BOTH
@pytest.mark.parametrize("K", [1, 2, 3, 6])
@pytest.mark.parametrize("b", [1.0, 0.4])
def test_target_at_a_point_is_gradient_and_hessian(fit_intercept, K, b):
    # The Hessian by central differences of the gradient with a step of 1e-4.
    model, batches = make_model(4, K, fit_intercept), [make_batch(80, K=K, seed=s) for s in (0, 5)]
    mean = particles(1, 4, K, fit_intercept)[0] / 2
    gradient, precision = model.gaussian_target(mean, None, batches, b)
    np.testing.assert_allclose(
        gradient, model.log_joint_gradient(mean[None], batches, b)[1][0], rtol=1e-11, atol=1e-11
    )
    steps = 1e-4 * np.eye(len(mean))
    up, down = (model.log_joint_gradient(mean + h, batches, b)[1] for h in (steps, -steps))
    np.testing.assert_allclose(-precision, (up - down) / 2e-4, rtol=1e-6, atol=1e-5)


@EACH
def test_skewness_is_the_third_derivative_at_a_narrow_gaussian(K):
    # Along each axis found: finite differences of the curvature, to their own 1e-5.
    model, batch = make_model(2, K), make_batch(100, 2, K)
    d = model.n_coordinates
    mean = particles(1, 2, K)[0] / 2
    chol = 1e-2 * np.tril(np.random.default_rng(0).standard_normal((d, d))) + 1e-2 * np.eye(d)
    rotation, skewness = model.skew_axes(mean, chol, [batch])
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(d), atol=1e-12)
    for axis, found in zip((chol @ rotation).T, skewness, strict=True):
        step = 1e-2 * axis
        up, down = (model.gaussian_target(mean + h, None, [batch])[1] for h in (step, -step))
        third = -(axis @ (up - down) @ axis) / 2e-2
        # The Gaussian's sd of 0.02 a coordinate moves the probabilities by up to 1 %.
        assert found == pytest.approx(third, abs=0.02 * np.abs(skewness).max())
    assert np.abs(skewness).max() > 1e-5


def test_skew_axes_find_the_direction_of_the_skewed_data():
    # All rows along one oblique direction: the skewness lies along it and nowhere else.
    direction = np.array([0.6, 0.0, 0.8])
    X = np.outer(np.random.default_rng(0).uniform(0.5, 2.0, 20), direction)
    batch = Batch(X, np.ones(20), np.ones(20))
    model = make_model(3, 1, False)
    rotation, skewness = model.skew_axes(direction, 0.3 * np.eye(3), [batch])
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
    first = np.abs(skewness).argmax()
    assert abs(rotation[:, first] @ direction) == pytest.approx(1.0, abs=1e-3)
    assert np.abs(np.delete(skewness, first)).max() < 1e-3 * np.abs(skewness[first])


# ----------------------------------------------------------------------------- expectations
@pytest.mark.parametrize("d", [1, 2, 3, 10, 32, 33, 64, 150])
@pytest.mark.parametrize("shifted", [False, True])
def test_nodes_are_exact_to_degree_three(d, shifted):
    nodes = normal_nodes(d, shifted=shifted)
    np.testing.assert_allclose(nodes.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(nodes @ nodes.T / nodes.shape[1], np.eye(d), atol=1e-12)
    np.testing.assert_array_equal(nodes[:, : nodes.shape[1] // 2], -nodes[:, nodes.shape[1] // 2 :])


@pytest.mark.parametrize("d", [1, 2, 3, 10, 32])
def test_no_shifted_node_is_in_a_corner(d):
    # One of 256 normal points is beyond this radius with probability 0.1; the first is otherwise at
    # 2.7 in every coordinate.
    nodes = normal_nodes(d, 256, shifted=True)
    assert np.linalg.norm(nodes, axis=0).max() <= np.sqrt(chi2(d).isf(0.1 / 256))


def logit_problem(K, sd, n=60):
    rng = np.random.default_rng(K)
    root = sd * rng.standard_normal((n, K, K)) / np.sqrt(K)
    return rng.normal(0.0, 2.0, (n, K)), root @ root.transpose(0, 2, 1)


@pytest.mark.slow_for(
    "0.1-2e-05-3", "0.1-2e-05-5", "0.5-0.0005-5", "1.5-0.004-3", "1.5-0.004-5", "4.0-0.01-5"
)
@pytest.mark.parametrize("K", [2, 3, 5, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sd, tolerance", [(0.1, 2e-5), (0.5, 5e-4), (1.5, 4e-3), (4.0, 1e-2)])
def test_expected_probabilities_are_near_those_of_many_points(K, sd, tolerance):
    # Root mean square over rows and classes, against 2^15 scrambled Sobol points and their mirror
    # images, good to 1e-4 of the tolerance's sd: what the docstring states, with room for each K.
    centre, cov = logit_problem(K, sd)
    half = ndtri(np.clip(qmc.Sobol(K, seed=1).random(1 << 14), 1e-10, 1 - 1e-10)).T
    z = centre[:, :, None] + np.linalg.cholesky(cov) @ np.concatenate([half, -half], axis=1)
    p = softmax(z, axis=1)
    first, second = expected_softmax(centre, cov.copy(), normal_nodes(K))
    assert np.sqrt(np.mean((first - p.mean(axis=2)) ** 2)) < tolerance
    rows, columns = np.tril_indices(K, -1)
    exact = (p[:, rows] * p[:, columns]).mean(axis=2)
    assert np.sqrt(np.mean((second[:, rows, columns] - exact) ** 2)) < tolerance
    np.testing.assert_allclose(first.sum(axis=1), 1.0, rtol=1e-13)


def test_expectations_of_singular_covariances():
    # Rank one, rank zero, and equal logits: each is an average over a line, by the trapezoidal rule
    # exact to rounding; the nodes' error on a line is below 2e-3 at an sd of 1.
    direction = np.array([1.0, 1.0, -0.5, 0.0])
    centre = np.array([[0.3, -1.0, 2.0, 0.0]])
    line = np.linspace(-8.0, 8.0, 2001)
    mass = np.exp(-0.5 * line**2)
    mass /= mass.sum()
    p = softmax(centre[0][:, None] + direction[:, None] * line, axis=0)
    cov = np.outer(direction, direction)[None]
    first, _ = expected_softmax(centre, cov.copy(), normal_nodes(4))
    np.testing.assert_allclose(first[0], p @ mass, atol=2e-3)
    first, second = expected_softmax(centre, np.zeros((1, 4, 4)), normal_nodes(4))
    exact = softmax(centre[0])
    np.testing.assert_allclose(first[0], exact, rtol=1e-13)
    np.testing.assert_allclose(second[0, 3, 1], exact[3] * exact[1], rtol=1e-13)


def test_the_kernel_of_expectations_equals_its_python_source():
    centre, cov = logit_problem(3, 1.0, n=4)
    compiled = expected_softmax(centre, cov.copy(), normal_nodes(3))
    python = expected_softmax.py_func(centre, cov.copy(), normal_nodes(3))
    lower = np.tril_indices(3, -1)
    np.testing.assert_allclose(compiled[0], python[0], rtol=1e-12)
    np.testing.assert_allclose(compiled[1][:, *lower], python[1][:, *lower], rtol=1e-12)


@pytest.mark.parametrize("sd, tolerance", [(0.1, 1e-12), (0.3, 1e-6), (0.5, 1e-4), (1.5, 1e-2)])
def test_expected_derivatives_equal_quadrature(sd, tolerance):
    # The error of 16 nodes grows with the spread of the logits, here up to 2.3 sd.
    batch = make_batch(40, 1, 1)
    model = make_model(1, 1, False)
    theta = np.linspace(-12 * sd, 12 * sd, 20_001) + 0.4
    mass = norm.pdf(theta, 0.4, sd) * (theta[1] - theta[0])
    z = np.outer(theta, batch.X[:, 0])
    slope = (expit(-z * batch.y) * batch.y * batch.weight) @ batch.X[:, 0]
    curvature = (expit(z) * expit(-z) * batch.weight) @ batch.X[:, 0] ** 2
    prior = model.prior.expected(np.zeros(1), None)[1][0]
    gradient, precision = model.gaussian_target(np.array([0.4]), np.array([[sd**2]]), [batch])
    assert gradient[0] == pytest.approx(mass @ (slope - prior * theta), rel=tolerance)
    assert precision[0, 0] == pytest.approx(mass @ (curvature + prior), rel=tolerance)


@pytest.mark.slow_but("False-1")
@EACH
@BOTH
def test_expected_derivatives_equal_averages_over_draws(fit_intercept, K):
    # 4000 draws; the tolerance is 4.5 standard errors of each entry's mean, and 1 % of the largest
    # entry for the error of the rule for several logits.
    model, batch = make_model(2, K, fit_intercept), make_batch(60, 2, K)
    rng = np.random.default_rng(0)
    d = model.n_coordinates
    mean, root = rng.standard_normal(d), 0.3 * np.tril(rng.standard_normal((d, d)))
    gradient, precision = model.gaussian_target(mean, root @ root.T, [batch])
    draws = mean + rng.standard_normal((4000, d)) @ root.T
    values = [model.gaussian_target(theta, None, [batch]) for theta in draws]
    for found, sample in (
        (gradient, np.array([value[0] for value in values])),
        (precision, np.array([value[1] for value in values])),
    ):
        error = sample.std(axis=0) / np.sqrt(len(sample))
        tolerance = 4.5 * error + (0.01 * np.abs(found).max() if K > 1 else 1e-9)
        assert (np.abs(sample.mean(axis=0) - found) <= tolerance).all()


@pytest.mark.parametrize("sd", [0.1, 3.0, 100.0])
def test_precision_is_at_least_that_of_the_prior(sd):
    model, batch = make_model(K=5), make_batch(200, K=5)
    root = sd * np.random.default_rng(0).standard_normal((25, 25))
    _, precision = model.gaussian_target(np.ones(25), root @ root.T, [batch])
    data = precision - np.diag(model.prior.scale**-2.0)
    np.testing.assert_allclose(data, data.T, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(data).min() > -1e-10 * np.abs(data).max()


# ----------------------------------------------------------------------------- posteriors
def posterior(model, batches, n=8000, seed=0):
    """Outcome of importance reweighting, as an estimator runs it."""
    mixture = proposal_components(model, batches, "auto", 1.0)
    return importance_sample(model, batches, mixture, n, 1.0, np.random.default_rng(seed))


class Poisson(OneLogit):
    """Counts with rate exp(z): what a further likelihood has to say."""

    def add_log_likelihoods(self, table, y, weight, total):
        z = table[:, 0].astype(float)
        total += (y * z - np.exp(z) - gammaln(y + 1.0)) @ weight

    def differentiate(self, table, y, weight, total):
        self.add_log_likelihoods(table, y, weight, total)
        table[:, 0] = weight * (y - np.exp(table[:, 0]))

    def expected(self, centre, spread, y, weight):
        rate = np.exp(centre + 0.5 * spread**2)
        return weight * (y - rate), weight * rate

    def expected_third(self, centre, spread, y, weight):
        return -weight * np.exp(centre + 0.5 * spread**2)


@pytest.mark.parametrize("moves", ["never", "always"])
def test_a_further_likelihood_needs_no_other_line(moves):
    """Rates of thirty rows by proposals and by moves, against a grid."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 1))
    y = rng.poisson(np.exp(0.4 * X[:, 0] - 0.3)).astype(float)
    prior = NormalPrior(np.array([1.0, 2.0]))
    parameters = BayesianLogisticRegressionPMD(moves=moves)._parameters()
    outcome, _, _ = find_posterior(
        Poisson(prior, True), Rows(X, y, None, 30), parameters, Options(n_particles=4000), rng
    )
    slope, intercept = np.meshgrid(np.linspace(-2, 2, 201), np.linspace(-3, 2, 251))
    theta = np.column_stack([slope.ravel(), intercept.ravel()])
    z = theta[:, :1] * X[:, 0] + theta[:, 1:]
    log_joint = prior.log_density(theta) + (y * z - np.exp(z)).sum(axis=1)
    mass = np.exp(log_joint - log_joint.max())
    mean = mass @ theta / mass.sum()
    sd = np.sqrt(mass @ (theta - mean) ** 2 / mass.sum())
    found, cov = moments(outcome.particles.theta, outcome.particles.log_ratio)
    np.testing.assert_allclose((found - mean) / sd, 0.0, atol=0.12)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)) / sd, 1.0, atol=0.09)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_posterior_of_two_classes_is_that_of_the_logistic_model(scale):
    # theta_1 - theta_0 has the prior sd scale * sqrt(2); the sum keeps its prior, and the evidence
    # is the same. Both have 8000 draws, 85 % effective: means to 0.012 sds and sds to 1 % each.
    batch = make_batch(120, 3, 2)
    p = 4
    wide = posterior(SoftmaxModel(NormalPrior(np.full(2 * p, scale)), True, 2), [batch])
    logistic = LogisticModel(NormalPrior(np.full(p, scale * np.sqrt(2))), fit_intercept=True)
    narrow = posterior(logistic, [batch._replace(y=2.0 * batch.y - 1.0)])
    theta = wide.particles.theta
    for points in (wide, narrow):
        assert points.infos[-1].ess > 0.8 * len(points.particles.theta)
    mean, cov = moments(theta[:, p:] - theta[:, :p], wide.particles.log_ratio)
    expected, expected_cov = moments(narrow.particles.theta, narrow.particles.log_ratio)
    sd = np.sqrt(np.diag(expected_cov))
    np.testing.assert_allclose((mean - expected) / sd, 0.0, atol=0.06)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)) / sd, 1.0, atol=0.05)
    mean, cov = moments(theta[:, p:] + theta[:, :p], wide.particles.log_ratio)
    sd = scale * np.sqrt(2)
    np.testing.assert_allclose(mean / sd, 0.0, atol=0.06)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)) / sd, 1.0, atol=0.05)
    evidence = [log_evidence(points.particles.log_ratio)[0] for points in (wide, narrow)]
    assert evidence[0] == pytest.approx(evidence[1], abs=0.03)


# Iris, standardised, prior N(0, 1): 200 whitened Hamiltonian chains of 1500 draws each in plain
# NumPy. Standard errors, from the spread between chains: 0.0011 of means, 0.0015 of sds.
IRIS_MEAN = np.array(
    [
        [-1.0424, 1.2142, -1.9500, -1.8140, -0.3520],
        [0.5877, -0.5247, -0.1527, -0.7386, 1.8270],
        [0.4572, -0.6910, 2.1071, 2.5533, -1.4749],
    ]
)
IRIS_SD = np.array(
    [
        [0.8464, 0.7243, 0.8749, 0.8788, 0.7536],
        [0.7043, 0.6443, 0.8125, 0.7678, 0.6683],
        [0.7173, 0.6758, 0.8511, 0.7974, 0.7225],
    ]
)


def iris(dtype=np.float64):
    X, y = load_iris(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(dtype)
    return SoftmaxModel(NormalPrior(np.ones(15)), True, 3), [Batch(X, y * 1.0, np.ones(150))]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_posterior_of_iris_is_that_of_a_long_chain(dtype):
    # 7200 effective draws: errors of 0.012 sds in the means and 1 % in the sds; four times that.
    outcome = posterior(*iris(dtype))
    assert outcome.infos[-1].ess > 0.8 * len(outcome.particles.theta)
    mean, cov = moments(outcome.particles.theta, outcome.particles.log_ratio)
    np.testing.assert_allclose((mean.reshape(3, 5) - IRIS_MEAN) / IRIS_SD, 0.0, atol=0.05)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)).reshape(3, 5) / IRIS_SD, 1.0, atol=0.04)


def test_gaussian_mirror_descent_is_nearer_to_iris_than_laplace():
    # Means within 0.05 sds, the mode off by up to 0.16.
    model, batches = iris()
    mode = laplace(model, batches, np.zeros(15))
    q = variational_mirror_descent(model, batches, mode)
    gaps = [np.abs(found.mean.reshape(3, 5) - IRIS_MEAN) / IRIS_SD for found in (q, mode)]
    assert gaps[0].max() < 0.05 < 0.1 < gaps[1].max()


def test_what_all_classes_share_is_not_monitored():
    """The likelihood does not see it either; two classes' difference is seen whole."""
    model = SoftmaxModel(NormalPrior(np.ones(12)), True, 3)
    rng = np.random.default_rng(0)
    theta, shared = rng.normal(size=(5, 12)), np.tile(rng.normal(size=(5, 4)), 3)
    np.testing.assert_allclose(model.monitored(theta + shared), model.monitored(theta), atol=1e-12)
    found, rows = model.monitored(theta).reshape(5, 3, 4), theta.reshape(5, 3, 4)
    np.testing.assert_allclose(found[:, 0] - found[:, 1], rows[:, 0] - rows[:, 1], atol=1e-12)
