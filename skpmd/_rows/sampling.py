"""Some rows of many: the distinct ones, samples that represent all, and rows to be scored."""

import numpy as np

_ROUNDING, _TINY = 1e-12, np.finfo(np.float64).tiny
_MAX_ROWS, _MAX_FRACTION = 1000, 0.2  # At most so many rows, of all rows, are held out.


def merged(weight, X, *columns):
    """Places of the distinct rows, in sorted order, and the total weight of each.

    ``weight`` has the shape (n,) and X (n, p). Rows have to agree in ``columns``, of shape (n,) or
    (n, t), too. A weight that is one number broadcast stays so where all rows are distinct.
    """
    parts = [column.reshape(len(column), -1) for column in (*columns, sortable(X))]
    first, *others = [column for part in parts for column in part.T]
    order = np.argsort(first, kind="stable")
    if len(order) <= np.iinfo(np.int32).max:
        order = order.astype(np.int32)  # Half the memory.
    new = _differs(first, order)
    for column in others:
        # Rows that follow an equal one, and the one before: few columns leave none.
        tied = np.flatnonzero(~new | ~np.append(new[1:], True))
        if not len(tied):
            break
        if _is_one_number(column):
            continue
        groups = np.cumsum(new[tied])
        some = order[tied]
        some = some[np.lexsort([column[some], groups])]
        order[tied] = some
        new[tied] |= _differs(column, some)
    if new.all():
        return order, weight if _is_one_number(weight) else weight[order]
    starts = np.flatnonzero(new)
    return order[starts], np.add.reduceat(weight[order], starts)


def _differs(column, order):
    """Whether each row, in this order, has another value than the one before it."""
    values = column[order]
    return np.append(True, values[1:] != values[:-1])


def _is_one_number(weight):
    return weight.strides == (0,)


def stratified_sample(weight, n, rng):
    """Places of rows drawn one from each of n equal strata of the total weight, and their weights.

    Sorted rows are all represented, each in proportion to its weight; the weights returned add up
    to n. A row that weighs as much as a stratum is drawn for certain and counts for what it weighs,
    and no other row is drawn twice (Deville's systematic sampling; Chauvet 2012): pairs of equal
    rows would be evidence that there is hardly any noise.
    """
    if _is_one_number(weight):
        n_rows, unit = len(weight), n / len(weight)
        if unit >= 1.0:
            return np.arange(n_rows), np.full(n_rows, unit)
        edges = np.arange(1, n) / unit
        start = np.floor(edges)
        at = _in_strata((edges - start) * unit, (start + 1.0 - edges) * unit, rng)
        return np.minimum((at / unit).astype(int), n_rows - 1), np.ones(n)
    unit = n / weight.sum()
    heavy = np.flatnonzero(weight * unit >= 1.0)
    if not len(heavy):
        return _light_sample(weight, n, rng), np.ones(n)
    counts = weight[heavy] * unit
    light = np.delete(np.arange(len(weight)), heavy)
    left = n - counts.sum() if len(light) else 0.0
    n_light = int(min(max(1.0, np.floor(left + _ROUNDING * n)), len(light)))
    drawn = light[_light_sample(weight[light], n_light, rng)] if n_light else light
    places = np.concatenate([heavy, drawn])
    counts = np.concatenate([counts, np.full(n_light, max(0.0, left) / max(1, n_light))])
    order = np.argsort(places[counts > 0.0])
    return places[counts > 0.0][order], counts[counts > 0.0][order]


def _light_sample(weight, n, rng):
    """Places of n rows, each of which weighs less than one of n strata of their total weight."""
    ends = np.cumsum(weight)
    unit = n / ends[-1]
    edges = np.arange(1, n) / unit
    across = np.minimum(np.searchsorted(ends, edges, side="right"), len(weight) - 1)
    before = edges - (ends[across] - weight[across])
    at = _in_strata(before * unit, (ends[across] - edges) * unit, rng)
    return np.minimum(np.searchsorted(ends, at / unit, side="right"), len(weight) - 1)


def _in_strata(before, after, rng):
    """A place in each of n strata of length one, (n,), never two in a row that lies across an edge.

    The row at the edge after a stratum has the lengths ``before`` and ``after`` (n - 1,) in the two
    strata. Each place is uniform in its stratum. Where the row has been drawn before the edge it is
    not after it, and else it is so much more often.
    """
    before, after = (np.maximum(one, 0.0) for one in (before, after))
    u = rng.random(len(before) + 1)
    drawn = after + (1.0 - after) * u[1:]  # Where the row has been drawn before.
    share = np.minimum(after / np.maximum(1.0 - before, _TINY), 1.0)
    beyond = np.maximum(u[1:] - share, 0.0) / np.maximum(1.0 - share, _TINY)
    other = np.where(u[1:] < share, u[1:] * (1.0 - before), after + (1.0 - after) * beyond)
    # Whether the row at the next edge is drawn; it depends on the last stratum where either may be.
    edge = 1.0 - np.append(before[1:], 0.0)
    follows, starts = drawn >= edge, other >= edge
    known = np.append(True, follows == starts)
    last = np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
    first = u[0] >= 1.0 - before[0] if len(before) else False
    was_drawn = np.append(first, starts)[last][:-1]
    return np.arange(len(u)) + np.append(u[0], np.where(was_drawn, drawn, other))


def distinct(X):
    """Places of the distinct rows, in sorted order, and of each row among them."""
    _, first, which = np.unique(sortable(X), axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


def sortable(X):
    """Rows of numbers, of whatever a kernel takes in place of vectors."""
    if X.dtype.kind == "f":
        return X
    return np.unique(X, return_inverse=True)[1].reshape(len(X), -1).astype(np.float64)


def n_held_out(n):
    """How many of n rows are held out."""
    return max(1, min(_MAX_ROWS, int(_MAX_FRACTION * n)))


def hold_out(rows, rng):
    """Rows to fit first, and rows whose predictions are scored before they are added too.

    Equal rows stay together: copies of a row are its weight. None where all are equal.
    """
    data = rows.data
    columns = [sortable(data.X), data.y] + ([] if data.noise is None else [data.noise])
    first, which = distinct(np.column_stack(columns))
    n = len(first)
    if n < 2:
        return None
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[: n_held_out(n)]] = True
    last = chosen[which]
    return rows.only(~last), rows.only(last)
