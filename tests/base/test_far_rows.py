"""Rows far from all others: who is warned, of what, and who is not."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD, SparseGPRegressorPMD
from skpmd._base.utils import sentinels, warn_of_far_values

PROCESS = SparseGPRegressorPMD(
    optimizer=None, alpha=0.5, approximation="fitc", n_particles=1, random_state=0
)


def line(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # Of the noise.
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("value, share", [(-999.0, 0.1), (1e20, 0.1), (1e5, 0.0)])
@pytest.mark.parametrize(
    "model, remedy",
    [
        (BayesianGLMRegressorPMD(random_state=0), "family='student_t'"),
        (PROCESS, "likelihood='student_t'"),
    ],
)
def test_targets_far_from_all_others_are_warned_of(model, remedy, value, share, is_stream):
    """One of them makes predictions at all other rows worse than those of no model."""
    X, y = line()
    fit = model.partial_fit if is_stream else model.fit
    fit(X, y)
    y[np.random.default_rng(1).random(len(y)) < share] = value
    y[0] = value
    said = r"y is -\d.* to \d.* in 1\d\d of 200 rows, and " + f"{value:g} in ".replace("+", r"\+")
    with pytest.warns(UserWarning, match=rf"far from all others turn the fit: {said}.*{remedy}"):
        fit(X, y)
    weight = (np.abs(y) < 100.0).astype(float)
    model.fit(X, y, sample_weight=weight)  # Rows without weight are not there.


def test_models_for_outliers_are_warned_of_what_may_stand_for_missing_alone():
    X, y = line()
    model = BayesianGLMRegressorPMD("student_t", random_state=0)
    y[0] = 1e5
    assert model.fit(X, y).coef_ == pytest.approx([1.0, -1.0], abs=0.15)  # Three deviations.
    y[:20] = -999.0
    with pytest.warns(UserWarning, match=r"and -999 in 20\. .*leave these rows out.$"):
        model.fit(X, y)


def test_counts_and_several_targets():
    X, y = line()
    counts = np.random.default_rng(0).poisson(3.0, len(y))
    model = BayesianGLMRegressorPMD("poisson", random_state=0).fit(X, counts)
    counts[0] = 10_000
    said = r"y is 0 to \d* in 199 of 200 rows, and 10000 in 1\. .*family='negative_binomial'"
    with pytest.warns(UserWarning, match=said):
        model.fit(X, counts)
    with pytest.warns(UserWarning, match="10000 in 1. Correct these rows or leave them out.$"):
        BayesianGLMRegressorPMD("negative_binomial", random_state=0).fit(X, counts)
    both = np.c_[y, np.where(np.arange(len(y)) < 9, 9999.0, y)]
    with pytest.warns(UserWarning, match=r"y\[:, 1\] is .* in 191 of 200 rows, and 9999 in 9\."):
        PROCESS.fit(X, both)


def test_targets_of_everyday_shapes_are_quiet():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=1000)
    for y in (
        normal, np.exp(2.0 * normal), normal * (normal > 1.0), np.round(normal), 1e9 + normal,
        rng.standard_t(2.0, 1000), rng.poisson(0.1, 1000), rng.integers(0, 2, 1000) * 1e6,
        np.ones(1000), normal[:3], load_diabetes(return_X_y=True)[1], 1e300 * normal,
    ):  # fmt: skip
        warn_of_far_values("y", np.asarray(y, dtype=np.float64), "something else")


def test_columns_of_everyday_shapes_are_quiet():
    """Columns of a spline that few rows reach are about these, and so are rare dummies."""
    X, y = load_breast_cancer(return_X_y=True)
    BayesianLogisticRegressionPMD(random_state=0).fit(X[:, :10], y)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    spline = SplineTransformer().fit_transform(X)
    own = [spline, np.exp(2.0 * X), (rng.random((2000, 4)) < [0.5, 0.1, 0.01, 0.001]).astype(float)]
    for columns in own:
        BayesianLogisticRegressionPMD(random_state=0).fit(columns, X[:, 0] > rng.normal(size=2000))


def test_a_number_that_was_scaled_is_not_given_as_one_to_impute():
    X, y = line()
    X[:30, 0] = -999.0
    model = make_pipeline(StandardScaler(), BayesianGLMRegressorPMD(random_state=0))
    with pytest.warns(UserWarning, match=r"missing_values=\.\.\., .* before what has scaled it"):
        model.fit(X, y)


def test_sentinels_of_the_largest_and_smallest_numbers():
    ends = np.r_[np.full(30, 1e308), np.full(30, -1e308), np.arange(20.0)]
    small = np.r_[np.full(30, 1e-300), 1e-305 * np.arange(30)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(sentinels(ends[:, None])[0], [-1e308, 1e308])
        np.testing.assert_array_equal(sentinels(small[:, None])[0], [1e-300])
        for column in (np.zeros(50), np.full(50, 1e308), np.zeros(3), np.zeros(50, dtype=bool)):
            assert sentinels(column[:, None]) == {}
        assert sentinels(np.zeros((50, 0))) == {}


@pytest.mark.parametrize("other", [40.0, 200.0, 1000.0, 3000.0])
def test_one_far_row_does_not_hide_what_others_share(other):
    column = np.random.default_rng(0).normal(size=300)
    column[:60], column[60:70], column[70] = -999.0, -99.0, other
    np.testing.assert_array_equal(sentinels(column[:, None])[0], [-999.0, -99.0])


def test_few_rows_of_many_and_columns_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    X[7, 1] = 1e5  # Not among the rows that are looked at.
    with pytest.warns(UserWarning, match=r"x1 is .* in 2000 of 2000 rows, and the deviation of"):
        BayesianGLMRegressorPMD(random_state=0).fit(X, X[:, 0] + rng.normal(size=20_000))
    X = np.c_[rng.random((200, 20)) < 0.05, 40.0 + 15.0 * rng.normal(size=200)].astype(float)
    X[:40, -1] = -99.0
    with pytest.warns(UserWarning, match=r"x20 is .* and -99 in 40\."):
        BayesianGLMRegressorPMD(random_state=0).fit(csr_array(X), rng.normal(size=200))


def test_later_parts_of_a_stream_are_looked_at_too():
    X, y = line(400)
    stream = BayesianGLMRegressorPMD(random_state=0).partial_fit(X[:8], y[:8])
    stream.partial_fit(X[8:200], y[8:200])
    X[200:240, 0] = -25.0
    with pytest.warns(UserWarning, match=r"x0 is .* in 160 of 200 rows, and -25 in 40\."):
        stream.partial_fit(X[200:], y[200:])


@pytest.mark.parametrize("value, is_shared", [(9999.0, True), (1e7, False)])
@pytest.mark.parametrize("role, family", [("exposure", "poisson"), ("trials", "binomial")])
def test_roles_far_from_all_others_are_warned_of(role, family, value, is_shared):
    """Of 9999 in a tenth of the exposures the effect of the column was four deviations off."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=300), rng.integers(1, 9, 300)]
    y = rng.binomial(X[:, 1].astype(int), expit(X[:, 0] - 1.0))
    model = BayesianGLMRegressorPMD(family, **{role: 1}, random_state=0).partial_fit(X, y)
    X[: 30 if is_shared else 1, 1] = value
    said = r"trials is 1 to 8" if role == "trials" else r"log\(exposure\) is 0 to 2.0"
    for fit in (model.partial_fit, model.fit):  # A later part of a stream, and all rows.
        with pytest.warns(UserWarning, match=f"{said}.* in {'30' if is_shared else '1'}\\. "):
            fit(X, y)


