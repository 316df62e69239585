"""Mixtures with all parameters as coordinates: densities, gradients, and exact posteriors."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, gammaln, logsumexp, multigammaln, softmax
from scipy.stats import beta, dirichlet, multivariate_normal, norm, wishart
from sklearn.exceptions import ConvergenceWarning

from skpmd import GaussianMixturePMD
from skpmd._base.retained import RetainedRows
from skpmd._base.steps import first_stream
from skpmd.engine.model import Batch
from skpmd.mixture import _smc_fit
from skpmd.mixture._component_priors import Independent, NormalWishart
from skpmd.mixture._likelihood import Mixtures
from skpmd.mixture._model import ParameterModel, parameter_model
from skpmd.mixture._prior import MixturePrior
from skpmd.mixture._scaler import Scaler
from skpmd.mixture._weights import Sticks, by_sticks, log_mixing, sticks_of

TYPES = ("full", "tied", "diag", "spherical")
WEIGHTS = ("dirichlet_distribution", "dirichlet_process", "pitman_yor")


def covariance_of(kind, p, rng):
    A = rng.standard_normal((p, p))
    S = A @ A.T + np.eye(p)
    return {"diag": np.diag(S).copy(), "spherical": np.array(1.3)}.get(kind, S)


def component_prior(name, kind, p, rng):
    mean = rng.standard_normal(p)
    if name == "normal_wishart":
        return NormalWishart(kind, mean, 0.4, p + 0.7, covariance_of(kind, p, rng))
    scale = 0.5 + rng.random(1 if kind == "spherical" else p)
    return Independent(kind, mean, 0.5 + rng.random(p), scale)


def model_of(name, kind, n_components, p, weights="dirichlet_distribution", seed=0):
    rng = np.random.default_rng(seed)
    sticks = Sticks.of(weights, n_components, 0.8, 0.3)
    return ParameterModel(sticks, component_prior(name, kind, p, rng), rng.standard_normal(p))


def prior_of(kind, n_components, p, weights="dirichlet_distribution", components="normal_wishart"):
    covariance = {"diag": np.full(p, 0.3), "spherical": np.array(0.3)}.get(kind, 0.3 * np.eye(p))
    own = np.full(p, 0.1), 0.2, np.full(p, 1.5), p + 1.5, covariance
    return MixturePrior(n_components, kind, weights, 0.8, 0.3, components, *own)


def parameters(**changes):
    changes = {"strategy": "parameters", "n_particles": 1000, **changes}
    return GaussianMixturePMD(**changes)._parameters()


def fit_smc(parameters, prior, X, weight, seed):
    """Draws given rows in scaled columns, under a given prior of these."""
    rows = RetainedRows(Batch(np.asarray(X, dtype=float), None, weight))
    scaler = Scaler(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    state = _smc_fit.first_state(scaler, prior, rows, first_stream(seed))
    return _smc_fit.tempered(parameters, state, rows, 0.0, float(weight.sum()))


def log_densities(mixtures, X):
    """Log of mixing weight times density of each component; shape (m, K, n)."""
    square = ((X - mixtures.means[:, :, None]) @ mixtures.factor) ** 2
    diagonal = np.diagonal(mixtures.factor, axis1=-2, axis2=-1)
    constant = mixtures.log_mixing + (np.log(diagonal) - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    return constant[..., None] - 0.5 * square.sum(axis=-1)


def numerical_log_jacobian(function, at, h=1e-6):
    columns = [(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    return np.linalg.slogdet(np.array(columns))[1]


# ---------------------------------------------------------------------- densities and gradients
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["normal_wishart", "independent"])
@pytest.mark.parametrize("n_components, p", [(1, 1), (3, 1), (2, 3)])
def test_likelihood_gradient_and_coordinates(kind, name, n_components, p):
    rng = np.random.default_rng(1)
    model = model_of(name, kind, n_components, p, WEIGHTS[n_components % 3])
    theta = model.sample_prior(rng, 5)
    assert theta.shape == (5, model.n_coordinates)
    mixtures = model.mixtures(theta)
    np.testing.assert_allclose(model.theta(mixtures), theta, rtol=1e-10)
    X, weight = rng.standard_normal((7, p)), rng.random(7)
    batch = Batch(X, None, weight)
    covariances = np.linalg.inv(mixtures.factor @ mixtures.factor.swapaxes(-1, -2))
    expected = [
        weight
        @ logsumexp(
            [
                log_share + multivariate_normal.logpdf(X, mean, covariance, allow_singular=True)
                for log_share, mean, covariance in zip(*one, strict=True)
            ],
            axis=0,
        )
        for one in zip(mixtures.log_mixing, mixtures.means, covariances, strict=True)
    ]
    np.testing.assert_allclose(model.log_likelihood(theta, batch), expected, rtol=1e-6)
    value, gradient, root = model.local(theta, [batch])
    copies = gammaln(n_components + 1) if model.ordered else 0.0
    np.testing.assert_allclose(value + copies, model.log_prior(theta) + expected, rtol=1e-6)
    h = 1e-6
    for j in range(model.n_coordinates):
        ends = [
            model.local(theta + s * h * np.eye(model.n_coordinates)[j], [batch])[0] for s in (-1, 1)
        ]
        slope = (ends[1] - ends[0]) / (2 * h)
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-4, atol=1e-4 * abs(value).max())
    assert np.isfinite(root).all()


@pytest.mark.parametrize("kind", TYPES)
def test_normal_wishart_density_is_that_of_scipy_with_its_jacobian(kind):
    rng, p = np.random.default_rng(3), 2
    prior = component_prior("normal_wishart", kind, p, rng)
    model = ParameterModel(Sticks.of(WEIGHTS[0], 1, 1.0), prior)
    theta = model.sample_prior(rng, 3)

    def precision(scales):
        factor = model.mixtures(np.concatenate([np.zeros(p), scales])[None]).factor[0, 0]
        precision = factor @ factor.T
        if kind == "spherical":
            return precision[0, :1]
        return np.diag(precision) if kind == "diag" else precision[np.tril_indices(p)]

    mean, kappa, nu, S = prior[1:]
    for one, value in zip(theta, model.log_prior(theta), strict=True):
        factor = model.mixtures(one[None]).factor[0, 0]
        Lambda = factor @ factor.T
        if kind in ("full", "tied"):
            expected = wishart.logpdf(Lambda, nu, np.linalg.inv(S))
        else:  # a Gamma(nu / 2, rate S / 2) is a Wishart of one column
            rows, df = (
                (np.diag(Lambda)[:1], nu * p) if kind == "spherical" else (np.diag(Lambda), nu)
            )
            scales = np.atleast_1d(1.0 / (p * S)) if kind == "spherical" else 1.0 / S
            expected = sum(wishart.logpdf(r, df, s) for r, s in zip(rows, scales, strict=True))
        expected += multivariate_normal.logpdf(one[:p], mean, np.linalg.inv(kappa * Lambda))
        expected += numerical_log_jacobian(precision, one[p:])
        assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("p, uniform", [(1, 1.0), (2, 0.5), (3, 2.0 / np.pi**2)])
def test_independent_density_is_of_means_deviations_and_uniform_correlations(p, uniform):
    rng = np.random.default_rng(4)
    prior = component_prior("independent", "full", p, rng)
    model = ParameterModel(Sticks.of(WEIGHTS[0], 1, 1.0), prior)
    theta = model.sample_prior(rng, 3)

    def parts(scales):
        factor = model.mixtures(np.concatenate([np.zeros(p), scales])[None]).factor[0, 0]
        covariance = np.linalg.inv(factor @ factor.T)
        sd = np.sqrt(np.diag(covariance))
        return np.concatenate([sd, (covariance / np.outer(sd, sd))[np.tril_indices(p, -1)]])

    for one, value in zip(theta, model.log_prior(theta), strict=True):
        expected = norm.logpdf(one[:p], prior.mean, prior.mean_scale).sum() + np.log(uniform)
        expected += norm.logpdf(parts(one[p:])[:p], 0.0, prior.scale).sum() + p * np.log(2.0)
        expected += numerical_log_jacobian(parts, one[p:])
        assert value == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", TYPES)
def test_draws_of_the_prior_have_its_moments(kind):
    rng, p, m = np.random.default_rng(5), 2, 20_000
    prior = component_prior("normal_wishart", kind, p, rng)._replace(df=6.0)
    means, factor = prior.sample(rng, m, 2)
    precision = factor @ factor.swapaxes(-1, -2)
    S = prior.covariance
    expected = 6.0 * (np.linalg.inv(S) if S.ndim == 2 else np.eye(p) / S)
    np.testing.assert_allclose(precision.mean(axis=0), [expected] * 2, rtol=0.03, atol=0.03)
    assert (factor[:, 0] == factor[:, 1]).all() == (kind == "tied")
    z = np.einsum("mkji,mkj->mki", factor, means - prior.mean) * np.sqrt(prior.mean_precision)
    np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=0.03)
    independent = component_prior("independent", kind, p, rng)
    means, factor = independent.sample(rng, m, 2)
    covariance = np.linalg.inv(factor @ factor.swapaxes(-1, -2))
    variances = np.diagonal(covariance, axis1=-2, axis2=-1).mean(axis=(0, 1))
    np.testing.assert_allclose(variances, np.broadcast_to(independent.scale**2, p), rtol=0.05)
    np.testing.assert_allclose(means.std(axis=(0, 1)), independent.mean_scale, rtol=0.02)
    if kind in ("full", "tied"):
        correlation = covariance[:, 0, 0, 1] / np.sqrt(
            covariance[:, 0, 0, 0] * covariance[:, 0, 1, 1]
        )
        assert correlation.var() == pytest.approx(1.0 / 3.0, rel=0.03)  # uniform on (-1, 1)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_sticks(kind):
    rng, K = np.random.default_rng(6), 4
    sticks = Sticks.of(kind, K, 0.8, 0.3)
    shares = sticks.sample(rng, 40_000)
    np.testing.assert_allclose(logsumexp(shares, axis=1), 0.0, atol=1e-12)
    s = sticks_of(shares)
    np.testing.assert_allclose(log_mixing(s), shares, rtol=1e-9, atol=1e-12)
    k = np.arange(1, K)
    a = np.full(K - 1, {"dirichlet_distribution": 0.8, "dirichlet_process": 1.0}.get(kind, 0.7))
    b = {"dirichlet_distribution": 0.8 * (K - k), "dirichlet_process": np.full(K - 1, 0.8)}.get(
        kind, 0.8 + 0.3 * k
    )
    v = 1.0 / (1.0 + np.exp(-s[:5]))
    expected = (beta.logpdf(v, a, b) + np.log(v * (1 - v))).sum(axis=1)
    np.testing.assert_allclose(sticks.log_density(s[:5]), expected, rtol=1e-9)
    np.testing.assert_allclose((1 / (1 + np.exp(-s))).mean(axis=0), a / (a + b), rtol=0.03)
    h, f = 1e-6, np.arange(1.0, K + 1)
    for j in range(K - 1):
        up, down = (s[:5] + x * h * np.eye(K - 1)[j] for x in (1, -1))
        slope = (sticks.log_density(up) - sticks.log_density(down)) / (2 * h)
        np.testing.assert_allclose(sticks.gradient(s[:5])[:, j], slope, rtol=1e-5, atol=1e-6)
        slope = (log_mixing(up) - log_mixing(down)) @ f / (2 * h)
        found = by_sticks(np.tile(f, (5, 1)), s[:5])[:, j]
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-6)
    if kind == "dirichlet_distribution":
        own = dirichlet.logpdf(np.exp(shares[0]), np.full(K, 0.8))
        at = numerical_log_jacobian(lambda s: np.exp(log_mixing(s[None])[0, :-1]), s[0])
        assert sticks.log_density(s[:1])[0] == pytest.approx(own + at, abs=1e-5)
        np.testing.assert_allclose(np.exp(shares).mean(axis=0), 1.0 / K, atol=0.01)


def test_labels_are_in_order_where_the_prior_does_not_tell_them_apart():
    rng = np.random.default_rng(7)
    model = model_of("normal_wishart", "full", 3, 2)
    theta = model.sample_prior(rng, 300)
    keys = model.mixtures(theta).means @ model.direction
    assert (np.diff(keys, axis=1) >= 0).all()
    assert np.isfinite(model.log_prior(theta)).all()
    moved = model.permute_labels(theta, rng)
    outside = (np.diff(model.mixtures(moved).means @ model.direction, axis=1) < 0).any(axis=1)
    assert 0.7 < outside.mean() < 0.95  # five permutations of six
    assert (model.log_prior(moved)[outside] == -np.inf).all()
    batch = Batch(rng.standard_normal((9, 2)), None, np.ones(9))
    np.testing.assert_allclose(
        model.log_likelihood(moved, batch), model.log_likelihood(theta, batch), rtol=1e-9
    )
    np.testing.assert_allclose(model.to_ordered(moved), theta, rtol=1e-8, atol=1e-8)
    other = model_of("normal_wishart", "full", 3, 2, "dirichlet_process")
    assert other.to_ordered(theta) is theta and other.permute_labels(theta, rng) is theta


def test_what_flies_off_has_no_density():
    model = model_of("normal_wishart", "full", 2, 1)
    theta = np.tile(model.sample_prior(np.random.default_rng(0), 1), (4, 1))
    theta[1, -1], theta[2, 1], theta[3, -1] = 1e4, np.nan, -200.0
    batch = Batch(np.ones((3, 1)), None, np.ones(3))
    value, gradient, root = model.local(theta, [batch])
    assert np.isfinite(value[0]) and (value[1:] == -np.inf).all()
    assert np.isfinite(gradient).all() and np.isfinite(root).all()


# ---------------------------------------------------------------------- exact posteriors
def closed_form(prior, X, weight):
    """Log evidence of one component."""
    n, p, kappa, nu, S = (
        weight.sum(), X.shape[1], prior.mean_precision, prior.df, prior.covariance,
    )  # fmt: skip
    if not n:
        return 0.0
    mean = weight @ X / n
    C = ((X - mean).T * weight) @ (X - mean)
    C += kappa * n / (kappa + n) * np.outer(mean - prior.mean, mean - prior.mean)
    value = -0.5 * n * p * np.log(np.pi) + 0.5 * p * np.log(kappa / (kappa + n))
    if prior.covariance_type in ("full", "tied"):
        value += multigammaln(0.5 * (nu + n), p) - multigammaln(0.5 * nu, p)
        value += 0.5 * nu * np.linalg.slogdet(S)[1]
        return value - 0.5 * (nu + n) * np.linalg.slogdet(S + C)[1]
    S, d, k = (S, np.diag(C), 1) if prior.covariance_type == "diag" else (p * S, np.trace(C), p)
    by_column = gammaln(0.5 * k * (nu + n)) - gammaln(0.5 * k * nu)
    by_column = by_column + 0.5 * k * (nu * np.log(S) - (nu + n) * np.log(S + d))
    return value + by_column.sum() * (p if prior.covariance_type == "diag" and d.size != p else 1)


@pytest.mark.parametrize("kind", TYPES)
def test_evidence_and_mean_of_one_component(kind):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((40, 2)) @ [[0.7, 0.4], [0.0, 0.5]] + 0.3
    weight = rng.integers(1, 4, size=40).astype(float)
    prior = prior_of(kind, 1, 2)
    found = fit_smc(parameters(n_particles=2000), prior, X, weight, 0)
    assert found.log_evidence == pytest.approx(closed_form(prior, X, weight), abs=0.15)
    assert (
        0.02 < found.log_evidence_se < 0.15 and found.converged and not found.convergence_warnings
    )
    mean = found.particles.location[:, 0].mean(axis=0)
    exact = (weight @ X + 0.2 * prior.mean) / (weight.sum() + 0.2)
    sd = found.particles.location[:, 0].std(axis=0)
    np.testing.assert_allclose(mean, exact, atol=0.12 * sd.max())


def log_share_moment(prior, counts):
    """log E[prod w_k^n_k]."""
    sticks = Sticks.of(prior.weights_type, len(counts), prior.concentration, prior.discount)
    counts = np.asarray(counts)
    after = counts.sum() - np.cumsum(counts)[:-1]
    moments = betaln(sticks.a + counts[:-1], sticks.b + after) - betaln(sticks.a, sticks.b)
    return moments.sum()


def by_assignments(prior, X, marginal):
    """Log evidence as a sum over all assignments of rows to components."""
    K = prior.n_components
    own = cache(lambda members: marginal(X[list(members)]))
    share = cache(lambda sizes: log_share_moment(prior, sizes))
    terms = []
    for z in product(range(K), repeat=len(X)):
        members = [tuple(i for i, label in enumerate(z) if label == k) for k in range(K)]
        terms.append(share(tuple(map(len, members))) + sum(map(own, members)))
    return logsumexp(terms)


@pytest.mark.slow_but("2-dirichlet_process")
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("n_components", [2, 3])
def test_evidence_and_predictions_of_few_rows(weights, n_components):
    """Enumerated: 2^6 and 3^5 assignments, each in closed form."""
    X = np.array([-1.6, -1.3, -1.2, 0.7, 1.1, 1.9])[: 8 - n_components, None]
    prior = prior_of("full", n_components, 1, weights)

    def exact(X):
        return by_assignments(prior, X, lambda rows: closed_form(prior, rows, np.ones(len(rows))))

    own = parameters(n_particles=4000), prior, X, np.ones(len(X)), 1
    found, evidence = fit_smc(*own), exact(X)
    assert found.log_evidence == pytest.approx(evidence, abs=0.1)
    at = np.array([[-1.4], [0.0], [1.0], [4.0]])
    particles = found.particles
    mixtures = Mixtures(particles.log_mixing, particles.location, 1.0 / particles.scale_cholesky)
    density = np.exp(logsumexp(log_densities(mixtures, at), axis=1)).mean(axis=0)
    expected = [np.exp(exact(np.vstack([X, row])) - evidence) for row in at]
    np.testing.assert_allclose(density, expected, rtol=0.05, atol=0.002)


@pytest.mark.slow
def test_evidence_under_the_independent_prior():
    """A small analogue of posteriordb's low_dim_gauss_mix: normal means, half-normal deviations."""
    X = np.array([-1.5, -1.2, 0.8, 1.3, 1.6])[:, None]
    prior = prior_of("full", 2, 1, components="independent")._replace(concentration=5.0)
    scale, (tau,), (m0,) = np.sqrt(prior.covariance[0, 0]), prior.mean_scale, prior.mean

    def marginal(rows):
        if not len(rows):
            return 0.0
        n, x = len(rows), rows[:, 0]

        def given(sd):  # the mean integrated out
            own = np.linalg.slogdet(sd**2 * np.eye(n) + tau**2)[1]
            r = x - m0
            square = r @ r / sd**2 - tau**2 * r.sum() ** 2 / (sd**2 * (sd**2 + n * tau**2))
            prior = 2.0 * norm.pdf(sd, 0.0, scale)
            return prior * np.exp(-0.5 * (own + square + n * np.log(2 * np.pi)))

        return np.log(quad(given, 1e-6, 12 * scale, limit=200, points=[0.1, 0.5, 1.0])[0])

    exact = by_assignments(prior, X, marginal)
    own = parameters(n_particles=4000), prior, X, np.ones(len(X)), 2
    assert fit_smc(*own).log_evidence == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["normal_wishart", "independent"])
