"""Effects of the groups of a fit: moments and draws given the particles, and their mixture."""

from __future__ import annotations

from copy import copy
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtri

from skpmd._base.utils import check_count, check_level, warn
from skpmd._typing import Array
from skpmd.engine.particles import random_draws
from skpmd.linear._column_scale import own_particles
from skpmd.linear._correlations import factor_of
from skpmd.linear._family_mixture import FamilyMixture
from skpmd.linear._group_rows import SOME_ROWS, first_codes, group_pieces

_NUMBERS, _FEWEST, _MAX = 1 << 21, 256, 4000  # Of all draws, and of the particles that have some.
_MOMENTS = 1 << 16  # Groups times particles whose moments are in memory together.
_MAX_OF_MEAN = 0.1  # A mean is that of all particles where none has a larger share.
_SHOWN = 10  # So many labels an error lists.


class EffectsOfGroups(NamedTuple):
    """Effects of each group on the linear predictor, less those of the population.

    ``effects["school 3"]`` are those of one group alone, by its label.

    Attributes
    ----------
    labels : ndarray of shape (n_groups,)
        Labels of the groups.
    names : tuple of str
        Of the effects: ``"intercept"`` and the columns of slopes; of three classes or more each
        but the first.
    mean, std : ndarray of shape (n_groups, n_effects)
        Posterior means and standard deviations: by quadrature given each particle.
    draws : ndarray of shape (n_groups + 1, n_effects, n_draws), float32
        An effect of each group, and last of one that is not known, given each of some particles of
        equal weight.
    factor : ndarray of shape (n_draws, n_effects * (n_effects + 1) / 2)
        Lower triangle of a factor of the effects' covariance, row by row, of each particle.
    particles : ndarray of shape (n_draws,), int
        Places of these in ``posterior_.particles``.
    group : str
        Name of the column of groups.
    link : str
        Link of the mean of y, of which the linear predictor is in units; ``"softmax"`` of classes.
    """

    labels: Array
    names: tuple[str, ...]
    mean: Array
    std: Array
    draws: Array
    factor: Array
    particles: Array
    group: str
    link: str

    def __getitem__(self, key):
        """The effects of a group by its label, or of all by the name of the column of groups."""
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        if key == self.group:  # As the dict of several factors has them.
            return self
        labels = [str(label) for label in self.labels]
        if key not in labels:
            more = ", ..." * (len(labels) > _SHOWN)
            raise KeyError(
                f"{key!r} is neither {self.group!r}, the column of groups, nor one of its labels: "
                f"{', '.join(labels[:_SHOWN])}{more}"
            )
        j = labels.index(key)
        return self._replace(
            labels=self.labels[[j]], mean=self.mean[[j]], std=self.std[[j]],
            draws=self.draws[[j, -1]],
        )  # fmt: skip

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

    def place_of(self, effect: int | str) -> int:
        """The place of an effect in ``names``.

        Parameters
        ----------
        effect : int or str
            Its place or its name.

        Returns
        -------
        int
            Its place.

        Raises
        ------
        ValueError
            If there is no such effect.
        """
        names = list(self.names)
        if isinstance(effect, str) and effect in names:
            return names.index(effect)
        is_place = isinstance(effect, Integral) and not isinstance(effect, bool)
        if not (is_place and 0 <= effect < len(names)):
            raise ValueError(f"effect must be a place or a name among {names}, got {effect!r}.")
        return int(effect)

    def rank_probabilities(self, effect: int | str = 0, n_ranks: int = 10) -> Array:
        """Probabilities that a group has the largest effect, the second largest, and so on.

        Parameters
        ----------
        effect : int or str, default=0
            The effect, by its place in ``names`` or its name.
        n_ranks : int, default=10
            How many ranks, at most.

        Returns
        -------
        ndarray of shape (n_groups, n_ranks)
            A row for each group; each column adds up to 1.

        Raises
        ------
        ValueError
            If there is no such effect, or ``n_ranks`` is not a positive integer.
        """
        table = self.draws[:-1, self.place_of(effect)]
        G, M = table.shape
        order = np.argsort(-table, axis=0, kind="stable")[: check_count("n_ranks", n_ranks)]
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


