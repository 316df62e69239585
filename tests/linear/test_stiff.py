"""The stiff rows of a logistic posterior, and gradients in single precision."""

import numpy as np
import pytest
from scipy.special import log_expit, log_softmax

from skpmd.engine.model import Batch
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._hmc import stiff_rows
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._priors import NormalPrior


def problem(K, n=1100, p=4):
    """Rows of which the first four alone have a 1 in the last column, standardised."""
    rng = np.random.default_rng(K)
    X = rng.standard_normal((n, p))
    X[:, -1] = 0.0
    X[:4, -1] = 1.0
    X[:, -1] = (X[:, -1] - X[:, -1].mean()) / X[:, -1].std()
    y = rng.integers(0, K, n).astype(float)
    y[:4] = 1.0
    prior = NormalPrior(np.ones((1 if K == 2 else K) * (p + 1)))
    if K == 2:
        return LogisticModel(prior, True), Batch(X, 2.0 * y - 1.0, rng.uniform(0.5, 2.0, n))
    return SoftmaxModel(prior, True, K), Batch(X, y, rng.uniform(0.5, 2.0, n))


def log_likelihood(model, batch, theta):
    """By SciPy, of shape (m,)."""
    X = np.column_stack([batch.X, np.ones(len(batch.X))])
    table = np.einsum("mkp,np->mnk", theta.reshape(len(theta), -1, X.shape[1]), X)
    if table.shape[2] == 1:
        return log_expit(batch.y * table[:, :, 0]) @ batch.weight
    table = log_softmax(table, axis=2)
    return table[:, np.arange(len(X)), batch.y.astype(int)] @ batch.weight


@pytest.mark.parametrize("K", [2, 3])
def test_the_stiff_part_is_the_likelihood_of_the_rare_rows(K):
    # A posterior of sd 0.5 along the rare column's coefficients and 0.05 along the others: only the
    # rare rows have a logit of a large sd. Single precision of logits of some tens is 1e-5.
    model, batch = problem(K)
    d, p = model.n_coordinates, batch.X.shape[1]
    scale = np.full(d, 0.05)
    scale[p - 1 :: p + 1] = 0.5
    mean, chol = 0.1 * np.random.default_rng(0).standard_normal(d), np.diag(scale)
    cut = [batch.take(some) for some in (slice(600), slice(600, None))]
    stiff = stiff_rows(model, cut, 0.7, mean, chol)
    n_axes = stiff.axes.shape[1]
    assert n_axes == (1 if K == 2 else K - 1)
    np.testing.assert_allclose(stiff.axes.T @ stiff.axes, np.eye(n_axes), atol=1e-12)
    a = 2.0 * np.random.default_rng(1).standard_normal((6, n_axes))
    values, gradients = stiff.function(a)
    assert values.dtype == gradients.dtype == np.float64
    rare = batch._replace(X=batch.X[:4], y=batch.y[:4], weight=0.7 * batch.weight[:4])
    # Off the axes rows are held at the mean, so theta is moved along the axes alone.
    exact = log_likelihood(model, rare, mean + (a @ stiff.axes.T) @ chol.T)
    np.testing.assert_allclose(values, exact, rtol=1e-5, atol=1e-4)
    for j, axis in enumerate(np.eye(n_axes)):
        up, down = (
            log_likelihood(model, rare, mean + ((a + h * axis) @ stiff.axes.T) @ chol.T)
            for h in (1e-5, -1e-5)
        )
        np.testing.assert_allclose(gradients[:, j], (up - down) / 2e-5, rtol=1e-3, atol=1e-2)


def test_a_posterior_without_rare_rows_has_no_stiff_part():
    model, batch = problem(2)
    d = model.n_coordinates
    stiff = stiff_rows(model, [batch], 1.0, np.zeros(d), 0.01 * np.eye(d))
    assert stiff.axes.shape == (d, 0) and stiff.step > 0.0
    values, gradients = stiff.function(np.zeros((3, 0)))
    assert values.shape == (3,) and gradients.shape == (3, 0)


@pytest.mark.parametrize("K", [2, 3])
def test_copies_of_rows_count_like_their_weight_in_any_order_and_pieces(K):
    # No copy by itself is stiff here, and their sums are. Offsets are in single precision.
    model, batch = problem(K)
    counts = np.random.default_rng(1).integers(0, 6, len(batch.y))
    counts[:4] = 5
    whole = batch._replace(weight=counts.astype(float))
    copies = batch.take(np.repeat(np.arange(len(counts)), counts))
    order = np.random.default_rng(2).permutation(len(copies.y))
    mixed = copies._replace(weight=np.ones(len(order))).take(order)
    cut = [mixed.take(some) for some in (slice(700), slice(700, None))]
    d, p = model.n_coordinates, batch.X.shape[1]
    scale = np.full(d, 0.01)
    scale[p - 1 :: p + 1] = 0.12
    one, other = (
        stiff_rows(model, some, 1.0, np.zeros(d), np.diag(scale)) for some in ([whole], cut)
    )
    assert one.axes.shape[1] == other.axes.shape[1] > 0
    z = np.random.default_rng(3).standard_normal((6, d))
    values, gradients = one.function(z @ one.axes)
    again, by_others = other.function(z @ other.axes)
    np.testing.assert_allclose(again, values, rtol=1e-6)
    np.testing.assert_allclose(by_others @ other.axes.T, gradients @ one.axes.T, atol=1e-4)


def test_stiff_rows_are_few():
    # Under this posterior every row has a logit of sd 10; 2 % of 5000 rows are 100.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3))
    batch = Batch(X, np.sign(X[:, 0]), np.ones(5000))
    model = LogisticModel(NormalPrior(np.ones(4)), True)
    stiff = stiff_rows(model, [batch], 1.0, np.zeros(4), 6.0 * np.eye(4))
    at_mean = stiff.function(np.zeros((1, stiff.axes.shape[1])))[0]
    assert at_mean[0] == pytest.approx(100 * np.log(0.5), rel=1e-6)


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("K", [2, 3, 10])
def test_single_gradients_are_those_of_double_precision_but_for_rounding(K):
    # Logits of up to 30 or so, rounded to 1e-6 each, and sums over 1100 rows of such errors.
    model, batch = problem(K)
    theta = np.random.default_rng(0).standard_normal((20, model.n_coordinates))
    exact = model.log_joint_gradient(theta, [batch], 0.6)[1]
    found = model.single_gradient(theta, [batch._replace(X=batch.X.astype(np.float32))], 0.6)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-2)
    assert np.abs(found - exact).max() > 0.0


def test_single_gradients_of_certain_labels():
    # Logits of 0 and of +-300, where e^-|z| is below the least number of single precision.
    model = LogisticModel(NormalPrior(np.full(1, 1e6)), False)
    X = np.array([[0.0], [300.0], [300.0]], np.float32)
    for y, expected in (([1, 1, 1], 0.0), ([1, 1, -1], -300.0), ([1, -1, -1], -600.0)):
        batch = Batch(X, np.array(y, float), np.ones(3))
        found = model.single_gradient(np.ones((1, 1)), [batch])
        np.testing.assert_allclose(found, expected, atol=1e-6)
