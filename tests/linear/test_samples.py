"""Reweighting by an expansion of all rows and remainders of some, against all rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
)
from skpmd._rows.rows import Rows
from skpmd.data import Blocks
from skpmd.engine.mirror import log_likelihood
from skpmd.engine.particles import weights
from skpmd.linear._bernoulli import LogisticModel
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._priors import NormalPrior
from skpmd.proposals import control_variates
from skpmd.proposals.control_variates import (
    Cubes,
    Expansion,
    SampledModel,
    error_of,
    expansion_of,
    of_power,
    sampled,
)

N = 12_000


def rows_of(kind, n=N, seed=0):
    """Columns, y, and an estimator without its seed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4.0, (n, 3))
    eta = X @ [0.6, -0.4, 0.2] - 0.3
    if kind == "logistic":
        return X, rng.random(n) < 1.0 / (1.0 + np.exp(-eta)), BayesianLogisticRegressionPMD
    if kind == "several classes":
        return X, (eta[:, None] * [0, 1, 2] + rng.gumbel(size=(n, 3))).argmax(axis=1), (
            BayesianLogisticRegressionPMD
        )  # fmt: skip
    if kind == "ordered classes":
        y = np.digitize(eta + rng.logistic(size=n), [-1.0, 1.0])
        return X, y, BayesianOrdinalClassifierPMD
    if kind == "groups":
        group = np.arange(n) // 2
        eta = eta + 0.8 * rng.standard_normal(n // 2)[group]
        y = rng.random(n) < 1.0 / (1.0 + np.exp(-eta))
        return np.column_stack([X, group]), y, groups_of
    mean = np.exp(eta)
    y = {
        "poisson": rng.poisson(mean),
        "negative_binomial": rng.poisson(mean * rng.gamma(2.0, 0.5, n)),
        "gamma": mean * rng.gamma(2.0, 0.5, n) + 1e-9,
    }[kind]
    return X, y, lambda **given: BayesianGLMRegressorPMD(family=kind, **given)


def groups_of(**given):
    return BayesianLogisticRegressionPMD(groups=[3], **given)


def by_all_rows(monkeypatch, estimator, X, y, **given):
    with monkeypatch.context() as patch:
        patch.setattr(control_variates, "FEWEST", np.inf)
        found = estimator(random_state=1, **given).fit(X, y)
    assert "n_rows_weighed" not in found.diagnostics_
    return found


@pytest.mark.slow_for("several classes", "groups")
@pytest.mark.parametrize(
    "kind",
    [
        "logistic", "several classes", "ordered classes", "groups", "poisson", "negative_binomial",
        "gamma",
    ],
)  # fmt: skip
def test_the_posterior_is_that_of_all_rows(kind, monkeypatch):
    """Within .03 sd, of which the 4000 particles of both are .02, and 4 % of the sds."""
    X, y, estimator = rows_of(kind)
    some = estimator(random_state=0).fit(X, y)
    whole = by_all_rows(monkeypatch, estimator, X, y)
    assert some.diagnostics_["n_rows_weighed"] <= 0.3 * N
    assert some.diagnostics_["log_weight_error"] <= 0.02
    assert some.n_iter_ == len(some.history_["ess"]) == 1
    one, other = some.posterior_, whole.posterior_
    np.testing.assert_array_less(np.abs(one.mean() - other.mean()), 0.03 * other.std())
    np.testing.assert_allclose(one.std(), other.std(), rtol=0.04)
    # Integrals of groups have a tolerance of their own, which adds up over all of them.
    error = np.hypot(one.log_evidence_se, other.log_evidence_se) + 0.1 * (kind == "groups")
    assert some.log_evidence_ == pytest.approx(whole.log_evidence_, abs=4.0 * error)
    assert one.log_evidence_se >= some.diagnostics_["log_weight_error"]
    ess = some.history_["ess"]  # Each round is there once.
    assert some.n_iter_ == len(ess) == len(np.unique(ess))


def test_the_error_of_weights_is_what_it_says():
    """Of 40 samples: the root mean square of real errors, within a fourth (three of its errors)."""
    X, y, _ = rows_of("logistic", 6000)
    model = LogisticModel(NormalPrior(np.full(4, 3.0)), fit_intercept=True)
    rows = Rows(X, np.where(y, 1.0, -1.0), None, "auto")
    real, said = [], []
    for seed in range(40):
        sample = sampled(model, model.terms(rows), [rows.data], 1.0, np.random.default_rng(seed))
        sd = 1.0 / np.sqrt(np.diag(model.gaussian_target(sample.centre, None, rows.whole())[1]))
        theta = sample.centre + sd * np.random.default_rng(0).standard_normal((50, 4))
        by_sample = log_likelihood(SampledModel(model, sample), theta, sample.batches)
        real.append(by_sample - log_likelihood(model, theta, rows.whole()))
        said.append(error_of(model, sample, theta))
    assert np.sqrt(np.mean(np.square(real))) == pytest.approx(
        np.sqrt(np.mean(np.square(said))), rel=0.25
    )


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "several classes"])
def test_a_cubic_has_the_third_derivatives(kind, is_dense):
    """Of a narrow Gaussian averages are values: curvatures are those elsewhere, but for squares."""
    X, y, _ = rows_of(kind, 300)
    if kind == "logistic":
        model = LogisticModel(NormalPrior(np.full(4, 3.0)), fit_intercept=True)
        rows = Rows(X, np.where(y, 1.0, -1.0), None, "auto")
    else:
        model = SoftmaxModel(NormalPrior(np.full(12, 3.0)), True, 3)
        rows = Rows(X, y, None, "auto")
    d, rng = model.n_coordinates, np.random.default_rng(0)
    mean, narrow = 0.2 * rng.standard_normal(d), 1e-3 * np.eye(d)
    cubic = expansion_of(model, mean, [rows.data], narrow)
    if is_dense:
        cubic = cubic._replace(third=control_variates._dense(cubic.third))
    for _ in range(3):
        at = mean + 1e-3 * rng.standard_normal(d)
        exact, scale = expansion_of(model, at, [rows.data]), np.abs(cubic.precision).max()
        error = np.abs(cubic.curvature(at) - exact.precision).max()
        assert error < 0.02 * np.abs(cubic.precision - exact.precision).max() + 1e-9 * scale
        np.testing.assert_allclose(cubic.value(at[None])[0], exact.constant, atol=1e-4)
        np.testing.assert_allclose(cubic.gradient(at), exact.slope, atol=1e-5 * scale)
    shifted = expansion_of(model, at, [rows.data]).plus(cubic.times(-1.0))  # Of another centre.
    np.testing.assert_allclose(shifted.slope, exact.slope - cubic.gradient(at))
    u = rng.standard_normal(d)
    gaps = [control_variates._along(one.third, u) for one in (shifted, cubic)]
    np.testing.assert_allclose(gaps[0], -gaps[1])


