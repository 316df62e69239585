"""Generalised linear models against exact posteriors, in any units, and of hostile rows."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_matrix
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skpmd import BayesianGLMRegressorPMD, Posterior
from skpmd.linear._families import FAMILIES
from tests.linear.test_families import log_density

RNG = np.random.default_rng(7)
N = 120
X = RNG.standard_normal((N, 2)) * [3.0, 0.5] + [10.0, -1.0]
ETA = 0.4 + (X - [10.0, -1.0]) @ [0.15, -0.8]
TARGETS = {
    "normal": ETA + RNG.standard_normal(N),
    "student_t": ETA + 0.7 * RNG.standard_t(3.0, N),
    "poisson": RNG.poisson(np.exp(ETA)).astype(float),
    "negative_binomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2.0, 0.5, N)).astype(float),
    "gamma": RNG.gamma(2.0, np.exp(ETA) / 2.0),
    "binomial": RNG.binomial(1, expit(ETA)).astype(float),
    "beta": RNG.beta(5.0 * expit(ETA), 5.0 * expit(-ETA)),
}
EACH = list(TARGETS)
FEW = pytest.mark.slow_but("normal", "negative_binomial", "gamma")


def fitted(family, X=X, y=None, sample_weight=None, **params):
    y = TARGETS[family] if y is None else y
    model = BayesianGLMRegressorPMD(family, **{"random_state": 0, **params})
    return model.fit(X, y, sample_weight=sample_weight)


def assert_moments(posterior, mean, sd, of_mean=0.05, of_sd=0.05):
    assert (np.abs(posterior.mean() - mean) < of_mean * sd).all(), (posterior.mean(), mean, sd)
    assert (np.abs(posterior.std() / sd - 1.0) < of_sd).all(), (posterior.std(), sd)


def at_means(model):
    """The posterior with the intercept where columns are at their means."""
    theta, centre = model.posterior_.particles.copy(), model._state.units.centre
    if model._state.fit_intercept:
        theta[:, len(centre)] += theta[:, : len(centre)] @ centre
    return Posterior(theta, model.posterior_.log_weights)


def assert_alike(one, other, slopes=1.0, rtol=1e-6):
    """Same particles and weights, of slopes in other units."""
    w, (one, other) = one._width - one._state.fit_intercept, (at_means(one), at_means(other))
    slopes = np.append(np.broadcast_to(slopes, w), np.ones(one.particles.shape[1] - w))
    sd, gap = one.std(), other.mean() * slopes - one.mean()
    assert (np.abs(gap) < rtol * sd).all()
    np.testing.assert_allclose(other.std() * slopes, sd, rtol=rtol)


# ------------------------------------------------------------------- exact posteriors
def test_normal_is_the_mixture_of_conjugate_posteriors():
    """Exact in coefficients given sigma, and a sum over sigma."""
    y = TARGETS["normal"][:25]
    some, s_y = X[:25], y.std()
    design = np.column_stack([(some - some.mean(axis=0)) / some.std(axis=0), np.ones(25)])
    u = np.linspace(-4.0, 4.0, 400)
    sigma = np.exp(np.log(0.4) + 0.25 * u)
    log_w = stats.t.logpdf(sigma, 3.0, scale=2.5) + np.log(sigma)
    means, covs, unit = [], [], (y - y.mean()) / s_y
    for j, one in enumerate(sigma * 2.0):
        marginal = one**2 * np.eye(25) + 2.5**2 * design @ design.T
        log_w[j] = stats.t.logpdf(one, 3.0, scale=2.5) + np.log(one)
        log_w[j] += stats.multivariate_normal.logpdf(unit, cov=marginal)
        cov = np.linalg.inv(design.T @ design / one**2 + np.eye(3) / 2.5**2)
        means.append(cov @ design.T @ unit / one**2)
        covs.append(cov)
    w = np.exp(log_w - logsumexp(log_w))
    means, units = np.array(means), np.append(s_y / some.std(axis=0), s_y)
    mean = w @ means
    variance = w @ (np.array([np.diag(cov) for cov in covs]) + (means - mean) ** 2)
    sigma = 2.0 * s_y * sigma
    of_sigma = w @ sigma, np.sqrt(w @ (sigma - w @ sigma) ** 2)
    mean = mean * units + np.array([0.0, 0.0, y.mean()])
    found = fitted("normal", some, y)
    assert_moments(
        at_means(found), np.append(mean, of_sigma[0]),
        np.append(np.sqrt(variance) * units, of_sigma[1]),
    )  # fmt: skip
    step = 0.25 * (u[1] - u[0])
    evidence = logsumexp(log_w) + np.log(2.0 * step) - 25 * np.log(s_y)
    assert abs(found.log_evidence_ - evidence) < 0.05


def test_poisson_of_a_constant_is_a_sum_over_its_intercept():
    y, exposure = np.array([3.0, 0.0, 2.0, 7.0]), np.array([1.0, 0.5, 2.0, 2.0])
    found = fitted("poisson", np.column_stack([np.full(4, 3.0), exposure]), y, exposure=1)
    at = np.log(y.sum() / exposure.sum())
    a = np.linspace(at - 2.5, at + 2.5, 2000)
    log_w = stats.poisson.logpmf(y, exposure * np.exp(a)[:, None]).sum(axis=1)
    log_w += stats.norm.logpdf(a, at, 2.5)
    w = np.exp(log_w - logsumexp(log_w))
    mean = w @ a
    sd = np.sqrt(w @ (a - mean) ** 2)
    assert_moments(at_means(found), np.array([0.0, mean]), np.array([1.0, sd]))
    evidence = logsumexp(log_w) + np.log(a[1] - a[0])
    assert abs(found.log_evidence_ - evidence) < 0.03
    np.testing.assert_allclose(found.predict([[3.0, 2.0]]), 2.0 * w @ np.exp(a), rtol=0.02)


# Of one column without an intercept: priors of dispersions by their quantile functions.
PRIORS = {
    "normal": [lambda p: 2.5 * stats.t.ppf(0.5 + 0.5 * p, 3.0)],
    "student_t": [
        lambda p: 2.5 * stats.t.ppf(0.5 + 0.5 * p, 3.0), lambda p: stats.gamma.ppf(p, 2.0, scale=10)
    ],
    "negative_binomial": [lambda p: stats.norm.isf(0.5 * p) ** -2.0],
    "gamma": [lambda p: stats.norm.isf(0.5 * p) ** -2.0],
    "beta": [lambda p: stats.norm.isf(0.5 * p) ** -2.0],
    "poisson": [],
    "binomial": [],
}  # fmt: skip
# Where posteriors of the normal coordinates of dispersions are.
RANGES = {"student_t": [(-2.0, 0.5), (-3.5, 3.5)], "normal": [(-2.0, 0.5)], "gamma": [(-1.5, 3.0)],
          "negative_binomial": [(-1.5, 4.5)], "beta": [(-1.0, 3.5)]}  # fmt: skip


LINKS = [(kind.name, link) for kind in FAMILIES.values() for link in kind.links]


@pytest.mark.parametrize("family, link", LINKS)
def test_one_coefficient_and_dispersions_are_those_of_a_sum(family, link):
    x, y = (X[:60, 0] - 10.0) / 2.0, TARGETS[family][:60]
    real = family in ("normal", "student_t")
    s_x, s_y = x.std(), np.sqrt((y**2).mean() - y.mean() ** 2) if real else 1.0
    scale = 2.5 * s_y / s_x if link == "identity" else 1.0 / s_x
    kind = FAMILIES[family](link)
    b = np.linspace(-1.5, 1.5, 101)
    axes = [np.linspace(*one, 49) for one in RANGES.get(family, [])]
    points = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    natural = [law(stats.norm.cdf(one)) for law, one in zip(PRIORS[family], points, strict=True)]
    if natural and real:
        natural[0] = natural[0] * s_y
    phi = np.array(natural).T if natural else np.zeros((1, 0))
    prior = sum(stats.norm.logpdf(one) for one in points) if points else np.zeros(1)
    if family == "binomial":
        table = np.array([[log_density(kind, y, x * c, None, 1.0).sum()] for c in b])
    else:
        columns = [one[:, None] for one in phi.T]
        table = np.array([_sums(kind, y, x * c, columns, len(prior)) for c in b])
    table = np.nan_to_num(table, nan=-np.inf, neginf=-np.inf)  # Of SciPy where a mean is 1.
    log_w = table + prior + stats.norm.logpdf(b, 0.0, scale)[:, None]
    w = np.exp(log_w - logsumexp(log_w))
    assert w[[0, -1]].sum() < 1e-4
    by_phi = w.sum(axis=0)
    mean = np.append(w.sum(axis=1) @ b, by_phi @ phi)
    square = np.append(w.sum(axis=1) @ b**2, by_phi @ phi**2)
    found = fitted(family, x[:, None], y, fit_intercept=False, link=link)
    if family == "negative_binomial":  # Its shape has no mean here: its inverse has one.
        inverse = found.posterior_.expectation(lambda theta: 1.0 / theta[:, 1])
        exact = by_phi @ (1.0 / phi[:, 0])
        spread = np.sqrt(by_phi @ (1.0 / phi[:, 0] - exact) ** 2)
        assert abs(inverse - exact) < 0.05 * spread
        place = np.searchsorted(by_phi.cumsum(), 0.5)
        assert abs(found.dispersion_["shape"] / phi[place, 0] - 1.0) < 0.2
        sd = np.sqrt(square - mean**2)[0]
        assert abs(found.coef_[0] - mean[0]) < 0.05 * sd and abs(found.coef_std_[0] / sd - 1) < 0.05
    else:
        assert_moments(found.posterior_, mean, np.sqrt(square - mean**2))


def _sums(family, y, z, columns, m):
    """Log-likelihoods of all dispersions, (m,)."""
    return np.broadcast_to(log_density(family, y, z, columns).sum(axis=-1), (m,))


# ------------------------------------------------------------------- what is the same
def test_trials_are_rows():
    rng = np.random.default_rng(3)
    trials, y = np.full(N, 3.0), rng.binomial(3, expit(ETA)).astype(float)
    one = fitted("binomial", np.column_stack([X, trials]), y, trials=2)
    rows = np.repeat(X, 3, axis=0)
    each = (np.tile(np.arange(3), N) < np.repeat(y, 3)).astype(float)
    assert_alike(one, fitted("binomial", rows, each))
    theta = one.posterior_.particles[:1]
    ways = stats.binom.logpmf(y, 3, 0.5) - 3.0 * np.log(0.5)
    found = one.pointwise_log_likelihood(np.column_stack([X, trials]), y)[0] - ways
    z = theta[0, 2] + X @ theta[0, :2]
    expected = stats.bernoulli.logpmf(each, expit(np.repeat(z, 3))).reshape(N, 3).sum(axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@FEW
@pytest.mark.parametrize("family", EACH)
def test_weights_are_repetitions_and_exposures_offsets(family):
    weight = np.arange(N) % 3
    times = np.repeat(np.arange(N), weight)
    one = fitted(family, sample_weight=weight.astype(float))
    other = fitted(family, X[times], TARGETS[family][times])
    assert_alike(one, other)
    assert abs(one.log_evidence_ - other.log_evidence_) < 1e-7
    years = np.linspace(0.3, 3.0, N)
    one = fitted(family, np.column_stack([years, X]), offset=0)
    assert one.n_features_in_ == 3 and len(one.coef_) == 2
    if FAMILIES[family].links[0] != "log":
        return
    one = fitted(family, np.column_stack([X, years]), exposure=2)
    other = fitted(family, np.column_stack([X, np.log(years)]), offset=-1)
    assert_alike(one, other, rtol=1e-8)
    assert abs(one.log_evidence_ - other.log_evidence_) < 1e-8
    found, of_one = (one.predict(np.column_stack([X, at])) for at in (years, np.ones(N)))
    np.testing.assert_allclose(found / of_one, years, rtol=1e-10)


def test_offsets_are_taken_off_y():
    """Of an identity link, where an offset moves y."""
    offset = 50.0 + 3.0 * X[:, 1] ** 2
    for family in ("normal", "student_t"):
        one = fitted(family)
        other = fitted(family, np.column_stack([X, offset]), TARGETS[family] + offset, offset=2)
        assert_alike(one, other)
        found = other.predict(np.column_stack([X, offset])) - offset
        np.testing.assert_allclose(found, one.predict(X), atol=1e-8)


# ------------------------------------------------------------------- units
@pytest.mark.slow_but(
    "years-normal", "1e-09-student_t", "1e-09-gamma", "years-poisson", "1000000000000.0-beta"
)
@pytest.mark.parametrize("family", EACH)
@pytest.mark.parametrize("unit", [1e-9, 1e12, "years"])
def test_units_of_columns_are_nothing(family, unit):
    centre, scale = (2000.0, 1.0) if unit == "years" else (0.0, unit)
    one = fitted(family)
    other = fitted(family, (X + centre) * scale)
    assert_alike(one, other, scale, rtol=1e-5)
    np.testing.assert_allclose(other.predict((X + centre) * scale), one.predict(X), rtol=1e-6)
    assert abs(one.log_evidence_ - other.log_evidence_) < 1e-5


@pytest.mark.parametrize("family", ["normal", "student_t"])
def test_units_of_y_are_nothing(family):
    one, y = fitted(family), TARGETS[family]
    for centre, unit in ((0.0, 1e-9), (1e6, 1.0), (-3.0, 1e12)):
        other = fitted(family, X, centre + unit * y)
        gap = other.coef_ / unit - one.coef_
        assert (np.abs(gap) < 1e-4 * one.coef_std_).all()
        np.testing.assert_allclose(other.coef_std_ / unit, one.coef_std_, rtol=1e-4)
        np.testing.assert_allclose(other.dispersion_["sigma"] / unit, one.dispersion_["sigma"],
                                   rtol=1e-4)  # fmt: skip
        found = (other.predict_interval(X[:5]) - centre) / unit
        np.testing.assert_allclose(found, one.predict_interval(X[:5]), atol=1e-3)
        assert abs(other.log_evidence_ + N * np.log(unit) - one.log_evidence_) < 1e-3
        assert abs(other.score(X, centre + unit * y) - one.score(X, y)) < 1e-4


@FEW
@pytest.mark.parametrize("family", EACH)
def test_sparse_columns_and_single_precision_are_the_same(family):
    some = np.where(np.random.default_rng(1).random((N, 2)) < 0.5, 0.0, X)
    one = fitted(family, some)
    assert_alike(one, fitted(family, csr_matrix(some)), rtol=1e-5)
    single = fitted(family, some.astype(np.float32))
    assert_moments(single.posterior_, one.posterior_.mean(), one.posterior_.std(), 0.02, 0.02)
    np.testing.assert_allclose(one.predict(csr_matrix(some)), one.predict(some), rtol=1e-10)


@FEW
@pytest.mark.parametrize("family", EACH)
def test_constant_and_duplicate_columns_have_their_prior(family):
    one = fitted(family)
    other = fitted(family, np.column_stack([X, np.full(N, 5.0)]))
    unit = TARGETS[family].std() if FAMILIES[family].links[0] == "identity" else 1.0
    width = 2.5 * unit if FAMILIES[family].links[0] == "identity" else 1.0
    assert abs(other.coef_[2]) < 0.05 * width and abs(other.coef_std_[2] / width - 1.0) < 0.05
    assert (np.abs(other.coef_[:2] - one.coef_) < 0.06 * one.coef_std_).all()
    twice = fitted(family, X[:, [0, 0, 1]])
    sum_of = twice.posterior_.expectation(lambda theta: theta[:, 0] + theta[:, 1])
    assert abs(sum_of - one.coef_[0]) < 0.15 * one.coef_std_[0]
    np.testing.assert_allclose(twice.coef_std_[0], width / np.sqrt(2.0) / X[:, 0].std(), rtol=0.1)


def test_units_of_amounts_move_the_intercept_alone():
    one, y = fitted("gamma"), TARGETS["gamma"]
    for unit in (1e-200, 1e-6, 1e150):
        other = fitted("gamma", y=unit * y)
        move = np.array([0.0, 0.0, np.log(unit), 0.0])
        found = other.posterior_.mean() - move - one.posterior_.mean()
        assert (np.abs(found) < 1e-4 * one.posterior_.std()).all()
        np.testing.assert_allclose(other.predict(X) / unit, one.predict(X), rtol=1e-6)
    one, y = fitted("normal", link="log", y=1.0 + TARGETS["gamma"]), 1.0 + TARGETS["gamma"]
    other = fitted("normal", link="log", y=1e-6 * y)
    assert (np.abs(other.coef_ - one.coef_) < 1e-3 * one.coef_std_).all()
    np.testing.assert_allclose(other.predict(X) * 1e6, one.predict(X), rtol=1e-5)


# ------------------------------------------------------------------- several modes
PHONES = np.array([
    0.44, 0.47, 0.47, 0.59, 0.66, 0.73, 0.81, 0.88, 1.06, 1.2, 1.35, 1.49, 1.61, 2.12, 11.9, 12.4,
    14.2, 15.9, 18.2, 21.2, 4.3, 2.4, 2.7, 2.9,
])  # fmt: skip


def test_calls_of_24_years_are_those_of_the_18_that_were_counted_alike():
    """Belgian calls (Rousseeuw and Leroy 1987): least squares is a mode of next to no mass.

    Against 25,000 effective draws of importance sampling from 30 starts.
    """
    found = fitted("student_t", np.arange(50.0, 74.0)[:, None], PHONES)
    mean, sd = np.array([0.1125, 1.513, 0.0902, 0.4465]), np.array([0.0054, 0.0335, 0.0424, 0.114])
    assert_moments(at_means(found), mean, sd, 0.1, 0.15)


@pytest.mark.slow
def test_a_third_of_outliers_is_left_out():
    """The mode of least squares has e^-65 of the mass, and agrees with itself."""
    rng = np.random.default_rng(31)
    rows = rng.standard_normal((40, 2))
    y = rows @ [1.0, 2.0] + 0.1 * rng.standard_normal(40) + 50.0 * (np.arange(40) < 12)
    found = fitted("student_t", rows, y)
    np.testing.assert_allclose(found.coef_, [1.0, 2.0], atol=0.1)
    assert found.dispersion_["sigma"] < 0.2 and (found.coef_std_ < 0.05).all()


def test_two_lines_have_their_masses():
    """The one mode of two that has less of them is no less deep: weights decide, not chains."""
    rng = np.random.default_rng(31)
    rows = rng.uniform(-1.0, 1.0, (24, 1))
    first = rng.random(24) < 0.42
    y = np.where(first, 3.0 - 2.0 * rows[:, 0], rows[:, 0]) + 0.02 * rng.standard_normal(24)
    found = fitted("student_t", rows, y)
    line = (-2.0, 3.0) if first.sum() > 12 else (1.0, 0.0)
    near = found.posterior_.expectation(
        lambda theta: (np.abs(theta[:, 0] - line[0]) < 0.2).astype(float)
    )
    assert near > 0.5


# ------------------------------------------------------------------- hostile rows
@pytest.mark.slow_but("3-poisson", "5-poisson", "5-gamma", "8-normal")
@pytest.mark.parametrize("family", EACH)
@pytest.mark.parametrize("n", [3, 5, 8])
def test_few_rows_are_finite_and_honest(family, n):
    """Of three rows and three coefficients a number's sd may be zero: chains say so."""
    if (family, n) == ("beta", 3):
        pytest.xfail("a precision of 1e30: the Newton matrix is not positive definite by rounding")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore" if n == 3 else "error", ConvergenceWarning)
        found = fitted(family, X[:n], TARGETS[family][:n])
    assert np.isfinite(found.posterior_.particles).all()
    low, high = found.predict_interval(X[:n]).T
    assert (low <= high).all() and np.isfinite(found.predict(X[:n])).all()


