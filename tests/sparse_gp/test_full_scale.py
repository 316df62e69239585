"""Inducing inputs and neighbours together: exact with all of either, else against brute force."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd import SparseGPRegressorPMD
from skpmd.sparse_gp._vecchia_fit import n_beside
from tests.sparse_gp.test_vecchia import KERNEL, SHAPES, assert_exact, problem

KERNELS = {name: SHAPES[name] for name in ("rbf", "matern12", "matern32")}


def process(kernel=KERNEL, **params):
    usual = {"approximation": "full_scale", "n_inducing": 15, "n_neighbors": 6, "random_state": 0}
    params = {"optimizer": None, "normalize_y": False, "jitter": 1e-10, **usual, **params}
    return SparseGPRegressorPMD(kernel, **params)


@pytest.mark.parametrize(
    ("n_rows", "n_particles", "expected"),
    [(1500, 1, 1000), (7000, 1, 2800), (9000, 1, 3000), (40_000, 1, 838), (40_000, 4, 209),
     (500_000, 1, 100)],
)  # fmt: skip
def test_number_of_inducing_inputs(n_rows, n_particles, expected):
    """Two fifths of the rows, fewer where n M numbers would be more than 2^25, and 100 at least."""
    assert n_beside(n_rows, n_particles) == expected


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("all_of", [{"n_neighbors": 140}, {"n_inducing": 140}])
def test_all_neighbours_or_all_inducing_inputs_are_the_exact_process(name, all_of):
    """By value and by prediction, also where rows have copies with other targets."""
    X, y = problem(copies=20)
    gp = process(KERNELS[name], **all_of).fit(X, y)
    assert_exact(gp, KERNELS[name], X, y, atol=1e-6, rtol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_fewer_of_both_against_dense_matrices(name):
    """Evidence and predictions of distinct rows with noise of their own, two targets."""
    X, y = problem(60)
    Y = np.column_stack([y, np.cos(X[:, 0])])
    at = problem(7, seed=1)[0]
    gp = process(KERNELS[name]).fit(X, Y)
    model, theta = gp._state.model, gp._state.theta
    rows, Z, covariance = model.sites, model.inducing, model.covariance

    def cross(A, B):
        return covariance.cross(theta, A, B)

    whole = np.linalg.cholesky(cross(Z, Z) + 1e-10 * covariance.term(theta).amplitude * np.eye(15))
    V, new = (np.linalg.solve(whole, cross(Z, one)).T for one in (rows.X, at))
    R = cross(rows.X, rows.X) - V @ V.T
    noise, scale = 0.05, covariance.term(theta).length_scale

    def regression(r, r_own, near):
        b = np.linalg.solve(R[np.ix_(near, near)] + noise * np.eye(len(near)), r[near])
        return b, r_own - b @ r[near]

    F, T, d = V.copy(), rows.y.copy(), np.empty(60)
    for i in range(60):
        near = np.argsort((((rows.X[:i] - rows.X[i]) / scale) ** 2).sum(axis=1))[:6]
        b, d[i] = regression(R[i], R[i, i], near)
        F[i], T[i] = V[i] - b @ V[near], rows.y[i] - b @ rows.y[near]
    evidence = multivariate_normal(np.zeros(60), F @ F.T + np.diag(d + noise)).logpdf(T.T).sum()
    assert_allclose(gp.log_marginal_likelihood_value_, evidence, rtol=1e-9)
    precision = np.eye(15) + F.T @ (F / (d + noise)[:, None])
    mean_v = np.linalg.solve(precision, F.T @ (T / (d + noise)[:, None]))
    means, variances = gp.predict(at, return_std=True)
    for j, x in enumerate(at):
        near = np.argsort((((rows.X - x) / scale) ** 2).sum(axis=1))[:6]
        r = cross(x[None], rows.X)[0] - V @ new[j]
        b, left = regression(r, cross(x[None], x[None])[0, 0] - new[j] @ new[j], near)
        f = new[j] - b @ V[near]
        assert_allclose(means[j], f @ mean_v + b @ rows.y[near], atol=1e-8)
        variance = left + f @ np.linalg.solve(precision, f) + noise
        assert_allclose(variances[j], np.sqrt(variance), atol=1e-8)


@pytest.mark.filterwarnings("ignore:.*hold")  # The kernel's noise is far from that of the rows.
def test_weights_are_copies_and_rows_may_have_noise_of_their_own():
    X, y = problem(80)
    weight = np.random.default_rng(2).integers(1, 4, 80)
    own = 0.1 * weight
    copies = np.repeat(np.arange(80), weight)
    one = process().fit(X, y, sample_weight=weight, noise_variance=own)
    other = process().fit(X[copies], y[copies], noise_variance=own[copies])
    assert_allclose(one.predict(X), other.predict(X), atol=1e-8)
    values = [gp.log_marginal_likelihood_value_ for gp in (one, other)]
    assert_allclose(*values, rtol=1e-9)
    plain = process().fit(X, y, sample_weight=weight)
    assert np.abs(plain.predict(X) - one.predict(X)).max() > 0.01


def test_jobs_change_nothing_and_pickles_go_on():
    X, y = problem(600)
    one, two = (process(n_jobs=n).fit(X, y) for n in (None, 2))
    assert_array_equal(one.predict(X), two.predict(X))
    again = pickle.loads(pickle.dumps(one))
    assert_array_equal(again.predict(X), one.predict(X))
    more = problem(50, seed=7)
    assert_array_equal(again.partial_fit(*more).predict(X), one.partial_fit(*more).predict(X))


def test_predictions_are_row_wise():
    X, y = problem(200)
    gp, at = process().fit(X, y), problem(20, seed=6)[0]
    assert_allclose(gp.predict(at), [gp.predict(row[None])[0] for row in at], rtol=1e-12)


def test_parts_know_all_rows():
    """The kernel is given; the order of rows and the inducing inputs depend on the parts."""
    X, y = problem(150, copies=30)
    parts = process(n_neighbors=150, total_samples=180)
    for _ in range(2):  # A second pass adds nothing.
        for some in np.array_split(np.arange(len(X)), 5):
            parts.partial_fit(X[some], y[some])
    whole = process(n_neighbors=150).fit(X, y)
    assert parts.approximation_ == "full_scale" and len(parts.inducing_) == 15
    assert_allclose(parts.predict(X), whole.predict(X), atol=1e-6)


@pytest.mark.parametrize("weighting", ["stacking", "posterior"])
def test_particles_average(weighting):
    X, y = problem(100)
    kernel = ConstantKernel(1.0) * RBF(1.0, (0.1, 10.0)) + WhiteKernel(0.1)
    params = {"n_particles": 4, "weighting": weighting, "optimizer": "fmin_l_bfgs_b"}
    gp = process(kernel, **params).fit(X, y)
    weights, at = gp.posterior_.weights, X[:4] + 0.1
    each = []
    for i in range(len(gp._state.particles.theta)):
        one = gp._state.particles.theta[i]
        each.append(gp._state.model.predict(one, gp._state.conditional(i), at)[0][:, 0])
    assert_allclose(gp.predict(at), gp._state.weights @ np.array(each), rtol=1e-10)
    assert np.isfinite(weights).all() and np.ptp(each, axis=0).max() > 1e-4


def test_refusals():
    X, y = problem(20)
    with pytest.raises(ValueError, match="approximation='full_scale' is for likelihood"):
        process(likelihood="student_t").fit(X, y)
    with pytest.raises(ValueError, match="inducing_init has shape"):
        process(inducing_init=np.zeros((3, 5))).fit(X, y)


def test_one_particle_by_default():
    X, y = problem(60)
    params = {"approximation": "full_scale", "n_inducing": 20, "random_state": 0}
    assert len(SparseGPRegressorPMD(**params).fit(X, y).posterior_.particles) == 1
    params["n_particles"] = 3
    assert len(SparseGPRegressorPMD(**params).fit(X, y).posterior_.particles) == 3
