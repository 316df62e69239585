"""Proposals of coefficients and effects that are nearly normal given few sds and dispersions.

Given these h, coefficients and levels v have a mode and a curvature. The curvature of the
likelihood there, and what is left of the linear term, change slowly with h: both are quadratics in
h, fitted to a small design around the mode of the Laplace approximation of the density of h (Rue,
Martino and Chopin 2009); the prior of the levels, which does not change slowly, is exact. So each
particle of h has a normal approximation of its own.
"""

from functools import partial
from itertools import combinations

import numpy as np

from skpmd.engine.importance import Proposal, along, draw
from skpmd.linear._glm import definite

_STEP = 1e-4  # Of differences of gradients.
_ROUNDS, _NEAR, _LONGEST = 12, 0.3, 1.5  # Of a search for h: steps end that are shorter, in sds.
_WIDTH, _FIRST = 1.4, 0.3  # Of a design, in posterior sds of h; at first in prior sds.
_PASSES, _SMALL = 40, 0.05  # Newton's steps to modes, which end below so many sds.
_FURTHEST = 4.0  # Quadratics are those of no further h, in sds.
_NUMBERS = 1 << 22  # Of matrices that are in memory together.
# Shares of proposals; the second is so many times as wide, for densities of few levels' sds are
# skewed (1.6 times left k-hat at .7 to .8 on a third of small tables, and 2.2 times at .4), and has
# the prior of sds that are wider than .5 there. So many draws give a normal proposal its moments.
_SHARES, _WIDE, _FREE, _MATCHED = (0.65, 0.3, 0.05), 2.2, 0.5, 2000


def fitted_components(model, batches, power):
    """`conditional_components` by a fit to modes and curvatures at a design of h."""
    fit = _Fit(model, batches, power)
    return conditional_components(model, batches, power, (fit.mode, fit.chol), fit.given())


def conditional_components(model, batches, power, of_h, given):
    """Proposals and their shares: of h with its skewness, of wider h, and a normal of all.

    ``of_h`` are the mode of h and the factor of its covariance; for ``given`` see `Conditional`.
    """
    rng, (mode, chol) = np.random.default_rng(0), of_h
    hierarchy, d, k = Conditional(model, len(mode), given), model.n_coordinates, len(mode)
    mean, factor = np.zeros(d), np.eye(d)
    mean[:k], factor[:k, :k] = mode, chol

    def log_joint(u):
        theta, log_jacobian = hierarchy.with_jacobian(u)
        value = model.log_prior(theta) + log_jacobian
        return value + power * sum(model.log_likelihood(theta, batch) for batch in batches)

    skew = along(mean, factor, np.arange(k), log_joint)._replace(hierarchy=hierarchy)
    mean, factor = mean.copy(), factor.copy()
    cov = (_WIDE * chol) @ (_WIDE * chol).T
    # Towards no effects rows tell nothing, and sds have the tail of their prior.
    is_free = np.sqrt(np.diag(cov)) > _FREE
    mean[:k][is_free], cov[is_free], cov[:, is_free] = 0.0, 0.0, 0.0
    cov[is_free, is_free] = 1.0
    factor[:k, :k] = np.linalg.cholesky(cov)
    # What chains begin with is in the model's coordinates.
    theta = draw(skew, _MATCHED, rng)
    matched = Proposal(theta.mean(axis=0), np.linalg.cholesky(definite(np.cov(theta.T))))
    return [skew, Proposal(mean, factor, hierarchy=hierarchy), matched], np.array(_SHARES)


