"""Families against SciPy: log densities, their derivatives, dispersions, cutpoints, frames."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, gammaln, logit, polygamma, psi

from skpmd.engine.model import Batch
from skpmd.linear._column_scale import Units
from skpmd.linear._dispersion import Cutpoints, Dispersions, Gamma, HalfStudentT, RootHalfNormal
from skpmd.linear._families import (
    FAMILIES,
    Cumulative,
    _log_rising,
    _slope_of_log_rising,
)
from skpmd.linear._family import LINKS
from skpmd.linear._family_kernels import (
    CLOGLOG,
    LOGIT,
    PROBIT,
    _exponential,
    _gammas,
    _log_shares,
)
from skpmd.linear._glm import GeneralisedLinearModel, definite
from skpmd.linear._priors import NormalPrior
from skpmd.linear._response import Between, Distribution, Frame

N, P, TRIALS, LOCATION, LOG_UNIT = 25, 2, 4.0, 0.1, 0.3
EACH = [kind(link) for kind in FAMILIES.values() for link in kind.links] + [Cumulative(4)]
IDS = [f"{family.name}-{family.link}" for family in EACH]


def ones_of(family):
    """Whether there is an intercept: cutpoints are one."""
    return family.name != "cumulative"


def targets(family, rng, z):
    mu = LINKS[family.link].mean(z)
    share = np.clip(mu, 0.01, 0.99)
    return {
        "normal": lambda: mu + rng.standard_normal(N),
        "student_t": lambda: mu + rng.standard_t(3, N),
        "poisson": lambda: rng.poisson(mu),
        "negative_binomial": lambda: rng.poisson(mu * rng.gamma(2.0, 0.5, N)),
        "gamma": lambda: rng.gamma(2.0, mu / 2.0),
        "binomial": lambda: rng.binomial(int(TRIALS), share),
        "beta": lambda: np.clip(rng.beta(5 * share, 5 * (1 - share)), 1e-6, 1 - 1e-6),
        "cumulative": lambda: rng.integers(0, family.n_classes, N),
    }[family.name]().astype(np.float64)


def log_density(family, y, z, phi, trials=TRIALS):
    """Of rows (n,) by SciPy, given linear predictors and dispersions (k,)."""
    mu = LINKS[family.link].mean(z)

    def of_classes():
        below = np.column_stack([np.zeros(len(z)), expit(phi - z[:, None]), np.ones(len(z))])
        return np.log(np.diff(below, axis=1)[np.arange(len(z)), y.astype(int)])

    return {
        "normal": lambda: stats.norm.logpdf(y, mu, phi[0]),
        "student_t": lambda: stats.t.logpdf(y, phi[1], mu, phi[0]),
        "poisson": lambda: stats.poisson.logpmf(y, mu),
        "negative_binomial": lambda: stats.nbinom.logpmf(y, phi[0], phi[0] / (phi[0] + mu)),
        "gamma": lambda: stats.gamma.logpdf(y, phi[0], scale=mu / phi[0]),
        "binomial": lambda: stats.binom.logpmf(y, trials, mu),
        "beta": lambda: stats.beta.logpdf(y, mu * phi[0], (1.0 - mu) * phi[0]),
        "cumulative": of_classes,
    }[family.name]()


def case(family, n_points=3):
    """A model, a batch with weights and offsets, and points (n_points, d) in its coordinates."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, P))
    y = targets(family, rng, 0.3 * X[:, 0] - 0.5 * X[:, 1])
    k, ones = len(family.dispersions.names), ones_of(family)
    model = GeneralisedLinearModel(
        NormalPrior(np.linspace(0.5, 2.0, P + ones + k)), ones, family, LOCATION, LOG_UNIT
    )
    trials = np.full(N, TRIALS) if family.name == "binomial" else None
    weight, offset = rng.uniform(0.5, 2.0, N), 0.1 * rng.standard_normal(N)
    batch = Batch(X, y, weight, offset=offset, exposure=trials)
    return model, batch, 0.4 * rng.standard_normal((n_points, model.n_coordinates))


