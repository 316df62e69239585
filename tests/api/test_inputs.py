"""What a classifier is given: sparse and single-precision rows, labels of any type, weights."""

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._base.validation import class_weights
from skpmd.engine.model import Batch
from skpmd.linear._make_model import linear_model
from skpmd.linear._response import Classes

# From the prior without rejuvenation, which would amplify rounding: another bandwidth, other
# particles. A narrow prior leaves some of them effective.
FROM_PRIOR = {
    "rejuvenation": "never",
    "prior_scale": 0.3,
    "intercept_prior_scale": 0.3,
    "n_particles": 3000,
}
ROUTES = [
    {},
    {"moves": "always", "n_particles": 200},
    {"proposal": "prior", **FROM_PRIOR},
    {"proposal": "laplace", "reweight": False, "n_particles": 1000},
    {"prior": "laplace", "prior_scale": 0.5},
    {"prior": "horseshoe", "moves": "never", **FROM_PRIOR},
]
LABELS = {2: ["no", "yes"], 3: ["high", "low", "mid"]}
every_route = pytest.mark.parametrize(
    "params", ROUTES, ids=["auto", "moves", "prior", "steps", "laplace", "horseshoe"]
)
few = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
both_kinds = pytest.mark.parametrize("K", [2, 3])


def labelled(K=2, n=60, seed=0):
    """Two features, half of the entries zero; labels as strings."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) * (rng.random((n, 2)) < 0.5)
    logits = X @ rng.standard_normal((2, K)) + rng.gumbel(size=(n, K))
    return X, np.array(LABELS[K])[logits.argmax(axis=1)]


def fitted(X, y, sample_weight=None, **params):
    model = BayesianLogisticRegressionPMD(**{"random_state": 0, **params})
    return model.fit(X, y, sample_weight)


def assert_same(one, other, rtol=1e-5):
    """The same posterior up to the rounding of sums in another order, in float32 under moves."""
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.coef_std_, other.coef_std_, rtol=rtol)


# -------------------------------------------------------------------------------- sparse rows
@pytest.mark.slow_for("horseshoe-3", "moves-2", "moves-3")
@few
@both_kinds
@every_route
def test_sparse_rows_are_dense_rows(K, params):
    X, y = labelled(K)
    dense, csr = fitted(X, y, **params), fitted(sparse.csr_array(X), y, **params)
    assert_same(dense, csr)
    np.testing.assert_allclose(
        csr.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), rtol=1e-5
    )
    np.testing.assert_array_equal(csr.predict(X), dense.predict(X))


@few
@both_kinds
@pytest.mark.parametrize("params", [{}, {"proposal": "prior", **FROM_PRIOR}], ids=["auto", "prior"])
def test_sparse_rows_in_parts_are_dense_rows_in_parts(K, params):
    X, y = labelled(K)
    dense, csr = (BayesianLogisticRegressionPMD(random_state=0, **params) for _ in range(2))
    for rows in (slice(0, 30), slice(30, 60)):
        dense.partial_fit(X[rows], y[rows], classes=LABELS[K])
        csr.partial_fit(sparse.csr_array(X[rows]), y[rows], classes=LABELS[K])
    assert_same(dense, csr)


def test_any_sparse_format_and_width_of_indices():
    X, y = labelled()
    expected = fitted(sparse.csr_array(X), y).coef_
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for other in (sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X), wide):
        np.testing.assert_array_equal(fitted(other, y).coef_, expected)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("prior", ["normal", "laplace", "horseshoe"])
def test_densities_that_chains_move_on_do_not_know_how_rows_are_stored_or_counted(K, prior):
    """Long chains drift apart by rounding, under the horseshoe at least: what can be equal are the
    log densities and their gradients. Rounding of sums over 60 rows: 1e-10."""
    X, y = labelled(K)
    codes = np.searchsorted(LABELS[K], y).astype(float)
    codes = 2 * codes - 1 if K == 2 else codes
    weight = np.random.default_rng(1).integers(0, 4, 60)
    model = linear_model(
        BayesianLogisticRegressionPMD(prior=prior)._parameters(), 2, Classes(np.arange(K)), 1.0
    )
    theta = model.prior.sample(np.random.default_rng(0), 20)
    batches = [
        Batch(X, codes, weight.astype(float)),
        Batch(sparse.csr_array(X), codes, weight.astype(float)),
        Batch(np.repeat(X, weight, axis=0), np.repeat(codes, weight), np.ones(weight.sum())),
    ]
    expected, *others = (model.log_joint_gradient(theta, [batch]) for batch in batches)
    for found in others:
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-9)


# -------------------------------------------------------------------- precision and read-only rows
@both_kinds
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_single_precision_stays_single_where_it_is_safe(K, container):
    """Coefficients and predictions are of the dtype of X, the posterior is double. Logits of single
    precision err by 1e-6, sixty of them by less than 1e-4."""
    X, y = labelled(K)
    narrow = container(X.astype(np.float32))
    double, single = fitted(container(X), y), fitted(narrow, y)
    assert single.posterior_.particles.dtype == np.float64
    for name in ("coef_", "coef_std_", "intercept_", "intercept_std_"):
        assert getattr(single, name).dtype == np.float32
        assert getattr(double, name).dtype == np.float64
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        found, expected = getattr(single, method)(narrow), getattr(double, method)(container(X))
        assert found.dtype == np.float32 and expected.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert single.predict_proba_interval(narrow).dtype == np.float32
    np.testing.assert_array_equal(single.predict(narrow), double.predict(container(X)))


@pytest.mark.slow  # two new processes
def test_workers_get_rows_that_cannot_be_written():
    """joblib hands large arrays to its workers as read-only memory maps."""
    X, y = labelled(3)
    weight = np.linspace(0.5, 1.5, 60)
    rows = [X, X.astype(np.float32), sparse.csr_array(X)]
    tasks = (joblib.delayed(fitted)(one, y, weight, n_particles=500) for one in rows)
    models = joblib.Parallel(n_jobs=2, max_nbytes=8)(tasks)
    for model, one in zip(models, rows, strict=True):
        assert_same(model, fitted(one, y, weight, n_particles=500))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_numbers_that_are_none(wrong, container):
    X, y = labelled()
    model, spoilt = fitted(X, y), X.copy()
    spoilt[3, 1] = wrong
    for call in (
        lambda: fitted(container(spoilt), y),
        lambda: model.partial_fit(container(spoilt), y),
        lambda: model.predict(container(spoilt)),
        lambda: fitted(X, y, np.where(np.arange(60) == 3, wrong, 1.0)),
    ):
        with pytest.raises(ValueError, match="NaN|infinity"):
            call()


# -------------------------------------------------------------------------------------- labels
def test_labels_of_any_type_in_sorted_order():
    X, y = labelled()
    truth = y == "yes"
    expected = fitted(X, y)
    for classes in ([-7, 3], [False, True], [0.0, 1.0], ["a", "b"]):
        labels = np.array(classes)[truth.astype(int)]
        objects = [labels.astype(object)] if classes == ["a", "b"] else []
        for given in (labels, labels.tolist(), *objects):
            model = fitted(X, given)
            assert list(model.classes_) == classes
            np.testing.assert_array_equal(model.coef_, expected.coef_)
            np.testing.assert_array_equal(
                model.predict(X) == classes[1], expected.predict(X) == "yes"
            )
    flipped = fitted(X, np.where(truth, "a", "b"))  # log odds of the other class
    gap = (flipped.coef_ + expected.coef_) / expected.coef_std_
    assert np.abs(gap).max() < 0.1  # two Monte Carlo errors of 0.02


@pytest.mark.parametrize(
    "y, match",
    [
        (np.zeros(60), "2 classes or more; got one class only: 0.0"),
        (np.linspace(0, 1, 60), "Unknown label type"),
        (np.zeros((60, 2)), "multilabel|1d array"),
        (np.where(np.arange(60) == 3, np.nan, 1.0), "NaN"),
    ],
    ids=["one class", "continuous", "two columns", "nan"],
)
def test_targets_that_are_no_classes(y, match):
    with pytest.raises(ValueError, match=match):
        fitted(labelled()[0], y)


@few
def test_names_of_features_and_coordinates():
    pd = pytest.importorskip("pandas")
    X, y = labelled(3)
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = fitted(frame, y)
    assert list(model.feature_names_in_) == ["age", "dose"]
    assert model.posterior_.names == [
        f"{name}[{label}]" for label in LABELS[3] for name in ("age", "dose", "intercept")
    ]
    means = model.posterior_.mean().reshape(3, 3)
    np.testing.assert_array_equal(np.column_stack([model.coef_, model.intercept_]), means)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["dose", "age"]])
    assert fitted(frame, y == "mid", fit_intercept=False).posterior_.names == ["age", "dose"]
    scales = fitted(frame, y == "mid", **ROUTES[-1]).posterior_.names[3:]
    assert len(scales) == 3 and "age" in scales[0] and "dose" in scales[1]


# -------------------------------------------------------------------------------------- weights
@few
@both_kinds
@every_route
def test_a_weight_is_as_many_copies(K, params):
    X, y = labelled(K)
    weight = np.random.default_rng(3).integers(0, 4, 60)
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight), **params)
    assert_same(fitted(X, y, weight, **params), repeated)


@pytest.mark.slow_for("horseshoe-3", "moves-2", "moves-3")
@few
@both_kinds
@every_route
def test_class_weights_are_weights_of_rows(K, params):
    X, y = labelled(K)
    by_label = dict(zip(LABELS[K], [2.0, 0.5, 1.5], strict=False))
    given = np.random.default_rng(4).random(60) + 0.5
    rows = np.array([by_label[label] for label in y])
    one = fitted(X, y, given, class_weight=by_label, **params)
    assert_same(one, fitted(X, y, given * rows, **params))
    missing = fitted(X, y, class_weight={LABELS[K][0]: 2.0}, **params)
    assert_same(missing, fitted(X, y, np.where(y == LABELS[K][0], 2.0, 1.0), **params))


@both_kinds
def test_balanced_classes_weigh_the_same(K):
    X, y = labelled(K)
    classes = np.array(LABELS[K])
    codes, weight = np.searchsorted(classes, y), np.random.default_rng(5).integers(1, 4, 60)
    factors = class_weights("balanced", codes, classes, weight.astype(float))
    totals = np.bincount(codes, weight * factors)
    np.testing.assert_allclose(totals, weight.sum() / K)
    theirs = compute_class_weight("balanced", classes=classes, y=y)
    one = fitted(X, y, class_weight="balanced")
    assert_same(one, fitted(X, y, class_weight=dict(zip(classes, theirs, strict=True))))
    # Rows repeated are weights here too, before they are balanced.
    repeated = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    assert_same(
        fitted(X, y, weight, class_weight="balanced"), fitted(*repeated, class_weight="balanced")
    )


def test_in_parts_class_weights_are_weights_too():
    X, y = labelled(3)
    weights = {"low": 2.0, "mid": 0.5}
    rows = np.array([weights.get(label, 1.0) for label in y])
    one = BayesianLogisticRegressionPMD(class_weight=weights, random_state=0)
    two = BayesianLogisticRegressionPMD(random_state=0)
    for part in (slice(0, 30), slice(30, 60)):
        one.partial_fit(X[part], y[part], LABELS[3])
        two.partial_fit(X[part], y[part], LABELS[3], sample_weight=rows[part])
    assert_same(one, two)
    with pytest.raises(ValueError, match="class_weight='balanced' needs all data"):
        BayesianLogisticRegressionPMD(class_weight="balanced").partial_fit(X, y, LABELS[3])


@pytest.mark.parametrize(
    "class_weight, match",
    [
        ({"maybe": 1.0}, "which are not among the classes"),
        ({"yes": -1.0}, "class_weight must hold finite numbers that are not negative"),
        ({"yes": "much"}, "class_weight must hold finite numbers that are not negative"),
        ({"yes": 0.0, "no": 0.0}, "class_weight=.* leaves every row without weight"),
        ({"yes": np.nan}, "class_weight must hold finite numbers that are not negative"),
    ],
)
def test_wrong_class_weights(class_weight, match):
    with pytest.raises(ValueError, match=match):
        fitted(*labelled(), class_weight=class_weight)


def test_rows_without_weight_are_absent():
    """A class may be left without rows by class_weight only: there it is said by name."""
    X, y = labelled(3)
    gone = (y != "mid").astype(float)
    with pytest.raises(ValueError, match="leaves class 'mid' without any weight"):
        fitted(X, y, gone)
    model = fitted(X, y, class_weight={"mid": 0.0})
    assert list(model.classes_) == LABELS[3] and set(model.predict(X)) == {"high", "low"}
    with pytest.raises(ValueError, match="[Nn]egative"):
        fitted(X, y, gone - 0.5)
    with pytest.raises(ValueError, match="[Ss]ample weights must contain|zero for every row"):
        fitted(X, y, 0.0 * gone)


@pytest.mark.parametrize(
    "estimator",
    [
        BayesianGLMRegressorPMD(random_state=0), BayesianGLMRegressorPMD("poisson", random_state=0),
        BayesianOrdinalClassifierPMD(categories=[0, 1, 7], random_state=0),
        SparseGPRegressorPMD(random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_one_row_has_no_units(estimator):
    """A default interval around y = 150,000 was 5 wide, as around y = 0.001."""
    with pytest.warns(UserWarning, match="there is one row, which does not tell how y"):
        estimator.fit([[1.0, 2.0]], [7])
    assert any("there is one row" in text.lower() for text in estimator.posterior_.check())
    given = {"normalize_y": False} if hasattr(estimator, "normalize_y") else {"scale": None}
    estimator.set_params(**given).fit([[1.0, 2.0]], [7])


def test_fewer_rows_than_columns_are_no_fault():
    """The posterior is that of the model: the prior decides what rows leave open."""
    X, y = np.random.default_rng(0).normal(size=(6, 20)), np.array([0, 1, 1, 0, 1, 0])
    for estimator in (
        BayesianGLMRegressorPMD(random_state=0), BayesianLogisticRegressionPMD(random_state=0),
        SparseGPRegressorPMD(random_state=0),
    ):  # fmt: skip
        assert not estimator.fit(X, y).posterior_.check()
