"""Predictive distributions: against SciPy's normal, numerical integrals, and their own symmetries.

Integrals are over pieces between the components, where the integrand is smooth, so that `quad`
reaches its tolerance of about 1e-10.
"""

import copy
import pickle
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm

from skpmd import predictive
from skpmd._base import normal_mixtures
from skpmd.predictive import NormalMixture

TAILS = [1e-300, 1e-30, 1e-12, 1e-3, 0.1, 0.37, 0.5]  # probabilities at most 0.5
METHODS = ["log_pdf", "pdf", "cdf", "sf", "log_cdf", "log_sf", "energy", "crps"]  # of y


def make_mixture(k=3, n=6, seed=0, **options):
    """Rows with weights of their own, some with components far apart."""
    rng = np.random.default_rng(seed)
    means = np.linspace(0.5, 8.0, n) * rng.normal(size=(k, n))
    stds = np.exp(rng.normal(size=(k, n)))
    return NormalMixture(means, stds, rng.dirichlet(np.ones(k), n).T, **options)


def make_targets(dist, seed=1):
    return dist.mean() + 2.0 * dist.std() * np.random.default_rng(seed).normal(size=len(dist))


def integral(f, dist, row, *breaks):
    """Integral of f over the line, in pieces that end at the components and at the breaks."""
    means, stds = dist.means[:, row], dist.stds[:, row]
    ends = np.concatenate([means + z * stds for z in (-40.0, -8.0, -2.0, 0.0, 2.0, 8.0, 40.0)])
    ends = np.unique(np.concatenate([ends, breaks]))
    pairs = zip(ends[:-1], ends[1:], strict=True)
    return sum(quad(f, a, b, epsabs=1e-12, epsrel=1e-11, limit=200)[0] for a, b in pairs)


