"""Rows that a posterior hands on: a fit whose prior it is, is one to the rows of both."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD
from skpmd.linear import _task
from skpmd.linear._priors import NormalPrior, TiltedPrior
from skpmd.proposals.control_variates import Expansion

N_COLUMNS = 16  # So many coefficients have no polynomial correction of a density.


def rows_of(load=load_breast_cancer):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, :N_COLUMNS])
    place = np.random.default_rng(0).permutation(len(y))
    return X[place], y[place]


def after(first, X, y, **given):
    """The fit whose prior is the posterior of another one."""
    model = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    return model.set_params(**given).fit(X, y)


def gap(one, whole):
    """Largest difference of a posterior mean, in standard deviations."""
    mean, sd = whole.posterior_.mean(), whole.posterior_.std()
    return np.abs((one.posterior_.mean() - mean) / sd).max()


@pytest.mark.slow_but("prior0")
@pytest.mark.parametrize(
    "prior",
    [
        {},
        {"prior": "laplace", "scale": "auto", "prior_scale": np.linspace(0.5, 1.5, N_COLUMNS)},
        {"prior": "student_t", "prior_mean": {"x1": 1.0}, "intercept_prior_scale": 2.0},
    ],
)
def test_two_halves_are_the_whole_under_the_same_prior(prior):
    """The very same fit, but that of scale="auto", where units are those of the first half."""
    X, y = rows_of()
    known = {"random_state": 0, **prior, "scale": None}
    first = BayesianLogisticRegressionPMD(**{**known, **prior}).fit(X[:200], y[:200])
    centre, unit = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if "scale" in prior:
        centre, unit = X[:200].mean(axis=0), X[:200].std(axis=0)
    whole = BayesianLogisticRegressionPMD(**known).fit((X - centre) / unit, y)
    second = after(first, X[200:], y[200:])
    np.testing.assert_allclose(second.coef_ * unit, whole.coef_, rtol=1e-6)
    np.testing.assert_allclose(second.coef_std_ * unit, whole.coef_std_, rtol=1e-6)
    total = first.log_evidence_ + second.log_evidence_
    assert total == pytest.approx(whole.log_evidence_, abs=1e-6)


def test_a_year_of_quarters():
    X, y = rows_of()
    parts = np.array_split(np.arange(len(y)), 4)
    model = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[parts[0]], y[parts[0]])
    total = model.log_evidence_
    for part in parts[1:]:
        model = pickle.loads(pickle.dumps(after(model, X[part], y[part])))
        total += model.log_evidence_
    whole = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)
    assert total == pytest.approx(whole.log_evidence_, abs=1e-6)


def test_columns_and_classes_in_another_order():
    X, y = rows_of(load_wine)
    h, columns, classes = 90, np.random.default_rng(1).permutation(13), np.array([1, 2, 0])
    scale = np.linspace(0.5, 1.5, 39).reshape(3, 13)
    model = BayesianLogisticRegressionPMD(
        scale=None, prior_scale=scale, random_state=0, moves="never"
    )
    first, posterior = model.fit(X[:h], y[:h]), model.posterior_
    # From now on classes 0, 1, 2 are called 1, 2, 0, and column j is called by its new place.
    posterior.names = [
        f"{'intercept' if j == 13 else f'x{np.argsort(columns)[j]}'}[{k}]"
        for k in classes for j in range(14)
    ]  # fmt: skip
    second = after(first, X[h:, columns], classes[y[h:]], moves="never")
    whole = clone(model).set_params(prior_scale=scale[np.argsort(classes)][:, columns])
    whole.fit(X[:, columns], classes[y])
    np.testing.assert_allclose(second.coef_, whole.coef_, rtol=1e-6)


def test_weights_and_temperatures():
    """Weight 2 at temperature 2 is weight 1 at temperature 1."""
    X, y = rows_of()
    h, weight = 300, np.random.default_rng(0).integers(0, 3, len(y))
    first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:h], y[:h], weight[:h])
    second = after(first, X[h:], y[h:], temperature=2.0)
    whole = BayesianLogisticRegressionPMD(scale=None, temperature=2.0, random_state=0)
    whole.fit(X, y, np.append(2.0 * weight[:h], np.ones(len(y) - h)))
    np.testing.assert_allclose(second.coef_, whole.coef_, rtol=1e-6)
    third = after(second, X[:h], y[:h])
    assert third.posterior_.rows.rows.weight.sum() == pytest.approx(
        weight[:h].sum() + 0.5 * (len(y) - h) + h
    )
    with pytest.raises(AttributeError, match="rows of the earlier posterior"):
        _ = third.log_evidence_


def test_sparse_rows_and_rows_of_the_user():
    X, y = rows_of()
    h, given = 300, X[:300].copy()
    dense = BayesianLogisticRegressionPMD(random_state=0).fit(given, y[:h])
    given[:] = np.nan  # What is held is a copy.
    thin = BayesianLogisticRegressionPMD(random_state=0).fit(sparse.csr_array(X[:h]), y[:h])
    expected = after(dense, X[h:], y[h:]).coef_
    for first, new in ((dense, sparse.csr_array(X[h:])), (thin, X[h:]), (thin, thin_of(X[h:]))):
        np.testing.assert_allclose(after(first, new, y[h:]).coef_, expected, rtol=1e-6)


def thin_of(X):
    return sparse.csr_matrix(X)


def test_of_many_rows_a_quadratic_stands_for_most(monkeypatch):
    """A third of the rows of the first half is enough for a twentieth of a standard deviation."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    place = np.random.default_rng(2).permutation(len(y))
    X, y, h = X[place], y[place], 284
    whole = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)
    monkeypatch.setattr(_task, "_ROOM", 0.025)
    first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:h], y[:h])
    monkeypatch.undo()
    held = first.posterior_.rows
    assert len(held.rows.y) == 103 and 0.1 < held.rest.misfit < 0.3
    second = after(first, X[h:], y[h:])
    assert gap(second, whole) < 0.05
    total = first.log_evidence_ + second.log_evidence_
    assert total == pytest.approx(whole.log_evidence_, abs=0.1)
    assert second.diagnostics_["prior_pareto_k"] is None


