"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta)."""

import numpy as np

from skpmd.engine.threads import in_order
from skpmd.logistic._design import LinearModel, design, logits, pieces, slopes_gradient
from skpmd.logistic._kernels import (
    LANES,
    add_log_sigmoid,
    expected_derivatives,
    expected_third,
    sigmoid_slopes,
)

_TABLE = 1 << 18  # This many logits are held at once, in a table that stays in the second cache.


def _gauss_hermite(n):
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / np.sqrt(2 * np.pi)


_RULE, _WIDE_RULE = _gauss_hermite(16), _gauss_hermite(96)
_WIDE = 1.5  # Where a logit has a larger standard deviation, 16 nodes err by more than 1e-5.


class LogisticModel(LinearModel):
    """Binary logistic regression; parameters as of `LinearModel`, with one row of coefficients."""

    def with_prior(self, prior):
        """The same likelihood under another prior."""
        return LogisticModel(prior, self.fit_intercept)

    def log_likelihood(self, theta, batch):
        """Weighted sum of log sigmoid(y x . theta); see `Model`."""
        coefficients, total = self.prior.coefficients(theta), np.zeros(len(theta))

        def of(piece):
            (X, y, weight), rows = piece
            part, table = np.zeros(len(theta)), logits(coefficients, X[rows], self.fit_intercept)
            add_log_sigmoid(table, y[rows], weight[rows], part, False)
            return part

        for part in in_order(of, self._pieces([batch], len(theta))):
            total += part
        return total

    def log_joint_gradient(self, theta, batches, b=1.0):
        """Log joint density and its gradient; see `Model`."""
        total, gradient = self._gradient(theta, batches, b, _values_and_slopes)
        return self.prior.log_density(theta) + b * total, gradient

    def single_gradient(self, theta, batches, b=1.0):
        """Gradient of the log joint density, from features in float32 in that precision."""
        return self._gradient(theta, batches, b, _single_slopes)[1]

    def _gradient(self, theta, batches, b, differentiate):
        """Log-likelihood and gradient of the log joint density.

        ``differentiate`` turns logits into derivatives in place, and may add log-likelihoods to its
        last argument.
        """
        coefficients = self.prior.coefficients(theta)

        def of(piece):
            (X, y, weight), rows = piece
            part, X = np.zeros(len(theta)), X[rows]
            table = logits(coefficients, X, self.fit_intercept)
            differentiate(table, y[rows], weight[rows], part)
            by_intercept = table.sum(axis=1) if self.fit_intercept else None
            return part, slopes_gradient(table, X), by_intercept

        total, gradient = np.zeros(len(theta)), np.zeros((len(theta), len(self.prior.scale)))
        for part, by_slopes, by_intercept in in_order(of, self._pieces(batches, len(theta))):
            total += part
            gradient[:, : by_slopes.shape[1]] += by_slopes
            if self.fit_intercept:
                gradient[:, -1] += by_intercept
        gradient = self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)
        return total, gradient

    def differentiate(self, table, y, weight, total):
        """Add log-likelihoods to ``total``, and write derivatives over logits (m, 1, n)."""
        add_log_sigmoid(table[:, 0], y, weight, total, True)

    def _pieces(self, batches, m):
        """Pieces whose logits of m particles fit the cache."""
        return pieces(batches, max(LANES, _TABLE // m // LANES * LANES), 1)

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Returns E[grad log p(theta, data)], of shape (d,), and E[-Hessian log p(theta, data)],
        (d, d), with the prior's positive stand-in where it has one. b is the power of the
        likelihood.

        Each logit is Gaussian in one dimension. A Gauss-Hermite rule of 16 points, or of 96 where
        the sd of a logit exceeds 1.5, errs by less than 1e-4 up to an sd of 5. At ``cov=None`` the
        values at the mean itself are returned.
        """
        sd = None if cov is None else np.sqrt(np.diag(cov))
        gradient, precision = self.prior.expected(mean, sd)
        hessian = np.diag(precision)

        def of(piece):
            X, y, weight = design(piece, self.fit_intercept)
            spread = np.zeros(len(X))
            if cov is not None:
                spread = np.sqrt(np.einsum("ij,ij->i", X @ cov, X))
            nodes, node_weights = _rule(spread)
            slope, curvature = expected_derivatives(
                X @ mean, spread, y, weight, nodes, node_weights
            )
            return b * (X.T @ slope), b * ((X.T * curvature) @ X)

        for slope, curvature in in_order(of, self._designs(batches)):
            gradient += slope
            hessian += curvature
        return gradient, hessian

    def expected_logits(self, centre, spread, y):
        """Derivatives of log-likelihoods, averaged over independent normal logits.

        ``centre`` and ``spread``, of shape (n, 1), are means and variances of the logits; at
        ``spread=None`` the values are those at the means. y has the shape (n,).

        Returns E[d log p / dz] and E[-d2 log p / dz2], of shape (n, 1), by the rules of
        `gaussian_target`, and a callable that maps changes of the logits, (n, 1), to the curvature
        times them.
        """
        sd = np.zeros(len(y)) if spread is None else np.sqrt(spread[:, 0])
        ones, (nodes, node_weights) = np.ones(len(y)), _rule(sd)
        slope, curvature = expected_derivatives(centre[:, 0], sd, y, ones, nodes, node_weights)
        curvature = curvature[:, None]
        return slope[:, None], curvature, lambda change: curvature * change

    def _third_derivatives(self, mean, chol, batches):
        """E[-sigmoid''(z_n)] is the factor of the cube of row n."""

        def of(piece):
            X, _, weight = design(piece, self.fit_intercept)
            white = X @ chol
            spread = np.linalg.norm(white, axis=1)
            nodes, node_weights = _rule(spread)
            return white, expected_third(X @ mean, spread, weight, nodes, node_weights)

        return in_order(of, self._designs(batches))

    def _designs(self, batches):
        """Pieces whose rows, in float64 and with a column of ones, fit the cache."""
        return pieces(batches, _TABLE)


def _rule(spread):
    return _WIDE_RULE if spread.size and spread.max() > _WIDE else _RULE


def _values_and_slopes(table, y, weight, total):
    add_log_sigmoid(table, y, weight, total, True)


def _single_slopes(table, y, weight, total):
    sigmoid_slopes(table, (weight * y).astype(np.float32))
