"""The column of groups, whose labels become codes, and the estimators that have one."""

from __future__ import annotations

from numbers import Real

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names

from skpmd._base.estimator import result
from skpmd._rows.rows import Rows
from skpmd._rows.table import is_in_memory
from skpmd.linear._crossed import Factors
from skpmd.linear._group_effects import EffectsOfGroups
from skpmd.linear._groups import Groups, grouped

GROUP_CONSTRAINTS = {
    "groups": [list, tuple, None],
    "slopes": [dict, None],
    "group_prior_scale": [Interval(Real, 1e-30, 1e30, closed="both")],
    "groups_at": [StrOptions({"own", "population"})],
}
MAX_FACTORS = 4
MAX_LEVELS, MAX_DENSE = 200, 5000  # Of factors whose effects are coordinates, and of normal rows.
_ALL = 1 << 62  # More rows than there are.
_ALL_ROWS = "groups={!r} needs all rows of a group together: call fit with all rows in memory{}."


class GroupColumns:
    """Mixin of estimators with parameters ``groups``, ``slopes`` and ``group_prior_scale``."""

    groups = slopes = None  # Of estimators that do not have these parameters.
    _group_roles = "groups", "slopes", "group_prior_scale"

    @property
    def _factors(self):
        """Names or places of the columns of groups, a list; without groups it is empty."""
        given, slopes = self.groups, self.slopes
        if given is None:
            if slopes:
                raise ValueError(f"slopes={slopes!r} are of groups: name their column in groups.")
            return []
        if isinstance(given, str) or not 0 < len(given) <= MAX_FACTORS:
            raise ValueError(
                f"groups must be a list with the names or the places of one to {MAX_FACTORS} "
                f"columns, got {given!r}."
            )
        return list(given)

    @property
    def _has_groups(self):
        return bool(self._factors)

    def _roles_of_groups(self):
        """{role: name or place} of the columns of groups."""
        factors = self._factors
        if len(factors) == 1:
            return {"groups": factors[0]}
        return {f"groups[{j}]": one for j, one in enumerate(factors)}

    def _refuse_parts(self, what):
        """ValueError, with what to do, of what has some of the rows only."""
        if self._has_groups:
            raise ValueError(_ALL_ROWS.format(self.groups, f", for {what} has a part of them"))

    def _refuse_rows_of_groups(self):
        """ValueError where log-likelihoods of single rows are asked for."""
        if self._has_groups:
            raise ValueError(
                f"groups={self.groups!r}: rows of a group are not independent given the particles, "
                "and leave-one-out estimates with groups are not available yet: use "
                "sklearn.model_selection.cross_val_score with GroupKFold."
            )

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

    def _in_order(self, codes, groups):
        """Codes (n, F) of several factors with that first whose effects are integrated out."""
        if codes is None or codes.ndim == 1:
            return codes
        for name, column in zip(self._factors, codes.T, strict=True):
            if column.min() < 0:
                raise ValueError(
                    f"The column of groups={name!r} has no label in row {column.argmin()}: with "
                    "several factors each row needs one of each. Leave such rows out."
                )
        return codes[:, groups.order]

    def _merge(self, estimators, X=None, y=None, sample_weight=None):
        """See `skpmd.merge`; posteriors of parts of groups' rows have no product."""
        for one in (self, *estimators):
            one._refuse_parts("each shard")
        return super()._merge(estimators, X, y, sample_weight)

    def _validated(self, X, y="no_validation", reset=False):
        """X, or X and y, as checked arrays, with codes of groups; see `LinearEstimator`."""
        if not reset:
            X, _ = self._coded(X)
        return super()._validated(X, y, reset)

    def _coded(self, X, labels=None):
        """X with codes in the place of the groups' columns, and the labels of each, (G,).

        Codes are places among ``labels``, by default those of the fit, or, of labels=(), those that
        are found. Missing groups have -1, and others that are no labels have numbers below that.
        """
        given = self._factors
        if not given:
            return X, None
        if labels is None:
            labels = [one.labels for one in self._state.response.family.groups.factors]
        if not is_in_memory(X) or hasattr(X, "dask"):
            raise ValueError(_ALL_ROWS.format(self.groups, ", and predict arrays or frames"))
        if not (hasattr(X, "shape") and len(X.shape) == 2):
            X = np.array(X, dtype=object)
        if X.ndim != 2 if hasattr(X, "ndim") else False:
            return X, labels  # Which checks refuse.
        names, found = _get_feature_names(X), []
        for one, known in zip(given, labels or [()] * len(given), strict=True):
            place = list(names).index(one) if names is not None and one in names else one
            if isinstance(place, str) or not -X.shape[1] <= place < X.shape[1]:
                return X, labels  # So it is no column, which is refused where all roles are.
            codes, known = codes_of(one, _column(X, place), known)
            X = _replaced(X, place % X.shape[1], codes)
            found.append(known)
        return X, found

    def _with_weight(self, codes, labels, weight):
        """Codes and labels of groups that have a row with a weight: others are not in the fit."""
        if codes is None or weight is None or (weight > 0.0).all():
            return codes, labels
        table = codes.reshape(len(codes), -1).T
        every = zip(self._factors, table, labels, strict=True)
        found = [self._of_weight(*one, weight) for one in every]
        codes = np.column_stack([one for one, _ in found]).reshape(codes.shape)
        return codes, [one for _, one in found]

    @staticmethod
    def _of_weight(name, codes, labels, weight):
        counted = np.unique(codes[(weight > 0.0) & (codes >= 0)]).astype(np.int64)
        if not len(counted):
            raise ValueError(f"The column of groups={name!r} has no label of a row with a "
                             "weight: sample_weight is zero at all of them.")  # fmt: skip
        place = np.full(len(labels) + 1, -1.0)  # The last is of rows without a group.
        place[counted] = np.arange(len(counted))
        return place[codes.astype(np.int64)], labels[counted]

    def _with_groups(self, response, labels, features):
        """A `Distribution` with effects of groups."""
        if not self._has_groups:
            return response
        slope, column, factors = None, -1, self._factors
        for factor, given in (self.slopes or {}).items():
            if len(factors) > 1:
                raise ValueError(
                    f"slopes={self.slopes!r} are for one factor, and groups={self.groups!r} are "
                    "several: set slopes=None, or name one factor."
                )
            if factor != factors[0] or isinstance(given, str) or len(given) != 1:
                raise ValueError(
                    f"slopes must be a dict with a list of one column for {factors[0]!r}, got "
                    f"{self.slopes!r}: more slopes are not available yet."
                )
            slope, features = given[0], [str(name) for name in features]
            if not isinstance(slope, str):
                slope = str(self._name_of(slope))
            if slope not in features:
                raise ValueError(
                    f"slopes={self.slopes!r} names {slope!r}, which is no column with a "
                    f"coefficient: these are {', '.join(features[:5])}."
                )
            column = features.index(slope)
        names, scale = [str(self._name_of(one)) for one in factors], float(self.group_prior_scale)
        # That with most levels is integrated out, or eliminated, first.
        first, *others = order = sorted(range(len(names)), key=lambda f: (-len(labels[f]), f))
        groups = Groups(names[first], labels[first], slope, column, scale)
        if not others:
            return response._replace(family=grouped(response.family, groups))
        others = tuple(Groups(names[f], labels[f], None, -1, scale) for f in others)
        has_levels = not response.family.is_conjugate
        n, most = sum(len(one.labels) for one in others), MAX_LEVELS if has_levels else MAX_DENSE
        if n > most:
            raise ValueError(
                f"groups={self.groups!r}: the factors beside {names[first]!r}, which has most "
                f"levels, have {n} levels in all, and at most {most} are possible with "
                f"family={response.family.name!r}. Leave one out, or join its rare levels."
            )
        groups = Factors(groups, others, tuple(order), has_levels)
        return response._replace(family=grouped(response.family, groups))

    def _name_of(self, column):
        """The name of a column that is given by its name or place."""
        if isinstance(column, str):
            return column
        names = getattr(self, "feature_names_in_", None)
        return f"x{column}" if names is None else names[column]

    @result
    def group_effects_(self) -> EffectsOfGroups | dict[str, EffectsOfGroups]:
        """Effects of the groups of the fit; see `EffectsOfGroups`.

        With several factors it is a dict of these by the factors' names, in the order of
        ``groups``, whose draws are joint ones. Raises AttributeError where there are no groups.
        """
        if self._state.effects is None:
            raise AttributeError("group_effects_ is not there: groups is None.")
        return self._state.effects


def in_groups(rows):
    """Columns of rows, a dict, sorted by their group; rows without one are groups of their own.

    Of several factors they are sorted by the first.
    """
    codes = rows.pop("group").astype(np.int64)
    missing = codes < 0
    codes[missing] = codes.max(initial=-1) + 1 + np.arange(missing.sum())
    first = codes if codes.ndim == 1 else codes[:, 0]
    if (np.diff(first) >= 0).all():
        return {**rows, "group": codes}
    order = np.argsort(first, kind="stable")
    some = {name: None if one is None else one[order] for name, one in rows.items()}
    return {**some, "group": codes[order]}


def codes_of(name, column, labels):
    """Codes (n,) of labels in a column, and the labels; see `GroupColumns._coded`."""
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
    of_found, n_new = np.empty(len(found)), 0
    for i, label in enumerate(found.tolist()):
        of_found[i] = known.get(label, -2 - n_new)
        n_new += label not in known
    codes = np.full(len(column), -1.0)
    codes[~missing] = of_found[place]
    return codes, labels


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
