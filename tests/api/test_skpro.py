"""The adapter to skpro, held against skpro's own checks."""

import importlib
import sys

import numpy as np
import pytest


def test_without_skpro_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "skpro", None)
    monkeypatch.setitem(sys.modules, "skpro.regression.base", None)
    monkeypatch.delitem(sys.modules, "skpmd.skpro", raising=False)
    with pytest.raises(ImportError, match=r"pip install skpmd\[skpro\]"):
        importlib.import_module("skpmd.skpro")


@pytest.mark.filterwarnings("default")  # of skpro and its dependencies
def test_skpros_checks():
    pytest.importorskip("skpro")
    from skpro.utils import check_estimator

    from skpmd.skpro import SkproRegressor

    results = check_estimator(SkproRegressor, raise_exceptions=False, verbose=False)
    assert len(results) > 40
    assert {name: one for name, one in results.items() if one != "PASSED"} == {}


@pytest.mark.filterwarnings("default")
def test_predictions_are_those_of_the_estimator():
    pytest.importorskip("skpro")
    import pandas as pd

    from skpmd import SparseGPRegressorPMD
    from skpmd.skpro import SkproRegressor

    rng = np.random.default_rng(0)
    X, noise = rng.uniform(-2.0, 2.0, (80, 2)), 0.1 * rng.standard_normal(80)
    y = np.sin(X[:, 0]) + noise
    frame, target = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame({"y": y})
    own = SparseGPRegressorPMD(n_particles=2, n_subset=40, random_state=0)
    theirs = SkproRegressor(own).fit(frame[:60], target[:60]).update(frame[60:], target[60:])
    own.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(theirs.predict(frame)["y"], own.predict(X))
    low, high = theirs.predict_interval(frame, coverage=0.9).to_numpy().T
    np.testing.assert_allclose(np.c_[low, high], own.predict_interval(X, 0.9), rtol=1e-5)
