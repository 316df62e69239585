"""Effects of groups: integrals, posteriors, predictions, and what is refused."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import skpmd
from skpmd import BayesianGLMRegressorPMD
from skpmd.engine.model import Batch
from skpmd.linear import _group_rules, _groups
from skpmd.linear._correlations import factor_of
from skpmd.linear._families import FAMILIES, Cumulative
from skpmd.linear._group_rows import codes_of
from skpmd.linear._grouped_normal import GroupedNormal, _inverse
from skpmd.linear._groups import GroupedModel, Groups, grouped
from skpmd.linear._priors import NormalPrior
from tests.linear.test_glm import at_means

CASES = [
    ("poisson", "auto"),
    ("binomial", "auto"),
    *(
        pytest.param(name, link, marks=pytest.mark.slow)
        for name, link in [
            ("student_t", "auto"), ("negative_binomial", "auto"), ("gamma", "auto"),
            ("binomial", "probit"), ("beta", "auto"), ("cumulative", "auto"),
        ]
    ),
]  # fmt: skip


def y_of(name, n, rng):
    draws = {
        "normal": rng.normal(size=n), "student_t": rng.normal(size=n), "poisson": rng.poisson(2, n),
        "negative_binomial": rng.poisson(2, n), "gamma": rng.gamma(1.0, 1.0, n),
        "binomial": rng.integers(0, 2, n), "beta": rng.beta(1, 1, n),
        "cumulative": rng.integers(0, 4, n),
    }  # fmt: skip
    return draws[name].astype(float)


def case(name, link="auto", slope=0, n=17, seed=0):
    """A model of six groups, the last of which has one row, a batch, and two points.

    Each group has so many slopes, of columns of three or more.
    """
    rng = np.random.default_rng(seed)
    group = np.sort(np.append(rng.integers(0, 5, n - 1), 5))
    own = Cumulative(4) if name == "cumulative" else FAMILIES[name](link)
    groups = Groups("g", np.arange(6), tuple("xvw"[:slope]), tuple(range(slope)), 2.5)
    family = grouped(own, groups)
    p = max(2, slope)
    d = p + (name != "cumulative") + len(family.dispersions.names)
    kind = GroupedNormal if family.is_conjugate else GroupedModel
    model = kind(NormalPrior(np.ones(d)), name != "cumulative", family, 0.1, 0.0)
    weight = rng.integers(1, 3, n).astype(float)
    batch = Batch(rng.normal(size=(n, p)), y_of(name, n, rng), weight, group=group)
    return model, batch, 0.7 * rng.normal(size=(2, d))


def dense(model, batch, theta):
    """Log-likelihood by the trapezoidal rule over each group's effects, and by no quadrature."""
    slopes, phi, sds = model.split(theta[None])
    q = model.family.groups.n_effects
    lower = np.zeros((q, q))
    lower[np.tril_indices(q)] = model.factor(sds)[0]
    t = np.linspace(*[(-7.0, 7.0, 2001), (-7.0, 7.0, 281), (-5.5, 5.5, 45), (-5.0, 5.0, 31)][q - 1])
    z = np.stack([one.ravel() for one in np.meshgrid(*[t] * q, indexing="ij")], axis=1)
    columns = model._columns(batch, slice(None))
    table, total = model._predictors(slopes, batch, slice(None))[0], 0.0
    for g in np.unique(batch.group):
        rows = batch.group == g
        x = np.column_stack([np.ones(rows.sum()), batch.X[rows, : q - 1]])
        eta = table[rows] + z @ (lower.T @ x.T)
        value, phis = -0.5 * (z**2).sum(axis=1), np.repeat(phi, len(z), axis=0)
        of_row = [one[rows] for one in columns]
        model.family.kernel(
            eta, *of_row, phis, model.family.code, value, np.zeros(phis.shape), np.empty((0, 0)), 0
        )
        width = np.log((t[1] - t[0]) / np.sqrt(2.0 * np.pi))
        total += np.logaddexp.reduce(value) + width * q
    return total + model.family.rest(phi, *columns)[0]


