"""Rows sorted by their groups, and those that a fit or a stream holds for groups that go on."""

import numpy as np

from skpmd._base.retained import RetainedRows
from skpmd.engine.model import Batch


def in_groups(rows):
    """Columns of rows, a dict, sorted by their group; rows without one are groups of their own.

    These come first, and have codes below zero.
    """
    codes = rows.pop("group").astype(np.int64)
    missing = codes < 0
    codes[missing] = np.arange(-missing.sum(), 0)
    if (np.diff(codes) >= 0).all():
        return {**rows, "group": codes}
    order = np.argsort(codes, kind="stable")
    some = {name: None if one is None else one[order] for name, one in rows.items()}
    return {**some, "group": codes[order]}


def rows_of_groups(rows):
    """`RetainedRows` of the `Rows` of a fit, for a stream that goes on; None of too many."""
    n = len(rows)
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
