"""Columns of categories in Gaussian processes: the kernel, its codes, and frames that hold them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import skpmd
from skpmd import SparseGPClassifierPMD, SparseGPRegressorPMD
from skpmd.sparse_gp import MixedKernel
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._evidence import log_marginal_likelihood
from skpmd.sparse_gp._vecchia import Sites, VecchiaGP

CATEGORICAL = (2, 6)  # Columns of `coded`.
SCALES = [1.0, 0.5, 0.8, 1.0, 2.0, 3.0, 1.4]


def coded(n=60, seed=0):
    """Rows of five columns of numbers and two of codes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(SCALES)))
    X[:, CATEGORICAL] = rng.integers(0, [4, 9], (n, 2))
    return X


def one_hot(X, scales=SCALES):
    """The same rows with an axis for each category, in length scales: distances are those asked."""
    axes = [X[:, [j]] / scales[j] for j in range(X.shape[1]) if j not in CATEGORICAL]
    for j in CATEGORICAL:
        axes.append((X[:, [j]] == np.arange(9)) / (np.sqrt(2.0) * scales[j]))
    return np.concatenate(axes, axis=1)


def kernel(nu=np.inf):
    return ConstantKernel(2.0) * MixedKernel(SCALES, nu=nu, categorical=CATEGORICAL) + WhiteKernel(
        0.1
    )


def frame(n, seed=0):
    """Three columns, two of words, and a target in which each word has a function of its own."""
    rng = np.random.default_rng(seed)
    kind, wave = rng.integers(0, 6, n), rng.integers(0, 3, n)
    a = rng.uniform(0.0, 6.0, n)
    y = np.array([0.0, 1.5, -2.0, 0.4, 3.0, -1.0])[kind] + np.sin(a + wave)
    words = {
        "kind": np.array(list("abcdef"))[kind],
        "a": a,
        "wave": np.array(["x", "y", "z"])[wave],
    }
    table = pd.DataFrame(words).astype({"kind": "category", "wave": "category"})
    return table, y + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_kernel_is_that_of_an_axis_for_each_category(nu):
    X, mixed = coded(), kernel(nu)
    exact = 2.0 * Matern(1.0, nu=nu)(one_hot(X))
    covariance = KernelCovariance(mixed)
    assert covariance.is_fast
    for found in (mixed(X) - 0.1 * np.eye(len(X)), covariance.cross(mixed.theta, X, X)):
        assert_allclose(found, exact, atol=1e-12)
    assert_allclose(mixed(X[:7], X[9:]), exact[:7, 9:], atol=1e-12)
    # Of a kernel that Python differentiates: to the error of differences, 1e-5 squared.
    gradient = mixed(X, eval_gradient=True)[1]
    for k, step in enumerate(1e-5 * np.eye(len(mixed.theta))):
        ends = [mixed.clone_with_theta(mixed.theta + sign * step)(X) for sign in (1.0, -1.0)]
        assert_allclose(gradient[:, :, k], (ends[0] - ends[1]) / 2e-5, atol=1e-5)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_likelihood_with_all_rows_before_is_exact(nu):
    X, n = coded(), 60
    y = np.random.default_rng(1).standard_normal((n, 1))
    covariance, ones, zeros = KernelCovariance(kernel(nu)), np.ones(n), np.zeros(n)
    theta = covariance.kernel.theta
    model = VecchiaGP(covariance, None, Sites(X, y, zeros, ones, zeros), np.ones(7), n)
    exact, slope = log_marginal_likelihood(covariance, theta, Sample(X, y, zeros, ones))
    value, found = model.gradient(theta, np.arange(n), ones)
    assert_allclose(value, exact, rtol=1e-9)
    assert_allclose(found, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("approximation", ["fitc", "vecchia", "full_scale"])
def test_predictions_are_those_of_the_exact_process(approximation):
    X, X_new = coded(80), coded(20, seed=1)
    y = np.random.default_rng(2).standard_normal(80)
    exact = GaussianProcessRegressor(
        ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.1), optimizer=None
    )
    mean, sd = exact.fit(one_hot(X), y).predict(one_hot(X_new), return_std=True)
    ours = SparseGPRegressorPMD(
        kernel(), categorical_features=list(CATEGORICAL), optimizer=None, normalize_y=False,
        approximation=approximation, n_neighbors=80 if approximation != "fitc" else "auto",
        random_state=0,
    ).fit(X, y)  # fmt: skip
    found = ours.predict(X_new, return_std=True)
    assert_allclose(found[0], mean, atol=1e-7)
    assert_allclose(found[1], sd, atol=1e-7)


