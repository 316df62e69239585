"""Inputs of all kinds for the sparse Gaussian process: units, degenerate data, errors, searches."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpmd import SparseGPClassifierPMD, SparseGPRegressorPMD

KERNEL = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
MIRROR = {"weighting": "posterior", "n_particles": 9}


def problem(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n)


@pytest.mark.filterwarnings("ignore:.*there is one row:UserWarning")
@pytest.mark.slow_but("one row-dtc", "one row-fitc", "one row-vfe")
@pytest.mark.parametrize("approximation", ["dtc", "fitc", "vfe"])
@pytest.mark.parametrize(
    "X, y",
    [
        (np.zeros((1, 1)), np.ones(1)),
        (np.zeros((30, 2)), np.arange(30.0)),
        (np.repeat([[0.0], [1.0]], 20, axis=0), np.tile([0.0, 1.0], 20)),
        (np.column_stack([np.linspace(0, 1, 30), np.ones(30)]), np.linspace(0, 1, 30) ** 2),
        (np.linspace(0, 1, 30)[:, None], np.full(30, 7.0)),
    ],
    ids=["one row", "one place", "copies", "a constant column", "a constant target"],
)
def test_degenerate_data_give_finite_predictions(X, y, approximation):
    gp = SparseGPRegressorPMD(approximation=approximation, random_state=0).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    assert np.abs(mean - y).max() <= np.ptp(y) + 1e-6
    assert np.isfinite(gp.predict_proba(X + 5.0).std()).all()


@pytest.mark.slow_but("kmeans")
@pytest.mark.parametrize("init", ["random", "kmeans", "greedy"])
def test_ways_to_place_inducing_inputs(init):
    X, y = problem(300)
    gp = SparseGPRegressorPMD(n_inducing=30, inducing_init=init, random_state=0).fit(X, y)
    assert gp.inducing_.shape == (30, 2)
    assert gp.score(X, y) > 0.95


@pytest.mark.parametrize("kind", ["one row far away", "tiny"])
def test_clusters_of_rows_that_rounding_cannot_tell_apart(kind):
    """There were two distinct centres of five, and a warning of another library."""
    X, y = problem(60)
    X = 1e-300 * X if kind == "tiny" else np.concatenate([X[:59], [[1e9, 1e9]]])
    kernel = RBF(1e-300 if kind == "tiny" else 1.0, "fixed") + WhiteKernel(0.1)
    params = {"n_inducing": 5, "inducing_init": "kmeans", "random_state": 0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Raise n_inducing")
        gp = SparseGPRegressorPMD(kernel, optimizer=None, **params).fit(X, y)
    assert len(np.unique(gp.inducing_, axis=0)) == 5
    assert kind == "tiny" or (np.abs(gp.inducing_) < 10.0).all(axis=1).sum() >= 3


def test_several_targets_are_as_many_processes_with_one_kernel():
    X, y = problem()
    Y = np.column_stack([y, np.cos(X[:, 1]), 5.0 * y + 2.0])
    both = SparseGPRegressorPMD(KERNEL, optimizer=None, n_inducing=20, random_state=0).fit(X, Y)
    mean, std = both.predict(X, return_std=True)
    covariance = both.predict(X, return_cov=True)[1]
    assert mean.shape == std.shape == (80, 3) and covariance.shape == (80, 80, 3)
    for j in range(3):
        one = SparseGPRegressorPMD(KERNEL, optimizer=None, n_inducing=20, random_state=0)
        theirs = one.fit(X, Y[:, j]).predict(X, return_std=True)
        np.testing.assert_allclose(mean[:, j], theirs[0])
        np.testing.assert_allclose(std[:, j], theirs[1])
        np.testing.assert_allclose(np.diag(covariance[:, :, j]), theirs[1] ** 2)
    with pytest.raises(ValueError, match="MultiOutputRegressor"):
        both.predict_proba(X)
    assert both.sample_y(X, 4).shape == (80, 3, 4)


def test_own_noise_of_rows_takes_their_weight():
    X, y = problem()
    own = np.full(80, 1e-9)
    y[40:] += 10.0
    own[40:] = 1e6
    gp = SparseGPRegressorPMD(KERNEL, optimizer=None, normalize_y=False)
    mean = gp.fit(X, y, noise_variance=own).predict(X)
    alone = clone(gp).fit(X[:40], y[:40]).predict(X)
    np.testing.assert_allclose(mean, alone, atol=1e-3)


def test_draws_have_the_moments_of_the_predictions():
    X, y = problem()
    gp = SparseGPRegressorPMD(KERNEL, optimizer=None).fit(X, y)
    mean, covariance = gp.predict(X[:6], return_cov=True)
    draws = gp.sample_y(X[:6], 20000, random_state=0)
    error = np.sqrt(np.diag(covariance) / 20000)
    assert (np.abs(draws.mean(axis=1) - mean) < 4.5 * error).all()
    np.testing.assert_allclose(
        np.cov(draws), covariance, atol=4.5 * np.diag(covariance).max() / 100
    )


def test_predictions_are_row_wise_and_survive_pickling():
    X, y = problem()
    gp = SparseGPRegressorPMD(KERNEL, optimizer=None, n_inducing=20).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    copy = pickle.loads(pickle.dumps(gp))
    for i in (0, 17):
        own = copy.predict(X[i : i + 1], return_std=True)
        np.testing.assert_allclose(own, [mean[i : i + 1], std[i : i + 1]], rtol=1e-10)
    copy.partial_fit(X, y)
    np.testing.assert_array_equal(gp.predict(X), mean)


def test_before_fit_it_is_the_prior():
    X, _ = problem(5)
    for gp in (SparseGPRegressorPMD(KERNEL), SparseGPRegressorPMD()):
        mean, std = gp.predict(X, return_std=True)
        np.testing.assert_array_equal(mean, 0.0)
        assert (std > 0.9).all()
        assert gp.sample_y(X, 3).shape == (5, 3)
    with pytest.raises(AttributeError, match="after fit"):
        _ = gp.log_marginal_likelihood_value_


@pytest.mark.parametrize(
    "params, fit, message",
    [
        ({"hyperprior": [stats.norm()]}, {}, "hyperprior has 1 distributions"),
        ({"alpha": np.ones(3)}, {}, "alpha must be a scalar or an array"),
        ({"n_targets": 2}, {}, "number of targets"),
        ({"inducing_init": np.zeros((4, 5))}, {}, "inducing_init has shape"),
        ({"likelihood": "student_t", "weighting": "posterior"}, {}, "weighting='posterior'"),
        ({"likelihood": "student_t", "df": 2.0}, {}, "'df' parameter"),
        ({"jitter": 0.5}, {}, "'jitter' parameter"),
        ({}, {"sample_weight": -np.ones(80)}, "Negative values"),
        ({}, {"noise_variance": -np.ones(80)}, "noise_variance must have a variance"),
        ({}, {"noise_variance": np.ones(79)}, "noise_variance must have a variance"),
        ({}, {"noise_variance": np.full(80, np.nan)}, "noise_variance contains NaN"),
        ({"alpha": -0.5 * np.ones(80)}, {}, "alpha must be finite"),
        ({"hyperprior": [1, 2, 3]}, {}, "hyperprior must hold frozen distributions"),
        ({"inducing_init": np.full((4, 1), np.nan)}, {}, "inducing_init contains NaN"),
        ({"kernel": WhiteKernel()}, {}, "kernel has no variance"),
        ({"kernel": RBF(), "likelihood": "student_t"}, {}, "needs noise"),
        ({**MIRROR, "kernel": RBF(1.0, "fixed")}, {}, "free hyperparameters"),
        ({"forgetting": 0.1, "total_samples": 80}, {}, "forgetting"),
        ({"weighting": "posterior", "n_particles": 1}, {}, "raise n_particles"),
        ({"kernel": RBF(), "hyperprior": [stats.norm(1.0, 0.7)]}, {}, "mass below 0"),
        ({}, {"noise_variance": 0.1}, "noise_variance must have a variance"),
    ],
)
def test_bad_input_is_refused_by_name(params, fit, message):
    X, y = problem()
    with pytest.raises(ValueError, match=message):
        SparseGPRegressorPMD(**{"kernel": KERNEL, **params}).fit(X, y, **fit)


def test_a_hopeless_covariance_names_its_remedy():
    class Broken(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            K = super().__call__(X, Y, eval_gradient)
            return -K

    X, y = problem()
    with pytest.raises(np.linalg.LinAlgError, match="check the kernel"):
        SparseGPRegressorPMD(Broken() + WhiteKernel(), optimizer=None).fit(X, y)


@pytest.mark.slow
def test_a_column_that_is_constant_up_to_rounding_does_not_count():
    X, y = problem()
    X = np.column_stack([X, np.full(len(X), 0.1)])
    gp = SparseGPRegressorPMD(random_state=0).fit(X, y)
    moved = X + [0.0, 0.0, 1e-3]
    assert gp.score(moved, y) > 0.9


@pytest.mark.slow
def test_the_order_of_rows_changes_nothing_that_is_learnt():
    X, y = problem(400)
    rng = np.random.default_rng(0)
    order = rng.permutation(400)
    for params in ({"n_subset": 60}, {"n_subset": 60, "n_particles": 3}):
        one, other = (
            SparseGPRegressorPMD(n_inducing=50, random_state=0, **params).fit(X[rows], y[rows])
            for rows in (np.arange(400), order)
        )
        np.testing.assert_allclose(one.kernel_.theta, other.kernel_.theta, rtol=1e-9)
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_one_wild_target_does_not_set_the_scale_of_student_noise():
    X, y = problem(100)
    wild = y.copy()
    wild[7] = 1e4
    gp = SparseGPRegressorPMD(likelihood="student_t", random_state=0).fit(X, wild)
    assert np.sqrt(np.mean((gp.predict(X) - y) ** 2)) < 0.3 * y.std()


@pytest.mark.parametrize("n_rows", [60, 1200])
def test_a_clean_fit_has_no_objections_and_others_have(n_rows):
    """They are what the fit warned of, and not what particles are by choice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n_rows)
    fitted = SparseGPRegressorPMD(random_state=0).fit(X, y)
    kind = "for predictions" if n_rows < 1000 else "point estimate"
    assert not fitted.posterior_.check() and kind in repr(fitted.posterior_)
    classes = SparseGPClassifierPMD(random_state=0).fit(X, y > 0.0)
    assert not classes.posterior_.check() and "point estimate" in repr(classes.posterior_)
    with pytest.warns(ConvergenceWarning, match="lower bound"):
        fitted.fit(np.arange(12.0)[:, None], np.arange(12) % 2)
    assert "ended at its lower bound" in fitted.posterior_.check()[0]
