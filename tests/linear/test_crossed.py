"""Effects of several factors: likelihoods, posteriors, effects, predictions, what is refused."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.base import clone

import skpmd
from skpmd import BayesianGLMRegressorPMD
from skpmd.engine.model import Batch
from skpmd.linear import _crossed_sums
from skpmd.linear._conditional import Conditional
from skpmd.linear._crossed import CrossedModel, CrossedNormal, Factors
from skpmd.linear._families import FAMILIES
from skpmd.linear._groups import GroupedModel, Groups, grouped
from skpmd.linear._priors import NormalPrior
from tests.linear.test_glm import at_means

SIZES = 9, 5


def case(name, n=60, seed=1):
    """A model of nine and five levels, a batch, and some points, two far from the mode."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    codes[:9, 0], codes[:5, 1] = np.arange(9), np.arange(5)
    codes = codes[np.argsort(codes[:, 0], kind="stable")]
    own, other = (Groups(f, np.arange(k), (), (), 2.5) for f, k in zip("gh", SIZES, strict=True))
    factors = Factors(own, (other,), (0, 1), name != "normal")
    family = grouped(FAMILIES[name](), factors)
    d = 3 + len(family.dispersions.names)
    kind = CrossedNormal if name == "normal" else CrossedModel
    model = kind(NormalPrior(np.ones(d)), True, family, 0.1, 0.0)
    y = rng.normal(size=n) + 0.8 * rng.normal(size=5)[codes[:, 1]]
    y = y if name == "normal" else rng.poisson(2.0, n).astype(float)
    batch = Batch(rng.normal(size=(n, 2)), y, np.ones(n), group=codes)
    theta = 0.3 * rng.normal(size=(6, d))
    if name == "normal":
        theta[:, 3:] -= 0.5
        theta[0, 4], theta[1, 5] = -4.0, 4.0
    return model, batch, theta


def exact(model, batch, theta):
    """Log density of normal rows, whose covariance is dense."""
    (slopes,), (noise,), (sds,) = model.split(theta[None])
    cov = noise**2 * np.eye(len(batch.y))
    for sd, codes in zip(sds, batch.group.T, strict=True):
        cov += sd**2 * (codes[:, None] == codes)
    X = np.column_stack([batch.X, np.ones(len(batch.y))])
    return multivariate_normal(X @ slopes + 0.1, cov).logpdf(batch.y)


@pytest.fixture(params=["few levels", "a table"])
def of_levels(request, monkeypatch):
    """Particles that are looked at one by one, and such that nodes are interpolated for."""
    if request.param == "a table":
        monkeypatch.setattr(_crossed_sums, "_FEW", 0)
    return request.param


def test_normal_rows_have_the_density_of_a_normal_vector(of_levels):
    model, batch, theta = case("normal")
    value, gradient = model.log_joint_gradient(theta, [batch])
    value = value - model.log_prior(theta)
    # Interpolated between nodes whose errors are checked to be below 3e-3, and 1e-4 here.
    np.testing.assert_allclose(value, [exact(model, batch, one) for one in theta], atol=1e-4)
    table, _ = model.table(batch)
    assert isinstance(table, _crossed_sums.Exact) == (of_levels == "few levels")
    if of_levels == "a table":
        assert set(table.holds(np.array([[1.0, 0.3], [1e4, 1.0]]))) == {True, False}
    for step, of_step in zip(1e-4 * np.eye(6), gradient.T, strict=True):
        rise = [exact(model, batch, one + step) - exact(model, batch, one - step) for one in theta]
        found = of_step + theta @ step / 1e-4
        np.testing.assert_allclose(found, np.array(rise) / 2e-4, atol=1e-3)


