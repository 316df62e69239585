"""Classes with effects of groups: exact posteriors, predictions, everyday calls, errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_expit, logsumexp
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd
from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD
from skpmd import BayesianOrdinalClassifierPMD as Ordinal
from skpmd.data import Blocks
from skpmd.model_comparison import loo

BINARY = {"scale": None, "random_state": 0}
NEW = np.array([[0.4, 99.0], [0.4, np.nan]])


def rows(G=40, sd=1.2, cut=(0.0,), seed=0):
    """Two to five rows of each group: a column, the group, and codes of ordered classes."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(G), rng.integers(2, 6, G))
    x = rng.normal(size=len(group))
    z = 0.6 * x + sd * rng.normal(size=G)[group] + rng.logistic(size=len(group))
    return np.column_stack([x, group]), np.digitize(z, cut)


@pytest.fixture(scope="module")
def binary():
    X, y = rows()
    return BayesianLogisticRegressionPMD(groups=[1], **BINARY).fit(X, y), X, y


# ------------------------------------------------------------------- exact answers
def log_density(eta, edges, y):
    """Of ordered classes y (n,), with edges (..., K + 1) at the ends of eta (..., n)."""
    low, high = edges[..., y], edges[..., y + 1]
    with np.errstate(divide="ignore"):
        between = np.log(-np.expm1(low - high))
    return log_expit(high - eta) + log_expit(eta - low) + between


def exact(X, y, axes, log_prior, at):
    """Means and sds of b, cutpoints and sd on a grid, and probabilities at ``at`` (k, 2).

    Effects are integrated by a fixed rule of 31 nodes under their population, which five rows a
    group need, for sds up to 4.
    """
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    grid = grid[(np.diff(grid[:, 1:-1], axis=1) > 0.0).all(axis=1)]
    t, of_t = hermegauss(31)
    log_t = np.log(of_t / of_t.sum())
    far = np.full((len(grid), 1), np.inf)
    edges, K = np.hstack([-far, grid[:, 1:-1], far])[:, None], len(axes) - 1
    total, probabilities = log_prior(grid), np.zeros((len(grid), len(at), K))
    for g in (*np.unique(X[:, 1]), 99.0):
        own = X[:, 1] == g
        value = log_t + np.zeros((len(grid), 1))
        for x, code in zip(X[own, 0], y[own], strict=True):
            eta = grid[:, :1] * x + grid[:, -1:] * t
            value += log_density(eta[..., None], edges, np.array([code]))[..., 0]
        top = value.max(axis=1, keepdims=True)
        share = np.exp(value - top)
        total += np.log(share.sum(axis=1)) + top[:, 0]
        for j in np.flatnonzero(np.where(np.isnan(at[:, 1]), 99.0, at[:, 1]) == g):
            eta = (grid[:, :1] * at[j, 0] + grid[:, -1:] * t)[..., None]
            for k in range(K):
                p = np.exp(log_density(eta, edges, np.array([k]))[..., 0])
                probabilities[:, j, k] = (share * p).sum(axis=1) / share.sum(axis=1)
    weight = np.exp(total - total.max())
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    return mean, sd, np.tensordot(weight, probabilities, axes=1)


def half_t(s):
    return student_t.logpdf(s / 2.5, 3)


def check(fit, theta_of, found, at):
    mean, sd, probabilities = found
    theta, weights = theta_of(fit.posterior_.particles), fit.posterior_.weights
    own = weights @ theta
    # 2,400 effective draws: standard errors of .02 sd and 1.5 %, of sds of groups 3 %; the grid's
    # cells add 1 %.
    assert np.abs((own - mean) / sd).max() < 0.08
    np.testing.assert_allclose(np.sqrt(weights @ (theta - own) ** 2), sd, rtol=0.09)
    # An sd of .15 at most between particles, and one draw in strata of an effect with each.
    np.testing.assert_allclose(fit.predict_proba(at), probabilities, atol=0.01)


def test_two_classes_have_the_posterior_of_a_grid(binary):
    fit, X, y = binary
    axes = np.linspace(-0.6, 1.8, 13), np.linspace(-1.8, 1.8, 13), np.linspace(0.02, 4.2, 20)
    at = np.vstack([[[0.3, 5.0], [-1.0, 7.0]], NEW])
    found = exact(
        X, y, axes, lambda u: -0.5 * u[:, 0] ** 2 - 0.005 * u[:, 1] ** 2 + half_t(u[:, 2]), at
    )
    check(fit, lambda theta: theta * [1.0, -1.0, 1.0], found, at)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [(0.3,), (-1.0, 0.7)])
