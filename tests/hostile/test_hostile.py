"""Any order of calls with any input, for each estimator.

By default some sixty cases for each, the same ones every time. 5,000 others, at random::

    python -m pytest -m slow tests/hostile
"""

import inspect
import linecache
import pickle
import signal
import threading
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skpmd
from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from tests.hostile import inputs
from tests.tools.exact_models import NORMAL_MEAN, normal_log_likelihood

SECONDS = 60  # No call on such tiny data takes more CPU time.
MEANT_BY = tuple(str(Path(package.__file__).parent) for package in (skpmd, sklearn))
SAID_BY_OTHERS = "convert", "a real number", "complex", "unique column names"
SMALL = {"random_state": 0}


def quiet_log_likelihood(theta, X, y, sample_weight=None):
    """What overflows in a user's function is the user's."""
    with np.errstate(all="ignore"):
        return normal_log_likelihood(theta, X, y, sample_weight)


QUIET = {**NORMAL_MEAN, "log_likelihood": quiet_log_likelihood}
# Estimators, and what their targets are.
KINDS = {
    "logistic": (
        BayesianLogisticRegressionPMD, {"n_particles": 200, **SMALL}, "0, 1", inputs.LABELS
    ),
    "process": (SparseGPRegressorPMD, {"n_inducing": 8, **SMALL}, "plain", inputs.TARGETS),
    "classes of a process": (
        SparseGPClassifierPMD, {"n_inducing": 8, "n_subset": 20, **SMALL}, "0, 1", inputs.LABELS
    ),
    "mixture": (GaussianMixturePMD, {"n_components": 2, "n_particles": 4, **SMALL}, "none", None),
    "topics": (LDATopicModelPMD, {"n_components": 2, "n_particles": 2, **SMALL}, "none", None),
    "custom": (ParticleMirrorDescent, {**QUIET, "n_particles": 200, **SMALL}, "none", None),
}  # fmt: skip
# Functions are no matter of values; a second thread is that of another test.
FIXED = {*NORMAL_MEAN, "log_joint_gradient", "n_jobs", "verbose", "optimizer"}
# Methods that ask of rows, without randomness, and what else they take.
QUERIES = {
    **dict.fromkeys(
        ("predict", "predict_proba", "decision_function", "transform", "score_samples",
         "predict_interval", "predict_proba_interval"),
        (),
    ),
    "predict_quantiles": ([0.1, 0.9],),
}  # fmt: skip


def calls(name):
    """A strategy: parameters, the number of columns, and a list of calls."""
    kind, _, usual, targets = KINDS[name]
    rows = inputs.tables(positive=name == "topics")
    target = inputs.mostly(usual, targets) if targets else st.just(None)
    parameters = inputs.parameters(kind, FIXED)
    fit = st.tuples(
        st.sampled_from(["fit", "partial_fit"]),
        rows,
        target,
        inputs.mostly("none", inputs.WEIGHTS),
    )
    call = st.one_of(
        fit,
        st.tuples(st.just("set_params"), parameters),
        st.tuples(st.just("query"), rows, st.booleans()),
        st.tuples(st.just("pickle")),
    )
    return st.tuples(
        parameters, st.integers(1, inputs.MAX_COLUMNS), st.tuples(fit), st.lists(call, max_size=3)
    )


def check(name, case):
    """Run the calls; AssertionError where one ends in anything but what it should."""
    parameters, p, first, others = case
    kind, usual, _, targets = KINDS[name]
    estimator = kind(**{**usual, **parameters})
    for call, *arguments in (*first, *others):
        if call == "set_params":
            estimator.set_params(**arguments[0])
        elif call == "pickle":
            estimator = pickle.loads(pickle.dumps(estimator))
        elif call == "query":
            rows, wrong_columns = arguments
            ask(estimator, inputs.table(p + wrong_columns, **rows))
        elif hasattr(estimator, call):  # Some parameters have no streams.
            fit(getattr(estimator, call), estimator, p, targets, *arguments)


def fit(method, estimator, p, targets, rows, target, weights):
    """One call of fit or partial_fit, which fails wholly or not at all."""
    X = inputs.table(p, **rows)
    keywords = {}
    if "sample_weight" in inspect.signature(method).parameters:
        keywords["sample_weight"] = inputs.of(rows, inputs.WEIGHTS, weights, rows["n"])
    arguments = [X]
    if targets:
        arguments.append(inputs.of(rows, targets, target, rows["n"]))
    if method.__name__ == "partial_fit" and targets is inputs.LABELS:
        y = arguments[1]
        keywords["classes"] = None if y is None or hasattr(estimator, "classes_") else _unique(y)
    before = state(estimator)
    if not meant(lambda: method(*arguments, **keywords)):
        assert state(estimator) == before, "a call that failed has left something behind"
        return
    ask(estimator, X)


def _unique(y):
    try:
        return np.unique(np.asarray(y))
    except TypeError:  # Text and numbers have no order.
        return None


def state(estimator):
    """What an estimator is, but for its parameters."""
    own = {k: v for k, v in vars(estimator).items() if k not in estimator.get_params(deep=False)}
    return joblib.hash(pickle.dumps(own))


def ask(estimator, X):
    """All queries of rows: finite answers, or errors that are meant."""
    for name, others in QUERIES.items():
        method, found = getattr(estimator, name, None), []
        if method is None or not meant(partial(answer, found, method, X, *others)):
            continue
        parts = found[0] if isinstance(found[0], tuple) else found
        for part in parts:
            values = np.asarray(getattr(part, "loc", part))
            if values.dtype.kind == "f":
                assert np.isfinite(values).all(), f"{name} has {values[~np.isfinite(values)][:3]}"
            if name == "predict_proba" and values.ndim == 2 and part is values:
                assert np.abs(values.sum(axis=1) - 1.0).max(initial=0.0) < 1e-6, name
                assert values.min(initial=0.0) >= 0.0, name


def answer(found, method, *arguments):
    found.append(method(*arguments))


def meant(call):
    """Whether a call succeeds; where it fails, ValueError and the like that somebody wrote down."""
    with in_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            call()
        except (ValueError, TypeError, AttributeError, FloatingPointError) as error:
            assert is_meant(error), f"{type(error).__name__} that nobody meant: {error}"
            return False
    return True


def is_meant(error):
    """Whether skpmd or scikit-learn raises an error, and not an operation in it.

    Conversions by other libraries speak for themselves: "could not convert string to float: 'a'".
    """
    frame, place = error.__traceback__, None
    while frame is not None:
        own = frame.tb_frame.f_code.co_filename, frame.tb_lineno
        place = own if own[0].startswith(MEANT_BY) else place
        frame = frame.tb_next
    raised = place is not None and linecache.getline(*place).strip().startswith("raise")
    return raised or any(words in str(error) for words in SAID_BY_OTHERS)


@contextmanager
def in_time():
    """Context that ends a call which takes too long."""

    def too_long(*_):
        raise AssertionError(f"no answer within {SECONDS} CPU seconds")

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGPROF"):
        yield
        return
    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


FREE = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.mark.parametrize("name", KINDS)
def test_calls_end_well(name):
    @settings(max_examples=60, derandomize=True, **FREE)
    @given(calls(name))
    def run(case):
        check(name, case)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_thousands_of_calls_end_well(name):
    @settings(max_examples=5000, **FREE)
    @given(calls(name))
    def run(case):
        check(name, case)

    run()
