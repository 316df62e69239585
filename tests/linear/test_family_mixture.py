"""Predictive distributions of linear models, against SciPy's families averaged over particles.

Densities and probabilities have to be right to 1e-11, and quantiles of continuous families to 1e-8
in probability where all particles are used, 0.0005 where some stand for all. Quantiles of counts
are exact.
"""

import copy
import pickle
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.sparse import csr_matrix
from scipy.special import expit

from skpmd.linear import _families, _quantiles
from skpmd.linear._family import LINKS
from skpmd.linear._family_mixture import FamilyMixture
from skpmd.predictive import NormalMixture

CONTINUOUS = ["normal", "student_t", "gamma", "beta"]
COUNTS = ["poisson", "negative_binomial", "binomial"]
FAMILIES = CONTINUOUS + COUNTS
OF_Y = ["log_density", "density", "cdf", "sf", "crps", "energy"]
QUANTILES = [1e-6, 0.01, 0.05, 0.3, 0.5, 0.9, 0.975, 1.0 - 1e-9]


class Exact:
    """A few particles, and SciPy's distribution of each and of each row."""

    def __init__(self, family, n=6, level=1.0, shift=0.0):
        rng, m = np.random.default_rng(0), 5
        eta = shift + level * rng.normal(0.5, 0.5, (m, n))
        first, second = np.exp(rng.normal(1.0, 0.3, (2, m, 1)))
        mu = expit(eta) if family in ("binomial", "beta") else np.exp(eta)
        trials = np.arange(n) * 7.0 + 1.0
        self.family, self.mu, self.weights = family, mu, rng.dirichlet(np.ones(m))
        self.scipy, dispersion = {
            "normal": (lambda: (stats.norm(mu, first), [first])),
            "student_t": (lambda: (stats.t(second, mu, first), [first, second])),
            "poisson": (lambda: (stats.poisson(mu), None)),
            "negative_binomial": (lambda: (stats.nbinom(first, first / (first + mu)), [first])),
            "gamma": (lambda: (stats.gamma(first, scale=mu / first), [first])),
            "binomial": (lambda: (stats.binom(trials.astype(int), mu), None)),
            "beta": (lambda: (stats.beta(mu * first, (1.0 - mu) * first), [first])),
        }[family]()
        self.options = {
            "dispersion": None if dispersion is None else np.hstack(dispersion),
            "trials": trials if family == "binomial" else None,
        }
        self.mixture = FamilyMixture.from_means(family, mu, weights=self.weights, **self.options)

    def average(self, name, *given):
        return self.weights @ getattr(self.scipy, name)(*given)


def test_every_family_is_among_these():
    assert set(FAMILIES) == set(_families.FAMILIES)


@pytest.fixture
def few_stand_ins(monkeypatch):
    """Searches with fewer particles than `make_linear` has, which are soon done."""
    monkeypatch.setattr(_quantiles, "N_FIRST", 8)
    monkeypatch.setattr(_quantiles, "N_CHOSEN", 20)


def make_linear(family, n=70, m=50, seed=0, spread=0.1):
    """Particles of a linear model."""
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    dispersion = np.exp(rng.normal(1.0, 0.2, (m, {"normal": 1, "student_t": 2}.get(family, 1))))
    link = {"normal": "identity", "student_t": "identity", "binomial": "logit", "beta": "probit"}
    return FamilyMixture(
        family,
        [0.5, 0.3, -0.4] + spread * rng.normal(size=(m, 3)),
        design,
        dispersion=None if family in ("poisson", "binomial") else dispersion,
        weights=rng.dirichlet(np.ones(m)),
        link=link.get(family, "log"),
        trials=rng.integers(0, 30, n) if family == "binomial" else None,
    )


def of_y(dist, name, y):
    name = name.replace("density", "pmf" if dist.is_count else "pdf")
    return getattr(dist, name)(y)


def everything(dist, y):
    """All that a distribution says, as one table."""
    own = [dist.mean(), dist.std(), dist.energy(), *dist.interval(0.8).T, *dist.ppf([0.0, 0.6]).T]
    return np.stack([of_y(dist, name, y) for name in OF_Y] + own)


