"""Intervals of responsibilities, against those computed from the posterior's own numbers."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from skpmd import GaussianMixturePMD
from skpmd._base.utils import weighted_quantile

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(-1.3, 1.0, (40, 2)), RNG.normal(1.3, 0.7, (30, 2))])
ROWS = np.array([[0.0, 0.0], [0.4, -0.2], [-2.0, 1.0], [30.0, 0.0]])


@pytest.fixture(scope="module", params=["conjugate", "parameters"])
def mixture(request):
    own = {"n_particles": 150} if request.param == "parameters" else {}
    return GaussianMixturePMD(
        2, strategy=request.param, covariance_type="diag", random_state=0, **own,
        handle_missing="marginal",
    ).fit(X)  # fmt: skip


def test_intervals_are_quantiles_over_the_posterior(mixture):
    posterior = mixture.posterior_
    weights, means, stds = np.split(posterior.particles, [2, 6], axis=1)
    means, stds = means.reshape(-1, 2, 2), stds.reshape(-1, 2, 2)
    logs = np.log(weights) + stats.norm(means, stds).logpdf(ROWS[:, None, None]).sum(axis=-1)
    proba = softmax(logs, axis=-1)
    found = mixture.predict_proba_interval(ROWS, level=0.8)
    assert found.shape == (4, 2, 2)
    for i, one in enumerate(proba):
        exact = weighted_quantile(one, posterior.weights, [0.1, 0.9])
        np.testing.assert_allclose(found[i], exact.T, rtol=1e-8, atol=1e-12)


def test_of_a_row_of_nothing_they_are_those_of_the_weights(mixture):
    found = mixture.predict_proba_interval(np.full((1, 2), np.nan))[0]
    np.testing.assert_allclose(found, mixture.component_interval()["weights"], rtol=1e-10)


def test_ends_are_in_order_and_fill_the_sum(mixture):
    low, high = np.moveaxis(mixture.predict_proba_interval(X), 2, 0)
    assert ((low >= 0.0) & (low <= high) & (high <= 1.0 + 1e-12)).all()
    np.testing.assert_allclose(low[:, 0], 1.0 - high[:, 1], atol=1e-12)  # Of two components.
    wide = mixture.predict_proba_interval(X, level=0.99)
    assert (np.diff(wide, axis=2)[..., 0] >= high - low).all()
    for i in (0, 41):  # Each row by itself.
        alone = mixture.predict_proba_interval(X[i : i + 1])[0]
        np.testing.assert_allclose(alone, np.stack([low, high], axis=-1)[i], rtol=1e-9, atol=1e-14)
