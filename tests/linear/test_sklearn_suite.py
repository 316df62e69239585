"""scikit-learn's own tests of its linear classifiers, run on ours in their place.

Its `LogisticRegression` and `SGDClassifier` are replaced in its test modules by functions that make
our estimator: C is the square of the prior's scale, l1_ratio=1 the Laplace prior; what sets a
solver, a learning rate or the penalty of stochastic gradients is dropped. Tests of weights, labels,
dtypes, sparse input, predictions and `partial_fit` are run as they are. The others are named below,
each under the reason why it says nothing of ours; the last test here keeps both lists whole.
"""

import numpy as np
import pytest
import sklearn
import sklearn.linear_model.tests.test_logistic as logistic_tests
import sklearn.linear_model.tests.test_sgd as sgd_tests
from scipy import sparse

from skpmd import BayesianLogisticRegressionPMD
from tests.tools.sklearn_suite import run, runs_of


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

LOGISTIC_LEFT_OUT = {
    "tests LogisticRegressionCV or its path of penalties": """
        test_consistency_path test_logistic_cv test_logistic_cv_refit_false_non_elasticnet
        test_logistic_cv_mock_scorer test_logistic_cv_multinomial_score test_multinomial_cv_iris
        test_logistic_cv_folds_with_classes_missing test_logistic_cv_sparse
        test_logistic_regressioncv_class_weights test_logistic_regression_cv_refit
        test_LogisticRegressionCV_GridSearchCV_elastic_net test_LogisticRegressionCV_no_refit
        test_LogisticRegressionCV_elasticnet_attribute_shapes test_LogisticRegressionCV_on_folds
        test_scores_attribute_layout_elasticnet
        test_lr_cv_scores_differ_when_sample_weight_is_requested
        test_lr_cv_scores_without_enabling_metadata_routing
        test_passing_params_without_enabling_metadata_routing
        test_logisticregressioncv_warns_with_use_legacy_attributes test_lr_scoring_warns
        test_get_default_scorer test_logistic_regression_path_coefs_multinomial
        test_logistic_regression_path_init_coefs test_logistic_regression_path_convergence_fail""",
    "tests a solver, its iterations, its warm start or its callbacks": """
        test_logistic_glmnet test_check_solver_option test_liblinear_dual_random_state
        test_logistic_regression_solvers test_logistic_regression_solvers_multiclass
        test_logistic_regression_solvers_multiclass_unpenalized test_max_iter test_n_iter
        test_warm_start test_warm_start_newton_solver test_saga_vs_liblinear
        test_warm_start_converge_LR test_liblinear_with_large_values test_liblinear_not_stuck
        test_zero_max_iter test_newton_cholesky_fallback_to_lbfgs
        test_liblinear_multiclass_raises test_logisticregression_warns_with_n_jobs
        test_logisticregression_liblinear_sample_weight
        test_logistic_regression_callback_support
        test_logistic_regression_callback_fitted_estimator
        test_logistic_regression_callback_support_warning""",
    "tests a penalty that is no prior here (elastic net, none), or a deprecated parameter": """
        test_elasticnet_l1_ratio_err_helpful test_elastic_net_coeffs
        test_elastic_net_l1_l2_equivalence test_elastic_net_vs_l1_l2
        test_LogisticRegression_elastic_net_objective test_l1_ratio_non_elasticnet
        test_elastic_net_versus_sgd test_penalty_none test_c_inf_no_warning test_penalty_deprecated
        test_l1_ratio_None_deprecated test_lr_penalty_l1ratio_incompatible""",
    "expects zeros among the coefficients: a posterior mean has none": "test_logreg_l1",
    "predicts by writing to coef_: ours are averages over the particles": """
        test_write_parameters test_sparsify""",
    "calls a private method of scikit-learn's class": "test_logreg_predict_proba_multinomial",
    "expects class sums of zero to rounding; ours are zero to Monte Carlo error (own test)": """
        test_multinomial_identifiability_on_iris""",
    "needs other array libraries than NumPy": """
        test_logistic_regression_array_api_compliance test_logistic_regression_array_api_warm_start
        """,
}