# ----------------------------------------------------------------------------- averages
@pytest.mark.parametrize("family", FAMILIES)
def test_moments_and_probabilities_are_averages_over_particles(family):
    exact = Exact(family)
    dist = exact.mixture
    mean = exact.average("mean")
    np.testing.assert_allclose(dist.mean(), mean, rtol=1e-13)
    if family != "student_t" or (exact.options["dispersion"][:, 1] > 2.0).all():
        second = exact.weights @ (exact.scipy.mean() - mean) ** 2
        np.testing.assert_allclose(dist.var(), exact.average("var") + second, rtol=1e-12)
    for y in exact.scipy.rvs(random_state=0).astype(float):
        name = "pmf" if dist.is_count else "pdf"
        np.testing.assert_allclose(of_y(dist, "density", y), exact.average(name, y), rtol=1e-11)
        for side in ("cdf", "sf"):
            expected = exact.average(side, y)
            np.testing.assert_allclose(getattr(dist, side)(y), expected, rtol=1e-11, atol=1e-15)
    np.testing.assert_array_equal(dist.surv(y), dist.sf(y))


@pytest.mark.parametrize("link", LINKS)
def test_means_are_those_of_the_linear_predictor(link):
    coefficients, design, offset = [[-0.5, 0.1], [-0.4, 0.2]], [[1.0, 2.0], [1.0, 0.5]], [0.1, -0.2]
    means = {"identity": lambda z: z, "log": np.exp, "logit": expit, "probit": stats.norm.cdf,
             "cloglog": lambda z: 1.0 - np.exp(-np.exp(z))}[link]  # fmt: skip
    eta = np.array(offset) + np.array(coefficients) @ np.array(design).T
    for rows in (design, csr_matrix(design)):
        dist = FamilyMixture("poisson", coefficients, rows, link=link, offset=offset)
        np.testing.assert_allclose(dist.mean(), means(eta).mean(axis=0), rtol=1e-14)
    rest = LINKS[link].rest(np.array([-1.0, 0.3]))
    np.testing.assert_allclose(rest, 1.0 - means(np.array([-1.0, 0.3])), rtol=1e-13)


def test_probabilities_near_one_keep_their_digits():
    dist = FamilyMixture("binomial", [[40.0]], [[1.0]], link="logit", trials=[10])
    assert dist.log_pmf(9)[0] == pytest.approx(np.log(10.0) - 40.0, rel=1e-14)
    assert dist.var()[0] == pytest.approx(10.0 * np.exp(-40.0), rel=1e-14)


def test_counts_of_a_large_shape_are_poisson():
    mu = [[3.0], [5.0]]
    poisson = FamilyMixture.from_means("poisson", mu)
    dist = FamilyMixture.from_means("negative_binomial", mu, dispersion=[[1e10], [1e10]])
    y = np.arange(20.0)[:, None]
    np.testing.assert_allclose(dist.log_pmf(y), poisson.log_pmf(y), rtol=1e-7)
    np.testing.assert_allclose(dist.cdf(y), poisson.cdf(y), rtol=1e-6)


def test_moments_that_do_not_exist():
    options = {"dispersion": [[1.0, 0.7], [1.0, 5.0]]}
    dist = FamilyMixture.from_means("student_t", [[0.0], [2.0]], **options)
    assert dist.mean()[0] == 1.0 and dist.std()[0] == np.inf
    lighter = FamilyMixture.from_means("student_t", [[0.0], [2.0]], weights=[0, 1], **options)
    assert lighter.mean()[0] == 2.0 and lighter.var()[0] == pytest.approx(5.0 / 3.0)
    assert np.isfinite(dist.interval()).all() and np.isfinite(dist.crps(0.0)).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_order_particles_as_the_distribution_function_does(family):
    """Rank correlations of five particles: one may be exchanged with its neighbour."""
    dist = Exact(family).mixture
    own, (p, _) = dist._family, dist._tile(0)
    y = dist.ppf(0.6)[:, None] - 0.3 * dist.is_count  # At the end of trials all would be 1.
    below, score = own.below(y, p), own.score(y, p)
    for one in zip(below, score, strict=True):
        assert stats.spearmanr(*one).statistic > 0.8


