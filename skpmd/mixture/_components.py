"""Conjugate posteriors of normal components: normal-Wishart, and what it is for fewer covariances.

Natural parameters are the prior's plus sufficient statistics, which are linear in features of the
rows: with f(x) = (1, x, x x') the counts of a component are sum of r f(x). All families have

    kappa = kappa0 + N,   mean = (kappa0 m0 + sum r x) / kappa,   nu = nu0 + N,
    Psi = Psi0 + sum r x x' + kappa0 m0 m0' - kappa mean mean'

and a Student distribution for the next row. `skpmd.mixture._prior.MixturePrior` has the priors.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpmd._runtime.threads import each, ranges
from skpmd.mixture._kernels import (
    left_out,
    left_out_product,
    precisions,
    product_log_sum,
    quadratic_features,
)
from skpmd.mixture._particles import log_gamma_rise, root_times

_LOG_PI = np.log(np.pi)
# From so many rows on, 1 + u has lost digits of u that the density needs.
_HUGE = 1e9
TIED_REACH = 1e6  # Scaled rows of tied components count as if they were no further away.
_WORTH = 1 << 20  # Matrices are worth a thread if their inverses take so many multiplications.


class Normals(NamedTuple):
    """Posteriors of the components of m particles."""

    # (m, K): Rows that means and covariances rest on, the prior's included.
    kappa: np.ndarray
    nu: np.ndarray
    mean: np.ndarray  # (m, K, p): Posterior means.
    scatter: np.ndarray | None  # (m, K, p) or (m, K): Psi, where it is no matrix.
    # (m, K, p, p) or (m, 1, p, p): Lower Cholesky factors of Psi, where it is one.
    root: np.ndarray | None
    log_det: np.ndarray  # (m, K) or (m, 1): Log determinant of Psi as a (p, p) matrix.


class Family:
    """Base of the four families.

    ``mean`` (p,), ``kappa``, ``nu`` and ``scatter``, of the covariance type, are m0, kappa0, nu0
    and Psi0. A component counts ``n_features`` features, and a particle counts ``n_shared`` for all
    its components. With ``product`` columns have Student distributions of their own, and with
    ``shares`` components have one scatter. In a Student distribution are ``shared_columns``
    columns; a row adds ``per_row`` to its degrees of freedom, and the determinant of the scatter
    has the power ``det_power``.
    """

    product = shares = False
    per_row, det_power = 1.0, 0.5

    def __init__(self, mean, kappa, nu, scatter):
        self.mean0, self.kappa0, self.nu0, self.scatter0 = mean, kappa, nu, scatter
        self.p, n_second = len(mean), len(self._places(len(mean))[0])
        self.n_features = 1 + len(mean) + (0 if self.shares else n_second)
        self.n_shared = n_second if self.shares else 0
        self.shared_columns = 1.0 if self.product else float(self.p)

    def features(self, X):
        """Features of the rows, shape (n, f): those of a component first."""
        return quadratic_features(X)

    def rescale(self, second, size, sums, scale, shift):
        """Second moments of rows x scale + shift, given number, sum and second moments of x."""
        i, j = self._places(self.p)
        sums = sums * scale
        cross = sums[..., i] * shift[j] + sums[..., j] * shift[i]
        return second * scale[i] * scale[j] + cross + size * shift[i] * shift[j]

    def posterior(self, counts, shared):
        """Posteriors from counts, shape (m, K, n_features), and shared ones, (m, n_shared)."""
        N, sums = counts[..., 0], counts[..., 1 : 1 + self.p]
        kappa = self.kappa0 + N
        mean = (self.kappa0 * self.mean0 + sums) / kappa[..., None]
        nu, scatter = self._scatter(counts, shared, kappa, mean)
        return Normals(kappa, nu, mean, *self._factored(scatter))

    def student_df(self, normals):
        """Degrees of freedom of the next row's distribution, shape (m, K)."""
        return normals.nu - self.p + 1.0

    def log_constant(self, normals):
        """Log density of the next row at the centre, shape (m, K)."""
        df, D = self.student_df(normals), self.shared_columns
        each = log_gamma_rise(0.5 * df, 0.5 * D)
        shrink = np.log(normals.kappa / (normals.kappa + 1.0)) - _LOG_PI
        return self.p / D * each + 0.5 * self.p * shrink - 0.5 * normals.log_det

    def coefficients(self, normals):
        """Linear form of c + u(x) in the features, shape (m, K, f); see `log_ratio`."""
        precision = self._precision(normals)
        ratio = (normals.kappa / (normals.kappa + 1.0))[..., None, None]
        shared = precision.shape != ratio.shape[:2] + precision.shape[2:]
        precision = np.multiply(precision, ratio, out=None if shared else precision)
        linear = np.einsum("mkij,mkj->mki", precision, normals.mean)
        constant = self._min_form(normals) + np.einsum("mki,mki->mk", linear, normals.mean)
        upper = np.triu_indices(self.p)
        quadratic = precision[:, :, upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, 2.0)
        return np.concatenate([constant[..., None], -2.0 * linear, quadratic], axis=-1)

    def log_ratio(self, normals, coefficients, features):
        """log(1 + u) of the rows, shape (n, m K).

        A Student density falls as (1 + u)^-(df + D)/2 with u = d' Psi^-1 d kappa / (kappa + 1).
        The form is of 1 + u, whose log is the cheaper one, or of u where that is tiny. Rounding may
        leave the quadratic form below 0.
        """
        out = features @ coefficients.reshape(-1, coefficients.shape[-1]).T
        lower = self._min_form(normals)
        np.maximum(out, lower, out=out)
        return np.log(out, out=out) if lower else np.log1p(out, out=out)

    def _min_form(self, normals):
        """c: 1 or, for huge counts, 0."""
        return 0.0 if normals.nu.max() > _HUGE else 1.0

    def left_out(self, normals, features, log_ratio, log_density, resp):
        """Change log densities (n, m K) to those without a row's own responsibility, in place."""
        left_out(
            log_ratio,
            log_density,
            resp,
            kappa=normals.kappa.ravel(),
            kappa0=self.kappa0,
            df=self.student_df(normals).ravel(),
            per_row=self.per_row,
            D=self.shared_columns,
            power=self.det_power,
        )

    def location_scale(self, normals):
        """Roots of Psi / nu, which is 1 / E[precision], as `MixtureParticles` has them."""
        root = self._root(normals)
        return root / _like(root, np.sqrt(normals.nu))

    def student_scale(self, normals):
        """Roots of the next row's scale matrix, as `MixtureParticles` has them."""
        df = self.student_df(normals) / self.per_row
        factor = (normals.kappa + 1.0) / (normals.kappa * df)
        root = self._root(normals)
        return root * _like(root, np.sqrt(factor))

    def draw(self, normals, chosen, rng):
        """Parameters drawn from the posteriors of n chosen particles.

        These are means, of shape (n, K, p), and roots of the covariances, as `MixtureParticles` has
        them.
        """
        scale, mean = self._draw_scale(normals, chosen, rng), normals.mean[chosen]
        scale = np.array(np.broadcast_to(scale, mean.shape + scale.shape[3:]))
        noise = rng.standard_normal(mean.shape) / np.sqrt(normals.kappa[chosen])[..., None]
        return mean + root_times(scale, noise), scale

    # ------------------------------------------------------------------ by covariance type
    def _places(self, p):
        """Pairs of columns whose products are counted."""
        return np.triu_indices(p)

    def _factored(self, scatter):
        """What `Normals` have of it: itself, or its root, and its log determinant."""
        root = cholesky(scatter)
        return None, root, 2.0 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)

    def _precision(self, normals):
        roots = np.ascontiguousarray(normals.root).reshape(-1, self.p, self.p)
        out = np.empty_like(roots)
        each(
            lambda ends: precisions(roots[slice(*ends)], out[slice(*ends)]),
            ranges(len(roots), 1 + _WORTH // self.p**3),
        )
        return out.reshape(normals.root.shape)

    def _root(self, normals):
        """Root of Psi of each component: (m, K, p, p), or (m, K, p) where it is diagonal."""
        return np.broadcast_to(normals.root, normals.kappa.shape + normals.root.shape[2:])

    def _draw_scale(self, normals, chosen, rng):
        """Bartlett: with Psi = L L' the precision is L^-T A A' L^-1, so the covariance is B B'."""
        root, p = normals.root[chosen], self.p
        nu = normals.nu[chosen][:, : root.shape[1]]
        A = np.tril(rng.standard_normal(root.shape), -1)
        chi2 = 2.0 * rng.standard_gamma(0.5 * (nu[..., None] - np.arange(p)))
        A[..., np.arange(p), np.arange(p)] = np.sqrt(np.maximum(chi2, np.finfo(float).tiny))
        B = root @ np.swapaxes(np.linalg.inv(A), -1, -2)
        return cholesky(B @ np.swapaxes(B, -1, -2))

    def log_partition(self, normals):
        """Log partition function, summed over components, shape (m,).

        Evidence is its growth over the prior's, less N p log(2 pi) / 2.
        """
        return (self._of_scatter(normals) - 0.5 * self.p * np.log(normals.kappa)).sum(axis=1)

    def _of_scatter(self, normals):
        return _log_wishart(normals.nu, normals.log_det, self.p)


class Full(Family):
    """A covariance matrix for each component."""

    def _scatter(self, counts, shared, kappa, mean):
        scatter = _matrices(counts[..., 1 + self.p :], self.p)
        scatter += self.scatter0
        scatter += self.kappa0 * np.outer(self.mean0, self.mean0)
        scatter -= kappa[..., None, None] * mean[..., :, None] * mean[..., None, :]
        return self.nu0 + counts[..., 0], scatter


class Tied(Family):
    """One covariance matrix, whose scatter all components add to.

    The scatter is a difference of squares: a single row further away than `TIED_REACH` would take
    all digits from it, and counts as if it were there.
    """

    shares = True

    def features(self, X):
        """Features of the rows, shape (n, f): those of a component first."""
        return quadratic_features(np.clip(X, -TIED_REACH, TIED_REACH))

    def _scatter(self, counts, shared, kappa, mean):
        K = counts.shape[1]
        scatter = self.scatter0 + _matrices(shared, self.p)
        scatter += K * self.kappa0 * np.outer(self.mean0, self.mean0)
        scatter -= np.einsum("mk,mki,mkj->mij", kappa, mean, mean)
        nu = self.nu0 + counts[..., 0].sum(axis=1, keepdims=True)
        return np.broadcast_to(nu, kappa.shape), scatter[:, None]

    def log_partition(self, normals):
        """Log partition function, shape (m,): the scatter counts once."""
        of_scatter = _log_wishart(normals.nu[:, 0], normals.log_det[:, 0], self.p)
        return of_scatter - 0.5 * self.p * np.log(normals.kappa).sum(axis=1)


class Diagonal(Family):
    """A variance for each column of each component."""

    product = True

    def features(self, X):
        """(1, x, x^2) of the rows."""
        return np.concatenate([np.ones((len(X), 1)), X, X**2], axis=1)

    def student_df(self, normals):
        """Degrees of freedom, of each column's distribution."""
        return normals.nu

    def coefficients(self, normals):
        """Locations and rates of the columns: their product is not linear in features."""
        ratio = (normals.kappa / (normals.kappa + 1.0))[..., None]
        return np.concatenate([normals.mean, ratio / normals.scatter], axis=-1)

    def log_ratio(self, normals, coefficients, features):
        """Sum over columns of log(1 + u_j)."""
        X = np.ascontiguousarray(features[:, 1 : 1 + self.p])
        both = coefficients.reshape(-1, 2 * self.p)
        location, rate = both[:, : self.p], both[:, self.p :]
        return product_log_sum(X, np.ascontiguousarray(location), np.ascontiguousarray(rate))

    def left_out(self, normals, features, log_ratio, log_density, resp):
        """Change log densities to those without a row's own responsibility, in place."""
        left_out_product(
            np.ascontiguousarray(features[:, 1 : 1 + self.p]),
            log_density,
            resp,
            kappa=normals.kappa.ravel(),
            kappa0=self.kappa0,
            df=normals.nu.ravel(),
            location=normals.mean.reshape(-1, self.p),
            scatter=normals.scatter.reshape(-1, self.p),
        )

    def _places(self, p):
        return np.arange(p), np.arange(p)

    def _scatter(self, counts, shared, kappa, mean):
        scatter = self.scatter0 + counts[..., 1 + self.p :] + self.kappa0 * self.mean0**2
        scatter = np.maximum(scatter - kappa[..., None] * mean**2, _min_scatter(self.scatter0))
        return self.nu0 + counts[..., 0], scatter

    def _factored(self, scatter):
        return scatter, None, np.log(scatter).sum(axis=-1)

    def _root(self, normals):
        return np.sqrt(normals.scatter)

    def _draw_scale(self, normals, chosen, rng):
        nu = np.broadcast_to(normals.nu[chosen][..., None], normals.mean[chosen].shape)
        chi2 = np.maximum(2.0 * rng.standard_gamma(0.5 * nu), np.finfo(float).tiny)
        return np.sqrt(normals.scatter[chosen] / chi2)

    def _of_scatter(self, normals):
        half = 0.5 * normals.nu
        return self.p * (gammaln(half) + half * np.log(2.0)) - half * normals.log_det


class Spherical(Family):
    """One variance for all columns of a component.

    The precision has nu p / 2 as its shape, so a row counts p times.
    """

    def __init__(self, mean, kappa, nu, scatter):
        super().__init__(mean, kappa, nu, scatter)
        self.per_row, self.det_power = float(self.p), 0.5 * self.p

    def features(self, X):
        """(1, x, |x|^2) of the rows."""
        squares = np.einsum("ij,ij->i", X, X)
        return np.concatenate([np.ones((len(X), 1)), X, squares[:, None]], axis=1)

    def _places(self, p):
        return np.arange(1), np.arange(1)  # One sum of squares.

    def rescale(self, second, size, sums, scale, shift):
        """Sums of squares of rows x scale + shift; all columns have one scale."""
        cross = 2.0 * (sums * scale * shift).sum(axis=-1, keepdims=True)
        return second * scale[0] ** 2 + cross + size * (shift**2).sum()

    def student_df(self, normals):
        """Degrees of freedom."""
        return self.p * normals.nu

    def coefficients(self, normals):
        """Linear form of c + u(x) in the features."""
        rate = normals.kappa / ((normals.kappa + 1.0) * self.p * normals.scatter)
        constant = self._min_form(normals) + rate * (normals.mean**2).sum(axis=-1)
        linear = -2.0 * rate[..., None] * normals.mean
        return np.concatenate([constant[..., None], linear, rate[..., None]], axis=-1)

    def _scatter(self, counts, shared, kappa, mean):
        squares = counts[..., -1] + self.kappa0 * (self.mean0**2).sum()
        added = (squares - kappa * (mean**2).sum(axis=-1)) / self.p
        scatter = np.maximum(self.scatter0 + added, _min_scatter(self.scatter0))
        return self.nu0 + counts[..., 0], scatter

    def _factored(self, scatter):
        return scatter, None, self.p * np.log(self.p * scatter)

    def _root(self, normals):
        return np.sqrt(normals.scatter)[..., None] * np.ones(self.p)

    def _draw_scale(self, normals, chosen, rng):
        chi2 = 2.0 * rng.standard_gamma(0.5 * self.p * normals.nu[chosen])
        variance = self.p * normals.scatter[chosen] / np.maximum(chi2, np.finfo(float).tiny)
        return np.sqrt(variance)[..., None] * np.ones(self.p)

    def _of_scatter(self, normals):
        half = 0.5 * self.p * normals.nu
        return gammaln(half) + half * np.log(2.0) - 0.5 * normals.nu * normals.log_det


FAMILIES = {"full": Full, "tied": Tied, "diag": Diagonal, "spherical": Spherical}


def cholesky(matrices):
    """Lower Cholesky factors of matrices that rounding may have left singular."""
    p = matrices.shape[-1]
    size = np.einsum("...ii->...", matrices) / p
    known = size.min() >= np.finfo(float).tiny  # Rounding may have left nothing of one at all.
    size = size[..., None, None] * np.eye(p)
    for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6) if known else ():
        try:
            return np.linalg.cholesky(matrices + jitter * size if jitter else matrices)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError(
        "A component's scatter is not positive definite: raise reg_covar or covariance_prior, or "
        "leave rows out that lie more than 1e7 times a column's scale from the others."
    )


def _like(root, factor):
    """Factors (m, K) that multiply all entries of roots."""
    return factor.reshape(factor.shape + (1,) * (root.ndim - 2))


def _matrices(upper, p):
    """Symmetric matrices from their upper triangles, row by row."""
    out = np.empty(upper.shape[:-1] + (p, p))
    i, j = np.triu_indices(p)
    out[..., i, j] = upper
    out[..., j, i] = upper
    return out


def _min_scatter(scatter0):
    """Rounding may leave less than the prior's scatter, or nothing where that is nothing."""
    return np.maximum(scatter0, np.finfo(float).tiny ** 0.5)


def _log_wishart(nu, log_det, p):
    each = gammaln(0.5 * (nu[..., None] - np.arange(p))).sum(axis=-1)
    return each + 0.5 * nu * (p * np.log(2.0) - log_det)