def test_on_the_way_from_near_the_rows_to_the_prior(kind, name):
    rng = np.random.default_rng(10)
    model = model_of(name, kind, 2, 2)
    X, weight = rng.standard_normal((30, 2)) * [3.0, 0.5] + [5.0, 0.0], rng.random(30)
    initial = model.initial(X, weight)
    theta = initial.sample_prior(rng, 2000)
    mixtures = model.mixtures(theta)
    centre = np.average(X[:, 0], weights=weight)
    assert np.median(mixtures.means[..., 0]) == pytest.approx(centre, abs=0.3)
    covariance = np.linalg.inv(mixtures.factor @ mixtures.factor.swapaxes(-1, -2))
    assert 0.3 < np.median(np.sqrt(covariance[..., 0, 0])) < 5.0
    theta = theta[:4]
    both = [one.local(theta, []) for one in (initial, model)]
    between = model.between(initial, 0.3)
    value, gradient, root = between.local(theta, [])
    offset = value - 0.7 * both[0][0] - 0.3 * both[1][0]
    np.testing.assert_allclose(offset, offset[0], rtol=1e-6)
    np.testing.assert_allclose(gradient, 0.7 * both[0][1] + 0.3 * both[1][1], rtol=1e-8)
    assert np.isfinite(root).all()
    assert model.between(initial, 1.0) is model