class _Fit:
    """The mode of h, the factor of its covariance, and fits of what v have given h."""

    def __init__(self, model, batches, power):
        self._model, self._batches, self._power, self._law = model, batches, power, model.law
        start = model.starts(batches)[0]
        w = model.n_coordinates - len(model.family.dispersions.names)
        self._w, self._k = w, len(model.family.dispersions.names) - model.n_levels
        mode, chol = start[w : w + self._k].copy(), _FIRST * np.eye(self._k)
        v, precision = np.append(start[:w], np.zeros(model.n_levels)), None
        for _ in range(_ROUNDS):
            points = mode + _design(self._k) @ chol.T
            modes, slopes, precisions, values = self._at(points, v, precision)
            fit = np.linalg.lstsq(_quadratic(_design(self._k)), values)[0]
            gradient, hessian = _derivatives(fit, self._k)
            chol_of_step = np.linalg.cholesky(np.linalg.inv(definite(-hessian)))
            step = chol_of_step @ (chol_of_step.T @ gradient)
            length = np.linalg.norm(np.linalg.solve(chol_of_step, step))
            reach = np.linalg.norm(step) / _LONGEST  # The design says little further out.
            mode = mode + chol @ (step / max(1.0, reach))
            chol = np.linalg.cholesky(chol @ chol_of_step @ (chol @ chol_of_step).T)
            chol *= min(1.0, 1.0 / np.abs(chol).max())  # No wider than the prior.
            v, precision = modes[0], precisions[0]
            if length < _NEAR and reach < 1.0:
                break
        self.mode, self.chol = mode, chol
        points = mode + _WIDTH * _design(self._k) @ chol.T
        self._fitted = self._at(points, v, precision)

    def given(self):
        """Quadratics in h; see `Conditional`."""
        _, slopes, precisions, _ = self._fitted
        d = slopes.shape[1]
        lower = np.tril_indices(d)
        values = np.hstack([slopes, precisions[:, lower[0], lower[1]]])
        fit = np.linalg.lstsq(_quadratic(_WIDTH * _design(self._k)), values)[0]
        return _Quadratics(self._model, self._w, self.mode, self.chol, fit)

    def _at(self, points, v, precision):
        """Modes of v (J, d), linear terms, precisions of the likelihood, and values, at all h."""
        J, modes = len(points), np.tile(v, (len(points), 1))
        prior = _of_levels(self._model, self._w, points, len(v))
        pull = partial(np.einsum, "jab,jb->ja", prior)
        if precision is None:
            gradient = self._gradient(modes[:1], points[:1])
            precision = self._precision(modes[:1], points[:1], gradient)[0]
        inverse = np.linalg.inv(definite(precision)[None] + prior)
        best = np.full(J, np.inf)
        step, ahead = np.zeros(modes.shape), modes
        for _ in range(_PASSES):
            gradient = self._gradient(ahead, points)
            full = np.einsum("jab,jb->ja", inverse, gradient - pull(ahead))
            size = np.einsum("ja,ja->j", full, gradient - pull(ahead))
            better = size < best
            best, modes = np.where(better, size, best), np.where(better[:, None], ahead, modes)
            step = np.where(better[:, None], full, 0.5 * step)
            if (best < _SMALL**2).all() or np.abs(step).max() < 1e-8:
                break
            ahead = modes + step
        gradient = self._gradient(modes, points)
        precisions = self._precision(modes, points, gradient)
        slopes = np.einsum("jab,jb->ja", precisions, modes) + gradient
        total = precisions + prior
        total = np.array([definite(one) for one in total])
        # The top of the parabola, which is next to where the search has ended.
        move = np.linalg.solve(total, (gradient - pull(modes))[..., None])[..., 0]
        values = self._value(modes, points)
        values += 0.5 * np.einsum("ja,ja->j", move, gradient - pull(modes))
        return modes + move, slopes, precisions, values - 0.5 * np.linalg.slogdet(total)[1]

    def _theta(self, v, h):
        w, sds = self._w, self._model.sds_of(h)
        return np.hstack([v[:, :w], h, self._law.coordinates(sds, v[:, w:])])

    def _value(self, v, h):
        """Log joint densities of v and h, (J,)."""
        theta = self._theta(v, h)
        value = self._model.log_prior(theta) - self._law.log_volume(self._model.sds_of(h))
        return value + self._power * sum(
            self._model.log_likelihood(theta, batch) for batch in self._batches
        )

    def _gradient(self, v, h):
        """Derivatives by v without those of the levels' prior, (J, d)."""
        theta, w, k = self._theta(v, h), self._w, self._k
        of_rows, total = np.zeros(theta.shape), np.zeros(len(theta))
        self._model._add_sums(theta, 1, self._batches, total, of_rows)
        of_levels = self._law.by_effects(self._model.sds_of(h), of_rows[:, w + k :])
        of_rows = self._power * np.hstack([of_rows[:, :w], of_levels])
        of_rows[:, :w] += self._model.prior.gradient(theta)[:, :w]
        return of_rows

    def _precision(self, v, h, gradient):
        """Negative derivatives of `_gradient`, (J, d, d), by differences."""
        J, d = v.shape
        ahead = (v[:, None] + _STEP * np.eye(d)).reshape(J * d, d)
        there = self._gradient(ahead, np.repeat(h, d, axis=0)).reshape(J, d, d)
        found = (gradient[:, None] - there) / _STEP
        return 0.5 * (found + found.swapaxes(1, 2))


