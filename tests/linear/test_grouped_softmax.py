"""Three classes or more with effects of groups: exact integrals, posteriors, calls, errors."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd
from skpmd import BayesianLogisticRegressionPMD
from skpmd.engine.model import Batch
from skpmd.linear._design import normal_nodes
from skpmd.linear._grouped_softmax import ClassGroups, GroupedSoftmax, Softmax, rules_of
from skpmd.linear._groups import grouped
from skpmd.linear._multinomial import SoftmaxModel
from skpmd.linear._priors import NormalPrior
from skpmd.model_comparison import loo
from skpmd.plot import GroupEffectsDisplay


def rows(K=3, G=30, size=8, seed=0):
    """A frame of two columns and groups, and labels of K classes."""
    rng = np.random.default_rng(seed)
    group, x = np.repeat(np.arange(G), size), rng.normal(size=(G * size, 2))
    z = x @ rng.normal(0.0, 0.7, (2, K)) + rng.gumbel(size=(len(x), K))
    z[:, 1:] += rng.normal(size=(G, K - 1))[group]
    X = pd.DataFrame(x, columns=["x", "z"])
    X["school"] = [f"school {j}" for j in group]
    return X, np.array(list("abcdefgh"))[z.argmax(axis=1)]


def model_of(K, G, fit_intercept=True):
    groups = ClassGroups("g", np.arange(G), tuple("abcdefgh"[1:K]), 2.5)
    d = K * (2 + fit_intercept) + K - 1
    return GroupedSoftmax(
        NormalPrior(np.ones(d)), fit_intercept, grouped(Softmax(), groups), n_classes=K
    )


def batch_of(K, sizes, seed=0):
    """Rows of groups, of which the last has one class alone."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, K, len(group)).astype(float)
    y[group == len(sizes) - 1] = 1.0
    return Batch(rng.normal(size=(len(group), 2)), y, np.ones(len(group)), group=group)


def theta_of(model, sds, m=2, seed=1):
    theta = np.random.default_rng(seed).normal(size=(m, model.n_coordinates))
    theta[:, -len(sds) :] = model.family.dispersions.standard(np.asarray(sds))
    return theta


def density(model, theta, batch, g, effects):
    """Log densities (N,) of the rows of a group where effects are these, (K - 1, N)."""
    K, own = model.n_classes, batch.group == g
    b = theta[: -K + 1].reshape(K, -1)
    z = np.column_stack([batch.X[own], np.ones(own.sum())]) @ b.T
    table = np.repeat(z[:, :, None], effects.shape[1], axis=2)
    table[:, 1:] += effects
    table = log_softmax(table, axis=1)
    return np.array([w * one[int(k)] for one, k, w in zip(
        table, batch.y[own], batch.weight[own], strict=True
    )]).sum(axis=0)  # fmt: skip


def grid(sds):
    """Effects (2, N) on a grid of eight sds to both sides, z, and logs of weights."""
    t = np.linspace(-8.0, 8.0, 321)
    z = np.stack(np.meshgrid(t, t, indexing="ij")).reshape(2, -1)
    log_weight = -0.5 * (z**2).sum(axis=0) - np.log(2.0 * np.pi) + 2.0 * np.log(t[1] - t[0])
    return np.asarray(sds)[:, None] * z, z, log_weight


def integrals(model, theta, batch, order=0):
    starts = np.concatenate([[0], np.flatnonzero(np.diff(batch.group)) + 1, [len(batch.group)]])
    parts = model.integrals(model.split(theta), batch, slice(0, len(batch.y)), starts, order)
    return [np.concatenate(one) for one in list(zip(*parts, strict=True))[1:]]


# ------------------------------------------------------------------- exact answers
@pytest.mark.parametrize("sds", [(0.3, 0.5), (1.0, 2.0), (4.0, 3.0)])
def test_integrals_and_moments_are_those_of_a_grid(sds):
    # A trapezoidal rule of 321 nodes a dimension is exact to rounding of these smooth integrands.
    model, batch = model_of(3, 4), batch_of(3, [1, 3, 20, 6])
    theta, (effects, z, log_weight) = theta_of(model, sds), grid(sds)
    chosen = integrals(model, theta, batch)[0]
    model._rule = rules_of(2).n - 1
    best, _, _, _, moments = integrals(model, theta, batch, 2)
    for i in range(2):
        for g in range(4):
            log_share = density(model, theta[i], batch, g, effects) + log_weight
            total = logsumexp(log_share)
            share = np.exp(log_share - total)
            np.testing.assert_allclose(best[i, g], total, atol=1e-4)
            # What the next rule may change a group by, on average, over all four.
            np.testing.assert_allclose(chosen[i, g], total, atol=4 * 4e-4)
            exact = [*(z @ share), *(share @ (z[a] * z[b]) for a, b in ((0, 0), (1, 0), (1, 1)))]
            np.testing.assert_allclose(moments[i, g], [*exact, *(z**3 @ share)], atol=2e-3)


