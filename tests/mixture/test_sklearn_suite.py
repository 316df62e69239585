"""scikit-learn's own tests of its Gaussian mixtures, run on ours in their place.

`GaussianMixture` and `BayesianGaussianMixture` are replaced in its test modules by ours under
``strategy="conjugate"``, with the parameters and the defaults of theirs: their ``max_iter`` are our
steps on all data, starts given by hand and ``n_init`` are not used. Tests that look at no private
part of EM are run as they are. The others are named below, each under the reason why it says
nothing of ours; the last test here keeps both lists whole.
"""

import numpy as np
import pytest
import sklearn
import sklearn.mixture.tests.test_bayesian_mixture as bayesian_tests
import sklearn.mixture.tests.test_gaussian_mixture as gaussian_tests

from skpmd import GaussianMixturePMD
from tests.tools.sklearn_suite import run, runs_of


class GaussianMixture(GaussianMixturePMD):
    """Named as theirs, for messages name the class."""

    _n_particles = "auto"

    def __init__(
        self, n_components=1, n_init=1, weights_init=None, means_init=None, precisions_init=None,
        **own,
    ):  # fmt: skip
        own = {"max_iter": 100, "init_params": "kmeans", "n_particles": self._n_particles, **own}
        own |= {"max_full_iter": own["max_iter"], "batch_size": 100_000, "strategy": "conjugate"}
        super().__init__(n_components, **own)
        self.n_init, self.weights_init = n_init, weights_init
        self.means_init, self.precisions_init = means_init, precisions_init

    def _n_parameters(self):
        """Which theirs has, and their tests ask for."""
        return self._state.prior.n_coordinates


class BayesianGaussianMixture(GaussianMixture):
    """With the prior of theirs, as far as it does not come from the rows."""

    def __init__(self, *, n_components=1, **own):
        prior = {
            "weight_concentration_prior_type": "dirichlet_process",
            "mean_precision_prior": 1.0,
        }
        super().__init__(n_components, **{**prior, **own})


pytestmark = pytest.mark.slow  # Tests of the estimator's own are in the default lane.

_SEED = {"global_random_seed": 0}
_DTYPE = {"global_dtype": np.float64}
_TYPES = ["full", "tied", "diag", "spherical"]
_INITS = ["random", "random_from_data", "k-means++", "kmeans"]
_STOPS = [
    {"seed": seed, "max_iter": max_iter, "tol": tol, **_DTYPE}
    for seed, max_iter, tol in ((0, 2, 1e-7), (1, 2, 1e-1), (3, 300, 1e-7), (4, 300, 1e-1))
]

# One particle, as theirs is one optimum.
ONE_PARTICLE = ("test_score", "test_warm_start")

# Test -> the arguments of each of its runs.
GAUSSIAN = {
    "test_gaussian_mixture_estimate_log_prob_resp": [{}],
    "test_gaussian_mixture_predict_predict_proba": [{}],
    "test_gaussian_mixture_fit_predict": _STOPS,
    "test_gaussian_mixture_fit_predict_n_init": [{}],
    "test_multiple_init": [{}],
    "test_gaussian_mixture_n_parameters": [{}],
    "test_bic_1d_1component": [{}],
    "test_gaussian_mixture_aic_bic": [{}],
    "test_gaussian_mixture_verbose": [{}],
    # The start of seed 0 has converged after the five steps that are to be too few.
    "test_warm_start": [{"seed": seed} for seed in (1, 2)],
    "test_score": [_DTYPE],
    "test_score_samples": [{}],
    "test_fitted_precision_covariance_concistency": [
        {"covar_type": kind, **_DTYPE} for kind in _TYPES
    ],
    "test_init": [{}],
    "test_init_means_not_duplicated": [{"init_params": init, **_SEED} for init in _INITS],
    "test_means_for_all_inits": [{"init_params": init, **_SEED, **_DTYPE} for init in _INITS],
    "test_gaussian_mixture_single_component_stable": [{}],
    "test_gaussian_mixture_fit_best_params": [{}],
    "test_gaussian_mixture_attributes": [{}],
}

