"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta)."""

import numpy as np

from skpmd.logistic._design import LinearModel, designs, logits, slopes_gradient
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
        total = np.zeros(len(theta))
        for _, y, weight, table in self._tables(theta, [batch]):
            add_log_sigmoid(table, y, weight, total, False)
        return total

    def log_joint_gradient(self, theta, batches, b=1.0):
        """Log joint density and its gradient; see `Model`."""

        def add_values(table, y, weight):
            add_log_sigmoid(table, y, weight, total, True)

        total = np.zeros(len(theta))
        gradient = self._gradient(theta, batches, b, add_values)
        return self.prior.log_density(theta) + b * total, gradient

    def single_gradient(self, theta, batches, b=1.0):
        """Gradient of the log joint density, from features in float32 in that precision."""

        def slopes(table, y, weight):
            sigmoid_slopes(table, (weight * y).astype(np.float32))

        return self._gradient(theta, batches, b, slopes)

    def _gradient(self, theta, batches, b, differentiate):
        """Gradient of the log joint density, given what turns logits into derivatives in place."""
        gradient = np.zeros((len(theta), len(self.prior.scale)))
        for X, y, weight, table in self._tables(theta, batches):
            differentiate(table, y, weight)
            gradient[:, : X.shape[1]] += slopes_gradient(table, X)
            if self.fit_intercept:
                gradient[:, -1] += table.sum(axis=1)
        return self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)

    def differentiate(self, table, y, weight, total):
        """Add log-likelihoods to ``total``, and write derivatives over logits (m, 1, n)."""
        add_log_sigmoid(table[:, 0], y, weight, total, True)

    def _tables(self, theta, batches):
        """Rows in pieces with the logits of all particles: (X, y, weight, table (m, n))."""
        coefficients = self.prior.coefficients(theta)
        step = max(LANES, _TABLE // len(theta) // LANES * LANES)
        for X, y, weight in batches:
            for start in range(0, len(weight), step):
                rows = slice(start, start + step)
                table = logits(coefficients, X[rows], self.fit_intercept)
                yield X[rows], y[rows], weight[rows], table

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
        for X, y, weight in self._designs(batches):
            spread = np.zeros(len(X))
            if cov is not None:
                spread = np.sqrt(np.einsum("ij,ij->i", X @ cov, X))
            nodes, node_weights = _rule(spread)
            slope, curvature = expected_derivatives(
                X @ mean, spread, y, weight, nodes, node_weights
            )
            gradient += b * (X.T @ slope)
            hessian += b * ((X.T * curvature) @ X)
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
        for X, _, weight in self._designs(batches):
            white = X @ chol
            spread = np.linalg.norm(white, axis=1)
            nodes, node_weights = _rule(spread)
            yield white, expected_third(X @ mean, spread, weight, nodes, node_weights)

    def _designs(self, batches):
        """Rows with their column of ones, in float64 and in pieces that fit the cache."""
        return designs(batches, self.fit_intercept, _TABLE)


def _rule(spread):
    return _WIDE_RULE if spread.size and spread.max() > _WIDE else _RULE