HOSTILE = {
    "all counts are zero": ("poisson", X, np.zeros(N)),
    "all overdispersed counts are zero": ("negative_binomial", X, np.zeros(N)),
    "all fail": ("binomial", X, np.zeros(N)),
    "separable": ("binomial", X, (X[:, 0] > 10.0).astype(float)),
    "one outlier": ("student_t", X, TARGETS["normal"] + 1e3 * (np.arange(N) == 4)),
    "one outlier of a normal": ("normal", X, TARGETS["normal"] + 1e6 * (np.arange(N) == 4)),
    "huge counts": ("poisson", X, np.round(1e6 * np.exp(ETA))),
    "huge overdispersed counts": ("negative_binomial", X, np.round(1e6 * TARGETS["gamma"])),
    "tiny amounts": ("gamma", X, 1e-200 * TARGETS["gamma"]),
    "huge amounts": ("gamma", X, 1e200 * TARGETS["gamma"]),
    "constant counts": ("poisson", X, np.full(N, 3.0)),
    "one count of many": ("poisson", X, 1e4 * (np.arange(N) == 7)),
    "more columns than rows": ("poisson", RNG.standard_normal((20, 30)), TARGETS["poisson"][:20]),
    "shares next to 0 and 1": ("beta", X, np.where(ETA > 0.4, 1.0 - 1e-12, 1e-12)),
}


