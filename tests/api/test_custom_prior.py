"""Priors of custom models: distributions of SciPy, and earlier posteriors."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skpmd import BayesianLogisticRegressionPMD, ParticleMirrorDescent
from skpmd.custom._prior import prior_functions

PRIORS = {
    "a": stats.norm(1.0, 2.0),
    "b": stats.halfnorm(scale=2.0),
    "c": stats.beta(0.5, 2.0),
    "d": stats.norm(np.zeros(3), [1.0, 2.0, 3.0]),
    "e": stats.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]]),
    "f": stats.multivariate_t([0.0], [[2.0]], df=5),
    "g": stats.norm(np.zeros((2, 2)), 1.0),
    "h": stats.uniform(1.0, 2.0),
}


def normal(theta, X, y):
    """Rows of a normal with mean theta[:, 0] and standard deviation theta[:, 1]."""
    return stats.norm.logpdf(X[:, 0], theta[:, [0]], theta[:, [1]])


def poisson(theta, X, y):
    return stats.poisson.logpmf(y, theta[:, [0]])


def linear(theta, X, y):
    residual = y - theta[:, :-1] @ X.T
    return stats.norm.logpdf(residual, scale=theta[:, -1:])


def test_functions_are_those_of_the_distributions():
    given = prior_functions(PRIORS, None, None)
    theta = given.sample_prior(np.random.default_rng(0), 4000)
    ends = np.cumsum([1, 1, 1, 3, 2, 1, 4, 1])
    assert theta.shape == (4000, ends[-1]) == (4000, len(given.names))
    assert given.names[3:6] == ["d[0]", "d[1]", "d[2]"] and given.names[-2] == "g[1,1]"
    expected = stats.norm.logpdf(theta[:, 0], 1.0, 2.0)
    for name, start, end in zip(list(PRIORS)[1:], ends[:-1], ends[1:], strict=True):
        piece = theta[:, start:end]
        if name in ("e", "f"):
            expected += PRIORS[name].logpdf(piece)
        else:
            shape = (len(piece), *np.shape(PRIORS[name].mean()))
            expected += PRIORS[name].logpdf(piece.reshape(shape)).reshape(len(piece), -1).sum(1)
    np.testing.assert_allclose(given.log_prior(theta), expected)
    for j, name in enumerate("abc"):
        assert stats.kstest(theta[:, j], PRIORS[name].cdf).pvalue > 1e-4
    lower, upper = given.support
    np.testing.assert_array_equal([lower[1], lower[2], upper[2], upper[-1]], [0, 0, 1, 3])
    outside = theta[:1].copy()
    outside[0, 1] = -1.0
    assert given.log_prior(outside)[0] == -np.inf


@pytest.mark.skipif(not hasattr(stats, "Normal"), reason="SciPy 1.15 has them")
def test_newer_distributions():
    given = prior_functions({"x": stats.Normal(mu=np.array([1.0, 5.0]), sigma=2.0)}, None, None)
    theta = given.sample_prior(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(theta.mean(axis=0), [1.0, 5.0], atol=0.15)
    expected = stats.norm.logpdf(theta, [1.0, 5.0], 2.0).sum(axis=1)
    np.testing.assert_allclose(given.log_prior(theta), expected)


def test_a_positive_parameter_by_its_conjugate_posterior():
    """Poisson counts under a gamma prior that has its mass at the edge."""
    y = np.array([0, 1, 0, 2])
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=poisson, prior={"rate": stats.gamma(0.5, scale=2.0)},
        n_particles=4000, random_state=0,
    ).fit(y=y)  # fmt: skip
    exact = stats.gamma(0.5 + y.sum(), scale=1.0 / (0.5 + len(y)))
    assert model.posterior_.names == ["rate"]
    assert model.posterior_.mean()[0] == pytest.approx(exact.mean(), abs=0.05 * exact.std())
    np.testing.assert_allclose(
        model.posterior_.quantile([0.05, 0.5, 0.95])[:, 0], exact.ppf([0.05, 0.5, 0.95]), rtol=0.05
    )


@pytest.mark.slow
def test_two_halves_are_the_whole():
    """A linear model of a real set with a positive scale: within .1 standard deviations."""
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:, [2, 3, 8]] / X.std(axis=0)[0], (y - y.mean()) / y.std()
    place = np.random.default_rng(0).permutation(len(y))
    X, y, h = X[place], y[place], len(y) // 2
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=linear, random_state=0, n_particles=2000,
        prior={"beta": stats.norm(np.zeros(3), 1.0), "sigma": stats.halfcauchy(scale=1.0)},
    )  # fmt: skip
    whole = clone(model).fit(X, y).posterior_
    first = clone(model).fit(X[:h], y[:h])
    for prior in (first, first.posterior_, pickle.loads(pickle.dumps(first.posterior_))):
        second = clone(model).set_params(prior=None)
        second = second.set_params(prior=prior).fit(X[h:], y[h:])
        z = (second.posterior_.mean() - whole.mean()) / whole.std()
        assert np.abs(z).max() < 0.1
        np.testing.assert_allclose(second.posterior_.std(), whole.std(), rtol=0.1)
        assert second.diagnostics_["prior_pareto_k"] < 0.7
    assert second.posterior_.names == ["beta[0]", "beta[1]", "beta[2]", "sigma"]
    stream = clone(model).set_params(prior=first.posterior_)
    for part in np.array_split(np.arange(h, len(y)), 2):
        stream.partial_fit(X[part], y[part])
    assert np.abs((stream.posterior_.mean() - whole.mean()) / whole.std()).max() < 0.2
    search = GridSearchCV(
        clone(model).set_params(prior=first.posterior_, n_particles=500),
        {"temperature": [1.0, 2.0]}, cv=2,
    )  # fmt: skip
    assert np.isfinite(search.fit(X[h:], y[h:]).best_score_)


@pytest.mark.slow
def test_edges_go_along():
    """The posterior of a scale, of two rows only, reaches zero: kernels must not reach beyond."""
    X = np.array([[0.1], [-0.1], [0.05]])
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=normal, random_state=0,
        prior={"mu": stats.norm(0.0, 1.0), "sigma": stats.expon(scale=1.0)},
    )  # fmt: skip
    first = clone(model).fit(X)
    lower, _ = first.posterior_.support
    np.testing.assert_array_equal(lower, [-np.inf, 0.0])
    draws = first.posterior_.fitted_density()
    second = clone(model).set_params(prior=first.posterior_).fit(X)
    assert (second.posterior_.particles[:, 1] > 0.0).all() and draws.free is not None
    # Prior times the likelihood of six rows, on a grid.
    mu, sigma = np.linspace(-1.0, 1.0, 401), np.exp(np.linspace(-5.0, 2.0, 401))
    grid = np.stack(np.meshgrid(mu, sigma, indexing="ij"), axis=-1).reshape(-1, 2)
    log = 2.0 * normal(grid, X, None).sum(axis=1) - 0.5 * grid[:, 0] ** 2 - grid[:, 1]
    w = np.exp(log - log.max()) * grid[:, 1]
    exact = (w / w.sum()) @ grid
    assert np.abs((second.posterior_.mean() - exact) / second.posterior_.std()).max() < 0.1


def test_names_find_coordinates_of_a_posterior():
    X = np.random.default_rng(0).normal(size=(30, 1))
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=normal, random_state=0,
        prior={"mu": stats.norm(0.0, 1.0), "sigma": stats.expon()},
    )  # fmt: skip
    first = model.fit(X).posterior_
    swapped = ParticleMirrorDescent(
        log_likelihood_pointwise=lambda theta, X, y: normal(theta[:, ::-1], X, y),
        prior=first, names=["sigma", "mu"], random_state=0,
    ).fit(X)  # fmt: skip
    plain = clone(model).set_params(prior=first).fit(X)
    gap = swapped.posterior_.mean() - plain.posterior_.mean()[::-1]
    assert np.abs(gap / swapped.posterior_.std()).max() < 0.1
    with pytest.raises(ValueError, match="prior knows nothing of tau"):
        clone(model).set_params(prior=first, names=["mu", "tau"]).fit(X)


@pytest.mark.parametrize(
    "prior, error, message",
    [
        ({"a": stats.poisson(2.0)}, TypeError, "continuous distribution"),
        ({"a": stats.norm}, TypeError, "with its parameters"),
        ({"a": stats.dirichlet([1.0, 2.0])}, TypeError, "continuous distribution"),
        ({"a": 3.0}, TypeError, r"prior\['a'\]"),
        ({1: stats.norm()}, TypeError, "key 1"),
        ({}, ValueError, "no distribution"),
        ({"a": stats.vonmises(1.0)}, ValueError, "vonmises_line"),
        ({"a": stats.norm(np.zeros(2)), "a[0]": stats.norm()}, ValueError, "twice"),
        (BayesianLogisticRegressionPMD(), ValueError, "not fitted"),
        (None, ValueError, "log_prior is not given"),
    ],
)
def test_errors(prior, error, message):
    model = ParticleMirrorDescent(log_likelihood_pointwise=normal, prior=prior)
    with pytest.raises(error, match=message):
        model.fit(np.zeros((3, 1)))


def test_draws_that_are_rounded_to_an_edge():
    """SciPy draws exactly 1 from a Beta(.05, .05), whose density is infinite there."""
    prior = {"p": stats.beta(0.05, 0.05)}
    functions = prior_functions(prior, None, None)
    theta = functions.sample_prior(np.random.default_rng(0), 4000)
    assert 0.0 < theta.min() and theta.max() < 1.0
    assert np.isfinite(functions.log_prior(theta)).all()
    X = np.repeat([[1.0], [0.0]], [7, 13], axis=0)
    model = ParticleMirrorDescent(
        log_likelihood_pointwise=lambda theta, X, y: stats.bernoulli.logpmf(X[:, 0], theta),
        prior=prior, random_state=0,
    ).fit(X)  # fmt: skip
    exact = stats.beta(7.05, 13.05)
    assert model.posterior_.mean()[0] == pytest.approx(exact.mean(), abs=0.1 * exact.std())
    assert model.posterior_.std()[0] == pytest.approx(exact.std(), rel=0.1)


def test_rows_that_say_nothing():
    """The posterior is the prior, and the evidence is exactly 1."""
    model = ParticleMirrorDescent(
        lambda theta, X, y: np.zeros(len(theta)),
        prior={"a": stats.t(2.5), "b": stats.halfcauchy()}, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.zeros((3, 1)))
    assert abs(model.log_evidence_) < 0.05 + 3.0 * model.posterior_.log_evidence_se
    assert np.isfinite(model.posterior_.log_evidence_se)


def test_only_one_of_two_ways():
    def log_prior(theta):
        return stats.norm.logpdf(theta[:, 0])

    model = ParticleMirrorDescent(poisson, log_prior, prior={"a": stats.norm()})
    with pytest.raises(ValueError, match="prior and log_prior are both given"):
        model.fit(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="sample_prior is not given"):
        model.set_params(prior=None).fit(np.zeros((3, 1)))
    model.set_params(prior={"a": stats.norm()}, log_prior=None, log_joint_gradient=log_prior)
    with pytest.raises(ValueError, match="log_joint_gradient has a prior of its own"):
        model.fit(np.zeros((3, 1)))
