"""Marginal and conditional densities of mixtures, against integrals and quotients of densities."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.datasets import load_iris

from skpmd import GaussianMixturePMD

TYPES = ("full", "tied", "diag", "spherical")
KINDS = [("conjugate", one) for one in TYPES] + [("parameters", "full"), ("parameters", "diag")]
X = load_iris().data[:, [2, 0, 1]]  # The last two are wide.
T = np.linspace(-8.0, 8.0, 3201)  # Points 3 + sinh(t) are dense about 3, and go out to 1500.
GRID, STEPS = 3.0 + np.sinh(T), (T[1] - T[0]) * np.cosh(T)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def mixture(request):
    strategy, covariance_type = request.param
    own = {"n_particles": 100} if strategy == "parameters" else {}
    few = X[::3] if strategy == "parameters" else X
    return GaussianMixturePMD(
        2, strategy=strategy, covariance_type=covariance_type, random_state=0, **own
    ).fit(few)


@pytest.mark.slow_for("parameters-full")
def test_marginal_of_all_columns_is_the_density_of_rows(mixture):
    density = mixture.marginal([2, 0, 1])
    found = density.log_pdf(X[:, [2, 0, 1]])
    np.testing.assert_allclose(found, mixture.score_samples(X), rtol=1e-9, atol=1e-9)
    assert density.columns.tolist() == [2, 0, 1]
    assert density.shape == (1, 3)


@pytest.mark.slow_for("conjugate-diag")
def test_conditional_is_the_quotient_of_joint_and_marginal(mixture):
    for known, left in (([1], [0, 2]), ([2, 0], [1]), ([0, 1], [2])):
        density = mixture.conditional(known, X[:, known])
        assert density.columns.tolist() == left
        found = density.log_pdf(X[:, left]) + mixture.marginal(known).log_pdf(X[:, known])
        np.testing.assert_allclose(found, mixture.score_samples(X), rtol=1e-9, atol=1e-9)


def test_moments_and_probabilities_are_integrals(mixture):
    # Student tails beyond the grid, of 50 degrees of freedom and more, are below rounding; the
    # trapezoidal rule is as good.
    known = [[4.0, 6.0], [1.5, 5.0]]
    density = mixture.conditional([0, 1], known)
    for i in range(2):
        mass = STEPS * mixture.conditional([0, 1], known[i : i + 1]).pdf(GRID[:, None])
        assert mass.sum() == pytest.approx(1.0, abs=1e-9)
        mean = GRID @ mass
        assert density.mean()[i, 0] == pytest.approx(mean, abs=1e-9)
        assert density.var()[i, 0] == pytest.approx((GRID - mean) ** 2 @ mass, rel=1e-8)
        middle = len(T) // 2
        below = mass[:middle].sum() + 0.5 * mass[middle]
        # An end of a trapezoidal rule has an error of the step's square.
        assert density.cdf(np.full((2, 1), 3.0))[i, 0] == pytest.approx(below, abs=1e-5)


def test_quantiles_invert_the_distribution_function(mixture):
    for density in (mixture.conditional([1], X[:20, [1]]), mixture.marginal([0, 2])):
        for q in (1e-4, 0.05, 0.5, 0.9, 0.9999):
            found = density.ppf(q)
            np.testing.assert_allclose(density.cdf(found), q, rtol=1e-9)
        ends = density.interval(0.9)
        assert ends.shape == (*density.shape, 2)
        np.testing.assert_array_equal(ends[..., 0], density.ppf(0.5 - 0.45))


@pytest.mark.slow_but("conjugate-diag")
def test_draws_have_the_distribution(mixture):
    density = mixture.conditional([0], [[4.0], [1.4]])
    draws = density.sample(4000, random_state=0)
    assert draws.shape == (4000, 2, 2)
    for j in range(2):
        for i in range(2):
            uniform = np.array([density.cdf(one)[i, j] for one in draws[::16]])
            assert stats.kstest(uniform, "uniform").pvalue > 1e-3  # Twenty tests in all.
    # Columns together: the log density of draws has the mean of that of others, by 5 errors.
    values = np.array([density.log_pdf(one) for one in draws[:1000]])
    others = np.array([density.log_pdf(one) for one in density.sample(1000, random_state=1)])
    error = np.hypot(values.std(axis=0), others.std(axis=0)) / np.sqrt(1000.0)
    assert (np.abs(values.mean(axis=0) - others.mean(axis=0)) < 5.0 * error).all()
    assert (density.sample(3, random_state=5) == density.sample(3, random_state=5)).all()


def test_values_of_a_data_frame_are_taken_by_name():
    table = pd.DataFrame(load_iris().data, columns=list("abcd"))
    mixture = GaussianMixturePMD(2, random_state=0).fit(table)
    expected = mixture.conditional([0, 2], table[["a", "c"]].to_numpy()).mean()
    arrow = pa.Table.from_pandas(table[["c", "a"]])
    for values in (table[["a", "c"]], table[["c", "a"]], table, arrow):
        for columns in (["a", "c"], [0, 2]):
            found = mixture.conditional(columns, values).mean()
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"values has no columns \['c'\]"):
        mixture.conditional(["a", "c"], table[["a", "b"]])
    with pytest.raises(ValueError, match="Leave a column that is not known out of columns"):
        mixture.conditional(["a"], table[["a"]].mask(table["b"] > 3.0))
    with pytest.raises(ValueError, match="columns='e' is no column of X: its columns are a"):
        mixture.conditional(["e"], table)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few rows
def test_infinite_variances_are_so():
    # An empty component has one degree of freedom: the prior's.
    mixture = GaussianMixturePMD(5, random_state=0, n_particles=1).fit(X[:2])
    density = mixture.marginal([0])
    assert np.isinf(density.var()).all()
    assert np.isfinite(density.mean()).all() and np.isfinite(density.interval()).all()


def test_columns_have_names_places_and_masks():
    frame = load_iris(as_frame=True).data
    mixture = GaussianMixturePMD(2, random_state=0).fit(frame)
    name = frame.columns[2]
    by_place = mixture.marginal(2).log_pdf(frame[[name]])
    for columns in (name, [name], [-2], np.arange(4) == 2, np.int64(2)):
        np.testing.assert_array_equal(mixture.marginal(columns).log_pdf(frame[[name]]), by_place)
    copy = pickle.loads(pickle.dumps(mixture.marginal(name)))
    np.testing.assert_array_equal(copy.log_pdf(frame[[name]]), by_place)
    for columns, match in (
        ("petal", "no column of X: its"), (4, "no column"), ([0, 0], "differ"), ([], "one column"),
        ([True, False], "a mask of 2"), (0.5, "no column"),
        (np.zeros(4, dtype=bool), "0 of them True"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            mixture.marginal(columns)
    plain = GaussianMixturePMD(random_state=0).fit(frame.to_numpy())
    with pytest.raises(ValueError, match="without names"):
        plain.marginal(name)


def test_bad_values_are_refused():
    mixture = GaussianMixturePMD(2, random_state=0).fit(X)
    for columns, values, match in (
        ([0, 1, 2], X, "all 3 columns"), ([0], X[:, 0], "a column for each of the 1"),
        ([0, 1], X[:, [0]], "a column for each of the 2"), ([0], [[np.nan]], "finite"),
        ([0], [["a"]], "real numbers"), ([0], np.empty((0, 1)), "one row or more"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            mixture.conditional(columns, values)
    density = mixture.conditional([0], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="2 rows and 2 columns"):
        density.log_pdf(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="must not hold nan"):
        density.cdf([[np.nan, 1.0], [1.0, 1.0]])
    for q in (0.0, 1.0, [0.5], np.nan):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            density.ppf(q)
    assert "MixtureDensity(2 rows, 2 columns" in repr(density)
