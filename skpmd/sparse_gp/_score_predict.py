"""How well a Gaussian process predicts rows whose targets are known."""

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

from skpmd._base.utils import as_floats
from skpmd._base.validation import refuse_overflows
from skpmd.sparse_gp._left_out import leave_one_out


class GaussianProcessScores:
    """Mixin of an estimator whose ``_state`` is a `GPState`."""

    def log_predictive_density(self, X, y):
        """Log density of the predictive distribution of each row at its target.

        Minus its mean is `skpmd.metrics.negative_log_predictive_density`. Of several targets it is
        their joint density: independent given a particle, and averaged over particles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats, for densities in the units of y.

        Raises
        ------
        NotFittedError
            Before a fit.
        ValueError
            If y has another number of targets than in the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from skpmd import SparseGPRegressorPMD
        >>> X = np.linspace(0.0, 3.0, 40)[:, None]
        >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.cos(37.0 * X[:, 0])
        >>> gp = SparseGPRegressorPMD(n_particles=1, random_state=0).fit(X, y)
        >>> gp.log_predictive_density(X, y).shape
        (40,)
        """
        self._check_has_state("log_predictive_density")
        X, y = self._checked_pair(X, y)
        if self._n_targets == 1:
            return self.predict_proba(X).log_pdf(y[:, 0])
        weights = self._weights()

        def moments_of(rows):
            means, variances, noise = self._all_moments(rows, alpha=True)
            return np.array([means, variances + noise])

        mean, variance = self._by_rows(X, moments_of, (2, len(weights)))
        terms = -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance).sum(axis=2)
        return logsumexp(terms, axis=0, b=weights[:, None])

    def _leave_one_out(self, X, y, times):
        """`LeftOut` of the rows of the fit, for `skpmd.model_comparison.loo`."""
        self._check_has_state("leave-one-out estimates")
        if y is None:
            raise ValueError("y is None: leaving rows out needs the targets of the fit.")
        X, y = self._checked_pair(X, y)
        if self._forgetting() > 0.0 and self.approximation_ != "vecchia":
            raise ValueError(
                "With forgetting rows of the past have lost weight, and how much is not known any "
                "more: skpmd.streams.prequential_score has predictions of a stream."
            )
        return leave_one_out(self._state, X, y, times)

    def _checked_pair(self, X, y):
        """Rows and their targets (n, t), checked, of a fitted estimator."""
        kind = kind_of_rows(self._state.model.covariance.kernel)
        X, y = self._checked_data(X, y, **kind, y_numeric=True, multi_output=True, reset=False)
        y = as_floats("y", y).reshape(len(y), -1)
        if y.shape[1] != self._n_targets:
            raise ValueError(f"y has {y.shape[1]} targets, it had {self._n_targets} in the fit.")
        for name, values in (("X", X), ("y", y)):
            refuse_overflows(name, values)
        return X, y

    def _check_has_state(self, what):
        """Raise before a fit, when predictions are those of the prior."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' before {what}."
            )


def kind_of_rows(kernel):
    """How input for a kernel is checked: some take other things than vectors."""
    if kernel is None or kernel.requires_vector_input:
        return {"dtype": np.float64, "order": "C"}
    return {"dtype": None, "ensure_2d": False}
