"""What the binary and the multinomial model share: they see a row through its logits alone."""

from functools import cache, partial

import numpy as np
from scipy.sparse import issparse, vstack
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from skpmd.engine.model import Batch, Model
from skpmd.engine.sums import add_up, are_elsewhere, total
from skpmd.engine.threads import in_order
from skpmd.logistic._column_scale import at_zero
from skpmd.proposals.sinh_arcsinh import most_skewed


class LinearModel(Model):
    """A likelihood of linear predictors under a prior on their coefficients.

    With ``fit_intercept`` rows of a batch have one feature fewer than a row of coefficients: its
    last coefficient is then the intercept, and no column of ones is ever stored. The prior may be a
    `HorseshoePrior`, but ``gaussian_target`` needs a `Prior`.

    Of sparse rows ``shift`` (p,), if there is one, is what has to be subtracted, which is never
    done to all of them: their intercepts are where columns are ``shift``. Dense rows are as they
    are to be.
    """

    def __init__(self, prior, fit_intercept, shift=None):
        self.prior, self.tail_df = prior, prior.tail_df
        self.fit_intercept, self.shift = fit_intercept, shift

    def shift_of(self, X):
        """What has to be subtracted from rows, (p,), or None."""
        return self.shift if issparse(X) else None

    def for_rows(self, coefficients):
        """Rows of coefficients (m, d) as the products with sparse rows want them."""
        if self.shift is None:
            return coefficients
        width = len(self.shift) + 1
        return at_zero(coefficients.reshape(-1, width), self.shift).reshape(coefficients.shape)

    def design(self, piece):
        """Rows of a piece as the moments want them: dense float64 X with ones, y, weight."""
        (X, y, weight), rows = piece
        shift = self.shift_of(X)
        X = X[rows].toarray() if issparse(X) else X[rows]
        X = X.astype(np.float64, copy=False)
        if shift is not None:
            X = X - shift
        if self.fit_intercept:
            X = np.column_stack([X, np.ones(len(X))])
        return X, y[rows], weight[rows]

    @property
    def n_coordinates(self):
        """Length of theta."""
        return self.prior.n_coordinates

    def sample_prior(self, rng, m):
        """Draw from the prior; see `Model`."""
        return self.prior.sample(rng, m)

    def log_prior(self, theta):
        """Log prior density; see `Model`."""
        return self.prior.log_density(theta)

    def skew_axes(self, mean, chol, batches, b=1.0, max_rows=2000, max_iter=30):
        """Orthogonal axes along which the posterior is most skewed, and how much.

        To leading order the third cumulant of u = chol^-1 (theta - mean) is a sum of terms
        c_n x_n x_n x_n of whitened rows x_n; the prior adds a row for each coefficient. The
        rotation maximises the sum of squares of its diagonal by fixed-point iterations with a polar
        projection, as in symmetric tensor decomposition (De Lathauwer, De Moor and Vandewalle
        2000). The rows that contribute most stand for all.

        Returns the rotation (d, d), with the axes in columns, in the coordinates u, and the
        leading-order skewness (d,) along each.
        """
        of_prior = chol, self.prior.expected_third(mean, np.linalg.norm(chol, axis=1))
        largest = partial(_largest_of, max_rows=max_rows)
        if are_elsewhere(batches):
            nothing = np.empty((0, len(mean))), np.empty(0)
            more = total(partial(self._skewest, mean, chol, b, largest, nothing), batches, largest)
            rows, third = largest(of_prior, more)
        else:
            rows, third = self._skewest(mean, chol, b, largest, of_prior, batches)
        third = third[:, None]
        rotation = most_skewed(rows, third, max_iter)
        return rotation, (third * (rows @ rotation) ** 3).sum(axis=0)

    def _skewest(self, mean, chol, b, largest, known, batches):
        """Whitened rows of the largest third derivatives, and these; ``known`` are some already."""
        for white, factor in self._third_derivatives(mean, chol, batches):
            known = largest(known, (white, b * factor))
        return known

    def skewness_of_rows(self, mean, chol, batch):
        """How much each row adds to the third cumulant at most, (n,); see `skew_axes`."""
        K = len(mean) // (batch.X.shape[1] + self.fit_intercept)
        sizes = [
            (np.abs(factor) * np.linalg.norm(white, axis=1) ** 3).reshape(K, -1).sum(axis=0)
            for white, factor in self._third_derivatives(mean, chol, [batch])
        ]
        return np.concatenate(sizes)

    def log_joint_gradient(self, theta, batches, b=1.0):
        """Log joint density and its gradient at each particle; see `Model`.

        Derivatives by logits are written over the logits, and a second matrix product takes them to
        the coefficients. Tables are in the dtype of X, sums over them in float64.
        """
        total, gradient = self._gradient(theta, batches, b, self.differentiate)
        return self.prior.log_density(theta) + b * total, gradient

    def single_gradient(self, theta, batches, b=1.0):
        """Gradient of the log joint density, from features in float32 in that precision."""
        return self._gradient(theta, batches, b, self.differentiate_single)[1]

    def _gradient(self, theta, batches, b, differentiate):
        """Log-likelihood and gradient of the log joint density.

        ``differentiate`` turns logits into derivatives in place, and may add log-likelihoods to its
        last argument.
        """
        coefficients = self.prior.coefficients(theta)
        total, gradient = add_up(
            partial(self._add_gradient, coefficients, differentiate),
            batches, np.zeros(len(theta)), np.zeros(coefficients.shape),
        )  # fmt: skip
        return total, self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)

    def _add_gradient(self, coefficients, differentiate, batches, total, gradient):
        """Add log-likelihoods (m,) of the batches, and their gradients by coefficients."""
        m, at_rows = len(coefficients), cache(lambda: self.for_rows(coefficients))

        def of(place):
            some, (X, y, weight), rows = place
            shift = self.shift_of(X)
            table = self._table(coefficients if shift is None else at_rows(), place)
            part = np.zeros(len(table))
            differentiate(table, y[rows], weight[rows], part)
            table = table.reshape(-1, table.shape[2])
            ones = table.sum(axis=1, dtype=np.float64) if self.fit_intercept else None
            by_slopes = slopes_gradient(table, X[rows])
            if shift is not None:
                by_slopes = by_slopes - ones[:, None] * shift
            return some, part, by_slopes, ones

        for some, part, by_slopes, by_intercept in in_order(of, self._places(m, batches)):
            total[some] += part
            rows = gradient[some].reshape(len(by_slopes), -1)
            rows[:, : by_slopes.shape[1]] += by_slopes
            if self.fit_intercept:
                rows[:, -1] += by_intercept

    def differentiate(self, table, y, weight, total):
        """Add log-likelihoods to ``total``, and write derivatives over logits (m, K, n)."""
        raise NotImplementedError

    def differentiate_single(self, table, y, weight, total):
        """Write derivatives over logits in float32, in that precision; ``total`` stays."""
        raise NotImplementedError

    def _places(self, m, batches):
        """Pieces whose tables fit the cache: (slice of m particles, batch, slice of its rows)."""
        raise NotImplementedError

    def _table(self, coefficients, place):
        """Logits of a piece, (particles, K, rows)."""
        raise NotImplementedError

    def _third_derivatives(self, mean, chol, batches):
        """For each piece whitened rows (n, d) and the factors (n,) of their cubes."""
        raise NotImplementedError


