"""Merges of logistic regressions: by densities, by rows that posteriors hold, by all rows."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import skpmd
from skpmd import BayesianLogisticRegressionPMD
from skpmd.data import Blocks

N = 480


def logistic_rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5]))).astype(int)


def fitted(X, y, seed=0, **parameters):
    return BayesianLogisticRegressionPMD(random_state=seed, **parameters).fit(X, y)


def without_rows(shards):
    """Shards for whose posteriors densities have to stand."""
    for shard in shards:
        shard.posterior_.rows = None
    return shards


@pytest.fixture(scope="module")
def logistic():
    """Rows, three shards of them, and the fit to all."""
    X, y = logistic_rows()
    shards = without_rows([fitted(X[k::3], y[k::3], k) for k in range(3)])
    return X, y, shards, fitted(X, y)


def gap(one, other):
    """Largest difference of a posterior mean, in standard deviations of the other."""
    return np.abs((one.posterior_.mean() - other.posterior_.mean()) / other.posterior_.std()).max()


# ------------------------------------------------------------------- logistic regression
def test_the_product_of_densities_is_the_posterior_of_all_rows(logistic):
    X, y, shards, whole = logistic
    merged = skpmd.merge(shards)
    # Sampling errors of 2400 effective antithetic draws are .02; means were .005 off.
    assert gap(merged, whole) < 0.05
    np.testing.assert_allclose(merged.posterior_.std(), whole.posterior_.std(), rtol=0.05)
    assert merged.diagnostics_["n_shards"] == 3 and "3 shards" in merged.diagnostics_["method"]
    assert merged.diagnostics_["pareto_k"] is None
    assert merged.diagnostics_["product_pareto_k"] < 0.7
    with pytest.raises(AttributeError, match="no row has weighed it"):
        _ = merged.posterior_.pareto_k
    np.testing.assert_allclose(merged.predict_proba(X), whole.predict_proba(X), atol=0.01)


def test_all_rows_are_fitted_in_arrays_or_blocks(logistic):
    X, y, shards, whole = logistic
    blocks = Blocks([(X[:100], y[:100]), (X[100:], y[100:])])
    for rows in ((X, y), (blocks,)):
        merged = skpmd.merge(shards, *rows)
        np.testing.assert_allclose(merged.coef_, whole.coef_, rtol=0.0, atol=1e-10)
        assert merged.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-8)


@pytest.mark.slow
def test_a_merged_estimator_goes_on(logistic):
    X, y, shards, whole = logistic
    merged = skpmd.merge([skpmd.merge(shards[:2]), shards[2]])
    assert merged.diagnostics_["n_shards"] == 3 and gap(merged, whole) < 0.05
    again = pickle.loads(pickle.dumps(merged))
    np.testing.assert_array_equal(again.predict_proba(X), merged.predict_proba(X))
    more_X, more_y = logistic_rows(seed=1, n=100)
    merged.partial_fit(more_X, more_y)
    assert gap(merged, fitted(np.vstack([X, more_X]), np.append(y, more_y))) < 0.1
    assert clone(merged).fit(X, y).posterior_.mean() == pytest.approx(whole.posterior_.mean())


@pytest.mark.slow
def test_shards_stay_as_they_were_and_one_alone_is_copied(logistic):
    _, _, shards, _ = logistic
    before = shards[0].posterior_.particles.copy()
    merged = skpmd.merge(shards)
    np.testing.assert_array_equal(shards[0].posterior_.particles, before)
    np.testing.assert_array_equal(skpmd.merge(shards).coef_, merged.coef_)
    one = skpmd.merge(shards[:1])
    assert one is not shards[0] and (one.coef_ == shards[0].coef_).all()


@pytest.mark.slow
def test_units_of_each_shard_are_no_hindrance():
    X, y = logistic_rows()
    X = X * [10.0, 0.1]
    shards = [fitted(X[k::3], y[k::3], k, scale="auto") for k in range(3)]
    whole = fitted(X, y, scale="auto")
    assert gap(skpmd.merge(shards), whole) < 1e-6
    assert gap(skpmd.merge(without_rows(shards)), whole) < 0.05


def test_gaussians_without_correlations_by_formula():
    X, y = logistic_rows()
    X = X[:, :1]
    common = {"covariance_type": "diag", "fit_intercept": False, "scale": None}
    shards = [fitted(X[k::3], y[k::3], k, **common) for k in range(3)]
    merged, whole = skpmd.merge(shards), fitted(X, y, **common)
    precision = sum(1.0 / one.posterior_.scale**2 for one in shards) - 2.0
    np.testing.assert_allclose(merged.posterior_.scale**-2.0, precision)
    # The means of normals that are fitted to 160 rows each.
    assert gap(merged, whole) < 0.1


@pytest.mark.slow
def test_shards_that_contradict_each_other_are_warned_of_and_rows_help():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    slope = np.where(np.arange(1000)[:, None] < 500, [2.0, 0.0], [-2.0, 1.0])
    y = (rng.random(1000) < 1.0 / (1.0 + np.exp(-(X * slope).sum(axis=1)))).astype(int)
    shards = [fitted(X[:500], y[:500]), fitted(X[500:], y[500:], 1)]
    assert gap(skpmd.merge(shards), fitted(X, y)) < 1e-6
    with pytest.warns(ConvergenceWarning, match="where its density is hardly known"):
        skpmd.merge(without_rows(shards))
    assert gap(skpmd.merge(shards, X, y), fitted(X, y)) < 1e-6


def test_a_prior_that_leaves_no_density_of_the_product_is_an_error():
    """Seven priors as narrow as the posteriors of eight shards are taken out of these."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X.sum(axis=1) + rng.logistic(size=200) > 2.0).astype(int)
    narrow = {"prior_scale": 0.3, "intercept_prior_scale": 0.3, "scale": None}
    shards = [fitted(X[k::8], y[k::8], k, **narrow) for k in range(8)]
    assert gap(skpmd.merge(shards), fitted(X, y, **narrow)) < 1e-6
    with pytest.raises(ValueError, match="over 7 of their priors is no density .* Give X and y"):
        skpmd.merge(without_rows(shards))
    assert gap(skpmd.merge(shards, X, y), fitted(X, y, **narrow)) < 1e-6


