"""Bayesian softmax regression: y in {0, ..., K - 1}, P(y = k | x, theta) ~ exp(x . theta_k)."""

from functools import partial

import numpy as np
from scipy.special import softmax

from skpmd._runtime.threads import add_up, in_order
from skpmd.linear._design import LinearModel, cubed, normal_nodes
from skpmd.linear._kernels import add_log_softmax, expected_softmax
from skpmd.linear._kernels_single import softmax_slopes
from skpmd.linear._priors import precision_matrix


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
        rows = theta.reshape(len(theta), self.n_classes, -1)
        return (rows - rows.mean(axis=1, keepdims=True)).reshape(theta.shape)

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


def _logit_covariance(X, cov, K):
    """Lower triangles of the covariances of the K logits of each row, shape (n, K, K)."""
    spread = np.zeros((len(X), K, K))
    blocks = cov.reshape(K, X.shape[1], K, X.shape[1])
    for k in range(K):
        for other in range(k + 1):
            spread[:, k, other] = np.einsum("ij,ij->i", X @ blocks[k, :, other], X)
    return spread
