"""Priors of the components of a normal mixture, in coordinates that know no bounds.

A component has the mean mu and the precision Lambda = C C', C lower triangular. Its coordinates are
mu, log C_ii and C_ij, i > j (one factor for all components where it is tied, a diagonal one, or one
multiple of the identity); densities are with respect to these. Gradients come as arrays of the
shape of mu and of C, the latter by log C_ii on the diagonal.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln, multigammaln

from skpmd.mixture._likelihood import Sums
from skpmd.mixture._smc_kernels import (
    forms,
    parameter_gradients,
    scatter_about,
    squares,
    traces,
)
from skpmd.mixture._weights import Sticks

_LOG_2PI = np.log(2.0 * np.pi)


class ComponentConditional(NamedTuple):
    """Curvatures of a component's coordinates given which rows are its own."""

    of_means: np.ndarray  # (m, K, p, p): Precision of the mean.
    # (m, K, p, p): V about the mean, the prior's included: each column c of C has the density
    # exp(-c' V c / 2), but for the power of its diagonal entry.
    scatter: np.ndarray
    # (m, K): Half the second derivative in log C_ii at its maximum, the prior's rows included.
    count: np.ndarray


class NormalWishart(NamedTuple):
    """The conjugate prior: mu | Lambda ~ N(mean, (kappa Lambda)^-1) for each component.

    ``"full"``: Lambda ~ Wishart(nu, S^-1), so that E[Lambda] = nu S^-1. ``"tied"``: one such Lambda
    for all. ``"diag"``: Lambda_j ~ Gamma(nu / 2, rate S_j / 2). ``"spherical"``: one
    lambda ~ Gamma(nu p / 2, rate p S / 2).
    """

    covariance_type: str  # {"full", "tied", "diag", "spherical"}: Form of the precisions.
    mean: np.ndarray  # (p,): Prior mean.
    mean_precision: float  # kappa.
    df: float  # nu, above p - 1.
    covariance: np.ndarray  # (p, p), (p,) or (): S, of the covariance type.

    def sample(self, rng, m, n_components):
        """Means (m, K, p) and factors (m, K, p, p) drawn from the prior."""
        p = len(self.mean)
        factor = self._sample_factors(rng, m, 1 if self.covariance_type == "tied" else n_components)
        factor = np.broadcast_to(factor, (m, n_components, p, p))
        noise = rng.standard_normal((m, n_components, p, 1))
        spread = np.linalg.solve(factor.swapaxes(-1, -2), noise)[..., 0]
        return self.mean + spread / np.sqrt(self.mean_precision), factor

    def _sample_factors(self, rng, m, n_factors):
        p, shape = len(self.mean), (m, n_factors)
        if self.covariance_type == "spherical":
            precision = rng.gamma(0.5 * self.df * p, 2.0 / (p * float(self.covariance)), shape)
            return np.sqrt(precision)[..., None, None] * np.eye(p)
        if self.covariance_type == "diag":
            precision = rng.gamma(0.5 * self.df, 1.0, (*shape, p)) * 2.0 / self.covariance
            return np.sqrt(precision)[..., None] * np.eye(p)
        # Bartlett: S^-1 = A A', A lower; A T with T lower, T_ii^2 ~ chi2(nu - i), T_ij ~ N(0, 1).
        lower = np.tril(rng.standard_normal((*shape, p, p)), -1)
        lower[..., np.arange(p), np.arange(p)] = np.sqrt(
            rng.chisquare(self.df - np.arange(p), (*shape, p))
        )
        return np.linalg.cholesky(np.linalg.inv(self.covariance)) @ lower

    def log_density(self, means, factor):
        """Log density of each particle's components; shape (m,)."""
        log_diagonal = np.log(np.diagonal(factor, axis1=-2, axis2=-1))
        p, away = len(self.mean), means - self.mean
        square = forms(np.ascontiguousarray(factor), away)
        of_means = 0.5 * p * (np.log(self.mean_precision) - _LOG_2PI) + log_diagonal.sum(axis=-1)
        of_means = of_means - 0.5 * self.mean_precision * square
        if self.covariance_type == "tied":
            factor, log_diagonal = factor[:, :1], log_diagonal[:, :1]
        return of_means.sum(axis=1) + self._log_factors(factor, log_diagonal).sum(axis=1)

    def _log_factors(self, factor, log_diagonal):
        p, nu, scale = len(self.mean), self.df, self.covariance
        if self.covariance_type == "spherical":
            shape, rate, log_root = 0.5 * nu * p, 0.5 * p * float(scale), log_diagonal[..., 0]
            return _log_gamma(shape, rate, log_root)
        if self.covariance_type == "diag":
            return _log_gamma(0.5 * nu, 0.5 * scale, log_diagonal).sum(axis=-1)
        trace = traces(np.linalg.cholesky(scale), np.ascontiguousarray(factor))
        constant = 0.5 * nu * np.linalg.slogdet(scale)[1] - multigammaln(0.5 * nu, p)
        constant += p * np.log(2.0) * (1.0 - 0.5 * nu)
        # Of Lambda: |Lambda|^((nu - p - 1) / 2); of the Jacobian: C_ii^(p - i + 2), i from 1.
        power = nu - np.arange(p)
        return constant + log_diagonal @ power - 0.5 * trace

    def gradient(self, means, factor):
        """Gradients of `log_density`, of the shapes of the arguments."""
        p, n_components = means.shape[2], means.shape[1]
        kappa, nu = self.mean_precision, self.df
        # As a likelihood of kappa rows at the mean with scatter S, but for the powers of C_ii.
        shape, shared = means.shape[:2], n_components if self.covariance_type == "tied" else 1
        second = kappa * np.outer(self.mean, self.mean)
        if self.covariance_type == "spherical":
            second, power = second + float(self.covariance) * np.eye(p), np.full(p, nu)
        elif self.covariance_type == "diag":
            second, power = second + np.diag(self.covariance), np.full(p, nu)
        else:
            second, power = second + self.covariance / shared, (nu - np.arange(p)) / shared
        pseudo = Sums(
            np.zeros(len(means)),
            np.full(shape, kappa),
            np.broadcast_to(kappa * self.mean, means.shape),
            np.broadcast_to(second, factor.shape),
        )
        by_means, by_factor = by_parameters(pseudo, means, factor)
        by_factor[..., np.arange(p), np.arange(p)] += 1.0 - kappa + power
        return by_means, by_factor

    def conditional(self, means, factor, sums):
        """`ComponentConditional` given which rows belong to which component."""
        shared = means.shape[1] if self.covariance_type == "tied" else 1
        covariance = self.covariance
        covariance = covariance if covariance.ndim == 2 else covariance * np.eye(len(self.mean))
        away = means - self.mean
        scatter = scatter_about(*sums[1:], means) + covariance / shared
        scatter += self.mean_precision * away[..., :, None] * away[..., None, :]
        count = (sums.count + self.mean_precision)[..., None, None]
        of_means = count * squares(np.ascontiguousarray(factor))
        return ComponentConditional(of_means, scatter, sums.count + self.df / shared)