def differences(function, theta, step):
    """Derivatives of a function by central differences, coordinates last."""
    columns = []
    for j in range(theta.shape[-1]):
        move = step * (np.arange(theta.shape[-1]) == j)
        columns.append((function(theta + move) - function(theta - move)) / (2.0 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("family", EACH, ids=IDS)
def test_log_likelihoods_are_those_of_scipy(family):
    model, batch, theta = case(family)
    k = len(family.dispersions.names)
    z = LOCATION + batch.offset + theta[:, :P] @ batch.X.T + theta[:, [P]] * ones_of(family)
    phi = family.dispersions.natural(theta[:, theta.shape[1] - k :])
    rows = np.array(
        [log_density(family, batch.y, *one) - LOG_UNIT for one in zip(z, phi, strict=True)]
    )
    np.testing.assert_allclose(model.log_likelihood(theta, batch), rows @ batch.weight, rtol=1e-9)
    by_row = model.by_row(theta, *batch[:3], batch.offset, batch.exposure)
    np.testing.assert_allclose(by_row, rows * batch.weight, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("family", EACH, ids=IDS)
def test_gradients_are_differences(family):
    model, batch, theta = case(family)

    def log_joint(theta):
        return model.log_likelihood(theta, batch) + model.log_prior(theta)

    value, gradient = model.log_joint_gradient(theta, [batch])
    np.testing.assert_allclose(value, log_joint(theta), rtol=1e-9)
    np.testing.assert_allclose(gradient, differences(log_joint, theta, 1e-5), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", EACH, ids=IDS)
def test_targets_at_a_point_are_differences_of_gradients(family):
    model, batch, theta = case(family)
    gradients = model.log_joint_gradient(theta, [batch], 0.7)[1]
    for point, expected in zip(theta, gradients, strict=True):
        gradient, precision = model.gaussian_target(point, None, [batch], 0.7)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-5)
        hessian = differences(
            lambda at: model.log_joint_gradient(at[None], [batch], 0.7)[1][0], point, 1e-5
        )
        hessian = definite(-0.5 * (hessian + hessian.T))
        np.testing.assert_allclose(precision, hessian, rtol=1e-5, atol=1e-4 * abs(hessian).max())


@pytest.mark.parametrize("family", EACH, ids=IDS)
def test_targets_under_a_gaussian_are_averages(family):
    """Expected gradients; and by Stein's identity the slopes of gradients in a regression on theta.

    Draws come with their mirror images and have the covariance itself.
    """
    model, batch, (mean, *_) = case(family)
    d = len(mean)
    root = np.random.default_rng(2).standard_normal((d, d))
    cov = 0.01 * (root @ root.T / d + np.eye(d))
    half = np.random.default_rng(3).standard_normal((4000, d))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T
    points = np.concatenate([half, -half]) @ np.linalg.cholesky(cov).T
    gradients = model.log_joint_gradient(mean + points, [batch])[1]
    gradient, precision = model.gaussian_target(mean, cov, [batch])
    spread = gradients.std(axis=0)
    assert (np.abs(gradient - gradients.mean(axis=0)) < 0.02 * spread).all()
    hessian = np.linalg.solve(cov, points.T @ gradients / len(points))
    hessian = definite(-0.5 * (hessian + hessian.T))
    assert np.abs(precision - hessian).max() < 0.03 * np.abs(hessian).max()


def testthird_derivatives_are_differences_of_curvatures():
    for family in EACH:
        model, batch, (mean, *_) = case(family)
        k, d = len(family.dispersions.names), len(mean)
        chol = 1e-2 * np.eye(d)
        found = sum(
            np.einsum("n,ni,nj,nk->ijk", factor, white, white, white)
            for white, factor in model.third_derivatives(mean, chol, [batch])
        )
        z = LOCATION + batch.offset + batch.X @ mean[:P] + mean[P] * ones_of(family)
        phi, step = family.dispersions.natural(mean[None, d - k :])[0], 2e-3

        def at(move, family=family, batch=batch, z=z, phi=phi):
            return log_density(family, batch.y, z + move, phi)

        third = at(2 * step) - 2 * at(step) + 2 * at(-step) - at(-2 * step)
        third = batch.weight * third / (2.0 * step**3)
        white = np.column_stack([batch.X, np.ones(N)])[:, : d - k] @ chol[: d - k]
        expected = np.einsum("n,ni,nj,nk->ijk", third, white, white, white)
        np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max() + 1e-10)


@pytest.mark.parametrize("name", LINKS)
def test_links_and_means_are_inverse(name):
    z, link = np.linspace(-3.0, 2.0, 11), LINKS[name]
    np.testing.assert_allclose(link.predictor(link.mean(z)), z, atol=1e-12)


def test_logarithms_of_shares_hold_far_out():
    """Against SciPy, where a mean rounds to 0 or 1."""
    z = np.array([-600.0, -38.0, -12.0, -9.99, -3.0, 0.0, 2.0, 9.99, 12.0, 30.0])
    log_mu = [_log_shares(one, PROBIT)[:2] for one in z]
    expected = np.stack([stats.norm.logcdf(z), stats.norm.logsf(z)], axis=1)
    np.testing.assert_allclose(log_mu, expected, rtol=1e-9, atol=1e-15)
    log_mu = [_log_shares(one, LOGIT)[:2] for one in z]
    expected = np.stack([-np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)], axis=1)
    np.testing.assert_allclose(log_mu, expected, rtol=1e-12)
    z = np.array([-700.0, -40.0, -5.0, 0.0, 1.0, 3.0, 6.0])
    log_mu = [_log_shares(one, CLOGLOG)[:2] for one in z]
    rest = -np.exp(z)
    expected = np.stack([np.where(rest > -1e-12, z, np.log(-np.expm1(rest))), rest], axis=1)
    np.testing.assert_allclose(log_mu, expected, rtol=1e-12)
    for link in (LOGIT, PROBIT, CLOGLOG):  # All six are finite wherever a predictor may go.
        assert all(np.isfinite(_log_shares(one, link)).all() for one in (-1e3, -50.0, 50.0))


def test_own_functions_are_those_of_scipy():
    x = np.geomspace(1e-6, 1e8, 60)
    value, first, second = np.empty((3, 128))
    _gammas(x, value, first, second, np.empty((3, 128)), len(x), 2)
    value, first, second = value[:60], first[:60], second[:60]
    np.testing.assert_allclose(value, gammaln(x), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(first, psi(x), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(second, polygamma(1, x), rtol=1e-10)
    x = np.linspace(-299.0, 299.0, 128)
    found = x.copy()
    _exponential(found, np.empty(128), 128)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-14)
    found = np.array([-1e3, 1e3])
    _exponential(found, np.empty(2), 2)
    np.testing.assert_allclose(found, np.exp([-300.0, 300.0]))


LAWS = {
    "half_student_t": (HalfStudentT(2.5), lambda x: 2.0 * stats.t.cdf(x / 2.5, 3.0) - 1.0),
    "gamma": (Gamma(2.0, 0.1), stats.gamma(2.0, scale=10.0).cdf),
    "root_half_normal": (RootHalfNormal(0.7), lambda x: 2.0 * stats.norm.sf(x**-0.5 / 0.7)),
}


@pytest.mark.parametrize("name", LAWS)
def test_dispersions_have_their_prior(name):
    law, cdf = LAWS[name]
    u = np.linspace(-7.5, 7.5, 61)[:, None]
    dispersions = Dispersions(("x",), (law,))
    x = dispersions.natural(u)
    inner = np.abs(u) < 5.0
    np.testing.assert_allclose(cdf(x[inner]), stats.norm.cdf(u[inner]), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(dispersions.standard(x), u, rtol=1e-7, atol=1e-8)
    slope = differences(lambda at: np.log(dispersions.natural(at))[:, 0], u, 1e-5)[:, 0]
    found = np.exp(dispersions.log_jacobian(u)) / x[:, 0]
    np.testing.assert_allclose(found, slope, rtol=1e-5)
    np.testing.assert_allclose(
        dispersions.pull_back(u, x, np.ones_like(u))[:, 0], found * x[:, 0], rtol=1e-12
    )


def test_dispersions_far_out_stay_where_they_are():
    for family in EACH:
        k = len(family.dispersions.names)
        for side in (-40.0, -8.0, 8.0, 40.0):
            u = np.full((1, k), side)
            phi = family.dispersions.natural(u)
            assert np.isfinite(phi).all() and (family.name == "cumulative" or (phi > 0.0).all())
            assert np.isfinite(family.dispersions.standard(phi)).all()
            assert not family.dispersions.pull_back(u, phi, np.ones_like(u)).any()


def test_cutpoints_are_dirichlet():
    """Draws of N(0, 1) make uniform probabilities of the simplex: each share is Beta(1, K - 1)."""
    cuts = Cutpoints(4)
    u = np.random.default_rng(0).standard_normal((4000, 3))
    phi = cuts.natural(u)
    assert (np.diff(phi, axis=1) > 0.0).all()
    np.testing.assert_allclose(cuts.standard(phi), u, atol=1e-8)
    shares = np.diff(expit(phi), axis=1, prepend=0.0, append=1.0)
    for share in shares.T:
        assert stats.kstest(share, stats.beta(1, 3).cdf).pvalue > 0.01
    assert abs(np.corrcoef(shares.T)[0, 3] + 1 / 3) < 0.05


@pytest.mark.parametrize("family", EACH, ids=IDS)
def test_frames_map_there_and_back_with_their_jacobian(family):
    ones, k = ones_of(family), len(family.dispersions.names)
    rng = np.random.default_rng(1)
    real = family.is_real and family.link == "identity"

    def frame(columns, y):
        units = Units(rng.normal(size=P), columns, 1, ones)
        centre, unit = y if real else (0.0, 1.0)
        return Frame(units, Distribution(family, centre, unit, 0.0 if real else 0.4))

    one = frame(np.array([3.0, 0.2]), (10.0, 7.0))
    other = frame(np.array([0.5, 2.0]), (-4.0, 3.0))
    u = 0.5 * rng.standard_normal((4, P + ones + k))
    theta = one.inward(u)
    np.testing.assert_allclose(one.outward(theta), u, atol=1e-9)
    assert one.within(theta).all()

    def determinant(function, at):
        return np.linalg.slogdet(differences(function, at, 1e-5))[1]

    expected = [determinant(one.inward, at) for at in u]
    np.testing.assert_allclose(one.log_jacobian(u), expected, atol=1e-7)
    between = Between(one, other)
    found = between.log_jacobian(between.outward(u))
    expected = [-determinant(between.outward, at) for at in u]
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_shares_next_to_zero_and_one_are_shares():
    """A beta row of 1e-300, and one a rounding below 1: both have a finite log density."""
    family = FAMILIES["beta"]()
    y = np.array([1e-300, 0.5, 1.0 - 2.0**-53])
    assert family.admits(y, None).all() and np.isfinite(logit(y)).all()
    model = GeneralisedLinearModel(NormalPrior(np.ones(3)), True, family)
    batch = Batch(np.zeros((3, 1)), y, np.ones(3))
    phi = family.dispersions.natural(np.zeros((1, 1)))[0]
    expected = log_density(family, y, np.zeros(3), phi).sum()
    np.testing.assert_allclose(model.log_likelihood(np.zeros((1, 3)), batch), expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [0.3, 9e3, 1.1e4, 1e7, 1e12, 1e20])
def test_many_counts_of_next_to_no_overdispersion_are_not_rounded(shape):
    """Sums over a million rows, which SciPy's log Gamma function would round to 0.1 and more."""
    counts = np.arange(8.0)
    terms = np.tril(np.ones((8, 8)), -1)
    expected = terms @ np.log1p(counts / shape)
    np.testing.assert_allclose(_log_rising(counts, shape), expected, rtol=1e-9, atol=1e-10)
    expected = terms @ (-counts / (shape * (shape + counts)))
    found = _slope_of_log_rising(counts, shape) * shape
    np.testing.assert_allclose(found, expected * shape, rtol=1e-6, atol=1e-9)


def test_shares_far_out_are_no_division_by_zero():
    """A mean of 1e-300 or a precision of 1e30: squares of a beta's parameters are zero or huge."""
    family = FAMILIES["beta"]()
    model = GeneralisedLinearModel(NormalPrior(np.ones(3)), True, family)
    batch = Batch(np.array([[0.0], [1.0]]), np.array([0.2, 0.7]), np.ones(2))
    for slope, u in ((690.0, -8.0), (-690.0, 8.0), (3.0, 8.0), (0.0, -8.0)):
        at = np.array([slope, 0.0, u])
        value, gradient = model.log_joint_gradient(at[None], [batch])
        assert np.isfinite(value).all() and np.isfinite(gradient).all()
        assert all(np.isfinite(part).all() for part in model.gaussian_target(at, None, [batch]))


def test_amounts_next_to_their_means_are_not_rounded():
    """A shape of 1e14, where log densities are differences of numbers of that size."""
    family = FAMILIES["gamma"]()
    gap = np.array([2e-7, -3e-7, 0.0])
    shape = np.array([[1e14]])
    columns = np.exp(gap), gap, np.ones(3)
    total, by_phi, table = np.zeros(1), np.zeros((1, 1)), np.zeros((1, 3))
    family.kernel(table, *columns, shape, family.code, total, by_phi, np.empty((1, 3)), 2)
    exact = -0.5 * gap**2 - gap**3 / 6.0
    np.testing.assert_allclose(total, 1e14 * exact.sum(), rtol=1e-9)
    np.testing.assert_allclose(by_phi[0], exact.sum(), rtol=1e-9)
    np.testing.assert_allclose(table[0], 1e14 * np.expm1(gap), rtol=1e-9)
    rest = family.rest(shape, *columns)[0] + gap.sum()
    np.testing.assert_allclose(rest, 1.5 * np.log(1e14 / (2.0 * np.pi)), rtol=1e-12)
    slope = family.rest_by_phi(shape, *columns)[0, 0]
    np.testing.assert_allclose(slope, 1.5e-14, rtol=1e-9)