def _largest_of(one, other, max_rows):
    """Those of two sets of rows (n, d) with factors (n,) whose cubes are largest."""
    rows, third = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    size = np.abs(third) * np.linalg.norm(rows, axis=1) ** 3
    largest = np.argsort(-size, kind="stable")[:max_rows]
    return rows[largest], third[largest]


def pieces(batches, n_numbers, width=None):
    """Batches in pieces of about so many numbers: (batch, slice of its rows).

    A row has ``width`` numbers, by default those of a row of the design.
    """
    for batch in batches:
        n_rows = max(1, n_numbers // (batch.X.shape[1] + 1 if width is None else width))
        for start in range(0, len(batch.weight), n_rows):
            yield batch, slice(start, start + n_rows)


def stacked(first, second, shift=None):
    """The rows of two batches as one; dense where one is, less the ``shift`` of sparse rows."""
    X = first.X, second.X
    if all(map(issparse, X)):
        both = vstack(X, format="csr")
    else:
        shift = 0.0 if shift is None else shift
        both = np.concatenate([one.toarray() - shift if issparse(one) else one for one in X])
    y, weight = (np.concatenate(pair) for pair in zip(first[1:], second[1:], strict=True))
    return Batch(both, y, weight)


def logits(theta, X, fit_intercept):
    """Each row times each particle, shape (m, n), in the dtype of X; an intercept comes last."""
    theta = theta.astype(X.dtype, copy=False)
    slopes = theta[:, :-1] if fit_intercept else theta
    table = np.ascontiguousarray((X @ slopes.T).T) if issparse(X) else slopes @ X.T
    if fit_intercept:
        table += theta[:, -1:]
    return table


def slopes_gradient(table, X):
    """Sum over rows of table[:, n] x_n, shape (m, p)."""
    return (X.T @ table.T).T if issparse(X) else table @ X


@cache
def normal_nodes(d, n_min=128, shifted=False):
    """Points in columns whose mean over a function stands for that under N(0, I_d).

    There are ``n_min`` points, or more where d > n_min / 4, rounded up to a power of two. The first
    half is Sobol's sequence mapped to the normal distribution, the second half its mirror image,
    and a linear map makes their covariance the identity: polynomials up to degree three are exact.
    The sequence begins in the corner of all coordinates, far from all other points; with
    ``shifted`` its digits are exchanged so that no point is.
    """
    power = (max(n_min // 2, 2 * d) - 1).bit_length()
    unit = Sobol(d, scramble=False).random_base2(power)
    if shifted:
        # Multiples of the golden ratio, in binary digits, are spread evenly.
        digits = np.arange(1, d + 1) * 2654435769 % 2**32
        unit = ((unit * 2**32).astype(np.int64) ^ digits) / 2**32 + 0.5**33
    else:
        unit += 0.5**power / 2
    half = ndtri(unit).T
    half = np.linalg.solve(np.linalg.cholesky(half @ half.T / half.shape[1]), half)
    return np.concatenate([half, -half], axis=1)
