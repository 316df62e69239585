"""Normal mixtures with all parameters as coordinates of the particles."""

import numpy as np
from scipy.special import gammaln

from skpmd._runtime.threads import by_rows
from skpmd.engine.model import Model
from skpmd.engine.triangular import ends_of
from skpmd.mixture._component_priors import (
    Blend,
    Independent,
    NormalWishart,
    by_parameters,
    near_rows,
)
from skpmd.mixture._likelihood import Mixtures, Sums, log_likelihood, no_sums, sums
from skpmd.mixture._scaler import drawn_in
from skpmd.mixture._smc_kernels import curvature_roots
from skpmd.mixture._weights import Sticks, blended, by_sticks, log_mixing, sticks_of

# A trajectory whose log scale got so far has left for good.
_FAR = 100.0
_PART = 256  # A thread takes so many particles at least.


class ParameterModel(Model):
    """Mixture of K normal components, theta = (sticks, means, log-Cholesky of the precisions).

    Where the prior does not change when components are permuted, the posterior has K! copies of
    everything. Particles then keep to the one of K! equal regions in which the means come in
    ascending order, and the prior is K! times as dense there: the evidence is that of the prior
    over all of the space, and labels do not switch.

    The order is that of the means' projections on ``direction`` (p,), by default the first column.
    The prior of the components is a `NormalWishart`, an `Independent`, or a `Blend` of two such.
    """

    def __init__(self, sticks, components, direction=None):
        self.sticks, self.components = sticks, components
        self.n_components, self.n_features = len(sticks.a) + 1, len(components.mean)
        p = self.n_features
        self.direction = np.eye(p)[0] if direction is None else direction
        self.ordered = sticks.exchangeable and self.n_components > 1
        self.type = components.covariance_type
        self._per_factor = {"diag": p, "spherical": 1}.get(self.type, p * (p + 1) // 2)
        self._n_factors = 1 if self.type == "tied" else self.n_components
        n_means = self.n_components * p
        self._ends = np.cumsum([self.n_components - 1, n_means, self._n_factors * self._per_factor])
        self.n_coordinates = int(self._ends[-1])
        diagonal = np.arange(p), np.arange(p)
        # Entries of a factor that are coordinates; a spherical one has one for all of them.
        self._entries = diagonal if self.type in ("diag", "spherical") else np.tril_indices(p)
        at = np.arange(self._ends[1], self.n_coordinates).reshape(self._n_factors, -1)
        self._logs = at[:, np.equal(*self._entries)[: self._per_factor]].ravel()
        self.first_columns = self._first_columns()
        self._row_ends = ends_of(self.first_columns)
        self._log_copies = gammaln(self.n_components + 1.0) if self.ordered else 0.0

    def _first_columns(self):
        """The first coordinate that goes together with each in a curvature."""
        first, p, (one, two, _) = np.arange(self.n_coordinates), self.n_features, self._ends
        if p > 1 and self.type in ("full", "tied"):
            for k in range(self.n_components):
                first[one + k * p : one + (k + 1) * p] = one + k * p
            i, j = np.tril_indices(p)  # A column of C begins with its diagonal entry (j, j).
            for k in range(self._n_factors):
                start = two + k * self._per_factor
                first[start : start + self._per_factor] = start + j * (j + 1) // 2 + j
        return first

    # ------------------------------------------------------------------ coordinates
    def mixtures(self, theta):
        """`Mixtures` of particles of shape (m, d)."""
        sticks, means, scales = self._parts(theta)
        return Mixtures(log_mixing(sticks), means, self._factors(scales))

    def theta(self, mixtures):
        """Particles of mixtures; the inverse of `mixtures`."""
        log_weights, means, factor = mixtures
        m, at = len(log_weights), np.arange(self.n_features)
        logs = factor[:, : self._n_factors].copy()
        logs[..., at, at] = np.log(logs[..., at, at])
        scales = logs[..., *self._entries][..., : self._per_factor]
        parts = [sticks_of(log_weights), means.reshape(m, -1), scales.reshape(m, -1)]
        return np.concatenate(parts, axis=1)

    def _parts(self, theta):
        m, (one, two, _) = len(theta), self._ends
        means = theta[:, one:two].reshape(m, self.n_components, self.n_features)
        return theta[:, :one], means, theta[:, two:].reshape(m, self._n_factors, -1)

    def _factors(self, scales):
        m, p, at = len(scales), self.n_features, np.arange(self.n_features)
        factor = np.zeros((m, self._n_factors, p, p))
        factor[..., *self._entries] = scales
        factor[..., at, at] = np.exp(factor[..., at, at])
        return np.broadcast_to(factor, (m, self.n_components, p, p))

    # ------------------------------------------------------------------ the order of components
    def permute_labels(self, theta, rng):
        """Particles under labels drawn anew, outside the region in general: the same mixtures."""
        if not self.ordered:
            return theta
        order = rng.permuted(np.tile(np.arange(self.n_components), (len(theta), 1)), axis=1)
        return self._relabelled(theta, order)

    def to_ordered(self, theta):
        """Particles with their components in order: the same mixtures."""
        if not self.ordered:
            return theta
        keys = self._keys(theta)
        return self._relabelled(theta, np.argsort(keys, axis=1, kind="stable"))

    def _relabelled(self, theta, order):
        away = (order != np.arange(self.n_components)).any(axis=1)
        if not away.any():
            return theta
        moved, order = theta.copy(), order[away]
        mixtures, at = self.mixtures(theta[away]), np.arange(len(order))[:, None]
        moved[away] = self.theta(Mixtures(*(values[at, order] for values in mixtures)))
        return moved

    def _keys(self, theta):
        return self._parts(theta)[1] @ self.direction

    # ------------------------------------------------------------------ where to start from
    def initial(self, X, weight):
        """Model whose prior is spread over the rows, and has the same order of components."""
        near = near_rows(self.sticks, self.components, X, weight)
        return ParameterModel(*near, self.direction)

    def between(self, initial, power):
        """Model with a prior on the way from the initial one's to this one's, not normalised."""
        if power == 1.0:
            return self
        sticks = blended(initial.sticks, self.sticks, power)
        components = Blend(initial.components, self.components, power)
        return ParameterModel(sticks, components, self.direction)

    # ------------------------------------------------------------------ the contract
    def sample_prior(self, rng, m):
        """Draws from the prior, in order."""
        log_weights = self.sticks.sample(rng, m)
        means, factor = self.components.sample(rng, m, self.n_components)
        return self.to_ordered(self.theta(Mixtures(log_weights, means, factor)))

    def log_prior(self, theta):
        """Normalised; -inf where components are not in order."""
        value = self._log_prior(theta, self.mixtures(theta)) + self._log_copies
        if self.ordered:
            value[(np.diff(self._keys(theta), axis=1) < 0.0).any(axis=1)] = -np.inf
        return value

    def _log_prior(self, theta, mixtures):
        """Log prior density without regard to order; its integral is one."""
        value = self.sticks.log_density(theta[:, : self.n_components - 1])
        return value + self.components.log_density(mixtures.means, mixtures.factor)

    def log_likelihood(self, theta, batch):
        """Weighted sum of the log densities of the rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = log_likelihood(self.mixtures(theta), batch.X, batch.weight)
        return np.where(np.isnan(value), -np.inf, value)

    def local(self, theta, batches):
        """Log joint density under any labels, its gradient, and the root of a curvature.

        Where a component has few rows its mean and scale are as wide as the prior, where it has
        many they are narrow: no one width fits all particles. The curvature is that of the
        conditional posterior of weights, of each mean and of each column of C, given which rows
        belong to which component.

        The batches are all data. The density, of shape (m,), is log prior + log-likelihood; its
        gradient has the shape (m, d). The root is F with curvature F F', lower triangular: packed
        rows that begin at ``first_columns``, see `skpmd.engine.triangular`.
        """
        near = (np.abs(theta[:, self._logs]) < _FAR).all(axis=1) & np.isfinite(theta).all(axis=1)
        theta = theta if near.all() else np.where(near[:, None], theta, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            mixtures = self.mixtures(theta)
            total = no_sums(mixtures)
            for batch in batches:
                total = total.plus(sums(mixtures, batch.X, batch.weight))
            value, gradient, root = by_rows(self._local, theta, *mixtures, *total, at_least=_PART)
        return np.where(near & ~np.isnan(value), value, -np.inf), gradient, root

    def _local(self, theta, log_mixing, means, factor, *total):
        mixtures, total = Mixtures(log_mixing, means, factor), Sums(*total)
        value = self._log_prior(theta, mixtures) + total.value
        return value, self._gradient(theta, mixtures, total), self._roots(theta, mixtures, total)

    def _gradient(self, theta, mixtures, total):
        sticks = theta[:, : self.n_components - 1]
        by_stick = self.sticks.gradient(sticks) + by_sticks(total.count, sticks)
        by_means, by_factor = self.components.gradient(mixtures.means, mixtures.factor)
        data_means, data_factor = by_parameters(total, mixtures.means, mixtures.factor)
        by_means += data_means
        by_factor += data_factor
        return np.concatenate(
            [by_stick, by_means.reshape(len(theta), -1), self._by_scales(by_factor)], axis=1
        )

    def _roots(self, theta, mixtures, total):
        """Root of the curvature: of each coordinate, or lower factors where they go together."""
        of_sticks = self.sticks.curvature(theta[:, : self.n_components - 1], total.count)
        given = self.components.conditional(mixtures.means, mixtures.factor, total)
        m, p, at = len(theta), self.n_features, np.arange(self.n_features)
        if p > 1 and self.type in ("full", "tied"):
            return self._dense_roots(of_sticks, given, mixtures.factor)
        of_means = given.of_means[..., at, at].reshape(m, -1)
        by_log = mixtures.factor[..., at, at] ** 2 * given.scatter[..., at, at]
        by_log = self._by_scales((by_log + given.count[..., None])[..., None] * np.eye(p))
        return np.sqrt(np.concatenate([of_sticks, of_means, by_log], axis=1))

    def _dense_roots(self, of_sticks, given, factor):
        scatter, count = given.scatter, given.count
        if self.type == "tied":
            scatter, count = scatter.sum(axis=1, keepdims=True), count.sum(axis=1, keepdims=True)
        arrays = of_sticks, given.of_means, scatter, count, factor, self._row_ends
        return curvature_roots(*(np.ascontiguousarray(values) for values in arrays))

    def _by_scales(self, by_factor):
        """Sums over entries of the factors as sums over the coordinates of the precisions."""
        if self.type == "tied":
            by_factor = by_factor.sum(axis=1, keepdims=True)
        by = by_factor[..., *self._entries]
        by = by.sum(axis=-1) if self.type == "spherical" else by
        return by.reshape(len(by_factor), -1)


def parameter_model(prior, X, weight):
    """Model under a prior; components are ordered along the rows' first principal axis."""
    sticks = Sticks.of(prior.weights_type, prior.n_components, prior.concentration, prior.discount)
    kind, covariance = prior.covariance_type, np.asarray(prior.covariance, dtype=np.float64)
    if prior.component_prior == "normal_wishart":
        components = NormalWishart(kind, prior.mean, prior.mean_precision, prior.df, covariance)
    else:
        variances = np.diag(covariance) if covariance.ndim == 2 else np.atleast_1d(covariance)
        components = Independent(kind, prior.mean, prior.mean_scale, np.sqrt(variances))
    return ParameterModel(sticks, components, _axis(X, weight))


def _axis(X, weight):
    """First principal axis of the rows, its largest entry positive."""
    X = drawn_in(X, weight)
    centred = X - np.average(X, axis=0, weights=weight)
    axis = np.linalg.eigh((centred.T * weight) @ centred)[1][:, -1]
    return axis * np.sign(axis[np.argmax(np.abs(axis))])