@pytest.mark.slow
def test_a_second_group_is_found_under_a_vague_prior():
    """From the prior the evidence would miss by ten nats, another way with each seed."""
    rng = np.random.default_rng(11)
    corner = np.array([[1.0, 0.9], [0.9, 1.0]])
    X = np.concatenate([
        rng.multivariate_normal([-1.0, 0.0], corner, 80),
        rng.multivariate_normal([1.5, 0.0], corner * [[1, -1], [-1, 1]], 120),
    ])  # fmt: skip
    vague = prior_of("full", 2, 2)._replace(
        mean_precision=0.01, df=2.0, covariance=0.01 * np.eye(2)
    )
    found = [
        fit_smc(parameters(n_particles=500), vague, X, np.ones(200), seed) for seed in range(2)
    ]
    evidences = [one.log_evidence for one in found]
    assert np.ptp(evidences) < 1.2
    shares = np.exp(found[0].particles.log_mixing).mean(axis=0)
    np.testing.assert_allclose(shares, [0.4, 0.6], atol=0.08)


# ---------------------------------------------------------------------- streams and the rest
@pytest.fixture(scope="module")
def two_groups():
    rng = np.random.default_rng(9)
    X = np.concatenate([rng.normal(-1.0, 0.4, 60), rng.normal(1.0, 0.6, 90)])
    return rng.permutation(X)[:, None]


