"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta).

Gradients inside a trajectory, and averages over particles, are in single precision.
"""

import numpy as np
from numba import njit
from scipy.special import expit, log_expit

from skpmd.linear._design import OneLogit, gauss_hermite
from skpmd.linear._kernels import AT_ONCE, KERNEL, LANES, exponential, single_exponential

_RULE, _WIDE_RULE = gauss_hermite(16), gauss_hermite(96)
_WIDE = 1.5  # Where a logit has a larger standard deviation, 16 nodes err by more than 1e-5.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


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


# ------------------------------------------------------------------- kernels
@njit(**KERNEL)
def add_log_sigmoid(table, sign, weight, total, differentiate):
    """Add sum_n weight_n * log sigmoid(sign_n * table[i, n]) to total[i].

    log sigmoid(s z) = min(s z, 0) - log(1 + e^-|z|). Rows are summed in lanes, that is in a fixed
    order. With ``differentiate`` each logit is replaced by the derivative of what it adds,
    weight * sign * sigmoid(-sign * z).
    """
    m, n = table.shape
    small, scratch, lanes = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(m):
        lanes[:] = 0.0
        for start in range(0, n, LANES):
            length = min(LANES, n - start)
            z = table[i, start : start + length]
            s = sign[start : start + length]
            w = weight[start : start + length]
            for j in range(length):
                small[j] = -abs(np.float64(z[j]))
            exponential(small, scratch, length)
            for j in range(length):
                # log(1 + e) = 2 atanh(q) with q = e / (2 + e) <= 1/3.
                e = small[j]
                q = e / (2.0 + e)
                t = q * q
                p = 1 / 27.0 + t * (1 / 29.0)
                p = 1 / 25.0 + t * p
                p = 1 / 23.0 + t * p
                p = 1 / 21.0 + t * p
                p = 1 / 19.0 + t * p
                p = 1 / 17.0 + t * p
                p = 1 / 15.0 + t * p
                p = 1 / 13.0 + t * p
                p = 1 / 11.0 + t * p
                p = 1 / 9.0 + t * p
                p = 1 / 7.0 + t * p
                p = 1 / 5.0 + t * p
                p = 1 / 3.0 + t * p
                p = 1.0 + t * p
                lanes[j] += w[j] * (min(s[j] * z[j], 0.0) - 2.0 * q * p)
            if differentiate:
                for j in range(length):
                    e = small[j]
                    z[j] = w[j] * s[j] * (1.0 if s[j] * z[j] < 0.0 else e) / (1.0 + e)
        subtotal = 0.0
        for j in range(LANES):
            subtotal += lanes[j]
        total[i] += subtotal


@njit(**KERNEL)
def expected_derivatives(centre, spread, sign, weight, nodes, node_weights):
    """Weighted E[d/dz log sigmoid(s z)] and E[-d2/dz2] of each row, z ~ N(centre, spread^2)."""
    slope = np.empty(len(centre))
    curvature = np.empty(len(centre))
    for i in range(len(centre)):
        first = 0.0
        second = 0.0
        for k in range(len(nodes)):
            z = centre[i] + spread[i] * nodes[k]
            e = np.exp(-abs(z))
            small = e / (1.0 + e)  # sigmoid(-|z|)
            probability = 1.0 - small if z >= 0 else small
            target = 0.5 * (1.0 + sign[i])
            first += node_weights[k] * (target - probability)
            second += node_weights[k] * small * (1.0 - small)
            if spread[i] == 0.0:
                first = target - probability
                second = small * (1.0 - small)
                break
        slope[i] = weight[i] * first
        curvature[i] = weight[i] * second
    return slope, curvature


@njit(**KERNEL)
def expected_third(centre, spread, weight, nodes, node_weights):
    """Weighted E[d3/dz3 log sigmoid(z)] of each row, z ~ N(centre, spread^2)."""
    out = np.empty(len(centre))
    for i in range(len(centre)):
        total = 0.0
        for k in range(len(nodes)):
            z = centre[i] + spread[i] * nodes[k]
            e = np.exp(-abs(z))
            small = e / (1.0 + e)
            slope = (1.0 - 2.0 * small) if z >= 0 else (2.0 * small - 1.0)
            total += node_weights[k] * small * (1.0 - small) * slope
        out[i] = weight[i] * total
    return out


@njit(**KERNEL)
def sigmoid_slopes(table, weight):
    """Replace float32 logits by |w_n| times the derivative of log sigmoid(sign(w_n) z).

    That is w_n sigmoid(-sign(w_n) z) for weights w_n that have the sign of their row's label. The
    arithmetic is in single precision: these are for gradients inside a trajectory.
    """
    m, n = table.shape
    small, scratch = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(m):
        for start in range(0, n, LANES):
            length = min(LANES, n - start)
            z = table[i, start : start + length]
            w = weight[start : start + length]
            for j in range(length):
                small[j] = -abs(z[j])
            single_exponential(small, scratch, length)
            for j in range(length):
                e = small[j]
                top = _ONE if z[j] * w[j] < _ZERO else e
                z[j] = w[j] * top / (_ONE + e)


@njit(**KERNEL)
def average_sigmoids(table, centre, scale, weight, averages):
    """Averages of sigmoid(-z) and sigmoid(z) over particles i, z_in = centre_n + scale_n table_in.

    ``table`` (m, n), ``centre`` and ``scale`` (n,), and ``weight`` (m,), which adds up to 1, are
    float32. ``averages`` (2, n) are float64, each a sum of its own: a small one has all its digits,
    unless it is less than e^-87.
    """
    m, n = table.shape
    small, scratch = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    below, above = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    z = np.empty(LANES, np.float32)
    for start in range(0, n, LANES):
        length = min(LANES, n - start)
        for j in range(length):
            averages[0, start + j] = averages[1, start + j] = 0.0
        for first in range(0, m, AT_ONCE):
            below[:], above[:] = _ZERO, _ZERO
            for i in range(first, min(m, first + AT_ONCE)):
                w = weight[i]
                for j in range(length):
                    z[j] = centre[start + j] + scale[start + j] * table[i, start + j]
                    small[j] = -abs(z[j])
                single_exponential(small, scratch, length)
                for j in range(length):
                    large = w / (_ONE + small[j])
                    less = small[j] * large
                    below[j] += less if z[j] > _ZERO else large
                    above[j] += large if z[j] > _ZERO else less
            for j in range(length):
                averages[0, start + j] += below[j]
                averages[1, start + j] += above[j]
