"""Groups in what an estimator does beside a fit: parameters, rows left out, draws of the prior."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from scipy.stats import norm, t
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import skpmd
from skpmd import BayesianGLMRegressorPMD, GaussianMixturePMD
from skpmd._base import retained
from skpmd.data import Blocks
from skpmd.linear._group_rows import of_groups, of_rows
from skpmd.metrics import log_predictive_density_scorer
from skpmd.model_comparison import loo
from tests.linear.test_groups import case, dense, table


@pytest.fixture(scope="module")
def fitted():
    X, y = table(20, 5, 1.0)
    return BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0).fit(X, y), X, y


# ------------------------------------------------------------------- parameters
def test_parameters_that_are_set_later_leave_the_fit_as_it_is(fitted):
    fit, X, _ = fitted
    before = fit.predict(X[:9])
    try:
        fit.set_params(groups=None, offset=0)
        np.testing.assert_array_equal(fit.predict(X[:9]), before)
        fit.set_params(groups=None, slopes={1: [0]})
        np.testing.assert_array_equal(fit.predict(X[:9]), before)
    finally:
        fit.set_params(groups=[1], slopes=None, offset=None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [5]}, "groups=5 is no column of X, which has 2"),
        ({"groups": [1.5]}, "groups must be the name or the place of a column, got 1.5"),
        ({"groups": [None]}, r"groups must be a list .* got \[None\]"),
        ({"groups": []}, r"groups must be a list with the names or the places of one to 4 columns"),
        ({"groups": [0]}, "groups=0 holds another number in each of 100 rows.*labels"),
        ({"groups": [1], "slopes": {1: [7]}}, "names 7, which is no column with a coefficient"),
        ({"groups": [1], "slopes": {1: [1]}}, "names 1, which is no column with a coefficient"),
        ({"groups": [1], "slopes": {0: [0]}}, r"are of 0, and groups=\[1\]: name the same column"),
        ({"groups": [1], "slopes": {1: "x"}}, r"slopes\[1\] must be a list with one to 3 columns"),
    ],
)
def test_errors_name_the_parameter_and_what_to_do(fitted, given, message):
    _, X, y = fitted
    with pytest.raises(ValueError, match=message):
        BayesianGLMRegressorPMD("binomial", **given).fit(X, y)


def test_places_of_groups_count_from_the_end(fitted):
    _, X, y = fitted
    fit = BayesianGLMRegressorPMD(groups=[-1], slopes={-1: [-2]}, random_state=0).fit(X, y)
    assert fit.posterior_.names[-3:] == ["sd[x1]", "sd[x1:x0]", "cor[x1:x0]"]


@pytest.mark.parametrize(("effect", "n_ranks"), [("x", 1), (1, 1), (True, 1), (0, 0), (0, 1.5)])
def test_ranks_are_of_effects_that_there_are(fitted, effect, n_ranks):
    effects = fitted[0].group_effects_
    with pytest.raises(ValueError, match=r"(effect|n_ranks) must be .*, got"):
        effects.rank_probabilities(effect, n_ranks)
    by_name = effects.rank_probabilities("intercept", 3)
    np.testing.assert_array_equal(by_name, effects.rank_probabilities(0, 3))


@pytest.mark.slow_for("binomial")
@pytest.mark.parametrize("family", ["normal", "binomial"])
def test_groups_alone_have_the_posterior_beside_a_column_of_zeros(family):
    X, y = table(20, 5, 1.0, family=family)
    model = BayesianGLMRegressorPMD(family, groups=[0], random_state=0)
    alone, sparse = (clone(model).fit(one, y) for one in (X[:, 1:], csr_matrix(X[:, 1:])))
    zeros = clone(model).set_params(groups=[1]).fit(X * [0.0, 1.0], y).posterior_
    gap = (alone.posterior_.mean() - zeros.mean()[1:]) / zeros.std()[1:]
    assert np.abs(gap).max() < 0.08  # 2,400 effective draws: standard errors of .03.
    np.testing.assert_allclose(alone.predict(X[:, 1:]), sparse.predict(X[:, 1:]), rtol=1e-9)
    with pytest.raises(ValueError, match="fit_intercept=False leaves no coefficient"):
        model.set_params(fit_intercept=False).fit(X[:, 1:], y)


@pytest.mark.slow
def test_the_scale_by_the_evidence_has_more_of_it_than_others():
    X, y = table(20, 5, 1.0, family="normal")
    model = BayesianGLMRegressorPMD(groups=[1], random_state=0)
    best = clone(model).set_params(prior_scale="evidence").fit(X, y)
    for factor in (1 / 3, 3):
        other = clone(model).set_params(prior_scale=factor * best.prior_scale_).fit(X, y)
        assert other.log_evidence_ < best.log_evidence_


# ------------------------------------------------------------------- rows and groups left out
@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("poisson", 0),
        ("binomial", 0),
        pytest.param("normal", 1, marks=pytest.mark.slow),
        pytest.param("gamma", 1, marks=pytest.mark.slow),
    ],
)
def test_densities_of_rows_left_out_are_those_of_a_dense_rule(name, slope):
    model, batch, theta = case(name, slope=slope, n=9, seed=4)
    theta = 0.5 * theta
    one, every = of_rows(model, theta, batch)
    for i in range(9):
        others = np.delete(np.arange(9), i)
        once = batch.weight.copy()
        once[i], mine = 1.0, batch.take(others)
        once = batch._replace(weight=once)
        for k, at in enumerate(theta):
            rest = dense(model, mine, at)
            # Orders are raised until a group of nine rows changes by 5e-3 / sqrt(6) at most.
            assert one[k, i] == pytest.approx(dense(model, once, at) - rest, abs=5e-3)
            assert every[k, i] == pytest.approx(dense(model, batch, at) - rest, abs=5e-3)
    total = of_groups(model, theta, batch).sum(axis=1)
    np.testing.assert_allclose(total, model.log_likelihood(theta, batch), atol=1e-6)


def test_rows_left_out_of_normal_groups_have_their_conditional_density(fitted):
    X, y = table(6, 4, 1.0, family="normal")
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    fit = BayesianGLMRegressorPMD(groups=[1], n_particles=200, random_state=0).fit(X, y)
    found, places = fit.pointwise_log_likelihood(X, y), [0, 7]
    for k, (b, a, sigma, sd) in zip(places, fit.posterior_.particles[places], strict=True):
        cov = sigma**2 * np.eye(len(y)) + sd**2 * (X[:, 1:] == X[:, 1])
        off, inverse = y - a - b * X[:, 0], np.linalg.inv(cov)
        var = 1.0 / np.diag(inverse)
        exact = norm.logpdf(var * (inverse @ off), scale=np.sqrt(var))
        np.testing.assert_allclose(found[k], exact, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "normal"])
def test_a_group_left_out_is_one_that_the_fit_has_not_seen(family):
    X, y = table(20, 5, 1.0, family=family)
    model = BayesianGLMRegressorPMD(family, groups=[1], random_state=0)
    found = loo(clone(model).fit(X, y), X, y, by=1)
    assert found.n_bad == 0
    for g in range(20):
        mine = X[:, 1] == g
        fit = clone(model).fit(X[~mine], y[~mine])
        given = fit._validated(X[mine], y[mine])
        rows, theta, batch, codes = fit._likelihood_of(*given, np.ones(mine.sum()))
        of_theta = of_groups(rows, fit._own(None), fit._in_groups(batch, codes)[0])[:, 0]
        exact = logsumexp(of_theta, b=fit.posterior_.weights)
        assert found.pointwise[g] == pytest.approx(exact, abs=0.05)


@pytest.mark.slow
def test_a_row_left_out_is_predicted_by_the_others_of_its_group():
    X, y = table(20, 5, 1.0)
    model = BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0)
    found = loo(clone(model).fit(X, y), X, y)
    assert found.n_bad == 0
    for i in range(0, 100, 12):
        left = np.arange(100) != i
        p = clone(model).fit(X[left], y[left]).predict(X[[i]])[0]
        exact = np.log(p if y[i] else 1.0 - p)
        assert found.pointwise[i] == pytest.approx(exact, abs=0.03)


@pytest.mark.slow
def test_copies_are_left_out_together(fitted):
    _, X, y = fitted
    weight = np.where(np.arange(len(y)) % 7 == 0, 2.0, 1.0)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    model = BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0)
    by_weight = clone(model).fit(X, y, sample_weight=weight)
    groups = loo(by_weight, X, y, sample_weight=weight, by=1)
    other = loo(clone(model).fit(X[copies], y[copies]), X[copies], y[copies], by=-1)
    np.testing.assert_allclose(groups.pointwise, other.pointwise, atol=1e-4)
    rows = loo(by_weight, X, y, sample_weight=weight)
    plain = loo(fitted[0], X, y)
    # Without its copies a row of weight two is less probable than with one of them.
    assert rows.pointwise[0] == pytest.approx(plain.pointwise[0], abs=0.3)
    with pytest.raises(ValueError, match="X must hold the rows of the fit"):
        loo(by_weight, X, y)


def test_groups_are_left_out_by_their_column_alone(fitted):
    fit, X, y = fitted
    with pytest.raises(ValueError, match="by='school' is no column of groups of the fit"):
        loo(fit, X, y, by="school")
    plain = BayesianGLMRegressorPMD("binomial", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="it has none"):
        loo(plain, X, y, by=1)
    with pytest.raises(TypeError, match="by=1 is for groups"):
        loo(GaussianMixturePMD(random_state=0).fit(X), X, by=1)


def test_cross_validation_leaves_groups_out(fitted):
    _, X, y = fitted
    model = BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0, n_particles=1000)
    how = {"cv": GroupKFold(4), "scoring": log_predictive_density_scorer}
    new = cross_val_score(model, X, y, groups=X[:, 1], **how).mean()
    by_group = loo(fitted[0], X, y, by=1)
    # Of one row of a new group, and of five together, of which the first ones tell of the others.
    assert new == pytest.approx(by_group.elpd / len(y), abs=0.05)
    how["cv"] = KFold(4, shuffle=True, random_state=0)
    assert new < cross_val_score(model, X, y, **how).mean()


# ------------------------------------------------------------------- draws of the prior
@pytest.mark.filterwarnings("ignore:.* have no label of:UserWarning")
def test_draws_of_the_prior_share_effects_in_groups():
    X, y = table(5, 4, 1.0, family="normal")
    X = np.vstack([X, [[0.0, np.nan], [0.0, np.nan]]])
    y = np.append(y, [0.0, 1.0])
    tiny = {"prior_scale": 1e-9, "intercept_prior_scale": 1e-9, "dispersion_prior_scale": 1e-9}
    model = BayesianGLMRegressorPMD(groups=[1], group_prior_scale=2.0, **tiny)
    draws = model.sample_prior_y(X, y, n_samples=4000) - y.mean()
    np.testing.assert_allclose(draws[0], draws[3], atol=1e-4)
    assert np.abs(np.corrcoef(draws[[0, 4, -1, -2]]) - np.eye(4)).max() < 0.3
    rng = np.random.default_rng(0)
    exact = np.abs(rng.standard_normal(10**6) * 2.0 * y.std() * t(3).rvs(10**6, random_state=rng))
    # Of 4,000 draws a share has a standard error of .008.
    for level in (0.25, 0.5, 0.75):
        assert (np.abs(draws[0]) < np.quantile(exact, level)).mean() == pytest.approx(
            level, abs=0.03
        )
    with_slope = clone(model).set_params(slopes={1: [0]}).sample_prior_y(X, y, n_samples=50)
    assert with_slope.shape == (22, 50)
    assert np.ptp(with_slope[:4], axis=0).min() > 1e-3


# ------------------------------------------------------------------- streams and shards
def off(found, whole):
    """How many sds means are off, and by what share sds are."""
    gap = found.posterior_.mean() - whole.posterior_.mean()
    spread = found.posterior_.std() / whole.posterior_.std() - 1.0
    return np.abs(gap / whole.posterior_.std()).max(), np.abs(spread).max()


@pytest.mark.slow_but("2097152-binomial")
@pytest.mark.parametrize("family", ["binomial", "normal"])
@pytest.mark.parametrize("room", [1 << 21, 150])
def test_a_stream_of_whole_groups_is_a_fit_to_all(family, room, monkeypatch):
    monkeypatch.setattr(retained, "_MAX_NUMBERS", room)
    X, y = table(60, 5, 1.0, family=family)
    model = BayesianGLMRegressorPMD(family, groups=[1], random_state=0)
    whole, stream = clone(model).fit(X, y), clone(model)
    for part in np.split(np.arange(300), 3):
        stream.partial_fit(X[part], y[part])
    mean, sd = off(stream, whole)
    # 2,400 effective draws of either have standard errors of .03 and 2 %.
    assert mean < 0.1
    assert sd < 0.08
    labels = np.arange(60.0) if room > 150 else np.arange(40.0, 60.0)
    np.testing.assert_array_equal(stream.group_effects_.labels, labels)
    known = np.isin(whole.group_effects_.labels, labels)
    effects = whole.group_effects_.mean[known]
    np.testing.assert_allclose(stream.group_effects_.mean, effects, atol=0.05)
    if room > 150:
        np.testing.assert_allclose(stream.predict(X), whole.predict(X), atol=0.01)
        return
    # Groups whose rows are gone are like new ones.
    with pytest.warns(UserWarning, match=r"groups \[0.0\] of 'x1', 1 in all, had rows in earlier"):
        gone = stream.predict(X[[0]])
    assert gone == stream.predict([[X[0, 0], 999.0]])
    stream.set_params(groups_at="population").predict(X[[0]])
    stream.set_params(groups_at="own")
    before, effects = stream._state, stream.group_effects_
    with pytest.raises(ValueError, match=r"groups=\[1\]: 0.0 had rows in an earlier part"):
        stream.partial_fit(X[[0, -1]], y[[0, -1]])
    assert stream._state is before
    assert stream.group_effects_ is effects
    with pytest.raises(ValueError, match=r"estimators\[0\] has had more rows than it holds"):
        skpmd.merge([stream, whole])


@pytest.mark.slow
def test_intercepts_of_a_stream_are_at_the_mean_of_its_first_part(monkeypatch):
    """Sds and correlations of a fit to all rows are those of a stream once they are of that."""
    rng = np.random.default_rng(0)
    group, x = np.repeat(np.arange(60), 8), rng.normal(size=480)
    effects = rng.normal(size=(60, 2)) @ [[0.8, 0.3], [0.0, 0.4]]
    y = 0.3 + 0.5 * x + effects[group, 0] + effects[group, 1] * x + 0.6 * rng.normal(size=480)
    model, X = BayesianGLMRegressorPMD(groups=[1], slopes={1: [0]}), np.column_stack([x, group])
    whole = clone(model).set_params(random_state=0).fit(X, y).posterior_
    monkeypatch.setattr(retained, "_MAX_NUMBERS", 150)
    stream, by = clone(model).set_params(random_state=0), x[:160].mean() - x.mean()
    for part in np.split(np.arange(480), 3):
        stream.partial_fit(X[part], y[part])
    expected = whole.particles.copy()
    *_, of_a, of_b, cor = expected.T
    covariance = cor * of_a * of_b + by * of_b**2
    of_a[:] = np.sqrt(of_a**2 + 2.0 * by * cor * of_a * of_b + by**2 * of_b**2)
    cor[:] = covariance / (of_a * of_b)
    mean = whole.weights @ expected
    sd = np.sqrt(whole.weights @ (expected - mean) ** 2)
    # Of 2,500 effective draws or more, after two rejuvenations.
    assert np.abs((stream.posterior_.mean() - mean) / sd).max() < 0.12
    np.testing.assert_allclose(stream.posterior_.std(), sd, rtol=0.08)


@pytest.mark.filterwarnings("ignore:.* have no label of:UserWarning")
def test_groups_that_come_in_parts_are_put_together():
    pd = pytest.importorskip("pandas")
    X, y = table(20, 6, 1.0, family="normal")
    names = np.array([None, *(f"s{g}" for g in range(1, 20))], dtype=object)
    frame = pd.DataFrame({"x": X[:, 0], "school": names[X[:, 1].astype(int)]})
    model = BayesianGLMRegressorPMD(groups=["school"], random_state=0)
    whole, parts = clone(model).fit(frame, y), [slice(0, 50), slice(50, 101), slice(101, 120)]
    stream, shuffled = clone(model), np.random.default_rng(0).permutation(120)
    for part in parts:
        stream.partial_fit(frame.iloc[shuffled[part]], y[shuffled[part]])
    later = clone(model).fit(frame[:70], y[:70]).partial_fit(frame[70:], y[70:])
    shards = slice(70), slice(70, 120)  # The group of row 70 has rows in both.
    merged = skpmd.merge([clone(model).fit(frame[rows], y[rows]) for rows in shards])
    for found in (stream, later, merged):
        mean, sd = off(found, whole)
        assert mean < 0.12
        assert sd < 0.1
        effects = found.group_effects_
        order = np.argsort(effects.labels)
        np.testing.assert_array_equal(effects.labels[order], sorted(names[1:]))
        expected = whole.group_effects_
        np.testing.assert_array_equal(np.sort(expected.labels), expected.labels)
        np.testing.assert_allclose(effects.mean[order], expected.mean, atol=0.03)
        np.testing.assert_allclose(found.predict(frame), whole.predict(frame), atol=0.03)


@pytest.mark.parametrize("given", [{"total_samples": 100}, {"half_life": 9.0}, {"forgetting": 0.1}])
def test_no_share_of_a_group_is_taken(fitted, given):
    _, X, y = fitted
    model = BayesianGLMRegressorPMD("binomial", groups=[1], **given)
    with pytest.raises(ValueError, match=f"{next(iter(given))}=.* with groups="):
        model.partial_fit(X, y)


@pytest.mark.slow
def test_blocks_are_fitted_as_rows_in_memory_are(fitted, monkeypatch):
    fit, X, y = fitted
    model, blocks = clone(fit), [X[:50], X[50:]]
    together = clone(model).fit(Blocks(blocks), y)
    np.testing.assert_array_equal(together.coef_, fit.coef_)
    np.testing.assert_array_equal(together.predict(Blocks(blocks)), fit.predict(X))
    whole = clone(model).partial_fit(X, y)
    np.testing.assert_array_equal(clone(model).partial_fit(Blocks(blocks), y).coef_, whole.coef_)
    monkeypatch.setattr("skpmd._rows.table._GROUP", 1)
    monkeypatch.setattr("skpmd._rows.table._MAX_BLOCK", 33)
    np.testing.assert_array_equal(clone(model).fit(Blocks(blocks), y).coef_, fit.coef_)
    parts = clone(model).partial_fit(Blocks(blocks), y)
    assert max(off(parts, whole)) < 0.1
    np.testing.assert_array_equal(parts.predict(Blocks(blocks)), parts.predict(X))
