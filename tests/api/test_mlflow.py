"""Models in the folders of MLflow, by its own serialization, which is skops, and as pyfunc."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    SparseGPRegressorPMD,
)
from skpmd.persistence import skops_trusted_types

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("skops")
    mlflow = pytest.importorskip("mlflow", minversion="3.17")
    pytest.importorskip("mlflow.sklearn")

# Those of MLflow and of what it imports; ours are errors in all other tests.
pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(50.0 + 10.0 * RNG.standard_normal((80, 3)), columns=["age", "size", "dose"])
TARGET = (FRAME["age"] > 50.0).map({True: "yes", False: "no"})
# Looking for what to install takes MLflow half a minute.
GIVEN = {"skops_trusted_types": skops_trusted_types(), "pip_requirements": ["skpmd[mlflow]"]}


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("mlflow").setLevel(logging.ERROR)


def logistic():
    return BayesianLogisticRegressionPMD(n_particles=200, random_state=0)


@pytest.mark.parametrize(
    "last, target, method",
    [
        (logistic(), TARGET, "predict_proba"),
        (SparseGPRegressorPMD(n_inducing=10, n_restarts_optimizer=0, random_state=0),
         FRAME["size"], "predict"),
        (GaussianMixturePMD(2, n_particles=4, random_state=0), None, "predict"),
    ],
)  # fmt: skip
def test_a_pipeline_comes_back_with_its_signature(last, target, method, tmp_path):
    model = make_pipeline(StandardScaler(), last).fit(FRAME, target)
    expected = getattr(model, method)(FRAME)
    signature = mlflow.models.infer_signature(FRAME, expected)
    mlflow.sklearn.save_model(
        model, tmp_path / "model", signature=signature, pyfunc_predict_fn=method, **GIVEN
    )
    info = mlflow.models.Model.load(tmp_path / "model")
    assert info.flavors["sklearn"]["serialization_format"] == "skops"
    assert info.get_input_schema().input_names() == list(FRAME)
    loaded = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(getattr(loaded, method)(FRAME), expected)
    anywhere = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(anywhere.predict(FRAME), expected)
    with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
        anywhere.predict(FRAME[["age"]])


def test_without_the_types_mlflow_names_them(tmp_path):
    model = logistic().fit(FRAME, TARGET)
    with pytest.raises(mlflow.exceptions.MlflowException, match="skops_trusted_types"):
        mlflow.sklearn.save_model(model, tmp_path / "model", pip_requirements=["skpmd"])


def test_pickles_of_mlflow(tmp_path):
    model = logistic().fit(FRAME, TARGET)
    for way in ("pickle", "cloudpickle"):
        folder = str(tmp_path / way)
        mlflow.sklearn.save_model(
            model, folder, serialization_format=way, pip_requirements=["skpmd"]
        )
        loaded = mlflow.sklearn.load_model(folder)
        np.testing.assert_array_equal(loaded.predict_proba(FRAME), model.predict_proba(FRAME))