def test_a_chain_of_quadratics(monkeypatch):
    """Of each part half of what there is; columns of the last part come in another order."""
    X, y = rows_of()
    whole = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:, ::-1], y)
    monkeypatch.setattr(_task, "_ROOM", 0.025)
    monkeypatch.setattr(_task, "_NORMAL", 0.0)
    names = {f"x{j}": f"x{N_COLUMNS - 1 - j}" for j in range(N_COLUMNS)}
    first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:200], y[:200])
    second = after(first, X[200:400], y[200:400])
    assert len(second.posterior_.rows.rows.y) == 106
    posterior = second.posterior_
    posterior.names = [names.get(name, name) for name in posterior.names]
    assert gap(after(second, X[400:, ::-1], y[400:]), whole) < 0.05


def test_rows_of_a_normal_likelihood_are_not_held(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, N_COLUMNS))
    y = X[:, 0] + rng.logistic(size=6000) > 0
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:5000], y[:5000])
    held = first.posterior_.rows
    assert len(held.rows.y) == 0 and held.rest.misfit < 0.1
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    assert gap(after(first, X[5000:], y[5000:]), whole) < 0.05


def test_too_few_rows_held_are_warned_of(monkeypatch):
    X, y = rows_of()
    monkeypatch.setattr(_task, "_ROOM", 0.001)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:200], y[:200])
    assert len(first.posterior_.rows.rows.y) == 4
    with pytest.warns(ConvergenceWarning, match="nats off"):
        after(first, X[200:], y[200:])


@pytest.mark.slow
def test_without_rows_a_density_stands_for_them_and_that_is_said():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[::2], y[::2])
    first.posterior_.rows = None
    with pytest.warns(ConvergenceWarning, match="nats off"):
        second = after(first, X[1::2], y[1::2])
    assert second.diagnostics_["prior_pareto_k"] < 0.7 and second.posterior_.rows is None


def test_many_rows_of_few_coefficients_or_a_gaussian_need_not_be_held(monkeypatch):
    X, y = rows_of()
    few = BayesianLogisticRegressionPMD(random_state=0)
    assert len(few.fit(X[:, :5], y).posterior_.rows.rows.y) == len(y)
    monkeypatch.setattr(_task, "_ROOM", 0.05)
    assert few.fit(X[:, :5], y).posterior_.rows is None
    by_steps = BayesianLogisticRegressionPMD(n_particles=200, reweight=False, random_state=0)
    assert by_steps.fit(X, y).posterior_.rows is None


def test_the_stream_goes_on_from_the_earlier_posterior():
    """Its prior is the earlier posterior, whose log density particles carry along."""
    X, y = rows_of()
    first = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:200], y[:200])
    second = after(first, X[200:400], y[200:400])
    particles, earlier = second._state.stream.particles, first.posterior_
    expected = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X[:400], y[:400])
    likelihood = second.pointwise_log_likelihood(X[200:400], y[200:400]).sum(axis=1)
    log_joint = particles.log_prior + likelihood
    np.testing.assert_allclose(log_joint, second.posterior_.log_joint, atol=1e-8)
    assert earlier.log_evidence + second.log_evidence_ == pytest.approx(expected.log_evidence_)
    assert second._state.stream.seen == 200.0


def test_derivatives_of_tilted_priors():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    rest = Expansion(rng.normal(size=3), rng.normal(size=3), root @ root.T, 1.5, 0.0)
    prior, theta = (
        TiltedPrior(NormalPrior(np.array([0.5, 1.0, 2.0])), rest),
        rng.normal(size=(4, 3)),
    )
    numeric = [approx_fprime(one, lambda x: prior.log_density(x[None])[0], 1e-6) for one in theta]
    np.testing.assert_allclose(prior.gradient(theta), numeric, rtol=1e-4, atol=1e-4)
    slope, precision = prior.expected(theta[0], np.ones(3))
    np.testing.assert_allclose(slope, prior.gradient(theta)[0])
    change = prior.gradient(theta[1:2])[0] - prior.gradient(theta)[0]
    np.testing.assert_allclose(precision @ (theta[0] - theta[1]), change)
    at_centre = prior.log_density(rest.centre[None]) - prior.prior.log_density(rest.centre[None])
    assert at_centre == pytest.approx(1.5)