@pytest.mark.slow_for("5", "7")
@pytest.mark.parametrize("K", [5, 7])
def test_integrals_of_more_classes_are_those_of_many_draws(K):
    model, batch = model_of(K, 2), batch_of(K, [12, 5])
    sds = np.linspace(0.5, 1.2, K - 1)
    theta = theta_of(model, sds, m=1)
    # Of 2^19 quasi-random draws of the prior, whose halves agree to 4e-4 nats here.
    effects = sds[:, None] * normal_nodes(K - 1, 1 << 19, shifted=True)
    chosen = integrals(model, theta, batch)[0]
    for g in range(2):
        log_density = density(model, theta[0], batch, g, effects)
        total = logsumexp(log_density) - np.log(effects.shape[1])
        np.testing.assert_allclose(chosen[0, g], total, atol=2e-3)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_gradients_are_those_of_differences(is_sparse):
    model, batch = model_of(3, 4), batch_of(3, [1, 3, 20, 6])
    model._rule = rules_of(2).n - 1
    batch = batch._replace(weight=np.linspace(0.5, 2.0, len(batch.y)))
    if is_sparse:
        batch, model.shift = batch._replace(X=csr_matrix(batch.X)), np.array([0.3, -0.2])
    theta = theta_of(model, (0.8, 1.5), m=1)
    gradient, step = model.log_joint_gradient(theta, [batch])[1][0], 1e-5
    points = np.concatenate([theta + step * np.eye(11), theta - step * np.eye(11)])
    ahead, back = np.split(model.log_likelihood(points, batch) + model.log_prior(points), 2)
    # The last rule leaves 1e-6 nats, and what remains is of differences.
    np.testing.assert_allclose(gradient, (ahead - back) / (2 * step), rtol=1e-5, atol=1e-4)


def test_no_effects_are_the_plain_softmax():
    model, batch = model_of(4, 3), batch_of(4, [1, 5, 30])
    theta = theta_of(model, (1e-9,) * 3)
    plain = SoftmaxModel(NormalPrior(np.ones(12)), True, 4)
    expected = plain.log_likelihood(theta[:, :-3], batch)
    np.testing.assert_allclose(model.log_likelihood(theta, batch), expected, rtol=1e-10)


def test_weights_are_copies():
    model, batch = model_of(3, 3), batch_of(3, [2, 4, 3])
    times = np.array([1, 3, 2, 1, 1, 2, 5, 1, 2])
    copies = batch.take(np.repeat(np.arange(9), times))
    theta = theta_of(model, (1.0, 1.5))
    model._rule = 2
    found = model.log_likelihood(theta, batch._replace(weight=times.astype(float)))
    # Searches for modes end within .1 sds, from where nodes see 1e-5 nats more or less.
    np.testing.assert_allclose(found, model.log_likelihood(theta, copies), atol=1e-4)


# ------------------------------------------------------------------- the estimator
NEW = pd.DataFrame({"x": [0.5] * 3, "z": [0.0] * 3, "school": ["school 3", "another", None]})


@pytest.fixture(scope="module")
def fitted():
    X, y = rows()
    return BayesianLogisticRegressionPMD(groups=["school"], random_state=0).fit(X, y), X, y


def test_names(fitted):
    fit = fitted[0]
    assert fit.posterior_.names[:3] == ["x[a]", "z[a]", "intercept[a]"]
    assert fit.posterior_.names[-2:] == ["sd[school:b]", "sd[school:c]"]
    assert fit.prior_summary()["prior"][-1] == "half-Student-t(3, 2.5)"
    assert fit.coef_.shape == (3, 2) and fit.intercept_.shape == (3,)


def test_predictions_average_over_effects(fitted):
    fit, X, y = fitted
    theta, weights = fit.posterior_.particles, fit.posterior_.weights
    rng = np.random.default_rng(1)
    chosen = theta[rng.choice(len(theta), 40000, p=weights)]
    z = chosen[:, :9].reshape(-1, 3, 3) @ [0.5, 0.0, 1.0]
    population = z.copy()
    population[:, 1:] += chosen[:, 9:] * rng.normal(size=(40000, 2))
    found = fit.predict_proba(NEW)
    # Of 4,000 draws, of which a probability varies by .2 at most, in strata.
    np.testing.assert_allclose(found[1], softmax(population, axis=1).mean(axis=0), atol=0.006)
    np.testing.assert_array_equal(found[1], found[2])
    # Given each of some particles, effects of a known group are weighed on a grid.
    own, expected = np.flatnonzero(X["school"] == "school 3"), np.zeros(3)
    codes = np.searchsorted(fit.classes_, y[own]).astype(float)
    design = np.column_stack([X.iloc[own, :2].to_numpy(), np.ones(len(own))])
    batch = Batch(design[:, :2], codes, np.ones(len(own)), group=np.zeros(len(own)))
    for one in chosen[:100]:
        effects, _, log_weight = grid(one[9:])
        every = np.arange(effects.shape[1])[::5]
        log_share = density(model_of(3, 1), one, batch, 0, effects[:, every]) + log_weight[every]
        at = (one[:9].reshape(3, 3) @ [0.5, 0.0, 1.0])[:, None] + np.zeros(len(every))
        at[1:] += effects[:, every]
        expected += softmax(at, axis=0) @ softmax(log_share) / 100
    # A probability varies by .07 between particles, of which there are 100.
    np.testing.assert_allclose(found[0], expected, atol=0.02)
    typical = softmax(z, axis=1).mean(axis=0)
    fit.set_params(groups_at="population")
    np.testing.assert_allclose(fit.predict_proba(NEW), [typical] * 3, atol=0.003)
    fit.set_params(groups_at="own")


