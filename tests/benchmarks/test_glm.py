"""What the study ``linear`` compares with: densities for NUTS, and the coverage of counts."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

pytest.importorskip("examples.benchmarks", reason="the examples are not part of the package")

from examples.benchmarks.harness import glm_sets
from examples.benchmarks.linear import held_out


def log_likelihood(data, eta, extra):
    """Sum of log densities by SciPy, of the quantities that are reported."""
    y = data.y
    if data.family == "ordinal":
        ends = np.array([-np.inf, *extra, np.inf])
        code = y.astype(int)
        one = np.log(expit(ends[code + 1] - eta) - expit(ends[code] - eta))
        return one @ (np.ones(len(y)) if data.weight is None else data.weight)
    rate = np.exp(eta) * (data.size if data.role == "exposure" else 1.0)
    return {
        "normal": lambda: stats.norm.logpdf(y, eta, *extra),
        "student_t": lambda: stats.t.logpdf(y, extra[1], eta, extra[0]),
        "poisson": lambda: stats.poisson.logpmf(y, rate),
        "negative_binomial": lambda: stats.nbinom.logpmf(y, extra[0], extra[0] / (extra[0] + rate)),
        "gamma": lambda: stats.gamma.logpdf(y, extra[0], scale=rate / extra[0]),
        "binomial": lambda: stats.binom.logpmf(y, data.size.astype(int), expit(eta)),
        "beta": lambda: stats.beta.logpdf(y, extra[0] * expit(eta), extra[0] * expit(-eta)),
    }[data.family]().sum()


def log_prior(data, slopes, intercept, extra):
    """Log prior of what is reported, without constants; the intercept is from its centre."""
    sd = data.columns.std(axis=0)
    unit = data.y.std() if data.family in glm_sets.REAL else 1.0
    total = stats.norm.logpdf(slopes * sd / unit, scale=2.5).sum()
    if data.family == "ordinal":  # uniform in the classes' probabilities
        return total + np.log(expit(extra) * expit(-extra)).sum()
    total += stats.norm.logpdf(intercept / unit, scale=2.5)
    if data.family in glm_sets.REAL:
        total += stats.t.logpdf(extra[0] / unit, 3, scale=2.5)
    if data.family == "student_t":
        total += stats.gamma.logpdf(extra[1], 2, scale=10.0)
    if data.family in ("negative_binomial", "gamma", "beta"):
        total += stats.norm.logpdf(extra[0] ** -0.5) - 1.5 * np.log(extra[0])
    return total


def centre_of(data):
    """What the intercept's prior is about: the link of the mean, or of a rate."""
    rate = data.y.sum() / (len(data.y) if data.size is None else data.size.sum())
    if data.family in glm_sets.REAL:
        return rate
    if data.family == "ordinal":
        return 0.0
    return logit(rate) if data.family in ("binomial", "beta") else np.log(rate)


def log_jacobian(data, t, extra):
    """Log derivative of dispersions or cutpoints by the coordinates of chains."""
    return t[1:].sum() if data.family == "ordinal" else np.log(extra).sum()


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("family", [*glm_sets.FAMILIES, "exposure", "weight"])
def test_potentials_are_those_of_scipy(family):
    glm_targets = pytest.importorskip("examples.benchmarks.peers.glm_targets", exc_type=ImportError)
    rng = np.random.default_rng(0)
    name = {"exposure": "poisson", "weight": "ordinal"}.get(family, family)
    data = glm_sets.drawn(name, 40, 2, seed=1)
    if family == "exposure":
        X = np.column_stack([data.X, rng.uniform(0.5, 3.0, 40)])
        data = data._replace(X=X, role="exposure")
    if family == "weight":
        data = data._replace(weight=rng.integers(1, 5, 40).astype(float))
    target = glm_targets.target(data, is_whitened=False)
    n_first = 2 if name == "ordinal" else 3
    centre = centre_of(data)
    found = []
    for theta in 0.4 * rng.standard_normal((3, len(target.centre))):
        reported = target.reported(theta)
        slopes, extra = reported[:2], reported[n_first:]
        intercept = reported[2] if n_first == 3 else 0.0
        eta = intercept + (data.columns - data.columns.mean(axis=0)) @ slopes
        joint = log_likelihood(data, eta, extra)
        joint += log_prior(data, slopes, intercept - centre, extra)
        joint += log_jacobian(data, theta[n_first:], extra)
        found.append(joint + float(target.potential(theta)))
    assert found == pytest.approx([found[0]] * 3, abs=1e-8)


def test_the_coverage_of_counts_is_exact_on_average():
    """Over y from the predictive distribution itself it is nine tenths, however coarse y is."""
    for mean in (0.1, 1.0, 7.3):
        y = np.arange(80.0)
        share = held_out.in_interval("negative_binomial", y, stats.poisson(mean).cdf)
        assert stats.poisson(mean).pmf(y) @ share == pytest.approx(0.9)


@pytest.mark.parametrize(("family", "power"), [("negative_binomial", 1), ("gamma", 2)])
def test_deviances_are_those_of_scikit_learn(family, power):
    from sklearn.metrics import mean_tweedie_deviance

    y, mean = np.array([1.0, 2.0, 5.0]), np.array([1.5, 2.5, 3.0])
    expected = mean_tweedie_deviance(y, mean, power=power)
    assert held_out.deviance(family, y, mean).mean() == pytest.approx(expected)
