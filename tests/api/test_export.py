"""Posteriors as tables, arrays with named axes, and for ArviZ."""

import importlib
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    GaussianPosterior,
    Posterior,
    SparseGPRegressorPMD,
)
from skpmd.model_comparison import loo
from tests.plot.displays import groups

pandas = pytest.importorskip("pandas")
pytest.importorskip("xarray")
base = pytest.importorskip("arviz_base")

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)


@pytest.fixture(scope="module")
def iris():
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(X, columns=names)
    return BayesianLogisticRegressionPMD(n_particles=500, random_state=0).fit(frame, Y), frame


def weighted(m=400, d=2, seed=0):
    rng = np.random.default_rng(seed)
    particles = rng.standard_normal((m, d))
    return Posterior(particles, particles[:, 0], names=["first", "second"][:d], pareto_k=0.3)


def test_a_table_has_particles_and_weights():
    posterior = weighted()
    frame = posterior.to_frame()
    assert list(frame) == ["particle_weight", "first", "second"]
    np.testing.assert_array_equal(frame[["first", "second"]], posterior.particles)
    np.testing.assert_array_equal(frame["particle_weight"], posterior.weights)


def test_arrays_have_the_axes_and_labels_of_the_data(iris):
    model, _ = iris
    data = model.posterior_.to_xarray()
    assert data["coef"].dims == ("particle", "class", "feature")
    assert data["intercept"].dims == ("particle", "class")
    assert list(data["feature"].values) == ["a", "b", "c", "d"]
    assert list(data["class"].values) == ["0", "1", "2"]
    mean = (data["coef"] * data["particle_weight"]).sum("particle")
    np.testing.assert_allclose(mean.sel({"class": "1"}).values, model.coef_[1])
    assert data.attrs["weights"] == "posterior" and data.attrs["log_evidence"] < 0.0


def test_draws_have_equal_weight_and_the_moments_of_the_posterior():
    """Systematic resampling: a particle's share is off by 1 / 20,000 at most."""
    posterior = weighted()
    tree = posterior.to_arviz(n_draws=20_000)
    draws = tree["posterior"]["first"].values
    assert draws.shape == (1, 20_000)
    values, counts = np.unique(draws, return_counts=True)
    order = np.argsort(posterior.particles[:, 0])
    shares = dict(zip(values, counts / 20_000, strict=True))
    found = [shares.get(value, 0.0) for value in posterior.particles[order, 0]]
    np.testing.assert_allclose(found, posterior.weights[order], rtol=0, atol=1.001 / 20_000)
    again = posterior.to_arviz(n_draws=20_000)["posterior"]["first"].values
    np.testing.assert_array_equal(again, draws)
    assert tree["posterior"].attrs["pareto_k"] == 0.3


def test_groups_follow_the_draws(iris):
    model, frame = iris
    posterior = model.posterior_
    log_likelihood = model.pointwise_log_likelihood(frame, Y)
    tree = posterior.to_arviz(
        500, log_likelihood=log_likelihood, observed_data=Y, prior=np.zeros((7, 15)),
        posterior_predictive=np.tile(np.arange(len(log_likelihood))[:, None], (1, 3)),
    )  # fmt: skip
    coef = tree["posterior"]["coef"].values[0]
    chosen = tree["posterior_predictive"]["y"].values[0, :, 0].astype(int)
    np.testing.assert_array_equal(coef.reshape(500, -1)[:, 0], posterior.particles[chosen, 0])
    np.testing.assert_array_equal(tree["log_likelihood"]["y"].values[0], log_likelihood[chosen])
    np.testing.assert_array_equal(tree["observed_data"]["y"].values, Y)
    assert tree["prior"]["coef"].shape == (1, 7, 3, 4)
    with pytest.raises(ValueError, match=r"log_likelihood must have shape \(\d+, n_rows\)"):
        posterior.to_arviz(log_likelihood=log_likelihood[:-1])
    with pytest.raises(ValueError, match=r"prior must have shape \(n_draws, 15\)"):
        posterior.to_arviz(prior=np.zeros((3, 4)))
    with pytest.raises(ValueError, match="n_draws"):
        posterior.to_arviz(n_draws=0)


def test_effects_of_groups_have_the_dimension_of_their_factor():
    model = groups()
    effects = model.group_effects_
    tree = model.posterior_.to_arviz(300, group_effects=effects)["posterior"]
    assert tree["1|x1"].dims == tree["x0|x1"].dims == ("chain", "draw", "x1")
    assert list(tree["x1"].values) == list(effects.labels)
    found = tree["1|x1"].values[0]
    # Means of 300 draws have standard errors of .06 of an sd.
    gap = (found.mean(axis=0) - effects.mean[:, 0]) / effects.std[:, 0]
    assert np.abs(gap).max() < 0.25
    # Effects go with the intercept of their particle.
    assert np.corrcoef(tree["intercept"].values[0], found.mean(axis=1))[0, 1] < -0.8


