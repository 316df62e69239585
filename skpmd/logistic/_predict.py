"""What rows of coefficients say: class probabilities, moments, draws of the prior."""

import numpy as np
from scipy.special import log_expit, logsumexp

from skpmd.logistic._averaging import AveragedClassifier
from skpmd.logistic._design import logits
from skpmd.logistic._draws import PredictiveDraws
from skpmd.logistic._make_model import linear_model


class LinearPredictions(PredictiveDraws, AveragedClassifier):
    """Predictions of a classifier whose particles are rows of coefficients, intercepts last.

    A subclass has the parameters that `linear_model` reads.
    """

    def _set_coefficients(self, dtype):
        """Moments of the coefficients and intercepts, of a dtype."""
        p = self.n_features_in_
        n_rows = 1 if len(self.classes_) == 2 else len(self.classes_)
        D = n_rows * (p + self.fit_intercept)
        mean, std = (
            moment[:D].reshape(n_rows, -1).astype(dtype, copy=False)
            for moment in (self.posterior_.mean(), self.posterior_.std())
        )
        self.coef_, self.coef_std_ = mean[:, :p], std[:, :p]
        self.intercept_ = mean[:, p] if self.fit_intercept else np.zeros(n_rows, dtype)
        self.intercept_std_ = std[:, p] if self.fit_intercept else np.zeros(n_rows, dtype)

    def _class_log_proba(self, X, theta, n_classes):
        n_rows, width = 1 if n_classes == 2 else n_classes, X.shape[1] + self.fit_intercept
        if theta is None:
            table = self.posterior_.logits(X, self.fit_intercept)
        else:
            rows = theta[:, : n_rows * width].reshape(-1, width)
            table = logits(rows, X, self.fit_intercept).astype(np.float64, copy=False)
            table = table.reshape(len(theta), n_rows, -1).transpose(1, 0, 2)
        if n_rows == 1:
            return np.stack([log_expit(-table[0]), log_expit(table[0])])
        return table - logsumexp(table, axis=0)

    def _draw_prior(self, n_features, n_classes, m, rng):
        if self.prior_scale == "evidence":
            raise ValueError("prior_scale='evidence' has no prior before the data: set a number.")
        prior = linear_model(self, n_features, n_classes, self.prior_scale).prior
        return prior.reported(prior.sample(rng, m))