@pytest.mark.parametrize("slope", [0, 1])
@pytest.mark.parametrize(("name", "link"), CASES)
def test_integrals_are_those_of_a_dense_rule(name, link, slope):
    model, batch, theta = case(name, link, slope)
    theta = 0.5 * theta
    exact = [dense(model, batch, one) for one in theta]
    # Orders are raised until each of six groups changes by 5e-3 / sqrt(6) at most.
    np.testing.assert_allclose(model.log_likelihood(theta, batch), exact, atol=5e-3)


def once(model, batch, theta, sd=None):
    """The same with a weight of one, which single trials need for their kernel, and another sd."""
    if sd is not None:
        k = model.family.dispersions.n_own - len(model.family.dispersions.names)
        theta = theta.copy()
        theta[:, k:] = model.family.groups.dispersions.standard(np.full((len(theta), -k), sd))
    return model, batch._replace(weight=np.ones(len(batch.y))), theta


def test_integrals_of_single_trials_and_their_gradients_are_those_of_a_dense_rule():
    model, batch, theta = once(*case("binomial", seed=2))
    exact = [dense(model, batch, one) for one in theta]
    # Rules are right to 1e-3 / sqrt(6) in each of six groups, and numbers of rows to 1e-6.
    np.testing.assert_allclose(model.log_likelihood(theta, batch), exact, atol=1e-3)
    _, gradient = model.log_joint_gradient(theta, [batch])
    for j in range(theta.shape[1]):
        step = 1e-3 * (np.arange(theta.shape[1]) == j)
        ahead, back = (
            model.log_prior(at) + [dense(model, batch, one) for one in at]
            for at in (theta + step, theta - step)
        )
        np.testing.assert_allclose((ahead - back) / 2e-3, gradient[:, j], atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("binomial", "auto"),
        ("poisson", "auto"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [("binomial", "probit"), ("gamma", "auto"), ("normal", "log")]
        ),
    ],
)
def test_integrals_over_effects_of_any_size_are_those_of_a_dense_rule(name, link):
    for sd in (2.0, 8.0, 20.0):  # Of the largest a group's likelihood is a step.
        model, batch, theta = once(*case(name, link, seed=3), sd)
        exact = [dense(model, batch, one) for one in theta]
        # Rules are right to 1e-3 / sqrt(6) at the median of points, which are far from each other,
        # and where effects vary most: .008 between. By 17 nodes .07 and .03 nats are missing at the
        # largest sd.
        np.testing.assert_allclose(model.log_likelihood(theta, batch), exact, atol=1e-2)


def test_integrals_that_no_rule_settles_are_warned_of(monkeypatch):
    X, y = table(60, 1, 2.0)
    monkeypatch.setattr(_group_rules, "_RULES", (3, 5))
    monkeypatch.setattr(_group_rules, "_PANELS", ())
    few = _group_rules._Rules(1)
    for module in (_groups, _group_rules):
        monkeypatch.setattr(module, "rules_of", lambda *given: few)
    monkeypatch.setattr(_groups, "_OF_SEARCHES", (1,))
    model = BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0)
    with pytest.warns(
        ConvergenceWarning, match="of 60 groups have not converged under the largest rule"
    ):
        model.fit(X, y)
    assert any("not converged" in text for text in model.diagnostics_["warnings"])


def test_gradients_of_trajectories_are_rough():
    """Chains walk by these, and are accepted by values: they have to be near, and cost less."""
    model, batch, theta = case("binomial", slope=1, seed=1)
    rough, exact = (
        find(0.5 * theta, [batch]) for find in (model.rough_gradient, model.log_joint_gradient)
    )
    np.testing.assert_allclose(rough, exact[1], atol=0.1)
    assert (rough != exact[1]).any()
    assert case("binomial")[0].rough_gradient is None is case("normal", slope=1)[0].rough_gradient


