"""Bayesian softmax regression: y in {0, ..., K - 1}, P(y = k | x, theta) ~ exp(x . theta_k)."""

from functools import partial

import numpy as np
from numba import njit
from scipy.special import softmax

from skpmd._runtime.threads import add_up, in_order
from skpmd.linear._design import LinearModel, cubed, normal_nodes
from skpmd.linear._kernels import (
    AT_ONCE,
    KERNEL,
    LANES,
    exponential,
    logarithm,
    single_exponential,
)
from skpmd.linear._priors import precision_matrix

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_ROUNDING = np.float32(1e-6)  # So much of a variance is rounding.


class SoftmaxModel(LinearModel):
    """Multinomial logistic regression in its symmetric form: a row of coefficients for each class.

    theta is these rows one after the other, each with its intercept last. What is added to all rows
    alike changes no probability: in that direction the posterior is the prior. Labels are codes 0
    to K - 1, K = ``n_classes``; other parameters are as of `LinearModel`.
    """

    table_size, has_stiff_rows = 1 << 17, True

    def __init__(self, prior, fit_intercept, n_classes, shift=None):
        super().__init__(prior, fit_intercept, shift)
        self.n_classes = self.n_logits = n_classes

    def monitored(self, theta):
        """Coefficients less their mean over the classes, which the data do not see; see `Model`."""
        if not self.prior.has_gaussian:
            return theta  # Coefficients are not linear in theta.
        return less_mean(theta, self.n_classes)

    def add_log_likelihoods(self, table, y, weight, total, differentiate=False):
        """Add weighted sums of log softmax(z)[y]; see `LinearModel`."""
        add_log_softmax(table, y.astype(np.int64), weight, total, differentiate)

    def differentiate_single(self, table, y, weight, total):
        """Write derivatives over logits in float32; see `LinearModel`."""
        softmax_slopes(table, y.astype(np.int64), weight.astype(np.float32))

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Arguments and results are as in `OneLogit.gaussian_target`. The K logits of a row are
        jointly Gaussian, and expectations are means over 128 quasi-random nodes, more where K > 32:
        probabilities err by about 2e-4 where logits have an sd of 0.5, by 2e-3 at 1.5 and by 8e-3
        at 4 (root mean square over rows). The fixed point of
        `skpmd.engine.variational.variational_mirror_descent` moves by up to 0.03 posterior sds on
        iris, wine and vowel, by 0.13 on segment. At ``cov=None`` the values at the mean itself are
        exact.

        The negative Hessian of a row is the sum over pairs of classes k > l of E[p_k p_l]
        (e_k - e_l)(e_k - e_l)^T (x) x x^T, positive semidefinite by any rule.
        """
        sd = None if cov is None else np.sqrt(np.diag(cov))
        gradient, precision = self.prior.expected(mean, sd)
        K = self.n_classes
        slope, precision = add_up(
            partial(self._add_expected, mean, cov, b),
            batches, np.zeros((K, len(mean) // K)), precision_matrix(precision),
        )  # fmt: skip
        return gradient + b * slope.ravel(), precision

    def _add_expected(self, mean, cov, b, batches, slope, precision):
        """Add what the rows of the batches make of it; the slope is of power 1."""
        K = self.n_classes
        blocks = precision.reshape(K, -1, K, len(mean) // K)
        nodes = np.zeros((K, 1)) if cov is None else normal_nodes(K)
        pairs = [(k, other) for k in range(K) for other in range(k)]

        def of(piece):
            X, y, weight = self.design(piece)
            spread = np.zeros((len(X), K, K)) if cov is None else _logit_covariance(X, cov, K)
            centre = X @ mean.reshape(K, -1).T
            probability, product = expected_softmax(centre, spread, nodes)
            part = (weight[:, None] * ((y[:, None] == np.arange(K)) - probability)).T @ X
            return part, [b * (X.T * (weight * product[:, k, j])) @ X for k, j in pairs]

        for part, of_pairs in in_order(of, self._designs(batches)):
            slope += part
            for (k, other), block in zip(pairs, of_pairs, strict=True):
                blocks[k, :, k] += block
                blocks[other, :, other] += block
                blocks[k, :, other] -= block
                blocks[other, :, k] -= block

    def expected_logits(self, centre, spread, y):
        """Expectations over independent normal logits; see `OneLogit.expected_logits`.

        The curvature E[diag(p) - p p^T] of a row is a K x K matrix. Its diagonal is exact, by the
        rule of `gaussian_target`; products with it take diag(q) - q q^T, where q = E[p], scaled to
        the same trace.
        """
        K = self.n_classes
        nodes = np.zeros((K, 1)) if spread is None else normal_nodes(K)
        probability, curvature = np.empty_like(centre), np.empty_like(centre)
        step = max(1, self.table_size // K**2)
        for start in range(0, len(y), step):
            part = slice(start, start + step)
            cov = np.zeros((len(centre[part]), K, K))
            if spread is not None:
                cov[:, np.arange(K), np.arange(K)] = spread[part]
            probability[part], product = expected_softmax(centre[part], cov, nodes)
            product = np.tril(product, -1)
            curvature[part] = product.sum(axis=1) + product.sum(axis=2)
        trace = np.maximum((probability * (1.0 - probability)).sum(axis=1), np.finfo(float).tiny)
        scaled = curvature.sum(axis=1, keepdims=True) / trace[:, None] * probability

        def coupled(change):
            return scaled * (change - (probability * change).sum(axis=1, keepdims=True))

        return (y[:, None] == np.arange(K)) - probability, curvature, coupled

    def remainders(self, mean, chol, batch):
        """Sizes (n,) of what a quadratic lacks of each row; see `OneLogit.remainders`.

        Logits have the standard deviation of an average one.
        """
        K = self.n_classes
        width = len(mean) // K
        blocks = chol.reshape(K, width, -1).transpose(1, 0, 2).reshape(width, -1)
        root = np.linalg.cholesky(blocks @ blocks.T / K)

        def of(piece):
            X, _, weight = self.design(piece)
            p = softmax(X @ mean.reshape(K, -1).T, axis=1)
            return weight * (1.0 - (p**2).sum(axis=1)) * cubed(X @ root)

        return np.concatenate(list(in_order(of, self._designs([batch]))))

    def third_derivatives(self, mean, chol, batches):
        """Minus the third central moment of e_k (x) x, where class k has the probability p_k.

        That is a sum over classes of -p_k v_k v_k v_k with v_k = (e_k - p) (x) x, whitened; p is
        taken at its expectation.
        """
        K, d = self.n_classes, len(mean)

        def of(piece):
            X, _, weight = self.design(piece)
            white = X @ chol.reshape(K, -1, d)  # This is e_k (x) x, whitened, of shape (K, n, d).
            by_row = white.transpose(1, 0, 2)
            spread = by_row @ by_row.transpose(0, 2, 1)
            p = expected_softmax(X @ mean.reshape(K, -1).T, spread, normal_nodes(K))[0]
            white -= np.einsum("nk,knd->nd", p, white)
            return white.reshape(-1, d), -(weight[:, None] * p).T.ravel()

        return in_order(of, self._designs(batches))


def less_mean(theta, K):
    """K rows of coefficients (m, K w) less their mean over the classes."""
    rows = theta.reshape(len(theta), K, -1)
    return (rows - rows.mean(axis=1, keepdims=True)).reshape(theta.shape)


def _logit_covariance(X, cov, K):
    """Lower triangles of the covariances of the K logits of each row, shape (n, K, K)."""
    spread = np.zeros((len(X), K, K))
    blocks = cov.reshape(K, X.shape[1], K, X.shape[1])
    for k in range(K):
        for other in range(k + 1):
            spread[:, k, other] = np.einsum("ij,ij->i", X @ blocks[k, :, other], X)
    return spread


# ------------------------------------------------------------------- kernels
@njit(**KERNEL)
def add_log_softmax(table, label, weight, total, differentiate):
    """Add sum_n weight_n * log softmax(table[i, :, n])[label_n] to total[i].

    With ``differentiate`` the table becomes the derivative of that sum by its entries,
    weight_n (1{k = label_n} - p_k). Rows are summed in lanes, that is in a fixed order.
    """
    m, n_classes, n = table.shape
    top, mass, work = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    chosen, lanes, scratch = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(m):
        lanes[:] = 0.0
        for start in range(0, n, LANES):
            stop = min(start + LANES, n)
            length = stop - start
            y = label[start:stop]
            w = weight[start:stop]
            top[:] = -np.inf
            mass[:] = 0.0
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    top[j] = max(top[j], np.float64(z[j]))
            for j in range(length):
                chosen[j] = table[i, y[j], start + j] - top[j]
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    work[j] = z[j] - top[j]
                exponential(work, scratch, length)
                for j in range(length):
                    mass[j] += work[j]
                if differentiate:
                    # Numba compiles an assignment of an array to a slice for seconds.
                    for j in range(length):
                        z[j] = work[j]
            if differentiate:
                for k in range(n_classes):
                    z = table[i, k, start:stop]
                    for j in range(length):
                        z[j] *= -w[j] / mass[j]
                for j in range(length):
                    table[i, y[j], start + j] += w[j]
            logarithm(mass, work, scratch, length)
            for j in range(length):
                lanes[j] += w[j] * (chosen[j] - mass[j])
        subtotal = 0.0
        for j in range(LANES):
            subtotal += lanes[j]
        total[i] += subtotal


@njit(**KERNEL)
def expected_softmax(centre, spread, nodes):
    """E[p_k] and E[p_k p_l] with p = softmax(z) and z ~ N(centre, spread), for each row.

    Only the lower triangles of the spread and of E[p_k p_l] are used. The Cholesky factor
    overwrites the spread; that of a singular spread stops at its rank.
    """
    n, n_classes = centre.shape
    size = nodes.shape[1]
    first = np.empty((n, n_classes))
    second = np.empty((n, n_classes, n_classes))
    p = np.empty((n_classes, size))
    top, mass, scratch = np.empty(size), np.empty(size), np.empty(size)
    for i in range(n):
        chol = spread[i]
        for k in range(n_classes):
            for column in range(k + 1):
                rest = chol[k, column]
                for j in range(column):
                    rest -= chol[k, j] * chol[column, j]
                if column == k:
                    chol[k, k] = np.sqrt(max(rest, 0.0))
                else:
                    pivot = chol[column, column]
                    chol[k, column] = rest / pivot if pivot > 1e-7 else 0.0
        top[:] = -np.inf
        for k in range(n_classes):
            p[k] = centre[i, k]
            for column in range(k + 1):
                if chol[k, column] != 0.0:  # Most entries are zero where logits are independent.
                    for j in range(size):
                        p[k, j] += chol[k, column] * nodes[column, j]
            for j in range(size):
                top[j] = max(top[j], p[k, j])
        mass[:] = 0.0
        for k in range(n_classes):
            for j in range(size):
                p[k, j] -= top[j]
            exponential(p[k], scratch, size)
            for j in range(size):
                mass[j] += p[k, j]
        for k in range(n_classes):
            total = 0.0
            for j in range(size):
                p[k, j] /= mass[j]
                total += p[k, j]
            first[i, k] = total / size
            for other in range(k):
                total = 0.0
                for j in range(size):
                    total += p[k, j] * p[other, j]
                second[i, k, other] = total / size
    return first, second


@njit(**KERNEL)
def softmax_slopes(table, label, weight):
    """Replace float32 logits (m, K, n) by weight_n (1{k = label_n} - p_k), as `sigmoid_slopes`."""
    m, n_classes, n = table.shape
    top, mass = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    for i in range(m):
        for start in range(0, n, LANES):
            stop = min(start + LANES, n)
            length = stop - start
            w = weight[start:stop]
            top[:length] = table[i, 0, start:stop]
            mass[:] = _ZERO
            for k in range(1, n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    top[j] = max(top[j], z[j])
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    z[j] -= top[j]
                single_exponential(z, scratch, length)
                for j in range(length):
                    mass[j] += z[j]
            for j in range(length):
                mass[j] = -w[j] / mass[j]
            for k in range(n_classes):
                z = table[i, k, start:stop]
                for j in range(length):
                    z[j] *= mass[j]
            for j in range(length):
                table[i, label[start + j], start + j] += w[j]


@njit(**KERNEL)
def average_softmaxes(table, centre, weight, averages):
    """Averages (K, n) of softmax(z) over particles i, z_ikn = centre_kn + table_ikn.

    As `average_sigmoids`; the table (m, K, n) is overwritten.
    """
    m, n_classes, n = table.shape
    top, factor = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    sums = np.empty((n_classes, LANES), np.float32)
    averages[:] = 0.0
    for start in range(0, n, LANES):
        stop = min(start + LANES, n)
        length = stop - start
        for first in range(0, m, AT_ONCE):
            sums[:] = _ZERO
            for i in range(first, min(m, first + AT_ONCE)):
                for k in range(n_classes):
                    z, c = table[i, k, start:stop], centre[k, start:stop]
                    for j in range(length):
                        z[j] += c[j]
                        top[j] = z[j] if k == 0 else max(top[j], z[j])
                        factor[j] = _ZERO
                for k in range(n_classes):
                    z = table[i, k, start:stop]
                    for j in range(length):
                        z[j] -= top[j]
                    single_exponential(z, scratch, length)
                    for j in range(length):
                        factor[j] += z[j]
                for j in range(length):
                    factor[j] = weight[i] / factor[j]
                for k in range(n_classes):
                    z, total = table[i, k, start:stop], sums[k]
                    for j in range(length):
                        total[j] += z[j] * factor[j]
            for k in range(n_classes):
                for j in range(length):
                    averages[k, start + j] += sums[k, j]


@njit(**KERNEL)
def _factorise(spread, d, n):
    """Cholesky factors in place of the lower triangles (d (d + 1) / 2, n) of n matrices.

    Coordinates that those before them determine have columns of zeros.
    """
    inverse = np.empty((d, LANES), np.float32)
    for k in range(d):
        row = k * (k + 1) // 2
        own, bound = spread[row + k], inverse[k]
        for j in range(n):
            bound[j] = own[j] * _ROUNDING
        for c in range(k + 1):
            column = c * (c + 1) // 2
            rest = spread[row + c]
            for i in range(c):
                a, b = spread[row + i], spread[column + i]
                for j in range(n):
                    rest[j] -= a[j] * b[j]
            if c < k:
                scale = inverse[c]
                for j in range(n):
                    rest[j] *= scale[j]
        for j in range(n):
            root = np.sqrt(own[j]) if own[j] > bound[j] else _ZERO
            own[j] = root
            bound[j] = _ONE / root if root > _ZERO else _ZERO


@njit(**KERNEL)
def average_normal_softmaxes(centre, spread, nodes, averages):
    """Averages (K, n) of softmax(z) where z has a normal distribution, for n <= 128 rows.

    ``centre`` (K, n) has the means of z, ``spread`` (K (K - 1) / 2, n) the lower triangles of the
    covariances of z_k - z_K, k < K, which are overwritten. The normal distribution is represented
    by the columns of ``nodes`` (K - 1, m) and their mirror images. All are float32 but the
    averages.
    """
    n_classes, n = centre.shape
    d, m = nodes.shape
    shift, z = np.empty((d, LANES), np.float32), np.empty((n_classes, LANES), np.float32)
    top, factor = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    scratch = np.empty(LANES, np.float32)
    sums = np.empty((n_classes, LANES), np.float32)
    share = np.float32(0.5 / m)
    _factorise(spread, d, n)
    averages[:] = 0.0
    for first in range(0, m, AT_ONCE):
        sums[:] = _ZERO
        for i in range(first, min(m, first + AT_ONCE)):
            for k in range(d):
                total = shift[k]
                for c in range(k + 1):
                    node, one = nodes[c, i], spread[k * (k + 1) // 2 + c]
                    if c == 0:
                        for j in range(n):
                            total[j] = one[j] * node
                    else:
                        for j in range(n):
                            total[j] += one[j] * node
            for side in range(2):
                sign = _ONE if side == 0 else -_ONE
                for j in range(n):
                    z[d, j] = top[j] = centre[d, j]
                    factor[j] = _ZERO
                for k in range(d):
                    own, c, s = z[k], centre[k], shift[k]
                    for j in range(n):
                        own[j] = c[j] + sign * s[j]
                        top[j] = max(top[j], own[j])
                for k in range(n_classes):
                    own = z[k]
                    for j in range(n):
                        own[j] -= top[j]
                    single_exponential(own, scratch, n)
                    for j in range(n):
                        factor[j] += own[j]
                for j in range(n):
                    factor[j] = share / factor[j]
                for k in range(n_classes):
                    own, total = z[k], sums[k]
                    for j in range(n):
                        total[j] += own[j] * factor[j]
        for k in range(n_classes):
            for j in range(n):
                averages[k, j] += sums[k, j]
