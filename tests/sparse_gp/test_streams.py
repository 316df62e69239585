"""Sparse Gaussian processes in streams: inducing inputs that move, outliers, failed calls."""

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd import SparseGPRegressorPMD
from skpmd.engine.model import Batch
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._model import SparseGP
from tests.tools.interrupts import interrupt

KERNEL = ConstantKernel(1.0) * RBF(0.7) + WhiteKernel(0.01)
FIXED = {"optimizer": None, "normalize_y": False}


def wave(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 10.0, (n, 1)), axis=0)
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def learnt(Z, approximation="fitc", kernel=KERNEL):
    X, y = wave()
    model = SparseGP(KernelCovariance(kernel), None, Z, approximation, 1e-10)
    batch = Batch(X, y[:, None], np.ones(len(y)), np.zeros(len(y)))
    theta = kernel.theta[None]
    return model, theta, model.statistics(theta, None, batch)


@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe"])
def test_more_inducing_inputs_change_nothing_that_is_known(approximation):
    Z = np.linspace(0.0, 10.0, 12)[:, None]
    model, theta, block = learnt(Z, approximation)
    more, moved = model.onto(np.vstack([Z, Z + 0.37]), theta, block)
    X = np.linspace(-1.0, 11.0, 50)[:, None]
    before = model.predict(theta[0], model.conditional(theta[0], block[0]), X)
    after = more.predict(theta[0], more.conditional(theta[0], moved[0]), X)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)  # jitter of 1e-10, conditioned by 1e4
    np.testing.assert_allclose(more.log_partition(moved), model.log_partition(block), atol=1e-5)


def test_other_inducing_inputs_are_the_marginal_of_the_joint_posterior():
    Z, other = np.linspace(0.0, 10.0, 9)[:, None], np.linspace(0.4, 9.0, 7)[:, None]
    model, theta, block = learnt(Z, kernel=ConstantKernel(1.0) * RBF(1.5) + WhiteKernel(0.3))
    moved, out = model.onto(other, theta, block)
    both = np.vstack([Z, other])
    K = model.covariance.cross(theta[0], both, both) + 1e-10 * np.eye(16)
    (S,), (s,), (rest,) = model._parts(block)
    S = np.tril(S) + np.tril(S, -1).T
    L = np.linalg.cholesky(K[:9, :9])
    on_u = np.linalg.solve(L.T, np.linalg.solve(L.T, S.T).T)  # L^-T S L^-1
    precision = np.linalg.inv(K)
    precision[:9, :9] += on_u
    linear = np.zeros(16)
    linear[:9] = np.linalg.solve(L.T, s[:, 0])
    mean, cov = np.linalg.solve(precision, linear), np.linalg.inv(precision)
    conditional = moved.conditional(theta[0], out[0])
    found, spread = moved.predict(theta[0], conditional, other, joint=True)
    np.testing.assert_allclose(found[:, 0], mean[9:], atol=1e-6)
    np.testing.assert_allclose(spread, cov[9:, 9:], atol=1e-6)
    sign, log_det = np.linalg.slogdet(K @ precision)
    exact = rest + 0.5 * linear @ mean - 0.5 * log_det
    assert sign > 0 and abs(moved.log_partition(out)[0] - exact) < 1e-5


@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe"])
def test_inducing_inputs_follow_a_stream(approximation):
    X, y = wave()
    exact = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, y)
    stream = SparseGPRegressorPMD(
        KERNEL, n_inducing=100, approximation=approximation, n_subset=30, **FIXED
    )
    for rows in np.array_split(np.arange(300), 10):  # from left to right
        stream.partial_fit(X[rows], y[rows])
    assert 30 <= len(stream.inducing_) <= 100
    Xs = np.linspace(0.0, 10.0, 200)[:, None]
    mean, std = exact.predict(Xs, return_std=True)
    found, spread = stream.predict(Xs, return_std=True)
    # What is left open of a row is a tenth of the noise: a few hundredths of an sd.
    assert np.abs((found - mean) / std).max() < 0.15
    assert np.abs(spread / std - 1.0).max() < 0.05