@pytest.mark.parametrize("family", FAMILIES)
def test_values_outside_the_support(family):
    dist = Exact(family).mixture
    for y, below in ((-np.inf, 0.0), (np.inf, 1.0)):
        np.testing.assert_array_equal(dist.cdf(y), below)
        np.testing.assert_array_equal(dist.sf(y), 1.0 - below)
        assert (of_y(dist, "log_density", y) == -np.inf).all()
        assert (dist.crps(y) == np.inf).all()
    if family not in ("normal", "student_t"):
        assert (dist.cdf(-0.5) == 0.0).all() and (dist.sf(-0.5) == 1.0).all()
        assert (of_y(dist, "density", -0.5) == 0.0).all()
        assert (dist.ppf(0.0) == _families.FAMILIES[family]().least).all()
        closer = dist.crps(0.0) - dist.crps(-3.0)
        np.testing.assert_allclose(closer, -3.0, rtol=1e-3)
    if dist.is_count:
        assert (dist.pmf(1.5) == 0.0).all()
        np.testing.assert_array_equal(dist.cdf(1.5), dist.cdf(1.0))


# ----------------------------------------------------------------------------- quantiles
@pytest.mark.parametrize("level", [0.3, 3.0])
@pytest.mark.parametrize("family", CONTINUOUS)
def test_quantiles_are_the_inverse_of_the_cdf(family, level):
    dist = Exact(family, level=level if family != "beta" else 1.0).mixture
    for q, x in zip(QUANTILES, dist.ppf(QUANTILES).T, strict=True):
        np.testing.assert_allclose(dist.cdf(x) if q < 0.5 else 1.0 - dist.sf(x), q, atol=1e-8)
    np.testing.assert_allclose(np.log(dist.cdf(dist.ppf(1e-6))), np.log(1e-6), atol=1e-6)
    np.testing.assert_array_equal(dist.ppf(0.3), dist.quantile([0.3])[:, 0])
    np.testing.assert_array_equal(dist.ppf(1.0), 1.0 if family == "beta" else np.inf)


@pytest.mark.parametrize("level", [0.3, 3.0, 12.0])
@pytest.mark.parametrize("family", COUNTS)
def test_quantiles_of_counts_are_the_least_that_reach(family, level):
    exact = Exact(family, level=level)
    for q in QUANTILES:
        k = exact.mixture.ppf(q)
        assert (k % 1 == 0).all() and (k >= 0).all()
        if q <= 0.5:
            assert (exact.average("cdf", k) >= q - 1e-14).all()
            assert (exact.average("cdf", k - 1) < q + 1e-14).all()
        else:
            assert (exact.average("sf", k) <= (1.0 - q) * (1.0 + 1e-12)).all()
            assert ((exact.average("sf", k - 1) > (1.0 - q) * (1.0 - 1e-12)) | (k == 0)).all()
    ends = exact.options["trials"] if family == "binomial" else np.inf
    np.testing.assert_array_equal(exact.mixture.ppf(1.0), ends)


@pytest.mark.parametrize("spread", [0.05, 0.8])
@pytest.mark.parametrize("family", FAMILIES)
def test_quantiles_where_some_particles_stand_for_all(family, spread):
    # Where beta has 0.05 of its mass within rounding of 1, no number is the quantile.
    spread = min(spread, 0.3 if family == "beta" else 1.0)
    dist = make_linear(family, n=20, m=1000, spread=spread)
    low, high = dist.interval(0.9).T
    if dist.is_count:
        assert (dist.cdf(low) >= 0.05).all() and ((dist.cdf(low - 1) < 0.05) | (low == 0)).all()
        assert (dist.sf(high) <= 0.05).all() and ((dist.sf(high - 1) > 0.05) | (high == 0)).all()
    else:
        np.testing.assert_allclose(dist.cdf(low), 0.05, atol=5e-4)
        np.testing.assert_allclose(dist.sf(high), 0.05, atol=5e-4)
        np.testing.assert_allclose(dist.cdf(dist.ppf(0.5)), 0.5, atol=5e-4)


