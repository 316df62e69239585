"""Data of a user's own model as they are: frames, lists, dicts, or none at all."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.utils import get_tags

from skpmd import ParticleMirrorDescent
from skpmd.model_comparison import loo

rng = np.random.default_rng(0)
GROUP = rng.choice(["left", "right"], 50)
AGE = np.where(rng.random(50) < 0.2, np.nan, rng.normal(size=50))  # Missing ones count for nothing.
Y = np.where(GROUP == "left", 0.5, -1.0) + 0.3 * np.nan_to_num(AGE) + rng.standard_normal(50)
FRAME = pd.DataFrame({"group": GROUP, "age": AGE}, index=rng.permutation(50) + 7)
ARRAY = np.column_stack([GROUP == "left", GROUP == "right", np.nan_to_num(AGE)]).astype(float)
D = 3
PRIOR = {
    "log_prior": lambda theta: stats.norm.logpdf(theta).sum(axis=1),
    "sample_prior": lambda rng, m: rng.standard_normal((m, D)),
}


def array_mean(theta, X):
    return sum(theta[:, j : j + 1] * X[:, j] for j in range(D))


def design(group, age):
    group, age = np.asarray(group), np.asarray(age, dtype=float)
    return np.column_stack([group == "left", group == "right", np.nan_to_num(age)]).astype(float)


class Recorder:
    """The functions of a model of data of one type, which check that they are of that type."""

    def __init__(self, type_, read):
        self.type, self.read = type_, read

    def mean(self, theta, X):
        assert type(X) is self.type
        return array_mean(theta, self.read(X))

    def pointwise(self, theta, X, y):
        return stats.norm.logpdf(np.asarray(y, dtype=float), self.mean(theta, X))

    def targets(self, theta, X, rng):
        return rng.normal(self.mean(theta, X))


def model_of(recorder, **params):
    return ParticleMirrorDescent(
        None,
        **PRIOR,
        log_likelihood_pointwise=recorder.pointwise,
        predict_mean=recorder.mean,
        sample_targets=recorder.targets,
        random_state=0,
        **params,
    )


class Person:
    """An object of a user, which is no sequence."""

    def __init__(self, group, age):
        self.group, self.age = group, age


PEOPLE = [Person(*row) for row in zip(GROUP, AGE, strict=True)]
LINES = [[group] if np.isnan(age) else [group, age] for group, age in zip(GROUP, AGE, strict=True)]


def _of_people(people):
    return design([one.group for one in people], [one.age for one in people])


def _of_lines(lines):
    return design([one[0] for one in lines], [one[1] if len(one) > 1 else 0.0 for one in lines])


KINDS = {  # Rows as they are, what reads them, and their targets.
    "frame": (FRAME, lambda X: design(X["group"], X["age"]), pd.Series(Y, FRAME.index)),
    "objects": (PEOPLE, _of_people, list(Y)),
    "lists of unequal length": (LINES, _of_lines, tuple(Y)),
    "dict of columns": (
        {"group": GROUP.tolist(), "age": pd.Series(AGE)},
        lambda X: design(X["group"], X["age"]),
        Y,
    ),
    "array of objects": (FRAME.to_numpy(), lambda X: design(X[:, 0], X[:, 1]), Y.astype(object)),
}
PARAMS = {
    "auto": {"n_particles": 1000},
    "prior": {"n_particles": 1000, "proposal": "prior", "batch_size": 20},
}


def plain(**params):
    return model_of(Recorder(np.ndarray, lambda X: X), **params)


@pytest.mark.slow_but("dict of columns-auto")
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_reach_the_functions_as_they_are(kind, params):
    X, read, y = KINDS[kind]
    model = model_of(Recorder(type(X), read), validate=False, **params)
    times = np.arange(50) % 3
    for weight in (None, times):
        model.fit(X, y, sample_weight=weight)
        expected = plain(**params).fit(ARRAY, Y, sample_weight=weight)
        np.testing.assert_array_equal(model.posterior_.particles, expected.posterior_.particles)
        np.testing.assert_array_equal(model.posterior_.weights, expected.posterior_.weights)
    for method in ("predict", "predict_interval", "sample_y"):
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(expected, method)(ARRAY))
    assert model.score(X, y) == expected.score(ARRAY, Y)
    np.testing.assert_array_equal(
        loo(model, X, y, sample_weight=times).pointwise,
        loo(expected, ARRAY, Y, sample_weight=times).pointwise,
    )


def test_parts_of_a_stream_are_as_they_are():
    recorder = Recorder(pd.DataFrame, KINDS["frame"][1])
    stream, expected = model_of(recorder, validate=False), plain()
    for part in np.array_split(np.arange(50), 3):
        stream.partial_fit(FRAME.iloc[part], Y[part])
        expected.partial_fit(ARRAY[part], Y[part])
    np.testing.assert_array_equal(stream.posterior_.mean(), expected.posterior_.mean())


def test_gradients_get_rows_as_they_are():
    recorder = Recorder(pd.DataFrame, KINDS["frame"][1])

    def gradient(theta, X, y):
        rows = recorder.read(X)
        off = y - array_mean(theta, rows)
        value = recorder.pointwise(theta, X, y).sum(axis=1) + PRIOR["log_prior"](theta)
        return value, off @ rows - theta

    model = model_of(recorder, validate=False, log_joint_gradient=gradient).fit(FRAME, Y)
    cov = np.linalg.inv(ARRAY.T @ ARRAY + np.eye(D))
    error = np.abs(model.posterior_.mean() - cov @ ARRAY.T @ Y) / np.sqrt(np.diag(cov))
    assert error.max() < 0.15  # 1000 particles: four Monte Carlo errors.


def test_columns_and_their_names_are_recorded_and_not_checked():
    recorder = Recorder(pd.DataFrame, KINDS["frame"][1])
    model = model_of(recorder, validate=False, n_particles=1000).fit(FRAME, Y)
    assert list(model.feature_names_in_) == ["group", "age"] and model.n_features_in_ == 2
    other = FRAME[["age", "group"]].assign(more=0.0)
    np.testing.assert_array_equal(model.predict(other), model.predict(FRAME))
    lists = model_of(Recorder(list, _of_lines), validate=False, n_particles=1000).fit(LINES, Y)
    assert not hasattr(lists, "n_features_in_") and not hasattr(lists, "feature_names_in_")
    assert get_tags(model).no_validation and not get_tags(plain()).no_validation


def test_cross_validation_of_a_list_of_objects():
    model = model_of(Recorder(list, _of_people), validate=False, n_particles=1000)
    expected = cross_val_score(plain(n_particles=1000), ARRAY, Y, cv=3)
    np.testing.assert_array_equal(cross_val_score(model, PEOPLE, Y, cv=3), expected)


@pytest.mark.parametrize(
    "X, y, error, match",
    [
        (FRAME, Y[:-1], ValueError, "inconsistent numbers of samples: .*50.*49"),
        ({"a": [1, 2], "b": [1]}, None, ValueError, r"X\['a'\]"),
        ([], None, ValueError, "X has no rows"),
        (3.0, None, TypeError, "."),
        (iter(LINES), None, TypeError, "X is a list_iterator"),
    ],
    ids=["lengths", "columns", "empty", "number", "iterator"],
)
def test_what_has_no_rows_is_refused(X, y, error, match):
    with pytest.raises(error, match=match):
        model_of(Recorder(list, _of_lines), validate=False).fit(X, y)


# -------------------------------------------------------------------- no data
KNOWN = rng.normal(1.0, 1.0, 30)


def known_pointwise(theta, X, y):
    assert X is None and y is None
    return stats.norm.logpdf(KNOWN, theta)


def known_likelihood(theta, X, y):
    return known_pointwise(theta, X, y).sum(axis=1)


def normal_prior(theta):
    return stats.norm.logpdf(theta[:, 0])


def normal_draws(rng, m):
    return rng.standard_normal((m, 1))


def constant(theta, X):
    assert X is None
    return theta


def draws_of(theta, X, rng):
    return rng.normal(theta, size=(len(theta), 2))


WITHOUT = (known_likelihood, normal_prior, normal_draws)
VARIANCE = 1.0 / (1.0 + len(KNOWN))


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
@pytest.mark.parametrize("by_rows", [False, True])
def test_a_model_may_know_its_data(params, by_rows):
    """1000 particles, some 700 effective: four errors of a mean are 0.15 sd."""
    likelihood = {"log_likelihood_pointwise": known_pointwise} if by_rows else {}
    model = ParticleMirrorDescent(*WITHOUT, **likelihood, **params, random_state=0)
    if by_rows:
        model.set_params(log_likelihood=None)
    model.fit()
    assert abs(model.posterior_.mean()[0] - VARIANCE * KNOWN.sum()) < 0.15 * VARIANCE**0.5
    cov = np.eye(30) + 1.0
    exact = stats.multivariate_normal(np.zeros(30), cov).logpdf(KNOWN)
    assert model.log_evidence_ == pytest.approx(exact, abs=0.1)
    assert not hasattr(model, "n_features_in_")
    pickle.loads(pickle.dumps(model))


def test_predictions_without_rows():
    model = ParticleMirrorDescent(
        *WITHOUT,
        log_likelihood_pointwise=known_pointwise,
        predict_mean=constant,
        sample_targets=draws_of,
        random_state=0,
        n_particles=4000,
    ).fit()
    np.testing.assert_allclose(model.predict(None), model.posterior_.mean(), rtol=1e-12)
    ends = model.predict_interval(None, level=0.9)
    exact = stats.norm(VARIANCE * KNOWN.sum(), np.sqrt(1.0 + VARIANCE)).interval(0.9)
    np.testing.assert_allclose(ends, [exact] * 2, atol=0.14)
    assert model.sample_y(None, 5).shape == (2, 5)
    table = model.pointwise_log_likelihood()
    np.testing.assert_array_equal(table, known_pointwise(model.posterior_.particles, None, None))
    held_out = [
        stats.norm((KNOWN.sum() - x) / 30.0, np.sqrt(1.0 + 1.0 / 30.0)).logpdf(x) for x in KNOWN
    ]
    np.testing.assert_allclose(loo(model, None).pointwise, held_out, atol=0.02)
    mean = stats.norm(VARIANCE * KNOWN.sum(), np.sqrt(1.0 + VARIANCE)).logpdf(KNOWN).mean()
    assert model.score() == pytest.approx(mean, abs=0.01)


def test_rows_may_be_those_of_y():
    def of_y(theta, X, y):
        assert X is None
        return stats.norm.logpdf(y, theta)

    functions = {"log_prior": normal_prior, "sample_prior": normal_draws, "random_state": 0}
    model = ParticleMirrorDescent(None, log_likelihood_pointwise=of_y, **functions)
    times = np.arange(30) % 3
    for weight in (None, times):
        model.fit(y=KNOWN, sample_weight=weight)
        w = np.ones(30) if weight is None else weight
        sd = (1.0 + w.sum()) ** -0.5
        assert abs(model.posterior_.mean()[0] - sd**2 * (w @ KNOWN)) < 0.15 * sd
    assert loo(model, None, KNOWN, sample_weight=times).pointwise.shape == (30,)
    stream = clone(model)
    for part in np.array_split(KNOWN, 3):
        stream.partial_fit(None, part)
    assert abs(stream.posterior_.mean()[0] - VARIANCE * KNOWN.sum()) < 0.3 * VARIANCE**0.5


def test_what_needs_rows_says_so():
    model = ParticleMirrorDescent(*WITHOUT, random_state=0)
    with pytest.raises(ValueError, match="sample_weight was given without X and y"):
        ParticleMirrorDescent(None, *WITHOUT[1:], log_likelihood_pointwise=known_pointwise).fit(
            sample_weight=[2.0]
        )
    with pytest.raises(ValueError, match="X is None"):
        model.partial_fit(None)
    assert not hasattr(model, "posterior_")


@pytest.mark.parametrize("kind", ["given", "held", "counted"])
def test_a_likelihood_that_is_no_sum_over_the_given_rows_is_warned_of(kind):
    """1,500 rows come in two parts; a function that holds all of them counts them twice."""
    y = np.random.default_rng(1).gamma(2.0, size=1500)

    def log_likelihood(theta, X, given):
        own, n = (y if kind == "held" else given), (1500 if kind == "counted" else len(given))
        return n * theta[:, 0] - np.exp(theta[:, 0]) * own.sum()

    model = ParticleMirrorDescent(log_likelihood, prior={"log": stats.norm()}, random_state=0)
    if kind == "given":
        assert model.fit(None, y).diagnostics_["warnings"] == []
        return
    whole = clone(model).set_params(batch_size=1500).fit(None, y)
    assert whole.diagnostics_["warnings"] == []
    with pytest.warns(ConvergenceWarning, match="sum over both halves"):
        model.fit(None, y)
    with pytest.warns(ConvergenceWarning, match="sum over both halves"):
        clone(model).partial_fit(None, y)


# ------------------------------------------------- frames, and a distribution of y in each row
PAIR = {"slope": stats.norm(0, 2), "shift": stats.norm(0, 2), "sd": stats.halfnorm(scale=2)}
TABLE = FRAME.fillna({"age": 0.0})


def line(theta, X):
    assert type(X) is pd.DataFrame
    is_left = (X["group"] == "left").to_numpy()
    mean = theta["slope"][:, None] * X["age"].to_numpy() + theta["shift"][:, None] * is_left
    return stats.norm(mean, theta["sd"][:, None])


def log_density(theta, X, y):
    return line(theta, X).logpdf(y)


def mean_of_line(theta, X):
    return line(theta, X).mean()


def draw_from_line(theta, X, rng):
    return line(theta, X).rvs(size=(len(theta), len(X)), random_state=rng)


def test_frames_reach_the_functions_of_a_checked_fit_too():
    model = ParticleMirrorDescent(distribution=line, prior=PAIR, random_state=0).fit(TABLE, Y)
    unchecked = clone(model).set_params(validate=False).fit(TABLE, Y)
    np.testing.assert_array_equal(model.posterior_.particles, unchecked.posterior_.particles)
    assert list(model.feature_names_in_) == ["group", "age"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TABLE[["age", "group"]])
    with pytest.raises(ValueError, match="X contains NaN, the first in row .* of column 'age'"):
        model.predict(FRAME)
    with pytest.raises(ValueError, match="X contains infinity"):
        clone(model).fit(TABLE.assign(age=np.inf), Y)
    stream = clone(model)
    for part in np.array_split(np.arange(50), 2):
        stream.partial_fit(TABLE.iloc[part], Y[part])
    error = np.abs(stream.posterior_.mean() - model.posterior_.mean()) / model.posterior_.std()
    assert error.max() < 0.2  # Two runs of 1000 particles, four Monte Carlo errors.


def test_polars():
    pl = pytest.importorskip("polars")

    def of_polars(theta, X):
        assert type(X) is pl.DataFrame
        return line(theta, pd.DataFrame(X.to_dict(as_series=False)))

    model = ParticleMirrorDescent(distribution=of_polars, prior=PAIR, random_state=0)
    frame = pl.DataFrame({name: TABLE[name].to_numpy() for name in TABLE})
    expected = clone(model).set_params(distribution=line).fit(TABLE, Y)
    np.testing.assert_array_equal(model.fit(frame, Y).predict(frame), expected.predict(TABLE))
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(frame.with_columns(age=np.nan), Y)


def test_a_function_that_wants_an_array_is_told_that_it_got_a_frame():
    def of_array(theta, X):
        return stats.norm(theta[:, :1] * X[:, 0], 1.0)

    with pytest.raises(Exception, match=".") as caught:
        ParticleMirrorDescent(distribution=of_array, prior=PAIR).fit(TABLE, Y)
    assert "with X as a DataFrame: np.asarray(X) is its array" in caught.value.__notes__[0]


def test_a_distribution_is_the_three_functions_of_rows():
    whole = ParticleMirrorDescent(distribution=line, prior=PAIR, random_state=0).fit(TABLE, Y)
    parts = ParticleMirrorDescent(
        log_likelihood_pointwise=log_density,
        prior=PAIR,
        predict_mean=mean_of_line,
        sample_targets=draw_from_line,
        random_state=0,
    ).fit(TABLE, Y)
    np.testing.assert_array_equal(whole.posterior_.particles, parts.posterior_.particles)
    for method in ("predict", "predict_interval", "sample_y"):
        one, other = (getattr(model, method)(TABLE) for model in (whole, parts))
        np.testing.assert_array_equal(one, other)
    assert whole.score(TABLE, Y) == parts.score(TABLE, Y)
    # What is given comes first.
    doubled = clone(whole).set_params(predict_mean=lambda theta, X: 2.0 * mean_of_line(theta, X))
    expected = 2.0 * whole.predict(TABLE)
    np.testing.assert_allclose(doubled.fit(TABLE, Y).predict(TABLE), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["counts", "numbers"])
def test_parameters_of_a_distribution_may_be_the_same_in_all_rows(kind):
    """One parameter for all rows, with X and without; the exact posteriors are gamma and normal."""
    if kind == "counts":
        y, family, prior = np.arange(20) % 4, stats.poisson, stats.gamma(2.0, scale=0.5)
        exact = stats.gamma(2.0 + y.sum(), scale=1.0 / (2.0 + len(y)))
    else:
        y, family, prior = KNOWN, stats.norm, stats.norm(0.0, 1.0)
        exact = stats.norm(VARIANCE * y.sum(), VARIANCE**0.5)
    model = ParticleMirrorDescent(
        distribution=lambda theta, X: family(theta["a"][:, None]),
        prior={"a": prior},
        n_particles=4000,
        random_state=0,
    )
    for X in (None, np.zeros((len(y), 1))):
        model.fit(X, y)
        # Some 3,000 effective draws: four errors of a mean are 0.07 sd.
        assert abs(model.predict(X)[0] - exact.mean()) < 0.07 * exact.std()
        n = 1 if X is None else len(y)
        assert model.predict(X).shape == (n,) and model.sample_y(X, 5).shape == (n, 5)
    draws = model.sample_y(X[:1], 20_000)
    # 20,000 draws of one row: four errors of their mean.
    assert abs(draws.mean() - exact.mean()) < 4.0 * draws.std() / np.sqrt(10_000)


@pytest.mark.parametrize("wrong", [stats.norm, 0.5, stats.multivariate_normal([0.0])])
def test_what_is_no_distribution_of_rows_is_refused(wrong):
    model = ParticleMirrorDescent(distribution=lambda theta, X: wrong, prior=PAIR)
    with pytest.raises((TypeError, ValueError), match="distribution must return|must return shape"):
        model.fit(TABLE, Y)
