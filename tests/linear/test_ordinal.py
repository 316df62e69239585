"""Ordered classes: exact posteriors, generated truths, categories, streams, merges, predictions."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, log_expit, logsumexp
from sklearn.utils.estimator_checks import parametrize_with_checks

import skpmd
from skpmd import BayesianGLMRegressorPMD, BayesianLogisticRegressionPMD
from skpmd import BayesianOrdinalClassifierPMD as Ordinal
from skpmd._base.utils import weighted_quantile
from skpmd.data import Blocks

B = np.array([1.0, -0.2, 2.0])
CUT = np.array([-1.5, 0.0, 1.0])  # At the columns' means.


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [3.0, 0.0, 1.0]
    z = (X - X.mean(axis=0)) @ B + rng.logistic(size=n)
    return X, np.digitize(z, CUT)


def fitted(X, y, sample_weight=None, random_state=0, **options):
    return Ordinal(random_state=random_state, **options).fit(X, y, sample_weight)


def moments_at(one, centre):
    """Means and sds of coefficients, and of cutpoints where columns are at a centre."""
    p = len(centre)
    theta, weights = one.posterior_.particles.copy(), one.posterior_.weights
    theta[:, p:] -= (theta[:, :p] @ centre)[:, None]
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def gap(one, other):
    """The largest difference of means in sds, and of sds in shares."""
    centre = other._state.units.centre
    (mean, sd), (own, own_sd) = moments_at(other, centre), moments_at(one, centre)
    return max(np.abs((own - mean) / sd).max(), np.abs(own_sd / sd - 1.0).max())


@pytest.fixture(scope="module")
def data():
    X, y = rows()
    return X, y, fitted(X, y)


def test_a_posterior_of_two_coordinates_is_exact():
    rng = np.random.default_rng(0)
    x = 2.0 + 3.0 * rng.normal(size=25)
    y = (0.4 * (x - 2.0) + rng.logistic(size=25) > 1.0).astype(int)
    model = fitted(x[:, None], y, prior_scale=1.5)
    b, cut = np.meshgrid(np.linspace(-2.0, 4.0, 401) / x.std(), np.linspace(-4.0, 8.0, 401))
    z = b[..., None] * (x - x.mean())
    log_joint = log_expit(np.where(y == 0, 1.0, -1.0) * (cut[..., None] - z)).sum(axis=-1)
    # Uniform probabilities of the first class make a logistic cutpoint.
    log_joint += log_expit(cut) + log_expit(-cut) - 0.5 * (b * x.std() / 1.5) ** 2
    log_joint -= np.log(1.5 / x.std() * np.sqrt(2.0 * np.pi))
    weights = np.exp(log_joint - logsumexp(log_joint))
    for j, grid in enumerate((b, cut + b * x.mean())):  # As given where x is zero.
        mean = (weights * grid).sum()
        sd = np.sqrt((weights * (grid - mean) ** 2).sum())
        assert model.posterior_.mean()[j] == pytest.approx(mean, abs=0.05 * sd)
        assert model.posterior_.std()[j] == pytest.approx(sd, rel=0.05)
    cell = (b[0, 1] - b[0, 0]) * (cut[1, 0] - cut[0, 0])
    assert model.log_evidence_ == pytest.approx(logsumexp(log_joint) + np.log(cell), abs=0.05)
    first = (weights * expit(cut - b * (5.0 - x.mean()))).sum()
    assert model.predict_proba([[5.0]])[0, 0] == pytest.approx(first, abs=5e-3)


def test_the_truth_is_found(data):
    X, y, model = data
    assert (np.abs(model.coef_ - B) < 4.0 * model.coef_std_).all()
    mean, sd = moments_at(model, X.mean(axis=0))
    assert (np.abs(mean[3:] - CUT) < 4.0 * sd[3:]).all()
    np.testing.assert_allclose(model.cutpoints_, mean[3:] + model.coef_ @ X.mean(axis=0))
    assert model.posterior_.names == ["x0", "x1", "x2", "cut[1]", "cut[2]", "cut[3]"]
    assert model.score(X, y) > 0.4


def test_weights_are_repetitions(data):
    X, y, _ = data
    times = np.random.default_rng(1).integers(0, 3, len(y))
    one, other = fitted(X, y, times), fitted(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(one.posterior_.mean(), other.posterior_.mean(), rtol=1e-8)
    np.testing.assert_allclose(one.posterior_.std(), other.posterior_.std(), rtol=1e-8)


@pytest.mark.parametrize("scale", ["auto", None])
def test_sparse_rows_are_centred_too(data, scale):
    X, y, _ = data
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    one, other = (fitted(kind(X), y, scale=scale) for kind in (sparse.csr_array, np.asarray))
    np.testing.assert_allclose(one.posterior_.particles, other.posterior_.particles, rtol=1e-7)
    np.testing.assert_array_equal(other.predict_proba(sparse.csr_array(X)), other.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 20])
def test_few_classes_and_many(n_classes):
    X, _ = rows()
    z = (X - X.mean(axis=0)) @ B + np.random.default_rng(5).logistic(size=len(X))
    cut = np.quantile(z, np.arange(1, n_classes) / n_classes)
    y = np.digitize(z, cut)
    model = fitted(X, y)
    assert not model.diagnostics_["warnings"]
    mean, sd = moments_at(model, X.mean(axis=0))
    assert (np.abs(mean[3:] - cut) < 4.0 * sd[3:]).all()
    if n_classes == 2:
        other = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
        assert (np.abs(model.coef_ - other.coef_[0]) < 0.1 * model.coef_std_).all()


# ------------------------------------------------------------------ categories
def test_classes_have_their_order(data):
    X, y, model = data
    names = np.array(["low", "medium", "high", "utmost"])
    named = fitted(X, names[y], categories=names)
    ordered = pd.Series(pd.Categorical(names[y], categories=names, ordered=True))
    for one in (named, fitted(X, ordered), fitted(X, pd.Categorical(ordered))):
        assert one.classes_.tolist() == names.tolist()
        np.testing.assert_array_equal(one.coef_, model.coef_)
        np.testing.assert_array_equal(one.predict(X), names[model.predict(X)])
    one = fitted(X, y, categories=[0, 1, 2, 3])
    np.testing.assert_array_equal(one.coef_, model.coef_)


def test_words_without_an_order_are_sorted_with_a_warning(data):
    X, y, _ = data
    names = np.array(["low", "medium", "high", "utmost"])
    message = "alphabetical order, high, low, .*categories=.*CategoricalDtype"
    for labels in (names[y], names[y].astype(object), pd.Series(names[y]).astype("category")):
        with pytest.warns(UserWarning, match=message):
            assert fitted(X, labels).classes_.tolist() == sorted(names)
    with pytest.warns(UserWarning, match=message):
        Ordinal(random_state=0).partial_fit(X, names[y], classes=names).partial_fit(X, names[y])


def test_a_category_without_rows_has_what_the_prior_gives_it(data):
    X, y, _ = data
    model = fitted(X, y, categories=[0, 1, 9, 2, 3])
    found = model.predict_proba(X).mean(axis=0)
    assert found[2] == pytest.approx(1.0 / (len(y) + 5.0), rel=0.1)
    assert 9 not in model.predict(X)


def test_what_is_no_class_is_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="labels \\[3\\], which are not among"):
        fitted(X, y, categories=[0, 1, 2])
    for labels in ([0, 1, 1, 2, 3], [[0, 1], [2]], np.array(2)):
        with pytest.raises(ValueError, match="categories must hold two labels or more, each once"):
            fitted(X, y, categories=labels)
    with pytest.raises(ValueError, match="2 classes or more"):
        fitted(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        Ordinal().partial_fit(X, y)
    with pytest.raises(ValueError, match="is not the same as the classes that are known"):
        Ordinal(categories=[0, 1, 2, 3]).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="offset='years' is no column"):
        fitted(X, y, offset="years")


def test_an_offset_has_no_coefficient(data):
    X, y, model = data
    known = np.column_stack([X, np.zeros(len(y))])
    one = fitted(known, y, offset=-1)
    np.testing.assert_array_equal(one.coef_, model.coef_)
    known[:, 3] = 1.0  # Moves all predictors by so much.
    np.testing.assert_allclose(one.predict_proba(known).sum(axis=1), 1.0)
    assert (one.predict_proba(known)[:, 0] < model.predict_proba(X)[:, 0]).all()
    known[:, 3] = X[:, 0]
    other = fitted(known, y, offset=3)
    assert gap_of_means(other.coef_ + [1.0, 0.0, 0.0], model) < 0.2


def gap_of_means(mean, model):
    return np.abs((mean - model.coef_) / model.coef_std_).max()


# ------------------------------------------------------------------ parts and shards
@pytest.mark.slow_for("False")
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_stream_is_near_a_fit(data, is_sorted):
    X, y, model = data
    order = np.argsort(y, kind="stable") if is_sorted else np.arange(len(y))
    stream = Ordinal(random_state=0)
    for part in np.split(order, [20, 100, 200, 300, 400, 500]):
        stream.partial_fit(X[part], y[part], classes=[3, 2, 1, 0])
    assert stream.classes_.tolist() == [0, 1, 2, 3] and gap(stream, model) < 0.1


def test_a_posterior_is_the_next_prior(data):
    X, y, model = data
    first = fitted(X[:250], y[:250])
    second = fitted(X[250:], y[250:], prior=first.posterior_)
    assert gap(second, model) < 0.1  # Units are those of the first rows.
    np.testing.assert_array_equal(second._state.units.centre, first._state.units.centre)
    first.posterior_.rows = None
    assert gap(fitted(X[250:], y[250:], prior=first.posterior_), model) < 0.15
    with pytest.raises(ValueError, match="4 ordered classes, and here are 3"):
        fitted(X, np.minimum(y, 2), prior=first.posterior_)
    logistic = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no posterior of ordered classes"):
        fitted(X, y, prior=logistic.posterior_)


@pytest.mark.parametrize("has_rows", [True, False])
def test_shards_are_merged_where_their_centres_differ(has_rows):
    X, y = rows()
    order = np.argsort(X[:, 0] + np.random.default_rng(0).normal(size=len(y)))
    shards = [fitted(X[some], y[some]) for some in np.array_split(order, 2)]
    if not has_rows:
        for one in shards:
            one.posterior_.rows = None
    merged = skpmd.merge(shards)
    assert gap(merged, fitted(X, y)) < (1e-6 if has_rows else 0.1)
    assert merged.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="classes_ is"):
        skpmd.merge([shards[0], fitted(X, np.minimum(y, 2))])


@pytest.mark.parametrize("has_rows", [True, False])
def test_shards_of_numbers_are_merged_where_their_units_differ(has_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + np.outer(np.arange(400) < 200, [1.5, 0.0]) + [5.0, 0.0]
    y = 3.0 + 10.0 * X @ [0.8, -0.5] + 5.0 * rng.normal(size=400)
    options = {"random_state": 0, "prior_scale": 30.0}
    shards = [BayesianGLMRegressorPMD(**options).fit(X[k], y[k])
              for k in (slice(200), slice(200, None))]  # fmt: skip
    if not has_rows:
        for one in shards:
            one.posterior_.rows = None
    merged, whole = skpmd.merge(shards), BayesianGLMRegressorPMD(**options).fit(X, y)
    assert gap_of_means(merged.coef_, whole) < 0.05
    assert merged.intercept_ == pytest.approx(whole.intercept_, abs=0.05 * whole.intercept_std_)
    assert merged.dispersion_["sigma"] == pytest.approx(whole.dispersion_["sigma"], rel=0.01)


def test_values_of_a_density_are_of_given_coordinates():
    X, y = rows(25)
    posterior = fitted(X, y, categories=range(4)).posterior_
    assert posterior.fitted_density().misfit < 0.1  # The polynomial corrects what is wrong of it.


def test_an_offset_of_later_rows_counts():
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(400, 1)), 2.0 * rng.normal(size=400)
    offset[:200] = 0.0
    known = np.column_stack([X, offset])
    y = np.digitize(X[:, 0] + offset + rng.logistic(size=400), [-1.0, 1.0])
    first = fitted(X[:200], y[:200])
    second = fitted(known[200:], y[200:], prior=first.posterior_, offset=1)
    assert gap_of_means(second.coef_, fitted(known, y, offset=1)) < 0.1


# ------------------------------------------------------------------ predictions
def test_predictions_average_over_particles(data):
    X, y, model = data
    theta, weights = model.posterior_.particles, model.posterior_.weights
    z = X[:9] @ theta[:, :3].T
    below = expit(theta[:, 3:].T[:, None] - z)  # (cutpoints, rows, particles)
    edge = np.zeros((1, *z.shape))
    each = np.diff(np.concatenate([edge, below, edge + 1.0]), axis=0)
    proba, interval = model.predict_proba(X[:9], return_interval=0.8)
    np.testing.assert_allclose(proba, (each @ weights).T, rtol=1e-9)
    ends = weighted_quantile(each.transpose(2, 1, 0), weights, [0.1, 0.9])
    np.testing.assert_allclose(interval, ends.transpose(1, 2, 0), rtol=1e-9)
    of_rows = model.pointwise_log_likelihood(X[:9], y[:9])
    np.testing.assert_allclose(np.exp(of_rows), each[y[:9], np.arange(9)].T, rtol=1e-9)
    drawn = model.sample_y(X[:9], 4000)
    shares = (drawn[..., None] == np.arange(4)).mean(axis=1)
    np.testing.assert_allclose(shares, proba, atol=0.04)
    total, aleatoric, epistemic = model.predict_uncertainty(X[:9])
    np.testing.assert_allclose(total, -(proba * np.log(proba)).sum(axis=1))
    assert (epistemic > 0.0).all() and (epistemic < 0.05).all()
    assert model.pointwise_log_likelihood(X[:9], y[:9], n_draws=7).shape == (7, 9)


def test_rows_are_predicted_by_themselves(data, tmp_path):
    X, _, model = data
    far = np.vstack([X[:150], 1e4 * X[:5]])
    alone = [np.concatenate([call(far[i : i + 1]) for i in range(len(far))])
             for call in (model.predict_log_proba, model.predict_proba_interval)]  # fmt: skip
    np.testing.assert_array_equal(alone[0], model.predict_log_proba(far))
    np.testing.assert_array_equal(alone[1], model.predict_proba_interval(far))
    blocks = Blocks([(far[:70],), (far[70:],)])
    np.testing.assert_array_equal(model.predict(blocks), model.predict(far))
    log_proba = alone[0][150:]
    assert np.isfinite(log_proba).all() and log_proba.min() < -1000.0  # No exponential has these.
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0)
    skpmd.save(model, tmp_path / "model")
    for one in (skpmd.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(one.predict_log_proba(far), alone[0])


_NOT_ORDERED = "its three blobs in the plane are no ordered classes"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [Ordinal()], expected_failed_checks=lambda _: {"check_classifiers_train": _NOT_ORDERED}
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