@pytest.mark.slow_for("binomial-auto-1")
@pytest.mark.parametrize("slope", [0, 1])
@pytest.mark.parametrize(("name", "link"), [*CASES, ("normal", "auto")])
def test_gradients_are_those_of_the_integrals(name, link, slope, monkeypatch):
    # Differences are those of a dense rule: with the largest number of nodes a skewed integral of
    # two dimensions may lack .04 nats, as of probits, whose tails fall faster than a Gaussian's.
    monkeypatch.setattr(_group_rules, "TOLERANCE", 1e-8)
    model, batch, theta = case(name, link, slope, seed=1)
    theta = 0.5 * theta
    _, gradient = model.log_joint_gradient(theta, [batch])
    for j in range(theta.shape[1]):
        step = np.zeros(theta.shape[1])
        step[j] = 1e-3
        ahead, back = (
            model.log_prior(at) + [dense(model, batch, one) for one in at]
            for at in (theta + step, theta - step)
        )
        np.testing.assert_allclose((ahead - back) / 2e-3, gradient[:, j], atol=0.02, rtol=3e-3)


@pytest.mark.parametrize("slope", range(4))
def test_normal_rows_have_the_density_of_a_normal_vector(slope):
    model, batch, theta = case("normal", slope=slope)
    once = batch._replace(weight=np.ones(len(batch.y)))
    slopes, phi, sds = model.split(theta)
    X = np.column_stack([batch.X, np.ones(len(batch.y))])
    Z, q = np.column_stack([np.ones(len(X)), batch.X[:, :slope]]), slope + 1
    for i, value in enumerate(model.log_likelihood(theta, once)):
        lower = np.zeros((q, q))
        lower[np.tril_indices(q)] = model.factor(sds)[i]
        same = batch.group[:, None] == batch.group
        cov = same * (Z @ lower @ lower.T @ Z.T) + phi[i, 0] ** 2 * np.eye(len(X))
        exact = multivariate_normal(X @ slopes[i] + 0.1, cov).logpdf(batch.y)
        assert value == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("slope", range(4))