# ----------------------------------------------------------------------------- one component
@pytest.mark.parametrize("name", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"])
def test_one_component_is_scipys_normal(name):
    z = np.array([-45.0, -37.0, -20.0, -5.0, -1.0, 0.0, 1e-9, 0.3, 2.0, 9.0, 30.0, 45.0])
    mean, std = np.linspace(-3.0, 4.0, len(z)), np.geomspace(1e-3, 1e3, len(z))
    found = getattr(NormalMixture(mean, std), name.replace("log", "log_"))(mean + z * std)
    np.testing.assert_allclose(found, getattr(norm(mean, std), name)(mean + z * std), rtol=1e-11)


@pytest.mark.parametrize("q", [0.0, *TAILS, 0.6, 1.0 - 1e-12, 1.0])
def test_quantiles_of_one_component_are_scipys(q):
    mean, std = np.array([0.0, -2.0, 5.0]), np.array([1.0, 0.1, 30.0])
    found = NormalMixture(mean, std).ppf(q)
    np.testing.assert_allclose(found, norm(mean, std).ppf(q), rtol=1e-13, atol=1e-15)


def test_crps_of_one_component_is_that_of_the_books():
    # Gneiting and Raftery 2007, section 4.2, in another form than the code's.
    z, std = np.array([-30.0, -2.0, 0.0, 0.4, 5.0]), np.array([1.0, 2.0, 0.1, 3.0, 7.0])
    expected = std * (z * erf(z / np.sqrt(2)) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    dist = NormalMixture(np.full(5, 4.0), std)
    np.testing.assert_allclose(dist.crps(4.0 + z * std), expected, rtol=1e-13)
    np.testing.assert_allclose(dist.energy(), 2.0 * std / np.sqrt(np.pi), rtol=1e-14)


# ----------------------------------------------------------------------------- integrals
@pytest.mark.parametrize("row", [1, 5])
def test_moments_are_those_of_the_density(row):
    dist = make_mixture()
    one = dist[row]
    assert integral(lambda x: one.pdf(x)[0], dist, row) == pytest.approx(1.0, abs=1e-9)
    mean = integral(lambda x: x * one.pdf(x)[0], dist, row)
    assert dist.mean()[row] == pytest.approx(mean, abs=1e-8)
    var = integral(lambda x: (x - mean) ** 2 * one.pdf(x)[0], dist, row)
    assert dist.var()[row] == pytest.approx(var, rel=1e-8)
    assert dist.std()[row] == pytest.approx(np.sqrt(var), rel=1e-8)


def test_density_and_probabilities_are_averages_of_the_components():
    dist = make_mixture()
    y = make_targets(dist)
    for name in ("pdf", "cdf", "sf"):
        parts = getattr(norm(dist.means, dist.stds), name)(y)
        expected = (dist.weights * parts).sum(axis=0)
        np.testing.assert_allclose(getattr(dist, name)(y), expected, rtol=1e-13)
    np.testing.assert_array_equal(dist.surv(y), dist.sf(y))


@pytest.mark.parametrize("row", [1, 5])
def test_energy_and_crps_are_integrals_of_the_cdf(row):
    dist = make_mixture()
    one, y = dist[row], make_targets(dist)[row]
    self_energy = integral(lambda x: 2.0 * one.cdf(x)[0] * one.sf(x)[0], dist, row)
    assert dist.energy()[row] == pytest.approx(self_energy, rel=1e-9)
    energy = integral(lambda x: abs(x - y) * one.pdf(x)[0], dist, row, y)
    assert one.energy(y)[0] == pytest.approx(energy, rel=1e-9)
    squares = integral(lambda x: (one.cdf(x)[0] if x < y else one.sf(x)[0]) ** 2, dist, row, y)
    assert one.crps(y)[0] == pytest.approx(squares, rel=1e-9)


# ----------------------------------------------------------------------------- tails
def test_logarithms_keep_their_digits_in_both_tails():
    # Far out one component is all there is; 1 - sf is 1 where sf is below 1e-16.
    dist = NormalMixture([[0.0], [1.0]], [[1.0], [2.0]], [0.7, 0.3])
    for y in (-400.0, 400.0):
        density = np.log(0.3) + norm(1.0, 2.0).logpdf(y)
        assert dist.log_pdf(y)[0] == pytest.approx(density, rel=1e-13)
    below = np.log(0.3) + norm(1.0, 2.0).logcdf(-400.0)
    above = np.log(0.3) + norm(1.0, 2.0).logsf(400.0)
    assert dist.log_cdf(-400.0)[0] == pytest.approx(below, rel=1e-13)
    assert dist.log_sf(400.0)[0] == pytest.approx(above, rel=1e-13)
    assert dist.log_cdf(30.0)[0] == -dist.sf(30.0)[0] < 0.0
    assert dist.log_sf(-30.0)[0] == -dist.cdf(-30.0)[0] < 0.0


def test_probabilities_are_never_above_one():
    dist = make_mixture(k=50, n=100)
    assert (dist.cdf(1e6) <= 1.0).all() and (dist.sf(-1e6) <= 1.0).all()
    assert (dist.log_cdf(1e6) <= 0.0).all() and (dist.log_sf(-1e6) <= 0.0).all()


def test_values_out_of_range_have_limits():
    dist = make_mixture()
    for y, below in ((np.inf, 1.0), (-np.inf, 0.0)):
        np.testing.assert_allclose(dist.cdf(y), below, rtol=1e-15)
        np.testing.assert_allclose(dist.sf(y), 1.0 - below, rtol=1e-15)
        assert (dist.log_pdf(y) == -np.inf).all() and (dist.pdf(y) == 0.0).all()
        assert (dist.crps(y) == np.inf).all()
    assert (dist.log_pdf(1e200) == -np.inf).all()


# ----------------------------------------------------------------------------- quantiles
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("k", [2, 5, 40])
def test_quantiles_are_the_inverse_of_the_cdf(k, scale):
    rng = np.random.default_rng(k)
    stds = np.exp(rng.normal(size=(k, 50)))
    dist = NormalMixture(scale * rng.normal(size=(k, 50)), stds, rng.dirichlet(np.ones(k), 50).T)
    # Of x there are 16 digits, of (x - mean) / std as many fewer as means are far apart in stds.
    rtol = 1e-12 * max(1.0, scale)
    for q in TAILS:
        tolerance = rtol * (1.0 - np.log(q))
        np.testing.assert_allclose(dist.log_cdf(dist.ppf(q)), np.log(q), rtol=0, atol=tolerance)
    for q in 1.0 - 2.0 ** -np.arange(1.0, 53.0, 10.0):
        tolerance = rtol * (1.0 - np.log(1.0 - q))
        expected = np.log(1.0 - q)
        np.testing.assert_allclose(dist.log_sf(dist.ppf(q)), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "dist, q, most",
    [
        # Components within a few standard deviations, as particles of one posterior give them.
        (NormalMixture(*np.random.default_rng(0).uniform(0.5, 2.0, (2, 20, 500))), 0.05, 10),
        (NormalMixture(*np.random.default_rng(0).uniform(0.5, 2.0, (2, 20, 500))), 1e-9, 10),
        # Narrow components far from 0: the last steps are of the length of rounding.
        (NormalMixture([[1e4, 1e6], [3e4, 1e6 + 1.0]], [[1.0, 1.0], [0.1, 0.1]]), 0.3, 30),
    ],
    ids=["body", "tail", "far from 0"],
)
def test_few_steps_find_a_quantile(dist, q, most, monkeypatch):
    once, calls = normal_mixtures._cdf_and_density, []
    monkeypatch.setattr(normal_mixtures, "_cdf_and_density", lambda *a: calls.append(0) or once(*a))
    np.testing.assert_allclose(dist.cdf(dist.ppf(q)), q, rtol=1e-9)
    assert len(calls) <= most, len(calls)


def test_quantiles_rise_from_the_least_value_to_the_greatest():
    dist = make_mixture()
    q = np.linspace(0.0, 1.0, 201)
    quantiles = dist.ppf(q)
    assert quantiles.shape == (6, 201)
    assert (np.diff(quantiles, axis=1) > 0.0).all()
    assert (quantiles[:, 0] == -np.inf).all() and (quantiles[:, -1] == np.inf).all()
    np.testing.assert_array_equal(dist.ppf(q[37]), quantiles[:, 37])
    np.testing.assert_array_equal(dist.quantile([0.2, 0.9]), dist.ppf([0.2, 0.9]))
    assert dist.ppf([]).shape == (6, 0)


@pytest.mark.parametrize("level", [0.5, 0.9, 1.0 - 1e-12])
def test_an_interval_leaves_equal_tails(level):
    dist = make_mixture()
    interval = dist.interval(level)
    assert interval.shape == (6, 2)
    np.testing.assert_allclose(dist.cdf(interval[:, 0]), (1.0 - level) / 2.0, rtol=1e-11)
    np.testing.assert_allclose(dist.sf(interval[:, 1]), (1.0 - level) / 2.0, rtol=1e-11)
    np.testing.assert_array_equal(dist.interval()[:, 0], dist.ppf(0.5 - 0.5 * 0.9))


# ----------------------------------------------------------------------------- symmetries
def everything(dist, y):
    """All that a distribution says, as one table."""
    of_y = [getattr(dist, name)(y) for name in METHODS]
    own = [dist.mean(), dist.std(), dist.var(), dist.energy()]
    return np.stack(of_y + own + [*dist.ppf([1e-9, 0.3, 0.8]).T, *dist.interval().T])


def test_identical_components_are_one():
    one = NormalMixture([[0.5, -3.0, 2.0]], [[1.0, 0.1, 4.0]])
    y = np.array([0.1, -2.5, 30.0])
    weights = np.random.default_rng(0).dirichlet(np.ones(7), 3).T
    many = NormalMixture(np.tile(one.means, (7, 1)), np.tile(one.stds, (7, 1)), weights)
    np.testing.assert_allclose(everything(many, y), everything(one, y), rtol=1e-12)


def test_components_without_weight_have_no_part():
    dist = make_mixture(k=2, n=3)
    extra = [[-500.0, 0.0, 7.0]], [[1e-3, 0.0, 9.0]]
    means, stds = np.concatenate([dist.means, extra[0]]), np.concatenate([dist.stds, extra[1]])
    wider = NormalMixture(means, stds, np.concatenate([dist.weights, np.zeros((1, 3))]))
    y = np.array([-500.0, 0.0, 7.0])  # on the extra component
    np.testing.assert_allclose(everything(wider, y), everything(dist, y), rtol=1e-12)
    np.testing.assert_array_equal(wider.ppf([0.0, 1.0]), dist.ppf([0.0, 1.0]))
    certain = NormalMixture([[1.0], [0.0]], [[0.0], [1.0]], [1.0, 0.0])
    np.testing.assert_array_equal(certain.ppf([0.0, 0.5, 1.0]), [[1.0, 1.0, 1.0]])
    draws = wider.sample(100, random_state=0)
    np.testing.assert_array_equal(draws, dist.sample(100, random_state=0))


def test_rows_do_not_depend_on_each_other():
    dist = make_mixture(n=20)
    y = make_targets(dist)
    together = everything(dist, y)
    for row in range(20):
        alone = everything(dist[row], y[row])
        np.testing.assert_allclose(alone[:, 0], together[:, row], rtol=1e-12, atol=1e-13)


def test_spread_far_from_zero_keeps_its_digits():
    dist = NormalMixture([[1e8 - 1.0], [1e8 + 1.0]], [[1e-3], [1e-3]])
    assert dist.std()[0] == pytest.approx(np.sqrt(1.0 + 1e-6), rel=1e-12)


# ----------------------------------------------------------------------------- constants
def test_a_certain_row_is_a_constant():
    dist = NormalMixture([2.0, 2.0, 2.0], [0.0, 0.0, 0.0])
    y = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(dist.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(dist.sf(y), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(dist.log_cdf(y), [-np.inf, 0.0, 0.0])
    np.testing.assert_array_equal(dist.log_pdf(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(dist.pdf(y), [0.0, np.inf, 0.0])
    np.testing.assert_array_equal(dist.crps(y), [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(dist.energy(), 0.0)
    np.testing.assert_array_equal(dist.ppf([0.0, 0.3, 1.0]), np.full((3, 3), 2.0))
    np.testing.assert_array_equal(dist.interval(), np.full((3, 2), 2.0))
    np.testing.assert_array_equal(dist.std(), 0.0)
    np.testing.assert_array_equal(dist.sample(2), np.full((2, 3), 2.0))


def test_quantiles_of_constants_are_the_least_values_that_reach_them():
    # Of 1, 2, 3 with probabilities 1/4, 1/2, 1/4.
    dist = NormalMixture([[3.0], [1.0], [2.0]], np.zeros((3, 1)), [0.25, 0.25, 0.5])
    q = [0.0, 0.1, 0.25, 0.26, 0.5, 0.74, 0.75, 0.76, 1.0]
    np.testing.assert_array_equal(dist.ppf(q), [[1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0]])
    assert dist.energy()[0] == pytest.approx(2 * (0.75 * 0.25 + 0.25 * 0.75), rel=1e-15)


def test_a_constant_among_normals():
    # The cdf jumps from 0.25 to 0.75 at 0.
    dist = NormalMixture([[0.0], [0.0]], [[0.0], [1.0]])
    np.testing.assert_array_equal(dist.ppf([0.25000001, 0.4, 0.5, 0.6, 0.74999]), np.zeros((1, 5)))
    assert dist.ppf(0.2)[0] == pytest.approx(norm.ppf(0.4), rel=1e-13)
    assert dist.ppf(0.8)[0] == pytest.approx(norm.ppf(0.6), rel=1e-13)
    np.testing.assert_array_equal(dist.ppf([0.0, 1.0]), [[-np.inf, np.inf]])
    assert dist.cdf(0.0)[0] == 0.75 and dist.sf(0.0)[0] == 0.25
    assert dist.log_pdf(0.0)[0] == np.inf
    assert dist.log_pdf(1.0)[0] == pytest.approx(np.log(0.5) + norm.logpdf(1.0), rel=1e-13)
    self_energy = 0.25 * 2 / np.sqrt(np.pi) + 0.5 * np.sqrt(2 / np.pi)
    assert dist.energy()[0] == pytest.approx(self_energy, rel=1e-14)


# ----------------------------------------------------------------------------- shapes
@pytest.mark.parametrize("name", METHODS)
def test_a_number_an_array_and_a_table_of_values(name):
    dist = make_mixture()
    table = np.random.default_rng(0).normal(size=(4, 6))
    found = getattr(dist, name)(table)
    assert found.shape == (4, 6)
    for row, values in zip(found, table, strict=True):
        np.testing.assert_array_equal(row, getattr(dist, name)(values))
    at_two = getattr(dist, name)(2.0)
    assert at_two.shape == (6,)
    np.testing.assert_array_equal(at_two, getattr(dist, name)(np.full(6, 2)))
    assert getattr(dist, name)(table.reshape(2, 2, 6)).shape == (2, 2, 6)
    assert getattr(dist, name)(np.empty((0, 6))).shape == (0, 6)
    assert getattr(dist[:0], name)(np.empty((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("name", METHODS)
def test_values_that_fit_no_rows_are_an_error(name):
    dist = make_mixture()
    with pytest.raises(ValueError, match=r"y must be a number .* shape \(6,\) .* got \(6, 1\)"):
        getattr(dist, name)(np.zeros((6, 1)))
    with pytest.raises(ValueError, match="got .5,."):
        getattr(dist, name)(np.zeros(5))
    with pytest.raises(ValueError, match="y must not hold nan"):
        getattr(dist, name)([0.0, 1.0, np.nan, 0.0, 0.0, 0.0])


def test_rows_are_picked_like_those_of_an_array():
    dist = make_mixture()
    mask = np.array([True, False, False, True, True, False])
    for rows in (slice(1, 4), slice(None, None, -2), mask, list(mask), [4, 0, 0], np.array([-1])):
        part = dist[rows]
        np.testing.assert_array_equal(part.means, dist.means[:, rows])
        np.testing.assert_array_equal(part.stds, dist.stds[:, rows])
        np.testing.assert_array_equal(part.weights, dist.weights[:, rows])
        assert len(part) == len(part.mean()) == part.shape[0]
        np.testing.assert_allclose(np.asarray(part), np.asarray(dist)[rows], rtol=1e-14)
    assert len(dist[2]) == len(dist[np.int64(-1)]) == 1
    np.testing.assert_array_equal(dist[2].means[:, 0], dist.means[:, 2])
    assert [len(one) for one in dist] == [1] * 6
    assert len(dist) == 6  # picking rows leaves it as it was


@pytest.mark.parametrize("rows", [6, -7, [True, False], (0, 1), None, "a", 1.5])
def test_rows_that_are_not_there_are_an_error(rows):
    with pytest.raises(IndexError):
        make_mixture()[rows]


def test_as_an_array_it_is_means_and_standard_deviations():
    dist = make_mixture()
    table = np.asarray(dist)
    assert table.shape == dist.shape == (6, 2) and table.dtype == np.float64
    np.testing.assert_array_equal(table[:, 0], dist.mean())
    np.testing.assert_array_equal(table[:, 1], dist.std())
    assert np.asarray(dist, dtype=np.float32).dtype == np.float32
    assert np.array(dist, copy=True).shape == (6, 2)
    np.testing.assert_allclose(np.concatenate([dist[:2], dist[2:]]), table, rtol=1e-14)
    np.testing.assert_allclose(np.ravel([dist[i] for i in range(6)]), table.ravel(), rtol=1e-14)


def test_an_array_without_a_copy_is_an_error():
    with pytest.raises(ValueError, match="copy"):
        make_mixture().__array__(copy=False)


# ----------------------------------------------------------------------------- the object
def test_round_trips_give_an_equal_distribution():
    dist = make_mixture()
    y = make_targets(dist)
    for other in (pickle.loads(pickle.dumps(dist)), copy.copy(dist), copy.deepcopy(dist)):
        np.testing.assert_array_equal(everything(other, y), everything(dist, y))
        assert repr(other) == repr(dist) == "NormalMixture(6 rows, 3 components)"


def test_the_arrays_of_the_caller_are_copied():
    means, stds, weights = np.zeros((2, 3)), np.ones((2, 3)), np.full((2, 3), 0.5)
    dist = NormalMixture(means, stds, weights)
    for array in (means, stds, weights):
        array[:] = 9.0
    np.testing.assert_array_equal(np.asarray(dist), [[0.0, 1.0]] * 3)


def test_weights_are_shared_or_of_each_row():
    shared = NormalMixture(np.zeros((2, 3)), np.ones((2, 3)), [0.25, 0.75])
    own = NormalMixture(np.zeros((2, 3)), np.ones((2, 3)), [[0.25] * 3, [0.75] * 3])
    np.testing.assert_array_equal(shared.weights, own.weights)
    equal = NormalMixture(np.zeros((4, 3)), np.ones((4, 3)))
    np.testing.assert_array_equal(equal.weights, np.full((4, 3), 0.25))
    single = np.full(3, 1 / 3, dtype=np.float32)  # adds up to 1 in single precision
    total = NormalMixture(np.zeros((3, 1)), np.ones((3, 1)), single).weights.sum()
    assert total == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "means, stds, weights, message",
    [
        (np.zeros((2, 3)), np.ones((3, 2)), None, r"one shape .* \(2, 3\) and \(3, 2\)"),
        (np.zeros((0, 3)), np.ones((0, 3)), None, "k at least 1"),
        ([0.0], [-0.1], None, "stds must be at least 0, got -0.1"),
        ([0.0], [np.nan], None, "stds must be finite"),
        ([np.nan], [1.0], None, "means must be finite"),
        (np.zeros((2, 3)), np.ones((2, 3)), [0.5, 0.6], "add up to 1 over the 2 components"),
        (np.zeros((2, 3)), np.ones((2, 3)), [-0.5, 1.5], "probabilities"),
        (np.zeros((2, 3)), np.ones((2, 3)), [np.nan, 1.0], "probabilities"),
        (np.zeros((2, 3)), np.ones((2, 3)), [1 / 3] * 3, r"shape \(2,\) or \(2, 3\), got \(3, 1\)"),
    ],
)
def test_bad_parameters_are_an_error(means, stds, weights, message):
    with pytest.raises(ValueError, match=message):
        NormalMixture(means, stds, weights)


@pytest.mark.parametrize("q", [-0.01, 1.01, np.nan, [0.5, 2.0], [[0.5]]])
def test_a_quantile_outside_the_unit_interval_is_an_error(q):
    with pytest.raises(ValueError, match="q must (lie in|be a number)"):
        make_mixture().ppf(q)


# ----------------------------------------------------------------------------- draws
def test_draws_follow_the_cdf():
    # P(sup |F_n - F| > e) <= 2 exp(-2 n e^2) (Massart 1990): 1e-6 for the six rows together.
    dist, n = make_mixture(), 20_000
    draws = dist.sample(n, random_state=0)
    assert draws.shape == (n, 6)
    bound = np.sqrt(np.log(2 * 6 / 1e-6) / (2 * n))
    probability = np.sort(dist.cdf(draws), axis=0)
    grid = np.arange(n + 1)[:, None] / n
    distance = np.maximum(grid[1:] - probability, probability - grid[:-1]).max(axis=0)
    assert (distance < bound).all()


def test_draws_of_rows_are_independent():
    # Two equal rows: the correlation has standard error 1 / sqrt(n).
    dist, n = NormalMixture([[-3.0, -3.0], [3.0, 3.0]], np.ones((2, 2))), 10_000
    assert abs(np.corrcoef(dist.sample(n, random_state=0).T)[0, 1]) < 4.5 / np.sqrt(n)


def test_the_same_seed_gives_the_same_draws():
    dist = make_mixture()
    np.testing.assert_array_equal(dist.sample(4, 3), dist.sample(4, 3))
    assert (dist.sample(4, 3) != dist.sample(4, 4)).all()
    assert dist.sample().shape == (1, 6) and dist.sample(0).shape == (0, 6)


# ----------------------------------------------------------------------------- skpro
def test_without_skpro_the_error_names_the_extra(monkeypatch):
    predictive._skpro_classes.cache_clear()
    monkeypatch.setitem(sys.modules, "skpro", None)
    monkeypatch.setitem(sys.modules, "skpro.distributions", None)
    with pytest.raises(ImportError, match=r"pip install skpmd\[skpro\]"):
        make_mixture().to_skpro()


def test_constants_have_no_counterpart_in_skpro():
    with pytest.raises(ValueError, match="1 of stds are 0"):
        NormalMixture([0.0, 1.0], [0.0, 1.0]).to_skpro()


def as_frame(y, index=None, columns=None):
    import pandas as pd

    return pd.DataFrame(np.asarray(y)[:, None], index=index, columns=columns)


@pytest.mark.parametrize("k", [1, 3])
def test_the_skpro_distribution_says_the_same(k):
    pytest.importorskip("skpro")
    dist = make_mixture(k=k)
    y, theirs = make_targets(dist), dist.to_skpro()
    frame = as_frame(y)
    assert theirs.shape == (6, 1)
    np.testing.assert_allclose(theirs.mean(), dist.mean()[:, None], rtol=1e-12)
    np.testing.assert_allclose(theirs.var(), dist.var()[:, None], rtol=1e-10)
    for name in ("pdf", "log_pdf", "cdf", "surv", "energy"):
        found, expected = getattr(theirs, name)(frame), getattr(dist, name)(y)
        np.testing.assert_allclose(found, expected[:, None], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(theirs.energy(), dist.energy()[:, None], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*numerically exact implementation:UserWarning")
@pytest.mark.parametrize("k", [1, 3])
def test_the_quantiles_and_draws_of_the_skpro_distribution(k):
    pytest.importorskip("skpro")
    dist = make_mixture(k=k)
    theirs = dist.to_skpro()
    np.testing.assert_allclose(theirs.quantile([0.05, 0.8]), dist.ppf([0.05, 0.8]), rtol=1e-8)
    draws = np.asarray(theirs.sample(400)).reshape(400, 6)  # skpro has no random state
    error = dist.std() / np.sqrt(400)
    assert (np.abs(draws.mean(axis=0) - dist.mean()) < 6.0 * error).all()


@pytest.mark.parametrize("k", [1, 3])
def test_the_scores_of_skpro(k):
    pytest.importorskip("skpro")
    import pandas as pd
    from skpro.metrics import CRPS, LogLoss

    dist = make_mixture(k=k)
    y, index, columns = make_targets(dist), pd.Index(list("abcdef")), pd.Index(["price"])
    frame = as_frame(y, index, columns)
    # Its log density and energy are those of the rows that the targets name, in their order.
    theirs = dist.to_skpro(index, columns)
    assert CRPS()(frame, theirs) == pytest.approx(dist.crps(y).mean(), rel=1e-10)
    assert LogLoss()(frame, theirs) == pytest.approx(-dist.log_pdf(y).mean(), rel=1e-10)
    order = [4, 0, 2]
    found = CRPS()(frame.iloc[order], theirs.iloc[order])
    assert found == pytest.approx(dist.crps(y)[order].mean(), rel=1e-10)
    one = theirs.iat[2, 0]
    assert one.energy() == pytest.approx(dist.energy()[2], rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_the_skpro_distribution_through_pickle_and_clone(k):
    pytest.importorskip("skpro")
    theirs = make_mixture(k=k).to_skpro()
    for other in (pickle.loads(pickle.dumps(theirs)), theirs.clone(), copy.deepcopy(theirs)):
        assert type(other) is type(theirs)
        np.testing.assert_array_equal(other.energy(), theirs.energy())


def test_expectations_are_integrals_over_each_component():
    dist = NormalMixture([[0.0, 1.0], [4.0, 1.0]], [[1.0, 0.5], [0.5, 0.0]], [0.3, 0.7])
    np.testing.assert_allclose(dist.expectation(lambda y: y), dist.mean())
    np.testing.assert_allclose(
        dist.expectation(lambda y: (y - dist.mean()) ** 2), dist.var(), rtol=1e-12
    )
    exact = 0.3 * np.exp([0.5, 1.125]) + 0.7 * np.exp([4.125, 1.0])
    np.testing.assert_allclose(dist.expectation(np.exp), exact, rtol=1e-12)
    with pytest.raises(ValueError, match="f must return values"):
        dist.expectation(lambda y: y.sum())


def test_components_without_weight_have_no_part_in_an_expectation():
    mixture = NormalMixture([[100.0], [0.0]], [[1.0], [1.0]], [1.0, 0.0])
    single = NormalMixture([100.0], [1.0])
    np.testing.assert_allclose(mixture.expectation(np.log), single.expectation(np.log))
