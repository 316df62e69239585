"""Slopes beside several factors: likelihoods, gradients, posteriors, effects and predictions."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit
from scipy.stats import multivariate_t

import skpmd
from skpmd import BayesianGLMRegressorPMD, BayesianOrdinalClassifierPMD
from skpmd.engine.model import Batch
from skpmd.linear._correlations import factor_of
from skpmd.linear._crossed import CrossedModel, Factors
from skpmd.linear._families import FAMILIES
from skpmd.linear._grouped_normal import GroupedNormal
from skpmd.linear._groups import GroupedModel, Groups, grouped
from skpmd.linear._priors import NormalPrior

SIZES = 9, 3


def case(name, n=60, shift=None):
    """A model whose first factor has one slope and whose second has two, a batch, and points."""
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    codes[:9, 0], codes[:3, 1] = np.arange(9), np.arange(3)
    codes = codes[np.argsort(codes[:, 0], kind="stable")]
    first = Groups("g", np.arange(9), ("x",), (0,), 2.5)
    other = Groups("h", np.arange(3), ("x", "w"), (0, 1), 2.5)
    family = grouped(FAMILIES[name](), Factors(first, (other,), (0, 1), True))
    d = 3 + len(family.dispersions.names)
    model = CrossedModel(NormalPrior(np.ones(d)), True, family, 0.1, 0.0, shift)
    y = rng.normal(size=n) if name == "normal" else rng.poisson(2.0, n).astype(float)
    batch = Batch(rng.normal(size=(n, 2)), y, np.ones(n), group=codes)
    return model, batch, 0.3 * rng.normal(size=(5, d))


@pytest.mark.slow_for("False-poisson")
@pytest.mark.parametrize("name", ["normal", "poisson"])
@pytest.mark.parametrize("sparse", [False, True])
def test_effects_are_coefficients_of_columns(name, sparse):
    shift = np.array([0.5, -0.2]) if sparse else None
    model, batch, theta = case(name, shift=shift)
    is_level = batch.group[:, 1:] == np.arange(3)
    table = np.stack([is_level * x for x in (np.ones((60, 1)), batch.X[:, :1], batch.X[:, 1:])], 2)
    X = np.column_stack([batch.X, table.reshape(60, 9)])
    single = grouped(FAMILIES[name](), model.family.groups.first)
    kind = GroupedNormal if name == "normal" else GroupedModel
    plain = kind(NormalPrior(np.ones(15 + (name == "normal"))), True, single, 0.1, 0.0)
    k = len(single.dispersions.names)
    phi, (i, j) = model.family.dispersions.natural(theta[:, 3:]), np.tril_indices(3)
    lower = np.zeros((5, 3, 3))
    lower[:, i, j] = factor_of(phi[:, k : k + 6])
    effects = (theta[:, 3 + k + 6 :].reshape(5, 3, 3) @ lower.swapaxes(1, 2)).reshape(5, 9)
    np.testing.assert_allclose(phi[:, k + 6 :], effects)
    points = np.hstack([theta[:, :2], effects, theta[:, 2 : 3 + k]])
    expected = plain.log_likelihood(points, batch._replace(X=X, group=batch.group[:, 0]))
    if sparse:
        batch = batch._replace(X=csr_matrix(batch.X + shift))
    np.testing.assert_allclose(model.log_likelihood(theta, batch), expected, rtol=1e-9)
    _, gradient = model.log_joint_gradient(theta, [batch])
    for step, of_step in zip(1e-4 * np.eye(theta.shape[1]), gradient.T, strict=True):
        rise = model.log_likelihood(theta + step, batch) - model.log_likelihood(theta - step, batch)
        rise = rise / 2e-4 - theta @ step / 1e-4
        # Rules of so few nodes lack about 1e-3 of a sum, and so do differences of them.
        np.testing.assert_allclose(of_step, rise, atol=0.02, rtol=5e-3)


def test_rules_of_quadrature_are_those_of_the_first_factor():
    """What integrals lack is seen by the next rule, and trajectories walk by a smaller one."""
    model, batch, theta = case("poisson")
    assert np.abs(model.changes(theta, [batch])).max() > 0.0
    rough, exact = model.rough_gradient(theta, [batch]), model.log_joint_gradient(theta, [batch])[1]
    assert (rough != exact).any()
    np.testing.assert_allclose(rough, exact, atol=0.5)


def test_effects_are_factors_times_coordinates():
    model, _, theta = case("poisson")
    law, u = model.family.groups.dispersions, theta[:, 3:]
    assert law.names[:3] == ("sd[g]", "sd[g:x]", "cor[g:x]")
    assert law.names[6:9] == ("cor[h:x]", "cor[h:w]", "cor[h:x:w]")
    assert law.names[9:13] == ("u[h:0]", "u[h:x:0]", "u[h:w:0]", "u[h:1]")
    phi = law.natural(u)
    np.testing.assert_allclose(law.standard(phi), u, atol=1e-9)
    by_phi, k = np.random.default_rng(0).normal(size=u.shape), u.shape[1]
    found = law.pull_back(u, phi, by_phi)
    for n, (one, log_jacobian) in enumerate(zip(u, law.log_jacobian(u), strict=True)):
        steps = 1e-5 * np.eye(k)
        jacobian = (law.natural(one + steps) - law.natural(one - steps)) / 2e-5
        assert log_jacobian == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-5)
        np.testing.assert_allclose(found[n], jacobian @ by_phi[n], atol=1e-6)
    sds, z = phi[:, :9], u[:, 9:]
    precision = law.precision(sds)
    effects = law.effects(sds, z)
    squares = np.einsum("ma,mab,mb->m", effects, precision, effects)
    np.testing.assert_allclose(squares, (z**2).sum(axis=1))
    np.testing.assert_allclose(-2.0 * law.log_volume(sds), np.linalg.slogdet(precision)[1])


def test_conditional_coordinates_have_an_inverse_and_its_jacobian():
    model, batch, _ = case("poisson")
    _, wide, _ = model.conditional_components([batch], 1.0)[0]
    d = model.n_coordinates
    u = 0.5 * np.random.default_rng(0).normal(size=(2, d))
    theta, log_jacobian = wide.hierarchy.with_jacobian(u)
    np.testing.assert_allclose(wide.hierarchy.outward(theta), u, atol=1e-8)
    for one, value in zip(u, log_jacobian, strict=True):
        steps = 1e-5 * np.eye(d)
        ahead, back = (wide.hierarchy.with_jacobian(one + s * steps)[0] for s in (1, -1))
        assert value == pytest.approx(np.linalg.slogdet((ahead - back) / 2e-5)[1], abs=1e-4)


# ------------------------------------------------------------------- posteriors
def table(n, sizes, family="normal"):
    """A column, codes of two factors with slopes, and y."""
    rng = np.random.default_rng(0)
    codes, x = np.column_stack([rng.integers(0, k, n) for k in sizes]), rng.normal(size=n)
    first, second = (sd * rng.normal(size=(k, 2)) for sd, k in zip((1.0, 0.6), sizes, strict=True))
    eta = 0.3 + 0.5 * x
    for effects, own in zip((first, second), codes.T, strict=True):
        eta = eta + effects[own, 0] + 0.7 * effects[own, 1] * x
    if family == "ordinal":
        return np.column_stack([x, codes]), np.digitize(eta + rng.logistic(size=n), [-0.5, 1.0])
    y = eta + 0.6 * rng.normal(size=n)
    return np.column_stack([x, codes]), y if family == "normal" else 1.0 * (
        rng.random(n) < expit(y)
    )


@pytest.fixture(scope="module")
def normal_fit():
    X, y = table(150, (16, 7))
    given = {"groups": [1, 2], "slopes": {1: [0], 2: [0]}}
    return BayesianGLMRegressorPMD(**given, random_state=0).fit(X, y), X, y


@pytest.mark.slow
def test_a_posterior_of_normal_rows_is_that_of_exact_weights(normal_fit):
    """Coefficients and effects are integrated out of the density given sds and correlations."""
    fit, X, y = normal_fit
    assert fit.diagnostics_["method"].startswith("importance")
    frame = fit.posterior_.frame
    names = fit.posterior_.names[2:9]
    assert names[:4] == ["sigma", "sd[x1]", "sd[x1:x0]", "cor[x1:x0]"]
    law, rng = fit._state.response.family.dispersions, np.random.default_rng(1)
    u = frame.outward(fit.posterior_.particles)[:, 2:9]
    mean = fit.posterior_.weights @ u
    cov = 1.5 * np.cov(u.T, aweights=fit.posterior_.weights)
    proposal = multivariate_t(mean, cov, df=5, seed=rng)
    draws = np.clip(proposal.rvs(20000), -7.0, 7.0)
    x, target = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std(), (y - y.mean()) / y.std()
    design = [np.column_stack([np.ones(len(y)), x])]
    for f, size in ((1, 16), (2, 7)):
        level = 1.0 * (X[:, [f]] == np.arange(size))
        design.append(np.stack([level, level * x[:, None]], axis=2).reshape(len(y), -1))
    design = np.hstack(design)
    gram, right, d = design.T @ design, design.T @ target, design.shape[1]
    sds = law.natural(np.hstack([draws, np.zeros((len(draws), 14))]))[:, :7]
    logs = []
    for some in np.split(sds, 20):
        prior = np.zeros((len(some), d, d))
        prior[:, [0, 1], [0, 1]] = 2.5**-2
        for k, (first, size) in enumerate(((2, 16), (34, 7))):
            a, b, r = some[:, 1 + 3 * k : 4 + 3 * k].T
            cov_of_one = np.stack([a * a, r * a * b, r * a * b, b * b], axis=1).reshape(-1, 2, 2)
            for j in range(first, first + 2 * size, 2):
                prior[:, j : j + 2, j : j + 2] = np.linalg.inv(cov_of_one)
        variance = some[:, :1] ** 2
        precision, own = prior + gram / variance[..., None], right / variance
        squares = (own * np.linalg.solve(precision, own[..., None])[..., 0]).sum(axis=1)
        log_det = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(precision)[1]
        squares -= target @ target / variance[:, 0]
        logs.append(0.5 * (log_det + squares) - len(y) * np.log(some[:, 0]))
    logs = np.concatenate(logs) - 0.5 * (draws**2).sum(axis=1) - proposal.logpdf(draws)
    w = np.exp(logs - logs.max())
    w /= w.sum()
    assert 1.0 / (w**2).sum() > 6000.0
    values = sds * ([y.std()] * 3 + [1.0, y.std(), y.std(), 1.0])
    values[:, [2, 5]] /= X[:, 0].std()
    exact = w @ values
    sd = np.sqrt(w @ (values - exact) ** 2)
    gap = (fit.posterior_.mean()[2:9] - exact) / sd
    # Of 3,000 effective draws means have standard errors of .02 sds; sds of few levels have tails.
    assert np.abs(gap).max() < 0.08
    np.testing.assert_allclose(fit.posterior_.std()[2:9], sd, rtol=0.12)


def test_effects_of_both_factors_are_those_of_their_rows(normal_fit):
    fit, X, y = normal_fit
    assert {name: one.mean.shape for name, one in fit.group_effects_.items()} == {
        "x1": (16, 2), "x2": (7, 2),
    }  # fmt: skip
    # Given all moments at their means effects are a ridge regression's, and differ by curvature.
    means = dict(zip(fit.posterior_.names, fit.posterior_.mean(), strict=True))
    x = X[:, 0] - X[:, 0].mean()
    columns, prior = [], []
    for f, size in ((1, 16), (2, 7)):
        level = X[:, [f]] == np.arange(size)
        columns += [np.stack([level * 1.0, level * x[:, None]], axis=2).reshape(len(y), -1)]
        sd = np.array([means[f"sd[x{f}]"], means[f"sd[x{f}:x0]"]])
        r = means[f"cor[x{f}:x0]"]
        one = np.outer(sd, sd) * np.array([[1.0, r], [r, 1.0]])
        prior.append(np.kron(np.eye(size), np.linalg.inv(one)))
    Z = np.hstack(columns)
    precision = Z.T @ Z / means["sigma"] ** 2
    precision[:32, :32] += prior[0]
    precision[32:, 32:] += prior[1]
    right = Z.T @ (y - means["intercept"] - means["x0"] * x) / means["sigma"] ** 2
    ridge = np.linalg.solve(precision, right)
    found = np.concatenate([one.mean.ravel() for one in fit.group_effects_.values()])
    sd = np.concatenate([one.std.ravel() for one in fit.group_effects_.values()])
    assert np.abs((found - ridge) / sd).max() < 0.3
    assert np.corrcoef(found, ridge)[0, 1] > 0.995


@pytest.mark.slow_for("binomial")
@pytest.mark.parametrize("family", ["normal", "binomial"])
def test_each_row_is_predicted_by_itself(family, tmp_path):
    X, y = table(90, (9, 3), family)
    fit = BayesianGLMRegressorPMD(
        family, groups=[1, 2], slopes={2: [0]}, n_particles=500, random_state=0
    ).fit(X, y)
    assert fit.posterior_.names[-2:] == ["u[x2:2]", "u[x2:x0:2]"]
    assert [one.mean.shape for one in fit.group_effects_.values()] == [(9, 1), (3, 2)]
    rows = np.vstack([X[::9], [[0.2, 99.0, 1.0], [0.2, 3.0, np.nan], [0.2, np.nan, 77.0]]])
    together = fit.predict(rows)
    np.testing.assert_array_equal(together, [fit.predict(row[None])[0] for row in rows])
    skpmd.save(fit, tmp_path / "fit.skops")
    loaded = skpmd.load(tmp_path / "fit.skops")
    np.testing.assert_array_equal(loaded.predict(rows), together)
    assert fit.sample_y(rows, 3).shape == (len(rows), 3)
    assert len(fit.prior_summary()["prior"]) == len(fit.posterior_.names)
    low, high = fit.set_params(groups_at="population").predict([[0.2, 1.0, 2.0], [0.2, 5.0, 9.0]])
    assert low == high


@pytest.mark.slow
def test_ordered_classes_take_slopes_of_several_factors():
    X, y = table(300, (20, 4), "ordinal")
    model = BayesianOrdinalClassifierPMD(groups=[1, 2], slopes={1: [0]}, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.55
    assert list(model.group_effects_) == ["x1", "x2"]
