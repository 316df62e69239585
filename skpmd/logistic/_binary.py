"""Bayesian logistic regression: y in {-1, +1}, P(y | x, theta) = sigmoid(y x . theta)."""

import numpy as np
from numba import njit

from skpmd.engine.model import Model
from skpmd.logistic._design import designs, logits, most_skewed, slopes_gradient

_LANES = 128  # rows handled side by side in the kernel: their vectors stay in the first cache
_TABLE = 1 << 18  # logits held at once: a table that stays in the second-level cache


def _gauss_hermite(n):
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / np.sqrt(2 * np.pi)


_RULE, _WIDE_RULE = _gauss_hermite(16), _gauss_hermite(96)
_WIDE = 1.5  # sd of a logit beyond which 16 nodes err by more than 1e-5


class LogisticModel(Model):
    """Binary logistic regression under a prior on its coefficients.

    Rows of a batch may have one feature fewer than the model has coefficients: the last
    coefficient is then the intercept, and no column of ones is ever stored.

    Parameters
    ----------
    prior : Prior or HorseshoePrior
        Prior on the coefficients, with the intercept last; ``gaussian_target`` needs the former.
    fit_intercept : bool
        Whether the last coefficient is an intercept.
    """

    def __init__(self, prior, fit_intercept):
        self.prior, self.tail_df = prior, prior.tail_df
        self.fit_intercept = fit_intercept

    @property
    def n_coordinates(self):
        """Length of theta."""
        return self.prior.n_coordinates

    def with_prior(self, prior):
        """The same likelihood under another prior."""
        return LogisticModel(prior, self.fit_intercept)

    def sample_prior(self, rng, m):
        """Draw from the prior; see `Model`."""
        return self.prior.sample(rng, m)

    def log_prior(self, theta):
        """Log prior density; see `Model`."""
        return self.prior.log_density(theta)

    def log_likelihood(self, theta, batch):
        """Weighted sum of log sigmoid(y x . theta); see `Model`."""
        total = np.zeros(len(theta))
        for _, y, weight, table in self._tables(theta, [batch]):
            add_log_sigmoid(table, y, weight, total)
        return total

    def log_joint_gradient(self, theta, batches, b=1.0):
        """Log joint density and its gradient; see `Model`."""
        total, gradient = np.zeros(len(theta)), np.zeros((len(theta), len(self.prior.scale)))
        for X, y, weight, table in self._tables(theta, batches):
            add_log_sigmoid(table, y, weight, total, True)
            gradient[:, : X.shape[1]] += slopes_gradient(table, X)
            if self.fit_intercept:
                gradient[:, -1] += table.sum(axis=1)
        values = self.prior.log_density(theta) + b * total
        return values, self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)

    def _tables(self, theta, batches):
        """Rows in pieces with the logits of all particles, (X, y, weight, table of (m, n))."""
        coefficients = self.prior.coefficients(theta)
        step = max(_LANES, _TABLE // len(theta) // _LANES * _LANES)
        for X, y, weight in batches:
            for start in range(0, len(weight), step):
                rows = slice(start, start + step)
                table = logits(coefficients, X[rows], self.fit_intercept)
                yield X[rows], y[rows], weight[rows], table

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Logits are Gaussian in one dimension each: a Gauss-Hermite rule of 16 points, or of 96 where
        the sd of a logit exceeds 1.5, errs by less than 1e-4 up to an sd of 5. At ``cov=None`` the
        values at the mean itself.

        Parameters
        ----------
        mean : ndarray of shape (d,)
            Mean of the Gaussian.
        cov : ndarray of shape (d, d) or None
            Its covariance.
        batches : sequence of Batch
            All data.
        b : float
            Power of the likelihood.

        Returns
        -------
        gradient : ndarray of shape (d,)
            E[grad log p(theta, data)].
        precision : ndarray of shape (d, d)
            E[-Hessian log p(theta, data)], with the prior's positive stand-in where it has one.
        """
        sd = None if cov is None else np.sqrt(np.diag(cov))
        gradient, precision = self.prior.expected(mean, sd)
        hessian = np.diag(precision)
        for X, y, weight in self._designs(batches):
            spread = np.zeros(len(X))
            if cov is not None:
                spread = np.sqrt(np.einsum("ij,ij->i", X @ cov, X))
            slope, curvature = _expected_derivatives(X @ mean, spread, y, weight, *_rule(spread))
            gradient += b * (X.T @ slope)
            hessian += b * ((X.T * curvature) @ X)
        return gradient, hessian

    def expected_logits(self, centre, spread, y):
        """Derivatives of log-likelihoods, on average over independent normal logits.

        Parameters
        ----------
        centre, spread : ndarray of shape (n, 1)
            Means and variances of the logits; spread None for the values at the means.
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        slope, curvature : ndarray of shape (n, 1)
            E[d log p / dz] and E[-d2 log p / dz2], by the rules of `gaussian_target`.
        coupled : callable
            Changes of the logits, (n, 1) -> the curvature times them.
        """
        sd = np.zeros(len(y)) if spread is None else np.sqrt(spread[:, 0])
        slope, curvature = _expected_derivatives(centre[:, 0], sd, y, np.ones(len(y)), *_rule(sd))
        curvature = curvature[:, None]
        return slope[:, None], curvature, lambda change: curvature * change

    def skew_axes(self, mean, chol, batches, b=1.0, max_rows=2000, max_iter=30):
        """Orthogonal axes along which the posterior is most skewed, and how much.

        To leading order the third cumulant of u = chol^-1 (theta - mean) is the tensor
        sum_n E[-sigmoid''(z_n)] x_n x_n x_n of whitened rows x_n; the prior adds a row for each
        coefficient. The rotation maximises the sum of squares of its diagonal by fixed-point
        iterations with a polar projection, as in symmetric tensor decomposition (De Lathauwer,
        De Moor and Vandewalle 2000). The rows that contribute most stand for all.

        Returns
        -------
        rotation : ndarray of shape (d, d)
            Axes, in columns, in the coordinates u.
        skewness : ndarray of shape (d,)
            Leading-order skewness along each.
        """
        rows, third = chol, self.prior.expected_third(mean, np.linalg.norm(chol, axis=1))
        for X, _, weight in self._designs(batches):
            white = X @ chol
            spread = np.linalg.norm(white, axis=1)
            slope = b * _expected_third(X @ mean, spread, weight, *_rule(spread))
            rows, third = np.concatenate([rows, white]), np.concatenate([third, slope])
            size = np.abs(third) * np.linalg.norm(rows, axis=1) ** 3
            keep = np.argsort(-size, kind="stable")[:max_rows]
            rows, third = rows[keep], third[keep]
        third = third[:, None]
        rotation = most_skewed(rows, third, max_iter)
        return rotation, (third * (rows @ rotation) ** 3).sum(axis=0)

    def _designs(self, batches):
        """Rows with their column of ones, in float64 and in pieces that fit the cache."""
        return designs(batches, self.fit_intercept, _TABLE)


def _rule(spread):
    return _WIDE_RULE if spread.size and spread.max() > _WIDE else _RULE


@njit(cache=True, error_model="numpy")
def add_log_sigmoid(table, sign, weight, total, differentiate=False):
    """Add sum_n weight_n * log sigmoid(sign_n * table[i, n]) to total[i].

    log sigmoid(s z) = min(s z, 0) - log(1 + e^-|z|). The exponential and the logarithm are
    written out as polynomials over short vectors, which the compiler turns into SIMD code (a call
    to libm for each element is six times slower); both are exact to a few units in the last place.
    Rows are summed in lanes, a fixed order. With ``differentiate`` each logit is replaced by the
    derivative of what it adds, weight * sign * sigmoid(-sign * z).
    """
    m, n = table.shape
    shifted = np.empty(_LANES)
    bits = shifted.view(np.int64)
    mantissa = np.empty(_LANES)
    lanes = np.empty(_LANES)
    magic = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer in the low bits
    for i in range(m):
        lanes[:] = 0.0
        for start in range(0, n, _LANES):
            length = min(_LANES, n - start)
            z = table[i, start : start + length]
            s = sign[start : start + length]
            w = weight[start : start + length]
            for j in range(length):
                x = max(-abs(np.float64(z[j])), -700.0)
                shifted[j] = x * 1.4426950408889634 + magic
            for j in range(length):
                # e^x = 2^k e^r with |r| <= log(2) / 2, Taylor series of e^r to r^12 / 12!
                x = max(-abs(np.float64(z[j])), -700.0)
                k = shifted[j] - magic
                r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10
                p = 1 / 39916800.0 + r * (1 / 479001600.0)
                p = 1 / 3628800.0 + r * p
                p = 1 / 362880.0 + r * p
                p = 1 / 40320.0 + r * p
                p = 1 / 5040.0 + r * p
                p = 1 / 720.0 + r * p
                p = 1 / 120.0 + r * p
                p = 1 / 24.0 + r * p
                p = 1 / 6.0 + r * p
                p = 0.5 + r * p
                p = 1.0 + r * p
                mantissa[j] = 1.0 + r * p
            for j in range(length):
                bits[j] = (bits[j] + 1023) << 52  # 2^k, built in the exponent field
            for j in range(length):
                # log(1 + e) = 2 atanh(q) with q = e / (2 + e) <= 1/3
                e = mantissa[j] * shifted[j]
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
                    e = mantissa[j] * shifted[j]
                    z[j] = w[j] * s[j] * (1.0 if s[j] * z[j] < 0.0 else e) / (1.0 + e)
        subtotal = 0.0
        for j in range(_LANES):
            subtotal += lanes[j]
        total[i] += subtotal


@njit(cache=True)
def _expected_derivatives(centre, spread, sign, weight, nodes, node_weights):
    """Weighted E[d/dz log sigmoid(s z)] and E[-d2/dz2] for z ~ N(centre, spread^2), per row."""
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


@njit(cache=True)
def _expected_third(centre, spread, weight, nodes, node_weights):
    """Weighted E[d3/dz3 log sigmoid] for z ~ N(centre, spread^2), per row."""
    out = np.empty(len(centre))
    for i in range(len(centre)):
        total = 0.0
        for k in range(len(nodes)):
            z = centre[i] + spread[i] * nodes[k]
            e = np.exp(-abs(z))
            small = e / (1.0 + e)
            lean = (1.0 - 2.0 * small) if z >= 0 else (2.0 * small - 1.0)
            total += node_weights[k] * small * (1.0 - small) * lean
        out[i] = weight[i] * total
    return out