def test_a_weight_is_a_number_of_copies_of_a_normal_row():
    model, batch, theta = case("normal")
    times = np.random.default_rng(0).integers(1, 3, len(batch.y))
    copies = batch.take(np.repeat(np.arange(len(batch.y)), times))
    weighted = batch._replace(weight=times.astype(float))
    other, _, _ = case("normal")
    np.testing.assert_allclose(
        model.log_likelihood(theta, weighted), other.log_likelihood(theta, copies), atol=1e-6
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_levels_are_coefficients_of_columns(sparse):
    model, batch, theta = case("poisson")
    X = np.column_stack([batch.X, batch.group[:, 1:] == np.arange(5)])
    single = grouped(FAMILIES["poisson"](), model.family.groups.first)
    plain = GroupedModel(NormalPrior(np.ones(9)), True, single, 0.1, 0.0)
    sds = model.family.dispersions.natural(theta[:, 3:])[:, 1:2]
    points = np.hstack([theta[:, :2], sds * theta[:, 5:], theta[:, 2:4]])
    expected = plain.log_likelihood(points, batch._replace(X=X, group=batch.group[:, 0]))
    if sparse:
        csr = pytest.importorskip("scipy.sparse").csr_matrix
        shift = np.array([0.5, -0.2])
        model = CrossedModel(model.prior, True, model.family, 0.1, 0.0, shift)
        batch = batch._replace(X=csr(batch.X + shift))
    np.testing.assert_allclose(model.log_likelihood(theta, batch), expected, rtol=1e-9)
    _, gradient = model.log_joint_gradient(theta, [batch])
    for step, of_step in zip(1e-4 * np.eye(theta.shape[1]), gradient.T, strict=True):
        rise = model.log_likelihood(theta + step, batch) - model.log_likelihood(theta - step, batch)
        rise = rise / 2e-4 - theta @ step / 1e-4
        # Rules of so few nodes lack about 1e-3 of a sum, and so do differences of them.
        np.testing.assert_allclose(of_step, rise, atol=0.02, rtol=5e-3)


def test_levels_are_sds_times_coordinates():
    model, _, theta = case("poisson")
    dispersions, u = model.family.groups.dispersions, theta[:, 3:]
    phi = dispersions.natural(u)
    np.testing.assert_allclose(dispersions.standard(phi), u, atol=1e-9)
    k = u.shape[1]
    for one, log_jacobian in zip(u, dispersions.log_jacobian(u), strict=True):
        steps = 1e-5 * np.eye(k)
        jacobian = (dispersions.natural(one + steps) - dispersions.natural(one - steps)) / 2e-5
        assert log_jacobian == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-5)
        by_phi = np.random.default_rng(0).normal(size=k)
        found = dispersions.pull_back(one[None], dispersions.natural(one[None]), by_phi[None])[0]
        np.testing.assert_allclose(found, jacobian @ by_phi, atol=1e-6)


def test_conditional_coordinates_have_an_inverse_and_its_jacobian():
    model, batch, _ = case("poisson", n=80)
    skew, wide, _ = model.conditional_components([batch], 1.0)[0]
    assert isinstance(skew.hierarchy, Conditional)
    u = 0.5 * np.random.default_rng(0).normal(size=(3, 10))
    theta, log_jacobian = wide.hierarchy.with_jacobian(u)
    np.testing.assert_allclose(wide.hierarchy.outward(theta), u, atol=1e-9)
    for one, value in zip(u, log_jacobian, strict=True):
        steps = 1e-5 * np.eye(10)
        ahead, back = (wide.hierarchy.with_jacobian(one + s * steps)[0] for s in (1, -1))
        assert value == pytest.approx(np.linalg.slogdet((ahead - back) / 2e-5)[1], abs=1e-5)


