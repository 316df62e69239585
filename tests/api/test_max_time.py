"""A fit with a limit of its time ends at its first complete state, and says so."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    ParticleMirrorDescent,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
)
from skpmd.proposals.ensemble_moves import EnsembleMoves
from tests.tools.exact_models import NORMAL_MEAN

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
LABELS = (X[:, 0] + RNG.logistic(size=60) > 0).astype(int)
TARGET = X @ [1.0, -1.0] + RNG.normal(size=60)
COUNTS = RNG.poisson(1.0, size=(60, 8)).astype(float)
FEW = {"n_particles": 200}


def downhill(objective, start, bounds):
    """An optimizer of a user's own."""
    places = [start + step for step in np.linspace(0.0, 1.0, 5)]
    values = [objective(one, eval_gradient=False) for one in places]
    return places[int(np.argmin(values))], min(values)


ROUTES = {
    "weights": (BayesianLogisticRegressionPMD(), X, LABELS),
    "moves": (BayesianLogisticRegressionPMD(moves="always", **FEW), X, LABELS),
    "horseshoe": (BayesianLogisticRegressionPMD(prior="horseshoe", **FEW), X, LABELS),
    "steps": (BayesianLogisticRegressionPMD(proposal="prior", batch_size=10, **FEW), X, LABELS),
    "diagonal": (BayesianLogisticRegressionPMD(covariance_type="diag"), X, LABELS),
    "evidence": (BayesianLogisticRegressionPMD(prior_scale="evidence"), X, LABELS),
    "process": (SparseGPRegressorPMD(), X, TARGET),
    "neighbours": (SparseGPRegressorPMD(approximation="vecchia"), X, TARGET),
    "both": (SparseGPRegressorPMD(approximation="full_scale", n_inducing=10), X, TARGET),
    "student": (SparseGPRegressorPMD(approximation="fitc", likelihood="student_t"), X, TARGET),
    "kernels": (
        SparseGPRegressorPMD(approximation="fitc", weighting="posterior", n_particles=4), X, TARGET
    ),
    "kernels of neighbours": (
        SparseGPRegressorPMD(approximation="vecchia", weighting="posterior"), X, TARGET
    ),
    "classes": (SparseGPClassifierPMD(), X, LABELS),
    "own search": (SparseGPRegressorPMD(optimizer=downhill), X, TARGET),
    "mixture": (GaussianMixturePMD(2, batch_size=20), X, None),
    "draws": (GaussianMixturePMD(2, strategy="parameters", n_particles=50), X, None),
    "topics": (LDATopicModelPMD(2, batch_size=20), COUNTS, None),
    "topics, priors": (LDATopicModelPMD(2, learn_priors=True, evaluate_every=1), COUNTS, None),
    "values": (ParticleMirrorDescent(**NORMAL_MEAN), X[:, :1], None),
    "values, steps": (
        ParticleMirrorDescent(**NORMAL_MEAN, proposal="prior", **FEW), X[:, :1], None
    ),
}  # fmt: skip
# One round of weights is all there is to do.
NOTHING_LEFT = {"weights"}


@pytest.fixture
def counted_clock(monkeypatch):
    """A clock by which each look at it takes a second."""
    monkeypatch.setattr("skpmd._runtime.call.clock", itertools.count().__next__)