@pytest.mark.slow_for("one outlier", "huge overdispersed counts", "more columns than rows")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_have_finite_answers_without_a_warning(name):
    family, rows, y = HOSTILE[name]
    said = "far from all others turn the fit" if name == "one outlier of a normal" else None
    with pytest.warns(UserWarning, match=said) if said else nullcontext():
        found = fitted(family, rows, y)
    assert np.isfinite(found.posterior_.particles).all() and (found.posterior_.std() > 0.0).all()
    assert np.isfinite(found.predict(rows)).all()
    assert np.isfinite(found.predict_interval(rows)).all()
    assert np.isfinite(found.score(rows, y))


@pytest.mark.parametrize("family", ["normal", "student_t", "gamma", "beta"])
def test_exact_functions_of_the_columns_are_named(family):
    """The posterior is improper there: the sd or the dispersion is zero."""
    y = {"gamma": np.exp(ETA), "beta": expit(ETA)}.get(family, ETA)
    for of_rows in (y, np.full(N, 0.3)):
        if family in ("gamma", "beta"):
            with pytest.raises(ValueError, match="exact function of the columns"):
                fitted(family, y=of_rows)
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(family, y=of_rows)
        assert "exact function of the columns" in str(caught[0].message)
        np.testing.assert_allclose(found.predict(X), of_rows, rtol=0.02, atol=0.02)
        assert not any("moves='auto'" in str(one.message) for one in caught)
    if family == "normal":
        rows = np.tile(X, (10, 1))  # One row is off, which the first look at some does not see.
        rare = np.where(np.arange(len(rows)) == 7, 0.6, 0.3)
        assert fitted(family, rows, rare).dispersion_["sigma"] < 0.02