def test_effects_of_several_factors_are_of_the_same_draws():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(12), 10), np.tile(np.arange(5), 24)])
    y = rng.normal(size=12)[X[:, 0]] + rng.normal(size=5)[X[:, 1]] + rng.normal(size=120)
    model = BayesianGLMRegressorPMD(groups=[0, 1], random_state=0).fit(X, y)
    effects = model.group_effects_
    tree = model.posterior_.to_arviz(500, group_effects=effects)["posterior"]
    assert tree["1|x0"].shape == (1, 500, 12)
    assert list(tree["x1"].values) == [0, 1, 2, 3, 4]
    found = [tree[f"1|x{j}"].values[0] for j in range(2)]
    for one, own in zip(found, effects.values(), strict=True):
        # Means of 500 draws have standard errors of .05 of an sd.
        gap = (one.mean(axis=0) - own.mean[:, 0]) / own.std[:, 0]
        assert np.abs(gap).max() < 0.2
    # Rows tell of sums of an intercept and an effect of each factor.
    total = tree["intercept"].values[0] + found[0].mean(axis=1) + found[1].mean(axis=1)
    assert total.std() < 0.5 * tree["intercept"].values[0].std()
    for other in ({}, {"x0": 1.0}, "x0"):
        with pytest.raises(TypeError, match="group_effects must be group_effects_ of an estimator"):
            model.posterior_.to_arviz(group_effects=other)


def test_leave_one_out_and_summaries_of_arviz_take_it(iris):
    """The extra ``arviz`` has both of its libraries."""
    stats = pytest.importorskip("arviz_stats")
    model, frame = iris
    tree = model.posterior_.to_arviz(2000, log_likelihood=model.pointwise_log_likelihood(frame, Y))
    found = stats.loo(tree, var_name="y")
    assert np.isfinite(found.elpd) and found.elpd < 0.0
    assert np.isclose(found.elpd, loo(model, frame, Y).elpd, atol=1.0)
    summary = stats.summary(tree, round_to="none")
    ours = np.append(model.coef_.ravel(), model.intercept_)
    assert list(summary.index[:2]) == ["coef[0, a]", "coef[0, b]"] and len(summary) == 15
    np.testing.assert_allclose(summary["mean"].astype(float), ours, atol=0.1)


def test_what_is_no_posterior_says_so():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3.0, 3.0, (60, 1))
    y = np.sin(rows[:, 0]) + 0.1 * rng.standard_normal(60)
    one = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(rows, y).posterior_
    attributes = one.to_xarray().attrs
    assert "point estimate" in attributes["caveat"]
    assert "not of the posterior" in attributes["weights"]
    mixture = GaussianMixturePMD(2, strategy="conjugate", random_state=0).fit(rows)
    data = mixture.posterior_.to_xarray()
    assert data["means"].dims == ("particle", "component", "column")
    np.testing.assert_allclose(
        (data["weights"] * data["particle_weight"]).sum("particle").values,
        mixture.posterior_.mean()[:2],
    )
    assert "lower bounds" in data.attrs["weights"] and "too narrow" in data.attrs["caveat"]


@pytest.mark.parametrize("method", ["to_frame", "to_xarray", "to_arviz"])
def test_a_missing_library_names_the_extra(monkeypatch, method):
    for name in ("pandas", "xarray", "arviz", "arviz_base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[arviz\]"):
        getattr(weighted(), method)()
    importlib.invalidate_caches()


@pytest.mark.parametrize("names", [["a", "a"], ["draw", "b"], ["particle_weight", "b"]])
def test_names_with_another_meaning_are_refused(names):
    posterior = Posterior(np.zeros((10, 2)), np.zeros(10), names=names)
    for export in (posterior.to_xarray, posterior.to_arviz):
        with pytest.raises(ValueError, match="names of coordinates must differ"):
            export()


@pytest.mark.parametrize("method", ["to_frame", "to_xarray"])
def test_a_gaussian_has_no_particles_in_a_table(method):
    posterior = GaussianPosterior(np.zeros(2), np.ones(2), ["a", "b"])
    with pytest.raises(
        AttributeError, match=rf"{method} is not available.* to_arviz\(\) has draws"
    ):
        getattr(posterior, method)()


def test_draws_of_a_gaussian_have_its_moments():
    """Of 20,000 draws a mean has a standard error of .007 standard deviations, an sd of .005."""
    posterior = GaussianPosterior(np.array([1.0, -5.0]), np.array([0.5, 3.0]), ["a", "b"])
    found = posterior.to_arviz(20_000)["posterior"]
    for name, mean, sd in (("a", 1.0, 0.5), ("b", -5.0, 3.0)):
        draws = found[name].values
        assert draws.shape == (1, 20_000) and len(np.unique(draws)) == 20_000
        assert abs(draws.mean() - mean) < 0.03 * sd and abs(draws.std() / sd - 1.0) < 0.02
    assert "without correlations" in found.attrs["caveat"]
    again = posterior.to_arviz(20_000)["posterior"]
    np.testing.assert_array_equal(again["a"].values, found["a"].values)
    with pytest.raises(ValueError, match="n_draws"):
        posterior.to_arviz(0)
