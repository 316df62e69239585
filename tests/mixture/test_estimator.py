"""The mixture estimator with conjugate particles."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from skpmd import GaussianMixturePMD

TYPES = ("full", "tied", "diag", "spherical")
WEIGHTS = ("dirichlet_distribution", "dirichlet_process", "pitman_yor")


def mixture(n_components=3, **params):
    params = {"strategy": "conjugate", "random_state": 0, **params}
    return GaussianMixturePMD(n_components, **params)


def blobs(n=600, seed=0, p=2):
    """Three groups and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    centres = 6.0 * np.eye(3, p)
    return centres[y] + rng.normal(size=(n, p)) * np.linspace(0.5, 1.5, p), y


def rings(n=2000, seed=0):
    """Rows that no few normals fit."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0.0, 2 * np.pi, n), rng.choice([1.0, 3.0], n)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return X + 0.1 * rng.normal(size=(n, 2))


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_groups_are_found(covariance_type, weights):
    X, y = blobs()
    own = {"covariance_type": covariance_type, "weight_concentration_prior_type": weights}
    fitted = mixture(**own).fit(X)
    assert adjusted_rand_score(y, fitted.predict(X)) > 0.95
    order = np.argsort(-fitted.weights_)
    np.testing.assert_allclose(fitted.weights_[order], [0.5, 0.3, 0.2], atol=0.06)
    theirs = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    assert fitted.covariances_.shape == theirs.covariances_.shape
    assert fitted.precisions_.shape == theirs.precisions_.shape
    assert fitted.precisions_cholesky_.shape == theirs.precisions_cholesky_.shape
    at = np.argsort(-theirs.weights_)
    np.testing.assert_allclose(fitted.means_[order], theirs.means_[at], atol=0.2)
    if covariance_type == "full":
        np.testing.assert_allclose(fitted.covariances_[order], theirs.covariances_[at], atol=0.3)
        eye = fitted.precisions_ @ fitted.covariances_
        np.testing.assert_allclose(eye, np.tile(np.eye(2), (3, 1, 1)), atol=1e-9)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_precisions_past_the_largest_number_are_refused(covariance_type):
    X = 1e-157 * np.random.default_rng(0).normal(size=(20, 2))
    params = {"n_components": 1, "n_particles": 2, "random_state": 0}
    fitted = GaussianMixturePMD(covariance_type=covariance_type, **params).fit(X)
    assert np.isfinite(fitted.predict_proba(X)).all()
    with pytest.raises(ValueError, match="X has columns that vary so little .* scale it"):
        fitted.precisions_  # noqa: B018


def test_draws_follow_the_density():
    X, _ = blobs()
    fitted = mixture().fit(X)
    draws, _ = fitted.sample(4000, random_state=1)
    assert fitted.score(draws) == pytest.approx(fitted.score(X), abs=0.1)
    again, _ = fitted.sample(4000, random_state=1)
    np.testing.assert_array_equal(draws, again)
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(0)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_weights_are_repetitions_to_the_last_bit(covariance_type):
    X, _ = blobs(300)
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    repeated = np.random.default_rng(1).permutation(np.repeat(X, weight, axis=0))
    one = mixture(covariance_type=covariance_type, batch_size=64).fit(X, sample_weight=weight)
    other = mixture(covariance_type=covariance_type, batch_size=64).fit(repeated)
    np.testing.assert_array_equal(one.score_samples(X), other.score_samples(X))
    np.testing.assert_array_equal(one.means_, other.means_)
    part = mixture(covariance_type=covariance_type)
    for rows in np.array_split(np.arange(300), 4):
        part.partial_fit(X[rows], sample_weight=weight[rows])
    copies = mixture(covariance_type=covariance_type)
    for rows in np.array_split(np.arange(300), 4):
        copies.partial_fit(np.repeat(X[rows], weight[rows], axis=0)[::-1])
    np.testing.assert_array_equal(part.score_samples(X), copies.score_samples(X))


CASES = {
    "one row": (np.array([[1.0, 2.0]]), 3),
    "fewer rows than components": (np.random.default_rng(0).normal(size=(5, 2)), 30),
    "equal rows": (np.full((50, 3), 7.0), 3),
    "a constant column": (np.column_stack([np.arange(50.0), np.full(50, 5e9)]), 3),
    "integers": (np.random.default_rng(0).integers(0, 3, size=(200, 2)), 5),
    "collinear columns": (np.outer(np.arange(50.0), [1.0, 2.0, 3.0]), 2),
    "an outlier": (np.vstack([np.random.default_rng(0).normal(size=(99, 2)), [[1e6, 1e6]]]), 3),
    "one component": (np.random.default_rng(0).normal(size=(50, 2)), 1),
}


@pytest.mark.slow_for("full-fewer rows than components", "tied-fewer rows than components")
@pytest.mark.filterwarnings("ignore:.*is more than the rows:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("covariance_type", TYPES)
def test_hard_data_give_finite_answers(case, covariance_type):
    X, K = CASES[case]
    fitted = mixture(K, covariance_type=covariance_type).fit(X)
    stream = mixture(K, covariance_type=covariance_type)
    for part in np.array_split(X, min(3, len(X))):
        stream.partial_fit(part)
    for one in (fitted, stream):
        values = [one.score_samples(X), one.predict_proba(X), one.sample(20)[0], one.bic(X)]
        values += [one.weights_, one.means_, one.covariances_, one.precisions_, one.lower_bound_]
        values += list(one.component_interval().values())
        assert all(np.isfinite(value).all() for value in values)


def test_one_component_is_the_exact_posterior():
    X, _ = blobs(50)
    fitted = mixture(1, mean_precision_prior=1.0).fit(X)
    assert fitted.strategy_ == "conjugate" and len(fitted._state.points.log_weights) == 1
    log_density = 0.0
    stream = mixture(1, mean_precision_prior=1.0)
    # Predictions of rows to come add up to the bound, which is the evidence here.
    own = {
        "mean_prior": fitted.mean_prior_, "covariance_prior": fitted.covariance_prior_,
        "reg_covar": 0,
    }  # fmt: skip
    stream.set_params(**own, max_full_iter=3, max_iter=0).fit(X[:10])
    start = stream.lower_bound_
    for row in X[10:]:
        log_density += stream.score(row[None])
        stream.partial_fit(row[None])
    assert stream.lower_bound_ == pytest.approx(start + log_density, abs=1e-6)
    assert stream.lower_bound_ == pytest.approx(fitted.lower_bound_, abs=1e-3)


# ---------------------------------------------------------------------- streams
def test_parts_are_near_one_pass():
    X, held_out = rings(4000), rings(1000, seed=1)
    whole = mixture(8).fit(X).score(held_out)
    one_pass = mixture(8, max_iter=1, max_full_iter=0).fit(X).score(held_out)
    stream = mixture(8)
    for part in np.array_split(X, 20):
        stream.partial_fit(part)
    assert stream.score(held_out) > one_pass - 0.05
    assert stream.score(held_out) > whole - 0.15
    assert stream._state.n_samples_seen == 4000
    assert stream._state.fit.counts.sizes.sum(axis=1) == pytest.approx(4000)
    assert len(stream._state.fit.retained.rows.X) == 1600


def test_kept_rows_do_not_depend_on_parts():
    X = rings(3000)
    one, other = mixture(2), mixture(2)
    for part in np.array_split(X, 3):
        one.partial_fit(part)
    for part in np.array_split(X[::-1], 10):
        other.partial_fit(part)
    np.testing.assert_array_equal(one._state.fit.retained.rows.X, other._state.fit.retained.rows.X)


def test_further_passes_are_mirror_steps():
    X, held_out = rings(3000), rings(1000, seed=1)
    stream = mixture(4, total_samples=3000)
    parts = np.array_split(X, 6)
    for part in parts:
        stream.partial_fit(part)
    once = stream.lower_bound_
    for _ in range(5):
        for part in parts:
            stream.partial_fit(part)
    assert stream._state.fit.counts.sizes.sum(axis=1) == pytest.approx(3000)
    assert stream.lower_bound_ > once
    assert stream.score(held_out) > mixture(4).fit(X).score(held_out) - 0.1


# ---------------------------------------------------------------------- parameters
@pytest.mark.parametrize("init", ["mixed", "k-means++", "kmeans", "random_from_data", "random"])
def test_starts(init):
    X, y = blobs()
    fitted = mixture(init_params=init, max_full_iter=200, n_particles=4).fit(X)
    assert adjusted_rand_score(y, fitted.predict(X)) > (0.9 if init != "random" else -1.0)


def test_the_bound_grows_and_steps_end():
    X, _ = blobs()
    fitted = mixture(n_particles=1, init_params="random_from_data", max_iter=0).fit(X)
    bound = fitted.history_["elbo"]
    assert (np.diff(bound) > -1e-3).all() and fitted.converged_
    assert fitted.lower_bound_ == pytest.approx(600 * bound[-1])
    assert fitted.history_["n_particles"][-1] == 1 and fitted.n_iter_ == len(bound)
    with pytest.warns(ConvergenceWarning, match="still grew after 2 steps"):
        mixture(n_particles=1, max_full_iter=2, max_iter=0, tol=0.0).fit(X)


def test_warm_start_goes_on():
    X, _ = blobs()
    fitted = mixture(warm_start=True, max_iter=0, max_full_iter=2, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = fitted.fit(X).lower_bound_
        assert fitted.fit(X).lower_bound_ >= first - 0.1
    with pytest.raises(ValueError, match="warm_start"):
        fitted.set_params(n_components=4).fit(X)
    assert len(fitted.weights_) == 3


def test_auto_says_what_it_took(capsys):
    """Draws of all parameters of 1,500 rows took minutes: only who asks for them gets them."""
    X, _ = blobs(60)
    assert GaussianMixturePMD(2).partial_fit(X).strategy_ == "conjugate"
    few = GaussianMixturePMD(2, component_prior="independent", n_particles=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert few.fit(X[:, :1]).strategy_ == "parameters"
    capsys.readouterr()
    GaussianMixturePMD(1, verbose=1, verbose_interval=1).fit(X)
    captured = capsys.readouterr()
    assert "takes 'conjugate'" in captured.out
    assert "log_density" in captured.out + captured.err


def test_bad_parameters_are_named():
    X, _ = blobs(50)
    for params, message in [
        ({"component_prior": "independent"}, "not conjugate"),
        ({"degrees_of_freedom_prior": 0.5}, "greater than 1"),
        ({"degrees_of_freedom_prior": 1e300}, "at most 1e.15"),
        # Beside correlated columns rounding loses it.
        ({"covariance_prior": [[1.0, 1.0], [1.0, 1.0 + 1e-17]], "reg_covar": 1e-300}, "singular"),
        ({"reg_covar": 1e300}, "reg_covar is 1e.300 times the variances"),
        ({"mean_prior": [0.0]}, "mean_prior"),
        ({"covariance_prior": np.eye(3)}, "covariance_prior"),
        ({"covariance_prior": -np.eye(2)}, "positive definite"),
        ({"mean_scale_prior": -1.0}, "mean_scale_prior"),
        ({"discount": 1.0}, "discount"),
        ({"n_particles": 0}, "n_particles"),
        ({"init_params": "none"}, "init_params"),
    ]:
        with pytest.raises(ValueError, match=message):
            mixture(**params).fit(X)
    with pytest.raises(ValueError, match="raise reg_covar"):
        mixture(reg_covar=0.0).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="zero"):
        mixture().fit(X, sample_weight=np.zeros(50))


def test_given_priors_are_in_memory():
    X, _ = blobs()
    prior = {
        "mean_prior": np.array([1.0, -1.0]), "mean_precision_prior": 2.0,
        "degrees_of_freedom_prior": 7.0, "covariance_prior": 3.0 * np.eye(2),
        "weight_concentration_prior": 2.0, "reg_covar": 0.0,
    }  # fmt: skip
    fitted = mixture(**prior).fit(X)
    for name, value in prior.items():
        if name != "reg_covar":
            np.testing.assert_allclose(getattr(fitted, name + "_"), value, rtol=1e-9)


def test_criteria_choose_the_number_of_groups():
    X, _ = blobs(2000)
    bic = [mixture(K, n_particles=1).fit(X).bic(X) for K in (1, 2, 3, 6)]
    assert int(np.argmin(bic)) == 2
    fitted = mixture().fit(X)
    assert fitted.aic(X) - fitted.bic(X) == pytest.approx(17 * (2 - np.log(2000)))


def test_posterior_of_components():
    X, _ = blobs(400)
    fitted = mixture().fit(X)
    interval = fitted.component_interval(0.9)
    assert interval["means"].shape == (3, 2, 2) and interval["weights"].shape == (3, 2)
    for name, value in (("means", fitted.means_), ("weights", fitted.weights_)):
        assert (interval[name][..., 0] < value).all() and (value < interval[name][..., 1]).all()
    assert fitted.posterior_.names[0] == "weight[0]"
    with pytest.raises(AttributeError, match="responsibilities"):
        _ = fitted.posterior_.log_evidence
    sizes = 400 * fitted.weights_
    width = interval["means"][:, 0, 1] - interval["means"][:, 0, 0]
    expected = 2 * 1.645 * np.sqrt(fitted.covariances_[:, 0, 0] / sizes)
    np.testing.assert_allclose(width, expected, rtol=0.15)


def _peak(call):
    """Memory that a call takes beside what was there before, in bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_no_call_copies_all_rows():
    """By chunks: a fit took twice the memory of the rows, predictions more."""
    rng = np.random.default_rng(0)
    X = 4.0 * rng.integers(3, size=(60_000, 1)) + rng.standard_normal((60_000, 8))
    how = {"max_iter": 1, "batch_size": 5000, "n_particles": 2, "random_state": 0}
    fitted = GaussianMixturePMD(3, **how).fit(X[:2000])
    stream = GaussianMixturePMD(3, **how).partial_fit(X[:2000])
    calls = {
        "fit": lambda: GaussianMixturePMD(3, **how).fit(X),
        "partial_fit": lambda: stream.partial_fit(X[2000:]),
        "predict": lambda: fitted.predict(X),
        "predict_proba": lambda: fitted.predict_proba(X),
        "score_samples": lambda: fitted.score_samples(X),
    }
    outputs = {"predict": 1, "predict_proba": 3, "score_samples": 1}
    for name, call in calls.items():
        more = _peak(call) - 8 * len(X) * outputs.get(name, 0)
        # Places and weights are a third of so few columns, chunks a third of so few rows.
        assert more < 0.7 * X.nbytes, (name, more / X.nbytes)


def test_the_posterior_of_conjugate_particles_says_what_it_takes_as_known():
    """Its sds of a density may be several times too small; one component is exact."""
    X = blobs(60)[0]
    assert "too narrow where components overlap" in repr(mixture(2).fit(X).posterior_)
    assert "narrow" not in repr(mixture(1).fit(X).posterior_)