@pytest.mark.filterwarnings("ignore:The 20 inducing inputs leave")
def test_given_inducing_inputs_stay():
    X, y = wave()
    stream = SparseGPRegressorPMD(KERNEL, inducing_init=X[:20], **FIXED)
    for rows in np.array_split(np.arange(300), 3):
        stream.partial_fit(X[rows], y[rows])
    np.testing.assert_array_equal(stream.inducing_, X[:20])


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_a_failed_call_changes_nothing(likelihood, monkeypatch):
    X, y = wave()
    stream = SparseGPRegressorPMD(
        KERNEL, n_inducing=40, likelihood=likelihood, n_subset=50, **FIXED
    )
    stream.partial_fit(X[:100], y[:100])
    before = np.asarray(stream.predict_proba(X))
    for bad in ((X[100:], np.full(200, np.nan)), (np.hstack([X, X]), y)):
        with pytest.raises(ValueError):
            stream.partial_fit(*bad)
    with monkeypatch.context() as patch:

        def broken(self, theta, block, batch):
            raise MemoryError

        patch.setattr(SparseGP, "statistics", broken)
        with pytest.raises(MemoryError):
            stream.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(np.asarray(stream.predict_proba(X)), before)
    passes = stream.n_iter_
    stream.partial_fit(X[100:], y[100:])
    assert stream.n_iter_ > passes


def test_student_noise_with_many_degrees_is_normal_noise():
    X, y = wave(60)
    normal = SparseGPRegressorPMD(KERNEL, **FIXED).fit(X, y)
    student = SparseGPRegressorPMD(KERNEL, likelihood="student_t", df=1e6, **FIXED).fit(X, y)
    assert student.n_iter_ <= 3
    theirs, ours = normal.predict_proba(X), student.predict_proba(X)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), atol=1e-4)
    np.testing.assert_allclose(ours.std(), theirs.std(), rtol=1e-4)
    np.testing.assert_allclose(
        student.log_marginal_likelihood_value_, normal.log_marginal_likelihood_value_, atol=0.01
    )


@pytest.mark.slow
def test_outliers_do_not_move_a_process_with_student_noise():
    X, y = wave()
    dirty, truth = y.copy(), np.sin(2.0 * X[:, 0])
    rng = np.random.default_rng(1)
    dirty[rng.permutation(300)[:30]] += 5.0
    errors = {}
    for likelihood in ("gaussian", "student_t"):
        gp = SparseGPRegressorPMD(likelihood=likelihood, n_restarts_optimizer=0, random_state=0)
        f = gp.fit(X, dirty).predict_proba(X, target="f")
        errors[likelihood] = np.sqrt(np.mean((f.mean() - truth) ** 2))
    assert errors["student_t"] < 0.06 < 0.3 < errors["gaussian"]


def test_the_bound_of_student_noise_is_the_best_there_is():
    """One row: everything is an integral on a line."""
    kernel = ConstantKernel(4.0, "fixed") * RBF(1.0, "fixed") + WhiteKernel(0.25, "fixed")
    bounds = []
    for passes in range(1, 8):
        gp = SparseGPRegressorPMD(
            kernel, likelihood="student_t", df=3.0, max_iter=passes, tol=0.0, alpha=0.0, **FIXED
        )
        bounds.append(gp.fit([[0.0]], [3.0]).log_marginal_likelihood_value_)
    f = np.linspace(-10.0, 10.0, 401)
    rate = np.exp(np.linspace(-12.0, 5.0, 1001))
    prior = stats.gamma(1.5, scale=1.0 / 1.5)

    given = stats.norm.logpdf(3.0, f[:, None], 0.5 / np.sqrt(rate))

    def over(values, x):
        return np.sum(0.5 * (values[..., 1:] + values[..., :-1]) * np.diff(x), axis=-1)

    def bound(log_b):
        q = stats.gamma(2.0, scale=np.exp(-log_b))
        weight = q.pdf(rate)
        divergence = over(weight * (q.logpdf(rate) - prior.logpdf(rate)), rate)
        expected = over(weight * given, rate)
        return np.log(over(stats.norm.pdf(f, scale=2.0) * np.exp(expected), f)) - divergence

    best = max(bound(log_b) for log_b in np.linspace(-1.0, 3.0, 81))
    exact = np.log(over(stats.norm.pdf(f, scale=2.0) * stats.t.pdf(3.0 - f, 3.0, scale=0.5), f))
    assert (np.diff(bounds) > -1e-9).all()
    assert abs(bounds[-1] - best) < 1e-3 and bounds[-1] < exact


