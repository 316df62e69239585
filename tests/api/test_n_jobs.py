"""``n_jobs``: the same bits however many threads, and nothing of the process is touched."""

import inspect
import os
import pickle
import threading
import time

import numba
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPRegressorPMD,
)
from skpmd._runtime.threads import by_rows, each, in_order, n_threads, ranges, threads
from skpmd.engine import smc
from skpmd.mixture import _likelihood, _model

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 3))
BINARY = (X @ [1.0, -0.5, 0.2] + rng.logistic(size=len(X)) > 0).astype(int)
CLASSES = np.digitize(X[:, 0] + rng.logistic(size=len(X)), [-1.0, 1.0])
TARGET = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
COUNTS = rng.poisson(0.3, (300, 40))


def log_likelihood(theta, X, y):
    error = y - theta @ X.T
    return -0.5 * (error**2).sum(axis=1) - 0.5 * len(y) * np.log(2.0 * np.pi)


def log_prior(theta):
    return -0.5 * (theta**2).sum(axis=1) - 1.5 * np.log(2.0 * np.pi)


def sample_prior(rng, m):
    return rng.standard_normal((m, 3))


def custom(**params):
    return ParticleMirrorDescent(log_likelihood, log_prior, sample_prior, random_state=0, **params)


def made(kind, *args, **params):
    return kind(*args, random_state=0, **params)


# An estimator, data of several blocks, and what predicts.
CASES = {
    "logistic": (made(BayesianLogisticRegressionPMD), (X, BINARY), "predict_proba"),
    "logistic, moves": (
        made(BayesianLogisticRegressionPMD, moves="always", n_particles=400),
        (X, BINARY),
        "predict_proba",
    ),
    "logistic, steps": (
        made(BayesianLogisticRegressionPMD, proposal="prior", max_iter=2, n_particles=1500),
        (X, BINARY),
        "predict_proba",
    ),
    "logistic, diagonal": (
        made(BayesianLogisticRegressionPMD, covariance_type="diag"),
        (X, BINARY),
        "predict_proba",
    ),
    "multinomial": (
        made(BayesianLogisticRegressionPMD, n_particles=1000),
        (X, CLASSES),
        "predict_proba",
    ),
    "mixture": (
        made(GaussianMixturePMD, 4, strategy="conjugate", n_particles=20, batch_size=1000),
        (X,),
        "predict_proba",
    ),
    "mixture, diagonal": (
        made(GaussianMixturePMD, 4, covariance_type="diag", n_particles=20, batch_size=1000),
        (X,),
        "predict_proba",
    ),
    "mixture, parameters": (
        made(GaussianMixturePMD, 2, strategy="parameters", n_particles=150),
        (X[:150, :2],),
        "predict_proba",
    ),
    "process": (
        made(SparseGPRegressorPMD, n_inducing=50, n_subset=200, batch_size=500, n_refine=1500),
        (X, TARGET),
        "predict",
    ),
    "process, particles": (
        made(SparseGPRegressorPMD, n_inducing=30, n_subset=100, n_particles=3, n_refine=0),
        (X, TARGET),
        "predict",
    ),
    "topics": (made(LDATopicModelPMD, 5, n_particles=3), (COUNTS,), "transform"),
    "topics, one particle": (made(LDATopicModelPMD, 5, n_particles=1), (COUNTS,), "transform"),
    "custom": (custom(), (X, TARGET), None),
    "custom, steps": (custom(proposal="prior", max_iter=2), (X, TARGET), None),
}
STREAMS = ("logistic", "logistic, steps", "multinomial", "mixture", "process", "topics", "custom")


def arrays_of(estimator, predict, data):
    """All that a fit has come to: histories, particles, predictions."""
    found = [estimator.history_[name] for name in sorted(getattr(estimator, "history_", {}))]
    posterior = getattr(estimator, "posterior_", None)
    found += [v for v in vars(posterior).values() if isinstance(v, np.ndarray)] if posterior else []
    if isinstance(estimator, SparseGPRegressorPMD):
        found += [estimator.kernel_.theta, estimator.inducing_]
    return found + ([getattr(estimator, predict)(data[0])] if predict else [])


