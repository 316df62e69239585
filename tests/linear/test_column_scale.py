"""Units of columns: those inside, the prior that is in them, and a warning where it overrules."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit, log_expit
from scipy.stats import norm
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD, merge
from skpmd.engine.model import Batch
from skpmd.linear._column_scale import Units, moments_of, units_of

# Times in seconds, metres, a share, a price, and one that no scaling changes.
UNIT = np.array([2e4, 3e-9, 1.0, 7e11])
CENTRE = np.array([1.6e9, -5e-8, 0.2, 4e12])


def rows(n=400, unit=1e-3, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    noise = rng.logistic(size=n)
    if n_classes == 2:
        y = (3.0 * X[:, 1] + X[:, 0] + noise > 0.0).astype(int)
    else:
        y = np.digitize(3.0 * X[:, 1] + noise, [-2.0, 2.0])
    return X * [1.0, unit, 1.0], y


def everyday(n_classes=2, n=300, seed=3, later=0.0):
    """Columns in everyday units, the third of which is 0 or 1, and labels.

    The first column is so many sds larger in the second half.
    """
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 4))
    Z[n // 2 :, 0] += later
    Z[:, 2] = Z[:, 2] > 0.8
    score = Z @ [1.0, -0.6, 1.0, 0.3] + rng.logistic(size=n)
    y = (score > 0.0).astype(int) if n_classes == 2 else np.digitize(score, [-1.0, 1.0])
    return Z * UNIT + CENTRE, y


# Fast fits of every kind; both of a pair take the same draws, so that they agree to rounding.
KINDS = {
    "weights": {},
    "three classes": {"n_particles": 1000},
    "moves": {"moves": "always", "n_particles": 300},
    "laplace": {"prior": "laplace", "prior_scale": 0.5},
    "horseshoe": {"prior": "horseshoe", "n_particles": 300},
    "evidence": {"prior_scale": "evidence", "n_particles": 300},
    "steps": {"proposal": "prior", "n_particles": 500, "max_iter": 2},
    "diagonal": {"covariance_type": "diag"},
    "prior's mean": {"prior_mean": {"x0": 0.5}, "prior_scale": {"x0": 0.2, "x3": 2.0}},
    "weighted": {"class_weight": {0: 2.0, 1: 1.0}},
}


@pytest.mark.slow_for(
    "evidence-array",
    "horseshoe-array",
    "moves-array",
    "moves-single",
    "moves-sparse",
    "prior's mean-array",
    "steps-array",
    "three classes-array",
    "three classes-single",
    "three classes-sparse",
    "weights-array",
    "weights-single",
    "weights-sparse",
)
@pytest.mark.parametrize("form", ["array", "sparse", "single"])
@pytest.mark.parametrize("kind", KINDS)
def test_everyday_units_are_those_of_a_standard_scaler(kind, form):
    if form != "array" and kind not in ("weights", "three classes", "moves", "diagonal"):
        pytest.skip("the model is the same")
    X, y = everyday(3 if kind == "three classes" else 2)
    X = X.astype(np.float32) if form == "single" else X
    sample_weight = np.where(y == 0, 2.0, 1.0) if kind == "weighted" else None
    scaler = StandardScaler().fit(X.astype(np.float64), sample_weight=sample_weight)
    Z = scaler.transform(X.astype(np.float64))
    parameters = {**KINDS[kind], "random_state": 0}
    known = BayesianLogisticRegressionPMD(scale=None, **parameters).fit(Z, y)
    X = csr_array(X) if form == "sparse" else X
    found = BayesianLogisticRegressionPMD(**parameters).fit(X, y)
    sds = (found.coef_ * scaler.scale_ - known.coef_) / known.coef_std_
    # A matrix of squares of columns far from zero, which sparse ones need, knows fewer digits.
    tol = 5e-3 if (kind, form) == ("diagonal", "sparse") else 1e-5
    assert np.abs(sds).max() < tol
    np.testing.assert_allclose(found.coef_std_ * scaler.scale_, known.coef_std_, rtol=tol)
    np.testing.assert_allclose(found.predict_proba(X), known.predict_proba(Z), atol=1e-3)
    np.testing.assert_array_equal(found.predict(X), known.predict(Z))
    np.testing.assert_allclose(
        found.predict_proba_interval(X), known.predict_proba_interval(Z), atol=2e-3
    )
    at_zero = known.intercept_ - known.coef_ @ (scaler.mean_ / scaler.scale_)
    assert np.abs((found.intercept_ - at_zero) / found.intercept_std_).max() < 0.02
    same = found.sample_y(X[:9], 50) == known.sample_y(Z[:9], 50)
    assert same.mean() > 0.99


def test_the_prior_of_the_intercept_is_at_the_means():
    """One column of years, against quadrature: errors are those of 4000 draws."""
    rng = np.random.default_rng(5)
    X = rng.integers(1950, 1999, size=80).astype(float)[:, None]
    y = (rng.random(80) < expit(0.08 * (X[:, 0] - 1960.0))).astype(int)
    model = BayesianLogisticRegressionPMD(
        prior_scale=0.7, intercept_prior_scale=1.5, random_state=0
    ).fit(X, y)
    z = (X[:, 0] - X.mean()) / X.std()
    b, a = np.meshgrid(np.linspace(-1, 4, 301), np.linspace(-2, 4, 301), indexing="ij")
    log = norm.logpdf(b, scale=0.7) + norm.logpdf(a, scale=1.5)
    log = log + sum(log_expit((2 * t - 1) * (a + b * u)) for t, u in zip(y, z, strict=True))
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = (w * b).sum()
    sd = np.sqrt((w * (b - mean) ** 2).sum())
    assert abs(model.coef_[0, 0] * X.std() - mean) < 0.08 * sd
    assert model.coef_std_[0, 0] * X.std() == pytest.approx(sd, rel=0.06)
    exact = (w * expit(a + b * (1996.0 - X.mean()) / X.std())).sum()
    assert model.predict_proba([[1996.0]])[0, 1] == pytest.approx(exact, abs=0.005)


def test_draws_densities_and_summaries_are_in_given_units():
    X, y = everyday()
    posterior = BayesianLogisticRegressionPMD(random_state=0).fit(X, y).posterior_
    draws = posterior.sample(4000, random_state=1)
    scale = posterior.std()
    assert np.abs((draws.mean(axis=0) - posterior.mean()) / scale).max() < 0.1
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.1)
    # At the means of the columns the logit hardly varies, beside an intercept at zero.
    logit = draws[:, :-1] @ X.mean(axis=0) + draws[:, -1]
    assert logit.std() < 0.5 < 1e3 < scale[-1]
    known = BayesianLogisticRegressionPMD(scale=None, random_state=0)
    known = known.fit(StandardScaler().fit_transform(X), y).posterior_
    # The density of given coefficients is that of scaled ones times the scales.
    some = known.sample(5, random_state=2)
    units = Units(X.mean(axis=0), X.std(axis=0), 1, True)
    np.testing.assert_allclose(
        posterior.log_density(units.inward(some)),
        known.log_density(some) + np.log(X.std(axis=0)).sum(), rtol=1e-4,
    )  # fmt: skip
    unit = posterior.summary()["unit"]
    assert "per unit of the column" in unit[0] and f"{X[:, 0].std():.4g}" in unit[0]
    assert "where columns are 0" in unit[-1]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_map_coefficients_there_and_back(fit_intercept):
    rng = np.random.default_rng(0)
    centre, scale = 9.0 * rng.standard_normal(3) * fit_intercept, rng.uniform(0.1, 9.0, 3)
    units = Units(centre, scale, 2, fit_intercept)
    theta, X = rng.standard_normal((5, 2 * (3 + fit_intercept) + 1)), rng.standard_normal((7, 3))
    u = units.outward(theta)
    np.testing.assert_allclose(units.inward(u), theta)
    np.testing.assert_array_equal(u[:, -1], theta[:, -1])  # No coefficient.

    def logits(theta, X):
        rows = theta[:, :-1].reshape(5, 2, -1)
        return rows[..., :3] @ X.T + (rows[..., 3:] if fit_intercept else 0.0)

    np.testing.assert_allclose(logits(u, units.rows(X)), logits(theta, X))
    np.testing.assert_allclose(units.given(units.rows(X)), X)
    jacobian = np.array([units.inward(one) for one in np.eye(theta.shape[1])])
    assert np.linalg.slogdet(jacobian)[1] == pytest.approx(units.log_jacobian(u))
    gradient = rng.standard_normal(theta.shape)
    map_ = np.array([units.outward(one) for one in np.eye(theta.shape[1])])
    np.testing.assert_allclose(units.pull_back(gradient), gradient @ map_.T)
    other = Units(2.0 * centre + fit_intercept, 3.0 * scale, 2, fit_intercept)
    np.testing.assert_allclose(other.since(units).outward(u), other.outward(theta))
    np.testing.assert_allclose(other.since(units).rows(units.rows(X)), other.rows(X))
    reordered = units.of([2, 0, 1, 3] if fit_intercept else [2, 0, 1])
    np.testing.assert_array_equal(reordered.scale, scale[[2, 0, 1]])
    assert reordered.n_rows == 1


def test_dense_rows_after_sparse_ones_are_the_same_stream():
    X, y = everyday(n=300)
    found = []
    for forms in ((np.array, np.array), (csr_array, np.array), (np.array, csr_array)):
        stream = BayesianLogisticRegressionPMD(random_state=0)
        for form, part in zip(forms, np.split(np.arange(300), 2), strict=True):
            stream.partial_fit(form(X[part]), y[part], classes=[0, 1])
        found.append(stream.coef_ / stream.coef_std_)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-4)


@pytest.mark.parametrize("factor", [300.0, 1 / 300.0])
def test_a_column_that_changes_its_scale_later_is_warned_of(factor):
    X, y = rows(unit=1.0)
    stream = BayesianLogisticRegressionPMD(random_state=0, n_particles=500)
    stream.partial_fit(X[:200], y[:200], classes=[0, 1])
    X[200:, 2] *= factor
    with pytest.warns(UserWarning, match=r"1 of 3 columns \(x2\) have another scale"):
        stream.partial_fit(X[200:], y[200:])


def test_columns_that_vary_as_before_are_not():
    """Rare columns, which are constant in most parts, and parts of single rows."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.standard_normal(230), rng.random(230) < 0.1, 1e6 + rng.standard_normal(230)]
    y = (X[:, 0] + rng.logistic(size=230) > 0.0).astype(int)
    stream = BayesianLogisticRegressionPMD(random_state=0, n_particles=500)
    for part in (slice(200), slice(200, 201), slice(201, 206), slice(206, 230)):
        stream.partial_fit(X[part], y[part], classes=[0, 1])


