"""Ctrl-C in a fit keeps the last complete state, on every route; before it nothing changes."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skpmd import SparseGPRegressorPMD
from tests.api.test_max_time import ROUTES, answers

RNG = np.random.default_rng(1)
MANY = RNG.uniform(-2, 2, size=(120, 1))
FORMS = {
    **ROUTES,
    # Inducing inputs, neighbours and both are compared.
    "choice": (
        SparseGPRegressorPMD(n_restarts_optimizer=0),
        MANY,
        np.sin(3 * MANY[:, 0]) + 0.1 * RNG.normal(size=120),
    ),
}


class Interrupting:
    """A listener of all phases that interrupts at one of its events, and counts them."""

    def __init__(self, at=None):
        self.events, self.at = [], at

    def __call__(self, of_fit):
        return [self]

    def _hear(self, event):
        self.events.append(event)
        if len(self.events) - 1 == self.at:
            raise KeyboardInterrupt

    def open(self, name, total):
        self._hear(("open", name))
        return self

    def advance(self, n, text):
        self._hear(("advance", n))

    def write(self, text):
        self._hear(("write", text))

    def tick(self):
        pass

    close = tick


def fit(route, listener, monkeypatch, before=None):
    """The estimator after a call of fit, and whether it has ended with Ctrl-C."""
    estimator, data, y = FORMS[route]
    estimator = clone(estimator).set_params(random_state=0) if before is None else before
    estimator.set_params(verbose=1)  # Nobody listens to others.
    if hasattr(estimator, "verbose_interval"):
        estimator.set_params(verbose_interval=1)
    monkeypatch.setattr("skpmd._base.estimator.listeners_of", listener)
    if route == "choice":  # As if rows were many.
        monkeypatch.setattr("skpmd.sparse_gp._choice.MIN_INDUCING", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator.fit(data) if y is None else estimator.fit(data, y)
        except KeyboardInterrupt:
            return estimator, True
    return estimator, False


def is_complete(route, estimator):
    """Whether the estimator predicts, in finite numbers."""
    if route == "choice":
        estimator.posterior_.mean()
        return np.isfinite(estimator.predict(MANY[:5], return_std=True)).all()
    return all(np.isfinite(one).all() for one in answers(route, estimator))


@pytest.mark.slow_but("mixture", "values", "weights")
@pytest.mark.parametrize("route", FORMS)
def test_ctrl_c_keeps_the_last_state_or_changes_nothing(route, monkeypatch):
    for _ in range(2):  # The first compiles kernels, which is a phase, too.
        listener = Interrupting()
        whole, interrupted = fit(route, listener, monkeypatch)
    assert not interrupted and is_complete(route, whole)
    n = len(listener.events)
    unchanged = pickle.dumps(clone(whole).__dict__)
    places = sorted({0, n // 3, 2 * n // 3, n - 1})
    kept = []
    for at in places:
        estimator, interrupted = fit(route, Interrupting(at), monkeypatch)
        assert interrupted, at
        if hasattr(estimator, "_state"):
            kept.append(at)
            assert is_complete(route, estimator), at
            assert not estimator.out_of_time_
            if hasattr(estimator, "diagnostics_"):
                assert estimator.diagnostics_["interrupted"]
        else:
            assert pickle.dumps(estimator.__dict__) == unchanged, at
    assert kept == places[len(places) - len(kept) :]  # Once there is a state it stays.


@pytest.mark.slow_for("choice-comparison with inducing inputs", "draws-moves")
@pytest.mark.parametrize(
    "route, name",
    [
        ("weights", "normal logits for predictions"), ("mixture", "weights for predictions"),
        ("topics, priors", "perplexity"), ("choice", "comparison with inducing inputs"),
        ("moves", "Hamiltonian moves"),
        ("draws", "moves"),
    ],
)  # fmt: skip
def test_work_around_a_fit_that_is_complete_is_not_needed(route, name, monkeypatch):
    """The last phase of that name is interrupted, and the fit before it stays."""
    for _ in range(2):  # The first compiles kernels, which is a phase, too.
        listener = Interrupting()
        fit(route, listener, monkeypatch)
    last = max(i for i, event in enumerate(listener.events) if event == ("open", name))
    estimator, interrupted = fit(route, Interrupting(last), monkeypatch)
    assert interrupted and is_complete(route, estimator)


@pytest.mark.slow_but("values")
@pytest.mark.parametrize("route", ["evidence", "process", "classes", "values"])
def test_ctrl_c_before_a_state_leaves_the_fit_before(route, monkeypatch):
    estimator, _ = fit(route, Interrupting(), monkeypatch)
    before = pickle.dumps(estimator.posterior_.mean())
    estimator, interrupted = fit(route, Interrupting(1), monkeypatch, estimator)
    assert interrupted and pickle.dumps(estimator.posterior_.mean()) == before
