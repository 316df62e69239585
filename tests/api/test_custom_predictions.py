"""Predictions, densities and draws of a user's own model, against exact answers."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skpmd import ParticleMirrorDescent
from skpmd.model_comparison import loo, waic
from skpmd.wrappers import predict_interval

SIGMA, TAU = 0.7, 2.0  # Noise of a linear regression, and the width of the prior.
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 2))
Y = X @ [1.0, -0.5] + SIGMA * rng.standard_normal(60)
NEW = rng.standard_normal((12, 2)) * [[1.0, 3.0]]


def linear_mean(theta, X):
    """No product of matrices, whose digits depend on the number of rows."""
    return theta[:, :1] * X[:, 0] + theta[:, 1:] * X[:, 1]


def linear_pointwise(theta, X, y, sigma=SIGMA):
    return stats.norm(linear_mean(theta, X), sigma).logpdf(y)


def linear_likelihood(theta, X, y):
    return linear_pointwise(theta, X, y).sum(axis=1)


def linear_targets(theta, X, rng):
    return rng.normal(linear_mean(theta, X), SIGMA)


def linear_prior(theta):
    return stats.norm(0.0, TAU).logpdf(theta).sum(axis=1)


def linear_draws(rng, m):
    return TAU * rng.standard_normal((m, 2))


LINEAR = {
    "log_likelihood": None,
    "log_prior": linear_prior,
    "sample_prior": linear_draws,
    "log_likelihood_pointwise": linear_pointwise,
    "predict_mean": linear_mean,
    "sample_targets": linear_targets,
    "names": ["first", "second"],
    "n_particles": 4000,
    "random_state": 0,
}


def linear(**params):
    return ParticleMirrorDescent(**{**LINEAR, **params})


def exact(X, y, new):
    """Mean and standard deviation of the regression function at new rows."""
    precision = X.T @ X / SIGMA**2 + np.eye(2) / TAU**2
    cov = np.linalg.inv(precision)
    return new @ cov @ X.T @ y / SIGMA**2, np.sqrt(np.einsum("ij,jk,ik->i", new, cov, new))


@pytest.fixture(scope="module")
def fitted():
    return linear().fit(X, Y)


# -------------------------------------------------------------------- means and intervals
def test_predictions_of_a_linear_regression(fitted):
    """4000 antithetic particles, some 3700 effective: 4 errors of a mean are 0.07 sd, of a sd
    4.7 %, and of a quantile at 5 % 0.14 sd; 4000 draws of y have the same."""
    mean, sd = exact(X, Y, NEW)
    of_y = np.hypot(sd, SIGMA)
    found, found_sd = fitted.predict(NEW, return_std=True)
    assert (np.abs(found - mean) < 0.07 * sd).all()
    np.testing.assert_allclose(found_sd, of_y, rtol=0.047)
    for target, spread in (("y", of_y), ("mean", sd)):
        ends = fitted.predict_interval(NEW, level=0.9, target=target)
        expected = stats.norm(mean, spread).interval(0.9)
        assert (np.abs(ends - np.transpose(expected)) < 0.14 * spread[:, None]).all()
        # The probability that it holds: its error is sqrt(0.9 * 0.1 / 4000) = 0.5 %.
        held = np.diff(stats.norm(mean[:, None], spread[:, None]).cdf(ends), axis=1)
        np.testing.assert_allclose(held, 0.9, atol=0.02)


def test_spread_is_that_of_the_mean_without_draws_of_targets():
    model = linear(sample_targets=None).fit(X, Y)
    _, sd = exact(X, Y, NEW)
    with pytest.warns(UserWarning, match="return_std is that of the mean alone.*sample_targets"):
        np.testing.assert_allclose(model.predict(NEW, return_std=True)[1], sd, rtol=0.047)
    ends = model.predict_interval(NEW)
    np.testing.assert_array_equal(ends, model.predict_interval(NEW, target="mean"))
    with pytest.warns(UserWarning, match="return_interval is that of the mean alone"):
        np.testing.assert_array_equal(ends, model.predict(NEW, return_interval=0.9)[1])
    with pytest.raises(ValueError, match="target='y' needs sample_targets"):
        model.predict_interval(NEW, target="y")


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_row_has_the_same_digits_whatever_the_other_rows_are(fitted, n_jobs):
    model = pickle.loads(pickle.dumps(fitted)).set_params(n_jobs=n_jobs)
    many = np.tile(NEW, (30, 1))  # More than one part.
    places = [3, 150, 0, 0, 7]
    for answer in (
        model.predict,
        lambda X: model.predict(X, return_std=True)[1],
        model.predict_interval,
        lambda X: model.predict_interval(X, target="mean"),
    ):
        whole = answer(many)
        np.testing.assert_array_equal(whole[places], answer(many[places]))
        np.testing.assert_array_equal(whole[5:6], answer(NEW[5:6]))
    np.testing.assert_array_equal(model.predict_interval(NEW), fitted.predict_interval(NEW))


def test_several_targets_have_an_axis():
    def both(theta, X):
        return np.stack([linear_mean(theta, X), 2.0 * linear_mean(theta, X)], axis=2)

    def draws(theta, X, rng):
        return rng.normal(both(theta, X), SIGMA)

    model = linear(predict_mean=both, sample_targets=draws, n_particles=1000).fit(X, Y)
    one = linear(n_particles=1000, sample_targets=None).fit(X, Y)
    found = model.predict(NEW)
    assert found.shape == (12, 2)
    np.testing.assert_array_equal(found[:, 0], one.predict(NEW))
    assert model.predict(NEW, return_std=True)[1].shape == (12, 2)
    ends = model.predict_interval(NEW, target="mean")
    np.testing.assert_array_equal(ends[:, 0], one.predict_interval(NEW))
    np.testing.assert_array_equal(ends[:, 1], 2.0 * one.predict_interval(NEW))
    assert model.predict_interval(NEW).shape == (12, 2, 2)
    assert model.sample_y(NEW, 5).shape == (12, 2, 5)


# -------------------------------------------------------------------- counts
COUNTS = np.array([3, 1, 4])
SHAPE, RATE = 2.0, 0.5
POISSON = {  # theta is the log of the rate, whose prior is a gamma.
    "log_likelihood": None,
    "log_prior": lambda theta: (
        stats.gamma(SHAPE, scale=1.0 / RATE).logpdf(np.exp(theta[:, 0])) + theta[:, 0]
    ),
    "sample_prior": lambda rng, m: np.log(rng.gamma(SHAPE, 1.0 / RATE, (m, 1))),
    "log_likelihood_pointwise": lambda theta, X, y: stats.poisson(np.exp(theta)).logpmf(y),
    "predict_mean": lambda theta, X: np.repeat(np.exp(theta), len(X), axis=1),
    "sample_targets": lambda theta, X, rng: rng.poisson(np.exp(theta), (len(theta), len(X))),
}


def test_counts_with_a_gamma_prior_are_negative_binomial():
    """4000 particles: errors of the mean and the density are some 1 % of a sd."""
    model = ParticleMirrorDescent(**POISSON, n_particles=4000, random_state=0)
    shape, rate = SHAPE + COUNTS.sum(), RATE + len(COUNTS)
    exact = stats.nbinom(shape, rate / (rate + 1.0))
    model.fit(np.zeros((3, 1)), COUNTS)
    # exp of the mean of theta is 5 % less, half a sd of the data's.
    mean, sd = model.predict([[0.0]], return_std=True)
    assert mean[0] == pytest.approx(shape / rate, rel=0.01)
    assert sd[0] == pytest.approx(exact.std(), rel=0.05)
    lower, upper = model.predict_interval([[0.0]])[0]
    assert abs(lower - exact.ppf(0.05)) < 1.0 and abs(upper - exact.ppf(0.95)) < 1.0
    assert model.score(np.zeros((3, 1)), COUNTS) == pytest.approx(
        exact.logpmf(COUNTS).mean(), abs=0.01
    )
    weights = [1.0, 0.0, 2.0]
    assert model.score(np.zeros((3, 1)), COUNTS, weights) == pytest.approx(
        np.average(exact.logpmf(COUNTS), weights=weights), abs=0.01
    )
    draws = model.sample_y(np.zeros((2, 1)), 20_000, random_state=1)
    assert draws.shape == (2, 20_000) and draws.dtype.kind == "i"
    # Rows share a particle: their covariance is the variance of the rate.
    assert draws.mean() == pytest.approx(exact.mean(), rel=0.02)
    assert np.cov(draws)[0, 1] == pytest.approx(shape / rate**2, rel=0.1)


def test_draws_are_those_of_their_seed(fitted):
    one, other = (fitted.sample_y(NEW, 7, random_state=seed) for seed in (0, 1))
    np.testing.assert_array_equal(one, fitted.sample_y(NEW, 7))
    assert not np.array_equal(one, other)
    mean, sd = exact(X, Y, NEW)
    draws = fitted.sample_y(NEW, 10_000, random_state=2)
    assert (np.abs(draws.mean(axis=1) - mean) < 0.1 * np.hypot(sd, SIGMA)).all()


# -------------------------------------------------------------------- densities of rows
def test_a_likelihood_by_rows_is_one_of_all_rows():
    by_rows = linear(n_particles=1000).fit(X, Y)
    by_sums = linear(log_likelihood=linear_likelihood, n_particles=1000).fit(X, Y)
    np.testing.assert_allclose(
        by_rows.posterior_.particles, by_sums.posterior_.particles, rtol=1e-7
    )
    assert by_rows.log_evidence_ == pytest.approx(by_sums.log_evidence_, abs=1e-6)
    cov = TAU**2 * X @ X.T + SIGMA**2 * np.eye(60)
    exact = stats.multivariate_normal(np.zeros(60), cov).logpdf(Y)
    assert by_rows.log_evidence_ == pytest.approx(exact, abs=0.05)


def test_pointwise_values_take_few_calls():
    calls = []

    def counted(theta, X, y):
        calls.append((len(theta), len(X)))
        return linear_pointwise(theta, X, y)

    model = linear(log_likelihood_pointwise=counted, n_particles=1000).fit(X, Y)
    calls.clear()
    table = model.pointwise_log_likelihood(X, Y)
    assert calls == [(len(table), 60)]
    np.testing.assert_array_equal(table, linear_pointwise(model.posterior_.particles, X, Y))
    many = np.repeat(np.arange(60), 20)
    calls.clear()
    table = model.pointwise_log_likelihood(X[many], Y[many])
    assert sum(m for m, _ in calls) == len(table) and all(m * n <= 1 << 18 for m, n in calls)
    np.testing.assert_array_equal(
        table, linear_pointwise(model.posterior_.particles, X, Y)[:, many]
    )


def test_leave_one_out_is_that_of_the_conjugate_model(fitted):
    """Exact fits without each row; 4000 particles leave some thousandths of a nat a row."""
    expected = []
    for i in range(60):
        rest = np.delete(np.arange(60), i)
        mean, sd = exact(X[rest], Y[rest], X[i : i + 1])
        expected.append(stats.norm(mean[0], np.hypot(sd[0], SIGMA)).logpdf(Y[i]))
    found = loo(fitted, X, Y)
    np.testing.assert_allclose(found.pointwise, expected, atol=0.02)
    assert found.n_bad == 0
    assert waic(fitted, X, Y).elpd == pytest.approx(found.elpd, abs=0.2)
    without = linear(log_likelihood=linear_likelihood, log_likelihood_pointwise=None)
    slow = loo(without.fit(X, Y), X, Y)
    np.testing.assert_allclose(slow.pointwise, found.pointwise, atol=1e-6)
    scaled = make_pipeline(FunctionTransformer(), linear()).fit(X, Y)
    np.testing.assert_array_equal(loo(scaled, X, Y).pointwise, found.pointwise)


def test_two_likelihoods_that_disagree_are_refused():
    def without_constant(theta, X, y):
        return linear_likelihood(theta, X, y) + 3.0

    model = linear(log_likelihood=without_constant, n_particles=1000).fit(X, Y)
    for call in (model.pointwise_log_likelihood, model.score):
        with pytest.raises(ValueError, match="log_likelihood is not the sum of log_likelihood_p"):
            call(X, Y)


def test_particles_off_the_support_are_nowhere_evaluated():
    """The edge of a disc depends on both coordinates, so that some particles fall beyond it."""

    def inside(theta):
        assert (theta**2).sum(axis=1).max() <= 4.0
        return theta

    def draws(rng, m):
        angle, radius = rng.uniform(0.0, 2.0 * np.pi, m), 2.0 * np.sqrt(rng.random(m))
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

    model = linear(
        log_prior=lambda theta: np.where(
            (theta**2).sum(axis=1) <= 4.0, -np.log(4.0 * np.pi), -np.inf
        ),
        sample_prior=draws,
        log_likelihood_pointwise=lambda theta, X, y: linear_pointwise(inside(theta), X, y),
        predict_mean=lambda theta, X: linear_mean(inside(theta), X),
        sample_targets=lambda theta, X, rng: linear_targets(inside(theta), X, rng),
        n_particles=1000,
    ).fit(X[:8], Y[:8])
    assert (model.posterior_.weights == 0.0).any()
    assert np.isfinite(loo(model, X[:8], Y[:8]).elpd)
    assert np.isfinite(model.predict_interval(NEW)).all() and np.isfinite(model.predict(NEW)).all()
    assert np.isfinite(model.score(X[:8], Y[:8])) and np.isfinite(model.sample_y(NEW)).all()


# -------------------------------------------------------------------- searches and pipelines
def test_pipelines_and_transformed_targets():
    pipe = make_pipeline(StandardScaler(), linear(n_particles=1000)).fit(X, Y)
    mean, ends = pipe.predict(NEW, return_interval=0.8)
    np.testing.assert_array_equal(ends, predict_interval(pipe, NEW, level=0.8))
    np.testing.assert_array_equal(mean, pipe.predict(NEW))
    model = TransformedTargetRegressor(linear(n_particles=1000), func=np.log, inverse_func=np.exp)
    model.fit(X, np.exp(Y))
    plain = linear(n_particles=1000).fit(X, Y)
    np.testing.assert_allclose(
        predict_interval(model, NEW), np.exp(plain.predict_interval(NEW)), rtol=1e-6
    )


# -------------------------------------------------------------------- what there is, and errors
@pytest.mark.parametrize(
    "given, methods",
    [
        ((), ()),
        (("predict_mean",), ("predict", "predict_interval")),
        (("sample_targets",), ("sample_y", "predict_interval")),
        (("predict_mean", "sample_targets"), ("predict", "sample_y", "predict_interval")),
    ],
)
def test_methods_are_there_where_they_can_be(given, methods):
    every = {"predict": "predict_mean", "predict_interval": "", "sample_y": "sample_targets"}
    without = {name: None for name in ("predict_mean", "sample_targets") if name not in given}
    model = linear(**without)
    assert {name for name in every if hasattr(model, name)} == set(methods)
    for name in set(every) - set(methods):
        with pytest.raises(AttributeError) as error:
            getattr(model, name)
        assert f"It needs {every[name]}" in str(error.value.__cause__)
    for name in methods:
        with pytest.raises(NotFittedError):
            getattr(model, name)(X)


def test_names_are_those_of_the_posterior(fitted):
    assert fitted.posterior_.names == ["first", "second"]
    assert fitted.posterior_.summary()["name"] == ["first", "second"]
    stream = linear(names=np.array(["u", "v"]), n_particles=1000).partial_fit(X[:30], Y[:30])
    assert stream.partial_fit(X[30:], Y[30:]).posterior_.names == ["u", "v"]
    copy = clone(fitted)
    assert copy.names == ["first", "second"] and copy.get_params()["predict_mean"] is linear_mean


@pytest.mark.parametrize(
    "change, error, match",
    [
        ({"names": ["one"]}, ValueError, "names has 1 entries, .* theta has 2 coordinates"),
        ({"names": ["a", "a"]}, ValueError, "names must be a different str"),
        ({"names": [1, 2]}, ValueError, "names must be a different str"),
        ({"names": np.array(2)}, ValueError, "names must be a different str"),
        ({"names": "ab"}, ValueError, "names"),
        (
            {"log_likelihood_pointwise": None},
            ValueError,
            "There is no likelihood: give log_likelihood, or",
        ),
        ({"predict_mean": lambda theta: theta}, ValueError, r"predict_mean is called as"),
        ({"sample_targets": linear_mean}, ValueError, r"sample_targets is called as"),
        (
            {"log_likelihood_pointwise": linear_likelihood},
            ValueError,
            r"log_likelihood_pointwise must return shape \(\d+, 60\)",
        ),
        (
            {"log_likelihood_pointwise": lambda theta, X, y: linear_mean(theta, X) * np.nan},
            FloatingPointError,
            "log_likelihood_pointwise returned nan",
        ),
        (
            {"log_likelihood_pointwise": lambda theta, X, y: linear_mean(theta, X).astype(str)},
            TypeError,
            "log_likelihood_pointwise must return real numbers",
        ),
    ],
)
def test_errors_of_a_fit_name_what_is_wrong(change, error, match):
    with pytest.raises(error, match=match):
        linear(**{"n_particles": 100, **change}).fit(X, Y)


@pytest.mark.parametrize(
    "change, error, match",
    [
        ({"predict_mean": lambda theta, X: theta}, ValueError, r"\(\d+, 12\) or \(\d+, 12, t\)"),
        ({"predict_mean": lambda theta, X: None}, ValueError, r"predict_mean must return shape"),
        (
            {"predict_mean": lambda theta, X: linear_mean(theta, X) * np.nan},
            FloatingPointError,
            "predict_mean returned nan",
        ),
        (
            {"sample_targets": lambda theta, X, rng: np.full((len(theta), len(X)), "word")},
            TypeError,
            "sample_targets must return real numbers",
        ),
        (
            {"sample_targets": lambda theta, X, rng: rng.normal(size=len(X))},
            ValueError,
            "sample_targets must return shape",
        ),
    ],
)
def test_errors_of_predictions_name_what_is_wrong(fitted, change, error, match):
    model = pickle.loads(pickle.dumps(fitted)).set_params(**change)
    with pytest.raises(error, match=match):
        model.predict(NEW, return_interval=0.9)


def test_odd_arguments(fitted):
    with pytest.raises(RuntimeError, match="At most one of return_std and return_interval"):
        fitted.predict(NEW, return_std=True, return_interval=0.9)
    with pytest.raises(ValueError, match="level must lie strictly between"):
        fitted.predict_interval(NEW, level=90)
    for target in ("f", None, ["y"]):
        with pytest.raises(ValueError, match="target must be 'auto', 'y' or 'mean'"):
            fitted.predict_interval(NEW, target=target)
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample_y(NEW, 0)
    with pytest.raises(ValueError, match="X has 1 features"):
        fitted.predict(NEW[:, :1])
    with pytest.raises(ValueError, match="X is None"):
        fitted.predict(None)


def test_targets_may_be_words(fitted):
    model = pickle.loads(pickle.dumps(fitted)).set_params(
        sample_targets=lambda theta, X, rng: np.where(linear_targets(theta, X, rng) > 0, "up", "no")
    )
    assert set(model.sample_y(NEW, 50).ravel()) == {"up", "no"}


def test_functions_may_change_what_they_are_given(fitted):
    def in_place(theta, X):
        theta *= 2.0
        return linear_mean(theta, X)

    model = pickle.loads(pickle.dumps(fitted)).set_params(predict_mean=in_place)
    np.testing.assert_allclose(model.predict(NEW), 2.0 * fitted.predict(NEW))
    np.testing.assert_allclose(model.predict(NEW), 2.0 * fitted.predict(NEW))
