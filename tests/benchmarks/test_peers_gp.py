"""Baselines of the sparse GP, each against matrices of all rows."""

import numpy as np
import pytest

pytest.importorskip("examples.benchmarks", reason="the checkout's examples")

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from examples.benchmarks.harness import datasets
from examples.benchmarks.peers import gp_one_pass_smc, mirror_gp, subset_gp
from skpmd.sparse_gp._covariance import KernelCovariance
from skpmd.sparse_gp._draws import HyperPrior
from skpmd.sparse_gp._model import SparseGP

# Sums in another order, and a jitter of 1e-12: errors of 1e-8 have been seen.
TOLERANCE = 1e-6
NOISE = 0.2
KERNEL = ConstantKernel(1.5) * RBF(1.2) + WhiteKernel(NOISE)


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.4 * rng.normal(size=n), rng.normal(size=(7, 2))


def exact(kernel, X, y, Z, Xs, approximation):
    """Mean and variance of new targets, and the log evidence (Quinonero-Candela and Rasmussen)."""
    signal, noise = kernel.k1, kernel.k2.noise_level
    project = np.linalg.solve(signal(Z) + 1e-12 * np.eye(len(Z)), signal(Z, X)).T
    Q = project @ signal(Z, X)
    left = signal.diag(X) - np.diag(Q) if approximation == "fitc" else 0.0
    C = Q + np.diag(noise + left * np.ones(len(X)))
    Q_s = signal(Xs, Z) @ project.T
    mean = Q_s @ np.linalg.solve(C, y)
    known = np.einsum("ij,ji->i", Q_s, np.linalg.solve(C, Q_s.T))
    log_det = np.linalg.slogdet(2.0 * np.pi * C)[1]
    return mean, signal.diag(Xs) - known + noise, -0.5 * (y @ np.linalg.solve(C, y) + log_det)


def model(Z, approximation="fitc"):
    covariance = KernelCovariance(KERNEL)
    return SparseGP(covariance, HyperPrior(covariance.kernel), Z, approximation, 1e-12)


def cloud_of(Z, *thetas, approximation="fitc"):
    """Particles that know no rows."""
    found = [gp_one_pass_smc.Particle(model(Z, approximation), theta) for theta in thetas]
    return gp_one_pass_smc.Particles(found, np.zeros(len(found)))


def last(generator):
    *_, end = generator
    return end


def stream(X, y, particles, **params):
    """The end of SMC whose particles know nothing at the start."""
    options = {"n_start": 0, "batch_size": 7, "seed": 0, "bandwidth": 0.0, **params}
    return last(gp_one_pass_smc.gp_one_pass_smc(X, y, start=lambda *_: particles, **options))


def moments(process, X):
    mixture = process.predict_proba(X)
    return mixture.mean(), mixture.var()


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCE)


def test_subset_predicts_from_the_rows_it_names_and_no_others():
    X, y, Xs = rows()
    found = list(subset_gp.subset_gp(X, y, KERNEL, sizes={20: (20, 40)}, seed=3))
    assert [(learnt, used) for _, learnt, used, _ in found] == [(20, 20), (20, 40)]
    order = np.random.default_rng(3).permutation(60)
    kernel = found[0][-1].kernel
    for *_, used, process in found:
        part = order[:used]
        assert_close(moments(process, Xs), exact(kernel, X[part], y[part], X[part], Xs, "dtc")[:2])
        assert process.kernel == kernel


@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_smc_of_one_particle_is_the_conjugate_posterior(approximation):
    X, y, Xs = rows()
    _, seen, particles = stream(X, y, cloud_of(X[:9], KERNEL.theta, approximation=approximation))
    mean, variance, evidence = exact(KERNEL, X, y, X[:9], Xs, approximation)
    assert seen == 60
    assert_close(moments(particles, Xs), (mean, variance))
    assert particles.particles[0].log_evidence == pytest.approx(evidence, abs=TOLERANCE)


def test_smc_weighs_particles_by_their_evidences():
    X, y, Xs = rows(20)
    thetas = KERNEL.theta, KERNEL.theta + [0.3, -0.2, 0.1]
    _, _, particles = stream(X, y, cloud_of(X[:9], *thetas))
    ends = [exact(KERNEL.clone_with_theta(one), X, y, X[:9], Xs, "fitc") for one in thetas]
    ratio = np.exp(ends[0][2] - ends[1][2])
    assert 0.05 < ratio < 20.0  # both particles count
    assert particles.weights[0] / particles.weights[1] == pytest.approx(ratio, rel=TOLERANCE)
    mean = particles.weights @ [end[0] for end in ends]
    second = particles.weights @ [end[0] ** 2 + end[1] for end in ends]
    assert_close(moments(particles, Xs), (mean, second - mean**2))


