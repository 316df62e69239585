"""Subset of data: the exact Gaussian process on a random part of the rows.

Quinonero-Candela and Rasmussen (2005), "A unifying view of sparse approximate Gaussian process
regression", Journal of Machine Learning Research 6, section 3. Kernels are fitted by the marginal
likelihood of the part, by scikit-learn's `GaussianProcessRegressor`. From 1000 rows on such a
search of seventy gradients costs far more than the process itself; so searches of more rows go on
from the kernel of fewer and are short, and a kernel predicts from more rows than it was fitted to.
"""

import warnings

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dtrsm
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor

from skpmd.predictive import NormalMixture
from skpmd.sparse_gp._covariance import KernelCovariance

from .problem import Clock

CHUNK = 1024  # rows that are predicted at once
MANY, SHORT = 1000, 15  # more rows than those have a search of so many gradients


class SubsetGP:
    """The exact process with a kernel on some rows.

    It takes two matrices of all pairs of rows; scikit-learn's, of which it is the closed form,
    takes five, which at 16,000 rows do not fit into 8 GB.
    """

    def __init__(self, kernel, X, y):
        self.kernel, self._X = kernel, X
        self._covariance = KernelCovariance(kernel)
        K = self._covariance.cross(kernel.theta, X, X)
        K[np.diag_indices_from(K)] += self._covariance.noise(kernel.theta, X)
        self._factor, failed = lapack.dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the covariance of the rows is not positive definite")
        self._solved = lapack.dpotrs(self._factor, y, lower=1)[0]

    def predict(self, X):
        """Predictive means."""
        return np.concatenate([cross @ self._solved for _, cross in self._crosses(X)])

    def predict_proba(self, X):
        """Predictive distributions of the targets, noise included."""
        theta, moments = self.kernel.theta, []
        for part, cross in self._crosses(X):
            mean = cross @ self._solved
            known = dtrsm(1.0, self._factor, cross.T, lower=1, overwrite_b=1)
            variance = self._covariance.diagonal(theta, part) + self._covariance.noise(theta, part)
            moments.append((mean, np.sqrt(variance - np.einsum("ij,ij->j", known, known))))
        return NormalMixture(*(np.concatenate(both) for both in zip(*moments, strict=True)))

    def _crosses(self, X):
        for part in np.array_split(X, max(1, -(-len(X) // CHUNK))):
            yield part, self._covariance.cross(self.kernel.theta, part, self._X)


def subset_gp(X, y, kernel, *, sizes, seed):
    """Yield (CPU seconds, rows fitted to, rows predicted from, `SubsetGP`).

    Parameters
    ----------
    X, y : arrays (n, p) and (n,)
        The training part, standardised.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Where the first search starts.
    sizes : dict of sequence of int
        By the rows that a kernel is fitted to, the fewest first: those that it predicts from.
        Each part holds those before.
    seed : int
        Of the parts.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    searches = Clock()  # all that has led to a kernel counts
    for fitted, used in sizes.items():
        with searches:
            kernel = _fitted(X[order[:fitted]], y[order[:fitted]], kernel)
        for size in used:
            rows = order[:size]
            with Clock() as more:
                process = SubsetGP(kernel, X[rows], y[rows])
            yield searches.cpu + more.cpu, fitted, size, process


def _fitted(X, y, kernel):
    """The kernel of the best marginal likelihood.

    (Length scales at their bounds are columns that do not matter: no reason for a warning.)
    """
    optimizer = "fmin_l_bfgs_b" if len(y) <= MANY else _short
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianProcessRegressor(kernel, optimizer=optimizer).fit(X, y).kernel_


def _short(objective, theta, bounds):
    """A few steps of L-BFGS, in scikit-learn's form."""
    found = minimize(
        objective, theta, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxfun": SHORT}
    )
    return found.x, found.fun