def test_ordered_classes_have_the_posterior_of_a_grid(cut):
    X, y = rows(G=30, cut=cut)
    fit = Ordinal(groups=[1], **BINARY).fit(X, y)
    axes = [np.linspace(-0.6, 1.8, 13)] + [np.linspace(-1.8, 1.8, 15) + c for c in cut]
    at = np.vstack([[[0.3, 5.0], [-1.0, 7.0]], NEW])

    def log_prior(u):  # Classes have uniform probabilities, of which cutpoints are logits.
        of_cut = (log_expit(u[:, 1:-1]) + log_expit(-u[:, 1:-1])).sum(axis=1)
        return of_cut - 0.5 * u[:, 0] ** 2 + half_t(u[:, -1])

    found = exact(X, y, [*axes, np.linspace(0.02, 4.2, 20)], log_prior, at)
    check(fit, lambda theta: theta, found, at)


def test_two_classes_are_single_trials(binary):
    fit, X, y = binary
    trials = BayesianGLMRegressorPMD("binomial", groups=[1], prior_scale=1.0, **BINARY)
    trials = trials.set_params(intercept_prior_scale=10.0).fit(X, y)
    np.testing.assert_array_equal(fit.posterior_.particles, trials.posterior_.particles)
    np.testing.assert_array_equal(fit.group_effects_.mean, trials.group_effects_.mean)
    np.testing.assert_allclose(fit.intercept_std_[0], trials.intercept_std_, rtol=1e-9)
    at = np.vstack([X, NEW])
    np.testing.assert_allclose(fit.predict_proba(at)[:, 1], trials.predict(at), rtol=1e-9)
    ends = trials.predict_interval(at, target="mean")
    np.testing.assert_allclose(fit.predict_proba_interval(at)[:, 1], ends, rtol=1e-9)


def test_an_intercept_is_where_columns_are_zero():
    X, y = rows(G=12)
    X[:, 0] = 50.0 + 3.0 * X[:, 0]
    fit = BayesianLogisticRegressionPMD(groups=[1], random_state=0).fit(X, y)
    intercept = fit.posterior_["intercept"]
    at_mean = fit.posterior_.derive(lambda theta: theta["intercept"] + theta["x0"] * X[:, 0].mean())
    assert fit.coef_.shape == (1, 1)
    assert fit.intercept_[0] == pytest.approx(intercept.mean())
    assert fit.intercept_std_[0] == pytest.approx(intercept.std())
    assert intercept.std() > 5.0 * at_mean.std()
    summary = fit.prior_summary()
    assert summary["name"] == ["x0", "intercept", "sd[x1]"]
    assert summary["prior"][1:] == ["Normal(0, 10) at the columns' means", "half-Student-t(3, 2.5)"]
    none = BayesianLogisticRegressionPMD(groups=[1], fit_intercept=False, **BINARY)
    assert none.fit(X - [50.0, 0.0], y).intercept_[0] == 0.0
    assert none.predict_proba([[1.0, 3.0]]).sum() == pytest.approx(1.0)


# ------------------------------------------------------------------- predictions
@pytest.mark.slow_for("BayesianOrdinalClassifierPMD")
@pytest.mark.parametrize("kind", [BayesianLogisticRegressionPMD, Ordinal])
def test_predictions_of_rows(kind):
    X, y = rows(G=20, cut=(0.0,) if kind is BayesianLogisticRegressionPMD else (-1.0, 1.0))
    y = pd.Categorical(np.array(["c", "b", "a"])[y], ["c", "b", "a"], ordered=True)
    y = y if kind is Ordinal else np.asarray(y)
    fit = kind(groups=[1], n_particles=1000, random_state=0).fit(X, y)
    at = np.vstack([X[::5], NEW])
    together = fit.predict_proba(at)
    np.testing.assert_array_equal(together[-2], together[-1])
    np.testing.assert_array_equal(
        np.concatenate([fit.predict_proba(one[None]) for one in at]), together
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit)).predict_proba(at), together)
    np.testing.assert_array_equal(fit.predict(at), fit.classes_[together.argmax(axis=1)])
    low, high = np.moveaxis(fit.predict_proba_interval(at, 0.5), 2, 0)
    assert (low < high).all()
    draws = fit.sample_y(at, 4000)
    shares = np.stack([(draws == label).mean(axis=1) for label in fit.classes_], axis=1)
    # A thousand particles and 4,000 draws: .008 and as much, in 100 shares at once.
    np.testing.assert_allclose(shares, together, atol=0.05)
    assert (fit.predict_uncertainty(at).epistemic[-2:] > 0.0).all()
    population = clone(fit).set_params(groups_at="population").fit(X, y).predict_proba(at)
    assert not np.allclose(population[0], together[0], atol=0.01)
    np.testing.assert_array_equal(population[-2], fit.set_params(groups_at="population")
                                  .predict_proba([[0.4, 3.0]])[0])  # fmt: skip


