"""ONNX graphs against the predictions of the estimators that they are made of."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.onnx import register_converters
from tests.tools.exact_models import NORMAL_MEAN

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = [
    # Of the libraries that are tested against.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
RNG = np.random.default_rng(0)
X = 50.0 + 10.0 * RNG.standard_normal((300, 3))
Z = (X - 50.0) / 10.0
LOGITS = Z @ [1.5, -1.0, 0.0] + RNG.logistic(size=300)
TWO, THREE = (LOGITS > 0.0).astype(int), np.digitize(LOGITS, [-1.0, 1.0])
WORDS = np.array(["no", "perhaps", "yes"])
WAVES = np.sin(Z[:, 0]) + 0.1 * RNG.standard_normal(300)
# Single precision has 6e-8 of numbers around 1; logits differ by some of it, averages by less.
SINGLE = 2e-6


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_converters()


TABLE = {"zipmap": False}  # Probabilities as an array.


def outputs(model, X, options=None):
    """What a graph makes of rows."""
    data = skl2onnx.to_onnx(model, X[:1], options=options).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X})


def logistic(**params):
    return BayesianLogisticRegressionPMD(
        **{"n_particles": 500, "prediction_tol": 0.0, "random_state": 0, **params}
    )


@pytest.mark.parametrize("params", [{}, {"fit_intercept": False}, {"covariance_type": "diag"},
                                    {"prior": "horseshoe", "n_particles": 64}])  # fmt: skip
@pytest.mark.parametrize("y", [TWO, THREE, WORDS[THREE], WORDS[TWO], TWO > 0])
def test_probabilities_and_labels_of_logistic_regression(y, params):
    if "prior" in params and (y.dtype.kind != "i" or y.max() > 1):
        pytest.skip("one fit by moves is enough")
    model = make_pipeline(StandardScaler(), logistic(**params)).fit(X, y)
    for dtype, tolerance in ((np.float32, SINGLE), (np.float64, 1e-6)):  # Ours are right to 1e-6.
        labels, proba = outputs(model, X.astype(dtype), TABLE)
        expected = model.predict_proba(X)
        assert proba.dtype == dtype
        np.testing.assert_allclose(proba, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
        first, second = np.sort(expected, axis=1)[:, :-3:-1].T
        clear = first - second > 4.0 * tolerance
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(labels[clear], model.predict(X)[clear])


def test_few_particles_of_predictions_are_within_their_tolerance_of_the_graph():
    model = make_pipeline(StandardScaler(), logistic(n_particles=4000, prediction_tol=1e-3))
    labels, proba = outputs(model.fit(X, THREE), X.astype(np.float32), TABLE)
    off = np.abs(proba - model.predict_proba(X)).max()
    assert SINGLE < off < 1e-3


def test_columns_far_from_zero_are_right_by_the_spread_of_the_posterior():
    """Mean logits in single precision would be off by 4096 * 6e-8, and by 1e-4 here."""
    far = (Z + 4096.0).astype(np.float32)
    model = logistic(intercept_prior_scale=1e5).fit(far.astype(float), TWO)
    expected = model.predict_proba(far.astype(float))
    np.testing.assert_allclose(outputs(model, far, TABLE)[1], expected, rtol=0, atol=1e-5)


def test_tiny_probabilities_have_digits():
    model = logistic(covariance_type="diag").fit(Z, TWO)
    rows = np.array([[8.0, -8.0, 0.0], [-8.0, 8.0, 0.0]], np.float32)
    proba = outputs(model, rows, TABLE)[1]
    assert 0.0 < proba.min() < 1e-7
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(rows), atol=1e-3)


def test_labels_come_with_dictionaries_by_default_and_rows_may_be_none():
    model = logistic().fit(Z, WORDS[THREE])
    labels, found = outputs(model, Z[:2].astype(np.float32))
    assert set(found[0]) == set(WORDS) and labels[0] in WORDS
    assert [len(one) for one in outputs(model, np.empty((0, 3), np.float32))] == [0, 0]


@pytest.mark.parametrize("y", [TWO, WORDS[THREE]])
def test_calibration_around_it(y):
    model = CalibratedClassifierCV(logistic(n_particles=200), cv=2).fit(Z, y)
    labels, proba = outputs(model, Z.astype(np.float32), TABLE)
    np.testing.assert_allclose(proba, model.predict_proba(Z), atol=1e-5)
    assert (labels == model.predict(Z)).mean() > 0.99


KERNELS = [
    ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.1),
    Matern(1.0, nu=0.5) + WhiteKernel(0.1),
    ConstantKernel(0.5) * Matern([1.0, 2.0, 3.0], nu=1.5) + WhiteKernel(0.1),
    Matern(2.0, nu=2.5),
]


def process(kernel=None, **params):
    few = {"n_inducing": 30, "optimizer": None, "approximation": "fitc", "random_state": 0}
    return SparseGPRegressorPMD(kernel, **{**few, **params})


@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_of_processes(kernel):
    model = make_pipeline(StandardScaler(), process(kernel, alpha=0.01)).fit(X, WAVES)
    _moments_agree(model)


def test_moments_under_student_noise_and_several_kernels():
    model = process(KERNELS[0], likelihood="student_t").fit(Z, WAVES)
    _moments_agree(make_pipeline(StandardScaler().fit(X), model))
    several = process(KERNELS[0], optimizer="fmin_l_bfgs_b", n_particles=3, weighting="uniform",
                      n_restarts_optimizer=0)  # fmt: skip
    _moments_agree(make_pipeline(StandardScaler().fit(X), several.fit(Z[:100], WAVES[:100])))


def _moments_agree(model):
    expected = model.predict(X, return_std=True)
    options = {SparseGPRegressorPMD: {"return_std": True}}
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-7)):
        found = np.squeeze(outputs(model, X.astype(dtype), options), axis=2)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        (mean,) = outputs(model, X.astype(dtype))
        np.testing.assert_array_equal(mean[:, 0], found[0])


def test_several_targets():
    y = np.column_stack([WAVES, 10.0 + 5.0 * WAVES**2])
    model = process(KERNELS[0]).fit(Z, y)
    (mean,) = outputs(model, Z)
    np.testing.assert_allclose(mean, model.predict(Z), atol=1e-8)


@pytest.mark.parametrize(
    "model, reason",
    [
        (lambda: process(KERNELS[0], approximation="vecchia").fit(Z[:50], WAVES[:50]),
         "neighbours"),
        (lambda: process(KERNELS[0], approximation="full_scale").fit(Z[:50], WAVES[:50]),
         "approximation_='full_scale'"),
        (lambda: process(RationalQuadratic() + WhiteKernel()).fit(Z[:50], WAVES[:50]),
         "got kernel RationalQuadratic"),
        (lambda: SparseGPClassifierPMD(), "quadrature"),
        (lambda: GaussianMixturePMD(), "relabels"),
        (lambda: LDATopicModelPMD(), "iterates for each document"),
        (lambda: ParticleMirrorDescent(**NORMAL_MEAN), "Python functions of its user"),
    ],
)  # fmt: skip
def test_what_has_no_graph_says_why(model, reason):
    with pytest.raises(NotImplementedError, match=re.escape(reason)):
        outputs(model(), Z)


def test_rows_of_other_columns_are_refused():
    for model in (process(KERNELS[3]).fit(Z, WAVES), logistic().fit(Z, TWO)):
        with pytest.raises(ValueError, match="has 3 features, and X has 1"):
            outputs(model, Z[:, :1], TABLE if hasattr(model, "classes_") else None)


def test_columns_of_a_data_frame_need_a_transformer_before_them():
    frame = pd.DataFrame(Z.astype(np.float32), columns=list("abc"))
    for last, y in ((process(KERNELS[3]), WAVES), (logistic(), TWO)):
        model = make_pipeline(StandardScaler(), last).fit(frame, y)
        data = skl2onnx.to_onnx(model, frame[:1]).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        found = session.run(None, {name: frame[[name]].to_numpy() for name in frame})[0]
        np.testing.assert_allclose(found.ravel(), model.predict(frame), atol=1e-5)
        with pytest.raises(RuntimeError, match="at most 1 input"):
            skl2onnx.to_onnx(last, frame[:1])


@pytest.mark.parametrize("model, options", [(logistic(), TABLE), (process(), None)])
def test_estimators_have_to_be_fitted(model, options):
    with pytest.raises(NotFittedError):
        outputs(model, Z, options)
