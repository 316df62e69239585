"""The evidence of a sparse process on many rows, and what it does for a kernel."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skpmd import SparseGPRegressorPMD
from skpmd.engine.model import Batch
from skpmd.sparse_gp import _hyperparameters
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._evidence import best_of, sparse_evidence, student_weighed
from skpmd.sparse_gp._model import SparseGP
from skpmd.sparse_gp._starts import with_other_noise
from skpmd.sparse_gp._student import StudentSparseGP


@pytest.mark.parametrize("approximation", ["fitc", "vfe"])
@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF([1.0, 2.0, 0.7]) + WhiteKernel(0.1),
        Matern(1.3, nu=1.5) + WhiteKernel(0.2),
        ConstantKernel(2.0, "fixed") * Matern([1.0, 2.0, 0.7], nu=2.5) * 0.3 + WhiteKernel(0.1),
    ],
)
def test_value_and_gradient(kernel, approximation):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(60, 3)), rng.normal(size=(12, 3))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(60, 2))
    own, w = rng.uniform(0.0, 0.1, 60), rng.integers(1, 4, 60).astype(float)
    theta = kernel.theta
    model = SparseGP(KernelCovariance(kernel), None, Z, approximation, 1e-10, 2)

    def evidence(theta):
        return sparse_evidence(model, theta, Sample(X, y, own, w))

    value, gradient = evidence(theta)
    block = model.statistics(theta[None], None, Batch(X, y, w, own))
    np.testing.assert_allclose(value, model.log_partition(block)[0], rtol=1e-10)
    steps = 1e-5 * np.eye(len(theta))
    numeric = [(evidence(theta + e)[0] - evidence(theta - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("nu", [0.5, 1.5, np.inf])
@pytest.mark.parametrize("far", [2.0**20, 2.0**34])
def test_gradients_among_near_rows_are_the_same_beside_far_ones(nu, far):
    """Of a sentinel their squares hid all other distances, and an outlier of 1e49 ended fits."""
    rng = np.random.default_rng(0)
    X, W = np.round(16.0 * rng.normal(size=(30, 3))) / 16.0, rng.normal(size=(30, 30))
    W += W.T
    kernel = 2.0 * Matern([1.0, 2.0, 0.7], nu=nu)
    fast, apart, moved = KernelCovariance(kernel).fast, W.copy(), X.copy()
    moved[:9, 1] += far
    apart[:9, 9:] = apart[9:, :9] = 0.0  # Nothing is left of covariances of rows so far apart.
    found, expected = (
        [
            fast.own_gradient(kernel.theta, rows, np.asfortranarray(weight)),
            fast.cross_gradient(kernel.theta, rows[:20], rows[20:], weight[:20, 20:]),
        ]
        for rows, weight in ((moved, W), (X, apart))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # Rounding of 2^34 lengths.


def test_rows_weighed_by_their_errors_as_the_student_model_weighs_them():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(60, 2)), rng.normal(size=(12, 2))
    y = np.sin(X[:, :1]) + 0.1 * rng.standard_t(2, size=(60, 1))
    kernel = RBF(1.0) + WhiteKernel(0.05)
    covariance, theta = KernelCovariance(kernel), kernel.theta
    own = np.zeros(60)
    plain = SparseGP(covariance, None, Z, "vfe", 1e-10)
    sample = student_weighed(plain, theta, Sample(X, y, own, own + 1), 4.0)
    model = StudentSparseGP(covariance, None, Z, "vfe", 1e-10, df=4.0)
    batch = Batch(X, y, own + 1, own)
    block = plain.statistics(theta[None], None, batch)
    for _ in range(3):
        block = model.statistics(theta[None], block, batch)
    noise = 0.05 * (sample.noise_factor - 1.0)
    precision = plain.statistics(theta[None], None, batch._replace(noise=noise))
    np.testing.assert_allclose(block[0, :-1], precision[0, :-1], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_student_noise_is_refined_too():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (1500, 1))
    y = np.sin(8.0 * X[:, 0]) + 0.1 * rng.standard_t(2, size=1500)
    few, many = (
        SparseGPRegressorPMD(
            n_subset=40, n_refine=n, inducing_init=np.linspace(0.0, 10.0, 150)[:, None],
            likelihood="student_t", random_state=0,
        ).fit(X, y)
        for n in (0, 1500)
    )  # fmt: skip
    gain = many.log_marginal_likelihood_value_ - few.log_marginal_likelihood_value_
    assert gain > 5.0


def test_the_search_on_some_rows_goes_on_with_all(monkeypatch):
    monkeypatch.setattr(_hyperparameters, "_SEARCH_ROWS", 40)
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (400, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(400)
    kernel = RBF(1.0, (0.01, 100.0)) + WhiteKernel(0.1)
    params = {"n_refine": 0, "normalize_y": False, "random_state": 0}
    exact = GaussianProcessRegressor(kernel).fit(X, y)
    best = exact.log_marginal_likelihood_value_
    found, on_some = (
        exact.log_marginal_likelihood(
            SparseGPRegressorPMD(kernel, n_subset=n, **params).fit(X, y).kernel_.theta
        )
        for n in (400, 40)
    )
    assert found > best - 0.01 > on_some


def test_a_fit_without_noise_is_left():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (300, 1))
    y = np.sin(X[:, :1]) + 0.5 * rng.standard_normal((300, 1))
    covariance = KernelCovariance(RBF(0.05, (0.01, 10.0)) + WhiteKernel(1e-6, (1e-6, 10.0)))
    sample = Sample(X, y, np.zeros(300), np.ones(300))
    starts = with_other_noise(covariance, covariance.kernel.theta, sample)
    model = SparseGP(covariance, None, X[:40], "fitc", 1e-8)
    theta = best_of(lambda one: sparse_evidence(model, one, sample)[0], starts)
    # The variance of y is 0.75, and the shares are 0.01, 0.03, 0.1 and 0.3.
    assert 0.05 < np.exp(theta[-1]) < 0.3
