"""SparseGPClassifierPMD beside dense expectation propagation, importance sampling and MCMC."""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_expit, logsumexp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.metrics import log_loss

from skpmd import SparseGPClassifierPMD
from skpmd.sparse_gp import _classification_evidence as evidence
from skpmd.sparse_gp._data import Sample
from skpmd.sparse_gp._kernels_logistic import log_expectations

KERNEL = ConstantKernel(6.0) * RBF(1.2)
ISOTROPIC = ConstantKernel(4.0, (1e-1, 1e2)) * RBF(2.0, (0.1, 10.0))


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    f = 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
    return X, (rng.random(n) < expit(f)).astype(int)


def fixed(kernel=KERNEL, **options):
    """With the kernel as it is, and q(u) at the fixed point."""
    return SparseGPClassifierPMD(kernel, **{"optimizer": None, "tol": 1e-9, **options})


# ------------------------------------------------------------------- expectations of the link
@pytest.mark.parametrize("mean, variance", [(0.0, 1.0), (-4.0, 9.0), (2.0, 1e-3), (1.0, 400.0)])
def test_expectations_of_the_link(mean, variance):
    sd = np.sqrt(variance)

    def moment(function):
        ends = [(a, a + 1.0) for a in np.arange(-10.0, 10.0)]

        def normal(x):
            return np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * function(mean + sd * x)

        return sum(quad(normal, a, b, epsabs=1e-13)[0] for a, b in ends)

    z, first = moment(expit), moment(lambda f: expit(f) * expit(-f))
    second = moment(lambda f: expit(f) * expit(-f) * (1.0 - 2.0 * expit(f)))
    for sign in (1.0, -1.0):
        out = np.empty((3, 1))
        log_expectations(np.array([sign]), np.array([sign * mean]), np.array([variance]), *out)
        expected = np.log(z), sign * first / z, (first / z) ** 2 - second / z
        np.testing.assert_allclose(out[:, 0], expected, rtol=1e-4, atol=1e-7)


def test_intervals_of_probabilities_are_those_of_the_process():
    """Of one kernel without noise: the ends are the link's values at normal quantiles."""
    X, y = data(120)
    gp = fixed().fit(X, y)
    proba, ends = gp.predict_proba(X[:7], return_interval=0.9)
    np.testing.assert_array_equal(proba, gp.predict_proba(X[:7]))
    mean, variance = gp.latent_mean_and_variance(X[:7])
    half = 1.6448536269514722 * np.sqrt(variance)
    of_second = expit(np.column_stack([mean - half, mean + half]))
    assert ends.shape == (7, 2, 2)
    np.testing.assert_allclose(ends[:, 1], of_second, rtol=1e-6)
    np.testing.assert_allclose(ends[:, 0], 1.0 - of_second[:, ::-1], rtol=1e-6)


def test_expectations_far_out_are_finite():
    mean = np.array([-1e4, 1e4, -300.0, 0.0, -5.0])
    variance = np.array([1.0, 1.0, 1e5, 0.0, 1e-20])
    out = np.empty((3, 5))
    log_expectations(np.ones(5), mean, variance, *out)
    assert np.isfinite(out).all() and (out[0] <= 1e-7).all() and (out[2] >= 0.0).all()
    np.testing.assert_allclose(out[0, [0, 3, 4]], [-1e4 + 0.5, np.log(0.5), log_expit(-5.0)])


