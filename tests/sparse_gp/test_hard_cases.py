"""Data and parameters that have once led a sparse Gaussian process astray."""

import tracemalloc

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skpmd import SparseGPRegressorPMD
from skpmd.sparse_gp._covariance import SHAPES, KernelCovariance
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._evidence import maximise_evidence
from skpmd.sparse_gp._model import jittered_cholesky

WAVE = ConstantKernel(1.0, "fixed") * RBF(1.0, (0.05, 20.0)) + WhiteKernel(0.1, (1e-3, 3.0))


def wave(n, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 1))
    return X, np.sin(3.0 * X[:, 0]) + noise * rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.parametrize("rest", [0.5, 0.75])
def test_student_noise_where_most_targets_are_at_rest(rest):
    # By the median of their distances all the others would be outliers.
    X, _ = wave(400)
    signal = np.sin(2.0 * X[:, 0])
    y = np.maximum(signal - np.quantile(signal, rest), 0.0)
    y += 0.001 * np.random.default_rng(1).standard_normal(400)
    gp = SparseGPRegressorPMD(likelihood="student_t", random_state=0).fit(X, y)
    assert gp.score(X, y) > 0.999


@pytest.mark.parametrize("nu", SHAPES)
def test_short_length_scales_make_no_numbers_of_few_digits(nu):
    # Processors take them twenty times as long: one fit of thirty took twice the time of others.
    kernel = Matern(0.01, nu=nu) if np.isfinite(nu) else RBF(0.01)
    covariance, X = KernelCovariance(kernel + WhiteKernel(1e-3)), wave(300)[0]
    K = covariance.cross(covariance.kernel.theta, X, X)
    factor = jittered_cholesky(K, 1e-6)
    whitened = np.linalg.solve(factor, K)
    for matrix in (K, factor, whitened):
        assert not ((matrix != 0.0) & (np.abs(matrix) < np.finfo(float).tiny)).any()
    np.testing.assert_allclose(K, covariance.kernel.k1(X), rtol=1e-8, atol=1e-35)


@pytest.mark.slow_but("params0")
@pytest.mark.parametrize("params", [{"forgetting": 1e-4}, {"total_samples": 400}])
def test_a_kernel_is_learnt_anew_whatever_becomes_of_the_past(params):
    X, y = wave(400)
    gp = SparseGPRegressorPMD(random_state=0, **params)
    for a in range(0, 400, 10):
        gp.partial_fit(X[a : a + 10], y[a : a + 10])
    low, high = gp.predict_interval(X).T
    assert gp._state.n_fitted == 320
    assert gp.score(X, np.sin(3.0 * X[:, 0])) > 0.98
    assert 0.85 < np.mean((low < y) & (y < high)) < 0.95  # 3.3 standard errors of a share of 400


