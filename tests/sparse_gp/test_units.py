"""Kernels in the units of the data, low rank, and what speaks against a kernel that was found."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import SparseGPClassifierPMD, SparseGPRegressorPMD
from skpmd.sparse_gp._covariance import free_parts
from skpmd.sparse_gp._model import jittered_cholesky
from skpmd.sparse_gp._starts import column_scales, widened

ONE = {"n_particles": 1, "random_state": 0}


def wave(n=90, noise=0.2):
    rng = np.random.default_rng(11)
    u = np.sort(rng.uniform(0.0, 8.0, n))
    return u[:, None], np.cos(u) + noise * rng.standard_normal(n)


@pytest.mark.slow_but(
    "1000000000000.0-0.0-0", "1e-09-0.0-0", "2.0-1980.0-0", "3600.0-1500000000.0-0"
)
@pytest.mark.parametrize("n_restarts", [0, 1])
@pytest.mark.parametrize(
    "factor, offset", [(3600.0, 1.5e9), (1e9, 1.6e18), (1e-9, 0.0), (2.0, 1980.0), (1e12, 0.0)]
)
def test_a_kernel_says_the_same_in_any_units(factor, offset, n_restarts):
    X, y = wave()
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    new = np.linspace(0.2, 7.8, 20)[:, None]
    plain, other = (
        SparseGPRegressorPMD(kernel, n_restarts_optimizer=n_restarts, **ONE).fit(a + b * X, y)
        for a, b in ((0.0, 1.0), (offset, factor))
    )
    # Rounding of the inputs is 3e-8 of their range at most.
    ratio = other.kernel_.k1.k2.length_scale / (factor * plain.kernel_.k1.k2.length_scale)
    np.testing.assert_allclose(ratio, 1.0, rtol=0.01)
    np.testing.assert_allclose(other.predict(offset + factor * new), plain.predict(new), atol=0.01)
    assert not other.diagnostics_["warnings"]


UNITS = [(1e-200, 1.0), (3e-130, 2e11), (1e99, 1e-90), (2e4, 3e-6)]


def plane(n):
    rng = np.random.default_rng(21)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.standard_normal(n)


@pytest.mark.slow_but("fitc-units1")
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("approximation", ["fitc", "vecchia"])
def test_columns_in_any_units_say_the_same(units, approximation):
    X, y = plane(80)
    some = {"approximation": approximation, **ONE}
    plain = SparseGPRegressorPMD(**some).fit(X, y)
    other = SparseGPRegressorPMD(**some).fit(X * units, y)
    # Searches end within 1e-3 nats of each other; f differs by 2 on these rows.
    np.testing.assert_allclose(other.predict(X * units), plain.predict(X), atol=0.01)


def test_typical_distances_whose_squares_are_zero_are_numbers():
    X = np.array([[-1.3e-301], [1.2e-301]])
    assert SparseGPRegressorPMD().fit(X, [-1.0, 1.0]).predict(X) @ [-1.0, 1.0] > 0.0


@pytest.mark.parametrize("approximation", ["fitc", "vecchia"])
def test_rows_past_all_numbers_of_length_scales_have_the_prior(approximation):
    X, y = plane(60)
    gp = SparseGPRegressorPMD(approximation=approximation, **ONE).fit(1e-300 * X, y)
    mean, sd = gp.predict([[1e12, 1e12], [0.0, 1e50]], return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
    assert sd[0] == sd[1] > gp.predict(1e-300 * X, return_std=True)[1].max()


def test_mistyped_inputs_leave_the_others_as_they_are():
    X, y = plane(80)
    far = X.copy()
    far[[7, 40, 60], [0, 1, 0]] = -99999.0
    there = np.delete(np.arange(80), [7, 40, 60])
    gp = SparseGPRegressorPMD(**ONE).fit(far, y)
    mean = SparseGPRegressorPMD(**ONE).fit(X[there], y[there]).predict(X[there])
    # A tenth of the noise's sd: each has rows, or bounds of length scales, of its own.
    assert np.sqrt(np.mean((gp.predict(X[there]) - mean) ** 2)) < 0.02
    assert not gp.diagnostics_["warnings"]


@pytest.mark.slow_but("kernel0")
@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel() * Matern(nu=2.5) + WhiteKernel(),
        ConstantKernel() * RationalQuadratic() + WhiteKernel(),
        ConstantKernel() * RBF() + ConstantKernel() * Matern(nu=1.5) + WhiteKernel(),
    ],
)
def test_other_kernels_in_seconds(kernel):
    X, y = wave()
    gp = SparseGPRegressorPMD(kernel, **ONE).fit(1.5e9 + 86400.0 * X, y)
    mean = gp.predict(1.5e9 + 86400.0 * (X + 0.05))
    # The exact process of the right kernel is off by .06 there.
    assert np.sqrt(np.mean((mean - np.cos(X[:, 0] + 0.05)) ** 2)) < 0.1


def test_bounds_of_the_user_stay_and_are_named():
    X, y = wave()
    kernel = ConstantKernel() * RBF(1.0, (0.1, 10.0)) + WhiteKernel()
    gp = SparseGPRegressorPMD(kernel, **ONE)
    with pytest.warns(ConvergenceWarning, match="k1__k2__length_scale has the bounds 0.1 and 10"):
        gp.fit(86400.0 * X, y)
    assert gp.diagnostics_["warnings"]
    fixed = ConstantKernel() * RBF(1.0, "fixed") + WhiteKernel()
    gp = SparseGPRegressorPMD(fixed, **ONE)
    with pytest.warns(ConvergenceWarning, match="no row tells of another"):
        gp.fit(86400.0 * X, y)
    assert gp.kernel_.k1.k2.length_scale == 1.0


def test_a_bound_that_costs_much_is_named():
    X, y = wave()
    kernel = ConstantKernel(1.0, (0.1, 1.0)) * RBF(1.0) + WhiteKernel(0.1)
    with pytest.warns(ConvergenceWarning, match="k1__k1__constant_value .* upper bound, 1, and"):
        SparseGPRegressorPMD(kernel, normalize_y=False, **ONE).fit(X, 4.0 * y)


def test_default_bounds_are_widened_only_where_units_ask():
    class Rows:
        X, y = wave()
        weight, noise_factor = np.ones(90), 1.0

    Rows.y = Rows.y[:, None]
    kernel = ConstantKernel() * RBF([1.0]) + WhiteKernel()
    assert widened(kernel, Rows) is kernel
    Rows.X = 1e9 * Rows.X
    wide = widened(kernel, Rows)
    low, high = np.exp(wide.bounds[1])
    assert low < 1.1e-5 and high > 1e14
    np.testing.assert_array_equal(wide.bounds[[0, 2]], kernel.bounds[[0, 2]])
    np.testing.assert_array_equal(wide.theta, kernel.theta)
    assert [part.attribute for part in free_parts(kernel)] == [
        "constant_value", "length_scale", "noise_level"
    ]  # fmt: skip


def test_rows_far_away_do_not_change_the_scale_of_a_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * [3.0, 1e-6] + [1e5, 0.0]
    scale = column_scales(X)
    np.testing.assert_allclose(scale, [3.0, 1e-6], rtol=0.2)  # 2.5 standard errors of a range.
    X[:5] = -9999.0
    np.testing.assert_allclose(column_scales(X), scale, rtol=0.1)
    np.testing.assert_array_equal(column_scales(np.full((9, 1), 0.1)), [1.0])


def test_rows_of_sentinels_do_not_change_the_scale_of_a_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [3.0, 1e-6, 2.0] + [1e5, 0.0, 0.0]
    scale = X.std(axis=0)
    X[:160, 0], X[:80, 1], X[80:120, 1], X[300:, 2] = -999.0, -99.0, 99.0, 1e20
    np.testing.assert_allclose(column_scales(X), scale, rtol=0.1)  # Two standard errors.
    levels = rng.integers(0, 3, (400, 1)) * [1.0, 50.0]
    np.testing.assert_allclose(column_scales(levels), levels.std(axis=0))


@pytest.mark.parametrize("n", [300, 1200])
@pytest.mark.parametrize("sentinel, share", [(-999.0, 0.3), (1e20, 0.01)])
def test_the_effect_of_a_column_with_sentinels_is_found(sentinel, share, n):
    """Scales and neighbours that have them lose the column: errors of .4 to .7 then."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    X[rng.random(n) < share, 0] = sentinel
    new = rng.normal(size=(300, 2))
    approximation = "vecchia" if n > 1000 else "auto"
    gp = SparseGPRegressorPMD(approximation=approximation, **ONE).fit(X, y)
    error = gp.predict(new) - np.sin(2.0 * new[:, 0]) - 0.3 * new[:, 1]
    assert np.sqrt(np.mean(error**2)) < 0.15  # Measured: .02 to .07; the deviation is .76.


