"""Subclasses with a constructor of their own, as users of scikit-learn write them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPRegressorPMD,
)
from tests.tools.exact_models import NORMAL_MEAN

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 1))
Y = np.sin(X[:, 0])
LABELS = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
COUNTS = rng.poisson(1.0, (30, 8))

# Parameters that a subclass fixes; none is the default.
FIXED = {
    BayesianLogisticRegressionPMD: (
        {"prior": "laplace", "fit_intercept": False, "n_particles": 200, "bandwidth": 0.5},
        (X, LABELS),
    ),
    SparseGPRegressorPMD: (
        {"kernel": RBF() + WhiteKernel(), "n_inducing": 7, "n_particles": 2},
        (X, Y),
    ),
    GaussianMixturePMD: ({"n_components": 2, "strategy": "conjugate", "n_particles": 3}, (X,)),
    LDATopicModelPMD: ({"n_components": 3, "n_particles": 2, "max_iter": 2}, (COUNTS,)),
    ParticleMirrorDescent: ({**NORMAL_MEAN, "n_particles": 200, "ess_threshold": 0.3}, (X,)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("parent", FIXED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_subclass_may_take_fewer_parameters(parent, method):
    """It does what its parent does with the parameters that it sets."""
    fixed, data = FIXED[parent]

    class Child(parent):
        def __init__(self, random_state=0):
            super().__init__(**fixed, random_state=random_state)

    more = {"classes": [0, 1]} if "Logistic" in parent.__name__ and method == "partial_fit" else {}
    one = getattr(clone(Child(random_state=3)), method)(*data, **more)
    other = getattr(parent(**fixed, random_state=3), method)(*data, **more)
    for name in ("history_", "posterior_"):
        found = [getattr(estimator, name) for estimator in (one, other)]
        if name == "history_":
            np.testing.assert_equal(*found)
        elif hasattr(found[0], "particles"):
            np.testing.assert_array_equal(found[0].particles, found[1].particles)
    predict = "transform" if parent is LDATopicModelPMD else "predict"
    if hasattr(one, predict):
        answers = (getattr(estimator, predict)(data[0]) for estimator in (one, other))
        np.testing.assert_array_equal(*answers)