# A column without an intercept, so that a posterior is a sum over two coordinates, or three.
@pytest.mark.slow_for("student_t-3", "student_t-5")
@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("family", ["student_t", "negative_binomial", "gamma", "beta"])
def test_few_rows_are_those_of_a_sum(family, n):
    """Weights alone, without moves: the proposals have to reach into the tails."""
    x, y = X[:n, :1] - 10.0, TARGETS[family][:n]
    s_y = np.sqrt((y**2).mean() - y.mean() ** 2) if family == "student_t" else 1.0
    scale = (2.5 if family == "student_t" else 1.0) * s_y / x.std()
    k = len(PRIORS[family])
    found = fitted(family, x, y, fit_intercept=False, moves="never").posterior_
    theta = found.frame.outward(found.particles) * np.append(s_y / x.std(), np.ones(k))
    middle = found.weights @ theta
    spread = np.sqrt(found.weights @ (theta - middle) ** 2)
    axes = [one + sd * np.linspace(-8.0, 8.0, 81) for one, sd in zip(middle, spread, strict=True)]
    axes[1:] = [np.clip(one, -5.0, 5.0) for one in axes[1:]]  # Ends are of next to no mass.
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, k + 1)
    phi = [law(stats.norm.cdf(u)) for law, u in zip(PRIORS[family], points.T[1:], strict=True)]
    phi[0] = phi[0] * s_y
    log_w = stats.norm.logpdf(points / np.append(scale, np.ones(k))).sum(axis=1)
    with np.errstate(all="ignore"):  # Of SciPy where a mean is 1.
        for one, to in zip(x[:, 0], y, strict=True):
            log_w += log_density(FAMILIES[family](), to, one * points[:, 0], phi)
    log_w = np.nan_to_num(log_w, nan=-np.inf, neginf=-np.inf)
    w = np.exp(log_w - logsumexp(log_w))
    mean = w @ points
    sd = np.sqrt(w @ (points - mean) ** 2)
    assert (np.abs(middle - mean) < 0.05 * sd).all()
    assert (np.abs(spread / sd - 1.0) < 0.05).all()