def test_neighbours_are_of_the_same_categories():
    # Where categories say all, predictions need rows of theirs, whatever numbers lie nearer.
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 200, 3000), rng.uniform(0.0, 1.0, 3000)]).astype(float)
    y = rng.standard_normal(200)[X[:, 0].astype(int)]
    known = ConstantKernel(1.0) * MixedKernel([0.3, 10.0], categorical=[0]) + WhiteKernel(1e-4)
    gp = SparseGPRegressorPMD(
        known, categorical_features=[0], optimizer=None, approximation="vecchia", random_state=0
    ).fit(X[:2500], y[:2500])
    assert np.abs(gp.predict(X[2500:]) - y[2500:]).max() < 0.1


def test_categories_of_a_frame_are_found():
    X, y = frame(300)
    X_new, y_new = frame(500, seed=1)
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
    assert "(categories)" in str(gp.kernel_)
    assert gp.feature_names_in_.tolist() == ["kind", "a", "wave"]
    # Noise of .1 is .06 of the sd of y: R2 of .9963 at best.
    assert gp.score(X_new, y_new) > 0.99
    assert_allclose(gp.predict(X_new[100:103]), gp.predict(X_new)[100:103], rtol=1e-8)
    same = pickle.loads(pickle.dumps(gp))
    assert_array_equal(same.predict(X_new), gp.predict(X_new))


def test_codes_and_names_of_categories_do_not_matter():
    X, y = frame(150)
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0)
    expected = gp.fit(X, y).predict(X)
    other = X.assign(kind=X["kind"].cat.rename_categories(str.upper).cat.as_unordered())
    assert_array_equal(clone(gp).fit(other, y).predict(other), expected)
    array = clone(gp).set_params(categorical_features=[0, 2])
    assert_array_equal(array.fit(X.to_numpy(dtype=object), y).predict(X.to_numpy()), expected)
    mask = clone(gp).set_params(categorical_features=[True, False, True])
    assert_array_equal(mask.fit(X.to_numpy(dtype=object), y).predict(X.to_numpy()), expected)
    named = clone(gp).set_params(categorical_features=["kind", "wave"])
    words = X.astype({"kind": object, "wave": object})
    assert_array_equal(named.fit(words, y).predict(words), expected)


def test_tables_of_any_kind():
    # Lists, numbers for codes, and names of columns that are no words.
    X = np.column_stack([np.arange(40) % 3, np.linspace(0.0, 4.0, 40)])
    y = np.sin(X[:, 1]) + X[:, 0] ** 2
    gp = SparseGPRegressorPMD(categorical_features=[0], n_particles=1, random_state=0)
    expected = gp.fit(X, y).predict(X)
    for table in (
        X.tolist(),
        X.astype(np.float32),
        pd.DataFrame(X),
        pd.DataFrame(X.astype(object)),
    ):
        assert_allclose(clone(gp).fit(table, y).predict(table), expected, atol=1e-6)
    assert_array_equal(X[:, 0], np.arange(40) % 3)


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    X, y = frame(150)
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0)
    expected = gp.fit(X, y).predict(X)
    columns = {name: X[name].to_numpy().tolist() for name in X}
    X = polars.DataFrame(columns).with_columns(
        polars.col("kind").cast(polars.Categorical), polars.col("wave").cast(polars.Enum("xyz"))
    )
    assert_array_equal(clone(gp).fit(X, y).predict(X), expected)