@pytest.mark.slow_but("86400.0-3.5")
@pytest.mark.parametrize("periods", [3.5, 7.0, 13.0])
@pytest.mark.parametrize("unit", [1.0, 86400.0])
def test_periods_are_found(periods, unit):
    rng = np.random.default_rng(int(periods))
    x = np.sort(rng.uniform(0.0, 30.0, 90))
    y = np.sin(2.0 * np.pi * periods * x / 30.0) + 0.3 * rng.standard_normal(90)
    right = ConstantKernel() * ExpSineSquared(1.0, 30.0 / periods) + WhiteKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = GaussianProcessRegressor(right, normalize_y=True).fit(x[:, None], y)
    kernel = ConstantKernel() * ExpSineSquared() + WhiteKernel()
    gp = SparseGPRegressorPMD(kernel, **ONE).fit(unit * x[:, None], y)
    # The search that starts at the period that made the rows: not more than a nat behind it.
    assert gp.log_marginal_likelihood_value_ > best.log_marginal_likelihood_value_ - 1.0


# ------------------------------------------------------------------ low rank
@pytest.mark.parametrize("alpha", [1e-10, 1e-6])
@pytest.mark.parametrize(
    "kernel, degree, low, high",
    [
        (DotProduct(), 1, 1.0, 9.0),
        (DotProduct() + WhiteKernel(1e-8), 1, -4.0, 3.0),
        (0.2 * DotProduct() ** 2, 2, 0.0, 7.0),
        (DotProduct() ** 3, 3, -2.0, 2.0),
        (DotProduct(), 1, 0.0, 3e5),
        (DotProduct(), 1, 1990.0, 2020.0),
    ],
)
@pytest.mark.filterwarnings("ignore:SparseGPRegressorPMD. (the kernel has|intervals of)")
def test_polynomials_without_noise_are_least_squares(kernel, degree, low, high, alpha):
    rng = np.random.default_rng(5)
    x = np.linspace(low, high, 50)
    u = (x - low) / (high - low)
    y = 1.0 + 3.0 * u - 2.0 * u**degree + 0.4 * rng.standard_normal(50)
    line = np.polyval(np.polyfit(u, y, degree), u)
    gp = SparseGPRegressorPMD(kernel, alpha=alpha, optimizer=None, **ONE).fit(x[:, None], y)
    mean, sd = gp.predict(x[:, None], return_std=True)
    # Far from zero the intercept is many prior sds away, so that alpha counts: 2e-4 of them.
    np.testing.assert_allclose(mean, line, atol=1e-3 if low < 100.0 or alpha < 1e-8 else 5e-3)
    assert np.isfinite(sd).all() and sd.max() < 0.02