def test_labels_of_a_new_group_are_alike():
    X, y = rows(G=20, sd=4.0)
    model = BayesianLogisticRegressionPMD(groups=[1], n_particles=1000, random_state=0)
    fit = model.fit(X, y)
    at = np.array([[0.0, 99], [0.0, 99], [0.0, 98], [0.0, np.nan], [0.0, np.nan]])
    corr = np.corrcoef(fit.sample_y(at, 4000, random_state=0))
    # An effect's sd of about 4: labels of one group have a correlation of .5; 4,000 draws, .016.
    assert corr[0, 1] > 0.35
    assert np.abs(corr[[0, 0, 3], [2, 3, 4]]).max() < 0.1


@pytest.mark.slow
def test_a_weight_of_a_class_is_one_of_its_rows_which_may_be_few_blocks(binary):
    _, X, y = binary
    model = BayesianLogisticRegressionPMD(groups=[1], n_particles=500, **BINARY)
    weighted = clone(model).fit(X, y, np.where(y == 1, 2.0, 1.0))
    by_class = (
        clone(model)
        .set_params(class_weight={1: 2.0})
        .fit(Blocks([(X[:50], y[:50]), (X[50:], y[50:])]))
    )
    np.testing.assert_array_equal(by_class.coef_, weighted.coef_)


# ------------------------------------------------------------------- everyday calls
def frame(X):
    school = np.array([f"school {g:.0f}" for g in X[:, 1]])
    return pd.DataFrame({"school": school, "hours": X[:, 0], "age": np.cos(7.0 * X[:, 0])})


def test_a_column_of_names_goes_through_pipelines_and_searches(tmp_path):
    X, y = rows(G=8)
    table, y = frame(X), np.array(["no", "yes"])[y]
    scaled = ColumnTransformer(
        [("scaled", StandardScaler(), ["hours", "age"])], remainder="passthrough"
    )
    model = BayesianLogisticRegressionPMD(groups=[-1], n_particles=200, random_state=0)
    pipe = make_pipeline(scaled, model).fit(table, y)
    assert pipe[-1].group_effects_.labels[0] == "school 0"
    by_name = clone(model).set_params(groups=["school"]).fit(table, y)
    # Proposals are where searches end, which differ by rounding.
    np.testing.assert_allclose(pipe.predict_proba(table), by_name.predict_proba(table), atol=1e-4)
    assert by_name.posterior_.names == ["hours", "age", "intercept", "sd[school]"]
    skpmd.save(by_name, tmp_path / "fit.skops")
    loaded = skpmd.load(tmp_path / "fit.skops")
    np.testing.assert_array_equal(loaded.predict_proba(table), by_name.predict_proba(table))
    grid = {f"{type(model).__name__.lower()}__prior_scale": [1.0]}
    search = GridSearchCV(clone(pipe), grid, cv=GroupKFold(2), scoring="neg_log_loss", refit=False)
    found = search.fit(table, y, groups=table["school"]).cv_results_["mean_test_score"]
    one = clone(pipe).set_params(**{next(iter(grid)): 1.0})
    scores = cross_val_score(
        one, table, y, groups=table["school"], cv=GroupKFold(2), scoring="neg_log_loss"
    )
    assert scores.mean() == pytest.approx(found[0])


def test_one_class_against_the_others_has_groups():
    X, y = rows(G=12, cut=(-1.0, 1.0))
    model = BayesianLogisticRegressionPMD(groups=["school"], n_particles=200, random_state=0)
    found = OneVsRestClassifier(model).fit(frame(X), y).predict_proba(frame(X))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", [BayesianLogisticRegressionPMD, Ordinal])