@pytest.mark.slow_but("True")
@pytest.mark.parametrize("with_rows", [True, False])
def test_an_earlier_posterior_is_a_prior_in_its_own_units(with_rows):
    """Later rows are from another place, so that their own units would be others."""
    X, y = everyday(n=400)
    order = np.argsort(X[:, 0])
    X, y = X[order], y[order]
    first = BayesianLogisticRegressionPMD(random_state=0).fit(X[:200], y[:200])
    scaler = StandardScaler().fit(X[:200])
    Z = scaler.transform(X)
    known = BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(Z[:200], y[:200])
    if not with_rows:
        first.posterior_.rows = known.posterior_.rows = None
    second, after = (
        BayesianLogisticRegressionPMD(prior=one.posterior_, random_state=0)
        for one in (first, known)
    )
    second.fit(X[200:], y[200:])
    after.fit(Z[200:], y[200:])
    sds = (second.coef_ * scaler.scale_ - after.coef_) / after.coef_std_
    assert np.abs(sds).max() < 1e-4
    assert second.log_evidence_ == pytest.approx(after.log_evidence_, abs=1e-4)
    # Columns may come in another order.
    turned = BayesianLogisticRegressionPMD(prior=first.posterior_, random_state=0)
    turned.fit(X[200:], y[200:])
    np.testing.assert_allclose(turned.coef_, second.coef_)