def test_quantiles_of_no_more_particles_than_searches_use_are_exact():
    for m in (63, 64, 65, 256):
        dist = make_linear("gamma", n=5, m=m)
        np.testing.assert_allclose(dist.cdf(dist.ppf(0.3)), 0.3, atol=1e-8)


# ----------------------------------------------------------------------------- scores
def test_the_score_of_normals_is_the_closed_form():
    exact = Exact("normal")
    stds = np.broadcast_to(exact.options["dispersion"], exact.mu.shape)
    closed = NormalMixture(exact.mu, stds, exact.weights)
    for y in (-4.0, 1.0, 2.5, 30.0):
        np.testing.assert_allclose(exact.mixture.crps(y), closed.crps(y), rtol=1e-4)
        np.testing.assert_allclose(exact.mixture.energy(y), closed.energy(y), rtol=1e-4)
    np.testing.assert_allclose(exact.mixture.energy(), closed.energy(), rtol=1e-4)


@pytest.mark.parametrize("family", ["student_t", "gamma", "beta"])
def test_scores_are_integrals_of_the_cdf(family):
    dist, y = Exact(family).mixture[2], Exact(family).mixture.ppf(0.7)[2]
    low, high = dist.ppf([1e-7, 1.0 - 1e-7])[0]

    def square(x):
        return (dist.cdf(x)[0] if x < y else dist.sf(x)[0]) ** 2

    ends = [low, dist.ppf(0.01)[0], y, dist.ppf(0.99)[0], high]
    pairs = zip(ends[:-1], ends[1:], strict=True)
    expected = sum(quad(square, a, b, epsrel=1e-5, limit=50)[0] for a, b in pairs)
    assert dist.crps(y)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("family", COUNTS)
def test_scores_of_counts_are_sums(family):
    check_sums(Exact(family, n=3))


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_scores_of_counts_that_spread_over_hundreds(family):
    check_sums(Exact(family, n=3, level=0.05, shift=8.0))