def test_what_classes_with_groups_do_not_have_is_refused(kind):
    X, y = rows(G=6)
    model = kind(groups=[1], n_particles=200, random_state=0)
    fit = clone(model).fit(X, y)
    calls = [
        lambda: clone(model).set_params(half_life=9.0).partial_fit(X, y, classes=[0, 1]),
        lambda: clone(model).set_params(groups=["school"]).fit(X, y),
        lambda: clone(model).set_params(groups=None, slopes={1: [0]}).fit(X, y),
        lambda: clone(model).set_params(prior=fit.posterior_).fit(X, y),
        lambda: clone(model).set_params(groups=None, prior=fit).fit(X[:, :1], y),
    ]
    if kind is not Ordinal:
        calls.append(lambda: model.sample_prior_y(X, [0, 1]))
        calls.append(lambda: clone(model).set_params(covariance_type="diag").fit(X, y))
    for call in calls:
        with pytest.raises(ValueError, match="groups|slopes"):
            call()
    assert not hasattr(clone(model).set_params(groups=None).fit(X[:, :1], y), "group_effects_")


@pytest.mark.slow
def test_rows_and_groups_left_out_are_those_of_trials(binary):
    fit, X, y = binary
    scale = fit.intercept_prior_scale
    same = BayesianGLMRegressorPMD("binomial", intercept_prior_scale=scale, groups=[1], **BINARY)
    same.fit(X, y.astype(float))
    for by in ({}, {"by": 1}):
        ours, theirs = (loo(one, X, y, **by) for one in (fit, same))
        np.testing.assert_allclose(ours.elpd, theirs.elpd, rtol=1e-9)
    ours, theirs = (one.pointwise_log_likelihood(X, y) for one in (fit, same))
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_ordered_rows_left_out_have_their_conditional_density():
    X, y = rows(G=12, cut=(-1.0, 1.0))
    X = np.vstack([X, [[0.3, 50.0]]])  # Alone in its group, whose effect has its population.
    model = Ordinal(groups=[1], n_particles=200, random_state=0).fit(X, np.append(y, 1))
    found = model.pointwise_log_likelihood(X[[-1]], [1])[:, 0]
    b, *cut, sd = model.posterior_.particles.T
    t = np.linspace(-9.0, 9.0, 2001)
    of_t = np.exp(-0.5 * t**2)
    eta = (b * 0.3)[:, None] + sd[:, None] * t
    edges = [np.full(len(b), -np.inf), *cut, np.full(len(b), np.inf)]
    edges = np.stack(edges, axis=1)[:, None]
    expected = np.log(np.exp(log_density(eta[..., None], edges, np.array([1]))[..., 0]) @ of_t)
    np.testing.assert_allclose(found, expected - np.log(of_t.sum()), atol=0.01)


@pytest.mark.slow_for("BayesianLogisticRegressionPMD", "BayesianOrdinalClassifierPMD")
@pytest.mark.parametrize("kind", [BayesianLogisticRegressionPMD, Ordinal])
def test_parts_and_shards_of_classes_are_a_fit_to_all(kind):
    X, y = rows(G=30)
    model = kind(groups=[1], random_state=0)
    whole, stream = clone(model).fit(X, y), clone(model)
    halves = X[:, 1] < 15, X[:, 1] >= 14  # Group 14 comes twice.
    halves = halves[0], halves[1] & ~halves[0]
    split = [np.append(np.flatnonzero(halves[0])[:-1], np.flatnonzero(halves[1])),
             np.flatnonzero(halves[0])[-1:]]  # fmt: skip
    for part in split:
        stream.partial_fit(X[part], y[part], classes=[0, 1])
    merged = skpmd.merge([clone(model).fit(X[rows], y[rows]) for rows in halves])
    for found in (stream, merged):
        # 2,400 effective draws of either have standard errors of .03.
        gap = (found.posterior_.mean() - whole.posterior_.mean()) / whole.posterior_.std()
        assert np.abs(gap[[0, -1]]).max() < 0.12
        np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), atol=0.02)


def test_draws_of_the_prior_share_effects_of_ordered_classes():
    X, y = rows(G=8, cut=(-1.0, 1.0))
    drawn = Ordinal(groups=[1], random_state=0).sample_prior_y(X, y, n_samples=400, random_state=0)
    together = (drawn[0] == drawn[1]).mean(), (drawn[0] == drawn[-1]).mean()
    assert together[0] > together[1] + 0.1


def test_the_sure_are_averaged_in_logs(binary):
    fit, _, _ = binary
    (b, a, _), log_weight = fit.posterior_.particles.T, np.log(fit.posterior_.weights)
    for x in (30.0, -5e3):  # There effects are a small part of the logit.
        z = b * x + a
        logs = [logsumexp(log_weight + log_expit(side * z)) for side in (-1.0, 1.0)]
        found = fit.set_params(groups_at="population").predict_log_proba([[x, 1.0]])[0]
        np.testing.assert_allclose(found, logs, rtol=1e-9, atol=1e-12)
    fit.set_params(groups_at="own")