# ------------------------------------------------------------------- the fixed point
def dense_ep(X, y, Z, kernel, weight):
    """Expectation propagation with dense matrices of all rows, FITC's covariance; one by one.

    Moments are sums over a grid. Returns means and variances of f at the rows and the evidence.
    """
    K, Kz, Kzz = kernel(X), kernel(X, Z), kernel(Z)
    Q = Kz @ np.linalg.solve(Kzz + 1e-8 * np.mean(np.diag(Kzz)) * np.eye(len(Z)), Kz.T)
    C = Q + np.diag(np.diag(K - Q))
    # A row of weight 2 is two rows at the same inputs, with variances of their own left open.
    which = np.repeat(np.arange(len(X)), weight)
    C = Q[np.ix_(which, which)] + np.diag(np.diag(C - Q)[which])
    s, n = 2.0 * y[which] - 1.0, len(which)
    p, b, grid = np.zeros(n), np.zeros(n), np.linspace(-9.0, 9.0, 1201)
    for _ in range(60):
        before, S = b.copy(), np.linalg.inv(np.linalg.inv(C) + np.diag(p))
        for i in range(n):
            v, m = S[i, i], S[i] @ b
            cavity = 1.0 / (1.0 / v - p[i])
            at = cavity * (m / v - b[i])
            f = at + np.sqrt(cavity) * grid
            w = expit(s[i] * f) * np.exp(-0.5 * grid**2)
            w /= w.sum()
            mean = w @ f
            variance = w @ (f - mean) ** 2
            change = 1.0 / variance - 1.0 / cavity - p[i]
            p[i] += change
            b[i] = mean / variance - at / cavity
            S = S - np.outer(S[:, i], S[i]) * change / (1.0 + change * v)
        if np.abs(b - before).max() < 1e-11:
            break
    S = np.linalg.inv(np.linalg.inv(C) + np.diag(p))
    v, m = np.diag(S), S @ b
    cavity = 1.0 / (1.0 / v - p)
    at = cavity * (m / v - b)
    f = at[:, None] + np.sqrt(cavity)[:, None] * grid
    z = (expit(s[:, None] * f) * np.exp(-0.5 * grid**2)).sum(1) * (grid[1] - grid[0])
    log_z = np.log(z / np.sqrt(2.0 * np.pi))
    log_z += 0.5 * np.log1p(p * cavity)
    log_z -= 0.5 * (2.0 * b * at + b * b * cavity - p * at * at) / (1.0 + p * cavity)
    total = log_z.sum() + 0.5 * b @ S @ b - 0.5 * np.linalg.slogdet(np.eye(n) + C * p)[1]
    first = np.unique(which, return_index=True)[1]
    # Of u: C of the rows with Z is that of their known part.
    A = Kz[which].T @ np.linalg.inv(C)
    m_u = A @ m
    v_u = np.diag(Kzz) - np.einsum("ij,ji->i", A, Kz[which]) + np.einsum("ij,jk,ik->i", A, S, A)
    return m[first], v[first], m_u, v_u, total


@pytest.mark.parametrize("n_inducing", [24, 9])
def test_fixed_point_is_that_of_dense_expectation_propagation(n_inducing):
    X, y = data(24)
    weight = np.where(np.arange(24) % 5 == 0, 2, 1)
    Z = X[:n_inducing]
    gp = fixed(inducing_init=Z, batch_size=7).fit(X, y, sample_weight=weight)
    mean, variance, at_inducing, variance_there, total = dense_ep(X, y, Z, KERNEL, weight)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(total, abs=1e-6)
    found, spread = gp.latent_mean_and_variance(Z)
    np.testing.assert_allclose(found, at_inducing, atol=1e-6)
    np.testing.assert_allclose(spread, variance_there, atol=1e-6)
    if n_inducing == 24:  # Else predictions are of a new row with variance of its own left open.
        found, spread = gp.latent_mean_and_variance(X)
        np.testing.assert_allclose(found, mean, atol=1e-6)
        np.testing.assert_allclose(spread, variance, atol=1e-6)


def test_left_open_variance_is_integrated_over():
    """One inducing input: u's posterior is an integral in one dimension, row by row."""
    X, y = data(12)
    Z = np.zeros((1, 2))
    with pytest.warns(ConvergenceWarning, match="leave 91%"):
        gp = fixed(inducing_init=Z).fit(X, y)
    u = np.linspace(-6.0, 6.0, 401)  # whitened
    v = KERNEL(Z, X)[0] / np.sqrt(6.0)
    left = 6.0 - v**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = np.outer(u, v)[..., None] + np.sqrt(left)[:, None] * nodes
    rows = expit((2 * y - 1)[:, None] * f) @ (weights / weights.sum())
    log_density = np.log(rows).sum(axis=1) - 0.5 * u**2
    log_z = logsumexp(log_density) + np.log(u[1] - u[0]) - 0.5 * np.log(2.0 * np.pi)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(log_z, abs=0.01)
    w = np.exp(log_density - logsumexp(log_density))
    mean, variance = gp.latent_mean_and_variance(Z)
    sd = np.sqrt(w @ u**2 - (w @ u) ** 2)
    assert mean[0] == pytest.approx(np.sqrt(6.0) * (w @ u), abs=0.05 * sd)
    assert np.sqrt(variance[0]) == pytest.approx(np.sqrt(6.0) * sd, rel=0.02)