def test_far_rows_are_in_every_sample():
    X, y, _ = rows_of("logistic", 6000)
    X[:3] = np.array([[10.0], [-20.0], [30.0]]) * [0.4, 0.6, 0.0]  # On no class's side.
    model = LogisticModel(NormalPrior(np.full(4, 3.0)), fit_intercept=True)
    rows = Rows(X, np.where(y, 1.0, -1.0), None, "auto")
    for seed in range(5):
        sample = sampled(model, model.terms(rows), [rows.data], 1.0, np.random.default_rng(seed))
        for row in X[:3]:
            found = np.flatnonzero((sample.batches[0].X == row).all(axis=1))
            assert sample.batches[0].weight[found] == pytest.approx([1.0])


def test_what_samples_do_not_settle_all_rows_do(monkeypatch):
    """Few rows of a class: more rows would be wanted than there are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = rng.random(N) < 1.0 / (1.0 + np.exp(8.5 - X @ [0.6, -0.4, 0.2]))
    found = BayesianLogisticRegressionPMD(random_state=1).fit(X, y)
    assert "log_weight_error" not in found.diagnostics_


def test_a_wrong_expansion_is_seen_by_all_rows(monkeypatch):
    """Parts of a sample do not know of it; what is found then is what all rows say."""
    X, y, estimator = rows_of("logistic")
    expansion_of, n_rows = control_variates.expansion_of, [N]

    def wrong(model, mean, batches, *how):
        found = expansion_of(model, mean, batches, *how)
        is_whole = sum(len(batch.weight) for batch in batches) == n_rows[0]
        return found._replace(precision=(1.0 + 0.1 * is_whole) * found.precision)

    monkeypatch.setattr(control_variates, "expansion_of", wrong)
    some = estimator(random_state=0).fit(X, y)
    assert "log_weight_error" not in some.diagnostics_
    whole = by_all_rows(monkeypatch, estimator, X, y)
    np.testing.assert_allclose(some.coef_, whole.coef_, atol=0.03 * whole.coef_std_.max())


def test_weights_are_repetitions_and_temperature_is_a_power():
    X, y, estimator = rows_of("logistic")
    weighted = estimator(random_state=0).fit(X, y, sample_weight=np.full(N, 2.0))
    repeated = estimator(random_state=0).fit(np.vstack([X, X]), np.append(y, y))
    powered = estimator(random_state=0, temperature=0.5).fit(X, y)
    for one in (weighted, powered):
        assert one.diagnostics_["n_rows_weighed"] < 0.3 * N
        gap = np.abs(one.coef_ - repeated.coef_) / repeated.coef_std_
        assert gap.max() < 0.03
        np.testing.assert_allclose(one.coef_std_, repeated.coef_std_, rtol=0.04)


def test_jobs_and_blocks_change_nothing():
    X, y, estimator = rows_of("logistic")
    one = estimator(random_state=0).fit(X, y)
    two = estimator(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.posterior_.particles, two.posterior_.particles)
    parts = np.array_split(np.arange(N), 5)
    blocks = Blocks([(X[some], y[some]) for some in parts])
    three = estimator(random_state=0).fit(blocks)
    assert three.diagnostics_["n_rows_weighed"] < 0.3 * N
    np.testing.assert_allclose(one.coef_, three.coef_, atol=0.03 * one.coef_std_.max())


def test_a_fit_that_follows_knows_of_all_rows(monkeypatch):
    """Its prior is a posterior by a sample, of so many coefficients that it retains rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 14))
    y = X[:, 0] + rng.logistic(size=N) > 0
    monkeypatch.setattr(control_variates, "TARGET_ERROR", 0.03)
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:9000], y[:9000])
    assert first.diagnostics_["n_rows_weighed"] < 9000
    second = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    second.fit(X[9000:], y[9000:])
    whole = by_all_rows(monkeypatch, BayesianLogisticRegressionPMD, X, y)
    gap = np.abs(second.coef_ - whole.coef_) / whole.coef_std_
    assert gap.max() < 0.06