def test_a_shape_of_which_rows_tell_little_is_that_of_a_sum():
    """Its likelihood is flat towards Poisson counts, so that the prior is the tail.

    Gaussian proposals alone were 9 % off in its sd, at a k-hat below .7.
    """
    rng = np.random.default_rng(28_006)
    x = rng.standard_normal((28, 1))
    y = rng.poisson(np.exp(0.4 + 0.6 * x[:, 0]) * rng.gamma(2.0, 0.5, 28)).astype(float)
    found = fitted("negative_binomial", x, y, random_state=6, moves="never").posterior_
    theta = found.frame.outward(found.particles)
    middle = found.weights @ theta
    spread = np.sqrt(found.weights @ (theta - middle) ** 2)
    axes = [one + sd * np.linspace(-6.0, 6.0, 31) for one, sd in zip(middle, spread, strict=True)]
    axes[2] = np.linspace(-4.0, 5.0, 46)
    b, a, u = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    shape, mean = stats.norm.isf(0.5 * stats.norm.cdf(u)) ** -2.0, y.mean()
    scale = found.frame.columns.scale
    log_w = stats.norm.logpdf(np.stack([b, a / 2.5, u])).sum(axis=0)
    for one, to in zip((x[:, 0] - x.mean()) / scale, y, strict=True):
        mu = mean * np.exp(a + b * one)
        log_w += stats.nbinom.logpmf(to, shape, shape / (shape + mu))
    w = np.exp(log_w - logsumexp(log_w))
    points = np.stack([b, a, u], axis=1)
    sd = np.sqrt(w @ (points - w @ points) ** 2)
    assert (np.abs(middle - w @ points) < 0.05 * sd).all()
    assert (np.abs(spread / sd - 1.0) < 0.03).all()


@pytest.mark.slow  # Chains follow.
@pytest.mark.parametrize("family", ["gamma", "beta"])
def test_as_few_rows_as_coefficients_have_a_posterior(family):
    """The joint density has a pole where the rows are met; its mass is finite, and small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # It may be said to be hard.
        found = fitted(family, X[:3], TARGETS[family][:3])
    assert (found.coef_std_ * X[:3].std(axis=0) > 0.5).all()  # Under prior sds of 1.


def test_scale_none_is_the_literal_prior():
    """Per unit of columns as given, and an intercept about zero where they are zero."""
    y = TARGETS["poisson"]
    found = fitted("poisson", 1e6 * np.eye(N)[:, :2], y, scale=None, prior_scale=1e-9)
    np.testing.assert_allclose(found.coef_std_, 1e-9, rtol=0.05)
    found = fitted(
        "normal", np.zeros((3, 1)), 1e3 + np.arange(3.0), scale=None, intercept_prior_scale=1.0,
        dispersion_prior_scale=1.0,
    )  # fmt: skip
    assert found.intercept_ < 200.0  # A prior 1,000 sds away, and a sigma that may be large.