BAYESIAN = {
    "test_bayesian_mixture_weights_prior_initialisation": [{}],
    "test_bayesian_mixture_check_is_fitted": [{}],
    "test_check_covariance_precision": [{}],
    "test_invariant_translation": [{}],
    "test_bayesian_mixture_fit_predict": _STOPS,
    "test_bayesian_mixture_fit_predict_n_init": [{}],
    "test_bayesian_mixture_predict_predict_proba": [{}],
}

GAUSSIAN_LEFT_OUT = {
    "tests private functions of EM and no estimator": """
        test_suffstat_sk_full test_suffstat_sk_tied test_suffstat_sk_diag
        test_gaussian_suffstat_sk_spherical test_compute_log_det_cholesky
        test_gaussian_mixture_log_probabilities""",
    "tests starts given by hand": """
        test_check_weights test_check_means test_check_precisions test_max_iter_zero
        test_gaussian_mixture_precisions_init_diag test_gaussian_mixture_precisions_init
        test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters""",
    "expects the maximum of the likelihood, and that each step raises it; ours has a prior": """
        test_gaussian_mixture_fit test_monotonic_likelihood""",
    "expects an error of components on equal rows; the prior keeps ours proper (own test)": """
        test_regularisation""",
    "expects one step, of a call or the last of many, to tell of convergence": """
        test_convergence_detected_with_warm_start""",
    "expects draws from a plug-in; those of a Student vary more (own test)": """
        test_sample""",
    "expects the words of scikit-learn's warning (own test)": """
        test_gaussian_mixture_fit_convergence_warning""",
    "looks at the lower bounds of each step (ours are in history_)": """
        test_gaussian_mixture_setting_best_params""",
    "needs other array libraries than NumPy": """
        test_gaussian_mixture_array_api_compliance
        test_gaussian_mixture_raises_where_array_api_not_implemented""",
}

BAYESIAN_LEFT_OUT = {
    "expects the mean of the rows as the default prior mean; ours is the median (own test)": """
        test_bayesian_mixture_mean_prior_initialisation""",
    "tests private functions of EM and no estimator": """
        test_log_dirichlet_norm test_log_wishart_norm test_compare_covar_type""",
    "expects that each step raises the bound; responsibilities here are by the predictive": """
        test_monotonic_likelihood""",
    "expects another default of the prior's covariance (own test)": """
        test_bayesian_mixture_precisions_prior_initialisation""",
    "looks at the concentrations of one optimum": """
        test_bayesian_mixture_weights""",
}


# The marks of the modules do not come along: steps are cut short there, and rightly warned of.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name, arguments", runs_of(GAUSSIAN))
def test_of_gaussian_mixture(name, arguments, monkeypatch):
    monkeypatch.setattr(gaussian_tests, "GaussianMixture", GaussianMixture)
    if name in ONE_PARTICLE:
        monkeypatch.setattr(GaussianMixture, "_n_particles", 1)
    run(gaussian_tests, name, arguments)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name, arguments", runs_of(BAYESIAN))
def test_of_bayesian_gaussian_mixture(name, arguments, monkeypatch):
    monkeypatch.setattr(bayesian_tests, "BayesianGaussianMixture", BayesianGaussianMixture)
    run(bayesian_tests, name, arguments)


@pytest.mark.parametrize(
    "module, table, left_out",
    [
        (gaussian_tests, GAUSSIAN, GAUSSIAN_LEFT_OUT),
        (bayesian_tests, BAYESIAN, BAYESIAN_LEFT_OUT),
    ],
    ids=["gaussian", "bayesian"],
)
def test_each_is_run_or_left_out_for_a_reason(module, table, left_out):
    if not sklearn.__version__.startswith("1.9."):
        pytest.skip("the lists are those of scikit-learn 1.9")
    named = [*table, *" ".join(left_out.values()).split()]
    theirs = [name for name in vars(module) if name.startswith("test_")]
    assert sorted(named) == sorted(theirs)