def test_far_too_little_noise_is_named_and_no_length_scale():
    rng = np.random.default_rng(6)
    x = np.linspace(-3.0, 5.0, 45)[:, None]
    y = 1.0 + 0.5 * x[:, 0] + 0.3 * rng.standard_normal(45)
    gp = SparseGPRegressorPMD(DotProduct() + WhiteKernel(1e-4), optimizer=None, **ONE)
    with pytest.warns(ConvergenceWarning, match="the kernel has too little noise"):
        gp.fit(x, y)
    assert not any("length scales" in one for one in gp.diagnostics_["warnings"])


@pytest.mark.parametrize("kernel", [RBF(), ConstantKernel() * Matern(nu=2.5)])
def test_noise_is_missed_where_there_is_some(kernel):
    X, y = wave(noise=0.3)
    with pytest.warns(ConvergenceWarning, match="the kernel has no noise"):
        SparseGPRegressorPMD(kernel, **ONE).fit(X, y)
    smooth = SparseGPRegressorPMD(kernel, **ONE).fit(X, np.cos(X[:, 0]))
    assert not smooth.diagnostics_["warnings"]


def test_rows_that_others_determine_take_nothing_from_them():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 3))
    K = A @ A.T
    factor = jittered_cholesky(K, 1e-14)
    whitened = np.linalg.solve(factor, K)
    # All of the variance of all rows is explained, to rounding.
    np.testing.assert_allclose((whitened**2).sum(axis=0), np.diag(K), rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        jittered_cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]), 1e-14)