# ------------------------------------------------------------------- the posterior itself
def test_posterior_is_that_of_importance_sampling():
    """40,000 draws from a wider Student distribution; means within .1 sd, sds within 10 %."""
    X, y = data(16, seed=3)
    gp = fixed().fit(X, y)
    rng, df = np.random.default_rng(0), 8.0
    mean, _ = gp.latent_mean_and_variance(X)
    known = gp._state.conditional(0)
    V = gp._state.model.whitened(gp._state.particles.theta[0], X)
    solved = np.linalg.solve(known.factor, V)
    S = solved.T @ solved
    L = np.linalg.cholesky(S + 1e-9 * np.eye(16))
    t = rng.standard_normal((40_000, 16)) / np.sqrt(rng.chisquare(df, 40_000) / df)[:, None]
    f = mean + t @ L.T
    prior = np.linalg.cholesky(KERNEL(X) + 6e-8 * np.eye(16))
    r = np.linalg.solve(prior, f.T)
    log_w = log_expit((2 * y - 1) * f).sum(axis=1) - 0.5 * (r**2).sum(axis=0)
    log_w += 0.5 * (df + 16) * np.log1p((t**2).sum(axis=1) / df)
    w = np.exp(log_w - logsumexp(log_w))
    assert 1.0 / (w @ w) > 5000
    exact = w @ f
    sd = np.sqrt(w @ (f - exact) ** 2)
    assert (np.abs(mean - exact) / sd).max() < 0.1
    np.testing.assert_allclose(np.sqrt(np.diag(S)), sd, rtol=0.1)


def test_three_classes_are_three_processes_with_one_kernel():
    X, y = load_iris(return_X_y=True)
    X, y = X[::4], y[::4]
    gp = fixed(inducing_init=X).fit(X, y)
    mean, variance = gp.latent_mean_and_variance(X)
    total, ones = 0.0, []
    for k in range(3):
        one = fixed(inducing_init=X).fit(X, y == k)
        pair = one.latent_mean_and_variance(X)
        np.testing.assert_allclose(mean[:, k], pair[0], atol=1e-6)
        np.testing.assert_allclose(variance[:, k], pair[1], atol=1e-6)
        total += one.log_marginal_likelihood_value_
        ones.append(one.predict_proba(X)[:, 1])
    assert gp.log_marginal_likelihood_value_ == pytest.approx(total, abs=1e-6)
    shares = np.array(ones).T / np.sum(ones, axis=0)[:, None]
    np.testing.assert_allclose(gp.predict_proba(X), shares, atol=1e-8)


# ------------------------------------------------------------------- kernels
@pytest.mark.parametrize(
    "kernel", [KERNEL, KERNEL + WhiteKernel(0.3), ConstantKernel(2.0) * RBF(1.0) + DotProduct(1.0)]
)
def test_slope_of_the_evidence(kernel, monkeypatch):
    monkeypatch.setattr(evidence, "_SEARCH_TOL", 1e-8)
    monkeypatch.setattr(evidence, "_INDUCING", 20)
    X, y = data(30)
    rows = Sample(X, y[:, None].astype(float), np.zeros(30), 1.0 + np.arange(30.0) % 2)
    covariance = evidence.new_covariance(SparseGPClassifierPMD(kernel)._parameters().search, rows)
    log_prior = evidence.log_prior_of(kernel, kernel.theta)
    search = evidence.KernelSearch(covariance, rows, 1, 1e-8, log_prior)
    theta = kernel.theta + 0.1
    _, slope = search.value(theta)
    for step, one in zip(1e-4 * np.eye(len(theta)), slope, strict=True):
        ends = search.value(theta + step)[0] - search.value(theta - step)[0]
        assert ends / 2e-4 == pytest.approx(one, rel=1e-3, abs=1e-4)


