"""Several slopes of each group: integrals, correlations, posteriors and everything beside them."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.base import clone

import skpmd
from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    BayesianOrdinalClassifierPMD,
)
from skpmd.linear import _group_products, _group_quadrature, _group_rules
from skpmd.linear._correlations import Correlations
from skpmd.linear._group_rules import rules_of
from skpmd.linear._groups import Groups
from skpmd.model_comparison import loo
from tests.linear.test_groups import case, dense

once = [("binomial", "auto"), ("poisson", "auto")]
of_families = [
    pytest.param(*one, marks=pytest.mark.slow)
    for one in [("binomial", "probit"), ("gamma", "auto"), ("cumulative", "auto")]
]


def of_slopes(name, link, slope, seed=0):
    """As `case`, with weights of one, and sds of effects that are below one."""
    model, batch, theta = case(name, link, slope, seed=seed)
    theta, k = 0.5 * theta, len(model.family.groups.dispersions.names)
    theta[:, theta.shape[1] - k :][:, : slope + 1] -= 1.2
    return model, batch._replace(weight=np.ones(len(batch.y))), theta


# ------------------------------------------------------------------- integrals
@pytest.mark.parametrize("slope", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "link"), [*once, *of_families])
def test_integrals_are_those_of_a_dense_rule(name, link, slope, monkeypatch):
    monkeypatch.setattr(_group_rules, "TOLERANCE", 1e-4)
    model, batch, theta = of_slopes(name, link, slope)
    exact = [dense(model, batch, one) for one in theta]
    # Rules change each of six groups by 5e-4 / sqrt(6) at most, and the dense one is right to 1e-5.
    np.testing.assert_allclose(model.log_likelihood(theta, batch), exact, atol=1e-3)


@pytest.mark.parametrize("slope", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "link"), [*once, *of_families, ("normal", "auto")])
def test_gradients_are_those_of_the_integrals(name, link, slope, monkeypatch):
    monkeypatch.setattr(_group_rules, "TOLERANCE", 1e-6)
    model, batch, theta = of_slopes(name, link, slope, seed=1)
    _, gradient = model.log_joint_gradient(theta[:1], [batch])
    at = np.concatenate([theta[:1] + s * 1e-3 * np.eye(theta.shape[1]) for s in (1, -1)])
    # All points have the same rules, whose gradients are theirs but for what rules lack.
    values = model.log_likelihood(at, batch) + model.log_prior(at)
    ahead, back = np.split(values, 2)
    np.testing.assert_allclose((ahead - back) / 2e-3, gradient[0], atol=5e-3, rtol=3e-3)


@pytest.mark.slow_for("3-poisson", "3-binomial")
@pytest.mark.parametrize("name", ["binomial", "poisson"])
@pytest.mark.parametrize("slope", [1, 2, 3])
def test_kernels_of_products_are_those_of_any_family(name, slope):
    """Searches end at different places, of which integrals by many nodes know nothing."""
    integrate = _group_products.integrate_products
    model, batch, _ = of_slopes(name, "auto", slope)
    theta = 0.7 * np.random.default_rng(1).normal(size=(19, model.n_coordinates))
    slopes, *known = model.split(theta).with_factors
    starts = np.append(np.unique(batch.group, return_index=True)[1], len(batch.y))
    rows = *model._columns(batch, slice(None)), starts, batch.X[:, :slope]
    known = model._predictors(slopes, batch, slice(None)), *known
    rule, start = np.array([3, 3, 3, -1, 3, 3]), np.zeros((6, slope + 1))
    for order in range(3):
        given = model.family, rows, known, start, rule, rules_of(slope + 1, True), order
        every = zip(integrate(*given), _group_quadrature.integrate_groups(*given), strict=True)
        for found, exact in every:
            np.testing.assert_allclose(found, exact, atol=(0.005, 0.02, 0.1)[order])


@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_effects_of_any_size_have_an_integral(name):
    """Exponents that no product of factors holds are left to the kernels of families."""
    model, batch, theta = of_slopes(name, "auto", 2)
    k = len(model.family.groups.dispersions.names)
    theta = np.tile(theta[:1], (3, 1))
    theta[1:, -k : -k + 3] = [[2.0], [7.9]]
    value = model.log_likelihood(theta, batch)
    assert np.isfinite(value).all()
    alone = [model.log_likelihood(one[None], batch)[0] for one in theta[:2]]
    np.testing.assert_allclose(value[:2], alone, atol=0.05)


# ------------------------------------------------------------------- correlations
@pytest.mark.parametrize("q", [2, 3, 4])
def test_each_correlation_of_the_prior_is_a_beta_variate(q):
    k = q * (q - 1) // 2
    law = Correlations(("cor",) * k, q)
    u = np.random.default_rng(0).standard_normal((20_000, k))
    draws = law.natural(u)
    for one in draws.T:  # Of a right law such a p-value has a probability of a thousandth.
        assert stats.kstest(one, stats.beta(0.5 * q, 0.5 * q, -1.0, 2.0).cdf).pvalue > 1e-3
    u, draws = u[:9], draws[:9]
    np.testing.assert_allclose(law.standard(draws), u, atol=1e-9)
    steps = 1e-5 * np.eye(k)
    jacobian = np.stack([law.natural(u + s) - law.natural(u - s) for s in steps], axis=2) / 2e-5
    np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], law.log_jacobian(u), atol=1e-8)
    by = np.random.default_rng(1).standard_normal((9, k))
    expected = np.einsum("mi,mij->mj", by, jacobian)
    np.testing.assert_allclose(law.pull_back(u, draws, by), expected, atol=1e-8)


@pytest.mark.parametrize("slope", [1, 2, 3])
def test_derivatives_by_correlations_are_those_of_the_factor(slope):
    model, _, theta = case("poisson", slope=slope)
    sds = model.split(theta)[2]
    k = sds.shape[1]
    steps, by = 1e-6 * np.eye(k), np.random.default_rng(0).standard_normal((2, k))
    jacobian = [model.factor(sds + s) - model.factor(sds - s) for s in steps]
    expected = np.einsum("mi,jmi->mj", by, jacobian) / 2e-6
    np.testing.assert_allclose(model._by_sds(sds, by), expected, atol=1e-8)


def test_correlations_that_no_matrix_has_are_outside():
    groups = Groups("g", np.arange(2), ("a", "b"), (0, 1), 2.5)
    inside = groups.are_within(np.array([[1, 1, 1, r, r, r] for r in (-0.9, -0.49, 0.9, 1.1)]))
    assert inside.tolist() == [False, True, True, False]
    names = "sd[g]", "sd[g:a]", "sd[g:b]", "cor[g:a]", "cor[g:b]", "cor[g:a:b]"
    assert groups.dispersions.names == names


# ------------------------------------------------------------------- fits
def rows(G, n, family, seed=0):
    """n rows of G groups: two columns that have slopes, the group, and y."""
    rng = np.random.default_rng(seed)
    group, x = np.repeat(np.arange(G), n), rng.normal(size=(G * n, 2))
    u = rng.normal(size=(G, 3)) @ np.linalg.cholesky(0.4 * np.eye(3) + 0.1).T
    eta = 0.3 + x @ [0.5, -0.3] + u[group, 0] + (u[group, 1:] * x).sum(axis=1)
    y = {
        "normal": lambda: eta + 0.5 * rng.normal(size=G * n),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "binomial": lambda: rng.random(G * n) < expit(eta),
        "ordinal": lambda: np.digitize(eta, [0, 1]),
    }[family]()
    return np.column_stack([x, group]), 1.0 * y


@pytest.mark.slow
def test_a_posterior_is_that_of_a_random_walk():
    """Metropolis's rule under a normal likelihood that is written down here, in natural units."""
    X, y = rows(12, 6, "normal")
    model = BayesianGLMRegressorPMD(groups=[2], slopes={2: [0, 1]}, scale=None, random_state=0)
    model = model.set_params(n_particles=8000).fit(X, y).posterior_
    Z, x = np.column_stack([np.ones(len(X)), X[:, :2] - X[:, :2].mean(axis=0)]), X[:, :2]
    own = Z.reshape(12, 6, 3)
    scales = np.array([float(one.split(", ")[1][:-1]) for one in _priors(X, y)])

    def log_density(theta):
        b, a, (sigma, *sds), cors = theta[:2], theta[2], np.exp(theta[3:7]), np.tanh(theta[7:])
        matrix = np.eye(3)
        matrix[np.tril_indices(3, -1)] = cors
        matrix = matrix + matrix.T - np.eye(3)
        if np.linalg.det(matrix) <= 0.0:
            return -np.inf
        cov, total = matrix * np.outer(sds, sds), 0.0
        gap = (y - a - x @ b).reshape(12, 6)
        root = np.linalg.cholesky(own @ cov @ own.swapaxes(1, 2) + sigma**2 * np.eye(6))
        total -= np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
        total -= 0.5 * (np.linalg.solve(root, gap[..., None]) ** 2).sum()
        total -= 0.5 * ((b / scales[:2]) ** 2).sum()
        total -= 2.0 * np.log1p((np.array([sigma, *sds]) / scales[3:]) ** 2 / 3.0).sum()
        total -= 0.5 * ((a + x.mean(axis=0) @ b - y.mean()) / scales[2]) ** 2
        return total + theta[3:7].sum() + np.log1p(-(cors**2)).sum()

    rng, at = np.random.default_rng(0), np.array([0.5, -0.3, 0.3, -0.7, -0.4, -0.4, -0.4, 0, 0, 0])
    value, draws = log_density(at), np.empty((60_000, 10))
    root = 0.25 * np.eye(10)
    for i in range(len(draws)):
        ahead = at + root @ rng.standard_normal(10)
        new = log_density(ahead)
        if np.log(rng.random()) < new - value:
            at, value = ahead, new
        draws[i] = at
        if i in (5_000, 20_000):
            root = 0.7 * np.linalg.cholesky(np.cov(draws[i // 2 : i].T))
    draws = draws[20_000:]
    natural = np.hstack([draws[:, :3], np.exp(draws[:, 3:7]), np.tanh(draws[:, 7:])])
    own = model.mean()
    gap = (own - natural.mean(axis=0)) / natural.std(axis=0)
    # 40,000 steps are some 600 independent draws: standard errors of .04 sds and of 3 %.
    shown = np.arange(10) != 2
    assert np.abs(gap[shown]).max() < 0.2
    np.testing.assert_allclose(model.std()[shown], natural.std(axis=0)[shown], rtol=0.15)


def _priors(X, y):
    model = BayesianGLMRegressorPMD(groups=[2], slopes={2: [0, 1]}, scale=None, random_state=0)
    found = model.set_params(n_particles=200).fit(X, y).prior_summary()["prior"]
    return [one for one in found if one != "LKJ(1)"]


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(15, 6, "poisson")
    model = BayesianGLMRegressorPMD("poisson", groups=[2], slopes={2: [0, 1]}, random_state=0)
    return model.set_params(n_particles=1500).fit(X, y), X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # Of loo.
@pytest.mark.filterwarnings("ignore:.* have no label of:UserWarning")
def test_everything_of_one_slope_is_there_of_two(fitted, tmp_path):
    fit, X, y = fitted
    effects = fit.group_effects_
    assert effects.names == ("intercept", "x0", "x1")
    assert effects.mean.shape == (15, 3)
    assert effects.draws.shape[:2] == (16, 3)
    np.testing.assert_allclose(effects.draws[:-1].mean(axis=2), effects.mean, atol=0.06)
    np.testing.assert_allclose(effects.draws[:-1].std(axis=2), effects.std, rtol=0.06)
    sds = fit.posterior_.mean()[3:6]
    np.testing.assert_allclose(effects.draws[-1].std(axis=1), sds, rtol=0.2)  # Of a new group.
    assert [*fit.prior_summary()["prior"][-3:]] == ["LKJ(1)"] * 3
    assert len(loo(fit, X, y, by=2).pointwise) == 15
    assert fit.pointwise_log_likelihood(X[:6], y[:6]).shape[1] == 6
    new = np.array([[0.2, 0.1, 3], [0.2, 0.1, 99], [0.2, 0.1, np.nan]])
    mean = fit.predict(new)
    assert mean[1] == mean[2] != mean[0]
    assert fit.sample_y(new, 7, random_state=0).shape == (3, 7)
    assert fit.sample_prior_y(new, y[:3], n_samples=5, random_state=0).shape == (3, 5)
    skpmd.save(fit, tmp_path / "fit.skops")
    np.testing.assert_array_equal(skpmd.load(tmp_path / "fit.skops").predict(new), mean)


def test_predictions_are_those_of_draws_of_the_effects(fitted):
    fit, X, _ = fitted
    effects, (coefficients, _) = fit.group_effects_, fit._of_particles
    x = X[:5, :2] - fit._state.units.centre
    eta = np.column_stack([X[:5, :2], np.ones(5)]) @ coefficients[effects.particles].T
    own = effects.draws[X[:5, 2].astype(int)]
    eta += own[:, 0] + (own[:, 1:] * x[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(fit.predict(X[:5]), np.exp(eta).mean(axis=1), rtol=1e-5)


def test_order_of_columns_changes_names_alone(fitted):
    fit, X, y = fitted
    other = clone(fit).set_params(slopes={2: [1, 0]}).fit(X, y).posterior_
    assert other.names[-3:] == ["cor[x2:x1]", "cor[x2:x0]", "cor[x2:x1:x0]"]
    order, own = [0, 1, 2, 3, 5, 4, 7, 6, 8], fit.posterior_
    # Proposals have other axes: 1,000 draws have standard errors of .04 sds.
    assert np.abs((other.mean()[order] - own.mean()) / own.std()).max() < 0.2


@pytest.mark.parametrize(
    ("kind", "family"),
    [(BayesianLogisticRegressionPMD, "binomial"), (BayesianOrdinalClassifierPMD, "ordinal")],
)
@pytest.mark.slow
def test_classes_have_several_slopes(kind, family):
    X, y = rows(10, 8, family)
    fit = kind(groups=[2], slopes={2: [0, 1]}, n_particles=300, random_state=0).fit(X, y)
    assert fit.group_effects_.mean.shape == (10, 3)
    np.testing.assert_allclose(fit.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.slow
def test_streams_and_shards_of_several_slopes_are_one_fit():
    X, y = rows(40, 6, "normal")
    model = BayesianGLMRegressorPMD(groups=[2], slopes={2: [0, 1]}, scale=None, random_state=0)
    whole, stream = clone(model).fit(X, y), clone(model)
    for part in (slice(0, 120), slice(120, 240)):
        stream.partial_fit(X[part], y[part])
    shards = (X[:, 2] % 2 == k for k in range(2))
    merged = skpmd.merge([clone(model).fit(X[own], y[own]) for own in shards])
    for other in (stream, merged):
        assert other.group_effects_.mean.shape == (40, 3)
        gap = (other.posterior_.mean() - whole.posterior_.mean())[:2] / whole.posterior_.std()[:2]
        assert np.abs(gap).max() < 0.3


@pytest.mark.parametrize(
    ("given", "match"),
    [([0, 1, 2, 3], "one to 3 columns"), ([0, 0], "names 0, which is twice"), ([], "one to 3")],
)
def test_slopes_that_there_are_not_are_refused(given, match):
    X, y = np.random.default_rng(0).normal(size=(40, 5)), np.zeros(40)
    X[:, 4] = np.arange(40) % 8
    with pytest.raises(ValueError, match=match):
        BayesianGLMRegressorPMD(groups=[4], slopes={4: given}).fit(X, y)


@pytest.mark.parametrize("slopes", [None, {1: [0]}, {1: [0], 2: [0]}])
def test_normal_rows_without_noise_are_an_error(slopes):
    """The density has no bound: of n rows and k numbers it is that of sigma^(k - n) near zero."""
    rng = np.random.default_rng(0)
    x, g, h = rng.normal(size=90), rng.integers(0, 9, 90), rng.integers(0, 4, 90)
    X = np.column_stack([x, g] + [h] * (slopes is not None and len(slopes) == 2))
    y = 0.3 * x + g * (1.0 + (0.2 * x if slopes else 0.0)) + h * (X.shape[1] - 2) * (1.0 - 0.1 * x)
    groups = [*range(1, X.shape[1])]
    model = BayesianGLMRegressorPMD(groups=groups, slopes=slopes, random_state=0)
    with pytest.raises(ValueError, match="exact function of the columns and the groups"):
        model.fit(X, y)


def test_rows_that_are_a_group_each_have_noise():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), np.arange(40)])
    fit = BayesianGLMRegressorPMD(groups=[1], n_particles=500, random_state=0)
    assert fit.fit(X, X[:, 0] + rng.normal(size=40)).dispersion_["sigma"] > 0.1