def test_moments_of_effects_of_normal_rows_are_those_of_quadrature(slope):
    """Rules for a Gaussian are exact, so that both are the same to rounding."""
    model, batch, theta = case("normal", slope=slope)
    rows, starts = slice(0, 17), np.append(np.unique(batch.group, return_index=True)[1], 17)
    for piece in ((rows, starts), (slice(starts[2], 17), starts[2:] - starts[2])):
        given = model.split(theta), batch, *piece, 2
        (own,) = (part[-1] for part in model.integrals(*given))
        (exact,) = (part[-1] for part in GroupedModel.integrals(model, *given))
        np.testing.assert_allclose(own, exact, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_trials_of_a_group_of_many_rows_have_a_sum_of_all_digits():
    """Products are in single precision, and of more rows than they hold."""
    model, batch, theta = once(*case("binomial", n=40_000, seed=4))
    batch = batch._replace(group=np.repeat([0, 1], [39_999, 1]))
    exact = [dense_of_many(model, batch, one) for one in theta]
    # Log densities of 40,000 rows are right to 1e-7 each, and their errors are independent.
    np.testing.assert_allclose(model.log_likelihood(theta, batch), exact, atol=1e-3)


def dense_of_many(model, batch, theta):
    """As `dense`, with nodes near the mode of the large group alone."""
    slopes, _, sds = model.split(theta[None])
    table, total = model._predictors(slopes, batch, slice(None))[0], 0.0
    for g in (0, 1):
        rows = batch.group == g
        signed = np.where(batch.y[rows] > 0.0, 1.0, -1.0)
        u, width = 0.0, 9.0 * sds[0, 0]
        for n in (181, 181, 801):
            t = u + np.linspace(-width, width, n)
            value = [-np.logaddexp(0.0, -signed * (table[rows] + one)).sum() for one in t]
            value -= 0.5 * (t / sds[0, 0]) ** 2
            u, width = t[np.argmax(value)], width if g else width / 10.0
        step = np.log((t[1] - t[0]) / np.sqrt(2.0 * np.pi) / sds[0, 0])
        total += np.logaddexp.reduce(value) + step
    return total


def test_normal_rows_have_a_density_where_effects_are_all_there_is():
    model, batch, _ = case("normal", slope=1)
    sums = model._sums(batch)
    sds = np.array([[50.0, 50.0, 1.0 - 1e-15], [1e4, 10.0, 0.5]])
    lower, variance = np.zeros((2, 2, 2)), 1e-12
    lower[:, 0, 0], lower[:, 1, 0], lower[:, 1, 1] = factor_of(sds).T
    half = sums.triangle @ lower[:, None]
    A = half @ half.swapaxes(-1, -2) + variance * np.eye(2)
    _, det = _inverse(A, np.full((2, 1), variance), half)
    exact = (variance + np.linalg.svd(half, compute_uv=False) ** 2).prod(axis=-1)
    np.testing.assert_allclose(det, exact, rtol=1e-4)


@pytest.mark.slow
def test_too_long_a_step_of_a_search_is_not_the_end_of_a_fit():
    rng = np.random.default_rng(0)  # Of these rows a step went to a sigma of 2e-13.
    g, x, u = rng.integers(0, 30, 150), rng.normal(size=150), rng.normal(size=30)
    y = np.exp(1.0 + 0.3 * x + 2.0 * u[g]) + 0.5 * rng.normal(size=150)
    model = BayesianGLMRegressorPMD("normal", link="log", groups=[1], random_state=0)
    sigma = model.fit(np.column_stack([x, g]), y).dispersion_["sigma"]
    assert sigma == pytest.approx(0.5, abs=0.1)


def test_a_particle_far_from_all_others_has_a_likelihood():
    X, _ = table(20, 6, 0.0)  # An sd of 1e5, as heavy tails of separable classes have some.
    family = grouped(FAMILIES["binomial"](), Groups("g", np.arange(20), (), (), 2.5))
    model = GroupedModel(NormalPrior(np.ones(3)), True, family, 0.0)
    rows = Batch(X[:, :1], 1.0 * (X[:, 0] > 0.0), np.ones(120), group=X[:, 1])
    theta = np.tile([21.8, 3.7, 0.8], (21, 1))
    theta[0] = -32.0, 0.01, 7.5
    value = model.log_likelihood(theta, rows)
    assert value[0] < -100.0
    assert np.isfinite(value[1:]).all()


def test_a_weight_is_a_number_of_copies():
    for name in ("normal", "poisson"):
        model, batch, theta = case(name, slope=1)
        copies = batch.take(np.repeat(np.arange(len(batch.y)), batch.weight.astype(int)))
        copies = copies._replace(weight=np.ones(len(copies.y)))
        np.testing.assert_allclose(
            model.log_likelihood(theta, batch), model.log_likelihood(theta, copies), atol=1e-6
        )


# ------------------------------------------------------------------- posteriors
def table(G, n, sd, seed=0, family="binomial"):
    """n rows of G groups: a column, the group, and y."""
    rng = np.random.default_rng(seed)
    group, x = np.repeat(np.arange(G), n), rng.normal(size=G * n)
    eta = 0.3 + 0.5 * x + sd * rng.normal(size=G)[group]
    if family == "binomial":
        y = (rng.random(G * n) < expit(eta)).astype(float)
    else:
        y = eta + 0.5 * rng.normal(size=G * n)
    return np.column_stack([x, group]), y


@pytest.mark.parametrize(
    ("G", "n", "sd", "family"),
    [
        pytest.param(60, 2, 1.0, "binomial", marks=pytest.mark.slow),
        (1, 40, 0.5, "binomial"),
        (2, 12, 0.7, "binomial"),
        pytest.param(3, 20, 1.0, "binomial", marks=pytest.mark.slow),
        (20, 5, 0.0, "binomial"),
        (8, 5, 1.0, "normal"),
    ],
)
def test_posteriors_are_those_of_long_importance_sampling(G, n, sd, family):
    X, y = table(G, n, sd, family=family)
    model = BayesianGLMRegressorPMD(family, groups=[1], random_state=0).fit(X, y)
    long = clone(model).set_params(n_particles=20000, random_state=1).fit(X, y)
    gap = (model.posterior_.mean() - long.posterior_.mean()) / long.posterior_.std()
    # 2,400 effective draws: standard errors of .02 and 1.5 %, of few groups of .01 and 2 %.
    assert np.abs(gap).max() < 0.08
    np.testing.assert_allclose(model.posterior_.std(), long.posterior_.std(), rtol=0.06)
    assert model.diagnostics_["method"].startswith("importance")


def test_a_posterior_is_that_of_a_grid():
    X, y = table(40, 2, 1.0)
    fit = BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0).fit(X, y)
    posterior, (b, a, s) = at_means(fit), np.ogrid[-1:2.5:30j, -1.5:2:30j, 0.05:6:0.1]
    scale = X[:, 0].std()
    location = fit._state.response.location
    family = fit._state.response.family
    model = GroupedModel(NormalPrior(np.ones(3)), True, family, location)
    points = np.stack(np.broadcast_arrays(b * scale, a - location, s), axis=-1).reshape(-1, 3)
    u = np.column_stack([points[:, :2], family.dispersions.standard(points[:, 2:])])
    rows = Batch((X[:, :1] - X[:, 0].mean()) / scale, y, np.ones(len(y)), group=X[:, 1])
    log = model.log_likelihood(u, rows) - 0.5 * points[:, 0] ** 2 - 0.08 * points[:, 1] ** 2
    log += family.groups.dispersions.laws[0].log_density(points[:, 2])
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    given = np.stack(np.broadcast_arrays(b, a, s), axis=-1).reshape(-1, 3)
    mean = weight @ given
    sd = np.sqrt(weight @ (given - mean) ** 2)
    # Standard errors of 2,400 effective draws are .02 and 1.5 %, and cells of the grid add 1 %.
    assert np.abs((posterior.mean() - mean) / sd).max() < 0.08
    np.testing.assert_allclose(posterior.std(), sd, rtol=0.08)


