"""Models of one's own by a sample of many rows, against closed forms and against all rows."""

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, norm

from skpmd import ParticleMirrorDescent
from skpmd.custom import _fit

N = 50_000


class Counted:
    """A log-likelihood that counts at how many rows it is evaluated."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, theta, X, y):
        self.n += len(theta) * len(y)
        return self.function(theta, X, y)


def normal_rows(theta, X, y):
    """Rows of unit variance about a line."""
    gap = y - theta[:, :1] - theta[:, 1:] * X[:, 0]
    return norm.logpdf(gap).sum(axis=1)


def estimator(log_likelihood, scale=3.0, **given):
    return ParticleMirrorDescent(
        log_likelihood,
        lambda theta: norm.logpdf(theta, scale=scale).sum(axis=1),
        lambda rng, m: rng.normal(0.0, scale, (m, 2)),
        random_state=0, **given,
    )  # fmt: skip


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 1))
    return X, 0.4 + 0.7 * X[:, 0] + rng.standard_normal(N)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_posterior_is_the_exact_one(line, temperature):
    """Means within .06 sd and sds within 7 %: twice the errors of 900 effective draws."""
    X, y = line
    log_likelihood = Counted(normal_rows)
    found = estimator(log_likelihood, temperature=temperature).fit(X, y)
    design = np.column_stack([np.ones(N), X])
    cov = np.linalg.inv(design.T @ design / temperature + np.eye(2) / 9.0)
    mean, sd = cov @ design.T @ y / temperature, np.sqrt(np.diag(cov))
    assert found.diagnostics_["n_rows_weighed"] == 2000
    assert found.diagnostics_["log_weight_error"] < 0.01
    assert found.n_iter_ == len(found.history_["ess"])
    np.testing.assert_allclose((found.posterior_.mean() - mean) / sd, 0.0, atol=0.06)
    np.testing.assert_allclose(found.posterior_.std(), sd, rtol=0.07)
    assert log_likelihood.n < 1000 * N  # Some 7000 by all rows.
    ess = found.history_["ess"]  # Each round is there once.
    assert found.n_iter_ == len(ess) == len(np.unique(ess))
    if temperature == 1.0:
        at = multivariate_normal(mean, cov).logpdf(mean)
        exact = normal_rows(mean[None], X, y)[0] + norm.logpdf(mean, scale=3.0).sum() - at
        assert found.log_evidence_ == pytest.approx(
            exact, abs=4.0 * found.posterior_.log_evidence_se
        )


@pytest.fixture
def few(line, monkeypatch):
    """Few of the rows, which are many for smaller samples."""
    monkeypatch.setattr(_fit, "_ROWS", 200)
    return line[0][:4000], line[1][:4000]


def test_a_likelihood_that_is_no_sum_over_rows_sees_all_of_them(few):
    """The noise is that of all rows together; ``batch_size`` says that they come so."""
    X, y = few

    def log_likelihood(theta, X, y):
        gap = y - theta[:, :1] - theta[:, 1:] * X[:, 0]
        return -0.5 * len(y) * np.log(np.mean(gap**2, axis=1))

    found = estimator(log_likelihood, batch_size=len(y)).fit(X, y)
    assert "log_weight_error" not in found.diagnostics_


def test_an_end_that_all_rows_set_is_no_place_for_a_sample(monkeypatch):
    """Of uniform rows; a sample of them ends before the last one, where all rows have no density.

    The mean of the end is that of its density, a power, within a tenth of its sd.
    """
    monkeypatch.setattr(_fit, "_ROWS", 200)
    X = np.random.default_rng(0).uniform(0.0, 3.0, (4000, 1))

    def log_likelihood(theta, X, y):
        is_beyond = theta[:, 0] >= X.max()
        return np.where(is_beyond, -len(X) * np.log(np.abs(theta[:, 0])), -np.inf)

    found = ParticleMirrorDescent(
        log_likelihood, prior={"end": gamma(2.0, scale=2.0)}, random_state=0
    ).fit(X)
    assert "log_weight_error" not in found.diagnostics_
    sd = X.max() / 4000
    assert found.posterior_.mean()[0] == pytest.approx(X.max() + sd, abs=0.1 * sd)


@pytest.mark.slow  # half a minute
def test_a_posterior_of_two_modes_sees_all_rows(few):
    """The sign of what enters as a square is not known; a quadratic knows one sign alone."""
    X, y = few

    def log_likelihood(theta, X, y):
        return normal_rows(np.column_stack([theta[:, 0], theta[:, 1] ** 2]), X, y)

    found = estimator(log_likelihood).fit(X[:, :1], y)
    assert "log_weight_error" not in found.diagnostics_
    slopes = found.posterior_.particles[:, 1]
    assert found.posterior_.weights[slopes > 0.0].sum() == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(np.abs(slopes[found.posterior_.weights > 1e-6]), 0.7**0.5, atol=0.1)


def test_weights_are_repetitions(line):
    X, y = line

    def log_likelihood(theta, X, y, sample_weight):
        gap = y - theta[:, :1] - theta[:, 1:] * X[:, 0]
        return norm.logpdf(gap) @ sample_weight

    twice = estimator(log_likelihood).fit(X, y, sample_weight=np.full(N, 2.0))
    design = np.column_stack([np.ones(N), X])
    cov = np.linalg.inv(2.0 * design.T @ design + np.eye(2) / 9.0)
    assert twice.diagnostics_["log_weight_error"] < 0.01
    np.testing.assert_allclose(twice.posterior_.std(), np.sqrt(np.diag(cov)), rtol=0.07)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_which_of_two_modes_is_higher_all_rows_say(seed, monkeypatch):
    """Of 45,000 rows 20 more are at one of them; samples of 2,000 would often say the other."""
    monkeypatch.setattr(_fit, "_ROWS", 200)
    rng = np.random.default_rng(0)
    centre = np.where(np.arange(4500) < 2251, -5.0, 5.0)
    X = (centre + 0.5 * rng.standard_normal(4500))[:, None]

    def log_likelihood(theta, X, y):
        return -np.log1p((X[:, 0] - theta) ** 2).sum(axis=1)

    found = ParticleMirrorDescent(log_likelihood, prior={"m": norm(0, 5)}, random_state=seed)
    assert "log_weight_error" not in found.fit(X).diagnostics_
