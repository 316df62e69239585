"""Rows sorted by their groups, those that are held for groups that go on, and codes of labels."""

import numpy as np
from scipy.sparse import csr_matrix, hstack, issparse

from skpmd._base.retained import RetainedRows
from skpmd._rows.samples import shares_of
from skpmd._runtime.threads import in_order
from skpmd.engine.model import Batch

# Groups are drawn with no smaller probability than of so many halvings, and those of each are seen
# in so many parts.
_LEVELS, _PARTS = 20, 8
_PAIRS = 1 << 14  # Pairs of rows of a group that are in memory together.
_LARGEST = 2.0**53  # From here on floats are not all whole numbers.
# Of a piece; more are of few particles, or where tables of all particles are not held.
FEW_ROWS, SOME_ROWS, MANY_ROWS = 1 << 10, 1 << 13, 1 << 14


def in_groups(rows):
    """Columns of rows, a dict, sorted by their group; rows without one are groups of their own.

    These come first, and have codes below zero. Of several factors they are sorted by the first.
    """
    codes = rows.pop("group").astype(np.int64)
    first = codes if codes.ndim == 1 else codes[:, 0]
    missing = first < 0
    first[missing] = np.arange(-missing.sum(), 0)
    if (np.diff(first) >= 0).all():
        return {**rows, "group": codes}
    order = np.argsort(first, kind="stable")
    some = {name: None if one is None else one[order] for name, one in rows.items()}
    return {**some, "group": codes[order]}


def rows_of_groups(rows):
    """`RetainedRows` of the `Rows` of a fit, for a stream that goes on; None of too many.

    With several factors no stream goes on.
    """
    n = len(rows)
    if rows.data.group.ndim > 1:
        return None
    found = RetainedRows(rows.data, n_fitted=n).unless_much()
    return None if found is None else found.select(np.arange(n))  # X may be the user's.


def put_together(retained, n_new):
    """`RetainedRows` sorted by groups, the last ``n_new`` of which are new.

    The posterior is to be found anew where one of these is in a group that had rows before.
    """
    group, first = retained.rows.group, retained.n_rows - n_new
    if group is None or (group[first] > group[:first].max(initial=-1) and group[first] >= 0):
        return retained
    return retained._replace(rows=Batch(**in_groups(retained.rows._asdict())), n_fitted=0)


def first_codes(batch):
    """Codes (n,) of the factor whose effects are integrated out."""
    return batch.group if batch.group.ndim == 1 else batch.group[:, 0]


def _edges(batch):
    """Where groups begin in a batch, and its end, (G + 1,)."""
    codes = first_codes(batch)
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])


def group_pieces(batch, most=MANY_ROWS, n_rows=FEW_ROWS):
    """Some whole groups at a time, ``most`` at most: slices of rows, and where groups begin."""
    edges, first = _edges(batch), 0
    while first < len(edges) - 1:
        last = max(first + 1, np.searchsorted(edges, edges[first] + n_rows, side="right") - 1)
        last = min(last, first + max(1, most))
        yield slice(edges[first], edges[last]), edges[first : last + 1] - edges[first]
        first = last


class GroupTerms:
    """Groups as what samples are of; see `skpmd.proposals.control_variates`.

    An integral counts for several by a number that a whole batch has, so that there is a batch for
    each: groups are drawn with probabilities 1, 1/2, 1/4 and so on.
    """

    def __init__(self, rows):
        self._rows, self._edges = rows, _edges(rows.data)
        self.weight = np.ones(len(self._edges) - 1)

    def uniform(self, n, rng):
        """A batch of n groups that stand for all."""
        G = len(self.weight)
        return self._batch(np.sort(rng.choice(G, n, replace=False)), G / n)

    def drawn(self, sizes, n, rng):
        """Batches of groups that stand for all, drawn by sizes, and strata of parts."""
        share = shares_of(sizes, self.weight, n)
        level = np.clip(np.floor(np.log2(share.sum() / n / share)), 0, _LEVELS).astype(int)
        batches, strata = [], []
        for k in np.unique(level):
            places = np.flatnonzero(level == k)
            few = max(2, round(len(places) * 0.5**k)) if k else len(places)
            chosen = rng.permutation(places)[:few] if few < len(places) else places
            times = len(places) / len(chosen)
            batches.append(self._batch(np.sort(chosen), times))
            n_parts = min(_PARTS, len(chosen)) if times > 1.0 else 1
            parts = [np.sort(chosen[i::n_parts]) for i in range(n_parts)]
            strata.append([self._batch(part, times) for part in parts])
        return batches, strata

    def _batch(self, places, times):
        first, last = self._edges[places], self._edges[places + 1]
        size = last - first
        rows = np.arange(size.sum()) + np.repeat(first - np.cumsum(size) + size, size)
        return self._rows.take(rows)._replace(times=np.full(len(rows), times))


# -------------------------------------------------------------------- rows and groups left out
# Densities are ratios of integrals: effects are integrated out, so that a row is left out of its
# group too (Vehtari et al. 2016, Bayesian leave-one-out cross-validation approximations for
# Gaussian latent variable models).
def of_groups(model, theta, batch):
    """Log density of all rows of each group together, (m, G), in the order of the batch.

    Rows of the batch are sorted by their group, and theta (m, d) are coefficients.
    """
    known, starts = model.split(theta), _edges(batch)
    own = np.add.reduceat(_own(model, known[1], batch, batch.weight), starts[:-1], axis=1)
    return _integrals(model, known, batch) + own