# ------------------------------------------------------------------- predictions
@pytest.fixture(scope="module")
def fitted():
    X, y = table(30, 4, 1.2)
    return BayesianGLMRegressorPMD("binomial", groups=[1], random_state=0).fit(X, y), X, y


def test_predictions_of_known_groups_are_ratios_of_integrals(fitted):
    fit, X, y = fitted
    state, theta = fit._state, fit._state.effects.particles
    model = state.response.model(NormalPrior(np.ones(3)), True, None)
    u = fit.posterior_.frame.outward(fit.posterior_.particles[theta])
    g, at = 7, 0.4
    rows = X[:, 1] == g

    def value(x, y):
        column = (x[:, None] - state.units.centre) / state.units.scale
        batch = Batch(column, y, np.ones(len(y)), group=np.zeros(len(y), dtype=int))
        return model.log_likelihood(u, batch)

    before = value(X[rows, 0], y[rows])
    after = value(np.append(X[rows, 0], at), np.append(y[rows], 1.0))
    # Draws of one effect a particle: in strata of 4,000, with an error of less than .004.
    exact = np.exp(after - before).mean()
    assert fit.predict([[at, g]])[0] == pytest.approx(exact, abs=0.006)
    of_new = value(np.array([at]), np.ones(1))
    for new in (99.0, np.nan):
        assert fit.predict([[at, new]])[0] == pytest.approx(np.exp(of_new).mean(), abs=0.006)


def test_each_row_is_predicted_by_itself(fitted):
    fit, X, _ = fitted
    rows = np.vstack([X[::7], [[0.2, 99.0], [0.1, np.nan]]])
    together = fit.predict(rows)
    alone = np.concatenate([fit.predict(row[None]) for row in rows])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, pickle.loads(pickle.dumps(fit)).predict(rows))
    found = fit.predict_proba(rows)
    np.testing.assert_array_equal(found[2:5].mean(), together[2:5])


def test_the_population_has_no_effects(fitted):
    fit, X, _ = fitted
    at_zero = clone(fit).set_params(groups_at="population").fit(X, fitted[2])
    low, high = at_zero.predict([[0.3, 1], [0.3, 2]])
    assert low == high
    coefficients, _ = at_zero._of_particles
    eta = coefficients @ [0.3, 1.0]
    assert low == pytest.approx(at_zero.posterior_.weights @ expit(eta), abs=1e-9)


def test_draws_of_a_new_group_share_its_effect():
    X, y = table(30, 4, 3.0, family="normal")
    fit = BayesianGLMRegressorPMD("normal", groups=[1], random_state=0).fit(X, y)
    rows = [[0.0, 99], [0.0, 99], [0.0, 98], [0.0, np.nan], [0.0, np.nan]]
    corr = np.corrcoef(fit.sample_y(np.array(rows), 4000, random_state=0))
    # An effect's sd of 3 and noise of .5; 4,000 draws have a standard error of .016.
    assert corr[0, 1] > 0.9
    assert np.abs(corr[[0, 0, 0, 3], [2, 3, 4, 4]]).max() < 0.1


