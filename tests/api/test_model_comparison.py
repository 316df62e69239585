"""Leave-one-out, WAIC and comparisons, against exact answers and against ArviZ."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skpmd import (
    BayesianLogisticRegressionPMD,
    ParticleMirrorDescent,
    Posterior,
)
from skpmd.engine.diagnostics import pareto_smoothed
from skpmd.model_comparison import compare, loo, waic


class Fitted(BaseEstimator):
    """An estimator whose particles and log likelihoods are given."""

    def __init__(self, table, log_weights=None, weighting="posterior"):
        m = len(table)
        weights = np.zeros(m) if log_weights is None else log_weights
        self.table = table
        self.posterior_ = Posterior(np.zeros((m, 1)), weights, weighting=weighting)

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def pointwise_log_likelihood(self, X, y=None):
        return self.table


def normal_rows(n=40, scale=1.0):
    """Rows of a normal with a known scale, and the exact log density of each given the others."""
    X = stats.norm(1.0, 1.0).ppf((np.arange(n) + 0.5) / n)
    exact = []
    for i in range(n):
        rest = np.delete(X, i)
        precision = 1.0 / 25.0 + len(rest) / scale**2
        mean = rest.sum() / scale**2 / precision
        exact.append(stats.norm(mean, np.sqrt(scale**2 + 1.0 / precision)).logpdf(X[i]))
    return X[:, None], np.array(exact)


def normal_mean(scale=1.0):
    return ParticleMirrorDescent(
        log_likelihood=lambda theta, X, y: stats.norm(theta, scale).logpdf(X[:, 0]).sum(axis=1),
        log_prior=lambda theta: stats.norm(0.0, 5.0).logpdf(theta[:, 0]),
        sample_prior=lambda rng, m: rng.normal(0.0, 5.0, (m, 1)),
        n_particles=4000,
        random_state=0,
    )


def test_leave_one_out_of_a_conjugate_model():
    # Exact by the conjugate normal; 4000 draws leave an error of some thousandths of a nat a row.
    X, exact = normal_rows()
    found = loo(normal_mean().fit(X), X)
    np.testing.assert_allclose(found.pointwise, exact, atol=0.01)
    assert found.elpd == pytest.approx(exact.sum(), abs=0.05)
    precision = 1.0 / 25.0 + len(X)
    known = stats.norm(X.sum() / precision, np.sqrt(1.0 + 1.0 / precision)).logpdf(X[:, 0])
    assert found.n_bad == 0 and found.p == pytest.approx(known.sum() - exact.sum(), abs=0.05)
    assert found.se == pytest.approx(np.sqrt(len(X)) * found.pointwise.std())


def test_weighted_particles_have_the_answer_of_the_posterior():
    # Draws of a wide normal with importance weights, beside the exact answer.
    X, exact = normal_rows()
    rng = np.random.default_rng(0)
    precision = 1.0 / 25.0 + len(X)
    posterior = stats.norm(X.sum() / precision, precision**-0.5)
    proposal = stats.norm(posterior.mean(), 3.0 * posterior.std())
    theta = proposal.rvs(8000, random_state=rng)
    table = stats.norm(theta[:, None], 1.0).logpdf(X[:, 0])
    weights = posterior.logpdf(theta) - proposal.logpdf(theta)
    np.testing.assert_allclose(loo(Fitted(table, weights), X).pointwise, exact, atol=0.03)
    even = loo(Fitted(table), X)  # Without the weights it would be another posterior.
    assert abs(even.elpd - exact.sum()) > 0.2


@pytest.mark.parametrize("m", [100, 400, 2000])
def test_smoothed_weights_are_those_of_arviz(m):
    array_stats = pytest.importorskip("arviz_stats").base.array_stats
    rng = np.random.default_rng(m)
    for scale in (0.1, 1.0, 2.5):
        ratio = rng.standard_t(4, m) * scale
        theirs, k = array_stats.psislw(-ratio)
        ours, own_k = pareto_smoothed(ratio.copy())
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
        assert own_k == pytest.approx(float(k), abs=1e-9)


def test_loo_of_equal_draws_is_that_of_arviz():
    arviz_stats = pytest.importorskip("arviz_stats")
    X, y = load_iris(return_X_y=True)
    model = BayesianLogisticRegressionPMD(prior_scale=0.3, random_state=0).fit(X, y)
    table = model.pointwise_log_likelihood(X, y)
    tree = Posterior(model.posterior_.particles, np.zeros(len(table))).to_arviz(
        n_draws=len(table), log_likelihood=table
    )
    theirs = arviz_stats.loo(tree, reff=1.0)
    ours = loo(Fitted(table), X)
    assert ours.elpd == pytest.approx(float(theirs.elpd), abs=1e-6)
    assert ours.se == pytest.approx(float(theirs.se), abs=1e-6)
    assert ours.p == pytest.approx(float(theirs.p), abs=1e-6)


def test_a_row_is_left_out_with_its_copies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y, weight = (X[:, 0] + rng.logistic(size=50) > 0).astype(int), np.full(50, 4.0)
    model = BayesianLogisticRegressionPMD(random_state=0)
    found = loo(model.fit(X, y, sample_weight=weight), X, y, sample_weight=weight)
    exact = 0.0
    for i in range(50):
        rest = np.delete(np.arange(50), i)
        other = BayesianLogisticRegressionPMD(random_state=1, n_particles=500)
        other.fit(X[rest], y[rest], sample_weight=weight[rest])
        exact += other.predict_log_proba(X[i : i + 1])[0, y[i]]
    # Without the weights it would be three nats more.
    assert found.elpd == pytest.approx(exact, abs=0.5)
    with pytest.raises(ValueError, match="which counted 200 rows with their weights, got 50"):
        loo(model, X, y)
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(50,\)"):
        loo(model, X, y, sample_weight=np.ones(3))


def test_a_row_that_the_posterior_turns_on_is_reported():
    X = np.concatenate([np.random.default_rng(0).normal(size=20), [25.0]])[:, None]
    theta = np.random.default_rng(1).normal(X.mean(), 21.0**-0.5, 2000)
    table = stats.norm(theta[:, None], 1.0).logpdf(X[:, 0])
    with pytest.warns(ConvergenceWarning, match="k-hat is above 0.7 for 1 of 21 rows"):
        found = loo(Fitted(table), X)
    assert found.pareto_k.argmax() == 20 and "1 rows not to be trusted" in repr(found)
    with pytest.warns(ConvergenceWarning, match="use loo"):
        waic(Fitted(table), X)


def test_particles_of_no_weight_never_meet_an_impossible_row():
    # Weights that underflow and rows of density zero: 0 times inf is no number.
    X, exact = normal_rows()
    precision = 1.0 / 25.0 + len(X)
    theta = np.random.default_rng(0).normal(X.sum() / precision, precision**-0.5, 4000)
    table = stats.norm(theta[:, None], 1.0).logpdf(X[:, 0])
    expected = loo(Fitted(table), X)
    for log_weight in (-np.inf, -2000.0, -500.0):
        more = np.concatenate([table, np.full((300, len(X)), -np.inf)])
        weights = np.concatenate([np.zeros(4000), np.full(300, log_weight)])
        found = loo(Fitted(more, weights), X)
        np.testing.assert_allclose(found.pointwise, expected.pointwise, rtol=1e-12)
        assert found.n_bad == 0
        np.testing.assert_allclose(waic(Fitted(more, weights), X).elpd, exact.sum(), atol=0.1)
    # Nor rows that have no part in the fit, whatever particles say of them.
    table[:, 3] = -np.inf
    with pytest.warns(ConvergenceWarning, match="too few particles for 1 of 40 rows"):
        found = loo(Fitted(table), X, sample_weight=np.r_[1, 1, 1, 0, np.ones(len(X) - 4)])
    assert np.isfinite(np.delete(found.pointwise, 3)).all() and found.pointwise[3] == -np.inf


def test_rows_that_are_impossible_under_particles_with_weight_are_reported():
    table = np.full((500, 6), -1.0)
    table[:100, 2] = -np.inf
    with pytest.warns(ConvergenceWarning, match="1 of 6 rows are impossible under particles"):
        found = loo(Fitted(table), None)
    assert found.n_bad == 1 and found.pointwise[2] == pytest.approx(-1.0)


@pytest.mark.parametrize("given", ["log_likelihood", "log_likelihood_pointwise"])
def test_a_row_that_closes_off_part_of_the_support_is_reported(given):
    # Rows are shifted exponential, and the least of them bounds the shift: The others say
    # nothing against a shift above it, where no particle is.
    X = 3.0 + np.random.default_rng(5).exponential(2.0, (25, 1))

    def pointwise(theta, X, y):
        gap = X[:, 0] - theta
        return np.where(gap > 0.0, -gap / 2.0 - np.log(2.0), -np.inf)

    def whole(theta, X, y):
        return pointwise(theta, X, y).sum(axis=1)

    functions = {"log_likelihood": None, given: whole if given == "log_likelihood" else pointwise}
    model = ParticleMirrorDescent(**functions, prior={"shift": stats.norm(0, 5)}, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Without 1 of 25 rows"):
        found = loo(model.fit(X), X)
    assert found.n_bad == 1 and np.flatnonzero(np.isinf(found.mcse)) == X.argmin()


def test_too_few_particles_are_no_reason_to_drop_rows():
    # The ratios have a Pareto tail of this shape. Of 0.95 few particles cannot tell if it is
    # above 0.7, many can; weights of 0.3 are good, however few there are.
    def of(m, shape):
        p = (np.arange(m) + 0.5) / m
        return np.column_stack([shape * np.log1p(-p), np.full(m, -1.0)])

    for m in (60, 1000):
        assert loo(Fitted(of(m, 0.3)), None).n_bad == 0
    with pytest.warns(ConvergenceWarning, match="too few particles for 1 of 2 rows") as caught:
        assert loo(Fitted(of(400, 0.95)), None).n_bad == 1
    assert "Fit without" not in str(caught[0].message)
    with pytest.warns(ConvergenceWarning, match="k-hat is above 0.7 for 1 of 2 rows.*Fit without"):
        assert loo(Fitted(of(50_000, 0.95)), None).n_bad == 1


def test_errors_of_rows_are_those_of_independent_draws():
    # Over 200 sets of draws; a standard deviation of 200 is known to 5 %: 4.5 of these.
    X, _ = normal_rows()
    precision = 1.0 / 25.0 + len(X)
    found = [
        loo(Fitted(stats.norm(theta[:, None], 1.0).logpdf(X[::13, 0])), X)
        for theta in np.random.default_rng(0).normal(
            X.sum() / precision, precision**-0.5, (200, 1000)
        )
    ]
    spread = np.std([one.pointwise for one in found], axis=0)
    stated = np.mean([one.mcse for one in found], axis=0)
    np.testing.assert_allclose(stated / spread, 1.0, atol=4.5 * 0.05)


def test_weights_of_stacking_are_reported():
    table = np.random.default_rng(0).normal(-1.0, 0.1, (200, 10))
    with pytest.warns(ConvergenceWarning, match="no plain posterior weights \\(stacking\\)"):
        loo(Fitted(table, weighting="stacking"), None)


def test_comparison():
    X, _ = normal_rows()
    models = {"narrow": normal_mean(0.8).fit(X), "right": normal_mean().fit(X)}
    found = compare(models, X)
    assert found["name"] == ["right", "narrow"]
    pair = [loo(models[name], X) for name in found["name"]]
    gap = pair[0].pointwise - pair[1].pointwise
    assert found["difference"][1] == pytest.approx(gap.sum()) and found["difference"][0] == 0.0
    assert found["difference_se"][1] == pytest.approx(np.sqrt(len(gap)) * gap.std())
    # Stacking weights are those of the largest score of the mixture, on a grid.
    grid = np.linspace(0.0, 1.0, 2001)[:, None]
    mixed = np.log(grid * np.exp(pair[0].pointwise) + (1 - grid) * np.exp(pair[1].pointwise))
    assert found["weight"][0] == pytest.approx(grid[mixed.sum(axis=1).argmax(), 0], abs=2e-3)
    given = compare(dict(zip(found["name"], pair, strict=True)))
    np.testing.assert_array_equal(given["elpd"], found["elpd"])
    by_waic = compare(models, X, by="waic")
    np.testing.assert_allclose(by_waic["elpd"], found["elpd"], atol=0.1)


def test_comparison_by_evidence():
    X, _ = normal_rows()
    models = {"narrow": normal_mean(0.5).fit(X), "right": normal_mean().fit(X)}
    found = compare({name: make_pipeline(one) for name, one in models.items()}, by="evidence")
    assert found["name"] == ["right", "narrow"]
    exact = {}
    for name, scale in (("narrow", 0.5), ("right", 1.0)):
        cov = scale**2 * np.eye(len(X)) + 25.0
        exact[name] = stats.multivariate_normal(np.zeros(len(X)), cov).logpdf(X[:, 0])
    gap = exact["right"] - exact["narrow"]
    assert found["difference"][1] == pytest.approx(gap, abs=0.1)  # Of 4000 draws.
    assert found["weight"].sum() == pytest.approx(1.0)


def test_errors_name_what_is_wrong():
    X, _ = normal_rows()
    table = np.zeros((30, 5))
    with pytest.raises(TypeError, match="no pointwise_log_likelihood"):
        loo(LinearRegression().fit(X, X), X, X)
    with pytest.raises(ValueError, match="two fitted estimators"):
        compare({"one": Fitted(table)}, X)
    with pytest.raises(ValueError, match="by must be"):
        compare({"a": Fitted(table), "b": Fitted(table)}, X, by="aic")
    own = BayesianLogisticRegressionPMD(n_particles=100, random_state=0).fit(X, X[:, 0] > 0.5)
    with pytest.raises(ValueError, match="rows that 'a' was fitted to: give X and y"):
        compare({"a": own, "b": own})
    with pytest.raises(ValueError, match="the same rows"):
        compare({"a": Fitted(table), "b": Fitted(table[:, :3])}, X)

    def pooled(theta, X, y):
        return -((X[:, 0].mean() - theta[:, 0]) ** 2)

    pmd = normal_mean().set_params(log_likelihood=pooled, n_particles=200).fit(X)
    with pytest.raises(ValueError, match="not the sum of that of each"):
        loo(pmd, X)
