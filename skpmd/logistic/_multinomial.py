"""Bayesian softmax regression: y in {0, ..., K - 1}, P(y = k | x, theta) ~ exp(x . theta_k)."""

import numpy as np

from skpmd.engine.model import Model
from skpmd.logistic._design import designs, logits, most_skewed, normal_nodes, slopes_gradient
from skpmd.logistic._softmax_kernels import LANES, add_log_softmax, expected_softmax

_TABLE = 1 << 17  # numbers held at once: a table that stays in the second-level cache
_ROWS = 512  # rows that a table takes before it takes more particles


class SoftmaxModel(Model):
    """Multinomial logistic regression in its symmetric form: a row of coefficients a class.

    theta is these rows one after the other, each with its intercept last. What is added to all
    rows alike changes no probability: along it the posterior is the prior. Rows of a batch may
    have one feature fewer than a row has coefficients, as in `LogisticModel`; labels are codes
    0 to K - 1.

    Parameters
    ----------
    prior : Prior or HorseshoePrior
        Prior on theta; ``gaussian_target`` needs the former.
    fit_intercept : bool
        Whether the last coefficient of each row is an intercept.
    n_classes : int
        K.
    """

    def __init__(self, prior, fit_intercept, n_classes):
        self.prior, self.tail_df = prior, prior.tail_df
        self.fit_intercept = fit_intercept
        self.n_classes = n_classes

    @property
    def n_coordinates(self):
        """Length of theta."""
        return self.prior.n_coordinates

    def with_prior(self, prior):
        """The same likelihood under another prior."""
        return SoftmaxModel(prior, self.fit_intercept, self.n_classes)

    def sample_prior(self, rng, m):
        """Draw from the prior; see `Model`."""
        return self.prior.sample(rng, m)

    def log_prior(self, theta):
        """Log prior density; see `Model`."""
        return self.prior.log_density(theta)

    def monitored(self, theta):
        """Coefficients less their mean over the classes, for the data know no more; see `Model`."""
        if not self.prior.has_gaussian:
            return theta  # not linear in it
        rows = theta.reshape(len(theta), self.n_classes, -1)
        return (rows - rows.mean(axis=1, keepdims=True)).reshape(theta.shape)

    def log_likelihood(self, theta, batch):
        """Weighted sum of log softmax(x . theta_1, ..., x . theta_K)[y]; see `Model`."""
        total = np.zeros(len(theta))
        for some, rows, table in self._tables(self.prior.coefficients(theta), batch):
            add_log_softmax(table, *_targets(batch, rows), total[some], False)
        return total

    def log_joint_gradient(self, theta, batches, b=1.0):
        """Log joint density and its gradient at each particle; see `Model`.

        The derivative by logit k is 1{y = k} - p_k: the kernel writes it over the logits, and a
        second matrix product takes it to the coefficients. Tables are in the dtype of X, sums over
        them in float64.
        """
        coefficients = self.prior.coefficients(theta)
        total, gradient = np.zeros(len(theta)), np.zeros(coefficients.shape)
        for batch in batches:
            for some, rows, table in self._tables(coefficients, batch):
                add_log_softmax(table, *_targets(batch, rows), total[some], True)
                table = table.reshape(-1, table.shape[2])
                part = gradient[some].reshape(len(table), -1)
                part[:, : batch.X.shape[1]] += slopes_gradient(table, batch.X[rows])
                if self.fit_intercept:
                    part[:, -1] += table.sum(axis=1, dtype=np.float64)
        gradient = self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)
        return self.prior.log_density(theta) + b * total, gradient

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Parameters and returns as in `LogisticModel.gaussian_target`. The K logits of a row are
        Gaussian together, and expectations are means over 128 quasi-random nodes: probabilities err
        by about 2e-4 where logits have an sd of 0.5, by 2e-3 at 1.5 and by 8e-3 at 4 (root mean
        square over rows); the fixed point of `skpmd.engine.variational.variational_mirror_descent`
        moves by up to 0.03 posterior sds on iris, wine and vowel, by 0.13 on segment. At
        ``cov=None`` the values at the mean itself, exact.

        The negative Hessian of a row is the sum over pairs of classes k > l of
        E[p_k p_l] (e_k - e_l)(e_k - e_l)^T (x) x x^T: positive semidefinite by any rule.
        """
        sd = None if cov is None else np.sqrt(np.diag(cov))
        gradient, diagonal = self.prior.expected(mean, sd)
        precision = np.diag(diagonal)
        K = self.n_classes
        slope, blocks = np.zeros((K, len(mean) // K)), precision.reshape(K, -1, K, len(mean) // K)
        nodes = np.zeros((K, 1)) if cov is None else normal_nodes(K)
        for X, y, weight in self._designs(batches):
            spread = np.zeros((len(X), K, K)) if cov is None else _logit_covariance(X, cov, K)
            centre = X @ mean.reshape(K, -1).T
            probability, product = expected_softmax(centre, spread, nodes)
            slope += (weight[:, None] * ((y[:, None] == np.arange(K)) - probability)).T @ X
            for k in range(K):
                for other in range(k):
                    block = b * (X.T * (weight * product[:, k, other])) @ X
                    blocks[k, :, k] += block
                    blocks[other, :, other] += block
                    blocks[k, :, other] -= block
                    blocks[other, :, k] -= block
        return gradient + b * slope.ravel(), precision

    def expected_logits(self, centre, spread, y):
        """Expectations over independent normal logits; see `LogisticModel.expected_logits`.

        The curvature E[diag(p) - p p^T] of a row is K x K. Its diagonal is exact, by the rule of
        `gaussian_target`; products take diag(q) - q q^T, q = E[p], scaled to the same trace.
        """
        K = self.n_classes
        nodes = np.zeros((K, 1)) if spread is None else normal_nodes(K)
        probability, curvature = np.empty_like(centre), np.empty_like(centre)
        step = max(1, _TABLE // K**2)
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

    def skew_axes(self, mean, chol, batches, b=1.0, max_rows=2000, max_iter=30):
        """Orthogonal axes along which the posterior is most skewed, and how much.

        As in `LogisticModel.skew_axes`. The third derivative of a row's log-likelihood is minus the
        third central moment of e_k (x) x, class k drawn with probability p_k: a sum over classes of
        -p_k v_k v_k v_k with v_k = (e_k - p) (x) x, whitened; at p = E[p].
        """
        K, d = self.n_classes, len(mean)
        rows, third = chol, self.prior.expected_third(mean, np.linalg.norm(chol, axis=1))
        for X, _, weight in self._designs(batches):
            white = X @ chol.reshape(K, -1, d)  # e_k (x) x, whitened; shape (K, n, d)
            by_row = white.transpose(1, 0, 2)
            spread = by_row @ by_row.transpose(0, 2, 1)
            p = expected_softmax(X @ mean.reshape(K, -1).T, spread, normal_nodes(K))[0]
            white -= np.einsum("nk,knd->nd", p, white)
            rows = np.concatenate([rows, white.reshape(-1, d)])
            third = np.concatenate([third, -b * (weight[:, None] * p).T.ravel()])
            size = np.abs(third) * np.linalg.norm(rows, axis=1) ** 3
            keep = np.argsort(-size, kind="stable")[:max_rows]
            rows, third = rows[keep], third[keep]
        third = third[:, None]
        rotation = most_skewed(rows, third, max_iter)
        return rotation, (third * (rows @ rotation) ** 3).sum(axis=0)

    def _tables(self, coefficients, batch):
        """Logits in pieces of shape (particles, K, rows), with the particles and rows of each."""
        m, K = len(coefficients), self.n_classes
        few = min(m, max(1, _TABLE // (K * _ROWS)))
        step = max(LANES, _TABLE // (K * few) // LANES * LANES)
        for start in range(0, len(batch.y), step):
            rows = slice(start, start + step)
            for first in range(0, m, few):
                some = slice(first, first + few)
                flat = coefficients[some].reshape(-1, coefficients.shape[1] // K)
                table = logits(flat, batch.X[rows], self.fit_intercept)
                yield some, rows, table.reshape(-1, K, table.shape[1])

    def _designs(self, batches):
        """Rows with their column of ones, in float64 and in pieces that fit the cache."""
        K = self.n_classes
        for X, y, weight in designs(batches, self.fit_intercept, _TABLE):
            step = max(1, _TABLE // K**2)  # a table of covariances has K^2 numbers for a row
            for start in range(0, len(y), step):
                part = slice(start, start + step)
                yield X[part], y[part], weight[part]


def _targets(batch, rows):
    return batch.y[rows].astype(np.int64), batch.weight[rows]


def _logit_covariance(X, cov, K):
    """Covariances of the K logits of each row, lower triangles, shape (n, K, K)."""
    spread = np.zeros((len(X), K, K))
    blocks = cov.reshape(K, X.shape[1], K, X.shape[1])
    for k in range(K):
        for other in range(k + 1):
            spread[:, k, other] = np.einsum("ij,ij->i", X @ blocks[k, :, other], X)
    return spread
