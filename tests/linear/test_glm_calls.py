"""Generalised linear models in use: priors, streams, merges, files, pipelines, blocks, errors."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpmd
from skpmd import BayesianGLMRegressorPMD
from skpmd.data import Blocks
from skpmd.model_comparison import loo
from skpmd.wrappers import posterior_of, predict_interval
from tests.linear.test_glm import (
    EACH,
    ETA,
    FEW,
    TARGETS,
    N,
    X,
    assert_alike,
    assert_moments,
    fitted,
)

YEARS = np.linspace(0.3, 3.0, N)
FRAME = pd.DataFrame({"age": X[:, 0], "power": X[:, 1], "years": YEARS})
CLAIMS = np.random.default_rng(5).poisson(YEARS * np.exp(ETA)).astype(float)


def moments(model, centre):
    """Means and standard deviations, of the intercept where columns are at a centre."""
    p = len(centre)

    def moved(theta):
        move = theta[:, :p] @ centre
        return np.column_stack([theta[:, :p], theta[:, p] + move, theta[:, p + 1 :]])

    theta, w = moved(model.posterior_.particles), model.posterior_.weights
    mean = w @ theta
    return mean, np.sqrt(w @ (theta - mean) ** 2)


def gap(one, other):
    """Largest difference of a posterior mean, in standard deviations of the other."""
    centre, k = other._state.units.centre, other._width + other._state.response.n_dispersions
    (mean, _), (expected, sd) = moments(one, centre), moments(other, centre)
    return np.abs((mean - expected) / sd)[:k].max()


# ------------------------------------------------------------------- priors and methods
@pytest.mark.slow_but("poisson-laplace", "poisson-cauchy", "poisson-horseshoe")
@pytest.mark.parametrize("prior", ["laplace", "student_t", "cauchy", "horseshoe"])
@pytest.mark.parametrize("family", ["student_t", "poisson", "beta"])
def test_wide_priors_of_other_forms_hardly_matter(family, prior):
    """120 rows say more than any of them, but for a slope that the horseshoe shrinks."""
    found, plain = fitted(family, prior=prior), fitted(family)
    assert found.posterior_.names[:3] == ["x0", "x1", "intercept"]
    largest = np.abs(plain.coef_ / plain.coef_std_).argmax()
    assert abs(found.coef_[largest] - plain.coef_[largest]) < 0.35 * plain.coef_std_[largest]
    k = found._width + found._state.response.n_dispersions
    assert found.posterior_.names[2:k] == plain.posterior_.names[2:]
    assert (len(found.posterior_.names) > k) == (prior == "horseshoe")
    assert np.isfinite(found.predict_interval(X[:3])).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_normal_rows_under_a_horseshoe_have_steps():
    """Its scales are coordinates, and no coefficients: sums of normal rows do not know of them."""
    steps = {"moves": "never", "n_particles": 500, "max_iter": 2}
    found, plain = fitted("normal", prior="horseshoe", **steps), fitted("normal")
    assert found.diagnostics_["method"] == "mirror steps from prior"
    largest = np.abs(plain.coef_ / plain.coef_std_).argmax()
    assert abs(found.coef_[largest] - plain.coef_[largest]) < 1.5 * plain.coef_std_[largest]


@FEW
@pytest.mark.parametrize("family", EACH)
def test_moves_find_what_weights_find(family):
    moved, weighed = fitted(family, moves="always", n_particles=400), fitted(family)
    assert "Hamiltonian" in moved.diagnostics_["method"]
    ess = moved.diagnostics_["ess"]
    assert gap(moved, weighed) < 5.0 / np.sqrt(ess)
    np.testing.assert_allclose(
        moved.posterior_.std()[:3], weighed.posterior_.std()[:3], rtol=5.0 / np.sqrt(ess)
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow_but("poisson")
@pytest.mark.parametrize("family", ["normal", "poisson", "gamma"])
def test_steps_from_the_prior_find_the_means(family):
    """Algorithm 1 of the paper needs values of the likelihood alone."""
    found = fitted(family, proposal="prior", n_particles=2000, max_iter=10, batch_size=30)
    assert "mirror steps from prior" in found.diagnostics_["method"]
    assert gap(found, fitted(family)) < 0.6


def test_scales_have_names_and_units():
    frame = FRAME.drop(columns="years")
    tight = fitted("poisson", frame, CLAIMS, prior_scale={"power": 1e-6})
    assert abs(tight.coef_[1]) < 1e-4 and tight.coef_std_[1] < 1e-4
    assert gap_of_first(tight, fitted("poisson", frame[["age"]], CLAIMS)) < 0.05
    np.testing.assert_allclose(np.ravel(tight.prior_scale_), [1.0, 1e-6])
    default = fitted("normal", frame, TARGETS["normal"])
    alike = fitted("normal", frame, TARGETS["normal"], prior_scale=[2.5, 2.5])
    assert_alike(default, alike, rtol=1e-9)
    chosen = fitted("poisson", frame, CLAIMS, prior_scale="evidence")
    assert 0.02 < chosen.prior_scale_ < 2.0
    best = chosen.log_evidence_
    for factor in (0.4, 2.5):
        other = fitted("poisson", frame, CLAIMS, prior_scale=chosen.prior_scale_ * factor)
        assert other.log_evidence_ < best + 0.05


def gap_of_first(one, other):
    return abs(one.coef_[0] - other.coef_[0]) / other.coef_std_[0]


def test_temperature_is_a_power_of_the_likelihood():
    hot = fitted("poisson", temperature=2.0)
    half = fitted("poisson", sample_weight=np.full(N, 0.5))
    assert_moments(hot.posterior_, half.posterior_.mean(), half.posterior_.std(), 0.03, 0.03)


# ------------------------------------------------------------------- streams and merges
# A k-hat of .76 after 30 rows under Student's distribution.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@FEW
@pytest.mark.parametrize("family", EACH)
def test_parts_of_a_stream_come_close_to_a_fit(family):
    y, whole = TARGETS[family], fitted(family)
    model = BayesianGLMRegressorPMD(family, random_state=0)
    for rows in np.split(np.arange(N), 4):
        model.partial_fit(X[rows], y[rows])
    assert gap(model, whole) < 0.25
    np.testing.assert_allclose(model.coef_std_, whole.coef_std_, rtol=0.15)


@pytest.mark.parametrize("family", ["normal", "poisson", "negative_binomial", "binomial"])
def test_a_stream_may_begin_with_three_rows(family):
    y, whole = TARGETS[family], fitted(family)
    model = BayesianGLMRegressorPMD(family, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of a scale that three rows say too little of.
        for rows in (slice(0, 3), slice(3, 20), slice(20, N)):
            model.partial_fit(X[rows], y[rows])
    assert gap(model, whole) < 0.4  # The prior is in units of three rows.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_forgetting_follows_the_last_rows():
    rng = np.random.default_rng(0)
    model = BayesianGLMRegressorPMD("poisson", forgetting=0.01, random_state=0)
    still = BayesianGLMRegressorPMD("poisson", random_state=0)
    for part in range(6):
        rows = rng.standard_normal((100, 1))
        y = rng.poisson(np.exp(1.0 + (0.5 if part < 3 else -0.5) * rows[:, 0]))
        model.partial_fit(rows, y)
        still.partial_fit(rows, y)
    assert model.coef_[0] < -0.3 and abs(still.coef_[0]) < 0.2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_total_samples_take_several_passes():
    model = BayesianGLMRegressorPMD("poisson", total_samples=N, random_state=0)
    for _ in range(8):
        for rows in np.split(np.arange(N), 4):
            model.partial_fit(X[rows], TARGETS["poisson"][rows])
    whole = fitted("poisson")
    assert gap(model, whole) < 1.0
    np.testing.assert_allclose(model.coef_std_, whole.coef_std_, rtol=0.6)


@FEW
@pytest.mark.parametrize("family", EACH)
def test_an_earlier_posterior_is_a_prior(family):
    """With the rows it holds, in its units."""
    y = TARGETS[family]
    first = fitted(family, X[:60], y[:60])
    after = fitted(family, X[60:], y[60:], prior=first.posterior_)
    whole = fitted(family)
    assert gap(after, whole) < 0.15  # The prior's units are those of 60 rows.
    other = "poisson" if family != "poisson" else "gamma"
    with pytest.raises(ValueError, match="same family"):
        fitted(other, prior=first.posterior_)


@pytest.mark.slow_but("gamma")
@pytest.mark.parametrize("family", EACH)
def test_shards_merge_to_the_fit_of_all_rows(family):
    y = TARGETS[family]
    shards = [fitted(family, X[k::2], y[k::2]) for k in range(2)]
    whole = fitted(family)
    assert gap(skpmd.merge(shards), whole) < 0.15
    for shard in shards:
        shard.posterior_.rows = None
    merged = skpmd.merge(shards)  # By densities: a fitted one knows less of nu's long tail.
    assert gap(merged, whole) < (0.3 if family == "student_t" else 0.06)
    np.testing.assert_allclose(merged.coef_std_, whole.coef_std_, rtol=0.06)


@pytest.mark.slow_but("normal")
@pytest.mark.parametrize("family", ["normal", "poisson", "gamma"])
def test_shards_of_other_units_merge(family):
    """Halves by a column: centres and scales of it, and of y, are others in each."""
    y = TARGETS[family]
    order, whole = np.argsort(X[:, 1]), fitted(family)
    halves = order[:60], order[60:]
    shards = [fitted(family, X[half], y[half]) for half in halves]
    merged = skpmd.merge(shards)
    assert gap(merged, whole) < 0.4  # The prior is that of the first.
    for shard in shards:
        shard.posterior_.rows = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of scales that are twice apart.
        by_densities = skpmd.merge(shards)
    assert gap(by_densities, merged) < 0.1


# ------------------------------------------------------------------- files, copies, searches
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow_but("gamma")
@pytest.mark.parametrize("family", EACH)
def test_copies_and_files_answer_to_the_last_bit(family, tmp_path):
    model = fitted(family)
    skpmd.save(model, tmp_path / "model")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model),
                  skpmd.load(tmp_path / "model")):  # fmt: skip
        np.testing.assert_array_equal(other.predict_interval(X[:9]), model.predict_interval(X[:9]))
        assert other.dispersion_ == model.dispersion_
        other.partial_fit(X[:30], TARGETS[family][:30])
    fresh = clone(model)
    assert not hasattr(fresh, "posterior_") and fresh.family == family


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_over_step_sizes():
    model = BayesianGLMRegressorPMD("poisson", proposal="prior", n_particles=100, random_state=0)
    search = GridSearchCV(model, {"step_size": [0.3, 1.0]}, cv=3).fit(X, TARGETS["poisson"])
    assert search.best_score_ > 0.0
    model = BayesianGLMRegressorPMD("normal", random_state=0)
    scores = cross_val_score(model, X, TARGETS["normal"])
    assert scores.mean() > 0.1


def test_a_named_exposure_goes_through_a_pipeline():
    scaled = ColumnTransformer(
        [("scaled", StandardScaler(), ["age", "power"])], remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")  # fmt: skip
    model = BayesianGLMRegressorPMD("poisson", exposure="years", random_state=0)
    pipeline = make_pipeline(scaled, model).fit(FRAME, CLAIMS)
    plain = clone(model).fit(FRAME, CLAIMS)
    np.testing.assert_allclose(pipeline.predict(FRAME), plain.predict(FRAME), rtol=1e-6)
    twice = pipeline.predict(FRAME.assign(years=2.0 * YEARS))
    np.testing.assert_allclose(twice, 2.0 * pipeline.predict(FRAME), rtol=1e-10)
    assert plain.posterior_.names == ["age", "power", "intercept"]
    assert list(plain.feature_names_in_) == ["age", "power", "years"]


def test_intervals_and_names_go_through_transformers_that_hand_on_arrays():
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer([("n", scaled, ["age", "power"]), ("e", "passthrough", ["years"])])
    model = BayesianGLMRegressorPMD("poisson", exposure=-1, random_state=0)
    pipeline = make_pipeline(columns, model).fit(FRAME, CLAIMS)
    assert posterior_of(pipeline).names == ["n__age", "n__power", "intercept"]
    assert list(posterior_of(pipeline).coords["feature"]) == ["n__age", "n__power"]
    expected = pipeline[-1].predict_interval(columns.transform(FRAME), 0.8, target="mean")
    found = predict_interval(pipeline, FRAME, 0.8, target="mean")
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(TypeError, match="RegressorPMD takes no of, but only level, target"):
        predict_interval(pipeline, FRAME, of="mean")
    logs = TransformedTargetRegressor(pipeline, func=np.log1p, inverse_func=np.expm1)
    logs.regressor_, logs.transformer_ = pipeline, StandardScaler().fit(np.eye(2)[:, :1])
    with pytest.raises(TypeError, match="target='mean' has no interval"):
        predict_interval(logs, FRAME, target="mean")


# ------------------------------------------------------------------- results
@pytest.mark.slow_but("negative_binomial", "gamma")
@pytest.mark.parametrize("family", EACH)
def test_leaving_one_out_is_the_density_of_rows(family):
    model = fitted(family)
    found = loo(model, X, TARGETS[family])
    density = model.predict_proba(X)
    log_p = density.log_pmf if density.is_count else density.log_pdf
    rows = model.pointwise_log_likelihood(X, TARGETS[family])
    expected = np.log(model.posterior_.weights @ np.exp(rows))
    np.testing.assert_allclose(log_p(TARGETS[family]), expected, atol=1e-6)
    assert expected.sum() - 20.0 < found.elpd < expected.sum()


def test_draws_have_names_and_dims():
    pytest.importorskip("arviz_base")
    tree = fitted("student_t", pd.DataFrame(X, columns=["age", "power"])).posterior_.to_arviz()
    posterior = tree.posterior
    assert posterior["coef"].dims[-1] == "feature"
    assert list(posterior["feature"]) == ["age", "power"]
    assert {"coef", "intercept", "sigma", "nu"} <= set(posterior.data_vars)


@FEW
@pytest.mark.parametrize("family", EACH)
def test_intervals_hold_their_share_and_means_are_means(family):
    model = fitted(family)
    low, high = model.predict_interval(X, 0.9).T
    y = TARGETS[family]
    assert 0.8 < ((low <= y) & (y <= high)).mean() <= 1.0
    found = model.predict(X, return_std=True)
    np.testing.assert_allclose(found[0], model.predict(X))
    assert (found[1] > 0.0).all()
    assert abs(found[0].mean() - y.mean()) < 0.2 * y.std()
    quantiles = model.predict_quantiles(X, [0.05, 0.95])
    np.testing.assert_allclose(quantiles, np.column_stack([low, high]), atol=1e-8)


# ------------------------------------------------------------------- blocks, time, checkpoints
@pytest.mark.parametrize("family", ["normal", "poisson", "negative_binomial", "beta"])
def test_blocks_have_the_posterior_of_the_array(family):
    y = TARGETS[family]
    exposure = {"exposure": 2} if family in ("poisson", "negative_binomial") else {"offset": 2}
    rows = np.column_stack([X, YEARS])
    parts = Blocks([(rows[k : k + 35], y[k : k + 35]) for k in range(0, N, 35)])
    one = fitted(family, rows, y, **exposure)
    other = BayesianGLMRegressorPMD(family, random_state=0, **exposure).fit(parts)
    assert_alike(one, other, rtol=1e-5)
    np.testing.assert_allclose(
        other.predict(Blocks([rows[:50], rows[50:]])), one.predict(rows), rtol=1e-6
    )


def test_time_ends_a_fit_and_a_checkpoint_goes_on(tmp_path):
    path = tmp_path / "fit"
    with pytest.warns(ConvergenceWarning) as given:
        early = fitted("student_t", moves="always", max_time=1e-6, n_particles=100)
    assert any("max_time" in str(one.message) for one in given)
    assert early.out_of_time_ and np.isfinite(early.coef_).all()
    saved = fitted("student_t", checkpoint=path)
    assert_alike(fitted("student_t"), saved, rtol=1e-12)


def test_threads_change_no_digit():
    one, two = fitted("gamma"), fitted("gamma", n_jobs=2)
    np.testing.assert_array_equal(one.posterior_.particles, two.posterior_.particles)


# ------------------------------------------------------------------- errors
BAD = {
    "a count is negative": ("poisson", {}, [-1.0] + [1.0] * (N - 1), "whole numbers.*-1 in row 0"),
    "a count is no whole number": ("negative_binomial", {}, [1.5] * N, "whole numbers.*1.5"),
    "an amount is zero": ("gamma", {}, [0.0] + [1.0] * (N - 1), "above 0.*row 0"),
    "a share is one": ("beta", {}, [1.0] * N, "below 1"),
    "two successes of one": ("binomial", {}, [2.0] * N, "has 2 in row 0: set trials"),
    "no link": ("poisson", {"link": "logit"}, None, "link='logit'.*'log'"),
    "an exposure of numbers": ("normal", {"exposure": 0}, None, "exposure=0.*log link"),
    "trials of counts": ("poisson", {"trials": 0}, None, "trials=0.*binomial"),
    "no such column": ("poisson", {"exposure": 5}, None, "exposure=5.*2"),
    "no name": ("poisson", {"exposure": "years"}, None, "no names.*set_output.*exposure=-1"),
    "an amount of zero": ("gamma", {}, np.arange(float(N)), "0 in row 0.*Amounts with zeros"),
    "an exposure below zero": ("poisson", {"exposure": 1}, None, "exposure.*above 0.*row"),
    "trials that are no numbers of trials": ("binomial", {"trials": 1}, None, "trials.*whole"),
    "one column, two roles": ("poisson", {"exposure": 0, "offset": 0}, None, "same column"),
    "no scale for each": ("normal", {"prior_scale": [1.0]}, None, "prior_scale.*2 columns"),
    "a scale of no column": ("normal", {"prior_scale": {"z": 1.0}}, None, "prior_scale.*'z'"),
    "a dispersion's scale": ("normal", {"dispersion_prior_scale": 0.0}, None, "dispersion_prior"),
    "no family": ("tweedie", {}, TARGETS["normal"], "family"),
    "moves of steps": ("poisson", {"moves": "always", "proposal": "prior"}, None, "moves"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_its_value(name):
    family, params, y, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        fitted(family, y=None if y is None else np.array(y), **params)


def test_errors_of_missing_numbers_say_where_the_first_is():
    y = np.where(np.arange(N) == 3, np.nan, CLAIMS)
    gone = FRAME.assign(years=FRAME["years"].mask(FRAME.index == 7), age=FRAME["age"])
    model = BayesianGLMRegressorPMD("poisson", exposure="years")
    for rows, targets, message in (
        (FRAME, y, "y contains NaN, the first in row 3\\."),
        (FRAME, pd.Series(y).astype("Int64"), "y contains NaN, the first in row 3\\."),
        (FRAME, np.where(np.isnan(y), np.inf, y), "y contains infinity.*, the first in row 3\\."),
        (gone, CLAIMS, "X contains NaN, the first in row 7 of column 'years'\\."),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(rows, targets)
    with pytest.raises(ValueError, match="NaN, the first in row 7 of column 2\\."):
        model.set_params(exposure=2).fit(csr_matrix(gone), CLAIMS)


def test_all_columns_with_roles_leave_none():
    with pytest.raises(ValueError, match="no columns beside those of roles"):
        fitted("poisson", np.ones((5, 1)), np.ones(5), exposure=0)


def test_later_parts_have_the_parameters_and_columns_of_the_first():
    model = fitted("poisson", np.column_stack([X, YEARS]), CLAIMS, exposure=2)
    before = model.posterior_
    for change in ({"family": "gamma"}, {"exposure": None}, {"dispersion_prior_scale": 2.0}):
        other = copy.deepcopy(model).set_params(**change)
        with pytest.raises(ValueError, match=next(iter(change))):
            other.partial_fit(np.column_stack([X, YEARS]), np.maximum(CLAIMS, 1.0))
    with pytest.raises(ValueError, match="whole numbers"):
        model.partial_fit(np.column_stack([X, YEARS]), CLAIMS + 0.5)
    assert model.posterior_ is before


def test_predictions_need_the_columns_of_roles():
    model = fitted("poisson", np.column_stack([X, YEARS]), CLAIMS, exposure=2)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X)
    with pytest.raises(ValueError, match="above 0"):
        model.predict(np.column_stack([X, -YEARS]))
    sparse = csr_matrix(np.column_stack([X, YEARS]))
    np.testing.assert_allclose(model.predict(sparse), model.predict(sparse.toarray()))
