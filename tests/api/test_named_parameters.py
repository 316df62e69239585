"""Parameters by their names: in functions of a user's model, and of posteriors of all families."""

import copy
import pickle

import numba
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import skpmd
from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    GaussianPosterior,
    ParticleMirrorDescent,
    from_jax,
)
from skpmd._base.parameters import NamedParameters
from skpmd.custom._prior import prior_functions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X @ [1.0, -0.5] + 0.3 + RNG.normal(scale=0.7, size=30)
GROUPS = [f"g{j % 6}" for j in range(30)]
PRIOR = {
    "mu": stats.norm(0, 2), "b": stats.norm(np.zeros(2), 1), "sigma": stats.halfnorm(scale=2)
}  # fmt: skip
STEPS = {"n_particles": 100, "proposal": "prior", "max_iter": 1, "reweight": False}
QUICK = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mean_by_name(theta, X):
    return theta["mu"][:, None] + theta["b"] @ X.T


def by_name(theta, X, y):
    return stats.norm.logpdf(y, mean_by_name(theta, X), theta["sigma"][:, None])


def sum_by_name(theta, X, y, sample_weight):
    return by_name(theta, X, y) @ sample_weight


def draw_by_name(theta, X, rng):
    return rng.normal(mean_by_name(theta, X), theta["sigma"][:, None])


def mean_by_place(theta, X):
    return theta[:, :1] + theta[:, 1:3] @ X.T


def by_place(theta, X, y):
    return stats.norm.logpdf(y, mean_by_place(theta, X), theta[:, 3:])


def sum_by_place(theta, X, y, sample_weight):
    return by_place(theta, X, y) @ sample_weight


def draw_by_place(theta, X, rng):
    return rng.normal(mean_by_place(theta, X), theta[:, 3:])


BY_NAME = {
    "log_likelihood": sum_by_name, "log_likelihood_pointwise": by_name,
    "predict_mean": mean_by_name, "sample_targets": draw_by_name,
}  # fmt: skip
BY_PLACE = {
    "log_likelihood": sum_by_place, "log_likelihood_pointwise": by_place,
    "predict_mean": mean_by_place, "sample_targets": draw_by_place,
}  # fmt: skip


def model(functions, **params):
    return ParticleMirrorDescent(**functions, **{"prior": PRIOR, "random_state": 0} | params)


