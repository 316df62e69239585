"""The model of the page "Add a model": its densities, and its posterior against a grid."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skpmd.engine.model import Batch
from tests.api import negative_binomial
from tests.api.negative_binomial import NegativeBinomial, NegativeBinomialPMD


def counts(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    mean = np.exp(1.0 + 0.5 * X[:, 0])
    return X, rng.negative_binomial(1.5, 1.5 / (1.5 + mean)).astype(float)


def test_densities_are_those_of_scipy():
    X, y = counts(30)
    model, rng = NegativeBinomial(2), np.random.default_rng(1)
    theta = model.sample_prior(rng, 4)
    weight = rng.integers(1, 4, size=30).astype(float)
    r, mean = np.exp(theta[:, -1]), np.exp(theta[:, 0] + X @ theta[:, 1:-1].T)
    expected = weight @ stats.nbinom.logpmf(y[:, None], r, r / (r + mean))
    np.testing.assert_allclose(model.log_likelihood(theta, Batch(X, y, weight)), expected)
    expected = stats.norm.logpdf(theta[:, :-1], scale=[5.0, 1.0, 1.0]).sum(axis=1)
    expected += stats.gamma.logpdf(r, 2.0, scale=2.0) + theta[:, -1]
    np.testing.assert_allclose(model.log_prior(theta), expected)


@pytest.fixture(scope="module")
def exact():
    """Counts, and the exact posterior of intercept, coefficient of an empty column, and log r."""
    X, y = np.zeros((300, 1)), counts(300)[1]
    axes = np.meshgrid(np.linspace(0.5, 1.8, 200), np.linspace(-1.0, 1.5, 200))
    theta = np.column_stack([axis.ravel() for axis in axes])
    model = NegativeBinomial(0)
    log_density = model.log_prior(theta)
    log_density += model.log_likelihood(theta, Batch(X[:, :0], y, np.ones(300)))
    weight = np.exp(log_density - log_density.max())
    evidence = np.log(weight.sum() * 1.3 * 2.5 / 199**2) + log_density.max()
    mean, second = (np.average(theta**k, axis=0, weights=weight) for k in (1, 2))
    std = np.sqrt(second - mean**2)
    return X, y, np.insert(mean, 1, 0.0), np.insert(std, 1, 1.0), evidence


def errors(posterior, mean, std):
    """Largest error of a mean in posterior sds, and relative error of a sd."""
    sds = np.abs(posterior.std() / std - 1.0)
    return np.abs((posterior.mean() - mean) / std).max(), sds.max()


def test_fit_finds_the_posterior(exact):
    X, y, mean, std, evidence = exact
    estimator = NegativeBinomialPMD(n_particles=1000, random_state=0).fit(X, y)
    error, sd_error = errors(estimator.posterior_, mean, std)
    assert error < 0.1 and sd_error < 0.08
    assert estimator.history_["rejuvenations"].sum() > 0
    assert abs(estimator.log_evidence_ - evidence) < 0.1


@pytest.mark.slow
def test_stream_goes_on_from_a_fit(exact):
    X, y, mean, std, _ = exact
    stream = NegativeBinomialPMD(n_particles=2000, random_state=0).fit(X[:200], y[:200])
    for part in np.split(np.arange(200, 300), 2):
        stream.partial_fit(X[part], y[part])
    error, sd_error = errors(stream.posterior_, mean, std)
    assert error < 0.25 and sd_error < 0.15
    assert stream.diagnostics_["mean_error"] < 0.5


def test_the_example_is_short():
    text = Path(negative_binomial.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
