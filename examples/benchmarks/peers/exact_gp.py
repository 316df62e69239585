"""The exact Gaussian process on as many rows as memory holds, with its kernel by the evidence."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

FIRST_ROWS, FIRST_EVALUATIONS = 2000, 30
SHAPES = {"rbf": np.inf, "matern32": 1.5, "matern52": 2.5}
CHUNK = 1000


class Process:
    """A process given rows and hyperparameters."""

    def __init__(self, name, covariance, theta, X, y):
        self.name, self._covariance, self._theta, self._X = name, covariance, theta, X
        K = covariance.cross(theta, X, X)
        K[np.diag_indices_from(K)] += covariance.noise(theta, X)
        self._factor, _ = cho_factor(K, lower=True, overwrite_a=True)
        self._alpha = cho_solve((self._factor, True), y)

    def predict(self, rows):
        """Means and variances of new targets."""
        means, variances = [], []
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            cross = self._covariance.cross(self._theta, some, self._X)
            means.append(cross @ self._alpha)
            half = solve_triangular(self._factor, cross.T, lower=True)
            total = self._covariance.diagonal(self._theta, some)
            total = total + self._covariance.noise(self._theta, some)
            variances.append(total - np.einsum("ij,ij->j", half, half))
        return np.concatenate(means), np.concatenate(variances)


def fit(X, y, n_evaluations, seed=0):
    """The process of the shape of the largest evidence of 2000 rows, refined on all."""
    from skpmd.sparse_gp._covariance import KernelCovariance
    from skpmd.sparse_gp._data import Sample
    from skpmd.sparse_gp._evidence import log_marginal_likelihood, maximise_evidence

    n, rng = len(y), np.random.default_rng(seed)
    some = rng.permutation(n)[:FIRST_ROWS]
    few = Sample(X[some], y[some, None], np.zeros(len(some)), np.ones(len(some)))
    ends = []
    for name in SHAPES:
        covariance = KernelCovariance(_kernel(name, X.shape[1]))
        theta = maximise_evidence(covariance, few, "fmin_l_bfgs_b", 1, rng,
                                  n_evaluations=FIRST_EVALUATIONS)  # fmt: skip
        value = log_marginal_likelihood(covariance, theta, few, gradient=False)
        ends.append((value, name, covariance, theta))
    _, name, covariance, theta = max(ends, key=lambda one: one[0])
    if n > FIRST_ROWS:
        whole = Sample(X, y[:, None], np.zeros(n), np.ones(n))
        theta = maximise_evidence(covariance, whole, "fmin_l_bfgs_b", 0, rng, theta, n_evaluations)
    return Process(name, covariance, theta, X, y)


def _kernel(name, p):
    start, bounds, nu = np.full(p, np.sqrt(p)), (1e-2, 1e3), SHAPES[name]
    shape = RBF(start, bounds) if np.isinf(nu) else Matern(start, bounds, nu=nu)
    return ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, (1e-6, 10.0))
