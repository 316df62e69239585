"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta)."""

import numpy as np
from scipy.special import expit, log_expit

from skpmd.linear._design import OneLogit, gauss_hermite
from skpmd.linear._kernels import add_log_sigmoid, expected_derivatives, expected_third
from skpmd.linear._kernels_single import sigmoid_slopes

_RULE, _WIDE_RULE = gauss_hermite(16), gauss_hermite(96)
_WIDE = 1.5  # Where a logit has a larger standard deviation, 16 nodes err by more than 1e-5.


class LogisticModel(OneLogit):
    """Binary logistic regression, labels -1 and 1; parameters are as of `LinearModel`."""

    has_stiff_rows = True

    def add_log_likelihoods(self, table, y, weight, total, differentiate=False):
        """Add weighted sums of log sigmoid(y z); see `LinearModel`."""
        add_log_sigmoid(table[:, 0], y, weight, total, differentiate)

    def differentiate_single(self, table, y, weight, total):
        """Write derivatives over logits in float32; see `LinearModel`."""
        sigmoid_slopes(table[:, 0], (weight * y).astype(np.float32))

    def expected(self, centre, spread, y, weight):
        """Expected derivatives of log sigmoid(y z); see `OneLogit`.

        A Gauss-Hermite rule of 16 points, or of 96 where the sd of a logit exceeds 1.5, errs by
        less than 1e-4 up to an sd of 5.
        """
        return expected_derivatives(centre, spread, y, weight, *_rule(spread))

    def expected_third(self, centre, spread, y, weight):
        """E[-sigmoid''(z)], whatever the label; see `OneLogit`."""
        return expected_third(centre, spread, weight, *_rule(spread))

    def derivatives_at(self, z, y):
        """Log sigmoid(y z), and its first and minus its second derivative in logits z."""
        p = expit(z)
        return log_expit(y * z), np.where(y > 0.0, 1.0 - p, -p), p * (1.0 - p)


def _rule(spread):
    return _WIDE_RULE if spread.size and spread.max() > _WIDE else _RULE
