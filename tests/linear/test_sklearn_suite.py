"""scikit-learn's own tests of its linear classifiers, run on ours in their place.

Its `LogisticRegression` and `SGDClassifier` are replaced in its test modules by functions that make
our estimator: C is the square of the prior's scale, l1_ratio=1 the Laplace prior; what sets a
solver, a learning rate or the penalty of stochastic gradients is dropped. Tests of weights, labels,
dtypes, sparse input, predictions and `partial_fit` are run as they are. Those of solvers, penalties
that are no priors and paths of penalties say nothing of ours.
"""

import numpy as np
import pytest
import sklearn.linear_model.tests.test_logistic as logistic_tests
import sklearn.linear_model.tests.test_sgd as sgd_tests
from scipy import sparse

from skpmd import BayesianLogisticRegressionPMD
from tests.tools.sklearn_suite import run, runs_of

pytestmark = pytest.mark.slow  # Tests of the estimator's own are in the default lane.


class _OnSparseRows(BayesianLogisticRegressionPMD):
    """Turns rows into CSR arrays, as the sparse classifier of scikit-learn's tests does."""

    def fit(self, X, y, *args, **kwargs):
        return super().fit(sparse.csr_array(X), y, *args, **kwargs)

    def partial_fit(self, X, y, *args, **kwargs):
        return super().partial_fit(sparse.csr_array(X), y, *args, **kwargs)

    def predict_log_proba(self, X):
        return super().predict_log_proba(sparse.csr_array(X))


def _ours(C=1.0, l1_ratio=0, random_state=0, made=BayesianLogisticRegressionPMD, **params):
    keep = {"fit_intercept", "class_weight", "verbose"}
    params = {name: value for name, value in params.items() if name in keep}
    prior = "laplace" if l1_ratio == 1 else "normal"
    return made(
        prior=prior,
        prior_scale=C if prior == "laplace" else np.sqrt(C),
        scale=None,  # C is per unit of the columns.
        intercept_prior_scale=2.0,  # a vague one says too little with three rows
        n_particles=1000,
        random_state=random_state,
        **params,
    )


def _sparse(**params):
    return _ours(made=_OnSparseRows, **params)


_SEED = {"global_random_seed": 0}
_CSR = [{"csr_container": csr} for csr in (sparse.csr_matrix, sparse.csr_array)]
# Those of scikit-learn 1.6 take what later ones do without.
_OLDER = {"multi_class": "multinomial"}

# Test -> the arguments of each of its runs.
LOGISTIC = {
    "test_predict_2_classes": _CSR,
    "test_predict_3_classes": _CSR,
    "test_inconsistent_input": [{}],
    "test_nan": [{}],
    "test_multinomial_logistic_regression_string_inputs": [{}],
    "test_logistic_regression_sample_weights": [
        {"problem": "single", "solver": "newton-cg", **_SEED}
    ],
    "test_logistic_regression_solver_class_weights": [{"solver": "newton-cg", **_SEED}],
    "test_sample_and_class_weight_equivalence_liblinear": [_SEED],
    "test_logistic_regression_class_weights": [
        {"csr_container": container, **_SEED} for container in (np.asarray, sparse.csr_array)
    ],
    "test_liblinear_decision_function_zero": [_SEED],
    "test_logreg_intercept_scaling_zero": [{}],
    "test_dtype_match": [
        {"solver": "lbfgs", "fit_intercept": intercept, **csr, **_OLDER}
        for intercept in (False, True)
        for csr in _CSR
    ],
    "test_sample_weight_not_modified": [
        {"class_weight": weight, **_OLDER} for weight in ({0: 1.0, 1: 10.0, 2: 1.0}, "balanced")
    ],
    "test_large_sparse_matrix": [{"solver": "lbfgs", **csr, **_SEED} for csr in _CSR],
    "test_single_feature_newton_cg": [{}],
}

_BOTH = [{"klass": _ours}, {"klass": _sparse}]
SGD = {
    **dict.fromkeys(
        [
            "test_input_format",
            "test_sgd_clf",
            "test_sgd_at_least_two_labels",
            "test_sgd_multiclass",
            "test_sgd_multiclass_njobs",
            "test_wrong_class_weight_label",
            "test_weights_multiplied",
            "test_wrong_sample_weights",
            "test_partial_fit_exception",
            "test_partial_fit_binary",
            "test_partial_fit_multiclass",
            "test_partial_fit_multiclass_average",
            "test_fit_then_partial_fit",
            "test_multiple_fit",
        ],
        _BOTH,
    ),
    "test_sgd_verbose": [{"Estimator": _ours}],
    "test_sgd_dtype_match": [
        {"SGDEstimator": klass["klass"], "data_type": dtype}
        for klass in _BOTH
        for dtype in (np.float32, np.float64)
    ],
    "test_sgd_numerical_consistency": [{"SGDEstimator": klass["klass"]} for klass in _BOTH],
}


# The marks of the module do not come along.
@pytest.mark.filterwarnings("ignore:The default value for l1_ratios:FutureWarning")
@pytest.mark.parametrize("name, arguments", runs_of(LOGISTIC))
def test_of_logistic_regression(name, arguments, monkeypatch):
    monkeypatch.setattr(logistic_tests, "LogisticRegression", _ours)
    monkeypatch.setattr(logistic_tests, "SOLVERS", ("lbfgs",))  # what loops over them does so once
    run(logistic_tests, name, arguments)


# Streams of three rows at a time are warned of, and rightly: their rejuvenations cost a fifth of an
# sd.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name, arguments", runs_of(SGD))
def test_of_sgd_classifier(name, arguments, monkeypatch):
    monkeypatch.setattr(sgd_tests, "SGDClassifier", _ours)
    monkeypatch.setattr(sgd_tests, "SparseSGDClassifier", _sparse)
    run(sgd_tests, name, arguments)
