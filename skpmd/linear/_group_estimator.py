"""The column of groups, whose labels become codes, and the estimators that have one."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from skpmd._base.estimator import result
from skpmd._base.leave_one_out import LeftOut
from skpmd._rows.blocks import Block
from skpmd._rows.rows import Rows
from skpmd._rows.table import array_of, is_in_memory, table_of_one
from skpmd.engine.model import Batch
from skpmd.engine.particles import systematic
from skpmd.linear._group_effects import EffectsOfGroups, effects_of_prior
from skpmd.linear._group_left_out import of_groups, of_rows
from skpmd.linear._group_rows import in_groups
from skpmd.linear._groups import GroupedModel, Groups, grouped, with_labels

GROUP_CONSTRAINTS = {
    "groups": [list, tuple, None],
    "slopes": [dict, None],
    "group_prior_scale": [Interval(Real, 1e-30, 1e30, closed="both")],
    "groups_at": [StrOptions({"own", "population"})],
}
_ALL = 1 << 62  # More rows than there are.
# Pairs of rows in groups that are left out one by one, at most; how often particles look at pairs,
# and how many numbers they have of rows or groups, unless these particles are too few then.
_MAX_PAIRS, _MAX_WORK, _MAX_TABLE, _MIN_PARTICLES = 1e7, 1e9, 1e7, 500
_ALL_ROWS = (
    "groups={!r} needs all rows of a group together, and blocks have rows of any: fit arrays or "
    "frames, or call partial_fit with parts in which groups come whole."
)


class GroupColumns:
    """Mixin of estimators with parameters ``groups``, ``slopes`` and ``group_prior_scale``."""

    groups = slopes = None  # Of estimators that do not have these parameters.
    _group_roles = "groups", "slopes", "group_prior_scale"

    @property
    def _factor(self):
        """The name or place of the column of groups; None without."""
        given, slopes = self.groups, self.slopes
        if given is None:
            if slopes:
                raise ValueError(f"slopes={slopes!r} are of groups: name their column in groups.")
            return None
        if isinstance(given, str) or len(given) != 1 or given[0] is None:
            more = ""
            if len(given) > 1:
                more = ": nested and crossed factors are not available yet"
            raise ValueError(
                f"groups must be a list with the name or the place of one column, got {given!r}"
                f"{more}."
            )
        return given[0]

    @property
    def _has_groups(self):
        return self._factor is not None

    def _of_groups(self):
        """Parameters that groups decide on: all rows are one batch."""
        return {"batch_size": _ALL} if self._has_groups else {}

    def _rows_of(self, X, y, weight, codes, **columns):
        """`Rows`, sorted by their groups where there are some."""
        if codes is None:
            return Rows(X, y, weight, self.batch_size, **columns)
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

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """See `skpmd.merge`; effects of groups need the rows of these."""
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

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays, with codes of groups; see `LinearEstimator`."""
        if not reset:
            X, _ = self._coded(X)
        return super()._validated(X, y, reset)

    def _checked_rows(self, X, y, reset):
        """The same of X that has codes already."""
        return super()._validated(X, y, reset)

    def _coded(self, X, labels=None):
        """X with codes in the place of the groups' column, and the labels (G,).

        Codes are places among ``labels``, by default those of the fit, or, of labels=(), those that
        are found. Missing groups have -1, and others that are no labels have numbers below that.
        """
        state = self._state if labels is None else None
        if (self._factor if state is None else self._groups_of_fit) is None:
            return X, None
        if labels is None:
            labels = self._state.effects.labels
        if not is_in_memory(X) or hasattr(X, "dask"):
            raise ValueError(_ALL_ROWS.format(self.groups))
        if not (hasattr(X, "shape") and len(X.shape) == 2):
            X = np.array(X, dtype=object)
        if X.ndim != 2 if hasattr(X, "ndim") else False:
            return X, labels  # Which checks refuse.
        table, X = X, array_of(X)
        names = _get_feature_names(X) if table is X else table.names
        if state is None:
            place = self._places_in(names, X.shape[1])["groups"]
        else:
            place, known = state.roles["groups"], getattr(self, "feature_names_in_", None)
            if names is not None and known is not None:
                place = list(names).index(known[place]) if known[place] in names else X.shape[1]
            if place >= X.shape[1]:
                return table, labels  # Which checks refuse.
        name = self._factor if state is None else self._groups_of_fit.factor
        codes, labels = codes_of(name, _column(X, place), labels)
        coded = _replaced(X, place, codes)
        return coded if table is X else table_of_one(Block(coded, names=names)), labels

    def _known_labels(self, response):
        """Labels of a stream so far, or of a fit, whose `Distribution` is the response."""
        groups = None if response is None else response.family.groups
        return () if groups is None else groups.labels

    @property
    def _groups_of_fit(self):
        """`Groups`, or None, whatever parameters have been set since."""
        return getattr(getattr(self._state.response, "family", None), "groups", None)

    def _with_weight(self, codes, labels, weight, n_known):
        """Codes and labels of groups that have a row with a weight: others are not in the fit.

        So many of the labels were known before.
        """
        if codes is not None and n_known:
            codes = np.where(codes < -1, n_known - 2 - codes, codes)
        if codes is None or weight is None or (weight > 0.0).all():
            return codes, labels
        counted = np.unique(codes[(weight > 0.0) & (codes >= 0)]).astype(np.int64)
        counted = np.union1d(np.arange(n_known), counted)
        if not len(counted):
            raise ValueError(f"The column of groups={self._factor!r} has no label of a row with a "
                             "weight: sample_weight is zero at all of them.")  # fmt: skip
        place = np.full(len(labels) + 1, -1.0)  # The last is of rows without a group.
        place[counted] = np.arange(len(counted))
        return place[codes.astype(np.int64)], labels[counted]

    def _with_groups(self, response, labels, features):
        """A `Distribution` with effects of groups."""
        if not self._has_groups:
            return response
        if response.family.groups is not None:
            return with_labels(response, labels)
        slope, column = None, -1
        for factor, given in (self.slopes or {}).items():
            if factor != self._factor:
                raise ValueError(
                    f"slopes={self.slopes!r} are of {factor!r}, and groups={self.groups!r}: name "
                    "the same column in both, in the same way."
                )
            if isinstance(given, str) or np.ndim(given) != 1 or len(given) != 1:
                raise ValueError(
                    f"slopes[{factor!r}] must be a list with one column that has a coefficient, "
                    f"got {given!r}: more slopes are not available yet."
                )
            slope, features = str(self._name_of(given[0])), [str(name) for name in features]
            if slope not in features:
                raise ValueError(
                    f"slopes={self.slopes!r} names {given[0]!r}, which is no column with a "
                    f"coefficient: these are {', '.join(features[:5]) or 'none'}."
                )
            column = features.index(slope)
        factor = str(self._name_of(self._factor))
        scale = float(self.group_prior_scale)
        groups = Groups(factor, labels, slope, column, scale)
        return response._replace(family=grouped(response.family, groups))

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
        first = self._n_slopes + self._state.fit_intercept + response.n_own
        sds = theta[:, first : first + len(groups.dispersions.names)]
        return effects_of_prior(response.family, GroupedModel.factor(sds), rng)

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
        if by is not None and (groups is None or by not in self._names_of_groups()):
            known = "it has none" if groups is None else f"they are of {groups.factor!r}"
            raise ValueError(f"by={by!r} is no column of groups of the fit: {known}.")
        if groups is None:
            return None
        self._check_rows_of_fit(times)
        model, batch, codes = self._model_and_rows(*self._validated(X, y), times)
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
            alive = systematic(posterior.weights, m, np.random.default_rng(0))
            log_weight, ess = np.full(m, -np.log(m)), min(ess, m)
        theta = self._own(None)[alive, : self._n_coordinates]
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
    def group_effects_(self) -> EffectsOfGroups:
        """Effects of the groups of the fit; see `EffectsOfGroups`.

        Raises AttributeError where there are no groups.
        """
        if self._state.effects is None:
            raise AttributeError("group_effects_ is not there: groups is None.")
        return self._state.effects


