"""Leave-one-out estimates of mixtures, against fits without each row and a conjugate posterior."""

import numpy as np
import pytest
from scipy import stats

from skpmd import GaussianMixturePMD
from skpmd.model_comparison import loo

TYPES = ("full", "tied", "diag", "spherical")
RNG = np.random.default_rng(0)
GROUP = RNG.normal(size=(15, 2))
APART = np.concatenate([GROUP - 10.0, RNG.normal(size=(15, 2)) + 10.0])


def mixture(n_components=1, **params):
    """With a prior that does not depend on the rows, converged."""
    kind = params.get("covariance_type", "full")
    scatter = {"diag": [0.5, 0.7], "spherical": 0.5}.get(kind, np.diag([0.5, 0.7]))
    own = {
        "strategy": "conjugate", "mean_prior": [0.0, 0.0], "mean_precision_prior": 0.01,
        "degrees_of_freedom_prior": 3.0, "covariance_prior": scatter, "reg_covar": 0.0,
        "weight_concentration_prior": 0.5, "max_full_iter": 300, "tol": 0.0, "random_state": 0,
    }  # fmt: skip
    return GaussianMixturePMD(n_components, **{**own, **params})


def refitted(model, X, weight=None, every=1):
    """Log density of every few of the rows by a fit without it."""
    rows = range(0, len(X), every)
    weight = np.ones(len(X)) if weight is None else weight
    fits = (model.fit(np.delete(X, i, 0), sample_weight=np.delete(weight, i)) for i in rows)
    return np.array([fit.score_samples(X[i : i + 1])[0] for i, fit in zip(rows, fits, strict=True)])


@pytest.mark.parametrize("covariance_type", TYPES)
def test_one_component_is_exact(covariance_type):
    model = mixture(covariance_type=covariance_type)
    found = loo(model.fit(GROUP), GROUP)
    assert found.elpd == pytest.approx(found.pointwise.sum())
    assert found.p == pytest.approx(model.score_samples(GROUP).sum() - found.elpd)
    assert found.p > 0.0
    np.testing.assert_allclose(found.pointwise, refitted(model, GROUP), atol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("prior", ["dirichlet_distribution", "pitman_yor"])
def test_groups_that_are_apart_are_exact(covariance_type, prior):
    # No row's responsibility changes without another.
    model = mixture(
        2, covariance_type=covariance_type, weighting="posterior", n_particles=2,
        weight_concentration_prior_type=prior, max_full_iter=20,
    )  # fmt: skip
    found = loo(model.fit(APART), APART).pointwise
    np.testing.assert_allclose(found[::3], refitted(model, APART, every=3), atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_stacked_weights_are_those_without_the_row():
    # The start of stacking, which counts one row, is a little different then.
    model = mixture(2, max_full_iter=20)
    found = loo(model.fit(APART), APART).pointwise
    np.testing.assert_allclose(found[::3], refitted(model, APART, every=3), atol=2e-3)


def test_a_row_is_left_out_with_its_copies():
    weight = np.where(np.arange(len(GROUP)) % 3, 1.0, 3.0)
    model = mixture()
    found = loo(model.fit(GROUP, sample_weight=weight), GROUP, sample_weight=weight)
    np.testing.assert_allclose(found.pointwise, refitted(model, GROUP, weight), atol=1e-10)
    with pytest.raises(ValueError, match="which counted 25 rows"):
        loo(model.fit(GROUP, sample_weight=weight), GROUP)


def test_draws_agree_with_the_closed_form():
    exact = loo(mixture().fit(GROUP), GROUP)
    model = mixture(strategy="parameters", n_particles=1000)
    found = loo(model.fit(GROUP), GROUP)
    # Of 1000 draws; the extreme row is known to a tenth of a nat.
    np.testing.assert_allclose(found.pointwise, exact.pointwise, atol=0.3)
    assert found.elpd == pytest.approx(exact.elpd, abs=0.4)
    assert found.pareto_k.shape == (15,)
    table = model.pointwise_log_likelihood(GROUP)
    assert table.shape == (1000, 15)
    weights, means, stds = np.split(model.posterior_.particles, [1, 3], axis=1)
    np.testing.assert_allclose(weights, 1.0)
    diagonal = mixture(strategy="parameters", n_particles=100, covariance_type="diag").fit(GROUP)
    _, means, stds = np.split(diagonal.posterior_.particles, [1, 3], axis=1)
    byhand = stats.norm(means[:, None], stds[:, None]).logpdf(GROUP).sum(axis=-1)
    np.testing.assert_allclose(diagonal.pointwise_log_likelihood(GROUP), byhand, rtol=1e-9)


def test_missing_values_are_refused():
    model = mixture().fit(GROUP).set_params(handle_missing="marginal")
    holey = GROUP.copy()
    holey[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN in 1 of 15 rows"):
        loo(model, holey)
    assert np.isfinite(model.pointwise_log_likelihood(holey)).all()