def fitted(route, **parameters):
    """The estimator, and what it has warned of an early end."""
    estimator, data, y = ROUTES[route]
    estimator = clone(estimator).set_params(random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        estimator.fit(data) if y is None else estimator.fit(data, y)
    of_time = [one for one in seen if "max_time" in str(one.message)]
    assert all(one.category is ConvergenceWarning for one in of_time)
    return estimator, [str(one.message) for one in of_time]


def answers(route, estimator):
    """What the estimator says of a few rows, and its posterior."""
    _, data, _ = ROUTES[route]
    name = next(
        (one for one in ("predict_proba", "score_samples", "transform") if hasattr(estimator, one)),
        None,
    )
    if isinstance(estimator, SparseGPRegressorPMD):
        name = "predict"
    out = [] if name is None else [getattr(estimator, name)(data[:5])]
    posterior = estimator.posterior_
    spread = posterior.interval() if isinstance(estimator, LDATopicModelPMD) else posterior.std()
    return [*out, posterior.mean(), spread]


@pytest.mark.slow_for("draws", "neighbours")
@pytest.mark.parametrize("route", ROUTES)
def test_a_fit_ends_at_its_first_complete_state(route, counted_clock):
    estimator, said = fitted(route, max_time=0.5)
    assert estimator.out_of_time_ == bool(said) == (route not in NOTHING_LEFT)
    if said:
        (text,) = said
        assert "max_time=0.5 ended the" in text and "complete state" in text
    if hasattr(estimator, "diagnostics_"):
        assert estimator.diagnostics_["out_of_time"] == estimator.out_of_time_
        assert not estimator.diagnostics_["interrupted"]
    assert all(np.isfinite(one).all() for one in answers(route, estimator))
    again = pickle.loads(pickle.dumps(estimator))
    assert again.out_of_time_ == estimator.out_of_time_


@pytest.mark.slow_but("diagonal", "mixture", "steps", "values", "values, steps", "weights")
@pytest.mark.parametrize("route", ROUTES)
def test_enough_time_changes_no_digit(route):
    estimator, said = fitted(route, max_time=1e6)
    assert not said and not estimator.out_of_time_
    for one, other in zip(answers(route, estimator), answers(route, fitted(route)[0]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "route, n_steps", [("steps", 3), ("mixture", 4), ("topics", 2), ("values, steps", 2)]
)
def test_the_state_is_the_one_that_ctrl_c_would_leave(route, n_steps, counted_clock, monkeypatch):
    estimator, _ = fitted(route, max_time=n_steps - 0.5)
    n = len(next(iter(estimator.history_.values())))
    assert n == n_steps

    class Interrupted:
        """A listener that interrupts after so many steps."""

        def __init__(self, name=None):
            self.name, self.done = name, 0

        def open(self, name, total):
            return Interrupted(name)

        def advance(self, n, text):
            self.done += n
            if self.name == "mirror steps" and self.done == n_steps:
                raise KeyboardInterrupt

        def tick(self):
            pass

        close = tick

    monkeypatch.setattr("skpmd._base.estimator.listeners_of", lambda *how: [Interrupted()])
    other, data, y = ROUTES[route]
    other = clone(other).set_params(random_state=0, verbose=1)
    if isinstance(other, GaussianMixturePMD):
        other.set_params(verbose_interval=1)
    with pytest.raises(KeyboardInterrupt):
        other.fit(data) if y is None else other.fit(data, y)
    monkeypatch.undo()
    for one, another in zip(answers(route, estimator), answers(route, other), strict=True):
        np.testing.assert_array_equal(one, another)


def test_the_rest_of_a_search_is_left_out(counted_clock):
    """Evidences of all scales are known after 12 looks at the clock, and one ends the search."""
    few, said = fitted("evidence", max_time=9.0)
    assert "the search for the prior's scale" in said[0]
    assert few.prior_scale_ == pytest.approx(1.0, rel=10.0)
    full, _ = fitted("evidence")
    assert few.prior_scale_ != full.prior_scale_


def test_moves_of_steps_from_the_prior_are_left_out(monkeypatch):
    """No proposals fit a star; time is over with the first move of its particles."""
    now, moves, move = [0.0], [], EnsembleMoves._move

    def last_move(*args):
        moves.append(args)
        now[0] = 1000.0
        move(*args)

    def star(theta, X, y):
        one, other = (
            norm.logpdf(theta, 0.0, scales).sum(axis=1) for scales in ([1, 0.01], [0.01, 1])
        )
        return np.logaddexp(one, other) - log_prior(theta)

    def log_prior(theta):
        return norm.logpdf(theta, 0.0, 2.0).sum(axis=1)

    monkeypatch.setattr("skpmd._runtime.call.clock", lambda: now[0])
    monkeypatch.setattr(EnsembleMoves, "_move", last_move)
    model = ParticleMirrorDescent(
        star,
        log_prior,
        lambda rng, m: 2.0 * rng.standard_normal((m, 2)),
        max_time=60.0,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="max_time=60.0"):
        model.fit(X)
    assert len(moves) == 2  # Two parts of the particles move by turns.
    assert model.diagnostics_["out_of_time"]


def test_the_choice_of_an_approximation_is_left_out(counted_clock, monkeypatch):
    """Neighbours come first, and are what is there."""
    monkeypatch.setattr("skpmd.sparse_gp._choice.MIN_INDUCING", 10)  # As if rows were many.
    rows = np.random.default_rng(1).uniform(-2, 2, size=(120, 1))
    gp = SparseGPRegressorPMD(random_state=0, max_time=0.5)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gp.fit(rows, np.sin(3 * rows[:, 0]))
    assert any("the choice of an approximation" in str(one.message) for one in seen)
    assert gp.approximation_ == "vecchia" and gp.out_of_time_


def test_documents_of_a_stream_are_not_left_out(counted_clock):
    lda = LDATopicModelPMD(2, batch_size=10, random_state=0, max_time=0.5)
    for part in (COUNTS[:30], COUNTS[30:]):
        lda.partial_fit(part)
        assert not lda.out_of_time_
    assert lda.n_documents_seen_ == len(COUNTS)
    whole = LDATopicModelPMD(2, batch_size=10, random_state=0)
    whole.partial_fit(COUNTS[:30]).partial_fit(COUNTS[30:])
    np.testing.assert_array_equal(lda.components_, whole.components_)


@pytest.mark.slow
def test_a_stream_of_draws_goes_on_from_an_early_end(counted_clock):
    """Its particles have not arrived: the next part starts anew with all rows so far."""
    mixture = GaussianMixturePMD(
        2, strategy="parameters", n_particles=100, random_state=0, max_time=0.5
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        mixture.partial_fit(X[:30])
    assert any("power" in str(one.message) for one in seen)
    assert not mixture.converged_ and not hasattr(mixture, "log_evidence_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture.set_params(max_time=None).partial_fit(X[30:])
    assert not mixture.out_of_time_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = GaussianMixturePMD(2, strategy="parameters", n_particles=100, random_state=0).fit(X)
    gap = abs(mixture.log_evidence_ - full.log_evidence_)
    # Four standard errors of the difference of two independent estimates.
    se = np.hypot(mixture.posterior_.log_evidence_se or 0.0, full.posterior_.log_evidence_se or 0.0)
    assert gap < max(4.0 * se, 1.5)


@pytest.mark.parametrize("bad", [0, "1", np.nan])
@pytest.mark.parametrize("route", ["weights", "topics"])
def test_a_bad_limit_is_named(route, bad):
    estimator, data, y = ROUTES[route]
    with pytest.raises(ValueError, match="max_time"):
        clone(estimator).set_params(max_time=bad).fit(data, *([] if y is None else [y]))