@pytest.mark.slow  # sixteen shards
def test_densities_that_are_extrapolated_have_to_be_nearer():
    """82 % of the merged posterior is where one shard's density is an extrapolation."""
    rng = np.random.default_rng(1072)
    X = rng.standard_normal((1600, 6))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    logits = X @ (1.5 / np.sqrt(6.0) * rng.standard_normal(6))
    few = np.quantile(logits + rng.logistic(size=1600), 0.95)
    y = (logits + rng.logistic(size=1600) > few).astype(int)
    narrow = {"prior_scale": 0.3, "scale": None}
    parts = np.array_split(rng.permutation(1600), 16)
    shards = [fitted(X[some], y[some], k, **narrow) for k, some in enumerate(parts)]
    with pytest.warns(ConvergenceWarning, match="the posteriors of all shards is 0.2 nats off"):
        merged = skpmd.merge(without_rows(shards))
    assert gap(merged, fitted(X, y, 99, **narrow)) > 0.15


def streams_of_one_class(X, y, **parameters):
    shards = []
    for k, some in enumerate(np.array_split(np.argsort(y, kind="stable"), 2)):
        shard = BayesianLogisticRegressionPMD(n_particles=500, random_state=k, **parameters)
        shards.append(shard.partial_fit(X[some], y[some], classes=[0, 1]))
    return shards


def test_streams_that_retain_their_rows_are_merged_by_them():
    X, y = logistic_rows()
    given = {"temperature": 2.0, "scale": "auto"}
    merged, whole = skpmd.merge(streams_of_one_class(X, y, **given)), fitted(X, y, **given)
    # Two fits with sampling errors of 500 and 4000 antithetic draws.
    assert gap(merged, whole) < 0.1 and "480 rows of 2 shards" in merged.diagnostics_["method"]
    np.testing.assert_allclose(merged.posterior_.std(), whole.posterior_.std(), rtol=0.1)


@pytest.mark.slow
def test_shards_of_one_class_are_warned_of_and_rows_help():
    X, y = logistic_rows()
    shards = streams_of_one_class(X, y)
    for shard in shards:  # As after so many rows that they are not retained.
        shard._state = shard._state._replace(retained=None)
    with pytest.warns(ConvergenceWarning, match="where its density is hardly known|misses a tail"):
        skpmd.merge(shards)
    assert gap(skpmd.merge(shards, X, y), fitted(X, y)) < 0.1


