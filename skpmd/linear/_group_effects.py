"""Effects of the groups of a fit: moments and draws given the particles, and their mixture."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri

from skpmd._base.utils import check_level
from skpmd._typing import Array
from skpmd.engine.particles import systematic
from skpmd.linear._column_scale import own_particles
from skpmd.linear._family_mixture import FamilyMixture
from skpmd.linear._groups import first_codes, group_pieces

_NUMBERS, _FEWEST, _MAX = 1 << 22, 256, 4000  # Of all draws, and of the particles that have some.
_MOMENTS = 1 << 18  # Groups times particles whose moments are in memory together.


class EffectsOfGroups(NamedTuple):
    """Effects of each group on the linear predictor, less those of the population.

    Attributes
    ----------
    labels : ndarray of shape (n_groups,)
        Labels of the groups.
    names : tuple of str
        Of the effects: ``"intercept"`` and the column of a slope.
    mean, std : ndarray of shape (n_groups, n_effects)
        Posterior means and standard deviations: by quadrature given each particle.
    draws : ndarray of shape (n_groups + 1, n_effects, n_draws), float32
        An effect of each group, and last of one that is not known, given each of some particles of
        equal weight.
    factor : ndarray of shape (n_draws, 3)
        Lower triangle of a factor of the effects' covariance, row by row, of each particle.
    particles : ndarray of shape (n_draws,), int
        Places of these in ``posterior_.particles``.
    """

    labels: Array
    names: tuple[str, ...]
    mean: Array
    std: Array
    draws: Array
    factor: Array
    particles: Array

    def interval(self, level: float = 0.9) -> Array:
        """Central credible intervals, shape (n_groups, n_effects, 2).

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of each interval.

        Returns
        -------
        ndarray of shape (n_groups, n_effects, 2)
            Lower and upper ends, quantiles of the draws.

        Raises
        ------
        ValueError
            If the level does not lie strictly between 0 and 1.
        """
        return np.moveaxis(np.quantile(self.draws[:-1], check_level(level), axis=2), 0, 2)

    def rank_probabilities(self, effect: int = 0, n_ranks: int = 10) -> Array:
        """Probabilities that a group has the largest effect, the second largest, and so on.

        Parameters
        ----------
        effect : int, default=0
            Place of the effect in ``names``.
        n_ranks : int, default=10
            How many ranks, at most.

        Returns
        -------
        ndarray of shape (n_groups, n_ranks)
            A row for each group; each column adds up to 1.
        """
        table = self.draws[:-1, effect]
        G, M = table.shape
        order = np.argsort(-table, axis=0, kind="stable")[: min(n_ranks, G)]
        return np.stack([np.bincount(one, minlength=G) / M for one in order], axis=1)

    def summary(self, level: float = 0.9) -> dict[str, Array]:
        """A row for each group and effect, ready for `pandas.DataFrame`.

        Parameters
        ----------
        level : float in (0, 1), default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        dict of str to ndarray of shape (n_groups * n_effects,)
            ``group``, ``effect``, ``mean``, ``sd``, ``lower``, ``upper`` and ``p_largest``, the
            probability that no other group has a larger effect.
        """
        G, q = self.mean.shape
        ends = self.interval(level).reshape(-1, 2)
        first = np.stack([self.rank_probabilities(j, 1)[:, 0] for j in range(q)], axis=1)
        return {
            "group": np.repeat(self.labels, q), "effect": np.tile(self.names, G),
            "mean": self.mean.ravel(), "sd": self.std.ravel(), "lower": ends[:, 0],
            "upper": ends[:, 1], "p_largest": first.ravel(),
        }  # fmt: skip


def effects_of(task, posterior):
    """`EffectsOfGroups` of a fit, a dict of these of several factors; None without groups."""
    response, model = task.prior.response, task.model
    groups = getattr(getattr(response, "family", None), "groups", None)
    if groups is None:
        return None
    q, G = groups.n_effects, sum(len(one.labels) for one in groups.factors)
    M = int(np.clip(_NUMBERS // (G * q), _FEWEST, min(_MAX, len(posterior.weights))))
    rng = np.random.default_rng(0)
    chosen = rng.permutation(systematic(posterior.weights, M, rng))
    # A posterior has coefficients where models may have other coordinates; scales come after.
    width = model.prior.coefficients(np.zeros((1, model.n_coordinates))).shape[1]
    coefficients = own_particles(posterior)[chosen, :width]
    units = response.units(task.prior.units.scale)[response.n_own :][:q]
    if groups.others and not groups.has_levels:
        return _of_normal(task, coefficients, chosen, units[0], rng)
    known, G = model.split(coefficients), len(groups.labels)
    factor = model.factor(known[2]) * np.array([units[0], units[-1], units[-1]])
    mean, square = np.zeros((G, q)), np.zeros((G, q))
    draws = np.empty((G + 1, q, M), dtype=np.float32)
    draws[G] = _effects(factor, *_strata(M, rng)[:, 0])[:q]
    for batch in task.rows.whole():
        for rows, starts in group_pieces(batch, _MOMENTS // M):
            codes = first_codes(batch)[rows][starts[:-1]]
            parts = model.integrals(known, batch, rows, starts, 2)
            moments = np.concatenate([part[-1] for part in parts])
            has_group = codes < G  # Rows without a group are in none of them.
            own = _Conditional(moments[:, has_group].transpose(2, 1, 0), factor, q)
            mean[codes[has_group]], square[codes[has_group]] = own.mean, own.square
            draws[codes[has_group]] = own.draws(_strata(M, rng, has_group.sum()))
    names = ("intercept",) if groups.slope is None else ("intercept", groups.slope)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    found = EffectsOfGroups(groups.labels, names, mean, std, draws, factor, chosen)
    if not groups.others:
        return found
    place, levels = width - response.n_dispersions + response.n_own, []
    first = place + 1 + len(groups.others)
    for j, one in enumerate(groups.others):
        own = slice(first, first := first + len(one.labels))
        table = posterior.particles[chosen, own].T
        sds = posterior.particles[chosen, place + 1 + j]
        moments = posterior.mean()[own], posterior.std()[own]
        levels.append(_of_factor(one, *moments, table, sds, chosen, rng))
    return _by_name(groups, [found, *levels])


def _of_normal(task, coefficients, chosen, unit, rng):
    """Effects of several factors of normal rows, by name."""
    model, groups = task.model, task.prior.response.family.groups
    sds, found, first = model.split(coefficients)[2] * unit, [], 0
    mean, square, draws = model.effects(coefficients, next(iter(task.rows.whole())), rng)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    for j, (one, n) in enumerate(zip((groups.first, *groups.others), model.sizes, strict=True)):
        own, first = slice(first, first + len(one.labels)), first + n
        moments = unit * mean[own], unit * std[own]
        found.append(_of_factor(one, *moments, unit * draws[own], sds[:, j], chosen, rng))
    return _by_name(groups, found)


def _of_factor(groups, mean, std, table, sds, chosen, rng):
    """`EffectsOfGroups` of intercepts (G, m), and of one that is new."""
    new = sds * _strata(len(sds), rng)[0, 0]
    draws = np.concatenate([table, new[None]])[:, None].astype(np.float32)
    factor = np.column_stack([sds, np.zeros((len(sds), 2))])
    names = ("intercept",)
    return EffectsOfGroups(groups.labels, names, mean[:, None], std[:, None], draws, factor, chosen)


def _by_name(groups, found):
    """A dict of the effects of factors, as these were given."""
    by_name = dict(zip([one.factor for one in (groups.first, *groups.others)], found, strict=True))
    return {one.factor: by_name[one.factor] for one in groups.factors}


def slope_of(groups, X, centre):
    """What slopes of groups are multiplied by, (n,), of centred columns with ones; or None."""
    if groups.slope is None:
        return None
    column = X[:, [groups.column]]
    if issparse(column):
        return column.toarray()[:, 0] - centre[groups.column]
    return column[:, 0] - centre[groups.column]


def _effects(factor, z0, z1):
    """Both effects (2, ..., m) of standard normal numbers (..., m): an intercept and a slope."""
    return np.stack([factor[:, 0] * z0, factor[:, 1] * z0 + factor[:, 2] * z1])


class _Conditional:
    """Effects of groups given each of m particles, by the moments (7, G, m) of z."""

    def __init__(self, moments, factor, q):
        z0, z1, s00, s01, s11, cube, _ = moments
        self._factor, self._z, self._q = factor, (z0, z1), q
        self._sd = np.sqrt(np.maximum(s00 - z0 * z0, 1e-30))
        self._slope = (s01 - z0 * z1) / self._sd
        self._rest = np.sqrt(np.maximum(s11 - z1 * z1 - self._slope**2, 0.0))
        self._skew = np.clip((cube - 3.0 * z0 * s00 + 2.0 * z0**3) / self._sd**3, -1.0, 1.0)
        centre = _effects(factor, z0, z1)
        none = np.zeros(z0.shape)
        both = _effects(factor, self._sd, self._slope), _effects(factor, none, self._rest)
        square = centre**2 + sum(one**2 for one in both)
        # Averages over the particles, (G, n_effects).
        self.mean, self.square = (one[:q].mean(axis=2).T for one in (centre, square))

    def draws(self, z):
        """Effects (G, n_effects, m) of normal numbers (2, G, m), with the skewness of z0."""
        one = z[0] + self._skew / 6.0 * (z[0] ** 2 - 1.0)
        other = self._slope * z[0] + self._rest * z[1]
        found = _effects(self._factor, self._z[0] + self._sd * one, self._z[1] + other)
        return found[: self._q].swapaxes(0, 1)


def _strata(n, rng, G=1):
    """For each of G groups two rows of n normal quantiles, (2, G, n), in orders of their own."""
    z = ndtri((np.arange(n) + 0.5) / n)
    return rng.permuted(np.tile(z / np.sqrt(np.mean(z * z)), (2, G, 1)), axis=2)


class GroupedMixture(FamilyMixture):
    """Distributions of rows with effects of groups, which `with_effects` adds.

    Methods are those of `FamilyMixture`.
    """

    def with_effects(self, effects, codes, slope):
        """The same with a tuple of `EffectsOfGroups`, one of each factor, of rows.

        ``codes`` (F, n) are below zero of new groups, and ``slope`` (n,) is what the second effect
        is multiplied by, or None.
        """
        self._effects, self._codes, self._slope = effects, codes, slope
        self._tables = [one.draws for one in effects]
        places = zip(effects, codes, strict=True)
        self._places = [np.where(own < 0, len(one.labels), own).astype(int) for one, own in places]
        return self

    def sample_groups(self, n_samples, rng):
        """Draws (n_samples, n) with one particle for all rows, and one effect for each group.

        Rows of one new group share its effect, and each row without a group has its own.
        """
        chosen, part = rng.integers(len(self.weights), size=n_samples), copy(self)
        part._tables, part._places = [], [place.copy() for place in self._places]
        for effects, codes, place in zip(self._effects, self._codes, part._places, strict=True):
            new = np.flatnonzero(codes < 0)
            label = np.where(codes == -1, np.arange(len(self)), codes)[new]
            _, which = np.unique(label, return_inverse=True)
            known, factor = effects.draws[:-1, :, chosen], effects.factor[chosen]
            z = rng.standard_normal((which.max(initial=-1) + 1, 2, n_samples))
            others = [_effects(factor, *one)[: known.shape[1]] for one in z]
            others = np.reshape(others, (len(z), *known.shape[1:]))
            part._tables.append(np.concatenate([known, others]))
            place[new] = len(known) + which
        part.coefficients, part.dispersion = self.coefficients[chosen], self.dispersion[chosen]
        part.weights = np.full(n_samples, 1.0 / n_samples)
        return part._drawn(n_samples, rng, np.arange(n_samples)[None])

    def _part(self, rows):
        slope = None if self._slope is None else self._slope[rows]
        return super()._part(rows).with_effects(self._effects, self._codes[:, rows], slope)

    def _joined(self, parts):
        codes, slopes = ([getattr(one, name) for one in parts] for name in ("_codes", "_slope"))
        slope = None if slopes[0] is None else np.concatenate(slopes)
        codes = np.concatenate(codes, axis=1)
        return super()._joined(parts).with_effects(self._effects, codes, slope)

    def _predictors(self, rows):
        eta = super()._predictors(rows)
        for table, place in zip(self._tables, self._places, strict=True):
            own = table[place[rows]]
            eta = eta + own[:, 0]
            if self._slope is not None:
                eta += self._slope[rows, None] * own[:, 1]
        return eta