def test_new_and_missing_categories():
    X, y = frame(300)
    gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
    new = X.head(4).assign(kind=pd.Categorical(["new", "new", "other", None]))
    sd = gp.predict(new, return_std=True)[1]
    assert (sd > 3.0 * gp.predict(X.head(4), return_std=True)[1]).all()
    # Rows of one new category are alike, and those of another are not.
    same = new.assign(a=1.0, wave="x")
    covariance = gp.predict(same, return_cov=True)[1]
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert correlation[0, 1] > 0.9 > correlation[0, 2]
    # What is missing is a category where the fit has seen it.
    gaps = X.assign(kind=X["kind"].where(X["kind"] != "c"))
    with_gaps = clone(gp).fit(gaps, y)
    assert_allclose(with_gaps.predict(gaps), gp.predict(X), atol=1e-6)


def test_streams_learn_new_categories():
    X, y = frame(300)
    order = np.argsort(X["kind"].cat.codes, kind="stable")  # Later parts have new ones.
    X, y = X.iloc[order], y[order]
    parts = [slice(0, 150), slice(150, 300)]
    gp = SparseGPRegressorPMD(random_state=0)
    for part in parts:
        gp.partial_fit(X.iloc[part], y[part])
    assert gp.score(X, y) > 0.99
    before = gp.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        gp.partial_fit(X.assign(a=np.nan, kind=pd.Categorical(["new"] * 300)), y)
    assert_array_equal(gp.predict(X), before)
    assert "new" not in gp._state.categories.codes[0]


def test_classifier(tmp_path):
    pytest.importorskip("skops")
    X, y = frame(150)
    X_new, y_new = frame(400, seed=1)
    model = SparseGPClassifierPMD(n_restarts_optimizer=0, random_state=0).fit(X, y > 0.5)
    assert model.score(X_new, y_new > 0.5) > 0.9
    skpmd.save(model, tmp_path / "model")
    same = skpmd.load(tmp_path / "model")
    assert_array_equal(same.predict_proba(X_new), model.predict_proba(X_new))


def test_what_does_not_fit_is_named():
    X, y = frame(40)
    with pytest.raises(ValueError, match=r"categorical_features=\['kinds'\] does not name columns"):
        SparseGPRegressorPMD(categorical_features=["kinds"]).fit(X, y)
    with pytest.raises(ValueError, match=r"categorical_features=\[5\] does not name columns"):
        SparseGPRegressorPMD(categorical_features=[5]).fit(X, y)
    with pytest.raises(
        ValueError, match=r"takes numbers, and X has the columns \['kind', 'wave'\]"
    ):
        SparseGPRegressorPMD(RBF()).fit(X, y)
    with pytest.raises(ValueError, match=r"has \[2, 6\] as categories, and X has no such columns"):
        SparseGPRegressorPMD(kernel()).fit(coded(), np.arange(60.0))
    with pytest.raises(ValueError, match="inducing_init='kmeans' takes means"):
        SparseGPRegressorPMD(inducing_init="kmeans", n_inducing=10).fit(X, y)
    with pytest.raises(ValueError, match="'kind'.*astype"):
        SparseGPRegressorPMD().fit(X.astype({"kind": object}), y)
    with pytest.raises(ValueError, match="length_scale has 7 numbers, and X has 6 columns"):
        kernel()(coded()[:, :6])


def test_short_length_scales_of_categories_are_no_fault():
    # Each category has a function of its own, which is what a short length scale says.
    X, _ = frame(300)
    rng = np.random.default_rng(0)
    shift = 3.0 * X["kind"].cat.codes.to_numpy()
    y = np.sin(X["a"].to_numpy() * (1.0 + 0.7 * shift)) + 0.05 * rng.standard_normal(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X[["kind", "a"]], y)