@pytest.mark.parametrize("of_few", [(False, False), (False, True), (True, False), (True, True)])
def test_expansions(of_few):
    rng = np.random.default_rng(0)

    def cubic(of_few):
        root, rows = rng.standard_normal((2, 3, 3))
        third = np.einsum("na,nb,nc->abc", rows, rows, rows)
        given = rng.normal(size=3), rng.normal(size=3), root @ root.T, rng.normal()
        return Expansion(*given, third=Cubes(rows, np.ones(3)) if of_few else third)

    one, other, theta = cubic(of_few[0]), cubic(of_few[1]), rng.normal(size=(4, 3))
    averaged = [found.averaged(theta[0], np.eye(3)).slope for found in (one, one.plus(other))]
    np.testing.assert_allclose(averaged[1], averaged[0] + other.averaged(theta[0], np.eye(3)).slope)
    both = one.plus(other.times(-2.0))
    np.testing.assert_allclose(both.value(theta), one.value(theta) - 2.0 * other.value(theta))
    numeric = [approx_fprime(row, lambda x: both.value(x[None])[0], 1e-6) for row in theta]
    np.testing.assert_allclose([both.gradient(x) for x in theta], numeric, rtol=1e-4, atol=1e-4)
    numeric = approx_fprime(theta[0], both.gradient, 1e-6)
    np.testing.assert_allclose(-both.curvature(theta[0]), numeric, rtol=1e-4, atol=1e-4)
    assert of_power(None, 2.0) is None


def test_parts_of_a_stream_are_sampled(monkeypatch):
    """The same within .03 sd of a stream by all rows of each part; less than half of the rows."""
    X, y, estimator = rows_of("logistic", 20_000)
    seen, add = [], LogisticModel.add_log_likelihoods

    def counted(self, table, *given, **how):
        seen.append(table.size)
        return add(self, table, *given, **how)

    monkeypatch.setattr(LogisticModel, "add_log_likelihoods", counted)

    def streamed():
        seen.clear()
        found = estimator(random_state=0)
        for part in np.array_split(np.arange(20_000), 4):
            found.partial_fit(X[part], y[part], classes=[False, True])
        return found, sum(seen)

    some, n_some = streamed()
    monkeypatch.setattr(control_variates, "FEWEST", np.inf)
    whole, n_whole = streamed()
    assert n_some < 0.5 * n_whole
    gap = np.abs(some.coef_ - whole.coef_) / whole.coef_std_
    assert gap.max() < 0.03
    np.testing.assert_allclose(some.coef_std_, whole.coef_std_, rtol=0.04)