@pytest.mark.slow_but("30.0")
@pytest.mark.parametrize("scale", [30.0, 1e5])
def test_kernel_is_found_from_a_bad_start(scale):
    X, y = data(150)
    good = SparseGPClassifierPMD(random_state=0, n_restarts_optimizer=0).fit(X, y)
    start = ConstantKernel(4.0) * RBF([scale, scale], (1e-2, 1e6))
    other = SparseGPClassifierPMD(start, random_state=0).fit(X, y)
    values = [one.log_marginal_likelihood_value_ for one in (good, other)]
    assert values[1] > values[0] - 1.0
    X_test, y_test = data(500, seed=9)
    assert log_loss(y_test, good.predict_proba(X_test)) < 0.5


@pytest.mark.slow
def test_particles_are_weighed_by_the_evidence():
    """One free hyperparameter: its posterior on a grid. Weighted draws err by a fifth of an sd."""
    X, y = data(120)
    kernel = ConstantKernel(6.0, "fixed") * RBF(1.0, (0.1, 2.0))
    gp = SparseGPClassifierPMD(
        kernel, n_particles=60, n_restarts_optimizer=0, random_state=0, tol=0.05
    ).fit(X, y)
    grid = np.linspace(np.log(0.1), np.log(2.0), 60)
    sample = Sample(X, y[:, None].astype(float), np.zeros(120), np.ones(120))
    log_prior = evidence.log_prior_of(kernel, kernel.theta)
    search = evidence.KernelSearch(gp._state.model.covariance, sample, 1, 1e-8, log_prior)
    log_p = np.array([search.value(np.array([one]), False)[0] for one in grid])
    w = np.exp(log_p - logsumexp(log_p))
    mean = w @ grid
    sd = np.sqrt(w @ (grid - mean) ** 2)
    found = np.log(gp.posterior_.particles[:, 0])
    assert gp.posterior_.weights @ found == pytest.approx(mean, abs=0.2 * sd)
    spread = np.sqrt(gp.posterior_.weights @ (found - gp.posterior_.weights @ found) ** 2)
    assert spread == pytest.approx(sd, rel=0.2)
    assert gp.posterior_.pareto_k < 0.7 and gp.diagnostics_["warnings"] == []
    mixed = gp.predict_proba(X)
    assert mixed.shape == (120, 2) and np.allclose(mixed.sum(axis=1), 1.0)


# ------------------------------------------------------------------- rows, parts, threads
def test_weights_are_copies():
    X, y = data(40)
    weight = 1 + np.arange(40) % 3
    one = SparseGPClassifierPMD(ISOTROPIC, n_restarts_optimizer=0)
    one.fit(X, y, sample_weight=weight)
    other = clone(one).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)
    half = fixed().fit(X, y, sample_weight=np.full(40, 0.5)).predict_proba(X)[:, 1]
    whole = fixed().fit(X, y).predict_proba(X)[:, 1]
    assert np.abs(half - 0.5).mean() < np.abs(whole - 0.5).mean()


def test_parts_are_nearly_one_fit():
    X, y = data(120)
    whole = fixed(n_inducing=120).fit(X, y)
    parts = fixed(n_inducing=120, n_subset=1)
    for k in range(4):
        parts.partial_fit(X[k::4], y[k::4], classes=[0, 1])
    gap = np.abs(whole.predict_proba(X) - parts.predict_proba(X))
    assert gap.max() < 0.05 and gap.mean() < 0.01
    assert parts._state.retained is None and len(parts.inducing_) > 100
    both = whole.log_marginal_likelihood_value_, parts.log_marginal_likelihood_value_
    assert both[1] == pytest.approx(both[0], abs=1.0)


