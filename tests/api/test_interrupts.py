"""Ctrl-C at any line of a call of a stream: the estimator stays as it was."""

import copy
import pickle
import sys
from contextvars import copy_context
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest

import skpmd
from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.engine.loop import Outcome, drive
from tests.tools.exact_models import NORMAL_MEAN

HOME = str(Path(skpmd.__file__).parent)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
LABELS, TARGET = (X[:, 0] > 0).astype(int), X @ [1.0, -1.0] + RNG.normal(size=40)
COUNTS = RNG.poisson(1.0, size=(40, 8)).astype(float)
TOPICS = {"n_components": 2, "n_particles": 2, "random_state": 0}
CASES = {
    "logistic": (BayesianLogisticRegressionPMD(n_particles=200, random_state=0), X, LABELS),
    "numbers": (BayesianGLMRegressorPMD(n_particles=200, random_state=0), X, TARGET),
    "process": (SparseGPRegressorPMD(random_state=0, optimizer=None), X, TARGET),
    "classes of a process": (
        SparseGPClassifierPMD(random_state=0, optimizer=None, n_subset=1), X, LABELS
    ),
    "mixture": (GaussianMixturePMD(2, n_particles=2, random_state=0), X, None),
    "draws": (
        GaussianMixturePMD(2, strategy="parameters", n_particles=20, random_state=0), X, None
    ),
    "topics": (LDATopicModelPMD(**TOPICS), COUNTS, None),
    "topics, priors": (LDATopicModelPMD(**TOPICS, learn_priors=True), COUNTS, None),
    "topics, weights": (LDATopicModelPMD(**TOPICS, weighting="posterior"), COUNTS, None),
    "topics, threads": (LDATopicModelPMD(**TOPICS, n_jobs=2), COUNTS, None),
    "custom": (ParticleMirrorDescent(**NORMAL_MEAN, n_particles=200, random_state=0), X, None),
}  # fmt: skip
# By default one of so many lines of topics is interrupted, with the slow tests each of all.
EVERY = 6
few = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def first_part(name):
    estimator, data, y = CASES[name]
    estimator = type(estimator)(**estimator.get_params())
    classes = {"classes": [0, 1]} if y is LABELS else {}
    return estimator.partial_fit(data[:20], y if y is None else y[:20], **classes)


def second_part(estimator, name):
    _, data, y = CASES[name]
    return estimator.partial_fit(data[20:], y if y is None else y[20:])


def lines_of(call):
    """Places in skpmd, (file, line), that a call executes in this thread, in their order."""
    seen = {}

    def trace(frame, event, arg):
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            seen.setdefault((frame.f_code.co_filename, frame.f_lineno))
        return trace

    _traced(call, trace)
    return list(seen)


def interrupted_at(place, call):
    """The call with Ctrl-C when a line is first reached; whether it ended with that."""
    left = [place]

    def trace(frame, event, arg):
        if not left or not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line" and (frame.f_code.co_filename, frame.f_lineno) == place:
            left.clear()
            raise KeyboardInterrupt
        return trace

    try:
        _traced(call, trace)
    except KeyboardInterrupt:
        return True
    return False


def _traced(call, trace):
    """The call in a context of its own: Ctrl-C may come before it has taken back what it set."""
    before, context = sys.gettrace(), copy_context()
    sys.settrace(trace)
    try:
        context.run(call)
    finally:
        sys.settrace(before)


def check(name, places):
    estimator = first_part(name)
    second_part(copy.deepcopy(estimator), name)  # What is compiled is no part of this.
    before = pickle.dumps(estimator)
    for place in places:
        if interrupted_at(place, partial(second_part, estimator, name)):
            assert pickle.dumps(estimator) == before, place
        else:  # Which lines the caller's thread takes is up to the other one.
            assert estimator.n_jobs == 2, place
            estimator = pickle.loads(before)
            before = pickle.dumps(estimator)


@few
def test_ctrl_c_leaves_topics_as_they_were(name="topics"):
    estimator = first_part(name)
    places = lines_of(lambda: second_part(estimator, name))
    assert len(places) > 100
    last = [place for place in places if place[0].endswith(("_estimator.py", "estimator.py"))]
    check(name, [*places[::EVERY], *last[-12:]])


@few
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ctrl_c_at_any_line_leaves_the_estimator_as_it_was(name):
    estimator = first_part(name)
    check(name, lines_of(lambda: second_part(estimator, name)))


@pytest.mark.parametrize("name", ["logistic", "custom"])
def test_ctrl_c_inside_a_compiled_function_is_ctrl_c(name, monkeypatch):
    """Numba's functions return with it, and Python makes that a SystemError."""
    estimator = first_part(name)
    before = pickle.dumps(estimator)

    def compiled(*args, **options):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("skpmd.engine.mirror.step", compiled)
    with pytest.raises(KeyboardInterrupt):
        second_part(estimator, name)
    monkeypatch.undo()
    assert pickle.dumps(estimator) == before


def test_what_is_done_stays_if_ctrl_c_is_inside_a_compiled_function():
    def outcomes():
        yield Outcome("first", ["record"])
        try:
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
        except SystemError as error:
            raise SystemError("returned a result with an exception set") from error

    found = drive(outcomes())
    assert found.interrupted and found.particles == "first" and found.infos == ["record"]

    def broken():
        yield Outcome("first", [])
        raise SystemError("of another kind")

    with pytest.raises(SystemError, match="of another kind"):
        drive(broken())


@pytest.mark.slow  # compiles for types of its own
def test_topics_from_a_memory_mapped_pickle_go_on(tmp_path):
    """Their counts change in place, which the map does not allow."""
    estimator = first_part("topics")
    joblib.dump(estimator, tmp_path / "topics.joblib")
    mapped = joblib.load(tmp_path / "topics.joblib", mmap_mode="r")
    for one in (estimator, mapped):
        second_part(one, "topics")
    np.testing.assert_array_equal(mapped.components_, estimator.components_)
