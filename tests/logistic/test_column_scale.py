"""Units of columns: a scaled prior, and a warning where the prior overrules the rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from skpmd import BayesianLogisticRegressionPMD
from skpmd.logistic._column_scale import column_scale_of


def rows(n=400, unit=1e-3, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    noise = rng.logistic(size=n)
    if n_classes == 2:
        y = (3.0 * X[:, 1] + X[:, 0] + noise > 0.0).astype(int)
    else:
        y = np.digitize(3.0 * X[:, 1] + noise, [-2.0, 2.0])
    return X * [1.0, unit, 1.0], y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_strong_column_in_small_units_is_warned_of(n_classes, sparse):
    X, y = rows(n_classes=n_classes)
    X = csr_array(X) if sparse else X
    with pytest.warns(UserWarning, match=r"1 of 3 columns \(x1\).*scale='auto'"):
        BayesianLogisticRegressionPMD(random_state=0).fit(X, y)


def test_columns_of_no_effect_or_in_usual_units_are_not():
    X, y = rows(unit=1.0)
    BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    BayesianLogisticRegressionPMD(random_state=0, prior_scale=0.01).fit(X, y)  # As was asked for.
    X[:, 1] = 1e-3 * np.random.default_rng(1).standard_normal(len(X))
    BayesianLogisticRegressionPMD(random_state=0).fit(X, y)


@pytest.mark.parametrize("prior", ["normal", "laplace", "cauchy", "horseshoe"])
@pytest.mark.parametrize("unit", [1e-6, 1e4])
def test_units_change_nothing_but_the_units(prior, unit):
    """Moments of two sets of draws of one posterior: within the error of 4000 draws."""
    X, y = rows(unit=1.0)
    X = X / X.std(axis=0)
    known = BayesianLogisticRegressionPMD(prior=prior, random_state=0).fit(X, y)
    scaled = BayesianLogisticRegressionPMD(prior=prior, scale="auto", random_state=0)
    scaled.fit(X * [1.0, unit, 1.0], y)
    ratio = scaled.coef_ * [1.0, unit, 1.0] - known.coef_
    assert np.abs(ratio / known.coef_std_).max() < 0.15
    np.testing.assert_allclose(
        scaled.predict_proba(X * [1.0, unit, 1.0]), known.predict_proba(X), atol=0.01
    )


def test_the_evidence_knows_no_units():
    X, y = rows(unit=1.0)
    X = X / X.std(axis=0)
    own = {"prior_scale": "evidence", "random_state": 0}
    known = BayesianLogisticRegressionPMD(**own).fit(X, y)
    scaled = BayesianLogisticRegressionPMD(scale="auto", **own).fit(X * 1e-5, y)
    assert scaled.prior_scale_ == pytest.approx(known.prior_scale_, rel=0.02)
    assert scaled.log_evidence_ == pytest.approx(known.log_evidence_, abs=0.05)


def test_a_stream_goes_on_in_the_units_of_its_first_rows():
    X, y = rows()
    stream = BayesianLogisticRegressionPMD(scale="auto", random_state=0)
    for part in np.array_split(np.arange(len(y)), 4):
        stream.partial_fit(X[part], y[part], classes=[0, 1])
    whole = BayesianLogisticRegressionPMD(scale="auto", random_state=0).fit(X, y)
    # The first hundred rows know the columns' sds to 7 %.
    assert np.abs((stream.coef_ - whole.coef_) / whole.coef_std_).max() < 0.3
    with pytest.raises(ValueError, match="scale was 'auto'"):
        stream.set_params(scale=None).partial_fit(X[:9], y[:9])


def test_first_rows_that_tell_no_unit_are_warned_of():
    X, y = rows()
    stream = BayesianLogisticRegressionPMD(scale="auto", random_state=0)
    X[:100, 2] = 0.0
    with pytest.warns(UserWarning, match="1 of 3 columns do not vary in the first rows"):
        stream.partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.warns(UserWarning, match="3 of 3 columns do not vary"):
        BayesianLogisticRegressionPMD(scale="auto").partial_fit(X[:1], y[:1], classes=[0, 1])


def test_a_stream_is_warned_of_too():
    X, y = rows()
    with pytest.warns(UserWarning, match=r"1 of 3 columns \(x1\)"):
        BayesianLogisticRegressionPMD(random_state=0).partial_fit(X, y, classes=[0, 1])


def test_a_warning_that_is_an_error_does_not_undo_a_fit():
    X, y = rows()
    model = BayesianLogisticRegressionPMD(random_state=0)
    with pytest.raises(UserWarning, match="next to no effect"):  # Warnings are errors here.
        model.fit(X, y)
    assert model.predict(X).shape == y.shape


def test_rounding_of_a_constant_column_is_no_variance():
    for seed in range(20):  # Of some of these the variance is below zero by rounding.
        weight = np.random.default_rng(seed).random(10)
        np.testing.assert_array_equal(column_scale_of(np.full((10, 2), 2.592e14), weight), 1.0)
