"""Sparse Gaussian process regression with Student noise, for outliers.

Student noise is normal noise whose precision has a Gamma distribution of its own in each row,
lambda ~ Gamma(df / 2, df / 2) (Tipping and Lawrence 2005). Given q(u), the best q(lambda) is a
Gamma again; given that, a row adds to the natural parameters of q(u) as with normal noise, with its
expected precision. So no step is exact: q(u) of each iteration weighs the rows of the next.
"""

import numpy as np
from scipy.special import digamma, gammaincinv, gammaln

from skpmd.sparse_gp._blas import dtrsm
from skpmd.sparse_gp._model import SparseGP

_N_NODES, _TAIL = 24, 1e-9  # Number of scales of the mixture, and probability below the first.


class StudentSparseGP(SparseGP):
    """The process with a Student likelihood, scaled by the root of the noise.

    ``df`` is its degrees of freedom. The other arguments are those of `SparseGP`, for one target.
    """

    def __init__(self, *args, df, **options):
        super().__init__(*args, **options)
        self.df = df

    def _weighing(self, theta, block):
        """q(u) of each particle under the block; None where it is the prior's, 0, without data."""
        pairs = zip(block, self.conditionals(theta, block), strict=True)
        return [known if one.any() else None for one, known in pairs]

    def _row_terms(self, conditional, V, left, noise, y):
        """Those of normal noise with the expected lambda; the sum of the logs is an ELBO.

        Without data errors are those of the prior mean, relative to the whole variance.
        """
        if conditional is None:
            total = noise + left + np.einsum("ij,ij->j", V, V)
            error = y[:, 0] ** 2 * noise / total
        else:
            known = dtrsm(1.0, conditional.factor, V)
            error = (y - V.T @ conditional.mean)[:, 0] ** 2
            error += np.einsum("ij,ij->j", known, known) + left
        a, b = 0.5 * (self.df + 1.0), 0.5 * (self.df + error / noise)
        log_lambda = digamma(a) - np.log(b)
        gain = 0.5 * log_lambda - _divergence(a, b, 0.5 * self.df)
        return a / (b * noise), gain - 0.5 * np.log(2.0 * np.pi * noise)


def _divergence(a, b, prior):
    """From Gamma(a, b) to Gamma(prior, prior), rates b and prior."""
    out = (a - prior) * digamma(a) - gammaln(a) + gammaln(prior)
    return out + prior * (np.log(b) - np.log(prior)) + a * (prior - b) / b


def scale_nodes(df):
    """Nodes of 1 / lambda and their weights: Student noise as a mixture of normal ones.

    Without degrees of freedom there is one node, of normal noise.

    This is the trapezoidal rule in log lambda between extreme quantiles. It is right far into the
    tails, where Gauss-Laguerre quadrature is not (with 20 nodes it has half the density at 8
    scales).
    """
    if df is None:
        return np.ones(1), np.ones(1)
    ends = gammaincinv(0.5 * df, [_TAIL, 1.0 - 1e-12]) * 2.0 / df
    log_lambda = np.linspace(*np.log(ends), _N_NODES)
    log_density = 0.5 * df * (log_lambda - np.exp(log_lambda))
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    nodes = np.exp(-log_lambda)
    # With few degrees of freedom the variance, which is the mean of 1 / lambda, comes from the far
    # tail: what is missing is added to the farthest node, whose weight is next to nothing.
    nodes[0] += max(0.0, df / (df - 2.0) - weights @ nodes) / weights[0]
    return nodes, weights