# ------------------------------------------------------------------- posteriors
def table(n, sizes, sds, seed=0, family="normal"):
    """A column, codes of two factors, and y."""
    rng = np.random.default_rng(seed)
    codes, x = np.column_stack([rng.integers(0, k, n) for k in sizes]), rng.normal(size=n)
    effects = [sd * rng.normal(size=k) for sd, k in zip(sds, sizes, strict=True)]
    eta = 0.3 + 0.5 * x + effects[0][codes[:, 0]] + effects[1][codes[:, 1]]
    y = {
        "normal": lambda: eta + 0.6 * rng.normal(size=n),
        "binomial": lambda: (rng.random(n) < expit(eta)).astype(float),
    }[family]()  # fmt: skip
    return np.column_stack([x, codes]), y


@pytest.fixture(scope="module")
def normal_fit():
    X, y = table(120, (14, 6), (1.0, 0.5))
    return BayesianGLMRegressorPMD(groups=[1, 2], random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module")
def grid(normal_fit):
    """Moments of sds, coefficients and effects by sums over a grid of the three sds."""
    fit, X, y = normal_fit
    unit, x = y.std(), (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    Z = [(X[:, [1 + f]] == np.arange(k)).astype(float) for f, k in enumerate((14, 6))]
    design = np.column_stack([x, np.ones(len(y)), *Z])
    # Where the noise is known well, and sds of few levels have their prior's tails.
    axes = np.linspace(-1.4, -0.9, 16), np.linspace(-1.6, 0.6, 23), np.linspace(-4.0, 1.0, 41)
    u = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    sds, target = fit._state.response.family.dispersions.natural(u), (y - y.mean()) / unit
    logs, means, squares, gram = [], [], [], design.T @ design
    for noise, *own in sds:
        prior = np.repeat([2.5, 2.5, *own], [1, 1, 14, 6]) ** -2.0
        cov = np.linalg.inv(gram / noise**2 + np.diag(prior))
        right = design.T @ target / noise**2
        mean = cov @ right
        log = np.linalg.slogdet(cov)[1] + np.log(prior).sum() + right @ mean
        logs.append(0.5 * (log - target @ target / noise**2) - len(y) * np.log(noise))
        means.append(mean)
        squares.append(cov + np.outer(mean, mean))
    w = np.exp(logs - 0.5 * (u**2).sum(axis=1) - np.max(logs))
    w /= w.sum()
    mean, of_sds = w @ np.array(means), w @ sds
    cov = np.tensordot(w, np.array(squares), 1) - np.outer(mean, mean)
    of_rows = np.sqrt(np.einsum("ij,jk,ik->i", design, cov, design))
    sd = np.sqrt(np.diag(cov))
    sd_of_sds = np.sqrt(w @ sds**2 - of_sds**2)
    return [unit * one for one in (of_sds, sd_of_sds, mean, sd, of_rows)]


@pytest.mark.slow
def test_a_posterior_of_normal_rows_is_that_of_a_grid(normal_fit, grid):
    fit, X, y = normal_fit
    of_sds, sd_of_sds, mean, sd, _ = grid
    per = np.array([X[:, 0].std(), 1.0])
    exact = np.concatenate([mean[:2] / per + [0.0, y.mean()], of_sds])
    of_exact = np.concatenate([sd[:2] / per, sd_of_sds])
    posterior = at_means(fit)
    assert fit.posterior_.names == ["x0", "intercept", "sigma", "sd[x1]", "sd[x2]"]
    assert fit.diagnostics_["method"].startswith("importance")
    # 2,400 effective draws have standard errors of .02 and 1.5 %, and few levels long tails.
    assert np.abs((posterior.mean() - exact) / of_exact).max() < 0.08
    np.testing.assert_allclose(posterior.std(), of_exact, rtol=0.1)


def test_effects_of_normal_rows_are_those_of_a_grid(normal_fit, grid):
    fit, X, y = normal_fit
    mean, sd = grid[2][2:], grid[3][2:]
    assert list(fit.group_effects_) == ["x1", "x2"]
    found = list(fit.group_effects_.values())
    means, sds = (np.concatenate([getattr(one, name)[:, 0] for one in found]) for name in
                  ("mean", "std"))  # fmt: skip
    assert np.abs((means - mean) / sd).max() < 0.08
    np.testing.assert_allclose(sds, sd, rtol=0.08)
    draws = np.concatenate([one.draws[:-1, 0] for one in found])
    assert np.abs((draws.mean(axis=1) - mean) / sd).max() < 0.1
    # Together with coefficients: a row's predictor is known better than its parts.
    b, a = fit.posterior_.particles[found[0].particles, :2].T
    eta = a + np.outer(X[:, 0], b)
    eta += draws[X[:, 1].astype(int)] + draws[14 + X[:, 2].astype(int)]
    assert (grid[4] / np.hypot(sd[2], sd[16])).max() < 0.8
    np.testing.assert_allclose(eta.std(axis=1), grid[4], rtol=0.1)


def test_draws_of_effects_of_normal_rows_have_their_covariance(of_levels):
    model, batch, _ = case("normal")
    one = np.append([0.1, -0.2, 0.3], model.table(batch)[1][1])  # Where the sds have their mode.
    mean, square, draws = model.effects(np.tile(one, (4000, 1)), batch, np.random.default_rng(0))
    (slopes,), (noise,), (sds,) = model.split(one[None])
    Z = np.column_stack(
        [1.0 * (codes[:, None] == np.arange(codes.max() + 1)) for codes in batch.group.T]
    )
    gap = batch.y - 0.1 - np.column_stack([batch.X, np.ones(len(batch.y))]) @ slopes
    cov = np.linalg.inv(Z.T @ Z / noise**2 + np.diag(np.repeat(sds, SIZES) ** -2.0))
    np.testing.assert_allclose(mean, cov @ Z.T @ gap / noise**2, atol=0.02 * cov.max() ** 0.5)
    np.testing.assert_allclose(square - mean**2, np.diag(cov), rtol=0.02)
    # Of 4,000 draws correlations have standard errors of .016, and there are 105 of them.
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(np.cov(draws) / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.08)


@pytest.mark.slow
def test_a_posterior_of_trials_is_that_of_chains():
    X, y = table(200, (20, 5), (1.0, 0.7), family="binomial")
    model = BayesianGLMRegressorPMD("binomial", groups=[1, 2], random_state=0)
    fit, chains = clone(model).fit(X, y), model.set_params(moves="always").fit(X, y)
    assert fit.diagnostics_["method"].startswith("importance")
    assert fit.diagnostics_["ess"] > 1300.0
    assert fit.posterior_.names[4] == "u[x2:0]"
    assert list(fit.dispersion_) == ["sd[x1]", "sd[x2]"]
    gap = (fit.posterior_.mean() - chains.posterior_.mean()) / fit.posterior_.std()
    # Chains have about 1,000 effective draws: .03, and more of the sd of five levels.
    assert np.abs(gap).max() < 0.15
    np.testing.assert_allclose(fit.posterior_.std(), chains.posterior_.std(), rtol=0.2)
    effects = fit.group_effects_["x2"]
    np.testing.assert_allclose(effects.mean[:, 0], fit.posterior_.mean()[4:])
    np.testing.assert_allclose(effects.draws[:-1, 0].mean(axis=1), effects.mean[:, 0], atol=0.05)


def test_nested_levels_are_effects_within_effects():
    X, y = table(200, (32, 8), (0.6, 0.0), seed=3)
    X[:, 2] = X[:, 1] // 4
    y = y + 2.0 * np.random.default_rng(0).normal(size=8)[X[:, 2].astype(int)]
    model = BayesianGLMRegressorPMD(groups=[2, 1], random_state=0).fit(X, y)
    assert model.posterior_.names[-2:] == ["sd[x1]", "sd[x2]"]
    assert [len(one.labels) for one in model.group_effects_.values()] == [8, 32]
    new = model.predict([[0.0, 99.0, 2.0], [0.0, 99.0, 99.0], [0.0, 8.0, 2.0]])
    own = model.group_effects_["x2"].mean[2, 0]
    # A new class of a known school has the effect of the school, on average.
    assert new[0] - new[1] == pytest.approx(own, abs=0.15)


# ------------------------------------------------------------------- predictions
@pytest.mark.parametrize("family", ["normal", "binomial"])
def test_each_row_is_predicted_by_itself(family, tmp_path):
    X, y = table(100, (12, 4), (1.0, 0.8), family=family)
    fit = BayesianGLMRegressorPMD(family, groups=[1, 2], n_particles=1000, random_state=0).fit(X, y)
    rows = np.vstack([X[::9], [[0.2, 99.0, 1.0], [0.2, 3.0, np.nan], [0.2, np.nan, 77.0]]])
    together = fit.predict(rows)
    np.testing.assert_array_equal(together, [fit.predict(row[None])[0] for row in rows])
    skpmd.save(fit, tmp_path / "fit.skops")
    loaded = skpmd.load(tmp_path / "fit.skops")
    np.testing.assert_array_equal(loaded.predict(rows), together)
    np.testing.assert_array_equal(fit.predict_proba(rows)[2:5].mean(), together[2:5])
    assert fit.sample_y(rows, 3).shape == (len(rows), 3)
    low, high = fit.set_params(groups_at="population").predict([[0.2, 1.0, 2.0], [0.2, 5.0, 9.0]])
    assert low == high


def test_what_several_factors_do_not_have_is_refused():
    X, y = table(60, (6, 4), (1.0, 1.0), family="binomial")
    model = BayesianGLMRegressorPMD("binomial", groups=[1, 2])
    many = np.column_stack([np.zeros(600), np.arange(600) % 300, np.arange(600) % 299])
    missing = X.copy()
    missing[7, 2] = np.nan
    for change, rows, words in (
        ({"slopes": {3: [0]}}, X, "slopes=.* are of 3, and groups"),
        ({"groups": [1, 1]}, X, "same column"),
        ({"groups": []}, X, "one to 4"),
        ({}, missing, "groups=2 has no label in row 7"),
        ({}, many, "299 effects of levels in all, and at most 200"),
    ):
        with pytest.raises(ValueError, match=words):
            clone(model).set_params(**change).fit(rows, (np.arange(len(rows)) % 2).astype(float))
    assert len(model.set_params(random_state=0).fit(X, y).prior_summary()["prior"]) == 8
    with pytest.raises(ValueError, match="exact function of the columns and the groups"):
        BayesianGLMRegressorPMD(groups=[1, 2]).fit(X, np.sin(X[:, 1]) + np.cos(X[:, 2]))


def rows_of_two_factors(n=60):
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 6, n), rng.integers(0, 3, n)])
    return X, X[:, 0] + X[:, 1] / 3.0 + rng.normal(size=n)


def test_rows_without_a_weight_need_no_level():
    X, y = rows_of_two_factors()
    X[5, 2], model = np.nan, BayesianGLMRegressorPMD(groups=[1, 2], random_state=0)
    weight = np.where((X[:, 2] == 0.0) | np.isnan(X[:, 2]), 0.0, 1.0)
    some = clone(model).fit(X[weight > 0.0], y[weight > 0.0])
    fit = model.fit(X, y, sample_weight=weight)
    assert fit.group_effects_["x2"].labels.tolist() == [1.0, 2.0]
    # Columns are centred and scaled by weighted sums, which differ by rounding only.
    np.testing.assert_allclose(fit.predict(X), some.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="no label in row 5"):
        model.fit(X, y)


def test_groups_at_that_is_set_after_the_fit_is_checked():
    X, y = rows_of_two_factors()
    for groups in [1], [1, 2]:
        fit = BayesianGLMRegressorPMD(groups=groups, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match="groups_at must be 'own' or 'population', got 'pop'"):
            fit.set_params(groups_at="pop").predict(X)
