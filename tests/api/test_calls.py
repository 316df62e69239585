"""What holds for the calls of every estimator: parameters, failures, numbers of draws, tables."""

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd._base import steps
from skpmd._base.validation import encode_known, naming_singular_columns
from skpmd._rows import opening
from skpmd.data import Blocks
from skpmd.linear import GaussianPosterior
from skpmd.posterior import Posterior
from skpmd.predictive import NormalMixture
from tests.tools.exact_models import NORMAL_MEAN

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
LABELS, TARGET = (X[:, 0] > 0).astype(int), X @ [1.0, -1.0] + RNG.normal(size=30)
COUNTS = RNG.poisson(1.0, size=(30, 8)).astype(float)
KERNEL = RBF() + WhiteKernel()
MIXTURE = {"strategy": "conjugate", "n_particles": 2}
ESTIMATORS = {
    "logistic": (BayesianLogisticRegressionPMD(random_state=0), X, LABELS),
    "process": (SparseGPRegressorPMD(KERNEL, random_state=0, optimizer=None), X, TARGET),
    "mixture": (GaussianMixturePMD(2, random_state=0, **MIXTURE), X, None),
    "topics": (LDATopicModelPMD(2, random_state=0, max_iter=5), COUNTS, None),
    "custom": (ParticleMirrorDescent(**NORMAL_MEAN, random_state=0), X[:, :1], None),
}
each = pytest.mark.parametrize("name", ESTIMATORS)


def made(name):
    estimator, data, y = ESTIMATORS[name]
    return clone(estimator), data, y


def first_part(name):
    estimator, data, y = made(name)
    classes = {"classes": [0, 1]} if name == "logistic" else {}
    return estimator.partial_fit(data, y, **classes), data, y


# ------------------------------------------------------------------------------------ parameters
BAD = {"n_jobs": 0, "step_size": -1.0, "batch_size": 0, "verbose": "loud", "step_decay": np.nan}


@each
@pytest.mark.parametrize("parameter", BAD)
def test_parameters_that_are_set_between_parts_are_checked(name, parameter):
    """scikit-learn checks those of the first call alone: ``ess_threshold=nan`` went on for ever."""
    estimator, data, y = first_part(name)
    before = estimator._state
    estimator.set_params(**{parameter: BAD[parameter]})
    message = re.escape(f"Got {BAD[parameter]!r} instead")
    with pytest.raises(ValueError, match=f"The .{parameter}. parameter of .*{message}"):
        estimator.partial_fit(data, y)
    assert estimator._state is before


@each
def test_a_fit_that_fails_leaves_the_one_before(name):
    estimator, data, y = made(name)
    estimator.fit(data, y)
    before = dict(vars(estimator))
    broken = data.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(broken, y)
    assert vars(estimator) == before


# ---------------------------------------------------------------------------------------- tables
class Lazy:
    """Rows that are yet to come, as those of polars are."""

    def collect(self):
        return X


@each
@pytest.mark.parametrize(
    "bad, error, remedy",
    [
        (None, ValueError, "X is None: give an array"),
        (iter([[0.0]]), TypeError, "X is a list_iterator, .* call partial_fit"),
        (Lazy(), TypeError, r"X is a Lazy, .* give X\.collect\(\)"),
    ],
    ids=["None", "iterator", "lazy"],
)
def test_what_is_no_table_is_refused_with_a_remedy(name, bad, error, remedy):
    estimator, _, y = made(name)
    if bad is not None or name != "custom":  # A model of one's own may have no data.
        with pytest.raises(error, match=remedy):
            estimator.fit(bad, y)
    with pytest.raises(error, match=remedy):
        estimator.partial_fit(bad, y)
    if name == "process":  # Before a fit it predicts from its prior.
        with pytest.raises(error, match=remedy):
            estimator.predict(bad)


@pytest.mark.parametrize("name", ["logistic", "process", "mixture"])
@pytest.mark.parametrize("size", [1e155, 1e300])
def test_numbers_whose_squares_overflow_are_refused(name, size):
    estimator, data, y = made(name)
    with pytest.raises(ValueError, match=r"X holds numbers as large as .*scale it"):
        estimator.fit(data * size, y)