@pytest.mark.parametrize(
    "family, far, said",
    [
        ("gamma", 1e6, r"1e\+06 in 1\."),
        ("negative_binomial", 9999.0, r"9999 in 1\."),
        ("beta", 1e-300, r"1e-300 in 1\."),
    ],
)
def test_targets_of_families_are_far_where_these_vary_as_much(family, far, said):
    X, eta = line(300)
    rng = np.random.default_rng(0)
    y = {
        "gamma": rng.gamma(2.0, np.exp(0.5 * eta)),
        "negative_binomial": rng.poisson(np.exp(0.5 * eta) * rng.gamma(2.0, 0.5, 300)),
        "beta": rng.beta(9.0 * expit(eta / 2.0), 9.0 * expit(-eta / 2.0)),
    }[family].astype(float)
    model = BayesianGLMRegressorPMD(family, random_state=0).fit(X, y)
    y[0] = far
    with pytest.warns(UserWarning, match=rf"{said} Correct these rows or leave them out\.$"):
        model.fit(X, y)


@pytest.mark.parametrize("approximation, n", [("auto", 400), ("fitc", 600), ("vecchia", 800)])
def test_few_rows_that_make_the_noise_of_a_process_are_warned_of(approximation, n):
    """A twentieth of y moved by 10 to 40, each to a place of its own, without a gap: R2 was .2."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
    model = SparseGPRegressorPMD(
        approximation=approximation, n_inducing=40, n_particles=1, random_state=0
    )
    model.fit(X, y)
    y[: n // 20] += rng.choice([-1.0, 1.0], n // 20) * rng.uniform(10.0, 40.0, n // 20)
    with pytest.warns(UserWarning, match="these few make the noise of all.*'student_t'"):
        model.fit(X, y)
    assert any("these few" in one for one in model.diagnostics_["warnings"])
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(3.0, n)  # Everyday tails are quiet.
    model.fit(X, y)
    model.fit(X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.lognormal(size=n))