def paper_steps(X, y, **params):
    kernel = ConstantKernel(1.5, "fixed") * RBF(1.2, "fixed") + WhiteKernel()
    options = {"n_inducing": 9, "noises": (NOISE,), "passes": 1, "seed": 0, **params}
    return list(mirror_gp.mirror_gp(X, y, kernel, **options))


def test_mirror_step_of_size_one_on_all_rows_is_the_posterior():
    X, y, Xs = rows()
    [(_, seen, setting, particles)] = paper_steps(X, y, steps=((1.0, 0.0),), batch_size=60)
    Z = particles.particles[0].model.inducing
    assert seen == 60 and setting == (1.0, 0.0, NOISE)
    assert_close(moments(particles, Xs), exact(KERNEL, X, y, Z, Xs, "dtc")[:2])


def test_songs_are_split_as_published(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(1922, 2012, 50), rng.normal(size=(50, 90)).round(3)])
    np.savetxt(tmp_path / datasets.SONGS, table, delimiter=",", fmt="%.3f")
    monkeypatch.setattr(datasets, "N_TRAINING_SONGS", 30)
    (X, y), (X_test, y_test) = datasets.songs(tmp_path, seed=0)
    assert X.shape == (30, 90) and X_test.shape == (2, 90)
    mean, sd = table[:30].mean(axis=0), table[:30].std(axis=0)
    # Columns were read in single precision.
    np.testing.assert_allclose(y_test * sd[0] + mean[0], table[[30, 40], 0], rtol=1e-6)
    np.testing.assert_allclose(X_test * sd[1:] + mean[1:], table[[30, 40], 1:], atol=1e-5)
    np.testing.assert_allclose(np.sort(y) * sd[0] + mean[0], np.sort(table[:30, 0]), rtol=1e-6)
    np.testing.assert_allclose([X.mean(), X.std()], [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("name, nu", [("rbf", np.inf), ("matern32", 1.5), ("matern52", 2.5)])
def test_the_collapsed_bound_and_its_predictions(name, nu):
    torch = pytest.importorskip("torch")
    pytest.importorskip("gpytorch")
    from examples.benchmarks.peers import sgpr

    X, y, Xs = rows()
    Z, theta = X[:15], np.log([1.2, 0.9, 1.3, 0.05])
    signal = 1.3 * (RBF([1.2, 0.9]) if np.isinf(nu) else Matern([1.2, 0.9], nu=nu))
    project = np.linalg.solve(signal(Z) + sgpr.JITTER * 1.3 * np.eye(15), signal(Z, X))
    Q = signal(X, Z) @ project
    C = Q + 0.05 * np.eye(len(y))
    value = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1])
    value -= 0.5 * (1.3 * len(y) - np.trace(Q)) / 0.05
    found = sgpr.bound(name, *map(torch.as_tensor, (theta, X, y, Z)))
    np.testing.assert_allclose(found.item(), value, rtol=1e-6)
    means, variances = sgpr._predictor(X, y, name, theta, Z)(Xs)
    Q_s = signal(Xs, Z) @ project
    np.testing.assert_allclose(means, Q_s @ np.linalg.solve(C, y), rtol=1e-5, atol=1e-6)
    known = np.einsum("ij,ji->i", Q_s, np.linalg.solve(C, Q_s.T))
    np.testing.assert_allclose(variances, 1.35 - known, rtol=1e-5)


def test_the_exact_process_is_that_of_scikit_learn():
    from examples.benchmarks.peers import exact_gp

    X, y, Xs = rows()
    covariance, theta = KernelCovariance(KERNEL), KERNEL.theta
    mean, variance = exact_gp.Process("rbf", covariance, theta, X, y).predict(Xs)
    theirs = GaussianProcessRegressor(KERNEL, optimizer=None).fit(X, y)
    expected, sd = theirs.predict(Xs, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=TOLERANCE)
    np.testing.assert_allclose(np.sqrt(variance), sd, atol=TOLERANCE)
    fitted = exact_gp.fit(X, y, 5)
    assert np.isfinite(fitted.predict(Xs)[0]).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_svgp_learns_classes(n_classes):
    pytest.importorskip("gpytorch")
    from examples.benchmarks.peers import svgp_classifier

    X = np.random.default_rng(0).normal(size=(150, 2))
    codes = np.digitize(X[:, 0], [-0.5, 0.5][: n_classes - 1])
    proba, cpu = svgp_classifier.train(
        X, codes, n_classes, n_inducing=30, learning_rate=0.1, cpu_budget=3.0
    )
    found = proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.mean(found.argmax(axis=1) == codes) > 0.85 and cpu < 6.0