def test_draws_share_the_effect_of_a_new_group(fitted):
    fit, X, y = fitted
    same = NEW.iloc[[1, 1]]
    both = fit.sample_y(pd.concat([same, NEW.iloc[[2]]]), 4000)
    # .45 and .35, with standard errors of .008.
    assert np.mean(both[0] == both[1]) > np.mean(both[0] == both[2]) + 0.03


def test_labels_of_groups_are_names(fitted):
    fit, X, y = fitted
    other = X.assign(school=X["school"].str.replace("school", "a"))
    again = BayesianLogisticRegressionPMD(groups=["school"], random_state=0).fit(other, y)
    # Sums round by where arrays begin: by a 3e-11th where deviations are .1 and more.
    np.testing.assert_allclose(again.posterior_.mean(), fit.posterior_.mean(), atol=1e-9)


def test_effects_and_their_displays(fitted):
    fit = fitted[0]
    effects = fit.group_effects_
    assert effects.names == ("b", "c") and effects.interval().shape == (30, 2, 2)
    np.testing.assert_allclose(effects.rank_probabilities("c").sum(axis=0), 1.0)
    np.testing.assert_allclose(effects.draws[:-1].mean(axis=2), effects.mean, atol=0.05)
    np.testing.assert_allclose(effects.draws[:-1].std(axis=2), effects.std, rtol=0.05)
    ax = pytest.importorskip("matplotlib.figure").Figure().subplots()
    label = GroupEffectsDisplay.from_estimator(fit, effect="c", ax=ax).ax_.get_xlabel()
    assert label.startswith("c of school, log odds against the first class\n")


@pytest.mark.slow
def test_leaving_out(fitted):
    fit, X, y = fitted
    by_group, by_row = loo(fit, X, y, by="school"), loo(fit, X, y)
    assert len(by_group.pointwise) == 30 and by_group.elpd < by_row.elpd


def test_files(fitted, tmp_path):
    pytest.importorskip("skops")
    skpmd.save(fitted[0], tmp_path / "model")
    again = skpmd.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(NEW), fitted[0].predict_proba(NEW))


@pytest.mark.slow_for("2")
@pytest.mark.parametrize("step", [1, 2])
def test_parts(fitted, step):
    fit, X, y = fitted
    order = np.argsort(X["school"].to_numpy(), kind="stable")  # Whole groups, or half of each.
    stream = BayesianLogisticRegressionPMD(groups=["school"], random_state=0)
    for places in (order[:120], order[120:]) if step == 1 else (order[::2], order[1::2]):
        stream.partial_fit(X.iloc[places], y[places], classes=["a", "b", "c"])
    gap = (stream.posterior_.mean() - fit.posterior_.mean()) / fit.posterior_.std()
    assert np.abs(gap).max() < 0.1  # Of 2,000 effective draws each, .03.
    assert len(stream.group_effects_.labels) == 30


def test_everyday_calls(fitted):
    _, X, y = fitted
    columns = ColumnTransformer([("scaled", StandardScaler(), ["x", "z"])], remainder="passthrough")
    inner = BayesianLogisticRegressionPMD(groups=[-1], n_particles=400, random_state=0)
    search = GridSearchCV(
        make_pipeline(columns, inner),
        {"bayesianlogisticregressionpmd__group_prior_scale": [0.5, 2.5]},
        cv=GroupKFold(2), scoring="neg_log_loss",
    )  # fmt: skip
    assert search.fit(X, y, groups=X["school"]).predict_proba(NEW).shape == (3, 3)
    balanced = inner.set_params(groups=["school"], class_weight="balanced")
    assert balanced.fit(X, y).predict_proba(NEW).shape == (3, 3)


@pytest.mark.slow
def test_horseshoe(fitted):
    _, X, y = fitted
    model = BayesianLogisticRegressionPMD(prior="horseshoe", groups=["school"], n_particles=400)
    assert model.set_params(random_state=0).fit(X, y).predict_proba(NEW).shape == (3, 3)


@pytest.mark.parametrize("given", [{"slopes": {"school": ["x"]}}, {"groups": ["school", "z"]}])
def test_errors(fitted, given):
    _, X, y = fitted
    model = BayesianLogisticRegressionPMD(**{"groups": ["school"], **given})
    with pytest.raises(
        ValueError, match="y has 3 classes, and slopes and several factors are for two"
    ):
        model.fit(X.assign(z=np.arange(len(X)) % 3), y)