def test_equal_inducing_inputs_are_one():
    X, y = wave(40)
    kernel = RBF(1.0) + WhiteKernel(0.05)
    params = {"optimizer": None, "normalize_y": False, "random_state": 0}
    once = SparseGPRegressorPMD(kernel, inducing_init=X, **params).fit(X, y)
    twice = SparseGPRegressorPMD(kernel, inducing_init=np.repeat(X, 2, axis=0), **params)
    np.testing.assert_allclose(twice.fit(X, y).predict(X), once.predict(X), atol=1e-7)


# ------------------------------------------------------------------ intervals of a classifier
@pytest.mark.slow
def test_intervals_of_two_classes_are_quantiles_of_the_process():
    X, y = wave(80)
    gp = SparseGPClassifierPMD(random_state=0).fit(X, y > 0.2)
    proba, ends = gp.predict_proba(X, return_interval=0.8)
    mean, variance = gp.latent_mean_and_variance(X)
    expected = expit(mean[:, None] + np.sqrt(variance)[:, None] * ndtri([0.1, 0.9]))
    np.testing.assert_allclose(ends[:, 1], expected, atol=1e-7)
    np.testing.assert_allclose(ends[:, 0], 1.0 - expected[:, ::-1], atol=1e-7)
    np.testing.assert_array_equal(proba, gp.predict_proba(X))
    pipe = make_pipeline(StandardScaler(), SparseGPClassifierPMD(random_state=0)).fit(X, y > 0.2)
    assert pipe.predict_proba(X[:3], return_interval=0.8)[1].shape == (3, 2, 2)
    with pytest.raises(ValueError, match="return_interval must lie strictly between"):
        gp.predict_proba(X, return_interval=90)


@pytest.mark.slow
def test_intervals_of_three_classes_are_those_of_draws():
    X, y = wave(90)
    gp = SparseGPClassifierPMD(random_state=0, n_particles=2, weighting="uniform")
    gp.fit(X, np.digitize(y, [-0.5, 0.5]))
    means, variances, _ = gp._moments(X[::9])
    rng = np.random.default_rng(0)
    draws = means + np.sqrt(variances) * rng.standard_normal((20_000, *means.shape))
    shares = expit(draws) / expit(draws).sum(axis=2, keepdims=True)
    expected = np.quantile(shares.reshape(-1, *means.shape[1:]), [0.05, 0.95], axis=0)
    ends = gp.predict_proba_interval(X[::9], 0.9)
    # 1024 even points err by less than as many draws would: .01 at densities of one half.
    np.testing.assert_allclose(ends, expected.transpose(2, 1, 0), atol=0.03)
    np.testing.assert_allclose(ends[:2], gp.predict_proba_interval(X[:18:9], 0.9), rtol=1e-9)


def test_copies_that_take_the_noise_are_named():
    X, y = plane(60)
    twice = {"X": np.repeat(X, 2, axis=0), "y": np.repeat(y, 2)}
    for rows in (twice, {"X": X, "y": y, "sample_weight": np.full(60, 40.0)}):
        with pytest.warns(ConvergenceWarning, match="Drop the copies"):
            gp = SparseGPRegressorPMD(**ONE).fit(**rows)
        assert gp.diagnostics_["warnings"]
    # Rows measured twice, and copies of what has no noise, are no harm.
    other = y + 0.2 * np.random.default_rng(3).standard_normal(60)
    for rows in (
        (twice["X"], np.column_stack([y, other]).ravel()),
        (twice["X"], np.sin(twice["X"].sum(axis=1))),
    ):
        assert not SparseGPRegressorPMD(**ONE).fit(*rows).diagnostics_["warnings"]