@pytest.mark.slow
def test_the_kernel_of_a_stream_is_moved_on_by_many_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 20.0, (800, 1))
    y = np.sin(4.0 * X[:, 0]) + 0.3 * rng.standard_normal(800)
    params = {
        "n_subset": 50, "n_refine": 600, "n_inducing": 80, "n_particles": 1, "random_state": 0
    }  # fmt: skip
    gp, learned = SparseGPRegressorPMD(**params), []
    for start in range(0, 800, 40):
        gp.partial_fit(X[start : start + 40], y[start : start + 40])
        learned.append(gp._state.n_fitted)
    assert sorted(set(learned)) == [40, 80, 320]
    assert gp._state.retained is not None
    gp = SparseGPRegressorPMD(**params)
    for part in (slice(0, 200), slice(200, 800)):
        gp.partial_fit(X[part], y[part])
    assert gp._state.retained is None
    whole = SparseGPRegressorPMD(**params).fit(X, y)
    np.testing.assert_allclose(gp.predict(X[:9]), whole.predict(X[:9]), rtol=1e-9)


@pytest.mark.slow_but("1-0")
@pytest.mark.parametrize("n_particles, seed", [(1, 0), (2, 0), (2, 4), (2, 8)])
def test_student_noise_in_parts(n_particles, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (300, 1))
    truth = np.sin(2.0 * X[:, 0])
    y = truth + 0.1 * rng.standard_normal(300)
    y[rng.permutation(300)[:30]] += 5.0
    params = {"likelihood": "student_t", "n_particles": n_particles, "random_state": 0}
    one = SparseGPRegressorPMD(**params).fit(X, y)
    other = SparseGPRegressorPMD(**params).partial_fit(X, y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert np.sqrt(np.mean((one.predict(X) - truth) ** 2)) < 0.06
    kernel = one.kernel_
    parts = SparseGPRegressorPMD(kernel, optimizer=None, n_subset=50, **params)
    for rows in np.array_split(np.arange(300), 4):
        parts.partial_fit(X[rows], y[rows])
    assert np.sqrt(np.mean((parts.predict(X) - truth) ** 2)) < 0.1


@pytest.mark.slow_but("params1")
@pytest.mark.parametrize("params", [{"forgetting": 0.01}, {"total_samples": 100}])
def test_parameters_of_streams_do_not_touch_a_fit(params):
    X, y = wave(200)
    common = {"n_particles": 2, "n_restarts_optimizer": 0, "random_state": 0}
    one, other = (SparseGPRegressorPMD(**common, **more).fit(X, y) for more in (params, {}))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_ctrl_c_between_iterations_of_student_noise_leaves_the_estimator(method, monkeypatch):
    X, y = wave(60)
    gp = SparseGPRegressorPMD(KERNEL, likelihood="student_t", **FIXED).fit(X, y)
    before = np.asarray(gp.predict_proba(X))
    interrupt(monkeypatch, SparseGP, "statistics", 2)
    with pytest.raises(KeyboardInterrupt):
        getattr(gp, method)(X, y)
    np.testing.assert_array_equal(np.asarray(gp.predict_proba(X)), before)


@pytest.mark.filterwarnings("ignore:The 10 inducing inputs leave")
def test_a_stream_of_student_noise_weighs_new_rows_by_what_is_known():
    """One iteration on new rows: their errors are those of q(u) from the rows before."""
    X, y = wave(60)
    gp = SparseGPRegressorPMD(
        KERNEL, likelihood="student_t", inducing_init=X[::6], n_subset=20, max_iter=1, **FIXED
    )
    gp.partial_fit(X[:40], y[:40])
    state = gp._state
    model, particles = state.model, state.particles
    gp.partial_fit(X[40:], y[40:])
    batch = Batch(X[40:], y[40:, None], np.ones(20), np.full(20, 1e-10))
    added = model.statistics(particles.theta, particles.block, batch)
    np.testing.assert_allclose(gp._state.particles.block, particles.block + added)
    assert gp.n_iter_ == 2


def test_history_and_diagnostics_are_there_without_a_posterior():
    X, y = wave(60)
    gp = SparseGPRegressorPMD(KERNEL, likelihood="student_t", **FIXED)
    with pytest.raises(AttributeError, match="after fit"):
        _ = gp.history_
    gp.fit(X, y)
    assert len(gp.history_["step_size"]) == gp.n_iter_ > 1
    assert gp.diagnostics_["ess"] == 1.0 and not gp.diagnostics_["warnings"]
    with pytest.raises(AttributeError, match="for predictions"):
        _ = gp.log_evidence_
