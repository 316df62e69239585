"""scikit-learn's own tests of its topic model, run on ours in its place.

`LatentDirichletAllocation` is replaced in its test module by ours, with the parameters and the
defaults of theirs: their ``learning_method="batch"`` are steps of size 1 on all documents. Tests
that look at no private part are run as they are. The others are named below, each under the reason
why it says nothing of ours; the last test here keeps both lists whole.
"""

import pytest
import sklearn
import sklearn.decomposition.tests.test_online_lda as theirs
from sklearn.utils.fixes import CSR_CONTAINERS

from skpmd import LDATopicModelPMD
from tests.tools.sklearn_suite import run, runs_of


class LatentDirichletAllocation(LDATopicModelPMD):
    """Named as theirs, for messages and features name the class."""

    def __init__(
        self, n_components=10, learning_method="batch", learning_decay=0.7, learning_offset=10.0,
        **own,
    ):  # fmt: skip
        batch = learning_method == "batch"
        own = {"max_iter": 10, "total_samples": 1e6, "batch_size": 128, **own}
        own |= {"batch_size": 100_000} if batch else {}
        super().__init__(
            n_components,
            step_offset=0.0 if batch else learning_offset**learning_decay,  # theirs: (10 + t)^0.7
            step_decay=0.0 if batch else learning_decay,
            **own,
        )
        self.learning_method, self.learning_decay = learning_method, learning_decay
        self.learning_offset = learning_offset

    def perplexity(self, X, sub_sampling=False):
        """Theirs scales a bound of the topics up to all documents; ours has no such term."""
        return super().perplexity(X)


_CSR = [{"csr_container": container} for container in CSR_CONTAINERS]
_METHODS = [{"method": "online"}, {"method": "batch"}]
_BOTH = [{**one, **other} for one in _METHODS for other in _CSR]

# Test -> the arguments of each of its runs.
TESTS = {
    "test_lda_default_prior_params": _CSR,
    "test_lda_fit_batch": _CSR,
    "test_lda_fit_online": _CSR,
    "test_lda_partial_fit": _CSR,
    "test_lda_dense_input": _CSR,
    "test_lda_transform": [{}],
    "test_lda_fit_transform": _METHODS,
    "test_lda_negative_input": [{}],
    "test_lda_no_component_error": [{}],
    "test_lda_multi_jobs": _BOTH,
    "test_lda_partial_fit_multi_jobs": _CSR,
    "test_lda_perplexity": _BOTH,
    "test_lda_score": _BOTH,
    "test_perplexity_input_format": _CSR,
    "test_lda_score_perplexity": _CSR,
    "test_lda_fit_perplexity": _CSR,
    "test_lda_empty_docs": _CSR,
    "test_lda_feature_names_out": _CSR,
    "test_lda_numerical_consistency": [
        {"learning_method": method, "global_random_seed": 0} for method in ("batch", "online")
    ],
}

LEFT_OUT = {
    "tests private functions and no estimator": """
        test_dirichlet_expectation test_lda_preplexity_mismatch""",
    "expects scikit-learn's lines of progress (ours is a bar; own test)": "test_verbosity",
    "expects exp_dirichlet_component_, a private intermediate without an underscore": """
        test_lda_dtype_match""",
}


@pytest.mark.slow_for("test_lda_empty_docs-0", "test_lda_empty_docs-1")
@pytest.mark.parametrize("name, arguments", runs_of(TESTS))
def test_of_latent_dirichlet_allocation(name, arguments, monkeypatch):
    monkeypatch.setattr(theirs, "LatentDirichletAllocation", LatentDirichletAllocation)
    run(theirs, name, arguments)


def test_each_is_run_or_left_out_for_a_reason():
    if not sklearn.__version__.startswith("1.9."):
        pytest.skip("the lists are those of scikit-learn 1.9")
    named = [*TESTS, *" ".join(LEFT_OUT.values()).split()]
    assert sorted(named) == sorted(name for name in vars(theirs) if name.startswith("test_"))
