"""What a classifier says before and after the data: draws of labels, and rows' probabilities."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from skpmd._base.utils import as_generator
from skpmd.engine.resampling import resample
from skpmd.logistic._labels import encode_known


class PredictiveDraws:
    """Predictive draws and pointwise log-likelihoods of an `AveragedClassifier`.

    Beside what that asks for, a subclass gives draws of particles,
    ``_draw_prior(n_features, n_classes, m, rng) -> (m, d)``.
    """

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw labels from the posterior predictive distribution.

        Each draw takes one particle, in proportion to its weight, for all rows: labels of different
        rows are dependent as they are in the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Labels.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer.
        """
        check_is_fitted(self, "posterior_")
        X = self._validated(X)
        rng = as_generator(random_state)
        return self._draw_labels(X, self._draw_particles(n_samples, rng), self.classes_, rng)

    def sample_prior_y(self, X, classes=(0, 1), n_samples=1, random_state=0):
        """Draw labels from the prior predictive distribution; no fit is needed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Features.
        classes : array-like of shape (n_classes,), default=(0, 1)
            Labels.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Labels.

        Raises
        ------
        ValueError
            If there are fewer than two classes, or ``n_samples`` is not a positive integer.
        """
        self._validate_params()
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        rng, classes = as_generator(random_state), np.unique(classes)
        if len(classes) < 2:
            raise ValueError(f"classes must hold two labels or more, got {classes.tolist()}.")
        theta = self._draw_prior(X.shape[1], len(classes), _positive(n_samples), rng)
        return self._draw_labels(X, theta, classes, rng)

    def pointwise_log_likelihood(self, X, y, n_draws=None, random_state=0):
        """Log-likelihood of each row under each particle, as leave-one-out estimates want it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : array-like of shape (n_rows,)
            Labels, among ``classes_``.
        n_draws : int, optional
            Draws of equal weight, particles taken in proportion to their weights: what ArviZ's
            ``loo`` expects. Default: all particles, which ``posterior_.weights`` go with.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        ndarray of shape (n_draws, n_rows) or (m, n_rows)
            log p(y_n | x_n, theta_i), without row weights and at temperature 1.

        Raises
        ------
        ValueError
            If y holds labels that are not among ``classes_``.
        """
        check_is_fitted(self, "posterior_")
        X, y = self._validated(X, y)
        codes = encode_known(y, self.classes_).astype(int)
        if n_draws is None:
            theta = self.posterior_.particles
        else:
            theta = self._draw_particles(n_draws, as_generator(random_state))
        out = np.empty((len(theta), len(codes)))
        for rows, table in self._tables(X, theta, len(self.classes_)):
            out[:, rows] = np.take_along_axis(table, codes[None, None, rows], axis=0)[0]
        return out

    def _draw_particles(self, n, rng):
        if not hasattr(self.posterior_, "particles"):
            return self.posterior_.sample(_positive(n), rng)
        weights = self.posterior_.weights
        chosen = resample("systematic", weights, _positive(n), rng)
        return self.posterior_.particles[rng.permutation(chosen)]

    def _draw_labels(self, X, theta, classes, rng):
        out = np.empty((X.shape[0], len(theta)), dtype=classes.dtype)
        for rows, table in self._tables(X, theta, len(classes)):
            below = np.cumsum(np.exp(table[:-1]), axis=0) < rng.random(table.shape[1:])
            out[rows] = classes[below.sum(axis=0)].T
        return out


def _positive(n):
    if not (isinstance(n, Integral) and n > 0):
        raise ValueError(f"The number of draws must be a positive integer, got {n!r}.")
    return n