# ------------------------------------------------------------------- rows that posteriors hold
def wide_rows(n=360, p=14):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, p))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ rng.normal(size=p)))).astype(int)


@pytest.fixture(scope="module")
def wide():
    """Rows of many columns, three shards of them, and the fit to all."""
    X, y = wide_rows()
    return X, y, [fitted(X[k::3], y[k::3], k) for k in range(3)], fitted(X, y)


def test_rows_that_posteriors_hold_are_fitted(wide):
    X, y, shards, whole = wide
    merged = skpmd.merge(shards)
    # The fit to the same rows with the same seed; only sums over them have another order.
    assert gap(merged, whole) < 1e-8
    assert merged.log_evidence_ == pytest.approx(whole.log_evidence_, abs=1e-8)
    assert "360 rows of 3 shards" in merged.diagnostics_["method"]
    assert merged.posterior_.pareto_k < 0.7
    assert gap(skpmd.merge([skpmd.merge(shards[:2]), shards[2]]), whole) < 1e-8
    assert gap(skpmd.merge(shards, X, y), whole) == 0.0


def test_rows_of_other_classes_are_refused(wide):
    X, y, shards, whole = wide
    with pytest.raises(ValueError, match="rows of a class of a total weight of"):
        skpmd.merge(shards, X, np.where(np.arange(len(y)) < 20, 1, y))
    assert gap(skpmd.merge(shards, X[::-1], y[::-1]), whole) < 0.1
    given = {"temperature": 2.0, "class_weight": {0: 1.0, 1: 3.0}}
    shards = [fitted(X[k::3], y[k::3], k, **given) for k in range(3)]
    assert gap(skpmd.merge(shards, X, y), fitted(X, y, **given)) < 0.1
    three = y + (X[:, 0] > 0.5) * y
    shards = [fitted(X[k::3, :2], three[k::3], k) for k in range(3)]
    with pytest.raises(ValueError, match="rows of a class of a total weight of"):
        skpmd.merge(shards, X[:, :2], 2 - three)


def test_a_merge_is_a_prior(wide):
    X, y, _, _ = wide
    shards = [fitted(X[k::3], y[k::3], k, scale=None) for k in range(3)]
    more_X, more_y = wide_rows(60)
    merged = skpmd.merge(shards)
    later = fitted(more_X, more_y, prior=merged.posterior_)
    both = fitted(np.vstack([X, more_X]), np.append(y, more_y), scale=None)
    assert gap(later, both) < 1e-8
    assert later.log_evidence_ == pytest.approx(both.log_evidence_ - merged.log_evidence_)


def test_rows_that_posteriors_do_not_hold_are_a_normal_likelihood():
    X, y = wide_rows(3000)
    shards = [fitted(X[k::3], y[k::3], k, n_particles=400) for k in range(3)]
    assert all(one.posterior_.rows.rest is not None for one in shards)
    merged, whole = skpmd.merge(shards), fitted(X, y)
    # Draws of 400 antithetic particles err by .05 or so.
    assert gap(merged, whole) < 0.15
    assert "a normal likelihood of their others" in merged.diagnostics_["method"]
    assert gap(skpmd.merge([merged]), merged) == 0.0


@pytest.mark.slow
def test_scales_of_the_prior_are_those_of_all_rows_or_warned_of():
    X, y = logistic_rows()
    inner = np.abs(X[:, 0]) < 0.4  # Their column varies less than that of others.
    given = {"scale": "auto", "prior_scale": 0.5}
    shards = [fitted(X[some], y[some], k, **given) for k, some in enumerate((inner, ~inner))]
    assert gap(skpmd.merge(shards), fitted(X, y, **given)) < 1e-6
    with pytest.warns(ConvergenceWarning, match="scales of columns that other shards"):
        skpmd.merge(without_rows(shards))
    assert gap(skpmd.merge(shards, X, y), fitted(X, y, **given)) < 0.05


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warnings_of_a_merge_by_rows_say_what_helps_there():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    parameters = {"prior_scale": 50.0, "moves": "never", "n_particles": 100}
    shards = [fitted(X[k::2], y[k::2], k, **parameters) for k in range(2)]
    found = skpmd.merge(shards).diagnostics_["warnings"]
    assert found and all("set moves='auto', or raise n_particles" in one for one in found)