GIVEN = {
    "mean_prior": [0.1], "mean_precision_prior": 0.2, "degrees_of_freedom_prior": 2.5,
    "covariance_prior": [[0.3]], "weight_concentration_prior": 0.8, "reg_covar": 0.0,
}  # fmt: skip


def in_parts(parts, seed=0, **params):
    """A stream under a prior that does not depend on the rows."""
    params = {"n_particles": 500, "random_state": seed, **GIVEN, **params}
    stream = GaussianMixturePMD(2, strategy="parameters", **params)
    for part in parts:
        stream.partial_fit(part)
    return stream


@pytest.fixture(scope="module")
def whole(two_groups):
    return in_parts([two_groups], seed=1)


def assert_near(found, expected, atol):
    own, other = found.posterior_, expected.posterior_
    np.testing.assert_allclose((own.mean() - other.mean()) / other.std(), 0.0, atol=atol)


def test_parts_come_to_what_the_whole_does(two_groups, whole):
    parts = in_parts(np.array_split(two_groups, 6))
    assert parts.log_evidence_ == pytest.approx(whole.log_evidence_, abs=0.4)
    assert_near(parts, whole, 0.2)
    np.testing.assert_allclose(parts.posterior_.std() / whole.posterior_.std(), 1.0, atol=0.15)