@pytest.mark.parametrize("far", [1e150, 1e300])
def test_numbers_that_overflow_in_the_units_of_a_fit_are_said_to(far):
    fitted = BayesianLogisticRegressionPMD(n_particles=200, random_state=0).fit(X * 1e-12, LABELS)
    for call in (fitted.predict_proba, lambda rows: fitted.partial_fit(rows, LABELS)):
        with pytest.raises(
            ValueError, match=r"X in the units of the fit .* as 1?2?[.0-9]+e[+]\d+,"
        ):
            call(X * far)


def test_numbers_whose_squares_overflow_in_single_precision_are_refused():
    far = (X * 1e20).astype(np.float32)
    with pytest.raises(ValueError, match=r"X holds numbers as large as .*scale it"):
        BayesianLogisticRegressionPMD(scale=None).fit(far, LABELS)
    here, there = (
        BayesianLogisticRegressionPMD(n_particles=200, random_state=0).fit(rows, LABELS)
        for rows in (X, far)
    )
    np.testing.assert_allclose(there.predict_proba(far), here.predict_proba(X), atol=1e-5)


def test_logits_beyond_the_precision_of_moves_are_refused():
    """Rows of 5e22 took 25 s, and their chains never met."""
    with pytest.raises(ValueError, match=r"X holds numbers as large as .*scale it"):
        BayesianLogisticRegressionPMD(scale=None).fit(X * 1e14, LABELS)
    fitted = BayesianLogisticRegressionPMD(n_particles=200, random_state=0).fit(X, LABELS)
    assert np.isfinite(fitted.predict_proba(X * 1e14)).all()


@each
def test_infinities_of_any_sign_are_refused_without_a_warning(name):
    """scikit-learn adds all numbers up to see whether there are any."""
    estimator, data, y = made(name)
    both = data.copy()
    both[:2, 0] = np.inf, -np.inf
    with pytest.raises(ValueError, match="infinity"):
        estimator.fit(both, y)


SHARES = {
    "of one": np.full(30, 1 / 30),
    "of a hundredth": np.full(30, 1e-2 / 30),
    "uneven": (lambda w: w / w.sum())(np.exp(2.0 * np.random.default_rng(1).normal(size=30))),
    "beside none": np.repeat([0.0, 0.05], 15),
}
COPIES = {
    "a tenth": np.full(30, 0.1),
    "none of most": np.repeat([0.0, 1.0], [25, 5]),
    "of the past": 0.7 ** np.arange(30)[::-1],
    "many": np.full(30, 250.0),
    "one row of the past": np.repeat([0.0, 0.02], [29, 1]),
}


