"""What priors, criteria and few particles of a mixture say of themselves."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from skpmd import GaussianMixturePMD

TYPES = ("full", "tied", "diag", "spherical")


def sampled(n_components=2, **params):
    own = {"strategy": "parameters", "n_particles": 100, "random_state": 0, **params}
    return GaussianMixturePMD(n_components, **own)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.permutation(np.append(rng.normal(-3, 0.7, 30), rng.normal(3, 1, 50)))[:, None] + 9.0


def quietly(call, *own):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*own)


# ---------------------------------------------------------------------- the best particle
def test_criteria_are_of_the_likeliest_draw(X):
    fitted = sampled().fit(X)
    draws = fitted.posterior_.particles
    weights, means, stds = draws[:, :2], draws[:, 2:4], draws[:, 4:]
    logs = np.log(weights) + norm.logpdf(X[:, :, None], means, stds)
    best = logsumexp(logs, axis=2).sum(axis=0).max()
    assert fitted.aic(X) == pytest.approx(-2 * best + 10, rel=1e-9)
    assert fitted.bic(X) == pytest.approx(-2 * best + 5 * np.log(80), rel=1e-9)


def test_equal_weights_have_a_best_particle_too(X):
    equal, weighed = (
        GaussianMixturePMD(
            6, strategy="conjugate", n_particles=6, weighting=one, max_iter=1, random_state=1
        ).fit(X)
        for one in ("uniform", "posterior")
    )
    bounds = equal._state.fit.model.posteriors(equal._state.fit.counts).elbo
    assert bounds.argmax() > 0  # or the first one were the best by chance
    assert equal.bic(X) == pytest.approx(weighed.bic(X), rel=1e-9)


# ---------------------------------------------------------------------- streams
@pytest.mark.slow
def test_a_first_row_does_not_fix_units_and_prior(X):
    """Rows of the first part are too few to tell scales by; fit gives what a stream comes to."""
    whole, stream = sampled(n_particles=200).fit(X), sampled(n_particles=200)
    for part in (X[:1], X[1:20], X[20:]):
        quietly(stream.partial_fit, part)
    np.testing.assert_allclose(stream.covariance_prior_, whole.covariance_prior_, rtol=1e-9)
    np.testing.assert_allclose(stream.mean_prior_, whole.mean_prior_, rtol=1e-9)
    assert stream.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1.0)
    assert stream.history_["step"][-1] > whole.history_["step"][-1]
    assert stream._state.n_samples_seen == 80.0


# ---------------------------------------------------------------------- priors
@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_independent_prior_tells_what_it_has(X, covariance_type):
    rows = np.column_stack([X, 0.5 * X + np.sin(X)])
    own = {"component_prior": "independent", "covariance_type": covariance_type}
    fitted = quietly(sampled(1, n_particles=20, **own, reg_covar=0.0).fit, rows)
    np.testing.assert_allclose(fitted.mean_scale_prior_, rows.std(axis=0), rtol=1e-9)
    for name in ("mean_precision_prior_", "degrees_of_freedom_prior_"):
        assert not hasattr(fitted, name)
    shift, scale = fitted._state.scaler
    reach = 3.0 * scale * (np.sqrt(2.0) if covariance_type == "spherical" else 1.0)
    variance = np.clip(rows, shift - reach, shift + reach).var(axis=0)  # Beyond values count less.
    assert covariance_type == "spherical" or (variance < rows.var(axis=0)).any()
    expected = {"diag": variance, "spherical": variance.mean()}
    expected = expected.get(covariance_type, np.diag(variance))
    np.testing.assert_allclose(fitted.covariance_prior_, expected, rtol=1e-9, atol=1e-12)
    given = quietly(sampled(1, n_particles=20, **own, mean_scale_prior=[2.0, 3.0]).fit, rows)
    np.testing.assert_allclose(given.mean_scale_prior_, [2.0, 3.0], rtol=1e-12)
    assert not hasattr(quietly(sampled(1, n_particles=20).fit, rows), "mean_scale_prior_")


@pytest.mark.parametrize(
    "params, message",
    [
        ({"degrees_of_freedom_prior": 3.0}, "degrees_of_freedom_prior has no meaning"),
        ({"mean_precision_prior": 3.0}, "mean_precision_prior has no meaning"),
        ({"covariance_prior": [[1.0, 0.5], [0.5, 1.0]]}, "must be diagonal"),
        ({"component_prior": "normal_wishart", "mean_scale_prior": 1.0}, "mean_scale_prior has"),
    ],
)
def test_what_a_prior_does_not_have_is_refused(X, params, message):
    own = {"component_prior": "independent", **params}
    with pytest.raises(ValueError, match=message):
        sampled(**own).fit(np.column_stack([X, X**2]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few rows
@pytest.mark.parametrize("covariance_type", TYPES)
def test_degrees_of_freedom_are_refused_where_draws_would_not_be_numbers(X, covariance_type):
    least = 1.0 if covariance_type in ("full", "tied") else 0.0
    rows = np.column_stack([X, X**2])[:2]
    own = {"covariance_type": covariance_type, "strategy": "conjugate", "random_state": 0}
    few = GaussianMixturePMD(4, degrees_of_freedom_prior=least + 0.01, **own)
    with pytest.raises(ValueError, match=f"greater than {least:.0f}, by 0.1"):
        few.fit(rows)
    enough = GaussianMixturePMD(4, degrees_of_freedom_prior=least + 0.11, **own).fit(rows)
    assert np.isfinite(enough.sample(500)[0]).all()
    assert np.isfinite(enough.posterior_.particles).all()


# ---------------------------------------------------------------------- few particles
def test_few_particles_are_doubted(X):
    with pytest.warns(ConvergenceWarning, match="5 particles are too few"):
        assert not sampled(n_particles=5).fit(X).converged_
    with pytest.raises(ValueError, match="n_particles=1"):
        sampled(n_particles=1).fit(X)