class Independent(NamedTuple):
    """Means and standard deviations of each column that are independent a priori.

    mu_j ~ N(mean_j, mean_scale_j^2), sigma_j ~ half-N(0, scale_j^2) for each component, and
    correlations uniform over all correlation matrices (Lewandowski, Kurowicka and Joe 2009, eta =
    1) where the type has any. A spherical component has one sigma.
    """

    covariance_type: str  # {"full", "tied", "diag", "spherical"}: Form of the covariances.
    mean: np.ndarray  # (p,): Expectations of the means.
    mean_scale: np.ndarray  # (p,): Their standard deviations.
    scale: np.ndarray  # (p,), or (1,) if spherical: Scales of the standard deviations.

    def sample(self, rng, m, n_components):
        """Means (m, K, p) and factors (m, K, p, p) drawn from the prior."""
        p = len(self.mean)
        means = self.mean + self.mean_scale * rng.standard_normal((m, n_components, p))
        n_factors = 1 if self.covariance_type == "tied" else n_components
        sd = np.abs(self.scale * rng.standard_normal((m, n_factors, len(self.scale))))
        factor = np.broadcast_to(1.0 / sd, (m, n_factors, p))[..., None] * np.eye(p)
        if self.covariance_type in ("full", "tied"):
            # Of the correlation matrix R = L L': Sigma^-1 = D^-1 R^-1 D^-1.
            root = factor @ np.linalg.inv(_sample_correlation(rng, (m, n_factors), p)).swapaxes(
                -1, -2
            )
            factor = np.linalg.cholesky(root @ root.swapaxes(-1, -2))
        return means, np.broadcast_to(factor, (m, n_components, p, p))

    def log_density(self, means, factor):
        """Log density of each particle's components; shape (m,)."""
        z = (means - self.mean) / self.mean_scale
        value = (-0.5 * z**2 - 0.5 * _LOG_2PI - np.log(self.mean_scale)).sum(axis=(1, 2))
        if self.covariance_type == "tied":
            factor = factor[:, :1]
        log_diagonal = np.log(np.diagonal(factor, axis1=-2, axis2=-1))
        if self.covariance_type in ("diag", "spherical"):
            log_diagonal = log_diagonal[..., : len(self.scale)]
            sd = np.exp(-log_diagonal)
            return value + (_log_half_normal(sd, self.scale) - log_diagonal).sum(axis=(1, 2))
        p = len(self.mean)
        sd = np.sqrt(np.diagonal(_covariance(factor), axis1=-2, axis2=-1))
        # dSigma = 2^p prod sigma_j^p d(sigma, R), dLambda = |Lambda|^(p + 1) dSigma, and the
        # Jacobian of the factor, 2^p prod C_ii^(p - i + 2), i from 1.
        power = np.arange(p + 1, 1, -1) - 2.0 * (p + 1)
        of_sd = (_log_half_normal(sd, self.scale) - p * np.log(sd)).sum(axis=-1)
        return value + (of_sd + log_diagonal @ power + _log_uniform_correlation(p)).sum(axis=1)

    def gradient(self, means, factor):
        """Gradients of `log_density`, of the shapes of the arguments."""
        by_means = -(means - self.mean) / self.mean_scale**2
        p, n_components = means.shape[2], means.shape[1]
        by_factor, at = np.zeros(factor.shape), np.arange(p)
        diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
        if self.covariance_type in ("diag", "spherical"):
            shared = p // len(self.scale)
            by_factor[..., at, at] = ((diagonal * self.scale) ** -2.0 - 1.0) / shared
            return by_means, by_factor
        covariance = _covariance(factor)
        variance = np.diagonal(covariance, axis1=-2, axis2=-1)
        # d sigma_j^2 = -2 (Sigma e_j)' dC (C' Sigma e_j).
        slope = -0.5 / self.scale**2 - 0.5 * p / variance
        by_factor = -2.0 * (covariance * slope[..., None, :]) @ (covariance @ factor)
        by_factor = np.tril(by_factor)
        by_factor[..., at, at] *= diagonal
        by_factor[..., at, at] += np.arange(p + 1, 1, -1) - 2.0 * (p + 1)
        return by_means, by_factor / (n_components if self.covariance_type == "tied" else 1)

    def conditional(self, means, factor, sums):
        """`ComponentConditional` given which rows belong to which component."""
        shared = means.shape[1] if self.covariance_type == "tied" else 1
        of_means = sums.count[..., None, None] * squares(np.ascontiguousarray(factor))
        of_means += np.diag(self.mean_scale**-2.0)
        # The prior of C has no such form; its scatter is of the size that rows of one would have.
        scatter = scatter_about(*sums[1:], means) + self.scale**2 * np.eye(len(self.mean)) / shared
        return ComponentConditional(of_means, scatter, sums.count + 1.0 / shared)


