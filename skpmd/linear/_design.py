"""Models of linear predictors: what likelihoods share that see a row through its logits alone.

A likelihood is a subclass of `LinearModel` in a file of its own, with its kernels.
"""

import copy
from functools import cache, partial

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from skpmd._rows.samples import RowTerms
from skpmd._runtime.threads import add_up, are_distributed, in_order, total
from skpmd.engine.importance import most_skewed
from skpmd.engine.model import Model
from skpmd.linear._column_scale import at_zero
from skpmd.linear._kernels import LANES
from skpmd.linear._priors import precision_matrix

_ROWS = 512  # A table of several logits takes this many rows before it takes more particles.


class LinearModel(Model):
    """A likelihood of K linear predictors, the logits, under a prior on their coefficients.

    A subclass says what K is (``n_logits``), how many numbers its tables have (``table_size``), and
    whether few rows may be stiff as `skpmd.linear._hmc` has it. It offers `add_log_likelihoods`,
    and for fitted proposals ``gaussian_target``, ``expected_logits`` and
    `third_derivatives`, which `OneLogit` makes of two functions.

    With ``fit_intercept`` rows of a batch have one feature fewer than a row of coefficients: its
    last coefficient is then the intercept, and no column of ones is ever stored. The prior may be a
    `HorseshoePrior`, but ``gaussian_target`` needs a `Prior`.

    Of sparse rows ``shift`` (p,), if there is one, is what has to be subtracted, which is never
    done to all of them: their intercepts are where columns are ``shift``. Dense rows are as they
    are to be.
    """

    n_logits, table_size = 1, 1 << 18  # A table of so many numbers stays in the second cache.
    has_stiff_rows = False
    is_conjugate = False  # Whether there are exact draws, by ``exact_draws``.
    is_log_concave = True  # Whether a search for the mode may begin anywhere.
    has_third_derivatives = True
    has_poles = False  # Whether a density without spread is infinite at a row of its own mean.

    def __init__(self, prior, fit_intercept, shift=None):
        self.prior, self.tail_df = prior, prior.tail_df
        self.fit_intercept, self.shift = fit_intercept, shift

    def with_prior(self, prior):
        """The same likelihood under another prior."""
        model = copy.copy(self)
        model.prior, model.tail_df = prior, prior.tail_df
        return model

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
        (X, y, weight, *_), rows = piece
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

    def log_likelihood(self, theta, batch):
        """Weighted sum over the rows of log p(y | logits); see `Model`."""
        total = np.zeros(len(theta))
        self._add_gradient(
            self.prior.coefficients(theta), self.add_log_likelihoods, [batch], total, None
        )
        return total

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
        sd = np.linalg.norm(chol, axis=1)
        third = self.prior.expected_third(mean, sd)
        of_prior = chol, third + self.third_of_dispersions(mean, sd, batches, b)
        largest = partial(_largest_of, max_rows=max_rows)
        if are_distributed(batches):
            nothing = np.empty((0, len(mean))), np.empty(0)
            more = total(partial(self._skewest, mean, chol, b, largest, nothing), batches, largest)
            rows, third = largest(of_prior, more)
        else:
            rows, third = self._skewest(mean, chol, b, largest, of_prior, batches)
        third = third[:, None]
        rotation = most_skewed(rows, third, max_iter)
        return rotation, (third * (rows @ rotation) ** 3).sum(axis=0)

    def third_of_dispersions(self, mean, sd, batches, b):
        """Third derivatives in coordinates beyond the coefficients, (d,), where there are any."""
        return 0.0

    def _skewest(self, mean, chol, b, largest, known, batches):
        """Whitened rows of the largest third derivatives, and these; ``known`` are some already."""
        for white, factor in self.third_derivatives(mean, chol, batches):
            known = largest(known, (white, b * factor))
        return known

    def skewness_of_rows(self, mean, chol, batch):
        """How much each row adds to the third cumulant at most, (n,); see `skew_axes`."""
        K = self.n_logits
        sizes = [
            (np.abs(factor) * np.linalg.norm(white, axis=1) ** 3).reshape(K, -1).sum(axis=0)
            for white, factor in self.third_derivatives(mean, chol, [batch])
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
        """Add log-likelihoods (m,) of the batches, and their gradients by coefficients if asked."""
        m, at_rows = len(coefficients), cache(lambda: self.for_rows(coefficients))

        def of(place):
            some, (X, y, weight, *_), rows = place
            table = self._table(coefficients if self.shift_of(X) is None else at_rows(), place)
            part = np.zeros(len(table))
            differentiate(table, y[rows], weight[rows], part)
            return some, part, None if gradient is None else self.by_coefficients(table, X[rows])

        for some, part, by_coefficients in in_order(of, self._places(m, batches)):
            total[some] += part
            if gradient is not None:
                gradient[some] += by_coefficients

    def by_coefficients(self, table, X):
        """Sums over rows of X (n, p) times a table (m, K, n), or (m, n), of what each has: (m, w).

        Rows of coefficients follow each other, each with its intercept last.
        """
        flat, shift = table.reshape(-1, table.shape[-1]), self.shift_of(X)
        by_slopes = (X.T @ flat.T).T if issparse(X) else flat @ X
        if self.fit_intercept or shift is not None:
            ones = flat.sum(axis=1, dtype=np.float64)[:, None]
        if shift is not None:
            by_slopes = by_slopes - ones * shift
        parts = [by_slopes, ones] if self.fit_intercept else [by_slopes]
        return np.hstack(parts).reshape(len(table), -1)

    def add_log_likelihoods(self, table, y, weight, total, differentiate=False):
        """Add weighted sums over rows of log p(y | logits), of logits (m, K, n), to ``total``.

        With ``differentiate`` derivatives of the sums are written over the logits.
        """
        raise NotImplementedError

    def differentiate(self, table, y, weight, total):
        """The same, and write derivatives of the sums over the logits."""
        self.add_log_likelihoods(table, y, weight, total, differentiate=True)

    def differentiate_single(self, table, y, weight, total):
        """Write derivatives over logits in float32; a kernel may do so in that precision alone."""
        self.differentiate(table, y, weight, total)

    def _places(self, m, batches):
        """Pieces whose tables fit the cache: (slice of m particles, batch, slice of its rows).

        Of one logit a table has all particles, of several so many rows before more particles.
        """
        K, size = self.n_logits, self.table_size
        few = m if K == 1 else min(m, max(1, size // (K * _ROWS)))
        n_rows = max(LANES, size // (K * few) // LANES * LANES)
        for batch, rows in pieces(map(self.known_part, batches), n_rows, 1):
            for first in range(0, m, few):
                yield slice(first, first + few), batch, rows

    def _table(self, coefficients, place):
        """Logits of a piece, (particles, K, rows)."""
        some, batch, rows = place
        flat = coefficients[some].reshape(-1, coefficients.shape[1] // self.n_logits)
        table = logits(flat, batch.X[rows], self.fit_intercept)
        return table.reshape(-1, self.n_logits, table.shape[1])

    def _designs(self, batches):
        """Pieces whose rows, in float64 and with a column of ones, fit the cache."""
        # A table of covariances of logits has K^2 numbers for each row.
        for batch in map(self.known_part, batches):
            width = max(batch.X.shape[1] + 1, self.n_logits**2)
            yield from pieces([batch], self.table_size, width)

    def starts(self, batches):
        """Points (d,) where searches for modes begin: one where there is one mode."""
        return [np.zeros(self.n_coordinates)]

    def known_part(self, batch):
        """A batch whose columns this likelihood reads: by default none of offset and exposure."""
        if batch.offset is not None or batch.exposure is not None:
            raise NotImplementedError("Models of classes do not read offset and exposure.")
        return batch

    def terms(self, rows):
        """What samples of `Rows` are of; see `skpmd.proposals.control_variates`."""
        return RowTerms(rows)

    def derivatives(self, mean, batches):
        """Gradient and negative Hessian of the log joint density at a point (d,)."""
        return self.gaussian_target(mean, None, batches)

    def third_derivatives(self, mean, chol, batches):
        """For each piece whitened rows (n, d) and the factors (n,) of their cubes."""
        raise NotImplementedError


class OneLogit(LinearModel):
    """A likelihood of one linear predictor.

    A subclass offers two kernels, `expected` and `expected_third`, for all that fitted proposals
    ask for.
    """

    def expected(self, centre, spread, y, weight):
        """Weighted E[d log p(y | z) / dz] and E[-d2 log p / dz2] of each row, both (n,).

        ``centre`` and ``spread`` (n,) are means and standard deviations of normal z; y and
        ``weight`` are those of the rows.
        """
        raise NotImplementedError

    def expected_third(self, centre, spread, y, weight):
        """Weighted E[d3 log p(y | z) / dz3] of each row, (n,); see `expected`."""
        raise NotImplementedError

    def gaussian_target(self, mean, cov, batches, b=1.0):
        """Expected gradient and negative Hessian of the log joint density under a Gaussian.

        Returns E[grad log p(theta, data)], of shape (d,), and E[-Hessian log p(theta, data)],
        (d, d), with the prior's positive stand-in where it has one. b is the power of the
        likelihood. At ``cov=None`` the values at the mean itself are returned.
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
            slope, curvature = self.expected(X @ mean, spread, y, weight)
            return b * (X.T @ slope), b * ((X.T * curvature) @ X)

        for slope, curvature in in_order(of, self._designs(batches)):
            gradient += slope
            hessian += curvature

    def expected_logits(self, centre, spread, y):
        """Derivatives of log-likelihoods, averaged over independent normal logits.

        ``centre`` and ``spread``, of shape (n, 1), are means and variances of the logits; at
        ``spread=None`` the values are those at the means. y has the shape (n,).

        Returns E[d log p / dz] and E[-d2 log p / dz2], of shape (n, 1), and a callable that maps
        changes of the logits, (n, 1), to the curvature times them.
        """
        sd = np.zeros(len(y)) if spread is None else np.sqrt(spread[:, 0])
        slope, curvature = self.expected(centre[:, 0], sd, y, np.ones(len(y)))
        curvature = curvature[:, None]
        return slope[:, None], curvature, lambda change: curvature * change

    def remainders(self, mean, chol, batch):
        """Sizes (n,) of what a quadratic at the mean lacks of each row, under the posterior."""

        def of(piece):
            X, y, weight = self.design(piece)
            curvature = self.expected(X @ mean, np.zeros(len(X)), y, weight)[1]
            return curvature * cubed(X @ chol)

        return np.concatenate(list(in_order(of, self._designs([batch]))))

    def third_derivatives(self, mean, chol, batches):
        """For each piece whitened rows and the expected third derivatives by their logits."""

        def of(piece):
            X, y, weight = self.design(piece)
            white = X @ chol
            spread = np.linalg.norm(white, axis=1)
            return white, self.expected_third(X @ mean, spread, y, weight)

        return in_order(of, self._designs(batches))


def cubed(white):
    """Cubes (n,) of the lengths of rows."""
    squared = np.einsum("ij,ij->i", white, white)
    return squared * np.sqrt(squared)


def _largest_of(one, other, max_rows):
    """Those of two sets of rows (n, d) with factors (n,) whose cubes are largest."""
    rows, third = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    size = np.abs(third) * np.linalg.norm(rows, axis=1) ** 3
    largest = np.argsort(-size, kind="stable")[:max_rows]
    return rows[largest], third[largest]


def n_logits(n_classes):
    """Rows of coefficients: two classes have one, more classes have one each."""
    return 1 if n_classes == 2 else n_classes


def pieces(batches, n_numbers, width=None):
    """Batches in pieces of about so many numbers: (batch, slice of its rows).

    A row has ``width`` numbers, by default those of a row of the design.
    """
    for batch in batches:
        n_rows = max(1, n_numbers // (batch.X.shape[1] + 1 if width is None else width))
        for start in range(0, len(batch.weight), n_rows):
            yield batch, slice(start, start + n_rows)


def logits(theta, X, fit_intercept):
    """Each row times each particle, shape (m, n), in the dtype of X; an intercept comes last."""
    theta = theta.astype(X.dtype, copy=False)
    slopes = theta[:, :-1] if fit_intercept else theta
    table = np.ascontiguousarray((X @ slopes.T).T) if issparse(X) else slopes @ X.T
    if fit_intercept:
        table += theta[:, -1:]
    return table


@cache
def gauss_hermite(n):
    """Gauss's rule of n nodes for N(0, 1): nodes and weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / np.sqrt(2 * np.pi)


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