def test_rows_that_are_too_many_to_keep_still_count(two_groups, whole, monkeypatch):
    monkeypatch.setattr(_smc_fit, "MAX_RETAINED", 100)
    with pytest.warns(ConvergenceWarning, match="by rejuvenations of the particles"):
        parts = in_parts(np.array_split(two_groups, 3))
    assert not hasattr(parts, "log_evidence_") and parts._state.fit.retained is None
    assert_near(parts, whole, 0.5)


def test_forgotten_rows_do_not_count(two_groups):
    """With all but everything forgotten only the last part is left."""
    parts = np.array_split(two_groups, 2)
    forgetful = in_parts(parts, half_life=1)
    assert_near(forgetful, in_parts(parts[1:], seed=3), 0.25)
    assert not hasattr(forgetful, "log_evidence_")
    assert len(forgetful._state.fit.retained.rows.weight) == len(parts[1])


def test_rows_count_once_after_each_pass(two_groups):
    """Kept rows have the weights that mirror steps give them: at the end of a pass they are one."""
    parts = [*np.array_split(two_groups, 3)] * 3
    state = in_parts(parts, n_particles=100, total_samples=150.0)._state.fit
    np.testing.assert_allclose(state.retained.rows.X, np.sort(two_groups, axis=0))
    np.testing.assert_allclose(state.retained.rows.weight, 1.0)
    assert state.stream.seen == 450.0