def test_out_of_reach_is_a_chord_above_all_rows():
    """Concave ones are below it; values are finite: a cubic fit of them is asked for later."""
    X, y, estimator = rows_of("logistic")
    model = LogisticModel(NormalPrior(np.full(4, 3.0)), fit_intercept=True)
    rows = Rows(X, np.where(y, 1.0, -1.0), None, "auto")
    sample = sampled(model, model.terms(rows), [rows.data], 1.0, np.random.default_rng(0))
    theta = sample.centre + np.array([[0.01, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    assert (sample.distances(theta) > 1.0).tolist() == [False, True]
    value = log_likelihood(SampledModel(model, sample), theta, sample.batches)
    exact = log_likelihood(model, theta, rows.whole())
    assert value[0] == pytest.approx(exact[0], abs=0.1)
    at_centre = log_likelihood(model, sample.centre[None], rows.whole())[0]
    assert exact[1] <= value[1] < at_centre - 50.0
    first = estimator(random_state=0).fit(X[:6000], y[:6000])
    assert np.isfinite(first.posterior_.log_joint).all()
    later = estimator(prior=first.posterior_, random_state=0).fit(X[6000:], y[6000:])
    whole = estimator(random_state=0).fit(X, y)
    assert np.abs((later.coef_ - whole.coef_) / whole.coef_std_).max() < 0.06


def test_tails_of_a_rare_level_are_seen():
    """Six of 30,000 rows: particles out of reach weigh no less by a sample than by all rows.

    So `error_of_weights` sees them. By a quadratic they weighed e^-20 of it, and sds were 5 % off.
    """
    X, y = np.zeros((30_000, 1)), np.where(np.arange(30_000) % 3, -1.0, 1.0)
    X[:6], y[:6] = 1.0, [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    model = LogisticModel(NormalPrior(np.array([5.0, 10.0])), fit_intercept=True)
    rows = Rows(X, y, None, "auto")
    sample = sampled(model, model.terms(rows), [rows.data], 1.0, np.random.default_rng(0))
    theta = sample.centre + np.linspace(-20.0, 40.0, 601)[:, None] * [1.0, 0.0]
    is_far = sample.distances(theta) > 1.0
    stand_in = SampledModel(model, sample)
    some, whole = (
        weights(model.log_prior(theta) + log_likelihood(one, theta, batches))
        for one, batches in ((stand_in, sample.batches), (model, rows.whole()))
    )
    assert some[is_far].sum() >= whole[is_far].sum() > 1e-4
    np.testing.assert_allclose(some[~is_far].sum(), 1.0, atol=0.03)


def test_what_ends_before_the_check_says_so(monkeypatch):
    X, y, estimator = rows_of("logistic")

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(control_variates, "error_of_weights", interrupted)
    found = estimator(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, y)
    assert any("have not been compared" in one for one in found.diagnostics_["warnings"])


def test_a_posterior_by_a_cubic_is_a_prior_in_any_order_of_columns():
    """What is handed on is a quadratic: a cubic whose axes stay as they were is .017 sd off.

    In one order rows may be retained beside it and in the other not, which is .007 sd here.
    """
    rng = np.random.default_rng(0)
    scale, names = np.arange(1.0, 21.0), [f"x{i:02d}" for i in range(20)]
    X = pd.DataFrame(rng.exponential(size=(5000, 20)) * scale, columns=names)
    logit = X.to_numpy() @ (0.5 * rng.standard_normal(20) / scale) - 2.0
    y = rng.random(5000) < 1.0 / (1.0 + np.exp(-logit))
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    assert first.diagnostics_["n_rows_weighed"] < 1000
    one, other = (
        BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0).fit(rows, y[:300])
        for rows in (X[:300], X[:300][names[::-1]])
    )
    gap = one.coef_[0] - other.coef_[0, ::-1]
    assert np.abs(gap / one.coef_std_[0]).max() < 0.01


def test_a_cubic_averages_to_a_quadratic():
    """Gradient and curvature are means under the Gaussian, by many of its draws."""
    rng = np.random.default_rng(0)
    root, rows = rng.standard_normal((2, 3, 3))
    third, chol = np.einsum("na,nb,nc->abc", rows, rows, rows), np.linalg.cholesky(root @ root.T)
    cubic = Expansion(rng.normal(size=3), rng.normal(size=3), root @ root.T, 0.5, third=third)
    mean = rng.normal(size=3)
    u = rng.standard_normal((2000, 3))
    draws = mean + np.concatenate([u, -u]) @ chol.T
    found = cubic.averaged(mean, np.cov(draws.T, bias=True))
    np.testing.assert_allclose(found.slope, np.mean([cubic.gradient(x) for x in draws], axis=0))
    np.testing.assert_allclose(
        found.precision, np.mean([cubic.curvature(x) for x in draws], axis=0)
    )
    assert found.third is None and found.constant == cubic.value(mean[None])[0]
