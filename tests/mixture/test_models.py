"""Conjugate families of mixtures beside direct calculation."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import dirichlet, multivariate_t, t

from skpmd.mixture._conjugate import ConjugateMixture
from skpmd.mixture._particles import Students, log_gamma_rise
from skpmd.mixture._prior import MixturePrior
from skpmd.mixture._weights import Dirichlet, Sticks

TYPES = ("full", "tied", "diag", "spherical")
WEIGHTS = ("dirichlet_distribution", "dirichlet_process", "pitman_yor")
SCATTER = {
    "full": np.array([[0.5, 0.1, 0.0], [0.1, 0.3, 0.05], [0.0, 0.05, 0.4]]),
    "diag": np.array([0.3, 0.2, 0.5]),
    "spherical": np.array(0.4),
}
SCATTER["tied"] = SCATTER["full"]


def mixture(K, covariance_type, weights="dirichlet_distribution"):
    mean = np.array([0.1, -0.2, 0.3])
    own = 0.7, 0.3, "normal_wishart", mean, 0.5, np.ones(3), 4.0, SCATTER[covariance_type]
    return ConjugateMixture(MixturePrior(K, covariance_type, weights, *own))


def rows(n=14, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]


def counts_of(model, X, weight=None):
    """Counts of a particle after three E steps."""
    rng = np.random.default_rng(1)
    weight = np.ones(len(X)) if weight is None else weight
    features = model.family.features(X)
    resp = rng.dirichlet(np.ones(model.K), size=len(X)) * weight[:, None]
    components = resp.T @ features[:, : model.family.n_features]
    shared = weight @ features[:, model.family.n_features :]
    counts = model.no_counts(1)
    counts.components[0], counts.shared[0] = components, shared
    for _ in range(3):
        counts, _ = model.e_step(model.posteriors(counts), X, weight)
    return counts


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_predictive_densities_multiply_to_the_evidence(covariance_type, weights):
    X, model = rows(), mixture(1, covariance_type, weights)
    counts, total = model.no_counts(1), 0.0
    for row in X:
        new, score = model.e_step(model.posteriors(counts), row[None], np.ones(1))
        total += score[0]
        counts = counts.step(new, 0.0, 1.0)
    assert total == pytest.approx(model.posteriors(counts).elbo[0], rel=1e-12)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_bound_is_below_the_evidence_and_near_it(covariance_type, weights):
    """Four rows in two components: all labellings are summed over."""
    X = np.array([[0.0, 0.1, 0.0], [0.1, 0.0, 0.2], [6.0, 5.0, 7.0], [6.1, 5.0, 6.8]])
    model, logs = mixture(2, covariance_type, weights), []
    for labels in itertools.product(range(2), repeat=4):
        counts, features = model.no_counts(1), model.family.features(X)
        own = features[:, : model.family.n_features]
        for k in range(2):
            counts.components[0, k] = own[np.array(labels) == k].sum(axis=0)
        counts.shared[0] = features[:, model.family.n_features :].sum(axis=0)
        logs.append(model.posteriors(counts).elbo[0])
    elbo = model.posteriors(counts_of(model, X)).elbo[0]
    if weights == "dirichlet_distribution":  # sticks are broken in the order of the sizes
        assert elbo < logsumexp(logs)
    assert elbo > logsumexp(logs) - 6.0


@pytest.mark.parametrize("covariance_type", TYPES)
def test_left_out_density_is_that_of_the_component_without_the_row(covariance_type):
    X, model = rows(), mixture(2, covariance_type)
    family, counts = model.family, counts_of(model, X)
    posteriors, n = model.posteriors(counts), len(X)
    features = family.features(X)
    _, log_density = model.log_densities(posteriors, features)
    joint = log_density + posteriors.log_mixing.ravel()
    resp, _ = model.responsibilities(joint, np.ones(n), np.zeros(1))
    left_out = np.concatenate([one for _, one, _ in model.left_out(posteriors, X, np.ones(n))])
    for a, k in itertools.product(range(n), range(2)):
        less = counts.components.copy()
        less[0, k] -= resp[a, k] * features[a, : family.n_features]
        shared = counts.shared - resp[a, k] * features[a, family.n_features :]
        without = model.posteriors(counts._replace(components=less, shared=shared))
        _, direct = model.log_densities(without, features[a : a + 1])
        assert left_out[a, k] == pytest.approx(direct[0, k], abs=1e-9)


def matrix_of(root):
    """Roots as matrices, those of diagonal covariances too."""
    return root if root.shape[-2:] == (3, 3) else root[..., None] * np.eye(3)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_densities_are_scipys(covariance_type):
    X, model = rows(), mixture(2, covariance_type)
    posteriors = model.posteriors(counts_of(model, X))
    family, normals = model.family, posteriors.normals
    _, log_density = model.log_densities(posteriors, family.features(X))
    df = np.broadcast_to(family.student_df(normals), (1, 2))[0]
    roots = family.student_scale(normals)[0]
    students = Students(normals.mean[0], roots, df, family.product)
    np.testing.assert_allclose(students.log_density(X), log_density, atol=1e-9)
    for k in range(2):
        if family.product:
            expected = t.logpdf(X, df[k], normals.mean[0, k], roots[k]).sum(axis=1)
        else:
            shape = matrix_of(roots[k]) @ matrix_of(roots[k]).T
            expected = multivariate_t.logpdf(X, normals.mean[0, k], shape, df[k])
        np.testing.assert_allclose(log_density[:, k], expected, atol=1e-9)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("df", [8.0, np.inf])
def test_draws_have_the_moments_of_their_density(product, df):
    root = np.linalg.cholesky(SCATTER["full"])
    root = np.diag(np.diag(root)) if product else root
    students = Students(np.ones((1, 3)), root[None], np.array([df]), product)
    draws = students.draw(np.zeros(100_000, dtype=int), np.random.default_rng(0))
    factor = 1.0 if np.isinf(df) else df / (df - 2.0)
    np.testing.assert_allclose(draws.mean(axis=0), 1.0, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), factor * root @ root.T, atol=0.02)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_draws_of_parameters_have_the_posterior_moments(covariance_type):
    X, model = rows(40), mixture(2, covariance_type)
    normals = model.posteriors(counts_of(model, X)).normals
    chosen = np.zeros(20_000, dtype=int)
    location, scale = model.family.draw(normals, chosen, np.random.default_rng(0))
    root = matrix_of(model.family.location_scale(normals)[0])
    assert scale.shape == (
        (20_000, 2, 3, 3) if covariance_type in ("full", "tied") else (20_000, 2, 3)
    )
    scale = matrix_of(scale)
    np.testing.assert_allclose(location.mean(axis=0), normals.mean[0], atol=0.05)
    inverse = np.linalg.inv(scale)
    precision = np.einsum("akji,akjl->kil", inverse, inverse) / len(chosen)
    expected = np.linalg.inv(root @ np.swapaxes(root, 1, 2))
    np.testing.assert_allclose(precision, expected, rtol=0.05, atol=0.05 * expected.max())


def test_dirichlet_weights():
    counts, prior = np.array([[3.0, 1.0, 0.0]]), Dirichlet(3, 0.5)
    np.testing.assert_allclose(np.exp(prior.log_mean(counts))[0], np.array([3.5, 1.5, 0.5]) / 5.5)
    # Labels one by one: each by the expected weights given those before.
    total, so_far = 0.0, np.zeros((1, 3))
    for k in (0, 0, 1, 0):
        total += prior.log_mean(so_far)[0, k]
        so_far[0, k] += 1.0
    assert prior.log_evidence(counts)[0] == pytest.approx(total, rel=1e-12)
    draws = prior.draw(np.repeat(counts, 50_000, axis=0), np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), np.array([3.5, 1.5, 0.5]) / 5.5, atol=0.01)
    np.testing.assert_allclose(draws.var(axis=0), dirichlet([3.5, 1.5, 0.5]).var(), atol=0.002)


@pytest.mark.parametrize("discount", [0.0, 0.4])
def test_sticks(discount):
    prior, counts = Sticks.of("pitman_yor", 3, 0.8, discount), np.array([[5.0, 2.0, 1.0]])
    a = np.array([1.0 - discount + 5.0, 1.0 - discount + 2.0])
    b = np.array([0.8 + discount + 3.0, 0.8 + 2 * discount + 1.0])
    stick = a / (a + b)
    expected = [stick[0], (1 - stick[0]) * stick[1], (1 - stick[0]) * (1 - stick[1])]
    np.testing.assert_allclose(np.exp(prior.log_mean(counts))[0], expected)
    a0, b0 = 1.0 - discount, 0.8 + discount * np.array([1.0, 2.0])
    each = gammaln(a) + gammaln(b) - gammaln(a + b)
    each -= gammaln(a0) + gammaln(b0) - gammaln(a0 + b0)
    assert prior.log_evidence(counts)[0] == pytest.approx(each.sum())
    # The order of the components does not matter.
    order = [2, 0, 1]
    np.testing.assert_allclose(
        prior.log_mean(counts[:, order]), prior.log_mean(counts)[:, order], rtol=1e-12
    )
    draws = prior.draw(np.repeat(counts, 50_000, axis=0), np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), expected, atol=0.01)
    assert np.abs(draws.sum(axis=1) - 1.0).max() < 1e-9


@pytest.mark.parametrize("covariance_type", TYPES)
def test_huge_weights_leave_the_density_its_digits(covariance_type):
    """Log gammas of 1e13 agree in all but the last digits of their difference."""
    X, model, found = rows(), mixture(2, covariance_type), []
    for size in (1e7, 3e12):
        weight = np.full(len(X), size)
        posteriors = model.posteriors(counts_of(model, X, weight))
        features = model.family.features(X)
        df = np.broadcast_to(model.family.student_df(posteriors.normals), (1, 2))[0]
        own = posteriors.normals.mean[0], model.family.student_scale(posteriors.normals)[0]
        students = Students(*own, df, model.family.product).log_density(X)
        found.append(
            [
                students,
                model.log_densities(posteriors, features)[1],
                *(one for _, one, _ in model.left_out(posteriors, X, np.ones(len(X)))),
            ]
        )
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)


@pytest.mark.parametrize("h", [1.0, 3.0, 20.0])
def test_rise_of_log_gamma(h):
    """Gamma(a + h) / Gamma(a) = a (a + 1) ... (a + h - 1)."""
    a = np.array([0.3, 7.0, 1e5, 9e5, 1.1e6, 1e9, 1e15])
    expected = np.log(a[:, None] + np.arange(h)).sum(axis=1)
    np.testing.assert_allclose(log_gamma_rise(a, h), expected, rtol=1e-9)