def test_effects_of_groups(fitted):
    fit, X, y = fitted
    effects = fit.group_effects_
    assert list(effects.labels) == list(range(30))
    rate = np.array([y[X[:, 1] == g].mean() for g in range(30)])
    assert np.corrcoef(rate, effects.mean[:, 0])[0, 1] > 0.8
    np.testing.assert_allclose(effects.draws[:-1].mean(axis=2), effects.mean, atol=0.05)
    np.testing.assert_allclose(effects.draws[:-1].std(axis=2), effects.std, rtol=0.05)
    ranks = effects.rank_probabilities(n_ranks=30)
    np.testing.assert_allclose(ranks.sum(axis=0), 1.0)
    np.testing.assert_allclose(ranks.sum(axis=1), 1.0)
    assert len(effects.summary()["group"]) == 30


@pytest.mark.slow_for("slopes1")
@pytest.mark.parametrize("slopes", [None, {1: [0]}])
def test_threads_change_no_digit(slopes):
    X, y = table(4, 300, 1.0)  # 1,200 rows are two pieces.
    model = BayesianGLMRegressorPMD("poisson", groups=[1], slopes=slopes, proposal="laplace")
    model.set_params(n_particles=100, moves="never", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # So few particles have bad weights.
        one, two = (clone(model).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.posterior_.particles, two.posterior_.particles)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.parametrize("family", ["normal", pytest.param("binomial", marks=pytest.mark.slow)])
def test_intercepts_of_groups_are_at_the_mean_of_a_column_that_is_not_centred(family):
    X, y = table(20, 12, 0.5, family=family)
    wide = {"scale": None, "intercept_prior_scale": 1e4, "random_state": 0}
    model = BayesianGLMRegressorPMD(family, groups=[1], slopes={1: [0]}, **wide)
    centred, far = X - [X[:, 0].mean(), 0.0], X + [50.0, 0.0]
    fit, found = clone(model).fit(centred, y), clone(model).fit(far, y)
    # At zero, 50 sds away, sds are all but a function of each other, and no weights are of use.
    assert found.diagnostics_["method"].startswith("importance")
    one, other = ([x.posterior_.mean(), x.posterior_.std()] for x in (fit, found))
    shown = np.arange(len(one[0])) != 1  # But the intercept, which is at zero.
    # Of 2,000 effective draws or more means have standard errors of .03 sds, and sds of 2 %.
    assert np.abs((one[0] - other[0]) / one[1])[shown].max() < 0.15
    np.testing.assert_allclose(other[1][shown], one[1][shown], rtol=0.1)
    np.testing.assert_allclose(found.predict(far), fit.predict(centred), rtol=0.02, atol=0.02)
    np.testing.assert_allclose(found.group_effects_.mean, fit.group_effects_.mean, atol=0.05)


def test_effects_under_a_horseshoe_are_those_of_the_coefficients():
    X, y = table(20, 4, 0.5, family="normal")
    y, model = y + 5.0 * X[:, 0], BayesianGLMRegressorPMD(groups=[1], random_state=0)
    known, found = (
        clone(model).set_params(prior=prior).fit(X, y).group_effects_
        for prior in ("normal", "horseshoe")
    )
    # Of one clear coefficient both priors leave the same, but for .03 of an sd of 2,400 draws.
    assert np.abs((found.mean - known.mean) / known.std).max() < 0.15
    np.testing.assert_allclose(found.std, known.std, rtol=0.1)


@pytest.mark.parametrize("family", ["binomial", "normal"])
@pytest.mark.filterwarnings("ignore:.* have no label of:UserWarning")
def test_groups_whose_rows_have_no_weight_are_not_in_the_fit(family):
    X, y = table(30, 4, 1.2, family=family)
    X, weight = np.vstack([X, [[0.0, np.nan]]]), np.append(1.0 * (X[:, 1] >= 3), 1.0)
    y, model = np.append(y, 1.0), BayesianGLMRegressorPMD(family, groups=[1], random_state=0)
    fit = clone(model).fit(X, y, sample_weight=weight)
    without = model.fit(X[weight > 0], y[weight > 0])
    assert list(fit.group_effects_.labels) == list(range(3, 30))
    # Sums over rows are in another order.
    np.testing.assert_allclose(fit.predict(X), without.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="groups=1 has no label of a row with a weight"):
        clone(model).fit(X, y, sample_weight=np.isnan(X[:, 1]).astype(float))


# ------------------------------------------------------------------- columns and errors
@pytest.mark.parametrize(("labels", "other"), [([1, 2, 3], "1"), (["1", "2", "3"], 1)])
def test_labels_of_another_kind_are_no_new_groups(labels, other):
    column = np.array(labels * 2, dtype=object)
    codes, found = codes_of("g", column, ())
    np.testing.assert_array_equal(codes, [0, 1, 2, 0, 1, 2])
    with pytest.raises(ValueError, match="same kind, strings or numbers"):
        codes_of("g", np.array([other, None], dtype=object), found)
    np.testing.assert_array_equal(codes_of("g", np.array([None], dtype=object), found)[0], [-1])


def test_tuples_are_no_labels():
    column = np.empty(2, dtype=object)
    column[:] = [(1, 2), (1, 3)]
    with pytest.raises(ValueError, match="make all of them strings"):
        codes_of("g", column, ())


@pytest.mark.parametrize("labels", [["a", "a\0"], [b"a", b"a\0"], [2**60, 2**60 + 1, 0.5]])
def test_labels_that_differ_stay_apart(labels):
    column = np.array(labels * 2, dtype=object)
    codes, found = codes_of("g", column, ())
    assert sorted(found.tolist()) == sorted(labels)
    assert len(np.unique(codes)) == len(labels)
    np.testing.assert_array_equal(codes_of("g", column, found)[0], codes)
    later = codes_of("g", column, codes_of("g", column[:1], ())[1])[1]  # Some come later.
    assert set(later.tolist()) == set(labels)


def test_labels_of_any_kind_are_the_same_groups():
    pd = pytest.importorskip("pandas")
    X, y = table(10, 6, 1.0, family="normal")
    names = np.array([f"s{g}" for g in range(10)])[X[:, 1].astype(int)]
    frame = pd.DataFrame({"school": names, "x": X[:, 0]})
    by_name = BayesianGLMRegressorPMD(groups=["school"], slopes={"school": ["x"]})
    by_name.set_params(random_state=0).fit(frame, y)
    shuffled = np.random.default_rng(0).permutation(len(y))
    found = clone(by_name).fit(frame.astype({"school": "category"}).iloc[shuffled], y[shuffled])
    np.testing.assert_allclose(found.coef_, by_name.coef_, atol=0.3 * by_name.coef_std_[0])
    assert found.posterior_.names[-3:] == ["sd[school]", "sd[school:x]", "cor[school:x]"]
    by_place = BayesianGLMRegressorPMD(groups=[1], slopes={1: [0]}, random_state=0)
    np.testing.assert_array_equal(by_place.fit(X, y).coef_, by_name.coef_)
    assert by_place.prior_summary()["prior"][-1] == "LKJ(1)"


def test_what_groups_do_not_have_is_refused(fitted, tmp_path):
    fit, X, y = fitted
    model = BayesianGLMRegressorPMD("binomial", groups=[1])
    for call in (
        lambda: clone(model).set_params(groups=["school"]).fit(X, y),
        lambda: clone(model).set_params(groups=None, slopes={1: [0]}).fit(X, y),
        lambda: clone(model).set_params(slopes={1: ["hours"]}).fit(X, y),
        lambda: clone(model).set_params(prior=fit.posterior_).fit(X, y),
        lambda: clone(model).fit(np.column_stack([X[:, 0], np.full(len(X), np.nan)]), y),
    ):
        with pytest.raises(ValueError, match="groups|slopes"):
            call()
    skpmd.save(fit, tmp_path / "fit.skops")
    loaded = skpmd.load(tmp_path / "fit.skops")
    np.testing.assert_array_equal(loaded.predict(X), fit.predict(X))
