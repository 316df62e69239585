"""scikit-learn's callbacks: a fit is a task, its phases and their steps are tasks in it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD, LDATopicModelPMD
from tests.api.test_max_time import COUNTS, LABELS, ROUTES, X, answers

callback = pytest.importorskip("sklearn.callback")


class Recorder:
    """Notes tasks as (name, name of the parent); may stop a fit after so many steps."""

    def __init__(self, stop_after=None):
        self.begun, self.ended, self.scores = [], [], []
        self.n_steps, self.stop_after, self.n_torn_down = 0, stop_after, 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.n_torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, getattr(context.parent, "task_name", None)))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.ended.append((context.task_name, getattr(context.parent, "task_name", None)))
        self.n_steps += context.task_name == "step"
        if context.parent is None and hasattr(fitted_estimator, "predict"):
            self.scores.append(fitted_estimator.score(X, y))
        return self.n_steps == self.stop_after


class Propagated(Recorder):
    """One that meta-estimators hand on."""

    max_propagation_depth = None


def fit(estimator, data, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(data) if y is None else estimator.fit(data, y)


@pytest.mark.slow_but("diagonal", "mixture", "moves", "steps", "values", "values, steps", "weights")
@pytest.mark.parametrize("route", ROUTES)
def test_every_fit_has_tasks_that_end(route):
    estimator, data, y = ROUTES[route]
    recorder = Recorder()
    called = fit(clone(estimator).set_params(random_state=0).set_callbacks(recorder), data, y)
    assert sorted(recorder.begun, key=str) == sorted(recorder.ended, key=str)
    assert recorder.begun[0] == recorder.ended[-1] == ("fit", None) and recorder.n_torn_down == 1
    names = {name for name, parent in recorder.begun if parent == "fit"}
    assert names and "step" not in names
    assert ("step", "fit") not in recorder.begun
    alone = fit(clone(estimator).set_params(random_state=0), data, y)
    for one, other in zip(answers(route, called), answers(route, alone), strict=True):
        np.testing.assert_array_equal(one, other)


def test_steps_are_tasks_of_their_phase():
    recorder = Recorder()
    lda = LDATopicModelPMD(2, batch_size=20, max_iter=2, random_state=0).set_callbacks(recorder)
    fit(lda, COUNTS, None)
    assert recorder.begun.count(("step", "mirror steps")) == lda.n_batch_iter_ == 6


def test_a_callback_ends_a_fit_in_good_order():
    recorder = Recorder(stop_after=2)
    lda = LDATopicModelPMD(2, batch_size=20, random_state=0).set_callbacks(recorder)
    with pytest.warns(match="a callback ended the fit after 2 steps"):
        lda.fit(COUNTS)
    assert lda.n_batch_iter_ == 2 and lda.out_of_time_
    assert np.isfinite(lda.transform(COUNTS)).all()


def test_a_fitted_estimator_reaches_the_callback():
    recorder = Recorder()
    estimator = BayesianLogisticRegressionPMD(random_state=0).set_callbacks(recorder)
    estimator.fit(X, LABELS)
    assert recorder.scores == [estimator.score(X, LABELS)]
    monitor = callback.ScoringMonitor(scoring="accuracy")
    BayesianLogisticRegressionPMD(random_state=0).set_callbacks(monitor).fit(X=X, y=LABELS)


def test_an_error_in_a_callback_undoes_the_fit():
    class Broken(Recorder):
        def on_fit_task_begin(self, estimator, context):
            if context.parent is not None:
                raise RuntimeError("broken")

    broken = Broken()
    estimator = BayesianLogisticRegressionPMD(random_state=0).set_callbacks(broken)
    with pytest.raises(RuntimeError, match="broken"):
        estimator.fit(X, LABELS)
    assert not hasattr(estimator, "_state") and broken.n_torn_down == 1
    assert not hasattr(estimator, "_callback_fit_ctx")


def test_pipelines_and_searches_hand_callbacks_on():
    recorder = Propagated()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0)),
        {"bayesianlogisticregressionpmd__prior_scale": [0.5, 2.0]}, cv=2,
    ).set_callbacks(recorder)  # fmt: skip
    search.fit(X, LABELS)
    assert (
        sum(name == "rounds" for name, _ in recorder.begun) == 5
    )  # Two folds of two, and a refit.
    assert recorder.n_torn_down == 1


def test_a_warning_points_at_the_caller():
    with pytest.warns() as seen:
        BayesianLogisticRegressionPMD(moves="never", n_particles=20, random_state=0).fit(X, LABELS)
    assert all(one.filename == __file__ for one in seen)
