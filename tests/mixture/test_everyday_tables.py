"""Mixtures of tables in raw units: what is odd in a few rows or columns leaves the others alone."""

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skpmd import GaussianMixturePMD
from skpmd.mixture import _conjugate_fit
from skpmd.mixture._components import cholesky
from skpmd.mixture._kernels import lloyd, product_log_sum
from skpmd.mixture._scaler import Scaler

TYPES = ("full", "tied", "diag", "spherical")


def fitted(X, n_components=2, **params):
    return GaussianMixturePMD(n_components, **{"random_state": 0, **params}).fit(X)


def groups(n, centres, seed=0):
    rng, centres = np.random.default_rng(seed), np.asarray(centres, dtype=float)
    labels = rng.integers(0, len(centres), n)
    return rng.normal(size=(n, centres.shape[1])) + centres[labels], labels


TWO = [[-3.5, 0.0], [3.5, 1.0]]


# ---------------------------------------------------------------------- scales
def test_scales_are_of_near_values():
    rng = np.random.default_rng(1)
    normal = rng.normal(5.0, 2.0, 2000)
    far = np.where(np.arange(2000) % 2, normal, normal + 7e5)
    odd = normal.copy()
    odd[:100], odd[100] = -9999.0, 3e14
    X = np.column_stack([normal, far, odd, np.full(2000, 8e9), rng.random(2000) < 0.3])
    shift, scale = Scaler.of(X, np.ones(2000), 2, "diag")
    # The median of gaps of 250 rows has a standard error of about 2 %.
    np.testing.assert_allclose(scale[:3], 2.0, rtol=0.12)
    assert scale[3] == 1.0 and 0.2 < scale[4] < 2.0
    np.testing.assert_allclose(shift[[0, 2]], 5.0, atol=0.5)


def test_scales_of_few_values_are_no_wider_than_standard_deviations():
    rng = np.random.default_rng(12)
    rare, many = rng.random(600) < 0.04, rng.random(600) < 0.45
    pixels = np.where(rng.random(600) < 0.12, rng.normal(60.0, 9.0, 600), 0.0)
    X = np.column_stack([rare, many, pixels]).astype(float)
    _, scale = Scaler.of(X, np.ones(600), 3, "diag")
    assert (scale <= X.std(axis=0) * (1.0 + 1e-9)).all() and (scale > 0.3 * X.std(axis=0)).all()
    rounded = np.column_stack([rng.normal(40.0, 12.0, 600).round(), rng.normal(size=600).round(1)])
    _, scale = Scaler.of(rounded, np.ones(600), 3, "diag")
    np.testing.assert_allclose(scale / [12.0, 1.0], 1.0, atol=0.2)  # Gaps of 50 rows: 6 % each.


def test_nearly_tied_values_count_as_tied_ones_do():
    """Ends of a range that most rows have, smeared or not, leave the scale to the others."""
    rng = np.random.default_rng(14)
    end, others = rng.random(3000), rng.uniform(0.0, 80.0, 3000)
    tied = np.where(end < 0.35, 0.0, np.where(end < 0.6, 80.0, others))
    X = np.column_stack([tied, tied + rng.uniform(0.0, 0.5, 3000)])
    _, scale = Scaler.of(X, np.ones(3000), 7, "full")
    np.testing.assert_allclose(scale[1] / scale[0], 1.0, atol=0.2)  # Ties have gaps of none.
    assert (scale > 0.4 * X.std(axis=0)).all()


def test_rare_values_of_a_column_follow_units():
    # One value in 900 is between two quantiles.
    X = np.random.default_rng(3).normal(size=(900, 2))
    X[:, 1] = np.arange(900) == 40
    one = fitted(X, n_components=1, covariance_type="diag")
    other = fitted(X * [1.0, 1e-9], n_components=1, covariance_type="diag")
    assert one.covariances_[0, 1] == pytest.approx(X[:, 1].var(), rel=0.01)
    assert other.covariances_[0, 1] == pytest.approx(1e-18 * one.covariances_[0, 1], rel=1e-6)
    # A rare value has no part in the one scale of spherical components where others vary.
    scales = Scaler.of(X * [1.0, 1e6], np.ones(900), 1, "spherical").scale
    np.testing.assert_allclose(scales, np.sqrt(0.5), rtol=0.1)