def told(call, *args, **kwargs):
    """What a call says of weights."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **kwargs)
    return [str(one.message) for one in caught if "rows sum to" in str(one.message)]


@each
@pytest.mark.parametrize("kind", SHARES)
def test_weights_that_are_shares_are_warned_of_once(name, kind):
    estimator, data, y = made(name)
    weight = SHARES[kind]
    (message,) = told(estimator.fit, data, y, sample_weight=weight)
    n = np.count_nonzero(weight)
    assert f"weights of {n} rows sum to {weight.sum():.3g}." in message
    assert f"multiply them by {n / weight.sum():.3g}" in message
    stream, classes = made(name)[0], {"classes": [0, 1]} if name == "logistic" else {}
    counts = [
        len(told(stream.partial_fit, data, y, sample_weight=weight, **classes)) for _ in range(2)
    ]
    assert counts == [1, 0]
    assert not told(estimator.fit, data, y, sample_weight=weight * n / weight.sum())


@each
def test_weights_that_may_be_numbers_of_rows_are_not_warned_of(name):
    for weight in COPIES.values():
        estimator, data, y = made(name)
        classes = {"classes": [0, 1]} if name == "logistic" else {}
        assert not told(estimator.partial_fit, data, y, sample_weight=weight, **classes)


@pytest.mark.parametrize("class_weight, n", [("balanced", 0), ({0: 0.001, 1: 0.002}, 1)])
def test_weights_of_classes_are_weights_of_rows(class_weight, n):
    model, data, y = made("logistic")
    assert len(told(model.set_params(class_weight=class_weight).fit, data, y)) == n


def test_a_process_that_classifies_counts_rows_too():
    model, weight = SparseGPClassifierPMD(optimizer=None, random_state=0), np.full(30, 1 / 30)
    assert len(told(model.fit, X, LABELS, sample_weight=weight)) == 1
    part = told(clone(model).partial_fit, X, LABELS, classes=[0, 1], sample_weight=weight)
    assert len(part) == 1


def test_data_in_blocks_are_warned_of_once(monkeypatch):
    """A part of a stream in blocks is several parts."""
    monkeypatch.setattr(opening, "group_size", lambda _: 15)
    parts = [(one, None, np.full(15, 1 / 30)) for one in np.split(X, 2)]
    blocks, model = Blocks(parts), made("mixture")[0]
    assert [len(told(call, blocks)) for call in (model.partial_fit, model.partial_fit)] == [1, 0]


def test_labels_without_an_order_are_named():
    y = np.array(["yes", 1] * 15, dtype=object)
    with pytest.raises((TypeError, ValueError), match="types int, str|Unknown label type"):
        BayesianLogisticRegressionPMD().fit(X, y)
    with pytest.raises(TypeError, match="types int, str, which have no order"):
        encode_known(np.array(["yes", 1], dtype=object), np.array([0, 1]))


def test_a_constant_column_is_not_blamed():
    far = np.column_stack([np.ones(30), X * [1.0, 0.5] + 1e12])
    with pytest.raises(ValueError, match="Column 2 of X has the mean"):
        BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(far, LABELS)
    with pytest.raises(ValueError, match="Column 0 of X has the mean 0 "):
        with naming_singular_columns(np.zeros((9, 2))):
            np.linalg.cholesky(-np.eye(2))


def test_targets_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match=r"y holds numbers as large as .*scale it"):
        SparseGPRegressorPMD().fit(X, TARGET * 1e300)
    with pytest.raises(ValueError, match=r"y holds numbers of .* at most, .*scale it"):
        SparseGPRegressorPMD().fit(X, TARGET * 1e-200)


@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("shift", [1e8, 1e10, 1e12])
def test_columns_that_rounding_makes_singular_are_named(shift, container):
    """Time stamps, for example."""
    far = container(X * [1.0, 0.5] + shift)
    for call in ("fit", "partial_fit"):
        classes = {"classes": [0, 1]} if call == "partial_fit" else {}
        with pytest.raises(ValueError, match="Column 1 of X has the mean .*StandardScaler"):
            model = BayesianLogisticRegressionPMD(scale=None, random_state=0)
            getattr(model, call)(far, LABELS, **classes)


@pytest.mark.parametrize("name", ["logistic", "process", "mixture"])
@pytest.mark.parametrize("size", [5e-324, 1e-40, 1e40, 1e300])
def test_weights_that_sums_would_lose_are_refused(name, size):
    estimator, data, y = made(name)
    weight = np.full(len(data), size)
    with pytest.raises(ValueError, match=re.escape(f"largest sample_weight is {size:g}: it must")):
        estimator.fit(data, y, sample_weight=weight)


@pytest.mark.parametrize("name", ["logistic", "process", "mixture"])
def test_weights_of_nothing_beside_others_are_zero(name):
    """Responsibilities and weights that decay are such."""
    estimator, data, y = made(name)
    weight = np.exp(-40.0 * np.arange(len(data)))
    weight[:20] = 1.0
    fitted = estimator.fit(data, y, sample_weight=weight)
    other, _, _ = made(name)
    other.fit(data, y, sample_weight=np.where(weight < 1e-30, 0.0, weight))
    np.testing.assert_array_equal(fitted.posterior_.particles, other.posterior_.particles)


def test_labels_and_numbers_of_less_precision_are_not_too_large():
    """Labels are no numbers, and targets and a mixture's rows are taken in double precision."""
    y = (100 * LABELS).astype(np.float16)
    assert BayesianLogisticRegressionPMD(random_state=0).fit(X, y).classes_.tolist() == [0, 100]
    far = (TARGET + 100.0).astype(np.float16)
    process = SparseGPRegressorPMD(KERNEL, random_state=0, optimizer=None).fit(X, far)
    assert abs(process.predict(X) - 100.0).max() < 10.0
    rows = (X * 1e18).astype(np.float32)
    mixture = GaussianMixturePMD(2, random_state=0, **MIXTURE).fit(rows)
    assert np.isfinite(mixture.score_samples(rows)).all()