def test_interrupted_at_the_last_whole_stage(two_groups, monkeypatch):
    calls, ours = [], ParameterModel.local

    def local(self, theta, batches):
        calls.append(None)
        if len(calls) == 60:
            raise KeyboardInterrupt
        return ours(self, theta, batches)

    model = GaussianMixturePMD(2, strategy="parameters", n_particles=200, random_state=0, **GIVEN)
    monkeypatch.setattr(ParameterModel, "local", local)
    with pytest.raises(KeyboardInterrupt):
        model.fit(two_groups)
    fit = model._state.fit
    assert fit.interrupted and not fit.converged and fit.log_evidence is None
    assert "interrupted" in fit.convergence_warnings[-1]
    assert 0.0 < fit.records.last[-1].extra["power"] < 1.0
    assert np.isfinite(fit.particles.location).all()
    # The next part takes it up with all rows, and begins anew.
    model.partial_fit(two_groups[:10])
    assert model._state.fit.retained.rows.weight.sum() == 160.0 and model.log_evidence_
    calls.clear()
    calls.extend([None] * 55)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(two_groups[:10])


@pytest.mark.slow
def test_hard_rows():
    """One row, equal rows, a constant column, more components than rows: no nan."""
    for X in (np.zeros((1, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0]])):
        for kind in TYPES:
            prior = prior_of(kind, 4, 2)
            own = parameters(n_particles=20), prior, X, np.full(len(X), 3.0)
            particles = fit_smc(*own, 0).particles
            for values in particles[:5]:
                assert np.isfinite(values).all()