@pytest.mark.parametrize("kind", TYPES)
def test_units_do_not_matter(kind):
    X, _ = groups(150, TWO)
    unit = np.array([1e-18, 1e12]) if kind != "spherical" else np.array([1e-18, 1e-18])
    away = np.array([4.0, 2000.0]) * unit
    one, other = fitted(X, covariance_type=kind), fitted(X * unit + away, covariance_type=kind)
    assert other.score(X * unit + away) + np.log(unit).sum() == pytest.approx(
        one.score(X), abs=1e-6
    )
    np.testing.assert_array_equal(other.predict(X * unit + away), one.predict(X))


# ---------------------------------------------------------------------- rows that are odd
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "odd", [[(11, 0, 2e5)], [(11, 1, -7e11)], [(k, 1, -9999.0) for k in range(0, 300, 11)]],
)  # fmt: skip
def test_odd_rows_leave_the_others_alone(kind, odd):
    X, _ = groups(300, TWO)
    new, labels = groups(1000, TWO, seed=1)
    wrong, rows = X.copy(), {row for row, _, _ in odd}
    for row, column, value in odd:
        wrong[row, column] = value
    clean = np.delete(X, list(rows), axis=0)
    # Sentinels of both groups in one tied component would widen all others.
    more = 4 if kind == "tied" and len(rows) > 1 else 3
    before = fitted(clean, 2, covariance_type=kind)
    # From one seed in six the starts of four tied components end in a poorer optimum, as from 0.
    after = fitted(wrong, more, covariance_type=kind, random_state=more % 3)
    share = np.log(len(clean) / len(X))
    # Sentinels and weights of a component more cost hundredths of a nat.
    assert after.score(new) == pytest.approx(before.score(new) + share, abs=0.05)
    assert adjusted_rand_score(labels, after.predict(new)) > 0.95
    assert after.converged_ and after.diagnostics_["warnings"] == []


@pytest.mark.parametrize("kind", TYPES)
def test_far_groups_have_the_scales_of_their_rows(kind):
    X, labels = groups(400, [[0.0, 0.0], [5000.0, -800.0]])
    model = fitted(X, covariance_type=kind)
    assert adjusted_rand_score(labels, model.predict(X)) == 1.0
    variances = model.covariances_
    if kind in ("full", "tied"):
        variances = np.diagonal(variances, axis1=-2, axis2=-1)
    np.testing.assert_allclose(variances, 1.0, atol=0.3)  # Four standard errors of 200 rows: .4


@pytest.mark.parametrize("kind, p", [("full", 1), ("full", 2), ("diag", 2), ("spherical", 2)])
@pytest.mark.parametrize("K", [4, 9])
def test_many_far_groups_of_few_rows_have_the_scales_of_their_rows(kind, p, K):
    rng, labels = np.random.default_rng(13), np.repeat(np.arange(K), 25)
    X = rng.normal(size=(len(labels), p)) + 2500.0 * labels[:, None]
    model = fitted(X, K, covariance_type=kind)
    assert adjusted_rand_score(labels, model.predict(X)) == 1.0
    variances = model.covariances_
    if kind == "full":
        variances = np.diagonal(variances, axis1=1, axis2=2)
    # 96 rows leave the mean variance a standard error of 14 %, 216 one of 10 %; the own means of
    # groups take 4 % of it.
    assert np.sqrt(variances.mean()) == pytest.approx(1.0, abs=0.15)
    assert model.diagnostics_["warnings"] == []