@pytest.mark.slow
def test_a_prior_on_some_columns_has_the_others_at_their_means():
    X, y = everyday(n=240)
    scaler = StandardScaler().fit(X[:120])
    Z, found = scaler.transform(X), []
    for rows_, scale in ((X, "auto"), (Z, None)):
        names = np.array(list("abcd"), dtype=object)
        first, second = (pd.DataFrame(part, columns=names) for part in (rows_[:120], rows_[120:]))
        earlier = BayesianLogisticRegressionPMD(scale=scale, random_state=0).fit(first, y[:120])
        model = BayesianLogisticRegressionPMD(prior=earlier.posterior_, random_state=0)
        found.append(model.fit(second[["d", "b"]], y[120:]))
    sds = found[0].coef_ * scaler.scale_[[3, 1]] - found[1].coef_
    assert np.abs(sds / found[1].coef_std_).max() < 1e-6


@pytest.mark.slow_but("diag")
@pytest.mark.parametrize("how", ["rows", "densities", "diag"])
def test_shards_with_other_centres_are_merged_right(how):
    """Against all rows in the units of the first shard; of a thousand rows each prior is little."""
    X, y = everyday(n=2000, seed=8, later=1.5)
    parameters = {"random_state": 0, "covariance_type": "diag" if how == "diag" else "full"}
    shards = [
        BayesianLogisticRegressionPMD(**parameters).fit(X[part], y[part])
        for part in (slice(1000), slice(1000, None))
    ]
    if how == "densities":
        for one in shards:
            one.posterior_.rows = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = merge(shards)
    scaler = StandardScaler().fit(X if how == "rows" else X[:1000])
    whole = BayesianLogisticRegressionPMD(scale=None, **parameters).fit(scaler.transform(X), y)
    sds = (found.coef_ * scaler.scale_ - whole.coef_) / whole.coef_std_
    # Errors of 4000 draws, and of Gaussians of shards, whose correlations are not known: up to .93
    # where both are in one unit.
    assert np.abs(sds).max() < (0.6 if how == "diag" else 0.12)
    np.testing.assert_allclose(
        found.predict_proba(X),
        whole.predict_proba(scaler.transform(X)),
        atol=0.02 if how == "diag" else 0.01,
    )