def answers(fitted):
    """All that a user asks of a model, which depends on its functions."""
    return [
        fitted.posterior_.particles, fitted.posterior_.weights, fitted.predict(X),
        fitted.predict_interval(X[:3]), fitted.sample_y(X, 5), fitted.score(X, Y),
        fitted.pointwise_log_likelihood(X, Y),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return model(BY_NAME).fit(X, Y)


def test_names_change_no_digit(fitted):
    by_place = model(BY_PLACE).fit(X, Y)
    for one, other in zip(answers(fitted), answers(by_place), strict=True):
        np.testing.assert_array_equal(one, other)


@QUICK
def test_streams_steps_and_weights_take_names():
    weight = np.arange(30) % 3
    for changes in ({}, {"log_likelihood": None}):
        one, other = (
            model(functions | changes, **STEPS).partial_fit(X, Y, weight).partial_fit(X, Y)
            for functions in (BY_NAME, BY_PLACE)
        )
        np.testing.assert_array_equal(one.posterior_.particles, other.posterior_.particles)


def test_particles_with_names_are_an_array_as_before():
    seen = []

    def log_likelihood(theta, X, y):
        seen.append(theta)
        return -0.5 * ((theta - 0.3) ** 2).sum(axis=1)

    prior = {"mu": stats.norm(0, 1), "z": stats.norm(np.zeros((2, 3)), 1)}
    model({"log_likelihood": log_likelihood}, prior=prior).fit()
    theta = seen[0]
    m, plain = len(theta), np.asarray(theta)
    assert type(theta) is NamedParameters and theta.shape == (m, 7)
    assert theta.names == ["mu", "z"] and "z" in theta and "tau" not in theta
    assert theta["mu"].shape == (m,) and theta["z"].shape == (m, 2, 3)
    np.testing.assert_array_equal(theta["z"].reshape(m, 6), plain[:, 1:])
    parts = theta["z"], theta[:, 1:], theta[0], theta * 2.0, theta @ np.ones(7), theta.sum(axis=1)
    assert all(type(part) is np.ndarray for part in parts)
    assert type(theta.sum()) is type(theta[0, 0]) is np.float64
    changed = pickle.loads(pickle.dumps(theta))
    changed *= 2.0
    np.testing.assert_array_equal(theta.copy()["mu"], theta["mu"])
    with pytest.raises(IndexError, match="valid indices"):
        theta.T["mu"]
    np.testing.assert_array_equal(changed["mu"], 2.0 * plain[:, 0])
    with pytest.raises(KeyError, match="no parameter 'tau'; there are: mu, z"):
        theta["tau"]


def test_a_wrong_name_in_a_function_ends_the_fit_with_those_that_there_are():
    with pytest.raises(KeyError, match="'scale'; there are: mu, b, sigma") as error:
        model({"log_likelihood_pointwise": lambda theta, X, y: theta["scale"]}).fit(X, Y)
    assert "log_likelihood_pointwise was called with theta of shape" in error.value.__notes__[0]


def test_compiled_functions_get_an_array():
    @numba.njit
    def log_likelihood(theta, X, y):
        out = np.zeros(len(theta))
        for i in range(len(theta)):
            rest = (y - theta[i, 0] - X @ theta[i, 1:3]) / theta[i, 3]
            out[i] = -0.5 * (rest**2).sum() - len(y) * np.log(theta[i, 3])
        return out

    constant = -0.5 * len(Y) * np.log(2.0 * np.pi)
    compiled = model({"log_likelihood": log_likelihood}).fit(X, Y)
    plain = model(BY_NAME).fit(X, Y)  # The same particles, but for rounding.
    gap = compiled.log_evidence_ + constant - plain.log_evidence_
    assert abs(gap) < 4.0 * (compiled.posterior_.log_evidence_se + plain.posterior_.log_evidence_se)


def test_functions_of_jax_get_an_array():
    jnp = pytest.importorskip("jax.numpy")

    def log_likelihood(theta, X, y):
        rest = (y - theta[0] - X @ theta[1:3]) / theta[3]
        return -0.5 * jnp.sum(rest**2) - len(y) * jnp.log(theta[3])

    function = from_jax(log_likelihood, lambda theta: 0.0)["log_likelihood"]
    fit, plain = model({"log_likelihood": function}).fit(X, Y), model(BY_NAME).fit(X, Y)
    np.testing.assert_allclose(  # Both know means to 0.05 sd: 1000 draws or more.
        fit.posterior_.mean(), plain.posterior_.mean(), atol=0.15 * plain.posterior_.std().max()
    )


@QUICK
def test_copies_searches_and_files_keep_names(fitted):
    skops = pytest.importorskip("skops.io")
    again = pickle.loads(pickle.dumps(fitted))
    data = skops.dumps(fitted)
    loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    for other in (again, loaded, copy.deepcopy(fitted)):
        np.testing.assert_array_equal(other.predict(X), fitted.predict(X))
        np.testing.assert_array_equal(other.posterior_["b"].mean(), fitted.posterior_["b"].mean())
    np.testing.assert_array_equal(clone(fitted).fit(X, Y).predict(X), fitted.predict(X))
    grid = {"prior": [PRIOR, PRIOR | {"sigma": stats.halfnorm(scale=0.1)}]}
    search = GridSearchCV(model(BY_NAME, **STEPS), grid, cv=2, error_score="raise")
    assert search.fit(X, Y).best_estimator_.posterior_["b"].mean().shape == (2,)


def test_an_earlier_posterior_keeps_the_names_of_its_parameters(fitted):
    second = model(BY_NAME, prior=fitted.posterior_).fit(X[:10], Y[:10])
    assert second.posterior_["b"].interval().shape == (2, 2)
    assert second.predict(X[:1]).shape == (1,)
    given = prior_functions(fitted.posterior_, None, None, ["sigma", "mu"])
    assert list(given.variables) == ["sigma", "mu"]


def test_names_of_coordinates_leave_those_of_parameters(fitted):
    renamed = model(BY_NAME, names=["start", "x", "y", "noise"]).fit(X, Y).posterior_
    assert renamed.names == ["start", "x", "y", "noise"]
    np.testing.assert_array_equal(renamed.particles, fitted.posterior_.particles)
    np.testing.assert_array_equal(renamed["y"].interval(), renamed["b"].interval()[1])
    pytest.importorskip("xarray")
    assert renamed.to_xarray()["b"].sel(b_dim_0="y").shape == (len(renamed.weights),)


def test_exports_have_the_shapes_of_parameters(fitted):
    pytest.importorskip("xarray")
    data = fitted.posterior_.to_xarray()
    assert dict(data["b"].sizes) == {"particle": len(data["mu"]), "b_dim_0": 2}
    assert fitted.posterior_.summary()["name"] == ["mu", "b[0]", "b[1]", "sigma"]
    pytest.importorskip("arviz")
    chain = fitted.posterior_.to_arviz(n_draws=50)
    assert chain["posterior"]["b"].shape == (1, 50, 2)


def some_posteriors():
    """One of each kind, by name; they need not be good ones."""
    few = {"n_particles": 200, "random_state": 0}
    yield "linear", BayesianGLMRegressorPMD("normal", **few).fit(X, Y).posterior_
    table = np.column_stack([X, np.arange(30) % 6])
    groups = BayesianGLMRegressorPMD("normal", groups=[2], **few)
    yield "groups", groups.fit(table, Y).posterior_
    classes = np.digitize(Y, [-0.5, 0.5])
    yield "classes", BayesianLogisticRegressionPMD(**few).fit(X, classes).posterior_
    yield "mixture", GaussianMixturePMD(2, **few).fit(X).posterior_
    variables = prior_functions(PRIOR, None, None).variables
    normal = GaussianPosterior(np.arange(4.0), np.ones(4), list("abcd"), variables=variables)
    yield "without correlations", normal


@QUICK
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_posteriors_of_every_family_take_names(fitted):
    for kind, posterior in [("custom", fitted.posterior_), *some_posteriors()]:
        variables = posterior.variables
        assert variables, kind
        coordinates = {name: np.array(j) for j, name in enumerate(posterior.names)}
        columns = coordinates | {name: one.columns for name, one in variables.items()}
        for name, places in columns.items():
            one = posterior[name]
            # A matrix product of some columns rounds as it likes.
            close = {"rtol": 1e-12, "atol": 1e-14}
            np.testing.assert_allclose(one.mean(), posterior.mean()[places], **close)
            np.testing.assert_allclose(one.std(), posterior.std()[places], **close)
            np.testing.assert_array_equal(one.interval(0.8), posterior.interval(0.8)[places])
            assert one.sample(9, random_state=0).shape == (9, *places.shape)
            found = one.quantile([0.1, 0.5, 0.7])
            assert found.shape == (3, *places.shape) and one.quantile(0.5).shape == places.shape
            np.testing.assert_array_equal(found, posterior.quantile([0.1, 0.5, 0.7])[:, places])
            if kind != "without correlations":
                np.testing.assert_array_equal(one, posterior.particles[:, places])
                np.testing.assert_allclose(one.weights, posterior.weights, rtol=1e-12)
                assert repr(one) == f"ParameterDraws(shape={places.shape}, {len(one.draws)} draws)"
                np.testing.assert_array_equal(one.sample(9, 0), posterior.sample(9, 0)[:, places])
                doubled = posterior.derive(lambda theta, name=name: 2.0 * theta[name])
                np.testing.assert_array_equal(doubled.draws, 2.0 * one.draws)
                np.testing.assert_array_equal(doubled.interval(0.8), 2.0 * one.interval(0.8))
                mean = posterior.expectation(lambda theta, name=name: theta[name])
                np.testing.assert_allclose(mean, one.mean(), **close)
        with pytest.raises(
            KeyError, match=f"no parameter 'none'; there are: {next(iter(variables))}"
        ):
            posterior["none"]
        with pytest.raises(TypeError, match="not iterable"):
            iter(posterior)


def test_a_posterior_of_many_coordinates_lists_some():
    posterior = skpmd.Posterior(np.zeros((2, 50)), np.zeros(2))
    assert posterior["theta49"].mean() == 0.0
    with pytest.raises(KeyError, match=r"theta19, \.\.\."):
        posterior["tau"]


def test_a_missing_function_is_named_with_what_it_returns():
    without = model({"log_likelihood_pointwise": by_name})
    for method, words in {
        "predict": r"predict_mean\(theta, X\), the mean of y for each particle and row, \(m, n\)",
        "sample_y": r"sample_targets\(theta, X, rng\), a y drawn for each particle and row",
    }.items():
        with pytest.raises(AttributeError) as error:
            getattr(without, method)
        with pytest.raises(AttributeError, match=words):
            raise error.value.__cause__