SGD_LEFT_OUT = {
    "tests SGDRegressor or SGDOneClassSVM": """
        test_regression_losses test_sgd_reg test_sgd_averaged_computed_correctly
        test_sgd_averaged_partial_fit test_average_sparse test_sgd_least_squares_fit
        test_sgd_epsilon_insensitive test_sgd_huber_fit test_elasticnet_convergence
        test_partial_fit test_partial_fit_equal_fit test_loss_function_epsilon
        test_warm_start_oneclass test_clone_oneclass test_partial_fit_oneclass
        test_partial_fit_equal_fit_oneclass test_late_onset_averaging_reached_oneclass
        test_sgd_averaged_computed_correctly_oneclass test_sgd_averaged_partial_fit_oneclass
        test_average_sparse_oneclass test_ocsvm_vs_sgdocsvm test_sgd_oneclass_convergence
        test_sgd_oneclass_vs_linear_oneclass test_sgd_oneclass_vs_linear_oneclass_offsets_match
        test_sgd_one_class_svm_estimator_type
        test_sgd_one_class_svm_formulation_with_scipy_minimize""",
    "tests steps, their rates and averages, stopping, warm starts or numbers in the solver": """
        test_warm_start test_learning_rate_PA_raises test_plain_has_no_average_attr
        test_late_onset_averaging_not_reached test_late_onset_averaging_reached test_early_stopping
        test_adaptive_longer_than_constant test_validation_set_not_used_for_training
        test_n_iter_no_change test_not_enough_sample_for_early_stopping test_power_t_limits
        test_provide_coef test_set_intercept_offset test_sgd_early_stopping_with_partial_fit
        test_set_intercept_offset_binary test_average_binary_computed_correctly
        test_set_intercept_to_intercept test_sgd_multiclass_average
        test_sgd_multiclass_with_init_coef test_set_coef_multiclass test_warm_start_multiclass
        test_underflow_or_overflow test_numerical_stability_large_gradient test_tol_parameter
        test_multi_thread_multi_class_and_early_stopping
        test_multi_core_gridsearch_and_early_stopping test_SGDClassifier_fit_for_all_backends
        test_sgd_random_state test_validation_mask_correctly_subsets
        test_sgd_error_on_zero_validation_weight""",
    "tests another loss or penalty": """
        test_clone test_sgd_l1_ratio_not_used test_sgd_failing_penalty_validation test_l1_ratio
        test_sgd_l1 test_large_regularization test_loss_hinge test_gradient_squared_hinge
        test_loss_modified_huber test_loss_epsilon_insensitive
        test_loss_squared_epsilon_insensitive test_sgd_predict_proba_method_access
        test_sgd_proba""",
    "two passes of partial_fit count rows twice, and its data weigh a row by their number": """
        test_partial_fit_equal_fit_classif test_equal_class_weight""",
    "expects what the hinge loss predicts; scikit-learn's own at C=1 does not either": """
        test_class_weights test_sample_weights""",
    "expects a bad fit without weights, which ours is not (own test of balanced weights)": """
        test_balanced_weight""",
    "expects the words of scikit-learn's message (own test)": """
        test_partial_fit_weight_class_balanced""",
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


@pytest.mark.parametrize(
    "module, table, left_out",
    [(logistic_tests, LOGISTIC, LOGISTIC_LEFT_OUT), (sgd_tests, SGD, SGD_LEFT_OUT)],
    ids=["logistic", "sgd"],
)
def test_each_is_run_or_left_out_for_a_reason(module, table, left_out):
    if not sklearn.__version__.startswith("1.9."):
        pytest.skip("the lists are those of scikit-learn 1.9")
    named = [*table, *" ".join(left_out.values()).split()]
    theirs = [name for name in vars(module) if name.startswith("test_")]
    assert sorted(named) == sorted(theirs)