# ----------------------------------------------------------------------------------------- draws
@pytest.mark.parametrize("n", [-1, 2.5, "a", None, np.inf, True])
def test_numbers_of_draws_are_checked_alike(n):
    fits = {name: made(name)[0].fit(*ESTIMATORS[name][1:]) for name in ESTIMATORS}
    normal = GaussianPosterior(np.zeros(2), np.ones(2), ["a", "b"])
    one = NormalMixture([[0.0]], [[1.0]])
    draws = {
        "n_samples": [
            lambda: fits["logistic"].sample_y(X, n),
            lambda: fits["logistic"].sample_prior_y(X, n_samples=n),
            lambda: fits["process"].sample_y(X, n),
            lambda: fits["mixture"].sample(n),
            lambda: one.sample(n),
            lambda: fits["custom"].posterior_.sample(n),
            lambda: fits["topics"].posterior_.sample(n),
            lambda: normal.sample(n),
        ],
        "n_draws": [lambda: fits["logistic"].pointwise_log_likelihood(X, LABELS, n_draws=n)],
    }
    if n is None:
        del draws["n_draws"]  # There it stands for all particles.
    for name, calls in draws.items():
        for call in calls:
            with pytest.raises(ValueError, match=f"Invalid value for '{name}': .* an integer"):
                call()


# --------------------------------------------------------------------------------------- results
@pytest.mark.parametrize("size", [1e13, 1e16, 1e300])
def test_large_log_weights_are_normalised(size):
    """Next to 1e16 the log of a sum is lost: the weights of four equal particles summed to .54."""
    for sign in (-1.0, 1.0):
        posterior = Posterior(np.arange(4.0)[:, None], np.full(4, sign * size))
        np.testing.assert_allclose(posterior.weights, 0.25, rtol=1e-14)
        posterior = Posterior(np.arange(2.0)[:, None], np.array([sign * size, -np.inf]))
        np.testing.assert_allclose(posterior.weights, [1.0, 0.0], rtol=1e-14)


def test_probabilities_of_rows_that_count_often_sum_to_one():
    estimator = BayesianLogisticRegressionPMD(random_state=0, moves="never")
    estimator.fit(X, LABELS ^ (TARGET > 1), sample_weight=np.full(30, 1e13))
    np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(estimator.posterior_.weights.sum(), 1.0, rtol=1e-12)


def test_a_large_k_hat_of_nearly_equal_weights_says_so():
    """It is not warned of: the largest of ten times as many weights would still be small."""
    nearly_equal = np.zeros(1000)
    nearly_equal[:5] = 1e-6
    harmless = Posterior(np.zeros((1000, 1)), nearly_equal, pareto_k=0.72)
    assert "pareto_k=0.72 of nearly equal weights" in repr(harmless)
    heavy = Posterior(np.zeros((1000, 1)), 5.0 * nearly_equal * 1e6, pareto_k=0.72)
    assert "pareto_k=0.72)" in repr(heavy)
    unknown = Posterior(np.zeros((20, 1)), np.zeros(20), pareto_k=np.nan)
    assert "pareto_k=nan)" in repr(unknown)


