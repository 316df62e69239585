"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta)."""

from functools import partial

import numpy as np

from skpmd.engine.sums import add_up
from skpmd.engine.threads import in_order
from skpmd.linear._design import LinearModel, gauss_hermite
from skpmd.linear._kernels import add_log_sigmoid, expected_derivatives, expected_third
from skpmd.linear._kernels_single import sigmoid_slopes
from skpmd.linear._priors import precision_matrix

_RULE, _WIDE_RULE = gauss_hermite(16), gauss_hermite(96)
_WIDE = 1.5  # Where a logit has a larger standard deviation, 16 nodes err by more than 1e-5.


class LogisticModel(LinearModel):
    """Binary logistic regression; parameters as of `LinearModel`, with one row of coefficients."""

    def add_log_likelihoods(self, table, y, weight, total):
        """Add weighted sums of log sigmoid(y z); see `LinearModel`."""
        add_log_sigmoid(table[:, 0], y, weight, total, False)

    def differentiate(self, table, y, weight, total):
        """The same, and write derivatives over logits (m, 1, n)."""
        add_log_sigmoid(table[:, 0], y, weight, total, True)

    def differentiate_single(self, table, y, weight, total):
        """Write derivatives over logits in float32; see `LinearModel`."""
        sigmoid_slopes(table[:, 0], (weight * y).astype(np.float32))

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
        hessian = precision_matrix(precision)
        return add_up(partial(self._add_expected, mean, cov, b), batches, gradient, hessian)

    def _add_expected(self, mean, cov, b, batches, gradient, hessian):
        """Add what the rows of the batches make of it."""

        def of(piece):
            X, y, weight = self.design(piece)
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
            X, _, weight = self.design(piece)
            white = X @ chol
            spread = np.linalg.norm(white, axis=1)
            nodes, node_weights = _rule(spread)
            return white, expected_third(X @ mean, spread, weight, nodes, node_weights)

        return in_order(of, self._designs(batches))


def _rule(spread):
    return _WIDE_RULE if spread.size and spread.max() > _WIDE else _RULE