class Blend(NamedTuple):
    """Components with the density of one prior to the power 1 - power, times another's to power."""

    # Of the same covariance type.
    one: NormalWishart | Independent
    other: NormalWishart | Independent
    power: float  # Of the other.

    @property
    def covariance_type(self):
        """Of both."""
        return self.other.covariance_type

    @property
    def mean(self):
        """Of the other."""
        return self.other.mean

    def log_density(self, means, factor):
        """Up to a constant; shape (m,)."""
        return self._mixed(*(prior.log_density(means, factor) for prior in self[:2]))

    def gradient(self, means, factor):
        """Of `log_density`."""
        both = [prior.gradient(means, factor) for prior in self[:2]]
        return tuple(self._mixed(*parts) for parts in zip(*both, strict=True))

    def conditional(self, means, factor, sums):
        """`ComponentConditional` given which rows belong to which component."""
        both = [prior.conditional(means, factor, sums) for prior in self[:2]]
        return ComponentConditional(*(self._mixed(*parts) for parts in zip(*both, strict=True)))

    def _mixed(self, one, other):
        return (1.0 - self.power) * one + self.power * other


def near_rows(sticks, components, X, weight):
    """Priors of weights and components that spread over the rows.

    Variances are about those of the rows, by K^(-2 / p), the size at which K components fill the
    same space; means are spread as the rows are, the far ones too, or no way leads to these. The
    priors given say what form the new ones have. The rows X (n, p) count ``weight`` (n,) times.

    Under a vague prior a component that lies where the rows are is rare, and on the way from it the
    likelihood at low powers has one component take all rows: that a second one would pay comes out
    too late to be found. From components that are spread over the rows nothing is rare.
    """
    n_components, p = len(sticks.a) + 1, X.shape[1]
    mean = np.average(X, axis=0, weights=weight)
    centred = X - mean
    covariance = (centred.T * (weight / weight.sum())) @ centred
    k = np.arange(1.0, n_components)
    even = Sticks(np.ones(n_components - 1), n_components - k, sticks.exchangeable)
    kind, size = components.covariance_type, n_components ** (-2.0 / p)
    if isinstance(components, Independent):
        # Never narrower than a share of the prior: a column may be constant.
        sd = np.sqrt(np.diag(covariance))
        scale = np.sqrt(np.mean(sd**2, keepdims=True)) if kind == "spherical" else sd
        scale = np.sqrt(size) * scale + 0.01 * components.scale
        return even, Independent(kind, mean, sd + 0.01 * components.mean_scale, scale)
    if kind == "diag":
        covariance = np.diag(covariance)
    elif kind == "spherical":
        covariance = np.trace(covariance) / p**2
    df = {"diag": 4.0, "spherical": 4.0 / p}.get(kind, p + 3.0)
    scatter = 2.0 * size * covariance + components.covariance
    return even, NormalWishart(kind, mean, size, df, scatter)