@pytest.mark.parametrize("origin, unit", [(0.0, 1.0), (2000.0, 1 / 365.25), (738_000.0, 1.0)])
def test_where_time_begins_changes_no_forecast(origin, unit):
    """Years, and ordinal days, of which rows differ by 1e-7 of the kernel's variance: a smallest
    noise in proportion to that hid trend and season (errors of 6 in the place of .45)."""
    days, season, y = trend_and_season()
    gp = SparseGPRegressorPMD(
        ConstantKernel() * ExpSineSquared(1.0, 365.25 * unit, periodicity_bounds="fixed")
        + DotProduct() + WhiteKernel(), **ONE,
    )  # fmt: skip
    past, X = days < 1095.0, (origin + unit * days)[:, None]
    gap = gp.fit(X[past], y[past]).predict(X[~past]) - (0.01 * days + season)[~past]
    assert np.sqrt(np.mean(gap**2)) < 0.25  # Noise of .5, 110 rows: .1 to .2.


def test_columns_whose_rounding_hides_what_rows_differ_by_are_named():
    days, _, y = trend_and_season()
    gp = SparseGPRegressorPMD(RBF(1e7) + DotProduct() + WhiteKernel(), **ONE)
    X = np.column_stack([days / 100.0, 1.7e9 + 86_400.0 * days])
    with pytest.warns(ConvergenceWarning, match="column 1 is 1.76264e.* divide by the deviation"):
        gp.fit(X, y)
    X[:, 1] = 1.7e9
    with pytest.warns(ConvergenceWarning, match="deviation of 0. Subtract that average from it[.]"):
        gp.fit(X, y)


@pytest.mark.parametrize("constant", [ConstantKernel(1e14, "fixed"), 1.0])
def test_a_kernel_whose_rounding_is_of_its_own_size_blames_no_column(constant):
    rng = np.random.default_rng(0)
    X, kernel = rng.normal(size=(60, 2)), DotProduct(1.0 if constant != 1.0 else 1e7, "fixed")
    gp = SparseGPRegressorPMD(constant * kernel + WhiteKernel(), **ONE)
    with pytest.warns(ConvergenceWarning, match="scale X, start constants and the sigma_0"):
        gp.fit(X, X[:, 0] + 0.1 * rng.normal(size=60))


@pytest.mark.parametrize("origin", [300.0, 1e3, 1e5])
def test_no_noise_is_below_the_rounding_of_what_rows_share(origin):
    """Factors failed at every kernel, and SciPy's error of an infinity was the answer."""
    x = np.linspace(0.0, 1.0, 60)[:, None]
    for kernel in (DotProduct(), ConstantKernel() * DotProduct()):
        found = SparseGPRegressorPMD(kernel, **ONE).fit(x + origin, 2.0 * x[:, 0])
        np.testing.assert_allclose(found.predict(x + origin), 2.0 * x[:, 0], atol=0.01)


def test_years_without_noise_are_interpolated():
    x = np.linspace(1990.0, 2020.0, 61)[:, None]
    f = 0.1 * (x[:, 0] - 2000.0) + np.sin(x[:, 0] / 3.0)
    found = SparseGPRegressorPMD(DotProduct() + RBF(), **ONE).fit(x[::2], f[::2])
    np.testing.assert_allclose(found.predict(x), f, atol=0.01)  # Errors of .5 by less noise.


@pytest.mark.parametrize("far", [1e9, 1e30])
def test_how_far_an_outlier_lies_changes_nothing_at_other_rows(far):
    """Its square hid the distances of all others (errors a third larger), or ended the fit."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(20, 2)), rng.normal(size=(9, 2))
    y, here, there = np.sin(2.0 * X[:, 0]), X.copy(), X.copy()
    here[3, 0], there[3, 0] = 1e3, far
    here, there = (SparseGPRegressorPMD(**ONE).fit(rows, y).predict(new) for rows in (here, there))
    np.testing.assert_allclose(there, here, atol=1e-4)


def trend_and_season():
    """Four years of days, their season, and targets."""
    rng = np.random.default_rng(0)
    days = np.arange(0.0, 1460.0, 10.0)
    season = 2.0 * np.sin(2.0 * np.pi * days / 365.25)
    return days, season, 0.01 * days + season + 0.5 * rng.normal(size=len(days))