@pytest.mark.parametrize("size", [1e-160, 1e-300])
def test_values_that_are_tiny_beside_others_do_not_overflow(size):
    # In units of the tiny ones squares of the others are infinite: rows were nearest to no centre,
    # had labels that nobody had set, and the process ended.
    X = np.random.default_rng(0).standard_normal((60, 2))
    X[:, 0] *= size
    X[:2, 0] = 1.0, -1e10
    mixture = GaussianMixturePMD(3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(mixture.fit(X).score_samples(X)).all()


def test_rows_at_no_finite_distance_have_a_label():
    X = np.array([[0.0], [1e200], [1.0]])
    labels = lloyd(X, np.ones(3), np.array([[0.0], [1.0]]), 0)
    assert labels.tolist() == [0, 0, 1]


def test_too_far_is_warned_of():
    X = np.append(*(groups(100, [[0.0], [6.0]], seed)[0] for seed in (0, 1)), axis=0)
    X[::2] += 1.5e8
    with pytest.warns(ConvergenceWarning, match="rounding leaves few digits"):
        fitted(X, 2)


# ---------------------------------------------------------------------- priors by columns


def test_default_degrees_of_freedom_are_one_more_than_the_least():
    X = np.random.default_rng(0).normal(size=(50, 7))
    for kind, df in {"full": 7.0, "tied": 7.0, "diag": 1.0, "spherical": 1.0 / 7.0}.items():
        model = fitted(X, 1, covariance_type=kind)
        assert model.degrees_of_freedom_prior_ == df
        np.testing.assert_allclose(model.mean_prior_, np.median(X, axis=0), atol=0.1)


# ---------------------------------------------------------------------- diagonal covariances
@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_diagonal_covariances_stay_diagonal(kind):
    X, labels = groups(300, np.random.default_rng(8).normal(size=(6, 150)), seed=8)
    model = fitted(X, 6, covariance_type=kind)
    particles = model._predictive
    assert particles.scale_cholesky.shape == particles.location.shape
    assert model._state.points.scale_cholesky.shape == particles.location.shape
    assert model.covariances_.shape == ((6, 150) if kind == "diag" else (6,))
    assert model.precisions_.shape == model.covariances_.shape
    # Counts and points of four particles, and 2^16 numbers of rows.
    assert len(pickle.dumps(model)) < 8 * (4 * 6 * 150 * 4 + 2**16) + 30_000
    assert len(model._state.fit.retained.rows.X) <= 2**16 // 150
    assert adjusted_rand_score(labels, model.predict(X)) > 0.7
    some, rest = [3, 140], np.setdiff1d(np.arange(150), [3, 140])
    joint = model.score_samples(X[:4])
    known = model.marginal(some).log_pdf(X[:4, some])
    given = model.conditional(some, X[:4, some])
    values = [given[0]] if isinstance(given, list) else given.log_pdf(X[:4, rest])
    np.testing.assert_allclose(known + values, joint, rtol=1e-9)


def test_products_of_columns_of_any_size():
    rng = np.random.default_rng(9)
    X, centre, rate = rng.normal(size=(40, 21)), rng.normal(size=(5, 21)), rng.random((5, 21))
    X[3, 4], X[7, :12] = 1e150, 1e40
    expected = np.log1p(rate * (X[:, None] - centre) ** 2).sum(axis=2)
    np.testing.assert_allclose(product_log_sum(X, centre, rate), expected, rtol=1e-12)


# ---------------------------------------------------------------------- a prior that outweighs
@pytest.mark.parametrize(
    "kind, params, message",
    [
        ("diag", {"degrees_of_freedom_prior": 200.0}, "counts as 200 rows .* lower degrees"),
        ("diag", {"covariance_prior": [900.0, 900.0]}, "wider than the rows .* covariance_prior"),
        ("full", {"covariance_prior": 900.0 * np.eye(2)}, "wider than the rows"),
    ],
)
def test_a_prior_that_outweighs_the_rows_is_named(kind, params, message):
    X, _ = groups(60, TWO)
    assert fitted(X, covariance_type=kind).diagnostics_["warnings"] == []
    with pytest.warns(ConvergenceWarning, match=message):
        model = fitted(X, covariance_type=kind, **params)
    assert len(model.diagnostics_["warnings"]) == 1


def test_fewer_rows_than_columns_fill_no_matrix():
    X = np.random.default_rng(0).normal(size=(15, 20))
    with pytest.warns(ConvergenceWarning, match="fills covariances of 20 columns"):
        fitted(X, 1)


@pytest.mark.parametrize("kind", TYPES)
def test_more_components_than_rows_are_named(kind):
    X = np.random.default_rng(1).normal(size=(4, 2))
    stream = GaussianMixturePMD(7, covariance_type=kind, random_state=0).partial_fit(X)
    assert stream.diagnostics_["warnings"] == []  # More rows may come.
    with pytest.warns(ConvergenceWarning, match="n_components=7 is more than the rows, which are"):
        model = fitted(X, 7, covariance_type=kind)
    # As one Gaussian of four rows about: no component between them is far too narrow.
    assert -10.0 < model.score(np.random.default_rng(2).normal(size=(200, 2))) < -2.0
    assert model.weights_.sum() == pytest.approx(1.0) and model.weights_.min() > 0.0


# ---------------------------------------------------------------------- few rows, many columns
@pytest.mark.parametrize("seed", [0, 5])
def test_full_covariances_find_groups_in_many_columns(seed):
    """Under the smaller default scatter alone 20 odd rows in 20 columns made a component."""
    centres = 1.5 * np.random.default_rng(seed).normal(size=(4, 20))
    X, labels = groups(1500, centres, seed)  # They are 6 to 12 standard deviations apart.
    mixture = fitted(X[:1000], 4)
    assert adjusted_rand_score(labels[1000:], mixture.predict(X[1000:])) > 0.98
    assert mixture.covariance_prior_[0, 0] > 0.5  # A tenth of some 3 for each of 20 columns.


def test_densities_along_a_curve_keep_the_smaller_scatter():
    """Rows near a curve have components that are narrow across it."""
    rng = np.random.default_rng(3)
    t = rng.uniform(0.0, 2.0 * np.pi, 1000)
    X = np.column_stack([np.cos(k * t) for k in range(1, 9)]) + 0.01 * rng.normal(size=(1000, 8))
    mixture = fitted(X[:800], 10)
    wide = fitted(X[:800], 10, covariance_prior=0.8 * np.cov(X.T))
    assert mixture.covariance_prior_[0, 0] < 0.05
    assert mixture.score(X[800:]) > wide.score(X[800:]) + 1.0


def test_a_stream_keeps_the_scatter_that_its_rows_have_chosen():
    centres = 1.5 * np.random.default_rng(1).normal(size=(4, 20))
    X, _ = groups(1000, centres, 1)
    stream = GaussianMixturePMD(4, random_state=0)
    for part in np.array_split(X, 5):
        stream.partial_fit(part)
    assert stream.covariance_prior_[0, 0] > 0.5


def test_few_rows_in_few_columns_have_one_default_scatter():
    """Theirs is larger than the one that is for many columns."""
    X, _ = groups(32, [[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]])
    assert fitted(X, 4).covariance_prior_[0, 0] > 0.5 * X[:, 0].var()


@pytest.mark.parametrize("end", ["interrupt", "time"])
def test_a_second_fit_that_is_ended_is_not_compared(monkeypatch, end):
    """Ctrl-C is not lost, nor a warning that time is over: the result is that of the first fit."""
    X, _ = groups(100, 2.0 * np.random.default_rng(0).normal(size=(3, 8)))
    first = fitted(X, 3)  # The larger one is kept.
    fit, ended = _conjugate_fit._fit_under, []

    def under(*given, is_wide):
        found = fit(*given, is_wide=is_wide)
        if is_wide:
            ended.append(is_wide)
        return found._replace(interrupted=is_wide and end == "interrupt")

    monkeypatch.setattr(_conjugate_fit, "_fit_under", under)
    if end == "time":
        monkeypatch.setattr(_conjugate_fit, "out_of_time", lambda what: bool(ended))
    mixture = GaussianMixturePMD(3, random_state=0)
    with pytest.raises(KeyboardInterrupt) if end == "interrupt" else nullcontext():
        mixture.fit(X)
    assert ended and mixture.diagnostics_["interrupted"] == (end == "interrupt")
    assert mixture.covariance_prior_[0, 0] < first.covariance_prior_[0, 0]


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_parts_far_from_the_first_are_said_to_be_beyond_rounding(kind):
    # Squares of 1e10 have an error of 1e4 in double precision, and variances are 1.
    rng = np.random.default_rng(0)
    stream = GaussianMixturePMD(2, covariance_type=kind, random_state=0)
    stream.partial_fit(rng.standard_normal((100, 2)))
    far = 1e10 + rng.standard_normal((100, 2))
    if kind == "full":
        with pytest.raises(np.linalg.LinAlgError, match="more than 1e7 times"):
            stream.partial_fit(far)
        return
    with pytest.warns(ConvergenceWarning, match="rounding leaves few digits"):
        stream.partial_fit(far)


def test_a_scatter_that_rounding_left_nothing_of_is_an_error():
    for trace in (0.0, -1e-200):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            cholesky(np.array([np.eye(2), trace * np.eye(2)]))