def of_rows(model, theta, batch):
    """Log densities (m, n) given the other rows of the group, of one copy and of all copies."""
    known, starts, n = model.split(theta), _edges(batch), len(batch.weight)
    which = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    whole = _integrals(model, known, batch)[:, which]
    rest = _without_rows(model, known, batch, starts, None)
    one, own = whole, _own(model, known[1], batch, np.ones(n))
    if (batch.weight != 1.0).any():
        one = _without_rows(model, known, batch, starts, 1.0)
    return one - rest + own, whole - rest + batch.weight * own


def _integrals(model, known, batch):
    """Logs of the groups' integrals (m, G), without what is the same for all predictors."""

    def of(piece):
        parts = model.integrals(known, batch, *piece, 0)
        return np.concatenate([values for _, values, *_ in parts])

    return np.concatenate(list(in_order(of, group_pieces(batch))), axis=1)


def _without_rows(model, known, batch, starts, weight):
    """The same (m, n) of each row's group where the row has this weight; None is without it."""
    out = np.zeros((len(known[0]), len(batch.weight)))
    sizes = np.diff(starts)
    some = np.flatnonzero(sizes > (weight is None))  # Of a row alone nothing is left.
    pieces = np.cumsum(sizes[some].astype(np.float64) ** 2) // _PAIRS
    for piece in np.unique(pieces):
        places, rows, counts = [], [], []
        for g in some[pieces == piece]:
            all_, k = np.arange(starts[g], starts[g + 1]), sizes[g]
            table = np.tile(all_, (k, 1))
            is_left = np.eye(k, dtype=bool) if weight is None else np.zeros((k, k), dtype=bool)
            places.append(table[~is_left])
            rows.append(all_)
            counts.append(np.full(k, k - (weight is None)))
        places, rows = np.concatenate(places), np.concatenate(rows)
        group = np.repeat(rows, np.concatenate(counts))
        others = batch.take(places)._replace(group=group)
        if weight is not None:
            others = others._replace(weight=np.where(places == group, weight, others.weight))
        out[:, rows] = _integrals(model, known, others)
    return out


def _own(model, phi, batch, weight):
    """What rows (m, n) of these weights add, the same for all predictors."""
    (y, size, _), out = model._columns(batch, slice(None)), np.empty((len(phi), len(weight)))
    for i in range(len(weight)):
        row = slice(i, i + 1)
        out[:, i] = model.family.rest(phi, y[row], size[row], weight[row])
    return out - weight * model.log_unit


# -------------------------------------------------------------------- columns of labels
def codes_of(name, column, labels):
    """Codes (n,) of labels in a column, and the labels, of which new ones are last.

    See `GroupColumns._coded`.
    """
    given, column = column, np.asarray(column)
    kind = getattr(getattr(given, "dtype", None), "kind", column.dtype.kind)
    if column.dtype.kind in "iub":
        missing = np.zeros(len(column), dtype=bool)
    elif column.dtype.kind == kind == "f":  # Not pandas' whole numbers beside missing ones.
        missing = np.isnan(column)
        if (np.abs(column) >= _LARGEST).any():
            raise ValueError(
                f"The column of groups={name!r} holds {column[np.nanargmax(np.abs(column))]:.0f} "
                "as a float, and labels so large may have been rounded to one: make them strings."
            )
    else:
        column = np.asarray(given, dtype=object)
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
        labels = _as_array(found.tolist())
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
    return codes, _as_array([*labels.tolist(), *new]) if new else labels


def _as_array(labels):
    """An array of labels, of objects where they are others in one of numbers or words.

    So are words that end with a zero byte, and large integers among fractions. Time stamps of
    pandas, which no file of skops can hold, are dates of Python where nothing is lost.
    """
    labels = [_of_python(one) for one in labels]
    found = np.array(labels)
    return found if found.tolist() == labels else np.array(labels, dtype=object)


def _of_python(label):
    if hasattr(label, "to_pytimedelta"):
        plain = label.to_pytimedelta()
    else:
        plain = label.to_pydatetime(warn=False) if hasattr(label, "to_pydatetime") else label
    return plain if plain == label else label


def _is_missing(label):
    return label is None or type(label).__name__ in ("NAType", "NaTType") or label != label


def with_weights(name, codes, labels, weight, n_known):
    """Codes and labels of groups that have a row with a weight, or were known before."""
    found = np.unique(codes[(weight > 0.0) & (codes >= 0)]).astype(np.int64)
    found = np.union1d(np.arange(n_known), found)
    if not len(found):
        raise ValueError(f"The column of groups={name!r} has no label of a row with a "
                         "weight: sample_weight is zero at all of them.")  # fmt: skip
    place = np.full(len(labels) + 1, -1.0)  # The last is of rows without a group.
    place[found] = np.arange(len(found))
    return place[codes.astype(np.int64)], labels[found]


def column_of(X, place):
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    if issparse(X):
        return X.tocsr()[:, [place]].toarray()[:, 0]
    if hasattr(X, "columns"):
        return X[X.columns[place]]
    return X[:, place]


def replaced(X, place, codes):
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