class Conditional:
    """Coordinates (h, x) of those of a model: x are standard normal where v are, given h.

    Of ``given(h)`` each is a slice of particles with linear terms (m, d) and precisions (m, d, d)
    of v; ``k`` is the number of h. Methods are those of `skpmd.proposals.non_centred.Hierarchy`.
    """

    def __init__(self, model, k, given):
        self._model, self._k, self._terms, self._law = model, k, given, model.law
        self._d = model.n_coordinates - k
        self._w = self._d - model.n_levels

    def outward(self, theta):
        """Coordinates (m, d) of those of the model."""
        w, k = self._w, self._k
        h = theta[:, w : w + k]
        effects = self._law.effects(self._model.sds_of(h), theta[:, w + k :])
        v = np.hstack([theta[:, :w], effects])
        x = np.empty(v.shape)
        for some, mean, root in self._given(h):
            x[some] = np.einsum("mba,mb->ma", root, v[some] - mean)
        return np.hstack([h, x])

    def with_jacobian(self, u):
        """Those of the model (m, d), and log determinants of their derivative (m,)."""
        w, k = self._w, self._k
        h, x, v, log_det = u[:, :k], u[:, k:], np.empty((len(u), self._d)), np.empty(len(u))
        for some, mean, root in self._given(h):
            v[some] = mean + np.linalg.solve(root.swapaxes(1, 2), x[some][..., None])[..., 0]
            log_det[some] = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        sds = self._model.sds_of(h)
        theta = np.hstack([v[:, :w], h, self._law.coordinates(sds, v[:, w:])])
        return theta, log_det - self._law.log_volume(sds)

    def _given(self, h):
        """Of some particles at a time: a slice, means (m, d), and roots of precisions (m, d, d)."""
        for some, slopes, precision in self._terms(h):
            try:
                root = np.linalg.cholesky(precision)
            except np.linalg.LinAlgError:
                root = np.array([np.linalg.cholesky(definite(one)) for one in precision])
            half = np.linalg.solve(root, slopes[..., None])
            yield some, np.linalg.solve(root.swapaxes(1, 2), half)[..., 0], root


class _Quadratics:
    """Linear terms and precisions of v, given h, that have been fitted; see `Conditional`."""

    def __init__(self, model, w, mode, chol, fit):
        self._model, self._w, self._mode, self._chol, self._fit = model, w, mode, chol, fit
        self._d = w + model.n_levels

    def __call__(self, h):
        d = self._d
        t = np.linalg.solve(self._chol, (h - self._mode).T).T
        size = np.linalg.norm(t, axis=1, keepdims=True)
        terms = _quadratic(t * np.minimum(1.0, _FURTHEST / np.maximum(size, 1e-9)))
        lower, step = np.tril_indices(d), max(1, _NUMBERS // d**2)
        for first in range(0, len(h), step):
            some = slice(first, first + step)
            values = terms[some] @ self._fit
            precision = np.zeros((len(values), d, d))
            precision[:, lower[0], lower[1]] = values[:, d:]
            precision[:, lower[1], lower[0]] = values[:, d:]
            precision += _of_levels(self._model, self._w, h[some], d)
            yield some, values[:, :d], precision


def _of_levels(model, w, h, d):
    """Precisions (m, d, d) of the prior of effects, zero of coefficients."""
    out = np.zeros((len(h), d, d))
    out[:, w:, w:] = model.law.precision(model.sds_of(h))
    return out


def _design(k):
    """Points (J, k): the centre, both sides of it along each axis, and of the sum of each pair."""
    unit = np.eye(k)
    both = [sign * unit[j] for j in range(k) for sign in (-1.0, 1.0)]
    pairs = [one + other for one, other in combinations(both, 2) if one @ other == 0.0]
    return np.array([np.zeros(k), *unit, *-unit, *(np.sqrt(0.5) * pair for pair in pairs)])


def _quadratic(t):
    """Monomials (m, 1 + k + k (k + 1) / 2) of points (m, k) up to the second degree."""
    i, j = np.triu_indices(t.shape[1])
    return np.hstack([np.ones((len(t), 1)), t, t[:, i] * t[:, j]])


def _derivatives(fit, k):
    """Gradient and second derivatives at zero of a quadratic with such coefficients."""
    hessian, (i, j) = np.zeros((k, k)), np.triu_indices(k)
    hessian[i, j] += fit[1 + k :]
    hessian[j, i] += fit[1 + k :]
    return fit[1 : 1 + k], hessian