def test_a_level_in_percent_gets_the_share():
    posterior = Posterior(np.arange(4.0)[:, None], np.zeros(4))
    with pytest.raises(ValueError, match=r"got 90\. For 90 % give 0\.9\."):
        posterior.interval(90)


@pytest.mark.parametrize(
    "function", ["log_likelihood", "log_prior", "sample_prior", "log_joint_gradient"]
)
def test_functions_that_cannot_be_called_so_are_named(function):
    problem = {**NORMAL_MEAN, function: lambda: None}
    with pytest.raises(ValueError, match=rf"{function} is called as {function}\(.*takes \(\) now"):
        ParticleMirrorDescent(**problem).fit(X[:, :1])


# --------------------------------------------------------------------------------------- records
@each
def test_the_record_of_a_stream_ends_with_the_last_steps_and_does_not_grow(name, monkeypatch):
    """It was rebuilt at each call and grew: 50 ms a call after 1e5 of them."""
    monkeypatch.setattr(steps, "_MAX_RECORDS", 4)
    estimator, data, y = first_part(name)
    n_before = len(pickle.dumps(estimator))
    for part in np.array_split(np.arange(len(data)), 6):
        estimator.partial_fit(data[part], None if y is None else y[part])
    n = estimator.n_batch_iter_ if name == "topics" else estimator.n_iter_
    assert n >= 7
    for column in estimator.history_.values():
        assert len(column) == 4
    np.testing.assert_array_equal(estimator.history_["step"], np.arange(n - 3, n + 1))
    if name != "mixture":  # Its reservoir retains these rows.
        assert len(pickle.dumps(estimator)) < 4 * n_before


# --------------------------------------------------------------------------------------- pickles
@each
def test_a_pickle_of_another_version_is_warned_of(name):
    fitted, _, _ = first_part(name)
    text = pickle.dumps(fitted)
    assert vars(pickle.loads(text)).keys() == vars(fitted).keys()
    state = fitted.__getstate__()
    del state["_skpmd_version"]
    for changed, version in (
        ({**state, "_skpmd_version": "0.0.1"}, "0.0.1"),
        (state, "0.1.0.dev0 or earlier"),
    ):
        other = type(fitted).__new__(type(fitted))
        with pytest.warns(InconsistentVersionWarning, match=f"saved by skpmd {version} and is"):
            other.__setstate__(changed)
        assert vars(other).keys() == vars(fitted).keys()


@each
def test_a_pickle_holds_no_cache(name):
    """A cache whose keys are bytes kept skops from saving a process."""
    fitted, data, _ = first_part(name)
    before = len(pickle.dumps(fitted))
    query = fitted.transform if name == "topics" else getattr(fitted, "predict", None)
    _ = [fitted.posterior_] if query is None else [query(data)]
    fitted.posterior_.sample(2)
    assert len(pickle.dumps(fitted)) == before


# ---------------------------------------------------------------- parameters that change nothing
@pytest.mark.parametrize("name", ["logistic", "custom"])
def test_parameters_that_change_nothing_are_named(name):
    """A search over ``step_size`` found equal scores, and nothing said why."""
    estimator, data, y = made(name)
    estimator.set_params(step_size=0.1, step_decay=0.5)
    with pytest.warns(
        UserWarning, match=r"step_size=0\.1, step_decay=0\.5 change nothing .* set prop"
    ):
        estimator.fit(data, y)
    estimator.set_params(proposal="prior", n_particles=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(data, y)
    assert estimator.history_["step_size"].min() < 1.0


def test_particles_are_not_more_effective_than_there_are():
    """Chains make thousands of draws for 32 particles; their effective number was 1700."""
    estimator = BayesianLogisticRegressionPMD(n_particles=10, moves="always", random_state=0)
    with pytest.warns(UserWarning, match="n_particles=10 is less than the 32 chains"):
        estimator.fit(X, LABELS ^ (TARGET > 1))
    m = len(estimator.posterior_.particles)
    assert m >= 32 and estimator.posterior_.ess <= m and estimator.diagnostics_["ess"] <= m
    assert estimator.history_["ess"][-1] > m  # There they are those of the chains.