def assert_equal(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def small_blocks(monkeypatch):
    """Few particles of a mixture are one block, which no thread would share."""
    monkeypatch.setattr(smc, "_PART", 50)
    monkeypatch.setattr(_model, "_PART", 50)
    monkeypatch.setattr(_likelihood, "_BLOCK", 1 << 14)


@pytest.mark.slow_but("custom")
@pytest.mark.parametrize("name", CASES)
def test_a_fit_has_the_same_bits(name, small_blocks):
    estimator, data, predict = CASES[name]
    answers = []
    with threadpool_limits(1):
        for n_jobs in (None, 3):  # Streams have two.
            fitted = clone(estimator).set_params(n_jobs=n_jobs).fit(*data)
            answers.append(arrays_of(fitted, predict, data))
    assert answers[0]
    assert_equal(*answers)


@pytest.mark.slow_but("custom")
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_the_same_bits(name):
    estimator, data, predict = CASES[name]
    more = {"classes": np.unique(data[1])} if predict == "predict_proba" and data[1:] else {}
    answers = []
    with threadpool_limits(1):
        for n_jobs in (1, 2):
            fitted = clone(estimator).set_params(n_jobs=n_jobs)
            for rows in (slice(0, 1500), slice(1500, None)):
                fitted.partial_fit(*(one[rows] for one in data), **more)
                if len(data[0]) <= 1500:
                    break
            answers.append(arrays_of(fitted, predict, data))
    assert_equal(*answers)


@pytest.mark.parametrize(
    "kind",
    dict.fromkeys(type(case[0]) for case in CASES.values()),
    ids=lambda kind: kind.__name__,
)
def test_it_is_a_parameter_with_the_same_words_everywhere(kind):
    assert inspect.signature(kind).parameters["n_jobs"].default is None
    texts = map(inspect.getdoc, (kind, BayesianLogisticRegressionPMD))
    one, other = (text.partition("\nn_jobs : ")[2].partition("\nrandom_")[0] for text in texts)
    assert one and one == other


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all"])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    with pytest.raises(ValueError, match="n_jobs"):
        GaussianMixturePMD(n_jobs=n_jobs).fit(X[:50])


def test_settings_of_the_process_are_left_alone():
    def settings():
        libraries = [(one["filepath"], one["num_threads"]) for one in threadpool_info()]
        return numba.get_num_threads(), sorted(libraries), dict(os.environ), np.geterr()

    estimator, data, _ = CASES["logistic"]
    settings()  # Numba's layer of threads is loaded when it is first asked.
    before, alive = settings(), threading.active_count()
    fitted = clone(estimator).set_params(n_jobs=3).fit(*data)
    assert settings() == before
    assert threading.active_count() == alive  # None is left behind.
    assert n_threads() == 1
    pickle.loads(pickle.dumps(fitted)).predict(X[:5])


class Failure(Exception):
    pass


def failing(after):
    """A log-likelihood that raises in the thread of some later call."""
    calls = []

    def function(theta, X, y):
        calls.append(threading.get_ident())
        if len(calls) > after:
            raise Failure
        return log_likelihood(theta, X, y)

    return function


def test_an_error_in_a_thread_leaves_a_stream_as_it_was():
    pmd = custom(n_jobs=2, n_particles=500).partial_fit(X[:1000], TARGET[:1000])
    before = pmd.posterior_.particles.copy(), pmd.history_
    pmd.set_params(log_likelihood=failing(1))
    with pytest.raises(Failure):
        pmd.partial_fit(X[1000:], TARGET[1000:])
    np.testing.assert_array_equal(pmd.posterior_.particles, before[0])
    np.testing.assert_equal(pmd.history_, before[1])
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")]


# ---------------------------------------------------------------------- the helper itself
def test_results_come_in_the_order_of_the_items():
    def slow(k):
        time.sleep(0.002 * (k % 3))
        return k, threading.get_ident()

    with threads(3):
        for results in (each(slow, range(20)), list(in_order(slow, iter(range(60))))):
            assert [k for k, _ in results] == list(range(len(results)))
            assert len({ident for _, ident in results}) == 3


def test_threads_that_are_free_help_inside():
    caller = threading.get_ident()

    def inner(k):
        time.sleep(0.01)
        return threading.get_ident()

    def outer(k):
        return each(inner, range(12 if threading.get_ident() == caller else 1))

    with threads(2):
        longest = max(each(outer, range(2)), key=len)
    assert len(set(longest)) == 2


def test_threads_see_what_numpy_is_to_ignore():
    with threads(2), np.errstate(divide="ignore"):
        found = each(lambda k: 1.0 / np.zeros(1), range(8))
    assert np.isinf(found).all()


def test_work_that_may_be_cut_anywhere():
    with threads(3):
        assert ranges(10) == [(0, 3), (3, 6), (6, 10)]
        assert ranges(10, 4) == [(0, 5), (5, 10)]
        assert ranges(3, 4) == [(0, 3)]
        a = np.arange(12.0).reshape(6, 2)
        np.testing.assert_array_equal(by_rows(np.sqrt, a), np.sqrt(a))
        one, other = by_rows(lambda x, y: (x + 1, y), a, a)
        np.testing.assert_array_equal(one, other + 1)
        assert each(lambda k: threading.get_ident(), range(5), worth=False) == 5 * [
            threading.get_ident()
        ]
    assert ranges(10) == [(0, 10)] and n_threads() == 1