def check_sums(exact):
    k = np.arange(exact.mixture.ppf(1.0 - 1e-9).max() + 1.0)[:, None, None]
    cdf = np.einsum("m,kmn->kn", exact.weights, exact.scipy.cdf(k))
    for y in (0.0, 1.0, 3.5, 40.0, 3000.0):
        share = np.clip(y - k[:, 0], 0.0, 1.0)
        expected = (share * cdf**2 + (1.0 - share) * (1.0 - cdf) ** 2).sum(axis=0)
        expected += max(y - len(k), 0.0)
        np.testing.assert_allclose(exact.mixture.crps(y), expected, rtol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_where_some_particles_stand_for_all(family, monkeypatch):
    dist = make_linear(family, n=5, m=1000)
    y = dist.sample(random_state=0)[0]
    found = dist.crps(y)
    monkeypatch.setattr(_quantiles, "N_CHOSEN", 1000)
    np.testing.assert_allclose(found, dist.crps(y), rtol=2e-3)


# ----------------------------------------------------------------------------- rows
@pytest.mark.slow_for("beta", "student_t", "gamma")
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_do_not_depend_on_each_other(family, few_stand_ins):
    dist = make_linear(family)  # Of more rows than a tile has.
    y = dist.sample(random_state=1)[0]
    together = everything(dist, y)
    for row in (0, 5, 63, 64, 69):
        np.testing.assert_array_equal(everything(dist[row], y[row])[:, 0], together[:, row])
    some = [68, 3, 3, 40]
    np.testing.assert_array_equal(everything(dist[some], y[some]), together[:, some])
    joined = FamilyMixture.joined([dist[:10], dist[10:11], dist[11:]])
    np.testing.assert_array_equal(everything(joined, y), together)


def test_parts_of_other_particles_are_not_joined():
    with pytest.raises(ValueError, match="the same particles"):
        FamilyMixture.joined([make_linear("poisson"), make_linear("poisson", seed=1)])


def test_rows_of_sparse_designs(few_stand_ins):
    dense = make_linear("gamma")
    sparse = copy.copy(dense)
    sparse.design = csr_matrix(dense.design)
    y = np.full(70, 2.0)
    np.testing.assert_array_equal(everything(sparse, y), everything(dense, y))
    joined = FamilyMixture.joined([sparse[:3], sparse[[3, 4]]])
    np.testing.assert_array_equal(joined.mean(), dense[:5].mean())


def test_rows_are_picked_like_those_of_an_array():
    dist = make_linear("binomial")[:6]
    mask = np.array([True, False, False, True, True, False])
    table = np.asarray(dist)
    assert table.shape == dist.shape == (6, 2)
    for rows in (slice(1, 4), slice(None, None, -2), mask, [4, 0, 0], np.array([-1])):
        np.testing.assert_array_equal(np.asarray(dist[rows]), table[rows])
    assert len(dist[2]) == 1 and [len(one) for one in dist] == [1] * 6
    assert np.asarray(dist, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        dist.__array__(copy=False)


@pytest.mark.parametrize("rows", [6, -7, [True, False], (0, 1), None, "a", 1.5])
def test_rows_that_are_not_there_are_an_error(rows):
    with pytest.raises(IndexError):
        Exact("normal").mixture[rows]


@pytest.mark.parametrize("family", ["normal", "poisson"])
@pytest.mark.parametrize("name", OF_Y)
def test_a_number_an_array_and_a_table_of_values(name, family):
    dist = Exact(family).mixture
    table = np.random.default_rng(0).integers(0, 5, (4, 6)).astype(float)
    found = of_y(dist, name, table)
    for row, values in zip(found, table, strict=True):
        np.testing.assert_array_equal(row, of_y(dist, name, values))
    np.testing.assert_array_equal(of_y(dist, name, 2), of_y(dist, name, np.full(6, 2.0)))
    assert of_y(dist, name, table.reshape(2, 2, 6)).shape == (2, 2, 6)
    assert of_y(dist, name, np.empty((0, 6))).shape == (0, 6)
    assert of_y(dist[:0], name, np.empty((3, 0))).shape == (3, 0)
    with pytest.raises(ValueError, match=r"y must be a number .* shape \(6,\) .* got \(6, 1\)"):
        of_y(dist, name, np.zeros((6, 1)))
    with pytest.raises(ValueError, match="y must not hold nan"):
        of_y(dist, name, [0.0, 1.0, np.nan, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_rows_are_no_values(family):
    none = Exact(family).mixture[:0]
    assert none.mean().shape == none.std().shape == none.energy().shape == (0,)
    assert none.interval().shape == (0, 2) and none.ppf([0.1, 0.2, 0.6]).shape == (0, 3)
    assert none.sample(4).shape == (4, 0)


def test_round_trips_give_an_equal_distribution():
    dist = make_linear("beta")
    for other in (pickle.loads(pickle.dumps(dist)), copy.copy(dist), copy.deepcopy(dist)):
        np.testing.assert_array_equal(np.asarray(other), np.asarray(dist))
        assert repr(other) == "FamilyMixture('beta', 70 rows, 50 particles)"


# ----------------------------------------------------------------------------- draws
@pytest.mark.parametrize("family", FAMILIES)
def test_draws_follow_the_cdf(family):
    # P(sup |F_n - F| > e) <= 2 exp(-2 n e^2) (Massart 1990): 1e-6 for the six rows together.
    dist, n = Exact(family).mixture, 20_000
    draws = np.sort(dist.sample(n, random_state=0), axis=0)
    np.testing.assert_array_equal(np.sort(dist.sample(n, random_state=0), axis=0), draws)
    at = draws[:: n // 50]
    below = np.array([(draws <= one).mean(axis=0) for one in at])
    assert np.abs(below - dist.cdf(at)).max() < np.sqrt(np.log(12e6) / (2.0 * n))


# ----------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    "options, message",
    [
        ({"family": "cauchy"}, "family must be one of normal, .* got 'cauchy'"),
        ({"link": "power"}, "link must be one of identity, .* got 'power'"),
        ({"design": np.ones((4, 3))}, r"shapes \(m, w\) and \(n, w\), got \(3, 2\) and \(4, 3\)"),
        ({"design": np.full((4, 2), np.nan)}, "design must be finite"),
        ({"dispersion": None}, r"dispersion must have shape \(3, 1\), got \(3, 0\)"),
        ({"dispersion": [[1.0], [0.0], [1.0]]}, "dispersion must be above 0, got 0.0"),
        ({"weights": [0.5, 0.5, 0.5]}, "weights must be probabilities .* their sum, 1.5"),
        ({"weights": [1.5, -0.5, 0.0]}, "weights must be probabilities"),
        ({"offset": [1.0]}, r"offset must have shape \(4,\), got \(1,\)"),
        ({"trials": np.ones(4)}, "trials are for binomial, and needed there, got family='gamma'"),
        ({"family": "binomial", "dispersion": None}, "got family='binomial'"),
        (
            {"family": "binomial", "dispersion": None, "trials": [1, 2, 3, 0.5]},
            "trials must be int",
        ),
    ],
)
def test_bad_parameters_are_an_error(options, message):
    given = {"family": "gamma", "coefficients": np.zeros((3, 2)), "design": np.ones((4, 2))}
    given |= {"dispersion": np.ones((3, 1)), "link": "log"} | options
    with pytest.raises(ValueError, match=message):
        FamilyMixture(**given)


@pytest.mark.parametrize("q", [-0.01, 1.01, np.nan, [0.5, 2.0], [[0.5]]])
def test_a_quantile_outside_the_unit_interval_is_an_error(q):
    with pytest.raises(ValueError, match="q must"):
        Exact("normal").mixture.ppf(q)


def test_other_errors_name_what_to_do():
    with pytest.raises(ValueError, match="poisson has probabilities: ask for log_pmf or pmf"):
        Exact("poisson").mixture.pdf(1.0)
    with pytest.raises(ValueError, match="beta has a density: ask for log_pdf or pdf"):
        Exact("beta").mixture.log_pmf(1.0)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        Exact("beta").mixture.interval(90)
    with pytest.raises(ValueError, match="n_samples"):
        Exact("beta").mixture.sample(-1)


# ----------------------------------------------------------------------------- skpro
def test_without_skpro_the_error_names_the_extra(monkeypatch):
    from skpmd.linear import _skpro_mixture

    _skpro_mixture._skpro_class.cache_clear()
    monkeypatch.setitem(sys.modules, "skpro", None)
    monkeypatch.setitem(sys.modules, "skpro.distributions.base", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[skpro\]"):
        Exact("normal").mixture.to_skpro()


@pytest.mark.filterwarnings("default")  # of skpro and its dependencies
@pytest.mark.parametrize("family", ["gamma", "poisson", "binomial"])
def test_the_skpro_distribution_says_the_same(family):
    pytest.importorskip("skpro")
    import pandas as pd

    dist = Exact(family).mixture
    index, columns = pd.Index(list("abcdef")), pd.Index(["y"])
    theirs, y = dist.to_skpro(index, columns), dist.ppf(0.4)
    frame = pd.DataFrame(y[:, None], index=index, columns=columns)
    density = "pmf" if dist.is_count else "pdf"
    for name in (density, f"log_{density}", "cdf"):
        np.testing.assert_allclose(getattr(theirs, name)(frame)["y"], getattr(dist, name)(y))
    np.testing.assert_allclose(theirs.mean()["y"], dist.mean())
    np.testing.assert_allclose(theirs.var()["y"], dist.var())
    np.testing.assert_allclose(theirs.energy(frame).to_numpy().ravel(), dist.energy(y))
    np.testing.assert_allclose(theirs.energy().to_numpy().ravel(), dist.energy())
    quantiles = theirs.quantile([0.1, 0.9]).to_numpy()
    np.testing.assert_array_equal(quantiles, dist.ppf([0.1, 0.9]))
    assert theirs.sample(3).shape == (18, 1) and theirs.shape == (6, 1)
    np.testing.assert_allclose(theirs.iloc[[3, 1]].mean()["y"], dist[[3, 1]].mean())
    np.testing.assert_allclose(theirs.loc[["b"]].mean()["y"], dist[1].mean())
    np.testing.assert_allclose(theirs.iat[2, 0].mean(), dist[2].mean()[0])
    again = pickle.loads(pickle.dumps(theirs)).clone()
    np.testing.assert_allclose(again.mean()["y"], dist.mean())