def test_a_part_that_fails_changes_nothing():
    X, y = data(40)
    gp = fixed(random_state=np.random.RandomState(0)).partial_fit(X[:20], y[:20], classes=[0, 1])
    before = pickle.dumps(gp)
    with pytest.raises(ValueError, match="not among the classes"):
        gp.partial_fit(X[20:], y[20:] + 5)
    with pytest.raises(ValueError, match="features"):
        gp.partial_fit(X[20:, :1], y[20:])
    assert pickle.dumps(gp) == before
    gp.set_params(jitter=1e-6)
    with pytest.raises(ValueError, match="jitter was"):
        gp.partial_fit(X[20:], y[20:])


def test_pickles_and_threads_change_nothing():
    X, y = data(60)
    gp = SparseGPClassifierPMD(random_state=0, batch_size=20, n_particles=2, tol=0.1).fit(X, y)
    other = SparseGPClassifierPMD(
        random_state=0, batch_size=20, n_particles=2, tol=0.1, n_jobs=2
    ).fit(X, y)
    np.testing.assert_array_equal(gp.predict_proba(X), other.predict_proba(X))
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(gp.predict_proba(X), again.predict_proba(X))
    again.partial_fit(X[:5] + 0.1, y[:5])


# ------------------------------------------------------------------- hard cases
@pytest.mark.parametrize("variance", [10.0, 1e5])
def test_separable_classes(variance):
    X, _ = data(150)
    y = np.where(X[:, 0] > 0.0, "right", "left")
    gp = fixed(ConstantKernel(variance) * RBF(3.0), tol=0.01).fit(X, y)
    assert gp.diagnostics_["warnings"] == []
    assert (gp.predict(X) == y).mean() > 0.98 and np.isfinite(gp.decision_function(X)).all()


def test_what_speaks_against_a_fit_is_warned_of():
    X, y = data(60)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        fixed(max_iter=2).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="leave .* of the variance"):
        fixed(n_inducing=2, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="length_scale"):
        SparseGPClassifierPMD(RBF(5.0, (5.0, 50.0)), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no variance but noise"):
        fixed(WhiteKernel(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="inducing_init has shape"):
        fixed(inducing_init=np.zeros((3, 1))).fit(X, y)


def test_many_rows_begin_with_some(monkeypatch):
    """The same fixed point, in fewer iterations over all rows."""
    monkeypatch.setattr("skpmd.sparse_gp._classification_fit._FIRST_ROWS", 100)
    X, y = data(700)
    gp = fixed(n_inducing=40, random_state=0, tol=1e-7).fit(X, y)
    monkeypatch.undo()
    other = fixed(n_inducing=40, random_state=0, tol=1e-7, inducing_init=gp.inducing_).fit(X, y)
    np.testing.assert_allclose(gp.predict_proba(X), other.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["weights", "rows", "bootstrap"])
def test_copies_of_rows_do_not_make_a_kernel_that_follows_them(kind):
    """It is the one of each row once; with those of copies test log loss was .6 to .75.

    Each row once has .34 to .37 here, and chance .69; 1000 test rows tell it within .02. Of a
    bootstrap, which has other rows, that is not asked for.
    """
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 2)), rng.normal(size=(1000, 2))
    y, of_new = (one[:, 0] + 0.5 * rng.normal(size=len(one)) > 0.0 for one in (X, new))
    weight = rng.multinomial(60, np.full(60, 1 / 60)) if kind == "bootstrap" else np.full(60, 3)
    model, some = SparseGPClassifierPMD(random_state=0), weight > 0
    theta = clone(model).fit(X[some], y[some]).kernel_.theta
    if kind == "weights":
        model.fit(X, y, sample_weight=weight)
    else:
        model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(model.kernel_.theta, theta, atol=1e-6)
    assert kind == "bootstrap" or log_loss(of_new, model.predict_proba(new)) < 0.45


def test_copies_with_several_labels_are_observations():
    """Where labels of one input differ counts tell of its probability, to the kernel as well."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.linspace(-1.0, 1.0, 5)[:, None], 40, axis=0)
    p = np.tile([0.9, 0.2, 0.8, 0.1, 0.7], 40).reshape(40, 5).T.ravel()
    y = rng.random(200) < p
    model = SparseGPClassifierPMD(random_state=0).fit(X, y)
    found = model.predict_proba(X[::40])[:, 1]
    assert np.abs(found - y.reshape(5, 40).mean(axis=1)).max() < 0.1
