"""The column of groups, whose labels become codes, and the estimators that have one."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import LeftOut
from skpmd._base.options import posterior_of_prior
from skpmd._base.utils import warn
from skpmd._rows.blocks import Block
from skpmd._rows.opening import computed
from skpmd._rows.rows import Rows
from skpmd._rows.table import array_of, is_in_memory, table_of_one
from skpmd.engine.model import Batch
from skpmd.engine.particles import random_draws
from skpmd.linear._correlations import factor_of
from skpmd.linear._crossed import Factors
from skpmd.linear._group_effects import (
    EffectsOfGroups,
    RowEffects,
    effects_of_prior,
    slopes_of,
    warn_of_gone,
)
from skpmd.linear._group_rows import (
    codes_of,
    column_of,
    in_groups,
    of_groups,
    of_rows,
    replaced,
    with_weights,
)
from skpmd.linear._groups import Groups, grouped, with_labels

GROUP_CONSTRAINTS = {
    "groups": [str, Integral, list, tuple, None],
    "slopes": [dict, None],
    "group_prior_scale": [Interval(Real, 1e-30, 1e30, closed="both")],
    "groups_at": [StrOptions({"own", "population"})],
}
MAX_FACTORS, MAX_SLOPES = 4, 3
MAX_LEVELS, MAX_DENSE = 200, 5000  # Of factors whose effects are coordinates, and of normal rows.
_ALL = 1 << 62  # More rows than there are.
# Pairs of rows in groups that are left out one by one, at most; how often particles look at pairs,
# and how many numbers they have of rows or groups, unless these particles are too few then.
_MAX_PAIRS, _MAX_WORK, _MAX_TABLE, _MIN_PARTICLES = 1e7, 1e9, 1e7, 500


class GroupColumns:
    """Mixin of estimators with parameters ``groups``, ``slopes`` and ``group_prior_scale``."""

    # Of estimators, and of subclasses, that do not have these parameters.
    groups, slopes, group_prior_scale, groups_at = None, None, 2.5, "own"
    _group_roles = "groups", "slopes", "group_prior_scale"

    @property
    def _factors(self):
        """Names or places of the columns of groups, a list; without groups it is empty."""
        given, slopes = self.groups, self.slopes
        if given is None:
            if slopes:
                raise ValueError(f"slopes={slopes!r} are of groups: name their column in groups.")
            return []
        given = [given] if isinstance(given, (str, Integral)) else given
        if not 0 < len(given) <= MAX_FACTORS or None in given:
            raise ValueError(
                f"groups must be a list with the names or the places of one to {MAX_FACTORS} "
                f"columns, got {given!r}."
            )
        return list(given)

    def _roles_of_groups(self):
        """{role: name or place} of the columns of groups."""
        factors = self._factors
        if len(factors) == 1:
            return {"groups": factors[0]}
        return {f"groups[{j}]": one for j, one in enumerate(factors)}

    def _of_groups(self):
        """Parameters that groups decide on: all rows are one batch, and there are particles."""
        if self._factors and getattr(self, "covariance_type", "full") == "diag":
            raise ValueError(
                f"groups={self.groups!r} needs particles, and covariance_type='diag' has none: "
                "set covariance_type='full'."
            )
        return {"batch_size": _ALL, "covariance_type": "full"}

    def _rows_in_groups(self, X, y, weight, codes, columns):
        """`Rows`, sorted by their groups."""
        if not isinstance(self.prior, str):
            raise ValueError(f"groups={self.groups!r} needs a named prior, no earlier posterior.")
        rows = in_groups({"X": X, "y": y, "weight": weight, "group": codes, **columns})
        return Rows(batch_size=_ALL, **rows)

    def _refuse_split_groups(self, codes, n_known):
        """ValueError of rows of a stream whose group had others in a part that is not held."""
        given = {name: getattr(self, name) for name in ("total_samples", "forgetting", "half_life")}
        given = [f"{name}={value!r}" for name, value in given.items() if value]
        if given:
            raise ValueError(
                f"{' and '.join(given)} with groups={self.groups!r}: rows of a group are in one "
                "integral, which has no share of them. Leave it at its default."
            )
        state, known = getattr(self, "_state", None), codes[(codes >= 0) & (codes < n_known)]
        if len(known) and state.retained is None:
            label = self._groups_of_fit.labels.tolist()[int(known[0])]
            raise ValueError(
                f"groups={self.groups!r}: {label!r} had rows in an earlier part, and this stream "
                "has had more rows than it holds. Give all rows of a group in one part."
            )

    def _refuse_prior_of_groups(self):
        """ValueError where an earlier posterior has groups, and these rows have none."""
        response = getattr(getattr(posterior_of_prior(self.prior), "frame", None), "response", None)
        if getattr(response, "groups", None) is not None:
            raise ValueError(
                "prior is a posterior of a fit with groups, which is no prior yet: give one of a "
                "fit with groups=None, or a named prior."
            )

    def _in_order(self, codes, weight, groups):
        """Codes (n, F) of several factors with that first whose effects are integrated out."""
        if codes is None or codes.ndim == 1:
            return codes
        if weight is not None:  # Rows without a weight may be of any level.
            codes = np.where((weight > 0.0)[:, None], codes, np.maximum(codes, 0.0))
        for name, column in zip(self._factors, codes.T, strict=True):
            if column.min() < 0:
                raise ValueError(
                    f"The column of groups={name!r} has no label in row {column.argmin()}: with "
                    "several factors each row needs one of each. Leave such rows out."
                )
        return codes[:, groups.order]

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """See `skpmd.merge`; effects of groups need the rows of these."""
        for one in (self, *estimators):
            one._refuse_several("skpmd.merge")
        for k, one in enumerate(estimators):
            if X is None and one._groups_of_fit is not None and one._state.retained is None:
                raise ValueError(
                    f"estimators[{k}] has had more rows than it holds, which effects of groups "
                    "need: give X and y of all rows to merge."
                )
        return super()._merge(estimators, X, y, sample_weight)

    def _states_of_shards(self, estimators):
        """States whose groups have the same codes."""
        states = super()._states_of_shards(estimators)
        all_groups = [one._groups_of_fit for one in estimators]
        if all_groups[0] is None:
            return states
        labels, found = all_groups[0].labels, []
        for groups in all_groups[1:]:
            labels = codes_of(groups.factor, groups.labels, labels)[1]
        for state, groups in zip(states, all_groups, strict=True):
            code = np.append(codes_of(groups.factor, groups.labels, labels)[0], -1)
            retained, response = state.retained, with_labels(state.response, labels)
            if retained is not None:
                own = np.maximum(retained.rows.group, -1)
                rows = retained.rows._replace(group=code[own].astype(np.int64))
                retained = retained._replace(rows=rows)
            found.append(state._replace(retained=retained, response=response))
        return found

    def _coded(self, X, labels=None):
        """X with codes in the place of the groups' columns, and the labels of each, (G,).

        Codes are places among ``labels``, by default those of the fit, or, of labels=(), those that
        are found. Missing groups have -1, and others that are no labels have numbers below that.
        """
        state = self._state if labels is None else None
        fitted = None if state is None else self._groups_of_fit
        if labels is None:
            labels = [one.labels for one in _each(state.effects)]
        X = computed("X", X)
        if not is_in_memory(X):  # Rows of a group are wherever they are.
            X = table_of_one(Block(X[:], names=X.names))
        if not (hasattr(X, "shape") and len(X.shape) == 2):
            X = np.array(X, dtype=object)
        if X.ndim != 2 if hasattr(X, "ndim") else False:
            return X, labels  # Which checks refuse.
        table, X = X, array_of(X)
        is_table = table is not X
        names = table.names if is_table else _get_feature_names(X)
        if state is None:
            places, factors = self._places_in(names, X.shape[1]), self._factors
        else:
            places, factors = state.roles, [one.factor for one in fitted.factors]
        places = [place for role, place in places.items() if role.startswith("groups")]
        known = getattr(self, "feature_names_in_", None)
        if state is not None and names is not None and known is not None:
            columns = list(names)
            places = [
                columns.index(known[j]) if known[j] in columns else X.shape[1] for j in places
            ]
        if max(places) >= X.shape[1]:
            return table, labels  # Which checks refuse.
        found = []
        for name, place, own in zip(factors, places, labels or [()] * len(places), strict=True):
            codes, own = codes_of(name, column_of(X, place), own)
            X = replaced(X, place, codes)
            found.append(own)
        if state is not None and not self._at_population:
            for effects, one, own in zip(_each(state.effects), fitted.factors, found, strict=True):
                warn_of_gone(effects, one, own[len(effects.labels) :].tolist())
        return table_of_one(Block(X, names=names)) if is_table else X, found

    def _known_labels(self, response):
        """Labels of a stream so far, or of a fit, whose `Distribution` is the response."""
        groups = None if response is None else response.groups
        return [] if groups is None else [one.labels for one in groups.factors]

    @property
    def _groups_of_fit(self):
        """`Groups`, or None, whatever parameters have been set since."""
        return self._state.response.groups

    def _in_groups_of(self, response, X, codes, labels, weight, is_part):
        """Codes of rows with a weight, and the `Distribution` with effects of their groups.

        Labels are a list, with those of each factor; a response has those of a stream so far.
        """
        known = self._known_labels(response)
        n_known = len(known[0]) if known else 0
        codes, labels = self._with_weight(codes, labels, weight, n_known)
        if is_part:
            self._refuse_several("partial_fit")
            self._refuse_split_groups(codes, n_known)
        missing = codes[np.s_[:] if weight is None else weight > 0.0] == -1
        if missing.any() and codes.ndim == 1:
            name = self._factors[0]
            warn(
                f"{missing.sum()} of {len(missing)} rows have no label of {name!r}, and each is "
                "taken as a group of its own: the posterior is too narrow where they share groups. "
                "Leave these rows out, or give them labels.",
                UserWarning,
            )
        response = self._with_groups(response, labels, X, weight)
        return self._in_order(codes, weight, response.family.groups), response

    def _refuse_several(self, what, groups=None):
        """ValueError, with what to do, of what there is with one factor only.

        ``groups`` are those of a fit, by default those that parameters name.
        """
        names = self._factors if groups is None else [one.factor for one in groups.factors]
        if len(names) > 1:
            raise ValueError(
                f"groups={names!r} are several factors, and {what} takes one: name one of them, or "
                "call fit with all rows."
            )

    def _with_weight(self, codes, labels, weight, n_known):
        """Codes and labels of groups that have a row with a weight: others are not in the fit.

        So many of the labels were known before.
        """
        if n_known:
            codes = np.where(codes < -1, n_known - 2 - codes, codes)
        if weight is None or (weight > 0.0).all():
            return codes, labels
        table = codes.reshape(len(codes), -1).T
        every = zip(self._factors, table, labels, strict=True)
        found = [with_weights(*one, weight, n_known) for one in every]
        codes = np.column_stack([one for one, _ in found]).reshape(codes.shape)
        return codes, [one for _, one in found]

    def _with_groups(self, response, labels, X, weight):
        """A `Distribution` with effects of groups of rows."""
        if response.family.groups is not None:
            return with_labels(response, labels[0])
        for factor in self.slopes or {}:
            if factor not in self._factors:
                raise ValueError(
                    f"slopes={self.slopes!r} are of {factor!r}, and groups={self.groups!r}: name "
                    "the same column in both, in the same way."
                )
        every = zip(self._factors, labels, strict=True)
        given = [self._groups_of(*one, X, weight) for one in every]
        if len(given) == 1:
            return response._replace(family=grouped(response.family, given[0]))
        # That with most effects is integrated out, or eliminated, first.
        sizes = [len(one.labels) * one.n_effects for one in given]
        order = sorted(range(len(given)), key=lambda f: (-sizes[f], f))
        first, *others = [given[f] for f in order]
        has_levels = not response.family.is_conjugate or any(one.slopes for one in given)
        n, most = sum(sizes) - max(sizes), MAX_LEVELS if has_levels else MAX_DENSE
        if n > most:
            raise ValueError(
                f"groups={self.groups!r}: the factors beside {first.factor!r}, which has most "
                f"effects, have {n} effects of levels in all, and at most {most} are possible with "
                f"family={response.family.name!r} and slopes={self.slopes!r}. Leave a factor out, "
                "or its slopes, or join its rare levels."
            )
        groups = Factors(first, tuple(others), tuple(order), has_levels)
        return response._replace(family=grouped(response.family, groups))

    def _groups_of(self, factor, labels, X, weight):
        """`Groups` of one factor."""
        given, slopes, columns = (self.slopes or {}).get(factor), (), ()
        if given is not None:
            if isinstance(given, str) or np.ndim(given) != 1 or not 0 < len(given) <= MAX_SLOPES:
                raise ValueError(
                    f"slopes[{factor!r}] must be a list with one to {MAX_SLOPES} columns that have "
                    f"coefficients, got {given!r}."
                )
            slopes = tuple(str(self._name_of(one)) for one in given)
            features = [*map(str, self._features())]
            for name, one in zip(slopes, given, strict=True):
                if name not in features or slopes.count(name) > 1:
                    what = "is no column with a coefficient" if name not in features else "is twice"
                    raise ValueError(
                        f"slopes={self.slopes!r} names {one!r}, which {what}: name some of "
                        f"{', '.join(features[:5]) or 'none'}, each once."
                    )
            columns = tuple(map(features.index, slopes))
        scale = float(self.group_prior_scale)
        groups = Groups(str(self._name_of(factor)), labels, slopes, columns, scale)
        if slopes and self.scale is None:  # Otherwise columns have been centred.
            (at_zero,) = slopes_of(groups, X, np.zeros(X.shape[1]))
            centre = tuple(float(np.average(one, weights=weight)) for one in at_zero.T)
            groups = groups._replace(centre=centre)
        return groups

    @property
    def _at_population(self):
        """Whether effects are zero; ``groups_at`` may have been set since the fit."""
        if self.groups_at not in ("own", "population"):
            raise ValueError(f"groups_at must be 'own' or 'population', got {self.groups_at!r}.")
        return self.groups_at == "population"

    def _effects_of(self, X, codes):
        """`RowEffects` of columns with coefficients; None without groups, and of the population."""
        if codes is None or self._at_population:
            return None
        slopes = slopes_of(self._groups_of_fit, X, self._state.units.centre)
        return RowEffects(_each(self._state.effects), codes.reshape(len(codes), -1).T, slopes)

    @property
    def _particles_averaged(self):
        """Those that predictions average over: places, (m,) or all, and weights (m,)."""
        effects = self._state.effects
        if effects is None or self._at_population:
            return slice(None), self.posterior_.weights
        chosen = _each(effects)[0].particles
        return chosen, np.full(len(chosen), 1.0 / len(chosen))

    def _name_of(self, column):
        """The name of a column that is given by its name or place."""
        n, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        if not isinstance(column, Integral) or not -n <= column < n:
            return column
        return f"x{column % n}" if names is None else names[column]

    def _effects_of_prior(self, response, theta, rng):
        """`EffectsOfGroups` of draws (m, d) of the prior, in given units; None without groups."""
        groups = self._groups_of_fit
        if groups is None:
            return None
        self._refuse_several("sample_prior_y", groups)
        first = self._n_slopes + self._state.fit_intercept + response.n_own
        sds = theta[:, first : first + len(groups.dispersions.names)]
        return effects_of_prior(response.family, factor_of(sds), rng)

    # ------------------------------------------------------------------- rows left out
    def _in_groups(self, batch, codes):
        """A `Batch` sorted by groups, where labels that are new have groups too, and places."""
        new = len(self._state.effects.labels) - 2
        codes = np.where(codes < -1, new - codes, codes)
        rows = in_groups({**batch._asdict(), "group": codes, "place": np.arange(len(codes))})
        place = rows.pop("place")
        return Batch(**rows), place

    def _rows_given_groups(self, model, theta, batch, codes):
        """Log densities of rows given the others of their group; see `of_rows`."""
        batch, place = self._in_groups(batch, codes)
        return [one[:, np.argsort(place)] for one in of_rows(model, theta, batch)]

    def _leave_one_out(self, X, y, times, by=None):
        """See `LeftOut`: None without groups, for rows are independent given particles."""
        check_is_fitted(self)
        groups = self._groups_of_fit
        if groups is not None:
            self._refuse_several("leaving rows or groups out", groups)
        if by is not None and (groups is None or by not in self._names_of_groups()):
            known = "it has none" if groups is None else f"they are of {groups.factor!r}"
            raise ValueError(f"by={by!r} is no column of groups of the fit: {known}.")
        if groups is None:
            return None
        self._check_rows_of_fit(times)
        model, theta, batch, codes = self._likelihood_of(*self._validated(X, y), times)
        posterior, alive = self.posterior_, np.flatnonzero(self.posterior_.weights > 0.0)
        log_weight, ess = posterior.log_weights[alive], posterior.ess
        pairs, n = 1.0, len(groups.labels)
        if by is None:
            n = len(times)
            pairs = float((np.bincount(codes[codes >= 0].astype(int)) ** 2.0).sum())
            if pairs > _MAX_PAIRS:
                raise ValueError(
                    f"Leaving out one row looks at all others of its group, here at {pairs:.2g} "
                    f"pairs of rows: set by={groups.factor!r} to leave out whole groups."
                )
        m = int(max(_MIN_PARTICLES, min(_MAX_WORK / max(pairs, 1.0), _MAX_TABLE / n)))
        if m < len(alive):
            alive = random_draws(posterior.weights, m, np.random.default_rng(0))
            log_weight, ess = np.full(m, -np.log(m)), min(ess, m)
        theta = theta[alive]
        if by is None:
            one, every = self._rows_given_groups(model, theta, batch, codes)
        else:
            one = every = of_groups(model, theta, self._in_groups(batch, codes)[0])
        seen = logsumexp(log_weight[:, None] + one, axis=0)
        what = "rows" if by is None else "groups"
        return LeftOut(log_weight, one, every, seen, ess, what=what)

    def _names_of_groups(self):
        """What the column of groups is called: its name and its places."""
        place, n = self._state.roles["groups"], self.n_features_in_
        return self._groups_of_fit.factor, place, place - n

    @result
    def group_effects_(self) -> EffectsOfGroups | dict[str, EffectsOfGroups]:
        """Effects of the groups of the fit; see `EffectsOfGroups`.

        With several factors it is a dict of these by the factors' names, in the order of
        ``groups``, whose draws are joint ones. A stream that has had more rows than it holds knows
        those of its last part. Raises AttributeError where there are no groups.
        """
        if self._state.effects is None:
            raise AttributeError("group_effects_ is not there: groups is None.")
        return self._state.effects


def _each(effects):
    """`EffectsOfGroups` of each factor, in the order of ``groups``."""
    return tuple(effects.values()) if isinstance(effects, dict) else (effects,)
