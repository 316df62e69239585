"""A process by nearest neighbours: the exact one with all of them, brute force with fewer."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    WhiteKernel,
)

from skpmd import SparseGPRegressorPMD
from skpmd.sparse_gp import _choice, _findings, _vecchia_evidence, _vecchia_fit
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._data import Sites
from skpmd.sparse_gp._evidence import log_marginal_likelihood, maximise_evidence
from skpmd.sparse_gp._model import MIN_NOISE
from skpmd.sparse_gp._neighbours import index_of, nearest, nearest_before
from skpmd.sparse_gp._vecchia import VecchiaGP

KERNEL = ConstantKernel(1.7) * RBF([0.8, 1.4]) + WhiteKernel(0.05)
SHAPES = {
    "rbf": KERNEL,
    "matern12": ConstantKernel(1.7) * Matern([0.8, 1.4], nu=0.5) + WhiteKernel(0.05),
    "matern32": Matern([0.8, 1.4], nu=1.5) + WhiteKernel(0.05),
    "matern52": ConstantKernel(0.5, "fixed") * Matern(0.9, nu=2.5) + WhiteKernel(0.05),
}


def problem(n=120, copies=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    X = np.vstack([X, X[:copies]])
    return X, np.sin(2.0 * X).sum(axis=1) + 0.2 * rng.standard_normal(len(X))


def process(kernel=KERNEL, **params):
    params = {"approximation": "vecchia", "normalize_y": False, "random_state": 0, **params}
    return SparseGPRegressorPMD(kernel, **params)


def model_of(kernel, n_neighbors, copies=8, n_targets=1, seed=0):
    """A model of rows of which some are copies, and have noise of their own."""
    rng = np.random.default_rng(seed)
    X, _ = problem(60, copies)
    n = len(X)
    y, own = rng.standard_normal((n, n_targets)), np.round(0.1 * rng.random(n), 2)
    own[60:] = own[:copies]
    sites = Sites(X, y, own, rng.integers(1, 4, n).astype(float), np.zeros(n))
    covariance = KernelCovariance(kernel)
    metric = covariance.term(kernel.theta).length_scale
    distinct = sites.merged()[0]
    distinct = distinct.select(rng.permutation(len(distinct.weight)))
    return VecchiaGP(covariance, None, distinct, metric, n_neighbors), sites


def brute(model, theta):
    """Log densities of rows given their neighbours, by dense matrices."""
    sites, covariance = model.sites, model.covariance
    K = covariance.cross(theta, sites.X, sites.X)
    term = covariance.term(theta)
    single = term.noise + sites.noise_variance + MIN_NOISE * term.amplitude
    noise, scaled, out = single / sites.weight, sites.X / model.metric, []
    t, w = model.n_targets, sites.weight
    for i in range(len(w)):
        order = np.argsort(((scaled[:i] - scaled[i]) ** 2).sum(axis=1))[: model.n_before]
        known = K[np.ix_(order, order)] + np.diag(noise[order])
        b = np.linalg.solve(known, K[order, i])
        variance = K[i, i] + noise[i] - b @ K[order, i]
        squares = ((sites.y[i] - b @ sites.y[order]) ** 2).sum()
        density = -0.5 * (t * np.log(2.0 * np.pi * variance) + squares / variance)
        copies = t * ((w[i] - 1.0) * np.log(2.0 * np.pi * single[i]) + np.log(w[i]))
        out.append(density - 0.5 * (copies + sites.squares[i] / single[i]))
    return np.array(out)


# ---------------------------------------------------------------------- the kernel
def test_waves_shorter_than_a_length_scale_are_found():
    """From a length scale of one no slope leads to them: all is noise there, of variance .5.

    Of nine such fits the noise was .007 to .013, and the length scale .045 to .07.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (300, 1))
    y = np.sin(30.0 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    gp = process(kernel, n_particles=1, n_restarts_optimizer=1).fit(X, y)
    length, noise = np.exp(gp.kernel_.theta[1:])
    assert length < 0.1 and noise < 0.02


@pytest.mark.slow
def test_short_waves_are_found():
    """Twenty rows a wave, of which a thousand show nothing: else all is noise, of variance .5."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-3.0, 3.0, (3000, 1))
    y = np.sin(150.0 * X[:, 0]) + 0.1 * rng.standard_normal(3000)
    gp = process(None, n_particles=1, random_state=1).fit(X, y)
    assert np.exp(gp.kernel_.theta[-1]) < 0.02  # The true one is .01.


def test_starts_that_are_clearly_behind_or_at_one_place_are_left_out():
    rng = np.random.default_rng(0)
    base, gap = rng.standard_normal((2, 4000))
    near = base - 0.01 + gap - gap.mean()  # .6 standard errors.
    kinds = {"behind": base - 0.1, "near": near, "best": base, "same": base - 1e-5}
    starts = [(SimpleNamespace(densities=lambda theta: kinds[theta]), one) for one in kinds]
    left = [theta for _, theta in _vecchia_evidence._undecided(starts, False)]
    assert left == ["best", "near"]
    assert [theta for _, theta in _vecchia_evidence._undecided(starts, True)] == ["best"]


def test_a_column_of_many_groups_is_found(monkeypatch):
    """Effects of 125 groups of four rows each are four of five parts of the variance.

    A search among all columns takes nearly all of the variance for noise. Of four such fits the
    noise was .031 to .042, and 1.6 to 2.3 without searches that begin at one short length scale.
    """
    monkeypatch.setattr(_vecchia_evidence, "_DECISIVE", 400)
    monkeypatch.setattr(_vecchia_evidence, "_FIRST", (100, None, 30))
    monkeypatch.setattr(_vecchia_evidence, "_ROUNDS", ((200, None, 20, 1), (400, None, 20, 1)))
    rng = np.random.default_rng(0)
    group = rng.integers(125, size=500)
    X = np.column_stack([rng.standard_normal((500, 4)), 3.4 / 125 * group])
    y = np.sin(X[:, 0]) + 1.4 * rng.standard_normal(125)[group] + 0.2 * rng.standard_normal(500)
    kernel = ConstantKernel(1.0) * RBF(np.ones(5)) + WhiteKernel(1.0)
    gp = process(kernel, n_particles=1, n_restarts_optimizer=1).fit(X, y)
    assert np.exp(gp.kernel_.theta[-1]) < 0.1  # The true one is .04.


@pytest.mark.slow
def test_more_rows_may_decide_for_what_is_rough(monkeypatch):
    """One of thirty fits to the flights was too smooth by chance: its RMSE was larger by .04."""
    decided = _vecchia_evidence._decided
    monkeypatch.setattr(_vecchia_evidence, "_DECISIVE", 400)
    monkeypatch.setattr(_vecchia_evidence, "_MANY_ROWS", 450)
    monkeypatch.setattr(_vecchia_evidence, "_ROUNDS", ((300, None, 5, 1), (400, None, 5, 1)))
    last = (500, None, 12, 1), (2000, None, 20, 1)
    monkeypatch.setattr(_vecchia_evidence, "_ROUNDS_OF_MANY", last)
    # Those of four hundred rows go wrong.
    monkeypatch.setattr(
        _vecchia_evidence,
        "_decided",
        lambda ends: ends[0] if len(ends[0][0]._rows) == 400 else decided(ends),
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (900, 2))
    K = Matern(1.0, nu=0.5)(X)
    y = multivariate_normal(cov=K, allow_singular=True).rvs(random_state=rng)
    gp = process(None, n_particles=1, n_restarts_optimizer=0, random_state=0).fit(X, y)
    assert gp.kernel_.k1.k2.nu == 0.5


@pytest.mark.parametrize(("n_neighbors", "expected"), [("auto", 40), (7, 7)])
def test_the_last_search_has_all_rows_and_twice_the_neighbours(n_neighbors, expected, monkeypatch):
    """Unless their number is given."""
    search, found = _vecchia_evidence._Batch.search, []

    def spied(batch, *args):
        found.append((len(batch._rows), batch._model.n_before))
        return search(batch, *args)

    monkeypatch.setattr(_vecchia_evidence._Batch, "search", spied)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    process(kernel, n_neighbors=n_neighbors, n_particles=1).fit(*problem(200))
    assert found[-1] == (200, expected)


def test_searches_from_the_one_that_decides_on_carry_its_curvature(monkeypatch):
    """Inverse curvatures by few evaluations are rough, but positive."""
    search, found = _vecchia_evidence._Batch.search, []

    def spied(batch, *args):
        found.append((len(batch._rows), batch.curvature))
        return search(batch, *args)

    monkeypatch.setattr(_vecchia_evidence, "_DECISIVE", 150)
    monkeypatch.setattr(_vecchia_evidence, "_FIRST", (80, None, 20))
    monkeypatch.setattr(_vecchia_evidence, "_ROUNDS", ((100, None, 20, 1), (150, None, 20, 1)))
    monkeypatch.setattr(_vecchia_evidence._Batch, "search", spied)
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    process(kernel, n_particles=1, n_restarts_optimizer=0).fit(*problem(200))
    early = [curvature for n, curvature in found if n < 150]
    late = [curvature for n, curvature in found if n >= 150]
    assert early and all(one is None for one in early)
    assert late and all((np.linalg.eigvalsh(one) > 0.0).all() for one in late)


def test_another_kernel_is_searched_with_the_curvature_of_fewer_rows(monkeypatch):
    """From there on four evaluations are enough: the evidence is what thirty more would find."""
    monkeypatch.setattr(_choice, "_FEW_ROWS", 150)
    state = process(n_particles=1, n_subset=400, random_state=0).fit(*problem(400))._state
    state = state._replace(theta=state.theta + 0.3)
    parameters = process(n_particles=1, n_subset=400)._parameters()
    other = _choice._under_another_kernel(parameters, state, is_smooth=True)
    covariance, sample = other.model.covariance, state.sample
    end = maximise_evidence(covariance, sample, "fmin_l_bfgs_b", 0, None, other.theta, 30)
    values = [
        log_marginal_likelihood(covariance, theta, sample, gradient=False)
        for theta in (state.theta, other.theta, end)
    ]
    assert values[0] < values[1] - 1.0 and values[2] < values[1] + 0.5


@pytest.mark.parametrize(
    ("n", "expected"), [(20_000, 1), (21_000, 1), (50_000, 2), (61_000, 3), (500_000, 3)]
)
def test_last_rounds(n, expected):
    """They end with one that has all rows, if so many are allowed."""
    assert len(_vecchia_evidence._last_rounds(n)) == expected


def test_no_shape_is_decided_for_that_predicts_clearly_worse():
    rng = np.random.default_rng(0)
    left_out = rng.standard_normal(500)
    kinds = {"best": (1.0, left_out - 1.0), "good": (0.9, left_out), "bad": (0.5, left_out)}
    batch = SimpleNamespace(value=lambda one: kinds[one][0], left_out=lambda one: kinds[one][1])
    ends = [(batch, one, None) for one in kinds]
    assert _vecchia_evidence._decided(ends)[1] == "good"
    assert _vecchia_evidence._decided(ends[:1])[1] == "best"


# ---------------------------------------------------------------------- the likelihood
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_density_is_the_product_of_conditionals(name, n_targets):
    kernel = SHAPES[name]
    model, _ = model_of(kernel, 7, n_targets=n_targets)
    theta, n = kernel.theta + 0.1, len(model.sites.weight)
    expected = brute(model, theta)
    whole = model.all_rows()
    assert_allclose(model.log_likelihood(theta[None], whole), [expected.sum()], rtol=1e-10)
    for size in (1, 7, 25):
        parts = [
            model.log_likelihood(theta[None], whole.take(slice(a, a + size)))[0]
            for a in range(0, n, size)
        ]
        assert_allclose(sum(parts), expected.sum(), rtol=1e-10)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient(name):
    kernel = SHAPES[name]
    model, _ = model_of(kernel, 7, n_targets=2)
    theta, rows = kernel.theta - 0.2, np.arange(0, 60, 2)
    weight = np.random.default_rng(1).random(len(rows))
    value, slope = model.gradient(theta, rows, weight)
    assert_allclose(value, weight @ brute(model, theta)[rows], rtol=1e-10)
    for j, step in enumerate(1e-5 * np.eye(len(theta))):
        ends = [weight @ brute(model, one)[rows] for one in (theta + step, theta - step)]
        assert_allclose(slope[j], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-5)


def test_gradient_of_hardly_any_noise():
    """The least noise is in units of the amplitude, which the slope by the amplitude has to know.

    The tolerance is that of differences of densities of about a hundred.
    """
    kernel = ConstantKernel(50.0) * Matern(0.7, nu=0.5) + WhiteKernel(1e-9, (1e-12, 1.0))
    model, _ = model_of(kernel, 7, copies=0)
    rows = np.arange(len(model.sites.weight))
    weight, none = np.ones(len(rows)), np.zeros(len(rows))
    model = model.of(model.sites._replace(noise_variance=none, squares=none))
    _, slope = model.gradient(kernel.theta, rows, weight)
    for j, step in enumerate(1e-5 * np.eye(len(slope))):
        ends = [weight @ brute(model, kernel.theta + one)[rows] for one in (step, -step)]
        assert_allclose(slope[j], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-4)


def assert_exact(gp, kernel, X, y, atol, rtol):
    """The process of a kernel, by predictions and by the evidence."""
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    at = problem(30, seed=1)[0]
    for asked in ({"return_std": True}, {"return_cov": True}):
        for one, other in zip(gp.predict(at, **asked), exact.predict(at, **asked), strict=True):
            assert_allclose(one, other, atol=atol)
    value = exact.log_marginal_likelihood_value_
    assert_allclose(gp.log_marginal_likelihood_value_, value, rtol=rtol)


def test_all_neighbours_are_the_exact_process():
    """Also where rows have copies with other targets."""
    X, y = problem(copies=20)
    gp = process(optimizer=None, n_neighbors=len(X)).fit(X, y)
    assert_exact(gp, KERNEL, X, y, atol=1e-8, rtol=1e-9)


def test_kernel_is_that_of_the_exact_process():
    """With all rows as neighbours the search ends where that of the exact evidence does."""
    X, y = problem()
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    theta = process(kernel, n_neighbors=len(X)).fit(X, y).kernel_.theta
    exact = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0).fit(X, y)
    assert_allclose(theta, exact.kernel_.theta, atol=2e-3)


# ---------------------------------------------------------------------- neighbours
@pytest.mark.parametrize("n_columns", [2, 14])  # A tree, and all distances.
def test_neighbours(n_columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, n_columns))
    rows = np.array([0, 1, 3, 40, 700, 1249, 1250, 2000, 2499])
    found = nearest_before(X, rows, 6)
    for i, places in zip(rows, found, strict=True):
        expected = np.argsort(((X[:i] - X[i]) ** 2).sum(axis=1))[:6]
        assert_array_equal(places[: len(expected)], expected)
        assert (places[len(expected) :] == -1).all()
    near = nearest(index_of(X), X[:5] + 0.01, 4)
    distances = ((X - X[:5, None] - 0.01) ** 2).sum(axis=-1)
    assert_array_equal(near, np.argsort(distances, axis=1)[:, :4])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_trees_are_not_deep(sign):
    """Boxes cut in the middle would have a level for each power of two: here a thousand."""
    X = np.zeros((2000, 2))
    X[np.arange(2000), np.arange(2000) % 2] = sign * 2.0 ** -np.repeat(np.arange(1000), 2)
    X = X[np.random.default_rng(0).permutation(2000)]

    def depth(node):
        return 1 + max(depth(node.less), depth(node.greater)) if hasattr(node, "less") else 0

    assert depth(index_of(X)._search.tree) < 12


def test_near_neighbours_are_no_further_than_they_may_be():
    rng = np.random.default_rng(0)
    X, eps = rng.standard_normal((4000, 8)), 1.0
    rows = np.arange(0, 4000, 7)
    found, exact = nearest_before(X, rows, 6, eps), nearest_before(X, rows, 6)
    assert ((found < rows[:, None]) & ((found >= 0) == (exact >= 0))).all()

    def distances(places):
        gaps = np.linalg.norm(X[places] - X[rows, None], axis=-1)
        return np.where(places >= 0, gaps, 0.0)

    ratio = distances(found) / np.maximum(distances(exact), 1e-300)
    assert 1.0 < ratio.max() <= 1.0 + eps
    assert (found != exact).any(axis=1).sum() > 20  # Otherwise nothing is saved.


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
@pytest.mark.parametrize("spread", [1e-9, 0.3, 3.0, 40.0, 1e4])
@pytest.mark.parametrize("n_columns", [1, 4, 7])
def test_densities_at_any_distance(nu, spread, n_columns):
    """Against SciPy's normal density with scikit-learn's covariances, far and near neighbours.

    Covariances are exponentials down to e^-708, which are rounded to zero beyond, and powers of two
    wrap around at e^-1400 if they are not: 1e-9 holds for both.
    """
    rng = np.random.default_rng(0)
    X = spread * rng.standard_normal((12, n_columns))
    y = rng.standard_normal((12, 1))
    kernel = ConstantKernel(2.0) * Matern(np.ones(n_columns), nu=nu) + WhiteKernel(0.1)
    one, rows, metric = np.ones(12), np.arange(12), np.ones(n_columns)
    model = VecchiaGP(KernelCovariance(kernel), None, Sites(X, y, 0 * one, one, 0 * one), metric)
    found = model.gradient(kernel.theta, rows, one)[0]
    assert_allclose(found, model.densities(kernel.theta, rows).sum(), rtol=1e-12)
    covariance = kernel(X) + 2.0 * MIN_NOISE * np.eye(12)
    assert_allclose(found, multivariate_normal(cov=covariance).logpdf(y[:, 0]), rtol=1e-11)


# ---------------------------------------------------------------------- the estimator
@pytest.mark.filterwarnings("ignore:.*Drop the copies")  # They take the noise.
def test_copies_are_weights_and_order_is_nothing():
    X, y = problem(80)
    weight = np.random.default_rng(2).integers(1, 4, 80)
    one = process(None).fit(X, y, sample_weight=weight)
    copies = np.repeat(np.arange(80), weight)
    mixed = np.random.default_rng(3).permutation(len(copies))
    other = process(None).fit(X[copies][mixed], y[copies][mixed])
    assert_allclose(one.kernel_.theta, other.kernel_.theta, atol=1e-6)
    assert_allclose(one.predict(X), other.predict(X), atol=1e-6)


def test_noise_of_rows():
    """Rows of known noise, against a dense solution."""
    X, y = problem(60)
    own = np.random.default_rng(4).random(60)
    gp = process(optimizer=None, n_neighbors=60).fit(X, y, noise_variance=own)
    at = problem(9, seed=5)[0]
    K = KERNEL.k1(X) + np.diag(0.05 + own)
    assert_allclose(gp.predict(at), KERNEL.k1(at, X) @ np.linalg.solve(K, y), atol=1e-9)


def test_far_from_zero():
    """Time stamps: inputs keep the digits that tell them apart."""
    X, y = problem(100)
    X = np.round(X, 2)
    near, far = process().fit(X, y), process().fit(X + 1e9, y)
    assert_allclose(far.predict(X[:9] + 1e9), near.predict(X[:9]), atol=1e-4)


@pytest.mark.parametrize("weighting", ["stacking", "uniform"])
def test_particles_average(weighting):
    X, y = problem(100)
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    gp = process(kernel, n_particles=5, weighting=weighting).fit(X, y)
    weights, at = gp.posterior_.weights, X[:4] + 0.1
    assert len(weights) == 5 and np.unique(gp.posterior_.particles, axis=0).shape[0] > 3
    each = [
        process(gp.kernel_.clone_with_theta(np.log(one)), optimizer=None).fit(X, y).predict(at)
        for one in gp.posterior_.particles
    ]
    # Neighbours of the particle's own length scales, which are all rows but a few here.
    assert_allclose(gp.predict(at), weights @ np.array(each), atol=1e-3)


def test_posterior_of_the_kernel_on_a_grid():
    """One length scale, uniform in its log: mean, sd and evidence against quadrature.

    400 weighted draws have a standard error of about .05 sds; .2 is four of them.
    """
    X, y = problem(40)
    kernel = RBF(1.0, (0.05, 20.0)) + WhiteKernel(0.1, "fixed")
    gp = process(kernel, n_particles=20, weighting="posterior", n_neighbors=40).fit(X, y)
    grid = np.linspace(*kernel.bounds[0], 801)
    exact = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    values = np.array([exact.log_marginal_likelihood(np.array([one])) for one in grid])
    density = np.exp(values - values.max())
    mean = density @ grid / density.sum()
    sd = np.sqrt(density @ (grid - mean) ** 2 / density.sum())
    evidence = values.max() + np.log(density.mean())
    logs, w = np.log(gp.posterior_.particles[:, 0]), gp.posterior_.weights
    assert abs(w @ logs - mean) < 0.2 * sd
    assert_allclose(np.sqrt(w @ (logs - w @ logs) ** 2), sd, rtol=0.15)
    assert abs(gp.log_evidence_ - evidence) < 4.0 * gp.posterior_.log_evidence_se + 0.02


# ---------------------------------------------------------------------- streams
def test_parts_are_the_whole():
    X, y = problem(150, copies=30)
    whole = process(optimizer=None).fit(X, y)
    parts = process(optimizer=None)
    for some in np.array_split(np.arange(len(X)), 5):
        parts.partial_fit(X[some], y[some])
    assert_allclose(parts.predict(X), whole.predict(X), atol=1e-9)
    assert_allclose(
        np.sort(parts._state.model.sites.weight), np.sort(whole._state.model.sites.weight)
    )


def test_what_a_stream_retains():
    """At most so many rows, which ones does not depend on the parts; a second pass adds none."""
    X, y = problem(150)
    retained = []
    for n_parts in (3, 5):
        gp = process(optimizer=None, reservoir_size=60, total_samples=150)
        for _ in range(2):
            for some in np.array_split(np.arange(150), n_parts):
                gp.partial_fit(X[some], y[some])
        retained.append(np.unique(gp._state.model.sites.X, axis=0))
    assert retained[0].shape == (60, 2)
    assert_array_equal(*retained)


def test_forgetting():
    X, y = problem(100)
    gp = process(optimizer=None, forgetting=0.01)
    gp.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    weighted = process(optimizer=None)
    weight = np.where(np.arange(100) < 50, 0.99**50, 1.0)
    assert_allclose(gp.predict(X), weighted.fit(X, y, sample_weight=weight).predict(X), atol=1e-9)


@pytest.mark.parametrize("approximation", ["vecchia", "full_scale"])
@pytest.mark.parametrize(("size", "left"), [(100, 100), (1000, 300)])
def test_what_is_forgotten_is_dropped(size, left, approximation):
    """A row before the last part has e^-15 of its weight: it is dropped, not retained for good."""
    X, y = problem(1500)
    gp = process(
        optimizer=None, approximation=approximation, forgetting=0.05, reservoir_size=size,
        n_inducing=10, normalize_y=False,
    )  # fmt: skip
    for some in np.array_split(np.arange(1500), 5):
        gp.partial_fit(X[some], y[some] + (5.0 if some[0] >= 900 else 0.0))
    sites = getattr(gp._state.model, "rows", gp._state.model).sites
    assert len(sites.weight) == left and np.isin(sites.X[:, 0], X[1200:, 0]).all()
    assert np.abs(gp.predict(X[1400:]) - y[1400:] - 5.0).mean() < 0.5


def test_copies_of_sums_of_squares_are_forgotten_with_their_rows():
    X, y = problem(60)
    kernel = RBF([1.0, 1.0]) + WhiteKernel(1.0)
    gp = process(kernel, optimizer=None, forgetting=0.01)
    gp.partial_fit(np.tile(X, (2, 1)), np.append(y, y + 0.1)).partial_fit(X[:1] + 9.0, y[:1])
    squares = gp._state.model.sites.squares.sum() * gp._state.scaler.scale[0] ** 2
    assert squares == pytest.approx(0.99 * 60 * 0.005)


def test_copies_of_rows_from_before_a_new_kernel():
    """The noise alpha is in units of the scaled y, whose scale is another after a new fit."""
    X, y = problem(200)
    y = y * np.linspace(1.0, 3.0, 200)
    gp = process(RBF([1.0, 1.0]) + WhiteKernel(1.0), optimizer=None, alpha=0.01)
    gp.partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert gp._state.n_fitted == 200
    gp.partial_fit(X, y)
    assert_array_equal(gp._state.model.sites.noise_variance, np.full(200, 0.01))
    assert_allclose(gp._state.model.sites.weight, 2.0)


# ---------------------------------------------------------------------- which one
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # Of given kernels.
def test_auto():
    """Rough functions have neighbours; few rows are exact, and so is what is asked for."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1200, 2))
    at = rng.uniform(0.0, 1.0, (200, 2))
    y = np.sin(60.0 * X).sum(axis=1) + 0.05 * rng.standard_normal(1200)
    params = {"random_state": 0, "n_restarts_optimizer": 0}
    kernel = RBF(0.05) + WhiteKernel(0.01)
    gp = SparseGPRegressorPMD(kernel, **params).fit(X, y)
    assert gp.approximation_ == "vecchia" and not hasattr(gp, "inducing_")
    assert gp.score(at, np.sin(60.0 * at).sum(axis=1)) > 0.95
    few = SparseGPRegressorPMD(kernel, optimizer=None, **params).fit(X[:300], y[:300])
    assert few.approximation_ == "fitc" and len(few.inducing_) == 300
    given = SparseGPRegressorPMD(
        RBF(1.0) + WhiteKernel(0.1), optimizer=None, n_inducing=50, **params
    )
    assert given.fit(X, y).approximation_ == "fitc"


def test_auto_has_inducing_inputs_where_the_function_is_smooth():
    """Eight columns that all matter a little: neighbours are far, and few of them say little."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1500, 8))
    y = np.sin(0.3 * X.sum(axis=1)) + 0.3 * rng.standard_normal(1500)
    kernel = RBF(4.0) + WhiteKernel(0.3)
    gp = SparseGPRegressorPMD(kernel, optimizer=None, n_neighbors=5, random_state=0).fit(X, y)
    assert gp.approximation_ in ("fitc", "full_scale") and len(gp.inducing_) == 1000
    assert np.isfinite(gp.partial_fit(X[:9], y[:9]).predict(X[:9])).all()


def test_inducing_inputs_by_default_have_the_kernel_of_the_larger_evidence(monkeypatch):
    """Few neighbours took what is smooth for rough, and inducing inputs were given their kernel."""
    monkeypatch.setattr(_vecchia_fit, "_SHAPES", (2.5,))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1020, 5))
    y = np.sin(2.0 * X).sum(axis=1) + 0.1 * rng.standard_normal(1020)
    gp = SparseGPRegressorPMD(
        n_subset=200, n_restarts_optimizer=0, n_neighbors=3, n_particles=1, random_state=0
    ).fit(X, y)
    assert gp.approximation_ == "fitc"
    assert type(gp.kernel_.k1.k2) is RBF  # Matern is one of its classes.


def with_both_ahead_by(monkeypatch, gains, of_inducing=lambda n: np.full(n, -1.0), **params):
    """A fit to 1020 rows, both inducing inputs and neighbours being ahead by gains(model) a row."""
    monkeypatch.setattr(_choice, "_of_near", lambda state, n: np.zeros(n))
    monkeypatch.setattr(_choice, "_of_inducing", lambda _, state, n: of_inducing(n))
    monkeypatch.setattr(_choice, "_of_both", lambda _, state, n, __: gains(state.model, n))
    params = {"n_subset": 200, "n_restarts_optimizer": 0, "n_particles": 1, **params}
    return SparseGPRegressorPMD(random_state=0, **params).fit(*problem(1020))


@pytest.mark.slow
def test_a_few_rows_do_not_choose_the_approximation(monkeypatch):
    """Where tails are heavy ten of thousands did."""

    def gains(_, n):
        return np.where(np.arange(n) == 0, 1e4, -0.05)

    assert with_both_ahead_by(monkeypatch, gains).approximation_ == "vecchia"


@pytest.mark.slow
def test_both_may_be_rough_where_neighbours_are_best(monkeypatch):
    """Rows are conditioned on few neighbours, which may choose a shape that suits only them."""

    def gains(model, n):
        rough = model.covariance.term(model.covariance.kernel.theta).shape == 1
        return np.full(n, 0.05 if rough else -0.05)

    monkeypatch.setattr(_vecchia_fit, "_SHAPES", (np.inf,))
    gp = with_both_ahead_by(monkeypatch, gains)
    assert gp.approximation_ == "full_scale" and gp.kernel_.k1.k2.nu == 0.5


@pytest.mark.slow
def test_what_cannot_be_fitted_is_not_chosen(monkeypatch):
    """Kernels without noise may have no inducing inputs; neighbours have no part of that."""

    def impossible(*args):
        raise np.linalg.LinAlgError

    assert with_both_ahead_by(monkeypatch, impossible, impossible).approximation_ == "vecchia"
    # Warnings are errors: what has overflown is nothing that a user could mend.
    gp = with_both_ahead_by(monkeypatch, lambda _, n: np.full(n, 1e200) ** 2 * 0.0)
    assert gp.approximation_ == "vecchia"
    monkeypatch.setattr(_choice, "_with_both", impossible)
    gp = with_both_ahead_by(monkeypatch, lambda _, n: np.ones(n))
    assert gp.approximation_ == "vecchia"


def test_too_few_rows_choose_nothing(monkeypatch):
    gp = with_both_ahead_by(monkeypatch, lambda _, n: np.ones(n), reservoir_size=100)
    assert gp.approximation_ == "vecchia"


@pytest.mark.slow
def test_neighbours_have_no_lead_by_more_rows():
    """They were given a third more rows than inducing inputs, and were chosen by that."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (1600, 5))
    y = np.sin(2.0 * X).sum(axis=1) + 0.05 * rng.standard_normal(1600)
    kernel = RBF(1.5) + WhiteKernel(0.0025)
    state = process(kernel, optimizer=None, normalize_y=True).fit(X, y)._state
    near = _choice._of_near(state, 400)
    of_all = state.model.log_density_left_out(state.theta, np.arange(400))
    assert near.mean() < of_all.mean() - 0.01


def test_refusals():
    X, y = problem(20)
    with pytest.raises(ValueError, match="approximation='fitc'"):
        process(DotProduct() + WhiteKernel()).fit(X, y)
    with pytest.raises(ValueError, match="approximation='fitc'"):
        process(likelihood="student_t").fit(X, y)
    with pytest.raises(ValueError, match="n_neighbors"):
        process(n_neighbors=0).fit(X, y)


def test_a_kernel_that_does_not_suit_is_warned_of():
    X, y = problem(300)
    kernel = ConstantKernel(1e-3) * RBF(5.0) + WhiteKernel(1e-3)
    with pytest.warns(ConvergenceWarning, match="the kernel has too little noise"):
        gp = process(kernel, optimizer=None).fit(X, y)
    assert "does not suit" in _findings.left_out_findings(gp._state)[0]