def effects_of(model, prior, batches, posterior):
    """`EffectsOfGroups` that have rows in the batches.

    Of several factors it is a dict of these. The `PriorOfRows` says what units are.
    """
    response = prior.response
    groups = response.groups
    q, G = groups.n_effects, sum(len(one.labels) for one in groups.factors)
    M = int(np.clip(_NUMBERS // (G * q), _FEWEST, min(_MAX, len(posterior.weights))))
    rng = np.random.default_rng(0)
    chosen = random_draws(posterior.weights, M, rng)
    # A posterior has coefficients where models may have other coordinates; scales come after.
    width = model.prior.coefficients(np.zeros((1, model.n_coordinates))).shape[1]
    coefficients = own_particles(posterior)[chosen, :width]
    units = response.units(prior.units.scale)[response.n_own :][:q]
    if groups.others and not groups.has_levels:
        return _of_normal(model, response, batches, coefficients, chosen, units[0], rng)
    known, G = model.split(coefficients), len(groups.labels)
    factor = model.factor(known[2]) * np.repeat(units, np.arange(1, q + 1))
    mean, square, is_known = np.zeros((G, q)), np.zeros((G, q)), np.zeros(G + 1, dtype=bool)
    draws = np.empty((G + 1, q, M), dtype=np.float32)
    draws[G] = _effects(factor, _strata(M, rng, q)[:, 0])
    for batch in batches:
        for rows, starts in group_pieces(batch, _MOMENTS // M, SOME_ROWS):
            codes = first_codes(batch)[rows][starts[:-1]]
            parts = model.integrals(known, batch, rows, starts, 2)
            moments = np.concatenate([part[-1] for part in parts])
            has_group = codes >= 0  # Rows without a group are in none of them.
            own = _Conditional(moments[:, has_group].transpose(2, 1, 0), factor, q)
            mean[codes[has_group]], square[codes[has_group]] = own.mean, own.square
            draws[codes[has_group]] = own.draws(_strata(M, rng, q, has_group.sum()))
            is_known[codes[has_group]] = True
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    first_of, link = groups.factors[0] if not groups.others else groups.first, response.family.link
    found = EffectsOfGroups(
        first_of.labels, first_of.names, mean, std, draws, factor, chosen, first_of.factor, link
    )
    if not groups.others:
        known = is_known[:G]
        is_known[G] = True
        return (
            found
            if known.all()
            else found._replace(
                labels=groups.labels[known], mean=mean[known], std=std[known], draws=draws[is_known]
            )
        )
    place, levels = width - response.n_dispersions + response.n_own, []
    sizes = [len(one.dispersions.names) for one in (groups.first, *groups.others)]
    ends = place + np.cumsum(sizes)
    first = ends[-1]
    for one, a, b in zip(groups.others, ends, ends[1:], strict=False):
        shape = len(one.labels), one.n_effects
        own = slice(first, first := first + np.prod(shape))
        table = posterior.particles[chosen, own].T.reshape(*shape, -1)
        moments = [found.reshape(shape) for found in (posterior.mean()[own], posterior.std()[own])]
        of_factor = factor_of(posterior.particles[chosen, a:b])
        levels.append(_of_factor(one, link, moments, table, of_factor, chosen, rng))
    return _by_name(groups, [found, *levels])


def _of_normal(model, response, batches, coefficients, chosen, unit, rng):
    """Effects of several factors of normal rows, by name."""
    groups, link = response.family.groups, response.family.link
    sds, found, first = model.split(coefficients)[2] * unit, [], 0
    mean, square, draws = model.effects(coefficients, next(iter(batches)), rng)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    for j, (one, n) in enumerate(zip((groups.first, *groups.others), model.sizes, strict=True)):
        own, first = slice(first, first + len(one.labels)), first + n
        moments, table = (unit * mean[own, None], unit * std[own, None]), unit * draws[own, None]
        factor = factor_of(sds[:, [j]])
        found.append(_of_factor(one, link, moments, table, factor, chosen, rng))
    return _by_name(groups, found)


def _of_factor(groups, link, moments, table, factor, chosen, rng):
    """`EffectsOfGroups` of draws (G, q, m), and of a group that is new."""
    new = _effects(factor, _strata(len(factor), rng, groups.n_effects)[:, 0])
    draws = np.concatenate([table, new[None]]).astype(np.float32)
    given = groups.labels, groups.names, *moments, draws, factor, chosen
    return EffectsOfGroups(*given, groups.factor, link)


def _by_name(groups, found):
    """A dict of the effects of factors, as these were given."""
    by_name = dict(zip([one.factor for one in (groups.first, *groups.others)], found, strict=True))
    return {one.factor: by_name[one.factor] for one in groups.factors}


def effects_of_prior(family, factor, rng):
    """`EffectsOfGroups` of draws of the prior, whose covariances have the ``factor`` (m, e)."""
    groups = family.groups
    (G, q), m = (len(groups.labels), groups.n_effects), len(factor)
    z = rng.standard_normal((G + 1, max(q, 2), m))
    draws = np.stack([_effects(factor, one) for one in z])
    mean, std = draws[:-1].mean(axis=2), draws[:-1].std(axis=2)
    return EffectsOfGroups(
        groups.labels, groups.names, mean, std, draws, factor, np.arange(m), groups.factor,
        family.link,
    )  # fmt: skip


def slopes_of(groups, X, centre):
    """What slopes of each factor are multiplied by, (n, q - 1), of columns with ones; or None."""
    return [_slopes(one, X, centre) for one in groups.factors]


def _slopes(groups, X, centre):
    if not groups.slopes:
        return None
    places = list(groups.columns)
    columns = X[:, places]
    columns = columns.toarray() if issparse(columns) else columns
    return columns - (centre[places] + (groups.centre or 0.0))


def _effects(factor, z):
    """Effects (q, ..., m) of standard normal numbers (q, ..., m), of which there may be more."""
    q, each = int(np.sqrt(2 * factor.shape[1])), iter(factor.T)
    return np.stack([sum(next(each) * z[j] for j in range(i + 1)) for i in range(q)])


def warn_of_gone(effects, groups, labels):
    """Warn where new ``labels`` had rows in earlier parts of a stream, which holds them no more."""
    gone = sorted(set(groups.labels.tolist()).intersection(labels)) if labels else ()
    if gone:
        warn(
            f"groups {gone[:3]!r} of {effects.group!r}, {len(gone)} in all, had rows in earlier "
            "parts of this stream, which has had more rows than it holds: their effects are not "
            "known, and predictions are those for new groups. Predict them before their rows go, "
            "or call fit with all rows."
        )


class _Conditional:
    """Effects of groups given each of m particles, by the moments (e, G, m) of z."""

    def __init__(self, moments, factor, q):
        self._factor, self._z, squares, cube = factor, moments[:q], iter(moments[q:]), moments[-q]
        root, z = np.zeros((q, *moments[:q].shape)), self._z  # Of z's covariance, (q, q, G, m).
        for i in range(q):
            for j in range(i + 1):
                left = next(squares) - z[j] * z[i] - sum(root[i, :j] * root[j, :j])
                root[i, j] = left / root[j, j] if j < i else np.sqrt(np.maximum(left, 1e-30))
        skewed = cube - 3.0 * z[0] * moments[q] + 2.0 * z[0] ** 3
        self._skew, self._root = np.clip(skewed / root[0, 0] ** 3, -1.0, 1.0), root
        centre = _effects(factor, z)
        square = centre**2 + sum(_effects(factor, root[:, j]) ** 2 for j in range(q))
        # Averages over the particles, (G, n_effects).
        self.mean, self.square = (one.mean(axis=2).T for one in (centre, square))

    def draws(self, z):
        """Effects (G, n_effects, m) of normal numbers (q, G, m), with the skewness of z0."""
        q, skewed = len(self._root), z[0] + self._skew / 6.0 * (z[0] ** 2 - 1.0)
        moved = [self._root[0, 0] * skewed]
        moved += [sum(self._root[i, : i + 1] * z[: i + 1]) for i in range(1, q)]
        return _effects(self._factor, self._z + moved).swapaxes(0, 1)


def _strata(n, rng, q, G=1):
    """For each of G groups q rows of n normal quantiles, or two, in orders of their own."""
    z = ndtri((np.arange(n) + 0.5) / n)
    return rng.permuted(np.tile(z / np.sqrt(np.mean(z * z)), (max(q, 2), G, 1)), axis=2)


class RowEffects:
    """Effects of rows: of `EffectsOfGroups`, a tuple with one of each factor.

    Codes (F, n) are below zero of new groups, and ``slopes``, a list with one of each factor, are
    what effects after the first are multiplied by, (n, q - 1), or None.
    """

    def __init__(self, effects, codes, slopes):
        self._effects, self._codes, self._slopes = effects, codes, slopes
        self._tables = [one.draws for one in effects]
        every = zip(effects, codes, strict=True)
        self._places = [np.where(c < 0, len(one.labels), c).astype(np.int64) for one, c in every]

    def add(self, table, rows):
        """Add those of some rows to predictors (r, m)."""
        for effects, place, slope in zip(self._tables, self._places, self._slopes, strict=True):
            own = effects[place[rows]]
            table += own[:, 0]
            for j, one in enumerate(() if slope is None else slope[rows].T, 1):
                table += one[:, None] * own[:, j]

    def drawn(self, n_samples, rng, chosen=None):
        """Places (n_samples,) of particles, and with each one effect for each group.

        Rows of one new group share its effect, and each row without a group has its own. Particles
        are ``chosen`` (n_samples,), by default at random.
        """
        if chosen is None:
            chosen = rng.integers(self._tables[0].shape[2], size=n_samples)
        part = copy(self)
        part._tables, part._places = [], [place.copy() for place in self._places]
        for effects, codes, place in zip(self._effects, self._codes, part._places, strict=True):
            new = np.flatnonzero(codes < 0)
            label = np.where(codes == -1, np.arange(len(codes)), codes)[new]
            _, which = np.unique(label, return_inverse=True)
            known, factor = effects.draws[:-1, :, chosen], effects.factor[chosen]
            q = max(known.shape[1], 2)
            z = rng.standard_normal((which.max(initial=-1) + 1, q, n_samples))
            others = [_effects(factor, one) for one in z]
            others = np.reshape(others, (len(z), *known.shape[1:]))
            part._tables.append(np.concatenate([known, others]))
            place[new] = len(known) + which
        return chosen, part

    def part(self, rows):
        """Those of some rows."""
        slopes = [None if one is None else one[rows] for one in self._slopes]
        return RowEffects(self._effects, self._codes[:, rows], slopes)

    def joined(self, parts):
        """Those of the rows of several, in a list."""
        every = zip(*(one._slopes for one in parts), strict=True)
        slopes = [None if one[0] is None else np.concatenate(one) for one in every]
        codes = np.concatenate([one._codes for one in parts], axis=1)
        return RowEffects(self._effects, codes, slopes)


class GroupedMixture(FamilyMixture):
    """Distributions of rows with effects of groups, which `with_effects` adds.

    Methods are those of `FamilyMixture`.
    """

    def with_effects(self, effects):
        """The same with `RowEffects`."""
        self._effects = effects
        return self

    def sample_groups(self, n_samples, rng, chosen=None):
        """Draws (n_samples, n) with one particle for all rows; see `RowEffects.drawn`."""
        chosen, effects = self._effects.drawn(n_samples, rng, chosen)
        part = super()._given(chosen, rng).with_effects(effects)
        return part._drawn(n_samples, rng, np.arange(n_samples)[None])

    def _mean(self):
        mean = super()._mean()
        if self.link == "log" and (self._effects._codes < 0).any():
            shares = self._by_tiles(lambda p, _: _largest_share(p, self._family.mean(p)))
            if shares.max() > _MAX_OF_MEAN:
                warn(
                    "the mean for a new or missing group is mostly that of one particle, of the "
                    "largest sd of groups: of few it may be infinite. Look at medians, lower "
                    "group_prior_scale, or set groups_at='population'.",
                    UserWarning,
                )
        return mean

    def _given(self, chosen, rng):
        effects = self._effects.drawn(len(chosen), rng, chosen)[1]
        return super()._given(chosen, rng).with_effects(effects)

    def _part(self, rows):
        return super()._part(rows).with_effects(self._effects.part(rows))

    def _joined(self, parts):
        effects = self._effects.joined([one._effects for one in parts])
        return super()._joined(parts).with_effects(effects)

    def _predictors(self, rows):
        eta = super()._predictors(rows)
        self._effects.add(eta, rows)
        return eta


def _largest_share(p, mean):
    """The share of means (r,) that the particle with the largest has."""
    parts = p.weights * mean
    return parts.max(axis=1) / parts.sum(axis=1)