def test_columns_that_do_not_vary_have_their_prior():
    X, y = rows(unit=1.0)
    X[:, 2] = 1.7e9
    model = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    known = BayesianLogisticRegressionPMD(random_state=0).fit(X[:, :2], y)
    assert model.coef_std_[0, 2] == pytest.approx(1.0, rel=0.05)
    np.testing.assert_allclose(model.predict_proba(X), known.predict_proba(X[:, :2]), atol=0.01)


def test_a_rare_column_is_allowed_no_more_than_three_without_correlations():
    """A word of two rows of a thousand: its sd would allow its presence a change of 22."""
    rng = np.random.default_rng(0)
    X = (rng.random((1000, 2)) < [0.3, 0.5]).astype(float)
    X = np.c_[X, np.r_[np.full(2, 0.25), np.zeros(998)]]
    batch = [Batch(X, None, np.ones(1000))]
    units = units_of(batch, 1, True, is_text=True)
    assert 1.0 / units.scale[2] * 0.25 == pytest.approx(3.0, rel=0.01)
    np.testing.assert_allclose(units.scale[:2], X[:, :2].std(axis=0))
    sparse = units_of([Batch(csr_array(X), None, np.ones(1000))], 1, True, is_text=True)
    np.testing.assert_allclose(sparse.scale, units.scale)
    np.testing.assert_allclose(units_of(batch, 1, True).scale, X.std(axis=0))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_strong_column_in_small_units_is_warned_of(n_classes, sparse):
    X, y = rows(n_classes=n_classes)
    X = csr_array(X) if sparse else X
    with pytest.warns(UserWarning, match=r"1 of 3 columns \(x1\).*scale='auto'"):
        BayesianLogisticRegressionPMD(scale=None, random_state=0).fit(X, y)