def by_parameters(sums, means, factor):
    """Gradients in the means and in the factor C of the terms that `Sums` stand for.

    With V the scatter about mu: Lambda (first - count mu), and count / C_ii - (V C)_ij.
    """
    arrays = (*sums[1:], means, factor)
    return parameter_gradients(*(np.ascontiguousarray(values) for values in arrays))


def _log_gamma(shape, rate, log_root):
    """Log density of log sqrt(lambda) for lambda ~ Gamma(shape, rate)."""
    constant = shape * np.log(rate) - gammaln(shape) + np.log(2.0)
    return constant + 2.0 * shape * log_root - rate * np.exp(2.0 * log_root)


def _log_half_normal(sd, scale):
    return 0.5 * np.log(2.0 / np.pi) - np.log(scale) - 0.5 * (sd / scale) ** 2


def _covariance(factor):
    inverse = np.linalg.inv(factor)
    return inverse.swapaxes(-1, -2) @ inverse


def _sample_correlation(rng, shape, p):
    """Lower Cholesky factors of uniform correlation matrices; shape (*shape, p, p)."""
    lower = np.zeros((*shape, p, p))
    lower[..., 0, 0] = 1.0
    for i in range(1, p):
        square = rng.beta(0.5 * i, 1.0 + 0.5 * (p - i - 1), shape)
        direction = rng.standard_normal((*shape, i))
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        lower[..., i, :i] = np.sqrt(square)[..., None] * direction
        lower[..., i, i] = np.sqrt(1.0 - square)
    return lower


def _log_uniform_correlation(p):
    """Log density of the uniform distribution over correlation matrices of p columns.

    Partial correlations of a vine are independent Beta(b_k, b_k) on (-1, 1), p - k of them at level
    k, b_k = 1 + (p - 1 - k) / 2 (Joe 2006).
    """
    level = np.arange(1, p)
    b = 1.0 + 0.5 * (p - 1 - level)
    return -((p - level) * ((2.0 * b - 1.0) * np.log(2.0) + betaln(b, b))).sum()