def test_forgotten_rows_that_are_in_memory_count_less():
    X, y = wave(30)
    params = {"optimizer": None, "normalize_y": False, "inducing_init": X[::3]}
    gp = SparseGPRegressorPMD(WAVE, forgetting=0.1, **params)
    for a in (0, 10, 20):  # the last call learns anew from all
        gp.partial_fit(X[a : a + 10], y[a : a + 10])
    weighted = SparseGPRegressorPMD(WAVE, **params)
    weighted.fit(X, y, sample_weight=0.9 ** (20 - 10 * (np.arange(30) // 10)))
    np.testing.assert_allclose(gp.predict_proba(X), weighted.predict_proba(X), rtol=1e-9)


@pytest.mark.slow
def test_a_stream_that_changes_after_its_kernel_was_learnt_warns():
    t = np.linspace(0.0, 20.0, 1500)[:, None]
    y = np.where(t[:, 0] < 10.0, 0.0, np.sin(3.0 * t[:, 0]))
    y += 0.001 * np.random.default_rng(0).standard_normal(1500)
    gp = SparseGPRegressorPMD(random_state=0, n_subset=300)
    gp.partial_fit(t[:500], y[:500]).partial_fit(t[500:700], y[500:700])
    with pytest.warns(ConvergenceWarning, match="standard deviations off their predictions"):
        gp.partial_fit(t[900:], y[900:])
    assert gp._state.stream.seen == 1300.0


@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe"])
def test_rows_without_any_noise(approximation):
    x = np.linspace(0.0, 10.0, 50)[:, None]
    params = {"approximation": approximation, "normalize_y": False}
    gp = SparseGPRegressorPMD(RBF(), alpha=0.0, optimizer=None, **params).fit(x, np.sin(x[:, 0]))
    np.testing.assert_allclose(gp.predict(x), np.sin(x[:, 0]), atol=1e-4)
    noise = np.full(50, 0.01)
    noise[3] = 0.0
    gp = SparseGPRegressorPMD(RBF(), alpha=0.0, **params)
    gp.fit(x, np.sin(x[:, 0]), noise_variance=noise)
    np.testing.assert_allclose(gp.predict(x[3:4]), np.sin(x[3]), atol=1e-3)
    assert np.isfinite(gp.log_marginal_likelihood_value_)


@pytest.mark.parametrize("level", [1e-5, 1e-4])
def test_a_search_from_where_slopes_are_steep(level):
    X, y = wave(200, noise=0.1)
    covariance = KernelCovariance(RBF(0.5) + WhiteKernel(level))
    sample, start = Sample(X, y[:, None], np.zeros(200), np.ones(200)), covariance.kernel.theta
    rng = np.random.default_rng(0)
    theta = maximise_evidence(covariance, sample, "fmin_l_bfgs_b", 0, rng, start)
    np.testing.assert_allclose(np.exp(theta), [0.66, 0.0106], rtol=0.05)  # the maximum


def test_a_kernel_at_its_bounds_warns():
    X, y = wave(100)
    kernel = RBF(1.1, (1.0, 20.0)) + WhiteKernel(0.1, "fixed")
    with pytest.warns(ConvergenceWarning, match="k1__length_scale .* lower bound, 1:"):
        SparseGPRegressorPMD(kernel, random_state=0).fit(X, y)


@pytest.mark.slow_but("1")
@pytest.mark.parametrize("seed", range(3))
def test_inducing_inputs_of_a_posterior_follow_its_best_particle(seed):
    X, y = wave(80, noise=0.1)
    order = np.argsort(X[:, 0])
    X, y = X[order], y[order]
    gp = SparseGPRegressorPMD(
        WAVE, weighting="posterior", n_particles=60, normalize_y=False, random_state=seed
    )
    with pytest.warns(ConvergenceWarning):  # few particles, drawn from the prior
        gp.partial_fit(X[:3], y[:3]).partial_fit(X[3:], y[3:])
    assert gp.score(X, y) > 0.9


@pytest.mark.parametrize("df", [2.01, 2.5, 4.0, 30.0])
def test_moments_and_draws_of_student_noise(df):
    params = {"optimizer": None, "normalize_y": False, "likelihood": "student_t", "df": df}
    gp = SparseGPRegressorPMD(RBF() + WhiteKernel(1.0), **params).fit([[0.0]], [0.0])
    predictive, std = gp.predict_proba([[50.0]]), gp.predict([[50.0]], return_std=True)[1]
    np.testing.assert_allclose(predictive.std(), std, rtol=1e-9)
    np.testing.assert_allclose(std**2, 1.0 + df / (df - 2.0), rtol=1e-9)
    draws = gp.sample_y([[50.0]], 200_000, random_state=0)[0]
    shares = [0.01, 0.1, 0.9, 0.99]
    found = np.mean(draws[:, None] < predictive.ppf(shares), axis=0)
    np.testing.assert_allclose(found, shares, atol=0.003)  # 4.5 standard errors of 0.1
    np.testing.assert_allclose(
        gp.predict_proba([[0.0]], target="f").std(), 1.0 / np.sqrt(2.0), rtol=0.3
    )


def test_parameters_changed_in_place_are_refused():
    X, y = wave(40)
    kernel = ConstantKernel(1.0) * RBF() + WhiteKernel(0.1)
    gp = SparseGPRegressorPMD(kernel, random_state=0).partial_fit(X, y)
    gp.set_params(kernel__k2__noise_level=100.0)
    with pytest.raises(ValueError, match="kernel was"):
        gp.partial_fit(X, y)
    gp.set_params(kernel__k2__noise_level=0.1, normalize_y=False)
    with pytest.raises(ValueError, match="normalize_y was True"):
        gp.partial_fit(X, y)


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_a_wrong_number_of_length_scales_is_refused(method):
    X, y = wave(20)
    gp = SparseGPRegressorPMD(RBF([1.0, 2.0, 3.0]) + WhiteKernel())
    with pytest.raises(ValueError, match="Anisotropic kernel must have the same number"):
        gp.fit(X, y) if method == "fit" else gp.predict(X)


# ------------------------------------------------------------------------- rows on many scales
def test_near_rows_keep_their_distance_beside_rows_far_away():
    """A matrix product would give a row at 1e10 a covariance of zero with itself."""
    kernel = 2.0 * RBF(1.0) + WhiteKernel(0.1)
    rows = np.array([[0.0, 0.0], [0.5, 0.0], [1e10, -1e9], [1e10, -1e9]])
    exact = kernel.k1(rows)
    covariance = KernelCovariance(kernel)
    np.testing.assert_allclose(
        covariance.cross(kernel.theta, rows, rows.copy()), exact, rtol=1e-12, atol=1e-38
    )
    model = SparseGPRegressorPMD(kernel=kernel, optimizer=None, n_inducing=4, random_state=0)
    model.fit(rows[:2], [1.0, 2.0]).partial_fit(rows[2:3], [3.0])
    assert np.isfinite(model.predict(rows)).all()
    assert model.predict(rows)[2] > 1.0  # The prior's mean is zero on the scale of the first two.


@pytest.mark.filterwarnings("ignore:.*given all others")  # The kernel is not fitted.
def test_another_kernel_set_after_a_fit_is_no_matter_of_predictions():
    model = SparseGPRegressorPMD(optimizer=None, random_state=0).fit(*wave(30))
    before = model.predict(wave(5)[0])
    model.set_params(kernel=np.ones(3))
    np.testing.assert_array_equal(model.predict(wave(5)[0]), before)
    with pytest.raises(ValueError, match="'kernel' parameter"):
        SparseGPRegressorPMD(kernel=np.ones(3)).predict(wave(5)[0])


@pytest.mark.filterwarnings("ignore:The 50 inducing inputs leave")
def test_a_stream_is_warned_of_where_inducing_inputs_are_few():
    """They leave twice the noise open, and a mean is four of its own sds off the exact one."""
    rng = np.random.default_rng([500, 3, 2])
    X, at = rng.uniform(-3.0, 3.0, (500, 3)), rng.uniform(-3.0, 3.0, (40, 3))
    y = np.sin(2.0 * X).sum(axis=1) + 0.3 * rng.standard_normal(500)
    kernel = 2.0 * RBF(1.6) + WhiteKernel(0.09)
    params = {"optimizer": None, "normalize_y": False, "random_state": 0}
    stream = SparseGPRegressorPMD(kernel, n_inducing=50, **params)
    for part in np.array_split(np.arange(375), 3):
        stream.partial_fit(X[part], y[part])
    with pytest.warns(ConvergenceWarning, match="Raise n_inducing"):
        stream.partial_fit(X[375:], y[375:])
    exact = SparseGPRegressorPMD(kernel, **params).fit(X, y).predict(at)
    few = stream.predict_proba(at, target="f")
    assert np.abs((few.mean() - exact) / few.std()).max() > 3.0


def test_a_stream_is_warned_of_what_it_has_left_behind():
    """Its inducing inputs have followed the rows: where the first ones were, little is known."""
    X = np.linspace(0.0, 40.0, 400)[:, None]
    y = np.sin(X[:, 0])
    kernel = RBF(1.0, "fixed") + WhiteKernel(0.01, "fixed")
    stream = SparseGPRegressorPMD(
        kernel, n_inducing=15, n_subset=100, normalize_y=False, random_state=0
    )
    stream.partial_fit(X[:100], y[:100])
    for part in (slice(100, 200), slice(200, 300), slice(300, 400)):
        with pytest.warns(ConvergenceWarning, match="Raise n_inducing"):
            stream.partial_fit(X[part], y[part])


@pytest.mark.slow_but("some")
@pytest.mark.filterwarnings("ignore:The 20 inducing inputs leave")
@pytest.mark.parametrize("weight", [None, "some"])
def test_a_large_table_is_not_copied(weight):
    """A fit and predictions take 0.3 times the bytes of X; it was 2.0 and, of a mean, 3."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400_000, 8))
    y = X[:, 0] + 0.3 * rng.standard_normal(len(X))
    weight = weight and rng.uniform(1.0, 2.0, len(X))
    kernel = RBF(3.0) + WhiteKernel(0.1)
    model = SparseGPRegressorPMD(kernel, optimizer=None, n_inducing=20, n_subset=100)
    model.fit(X[:200], y[:200]).predict(X[:200])  # Code is loaded, which takes memory.
    for call in (lambda: model.fit(X, y, weight), lambda: model.predict(X)):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < (0.3 if weight is None else 0.4) * X.nbytes