def test_columns_of_no_effect_or_in_usual_units_are_not():
    X, y = rows(unit=1.0)
    model = BayesianLogisticRegressionPMD(scale=None, random_state=0)
    model.fit(X, y)
    model.set_params(prior_scale=0.01).fit(X, y)  # As was asked for.
    X[:, 1] = 1e-3 * np.random.default_rng(1).standard_normal(len(X))
    model.set_params(prior_scale=1.0).fit(X, y)


@pytest.mark.parametrize("data", ["array", "float32", "memory map", "part"])
@pytest.mark.parametrize(
    "share, value, said",
    [
        (0.2, -999.0, r"x0 is -\d.* to \d.* in 4\d\d of 600 rows, and -999 .*missing_values=-999,"),
        (0.1, 9999999.0, r"and 9999999 in .*missing_values=9999999,"),
        (0.01, 1e20, r"and 1e\+20 in \d*\."),
        (0.0, 1000.0, r"in 599 of 600 rows, and 1000 in 1\. .*take logarithms"),
    ],
)
def test_rows_far_from_all_others_are_warned_of(share, value, said, data, tmp_path):
    """Nothing is left of the effect of the column, which is two; without them all is quiet."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (rng.random(600) < expit(2.0 * X[:, 0] + X[:, 1])).astype(int)
    model = BayesianLogisticRegressionPMD(random_state=0)
    model.fit(X, y)
    model.fit(X * [0.0, 1.0] + [[1.0, 0.0]] * (X[:, :1] > 0.0), y)  # Two values.
    model.fit(X * (X > 0.5), y)  # Many zeros.
    X[rng.random(600) < share, 0] = value
    X[0, 0] = value
    if data == "float32":
        X = X.astype(np.float32)
    elif data == "memory map":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.warns(UserWarning, match=rf"take the slopes of 1 of 2 columns \(x0\).*{said}"):
        model = clone(model)
        model.fit(X, y) if data != "part" else model.partial_fit(X, y, classes=[0, 1])
    assert np.abs(model.coef_[0, 0]) < 0.1


def test_the_evidence_knows_no_units():
    X, y = rows(unit=1.0)
    own = {"prior_scale": "evidence", "random_state": 0}
    known = BayesianLogisticRegressionPMD(scale=None, **own)
    known.fit(StandardScaler().fit_transform(X), y)
    scaled = BayesianLogisticRegressionPMD(**own).fit(X * 1e-5 + 3.0, y)
    assert scaled.prior_scale_ == pytest.approx(known.prior_scale_, rel=0.02)
    assert scaled.log_evidence_ == pytest.approx(known.log_evidence_, abs=0.05)


def test_a_stream_goes_on_in_the_units_of_its_first_rows():
    X, y = rows()
    stream = BayesianLogisticRegressionPMD(random_state=0)
    for part in np.array_split(np.arange(len(y)), 4):
        stream.partial_fit(X[part], y[part], classes=[0, 1])
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    # The first hundred rows know the columns' sds to 7 %.
    assert np.abs((stream.coef_ - whole.coef_) / whole.coef_std_).max() < 0.3
    with pytest.raises(ValueError, match="scale was 'auto'"):
        stream.set_params(scale=None).partial_fit(X[:9], y[:9])


def test_first_rows_that_tell_no_unit_are_warned_of():
    X, y = rows()
    stream = BayesianLogisticRegressionPMD(random_state=0)
    X[:100, 2] = 0.0
    with pytest.warns(UserWarning, match="1 of 3 columns do not vary in the first rows"):
        stream.partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.warns(UserWarning, match="3 of 3 columns do not vary"):
        BayesianLogisticRegressionPMD().partial_fit(X[:1], y[:1], classes=[0, 1])


def test_columns_that_vary_later_have_units_then():
    """One row comes first, which tells nothing; the rows are those of one call from then on."""
    X, y = everyday(n=200)
    stream = BayesianLogisticRegressionPMD(random_state=0)
    with pytest.warns(UserWarning, match="4 of 4 columns do not vary"):
        stream.partial_fit(X[:1], y[:1], classes=[0, 1])
    stream.partial_fit(X[1:], y[1:])
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    assert np.abs((stream.coef_ - whole.coef_) / whole.coef_std_).max() < 0.1
    np.testing.assert_allclose(stream.coef_std_, whole.coef_std_, rtol=0.06)


def test_few_first_rows_do_not_decide_on_units():
    """Two rows that are near each other come first: units are those of the first 50 and more."""
    X, y = everyday(n=200, seed=8)
    first = np.argsort(np.abs(X[:, 0] - X[0, 0]))[:2]
    order = np.concatenate([first, np.setdiff1d(np.arange(200), first)])
    stream = BayesianLogisticRegressionPMD(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The third column may be one number in two rows.
        stream.partial_fit(X[order[:2]], y[order[:2]], classes=[0, 1])
    for part in np.split(order[2:], [10, 60, 90]):
        stream.partial_fit(X[part], y[part])
    units = stream.posterior_.frame
    np.testing.assert_allclose(units.scale, X[order[:62]].std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(units.centre, X[order[:62]].mean(axis=0), rtol=1e-6)
    whole = BayesianLogisticRegressionPMD(random_state=0).fit(X, y)
    # Sixty rows know sds to 9 %, and the prior moves means by a small part of their sds.
    assert np.abs((stream.coef_ - whole.coef_) / whole.coef_std_).max() < 0.2


def test_weights_of_first_rows_decide_on_units_as_copies_do():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(90) > 0.0
    weighted = BayesianLogisticRegressionPMD(random_state=0)
    copied = BayesianLogisticRegressionPMD(random_state=0)
    for rows in np.split(np.arange(90), 3):
        weighted.partial_fit(X[rows], y[rows], [False, True], sample_weight=np.full(30, 2.0))
        copied.partial_fit(np.repeat(X[rows], 2, axis=0), np.repeat(y[rows], 2), [False, True])
    np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-6)


def test_a_stream_is_warned_of_too():
    X, y = rows()
    with pytest.warns(UserWarning, match=r"1 of 3 columns \(x1\)"):
        model = BayesianLogisticRegressionPMD(scale=None, random_state=0)
        model.partial_fit(X, y, classes=[0, 1])


def test_a_warning_that_is_an_error_does_not_undo_a_fit():
    X, y = rows()
    model = BayesianLogisticRegressionPMD(scale=None, random_state=0)
    with pytest.raises(UserWarning, match="next to no effect"):  # Warnings are errors here.
        model.fit(X, y)
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("sparse", [False, True])
def test_moments_are_those_of_numpy(sparse):
    rng = np.random.default_rng(0)
    X = np.c_[1.7e9 + rng.standard_normal(40_000), rng.random(40_000) < 0.01]
    weight = rng.uniform(0.5, 2.0, 40_000)
    found = moments_of([Batch(csr_array(X) if sparse else X, None, weight)])
    mean = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-14)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(found.sd, sd, rtol=1e-6)
    assert found.nonzero[1] == pytest.approx(mean[1])


def test_rounding_of_a_constant_column_is_no_variance():
    for seed in range(20):  # Of some of these the variance is below zero by rounding.
        weight = np.random.default_rng(seed).random(10)
        found = moments_of([Batch(np.full((10, 2), 2.592e14), None, weight)])
        np.testing.assert_array_equal(found.sd, 1.0)