def test_components_are_ordered_along_the_first_principal_axis():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2)) * [0.2, 3.0]
    model = parameter_model(prior_of("full", 2, 2), X, np.ones(50))
    assert model.direction[1] > 0.98


@pytest.mark.slow
def test_responsibilities_average_those_of_all_draws_and_few_tell_the_same_labels():
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (40, 2)) for c in (0.0, 4.0, 9.0)])
    model = GaussianMixturePMD(3, strategy="parameters", n_particles=600, random_state=0).fit(X)
    new = np.random.default_rng(1).uniform(-3.0, 12.0, (3000, 2))
    particles, scaled = model._predictive, model._state.scaler.transform(new)
    expected = np.zeros((len(new), 3))
    for weight, mixing, centres, roots in zip(
        np.exp(particles.log_weights), particles.log_mixing, particles.location,
        particles.scale_cholesky, strict=True,
    ):  # fmt: skip
        z = [np.linalg.solve(L, (scaled - at).T) for L, at in zip(roots, centres, strict=True)]
        log_det = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        joint = mixing - log_det - 0.5 * np.square(z).sum(axis=1).T
        expected += weight * softmax(joint, axis=1)
    found = model.predict_proba(new)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(model.predict(new), expected.argmax(axis=1))
    model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.predict_proba(new), found)