def codes_of(name, column, labels):
    """Codes (n,) of labels in a column, and the labels, of which new ones are last.

    See `GroupColumns._coded`.
    """
    column = np.asarray(column)
    if column.dtype.kind in "iub":
        missing = np.zeros(len(column), dtype=bool)
    elif column.dtype.kind == "f":
        missing = np.isnan(column)
    else:
        column = column.astype(object)
        missing = np.array([_is_missing(one) for one in column], dtype=bool)
    try:
        found, place = np.unique(column[~missing], return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"The column of groups={name!r} holds labels of kinds that have no order ({error}): "
            "make all of them strings."
        ) from error
    if not len(labels):
        if column.dtype.kind == "f" and len(found) == len(place) > 1 and (found % 1.0).all():
            raise ValueError(
                f"The column of groups={name!r} holds another number in each of {len(found)} rows, "
                f"such as {found[0]:g}, like something measured: name a column of labels, or make "
                "these strings if each row is a group."
            )
        labels = np.array(found.tolist())
        if not len(labels):
            raise ValueError(f"The column of groups={name!r} holds no label: all are missing.")
        if labels.ndim > 1:
            raise ValueError(
                f"The column of groups={name!r} holds labels such as {found[0]!r}, which are none: "
                "make all of them strings."
            )
    elif len(found) and isinstance(labels[0], str) != isinstance(found[0], str):
        raise ValueError(
            f"The column of groups={name!r} holds {found.tolist()[0]!r}, and in the fit it held "
            f"{labels.tolist()[0]!r}: give labels of the same kind, strings or numbers."
        )
    known = {label: code for code, label in enumerate(labels.tolist())}
    of_found, new = np.empty(len(found)), []
    for i, label in enumerate(found.tolist()):
        of_found[i] = known.get(label, -2 - len(new))
        if label not in known:
            new.append(label)
    codes = np.full(len(column), -1.0)
    codes[~missing] = of_found[place]
    return codes, np.array([*labels.tolist(), *new]) if new else labels


def _is_missing(label):
    return label is None or type(label).__name__ in ("NAType", "NaTType") or label != label


def _column(X, place):
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    if issparse(X):
        return X.tocsr()[:, [place]].toarray()[:, 0]
    if hasattr(X, "columns"):
        return X[X.columns[place]]
    return X[:, place]


def _replaced(X, place, codes):
    """X with other numbers in one column; what is given stays as it is."""
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        X.isetitem(place, codes)
        return X
    if issparse(X):
        X = X.tocsr()
        of_codes = csr_matrix(codes[:, None].astype(X.dtype))
        return hstack([X[:, :place], of_codes, X[:, place + 1 :]], format="csr")
    if hasattr(X, "columns"):
        series = X[X.columns[place]]
        return X.with_columns(type(series)(X.columns[place], codes))
    X = X.astype(X.dtype if X.dtype.kind == "f" else object)
    X[:, place] = codes
    return X if X.dtype.kind == "f" else X.astype(np.float64)
