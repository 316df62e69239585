"""More columns than rows: coefficients in the span of the rows, against all of them."""

import numpy as np
import pytest
from scipy import sparse

from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD
from skpmd.linear import _span


def rows_of(n=24, p=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.geomspace(0.1, 10.0, p) + 5.0
    return X, (X[:, p // 2] - 5.0 + rng.standard_normal(n)) / np.geomspace(0.1, 10.0, p)[p // 2]


def test_normal_rows_have_the_exact_posterior(monkeypatch):
    """Draws by the decomposition have the moments of a ridge regression: .06 sd, 6 %."""
    X, y = rows_of()
    scale = np.linspace(0.5, 1.5, X.shape[1])
    given = {"prior_scale": scale, "random_state": 0}
    some = BayesianGLMRegressorPMD(**given).fit(X, y)
    monkeypatch.setattr(_span, "_MIN_GAIN", np.inf)
    whole = BayesianGLMRegressorPMD(**given).fit(X, y)
    one, other = some.posterior_, whole.posterior_
    np.testing.assert_array_less(np.abs(one.mean() - other.mean()), 0.09 * other.std())
    np.testing.assert_allclose(one.std(), other.std(), rtol=0.07)
    np.testing.assert_allclose(some.predict(X), whole.predict(X), atol=0.05 * y.std())
    assert some.log_evidence_ == pytest.approx(whole.log_evidence_, abs=0.05)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_classes_have_that_of_all_coordinates(kind, monkeypatch):
    """Both are chains of 1000 effective draws and more: .1 sd is twice the error of 61 gaps."""
    X, y = rows_of()
    X, y = kind(X), y > np.median(y)
    some = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    monkeypatch.setattr(_span, "_MIN_GAIN", np.inf)
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    gap = np.abs(some.coef_ - whole.coef_) / whole.coef_std_
    assert gap.max() < 0.15
    np.testing.assert_allclose(some.coef_std_, whole.coef_std_, rtol=0.1)
    np.testing.assert_allclose(some.predict_proba(X), whole.predict_proba(X), atol=0.03)
